#!/bin/bash
# `clmoe bench` and `clmoe compare`: what they write, and what they refuse. No time is judged.   test_bench.sh PROGRAM DATA_DIRECTORY
# Golden files are in DATA_DIRECTORY/bench.
set -u
here=$(dirname "$(realpath "$0")")
program=$(realpath "$1")
data=$(realpath "$2")
golden=$data/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CLMOE_CACHE_DIR XDG_CACHE_HOME NO_COLOR
export CLMOE_DEVICE=native HOME="$work" LC_ALL=C
. "$here/cli.sh"

# ---- Workloads
for command in bench compare; do
    accepts "$command --help" "^usage: clmoe $command" $command --help
    check "$command --help: each option once" eval '[ -z "$(grep -oE "^  --?[a-z-]+" out | sort | uniq -d)" ]'
done
run bench --list
cut -d' ' -f1 out | sort | uniq -c | awk '{ print $2, $1 }' >groups
check "--list: how many workloads each group has" eval 'grep -v "^route " groups | diff "$golden/groups.txt" -'
check "--list: three for each published router" eval '[ $(($(sed -n "s/^route //p" groups) % 3)) -eq 0 ] && grep -q "^route .* route deepseek-v3 T4096$" out' 
run bench --list --quick
check "--list --quick: every group of operators" eval 'for g in decode prefill models route route_align histogram scan sort gather; do grep -q "^$g " out || exit 1; done'
accepts "--filter: any of several, case ignored" "^vllm +- +align vllm T4096 E512 K8 EP8 B256$" bench --list --filter "SGLang T16 E8 K2,t4096 e512 k8"
check "--filter: nothing else but the baselines" eval '[ "$(wc -l <out)" -eq 6 ]'
accepts "--filter targets" "^targets +- +align target T131072 B64$" bench --list --filter targets
refuses "--filter that matches nothing" 2 "^clmoe bench: --filter frobnicate: no workload" bench --filter frobnicate
refuses "a device that is not there" 2 "no usable device 'nosuch'" bench --quick --device native --device nosuch
refuses "targets on a chosen device" 2 "the targets name their devices" bench --filter targets --device native
refuses "a file that can't be written, before anything runs" 2 "^clmoe bench: no/such.json: No such file" bench --quick --json no/such.json
refuses "an operand" 2 "unexpected argument 'x'" bench x

# ---- A run
filter="gpt-oss decode,histogram of 256 random n=1e4,vllm T16 E64 K2 EP8,route deepseek-v3 T64"
accepts "a run" "^align gpt-oss decode T64 B16 .* padding factor 1\.88$" \
    bench --quick --filter "$filter" --data "$data" --json run.json --csv run.csv --svg run.svg
check "every row is there, right, and has a hash" eval '[ "$(grep -Ec "^  (clmoe +native|plain C +host) .* exact +[0-9a-f]{16}$" out)" -ge 9 ]'
check "the library gives plain C's hash" eval \
    '[ "$(grep -E "^  (clmoe|plain C) " out | grep -oE "[0-9a-f]{16}$" | sort | uniq -c | grep -c "^ *2 ")" -ge 4 ]'
check "baselines are measured in the same run" eval 'grep -q "^empty launch " out && grep -Eq "^  copy +native" out'
grep -oE '^ *"[a-z0-9_]+":' run.json | tr -d ' ":' | sort -u >keys
check "--json: the keys of the schema" diff "$golden/keys.txt" keys
check "--json: version" grep -q '"version": 1,' run.json
check "--json: every sample" eval '[ "$(grep -c "\"wall_us\": \[[0-9.e+, -]*\]" run.json)" -eq "$(grep -c "\"workload\":" run.json)" ]'
check "--csv: columns" eval 'head -1 run.csv | diff "$golden/columns.csv" -'
check "--csv: a line for each row" eval '[ "$(($(wc -l <run.csv) - 1))" -eq "$(grep -c "\"workload\":" run.json)" ]'
check "--csv: as many fields in each" eval '[ "$(sed "s/\"[^\"]*\"/x/g" run.csv | tr -cd ",\n" | sort -u | wc -l)" -eq 1 ]'
check "route: the same ids as plain C's, and close weights" grep -Eq "^  clmoe +native .* (close|exact)  +[0-9a-f]{16}$" out
check "--svg: bars, light and dark" eval 'grep -q "viewBox" run.svg && grep -q prefers-color-scheme run.svg && [ "$(grep -c "class=\"range\"" run.svg)" -eq 15 ]'
accepts "no recorded routing: the rows say so" "skipped: no recorded routing \(--data DIR\): nowhere/.*No such file" \
    bench --quick --filter "gpt-oss decode" --data nowhere
accepts "a class that the native device has not: the row says so" "^  clmoe +native +skipped: .*serial class only" \
    bench --quick --filter "histogram of 256 random n=1e4" --class parallel
mkdir no_vendors
OCL_ICD_VENDORS=$work/no_vendors accepts "all devices, without an OpenCL driver" "^  clmoe +native .* exact" \
    bench --quick --filter "histogram of 256 random n=1e4" --device all

# ---- Naive kernels, and turns on two devices
accepts "PoCL: naive kernels are right" "^  naive atomic +[^ ]+ .* unordered" \
    bench --quick --filter "align mixtral T16 B64 power_law_1.2,histogram of 256 random n=1e4,route deepseek-v3 T64,route_align qwen3-235b-a22b T16" --device native --device Portable --json two.json
check "PoCL: the router's bits are the native device's" eval \
    '[ "$(grep -A 4 "^route " out | grep "^  clmoe " | grep -oE "[0-9a-f]{16}$" | sort | uniq -c | grep -c "^ *2 ")" -eq 1 ]'
check "PoCL: ids, weights and layout of both in one call are the native device's" eval \
    '[ "$(grep -A 4 "^route_align " out | grep "^  clmoe " | grep -oE "(close|exact) +[0-9a-f]{16}$" | sort | uniq -c | grep -c "^ *2 ")" -eq 1 ]'
check "PoCL: rows of both devices" eval '[ "$(grep -Ec "^  clmoe .* exact" out)" -eq 4 ] && [ "$(grep -Ec "^  naive .* exact" out)" -eq 2 ]'
accepts "two devices compare with themselves" "^B against A: equal" compare two.json two.json

# ---- compare
accepts "a run compares with itself" "^B against A: equal: 0 faster, 0 slower" compare run.json run.json
accepts "the same run on stdin" "^B against A: equal" compare run.json /dev/stdin <run.json
cp "$golden"/*.json .
run compare base.json other.json
check "golden: ranked, not told apart, skipped, in one alone" eval '[ $code -eq 0 ] && diff "$golden/compare.txt" out'
run compare base.json other_hash.json other_input.json --svg compare.svg
check "golden: other results, other inputs: exit 1" eval '[ $code -eq 1 ] && diff "$golden/compare_differs.txt" out'
check "picture" diff "$golden/compare.svg" compare.svg
run compare base.json other.json --json
check "golden: --json" eval '[ $code -eq 0 ] && diff "$golden/compare_facts.txt" out'

refuses "one file" 2 "1 file; from 2 to 8" compare base.json
refuses "no file" 2 "0 files; from 2 to 8" compare
refuses "a file that is not there" 2 "^clmoe compare: missing.json: No such file" compare base.json missing.json
refuses "a directory" 2 "no_vendors: Is a directory" compare base.json no_vendors
# broken NAME PATTERN TEXT
broken() {
    printf "$3" >broken.json
    refuses "broken: $1" 2 "^clmoe compare: broken.json: .*$2" compare base.json broken.json
}
broken "empty" "line 1, column 1: the file ends" ''
broken "half a file" "line 1, column 18: ',' or '}' was expected" '{"schema": "a b" '
broken "a comma too many" "line 1, column 9: a key in quotes" '{"a": 1,}'
broken "a comma too many in a list" "line 1, column 4: a value was expected" '[1,]'
broken "no colon" "line 1, column 6: ':' was expected" '{"a" 1}'
broken "more behind the end" "line 2, column 1: more behind the end" '{}\n{}'
broken "a leading zero" "line 1, column 2: not a number" '[01]'
broken "no digit behind the point" "line 1, column 2: not a number" '[1.]'
broken "an endless number" "too large" '[1e999]'
broken "NaN" "line 1, column 2: a value was expected" '[NaN]'
broken "a key twice" "line 1, column 8: the same key" '{"a":1,"a":2}'
broken "an escape that is none" "no such escape" '["\\x"]'
broken "half a surrogate" "without the four digits" '["\\ud800"]'
broken "U+0000" "u0000 in a text" '["\\u0000"]'
broken "no UTF-8" "no UTF-8" '["\xff"]'
broken "a byte 0" "control character|a value was expected" '[\0]'
broken "a line break in a text" "control character" '["a\nb"]'
broken "an open text" "inside a text" '["a'
broken "too deep" "nested too deeply" "$(printf '[%.0s' {1..40})"
broken "another program's file" "no result of 'clmoe bench --json'" '{"schema": "else", "version": 1, "rows": []}'
broken "a list" "no result of" '[]'
broken "another version" "schema version 2; this program reads version 1" '{"schema": "clmoe bench", "version": 2, "rows": []}'
broken "no rows" 'no "rows"' '{"schema": "clmoe bench", "version": 1}'
start='{"schema": "clmoe bench", "version": 1, "rows": ['
row='{"workload": "a", "contender": "b", "device": "c", "status": "ok", "hash": "", "input_hash": ""'
broken "a row without a device" 'row 0: no text "device"' "$start"'{"workload": "a", "contender": "b"}]}'
broken "a row without samples" 'row 0: "wall_us" is no list' "$start$row}]}"
broken "a sample that is no number" 'row 0: "wall_us" is no list' "$start$row"', "wall_us": ["1"]}]}'
broken "a time below 0" 'row 0: "wall_us" is no list' "$start$row"', "wall_us": [-1]}]}'
broken "ok without a sample" 'row 0: status "ok" without a sample' "$start$row"', "wall_us": []}]}'

finish
