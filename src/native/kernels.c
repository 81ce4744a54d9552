/* The native device's kernels: cl/serial compiled as C, and a function for each that unpacks its arguments. */
#include "kernels.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

/* What OpenCL C has and C has not. */
#define CLMOE_KERNEL
#define kernel static
#define global
static _Thread_local uint32_t this_group, this_num_groups;
#define get_group_id(dimension) this_group
#define get_num_groups(dimension) this_num_groups

#include "../../cl/align.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(name) JOIN(name, VARIANT)

#define BYTES(type, i) (*(const type *)arguments[i])
#define MEMORY(type, i) ((type *)(uintptr_t)arguments[i])

/* align: the same arguments for each type of id. */
#define ALIGN_INPUT_ARGUMENTS                                                                                                              \
    BYTES(struct align_params, 0), MEMORY(const ID, 1), MEMORY(const i32, 2), MEMORY(const u8, 3), MEMORY(const i32, 4)
#define ALIGN_OUTPUT_ARGUMENTS                                                                                                             \
    MEMORY(const u32, 5), MEMORY(i32, 6), MEMORY(i32, 7), MEMORY(i32, 8), MEMORY(i32, 9), MEMORY(i32, 10), MEMORY(i32, 11),                \
        MEMORY(i32, 12), MEMORY(i32, 13), MEMORY(u32, 14), MEMORY(i32, 15)
#define ALIGN_RUNNERS                                                                                                                      \
    static void NAME(run_align_one)(const void *const *arguments, uint32_t group, uint32_t num_groups) {                                   \
        this_group = group, this_num_groups = num_groups;                                                                                  \
        NAME(align_one)(ALIGN_INPUT_ARGUMENTS, ALIGN_OUTPUT_ARGUMENTS, MEMORY(u32, 16));                                                   \
    }                                                                                                                                      \
    static void NAME(run_align_count)(const void *const *arguments, uint32_t group, uint32_t num_groups) {                                 \
        this_group = group, this_num_groups = num_groups;                                                                                  \
        NAME(align_count)(ALIGN_INPUT_ARGUMENTS, MEMORY(u32, 5));                                                                          \
    }                                                                                                                                      \
    static void NAME(run_align_place)(const void *const *arguments, uint32_t group, uint32_t num_groups) {                                 \
        this_group = group, this_num_groups = num_groups;                                                                                  \
        NAME(align_place)(ALIGN_INPUT_ARGUMENTS, ALIGN_OUTPUT_ARGUMENTS, MEMORY(u32, 16));                                                 \
    }

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

#define narrow_id(id) ((i32)(id))
#define VARIANT i16
#define ID i16
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef ID
#undef VARIANT

#define VARIANT u8
#define ID u8
#include "../../cl/serial/align.cl"
ALIGN_RUNNERS
#undef ID
#undef VARIANT
#undef narrow_id

static void run_align_offsets(const void *const *arguments, uint32_t group, uint32_t num_groups) {
    this_group = group, this_num_groups = num_groups;
    align_offsets(BYTES(struct align_params, 0), MEMORY(u32, 1));
}

#ifndef CLMOE_NATIVE_LEVEL
#define CLMOE_NATIVE_LEVEL base
#endif
clmoe_native_kernel *JOIN(clmoe_native_find_kernel, CLMOE_NATIVE_LEVEL)(const char *name, const char *variant) {
#define ALIGN_ENTRIES(variant)                                                                                                             \
    {"align_one", #variant, run_align_one_##variant}, {"align_count", #variant, run_align_count_##variant},                                \
        {"align_offsets", #variant, run_align_offsets}, {                                                                                  \
        "align_place", #variant, run_align_place_##variant                                                                                 \
    }
    static const struct {
        const char *name, *variant;
        clmoe_native_kernel *run;
    } entries[] = {ALIGN_ENTRIES(i32), ALIGN_ENTRIES(i64), ALIGN_ENTRIES(u32), ALIGN_ENTRIES(i16), ALIGN_ENTRIES(u8)};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; ++i)
        if (strcmp(entries[i].name, name) == 0 && strcmp(entries[i].variant, variant) == 0)
            return entries[i].run;
    return NULL;
}
