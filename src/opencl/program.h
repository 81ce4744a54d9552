/* program.h - from an operator's source to a program of one device: put together, found in this context, on disk, or built. */
#ifndef CLMOE_OPENCL_PROGRAM_H
#define CLMOE_OPENCL_PROGRAM_H

#include "../context.h"
#include "api.h"

/* A program that plans of one context share. */
struct clmoe_program;

struct clmoe_opencl_device {
    struct clmoe_cl cl;
    bool is_retained; /* the cl_device_id */
    pthread_mutex_t programs_mutex;
    struct clmoe_program *programs; /* those in use */
};

/* Err: OpenCL's codes (CL_BUILD_PROGRAM_FAILURE with the log kept), CLMOE_OUT_OF_MEMORY. */
clmoe_status clmoe_program_acquire(clmoe_context *context, const struct clmoe_kernel_set *set, uint32_t group_size,
                                   struct clmoe_program **program, struct clmoe_prepare_result *result);
void clmoe_program_release(clmoe_context *context, struct clmoe_program *program);
cl_program clmoe_program_handle(const struct clmoe_program *program);

#endif
