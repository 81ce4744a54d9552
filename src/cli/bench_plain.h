/* bench_plain.h - the operators in plain C, as one would write them for one thread: baselines, and the oracle of the bench.
 *
 * Compiled once for each level of vector units that the native kernels are compiled for, and chosen in the same way.
 */
#ifndef CLMOE_CLI_BENCH_PLAIN_H
#define CLMOE_CLI_BENCH_PLAIN_H

#include <clmoe/moe.h>

typedef struct bench_team bench_team; /* a second thread */

typedef struct bench_align_job {
    const int32_t *ids, *map; /* map NULL: none */
    uint32_t num_pairs, num_experts, block_size, capacity;
    int32_t *sorted, *blocks, *total;
    uint32_t *next; /* scratch: 2 num_experts */
} bench_align_job;

typedef struct bench_route_job {
    const clmoe_router *router;
    const float *logits, *bias, *expert_scale; /* NULL where the router has none */
    uint32_t num_tokens;
    int32_t *ids;
    float *weights;
    float *keys; /* scratch: num_experts + num_groups */
} bench_route_job;

typedef struct bench_plain {
    void (*align)(const bench_align_job *job);
    void (*align_two)(const bench_align_job *job, bench_team *team); /* on two threads */
    void (*histogram)(const uint32_t *samples, uint32_t num_items, uint32_t num_bins, uint32_t *counts);
    void (*scan)(const uint32_t *input, uint32_t num_items, uint32_t *output);
    /* Least significant digit first, 8 bits a pass. Scratch as large as the outputs; without values they are NULL. */
    void (*sort)(const uint32_t *keys, const uint32_t *values, uint32_t num_items, uint32_t *keys_out, uint32_t *values_out,
                 uint32_t *keys_scratch, uint32_t *values_scratch);
    void (*gather)(const char *source, const int32_t *index, uint32_t num_items, uint32_t row_bytes, char *destination);
    void (*route)(const bench_route_job *job); /* insertion into the K best; finite logits */
    uint32_t (*sum)(const uint32_t *items, size_t num_items);
} bench_plain;

/* For this processor. */
const bench_plain *bench_plain_choose(void);

const bench_plain *bench_plain_base(void);
const bench_plain *bench_plain_avx2(void);
const bench_plain *bench_plain_avx512(void);

/* ---- Threads (bench_team.c) ----------------------------------------------------------------------------------------------------- */

/* A thread that waits actively between start and stop, so that handing it work takes no system call. NULL if it can't be had. */
bench_team *bench_team_open(void);
void bench_team_close(bench_team *team);
void bench_team_start(bench_team *team);
void bench_team_stop(bench_team *team);

/* Runs part(data, 0) here and part(data, 1) there, and returns when both are done. Inside, both may meet at bench_team_meet. */
void bench_team_run(bench_team *team, void (*part)(void *data, uint32_t thread), void *data);
void bench_team_meet(bench_team *team);

/* memcpy on that many threads, started for the call. */
void bench_copy(void *to, const void *from, size_t bytes, uint32_t num_threads);

#endif
