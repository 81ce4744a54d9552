#include "layout.h"

#include "explain.h"
#include "svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What the summary tells, all from the operator's outputs. */
typedef struct align_summary {
    int64_t num_pairs, num_rows, num_blocks, num_full_blocks;
    int64_t num_invalid, num_foreign, num_used;
    int64_t largest_load, largest_expert; /* expert -1 if there is no pair */
} align_summary;

/* ---- Command line --------------------------------------------------------------------------------------------------------------- */

void layout_options(layout_job *job, option_spec specs[LAYOUT_NUM_OPTIONS]) {
    align_call *call = &job->call;
    const option_spec list[LAYOUT_NUM_OPTIONS] = {
        {"--block", OPTION_UINT32, &call->block_size, "B", "rows in a block; needed", 1, UINT32_MAX, NULL},
        {"--at", OPTION_NUMBERS, &job->at, "I,J,...", "takes this part of an array with more than two dimensions", 0, UINT32_MAX, NULL},
        {"--expert-map", OPTION_TEXT, (void *)&job->map_path, "MAP.npy", "integers [E]: local number of each expert, -1 = not here", 0, 0,
         NULL},
        {"--foreign", OPTION_CHOICE, &job->foreign, "drop|keep|bucket", "what becomes of pairs whose expert is not here [drop]", 0, 0,
         NULL},
        {"--row-mask", OPTION_TEXT, (void *)&job->mask_path, "MASK.npy", "uint8 or bool [T]: 0 leaves the token out", 0, 0, NULL},
        {"--num-tokens-device", OPTION_INT32, &call->device_tokens, "N", "true number of tokens, as the device would hold it [T]",
         INT32_MIN, INT32_MAX, &call->has_device_tokens},
        {"--pad-value", OPTION_INT32, &call->pad_value, "V", "what padding rows hold [T*K]", INT32_MIN, INT32_MAX, &call->has_pad_value},
        {"--capacity", OPTION_UINT32, &call->capacity, "C", "rows of sorted_token_ids, a multiple of B [the most that T tokens can need]",
         1, UINT32_MAX, NULL},
        {"--optional", OPTION_TEXT, (void *)&job->optional_names, "NAME,...",
         "writes these too: counts offsets padded_offsets inverse rows_valid sorted_weights status", 0, 0, NULL},
        {"--explain", OPTION_FLAG, &job->explain, NULL, "prints the five steps", 0, 0, NULL},
        {"--draw", OPTION_TEXT, (void *)&job->drawing_path, "FILE.svg", "draws the blocks", 0, 0, NULL},
    };
    memcpy(specs, list, sizeof list);
}

static outcome choose_optional(layout_job *job) {
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
            return nearest ? report_error(job->command, OUTCOME_BAD_INPUT, "--optional: unknown output '%.*s'; nearest is %s", (int)length,
                                          at, nearest)
                           : report_error(job->command, OUTCOME_BAD_INPUT, "--optional: unknown output '%.*s'; see 'clmoe %s --help'",
                                          (int)length, at, job->command);
        }
        job->written[ALIGN_FIRST_OPTIONAL + i] = true;
    }
    return OUTCOME_DONE;
}

outcome layout_check(layout_job *job) {
    static const align_array told[] = {ALIGN_COUNTS, ALIGN_OFFSETS, ALIGN_PADDED_OFFSETS, ALIGN_ROWS_VALID, ALIGN_STATUS};
    const char *reason = !job->call.block_size                    ? "--block B is missing"
                         : job->optional_names && !job->directory ? "--optional: needs -o DIR"
                         : job->explain && job->common.json       ? "--explain and --json can't go together"
                                                                  : NULL;
    if (reason) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "%s", reason);
    }
    const outcome result = choose_optional(job);
    job->written[ALIGN_SORTED] = job->written[ALIGN_EXPERTS] = job->written[ALIGN_TOTAL] = true;
    memcpy(job->call.wanted, job->written, sizeof job->written);
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        job->call.wanted[told[i]] = true;
    }
    job->call.wanted[ALIGN_INVERSE] = job->call.wanted[ALIGN_INVERSE] || job->explain;
    return result;
}

outcome layout_read(layout_job *job) {
    const npy_array *mask = &job->row_mask;
    outcome result = routing_read_map(&job->route, job->map_path, (clmoe_foreign)job->foreign);
    if (result != OUTCOME_DONE || !job->mask_path) {
        return result;
    }
    result = routing_read_array(job->command, job->mask_path, 1, &job->at, &job->row_mask);
    if (result == OUTCOME_DONE && (mask->kind == 'f' || mask->item_bytes != 1 || mask->num_items != job->route.num_tokens)) {
        result = routing_refuse(job->command, job->mask_path, mask, "the row mask must hold one uint8 or bool for each token");
    }
    job->call.row_mask = mask;
    return result;
}

/* ---- Results -------------------------------------------------------------------------------------------------------------------- */

static align_summary summarize(const layout_job *job) {
    const align_call *call = &job->call;
    const int32_t *status = call->arrays[ALIGN_STATUS];
    align_summary sum = {
        .num_pairs = call->arrays[ALIGN_OFFSETS][job->route.num_experts], .num_rows = call->arrays[ALIGN_TOTAL][0], .largest_expert = -1};
    sum.num_blocks = sum.num_rows / call->block_size;
    sum.num_invalid = status[0];
    sum.num_foreign = status[1];
    sum.num_used = status[2];
    for (int64_t block = 0; block < sum.num_blocks; block++) {
        sum.num_full_blocks += call->arrays[ALIGN_ROWS_VALID][block] == (int64_t)call->block_size;
    }
    for (uint32_t e = 0; e < job->route.num_experts; e++) {
        if (call->arrays[ALIGN_COUNTS][e] > sum.largest_load) {
            sum.largest_load = call->arrays[ALIGN_COUNTS][e];
            sum.largest_expert = e;
        }
    }
    return sum;
}

static void print_summary(const layout_job *job, const align_summary *sum, const char *tail) {
    const report_style style = report_style_of(stdout);
    printf("%s%" PRId64 " pair%s, %" PRId64 " of %" PRIu32 " experts used, %" PRId64 " block%s of %" PRIu32 ", padding factor ", style.bold,
           sum->num_pairs, sum->num_pairs == 1 ? "" : "s", sum->num_used, job->route.num_experts, sum->num_blocks,
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
    printf("%s%s\n", tail, style.plain);
}

static void print_facts(const layout_job *job, const align_summary *sum) {
    char largest[48] = "";
    if (sum->largest_expert >= 0) {
        snprintf(largest, sizeof largest, " (expert %" PRId64 ")", sum->largest_expert);
    }
    printf("\n  tokens           %9" PRIu32 "    rows in use      %9" PRId64 "\n", job->route.num_tokens, sum->num_rows);
    printf("  slots per token  %9" PRIu32 "    rows at most     %9" PRIu32 "\n", job->route.top_k, job->call.capacity);
    printf("  invalid ids      %9" PRId64 "    padding rows     %9" PRId64 "\n", sum->num_invalid, sum->num_rows - sum->num_pairs);
    printf("  foreign pairs    %9" PRId64 "    full blocks      %9" PRId64 "\n", sum->num_foreign, sum->num_full_blocks);
    printf("  mean load        %9.2f    largest load     %9" PRId64 "%s\n", (double)sum->num_pairs / job->route.num_experts,
           sum->largest_load, largest);
}

void layout_json(const layout_job *job, report_json *json) {
    const align_summary sum = summarize(job);
    json_integer(json, "tokens", job->route.num_tokens);
    json_integer(json, "slots", job->route.top_k);
    json_integer(json, "experts", job->route.num_experts);
    json_integer(json, "block", job->call.block_size);
    json_integer(json, "capacity", job->call.capacity);
    json_integer(json, "pairs", sum.num_pairs);
    json_integer(json, "experts_used", sum.num_used);
    json_integer(json, "rows", sum.num_rows);
    json_integer(json, "blocks", sum.num_blocks);
    json_integer(json, "full_blocks", sum.num_full_blocks);
    json_number(json, "padding_factor", sum.num_pairs > 0 ? align_padding_factor(&job->call) : (double)NAN);
    json_integer(json, "invalid_ids", sum.num_invalid);
    json_integer(json, "foreign_pairs", sum.num_foreign);
    json_integer(json, "largest_load", sum.largest_load);
    json_integer(json, "largest_expert", sum.largest_expert);
}

void layout_print(const layout_job *job, const char *tail) {
    const align_summary sum = summarize(job);
    if (job->explain) {
        explain_align(&job->call, &job->route);
    }
    print_summary(job, &sum, tail);
    if (!job->explain && !job->directory) {
        print_facts(job, &sum);
    }
}

outcome layout_write(layout_job *job) {
    output_set *outputs = &job->outputs;
    FILE *stream = NULL;
    outcome result = OUTCOME_DONE;
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

outcome layout_finish(layout_job *job) {
    const outcome result = report_finish(job->command);
    return result == OUTCOME_DONE ? output_commit(&job->outputs) : result;
}

void layout_end(layout_job *job) {
    output_discard(&job->outputs);
    align_call_free(&job->call);
    session_close(&job->work);
    routing_free(&job->route);
    npy_free(&job->row_mask);
}
