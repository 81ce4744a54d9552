/* scatter and gather - one launch copies; a second adds up what several groups skipped, if the caller asks. LAST_WINS in the parallel class
 * finds the last item of each row first, which takes two launches more. */
#include "../../cl/scatter.h"
#include "call.h"
#include "clmoe/primitives.h"

#include <stdio.h>

/* The serial class has the first three only. */
enum { KERNEL_SCATTER, KERNEL_GATHER, KERNEL_SUM, KERNEL_CLEAR, KERNEL_CLAIM };

struct scatter_plan {
    struct clmoe_plan base;
    clmoe_scatter_desc desc;
    uint32_t index_bytes;
    bool has_winners;  /* LAST_WINS in the parallel class */
    size_t winners_at; /* u32 in the workspace */
};

#define SCATTER_KERNELS(variant_name, define_text, ...)                                                                                    \
    {                                                                                                                                      \
        .op = "scatter", .variant = variant_name, .defines = define_text, .kernel_names = { "scatter_copy", "gather_copy", __VA_ARGS__ }   \
    }
#define BOTH_CLASSES(variant_name, define_text)                                                                                            \
    {                                                                                                                                      \
        SCATTER_KERNELS(variant_name, define_text, "scatter_sum"),                                                                         \
            SCATTER_KERNELS(variant_name, define_text, "scatter_sum", "scatter_clear", "scatter_claim")                                    \
    }
static const struct {
    uint32_t bytes;                  /* 0: no index type */
    struct clmoe_kernel_set sets[2]; /* serial, parallel */
} index_types[] = {
    [CLMOE_TYPE_U32] = {4, BOTH_CLASSES("u32", "#define INDEX uint\n")},
    [CLMOE_TYPE_I32] = {4, BOTH_CLASSES("i32", "#define INDEX int\n")},
    [CLMOE_TYPE_F32] = {0},
    [CLMOE_TYPE_U64] = {8, BOTH_CLASSES("u64", "#define INDEX ulong\n")},
    [CLMOE_TYPE_I64] = {8, BOTH_CLASSES("i64", "#define INDEX long\n")},
};

/* Launches of a call, with or without the sum of what was skipped. */
static uint32_t num_launches_of(const struct scatter_plan *plan, uint32_t num_chunks, bool has_skipped) {
    return 1 + (plan->has_winners ? 2u : 0u) + (has_skipped && num_chunks > 1 ? 1u : 0u);
}

static clmoe_status describe(const clmoe_plan *base, size_t num_items, clmoe_plan_info *info) {
    static const char function[] = "clmoe_plan_describe";
    const struct scatter_plan *plan = (const struct scatter_plan *)base;
    struct clmoe_items_path path;
    const clmoe_status status = clmoe_check_items(base->context, function, "num_items", num_items, plan->desc.max_items);
    if (status != CLMOE_SUCCESS)
        return status;
    const bool is_serial = info->kernel_class == CLMOE_CLASS_SERIAL;
    const char *refusal =
        clmoe_tune_scatter(&base->context->limits, info->kernel_class, base->group_size, &plan->desc.tuning, (uint32_t)num_items,
                           plan->desc.row_bytes, is_serial && plan->desc.duplicates == CLMOE_DUPLICATES_LAST_WINS, &path);
    if (refusal != NULL)
        return clmoe_fail(base->context, CLMOE_UNSUPPORTED, "%s: num_items: %zu: %s", function, num_items, refusal);
    const uint64_t n = num_items, index = n * plan->index_bytes, rows = n * plan->desc.row_bytes;
    info->num_launches = num_launches_of(plan, path.num_chunks, false);
    info->num_groups = path.num_chunks;
    info->bytes_read = rows + index;
    info->bytes_written = rows;
    if (plan->has_winners) {
        info->bytes_read += 2 * index + 8 * n;
        info->bytes_written += 8 * n;
    } else if (plan->desc.duplicates == CLMOE_DUPLICATES_LAST_WINS) {
        info->bytes_read += index * (path.num_chunks - 1); /* each group reads the whole index */
    }
    info->local_bytes = is_serial ? 0 : 4;
    return CLMOE_SUCCESS;
}

static clmoe_status describe_gather(const clmoe_plan *base, size_t num_items, clmoe_plan_info *info) {
    return describe(base, num_items, info);
}

static clmoe_status create(clmoe_context *context, const char *function, const clmoe_scatter_desc *desc, bool is_gather,
                           clmoe_plan **plan) {
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_max_items(context, function, desc->max_items, &desc->tuning);
    if (status != CLMOE_SUCCESS)
        return status;
    if (desc->max_rows > INT32_MAX)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.max_rows: %u, must be below 2^31", function, desc->max_rows);
    if (desc->row_bytes == 0 || desc->row_bytes > INT32_MAX)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.row_bytes: %u, must be 1 ... 2^31 - 1", function, desc->row_bytes);
    if ((uint32_t)desc->index_type > CLMOE_TYPE_I64 || index_types[desc->index_type].bytes == 0)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.index_type: must be I32, U32, I64 or U64", function);
    if (!is_gather && (uint32_t)desc->duplicates > CLMOE_DUPLICATES_LAST_WINS)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.duplicates: is none of the CLMOE_DUPLICATES_ values", function);

    const bool is_parallel = context->info.kernel_class == CLMOE_CLASS_PARALLEL;
    uint32_t group_size;
    clmoe_plan *base;
    status = clmoe_choose_group_size(context, function, &desc->tuning, clmoe_no_local_items, NULL, &group_size);
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct scatter_plan), &index_types[desc->index_type].sets[is_parallel], group_size,
                                desc->tuning.group_size, &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct scatter_plan *made = (struct scatter_plan *)base;
    struct clmoe_items_path path;
    made->desc = *desc;
    if (is_gather)
        made->desc.duplicates = CLMOE_DUPLICATES_UNIQUE;
    made->index_bytes = index_types[desc->index_type].bytes;
    made->has_winners = is_parallel && made->desc.duplicates == CLMOE_DUPLICATES_LAST_WINS;
    base->describe = is_gather ? describe_gather : describe;
    if (is_gather)
        snprintf(base->name, sizeof base->name, "gather %s", index_types[desc->index_type].sets[is_parallel].variant);
    clmoe_tune_scatter(&context->limits, context->info.kernel_class, base->group_size, &desc->tuning, desc->max_items, desc->row_bytes,
                       !is_parallel && made->desc.duplicates == CLMOE_DUPLICATES_LAST_WINS, &path);
    made->winners_at = path.num_chunks;
    base->workspace_bytes = 4 * (made->winners_at + (made->has_winners ? (size_t)desc->max_rows : 0));
    *plan = base;
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_scatter_plan_create(clmoe_context *context, const clmoe_scatter_desc *desc, clmoe_plan **plan) {
    return create(context, "clmoe_scatter_plan_create", desc, false, plan);
}

clmoe_status clmoe_gather_plan_create(clmoe_context *context, const clmoe_scatter_desc *desc, clmoe_plan **plan) {
    return create(context, "clmoe_gather_plan_create", desc, true, plan);
}

/* ---- Enqueue ---- */

/* The widest word, up to 8 bytes, in whose multiples rows and both views begin. */
static uint32_t word_bytes_of(const clmoe_scatter_args *args, uint32_t row_bytes) {
    const uint64_t at = (uintptr_t)args->source.host | args->source.offset_bytes | (uintptr_t)args->destination.host |
                        args->destination.offset_bytes | row_bytes;
    return at % 8 == 0 ? 8 : at % 4 == 0 ? 4 : at % 2 == 0 ? 2 : 1;
}

static clmoe_status enqueue(clmoe_plan *base, const char *function, bool is_gather, const clmoe_scatter_args *args,
                            const struct clmoe_queue_tail *tail) {
    enum { SOURCE, INDEX, DESTINATION, SKIPPED, WORKSPACE, NUM_VIEWS };
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, is_gather ? describe_gather : describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct scatter_plan *plan = (const struct scatter_plan *)base;
    const uint32_t n = args->num_items, rows = args->num_rows;
    const uint64_t bytes = plan->desc.row_bytes;
    const struct clmoe_view views[NUM_VIEWS] = {
        [SOURCE] = clmoe_input("args.source", &args->source, bytes * (is_gather ? rows : n), 1, true),
        [INDEX] = clmoe_input("args.index", &args->index, n, plan->index_bytes, true),
        [DESTINATION] = clmoe_output("args.destination", &args->destination, bytes * (is_gather ? n : rows), 1, true),
        [SKIPPED] = clmoe_output("args.skipped", &args->skipped, 1, 4, false),
        [WORKSPACE] = clmoe_workspace(base, &args->workspace, 4),
    };
    status = clmoe_check_items(context, function, "args.num_items", n, plan->desc.max_items);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_items(context, function, "args.num_rows", rows, plan->desc.max_rows);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_call(context, function, views, NUM_VIEWS, tail);
    if (status != CLMOE_SUCCESS)
        return status;

    const clmoe_class kernel_class = context->info.kernel_class;
    const bool is_parallel = kernel_class == CLMOE_CLASS_PARALLEL, is_last = plan->desc.duplicates == CLMOE_DUPLICATES_LAST_WINS;
    const bool has_skipped = clmoe_is_present(&args->skipped);
    struct clmoe_items_path path;
    const char *refusal = clmoe_tune_scatter(&context->limits, kernel_class, base->group_size, &plan->desc.tuning, n, plan->desc.row_bytes,
                                             !is_parallel && is_last, &path);
    if (refusal != NULL)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.num_items: %u: %s", function, n, refusal);
    const struct scatter_params params = {
        .source_at = args->source.offset_bytes,
        .destination_at = args->destination.offset_bytes,
        .index_at = clmoe_start_of(&views[INDEX]),
        .skipped_at = clmoe_start_of(&views[SKIPPED]),
        .counts_at = clmoe_start_of(&views[WORKSPACE]),
        .winners_at = clmoe_start_of(&views[WORKSPACE]) + plan->winners_at,
        .num_items = n,
        .num_rows = rows,
        .row_bytes = plan->desc.row_bytes,
        .word_bytes = word_bytes_of(args, plan->desc.row_bytes),
        .num_chunks = path.num_chunks,
        .has = (has_skipped ? SCATTER_HAS_SKIPPED : 0u) | (is_last ? SCATTER_LAST_WINS : 0u),
    };
    struct clmoe_call call;
    struct clmoe_stage *stage;
    call.num_stages = 0;
    for (unsigned kernel = KERNEL_CLEAR; plan->has_winners && kernel <= KERNEL_CLAIM; ++kernel) {
        stage = clmoe_call_launch(&call, kernel, path.num_chunks, base->group_size, &params, sizeof params);
        clmoe_stage_buffer(stage, &args->index);
        clmoe_stage_buffer(stage, &args->workspace);
    }
    stage = clmoe_call_launch(&call, is_gather ? KERNEL_GATHER : KERNEL_SCATTER, path.num_chunks, base->group_size, &params, sizeof params);
    clmoe_stage_buffer(stage, &args->source);
    clmoe_stage_buffer(stage, &args->index);
    clmoe_stage_buffer(stage, &args->destination);
    clmoe_stage_buffer(stage, &args->skipped);
    clmoe_stage_buffer(stage, &args->workspace);
    if (is_parallel && !is_gather)
        clmoe_stage_buffer(stage, &args->workspace); /* the winners */
    if (is_parallel)
        clmoe_stage_local(stage, 4);
    if (has_skipped && path.num_chunks > 1) {
        stage = clmoe_call_launch(&call, KERNEL_SUM, 1, base->group_size, &params, sizeof params);
        clmoe_stage_buffer(stage, &args->workspace);
        clmoe_stage_buffer(stage, &args->skipped);
    }
    return context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, tail);
}

clmoe_status clmoe_scatter_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_scatter_args *args,
                                   cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event) {
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    return enqueue(plan, "clmoe_scatter_enqueue", false, args, &tail);
}

clmoe_status clmoe_gather_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_scatter_args *args, cl_uint num_events_in_wait_list,
                                  const cl_event *event_wait_list, cl_event *event) {
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    return enqueue(plan, "clmoe_gather_enqueue", true, args, &tail);
}
