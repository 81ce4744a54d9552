#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_INPUT_BYTES = 256 << 10, /* of all sets, where one call stays inside the caches */
    LARGE_BYTES = 4 << 20          /* moved by a call that no core's own cache holds */
};

/* ---- Sizes ---------------------------------------------------------------------------------------------------------------------- */

static clmoe_align_desc align_desc(const bench_workload *work) {
    const clmoe_align_desc desc = {
        .max_tokens = work->num_tokens, .top_k = work->top_k, .num_experts = work->num_experts, .block_size = work->block_size};
    return desc;
}

/* What align writes, behind `first` outputs that are there. */
static void size_layout(bench_problem *problem, uint32_t first) {
    const bench_workload *work = problem->work;
    const clmoe_align_desc desc = align_desc(work);
    clmoe_align_max_rows(&desc, work->num_tokens, &problem->capacity);
    problem->first_of_layout = first;
    problem->num_outputs = first + 3;
    problem->output_bytes[first] = problem->capacity * sizeof(int32_t);
    problem->output_bytes[first + 1] = problem->capacity / work->block_size * sizeof(int32_t);
    problem->output_bytes[first + 2] = sizeof(int32_t);
}

static void size_route(bench_problem *problem) {
    const bench_workload *work = problem->work;
    problem->num_inputs = 1u + (work->router.has_bias != 0) + (work->router.has_expert_scale != 0);
    problem->input_bytes[0] = (size_t)work->num_tokens * work->num_experts * sizeof(float);
    problem->input_bytes[1] = problem->input_bytes[2] = work->num_experts * sizeof(float);
    problem->num_outputs = 2;
    problem->output_bytes[0] = problem->output_bytes[1] = (size_t)work->num_tokens * work->top_k * sizeof(float);
}

static void size_arrays(bench_problem *problem) {
    const bench_workload *work = problem->work;
    const size_t words = (size_t)work->num_items * sizeof(uint32_t);
    problem->num_inputs = problem->num_outputs = 1;
    problem->input_bytes[0] = problem->output_bytes[0] = words;
    switch (work->op) {
    case BENCH_EMPTY:
    case BENCH_ALIGN:
        problem->num_inputs = work->num_ranks > 1 ? 2 : 1;
        problem->input_bytes[0] = (size_t)work->num_tokens * work->top_k * sizeof(int32_t);
        problem->input_bytes[1] = work->num_experts * sizeof(int32_t);
        size_layout(problem, 0);
        break;
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
    case BENCH_ROUTE: size_route(problem); break;
    case BENCH_ROUTE_ALIGN:
        size_route(problem);
        size_layout(problem, 2);
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
           : op == BENCH_ROUTE || op == BENCH_ROUTE_ALIGN    ? 2 * problem->work->num_experts * sizeof(float)
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
    const uint64_t available = free_bytes(), budget = available ? available / 2 : UINT64_MAX;
    /* Outputs: what is expected, the host's, the native device's, and one more for each OpenCL device and peer. Where plain C needs scratch
     * memory, a device needs a workspace of about that size. */
    const uint64_t outputs = problem->bytes_written * (num_copies + 2) + scratch_bytes(problem) * (num_copies + 1);
    const uint64_t sets_budget = budget == UINT64_MAX ? budget : budget / num_copies;
    problem->num_sets = choose_num_sets(problem, cache_bytes, sets_budget, outputs / num_copies);
    const uint64_t needed = problem->bytes_read * problem->num_sets * num_copies + outputs;
    if (needed > budget) {
        char needed_text[32], budget_text[32];
        report_bytes(needed, needed_text, sizeof needed_text);
        report_bytes(budget, budget_text, sizeof budget_text);
        snprintf(problem->reason, sizeof problem->reason, "needs %s of memory, half of what is free is %s", needed_text, budget_text);
        return;
    }
    if (!allocate(problem)) {
        snprintf(problem->reason, sizeof problem->reason, "no memory");
        return;
    }
    if (!bench_fill_inputs(problem, data_dir)) {
        return;
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

static bench_align_job align_job(const bench_problem *problem, const int32_t *ids, const int32_t *map, void *const *layout) {
    const bench_workload *work = problem->work;
    const bench_align_job job = {.ids = ids,
                                 .map = map,
                                 .num_pairs = work->num_tokens * work->top_k,
                                 .num_experts = work->num_experts,
                                 .block_size = work->block_size,
                                 .capacity = problem->capacity,
                                 .sorted = layout[0],
                                 .blocks = layout[1],
                                 .total = layout[2],
                                 .next = problem->scratch};
    return job;
}

static bench_route_job route_job(const bench_problem *problem, void *const *inputs, void *const *outputs) {
    const bench_workload *work = problem->work;
    const bench_route_job job = {.router = &work->router,
                                 .logits = inputs[0],
                                 .bias = work->router.has_bias ? inputs[1] : NULL,
                                 .expert_scale = work->router.has_expert_scale ? inputs[problem->num_inputs - 1] : NULL,
                                 .num_tokens = work->num_tokens,
                                 .ids = outputs[0],
                                 .weights = outputs[1],
                                 .keys = problem->scratch};
    return job;
}

void bench_problem_plain(const bench_problem *problem, const bench_plain *plain, uint32_t set, void *const *outputs, bench_team *team) {
    const bench_workload *work = problem->work;
    void *const *inputs = problem->inputs[set];
    char *scratch = problem->scratch;
    switch (work->op) {
    case BENCH_EMPTY:
    case BENCH_ALIGN: {
        const bench_align_job job = align_job(problem, inputs[0], work->num_ranks > 1 ? inputs[1] : NULL, outputs);
        if (team) {
            plain->align_two(&job, team);
        } else {
            plain->align(&job);
        }
        break;
    }
    case BENCH_ROUTE: {
        const bench_route_job job = route_job(problem, inputs, outputs);
        plain->route(&job);
        break;
    }
    case BENCH_ROUTE_ALIGN: {
        const bench_route_job route = route_job(problem, inputs, outputs);
        const bench_align_job align = align_job(problem, outputs[0], NULL, outputs + 2);
        plain->route(&route);
        plain->align(&align);
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
    if (problem->capacity > 0 && work->op != BENCH_EMPTY && set == 0) {
        void *const *layout = problem->expected + problem->first_of_layout;
        const int32_t *sorted = layout[0], num_rows = *(const int32_t *)layout[2];
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

/* Scores of two exps can order experts differently that are as good as equal. Whether plain C chooses these ids for a token if each gets
 * as much more as that may be, the first of them most; then chosen and weights [K] are what it says. */
static bool agrees_nearly(const bench_problem *problem, const bench_plain *plain, uint32_t token, const int32_t *ids, float *bias,
                          int32_t *chosen, float *weights) {
    static const float as_good_as_equal = 1e-6f;
    const bench_workload *work = problem->work;
    void *const outputs[] = {chosen, weights};
    bench_route_job job = route_job(problem, problem->inputs[problem->expected_set], outputs);
    if (!job.bias && work->router.group_filter != CLMOE_GROUPS_TOP2_SUM) {
        return false; /* logits decide */
    }
    for (uint32_t e = 0; e < work->num_experts; e++) {
        bias[e] = job.bias ? job.bias[e] : 0;
    }
    for (uint32_t k = 0; k < work->top_k; k++) {
        if (ids[k] < 0 || (uint32_t)ids[k] >= work->num_experts) {
            return false;
        }
        bias[ids[k]] += as_good_as_equal * (float)(work->top_k - k);
    }
    job.logits += (size_t)token * work->num_experts;
    job.num_tokens = 1;
    job.bias = bias;
    plain->route(&job);
    return memcmp(chosen, ids, work->top_k * sizeof *ids) == 0;
}

static bool is_close_choice(const bench_problem *problem, const int32_t *ids, const float *weights) {
    const bench_plain *plain = bench_plain_choose();
    const size_t top_k = problem->work->top_k;
    const int32_t *all_expected = problem->expected[0];
    float *bias = malloc(problem->work->num_experts * sizeof *bias), *own = malloc(top_k * sizeof *own);
    int32_t *chosen = malloc(top_k * sizeof *chosen);
    bool is_close = bias && own && chosen;
    for (uint32_t t = 0; t < problem->work->num_tokens && is_close; t++) {
        const float *expected = (const float *)problem->expected[1] + t * top_k;
        if (memcmp(ids + t * top_k, all_expected + t * top_k, top_k * sizeof *ids) != 0) {
            is_close = agrees_nearly(problem, plain, t, ids + t * top_k, bias, chosen, own);
            expected = own;
        }
        for (size_t k = 0; k < top_k && is_close; k++) {
            is_close = fabsf(weights[t * top_k + k] - expected[k]) <= 1e-5f * fabsf(expected[k]);
        }
    }
    free(bias);
    free(own);
    free(chosen);
    return is_close;
}

/* Of the ids that are there. */
static bool is_layout(const bench_problem *problem, const int32_t *ids, void *const *layout) {
    void *expected[3] = {NULL};
    bool is_same = true;
    for (uint32_t i = 0; i < 3; i++) {
        expected[i] = malloc(problem->output_bytes[problem->first_of_layout + i] + 1);
        is_same = is_same && expected[i];
    }
    if (is_same) {
        const bench_align_job job = align_job(problem, ids, NULL, expected);
        bench_plain_choose()->align(&job);
    }
    for (uint32_t i = 0; i < 3; i++) {
        is_same = is_same && memcmp(layout[i], expected[i], problem->output_bytes[problem->first_of_layout + i]) == 0;
        free(expected[i]);
    }
    return is_same;
}

bool bench_problem_is_close(const bench_problem *problem, void *const *outputs) {
    return is_close_choice(problem, outputs[0], outputs[1]) &&
           (problem->work->op != BENCH_ROUTE_ALIGN || is_layout(problem, outputs[0], outputs + problem->first_of_layout));
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
    case BENCH_ROUTE_ALIGN: {
        const clmoe_route_align_desc desc = {
            .max_tokens = work->num_tokens, .logit_type = CLMOE_LOGIT_F32, .router = work->router, .block_size = work->block_size};
        return clmoe_route_align_plan_create(context, &desc, plan);
    }
    case BENCH_COPY: break;
    }
    return CLMOE_UNSUPPORTED;
}

static clmoe_route_args route_args(const bench_workload *work, const clmoe_buffer *inputs, const clmoe_buffer *outputs) {
    clmoe_route_args args = {.num_tokens = work->num_tokens, .logits = inputs[0], .topk_ids = outputs[0], .topk_weights = outputs[1]};
    if (work->router.has_bias) {
        args.bias = inputs[1];
    }
    if (work->router.has_expert_scale) {
        args.expert_scale = inputs[work->router.has_bias ? 2 : 1];
    }
    return args;
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
        clmoe_route_args args = route_args(work, inputs, outputs);
        args.workspace = workspace;
        return clmoe_route_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_ROUTE_ALIGN: {
        const clmoe_route_align_args args = {
            .route = route_args(work, inputs, outputs),
            .align = {.sorted_token_ids = outputs[2], .expert_ids = outputs[3], .num_tokens_post_padded = outputs[4]},
            .workspace = workspace};
        return clmoe_route_align_enqueue(plan, queue, &args, 0, NULL, event);
    }
    case BENCH_COPY: break;
    }
    return CLMOE_UNSUPPORTED;
}

size_t bench_problem_items(const bench_problem *problem) {
    return problem->work->num_tokens > 0 ? problem->work->num_tokens : problem->work->num_items;
}
