#include "routing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Arrays from files ---------------------------------------------------------------------------------------------------------- */

outcome routing_refuse(const char *command, const char *path, const npy_array *array, const char *rule) {
    char description[160];
    npy_describe(array, description, sizeof description);
    return report_error(command, OUTCOME_BAD_INPUT, "%s: %s: %s", path, description, rule);
}

/* Applies --at until the array has num_dims dimensions left; with at NULL it must have them already. */
static outcome pick(const char *command, const char *path, const number_list *at, uint32_t num_dims, npy_array *array) {
    char description[160], example[2 * NPY_MAX_DIMS + 1] = "0";
    npy_describe(array, description, sizeof description);
    if (array->num_dims < num_dims || (!at && array->num_dims > num_dims)) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: %s: must have %" PRIu32 " dimension%s", path, description, num_dims,
                            num_dims == 1 ? "" : "s");
    }
    const uint32_t num_indices = array->num_dims - num_dims;
    if (at && at->num_values != num_indices) {
        for (uint32_t i = 1; i < num_indices; i++) {
            memcpy(example + 2 * i - 1, ",0", 3);
        }
        return num_indices == 0
                   ? report_error(command, OUTCOME_BAD_INPUT, "%s: %s: there is no leading dimension for --at", path, description)
                   : report_error(command, OUTCOME_BAD_INPUT, "%s: %s: pick one part with %" PRIu32 " %s, such as --at %s", path,
                                  description, num_indices, num_indices == 1 ? "index" : "indices", example);
    }
    for (uint32_t i = 0; i < num_indices; i++) {
        if (at->values[i] >= array->shape[0]) {
            return report_error(command, OUTCOME_BAD_INPUT, "--at %" PRIu32 ": must be below %zu, as %s is %s", at->values[i],
                                array->shape[0], path, description);
        }
        npy_pick(array, at->values[i]);
    }
    return OUTCOME_DONE;
}

static outcome read_array(const char *command, const char *path, npy_array *array) {
    char error[256];
    return npy_read(path, array, error, sizeof error) ? OUTCOME_DONE : report_error(command, OUTCOME_BAD_INPUT, "%s: %s", path, error);
}

outcome routing_read_part(const char *command, const char *path, uint32_t num_dims, const number_list *at, npy_array *array) {
    const outcome result = read_array(command, path, array);
    return result == OUTCOME_DONE ? pick(command, path, at, num_dims, array) : result;
}

outcome routing_read_array(const char *command, const char *path, uint32_t num_dims, const number_list *at, npy_array *array) {
    const outcome result = read_array(command, path, array);
    return result == OUTCOME_DONE ? pick(command, path, array->num_dims > num_dims ? at : NULL, num_dims, array) : result;
}

static bool id_type_of(const npy_array *ids, clmoe_id_type *type) {
    static const struct {
        char kind;
        uint32_t item_bytes;
        clmoe_id_type type;
    } known[] = {{'i', 4, CLMOE_ID_I32}, {'i', 8, CLMOE_ID_I64}, {'u', 4, CLMOE_ID_U32}, {'i', 2, CLMOE_ID_I16}, {'u', 1, CLMOE_ID_U8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (ids->kind == known[i].kind && ids->item_bytes == known[i].item_bytes) {
            *type = known[i].type;
            return true;
        }
    }
    return false;
}

outcome routing_read(routing *route, const char *command, const char *path, const number_list *at, uint32_t num_experts) {
    char description[160];
    memset(route, 0, sizeof *route);
    route->command = command;
    route->num_experts = num_experts;
    npy_array *ids = &route->ids;
    outcome result = read_array(command, path, ids);
    if (result != OUTCOME_DONE) {
        return result;
    }
    npy_describe(ids, description, sizeof description);
    if (!id_type_of(ids, &route->id_type)) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: %s: ids must be int32, int64, uint32, int16 or uint8", path, description);
    }
    if (ids->num_dims < 2) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: %s: ids are [tokens][slots]; for one slot per token reshape to (%zu, 1)", path,
                            description, ids->num_items);
    }
    result = pick(command, path, at, 2, ids);
    if (result != OUTCOME_DONE) {
        return result;
    }
    if (ids->shape[0] > UINT32_MAX || ids->shape[1] > UINT32_MAX) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: %s: too many tokens or slots", path, description);
    }
    if (ids->shape[1] == 0) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: %s: a token must have at least 1 slot", path, description);
    }
    route->num_tokens = (uint32_t)ids->shape[0];
    route->top_k = (uint32_t)ids->shape[1];
    return OUTCOME_DONE;
}

outcome routing_read_map(routing *route, const char *path, clmoe_foreign foreign) {
    npy_array map;
    route->foreign = foreign;
    if (!path) {
        return OUTCOME_DONE;
    }
    outcome result = routing_read_array(route->command, path, 1, NULL, &map);
    if (result != OUTCOME_DONE) {
        npy_free(&map);
        return result;
    }
    if (!npy_is_integer(&map) || map.num_items != route->num_experts) {
        char description[160];
        npy_describe(&map, description, sizeof description);
        result =
            report_error(route->command, OUTCOME_BAD_INPUT, "%s: %s: the expert map must hold one integer for each of %" PRIu32 " experts",
                         path, description, route->num_experts);
    } else if (!(route->expert_map = malloc(map.num_items * sizeof *route->expert_map))) {
        result = report_error(route->command, OUTCOME_DEVICE_FAILED, "no memory for the expert map");
    }
    for (size_t e = 0; result == OUTCOME_DONE && e < map.num_items; e++) {
        const int64_t local = npy_integer(&map, e);
        route->expert_map[e] = local >= 0 && local <= INT32_MAX ? (int32_t)local : -1;
    }
    npy_free(&map);
    return result;
}

void routing_free(routing *route) {
    npy_free(&route->ids);
    free(route->expert_map);
    route->expert_map = NULL;
}

/* ---- The call ------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t argument; /* where clmoe_align_args holds it */
} outputs[ALIGN_NUM_ARRAYS] = {
    [ALIGN_SORTED] = {"sorted_token_ids", offsetof(clmoe_align_args, sorted_token_ids)},
    [ALIGN_EXPERTS] = {"expert_ids", offsetof(clmoe_align_args, expert_ids)},
    [ALIGN_TOTAL] = {"num_tokens_post_padded", offsetof(clmoe_align_args, num_tokens_post_padded)},
    [ALIGN_COUNTS] = {"counts", offsetof(clmoe_align_args, counts)},
    [ALIGN_OFFSETS] = {"offsets", offsetof(clmoe_align_args, offsets)},
    [ALIGN_PADDED_OFFSETS] = {"padded_offsets", offsetof(clmoe_align_args, padded_offsets)},
    [ALIGN_INVERSE] = {"inverse", offsetof(clmoe_align_args, inverse)},
    [ALIGN_ROWS_VALID] = {"rows_valid", offsetof(clmoe_align_args, rows_valid)},
    [ALIGN_SORTED_WEIGHTS] = {"sorted_weights", offsetof(clmoe_align_args, sorted_weights)},
    [ALIGN_STATUS] = {"status", offsetof(clmoe_align_args, status)},
};

const char *align_array_name(align_array which) {
    return outputs[which].name;
}

static clmoe_buffer *output_view(clmoe_align_args *args, size_t which) {
    return (clmoe_buffer *)(void *)((char *)args + outputs[which].argument);
}

static clmoe_align_desc describe(const align_call *call, const routing *route) {
    const clmoe_align_desc desc = {.max_tokens = route->num_tokens,
                                   .top_k = route->top_k,
                                   .num_experts = route->num_experts,
                                   .block_size = call->block_size,
                                   .id_type = route->id_type,
                                   .foreign = route->foreign,
                                   .has_pad_value = call->has_pad_value,
                                   .pad_value = call->pad_value};
    return desc;
}

static void size_arrays(align_call *call, const routing *route) {
    const size_t rows = call->capacity, blocks = rows / call->block_size, experts = route->num_experts;
    const size_t pairs = (size_t)route->num_tokens * route->top_k;
    const size_t sizes[ALIGN_NUM_ARRAYS] = {rows, blocks, 1, experts, experts + 1, experts + 1, pairs, blocks, rows, 4};
    memcpy(call->num_items, sizes, sizeof sizes);
}

/* Capacity 0 becomes the bound; any other is held against it. */
static outcome settle_capacity(align_call *call, const routing *route, session *work) {
    const clmoe_align_desc desc = describe(call, route);
    uint32_t max_rows = 0;
    const clmoe_status status = clmoe_align_max_rows(&desc, desc.max_tokens, &max_rows);
    if (status != CLMOE_SUCCESS) {
        return session_failure(work, status);
    }
    if (call->capacity % call->block_size != 0) {
        return report_error(work->command, OUTCOME_BAD_INPUT, "--capacity %" PRIu32 ": must be a multiple of --block %" PRIu32,
                            call->capacity, call->block_size);
    }
    if (call->capacity != 0 && call->capacity < max_rows) {
        return report_error(work->command, OUTCOME_BAD_INPUT,
                            "--capacity %" PRIu32 ": must be at least %" PRIu32 " for these tokens, slots and experts", call->capacity,
                            max_rows);
    }
    call->capacity = call->capacity ? call->capacity : max_rows;
    return OUTCOME_DONE;
}

outcome align_call_prepare(align_call *call, const routing *route, session *work, clmoe_align_args *args) {
    const npy_array *mask = call->row_mask;
    call->wanted[ALIGN_SORTED] = call->wanted[ALIGN_EXPERTS] = call->wanted[ALIGN_TOTAL] = true;
    outcome result = settle_capacity(call, route, work);
    if (result == OUTCOME_DONE && route->expert_map) {
        result = session_buffer(work, route->expert_map, route->num_experts * sizeof *route->expert_map, &args->expert_map);
    }
    if (result == OUTCOME_DONE && mask) {
        result = session_buffer(work, mask->data, mask->num_items, &args->row_mask);
    }
    if (result == OUTCOME_DONE && call->has_device_tokens) {
        result = session_buffer(work, &call->device_tokens, sizeof call->device_tokens, &args->num_tokens_device);
    }
    if (result == OUTCOME_DONE) {
        size_arrays(call, route);
    }
    for (size_t i = 0; i < ALIGN_NUM_ARRAYS && result == OUTCOME_DONE; i++) {
        if (call->wanted[i]) {
            result = session_buffer(work, NULL, call->num_items[i] * sizeof(int32_t), output_view(args, i));
        }
    }
    return result;
}

outcome align_call_collect(align_call *call, session *work, clmoe_align_args *args) {
    for (size_t i = 0; i < ALIGN_NUM_ARRAYS; i++) {
        const size_t bytes = call->num_items[i] * sizeof(int32_t);
        if (!call->wanted[i]) {
            continue;
        }
        call->arrays[i] = malloc(bytes ? bytes : 1);
        if (!call->arrays[i]) {
            return report_error(work->command, OUTCOME_DEVICE_FAILED, "no memory for %zu bytes", bytes);
        }
        const clmoe_status status = bytes ? clmoe_buffer_read(work->context, *output_view(args, i), call->arrays[i], bytes) : CLMOE_SUCCESS;
        if (status != CLMOE_SUCCESS) {
            return session_failure(work, status);
        }
    }
    return OUTCOME_DONE;
}

void align_call_release(session *work, clmoe_align_args *args) {
    const clmoe_buffer inputs[] = {args->topk_ids,          args->expert_map,   args->row_mask,
                                   args->num_tokens_device, args->topk_weights, args->workspace};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        clmoe_buffer_destroy(work->context, inputs[i]);
    }
    for (size_t i = 0; i < ALIGN_NUM_ARRAYS; i++) {
        clmoe_buffer_destroy(work->context, *output_view(args, i));
    }
}

outcome align_call_run(align_call *call, const routing *route, session *work) {
    const clmoe_align_desc desc = describe(call, route);
    clmoe_align_args args = {.num_tokens = route->num_tokens};
    clmoe_plan *plan = NULL;
    clmoe_status status = clmoe_align_plan_create(work->context, &desc, &plan);
    if (status != CLMOE_SUCCESS) {
        return session_failure(work, status);
    }
    outcome result = align_call_prepare(call, route, work, &args);
    if (result == OUTCOME_DONE) {
        result = session_buffer(work, route->ids.data, route->ids.num_items * route->ids.item_bytes, &args.topk_ids);
    }
    if (result == OUTCOME_DONE && call->weights) {
        result = session_buffer(work, call->weights->data, call->weights->num_items * call->weights->item_bytes, &args.topk_weights);
    }
    if (result == OUTCOME_DONE) {
        result = session_buffer(work, NULL, clmoe_plan_workspace_bytes(plan), &args.workspace);
    }
    if (result == OUTCOME_DONE) {
        status = clmoe_align_enqueue(plan, clmoe_context_queue(work->context), &args, 0, NULL, NULL);
        result = status == CLMOE_SUCCESS ? align_call_collect(call, work, &args) : session_failure(work, status);
    }
    if (result == OUTCOME_DONE) {
        result = session_tell_plan(work, plan, route->num_tokens);
    }
    align_call_release(work, &args);
    clmoe_plan_destroy(plan);
    return result;
}

void align_call_free(align_call *call) {
    for (size_t i = 0; i < ALIGN_NUM_ARRAYS; i++) {
        free(call->arrays[i]);
        call->arrays[i] = NULL;
    }
}

/* ---- Reading the result --------------------------------------------------------------------------------------------------------- */

static bool has_front_segment(const routing *route) {
    return route->foreign == CLMOE_FOREIGN_BUCKET;
}

uint32_t align_num_segments(const routing *route) {
    return route->num_experts + has_front_segment(route);
}

align_segment align_segment_at(const align_call *call, const routing *route, uint32_t index) {
    const int32_t *padded_offsets = call->arrays[ALIGN_PADDED_OFFSETS];
    if (has_front_segment(route) && index == 0) {
        const align_segment front = {-1, call->arrays[ALIGN_OFFSETS][0], 0, padded_offsets[0]};
        return front;
    }
    const uint32_t e = index - has_front_segment(route);
    const align_segment segment = {(int32_t)e, call->arrays[ALIGN_COUNTS][e], padded_offsets[e], padded_offsets[e + 1] - padded_offsets[e]};
    return segment;
}

double align_padding_factor(const align_call *call) {
    const int32_t placed = call->arrays[ALIGN_OFFSETS][call->num_items[ALIGN_OFFSETS] - 1];
    return placed > 0 ? (double)call->arrays[ALIGN_TOTAL][0] / placed : 0;
}
