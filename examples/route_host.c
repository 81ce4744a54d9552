/* The router's logits of four tokens, two experts each out of four, blocks of two rows: routed and aligned in one call, on the native
 * device, straight from and to arrays. Prints: topk_ids 0 2 2 1 0 2 3 2, sorted_token_ids 0 4 3 8 1 2 5 7 6 8, expert_ids 0 1 2 2 3 */
#include <clmoe/clmoe.h>

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const float logits[4][4] = {{2, -1, 1, 0}, {0, 1, 2, -1}, {2, -1, 1, 0}, {0, -1, 1, 2}};
    /* As in Mixtral. clmoe_model_find("deepseek-v3")->router would be that of a published model. */
    const clmoe_router router = {.num_experts = 4, .top_k = 2, .score = CLMOE_SCORE_SOFTMAX, .renormalize = CLMOE_RENORMALIZE_SUM};
    const clmoe_route_align_desc desc = {.max_tokens = 4, .router = router, .block_size = 2};
    int32_t topk_ids[4][2], sorted_token_ids[12], expert_ids[6], num_rows; /* 12 rows: clmoe_align_max_rows() of this shape */
    float topk_weights[4][2];
    clmoe_context *context = NULL;
    clmoe_plan *plan = NULL;
    if (clmoe_context_create("native", NULL, &context) != CLMOE_SUCCESS ||
        clmoe_route_align_plan_create(context, &desc, &plan) != CLMOE_SUCCESS)
        return 1;
    void *workspace = malloc(clmoe_plan_workspace_bytes(plan));
    const clmoe_route_align_args args = {
        .route.num_tokens = 4,
        .route.logits = clmoe_buffer_of_const(logits, sizeof logits),
        .route.topk_ids = clmoe_buffer_of_host(topk_ids, sizeof topk_ids),
        .route.topk_weights = clmoe_buffer_of_host(topk_weights, sizeof topk_weights),
        .align.sorted_token_ids = clmoe_buffer_of_host(sorted_token_ids, sizeof sorted_token_ids),
        .align.expert_ids = clmoe_buffer_of_host(expert_ids, sizeof expert_ids),
        .align.num_tokens_post_padded = clmoe_buffer_of_host(&num_rows, sizeof num_rows),
        .workspace = clmoe_buffer_of_host(workspace, clmoe_plan_workspace_bytes(plan)),
    };
    if (clmoe_route_align_enqueue(plan, NULL, &args, 0, NULL, NULL) != CLMOE_SUCCESS)
        return 1;

    printf("topk_ids");
    for (int f = 0; f < 8; ++f)
        printf(" %d", topk_ids[f / 2][f % 2]);
    printf("\ntopk_weights");
    for (int f = 0; f < 8; ++f)
        printf(" %.6f", (double)topk_weights[f / 2][f % 2]);
    printf("\nsorted_token_ids");
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
