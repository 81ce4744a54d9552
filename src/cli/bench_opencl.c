#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- The functions, found at run time like the library's own -------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                                                                       \
    X(clGetDeviceInfo)                                                                                                                     \
    X(clCreateContext)                                                                                                                     \
    X(clReleaseContext)                                                                                                                    \
    X(clCreateCommandQueue)                                                                                                                \
    X(clReleaseCommandQueue)                                                                                                               \
    X(clCreateBuffer)                                                                                                                      \
    X(clReleaseMemObject)                                                                                                                  \
    X(clEnqueueWriteBuffer)                                                                                                                \
    X(clEnqueueReadBuffer)                                                                                                                 \
    X(clEnqueueCopyBuffer)                                                                                                                 \
    X(clCreateProgramWithSource)                                                                                                           \
    X(clBuildProgram)                                                                                                                      \
    X(clReleaseProgram)                                                                                                                    \
    X(clCreateKernel)                                                                                                                      \
    X(clReleaseKernel)                                                                                                                     \
    X(clSetKernelArg)                                                                                                                      \
    X(clEnqueueNDRangeKernel)                                                                                                              \
    X(clFinish)                                                                                                                            \
    X(clGetEventProfilingInfo)                                                                                                             \
    X(clReleaseEvent)

typedef struct functions {
#define MEMBER(function) __typeof__(&function) function;
    FUNCTIONS(MEMBER)
#undef MEMBER
} functions;

static bool find(void *library, const char *name, void *function, size_t function_bytes) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, function_bytes);
    return symbol != NULL;
}

static bool find_all(void *library, functions *cl) {
    bool is_whole = true;
#define FIND(function) is_whole = find(library, #function, &cl->function, sizeof cl->function) && is_whole;
    FUNCTIONS(FIND)
#undef FIND
    return is_whole;
}

static bool load(functions *cl) {
    if (find_all(RTLD_DEFAULT, cl)) {
        return true;
    }
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library && find_all(library, cl);
}

/* ---- Kernels -------------------------------------------------------------------------------------------------------------------- */

enum kernel_name {
    KERNEL_EMPTY,
    KERNEL_CLEAR,
    KERNEL_COUNT,
    KERNEL_PAD,
    KERNEL_FILL,
    KERNEL_PLACE_ATOMIC,
    KERNEL_COUNT_STABLE,
    KERNEL_PLACE_STABLE,
    KERNEL_HISTOGRAM,
    NUM_KERNELS
};

static const char *const kernel_names[NUM_KERNELS] = {"empty",        "clear",        "count",        "pad",      "fill",
                                                      "place_atomic", "count_stable", "place_stable", "histogram"};

enum { GROUP = 64 };

/* What engines hand-write. Atomic: pairs take their rows from a counter for each expert, in whatever order they come. Stable: one group of
 * 64 for each expert, which walks the whole list. In both, one work-item adds up the counts, and all fill the padding beforehand. */
static const char source[] =
    "kernel void empty(global uint *unused) {}\n"
    "kernel void clear(global uint *counters, uint n) {\n"
    "    const uint i = get_global_id(0);\n"
    "    if (i < n) counters[i] = 0;\n"
    "}\n"
    "kernel void count(global const int *ids, uint n, uint experts, global uint *counters) {\n"
    "    const uint i = get_global_id(0);\n"
    "    if (i < n && (uint)ids[i] < experts) atomic_inc(&counters[ids[i]]);\n"
    "}\n"
    "kernel void histogram(global const uint *samples, uint n, uint bins, global uint *counts) {\n"
    "    const uint i = get_global_id(0);\n"
    "    if (i < n && samples[i] < bins) atomic_inc(&counts[samples[i]]);\n"
    "}\n"
    "kernel void fill(global int *sorted, uint capacity, int value) {\n"
    "    const uint i = get_global_id(0);\n"
    "    if (i < capacity) sorted[i] = value;\n"
    "}\n"
    "kernel void pad(global uint *counters, uint experts, uint block, uint blocks, global int *expert_ids, global int *total) {\n"
    "    uint row = 0, b = 0;\n"
    "    for (uint e = 0; e < experts; ++e) {\n"
    "        const uint end = row + (counters[e] + block - 1) / block * block;\n"
    "        counters[experts + e] = row;\n"
    "        for (; b < end / block; ++b) expert_ids[b] = e;\n"
    "        row = end;\n"
    "    }\n"
    "    for (; b < blocks; ++b) expert_ids[b] = -1;\n"
    "    *total = row;\n"
    "}\n"
    "kernel void place_atomic(global const int *ids, uint n, uint experts, global uint *counters, global int *sorted) {\n"
    "    const uint i = get_global_id(0);\n"
    "    if (i < n && (uint)ids[i] < experts) sorted[atomic_inc(&counters[experts + ids[i]])] = i;\n"
    "}\n"
    "kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void count_stable(global const int *ids, uint n, uint experts, global uint *counters) {\n"
    "    local uint counts[64];\n"
    "    const uint lane = get_local_id(0), expert = get_group_id(0);\n"
    "    uint sum = 0;\n"
    "    for (uint base = 0; base < n; base += 64) {\n"
    "        const uint i = base + lane;\n"
    "        if (i < n && ids[i] == (int)expert) ++sum;\n"
    "    }\n"
    "    counts[lane] = sum;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    sum = 0;\n"
    "    for (uint j = 0; j < 64; ++j) sum += counts[j];\n"
    "    if (lane == 0) counters[expert] = sum;\n"
    "}\n"
    "kernel __attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "void place_stable(global const int *ids, uint n, uint experts, global const uint *counters, global int *sorted) {\n"
    "    local uint flags[64];\n"
    "    const uint lane = get_local_id(0), expert = get_group_id(0);\n"
    "    uint next = counters[experts + expert];\n"
    "    for (uint base = 0; base < n; base += 64) {\n"
    "        const uint i = base + lane;\n"
    "        flags[lane] = i < n && ids[i < n ? i : 0] == (int)expert;\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        uint before = 0, all = 0;\n"
    "        for (uint j = 0; j < 64; ++j) {\n"
    "            before += j < lane ? flags[j] : 0;\n"
    "            all += flags[j];\n"
    "        }\n"
    "        if (flags[lane] != 0) sorted[next + before] = i;\n"
    "        next += all;\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "}\n";

struct bench_opencl {
    functions cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue queues[2]; /* without and with a clock */
    cl_program program;         /* NULL until a kernel is needed */
    cl_kernel kernels[NUM_KERNELS];
};

/* ---- Opening -------------------------------------------------------------------------------------------------------------------- */

bench_opencl *bench_opencl_open(const clmoe_device_info *info, clmoe_status *status, char *reason, size_t reason_bytes) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)info->platform, 0};
    bench_opencl *opencl = calloc(1, sizeof *opencl);
    *status = CLMOE_OUT_OF_MEMORY;
    if (opencl && !load(&opencl->cl)) {
        *status = CLMOE_NO_OPENCL;
    } else if (opencl) {
        opencl->device = info->device;
        opencl->context = opencl->cl.clCreateContext(properties, 1, &opencl->device, NULL, NULL, status);
        for (int i = 0; i < 2 && *status == CL_SUCCESS; i++) {
            opencl->queues[i] = opencl->cl.clCreateCommandQueue(opencl->context, opencl->device, i ? CL_QUEUE_PROFILING_ENABLE : 0, status);
        }
    }
    if (*status != CL_SUCCESS) {
        snprintf(reason, reason_bytes, "%s", clmoe_status_name(*status));
        bench_opencl_close(opencl);
        return NULL;
    }
    return opencl;
}

void bench_opencl_close(bench_opencl *opencl) {
    if (!opencl) {
        return;
    }
    for (int i = 0; i < NUM_KERNELS; i++) {
        if (opencl->kernels[i]) {
            opencl->cl.clReleaseKernel(opencl->kernels[i]);
        }
    }
    if (opencl->program) {
        opencl->cl.clReleaseProgram(opencl->program);
    }
    for (int i = 0; i < 2; i++) {
        if (opencl->queues[i]) {
            opencl->cl.clReleaseCommandQueue(opencl->queues[i]);
        }
    }
    if (opencl->context) {
        opencl->cl.clReleaseContext(opencl->context);
    }
    free(opencl);
}

cl_context bench_opencl_context(const bench_opencl *opencl) {
    return opencl->context;
}

cl_command_queue bench_opencl_queue(const bench_opencl *opencl, bool has_clock) {
    return opencl->queues[has_clock];
}

uint64_t bench_opencl_cache_bytes(const bench_opencl *opencl) {
    cl_ulong bytes = 0;
    return opencl->cl.clGetDeviceInfo(opencl->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof bytes, &bytes, NULL) == CL_SUCCESS ? bytes
                                                                                                                                 : 0;
}

void bench_opencl_text(const bench_opencl *opencl, cl_device_info what, char *text, size_t text_bytes) {
    if (opencl->cl.clGetDeviceInfo(opencl->device, what, text_bytes, text, NULL) != CL_SUCCESS) {
        text[0] = 0;
    }
}

uint32_t bench_opencl_clock_mhz(const bench_opencl *opencl) {
    cl_uint mhz = 0;
    return opencl->cl.clGetDeviceInfo(opencl->device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof mhz, &mhz, NULL) == CL_SUCCESS ? mhz : 0;
}

static clmoe_status kernel_of(bench_opencl *opencl, enum kernel_name name, cl_kernel *kernel) {
    const char *text = source;
    cl_int status = CL_SUCCESS;
    if (!opencl->program) {
        opencl->program = opencl->cl.clCreateProgramWithSource(opencl->context, 1, &text, NULL, &status);
        if (status == CL_SUCCESS) {
            status = opencl->cl.clBuildProgram(opencl->program, 1, &opencl->device, "-cl-std=CL1.2", NULL, NULL);
        }
    }
    if (status == CL_SUCCESS && !opencl->kernels[name]) {
        opencl->kernels[name] = opencl->cl.clCreateKernel(opencl->program, kernel_names[name], &status);
    }
    *kernel = opencl->kernels[name];
    return status;
}

/* ---- Memory --------------------------------------------------------------------------------------------------------------------- */

clmoe_status bench_opencl_create(bench_opencl *opencl, size_t bytes, clmoe_buffer *buffer) {
    cl_int status = CL_SUCCESS;
    cl_mem mem = opencl->cl.clCreateBuffer(opencl->context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    *buffer = clmoe_buffer_of_mem(mem, 0, mem ? bytes : 0);
    return status;
}

clmoe_status bench_opencl_write(bench_opencl *opencl, clmoe_buffer buffer, const void *data, size_t bytes) {
    return opencl->cl.clEnqueueWriteBuffer(opencl->queues[0], buffer.mem, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
}

clmoe_status bench_opencl_read(bench_opencl *opencl, clmoe_buffer buffer, void *data, size_t bytes) {
    return opencl->cl.clEnqueueReadBuffer(opencl->queues[0], buffer.mem, CL_TRUE, 0, bytes, data, 0, NULL, NULL);
}

void bench_opencl_release(bench_opencl *opencl, clmoe_buffer buffer) {
    if (buffer.mem) {
        opencl->cl.clReleaseMemObject(buffer.mem);
    }
}

clmoe_status bench_opencl_copy(bench_opencl *opencl, cl_command_queue queue, clmoe_buffer from, clmoe_buffer to, cl_event *event) {
    return opencl->cl.clEnqueueCopyBuffer(queue, from.mem, to.mem, 0, 0, from.size_bytes, 0, NULL, event);
}

clmoe_status bench_opencl_finish(bench_opencl *opencl, cl_command_queue queue) {
    return opencl->cl.clFinish(queue);
}

/* ---- Launches ------------------------------------------------------------------------------------------------------------------- */

typedef struct launch {
    bench_opencl *opencl;
    cl_command_queue queue;
    cl_event *event;
    clmoe_status status;
} launch;

typedef struct argument {
    size_t bytes;
    const void *value;
} argument;

/* `items` work-items, rounded up to whole groups; 1 is one work-item alone. */
static void run(launch *l, enum kernel_name name, size_t items, const argument *arguments, cl_uint num_arguments, cl_event *event) {
    cl_kernel kernel = NULL;
    const size_t local = items == 1 ? 1 : GROUP, global = (items + local - 1) / local * local;
    if (l->status == CL_SUCCESS) {
        l->status = kernel_of(l->opencl, name, &kernel);
    }
    for (cl_uint i = 0; i < num_arguments && l->status == CL_SUCCESS; i++) {
        l->status = l->opencl->cl.clSetKernelArg(kernel, i, arguments[i].bytes, arguments[i].value);
    }
    if (l->status == CL_SUCCESS && items > 0) {
        l->status = l->opencl->cl.clEnqueueNDRangeKernel(l->queue, kernel, 1, NULL, &global, &local, 0, NULL, event);
    }
}

#define MEM(view)                                                                                                                          \
    { sizeof(cl_mem), &(view).mem }
#define WORD(word)                                                                                                                         \
    { sizeof(word), &(word) }
#define RUN(l, name, items, event, ...)                                                                                                    \
    do {                                                                                                                                   \
        const argument arguments[] = {__VA_ARGS__};                                                                                        \
        run(l, name, items, arguments, sizeof arguments / sizeof arguments[0], event);                                                     \
    } while (0)

clmoe_status bench_opencl_empty(bench_opencl *opencl, cl_command_queue queue, cl_event *event) {
    static const cl_mem none = NULL;
    launch l = {opencl, queue, event, CL_SUCCESS};
    RUN(&l, KERNEL_EMPTY, 1, event, {sizeof none, &none});
    return l.status;
}

uint32_t bench_naive_launches(const bench_workload *work, bench_naive how) {
    return work->op == BENCH_HISTOGRAM ? 2 : how == BENCH_NAIVE_ATOMIC ? 5 : 4;
}

clmoe_status bench_opencl_naive(bench_opencl *opencl, const bench_workload *work, bench_naive how, uint32_t capacity,
                                const clmoe_buffer *inputs, const clmoe_buffer *outputs, clmoe_buffer counters, cl_command_queue queue,
                                cl_event *event) {
    launch l = {opencl, queue, event, CL_SUCCESS};
    if (work->op == BENCH_HISTOGRAM) {
        RUN(&l, KERNEL_CLEAR, work->num_bins, NULL, MEM(outputs[0]), WORD(work->num_bins));
        RUN(&l, KERNEL_HISTOGRAM, work->num_items, event, MEM(inputs[0]), WORD(work->num_items), WORD(work->num_bins), MEM(outputs[0]));
        return l.status;
    }
    const uint32_t num_pairs = work->num_tokens * work->top_k, experts = work->num_experts, num_blocks = capacity / work->block_size;
    RUN(&l, KERNEL_FILL, capacity, NULL, MEM(outputs[0]), WORD(capacity), WORD(num_pairs));
    if (how == BENCH_NAIVE_ATOMIC) {
        RUN(&l, KERNEL_CLEAR, experts, NULL, MEM(counters), WORD(experts));
        RUN(&l, KERNEL_COUNT, num_pairs, NULL, MEM(inputs[0]), WORD(num_pairs), WORD(experts), MEM(counters));
    } else {
        RUN(&l, KERNEL_COUNT_STABLE, (size_t)experts * GROUP, NULL, MEM(inputs[0]), WORD(num_pairs), WORD(experts), MEM(counters));
    }
    RUN(&l, KERNEL_PAD, 1, NULL, MEM(counters), WORD(experts), WORD(work->block_size), WORD(num_blocks), MEM(outputs[1]), MEM(outputs[2]));
    if (how == BENCH_NAIVE_ATOMIC) {
        RUN(&l, KERNEL_PLACE_ATOMIC, num_pairs, event, MEM(inputs[0]), WORD(num_pairs), WORD(experts), MEM(counters), MEM(outputs[0]));
    } else {
        RUN(&l, KERNEL_PLACE_STABLE, (size_t)experts * GROUP, event, MEM(inputs[0]), WORD(num_pairs), WORD(experts), MEM(counters),
            MEM(outputs[0]));
    }
    return l.status;
}

/* ---- The driver's clock --------------------------------------------------------------------------------------------------------- */

static bool stamp(bench_opencl *opencl, cl_event event, cl_profiling_info what, cl_ulong *ns) {
    return opencl->cl.clGetEventProfilingInfo(event, what, sizeof *ns, ns, NULL) == CL_SUCCESS;
}

double bench_opencl_event_us(bench_opencl *opencl, cl_event start, cl_event end, double wall_us) {
    enum { LEAST_NS = 20 }; /* no launch is done sooner: such a clock counts stamps, not time */
    cl_ulong first = 0, last = 0;
    const bool is_told = stamp(opencl, start ? start : end, start ? CL_PROFILING_COMMAND_END : CL_PROFILING_COMMAND_START, &first) &&
                         stamp(opencl, end, CL_PROFILING_COMMAND_END, &last);
    if (start) {
        opencl->cl.clReleaseEvent(start);
    }
    opencl->cl.clReleaseEvent(end);
    if (!is_told || first == 0 || last < first + LEAST_NS) {
        return -1;
    }
    const double us = 1e-3 * (double)(last - first);
    return us <= wall_us ? us : -1;
}
