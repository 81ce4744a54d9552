#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "fault_layer.h"

#include <CL/cl_layer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The calls ------------------------------------------------------------------------------------------------------------------ */
enum object { DEVICE, CONTEXT, QUEUE, BUFFER, PROGRAM, KERNEL, EVENT, NUM_OBJECTS, NOTHING };
static const char *const object_names[NUM_OBJECTS] = {"devices", "contexts", "queues", "buffers", "programs", "kernels", "events"};

/* X(name, what it counts, change of that, parameters, arguments): returns a status; a counted object is argument a. */
#define STATUS_CALLS(X)                                                                                                                    \
    X(clGetPlatformIDs, NOTHING, 0, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c))                                               \
    X(clGetPlatformInfo, NOTHING, 0, (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                \
    X(clGetDeviceIDs, NOTHING, 0, (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id * d, cl_uint * e), (a, b, c, d, e))         \
    X(clRetainDevice, DEVICE, 1, (cl_device_id a), (a))                                                                                    \
    X(clReleaseDevice, DEVICE, -1, (cl_device_id a), (a))                                                                                  \
    X(clRetainContext, CONTEXT, 1, (cl_context a), (a))                                                                                    \
    X(clReleaseContext, CONTEXT, -1, (cl_context a), (a))                                                                                  \
    X(clGetContextInfo, NOTHING, 0, (cl_context a, cl_context_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                      \
    X(clRetainCommandQueue, QUEUE, 1, (cl_command_queue a), (a))                                                                           \
    X(clReleaseCommandQueue, QUEUE, -1, (cl_command_queue a), (a))                                                                         \
    X(clGetCommandQueueInfo, NOTHING, 0, (cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))     \
    X(clFlush, NOTHING, 0, (cl_command_queue a), (a))                                                                                      \
    X(clFinish, NOTHING, 0, (cl_command_queue a), (a))                                                                                     \
    X(clRetainMemObject, BUFFER, 1, (cl_mem a), (a))                                                                                       \
    X(clReleaseMemObject, BUFFER, -1, (cl_mem a), (a))                                                                                     \
    X(clGetMemObjectInfo, NOTHING, 0, (cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                            \
    X(clRetainProgram, PROGRAM, 1, (cl_program a), (a))                                                                                    \
    X(clReleaseProgram, PROGRAM, -1, (cl_program a), (a))                                                                                  \
    X(clBuildProgram, NOTHING, 0,                                                                                                          \
      (cl_program a, cl_uint b, const cl_device_id *c, const char *d, void(CL_CALLBACK * e)(cl_program, void *), void *f),                 \
      (a, b, c, d, e, f))                                                                                                                  \
    X(clGetProgramInfo, NOTHING, 0, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                      \
    X(clGetProgramBuildInfo, NOTHING, 0, (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),            \
      (a, b, c, d, e, f))                                                                                                                  \
    X(clRetainKernel, KERNEL, 1, (cl_kernel a), (a))                                                                                       \
    X(clReleaseKernel, KERNEL, -1, (cl_kernel a), (a))                                                                                     \
    X(clSetKernelArg, NOTHING, 0, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))                                         \
    X(clGetKernelInfo, NOTHING, 0, (cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                         \
    X(clWaitForEvents, NOTHING, 0, (cl_uint a, const cl_event *b), (a, b))                                                                 \
    X(clGetEventInfo, NOTHING, 0, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e), (a, b, c, d, e))                            \
    X(clRetainEvent, EVENT, 1, (cl_event a), (a))                                                                                          \
    X(clReleaseEvent, EVENT, -1, (cl_event a), (a))                                                                                        \
    X(clSetUserEventStatus, NOTHING, 0, (cl_event a, cl_int b), (a, b))

/* X(type, name, what it is, parameters, arguments): returns an object, and a status through the last parameter. */
#define CREATE_CALLS(X)                                                                                                                    \
    X(cl_context, clCreateContext, CONTEXT,                                                                                                \
      (const cl_context_properties *a, cl_uint b, const cl_device_id *c,                                                                   \
       void(CL_CALLBACK * d)(const char *, const void *, size_t, void *), void *e, cl_int *status),                                        \
      (a, b, c, d, e, status))                                                                                                             \
    X(cl_command_queue, clCreateCommandQueue, QUEUE, (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * status),       \
      (a, b, c, status))                                                                                                                   \
    X(cl_mem, clCreateBuffer, BUFFER, (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *status), (a, b, c, d, status))             \
    X(cl_mem, clCreateSubBuffer, BUFFER, (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *status),               \
      (a, b, c, d, status))                                                                                                                \
    X(cl_program, clCreateProgramWithSource, PROGRAM, (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *status),          \
      (a, b, c, d, status))                                                                                                                \
    X(cl_program, clCreateProgramWithBinary, PROGRAM,                                                                                      \
      (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e, cl_int *f, cl_int *status),               \
      (a, b, c, d, e, f, status))                                                                                                          \
    X(cl_kernel, clCreateKernel, KERNEL, (cl_program a, const char *b, cl_int *status), (a, b, status))                                    \
    X(cl_event, clCreateUserEvent, EVENT, (cl_context a, cl_int * status), (a, status))

/* X(name, parameters, arguments): a command, with an event, if one is asked for, through the last parameter. */
#define COMMAND_CALLS(X)                                                                                                                   \
    X(clEnqueueWriteBuffer,                                                                                                                \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g, const cl_event *h, cl_event *event),         \
      (a, b, c, d, e, f, g, h, event))                                                                                                     \
    X(clEnqueueReadBuffer,                                                                                                                 \
      (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g, const cl_event *h, cl_event *event),               \
      (a, b, c, d, e, f, g, h, event))                                                                                                     \
    X(clEnqueueNDRangeKernel,                                                                                                              \
      (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e, const size_t *f, cl_uint g, const cl_event *h,        \
       cl_event *event),                                                                                                                   \
      (a, b, c, d, e, f, g, h, event))                                                                                                     \
    X(clEnqueueMarkerWithWaitList, (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *event), (a, b, c, event))

#define STATUS_INDEX(name, object, change, parameters, arguments) CALL_##name,
#define CREATE_INDEX(type, name, object, parameters, arguments) CALL_##name,
#define COMMAND_INDEX(name, parameters, arguments) CALL_##name,
enum call {
    STATUS_CALLS(STATUS_INDEX) CREATE_CALLS(CREATE_INDEX) COMMAND_CALLS(COMMAND_INDEX) CALL_clGetDeviceInfo,
    CALL_clGetKernelWorkGroupInfo,
    NUM_CALLS
};
#define STATUS_NAME(name, object, change, parameters, arguments) #name,
#define CREATE_NAME(type, name, object, parameters, arguments) #name,
#define COMMAND_NAME(name, parameters, arguments) #name,
static const char *const call_names[NUM_CALLS] = {
    STATUS_CALLS(STATUS_NAME) CREATE_CALLS(CREATE_NAME) COMMAND_CALLS(COMMAND_NAME) "clGetDeviceInfo", "clGetKernelWorkGroupInfo"};

/* ---- State, all of it behind one mutex ------------------------------------------------------------------------------------------ */
enum { MAX_FAULTS = 16, MAX_HELD = 4096 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const struct _cl_icd_dispatch *next; /* the loader, or the next layer */
static bool is_watching = true;
static unsigned counts[NUM_CALLS], num_faults, num_failed, num_misuses;
static struct {
    unsigned call, number;
    cl_int code;
} faults[MAX_FAULTS];

static struct {
    const void *object;
    enum object kind;
    unsigned references;
} held[MAX_HELD];
static size_t num_held;
static size_t device_local_bytes = SIZE_MAX, device_group_size = SIZE_MAX, kernel_group_size = SIZE_MAX;

/* Counts the call. True: it is to fail, with *code. */
static bool must_fail(enum call call, cl_int *code) {
    bool fails = false;
    pthread_mutex_lock(&mutex);
    if (is_watching) {
        ++counts[call];
        for (unsigned i = 0; i < num_faults && !fails; ++i)
            if (faults[i].call == call && faults[i].number == counts[call]) {
                *code = faults[i].code;
                fails = true;
            }
        num_failed += fails;
    }
    pthread_mutex_unlock(&mutex);
    return fails;
}

static size_t find_held(enum object kind, const void *object) {
    size_t i = 0;
    while (i < num_held && !(held[i].object == object && held[i].kind == kind))
        ++i;
    return i;
}

/* False: a release of what nobody holds. */
static bool change_references(enum object kind, const void *object, int change) {
    bool is_right = true;
    pthread_mutex_lock(&mutex);
    const size_t i = find_held(kind, object);
    if (change > 0 && i < num_held) {
        ++held[i].references;
    } else if (change > 0) {
        if (num_held == MAX_HELD)
            abort();
        held[num_held].object = object;
        held[num_held].kind = kind;
        held[num_held++].references = 1;
    } else if (i == num_held) {
        ++num_misuses;
        is_right = false;
    } else if (--held[i].references == 0) {
        held[i] = held[--num_held];
    }
    pthread_mutex_unlock(&mutex);
    return is_right;
}

/* ---- The calls, between the program and the loader ------------------------------------------------------------------------------ */
#define STATUS_CALL(name, object, change, parameters, arguments)                                                                           \
    static cl_int CL_API_CALL layer_##name parameters {                                                                                    \
        cl_int code = CL_SUCCESS;                                                                                                          \
        const bool fails = must_fail(CALL_##name, &code);                                                                                  \
        if (fails && (change) >= 0 && CALL_##name != CALL_clBuildProgram)                                                                  \
            return code;                                                                                                                   \
        if ((change) < 0 && !change_references(object, (const void *)(uintptr_t)a, change))                                                \
            return CL_INVALID_VALUE;                                                                                                       \
        const cl_int status = next->name arguments;                                                                                        \
        if ((change) > 0 && status == CL_SUCCESS)                                                                                          \
            change_references(object, (const void *)(uintptr_t)a, change);                                                                 \
        return fails ? code : status;                                                                                                      \
    }
STATUS_CALLS(STATUS_CALL)

#define CREATE_CALL(type, name, object, parameters, arguments)                                                                             \
    static type CL_API_CALL layer_##name parameters {                                                                                      \
        cl_int code = CL_SUCCESS;                                                                                                          \
        if (must_fail(CALL_##name, &code)) {                                                                                               \
            if (status != NULL)                                                                                                            \
                *status = code;                                                                                                            \
            return NULL;                                                                                                                   \
        }                                                                                                                                  \
        type const made = next->name arguments;                                                                                            \
        if (made != NULL)                                                                                                                  \
            change_references(object, made, 1);                                                                                            \
        return made;                                                                                                                       \
    }
CREATE_CALLS(CREATE_CALL)

#define COMMAND_CALL(name, parameters, arguments)                                                                                          \
    static cl_int CL_API_CALL layer_##name parameters {                                                                                    \
        cl_int code = CL_SUCCESS;                                                                                                          \
        if (must_fail(CALL_##name, &code))                                                                                                 \
            return code;                                                                                                                   \
        const cl_int status = next->name arguments;                                                                                        \
        if (status == CL_SUCCESS && event != NULL)                                                                                         \
            change_references(EVENT, *event, 1);                                                                                           \
        return status;                                                                                                                     \
    }
COMMAND_CALLS(COMMAND_CALL)

static void limit_sizes(void *value, size_t value_bytes, size_t limit) {
    for (size_t i = 0; value != NULL && i < value_bytes / sizeof(size_t); ++i) {
        size_t size;
        memcpy(&size, (char *)value + i * sizeof size, sizeof size);
        size = size < limit ? size : limit;
        memcpy((char *)value + i * sizeof size, &size, sizeof size);
    }
}

static cl_int CL_API_CALL layer_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *value, size_t *value_bytes) {
    cl_int code = CL_SUCCESS;
    size_t length = 0;
    if (must_fail(CALL_clGetDeviceInfo, &code))
        return code;
    const cl_int status = next->clGetDeviceInfo(device, what, bytes, value, &length);
    if (value_bytes != NULL)
        *value_bytes = length;
    if (status == CL_SUCCESS && what == CL_DEVICE_LOCAL_MEM_SIZE) /* a cl_ulong */
        limit_sizes(value, length, device_local_bytes);
    if (status == CL_SUCCESS && (what == CL_DEVICE_MAX_WORK_GROUP_SIZE || what == CL_DEVICE_MAX_WORK_ITEM_SIZES))
        limit_sizes(value, length, device_group_size);
    return status;
}
_Static_assert(sizeof(cl_ulong) == sizeof(size_t), "limit_sizes() serves both");

static cl_int CL_API_CALL layer_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                                         size_t bytes, void *value, size_t *value_bytes) {
    cl_int code = CL_SUCCESS;
    if (must_fail(CALL_clGetKernelWorkGroupInfo, &code))
        return code;
    const cl_int status = next->clGetKernelWorkGroupInfo(kernel, device, what, bytes, value, value_bytes);
    if (status == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE)
        limit_sizes(value, sizeof(size_t), kernel_group_size);
    return status;
}

/* ---- For the test --------------------------------------------------------------------------------------------------------------- */
void fault_layer_reset(void) {
    pthread_mutex_lock(&mutex);
    memset(counts, 0, sizeof counts);
    num_faults = num_failed = 0;
    pthread_mutex_unlock(&mutex);
}

void fault_layer_watch(bool watches) {
    pthread_mutex_lock(&mutex);
    is_watching = watches;
    pthread_mutex_unlock(&mutex);
}

bool fault_layer_fail(const char *name, unsigned number, cl_int code) {
    unsigned call = 0;
    while (call < NUM_CALLS && strcmp(call_names[call], name) != 0)
        ++call;
    pthread_mutex_lock(&mutex);
    const bool is_taken = call < NUM_CALLS && num_faults < MAX_FAULTS;
    if (is_taken) {
        faults[num_faults].call = call;
        faults[num_faults].number = number;
        faults[num_faults++].code = code;
    }
    pthread_mutex_unlock(&mutex);
    return is_taken;
}

unsigned fault_layer_num_failed(void) {
    pthread_mutex_lock(&mutex);
    const unsigned number = num_failed;
    pthread_mutex_unlock(&mutex);
    return number;
}

unsigned fault_layer_num_calls(void) {
    return NUM_CALLS;
}

const char *fault_layer_name(unsigned call) {
    return call_names[call];
}

unsigned fault_layer_count(unsigned call) {
    pthread_mutex_lock(&mutex);
    const unsigned count = counts[call];
    pthread_mutex_unlock(&mutex);
    return count;
}

unsigned fault_layer_references(char *text, size_t text_bytes) {
    unsigned of_kind[NUM_OBJECTS] = {0}, total = 0;
    size_t used = 0;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < num_held; ++i)
        of_kind[held[i].kind] += held[i].references;
    pthread_mutex_unlock(&mutex);
    text[0] = '\0';
    for (unsigned kind = 0; kind < NUM_OBJECTS; ++kind) {
        total += of_kind[kind];
        if (of_kind[kind] != 0 && used < text_bytes)
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%u %s", used == 0 ? "" : ", ", of_kind[kind], object_names[kind]);
    }
    return total;
}

unsigned fault_layer_misuses(void) {
    pthread_mutex_lock(&mutex);
    const unsigned number = num_misuses;
    pthread_mutex_unlock(&mutex);
    return number;
}

/* ---- For the loader ------------------------------------------------------------------------------------------------------------- */
static void read_faults(const char *text) {
    while (text != NULL && *text != '\0') {
        char name[64];
        unsigned number = 0;
        int code = 0, length = 0;
        if (sscanf(text, "%63[^:]:%u:%d%n", name, &number, &code, &length) != 3 || !fault_layer_fail(name, number, code)) {
            fprintf(stderr, "fault layer: CLMOE_LAYER_FAIL: not understood from here on: %s\n", text);
            exit(2);
        }
        text += length;
        text += *text == ',';
    }
}

static size_t read_limit(const char *name) {
    const char *const text = getenv(name);
    return text == NULL || *text == '\0' ? SIZE_MAX : strtoull(text, NULL, 10);
}

static void report(void) {
    char text[200];
    const unsigned references = fault_layer_references(text, sizeof text);
    fprintf(stderr, "fault layer: %u calls failed; %u references left%s%s; %u misuses\n", num_failed, references,
            references == 0 ? "" : ": ", text, num_misuses);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void *value, size_t *value_bytes) {
    static const char name[] = "clmoe fault layer";
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *const fact = what == CL_LAYER_NAME ? (const void *)name : &version;
    const size_t fact_bytes = what == CL_LAYER_NAME ? sizeof name : sizeof version;
    if ((what != CL_LAYER_NAME && what != CL_LAYER_API_VERSION) || (value != NULL && bytes < fact_bytes))
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, fact, fact_bytes);
    if (value_bytes != NULL)
        *value_bytes = fact_bytes;
    return CL_SUCCESS;
}

/* The loader's table may be shorter or longer than this header's. */
CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries, const struct _cl_icd_dispatch *target, cl_uint *num_entries_made,
                                            const struct _cl_icd_dispatch **made) {
    static struct _cl_icd_dispatch table;
    const size_t target_bytes = num_entries * sizeof(void *);
    memcpy(&table, target, target_bytes < sizeof table ? target_bytes : sizeof table);
    next = target;
#define SET_STATUS(name, object, change, parameters, arguments) table.name = layer_##name;
#define SET_CREATE(type, name, object, parameters, arguments) table.name = layer_##name;
#define SET_COMMAND(name, parameters, arguments) table.name = layer_##name;
    STATUS_CALLS(SET_STATUS)
    CREATE_CALLS(SET_CREATE)
    COMMAND_CALLS(SET_COMMAND)
    table.clGetDeviceInfo = layer_clGetDeviceInfo;
    table.clGetKernelWorkGroupInfo = layer_clGetKernelWorkGroupInfo;
    *num_entries_made = target_bytes < sizeof table ? num_entries : (cl_uint)(sizeof table / sizeof(void *));
    *made = &table;

    read_faults(getenv("CLMOE_LAYER_FAIL"));
    device_local_bytes = read_limit("CLMOE_LAYER_LOCAL_BYTES");
    device_group_size = read_limit("CLMOE_LAYER_GROUP_SIZE");
    kernel_group_size = read_limit("CLMOE_LAYER_KERNEL_GROUP_SIZE");
    if (getenv("CLMOE_LAYER_REPORT") != NULL)
        atexit(report);
    return CL_SUCCESS;
}
