#include "command.h"
#include "layout.h"

#include <string.h>

static const char command_name[] = "align";

/* What the command line asked for beside the layout, and what came of it. */
typedef struct align_job {
    layout_job layout;
    const char *ids_path, *weights_path;
    uint32_t num_experts;
    npy_array weights;
} align_job;

static bool parse(align_job *job, int argc, char **argv, outcome *result) {
    enum { NUM_OWN = 3 };
    option_spec specs[NUM_OWN + LAYOUT_NUM_OPTIONS] = {
        {"--experts", OPTION_UINT32, &job->num_experts, "E", "number of experts; needed", 1, UINT32_MAX, NULL},
        {"--weights", OPTION_TEXT, (void *)&job->weights_path, "W.npy", "float32 [T][K], for --optional sorted_weights", 0, 0, NULL},
        {"-o", OPTION_TEXT, (void *)&job->layout.directory, "DIR", "writes sorted_token_ids, expert_ids, num_tokens_post_padded as .npy", 0,
         0, NULL},
    };
    layout_options(&job->layout, specs + NUM_OWN);
    static const char purpose[] = "Sorts the (token, slot) pairs of IDS.npy, integers [T][K], by expert, stably, and pads each expert's "
                                  "run to whole blocks of B rows.\n"
                                  "Prints pairs, experts used, blocks and padding factor (rows per pair).";
    const command_syntax syntax = {command_name, "IDS.npy --experts E --block B [options]", purpose, specs, sizeof specs / sizeof specs[0],
                                   "IDS.npy"};
    return options_parse(&syntax, argc, argv, &job->layout.common, &job->ids_path, result);
}

static outcome check(align_job *job) {
    if (!job->num_experts) {
        return report_error(command_name, OUTCOME_BAD_INPUT, "--experts E is missing");
    }
    const outcome result = layout_check(&job->layout);
    if (result == OUTCOME_DONE && job->layout.written[ALIGN_SORTED_WEIGHTS] != (job->weights_path != NULL)) {
        return report_error(command_name, OUTCOME_BAD_INPUT, "%s",
                            job->weights_path ? "--weights: only for --optional sorted_weights"
                                              : "--optional sorted_weights: needs --weights W.npy");
    }
    return result;
}

static outcome read_inputs(align_job *job) {
    layout_job *layout = &job->layout;
    const routing *route = &layout->route;
    npy_array *weights = &job->weights;
    outcome result = routing_read(&layout->route, command_name, job->ids_path, &layout->at, job->num_experts);
    if (result == OUTCOME_DONE) {
        result = layout_read(layout);
    }
    if (result == OUTCOME_DONE && job->weights_path) {
        result = routing_read_array(command_name, job->weights_path, 2, &layout->at, weights);
        if (result == OUTCOME_DONE && (weights->kind != 'f' || weights->item_bytes != 4 || weights->shape[0] != route->num_tokens ||
                                       weights->shape[1] != route->top_k)) {
            result = routing_refuse(command_name, job->weights_path, weights, "the weights must be float32 of the shape of the ids");
        }
        layout->call.weights = weights;
    }
    return result;
}

static outcome carry_out(align_job *job) {
    layout_job *layout = &job->layout;
    outcome result = check(job);
    if (result == OUTCOME_DONE) {
        result = read_inputs(job);
    }
    if (result == OUTCOME_DONE) {
        result = session_open(&layout->work, command_name, &layout->common);
    }
    if (result == OUTCOME_DONE) {
        result = align_call_run(&layout->call, &layout->route, &layout->work);
    }
    if (result == OUTCOME_DONE && layout->directory) {
        result = output_directory(&layout->outputs, layout->directory);
    }
    if (result == OUTCOME_DONE) {
        result = layout_write(layout);
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    if (layout->common.json) {
        report_json json = {stdout, 0, false};
        json_open(&json, NULL, '{');
        layout_json(layout, &json);
        output_json(&layout->outputs, &json);
        json_close(&json, '}');
    } else {
        layout_print(layout, "");
    }
    return layout_finish(layout);
}

outcome command_align(int argc, char **argv) {
    align_job job;
    outcome result = OUTCOME_DONE;
    memset(&job, 0, sizeof job);
    job.layout.command = job.layout.outputs.command = command_name;
    if (parse(&job, argc, argv, &result)) {
        result = carry_out(&job);
    }
    layout_end(&job.layout);
    npy_free(&job.weights);
    return result;
}
