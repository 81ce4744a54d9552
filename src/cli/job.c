#include "job.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    char kind;
    uint32_t item_bytes;
    const char *name;
} known_types[] = {
    [CLMOE_TYPE_U32] = {'u', 4, "uint32"}, [CLMOE_TYPE_I32] = {'i', 4, "int32"}, [CLMOE_TYPE_F32] = {'f', 4, "float32"},
    [CLMOE_TYPE_U64] = {'u', 8, "uint64"}, [CLMOE_TYPE_I64] = {'i', 8, "int64"}, [CLMOE_TYPE_U16] = {'u', 2, "uint16"},
    [CLMOE_TYPE_I16] = {'i', 2, "int16"},  [CLMOE_TYPE_U8] = {'u', 1, "uint8"},  [CLMOE_TYPE_I8] = {'i', 1, "int8"},
};

enum { NUM_TYPES = sizeof known_types / sizeof known_types[0] };

void job_fail(job *work, const char *format, ...) {
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!job_failed(work)) {
        work->result = report_error(work->command, OUTCOME_BAD_INPUT, "%s", text);
    }
}

bool job_failed(const job *work) {
    return work->result != OUTCOME_DONE;
}

void job_need(job *work, bool given, const char *option) {
    if (!given) {
        job_fail(work, "%s is missing", option);
    }
}

/* ---- Arrays from files ---------------------------------------------------------------------------------------------------------- */

void job_refuse(job *work, const char *path, const npy_array *array, const char *rule) {
    char description[160];
    npy_describe(array, description, sizeof description);
    job_fail(work, "%s: %s: %s", path, description, rule);
}

/* NUM_TYPES if it is none of them. */
static size_t find_type(const npy_array *array) {
    size_t type = 0;
    while (type < NUM_TYPES && (known_types[type].kind != array->kind || known_types[type].item_bytes != array->item_bytes)) {
        type++;
    }
    return type;
}

clmoe_type job_type(const npy_array *array) {
    return (clmoe_type)find_type(array);
}

/* "samples must be uint32, int32 or uint64" */
static void list_types(const char *what, unsigned types, char *text, size_t text_bytes) {
    size_t length = (size_t)snprintf(text, text_bytes, "%s must be ", what);
    for (size_t type = 0, listed = 0; type < NUM_TYPES && length < text_bytes; type++) {
        if (types >> type & 1U) {
            const char *separator = listed++ == 0 ? "" : types >> (type + 1) ? ", " : " or ";
            length += (size_t)snprintf(text + length, text_bytes - length, "%s%s", separator, known_types[type].name);
        }
    }
}

const npy_array *job_read(job *work, const char *path, const char *what, unsigned types, job_shape shape, uint32_t *num_items) {
    char text[256];
    npy_array *array = &work->inputs[work->num_inputs++];
    if (job_failed(work)) {
        return array;
    }
    if (!npy_read(path, array, text, sizeof text)) {
        job_fail(work, "%s: %s", path, text);
        return array;
    }
    if (types != JOB_ANY_TYPE && (types >> find_type(array) & 1U) == 0) {
        list_types(what, types, text, sizeof text);
        job_refuse(work, path, array, text);
    }
    if (shape == JOB_FLAT ? array->num_dims != 1 : shape == JOB_ROWS && array->num_dims == 0) {
        job_refuse(work, path, array, shape == JOB_FLAT ? "must have 1 dimension" : "must have at least 1 dimension");
        return array;
    }
    const size_t count = shape == JOB_ROWS ? array->shape[0] : array->num_items;
    if (count > INT32_MAX) {
        job_refuse(work, path, array, shape == JOB_ROWS ? "must have less than 2^31 rows" : "must hold less than 2^31 items");
    }
    *num_items = (uint32_t)count;
    return array;
}

/* ---- The call ------------------------------------------------------------------------------------------------------------------- */

void job_open(job *work) {
    if (!job_failed(work)) {
        work->result = session_open(&work->work, work->command, &work->common);
    }
}

void job_check(job *work, clmoe_status status) {
    if (!job_failed(work) && status != CLMOE_SUCCESS) {
        work->result = session_failure(&work->work, status);
    }
}

clmoe_buffer job_buffer(job *work, const void *data, size_t bytes) {
    clmoe_buffer *buffer = &work->buffers[work->num_buffers];
    if (!job_failed(work)) {
        work->result = session_buffer(&work->work, data, bytes, buffer);
        work->num_buffers++;
    }
    return *buffer;
}

clmoe_buffer job_workspace(job *work) {
    return job_buffer(work, NULL, job_failed(work) ? 0 : clmoe_plan_workspace_bytes(work->plan));
}

uint32_t job_count(job *work, clmoe_buffer buffer) {
    uint32_t count = 0;
    if (!job_failed(work)) {
        job_check(work, clmoe_buffer_read(work->work.context, buffer, &count, sizeof count));
    }
    return count;
}

/* ---- Results -------------------------------------------------------------------------------------------------------------------- */

void job_write(job *work, const char *path, const npy_array *like, size_t num_items, clmoe_buffer buffer) {
    size_t shape[NPY_MAX_DIMS];
    FILE *stream = NULL;
    if (job_failed(work)) {
        return;
    }
    void *data = malloc(buffer.size_bytes ? buffer.size_bytes : 1);
    if (!data) {
        work->result = report_error(work->command, OUTCOME_DEVICE_FAILED, "no memory for %zu bytes", buffer.size_bytes);
        return;
    }
    memcpy(shape, like->shape, sizeof shape);
    shape[0] = num_items;
    if (buffer.size_bytes > 0) {
        job_check(work, clmoe_buffer_read(work->work.context, buffer, data, buffer.size_bytes));
    }
    if (!job_failed(work)) {
        work->outputs.command = work->command;
        work->result = output_open(&work->outputs, NULL, path, &stream);
    }
    if (!job_failed(work)) {
        work->result = output_close(&work->outputs, npy_write(stream, like->kind, like->item_bytes, like->num_dims, shape, data));
    }
    free(data);
}

static void print_json(const job *work, const job_fact *facts, size_t num_facts) {
    report_json json = {stdout, 0, false};
    json_open(&json, NULL, '{');
    for (size_t i = 0; i < num_facts; i++) {
        json_integer(&json, facts[i].key, facts[i].value);
    }
    output_json(&work->outputs, &json);
    json_close(&json, '}');
}

void job_finish(job *work, size_t num_items, const job_fact *facts, size_t num_facts) {
    if (!job_failed(work)) {
        work->result = session_tell_plan(&work->work, work->plan, num_items);
    }
    if (!job_failed(work) && work->common.json) {
        print_json(work, facts, num_facts);
        work->result = report_finish(work->command);
    }
    if (!job_failed(work)) {
        work->result = output_commit(&work->outputs);
    }
}

outcome job_end(job *work) {
    output_discard(&work->outputs);
    for (size_t i = 0; i < work->num_buffers; i++) {
        clmoe_buffer_destroy(work->work.context, work->buffers[i]);
    }
    clmoe_plan_destroy(work->plan);
    session_close(&work->work);
    for (size_t i = 0; i < work->num_inputs; i++) {
        npy_free(&work->inputs[i]);
    }
    return work->result;
}
