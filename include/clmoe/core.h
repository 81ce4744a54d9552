/* clmoe/core.h - what every operator shares: status, device, context, buffer view, plan.
 *
 * The life of a call:
 *
 *     context   a device and how to run on it       created once
 *     plan      one operator, shaped and compiled   created once per shape
 *     enqueue   a few kernel launches               as often as you like
 *
 * Creating may compile, allocate and take seconds. Enqueueing does none of that: it checks sizes, sets kernel arguments and launches.
 * It never allocates device memory, copies, fills, reads back, waits or flushes, and keeps nothing between calls.
 *
 * Nothing in the library prints, exits, aborts, needs a call before main or leaves anything to do at exit. There are no globals.
 */
#ifndef CLMOE_CORE_H
#define CLMOE_CORE_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(CLMOE_STATIC)
#define CLMOE_API __attribute__((visibility("default")))
#else
#define CLMOE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CLMOE_VERSION_MAJOR 0
#define CLMOE_VERSION_MINOR 1
#define CLMOE_VERSION_PATCH 0

#define CLMOE_VERSION_TEXT "0.1.0"

/* CLMOE_VERSION_TEXT of the library that is running. */
CLMOE_API const char *clmoe_version(void);

/* 16 hexadecimal digits, the start of the SHA-256 of the kernels' sources in it: libraries that tell the same run the same kernels. */
CLMOE_API const char *clmoe_kernels_hash(void);

/* ---- Status ---------------------------------------------------------------------------------------------------------------------
 * 0 is success. An error of an OpenCL call is returned unchanged (-1 ... -1099). Ours start at -20001.
 * The text of an error, with the argument and the limit that it broke, is kept by the context: clmoe_context_error(). */
typedef int32_t clmoe_status;

#define CLMOE_SUCCESS 0
#define CLMOE_INVALID_ARGUMENT (-20001) /* an argument is wrong; the text names it and its limit */
#define CLMOE_OUT_OF_MEMORY (-20002)    /* host memory */
#define CLMOE_NO_DEVICE (-20003)        /* no such device; the text lists what exists */
#define CLMOE_UNSUPPORTED (-20004)      /* legal, but this device cannot do it; the text says why */
#define CLMOE_NO_OPENCL (-20005)        /* no OpenCL loader library on this machine */
#define CLMOE_WRONG_RESULT (-20006)     /* the self-test: this device does not compute what it should */

/* Name of a status, OpenCL's and ours: "CLMOE_INVALID_ARGUMENT", "CL_OUT_OF_RESOURCES". Never NULL. */
CLMOE_API const char *clmoe_status_name(clmoe_status status);

/* ---- Devices --------------------------------------------------------------------------------------------------------------------
 * Which kernels run. Both classes give the same bits.
 *   serial    one work-item per group over a contiguous chunk, no barrier, no local memory: CPU devices, and the native device
 *   parallel  work-groups with local memory and barriers: GPUs; runs on CPU OpenCL when forced */
typedef enum clmoe_class { CLMOE_CLASS_AUTO = 0, CLMOE_CLASS_SERIAL = 1, CLMOE_CLASS_PARALLEL = 2 } clmoe_class;

typedef enum clmoe_backend_kind { CLMOE_BACKEND_NATIVE = 0, CLMOE_BACKEND_OPENCL = 1 } clmoe_backend_kind;

typedef struct clmoe_device_info {
    clmoe_backend_kind backend;
    clmoe_class kernel_class;  /* what CLMOE_CLASS_AUTO means here, or what the context was created with */
    int32_t index;             /* what a selector string calls it: "0", "1", ...; -1 if it can't be used or was not chosen by selector */
    int32_t platform_index;    /* "P" and "D" of the selector "P:D"; -1 for the native device */
    int32_t device_index;      /* -1 also for a platform without devices */
    cl_platform_id platform;   /* NULL for the native device */
    cl_device_id device;       /* NULL for the native device */
    cl_device_type type;       /* CL_DEVICE_TYPE_CPU, _GPU, ... */
    uint32_t vendor_id;        /* PCI vendor: 0x10de NVIDIA, 0x1002 AMD, 0x8086 Intel */
    uint32_t compute_units;    /* native: threads */
    uint32_t max_group_size;   /* work-items, along the first dimension */
    uint64_t local_bytes;      /* local memory of a group */
    uint64_t global_bytes;     /* global memory; 0 where unknown */
    uint64_t max_buffer_bytes; /* largest single allocation; 0 where unknown */
    char name[128];
    char platform_name[128];
    char platform_version[128];
    char device_version[128]; /* "OpenCL 3.0 ..." */
    char driver_version[128];
    char skipped[160]; /* empty if usable, else the reason why not */
} clmoe_device_info;

/* Every platform and device in the driver's order, the ones that can't be used with the reason, the native device last.
 *   infos     [capacity], filled up to capacity; may be NULL if capacity is 0
 *   num_infos how many there are; at least 1
 * Succeeds without any OpenCL on the machine. Err: CLMOE_INVALID_ARGUMENT (num_infos NULL). */
CLMOE_API clmoe_status clmoe_devices_list(clmoe_device_info *infos, size_t capacity, size_t *num_infos);

/* ---- Context --------------------------------------------------------------------------------------------------------------------
 * A device and what is compiled for it. Any number of contexts may live at once, on the same device or not. One context may be used
 * by many threads at once. A plan keeps its context alive, so the order of destruction does not matter. */
typedef struct clmoe_context clmoe_context;

typedef struct clmoe_context_options {
    clmoe_class kernel_class; /* AUTO: serial on CPU devices, parallel elsewhere; the native device runs serial only */
    uint32_t num_threads;     /* native: threads that may run, the caller's included; 0 = one per available core; at most 256, and what
                                 the system lets start: clmoe_context_describe() tells. After a fork the child runs on its own thread */
    const char *cache_dir;    /* keeps compiled programs between processes. Created with mode 0700; must belong to this user and be
                                 writable by nobody else, or it is not used. NULL or "" = no cache */
    char *error_text;         /* receives the text of an error of the creating call itself; may be NULL */
    size_t error_text_bytes;
} clmoe_context_options;

/* A context on a device named by a string; it creates and owns a cl_context and an in-order queue.
 *   selector  NULL or "auto"   the first GPU, else the native device
 *             "native"         the native device
 *             "2"              that index of clmoe_devices_list()
 *             "0:1"            platform 0, device 1
 *             other text       the first usable device whose platform name or device name contains it, case ignored
 *   options   NULL = all zero
 * What was chosen: clmoe_context_describe(). Nothing is ever replaced in silence: a selector that names no usable device fails.
 * Err: CLMOE_NO_DEVICE, CLMOE_INVALID_ARGUMENT, CLMOE_UNSUPPORTED, OpenCL's codes. */
CLMOE_API clmoe_status clmoe_context_create(const char *selector, const clmoe_context_options *options, clmoe_context **context);

/* A context on the native device: this processor, through the C compiler, no OpenCL at all. */
CLMOE_API clmoe_status clmoe_context_create_native(const clmoe_context_options *options, clmoe_context **context);

/* A context on the caller's own OpenCL context and device. Retains both. The OpenCL library that
 * the process shows is used, else libOpenCL.so.1. */
CLMOE_API clmoe_status clmoe_context_create_opencl(cl_context opencl_context, cl_device_id device, const clmoe_context_options *options,
                                                   clmoe_context **context);

/* NULL is fine. Waits for nothing: commands that are still queued go on. */
CLMOE_API void clmoe_context_destroy(clmoe_context *context);

/* The device, its limits and the class in use. */
CLMOE_API clmoe_status clmoe_context_describe(const clmoe_context *context, clmoe_device_info *info);

/* What the context owns or was given; NULL on the native device, and no queue for a caller's context. */
CLMOE_API cl_context clmoe_context_opencl_context(const clmoe_context *context);
CLMOE_API cl_command_queue clmoe_context_queue(const clmoe_context *context);

/* Copies the text of the last error on this context, from whichever thread, always ended by 0; "" if there was none.
 * Returns the bytes that the whole text needs, its 0 included. text may be NULL if text_bytes is 0. */
CLMOE_API size_t clmoe_context_error(const clmoe_context *context, char *text, size_t text_bytes);

/* The same for the compiler's log of the last program that failed to build. */
CLMOE_API size_t clmoe_context_build_log(const clmoe_context *context, char *text, size_t text_bytes);

/* ---- Buffers --------------------------------------------------------------------------------------------------------------------
 * A borrowed view of memory: where it starts and how long it is. On an OpenCL context `mem` holds the memory, on the native device
 * `host` does. All zero = absent. The offset must be a multiple of the element size; no other alignment is asked for. */
typedef struct clmoe_buffer {
    cl_mem mem;
    void *host;
    size_t offset_bytes;
    size_t size_bytes;
} clmoe_buffer;

static inline clmoe_buffer clmoe_buffer_of_mem(cl_mem mem, size_t offset_bytes, size_t size_bytes) {
    clmoe_buffer view;
    view.mem = mem;
    view.host = NULL;
    view.offset_bytes = offset_bytes;
    view.size_bytes = size_bytes;
    return view;
}

static inline clmoe_buffer clmoe_buffer_of_host(void *host, size_t size_bytes) {
    clmoe_buffer view;
    view.mem = NULL;
    view.host = host;
    view.offset_bytes = 0;
    view.size_bytes = size_bytes;
    return view;
}

/* For inputs: they are never written. */
static inline clmoe_buffer clmoe_buffer_of_const(const void *host, size_t size_bytes) {
    return clmoe_buffer_of_host((void *)(uintptr_t)host, size_bytes);
}

/* Memory of the context's device, for programs without an OpenCL of their own: the same four calls serve every device.
 * Write and read move `bytes` at the start of the view, and have finished when they return. They use the context's own queue,
 * so they need a context from clmoe_context_create() or the native one. Size 0 gives an absent view, and succeeds. */
CLMOE_API clmoe_status clmoe_buffer_create(clmoe_context *context, size_t size_bytes, clmoe_buffer *buffer);
CLMOE_API clmoe_status clmoe_buffer_write(clmoe_context *context, clmoe_buffer buffer, const void *data, size_t bytes);
CLMOE_API clmoe_status clmoe_buffer_read(clmoe_context *context, clmoe_buffer buffer, void *data, size_t bytes);
CLMOE_API void clmoe_buffer_destroy(clmoe_context *context, clmoe_buffer buffer);

/* ---- Plans ----------------------------------------------------------------------------------------------------------------------
 * An operator, shaped and compiled for one context. Immutable, so many threads may enqueue one plan at once, each call with a
 * workspace of its own (on OpenCL the plan holds a lock for the few microseconds in which kernel arguments are set). Creating and
 * destroying plans of one context wait for each other, seconds while one compiles; enqueueing waits for neither. */
typedef struct clmoe_plan clmoe_plan;

/* How a call may be carried out. Speed only: every setting gives the same bits. Zero = the library chooses. */
typedef struct clmoe_tuning {
    uint32_t num_launches; /* 1, 2 or 3; route_align: 1 ... 4 */
    uint32_t group_size;   /* work-items in a group of the parallel class, 1 ... the kernels' limit; halved until local memory is enough */
    uint32_t num_groups;   /* groups among which the items are shared out, 1 ... 65536 */
} clmoe_tuning;

typedef enum clmoe_program_origin {
    CLMOE_PROGRAM_NATIVE = 0, /* compiled with the library */
    CLMOE_PROGRAM_BUILT = 1,  /* compiled from source by the driver, for this plan */
    CLMOE_PROGRAM_CACHED = 2, /* read from cache_dir */
    CLMOE_PROGRAM_SHARED = 3  /* already compiled in this context for an earlier plan */
} clmoe_program_origin;

typedef struct clmoe_plan_info {
    clmoe_backend_kind backend;
    clmoe_class kernel_class;
    clmoe_program_origin program_origin;
    double program_ms;        /* time spent on the program by plan creation */
    uint32_t num_launches;    /* kernel launches of such a call */
    uint32_t group_size;      /* work-items in a group */
    uint32_t num_groups;      /* groups of the launch that writes the result */
    uint64_t bytes_read;      /* global memory traffic of such a call, required inputs and outputs only, */
    uint64_t bytes_written;   /*   without optional buffers; caches may save some of the reads */
    uint64_t workspace_bytes; /* what clmoe_plan_workspace_bytes() says */
    uint64_t local_bytes;     /* local memory of a group */
    char name[32];            /* operator and variant: "align i32" */
    char note[192]; /* what the cache did if it could not be used, or which smaller variant was taken and why; "" = nothing to tell */
} clmoe_plan_info;

/* Scratch memory that each call needs, in bytes; 0 = none. Its contents matter neither before nor after a call. */
CLMOE_API size_t clmoe_plan_workspace_bytes(const clmoe_plan *plan);

/* How a call with `num_items` items (align and route: tokens) would be carried out. Err: CLMOE_INVALID_ARGUMENT (num_items over the
 * plan's), CLMOE_UNSUPPORTED (such a call would be refused, see the operator). */
CLMOE_API clmoe_status clmoe_plan_describe(const clmoe_plan *plan, size_t num_items, clmoe_plan_info *info);

/* NULL is fine. Commands that are still queued go on. */
CLMOE_API void clmoe_plan_destroy(clmoe_plan *plan);

/* ---- Self-test ------------------------------------------------------------------------------------------------------------------
 * Runs every operator in every variant that differs, by each number of launches, group and group size that the device takes, on made-up
 * inputs, and compares all bytes of all outputs, and what lies around them, with the one right answer. For the owner of a new device, and
 * for engines that would refuse a bad driver when they start. Takes as long as compiling does: seconds; no more than 64 MiB. */
#define CLMOE_SELFTEST_MAX_ROWS 16

typedef struct clmoe_selftest_row {
    char name[16];        /* operator: "align" */
    uint32_t num_calls;   /* carried out, or failed */
    uint32_t num_wrong;   /* of these: a wrong bit, a touched input or neighbour, a failing OpenCL call */
    uint32_t num_refused; /* ways that this device was asked for and cannot do: no fault */
    double ms;            /* compiling included */
    uint64_t hash;        /* of the results */
} clmoe_selftest_row;

typedef struct clmoe_selftest_report {
    uint64_t hash; /* of all results: the same on every device, in every class, with this version of the library */
    uint32_t num_calls, num_wrong, num_refused;
    double ms;
    char first_wrong[256]; /* "" = none */
    uint32_t num_rows;
    clmoe_selftest_row rows[CLMOE_SELFTEST_MAX_ROWS];
} clmoe_selftest_report;

/* Uses a queue of its own, and waits for it. report may be NULL.
 * Err: CLMOE_WRONG_RESULT (the text is first_wrong), CLMOE_OUT_OF_MEMORY, OpenCL's codes if there was no queue or no buffer for inputs. */
CLMOE_API clmoe_status clmoe_context_selftest(clmoe_context *context, clmoe_selftest_report *report);

#ifdef __cplusplus
}
#endif
#endif
