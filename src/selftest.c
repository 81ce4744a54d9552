/* The self-test: made-up inputs, each call that the cases describe in each way that the device takes, and one hash over all outputs
 * that must be the case's. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "context.h"
#include "selftest_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- A run --------------------------------------------------------------------------------------------------------------------- */

/* Ways to carry out a call; the library's own choice first. */
static const clmoe_tuning ways[] = {
    {0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0}, {4, 0, 0}, {0, 0, 1}, {0, 0, 7}, {3, 0, 5}, {0, 128, 0}, {0, 64, 0}, {3, 64, 3}, {0, 32, 0},
};

enum { NUM_WAYS = sizeof ways / sizeof *ways };

enum { GUARD_BYTES = 64, MAX_ARRAYS = 24 };
enum { POISON = 0xa5 };

struct array {
    clmoe_buffer memory;    /* GUARD_BYTES, the array, GUARD_BYTES */
    unsigned char *content; /* of an input, as the device has it; NULL for an output */
    size_t num_bytes;
};

struct run {
    clmoe_context *context;
    cl_command_queue queue;
    clmoe_selftest_report *report;
    clmoe_selftest_row *row;
    uint32_t random;

    /* of one case */
    const struct test_case *test;
    clmoe_status status; /* the first failure while arrays were made */
    unsigned num_arrays;
    struct array arrays[MAX_ARRAYS];
    unsigned num_plans;
    clmoe_plan *plans[NUM_WAYS]; /* alive until the case ends, so that programs are compiled once */
    union args {
        clmoe_align_args align;
        clmoe_route_args route;
        clmoe_route_align_args route_align;
        clmoe_histogram_args histogram;
        clmoe_scan_args scan;
        clmoe_sort_args sort;
        clmoe_scatter_args scatter;
    } args;
};

static double milliseconds(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static const uint64_t empty_hash = 0xcbf29ce484222325u;

/* FNV-1a. */
static uint64_t add_to_hash(uint64_t hash, const unsigned char *bytes, size_t num_bytes) {
    for (size_t i = 0; i < num_bytes; ++i)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t add_hash_to_hash(uint64_t hash, uint64_t other) {
    unsigned char bytes[8];
    for (unsigned i = 0; i < 8; ++i)
        bytes[i] = (unsigned char)(other >> 8 * i);
    return add_to_hash(hash, bytes, sizeof bytes);
}

/* ---- Inputs -------------------------------------------------------------------------------------------------------------------- */

static uint32_t next(struct run *run) {
    uint32_t x = run->random += 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x21f0aaadu;
    x = (x ^ (x >> 15)) * 0x735a2d97u;
    return x ^ (x >> 15);
}

/* Memory with guards, holding `content`, or poison if that is NULL. */
static clmoe_buffer add_array(struct run *run, unsigned char *content, size_t num_bytes) {
    clmoe_buffer view = {0};
    struct array *array = &run->arrays[run->num_arrays];
    *array = (struct array){.content = content, .num_bytes = num_bytes};
    ++run->num_arrays;
    if (run->status == CLMOE_SUCCESS)
        run->status = clmoe_buffer_create(run->context, num_bytes + 2 * GUARD_BYTES, &array->memory);
    if (run->status == CLMOE_SUCCESS && num_bytes != 0) {
        view = array->memory;
        view.offset_bytes = GUARD_BYTES;
        view.size_bytes = num_bytes;
    }
    return view;
}

static clmoe_buffer output(struct run *run, uint64_t num_items, size_t item_bytes) {
    return add_array(run, NULL, (size_t)num_items * item_bytes);
}

static void put(unsigned char *at, size_t bytes, uint64_t value) {
    const uint8_t value8 = (uint8_t)value;
    const uint16_t value16 = (uint16_t)value;
    const uint32_t value32 = (uint32_t)value;
    memcpy(at,
           bytes == 1   ? (const void *)&value8
           : bytes == 2 ? (const void *)&value16
           : bytes == 4 ? (const void *)&value32
                        : (const void *)&value,
           bytes);
}

/* The number of item i, of `range` numbers from `low` on; range 0: any bits. */
typedef uint64_t item_maker(struct run *run, uint64_t i, int64_t low, uint64_t range);

static uint64_t any_integer(struct run *run, uint64_t i, int64_t low, uint64_t range) {
    (void)i;
    const uint64_t high = next(run), bits = high << 32 | next(run);
    return range == 0 ? bits : (uint64_t)low + bits % range;
}

/* Local numbers of two experts in three. */
static uint64_t local_number(struct run *run, uint64_t i, int64_t low, uint64_t range) {
    (void)run, (void)low, (void)range;
    return i % 3 == 1 ? UINT64_MAX : i - (i + 1) / 3;
}

/* Each row once, in no order. range: how many there are. */
static uint64_t any_row_once(struct run *run, uint64_t i, int64_t low, uint64_t range) {
    (void)run, (void)low;
    return i * 7919u % range; /* a prime, and no range here is a multiple of it */
}

static clmoe_buffer input(struct run *run, uint64_t num_items, size_t item_bytes, item_maker *make, int64_t low, uint64_t range) {
    const size_t num_bytes = (size_t)num_items * item_bytes;
    unsigned char *const content = malloc(num_bytes + 1);
    if (content == NULL) {
        run->status = CLMOE_OUT_OF_MEMORY;
        return (clmoe_buffer){0};
    }
    for (uint64_t i = 0; i < num_items; ++i)
        put(content + i * item_bytes, item_bytes, make(run, i, low, range));
    const clmoe_buffer view = add_array(run, content, num_bytes);
    if (run->status == CLMOE_SUCCESS && num_bytes != 0)
        run->status = run->context->backend->buffer_write(run->context, run->queue, view, content, num_bytes);
    return view;
}

/* Multiples of 1/64 between -16 and 16, so that there are ties; in each fourth row some that are no such numbers. low: the type. */
static uint64_t any_logit(struct run *run, uint64_t i, int64_t low, uint64_t num_experts) {
    static const uint32_t odd[] = {0x7fc00000u, 0x7f800000u, 0xff800000u, 1, 0x80000000u, 0x7f7fffffu, 0xff7fffffu, 0x007fffffu};
    static const uint16_t odd_halves[] = {0x7e00, 0x7c00, 0xfc00, 1, 0x8000, 0x7bff, 0xfbff, 0x03ff};
    const uint32_t any = next(run);
    const bool is_odd = i / num_experts % 4 == 3 && any >> 28 == 0;
    if (low == CLMOE_LOGIT_F16) /* exponents -5 ... 3 */
        return is_odd ? odd_halves[any % 8] : (any & 0x83e0u) | (10 + (any >> 16) % 9) << 10;
    const float value = (float)((int32_t)(any & 0x7ffu) - 1024) / 64;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = is_odd ? odd[any % 8] : bits;
    return low == CLMOE_LOGIT_BF16 ? bits >> 16 : bits;
}

/* Of -0.5 ... 0.5, or of 0.5 ... 1.5 with low 1. */
static uint64_t any_factor(struct run *run, uint64_t i, int64_t low, uint64_t range) {
    (void)i, (void)range;
    const float value = (float)(next(run) >> 16) / 65536 - 0.5f + (float)low;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---- What each operator is called with -------------------------------------------------------------------------------------------- */

static size_t type_bytes(clmoe_type type) {
    return type == CLMOE_TYPE_U64 || type == CLMOE_TYPE_I64   ? 8
           : type == CLMOE_TYPE_U16 || type == CLMOE_TYPE_I16 ? 2
           : type == CLMOE_TYPE_U8 || type == CLMOE_TYPE_I8   ? 1
                                                              : 4;
}

/* All of align's but what route makes. */
static void prepare_layout(struct run *run, const clmoe_align_desc *desc, clmoe_align_args *args) {
    const uint32_t tokens = run->test->num_items;
    const uint64_t experts = desc->num_experts;
    uint32_t rows = 0;
    if (run->status == CLMOE_SUCCESS)
        run->status = clmoe_align_max_rows(desc, tokens, &rows);
    args->sorted_token_ids = output(run, rows, 4);
    args->expert_ids = output(run, rows / desc->block_size, 4);
    args->num_tokens_post_padded = output(run, 1, 4);
    if (!run->test->has_options)
        return;
    args->expert_map = input(run, experts, 4, local_number, 0, 0);
    args->row_mask = input(run, tokens, 1, any_integer, 0, 4);
    args->num_tokens_device = input(run, 1, 4, any_integer, tokens - 3, 1);
    args->counts = output(run, experts, 4);
    args->offsets = output(run, experts + 1, 4);
    args->padded_offsets = output(run, experts + 1, 4);
    args->inverse = output(run, (uint64_t)tokens * desc->top_k, 4);
    args->rows_valid = output(run, rows / desc->block_size, 4);
    args->sorted_weights = output(run, rows, 4);
    args->status = output(run, 4, 4);
}

static void prepare_align(struct run *run) {
    static const size_t id_bytes[] = {[CLMOE_ID_I32] = 4, [CLMOE_ID_I64] = 8, [CLMOE_ID_U32] = 4, [CLMOE_ID_I16] = 2, [CLMOE_ID_U8] = 1};
    const clmoe_align_desc *desc = &run->test->desc.align;
    clmoe_align_desc sized = *desc;
    const uint64_t pairs = (uint64_t)run->test->num_items * desc->top_k;
    clmoe_align_args *args = &run->args.align;
    sized.max_tokens = args->num_tokens = run->test->num_items;
    args->topk_ids = input(run, pairs, id_bytes[desc->id_type], any_integer, -1, (uint64_t)desc->num_experts + 2);
    if (run->test->has_options)
        args->topk_weights = input(run, pairs, 4, any_factor, 0, 0);
    prepare_layout(run, &sized, args);
}

static void prepare_router(struct run *run, clmoe_logit_type type, const clmoe_router *router, clmoe_route_args *args) {
    const uint64_t tokens = run->test->num_items, experts = router->num_experts;
    args->num_tokens = run->test->num_items;
    args->logits = input(run, tokens * experts, type == CLMOE_LOGIT_F32 ? 4 : 2, any_logit, (int64_t)type, experts);
    if (router->has_bias)
        args->bias = input(run, experts, 4, any_factor, 0, 0);
    if (router->has_expert_scale)
        args->expert_scale = input(run, experts, 4, any_factor, 1, 0);
    args->topk_ids = output(run, tokens * router->top_k, 4);
    args->topk_weights = output(run, tokens * router->top_k, 4);
}

static void prepare_route(struct run *run) {
    prepare_router(run, run->test->desc.route.logit_type, &run->test->desc.route.router, &run->args.route);
}

static void prepare_route_align(struct run *run) {
    const clmoe_route_align_desc *desc = &run->test->desc.route_align;
    const clmoe_align_desc layout = {.max_tokens = run->test->num_items,
                                     .top_k = desc->router.top_k,
                                     .num_experts = desc->router.num_experts,
                                     .block_size = desc->block_size,
                                     .foreign = desc->foreign};
    prepare_router(run, desc->logit_type, &desc->router, &run->args.route_align.route);
    prepare_layout(run, &layout, &run->args.route_align.align);
}

static void prepare_histogram(struct run *run) {
    const clmoe_histogram_desc *desc = &run->test->desc.histogram;
    clmoe_histogram_args *args = &run->args.histogram;
    args->num_items = run->test->num_items;
    args->samples = input(run, args->num_items, type_bytes(desc->sample_type), any_integer, -3, (uint64_t)desc->num_bins + 6);
    args->counts = output(run, desc->num_bins, 4);
    args->ignored = output(run, 1, 4);
}

static void prepare_scan(struct run *run) {
    const size_t item_bytes = type_bytes(run->test->desc.scan.type);
    clmoe_scan_args *args = &run->args.scan;
    args->num_items = run->test->num_items;
    args->input = input(run, args->num_items, item_bytes, any_integer, 0, 0);
    args->output = output(run, args->num_items, item_bytes);
}

static void prepare_sort(struct run *run) {
    const clmoe_sort_desc *desc = &run->test->desc.sort;
    const size_t key_bytes = type_bytes(desc->key_type);
    clmoe_sort_args *args = &run->args.sort;
    args->num_items = run->test->num_items;
    if (desc->key_type == CLMOE_TYPE_F32)
        args->keys = input(run, args->num_items, key_bytes, any_logit, CLMOE_LOGIT_F32, 64);
    else
        args->keys = input(run, args->num_items, key_bytes, any_integer, -800, desc->end_bit != 0 ? 0 : 1600); /* ties */
    if (desc->value_bytes != 0 && !desc->is_argsort)
        args->values = input(run, args->num_items, desc->value_bytes, any_integer, 0, 0);
    args->keys_out = output(run, args->num_items, key_bytes);
    if (desc->value_bytes != 0)
        args->values_out = output(run, args->num_items, desc->value_bytes);
}

static void prepare_rows(struct run *run) {
    const clmoe_scatter_desc *desc = &run->test->desc.scatter;
    const bool is_gather = run->test->op == GATHER, is_unique = !is_gather && desc->duplicates == CLMOE_DUPLICATES_UNIQUE;
    clmoe_scatter_args *args = &run->args.scatter;
    args->num_items = args->num_rows = run->test->num_items;
    args->source = input(run, (uint64_t)args->num_items * desc->row_bytes, 1, any_integer, 0, 0);
    args->index = is_unique ? input(run, args->num_items, type_bytes(desc->index_type), any_row_once, 0, args->num_rows)
                            : input(run, args->num_items, type_bytes(desc->index_type), any_integer, -3, (uint64_t)args->num_rows + 6);
    args->destination = output(run, args->num_items, desc->row_bytes);
    args->skipped = output(run, 1, 4);
}

/* ---- Operators ------------------------------------------------------------------------------------------------------------------- */

#define OPERATOR_CALLS(op)                                                                                                                 \
    static clmoe_status create_##op(clmoe_context *context, const void *desc, clmoe_plan **plan) {                                         \
        return clmoe_##op##_plan_create(context, desc, plan);                                                                              \
    }                                                                                                                                      \
    static clmoe_status enqueue_##op(clmoe_plan *plan, cl_command_queue queue, const void *args) {                                         \
        return clmoe_##op##_enqueue(plan, queue, args, 0, NULL, NULL);                                                                     \
    }
OPERATOR_CALLS(align)
OPERATOR_CALLS(route)
OPERATOR_CALLS(route_align)
OPERATOR_CALLS(histogram)
OPERATOR_CALLS(scan)
OPERATOR_CALLS(sort)
OPERATOR_CALLS(scatter)
OPERATOR_CALLS(gather)

static const struct operator_calls {
    const char *name;
    void (*prepare)(struct run *run); /* fills arrays and args */
    clmoe_status (*create)(clmoe_context *context, const void *desc, clmoe_plan **plan);
    clmoe_status (*enqueue)(clmoe_plan *plan, cl_command_queue queue, const void *args);
    size_t max_at, max_rows_at, tuning_at; /* in the descriptor */
    size_t workspace_at;                   /* in the arguments */
    uint32_t max_launches;
} operators[NUM_OPS] = {
#define OPERATOR(op, prepare, type, max, max_rows, launches)                                                                               \
    {                                                                                                                                      \
#op, prepare, create_##op, enqueue_##op, offsetof(clmoe_##type##_desc, max), offsetof(clmoe_##type##_desc, max_rows),              \
            offsetof(clmoe_##type##_desc, tuning), offsetof(clmoe_##type##_args, workspace), launches                                      \
    }
    [ALIGN] = OPERATOR(align, prepare_align, align, max_tokens, max_tokens, 3),
    [ROUTE] = OPERATOR(route, prepare_route, route, max_tokens, max_tokens, 1),
    [ROUTE_ALIGN] = OPERATOR(route_align, prepare_route_align, route_align, max_tokens, max_tokens, 4),
    [HISTOGRAM] = OPERATOR(histogram, prepare_histogram, histogram, max_items, max_items, 2),
    [SCAN] = OPERATOR(scan, prepare_scan, scan, max_items, max_items, 2),
    [SORT] = OPERATOR(sort, prepare_sort, sort, max_items, max_items, 3),
    [SCATTER] = OPERATOR(scatter, prepare_rows, scatter, max_items, max_rows, 3),
    [GATHER] = OPERATOR(gather, prepare_rows, scatter, max_items, max_rows, 2),
#undef OPERATOR
};

/* ---- Calls ------------------------------------------------------------------------------------------------------------------------ */

static bool is_way_of(const struct run *run, const clmoe_tuning *way) {
    const bool is_parallel = run->context->info.kernel_class == CLMOE_CLASS_PARALLEL;
    return way->num_launches <= operators[run->test->op].max_launches &&
           (way->group_size == 0 || (is_parallel && run->test->has_group_sizes && way->group_size <= run->context->limits.max_group_size));
}

/* The first one is kept as text. */
static void count_wrong(struct run *run, const clmoe_tuning *way, const char *what) {
    clmoe_selftest_report *report = run->report;
    ++run->row->num_wrong;
    if (report->first_wrong[0] != '\0')
        return;
    char forced[80] = "";
    if (way->num_launches != 0 || way->group_size != 0 || way->num_groups != 0)
        snprintf(forced, sizeof forced, " (launches %u, group size %u, groups %u; 0 = the library's choice)", way->num_launches,
                 way->group_size, way->num_groups);
    snprintf(report->first_wrong, sizeof report->first_wrong, "%s, %s%s: %s", operators[run->test->op].name, run->test->name, forced, what);
}

/* Poison into the outputs, and beside all arrays. */
static clmoe_status poison(struct run *run, unsigned char *bytes) {
    clmoe_status status = CLMOE_SUCCESS;
    for (unsigned i = 0; i < run->num_arrays && status == CLMOE_SUCCESS; ++i) {
        const struct array *array = &run->arrays[i];
        memset(bytes, POISON, array->memory.size_bytes);
        if (array->content != NULL)
            memcpy(bytes + GUARD_BYTES, array->content, array->num_bytes);
        status = run->context->backend->buffer_write(run->context, run->queue, array->memory, bytes, array->memory.size_bytes);
    }
    return status;
}

/* Reads all arrays back. *wrong says what else was written to, if anything was. */
static clmoe_status collect(struct run *run, unsigned char *bytes, uint64_t *hash, const char **wrong) {
    clmoe_status status = CLMOE_SUCCESS;
    *hash = empty_hash;
    *wrong = NULL;
    for (unsigned i = 0; i < run->num_arrays && status == CLMOE_SUCCESS; ++i) {
        const struct array *array = &run->arrays[i];
        status = run->context->backend->buffer_read(run->context, run->queue, array->memory, bytes, array->memory.size_bytes);
        if (status != CLMOE_SUCCESS)
            break;
        for (size_t k = 0; k < GUARD_BYTES; ++k)
            if (bytes[k] != POISON || bytes[GUARD_BYTES + array->num_bytes + k] != POISON)
                *wrong = "wrote beside an array";
        if (array->content == NULL)
            *hash = add_to_hash(*hash, bytes + GUARD_BYTES, array->num_bytes);
        else if (memcmp(bytes + GUARD_BYTES, array->content, array->num_bytes) != 0)
            *wrong = "changed an input";
    }
    return status;
}

/* Memory of poison: what a workspace holds before a call must not matter. */
static clmoe_status create_workspace(struct run *run, size_t num_bytes, clmoe_buffer *workspace) {
    clmoe_status status = clmoe_buffer_create(run->context, num_bytes, workspace);
    if (status != CLMOE_SUCCESS || num_bytes == 0)
        return status;
    unsigned char *bytes = malloc(num_bytes);
    if (bytes == NULL)
        return clmoe_fail(run->context, CLMOE_OUT_OF_MEMORY, "out of host memory");
    memset(bytes, POISON, num_bytes);
    status = run->context->backend->buffer_write(run->context, run->queue, *workspace, bytes, num_bytes);
    free(bytes);
    return status;
}

static void place_size(void *desc, size_t at, uint32_t size) {
    memcpy((char *)desc + at, &size, sizeof size);
}

/* One call in one way. bytes: room for the largest array and its guards. */
static void run_call(struct run *run, const clmoe_tuning *way, unsigned char *bytes) {
    const struct operator_calls *calls = &operators[run->test->op];
    const bool is_default = way == ways;
    union desc desc = run->test->desc;
    clmoe_plan *plan = NULL;
    clmoe_buffer workspace = {0};
    uint64_t hash = 0;
    const char *wrong = NULL;
    char text[160];
    place_size(&desc, calls->max_rows_at, run->test->num_items);
    place_size(&desc, calls->max_at, run->test->num_items);
    memcpy((char *)&desc + calls->tuning_at, way, sizeof *way);

    clmoe_status status = calls->create(run->context, &desc, &plan);
    if (status == CLMOE_SUCCESS)
        run->plans[run->num_plans++] = plan;
    if (status == CLMOE_SUCCESS)
        status = create_workspace(run, clmoe_plan_workspace_bytes(plan), &workspace);
    if (status == CLMOE_SUCCESS)
        status = poison(run, bytes);
    if (status == CLMOE_SUCCESS) {
        memcpy((char *)&run->args + calls->workspace_at, &workspace, sizeof workspace);
        status = calls->enqueue(plan, run->queue, &run->args);
    }
    if (status == CLMOE_SUCCESS)
        status = collect(run, bytes, &hash, &wrong);
    run->row->num_calls += status != CLMOE_UNSUPPORTED;
    if (status == CLMOE_UNSUPPORTED && !is_default) {
        ++run->row->num_refused;
    } else if (status == CLMOE_OUT_OF_MEMORY) {
        run->status = status; /* says nothing about the device */
    } else if (status != CLMOE_SUCCESS) {
        clmoe_context_error(run->context, text, sizeof text);
        count_wrong(run, way, text);
    } else if (wrong != NULL) {
        count_wrong(run, way, wrong);
    } else if (hash != run->test->hash) {
        snprintf(text, sizeof text, "results with hash %016llx, must be %016llx", (unsigned long long)hash,
                 (unsigned long long)run->test->hash);
        count_wrong(run, way, text);
    }
    if (is_default)
        run->row->hash = add_hash_to_hash(run->row->hash, hash);
    clmoe_buffer_destroy(run->context, workspace);
}

static clmoe_status run_case(struct run *run, const struct test_case *test) {
    const double start = milliseconds();
    run->test = test;
    run->status = CLMOE_SUCCESS;
    run->num_arrays = 0;
    run->num_plans = 0;
    run->random = (uint32_t)(test - clmoe_selftest_cases) << 20;
    memset(&run->args, 0, sizeof run->args);
    operators[test->op].prepare(run);

    size_t most = 0;
    for (unsigned i = 0; i < run->num_arrays; ++i)
        most = run->arrays[i].memory.size_bytes > most ? run->arrays[i].memory.size_bytes : most;
    unsigned char *bytes = malloc(most + 1);
    if (bytes == NULL)
        run->status = CLMOE_OUT_OF_MEMORY;
    for (size_t i = 0; run->status == CLMOE_SUCCESS && i < NUM_WAYS; ++i)
        if (is_way_of(run, &ways[i]))
            run_call(run, &ways[i], bytes);
    free(bytes);
    for (unsigned i = 0; i < run->num_plans; ++i)
        clmoe_plan_destroy(run->plans[i]);
    for (unsigned i = 0; i < run->num_arrays; ++i) {
        clmoe_buffer_destroy(run->context, run->arrays[i].memory);
        free(run->arrays[i].content);
    }
    run->row->ms += milliseconds() - start;
    return run->status;
}

clmoe_status clmoe_context_selftest(clmoe_context *context, clmoe_selftest_report *report) {
    clmoe_selftest_report unwanted;
    if (context == NULL)
        return CLMOE_INVALID_ARGUMENT;
    if (report == NULL)
        report = &unwanted;
    memset(report, 0, sizeof *report);
    struct run run = {.context = context, .report = report};
    clmoe_status status = context->backend->queue_create(context, &run.queue);
    if (status != CLMOE_SUCCESS)
        return status;
    report->hash = empty_hash;
    const uint64_t errors_before = clmoe_num_errors(context);
    for (size_t i = 0; i < clmoe_num_selftest_cases && status == CLMOE_SUCCESS; ++i) {
        const struct test_case *test = &clmoe_selftest_cases[i];
        if (i == 0 || test->op != test[-1].op) {
            run.row = &report->rows[report->num_rows++];
            run.row->hash = empty_hash;
            snprintf(run.row->name, sizeof run.row->name, "%s", operators[test->op].name);
        }
        status = run_case(&run, test);
    }
    context->backend->queue_destroy(context, run.queue);
    for (uint32_t i = 0; i < report->num_rows; ++i) {
        const clmoe_selftest_row *row = &report->rows[i];
        report->num_calls += row->num_calls;
        report->num_wrong += row->num_wrong;
        report->num_refused += row->num_refused;
        report->ms += row->ms;
        report->hash = add_hash_to_hash(report->hash, row->hash);
    }
    if (status == CLMOE_OUT_OF_MEMORY)
        return clmoe_fail(context, status, "clmoe_context_selftest: out of host memory");
    if (status == CLMOE_SUCCESS && report->num_wrong != 0)
        return clmoe_fail(context, CLMOE_WRONG_RESULT, "clmoe_context_selftest: %s", report->first_wrong);
    if (status == CLMOE_SUCCESS)
        clmoe_forget_error(context, errors_before + report->num_refused);
    return status;
}
