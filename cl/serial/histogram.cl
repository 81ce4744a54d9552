/* histogram, serial class: each group is one work-item with a contiguous chunk of the samples.
 *
 *   one    count straight into the result: the only launch of a small call
 *   count  my chunk                                               -> table row g
 *   sum    my share of the columns over all chunks
 */
#ifndef HISTOGRAM_SERIAL_ONCE
#define HISTOGRAM_SERIAL_ONCE

enum { HISTOGRAM_TWICE = 256 }; /* bins, at most, that every second sample has for itself */

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

/* Samples [first, last), counted into bins [num_bins] that hold something already. Returns how many were ignored.
 * why  not by histogram_bin(): of the smaller of two numbers compilers make a conditional move, on which each increment then waits,
 *      0.55 instead of 0.33 ns a sample
 */
static inline u32 NAME(histogram_add)(global const SAMPLE *samples, u32 first, u32 last, u32 num_bins, global u32 *bins) {
    u32 ignored = 0;
    for (u32 i = first; i < last; ++i) {
        const u64 sample = (u64)(i64)samples[i];
        if (sample < num_bins)
            ++bins[(u32)sample];
        else
            ++ignored;
    }
    return ignored;
}

/* The same with a second table for every second sample, so that fewer increments follow one that may be of the same bin: 0.37 ns a sample,
 * where one table took 0.43 or 0.59, the same for a whole run of a program. */
static inline u32 NAME(histogram_add_twice)(global const SAMPLE *samples, u32 first, u32 last, u32 num_bins, global u32 *bins,
                                            u32 *second) {
    u32 ignored = 0;
    for (; last - first >= 2; first += 2) {
        const u64 sample = (u64)(i64)samples[first], next = (u64)(i64)samples[first + 1];
        if (sample < num_bins)
            ++bins[(u32)sample];
        else
            ++ignored;
        if (next < num_bins)
            ++second[(u32)next];
        else
            ++ignored;
    }
    return ignored + NAME(histogram_add)(samples, first, last, num_bins, bins);
}

/* Samples [first, last) -> bins [num_bins]. Returns how many were ignored. */
static inline u32 NAME(histogram_count_chunk)(struct histogram_params p, global const SAMPLE *samples, u32 first, u32 last,
                                              global u32 *bins) {
    const bool is_twice = p.num_bins <= HISTOGRAM_TWICE;
    u32 second[HISTOGRAM_TWICE] = {0}, ignored = 0;
    for (u32 bin = 0; bin < p.num_bins; ++bin)
        bins[bin] = 0;
#ifdef RUN_ITEMS
    /* Increments of one bin wait for each other: equal samples in a row are added at once. */
    for (; first + RUN_ITEMS <= last; first += RUN_ITEMS) {
        global const SAMPLE *run = samples + first;
        SAMPLE differs = 0;
        for (int i = 0; i < RUN_ITEMS; ++i)
            differs |= run[i] ^ run[0];
        if (differs != 0)
            ignored += is_twice ? NAME(histogram_add_twice)(run, 0, RUN_ITEMS, p.num_bins, bins, second)
                                : NAME(histogram_add)(run, 0, RUN_ITEMS, p.num_bins, bins);
        else if ((u64)(i64)run[0] < p.num_bins)
            bins[(u32)run[0]] += RUN_ITEMS;
        else
            ignored += RUN_ITEMS;
    }
#endif
    ignored += is_twice ? NAME(histogram_add_twice)(samples, first, last, p.num_bins, bins, second)
                        : NAME(histogram_add)(samples, first, last, p.num_bins, bins);
    for (u32 bin = 0; bin < p.num_bins && is_twice; ++bin)
        bins[bin] += second[bin];
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
