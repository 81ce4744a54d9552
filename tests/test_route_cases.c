/* test_route_cases.c - route on field reports (C08 ... C14), on the grids of other engines' own tests, with the router of every model that
 * the library knows, and on the weights of a real router. */
#include "fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static align_rig rig;
static random_stream chance;
static clmoe_plan *kept[3];
static uint32_t left_out, turn;

#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

static clmoe_plan *plan_for(const route_case *c) {
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_route_plan_create(rig.context, &c->desc, &plan);
    if (status != CLMOE_SUCCESS) {
        char text[400], name[480];
        clmoe_context_error(rig.context, text, sizeof text);
        route_describe(c, name, sizeof name);
        fail_msg("%s: plan: %s: %s", name, clmoe_status_name(status), text);
    }
    if (kept[c->desc.logit_type] == NULL) /* one plan of each program stays, so that the others find it compiled */
        clmoe_route_plan_create(rig.context, &c->desc, &kept[c->desc.logit_type]);
    return plan;
}

static void check(clmoe_plan *plan, route_case *c) {
    if (!run_route(&rig, plan, c))
        fail_msg("%s", rig.failure);
}

static void check_once(route_case *c) {
    clmoe_plan *plan = plan_for(c);
    check(plan, c);
    clmoe_plan_destroy(plan);
}

static void expect_ids(const route_case *c, uint32_t t, const int32_t *ids) {
    for (uint32_t k = 0; k < c->desc.router.top_k; ++k) {
        const int32_t found = c->ids[t * c->desc.router.top_k + k];
        if (found != ids[k])
            fail_msg("%s, row %u, slot %u: expert %d, should be %d", c->name, t, k, found, ids[k]);
    }
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__})

static void expect_weights(const route_case *c, uint32_t t, const double *weights, double tolerance) {
    for (uint32_t k = 0; k < c->desc.router.top_k; ++k) {
        const double found = oracle_f32(c->weights[t * c->desc.router.top_k + k]);
        if (!(fabs(found - weights[k]) <= tolerance))
            fail_msg("%s, row %u, slot %u: weight %.9g, should be %.9g", c->name, t, k, found, weights[k]);
    }
}
#define WEIGHTS(...) ((const double[]){__VA_ARGS__})

static float *logits_of(size_t count) {
    float *const logits = malloc(count * sizeof *logits);
    assert_non_null(logits);
    return logits;
}

/* ---- Field reports -------------------------------------------------------------------------------------------------------------- */
static void align_these(const route_case *c) {
    align_case a;
    int64_t ids[64];
    const uint32_t N = c->num_tokens * c->desc.router.top_k;
    case_begin(&a, "ids of C08", c->num_tokens, c->desc.router.top_k, c->desc.router.num_experts, 16);
    for (uint32_t f = 0; f < N; ++f)
        ids[f] = c->ids[f];
    case_ids(&a, ids);
    if (!run_align_once(&rig, &a, NULL))
        fail_msg("%s", rig.failure);
    case_end(&a);
}

static void test_nan_and_infinity(void **state) { /* C08 */
    (void)state;
    float logits[5 * 128];
    for (uint32_t e = 0; e < 128; ++e) {
        logits[e] = (float)NAN;
        logits[128 + e] = -(float)INFINITY;
        logits[256 + e] = (float)INFINITY;
        logits[384 + e] = e == 127 ? (float)NAN : (float)e / 16;
        logits[512 + e] = (float)e / 16;
    }
    for (uint32_t sigmoid = 0; sigmoid < 2; ++sigmoid) {
        for (uint32_t all = 0; all < 2; ++all) {
            route_case c, alone;
            route_begin(&c, "C08", 5, 128, 8);
            c.desc.router.score = sigmoid ? CLMOE_SCORE_SIGMOID : CLMOE_SCORE_SOFTMAX;
            c.desc.router.renormalize = all ? CLMOE_RENORMALIZE_SUM : CLMOE_RENORMALIZE_NONE;
            route_values(&c, logits);
            check_once(&c);
            expect_ids(&c, 0, IDS(0, 1, 2, 3, 4, 5, 6, 7));
            expect_weights(&c, 0, WEIGHTS(0, 0, 0, 0, 0, 0, 0, 0), 0);
            expect_ids(&c, 1, IDS(0, 1, 2, 3, 4, 5, 6, 7));
            expect_ids(&c, 2, IDS(0, 1, 2, 3, 4, 5, 6, 7));
            expect_ids(&c, 3, IDS(126, 125, 124, 123, 122, 121, 120, 119));
            expect_ids(&c, 4, IDS(127, 126, 125, 124, 123, 122, 121, 120));
            for (uint32_t f = 0; f < 40; ++f)
                assert_true(isfinite(oracle_f32(c.weights[f])));
            align_these(&c);
            route_begin(&alone, "C08, row 4 alone", 1, 128, 8);
            alone.desc.router = c.desc.router;
            route_values(&alone, logits + 512);
            check_once(&alone);
            assert_memory_equal(alone.ids, c.ids + 32, 8 * sizeof *c.ids);
            assert_memory_equal(alone.weights, c.weights + 32, 8 * sizeof *c.weights);
            route_end(&alone);
            route_end(&c);
        }
    }
}

static void test_all_negative(void **state) { /* C09 */
    (void)state;
    const float constants[] = {0, -100, 100};
    float logits[256];
    for (uint32_t i = 0; i < 3; ++i) {
        route_case c;
        for (uint32_t e = 0; e < 256; ++e)
            logits[e] = -1 - (float)(37 * e % 256) / 256 + constants[i];
        route_begin(&c, "C09", 1, 256, 8);
        c.desc.router.renormalize = CLMOE_RENORMALIZE_SUM;
        route_values(&c, logits);
        check_once(&c);
        expect_ids(&c, 0, IDS(0, 173, 90, 7, 180, 97, 14, 187));
        expect_weights(&c, 0, WEIGHTS(.1267156, .1262216, .1257295, .1252394, .1247511, .1242647, .1237803, .1232977), 2e-6);
        route_end(&c);
    }
}

static void test_masked_groups(void **state) { /* C10 */
    (void)state;
    const float first[] = {0, 0, 0, 0, -1, -1, -1, -1}, second[] = {0, .5f, 1, 0, 2, -3, 0, 0};
    const float bias[] = {-10, -10, -10, -10, -10, -10, -10, -10};
    route_case c;
    route_begin(&c, "C10, first", 1, 8, 2);
    clmoe_router *const r = &c.desc.router;
    r->score = CLMOE_SCORE_SIGMOID;
    r->has_bias = 1;
    r->group_filter = CLMOE_GROUPS_TOP2_SUM;
    r->num_groups = 2;
    r->kept_groups = 1;
    r->renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON;
    r->epsilon = 1e-20f;
    route_values(&c, first);
    route_bias(&c, bias);
    check_once(&c);
    expect_ids(&c, 0, IDS(0, 1));
    expect_weights(&c, 0, WEIGHTS(.5, .5), 1e-6);
    snprintf(c.name, sizeof c.name, "C10, second");
    r->top_k = 3;
    r->num_groups = 4;
    r->kept_groups = 2;
    route_values(&c, second);
    check_once(&c);
    expect_ids(&c, 0, IDS(2, 1, 0));
    expect_weights(&c, 0, WEIGHTS(.394417, .335826, .269757), 2e-6);
    route_end(&c);
}

static void test_ties(void **state) { /* C11 */
    (void)state;
    float logits[2 * 384] = {0};
    logits[384 + 383] = logits[384 + 5] = logits[384 + 200] = 1;
    for (uint32_t type = 0; type < 3; ++type) {
        for (uint32_t renormalize = 0; renormalize < 2; ++renormalize) {
            route_case c;
            const double w = renormalize ? 1.0 / 8 : 1.0 / 384;
            route_begin(&c, "C11", 2, 384, 8);
            c.desc.logit_type = (clmoe_logit_type)type;
            c.desc.router.renormalize = (clmoe_renormalize)renormalize;
            route_values(&c, logits);
            check_once(&c);
            expect_ids(&c, 0, IDS(0, 1, 2, 3, 4, 5, 6, 7));
            expect_weights(&c, 0, WEIGHTS(w, w, w, w, w, w, w, w), 1e-6 * w);
            expect_ids(&c, 1, IDS(5, 200, 383, 0, 1, 2, 3, 4));
            route_end(&c);
        }
    }
}

static void mixed_logits(float *logits, uint32_t T, uint32_t E) {
    for (uint32_t i = 0; i < T * E; ++i)
        logits[i] = (float)(mix(i) % 4096) / 256 - 8;
}

static void test_odd_numbers_of_experts(void **state) { /* C12 */
    (void)state;
    const uint32_t facts[][2] = {{5, 0x52a988bau},   {60, 0xab703676u},  {72, 0xe91fc243u}, {160, 0x477e4b4du},
                                 {192, 0xa666c351u}, {384, 0x4b5a4d3bu}, {576, 0x731d1133u}};
    float *const logits = logits_of(64 * 576);
    for (uint32_t i = 0; i < 2 * COUNT(facts); ++i) {
        route_case c;
        const uint32_t E = facts[i / 2][0], K = E - 1 < 8 ? E - 1 : 8;
        route_begin(&c, "C12", 64, E, K);
        c.desc.logit_type = i % 2 == 0 ? CLMOE_LOGIT_F32 : CLMOE_LOGIT_F16; /* exact in either */
        mixed_logits(logits, 64, E);
        route_values(&c, logits);
        check_once(&c);
        assert_int_equal(crc32_of(c.ids, 64 * K * 4), facts[i / 2][1]);
        route_end(&c);
    }
    free(logits);
}

static void test_long_batches(void **state) { /* C12: a row is the same whatever T it is in */
    (void)state;
    const uint32_t E = 384, K = 8, sizes[] = {1, 63, 65, 1000, 54272, 54273, 131072};
    const uint32_t most = fixture_pair_has("rusticl") ? 1000 : 131072;
    float *const logits = logits_of((size_t)most * E);
    route_case c;
    route_begin(&c, "C12, 64 rows", 64, E, K);
    mixed_logits(logits, 64, E);
    route_values(&c, logits);
    check_once(&c);
    for (size_t i = 64 * E; i < (size_t)most * E; ++i)
        logits[i] = logits[i - 64 * E];
    c.num_tokens = c.desc.max_tokens = most;
    route_values(&c, logits);
    free(logits);
    clmoe_plan *plan = plan_for(&c);
    for (uint32_t s = 0; s < COUNT(sizes); ++s) {
        op_call call;
        clmoe_route_args args;
        snprintf(c.name, sizeof c.name, "C12, %u rows", sizes[s]);
        c.num_tokens = sizes[s];
        if (sizes[s] > most) {
            ++left_out;
            continue;
        }
        route_call(&call, &args, plan, &c);
        if (!call_run(&rig, &call))
            fail_msg("%s", rig.failure);
        const char *const ids = call_output(&rig, &call, ROUTE_IDS), *const weights = call_output(&rig, &call, ROUTE_WEIGHTS);
        for (uint32_t t = 0; t < sizes[s]; ++t) {
            if (memcmp(ids + (size_t)t * K * 4, c.ids + t % 64 * K, K * 4) != 0 ||
                memcmp(weights + (size_t)t * K * 4, c.weights + t % 64 * K, K * 4) != 0)
                fail_msg("%s: row %u is not as in 64 rows", c.name, t);
        }
    }
    clmoe_plan_destroy(plan);
    route_end(&c);
}

static void test_topologies(void **state) { /* C13 */
    (void)state;
    const uint32_t refused[][4] = {{10, 4, 2, 2}, {16, 4, 5, 2}, {16, 4, 1, 5}, {16, 0, 1, 2},
                                   {16, 4, 0, 2}, {8, 8, 4, 2},  {16, 4, 2, 0}, {16, 4, 4, 17}};
    const uint32_t accepted[][4] = {{256, 1, 1, 8}, {384, 1, 1, 8}, {16, 4, 1, 4}};
    const char *const named[][2] = {{"num_groups"}, {"kept_groups"}, {"kept_groups", "top_k"},
                                    {"num_groups"}, {"kept_groups"}, {"num_groups", "group_f"},
                                    {"top_k"},      {"top_k"}};
    for (uint32_t i = 0; i < COUNT(refused) + COUNT(accepted); ++i) {
        const bool is_legal = i >= COUNT(refused);
        const uint32_t *const shape = is_legal ? accepted[i - COUNT(refused)] : refused[i];
        route_case c, plain;
        clmoe_plan *plan = NULL;
        char text[400];
        route_begin(&c, "C13", 4, shape[0], shape[3]);
        c.desc.router.score = CLMOE_SCORE_SIGMOID;
        c.desc.router.has_bias = 1;
        c.desc.router.group_filter = CLMOE_GROUPS_TOP2_SUM;
        c.desc.router.num_groups = shape[1];
        c.desc.router.kept_groups = shape[2];
        const clmoe_status status = clmoe_route_plan_create(rig.context, &c.desc, &plan);
        if (!is_legal) {
            clmoe_context_error(rig.context, text, sizeof text);
            if (status != CLMOE_INVALID_ARGUMENT || plan != NULL)
                fail_msg("C13: number %u is not refused", i);
            if (strstr(text, named[i][0]) == NULL && (named[i][1] == NULL || strstr(text, named[i][1]) == NULL))
                fail_msg("C13: the text of number %u does not name %s: \"%s\"", i, named[i][0], text);
            route_end(&c);
            continue;
        }
        assert_int_equal(status, CLMOE_SUCCESS);
        route_fill(&c, LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        check(plan, &c);
        clmoe_plan_destroy(plan);
        if (shape[1] == 1) { /* as without groups */
            plain = c;
            plain.ids = NULL;
            plain.weights = NULL;
            plain.desc.router.group_filter = CLMOE_GROUPS_NONE;
            plain.desc.router.num_groups = plain.desc.router.kept_groups = 0;
            check_once(&plain);
            assert_memory_equal(plain.ids, c.ids, 4 * shape[3] * sizeof *c.ids);
            assert_memory_equal(plain.weights, c.weights, 4 * shape[3] * sizeof *c.weights);
            free(plain.ids);
            free(plain.weights);
        } else /* the four of one group */
            for (uint32_t f = 0; f < 16; ++f)
                assert_int_equal(c.ids[f] / 4, c.ids[f / 4 * 4] / 4);
        route_end(&c);
    }
}

static void test_order_of_softmax(void **state) { /* C14 */
    (void)state;
    const float logits[] = {2, 1, .5f, -1};
    route_case c;
    route_begin(&c, "C14", 1, 4, 2);
    route_values(&c, logits);
    check_once(&c);
    expect_ids(&c, 0, IDS(0, 1));
    expect_weights(&c, 0, WEIGHTS(.609460, .224208), 1e-6);
    c.desc.router.renormalize = CLMOE_RENORMALIZE_SUM;
    check_once(&c);
    expect_ids(&c, 0, IDS(0, 1));
    expect_weights(&c, 0, WEIGHTS(.731059, .268941), 1e-6);
    route_end(&c);
}

/* ---- Grids of others ------------------------------------------------------------------------------------------------------------ */
/* Slow pairs take every n-th plan of a grid, another residue in each grid. */
static bool my_turn(uint32_t native, uint32_t pocl, uint32_t rusticl) {
    return turn++ % fixture_cases(native, pocl, rusticl) == 0;
}

/* One plan, each T. */
static void grid(const char *name, const clmoe_router *router, clmoe_logit_type type, const uint32_t *tokens, uint32_t num_tokens,
                 logit_fill how) {
    const uint64_t logits = fixture_pair_has("rusticl") ? 1u << 14 : 1u << 19;
    route_case c;
    route_begin(&c, name, tokens[num_tokens - 1], router->num_experts, router->top_k);
    c.desc.router = *router;
    c.desc.logit_type = type;
    clmoe_plan *plan = plan_for(&c);
    for (uint32_t t = 0; t < num_tokens; ++t) {
        c.num_tokens = tokens[t];
        if ((uint64_t)c.num_tokens * router->num_experts > logits) {
            ++left_out;
            continue;
        }
        route_fill(&c, how, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        check(plan, &c);
    }
    clmoe_plan_destroy(plan);
    route_end(&c);
}
#define GRID(name, router, type, how, ...)                                                                                                 \
    grid(name, router, type, (const uint32_t[]){__VA_ARGS__}, COUNT(((const uint32_t[]){__VA_ARGS__})), how)

static void test_vllm(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 24; ++i) {
        clmoe_router r = {.num_experts = i % 2 == 0 ? 6 : 16, .top_k = 3 + i / 2 % 2};
        r.score = i / 4 % 2 == 0 ? CLMOE_SCORE_SOFTMAX : CLMOE_SCORE_SIGMOID;
        r.renormalize = (clmoe_renormalize)(i / 8 % 2);
        GRID("vLLM fused_topk", &r, (clmoe_logit_type)(i % 3), LOGITS_NORMAL, 1, 33, 56);
    }
    for (uint32_t i = 0; i < 12; ++i) {
        clmoe_router r = {.num_experts = (const uint32_t[]){6, 8, 16}[i % 3], .top_k = 3 + i / 3 % 2};
        r.renormalize = (clmoe_renormalize)(i / 6);
        GRID("vLLM fused_topk, NaN and Inf", &r, CLMOE_LOGIT_F32, i % 2 == 0 ? LOGITS_NAN : LOGITS_INFINITE, 1, 33, 56);
    }
    const uint32_t grouped[][4] = {{16, 2, 8, 2}, {128, 2, 8, 2}, {256, 8, 8, 4}, {384, 8, 1, 1}, {512, 22, 1, 1}};
    for (uint32_t i = 0; i < 40; ++i) {
        const uint32_t *const shape = grouped[i % 5];
        clmoe_router r = {.num_experts = shape[0], .top_k = shape[1], .num_groups = shape[2], .kept_groups = shape[3]};
        r.scale = i / 5 % 2 == 0 ? 1 : 2.5f;
        r.score = i / 10 % 2 == 0 ? CLMOE_SCORE_SIGMOID : CLMOE_SCORE_SOFTMAX;
        r.has_bias = i / 20 % 2 == 0;
        r.group_filter = r.has_bias ? CLMOE_GROUPS_TOP2_SUM : CLMOE_GROUPS_MAX;
        r.renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON;
        r.epsilon = 1e-20f;
        if (my_turn(1, 1, 2))
            GRID("vLLM grouped_topk", &r, (clmoe_logit_type)(i % 3), LOGITS_NORMAL, 1, 33, 64);
    }
    for (uint32_t i = 0; i < 12; ++i) {
        clmoe_router r = {.num_experts = (const uint32_t[]){128, 256, 384, 512}[i % 4], .top_k = (const uint32_t[]){6, 8, 16}[i / 4]};
        r.score = CLMOE_SCORE_SQRT_SOFTPLUS;
        r.has_bias = 1;
        r.renormalize = CLMOE_RENORMALIZE_SUM;
        r.scale = 1.5f;
        GRID("vLLM softplus", &r, CLMOE_LOGIT_F32, i % 2 == 0 ? LOGITS_UNIFORM : LOGITS_WIDE, 1, 33);
    }
}

static void test_sglang(void **state) {
    (void)state;
    const uint32_t experts[] = {4, 8, 16, 32, 64, 128, 256, 512, 6, 160}, chosen[] = {1, 2, 3, 4, 5, 8, 10};
    for (uint32_t e = 0; e < COUNT(experts); ++e) {
        for (uint32_t k = 0; k < COUNT(chosen); ++k) {
            for (uint32_t cap = 0; cap < 2; ++cap) {
                clmoe_router r = {.num_experts = experts[e], .top_k = chosen[k], .softcap = cap == 0 ? 0 : 30.0f};
                r.renormalize = (clmoe_renormalize)((e + k) % 2);
                if (chosen[k] <= experts[e] && my_turn(2, 3, 5))
                    GRID("SGLang topk_softmax", &r, (clmoe_logit_type)(k % 3), LOGITS_NORMAL, 0, 1, 16, 128, 512, 1024, 2048);
            }
        }
        clmoe_router all = {.num_experts = experts[e], .top_k = experts[e], .renormalize = CLMOE_RENORMALIZE_SUM};
        GRID("SGLang topk_softmax, K = E", &all, CLMOE_LOGIT_F32, LOGITS_NORMAL, 0, 1, 16);
    }
}

static void test_flashinfer(void **state) {
    (void)state;
    const uint32_t plain[][2] = {{16, 1}, {16, 4}, {256, 8}};
    const uint32_t grouped[][4] = {{256, 8, 4, 8}, {128, 4, 2, 4}, {96, 1, 1, 8}, {512, 1, 1, 22},
                                   {384, 1, 1, 8}, {160, 1, 1, 8}, {72, 1, 1, 6}};
    for (uint32_t i = 0; i < 3; ++i) {
        clmoe_router r = {.num_experts = plain[i][0], .top_k = plain[i][1], .score = CLMOE_SCORE_IDENTITY};
        r.weight_source = plain[i][1] == 1 ? CLMOE_WEIGHTS_SIGMOID_CHOSEN : CLMOE_WEIGHTS_SOFTMAX_CHOSEN;
        GRID("FlashInfer", &r, CLMOE_LOGIT_BF16, LOGITS_NORMAL, 1, 8, 150);
    }
    for (uint32_t i = 0; i < COUNT(grouped); ++i) {
        const uint32_t *const shape = grouped[i];
        clmoe_router r = {.num_experts = shape[0], .num_groups = shape[1], .kept_groups = shape[2], .top_k = shape[3]};
        r.score = CLMOE_SCORE_SIGMOID;
        r.has_bias = 1;
        r.group_filter = CLMOE_GROUPS_TOP2_SUM;
        r.renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON;
        r.epsilon = 1e-20f;
        r.scale = 2.5f;
        GRID("FlashInfer, DeepSeek-V3", &r, CLMOE_LOGIT_F32, LOGITS_NORMAL, 1, 8, 150);
        GRID("FlashInfer, scores far below the bias", &r, CLMOE_LOGIT_F32, LOGITS_NEGATIVE, 8);
    }
}

static void test_ggml(void **state) {
    (void)state;
    const uint32_t shapes[][3] = {{8, 22, 4},    {31, 22, 8},   {32, 22, 8},   {40, 22, 8},  {71, 22, 8},
                                  {128, 1, 128}, {129, 1, 128}, {160, 4, 160}, {256, 22, 6}, {288, 22, 8}};
    for (uint32_t i = 0; i < 16 * COUNT(shapes); ++i) {
        const uint32_t *const shape = shapes[i / 16];
        clmoe_router r = {.num_experts = shape[0], .top_k = shape[2]};
        r.renormalize = i % 2 == 0 ? CLMOE_RENORMALIZE_NONE : CLMOE_RENORMALIZE_SUM;
        r.has_bias = i / 2 % 2 == 0;
        r.score = i / 4 % 2 == 0 ? CLMOE_SCORE_SOFTMAX : CLMOE_SCORE_SIGMOID;
        r.scale = i / 8 % 2 == 0 ? 0 : 2.5f;
        if (my_turn(1, 2, 4))
            GRID("ggml topk_moe", &r, CLMOE_LOGIT_F32, LOGITS_NORMAL, shape[1]);
    }
}

static void test_aiter(void **state) {
    (void)state;
    const uint32_t experts[] = {64, 128, 256, 384}, chosen[] = {1, 2, 4, 6, 8};
    for (uint32_t i = 0; i < 40; ++i) {
        clmoe_router r = {.num_experts = experts[i % 4], .top_k = chosen[i / 4 % 5]};
        r.score = i / 20 == 0 ? CLMOE_SCORE_SOFTMAX : CLMOE_SCORE_SIGMOID;
        r.has_bias = i / 20 == 1;
        r.renormalize = CLMOE_RENORMALIZE_SUM;
        if (my_turn(2, 3, 4))
            GRID("AITER gating", &r, (clmoe_logit_type)(i % 3), i % 2 == 0 ? LOGITS_NORMAL : LOGITS_NAN, 1, 31, 64, 500, 1024);
    }
}

/* ---- Models --------------------------------------------------------------------------------------------------------------------- */
enum {
    NONE = CLMOE_RENORMALIZE_NONE,
    SUM = CLMOE_RENORMALIZE_SUM,
    PLUS = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON,
    MOST = CLMOE_RENORMALIZE_MAX_EPSILON
};
#define SOFTMAX(E, K, by)                                                                                                                  \
    { .num_experts = E, .top_k = K, .renormalize = (clmoe_renormalize)by }
#define SIGMOID(E, K, factor)                                                                                                              \
    {                                                                                                                                      \
        .num_experts = E, .top_k = K, .score = CLMOE_SCORE_SIGMOID, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON,      \
        .epsilon = 1e-20f, .scale = factor                                                                                                 \
    }
#define DEEPSEEK_V3                                                                                                                        \
    {                                                                                                                                      \
        .num_experts = 256, .top_k = 8, .score = CLMOE_SCORE_SIGMOID, .has_bias = 1, .group_filter = CLMOE_GROUPS_TOP2_SUM,                \
        .num_groups = 8, .kept_groups = 4, .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON, .epsilon = 1e-20f, .scale = 2.5f             \
    }
#define DEEPSEEK_V4(E, factor)                                                                                                             \
    {                                                                                                                                      \
        .num_experts = E, .top_k = 6, .score = CLMOE_SCORE_SQRT_SOFTPLUS, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_SUM,             \
        .scale = factor                                                                                                                    \
    }
#define MINIMAX(E, K, factor)                                                                                                              \
    { .num_experts = E, .top_k = K, .score = CLMOE_SCORE_SIGMOID, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_SUM, .scale = factor }
#define ERNIE(K)                                                                                                                           \
    { .num_experts = 64, .top_k = K, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_MAX_EPSILON, .epsilon = 1e-12f }
#define LATE(E, K, source)                                                                                                                 \
    { .num_experts = E, .top_k = K, .score = CLMOE_SCORE_IDENTITY, .weight_source = source }

/* From the models' own configurations and code. */
static const struct {
    const char *name;
    clmoe_router router;
} models[] = {
    {"dbrx", SOFTMAX(16, 4, SUM)},
    {"deepseek-r1", DEEPSEEK_V3},
    {"deepseek-v2", {.num_experts = 160, .top_k = 6, .group_filter = CLMOE_GROUPS_MAX, .num_groups = 8, .kept_groups = 3, .scale = 16}},
    {"deepseek-v2-lite", SOFTMAX(64, 6, NONE)},
    {"deepseek-v3", DEEPSEEK_V3},
    {"deepseek-v3.2", DEEPSEEK_V3},
    {"deepseek-v4-flash", DEEPSEEK_V4(256, 1.5f)},
    {"deepseek-v4-pro", DEEPSEEK_V4(384, 2.5f)},
    {"dots1", SIGMOID(128, 6, 2.5f)},
    {"ernie-4.5", ERNIE(8)},
    {"ernie-4.5-21b", ERNIE(6)},
    {"flexolmo", SOFTMAX(7, 5, NONE)},
    {"gemma-4-26b-a4b", {.num_experts = 128, .top_k = 8, .renormalize = CLMOE_RENORMALIZE_SUM, .has_expert_scale = 1}},
    {"glm-4.5", SIGMOID(160, 8, 2.5f)},
    {"glm-4.5-air", SIGMOID(128, 8, 1)},
    {"glm-5", SIGMOID(256, 8, 2.5f)},
    {"glm-5.1", SIGMOID(256, 8, 2.5f)},
    {"glm-5.2", SIGMOID(256, 8, 2.5f)},
    {"gpt-oss-120b", LATE(128, 4, CLMOE_WEIGHTS_SOFTMAX_CHOSEN)},
    {"gpt-oss-20b", LATE(32, 4, CLMOE_WEIGHTS_SOFTMAX_CHOSEN)},
    {"granite-3-1b-a400m", LATE(32, 8, CLMOE_WEIGHTS_SOFTMAX_CHOSEN)},
    {"granite-3-3b-a800m", LATE(40, 8, CLMOE_WEIGHTS_SOFTMAX_CHOSEN)},
    {"grok-1", {.num_experts = 8, .top_k = 2, .softcap = 30}},
    {"hunyuan-a13b", SOFTMAX(64, 8, SUM)},
    {"jamba", SOFTMAX(16, 2, NONE)},
    {"jetmoe", LATE(8, 2, CLMOE_WEIGHTS_SOFTMAX_CHOSEN)},
    {"kimi-k2", SIGMOID(384, 8, 2.827f)},
    {"kimi-k2.5", SIGMOID(384, 8, 2.827f)},
    {"kimi-k3", SIGMOID(896, 16, 1)},
    {"kimi-linear", SIGMOID(256, 8, 2.446f)},
    {"lfm2-moe", SIGMOID(32, 4, 1)},
    {"ling-1t", DEEPSEEK_V3},
    {"llama-4-maverick", LATE(128, 1, CLMOE_WEIGHTS_SIGMOID_CHOSEN)},
    {"llama-4-scout", LATE(16, 1, CLMOE_WEIGHTS_SIGMOID_CHOSEN)},
    {"longcat-flash", {.num_experts = 768, .top_k = 12, .has_bias = 1, .scale = 6}},
    {"mimo-v2-flash", SIGMOID(256, 8, 0)},
    {"minimax-m2", MINIMAX(256, 8, 0)},
    {"minimax-m2.5", MINIMAX(256, 8, 0)},
    {"minimax-m2.7", MINIMAX(256, 8, 0)},
    {"minimax-m3", MINIMAX(128, 4, 2)},
    {"mixtral-8x22b", SOFTMAX(8, 2, SUM)},
    {"mixtral-8x7b", SOFTMAX(8, 2, SUM)},
    {"nemotron-3-nano", SIGMOID(128, 6, 2.5f)},
    {"nemotron-3-ultra", SIGMOID(512, 22, 5)},
    {"olmoe", SOFTMAX(64, 8, NONE)},
    {"qwen1.5-moe-a2.7b", SOFTMAX(60, 4, NONE)},
    {"qwen2-57b-a14b", SOFTMAX(64, 8, NONE)},
    {"qwen3-235b-a22b", SOFTMAX(128, 8, SUM)},
    {"qwen3-30b-a3b", SOFTMAX(128, 8, SUM)},
    {"qwen3-coder-480b-a35b", SOFTMAX(160, 8, SUM)},
    {"qwen3-next-80b-a3b", SOFTMAX(512, 10, SUM)},
    {"qwen3-vl-235b-a22b", SOFTMAX(128, 8, SUM)},
    {"qwen3-vl-30b-a3b", SOFTMAX(128, 8, SUM)},
    {"qwen3.5-122b-a10b", SOFTMAX(256, 8, SUM)},
    {"qwen3.5-35b-a3b", SOFTMAX(256, 8, SUM)},
    {"qwen3.5-397b-a17b", SOFTMAX(512, 10, SUM)},
    {"ring-1t", DEEPSEEK_V3},
};

static float factor_of(float scale) { /* 0 means 1 */
    return scale == 0 ? 1 : scale;
}

static void same_router(const char *name, const clmoe_router *is, const clmoe_router *should) {
#define SAME(field)                                                                                                                        \
    if (is->field != should->field)                                                                                                        \
    fail_msg("%s: " #field " is %g, should be %g", name, (double)is->field, (double)should->field)
    SAME(num_experts);
    SAME(top_k);
    SAME(score);
    SAME(softcap);
    SAME(has_bias);
    SAME(group_filter);
    if (should->group_filter != CLMOE_GROUPS_NONE) {
        SAME(num_groups);
        SAME(kept_groups);
    }
    SAME(weight_source);
    SAME(renormalize);
    SAME(epsilon);
    SAME(has_expert_scale);
#undef SAME
    if (factor_of(is->scale) != factor_of(should->scale))
        fail_msg("%s: scale is %g, should be %g", name, (double)is->scale, (double)should->scale);
}

static void test_models(void **state) {
    (void)state;
    size_t count = 0;
    const clmoe_model *const all = clmoe_models(&count);
    assert_true(count > 0 && all != NULL);
    for (size_t i = 0; i < count; ++i) {
        uint32_t m = 0;
        while (m < COUNT(models) && strcmp(models[m].name, all[i].name) != 0)
            ++m;
        if (m == COUNT(models))
            fail_msg("%s is not in the test's own table", all[i].name);
        same_router(all[i].name, &all[i].router, &models[m].router);
        assert_true(all[i].source != NULL && strlen(all[i].source) > 8);
        assert_true(i == 0 || strcmp(all[i - 1].name, all[i].name) < 0);
    }
    for (uint32_t m = 0; m < COUNT(models); ++m) {
        char upper[64] = "";
        const clmoe_model *const found = clmoe_model_find(models[m].name);
        if (found == NULL)
            fail_msg("%s is not among the library's models", models[m].name);
        assert_string_equal(found->name, models[m].name);
        for (uint32_t i = 0; models[m].name[i] != 0; ++i)
            upper[i] = (char)(models[m].name[i] >= 'a' && models[m].name[i] <= 'z' ? models[m].name[i] - 32 : models[m].name[i]);
        assert_ptr_equal(clmoe_model_find(upper), found);
    }
    assert_null(clmoe_model_find("no-such-model"));
    assert_null(clmoe_model_find("deepseek-v"));
    assert_null(clmoe_model_find(""));
}

static void test_routers_of_models(void **state) {
    (void)state;
    const uint32_t tokens = fixture_pair_has("rusticl") ? 5 : 33;
    for (uint32_t m = 0; m < COUNT(models); ++m) {
        route_case c;
        route_begin(&c, models[m].name, tokens, models[m].router.num_experts, models[m].router.top_k);
        c.desc.router = models[m].router;
        c.desc.logit_type = (clmoe_logit_type)(m % 3);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t how = 0; how < 3; ++how) {
            route_fill(&c, (const logit_fill[]){LOGITS_NORMAL, LOGITS_BF16, LOGITS_BAD_ROWS}[how], &chance);
            route_factors(&c, how == 2 ? FACTORS_LARGE : FACTORS_SMALL, &chance);
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

/* ---- What a real router weighed --------------------------------------------------------------------------------------------------- */
/* Recorded ids in the order of their weights; of equal weights the lower id first, which the recording leaves open. */
static void sort_row(int32_t *ids, float *weights) {
    for (uint32_t i = 1; i < 4; ++i) {
        for (uint32_t j = i; j > 0 && (weights[j] > weights[j - 1] || (weights[j] == weights[j - 1] && ids[j] < ids[j - 1])); --j) {
            const int32_t id = ids[j];
            const float weight = weights[j];
            ids[j] = ids[j - 1];
            weights[j] = weights[j - 1];
            ids[j - 1] = id;
            weights[j - 1] = weight;
        }
    }
}

static void test_gpt_oss(void **state) {
    (void)state;
    const uint32_t layers[] = {0, 11, 23}, T = 64 * 64;
    int32_t *const all_ids = fixture_npy_i32("gptoss20b_decode_topk_ids.npy", 24 * (size_t)T * 4);
    int32_t *const all_weights = fixture_npy_i32("gptoss20b_decode_topk_weights_L0_L11_L23.npy", 3 * (size_t)T * 4);
    float *const logits = logits_of((size_t)T * 32);
    const clmoe_model *const model = clmoe_model_find("gpt-oss-20b");
    assert_true(all_ids != NULL && all_weights != NULL && model != NULL);
    for (uint32_t layer = 0; layer < 3; ++layer) {
        int32_t *const ids = all_ids + (size_t)layers[layer] * T * 4;
        float *const weights = (float *)(all_weights + (size_t)layer * T * 4);
        route_case c;
        route_begin(&c, "gpt-oss-20b", T, 32, 4);
        c.desc.router = model->router;
        for (uint32_t i = 0; i < T * 32; ++i)
            logits[i] = -50;
        for (uint32_t f = 0; f < T * 4; ++f)
            logits[f / 4 * 32 + (uint32_t)ids[f]] = logf(weights[f]);
        route_values(&c, logits);
        check_once(&c);
        for (uint32_t t = 0; t < T; ++t) {
            sort_row(ids + t * 4, weights + t * 4);
            expect_ids(&c, t, ids + t * 4);
            for (uint32_t k = 0; k < 4; ++k) { /* bf16 has 8 bits; and the recorded weights of a row sum to 0.997 ... 1.003 */
                const double is = oracle_f32(c.weights[t * 4 + k]), was = (double)weights[t * 4 + k];
                if (!(fabs(is - was) <= was * (0x1p-8 + 0.003)))
                    fail_msg("layer %u, row %u, slot %u: %.9g instead of %.9g", layers[layer], t, k, is, was);
            }
        }
        route_end(&c);
    }
    free(logits);
    free(all_ids);
    free(all_weights);
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
    printf("%s: %llu calls checked, %u left out as too large\n", fixture_pair(), (unsigned long long)rig.calls, left_out);
    for (uint32_t i = 0; i < COUNT(kept); ++i)
        clmoe_plan_destroy(kept[i]);
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260108;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_nan_and_infinity),
        TEST(test_all_negative),
        TEST(test_masked_groups),
        TEST(test_ties),
        TEST(test_odd_numbers_of_experts),
        TEST(test_long_batches),
        TEST(test_topologies),
        TEST(test_order_of_softmax),
        TEST(test_vllm),
        TEST(test_sglang),
        TEST(test_flashinfer),
        TEST(test_ggml),
        TEST(test_aiter),
        TEST(test_models),
        TEST(test_routers_of_models),
        TEST(test_gpt_oss),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
