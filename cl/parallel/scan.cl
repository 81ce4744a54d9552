/* scan, parallel class: each group has a contiguous chunk of the items and goes through it in tiles of W.
 *
 *   sums   the sum of my chunk, of all but the last               -> sums[g]
 *   place  what comes before my chunk, then my chunk tile by tile; with one chunk, the only launch
 */

/* Sum of the values up to and with this work-item's; *total: of all. scratch [W]. sync: may be written again on return. */
static inline ITEM scan_tile(local ITEM *scratch, ITEM value, ITEM *total) {
    const u32 lid = (u32)get_local_id(0);
    scratch[lid] = value;
    GROUP_FENCE();
    for (u32 reach = 1; reach < W; reach *= 2) {
        const ITEM before = lid >= reach ? scratch[lid - reach] : 0;
        GROUP_FENCE();
        scratch[lid] += before;
        GROUP_FENCE();
    }
    const ITEM sum = scratch[lid];
    *total = scratch[W - 1];
    GROUP_FENCE();
    return sum;
}

/* The sum of items [first, last), the same for all work-items. */
static inline ITEM scan_sum(global const ITEM *items, u32 first, u32 last, local ITEM *scratch) {
    ITEM sum = 0, total;
    for (u32 base = first; base < last; base += W) {
        const u32 i = base + (u32)get_local_id(0);
        if (i < last)
            sum += items[i];
    }
    scan_tile(scratch, sum, &total);
    return total;
}

/* scan_sums
 * in    input [n]
 * out   sums [num_chunks - 1], or [1]
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void scan_sums(struct scan_params p, global const ITEM *input, global ITEM *sums,
                                                                     local ITEM *scratch) {
    const u32 chunk = (u32)get_group_id(0);
    const ITEM sum = scan_sum(input + p.input_at, share_begin(p.num_items, p.num_chunks, chunk),
                              share_begin(p.num_items, p.num_chunks, chunk + 1), scratch);
    if (get_local_id(0) == 0)
        sums[p.sums_at + chunk] = sum;
}

/* scan_place
 * in    input [n], sums [num_chunks - 1]
 * out   output [n]; may be the input: each item is read by the work-item that writes it
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void scan_place(struct scan_params p, global const ITEM *input, global ITEM *output,
                                                                      global const ITEM *sums, local ITEM *scratch) {
    const u32 lid = (u32)get_local_id(0), chunk = (u32)get_group_id(0);
    const u32 last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    ITEM before = chunk != 0 ? scan_sum(sums + p.sums_at, 0, chunk, scratch) : 0; /* chunk is the same for the whole group */
    input += p.input_at;
    output += p.output_at;
    for (u32 base = share_begin(p.num_items, p.num_chunks, chunk); base < last; base += W) {
        const u32 i = base + lid;
        const ITEM value = i < last ? input[i] : 0;
        ITEM total;
        const ITEM sum = before + scan_tile(scratch, value, &total);
        if (i < last)
            output[i] = p.is_inclusive ? sum : sum - value;
        before += total;
    }
}
