/* scan, serial class: each group is one work-item with a contiguous chunk of the items.
 *
 *   sums   the sum of my chunk, of all but the last               -> sums[g]
 *   place  what comes before my chunk, then my chunk item by item; with one chunk, the only launch
 */

/* scan_sums
 * in   input [n]
 * out  sums [num_chunks - 1], or [1]
 */
kernel void NAME(scan_sums)(struct scan_params p, global const ITEM *input, global ITEM *sums) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    ITEM sum = 0;
    input += p.input_at;
    for (u32 i = share_begin(p.num_items, p.num_chunks, chunk); i < last; ++i)
        sum += input[i];
    sums[p.sums_at + chunk] = sum;
}

/* scan_place
 * in   input [n], sums [num_chunks - 1]
 * out  output [n]; may be the input
 */
kernel void NAME(scan_place)(struct scan_params p, global const ITEM *input, global ITEM *output, global const ITEM *sums) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    ITEM sum = 0;
    input += p.input_at;
    output += p.output_at;
    for (u32 c = 0; c < chunk; ++c)
        sum += sums[p.sums_at + c];
    for (u32 i = share_begin(p.num_items, p.num_chunks, chunk); i < last; ++i) {
        const ITEM before = sum;
        sum += input[i];
        output[i] = p.is_inclusive ? sum : before;
    }
}
