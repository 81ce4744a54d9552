/* sort, serial class: stable, 8 bits a pass; each group is one work-item with a contiguous chunk of the items.
 *
 *   one      all passes by a single group: the only launch of a small sort
 *   count    digits of my chunk                                        -> table row g
 *   offsets  column sums over the chunks, if there are many of them    -> table rows 0 ... num_chunks
 *   place    first row of each digit, then each item of my chunk to the next row of its digit
 *   buckets  if these were the highest digits: sorts each of my digits' rows by the bits below, inside the caches
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

/* How many items have the digit. */
static inline u32 sort_digit_count(struct sort_params p, global const u32 *table, u32 digit) {
    if (p.is_prefixed)
        return table[(u64)p.num_chunks * SORT_DIGITS + digit];
    u32 count = 0;
    for (u32 c = 0; c < p.num_chunks; ++c)
        count += table[(u64)c * SORT_DIGITS + digit];
    return count;
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

/* ---- Digits: of the integer with a key's order, which is (the key, or what sort_ordered_u32() makes of a float) ^ flip ---- */

static inline KEY NAME(sort_flip)(struct sort_params p) {
    const KEY sign = p.order == SORT_SIGNED ? 0x80000000u : 0;
    return (p.has & SORT_IS_DESCENDING) ? ~sign : sign;
}

static inline KEY NAME(sort_bits_below)(u32 end_bit) {
    return end_bit < 8 * sizeof(KEY) ? ((KEY)1 << end_bit) - 1 : ~(KEY)0;
}

static inline KEY NAME(sort_mask)(u32 begin_bit, u32 end_bit) {
    return NAME(sort_bits_below)(end_bit) & ~NAME(sort_bits_below)(begin_bit);
}

static inline KEY NAME(sort_bits)(KEY key, bool is_float, KEY flip, KEY mask) {
    return ((is_float ? (KEY)sort_ordered_u32((u32)key, SORT_FLOAT) : key) ^ flip) & mask;
}

/* Counts num_passes digits from bit `shift` on of keys [first, last), added to rows [num_passes][SORT_DIGITS]. */
static inline void NAME(sort_count_digits)(global const KEY *keys, u32 first, u32 last, bool is_float, KEY flip, KEY mask, u32 shift,
                                           u32 num_passes, global u32 *rows) {
    for (u32 i = first; i < last; ++i) {
        KEY digits = NAME(sort_bits)(keys[i], is_float, flip, mask) >> shift;
        for (u32 pass = 0; pass < num_passes; ++pass, digits >>= SORT_DIGIT_BITS)
            ++rows[pass * SORT_DIGITS + ((u32)digits & (SORT_DIGITS - 1))];
    }
}

/* The same for integers; the numbers of passes that are common are constants to the compiler. This and the next two are kept out of the
 * functions around them, where compilers run out of registers. */
static NOT_INLINE void NAME(sort_count_integers)(global const KEY *keys, u32 first, u32 last, KEY flip, KEY mask, u32 shift, u32 num_passes,
                                                 global u32 *rows) {
    if (num_passes == 1) {
        NAME(sort_count_digits)(keys, first, last, false, flip, mask, shift, 1, rows);
    } else if (num_passes == 3) {
        NAME(sort_count_digits)(keys, first, last, false, flip, mask, shift, 3, rows);
    } else if (num_passes == 4) {
        NAME(sort_count_digits)(keys, first, last, false, flip, mask, shift, 4, rows);
    } else {
        NAME(sort_count_digits)(keys, first, last, false, flip, mask, shift, num_passes, rows);
    }
}

static NOT_INLINE void NAME(sort_place_integers)(global const KEY *keys, global KEY *keys_out, u32 first, u32 last, KEY flip, u32 shift,
                                                 u32 mask, global u32 *next_row) {
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i];
        const u32 row = next_row[(u32)((key ^ flip) >> shift) & mask]++;
        keys_out[row] = key;
    }
}

static NOT_INLINE void NAME(sort_place_pairs)(global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                              global VALUE *values_out, u32 first, u32 last, KEY flip, u32 shift, u32 mask,
                                              global u32 *next_row) {
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i];
        const u32 row = next_row[(u32)((key ^ flip) >> shift) & mask]++;
        keys_out[row] = key;
        values_out[row] = values[i];
    }
}

/* Counts the digits of num_passes passes -> rows [num_passes][SORT_DIGITS]. */
static inline void NAME(sort_count_passes)(struct sort_params p, global const KEY *keys, u32 first, u32 last, u32 num_passes,
                                           global u32 *rows) {
    const KEY flip = NAME(sort_flip)(p), mask = NAME(sort_mask)(p.shift, p.end_bit);
    const u32 shift = p.shift % (8 * sizeof(KEY)); /* beyond, there are no bits to sort by */
    for (u32 i = 0; i < num_passes * SORT_DIGITS; ++i)
        rows[i] = 0;
    if (p.order == SORT_FLOAT)
        NAME(sort_count_digits)(keys, first, last, true, flip, mask, shift, num_passes, rows);
    else
        NAME(sort_count_integers)(keys, first, last, flip, mask, shift, num_passes, rows);
}

/* Items [first, last), each to the next row of its digit at `shift`. */
static inline void NAME(sort_place_chunk)(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                          global VALUE *values_out, u32 first, u32 last, u32 shift, bool makes_values,
                                          global u32 *next_row) {
    const KEY flip = NAME(sort_flip)(p);
    const bool is_float = p.order == SORT_FLOAT, has_values = (p.has & SORT_HAS_VALUES) != 0;
    const KEY bits = NAME(sort_mask)(shift, p.end_bit);
    shift %= 8 * sizeof(KEY);
    const u32 mask = (u32)(bits >> shift) & (SORT_DIGITS - 1);
    if (!is_float && !has_values) {
        NAME(sort_place_integers)(keys, keys_out, first, last, flip, shift, mask, next_row);
        return;
    }
    if (!is_float && !makes_values) {
        NAME(sort_place_pairs)(keys, values, keys_out, values_out, first, last, flip, shift, mask, next_row);
        return;
    }
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i];
        const u32 row = next_row[(u32)(NAME(sort_bits)(key, is_float, flip, ~(KEY)0) >> shift) & mask]++;
        keys_out[row] = key;
        if (has_values)
            values_out[row] = makes_values ? (VALUE)i : values[i];
    }
}

/* All passes over items [first, last), from `keys` and `values` to `out` and back through `spare`, so that the last one ends in `out`.
 * Scratch: rows [num_passes][SORT_DIGITS]. */
static inline void NAME(sort_passes)(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                     global VALUE *values_out, global KEY *keys_spare, global VALUE *values_spare, u32 first, u32 last,
                                     global u32 *rows) {
    const u32 num_passes = sort_num_passes(p.shift, p.end_bit);
    NAME(sort_count_passes)(p, keys, first, last, num_passes, rows);
    for (u32 pass = 0; pass < num_passes; ++pass, rows += SORT_DIGITS) {
        const bool to_out = (num_passes - pass) % 2 == 1, makes_values = (p.has & SORT_IS_ARGSORT) != 0 && pass == 0;
        const u32 shift = p.shift + pass * SORT_DIGIT_BITS;
        global KEY *keys_to = to_out ? keys_out : keys_spare;
        global VALUE *values_to = to_out ? values_out : values_spare;
        u32 row = first;
        for (u32 digit = 0; digit < SORT_DIGITS; ++digit) {
            const u32 count = rows[digit];
            rows[digit] = row;
            row += count;
        }
        NAME(sort_place_chunk)(p, keys, values, keys_to, values_to, first, last, shift, makes_values, rows);
        keys = keys_to;
        values = values_to;
    }
}

/* sort_count
 * in   keys_in [n]
 * out  table row g
 */
kernel void NAME(sort_count)(struct sort_params p, global const KEY *keys_in, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    NAME(sort_count_passes)(p, keys_in + p.keys_in_at, first, last, 1, table + p.table_at + (u64)chunk * SORT_DIGITS);
}

/* sort_place
 * in   keys_in [n], values_in [n], table rows 0 ... num_chunks
 * out  keys_out [n], values_out [n]; scratch: table row num_chunks + 1 + g
 */
kernel void NAME(sort_place)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                             global VALUE *values_out, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    const bool makes_values = (p.has & SORT_IS_ARGSORT) != 0;
    table += p.table_at;
    keys_in += p.keys_in_at;
    values_in += p.values_in_at;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    global u32 *next_row = table + (u64)(p.num_chunks + 1 + chunk) * SORT_DIGITS;
    sort_first_rows(p, table, chunk, next_row);
    NAME(sort_place_chunk)(p, keys_in, values_in, keys_out, values_out, first, last, p.shift, makes_values, next_row);
}

/* sort_one - all passes.
 * in   keys_in [n], values_in [n]
 * out  keys_out [n], values_out [n]; scratch: keys_spare [n], values_spare [n], table rows 0 ... num_passes - 1
 * pre  one group
 */
kernel void NAME(sort_one)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                           global VALUE *values_out, global KEY *keys_spare, global VALUE *values_spare, global u32 *table) {
    keys_in += p.keys_in_at;
    values_in += p.values_in_at;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    keys_spare += p.keys_spare_at;
    values_spare += p.values_spare_at;
    NAME(sort_passes)(p, keys_in, values_in, keys_out, values_out, keys_spare, values_spare, 0, p.num_items, table + p.table_at);
}

/* A few items by insertion, stable, from `keys` and `values` to the same rows of `out`, which may be the same memory. */
static inline void NAME(sort_insert)(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                     global VALUE *values_out, u32 first, u32 last) {
    const KEY flip = NAME(sort_flip)(p), mask = NAME(sort_mask)(p.shift, p.end_bit);
    const bool is_float = p.order == SORT_FLOAT, has_values = (p.has & SORT_HAS_VALUES) != 0;
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i], bits = NAME(sort_bits)(key, is_float, flip, mask);
        const VALUE value = has_values ? values[i] : 0;
        u32 row = i;
        for (; row > first && NAME(sort_bits)(keys_out[row - 1], is_float, flip, mask) > bits; --row) {
            keys_out[row] = keys_out[row - 1];
            if (has_values)
                values_out[row] = values_out[row - 1];
        }
        keys_out[row] = key;
        if (has_values)
            values_out[row] = value;
    }
}

/* sort_buckets - each group sorts those digits' rows that begin in its share of the rows, by the bits [p.shift, p.end_bit) below.
 * in       table rows 0 ... num_chunks
 * in/out   keys_out [n], values_out [n], keys_spare [n], values_spare [n]; items lie in `spare` if the number of passes is odd, else `out`
 * scratch  table rows num_chunks + 1 + g num_passes + 0 ... num_passes - 1
 */
kernel void NAME(sort_buckets)(struct sort_params p, global KEY *keys_out, global VALUE *values_out, global KEY *keys_spare,
                               global VALUE *values_spare, global u32 *table) {
    const u32 group = (u32)get_group_id(0), num_groups = (u32)get_num_groups(0);
    const u32 from = share_begin(p.num_items, num_groups, group), to = share_begin(p.num_items, num_groups, group + 1);
    const u32 num_passes = sort_num_passes(p.shift, p.end_bit);
    const bool in_spare = num_passes % 2 == 1;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    keys_spare += p.keys_spare_at;
    values_spare += p.values_spare_at;
    table += p.table_at;
    global const KEY *keys = in_spare ? keys_spare : keys_out;
    global const VALUE *values = in_spare ? values_spare : values_out;
    global u32 *rows = table + (u64)(p.num_chunks + 1 + group * num_passes) * SORT_DIGITS;
    for (u32 digit = 0, first = 0, last; digit < SORT_DIGITS; ++digit, first = last) {
        last = first + sort_digit_count(p, table, digit);
        if (first < from || first >= to)
            continue;
        if (last - first > SORT_INSERTED)
            NAME(sort_passes)(p, keys, values, keys_out, values_out, keys_spare, values_spare, first, last, rows);
        else
            NAME(sort_insert)(p, keys, values, keys_out, values_out, first, last);
    }
}
