/* sort, serial class: stable; each group is one work-item with a contiguous chunk of the items. In one launch,
 *
 *   one      all by a single group
 *
 * or by passes, 8 bits each, the lowest first:
 *
 *   count    digits of my chunk                                        -> table row g
 *   offsets  column sums over the chunks, if there are many of them    -> table rows 0 ... num_chunks
 *   place    first row of each digit, then each item of my chunk to the next row of its digit
 *
 * or by buckets, the items with the same highest digit, which fit into a core's cache as the whole does not:
 *
 *   bits     the bits in which keys of my chunk differ                 -> table
 *            and digits as if these were the bits of a sample          -> table row g
 *   count    digits, the highest 8 to 10 of these bits, unless that is what was counted
 *   offsets  as above
 *   spread   as place; key and value become one packed item, so that fewer lines are written at a time
 *   buckets  sorts each of my buckets by the bits below
 */
#ifndef SORT_SERIAL_ONCE
#define SORT_SERIAL_ONCE

/* sort_offsets - counts of each chunk become counts of the chunks before it; the totals go to row num_chunks.
 * in/out  table [num_chunks + 1][digits]
 */
kernel void sort_offsets(struct sort_params p, global u32 *table) {
    const u32 num_groups = (u32)get_num_groups(0), group = (u32)get_group_id(0);
    const u32 num_digits = 1u << p.digit_bits, last = share_begin(num_digits, num_groups, group + 1);
    table += p.table_at;
    for (u32 digit = share_begin(num_digits, num_groups, group); digit < last; ++digit) {
        u32 sum = 0;
        for (u32 c = 0; c < p.num_chunks; ++c) {
            const u64 at = (u64)c * num_digits + digit;
            const u32 n = table[at];
            table[at] = sum;
            sum += n;
        }
        table[(u64)p.num_chunks * num_digits + digit] = sum;
    }
}

/* How many items have the digit. */
static inline u32 sort_digit_count(struct sort_params p, global const u32 *table, u32 digit) {
    if (p.is_prefixed)
        return table[((u64)p.num_chunks << p.digit_bits) + digit];
    u32 count = 0;
    for (u32 c = 0; c < p.num_chunks; ++c)
        count += table[((u64)c << p.digit_bits) + digit];
    return count;
}

/* First rows of the items of `chunk` -> next_row [digits]. */
static inline void sort_first_rows(struct sort_params p, global const u32 *table, u32 chunk, global u32 *next_row) {
    u32 row = 0;
    for (u32 digit = 0; digit < 1u << p.digit_bits; ++digit) {
        u32 before = 0, count = 0;
        if (p.is_prefixed) {
            before = table[((u64)chunk << p.digit_bits) + digit];
            count = table[((u64)p.num_chunks << p.digit_bits) + digit];
        } else {
            for (u32 c = 0; c < p.num_chunks; ++c) {
                before = c == chunk ? count : before;
                count += table[((u64)c << p.digit_bits) + digit];
            }
        }
        next_row[digit] = row + before;
        row += count;
    }
}
#endif

/* ---- Buckets: items [0, n) to keys_out and values_out, sorted by the bits of `range`; n > 0, and the items are lost ---- */

/* By passes through memory. Scratch: rows [SORT_MAX_PASSES][SORT_DIGITS]. */
static inline void NAME(sort_large_bucket)(struct sort_params p, global ITEM *items, global KEY *keys_out, global VALUE *values_out, u32 n,
                                           struct sort_range range, global u32 *rows) {
    const u32 values_per_key = sizeof(KEY) > sizeof(VALUE) ? sizeof(KEY) / sizeof(VALUE) : 1;
    global KEY *keys_spare = (global KEY *)items;
    global VALUE *values_spare = (global VALUE *)items + (u64)values_per_key * n;
    range = NAME(sort_range_of)(NAME(sort_differing_items)(p, items, n) & NAME(sort_mask)(range.begin, range.end));
    const struct sort_digits digits = sort_digits_of(range.begin, range.end, sort_num_passes(range.begin, range.end) | 1);
    NAME(sort_count_items)(p, items, n, digits, rows);
    sort_rows_of_counts(digits, n, rows);
    NAME(sort_part)(p, items, keys_out, values_out, n, sort_digit_of(digits, 0), rows);
    NAME(sort_passes)(p, keys_out, values_out, keys_out, values_out, keys_spare, values_spare, n, digits, 1, false, rows);
}

/* n <= p.buffer_items: by passes inside the caches for as many of the highest bits as tell most items apart, and insertion for the rest.
 * Scratch: buffer [n], rows [SORT_MAX_PASSES][SORT_DIGITS]. */
static inline void NAME(sort_bucket)(struct sort_params p, global ITEM *items, global KEY *keys_out, global VALUE *values_out, u32 n,
                                     struct sort_range range, global ITEM *buffer, global u32 *rows) {
    const u32 num_bits = range.end - range.begin;
    global ITEM *from = items;
    u32 wanted = n <= SORT_INSERTED ? 0 : 34 - (u32)clz(n); /* four values of these bits or more for each item */
    for (bool is_sorted = false; !is_sorted; wanted = num_bits) {
        const u32 num_passes = ceil_div(wanted < num_bits ? wanted : num_bits, SORT_DIGIT_BITS);
        const u32 room = num_passes * SORT_DIGIT_BITS; /* for one more, or for all */
        const u32 bits = room >= num_bits ? num_bits : wanted < room ? wanted + 1 : room;
        const bool inserts = bits < num_bits, is_small = n <= SORT_INSERTED;
        const struct sort_digits digits = sort_digits_of(range.end - bits, range.end, num_passes);
        NAME(sort_count_items)(p, from, n, digits, rows);
        if (sort_rows_of_counts(digits, n, rows) > SORT_CROWD && inserts && !is_small)
            continue;
        for (u32 pass = 0; pass < num_passes; ++pass) {
            global ITEM *to = from == items ? buffer : items;
            NAME(sort_move)(p, from, to, n, sort_digit_of(digits, pass), rows + pass * SORT_DIGITS);
            from = to;
        }
        is_sorted = !inserts || NAME(sort_insert)(p, from, keys_out, values_out, n, range, is_small ? ~0u : 2 * n);
        if (!inserts)
            NAME(sort_unpack)(from, keys_out, values_out, n);
    }
}

/* ---- The kernels ---- */

/* The bits in which keys differ at all: what sort_bits() left in the table. */
static inline struct sort_range NAME(sort_differing_range)(struct sort_params p, global const u32 *table) {
    global const KEY *differing = (global const KEY *)(table + sort_bits_at(p.num_chunks, p.digit_bits));
    KEY all = 0;
    for (u32 c = 0; c < p.num_chunks; ++c)
        all |= differing[c];
    return NAME(sort_range_of)(all & NAME(sort_mask)(p.shift, p.end_bit));
}

/* With which all keys are compared, if there are any. */
static inline KEY NAME(sort_first_key)(struct sort_params p, global const KEY *keys) {
    return p.num_items > 0 ? keys[0] : 0;
}

/* The digit of buckets by the bits in which a few of the keys differ: that of all, unless they are of an odd kind. */
static inline struct sort_digits NAME(sort_likely_digit)(struct sort_params p, global const KEY *keys) {
    const u32 stride = p.num_items > SORT_SAMPLE ? p.num_items / SORT_SAMPLE : 1, n = p.num_items < SORT_SAMPLE ? p.num_items : SORT_SAMPLE;
    const KEY differing = FOR_KEY_TYPE(p, NAME(sort_loop_differing), keys, stride, n, NAME(sort_first_key)(p, keys));
    return sort_highest_digit(NAME(sort_range_of)(differing & NAME(sort_mask)(p.shift, p.end_bit)), p.digit_bits);
}

/* sort_bits
 * in   keys_in [n]
 * out  a word of the table's bits, table row g: counts of the likely digit
 */
kernel void NAME(sort_bits)(struct sort_params p, global const KEY *keys_in, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    table += p.table_at;
    global KEY *differing = (global KEY *)(table + sort_bits_at(p.num_chunks, p.digit_bits));
    global u32 *row = table + ((u64)chunk << p.digit_bits);
    keys_in += p.keys_in_at;
    const KEY reference = NAME(sort_first_key)(p, keys_in);
    differing[chunk] = NAME(sort_survey_keys)(p, keys_in + first, last - first, reference, NAME(sort_likely_digit)(p, keys_in), row);
}

/* sort_count
 * in   keys_in [n], by buckets: the table's bits
 * out  table row g
 */
kernel void NAME(sort_count)(struct sort_params p, global const KEY *keys_in, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    struct sort_digits digits = {p.shift, p.end_bit, p.digit_bits, 1};
    table += p.table_at;
    keys_in += p.keys_in_at;
    if (p.has & SORT_HAS_BUCKETS) {
        digits = sort_highest_digit(NAME(sort_differing_range)(p, table), p.digit_bits);
        const struct sort_digits counted = NAME(sort_likely_digit)(p, keys_in);
        if (digits.begin == counted.begin && digits.end == counted.end)
            return;
    }
    NAME(sort_count_keys)(p, keys_in + first, last - first, digits, table + ((u64)chunk << p.digit_bits));
}

/* sort_place
 * in   keys_in [n], values_in [n], table rows 0 ... num_chunks
 * out  keys_out [n], values_out [n]; scratch: row g of the table's scratch
 */
kernel void NAME(sort_place)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                             global VALUE *values_out, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    const struct sort_digits digits = {p.shift, p.end_bit, p.digit_bits, 1};
    const bool makes_values = (p.has & SORT_IS_ARGSORT) != 0;
    table += p.table_at;
    keys_in += p.keys_in_at;
    values_in += p.values_in_at;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    global u32 *next_row = table + sort_scratch_at(p.num_chunks, p.digit_bits) + ((u64)chunk << p.digit_bits);
    sort_first_rows(p, table, chunk, next_row);
    NAME(sort_place_keys)(p, keys_in, values_in, keys_out, values_out, first, last, sort_digit_of(digits, 0), makes_values, next_row);
}

/* sort_spread - items that need no more than this digit end in `out`.
 * in   keys_in [n], values_in [n], table rows 0 ... num_chunks and bits
 * out  spare items [n], or keys_out [n], values_out [n]; scratch: as in sort_place
 */
kernel void NAME(sort_spread)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                              global VALUE *values_out, global KEY *spare, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    table += p.table_at;
    keys_in += p.keys_in_at;
    values_in += p.values_in_at;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    global u32 *next_row = table + sort_scratch_at(p.num_chunks, p.digit_bits) + ((u64)chunk << p.digit_bits);
    const bool makes_values = (p.has & SORT_IS_ARGSORT) != 0;
    const struct sort_range range = NAME(sort_differing_range)(p, table);
    const struct sort_digits digits = sort_highest_digit(range, p.digit_bits);
    const struct sort_digit digit = sort_digit_of(digits, 0);
    sort_first_rows(p, table, chunk, next_row);
    if (digits.begin > range.begin)
        NAME(sort_pack)(p, keys_in, values_in, (global ITEM *)(spare + p.keys_spare_at), first, last, digit, next_row);
    else
        NAME(sort_place_keys)(p, keys_in, values_in, keys_out, values_out, first, last, digit, makes_values, next_row);
}

/* sort_buckets - each group sorts the buckets that begin in its share of the rows.
 * in       table rows 0 ... num_chunks and bits
 * in/out   spare items [n]
 * out      keys_out [n], values_out [n]
 * scratch  buffers [groups][p.buffer_items], the table's [groups][SORT_MAX_PASSES][SORT_DIGITS]
 */
kernel void NAME(sort_buckets)(struct sort_params p, global KEY *keys_out, global VALUE *values_out, global KEY *spare, global u32 *table) {
    const u32 group = (u32)get_group_id(0), num_groups = (u32)get_num_groups(0);
    const u32 from = share_begin(p.num_items, num_groups, group), to = share_begin(p.num_items, num_groups, group + 1);
    table += p.table_at;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    global ITEM *items = (global ITEM *)(spare + p.keys_spare_at);
    global ITEM *buffer = items + p.buffers_at + (u64)group * p.buffer_items;
    global u32 *rows = table + sort_scratch_at(p.num_chunks, p.digit_bits) + (u64)group * SORT_MAX_PASSES * SORT_DIGITS;
    struct sort_range range = NAME(sort_differing_range)(p, table);
    range.end = sort_highest_digit(range, p.digit_bits).begin;
    if (range.end == range.begin)
        return;
    for (u32 digit = 0, first = 0, last; digit < 1u << p.digit_bits; ++digit, first = last) {
        last = first + sort_digit_count(p, table, digit);
        if (first == last || first < from || first >= to)
            continue;
        if (last - first > p.buffer_items)
            NAME(sort_large_bucket)(p, items + first, keys_out + first, values_out + first, last - first, range, rows);
        else
            NAME(sort_bucket)(p, items + first, keys_out + first, values_out + first, last - first, range, buffer, rows);
    }
}

/* sort_one
 * in   keys_in [n], values_in [n]
 * out  keys_out [n], values_out [n]; scratch: spare items [n] or keys [n] and values [n], buffer [p.buffer_items],
 *      table rows 0 ... SORT_MAX_PASSES - 1
 * pre  one group
 */
kernel void NAME(sort_one)(struct sort_params p, global const KEY *keys_in, global const VALUE *values_in, global KEY *keys_out,
                           global VALUE *values_out, global KEY *keys_spare, global VALUE *values_spare, global u32 *table) {
    const u32 n = p.num_items;
    const bool makes_values = (p.has & SORT_IS_ARGSORT) != 0;
    keys_in += p.keys_in_at;
    values_in += p.values_in_at;
    keys_out += p.keys_out_at;
    values_out += p.values_out_at;
    table += p.table_at;
    if (n == 0)
        return;
    const KEY differing = NAME(sort_differing_keys)(p, keys_in, n, keys_in[0]);
    const struct sort_range range = NAME(sort_range_of)(differing & NAME(sort_mask)(p.shift, p.end_bit));
    keys_spare += p.keys_spare_at;
    values_spare += p.values_spare_at;
    if (n <= p.buffer_items) {
        global ITEM *items = (global ITEM *)keys_spare, *buffer = items + p.buffers_at;
        for (u32 i = 0; i < n; ++i)
            items[i] = NAME(sort_item_of)(keys_in[i], makes_values ? (VALUE)i : HAS_VALUES ? values_in[i] : 0);
        NAME(sort_bucket)(p, items, keys_out, values_out, n, range, buffer, table);
    } else {
        const struct sort_digits digits = sort_digits_of(range.begin, range.end, sort_num_passes(range.begin, range.end));
        NAME(sort_count_keys)(p, keys_in, n, digits, table);
        sort_rows_of_counts(digits, n, table);
        NAME(sort_passes)(p, keys_in, values_in, keys_out, values_out, keys_spare, values_spare, n, digits, 0, makes_values, table);
    }
}
#undef ITEM
#undef HAS_VALUES
#undef FOR_KEY_TYPE
