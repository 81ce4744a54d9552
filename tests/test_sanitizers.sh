#!/usr/bin/env bash
# Builds everything with AddressSanitizer and UndefinedBehaviorSanitizer and runs the tests of the native device and of the program's parts.
# Usage: test_sanitizers.sh <source directory> <build directory> [fault]
#   fault   only test_fault, on PoCL: every call of OpenCL, every allocation and every call on a file fails once
set -eu
source=$1 build=$2 mode=${3-}
flags="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$flags" -DCLMOE_BUILD_TESTS=ON -DCLMOE_BUILD_EXAMPLES=ON \
    -DCLMOE_BUILD_MUTANTS=OFF >"$build.log"
if [[ $mode == fault ]]; then
    cmake --build "$build" -j2 --target test_fault >>"$build.log"
    # Of the drivers PoCL alone, see below; what it and LLVM leave behind when they compile is not ours.
    printf 'leak:%s\n' libpocl.so libLLVM libOpenCL.so >"$build/suppressions"
    export OCL_ICD_VENDORS=pocl.icd POCL_DEVICES=basic OPENCL_LAYERS=$build/tests/libclmoe_fault_layer.so CLMOE_TEST_PAIR=pocl-serial
    LSAN_OPTIONS=suppressions=$build/suppressions exec "$build/tests/test_fault"
fi
tests=(test_align test_align_peers test_align_trace test_route test_route_cases test_route_align test_queue test_histogram test_scan
    test_scatter test_selftest test_sort test_cache test_models test_tuning test_npy)
cmake --build "$build" -j2 --target "${tests[@]}" test_devices align_host route_host >>"$build.log"
# No driver: Clover's library throws before a C program has a C++ runtime, which ends AddressSanitizer.
mkdir -p "$build/no-driver"
export OCL_ICD_VENDORS=$build/no-driver CLMOE_TEST_PAIR=native CLMOE_TEST_CASES=${CLMOE_TEST_CASES-10}
for test in "${tests[@]}"; do
    "$build/tests/$test"
done
"$build/examples/align_host"
"$build/examples/route_host"
CLMOE_TEST_DEVICES=none "$build/tests/test_devices"
