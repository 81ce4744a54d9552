/* The OpenCL device: kernels of a shared program, launched on the caller's queue. */
#include "../devices.h"
#include "discover.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clmoe_kernels {
    struct clmoe_program *program;
    const struct clmoe_kernel_set *set;
    cl_kernel kernels[CLMOE_MAX_KERNELS];
    pthread_mutex_t mutex; /* a cl_kernel keeps the arguments that were set last: set and launch go together */
};

static const struct clmoe_cl *cl_of(const clmoe_context *context) {
    return &((const struct clmoe_opencl_device *)context->device)->cl;
}

static clmoe_status fail_call(clmoe_context *context, cl_int error, const char *call, const char *what) {
    return clmoe_fail(context, error, "%s (%s): %s", call, what, clmoe_status_name(error));
}

/* ---- Kernels ---- */

static void release(clmoe_context *context, struct clmoe_kernels *kernels) {
    for (unsigned i = 0; i < CLMOE_MAX_KERNELS; ++i)
        if (kernels->kernels[i] != NULL)
            cl_of(context)->clReleaseKernel(kernels->kernels[i]);
    clmoe_program_release(context, kernels->program);
    pthread_mutex_destroy(&kernels->mutex);
    free(kernels);
}

static clmoe_status prepare(clmoe_context *context, const struct clmoe_kernel_set *set, uint32_t group_size, struct clmoe_kernels **kernels,
                            struct clmoe_prepare_result *result) {
    const struct clmoe_cl *cl = cl_of(context);
    struct clmoe_kernels *made = calloc(1, sizeof *made);
    if (made == NULL || pthread_mutex_init(&made->mutex, NULL) != 0) {
        free(made);
        return clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "%s: out of host memory", set->op);
    }
    made->set = set;
    clmoe_status status = clmoe_program_acquire(context, set, group_size, &made->program, result);
    if (status != CLMOE_SUCCESS) {
        pthread_mutex_destroy(&made->mutex);
        free(made);
        return status;
    }
    result->max_group_size = group_size;
    for (unsigned i = 0; status == CLMOE_SUCCESS && i < CLMOE_MAX_KERNELS && set->kernel_names[i] != NULL; ++i) {
        cl_int error;
        size_t limit = group_size;
        made->kernels[i] = cl->clCreateKernel(clmoe_program_handle(made->program), set->kernel_names[i], &error);
        if (made->kernels[i] == NULL)
            status = fail_call(context, error, "clCreateKernel", set->kernel_names[i]);
        else if ((error = cl->clGetKernelWorkGroupInfo(made->kernels[i], context->info.device, CL_KERNEL_WORK_GROUP_SIZE, sizeof limit,
                                                       &limit, NULL)) != CL_SUCCESS)
            status = fail_call(context, error, "clGetKernelWorkGroupInfo", set->kernel_names[i]);
        else if (limit < result->max_group_size)
            result->max_group_size = limit < 1 ? 1 : (uint32_t)limit;
    }
    if (status != CLMOE_SUCCESS) {
        release(context, made);
        return status;
    }
    *kernels = made;
    return CLMOE_SUCCESS;
}

/* ---- Calls ---- */

static clmoe_status check_tail(clmoe_context *context, const char *function, const struct clmoe_queue_tail *tail) {
    const struct clmoe_cl *cl = cl_of(context);
    cl_context queue_context = NULL;
    cl_device_id queue_device = NULL;
    cl_int error = CL_INVALID_COMMAND_QUEUE;
    if (tail->queue != NULL)
        error = cl->clGetCommandQueueInfo(tail->queue, CL_QUEUE_CONTEXT, sizeof queue_context, &queue_context, NULL);
    if (error == CL_SUCCESS)
        error = cl->clGetCommandQueueInfo(tail->queue, CL_QUEUE_DEVICE, sizeof queue_device, &queue_device, NULL);
    if (error == CL_INVALID_COMMAND_QUEUE)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: queue: is not a command queue", function);
    if (error != CL_SUCCESS)
        return fail_call(context, error, "clGetCommandQueueInfo", function);
    if (queue_context != context->opencl_context || queue_device != context->info.device)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: queue: belongs to another context or device", function);
    if ((tail->num_events == 0) != (tail->wait_list == NULL))
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: event_wait_list: %u events at %s", function, tail->num_events,
                          tail->wait_list == NULL ? "NULL" : "an address");
    for (cl_uint i = 0; i < tail->num_events; ++i)
        if (tail->wait_list[i] == NULL)
            return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: event_wait_list[%u]: is NULL", function, i);
    return CLMOE_SUCCESS;
}

static clmoe_status check_buffer(clmoe_context *context, const char *name, const clmoe_buffer *buffer, bool is_output) {
    const struct clmoe_cl *cl = cl_of(context);
    cl_context mem_context = NULL;
    cl_mem_object_type type = 0;
    cl_mem_flags flags = 0;
    size_t mem_bytes = 0;
    if (buffer->host != NULL || buffer->mem == NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: a view of host memory; an OpenCL context takes cl_mem", name);
    cl_int error = cl->clGetMemObjectInfo(buffer->mem, CL_MEM_CONTEXT, sizeof mem_context, &mem_context, NULL);
    if (error == CL_SUCCESS)
        error = cl->clGetMemObjectInfo(buffer->mem, CL_MEM_TYPE, sizeof type, &type, NULL);
    if (error == CL_SUCCESS)
        error = cl->clGetMemObjectInfo(buffer->mem, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    if (error == CL_SUCCESS)
        error = cl->clGetMemObjectInfo(buffer->mem, CL_MEM_SIZE, sizeof mem_bytes, &mem_bytes, NULL);
    if (error == CL_INVALID_MEM_OBJECT || (error == CL_SUCCESS && type != CL_MEM_OBJECT_BUFFER))
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: is not a buffer of OpenCL", name);
    if (error != CL_SUCCESS)
        return fail_call(context, error, "clGetMemObjectInfo", name);
    if ((flags & (is_output ? CL_MEM_READ_ONLY : CL_MEM_WRITE_ONLY)) != 0)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: its memory is %s-only", name, is_output ? "read" : "write");
    if (mem_context != context->opencl_context)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: belongs to another OpenCL context", name);
    if (buffer->offset_bytes > mem_bytes || buffer->size_bytes > mem_bytes - buffer->offset_bytes)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT,
                          "%s: offset_bytes %zu and size_bytes %zu reach beyond the %zu bytes of the cl_mem", name, buffer->offset_bytes,
                          buffer->size_bytes, mem_bytes);
    return CLMOE_SUCCESS;
}

static cl_int set_arguments(const struct clmoe_cl *cl, cl_kernel kernel, const struct clmoe_stage *stage) {
    cl_int error = CL_SUCCESS;
    for (unsigned i = 0; error == CL_SUCCESS && i < stage->num_arguments; ++i) {
        const struct clmoe_argument *argument = &stage->arguments[i];
        switch (argument->kind) {
        case CLMOE_ARGUMENT_BUFFER: error = cl->clSetKernelArg(kernel, i, sizeof(cl_mem), &argument->buffer.mem); break;
        case CLMOE_ARGUMENT_BYTES: error = cl->clSetKernelArg(kernel, i, argument->bytes, argument->data); break;
        case CLMOE_ARGUMENT_LOCAL: error = cl->clSetKernelArg(kernel, i, argument->bytes, NULL); break;
        }
    }
    return error;
}

static clmoe_status enqueue(clmoe_context *context, struct clmoe_kernels *kernels, const struct clmoe_stage *stages, unsigned num_stages,
                            const struct clmoe_queue_tail *tail) {
    const struct clmoe_cl *cl = cl_of(context);
    cl_command_queue_properties properties = 0;
    cl_int error = cl->clGetCommandQueueInfo(tail->queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (error != CL_SUCCESS)
        return fail_call(context, error, "clGetCommandQueueInfo", kernels->set->op);
    const bool is_chained = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0; /* else the queue itself keeps the order */

    clmoe_status status = CLMOE_SUCCESS;
    cl_event before = NULL;
    pthread_mutex_lock(&kernels->mutex);
    for (unsigned s = 0; status == CLMOE_SUCCESS && s < num_stages; ++s) {
        const struct clmoe_stage *stage = &stages[s];
        const char *name = kernels->set->kernel_names[stage->kernel];
        cl_kernel kernel = kernels->kernels[stage->kernel];
        const size_t local = stage->group_size, items = local * stage->num_groups;
        const bool is_first = s == 0, is_last = s + 1 == num_stages;
        cl_event done = NULL;
        error = set_arguments(cl, kernel, stage);
        if (error != CL_SUCCESS) {
            status = fail_call(context, error, "clSetKernelArg", name);
            break;
        }
        const cl_uint num_waits = is_first ? tail->num_events : before != NULL;
        const cl_event *waits = is_first ? tail->wait_list : before != NULL ? &before : NULL;
        error = cl->clEnqueueNDRangeKernel(tail->queue, kernel, 1, NULL, &items, &local, num_waits, waits,
                                           is_last      ? tail->event
                                           : is_chained ? &done
                                                        : NULL);
        if (error != CL_SUCCESS)
            status = fail_call(context, error, "clEnqueueNDRangeKernel", name);
        if (before != NULL)
            cl->clReleaseEvent(before);
        before = done;
    }
    pthread_mutex_unlock(&kernels->mutex);
    if (before != NULL)
        cl->clReleaseEvent(before);
    return status;
}

/* ---- Buffers and queues ---- */

static clmoe_status buffer_create(clmoe_context *context, size_t bytes, clmoe_buffer *buffer) {
    cl_int error;
    cl_mem mem = cl_of(context)->clCreateBuffer(context->opencl_context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    if (mem == NULL)
        return clmoe_fail(context, error, "clCreateBuffer of %zu bytes: %s", bytes, clmoe_status_name(error));
    *buffer = clmoe_buffer_of_mem(mem, 0, bytes);
    return CLMOE_SUCCESS;
}

static clmoe_status buffer_write(clmoe_context *context, cl_command_queue queue, clmoe_buffer buffer, const void *data, size_t bytes) {
    static const char function[] = "clmoe_buffer_write";
    if (queue == NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: context: has no queue of its own; use the caller's", function);
    const cl_int error = cl_of(context)->clEnqueueWriteBuffer(queue, buffer.mem, CL_TRUE, buffer.offset_bytes, bytes, data, 0, NULL, NULL);
    return error == CL_SUCCESS ? CLMOE_SUCCESS : fail_call(context, error, "clEnqueueWriteBuffer", function);
}

static clmoe_status buffer_read(clmoe_context *context, cl_command_queue queue, clmoe_buffer buffer, void *data, size_t bytes) {
    static const char function[] = "clmoe_buffer_read";
    if (queue == NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: context: has no queue of its own; use the caller's", function);
    const cl_int error = cl_of(context)->clEnqueueReadBuffer(queue, buffer.mem, CL_TRUE, buffer.offset_bytes, bytes, data, 0, NULL, NULL);
    return error == CL_SUCCESS ? CLMOE_SUCCESS : fail_call(context, error, "clEnqueueReadBuffer", function);
}

static void buffer_destroy(clmoe_context *context, clmoe_buffer buffer) {
    if (buffer.mem != NULL)
        cl_of(context)->clReleaseMemObject(buffer.mem);
}

static clmoe_status queue_create(clmoe_context *context, cl_command_queue *queue) {
    cl_int error;
    *queue = cl_of(context)->clCreateCommandQueue(context->opencl_context, context->info.device, 0, &error);
    return *queue != NULL ? CLMOE_SUCCESS : fail_call(context, error, "clCreateCommandQueue", context->info.name);
}

static void queue_destroy(clmoe_context *context, cl_command_queue queue) {
    cl_of(context)->clReleaseCommandQueue(queue);
}

/* ---- Contexts ---- */

static void close_device(clmoe_context *context) {
    struct clmoe_opencl_device *device = context->device;
    if (context->queue != NULL)
        queue_destroy(context, context->queue);
    if (device->is_retained)
        device->cl.clReleaseDevice(context->info.device);
    if (context->opencl_context != NULL)
        device->cl.clReleaseContext(context->opencl_context);
    pthread_mutex_destroy(&device->programs_mutex);
    free(device);
}

static const struct clmoe_backend opencl_backend = {
    .prepare = prepare,
    .release = release,
    .check_tail = check_tail,
    .check_buffer = check_buffer,
    .enqueue = enqueue,
    .buffer_create = buffer_create,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .buffer_destroy = buffer_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .close = close_device,
};

/* A context with the OpenCL library loaded, and nothing more. */
static clmoe_status open_library(const clmoe_context_options *options, clmoe_context **context) {
    clmoe_context *made = clmoe_context_new(&opencl_backend, options);
    *context = made;
    if (made == NULL)
        return CLMOE_OUT_OF_MEMORY;
    struct clmoe_opencl_device *device = calloc(1, sizeof *device);
    if (device == NULL || pthread_mutex_init(&device->programs_mutex, NULL) != 0) {
        free(device);
        return clmoe_fail(made, CLMOE_OUT_OF_MEMORY, "out of host memory");
    }
    made->device = device;
    char reason[160];
    return clmoe_cl_load(&device->cl, reason, sizeof reason) ? CLMOE_SUCCESS : clmoe_fail(made, CLMOE_NO_OPENCL, "%s", reason);
}

static clmoe_status retain_device(clmoe_context *context) {
    struct clmoe_opencl_device *device = context->device;
    const cl_int error = device->cl.clRetainDevice(context->info.device);
    device->is_retained = error == CL_SUCCESS;
    return device->is_retained ? CLMOE_SUCCESS : fail_call(context, error, "clRetainDevice", context->info.name);
}

/* The device's facts and limits, and the class that was asked for. */
static clmoe_status adopt_device(clmoe_context *context, const clmoe_context_options *options, const clmoe_device_info *info) {
    context->info = *info;
    if (info->skipped[0] != '\0')
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: %s", info->name, info->skipped);
    if ((uint32_t)options->kernel_class > CLMOE_CLASS_PARALLEL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "options.kernel_class: is none of the CLMOE_CLASS_ values");
    if (options->kernel_class != CLMOE_CLASS_AUTO)
        context->info.kernel_class = options->kernel_class;
    context->limits = clmoe_cl_limits(info);
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_context_create_opencl(cl_context opencl_context, cl_device_id opencl_device, const clmoe_context_options *options,
                                         clmoe_context **context) {
    const clmoe_context_options none = {0};
    options = options != NULL ? options : &none;
    if (context == NULL)
        return CLMOE_INVALID_ARGUMENT;
    clmoe_context *made;
    clmoe_status status = open_library(options, &made);
    if (status == CLMOE_SUCCESS && (opencl_context == NULL || opencl_device == NULL))
        status = clmoe_fail(made, CLMOE_INVALID_ARGUMENT, "clmoe_context_create_opencl: %s: is NULL",
                            opencl_context == NULL ? "opencl_context" : "device");
    if (status == CLMOE_SUCCESS) {
        enum { MAX_DEVICES = 64 };
        const struct clmoe_cl *cl = cl_of(made);
        cl_device_id devices[MAX_DEVICES];
        size_t bytes = 0, i = 0;
        cl_platform_id platform = NULL;
        clmoe_device_info info;
        cl_int error = cl->clGetContextInfo(opencl_context, CL_CONTEXT_DEVICES, sizeof devices, devices, &bytes);
        while (i < bytes / sizeof *devices && devices[i] != opencl_device)
            ++i;
        if (error == CL_INVALID_CONTEXT) {
            status = clmoe_fail(made, CLMOE_INVALID_ARGUMENT, "clmoe_context_create_opencl: opencl_context: is not a context");
        } else if (error != CL_SUCCESS) {
            status = fail_call(made, error, "clGetContextInfo", "clmoe_context_create_opencl");
        } else if (i == bytes / sizeof *devices) {
            status = clmoe_fail(made, CLMOE_INVALID_ARGUMENT, "clmoe_context_create_opencl: device: is not one of the context's devices");
        } else if ((error = cl->clGetDeviceInfo(opencl_device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL)) != CL_SUCCESS) {
            status = fail_call(made, error, "clGetDeviceInfo", "clmoe_context_create_opencl");
        } else if ((error = clmoe_cl_describe_device(cl, platform, opencl_device, &info)) != CL_SUCCESS) {
            status = clmoe_fail(made, error, "clmoe_context_create_opencl: %s", info.skipped);
        } else {
            status = adopt_device(made, options, &info);
        }
    }
    if (status == CLMOE_SUCCESS) {
        const cl_int error = cl_of(made)->clRetainContext(opencl_context);
        if (error == CL_SUCCESS) {
            made->opencl_context = opencl_context; /* closing releases it */
            status = retain_device(made);
        } else {
            status = fail_call(made, error, "clRetainContext", "clmoe_context_create_opencl");
        }
    }
    if (status != CLMOE_SUCCESS)
        return clmoe_context_fail_creation(made, options, status);
    *context = made;
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_opencl_create_owned(const clmoe_device_info *info, const clmoe_context_options *options, clmoe_context **context) {
    clmoe_context *made;
    clmoe_status status = open_library(options, &made);
    if (status == CLMOE_SUCCESS)
        status = adopt_device(made, options, info);
    if (status != CLMOE_SUCCESS)
        return clmoe_context_fail_creation(made, options, status);
    const struct clmoe_cl *cl = cl_of(made);
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)info->platform, 0};
    cl_int error;
    made->opencl_context = cl->clCreateContext(properties, 1, &info->device, NULL, NULL, &error);
    if (made->opencl_context == NULL)
        return clmoe_context_fail_creation(made, options, fail_call(made, error, "clCreateContext", info->name));
    status = retain_device(made);
    if (status == CLMOE_SUCCESS)
        status = queue_create(made, &made->queue);
    if (status != CLMOE_SUCCESS)
        return clmoe_context_fail_creation(made, options, status);
    *context = made;
    return CLMOE_SUCCESS;
}

void clmoe_opencl_list(clmoe_device_info *infos, size_t capacity, size_t *num_infos, int32_t *next_index) {
    struct clmoe_cl cl;
    char reason[160];
    if (clmoe_cl_load(&cl, reason, sizeof reason))
        clmoe_cl_discover(&cl, infos, capacity, num_infos, next_index);
}
