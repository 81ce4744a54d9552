/* test_threads.c - many threads on one context: a plan for each of them, one plan for all, and both while plans and contexts come and go
 * and errors are made and read. Every result is the oracle's. */
#define _POSIX_C_SOURCE 200809L /* barriers */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

enum { MAX_TOKENS = 200, MAX_ITEMS = 1500, MAX_ROWS = 300, NUM_BINS = 77, ROW_BYTES = 12, NUM_WORKERS = 6 };

typedef enum operation { ALIGN, ROUTE, ROUTE_ALIGN, HISTOGRAM, SCAN, SORT, SCATTER, GATHER, NUM_OPERATORS } operation;

static clmoe_context *pair_context;
static cl_context opencl; /* of pair_context; NULL on the native device */

/* ---- One plan and one checked call of each operator ------------------------------------------------------------------------------- */

static clmoe_router router_of(void) {
    return (clmoe_router){.num_experts = 40, .top_k = 4, .renormalize = CLMOE_RENORMALIZE_SUM};
}

/* launches: 0 = the library's choice; more take more groups, which meet in the workspace. */
static clmoe_tuning tuning_of(uint32_t launches) {
    return (clmoe_tuning){.num_launches = launches, .num_groups = launches > 1 ? 3 : 0};
}

static clmoe_align_desc align_desc(uint32_t launches) {
    return (clmoe_align_desc){.max_tokens = MAX_TOKENS, .top_k = 4, .num_experts = 40, .block_size = 16, .tuning = tuning_of(launches)};
}

static clmoe_route_desc route_desc(uint32_t launches) {
    return (clmoe_route_desc){.max_tokens = MAX_TOKENS, .router = router_of(), .tuning = tuning_of(launches)};
}

static clmoe_route_align_desc route_align_desc(uint32_t launches) {
    return (clmoe_route_align_desc){.max_tokens = MAX_TOKENS, .router = router_of(), .block_size = 16, .tuning = tuning_of(launches)};
}

static clmoe_sort_desc sort_desc(uint32_t launches) {
    return (clmoe_sort_desc){.max_items = MAX_ITEMS, .value_bytes = 4, .tuning = tuning_of(launches)};
}

static clmoe_scatter_desc scatter_desc(uint32_t launches) {
    return (clmoe_scatter_desc){.max_items = MAX_ITEMS,
                                .max_rows = MAX_ROWS,
                                .row_bytes = ROW_BYTES,
                                .index_type = CLMOE_TYPE_I32,
                                .duplicates = CLMOE_DUPLICATES_LAST_WINS,
                                .tuning = tuning_of(launches)};
}

static clmoe_status create(clmoe_context *context, operation op, uint32_t launches, clmoe_plan **plan) {
    const clmoe_align_desc align = align_desc(launches);
    const clmoe_route_desc route = route_desc(launches);
    const clmoe_route_align_desc both = route_align_desc(launches);
    const clmoe_histogram_desc histogram = {MAX_ITEMS, NUM_BINS, CLMOE_TYPE_U32, tuning_of(launches)};
    const clmoe_scan_desc scan = {MAX_ITEMS, CLMOE_TYPE_U32, CLMOE_SCAN_INCLUSIVE, tuning_of(launches)};
    const clmoe_sort_desc sort = sort_desc(launches);
    const clmoe_scatter_desc scatter = scatter_desc(launches);
    *plan = NULL;
    switch (op) {
    case ALIGN: return clmoe_align_plan_create(context, &align, plan);
    case ROUTE: return clmoe_route_plan_create(context, &route, plan);
    case ROUTE_ALIGN: return clmoe_route_align_plan_create(context, &both, plan);
    case HISTOGRAM: return clmoe_histogram_plan_create(context, &histogram, plan);
    case SCAN: return clmoe_scan_plan_create(context, &scan, plan);
    case SORT: return clmoe_sort_plan_create(context, &sort, plan);
    case SCATTER: return clmoe_scatter_plan_create(context, &scatter, plan);
    case GATHER: return clmoe_gather_plan_create(context, &scatter, plan);
    case NUM_OPERATORS: break;
    }
    return CLMOE_INVALID_ARGUMENT;
}

#define ENQUEUE(op)                                                                                                                        \
    static clmoe_status enqueue_##op(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,      \
                                     cl_event *event) {                                                                                    \
        return clmoe_##op##_enqueue(plan, queue, args, waits, list, event);                                                                \
    }
ENQUEUE(route_align)
ENQUEUE(histogram)
ENQUEUE(scan)
ENQUEUE(sort)
ENQUEUE(scatter)
ENQUEUE(gather)

static void begin_call(op_call *call, const char *name, clmoe_plan *plan, const void *args, size_t args_bytes, const align_rig *rig) {
    memset(call, 0, sizeof *call);
    snprintf(call->name, sizeof call->name, "%s", name);
    call->plan = plan;
    call->args = args;
    call->args_bytes = args_bytes;
    call->shift = 1;
    call->scratch = 0xA5;
    call->may_refuse = rig->ends_long_loops;
}

static void add_input(op_call *call, const char *name, clmoe_buffer *view, size_t width, size_t bytes, const void *before) {
    call->operands[call->num_operands++] = (operand){.name = name, .view = view, .width = width, .bytes = bytes, .before = before};
}

static operand *add_output(op_call *call, const char *name, clmoe_buffer *view, size_t width, size_t bytes, const void *after) {
    operand *made = &call->operands[call->num_operands++];
    *made = (operand){.name = name, .view = view, .width = width, .bytes = bytes, .after = after, .is_output = true};
    return made;
}

static bool run_histogram(align_rig *rig, clmoe_plan *plan, random_stream *random) {
    uint32_t samples[MAX_ITEMS], counts[NUM_BINS], ignored;
    clmoe_histogram_args args = {.num_items = random_below(random, MAX_ITEMS + 1)};
    op_call call;
    for (uint32_t i = 0; i < args.num_items; ++i)
        samples[i] = random_below(random, NUM_BINS + 3);
    oracle_histogram(CLMOE_TYPE_U32, args.num_items, samples, NUM_BINS, counts, &ignored);
    begin_call(&call, "histogram", plan, &args, sizeof args, rig);
    call.enqueue = enqueue_histogram;
    add_input(&call, "samples", &args.samples, 4, 4 * (size_t)args.num_items, samples);
    add_output(&call, "counts", &args.counts, 4, sizeof counts, counts);
    add_output(&call, "ignored", &args.ignored, 4, 4, &ignored);
    call_workspace(&call, &args.workspace, 4);
    return call_run(rig, &call);
}

static bool run_scan(align_rig *rig, clmoe_plan *plan, random_stream *random) {
    uint32_t items[MAX_ITEMS], sums[MAX_ITEMS];
    clmoe_scan_args args = {.num_items = random_below(random, MAX_ITEMS + 1)};
    op_call call;
    fill_keys(items, args.num_items, CLMOE_TYPE_U32, KEYS_RANDOM, random);
    oracle_scan(CLMOE_TYPE_U32, CLMOE_SCAN_INCLUSIVE, args.num_items, items, sums);
    begin_call(&call, "scan", plan, &args, sizeof args, rig);
    call.enqueue = enqueue_scan;
    add_input(&call, "input", &args.input, 4, 4 * (size_t)args.num_items, items);
    add_output(&call, "output", &args.output, 4, 4 * (size_t)args.num_items, sums);
    call_workspace(&call, &args.workspace, 4);
    return call_run(rig, &call);
}

static bool run_sort(align_rig *rig, clmoe_plan *plan, random_stream *random) {
    uint32_t keys[MAX_ITEMS], values[MAX_ITEMS], sorted[MAX_ITEMS], along[MAX_ITEMS];
    clmoe_sort_args args = {.num_items = random_below(random, MAX_ITEMS + 1)};
    const clmoe_sort_desc desc = sort_desc(0);
    const size_t bytes = 4 * (size_t)args.num_items;
    op_call call;
    fill_keys(keys, args.num_items, CLMOE_TYPE_U32, (key_fill)random_below(random, NUM_KEY_FILLS), random);
    for (uint32_t i = 0; i < args.num_items; ++i)
        values[i] = i;
    oracle_sort(&desc, args.num_items, keys, values, sorted, along);
    begin_call(&call, "sort", plan, &args, sizeof args, rig);
    call.enqueue = enqueue_sort;
    add_input(&call, "keys", &args.keys, 4, bytes, keys);
    add_input(&call, "values", &args.values, 4, bytes, values);
    add_output(&call, "keys_out", &args.keys_out, 4, bytes, sorted);
    add_output(&call, "values_out", &args.values_out, 4, bytes, along);
    call_workspace(&call, &args.workspace, 4);
    return call_run(rig, &call);
}

static bool run_rows(align_rig *rig, clmoe_plan *plan, random_stream *random, bool is_gather) {
    static const unsigned char zeros[ROW_BYTES];
    int32_t index[MAX_ITEMS];
    clmoe_scatter_args args = {.num_items = random_below(random, MAX_ITEMS + 1), .num_rows = 1 + random_below(random, MAX_ROWS)};
    const size_t from = ROW_BYTES * (size_t)(is_gather ? args.num_rows : args.num_items);
    const size_t to = ROW_BYTES * (size_t)(is_gather ? args.num_items : args.num_rows);
    unsigned char source[ROW_BYTES * MAX_ITEMS], before[ROW_BYTES * MAX_ITEMS], after[ROW_BYTES * MAX_ITEMS];
    uint32_t skipped = 0;
    op_call call;
    for (size_t i = 0; i < from; ++i)
        source[i] = (unsigned char)random_bits(random);
    memset(before, 0x5a, to);
    memset(after, 0x5a, to);
    for (uint32_t i = 0; i < args.num_items; ++i) {
        index[i] = (int32_t)random_below(random, args.num_rows + 2) - 1;
        const bool is_out = index[i] < 0 || (uint32_t)index[i] >= args.num_rows;
        const size_t row = is_out ? 0 : ROW_BYTES * (size_t)index[i];
        skipped += is_out;
        if (is_gather)
            memcpy(after + ROW_BYTES * (size_t)i, is_out ? zeros : source + row, ROW_BYTES);
        else if (!is_out)
            memcpy(after + row, source + ROW_BYTES * (size_t)i, ROW_BYTES);
    }
    begin_call(&call, is_gather ? "gather" : "scatter", plan, &args, sizeof args, rig);
    call.enqueue = is_gather ? enqueue_gather : enqueue_scatter;
    add_input(&call, "source", &args.source, 1, from, source);
    add_input(&call, "index", &args.index, 4, 4 * (size_t)args.num_items, index);
    add_output(&call, "destination", &args.destination, 1, to, after)->before = before;
    add_output(&call, "skipped", &args.skipped, 4, 4, &skipped);
    call_workspace(&call, &args.workspace, 4);
    return call_run(rig, &call);
}

static bool run_align_case(align_rig *rig, clmoe_plan *plan, random_stream *random) {
    align_case c;
    case_begin(&c, "align", MAX_TOKENS, 4, 40, 16);
    c.num_tokens = random_below(random, MAX_TOKENS + 1);
    case_fill(&c, (fill)random_below(random, NUM_FILLS), random);
    const bool ok = run_align(rig, plan, &c);
    case_end(&c);
    return ok;
}

static bool run_route_case(align_rig *rig, clmoe_plan *plan, random_stream *random) {
    route_case c;
    route_begin(&c, "route", random_below(random, 30), 40, 4);
    c.desc = route_desc(0);
    route_fill(&c, (logit_fill)random_below(random, NUM_LOGIT_FILLS), random);
    const bool ok = run_route(rig, plan, &c);
    route_end(&c);
    return ok;
}

/* Its ids and weights are route's: the router's oracle judges them, and align's oracle takes the ids. */
static bool run_route_align(align_rig *rig, clmoe_plan *plan, random_stream *random) {
    const uint32_t T = random_below(random, 30), K = 4, E = 40, B = 16;
    route_case c;
    clmoe_route_align_args args = {.route.num_tokens = T};
    op_call call;
    uint32_t rows = 0;
    const clmoe_align_desc align = align_desc(0);
    clmoe_align_max_rows(&align, T, &rows);
    route_begin(&c, "route_align", T, E, K);
    c.desc = route_desc(0);
    route_fill(&c, (logit_fill)random_below(random, NUM_LOGIT_FILLS), random);
    begin_call(&call, "route_align", plan, &args, sizeof args, rig);
    call.enqueue = enqueue_route_align;
    add_input(&call, "logits", &args.route.logits, 4, 4 * (size_t)T * E, c.logits);
    add_output(&call, "topk_ids", &args.route.topk_ids, 4, 4 * (size_t)T * K, NULL)->is_judged = true;
    add_output(&call, "topk_weights", &args.route.topk_weights, 4, 4 * (size_t)T * K, NULL)->is_judged = true;
    add_output(&call, "sorted_token_ids", &args.align.sorted_token_ids, 4, 4 * (size_t)rows, NULL)->is_judged = true;
    add_output(&call, "expert_ids", &args.align.expert_ids, 4, 4 * (size_t)rows / B, NULL)->is_judged = true;
    add_output(&call, "num_tokens_post_padded", &args.align.num_tokens_post_padded, 4, 4, NULL)->is_judged = true;
    call_workspace(&call, &args.workspace, 4);
    const uint64_t refused = rig->calls_refused;
    bool ok = call_run(rig, &call);
    if (ok && rig->calls_refused == refused && T > 0) {
        const int32_t *ids = call_output(rig, &call, 1);
        const uint32_t *weights = call_output(rig, &call, 2);
        for (uint32_t t = 0; ok && t < T; ++t) {
            const oracle_route_inputs inputs = {.router = &c.desc.router, .logits = (const uint32_t *)c.logits + (size_t)t * E};
            oracle_route_row row = oracle_route(&inputs);
            const oracle_verdict verdict = oracle_route_judge(&row, ids + (size_t)t * K, weights + (size_t)t * K);
            oracle_route_free(&row);
            ok = verdict.is_right;
            if (!ok)
                snprintf(rig->failure, sizeof rig->failure, "route_align: row %u: %s", t, verdict.text);
        }
        const oracle_align_inputs inputs = {.num_tokens = T,
                                            .top_k = K,
                                            .num_experts = E,
                                            .block_size = B,
                                            .row_stride = K,
                                            .weights_stride = K,
                                            .capacity = rows,
                                            .topk_ids = ids};
        oracle_align_outputs right = oracle_align(&inputs);
        if (ok && (memcmp(call_output(rig, &call, 3), right.sorted_token_ids, 4 * (size_t)rows) != 0 ||
                   memcmp(call_output(rig, &call, 4), right.expert_ids, 4 * (size_t)rows / B) != 0 ||
                   memcmp(call_output(rig, &call, 5), right.num_tokens_post_padded, 4) != 0)) {
            snprintf(rig->failure, sizeof rig->failure, "route_align: the layout is not the oracle's");
            ok = false;
        }
        oracle_align_free(&right);
    }
    route_end(&c);
    return ok;
}

static bool run(operation op, align_rig *rig, clmoe_plan *plan, random_stream *random) {
    switch (op) {
    case ALIGN: return run_align_case(rig, plan, random);
    case ROUTE: return run_route_case(rig, plan, random);
    case ROUTE_ALIGN: return run_route_align(rig, plan, random);
    case HISTOGRAM: return run_histogram(rig, plan, random);
    case SCAN: return run_scan(rig, plan, random);
    case SORT: return run_sort(rig, plan, random);
    case SCATTER:
    case GATHER: return run_rows(rig, plan, random, op == GATHER);
    case NUM_OPERATORS: break;
    }
    return false;
}

/* ---- Threads -------------------------------------------------------------------------------------------------------------------- */

/* Plans that all threads share: of each operator one for each number of launches; NULL where the pair refuses it. */
static clmoe_plan *shared_plans[NUM_OPERATORS][4];
static atomic_bool is_over; /* for the threads that disturb */

typedef struct worker {
    pthread_t thread;
    uint32_t number, rounds;
    bool has_own_plans;
    char failure[1200]; /* no cmocka in a thread: its failures may only be raised on the main one */
} worker;

static void fail_worker(worker *me, const char *what, clmoe_status status) {
    snprintf(me->failure, sizeof me->failure, "%s: %s", what, clmoe_status_name(status));
}

/* Every other thread has a queue of its own; the rest share the context's. */
static cl_command_queue queue_of(uint32_t number, worker *me) {
    clmoe_device_info info;
    cl_int status = CL_SUCCESS;
    if (opencl == NULL || number % 2 == 1)
        return clmoe_context_queue(pair_context);
    clmoe_context_describe(pair_context, &info);
    cl_command_queue queue = clCreateCommandQueue(opencl, info.device, 0, &status);
    if (status != CL_SUCCESS)
        fail_worker(me, "clCreateCommandQueue", status);
    return queue;
}

static void *work(void *worker_pointer) {
    worker *me = worker_pointer;
    random_stream random = {.state = 100 + me->number};
    align_rig rig;
    cl_command_queue queue = queue_of(me->number, me);
    clmoe_plan *own[NUM_OPERATORS] = {NULL};
    rig_begin(&rig, pair_context, queue);
    for (uint32_t round = 0; round < me->rounds && me->failure[0] == '\0'; ++round) {
        const uint32_t turn = me->has_own_plans ? me->number + round : round / 4; /* shared: all at the same operator */
        const operation op = (operation)(turn % NUM_OPERATORS);
        if (me->has_own_plans && own[op] == NULL) {
            const clmoe_status status = create(pair_context, op, 0, &own[op]);
            if (status != CLMOE_SUCCESS)
                fail_worker(me, "plan", status);
        }
        clmoe_plan *plan = me->has_own_plans ? own[op] : shared_plans[op][random_below(&random, 4)];
        if (plan != NULL && !run(op, &rig, plan, &random))
            snprintf(me->failure, sizeof me->failure, "%s", rig.failure);
    }
    for (int op = 0; op < NUM_OPERATORS; ++op)
        clmoe_plan_destroy(own[op]);
    rig_end(&rig);
    if (queue != clmoe_context_queue(pair_context))
        clReleaseCommandQueue(queue);
    return NULL;
}

/* Makes and destroys plans of the same context. */
static void *make_plans(void *worker_pointer) {
    worker *me = worker_pointer;
    for (uint32_t round = 0; !atomic_load(&is_over) && me->failure[0] == '\0'; ++round) {
        clmoe_plan *plan;
        clmoe_plan_info info;
        const clmoe_status status = create(pair_context, (operation)((me->number + round) % NUM_OPERATORS), round % 4, &plan);
        if (status != CLMOE_SUCCESS && status != CLMOE_UNSUPPORTED)
            fail_worker(me, "a plan meanwhile", status);
        else if (status == CLMOE_SUCCESS && clmoe_plan_describe(plan, 1, &info) != CLMOE_SUCCESS)
            fail_worker(me, "describe meanwhile", CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
    }
    return NULL;
}

static const char *const error_texts[] = {
    "clmoe_scan_plan_create: desc.kind: is none of the CLMOE_SCAN_ values",
    "clmoe_histogram_plan_create: desc.sample_type: must be an integer type",
    "clmoe_scan_enqueue: args.num_items: 1501, the plan takes up to 1500",
};
enum { NUM_ERROR_TEXTS = sizeof error_texts / sizeof *error_texts };

/* Makes errors on the same context and reads texts: each must be one of those that are made, whole. */
static void *make_errors(void *worker_pointer) {
    worker *me = worker_pointer;
    const clmoe_scan_desc scan = {1, CLMOE_TYPE_U32, (clmoe_scan_kind)7, tuning_of(0)};
    const clmoe_histogram_desc histogram = {1, 1, CLMOE_TYPE_F32, tuning_of(0)};
    const clmoe_scan_args args = {.num_items = MAX_ITEMS + 1};
    for (uint32_t round = 0; !atomic_load(&is_over) && me->failure[0] == '\0'; ++round) {
        clmoe_plan *plan = NULL;
        char text[1024];
        const clmoe_status status = round % 3 == 0   ? clmoe_scan_plan_create(pair_context, &scan, &plan)
                                    : round % 3 == 1 ? clmoe_histogram_plan_create(pair_context, &histogram, &plan)
                                                     : clmoe_scan_enqueue(shared_plans[SCAN][0], NULL, &args, 0, NULL, NULL);
        if (status != CLMOE_INVALID_ARGUMENT)
            fail_worker(me, "an error was not made", status);
        clmoe_context_error(pair_context, text, sizeof text);
        int known = 0;
        while (known < NUM_ERROR_TEXTS && strcmp(text, error_texts[known]) != 0)
            ++known;
        if (known == NUM_ERROR_TEXTS && strstr(text, "this driver stops a work-item") == NULL) /* a worker's, on a driver with that limit */
            snprintf(me->failure, sizeof me->failure, "nobody made the error '%s'", text);
        clmoe_context_build_log(pair_context, text, sizeof text);
    }
    return NULL;
}

/* Contexts on the same device, each for one call; every other one is destroyed before its plan. */
static void *make_contexts(void *worker_pointer) {
    worker *me = worker_pointer;
    random_stream random = {.state = 9};
    clmoe_device_info info;
    char selector[16];
    clmoe_context_describe(pair_context, &info);
    snprintf(selector, sizeof selector, "%d", (int)info.index);
    for (uint32_t round = 0; !atomic_load(&is_over) && me->failure[0] == '\0'; ++round) {
        const clmoe_context_options options = {.kernel_class = info.kernel_class, .num_threads = 2};
        clmoe_context *context = NULL;
        clmoe_plan *plan = NULL;
        align_rig rig;
        clmoe_status status = clmoe_context_create(opencl == NULL ? "native" : selector, &options, &context);
        if (status == CLMOE_SUCCESS)
            status = create(context, SCAN, round % 3, &plan);
        if (status != CLMOE_SUCCESS) {
            fail_worker(me, "a context meanwhile", status);
            clmoe_context_destroy(context);
            break;
        }
        rig_begin(&rig, context, clmoe_context_queue(context));
        if (!run(SCAN, &rig, plan, &random))
            snprintf(me->failure, sizeof me->failure, "%s", rig.failure);
        rig_end(&rig);
        if (round % 2 == 0) {
            clmoe_context_destroy(context);
            clmoe_plan_destroy(plan);
        } else {
            clmoe_plan_destroy(plan);
            clmoe_context_destroy(context);
        }
    }
    return NULL;
}

enum { BURST = 16, BURST_ITEMS = 40 };

static pthread_barrier_t together;

/* Many calls of one plan at once, as fast as they can be enqueued, each with memory of its own: what one takes from another is missed. */
static void *burst(void *worker_pointer) {
    worker *me = worker_pointer;
    random_stream random = {.state = 300 + me->number};
    cl_command_queue queue = queue_of(me->number, me);
    static uint32_t items[NUM_WORKERS][BURST][BURST_ITEMS], sums[NUM_WORKERS][BURST][BURST_ITEMS];
    align_rig *rigs = calloc(BURST, sizeof *rigs);
    op_call *calls = calloc(BURST, sizeof *calls);
    clmoe_scan_args args[BURST] = {{0}};
    for (int i = 0; i < BURST; ++i)
        rig_begin(&rigs[i], pair_context, queue);
    for (uint32_t round = 0; round < me->rounds; ++round) {
        for (int i = 0; i < BURST; ++i) {
            uint32_t *in = items[me->number][i], *out = sums[me->number][i];
            fill_keys(in, BURST_ITEMS, CLMOE_TYPE_U32, KEYS_RANDOM, &random);
            oracle_scan(CLMOE_TYPE_U32, CLMOE_SCAN_INCLUSIVE, BURST_ITEMS, in, out);
            args[i].num_items = BURST_ITEMS;
            begin_call(&calls[i], "burst", shared_plans[SCAN][0], &args[i], sizeof args[i], &rigs[i]);
            add_input(&calls[i], "input", &args[i].input, 4, 4 * BURST_ITEMS, in);
            add_output(&calls[i], "output", &args[i].output, 4, 4 * BURST_ITEMS, out);
            call_workspace(&calls[i], &args[i].workspace, 4);
            if (!call_prepare(&rigs[i], &calls[i]))
                snprintf(me->failure, sizeof me->failure, "%s", rigs[i].failure);
        }
        pthread_barrier_wait(&together);
        for (int i = 0; i < BURST && me->failure[0] == '\0'; ++i) {
            const clmoe_status status = clmoe_scan_enqueue(shared_plans[SCAN][0], queue, &args[i], 0, NULL, NULL);
            if (status != CLMOE_SUCCESS)
                fail_worker(me, "burst", status);
        }
        if (queue != NULL)
            clFinish(queue);
        for (int i = 0; i < BURST && me->failure[0] == '\0'; ++i)
            if (!call_check(&rigs[i], &calls[i]))
                snprintf(me->failure, sizeof me->failure, "%s", rigs[i].failure);
    }
    for (int i = 0; i < BURST; ++i)
        rig_end(&rigs[i]);
    free(rigs);
    free(calls);
    if (queue != clmoe_context_queue(pair_context))
        clReleaseCommandQueue(queue);
    return NULL;
}

typedef void *body(void *worker_pointer);

static void start(worker *workers, uint32_t count, body *what, bool has_own_plans) {
    for (uint32_t i = 0; i < count; ++i) {
        workers[i] = (worker){.number = i, .rounds = fixture_cases(400, 40, 8), .has_own_plans = has_own_plans};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, what, &workers[i]), 0);
    }
}

static void join(worker *workers, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
        pthread_join(workers[i].thread, NULL);
}

static void expect_good(const worker *workers, uint32_t count, const char *what) {
    for (uint32_t i = 0; i < count; ++i) {
        if (workers[i].failure[0] != '\0')
            fail_msg("%s, thread %u: %s", what, i, workers[i].failure);
    }
}

static void test_own_plans(void **state) {
    (void)state;
    static worker workers[NUM_WORKERS];
    start(workers, NUM_WORKERS, work, true);
    join(workers, NUM_WORKERS);
    expect_good(workers, NUM_WORKERS, "own plans");
}

static void test_shared_plans(void **state) {
    (void)state;
    static worker workers[NUM_WORKERS];
    start(workers, NUM_WORKERS, work, false);
    join(workers, NUM_WORKERS);
    expect_good(workers, NUM_WORKERS, "shared plans");
}

static void test_bursts(void **state) {
    (void)state;
    static worker workers[NUM_WORKERS];
    assert_int_equal(pthread_barrier_init(&together, NULL, NUM_WORKERS), 0);
    start(workers, NUM_WORKERS, burst, false);
    join(workers, NUM_WORKERS);
    pthread_barrier_destroy(&together);
    expect_good(workers, NUM_WORKERS, "bursts");
}

static void test_coming_and_going(void **state) {
    (void)state;
    enum { NUM_MAKERS = 5 };
    static worker workers[NUM_WORKERS], makers[NUM_MAKERS];
    atomic_store(&is_over, false);
    start(&makers[0], 2, make_plans, false);
    start(&makers[2], 2, make_errors, false);
    start(&makers[4], 1, make_contexts, false);
    start(workers, NUM_WORKERS, work, false);
    join(workers, NUM_WORKERS);
    atomic_store(&is_over, true);
    join(makers, NUM_MAKERS);
    expect_good(workers, NUM_WORKERS, "coming and going");
    expect_good(makers, NUM_MAKERS, "who comes and goes");
}

static int open_pair(void **state) {
    (void)state;
    pair_context = fixture_context(fixture_pair());
    if (pair_context == NULL)
        return -1;
    opencl = clmoe_context_opencl_context(pair_context);
    for (int op = 0; op < NUM_OPERATORS; ++op)
        for (uint32_t launches = 0; launches < 4; ++launches) {
            const clmoe_status status = create(pair_context, (operation)op, launches, &shared_plans[op][launches]);
            if (status != CLMOE_SUCCESS && status != CLMOE_UNSUPPORTED)
                return -1;
        }
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    for (int op = 0; op < NUM_OPERATORS; ++op)
        for (uint32_t launches = 0; launches < 4; ++launches)
            clmoe_plan_destroy(shared_plans[op][launches]);
    clmoe_context_destroy(pair_context);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_plans),
        cmocka_unit_test(test_shared_plans),
        cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_coming_and_going),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
