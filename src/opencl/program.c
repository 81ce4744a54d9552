#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "program.h"

#include "cache.h"
#include "sources.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* OpenCL C 1.2 as the standard has it: no option that lets a compiler change a result. */
static const char build_options[] = "-cl-std=CL1.2";

struct clmoe_program {
    struct clmoe_program *next;
    cl_program handle;
    unsigned references;
    const struct clmoe_kernel_set *set;
    uint32_t group_size;
};

cl_program clmoe_program_handle(const struct clmoe_program *program) {
    return program->handle;
}

/* ---- Text ---- */

struct text {
    char *bytes; /* NULL once memory has run out */
    size_t length, capacity;
};

static void append_bytes(struct text *text, const void *bytes, size_t length) {
    if (text->bytes == NULL)
        return;
    if (text->length + length + 1 > text->capacity) {
        const size_t capacity = 2 * (text->length + length + 1);
        char *grown = realloc(text->bytes, capacity);
        if (grown == NULL) {
            free(text->bytes);
            text->bytes = NULL;
            return;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

static void append(struct text *text, const char *format, ...) CLMOE_PRINTF(2, 3);
static void append(struct text *text, const char *format, ...) {
    char line[768];
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    append_bytes(text, line, length < 0 ? 0 : (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static struct text new_text(void) {
    return (struct text){.bytes = calloc(1, 1024), .length = 0, .capacity = 1024};
}

/* A file of cl/, under its own name in the compiler's messages; nothing if there is no such file. */
static void append_source(struct text *text, const char *path) {
    for (const struct clmoe_source *source = clmoe_sources; source->path != NULL; ++source)
        if (strcmp(source->path, path) == 0) {
            append(text, "#line 1 \"cl/%s\"\n", path);
            append_bytes(text, source->bytes, source->num_bytes);
        }
}

static struct text source_of(const struct clmoe_kernel_set *set, clmoe_class kernel_class, uint32_t group_size) {
    char path[96];
    struct text text = new_text();
    append(&text, "#define CLMOE_KERNEL\n#define NAME(name) name\n#define W %uu\n%s", group_size, set->defines);
    append_source(&text, "shared.h");
    const char *const ops[] = {set->parts[0], set->parts[1], set->op};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
        if (ops[i] != NULL) {
            snprintf(path, sizeof path, "%s.h", ops[i]);
            append_source(&text, path);
        }
    if (kernel_class == CLMOE_CLASS_PARALLEL)
        append_source(&text, "parallel/group.cl");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
        if (ops[i] != NULL) {
            snprintf(path, sizeof path, "%s/%s.cl", kernel_class == CLMOE_CLASS_SERIAL ? "serial" : "parallel", ops[i]);
            append_source(&text, path);
        }
    return text;
}

/* Everything that the compiled program depends on. */
static struct text key_of(const clmoe_context *context, const char *source) {
    const clmoe_device_info *info = &context->info;
    struct text key = new_text();
    append(&key, "clmoe %s\noptions %s\nplatform %s, %s\n", clmoe_version(), build_options, info->platform_name, info->platform_version);
    append(&key, "device %s, vendor %x, %s\ndriver %s\n", info->name, info->vendor_id, info->device_version, info->driver_version);
    append_bytes(&key, source, strlen(source));
    return key;
}

/* ---- Building ---- */

static void keep_log(clmoe_context *context, const struct clmoe_cl *cl, cl_program program) {
    size_t bytes = 0;
    char *log = NULL;
    if (cl->clGetProgramBuildInfo(program, context->info.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) == CL_SUCCESS && bytes > 0)
        log = calloc(1, bytes + 1);
    if (log != NULL && cl->clGetProgramBuildInfo(program, context->info.device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) != CL_SUCCESS)
        log[0] = '\0';
    clmoe_keep_build_log(context, log);
}

static clmoe_status build_source(clmoe_context *context, const struct clmoe_cl *cl, const struct clmoe_kernel_set *set, const char *source,
                                 cl_program *program) {
    cl_int error;
    *program = cl->clCreateProgramWithSource(context->opencl_context, 1, &source, NULL, &error);
    if (*program == NULL)
        return clmoe_fail(context, error, "%s: clCreateProgramWithSource: %s", set->op, clmoe_status_name(error));
    error = cl->clBuildProgram(*program, 1, &context->info.device, build_options, NULL, NULL);
    if (error == CL_SUCCESS)
        return CLMOE_SUCCESS;
    keep_log(context, cl, *program);
    cl->clReleaseProgram(*program);
    *program = NULL;
    return clmoe_fail(context, error, "%s: clBuildProgram: %s; clmoe_context_build_log() has the compiler's log", set->op,
                      clmoe_status_name(error));
}

/* NULL: no sound entry, or one that the driver does not take. */
static cl_program load_cached(clmoe_context *context, const struct clmoe_cl *cl, const struct clmoe_kernel_set *set, const struct text *key,
                              struct clmoe_prepare_result *result) {
    size_t bytes = 0;
    unsigned char *binary = clmoe_cache_load(context->cache_dir, key->bytes, key->length, &bytes, result->note, sizeof result->note);
    if (binary == NULL)
        return NULL;
    const unsigned char *binaries[] = {binary};
    cl_int binary_status = CL_SUCCESS, error;
    cl_program program =
        cl->clCreateProgramWithBinary(context->opencl_context, 1, &context->info.device, &bytes, binaries, &binary_status, &error);
    free(binary);
    bool is_usable = program != NULL && binary_status == CL_SUCCESS &&
                     cl->clBuildProgram(program, 1, &context->info.device, build_options, NULL, NULL) == CL_SUCCESS;
    for (unsigned i = 0; is_usable && i < CLMOE_MAX_KERNELS && set->kernel_names[i] != NULL; ++i) {
        cl_kernel kernel = cl->clCreateKernel(program, set->kernel_names[i], &error);
        is_usable = kernel != NULL;
        if (kernel != NULL)
            cl->clReleaseKernel(kernel);
    }
    if (is_usable)
        return program;
    if (program != NULL)
        cl->clReleaseProgram(program);
    clmoe_cache_remove(context->cache_dir, key->bytes, key->length);
    return NULL;
}

/* A context may hold more devices than ours: the program has a binary for each. */
static void store_cached(clmoe_context *context, const struct clmoe_cl *cl, cl_program program, const struct text *key,
                         struct clmoe_prepare_result *result) {
    enum { MAX_DEVICES = 64 };
    cl_uint num_devices = 0;
    cl_device_id devices[MAX_DEVICES] = {NULL};
    size_t sizes[MAX_DEVICES] = {0};
    unsigned char *binaries[MAX_DEVICES] = {NULL};
    cl_int error = cl->clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof num_devices, &num_devices, NULL);
    if (num_devices > MAX_DEVICES)
        return;
    if (error == CL_SUCCESS)
        error = cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, num_devices * sizeof *devices, devices, NULL);
    if (error == CL_SUCCESS)
        error = cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, num_devices * sizeof *sizes, sizes, NULL);
    cl_uint ours = 0;
    while (ours < num_devices && devices[ours] != context->info.device)
        ++ours;
    if (error == CL_SUCCESS && (ours == num_devices || sizes[ours] == 0))
        return;
    bool is_allocated = true;
    for (cl_uint i = 0; error == CL_SUCCESS && i < num_devices && is_allocated; ++i)
        is_allocated = sizes[i] == 0 || (binaries[i] = malloc(sizes[i])) != NULL;
    if (error == CL_SUCCESS && is_allocated)
        error = cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, num_devices * sizeof *binaries, binaries, NULL);
    if (error != CL_SUCCESS)
        snprintf(result->note, sizeof result->note, "program not cached: clGetProgramInfo: %s", clmoe_status_name(error));
    else if (!is_allocated)
        snprintf(result->note, sizeof result->note, "program not cached: out of host memory");
    else
        clmoe_cache_store(context->cache_dir, key->bytes, key->length, binaries[ours], sizes[ours], result->note, sizeof result->note);
    for (cl_uint i = 0; i < num_devices; ++i)
        free(binaries[i]);
}

static double milliseconds(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static clmoe_status make_program(clmoe_context *context, const struct clmoe_cl *cl, const struct clmoe_kernel_set *set, uint32_t group_size,
                                 cl_program *program, struct clmoe_prepare_result *result) {
    const double start = milliseconds();
    clmoe_status status = CLMOE_SUCCESS;
    struct text source = source_of(set, context->info.kernel_class, group_size), key = {NULL, 0, 0};
    if (source.bytes != NULL)
        key = key_of(context, source.bytes);
    *program = NULL;
    if (source.bytes == NULL || key.bytes == NULL) {
        status = clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "%s: out of host memory", set->op);
    } else {
        if (context->cache_dir != NULL)
            *program = load_cached(context, cl, set, &key, result);
        result->origin = *program != NULL ? CLMOE_PROGRAM_CACHED : CLMOE_PROGRAM_BUILT;
        if (*program == NULL) {
            status = build_source(context, cl, set, source.bytes, program);
            if (status == CLMOE_SUCCESS && context->cache_dir != NULL && result->note[0] == '\0')
                store_cached(context, cl, *program, &key, result);
        }
    }
    free(source.bytes);
    free(key.bytes);
    result->program_ms = milliseconds() - start;
    return status;
}

/* ---- Sharing ---- */

clmoe_status clmoe_program_acquire(clmoe_context *context, const struct clmoe_kernel_set *set, uint32_t group_size,
                                   struct clmoe_program **program, struct clmoe_prepare_result *result) {
    struct clmoe_opencl_device *device = context->device;
    clmoe_status status = CLMOE_SUCCESS;
    *result = (struct clmoe_prepare_result){.origin = CLMOE_PROGRAM_SHARED};
    pthread_mutex_lock(&device->programs_mutex);
    struct clmoe_program *found = device->programs;
    while (found != NULL && !(found->set == set && found->group_size == group_size))
        found = found->next;
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        status = found == NULL ? clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "%s: out of host memory", set->op)
                               : make_program(context, &device->cl, set, group_size, &found->handle, result);
        if (status == CLMOE_SUCCESS) {
            found->set = set;
            found->group_size = group_size;
            found->next = device->programs;
            device->programs = found;
        } else {
            free(found);
        }
    }
    if (status == CLMOE_SUCCESS) {
        ++found->references;
        *program = found;
    }
    pthread_mutex_unlock(&device->programs_mutex);
    return status;
}

void clmoe_program_release(clmoe_context *context, struct clmoe_program *program) {
    struct clmoe_opencl_device *device = context->device;
    pthread_mutex_lock(&device->programs_mutex);
    if (--program->references == 0) {
        struct clmoe_program **link = &device->programs;
        while (*link != program)
            link = &(*link)->next;
        *link = program->next;
        device->cl.clReleaseProgram(program->handle);
        free(program);
    }
    pthread_mutex_unlock(&device->programs_mutex);
}
