#!/usr/bin/env bash
# Installs the build into a fresh prefix and uses it as somebody else would: find_package, pkg-config, headers alone as C11 and C++17,
# names of the exported symbols, the kernels as files.
# Usage: test_install.sh <build directory> <source directory> <scratch directory>
set -u
build=$1 source=$2 scratch=$3
passed=0 failed=0
check() { # check <what> <command ...>
    local what=$1
    shift
    if "$@" >"$scratch/log" 2>&1; then
        passed=$((passed + 1)) && echo "ok      $what"
    else
        failed=$((failed + 1)) && echo "FAILED  $what" && sed 's/^/        /' "$scratch/log"
    fi
}
rm -rf "$scratch" && mkdir -p "$scratch"
prefix=$scratch/prefix

check "install" cmake --install "$build" --prefix "$prefix"
check "find_package configures" cmake -S "$source/tests/consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$prefix"
check "find_package builds" cmake --build "$scratch/consumer"
check "find_package runs" "$scratch/consumer/consumer"

pc=$(find "$prefix" -name clmoe.pc)
library=$(find "$prefix" -name 'libclmoe.so' -o -name 'libclmoe.a' | head -n 1)
pkg_config_builds() {
    local flags
    flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config $([ "${library##*.}" = a ] && echo --static) --cflags --libs clmoe) || return 1
    eval "cc \"\$source/tests/consumer/consumer.c\" $flags -o \"\$scratch/consumer-pc\"" && LD_LIBRARY_PATH=$(dirname "$library") "$scratch/consumer-pc"
}
check "pkg-config builds and runs" pkg_config_builds

for header in clmoe core moe primitives; do
    echo "#include <clmoe/$header.h>" >"$scratch/header.c"
    cp "$scratch/header.c" "$scratch/header.cpp"
    check "$header.h alone as C11" cc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$prefix/include" -fsyntax-only "$scratch/header.c"
    check "$header.h alone as C++17" c++ -std=c++17 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$prefix/include" -fsyntax-only "$scratch/header.cpp"
done

symbols_have_prefix() {
    local others
    others=$(nm -D --defined-only "$library" | awk '{print $3}' | grep -v '^clmoe_' | grep -v '^_\(init\|fini\)$')
    [ -z "$others" ] || { echo "exported without the prefix: $others" && return 1; }
    nm -D --defined-only "$library" | grep -q ' clmoe_align_enqueue$'
}
internals_are_hidden() {
    local declared exported
    declared=$(grep -ohE 'CLMOE_API [^;(]*clmoe_[a-z_]+\(' "$prefix"/include/clmoe/*.h | grep -oE 'clmoe_[a-z_]+\($' | tr -d '(' | sort)
    exported=$(nm -D --defined-only "$library" | awk '{print $3}' | grep '^clmoe_' | sort)
    [ "$declared" = "$exported" ] || { diff <(echo "$declared") <(echo "$exported") && return 1; }
}
if [ "${library##*.}" = so ]; then
    check "exported symbols have the prefix" symbols_have_prefix
    check "just the declared functions are exported" internals_are_hidden
fi
library_is_quiet() {
    ! nm -D --undefined-only "$library" | awk '{print $2}' | sed 's/@.*//' | grep -xE 'printf|puts|putchar|exit|abort|_exit|atexit|perror'
}
[ "${library##*.}" = so ] && check "nothing in the library prints or exits" library_is_quiet
for file in shared.h parallel/group.cl {align,histogram,route,scan,scatter,sort}.h \
    {serial,parallel}/{align,histogram,route,route_align,scan,scatter,sort}.cl; do
    check "kernel file $file" cmp "$source/cl/$file" "$prefix/share/clmoe/cl/$file"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
