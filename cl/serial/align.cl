/* align, serial class: each group is one work-item that walks a contiguous chunk of the tokens.
 *
 *   one      count and place by a single group: the only launch of a small call
 *   count    pairs of each bucket in my chunk                           -> table row g
 *   offsets  column sums over the chunks, for calls with many of them   -> table rows 0 ... num_chunks
 *   place    segments from the counts, my share of the blocks, then each pair of my chunk to its row
 *
 * Stable, because chunks are contiguous and ascend: in each bucket the rows of a chunk follow those of all chunks before it.
 *
 * Whoever compiles this defines ID, the type of an id, narrow_id(), which takes one to i32 (negative stays negative, too large stays too
 * large), and NAME(), since the native build compiles this file once for each type.
 */
#ifndef ALIGN_SERIAL_ONCE
#define ALIGN_SERIAL_ONCE

/* Blocks [first, last) of one bucket, whose `count` pairs begin with block `begin`. Padding starts at a multiple of `unit` rows in the
 * block: whole vectors where this group places all pairs itself, later, over the surplus; 1 where other groups may already have. */
static inline void align_fill_blocks(struct align_params p, struct align_outputs out, i32 label, u32 begin, u32 count, u32 first, u32 last,
                                     u32 unit) {
    for (u32 block = first; block < last; ++block) {
        /* In signed arithmetic: clang makes a saturating subtraction of the unsigned form, which Oclgrind does not know. */
        const i32 left = (i32)count - (i32)((block - begin) * p.block_size);
        const u32 valid = left < 0 ? 0 : (u32)left < p.block_size ? (u32)left : p.block_size, row = block * p.block_size;
        align_put_block(p, out, block, label, valid);
        for (u32 i = valid < p.block_size ? row + (valid & ~(unit - 1)) : row + valid; i < row + p.block_size; ++i)
            out.sorted_token_ids[i] = p.pad_value;
        if (p.has & ALIGN_HAS_WEIGHTS) /* a loop of its own keeps the one above a plain fill */
            for (u32 i = row + valid; i < row + p.block_size; ++i)
                out.sorted_weights[i] = 0;
    }
}

/* Pairs of a bucket in all chunks; *before: in those before `chunk`. */
static inline u32 align_count_of(struct align_params p, global const u32 *table, u32 bucket, u32 chunk, u32 *before) {
    if (p.is_prefixed) {
        *before = table[(u64)(chunk < p.num_chunks ? chunk : 0) * p.table_stride + bucket];
        return table[(u64)p.num_chunks * p.table_stride + bucket];
    }
    u32 sum = 0;
    for (u32 c = 0; c < p.num_chunks; ++c) {
        *before = c == chunk ? sum : *before;
        sum += table[(u64)c * p.table_stride + bucket];
    }
    return sum;
}

/* Walks all buckets: writes this group's share of the blocks and leaves in next_row[] where the pairs of its chunk go. Groups beyond the
 * chunks have a share of the blocks alone. With `reports`, which every caller passes as a constant, also what the optional outputs say of
 * each expert and of all: that would cost the others registers. */
static inline void align_walk_buckets(struct align_params p, struct align_outputs out, global const i32 *expert_map,
                                      global const u32 *table, global u32 *next_row, u32 group, u32 num_groups, bool reports) {
    const u32 num_blocks = p.capacity / p.block_size;
    const u32 my_first = share_begin(num_blocks, num_groups, group), my_last = share_begin(num_blocks, num_groups, group + 1);
    const bool has_chunk = group < p.num_chunks, is_single = p.num_chunks == 1 && !p.is_prefixed;
    const u32 unit = num_groups == 1 ? 16 : 1;
    u32 block = 0, offset = 0, foreign_pairs = 0, used_experts = 0;
    for (u32 bucket = 0; bucket < p.num_buckets; ++bucket) {
        u32 before = 0;
        const u32 count = is_single ? table[bucket] : align_count_of(p, table, bucket, group, &before);
        if (has_chunk)
            next_row[bucket] = block * p.block_size + before;
        if (reports)
            align_put_segment(p, out, bucket, block * p.block_size, offset, count);
        if (count != 0) {
            const u32 end = block + align_num_blocks(count, p.block_size);
            const u32 first = block > my_first ? block : my_first, last = end < my_last ? end : my_last;
            const i32 label = align_label_of(p, expert_map, bucket);
            if (first < last)
                align_fill_blocks(p, out, label, block, count, first, last, unit);
            block = end;
            if (reports) {
                offset += count;
                foreign_pairs += label < 0 ? count : 0;
                used_experts += !(p.foreign == ALIGN_BUCKET && bucket == 0);
            }
        }
    }
    align_fill_blocks(p, out, -1, block, 0, block > my_first ? block : my_first, my_last, unit);
    if (group == 0)
        out.num_tokens_post_padded[0] = (i32)(block * p.block_size);
    if (reports) {
        u32 before;
        const u32 invalid = align_count_of(p, table, p.num_buckets + ALIGN_INVALID, 0, &before);
        foreign_pairs += align_count_of(p, table, p.num_buckets + ALIGN_FOREIGN, 0, &before);
        align_put_segment(p, out, p.num_buckets, block * p.block_size, offset, 0);
        if (p.has & ALIGN_HAS_STATUS)
            align_put_status(out, invalid, foreign_pairs, used_experts);
    }
}

/* All of the result but the pairs. What a small plain call does not ask for is spelt out in constants, which keeps its walk in registers.
 */
static inline void align_lay_out(struct align_params p, struct align_outputs out, global const i32 *expert_map, global const u32 *table,
                                 global u32 *next_row, u32 group, u32 num_groups) {
    const u32 reports = ALIGN_HAS_COUNTS | ALIGN_HAS_OFFSETS | ALIGN_HAS_PADDED_OFFSETS | ALIGN_HAS_STATUS;
    const u32 extras = ALIGN_HAS_MAP | ALIGN_HAS_ROWS_VALID | ALIGN_HAS_WEIGHTS;
    if (num_groups == 1 && p.num_chunks == 1 && !p.is_prefixed && !(p.has & (reports | extras))) {
        p.has &= ~(reports | extras);
        p.num_chunks = 1;
        p.is_prefixed = 0;
        align_walk_buckets(p, out, expert_map, table, next_row, 0, 1, false);
    } else if (group == 0 && (p.has & reports)) {
        align_walk_buckets(p, out, expert_map, table, next_row, group, num_groups, true);
    } else {
        align_walk_buckets(p, out, expert_map, table, next_row, group, num_groups, false);
    }
}

/* align_offsets - counts of each chunk become counts of the chunks before it; the totals go to row num_chunks.
 * in/out  table [num_chunks + 1][table_stride]
 * post    each column is walked by the one group that owns it
 */
kernel void align_offsets(struct align_params p, global u32 *table) {
    table += p.table_at;
    const u32 num_columns = p.num_buckets + ALIGN_EXTRA_COLUMNS, num_groups = (u32)get_num_groups(0), group = (u32)get_group_id(0);
    const u32 last = share_begin(num_columns, num_groups, group + 1);
    for (u32 column = share_begin(num_columns, num_groups, group); column < last; ++column) {
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
#endif

/* The two loops that a plain call spends its time in, kept out of the functions around them: among all that those do, gcc 12 had no
 * register left for num_experts and row, and T 4096 took 43 us instead of 36; PoCL 3.1's LLVM 15 read its pointers from the stack for
 * every pair, 54 us instead of 37. Eight pairs at a time take another 3 to 8 % off that. */

/* Ids of pairs [first, last) by bucket -> row. Returns how many are none. */
static NOT_INLINE u32 NAME(align_count_plain)(global const ID *topk_ids, u32 first, u32 last, u32 num_experts, global u32 *row) {
    u32 invalid = 0;
    UNROLL
    for (u32 pair = first; pair < last; ++pair) {
        const u32 id = (u32)narrow_id(topk_ids[pair]);
        if (id < num_experts)
            ++row[id];
        else
            ++invalid;
    }
    return invalid;
}

static NOT_INLINE void NAME(align_place_plain)(global const ID *topk_ids, u32 first, u32 last, u32 num_experts,
                                               global i32 *sorted_token_ids, global u32 *next_row) {
    UNROLL
    for (u32 pair = first; pair < last; ++pair) {
        const u32 id = (u32)narrow_id(topk_ids[pair]);
        if (id < num_experts)
            sorted_token_ids[next_row[id]++] = (i32)pair;
    }
}

/* Pairs of tokens [first, last) by bucket -> row [num_buckets + ALIGN_EXTRA_COLUMNS]. */
static inline void NAME(align_count_tokens)(struct align_params p, ALIGN_INPUTS, u32 first, u32 last, global u32 *row) {
    for (u32 column = 0; column < p.num_buckets + ALIGN_EXTRA_COLUMNS; ++column)
        row[column] = 0;
    if (p.has & ALIGN_HAS_NUM_TOKENS) {
        const u32 true_tokens = align_true_tokens(p.num_tokens, num_tokens_device[0]);
        last = last < true_tokens ? last : true_tokens;
    }
    if (p.has & ALIGN_IS_PLAIN) {
        row[p.num_buckets + ALIGN_INVALID] = NAME(align_count_plain)(topk_ids, first * p.top_k, last * p.top_k, p.num_experts, row);
        return;
    }
    for (u32 token = first; token < last; ++token)
        for (u32 slot = 0; slot < p.top_k; ++slot)
            ++row[align_bucket_of(p, expert_map, row_mask, token, narrow_id(topk_ids[(u64)token * p.row_stride + slot]))];
}

/* Each pair of tokens [first, last) to the next row of its bucket. */
static inline void NAME(align_place_tokens)(struct align_params p, struct align_outputs out, ALIGN_INPUTS, u32 first, u32 last,
                                            global u32 *next_row) {
    u32 last_true = last;
    if (p.has & ALIGN_HAS_NUM_TOKENS) {
        const u32 true_tokens = align_true_tokens(p.num_tokens, num_tokens_device[0]);
        last_true = last < true_tokens ? last : true_tokens;
    }
    if ((p.has & ALIGN_IS_PLAIN) && !(p.has & (ALIGN_HAS_INVERSE | ALIGN_HAS_WEIGHTS))) {
        NAME(align_place_plain)(topk_ids, first * p.top_k, last_true * p.top_k, p.num_experts, out.sorted_token_ids, next_row);
        return;
    }
    for (u32 token = first; token < last; ++token)
        for (u32 slot = 0; slot < p.top_k; ++slot) {
            u32 bucket = p.num_buckets;
            if (token < last_true)
                bucket = align_bucket_of(p, expert_map, row_mask, token, narrow_id(topk_ids[(u64)token * p.row_stride + slot]));
            align_put(p, out, token * p.top_k + slot, (u64)token * p.weights_stride + slot,
                      bucket < p.num_buckets ? (i32)next_row[bucket]++ : -1);
        }
}

/* align_count - pairs of each bucket in my chunk.
 * in   topk_ids [T][K] (rows row_stride apart), expert_map [E], row_mask [T], num_tokens_device [1]
 * out  table row g [num_buckets + 3]
 */
kernel void NAME(align_count)(struct align_params p, ALIGN_INPUTS, global u32 *table) {
    const u32 chunk = (u32)get_group_id(0);
    NAME(align_count_tokens)
    (p, topk_ids + p.topk_ids_at, expert_map + p.expert_map_at, row_mask + p.row_mask_at, num_tokens_device + p.num_tokens_device_at,
     share_begin(p.num_tokens, p.num_chunks, chunk), share_begin(p.num_tokens, p.num_chunks, chunk + 1),
     table + p.table_at + (u64)chunk * p.table_stride);
}

/* align_place - every output, from the counts of all chunks.
 * in   as align_count; table rows 0 ... num_chunks
 * out  all outputs; scratch: table row num_chunks + 1 + g, the next row of each bucket
 * pre  groups >= num_chunks have no tokens; they share the blocks
 */
kernel void NAME(align_place)(struct align_params p, ALIGN_INPUTS, ALIGN_OUTPUTS, global u32 *table) {
    const struct align_outputs out = ALIGN_OUTPUTS_AT(p);
    const u32 group = (u32)get_group_id(0);
    table += p.table_at;
    expert_map += p.expert_map_at;
    global u32 *next_row = table + (group < p.num_chunks ? (u64)(p.num_chunks + 1 + group) * p.table_stride : 0);
    align_lay_out(p, out, expert_map, table, next_row, group, (u32)get_num_groups(0));
    if (group < p.num_chunks)
        NAME(align_place_tokens)
    (p, out, topk_ids + p.topk_ids_at, expert_map, row_mask + p.row_mask_at, num_tokens_device + p.num_tokens_device_at,
     share_begin(p.num_tokens, p.num_chunks, group), share_begin(p.num_tokens, p.num_chunks, group + 1), next_row);
}

/* Count and place by the only group. Not inline: the native build shares it among kernels. */
static void NAME(align_all)(struct align_params p, struct align_outputs out, ALIGN_INPUTS, global u32 *table) {
    table += p.table_at;
    topk_ids += p.topk_ids_at;
    expert_map += p.expert_map_at;
    row_mask += p.row_mask_at;
    num_tokens_device += p.num_tokens_device_at;
    global u32 *next_row = table + 2 * (u64)p.table_stride;
    NAME(align_count_tokens)(p, topk_ids, expert_map, row_mask, num_tokens_device, 0, p.num_tokens, table);
    align_lay_out(p, out, expert_map, table, next_row, 0, 1);
    NAME(align_place_tokens)(p, out, topk_ids, expert_map, row_mask, num_tokens_device, 0, p.num_tokens, next_row);
}

/* align_one - count and place by one group.
 * in, out  as align_count and align_place
 * pre      one group, num_chunks = 1, not prefixed
 */
kernel void NAME(align_one)(struct align_params p, ALIGN_INPUTS, ALIGN_OUTPUTS, global u32 *table) {
    const struct align_outputs out = ALIGN_OUTPUTS_AT(p);
    NAME(align_all)(p, out, topk_ids, expert_map, row_mask, num_tokens_device, table);
}
