/* devices.h - what the list of devices and the selector ask of the backends. */
#ifndef CLMOE_DEVICES_H
#define CLMOE_DEVICES_H

#include "context.h"

/* Every OpenCL platform and device; nothing where there is no OpenCL. */
void clmoe_opencl_list(clmoe_device_info *infos, size_t capacity, size_t *num_infos, int32_t *next_index);

/* A context that owns its cl_context and queue. */
clmoe_status clmoe_opencl_create_owned(const clmoe_device_info *info, const clmoe_context_options *options, clmoe_context **context);

/* num_threads 0: one per core that this process may use. */
void clmoe_native_describe(uint32_t num_threads, clmoe_device_info *info);

#endif
