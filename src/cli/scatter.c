#include "command.h"
#include "job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const unsigned index_types = 1U << CLMOE_TYPE_I32 | 1U << CLMOE_TYPE_U32 | 1U << CLMOE_TYPE_I64 | 1U << CLMOE_TYPE_U64;

/* Reads an array of rows and tells the bytes of one: all behind the first dimension. */
static const npy_array *read_rows(job *work, const char *path, uint32_t *num_rows, uint32_t *row_bytes) {
    const npy_array *rows = job_read(work, path, "rows", JOB_ANY_TYPE, JOB_ROWS, num_rows);
    size_t bytes = rows->item_bytes;
    for (uint32_t d = 1; d < rows->num_dims && bytes > 0; d++) {
        bytes = rows->shape[d] <= INT32_MAX / bytes ? bytes * rows->shape[d] : 0;
    }
    if (!job_failed(work) && bytes == 0) {
        job_refuse(work, path, rows, "a row must hold 1 to 2^31 - 1 bytes");
    }
    *row_bytes = (uint32_t)bytes;
    return rows;
}

/* Without --last-wins an index that is there twice makes the result a matter of chance. */
static void note_repeated(job *work, const npy_array *index, uint32_t num_rows) {
    uint32_t num_repeated = 0;
    bool *named = calloc((size_t)num_rows + 1, sizeof *named);
    for (size_t i = 0; named && i < index->num_items; i++) {
        const int64_t row = npy_integer(index, i);
        if (row >= 0 && row < num_rows) {
            num_repeated += named[row];
            named[row] = true;
        }
    }
    free(named);
    if (num_repeated > 0) {
        report_note(work->command, "warning: %" PRIu32 " repeated %s: which row stays is not defined without --last-wins", num_repeated,
                    num_repeated == 1 ? "index" : "indices");
    }
}

/* Plan, index and scratch; both operators have the same. */
static void prepare(job *work, const npy_array *index, clmoe_scatter_desc *desc, clmoe_scatter_args *args,
                    clmoe_status (*create)(clmoe_context *, const clmoe_scatter_desc *, clmoe_plan **)) {
    job_open(work);
    if (!job_failed(work)) {
        desc->max_items = args->num_items;
        desc->max_rows = args->num_rows;
        desc->index_type = job_type(index);
        job_check(work, create(work->work.context, desc, &work->plan));
    }
    args->index = job_buffer(work, index->data, index->num_items * index->item_bytes);
    args->skipped = job_buffer(work, NULL, sizeof(uint32_t));
    args->workspace = job_workspace(work);
}

static void finish(job *work, const char *path, const npy_array *like, size_t num_rows, const clmoe_scatter_args *args) {
    job_write(work, path, like, num_rows, args->destination);
    const uint32_t num_skipped = job_count(work, args->skipped);
    const job_fact facts[] = {{"indices", args->num_items}, {"rows", args->num_rows}, {"skipped", num_skipped}};
    job_finish(work, args->num_items, facts, sizeof facts / sizeof facts[0]);
    if (!job_failed(work) && num_skipped > 0) {
        report_note(work->command, "%" PRIu32 " of %" PRIu32 " indices skipped: below 0, or not below %" PRIu32 " rows", num_skipped,
                    args->num_items, args->num_rows);
    }
}

static void scatter(job *work, const char *source_path, const char *index_path, const char *into_path, bool last_wins, const char *path) {
    clmoe_scatter_desc desc = {.duplicates = last_wins ? CLMOE_DUPLICATES_LAST_WINS : CLMOE_DUPLICATES_UNIQUE};
    clmoe_scatter_args args = {0};
    uint32_t num_source_rows = 0, into_row_bytes = 0;
    const npy_array *source = read_rows(work, source_path, &num_source_rows, &desc.row_bytes);
    const npy_array *index = job_read(work, index_path, "indices", index_types, JOB_FLAT, &args.num_items);
    const npy_array *into = read_rows(work, into_path, &args.num_rows, &into_row_bytes);
    if (!job_failed(work) && num_source_rows != args.num_items) {
        job_refuse(work, index_path, index, "there must be one index for each row of SRC.npy");
    }
    if (!job_failed(work) && (into->kind != source->kind || into->item_bytes != source->item_bytes || into->num_dims != source->num_dims ||
                              memcmp(into->shape + 1, source->shape + 1, (into->num_dims - 1) * sizeof into->shape[0]) != 0)) {
        job_refuse(work, into_path, into, "must have type and row shape of SRC.npy");
    }
    prepare(work, index, &desc, &args, clmoe_scatter_plan_create);
    args.source = job_buffer(work, source->data, source->num_items * source->item_bytes);
    args.destination = job_buffer(work, into->data, into->num_items * into->item_bytes);
    if (!job_failed(work)) {
        job_check(work, clmoe_scatter_enqueue(work->plan, clmoe_context_queue(work->work.context), &args, 0, NULL, NULL));
    }
    finish(work, path, into, args.num_rows, &args);
    if (!job_failed(work) && !last_wins) {
        note_repeated(work, index, args.num_rows);
    }
}

static void gather(job *work, const char *source_path, const char *index_path, const char *path) {
    clmoe_scatter_desc desc = {0};
    clmoe_scatter_args args = {0};
    const npy_array *source = read_rows(work, source_path, &args.num_rows, &desc.row_bytes);
    const npy_array *index = job_read(work, index_path, "indices", index_types, JOB_FLAT, &args.num_items);
    prepare(work, index, &desc, &args, clmoe_gather_plan_create);
    args.source = job_buffer(work, source->data, source->num_items * source->item_bytes);
    args.destination = job_buffer(work, NULL, (size_t)args.num_items * desc.row_bytes);
    if (!job_failed(work)) {
        job_check(work, clmoe_gather_enqueue(work->plan, clmoe_context_queue(work->work.context), &args, 0, NULL, NULL));
    }
    finish(work, path, source, args.num_items, &args);
}

outcome command_scatter(int argc, char **argv) {
    job work = {.command = "scatter"};
    const char *source = NULL, *index = NULL, *into = NULL, *path = NULL;
    bool last_wins = false;
    const option_spec specs[] = {
        {"--index", OPTION_TEXT, (void *)&index, "IDX.npy", "int32, uint32, int64 or uint64 (n,): the row each goes to; needed", 0, 0,
         NULL},
        {"--into", OPTION_TEXT, (void *)&into, "DST.npy", "what OUT.npy holds where no row goes; needed", 0, 0, NULL},
        {"--last-wins", OPTION_FLAG, &last_wins, NULL, "of rows with the same index the last stays [no index is there twice]", 0, 0, NULL},
        {"-o", OPTION_TEXT, (void *)&path, "OUT.npy", "where the result goes; needed", 0, 0, NULL},
    };
    static const char purpose[] =
        "Puts row i of SRC.npy, any type, into a copy of DST.npy as row IDX[i]. A row is all behind the first dimension: in one dimension "
        "an item.\n"
        "An index that names no row of DST.npy is skipped; how many, is told on stderr.";
    const command_syntax syntax = {
        work.command, "SRC.npy --index IDX.npy --into DST.npy -o OUT.npy [options]", purpose, specs, sizeof specs / sizeof specs[0],
        "SRC.npy"};
    if (options_parse(&syntax, argc, argv, &work.common, &source, &work.result)) {
        job_need(&work, index != NULL, "--index IDX.npy");
        job_need(&work, into != NULL, "--into DST.npy");
        job_need(&work, path != NULL, "-o OUT.npy");
        scatter(&work, source, index, into, last_wins, path);
    }
    return job_end(&work);
}

outcome command_gather(int argc, char **argv) {
    job work = {.command = "gather"};
    const char *source = NULL, *index = NULL, *path = NULL;
    const option_spec specs[] = {
        {"--index", OPTION_TEXT, (void *)&index, "IDX.npy", "int32, uint32, int64 or uint64 (n,): the rows to take; needed", 0, 0, NULL},
        {"-o", OPTION_TEXT, (void *)&path, "OUT.npy", "where the n rows go; needed", 0, 0, NULL},
    };
    static const char purpose[] =
        "Takes row IDX[i] of SRC.npy, any type, as row i. A row is all behind the first dimension: in one dimension an item.\n"
        "An index that names no row gives zeros; how many, is told on stderr.";
    const command_syntax syntax = {
        work.command, "SRC.npy --index IDX.npy -o OUT.npy [options]", purpose, specs, sizeof specs / sizeof specs[0], "SRC.npy"};
    if (options_parse(&syntax, argc, argv, &work.common, &source, &work.result)) {
        job_need(&work, index != NULL, "--index IDX.npy");
        job_need(&work, path != NULL, "-o OUT.npy");
        gather(&work, source, index, path);
    }
    return job_end(&work);
}
