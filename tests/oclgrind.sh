#!/usr/bin/env bash
# Runs test_oclgrind, and holds what its kernels execute against oclgrind_counts.csv: instructions, accesses to memory, atomics and barriers,
# which are the same on every machine. Fails on a report or a wrong result, a number that has grown, and a call and kernel without a line.
# Usage: oclgrind.sh [--update] <program test_oclgrind> <scratch directory>
#   --update  writes the counts anew
set -u
export LC_ALL=C
update=
[ "$1" = --update ] && update=1 && shift
program=$1 scratch=$2
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
counts=$here/oclgrind_counts.csv
export CLMOE_TEST_PAIR=oclgrind-parallel OCL_ICD_VENDORS=/usr/lib/oclgrind/liboclgrind-rt-icd.so
[ -f "$OCL_ICD_VENDORS" ] || { echo "missing: $OCL_ICD_VENDORS" && exit 1; }
mkdir -p "$scratch" && cd "$scratch" || exit 1

failed=0
fail() {
    echo "FAILED  $*"
    failed=$((failed + 1))
}

printf '%s\n' races wide-races uninitialized wide-uninitialized |
    xargs -P 2 -I{} bash -c 'CLMOE_TEST_OCLGRIND={} "$1" >{}.out 2>&1; echo $? >{}.status' bash "$program"
for what in races wide-races uninitialized wide-uninitialized; do
    [ "$(cat $what.status)" = 0 ] || { fail "$what" && grep -vE '^ +[0-9]+ - |^Instructions' $what.out | tail -n 60; }
done

# A line for each call and kernel: the sum over its launches.
{
    echo "call,kernel,instructions,global_loads,global_stores,local_loads,local_stores,atomics,barriers"
    sed 's/^call /&wide: /' wide-races.out | cat races.out - | awk -F"'" -v OFS=, '
        /^call / { call = substr($0, 6) }
        /^Instructions executed for kernel/ { key = call "," $2; if (!(key in all)) order[++n] = key; all[key] += 0 }
        !/^ +[0-9]+ - / { next }
        { count = $0 + 0; all[key] += count }
        / - load global/ { loads[key] += count }
        / - store global/ { stores[key] += count }
        / - load local/ { local_loads[key] += count }
        / - store local/ { local_stores[key] += count }
        / - call .*atomic_/ { atomics[key] += count }
        / - call .*barrier/ { barriers[key] += count }
        END {
            for (i = 1; i <= n; ++i) {
                key = order[i]
                print key, all[key], loads[key] + 0, stores[key] + 0, local_loads[key] + 0, local_stores[key] + 0, atomics[key] + 0, barriers[key] + 0
            }
        }'
} >found.csv
if [ -n "$update" ]; then
    [ "$failed" -eq 0 ] || { echo "--update needs a run without failures" && exit 1; }
    cp found.csv "$counts" || exit 1
fi
awk -F, '
    { key = $1 FS $2 }
    FNR == 1 { for (i = 3; i <= NF; ++i) what[i] = $i; next }
    file == 1 { lines[key] = $0; next }
    { found[key] = 1 }
    !(key in lines) { print "oclgrind_counts.csv has no line for " $2 " in " $1; next }
    {
        split(lines[key], limit)
        for (i = 3; i <= NF; ++i)
            if ($i > limit[i] + 0) print $2 " in " $1 ": " $i " " what[i] ", " limit[i] " are written down"
    }
    END { for (key in lines) if (!(key in found)) print "oclgrind_counts.csv has a line, but there is no call: " key }
    ' file=1 "$counts" file=2 found.csv >faults || fail "oclgrind_counts.csv cannot be compared"
while read -r fault; do
    fail "$fault"
done < <(sort faults)
echo "$(grep -c '^call' races.out) + $(grep -c '^call' wide-races.out) calls, $(($(wc -l <found.csv) - 1)) lines of counts, $failed failed"
[ "$failed" -eq 0 ]
