/* Memory of a device: of OpenCL, or of the host. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

clmoe_status bench_memory_create(bench_device *device, size_t bytes, clmoe_buffer *buffer) {
    memset(buffer, 0, sizeof *buffer);
    if (bytes == 0) {
        return CLMOE_SUCCESS;
    }
    if (device->opencl) {
        return bench_opencl_create(device->opencl, bytes, buffer);
    }
    void *host = malloc(bytes);
    *buffer = clmoe_buffer_of_host(host, host ? bytes : 0);
    return host ? CLMOE_SUCCESS : CLMOE_OUT_OF_MEMORY;
}

clmoe_status bench_memory_write(bench_device *device, clmoe_buffer buffer, const void *data, size_t bytes) {
    if (device->opencl && bytes > 0) {
        return bench_opencl_write(device->opencl, buffer, data, bytes);
    }
    if (bytes > 0) {
        memcpy(buffer.host, data, bytes);
    }
    return CLMOE_SUCCESS;
}

clmoe_status bench_memory_read(bench_device *device, clmoe_buffer buffer, void *data, size_t bytes) {
    if (device->opencl && bytes > 0) {
        return bench_opencl_read(device->opencl, buffer, data, bytes);
    }
    if (bytes > 0) {
        memcpy(data, buffer.host, bytes);
    }
    return CLMOE_SUCCESS;
}

void bench_memory_destroy(bench_device *device, clmoe_buffer buffer) {
    if (device->opencl) {
        bench_opencl_release(device->opencl, buffer);
    } else {
        free(buffer.host);
    }
}
