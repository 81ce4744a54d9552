/* context.h - what a context and a plan hold, for the library's own files. */
#ifndef CLMOE_CONTEXT_H
#define CLMOE_CONTEXT_H

#include "backend.h"
#include "tuning.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#if defined(__GNUC__)
#define CLMOE_PRINTF(text, values) __attribute__((format(printf, text, values)))
#else
#define CLMOE_PRINTF(text, values)
#endif

enum { CLMOE_ERROR_BYTES = 1024 };

struct clmoe_context {
    atomic_uint references; /* the user's one, and one for each plan */
    const struct clmoe_backend *backend;
    void *device; /* the backend's own state */
    clmoe_device_info info;
    struct clmoe_limits limits;
    char *cache_dir; /* NULL = none */
    cl_context opencl_context;
    cl_command_queue queue; /* only if the context owns one */

    pthread_mutex_t error_mutex;
    char error[CLMOE_ERROR_BYTES];
    uint64_t num_errors;
    char *build_log;
};

/* Keeps the text for clmoe_context_error() and returns the status. */
clmoe_status clmoe_fail(clmoe_context *context, clmoe_status status, const char *format, ...) CLMOE_PRINTF(3, 4);
/* Errors on the context so far. After failures that another way made good: forgets the text if the error of that number is still the last.
 */
uint64_t clmoe_num_errors(clmoe_context *context);
void clmoe_forget_error(clmoe_context *context, uint64_t number);
/* Takes over the log, malloc'ed; may be NULL. */
void clmoe_keep_build_log(clmoe_context *context, char *log);

void clmoe_context_retain(clmoe_context *context);
void clmoe_context_release(clmoe_context *context);

/* An empty context of a backend that still has to fill in device, info and limits. NULL: no memory. */
clmoe_context *clmoe_context_new(const struct clmoe_backend *backend, const clmoe_context_options *options);
/* Ends a creating call that failed: its text goes to options->error_text. Returns the status. */
clmoe_status clmoe_context_fail_creation(clmoe_context *context, const clmoe_context_options *options, clmoe_status status);

/* What the operators share; each operator's plan starts with it. */
struct clmoe_plan {
    clmoe_context *context;
    struct clmoe_kernels *kernels;
    struct clmoe_prepare_result program;
    uint32_t group_size;
    size_t workspace_bytes;
    char name[32];
    clmoe_status (*describe)(const clmoe_plan *plan, size_t num_items, clmoe_plan_info *info);
};

/* Allocates a plan of `bytes` that starts with a clmoe_plan, and compiles the set for groups of `group_size`. Where the kernels' own limit
 * lies below that, the limit is taken and noted; a size that the caller forced (wanted != 0) is refused then. */
clmoe_status clmoe_plan_new(clmoe_context *context, size_t bytes, const struct clmoe_kernel_set *set, uint32_t group_size, uint32_t wanted,
                            clmoe_plan **plan);

#endif
