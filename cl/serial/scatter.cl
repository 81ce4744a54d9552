/* scatter and gather, serial class: each group is one work-item with a contiguous chunk of the items, copied in order. For LAST_WINS with
 * several groups, each walks all items for a share of the destination's rows: the order alone decides, no atomic does.
 *
 *   scatter_copy, gather_copy  rows of my chunk; counts what it skips       -> counts[g], or the result if there is one group
 *   scatter_sum                adds up the counts
 */
#ifndef SCATTER_SERIAL_ONCE
#define SCATTER_SERIAL_ONCE

#ifdef __OPENCL_VERSION__
/* word_bytes divides the length and both addresses. */
static inline void copy_bytes(global u8 *to, global const u8 *from, u32 num_bytes, u32 word_bytes) {
    if (word_bytes == 8)
        for (u32 i = 0; i < num_bytes / 8; ++i)
            ((global u64 *)to)[i] = ((global const u64 *)from)[i];
    else if (word_bytes == 4)
        for (u32 i = 0; i < num_bytes / 4; ++i)
            ((global u32 *)to)[i] = ((global const u32 *)from)[i];
    else if (word_bytes == 2)
        for (u32 i = 0; i < num_bytes / 2; ++i)
            ((global u16 *)to)[i] = ((global const u16 *)from)[i];
    else
        for (u32 i = 0; i < num_bytes; ++i)
            to[i] = from[i];
}

static inline void zero_bytes(global u8 *to, u32 num_bytes) {
    for (u32 i = 0; i < num_bytes; ++i)
        to[i] = 0;
}
#endif

/* scatter_sum
 * in   counts [num_chunks]
 * out  skipped [1]
 * pre  one group
 */
kernel void scatter_sum(struct scatter_params p, global const u32 *counts, global u32 *skipped) {
    u32 sum = 0;
    for (u32 c = 0; c < p.num_chunks; ++c)
        sum += counts[p.counts_at + c];
    skipped[p.skipped_at] = sum;
}

static inline void scatter_put_skipped(struct scatter_params p, u32 num_skipped, global u32 *counts, global u32 *skipped) {
    if (!(p.has & SCATTER_HAS_SKIPPED))
        return;
    if (get_num_groups(0) == 1)
        skipped[p.skipped_at] = num_skipped;
    else
        counts[p.counts_at + get_group_id(0)] = num_skipped;
}
#endif

/* scatter_copy
 * in       source [n][row_bytes], index [n]
 * out      counts [num_chunks] or skipped [1]
 * in/out   destination [num_rows][row_bytes]
 */
kernel void NAME(scatter_copy)(struct scatter_params p, global const u8 *source, global const INDEX *index, global u8 *destination,
                               global u32 *skipped, global u32 *counts) {
    const u32 group = (u32)get_group_id(0), num_groups = (u32)get_num_groups(0);
    const bool by_rows = (p.has & SCATTER_LAST_WINS) != 0;
    const u32 first_row = by_rows ? share_begin(p.num_rows, num_groups, group) : 0;
    const u32 last_row = by_rows ? share_begin(p.num_rows, num_groups, group + 1) : p.num_rows;
    const u32 first = by_rows ? 0 : share_begin(p.num_items, num_groups, group);
    const u32 last = by_rows ? p.num_items : share_begin(p.num_items, num_groups, group + 1);
    u32 num_skipped = 0;
    source += p.source_at;
    index += p.index_at;
    destination += p.destination_at;
    for (u32 i = first; i < last; ++i) {
        const u32 row = scatter_row((i64)index[i], p.num_rows);
        if (row >= first_row && row < last_row)
            copy_bytes(destination + (u64)row * p.row_bytes, source + (u64)i * p.row_bytes, p.row_bytes, p.word_bytes);
        num_skipped += row == p.num_rows && (!by_rows || group == 0);
    }
    scatter_put_skipped(p, num_skipped, counts, skipped);
}

/* gather_copy
 * in   source [num_rows][row_bytes], index [n]
 * out  destination [n][row_bytes], counts [num_chunks] or skipped [1]
 */
kernel void NAME(gather_copy)(struct scatter_params p, global const u8 *source, global const INDEX *index, global u8 *destination,
                              global u32 *skipped, global u32 *counts) {
    const u32 last = share_begin(p.num_items, p.num_chunks, (u32)get_group_id(0) + 1);
    u32 num_skipped = 0;
    source += p.source_at;
    index += p.index_at;
    destination += p.destination_at;
    for (u32 i = share_begin(p.num_items, p.num_chunks, (u32)get_group_id(0)); i < last; ++i) {
        const u32 row = scatter_row((i64)index[i], p.num_rows);
#ifdef PREFETCH
        if (last - i > PREFETCH_ROWS)
            PREFETCH(source + (u64)scatter_row((i64)index[i + PREFETCH_ROWS], p.num_rows) * p.row_bytes);
#endif
        global u8 *to = destination + (u64)i * p.row_bytes;
        if (row < p.num_rows)
            copy_bytes(to, source + (u64)row * p.row_bytes, p.row_bytes, p.word_bytes);
        else
            zero_bytes(to, p.row_bytes);
        num_skipped += row == p.num_rows;
    }
    scatter_put_skipped(p, num_skipped, counts, skipped);
}
