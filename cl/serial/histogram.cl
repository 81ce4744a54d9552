/* histogram, serial class: each group is one work-item with a contiguous chunk of the samples.
 *
 *   one    count straight into the result: the only launch of a small call
 *   count  my chunk                                               -> table row g
 *   sum    my share of the columns over all chunks
 */
#ifndef HISTOGRAM_SERIAL_ONCE
#define HISTOGRAM_SERIAL_ONCE

/* histogram_sum
 * in   table [num_chunks][table_stride]
 * out  counts [num_bins], ignored [1]
 */
kernel void histogram_sum(struct histogram_params p, global const u32 *table, global u32 *counts, global u32 *ignored) {
    const u32 num_groups = (u32)get_num_groups(0), group = (u32)get_group_id(0);
    const u32 last = share_begin(p.num_bins + 1, num_groups, group + 1);
    table += p.table_at;
    for (u32 bin = share_begin(p.num_bins + 1, num_groups, group); bin < last; ++bin) {
        u32 sum = 0;
        for (u32 c = 0; c < p.num_chunks; ++c)
            sum += table[(u64)c * p.table_stride + bin];
        if (bin < p.num_bins)
            counts[p.counts_at + bin] = sum;
        else if (p.has_ignored)
            ignored[p.ignored_at] = sum;
    }
}
#endif

/* Samples [first, last) -> bins [num_bins]. Returns how many were ignored. */
static inline u32 NAME(histogram_count_chunk)(struct histogram_params p, global const SAMPLE *samples, u32 first, u32 last,
                                              global u32 *bins) {
    u32 ignored = 0;
    for (u32 bin = 0; bin < p.num_bins; ++bin)
        bins[bin] = 0;
    for (u32 i = first; i < last; ++i) {
        const u32 bin = histogram_bin((i64)samples[i], p.num_bins);
        if (bin < p.num_bins)
            ++bins[bin];
        else
            ++ignored;
    }
    return ignored;
}

/* histogram_count
 * in   samples [n]
 * out  table row g
 */
kernel void NAME(histogram_count)(struct histogram_params p, global const SAMPLE *samples, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    global u32 *row = table + p.table_at + (u64)chunk * p.table_stride;
    row[p.num_bins] = NAME(histogram_count_chunk)(p, samples + p.samples_at, share_begin(p.num_items, p.num_chunks, chunk),
                                                  share_begin(p.num_items, p.num_chunks, chunk + 1), row);
}

/* histogram_one
 * in   samples [n]
 * out  counts [num_bins], ignored [1]
 * pre  one group
 */
kernel void NAME(histogram_one)(struct histogram_params p, global const SAMPLE *samples, global u32 *counts, global u32 *ignored) {
    const u32 num_ignored = NAME(histogram_count_chunk)(p, samples + p.samples_at, 0, p.num_items, counts + p.counts_at);
    if (p.has_ignored)
        ignored[p.ignored_at] = num_ignored;
}
