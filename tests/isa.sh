#!/usr/bin/env bash
# Compiles the kernels of the parallel class for the GPUs of three vendors and as SPIR-V, without any GPU, and holds the compilers' reports
# against isa_budget.csv. Fails on a compile error; spills or scratch memory that isa_allowed.csv gives no reason for; local memory over
# 32 KiB; a kernel without a line, a line without a kernel; and, with the compilers of isa_tools.txt, a register more, or a wave less, than
# the budget.
# Usage: isa.sh [--update] <everyday|all> <program print_programs> <directory of Intel's compiler> <scratch directory>
#   everyday  of each operator and each set of switches one type (they take turns), in the size of groups that tuning prefers; of
#             route_align, which is made of two others, only the largest set
#   all       every type, and every size of groups that tuning falls back to, without route also where groups have at most 64; of
#             route_align, each set of switches and size in one type
#   --update  writes the budget anew (all only)
set -u
export LC_ALL=C
update=
[ "$1" = --update ] && update=1 && shift
extent=$1 print_programs=$2 intel=$3 scratch=$4
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
budget=$here/isa_budget.csv
export intel scratch
rm -rf "$scratch"/{programs,small,reports,logs,work} && mkdir -p "$scratch"/{programs,small,reports,logs,work,kept} || exit 1

failed=0
fail() {
    echo "FAILED  $*"
    failed=$((failed + 1))
}

# ---- Tools ----
export ptxas=
for candidate in "$(command -v ptxas)" /usr/local/cuda/bin/ptxas; do
    [ -n "$candidate" ] && [ -x "$candidate" ] && ptxas=$candidate && break
done
for tool in clang-19 ld.lld-19 llvm-objcopy-19 clang-14 llvm-spirv-14 spirv-val "$intel/usr/bin/ocloc"; do
    command -v "$tool" >/dev/null || fail "missing: $tool"
done
for library in nvptx64--nvidiacl amdgcn--amdhsa; do
    [ -f /usr/lib/clc/$library.bc ] || fail "missing: /usr/lib/clc/$library.bc"
done
[ "$failed" -eq 0 ] || exit 1
[ -n "$ptxas" ] || echo "note: no ptxas here: for NVIDIA the kernels are compiled to PTX only, and their lines of the budget are not checked"

# ---- Programs ----
"$print_programs" "$scratch/programs" 256 && "$print_programs" "$scratch/small" 64 || exit 1
options=$(cat "$scratch/programs/options")
[ "$options" = "-cl-std=CL1.2" ] || fail "the library builds with '$options'; this script does not"

# kernels.csv of both, with the larger local memory where they share a program.
rm "$scratch/small"/route*.cl && sed -i '/^route/d' "$scratch/small/kernels.csv"
cp -n "$scratch/small"/*.cl "$scratch/programs"
awk -F, -v OFS=, '$3 >= local[$1 "," $2] + 0 { local[$1 "," $2] = $3 } END { for (kernel in local) print kernel, local[kernel] }' \
    "$scratch"/{programs,small}/kernels.csv | sort >"$scratch/kernels.csv"
for kernel in $(sed -nE 's/^kernel .*void ([a-z_]+)\(.*/\1/p' "$here"/../cl/parallel/*.cl); do
    grep -q ",$kernel," "$scratch/kernels.csv" || fail "$kernel of cl/parallel is in no program"
done
# The turn goes round by the number of the set of switches, so that every type is compiled.
cut -d, -f1 "$scratch/kernels.csv" | uniq | awk -F. -v extent="$extent" '
    {
        op = $1; size = substr($NF, 2) + 0
        set = op; for (i = 3; i < NF; ++i) set = set "." $i
        if (extent == "all" && op != "route_align") { print; next }
        if (extent == "all") set = set "." size
        if (extent != "all" && op == "route_align" && (NF < 5 || /scratch_is_global/)) next
        if (!(set in types)) { order[++sets] = set; turn[set] = in_op[op]++ }
        if (size > largest[set]) { largest[set] = size; types[set] = 0 }
        if (size == largest[set]) program[set, types[set]++] = $0
    }
    END { for (i = 1; i <= sets; ++i) print program[order[i], turn[order[i]] % types[order[i]]] }' >"$scratch/chosen"

# ---- Compilers ----
# Drivers define __OPENCL_VERSION__, clang alone does not.
opencl() { # opencl <clang> <option ...>
    "$1" -x cl -cl-std=CL1.2 -D__OPENCL_VERSION__=120 -Wall -Werror -Wno-unused-function "${@:2}"
}
# Each prints lines "kernel,registers,scalar registers,spills,scratch bytes,local bytes,occupancy".
# Scratch is memory of a work-item (Intel: of a hardware thread) outside of registers: what is spilled, and arrays.
nvidia() { # registers of a work-item; occupancy: warps that they leave room for, of the 64 of a multiprocessor
    opencl clang-19 -target nvptx64-unknown-nvidiacl -march="$2" -O3 -Xclang -mlink-builtin-bitcode -Xclang /usr/lib/clc/nvptx64--nvidiacl.bc \
        -S -o "$work/k.ptx" "$1" || return
    [ -n "$ptxas" ] || return 0
    "$ptxas" -v -arch="$2" -o "$work/k.cubin" "$work/k.ptx" >"$work/report" 2>&1 || { cat "$work/report" && return 1; }
    awk -F"'" '
        function number(before) { return match($0, "[0-9]+" before) ? substr($0, RSTART) + 0 : 0 }
        /Compiling entry/ { kernel = $2 }
        /stack frame/ { scratch = number(" bytes stack frame"); spills = number(" bytes spill stores") / 4 }
        /Used/ {
            registers = number(" registers")
            warps = int(65536 / (int((registers + 7) / 8) * 8 * 32))
            printf "%s,%d,0,%d,%d,%d,%d\n", kernel, registers, spills, scratch, number(" bytes smem"), (warps > 64 ? 64 : warps)
        }' "$work/report"
}
amd() { # vector and scalar registers of a wave; occupancy: waves of a SIMD
    opencl clang-19 -target amdgcn-unknown-amdhsa -mcpu="$2" -nogpulib -O3 -Xclang -mlink-builtin-bitcode \
        -Xclang /usr/lib/clc/amdgcn--amdhsa.bc -Rpass-analysis=kernel-resource-usage -o "$work/k.hsaco" "$1" >"$work/report" 2>&1 ||
        { grep -E 'error|undefined' "$work/report" && return 1; }
    sed -nE 's/.*remark: *//; s/ \[-Rpass.*//p' "$work/report" | awk -F': ' '
        function put() {
            if (kernel) printf "%s,%d,%d,%d,%d,%d,%d\n", kernel, vector + accumulation, scalar, spills, scratch, local, occupancy
        }
        $1 == "Function Name" { put(); kernel = $2; spills = 0 }
        $1 == "VGPRs" { vector = $2 }
        $1 == "AGPRs" { accumulation = $2 }
        $1 ~ /^(Total)?SGPRs$/ { scalar = $2 }
        $1 ~ /Spill$/ { spills += $2 } # of scalar registers to lanes of vector registers, of those to scratch memory
        $1 ~ /^ScratchSize/ { scratch = $2 }
        $1 ~ /^Occupancy/ { occupancy = $2 }
        $1 ~ /^LDS Size/ { local = $2 }
        END { put() }'
}
intel() { # registers of 32 bytes of a hardware thread; occupancy: work-items that it runs at once
    LD_LIBRARY_PATH=$intel/usr/lib/x86_64-linux-gnu:$intel/usr/lib/x86_64-linux-gnu/intel-opencl IGC_EnableZEBinary=1 \
        "$intel/usr/bin/ocloc" compile -file "$1" -device "$2" -out_dir "$work" -output k -options -cl-std=CL1.2 >"$work/report" 2>&1 ||
        { cat "$work/report" && return 1; }
    llvm-objcopy-19 --dump-section .ze_info="$work/info" "$work"/k_*.bin /dev/null || return
    awk '
        function put() {
            if (kernel) printf "%s,%d,0,%d,%d,%d,%d\n", kernel, registers, warned[kernel], scratch, local, items
            registers = scratch = local = items = 0
        }
        /spilled around/ { warned[$3] = $NF } # the report comes first: "warning: kernel k compiled SIMD8 allocated 128 regs and spilled around 4"
        /^[a-z_]+:/ { is_kernels = $1 == "kernels:" }
        !is_kernels || FILENAME == report { next }
        /^  - name:/ { put(); kernel = $3 }
        /^    [a-z_]+:/ { is_private = $1 == "per_thread_memory_buffers:" }
        $1 == "grf_count:" { registers = $2 }
        $1 == "slm_size:" { local = $2 }
        $1 == "simd_size:" { items = $2 }
        is_private && $1 == "size:" { scratch += $2 }
        END { put() }' report="$work/report" "$work/report" "$work/info"
}
spirv() { # no figures: whether it is valid. -O0, as what clang 14 optimizes breaks rules of SPIR-V's control flow
    opencl clang-14 -target spir64-unknown-unknown -O0 -emit-llvm -c -o "$work/k.bc" "$1" &&
        llvm-spirv-14 --spirv-max-version=1.0 -o "$work/k.spv" "$work/k.bc" && spirv-val --target-env opencl1.2 "$work/k.spv"
}
# compile "<program> <compiler> <target>" -> reports/<program>.<target>, a line for each kernel; or logs/<program>.<target>. What the same
# compiler, called in the same way, said of the same text before is kept: minutes if nothing has changed.
compile() {
    local program compiler target work kept
    read -r program compiler target <<<"$1"
    kept=$scratch/kept/$(cat "$scratch/programs/$program.cl" "$scratch/tools" - <<<"$compiler $target" | sha256sum | cut -d' ' -f1)
    if [ ! -e "$kept" ]; then
        work=$(mktemp -d "$scratch/work/XXXXXX") || return 1
        if "$compiler" "$scratch/programs/$program.cl" "$target" >"$work/lines" 2>"$work/errors"; then
            mv "$work/lines" "$kept"
        else
            cat "$work/errors" "$work/lines" >"$scratch/logs/$program.$target"
            rm -r "$work"
            return 0
        fi
        rm -r "$work"
    fi
    sed "s/^\([^,]*\),/$program,\1,$target,/" "$kept" >"$scratch/reports/$program.$target"
}
export -f compile opencl nvidia amd intel spirv
{ declare -f opencl nvidia amd intel spirv && clang-19 --version && clang-14 --version && ls -l --time-style=full-iso "$intel"/usr/lib/*/*.so* &&
    { [ -z "$ptxas" ] || "$ptxas" --version; }; } >"$scratch/tools" || exit 1

# The versions that the budget is of: others count registers otherwise.
{
    clang-19 --version | head -n 1
    echo "libigc $(cat "$intel"/usr/lib/*/libigc.so.1 | sha256sum | cut -c1-16)"
    [ -z "$ptxas" ] || "$ptxas" --version | grep release
} >"$scratch/versions"
has_budget=1
if [ -n "$update" ]; then
    cp "$scratch/versions" "$here/isa_tools.txt"
elif grep -vxFf "$here/isa_tools.txt" "$scratch/versions"; then
    has_budget=
    echo "note: the budget is of other versions than these: no more than spills, scratch and local memory is checked"
fi

printf '%s\n' "nvidia sm_80" "nvidia sm_90" "amd gfx90a" "amd gfx942" "amd gfx1100" "intel skl" "intel tgllp" "intel acm-g10" "intel pvc" \
    "spirv spirv" >"$scratch/targets"
while read -r program; do
    sed "s/^/$program /" "$scratch/targets"
done <"$scratch/chosen" | tr '\n' '\0' | xargs -0 -n 1 -P 2 bash -c 'compile "$1"' bash || fail "not every compiler was run"
for log in "$scratch"/logs/*; do
    [ -e "$log" ] && fail "$(basename "$log") does not compile:" && head -n 20 "$log" | sed 's/^/        /'
done

# ---- Budget ----
# Local memory is what the compiler counts and what the library passes as an argument.
header="program,kernel,target,registers,scalar_registers,spills,scratch_bytes,local_bytes,occupancy"
sort "$scratch"/reports/* | awk -F, -v OFS=, 'NR == FNR { local[$1 "," $2] = $3; next } { $8 += local[$1 "," $2]; print }' \
    "$scratch/kernels.csv" - >"$scratch/found.csv"
if [ -n "$update" ]; then
    [ "$extent" = all ] && [ -n "$ptxas" ] && [ "$failed" -eq 0 ] || { echo "--update needs all, ptxas, and no failure" && exit 1; }
    { echo "$header" && cat "$scratch/found.csv"; } >"$budget" || exit 1
fi
awk -F, -v extent="$extent" -v has_ptxas="$ptxas" -v has_budget="$has_budget" '
    function over(what, number, limit) { if (number > limit + 0) print name ": " number " " what ", " limit + 0 " in the budget" }
    function allow(what, number, limit, line) {
        if (number == 0) return
        if (number > limit + 0) print name ": " number " " what ", and isa_allowed.csv allows " limit + 0
        used[line] = 1
    }
    file == 1 { chosen[$1] = 1 }
    file == 2 { if ($1 in chosen) kernels[$1 FS $2] = 1 }
    file == 3 { targets[$2] = $1; if ($1 != "spirv" && ($1 != "nvidia" || has_ptxas != "")) has_report[$2] = 1 }
    file == 4 && FNR > 1 {
        allowed[$1 FS $2] = 1; allowed_spills[$1 FS $2] = $3; allowed_scratch[$1 FS $2] = $4
        if ($5 == "") print "isa_allowed.csv gives no reason: " $0
    }
    file == 5 && FNR > 1 {
        key = $1 FS $2 FS $3
        lines[key] = 1; registers[key] = $4; scalars[key] = $5; spills[key] = $6; scratch[key] = $7; local[key] = $8; occupancy[key] = $9
    }
    file == 6 {
        key = $1 FS $2 FS $3; line = $2 FS $3; name = $2 " of " $1 " for " $3
        found[key] = 1
        allow("registers spilled", $6, allowed_spills[line], line)
        allow("bytes of scratch memory", $7, allowed_scratch[line], line)
        if ($8 > 32768) print name ": " $8 " bytes of local memory, a device has 32768 for sure"
        if (!(key in lines)) { print "isa_budget.csv has no line for " name; next }
        if (has_budget == "") next
        over("registers", $4, registers[key])
        over("scalar registers", $5, scalars[key])
        over("registers spilled", $6, spills[key])
        over("bytes of scratch memory", $7, scratch[key])
        over("bytes of local memory", $8, local[key])
        if ($9 < occupancy[key]) print name ": occupancy " $9 ", " occupancy[key] " in the budget"
    }
    END {
        for (kernel in kernels)
            for (target in has_report)
                if (!(kernel FS target in found)) print "the compiler for " target " reports nothing of " kernel
        if (extent != "all") exit
        for (key in lines) {
            split(key, part)
            if (part[3] in has_report ? !(key in found) : !(part[3] in targets)) print "isa_budget.csv has a line, but there is no kernel: " key
        }
        for (line in allowed) {
            split(line, part)
            if (part[2] in has_report && !(line in used)) print "isa_allowed.csv has a line that nothing needs: " line
        }
    }' file=1 "$scratch/chosen" file=2 "$scratch/kernels.csv" FS=' ' file=3 "$scratch/targets" FS=, file=4 "$here/isa_allowed.csv" \
    file=5 "$budget" file=6 "$scratch/found.csv" \
    >"$scratch/faults" || fail "isa_budget.csv and isa_allowed.csv cannot be compared"
while read -r fault; do
    fail "$fault"
done < <(sort "$scratch/faults")
echo "$(wc -l <"$scratch/chosen") programs, $(wc -l <"$scratch/found.csv") kernels on a target, $failed failed"
[ "$failed" -eq 0 ]
