/* call.h - one call under construction: the launches it is made of, and the checks that every operator starts with. */
#ifndef CLMOE_CALL_H
#define CLMOE_CALL_H

#include "check.h"

struct clmoe_call {
    unsigned num_stages;
    struct clmoe_stage stages[CLMOE_MAX_STAGES];
};

/* A launch with its parameters as first argument; they must live until the call is enqueued. */
struct clmoe_stage *clmoe_call_launch(struct clmoe_call *call, unsigned kernel, uint32_t num_groups, uint32_t group_size,
                                      const void *params, size_t params_bytes);
/* Its next argument: the memory of a view; more parameters, as above; local memory. */
static inline void clmoe_stage_buffer(struct clmoe_stage *stage, const clmoe_buffer *buffer) {
    stage->arguments[stage->num_arguments++] = (struct clmoe_argument){.kind = CLMOE_ARGUMENT_BUFFER, .buffer = *buffer};
}

static inline void clmoe_stage_bytes(struct clmoe_stage *stage, const void *data, size_t bytes) {
    stage->arguments[stage->num_arguments++] = (struct clmoe_argument){.kind = CLMOE_ARGUMENT_BYTES, .bytes = bytes, .data = data};
}

static inline void clmoe_stage_local(struct clmoe_stage *stage, size_t bytes) {
    stage->arguments[stage->num_arguments++] = (struct clmoe_argument){.kind = CLMOE_ARGUMENT_LOCAL, .bytes = bytes};
}

/* A plan of this operator (describe tells whose it is) and args: the context, or NULL with *status. */
clmoe_context *clmoe_call_context(const clmoe_plan *plan, clmoe_status (*describe)(const clmoe_plan *, size_t, clmoe_plan_info *),
                                  const void *args, const char *function, clmoe_status *status);

/* context, desc and plan of a creating call. */
clmoe_status clmoe_check_creation(clmoe_context *context, const void *desc, clmoe_plan **plan, const char *function);

/* max_items and tuning of a descriptor; its tuning alone; a number of items against what the plan takes. */
clmoe_status clmoe_check_max_items(clmoe_context *context, const char *function, uint32_t max_items, const clmoe_tuning *tuning);
clmoe_status clmoe_check_tuning(clmoe_context *context, const char *function, const clmoe_tuning *tuning, uint32_t max_launches);
clmoe_status clmoe_check_items(clmoe_context *context, const char *function, const char *name, size_t num_items, uint32_t max_items);

/* The size of a plan's groups: 1 in the serial class, else wanted or the library's choice as far as local memory
 * allows. Err: CLMOE_INVALID_ARGUMENT (over the device's limit), CLMOE_UNSUPPORTED (not even one work-item has the memory). */
clmoe_status clmoe_choose_group_size(clmoe_context *context, const char *function, const clmoe_tuning *tuning,
                                     clmoe_local_items *local_items, const uint32_t *shape, uint32_t *group_size);

/* Of groups that need next to none. */
static inline uint64_t clmoe_no_local_items(const uint32_t *shape, uint32_t group_size) {
    (void)shape;
    (void)group_size;
    return 1;
}

/* Views are checked first, then queue, wait list and event. */
clmoe_status clmoe_check_call(clmoe_context *context, const char *function, const struct clmoe_view *views, unsigned num_views,
                              const struct clmoe_queue_tail *tail);

static inline struct clmoe_view clmoe_input(const char *name, const clmoe_buffer *buffer, uint64_t num_items, uint32_t item_bytes,
                                            bool is_required) {
    return (struct clmoe_view){name, buffer, num_items, item_bytes, .is_output = false, .is_required = is_required, .is_exact = false};
}

static inline struct clmoe_view clmoe_output(const char *name, const clmoe_buffer *buffer, uint64_t num_items, uint32_t item_bytes,
                                             bool is_required) {
    return (struct clmoe_view){name, buffer, num_items, item_bytes, .is_output = true, .is_required = is_required, .is_exact = true};
}

/* Scratch: written, and as long as the caller likes. */
static inline struct clmoe_view clmoe_workspace(const clmoe_plan *plan, const clmoe_buffer *buffer, uint32_t item_bytes) {
    return (struct clmoe_view){
        "args.workspace",    buffer,           (plan->workspace_bytes + item_bytes - 1) / item_bytes, item_bytes, .is_output = true,
        .is_required = true, .is_exact = false};
}

/* Where a view starts in its memory, in items. */
static inline uint64_t clmoe_start_of(const struct clmoe_view *view) {
    return view->buffer->offset_bytes / view->item_bytes;
}

#endif
