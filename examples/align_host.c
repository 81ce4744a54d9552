/* Four tokens, two experts each out of four, blocks of two rows: aligned on the native device, straight from and to arrays.
 * Prints: sorted_token_ids 0 4 3 8 1 2 5 7 6 8, expert_ids 0 1 2 2 3 */
#include <clmoe/clmoe.h>

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const int32_t topk_ids[4][2] = {{0, 2}, {2, 1}, {0, 2}, {3, 2}};
    const clmoe_align_desc desc = {.max_tokens = 4, .top_k = 2, .num_experts = 4, .block_size = 2};
    int32_t sorted_token_ids[12], expert_ids[6], num_rows; /* 12 rows: clmoe_align_max_rows(&desc, 4, ...) */
    clmoe_context *context = NULL;
    clmoe_plan *plan = NULL;
    if (clmoe_context_create("native", NULL, &context) != CLMOE_SUCCESS || clmoe_align_plan_create(context, &desc, &plan) != CLMOE_SUCCESS)
        return 1;
    void *workspace = malloc(clmoe_plan_workspace_bytes(plan));
    const clmoe_align_args args = {
        .num_tokens = 4,
        .topk_ids = clmoe_buffer_of_const(topk_ids, sizeof topk_ids),
        .sorted_token_ids = clmoe_buffer_of_host(sorted_token_ids, sizeof sorted_token_ids),
        .expert_ids = clmoe_buffer_of_host(expert_ids, sizeof expert_ids),
        .num_tokens_post_padded = clmoe_buffer_of_host(&num_rows, sizeof num_rows),
        .workspace = clmoe_buffer_of_host(workspace, clmoe_plan_workspace_bytes(plan)),
    };
    if (clmoe_align_enqueue(plan, NULL, &args, 0, NULL, NULL) != CLMOE_SUCCESS)
        return 1;

    printf("sorted_token_ids");
    for (int32_t row = 0; row < num_rows; ++row)
        printf(" %d", sorted_token_ids[row]);
    printf("\nexpert_ids");
    for (int32_t block = 0; block < num_rows / 2; ++block)
        printf(" %d", expert_ids[block]);
    printf("\n");

    free(workspace);
    clmoe_plan_destroy(plan);
    clmoe_context_destroy(context);
    return 0;
}
