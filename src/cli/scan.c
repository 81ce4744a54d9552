#include "command.h"
#include "job.h"

#include <stdlib.h>
#include <string.h>

enum { AS_THE_ARRAY, AS_U32, AS_I32, AS_U64 };

/* The items as C converts them: modulo 2^32 or 2^64. NULL without memory. */
static void *convert(const npy_array *array, uint32_t item_bytes) {
    unsigned char *items = malloc(array->num_items ? array->num_items * item_bytes : 1);
    for (size_t i = 0; items && i < array->num_items; i++) {
        uint64_t wide = 0;
        if (array->item_bytes == sizeof wide) {
            memcpy(&wide, (const unsigned char *)array->data + i * sizeof wide, sizeof wide);
        } else {
            wide = (uint64_t)npy_integer(array, i);
        }
        const uint32_t narrow = (uint32_t)wide;
        memcpy(items + i * item_bytes, item_bytes == sizeof narrow ? (const void *)&narrow : &wide, item_bytes);
    }
    return items;
}

static void scan(job *work, const char *path, uint32_t as, bool is_inclusive, const char *sums_path) {
    static const clmoe_type types[] = {[AS_U32] = CLMOE_TYPE_U32, [AS_I32] = CLMOE_TYPE_I32, [AS_U64] = CLMOE_TYPE_U64};
    const unsigned taken = as == AS_THE_ARRAY ? 1U << CLMOE_TYPE_U32 | 1U << CLMOE_TYPE_I32 | 1U << CLMOE_TYPE_U64 : JOB_INTEGERS;
    clmoe_scan_desc desc = {.kind = is_inclusive ? CLMOE_SCAN_INCLUSIVE : CLMOE_SCAN_EXCLUSIVE};
    clmoe_scan_args args = {0};
    const npy_array *array = job_read(work, path, as == AS_THE_ARRAY ? "without --as items" : "items", taken, JOB_FLAT, &args.num_items);
    if (job_failed(work)) {
        return;
    }
    desc.max_items = args.num_items;
    desc.type = as == AS_THE_ARRAY ? job_type(array) : types[as];
    const npy_array sums = {
        .kind = desc.type == CLMOE_TYPE_I32 ? 'i' : 'u', .item_bytes = desc.type == CLMOE_TYPE_U64 ? 8 : 4, .num_dims = 1};
    void *items = convert(array, sums.item_bytes);
    if (!items) {
        work->result = report_error(work->command, OUTCOME_DEVICE_FAILED, "no memory for %zu items", array->num_items);
    }
    job_open(work);
    if (!job_failed(work)) {
        job_check(work, clmoe_scan_plan_create(work->work.context, &desc, &work->plan));
    }
    args.input = args.output = job_buffer(work, items, array->num_items * sums.item_bytes);
    free(items);
    args.workspace = job_workspace(work);
    if (!job_failed(work)) {
        job_check(work, clmoe_scan_enqueue(work->plan, clmoe_context_queue(work->work.context), &args, 0, NULL, NULL));
    }
    job_write(work, sums_path, &sums, args.num_items, args.output);
    const job_fact facts[] = {{"items", args.num_items}};
    job_finish(work, args.num_items, facts, sizeof facts / sizeof facts[0]);
}

outcome command_scan(int argc, char **argv) {
    job work = {.command = "scan"};
    const char *path = NULL, *sums_path = NULL;
    uint32_t as = AS_U32;
    bool has_as = false, is_inclusive = false;
    const option_spec specs[] = {
        {"--inclusive", OPTION_FLAG, &is_inclusive, NULL, "sums up to and with each item, not before it", 0, 0, NULL},
        {"--as", OPTION_CHOICE, &as, "u32|i32|u64", "type of the sums; items of any integer type are converted [the type of X.npy]", 0, 0,
         &has_as},
        {"-o", OPTION_TEXT, (void *)&sums_path, "Y.npy", "where the sums go; needed", 0, 0, NULL},
    };
    static const char purpose[] = "Sums of all items of X.npy before each one, modulo 2^32 or 2^64. X.npy: uint32, int32 or uint64 in one "
                                  "dimension; with --as any integers.";
    const command_syntax syntax = {work.command, "X.npy -o Y.npy [options]", purpose, specs, sizeof specs / sizeof specs[0], "X.npy"};
    if (options_parse(&syntax, argc, argv, &work.common, &path, &work.result)) {
        job_need(&work, sums_path != NULL, "-o Y.npy");
        scan(&work, path, has_as ? AS_U32 + as : AS_THE_ARRAY, is_inclusive, sums_path);
    }
    return job_end(&work);
}
