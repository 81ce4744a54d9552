#!/usr/bin/env bash
# Builds the library and test_threads with ThreadSanitizer and runs that on the native device and on PoCL; with a race put in, it must be
# reported.
# Usage: test_tsan.sh <source directory> <build directory>
set -euo pipefail
source=$1 build=$2
cmake -S "$source" -B "$build" --log-level=NOTICE -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=thread" \
    -DCLMOE_COMPILER_HAS_avx2=OFF -DCLMOE_COMPILER_HAS_avx512=OFF -DCLMOE_BUILD_TESTS=ON -DCLMOE_BUILD_MUTANTS=OFF -DCLMOE_BUILD_CLI=OFF
cmake --build "$build" -j2 --target test_threads test_threads_racing >"$build/build.log" || { cat "$build/build.log" && exit 1; }
export TSAN_OPTIONS="second_deadlock_stack=1 ${TSAN_OPTIONS-}" # a report makes the exit status 66
export OCL_ICD_VENDORS=pocl.icd CLMOE_TEST_CASES=${CLMOE_TEST_CASES-50}
for pair in ${CLMOE_TSAN_PAIRS-native pocl-serial pocl-parallel}; do
    echo "$pair"
    CLMOE_TEST_PAIR=$pair "$build/tests/test_threads"
done
echo "native, with a race"
CLMOE_TEST_PAIR=native "$build/tests/test_threads_racing" >"$build/racing.log" 2>&1 || true
grep -m 1 "WARNING: ThreadSanitizer: data race" "$build/racing.log" || { tail "$build/racing.log" && exit 1; }
