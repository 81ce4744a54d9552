#include "check.h"

#include <inttypes.h>
#include <stdio.h>

static clmoe_status check_view(clmoe_context *context, const char *function, const struct clmoe_view *view) {
    const clmoe_buffer *buffer = view->buffer;
    const uint64_t items = buffer->size_bytes / view->item_bytes; /* compared in items: a huge stride may need more than 2^64 bytes */
    const bool is_whole = buffer->size_bytes % view->item_bytes == 0;
    const uint64_t needed = view->num_items <= UINT64_MAX / view->item_bytes ? view->num_items * view->item_bytes : UINT64_MAX;
    if (!clmoe_is_present(buffer)) {
        if (buffer->size_bytes != 0)
            return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: %zu bytes of no memory", function, view->name, buffer->size_bytes);
        if (view->is_required && needed != 0)
            return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: missing, %" PRIu64 " bytes needed", function, view->name, needed);
        return CLMOE_SUCCESS;
    }
    if (items < view->num_items || (view->is_exact && !(is_whole && items == view->num_items)))
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: %zu bytes given, must be %s%" PRIu64, function, view->name,
                          buffer->size_bytes, view->is_exact ? "" : "at least ", needed);
    if (((uintptr_t)buffer->host | buffer->offset_bytes) % view->item_bytes != 0)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: host and offset_bytes must be multiples of %u bytes", function,
                          view->name, view->item_bytes);
    return context->backend->check_buffer(context, view->name, buffer, view->is_output);
}

static bool overlap(const clmoe_buffer *a, const clmoe_buffer *b) {
    if (a->mem != b->mem || a->size_bytes == 0 || b->size_bytes == 0)
        return false;
    const uintptr_t a_at = (uintptr_t)a->host + a->offset_bytes, b_at = (uintptr_t)b->host + b->offset_bytes;
    return a_at < b_at + b->size_bytes && b_at < a_at + a->size_bytes;
}

static bool is_same(const clmoe_buffer *a, const clmoe_buffer *b) {
    return a->mem == b->mem && a->host == b->host && a->offset_bytes == b->offset_bytes && a->size_bytes == b->size_bytes;
}

clmoe_status clmoe_check_views(clmoe_context *context, const char *function, const struct clmoe_view *views, unsigned num_views) {
    const struct clmoe_view *present[CLMOE_MAX_ARGUMENTS];
    unsigned num_present = 0;
    for (unsigned i = 0; i < num_views; ++i) {
        const clmoe_status status = check_view(context, function, &views[i]);
        if (status != CLMOE_SUCCESS)
            return status;
        if (clmoe_is_present(views[i].buffer))
            present[num_present++] = &views[i];
    }
    for (unsigned i = 0; i < num_present; ++i)
        for (unsigned j = 0; present[i]->is_output && j < num_present; ++j)
            if (j != i && overlap(present[i]->buffer, present[j]->buffer) &&
                !(present[j]->may_be_output && is_same(present[i]->buffer, present[j]->buffer)))
                return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: overlaps %s", function, present[i]->name, present[j]->name);
    return CLMOE_SUCCESS;
}
