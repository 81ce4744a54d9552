/* route_align, parallel class: route and align, whose files come before this one, in a single launch. */

/* route_align_one - route all rows, then align, by one group.
 * in, out  as route_rows and align_place; ids and weights of the one are topk_ids and topk_weights of the other
 * pre      one group, num_chunks = 1
 * sync     all work-items reach every barrier; the one between lets each see the ids and weights of all
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void route_align_one(struct route_params r, ROUTE_BUFFERS, struct align_params p,
                                                                           global const i32 *expert_map, global const u8 *row_mask,
                                                                           global const i32 *num_tokens_device, ALIGN_OUTPUTS,
                                                                           SCRATCH u32 *memory) {
    const struct align_outputs out = ALIGN_OUTPUTS_AT(p);
    route_share(r, logits, bias, expert_scale, ids, weights, memory);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    align_all(p, out, ids, expert_map, row_mask, num_tokens_device, memory);
}
