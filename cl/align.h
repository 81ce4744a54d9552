/* align.h - what the host and both kernel classes must agree on for align: parameters, buckets, the workspace table.
 *
 * A pair falls into a *bucket*, the segment in which it will stand: 0 ... num_buckets-1, in the order of the segments. Buckets are
 * experts; with the BUCKET policy, bucket 0 is the foreign segment. Pairs that are placed nowhere fall into one of three *columns*
 * behind the buckets and are only counted.
 */
#ifndef CLMOE_ALIGN_H
#define CLMOE_ALIGN_H

#ifndef CLMOE_SHARED_H
#include "shared.h"
#endif

enum { ALIGN_DROP = 0, ALIGN_KEEP = 1, ALIGN_BUCKET = 2 };

enum { ALIGN_INVALID = 0, ALIGN_FOREIGN = 1, ALIGN_MASKED = 2, ALIGN_EXTRA_COLUMNS = 3 };

/* What a call brings. */
enum {
    ALIGN_HAS_MAP = 1 << 0,
    ALIGN_HAS_MASK = 1 << 1,
    ALIGN_HAS_NUM_TOKENS = 1 << 2,
    ALIGN_HAS_COUNTS = 1 << 3,
    ALIGN_HAS_OFFSETS = 1 << 4,
    ALIGN_HAS_PADDED_OFFSETS = 1 << 5,
    ALIGN_HAS_INVERSE = 1 << 6,
    ALIGN_HAS_ROWS_VALID = 1 << 7,
    ALIGN_HAS_WEIGHTS = 1 << 8,
    ALIGN_HAS_STATUS = 1 << 9,
    ALIGN_IS_PLAIN = 1 << 10 /* rows of ids touch, no map, no mask, no foreign bucket: the bucket of pair f is topk_ids[f] */
};

/* ..._at: where a view starts in its buffer, in elements; sub-buffers would need alignments that callers do not have. 64-bit members
 * first and 32-bit members in an even number: every compiler lays this out alike. */
struct align_params {
    u64 topk_ids_at, expert_map_at, row_mask_at, num_tokens_device_at, topk_weights_at;
    u64 sorted_token_ids_at, expert_ids_at, num_tokens_post_padded_at;
    u64 counts_at, offsets_at, padded_offsets_at, inverse_at, rows_valid_at, sorted_weights_at, status_at, table_at;
    u64 scratch_at, scratch_items; /* parallel class with its tables in the workspace: where they start, and items of one group */
    u32 num_tokens, top_k, row_stride, weights_stride;
    u32 num_experts, num_buckets, block_size, capacity;
    u32 foreign; /* ALIGN_DROP ... */
    u32 has;     /* ALIGN_HAS_... */
    i32 pad_value;
    u32 num_chunks;   /* the tokens are shared out in so many contiguous chunks, a group each */
    u32 table_stride; /* items from one row of the table to the next */
    u32 is_prefixed;  /* the offsets stage ran: row c holds the counts of the chunks before c, row num_chunks those of all */
};

/* The workspace is a table of u32 [2 * num_chunks + 1][table_stride]: first a row of counts for each chunk, then a row of totals, then
 * (serial class) for each chunk the next row of each bucket. Rows stand 64 bytes apart: threads share no cache line. */
static inline u32 align_table_stride(u32 num_buckets) {
    return round_up(num_buckets + ALIGN_EXTRA_COLUMNS, 16);
}

/* Scratch memory of a group of the parallel class, in u32, local if it fits: next row [num_buckets]; first row [num_buckets + 1]; a region
 * that holds counts, then offsets, then match masks [num_slices][num_buckets]; the scan [2][group_size]; sums [3]. A slice is 32
 * work-items. */
static inline u32 align_region_items(u32 num_buckets, u32 group_size) {
    const u32 counts = num_buckets + ALIGN_EXTRA_COLUMNS;
    const u32 masks = ceil_div(group_size, 32) * num_buckets;
    return masks > counts ? masks : counts;
}

/* In 64 bits, since the host asks before it knows that so many buckets fit. */
static inline u64 align_local_items(u32 num_buckets, u32 group_size) {
    const u64 counts = (u64)num_buckets + ALIGN_EXTRA_COLUMNS, masks = (u64)ceil_div(group_size, 32) * num_buckets;
    return 2 * (u64)num_buckets + 1 + (masks > counts ? masks : counts) + 2 * (u64)group_size + 3;
}

/* Blocks that so many pairs need. Most experts need one at most, and a division costs more than all else that is done for an expert. */
static inline u32 align_num_blocks(u32 count, u32 block_size) {
    return count > block_size ? ceil_div(count, block_size) : count != 0;
}

/* Tokens that count if the true T lives on the device: anything out of range is clamped. */
static inline u32 align_true_tokens(u32 num_tokens, i32 true_tokens) {
    return true_tokens < 0 ? 0 : (u32)true_tokens < num_tokens ? (u32)true_tokens : num_tokens;
}

/* Bucket or column of an id. map_value is its local number: map[id], or id itself without a map; it matters only if id is in range. */
static inline u32 align_bucket(u32 foreign, u32 num_experts, u32 num_buckets, i32 id, i32 map_value) {
    if ((u32)id >= num_experts)
        return id < 0 && foreign == ALIGN_BUCKET ? 0 : num_buckets + ALIGN_INVALID;
    if (foreign == ALIGN_KEEP)
        return (u32)id;
    if ((u32)map_value >= num_experts)
        return foreign == ALIGN_BUCKET ? 0 : num_buckets + ALIGN_FOREIGN;
    return (u32)map_value + (foreign == ALIGN_BUCKET);
}

/* What expert_ids says of a bucket's blocks. map_value, map[bucket] or bucket itself without a map, matters only with KEEP. */
static inline i32 align_label(u32 foreign, u32 num_experts, u32 bucket, i32 map_value) {
    if (foreign == ALIGN_KEEP)
        return (u32)map_value < num_experts ? map_value : -1;
    return (i32)bucket - (foreign == ALIGN_BUCKET);
}

#ifdef CLMOE_KERNEL
/* ---- Kernels only: their buffers, in the order in which the host passes them ---- */

#define ALIGN_INPUTS global const ID *topk_ids, global const i32 *expert_map, global const u8 *row_mask, global const i32 *num_tokens_device

#define ALIGN_OUTPUTS                                                                                                                      \
    global const u32 *topk_weights, global i32 *sorted_token_ids, global i32 *expert_ids, global i32 *num_tokens_post_padded,              \
        global i32 *counts, global i32 *offsets, global i32 *padded_offsets, global i32 *inverse, global i32 *rows_valid,                  \
        global u32 *sorted_weights, global i32 *status

/* The outputs, and the weights that are copied to one of them as bits, each at its view's start. */
struct align_outputs {
    global const u32 *topk_weights;
    global i32 *sorted_token_ids, *expert_ids, *num_tokens_post_padded, *counts, *offsets, *padded_offsets, *inverse, *rows_valid;
    global u32 *sorted_weights;
    global i32 *status;
};

#define ALIGN_OUTPUTS_AT(p)                                                                                                                \
    {                                                                                                                                      \
        topk_weights + p.topk_weights_at, sorted_token_ids + p.sorted_token_ids_at, expert_ids + p.expert_ids_at,                          \
            num_tokens_post_padded + p.num_tokens_post_padded_at, counts + p.counts_at, offsets + p.offsets_at,                            \
            padded_offsets + p.padded_offsets_at, inverse + p.inverse_at, rows_valid + p.rows_valid_at,                                    \
            sorted_weights + p.sorted_weights_at, status + p.status_at                                                                     \
    }

/* A pair stands in `row` of the result; -1 = nowhere. weight_at: where topk_weights keeps its weight. */
static inline void align_put(struct align_params p, struct align_outputs out, u32 pair, u64 weight_at, i32 row) {
    if (p.has & ALIGN_HAS_INVERSE)
        out.inverse[pair] = row;
    if (row < 0)
        return;
    out.sorted_token_ids[row] = (i32)pair;
    if (p.has & ALIGN_HAS_WEIGHTS)
        out.sorted_weights[row] = out.topk_weights[weight_at];
}

static inline void align_put_padding(struct align_params p, struct align_outputs out, u32 row) {
    out.sorted_token_ids[row] = p.pad_value;
    if (p.has & ALIGN_HAS_WEIGHTS)
        out.sorted_weights[row] = 0;
}

/* valid: rows of the block that hold a pair. */
static inline void align_put_block(struct align_params p, struct align_outputs out, u32 block, i32 label, u32 valid) {
    out.expert_ids[block] = label;
    if (p.has & ALIGN_HAS_ROWS_VALID)
        out.rows_valid[block] = (i32)valid;
}

/* A bucket's segment begins at `row` with padding and at `offset` without; `count` pairs. bucket = num_buckets: where the last ends. */
static inline void align_put_segment(struct align_params p, struct align_outputs out, u32 bucket, u32 row, u32 offset, u32 count) {
    const u32 skipped = p.foreign == ALIGN_BUCKET; /* the foreign segment is no expert */
    if (bucket < skipped)
        return;
    if ((p.has & ALIGN_HAS_COUNTS) && bucket < p.num_buckets)
        out.counts[bucket - skipped] = (i32)count;
    if (p.has & ALIGN_HAS_OFFSETS)
        out.offsets[bucket - skipped] = (i32)offset;
    if (p.has & ALIGN_HAS_PADDED_OFFSETS)
        out.padded_offsets[bucket - skipped] = (i32)row;
}

static inline void align_put_status(struct align_outputs out, u32 invalid, u32 foreign_pairs, u32 used_experts) {
    out.status[0] = (i32)invalid;
    out.status[1] = (i32)foreign_pairs;
    out.status[2] = (i32)used_experts;
    out.status[3] = 0;
}

/* Label of a bucket, read from the map where it must be. */
static inline i32 align_label_of(struct align_params p, global const i32 *expert_map, u32 bucket) {
    const bool is_mapped = p.foreign == ALIGN_KEEP && (p.has & ALIGN_HAS_MAP) != 0;
    const i32 map_value = is_mapped ? expert_map[is_mapped ? bucket : 0] : (i32)bucket; /* clamped: a device may load it in any case */
    return align_label(p.foreign, p.num_experts, bucket, map_value);
}

/* Bucket or column of an id of `token`. */
static inline u32 align_bucket_of(struct align_params p, global const i32 *expert_map, global const u8 *row_mask, u32 token, i32 id) {
    if ((p.has & ALIGN_HAS_MASK) && row_mask[token] == 0)
        return p.num_buckets + ALIGN_MASKED;
    const bool is_mapped = (p.has & ALIGN_HAS_MAP) != 0 && (u32)id < p.num_experts;
    const i32 map_value = is_mapped ? expert_map[is_mapped ? id : 0] : id; /* clamped, as above */
    return align_bucket(p.foreign, p.num_experts, p.num_buckets, id, map_value);
}
#endif

#endif
