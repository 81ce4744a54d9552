/* clmoe/primitives.h - the operators underneath: histogram, scan, stable sort, scatter and gather. Called like every operator, see core.h.
 *
 * All promise: the same bytes on every device, class, path, number of threads and run; every element of every output written; any content
 * safe; inputs unchanged; n = 0 is fine. Items are counted in 32 bits: n < 2^31. Every type and flag below goes with every other one.
 * If a launch fails, outputs and workspace may hold anything, and may still be in use by the queue.
 *
 * A workspace starts at a multiple of 8 bytes where items, keys or values have 8, else of 4. tuning.num_launches beyond what an operator
 * ever takes means its most. Rusticl on llvmpipe cuts long loops; calls that would be cut there are refused (CLMOE_UNSUPPORTED): forced
 * paths, and histograms of thousands of bins in the serial class.
 */
#ifndef CLMOE_PRIMITIVES_H
#define CLMOE_PRIMITIVES_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clmoe_type {
    CLMOE_TYPE_U32 = 0,
    CLMOE_TYPE_I32 = 1,
    CLMOE_TYPE_F32 = 2,
    CLMOE_TYPE_U64 = 3,
    CLMOE_TYPE_I64 = 4,
    CLMOE_TYPE_U16 = 5,
    CLMOE_TYPE_I16 = 6,
    CLMOE_TYPE_U8 = 7,
    CLMOE_TYPE_I8 = 8
} clmoe_type;

/* ---- histogram ------------------------------------------------------------------------------------------------------------------
 * counts[b] = how many samples equal b (bincount). Samples below 0 or from num_bins on are ignored, and counted in `ignored`.
 *
 *     samples 0 -1 5 2, num_bins 4   ->   counts 1 0 1 0, ignored 2
 *
 * In place: no. Launches: 1 for small n, else 2. Scratch needs no zeros. */

typedef struct clmoe_histogram_desc {
    uint32_t max_items;     /* largest n of any call, below 2^31 */
    uint32_t num_bins;      /* 0 ... 2^24 */
    clmoe_type sample_type; /* any integer type */
    clmoe_tuning tuning;
} clmoe_histogram_desc;

typedef struct clmoe_histogram_args {
    uint32_t num_items;   /* n <= max_items */
    clmoe_buffer samples; /* [n] sample_type; may be longer */
    clmoe_buffer counts;  /* [num_bins] u32 */
    clmoe_buffer ignored; /* [1] u32, optional */
    clmoe_buffer workspace;
} clmoe_histogram_args;

CLMOE_API clmoe_status clmoe_histogram_plan_create(clmoe_context *context, const clmoe_histogram_desc *desc, clmoe_plan **plan);
CLMOE_API clmoe_status clmoe_histogram_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_histogram_args *args,
                                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* ---- scan -----------------------------------------------------------------------------------------------------------------------
 * Sums of all items before each one (exclusive) or up to and with it (inclusive), modulo 2^32 or 2^64 like C's unsigned arithmetic.
 *
 *     3 1 4 1 5   ->   exclusive 0 3 4 8 9   inclusive 3 4 8 9 14
 *
 * In place: yes, if output is exactly the input's view. Launches: 1 for small n, else 2. Bytes: 3 n items, less the last chunk. */

typedef enum clmoe_scan_kind { CLMOE_SCAN_EXCLUSIVE = 0, CLMOE_SCAN_INCLUSIVE = 1 } clmoe_scan_kind;

typedef struct clmoe_scan_desc {
    uint32_t max_items; /* largest n of any call, below 2^31 */
    clmoe_type type;    /* U32, I32 or U64 */
    clmoe_scan_kind kind;
    clmoe_tuning tuning;
} clmoe_scan_desc;

typedef struct clmoe_scan_args {
    uint32_t num_items;  /* n <= max_items */
    clmoe_buffer input;  /* [n] type; may be longer */
    clmoe_buffer output; /* [n] type */
    clmoe_buffer workspace;
} clmoe_scan_args;

CLMOE_API clmoe_status clmoe_scan_plan_create(clmoe_context *context, const clmoe_scan_desc *desc, clmoe_plan **plan);
CLMOE_API clmoe_status clmoe_scan_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_scan_args *args,
                                          cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* ---- sort -----------------------------------------------------------------------------------------------------------------------
 * Stable sort by key, with values that go along: items with equal keys keep their order, ascending or descending.
 *
 *   f32   -inf < ... < -0 = +0 < ... < +inf < NaN. Zeros of both signs are equal, and so are all NaNs, whose bits are kept; descending is
 *         the reverse, so NaNs come first
 *   bits  [begin_bit, end_bit) of the key count alone; for i32 and f32 bits of the unsigned integer that has the key's order:
 *         i32 x -> x + 2^31; f32 the bits of x, inverted if negative, else + 2^31; both zeros 2^31, all NaNs 2^32 - 1. Fewer bits, fewer
 *         passes: one for each 8
 *
 * In place: no. Launches: 1 for small n; else 2 or 3 a pass; of more than 8 bits in the serial class on one or two cores 4 or 5 in all.
 * Bytes a pass: at most 3 keys and 2 values an item; by the 4 or 5 launches 4 keys, 2 values and 2 packed pairs an item in all. */

typedef struct clmoe_sort_desc {
    uint32_t max_items;   /* largest n of any call, below 2^31 */
    clmoe_type key_type;  /* U32, I32, F32 or U64 */
    uint32_t value_bytes; /* 0 (keys alone), 4 or 8 */
    int32_t is_argsort;   /* values are 0 ... n-1, written without an input array; value_bytes must be 4 */
    int32_t is_descending;
    uint32_t begin_bit, end_bit; /* begin_bit <= end_bit <= bits of the key; 0, 0 = all */
    clmoe_tuning tuning;
} clmoe_sort_desc;

typedef struct clmoe_sort_args {
    uint32_t num_items;      /* n <= max_items */
    clmoe_buffer keys;       /* [n] key_type; may be longer */
    clmoe_buffer values;     /* [n] value_bytes each; may be longer; ignored with value_bytes 0 and is_argsort */
    clmoe_buffer keys_out;   /* [n] */
    clmoe_buffer values_out; /* [n], with values or is_argsort */
    clmoe_buffer workspace;
} clmoe_sort_args;

CLMOE_API clmoe_status clmoe_sort_plan_create(clmoe_context *context, const clmoe_sort_desc *desc, clmoe_plan **plan);
CLMOE_API clmoe_status clmoe_sort_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_sort_args *args,
                                          cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* ---- scatter and gather ---------------------------------------------------------------------------------------------------------
 * Rows of any number of bytes (an element is a row of 1, 2, 4, 8 or 16) by index:
 *
 *     scatter   destination[index[i]] = source[i], i = 0 ... n-1; rows that no index names keep their bytes
 *     gather    destination[i] = source[index[i]]
 *
 *   out of range   an index below 0 or from num_rows on is skipped, and counted in `skipped`; gather writes zeros to its row
 *   duplicates     scatter, LAST_WINS: the row with the largest i stays, on every device. UNIQUE: the caller promises that there are none;
 *                  if there are, which bytes of which row stay is not defined, and nothing else is touched. Gather reads as it likes
 *
 * In place: no. Bytes: 2 rows and an index an item. Launches: 1, or 3 with LAST_WINS in the parallel
 * class; one more with `skipped` beyond small n. Rusticl on llvmpipe, which cuts long loops, refuses LAST_WINS in the serial class beyond
 * a few thousand items (CLMOE_UNSUPPORTED). */

typedef enum clmoe_duplicates { CLMOE_DUPLICATES_UNIQUE = 0, CLMOE_DUPLICATES_LAST_WINS = 1 } clmoe_duplicates;

typedef struct clmoe_scatter_desc {
    uint32_t max_items;          /* largest n of any call, below 2^31 */
    uint32_t max_rows;           /* largest num_rows of any call, below 2^31 */
    uint32_t row_bytes;          /* 1 ... 2^31 - 1 */
    clmoe_type index_type;       /* I32, U32, I64 or U64 */
    clmoe_duplicates duplicates; /* of scatter; gather ignores it */
    clmoe_tuning tuning;
} clmoe_scatter_desc;

typedef struct clmoe_scatter_args {
    uint32_t num_items;       /* n <= max_items */
    uint32_t num_rows;        /* rows of the indexed side, <= max_rows: destination of scatter, source of gather */
    clmoe_buffer source;      /* scatter [n][row_bytes], gather [num_rows][row_bytes]; may be longer */
    clmoe_buffer index;       /* [n] index_type; may be longer */
    clmoe_buffer destination; /* scatter [num_rows][row_bytes], gather [n][row_bytes] */
    clmoe_buffer skipped;     /* [1] u32, optional: indices out of range */
    clmoe_buffer workspace;
} clmoe_scatter_args;

CLMOE_API clmoe_status clmoe_scatter_plan_create(clmoe_context *context, const clmoe_scatter_desc *desc, clmoe_plan **plan);
CLMOE_API clmoe_status clmoe_scatter_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_scatter_args *args,
                                             cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);
CLMOE_API clmoe_status clmoe_gather_plan_create(clmoe_context *context, const clmoe_scatter_desc *desc, clmoe_plan **plan);
CLMOE_API clmoe_status clmoe_gather_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_scatter_args *args,
                                            cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
