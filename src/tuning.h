/* tuning.h - every number that is only for speed, and how a call is cut into launches and groups. Nothing here changes a result; what a
 * driver is known to get wrong is kept away from, or refused. */
#ifndef CLMOE_TUNING_H
#define CLMOE_TUNING_H

#include "clmoe/core.h"

#include <stdbool.h>

/* What a device allows. */
struct clmoe_limits {
    uint32_t compute_units;
    uint32_t max_group_size;
    uint64_t local_bytes;
    uint32_t max_iterations;   /* loop iterations that a work-item may make in one kernel; 0 = any number (see tuning.c) */
    bool ignores_kernel_limit; /* kernels run in groups larger than the driver says they can */
};

/* The shape of an align call as far as speed and limits depend on it. */
struct clmoe_align_shape {
    uint32_t num_tokens, top_k, num_buckets, block_size, capacity;
    uint32_t max_groups; /* groups that have scratch memory in the workspace; 0 = any number */
};

struct clmoe_align_path {
    uint32_t num_launches;   /* 1, 2 or 3 */
    uint32_t num_chunks;     /* groups of the count stage */
    uint32_t offsets_groups; /* groups of the offsets stage, if there are three launches */
    uint32_t num_groups;     /* groups of the place stage, >= num_chunks */
};

/* What a driver is known to get wrong: max_iterations and ignores_kernel_limit. */
void clmoe_tune_driver_faults(const char *platform_name, const char *device_name, struct clmoe_limits *limits);

/* How a call of scan, histogram or sort is carried out. */
struct clmoe_items_path {
    uint32_t num_launches;      /* sort: of each pass; 1 = all passes at once */
    uint32_t num_chunks;        /* contiguous shares of the items, a group each */
    uint32_t num_groups;        /* groups of the stage that is not cut by items: histogram's sum, sort's offsets */
    uint32_t num_bucket_groups; /* of sort's `buckets`; 0 = a pass for each digit */
    uint32_t buffer_items;      /* sort: of each buffer for each of these groups, or of the one group; 0 = none */
    uint32_t digit_bits;        /* sort: of a pass, or of the digit of buckets */
    bool streams;               /* scan: writes around the caches, as they do not hold the output */
};

/* u32 of local memory that a group of so many work-items needs; shape holds the operator's own numbers. */
typedef uint64_t clmoe_local_items(const uint32_t *shape, uint32_t group_size);

/* Work-items in a group of the parallel class: wanted or, if 0, the library's choice; halved until its local memory fits. 0 if even
 * one work-item has too much. */
uint32_t clmoe_tune_group_size(const struct clmoe_limits *limits, uint32_t wanted, clmoe_local_items *local_items, const uint32_t *shape);

/* Each returns NULL, or in words why this device cannot do the call in the way that was asked for. */
const char *clmoe_tune_scan(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                            uint32_t num_items, struct clmoe_items_path *path);
const char *clmoe_tune_histogram(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                 const clmoe_tuning *wanted, uint32_t num_items, uint32_t num_bins, struct clmoe_items_path *path);
const char *clmoe_tune_sort(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                            uint32_t num_items, uint32_t num_passes, struct clmoe_items_path *path);

/* walks_all: each group walks all items (LAST_WINS in the serial class). */
const char *clmoe_tune_scatter(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                               uint32_t num_items, uint32_t row_bytes, bool walks_all, struct clmoe_items_path *path);

/* Sets of counters that a group keeps in local memory for so many bins; 0 = they do not fit. */
uint32_t clmoe_tune_histogram_copies(const struct clmoe_limits *limits, uint32_t num_bins);

/* Returns NULL, or in words why this device cannot do the call in the way that was asked for. */
const char *clmoe_tune_align(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                             const struct clmoe_align_shape *shape, struct clmoe_align_path *path);

/* The shape of a route call as far as speed and limits depend on it. */
struct clmoe_route_shape {
    uint32_t num_tokens, num_experts, top_k, num_groups;
    bool has_scores, has_softcap; /* arithmetic for each expert */
    uint32_t max_groups;          /* groups that have scratch memory in the workspace; 0 = any number */
};

/* Work-items of a group of the parallel class that share a row; divides group_size. */
uint32_t clmoe_tune_route_team(uint32_t num_experts, uint32_t top_k, uint32_t group_size);

/* Groups among which the rows are shared out. Returns NULL, or in words why this device cannot do the call in the way that was asked for;
 * *num_groups is set in any case. */
const char *clmoe_tune_route(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                             const struct clmoe_route_shape *shape, uint32_t *num_groups);

/* Whether route and align are one launch of one group. Returns NULL or a reason, as above. */
const char *clmoe_tune_route_align(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                   const clmoe_tuning *wanted, const struct clmoe_route_shape *route, const struct clmoe_align_shape *align,
                                   bool *is_one);

/* Work-items in a group, and groups at most, whose scratch memory for that many buckets is in the workspace. */
enum { CLMOE_WIDE_GROUP_SIZE = 64, CLMOE_WIDE_GROUPS = 64 };

/* The most chunks that any call with at most that many tokens is cut into: what the workspace must hold. */
uint32_t clmoe_tune_align_max_chunks(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                     const clmoe_tuning *wanted, const struct clmoe_align_shape *largest);

#endif
