/* test_route.c - route on one pair of device and class: known answers, every number of experts, of chosen and of tokens around every
 * boundary, every kind of logits, a random sample of everything that a descriptor composes, properties that need no oracle, forced tuning,
 * used workspaces, and every refusal. */
#include "fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

static align_rig rig;
static random_stream chance;
static uint32_t plans_refused;
static uint64_t rows_judged, rows_unclear, weights_unweighed;
static clmoe_plan *kept[3][8];
static const uint32_t group_sizes[] = {0, 1, 32, 64, 96, 128, 256};
static const uint32_t shifts[] = {1, 3, 7};
#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

static clmoe_device_info device(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info;
}

static bool is_parallel(void) {
    return device().kernel_class == CLMOE_CLASS_PARALLEL;
}

/* Logits times chosen, of one call, that the pair has time for. */
static uint64_t work_limit(void) {
    return fixture_pair_has("rusticl") ? 1u << 18 : 1u << 22;
}

static uint32_t fewer_tokens(uint32_t T, uint32_t E, uint32_t K) {
    const uint64_t most = work_limit() / ((uint64_t)E * K);
    return T <= most ? T : most == 0 ? 1 : (uint32_t)most;
}

/* One plan of each program stays, so that the others find it compiled. */
static void keep_program(const clmoe_route_desc *desc) {
    if (rig.queue == NULL)
        return;
    for (uint32_t i = 0; i < COUNT(group_sizes); ++i) {
        if (desc->tuning.group_size == group_sizes[i] && kept[desc->logit_type][i] == NULL)
            clmoe_route_plan_create(rig.context, desc, &kept[desc->logit_type][i]);
    }
}

/* NULL where a refusal is allowed. */
static clmoe_plan *plan_for(const route_case *c) {
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_route_plan_create(rig.context, &c->desc, &plan);
    if (status == CLMOE_UNSUPPORTED && route_may_refuse(&rig, c)) {
        ++plans_refused;
        return NULL;
    }
    if (status != CLMOE_SUCCESS) {
        char text[400], name[480];
        clmoe_context_error(rig.context, text, sizeof text);
        route_describe(c, name, sizeof name);
        fail_msg("%s: plan: %s: %s", name, clmoe_status_name(status), text);
    }
    keep_program(&c->desc);
    return plan;
}

static void check(clmoe_plan *plan, route_case *c) {
    const uint64_t unclear = c->unclear, unweighed = c->unweighed;
    if (plan != NULL && !run_route(&rig, plan, c))
        fail_msg("%s", rig.failure);
    rows_judged += c->num_tokens;
    rows_unclear += c->unclear - unclear;
    weights_unweighed += c->unweighed - unweighed;
}

static void check_once(route_case *c) {
    clmoe_plan *plan = plan_for(c);
    check(plan, c);
    clmoe_plan_destroy(plan);
}

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void expect(const route_case *c, uint32_t t, const int32_t *ids, const double *weights) {
    const uint32_t K = c->desc.router.top_k;
    for (uint32_t k = 0; k < K; ++k) {
        const double weight = oracle_f32(c->weights[t * K + k]);
        if (c->ids[t * K + k] != ids[k] || !(weight == weights[k] || fabs(weight - weights[k]) <= 2e-6 * fabs(weights[k])))
            fail_msg("%s, row %u, slot %u: expert %d with %.9g, should be %d with %.9g", c->name, t, k, c->ids[t * K + k], weight, ids[k],
                     weights[k]);
    }
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__})
#define WEIGHTS(...) ((const double[]){__VA_ARGS__})

static void golden(route_case *c, const char *name, const int32_t *ids, const double *weights) {
    snprintf(c->name, sizeof c->name, "%s", name);
    check_once(c);
    expect(c, 0, ids, weights);
}

static void test_golden(void **state) {
    (void)state;
    route_case c;
    const float logits[] = {2, 1, 0.5f, -1};
    const float bias[] = {0, 0, 0, 0}, scales[] = {1, 2, -4, 0};
    route_begin(&c, "", 1, 4, 2);
    clmoe_router *const r = &c.desc.router;
    route_values(&c, logits);
    golden(&c, "softmax", IDS(0, 1), WEIGHTS(0.6094603, 0.2242078));
    r->renormalize = CLMOE_RENORMALIZE_SUM;
    golden(&c, "softmax, sum", IDS(0, 1), WEIGHTS(0.7310586, 0.2689414));
    r->scale = 2.5f;
    golden(&c, "scale", IDS(0, 1), WEIGHTS(1.8276464, 0.6723536));
    r->has_bias = 1;
    route_bias(&c, bias);
    golden(&c, "a bias of zeros", IDS(0, 1), WEIGHTS(1.8276464, 0.6723536));
    r->has_bias = 0;
    free(c.bias);
    c.bias = NULL;
    r->scale = 0;
    r->has_expert_scale = 1;
    route_expert_scale(&c, scales);
    golden(&c, "expert scale", IDS(0, 1), WEIGHTS(0.7310586, 0.5378828));
    r->has_expert_scale = 0;
    free(c.expert_scale);
    c.expert_scale = NULL;
    r->renormalize = CLMOE_RENORMALIZE_NONE;
    r->score = CLMOE_SCORE_SIGMOID;
    golden(&c, "sigmoid", IDS(0, 1), WEIGHTS(0.8807971, 0.7310586));
    r->score = CLMOE_SCORE_SQRT_SOFTPLUS;
    golden(&c, "sqrt softplus", IDS(0, 1), WEIGHTS(1.4583990, 1.1459763));
    r->score = CLMOE_SCORE_IDENTITY;
    golden(&c, "identity", IDS(0, 1), WEIGHTS(2, 1));
    r->weight_source = CLMOE_WEIGHTS_SOFTMAX_CHOSEN;
    golden(&c, "softmax of the chosen", IDS(0, 1), WEIGHTS(0.7310586, 0.2689414));
    r->weight_source = CLMOE_WEIGHTS_SIGMOID_CHOSEN;
    golden(&c, "sigmoid of the chosen", IDS(0, 1), WEIGHTS(0.8807971, 0.7310586));
    r->weight_source = CLMOE_WEIGHTS_SCORE;
    r->softcap = 2;
    golden(&c, "softcap", IDS(0, 1), WEIGHTS(1.5231883, 0.9242343));
    r->softcap = 0;
    r->renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON;
    r->epsilon = 1;
    golden(&c, "sum + epsilon", IDS(0, 1), WEIGHTS(0.5, 0.25));
    r->renormalize = CLMOE_RENORMALIZE_MAX_EPSILON;
    golden(&c, "the sum is larger than epsilon", IDS(0, 1), WEIGHTS(0.6666667, 0.3333333));
    r->epsilon = 4;
    golden(&c, "epsilon is larger than the sum", IDS(0, 1), WEIGHTS(0.5, 0.25));
    r->epsilon = 0;
    r->renormalize = CLMOE_RENORMALIZE_NONE;
    r->top_k = 4;
    golden(&c, "K = E", IDS(0, 1, 2, 3), WEIGHTS(2, 1, 0.5, -1));
    route_end(&c);
}

/* ids and weights of one row of E logits, everything else from the router. */
static void golden_row(const char *name, clmoe_router router, const float *logits, const float *bias, const int32_t *ids,
                       const double *weights) {
    route_case c;
    route_begin(&c, name, 1, router.num_experts, router.top_k);
    c.desc.router = router;
    route_values(&c, logits);
    if (bias != NULL)
        route_bias(&c, bias);
    check_once(&c);
    expect(&c, 0, ids, weights);
    route_end(&c);
}

static void test_golden_edges(void **state) {
    (void)state;
    const float inf = (float)INFINITY, nan = (float)NAN, tiny = 1e-44f;
    clmoe_router r = {.num_experts = 4, .top_k = 4};
    golden_row("all -Inf", r, (const float[]){-inf, -inf, -inf, -inf}, NULL, IDS(0, 1, 2, 3), WEIGHTS(0.25, 0.25, 0.25, 0.25));
    golden_row("+Inf twice", r, (const float[]){1, inf, -inf, inf}, NULL, IDS(1, 3, 0, 2), WEIGHTS(0.5, 0.5, 0, 0));
    golden_row("NaN", r, (const float[]){nan, 0, -inf, 0}, NULL, IDS(1, 3, 2, 0), WEIGHTS(0.5, 0.5, 0, 0));
    golden_row("all NaN", r, (const float[]){nan, nan, nan, nan}, NULL, IDS(0, 1, 2, 3), WEIGHTS(0, 0, 0, 0));
    golden_row("zeros of both signs", r, (const float[]){-0.0f, 0, -0.0f, 0}, NULL, IDS(0, 1, 2, 3), WEIGHTS(0.25, 0.25, 0.25, 0.25));
    golden_row("denormals", r, (const float[]){tiny, -tiny, 2 * tiny, 0}, NULL, IDS(2, 0, 3, 1), WEIGHTS(0.25, 0.25, 0.25, 0.25));
    golden_row("scores that round alike", r, (const float[]){-200, -100, 300, 400}, NULL, IDS(3, 2, 1, 0), WEIGHTS(1, 0, 0, 0));
    r.score = CLMOE_SCORE_SIGMOID;
    golden_row("sigmoids that round alike", r, (const float[]){-200, 100, 200, -300}, NULL, IDS(2, 1, 0, 3), WEIGHTS(1, 1, 0, 0));
    golden_row("sigmoid of infinities", r, (const float[]){-inf, inf, nan, 0}, NULL, IDS(1, 3, 0, 2), WEIGHTS(1, 0.5, 0, 0));
    r.renormalize = CLMOE_RENORMALIZE_SUM;
    golden_row("a sum of 0", r, (const float[]){-200, -100, -300, -400}, NULL, IDS(1, 0, 2, 3), WEIGHTS(0, 0, 0, 0));
    r.renormalize = CLMOE_RENORMALIZE_NONE;
    r.score = CLMOE_SCORE_IDENTITY;
    golden_row("infinities stay", r, (const float[]){-inf, inf, 3, -4}, NULL, IDS(1, 2, 3, 0),
               WEIGHTS((double)INFINITY, 3, -4, -(double)INFINITY));
    golden_row("denormal scores are 0", r, (const float[]){tiny, -tiny, 1, 0x1p-126f}, NULL, IDS(2, 3, 0, 1), WEIGHTS(1, 0, 0, 0));
    r.renormalize = CLMOE_RENORMALIZE_SUM;
    golden_row("a sum that cancels", r, (const float[]){1, -1, 2, -2}, NULL, IDS(2, 0, 1, 3), WEIGHTS(0, 0, 0, 0));
    golden_row("an infinite sum", r, (const float[]){1, inf, 2, -2}, NULL, IDS(1, 2, 0, 3), WEIGHTS(0, 0, 0, 0));
    golden_row("Inf - Inf", r, (const float[]){1, inf, 2, -inf}, NULL, IDS(1, 2, 0, 3), WEIGHTS(0, 0, 0, 0));
    golden_row("a negative sum", r, (const float[]){1, -2, -3, -4}, NULL, IDS(0, 1, 2, 3), WEIGHTS(-0.125, 0.25, 0.375, 0.5));
    r.softcap = 3;
    r.renormalize = CLMOE_RENORMALIZE_NONE;
    golden_row("softcap of infinities", r, (const float[]){-inf, inf, nan, 0}, NULL, IDS(1, 3, 0, 2), WEIGHTS(3, 0, -3, 0));
    r.softcap = 1;
    golden_row("the softcap does not choose", r, (const float[]){50, 100, -100, -50}, NULL, IDS(1, 0, 3, 2), WEIGHTS(1, 1, -1, -1));
}

static void test_golden_bias(void **state) {
    (void)state;
    const float inf = (float)INFINITY, nan = (float)NAN;
    clmoe_router r = {.num_experts = 4, .top_k = 4, .score = CLMOE_SCORE_SIGMOID, .has_bias = 1};
    const float zeros[] = {0, 0, 0, 0};
    golden_row("bias decides, the score weighs", r, zeros, (const float[]){0, 3, 1, 2}, IDS(1, 3, 2, 0), WEIGHTS(0.5, 0.5, 0.5, 0.5));
    golden_row("NaN in the bias ranks last", r, zeros, (const float[]){nan, 3, -inf, 2}, IDS(1, 3, 2, 0), WEIGHTS(0.5, 0.5, 0.5, 0.5));
    golden_row("infinite bias", r, zeros, (const float[]){inf, -inf, inf, 2}, IDS(0, 2, 3, 1), WEIGHTS(0.5, 0.5, 0.5, 0.5));
    golden_row("NaN logit", r, (const float[]){nan, 0, 0, 0}, (const float[]){9, 0, 0, 0}, IDS(1, 2, 3, 0), WEIGHTS(0.5, 0.5, 0.5, 0));
    golden_row("a row of NaN", r, (const float[]){nan, nan, nan, nan}, (const float[]){1, 2, 3, 4}, IDS(0, 1, 2, 3), WEIGHTS(0, 0, 0, 0));
    golden_row("a bias that swallows the scores", r, (const float[]){-50, -40, -60, -45}, (const float[]){12, 12, 12, 12}, IDS(0, 1, 2, 3),
               WEIGHTS(1.928750e-22, 4.248354e-18, 8.756511e-27, 2.862519e-20));
    golden_row("scores of 0 tie", r, (const float[]){-300, -100, -200, -400}, zeros, IDS(0, 1, 2, 3), WEIGHTS(0, 0, 0, 0));
    r.score = CLMOE_SCORE_IDENTITY;
    golden_row("Inf - Inf ranks last", r, (const float[]){inf, 0, -inf, 1}, (const float[]){-inf, 0, 0, 0}, IDS(3, 1, 2, 0),
               WEIGHTS(1, 0, -(double)INFINITY, (double)INFINITY));
    golden_row("keys of -0 and +0 tie", r, (const float[]){-0.0f, 0, 1, -1}, (const float[]){-0.0f, 0, -1, 1}, IDS(0, 1, 2, 3),
               WEIGHTS(0, 0, 1, -1));
}

static void test_golden_groups(void **state) {
    (void)state;
    const float inf = (float)INFINITY;
    clmoe_router r = {.num_experts = 6, .top_k = 2, .score = CLMOE_SCORE_IDENTITY};
    r.num_groups = 3;
    r.kept_groups = 1;
    r.group_filter = CLMOE_GROUPS_MAX;
    golden_row("the best of a group", r, (const float[]){5, 0, 4, 4, 3, 3}, NULL, IDS(0, 1), WEIGHTS(5, 0));
    golden_row("equal groups: the lower", r, (const float[]){1, 4, 4, 3, 4, 4}, NULL, IDS(1, 0), WEIGHTS(4, 1));
    r.group_filter = CLMOE_GROUPS_TOP2_SUM;
    golden_row("the two best of a group", r, (const float[]){5, 0, 4, 4, 3, 3}, NULL, IDS(2, 3), WEIGHTS(4, 4));
    golden_row("equal sums: the lower", r, (const float[]){0, 1, 5, 3, 4, 4}, NULL, IDS(2, 3), WEIGHTS(5, 3));
    golden_row("all below zero", r, (const float[]){-9, -8, -5, -6, -7, -7}, NULL, IDS(2, 3), WEIGHTS(-5, -6));
    golden_row("all -Inf", r, (const float[]){-inf, -inf, -inf, -inf, -inf, -inf}, NULL, IDS(0, 1),
               WEIGHTS(-(double)INFINITY, -(double)INFINITY));
    r.kept_groups = 2;
    r.top_k = 4;
    golden_row("all of two groups", r, (const float[]){1, 2, 9, -9, 3, 3}, NULL, IDS(4, 5, 1, 0), WEIGHTS(3, 3, 2, 1));
    r.kept_groups = 3;
    golden_row("all groups", r, (const float[]){1, 2, 9, -9, 3, 4}, NULL, IDS(2, 5, 4, 1), WEIGHTS(9, 4, 3, 2));
    r = (clmoe_router){.num_experts = 4, .top_k = 2, .score = CLMOE_SCORE_SIGMOID, .group_filter = CLMOE_GROUPS_MAX};
    r.num_groups = 4;
    r.kept_groups = 2;
    golden_row("groups of one", r, (const float[]){0, 2, -1, 3}, NULL, IDS(3, 1), WEIGHTS(0.9525741, 0.8807971));
}

/* Every logit that 16 bits can say, next to ones: ids and weights say what was read. */
static void test_every_half(void **state) {
    (void)state;
    const uint32_t E = 64, T = 65536 / 64;
    for (uint32_t type = CLMOE_LOGIT_F16; type <= CLMOE_LOGIT_BF16; ++type) {
        route_case c;
        route_begin(&c, "every half", fewer_tokens(T, E, 2), E, E);
        c.desc.logit_type = (clmoe_logit_type)type;
        c.desc.router.score = CLMOE_SCORE_IDENTITY;
        clmoe_plan *plan = plan_for(&c);
        uint16_t *const halves = malloc((size_t)c.num_tokens * E * sizeof *halves);
        assert_non_null(halves);
        free(c.logits);
        c.logits = halves;
        for (uint32_t first = 0; first < T; first += c.num_tokens) {
            for (uint32_t i = 0; i < c.num_tokens * E; ++i)
                halves[i] = (uint16_t)((first * E + i) * 40503u);
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

/* ---- Sizes ---------------------------------------------------------------------------------------------------------------------- */
static const uint32_t all_experts[] = {1,  2,   3,   5,   7,   8,   16,  31,  32,  33,  60,  63,   64,   65,
                                       72, 128, 160, 255, 256, 257, 288, 384, 512, 576, 896, 1000, 1024, 4096};
static const uint32_t all_tokens[] = {0, 1, 2, 3, 7, 16, 33, 64, 100, 129, 257};

static void test_experts(void **state) {
    (void)state;
    const uint32_t chosen[] = {1, 2, 4, 6, 8, 9, 16, 22, 32, 33, 64};
    for (uint32_t e = 0; e < COUNT(all_experts); ++e) {
        for (uint32_t round = 0; round < 4; ++round) {
            route_case c;
            const uint32_t E = all_experts[e], wanted = round == 3 ? E : chosen[(e * 3 + round * 5) % COUNT(chosen)];
            const uint32_t K = wanted > E ? E : wanted > 64 && E > 600 ? 64 : wanted;
            route_begin(&c, "experts", fewer_tokens(33, E, K), E, K);
            random_router(&c.desc.router, &chance);
            c.desc.logit_type = (clmoe_logit_type)((e + round) % 3);
            c.row_stride = round % 2 == 0 ? 0 : E + 1 + e % 5;
            c.shift = shifts[(e + round) % 3];
            route_fill(&c, (logit_fill)((e * 4 + round) % NUM_LOGIT_FILLS), &chance);
            route_factors(&c, (factor_fill)(e % NUM_FACTOR_FILLS), &chance);
            check_once(&c);
            route_end(&c);
        }
    }
}

static void test_every_number_of_experts(void **state) {
    (void)state;
    const uint32_t step = fixture_pair_has("rusticl") ? 3 : 1;
    for (uint32_t E = 1; E <= 130; E += step) {
        route_case c;
        const uint32_t K = 1 + random_below(&chance, E < 20 ? E : 20);
        route_begin(&c, "every number of experts", 9, E, K);
        random_router(&c.desc.router, &chance);
        route_fill(&c, (logit_fill)(E % NUM_LOGIT_FILLS), &chance);
        route_factors(&c, (factor_fill)(E / NUM_LOGIT_FILLS % NUM_FACTOR_FILLS), &chance);
        check_once(&c);
        route_end(&c);
    }
}

static void test_every_number_chosen(void **state) { /* the K best are the first K of all, whatever K is */
    (void)state;
    const uint32_t E = 71;
    int32_t all[71];
    for (uint32_t K = E; K >= 1; --K) {
        route_case c;
        random_stream same = {7};
        route_begin(&c, "every number chosen", 1, E, K);
        c.desc.router.score = CLMOE_SCORE_SIGMOID;
        route_fill(&c, LOGITS_FEW, &same);
        check_once(&c);
        if (K == E)
            memcpy(all, c.ids, sizeof all);
        assert_memory_equal(all, c.ids, K * sizeof *all);
        route_end(&c);
    }
}

static void test_all_are_chosen(void **state) {
    (void)state;
    const uint32_t experts[] = {1, 2, 31, 64, 100, 129, 257, 1024, 4096}, chosen[] = {64, 64, 64, 64, 64, 64, 64, 64, 64};
    for (uint32_t i = 0; i < 2 * COUNT(experts); ++i) {
        route_case c;
        const uint32_t E = experts[i / 2], K = i % 2 == 0 || E < 64 ? E : chosen[i / 2];
        route_begin(&c, "all are chosen", E > 1000 && K == E ? 2 : 5, E, K);
        c.desc.router.score = (clmoe_score)(i % 4);
        c.desc.router.renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON;
        c.desc.router.epsilon = 1e-20f;
        c.desc.router.has_bias = i % 3 == 0;
        route_fill(&c, i % 2 == 0 ? LOGITS_FEW : LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        check_once(&c);
        if (c.ids == NULL)
            printf("%u of %u experts are too many here\n", K, E);
        route_end(&c);
    }
}

static void test_thousands_of_experts(void **state) {
    (void)state;
    const uint32_t experts[] = {4096, 4097, 5000, 10007, 40000};
    for (uint32_t i = 0; i < COUNT(experts); ++i) {
        route_case c;
        clmoe_plan *plan = NULL;
        route_begin(&c, "thousands of experts", 2, experts[i], 8);
        c.desc.router.has_bias = 1;
        c.desc.router.renormalize = CLMOE_RENORMALIZE_SUM;
        route_fill(&c, LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        const clmoe_status status = clmoe_route_plan_create(rig.context, &c.desc, &plan);
        if (status == CLMOE_UNSUPPORTED && experts[i] > 4096)
            printf("%u experts are too many here\n", experts[i]);
        else
            assert_int_equal(status, CLMOE_SUCCESS);
        check(plan, &c);
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

static void test_tokens(void **state) { /* one plan, every T, from the smallest workspace to more than enough */
    (void)state;
    const uint32_t shapes[][2] = {{8, 2}, {32, 4}, {60, 4}, {256, 8}, {257, 9}, {1024, 2}};
    for (uint32_t i = 0; i < COUNT(shapes); ++i) {
        route_case c;
        const uint32_t E = shapes[i][0], K = shapes[i][1];
        route_begin(&c, "tokens", 257, E, K);
        random_router(&c.desc.router, &chance);
        c.desc.logit_type = (clmoe_logit_type)(i % 3);
        route_factors(&c, FACTORS_SMALL, &chance);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t t = 0; t < COUNT(all_tokens); ++t) {
            c.num_tokens = fewer_tokens(all_tokens[t], E, K);
            c.shift = shifts[t % 3];
            route_fill(&c, (logit_fill)((t + i) % NUM_LOGIT_FILLS), &chance);
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
    route_case c;
    const uint32_t many = fixture_pair_has("rusticl") ? 2000 : 20000;
    route_begin(&c, "many tokens", many, 16, 4);
    c.desc.router.renormalize = CLMOE_RENORMALIZE_SUM;
    route_fill(&c, LOGITS_NORMAL, &chance);
    check_once(&c);
    route_end(&c);
}

/* ---- Contents ------------------------------------------------------------------------------------------------------------------- */
static void test_contents(void **state) { /* every kind of logits, score and type, without and with what makes the choice inexact */
    (void)state;
    for (uint32_t score = 0; score < 4; ++score) {
        for (uint32_t variant = 0; variant < 6; ++variant) {
            route_case c;
            const uint32_t E = variant % 2 == 0 ? 48 : 130, K = 6;
            route_begin(&c, "", 17, E, K);
            clmoe_router *const r = &c.desc.router;
            c.desc.logit_type = (clmoe_logit_type)(variant % 3);
            r->score = (clmoe_score)score;
            r->has_bias = variant >= 3;
            r->softcap = variant == 1 ? 30 : 0;
            r->renormalize = (clmoe_renormalize)((variant + score) % 4);
            r->epsilon = r->renormalize >= CLMOE_RENORMALIZE_SUM_PLUS_EPSILON ? 1e-20f : 0;
            r->group_filter = (clmoe_group_filter)((variant + score / 2) % 3);
            r->num_groups = r->group_filter == CLMOE_GROUPS_NONE ? 0 : E == 48 ? 8 : 10;
            r->kept_groups = r->group_filter == CLMOE_GROUPS_NONE ? 0 : 3;
            clmoe_plan *plan = plan_for(&c);
            for (uint32_t how = 0; how < NUM_LOGIT_FILLS; ++how) {
                snprintf(c.name, sizeof c.name, "contents, %s", logit_fill_names[how]);
                route_fill(&c, (logit_fill)how, &chance);
                route_factors(&c, (factor_fill)(how % NUM_FACTOR_FILLS), &chance);
                check(plan, &c);
            }
            clmoe_plan_destroy(plan);
            route_end(&c);
        }
    }
}

static void test_exactness(void **state) { /* neighbouring numbers, whatever is made of them: the logits choose */
    (void)state;
    const logit_fill fills[] = {LOGITS_NEIGHBOURS, LOGITS_DENORMAL, LOGITS_HUGE, LOGITS_NEGATIVE, LOGITS_RAW_BITS, LOGITS_FEW};
    for (uint32_t i = 0; i < 48; ++i) {
        route_case c;
        route_begin(&c, "exactness", 20, 96, 12);
        clmoe_router *const r = &c.desc.router;
        r->score = (clmoe_score)(i % 4);
        r->softcap = i / 4 % 2 == 0 ? 0 : 0.01f;
        r->group_filter = i / 8 % 2 == 0 ? CLMOE_GROUPS_NONE : CLMOE_GROUPS_MAX;
        r->num_groups = r->kept_groups = 0;
        if (r->group_filter == CLMOE_GROUPS_MAX) {
            r->num_groups = 12;
            r->kept_groups = 3;
        }
        c.desc.logit_type = (clmoe_logit_type)(i % 3);
        route_fill(&c, fills[i % 6], &chance);
        check_once(&c);
        assert_int_equal(c.unclear, 0);
        route_end(&c);
    }
}

/* Weights down to the smallest there are: the difference from the maximum is inexact, and its error counts. */
static void test_far_below(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; ++i) {
        route_case c;
        const uint32_t E = 16, T = 60;
        float logits[60 * 16];
        route_begin(&c, "far below the maximum", T, E, E);
        c.desc.router.renormalize = i % 2 == 0 ? CLMOE_RENORMALIZE_NONE : CLMOE_RENORMALIZE_SUM;
        c.desc.router.weight_source = i < 2 ? CLMOE_WEIGHTS_SCORE : CLMOE_WEIGHTS_SOFTMAX_CHOSEN;
        for (uint32_t t = 0; t < T; ++t) {
            const float maximum = 0.5f + (float)random_below(&chance, 1u << 24) * 0x1p-17f;
            for (uint32_t e = 0; e < E; ++e)
                logits[t * E + e] = e == 0 ? maximum : maximum - 60 - (float)random_below(&chance, 1u << 24) * 0x1.cp-20f;
        }
        route_values(&c, logits);
        check_once(&c);
        route_end(&c);
    }
}

/* Where single precision decides at all, it does so rarely, and few weights lie on an edge: else this file would check little. */
static void test_oracle_decides(void **state) {
    (void)state;
    route_case c;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < 32; ++i) {
        route_begin(&c, "the oracle decides", fewer_tokens(64, 128, 8), 128, 8);
        clmoe_router *const r = &c.desc.router;
        r->score = (clmoe_score)(i % 4);
        r->has_bias = 1;
        r->group_filter = (clmoe_group_filter)(i / 4 % 3);
        r->num_groups = r->group_filter == CLMOE_GROUPS_NONE ? 0 : 8;
        r->kept_groups = r->group_filter == CLMOE_GROUPS_NONE ? 0 : 4;
        r->renormalize = CLMOE_RENORMALIZE_SUM;
        route_fill(&c, LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        check_once(&c);
        rows += c.num_tokens;
        assert_true(c.unclear * 50 <= c.num_tokens);
        assert_int_equal(r->score == CLMOE_SCORE_IDENTITY ? 0 : c.unweighed, 0);
        route_end(&c);
    }
    assert_true(rows >= 32 * 64 / 4);
}

/* ---- Properties that need no oracle ---------------------------------------------------------------------------------------------- */
/* Rows of `from`, by number, in this order; bias and scale are shared. */
static void take_rows(route_case *to, const route_case *from, const uint32_t *rows, uint32_t num_rows) {
    const uint32_t E = from->desc.router.num_experts;
    const size_t row_bytes = E * logit_bytes(from->desc.logit_type);
    unsigned char *const logits = malloc(num_rows * row_bytes + 1);
    assert_non_null(logits);
    assert_int_equal(from->row_stride, 0);
    for (uint32_t t = 0; t < num_rows; ++t)
        memcpy(logits + t * row_bytes, (const unsigned char *)from->logits + rows[t] * row_bytes, row_bytes);
    free(to->logits);
    to->logits = logits;
    to->num_tokens = num_rows;
}

static void same_rows(const route_case *a, uint32_t row_a, const route_case *b, uint32_t row_b, const char *what) {
    const uint32_t K = a->desc.router.top_k;
    if (memcmp(a->ids + row_a * K, b->ids + row_b * K, K * sizeof *a->ids) != 0 ||
        memcmp(a->weights + row_a * K, b->weights + row_b * K, K * sizeof *a->weights) != 0)
        fail_msg("%s: row %u of %u is not the same as row %u of %u", what, row_a, a->num_tokens, row_b, b->num_tokens);
}

static void test_rows_stand_alone(void **state) {
    (void)state;
    const uint32_t shapes[][2] = {{8, 2}, {64, 8}, {256, 8}, {384, 6}, {1000, 33}}, sizes[] = {1, 1, 2, 3, 33, 64, 100, 150};
    for (uint32_t i = 0; i < 2 * COUNT(shapes); ++i) {
        route_case all, some;
        const uint32_t E = shapes[i / 2][0], K = shapes[i / 2][1], T = fewer_tokens(150, E, K);
        route_begin(&all, "rows stand alone", T, E, K);
        random_router(&all.desc.router, &chance);
        all.desc.logit_type = (clmoe_logit_type)(i % 3);
        route_fill(&all, i % 2 == 0 ? LOGITS_BAD_ROWS : LOGITS_NORMAL, &chance);
        route_factors(&all, FACTORS_SMALL, &chance);
        check_once(&all);
        some = all;
        some.logits = some.ids = NULL;
        some.weights = NULL;
        for (uint32_t s = 0; s < COUNT(sizes); ++s) {
            uint32_t rows[150];
            const uint32_t count = sizes[s] < T ? sizes[s] : T;
            for (uint32_t t = 0; t < count; ++t)
                rows[t] = random_below(&chance, T);
            take_rows(&some, &all, rows, count);
            some.desc.max_tokens = s % 2 == 0 ? count : T;
            check_once(&some);
            for (uint32_t t = 0; t < count; ++t)
                same_rows(&all, rows[t], &some, t, "rows stand alone");
        }
        free(some.logits);
        free(some.ids);
        free(some.weights);
        route_end(&all);
    }
}

static void test_bad_neighbours(void **state) { /* what stands in the other rows changes nothing */
    (void)state;
    for (uint32_t i = 0; i < 12; ++i) {
        route_case good, bad;
        const uint32_t E = i % 2 == 0 ? 128 : 37, K = 5, T = 18;
        route_begin(&good, "bad neighbours", T, E, K);
        random_router(&good.desc.router, &chance);
        route_begin(&bad, "bad neighbours", T, E, K);
        bad.desc.router = good.desc.router;
        route_fill(&good, LOGITS_NORMAL, &chance);
        route_factors(&good, FACTORS_SMALL, &chance);
        route_fill(&bad, LOGITS_BAD_ROWS, &chance);
        random_stream nothing = {1};
        route_factors(&bad, FACTORS_SMALL, &nothing);
        const clmoe_router *const r = &good.desc.router;
        if (r->has_bias)
            memcpy(bad.bias, good.bias, E * sizeof *bad.bias);
        if (r->has_expert_scale)
            memcpy(bad.expert_scale, good.expert_scale, E * sizeof *bad.expert_scale);
        for (uint32_t t = 0; t < T; t += 2)
            memcpy((uint32_t *)bad.logits + t * E, (uint32_t *)good.logits + t * E, E * sizeof(uint32_t));
        check_once(&good);
        check_once(&bad);
        for (uint32_t t = 0; t < T; t += 2)
            same_rows(&good, t, &bad, t, "bad neighbours");
        route_end(&good);
        route_end(&bad);
    }
}

static void test_added_constants(void **state) { /* a constant that can be added exactly never changes the ids of a softmax */
    (void)state;
    const float constants[] = {-100, 100, 4096, -1024.5f, 0.25f, -32768};
    for (uint32_t i = 0; i < 12; ++i) {
        route_case plain, moved;
        const uint32_t E = 200, T = 10, K = 9;
        float *const logits = malloc(T * E * sizeof *logits);
        assert_non_null(logits);
        route_begin(&plain, "a constant", T, E, K);
        plain.desc.router.renormalize = (clmoe_renormalize)(i % 2);
        plain.desc.router.group_filter = i % 3 == 0 ? CLMOE_GROUPS_MAX : CLMOE_GROUPS_NONE;
        plain.desc.router.num_groups = i % 3 == 0 ? 20 : 0;
        plain.desc.router.kept_groups = i % 3 == 0 ? 4 : 0;
        route_begin(&moved, "a constant is added", T, E, K);
        moved.desc.router = plain.desc.router;
        for (uint32_t j = 0; j < T * E; ++j)
            logits[j] = (float)random_below(&chance, 1u << 12) / 256 - 8;
        route_values(&plain, logits);
        for (uint32_t j = 0; j < T * E; ++j)
            logits[j] += constants[i % 6];
        route_values(&moved, logits);
        check_once(&plain);
        check_once(&moved);
        assert_memory_equal(plain.ids, moved.ids, T * K * sizeof *plain.ids);
        assert_memory_equal(plain.weights, moved.weights, T * K * sizeof *plain.weights);
        free(logits);
        route_end(&plain);
        route_end(&moved);
    }
}

static void test_permuted_experts(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 16; ++i) {
        route_case plain, moved;
        const uint32_t E = i % 2 == 0 ? 64 : 301, T = 8, K = 7;
        uint32_t order[301];
        route_begin(&plain, "experts in order", T, E, K);
        plain.desc.router.score = (clmoe_score)(i % 4);
        plain.desc.router.has_expert_scale = i % 3 == 0;
        plain.desc.router.renormalize = (clmoe_renormalize)(i / 4 % 2);
        route_fill(&plain, LOGITS_UNIFORM, &chance);
        route_factors(&plain, FACTORS_SMALL, &chance);
        route_begin(&moved, "experts permuted", T, E, K);
        moved.desc.router = plain.desc.router;
        route_fill(&moved, LOGITS_UNIFORM, &chance);
        route_factors(&moved, FACTORS_SMALL, &chance);
        uint32_t *const from = plain.logits, *const to = moved.logits;
        for (uint32_t e = 0; e < E; ++e)
            order[e] = e;
        for (uint32_t e = E; e > 1; --e) {
            const uint32_t j = random_below(&chance, e), swap = order[e - 1];
            order[e - 1] = order[j];
            order[j] = swap;
        }
        for (uint32_t t = 0; t < T; ++t) {
            for (uint32_t e = 0; e < E; ++e) { /* no two logits of a row are the same */
                from[t * E + e] = (from[t * E + e] & 0xfffff000u) | e;
                to[t * E + order[e]] = from[t * E + e];
                if (plain.desc.router.has_expert_scale)
                    moved.expert_scale[order[e]] = plain.expert_scale[e];
            }
        }
        check_once(&plain);
        check_once(&moved);
        for (uint32_t j = 0; j < T * K; ++j) {
            const double a = oracle_f32(plain.weights[j]), b = oracle_f32(moved.weights[j]);
            assert_int_equal(moved.ids[j], order[plain.ids[j]]);
            assert_true(plain.desc.router.score == CLMOE_SCORE_IDENTITY || fabs(a - b) <= 2e-6 * fabs(a));
        }
        route_end(&plain);
        route_end(&moved);
    }
}

/* ---- How it is carried out ------------------------------------------------------------------------------------------------------ */
static void test_forced_tuning(void **state) {
    (void)state;
    const uint32_t groups[] = {1, 3, 1000}, sizes[] = {33, 0, 1, 100}, shapes[][2] = {{8, 2}, {64, 6}, {257, 9}, {1000, 16}, {60, 33}};
    const uint32_t most = device().max_group_size;
    uint32_t combination = 0;
    for (uint32_t g = 0; g < (is_parallel() ? COUNT(group_sizes) : 1); ++g) {
        for (uint32_t n = 0; n < 3; ++n, ++combination) {
            route_case c;
            clmoe_plan_info info;
            const uint32_t E = shapes[combination % 5][0], K = shapes[combination % 5][1];
            if (group_sizes[g] > most)
                continue;
            route_begin(&c, "forced tuning", 100, E, K);
            random_router(&c.desc.router, &chance);
            c.desc.tuning.group_size = group_sizes[g]; /* f32 alone: each size and type is a program to compile */
            c.desc.tuning.num_groups = groups[n];
            c.desc.tuning.num_launches = combination % 2;
            route_factors(&c, FACTORS_SMALL, &chance);
            clmoe_plan *plan = plan_for(&c);
            if (plan != NULL && clmoe_plan_describe(plan, 100, &info) == CLMOE_SUCCESS) {
                assert_int_equal(info.num_launches, 1);
                if (group_sizes[g] != 0 && info.note[0] == 0)
                    assert_int_equal(info.group_size, group_sizes[g]);
            }
            for (uint32_t s = 0; plan != NULL && s < COUNT(sizes); ++s) {
                c.num_tokens = fewer_tokens(sizes[s], E, K);
                route_fill(&c, (logit_fill)((combination + s * 4) % NUM_LOGIT_FILLS), &chance);
                check(plan, &c);
            }
            clmoe_plan_destroy(plan);
            route_end(&c);
        }
    }
    printf("forced tuning: %u combinations; %u plans and %llu calls refused\n", combination, plans_refused,
           (unsigned long long)rig.calls_refused);
}

static void test_description(void **state) {
    (void)state;
    route_case c;
    clmoe_plan_info info;
    route_begin(&c, "description", 100, 64, 8);
    clmoe_plan *plan = plan_for(&c);
    for (uint32_t t = 0; t <= 100; t += 25) {
        assert_int_equal(clmoe_plan_describe(plan, t, &info), CLMOE_SUCCESS);
        assert_int_equal(info.num_launches, 1);
        assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
        assert_true(info.bytes_read >= t * 64ull * 4 && info.bytes_written >= t * 8ull * 8);
        assert_true(strstr(info.name, "route") != NULL && strstr(info.name, "f32") != NULL);
    }
    assert_int_equal(clmoe_plan_describe(plan, 101, &info), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_plan_describe(plan, (size_t)1 << 32, &info), CLMOE_INVALID_ARGUMENT);
    clmoe_plan_destroy(plan);
    route_end(&c);
}

static void test_used_workspace(void **state) { /* a large call, then small ones and large ones, and every byte that may lie there */
    (void)state;
    const uint32_t shapes[][2] = {{64, 8}, {300, 33}, {1024, 2}, {4096, 8}}, sizes[] = {40, 1, 33, 0, 40, 7};
    const unsigned char bytes[] = {0, 0xFF, 0x01, 0x80};
    for (uint32_t i = 0; i < 2 * COUNT(shapes); ++i) {
        route_case c;
        const uint32_t E = shapes[i / 2][0], K = shapes[i / 2][1];
        route_begin(&c, "used workspace", fewer_tokens(40, E, K), E, K);
        random_router(&c.desc.router, &chance);
        route_factors(&c, FACTORS_LARGE, &chance);
        clmoe_plan *plan = plan_for(&c);
        rig.keep_workspace = true;
        for (uint32_t s = 0; s < COUNT(sizes); ++s) {
            c.num_tokens = sizes[s] < c.desc.max_tokens ? sizes[s] : c.desc.max_tokens;
            route_fill(&c, (logit_fill)((i * 5 + s * 2) % NUM_LOGIT_FILLS), &chance);
            check(plan, &c);
        }
        rig.keep_workspace = false;
        for (uint32_t b = 0; b < COUNT(bytes); ++b) {
            c.scratch = bytes[b];
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

static void test_same_every_time(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; ++i) {
        route_case c;
        route_begin(&c, "again and again", fewer_tokens(100, 256, 8), 256, 8);
        random_router(&c.desc.router, &chance);
        c.desc.logit_type = (clmoe_logit_type)i;
        route_fill(&c, LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        clmoe_plan *plan = plan_for(&c);
        uint64_t first = 0;
        for (uint32_t round = 0; round < 20; ++round) {
            rig.hash = 0;
            check(plan, &c);
            first = round == 0 ? rig.hash : first;
            assert_true(rig.hash == first);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

static void test_queues(void **state) {
    (void)state;
    const uint32_t sizes[] = {0, 5, 60};
    for (uint32_t i = 0; i < 6; ++i) {
        route_case c;
        op_call call;
        clmoe_route_args args;
        route_begin(&c, "queues", 60, i < 3 ? 256 : 60, 4);
        random_router(&c.desc.router, &chance);
        c.num_tokens = sizes[i % 3];
        route_fill(&c, LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        clmoe_plan *plan = plan_for(&c);
        route_call(&call, &args, plan, &c);
        if (!call_on_queues(&rig, &call) || !route_judge(&rig, &call, &c))
            fail_msg("%s", rig.failure);
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8}, sizes[] = {0, 1, 7, 100, 1000};
    const align_rig outer = rig;
    uint64_t hashes[4] = {0};
    if (rig.queue != NULL)
        return;
    for (uint32_t t = 0; t < COUNT(threads); ++t) {
        clmoe_context_options options = {0};
        clmoe_context *context = NULL;
        random_stream same = {99};
        options.num_threads = threads[t];
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        rig_begin(&rig, context, NULL);
        for (uint32_t i = 0; i < 6; ++i) {
            route_case c;
            route_begin(&c, "threads", 1000, i % 2 == 0 ? 64 : 200, 8);
            random_router(&c.desc.router, &same);
            route_factors(&c, FACTORS_SMALL, &same);
            clmoe_plan *plan = plan_for(&c);
            for (uint32_t s = 0; s < COUNT(sizes); ++s) {
                c.num_tokens = sizes[s];
                route_fill(&c, LOGITS_NORMAL, &same);
                check(plan, &c);
            }
            clmoe_plan_destroy(plan);
            route_end(&c);
        }
        hashes[t] = rig.hash;
        assert_true(hashes[t] == hashes[0]);
        rig_end(&rig);
        clmoe_context_destroy(context);
    }
    rig = outer;
}

/* ---- Without denormal numbers ----------------------------------------------------------------------------------------------------- */
#if defined(__SSE2__)
#define FLUSH_TO_ZERO 0x8040u /* denormal results and operands are 0, as on some devices */

static void test_without_denormals(void **state) {
    (void)state;
    clmoe_context_options options = {.num_threads = 1};
    clmoe_context *context = NULL;
    if (rig.queue != NULL)
        return;
    const align_rig outer = rig;
    const uint32_t usual = _mm_getcsr(), num_cases = fixture_cases(400, 1, 1);
    assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
    rig_begin(&rig, context, NULL);
    for (uint32_t i = 0; i < num_cases; ++i) {
        route_case c;
        op_call call;
        clmoe_route_args args;
        const uint32_t E = 1 + random_below(&chance, 40), K = i % 2 == 0 ? E : 1 + random_below(&chance, E);
        route_begin(&c, "without denormal numbers", 30, E, K);
        random_router(&c.desc.router, &chance);
        c.desc.logit_type = (clmoe_logit_type)(i % 3);
        route_fill(&c, (logit_fill)(i % 3 == 0 ? LOGITS_WIDE : i / 3 % NUM_LOGIT_FILLS), &chance);
        route_factors(&c, (factor_fill)(i % NUM_FACTOR_FILLS), &chance);
        clmoe_plan *plan = plan_for(&c);
        check(plan, &c);
        route_call(&call, &args, plan, &c);
        assert_true(call_prepare(&rig, &call));
        _mm_setcsr(usual | FLUSH_TO_ZERO);
        const clmoe_status status = clmoe_route_enqueue(plan, NULL, &args, 0, NULL, NULL);
        _mm_setcsr(usual);
        assert_int_equal(status, CLMOE_SUCCESS);
        assert_true(call_check(&rig, &call));
        const uint32_t *const ids = call_output(&rig, &call, ROUTE_IDS), *const weights = call_output(&rig, &call, ROUTE_WEIGHTS);
        for (uint32_t f = 0; f < 30 * K; ++f) {
            if (ids[f] != (uint32_t)c.ids[f] || weights[f] != c.weights[f])
                fail_msg("%s\n    row %u, slot %u: expert %d with 0x%08x, without denormal numbers %d with 0x%08x", call.name, f / K, f % K,
                         c.ids[f], c.weights[f], (int32_t)ids[f], weights[f]);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
    rig_end(&rig);
    clmoe_context_destroy(context);
    rig = outer;
}
#endif

static void test_random(void **state) {
    (void)state;
    deck experts =
        DECK(1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 60, 63, 64, 65, 72, 128, 160, 255, 256, 257, 288, 384, 512, 576, 896, 1000, 1024, 4096);
    deck chosen = DECK(1, 2, 3, 4, 5, 6, 8, 9, 10, 16, 22, 31, 32, 33, 63, 64, 5000);
    deck tokens = DECK(0, 1, 2, 3, 7, 16, 33, 64, 100, 128, 200), fills = DECK(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
    deck types = DECK(0, 1, 2), factors = DECK(0, 0, 1, 2, 3), sizes = DECK(0, 0, 0, 32, 64, 256), groups = DECK(0, 0, 1, 3, 1000);
    const uint32_t num_plans = fixture_cases(500, 200, 120), most = device().max_group_size;
    for (uint32_t p = 0; p < num_plans; ++p) {
        route_case c;
        const uint32_t E = deck_deal(&experts, &chance), dealt = deck_deal(&chosen, &chance);
        const uint32_t all = E <= 600 ? E : 64, K = dealt < all ? dealt : all;
        const uint32_t T = fewer_tokens(deck_deal(&tokens, &chance), E, K);
        route_begin(&c, "", T, E, K);
        random_router(&c.desc.router, &chance);
        c.desc.max_tokens = T + (random_below(&chance, 3) == 0 ? random_below(&chance, 1000) : 0);
        c.desc.logit_type = (clmoe_logit_type)deck_deal(&types, &chance);
        const uint32_t size = deck_deal(&sizes, &chance);
        c.desc.tuning.group_size = is_parallel() && size <= most && c.desc.logit_type == CLMOE_LOGIT_F32 ? size : 0;
        c.desc.tuning.num_groups = deck_deal(&groups, &chance);
        c.desc.tuning.num_launches = random_below(&chance, 2);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t call = 0; plan != NULL && call < 3; ++call) {
            const logit_fill how = (logit_fill)deck_deal(&fills, &chance);
            snprintf(c.name, sizeof c.name, "random plan %u, call %u, %s", p, call, logit_fill_names[how]);
            c.num_tokens = call == 0 ? T : random_below(&chance, T + 1);
            c.row_stride = random_below(&chance, 2) == 0 ? 0 : E + random_below(&chance, 9);
            c.shift = shifts[random_below(&chance, 3)];
            c.slack = random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0;
            c.scratch = (unsigned char)random_below(&chance, 256);
            rig.keep_workspace = random_below(&chance, 2) != 0;
            route_fill(&c, how, &chance);
            route_factors(&c, (factor_fill)deck_deal(&factors, &chance), &chance);
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
    printf("random: %u plans, 3 calls each\n", num_plans);
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------- */
static void expect_text(const char *what, const char *named, const char *or_this) {
    char text[600];
    const size_t needed = clmoe_context_error(rig.context, text, sizeof text);
    if (strstr(text, named) == NULL && strstr(text, or_this) == NULL)
        fail_msg("%s: the text does not name \"%s\": \"%s\"", what, named, text);
    assert_int_equal(needed, strlen(text) + 1);
}

#define REFUSED(named, change)                                                                                                             \
    do {                                                                                                                                   \
        clmoe_route_args wrong = args;                                                                                                     \
        change;                                                                                                                            \
        if (!call_refused(&rig, &call, &wrong, #change, named))                                                                            \
            fail_msg("%s", rig.failure);                                                                                                   \
    } while (0)

static void test_refused_arguments(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 4; ++v) { /* bias and scale or neither; views that are just long enough or longer */
        route_case c;
        op_call call;
        clmoe_route_args args;
        route_begin(&c, "refusals", 20, 10, 3);
        c.desc.logit_type = (clmoe_logit_type)(v % 3);
        c.desc.router.has_bias = v % 2 == 0;
        c.desc.router.has_expert_scale = v < 2;
        c.num_tokens = 16;
        c.row_stride = v == 0 ? 0 : 12;
        c.slack = v < 2 ? 0 : 5;
        route_fill(&c, LOGITS_NORMAL, &chance);
        route_factors(&c, FACTORS_SMALL, &chance);
        clmoe_plan *plan = plan_for(&c);
        check(plan, &c);
        route_call(&call, &args, plan, &c);
        if (!call_refuses_views(&rig, &call) || !call_prepare(&rig, &call))
            fail_msg("%s", rig.failure);
        REFUSED("num_tokens", wrong.num_tokens = 21);
        REFUSED("num_tokens", wrong.num_tokens = UINT32_MAX);
        REFUSED("row_stride", wrong.row_stride = 9);
        REFUSED("logits", wrong.row_stride = UINT32_MAX);  /* T * stride does not fit the view, nor 32 bits */
        REFUSED("logits", wrong.row_stride = 0x80000001u); /* its low bits would */
        if (c.bias == NULL)
            REFUSED("bias", wrong.bias = args.logits);
        else
            REFUSED("bias", memset(&wrong.bias, 0, sizeof wrong.bias));
        if (c.expert_scale == NULL)
            REFUSED("expert_scale", wrong.expert_scale = args.logits);
        else
            REFUSED("expert_scale", memset(&wrong.expert_scale, 0, sizeof wrong.expert_scale));
        clmoe_plan_destroy(plan);
        route_end(&c);
    }
}

#define PLAN_REFUSED_OR(named, or_this, change)                                                                                            \
    do {                                                                                                                                   \
        clmoe_route_desc desc = valid;                                                                                                     \
        clmoe_router *const r = &desc.router;                                                                                              \
        clmoe_plan *plan = NULL;                                                                                                           \
        change;                                                                                                                            \
        (void)r;                                                                                                                           \
        const clmoe_status status = clmoe_route_plan_create(rig.context, &desc, &plan);                                                    \
        if (status != CLMOE_INVALID_ARGUMENT)                                                                                              \
            fail_msg("%s: %s, not refused", #change, clmoe_status_name(status));                                                           \
        assert_null(plan);                                                                                                                 \
        expect_text(#change, named, or_this);                                                                                              \
        check(good, &c);                                                                                                                   \
    } while (0)
#define PLAN_REFUSED(named, change) PLAN_REFUSED_OR(named, named, change)

static void test_refused_descriptors(void **state) {
    (void)state;
    route_case c;
    clmoe_plan *none = NULL;
    const float nan = (float)NAN, inf = (float)INFINITY;
    route_begin(&c, "after a refused plan", 6, 16, 2);
    route_fill(&c, LOGITS_NORMAL, &chance);
    clmoe_plan *good = plan_for(&c);
    clmoe_route_desc valid = c.desc;
    PLAN_REFUSED("desc.logit_type", desc.logit_type = (clmoe_logit_type)3);
    PLAN_REFUSED("desc.logit_type", desc.logit_type = (clmoe_logit_type)-1);
    PLAN_REFUSED("desc.max_tokens", desc.max_tokens = 1u << 30);
    PLAN_REFUSED("desc.max_tokens", desc.max_tokens = 1u << 31); /* times 2 is 0 in 32 bits */
    PLAN_REFUSED("desc.max_tokens", desc.max_tokens = UINT32_MAX);
    PLAN_REFUSED("desc.router.num_experts", r->num_experts = 0);
    PLAN_REFUSED("desc.router.top_k", r->top_k = 0);
    PLAN_REFUSED("desc.router.top_k", r->top_k = 17);
    PLAN_REFUSED("desc.router.top_k", r->top_k = UINT32_MAX);
    PLAN_REFUSED("desc.router.score", r->score = (clmoe_score)4);
    PLAN_REFUSED("desc.router.score", r->score = (clmoe_score)-1);
    PLAN_REFUSED("desc.router.weight_source", r->weight_source = (clmoe_weight_source)3);
    PLAN_REFUSED("desc.router.weight_source", r->weight_source = (clmoe_weight_source)-1);
    PLAN_REFUSED("desc.router.renormalize", r->renormalize = (clmoe_renormalize)4);
    PLAN_REFUSED("desc.router.renormalize", r->renormalize = (clmoe_renormalize)-1);
    PLAN_REFUSED("desc.router.group_filter", r->group_filter = (clmoe_group_filter)3);
    PLAN_REFUSED("desc.router.group_filter", r->group_filter = (clmoe_group_filter)-1);
    PLAN_REFUSED("desc.router.softcap", r->softcap = -1);
    PLAN_REFUSED("desc.router.softcap", r->softcap = nan);
    PLAN_REFUSED("desc.router.softcap", r->softcap = inf);
    PLAN_REFUSED("desc.router.scale", r->scale = nan);
    PLAN_REFUSED("desc.router.scale", r->scale = inf);
    PLAN_REFUSED("desc.router.epsilon", r->epsilon = 1e-20f); /* nothing that it could be added to */
    PLAN_REFUSED("desc.router.epsilon", r->epsilon = 1e-20f; r->renormalize = CLMOE_RENORMALIZE_SUM);
    for (int with = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON; with <= CLMOE_RENORMALIZE_MAX_EPSILON; ++with) {
        PLAN_REFUSED("desc.router.epsilon", r->epsilon = -1e-20f; r->renormalize = (clmoe_renormalize)with);
        PLAN_REFUSED("desc.router.epsilon", r->epsilon = nan; r->renormalize = (clmoe_renormalize)with);
        PLAN_REFUSED("desc.router.epsilon", r->epsilon = inf; r->renormalize = (clmoe_renormalize)with);
    }
    PLAN_REFUSED("desc.tuning.num_launches", desc.tuning.num_launches = 4);
    PLAN_REFUSED("desc.tuning.num_groups", desc.tuning.num_groups = 65537);
    if (is_parallel()) {
        PLAN_REFUSED("desc.tuning.group_size", desc.tuning.group_size = device().max_group_size + 1);
        PLAN_REFUSED("desc.tuning.group_size", desc.tuning.group_size = UINT32_MAX);
    }
    for (int with = CLMOE_GROUPS_MAX; with <= CLMOE_GROUPS_TOP2_SUM; ++with) {
        valid.router.group_filter = (clmoe_group_filter)with;
        valid.router.num_groups = 4;
        valid.router.kept_groups = 2;
        PLAN_REFUSED("desc.router.num_groups", r->num_groups = 0);
        PLAN_REFUSED("desc.router.num_groups", r->num_groups = 3);
        PLAN_REFUSED("desc.router.num_groups", r->num_groups = 17);
        PLAN_REFUSED("desc.router.num_groups", r->num_groups = 32);
        PLAN_REFUSED("desc.router.num_groups", r->num_groups = UINT32_MAX);
        PLAN_REFUSED("desc.router.kept_groups", r->kept_groups = 0);
        PLAN_REFUSED("desc.router.kept_groups", r->kept_groups = 5);
        PLAN_REFUSED("desc.router.kept_groups", r->kept_groups = UINT32_MAX);
        PLAN_REFUSED_OR("desc.router.kept_groups", "desc.router.top_k", r->top_k = 9);
        PLAN_REFUSED_OR("desc.router.kept_groups", "desc.router.top_k", r->top_k = 5; r->kept_groups = 1);
    }
    PLAN_REFUSED("desc.router.num_groups", r->num_groups = 16); /* one expert has no second best */
    assert_int_equal(clmoe_route_plan_create(NULL, &c.desc, &none), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_route_plan_create(rig.context, NULL, &none), CLMOE_INVALID_ARGUMENT);
    expect_text("desc NULL", "desc", "desc");
    assert_int_equal(clmoe_route_plan_create(rig.context, &c.desc, NULL), CLMOE_INVALID_ARGUMENT);
    expect_text("plan NULL", "plan", "plan");
    assert_null(none);
    check(good, &c);
    clmoe_plan_destroy(good);
    route_end(&c);
}

/* Sizes whose products come out small in 32 or in 64 bits; experts that no memory holds. */
static void test_sizes_that_wrap(void **state) {
    (void)state;
    const uint32_t experts[] = {1u << 30, 1u << 31, (1u << 30) + 16, 1431655766u, UINT32_MAX};
    route_case c;
    clmoe_plan *plan = NULL;
    route_begin(&c, "after sizes that wrap", 50, 16, 1);
    route_fill(&c, LOGITS_NORMAL, &chance);
    clmoe_plan *good = plan_for(&c);
    for (uint32_t i = 0; i < COUNT(experts); ++i) {
        clmoe_route_desc desc = c.desc;
        desc.router.num_experts = experts[i];
        const clmoe_status status = clmoe_route_plan_create(rig.context, &desc, &plan);
        if (status == CLMOE_SUCCESS) { /* then the view of 64 bytes is too short for it */
            clmoe_route_args args = {.num_tokens = 1, .logits = {0}};
            op_call call;
            clmoe_route_args valid;
            route_call(&call, &valid, good, &c);
            assert_true(call_prepare(&rig, &call));
            args = valid;
            args.num_tokens = 1;
            args.logits.size_bytes = 64;
            assert_int_equal(clmoe_route_enqueue(plan, rig.queue, &args, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
            assert_true(call_untouched(&rig, &call));
            clmoe_plan_destroy(plan);
            plan = NULL;
        } else
            assert_true(status == CLMOE_UNSUPPORTED || status == CLMOE_INVALID_ARGUMENT);
    }
    check(good, &c);
    clmoe_plan_destroy(good);
    clmoe_route_desc desc = c.desc;
    desc.max_tokens = (1u << 30) + 1;
    if (clmoe_route_plan_create(rig.context, &desc, &plan) == CLMOE_SUCCESS) { /* (T - 1) * stride is 2^61, 2^63 bytes */
        op_call call;
        clmoe_route_args args;
        good = plan_for(&c);
        route_call(&call, &args, good, &c);
        assert_true(call_prepare(&rig, &call));
        args.num_tokens = desc.max_tokens;
        args.row_stride = 1u << 31;
        const clmoe_status status = clmoe_route_enqueue(plan, rig.queue, &args, 0, NULL, NULL);
        assert_int_equal(status, CLMOE_INVALID_ARGUMENT);
        assert_true(call_untouched(&rig, &call));
        clmoe_plan_destroy(plan);
        clmoe_plan_destroy(good);
    } else
        assert_true(rig.ends_long_loops);
    route_end(&c);
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
    printf(
        "%s: %llu calls checked with %llu rows; rounding decided in %llu, %llu weights lay on an edge; %u plans and %llu calls refused\n",
        fixture_pair(), (unsigned long long)rig.calls, (unsigned long long)rows_judged, (unsigned long long)rows_unclear,
        (unsigned long long)weights_unweighed, plans_refused, (unsigned long long)rig.calls_refused);
    for (size_t i = 0; i < sizeof kept / sizeof **kept; ++i)
        clmoe_plan_destroy(kept[i / 8][i % 8]);
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260107;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),
        TEST(test_golden_edges),
        TEST(test_golden_bias),
        TEST(test_golden_groups),
        TEST(test_every_half),
        TEST(test_experts),
        TEST(test_every_number_of_experts),
        TEST(test_every_number_chosen),
        TEST(test_all_are_chosen),
        TEST(test_thousands_of_experts),
        TEST(test_tokens),
        TEST(test_contents),
        TEST(test_exactness),
        TEST(test_far_below),
        TEST(test_oracle_decides),
        TEST(test_rows_stand_alone),
        TEST(test_bad_neighbours),
        TEST(test_added_constants),
        TEST(test_permuted_experts),
        TEST(test_forced_tuning),
        TEST(test_description),
        TEST(test_used_workspace),
        TEST(test_same_every_time),
        TEST(test_queues),
        TEST(test_number_of_threads),
#if defined(__SSE2__)
        TEST(test_without_denormals),
#endif
        TEST(test_random),
        TEST(test_refused_arguments),
        TEST(test_refused_descriptors),
        TEST(test_sizes_that_wrap),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
