#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>

static void *filled(size_t count, uint32_t value) {
    uint32_t *words = malloc((count + 1) * sizeof *words);
    if (words == NULL) {
        fprintf(stderr, "oracle: out of memory\n");
        abort();
    }
    for (size_t i = 0; i < count; ++i)
        words[i] = value;
    return words;
}

static int64_t id_at(const oracle_align_inputs *in, size_t element) {
    switch (in->id_type) {
    case CLMOE_ID_I32: return ((const int32_t *)in->topk_ids)[element];
    case CLMOE_ID_I64: return ((const int64_t *)in->topk_ids)[element];
    case CLMOE_ID_U32: return ((const uint32_t *)in->topk_ids)[element];
    case CLMOE_ID_I16: return ((const int16_t *)in->topk_ids)[element];
    case CLMOE_ID_U8: return ((const uint8_t *)in->topk_ids)[element];
    }
    fprintf(stderr, "oracle: no such id type\n");
    abort();
}

/* The number that an expert has here, or -1. */
static int64_t local_number(const oracle_align_inputs *in, int64_t expert) {
    const int64_t local = in->expert_map == NULL ? expert : in->expert_map[expert];
    return local >= 0 && local < (int64_t)in->num_experts ? local : -1;
}

/* Which segment a pair belongs to, -1 = none. Segment 0 of BUCKET holds the foreign pairs, its experts start at 1. */
static int64_t segment_of(const oracle_align_inputs *in, int64_t id, int32_t *status) {
    const int bucket = in->foreign == CLMOE_FOREIGN_BUCKET;
    if (id >= (int64_t)in->num_experts || (id < 0 && !bucket)) {
        ++status[0];
        return -1;
    }
    const int64_t local = id < 0 ? -1 : local_number(in, id);
    if (local < 0)
        ++status[1];
    if (bucket)
        return local + 1;
    return in->foreign == CLMOE_FOREIGN_KEEP ? id : local;
}

oracle_align_outputs oracle_align(const oracle_align_inputs *in) {
    const uint32_t T = in->num_tokens, K = in->top_k, E = in->num_experts, B = in->block_size, C = in->capacity;
    const size_t N = (size_t)T * K, first = in->foreign == CLMOE_FOREIGN_BUCKET ? 1 : 0, num_segments = E + first;
    oracle_align_outputs out;
    out.sorted_token_ids = filled(C, in->has_pad_value ? (uint32_t)in->pad_value : (uint32_t)N);
    out.expert_ids = filled(C / B, (uint32_t)-1);
    out.num_tokens_post_padded = filled(1, 0);
    out.counts = filled(E, 0);
    out.offsets = filled((size_t)E + 1, 0);
    out.padded_offsets = filled((size_t)E + 1, 0);
    out.inverse = filled(N, (uint32_t)-1);
    out.rows_valid = filled(C / B, 0);
    out.sorted_weights = filled(C, 0);
    out.status = filled(4, 0);

    /* Each segment is a list of pairs, in the order in which they come. */
    int32_t *head = filled(num_segments, (uint32_t)-1), *last = filled(num_segments, (uint32_t)-1), *next = filled(N, (uint32_t)-1);
    int64_t true_tokens = T;
    if (in->num_tokens_device != NULL && *in->num_tokens_device < true_tokens)
        true_tokens = *in->num_tokens_device;
    for (int64_t t = 0; t < true_tokens; ++t) {
        if (in->row_mask != NULL && in->row_mask[t] == 0)
            continue;
        for (uint32_t k = 0; k < K; ++k) {
            const int64_t segment = segment_of(in, id_at(in, (size_t)t * in->row_stride + k), out.status);
            const int32_t pair = (int32_t)(t * K + k);
            if (segment < 0)
                continue;
            if (head[segment] < 0)
                head[segment] = pair;
            else
                next[last[segment]] = pair;
            last[segment] = pair;
        }
    }

    size_t row = 0;
    int32_t placed = 0;
    for (size_t segment = 0; segment < num_segments; ++segment) {
        const int is_expert = segment >= first;
        const size_t e = segment - first, begin = row;
        const int32_t placed_before = placed;
        if (is_expert) {
            out.offsets[e] = placed;
            out.padded_offsets[e] = (int32_t)row;
        }
        for (int32_t pair = head[segment]; pair >= 0; pair = next[pair]) {
            if (row >= C) {
                fprintf(stderr, "oracle: the capacity of %u rows is too small\n", C);
                abort();
            }
            out.sorted_token_ids[row] = pair;
            out.inverse[pair] = (int32_t)row;
            if (in->topk_weights != NULL) {
                const size_t t = (size_t)pair / K, k = (size_t)pair % K;
                out.sorted_weights[row] = in->topk_weights[t * in->weights_stride + k];
            }
            ++out.rows_valid[row / B];
            ++row;
            ++placed;
        }
        while (row % B != 0)
            ++row;
        int64_t number = -1;
        if (is_expert)
            number = in->foreign == CLMOE_FOREIGN_KEEP ? local_number(in, (int64_t)e) : (int64_t)e;
        for (size_t block = begin / B; block < row / B; ++block)
            out.expert_ids[block] = (int32_t)number;
        if (is_expert)
            out.counts[e] = placed - placed_before;
        if (is_expert && placed > placed_before)
            ++out.status[2];
    }
    out.offsets[E] = placed;
    out.padded_offsets[E] = (int32_t)row;
    out.num_tokens_post_padded[0] = (int32_t)row;
    free(head);
    free(last);
    free(next);
    return out;
}

void oracle_align_free(oracle_align_outputs *out) {
    free(out->sorted_token_ids);
    free(out->expert_ids);
    free(out->num_tokens_post_padded);
    free(out->counts);
    free(out->offsets);
    free(out->padded_offsets);
    free(out->inverse);
    free(out->rows_valid);
    free(out->sorted_weights);
    free(out->status);
}

uint64_t oracle_align_max_rows(uint64_t num_pairs, uint64_t num_experts, uint64_t block_size, clmoe_foreign foreign) {
    const uint64_t segments = num_experts + (foreign == CLMOE_FOREIGN_BUCKET ? 1 : 0);
    const uint64_t q = segments < num_pairs ? segments : num_pairs;
    return (q + (num_pairs - q) / block_size) * block_size;
}

static uint64_t most_rows(uint32_t pairs, uint32_t segments, uint32_t block) {
    uint64_t most = 0;
    if (segments == 0)
        return 0;
    for (uint32_t mine = 0; mine <= pairs; ++mine) {
        const uint64_t rows = (uint64_t)(mine + block - 1) / block * block + most_rows(pairs - mine, segments - 1, block);
        if (rows > most)
            most = rows;
    }
    return most;
}

uint64_t oracle_align_max_rows_tried(uint32_t num_pairs, uint32_t num_experts, uint32_t block_size, clmoe_foreign foreign) {
    return most_rows(num_pairs, num_experts + (foreign == CLMOE_FOREIGN_BUCKET ? 1 : 0), block_size);
}
