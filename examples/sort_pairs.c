/* Sorts (key, value) pairs on the caller's own context, queue and cl_mem: stable, so the values of equal keys keep their order.
 * Prints: keys 1 1 2 3 5 values 1 3 4 0 2 */
#include <clmoe/clmoe.h>

#include <stdio.h>

enum { N = 5 };

int main(void) {
    const cl_int keys[N] = {3, 1, 5, 1, 2}, values[N] = {0, 1, 2, 3, 4};
    cl_int sorted[2][N];
    cl_platform_id platforms[16];
    cl_device_id device = NULL;
    cl_uint num_platforms = 0;
    clGetPlatformIDs(16, platforms, &num_platforms);
    for (cl_uint i = 0; i < num_platforms && i < 16 && device == NULL; ++i)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
            device = NULL;
    if (device == NULL) {
        fprintf(stderr, "no OpenCL device\n");
        return 1;
    }
    cl_context opencl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(opencl, device, 0, NULL);

    clmoe_context *context = NULL;
    clmoe_plan *plan = NULL;
    const clmoe_sort_desc desc = {.max_items = N, .key_type = CLMOE_TYPE_I32, .value_bytes = sizeof values[0]};
    clmoe_status status = clmoe_context_create_opencl(opencl, device, NULL, &context);
    if (status == CLMOE_SUCCESS)
        status = clmoe_sort_plan_create(context, &desc, &plan);

    const size_t workspace_bytes = clmoe_plan_workspace_bytes(plan);
    cl_mem in = clCreateBuffer(opencl, CL_MEM_READ_WRITE, sizeof keys + sizeof values, NULL, NULL);
    cl_mem out = clCreateBuffer(opencl, CL_MEM_READ_WRITE, sizeof sorted, NULL, NULL);
    cl_mem workspace = workspace_bytes ? clCreateBuffer(opencl, CL_MEM_READ_WRITE, workspace_bytes, NULL, NULL) : NULL;
    const clmoe_sort_args args = {
        .num_items = N,
        .keys = clmoe_buffer_of_mem(in, 0, sizeof keys),
        .values = clmoe_buffer_of_mem(in, sizeof keys, sizeof values),
        .keys_out = clmoe_buffer_of_mem(out, 0, sizeof keys),
        .values_out = clmoe_buffer_of_mem(out, sizeof keys, sizeof values),
        .workspace = clmoe_buffer_of_mem(workspace, 0, workspace_bytes),
    };
    clEnqueueWriteBuffer(queue, in, CL_FALSE, 0, sizeof keys, keys, 0, NULL, NULL);
    clEnqueueWriteBuffer(queue, in, CL_FALSE, sizeof keys, sizeof values, values, 0, NULL, NULL);
    if (status == CLMOE_SUCCESS)
        status = clmoe_sort_enqueue(plan, queue, &args, 0, NULL, NULL); /* the queue is in order, so no event is needed */
    clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof sorted, sorted, 0, NULL, NULL);

    for (int i = 0; status == CLMOE_SUCCESS && i < 2 * N; ++i)
        printf("%s%d", i == 0 ? "keys " : i == N ? " values " : " ", sorted[i / N][i % N]);
    if (status == CLMOE_SUCCESS)
        printf("\n");
    else
        fprintf(stderr, "sort: %s\n", clmoe_status_name(status));

    if (workspace)
        clReleaseMemObject(workspace);
    clReleaseMemObject(out);
    clReleaseMemObject(in);
    clmoe_plan_destroy(plan);
    clmoe_context_destroy(context);
    clReleaseCommandQueue(queue);
    clReleaseContext(opencl);
    return status == CLMOE_SUCCESS ? 0 : 1;
}
