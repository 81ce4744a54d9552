/* bench_align - the enqueue call of a ready plan on the native device against the same job as a plain counting sort in C, one thread,
 * everything preallocated. Prints medians in microseconds. Usage: bench_align [rounds]
 *
 * Not a test: it judges nothing. The two are timed in turns, so that both see the same machine. */
#define _POSIX_C_SOURCE 200809L
#include <clmoe/clmoe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* vLLM's job in the fewest lines: count, pad, place; rows behind the last segment and expert_ids behind the last block are filled too. */
static void plain_align(const int32_t *ids, uint32_t pairs, uint32_t experts, uint32_t block, uint32_t capacity, uint32_t *next,
                        int32_t *sorted, int32_t *expert_ids, int32_t *total) {
    memset(next, 0, experts * sizeof *next);
    for (uint32_t f = 0; f < pairs; ++f)
        if ((uint32_t)ids[f] < experts)
            ++next[ids[f]];
    uint32_t row = 0, b = 0;
    for (uint32_t e = 0; e < experts; ++e) {
        const uint32_t count = next[e], end = row + (count + block - 1) / block * block;
        next[e] = row;
        for (uint32_t r = row + count; r < end; ++r)
            sorted[r] = (int32_t)pairs;
        for (; b < end / block; ++b)
            expert_ids[b] = (int32_t)e;
        row = end;
    }
    *total = (int32_t)row;
    for (uint32_t r = row; r < capacity; ++r)
        sorted[r] = (int32_t)pairs;
    for (; b < capacity / block; ++b)
        expert_ids[b] = -1;
    for (uint32_t f = 0; f < pairs; ++f)
        if ((uint32_t)ids[f] < experts)
            sorted[next[ids[f]]++] = (int32_t)f;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

int main(int argc, char **argv) {
    enum { K = 8, E = 256, B = 64, MAX_SAMPLES = 2000 };
    static const uint32_t tokens[] = {1, 16, 128, 1024, 4096, 16384, 131072};
    const size_t wanted = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 500;
    const size_t samples = wanted < 1 ? 1 : wanted > MAX_SAMPLES ? MAX_SAMPLES : wanted;
    clmoe_context *context;
    if (clmoe_context_create("native", NULL, &context) != CLMOE_SUCCESS)
        return 1;
    printf("%8s %12s %12s %8s %12s\n", "T", "clmoe us", "plain C us", "ratio", "difference");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; ++i) {
        const uint32_t T = tokens[i], N = T * K;
        const clmoe_align_desc desc = {.max_tokens = T, .top_k = K, .num_experts = E, .block_size = B};
        clmoe_plan *plan;
        uint32_t C, random = 1;
        if (clmoe_align_plan_create(context, &desc, &plan) != CLMOE_SUCCESS || clmoe_align_max_rows(&desc, T, &C) != CLMOE_SUCCESS)
            return 1;
        const size_t workspace_bytes = clmoe_plan_workspace_bytes(plan);
        int32_t *ids = malloc(N * sizeof *ids), *sorted = malloc(C * sizeof *sorted), *blocks = malloc(C / B * sizeof *blocks);
        int32_t *plain = malloc(C * sizeof *plain), total, plain_total;
        uint32_t *workspace = malloc(workspace_bytes), *next = malloc(E * sizeof *next);
        if (ids == NULL || sorted == NULL || blocks == NULL || plain == NULL || workspace == NULL || next == NULL)
            return 1;
        for (uint32_t f = 0; f < N; ++f)
            ids[f] = (int32_t)((random = random * 1664525u + 1013904223u) >> 24);
        const clmoe_align_args args = {.num_tokens = T,
                                       .topk_ids = clmoe_buffer_of_host(ids, N * sizeof *ids),
                                       .sorted_token_ids = clmoe_buffer_of_host(sorted, C * sizeof *sorted),
                                       .expert_ids = clmoe_buffer_of_host(blocks, C / B * sizeof *blocks),
                                       .num_tokens_post_padded = clmoe_buffer_of_host(&total, sizeof total),
                                       .workspace = clmoe_buffer_of_host(workspace, workspace_bytes)};
        static double ours[MAX_SAMPLES], theirs[MAX_SAMPLES];
        const uint32_t calls = N < 20000 ? 20000 / N : 1; /* in one sample: the clock itself takes tens of nanoseconds */
        for (size_t s = 0; s < samples; ++s) {
            double start = now_us();
            for (uint32_t c = 0; c < calls; ++c)
                if (clmoe_align_enqueue(plan, NULL, &args, 0, NULL, NULL) != CLMOE_SUCCESS)
                    return 1;
            ours[s] = (now_us() - start) / calls;
            start = now_us();
            for (uint32_t c = 0; c < calls; ++c)
                plain_align(ids, N, E, B, C, next, plain, blocks, &plain_total);
            theirs[s] = (now_us() - start) / calls;
        }
        if (total != plain_total || memcmp(sorted, plain, C * sizeof *plain) != 0)
            return 1;
        const double a = median(ours, samples), b = median(theirs, samples);
        printf("%8u %12.2f %12.2f %8.2f %+12.2f\n", T, a, b, a / b, a - b);
        clmoe_plan_destroy(plan);
        free(ids), free(sorted), free(blocks), free(plain), free(workspace), free(next);
    }
    clmoe_context_destroy(context);
    return 0;
}
