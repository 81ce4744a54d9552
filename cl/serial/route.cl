/* route, serial class: each group is one work-item that takes a contiguous share of the rows.
 *
 *   rows   for each row: keys of all experts; the few that can be among the K best, in order; their weights
 *
 * The filter: of 16 or 32 lanes of experts e, e + 16, ... the best of each are compared. The K-th best of these is a bound that K experts
 * reach. Those that do are looked for in the columns of experts e, e + 64, ... whose best does.
 *
 * Whoever compiles this defines LOGIT, the type in which a logit is stored, logit_bits(), which gives its f32 bits, and NAME(), since the
 * native build compiles this file once for each type.
 */
#ifndef ROUTE_SERIAL_ONCE
#define ROUTE_SERIAL_ONCE

enum { ROUTE_FEW = 64 }; /* candidates that are ranked by counting, at most */

/* Scratch memory of a group; route_serial_items() of the host adds up the same. */
struct route_scratch {
    global i32 *keys;             /* of the row's experts, ROUTE_KEY_DROPPED up to whole rows of columns */
    global u32 *scores;           /* of the same, where they decide, as bits */
    global i32 *list, *list_keys; /* candidates and their keys; then what weights are made of */
};

static inline struct route_scratch route_slice_scratch(struct route_params p, global u32 *memory) {
    struct route_scratch s;
    const u32 padded = round_up(p.num_experts, ROUTE_COLUMNS);
    s.keys = (global i32 *)memory;
    s.scores = memory + padded;
    s.list = s.keys + 2 * padded;
    s.list_keys = s.list + padded + ROUTE_BLOCK;
    return s;
}

/* n: whole lanes, the last ones filled up with 0. */
static inline float route_sum(global const u32 *items, u32 n) {
    float lanes[ROUTE_LANES] = {0};
    for (global const u32 *end = items + n; items < end; items += ROUTE_LANES)
        for (u32 lane = 0; lane < ROUTE_LANES; ++lane)
            lanes[lane] += route_number(items[lane]);
    return route_add_lanes(lanes);
}

static inline i32 route_largest(global const i32 *keys, u32 n) {
    i32 largest = ROUTE_KEY_DROPPED;
    for (u32 i = 0; i < n; ++i)
        largest = keys[i] > largest ? keys[i] : largest;
    return largest;
}

/* Logits' numbers -> values; in place. */
static inline void route_cap_all(struct route_params p, global u32 *numbers, u32 n) {
    if (p.has & ROUTE_HAS_SOFTCAP)
        for (u32 i = 0; i < n; ++i)
            numbers[i] = route_bits(route_capped(route_number(numbers[i]), p.softcap));
}

/* Values -> scores, those of a softmax not yet divided by their sum; in place. */
static inline void route_score_all(global u32 *numbers, u32 n, u32 score, float max) {
    if (score == ROUTE_SOFTMAX) /* loops of their own, without a choice inside */
        for (u32 i = 0; i < n; ++i)
            numbers[i] = route_bits(route_score(ROUTE_SOFTMAX, route_number(numbers[i]), max, 1.0f));
    else if (score == ROUTE_SIGMOID)
        for (u32 i = 0; i < n; ++i)
            numbers[i] = route_bits(route_score(ROUTE_SIGMOID, route_number(numbers[i]), 0.0f, 1.0f));
    else if (score == ROUTE_SQRT_SOFTPLUS)
        for (u32 i = 0; i < n; ++i)
            numbers[i] = route_bits(route_score(ROUTE_SQRT_SOFTPLUS, route_number(numbers[i]), 0.0f, 1.0f));
    else
        for (u32 i = 0; i < n; ++i)
            numbers[i] = route_bits(route_score(ROUTE_IDENTITY, route_number(numbers[i]), 0.0f, 1.0f));
}

static inline void route_divide_all(global u32 *numbers, u32 n, float divisor) {
    for (u32 i = 0; i < n; ++i)
        numbers[i] = route_bits(route_divide(route_number(numbers[i]), divisor));
}

/* Keys of the experts whose group is not among the best: none is smaller. group_keys [num_groups]. */
static inline void route_drop_groups(struct route_params p, global i32 *keys, global i32 *group_keys) {
    const u32 size = p.num_experts / p.num_groups;
    for (u32 group = 0; group < p.num_groups; ++group) {
        i32 best = ROUTE_KEY_DROPPED, second = ROUTE_KEY_DROPPED;
        for (u32 e = group * size; e < (group + 1) * size; ++e) {
            const i32 key = keys[e], lower = key < best ? key : best;
            second = lower > second ? lower : second;
            best = key > best ? key : best;
        }
        group_keys[group] = route_group_key(p.group_filter, best, second);
    }
    for (u32 group = 0; group < p.num_groups; ++group) {
        u32 better = 0;
        for (u32 other = 0; other < p.num_groups; ++other)
            better += route_is_before(group_keys[other], (i32)other, group_keys[group], (i32)group);
        if (better >= p.kept_groups)
            for (u32 e = group * size; e < (group + 1) * size; ++e)
                keys[e] = ROUTE_KEY_DROPPED;
    }
}

/* A bit for each of 32 columns that reaches the bound. */
static inline u32 route_reaching(const i32 *columns, i32 bound) {
    u32 reaching = 0;
    for (u32 column = 0; column < 32; ++column)
        reaching |= (u32)(columns[column] >= bound) << column;
    return reaching;
}

/* The experts that can be among the K best; returns how many, at least K. Nothing branches on a single key: such branches are mispredicted.
 * lanes: a constant. */
static inline u32 route_filter(struct route_params p, u32 lanes, struct route_scratch s) {
    const u32 padded = round_up(p.num_experts, ROUTE_COLUMNS), num_rows = padded / ROUTE_COLUMNS;
    i32 columns[ROUTE_COLUMNS], best[ROUTE_LANES], bound = 0x7fffffff;
    u32 equal = 0;
    u64 n = 0;
    for (u32 column = 0; column < ROUTE_COLUMNS; ++column)
        columns[column] = s.keys[column];
    for (u32 base = ROUTE_COLUMNS; base < padded; base += ROUTE_COLUMNS)
        for (u32 column = 0; column < ROUTE_COLUMNS; ++column)
            columns[column] = s.keys[base + column] > columns[column] ? s.keys[base + column] : columns[column];
    for (u32 lane = 0; lane < lanes; ++lane) {
        i32 largest = columns[lane];
        for (u32 column = lane + lanes; column < ROUTE_COLUMNS; column += lanes)
            largest = columns[column] > largest ? columns[column] : largest;
        best[lane] = largest;
    }
    for (u32 lane = 0; lane < lanes; ++lane) { /* the K-th best */
        u32 better = 0;
        for (u32 other = 0; other < lanes; ++other)
            better += (u32)(best[other] > best[lane]);
        const i32 is_short = -(i32)(better >= p.top_k); /* all ones or none: selecting would branch */
        const i32 reached = (best[lane] & ~is_short) | (0x7fffffff & is_short);
        bound = reached < bound ? reached : bound;
    }
    bound = bound > ROUTE_KEY_DROPPED ? bound : ROUTE_KEY_DROPPED + 1;
    for (u64 reaching = route_reaching(columns, bound) | (u64)route_reaching(columns + 32, bound) << 32; reaching != 0;) {
        u32 e = 63 - (u32)clz(reaching);
        reaching ^= (u64)1 << e;
        global const i32 *key = s.keys + e;
        for (u32 row = 0; row < num_rows; ++row, key += ROUTE_COLUMNS, e += ROUTE_COLUMNS) {
            s.list[n] = (i32)e;
            s.list_keys[n] = *key;
            n += *key >= bound;
        }
    }
    if (n <= ROUTE_FEW)
        return (u32)n;
    /* Perhaps many are equal to the bound: only the first K of them can be among the best. */
    n = 0;
    for (u32 e = 0; e < p.num_experts; ++e) {
        const u32 is_equal = (u32)(s.keys[e] == bound);
        s.list[n] = (i32)e;
        s.list_keys[n] = s.keys[e];
        n += (u32)(s.keys[e] > bound) | (is_equal & (u32)(equal < p.top_k));
        equal += is_equal;
    }
    return (u32)n;
}

static inline u32 route_list_candidates(struct route_params p, struct route_scratch s) {
    const u32 lanes = route_filter_lanes(p.num_experts, p.top_k);
    if (lanes == 16)
        return route_filter(p, 16, s);
    if (lanes == 32)
        return route_filter(p, 32, s);
    u32 n = 0;
    for (u32 e = 0; e < p.num_experts; ++e) {
        s.list[n] = (i32)e;
        s.list_keys[n] = s.keys[e];
        n += (u32)(s.keys[e] != ROUTE_KEY_DROPPED);
    }
    return n;
}

/* The K best of up to ROUTE_FEW candidates -> ids: the place of each is the number of better ones. Whole blocks are ranked, the last one
 * filled up with what ranks behind all. */
static inline void route_rank_few(struct route_scratch s, u32 n, u32 top_k, global i32 *ids) {
    i32 order[ROUTE_FEW];
    global i32 *const behind = s.list_keys + n;
    for (u32 i = 0; i < ROUTE_BLOCK; ++i)
        behind[i] = ROUTE_KEY_DROPPED;
    for (u32 first = 0; first < n; first += ROUTE_BLOCK) {
        global const i32 *const block = s.list + first, *const block_keys = s.list_keys + first;
        u32 place[ROUTE_BLOCK] = {0};
        for (u32 base = 0; base < n; base += ROUTE_BLOCK) {
            global const i32 *const others = s.list + base, *const other_keys = s.list_keys + base;
            for (u32 i = 0; i < ROUTE_BLOCK; ++i) {
                u32 better = 0;
                for (u32 other = 0; other < ROUTE_BLOCK; ++other)
                    better += route_is_before(other_keys[other], others[other], block_keys[i], block[i]);
                place[i] += better;
            }
        }
        for (u32 i = 0; i < ROUTE_BLOCK; ++i)
            order[place[i]] = block[i];
    }
    for (u32 k = 0; k < top_k; ++k)
        ids[k] = order[k];
}

/* The K best of many candidates, by a merge sort. */
static inline void route_sort_many(struct route_scratch s, u32 n, u32 top_k, global i32 *ids) {
    global i32 *from = s.list, *to = s.list_keys; /* the keys are looked up by expert */
    for (u32 width = 1; width < n; width *= 2) {
        for (u32 begin = 0; begin < n; begin += 2 * width) {
            const u32 middle = begin + width < n ? begin + width : n, end = begin + 2 * width < n ? begin + 2 * width : n;
            u32 left = begin, right = middle;
            for (u32 i = begin; i < end; ++i) {
                const i32 left_e = from[left < middle ? left : begin], right_e = from[right < end ? right : begin];
                const bool is_left = left < middle && (right >= end || route_is_before(s.keys[left_e], left_e, s.keys[right_e], right_e));
                to[i] = is_left ? left_e : right_e;
                left += is_left;
                right += !is_left;
            }
        }
        global i32 *const swapped = from;
        from = to;
        to = swapped;
    }
    for (u32 k = 0; k < top_k; ++k)
        ids[k] = from[k];
}
#endif

/* Weights of the chosen. Works on whole blocks, the last one filled up with weights of 0, which no sum notices. max, sum: of all
 * experts, where they are needed. */
static inline void NAME(route_weigh)(struct route_params p, global const LOGIT *row, global const float *expert_scale,
                                     global const i32 *ids, global u32 *weights, float max, float sum, struct route_scratch s) {
    const u32 padded = round_up(p.top_k, ROUTE_CHOSEN_BLOCK), summed = round_up(p.top_k, ROUTE_LANES);
    global u32 *made = (global u32 *)s.list_keys;
    i32 largest = ROUTE_KEY_DROPPED;
    global u32 *const last = made + (summed - ROUTE_LANES);
    for (u32 lane = 0; lane < ROUTE_LANES; ++lane)
        last[lane] = 0;
    for (u32 k = 0; k < padded; ++k) {
        const u32 bits = k < p.top_k ? logit_bits(row[ids[k < p.top_k ? k : 0]]) : ROUTE_NAN_BITS;
        const i32 key = route_key(bits);
        largest = key > largest ? key : largest;
        made[k] = route_bits(route_flush(route_number(bits)));
    }
    const bool is_score = p.weight_source == ROUTE_WEIGHTS_SCORE, needs_sum = is_score && (p.has & ROUTE_NEEDS_SUM) != 0;
    route_cap_all(p, made, padded);
    route_score_all(made, padded,
                    is_score                                          ? p.score
                    : p.weight_source == ROUTE_WEIGHTS_SOFTMAX_CHOSEN ? ROUTE_SOFTMAX
                                                                      : ROUTE_SIGMOID,
                    needs_sum ? max : route_value(p, route_bits_of_key(largest)));
    if (needs_sum)
        route_divide_all(made, padded, sum);
    else if (p.weight_source == ROUTE_WEIGHTS_SOFTMAX_CHOSEN)
        route_divide_all(made, padded, route_sum(made, summed));
    if (p.renormalize != ROUTE_KEEP_SUM)
        route_divide_all(made, padded, route_divisor(p.renormalize, route_sum(made, summed), p.epsilon));
    const bool has_expert_scale = (p.has & ROUTE_HAS_EXPERT_SCALE) != 0;
    for (u32 k = 0; k < p.top_k; ++k) {
        const float scale = has_expert_scale ? expert_scale[has_expert_scale ? ids[k] : 0] : 1.0f;
        weights[k] = route_bits(route_scaled(route_number(made[k]), p.scale, scale));
    }
}

/* One row -> ids [K] and weights [K]. */
static inline void NAME(route_row)(struct route_params p, global const LOGIT *row, global const float *bias,
                                   global const float *expert_scale, global i32 *ids, global u32 *weights, struct route_scratch s) {
    const u32 experts = p.num_experts, padded = round_up(experts, ROUTE_COLUMNS);
    const bool is_by_logit = (p.has & ROUTE_IS_BY_LOGIT) != 0, needs_sum = (p.has & ROUTE_NEEDS_SUM) != 0;
    float max = 0, sum = 1;
    global i32 *const last_keys = s.keys + (padded - ROUTE_COLUMNS);
    for (u32 column = 0; column < ROUTE_COLUMNS; ++column)
        last_keys[column] = ROUTE_KEY_DROPPED;
    for (u32 e = 0; e < experts; ++e)
        s.keys[e] = route_key(logit_bits(row[e]));
    if (needs_sum || !is_by_logit) {
        global u32 *const last_scores = s.scores + (padded - ROUTE_COLUMNS);
        for (u32 column = 0; column < ROUTE_COLUMNS; ++column)
            last_scores[column] = 0;
        for (u32 e = 0; e < experts; ++e)
            s.scores[e] = route_bits(route_flush(route_number(logit_bits(row[e]))));
        if (needs_sum)
            max = route_value(p, route_bits_of_key(route_largest(s.keys, experts)));
        route_cap_all(p, s.scores, experts);
        route_score_all(s.scores, experts, p.score, max);
        if (needs_sum)
            sum = route_sum(s.scores, padded);
        if (needs_sum && !is_by_logit)
            route_divide_all(s.scores, experts, sum);
    }
    if (!is_by_logit) {
        const bool has_bias = (p.has & ROUTE_HAS_BIAS) != 0;
        for (u32 e = 0; e < experts; ++e) {
            const float added = has_bias ? bias[has_bias ? e : 0] : 0.0f; /* clamped: a device may load it in any case */
            s.keys[e] = route_biased_key(logit_bits(row[e]), route_number(s.scores[e]), added);
        }
    }
    if (p.group_filter != ROUTE_GROUPS_NONE)
        route_drop_groups(p, s.keys, s.list);
    const u32 n = route_list_candidates(p, s);
    if (n <= ROUTE_FEW)
        route_rank_few(s, n, p.top_k, ids);
    else
        route_sort_many(s, n, p.top_k, ids);
    NAME(route_weigh)(p, row, expert_scale, ids, weights, max, sum, s);
}

/* Rows [first, last) in the scratch memory of one group. Not inline: the native build shares it among kernels. */
static void NAME(route_share)(struct route_params p, ROUTE_BUFFERS, u32 first, u32 last, global u32 *scratch) {
    const struct route_scratch s = route_slice_scratch(p, scratch);
    logits += p.logits_at;
    ids += p.topk_ids_at;
    weights += p.topk_weights_at;
    for (u32 row = first; row < last; ++row) {
#ifdef PREFETCH
        for (u32 e = 0; e < p.num_experts && last - row > 1; e += 64 / sizeof(LOGIT))
            PREFETCH(logits + (u64)(row + 1) * p.row_stride + e);
#endif
        NAME(route_row)
        (p, logits + (u64)row * p.row_stride, bias + p.bias_at, expert_scale + p.expert_scale_at, ids + (u64)row * p.top_k,
         weights + (u64)row * p.top_k, s);
    }
}

/* route_rows - ids and weights of my rows.
 * in       logits [T][E] (rows row_stride apart), bias [E], expert_scale [E]
 * out      ids [T][K], weights [T][K] f32
 * scratch  route_serial_items(E) for each group
 */
kernel void NAME(route_rows)(struct route_params p, ROUTE_BUFFERS, global u32 *scratch) {
    const u32 group = (u32)get_group_id(0), num_groups = (u32)get_num_groups(0);
    NAME(route_share)
    (p, logits, bias, expert_scale, ids, weights, share_begin(p.num_tokens, num_groups, group),
     share_begin(p.num_tokens, num_groups, group + 1), scratch + p.scratch_at + group * p.scratch_items);
}
