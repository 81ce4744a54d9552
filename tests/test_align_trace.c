/* test_align_trace.c - align on what a real router chose: gpt-oss-20b, 24 layers x 64 steps x 64 requests x 4, and a stream of 16,384
 * tokens for three layers (data/README.md says where they come from). */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define EXPERTS 32
#define TOP_K 4
#define TRACE_HASH 0x72e480217d7a0146ull

static align_rig rig;
static uint32_t calls_left_out;

static clmoe_plan *plan_for(const align_case *c) {
    clmoe_plan *plan = NULL;
    char text[400];
    const clmoe_status status = clmoe_align_plan_create(rig.context, &c->desc, &plan);
    clmoe_context_error(rig.context, text, sizeof text);
    if (status != CLMOE_SUCCESS)
        fail_msg("%s: plan: %s: %s", c->name, clmoe_status_name(status), text);
    return plan;
}

static void run_rows(clmoe_plan *plan, align_case *c, const int32_t *rows, uint32_t num_rows) {
    int64_t *ids = test_malloc((size_t)num_rows * TOP_K * sizeof *ids);
    for (size_t i = 0; i < (size_t)num_rows * TOP_K; ++i)
        ids[i] = rows[i];
    c->num_tokens = num_rows;
    case_ids(c, ids);
    test_free(ids);
    if (!fixture_fits(fixture_pair(), c))
        ++calls_left_out;
    else if (!run_align(&rig, plan, c))
        fail_msg("%s", rig.failure);
}

static void test_decode(void **state) {
    (void)state;
    const size_t batch = 64 * TOP_K;
    int32_t *trace = fixture_npy_i32("gptoss20b_decode_topk_ids.npy", 24 * 64 * batch);
    assert_non_null(trace);
    for (uint32_t block = 16; block <= 64; block += 48) {
        align_case c;
        case_begin(&c, "decode", 64, TOP_K, EXPERTS, block);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t layer = 0; layer < 24; ++layer) {
            for (uint32_t step = 0; step < 64; ++step) {
                snprintf(c.name, sizeof c.name, "decode, layer %u, step %u", layer, step);
                c.optional = step % 2 == 0 ? OUT_ALL : 0;
                run_rows(plan, &c, trace + (layer * 64 + step) * batch, 64);
            }
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
    free(trace);
}

static void test_stream(void **state) {
    (void)state;
    const size_t stream = 16384 * TOP_K;
    const uint32_t prefixes[] = {16384, 8192, 4097, 2048, 1000, 333, 64};
    int32_t *trace = fixture_npy_i32("gptoss20b_stream_topk_ids_L0_L11_L23.npy", 3 * stream);
    assert_non_null(trace);
    for (uint32_t block = 16; block <= 64; block += 48) {
        align_case c;
        case_begin(&c, "stream", 16384, TOP_K, EXPERTS, block);
        clmoe_plan *plan = plan_for(&c);
        for (size_t layer = 0; layer < 3; ++layer) {
            for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; ++p) {
                snprintf(c.name, sizeof c.name, "stream, array layer %zu", layer);
                run_rows(plan, &c, trace + layer * stream, prefixes[p]);
            }
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
    free(trace);
}

/* Every byte of every output of the calls above, on every pair of device and class. */
static void test_hash(void **state) {
    (void)state;
    printf("%-16s %016llx over all outputs of the trace\n", fixture_pair(), (unsigned long long)rig.hash);
    assert_int_equal(calls_left_out, 0);
    assert_true(rig.hash == TRACE_HASH);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    if (context == NULL)
        return -1;
    rig_begin(&rig, context, clmoe_context_queue(context));
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    printf("%s: %llu calls checked, %u left out as too large\n", fixture_pair(), (unsigned long long)rig.calls, calls_left_out);
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode), cmocka_unit_test(test_stream), cmocka_unit_test(test_hash)};
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
