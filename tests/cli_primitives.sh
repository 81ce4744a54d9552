# Part of test_cli.sh, with its functions and arrays: the operators underneath.

# is FILE DESCR SHAPE: what the header says.
is() {
    head -c 128 "$1" | grep -aqF "{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
}
npy empty.npy '<i4' '(0,)'
npy empty_f4.npy '<f4' '(0, 8)'
npy five.npy '<i4' '(5,)' 3 1 5 1 2
npy two.npy '<i4' '(1, 2)' 1 2
npy deep.npy '<i4' '()' 2
npy f8.npy '<f8' '(2,)' 0 0
npy bytes.npy '|u1' '(5,)' 1 0 255 1 2
npy bool.npy '|b1' '(5,)' 1 0 1 1 0

# ---- histogram
silent "histogram: counts of ids, any shape" histogram ids.npy --bins 4 -o out.npy
check "histogram: counts, uint32" eval 'holds out.npy "2 1 4 1" && is out.npy "<u4" "(4,)"'
for type in '|u1' '|i1' '<u2' '<i2' '<u4' '<i4' '<u8' '<i8'; do
    npy typed.npy "$type" '(5,)' 0 -1 5 -128 2
    run histogram typed.npy --bins 8 -o out.npy
    check "histogram: $type, out of range ignored and told" eval '[ $code -eq 0 ] && [ ! -s out ] && holds out.npy "1 0 1 0 0 1 0 0" &&
        [ "$(cat err)" = "clmoe histogram: 2 of 5 samples ignored: below 0, or not below --bins 8" ]'
done
run histogram typed.npy --bins 8 -o out.npy --json
check "histogram --json" eval '[ $code -eq 0 ] && grep -q "\"ignored\": 2," out && grep -q "\"out.npy\"" out'
run histogram ids.npy --bins 0 -o out.npy
check "histogram: no bins" eval '[ $code -eq 0 ] && is out.npy "<u4" "(0,)" && grep -q "8 of 8 samples ignored" err'
silent "histogram: no samples" histogram none.npy --bins 3 -o out.npy
check "histogram: zeros then" holds out.npy "0 0 0"
run histogram ids.npy --bins 4 -o out.npy -v
check "histogram -v: says what ran" grep -q "^clmoe histogram: histogram i32: 1 launch" err
refuses "histogram: float64" 2 '^clmoe histogram: f8.npy: float64 \(2,\): samples must be uint32, int32, .* int16, uint8 or int8$' \
    histogram f8.npy --bins 4 -o never
refuses "histogram: bool" 2 'bool \(5,\): samples must be' histogram bool.npy --bins 4 -o never
refuses "histogram: no --bins" 2 'bins B is missing' histogram ids.npy -o never
refuses "histogram: too many bins" 2 'bins 16777217: must be at most 16777216' histogram ids.npy --bins 16777217 -o never
refuses "histogram: no -o" 2 '^clmoe histogram: -o COUNTS.npy is missing$' histogram ids.npy --bins 4
refuses "histogram: -o below nothing" 2 'No such file' histogram ids.npy --bins 4 -o no/such

# ---- scan
npy items.npy '<u4' '(8,)' 3 1 4 1 5 9 2 6
silent "scan: exclusive" scan items.npy -o out.npy
check "scan: exclusive sums" eval 'holds out.npy "0 3 4 8 9 14 23 25" && is out.npy "<u4" "(8,)"'
silent "scan --inclusive" scan items.npy --inclusive -o out.npy
check "scan: inclusive sums" holds out.npy "3 4 8 9 14 23 25 31"
silent "scan in its own file" scan out.npy -o out.npy
check "scan of a scan" holds out.npy "0 3 7 15 24 38 61 86"
npy wrap.npy '<i4' '(3,)' 2147483647 1 -5
silent "scan: wraps" scan wrap.npy --inclusive -o out.npy
check "scan: int32, modulo 2^32" eval 'holds out.npy "2147483647 -2147483648 2147483643" && is out.npy "<i4" "(3,)"'
silent "scan --as u64" scan wrap.npy --as u64 --inclusive -o out.npy
check "scan: wider sums" eval 'holds out.npy "2147483647 2147483648 2147483643" d8 && is out.npy "<u8" "(3,)"'
npy wide.npy '<u8' '(3,)' -1 4294967298 0
silent "scan: uint64" scan wide.npy -o out.npy
check "scan: uint64, modulo 2^64" holds out.npy "0 -1 4294967297" d8
silent "scan --as i32" scan wide.npy --as i32 -o out.npy
check "scan: narrower sums" eval 'holds out.npy "0 -1 1" && is out.npy "<i4" "(3,)"'
silent "scan: narrow items" scan bytes.npy --as u32 --inclusive -o out.npy
check "scan: narrow items are widened" holds out.npy "1 1 256 257 259"
silent "scan: no items" scan empty.npy -o out.npy
check "scan: an empty array then" eval 'holds out.npy "" && is out.npy "<i4" "(0,)"'
refuses "scan: uint8" 2 'uint8 \(5,\): without --as items must be uint32, int32 or uint64' scan bytes.npy -o never
refuses "scan: float64" 2 'float64 \(2,\): items must be uint32, .* or int8' scan f8.npy --as u64 -o never
refuses "scan: two dimensions" 2 'int32 \(4, 2\): must have 1 dimension' scan ids.npy -o never
refuses "scan: --as f32" 2 'as f32: must be one of u32\|i32\|u64' scan items.npy --as f32 -o never

# ---- sort
silent "sort: keys" sort five.npy -o out.npy
check "sort: ascending" eval 'holds out.npy "1 1 2 3 5" && is out.npy "<i4" "(5,)"'
silent "sort: argsort" sort five.npy -o out.npy --out-values places.npy
check "sort: places, equal keys in order" eval 'holds places.npy "1 3 4 0 2" && is places.npy "<u4" "(5,)"'
silent "sort --descending" sort five.npy -o out.npy --out-values places.npy --descending
check "sort: descending, equal keys in order" eval 'holds out.npy "5 3 2 1 1" && holds places.npy "2 0 4 1 3"'
for type in i4 u4 f4 i8 u8 f8; do
    npy values.npy "<$type" '(5,)' 10 -11 12 13 14
    silent "sort --values, $type" sort five.npy -o out.npy --values values.npy --out-values places.npy
    check "sort: values of $type go along" eval 'holds places.npy "-11 13 14 10 12" "d${type:1}" && is places.npy "<$type" "(5,)"'
done
# -0 NaN +inf +0 -inf -NaN(payload) 1 -1
npy floats.npy '<f4' '(8,)' 0x80000000 0x7fc00000 0x7f800000 0 0xff800000 0xffc00123 0x3f800000 0xbf800000
silent "sort: float32" sort floats.npy -o out.npy --out-values places.npy
check "sort: zeros equal, NaNs last, bits kept" eval 'holds places.npy "4 7 0 3 6 2 1 5" &&
    holds out.npy "ff800000 bf800000 80000000 00000000 3f800000 7f800000 7fc00000 ffc00123" x4'
silent "sort: float32, descending" sort floats.npy -o out.npy --out-values places.npy --descending
check "sort: NaNs first, zeros in order" holds places.npy "1 5 2 6 0 3 7 4"
npy bits.npy '<u4' '(4,)' 0x30f 0x201 0x10f 0x401
silent "sort --bits" sort bits.npy -o out.npy --bits 0:8
check "sort: these bits alone" holds out.npy "00000201 00000401 0000030f 0000010f" x4
npy wide.npy '<u8' '(3,)' -1 4294967298 7
silent "sort: uint64" sort wide.npy -o out.npy --bits 32:64
check "sort: high bits" holds out.npy "7 4294967298 -1" d8
silent "sort: no keys" sort empty.npy -o out.npy --out-values places.npy
check "sort: empty arrays then" eval 'is out.npy "<i4" "(0,)" && is places.npy "<u4" "(0,)"'
refuses "sort: uint8" 2 'uint8 \(5,\): keys must be uint32, int32, float32 or uint64' sort bytes.npy -o never
refuses "sort: two dimensions" 2 'must have 1 dimension' sort ids.npy -o never
refuses "sort: values of 1 byte" 2 'uint8 \(5,\): values must be int32, uint32, float32, int64, uint64 or float64' \
    sort five.npy -o never --values bytes.npy --out-values never2
refuses "sort: too few values" 2 'there must be as many values as keys' sort five.npy -o never --values wide.npy --out-values never2
refuses "sort: --values for nothing" 2 'values: needs --out-values' sort five.npy -o never --values five.npy
refuses "sort: no -o" 2 'o KEYS_OUT.npy is missing' sort five.npy --out-values never
refuses "sort: --bits without an end" 2 'bits 8: must be B:E' sort five.npy -o never --bits 8
refuses "sort: --bits beyond the key" 2 'bits: E 33: must be at most 32' sort five.npy -o never --bits 0:33
refuses "sort: --bits of nothing" 2 'bits: E 8: must be at least 9' sort five.npy -o never --bits 8:8
refuses "sort: one file, two outputs" 2 'would be written twice' sort five.npy -o never --out-values never
cp five.npy keep.npy
refuses "sort: one output can't be written" 2 'No such file' sort wide.npy -o keep.npy --out-values no/such
check "sort: and the other stays as it was" cmp -s five.npy keep.npy

# ---- scatter and gather
npy source.npy '<i4' '(5,)' 11 12 13 14 15
npy into.npy '<i4' '(9,)' 1 2 3 4 5 6 7 8 9
npy index.npy '<i4' '(5,)' 0 1 1 1 2
scatter="scatter source.npy --index index.npy --into into.npy"
silent "scatter --last-wins" $scatter --last-wins -o out.npy
check "scatter: the last of equal indices stays" eval 'holds out.npy "11 14 15 4 5 6 7 8 9" && is out.npy "<i4" "(9,)"'
check "scatter: DST.npy is as it was" holds into.npy "1 2 3 4 5 6 7 8 9"
run $scatter -o out.npy
check "scatter: repeated indices are told" eval '[ $code -eq 0 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q "2 repeated indices" err'
for type in '<i4' '<u4' '<i8' '<u8'; do
    npy index.npy "$type" '(5,)' 8 -1 0 9 3
    run $scatter -o out.npy
    check "scatter: $type, out of range skipped and told" eval '[ $code -eq 0 ] && holds out.npy "13 2 3 15 5 6 7 8 11" &&
        [ "$(cat err)" = "clmoe scatter: 2 of 5 indices skipped: below 0, or not below 9 rows" ]'
    run gather into.npy --index index.npy -o out.npy
    check "gather: $type, zeros where there is no row" eval '[ $code -eq 0 ] && holds out.npy "9 0 1 0 4" && is out.npy "<i4" "(5,)" &&
        grep -q "^clmoe gather: 2 of 5 indices skipped" err'
done
npy two_rows.npy '|u1' '(2, 3)' 1 2 3 4 5 6
npy four_rows.npy '|u1' '(4, 3)' 0 0 0 9 9 9 0 0 0 7 7 7
npy two.npy '<i8' '(2,)' 2 0
silent "scatter: rows of 3 bytes" scatter two_rows.npy --index two.npy --into four_rows.npy -o out.npy
check "scatter: whole rows" eval 'holds out.npy "4 5 6 9 9 9 1 2 3 7 7 7" u1 && is out.npy "|u1" "(4, 3)"'
silent "gather: rows" gather out.npy --index two.npy -o back.npy
check "gather: whole rows" eval 'holds back.npy "1 2 3 4 5 6" u1 && is back.npy "|u1" "(2, 3)"'
run gather into.npy --index index.npy -o out.npy --json
check "gather --json" eval 'grep -q "\"skipped\": 2," out && grep -q "\"rows\": 9," out'
npy one.npy '<i4' '(1,)' 0
run gather empty_f4.npy --index one.npy -o out.npy
check "gather from no rows: zeros, told" eval '[ $code -eq 0 ] && holds out.npy "0 0 0 0 0 0 0 0" && is out.npy "<f4" "(1, 8)" &&
    grep -q "1 of 1 indices skipped" err'
silent "gather: no indices" gather four_rows.npy --index empty.npy -o out.npy
check "gather: no rows then" is out.npy '|u1' '(0, 3)'
silent "scatter: no rows" scatter empty_f4.npy --index empty.npy --into empty_f4.npy -o out.npy
check "scatter: no rows then" is out.npy '<f4' '(0, 8)'
npy thin.npy '<i4' '(5, 0)'
refuses "gather: rows of nothing" 2 'a row must hold 1 to 2\^31 - 1 bytes' gather thin.npy --index index.npy -o never
refuses "gather: a number" 2 'int32 \(\): must have at least 1 dimension' gather deep.npy --index index.npy -o never
refuses "gather: index of bytes" 2 'uint8 \(5,\): indices must be uint32, int32, uint64 or int64' \
    gather into.npy --index bytes.npy -o never
refuses "gather: index of two dimensions" 2 'must have 1 dimension' gather into.npy --index ids.npy -o never
refuses "scatter: another type" 2 'must have type and row shape of SRC.npy' scatter source.npy --index index.npy --into items.npy -o never
refuses "scatter: other rows" 2 'must have type and row shape of SRC.npy' scatter source.npy --index index.npy --into ids.npy -o never
refuses "scatter: too few indices" 2 'one index for each row' scatter source.npy --index two.npy --into into.npy -o never
refuses "scatter: no --into" 2 'into DST.npy is missing' scatter source.npy --index index.npy -o never
check "nothing was written by any of these" eval '[ ! -e never ] && [ ! -e never2 ] && ! ls | grep -Eq "writing|former"'

# ---- PoCL: large arrays, so that many groups work; every class must write the same bytes as the native device.
# raw FILE DESCR N BYTES SOURCE: N items from what is in SOURCE.
raw() {
    npy "$1" "$2" "($3,)"
    tail -c +129 "$5" | head -c "$4" >>"$1"
}
primitives() {
    local to=$1
    shift
    mkdir "$to"
    "$program" histogram "$real" --bins 32 -o "$to/counts.npy" "$@" &&
        "$program" scan flat_ids.npy -o "$to/sums.npy" "$@" &&
        "$program" sort floats.npy -o "$to/floats.npy" --out-values "$to/places.npy" --descending "$@" &&
        "$program" sort weights_f4.npy -o "$to/keys.npy" --values weights_i4.npy --out-values "$to/values.npy" "$@" &&
        "$program" scatter weights_f4.npy --index some_ids.npy --into weights_f4.npy --last-wins -o "$to/scattered.npy" "$@" &&
        "$program" gather weights_f4.npy --index flat_ids.npy -o "$to/gathered.npy" "$@"
}
if "$program" devices | grep -q "Portable"; then
    raw flat_ids.npy '<i4' 100000 400000 "$real"
    raw some_ids.npy '<i4' 49152 196608 "$real"
    raw weights_f4.npy '<f4' 49152 196608 "$data/gptoss20b_decode_topk_weights_L0_L11_L23.npy"
    raw weights_i4.npy '<i4' 49152 196608 "$real"
    check "histogram, scan, sort, scatter, gather: native" primitives on_native --device native
    for class in serial parallel; do
        check "the same on PoCL, $class" primitives "on_$class" --device Portable --class $class --cache-dir "$work/cache"
        check "the same bytes on PoCL, $class" diff -r on_native "on_$class"
    done
fi
