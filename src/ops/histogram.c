/* histogram - one group counts straight into the result, or each chunk counts into a row of the table and a second launch adds them up. */
#include "../../cl/histogram.h"
#include "call.h"
#include "clmoe/primitives.h"

enum { KERNEL_ONE, KERNEL_COUNT, KERNEL_SUM };
enum { MAX_BINS = 1 << 24 };

struct histogram_plan {
    struct clmoe_plan base;
    clmoe_histogram_desc desc;
    uint32_t sample_bytes, num_copies;
};

#define HISTOGRAM_KERNELS(variant_name, define_text)                                                                                       \
    {                                                                                                                                      \
        .op = "histogram", .variant = variant_name, .defines = define_text, .kernel_names = {                                              \
            "histogram_one",                                                                                                               \
            "histogram_count",                                                                                                             \
            "histogram_sum"                                                                                                                \
        }                                                                                                                                  \
    }
static const struct {
    uint32_t bytes; /* 0: no sample type */
    struct clmoe_kernel_set set;
} kernel_sets[] = {
    [CLMOE_TYPE_U32] = {4, HISTOGRAM_KERNELS("u32", "#define SAMPLE uint\n")},
    [CLMOE_TYPE_I32] = {4, HISTOGRAM_KERNELS("i32", "#define SAMPLE int\n")},
    [CLMOE_TYPE_U64] = {8, HISTOGRAM_KERNELS("u64", "#define SAMPLE ulong\n")},
    [CLMOE_TYPE_I64] = {8, HISTOGRAM_KERNELS("i64", "#define SAMPLE long\n")},
    [CLMOE_TYPE_U16] = {2, HISTOGRAM_KERNELS("u16", "#define SAMPLE ushort\n")},
    [CLMOE_TYPE_I16] = {2, HISTOGRAM_KERNELS("i16", "#define SAMPLE short\n")},
    [CLMOE_TYPE_U8] = {1, HISTOGRAM_KERNELS("u8", "#define SAMPLE uchar\n")},
    [CLMOE_TYPE_I8] = {1, HISTOGRAM_KERNELS("i8", "#define SAMPLE char\n")},
};

static clmoe_status describe(const clmoe_plan *base, size_t num_items, clmoe_plan_info *info) {
    static const char function[] = "clmoe_plan_describe";
    const struct histogram_plan *plan = (const struct histogram_plan *)base;
    struct clmoe_items_path path;
    const clmoe_status status = clmoe_check_items(base->context, function, "num_items", num_items, plan->desc.max_items);
    if (status != CLMOE_SUCCESS)
        return status;
    const char *refusal = clmoe_tune_histogram(&base->context->limits, info->kernel_class, base->group_size, &plan->desc.tuning,
                                               (uint32_t)num_items, plan->desc.num_bins, &path);
    if (refusal != NULL)
        return clmoe_fail(base->context, CLMOE_UNSUPPORTED, "%s: num_items: %zu: %s", function, num_items, refusal);
    const uint64_t row = 4 * ((uint64_t)plan->desc.num_bins + 1), rows = path.num_launches == 1 ? 0 : row * path.num_chunks;
    info->num_launches = path.num_launches;
    info->num_groups = path.num_chunks;
    info->bytes_read = (uint64_t)num_items * plan->sample_bytes + rows;
    info->bytes_written = rows + row - 4;
    if (info->kernel_class == CLMOE_CLASS_PARALLEL)
        info->local_bytes = 4 * ((uint64_t)plan->num_copies * plan->desc.num_bins + 1);
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_histogram_plan_create(clmoe_context *context, const clmoe_histogram_desc *desc, clmoe_plan **plan) {
    static const char function[] = "clmoe_histogram_plan_create";
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_max_items(context, function, desc->max_items, &desc->tuning);
    if (status != CLMOE_SUCCESS)
        return status;
    if (desc->num_bins > MAX_BINS)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.num_bins: %u, must be at most %d", function, desc->num_bins, MAX_BINS);
    if ((uint32_t)desc->sample_type > CLMOE_TYPE_I8 || kernel_sets[desc->sample_type].bytes == 0)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.sample_type: must be an integer type", function);

    uint32_t group_size;
    clmoe_plan *base;
    status = clmoe_choose_group_size(context, function, &desc->tuning, clmoe_no_local_items, NULL, &group_size);
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct histogram_plan), &kernel_sets[desc->sample_type].set, group_size,
                                desc->tuning.group_size, &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct histogram_plan *made = (struct histogram_plan *)base;
    struct clmoe_items_path path;
    made->desc = *desc;
    made->sample_bytes = kernel_sets[desc->sample_type].bytes;
    made->num_copies = clmoe_tune_histogram_copies(&context->limits, desc->num_bins);
    base->describe = describe;
    clmoe_tune_histogram(&context->limits, context->info.kernel_class, base->group_size, &desc->tuning, desc->max_items, desc->num_bins,
                         &path);
    if (path.num_launches > 1)
        base->workspace_bytes = 4 * (size_t)path.num_chunks * histogram_table_stride(desc->num_bins);
    *plan = base;
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_histogram_enqueue(clmoe_plan *base, cl_command_queue queue, const clmoe_histogram_args *args,
                                     cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event) {
    static const char function[] = "clmoe_histogram_enqueue";
    enum { SAMPLES, COUNTS, IGNORED, WORKSPACE, NUM_VIEWS };
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct histogram_plan *plan = (const struct histogram_plan *)base;
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    const uint32_t n = args->num_items;
    const struct clmoe_view views[NUM_VIEWS] = {
        [SAMPLES] = clmoe_input("args.samples", &args->samples, n, plan->sample_bytes, true),
        [COUNTS] = clmoe_output("args.counts", &args->counts, plan->desc.num_bins, 4, true),
        [IGNORED] = clmoe_output("args.ignored", &args->ignored, 1, 4, false),
        [WORKSPACE] = clmoe_workspace(base, &args->workspace, 4),
    };
    status = clmoe_check_items(context, function, "args.num_items", n, plan->desc.max_items);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_call(context, function, views, NUM_VIEWS, &tail);
    if (status != CLMOE_SUCCESS)
        return status;

    const clmoe_class kernel_class = context->info.kernel_class;
    struct clmoe_items_path path;
    const char *refusal =
        clmoe_tune_histogram(&context->limits, kernel_class, base->group_size, &plan->desc.tuning, n, plan->desc.num_bins, &path);
    if (refusal != NULL)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.num_items: %u: %s", function, n, refusal);
    const bool is_parallel = kernel_class == CLMOE_CLASS_PARALLEL;
    const struct histogram_params params = {
        .samples_at = clmoe_start_of(&views[SAMPLES]),
        .counts_at = clmoe_start_of(&views[COUNTS]),
        .ignored_at = clmoe_start_of(&views[IGNORED]),
        .table_at = clmoe_start_of(&views[WORKSPACE]),
        .num_items = n,
        .num_bins = plan->desc.num_bins,
        .num_chunks = path.num_chunks,
        .table_stride = histogram_table_stride(plan->desc.num_bins),
        .has_ignored = clmoe_is_present(&args->ignored),
        .num_copies = plan->num_copies,
    };
    const size_t local_bytes = 4 * ((size_t)plan->num_copies * plan->desc.num_bins + 1);
    struct clmoe_call call;
    struct clmoe_stage *stage;
    call.num_stages = 0;
    if (path.num_launches == 1) {
        stage = clmoe_call_launch(&call, KERNEL_ONE, 1, base->group_size, &params, sizeof params);
        clmoe_stage_buffer(stage, &args->samples);
        clmoe_stage_buffer(stage, &args->counts);
        clmoe_stage_buffer(stage, &args->ignored);
        if (is_parallel)
            clmoe_stage_local(stage, local_bytes);
    } else {
        stage = clmoe_call_launch(&call, KERNEL_COUNT, path.num_chunks, base->group_size, &params, sizeof params);
        clmoe_stage_buffer(stage, &args->samples);
        clmoe_stage_buffer(stage, &args->workspace);
        if (is_parallel)
            clmoe_stage_local(stage, local_bytes);
        stage = clmoe_call_launch(&call, KERNEL_SUM, path.num_groups, base->group_size, &params, sizeof params);
        clmoe_stage_buffer(stage, &args->workspace);
        clmoe_stage_buffer(stage, &args->counts);
        clmoe_stage_buffer(stage, &args->ignored);
    }
    return context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, &tail);
}
