/* align, parallel class: work-groups of W work-items, local memory and barriers. Each group has a contiguous chunk of the tokens and
 * goes through it in tiles of W pairs.
 *
 *   one      count and place by a single group: the only launch of a small call
 *   count    pairs of each bucket in my chunk                           -> table row g
 *   offsets  column sums over the chunks, for calls with many of them   -> table rows 0 ... num_chunks
 *   place    segments from the counts, my share of padding and blocks, then my pairs, tile by tile
 *
 * Whoever compiles this defines W, and ID and narrow_id() as for the serial class.
 */
/* Slices of a group's scratch memory; align_local_items() of the host adds up the same. */
struct align_local {
    SCRATCH u32 *next_row;  /* [num_buckets] */
    SCRATCH u32 *first_row; /* [num_buckets + 1] */
    SCRATCH u32 *region;    /* counts [num_buckets + 3], then offsets [num_buckets + 1], then masks [slice][num_buckets] */
    SCRATCH u32 *scan;      /* [2][W] */
    SCRATCH u32 *sums;      /* [3]: invalid, foreign, used experts */
};

/* This group's own scratch memory. */
static inline SCRATCH u32 *align_scratch(struct align_params p, SCRATCH u32 *memory) {
#ifdef SCRATCH_IS_GLOBAL
    memory += p.scratch_at + get_group_id(0) * p.scratch_items;
#endif
    return memory;
}

static inline struct align_local align_slice_local(struct align_params p, SCRATCH u32 *memory) {
    struct align_local l;
    memory = align_scratch(p, memory);
    l.next_row = memory;
    l.first_row = l.next_row + p.num_buckets;
    l.region = l.first_row + p.num_buckets + 1;
    l.scan = l.region + align_region_items(p.num_buckets, W);
    l.sums = l.scan + 2 * W;
    return l;
}

/* Where an array with rows of top_k items, `stride` apart, keeps the item of a pair. */
static inline u64 align_at(struct align_params p, u32 pair, u32 stride) {
    return stride == p.top_k ? pair : (u64)(pair / p.top_k) * stride + pair % p.top_k;
}

static inline u32 align_load_bucket(struct align_params p, ALIGN_INPUTS, u32 pair) {
    const u32 token = (p.has & ALIGN_HAS_MASK) ? pair / p.top_k : 0;
    return align_bucket_of(p, expert_map, row_mask, token, narrow_id(topk_ids[align_at(p, pair, p.row_stride)]));
}

/* Pairs [first, last) by bucket -> counts [num_buckets + 3]. sync: none before the first barrier inside; counts are complete on return. */
static inline void align_count_pairs(struct align_params p, ALIGN_INPUTS, u32 first, u32 last, SCRATCH u32 *counts) {
    group_zero(counts, p.num_buckets + ALIGN_EXTRA_COLUMNS);
    GROUP_FENCE();
    for (u32 base = first; base < last; base += W) {
        const u32 pair = base + (u32)get_local_id(0);
        if (pair < last)
            atomic_inc((volatile SCRATCH u32 *)&counts[align_load_bucket(p, topk_ids, expert_map, row_mask, num_tokens_device, pair)]);
    }
    GROUP_FENCE();
}

static inline u32 align_true_pairs(struct align_params p, global const i32 *num_tokens_device) {
    return p.top_k * ((p.has & ALIGN_HAS_NUM_TOKENS) ? align_true_tokens(p.num_tokens, num_tokens_device[0]) : p.num_tokens);
}

/* Exclusive sums over the buckets: counts in region -> first_row (padded) and region (unpadded); [num_buckets] of both holds the total.
 * Each work-item adds up a run of buckets, the W sums are scanned, then each fills in its run. */
static inline void align_scan_buckets(struct align_params p, struct align_local l) {
    const u32 lid = (u32)get_local_id(0), run = ceil_div(p.num_buckets, W);
    u32 rows = 0, pairs = 0;
    for (u32 i = 0; i < run; ++i) {
        const u32 bucket = lid * run + i;
        if (bucket < p.num_buckets) {
            const u32 count = l.region[bucket];
            rows += p.block_size * align_num_blocks(count, p.block_size);
            pairs += count;
            if (count != 0 && !(p.foreign == ALIGN_BUCKET && bucket == 0))
                atomic_inc((volatile SCRATCH u32 *)&l.sums[2]);
        }
    }
    l.scan[lid] = rows;
    l.scan[W + lid] = pairs;
    GROUP_FENCE();
    for (u32 reach = 1; reach < W; reach *= 2) {
        const u32 rows_before = lid >= reach ? l.scan[lid - reach] : 0;
        const u32 pairs_before = lid >= reach ? l.scan[W + lid - reach] : 0;
        GROUP_FENCE();
        l.scan[lid] += rows_before;
        l.scan[W + lid] += pairs_before;
        GROUP_FENCE();
    }
    u32 row = l.scan[lid] - rows, offset = l.scan[W + lid] - pairs;
    for (u32 i = 0; i < run; ++i) {
        const u32 bucket = lid * run + i;
        if (bucket < p.num_buckets) {
            const u32 count = l.region[bucket];
            l.first_row[bucket] = row;
            l.region[bucket] = offset;
            row += p.block_size * align_num_blocks(count, p.block_size);
            offset += count;
        }
    }
    if (lid == W - 1) {
        l.first_row[p.num_buckets] = row;
        l.region[p.num_buckets] = offset;
    }
    GROUP_FENCE();
}

/* The last bucket whose entry is <= value: entries [num_buckets + 1] ascend, and value lies below the last one. */
static inline u32 align_find_bucket(SCRATCH const u32 *entries, u32 num_buckets, u32 value) {
    u32 low = 0, high = num_buckets;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (entries[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* As above for the padding rows: those in front of bucket e number first_row[e] - offset[e]. */
static inline u32 align_find_padding(SCRATCH const u32 *first_row, SCRATCH const u32 *offset, u32 num_buckets, u32 value) {
    u32 low = 0, high = num_buckets;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (first_row[middle] - offset[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Counts (region), counts of the chunks before mine (next_row) and the extra columns (sums) of all chunks are in local memory. Writes
 * group 0's per-expert outputs and this group's share of blocks and padding; leaves next_row ready and the masks zero. */
static inline void align_lay_out(struct align_params p, struct align_outputs out, global const i32 *expert_map, struct align_local l) {
    const u32 lid = (u32)get_local_id(0), group = (u32)get_group_id(0), stride = W * (u32)get_num_groups(0);
    align_scan_buckets(p, l);
    const u32 num_rows = l.first_row[p.num_buckets], num_placed = l.region[p.num_buckets];

    if (group == 0)
        for (u32 base = 0; base <= p.num_buckets; base += W) {
            const u32 bucket = base + lid;
            if (bucket <= p.num_buckets) {
                const u32 next = bucket < p.num_buckets ? bucket + 1 : bucket;
                const u32 count = l.region[next] - l.region[bucket];
                align_put_segment(p, out, bucket, l.first_row[bucket], l.region[bucket], count);
                if (count != 0 && (p.has & ALIGN_HAS_STATUS) && align_label_of(p, expert_map, bucket) < 0)
                    atomic_add((volatile SCRATCH u32 *)&l.sums[1], count);
            }
        }

    const u32 num_blocks = p.capacity / p.block_size;
    for (u32 base = group * W; base < num_blocks; base += stride) {
        const u32 block = base + lid;
        if (block < num_blocks) {
            const u32 row = block * p.block_size;
            i32 label = -1;
            u32 valid = 0;
            if (row < num_rows) {
                const u32 bucket = align_find_bucket(l.first_row, p.num_buckets, row);
                const u32 end = l.first_row[bucket] + l.region[bucket + 1] - l.region[bucket];
                label = align_label_of(p, expert_map, bucket);
                valid = end - row < p.block_size ? end - row : p.block_size;
            }
            align_put_block(p, out, block, label, valid);
        }
    }

    const u32 num_padding = num_rows - num_placed, num_empty = p.capacity - num_placed;
    for (u32 base = group * W; base < num_empty; base += stride) {
        const u32 i = base + lid;
        if (i < num_padding) {
            const u32 bucket = align_find_padding(l.first_row, l.region, p.num_buckets, i);
            align_put_padding(p, out, i + l.region[bucket + 1]);
        } else if (i < num_empty) {
            align_put_padding(p, out, i + num_placed);
        }
    }
    GROUP_FENCE();

    if (group == 0 && lid == 0) {
        out.num_tokens_post_padded[0] = (i32)num_rows;
        if (p.has & ALIGN_HAS_STATUS)
            align_put_status(out, l.sums[0], l.sums[1], l.sums[2]);
    }
    for (u32 base = 0; base < p.num_buckets; base += W) {
        const u32 bucket = base + lid;
        if (bucket < p.num_buckets)
            l.next_row[bucket] += l.first_row[bucket];
    }
    group_zero(l.region, ceil_div(W, 32) * p.num_buckets);
    GROUP_FENCE();
}

/* Pairs [first, last) to their rows; those from true_pairs on are placed nowhere. */
static inline void align_place_pairs(struct align_params p, struct align_outputs out, ALIGN_INPUTS, u32 first, u32 last, u32 true_pairs,
                                     struct align_local l) {
    for (u32 base = first; base < last; base += W) {
        const u32 pair = base + (u32)get_local_id(0);
        u32 bucket = p.num_buckets;
        if (pair < last && pair < true_pairs)
            bucket = align_load_bucket(p, topk_ids, expert_map, row_mask, num_tokens_device, pair);
        const u32 row = group_take_rows(l.next_row, l.region, p.num_buckets, bucket);
        if (pair < last)
            align_put(p, out, pair, (p.has & ALIGN_HAS_WEIGHTS) ? align_at(p, pair, p.weights_stride) : 0,
                      bucket < p.num_buckets ? (i32)row : -1);
    }
}

/* align_count - pairs of each bucket in my chunk.
 * in    topk_ids [T][K] (rows row_stride apart), expert_map [E], row_mask [T], num_tokens_device [1]
 * out   table row g [num_buckets + 3]
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void align_count(struct align_params p, ALIGN_INPUTS, global u32 *table,
                                                                       SCRATCH u32 *memory) {
    const u32 lid = (u32)get_local_id(0), chunk = (u32)get_group_id(0), num_columns = p.num_buckets + ALIGN_EXTRA_COLUMNS;
    num_tokens_device += p.num_tokens_device_at;
    memory = align_scratch(p, memory);
    const u32 last = p.top_k * share_begin(p.num_tokens, p.num_chunks, chunk + 1), true_pairs = align_true_pairs(p, num_tokens_device);
    align_count_pairs(p, topk_ids + p.topk_ids_at, expert_map + p.expert_map_at, row_mask + p.row_mask_at, num_tokens_device,
                      p.top_k * share_begin(p.num_tokens, p.num_chunks, chunk), last < true_pairs ? last : true_pairs, memory);
    table += p.table_at + (u64)chunk * p.table_stride;
    for (u32 base = 0; base < num_columns; base += W) {
        const u32 column = base + lid;
        if (column < num_columns)
            table[column] = memory[column];
    }
}

/* align_offsets - counts of each chunk become counts of the chunks before it; the totals go to row num_chunks.
 * in/out  table [num_chunks + 1][table_stride]
 * pre     groups * W cover the columns; each work-item walks the one column that it owns
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void align_offsets(struct align_params p, global u32 *table) {
    const u32 column = (u32)get_group_id(0) * W + (u32)get_local_id(0);
    table += p.table_at;
    if (column < p.num_buckets + ALIGN_EXTRA_COLUMNS) {
        u32 sum = 0;
        for (u32 c = 0; c < p.num_chunks; ++c) {
            const u64 at = (u64)c * p.table_stride + column;
            const u32 n = table[at];
            table[at] = sum;
            sum += n;
        }
        table[(u64)p.num_chunks * p.table_stride + column] = sum;
    }
}

/* align_place - every output, from the counts of all chunks.
 * in    as align_count; table rows 0 ... num_chunks
 * out   all outputs
 * pre   groups >= num_chunks have no pairs; they share blocks and padding
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void align_place(struct align_params p, ALIGN_INPUTS, ALIGN_OUTPUTS,
                                                                       global const u32 *table, SCRATCH u32 *memory) {
    const struct align_outputs out = ALIGN_OUTPUTS_AT(p);
    p.num_buckets = positive(p.num_buckets);
    const struct align_local l = align_slice_local(p, memory);
    const u32 lid = (u32)get_local_id(0), group = (u32)get_group_id(0), num_columns = p.num_buckets + ALIGN_EXTRA_COLUMNS;
    table += p.table_at;
    topk_ids += p.topk_ids_at;
    expert_map += p.expert_map_at;
    row_mask += p.row_mask_at;
    num_tokens_device += p.num_tokens_device_at;

    if (lid == 0)
        l.sums[2] = 0;
    for (u32 base = 0; base < num_columns; base += W) {
        const u32 column = base + lid;
        if (column < num_columns) {
            u32 before = 0, count = 0;
            if (p.is_prefixed) {
                before = group < p.num_chunks ? table[(u64)group * p.table_stride + column] : 0;
                count = table[(u64)p.num_chunks * p.table_stride + column];
            } else {
                for (u32 c = 0; c < p.num_chunks; ++c) {
                    const u32 n = table[(u64)c * p.table_stride + column];
                    before += c < group ? n : 0;
                    count += n;
                }
            }
            if (column < p.num_buckets) {
                l.next_row[column] = before;
                l.region[column] = count;
            } else if (column < p.num_buckets + ALIGN_MASKED) {
                l.sums[column - p.num_buckets] = count;
            }
        }
    }
    GROUP_FENCE();
    align_lay_out(p, out, expert_map, l);
    if (group < p.num_chunks) /* the same for the whole group */
        align_place_pairs(p, out, topk_ids, expert_map, row_mask, num_tokens_device,
                          p.top_k * share_begin(p.num_tokens, p.num_chunks, group),
                          p.top_k * share_begin(p.num_tokens, p.num_chunks, group + 1), align_true_pairs(p, num_tokens_device), l);
}

/* Count and place by the only group. sync: all work-items of the group. */
static inline FLAT void align_all(struct align_params p, struct align_outputs out, ALIGN_INPUTS, SCRATCH u32 *memory) {
    p.num_buckets = positive(p.num_buckets);
    const struct align_local l = align_slice_local(p, memory);
    const u32 lid = (u32)get_local_id(0);
    topk_ids += p.topk_ids_at;
    expert_map += p.expert_map_at;
    row_mask += p.row_mask_at;
    num_tokens_device += p.num_tokens_device_at;
    const u32 true_pairs = align_true_pairs(p, num_tokens_device);

    align_count_pairs(p, topk_ids, expert_map, row_mask, num_tokens_device, 0, true_pairs, l.region);
    group_zero(l.next_row, p.num_buckets);
    if (lid == 0) {
        l.sums[0] = l.region[p.num_buckets + ALIGN_INVALID];
        l.sums[1] = l.region[p.num_buckets + ALIGN_FOREIGN];
        l.sums[2] = 0;
    }
    GROUP_FENCE();
    align_lay_out(p, out, expert_map, l);
    align_place_pairs(p, out, topk_ids, expert_map, row_mask, num_tokens_device, 0, p.num_tokens * p.top_k, true_pairs, l);
}

/* align_one - count and place by one group.
 * in, out, sync  as align_count and align_place
 * pre            one group, num_chunks = 1
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void align_one(struct align_params p, ALIGN_INPUTS, ALIGN_OUTPUTS,
                                                                     SCRATCH u32 *memory) {
    const struct align_outputs out = ALIGN_OUTPUTS_AT(p);
    align_all(p, out, topk_ids, expert_map, row_mask, num_tokens_device, memory);
}
