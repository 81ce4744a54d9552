/* What the inputs of the bench hold: recorded and made-up routing, logits, samples and keys; the same bits on every machine. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers -------------------------------------------------------------------------------------------------------------------- */

uint64_t bench_hash(uint64_t hash, const void *data, size_t bytes) {
    const char *at = data;
    hash = hash ? hash : 0xcbf29ce484222325u;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    for (; bytes > 0; bytes--, at++) {
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    }
    return hash;
}

/* splitmix64 */
static uint64_t random_u64(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint32_t random_below(uint64_t *state, uint32_t limit) {
    return (uint32_t)((random_u64(state) >> 32) * limit >> 32);
}

static double random_unit(uint64_t *state) {
    return (double)(random_u64(state) >> 11) * 0x1p-53;
}

/* Near a normal distribution, and the same bits everywhere: a sum of four uniform numbers. */
static float random_logit(uint64_t *state) {
    int64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += (int64_t)(random_u64(state) >> 42) - (1 << 21);
    }
    return (float)sum * 0x1p-20f;
}

/* ---- Ids ------------------------------------------------------------------------------------------------------------------------ */

static void fill_distinct(int32_t *ids, const bench_workload *work, uint64_t *state) {
    for (uint32_t t = 0; t < work->num_tokens; t++) {
        int32_t *row = ids + (size_t)t * work->top_k;
        for (uint32_t k = 0; k < work->top_k; k++) {
            bool is_new = false;
            while (!is_new) {
                row[k] = (int32_t)random_below(state, work->num_experts);
                is_new = true;
                for (uint32_t j = 0; j < k; j++) {
                    is_new = is_new && row[j] != row[k];
                }
            }
        }
    }
}

static void fill_balanced(int32_t *ids, const bench_workload *work) {
    const uint32_t stride = (work->num_experts + work->top_k - 1) / work->top_k;
    for (uint32_t t = 0; t < work->num_tokens; t++) {
        const uint32_t first = work->num_tokens >= stride ? t : t * stride / work->num_tokens;
        for (uint32_t k = 0; k < work->top_k; k++) {
            ids[(size_t)t * work->top_k + k] = (int32_t)((first + k * stride) % work->num_experts);
        }
    }
}

static void fill_one_hot(int32_t *ids, const bench_workload *work, uint64_t *state) {
    bench_workload one = *work;
    one.num_tokens = 1;
    fill_distinct(ids, &one, state);
    for (uint32_t t = 1; t < work->num_tokens; t++) {
        memcpy(ids + (size_t)t * work->top_k, ids, work->top_k * sizeof *ids);
    }
}

/* How many tokens each expert gets: weights from the power law by its inverse distribution, scaled to N, rounded, at most T for one. */
static void deal_counts(const bench_workload *work, uint64_t *state, double *weights, uint32_t *counts) {
    const uint32_t num_experts = work->num_experts, num_tokens = work->num_tokens;
    const int64_t num_pairs = (int64_t)num_tokens * work->top_k;
    const bool is_small = num_pairs <= num_experts;
    const double low = is_small ? 0.01 : 1, high = is_small ? 2 : 0.8 * num_tokens, power = 1 - work->alpha;
    double sum = 0;
    int64_t left = num_pairs;
    for (uint32_t e = 0; e < num_experts; e++) {
        weights[e] = pow((pow(high, power) - pow(low, power)) * random_unit(state) + pow(low, power), 1 / power);
        sum += weights[e];
    }
    for (uint32_t e = 0; e < num_experts; e++) {
        const double share = round(weights[e] / sum * (double)num_pairs);
        counts[e] = share < num_tokens ? (uint32_t)share : num_tokens;
        left -= counts[e];
    }
    for (uint32_t e = 0; left != 0; e = (e + 1) % num_experts) {
        if (left > 0 && counts[e] < num_tokens) {
            counts[e]++;
            left--;
        } else if (left < 0 && counts[e] > 0) {
            counts[e]--;
            left++;
        }
    }
}

/* Experts stand in a row, each as often as it counts, and are dealt to the tokens in turn: none gets one twice. Then the tokens are put
 * in random order, as no batch comes sorted. */
static bool fill_power_law(int32_t *ids, const bench_workload *work, uint64_t *state) {
    const uint32_t num_tokens = work->num_tokens, top_k = work->top_k;
    double *weights = calloc(work->num_experts, sizeof *weights);
    uint32_t *counts = calloc(work->num_experts, sizeof *counts), *order = calloc(num_tokens, sizeof *order);
    const bool is_good = weights && counts && order;
    if (is_good) {
        deal_counts(work, state, weights, counts);
        for (uint32_t t = 0; t < num_tokens; t++) {
            const uint32_t other = random_below(state, t + 1);
            order[t] = order[other];
            order[other] = t;
        }
        uint32_t token = 0, slot = 0;
        for (uint32_t e = 0; e < work->num_experts; e++) {
            for (uint32_t i = 0; i < counts[e]; i++) {
                ids[(size_t)order[token] * top_k + (slot + order[token]) % top_k] = (int32_t)e;
                token++;
                slot += token == num_tokens;
                token = token == num_tokens ? 0 : token;
            }
        }
    }
    free(weights);
    free(counts);
    free(order);
    return is_good;
}

/* Recorded routing: [24 layers][64 steps][64 requests][4], or [3 layers][16384 tokens][4]. */
static bool fill_recorded(bench_problem *problem, const char *data_dir) {
    const bench_workload *work = problem->work;
    const bool is_decode = work->content == BENCH_DECODE;
    char path[4096], error[200];
    npy_array recorded;
    snprintf(path, sizeof path, "%s/%s", data_dir,
             is_decode ? "gptoss20b_decode_topk_ids.npy" : "gptoss20b_stream_topk_ids_L0_L11_L23.npy");
    if (!npy_read(path, &recorded, error, sizeof error)) {
        snprintf(problem->reason, sizeof problem->reason, "no recorded routing (--data DIR): %.110s: %.90s", path, error);
        return false;
    }
    const size_t batch_bytes = is_decode ? problem->input_bytes[0] : (size_t)16384 * 4 * sizeof(int32_t);
    const size_t num_batches = recorded.num_items * recorded.item_bytes / batch_bytes;
    const bool is_good = recorded.kind == 'i' && recorded.item_bytes == 4 && recorded.num_items == (is_decode ? 393216 : 196608);
    if (!is_good) {
        snprintf(problem->reason, sizeof problem->reason, "%.200s: not the array that was expected", path);
    }
    for (uint32_t set = 0; set < problem->num_sets && is_good; set++) {
        /* Batches of all layers and steps, few neighbours; the first is layer 11, step 20. */
        const size_t batch = is_decode ? (11 * 64 + 20 + set * (size_t)97) % num_batches : set % num_batches;
        memcpy(problem->inputs[set][0], (const char *)recorded.data + batch * batch_bytes, problem->input_bytes[0]);
    }
    npy_free(&recorded);
    return is_good;
}

/* ---- Filling the sets ----------------------------------------------------------------------------------------------------------- */

static bool fill_ids(const bench_problem *problem, uint32_t set, uint64_t *state) {
    const bench_workload *work = problem->work;
    int32_t *ids = problem->inputs[set][0];
    switch (work->content) {
    case BENCH_BALANCED: fill_balanced(ids, work); return true;
    case BENCH_ONE_HOT: fill_one_hot(ids, work, state); return true;
    case BENCH_POWER_LAW: return fill_power_law(ids, work, state);
    case BENCH_DISTINCT: fill_distinct(ids, work, state); return true;
    default:
        for (size_t f = 0; f < (size_t)work->num_tokens * work->top_k; f++) {
            ids[f] = (int32_t)random_below(state, work->num_experts);
        }
        return true;
    }
}

static void fill_words(uint32_t *words, size_t bytes, uint64_t *state) {
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        words[i] = (uint32_t)random_u64(state);
    }
}

static bool fill_set(const bench_problem *problem, uint32_t set) {
    const bench_workload *work = problem->work;
    uint64_t state = 0x5eed + set;
    uint32_t *first = problem->inputs[set][0];
    switch (work->op) {
    case BENCH_ALIGN:
    case BENCH_EMPTY:
        if (work->num_ranks > 1) {
            int32_t *map = problem->inputs[set][1];
            for (uint32_t e = 0; e < work->num_experts; e++) {
                map[e] = e < work->num_experts / work->num_ranks ? (int32_t)e : -1;
            }
        }
        return fill_ids(problem, set, &state);
    case BENCH_HISTOGRAM:
        for (uint32_t i = 0; i < work->num_items; i++) {
            first[i] = work->content == BENCH_ALL_EQUAL ? 7 : random_below(&state, work->num_bins);
        }
        return true;
    case BENCH_ROUTE:
    case BENCH_ROUTE_ALIGN:
        for (uint32_t i = 0; i < problem->num_inputs; i++) {
            float *values = problem->inputs[set][i];
            const bool is_bias = i == 1 && work->router.has_bias; /* around 0; scales lie around 1 */
            for (size_t j = 0; j < problem->input_bytes[i] / sizeof *values; j++) {
                values[j] = i == 0 ? random_logit(&state) : is_bias ? 0.1f * (float)random_unit(&state) : 0.5f + (float)random_unit(&state);
            }
        }
        return true;
    case BENCH_GATHER: {
        int32_t *index = problem->inputs[set][1];
        fill_words(first, problem->input_bytes[0], &state);
        for (uint32_t i = 0; i < work->num_items; i++) {
            index[i] = (int32_t)random_below(&state, work->num_items);
        }
        return true;
    }
    default:
        for (uint32_t i = 0; i < problem->num_inputs; i++) {
            fill_words(problem->inputs[set][i], problem->input_bytes[i], &state);
        }
        return true;
    }
}

bool bench_fill_inputs(bench_problem *problem, const char *data_dir) {
    const bench_content content = problem->work->content;
    bool is_good = true;
    if (content == BENCH_DECODE || content == BENCH_PREFILL) {
        return fill_recorded(problem, data_dir);
    }
    for (uint32_t set = 0; set < problem->num_sets && is_good; set++) {
        is_good = fill_set(problem, set);
    }
    if (!is_good) {
        snprintf(problem->reason, sizeof problem->reason, "no memory");
    }
    return is_good;
}
