/* backend.h - the seam between operators and devices.
 *
 * An operator says which kernels it needs (prepare, at plan creation) and which launches a call is made of (enqueue). A backend knows how
 * a kernel runs here; it knows no operator, no shape and no rule.
 */
#ifndef CLMOE_BACKEND_H
#define CLMOE_BACKEND_H

#include "clmoe/core.h"

#include <stdbool.h>

enum { CLMOE_MAX_KERNELS = 8, CLMOE_MAX_ARGUMENTS = 24 };
enum { CLMOE_MAX_STAGES = 24 }; /* of a call: three for each of the eight passes of a 64-bit sort */

/* What an operator needs compiled. Strings live as long as the library. */
struct clmoe_kernel_set {
    const char *op;                              /* "align": cl/align.h and cl/<class>/align.cl */
    const char *parts[2];                        /* other files that come before that: an operator's, or "sort_items"; or NULL */
    const char *variant;                         /* "i32": the native device picks the kernel <name>_<variant> */
    const char *defines;                         /* the same choice as source text for OpenCL: "#define ID int\n..." */
    const char *kernel_names[CLMOE_MAX_KERNELS]; /* up to the first NULL */
};

enum clmoe_argument_kind { CLMOE_ARGUMENT_BUFFER, CLMOE_ARGUMENT_BYTES, CLMOE_ARGUMENT_LOCAL };

struct clmoe_argument {
    enum clmoe_argument_kind kind;
    size_t bytes;        /* BYTES, LOCAL: how many */
    const void *data;    /* BYTES: copied before enqueue returns */
    clmoe_buffer buffer; /* BUFFER: its memory alone; kernels add the view's offset. Absent is fine */
};

/* One launch. Stage i + 1 sees what stage i wrote. */
struct clmoe_stage {
    unsigned kernel; /* index in kernel_names */
    uint32_t num_groups, group_size;
    unsigned num_arguments;
    struct clmoe_argument arguments[CLMOE_MAX_ARGUMENTS];
};

struct clmoe_queue_tail {
    cl_command_queue queue;
    cl_uint num_events;
    const cl_event *wait_list;
    cl_event *event;
};

struct clmoe_kernels; /* prepared kernels, the backend's own */

struct clmoe_prepare_result {
    uint32_t max_group_size; /* that all kernels of the set can run with here, at most the one asked for */
    clmoe_program_origin origin;
    double program_ms;
    char note[160]; /* why a cache could not be used; "" = nothing to tell */
};

struct clmoe_backend {
    clmoe_status (*prepare)(clmoe_context *context, const struct clmoe_kernel_set *set, uint32_t group_size, struct clmoe_kernels **kernels,
                            struct clmoe_prepare_result *result);
    void (*release)(clmoe_context *context, struct clmoe_kernels *kernels);

    /* Queue, wait list and event, before anything is launched. */
    clmoe_status (*check_tail)(clmoe_context *context, const char *function, const struct clmoe_queue_tail *tail);
    /* Memory of a view: the right kind for this device, and long enough. */
    clmoe_status (*check_buffer)(clmoe_context *context, const char *name, const clmoe_buffer *buffer, bool is_output);
    clmoe_status (*enqueue)(clmoe_context *context, struct clmoe_kernels *kernels, const struct clmoe_stage *stages, unsigned num_stages,
                            const struct clmoe_queue_tail *tail);

    clmoe_status (*buffer_create)(clmoe_context *context, size_t bytes, clmoe_buffer *buffer);
    clmoe_status (*buffer_write)(clmoe_context *context, cl_command_queue queue, clmoe_buffer buffer, const void *data, size_t bytes);
    clmoe_status (*buffer_read)(clmoe_context *context, cl_command_queue queue, clmoe_buffer buffer, void *data, size_t bytes);
    void (*buffer_destroy)(clmoe_context *context, clmoe_buffer buffer);

    /* An in-order queue on the device; NULL where there are none. */
    clmoe_status (*queue_create)(clmoe_context *context, cl_command_queue *queue);
    void (*queue_destroy)(clmoe_context *context, cl_command_queue queue);

    void (*close)(clmoe_context *context);
};

#endif
