#include "command.h"
#include "routing.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char command_name[] = "advise";

/* A larger block makes a GEMM tile more efficient, until the padding that it costs eats the gain. */
static const double tolerated_padding = 1.25;

typedef struct candidate {
    uint32_t block_size;
    int64_t num_rows, num_blocks, num_full_blocks;
    double padding_factor;
} candidate;

typedef struct loads {
    int64_t num_pairs, num_used, largest, largest_expert;
    double mean;    /* over all experts */
    double skew;    /* largest / mean */
    double entropy; /* of the loads, 1 = all equal, 0 = one expert has all */
} loads;

static loads measure(const align_call *call, uint32_t num_experts) {
    const int32_t *counts = call->arrays[ALIGN_COUNTS];
    loads l = {.num_pairs = call->arrays[ALIGN_OFFSETS][num_experts], .num_used = call->arrays[ALIGN_STATUS][2], .largest_expert = -1};
    for (uint32_t e = 0; e < num_experts; e++) {
        if (counts[e] > l.largest) {
            l.largest = counts[e];
            l.largest_expert = e;
        }
        if (counts[e] > 0 && num_experts > 1) {
            const double share = (double)counts[e] / (double)l.num_pairs;
            l.entropy -= share * log(share) / log(num_experts);
        }
    }
    l.mean = (double)l.num_pairs / num_experts;
    l.skew = l.num_pairs > 0 ? (double)l.largest / l.mean : 0;
    return l;
}

static candidate try_block(const align_call *call, uint32_t num_experts, uint32_t block_size, int64_t num_pairs) {
    candidate c = {.block_size = block_size};
    for (uint32_t e = 0; e < num_experts; e++) {
        const int64_t pairs = call->arrays[ALIGN_COUNTS][e];
        c.num_full_blocks += pairs / block_size;
        c.num_blocks += (pairs + block_size - 1) / block_size;
    }
    c.num_rows = c.num_blocks * block_size;
    c.padding_factor = num_pairs > 0 ? (double)c.num_rows / (double)num_pairs : 0;
    return c;
}

/* The one with the least padding, the larger block if two are equal. */
static size_t find_leanest(const candidate *candidates, size_t num_candidates) {
    size_t best = 0;
    for (size_t i = 1; i < num_candidates; i++) {
        const bool equal = candidates[i].num_rows == candidates[best].num_rows;
        if (candidates[i].num_rows < candidates[best].num_rows || (equal && candidates[i].block_size > candidates[best].block_size)) {
            best = i;
        }
    }
    return best;
}

static size_t find_advised(const candidate *candidates, size_t num_candidates, size_t leanest) {
    size_t advised = leanest;
    for (size_t i = 0; i < num_candidates; i++) {
        const bool tolerable = candidates[i].padding_factor <= tolerated_padding * candidates[leanest].padding_factor;
        if (tolerable && candidates[i].block_size > candidates[advised].block_size) {
            advised = i;
        }
    }
    return advised;
}

static void print_text(const routing *route, const loads *l, const candidate *candidates, size_t num_candidates, size_t leanest,
                       size_t advised) {
    const report_style style = report_style_of(stdout);
    printf("%" PRId64 " pairs of %" PRIu32 " tokens, %" PRId64 " of %" PRIu32 " experts used\n", l->num_pairs, route->num_tokens,
           l->num_used, route->num_experts);
    if (l->num_pairs == 0) {
        printf("nothing is placed, so any block size will do\n");
        return;
    }
    printf("load: largest %" PRId64 " (expert %" PRId64 "), mean %.1f, skew %.2f, entropy %.3f\n", l->largest, l->largest_expert, l->mean,
           l->skew, l->entropy);
    printf("\n%s%7s %11s %9s %9s %13s%s\n", style.bold, "BLOCK", "ROWS", "BLOCKS", "PADDING", "FULL BLOCKS", style.plain);
    for (size_t i = 0; i < num_candidates; i++) {
        const candidate *c = &candidates[i];
        printf("%s%7" PRIu32 " %11" PRId64 " %9" PRId64 " %9.2f %11.0f %%%s%s\n", i == advised ? style.good : "", c->block_size,
               c->num_rows, c->num_blocks, c->padding_factor, 100.0 * (double)c->num_full_blocks / (double)c->num_blocks,
               i == advised ? "  <-" : "", i == advised ? style.plain : "");
    }
    printf("\ntake --block %" PRIu32 ": ", candidates[advised].block_size);
    if (advised == leanest) {
        printf("it needs the fewest rows, %.2f per pair, and no larger one comes within %.2f times that\n",
               candidates[leanest].padding_factor, tolerated_padding);
    } else {
        printf("the largest whose padding, %.2f rows per pair, stays within %.2f times the least, %.2f at --block %" PRIu32 "\n",
               candidates[advised].padding_factor, tolerated_padding, candidates[leanest].padding_factor, candidates[leanest].block_size);
    }
    printf("rule: larger blocks suit a GEMM, padding rows cost it; so the largest block within %.2f times the least padding\n",
           tolerated_padding);
}

static void print_json(const routing *route, const loads *l, const candidate *candidates, size_t num_candidates, size_t advised) {
    report_json json = {stdout, 0, false};
    json_open(&json, NULL, '{');
    json_integer(&json, "tokens", route->num_tokens);
    json_integer(&json, "slots", route->top_k);
    json_integer(&json, "experts", route->num_experts);
    json_integer(&json, "pairs", l->num_pairs);
    json_integer(&json, "experts_used", l->num_used);
    json_integer(&json, "largest_load", l->largest);
    json_integer(&json, "largest_expert", l->largest_expert);
    json_number(&json, "mean_load", l->mean);
    json_number(&json, "skew", l->skew);
    json_number(&json, "entropy", l->entropy);
    json_open(&json, "blocks", '[');
    for (size_t i = 0; i < num_candidates; i++) {
        const candidate *c = &candidates[i];
        json_open(&json, NULL, '{');
        json_integer(&json, "block", c->block_size);
        json_integer(&json, "rows", c->num_rows);
        json_integer(&json, "blocks", c->num_blocks);
        json_number(&json, "padding_factor", l->num_pairs > 0 ? c->padding_factor : (double)NAN);
        json_number(&json, "full_share", c->num_blocks > 0 ? (double)c->num_full_blocks / (double)c->num_blocks : (double)NAN);
        json_close(&json, '}');
    }
    json_close(&json, ']');
    if (l->num_pairs > 0) {
        json_integer(&json, "advised_block", candidates[advised].block_size);
    } else {
        json_number(&json, "advised_block", (double)NAN);
    }
    json_close(&json, '}');
}

static outcome advise(const routing *route, const align_call *call, const number_list *blocks, bool as_json) {
    candidate candidates[OPTIONS_MAX_LIST];
    const loads l = measure(call, route->num_experts);
    for (size_t i = 0; i < blocks->num_values; i++) {
        candidates[i] = try_block(call, route->num_experts, blocks->values[i], l.num_pairs);
    }
    const size_t leanest = find_leanest(candidates, blocks->num_values);
    const size_t advised = find_advised(candidates, blocks->num_values, leanest);
    if (as_json) {
        print_json(route, &l, candidates, blocks->num_values, advised);
    } else {
        print_text(route, &l, candidates, blocks->num_values, leanest, advised);
    }
    return report_finish(command_name);
}

outcome command_advise(int argc, char **argv) {
    common_options common;
    const char *path = NULL;
    uint32_t num_experts = 0;
    number_list at = {{0}, 0}, blocks = {{16, 32, 48, 64, 128}, 5};
    const option_spec specs[] = {
        {"--experts", OPTION_UINT32, &num_experts, "E", "number of experts; needed", 1, UINT32_MAX, NULL},
        {"--blocks", OPTION_NUMBERS, &blocks, "B,B,...", "block sizes to try [16,32,48,64,128]", 1, INT32_MAX, NULL},
        {"--at", OPTION_NUMBERS, &at, "I,J,...", "takes this part of an array with more than two dimensions", 0, UINT32_MAX, NULL},
    };
    static const char purpose[] =
        "Tells for each block size what the pairs of IDS.npy, integers [T][K], would need: rows, blocks, padding (rows per pair), full "
        "blocks;\n"
        "how unevenly the experts are loaded (skew: largest / mean; entropy: 1 = evenly); and which block size to take.";
    const command_syntax syntax = {command_name, "IDS.npy --experts E [options]", purpose,
                                   specs,        sizeof specs / sizeof specs[0],  "IDS.npy"};
    outcome result = OUTCOME_DONE;
    if (!options_parse(&syntax, argc, argv, &common, &path, &result)) {
        return result;
    }
    if (num_experts == 0) {
        return report_error(command_name, OUTCOME_BAD_INPUT, "--experts E is missing");
    }
    routing route;
    session work = {command_name, false, NULL};
    align_call call;
    memset(&call, 0, sizeof call);
    /* The loads don't depend on the block size; with 1 the operator needs the fewest rows. */
    call.block_size = 1;
    call.wanted[ALIGN_COUNTS] = call.wanted[ALIGN_OFFSETS] = call.wanted[ALIGN_STATUS] = true;
    result = routing_read(&route, command_name, path, &at, num_experts);
    if (result == OUTCOME_DONE) {
        result = session_open(&work, command_name, &common);
    }
    if (result == OUTCOME_DONE) {
        result = align_call_run(&call, &route, &work);
    }
    if (result == OUTCOME_DONE) {
        result = advise(&route, &call, &blocks, common.json);
    }
    align_call_free(&call);
    session_close(&work);
    routing_free(&route);
    return result;
}
