#include "context.h"

#include <stdio.h>
#include <stdlib.h>

clmoe_status clmoe_plan_new(clmoe_context *context, size_t bytes, const struct clmoe_kernel_set *set, uint32_t group_size, uint32_t wanted,
                            clmoe_plan **plan) {
    clmoe_plan *made = calloc(1, bytes);
    if (made == NULL)
        return clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "%s plan: out of host memory", set->op);
    if (context->info.kernel_class == CLMOE_CLASS_SERIAL)
        wanted = 0; /* its groups are single work-items whatever a caller forces */
    made->context = context;
    made->group_size = group_size;
    clmoe_status status = context->backend->prepare(context, set, group_size, &made->kernels, &made->program);
    double program_ms = made->program.program_ms;
    while (status == CLMOE_SUCCESS && made->program.max_group_size < made->group_size) {
        if (wanted != 0 && context->limits.ignores_kernel_limit)
            break;
        const uint32_t limit = made->program.max_group_size;
        context->backend->release(context, made->kernels);
        if (wanted != 0) {
            free(made);
            return clmoe_fail(context, CLMOE_UNSUPPORTED,
                              "%s plan: desc.tuning.group_size: %u, these kernels run here in groups of at most %u", set->op, wanted,
                              limit);
        }
        /* The compiler used more registers than groups of that size leave: build for the size that it does allow. */
        made->group_size = limit;
        status = context->backend->prepare(context, set, limit, &made->kernels, &made->program);
        program_ms += made->program.program_ms;
    }
    made->program.program_ms = program_ms;
    if (status != CLMOE_SUCCESS) {
        free(made);
        return status;
    }
    const uint32_t hoped = wanted != 0 ? wanted : group_size;
    if (made->group_size < hoped && made->program.note[0] == '\0')
        snprintf(made->program.note, sizeof made->program.note, "groups of %u work-items instead of %u: %s", made->group_size, hoped,
                 wanted != 0 ? "local memory" : "the kernels' own limit");
    snprintf(made->name, sizeof made->name, "%s %s", set->op, set->variant);
    clmoe_context_retain(context);
    *plan = made;
    return CLMOE_SUCCESS;
}

void clmoe_plan_destroy(clmoe_plan *plan) {
    if (plan == NULL)
        return;
    clmoe_context *context = plan->context;
    context->backend->release(context, plan->kernels);
    free(plan);
    clmoe_context_release(context);
}

size_t clmoe_plan_workspace_bytes(const clmoe_plan *plan) {
    return plan != NULL ? plan->workspace_bytes : 0;
}

clmoe_status clmoe_plan_describe(const clmoe_plan *plan, size_t num_items, clmoe_plan_info *info) {
    if (plan == NULL || info == NULL)
        return CLMOE_INVALID_ARGUMENT;
    *info = (clmoe_plan_info){
        .backend = plan->context->info.backend,
        .kernel_class = plan->context->info.kernel_class,
        .program_origin = plan->program.origin,
        .program_ms = plan->program.program_ms,
        .group_size = plan->group_size,
        .workspace_bytes = plan->workspace_bytes,
    };
    snprintf(info->name, sizeof info->name, "%s", plan->name);
    snprintf(info->note, sizeof info->note, "%s", plan->program.note);
    return plan->describe(plan, num_items, info);
}
