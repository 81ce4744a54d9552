/* align - checks a call, fills in the kernels' parameters and orders one to three launches:
 *
 *     one                      small calls
 *     count, place             every group adds up the counts of all chunks itself
 *     count, offsets, place    a launch adds them up
 *
 * Only the last launch writes outputs.
 */
#include "../../cl/align.h"
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct align_plan {
    struct clmoe_plan base;
    struct clmoe_align_part part;
};

/* ---- Shapes ---- */

static const uint32_t id_bytes[] = {[CLMOE_ID_I32] = 4, [CLMOE_ID_I64] = 8, [CLMOE_ID_U32] = 4, [CLMOE_ID_I16] = 2, [CLMOE_ID_U8] = 1};

/* narrow_id: to i32 so that negative stays negative and too large stays too large. [with tables in the workspace][type of id] */
#define ALIGN_KERNELS(variant_name, define_text)                                                                                           \
    {                                                                                                                                      \
        .op = "align", .variant = variant_name, .defines = define_text, .kernel_names = {                                                  \
            [CLMOE_ALIGN_ONE] = "align_one",                                                                                               \
            [CLMOE_ALIGN_COUNT] = "align_count",                                                                                           \
            [CLMOE_ALIGN_OFFSETS] = "align_offsets",                                                                                       \
            [CLMOE_ALIGN_PLACE] = "align_place"                                                                                            \
        }                                                                                                                                  \
    }
#define ALIGN_KERNEL_SETS(prefix)                                                                                                          \
    {                                                                                                                                      \
        [CLMOE_ID_I32] = ALIGN_KERNELS("i32", prefix "#define ID int\n#define narrow_id(id) (id)\n"),                                      \
        [CLMOE_ID_I64] = ALIGN_KERNELS("i64", prefix "#define ID long\n#define narrow_id(id) convert_int_sat(id)\n"),                      \
        [CLMOE_ID_U32] = ALIGN_KERNELS("u32", prefix "#define ID uint\n#define narrow_id(id) convert_int_sat(id)\n"),                      \
        [CLMOE_ID_I16] = ALIGN_KERNELS("i16", prefix "#define ID short\n#define narrow_id(id) ((int)(id))\n"),                             \
        [CLMOE_ID_U8] = ALIGN_KERNELS("u8", prefix "#define ID uchar\n#define narrow_id(id) ((int)(id))\n"),                               \
    }
static const struct clmoe_kernel_set kernel_sets[2][5] = {ALIGN_KERNEL_SETS(""), ALIGN_KERNEL_SETS("#define SCRATCH_IS_GLOBAL\n")};

static uint32_t num_buckets_of(const clmoe_align_desc *desc) {
    return desc->num_experts + (desc->foreign == CLMOE_FOREIGN_BUCKET);
}

static uint64_t max_rows_of(const clmoe_align_desc *desc, uint32_t num_tokens) {
    const uint64_t pairs = (uint64_t)num_tokens * desc->top_k, buckets = num_buckets_of(desc);
    const uint64_t used = pairs < buckets ? pairs : buckets;
    return (used + (pairs - used) / desc->block_size) * desc->block_size;
}

/* Returns NULL, or the name of the wrong field with *limit saying what it must be. */
static const char *wrong_field(const clmoe_align_desc *desc, const char **limit) {
    *limit = "must be at least 1";
    if (desc->top_k == 0)
        return "top_k";
    if (desc->num_experts == 0)
        return "num_experts";
    if (desc->block_size == 0)
        return "block_size";
    *limit = "must be below 2^31";
    if (desc->num_experts > INT32_MAX)
        return "num_experts";
    if (desc->block_size > INT32_MAX)
        return "block_size";
    *limit = "is none of the CLMOE_ID_ values";
    if ((uint32_t)desc->id_type > CLMOE_ID_U8)
        return "id_type";
    *limit = "is none of the CLMOE_FOREIGN_ values";
    if ((uint32_t)desc->foreign > CLMOE_FOREIGN_BUCKET)
        return "foreign";
    *limit = "times top_k must stay below 2^31";
    if ((uint64_t)desc->max_tokens * desc->top_k > INT32_MAX)
        return "max_tokens";
    *limit = "may need rows beyond 2^31 - 1 with this block_size";
    if (max_rows_of(desc, desc->max_tokens) > INT32_MAX)
        return "max_tokens";
    *limit = "must be 0 (the library chooses), 1, 2 or 3";
    if (desc->tuning.num_launches > 3)
        return "tuning.num_launches";
    *limit = "must be at most 65536";
    if (desc->tuning.num_groups > 65536)
        return "tuning.num_groups";
    return NULL;
}

clmoe_status clmoe_align_max_rows(const clmoe_align_desc *desc, uint32_t num_tokens, uint32_t *rows) {
    const char *limit;
    if (desc == NULL || rows == NULL || wrong_field(desc, &limit) != NULL || num_tokens > desc->max_tokens)
        return CLMOE_INVALID_ARGUMENT;
    *rows = (uint32_t)max_rows_of(desc, num_tokens);
    return CLMOE_SUCCESS;
}

struct clmoe_align_shape clmoe_align_shape_of(const struct clmoe_align_part *part, uint32_t num_tokens, uint32_t capacity) {
    return (struct clmoe_align_shape){num_tokens, part->desc.top_k,    part->num_buckets, part->desc.block_size,
                                      capacity,   part->scratch_groups};
}

/* Rows of the workspace table; the parallel class keeps next rows in local memory, and its single launch needs no table at all. */
static uint64_t table_rows(clmoe_class kernel_class, uint32_t num_chunks) {
    return kernel_class == CLMOE_CLASS_SERIAL ? 2 * (uint64_t)num_chunks + 1 : (uint64_t)num_chunks + 1;
}

/* ---- Plan ---- */

clmoe_status clmoe_align_check_desc(clmoe_context *context, const char *function, const clmoe_align_desc *desc) {
    const char *limit, *field = wrong_field(desc, &limit);
    return field == NULL ? CLMOE_SUCCESS : clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.%s: %s", function, field, limit);
}

struct clmoe_align_part clmoe_align_part_of(const clmoe_context *context, const clmoe_align_desc *desc, uint32_t group_size, bool is_wide) {
    const clmoe_class kernel_class = context->info.kernel_class;
    struct clmoe_align_part part = {.desc = *desc, .num_buckets = num_buckets_of(desc), .scratch_groups = is_wide ? CLMOE_WIDE_GROUPS : 0};
    const struct clmoe_align_shape largest = clmoe_align_shape_of(&part, desc->max_tokens, (uint32_t)max_rows_of(desc, desc->max_tokens));
    const uint32_t chunks = clmoe_tune_align_max_chunks(&context->limits, kernel_class, group_size, &desc->tuning, &largest);
    part.table_items = table_rows(kernel_class, chunks) * align_table_stride(part.num_buckets);
    if (is_wide && chunks > CLMOE_WIDE_GROUPS)
        part.scratch_groups = chunks;
    return part;
}

/* Bytes that one call moves: ids once for each pass over them, the result once, the table as often as it is walked. */
clmoe_status clmoe_align_part_describe(const clmoe_context *context, const struct clmoe_align_part *part, uint32_t group_size,
                                       uint32_t num_tokens, clmoe_plan_info *info, const char **refusal) {
    const uint32_t rows = (uint32_t)max_rows_of(&part->desc, num_tokens);
    const struct clmoe_align_shape shape = clmoe_align_shape_of(part, num_tokens, rows);
    struct clmoe_align_path path;
    *refusal = clmoe_tune_align(&context->limits, info->kernel_class, group_size, &part->desc.tuning, &shape, &path);
    if (*refusal != NULL)
        return CLMOE_UNSUPPORTED;

    const uint64_t pairs = (uint64_t)num_tokens * part->desc.top_k, ids = pairs * id_bytes[part->desc.id_type];
    const uint64_t table_row = 4 * ((uint64_t)part->num_buckets + ALIGN_EXTRA_COLUMNS);
    const bool is_local = info->kernel_class == CLMOE_CLASS_PARALLEL;
    info->num_launches += path.num_launches;
    info->num_groups = path.num_groups;
    info->bytes_read += 2 * ids;
    info->bytes_written += 4 * ((uint64_t)rows + rows / part->desc.block_size + 1);
    if (path.num_launches > 1 || !is_local)
        info->bytes_written += table_row * path.num_chunks; /* count */
    if (path.num_launches == 1)
        info->bytes_read += is_local ? 0 : table_row;
    else if (path.num_launches == 2)
        info->bytes_read += table_row * path.num_chunks * path.num_groups; /* place, each group the whole table */
    else {
        info->bytes_read += table_row * path.num_chunks + 2 * table_row * path.num_groups; /* offsets; place, its own row and the totals */
        info->bytes_written += table_row * (path.num_chunks + 1);
    }
    return CLMOE_SUCCESS;
}

static clmoe_status describe(const clmoe_plan *base, size_t num_tokens, clmoe_plan_info *info) {
    const struct clmoe_align_part *part = &((const struct align_plan *)base)->part;
    clmoe_context *context = base->context;
    const char *refusal;
    if (num_tokens > part->desc.max_tokens)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "clmoe_plan_describe: num_items: %zu, the plan takes up to %u tokens",
                          num_tokens, part->desc.max_tokens);
    if (clmoe_align_part_describe(context, part, base->group_size, (uint32_t)num_tokens, info, &refusal) != CLMOE_SUCCESS)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "clmoe_plan_describe: num_items: %zu: %s", num_tokens, refusal);
    if (info->kernel_class == CLMOE_CLASS_PARALLEL && part->scratch_groups == 0)
        info->local_bytes = 4 * align_local_items(part->num_buckets, base->group_size);
    return CLMOE_SUCCESS;
}

static uint64_t local_items(const uint32_t *num_buckets, uint32_t group_size) {
    return align_local_items(*num_buckets, group_size);
}

clmoe_status clmoe_align_plan_create(clmoe_context *context, const clmoe_align_desc *desc, clmoe_plan **plan) {
    static const char function[] = "clmoe_align_plan_create";
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status == CLMOE_SUCCESS)
        status = clmoe_align_check_desc(context, function, desc);
    if (status != CLMOE_SUCCESS)
        return status;

    const clmoe_class kernel_class = context->info.kernel_class;
    const uint32_t buckets = num_buckets_of(desc), wanted = desc->tuning.group_size;
    /* Tables that do not fit local memory go to the workspace. */
    const bool is_wide =
        kernel_class == CLMOE_CLASS_PARALLEL && clmoe_tune_group_size(&context->limits, wanted, local_items, &buckets) == 0;
    uint32_t group_size;
    status = clmoe_choose_group_size(context, function, &desc->tuning, is_wide ? clmoe_no_local_items : local_items, &buckets, &group_size);
    if (status == CLMOE_SUCCESS && is_wide) {
        if (wanted == 0 && group_size > CLMOE_WIDE_GROUP_SIZE)
            group_size = CLMOE_WIDE_GROUP_SIZE;
        if (4 * align_local_items(buckets, group_size) > INT32_MAX)
            status = clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: desc.num_experts: %u need tables over 2^31 - 1 bytes", function,
                                desc->num_experts);
    }
    clmoe_plan *base;
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct align_plan), &kernel_sets[is_wide][desc->id_type], group_size,
                                desc->tuning.group_size, &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct clmoe_align_part *part = &((struct align_plan *)base)->part;
    base->describe = describe;
    *part = clmoe_align_part_of(context, desc, base->group_size, is_wide);
    uint64_t workspace_items = part->table_items;
    if (is_wide) {
        workspace_items += part->scratch_groups * align_local_items(buckets, base->group_size);
        if (base->program.note[0] == '\0')
            snprintf(base->program.note, sizeof base->program.note, "tables in the workspace: %u experts need more than the local memory",
                     desc->num_experts);
    }
    base->workspace_bytes = (size_t)(4 * workspace_items);
    *plan = base;
    return CLMOE_SUCCESS;
}

/* ---- Enqueue ---- */

enum { NUM_INPUTS = CLMOE_VIEW_NUM_TOKENS_DEVICE + 1 };
_Static_assert(CLMOE_ALIGN_VIEWS + 3 <= CLMOE_MAX_ARGUMENTS, "parameters, operands, table and local memory");

/* [inside of route_align][view] */
#define VIEW_NAMES(prefix)                                                                                                                 \
    {                                                                                                                                      \
        [CLMOE_VIEW_TOPK_IDS] = prefix "topk_ids", [CLMOE_VIEW_EXPERT_MAP] = prefix "expert_map",                                          \
        [CLMOE_VIEW_ROW_MASK] = prefix "row_mask", [CLMOE_VIEW_NUM_TOKENS_DEVICE] = prefix "num_tokens_device",                            \
        [CLMOE_VIEW_TOPK_WEIGHTS] = prefix "topk_weights", [CLMOE_VIEW_SORTED_TOKEN_IDS] = prefix "sorted_token_ids",                      \
        [CLMOE_VIEW_EXPERT_IDS] = prefix "expert_ids", [CLMOE_VIEW_NUM_TOKENS_POST_PADDED] = prefix "num_tokens_post_padded",              \
        [CLMOE_VIEW_COUNTS] = prefix "counts", [CLMOE_VIEW_OFFSETS] = prefix "offsets",                                                    \
        [CLMOE_VIEW_PADDED_OFFSETS] = prefix "padded_offsets", [CLMOE_VIEW_INVERSE] = prefix "inverse",                                    \
        [CLMOE_VIEW_ROWS_VALID] = prefix "rows_valid", [CLMOE_VIEW_SORTED_WEIGHTS] = prefix "sorted_weights",                              \
        [CLMOE_VIEW_STATUS] = prefix "status"                                                                                              \
    }
static const char *const view_names[2][CLMOE_ALIGN_VIEWS] = {VIEW_NAMES("args."), VIEW_NAMES("args.align.")};

/* Items from the first to the last of `rows` rows. */
static uint64_t strided_items(uint32_t rows, uint32_t row_items, uint32_t stride) {
    return rows == 0 ? 0 : (uint64_t)(rows - 1) * stride + row_items;
}

static uint32_t stride_of(uint32_t stride, const clmoe_align_desc *desc) {
    return stride != 0 ? stride : desc->top_k;
}

clmoe_status clmoe_align_fill_views(clmoe_context *context, const char *function, const struct clmoe_align_part *part,
                                    const clmoe_align_args *args, bool is_inside, struct clmoe_view views[CLMOE_ALIGN_VIEWS]) {
    const clmoe_align_desc *desc = &part->desc;
    const uint32_t tokens = args->num_tokens;
    const uint32_t row_stride = stride_of(args->row_stride, desc), weights_stride = stride_of(args->weights_stride, desc);
    if (tokens > desc->max_tokens)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: args.num_tokens: %u, the plan takes up to %u", function, tokens,
                          desc->max_tokens);
    if (row_stride < desc->top_k)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: args.row_stride: %u, must be 0 or at least top_k = %u", function,
                          row_stride, desc->top_k);
    if (weights_stride < desc->top_k)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: args.weights_stride: %u, must be 0 or at least top_k = %u", function,
                          weights_stride, desc->top_k);

    const char *const *names = view_names[is_inside];
    const uint64_t capacity_bytes = args->sorted_token_ids.size_bytes, capacity = capacity_bytes / 4;
    const uint64_t rows = max_rows_of(desc, tokens);
    if (capacity_bytes % 4 != 0 || capacity < rows || capacity % desc->block_size != 0 || capacity > INT32_MAX)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT,
                          "%s: %s: %" PRIu64 " bytes given, must be 4 times a multiple of block_size = %u, from %" PRIu64
                          " rows to 2^31 - 1",
                          function, names[CLMOE_VIEW_SORTED_TOKEN_IDS], capacity_bytes, desc->block_size, rows);
    const uint64_t pairs = (uint64_t)tokens * desc->top_k, blocks = capacity / desc->block_size, experts = desc->num_experts;
    const bool has_weights = clmoe_is_present(&args->sorted_weights);
#define INPUT(view, field, items, bytes, is_required) views[view] = clmoe_input(names[view], &args->field, items, bytes, is_required)
#define OUTPUT(view, field, items, is_required) views[view] = clmoe_output(names[view], &args->field, items, 4, is_required)
    INPUT(CLMOE_VIEW_TOPK_IDS, topk_ids, strided_items(tokens, desc->top_k, row_stride), id_bytes[desc->id_type], true);
    INPUT(CLMOE_VIEW_EXPERT_MAP, expert_map, experts, 4, false);
    INPUT(CLMOE_VIEW_ROW_MASK, row_mask, tokens, 1, false);
    INPUT(CLMOE_VIEW_NUM_TOKENS_DEVICE, num_tokens_device, 1, 4, false);
    INPUT(CLMOE_VIEW_TOPK_WEIGHTS, topk_weights, has_weights ? strided_items(tokens, desc->top_k, weights_stride) : 0, 4, has_weights);
    OUTPUT(CLMOE_VIEW_SORTED_TOKEN_IDS, sorted_token_ids, capacity, true);
    OUTPUT(CLMOE_VIEW_EXPERT_IDS, expert_ids, blocks, true);
    OUTPUT(CLMOE_VIEW_NUM_TOKENS_POST_PADDED, num_tokens_post_padded, 1, true);
    OUTPUT(CLMOE_VIEW_COUNTS, counts, experts, false);
    OUTPUT(CLMOE_VIEW_OFFSETS, offsets, experts + 1, false);
    OUTPUT(CLMOE_VIEW_PADDED_OFFSETS, padded_offsets, experts + 1, false);
    OUTPUT(CLMOE_VIEW_INVERSE, inverse, pairs, false);
    OUTPUT(CLMOE_VIEW_ROWS_VALID, rows_valid, blocks, false);
    OUTPUT(CLMOE_VIEW_SORTED_WEIGHTS, sorted_weights, capacity, false);
    OUTPUT(CLMOE_VIEW_STATUS, status, 4, false);
#undef INPUT
#undef OUTPUT
    return CLMOE_SUCCESS;
}

struct align_params clmoe_align_params_of(const struct clmoe_align_part *part, const clmoe_align_args *args,
                                          const struct clmoe_view views[CLMOE_ALIGN_VIEWS], uint32_t group_size) {
    static const struct {
        int view;
        uint32_t flag;
    } flags[] = {{CLMOE_VIEW_EXPERT_MAP, ALIGN_HAS_MAP},
                 {CLMOE_VIEW_ROW_MASK, ALIGN_HAS_MASK},
                 {CLMOE_VIEW_NUM_TOKENS_DEVICE, ALIGN_HAS_NUM_TOKENS},
                 {CLMOE_VIEW_COUNTS, ALIGN_HAS_COUNTS},
                 {CLMOE_VIEW_OFFSETS, ALIGN_HAS_OFFSETS},
                 {CLMOE_VIEW_PADDED_OFFSETS, ALIGN_HAS_PADDED_OFFSETS},
                 {CLMOE_VIEW_INVERSE, ALIGN_HAS_INVERSE},
                 {CLMOE_VIEW_ROWS_VALID, ALIGN_HAS_ROWS_VALID},
                 {CLMOE_VIEW_SORTED_WEIGHTS, ALIGN_HAS_WEIGHTS},
                 {CLMOE_VIEW_STATUS, ALIGN_HAS_STATUS}};
    const clmoe_align_desc *desc = &part->desc;
    const uint32_t row_stride = stride_of(args->row_stride, desc);
    uint32_t has = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; ++i)
        if (clmoe_is_present(views[flags[i].view].buffer))
            has |= flags[i].flag;
    if ((has & (ALIGN_HAS_MAP | ALIGN_HAS_MASK)) == 0 && row_stride == desc->top_k && desc->foreign != CLMOE_FOREIGN_BUCKET)
        has |= ALIGN_IS_PLAIN;

#define START_OF(view) clmoe_start_of(&views[view])
    return (struct align_params){
        .topk_ids_at = START_OF(CLMOE_VIEW_TOPK_IDS),
        .expert_map_at = START_OF(CLMOE_VIEW_EXPERT_MAP),
        .row_mask_at = START_OF(CLMOE_VIEW_ROW_MASK),
        .num_tokens_device_at = START_OF(CLMOE_VIEW_NUM_TOKENS_DEVICE),
        .topk_weights_at = START_OF(CLMOE_VIEW_TOPK_WEIGHTS),
        .sorted_token_ids_at = START_OF(CLMOE_VIEW_SORTED_TOKEN_IDS),
        .expert_ids_at = START_OF(CLMOE_VIEW_EXPERT_IDS),
        .num_tokens_post_padded_at = START_OF(CLMOE_VIEW_NUM_TOKENS_POST_PADDED),
        .counts_at = START_OF(CLMOE_VIEW_COUNTS),
        .offsets_at = START_OF(CLMOE_VIEW_OFFSETS),
        .padded_offsets_at = START_OF(CLMOE_VIEW_PADDED_OFFSETS),
        .inverse_at = START_OF(CLMOE_VIEW_INVERSE),
        .rows_valid_at = START_OF(CLMOE_VIEW_ROWS_VALID),
        .sorted_weights_at = START_OF(CLMOE_VIEW_SORTED_WEIGHTS),
        .status_at = START_OF(CLMOE_VIEW_STATUS),
        .scratch_items = align_local_items(part->num_buckets, group_size),
        .num_tokens = args->num_tokens,
        .top_k = desc->top_k,
        .row_stride = row_stride,
        .weights_stride = stride_of(args->weights_stride, desc),
        .num_experts = desc->num_experts,
        .num_buckets = part->num_buckets,
        .block_size = desc->block_size,
        .capacity = (uint32_t)(args->sorted_token_ids.size_bytes / 4),
        .foreign = (uint32_t)desc->foreign,
        .has = has,
        .pad_value = desc->has_pad_value ? desc->pad_value : (int32_t)(args->num_tokens * desc->top_k),
        .num_chunks = 1,
        .table_stride = align_table_stride(part->num_buckets),
    };
#undef START_OF
}

static void add_views(struct clmoe_stage *stage, const struct clmoe_view *views, int last) {
    for (int i = 0; i < last; ++i)
        clmoe_stage_buffer(stage, views[i].buffer);
}

clmoe_status clmoe_align_add_launches(clmoe_context *context, const char *function, const struct clmoe_align_part *part,
                                      uint32_t group_size, unsigned first_kernel, const struct clmoe_view views[CLMOE_ALIGN_VIEWS],
                                      const clmoe_buffer *workspace, struct align_params *params, struct clmoe_call *call) {
    const clmoe_class kernel_class = context->info.kernel_class;
    const struct clmoe_align_shape shape = clmoe_align_shape_of(part, params->num_tokens, params->capacity);
    struct clmoe_align_path path;
    const char *refusal = clmoe_tune_align(&context->limits, kernel_class, group_size, &part->desc.tuning, &shape, &path);
    if (refusal != NULL)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.num_tokens: %u: %s", function, params->num_tokens, refusal);
    params->num_chunks = path.num_chunks;
    params->is_prefixed = path.num_launches == 3;

    struct clmoe_stage *stage;
    const bool is_parallel = kernel_class == CLMOE_CLASS_PARALLEL, is_one = path.num_launches == 1, is_wide = part->scratch_groups != 0;
    if (!is_one) {
        stage = clmoe_call_launch(call, first_kernel + CLMOE_ALIGN_COUNT, path.num_chunks, group_size, params, sizeof *params);
        add_views(stage, views, NUM_INPUTS);
        clmoe_stage_buffer(stage, workspace);
        if (is_wide)
            clmoe_stage_buffer(stage, workspace);
        else if (is_parallel)
            clmoe_stage_local(stage, 4 * ((size_t)part->num_buckets + ALIGN_EXTRA_COLUMNS));
    }
    if (path.num_launches == 3) {
        stage = clmoe_call_launch(call, first_kernel + CLMOE_ALIGN_OFFSETS, path.offsets_groups, group_size, params, sizeof *params);
        clmoe_stage_buffer(stage, workspace);
    }
    stage = clmoe_call_launch(call, first_kernel + (is_one ? CLMOE_ALIGN_ONE : CLMOE_ALIGN_PLACE), path.num_groups, group_size, params,
                              sizeof *params);
    add_views(stage, views, CLMOE_ALIGN_VIEWS);
    if (!is_one || !is_parallel)
        clmoe_stage_buffer(stage, workspace);
    if (is_wide)
        clmoe_stage_buffer(stage, workspace);
    else if (is_parallel)
        clmoe_stage_local(stage, (size_t)(4 * align_local_items(part->num_buckets, group_size)));
    return CLMOE_SUCCESS;
}

clmoe_status clmoe_align_enqueue(clmoe_plan *base, cl_command_queue queue, const clmoe_align_args *args, cl_uint num_events_in_wait_list,
                                 const cl_event *event_wait_list, cl_event *event) {
    static const char function[] = "clmoe_align_enqueue";
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct clmoe_align_part *part = &((const struct align_plan *)base)->part;
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    struct clmoe_view views[CLMOE_ALIGN_VIEWS + 1];
    status = clmoe_align_fill_views(context, function, part, args, false, views);
    if (status != CLMOE_SUCCESS)
        return status;
    views[CLMOE_ALIGN_VIEWS] = clmoe_workspace(base, &args->workspace, 4);
    status = clmoe_check_call(context, function, views, CLMOE_ALIGN_VIEWS + 1, &tail);
    if (status != CLMOE_SUCCESS)
        return status;

    struct align_params params = clmoe_align_params_of(part, args, views, base->group_size);
    params.table_at = clmoe_start_of(&views[CLMOE_ALIGN_VIEWS]);
    params.scratch_at = params.table_at + part->table_items;
    struct clmoe_call call;
    call.num_stages = 0;
    status = clmoe_align_add_launches(context, function, part, base->group_size, 0, views, &args->workspace, &params, &call);
    return status != CLMOE_SUCCESS ? status : context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, &tail);
}
