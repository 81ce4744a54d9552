/* test_route_agree.c - all five pairs of device and class in one process give the same bits of ids and weights, for random and adverse rows
 * and a dozen routers. Each pair's results are hashed, and compared with the first pair's byte for byte, so that a failure names its row.
 *
 *     test_route_agree             100,000 rows, whose hash is known
 *     test_route_agree 10000000 8  as many rows as that; rusticl, which needs 0.1 ms for each, takes one batch in 8
 */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EVERYDAY_HASH 0x5d76a2dfe25fff3aull
#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

static clmoe_context *contexts[NUM_FIXTURE_PAIRS];
static uint64_t hashes[NUM_FIXTURE_PAIRS], first_hashes[NUM_FIXTURE_PAIRS]; /* of a pair; of the first pair over the same batches */
static uint64_t rows_of[NUM_FIXTURE_PAIRS];
static double seconds[NUM_FIXTURE_PAIRS];
static random_stream chance = {61};
static uint64_t wanted_rows; /* 0 = the everyday ones */
static uint32_t slow_share = 1;

static const struct {
    uint32_t share; /* of the rows, in percent */
    clmoe_logit_type type;
    clmoe_router router;
} families[] = {
    {5, CLMOE_LOGIT_F32, {.num_experts = 32, .top_k = 4}},
    {4, CLMOE_LOGIT_F32, {.num_experts = 10, .top_k = 10, .renormalize = CLMOE_RENORMALIZE_SUM}}, /* the smallest weights are seen too */
    {2, CLMOE_LOGIT_F32, {.num_experts = 12, .top_k = 12}},
    {7, CLMOE_LOGIT_BF16, {.num_experts = 8, .top_k = 2, .renormalize = CLMOE_RENORMALIZE_SUM}},
    {9, CLMOE_LOGIT_F16, {.num_experts = 32, .top_k = 4, .score = CLMOE_SCORE_IDENTITY, .weight_source = CLMOE_WEIGHTS_SOFTMAX_CHOSEN}},
    {7, CLMOE_LOGIT_F32, {.num_experts = 16, .top_k = 1, .score = CLMOE_SCORE_IDENTITY, .weight_source = CLMOE_WEIGHTS_SIGMOID_CHOSEN}},
    {9,
     CLMOE_LOGIT_F32,
     {.num_experts = 60,
      .top_k = 6,
      .score = CLMOE_SCORE_SIGMOID,
      .has_bias = 1,
      .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON,
      .epsilon = 1e-20f,
      .scale = 2.5f}},
    {9,
     CLMOE_LOGIT_F32,
     {.num_experts = 32,
      .top_k = 6,
      .score = CLMOE_SCORE_SIGMOID,
      .has_bias = 1,
      .group_filter = CLMOE_GROUPS_TOP2_SUM,
      .num_groups = 8,
      .kept_groups = 4,
      .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON,
      .epsilon = 1e-20f,
      .scale = 2.5f}},
    {8, CLMOE_LOGIT_F16, {.num_experts = 40, .top_k = 6, .group_filter = CLMOE_GROUPS_MAX, .num_groups = 8, .kept_groups = 3, .scale = 16}},
    {9,
     CLMOE_LOGIT_F32,
     {.num_experts = 48,
      .top_k = 6,
      .score = CLMOE_SCORE_SQRT_SOFTPLUS,
      .has_bias = 1,
      .renormalize = CLMOE_RENORMALIZE_SUM,
      .scale = 1.5f}},
    {8, CLMOE_LOGIT_BF16, {.num_experts = 64, .top_k = 6, .has_bias = 1, .renormalize = CLMOE_RENORMALIZE_MAX_EPSILON, .epsilon = 1e-12f}},
    {9, CLMOE_LOGIT_F32, {.num_experts = 8, .top_k = 2, .softcap = 30}},
    {7,
     CLMOE_LOGIT_F32,
     {.num_experts = 24,
      .top_k = 5,
      .score = CLMOE_SCORE_IDENTITY,
      .softcap = 5,
      .has_bias = 1,
      .renormalize = CLMOE_RENORMALIZE_SUM,
      .has_expert_scale = 1}},
    {3, CLMOE_LOGIT_BF16, {.num_experts = 33, .top_k = 3, .group_filter = CLMOE_GROUPS_TOP2_SUM, .num_groups = 11, .kept_groups = 2}},
    {2,
     CLMOE_LOGIT_F16,
     {.num_experts = 63, .top_k = 4, .score = CLMOE_SCORE_SQRT_SOFTPLUS, .renormalize = CLMOE_RENORMALIZE_SUM, .has_expert_scale = 1}},
    {1,
     CLMOE_LOGIT_F32,
     {.num_experts = 256,
      .top_k = 8,
      .score = CLMOE_SCORE_SIGMOID,
      .has_bias = 1,
      .group_filter = CLMOE_GROUPS_TOP2_SUM,
      .num_groups = 8,
      .kept_groups = 4,
      .renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON,
      .epsilon = 1e-20f,
      .scale = 2.5f}},
    {1, CLMOE_LOGIT_F32, {.num_experts = 768, .top_k = 12, .has_bias = 1, .scale = 6}},
};

/* What one pair needs for one family. */
typedef struct lane {
    clmoe_plan *plan;
    clmoe_route_args args;
    unsigned char *ids, *weights;
} lane;

static void must(clmoe_status status, int pair, const char *what) {
    char text[400];
    clmoe_context_error(contexts[pair], text, sizeof text);
    if (status != CLMOE_SUCCESS)
        fail_msg("%s: %s: %s: %s", fixture_pairs[pair], what, clmoe_status_name(status), text);
}

static void open_lane(lane *l, int pair, const clmoe_route_desc *desc) {
    clmoe_context *const context = contexts[pair];
    const size_t E = desc->router.num_experts, rows = desc->max_tokens, results = rows * desc->router.top_k * 4;
    memset(l, 0, sizeof *l);
    must(clmoe_route_plan_create(context, desc, &l->plan), pair, "plan");
    must(clmoe_buffer_create(context, rows * E * logit_bytes(desc->logit_type), &l->args.logits), pair, "logits");
    must(clmoe_buffer_create(context, desc->router.has_bias ? E * 4 : 0, &l->args.bias), pair, "bias");
    must(clmoe_buffer_create(context, desc->router.has_expert_scale ? E * 4 : 0, &l->args.expert_scale), pair, "expert_scale");
    must(clmoe_buffer_create(context, results, &l->args.topk_ids), pair, "topk_ids");
    must(clmoe_buffer_create(context, results, &l->args.topk_weights), pair, "topk_weights");
    must(clmoe_buffer_create(context, clmoe_plan_workspace_bytes(l->plan), &l->args.workspace), pair, "workspace");
    l->args.num_tokens = desc->max_tokens;
    l->ids = test_malloc(results);
    l->weights = test_malloc(results);
}

static void close_lane(lane *l, int pair) {
    clmoe_buffer *const buffers[] = {&l->args.logits,   &l->args.bias,         &l->args.expert_scale,
                                     &l->args.topk_ids, &l->args.topk_weights, &l->args.workspace};
    for (uint32_t i = 0; i < COUNT(buffers); ++i)
        clmoe_buffer_destroy(contexts[pair], *buffers[i]);
    clmoe_plan_destroy(l->plan);
    test_free(l->ids);
    test_free(l->weights);
}

static void run_lane(lane *l, int pair, const route_case *c) {
    clmoe_context *const context = contexts[pair];
    const size_t E = c->desc.router.num_experts, results = (size_t)c->num_tokens * c->desc.router.top_k * 4;
    const double begin = fixture_seconds();
    must(clmoe_buffer_write(context, l->args.logits, c->logits, c->num_tokens * E * logit_bytes(c->desc.logit_type)), pair, "logits");
    if (c->bias != NULL)
        must(clmoe_buffer_write(context, l->args.bias, c->bias, E * 4), pair, "bias");
    if (c->expert_scale != NULL)
        must(clmoe_buffer_write(context, l->args.expert_scale, c->expert_scale, E * 4), pair, "expert_scale");
    must(clmoe_route_enqueue(l->plan, clmoe_context_queue(context), &l->args, 0, NULL, NULL), pair, "enqueue");
    must(clmoe_buffer_read(context, l->args.topk_ids, l->ids, results), pair, "topk_ids");
    must(clmoe_buffer_read(context, l->args.topk_weights, l->weights, results), pair, "topk_weights");
    hashes[pair] = hash64_of(hash64_of(hashes[pair], l->ids, results), l->weights, results);
    rows_of[pair] += c->num_tokens;
    seconds[pair] += fixture_seconds() - begin;
}

static void compare(const lane *first, const lane *other, int pair, const route_case *c) {
    const uint32_t K = c->desc.router.top_k;
    const size_t results = (size_t)c->num_tokens * K * 4;
    first_hashes[pair] = hash64_of(hash64_of(first_hashes[pair], first->ids, results), first->weights, results);
    for (uint32_t f = 0; hashes[pair] != first_hashes[pair] && f < c->num_tokens * K; ++f) {
        int32_t id[2];
        uint32_t weight[2];
        memcpy(&id[0], first->ids + 4 * (size_t)f, 4);
        memcpy(&id[1], other->ids + 4 * (size_t)f, 4);
        memcpy(&weight[0], first->weights + 4 * (size_t)f, 4);
        memcpy(&weight[1], other->weights + 4 * (size_t)f, 4);
        if (id[0] != id[1] || weight[0] != weight[1])
            fail_msg("%s, row %u, slot %u: expert %d with 0x%08x on %s, %d with 0x%08x on %s", c->name, f / K, f % K, id[0], weight[0],
                     fixture_pairs[0], id[1], weight[1], fixture_pairs[pair]);
    }
    assert_true(hashes[pair] == first_hashes[pair]);
}

/* Whether the pair takes part in this batch. */
static bool takes(int pair, uint64_t batch) {
    return strstr(fixture_pairs[pair], "rusticl") == NULL || batch % slow_share == 0;
}

static void run_family(uint32_t family, uint64_t rows) {
    route_case c;
    lane lanes[NUM_FIXTURE_PAIRS];
    const clmoe_router *const router = &families[family].router;
    uint32_t batch = router->num_experts > 64 ? 1024 : 8192;
    const uint64_t fair = (rows + NUM_LOGIT_FILLS - 1) / NUM_LOGIT_FILLS; /* every kind of logits has its turn */
    batch = batch < fair ? batch : (uint32_t)fair;
    route_begin(&c, "", batch, router->num_experts, router->top_k);
    c.desc.router = *router;
    c.desc.logit_type = families[family].type;
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p)
        open_lane(&lanes[p], p, &c.desc);
    for (uint64_t done = 0, turn = 0; done < rows; done += batch, ++turn) {
        const logit_fill how = (logit_fill)(turn % NUM_LOGIT_FILLS);
        snprintf(c.name, sizeof c.name, "family %u, batch %u, %s", family, (unsigned)turn, logit_fill_names[how]);
        route_fill(&c, how, &chance);
        route_factors(&c, (factor_fill)(turn / 2 % NUM_FACTOR_FILLS), &chance);
        for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
            if (!takes(p, turn))
                continue;
            run_lane(&lanes[p], p, &c);
            compare(&lanes[0], &lanes[p], p, &c);
        }
    }
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p)
        close_lane(&lanes[p], p);
    route_end(&c);
}

static void test_agree(void **state) {
    (void)state;
    const uint64_t rows = wanted_rows == 0 ? 100000 : wanted_rows;
    for (uint32_t family = 0; family < COUNT(families); ++family)
        run_family(family, rows * families[family].share / 100);
    assert_true(rows_of[0] >= rows);
    if (wanted_rows == 0)
        assert_true(hashes[0] == EVERYDAY_HASH);
}

static int open_pairs(void **state) {
    (void)state;
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
        contexts[p] = fixture_context(fixture_pairs[p]);
        if (contexts[p] == NULL)
            return -1;
    }
    return 0;
}

static int close_pairs(void **state) {
    (void)state;
    for (int p = 0; p < NUM_FIXTURE_PAIRS; ++p) {
        printf("%-16s %016llx over ids and weights of %llu rows, in %.1f s\n", fixture_pairs[p], (unsigned long long)hashes[p],
               (unsigned long long)rows_of[p], seconds[p]);
        clmoe_context_destroy(contexts[p]);
    }
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_agree)};
    slow_share = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
    wanted_rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, open_pairs, close_pairs);
}
