#!/bin/bash
# Where the program keeps what it compiles, and what it does where it can't: no home, nothing that can be written, directories and entries
# open to others, broken entries, a build that failed. Results are right every time, with one warning at most.
#   test_cache_cli.sh PROGRAM LIBRARY_DIRECTORY FAULT_LAYER DATA_DIRECTORY
# For root nothing is read-only, so root runs the program as nobody.
set -u
. "$(dirname "$(realpath "$0")")/cli.sh"
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/bin" "$work/run"
cp "$1" "$work/bin/clmoe"
cp -P "$2"/libclmoe.so* "$work/bin/" 2>/dev/null # not there if the library is static
cp "$3" "$work/bin/layer.so"
cp "$4/gptoss20b_decode_topk_ids.npy" "$work/bin/ids.npy"
cd "$work/run" || exit 1
user=()
if [[ $(id -u) == 0 ]]; then
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown 65534:65534 "$work/run"
fi
as_user() { "${user[@]}" "$@"; }
as_user mkdir pocl

# run [VARIABLE=VALUE...] [-- ARGUMENT...]: one align on PoCL with these variables and none but what PoCL needs; gives code, err and out/.
run() {
    local variables=()
    while [[ $# -gt 0 && $1 != -- ]]; do
        variables+=("$1")
        shift
    done
    [[ $# -eq 0 ]] || shift
    rm -rf out
    as_user env -i PATH="$PATH" LD_LIBRARY_PATH="$work/bin" OCL_ICD_VENDORS=pocl.icd POCL_DEVICES=basic POCL_CACHE_DIR="$work/run/pocl" \
        CLMOE_DEVICE=Portable "${variables[@]}" "$work/bin/clmoe" align "$work/bin/ids.npy" --at 11,20 --experts 32 --block 16 -o out "$@" \
        >stdout 2>err
    code=$?
}
is_right() { [[ $code == 0 ]] && diff -r native out >/dev/null; }
is_silent() { is_right && [[ ! -s err ]]; }
has_one_warning() { is_right && [[ $(wc -l <err) == 1 ]] && grep -q "warning: .*cache" err; }
entries() { find "$1" -name '*.clmoe' | wc -l; }
files() { find "$1" -mindepth 1 | wc -l; }
is_hit() { is_right && grep -q "program from cache" err; }

run CLMOE_DEVICE=native
mv out native
ls -A >here-before

# ---- Nowhere
run
check "no HOME and no XDG_CACHE_HOME" is_silent
run HOME=
check "an empty HOME" is_silent
run HOME=somewhere XDG_CACHE_HOME=somewhere
check "relative paths are not followed" is_silent
check "nothing was written in the current directory" eval 'ls -A | grep -v "^out$" | diff - here-before'
for place in HOME=/dev/null HOME=/proc/nope XDG_CACHE_HOME=/proc/nope CLMOE_CACHE_DIR=/dev/null/x "CLMOE_CACHE_DIR=/$(printf '%05000d' 1)" \
    "CLMOE_CACHE_DIR=/$(printf '%0200d/' {1..30})"; do
    run "$place"
    check "${place:0:60}: one warning" has_one_warning
done

# ---- A place
run XDG_CACHE_HOME="$PWD/xdg" HOME="$PWD/home"
check "XDG_CACHE_HOME before HOME" eval 'is_silent && [[ $(entries xdg/clmoe) == 1 && ! -e home ]]'
check "the directory is the user's alone" eval '[[ $(stat -c %a xdg/clmoe) == 700 && $(stat -c %a xdg/clmoe/*.clmoe) == 600 ]]'
run XDG_CACHE_HOME="$PWD/xdg" -- -v
check "found there" is_hit
run HOME="$PWD/home"
check "HOME" eval 'is_silent && [[ $(entries home/.cache/clmoe) == 1 ]]'
run XDG_CACHE_HOME="$PWD/no" CLMOE_CACHE_DIR="$PWD/no" -- --cache-dir none
check "--cache-dir none" eval 'is_silent && [[ ! -e no ]]'
run XDG_CACHE_HOME="$PWD/no" CLMOE_CACHE_DIR=none
check "CLMOE_CACHE_DIR=none" eval 'is_silent && [[ ! -e no ]]'

# ---- A place that is closed, or open to others
as_user mkdir closed closed/home closed/cache
as_user chmod 555 closed/home closed/cache
run HOME="$PWD/closed/home"
check "a read-only home: one warning" eval 'has_one_warning && [[ $(files closed/home) == 0 ]]'
run CLMOE_CACHE_DIR="$PWD/closed/cache"
check "a read-only cache: one warning" eval 'has_one_warning && [[ $(files closed/cache) == 0 ]]'
as_user chmod 555 xdg/clmoe
run XDG_CACHE_HOME="$PWD/xdg" -- -v
check "a read-only cache with the entry: used" is_hit
as_user chmod 700 xdg/clmoe
run CLMOE_CACHE_DIR="$PWD/mine"
check "CLMOE_CACHE_DIR" eval 'is_silent && [[ $(entries mine) == 1 ]]'
as_user chmod 777 mine
run CLMOE_CACHE_DIR="$PWD/mine" -- -v
check "a cache that others can write: not used" eval 'is_right && grep -q "can be written by other users" err && ! is_hit'
as_user ln -s mine link
run CLMOE_CACHE_DIR="$PWD/link"
check "nor through a link" has_one_warning
as_user chmod 700 mine
run CLMOE_CACHE_DIR="$PWD/link" -- -v
check "a link to a cache that is the user's own" is_hit
as_user chmod 666 mine/*.clmoe
run CLMOE_CACHE_DIR="$PWD/mine" -- -v
check "an entry that others can write: built again" eval 'is_right && grep -q "program built" err && [[ $(stat -c %a mine/*.clmoe) == 600 ]]'
if [[ $(id -u) == 0 ]]; then
    mkdir theirs
    run CLMOE_CACHE_DIR="$PWD/theirs"
    check "another user's cache: not used" eval 'has_one_warning && grep -q "belongs to another user" err'
fi

# ---- Entries
entry=$(echo xdg/clmoe/*.clmoe)
as_user cp "$entry" sound
break_entry() { # NAME COMMAND...
    local name=$1
    shift
    as_user "$@"
    run XDG_CACHE_HOME="$PWD/xdg"
    check "$name: built again" is_silent
    run XDG_CACHE_HOME="$PWD/xdg" -- -v
    check "$name: and found by the next run" is_hit
}
break_entry "an empty entry" truncate -s 0 "$entry"
break_entry "half an entry" truncate -s $(($(stat -c %s sound) / 2)) "$entry"
break_entry "an entry that is too long" truncate -s +1 "$entry"
break_entry "an entry that can't be read" chmod 000 "$entry"
break_entry "a directory" sh -c "rm '$entry' && mkdir '$entry'"
break_entry "a link to a sound entry" ln -sf "$PWD/sound" "$entry"
break_entry "a link in a circle" sh -c "rm '$entry' && ln -s '$PWD/$entry' '$entry'"
break_entry "a pipe" sh -c "rm '$entry' && mkfifo '$entry'"
rm "$entry"
run XDG_CACHE_HOME="$PWD/xdg" OPENCL_LAYERS="$work/bin/layer.so" CLMOE_LAYER_FAIL=clBuildProgram:1:-11
check "a build that fails is an error" eval '[[ $code != 0 ]] && grep -q "clBuildProgram: CL_BUILD_PROGRAM_FAILURE" err'
check "and is not stored" eval '[[ $(files xdg/clmoe) == 0 ]]'
run XDG_CACHE_HOME="$PWD/xdg"
check "the next run builds" is_silent
run XDG_CACHE_HOME="$PWD/xdg" -- -v
check "and the one after that does not" is_hit

finish
