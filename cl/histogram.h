/* histogram.h - what the host and both kernel classes must agree on for histogram. SAMPLE, an integer type, is defined by whoever compiles
 * the kernels. */
#ifndef CLMOE_HISTOGRAM_H
#define CLMOE_HISTOGRAM_H

#ifndef CLMOE_SHARED_H
#include "shared.h"
#endif

/* The workspace is a table of u32 [num_chunks][table_stride]: the bins of each chunk, then the samples that it ignored. */
struct histogram_params {
    u64 samples_at, counts_at, ignored_at, table_at; /* where the views start, in items */
    u32 num_items, num_bins, num_chunks, table_stride;
    u32 has_ignored;
    u32 num_copies; /* parallel class: sets of counters in local memory, 0 = the bins do not fit and are counted in the table itself */
};

static inline u32 histogram_table_stride(u32 num_bins) {
    return round_up(num_bins + 1, 16);
}

#ifdef CLMOE_KERNEL
/* Bin of a sample; num_bins = ignored. Compared in 64 bits, so that no narrow type wraps; -x of a signed type is a huge u64. */
static inline u32 histogram_bin(i64 sample, u32 num_bins) {
    return (u64)sample < num_bins ? (u32)sample : num_bins;
}
#endif

#endif
