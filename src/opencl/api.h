/* api.h - the OpenCL functions that the library calls, found at run time: it starts on machines without any OpenCL. */
#ifndef CLMOE_OPENCL_API_H
#define CLMOE_OPENCL_API_H

#include "clmoe/core.h"

#include <stdbool.h>

#define CLMOE_CL_FUNCTIONS(X)                                                                                                              \
    X(clGetPlatformIDs)                                                                                                                    \
    X(clGetPlatformInfo)                                                                                                                   \
    X(clGetDeviceIDs)                                                                                                                      \
    X(clGetDeviceInfo)                                                                                                                     \
    X(clRetainDevice)                                                                                                                      \
    X(clReleaseDevice)                                                                                                                     \
    X(clCreateContext)                                                                                                                     \
    X(clRetainContext)                                                                                                                     \
    X(clReleaseContext)                                                                                                                    \
    X(clGetContextInfo)                                                                                                                    \
    X(clCreateCommandQueue)                                                                                                                \
    X(clReleaseCommandQueue)                                                                                                               \
    X(clGetCommandQueueInfo)                                                                                                               \
    X(clCreateProgramWithSource)                                                                                                           \
    X(clCreateProgramWithBinary)                                                                                                           \
    X(clBuildProgram)                                                                                                                      \
    X(clGetProgramInfo)                                                                                                                    \
    X(clGetProgramBuildInfo)                                                                                                               \
    X(clReleaseProgram)                                                                                                                    \
    X(clCreateKernel)                                                                                                                      \
    X(clGetKernelWorkGroupInfo)                                                                                                            \
    X(clSetKernelArg)                                                                                                                      \
    X(clReleaseKernel)                                                                                                                     \
    X(clEnqueueNDRangeKernel)                                                                                                              \
    X(clReleaseEvent)                                                                                                                      \
    X(clCreateBuffer)                                                                                                                      \
    X(clGetMemObjectInfo)                                                                                                                  \
    X(clEnqueueWriteBuffer)                                                                                                                \
    X(clEnqueueReadBuffer)                                                                                                                 \
    X(clReleaseMemObject)

struct clmoe_cl {
#define CLMOE_CL_MEMBER(function) __typeof__(&function) function;
    CLMOE_CL_FUNCTIONS(CLMOE_CL_MEMBER)
#undef CLMOE_CL_MEMBER
};

/* The OpenCL that this process already has, else the system's loader. Returns false, with the reason in words, if there is none. The
 * library is never unloaded: drivers keep threads of their own. */
bool clmoe_cl_load(struct clmoe_cl *cl, char *reason, size_t reason_bytes);

#endif
