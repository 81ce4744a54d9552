/* check.h - the checks that every operator makes of its arguments. Each keeps one line of text: function, argument, limit. */
#ifndef CLMOE_CHECK_H
#define CLMOE_CHECK_H

#include "../context.h"

/* A view as an operator sees it. */
struct clmoe_view {
    const char *name; /* of the argument, as the caller knows it */
    const clmoe_buffer *buffer;
    uint64_t num_items; /* that the operator needs */
    uint32_t item_bytes;
    bool is_output;
    bool is_required;
    bool is_exact;      /* longer views are refused: an output is defined in every element */
    bool may_be_output; /* an input that may be the very view of the output: the operator works in place */
};

static inline bool clmoe_is_present(const clmoe_buffer *buffer) {
    return buffer->mem != NULL || buffer->host != NULL;
}

/* Each view: there if required, the device's kind of memory, aligned to its element, long enough; no output overlaps another
 * view of the same memory object. */
/* num_views is at most CLMOE_MAX_ARGUMENTS. */
clmoe_status clmoe_check_views(clmoe_context *context, const char *function, const struct clmoe_view *views, unsigned num_views);

#endif
