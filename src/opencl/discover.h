/* discover.h - platforms, devices and what they allow. */
#ifndef CLMOE_OPENCL_DISCOVER_H
#define CLMOE_OPENCL_DISCOVER_H

#include "../tuning.h"
#include "api.h"

/* Appends every platform and device, in the driver's order and also those that can't be used, at infos[*num_infos] as far as capacity
 * reaches; counts all. Indices are given to usable devices from *next_index on. */
void clmoe_cl_discover(const struct clmoe_cl *cl, clmoe_device_info *infos, size_t capacity, size_t *num_infos, int32_t *next_index);

/* Fills in all but the indices; info->skipped says why if the device can't be used. Returns the error of a query that failed. */
cl_int clmoe_cl_describe_device(const struct clmoe_cl *cl, cl_platform_id platform, cl_device_id device, clmoe_device_info *info);

struct clmoe_limits clmoe_cl_limits(const clmoe_device_info *info);

#endif
