/* test_align_peers.c - the grids of other engines' own tests of this operator, against our contract: exact order, tails and all. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static align_rig rig;
static random_stream chance;
static uint32_t calls_left_out, turn;

#define COUNT(list) (sizeof list / sizeof list[0])

static clmoe_plan *plan_or_null(const align_case *c) {
    clmoe_plan *plan = NULL;
    clmoe_device_info info;
    const clmoe_status status = clmoe_align_plan_create(rig.context, &c->desc, &plan);
    char text[400];
    clmoe_context_error(rig.context, text, sizeof text);
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    const bool may_refuse = info.kernel_class == CLMOE_CLASS_PARALLEL && c->desc.num_experts > 1024;
    if (status != CLMOE_SUCCESS && !(may_refuse && status == CLMOE_UNSUPPORTED)) {
        fail_msg("%s: E %u: plan: %s: %s", c->name, c->desc.num_experts, clmoe_status_name(status), text);
    }
    return plan;
}

static void check(clmoe_plan *plan, const align_case *c) {
    if (!fixture_fits(fixture_pair(), c))
        ++calls_left_out;
    else if (!run_align(&rig, plan, c))
        fail_msg("%s", rig.failure);
}

/* Slow pairs take every n-th plan of a grid, another residue in each grid. */
static bool my_turn(uint32_t native, uint32_t pocl, uint32_t rusticl) {
    return turn++ % fixture_cases(native, pocl, rusticl) == 0;
}

/* One call per T with one plan; T ascending or not, the plan is made for the largest. */
static void grid(const char *name, const uint32_t *tokens, size_t num_tokens, uint32_t K, uint32_t E, uint32_t B, clmoe_foreign foreign,
                 const int32_t *map, fill how) {
    align_case c;
    uint32_t most = 0;
    for (size_t t = 0; t < num_tokens; ++t)
        most = tokens[t] > most ? tokens[t] : most;
    case_begin(&c, name, most, K, E, B);
    c.desc.foreign = foreign;
    clmoe_plan *plan = plan_or_null(&c);
    if (map != NULL)
        case_map(&c, map);
    for (size_t t = 0; plan != NULL && t < num_tokens; ++t) {
        c.num_tokens = tokens[t];
        c.capacity = t % 2 == 0 ? 0 : (c.num_tokens * K + (E + 1) * (B - 1) + B - 1) / B * B; /* the looser bound of these engines */
        case_fill(&c, how, &chance);
        check(plan, &c);
    }
    clmoe_plan_destroy(plan);
    case_end(&c);
}

static void test_vllm(void **state) {
    (void)state;
    const uint32_t tokens[] = {1, 3, 256, 2256, 4096}, slots[] = {1, 2, 16, 32}, experts[] = {32, 160, 256, 257}, blocks[] = {32, 128};
    for (size_t k = 0; k < COUNT(slots); ++k)
        for (size_t e = 0; e < COUNT(experts); ++e)
            for (size_t b = 0; b < COUNT(blocks); ++b)
                grid("vLLM", tokens, COUNT(tokens), slots[k], experts[e], blocks[b], CLMOE_FOREIGN_DROP, NULL, FILL_UNIFORM);
    grid("vLLM determinism", (const uint32_t[]){128, 128, 128, 128, 128}, 5, 2, 32, 64, CLMOE_FOREIGN_DROP, NULL, FILL_UNIFORM);
}

static void test_vllm_expert_parallel(void **state) { /* the experts with even numbers are here, in order */
    (void)state;
    const uint32_t tokens[] = {16, 32, 2048}, slots[] = {2, 4}, experts[] = {8, 64};
    for (size_t k = 0; k < COUNT(slots); ++k) {
        for (size_t e = 0; e < COUNT(experts); ++e) {
            int32_t map[64];
            for (uint32_t i = 0; i < experts[e]; ++i)
                map[i] = i % 2 == 0 ? (int32_t)(i / 2) : -1;
            for (uint32_t foreign = 0; foreign < 3; ++foreign) {
                grid("vLLM EP", tokens, COUNT(tokens), slots[k], experts[e], 64, (clmoe_foreign)foreign, map, FILL_UNIFORM);
                grid("vLLM EP, bad ids", tokens, COUNT(tokens), slots[k], experts[e], 64, (clmoe_foreign)foreign, map, FILL_SOME_INVALID);
            }
        }
    }
}

static void test_sglang(void **state) {
    (void)state;
    const uint32_t tokens[] = {4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1};
    const uint32_t slots[] = {1, 2, 4, 8, 16, 32, 64}, experts[] = {64, 128, 160, 256, 257, 260, 264}, blocks[] = {32, 64, 128, 256};
    for (size_t k = 0; k < COUNT(slots); ++k)
        for (size_t e = 0; e < COUNT(experts); ++e)
            for (size_t b = 0; b < COUNT(blocks); ++b)
                if (my_turn(1, 11, 29))
                    grid("SGLang", tokens, COUNT(tokens), slots[k], experts[e], blocks[b], CLMOE_FOREIGN_DROP, NULL, FILL_UNIFORM);
}

static void test_sglang_many_experts(void **state) {
    (void)state;
    const uint32_t tokens[] = {1, 8, 32, 256}, experts[] = {1025, 2048, 4095}, blocks[] = {64, 128};
    for (size_t e = 0; e < COUNT(experts); ++e)
        for (size_t b = 0; b < COUNT(blocks); ++b)
            grid("SGLang, many experts", tokens, COUNT(tokens), 8, experts[e], blocks[b], CLMOE_FOREIGN_DROP, NULL, FILL_UNIFORM);
}

static void test_sglang_tiny(void **state) { /* ids of -1 form the segment in front */
    (void)state;
    const uint32_t tokens[] = {1, 4, 8, 63, 64, 65}, slots[] = {1, 2, 4, 8}, experts[] = {8, 64, 65, 129, 1024};
    const uint32_t blocks[] = {16, 32, 64, 128};
    for (size_t k = 0; k < COUNT(slots); ++k) {
        for (size_t e = 0; e < COUNT(experts); ++e) {
            for (size_t b = 0; b < COUNT(blocks); ++b) {
                if (!my_turn(1, 3, 7))
                    continue;
                align_case c;
                case_begin(&c, "SGLang, tiny", 65, slots[k], experts[e], blocks[b]);
                c.desc.foreign = CLMOE_FOREIGN_BUCKET;
                clmoe_plan *plan = plan_or_null(&c);
                for (size_t t = 0; plan != NULL && t < COUNT(tokens); ++t) {
                    int64_t ids[65 * 8];
                    c.num_tokens = tokens[t] < 63 ? tokens[t] : tokens[t] / slots[k];
                    for (uint32_t i = 0; i < c.num_tokens * slots[k]; ++i)
                        ids[i] = (int64_t)random_below(&chance, experts[e] + 1) - 1;
                    case_ids(&c, ids);
                    check(plan, &c);
                }
                clmoe_plan_destroy(plan);
                case_end(&c);
            }
        }
    }
}

static void test_aiter(void **state) { /* the true number of tokens is on the device, the batch is padded; a mask of local experts */
    (void)state;
    const uint32_t tokens[] = {1, 7, 31, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
    const uint32_t shapes[][2] = {{32, 5}, {256, 8}, {40, 6}, {385, 7}};
    for (size_t s = 0; s < COUNT(shapes); ++s) {
        for (uint32_t variant = 0; variant < 4; ++variant) {
            const uint32_t E = shapes[s][0], padding = variant % 2 == 0 ? 0 : 1000;
            align_case c;
            case_begin(&c, "AITER", 16384 + padding, shapes[s][1], E, 32);
            clmoe_plan *plan = plan_or_null(&c);
            if (variant >= 2) {
                int32_t map[385], local = 0;
                for (uint32_t e = 0; e < E; ++e)
                    map[e] = random_below(&chance, 2) == 0 ? local++ : -1;
                case_map(&c, map);
            }
            for (size_t t = 0; t < COUNT(tokens); ++t) {
                c.num_tokens = tokens[t] + padding;
                case_fill(&c, FILL_UNIFORM, &chance);
                case_tokens_device(&c, (int32_t)tokens[t]);
                check(plan, &c);
                case_tokens_device(&c, (int32_t)(tokens[t] / 2)); /* the same command again, with another count on the device */
                check(plan, &c);
            }
            clmoe_plan_destroy(plan);
            case_end(&c);
        }
    }
}

static void test_flashinfer_and_models(void **state) { /* shapes in use, expert parallel slices, hot experts */
    (void)state;
    const uint32_t shapes[][2] = {{8, 2},   {16, 1},  {16, 4},  {32, 4},   {60, 4},   {64, 6},   {64, 8},  {128, 1},
                                  {128, 4}, {128, 6}, {128, 8}, {160, 6},  {160, 8},  {256, 6},  {256, 8}, {257, 9},
                                  {288, 8}, {384, 6}, {384, 8}, {512, 10}, {512, 22}, {768, 12}, {896, 16}};
    const uint32_t tokens[] = {150, 8, 1, 777};
    for (size_t s = 0; s < COUNT(shapes); ++s) {
        const uint32_t E = shapes[s][0], ranks = E % 8 == 0 ? 8 : 3, size = E / ranks;
        int32_t map[896];
        for (uint32_t e = 0; e < E; ++e)
            map[e] = e / size == 1 ? (int32_t)(e - size) : -1;
        const uint32_t B = (const uint32_t[]){8, 16, 32, 48, 64, 128}[s % 6];
        grid("shapes in use", tokens, COUNT(tokens), shapes[s][1], E, B, CLMOE_FOREIGN_DROP, NULL, FILL_ZIPF);
        grid("shapes in use, hot expert", tokens, COUNT(tokens), shapes[s][1], E, B, CLMOE_FOREIGN_DROP, NULL, FILL_ONE_HOT);
        grid("shapes in use, one rank", tokens, COUNT(tokens), shapes[s][1], E, B, (clmoe_foreign)(s % 3), map, FILL_ZIPF);
    }
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

static int reseed(void **state) {
    (void)state;
    chance.state = 33;
    turn = 0;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_vllm),  TEST(test_vllm_expert_parallel),  TEST(test_sglang), TEST(test_sglang_tiny), TEST(test_sglang_many_experts),
        TEST(test_aiter), TEST(test_flashinfer_and_models),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
