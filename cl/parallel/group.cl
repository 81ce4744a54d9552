/* What the work-items of a group do together; in front of every program of the parallel class. Each function is called by all work-items
 * of the group, and all reach its barriers. No group waits for another one.
 *
 * Trip counts of loops are the same for all work-items, and `index = base + lid; if (index < n)` takes the place of a loop over lid:
 * PoCL 3.1 miscompiles the latter after a barrier.
 */

/* Where the tables of a group live: local memory or, for tables that do not fit there, a part of the workspace that is this group's alone.
 */
#ifdef SCRATCH_IS_GLOBAL
#define SCRATCH global
#define GROUP_FENCE() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define SCRATCH local
#define GROUP_FENCE() barrier(CLK_LOCAL_MEM_FENCE)
#endif

/* In front of a short loop with a barrier behind it: PoCL 3.1 fails to build groups of 1 or 2 work-items if its compiler makes vectors of
 * it. */
#ifdef __clang__
#define SCALAR_LOOP _Pragma("clang loop vectorize(disable)")
#define ROLLED_LOOP _Pragma("clang loop unroll(disable)") /* a loop that is there to keep code small */
#else
#define SCALAR_LOOP
#define ROLLED_LOOP
#endif

/* A function that takes structures, which would go through memory if it were called. */
#if defined __GNUC__ || defined __clang__
#define FLAT __attribute__((always_inline))
#else
#define FLAT
#endif

/* n, which is never 0, and now PoCL knows. Else it tells calls with a loop of no turn from all others, across barriers, and compiles what
 * comes behind each such barrier twice: route_align took it five times as long. Other compilers have registers to lose. */
static inline u32 positive(u32 n) {
#ifdef POCL_DEVICE_ADDRESS_BITS
    n = max(n, 1u);
#endif
    return n;
}

/* sync  none inside */
static inline void group_zero(SCRATCH u32 *items, u32 n) {
    for (u32 base = 0; base < n; base += W) {
        const u32 i = base + (u32)get_local_id(0);
        if (i < n)
            items[i] = 0;
    }
}

/* Sum of the values of all work-items before this one; *total: of all. scratch [W]. sync: may be read and written again on return. */
static inline u32 group_scan(SCRATCH u32 *scratch, u32 value, u32 *total) {
    const u32 lid = (u32)get_local_id(0);
    scratch[lid] = value;
    GROUP_FENCE();
    for (u32 reach = 1; reach < W; reach *= 2) {
        const u32 before = lid >= reach ? scratch[lid - reach] : 0;
        GROUP_FENCE();
        scratch[lid] += before;
        GROUP_FENCE();
    }
    const u32 sum = scratch[lid] - value;
    *total = scratch[W - 1];
    GROUP_FENCE();
    return sum;
}

/* Rows for the items of one tile, an item for each work-item: returns next_row[bucket] plus the number of items of that bucket before this
 * one, and moves next_row on by all of them. bucket >= num_buckets: no item, and the result means nothing.
 *
 * Without a vote, a shuffle or a known hardware width: every work-item sets the bit of its lane in masks[slice of 32][bucket]; after a
 * barrier its rank is the number of bits set before its own. OR does not depend on order, so the rank does not either.
 *
 * in/out  next_row [num_buckets], masks [ceil(W / 32)][num_buckets], zero before and after
 * sync    next_row and masks must be complete; they are again on return
 */
static inline u32 group_take_rows(SCRATCH u32 *next_row, SCRATCH u32 *masks, u32 num_buckets, u32 bucket) {
    const u32 lid = (u32)get_local_id(0), slice = lid / 32, below = (1u << lid % 32) - 1;
    const bool has_item = bucket < num_buckets;
    SCRATCH u32 *mask = masks + (has_item ? bucket : 0);
    if (has_item)
        atomic_or((volatile SCRATCH u32 *)&mask[slice * num_buckets], below + 1);
    GROUP_FENCE();

    u32 row = 0, lower = 0, later = 0;
    if (has_item) {
        row = next_row[bucket];
        for (u32 s = 0; s < ceil_div(W, 32); ++s) {
            const u32 lanes = mask[s * num_buckets];
            const u32 before = s < slice ? lanes : s == slice ? lanes & below : 0;
            row += popcount(before);
            lower = s == slice ? before : lower;
            later |= s > slice ? lanes : s == slice ? lanes & ~below & ~(below + 1) : 0;
        }
    }
    GROUP_FENCE();

    if (has_item && later == 0)
        next_row[bucket] = row + 1; /* I am the tile's last item of this bucket */
    if (has_item && lower == 0)
        mask[slice * num_buckets] = 0; /* I am the slice's first: one writer for each word */
    GROUP_FENCE();
    return row;
}
