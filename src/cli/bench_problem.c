#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "npy.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SMALL_INPUT_BYTES = 256 << 10, /* of all sets, where one call stays inside the caches */
    LARGE_BYTES = 4 << 20          /* moved by a call that no core's own cache holds */
};

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

/* ---- Sizes ---------------------------------------------------------------------------------------------------------------------- */

static clmoe_align_desc align_desc(const bench_workload *work) {
    const clmoe_align_desc desc = {
        .max_tokens = work->num_tokens, .top_k = work->top_k, .num_experts = work->num_experts, .block_size = work->block_size};
    return desc;
}

static void size_align(bench_problem *problem) {
    const bench_workload *work = problem->work;
    const clmoe_align_desc desc = align_desc(work);
    clmoe_align_max_rows(&desc, work->num_tokens, &problem->capacity);
    problem->num_inputs = work->num_ranks > 1 ? 2 : 1;
    problem->input_bytes[0] = (size_t)work->num_tokens * work->top_k * sizeof(int32_t);
    problem->input_bytes[1] = work->num_experts * sizeof(int32_t);
    problem->num_outputs = 3;
    problem->output_bytes[0] = problem->capacity * sizeof(int32_t);
    problem->output_bytes[1] = problem->capacity / work->block_size * sizeof(int32_t);
    problem->output_bytes[2] = sizeof(int32_t);
}

static void size_arrays(bench_problem *problem) {
    const bench_workload *work = problem->work;
    const size_t words = (size_t)work->num_items * sizeof(uint32_t);
    problem->num_inputs = problem->num_outputs = 1;
    problem->input_bytes[0] = problem->output_bytes[0] = words;
    switch (work->op) {
    case BENCH_EMPTY:
    case BENCH_ALIGN: size_align(problem); break;
    case BENCH_HISTOGRAM: problem->output_bytes[0] = work->num_bins * sizeof(uint32_t); break;
    case BENCH_SORT_PAIRS:
        problem->num_inputs = problem->num_outputs = 2;
        problem->input_bytes[1] = problem->output_bytes[1] = words;
        break;
    case BENCH_GATHER:
        problem->num_inputs = 2;
        problem->input_bytes[0] = problem->output_bytes[0] = (size_t)work->num_items * work->row_bytes;
        problem->input_bytes[1] = words;
        break;
    case BENCH_ROUTE:
        problem->input_bytes[0] = (size_t)work->num_tokens * work->num_experts * sizeof(float);
        problem->num_inputs = 1u + (work->router.has_bias != 0) + (work->router.has_expert_scale != 0);
        problem->input_bytes[1] = problem->input_bytes[2] = work->num_experts * sizeof(float);
        problem->num_outputs = 2;
        problem->output_bytes[0] = problem->output_bytes[1] = (size_t)work->num_tokens * work->top_k * sizeof(float);
        break;
    case BENCH_COPY:
    case BENCH_SCAN:
    case BENCH_SORT_KEYS: break;
    }
    for (uint32_t i = 0; i < problem->num_inputs; i++) {
        problem->bytes_read += problem->input_bytes[i];
    }
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        problem->bytes_written += problem->output_bytes[i];
    }
}

static size_t scratch_bytes(const bench_problem *problem) {
    const bench_operator op = problem->work->op;
    return op == BENCH_ALIGN || op == BENCH_EMPTY            ? 2 * problem->work->num_experts * sizeof(uint32_t)
           : op == BENCH_ROUTE                               ? 2 * problem->work->num_experts * sizeof(float)
           : op == BENCH_SORT_KEYS || op == BENCH_SORT_PAIRS ? problem->bytes_written
                                                             : 0;
}

/* What this machine can give, by its own account; 0 = unknown. */
static uint64_t free_bytes(void) {
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return (uint64_t)kib * 1024;
}

/* For large calls so many sets that what a call reads has left the last cache when it comes round again. Smaller calls find their data in
 * the cache, as they do behind a router; they rotate so that nothing is learnt by heart. */
static uint32_t choose_num_sets(const bench_problem *problem, uint64_t cache_bytes, uint64_t budget_bytes, uint64_t fixed_bytes) {
    const uint64_t bytes = problem->bytes_read > 0 ? problem->bytes_read : 1;
    const uint64_t moved = problem->bytes_read + problem->bytes_written;
    const bool is_large = moved > LARGE_BYTES || moved > cache_bytes / 4;
    uint64_t sets = is_large ? cache_bytes / bytes + 2 : SMALL_INPUT_BYTES / bytes;
    const uint64_t fitting = budget_bytes > fixed_bytes ? (budget_bytes - fixed_bytes) / bytes : 0;
    sets = sets < fitting ? sets : fitting;
    return sets < 1 ? 1 : sets > BENCH_MAX_SETS ? BENCH_MAX_SETS : (uint32_t)sets;
}

static bool allocate(bench_problem *problem) {
    bool is_good = true;
    for (uint32_t set = 0; set < problem->num_sets; set++) {
        for (uint32_t i = 0; i < problem->num_inputs; i++) {
            problem->inputs[set][i] = malloc(problem->input_bytes[i] + 1);
            is_good = is_good && problem->inputs[set][i];
        }
    }
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        problem->expected[i] = malloc(problem->output_bytes[i] + 1);
        is_good = is_good && problem->expected[i];
    }
    problem->scratch = malloc(scratch_bytes(problem) + 1);
    return is_good && problem->scratch;
}

void bench_problem_open(bench_problem *problem, const bench_workload *work, const char *data_dir, uint64_t cache_bytes,
                        uint32_t num_copies) {
    memset(problem, 0, sizeof *problem);
    problem->work = work;
    size_arrays(problem);
    const uint64_t available = free_bytes(), budget = available ? available / 4 : UINT64_MAX;
    /* Outputs: what is expected, the host's, the native device's, and one more for each OpenCL device. Where plain C needs scratch
     * memory, a device needs a workspace of about that size. */
    const uint64_t outputs = problem->bytes_written * (num_copies + 2) + scratch_bytes(problem) * (num_copies + 1);
    const uint64_t sets_budget = budget == UINT64_MAX ? budget : budget / num_copies;
    problem->num_sets = choose_num_sets(problem, cache_bytes, sets_budget, outputs / num_copies);
    const uint64_t needed = problem->bytes_read * problem->num_sets * num_copies + outputs;
    if (needed > budget) {
        char needed_text[32], budget_text[32];
        report_bytes(needed, needed_text, sizeof needed_text);
        report_bytes(budget, budget_text, sizeof budget_text);
        snprintf(problem->reason, sizeof problem->reason, "needs %s of memory, a quarter of what is free is %s", needed_text, budget_text);
        return;
    }
    if (!allocate(problem)) {
        snprintf(problem->reason, sizeof problem->reason, "no memory");
        return;
    }
    if (work->content == BENCH_DECODE || work->content == BENCH_PREFILL) {
        if (!fill_recorded(problem, data_dir)) {
            return;
        }
    } else {
        for (uint32_t set = 0; set < problem->num_sets; set++) {
            if (!fill_set(problem, set)) {
                snprintf(problem->reason, sizeof problem->reason, "no memory");
                return;
            }
        }
    }
    for (uint32_t i = 0; i < problem->num_inputs; i++) {
        problem->input_hash = bench_hash(problem->input_hash, problem->inputs[0][i], problem->input_bytes[i]);
    }
    problem->expected_set = UINT32_MAX;
    bench_problem_expect(problem, 0);
}

void bench_problem_close(bench_problem *problem) {
    for (uint32_t set = 0; set < problem->num_sets; set++) {
        for (uint32_t i = 0; i < problem->num_inputs; i++) {
            free(problem->inputs[set][i]);
        }
    }
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        free(problem->expected[i]);
    }
    free(problem->scratch);
}

/* ---- Plain C -------------------------------------------------------------------------------------------------------------------- */

static bench_align_job align_job(const bench_problem *problem, uint32_t set, void *const *outputs) {
    const bench_workload *work = problem->work;
    const bench_align_job job = {.ids = problem->inputs[set][0],
                                 .map = work->num_ranks > 1 ? problem->inputs[set][1] : NULL,
                                 .num_pairs = work->num_tokens * work->top_k,
                                 .num_experts = work->num_experts,
                                 .block_size = work->block_size,
                                 .capacity = problem->capacity,
                                 .sorted = outputs[0],
                                 .blocks = outputs[1],
                                 .total = outputs[2],
                                 .next = problem->scratch};
    return job;
}

void bench_problem_plain(const bench_problem *problem, const bench_plain *plain, uint32_t set, void *const *outputs, bench_team *team) {
    const bench_workload *work = problem->work;
    void *const *inputs = problem->inputs[set];
    char *scratch = problem->scratch;
    switch (work->op) {
    case BENCH_EMPTY:
    case BENCH_ALIGN: {
        const bench_align_job job = align_job(problem, set, outputs);
        if (team) {
            plain->align_two(&job, team);
        } else {
            plain->align(&job);
        }
        break;
    }
    case BENCH_ROUTE: {
        const bench_route_job job = {.router = &work->router,
                                     .logits = inputs[0],
                                     .bias = work->router.has_bias ? inputs[1] : NULL,
                                     .expert_scale = work->router.has_expert_scale ? inputs[problem->num_inputs - 1] : NULL,
                                     .num_tokens = work->num_tokens,
                                     .ids = outputs[0],
                                     .weights = outputs[1],
                                     .keys = problem->scratch};
        plain->route(&job);
        break;
    }
    case BENCH_COPY: memcpy(outputs[0], inputs[0], problem->output_bytes[0]); break;
    case BENCH_HISTOGRAM: plain->histogram(inputs[0], work->num_items, work->num_bins, outputs[0]); break;
    case BENCH_SCAN: plain->scan(inputs[0], work->num_items, outputs[0]); break;
    case BENCH_SORT_KEYS: plain->sort(inputs[0], NULL, work->num_items, outputs[0], NULL, problem->scratch, NULL); break;
    case BENCH_SORT_PAIRS:
        plain->sort(inputs[0], inputs[1], work->num_items, outputs[0], outputs[1], problem->scratch,
                    (uint32_t *)(void *)(scratch + problem->output_bytes[0]));
        break;
    case BENCH_GATHER: plain->gather(inputs[0], inputs[1], work->num_items, work->row_bytes, outputs[0]); break;
    }
}

void bench_problem_expect(bench_problem *problem, uint32_t set) {
    if (problem->expected_set == set) {
        return;
    }
    bench_problem_plain(problem, bench_plain_choose(), set, problem->expected, NULL);
    problem->expected_set = set;
    const bench_workload *work = problem->work;
    if (work->op == BENCH_ALIGN && set == 0) {
        const int32_t *sorted = problem->expected[0], num_rows = *(const int32_t *)problem->expected[2];
        const int32_t num_pairs = (int32_t)(work->num_tokens * work->top_k);
        int32_t num_placed = 0;
        for (int32_t row = 0; row < num_rows; row++) {
            num_placed += sorted[row] != num_pairs;
        }
        problem->padding_factor = num_placed > 0 ? (double)num_rows / num_placed : 0;
    }
}

void bench_problem_floor(const bench_problem *problem, const bench_plain *plain, uint32_t set, void *const *outputs) {
    static volatile uint32_t sink;
    void *const *inputs = problem->inputs[set];
    const size_t copied = problem->input_bytes[0] < problem->output_bytes[0] ? problem->input_bytes[0] : problem->output_bytes[0];
    memcpy(outputs[0], inputs[0], copied);
    memset((char *)outputs[0] + copied, 0x55, problem->output_bytes[0] - copied);
    for (uint32_t i = 1; i < problem->num_outputs; i++) {
        memset(outputs[i], 0x55, problem->output_bytes[i]);
    }
    uint32_t sum = plain->sum((const uint32_t *)(const void *)((const char *)inputs[0] + copied), (problem->input_bytes[0] - copied) / 4);
    for (uint32_t i = 1; i < problem->num_inputs; i++) {
        sum += plain->sum(inputs[i], problem->input_bytes[i] / 4);
    }
    sink = sink + sum;
}

static int by_id(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void bench_problem_order(const bench_problem *problem, void *const *outputs) {
    const uint32_t block_size = problem->work->block_size, num_blocks = problem->capacity / block_size;
    int32_t *sorted = outputs[0];
    const int32_t *blocks = outputs[1];
    for (uint32_t first = 0, end; first < num_blocks; first = end) {
        for (end = first + 1; end < num_blocks && blocks[end] == blocks[first]; end++) {
        }
        qsort(sorted + (size_t)first * block_size, (size_t)(end - first) * block_size, sizeof *sorted, by_id);
    }
}

bool bench_problem_is_close(const bench_problem *problem, void *const *outputs) {
    const float *ours = outputs[1], *theirs = problem->expected[1];
    bool is_close = memcmp(outputs[0], problem->expected[0], problem->output_bytes[0]) == 0;
    for (size_t i = 0; i < problem->output_bytes[1] / sizeof *ours; i++) {
        is_close = is_close && fabsf(ours[i] - theirs[i]) <= 1e-5f * fabsf(theirs[i]);
    }
    return is_close;
}

/* ---- The library ---------------------------------------------------------------------------------------------------------------- */

clmoe_status bench_problem_plan(const bench_problem *problem, clmoe_context *context, clmoe_plan **plan) {
    const bench_workload *work = problem->work;
    switch (work->op) {
    case BENCH_EMPTY:
    case BENCH_ALIGN: {
        const clmoe_align_desc desc = align_desc(work);
        return clmoe_align_plan_create(context, &desc, plan);
    }
    case BENCH_HISTOGRAM: {
        const clmoe_histogram_desc desc = {.max_items = work->num_items, .num_bins = work->num_bins, .sample_type = CLMOE_TYPE_U32};
        return clmoe_histogram_plan_create(context, &desc, plan);
    }
    case BENCH_SCAN: {
        const clmoe_scan_desc desc = {.max_items = work->num_items, .type = CLMOE_TYPE_U32, .kind = CLMOE_SCAN_EXCLUSIVE};
        return clmoe_scan_plan_create(context, &desc, plan);
    }
    case BENCH_SORT_KEYS:
    case BENCH_SORT_PAIRS: {
        const clmoe_sort_desc desc = {
            .max_items = work->num_items, .key_type = CLMOE_TYPE_U32, .value_bytes = work->op == BENCH_SORT_PAIRS ? 4 : 0};
        return clmoe_sort_plan_create(context, &desc, plan);
    }
    case BENCH_GATHER: {
        const clmoe_scatter_desc desc = {
            .max_items = work->num_items, .max_rows = work->num_items, .row_bytes = work->row_bytes, .index_type = CLMOE_TYPE_I32};
        return clmoe_gather_plan_create(context, &desc, plan);
    }
    case BENCH_ROUTE: {
        const clmoe_route_desc desc = {.max_tokens = work->num_tokens, .logit_type = CLMOE_LOGIT_F32, .router = work->router};
        return clmoe_route_plan_create(context, &desc, plan);
    }
    case BENCH_COPY: break;
    }
    return CLMOE_UNSUPPORTED;
}

clmoe_status bench_problem_enqueue(const bench_problem *problem, clmoe_plan *plan, const clmoe_buffer *inputs, const clmoe_buffer *outputs,
                                   clmoe_buffer workspace, cl_command_queue queue, cl_event *event) {
    const bench_workload *work = problem->work;
    const uint32_t n = work->num_items;
    switch (work->op) {
    case BENCH_EMPTY:
    case BENCH_ALIGN: {
        clmoe_align_args args = {.num_tokens = work->num_tokens,
                                 .topk_ids = inputs[0],
                                 .sorted_token_ids = outputs[0],
                                 .expert_ids = outputs[1],
                                 .num_tokens_post_padded = outputs[2],
                                 .workspace = workspace};
        if (work->num_ranks > 1) {
            args.expert_map = inputs[1];
        }
        return clmoe_align_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_HISTOGRAM: {
        const clmoe_histogram_args args = {.num_items = n, .samples = inputs[0], .counts = outputs[0], .workspace = workspace};
        return clmoe_histogram_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_SCAN: {
        const clmoe_scan_args args = {.num_items = n, .input = inputs[0], .output = outputs[0], .workspace = workspace};
        return clmoe_scan_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_SORT_KEYS: {
        const clmoe_sort_args args = {.num_items = n, .keys = inputs[0], .keys_out = outputs[0], .workspace = workspace};
        return clmoe_sort_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_SORT_PAIRS: {
        const clmoe_sort_args args = {.num_items = n,
                                      .keys = inputs[0],
                                      .values = inputs[1],
                                      .keys_out = outputs[0],
                                      .values_out = outputs[1],
                                      .workspace = workspace};
        return clmoe_sort_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_GATHER: {
        const clmoe_scatter_args args = {
            .num_items = n, .num_rows = n, .source = inputs[0], .index = inputs[1], .destination = outputs[0], .workspace = workspace};
        return clmoe_gather_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_ROUTE: {
        clmoe_route_args args = {.num_tokens = work->num_tokens,
                                 .logits = inputs[0],
                                 .topk_ids = outputs[0],
                                 .topk_weights = outputs[1],
                                 .workspace = workspace};
        if (work->router.has_bias) {
            args.bias = inputs[1];
        }
        if (work->router.has_expert_scale) {
            args.expert_scale = inputs[problem->num_inputs - 1];
        }
        return clmoe_route_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_COPY: break;
    }
    return CLMOE_UNSUPPORTED;
}

size_t bench_problem_items(const bench_problem *problem) {
    const bench_workload *work = problem->work;
    return work->op == BENCH_ALIGN || work->op == BENCH_EMPTY || work->op == BENCH_ROUTE ? work->num_tokens : work->num_items;
}
