#!/bin/bash
# The program as its users meet it.   test_cli.sh PROGRAM DATA_DIRECTORY MAKE_LOGITS
# Needs bash and coreutils only. Arrays are written and read here byte by byte, so the program's own reader is not trusted to test itself.
set -u
here=$(dirname "$(realpath "$0")")
program=$(realpath "$1")
data=$(realpath "$2")
make_logits=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CLMOE_CACHE_DIR XDG_CACHE_HOME NO_COLOR
export CLMOE_DEVICE=native HOME="$work" LC_ALL=C
. "$here/cli.sh"

# little BYTES VALUE...: integers, little endian, as escapes for printf.
little() {
    local bytes=$1 value i
    shift
    for value in "$@"; do
        for ((i = 0; i < bytes; i++)); do
            printf '\\x%02x' $(((value >> (8 * i)) & 255))
        done
    done
}

# npy FILE DESCR SHAPE [VALUE...]: an array of integers.
npy() {
    local file=$1 descr=$2 shape=$3 header
    shift 3
    header="{'descr': '$descr', 'fortran_order': False, 'shape': $shape, }"
    {
        printf '\x93NUMPY\x01\x00\x76\x00'
        printf '%-117s\n' "$header"
        printf '%b' "$(little "${descr:2}" "$@")"
    } >"$file"
}

# items FILE [FORMAT]: the data of an array, in one line.
items() {
    od -An -v -w8 -t "${2:-d4}" -j 128 "$1" | tr -s ' \n' ' ' | sed 's/^ //; s/ $//'
}

holds() {
    [ "$(items "$1" "${3:-d4}")" = "$2" ]
}

golden="0 2 2 1 0 2 3 2"
npy ids.npy '<i4' '(4, 2)' $golden
align="align ids.npy --experts 4 --block 2"

# ---- The program itself
accepts "alone: a short help" "^usage: clmoe COMMAND"
accepts "--help" "^usage: clmoe COMMAND" --help
accepts "--version" '^clmoe [0-9]+\.[0-9]+\.[0-9]+$' --version
for command in devices histogram scan sort scatter gather route route-align align verify advise selftest; do
    accepts "$command --help" "^usage: clmoe $command" $command --help
done
refuses "unknown command, near" 2 "^clmoe: unknown command 'algin'; did you mean align\?" algin
refuses "unknown command, far" 2 "^clmoe: unknown command 'frobnicate'; " frobnicate

# ---- Devices
accepts "devices: a table, the native device" "^ +[0-9]+ +- +native +serial" devices
check "devices: the native device is last" eval 'tail -1 out | grep -Eq "^ +[0-9]+ +- +native"'
accepts "devices --json" '"backend": "native"' devices --json
mkdir no_vendors
OCL_ICD_VENDORS=$work/no_vendors accepts "devices: fine without any OpenCL driver" "^ +0 +- +native" devices
check "devices: only the native one then" eval '[ "$(wc -l <out)" -eq 2 ]'
OCL_ICD_VENDORS=$work/no_vendors accepts "auto without any OpenCL driver" "^8 pairs" $align --device auto
refuses "a device that is not there, by name" 2 "no usable device 'nosuch'.*native" $align --device nosuch
refuses "a device that is not there, by index" 2 "no usable device '99'.*native" $align --device 99
CLMOE_DEVICE=nosuch refuses "CLMOE_DEVICE is obeyed" 2 "'nosuch'" $align
CLMOE_DEVICE=nosuch accepts "--device wins over CLMOE_DEVICE" "^8 pairs" $align --device native
run $align -v
check "-v: says what ran, on stderr" eval '[ $code -eq 0 ] && grep -q "class serial" err && grep -Eq "1 launch .*native" err'

# ---- align: the founding example
accepts "align: summary" "^8 pairs, 4 of 4 experts used, 5 blocks of 2, padding factor 1.25$" $align
accepts "align: small table" "rows at most +12$" $align
accepts "align -o: one line" "^8 pairs" $align -o result
check "align -o: only that line" eval '[ "$(wc -l <out)" -eq 1 ]'
check "sorted_token_ids, tail too" holds result/sorted_token_ids.npy "0 4 3 8 1 2 5 7 6 8 8 8"
check "expert_ids, tail too" holds result/expert_ids.npy "0 1 2 2 3 -1"
check "num_tokens_post_padded" holds result/num_tokens_post_padded.npy "10"
check "no other file" eval '[ "$(ls result | wc -l)" -eq 3 ]'
for type in '<i8' '<u4' '<i2' '|u1' '>i4'; do
    values=$golden
    if [ "$type" = '>i4' ]; then
        values=
        for value in $golden; do values+=" $((value << 24))"; done
    fi
    npy typed.npy "$type" '(4, 2)' $values
    run align typed.npy --experts 4 --block 2 -o typed
    check "ids of type $type" eval 'diff -r result typed >/dev/null'
    rm -rf typed
done
for threads in 1 2 5; do
    run $align --threads $threads --class serial -o threads
    check "--threads $threads" diff -r result threads
done
all=counts,offsets,padded_offsets,inverse,rows_valid,status
accepts "--optional" "^8 pairs" $align -o all --optional $all
check "counts" holds all/counts.npy "2 1 4 1"
check "offsets" holds all/offsets.npy "0 2 3 7 8"
check "padded_offsets" holds all/padded_offsets.npy "0 2 4 8 10"
check "inverse" holds all/inverse.npy "0 4 5 2 1 6 8 7"
check "rows_valid" holds all/rows_valid.npy "2 1 2 2 1 0"
check "status" holds all/status.npy "0 0 4 0"
npy weights.npy '<f4' '(4, 2)' 10 11 12 13 14 15 16 17
accepts "--weights" "^8 pairs" $align -o all --optional sorted_weights --weights weights.npy
check "sorted_weights: bits as they were, 0 on padding" holds all/sorted_weights.npy "10 14 13 0 11 12 15 17 16 0 0 0"
accepts "--capacity and --pad-value" "^8 pairs" $align -o wide --capacity 16 --pad-value -1
check "every row of the capacity" holds wide/sorted_token_ids.npy "0 4 3 -1 1 2 5 7 6 -1 -1 -1 -1 -1 -1 -1"
accepts "--num-tokens-device" "^4 pairs, 3 of 4" $align --num-tokens-device 2
accepts "--num-tokens-device below 0" "^0 pairs, 0 of 4 .*padding factor -$" $align --num-tokens-device -7
npy mask.npy '|u1' '(4,)' 1 0 1 1
accepts "--row-mask" "^6 pairs, 3 of 4 experts used, 4 blocks" $align --row-mask mask.npy
npy map.npy '<i8' '(4,)' -1 0 -1 1
accepts "--expert-map, dropped" "^2 pairs, 2 of 4 experts used, 2 blocks of 2, padding factor 2.00, 6 foreign pairs dropped$" \
    $align --expert-map map.npy -o drop
check "dropped: local numbers" holds drop/expert_ids.npy "0 1 -1 -1 -1 -1"
accepts "--foreign keep" "^8 pairs" $align --expert-map map.npy --foreign keep -o keep
check "kept: foreign blocks in place" holds keep/expert_ids.npy "-1 0 -1 -1 1 -1"
accepts "--foreign bucket" "^8 pairs" $align --expert-map map.npy --foreign bucket -o bucket
check "bucket: foreign pairs in front" holds bucket/sorted_token_ids.npy "0 1 2 4 5 7 3 8 6 8 8 8"
npy bad_ids.npy '<i4' '(4, 2)' 0 -1 9 1 0 2147483647 3 -2147483648
accepts "invalid ids are counted, not placed" "^4 pairs, .* 4 invalid ids" align bad_ids.npy --experts 4 --block 2
npy none.npy '<i4' '(0, 8)'
accepts "no tokens" "^0 pairs, 0 of 256 experts used, 0 blocks of 64, padding factor -$" align none.npy --experts 256 --block 64 -o none
check "no tokens: empty arrays, total 0" eval 'holds none/sorted_token_ids.npy "" && holds none/num_tokens_post_padded.npy "0"'
accepts "no tokens: explained" "total P = 0" align none.npy --experts 256 --block 64 --explain
run $align --json
check "--json" eval '[ $code -eq 0 ] && grep -q "\"padding_factor\": 1.25" out && grep -q "\"rows\": 10," out'
run align none.npy --experts 4 --block 2 --json
check "--json: no factor without pairs" grep -q '"padding_factor": null' out

# ---- align --explain and --draw
run $align --explain
for line in 'counts +2 1 4 1$' 'padded +2 2 4 2$' 'starts +0 2 4 8$' 'total P = 10$' 'order +0 4 3 1 2 5 7 6$' 'rank +0 1 0 0 1 2 3 0$' \
    'dest +0 1 2 4 5 6 7 8$' 'sorted +0 4 \| 3 8 \| 1 2 \| 5 7 \| 6 8$' 'experts +0 +1 +2 +2 +3 *$'; do
    check "--explain: $line" grep -Eq "$line" out
done
accepts "--draw" "^8 pairs" $align --draw picture.svg
check "picture: 8 pairs, 2 padding rows, 5 blocks" eval '[ "$(grep -c "class=\"pair\" .*height=\"38\"" picture.svg)" -eq 8 ] &&
    [ "$(grep -c "class=\"out\"" picture.svg)" -eq 2 ] && [ "$(grep -c "class=\"block\"" picture.svg)" -eq 5 ]'
check "picture: scales, light and dark" eval 'grep -q viewBox picture.svg && grep -q prefers-color-scheme picture.svg'
real=$data/gptoss20b_decode_topk_ids.npy
accepts "real ids, --at" "^256 pairs, 25 of 32 experts used, 30 blocks of 16, padding factor 1.88$" \
    align "$real" --at 11,20 --experts 32 --block 16 -o real --draw real.svg
accepts "real ids, explained: abridged" '\.\.\. \(256\)$' align "$real" --at 11,20 --experts 32 --block 16 --explain
check "no line of it is too long" eval '[ "$(wc -L <out)" -le 100 ]'
check "real ids, drawn: a cell for each row" eval '[ "$(grep -Ec "class=\"(pair|hole)\"" real.svg)" -eq 482 ]'

# ---- Bad usage
refuses "--block 0" 2 '^clmoe align: --block 0: must be at least 1$' align ids.npy --experts 4 --block 0
refuses "--block 2x" 2 'block 2x: not a whole number' align ids.npy --experts 4 --block 2x
refuses "--block 0x2" 2 'block 0x2: not a whole number' align ids.npy --experts 4 --block 0x2
refuses "--block +2" 2 'block \+2: not a whole number' align ids.npy --experts 4 --block +2
refuses "--block with nothing" 2 "block '': not a whole number" align ids.npy --experts 4 --block ''
refuses "--block without a value" 2 'its value B is missing' align ids.npy --experts 4 --block
refuses "--block of 30 digits" 2 'must be at most 4294967295' align ids.npy --experts 4 --block 999999999999999999999999999999
refuses "--experts -1" 2 'experts -1: must be at least 1' align ids.npy --experts -1 --block 2
refuses "no --experts" 2 'experts E is missing' align ids.npy --block 2
refuses "no IDS.npy" 2 'IDS.npy is missing' align --experts 4 --block 2
refuses "two IDS.npy" 2 "unexpected argument 'mask.npy'" align ids.npy mask.npy --experts 4 --block 2
refuses "unknown option, near" 2 'unknown option --blok; did you mean --block\?' align ids.npy --experts 4 --blok 2
refuses "unknown option, far" 2 "unknown option --frobnicate; see 'clmoe align --help'" $align --frobnicate
refuses "a flag with a value" 2 '^clmoe align: --explain takes no value' $align --explain=yes
refuses "no such choice" 2 'must be one of drop\|keep\|bucket' $align --foreign kepe
refuses "--threads 257" 2 'must be at most 256' $align --threads 257
refuses "--capacity too small" 2 'capacity 10: must be at least 12' $align --capacity 10
refuses "--capacity between blocks" 2 'capacity 13: must be a multiple of --block 2' $align --capacity 13
refuses "--optional without -o" 2 'needs -o DIR' $align --optional counts
refuses "--optional unknown" 2 "unknown output 'count'; nearest is counts" $align -o never --optional count
refuses "--optional with nothing" 2 "unknown output ''" $align -o never --optional counts,
refuses "--weights for nothing" 2 'only for --optional sorted_weights' $align --weights weights.npy
refuses "sorted_weights without --weights" 2 'needs --weights' $align -o never --optional sorted_weights
refuses "--at where there is nothing to pick" 2 'no leading dimension' $align --at 0
refuses "--at missing" 2 'pick one part with 2 indices, such as --at 0,0' align "$real" --experts 32 --block 16
refuses "--at too few" 2 'pick one part with 2 indices' align "$real" --experts 32 --block 16 --at 3
refuses "--at beyond the end" 2 'at 64: must be below 64' align "$real" --experts 32 --block 16 --at 11,64
refuses "--at with a hole" 2 "at '': not a whole number" align "$real" --experts 32 --block 16 --at 11,,20
refuses "rows beyond 2^31" 2 'max_tokens' align ids.npy --experts 8 --block 2000000000
accepts "--option=value, and -- before a name" "^8 pairs" align --experts=4 --block=2 -- ids.npy

# ---- Bad input
refuses "no such file" 2 '^clmoe align: missing.npy: No such file' align missing.npy --experts 4 --block 2
refuses "a directory" 2 'is a directory' align result --experts 4 --block 2
refuses "a pipe" 2 'pipes are not read' align <(cat ids.npy) --experts 4 --block 2
npy flat.npy '<i4' '(8,)' $golden
refuses "ids with one dimension" 2 'int32 \(8,\): ids are \[tokens\]\[slots\]; .*reshape to \(8, 1\)' \
    align flat.npy --experts 4 --block 2
npy typed.npy '<u2' '(4, 2)' $golden
refuses "ids of a type that is not taken" 2 'uint16 \(4, 2\): ids must be int32, int64, uint32, int16 or uint8' \
    align typed.npy --experts 4 --block 2
npy slots.npy '<i4' '(4, 0)'
refuses "no slots" 2 'at least 1 slot' align slots.npy --experts 4 --block 2
head -c 150 ids.npy >short.npy
refuses "a short file" 2 'data is short: expected 32 bytes, found 22' align short.npy --experts 4 --block 2 -o never
refuses "a map of the wrong length" 2 'one integer for each of 5 experts' align ids.npy --experts 5 --block 2 --expert-map map.npy
refuses "a mask of the wrong length" 2 'one uint8 or bool for each token' $align --row-mask flat.npy
refuses "weights of another shape" 2 'float32 of the shape of the ids' $align -o never --optional sorted_weights --weights ids.npy
check "nothing was written by any of these" eval '[ ! -e never ]'

# ---- Outputs: all or nothing
if [ -w /dev/full ]; then
    "$program" $align -o full --draw full.svg >/dev/full 2>err
    code=$?
    check "a full stdout: exit 2, no file" eval '[ $code -eq 2 ] && [ ! -e full ] && [ ! -e full.svg ] && grep -q "standard output" err'
    "$program" devices >/dev/full 2>err
    code=$?
    check "devices, a full stdout: exit 2" eval '[ $code -eq 2 ] && grep -q "standard output" err'
fi
cp -r result before
mkdir result/status.npy
refuses "one output can't be written: exit 2" 2 'result/status.npy: is a directory' \
    align ids.npy --experts 4 --block 4 -o result --optional status
rmdir result/status.npy
check "and the others stay as they were" diff -r before result
refuses "-o is a file" 2 'is not a directory' $align -o ids.npy
refuses "-o below nothing" 2 'No such file' $align -o no/such
refuses "--draw over a device" 2 'is not a regular file' $align --draw /dev/null
refuses "--draw into nothing, -o is taken back" 2 'No such file' $align -o fresh --draw no/such.svg
check "no directory stays behind" eval '[ ! -e fresh ]'
refuses "one file, two outputs" 2 'would be written twice' $align -o result --draw result/expert_ids.npy
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 555 locked
    refuses "a directory that can't be written" 2 'Permission denied' $align -o locked
fi
ln -s target.svg link.svg && cp picture.svg target.svg
run align ids.npy --experts 4 --block 4 --draw link.svg
check "a symbolic link stays one" eval '[ -L link.svg ] && ! cmp -s picture.svg target.svg'
check "no file is left beside" eval '! ls -R . | grep -Eq "writing|former"'

# ---- histogram, scan, sort, scatter, gather
. "$here/cli_primitives.sh"

# ---- route, route-align
. "$here/cli_route.sh"

# ---- verify
verify="verify ids.npy --experts 4 --block 2 --sorted s.npy --blocks x.npy --total t.npy"
# contents SORTED EXPERTS TOTAL
contents() {
    npy s.npy '<i4' "($(wc -w <<<"$1"),)" $1
    npy x.npy '<i4' "($(wc -w <<<"$2"),)" $2
    npy t.npy '<i4' '(1,)' $3
}
# finds NAME KIND PATTERN [OPTION...]
finds() {
    local name=$1 kind=$2 pattern=$3
    shift 3
    run $verify "$@"
    check "verify: $name" eval '[ $code -eq 1 ] && grep -Eq "^  $kind: [0-9]+$" out && grep -Eq "$pattern" out'
}
contents "0 4 3 8 1 2 5 7 6 8" "0 1 2 2 3" 10
accepts "verify: right" "^ok: 8 pairs, 10 rows" $verify
contents "0 4 3 -1 1 2 5 7 6 99 -5 8" "0 1 2 2 3 -1" 10
accepts "verify: any padding value" "^ok" $verify --tails
npy s.npy '<i8' '(10,)' 0 4 3 8 1 2 5 7 6 8
npy t.npy '<i8' '()' 10
accepts "verify: 64 bits, a total without dimensions" "^ok" $verify
contents "4 0 3 8 7 5 2 1 6 8" "0 1 2 2 3" 10
finds "order" "pairs out of order" "row 1 holds pair 0 behind pair 4 of the same expert"
accepts "verify --unordered" "^ok" $verify --unordered
contents "0 4 3 8 1 2 5 8 6 8" "0 1 2 2 3" 10
finds "missing" "missing pair" "pair 7 \(token 3, slot 1, expert 2\) stands in no row"
contents "0 4 3 8 1 2 2 7 6 8" "0 1 2 2 3" 10
finds "twice" "pair twice" "row 6 holds pair 2 again; it stands in row 5"
contents "0 4 3 8 1 6 5 7 2 8" "0 1 2 2 3" 10
finds "another expert" "pair in another expert's block" "row 5 \(block 2, expert 2\) holds pair 6, which belongs to expert 3" --unordered
contents "0 4 3 0 1 2 5 7 6 0" "0 1 2 2 3" 10
finds "padding with 0" "pair in a padding row" "row 3 must be padding, .* but holds pair 0"
contents "0 4 8 3 1 2 5 7 6 8" "0 1 2 2 3" 10
finds "padding in front" "padding between pairs" "row 2 is padding, but row 3 "
contents "0 4 3 8 1 2 5 7 6 8" "0 1 2 3 3" 10
finds "expert of a block" "wrong expert of a block" "block 3 says expert 3, but its rows hold pairs of expert 2"
contents "3 8 0 4 1 2 5 7 6 8" "1 0 2 2 3" 10
finds "order of blocks" "blocks out of order" "block 1 of expert 0 stands behind a block of expert 1"
contents "0 4 3 8 8 8 1 2 5 7 6 8" "0 1 1 2 2 3" 12
finds "empty block" "block without pairs" "block 2 \(expert 1\) holds no pair"
contents "0 4 3 8 1 2 5 7 6 8" "0 1 2 2 3" 8
finds "total" "wrong total" "the total is 8, it must be 10"
check "verify: what stands beyond the total" grep -q "pair 6 .* stands in row 8, beyond the total" out
contents "0 4 3 8 1 2 5 7 6 8" "0 1 2 2 3" 99999
finds "total beyond the arrays" "wrong total" "there are only 10 rows and 5 blocks of 2"
contents "0 4 3 8 1 2 5 7 6 8 0" "0 1 2 2 3 7" 10
accepts "verify: the tail is free" "^ok" $verify
finds "tail" "wrong tail" "row 10, beyond the total, holds pair 0" --tails
contents "0 4 3 8 1 2 5 7 6 8" "-1 0 -1 -1 1" 10
accepts "verify --foreign keep" "^ok" $verify --expert-map map.npy --foreign keep
finds "foreign pairs with drop" "pair that must not be placed" "row 0 holds pair 0, whose id 0 is not on this rank" \
    --expert-map map.npy
run $verify --json
check "verify --json" eval '[ $code -eq 1 ] && grep -q "\"ok\": false" out'
refuses "verify: needs --total" 2 'total N.npy is missing' verify ids.npy --experts 4 --block 2 --sorted s.npy --blocks x.npy
refuses "verify: two dimensions" 2 'must have 1 dimension' \
    verify ids.npy --experts 4 --block 2 --sorted ids.npy --blocks x.npy --total t.npy
accepts "verify: what align made of real ids" "^ok: 256 pairs, 480 rows" verify "$real" --at 11,20 --experts 32 --block 16 --tails \
    --sorted real/sorted_token_ids.npy --blocks real/expert_ids.npy --total real/num_tokens_post_padded.npy

# ---- advise
accepts "advise: a block size" "^take --block 16: " advise "$real" --at 11,20 --experts 32
check "advise: rows, blocks, padding" grep -Eq "^ +64 +1600 +25 +6.25 +0 %" out
check "advise: loads" grep -q "largest 27 (expert 7), mean 8.0, skew 3.38, entropy 0.872" out
accepts "advise: the largest that stays lean" "^take --block 64: the largest whose padding" \
    advise "$data/gptoss20b_stream_topk_ids_L0_L11_L23.npy" --at 1 --experts 32 --blocks 16,64
accepts "advise --json" '"advised_block": 16' advise "$real" --at 11,20 --experts 32 --json
accepts "advise: nothing to place" "any block size will do" advise none.npy --experts 4
refuses "advise: a block of 0" 2 'blocks 0: must be at least 1' advise ids.npy --experts 4 --blocks 16,0
refuses "advise: an empty list" 2 "blocks '': not a whole number" advise ids.npy --experts 4 --blocks ''

# ---- The self-test
accepts "selftest: no wrong call" "^  all +[0-9]+ +0 " selftest
hash=$(awk '$1 == "all" { print $6 }' out)
check "selftest: what belongs into a report" grep -Eq "^clmoe [0-9.]+, kernels [0-9a-f]{16}, on Linux" out
accepts "selftest --json: the same hash" "\"hash\": \"$hash\"" selftest --json
check "selftest --json: one hash for a device" eval '[ "$(grep -c "\"hash\":" out)" -eq 1 ]'
OCL_ICD_VENDORS=$work/no_vendors accepts "selftest --all-devices" "^  all .* $hash" selftest --all-devices
refuses "selftest: a class that is not there" 3 "serial class only" selftest --class parallel

# ---- The surroundings
env LC_ALL=de_DE.UTF-8 "$program" $align >out
check "a locale changes no number" grep -q "padding factor 1.25" out
check "no colour in a file" eval '! grep -q "$(printf "\033")" out'
"$program" $align -o closed 2>err | true
code=${PIPESTATUS[0]}
check "a reader that leaves early is no failure" eval '[ $code -eq 0 ] && [ ! -s err ] && diff -r before closed'
if "$program" devices --json | grep -q '"backend": "opencl"' && CLMOE_DEVICE=0 "$program" $align >/dev/null 2>&1; then
    export CLMOE_DEVICE=0
    for class in serial parallel; do
        accepts "OpenCL device 0, $class: runs" "^8 pairs" $align --class $class -o opencl --cache-dir "$work/cache"
        check "OpenCL device 0, $class: the same bytes" diff -r before opencl
    done
    accepts "OpenCL device 0: the self-test's hash" "^  all .* $hash" selftest --class serial
    run $align -v --cache-dir "$work/cache"
    check "the second time from the cache" grep -q "program from cache" err
    run $align --cache-dir none -v
    check "--cache-dir none builds" grep -Eq "program built in [0-9.]+ ms" err
    run $align --cache-dir /dev/null
    check "a cache that can't be used: one warning" eval '[ $code -eq 0 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "warning: .*cache" err'
fi

finish
