/* sort.h - what the host and both kernel classes must agree on for sort. KEY (u32 or u64) and VALUE (u32 or u64) are defined by whoever
 * compiles the kernels. */
#ifndef CLMOE_SORT_H
#define CLMOE_SORT_H

#ifndef CLMOE_SHARED_H
#include "shared.h"
#endif

enum { SORT_DIGIT_BITS = 8, SORT_DIGITS = 1 << SORT_DIGIT_BITS, SORT_MAX_PASSES = 8 };
/* Serial class: keys that are looked at for the bits in which all will differ. */
enum { SORT_SAMPLE = 64 };

/* Serial class: so few items are sorted by insertion, as a pass walks all digits twice; and so many with the same bits, on the average,
 * are left to it after the passes. */
enum { SORT_INSERTED = 32, SORT_CROWD = 1 };

enum { SORT_UNSIGNED = 0, SORT_SIGNED = 1, SORT_FLOAT = 2 };

enum {
    SORT_HAS_VALUES = 1 << 0,
    SORT_IS_ARGSORT = 1 << 1, /* the first pass makes the values: 0, 1, 2, ... */
    SORT_IS_DESCENDING = 1 << 2,
    SORT_HAS_BUCKETS = 1 << 3 /* the digit is that of the highest bits that differ, in [shift, end_bit) */
};

/* One pass reads keys and values at .._in and writes them at .._out. The single launch makes all passes: from `in` to `out` and back
 * through `spare`, so that the last one ends in `out`; in the serial class, of a small sort, on packed items between `spare` and the
 * buffer. */
struct sort_params {
    u64 keys_in_at, values_in_at, keys_out_at, values_out_at, keys_spare_at, values_spare_at, table_at; /* in items */
    u64 buffers_at; /* in packed items after the first spare one */
    u32 num_items, num_chunks;
    u32 order;          /* SORT_UNSIGNED ... */
    u32 has;            /* SORT_HAS_... */
    u32 shift, end_bit; /* bits of this pass: from shift on, below end_bit; none is fine. The single launch starts there */
    u32 digit_bits;     /* SORT_DIGIT_BITS; of buckets it may be more */
    u32 is_prefixed;    /* the offsets stage ran: row c holds the counts of the chunks before c, row num_chunks those of all */
    u32 buffer_items;   /* serial class: items that a group's buffer holds; more are sorted without it */
    u32 unused;         /* 32-bit members are even in number: every compiler lays this out alike */
};

static inline u32 sort_num_passes(u32 begin_bit, u32 end_bit) {
    return end_bit > begin_bit ? ceil_div(end_bit - begin_bit, SORT_DIGIT_BITS) : 1;
}

/* The workspace holds, each from a multiple of 64 bytes on,
 *
 *   spare    keys [n] and values [n]; or, packed, items [n]
 *   buffers  serial class: items [groups][buffer_items]
 *   table    u32 [chunks + 1][digits]: counts of each chunk, totals; serial class: a KEY for each chunk with the bits that differ in it;
 *            then scratch: a row for each chunk, and later [SORT_MAX_PASSES][SORT_DIGITS] for each group of `buckets`
 *
 * Where they begin in the table: */
static inline u64 sort_bits_at(u32 num_chunks, u32 digit_bits) {
    return ((u64)num_chunks + 1) << digit_bits;
}

static inline u64 sort_scratch_at(u32 num_chunks, u32 digit_bits) {
    return sort_bits_at(num_chunks, digit_bits) + 2 * (u64)num_chunks;
}

static inline u64 sort_table_items(u32 num_chunks, u32 digit_bits, u32 num_bucket_groups) {
    const u64 placing = (u64)num_chunks << digit_bits;
    const u64 sorting = (u64)(num_bucket_groups > 1 ? num_bucket_groups : 1) * SORT_MAX_PASSES * SORT_DIGITS;
    return sort_scratch_at(num_chunks, digit_bits) + (placing > sorting ? placing : sorting);
}

#ifdef CLMOE_KERNEL
/* The unsigned integer with the key's order. Floats: both zeros are one, NaNs are all equal and above everything. */
static inline u32 sort_ordered_u32(u32 key, u32 order) {
    if (order == SORT_SIGNED)
        return key ^ 0x80000000u;
    if (order == SORT_FLOAT) {
        const u32 magnitude = key & 0x7fffffffu;
        if (magnitude > 0x7f800000u)
            return 0xffffffffu;
        return magnitude == 0 ? 0x80000000u : (key & 0x80000000u) != 0 ? ~key : key | 0x80000000u;
    }
    return key;
}

static inline u32 sort_digit_bits(u32 shift, u32 end_bit) {
    return end_bit <= shift ? 0 : end_bit - shift < SORT_DIGIT_BITS ? end_bit - shift : SORT_DIGIT_BITS;
}
#endif

#endif
