/* route - checks a call and fills in the kernel's parameters; always one launch. */
#include "parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct route_plan {
    struct clmoe_plan base;
    struct clmoe_route_part part;
};

static const uint32_t logit_bytes[] = {[CLMOE_LOGIT_F32] = 4, [CLMOE_LOGIT_F16] = 2, [CLMOE_LOGIT_BF16] = 2};

#define KERNEL_SET(variant_name, define_text)                                                                                              \
    {                                                                                                                                      \
        .op = "route", .variant = variant_name, .defines = define_text, .kernel_names = { "route_rows" }                                   \
    }
static const struct clmoe_kernel_set kernel_sets[CLMOE_NUM_ROUTE_SETS] = {CLMOE_ROUTE_SETS(KERNEL_SET)};

/* ---- Plan ---- */

/* 0 or a normal number. */
static bool is_normal(float number) {
    return number == 0 || (isfinite(number) && fabsf(number) >= 1.17549435e-38f);
}

/* Returns NULL, or the name of the wrong field of the router with *limit saying what it must be. */
static const char *wrong_group_field(const clmoe_router *router, const char **limit) {
    *limit = "is none of the CLMOE_GROUPS_ values";
    if ((uint32_t)router->group_filter > CLMOE_GROUPS_TOP2_SUM)
        return "group_filter";
    if (router->group_filter == CLMOE_GROUPS_NONE) {
        *limit = "goes with a group_filter";
        return router->num_groups > 1 ? "num_groups" : router->kept_groups > 1 ? "kept_groups" : NULL;
    }
    *limit = "must be at least 1 and divide num_experts";
    if (router->num_groups == 0 || router->num_experts % router->num_groups != 0)
        return "num_groups";
    *limit = "must be 1 ... num_groups";
    if (router->kept_groups == 0 || router->kept_groups > router->num_groups)
        return "kept_groups";
    *limit = "leaves one expert in a group, and TOP2_SUM needs two";
    if (router->group_filter == CLMOE_GROUPS_TOP2_SUM && router->num_groups == router->num_experts)
        return "num_groups";
    *limit = "must be at most kept_groups * num_experts / num_groups, the experts of the kept groups";
    if (router->top_k > (uint64_t)router->kept_groups * (router->num_experts / router->num_groups))
        return "top_k";
    return NULL;
}

static const char *wrong_router_field(const clmoe_router *router, const char **limit) {
    *limit = "must be 1 ... 2^31 - 1";
    if (router->num_experts == 0 || router->num_experts > INT32_MAX)
        return "num_experts";
    *limit = "must be 1 ... num_experts";
    if (router->top_k == 0 || router->top_k > router->num_experts)
        return "top_k";
    *limit = "is none of the CLMOE_SCORE_ values";
    if ((uint32_t)router->score > CLMOE_SCORE_IDENTITY)
        return "score";
    *limit = "is none of the CLMOE_WEIGHTS_ values";
    if ((uint32_t)router->weight_source > CLMOE_WEIGHTS_SIGMOID_CHOSEN)
        return "weight_source";
    *limit = "is none of the CLMOE_RENORMALIZE_ values";
    if ((uint32_t)router->renormalize > CLMOE_RENORMALIZE_MAX_EPSILON)
        return "renormalize";
    *limit = "must be 0 or a positive number from 2^-126 on";
    if (!is_normal(router->softcap) || router->softcap < 0)
        return "softcap";
    if (!is_normal(router->epsilon) || router->epsilon < 0)
        return "epsilon";
    *limit = "goes with SUM_PLUS_EPSILON and MAX_EPSILON";
    if (router->epsilon != 0 && router->renormalize < CLMOE_RENORMALIZE_SUM_PLUS_EPSILON)
        return "epsilon";
    *limit = "must be 0 or a finite number of at least 2^-126 in size";
    if (!is_normal(router->scale))
        return "scale";
    return wrong_group_field(router, limit);
}

clmoe_status clmoe_route_check_desc(clmoe_context *context, const char *function, const clmoe_route_desc *desc) {
    const char *limit, *field = wrong_router_field(&desc->router, &limit);
    if (field != NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.router.%s: %s", function, field, limit);
    if ((uint32_t)desc->logit_type > CLMOE_LOGIT_BF16)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.logit_type: is none of the CLMOE_LOGIT_ values", function);
    if ((uint64_t)desc->max_tokens * desc->router.top_k > INT32_MAX)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.max_tokens: times top_k must stay below 2^31", function);
    return CLMOE_SUCCESS;
}

uint64_t clmoe_route_local_items(const uint32_t *shape, uint32_t group_size) {
    const uint32_t team_size = clmoe_tune_route_team(shape[0], shape[1], group_size);
    return group_size / team_size * route_team_items(shape[0], shape[1], shape[2], team_size);
}

bool clmoe_route_is_wide(const clmoe_context *context, const clmoe_tuning *tuning, clmoe_local_items *local_items, const uint32_t *shape) {
    const uint32_t most = tuning->group_size != 0 ? tuning->group_size : ROUTE_LANES;
    const uint32_t useful = most < ROUTE_LANES ? most : ROUTE_LANES, limit = context->limits.max_group_size;
    return context->info.kernel_class == CLMOE_CLASS_PARALLEL &&
           4 * local_items(shape, useful < limit ? useful : limit) > context->limits.local_bytes;
}

static uint32_t has_of(const clmoe_router *router) {
    uint32_t has = 0;
    if (router->has_bias)
        has |= ROUTE_HAS_BIAS;
    if (router->has_expert_scale)
        has |= ROUTE_HAS_EXPERT_SCALE;
    if (router->softcap != 0)
        has |= ROUTE_HAS_SOFTCAP;
    if (!router->has_bias && router->group_filter != CLMOE_GROUPS_TOP2_SUM)
        has |= ROUTE_IS_BY_LOGIT;
    const bool cancels = router->renormalize == CLMOE_RENORMALIZE_SUM || router->weight_source != CLMOE_WEIGHTS_SCORE;
    if (router->score == CLMOE_SCORE_SOFTMAX && !((has & ROUTE_IS_BY_LOGIT) && cancels))
        has |= ROUTE_NEEDS_SUM;
    return has;
}

/* Whether every expert's score is needed. */
static bool has_scores(uint32_t has) {
    return (has & ROUTE_NEEDS_SUM) != 0 || (has & ROUTE_IS_BY_LOGIT) == 0;
}

unsigned clmoe_route_set_of(const clmoe_context *context, const clmoe_route_desc *desc, bool is_wide) {
    if (context->info.kernel_class == CLMOE_CLASS_SERIAL)
        return (unsigned)desc->logit_type; /* one program for all: nothing waits there */
    const uint32_t has = has_of(&desc->router);
    const bool has_groups = desc->router.group_filter != CLMOE_GROUPS_NONE;
    return 12u * has_groups + 6u * has_scores(has) + 3u * is_wide + (unsigned)desc->logit_type;
}

struct clmoe_route_shape clmoe_route_shape_of(const struct clmoe_route_part *part, uint32_t num_tokens) {
    const clmoe_router *router = &part->desc.router;
    return (struct clmoe_route_shape){num_tokens,
                                      router->num_experts,
                                      router->top_k,
                                      router->group_filter == CLMOE_GROUPS_NONE ? 0 : router->num_groups,
                                      has_scores(part->has),
                                      (part->has & ROUTE_HAS_SOFTCAP) != 0,
                                      part->scratch_groups};
}

struct clmoe_route_part clmoe_route_part_of(const clmoe_context *context, const clmoe_route_desc *desc, uint32_t group_size, bool is_wide) {
    struct clmoe_route_part part = {.desc = *desc, .has = has_of(&desc->router), .scratch_groups = is_wide ? CLMOE_WIDE_GROUPS : 0};
    if (part.desc.router.scale == 0)
        part.desc.router.scale = 1;
    if (part.desc.router.group_filter == CLMOE_GROUPS_NONE)
        part.desc.router.num_groups = part.desc.router.kept_groups = 0;
    part.scratch_items =
        clmoe_route_local_items((const uint32_t[]){desc->router.num_experts, desc->router.top_k, part.desc.router.num_groups}, group_size);
    if (context->info.kernel_class == CLMOE_CLASS_SERIAL) {
        const struct clmoe_route_shape largest = clmoe_route_shape_of(&part, desc->max_tokens);
        part.scratch_items = route_serial_items(desc->router.num_experts);
        clmoe_tune_route(&context->limits, CLMOE_CLASS_SERIAL, 1, &desc->tuning, &largest, &part.scratch_groups);
    }
    return part;
}

clmoe_status clmoe_route_part_describe(const clmoe_context *context, const struct clmoe_route_part *part, uint32_t group_size,
                                       uint32_t num_tokens, clmoe_plan_info *info, const char **refusal) {
    const struct clmoe_route_shape shape = clmoe_route_shape_of(part, num_tokens);
    *refusal = clmoe_tune_route(&context->limits, info->kernel_class, group_size, &part->desc.tuning, &shape, &info->num_groups);
    if (*refusal != NULL)
        return CLMOE_UNSUPPORTED;
    const clmoe_router *router = &part->desc.router;
    info->num_launches += 1;
    info->bytes_read += (uint64_t)num_tokens * router->num_experts * logit_bytes[part->desc.logit_type];
    info->bytes_written += 8 * (uint64_t)num_tokens * router->top_k;
    return CLMOE_SUCCESS;
}

static clmoe_status describe(const clmoe_plan *base, size_t num_tokens, clmoe_plan_info *info) {
    const struct clmoe_route_part *part = &((const struct route_plan *)base)->part;
    const char *refusal;
    const clmoe_status status = clmoe_check_items(base->context, "clmoe_plan_describe", "num_items", num_tokens, part->desc.max_tokens);
    if (status != CLMOE_SUCCESS)
        return status;
    if (clmoe_route_part_describe(base->context, part, base->group_size, (uint32_t)num_tokens, info, &refusal) != CLMOE_SUCCESS)
        return clmoe_fail(base->context, CLMOE_UNSUPPORTED, "clmoe_plan_describe: num_items: %zu: %s", num_tokens, refusal);
    if (info->kernel_class == CLMOE_CLASS_PARALLEL && part->scratch_groups == 0)
        info->local_bytes = 4 * part->scratch_items;
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_route_plan_create(clmoe_context *context, const clmoe_route_desc *desc, clmoe_plan **plan) {
    static const char function[] = "clmoe_route_plan_create";
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status == CLMOE_SUCCESS)
        status = clmoe_route_check_desc(context, function, desc);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_tuning(context, function, &desc->tuning, 3);
    if (status != CLMOE_SUCCESS)
        return status;

    const uint32_t shape[] = {desc->router.num_experts, desc->router.top_k, desc->router.num_groups};
    const bool is_wide = clmoe_route_is_wide(context, &desc->tuning, clmoe_route_local_items, shape);
    uint32_t group_size;
    clmoe_plan *base;
    status = clmoe_choose_group_size(context, function, &desc->tuning, is_wide ? clmoe_no_local_items : clmoe_route_local_items, shape,
                                     &group_size);
    if (status == CLMOE_SUCCESS && is_wide && desc->tuning.group_size == 0 && group_size > CLMOE_WIDE_GROUP_SIZE)
        group_size = CLMOE_WIDE_GROUP_SIZE;
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct route_plan), &kernel_sets[clmoe_route_set_of(context, desc, is_wide)], group_size,
                                clmoe_route_forced_size(context, desc, group_size), &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct clmoe_route_part *part = &((struct route_plan *)base)->part;
    *part = clmoe_route_part_of(context, desc, base->group_size, is_wide);
    base->describe = describe;
    base->workspace_bytes = (size_t)(4 * part->scratch_groups * part->scratch_items);
    if (is_wide && base->program.note[0] == '\0')
        snprintf(base->program.note, sizeof base->program.note, "keys in the workspace: %u experts need more than the local memory",
                 desc->router.num_experts);
    *plan = base;
    return CLMOE_SUCCESS;
}

uint32_t clmoe_route_forced_size(const clmoe_context *context, const clmoe_route_desc *desc, uint32_t group_size) {
    const bool needs_more = context->limits.ignores_kernel_limit && desc->router.top_k > ROUTE_LANES;
    return desc->tuning.group_size != 0 ? desc->tuning.group_size : needs_more ? group_size : 0;
}

/* ---- Enqueue ---- */

/* [inside of route_align][view] */
#define VIEW_NAMES(prefix)                                                                                                                 \
    { prefix "logits", prefix "bias", prefix "expert_scale", prefix "topk_ids", prefix "topk_weights" }
static const char *const view_names[2][CLMOE_ROUTE_VIEWS] = {VIEW_NAMES("args."), VIEW_NAMES("args.route.")};

static uint32_t stride_of(const clmoe_route_args *args, const clmoe_router *router) {
    return args->row_stride != 0 ? args->row_stride : router->num_experts;
}

clmoe_status clmoe_route_fill_views(clmoe_context *context, const char *function, const struct clmoe_route_part *part,
                                    const clmoe_route_args *args, bool is_inside, struct clmoe_view views[CLMOE_ROUTE_VIEWS]) {
    const clmoe_router *router = &part->desc.router;
    const char *const *names = view_names[is_inside], *prefix = is_inside ? "args.route." : "args.";
    const uint32_t tokens = args->num_tokens, stride = stride_of(args, router);
    if (tokens > part->desc.max_tokens)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %snum_tokens: %u, the plan takes up to %u", function, prefix, tokens,
                          part->desc.max_tokens);
    if (stride < router->num_experts)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %srow_stride: %u, must be 0 or at least num_experts = %u", function, prefix,
                          stride, router->num_experts);
    if (!router->has_bias && clmoe_is_present(&args->bias))
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: given, but the plan's router has no bias", function,
                          names[CLMOE_VIEW_BIAS]);
    if (!router->has_expert_scale && clmoe_is_present(&args->expert_scale))
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: given, but the plan's router has no expert scale", function,
                          names[CLMOE_VIEW_EXPERT_SCALE]);
    const uint64_t pairs = (uint64_t)tokens * router->top_k;
    const uint64_t logits = tokens == 0 ? 0 : (uint64_t)(tokens - 1) * stride + router->num_experts;
    const bool needs_bias = router->has_bias && tokens != 0, needs_scale = router->has_expert_scale && tokens != 0;
    views[CLMOE_VIEW_LOGITS] = clmoe_input(names[CLMOE_VIEW_LOGITS], &args->logits, logits, logit_bytes[part->desc.logit_type], true);
    views[CLMOE_VIEW_BIAS] = clmoe_input(names[CLMOE_VIEW_BIAS], &args->bias, needs_bias ? router->num_experts : 0, 4, true);
    views[CLMOE_VIEW_EXPERT_SCALE] =
        clmoe_input(names[CLMOE_VIEW_EXPERT_SCALE], &args->expert_scale, needs_scale ? router->num_experts : 0, 4, true);
    views[CLMOE_VIEW_ROUTED_IDS] = clmoe_output(names[CLMOE_VIEW_ROUTED_IDS], &args->topk_ids, pairs, 4, true);
    views[CLMOE_VIEW_ROUTED_WEIGHTS] = clmoe_output(names[CLMOE_VIEW_ROUTED_WEIGHTS], &args->topk_weights, pairs, 4, true);
    return CLMOE_SUCCESS;
}

struct route_params clmoe_route_params_of(const struct clmoe_route_part *part, const clmoe_route_args *args,
                                          const struct clmoe_view views[CLMOE_ROUTE_VIEWS], uint32_t group_size) {
    const clmoe_router *router = &part->desc.router;
    return (struct route_params){
        .logits_at = clmoe_start_of(&views[CLMOE_VIEW_LOGITS]),
        .bias_at = clmoe_start_of(&views[CLMOE_VIEW_BIAS]),
        .expert_scale_at = clmoe_start_of(&views[CLMOE_VIEW_EXPERT_SCALE]),
        .topk_ids_at = clmoe_start_of(&views[CLMOE_VIEW_ROUTED_IDS]),
        .topk_weights_at = clmoe_start_of(&views[CLMOE_VIEW_ROUTED_WEIGHTS]),
        .scratch_items = part->scratch_items,
        .num_tokens = args->num_tokens,
        .num_experts = router->num_experts,
        .top_k = router->top_k,
        .row_stride = stride_of(args, router),
        .score = (uint32_t)router->score,
        .group_filter = (uint32_t)router->group_filter,
        .num_groups = router->num_groups,
        .kept_groups = router->kept_groups,
        .weight_source = (uint32_t)router->weight_source,
        .renormalize = (uint32_t)router->renormalize,
        .has = part->has,
        .team_size = clmoe_tune_route_team(router->num_experts, router->top_k, group_size),
        .softcap = router->softcap,
        .epsilon = router->epsilon,
        .scale = router->scale,
    };
}

void clmoe_route_add_views(struct clmoe_stage *stage, const struct clmoe_view views[CLMOE_ROUTE_VIEWS]) {
    for (int i = 0; i < CLMOE_ROUTE_VIEWS; ++i)
        clmoe_stage_buffer(stage, views[i].buffer);
}

clmoe_status clmoe_route_add_launch(clmoe_context *context, const char *function, const struct clmoe_route_part *part, uint32_t group_size,
                                    unsigned kernel, const struct clmoe_view views[CLMOE_ROUTE_VIEWS], const clmoe_buffer *workspace,
                                    const struct route_params *params, struct clmoe_call *call) {
    const struct clmoe_route_shape shape = clmoe_route_shape_of(part, params->num_tokens);
    uint32_t num_groups;
    const char *refusal =
        clmoe_tune_route(&context->limits, context->info.kernel_class, group_size, &part->desc.tuning, &shape, &num_groups);
    if (refusal != NULL)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.num_tokens: %u: %s", function, params->num_tokens, refusal);
    struct clmoe_stage *stage = clmoe_call_launch(call, kernel, num_groups, group_size, params, sizeof *params);
    clmoe_route_add_views(stage, views);
    if (part->scratch_groups != 0)
        clmoe_stage_buffer(stage, workspace);
    else
        clmoe_stage_local(stage, (size_t)(4 * part->scratch_items));
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_route_enqueue(clmoe_plan *base, cl_command_queue queue, const clmoe_route_args *args, cl_uint num_events_in_wait_list,
                                 const cl_event *event_wait_list, cl_event *event) {
    static const char function[] = "clmoe_route_enqueue";
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct clmoe_route_part *part = &((const struct route_plan *)base)->part;
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    struct clmoe_view views[CLMOE_ROUTE_VIEWS + 1];
    status = clmoe_route_fill_views(context, function, part, args, false, views);
    if (status != CLMOE_SUCCESS)
        return status;
    views[CLMOE_ROUTE_VIEWS] = clmoe_workspace(base, &args->workspace, 4);
    status = clmoe_check_call(context, function, views, CLMOE_ROUTE_VIEWS + 1, &tail);
    if (status != CLMOE_SUCCESS)
        return status;

    struct route_params params = clmoe_route_params_of(part, args, views, base->group_size);
    params.scratch_at = clmoe_start_of(&views[CLMOE_ROUTE_VIEWS]);
    struct clmoe_call call;
    call.num_stages = 0;
    status = clmoe_route_add_launch(context, function, part, base->group_size, 0, views, &args->workspace, &params, &call);
    return status != CLMOE_SUCCESS ? status : context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, &tail);
}
