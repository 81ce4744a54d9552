/* sort - 8 bits a pass, least significant first: one launch makes all passes of a small sort, else each pass is
 *
 *     count, place             every group adds up the counts of all chunks itself
 *     count, offsets, place    a launch adds them up
 *
 * Passes go back and forth between the output and the spare arrays of the workspace, so that the last one ends in the output. The serial
 * class on one or two units makes one such pass, by the highest bits in which keys differ, and sorts the rows of each digit inside the
 * caches:
 *
 *     bits, count, spread, buckets, or with offsets
 */
#include "../../cl/sort.h"
#include "call.h"
#include "clmoe/primitives.h"

enum { KERNEL_ONE, KERNEL_COUNT, KERNEL_OFFSETS, KERNEL_PLACE, KERNEL_BITS, KERNEL_SPREAD, KERNEL_BUCKETS };
enum { SECTION_BYTES = 64 };

struct sort_plan {
    struct clmoe_plan base;
    clmoe_sort_desc desc; /* with the bits that count written out */
    uint32_t key_bytes, value_bytes, num_passes;
    uint32_t buffer_items, num_buffers;     /* so many, of so many items each */
    size_t values_at, buffers_at, table_at; /* bytes: where the workspace's sections begin; the spare keys come first */
};

#define SORT_SET(variant_name, define_text, first_part, ...)                                                                               \
    {                                                                                                                                      \
        .op = "sort", .parts = {first_part}, .variant = variant_name, .defines = define_text, .kernel_names = {                            \
            "sort_one",                                                                                                                    \
            "sort_count",                                                                                                                  \
            "sort_offsets",                                                                                                                \
            "sort_place",                                                                                                                  \
            __VA_ARGS__                                                                                                                    \
        }                                                                                                                                  \
    }
#define TYPES(key, value) "#define KEY " key "\n#define VALUE " value "\n"
#define SERIAL(variant, types, value_bytes)                                                                                                \
    SORT_SET(variant, types "#define VALUE_BYTES " value_bytes "\n", "sort_items", "sort_bits", "sort_spread", "sort_buckets")
#define PARALLEL(variant, types) SORT_SET(variant, types, NULL, NULL)
static const struct clmoe_kernel_set serial_sets[2][3] = {
    /* [64-bit keys][value_bytes / 4] */
    {
        SERIAL("k32", TYPES("uint", "uint"), "0"),
        SERIAL("k32v32", TYPES("uint", "uint"), "4"),
        SERIAL("k32v64", TYPES("uint", "ulong"), "8"),
    },
    {
        SERIAL("k64", TYPES("ulong", "uint"), "0"),
        SERIAL("k64v32", TYPES("ulong", "uint"), "4"),
        SERIAL("k64v64", TYPES("ulong", "ulong"), "8"),
    },
};
static const struct clmoe_kernel_set parallel_sets[2][2] = {
    /* [64-bit keys][64-bit values]; each call tells whether there are values */
    {PARALLEL("k32v32", TYPES("uint", "uint")), PARALLEL("k32v64", TYPES("uint", "ulong"))},
    {PARALLEL("k64v32", TYPES("ulong", "uint")), PARALLEL("k64v64", TYPES("ulong", "ulong"))},
};

static uint64_t local_items(const uint32_t *shape, uint32_t group_size) {
    (void)shape;
    return SORT_DIGITS * (1 + (uint64_t)ceil_div(group_size, 32)) + group_size;
}

/* Of a packed item. */
static size_t item_bytes(const struct sort_plan *plan) {
    const size_t widest = plan->key_bytes > plan->value_bytes ? plan->key_bytes : plan->value_bytes;
    return plan->value_bytes == 0 ? plan->key_bytes : 2 * widest;
}

static clmoe_status describe(const clmoe_plan *base, size_t num_items, clmoe_plan_info *info) {
    static const char function[] = "clmoe_plan_describe";
    const struct sort_plan *plan = (const struct sort_plan *)base;
    struct clmoe_items_path path;
    const clmoe_status status = clmoe_check_items(base->context, function, "num_items", num_items, plan->desc.max_items);
    if (status != CLMOE_SUCCESS)
        return status;
    const char *refusal = clmoe_tune_sort(&base->context->limits, info->kernel_class, base->group_size, &plan->desc.tuning,
                                          (uint32_t)num_items, plan->num_passes, &path);
    if (refusal != NULL)
        return clmoe_fail(base->context, CLMOE_UNSUPPORTED, "%s: num_items: %zu: %s", function, num_items, refusal);
    const bool is_serial = info->kernel_class == CLMOE_CLASS_SERIAL, has_buckets = path.num_bucket_groups != 0;
    const uint64_t keys = (uint64_t)num_items * plan->key_bytes, values = (uint64_t)num_items * plan->value_bytes;
    const uint64_t values_in = plan->desc.is_argsort ? 0 : values, table = (4ull << path.digit_bits) * path.num_chunks;
    const uint64_t table_read = path.num_launches == 2 ? table * path.num_chunks : 3 * table;
    const uint64_t table_written = path.num_launches == 2 ? table : 2 * table, passes = plan->num_passes;
    info->num_groups = path.num_chunks;
    if (has_buckets) { /* keys for their bits and, if that was not the same walk, their digits; all items to the spare ones and on */
        const uint64_t items = num_items * item_bytes(plan);
        info->num_launches = path.num_launches + 2;
        info->bytes_read = 3 * keys + values_in + items + table_read + path.num_bucket_groups * table_read / path.num_chunks;
        info->bytes_written = items + keys + values + table_written;
    } else if (path.num_launches == 1 && num_items <= plan->buffer_items * (uint64_t)plan->num_buffers) { /* all inside the caches */
        info->num_launches = 1;
        info->bytes_read = keys + values_in;
        info->bytes_written = keys + values;
    } else { /* keys are read to be placed, and to be counted: at once for all passes of one launch in the serial class */
        const bool counts_once = is_serial && path.num_launches == 1;
        info->num_launches = path.num_launches == 1 ? 1 : path.num_launches * plan->num_passes;
        info->bytes_read = passes * (keys + values) - (values - values_in) + (counts_once ? 2 : passes) * keys;
        info->bytes_written = passes * (keys + values);
        if (path.num_launches > 1) {
            info->bytes_read += passes * table_read;
            info->bytes_written += passes * table_written;
        }
    }
    if (info->kernel_class == CLMOE_CLASS_PARALLEL)
        info->local_bytes = 4 * local_items(NULL, base->group_size);
    return CLMOE_SUCCESS;
}

/* Returns NULL, or the name of the wrong field with *limit saying what it must be. */
static const char *wrong_field(const clmoe_sort_desc *desc, uint32_t key_bits, const char **limit) {
    *limit = "must be U32, I32, F32 or U64";
    if ((uint32_t)desc->key_type > CLMOE_TYPE_U64)
        return "key_type";
    *limit = "must be 0, 4 or 8";
    if (desc->value_bytes != 0 && desc->value_bytes != 4 && desc->value_bytes != 8)
        return "value_bytes";
    *limit = "goes with value_bytes 4";
    if (desc->is_argsort && desc->value_bytes != 4)
        return "is_argsort";
    *limit = "must be at most the bits of the key";
    if (desc->end_bit > key_bits)
        return "end_bit";
    *limit = "must be at most end_bit";
    if (desc->begin_bit > desc->end_bit)
        return "begin_bit";
    return NULL;
}

static size_t section(uint64_t bytes) {
    return (size_t)((bytes + SECTION_BYTES - 1) / SECTION_BYTES * SECTION_BYTES);
}

clmoe_status clmoe_sort_plan_create(clmoe_context *context, const clmoe_sort_desc *desc, clmoe_plan **plan) {
    static const char function[] = "clmoe_sort_plan_create";
    clmoe_status status = clmoe_check_creation(context, desc, plan, function);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_max_items(context, function, desc->max_items, &desc->tuning);
    if (status != CLMOE_SUCCESS)
        return status;
    const bool has_wide_keys = desc->key_type == CLMOE_TYPE_U64, is_serial = context->info.kernel_class == CLMOE_CLASS_SERIAL;
    const uint32_t key_bits = has_wide_keys ? 64 : 32;
    const char *limit, *field = wrong_field(desc, key_bits, &limit);
    if (field != NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: desc.%s: %s", function, field, limit);

    uint32_t group_size;
    clmoe_plan *base;
    status = clmoe_choose_group_size(context, function, &desc->tuning, local_items, NULL, &group_size);
    if (status == CLMOE_SUCCESS)
        status = clmoe_plan_new(context, sizeof(struct sort_plan),
                                is_serial ? &serial_sets[has_wide_keys][desc->value_bytes / 4]
                                          : &parallel_sets[has_wide_keys][desc->value_bytes == 8],
                                group_size, desc->tuning.group_size, &base);
    if (status != CLMOE_SUCCESS)
        return status;
    struct sort_plan *made = (struct sort_plan *)base;
    made->desc = *desc;
    if (desc->begin_bit == 0 && desc->end_bit == 0)
        made->desc.end_bit = key_bits;
    made->key_bytes = key_bits / 8;
    made->value_bytes = desc->value_bytes;
    made->num_passes = sort_num_passes(made->desc.begin_bit, made->desc.end_bit);
    base->describe = describe;
    struct clmoe_items_path path;
    clmoe_tune_sort(&context->limits, context->info.kernel_class, base->group_size, &desc->tuning, desc->max_items, made->num_passes,
                    &path);
    made->buffer_items = path.buffer_items;
    made->num_buffers = path.num_bucket_groups > 1 ? path.num_bucket_groups : 1;
    const uint64_t spare_items = made->num_passes > 1 ? desc->max_items : 0;
    const uint64_t apart = section(spare_items * made->key_bytes) + section(spare_items * made->value_bytes);
    const uint64_t packed = section((path.num_bucket_groups != 0 ? spare_items : made->buffer_items) * item_bytes(made));
    const uint64_t table_items = is_serial ? sort_table_items(path.num_chunks, path.digit_bits, path.num_bucket_groups)
                                           : ((uint64_t)path.num_chunks + 1) * SORT_DIGITS;
    made->values_at = section(spare_items * made->key_bytes);
    made->buffers_at = (size_t)(apart > packed ? apart : packed);
    made->table_at = made->buffers_at + section((uint64_t)made->num_buffers * made->buffer_items * item_bytes(made));
    base->workspace_bytes = made->table_at + 4 * (size_t)table_items;
    *plan = base;
    return CLMOE_SUCCESS;
}

/* ---- Enqueue ---- */

/* Where a pass finds or leaves its items: the memory, and where they begin in it. */
struct items_at {
    const clmoe_buffer *keys, *values;
    uint64_t keys_at, values_at;
};

static uint32_t order_of(clmoe_type type) {
    return type == CLMOE_TYPE_F32 ? SORT_FLOAT : type == CLMOE_TYPE_I32 ? SORT_SIGNED : SORT_UNSIGNED;
}

clmoe_status clmoe_sort_enqueue(clmoe_plan *base, cl_command_queue queue, const clmoe_sort_args *args, cl_uint num_events_in_wait_list,
                                const cl_event *event_wait_list, cl_event *event) {
    static const char function[] = "clmoe_sort_enqueue";
    enum { KEYS, VALUES, KEYS_OUT, VALUES_OUT, WORKSPACE, NUM_VIEWS };
    clmoe_status status;
    clmoe_context *context = clmoe_call_context(base, describe, args, function, &status);
    if (context == NULL)
        return status;
    const struct sort_plan *plan = (const struct sort_plan *)base;
    const struct clmoe_queue_tail tail = {queue, num_events_in_wait_list, event_wait_list, event};
    const uint32_t n = args->num_items, value_bytes = plan->value_bytes != 0 ? plan->value_bytes : 4;
    const bool has_values = plan->value_bytes != 0, reads_values = has_values && !plan->desc.is_argsort;
    const uint32_t widest = plan->key_bytes > value_bytes ? plan->key_bytes : value_bytes;
    const struct clmoe_view views[NUM_VIEWS] = {
        [KEYS] = clmoe_input("args.keys", &args->keys, n, plan->key_bytes, true),
        [VALUES] = clmoe_input("args.values", &args->values, reads_values ? n : 0, value_bytes, reads_values),
        [KEYS_OUT] = clmoe_output("args.keys_out", &args->keys_out, n, plan->key_bytes, true),
        [VALUES_OUT] = clmoe_output("args.values_out", &args->values_out, has_values ? n : 0, value_bytes, has_values),
        [WORKSPACE] = clmoe_workspace(base, &args->workspace, widest),
    };
    status = clmoe_check_items(context, function, "args.num_items", n, plan->desc.max_items);
    if (status == CLMOE_SUCCESS)
        status = clmoe_check_call(context, function, views, NUM_VIEWS, &tail);
    if (status != CLMOE_SUCCESS)
        return status;

    const clmoe_class kernel_class = context->info.kernel_class;
    struct clmoe_items_path path;
    const char *refusal = clmoe_tune_sort(&context->limits, kernel_class, base->group_size, &plan->desc.tuning, n, plan->num_passes, &path);
    if (refusal != NULL)
        return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s: args.num_items: %u: %s", function, n, refusal);

    const bool is_parallel = kernel_class == CLMOE_CLASS_PARALLEL, has_buckets = path.num_bucket_groups != 0;
    const size_t local_bytes = 4 * (size_t)local_items(NULL, base->group_size);
    const uint64_t workspace_at = args->workspace.offset_bytes;
    const struct items_at in = {&args->keys, &args->values, clmoe_start_of(&views[KEYS]), clmoe_start_of(&views[VALUES])};
    const struct items_at out = {&args->keys_out, &args->values_out, clmoe_start_of(&views[KEYS_OUT]), clmoe_start_of(&views[VALUES_OUT])};
    const struct items_at spare = {&args->workspace, &args->workspace, workspace_at / plan->key_bytes,
                                   (workspace_at + plan->values_at) / value_bytes};
    const struct sort_params common = {
        .keys_spare_at = spare.keys_at,
        .values_spare_at = spare.values_at,
        .table_at = (workspace_at + plan->table_at) / 4,
        .buffers_at = plan->buffers_at / item_bytes(plan),
        .num_items = n,
        .num_chunks = path.num_chunks,
        .order = order_of(plan->desc.key_type),
        .has = (has_values ? SORT_HAS_VALUES : 0u) | (plan->desc.is_descending ? SORT_IS_DESCENDING : 0u) |
               (has_buckets ? SORT_HAS_BUCKETS : 0u),
        .end_bit = plan->desc.end_bit,
        .digit_bits = path.digit_bits,
        .is_prefixed = path.num_launches == 3,
        .buffer_items = plan->buffer_items * (has_buckets ? 1 : plan->num_buffers),
    };
    struct sort_params params[SORT_MAX_PASSES];
    struct clmoe_call call;
    struct clmoe_stage *stage;
    struct items_at from = in;
    call.num_stages = 0;
    if (has_buckets) {
        stage = clmoe_call_launch(&call, KERNEL_BITS, path.num_chunks, base->group_size, &params[0], sizeof params[0]);
        clmoe_stage_buffer(stage, in.keys);
        clmoe_stage_buffer(stage, &args->workspace);
    }
    for (uint32_t pass = 0; pass < (path.num_launches == 1 || has_buckets ? 1 : plan->num_passes); ++pass) {
        const struct items_at to = path.num_launches == 1 || has_buckets || (plan->num_passes - pass) % 2 == 1 ? out : spare;
        struct sort_params *p = &params[pass];
        *p = common;
        p->keys_in_at = from.keys_at;
        p->values_in_at = from.values_at;
        p->keys_out_at = to.keys_at;
        p->values_out_at = to.values_at;
        p->shift = plan->desc.begin_bit + pass * SORT_DIGIT_BITS;
        if (plan->desc.is_argsort && pass == 0)
            p->has |= SORT_IS_ARGSORT;
        if (path.num_launches > 1) {
            stage = clmoe_call_launch(&call, KERNEL_COUNT, path.num_chunks, base->group_size, p, sizeof *p);
            clmoe_stage_buffer(stage, from.keys);
            clmoe_stage_buffer(stage, &args->workspace);
            if (is_parallel)
                clmoe_stage_local(stage, 4 * SORT_DIGITS);
        }
        if (path.num_launches == 3) {
            stage = clmoe_call_launch(&call, KERNEL_OFFSETS, path.num_groups, base->group_size, p, sizeof *p);
            clmoe_stage_buffer(stage, &args->workspace);
        }
        const unsigned kernel = path.num_launches == 1 ? KERNEL_ONE : has_buckets ? KERNEL_SPREAD : KERNEL_PLACE;
        stage = clmoe_call_launch(&call, kernel, path.num_chunks, base->group_size, p, sizeof *p);
        clmoe_stage_buffer(stage, from.keys);
        clmoe_stage_buffer(stage, from.values);
        clmoe_stage_buffer(stage, to.keys);
        clmoe_stage_buffer(stage, to.values);
        if (path.num_launches == 1 || has_buckets)
            clmoe_stage_buffer(stage, spare.keys);
        if (path.num_launches == 1)
            clmoe_stage_buffer(stage, spare.values);
        if (path.num_launches > 1 || !is_parallel)
            clmoe_stage_buffer(stage, &args->workspace);
        if (is_parallel)
            clmoe_stage_local(stage, local_bytes);
        from = to;
    }
    if (has_buckets) {
        stage = clmoe_call_launch(&call, KERNEL_BUCKETS, path.num_bucket_groups, base->group_size, &params[0], sizeof params[0]);
        clmoe_stage_buffer(stage, out.keys);
        clmoe_stage_buffer(stage, out.values);
        clmoe_stage_buffer(stage, spare.keys);
        clmoe_stage_buffer(stage, &args->workspace);
    }
    return context->backend->enqueue(context, base->kernels, call.stages, call.num_stages, &tail);
}
