/* sort, serial class: keys as integers, the digits of passes, and the loops over items, whose keys and values are apart, as callers have
 * them, or packed, so that fewer lines are written at a time.
 *
 *   differing, count     of keys, or of packed items; survey: both at once
 *   place, pack          each item to the next row of its digit: from apart to apart, from apart to packed,
 *   move, part                                                   from packed to packed, from packed to apart
 *   unpack, insert       packed items to keys and values, in their order or in that of their keys
 */
#ifndef SORT_ITEMS_ONCE
#define SORT_ITEMS_ONCE

/* Bits [begin, end). */
struct sort_range {
    u32 begin, end;
};

/* The digits of passes, the lowest first: the bits from begin on, below end, digit_bits each. */
struct sort_digits {
    u32 begin, end, digit_bits, num_passes;
};

struct sort_digit {
    u32 shift, mask;
};

static inline struct sort_digits sort_digits_of(u32 begin, u32 end, u32 num_passes) {
    const struct sort_digits digits = {begin, end, num_passes == 0 ? 0 : ceil_div(end - begin, num_passes), num_passes};
    return digits;
}

/* The highest digit of a range, alone. */
static inline struct sort_digits sort_highest_digit(struct sort_range range, u32 digit_bits) {
    const u32 begin = range.end - range.begin > digit_bits ? range.end - digit_bits : range.begin;
    const struct sort_digits digits = {begin, range.end, digit_bits, 1};
    return digits;
}

static inline struct sort_digit sort_digit_of(struct sort_digits digits, u32 pass) {
    const u32 shift = digits.begin + pass * digits.digit_bits, rest = digits.end > shift ? digits.end - shift : 0;
    struct sort_digit digit = {0, 0};
    if (rest > 0) {
        digit.shift = shift;
        digit.mask = (1u << (rest < digits.digit_bits ? rest : digits.digit_bits)) - 1;
    }
    return digit;
}

/* Of the counts of one digit of any width, or of several of 8 bits at most. */
static inline void sort_zero_rows(struct sort_digits digits, global u32 *rows) {
    for (u32 pass = 0; pass < digits.num_passes; ++pass)
        for (u32 digit = 0; digit < 1u << digits.digit_bits; ++digit)
            rows[pass * SORT_DIGITS + digit] = 0;
}

/* Counts become first rows: rows [num_passes][SORT_DIGITS]. Returns how many of the n items have the same digits, on the average, if
 * digits have nothing to do with each other. */
static inline float sort_rows_of_counts(struct sort_digits digits, u32 n, global u32 *rows) {
    float crowd = (float)n;
    for (u32 pass = 0; pass < digits.num_passes; ++pass, rows += SORT_DIGITS) {
        u32 row = 0;
        float squares = 0;
        for (u32 digit = 0; digit < 1u << digits.digit_bits; ++digit) {
            const u32 count = rows[digit];
            rows[digit] = row;
            row += count;
            squares += (float)count * (float)count;
        }
        crowd *= squares / ((float)n * (float)n);
    }
    return crowd;
}
#endif

/* ---- Keys: as integers with their order, which are (the key, or what sort_ordered_u32() makes of a float) ^ flip ---- */

#define HAS_VALUES (VALUE_BYTES != 0)

/* Loops know whether keys are floats when they are compiled. They are kept out of the functions around them, where compilers run out of
 * registers. */
#define FOR_KEY_TYPE(p, loop, ...) ((p).order == SORT_FLOAT ? loop(__VA_ARGS__, true) : loop(__VA_ARGS__, false))

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

static inline KEY NAME(sort_ordered)(KEY key, bool is_float) {
    return is_float ? (KEY)sort_ordered_u32((u32)key, SORT_FLOAT) : key;
}

static inline u32 NAME(sort_row_of)(KEY key, KEY flip, struct sort_digit digit, bool is_float) {
    return (u32)((NAME(sort_ordered)(key, is_float) ^ flip) >> digit.shift) & digit.mask;
}

/* From the lowest to the highest bit that is set. */
static inline struct sort_range NAME(sort_range_of)(KEY bits) {
    struct sort_range range = {0, 0};
    if (bits != 0) {
        range.begin = (u32)(8 * sizeof(KEY) - 1) - (u32)clz(bits & (~bits + 1));
        range.end = (u32)(8 * sizeof(KEY)) - (u32)clz(bits);
    }
    return range;
}

/* The bits in which keys [n], key i at i * stride, differ from `reference`. */
static inline KEY NAME(sort_loop_differing)(global const KEY *keys, u32 stride, u32 n, KEY reference, bool is_float) {
    KEY differing = 0;
    reference = NAME(sort_ordered)(reference, is_float);
    for (u32 i = 0; i < n; ++i)
        differing |= NAME(sort_ordered)(keys[(u64)i * stride], is_float) ^ reference;
    return differing;
}

/* How often each value of the digit occurs in keys [n], added to rows [values]. Returns the bits in which keys differ from `reference`. */
static inline KEY NAME(sort_loop_survey)(global const KEY *keys, u32 n, KEY reference, KEY flip, struct sort_digit digit, global u32 *rows,
                                         bool is_float) {
    KEY differing = 0;
    reference = NAME(sort_ordered)(reference, is_float);
    for (u32 i = 0; i < n; ++i) {
        const KEY key = NAME(sort_ordered)(keys[i], is_float);
        differing |= key ^ reference;
        ++rows[(u32)((key ^ flip) >> digit.shift) & digit.mask];
    }
    return differing;
}

/* How often each digit occurs in keys [n], key i at i * stride, added to rows [num_passes][SORT_DIGITS]. */
static inline void NAME(sort_loop_count)(global const KEY *keys, u32 stride, u32 n, KEY flip, struct sort_digits digits, u32 num_passes,
                                         global u32 *rows, bool is_float) {
    const struct sort_digit lowest = sort_digit_of(digits, 0);
    const KEY mask = NAME(sort_mask)(digits.begin, digits.end);
    if (num_passes == 1) {
        for (u32 i = 0; i < n; ++i)
            ++rows[NAME(sort_row_of)(keys[(u64)i * stride], flip, lowest, is_float)];
        return;
    }
    for (u32 i = 0; i < n; ++i) {
        KEY bits = ((NAME(sort_ordered)(keys[(u64)i * stride], is_float) ^ flip) & mask) >> lowest.shift;
        for (u32 pass = 0; pass < num_passes; ++pass, bits >>= digits.digit_bits)
            ++rows[pass * SORT_DIGITS + ((u32)bits & lowest.mask)];
    }
}

/* The numbers of passes that are common are constants to the compiler. */
static inline void NAME(sort_count_stride)(struct sort_params p, global const KEY *keys, u32 stride, u32 n, struct sort_digits digits,
                                           global u32 *rows) {
    const KEY flip = NAME(sort_flip)(p);
    sort_zero_rows(digits, rows);
    if (digits.num_passes == 1)
        FOR_KEY_TYPE(p, NAME(sort_loop_count), keys, stride, n, flip, digits, 1, rows);
    else if (digits.num_passes == 2)
        FOR_KEY_TYPE(p, NAME(sort_loop_count), keys, stride, n, flip, digits, 2, rows);
    else if (digits.num_passes == 3)
        FOR_KEY_TYPE(p, NAME(sort_loop_count), keys, stride, n, flip, digits, 3, rows);
    else
        FOR_KEY_TYPE(p, NAME(sort_loop_count), keys, stride, n, flip, digits, digits.num_passes, rows);
}

/* ---- Keys and values apart ---- */

static NOT_INLINE KEY NAME(sort_differing_keys)(struct sort_params p, global const KEY *keys, u32 n, KEY reference) {
    return FOR_KEY_TYPE(p, NAME(sort_loop_differing), keys, 1, n, reference);
}

static NOT_INLINE KEY NAME(sort_survey_keys)(struct sort_params p, global const KEY *keys, u32 n, KEY reference, struct sort_digits digits,
                                             global u32 *rows) {
    const KEY flip = NAME(sort_flip)(p);
    sort_zero_rows(digits, rows);
    return FOR_KEY_TYPE(p, NAME(sort_loop_survey), keys, n, reference, flip, sort_digit_of(digits, 0), rows);
}

static NOT_INLINE void NAME(sort_count_keys)(struct sort_params p, global const KEY *keys, u32 n, struct sort_digits digits,
                                             global u32 *rows) {
    NAME(sort_count_stride)(p, keys, 1, n, digits, rows);
}

static inline void NAME(sort_loop_place)(global const KEY *keys, global const VALUE *values, global KEY *keys_out, global VALUE *values_out,
                                         u32 first, u32 last, KEY flip, struct sort_digit digit, bool makes_values, global u32 *next_row,
                                         bool is_float) {
    UNROLL
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i];
        const u32 row = next_row[NAME(sort_row_of)(key, flip, digit, is_float)]++;
        keys_out[row] = key;
        if (HAS_VALUES)
            values_out[row] = makes_values ? (VALUE)i : values[i];
    }
}

static NOT_INLINE void NAME(sort_place_keys)(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                             global VALUE *values_out, u32 first, u32 last, struct sort_digit digit, bool makes_values,
                                             global u32 *next_row) {
    const KEY flip = NAME(sort_flip)(p);
    if (makes_values)
        FOR_KEY_TYPE(p, NAME(sort_loop_place), keys, values, keys_out, values_out, first, last, flip, digit, true, next_row);
    else
        FOR_KEY_TYPE(p, NAME(sort_loop_place), keys, values, keys_out, values_out, first, last, flip, digit, false, next_row);
}

/* Passes `first` ... num_passes - 1 over items [0, n), whose rows are known, from `keys` and `values` to `out` and back through `spare`, so
 * that the last one ends in `out`. */
static inline void NAME(sort_passes)(struct sort_params p, global const KEY *keys, global const VALUE *values, global KEY *keys_out,
                                     global VALUE *values_out, global KEY *keys_spare, global VALUE *values_spare, u32 n,
                                     struct sort_digits digits, u32 first, bool makes_values, global u32 *rows) {
    for (u32 pass = first; pass < digits.num_passes; ++pass) {
        const bool to_out = (digits.num_passes - pass) % 2 == 1;
        const struct sort_digit digit = sort_digit_of(digits, pass);
        global KEY *to = to_out ? keys_out : keys_spare;
        global VALUE *values_to = to_out ? values_out : values_spare;
        NAME(sort_place_keys)(p, keys, values, to, values_to, 0, n, digit, makes_values && pass == 0, rows + pass * SORT_DIGITS);
        keys = to;
        values = values_to;
    }
}

/* ---- Items packed ---- */

struct NAME(sort_item) {
    KEY key;
#if VALUE_BYTES != 0
    VALUE value;
#endif
};
#define ITEM struct NAME(sort_item)

static inline ITEM NAME(sort_item_of)(KEY key, VALUE value) {
    ITEM item;
    item.key = key;
#if VALUE_BYTES != 0
    item.value = value;
#else
    (void)value;
#endif
    return item;
}

static inline VALUE NAME(sort_value_of)(ITEM item) {
#if VALUE_BYTES != 0
    return item.value;
#else
    return (VALUE)item.key;
#endif
}

static NOT_INLINE KEY NAME(sort_differing_items)(struct sort_params p, global const ITEM *items, u32 n) {
    return FOR_KEY_TYPE(p, NAME(sort_loop_differing), &items->key, sizeof(ITEM) / sizeof(KEY), n, items->key);
}

static NOT_INLINE void NAME(sort_count_items)(struct sort_params p, global const ITEM *items, u32 n, struct sort_digits digits,
                                              global u32 *rows) {
    NAME(sort_count_stride)(p, &items->key, sizeof(ITEM) / sizeof(KEY), n, digits, rows);
}

static inline void NAME(sort_loop_pack)(global const KEY *keys, global const VALUE *values, global ITEM *items, u32 first, u32 last,
                                        KEY flip, struct sort_digit digit, bool makes_values, global u32 *next_row, bool is_float) {
    UNROLL
    for (u32 i = first; i < last; ++i) {
        const KEY key = keys[i];
        const u32 row = next_row[NAME(sort_row_of)(key, flip, digit, is_float)]++;
        items[row] = NAME(sort_item_of)(key, makes_values ? (VALUE)i : HAS_VALUES ? values[i] : 0);
    }
}

static NOT_INLINE void NAME(sort_pack)(struct sort_params p, global const KEY *keys, global const VALUE *values, global ITEM *items,
                                       u32 first, u32 last, struct sort_digit digit, global u32 *next_row) {
    const KEY flip = NAME(sort_flip)(p);
    if (p.has & SORT_IS_ARGSORT)
        FOR_KEY_TYPE(p, NAME(sort_loop_pack), keys, values, items, first, last, flip, digit, true, next_row);
    else
        FOR_KEY_TYPE(p, NAME(sort_loop_pack), keys, values, items, first, last, flip, digit, false, next_row);
}

static inline void NAME(sort_loop_move)(global const ITEM *from, global ITEM *to, u32 n, KEY flip, struct sort_digit digit,
                                        global u32 *next_row, bool is_float) {
    UNROLL
    for (u32 i = 0; i < n; ++i) {
        const ITEM item = from[i];
        const u32 row = next_row[NAME(sort_row_of)(item.key, flip, digit, is_float)]++;
        to[row] = item;
    }
}

static NOT_INLINE void NAME(sort_move)(struct sort_params p, global const ITEM *from, global ITEM *to, u32 n, struct sort_digit digit,
                                       global u32 *next_row) {
    const KEY flip = NAME(sort_flip)(p);
    FOR_KEY_TYPE(p, NAME(sort_loop_move), from, to, n, flip, digit, next_row);
}

static inline void NAME(sort_loop_part)(global const ITEM *items, global KEY *keys_out, global VALUE *values_out, u32 n, KEY flip,
                                        struct sort_digit digit, global u32 *next_row, bool is_float) {
    UNROLL
    for (u32 i = 0; i < n; ++i) {
        const ITEM item = items[i];
        const u32 row = next_row[NAME(sort_row_of)(item.key, flip, digit, is_float)]++;
        keys_out[row] = item.key;
        if (HAS_VALUES)
            values_out[row] = NAME(sort_value_of)(item);
    }
}

static NOT_INLINE void NAME(sort_part)(struct sort_params p, global const ITEM *items, global KEY *keys_out, global VALUE *values_out,
                                       u32 n, struct sort_digit digit, global u32 *next_row) {
    const KEY flip = NAME(sort_flip)(p);
    FOR_KEY_TYPE(p, NAME(sort_loop_part), items, keys_out, values_out, n, flip, digit, next_row);
}

static NOT_INLINE void NAME(sort_unpack)(global const ITEM *items, global KEY *keys_out, global VALUE *values_out, u32 n) {
    for (u32 i = 0; i < n; ++i) {
        keys_out[i] = items[i].key;
        if (HAS_VALUES)
            values_out[i] = NAME(sort_value_of)(items[i]);
    }
}

/* Returns false if insertion would take more moves than max_moves. */
static inline bool NAME(sort_loop_insert)(global const ITEM *items, global KEY *keys_out, global VALUE *values_out, u32 n, KEY flip,
                                          KEY mask, u32 max_moves, bool is_float) {
    KEY highest = 0;
    u32 moves = 0;
    for (u32 i = 0; i < n; ++i) {
        const ITEM item = items[i];
        const KEY bits = (NAME(sort_ordered)(item.key, is_float) ^ flip) & mask;
        u32 row = i;
        if (bits >= highest) {
            highest = bits;
        } else {
            for (; row > 0 && ((NAME(sort_ordered)(keys_out[row - 1], is_float) ^ flip) & mask) > bits; --row) {
                keys_out[row] = keys_out[row - 1];
                if (HAS_VALUES)
                    values_out[row] = values_out[row - 1];
            }
            moves += i - row;
            if (moves > max_moves)
                return false;
        }
        keys_out[row] = item.key;
        if (HAS_VALUES)
            values_out[row] = NAME(sort_value_of)(item);
    }
    return true;
}

static NOT_INLINE bool NAME(sort_insert)(struct sort_params p, global const ITEM *items, global KEY *keys_out, global VALUE *values_out,
                                         u32 n, struct sort_range range, u32 max_moves) {
    const KEY flip = NAME(sort_flip)(p), mask = NAME(sort_mask)(range.begin, range.end);
    return FOR_KEY_TYPE(p, NAME(sort_loop_insert), items, keys_out, values_out, n, flip, mask, max_moves);
}
