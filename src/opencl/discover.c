#include "discover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Queries about one device. One that fails leaves "" or 0, and says so. */
struct query {
    const struct clmoe_cl *cl;
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;     /* of the last that failed */
    const char *call; /* its name */
};

static bool is_answered(struct query *query, const char *call, cl_int error) {
    if (error != CL_SUCCESS) {
        query->error = error;
        query->call = call;
    }
    return error == CL_SUCCESS;
}

static void platform_text(struct query *query, cl_platform_info what, char *text, size_t text_bytes) {
    text[0] = '\0';
    char long_text[1024];
    if (is_answered(query, "clGetPlatformInfo", query->cl->clGetPlatformInfo(query->platform, what, sizeof long_text, long_text, NULL)))
        snprintf(text, text_bytes, "%.*s", (int)text_bytes - 1, long_text);
}

static bool ask_device(struct query *query, cl_device_info what, size_t bytes, void *value, size_t *value_bytes) {
    return is_answered(query, "clGetDeviceInfo", query->cl->clGetDeviceInfo(query->device, what, bytes, value, value_bytes));
}

static void device_text(struct query *query, cl_device_info what, char *text, size_t text_bytes) {
    text[0] = '\0';
    char long_text[1024];
    if (ask_device(query, what, sizeof long_text, long_text, NULL))
        snprintf(text, text_bytes, "%.*s", (int)text_bytes - 1, long_text + strspn(long_text, " "));
}

static uint64_t device_number(struct query *query, cl_device_info what, size_t bytes) {
    uint64_t wide = 0;
    uint32_t narrow = 0;
    void *value = bytes == sizeof narrow ? (void *)&narrow : (void *)&wide;
    if (!ask_device(query, what, bytes, value, NULL))
        return 0;
    return bytes == sizeof narrow ? narrow : wide;
}

/* The limit along the first dimension, which may lie below that of the whole group. */
static uint32_t max_group_size(struct query *query) {
    size_t of_group = 1, of_dimension[16] = {1};
    size_t bytes = 0;
    ask_device(query, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof of_group, &of_group, NULL);
    if (ask_device(query, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof of_dimension, of_dimension, &bytes) && bytes >= sizeof *of_dimension &&
        of_dimension[0] < of_group)
        of_group = of_dimension[0];
    return of_group < 1 ? 1 : of_group > 4096 ? 4096 : (uint32_t)of_group;
}

cl_int clmoe_cl_describe_device(const struct clmoe_cl *cl, cl_platform_id platform, cl_device_id device, clmoe_device_info *info) {
    *info = (clmoe_device_info){
        .backend = CLMOE_BACKEND_OPENCL, .index = -1, .platform_index = -1, .device_index = -1, .platform = platform, .device = device};
    struct query query = {.cl = cl, .platform = platform, .device = device, .error = CL_SUCCESS};
    platform_text(&query, CL_PLATFORM_NAME, info->platform_name, sizeof info->platform_name);
    platform_text(&query, CL_PLATFORM_VERSION, info->platform_version, sizeof info->platform_version);
    device_text(&query, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(&query, CL_DEVICE_VERSION, info->device_version, sizeof info->device_version);
    device_text(&query, CL_DRIVER_VERSION, info->driver_version, sizeof info->driver_version);
    info->type = (cl_device_type)device_number(&query, CL_DEVICE_TYPE, sizeof(cl_device_type));
    info->vendor_id = (uint32_t)device_number(&query, CL_DEVICE_VENDOR_ID, sizeof(cl_uint));
    info->compute_units = (uint32_t)device_number(&query, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    info->local_bytes = device_number(&query, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong));
    info->global_bytes = device_number(&query, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    info->max_buffer_bytes = device_number(&query, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    info->max_group_size = max_group_size(&query);
    info->kernel_class = (info->type & CL_DEVICE_TYPE_CPU) != 0 ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL;
    if (info->compute_units == 0)
        info->compute_units = 1;

    const bool is_available = device_number(&query, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) != 0;
    const bool has_compiler = device_number(&query, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)) != 0;
    const bool is_little_endian = device_number(&query, CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool)) != 0;

    if (query.error != CL_SUCCESS) /* results and the cache's keys depend on these facts */
        snprintf(info->skipped, sizeof info->skipped, "%s: %s", query.call, clmoe_status_name(query.error));
    else if (!is_available)
        snprintf(info->skipped, sizeof info->skipped, "the driver says it is not available");
    else if (!has_compiler)
        snprintf(info->skipped, sizeof info->skipped, "no compiler for OpenCL C");
    else if (!is_little_endian)
        snprintf(info->skipped, sizeof info->skipped, "big-endian");
    else if (strncmp(info->device_version, "OpenCL 1.0", 10) == 0 || strncmp(info->device_version, "OpenCL 1.1", 10) == 0)
        snprintf(info->skipped, sizeof info->skipped, "older than OpenCL 1.2");
    return query.error;
}

struct clmoe_limits clmoe_cl_limits(const clmoe_device_info *info) {
    struct clmoe_limits limits = {
        .compute_units = info->compute_units, .max_group_size = info->max_group_size, .local_bytes = info->local_bytes};
    clmoe_tune_driver_faults(info->platform_name, info->name, &limits);
    return limits;
}

static clmoe_device_info empty_platform(const struct clmoe_cl *cl, cl_platform_id platform, cl_int error) {
    clmoe_device_info info = {.backend = CLMOE_BACKEND_OPENCL, .index = -1, .platform_index = -1, .device_index = -1, .platform = platform};
    struct query query = {.cl = cl, .platform = platform};
    platform_text(&query, CL_PLATFORM_NAME, info.platform_name, sizeof info.platform_name);
    platform_text(&query, CL_PLATFORM_VERSION, info.platform_version, sizeof info.platform_version);
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
