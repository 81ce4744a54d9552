#include "discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void platform_text(const struct clmoe_cl *cl, cl_platform_id platform, cl_platform_info what, char *text, size_t text_bytes) {
    text[0] = '\0';
    char long_text[1024];
    if (cl->clGetPlatformInfo(platform, what, sizeof long_text, long_text, NULL) == CL_SUCCESS)
        snprintf(text, text_bytes, "%.*s", (int)text_bytes - 1, long_text);
}

static void device_text(const struct clmoe_cl *cl, cl_device_id device, cl_device_info what, char *text, size_t text_bytes) {
    text[0] = '\0';
    char long_text[1024];
    if (cl->clGetDeviceInfo(device, what, sizeof long_text, long_text, NULL) == CL_SUCCESS)
        snprintf(text, text_bytes, "%.*s", (int)text_bytes - 1, long_text + strspn(long_text, " "));
}

/* 0 if the driver does not tell. */
static uint64_t device_number(const struct clmoe_cl *cl, cl_device_id device, cl_device_info what, size_t bytes) {
    uint64_t wide = 0;
    uint32_t narrow = 0;
    void *value = bytes == sizeof narrow ? (void *)&narrow : (void *)&wide;
    if (cl->clGetDeviceInfo(device, what, bytes, value, NULL) != CL_SUCCESS)
        return 0;
    return bytes == sizeof narrow ? narrow : wide;
}

/* The limit along the first dimension, which may lie below that of the whole group. */
static uint32_t max_group_size(const struct clmoe_cl *cl, cl_device_id device) {
    size_t of_group = 1, of_dimension[16] = {1};
    size_t bytes = 0;
    cl->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof of_group, &of_group, NULL);
    if (cl->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof of_dimension, of_dimension, &bytes) == CL_SUCCESS &&
        bytes >= sizeof *of_dimension && of_dimension[0] < of_group)
        of_group = of_dimension[0];
    return of_group < 1 ? 1 : of_group > 4096 ? 4096 : (uint32_t)of_group;
}

void clmoe_cl_describe_device(const struct clmoe_cl *cl, cl_platform_id platform, cl_device_id device, clmoe_device_info *info) {
    *info = (clmoe_device_info){
        .backend = CLMOE_BACKEND_OPENCL, .index = -1, .platform_index = -1, .device_index = -1, .platform = platform, .device = device};
    platform_text(cl, platform, CL_PLATFORM_NAME, info->platform_name, sizeof info->platform_name);
    platform_text(cl, platform, CL_PLATFORM_VERSION, info->platform_version, sizeof info->platform_version);
    device_text(cl, device, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(cl, device, CL_DEVICE_VERSION, info->device_version, sizeof info->device_version);
    device_text(cl, device, CL_DRIVER_VERSION, info->driver_version, sizeof info->driver_version);
    info->type = (cl_device_type)device_number(cl, device, CL_DEVICE_TYPE, sizeof(cl_device_type));
    info->vendor_id = (uint32_t)device_number(cl, device, CL_DEVICE_VENDOR_ID, sizeof(cl_uint));
    info->compute_units = (uint32_t)device_number(cl, device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    info->local_bytes = device_number(cl, device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong));
    info->global_bytes = device_number(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    info->max_buffer_bytes = device_number(cl, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    info->max_group_size = max_group_size(cl, device);
    info->kernel_class = (info->type & CL_DEVICE_TYPE_CPU) != 0 ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL;
    if (info->compute_units == 0)
        info->compute_units = 1;

    if (device_number(cl, device, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) == 0)
        snprintf(info->skipped, sizeof info->skipped, "the driver says it is not available");
    else if (device_number(cl, device, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)) == 0)
        snprintf(info->skipped, sizeof info->skipped, "no compiler for OpenCL C");
    else if (device_number(cl, device, CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool)) == 0)
        snprintf(info->skipped, sizeof info->skipped, "big-endian");
    else if (strncmp(info->device_version, "OpenCL 1.0", 10) == 0 || strncmp(info->device_version, "OpenCL 1.1", 10) == 0)
        snprintf(info->skipped, sizeof info->skipped, "older than OpenCL 1.2");
}

struct clmoe_limits clmoe_cl_limits(const clmoe_device_info *info) {
    struct clmoe_limits limits = {
        .compute_units = info->compute_units, .max_group_size = info->max_group_size, .local_bytes = info->local_bytes};
    clmoe_tune_driver_faults(info->platform_name, info->name, &limits);
    return limits;
}

static clmoe_device_info empty_platform(const struct clmoe_cl *cl, cl_platform_id platform, cl_int error) {
    clmoe_device_info info = {.backend = CLMOE_BACKEND_OPENCL, .index = -1, .platform_index = -1, .device_index = -1, .platform = platform};
    platform_text(cl, platform, CL_PLATFORM_NAME, info.platform_name, sizeof info.platform_name);
    platform_text(cl, platform, CL_PLATFORM_VERSION, info.platform_version, sizeof info.platform_version);
    if (error == CL_SUCCESS || error == CL_DEVICE_NOT_FOUND)
        snprintf(info.skipped, sizeof info.skipped, "a platform without devices");
    else
        snprintf(info.skipped, sizeof info.skipped, "clGetDeviceIDs: %s", clmoe_status_name(error));
    return info;
}

static void append(clmoe_device_info *infos, size_t capacity, size_t *num_infos, const clmoe_device_info *info) {
    if (*num_infos < capacity)
        infos[*num_infos] = *info;
    ++*num_infos;
}

void clmoe_cl_discover(const struct clmoe_cl *cl, clmoe_device_info *infos, size_t capacity, size_t *num_infos, int32_t *next_index) {
    enum { MAX_PLATFORMS = 64, MAX_DEVICES = 64 };
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint num_platforms = 0;
    if (cl->clGetPlatformIDs(MAX_PLATFORMS, platforms, &num_platforms) != CL_SUCCESS)
        return; /* a loader without a single driver answers with an error */
    for (cl_uint p = 0; p < num_platforms && p < MAX_PLATFORMS; ++p) {
        cl_device_id devices[MAX_DEVICES];
        cl_uint num_devices = 0;
        const cl_int error = cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &num_devices);
        if (error != CL_SUCCESS || num_devices == 0) {
            clmoe_device_info info = empty_platform(cl, platforms[p], error);
            info.platform_index = (int32_t)p;
            append(infos, capacity, num_infos, &info);
            continue;
        }
        for (cl_uint d = 0; d < num_devices && d < MAX_DEVICES; ++d) {
            clmoe_device_info info;
            clmoe_cl_describe_device(cl, platforms[p], devices[d], &info);
            info.platform_index = (int32_t)p;
            info.device_index = (int32_t)d;
            info.index = info.skipped[0] == '\0' ? (*next_index)++ : -1;
            append(infos, capacity, num_infos, &info);
        }
    }
}
