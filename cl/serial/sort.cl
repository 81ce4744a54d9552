/* sort, serial class: stable, 8 bits a pass; each group is one work-item with a contiguous chunk of the items.
 *
 *   one      all passes by a single group: the only launch of a small sort
 *   count    digits of my chunk                                        -> table row g
 *   offsets  column sums over the chunks, if there are many of them    -> table rows 0 ... num_chunks
 *   place    first row of each digit, then each item of my chunk to the next row of its digit
 */
#ifndef SORT_SERIAL_ONCE
#define SORT_SERIAL_ONCE

/* sort_offsets - counts of each chunk become counts of the chunks before it; the totals go to row num_chunks.
 * in/out  table [num_chunks + 1][SORT_DIGITS]
 */
kernel void sort_offsets(struct sort_params p, global u32 *table) {
    const u32 num_groups = (u32)get_num_groups(0), group = (u32)get_group_id(0);
    const u32 last = share_begin(SORT_DIGITS, num_groups, group + 1);
    table += p.table_at;
    for (u32 digit = share_begin(SORT_DIGITS, num_groups, group); digit < last; ++digit) {
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

/* First rows of the items of `chunk` -> next_row [SORT_DIGITS]. */
static inline void sort_first_rows(struct sort_params p, global const u32 *table, u32 chunk, global u32 *next_row) {
    u32 row = 0;
    for (u32 digit = 0; digit < SORT_DIGITS; ++digit) {
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
        next_row[digit] = row + before;
        row += count;
    }
}
#endif

/* The digit of a key at `shift`. */
static inline u32 NAME(sort_digit)(struct sort_params p, KEY key, u32 shift) {
    const KEY ordered = sizeof(KEY) == 4 ? (KEY)sort_ordered_u32((u32)key, p.order) : key;
    const KEY digits = (p.has & SORT_IS_DESCENDING) ? ~ordered : ordered;
    const u32 bits = sort_digit_bits(shift, p.end_bit);
    return bits == 0 ? 0 : (u32)(digits >> shift) & ((1u << bits) - 1);
}

static inline void NAME(sort_count_chunk)(struct sort_params p, global const KEY *keys, u32 first, u32 last, u32 shift, global u32 *row) {
    for (u32 digit = 0; digit < SORT_DIGITS; ++digit)
        row[digit] = 0;
    for (u32 i = first; i < last; ++i)
        ++row[NAME(sort_digit)(p, keys[i], shift)];
}

static inline void NAME(sort_place_chunk)(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                          global VALUE *values_out, u32 first, u32 last, u32 shift, bool makes_values,
                                          global u32 *next_row) {
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i];
        const u32 row = next_row[NAME(sort_digit)(p, key, shift)]++;
        keys_out[row] = key;
        if (p.has & SORT_HAS_VALUES)
            values_out[row] = makes_values ? (VALUE)i : values[i];
    }
}

/* sort_count
 * in   keys_in [n]
 * out  table row g
 */
kernel void NAME(sort_count)(struct sort_params p, global const KEY *keys_in, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    NAME(sort_count_chunk)
    (p, keys_in + p.keys_in_at, share_begin(p.num_items, p.num_chunks, chunk), share_begin(p.num_items, p.num_chunks, chunk + 1), p.shift,
     table + p.table_at + (u64)chunk * SORT_DIGITS);
}

/* sort_place
 * in   keys_in [n], values_in [n], table rows 0 ... num_chunks
 * out  keys_out [n], values_out [n]; scratch: table row num_chunks + 1 + g
 */
kernel void NAME(sort_place)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                             global VALUE *values_out, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    table += p.table_at;
    global u32 *next_row = table + (u64)(p.num_chunks + 1 + chunk) * SORT_DIGITS;
    sort_first_rows(p, table, chunk, next_row);
    NAME(sort_place_chunk)
    (p, keys_in + p.keys_in_at, values_in + p.values_in_at, keys_out + p.keys_out_at, values_out + p.values_out_at,
     share_begin(p.num_items, p.num_chunks, chunk), share_begin(p.num_items, p.num_chunks, chunk + 1), p.shift,
     (p.has & SORT_IS_ARGSORT) != 0, next_row);
}

/* sort_one - all passes.
 * in   keys_in [n], values_in [n]
 * out  keys_out [n], values_out [n]; scratch: keys_spare [n], values_spare [n], table
 * pre  one group, num_chunks = 1
 */
kernel void NAME(sort_one)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                           global VALUE *values_out, global KEY *keys_spare, global VALUE *values_spare, global u32 *table) {
    const u32 num_passes = sort_num_passes(p.shift, p.end_bit);
    global const KEY *keys = keys_in + p.keys_in_at;
    global const VALUE *values = values_in + p.values_in_at;
    table += p.table_at;
    for (u32 pass = 0; pass < num_passes; ++pass) {
        const bool to_out = (num_passes - pass) % 2 == 1;
        const u32 shift = p.shift + pass * SORT_DIGIT_BITS;
        global KEY *keys_to = to_out ? keys_out + p.keys_out_at : keys_spare + p.keys_spare_at;
        global VALUE *values_to = to_out ? values_out + p.values_out_at : values_spare + p.values_spare_at;
        NAME(sort_count_chunk)(p, keys, 0, p.num_items, shift, table);
        sort_first_rows(p, table, 0, table + 2 * SORT_DIGITS);
        NAME(sort_place_chunk)
        (p, keys, values, keys_to, values_to, 0, p.num_items, shift, (p.has & SORT_IS_ARGSORT) != 0 && pass == 0, table + 2 * SORT_DIGITS);
        keys = keys_to;
        values = values_to;
    }
}
