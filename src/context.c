#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t copy_text(const char *from, char *text, size_t text_bytes) {
    const size_t needed = strlen(from) + 1;
    if (text != NULL && text_bytes > 0) {
        const size_t kept = needed < text_bytes ? needed - 1 : text_bytes - 1;
        memcpy(text, from, kept);
        text[kept] = '\0';
    }
    return needed;
}

clmoe_status clmoe_fail(clmoe_context *context, clmoe_status status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    pthread_mutex_lock(&context->error_mutex);
    vsnprintf(context->error, sizeof context->error, format, values);
    ++context->num_errors;
    pthread_mutex_unlock(&context->error_mutex);
    va_end(values);
    return status;
}

uint64_t clmoe_num_errors(clmoe_context *context) {
    pthread_mutex_lock(&context->error_mutex);
    const uint64_t number = context->num_errors;
    pthread_mutex_unlock(&context->error_mutex);
    return number;
}

void clmoe_forget_error(clmoe_context *context, uint64_t number) {
    pthread_mutex_lock(&context->error_mutex);
    if (context->num_errors == number)
        context->error[0] = '\0';
    pthread_mutex_unlock(&context->error_mutex);
}

void clmoe_keep_build_log(clmoe_context *context, char *log) {
    pthread_mutex_lock(&context->error_mutex);
    free(context->build_log);
    context->build_log = log;
    pthread_mutex_unlock(&context->error_mutex);
}

/* The two getters take a const context, and its lock guards nothing that a caller can see. */
static pthread_mutex_t *error_mutex(const clmoe_context *context) {
    return &((clmoe_context *)(uintptr_t)context)->error_mutex;
}

size_t clmoe_context_error(const clmoe_context *context, char *text, size_t text_bytes) {
    if (context == NULL)
        return copy_text("", text, text_bytes);
    pthread_mutex_lock(error_mutex(context));
    const size_t needed = copy_text(context->error, text, text_bytes);
    pthread_mutex_unlock(error_mutex(context));
    return needed;
}

size_t clmoe_context_build_log(const clmoe_context *context, char *text, size_t text_bytes) {
    if (context == NULL)
        return copy_text("", text, text_bytes);
    pthread_mutex_lock(error_mutex(context));
    const size_t needed = copy_text(context->build_log != NULL ? context->build_log : "", text, text_bytes);
    pthread_mutex_unlock(error_mutex(context));
    return needed;
}

clmoe_context *clmoe_context_new(const struct clmoe_backend *backend, const clmoe_context_options *options) {
    clmoe_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return NULL;
    if (pthread_mutex_init(&context->error_mutex, NULL) != 0) {
        free(context);
        return NULL;
    }
    atomic_init(&context->references, 1);
    context->backend = backend;
    if (options->cache_dir != NULL && options->cache_dir[0] != '\0') {
        const size_t bytes = strlen(options->cache_dir) + 1;
        context->cache_dir = malloc(bytes);
        if (context->cache_dir == NULL) {
            clmoe_context_release(context);
            return NULL;
        }
        memcpy(context->cache_dir, options->cache_dir, bytes);
    }
    return context;
}

clmoe_status clmoe_context_fail_creation(clmoe_context *context, const clmoe_context_options *options, clmoe_status status) {
    copy_text(context != NULL ? context->error : "out of host memory", options->error_text, options->error_text_bytes);
    if (context != NULL)
        clmoe_context_release(context);
    return status;
}

void clmoe_context_retain(clmoe_context *context) {
    atomic_fetch_add(&context->references, 1);
}

void clmoe_context_release(clmoe_context *context) {
    if (atomic_fetch_sub(&context->references, 1) != 1)
        return;
    if (context->device != NULL)
        context->backend->close(context);
    pthread_mutex_destroy(&context->error_mutex);
    free(context->build_log);
    free(context->cache_dir);
    free(context);
}

void clmoe_context_destroy(clmoe_context *context) {
    if (context != NULL)
        clmoe_context_release(context);
}

clmoe_status clmoe_context_describe(const clmoe_context *context, clmoe_device_info *info) {
    if (context == NULL || info == NULL)
        return CLMOE_INVALID_ARGUMENT;
    *info = context->info;
    return CLMOE_SUCCESS;
}

cl_context clmoe_context_opencl_context(const clmoe_context *context) {
    return context != NULL ? context->opencl_context : NULL;
}

cl_command_queue clmoe_context_queue(const clmoe_context *context) {
    return context != NULL ? context->queue : NULL;
}

clmoe_status clmoe_buffer_create(clmoe_context *context, size_t size_bytes, clmoe_buffer *buffer) {
    if (context == NULL || buffer == NULL)
        return CLMOE_INVALID_ARGUMENT;
    memset(buffer, 0, sizeof *buffer);
    return size_bytes == 0 ? CLMOE_SUCCESS : context->backend->buffer_create(context, size_bytes, buffer);
}

static clmoe_status check_transfer(clmoe_context *context, const char *function, clmoe_buffer buffer, size_t bytes, bool is_output) {
    if (bytes > buffer.size_bytes)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: bytes: %zu, the view has %zu", function, bytes, buffer.size_bytes);
    return context->backend->check_buffer(context, function, &buffer, is_output);
}

clmoe_status clmoe_buffer_write(clmoe_context *context, clmoe_buffer buffer, const void *data, size_t bytes) {
    if (context == NULL || (data == NULL && bytes != 0))
        return CLMOE_INVALID_ARGUMENT;
    if (bytes == 0)
        return CLMOE_SUCCESS;
    const clmoe_status status = check_transfer(context, "clmoe_buffer_write", buffer, bytes, true);
    return status != CLMOE_SUCCESS ? status : context->backend->buffer_write(context, context->queue, buffer, data, bytes);
}

clmoe_status clmoe_buffer_read(clmoe_context *context, clmoe_buffer buffer, void *data, size_t bytes) {
    if (context == NULL || (data == NULL && bytes != 0))
        return CLMOE_INVALID_ARGUMENT;
    if (bytes == 0)
        return CLMOE_SUCCESS;
    const clmoe_status status = check_transfer(context, "clmoe_buffer_read", buffer, bytes, false);
    return status != CLMOE_SUCCESS ? status : context->backend->buffer_read(context, context->queue, buffer, data, bytes);
}

void clmoe_buffer_destroy(clmoe_context *context, clmoe_buffer buffer) {
    if (context != NULL && (buffer.mem != NULL || buffer.host != NULL))
        context->backend->buffer_destroy(context, buffer);
}
