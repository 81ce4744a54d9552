/* sort, parallel class: stable, 8 bits a pass; each group has a contiguous chunk of the items and goes through it in tiles of W.
 *
 *   one      all passes by a single group: the only launch of a small sort
 *   count    digits of my chunk                                        -> table row g
 *   offsets  column sums over the chunks, if there are many of them    -> table rows 0 ... num_chunks
 *   place    first row of each digit, then my items tile by tile, each to the next row of its digit
 */

/* Slices of local memory; sort_local_items() of the host adds up the same. */
struct sort_local {
    local u32 *next_row; /* [SORT_DIGITS] */
    local u32 *masks;    /* [ceil(W / 32)][SORT_DIGITS] */
    local u32 *scratch;  /* [W] */
};

static inline struct sort_local sort_slice_local(local u32 *memory) {
    struct sort_local l;
    l.next_row = memory;
    l.masks = l.next_row + SORT_DIGITS;
    l.scratch = l.masks + ceil_div(W, 32) * SORT_DIGITS;
    return l;
}

static inline u32 sort_digit(struct sort_params p, KEY key, u32 shift) {
    const KEY ordered = sizeof(KEY) == 4 ? (KEY)sort_ordered_u32((u32)key, p.order) : key;
    const KEY digits = (p.has & SORT_IS_DESCENDING) ? ~ordered : ordered;
    const u32 bits = sort_digit_bits(shift, p.end_bit);
    return bits == 0 ? 0 : (u32)(digits >> shift) & ((1u << bits) - 1);
}

/* Items [first, last) by digit -> counts [SORT_DIGITS], complete on return. */
static inline void sort_count_chunk(struct sort_params p, global const KEY *keys, u32 first, u32 last, u32 shift, local u32 *counts) {
    group_zero(counts, SORT_DIGITS);
    GROUP_FENCE();
    for (u32 base = first; base < last; base += W) {
        const u32 i = base + (u32)get_local_id(0);
        if (i < last)
            atomic_inc(&counts[sort_digit(p, keys[i], shift)]);
    }
    GROUP_FENCE();
}

/* counts [SORT_DIGITS] of all chunks, in l.masks, and those of the chunks before mine, in l.next_row: next_row becomes the first row of
 * each digit for my chunk, and the masks zero. */
static inline void sort_first_rows(struct sort_local l) {
    const u32 lid = (u32)get_local_id(0), run = ceil_div(SORT_DIGITS, W);
    u32 sum = 0, total;
    for (u32 i = 0; i < run; ++i)
        if (lid * run + i < SORT_DIGITS)
            sum += l.masks[lid * run + i];
    u32 row = group_scan(l.scratch, sum, &total);
    for (u32 i = 0; i < run; ++i)
        if (lid * run + i < SORT_DIGITS) {
            l.next_row[lid * run + i] += row;
            row += l.masks[lid * run + i];
        }
    GROUP_FENCE();
    group_zero(l.masks, ceil_div(W, 32) * SORT_DIGITS);
    GROUP_FENCE();
}

static inline void sort_place_chunk(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                    global VALUE *values_out, u32 first, u32 last, u32 shift, bool makes_values, struct sort_local l) {
    for (u32 base = first; base < last; base += W) {
        const u32 i = base + (u32)get_local_id(0);
        const bool has_item = i < last;
        const KEY key = has_item ? keys[i] : 0;
        const u32 row = group_take_rows(l.next_row, l.masks, SORT_DIGITS, has_item ? sort_digit(p, key, shift) : SORT_DIGITS);
        if (has_item) {
            keys_out[row] = key;
            if (p.has & SORT_HAS_VALUES)
                values_out[row] = makes_values ? (VALUE)i : values[i];
        }
    }
}

/* sort_count
 * in    keys_in [n]
 * out   table row g
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void sort_count(struct sort_params p, global const KEY *keys_in, global u32 *table,
                                                                      local u32 *memory) {
    const u32 chunk = (u32)get_group_id(0);
    sort_count_chunk(p, keys_in + p.keys_in_at, share_begin(p.num_items, p.num_chunks, chunk),
                     share_begin(p.num_items, p.num_chunks, chunk + 1), p.shift, memory);
    table += p.table_at + (u64)chunk * SORT_DIGITS;
    for (u32 base = 0; base < SORT_DIGITS; base += W) {
        const u32 digit = base + (u32)get_local_id(0);
        if (digit < SORT_DIGITS)
            table[digit] = memory[digit];
    }
}

/* sort_offsets - counts of each chunk become counts of the chunks before it; the totals go to row num_chunks.
 * in/out  table [num_chunks + 1][SORT_DIGITS]
 * pre     groups * W cover the digits
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void sort_offsets(struct sort_params p, global u32 *table) {
    const u32 digit = (u32)get_group_id(0) * W + (u32)get_local_id(0);
    table += p.table_at;
    if (digit < SORT_DIGITS) {
        u32 sum = 0;
        for (u32 c = 0; c < p.num_chunks; ++c) {
            const u64 at = (u64)c * SORT_DIGITS + digit;
            const u32 n = table[at];
            table[at] = sum;
            sum += n;
        }
        table[(u64)p.num_chunks * SORT_DIGITS + digit] = sum;
    }
}

/* sort_place
 * in    keys_in [n], values_in [n], table rows 0 ... num_chunks
 * out   keys_out [n], values_out [n]
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void sort_place(struct sort_params p, global const KEY *keys_in,
                                                                      global const VALUE *values_in, global KEY *keys_out,
                                                                      global VALUE *values_out, global const u32 *table,
                                                                      local u32 *memory) {
    const struct sort_local l = sort_slice_local(memory);
    const u32 chunk = (u32)get_group_id(0);
    table += p.table_at;
    for (u32 base = 0; base < SORT_DIGITS; base += W) {
        const u32 digit = base + (u32)get_local_id(0);
        if (digit < SORT_DIGITS) {
            u32 before = 0, count = 0;
            if (p.is_prefixed) {
                before = table[(u64)chunk * SORT_DIGITS + digit];
                count = table[(u64)p.num_chunks * SORT_DIGITS + digit];
            } else {
                for (u32 c = 0; c < p.num_chunks; ++c) {
                    before = c == chunk ? count : before;
                    count += table[(u64)c * SORT_DIGITS + digit];
                }
            }
            l.next_row[digit] = before;
            l.masks[digit] = count;
        }
    }
    GROUP_FENCE();
    sort_first_rows(l);
    sort_place_chunk(p, keys_in + p.keys_in_at, values_in + p.values_in_at, keys_out + p.keys_out_at, values_out + p.values_out_at,
                     share_begin(p.num_items, p.num_chunks, chunk), share_begin(p.num_items, p.num_chunks, chunk + 1), p.shift,
                     (p.has & SORT_IS_ARGSORT) != 0, l);
}

/* sort_one - all passes.
 * in    keys_in [n], values_in [n]
 * out   keys_out [n], values_out [n]; scratch: keys_spare [n], values_spare [n]
 * pre   one group
 * sync  all work-items reach every barrier; each pass reads from global memory what other work-items wrote in the one before
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void sort_one(struct sort_params p, global const KEY *keys_in,
                                                                    global const VALUE *values_in, global KEY *keys_out,
                                                                    global VALUE *values_out, global KEY *keys_spare,
                                                                    global VALUE *values_spare, local u32 *memory) {
    const struct sort_local l = sort_slice_local(memory);
    const u32 num_passes = sort_num_passes(p.shift, p.end_bit);
    global const KEY *keys = keys_in + p.keys_in_at;
    global const VALUE *values = values_in + p.values_in_at;
    for (u32 pass = 0; pass < num_passes; ++pass) {
        const bool to_out = (num_passes - pass) % 2 == 1;
        const u32 shift = p.shift + pass * SORT_DIGIT_BITS;
        global KEY *keys_to = to_out ? keys_out + p.keys_out_at : keys_spare + p.keys_spare_at;
        global VALUE *values_to = to_out ? values_out + p.values_out_at : values_spare + p.values_spare_at;
        group_zero(l.next_row, SORT_DIGITS);
        sort_count_chunk(p, keys, 0, p.num_items, shift, l.masks);
        sort_first_rows(l);
        sort_place_chunk(p, keys, values, keys_to, values_to, 0, p.num_items, shift, (p.has & SORT_IS_ARGSORT) != 0 && pass == 0, l);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        keys = keys_to;
        values = values_to;
    }
}
