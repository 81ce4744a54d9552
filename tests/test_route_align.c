/* test_route_align.c - route and align in one call on one pair of device and class: byte for byte what the two calls give one after the
 * other, with every optional output, map, mask and foreign policy, in every number of launches; and every refusal. */
#include "fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static align_rig rig, align_only;
static random_stream chance;
static uint32_t plans_refused;
static clmoe_plan *kept[3][3][2]; /* route, align, route and align; by logit type; by group size */
static const uint32_t group_sizes[] = {0, 64}, shifts[] = {1, 3, 7};
#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

/* A call of the whole, and the two calls that it is compared with. */
typedef struct both_case {
    route_case route;
    align_case align;
} both_case;

static clmoe_device_info device(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info;
}

static bool is_parallel(void) {
    return device().kernel_class == CLMOE_CLASS_PARALLEL;
}

/* More than one launch takes, with 4 of 60 experts and blocks of 16. */
static uint32_t many_tokens(void) {
    return fixture_pair_has("rusticl") ? 60 : 300;
}

static void begin(both_case *c, const char *name, uint32_t T, uint32_t E, uint32_t K, uint32_t B) {
    route_begin(&c->route, name, T, E, K);
    case_begin(&c->align, name, T, K, E, B);
}

static void end(both_case *c) {
    route_end(&c->route);
    case_end(&c->align);
}

static void set_tokens(both_case *c, uint32_t T) {
    c->route.num_tokens = c->align.num_tokens = T;
}

static clmoe_route_align_desc desc_of(const both_case *c) {
    const clmoe_align_desc *const a = &c->align.desc;
    return (clmoe_route_align_desc){.max_tokens = c->route.desc.max_tokens,
                                    .logit_type = c->route.desc.logit_type,
                                    .router = c->route.desc.router,
                                    .block_size = a->block_size,
                                    .foreign = a->foreign,
                                    .has_pad_value = a->has_pad_value,
                                    .pad_value = a->pad_value,
                                    .tuning = c->route.desc.tuning};
}

/* A driver that ends long loops may refuse what is forced, and rows and experts by the ten thousand. */
static bool may_refuse(const both_case *c) {
    const clmoe_tuning *const tuning = &c->route.desc.tuning;
    const bool forced = tuning->num_launches != 0 || tuning->group_size != 0 || tuning->num_groups != 0;
    return rig.ends_long_loops && (forced || route_may_refuse(&rig, &c->route));
}

static void fail_plan(const both_case *c, const char *what, clmoe_status status) {
    char text[400], name[480];
    clmoe_context_error(rig.context, text, sizeof text);
    route_describe(&c->route, name, sizeof name);
    fail_msg("%s, B %u, foreign %d: plan of %s: %s: %s", name, c->align.desc.block_size, (int)c->align.desc.foreign, what,
             clmoe_status_name(status), text);
}

/* NULL where a refusal is allowed. */
static clmoe_plan *plan_for(const both_case *c) {
    const clmoe_route_align_desc desc = desc_of(c);
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_route_align_plan_create(rig.context, &desc, &plan);
    if (status == CLMOE_UNSUPPORTED && may_refuse(c)) {
        ++plans_refused;
        return NULL;
    }
    if (status != CLMOE_SUCCESS)
        fail_plan(c, "the whole", status);
    for (uint32_t i = 0; i < COUNT(group_sizes) && rig.queue != NULL; ++i) { /* so that others find the program compiled */
        if (desc.tuning.group_size == group_sizes[i] && kept[2][desc.logit_type][i] == NULL)
            clmoe_route_align_plan_create(rig.context, &desc, &kept[2][desc.logit_type][i]);
    }
    return plan;
}

static clmoe_status enqueue(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                            cl_event *event) {
    return clmoe_route_align_enqueue(plan, queue, args, waits, list, event);
}

/* ---- The two calls -------------------------------------------------------------------------------------------------------------- */
/* Both are checked against their oracles; ids and weights stay in the route_case, the layout in the slots of the rig align_only. False
 * where a driver that ends long loops makes route refuse. */
static bool run_one_after_the_other(both_case *c) {
    clmoe_route_desc route_desc = c->route.desc;
    clmoe_align_desc align_desc = c->align.desc;
    clmoe_plan *route_plan = NULL, *align_plan = NULL;
    memset(&route_desc.tuning, 0, sizeof route_desc.tuning);
    align_desc.max_tokens = route_desc.max_tokens;
    clmoe_status status = clmoe_route_plan_create(rig.context, &route_desc, &route_plan);
    if (status != CLMOE_SUCCESS)
        fail_plan(c, "route", status);
    status = clmoe_align_plan_create(rig.context, &align_desc, &align_plan);
    if (status != CLMOE_SUCCESS)
        fail_plan(c, "align", status);
    if (rig.queue != NULL && kept[0][route_desc.logit_type][0] == NULL)
        clmoe_route_plan_create(rig.context, &route_desc, &kept[0][route_desc.logit_type][0]);
    if (rig.queue != NULL && kept[1][0][0] == NULL)
        clmoe_align_plan_create(rig.context, &align_desc, &kept[1][0][0]);

    const clmoe_tuning forced = c->route.desc.tuning;
    memset(&c->route.desc.tuning, 0, sizeof forced);
    const bool routed = run_route(&rig, route_plan, &c->route);
    c->route.desc.tuning = forced;
    if (!routed)
        fail_msg("%s", rig.failure);
    clmoe_plan_destroy(route_plan);
    if (c->route.ids == NULL) {
        clmoe_plan_destroy(align_plan);
        return false;
    }
    const size_t N = (size_t)c->route.num_tokens * c->route.desc.router.top_k;
    int64_t *const ids = malloc((N + 1) * sizeof *ids);
    assert_non_null(ids);
    for (size_t f = 0; f < N; ++f)
        ids[f] = c->route.ids[f];
    case_ids(&c->align, ids);
    memcpy(c->align.weights, c->route.weights, N * sizeof *c->align.weights);
    free(ids);
    if (!run_align(&align_only, align_plan, &c->align))
        fail_msg("%s", align_only.failure);
    clmoe_plan_destroy(align_plan);
    return true;
}

/* ---- The one call --------------------------------------------------------------------------------------------------------------- */
static const char *const align_names[NUM_SLOTS] = {
    "args.align.topk_ids",     "args.align.expert_map",       "args.align.row_mask",       "args.align.num_tokens_device",
    "args.align.topk_weights", "args.align.sorted_token_ids", "args.align.expert_ids",     "args.align.num_tokens_post_padded",
    "args.align.counts",       "args.align.offsets",          "args.align.padded_offsets", "args.align.inverse",
    "args.align.rows_valid",   "args.align.sorted_weights",   "args.align.status",         "args.align.workspace"};

static void add_input(op_call *call, clmoe_route_align_args *args, int slot, size_t width, size_t count, size_t slack, const void *data) {
    const size_t spare = data == NULL ? 0 : slack * width;
    call->operands[call->num_operands++] = (operand){.name = align_names[slot],
                                                     .view = slot_view(&args->align, slot),
                                                     .width = width,
                                                     .bytes = data == NULL ? 0 : count * width + spare,
                                                     .spare = spare,
                                                     .before = data,
                                                     .is_optional = true};
}

static void describe(op_call *call, clmoe_route_align_args *args, clmoe_plan *plan, const both_case *c) {
    op_call route;
    clmoe_route_args route_args;
    static const char *const route_names[] = {"args.route.logits", "args.route.bias", "args.route.expert_scale", "args.route.topk_ids",
                                              "args.route.topk_weights"};
    memset(args, 0, sizeof *args);
    route_call(&route, &route_args, plan, &c->route);
    *call = route;
    args->route = route_args;
    clmoe_buffer *const views[] = {&args->route.logits, &args->route.bias, &args->route.expert_scale, &args->route.topk_ids,
                                   &args->route.topk_weights};
    for (uint32_t i = 0; i < 5; ++i) {
        call->operands[i].name = route_names[i];
        call->operands[i].view = views[i];
    }
    call->operands[ROUTE_IDS].after = c->route.ids;
    call->operands[ROUTE_WEIGHTS].after = c->route.weights;
    call->operands[ROUTE_IDS].is_judged = call->operands[ROUTE_WEIGHTS].is_judged = false;
    call->num_operands = 5;
    call->args = args;
    call->args_bytes = sizeof *args;
    call->enqueue = enqueue;
    call->may_refuse = may_refuse(c);
    const size_t used = strlen(call->name);
    snprintf(call->name + used, sizeof call->name - used, " B %u, foreign %d", c->align.desc.block_size, (int)c->align.desc.foreign);
    add_input(call, args, SLOT_EXPERT_MAP, 4, c->align.desc.num_experts, c->align.slack, c->align.map);
    add_input(call, args, SLOT_ROW_MASK, 1, c->align.num_tokens, c->align.slack, c->align.mask);
    add_input(call, args, SLOT_NUM_TOKENS_DEVICE, 4, 1, 0, c->align.has_tokens_device ? &c->align.tokens_device : NULL);
    for (int s = SLOT_SORTED_TOKEN_IDS; s < SLOT_WORKSPACE; ++s) {
        const guarded *const reference = &align_only.slots[s];
        call->operands[call->num_operands++] =
            (operand){.name = align_names[s],
                      .view = slot_view(&args->align, s),
                      .width = 4,
                      .bytes = reference->view_bytes,
                      .after = reference->view_bytes == 0 ? NULL : reference->back + reference->view_offset,
                      .is_output = true,
                      .is_optional = s >= SLOT_COUNTS};
    }
    call_workspace(call, &args->workspace, 4);
}

static void check(clmoe_plan *plan, both_case *c) {
    op_call call;
    clmoe_route_align_args args;
    if (plan == NULL || !run_one_after_the_other(c))
        return;
    describe(&call, &args, plan, c);
    if (!call_run(&rig, &call))
        fail_msg("%s", rig.failure);
}

static void check_once(both_case *c) {
    clmoe_plan *plan = plan_for(c);
    check(plan, c);
    clmoe_plan_destroy(plan);
}

static void fill_all(both_case *c, logit_fill how) {
    route_fill(&c->route, how, &chance);
    route_factors(&c->route, FACTORS_SMALL, &chance);
}

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void test_golden(void **state) { /* the founding example, from logits */
    (void)state;
    const float logits[] = {2, -1, 1, -2, -3, 0.5f, 1, -3, 1, 0, 0.5f, -1, -1, -4, 0.25f, 3};
    const int32_t ids[] = {0, 2, 2, 1, 0, 2, 3, 2}, sorted[] = {0, 4, 3, 8, 1, 2, 5, 7, 6, 8, 8, 8}, experts[] = {0, 1, 2, 2, 3, -1};
    both_case c;
    begin(&c, "the founding example", 4, 4, 2, 2);
    c.route.desc.router.renormalize = CLMOE_RENORMALIZE_SUM;
    route_values(&c.route, logits);
    check_once(&c);
    assert_memory_equal(c.route.ids, ids, sizeof ids);
    assert_memory_equal(align_only.slots[SLOT_SORTED_TOKEN_IDS].back + align_only.slots[SLOT_SORTED_TOKEN_IDS].view_offset, sorted,
                        sizeof sorted);
    assert_memory_equal(align_only.slots[SLOT_EXPERT_IDS].back + align_only.slots[SLOT_EXPERT_IDS].view_offset, experts, sizeof experts);
    end(&c);
}

/* ---- How many launches ---------------------------------------------------------------------------------------------------------- */
static void test_launches(void **state) {
    (void)state;
    const uint32_t shapes[][2] = {{8, 2}, {32, 4}, {64, 8}, {128, 8}, {256, 8}, {512, 8}}, blocks[] = {1, 16, 64, 128};
    const uint32_t tokens[] = {0, 1, 8, 16, 17, 64, 257, 1000};
    for (uint32_t i = 0; i < COUNT(shapes) * COUNT(blocks); ++i) {
        both_case c;
        clmoe_plan_info info;
        begin(&c, "launches", 1000, shapes[i / 4][0], shapes[i / 4][1], blocks[i % 4]);
        clmoe_plan *plan = plan_for(&c);
        assert_non_null(plan);
        for (uint32_t t = 0; t < COUNT(tokens); ++t) {
            assert_int_equal(clmoe_plan_describe(plan, tokens[t], &info), CLMOE_SUCCESS);
            const bool must_be_one = tokens[t] <= 16 && !rig.ends_long_loops;
            if (must_be_one ? info.num_launches != 1 : info.num_launches < 1 || info.num_launches > 4)
                fail_msg("T %u, E %u, K %u, B %u: %u launches", tokens[t], shapes[i / 4][0], shapes[i / 4][1], blocks[i % 4],
                         info.num_launches);
            assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
        }
        assert_true(strstr(info.name, "route") != NULL && strstr(info.name, "align") != NULL);
        assert_int_equal(clmoe_plan_describe(plan, 1001, &info), CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
        end(&c);
    }
}

static void test_forced_launches(void **state) {
    (void)state;
    const uint32_t shapes[][3] = {{8, 2, 16}, {60, 4, 48}, {256, 8, 64}, {33, 33, 1}},
                   tokens[] = {0, 1, 16, many_tokens() / 2, many_tokens()};
    for (uint32_t i = 0; i < 4 * COUNT(shapes); ++i) {
        both_case c;
        clmoe_plan_info info;
        const uint32_t *const shape = shapes[i / 4], launches = 1 + i % 4;
        begin(&c, "forced launches", many_tokens(), shape[0], shape[1], shape[2]);
        random_router(&c.route.desc.router, &chance);
        c.route.desc.tuning.num_launches = launches;
        c.align.desc.foreign = (clmoe_foreign)(i % 3);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t t = 0; plan != NULL && t < COUNT(tokens); ++t) {
            set_tokens(&c, tokens[t]);
            fill_all(&c, LOGITS_NORMAL);
            case_map_fill(&c.align, (map_kind)((i + t) % NUM_MAP_KINDS), &chance);
            check(plan, &c);
            if (clmoe_plan_describe(plan, tokens[t], &info) == CLMOE_SUCCESS && info.num_launches != launches)
                fail_msg("%s: T %u: %u launches instead of %u", c.route.name, tokens[t], info.num_launches, launches);
            free(c.align.map);
            c.align.map = NULL;
        }
        clmoe_plan_destroy(plan);
        end(&c);
    }
}

/* ---- Sizes, policies, optional views -------------------------------------------------------------------------------------------- */
static void test_sizes(void **state) { /* one plan, every T, around the limits of one launch */
    (void)state;
    const uint32_t tokens[] = {0, 1, 2, 7, 15, 16, 17, 31, 33, 64, 65, 127, 129, 256, 257, 513, 600};
    const uint32_t shapes[][3] = {{8, 2, 16}, {32, 4, 64}, {64, 6, 1}, {256, 8, 16}, {384, 8, 128}, {1000, 3, 5}};
    for (uint32_t i = 0; i < COUNT(shapes); ++i) {
        both_case c;
        const uint32_t *const shape = shapes[i], most = fixture_pair_has("rusticl") ? 65 : 600;
        begin(&c, "sizes", most, shape[0], shape[1], shape[2]);
        random_router(&c.route.desc.router, &chance);
        c.route.desc.logit_type = (clmoe_logit_type)(i % 3);
        c.align.desc.foreign = (clmoe_foreign)(i / 2);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t t = 0; plan != NULL && t < COUNT(tokens) && tokens[t] <= most; ++t) {
            set_tokens(&c, tokens[t]);
            c.route.shift = c.align.shift = shifts[t % 3];
            fill_all(&c, (logit_fill)((t + i) % NUM_LOGIT_FILLS));
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        end(&c);
    }
}

static void test_policies(void **state) { /* every foreign policy with every map, mask and device-side T */
    (void)state;
    for (uint32_t foreign = 0; foreign < 3; ++foreign) {
        for (uint32_t map = 0; map < NUM_MAP_KINDS; ++map) {
            both_case c;
            const uint32_t T = map % 2 == 0 ? 12 : many_tokens();
            begin(&c, "policies", T, 60, 4, 16);
            c.align.desc.foreign = (clmoe_foreign)foreign;
            c.align.desc.has_pad_value = map % 2 == 0;
            c.align.desc.pad_value = -1;
            clmoe_plan *plan = plan_for(&c);
            for (uint32_t variant = 0; variant < 4; ++variant) {
                fill_all(&c, variant % 2 == 0 ? LOGITS_NORMAL : LOGITS_BAD_ROWS);
                case_map_fill(&c.align, (map_kind)map, &chance);
                if (variant >= 2)
                    case_mask(&c.align, variant == 2 ? 60 : 0, &chance);
                if (variant % 2 == 1)
                    case_tokens_device(&c.align, (const int32_t[]){7, -1, (int32_t)T + 5}[(map + variant / 2) % 3]);
                check(plan, &c);
                free(c.align.map);
                free(c.align.mask);
                c.align.map = NULL;
                c.align.mask = NULL;
                c.align.has_tokens_device = false;
            }
            clmoe_plan_destroy(plan);
            end(&c);
        }
    }
}

static void test_optional_views(void **state) { /* each one alone, all but one, none */
    (void)state;
    both_case c;
    begin(&c, "optional views", 40, 24, 3, 4);
    clmoe_plan *plan = plan_for(&c);
    for (uint32_t i = 0; i < 2 * 16; ++i) {
        const uint32_t which = i / 2 % 8 == 7 ? 0 : 1u << (i / 2 % 8);
        set_tokens(&c, i % 2 == 0 ? 9 : 40);
        c.align.optional = i < 16 ? which : OUT_ALL & ~which;
        c.align.capacity = 0;
        c.align.capacity = case_capacity(&c.align) + i % 3 * 4;
        fill_all(&c, LOGITS_NORMAL);
        check(plan, &c);
    }
    clmoe_plan_destroy(plan);
    end(&c);
}

static void test_used_workspace(void **state) {
    (void)state;
    const uint32_t most = many_tokens(), tokens[] = {most, 3, 17, 0, most, 16};
    const unsigned char bytes[] = {0, 0xFF, 0x01, 0x80};
    for (uint32_t i = 0; i < 4; ++i) {
        both_case c;
        begin(&c, "used workspace", most, i % 2 == 0 ? 64 : 300, 5, 16);
        random_router(&c.route.desc.router, &chance);
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t t = 0; t < COUNT(tokens) + COUNT(bytes); ++t) {
            op_call call;
            clmoe_route_align_args args;
            set_tokens(&c, t < COUNT(tokens) ? tokens[t] : i < 2 ? 16 : most);
            fill_all(&c, LOGITS_NORMAL);
            assert_true(run_one_after_the_other(&c));
            describe(&call, &args, plan, &c);
            call.scratch = t < COUNT(tokens) ? 0xA5 : bytes[t - COUNT(tokens)];
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
        end(&c);
    }
}

static void test_queues(void **state) {
    (void)state;
    const uint32_t tokens[] = {0, 9, many_tokens()};
    for (uint32_t i = 0; i < 3; ++i) {
        both_case c;
        op_call call;
        clmoe_route_align_args args;
        begin(&c, "queues", many_tokens(), 60, 4, 16);
        set_tokens(&c, tokens[i]);
        clmoe_plan *plan = plan_for(&c);
        fill_all(&c, LOGITS_NORMAL);
        assert_true(run_one_after_the_other(&c));
        describe(&call, &args, plan, &c);
        if (!call_on_queues(&rig, &call))
            fail_msg("%s", rig.failure);
        clmoe_plan_destroy(plan);
        end(&c);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8}, tokens[] = {5, 100, 3000};
    const align_rig outer = rig, outer_align = align_only;
    if (rig.queue != NULL)
        return;
    for (uint32_t t = 0; t < COUNT(threads); ++t) {
        clmoe_context_options options = {0};
        clmoe_context *context = NULL;
        options.num_threads = threads[t];
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        rig_begin(&rig, context, NULL);
        rig_begin(&align_only, context, NULL);
        for (uint32_t i = 0; i < 6; ++i) {
            both_case c;
            begin(&c, "threads", tokens[i % 3], 64, 8, 16);
            random_router(&c.route.desc.router, &chance);
            fill_all(&c, LOGITS_NORMAL);
            check_once(&c);
            end(&c);
        }
        rig_end(&rig);
        rig_end(&align_only);
        clmoe_context_destroy(context);
    }
    rig = outer;
    align_only = outer_align;
}

static void test_random(void **state) {
    (void)state;
    deck experts = DECK(1, 2, 3, 7, 8, 16, 31, 32, 33, 60, 64, 65, 128, 160, 255, 256, 257, 384, 512, 1000, 1024);
    deck chosen = DECK(1, 2, 3, 4, 6, 8, 9, 16, 22, 33, 64), tokens = DECK(0, 1, 2, 7, 15, 16, 17, 33, 64, 100, 128, 257, 500);
    deck blocks = DECK(1, 2, 3, 8, 16, 32, 48, 64, 128), fills = DECK(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
    deck types = DECK(0, 1, 2), launches = DECK(0, 0, 0, 1, 2, 3, 4), groups = DECK(0, 0, 1, 3, 7, 1000), sizes = DECK(0, 0, 64);
    deck maps = DECK(0, 0, 1, 2, 3, 4, 5, 6), foreigns = DECK(0, 1, 2);
    const uint32_t num_plans = fixture_cases(250, 100, 25), most = device().max_group_size;
    const uint64_t work = fixture_pair_has("rusticl") ? 1u << 16 : 1u << 20;
    for (uint32_t p = 0; p < num_plans; ++p) {
        both_case c;
        const uint32_t E = deck_deal(&experts, &chance), dealt = deck_deal(&chosen, &chance), K = dealt < E ? dealt : E;
        uint32_t T = deck_deal(&tokens, &chance);
        while ((uint64_t)T * E * K > work)
            T /= 2;
        begin(&c, "", T, E, K, deck_deal(&blocks, &chance));
        random_router(&c.route.desc.router, &chance);
        c.route.desc.logit_type = (clmoe_logit_type)deck_deal(&types, &chance);
        c.route.desc.tuning.num_launches = deck_deal(&launches, &chance);
        c.route.desc.tuning.num_groups = deck_deal(&groups, &chance);
        const uint32_t size = deck_deal(&sizes, &chance);
        c.route.desc.tuning.group_size = is_parallel() && size <= most && c.route.desc.logit_type == CLMOE_LOGIT_F32 ? size : 0;
        c.route.desc.max_tokens = T + (random_below(&chance, 3) == 0 ? random_below(&chance, 500) : 0);
        c.align.desc.foreign = (clmoe_foreign)deck_deal(&foreigns, &chance);
        c.align.desc.has_pad_value = random_below(&chance, 3) == 0;
        c.align.desc.pad_value = (const int32_t[]){-1, 0, INT32_MAX}[random_below(&chance, 3)];
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t call = 0; plan != NULL && call < 3; ++call) {
            set_tokens(&c, call == 0 ? T : random_below(&chance, T + 1));
            snprintf(c.route.name, sizeof c.route.name, "random plan %u, call %u", p, call);
            c.route.row_stride = random_below(&chance, 2) == 0 ? 0 : E + random_below(&chance, 9);
            c.route.shift = c.align.shift = shifts[random_below(&chance, 3)];
            c.route.slack = random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0;
            c.align.slack = c.route.slack;
            c.align.optional = random_below(&chance, 2) == 0 ? OUT_ALL : random_below(&chance, 128);
            c.route.scratch = (unsigned char)random_below(&chance, 256);
            rig.keep_workspace = random_below(&chance, 2) != 0;
            fill_all(&c, (logit_fill)deck_deal(&fills, &chance));
            case_map_fill(&c.align, (map_kind)deck_deal(&maps, &chance), &chance);
            if (random_below(&chance, 3) == 0)
                case_mask(&c.align, 70, &chance);
            if (random_below(&chance, 3) == 0)
                case_tokens_device(&c.align, (int32_t)random_below(&chance, T + 3) - 1);
            c.align.capacity = 0;
            c.align.capacity = case_capacity(&c.align) + random_below(&chance, 5) * c.align.desc.block_size;
            check(plan, &c);
            free(c.align.map);
            free(c.align.mask);
            c.align.map = NULL;
            c.align.mask = NULL;
            c.align.has_tokens_device = false;
        }
        clmoe_plan_destroy(plan);
        end(&c);
    }
    printf("random: %u plans, 3 calls each\n", num_plans);
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------- */
#define REFUSED(named, change)                                                                                                             \
    do {                                                                                                                                   \
        clmoe_route_align_args wrong = args;                                                                                               \
        change;                                                                                                                            \
        if (!call_refused(&rig, &call, &wrong, #change, named))                                                                            \
            fail_msg("%s", rig.failure);                                                                                                   \
    } while (0)

static void test_refused_arguments(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 2; ++v) {
        both_case c;
        op_call call;
        clmoe_route_align_args args;
        clmoe_plan_info info;
        begin(&c, "refusals", v == 0 ? 10 : many_tokens() + 5, 60, 4, 16); /* in one launch, and in more */
        c.route.desc.router.has_bias = c.route.desc.router.has_expert_scale = 1;
        set_tokens(&c, v == 0 ? 8 : many_tokens());
        fill_all(&c, LOGITS_NORMAL);
        case_map_fill(&c.align, MAP_RANDOM, &chance);
        case_mask(&c.align, 80, &chance);
        case_tokens_device(&c.align, 6);
        clmoe_plan *plan = plan_for(&c);
        assert_true(run_one_after_the_other(&c));
        describe(&call, &args, plan, &c);
        assert_int_equal(clmoe_plan_describe(plan, c.route.num_tokens, &info), CLMOE_SUCCESS);
        assert_true((info.num_launches == 1) == (v == 0));
        if (!call_refuses_views(&rig, &call) || !call_prepare(&rig, &call))
            fail_msg("%s", rig.failure);
        const clmoe_buffer other = args.route.logits;
        REFUSED("args.route.num_tokens", wrong.route.num_tokens = c.route.desc.max_tokens + 1);
        REFUSED("args.route.row_stride", wrong.route.row_stride = 59);
        REFUSED("args.route.logits", wrong.route.row_stride = 0x80000001u);
        REFUSED("args.route.bias", memset(&wrong.route.bias, 0, sizeof wrong.route.bias));
        REFUSED("args.route.expert_scale", memset(&wrong.route.expert_scale, 0, sizeof wrong.route.expert_scale));
        REFUSED("args.route.workspace", wrong.route.workspace = wrong.workspace);
        REFUSED("args.align.workspace", wrong.align.workspace = wrong.workspace);
        REFUSED("args.align.num_tokens", wrong.align.num_tokens = c.route.num_tokens);
        REFUSED("args.align.row_stride", wrong.align.row_stride = 3);
        REFUSED("args.align.weights_stride", wrong.align.weights_stride = 3);
        REFUSED("args.align.topk_ids", wrong.align.topk_ids = other);
        REFUSED("args.align.topk_weights", wrong.align.topk_weights = other);
        REFUSED("args.align.topk_ids", wrong.align.topk_ids = wrong.route.topk_ids);
        REFUSED("args.align.topk_weights", wrong.align.topk_weights = wrong.route.topk_weights);
        REFUSED("args.align.sorted_token_ids", wrong.align.sorted_token_ids.size_bytes -= 64); /* one block below the bound */
        clmoe_plan_destroy(plan);
        end(&c);
    }
}

#define PLAN_REFUSED(named, change)                                                                                                        \
    do {                                                                                                                                   \
        clmoe_route_align_desc desc = valid;                                                                                               \
        clmoe_plan *plan = NULL;                                                                                                           \
        char text[600];                                                                                                                    \
        change;                                                                                                                            \
        const clmoe_status status = clmoe_route_align_plan_create(rig.context, &desc, &plan);                                              \
        if (status != CLMOE_INVALID_ARGUMENT)                                                                                              \
            fail_msg("%s: %s, not refused", #change, clmoe_status_name(status));                                                           \
        assert_null(plan);                                                                                                                 \
        clmoe_context_error(rig.context, text, sizeof text);                                                                               \
        if (strstr(text, named) == NULL)                                                                                                   \
            fail_msg("%s: the text does not name \"%s\": \"%s\"", #change, named, text);                                                   \
        check(good, &c);                                                                                                                   \
    } while (0)

static void test_refused_descriptors(void **state) {
    (void)state;
    both_case c;
    begin(&c, "after a refused plan", 9, 16, 2, 4);
    fill_all(&c, LOGITS_NORMAL);
    clmoe_plan *good = plan_for(&c), *none = NULL;
    const clmoe_route_align_desc valid = desc_of(&c);
    PLAN_REFUSED("desc.logit_type", desc.logit_type = (clmoe_logit_type)3);
    PLAN_REFUSED("desc.router.num_experts", desc.router.num_experts = 0);
    PLAN_REFUSED("desc.router.top_k", desc.router.top_k = 0);
    PLAN_REFUSED("desc.router.top_k", desc.router.top_k = 17);
    PLAN_REFUSED("desc.router.score", desc.router.score = (clmoe_score)4);
    PLAN_REFUSED("desc.router.weight_source", desc.router.weight_source = (clmoe_weight_source)3);
    PLAN_REFUSED("desc.router.renormalize", desc.router.renormalize = (clmoe_renormalize)4);
    PLAN_REFUSED("desc.router.group_filter", desc.router.group_filter = (clmoe_group_filter)3);
    PLAN_REFUSED("desc.router.num_groups", desc.router.group_filter = CLMOE_GROUPS_MAX);
    PLAN_REFUSED("desc.router.epsilon", desc.router.epsilon = 1);
    PLAN_REFUSED("desc.block_size", desc.block_size = 0);
    PLAN_REFUSED("block_size", desc.block_size = 0x7fffffffu); /* the pairs are few, the rows are many */
    PLAN_REFUSED("block_size", desc.block_size = UINT32_MAX);
    PLAN_REFUSED("desc.foreign", desc.foreign = (clmoe_foreign)3);
    PLAN_REFUSED("desc.foreign", desc.foreign = (clmoe_foreign)-1);
    PLAN_REFUSED("desc.max_tokens", desc.max_tokens = 1u << 30);
    PLAN_REFUSED("desc.max_tokens", desc.max_tokens = 1u << 31);
    PLAN_REFUSED("desc.tuning.num_launches", desc.tuning.num_launches = 5);
    PLAN_REFUSED("desc.tuning.num_groups", desc.tuning.num_groups = 65537);
    if (is_parallel())
        PLAN_REFUSED("desc.tuning.group_size", desc.tuning.group_size = device().max_group_size + 1);
    assert_int_equal(clmoe_route_align_plan_create(NULL, &valid, &none), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_route_align_plan_create(rig.context, NULL, &none), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_route_align_plan_create(rig.context, &valid, NULL), CLMOE_INVALID_ARGUMENT);
    assert_null(none);
    check(good, &c);
    clmoe_plan_destroy(good);
    end(&c);
}

/* A plan is of one operator: the others refuse it. */
static void test_plans_of_others(void **state) {
    (void)state;
    both_case c;
    op_call call;
    clmoe_route_align_args args;
    clmoe_plan *routes = NULL, *aligns = NULL;
    begin(&c, "plans of others", 9, 16, 2, 4);
    fill_all(&c, LOGITS_NORMAL);
    clmoe_plan *plan = plan_for(&c);
    assert_true(run_one_after_the_other(&c));
    describe(&call, &args, plan, &c);
    assert_true(call_prepare(&rig, &call));
    assert_int_equal(clmoe_route_plan_create(rig.context, &c.route.desc, &routes), CLMOE_SUCCESS);
    assert_int_equal(clmoe_align_plan_create(rig.context, &c.align.desc, &aligns), CLMOE_SUCCESS);
    assert_int_equal(clmoe_route_align_enqueue(routes, rig.queue, &args, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_route_align_enqueue(aligns, rig.queue, &args, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_route_enqueue(plan, rig.queue, &args.route, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_route_enqueue(aligns, rig.queue, &args.route, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_align_enqueue(plan, rig.queue, &args.align, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_align_enqueue(routes, rig.queue, &args.align, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_true(call_untouched(&rig, &call));
    check(plan, &c);
    clmoe_plan_destroy(routes);
    clmoe_plan_destroy(aligns);
    clmoe_plan_destroy(plan);
    end(&c);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    if (context == NULL)
        return -1;
    rig_begin(&rig, context, clmoe_context_queue(context));
    rig_begin(&align_only, context, clmoe_context_queue(context));
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    printf("%s: %llu calls checked; %u plans and %llu calls refused\n", fixture_pair(), (unsigned long long)rig.calls, plans_refused,
           (unsigned long long)rig.calls_refused);
    for (uint32_t i = 0; i < 3 * 3 * 2; ++i)
        clmoe_plan_destroy(kept[i / 6][i / 2 % 3][i % 2]);
    rig_end(&rig);
    rig_end(&align_only);
    clmoe_context_destroy(rig.context);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260109;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),
        TEST(test_launches),
        TEST(test_forced_launches),
        TEST(test_sizes),
        TEST(test_policies),
        TEST(test_optional_views),
        TEST(test_used_workspace),
        TEST(test_queues),
        TEST(test_number_of_threads),
        TEST(test_random),
        TEST(test_refused_arguments),
        TEST(test_refused_descriptors),
        TEST(test_plans_of_others),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
