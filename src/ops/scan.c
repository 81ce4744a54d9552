/* scan - sums of the chunks, then each chunk on its own: one launch if there is a single chunk, else two. */
#include "../../cl/scan.h"
#include "call.h"
#include "clmoe/primitives.h"

enum { KERNEL_SUMS, KERNEL_PLACE };

struct scan_plan {
    struct clmoe_plan base;
    clmoe_scan_desc desc;
    uint32_t item_bytes;
};

static const struct clmoe_kernel_set kernel_sets[] = {
    {.op = "scan", .variant = "u32", .defines = "#define ITEM uint\n", .kernel_names = {"scan_sums", "scan_place"}},
    {.op = "scan", .variant = "u64", .defines = "#define ITEM ulong\n", .kernel_names = {"scan_sums", "scan_place"}},
};

static uint64_t local_items(const uint32_t *item_words, uint32_t group_size) {
    return (uint64_t)*item_words * group_size;
}

/* Nobody needs the sum of the last chunk: with two chunks half of the first reading. */
static uint32_t num_sums_of(const struct clmoe_items_path *path) {
    return path->num_chunks > 1 ? path->num_chunks - 1 : 1;
}

static clmoe_status describe(const clmoe_plan *base, size_t num_items, clmoe_plan_info *info) {
    static const char function[] = "clmoe_plan_describe";
    const struct scan_plan *plan = (const struct scan_plan *)base;
    struct clmoe_items_path path;
    const clmoe_status status = clmoe_check_items(base->context, function, "num_items", num_items, plan->desc.max_items);
    if (status != CLMOE_SUCCESS)
        return status;
    const char *refusal =
        clmoe_tune_scan(&base->context->limits, info->kernel_class, base->group_size, &plan->desc.tuning, (uint32_t)num_items, &path);
    if (refusal != NULL)
        return clmoe_fail(base->context, CLMOE_UNSUPPORTED, "%s: num_items: %zu: %s", function, num_items, refusal);
    const uint32_t num_sums = num_sums_of(&path);
    const uint64_t bytes = (uint64_t)num_items * plan->item_bytes, sums = (uint64_t)num_sums * plan->item_bytes;
    const uint64_t sums_read = (uint64_t)path.num_chunks * (path.num_chunks - 1) / 2 * plan->item_bytes; /* each chunk those before it */
    const uint64_t summed = (uint64_t)share_begin((uint32_t)num_items, path.num_chunks, num_sums) * plan->item_bytes;
    info->num_launches = path.num_launches;
    info->num_groups = path.num_chunks;
    info->bytes_read = path.num_launches == 1 ? bytes : bytes + summed + sums_read;
    info->bytes_written = path.num_launches == 1 ? bytes : bytes + sums;
    info->local_bytes = info->kernel_class == CLMOE_CLASS_PARALLEL ? (uint64_t)plan->item_bytes * base->group_size : 0;
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_scan_plan_create(clmoe_context *context, const clmoe_scan_desc *desc, clmoe_plan **plan) {
    static const char function[] = "clmoe_scan_plan_create";
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_max_items(context, function, desc->max_items, &desc->tuning);
    if (status != CLMOE_SUCCESS)
        return status;
    if (desc->type != CLMOE_TYPE_U32 && desc->type != CLMOE_TYPE_I32 && desc->type != CLMOE_TYPE_U64)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.type: must be U32, I32 or U64", function);
    if ((uint32_t)desc->kind > CLMOE_SCAN_INCLUSIVE)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.kind: is none of the CLMOE_SCAN_ values", function);

    const bool is_wide = desc->type == CLMOE_TYPE_U64;
    uint32_t group_size;
    clmoe_plan *base;
    const uint32_t item_words = is_wide ? 2 : 1;
    status = clmoe_choose_group_size(context, function, &desc->tuning, local_items, &item_words, &group_size);
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct scan_plan), &kernel_sets[is_wide], group_size, desc->tuning.group_size, &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct scan_plan *made = (struct scan_plan *)base;
    struct clmoe_items_path path;
    made->desc = *desc;
    made->item_bytes = is_wide ? 8 : 4;
    base->describe = describe;
    clmoe_tune_scan(&context->limits, context->info.kernel_class, base->group_size, &desc->tuning, desc->max_items, &path);
    base->workspace_bytes = (size_t)path.num_chunks * made->item_bytes;
    *plan = base;
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_scan_enqueue(clmoe_plan *base, cl_command_queue queue, const clmoe_scan_args *args, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    static const char function[] = "clmoe_scan_enqueue";
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct scan_plan *plan = (const struct scan_plan *)base;
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    const uint32_t n = args->num_items, bytes = plan->item_bytes;
    struct clmoe_view views[] = {
        clmoe_input("args.input", &args->input, n, bytes, true),
        clmoe_output("args.output", &args->output, n, bytes, true),
        clmoe_workspace(base, &args->workspace, bytes),
    };
    views[0].may_be_output = true; /* in place: each item is read before it is written, by the one that writes it */
    status = clmoe_check_items(context, function, "args.num_items", n, plan->desc.max_items);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_call(context, function, views, 3, &tail);
    if (status != CLMOE_SUCCESS)
        return status;

    const clmoe_class kernel_class = context->info.kernel_class;
    struct clmoe_items_path path;
    const char *refusal = clmoe_tune_scan(&context->limits, kernel_class, base->group_size, &plan->desc.tuning, n, &path);
    if (refusal != NULL)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.num_items: %u: %s", function, n, refusal);
    const struct scan_params params = {.input_at = clmoe_start_of(&views[0]),
                                       .output_at = clmoe_start_of(&views[1]),
                                       .sums_at = clmoe_start_of(&views[2]),
                                       .num_items = n,
                                       .num_chunks = path.num_chunks,
                                       .is_inclusive = plan->desc.kind == CLMOE_SCAN_INCLUSIVE,
                                       .streams = path.streams};
    const bool is_parallel = kernel_class == CLMOE_CLASS_PARALLEL;
    struct clmoe_call call;
    struct clmoe_stage *stage;
    call.num_stages = 0;
    if (path.num_launches > 1) {
        stage = clmoe_call_launch(&call, KERNEL_SUMS, num_sums_of(&path), base->group_size, &params, sizeof params);
        clmoe_stage_buffer(stage, &args->input);
        clmoe_stage_buffer(stage, &args->workspace);
        if (is_parallel)
            clmoe_stage_local(stage, (size_t)bytes * base->group_size);
    }
    stage = clmoe_call_launch(&call, KERNEL_PLACE, path.num_chunks, base->group_size, &params, sizeof params);
    clmoe_stage_buffer(stage, &args->input);
    clmoe_stage_buffer(stage, &args->output);
    clmoe_stage_buffer(stage, &args->workspace);
    if (is_parallel)
        clmoe_stage_local(stage, (size_t)bytes * base->group_size);
    return context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, &tail);
}
