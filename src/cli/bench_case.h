/* bench_case.h - one contender on one device, measured: what `clmoe bench` has a row for. */
#ifndef CLMOE_CLI_BENCH_CASE_H
#define CLMOE_CLI_BENCH_CASE_H

#include "bench.h"

typedef enum bench_contender {
    BENCH_CONTENDER_LIBRARY,
    BENCH_CONTENDER_EMPTY,
    BENCH_CONTENDER_COPY,
    BENCH_CONTENDER_PLAIN,
    BENCH_CONTENDER_PLAIN_TWO,
    BENCH_CONTENDER_FLOOR,
    BENCH_CONTENDER_ATOMIC,
    BENCH_CONTENDER_STABLE,
    BENCH_CONTENDER_PEER
} bench_contender;

/* A problem's arrays on one device; all contenders there share them. */
typedef struct bench_arrays {
    bench_device *device;
    clmoe_buffer inputs[BENCH_MAX_SETS][BENCH_MAX_INPUTS];
    clmoe_buffer outputs[BENCH_MAX_OUTPUTS];
    clmoe_status status;
} bench_arrays;

typedef struct bench_case {
    bench_problem *problem;
    bench_contender contender;
    bench_arrays *arrays;
    bench_peer *peer; /* NULL: none */
    bench_row row;

    clmoe_plan *plan;
    clmoe_buffer workspace;
    const bench_plain *plain;
    bench_team *team;
    uint32_t next_set, last_set;
    uint32_t num_wanted; /* samples */
    bool is_long;
} bench_case;

/* The first four members are set, the others zero. Makes the first call and checks it, and finds how many calls make a sample. What goes
 * wrong, here or later, the row tells. */
void bench_case_open(bench_case *c, const bench_effort *effort);

/* A share of the samples, after those of the rounds before; in the last round the result is checked again. */
void bench_case_take_slice(bench_case *c, uint32_t round, uint32_t num_rounds);

/* Completes the row, which stays. */
void bench_case_close(bench_case *c);

#endif
