/* The same in the middle of a program that has an OpenCL of its own: its context, its queue, one cl_mem that holds everything. Nothing
 * waits between the write of the ids, the launches and the read of the result; the one wait is at the end.
 * Prints: sorted_token_ids 0 4 3 8 1 2 5 7 6 8, expert_ids 0 1 2 2 3 */
#include <clmoe/clmoe.h>

#include <stdio.h>

enum { T = 4, K = 2, E = 4, B = 2, C = 12 }; /* C: clmoe_align_max_rows() of this shape */

static int fail(clmoe_context *context, const char *what, int status) {
    char text[256];
    clmoe_context_error(context, text, sizeof text);
    fprintf(stderr, "%s: %s: %s\n", what, clmoe_status_name(status), text);
    return 1;
}

int main(void) {
    /* The caller's own OpenCL: the first device of the first platform that has one. */
    cl_platform_id platforms[16];
    cl_device_id device = NULL;
    cl_uint num_platforms = 0;
    cl_int error;
    clGetPlatformIDs(16, platforms, &num_platforms);
    for (cl_uint i = 0; i < num_platforms && i < 16 && device == NULL; ++i)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
            device = NULL;
    if (device == NULL) {
        fprintf(stderr, "no OpenCL device\n");
        return 1;
    }
    cl_context opencl = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = clCreateCommandQueue(opencl, device, 0, &error);

    clmoe_context *context = NULL;
    clmoe_plan *plan = NULL;
    const clmoe_align_desc desc = {.max_tokens = T, .top_k = K, .num_experts = E, .block_size = B};
    int status = clmoe_context_create_opencl(opencl, device, NULL, &context);
    if (status == CLMOE_SUCCESS)
        status = clmoe_align_plan_create(context, &desc, &plan);
    if (status != CLMOE_SUCCESS)
        return fail(context, "plan", status);

    /* One arena, and views at whatever offset the program likes. */
    const size_t ids_at = 12, sorted_at = 100, blocks_at = 200, rows_at = 300, workspace_at = 400;
    const size_t workspace_bytes = clmoe_plan_workspace_bytes(plan);
    cl_mem arena = clCreateBuffer(opencl, CL_MEM_READ_WRITE, workspace_at + workspace_bytes, NULL, &error);
    const cl_int topk_ids[T][K] = {{0, 2}, {2, 1}, {0, 2}, {3, 2}};
    cl_int sorted_token_ids[C], expert_ids[C / B], num_rows;
    const clmoe_align_args args = {
        .num_tokens = T,
        .topk_ids = clmoe_buffer_of_mem(arena, ids_at, sizeof topk_ids),
        .sorted_token_ids = clmoe_buffer_of_mem(arena, sorted_at, sizeof sorted_token_ids),
        .expert_ids = clmoe_buffer_of_mem(arena, blocks_at, sizeof expert_ids),
        .num_tokens_post_padded = clmoe_buffer_of_mem(arena, rows_at, sizeof num_rows),
        .workspace = clmoe_buffer_of_mem(arena, workspace_at, workspace_bytes),
    };
    cl_event written, aligned;
    clEnqueueWriteBuffer(queue, arena, CL_FALSE, ids_at, sizeof topk_ids, topk_ids, 0, NULL, &written);
    status = clmoe_align_enqueue(plan, queue, &args, 1, &written, &aligned);
    if (status != CLMOE_SUCCESS)
        return fail(context, "align", status);
    clEnqueueReadBuffer(queue, arena, CL_FALSE, sorted_at, sizeof sorted_token_ids, sorted_token_ids, 1, &aligned, NULL);
    clEnqueueReadBuffer(queue, arena, CL_FALSE, blocks_at, sizeof expert_ids, expert_ids, 1, &aligned, NULL);
    clEnqueueReadBuffer(queue, arena, CL_FALSE, rows_at, sizeof num_rows, &num_rows, 1, &aligned, NULL);
    clFinish(queue);

    printf("sorted_token_ids");
    for (cl_int row = 0; row < num_rows; ++row)
        printf(" %d", sorted_token_ids[row]);
    printf("\nexpert_ids");
    for (cl_int block = 0; block < num_rows / B; ++block)
        printf(" %d", expert_ids[block]);
    printf("\n");

    clReleaseEvent(written);
    clReleaseEvent(aligned);
    clReleaseMemObject(arena);
    clmoe_plan_destroy(plan);
    clmoe_context_destroy(context);
    clReleaseCommandQueue(queue);
    clReleaseContext(opencl);
    return 0;
}
