#include "command.h"
#include "job.h"

#include <inttypes.h>

static void histogram(job *work, const char *path, uint32_t num_bins, const char *counts_path) {
    static const npy_array counts = {.kind = 'u', .item_bytes = 4, .num_dims = 1};
    clmoe_histogram_desc desc = {.num_bins = num_bins};
    clmoe_histogram_args args = {0};
    const npy_array *samples = job_read(work, path, "samples", JOB_INTEGERS, JOB_ANY_SHAPE, &args.num_items);
    job_open(work);
    if (!job_failed(work)) {
        desc.max_items = args.num_items;
        desc.sample_type = job_type(samples);
        job_check(work, clmoe_histogram_plan_create(work->work.context, &desc, &work->plan));
    }
    args.samples = job_buffer(work, samples->data, samples->num_items * samples->item_bytes);
    args.counts = job_buffer(work, NULL, num_bins * sizeof(uint32_t));
    args.ignored = job_buffer(work, NULL, sizeof(uint32_t));
    args.workspace = job_workspace(work);
    if (!job_failed(work)) {
        job_check(work, clmoe_histogram_enqueue(work->plan, clmoe_context_queue(work->work.context), &args, 0, NULL, NULL));
    }
    job_write(work, counts_path, &counts, num_bins, args.counts);
    const uint32_t ignored = job_count(work, args.ignored);
    const job_fact facts[] = {{"samples", args.num_items}, {"bins", num_bins}, {"ignored", ignored}};
    job_finish(work, args.num_items, facts, sizeof facts / sizeof facts[0]);
    if (!job_failed(work) && ignored > 0) {
        report_note(work->command, "%" PRIu32 " of %" PRIu32 " samples ignored: below 0, or not below --bins %" PRIu32, ignored,
                    args.num_items, num_bins);
    }
}

outcome command_histogram(int argc, char **argv) {
    job work = {.command = "histogram"};
    const char *path = NULL, *counts_path = NULL;
    uint32_t num_bins = 0;
    bool has_bins = false;
    const option_spec specs[] = {
        {"--bins", OPTION_UINT32, &num_bins, "B", "number of bins; needed", 0, 1 << 24, &has_bins},
        {"-o", OPTION_TEXT, (void *)&counts_path, "COUNTS.npy", "where the counts go, uint32 (B,); needed", 0, 0, NULL},
    };
    static const char purpose[] = "Counts how many items of X.npy, integers of any type and shape, are 0, 1, ... B-1. Others are ignored; "
                                  "how many, is told on stderr.";
    const command_syntax syntax = {work.command, "X.npy --bins B -o COUNTS.npy [options]", purpose,
                                   specs,        sizeof specs / sizeof specs[0],           "X.npy"};
    if (options_parse(&syntax, argc, argv, &work.common, &path, &work.result)) {
        job_need(&work, has_bins, "--bins B");
        job_need(&work, counts_path != NULL, "-o COUNTS.npy");
        histogram(&work, path, num_bins, counts_path);
    }
    return job_end(&work);
}
