/* test_pairs_agree.c - all five pairs of device and class in one process, alive at the same time, give the same bytes. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static clmoe_context *contexts[NUM_FIXTURE_PAIRS];
static align_rig rigs[NUM_FIXTURE_PAIRS];

static void run_everywhere(const align_case *c) {
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
        if (!run_align_once(&rigs[p], c, NULL))
            fail_msg("%s: %s", fixture_pairs[p], rigs[p].failure);
        if (rigs[p].hash != rigs[0].hash)
            fail_msg("%s and %s differ after %s", fixture_pairs[0], fixture_pairs[p], c->name);
    }
}

static void test_cases(void **state) {
    (void)state;
    random_stream chance = {60};
    const uint32_t shapes[][3] = {{8, 2, 16}, {32, 4, 64}, {60, 4, 48}, {64, 8, 1}, {129, 3, 3}, {256, 8, 16}, {1024, 1, 2}, {5, 5, 7}};
    const uint32_t tokens[] = {0, 1, 33, 128, 257, 700, 1500};
    for (uint32_t i = 0; i < 60; ++i) {
        align_case c;
        const uint32_t *shape = shapes[i % 8];
        case_begin(&c, "", tokens[i % 7], shape[1], shape[0], shape[2]);
        snprintf(c.name, sizeof c.name, "case %u, %s", i, fill_names[i % NUM_FILLS]);
        c.desc.id_type = (clmoe_id_type)(i % 5);
        c.desc.foreign = (clmoe_foreign)(i / 2 % 3);
        c.desc.has_pad_value = i % 4 == 0;
        c.desc.pad_value = -1;
        c.row_stride = i % 3 == 0 ? shape[1] + i % 6 : 0;
        c.shift = (const uint32_t[]){1, 3, 7}[i % 3];
        while (!fixture_fits("rusticl-serial", &c))
            c.num_tokens /= 2;
        case_fill(&c, (fill)(i % NUM_FILLS), &chance);
        case_map_fill(&c, (map_kind)(i % NUM_MAP_KINDS), &chance);
        if (i % 5 == 1)
            case_mask(&c, 70, &chance);
        if (i % 5 == 2)
            case_tokens_device(&c, (int32_t)(c.num_tokens * 2 / 3));
        c.capacity = case_capacity(&c) + i % 3 * shape[2];
        run_everywhere(&c);
        case_end(&c);
    }
}

static void test_trace(void **state) {
    (void)state;
    const size_t batch = 64 * 4;
    int32_t *trace = fixture_npy_i32("gptoss20b_decode_topk_ids.npy", 24 * 64 * batch);
    assert_non_null(trace);
    align_case c;
    case_begin(&c, "", 64, 4, 32, 16);
    clmoe_plan *plans[NUM_FIXTURE_PAIRS];
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p)
        assert_int_equal(clmoe_align_plan_create(contexts[p], &c.desc, &plans[p]), CLMOE_SUCCESS);
    for (uint32_t step = 0; step < 64; ++step) {
        int64_t ids[64 * 4];
        for (size_t i = 0; i < batch; ++i)
            ids[i] = trace[(11 * 64 + step) * batch + i];
        snprintf(c.name, sizeof c.name, "layer 11, step %u", step);
        case_ids(&c, ids);
        for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
            if (!run_align(&rigs[p], plans[p], &c))
                fail_msg("%s: %s", fixture_pairs[p], rigs[p].failure);
            if (rigs[p].hash != rigs[0].hash)
                fail_msg("%s and %s differ after %s", fixture_pairs[0], fixture_pairs[p], c.name);
        }
    }
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p)
        clmoe_plan_destroy(plans[p]);
    case_end(&c);
    free(trace);
}

static int open_pairs(void **state) {
    (void)state;
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
        contexts[p] = fixture_context(fixture_pairs[p]);
        if (contexts[p] == NULL)
            return -1;
        rig_begin(&rigs[p], contexts[p], clmoe_context_queue(contexts[p]));
    }
    return 0;
}

static int close_pairs(void **state) {
    (void)state;
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
        printf("%-16s %016llx over all outputs of %llu calls\n", fixture_pairs[p], (unsigned long long)rigs[p].hash,
               (unsigned long long)rigs[p].calls);
        rig_end(&rigs[p]);
        clmoe_context_destroy(contexts[p]);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_trace)};
    return cmocka_run_group_tests(tests, open_pairs, close_pairs);
}
