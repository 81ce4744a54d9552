#include "command.h"
#include "explain.h"
#include "output.h"
#include "svg.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char command_name[] = "align";

/* All that the command line asked for, and what came of it. */
typedef struct align_job {
    common_options common;
    const char *ids_path, *map_path, *mask_path, *weights_path, *directory, *drawing_path, *optional_names;
    number_list at;
    uint32_t num_experts, foreign;
    bool explain;
    bool written[ALIGN_NUM_ARRAYS]; /* which arrays become files */
    npy_array row_mask, weights;
    routing route;
    align_call call;
    session work;
    output_set outputs;
} align_job;

/* What the summary tells, all from the operator's outputs. */
typedef struct align_summary {
    int64_t num_pairs, num_rows, num_blocks, num_full_blocks;
    int64_t num_invalid, num_foreign, num_used;
    int64_t largest_load, largest_expert; /* expert -1 if there is no pair */
} align_summary;

/* ---- Command line --------------------------------------------------------------------------------------------------------------- */

static bool parse(align_job *job, int argc, char **argv, outcome *result) {
    align_call *call = &job->call;
    const option_spec specs[] = {
        {"--experts", OPTION_UINT32, &job->num_experts, "E", "number of experts; needed", 1, UINT32_MAX, NULL},
        {"--block", OPTION_UINT32, &call->block_size, "B", "rows in a block; needed", 1, UINT32_MAX, NULL},
        {"--at", OPTION_NUMBERS, &job->at, "I,J,...", "takes this part of an array with more than two dimensions", 0, UINT32_MAX, NULL},
        {"--expert-map", OPTION_TEXT, (void *)&job->map_path, "MAP.npy", "integers [E]: local number of each expert, -1 = not here", 0, 0,
         NULL},
        {"--foreign", OPTION_CHOICE, &job->foreign, "drop|keep|bucket", "what becomes of pairs whose expert is not here [drop]", 0, 0,
         NULL},
        {"--row-mask", OPTION_TEXT, (void *)&job->mask_path, "MASK.npy", "uint8 or bool [T]: 0 leaves the token out", 0, 0, NULL},
        {"--weights", OPTION_TEXT, (void *)&job->weights_path, "W.npy", "float32 [T][K], for --optional sorted_weights", 0, 0, NULL},
        {"--num-tokens-device", OPTION_INT32, &call->device_tokens, "N", "true number of tokens, as the device would hold it [T]",
         INT32_MIN, INT32_MAX, &call->has_device_tokens},
        {"--pad-value", OPTION_INT32, &call->pad_value, "V", "what padding rows hold [T*K]", INT32_MIN, INT32_MAX, &call->has_pad_value},
        {"--capacity", OPTION_UINT32, &call->capacity, "C", "rows of sorted_token_ids, a multiple of B [the most that T tokens can need]",
         1, UINT32_MAX, NULL},
        {"-o", OPTION_TEXT, (void *)&job->directory, "DIR", "writes sorted_token_ids, expert_ids, num_tokens_post_padded as .npy", 0, 0,
         NULL},
        {"--optional", OPTION_TEXT, (void *)&job->optional_names, "NAME,...",
         "writes these too: counts offsets padded_offsets inverse rows_valid sorted_weights status", 0, 0, NULL},
        {"--explain", OPTION_FLAG, &job->explain, NULL, "prints the five steps", 0, 0, NULL},
        {"--draw", OPTION_TEXT, (void *)&job->drawing_path, "FILE.svg", "draws the blocks", 0, 0, NULL},
    };
    static const char purpose[] = "Sorts the (token, slot) pairs of IDS.npy, integers [T][K], by expert, stably, and pads each expert's "
                                  "run to whole blocks of B rows.\n"
                                  "Prints pairs, experts used, blocks and padding factor (rows per pair).";
    const command_syntax syntax = {command_name, "IDS.npy --experts E --block B [options]", purpose, specs, sizeof specs / sizeof specs[0],
                                   "IDS.npy"};
    return options_parse(&syntax, argc, argv, &job->common, &job->ids_path, result);
}

static outcome want_optional(align_job *job) {
    const char *names[ALIGN_NUM_ARRAYS - ALIGN_FIRST_OPTIONAL];
    const size_t num_names = sizeof names / sizeof names[0];
    for (size_t i = 0; i < num_names; i++) {
        names[i] = align_array_name((align_array)(ALIGN_FIRST_OPTIONAL + i));
    }
    for (const char *at = job->optional_names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[32] = "";
        const size_t length = strcspn(at, ",");
        size_t i = 0;
        memcpy(name, at, length < sizeof name ? length : sizeof name - 1);
        while (i < num_names && strcmp(names[i], name) != 0) {
            i++;
        }
        if (i == num_names) {
            const char *nearest = options_nearest(name, names, num_names);
            return report_error(command_name, OUTCOME_BAD_INPUT, "--optional: unknown output '%.*s'; %s%s", (int)length, at,
                                nearest ? "nearest is " : "see 'clmoe align --help'", nearest ? nearest : "");
        }
        job->written[ALIGN_FIRST_OPTIONAL + i] = true;
    }
    return OUTCOME_DONE;
}

/* What must go together and what can't. */
static outcome check(align_job *job) {
    const char *reason = !job->num_experts                        ? "--experts E is missing"
                         : !job->call.block_size                  ? "--block B is missing"
                         : job->optional_names && !job->directory ? "--optional: needs -o DIR"
                         : job->explain && job->common.json       ? "--explain and --json can't go together"
                                                                  : NULL;
    if (reason) {
        return report_error(command_name, OUTCOME_BAD_INPUT, "%s", reason);
    }
    const outcome result = want_optional(job);
    if (result == OUTCOME_DONE && job->written[ALIGN_SORTED_WEIGHTS] != (job->weights_path != NULL)) {
        return report_error(command_name, OUTCOME_BAD_INPUT, "%s",
                            job->weights_path ? "--weights: only for --optional sorted_weights"
                                              : "--optional sorted_weights: needs --weights W.npy");
    }
    return result;
}

/* ---- Inputs --------------------------------------------------------------------------------------------------------------------- */

static outcome refuse_array(const char *path, const npy_array *array, const char *rule) {
    char description[160];
    npy_describe(array, description, sizeof description);
    return report_error(command_name, OUTCOME_BAD_INPUT, "%s: %s: %s", path, description, rule);
}

static outcome read_inputs(align_job *job) {
    routing *route = &job->route;
    outcome result = routing_read(route, command_name, job->ids_path, &job->at, job->num_experts);
    if (result == OUTCOME_DONE) {
        result = routing_read_map(route, job->map_path, (clmoe_foreign)job->foreign);
    }
    if (result == OUTCOME_DONE && job->mask_path) {
        result = routing_read_array(route, job->mask_path, 1, &job->at, &job->row_mask);
        if (result == OUTCOME_DONE &&
            (job->row_mask.kind == 'f' || job->row_mask.item_bytes != 1 || job->row_mask.num_items != route->num_tokens)) {
            result = refuse_array(job->mask_path, &job->row_mask, "the row mask must hold one uint8 or bool for each token");
        }
        job->call.row_mask = &job->row_mask;
    }
    if (result == OUTCOME_DONE && job->weights_path) {
        npy_array *weights = &job->weights;
        result = routing_read_array(route, job->weights_path, 2, &job->at, weights);
        if (result == OUTCOME_DONE && (weights->kind != 'f' || weights->item_bytes != 4 || weights->shape[0] != route->num_tokens ||
                                       weights->shape[1] != route->top_k)) {
            result = refuse_array(job->weights_path, weights, "the weights must be float32 of the shape of the ids");
        }
        job->call.weights = weights;
    }
    return result;
}

/* ---- Results -------------------------------------------------------------------------------------------------------------------- */

static align_summary summarize(const align_job *job) {
    const align_call *call = &job->call;
    const int32_t *status = call->arrays[ALIGN_STATUS];
    align_summary sum = {
        .num_pairs = call->arrays[ALIGN_OFFSETS][job->num_experts], .num_rows = call->arrays[ALIGN_TOTAL][0], .largest_expert = -1};
    sum.num_blocks = sum.num_rows / call->block_size;
    sum.num_invalid = status[0];
    sum.num_foreign = status[1];
    sum.num_used = status[2];
    for (int64_t block = 0; block < sum.num_blocks; block++) {
        sum.num_full_blocks += call->arrays[ALIGN_ROWS_VALID][block] == (int64_t)call->block_size;
    }
    for (uint32_t e = 0; e < job->num_experts; e++) {
        if (call->arrays[ALIGN_COUNTS][e] > sum.largest_load) {
            sum.largest_load = call->arrays[ALIGN_COUNTS][e];
            sum.largest_expert = e;
        }
    }
    return sum;
}

static void print_summary(const align_job *job, const align_summary *sum) {
    const report_style style = report_style_of(stdout);
    printf("%s%" PRId64 " pair%s, %" PRId64 " of %" PRIu32 " experts used, %" PRId64 " block%s of %" PRIu32 ", padding factor ", style.bold,
           sum->num_pairs, sum->num_pairs == 1 ? "" : "s", sum->num_used, job->num_experts, sum->num_blocks,
           sum->num_blocks == 1 ? "" : "s", job->call.block_size);
    if (sum->num_pairs > 0) {
        printf("%.2f", align_padding_factor(&job->call));
    } else {
        printf("-");
    }
    if (sum->num_invalid > 0) {
        printf(", %" PRId64 " invalid id%s", sum->num_invalid, sum->num_invalid == 1 ? "" : "s");
    }
    if (sum->num_foreign > 0 && job->foreign == CLMOE_FOREIGN_DROP) {
        printf(", %" PRId64 " foreign pair%s dropped", sum->num_foreign, sum->num_foreign == 1 ? "" : "s");
    }
    printf("%s\n", style.plain);
}

static void print_facts(const align_job *job, const align_summary *sum) {
    char largest[48] = "";
    if (sum->largest_expert >= 0) {
        snprintf(largest, sizeof largest, " (expert %" PRId64 ")", sum->largest_expert);
    }
    printf("\n  tokens           %9" PRIu32 "    rows in use      %9" PRId64 "\n", job->route.num_tokens, sum->num_rows);
    printf("  slots per token  %9" PRIu32 "    rows at most     %9" PRIu32 "\n", job->route.top_k, job->call.capacity);
    printf("  invalid ids      %9" PRId64 "    padding rows     %9" PRId64 "\n", sum->num_invalid, sum->num_rows - sum->num_pairs);
    printf("  foreign pairs    %9" PRId64 "    full blocks      %9" PRId64 "\n", sum->num_foreign, sum->num_full_blocks);
    printf("  mean load        %9.2f    largest load     %9" PRId64 "%s\n", (double)sum->num_pairs / job->num_experts, sum->largest_load,
           largest);
}

static void print_json(const align_job *job, const align_summary *sum) {
    report_json json = {stdout, 0, false};
    json_open(&json, NULL, '{');
    json_integer(&json, "tokens", job->route.num_tokens);
    json_integer(&json, "slots", job->route.top_k);
    json_integer(&json, "experts", job->num_experts);
    json_integer(&json, "block", job->call.block_size);
    json_integer(&json, "capacity", job->call.capacity);
    json_integer(&json, "pairs", sum->num_pairs);
    json_integer(&json, "experts_used", sum->num_used);
    json_integer(&json, "rows", sum->num_rows);
    json_integer(&json, "blocks", sum->num_blocks);
    json_integer(&json, "full_blocks", sum->num_full_blocks);
    json_number(&json, "padding_factor", sum->num_pairs > 0 ? align_padding_factor(&job->call) : (double)NAN);
    json_integer(&json, "invalid_ids", sum->num_invalid);
    json_integer(&json, "foreign_pairs", sum->num_foreign);
    json_integer(&json, "largest_load", sum->largest_load);
    json_integer(&json, "largest_expert", sum->largest_expert);
    json_open(&json, "files", '[');
    for (size_t i = 0; i < job->outputs.num_files; i++) {
        json_text(&json, NULL, job->outputs.files[i].path);
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

static outcome write_files(align_job *job) {
    output_set *outputs = &job->outputs;
    FILE *stream = NULL;
    outcome result = job->directory ? output_directory(outputs, job->directory) : OUTCOME_DONE;
    for (size_t i = 0; i < ALIGN_NUM_ARRAYS && result == OUTCOME_DONE; i++) {
        char name[64];
        if (!job->directory || !job->written[i]) {
            continue;
        }
        snprintf(name, sizeof name, "%s.npy", align_array_name((align_array)i));
        result = output_open(outputs, job->directory, name, &stream);
        if (result == OUTCOME_DONE) {
            result = output_close(
                outputs, npy_write(stream, i == ALIGN_SORTED_WEIGHTS ? 'f' : 'i', 4, 1, &job->call.num_items[i], job->call.arrays[i]));
        }
    }
    if (result == OUTCOME_DONE && job->drawing_path) {
        result = output_open(outputs, NULL, job->drawing_path, &stream);
        if (result == OUTCOME_DONE) {
            result = output_close(outputs, svg_draw(stream, &job->call, &job->route));
        }
    }
    return result;
}

static void print_result(const align_job *job) {
    const align_summary sum = summarize(job);
    if (job->common.json) {
        print_json(job, &sum);
        return;
    }
    if (job->explain) {
        explain_align(&job->call, &job->route);
    }
    print_summary(job, &sum);
    if (!job->explain && !job->directory) {
        print_facts(job, &sum);
    }
}

static outcome carry_out(align_job *job) {
    static const align_array always[] = {ALIGN_COUNTS, ALIGN_OFFSETS, ALIGN_PADDED_OFFSETS, ALIGN_ROWS_VALID, ALIGN_STATUS};
    outcome result = check(job);
    if (result == OUTCOME_DONE) {
        result = read_inputs(job);
    }
    if (result == OUTCOME_DONE) {
        result = session_open(&job->work, command_name, &job->common);
    }
    if (result == OUTCOME_DONE) {
        job->written[ALIGN_SORTED] = job->written[ALIGN_EXPERTS] = job->written[ALIGN_TOTAL] = true;
        memcpy(job->call.wanted, job->written, sizeof job->written);
        for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
            job->call.wanted[always[i]] = true;
        }
        job->call.wanted[ALIGN_INVERSE] = job->call.wanted[ALIGN_INVERSE] || job->explain;
        result = align_call_run(&job->call, &job->route, &job->work);
    }
    if (result == OUTCOME_DONE) {
        result = write_files(job);
    }
    if (result == OUTCOME_DONE) {
        print_result(job);
        result = report_finish(command_name);
    }
    return result == OUTCOME_DONE ? output_commit(&job->outputs) : result;
}

outcome command_align(int argc, char **argv) {
    align_job job;
    outcome result = OUTCOME_DONE;
    memset(&job, 0, sizeof job);
    job.outputs.command = command_name;
    if (!parse(&job, argc, argv, &result)) {
        return result;
    }
    result = carry_out(&job);
    output_discard(&job.outputs);
    align_call_free(&job.call);
    session_close(&job.work);
    routing_free(&job.route);
    npy_free(&job.row_mask);
    npy_free(&job.weights);
    return result;
}
