/* The native device's kernels: cl/serial compiled as C, and a function for each that unpacks its arguments. */
#include "kernels.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

/* What OpenCL C has and C has not. */
#define CLMOE_KERNEL
#define kernel static
#ifdef __clang__
#pragma clang diagnostic ignored "-Wkeyword-macro"
#endif
#define inline __inline__ __attribute__((always_inline)) /* as OpenCL compilers do: flags that a caller passes as constants fold away */
#define NOT_INLINE __attribute__((noinline))
#define global
static _Thread_local uint32_t this_group, this_num_groups;
#define get_group_id(dimension) this_group
#define get_num_groups(dimension) this_num_groups
#define clz(x) _Generic((x), u64 : __builtin_clzll, default : __builtin_clz)(x)

#include "../../cl/align.h"
#include "../../cl/histogram.h"
#include "../../cl/route.h"
#include "../../cl/scan.h"
#include "../../cl/scatter.h"
#include "../../cl/sort.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(name) JOIN(name, VARIANT)

#define BYTES(type, i) (*(const type *)arguments[i])
#define MEMORY(type, i) ((type *)(uintptr_t)arguments[i])

/* A function that runs `kernel` of the present variant with these arguments. */
#define RUNNER(kernel_name, ...)                                                                                                           \
    static void NAME(run_##kernel_name)(const void *const *arguments, uint32_t group, uint32_t num_groups) {                               \
        this_group = group, this_num_groups = num_groups;                                                                                  \
        NAME(kernel_name)(__VA_ARGS__);                                                                                                    \
    }
/* The same for a kernel that all variants share. */
#define SHARED_RUNNER(kernel_name, ...)                                                                                                    \
    static void run_##kernel_name(const void *const *arguments, uint32_t group, uint32_t num_groups) {                                     \
        this_group = group, this_num_groups = num_groups;                                                                                  \
        kernel_name(__VA_ARGS__);                                                                                                          \
    }

/* ---- align: a variant for each type of id ---- */

#define ALIGN_INPUT_ARGUMENTS                                                                                                              \
    BYTES(struct align_params, 0), MEMORY(const ID, 1), MEMORY(const i32, 2), MEMORY(const u8, 3), MEMORY(const i32, 4)
#define ALIGN_OUTPUT_ARGUMENTS                                                                                                             \
    MEMORY(const u32, 5), MEMORY(i32, 6), MEMORY(i32, 7), MEMORY(i32, 8), MEMORY(i32, 9), MEMORY(i32, 10), MEMORY(i32, 11),                \
        MEMORY(i32, 12), MEMORY(i32, 13), MEMORY(u32, 14), MEMORY(i32, 15)
#define ALIGN_RUNNERS                                                                                                                      \
    RUNNER(align_one, ALIGN_INPUT_ARGUMENTS, ALIGN_OUTPUT_ARGUMENTS, MEMORY(u32, 16))                                                      \
    RUNNER(align_count, ALIGN_INPUT_ARGUMENTS, MEMORY(u32, 5))                                                                             \
    RUNNER(align_place, ALIGN_INPUT_ARGUMENTS, ALIGN_OUTPUT_ARGUMENTS, MEMORY(u32, 16))

#define VARIANT i32
#define ID i32
#define narrow_id(id) (id)
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef narrow_id
#undef ID
#undef VARIANT

#define VARIANT i64
#define ID i64
#define narrow_id(id) ((id) < INT_MIN ? INT_MIN : (id) > INT_MAX ? INT_MAX : (i32)(id))
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef narrow_id
#undef ID
#undef VARIANT

#define VARIANT u32
#define ID u32
#define narrow_id(id) ((id) > INT_MAX ? INT_MAX : (i32)(id))
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef narrow_id
#undef ID
#undef VARIANT

#define VARIANT i16
#define ID i16
#define narrow_id(id) ((i32)(id))
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef narrow_id
#undef ID
#undef VARIANT

#define VARIANT u8
#define ID u8
#define narrow_id(id) ((i32)(id))
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef narrow_id
#undef ID
#undef VARIANT

SHARED_RUNNER(align_offsets, BYTES(struct align_params, 0), MEMORY(u32, 1))

/* The row after the one at work: 256 experts in 210 ns a row instead of 380, where logits come from memory. */
#define PREFETCH(address) __builtin_prefetch(address)

/* ---- route: a variant for each type of logit; route_align with it, for ids that are i32 ----
 * Not with AVX-512, under which gcc 12 makes slower code of it than with AVX2: 680 against 510 cycles a row of 256 on a Zen 4, if their
 * logits decide; with sigmoid, bias and groups it is faster by a tenth. */
#ifndef __AVX512F__

#define ROUTE_ARGUMENTS                                                                                                                    \
    BYTES(struct route_params, 0), MEMORY(const LOGIT, 1), MEMORY(const float, 2), MEMORY(const float, 3), MEMORY(i32, 4), MEMORY(u32, 5)
#define ROUTE_RUNNERS                                                                                                                      \
    RUNNER(route_rows, ROUTE_ARGUMENTS, MEMORY(u32, 6))                                                                                    \
    RUNNER(route_align_one, ROUTE_ARGUMENTS, BYTES(struct align_params, 6), MEMORY(const i32, 7), MEMORY(const u8, 8),                     \
           MEMORY(const i32, 9), MEMORY(const u32, 10), MEMORY(i32, 11), MEMORY(i32, 12), MEMORY(i32, 13), MEMORY(i32, 14),                \
           MEMORY(i32, 15), MEMORY(i32, 16), MEMORY(i32, 17), MEMORY(i32, 18), MEMORY(u32, 19), MEMORY(i32, 20), MEMORY(u32, 21))

#define align_all_f32 align_all_i32
#define align_all_f16 align_all_i32
#define align_all_bf16 align_all_i32

#define VARIANT f32
#define LOGIT u32
#define logit_bits(logit) (logit)
#include "../../cl/serial/route.cl"
#include "../../cl/serial/route_align.cl"
ROUTE_RUNNERS
#undef logit_bits
#undef LOGIT
#undef VARIANT

#define VARIANT f16
#define LOGIT u16
#define logit_bits(logit) route_bits_of_f16(logit)
#include "../../cl/serial/route.cl"
#include "../../cl/serial/route_align.cl"
ROUTE_RUNNERS
#undef logit_bits
#undef LOGIT
#undef VARIANT

#define VARIANT bf16
#define LOGIT u16
#define logit_bits(logit) route_bits_of_bf16(logit)
#include "../../cl/serial/route.cl"
#include "../../cl/serial/route_align.cl"
ROUTE_RUNNERS
#undef logit_bits
#undef LOGIT
#undef VARIANT
#endif

/* ---- histogram: a variant for each type of sample ---- */

#define RUN_ITEMS 512 /* samples in a row that are looked at together */

#define HISTOGRAM_RUNNERS                                                                                                                  \
    RUNNER(histogram_one, BYTES(struct histogram_params, 0), MEMORY(const SAMPLE, 1), MEMORY(u32, 2), MEMORY(u32, 3))                      \
    RUNNER(histogram_count, BYTES(struct histogram_params, 0), MEMORY(const SAMPLE, 1), MEMORY(u32, 2))

#define VARIANT u32
#define SAMPLE u32
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT i32
#define SAMPLE i32
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT u64
#define SAMPLE u64
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT i64
#define SAMPLE i64
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT u16
#define SAMPLE u16
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT i16
#define SAMPLE i16
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT u8
#define SAMPLE u8
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

#define VARIANT i8
#define SAMPLE i8
#include "../../cl/serial/histogram.cl"
HISTOGRAM_RUNNERS
#undef SAMPLE
#undef VARIANT

SHARED_RUNNER(histogram_sum, BYTES(struct histogram_params, 0), MEMORY(const u32, 1), MEMORY(u32, 2), MEMORY(u32, 3))

/* ---- scan: a variant for each width ---- */

/* gcc 12 would gather four sums in a vector to store them at once, which takes longer than the sums: 0.35 instead of 0.24 ns an item. */
#ifndef __clang__
#pragma GCC push_options
#pragma GCC optimize("no-tree-slp-vectorize")
#endif

#define SCAN_RUNNERS                                                                                                                       \
    RUNNER(scan_sums, BYTES(struct scan_params, 0), MEMORY(const ITEM, 1), MEMORY(ITEM, 2))                                                \
    RUNNER(scan_place, BYTES(struct scan_params, 0), MEMORY(const ITEM, 1), MEMORY(ITEM, 2), MEMORY(const ITEM, 3))

#define VARIANT u32
#define ITEM u32
#include "../../cl/serial/scan.cl"
SCAN_RUNNERS
#undef ITEM
#undef VARIANT

#define VARIANT u64
#define ITEM u64
#include "../../cl/serial/scan.cl"
SCAN_RUNNERS
#undef ITEM
#undef VARIANT

#ifndef __clang__
#pragma GCC pop_options
#endif

/* ---- scatter and gather: a variant for each type of index ---- */

/* Rows come from all over the memory: asked for so many items ahead, ten million of 64 bytes take 0.22 s instead of 0.33. */
#define PREFETCH_ROWS 12

/* In parts of a length that the compiler knows; the last may overlap the one before it. */
#define COPY_PARTS(part_bytes)                                                                                                             \
    {                                                                                                                                      \
        u32 at = 0;                                                                                                                        \
        for (; at + (part_bytes) < num_bytes; at += (part_bytes))                                                                          \
            memcpy(to + at, from + at, part_bytes);                                                                                        \
        memcpy(to + num_bytes - (part_bytes), from + num_bytes - (part_bytes), part_bytes);                                                \
    }

/* A copy of an element or of a short row should not cost a call, and each store waits for its line: few and wide ones. */
static inline void copy_bytes(u8 *to, const u8 *from, u32 num_bytes, u32 word_bytes) {
    enum { LINE = 64, LONG = 1024 };
    (void)word_bytes;
    if (num_bytes >= LINE && num_bytes <= LONG)
        COPY_PARTS(LINE)
    else if (num_bytes > LONG || num_bytes < 4)
        memcpy(to, from, num_bytes);
    else if (num_bytes >= 16)
        COPY_PARTS(16)
    else if (num_bytes >= 8)
        COPY_PARTS(8)
    else
        COPY_PARTS(4)
}

static inline void zero_bytes(u8 *to, u32 num_bytes) {
    memset(to, 0, num_bytes);
}

#define SCATTER_ARGUMENTS                                                                                                                  \
    BYTES(struct scatter_params, 0), MEMORY(const u8, 1), MEMORY(const INDEX, 2), MEMORY(u8, 3), MEMORY(u32, 4), MEMORY(u32, 5)
#define SCATTER_RUNNERS                                                                                                                    \
    RUNNER(scatter_copy, SCATTER_ARGUMENTS)                                                                                                \
    RUNNER(gather_copy, SCATTER_ARGUMENTS)

#define VARIANT u32
#define INDEX u32
#include "../../cl/serial/scatter.cl"
SCATTER_RUNNERS
#undef INDEX
#undef VARIANT

#define VARIANT i32
#define INDEX i32
#include "../../cl/serial/scatter.cl"
SCATTER_RUNNERS
#undef INDEX
#undef VARIANT

#define VARIANT u64
#define INDEX u64
#include "../../cl/serial/scatter.cl"
SCATTER_RUNNERS
#undef INDEX
#undef VARIANT

#define VARIANT i64
#define INDEX i64
#include "../../cl/serial/scatter.cl"
SCATTER_RUNNERS
#undef INDEX
#undef VARIANT

SHARED_RUNNER(scatter_sum, BYTES(struct scatter_params, 0), MEMORY(const u32, 1), MEMORY(u32, 2))

/* ---- sort: a variant for each width of keys, alone or with values ---- */

#define SORT_RUNNERS                                                                                                                       \
    RUNNER(sort_one, BYTES(struct sort_params, 0), MEMORY(const KEY, 1), MEMORY(const VALUE, 2), MEMORY(KEY, 3), MEMORY(VALUE, 4),         \
           MEMORY(KEY, 5), MEMORY(VALUE, 6), MEMORY(u32, 7))                                                                               \
    RUNNER(sort_count, BYTES(struct sort_params, 0), MEMORY(const KEY, 1), MEMORY(u32, 2))                                                 \
    RUNNER(sort_place, BYTES(struct sort_params, 0), MEMORY(const KEY, 1), MEMORY(const VALUE, 2), MEMORY(KEY, 3), MEMORY(VALUE, 4),       \
           MEMORY(u32, 5))                                                                                                                 \
    RUNNER(sort_bits, BYTES(struct sort_params, 0), MEMORY(const KEY, 1), MEMORY(u32, 2))                                                  \
    RUNNER(sort_spread, BYTES(struct sort_params, 0), MEMORY(const KEY, 1), MEMORY(const VALUE, 2), MEMORY(KEY, 3), MEMORY(VALUE, 4),      \
           MEMORY(KEY, 5), MEMORY(u32, 6))                                                                                                 \
    RUNNER(sort_buckets, BYTES(struct sort_params, 0), MEMORY(KEY, 1), MEMORY(VALUE, 2), MEMORY(KEY, 3), MEMORY(u32, 4))

#define VARIANT k32
#define KEY u32
#define VALUE u32
#define VALUE_BYTES 0
#include "../../cl/serial/sort_items.cl"

#include "../../cl/serial/sort.cl"
SORT_RUNNERS
#undef VALUE_BYTES
#undef VALUE
#undef KEY
#undef VARIANT

#define VARIANT k32v32
#define KEY u32
#define VALUE u32
#define VALUE_BYTES 4
#include "../../cl/serial/sort_items.cl"

#include "../../cl/serial/sort.cl"
SORT_RUNNERS
#undef VALUE_BYTES
#undef VALUE
#undef KEY
#undef VARIANT

#define VARIANT k32v64
#define KEY u32
#define VALUE u64
#define VALUE_BYTES 8
#include "../../cl/serial/sort_items.cl"

#include "../../cl/serial/sort.cl"
SORT_RUNNERS
#undef VALUE_BYTES
#undef VALUE
#undef KEY
#undef VARIANT

#define VARIANT k64
#define KEY u64
#define VALUE u32
#define VALUE_BYTES 0
#include "../../cl/serial/sort_items.cl"

#include "../../cl/serial/sort.cl"
SORT_RUNNERS
#undef VALUE_BYTES
#undef VALUE
#undef KEY
#undef VARIANT

#define VARIANT k64v32
#define KEY u64
#define VALUE u32
#define VALUE_BYTES 4
#include "../../cl/serial/sort_items.cl"

#include "../../cl/serial/sort.cl"
SORT_RUNNERS
#undef VALUE_BYTES
#undef VALUE
#undef KEY
#undef VARIANT

#define VARIANT k64v64
#define KEY u64
#define VALUE u64
#define VALUE_BYTES 8
#include "../../cl/serial/sort_items.cl"

#include "../../cl/serial/sort.cl"
SORT_RUNNERS
#undef VALUE_BYTES
#undef VALUE
#undef KEY
#undef VARIANT

SHARED_RUNNER(sort_offsets, BYTES(struct sort_params, 0), MEMORY(u32, 1))

/* ---- The table ---- */

#ifndef CLMOE_NATIVE_LEVEL
#define CLMOE_NATIVE_LEVEL base
#endif
clmoe_native_kernel *JOIN(clmoe_native_find_kernel, CLMOE_NATIVE_LEVEL)(const char *name, const char *variant) {
#define ENTRY(name, variant)                                                                                                               \
    { #name, #variant, run_##name##_##variant }
#define SHARED_ENTRY(name)                                                                                                                 \
    { #name, NULL, run_##name }
#define ALIGN(variant) ENTRY(align_one, variant), ENTRY(align_count, variant), ENTRY(align_place, variant)
#define ALIGN_I32(name, variant)                                                                                                           \
    { #name, #variant, run_##name##_i32 }
#define ROUTE(variant)                                                                                                                     \
    ENTRY(route_rows, variant), ENTRY(route_align_one, variant), ALIGN_I32(align_one, variant), ALIGN_I32(align_count, variant),           \
        ALIGN_I32(align_place, variant)
#define HISTOGRAM(variant) ENTRY(histogram_one, variant), ENTRY(histogram_count, variant)
#define SCAN(variant) ENTRY(scan_sums, variant), ENTRY(scan_place, variant)
#define SCATTER(variant) ENTRY(scatter_copy, variant), ENTRY(gather_copy, variant)
#define SORT(variant)                                                                                                                      \
    ENTRY(sort_one, variant), ENTRY(sort_count, variant), ENTRY(sort_place, variant), ENTRY(sort_bits, variant),                           \
        ENTRY(sort_spread, variant), ENTRY(sort_buckets, variant)
    static const struct {
        const char *name, *variant; /* variant NULL: any */
        clmoe_native_kernel *run;
    } entries[] = {
        ALIGN(i32),
        ALIGN(i64),
        ALIGN(u32),
        ALIGN(i16),
        ALIGN(u8),
        SHARED_ENTRY(align_offsets),
#ifndef __AVX512F__
        ROUTE(f32),
        ROUTE(f16),
        ROUTE(bf16),
#endif
        HISTOGRAM(u32),
        HISTOGRAM(i32),
        HISTOGRAM(u64),
        HISTOGRAM(i64),
        HISTOGRAM(u16),
        HISTOGRAM(i16),
        HISTOGRAM(u8),
        HISTOGRAM(i8),
        SHARED_ENTRY(histogram_sum),
        SCAN(u32),
        SCAN(u64),
        SCATTER(u32),
        SCATTER(i32),
        SCATTER(u64),
        SCATTER(i64),
        SHARED_ENTRY(scatter_sum),
        SORT(k32),
        SORT(k32v32),
        SORT(k32v64),
        SORT(k64),
        SORT(k64v32),
        SORT(k64v64),
        SHARED_ENTRY(sort_offsets),
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; ++i)
        if (strcmp(entries[i].name, name) == 0 && (entries[i].variant == NULL || strcmp(entries[i].variant, variant) == 0))
            return entries[i].run;
    return NULL;
}
