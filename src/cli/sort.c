#include "command.h"
#include "job.h"

#include <inttypes.h>
#include <string.h>

/* What the command line asked for. */
typedef struct sort_request {
    const char *keys_path, *values_path, *keys_out_path, *values_out_path, *bits;
    bool is_descending;
} sort_request;

/* "8:16"; NULL = all. The library takes 0, 0 for all bits, so an empty range is refused. */
static void parse_bits(job *work, const char *text, uint32_t key_bits, clmoe_sort_desc *desc) {
    const char *colon = text ? strchr(text, ':') : NULL;
    char begin[16] = "";
    int64_t bits[2] = {0, 0};
    if (!text || job_failed(work)) {
        return;
    }
    if (!colon || (size_t)(colon - text) >= sizeof begin) {
        job_fail(work, "--bits %s: must be B:E, such as 0:8", text);
        return;
    }
    memcpy(begin, text, (size_t)(colon - text));
    work->result = options_number(work->command, "--bits: B", begin, 0, key_bits - 1, &bits[0]);
    if (!job_failed(work)) {
        work->result = options_number(work->command, "--bits: E", colon + 1, bits[0] + 1, key_bits, &bits[1]);
    }
    desc->begin_bit = (uint32_t)bits[0];
    desc->end_bit = (uint32_t)bits[1];
}

static void sort(job *work, const sort_request *request) {
    static const npy_array places = {.kind = 'u', .item_bytes = 4, .num_dims = 1};
    const unsigned types = 1U << CLMOE_TYPE_U32 | 1U << CLMOE_TYPE_I32 | 1U << CLMOE_TYPE_F32 | 1U << CLMOE_TYPE_U64;
    clmoe_sort_desc desc = {.is_descending = request->is_descending};
    clmoe_sort_args args = {0};
    const npy_array *values = NULL;
    uint32_t num_values = 0;
    const npy_array *keys = job_read(work, request->keys_path, "keys", types, JOB_FLAT, &args.num_items);
    if (!job_failed(work)) {
        desc.max_items = args.num_items;
        desc.key_type = job_type(keys);
        parse_bits(work, request->bits, keys->item_bytes * 8, &desc);
    }
    if (request->values_path) {
        values = job_read(work, request->values_path, "values", JOB_ANY_TYPE, JOB_FLAT, &num_values);
        desc.value_bytes = values->item_bytes;
        if (!job_failed(work) && desc.value_bytes != 4 && desc.value_bytes != 8) {
            job_refuse(work, request->values_path, values, "values must be int32, uint32, float32, int64, uint64 or float64");
        }
        if (!job_failed(work) && num_values != args.num_items) {
            job_refuse(work, request->values_path, values, "there must be as many values as keys");
        }
    } else if (request->values_out_path) {
        desc.is_argsort = 1;
        desc.value_bytes = places.item_bytes;
    }
    const size_t key_bytes = keys->num_items * keys->item_bytes, value_bytes = keys->num_items * desc.value_bytes;
    job_open(work);
    if (!job_failed(work)) {
        job_check(work, clmoe_sort_plan_create(work->work.context, &desc, &work->plan));
    }
    args.keys = job_buffer(work, keys->data, key_bytes);
    args.values = values ? job_buffer(work, values->data, value_bytes) : args.values;
    args.keys_out = job_buffer(work, NULL, key_bytes);
    args.values_out = job_buffer(work, NULL, value_bytes);
    args.workspace = job_workspace(work);
    if (!job_failed(work)) {
        job_check(work, clmoe_sort_enqueue(work->plan, clmoe_context_queue(work->work.context), &args, 0, NULL, NULL));
    }
    job_write(work, request->keys_out_path, keys, args.num_items, args.keys_out);
    if (request->values_out_path) {
        job_write(work, request->values_out_path, values ? values : &places, args.num_items, args.values_out);
    }
    const job_fact facts[] = {{"items", args.num_items}};
    job_finish(work, args.num_items, facts, sizeof facts / sizeof facts[0]);
}

outcome command_sort(int argc, char **argv) {
    job work = {.command = "sort"};
    sort_request request = {0};
    const option_spec specs[] = {
        {"--values", OPTION_TEXT, (void *)&request.values_path, "V.npy", "values that go along, one of 4 or 8 bytes for each key", 0, 0,
         NULL},
        {"--descending", OPTION_FLAG, &request.is_descending, NULL, "largest keys first; equal ones still keep their order", 0, 0, NULL},
        {"--bits", OPTION_TEXT, (void *)&request.bits, "B:E", "sorts by bits B to E-1 of the keys alone, 0 the lowest [all]", 0, 0, NULL},
        {"-o", OPTION_TEXT, (void *)&request.keys_out_path, "KEYS_OUT.npy", "where the sorted keys go; needed", 0, 0, NULL},
        {"--out-values", OPTION_TEXT, (void *)&request.values_out_path, "V_OUT.npy",
         "where the values go; without --values: the places of the keys before, uint32 (argsort)", 0, 0, NULL},
    };
    static const char purpose[] =
        "Sorts KEYS.npy, uint32, int32, float32 or uint64 in one dimension, stably. Of float32 keys NaNs come last, with --descending "
        "first;\n"
        "zeros of both signs are equal. Bits of int32 and float32 keys are those of the unsigned integer that has the keys' order.";
    const command_syntax syntax = {work.command, "KEYS.npy -o KEYS_OUT.npy [options]", purpose,
                                   specs,        sizeof specs / sizeof specs[0],       "KEYS.npy"};
    if (options_parse(&syntax, argc, argv, &work.common, &request.keys_path, &work.result)) {
        job_need(&work, request.keys_out_path != NULL, "-o KEYS_OUT.npy");
        if (request.values_path && !request.values_out_path) {
            job_fail(&work, "--values: needs --out-values V_OUT.npy");
        }
        sort(&work, &request);
    }
    return job_end(&work);
}
