/* histogram, parallel class: each group counts a contiguous chunk of the samples, in local memory if the bins fit, with several sets of
 * counters if they are few: then work-items with equal samples rarely meet. Counting does not depend on order, so atomics are sound here.
 *
 *   one    count straight into the result: the only launch of a small call
 *   count  my chunk                                               -> table row g
 *   sum    a column over all chunks for each work-item
 */

/* Samples [first, last) -> bins [num_bins] and *ignored, for all work-items. memory: [num_copies][num_bins] and 1. */
static inline u32 histogram_count_chunk(struct histogram_params p, global const SAMPLE *samples, u32 first, u32 last, global u32 *bins,
                                        local u32 *memory) {
    const u32 lid = (u32)get_local_id(0), num_counters = p.num_copies * p.num_bins;
    local u32 *copy = memory + (p.num_copies != 0 ? lid % p.num_copies * p.num_bins : 0), *ignored = memory + num_counters;
    group_zero(memory, num_counters + 1);
    for (u32 base = 0; base < p.num_bins && p.num_copies == 0; base += W) {
        const u32 bin = base + lid;
        if (bin < p.num_bins)
            bins[bin] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (u32 base = first; base < last; base += W) {
        const u32 i = base + lid;
        if (i < last) {
            const u32 bin = histogram_bin((i64)samples[i], p.num_bins);
            if (bin >= p.num_bins)
                atomic_inc(ignored);
            else if (p.num_copies != 0)
                atomic_inc(&copy[bin]);
            else
                atomic_inc((volatile global u32 *)&bins[bin]);
        }
    }
    GROUP_FENCE();
    for (u32 base = 0; base < p.num_bins && p.num_copies != 0; base += W) {
        const u32 bin = base + lid;
        if (bin < p.num_bins) {
            u32 sum = 0;
            for (u32 c = 0; c < p.num_copies; ++c)
                sum += memory[c * p.num_bins + bin];
            bins[bin] = sum;
        }
    }
    return *ignored;
}

/* histogram_count
 * in    samples [n]
 * out   table row g
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void histogram_count(struct histogram_params p, global const SAMPLE *samples,
                                                                           global u32 *table, local u32 *memory) {
    const u32 chunk = (u32)get_group_id(0);
    global u32 *row = table + p.table_at + (u64)chunk * p.table_stride;
    const u32 ignored = histogram_count_chunk(p, samples + p.samples_at, share_begin(p.num_items, p.num_chunks, chunk),
                                              share_begin(p.num_items, p.num_chunks, chunk + 1), row, memory);
    if (get_local_id(0) == 0)
        row[p.num_bins] = ignored;
}

/* histogram_sum
 * in   table [num_chunks][table_stride]
 * out  counts [num_bins], ignored [1]
 * pre  groups * W cover the columns
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void histogram_sum(struct histogram_params p, global const u32 *table,
                                                                         global u32 *counts, global u32 *ignored) {
    const u32 bin = (u32)get_group_id(0) * W + (u32)get_local_id(0);
    table += p.table_at;
    if (bin <= p.num_bins) {
        u32 sum = 0;
        for (u32 c = 0; c < p.num_chunks; ++c)
            sum += table[(u64)c * p.table_stride + bin];
        if (bin < p.num_bins)
            counts[p.counts_at + bin] = sum;
        else if (p.has_ignored)
            ignored[p.ignored_at] = sum;
    }
}

/* histogram_one
 * in    samples [n]
 * out   counts [num_bins], ignored [1]
 * pre   one group
 * sync  all work-items reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void histogram_one(struct histogram_params p, global const SAMPLE *samples,
                                                                         global u32 *counts, global u32 *ignored, local u32 *memory) {
    const u32 num_ignored = histogram_count_chunk(p, samples + p.samples_at, 0, p.num_items, counts + p.counts_at, memory);
    if (get_local_id(0) == 0 && p.has_ignored)
        ignored[p.ignored_at] = num_ignored;
}
