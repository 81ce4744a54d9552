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

#define SCAN_PUT(to, value) (streams ? STREAM(to, value) : (void)(*(to) = (value)))
/* Items [first, last), the first of which follows `sum`. Four at a time: only the last addition of four waits for those before. */
static inline void NAME(scan_items)(global const ITEM *input, global ITEM *output, u32 first, u32 last, ITEM sum, bool is_inclusive,
                                    bool streams) {
    u32 rest = last - first;
    input += first;
    output += first;
    for (; rest >= 4; rest -= 4, input += 4, output += 4) {
        const ITEM one = input[0], two = one + input[1], three = two + input[2], four = three + input[3];
        SCAN_PUT(output, is_inclusive ? sum + one : sum);
        SCAN_PUT(output + 1, sum + (is_inclusive ? two : one));
        SCAN_PUT(output + 2, sum + (is_inclusive ? three : two));
        SCAN_PUT(output + 3, sum + (is_inclusive ? four : three));
        sum += four;
    }
    for (u32 i = 0; i < rest; ++i) {
        const ITEM before = sum;
        sum += input[i];
        output[i] = is_inclusive ? sum : before;
    }
    if (streams)
        STREAM_END();
}
#undef SCAN_PUT

/* scan_place
 * in   input [n], sums [num_chunks - 1]
 * out  output [n]; may be the input
 */
kernel void NAME(scan_place)(struct scan_params p, global const ITEM *input, global ITEM *output, global const ITEM *sums) {
    const u32 chunk = (u32)get_group_id(0);
    const u32 first = share_begin(p.num_items, p.num_chunks, chunk), last = share_begin(p.num_items, p.num_chunks, chunk + 1);
    ITEM sum = 0;
    input += p.input_at;
    output += p.output_at;
    for (u32 c = 0; c < chunk; ++c)
        sum += sums[p.sums_at + c];
    if (p.streams && output != input) { /* in place, the lines are there */
        if (p.is_inclusive)
            NAME(scan_items)(input, output, first, last, sum, true, true);
        else
            NAME(scan_items)(input, output, first, last, sum, false, true);
    } else {
        if (p.is_inclusive)
            NAME(scan_items)(input, output, first, last, sum, true, false);
        else
            NAME(scan_items)(input, output, first, last, sum, false, false);
    }
}
