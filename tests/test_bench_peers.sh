#!/bin/bash
# Other implementations as contenders of `clmoe bench`: right ones and faulty ones.   test_bench_peers.sh PROGRAM CPP_PEERS PYTHON_PEERS
set -u
here=$(dirname "$(realpath "$0")")
program=$(realpath "$1")
cpp=$(realpath "$2")
python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
tmp="$work/a directory with a name that is longer than most, and with blanks"
mkdir "$tmp"
unset CLMOE_CACHE_DIR XDG_CACHE_HOME NO_COLOR
export CLMOE_DEVICE=native HOME="$work" LC_ALL=C TMPDIR=$tmp OCL_ICD_VENDORS=pocl.icd
. "$here/cli.sh"

# ---- Those that come with the project
filter="align mixtral T16 B64 power_law_1.2,histogram of 256 random n=1e4,scan u32 n=1e4,sort keys u32 n=1e4,sort pairs u32 u32 n=1e4,gather rows of 64 B n=1e4,route qwen3-235b-a22b T64"
accepts "peers take part" "^  NumPy +host .* exact +[0-9a-f]{16}$" bench --quick --filter "$filter" --json run.json \
    --peer "$python numpy" --peer "$python pyopencl" --peer "$cpp std" --peer "$cpp boost pthread"
# shows NAME ROWS: so many rows with plain C's result
shows() {
    local contender=$1 rows=$2
    check "$contender: $rows rows, all right" eval \
        '[ "$(grep -Ec "^  $contender .* (exact|close) +[0-9a-f]{16}$" out)" -eq "$rows" ] && [ "$(grep -c "^  $contender " out)" -eq "$rows" ]'
}
shows NumPy 7
shows PyOpenCL 3
shows std 3
shows Boost.Compute 3
shows "plain C" 7
# align, histogram and gather have 3 rows, scan and the sorts 6; alone are the copy's hash and that of plain C's router
check "each result but the router's is the library's to the bit" eval \
    '[ "$(grep -oE " exact +[0-9a-f]{16}$" out | sort | uniq -c | sed "s/ *\([0-9]*\).*/\1/" | sort | tr -d "\n")" = 11333666 ]'
check "--json: who they are" eval 'grep -A 18 "\"peers\"" run.json | grep -Eq "\"name\": \"Boost.Compute\"" && [ "$(grep -c "\"name\": \"NumPy\"" run.json)" -eq 1 ]'
accepts "compare knows them" "^B against A: equal" compare run.json run.json
POCL_DEVICES=basic accepts "Boost's scan on one compute unit is refused" "^  Boost.Compute +basic.* skipped: its scan is wrong" \
    bench --quick --filter "scan u32 n=1e4" --peer "$cpp boost basic"
accepts "a peer is not asked for what it has not" "^  clmoe +native" bench --quick --filter "vllm T16 E64 K2 EP8" --peer "$python numpy"
check "no row of it" eval '! grep -q NumPy out'

# ---- Faults
# faulty FAULT CODE PATTERN: measured, with that exit code and that row
faulty() {
    local fault=$1 expected=$2 pattern=$3
    run bench --quick --filter "scan u32 n=1e4" --peer "bash $here/faulty_peer.sh $fault"
    check "faulty peer: $fault" eval \
        '[ $code -eq $expected ] && grep -Eq "^  Faulty +host +$pattern" out && grep -Eq "^  clmoe +native .* exact" out'
}
faulty wrong_sums 1 "failed: the result differs from plain C's"
check "and one line on stderr" eval '[ "$(wc -l <err)" -eq 1 ] && grep -q "1 row with a result that differs" err'
faulty refuses 0 "skipped: room for it"
faulty nonsense 3 "failed: the peer says: what\?"
faulty dies 3 "failed: the peer has ended"
faulty negative 3 "failed: the peer tells a time of -1 us"
faulty no_number 3 "failed: the peer tells a time of soon us"
faulty short 3 "failed: .*output.0.0: not a file of 40000 bytes"
faulty long 3 "failed: .*output.0.0: not a file of 40000 bytes"
faulty missing 3 "failed: .*output.0.0: not a file of 40000 bytes"
refuses "a peer that says nothing" 2 "faulty_peer.sh silent: the peer has ended" bench --peer "bash $here/faulty_peer.sh silent"
refuses "a peer of another version" 2 "the peer says: clmoe-peer 2" bench --peer "bash $here/faulty_peer.sh other_version"
refuses "a peer that does not end its line" 2 "no line of text" bench --peer "bash $here/faulty_peer.sh long_line"
refuses "the same peer twice" 2 "a second std on host" bench --peer "$cpp std" --peer "$cpp std"
refuses "too many peers" 2 "more than 8 peers" bench --peer a --peer b --peer c --peer d --peer e --peer f --peer g --peer h --peer i
run bench --peer "$cpp boost nosuch"
check "a peer without its device" eval '[ $code -eq 2 ] && grep -q "the peer says: error: no OpenCL device has .nosuch. in its name" err'
TMPDIR=$work/nosuch run bench --quick --filter "scan u32 n=1e4" --peer "$python numpy"
check "no place for files: the row says so" eval '[ $code -eq 0 ] && grep -Eq "^  NumPy .* skipped: the inputs can.t be written to files: No such file" out'
TMPDIR=/tmp/$(printf 'x%.0s' {1..600}) run bench --quick --filter "scan u32 n=1e4" --peer "$cpp std"
check "a place with too long a name: the row says so" eval '[ $code -eq 0 ] && grep -Eq "^  std .* skipped: the inputs can.t be written to files: File name too long" out'
check "no file is left" eval '[ -z "$(ls "$tmp")" ]'

finish
