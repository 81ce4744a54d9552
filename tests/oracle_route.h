/* oracle_route.h - the right answer of route, in double precision and plain serial C, for tests.
 *
 * Written from the public header alone; shares no code with the library. A call judges one row. Where the choice is made on the logits
 * themselves one list of ids is right. Elsewhere single precision may decide between keys that are closer than its rounding can explain:
 * then every list is right in which nothing stands before what surely precedes it.
 */
#ifndef CLMOE_TESTS_ORACLE_ROUTE_H
#define CLMOE_TESTS_ORACLE_ROUTE_H

#include <clmoe/moe.h>
#include <stdbool.h>

typedef struct oracle_route_inputs {
    const clmoe_router *router;
    clmoe_logit_type logit_type;
    const void *logits;           /* [E] logit_type, one row */
    const uint32_t *bias;         /* [E] bits of f32, or NULL */
    const uint32_t *expert_scale; /* [E] bits of f32, or NULL */
} oracle_route_inputs;

typedef struct oracle_route_row {
    uint32_t num_experts, top_k, num_groups;
    bool is_exact;    /* the choice is made on the logits themselves */
    int32_t *ids;     /* [K] */
    double *weights;  /* [K], of those ids */
    double key_gap;   /* between the K-th key and the next of a kept group; infinity if there is none */
    double group_gap; /* between the last kept and the first dropped group; infinity if nothing is dropped */
    double *logits;   /* [E] as they are */
    double *capped;   /* [E] after the softcap */
    double *scores;   /* [E] 0 for NaN */
    double *keys;     /* [E] what the choice is made on; NaN ranks last */
    double *worths;   /* [groups] */
    uint8_t *edges;   /* [E] the score lies where it is 0 or not, finite or not, by a hair */
    uint8_t *kept;    /* [groups] */
    const oracle_route_inputs *inputs;
    double maximum;   /* of the logits after the softcap, NaN left out */
    double tolerance; /* relative, of a score and of a weight */
} oracle_route_row;

/* Aborts if memory runs out. */
oracle_route_row oracle_route(const oracle_route_inputs *inputs);
void oracle_route_free(oracle_route_row *row);

typedef struct oracle_verdict {
    bool is_right;
    bool is_clear;      /* found exactly the oracle's own ids */
    uint32_t unweighed; /* weights so near to an edge that only NaN would be wrong */
    char text[300];     /* what is wrong */
} oracle_verdict;

/* ids [K] and bits of weights [K], as a call wrote them. */
oracle_verdict oracle_route_judge(const oracle_route_row *row, const int32_t *ids, const uint32_t *weights);

double oracle_f32(uint32_t bits);
double oracle_logit(clmoe_logit_type type, const void *logits, size_t i);

#endif
