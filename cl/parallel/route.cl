/* route, parallel class: work-groups of W work-items, local memory and barriers. A team of p.team_size work-items shares a row; the teams
 * of a group take a row each, and go through all phases together.
 *
 *   rows   for each row: keys of all experts; the few that can be among the K best, their places by counting; their weights
 *
 * The filter: work-item j of a team has experts j, j + team_size, ...; the best of each are compared. The K-th best of these is a bound:
 * whatever ranks below it is none of the K best. Candidates are listed in any order; their places, and so the results, do not depend on it.
 *
 * Whoever compiles this defines W, and LOGIT and logit_bits() as for the serial class; ROUTE_SCORES if scores decide or a softmax needs its
 * sum, and ROUTE_GROUPS if there is a filter by groups.
 */
/* Slices of a team's scratch memory; route_team_items() of the host adds up the same. */
struct route_team {
    SCRATCH i32 *keys;                 /* [E]: first those of the logits, then those that decide */
    SCRATCH i32 *list;                 /* candidates; before that, keys of the groups of experts */
    SCRATCH i32 *best, *best_expert;   /* [team_size] */
    SCRATCH u32 *sums;                 /* [ROUTE_LANES], bits */
    SCRATCH i32 *chosen, *chosen_keys; /* [K]: experts, keys of their logits */
    SCRATCH u32 *weights;              /* [K], bits */
    SCRATCH i32 *state;                /* [4]: candidates; key and expert of the bound */
};

static inline struct route_team route_slice_team(struct route_params p, SCRATCH u32 *memory, u32 team) {
    struct route_team t;
#ifdef SCRATCH_IS_GLOBAL
    memory += p.scratch_at + get_group_id(0) * p.scratch_items;
#endif
    t.keys = (SCRATCH i32 *)memory + team * (u32)route_team_items(p.num_experts, p.top_k, p.num_groups, p.team_size);
    t.list = t.keys + p.num_experts;
    t.best = t.list + route_list_items(p.num_experts, p.top_k, p.num_groups, p.team_size);
    t.best_expert = t.best + p.team_size;
    t.sums = (SCRATCH u32 *)(t.best_expert + p.team_size);
    t.chosen = (SCRATCH i32 *)(t.sums + ROUTE_LANES);
    t.chosen_keys = t.chosen + p.top_k;
    t.weights = (SCRATCH u32 *)(t.chosen_keys + p.top_k);
    t.state = (SCRATCH i32 *)(t.weights + p.top_k);
    return t;
}

/* Sum of the numbers lane, lane + ROUTE_LANES, ... of n, each divided by `divisor` before. */
static inline float route_sum_lane(SCRATCH const u32 *items, u32 n, u32 lane, float divisor) {
    float sum = 0;
    for (u32 i = lane; i < n; i += ROUTE_LANES) {
        const float item = route_number(items[i]);
        sum += divisor == 1.0f ? item : route_divide(item, divisor);
    }
    return sum;
}

/* Sum of n numbers, each divided by `divisor` before, by each work-item on its own: the sums of lanes are added as route_add_lanes() does,
 * but one after the other, without an array, which GPUs would keep in memory. */
static inline float route_sum(SCRATCH const u32 *items, u32 n, float divisor) {
    float of_all = 0;
    ROLLED_LOOP
    for (u32 lane = 0; lane < 2; ++lane) {
        float of_16 = 0;
        ROLLED_LOOP
        for (u32 lane_2 = lane; lane_2 < 4; lane_2 += 2) {
            float of_8 = 0;
            ROLLED_LOOP
            for (u32 lane_4 = lane_2; lane_4 < 8; lane_4 += 4) {
                float of_4 = 0;
                ROLLED_LOOP
                for (u32 lane_8 = lane_4; lane_8 < 16; lane_8 += 8)
                    of_4 += route_sum_lane(items, n, lane_8, divisor) + route_sum_lane(items, n, lane_8 + 16, divisor);
                of_8 += of_4;
            }
            of_16 += of_8;
        }
        of_all += of_16;
    }
    return of_all;
}

/* Key of expert e, which is this work-item's own. Behind the last expert it means nothing, may
 * never have been written, and is read where no other work-item writes. */
static inline i32 route_own_key(struct route_params p, struct route_team t, u32 e, u32 lane) {
    return *(e < p.num_experts ? &t.keys[e] : &t.best[lane]);
}

/* The largest of keys [n], by each work-item on its own. */
static inline i32 route_largest(SCRATCH const i32 *keys, u32 n) {
    i32 largest = ROUTE_KEY_DROPPED;
    SCALAR_LOOP
    for (u32 i = 0; i < n; ++i)
        largest = keys[i] > largest ? keys[i] : largest;
    return largest;
}

#ifdef ROUTE_SCORES
/* Keys of the logits -> keys of scores and bias, unless the logits' decide. What a softmax over all experts needs: *max and *sum.
 * sync: none before; each work-item's own keys are complete on return, and best may be overwritten. */
static inline FLAT void route_score_experts(struct route_params p, global const float *bias, u32 lane, struct route_team t, float *max,
                                            float *sum) {
    const bool needs_sum = (p.has & ROUTE_NEEDS_SUM) != 0, has_bias = (p.has & ROUTE_HAS_BIAS) != 0;
    i32 largest = ROUTE_KEY_DROPPED;
    for (u32 base = 0; base < p.num_experts; base += p.team_size) {
        const u32 e = base + lane;
        const i32 key = route_own_key(p, t, e, lane);
        largest = e < p.num_experts && key > largest ? key : largest;
    }
    t.best[lane] = largest;
    GROUP_FENCE();
    const float all_max = needs_sum ? route_value(p, route_bits_of_key(route_largest(t.best, p.team_size))) : 0.0f;
    for (u32 base = 0; base < ROUTE_LANES; base += p.team_size) {
        const u32 part = base + lane;
        if (needs_sum && part < ROUTE_LANES) {
            float partial = 0;
            for (u32 first = 0; first < p.num_experts; first += ROUTE_LANES) {
                const u32 e = first + part;
                const i32 key = t.keys[e < p.num_experts ? e : 0];
                const float item = route_exp_below(route_value(p, route_bits_of_key(key)), all_max);
                partial += e < p.num_experts ? item : 0.0f;
            }
            t.sums[part] = route_bits(partial);
        }
    }
    GROUP_FENCE();
    const float all_sum = needs_sum ? route_sum(t.sums, ROUTE_LANES, 1.0f) : 1.0f;
    for (u32 base = 0; base < p.num_experts; base += p.team_size) {
        const u32 e = base + lane;
        if (!(p.has & ROUTE_IS_BY_LOGIT) && e < p.num_experts) {
            const u32 bits = route_bits_of_key(t.keys[e]);
            const float added = has_bias ? bias[has_bias ? e : 0] : 0.0f; /* clamped: a device may load it in any case */
            t.keys[e] = route_biased_key(bits, route_score(p.score, route_value(p, bits), all_max, all_sum), added);
        }
    }
    *max = all_max;
    *sum = all_sum;
}
#endif

#ifdef ROUTE_GROUPS
/* Keys of the experts whose group is not among the best: none is smaller. sync: none before; keys are complete on return. */
static inline void route_drop_groups(struct route_params p, struct route_team t, u32 lane) {
    const u32 size = p.num_experts / p.num_groups;
    GROUP_FENCE();
    for (u32 base = 0; base < p.num_groups; base += p.team_size) {
        const u32 group = base + lane;
        if (group < p.num_groups) {
            i32 best = ROUTE_KEY_DROPPED, second = ROUTE_KEY_DROPPED;
            SCALAR_LOOP
            for (u32 i = 0; i < size; ++i) {
                const i32 key = t.keys[group * size + i], lower = key < best ? key : best;
                second = lower > second ? lower : second;
                best = key > best ? key : best;
            }
            t.list[group] = route_group_key(p.group_filter, best, second);
        }
    }
    GROUP_FENCE();
    for (u32 base = 0; base < p.num_groups; base += p.team_size) {
        const u32 group = base + lane;
        if (group < p.num_groups) {
            const i32 key = t.list[group];
            u32 better = 0;
            SCALAR_LOOP
            for (u32 other = 0; other < p.num_groups; ++other)
                better += route_is_before(t.list[other], (i32)other, key, (i32)group);
            if (better >= p.kept_groups)
                SCALAR_LOOP
            for (u32 i = 0; i < size; ++i)
                t.keys[group * size + i] = ROUTE_KEY_DROPPED;
        }
    }
    GROUP_FENCE();
}
#endif

/* The bound -> state; if K is larger than the team it stays below all. sync: each work-item's own keys must be complete; all keys and the
 * bound are on return. */
static inline void route_find_bound(struct route_params p, struct route_team t, u32 lane) {
    i32 key = ROUTE_KEY_DROPPED, expert = (i32)lane;
    for (u32 base = 0; base < p.num_experts; base += p.team_size) {
        const u32 e = base + lane;
        const i32 other = route_own_key(p, t, e, lane);
        const bool is_better = e < p.num_experts && other > key;
        key = is_better ? other : key;
        expert = is_better ? (i32)e : expert;
    }
    t.best[lane] = key;
    t.best_expert[lane] = expert;
    if (lane == 0) {
        t.state[0] = 0;
        t.state[1] = ROUTE_KEY_DROPPED;
        t.state[2] = (i32)p.num_experts;
    }
    GROUP_FENCE();
    u32 better = 0;
    SCALAR_LOOP
    for (u32 i = 0; i < p.team_size; ++i)
        better += route_is_before(t.best[i], t.best_expert[i], key, expert);
    if (better == p.top_k - 1) {
        t.state[1] = key;
        t.state[2] = expert;
    }
    GROUP_FENCE();
}

/* Candidates -> list, how many -> state. sync: none before, all complete on return. */
static inline void route_list_candidates(struct route_params p, struct route_team t, u32 lane) {
    const i32 bound = t.state[1], bound_expert = t.state[2];
    for (u32 base = 0; base < p.num_experts; base += p.team_size) {
        const u32 e = base + lane;
        const i32 key = t.keys[e < p.num_experts ? e : 0];
        if (e < p.num_experts && key != ROUTE_KEY_DROPPED && !route_is_before(bound, bound_expert, key, (i32)e))
            t.list[atomic_inc((volatile SCRATCH i32 *)&t.state[0])] = (i32)e;
    }
    GROUP_FENCE();
}

/* The K best candidates -> chosen, with the keys of their logits. sync: none before, complete on return. */
static inline void route_choose(struct route_params p, global const LOGIT *logits, bool has_row, struct route_team t, u32 lane) {
    const u32 n = (u32)t.state[0];
    for (u32 base = 0; base < n; base += p.team_size) {
        const u32 i = base + lane;
        if (i < n) {
            const i32 e = t.list[i], key = t.keys[e];
            u32 better = 0;
            SCALAR_LOOP
            for (u32 j = 0; j < n; ++j) {
                const i32 other = t.list[j];
                better += route_is_before(t.keys[other], other, key, e);
            }
            if (better < p.top_k) {
                t.chosen[better] = e;
                if (has_row)
                    t.chosen_keys[better] = route_key(logit_bits(logits[e]));
                else
                    t.chosen_keys[better] = 0;
            }
        }
    }
    GROUP_FENCE();
}

/* One row; teams beyond the last row go along, with made-up logits and without results. sync: all work-items of the group. */
static inline FLAT void route_row(struct route_params p, ROUTE_BUFFERS, u32 row, u32 lane, struct route_team t) {
    const bool has_row = row < p.num_tokens;
    float max = 0, sum = 1;
    logits += (u64)row * p.row_stride;
    for (u32 base = 0; base < p.num_experts; base += p.team_size) {
        const u32 e = base + lane;
        if (e < p.num_experts && has_row)
            t.keys[e] = route_key(logit_bits(logits[e]));
        else if (e < p.num_experts)
            t.keys[e] = 0;
    }
#ifdef ROUTE_SCORES
    route_score_experts(p, bias, lane, t, &max, &sum);
#endif
#ifdef ROUTE_GROUPS
    route_drop_groups(p, t, lane);
#endif
    route_find_bound(p, t, lane);
    route_list_candidates(p, t, lane);
    route_choose(p, logits, has_row, t, lane);

    const float max_chosen = route_value(p, route_bits_of_key(route_largest(t.chosen_keys, p.top_k)));
    max = (p.has & ROUTE_NEEDS_SUM) ? max : max_chosen;
    for (u32 base = 0; base < p.top_k; base += p.team_size) {
        const u32 k = base + lane;
        if (k < p.top_k)
            t.weights[k] = route_bits(route_weight(p, route_value(p, route_bits_of_key(t.chosen_keys[k])), max, sum, max_chosen));
    }
    GROUP_FENCE();
    const float softmax_sum = p.weight_source == ROUTE_WEIGHTS_SOFTMAX_CHOSEN ? route_sum(t.weights, p.top_k, 1.0f) : 1.0f;
    const float divisor =
        p.renormalize == ROUTE_KEEP_SUM ? 1.0f : route_divisor(p.renormalize, route_sum(t.weights, p.top_k, softmax_sum), p.epsilon);
    const bool has_expert_scale = (p.has & ROUTE_HAS_EXPERT_SCALE) != 0;
    for (u32 base = 0; base < p.top_k; base += p.team_size) {
        const u32 k = base + lane;
        if (has_row && k < p.top_k) {
            const i32 e = t.chosen[k];
            const float scale = has_expert_scale ? expert_scale[has_expert_scale ? e : 0] : 1.0f;
            const float weight = route_divide(route_divide(route_number(t.weights[k]), softmax_sum), divisor);
            ids[(u64)row * p.top_k + k] = e;
            weights[(u64)row * p.top_k + k] = route_bits(route_scaled(weight, p.scale, scale));
        }
    }
}

/* This group's share of the rows. */
static inline FLAT void route_share(struct route_params p, ROUTE_BUFFERS, SCRATCH u32 *memory) {
    const u32 team = (u32)get_local_id(0) / p.team_size, lane = (u32)get_local_id(0) % p.team_size, num_teams = W / p.team_size;
    const u32 num_groups = (u32)get_num_groups(0), num_tiles = ceil_div(p.num_tokens, num_teams);
    const struct route_team t = route_slice_team(p, memory, team);
    p.num_experts = positive(p.num_experts);
    p.top_k = positive(p.top_k);
    u32 tile = (u32)get_group_id(0);
    do { /* once at least: PoCL compiles twice what comes behind barriers that may be left out */
        route_row(p, logits + p.logits_at, bias + p.bias_at, expert_scale + p.expert_scale_at, ids + p.topk_ids_at,
                  weights + p.topk_weights_at, tile * num_teams + team, lane, t);
        tile += num_groups;
    } while (tile < num_tiles);
}

/* route_rows - ids and weights of my rows.
 * in    logits [T][E] (rows row_stride apart), bias [E], expert_scale [E]
 * out   ids [T][K], weights [T][K] f32
 * sync  all work-items of a group reach every barrier
 */
kernel __attribute__((reqd_work_group_size(W, 1, 1))) void route_rows(struct route_params p, ROUTE_BUFFERS, SCRATCH u32 *memory) {
    route_share(p, logits, bias, expert_scale, ids, weights, memory);
}
