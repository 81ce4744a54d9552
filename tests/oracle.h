/* oracle.h - the right answer of align, in plain serial C, for tests.
 *
 * Written from the public header alone; shares no code with the library. Host memory, every output, also the optional ones.
 */
#ifndef CLMOE_TESTS_ORACLE_H
#define CLMOE_TESTS_ORACLE_H

#include <clmoe/moe.h>

typedef struct oracle_align_inputs {
    uint32_t num_tokens, top_k, num_experts, block_size; /* T K E B */
    uint32_t row_stride, weights_stride;                 /* elements, >= K */
    uint32_t capacity;                                   /* C, a multiple of B and at least the bound */
    clmoe_id_type id_type;
    clmoe_foreign foreign;
    int32_t has_pad_value, pad_value;
    const void *topk_ids;             /* [T][K] id_type */
    const int32_t *expert_map;        /* [E] or NULL */
    const uint8_t *row_mask;          /* [T] or NULL */
    const int32_t *num_tokens_device; /* [1] or NULL */
    const uint32_t *topk_weights;     /* [T][K] bits of f32, or NULL: sorted_weights are 0 */
} oracle_align_inputs;

typedef struct oracle_align_outputs {
    int32_t *sorted_token_ids, *expert_ids, *num_tokens_post_padded; /* [C] [C/B] [1] */
    int32_t *counts, *offsets, *padded_offsets;                      /* [E] [E+1] [E+1] */
    int32_t *inverse, *rows_valid, *status;                          /* [T*K] [C/B] [4] */
    uint32_t *sorted_weights;                                        /* [C] bits of f32 */
} oracle_align_outputs;

/* Aborts if memory runs out or if the capacity is under what the pairs need: both are faults of the test. */
oracle_align_outputs oracle_align(const oracle_align_inputs *inputs);
void oracle_align_free(oracle_align_outputs *outputs);

/* The largest P: by the formula of the header, and by trying every way to share the pairs out (small sizes only). */
uint64_t oracle_align_max_rows(uint64_t num_pairs, uint64_t num_experts, uint64_t block_size, clmoe_foreign foreign);
uint64_t oracle_align_max_rows_tried(uint32_t num_pairs, uint32_t num_experts, uint32_t block_size, clmoe_foreign foreign);

#endif
