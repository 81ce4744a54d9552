#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether smaller groups, which leave each work-item more registers and need less local memory, may do what failed so. */
static bool may_fit_smaller(clmoe_status status) {
    return status == CL_BUILD_PROGRAM_FAILURE || status == CL_OUT_OF_RESOURCES || status == CL_INVALID_WORK_GROUP_SIZE;
}

clmoe_status clmoe_plan_new(clmoe_context *context, size_t bytes, const struct clmoe_kernel_set *set, uint32_t group_size, uint32_t wanted,
                            clmoe_plan **plan) {
    enum { LEAST_GROUP_SIZE = 32 }; /* a compiler that fails here fails for a reason of its own */
    clmoe_plan *made = calloc(1, bytes);
    if (made == NULL)
        return clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "%s plan: out of host memory", set->op);
    if (context->info.kernel_class == CLMOE_CLASS_SERIAL)
        wanted = 0; /* its groups are single work-items whatever a caller forces */
    made->context = context;
    made->group_size = group_size;
    clmoe_status status = CLMOE_SUCCESS, failure = CLMOE_SUCCESS;
    const uint64_t errors_before = clmoe_num_errors(context);
    uint64_t num_failures = 0;
    double program_ms = 0;
    for (;;) {
        status = context->backend->prepare(context, set, made->group_size, &made->kernels, &made->program);
        program_ms += made->program.program_ms;
        if (status == CLMOE_SUCCESS) {
            const uint32_t limit = made->program.max_group_size;
            if (limit >= made->group_size || (wanted != 0 && context->limits.ignores_kernel_limit))
                break;
            context->backend->release(context, made->kernels);
            if (wanted != 0) {
                status = clmoe_fail(context, CLMOE_UNSUPPORTED,
                                    "%s plan: desc.tuning.group_size: %u, these kernels run here in groups of at most %u", set->op, wanted,
                                    limit);
                break;
            }
            made->group_size = limit; /* the compiler used more registers than larger groups leave */
        } else if (wanted == 0 && made->group_size >= 2 * LEAST_GROUP_SIZE && may_fit_smaller(status)) {
            failure = status;
            ++num_failures;
            made->group_size /= 2;
        } else {
            break;
        }
    }
    if (status != CLMOE_SUCCESS) {
        free(made);
        return status;
    }
    made->program.program_ms = program_ms;
    const uint32_t hoped = wanted != 0 ? wanted : group_size;
    if (made->group_size < hoped) { /* before what the cache had to tell, which may be long */
        char note[sizeof made->program.note + 128];
        snprintf(note, sizeof note, "groups of %u work-items instead of %u: %s%s%s", made->group_size, hoped,
                 wanted != 0                ? "local memory"
                 : failure != CLMOE_SUCCESS ? clmoe_status_name(failure)
                                            : "the kernels' own limit",
                 made->program.note[0] != '\0' ? "; " : "", made->program.note);
        snprintf(made->program.note, sizeof made->program.note, "%.*s", (int)sizeof made->program.note - 1, note);
    }
    if (num_failures != 0)
        clmoe_forget_error(context, errors_before + num_failures); /* not if other threads have added theirs */
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
