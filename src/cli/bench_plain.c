#include "bench_plain.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)

/* ---- align: vLLM's job in the fewest steps: count, pad, place ------------------------------------------------------------------- */

static inline uint32_t bucket_of(const bench_align_job *job, uint32_t pair) {
    const uint32_t id = (uint32_t)job->ids[pair];
    return job->map && id < job->num_experts ? (uint32_t)job->map[id] : id;
}

static void count_pairs(const bench_align_job *job, uint32_t first, uint32_t end, uint32_t *counts) {
    const uint32_t num_experts = job->num_experts;
    memset(counts, 0, num_experts * sizeof *counts);
    for (uint32_t f = first; f < end; f++) {
        const uint32_t e = bucket_of(job, f);
        if (e < num_experts) {
            counts[e]++;
        }
    }
}

static void place_pairs(const bench_align_job *job, uint32_t first, uint32_t end, uint32_t *next) {
    const uint32_t num_experts = job->num_experts;
    for (uint32_t f = first; f < end; f++) {
        const uint32_t e = bucket_of(job, f);
        if (e < num_experts) {
            job->sorted[next[e]++] = (int32_t)f;
        }
    }
}

static void fill(int32_t *items, uint32_t first, uint32_t end, int32_t value) {
    for (uint32_t i = first; i < end; i++) {
        items[i] = value;
    }
}

/* Turns counts into first rows; writes the padding and expert_ids. `others` are the counts of a second half, NULL if there is none. */
static void pad(const bench_align_job *job, uint32_t *next, uint32_t *others) {
    const int32_t pad_value = (int32_t)job->num_pairs;
    uint32_t row = 0, block = 0;
    for (uint32_t e = 0; e < job->num_experts; e++) {
        const uint32_t here = next[e], count = here + (others ? others[e] : 0);
        const uint32_t num_blocks = (count + job->block_size - 1) / job->block_size, end = row + num_blocks * job->block_size;
        next[e] = row;
        if (others) {
            others[e] = row + here;
        }
        fill(job->sorted, row + count, end, pad_value);
        fill(job->blocks, block, block + num_blocks, (int32_t)e);
        block += num_blocks;
        row = end;
    }
    *job->total = (int32_t)row;
    fill(job->sorted, row, job->capacity, pad_value);
    fill(job->blocks, block, job->capacity / job->block_size, -1);
}

static void plain_align(const bench_align_job *job) {
    count_pairs(job, 0, job->num_pairs, job->next);
    pad(job, job->next, NULL);
    place_pairs(job, 0, job->num_pairs, job->next);
}

typedef struct align_halves {
    const bench_align_job *job;
    bench_team *team;
} align_halves;

static void align_half(void *data, uint32_t thread) {
    const align_halves *halves = data;
    const bench_align_job *job = halves->job;
    const uint32_t middle = job->num_pairs / 2, first = thread ? middle : 0, end = thread ? job->num_pairs : middle;
    uint32_t *counts = job->next + (thread ? job->num_experts : 0);
    count_pairs(job, first, end, counts);
    bench_team_meet(halves->team);
    if (thread == 0) {
        pad(job, job->next, job->next + job->num_experts);
    }
    bench_team_meet(halves->team);
    place_pairs(job, first, end, counts);
}

static void plain_align_two(const bench_align_job *job, bench_team *team) {
    align_halves halves = {job, team};
    bench_team_run(team, align_half, &halves);
}

/* ---- Primitives ----------------------------------------------------------------------------------------------------------------- */

static void plain_histogram(const uint32_t *samples, uint32_t num_items, uint32_t num_bins, uint32_t *counts) {
    memset(counts, 0, num_bins * sizeof *counts);
    for (uint32_t i = 0; i < num_items; i++) {
        if (samples[i] < num_bins) {
            counts[samples[i]]++;
        }
    }
}

static void plain_scan(const uint32_t *input, uint32_t num_items, uint32_t *output) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < num_items; i++) {
        const uint32_t item = input[i];
        output[i] = sum;
        sum += item;
    }
}

static void sort_pass(const uint32_t *restrict keys, const uint32_t *restrict values, uint32_t num_items, uint32_t shift,
                      uint32_t *restrict next, uint32_t *restrict keys_out, uint32_t *restrict values_out) {
    for (uint32_t i = 0; i < num_items; i++) {
        const uint32_t key = keys[i], to = next[key >> shift & 255]++;
        keys_out[to] = key;
        if (values) {
            values_out[to] = values[i];
        }
    }
}

static void plain_sort(const uint32_t *keys, const uint32_t *values, uint32_t num_items, uint32_t *keys_out, uint32_t *values_out,
                       uint32_t *keys_scratch, uint32_t *values_scratch) {
    uint32_t next[4][256] = {{0}};
    for (uint32_t i = 0; i < num_items; i++) {
        for (uint32_t digit = 0; digit < 4; digit++) {
            next[digit][keys[i] >> 8 * digit & 255]++;
        }
    }
    for (uint32_t digit = 0; digit < 4; digit++) {
        uint32_t sum = 0;
        for (uint32_t bucket = 0; bucket < 256; bucket++) {
            const uint32_t count = next[digit][bucket];
            next[digit][bucket] = sum;
            sum += count;
        }
    }
    /* The values decide once for all passes, not for each item. */
    if (values) {
        sort_pass(keys, values, num_items, 0, next[0], keys_scratch, values_scratch);
        sort_pass(keys_scratch, values_scratch, num_items, 8, next[1], keys_out, values_out);
        sort_pass(keys_out, values_out, num_items, 16, next[2], keys_scratch, values_scratch);
        sort_pass(keys_scratch, values_scratch, num_items, 24, next[3], keys_out, values_out);
    } else {
        sort_pass(keys, NULL, num_items, 0, next[0], keys_scratch, NULL);
        sort_pass(keys_scratch, NULL, num_items, 8, next[1], keys_out, NULL);
        sort_pass(keys_out, NULL, num_items, 16, next[2], keys_scratch, NULL);
        sort_pass(keys_scratch, NULL, num_items, 24, next[3], keys_out, NULL);
    }
}

static void plain_gather(const char *source, const int32_t *index, uint32_t num_items, uint32_t row_bytes, char *destination) {
    if (row_bytes == 64) { /* a size that the compiler knows becomes a few vector moves */
        for (uint32_t i = 0; i < num_items; i++) {
            memcpy(destination + (size_t)i * 64, source + (size_t)index[i] * 64, 64);
        }
        return;
    }
    for (uint32_t i = 0; i < num_items; i++) {
        memcpy(destination + (size_t)i * row_bytes, source + (size_t)index[i] * row_bytes, row_bytes);
    }
}

/* ---- route ---------------------------------------------------------------------------------------------------------------------- */

enum { MAX_CHOSEN = 64 };

static float capped(const clmoe_router *router, float x) {
    return router->softcap > 0 ? router->softcap * tanhf(x / router->softcap) : x;
}

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

/* Of one logit; a softmax lacks its denominator still. */
static float score_of(const clmoe_router *router, float x, float largest) {
    switch (router->score) {
    case CLMOE_SCORE_SOFTMAX: return expf(x - largest);
    case CLMOE_SCORE_SIGMOID: return sigmoid(x);
    case CLMOE_SCORE_SQRT_SOFTPLUS: return sqrtf(x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x)));
    case CLMOE_SCORE_IDENTITY: break;
    }
    return x;
}

/* The `count` largest of the keys, the first of equal ones first. */
static void choose(const float *keys, uint32_t num_keys, uint32_t count, int32_t *ids) {
    float best[MAX_CHOSEN];
    for (uint32_t k = 0; k < count; k++) {
        best[k] = -INFINITY;
        ids[k] = 0;
    }
    for (uint32_t e = 0; e < num_keys; e++) {
        const float key = keys[e];
        if (key > best[count - 1]) {
            uint32_t k = count - 1;
            for (; k > 0 && key > best[k - 1]; k--) {
                best[k] = best[k - 1];
                ids[k] = ids[k - 1];
            }
            best[k] = key;
            ids[k] = (int32_t)e;
        }
    }
}

/* Keys of the groups that are dropped become -Inf. */
static void filter_groups(const clmoe_router *router, float *keys, float *worth) {
    const uint32_t num_groups = router->num_groups, size = router->num_experts / num_groups;
    int32_t kept[MAX_CHOSEN];
    for (uint32_t g = 0; g < num_groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (uint32_t e = g * size; e < (g + 1) * size; e++) {
            second = keys[e] > first ? first : keys[e] > second ? keys[e] : second;
            first = keys[e] > first ? keys[e] : first;
        }
        worth[g] = router->group_filter == CLMOE_GROUPS_MAX ? first : first + second;
    }
    choose(worth, num_groups, router->kept_groups, kept);
    for (uint32_t g = 0; g < num_groups; g++) {
        worth[g] = 0;
    }
    for (uint32_t k = 0; k < router->kept_groups; k++) {
        worth[kept[k]] = 1;
    }
    for (uint32_t e = 0; e < router->num_experts; e++) {
        keys[e] = worth[e / size] > 0 ? keys[e] : -INFINITY;
    }
}

static void weigh(const bench_route_job *job, const float *logits, const int32_t *ids, float largest, float denominator, float *weights) {
    const clmoe_router *router = job->router;
    const uint32_t top_k = router->top_k;
    float sum = 0, largest_chosen = -INFINITY;
    for (uint32_t k = 0; k < top_k; k++) {
        weights[k] = capped(router, logits[ids[k]]);
        largest_chosen = weights[k] > largest_chosen ? weights[k] : largest_chosen;
    }
    for (uint32_t k = 0; k < top_k; k++) {
        weights[k] = router->weight_source == CLMOE_WEIGHTS_SOFTMAX_CHOSEN   ? expf(weights[k] - largest_chosen)
                     : router->weight_source == CLMOE_WEIGHTS_SIGMOID_CHOSEN ? sigmoid(weights[k])
                                                                             : score_of(router, weights[k], largest) / denominator;
        sum += weights[k];
    }
    const bool is_softmax = router->weight_source == CLMOE_WEIGHTS_SOFTMAX_CHOSEN;
    float divisor = is_softmax ? sum : 1;
    sum = is_softmax ? 1 : sum;
    switch (router->renormalize) {
    case CLMOE_RENORMALIZE_NONE: break;
    case CLMOE_RENORMALIZE_SUM: divisor *= sum; break;
    case CLMOE_RENORMALIZE_SUM_PLUS_EPSILON: divisor *= sum + router->epsilon; break;
    case CLMOE_RENORMALIZE_MAX_EPSILON: divisor *= sum > router->epsilon ? sum : router->epsilon; break;
    }
    for (uint32_t k = 0; k < top_k; k++) {
        weights[k] = weights[k] / divisor * (router->scale > 0 ? router->scale : 1) * (job->expert_scale ? job->expert_scale[ids[k]] : 1);
    }
}

/* Without a bias and sums the choice is made on the logits, for scores grow with them; then only the chosen need a score. */
static void plain_route(const bench_route_job *job) {
    const clmoe_router *router = job->router;
    const uint32_t num_experts = router->num_experts, top_k = router->top_k;
    const bool is_by_score = job->bias || router->group_filter == CLMOE_GROUPS_TOP2_SUM;
    const bool is_softmax = router->score == CLMOE_SCORE_SOFTMAX && router->weight_source == CLMOE_WEIGHTS_SCORE;
    const bool needs_sum =
        router->score == CLMOE_SCORE_SOFTMAX && (is_by_score || (is_softmax && router->renormalize != CLMOE_RENORMALIZE_SUM));
    for (uint32_t t = 0; t < job->num_tokens; t++) {
        const float *logits = job->logits + (size_t)t * num_experts;
        const float *keys = logits;
        int32_t *ids = job->ids + (size_t)t * top_k;
        float largest = 0, sum = 1;
        if (needs_sum) {
            largest = -INFINITY;
            for (uint32_t e = 0; e < num_experts; e++) {
                largest = logits[e] > largest ? logits[e] : largest;
            }
            largest = capped(router, largest);
            sum = 0;
            for (uint32_t e = 0; e < num_experts; e++) {
                sum += expf(capped(router, logits[e]) - largest);
            }
        }
        if (is_by_score || router->group_filter != CLMOE_GROUPS_NONE) {
            for (uint32_t e = 0; e < num_experts; e++) {
                const float score = is_by_score ? score_of(router, capped(router, logits[e]), largest) / sum : logits[e];
                job->keys[e] = score + (job->bias ? job->bias[e] : 0);
            }
            if (router->group_filter != CLMOE_GROUPS_NONE) {
                filter_groups(router, job->keys, job->keys + num_experts);
            }
            keys = job->keys;
        }
        choose(keys, num_experts, top_k, ids);
        if (is_softmax && !needs_sum) {
            largest = capped(router, logits[ids[0]]);
        }
        weigh(job, logits, ids, largest, needs_sum && is_softmax ? sum : 1, job->weights + (size_t)t * top_k);
    }
}

static uint32_t plain_sum(const uint32_t *items, size_t num_items) {
    uint32_t sum = 0;
    for (size_t i = 0; i < num_items; i++) {
        sum += items[i];
    }
    return sum;
}

const bench_plain *JOIN(bench_plain, CLMOE_PLAIN_LEVEL)(void) {
    static const bench_plain plain = {plain_align, plain_align_two, plain_histogram, plain_scan,
                                      plain_sort,  plain_gather,    plain_route,     plain_sum};
    return &plain;
}
