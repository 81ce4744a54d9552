/* route_align - route and align as one call: a single launch for few tokens, else route's launch and then align's. */
#include "parts.h"

#include <stdio.h>

enum { KERNEL_ROUTE = CLMOE_ALIGN_PLACE + 1, KERNEL_ONE };

struct route_align_plan {
    struct clmoe_plan base;
    struct clmoe_route_part route;
    struct clmoe_align_part align;
    clmoe_tuning tuning;
    bool is_wide; /* scratch memory of the parallel class is in the workspace */
};

#define KERNEL_SET(variant_name, define_text)                                                                                              \
    {                                                                                                                                      \
        .op = "route_align", .parts = {"align", "route"}, .variant = variant_name,                                                         \
        .defines = define_text "#define ID int\n#define narrow_id(id) (id)\n", .kernel_names = {                                           \
            [CLMOE_ALIGN_ONE] = "align_one",                                                                                               \
            [CLMOE_ALIGN_COUNT] = "align_count",                                                                                           \
            [CLMOE_ALIGN_OFFSETS] = "align_offsets",                                                                                       \
            [CLMOE_ALIGN_PLACE] = "align_place",                                                                                           \
            [KERNEL_ROUTE] = "route_rows",                                                                                                 \
            [KERNEL_ONE] = "route_align_one"                                                                                               \
        }                                                                                                                                  \
    }
static const struct clmoe_kernel_set kernel_sets[CLMOE_NUM_ROUTE_SETS] = {CLMOE_ROUTE_SETS(KERNEL_SET)};

/* ---- Plan ---- */

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Of whichever of the two needs more; shape: E, K, groups of experts, buckets. */
static uint64_t local_items(const uint32_t *shape, uint32_t group_size) {
    return larger(clmoe_route_local_items(shape, group_size), align_local_items(shape[3], group_size));
}

/* Of a plan's groups, in u32. */
static uint64_t scratch_items(const struct route_align_plan *plan) {
    const bool is_parallel = plan->base.context->info.kernel_class == CLMOE_CLASS_PARALLEL;
    return larger(plan->route.scratch_items, is_parallel ? align_local_items(plan->align.num_buckets, plan->base.group_size) : 0);
}

/* Whether a call is a single launch. Err: CLMOE_UNSUPPORTED with *refusal. */
static clmoe_status choose_path(const struct route_align_plan *plan, uint32_t num_tokens, uint32_t capacity, bool *is_one,
                                const char **refusal) {
    const clmoe_context *context = plan->base.context;
    const struct clmoe_route_shape route = clmoe_route_shape_of(&plan->route, num_tokens);
    const struct clmoe_align_shape align = clmoe_align_shape_of(&plan->align, num_tokens, capacity);
    *refusal =
        clmoe_tune_route_align(&context->limits, context->info.kernel_class, plan->base.group_size, &plan->tuning, &route, &align, is_one);
    return *refusal == NULL ? CLMOE_SUCCESS : CLMOE_UNSUPPORTED;
}

static clmoe_status describe(const clmoe_plan *base, size_t num_tokens, clmoe_plan_info *info) {
    const struct route_align_plan *plan = (const struct route_align_plan *)base;
    clmoe_context *context = base->context;
    clmoe_status status = clmoe_check_items(context, "clmoe_plan_describe", "num_items", num_tokens, plan->route.desc.max_tokens);
    if (status != CLMOE_SUCCESS)
        return status;
    const uint32_t tokens = (uint32_t)num_tokens;
    uint32_t rows = 0;
    bool is_one;
    const char *refusal;
    clmoe_align_max_rows(&plan->align.desc, tokens, &rows);
    status = choose_path(plan, tokens, rows, &is_one, &refusal);
    if (status == CLMOE_SUCCESS)
        status = clmoe_route_part_describe(context, &plan->route, base->group_size, tokens, info, &refusal);
    if (status == CLMOE_SUCCESS)
        status = clmoe_align_part_describe(context, &plan->align, base->group_size, tokens, info, &refusal);
    if (status != CLMOE_SUCCESS)
        return clmoe_fail(context, status, "clmoe_plan_describe: num_items: %zu: %s", num_tokens, refusal);
    if (is_one)
        info->num_launches = info->num_groups = 1;
    if (info->kernel_class == CLMOE_CLASS_PARALLEL && !plan->is_wide)
        info->local_bytes = 4 * scratch_items(plan);
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_route_align_plan_create(clmoe_context *context, const clmoe_route_align_desc *desc, clmoe_plan **plan) {
    static const char function[] = "clmoe_route_align_plan_create";
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status != CLMOE_SUCCESS)
        return status;
    clmoe_route_desc route = {
        .max_tokens = desc->max_tokens, .logit_type = desc->logit_type, .router = desc->router, .tuning = desc->tuning};
    clmoe_align_desc align = {.max_tokens = desc->max_tokens,
                              .top_k = desc->router.top_k,
                              .num_experts = desc->router.num_experts,
                              .block_size = desc->block_size,
                              .id_type = CLMOE_ID_I32,
                              .foreign = desc->foreign,
                              .has_pad_value = desc->has_pad_value,
                              .pad_value = desc->pad_value,
                              .tuning = desc->tuning};
    route.tuning.num_launches = 0;
    align.tuning.num_launches = desc->tuning.num_launches > 1 ? desc->tuning.num_launches - 1 : desc->tuning.num_launches;
    status = clmoe_check_tuning(context, function, &desc->tuning, 4);
    if (status == CLMOE_SUCCESS)
        status = clmoe_route_check_desc(context, function, &route);
    if (status == CLMOE_SUCCESS)
        status = clmoe_align_check_desc(context, function, &align);
    if (status != CLMOE_SUCCESS)
        return status;

    const uint32_t experts = desc->router.num_experts, buckets = experts + (desc->foreign == CLMOE_FOREIGN_BUCKET);
    const uint32_t shape[] = {experts, desc->router.top_k, desc->router.num_groups, buckets};
    const bool is_wide = clmoe_route_is_wide(context, &desc->tuning, local_items, shape);
    uint32_t group_size;
    clmoe_plan *base;
    status = clmoe_choose_group_size(context, function, &desc->tuning, is_wide ? clmoe_no_local_items : local_items, shape, &group_size);
    if (status == CLMOE_SUCCESS && is_wide && desc->tuning.group_size == 0 && group_size > CLMOE_WIDE_GROUP_SIZE)
        group_size = CLMOE_WIDE_GROUP_SIZE;
    if (status == CLMOE_SUCCESS && is_wide && 4 * local_items(shape, group_size) > INT32_MAX)
        status =
            clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: desc.router.num_experts: %u need tables over 2^31 - 1 bytes", function, experts);
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct route_align_plan), &kernel_sets[clmoe_route_set_of(context, &route, is_wide)],
                                group_size, clmoe_route_forced_size(context, &route, group_size), &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct route_align_plan *made = (struct route_align_plan *)base;
    made->route = clmoe_route_part_of(context, &route, base->group_size, is_wide);
    made->align = clmoe_align_part_of(context, &align, base->group_size, is_wide);
    made->tuning = desc->tuning;
    made->is_wide = is_wide;
    base->describe = describe;
    const uint64_t groups = larger(made->route.scratch_groups, made->align.scratch_groups);
    base->workspace_bytes = (size_t)(4 * (made->align.table_items + groups * scratch_items(made)));
    if (is_wide && base->program.note[0] == '\0')
        snprintf(base->program.note, sizeof base->program.note, "tables in the workspace: %u experts need more than the local memory",
                 experts);
    *plan = base;
    return CLMOE_SUCCESS;
}

/* ---- Enqueue ---- */

static clmoe_status check_unused(clmoe_context *context, const char *function, const clmoe_route_align_args *args) {
    const clmoe_align_args *align = &args->align;
    const char *given = align->num_tokens != 0                     ? "align.num_tokens"
                        : align->row_stride != 0                   ? "align.row_stride"
                        : align->weights_stride != 0               ? "align.weights_stride"
                        : clmoe_is_present(&align->topk_ids)       ? "align.topk_ids"
                        : clmoe_is_present(&align->topk_weights)   ? "align.topk_weights"
                        : clmoe_is_present(&align->workspace)      ? "align.workspace"
                        : clmoe_is_present(&args->route.workspace) ? "route.workspace"
                                                                   : NULL;
    return given == NULL ? CLMOE_SUCCESS
                         : clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: args.%s: must be left zero, it is route's or the whole call's",
                                      function, given);
}

/* The only launch of a small call. */
static void add_one(const struct route_align_plan *plan, const struct clmoe_view *views, const struct route_params *route,
                    const struct align_params *align, const clmoe_buffer *workspace, struct clmoe_call *call) {
    const bool is_local = plan->base.context->info.kernel_class == CLMOE_CLASS_PARALLEL && !plan->is_wide;
    struct clmoe_stage *stage = clmoe_call_launch(call, KERNEL_ONE, 1, plan->base.group_size, route, sizeof *route);
    clmoe_route_add_views(stage, views);
    clmoe_stage_bytes(stage, align, sizeof *align);
    for (int i = CLMOE_VIEW_EXPERT_MAP; i < CLMOE_ALIGN_VIEWS; ++i)
        clmoe_stage_buffer(stage, views[CLMOE_ROUTE_VIEWS + i].buffer);
    if (is_local)
        clmoe_stage_local(stage, (size_t)(4 * scratch_items(plan)));
    else
        clmoe_stage_buffer(stage, workspace);
}
_Static_assert(CLMOE_ROUTE_VIEWS + CLMOE_ALIGN_VIEWS - 1 + 3 <= CLMOE_MAX_ARGUMENTS, "two structures of parameters, operands, memory");

clmoe_status clmoe_route_align_enqueue(clmoe_plan *base, cl_command_queue queue, const clmoe_route_align_args *args,
                                       cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event) {
    static const char function[] = "clmoe_route_align_enqueue";
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct route_align_plan *plan = (const struct route_align_plan *)base;
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    struct clmoe_view views[CLMOE_ROUTE_VIEWS + CLMOE_ALIGN_VIEWS + 1], *align_views = views + CLMOE_ROUTE_VIEWS;
    const struct clmoe_view *workspace = &views[CLMOE_ROUTE_VIEWS + CLMOE_ALIGN_VIEWS];
    clmoe_align_args align_args = args->align;
    align_args.num_tokens = args->route.num_tokens;
    status = check_unused(context, function, args);
    if (status == CLMOE_SUCCESS)
        status = clmoe_route_fill_views(context, function, &plan->route, &args->route, true, views);
    if (status == CLMOE_SUCCESS)
        status = clmoe_align_fill_views(context, function, &plan->align, &align_args, true, align_views);
    if (status != CLMOE_SUCCESS)
        return status;
    views[CLMOE_ROUTE_VIEWS + CLMOE_ALIGN_VIEWS] = clmoe_workspace(base, &args->workspace, 4);
    /* What route writes and align reads is checked once, as an output. */
    align_views[CLMOE_VIEW_TOPK_IDS].is_required = align_views[CLMOE_VIEW_TOPK_WEIGHTS].is_required = false;
    status = clmoe_check_call(context, function, views, CLMOE_ROUTE_VIEWS + CLMOE_ALIGN_VIEWS + 1, &tail);
    if (status != CLMOE_SUCCESS)
        return status;
    align_views[CLMOE_VIEW_TOPK_IDS].buffer = &args->route.topk_ids;
    align_views[CLMOE_VIEW_TOPK_WEIGHTS].buffer = &args->route.topk_weights;

    struct route_params route = clmoe_route_params_of(&plan->route, &args->route, views, base->group_size);
    struct align_params align = clmoe_align_params_of(&plan->align, &align_args, align_views, base->group_size);
    align.table_at = clmoe_start_of(workspace);
    align.scratch_at = route.scratch_at = align.table_at + plan->align.table_items;
    if (plan->is_wide)
        align.scratch_items = route.scratch_items = scratch_items(plan);
    struct clmoe_call call;
    bool is_one;
    const char *refusal;
    call.num_stages = 0;
    if (choose_path(plan, route.num_tokens, align.capacity, &is_one, &refusal) != CLMOE_SUCCESS)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.route.num_tokens: %u: %s", function, route.num_tokens, refusal);
    if (is_one) {
        add_one(plan, views, &route, &align, &args->workspace, &call);
    } else {
        status =
            clmoe_route_add_launch(context, function, &plan->route, base->group_size, KERNEL_ROUTE, views, &args->workspace, &route, &call);
        if (status == CLMOE_SUCCESS)
            status = clmoe_align_add_launches(context, function, &plan->align, base->group_size, 0, align_views, &args->workspace, &align,
                                              &call);
    }
    return status != CLMOE_SUCCESS ? status : context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, &tail);
}
