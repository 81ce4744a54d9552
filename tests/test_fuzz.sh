#!/usr/bin/env bash
# The fuzz targets: builds them, or runs one from its corpus.
# Usage: test_fuzz.sh build <source directory> <build directory> <clang>
#        test_fuzz.sh runs|seconds <source directory> <build directory> <target> <number>   (CLMOE_FUZZ_SECONDS goes before seconds)
# An input that fails is left in the build directory; run the program with its name alone to see it again.
set -euo pipefail
mode=$1 source=$2 build=$3

if [[ $mode == build ]]; then
    flags="-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
    cmake -S "$source" -B "$build" --log-level=NOTICE -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$4" -DCMAKE_C_FLAGS="$flags" \
        -DCLMOE_COMPILER_HAS_avx2=OFF -DCLMOE_COMPILER_HAS_avx512=OFF -DBUILD_SHARED_LIBS=OFF -DCLMOE_BUILD_TESTS=ON -DCLMOE_BUILD_MUTANTS=OFF -DCLMOE_BUILD_FUZZERS=ON
    cmake --build "$build" -j2 --target fuzz_npy fuzz_options fuzz_calls >"$build/build.log" || { cat "$build/build.log" && exit 1; }
    exit
fi

target=$4 number=$5
found=$build/found-$mode-$target # what a long run adds
corpus=$source/tests/corpus
rm -rf "$found"
mkdir -p "$found"
options=(-rss_limit_mb=4096 -timeout=60 -print_final_stats=1 -artifact_prefix="$build/$target-")
[[ ! -f $corpus/$target.dict ]] || options+=(-dict="$corpus/$target.dict")
if [[ $mode == runs ]]; then
    options+=(-seed=1 -runs="$number")
else
    options+=(-max_total_time="${CLMOE_FUZZ_SECONDS:-$number}")
fi
"$build/tests/fuzz_$target" "${options[@]}" "$found" "$corpus/$target" 2>&1 | tail -n 60
