/* clmoe/moe.h - the operators of a Mixture-of-Experts layer.
 *
 * Letters: T tokens, K slots per token, E experts, N = T*K pairs, f = t*K + k the number of a pair (0 ... N-1), B rows per block,
 * P padded rows in use, C capacity in rows of the caller's buffer.
 */
#ifndef CLMOE_MOE_H
#define CLMOE_MOE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- align ----------------------------------------------------------------------------------------------------------------------
 * Sorts the (token, slot) pairs by expert, stably, and pads each expert's run to a multiple of B rows, so that one GEMM launch can
 * serve all experts: block b of B rows belongs to expert_ids[b] alone.
 *
 *     T=4 K=2 E=4 B=2, topk_ids [[0,2],[2,1],[0,2],[3,2]]
 *     sorted_token_ids        0 4 | 3 8 | 1 2 | 5 7 | 6 8       pair numbers f; 8 = N marks a padding row
 *     expert_ids              0     1     2     2     3
 *     num_tokens_post_padded  10                                P
 *
 * Promises
 *   order     experts ascend; inside one expert the pairs ascend (stable); an expert without pairs gets no block
 *   bits      the same bytes on every device, class, path, number of threads and run
 *   whole     every element of every output given is written: rows in [P, C) hold the padding value, unused expert_ids hold -1
 *   content   any bits in ids, map, mask or device-side T are safe. An id < 0 or >= E is invalid: its pair is placed nowhere and
 *             counted in status[0] (BUCKET places negative ones). Two pairs of one token on the same expert are two pairs
 *   inputs    unchanged
 *
 * Sources: the operator is vLLM's moe_align_block_size; what differs (stability, defined tails, no cap on E, K, B) is stated above. */

typedef enum clmoe_id_type { CLMOE_ID_I32 = 0, CLMOE_ID_I64 = 1, CLMOE_ID_U32 = 2, CLMOE_ID_I16 = 3, CLMOE_ID_U8 = 4 } clmoe_id_type;

/* Expert parallelism: what becomes of pairs whose expert is not on this rank. An expert map [E] gives each global expert its local
 * number; a value outside 0 ... E-1 (normally -1) means "not here". Without a map every expert is local and keeps its number.
 *   DROP    foreign pairs are placed nowhere. Segments stand in the order of local numbers; expert_ids are local numbers
 *   KEEP    foreign experts keep their padded blocks. Segments stand in the order of global numbers; expert_ids are local numbers,
 *           and -1 on foreign blocks
 *   BUCKET  foreign pairs and pairs with a negative id form one segment in front, with expert_ids -1; then the local experts as
 *           with DROP. Ids >= E stay invalid */
typedef enum clmoe_foreign { CLMOE_FOREIGN_DROP = 0, CLMOE_FOREIGN_KEEP = 1, CLMOE_FOREIGN_BUCKET = 2 } clmoe_foreign;

typedef struct clmoe_align_desc {
    uint32_t max_tokens;   /* largest T of any call; max_tokens * K and the rows that it may need stay below 2^31 */
    uint32_t top_k;        /* K >= 1 */
    uint32_t num_experts;  /* E, 1 ... 2^31 - 1; the parallel class is fast while its tables fit local memory: 1024 in 32 KiB */
    uint32_t block_size;   /* B, 1 ... 2^31 - 1, any value */
    clmoe_id_type id_type; /* of topk_ids */
    clmoe_foreign foreign;
    int32_t has_pad_value; /* 0: padding rows hold N of the call (vLLM's choice); else pad_value */
    int32_t pad_value;
    clmoe_tuning tuning;
} clmoe_align_desc;

typedef struct clmoe_align_args {
    uint32_t num_tokens;     /* T <= max_tokens; 0 is fine */
    uint32_t row_stride;     /* of topk_ids, in elements, >= K; 0 = K */
    uint32_t weights_stride; /* of topk_weights, in elements, >= K; 0 = K */

    /* inputs: views may be longer than needed; views of no elements may be absent, required or not */
    clmoe_buffer topk_ids;          /* [T][K] id_type, rows row_stride apart */
    clmoe_buffer expert_map;        /* [E] i32, optional */
    clmoe_buffer row_mask;          /* [T] u8, optional: 0 = leave the token out: its pairs are placed nowhere and not counted */
    clmoe_buffer num_tokens_device; /* [1] i32, optional: the true T, known only on the device; clamped to 0 ... T */
    clmoe_buffer topk_weights;      /* [T][K] f32, with sorted_weights only */

    /* required outputs */
    clmoe_buffer sorted_token_ids;       /* [C] i32, C a multiple of B, at least clmoe_align_max_rows() */
    clmoe_buffer expert_ids;             /* [C/B] i32 */
    clmoe_buffer num_tokens_post_padded; /* [1] i32: P */

    /* optional outputs, of exactly these sizes. e counts experts as segments do: local numbers with DROP and BUCKET, global with KEEP */
    clmoe_buffer counts;         /* [E] i32: pairs of expert e */
    clmoe_buffer offsets;        /* [E+1] i32: where e starts if nothing is padded; [E] = pairs placed. BUCKET: [0] = foreign pairs */
    clmoe_buffer padded_offsets; /* [E+1] i32: first row of e; [E] = P. BUCKET: [0] = rows of the foreign segment */
    clmoe_buffer inverse;        /* [N] i32: row of pair f, -1 if not placed */
    clmoe_buffer rows_valid;     /* [C/B] i32: rows of the block that hold a pair */
    clmoe_buffer sorted_weights; /* [C] f32: topk_weights of the row's pair, 0 on padding; the bits are copied as they are */
    clmoe_buffer status;         /* [4] i32: invalid ids, pairs of foreign experts, experts with a pair placed, 0 */

    clmoe_buffer workspace; /* clmoe_plan_workspace_bytes(), aligned to 4 bytes; not shared by calls that may run at the same time */
} clmoe_align_args;

/* The largest P that T tokens can need, exactly: with q = min(E, N), (q + floor((N - q) / B)) * B. (BUCKET: E + 1 for E.)
 *   rows  a multiple of B, or 0 if N is 0
 * Err: CLMOE_INVALID_ARGUMENT, as for clmoe_align_plan_create(). */
CLMOE_API clmoe_status clmoe_align_max_rows(const clmoe_align_desc *desc, uint32_t num_tokens, uint32_t *rows);

/* Err: CLMOE_INVALID_ARGUMENT (the text names the field and its limit), CLMOE_UNSUPPORTED (E beyond this device's local memory),
 * OpenCL's codes; CL_BUILD_PROGRAM_FAILURE leaves the compiler's log with the context. */
CLMOE_API clmoe_status clmoe_align_plan_create(clmoe_context *context, const clmoe_align_desc *desc, clmoe_plan **plan);

/* Queue, wait list and event are OpenCL's own, with their usual rules: 0 and NULL are fine, the event is the caller's to release.
 * In-order and out-of-order queues both serve. Buffers may be released once the call has returned.
 * On the native device queue, wait list and event must be NULL and 0, and the work is done when the call returns.
 *
 * Launches: 1 for small N, else 2 or 3 (clmoe_plan_describe). Workspace: clmoe_plan_workspace_bytes(). Views must not overlap.
 * A refusal comes before the first launch: no output is touched. If a launch itself fails, at most the workspace is
 * touched, and may still be in use by the queue.
 * Err: CLMOE_INVALID_ARGUMENT (the text names the argument and its limit), CLMOE_UNSUPPORTED (a driver with a limit of its own that the
 * call would break: rusticl on llvmpipe cuts long loops, so it refuses some forced paths and thousands of experts), OpenCL's codes. */
CLMOE_API clmoe_status clmoe_align_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_align_args *args,
                                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* ---- route ----------------------------------------------------------------------------------------------------------------------
 * Chooses K of E experts for each token from the router's logits, and the weights of the chosen. One descriptor composes every family:
 *
 *     softcap? -> score -> + bias (for the choice only) -> group filter -> the K best -> weight source -> renormalize -> x scale
 *
 *     logits [2, 1, 0.5, -1], K = 2, softmax    ids [0, 1], weights [0.609460, 0.224208]
 *     the same with CLMOE_RENORMALIZE_SUM       ids [0, 1], weights [0.731059, 0.268941]
 *
 * Promises
 *   order     key descending, then the lower expert. -0 equals +0; NaN ranks below -Inf. An expert of a dropped group is never chosen
 *   bits      the same ids and weights on every device, class, number of threads and run, with or without denormal numbers. exp, log
 *             and tanh are the library's own, from additions and multiplications that no compiler may contract; quotients and square
 *             roots are correctly rounded. A sum has one written order: 32 partial sums, number j of items j, j + 32, ..., added in
 *             pairs j and j + 16, then + 8, + 4, + 2, + 1. Results that do not exceed the smallest normal number, 2^-126, are 0
 *   exact     without a bias and without TOP2_SUM the choice is made on the logits themselves, for every score and softcap grows with
 *             them: experts whose scores would round to the same number are still told apart
 *   accuracy  all in f32: weights within 1e-6 of the exact result, relatively (with a softcap: 1e-6 + 2^-22 softcap)
 *   rows      a row depends on nothing but itself: not on T, not on its neighbours
 *   content   any bits in logits, bias and scales are safe: ids are always K different experts. A NaN logit has score and weight 0 and
 *             counts in no sum; a row of NaN gives 0 ... K-1 with weights 0. A sum of 0 gives weights 0, and so does what would be NaN.
 *             In a softmax, experts at the maximum count as e^0 = 1 even if it is infinite, so all -Inf shares out evenly
 *   inputs    unchanged */

typedef enum clmoe_logit_type { CLMOE_LOGIT_F32 = 0, CLMOE_LOGIT_F16 = 1, CLMOE_LOGIT_BF16 = 2 } clmoe_logit_type;

/* What is made of a logit x: SOFTMAX e^(x - max) / sum over E; SIGMOID 1 / (1 + e^-x); SQRT_SOFTPLUS sqrt(log(1 + e^x)); IDENTITY x. */
typedef enum clmoe_score {
    CLMOE_SCORE_SOFTMAX = 0,
    CLMOE_SCORE_SIGMOID = 1,
    CLMOE_SCORE_SQRT_SOFTPLUS = 2,
    CLMOE_SCORE_IDENTITY = 3
} clmoe_score;

/* What a group of experts is worth: its best key, or the sum (f32) of its two best. Equal groups: the lower one. */
typedef enum clmoe_group_filter { CLMOE_GROUPS_NONE = 0, CLMOE_GROUPS_MAX = 1, CLMOE_GROUPS_TOP2_SUM = 2 } clmoe_group_filter;

/* What the weights are made of: the chosen experts' scores, never with the bias; or the logits of the chosen alone, after the softcap:
 * softmax over the K of them, or the sigmoid of each. */
typedef enum clmoe_weight_source {
    CLMOE_WEIGHTS_SCORE = 0,
    CLMOE_WEIGHTS_SOFTMAX_CHOSEN = 1,
    CLMOE_WEIGHTS_SIGMOID_CHOSEN = 2
} clmoe_weight_source;

/* What the K weights are divided by: nothing; their sum; sum + epsilon; the larger of sum and epsilon. Softmax with SUM and no bias takes
 * e^x of the chosen alone: sum over E cancels out, and the last bits are those of one division, not two. */
typedef enum clmoe_renormalize {
    CLMOE_RENORMALIZE_NONE = 0,
    CLMOE_RENORMALIZE_SUM = 1,
    CLMOE_RENORMALIZE_SUM_PLUS_EPSILON = 2,
    CLMOE_RENORMALIZE_MAX_EPSILON = 3
} clmoe_renormalize;

/* The part of a model that routes. All zero but E and K: softmax over E, the K best, no renormalizing. */
typedef struct clmoe_router {
    uint32_t num_experts; /* E >= 1; how many fit is the device's local memory, or the workspace: at least 4096 */
    uint32_t top_k;       /* K, 1 ... E */
    clmoe_score score;
    float softcap;    /* c: logits become c tanh(x / c) first; 0 = no cap */
    int32_t has_bias; /* a call brings bias [E], added to the scores for the choice */
    clmoe_group_filter group_filter;
    uint32_t num_groups;  /* of E / num_groups experts each, without a remainder; TOP2_SUM needs two experts or more in each */
    uint32_t kept_groups; /* 1 ... num_groups, with room for K experts */
    clmoe_weight_source weight_source;
    clmoe_renormalize renormalize;
    float epsilon;            /* >= 0; with SUM_PLUS_EPSILON and MAX_EPSILON only */
    float scale;              /* the weights are multiplied by it, after renormalizing; 0 = 1 */
    int32_t has_expert_scale; /* a call brings expert_scale [E]; the weight of expert e is multiplied by expert_scale[e] at the end */
} clmoe_router;

/* Routers of published models. */
typedef struct clmoe_model {
    const char *name; /* "deepseek-v3": what clmoe_model_find() and the program take */
    clmoe_router router;
    const char *source; /* where the numbers come from, in words */
} clmoe_model;

/* All of them, sorted by name; *num_models may not be NULL. The table lives as long as the library. */
CLMOE_API const clmoe_model *clmoe_models(size_t *num_models);
/* NULL: no such model. Case is ignored. */
CLMOE_API const clmoe_model *clmoe_model_find(const char *name);

typedef struct clmoe_route_desc {
    uint32_t max_tokens; /* largest T of any call; max_tokens * K stays below 2^31 */
    clmoe_logit_type logit_type;
    clmoe_router router;
    clmoe_tuning tuning;
} clmoe_route_desc;

typedef struct clmoe_route_args {
    uint32_t num_tokens; /* T <= max_tokens; 0 is fine */
    uint32_t row_stride; /* of logits, in elements, >= E; 0 = E */

    clmoe_buffer logits;       /* [T][E] logit_type, rows row_stride apart */
    clmoe_buffer bias;         /* [E] f32, if and only if router.has_bias */
    clmoe_buffer expert_scale; /* [E] f32, if and only if router.has_expert_scale */

    clmoe_buffer topk_ids;     /* [T][K] i32, the best first */
    clmoe_buffer topk_weights; /* [T][K] f32 */

    clmoe_buffer workspace; /* clmoe_plan_workspace_bytes(), aligned to 4 bytes; not shared by calls that may run at the same time */
} clmoe_route_args;

/* Err: as for clmoe_align_plan_create(); the text names router's fields "desc.router....". */
CLMOE_API clmoe_status clmoe_route_plan_create(clmoe_context *context, const clmoe_route_desc *desc, clmoe_plan **plan);

/* One launch. Queue, wait list, event, refusals and errors: as for clmoe_align_enqueue(). */
CLMOE_API clmoe_status clmoe_route_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_route_args *args,
                                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* ---- route and align in one call ------------------------------------------------------------------------------------------------
 * Logits to ids, weights and the aligned layout: the bits of clmoe_route_enqueue() and clmoe_align_enqueue() one after the other, in one
 * launch for a decode batch and at most four for any size (clmoe_plan_describe). */
typedef struct clmoe_route_align_desc {
    uint32_t max_tokens; /* as in both */
    clmoe_logit_type logit_type;
    clmoe_router router;
    uint32_t block_size; /* from here on as in clmoe_align_desc; ids are i32 */
    clmoe_foreign foreign;
    int32_t has_pad_value;
    int32_t pad_value;
    clmoe_tuning tuning; /* num_launches: 1 ... 4 */
} clmoe_route_align_desc;

typedef struct clmoe_route_align_args {
    clmoe_route_args route; /* all of it but the workspace */
    clmoe_align_args align; /* its outputs, expert_map, row_mask and num_tokens_device; the rest is route's, and must be left zero */
    clmoe_buffer workspace; /* clmoe_plan_workspace_bytes() of this plan */
} clmoe_route_align_args;

/* Err: as for clmoe_route_plan_create() and clmoe_align_plan_create(). */
CLMOE_API clmoe_status clmoe_route_align_plan_create(clmoe_context *context, const clmoe_route_align_desc *desc, clmoe_plan **plan);

/* Every element of topk_ids and topk_weights is written, also for tokens that a row mask or num_tokens_device leaves out of the layout.
 * The fields of args are called "args.route...." and "args.align....". If a launch fails, topk_ids and topk_weights may have been written.
 * Otherwise as clmoe_align_enqueue(). */
CLMOE_API clmoe_status clmoe_route_align_enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_route_align_args *args,
                                                 cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
