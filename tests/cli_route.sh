# Part of test_cli.sh, with its functions and arrays: route and route-align.

# weights FILE PATTERN: the weights in decimals, as in "^0.7310[0-9]* 0.2689".
weights() {
    items "$1" f4 | grep -Eq -e "$2"
}
sums=', ids [0-9a-f]{8}, weights [0-9a-f]{8}, hash [0-9a-f]{8}'
out="--out-ids i.npy --out-weights w.npy"

# ---- route: what the numbers are
npy c14.npy '<f4' '(1, 4)' 0x40000000 0x3f800000 0x3f000000 0xbf800000 # 2 1 0.5 -1
accepts "route: one line" "^1 token, 2 of 4 experts each$sums\$" route c14.npy --top-k 2
check "route: only that line" eval '[ "$(wc -l <out)" -eq 1 ]'
cp out line
accepts "route: files" "^1 token" route c14.npy --top-k 2 $out
check "route: ids, int32" eval 'holds i.npy "0 1" && is i.npy "<i4" "(1, 2)"'
check "route: weights, float32, of a softmax over all" eval 'weights w.npy "^0.60946[0-9]* 0.22420[0-9]*$" && is w.npy "<f4" "(1, 2)"'
check "route: the same line with files" cmp -s out line
run route c14.npy --top-k 2 --renormalize sum $out
check "route --renormalize sum" eval 'holds i.npy "0 1" && weights w.npy "^0.73105[0-9]* 0.26894[0-9]*$"'
check "route: other weights, other sums of them alone" eval '[ "$(grep -o "ids [0-9a-f]*" out)" = "$(grep -o "ids [0-9a-f]*" line)" ] &&
    [ "$(grep -o "weights [0-9a-f]*" out)" != "$(grep -o "weights [0-9a-f]*" line)" ] && [ "$(grep -o "hash.*" out)" != "$(grep -o "hash.*" line)" ]'
# routed NAME IDS WEIGHTS OPTION...: of 2 1 0.5 -1 the two best.
routed() {
    local name=$1 ids=$2 pattern=$3
    shift 3
    run route c14.npy --top-k 2 $out "$@"
    check "route $name" eval '[ $code -eq 0 ] && [ ! -s err ] && holds i.npy "$ids" && weights w.npy "$pattern"'
}
routed "--renormalize none" "0 1" "^0.60946[0-9]* 0.22420" --renormalize none
routed "--renormalize sum+EPS" "0 1" "^0.33237[0-9]* 0.12227" --renormalize sum+1
routed "--renormalize max(EPS), the sum" "0 1" "^0.73105[0-9]* 0.26894" --renormalize 'max(0.5)'
routed "--renormalize max(EPS), the EPS" "0 1" "^0.30473[0-9]* 0.11210" --renormalize 'max(2)'
routed "--scale" "0 1" "^1.46211[0-9]* 0.53788" --renormalize sum --scale 2
routed "--score softmax" "0 1" "^0.60946[0-9]* 0.22420" --score softmax
routed "--score sigmoid" "0 1" "^0.88079[0-9]* 0.73105" --score sigmoid
routed "--score sqrt-softplus" "0 1" "^1.45839[0-9]* 1.14597" --score sqrt-softplus
routed "--score identity" "0 1" "^2 1$" --score identity
routed "--softcap" "0 1" "^0.96402[0-9]* 0.76159" --score identity --softcap 1
routed "--softcap 0: none" "0 1" "^2 1$" --score identity --softcap 0
routed "--weights softmax-chosen" "0 1" "^0.73105[0-9]* 0.26894" --score identity --weights softmax-chosen
routed "--weights sigmoid-chosen" "0 1" "^0.88079[0-9]* 0.73105" --score identity --weights sigmoid-chosen
npy bias.npy '<f4' '(4,)' 0 0 0x40000000 0x40800000 # 0 0 2 4
routed "--bias: for the choice alone" "3 2" "^0.26894[0-9]* 0.62245" --score sigmoid --bias bias.npy
npy each.npy '<f4' '(4,)' 0x40000000 0x3f000000 0 0 # 2 0.5 0 0
routed "--expert-scale" "0 1" "^4 0.5$" --score identity --expert-scale each.npy
routed "--groups max" "0 1" "^2 1$" --score identity --groups 2:1:max
routed "--groups top2" "0 1" "^2 1$" --score identity --groups 2:1:top2
routed "--groups none" "0 1" "^2 1$" --score identity --groups none
npy groups.npy '<f4' '(1, 8)' 0 0x3f000000 0x3f800000 0 0x40000000 0xc0400000 0 0 # 0 0.5 | 1 0 | 2 -3 | 0 0
npy minus_ten.npy '<f4' '(8,)' 0xc1200000 0xc1200000 0xc1200000 0xc1200000 0xc1200000 0xc1200000 0xc1200000 0xc1200000
run route groups.npy --top-k 3 --score sigmoid --bias minus_ten.npy --groups 4:2:top2 --renormalize sum $out
check "route: groups that stay, below 0" eval 'holds i.npy "2 1 0" && weights w.npy "^0.39441[0-9]* 0.33582[0-9]* 0.26975"'
run route groups.npy --top-k 2 --groups 4:2:max $out
check "route: groups by their best expert" holds i.npy "4 2"

# ---- route: types and shapes
npy c14_f16.npy '<f2' '(1, 4)' 0x4000 0x3c00 0x3800 0xbc00
npy c14_bf16.npy '<u2' '(1, 4)' 0x4000 0x3f80 0x3f00 0xbf80
npy c14_big.npy '>f4' '(1, 4)' 0x40 0x803f 0x3f 0x80bf
for option in "c14.npy --dtype f32" "c14_f16.npy" "c14_f16.npy --dtype f16" "c14_bf16.npy --dtype bf16" "c14_big.npy"; do
    run route $option --top-k 2
    check "route: the same from $option" cmp -s out line
done
npy deep.npy '<f4' '(2, 1, 4)' 0 0 0 0 0x40000000 0x3f800000 0x3f000000 0xbf800000
npy deep_bias.npy '<f4' '(2, 4)' 0 0 0 0 0 0 0x40000000 0x40800000
run route deep.npy --at 1 --top-k 2
check "route --at" cmp -s out line
run route deep.npy --at 1 --top-k 2 --score sigmoid --bias deep_bias.npy $out
check "route --at: of the bias too" holds i.npy "3 2"
npy no_tokens.npy '<f4' '(0, 8)'
accepts "route: no tokens" "^0 tokens, 2 of 8 experts each, ids 00000000, weights 00000000, hash 00000000$" route no_tokens.npy --top-k 2 $out
check "route: empty arrays then" eval 'is i.npy "<i4" "(0, 2)" && is w.npy "<f4" "(0, 2)"'
npy nan.npy '<f4' '(2, 4)' 0x7fc00000 0x7fc00000 0x7fc00000 0x7fc00000 0xff800000 0x7fc00000 0x40000000 0
run route nan.npy --top-k 4 --renormalize sum $out
check "route: NaN ranks last, weights 0" eval 'holds i.npy "0 1 2 3 2 3 0 1" && weights w.npy "^0 0 0 0 0.8807[0-9]* 0.1192[0-9]* 0 0$"'
for dtype in f32 f16 bf16; do
    one=0x3f800000 descr='<f4'
    if [ $dtype = f16 ]; then one=0x3c00 descr='<f2'; fi
    if [ $dtype = bf16 ]; then one=0x3f80 descr='<u2'; fi
    row=()
    for ((e = 0; e < 384; e++)); do row[e]=0; done
    first=("${row[@]}")
    row[5]=$one row[200]=$one row[383]=$one
    npy ties.npy "$descr" '(2, 384)' "${first[@]}" "${row[@]}"
    run route ties.npy --dtype $dtype --top-k 8 --renormalize sum $out
    check "route: ties, $dtype: the lower expert" holds i.npy "0 1 2 3 4 5 6 7 5 200 383 0 1 2 3 4"
    check "route: ties, $dtype: equal weights" weights w.npy "^(0.125 ){8}"
    run route ties.npy --dtype $dtype --top-k 8 $out
    check "route: ties, $dtype: of a softmax over all" weights w.npy "^(0.00260416[0-9]* ){8}"
done
for sum in 5:52a988ba 60:ab703676 72:e91fc243 160:477e4b4d 192:a666c351 384:4b5a4d3b 576:731d1133; do
    experts=${sum%:*}
    for dtype in f32 f16; do
        "$make_logits" mixed.npy $dtype 256 64 $experts
        accepts "route: $experts experts, $dtype" "^64 tokens, .* experts each, ids ${sum#*:}," \
            route mixed.npy --top-k $((experts > 8 ? 8 : experts - 1))
    done
done

# ---- route: what is told
run route c14.npy --top-k 2 --json $out
check "route --json" eval '[ $code -eq 0 ] && grep -q "\"tokens\": 1," out && grep -q "\"score\": \"softmax\"," out &&
    grep -q "\"dtype\": \"f32\"," out && grep -q "\"w.npy\"" out && ! grep -q "\"model\"" out'
for part in ids weights hash; do
    key=$([ $part = hash ] && echo hash || echo ${part}_crc32)
    check "route --json: $part" grep -q "\"$key\": \"$(grep -o "$part [0-9a-f]*" line | cut -d' ' -f2)\"" out
done
run route c14.npy --top-k 2 --json --softcap 30 --score sigmoid --bias bias.npy --groups 2:2:top2 --renormalize sum+1e-20 --scale 2.5
check "route --json: the router, as options" eval 'grep -q "\"softcap\": 30," out && grep -q "\"bias\": true," out &&
    grep -q "\"groups\": \"2:2:top2\"," out && grep -q "\"renormalize\": \"sum+1e-20\"," out && grep -q "\"scale\": 2.5," out'
run route c14.npy --top-k 2 -v
check "route -v: says what ran" eval '[ $code -eq 0 ] && cmp -s out line && grep -Eq "^clmoe route: route .*: 1 launch " err'
for threads in 1 2 5; do
    run route mixed.npy --top-k 8 --threads $threads
    [ $threads -eq 1 ] && cp out one_thread
    check "route --threads $threads" cmp -s out one_thread
done

# ---- Models
accepts "route --model list" "^deepseek-v3 +256 +8 +sigmoid .* 8:4:top2 .* sum\+1e-20 .* 2.5 .*--bias .*deepseek-ai/DeepSeek-V3$" route --model list
tail -n +2 out | tr -s ' ' >models
check "models: sorted, each once" sort -cu models
accepts "route-align --model list: the same" "^deepseek-v3 " route-align --model list
accepts "route --model list --json" '"name": "mixtral-8x7b",' route --model list --json
check "route --model list --json: all" eval '[ "$(grep -c "\"source\": " out)" -eq "$(wc -l <models)" ]'
while read -r model experts top_k rest; do
    [ -e "logits_$experts.npy" ] || "$make_logits" "logits_$experts.npy" f32 256 40 $experts
    run route "logits_$experts.npy" --model $model
    needs=0
    case $rest in *--bias* | *--expert-scale*) needs=1 ;; esac
    check "model $model" eval '[ $code -eq 0 ] && grep -Eq "^40 tokens, $top_k of $experts experts each" out && [ "$(wc -l <err)" -eq $needs ]'
done <models
run route logits_256.npy --model deepseek-v3
check "a bias that is missing is told" eval \
    '[ "$(cat err)" = "clmoe route: deepseek-v3 adds a bias to its scores; none given (--bias), so none is added" ]'
run route logits_128.npy --model gemma-4-26b-a4b --json
check "a scale that is missing is told" eval 'grep -Eq "^clmoe route: gemma-4-26b-a4b .* \(--expert-scale\)" err && grep -q "\"expert_scale\": false" out'
"$make_logits" bias_256.npy f32 4096 256
accepts "--model with its bias: nothing to tell" "^40 tokens, 8 of 256" route logits_256.npy --model DeepSeek-V3 --bias bias_256.npy $out
cp out by_name
accepts "--model: as by its options" "^40 tokens" route logits_256.npy --top-k 8 --score sigmoid --bias bias_256.npy --groups 8:4:top2 \
    --renormalize sum+1e-20 --scale 2.5
check "--model: the same sums" cmp -s out by_name
accepts "--model: what else is given replaces its part" "^40 tokens, 4 of 256" route logits_256.npy --model deepseek-v3 \
    --bias bias_256.npy --top-k 4 --groups none --renormalize none --scale 1
cp out changed
accepts "--model: as without" "^40 tokens" route logits_256.npy --top-k 4 --score sigmoid --bias bias_256.npy
check "--model: the same sums again" cmp -s out changed

# ---- route: bad usage and input
npy doubles.npy '<f8' '(1, 4)' 0 0 0 0
npy flat_logits.npy '<f4' '(4,)' 0 0 0 0
npy thin.npy '<f4' '(4, 0)'
r="route c14.npy --top-k 2 --out-ids never --out-weights never2"
refuses "route: no --top-k" 2 '^clmoe route: --top-k K is missing, or --model NAME$' route c14.npy --out-ids never
refuses "route: no LOGITS.npy" 2 '^clmoe route: LOGITS.npy is missing; ' route --top-k 2
refuses "route: --top-k 0" 2 'top-k 0: must be at least 1' route c14.npy --top-k 0
refuses "route: --top-k beyond the experts" 2 'top-k 5: must be at most 4, the number of experts' route c14.npy --top-k 5
refuses "route: no such score" 2 'score relu: must be one of softmax\|sigmoid\|sqrt-softplus\|identity' $r --score relu
refuses "route: no such weights" 2 'weights all: must be one of score\|softmax-chosen\|sigmoid-chosen' $r --weights all
refuses "route: no such dtype" 2 'dtype f64: must be one of f32\|f16\|bf16' $r --dtype f64
refuses "route: --softcap below 0" 2 'softcap -1: must be at least 0' $r --softcap -1
refuses "route: --softcap no number" 2 'softcap 1x: not a number' $r --softcap 1x
refuses "route: --scale 0" 2 '^clmoe route: --scale 0: must be above 0$' $r --scale 0
refuses "route: --scale nan" 2 'scale nan: not a number' $r --scale nan
refuses "route: --scale beyond float32" 2 'scale 1e39: must be at most 3.4e38' $r --scale 1e39
refuses "route: --scale too small for float32" 2 'scale 1e-40: must be 0, or at least 1.2e-38' $r --scale 1e-40
refuses "route: --softcap far too small" 2 'softcap 1e-400: must be 0, or at least 1.2e-38' $r --softcap 1e-400
refuses "route: --scale with nothing" 2 "scale '': not a number" $r --scale ''
refuses "route: --groups, too many stay" 2 '^clmoe route: --groups 8:9:top2: KEEP 9: must be at most 8$' $r --groups 8:9:top2
refuses "route: --groups, none stays" 2 'groups 2:0:max: KEEP 0: must be at least 1' $r --groups 2:0:max
refuses "route: --groups of none" 2 'groups 0:1:max: N 0: must be at least 1' $r --groups 0:1:max
refuses "route: --groups, unequal" 2 "groups 3:2:max: 4 experts don't make 3 equal groups" $r --groups 3:2:max
refuses "route: --groups, one expert each" 2 'groups 4:2:top2: top2 needs at least 2 experts in a group' $r --groups 4:2:top2
refuses "route: --groups, no room" 2 'groups 4:1:max: --top-k 2 is more than the experts that stay, 1' $r --groups 4:1:max
refuses "route: --groups without a rule" 2 'groups 2:1: must be N:KEEP:max, N:KEEP:top2 or none' $r --groups 2:1
refuses "route: --groups with another rule" 2 'groups 2:1:min: must be N:KEEP:max' $r --groups 2:1:min
refuses "route: --groups no number" 2 'groups x:1:max: N x: not a whole number' $r --groups x:1:max
refuses "route: --renormalize another way" 2 'renormalize mean: must be none, sum, sum\+EPS or max\(EPS\)' $r --renormalize mean
refuses "route: --renormalize without EPS" 2 "renormalize sum\+: EPS '': not a number" $r --renormalize sum+
refuses "route: --renormalize below 0" 2 'renormalize max\(-1\): EPS -1: must be at least 0' $r --renormalize 'max(-1)'
refuses "route: unknown model, near" 2 '^clmoe route: --model deepsek-v3: unknown; did you mean deepseek-v3\?$' $r --model deepsek-v3
refuses "route: unknown model, far" 2 "model frobnicate: unknown; 'clmoe route --model list' lists them" $r --model frobnicate
refuses "route: another model's logits" 2 '^clmoe route: c14.npy: float32 \(1, 4\): deepseek-v3 has 256 experts, not 4$' $r --model deepseek-v3
refuses "route: a model's groups have no room" 2 'groups 8:4:top2: --top-k 129 is more than the experts that stay, 128' \
    route logits_256.npy --model deepseek-v3 --top-k 129
refuses "route: float64" 2 'float64 \(1, 4\): logits must be float32, float16, or uint16 with --dtype bf16' route doubles.npy --top-k 2
refuses "route: uint16 of which type" 2 'uint16 \(1, 4\): logits must be' route c14_bf16.npy --top-k 2
refuses "route: float32 as bf16" 2 'float32 \(1, 4\): --dtype bf16 needs uint16' $r --dtype bf16
refuses "route: float16 as f32" 2 'float16 \(1, 4\): --dtype f32 needs float32' route c14_f16.npy --dtype f32 --top-k 2
refuses "route: one dimension" 2 'float32 \(4,\): must have 2 dimensions' route flat_logits.npy --top-k 2
refuses "route: no experts" 2 'float32 \(4, 0\): logits are \[tokens\]\[experts\], .*at least 1 expert' route thin.npy --top-k 2
refuses "route: --at missing" 2 'pick one part with 1 index, such as --at 0' route deep.npy --top-k 2
refuses "route: --at where there is nothing to pick" 2 'no leading dimension' $r --at 0
refuses "route: bias of another length" 2 'minus_ten.npy: float32 \(8,\): the bias must hold one float32 for each of 4 experts' $r --bias minus_ten.npy
refuses "route: bias of integers" 2 'int32 \(8,\): the bias must hold' $r --bias flat.npy
refuses "route: scale of another length" 2 'float32 \(8,\): the scale must hold one float32 for each of 4 experts' $r --expert-scale minus_ten.npy
refuses "route: no such bias" 2 '^clmoe route: missing.npy: No such file' $r --bias missing.npy
refuses "route: one file, two outputs" 2 'would be written twice' route c14.npy --top-k 2 --out-ids never --out-weights never
cp i.npy keep.npy
refuses "route: one output can't be written" 2 'No such file' route mixed.npy --top-k 8 --out-ids i.npy --out-weights no/such
check "route: and the other stays as it was" cmp -s i.npy keep.npy
check "nothing was written by any of these" eval '[ ! -e never ] && [ ! -e never2 ] && ! ls | grep -Eq "writing|former"'

# ---- route-align: what route and align do one after the other
ra="route-align logits_60.npy --model qwen1.5-moe-a2.7b --block 16"
run route logits_60.npy --model qwen1.5-moe-a2.7b $out
route_sums=$(grep -o ', ids.*' out)
accepts "route-align: align's line, route's sums" \
    "^160 pairs, [0-9]+ of 60 experts used, [0-9]+ blocks of 16, padding factor [0-9.]+$route_sums, layout [0-9a-f]{8}\$" $ra
check "route-align: small table" grep -Eq "rows at most +[0-9]+$" out
# same NAME OPTION...: files of route-align with these options are those of align with them.
same() {
    local name=$1
    shift
    rm -rf fused apart
    run $ra -o fused "$@"
    "$program" align i.npy --experts 60 --block 16 -o apart "$@" >apart_out
    cp i.npy apart/topk_ids.npy
    cp w.npy apart/topk_weights.npy
    check "route-align $name" eval '[ $code -eq 0 ] && [ ! -s err ] && diff -r fused apart && grep -qF "$(cat apart_out)" out'
}
same "-o"
same "--optional" --optional counts,offsets,padded_offsets,inverse,rows_valid,status
same "--pad-value, --capacity" --pad-value -1 --capacity 4096
same "--num-tokens-device" --num-tokens-device 7
mask=()
for ((t = 0; t < 40; t++)); do mask[t]=$((t % 3 > 0)); done
npy mask_40.npy '|u1' '(40,)' "${mask[@]}"
same "--row-mask" --row-mask mask_40.npy
map=()
for ((e = 0; e < 60; e++)); do map[e]=$((e % 2 ? e / 2 : -1)); done
npy map_60.npy '<i4' '(60,)' "${map[@]}"
for foreign in drop keep bucket; do
    same "--foreign $foreign" --expert-map map_60.npy --foreign $foreign
done
run $ra -o fused --optional sorted_weights
"$program" align i.npy --experts 60 --block 16 -o apart --optional sorted_weights --weights w.npy >/dev/null
check "route-align: sorted_weights" cmp -s fused/sorted_weights.npy apart/sorted_weights.npy
"$program" align i.npy --experts 60 --block 16 --explain >apart_out
run $ra --explain
check "route-align --explain" eval 'diff <(sed "s/, ids .*//" out) apart_out'
"$program" align i.npy --experts 60 --block 16 --draw apart.svg >apart_out
run $ra --draw fused.svg
check "route-align --draw" cmp -s fused.svg apart.svg
run $ra --json -o fused
check "route-align --json" eval '[ $code -eq 0 ] && grep -q "\"pairs\": 160," out && grep -q "\"model\": \"qwen1.5-moe-a2.7b\"," out &&
    grep -q "\"hash\": \"${route_sums##* }\"," out && grep -q "\"layout_crc32\": " out && grep -q "\"fused/topk_weights.npy\"" out'
run $ra -v
check "route-align -v: says what ran" grep -Eq "^clmoe route-align: route.*: [1-4] launch" err
accepts "route-align: no tokens" "^0 pairs, 0 of 8 experts used, 0 blocks of 4, padding factor -, ids 00000000" \
    route-align no_tokens.npy --top-k 2 --block 4 -o fused
run route-align logits_256.npy --model deepseek-v3 --block 16
check "route-align: a missing bias is told" eval '[ $code -eq 0 ] && grep -q "^clmoe route-align: deepseek-v3 adds a bias" err'
refuses "route-align: no --block" 2 '^clmoe route-align: --block B is missing$' route-align c14.npy --top-k 2
refuses "route-align: no --top-k" 2 'top-k K is missing' route-align c14.npy --block 2 -o never
refuses "route-align: no LOGITS.npy" 2 '^clmoe route-align: LOGITS.npy is missing; ' route-align --top-k 2 --block 2
refuses "route-align: --groups" 2 '^clmoe route-align: --groups 3:1:max: 4 experts' route-align c14.npy --top-k 1 --block 2 --groups 3:1:max
refuses "route-align: --capacity too small" 2 'capacity 16: must be at least' $ra --capacity 16 -o never
refuses "route-align: --optional unknown" 2 "unknown output 'count'; nearest is counts" $ra --optional count -o never
refuses "route-align: --optional without -o" 2 'needs -o DIR' $ra --optional counts
refuses "route-align: --explain --json" 2 "can't go together" $ra --explain --json
refuses "route-align: a map of another length" 2 'one integer for each of 60 experts' $ra --expert-map map.npy -o never
refuses "route-align: a mask of another length" 2 'one uint8 or bool for each token' $ra --row-mask mask.npy -o never
refuses "route-align: rows beyond 2^31" 2 'max_tokens' $ra --block 2000000000 -o never
check "nothing was written by these" eval '[ ! -e never ] && ! ls -R | grep -Eq "writing|former"'

# ---- OpenCL: every device and class gives the sums of the native device. Drivers cache what they compile; with a cache of ours PoCL would
# compile everything a second time, for any group size, which takes it several times as long.
wish_list="deepseek-v3 kimi-k2 qwen3-30b-a3b gpt-oss-20b mixtral-8x7b glm-4.5 llama-4-scout ernie-4.5 deepseek-v4-flash"
# sums_of_models OPTION...: a line for each model and command.
sums_of_models() {
    local model experts bias
    for model in $wish_list; do
        experts=$(grep "^$model " models | cut -d' ' -f2)
        bias=()
        if grep -q "^$model .*--bias" models; then
            bias=(--bias "bias_$experts.npy")
        fi
        echo "$model $("$program" route "logits_$experts.npy" --model $model "${bias[@]}" "$@")"
        echo "$model $("$program" route-align "logits_$experts.npy" --model $model "${bias[@]}" --block 16 -o fused "$@")"
    done 2>err
}
for experts in 64 160 256 384; do
    "$make_logits" "bias_$experts.npy" f32 4096 $experts
done
sums_of_models --device native >native_sums
check "wish list: on the native device" eval '[ "$(grep -Ec "hash [0-9a-f]{8}" native_sums)" -eq 18 ]'
for pair in Portable:serial Portable:parallel rusticl:serial rusticl:parallel; do
    export RUSTICL_ENABLE=llvmpipe
    if "$program" devices | grep -q "${pair%:*}"; then
        sums_of_models --device "${pair%:*}" --class "${pair#*:}" --cache-dir none >out
        check "wish list: the same sums on $pair" diff native_sums out
    fi
    unset RUSTICL_ENABLE
done
