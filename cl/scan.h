/* scan.h - what the host and both kernel classes must agree on for scan. ITEM, u32 or u64, is defined by whoever compiles the kernels. */
#ifndef CLMOE_SCAN_H
#define CLMOE_SCAN_H

#ifndef CLMOE_SHARED_H
#include "shared.h"
#endif

struct scan_params {
    u64 input_at, output_at, sums_at; /* where the views start, in items */
    u32 num_items, num_chunks, is_inclusive;
    u32 streams; /* serial class: the output is more than caches hold */
};

#endif
