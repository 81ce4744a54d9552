/* parts.h - align and route without a plan or a call of their own: what route_align, which is made of both, shares with them. */
#ifndef CLMOE_PARTS_H
#define CLMOE_PARTS_H

#include "../../cl/align.h"
#include "../../cl/route.h"
#include "call.h"
#include "clmoe/moe.h"

/* ---- align ---- */

enum { CLMOE_ALIGN_ONE, CLMOE_ALIGN_COUNT, CLMOE_ALIGN_OFFSETS, CLMOE_ALIGN_PLACE }; /* its kernels */

struct clmoe_align_part {
    clmoe_align_desc desc;
    uint32_t num_buckets;
    uint32_t scratch_groups; /* groups of the parallel class whose scratch memory is in the workspace; 0 = in local memory */
    uint64_t table_items;    /* of the workspace, in u32 */
};

/* The buffers of a call, in the order of ALIGN_INPUTS and ALIGN_OUTPUTS. */
enum {
    CLMOE_VIEW_TOPK_IDS,
    CLMOE_VIEW_EXPERT_MAP,
    CLMOE_VIEW_ROW_MASK,
    CLMOE_VIEW_NUM_TOKENS_DEVICE,
    CLMOE_VIEW_TOPK_WEIGHTS,
    CLMOE_VIEW_SORTED_TOKEN_IDS,
    CLMOE_VIEW_EXPERT_IDS,
    CLMOE_VIEW_NUM_TOKENS_POST_PADDED,
    CLMOE_VIEW_COUNTS,
    CLMOE_VIEW_OFFSETS,
    CLMOE_VIEW_PADDED_OFFSETS,
    CLMOE_VIEW_INVERSE,
    CLMOE_VIEW_ROWS_VALID,
    CLMOE_VIEW_SORTED_WEIGHTS,
    CLMOE_VIEW_STATUS,
    CLMOE_ALIGN_VIEWS
};

struct clmoe_align_shape clmoe_align_shape_of(const struct clmoe_align_part *part, uint32_t num_tokens, uint32_t capacity);
clmoe_status clmoe_align_check_desc(clmoe_context *context, const char *function, const clmoe_align_desc *desc);
struct clmoe_align_part clmoe_align_part_of(const clmoe_context *context, const clmoe_align_desc *desc, uint32_t group_size, bool is_wide);
/* Adds launches and bytes to info. Err: CLMOE_UNSUPPORTED with *refusal. */
clmoe_status clmoe_align_part_describe(const clmoe_context *context, const struct clmoe_align_part *part, uint32_t group_size,
                                       uint32_t num_tokens, clmoe_plan_info *info, const char **refusal);

/* Checks numbers, strides and the capacity; the views are left to clmoe_check_call(). is_inside: the args are route_align's. */
clmoe_status clmoe_align_fill_views(clmoe_context *context, const char *function, const struct clmoe_align_part *part,
                                    const clmoe_align_args *args, bool is_inside, struct clmoe_view views[CLMOE_ALIGN_VIEWS]);
/* All but what the path decides, and where in the workspace table and scratch memory are. */
struct align_params clmoe_align_params_of(const struct clmoe_align_part *part, const clmoe_align_args *args,
                                          const struct clmoe_view views[CLMOE_ALIGN_VIEWS], uint32_t group_size);
/* One to three launches; kernels as above from first_kernel on. Err: CLMOE_UNSUPPORTED. */
clmoe_status clmoe_align_add_launches(clmoe_context *context, const char *function, const struct clmoe_align_part *part,
                                      uint32_t group_size, unsigned first_kernel, const struct clmoe_view views[CLMOE_ALIGN_VIEWS],
                                      const clmoe_buffer *workspace, struct align_params *params, struct clmoe_call *call);

/* ---- route ---- */

struct clmoe_route_part {
    clmoe_route_desc desc;
    uint32_t has;            /* ROUTE_... */
    uint32_t scratch_groups; /* groups whose scratch memory is in the workspace; 0 = in local memory */
    uint64_t scratch_items;  /* of a group, in u32, wherever it is */
};

/* The buffers of a call, in the order of ROUTE_BUFFERS. */
enum { CLMOE_VIEW_LOGITS, CLMOE_VIEW_BIAS, CLMOE_VIEW_EXPERT_SCALE, CLMOE_VIEW_ROUTED_IDS, CLMOE_VIEW_ROUTED_WEIGHTS, CLMOE_ROUTE_VIEWS };

/* Kernel sets for each way to compile route: CLMOE_ROUTE_SETS(SET) is an array [CLMOE_NUM_ROUTE_SETS] of SET(variant, defines). */
#define CLMOE_ROUTE_SETS_OF_LOGITS(SET, prefix)                                                                                            \
    SET("f32", prefix "#define LOGIT uint\n#define logit_bits(logit) (logit)\n"),                                                          \
        SET("f16", prefix "#define LOGIT ushort\n#define logit_bits(logit) route_bits_of_f16(logit)\n"),                                   \
        SET("bf16", prefix "#define LOGIT ushort\n#define logit_bits(logit) route_bits_of_bf16(logit)\n")
#define CLMOE_ROUTE_SETS_OF_SCRATCH(SET, prefix)                                                                                           \
    CLMOE_ROUTE_SETS_OF_LOGITS(SET, prefix), CLMOE_ROUTE_SETS_OF_LOGITS(SET, prefix "#define SCRATCH_IS_GLOBAL\n")
#define CLMOE_ROUTE_SETS(SET)                                                                                                              \
    CLMOE_ROUTE_SETS_OF_SCRATCH(SET, ""), CLMOE_ROUTE_SETS_OF_SCRATCH(SET, "#define ROUTE_SCORES\n"),                                      \
        CLMOE_ROUTE_SETS_OF_SCRATCH(SET, "#define ROUTE_GROUPS\n"),                                                                        \
        CLMOE_ROUTE_SETS_OF_SCRATCH(SET, "#define ROUTE_SCORES\n#define ROUTE_GROUPS\n")
enum { CLMOE_NUM_ROUTE_SETS = 24 };
/* Which of them a descriptor takes. */
unsigned clmoe_route_set_of(const clmoe_context *context, const clmoe_route_desc *desc, bool is_wide);

struct clmoe_route_shape clmoe_route_shape_of(const struct clmoe_route_part *part, uint32_t num_tokens);
clmoe_status clmoe_route_check_desc(clmoe_context *context, const char *function, const clmoe_route_desc *desc);
/* The size that clmoe_plan_new() has to take: the caller's, or one that serves many chosen experts where a driver's own limit for kernels
 * is known to be too low; 0 = none. */
uint32_t clmoe_route_forced_size(const clmoe_context *context, const clmoe_route_desc *desc, uint32_t group_size);
/* Local memory of a group; shape: E, K, groups of experts. */
clmoe_local_items clmoe_route_local_items;
/* Whether the scratch memory of useful groups is beyond local memory: then it is in the workspace. */
bool clmoe_route_is_wide(const clmoe_context *context, const clmoe_tuning *tuning, clmoe_local_items *local_items, const uint32_t *shape);
struct clmoe_route_part clmoe_route_part_of(const clmoe_context *context, const clmoe_route_desc *desc, uint32_t group_size, bool is_wide);
/* Adds launches and bytes to info. Err: CLMOE_UNSUPPORTED with *refusal. */
clmoe_status clmoe_route_part_describe(const clmoe_context *context, const struct clmoe_route_part *part, uint32_t group_size,
                                       uint32_t num_tokens, clmoe_plan_info *info, const char **refusal);

clmoe_status clmoe_route_fill_views(clmoe_context *context, const char *function, const struct clmoe_route_part *part,
                                    const clmoe_route_args *args, bool is_inside, struct clmoe_view views[CLMOE_ROUTE_VIEWS]);
/* All but where in the workspace scratch memory is. */
struct route_params clmoe_route_params_of(const struct clmoe_route_part *part, const clmoe_route_args *args,
                                          const struct clmoe_view views[CLMOE_ROUTE_VIEWS], uint32_t group_size);
/* The arguments behind the parameters. */
void clmoe_route_add_views(struct clmoe_stage *stage, const struct clmoe_view views[CLMOE_ROUTE_VIEWS]);
/* One launch. Err: CLMOE_UNSUPPORTED. */
clmoe_status clmoe_route_add_launch(clmoe_context *context, const char *function, const struct clmoe_route_part *part, uint32_t group_size,
                                    unsigned kernel, const struct clmoe_view views[CLMOE_ROUTE_VIEWS], const clmoe_buffer *workspace,
                                    const struct route_params *params, struct clmoe_call *call);

#endif
