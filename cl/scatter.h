/* scatter.h - what the host and both kernel classes must agree on for scatter and gather. INDEX, an integer type of 32 or 64 bits, is
 * defined by whoever compiles the kernels. */
#ifndef CLMOE_SCATTER_H
#define CLMOE_SCATTER_H

#ifndef CLMOE_SHARED_H
#include "shared.h"
#endif

enum {
    SCATTER_HAS_SKIPPED = 1 << 0,
    SCATTER_LAST_WINS = 1 << 1, /* serial class with several groups: each walks all items for its share of the destination's rows */
};

/* The workspace holds u32 [num_chunks], the indices that each chunk skipped, and for LAST_WINS in the parallel class u32 [num_rows]: one
 * more than the largest item that names the row. */
struct scatter_params {
    u64 source_at, destination_at;                   /* where the views start, in bytes */
    u64 index_at, skipped_at, counts_at, winners_at; /* in items */
    u32 num_items, num_rows, row_bytes;
    u32 word_bytes; /* 1, 2, 4 or 8: divides row_bytes and the starts of both views */
    u32 num_chunks, has;
};

#ifdef CLMOE_KERNEL
/* Row that an index names; num_rows = none. A negative index of either width is a huge u64. */
static inline u32 scatter_row(i64 index, u32 num_rows) {
    return (u64)index < num_rows ? (u32)index : num_rows;
}
#endif

#endif
