/* scatter and gather, parallel class: each group has a contiguous chunk of the items; the work-items of a group share out the words of one
 * long row, or of several short ones.
 *
 *   scatter_clear              no item has named any row of my chunk yet    LAST_WINS only
 *   scatter_claim              the largest item that names a row            LAST_WINS only; a maximum does not depend on order
 *   scatter_copy, gather_copy  rows of my chunk; counts what it skips       -> counts[g], or the result if there is one group
 *   scatter_sum                adds up the counts
 */

static inline void scatter_copy_word(global u8 *to, global const u8 *from, u32 word, u32 word_bytes) {
    if (word_bytes == 8)
        ((global u64 *)to)[word] = ((global const u64 *)from)[word];
    else if (word_bytes == 4)
        ((global u32 *)to)[word] = ((global const u32 *)from)[word];
    else if (word_bytes == 2)
        ((global u16 *)to)[word] = ((global const u16 *)from)[word];
    else
        to[word] = from[word];
}

static inline void scatter_zero_word(global u8 *to, u32 word, u32 word_bytes) {
    if (word_bytes == 8)
        ((global u64 *)to)[word] = 0;
    else if (word_bytes == 4)
        ((global u32 *)to)[word] = 0;
    else if (word_bytes == 2)
        ((global u16 *)to)[word] = 0;
    else
        to[word] = 0;
}

/* How the work-items of a group lie over rows. */
struct scatter_shape {
    u32 num_words, lanes; /* of a row; work-items that share it */
    u32 rows;             /* in one step of the group */
    u32 row, lane;        /* mine; row >= rows: none */
};

static inline struct scatter_shape scatter_shape_of(struct scatter_params p) {
    struct scatter_shape s;
    s.num_words = p.row_bytes / p.word_bytes;
    s.lanes = s.num_words < W ? s.num_words : W;
    s.rows = W / s.lanes;
    s.row = (u32)get_local_id(0) / s.lanes;
    s.lane = (u32)get_local_id(0) % s.lanes;
    return s;
}

/* counter [1] of local memory holds what this group skipped. */
static inline void scatter_put_skipped(struct scatter_params p, local u32 *counter, global u32 *counts, global u32 *skipped) {
    GROUP_FENCE();
    if (get_local_id(0) == 0 && (p.has & SCATTER_HAS_SKIPPED)) {
        if (get_num_groups(0) == 1)
            skipped[p.skipped_at] = *counter;
        else
            counts[p.counts_at + get_group_id(0)] = *counter;
    }
}

/* scatter_clear
 * in   index [n]
 * out  winners [num_rows], the rows that an item names
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void scatter_clear(struct scatter_params p, global const INDEX *index,
                                                                         volatile global u32 *winners) {
    const u32 chunk = (u32)get_group_id(0), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    for (u32 base = share_begin(p.num_items, p.num_chunks, chunk); base < last; base += W) {
        const u32 i = base + (u32)get_local_id(0);
        if (i < last) {
            const u32 row = scatter_row((i64)index[p.index_at + i], p.num_rows);
            if (row < p.num_rows)
                atomic_xchg(&winners[p.winners_at + row], 0);
        }
    }
}

/* scatter_claim
 * in      index [n]
 * in/out  winners [num_rows]
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void scatter_claim(struct scatter_params p, global const INDEX *index,
                                                                         volatile global u32 *winners) {
    const u32 chunk = (u32)get_group_id(0), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    for (u32 base = share_begin(p.num_items, p.num_chunks, chunk); base < last; base += W) {
        const u32 i = base + (u32)get_local_id(0);
        if (i < last) {
            const u32 row = scatter_row((i64)index[p.index_at + i], p.num_rows);
            if (row < p.num_rows)
                atomic_max(&winners[p.winners_at + row], i + 1);
        }
    }
}

/* scatter_copy
 * in      source [n][row_bytes], index [n], winners [num_rows]
 * out     counts [num_chunks] or skipped [1]
 * in/out  destination [num_rows][row_bytes]
 * sync    all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void scatter_copy(struct scatter_params p, global const u8 *source,
                                                                        global const INDEX *index, global u8 *destination,
                                                                        global u32 *skipped, global u32 *counts, global const u32 *winners,
                                                                        local u32 *counter) {
    const struct scatter_shape s = scatter_shape_of(p);
    const u32 chunk = (u32)get_group_id(0), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    source += p.source_at;
    destination += p.destination_at;
    group_zero(counter, 1);
    GROUP_FENCE();
    for (u32 base = share_begin(p.num_items, p.num_chunks, chunk); base < last; base += s.rows) {
        const u32 i = base + s.row;
        const bool has_item = s.row < s.rows && i < last;
        const u32 row = has_item ? scatter_row((i64)index[p.index_at + i], p.num_rows) : p.num_rows;
        if (has_item && row == p.num_rows && s.lane == 0)
            atomic_inc(counter);
        bool is_copied = row < p.num_rows;
        if (is_copied && (p.has & SCATTER_LAST_WINS))
            is_copied = winners[p.winners_at + row] == i + 1;
        for (u32 first = 0; first < s.num_words; first += s.lanes) {
            const u32 word = first + s.lane;
            if (is_copied && word < s.num_words)
                scatter_copy_word(destination + (u64)row * p.row_bytes, source + (u64)i * p.row_bytes, word, p.word_bytes);
        }
    }
    scatter_put_skipped(p, counter, counts, skipped);
}

/* gather_copy
 * in    source [num_rows][row_bytes], index [n]
 * out   destination [n][row_bytes], counts [num_chunks] or skipped [1]
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void gather_copy(struct scatter_params p, global const u8 *source,
                                                                       global const INDEX *index, global u8 *destination,
                                                                       global u32 *skipped, global u32 *counts, local u32 *counter) {
    const struct scatter_shape s = scatter_shape_of(p);
    const u32 chunk = (u32)get_group_id(0), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    source += p.source_at;
    destination += p.destination_at;
    group_zero(counter, 1);
    GROUP_FENCE();
    for (u32 base = share_begin(p.num_items, p.num_chunks, chunk); base < last; base += s.rows) {
        const u32 i = base + s.row;
        const bool has_item = s.row < s.rows && i < last;
        const u32 row = has_item ? scatter_row((i64)index[p.index_at + i], p.num_rows) : p.num_rows;
        if (has_item && row == p.num_rows && s.lane == 0)
            atomic_inc(counter);
        for (u32 first = 0; first < s.num_words; first += s.lanes) {
            const u32 word = first + s.lane;
            global u8 *to = destination + (u64)(has_item ? i : 0) * p.row_bytes;
            if (has_item && word < s.num_words) {
                if (row < p.num_rows)
                    scatter_copy_word(to, source + (u64)row * p.row_bytes, word, p.word_bytes);
                else
                    scatter_zero_word(to, word, p.word_bytes);
            }
        }
    }
    scatter_put_skipped(p, counter, counts, skipped);
}

/* scatter_sum
 * in   counts [num_chunks]
 * out  skipped [1]
 * pre  one group
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void scatter_sum(struct scatter_params p, global const u32 *counts,
                                                                       global u32 *skipped) {
    if (get_local_id(0) == 0) {
        u32 sum = 0;
        for (u32 c = 0; c < p.num_chunks; ++c)
            sum += counts[p.counts_at + c];
        skipped[p.skipped_at] = sum;
    }
}
