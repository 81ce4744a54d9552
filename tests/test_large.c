/* Tens of millions of items: what small sizes cannot show, 32-bit products of positions and sizes above all. Results are checked by what
 * they must be, without an oracle of their own: formulas, order, and that nothing is lost. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 30000000 };

static clmoe_context *context;

static clmoe_buffer buffer_of(const void *data, size_t bytes) {
    clmoe_buffer buffer;
    assert_int_equal(clmoe_buffer_create(context, bytes, &buffer), CLMOE_SUCCESS);
    if (data != NULL)
        assert_int_equal(clmoe_buffer_write(context, buffer, data, bytes), CLMOE_SUCCESS);
    return buffer;
}

static uint32_t *array_of(size_t count) {
    uint32_t *array = malloc(count * sizeof *array);
    assert_non_null(array);
    return array;
}

static void read_and_destroy(clmoe_buffer buffer, void *data) {
    assert_int_equal(clmoe_buffer_read(context, buffer, data, buffer.size_bytes), CLMOE_SUCCESS);
    clmoe_buffer_destroy(context, buffer);
}

/* x[i] = i mod 7: the exclusive sum is 21 * (i / 7) + r * (r - 1) / 2 with r = i mod 7. In place. */
static void test_scan(void **state) {
    (void)state;
    const clmoe_scan_desc desc = {.max_items = N};
    clmoe_plan *plan;
    assert_int_equal(clmoe_scan_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
    uint32_t *items = array_of(N);
    for (uint32_t i = 0; i < N; ++i)
        items[i] = i % 7;
    clmoe_scan_args args = {
        .num_items = N, .input = buffer_of(items, N * 4ull), .workspace = buffer_of(NULL, clmoe_plan_workspace_bytes(plan))};
    args.output = args.input;
    assert_int_equal(clmoe_scan_enqueue(plan, clmoe_context_queue(context), &args, 0, NULL, NULL), CLMOE_SUCCESS);
    read_and_destroy(args.output, items);
    for (uint32_t i = 0; i < N; ++i)
        if (items[i] != 21 * (i / 7) + (i % 7) * (i % 7 - 1) / 2)
            fail_msg("item %u is %u", i, items[i]);
    clmoe_buffer_destroy(context, args.workspace);
    clmoe_plan_destroy(plan);
    free(items);
}

/* Keys of 20 bits, about 29 of each: in order, the places of equal keys ascend, and each place names its key. */
static void test_argsort(void **state) {
    (void)state;
    const clmoe_sort_desc desc = {.max_items = N, .value_bytes = 4, .is_argsort = 1};
    clmoe_plan *plan;
    assert_int_equal(clmoe_sort_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
    uint32_t *keys = array_of(N), *sorted = array_of(N), *places = array_of(N);
    for (uint32_t i = 0; i < N; ++i)
        keys[i] = mix(i) >> 12 << 6;
    clmoe_sort_args args = {.num_items = N,
                            .keys = buffer_of(keys, N * 4ull),
                            .keys_out = buffer_of(NULL, N * 4ull),
                            .values_out = buffer_of(NULL, N * 4ull),
                            .workspace = buffer_of(NULL, clmoe_plan_workspace_bytes(plan))};
    assert_int_equal(clmoe_sort_enqueue(plan, clmoe_context_queue(context), &args, 0, NULL, NULL), CLMOE_SUCCESS);
    read_and_destroy(args.keys_out, sorted);
    read_and_destroy(args.values_out, places);
    for (uint32_t i = 0; i < N; ++i)
        if (places[i] >= N || keys[places[i]] != sorted[i] ||
            (i > 0 && (sorted[i - 1] > sorted[i] || (sorted[i - 1] == sorted[i] && places[i - 1] >= places[i]))))
            fail_msg("row %u holds key %u of place %u", i, sorted[i], places[i]);
    clmoe_buffer_destroy(context, args.keys);
    clmoe_buffer_destroy(context, args.workspace);
    clmoe_plan_destroy(plan);
    free(keys), free(sorted), free(places);
}

static void test_histogram(void **state) {
    (void)state;
    enum { BINS = 1 << 20 };
    const clmoe_histogram_desc desc = {.max_items = N, .num_bins = BINS, .sample_type = CLMOE_TYPE_U32};
    clmoe_plan *plan;
    assert_int_equal(clmoe_histogram_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
    uint32_t *samples = array_of(N), *counts = array_of(BINS), *expected = calloc(BINS + 1, sizeof *expected), ignored;
    assert_non_null(expected);
    for (uint32_t i = 0; i < N; ++i) {
        samples[i] = i % 3 == 0 ? 5 : mix(i) >> 11;
        ++expected[samples[i] < BINS ? samples[i] : BINS];
    }
    clmoe_histogram_args args = {.num_items = N,
                                 .samples = buffer_of(samples, N * 4ull),
                                 .counts = buffer_of(NULL, BINS * 4ull),
                                 .ignored = buffer_of(NULL, 4),
                                 .workspace = buffer_of(NULL, clmoe_plan_workspace_bytes(plan))};
    assert_int_equal(clmoe_histogram_enqueue(plan, clmoe_context_queue(context), &args, 0, NULL, NULL), CLMOE_SUCCESS);
    read_and_destroy(args.counts, counts);
    read_and_destroy(args.ignored, &ignored);
    assert_memory_equal(counts, expected, BINS * sizeof *counts);
    assert_int_equal(ignored, expected[BINS]);
    clmoe_buffer_destroy(context, args.samples);
    clmoe_buffer_destroy(context, args.workspace);
    clmoe_plan_destroy(plan);
    free(samples), free(counts), free(expected);
}

/* 30 million pairs: every row's pair belongs to its block's expert, pairs of an expert ascend, none is missing. */
static void test_align(void **state) {
    (void)state;
    enum { T = N / 8, K = 8, E = 256, B = 64 };
    const clmoe_align_desc desc = {.max_tokens = T, .top_k = K, .num_experts = E, .block_size = B};
    clmoe_plan *plan;
    uint32_t capacity, total, placed = 0;
    assert_int_equal(clmoe_align_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
    assert_int_equal(clmoe_align_max_rows(&desc, T, &capacity), CLMOE_SUCCESS);
    uint32_t *ids = array_of(N), *sorted = array_of(capacity), *blocks = array_of(capacity / B);
    for (uint32_t i = 0; i < N; ++i)
        ids[i] = mix(i) % E * (mix(i + 1) % 4 == 0);
    clmoe_align_args args = {.num_tokens = T,
                             .topk_ids = buffer_of(ids, N * 4ull),
                             .sorted_token_ids = buffer_of(NULL, capacity * 4ull),
                             .expert_ids = buffer_of(NULL, capacity / B * 4ull),
                             .num_tokens_post_padded = buffer_of(NULL, 4),
                             .workspace = buffer_of(NULL, clmoe_plan_workspace_bytes(plan))};
    assert_int_equal(clmoe_align_enqueue(plan, clmoe_context_queue(context), &args, 0, NULL, NULL), CLMOE_SUCCESS);
    read_and_destroy(args.sorted_token_ids, sorted);
    read_and_destroy(args.expert_ids, blocks);
    read_and_destroy(args.num_tokens_post_padded, &total);
    for (uint32_t row = 0; row < total; ++row) {
        const bool is_pair = sorted[row] < N, is_first = row == 0 || blocks[row / B] != blocks[(row - 1) / B];
        placed += is_pair;
        if (is_pair ? ids[sorted[row]] != blocks[row / B] || (!is_first && sorted[row - 1] >= sorted[row]) : sorted[row] != N)
            fail_msg("row %u of %u holds %u, its block is of expert %u", row, total, sorted[row], blocks[row / B]);
    }
    assert_int_equal(placed, N);
    for (uint32_t row = total; row < capacity; ++row)
        assert_int_equal(sorted[row], N);
    clmoe_buffer_destroy(context, args.topk_ids);
    clmoe_buffer_destroy(context, args.workspace);
    clmoe_plan_destroy(plan);
    free(ids), free(sorted), free(blocks);
}

static int open_pair(void **state) {
    (void)state;
    context = fixture_context(fixture_pair());
    return context == NULL ? -1 : 0;
}

static int close_pair(void **state) {
    (void)state;
    clmoe_context_destroy(context);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_argsort),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_align),
    };
    return cmocka_run_group_tests_name("large", tests, open_pair, close_pair);
}
