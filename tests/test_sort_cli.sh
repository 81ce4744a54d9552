#!/usr/bin/env bash
# `clmoe sort` of 1,048,577 pairs, as a person would run it: on each pair of device and class the same files, with stored checksums of the
# stable order, computed with another program. Usage: test_sort_cli.sh <clmoe> <make_keys> <cksum of keys> <cksum of order>
set -u
clmoe=$1 make_keys=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export RUSTICL_ENABLE=llvmpipe
keys_sum=$3 values_sum=$4
passed=0 failed=0
"$make_keys" "$scratch/keys.npy" 1048577
for pair in native:serial Portable:serial Portable:parallel rusticl:serial rusticl:parallel; do
    if "$clmoe" sort "$scratch/keys.npy" --device "${pair%:*}" --class "${pair#*:}" --cache-dir none \
        -o "$scratch/sorted.npy" --out-values "$scratch/order.npy" 2>"$scratch/log" &&
        [ "$(cksum <"$scratch/sorted.npy")" = "$keys_sum" ] && [ "$(cksum <"$scratch/order.npy")" = "$values_sum" ]; then
        passed=$((passed + 1)) && echo "ok      $pair  $keys_sum  $values_sum"
    else
        failed=$((failed + 1)) && echo "FAILED  $pair  $(cksum <"$scratch/sorted.npy")  $(cksum <"$scratch/order.npy")" && cat "$scratch/log"
    fi
    rm -f "$scratch/sorted.npy" "$scratch/order.npy"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
