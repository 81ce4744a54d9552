/* test_oclgrind.c - every kernel of the parallel class on every path in Oclgrind, which reports races between work-items or groups,
 * accesses out of bounds, barriers that not all reach, uses of memory that nobody wrote, and wrong calls of OpenCL. Results are checked
 * too.
 *
 * Its exit status and every call succeed whatever it finds: what counts is that its log stays empty. It counts instructions on standard
 * output; a line "call <name>" goes before each call's. The environment variable CLMOE_TEST_OCLGRIND says what is looked for:
 *
 *   races          or nothing: races; instructions are counted
 *   uninitialized  uses of local and private memory that nobody wrote. All of global memory is written first: without that, Oclgrind 21.10
 *                  also reports values that kernels have stored before, and not every such report was traced. Kernels are not optimized,
 *                  for it gives up at LLVM's "freeze"
 *   wide-...       the same on a device with so little local memory that tables lie in the workspace
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Group sizes that tuning chooses: 256, the default, and 64. */
static uint32_t group_sizes[] = {0, 64}, num_sizes = 2;
/* Local memory of the device without room, and experts and bins beyond it. */
#define SMALL_LOCAL_BYTES "2048"
enum { WIDE_EXPERTS = 150, WIDE_ROUTED = 420, WIDE_BINS = 600 };
#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

static align_rig rig;
static random_stream chance;
static char log_path[64];

static void begin_call(const char *format, ...) {
    char name[160];
    va_list values;
    va_start(values, format);
    vsnprintf(name, sizeof name, format, values);
    va_end(values);
    printf("call %s\n", name);
    fflush(stdout); /* before what Oclgrind writes */
}

/* Fails with what the log has gained. */
static void end_call(bool is_right) {
    static long seen;
    char text[1500];
    FILE *log = fopen(log_path, "r");
    size_t length = 0;
    if (log != NULL) {
        fseek(log, seen, SEEK_SET);
        length = fread(text, 1, sizeof text - 1, log);
        fseek(log, 0, SEEK_END);
        seen = ftell(log);
        fclose(log);
    }
    text[length] = '\0';
    if (length != 0)
        print_error("Oclgrind reports:\n%s\n", text);
    if (!is_right)
        print_error("%s\n", rig.failure);
    assert_true(is_right && length == 0);
}

static const char *switches_of(clmoe_tuning tuning) {
    static char text[80];
    snprintf(text, sizeof text, "launches %u size %u groups %u", tuning.num_launches, tuning.group_size, tuning.num_groups);
    return text;
}

/* ---- align ---------------------------------------------------------------------------------------------------------------------- */
static void run_align_case(clmoe_id_type type, clmoe_foreign foreign, uint32_t experts, clmoe_tuning tuning) {
    align_case c;
    case_begin(&c, "align", 101, 4, experts, 8);
    c.desc.id_type = type;
    c.desc.foreign = foreign;
    c.desc.tuning = tuning;
    c.row_stride = type == CLMOE_ID_I32 ? 0 : 5; /* with touching rows, no map and no mask there is a shorter way */
    case_fill(&c, FILL_SOME_INVALID, &chance);
    if (type != CLMOE_ID_I32) {
        case_map_fill(&c, MAP_SLICE, &chance);
        case_mask(&c, 80, &chance);
        case_tokens_device(&c, (int32_t)c.num_tokens - 3);
    }
    begin_call("align type %d foreign %d experts %u %s", (int)type, (int)foreign, experts, switches_of(tuning));
    end_call(run_align_once(&rig, &c, NULL));
    case_end(&c);
}

static void test_align(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3 * num_sizes; ++i) {
        const clmoe_tuning tuning = {.num_launches = 1 + i % 3, .group_size = group_sizes[i / 3], .num_groups = 3};
        run_align_case((clmoe_id_type)(i % 5), (clmoe_foreign)(i / 2 % 3), 20, tuning);
        run_align_case((clmoe_id_type)((i + 3) % 5), CLMOE_FOREIGN_BUCKET, 20, tuning);
    }
}

/* ---- histogram, scan, sort, scatter --------------------------------------------------------------------------------------------- */
static op_call new_call(clmoe_plan *plan, const void *args, size_t args_bytes,
                        clmoe_status (*enqueue)(clmoe_plan *, cl_command_queue, const void *, cl_uint, const cl_event *, cl_event *)) {
    assert_non_null(plan);
    return (op_call){.plan = plan, .args = args, .args_bytes = args_bytes, .enqueue = enqueue, .shift = 1};
}

/* A function that takes its arguments as void *. */
#define ENQUEUE(op)                                                                                                                        \
    static clmoe_status enqueue_##op(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,      \
                                     cl_event *event) {                                                                                    \
        return clmoe_##op##_enqueue(plan, queue, args, waits, list, event);                                                                \
    }
ENQUEUE(histogram)
ENQUEUE(scan)
ENQUEUE(sort)
ENQUEUE(scatter)
ENQUEUE(gather)
ENQUEUE(route_align)

enum { ITEMS = 700 };
static uint64_t items[ITEMS], values[ITEMS], items_expected[ITEMS], values_expected[ITEMS];

static void run_histogram(clmoe_type type, uint32_t bins, clmoe_tuning tuning) {
    const clmoe_histogram_desc desc = {.max_items = ITEMS, .num_bins = bins, .sample_type = type, .tuning = tuning};
    const size_t width = oracle_type_bytes(type);
    clmoe_histogram_args args = {.num_items = ITEMS};
    clmoe_plan *plan = NULL;
    uint32_t *const counts = test_calloc(bins, 4), ignored;
    for (uint32_t i = 0; i < ITEMS; ++i) {
        const int64_t sample = (int64_t)random_below(&chance, bins + 3) - 1;
        memcpy((char *)items + i * width, &sample, width); /* little-endian */
    }
    oracle_histogram(type, ITEMS, items, bins, counts, &ignored);
    clmoe_histogram_plan_create(rig.context, &desc, &plan);
    op_call call = new_call(plan, &args, sizeof args, enqueue_histogram);
    call.operands[0] = (operand){.name = "samples", .view = &args.samples, .width = width, .bytes = ITEMS * width, .before = items};
    call.operands[1] =
        (operand){.name = "counts", .view = &args.counts, .width = 4, .bytes = (size_t)bins * 4, .after = counts, .is_output = true};
    call.operands[2] = (operand){.name = "ignored", .view = &args.ignored, .width = 4, .bytes = 4, .after = &ignored, .is_output = true};
    call.num_operands = 3;
    call_workspace(&call, &args.workspace, 4);
    begin_call("histogram type %d bins %u %s", (int)type, bins, switches_of(tuning));
    end_call(call_run(&rig, &call));
    clmoe_plan_destroy(plan);
    test_free(counts);
}

static void test_histogram(void **state) {
    (void)state;
    const clmoe_type types[] = {CLMOE_TYPE_U32, CLMOE_TYPE_I8, CLMOE_TYPE_I64, CLMOE_TYPE_U16, CLMOE_TYPE_I32, CLMOE_TYPE_U8};
    for (uint32_t i = 0; i < 2 * num_sizes; ++i) {
        const clmoe_tuning tuning = {.num_launches = 1 + i % 2, .group_size = group_sizes[i / 2], .num_groups = 3};
        run_histogram(types[i], 10, tuning);
        run_histogram(types[2 + i], 100, tuning);
    }
}

static void run_scan(clmoe_type type, clmoe_scan_kind kind, clmoe_tuning tuning) {
    const clmoe_scan_desc desc = {.max_items = ITEMS, .type = type, .kind = kind, .tuning = tuning};
    const size_t width = oracle_type_bytes(type);
    clmoe_scan_args args = {.num_items = ITEMS};
    clmoe_plan *plan = NULL;
    fill_keys(items, ITEMS, type, KEYS_RANDOM, &chance);
    oracle_scan(type, kind, ITEMS, items, items_expected);
    clmoe_scan_plan_create(rig.context, &desc, &plan);
    op_call call = new_call(plan, &args, sizeof args, enqueue_scan);
    call.operands[0] = (operand){.name = "input", .view = &args.input, .width = width, .bytes = ITEMS * width, .before = items};
    call.operands[1] = (operand){
        .name = "output", .view = &args.output, .width = width, .bytes = ITEMS * width, .after = items_expected, .is_output = true};
    call.num_operands = 2;
    if (kind == CLMOE_SCAN_INCLUSIVE) { /* in place */
        call.operands[0].again = &args.output;
        call.operands[0].after = items_expected;
        call.num_operands = 1;
    }
    call_workspace(&call, &args.workspace, width);
    begin_call("scan type %d kind %d %s", (int)type, (int)kind, switches_of(tuning));
    end_call(call_run(&rig, &call));
    clmoe_plan_destroy(plan);
}

static void test_scan(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 2 * num_sizes; ++i) {
        const clmoe_tuning tuning = {.num_launches = 1 + i % 2, .group_size = group_sizes[i / 2], .num_groups = 3};
        run_scan(CLMOE_TYPE_U32, CLMOE_SCAN_EXCLUSIVE, tuning);
        run_scan(CLMOE_TYPE_U64, CLMOE_SCAN_INCLUSIVE, tuning);
    }
}

static void run_sort(clmoe_type type, uint32_t value_bytes, bool is_argsort, bool is_descending, clmoe_tuning tuning) {
    const clmoe_sort_desc desc = {.max_items = ITEMS,
                                  .key_type = type,
                                  .value_bytes = value_bytes,
                                  .is_argsort = is_argsort,
                                  .is_descending = is_descending,
                                  .begin_bit = 3,
                                  .end_bit = 24,
                                  .tuning = tuning};
    const size_t width = oracle_type_bytes(type), value_width = value_bytes == 0 ? 4 : value_bytes;
    clmoe_sort_args args = {.num_items = ITEMS};
    clmoe_plan *plan = NULL;
    fill_keys(items, ITEMS, type, KEYS_FEW, &chance);
    fill_keys(values, ITEMS, value_bytes == 8 ? CLMOE_TYPE_U64 : CLMOE_TYPE_U32, KEYS_RANDOM, &chance);
    oracle_sort(&desc, ITEMS, items, values, items_expected, values_expected);
    clmoe_sort_plan_create(rig.context, &desc, &plan);
    op_call call = new_call(plan, &args, sizeof args, enqueue_sort);
    call.operands[0] = (operand){.name = "keys", .view = &args.keys, .width = width, .bytes = ITEMS * width, .before = items};
    call.operands[1] = (operand){.name = "values",
                                 .view = &args.values,
                                 .width = value_width,
                                 .bytes = is_argsort ? 0 : (size_t)ITEMS * value_bytes,
                                 .before = values};
    call.operands[2] = (operand){
        .name = "keys_out", .view = &args.keys_out, .width = width, .bytes = ITEMS * width, .after = items_expected, .is_output = true};
    call.operands[3] = (operand){.name = "values_out",
                                 .view = &args.values_out,
                                 .width = value_width,
                                 .bytes = (size_t)ITEMS * value_bytes,
                                 .after = values_expected,
                                 .is_output = true};
    call.num_operands = 4;
    call_workspace(&call, &args.workspace, width > value_width ? width : value_width);
    begin_call("sort type %d values %u%s%s %s", (int)type, value_bytes, is_argsort ? " argsort" : "", is_descending ? " descending" : "",
               switches_of(tuning));
    end_call(call_run(&rig, &call));
    clmoe_plan_destroy(plan);
}

static void test_sort(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3 * num_sizes; ++i) {
        const clmoe_tuning tuning = {.num_launches = 1 + i % 3, .group_size = group_sizes[i / 3], .num_groups = 3};
        run_sort(CLMOE_TYPE_U32, 4, false, false, tuning);
        run_sort(CLMOE_TYPE_U64, i % 2 != 0 ? 4 : 8, false, true, tuning);
        run_sort(CLMOE_TYPE_F32, i % 2 != 0 ? 0 : 4, i % 2 == 0, false, tuning);
        run_sort(CLMOE_TYPE_I32, 8, false, true, tuning);
    }
}

static void run_scatter(clmoe_type type, uint32_t row_bytes, clmoe_duplicates duplicates, bool is_gather, clmoe_tuning tuning) {
    enum { MOVED = 60, ROWS = 50 };
    const clmoe_scatter_desc desc = {
        .max_items = MOVED, .max_rows = ROWS, .row_bytes = row_bytes, .index_type = type, .duplicates = duplicates, .tuning = tuning};
    const size_t width = oracle_type_bytes(type), from_rows = is_gather ? ROWS : MOVED, to_rows = is_gather ? MOVED : ROWS;
    clmoe_scatter_args args = {.num_items = MOVED, .num_rows = ROWS};
    clmoe_plan *plan = NULL;
    unsigned char *const from = test_malloc(from_rows * row_bytes), *const to = test_malloc(to_rows * row_bytes);
    unsigned char *const expected = test_malloc(to_rows * row_bytes);
    uint32_t skipped = 0;
    for (size_t i = 0; i < from_rows * row_bytes; ++i)
        from[i] = (unsigned char)random_below(&chance, 256);
    memset(to, 0x5A, to_rows * row_bytes);
    memcpy(expected, to, to_rows * row_bytes);
    for (uint32_t i = 0; i < MOVED; ++i) {
        const bool may_repeat = is_gather || duplicates == CLMOE_DUPLICATES_LAST_WINS;
        const int64_t row = may_repeat ? (int64_t)random_below(&chance, ROWS + 2) - 1 : (int64_t)(i * 7 % MOVED) - 1;
        memcpy((char *)items + i * width, &row, width);
        const bool is_row = row >= 0 && row < ROWS;
        skipped += !is_row;
        if (is_gather && !is_row)
            memset(expected + (size_t)i * row_bytes, 0, row_bytes);
        else if (is_gather)
            memcpy(expected + (size_t)i * row_bytes, from + (size_t)row * row_bytes, row_bytes);
        else if (is_row)
            memcpy(expected + (size_t)row * row_bytes, from + (size_t)i * row_bytes, row_bytes);
    }
    (is_gather ? clmoe_gather_plan_create : clmoe_scatter_plan_create)(rig.context, &desc, &plan);
    op_call call = new_call(plan, &args, sizeof args, is_gather ? enqueue_gather : enqueue_scatter);
    const size_t word = row_bytes % 8 == 0 ? 8 : 1; /* guards keep the view aligned to it */
    call.operands[0] = (operand){.name = "source", .view = &args.source, .width = word, .bytes = from_rows * row_bytes, .before = from};
    call.operands[1] = (operand){.name = "index", .view = &args.index, .width = width, .bytes = MOVED * width, .before = items};
    call.operands[2] = (operand){.name = "destination",
                                 .view = &args.destination,
                                 .width = word,
                                 .bytes = to_rows * row_bytes,
                                 .before = is_gather ? NULL : to,
                                 .after = expected,
                                 .is_output = true};
    call.operands[3] = (operand){.name = "skipped", .view = &args.skipped, .width = 4, .bytes = 4, .after = &skipped, .is_output = true};
    call.num_operands = 4;
    call_workspace(&call, &args.workspace, 4);
    begin_call("%s type %d row %u duplicates %d %s", is_gather ? "gather" : "scatter", (int)type, row_bytes, (int)duplicates,
               switches_of(tuning));
    end_call(call_run(&rig, &call));
    clmoe_plan_destroy(plan);
    test_free(from);
    test_free(to);
    test_free(expected);
}

static void test_scatter(void **state) {
    (void)state;
    const clmoe_type types[] = {CLMOE_TYPE_U32, CLMOE_TYPE_I32, CLMOE_TYPE_U64, CLMOE_TYPE_I64};
    for (uint32_t i = 0; i < 2 * num_sizes; ++i) {
        const clmoe_tuning tuning = {.group_size = group_sizes[i / 2], .num_groups = i % 2 != 0 ? 3 : 1};
        run_scatter(types[i], 3, CLMOE_DUPLICATES_UNIQUE, false, tuning);
        run_scatter(types[3 - i], 80, CLMOE_DUPLICATES_LAST_WINS, false, tuning);
        run_scatter(types[i], 8, CLMOE_DUPLICATES_UNIQUE, true, tuning);
        run_scatter(types[3 - i], 301, CLMOE_DUPLICATES_UNIQUE, true, tuning);
    }
}

/* ---- route, route_align --------------------------------------------------------------------------------------------------------- */
/* Bit 0: scores decide; bit 1: a filter by groups. */
static void route_case_begin(route_case *c, uint32_t way, uint32_t tokens, uint32_t experts, uint32_t top_k, clmoe_logit_type type,
                             clmoe_tuning tuning) {
    route_begin(c, "route", tokens, experts, top_k);
    clmoe_router *const router = &c->desc.router;
    c->desc.logit_type = type;
    c->desc.tuning = tuning;
    router->renormalize = CLMOE_RENORMALIZE_SUM;
    if (way % 2 != 0) {
        router->score = type == CLMOE_LOGIT_BF16  ? CLMOE_SCORE_SQRT_SOFTPLUS
                        : type == CLMOE_LOGIT_F16 ? CLMOE_SCORE_SIGMOID
                                                  : CLMOE_SCORE_SOFTMAX;
        router->has_bias = router->has_expert_scale = 1;
    }
    if (way / 2 % 2 != 0) {
        router->group_filter = way % 2 != 0 ? CLMOE_GROUPS_TOP2_SUM : CLMOE_GROUPS_MAX;
        router->num_groups = 4;
        router->kept_groups = 2;
    }
    route_fill(c, LOGITS_NORMAL, &chance);
    route_factors(c, FACTORS_SMALL, &chance);
}

static void run_route_case(uint32_t way, uint32_t tokens, uint32_t experts, uint32_t top_k, clmoe_logit_type type, clmoe_tuning tuning) {
    route_case c;
    route_case_begin(&c, way, tokens, experts, top_k, type, tuning);
    begin_call("route way %u type %d experts %u top_k %u %s", way, (int)type, experts, top_k, switches_of(tuning));
    end_call(run_route_once(&rig, &c));
    route_end(&c);
}

static void test_route(void **state) {
    (void)state;
    for (uint32_t way = 0; way < 4; ++way) {
        for (uint32_t i = 0; i < num_sizes; ++i)
            run_route_case(way, 11, 40, 4, (clmoe_logit_type)((way + i) % 3), (clmoe_tuning){.group_size = group_sizes[i]});
    }
    run_route_case(3, 3, 80, 36, CLMOE_LOGIT_F32, (clmoe_tuning){0}); /* more chosen than work-items in the smallest team */
}

/* Align's outputs for the ids and weights that the call itself gave. */
static bool judge_align(const op_call *call, const route_case *route, const clmoe_route_align_desc *desc, const int32_t *map,
                        uint32_t capacity, size_t first) {
    const oracle_align_inputs inputs = {.num_tokens = route->num_tokens,
                                        .top_k = desc->router.top_k,
                                        .num_experts = desc->router.num_experts,
                                        .block_size = desc->block_size,
                                        .row_stride = desc->router.top_k,
                                        .weights_stride = desc->router.top_k,
                                        .capacity = capacity,
                                        .foreign = desc->foreign,
                                        .topk_ids = route->ids,
                                        .expert_map = map,
                                        .topk_weights = route->weights};
    oracle_align_outputs out = oracle_align(&inputs);
    const void *const expected[] = {
        out.sorted_token_ids, out.expert_ids, out.num_tokens_post_padded, out.counts, out.offsets, out.padded_offsets,
        out.inverse,          out.rows_valid, out.sorted_weights,         out.status};
    bool is_right = true;
    for (size_t i = 0; i < COUNT(expected); ++i)
        if (memcmp(expected[i], call_output(&rig, call, first + i), call->operands[first + i].bytes) != 0) {
            snprintf(rig.failure, sizeof rig.failure, "%s is wrong", call->operands[first + i].name);
            is_right = false;
        }
    oracle_align_free(&out);
    return is_right;
}

static void run_route_align(uint32_t way, uint32_t tokens, uint32_t experts, clmoe_logit_type type, clmoe_tuning tuning) {
    enum { TOP_K = 4, BLOCK = 8 };
    route_case route;
    route_case_begin(&route, way, tokens, experts, TOP_K, type, tuning);
    const clmoe_route_align_desc desc = {.max_tokens = tokens,
                                         .logit_type = type,
                                         .router = route.desc.router,
                                         .block_size = BLOCK,
                                         .foreign = CLMOE_FOREIGN_BUCKET,
                                         .tuning = tuning};
    const size_t E = experts, N = (size_t)tokens * TOP_K;
    const uint32_t C = (uint32_t)oracle_align_max_rows(N, E, BLOCK, desc.foreign);
    int32_t *const map = test_malloc(E * sizeof *map);
    fill_map(map, experts, MAP_SLICE, &chance);
    clmoe_route_args route_args;
    clmoe_route_align_args args = {0};
    clmoe_plan *plan = NULL;
    op_call call;
    clmoe_route_align_plan_create(rig.context, &desc, &plan);
    assert_non_null(plan);
    route_call(&call, &route_args, plan, &route);
    args.route = route_args;
    clmoe_buffer *const views[] = {&args.route.logits, &args.route.bias, &args.route.expert_scale, &args.route.topk_ids,
                                   &args.route.topk_weights};
    for (size_t i = 0; i < COUNT(views); ++i)
        call.operands[i].view = views[i];
    call.args = &args;
    call.args_bytes = sizeof args;
    call.enqueue = enqueue_route_align;
    call.num_operands = COUNT(views);
    call.operands[call.num_operands++] =
        (operand){.name = "expert_map", .view = &args.align.expert_map, .width = 4, .bytes = E * 4, .before = map};
    const size_t first = call.num_operands, counts[] = {C, C / BLOCK, 1, E, E + 1, E + 1, N, C / BLOCK, C, 4};
    for (size_t i = 0; i < COUNT(counts); ++i)
        call.operands[call.num_operands++] = (operand){.name = slot_names[SLOT_SORTED_TOKEN_IDS + i],
                                                       .view = slot_view(&args.align, SLOT_SORTED_TOKEN_IDS + (int)i),
                                                       .width = 4,
                                                       .bytes = counts[i] * 4,
                                                       .is_output = true,
                                                       .is_judged = true};
    call_workspace(&call, &args.workspace, 4);
    begin_call("route_align way %u type %d experts %u %s", way, (int)type, experts, switches_of(tuning));
    end_call(call_run(&rig, &call) && route_judge(&rig, &call, &route) && judge_align(&call, &route, &desc, map, C, first));
    clmoe_plan_destroy(plan);
    route_end(&route);
    test_free(map);
}

static void test_route_align(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4 * num_sizes; ++i)
        run_route_align(i % 4, 30, 20, (clmoe_logit_type)(i % 3),
                        (clmoe_tuning){.num_launches = 1 + (i + i / 4) % 4, .group_size = group_sizes[i / 4], .num_groups = 3});
}

static void test_wide(void **state) {
    (void)state;
    for (uint32_t launches = 1; launches <= 4; ++launches) {
        const clmoe_tuning tuning = {.num_launches = launches, .num_groups = 2};
        if (launches <= 2)
            run_histogram(CLMOE_TYPE_I16, WIDE_BINS, tuning);
        if (launches <= 3)
            run_align_case((clmoe_id_type)launches, (clmoe_foreign)(launches - 1), WIDE_EXPERTS, tuning);
        run_route_case(launches - 1, 5, WIDE_ROUTED, 3, (clmoe_logit_type)(launches % 3), (clmoe_tuning){.num_groups = 2});
        run_route_align(4 - launches, 7, WIDE_ROUTED, (clmoe_logit_type)(launches % 3), tuning);
    }
}

static const char *what_of(void) {
    const char *const wanted = getenv("CLMOE_TEST_OCLGRIND");
    return wanted == NULL ? "races" : wanted;
}

static int set_up(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    if (context == NULL)
        return -1;
    rig_begin(&rig, context, clmoe_context_queue(context));
    rig.is_bare = strstr(what_of(), "uninitialized") == NULL;
    chance.state = 1;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    begin_call("end");
    end_call(true);
    return 0;
}

int main(void) {
    const char *const what = what_of();
    const bool is_wide = strncmp(what, "wide-", 5) == 0;
    snprintf(log_path, sizeof log_path, "test_oclgrind.%ld.log", (long)getpid());
    setenv("OCLGRIND_LOG", log_path, 1);
    setenv("OCLGRIND_CHECK_API", "1", 1);
    if (is_wide)
        setenv("OCLGRIND_LOCAL_MEM_SIZE", SMALL_LOCAL_BYTES, 1);
    if (strstr(what, "uninitialized") != NULL) {
        setenv("OCLGRIND_UNINITIALIZED", "1", 1);
        setenv("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable", 1);
        group_sizes[0] = 64;
        num_sizes = 1;
    } else {
        setenv("OCLGRIND_DATA_RACES", "1", 1);
        setenv("OCLGRIND_INST_COUNTS", "1", 1);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_align),      cmocka_unit_test(test_histogram), cmocka_unit_test(test_scan),
                                       cmocka_unit_test(test_sort),       cmocka_unit_test(test_scatter),   cmocka_unit_test(test_route),
                                       cmocka_unit_test(test_route_align)};
    const struct CMUnitTest wide_tests[] = {cmocka_unit_test(test_wide)};
    const int failed = is_wide ? cmocka_run_group_tests(wide_tests, set_up, tear_down) : cmocka_run_group_tests(tests, set_up, tear_down);
    remove(log_path);
    return failed;
}
