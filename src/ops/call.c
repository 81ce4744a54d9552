#include "call.h"

#include <inttypes.h>

struct clmoe_stage *clmoe_call_launch(struct clmoe_call *call, unsigned kernel, uint32_t num_groups, uint32_t group_size,
                                      const void *params, size_t params_bytes) {
    struct clmoe_stage *stage = &call->stages[call->num_stages++];
    stage->kernel = kernel;
    stage->num_groups = num_groups;
    stage->group_size = group_size;
    stage->num_arguments = 1;
    stage->arguments[0] = (struct clmoe_argument){.kind = CLMOE_ARGUMENT_BYTES, .bytes = params_bytes, .data = params};
    return stage;
}

clmoe_context *clmoe_call_context(const clmoe_plan *plan, clmoe_status (*describe)(const clmoe_plan *, size_t, clmoe_plan_info *),
                                  const void *args, const char *function, clmoe_status *status) {
    *status = CLMOE_INVALID_ARGUMENT;
    if (plan == NULL)
        return NULL;
    if (plan->describe != describe)
        *status = clmoe_fail(plan->context, CLMOE_INVALID_ARGUMENT, "%s: plan: is another operator's", function);
    else if (args == NULL)
        *status = clmoe_fail(plan->context, CLMOE_INVALID_ARGUMENT, "%s: args: is NULL", function);
    else
        *status = CLMOE_SUCCESS;
    return *status == CLMOE_SUCCESS ? plan->context : NULL;
}

clmoe_status clmoe_check_creation(clmoe_context *context, const void *desc, clmoe_plan **plan, const char *function) {
    if (context == NULL)
        return CLMOE_INVALID_ARGUMENT;
    if (desc == NULL || plan == NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: is NULL", function, desc == NULL ? "desc" : "plan");
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_check_call(clmoe_context *context, const char *function, const struct clmoe_view *views, unsigned num_views,
                              const struct clmoe_queue_tail *tail) {
    const clmoe_status status = clmoe_check_views(context, function, views, num_views);
    return status != CLMOE_SUCCESS ? status : context->backend->check_tail(context, function, tail);
}

clmoe_status clmoe_check_max_items(clmoe_context *context, const char *function, uint32_t max_items, const clmoe_tuning *tuning) {
    if (max_items > INT32_MAX)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.max_items: %u, must be below 2^31", function, max_items);
    return clmoe_check_tuning(context, function, tuning, 3);
}

clmoe_status clmoe_check_tuning(clmoe_context *context, const char *function, const clmoe_tuning *tuning, uint32_t max_launches) {
    if (tuning->num_launches > max_launches)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.tuning.num_launches: must be 0 (the library chooses) or 1 ... %u",
                          function, max_launches);
    if (tuning->num_groups > 65536)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.tuning.num_groups: must be at most 65536", function);
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_check_items(clmoe_context *context, const char *function, const char *name, size_t num_items, uint32_t max_items) {
    if (num_items > max_items)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: %zu, the plan takes up to %u", function, name, num_items, max_items);
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_choose_group_size(clmoe_context *context, const char *function, const clmoe_tuning *tuning,
                                     clmoe_local_items *local_items, const uint32_t *shape, uint32_t *group_size) {
    *group_size = 1;
    if (context->info.kernel_class == CLMOE_CLASS_SERIAL)
        return CLMOE_SUCCESS;
    if (tuning->group_size > context->limits.max_group_size)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.tuning.group_size: %u, this device takes at most %u", function,
                          tuning->group_size, context->limits.max_group_size);
    *group_size = clmoe_tune_group_size(&context->limits, tuning->group_size, local_items, shape);
    if (*group_size == 0)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: %" PRIu64 " bytes of local memory are needed, this device has %" PRIu64,
                          function, 4 * local_items(shape, 1), context->limits.local_bytes);
    return CLMOE_SUCCESS;
}
