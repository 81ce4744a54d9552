/* Audits what another engine made of the same ids. Works on the host alone and shares nothing with the operator: it knows the contract
 * and the ids, and looks at each row, block and pair, so that it can say what is wrong and not only that something is. */
#include "command.h"
#include "routing.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char command_name[] = "verify";

typedef enum violation {
    WRONG_TOTAL,
    MISSING_PAIR,
    REPEATED_PAIR,
    MISPLACED_PAIR,
    UNPLACEABLE_PAIR,
    PAIR_IN_PADDING,
    PAIRS_OUT_OF_ORDER,
    PADDING_BETWEEN_PAIRS,
    WRONG_BLOCK_EXPERT,
    EMPTY_BLOCK,
    BLOCKS_OUT_OF_ORDER,
    WRONG_TAIL,
    NUM_VIOLATIONS
} violation;

static const char *const violation_names[NUM_VIOLATIONS] = {
    [WRONG_TOTAL] = "wrong total",
    [MISSING_PAIR] = "missing pair",
    [REPEATED_PAIR] = "pair twice",
    [MISPLACED_PAIR] = "pair in another expert's block",
    [UNPLACEABLE_PAIR] = "pair that must not be placed",
    [PAIR_IN_PADDING] = "pair in a padding row",
    [PAIRS_OUT_OF_ORDER] = "pairs out of order",
    [PADDING_BETWEEN_PAIRS] = "padding between pairs",
    [WRONG_BLOCK_EXPERT] = "wrong expert of a block",
    [EMPTY_BLOCK] = "block without pairs",
    [BLOCKS_OUT_OF_ORDER] = "blocks out of order",
    [WRONG_TAIL] = "wrong tail",
};

enum { NUM_EXAMPLES = 3, EXAMPLE_BYTES = 160, NO_SEGMENT = -1, NOWHERE = -1 };

/* The rows of one expert, or of all pairs without a local one. */
typedef struct segment {
    int64_t num_pairs; /* by the ids */
    int64_t num_found;
    int64_t last_pair;   /* found so far; -1 none */
    int64_t padding_row; /* first padding row so far; NOWHERE none */
} segment;

typedef struct audit {
    common_options common;
    const char *ids_path, *sorted_path, *blocks_path, *total_path, *map_path;
    number_list at;
    uint32_t num_experts, block_size, foreign;
    bool unordered, tails;

    routing route;
    npy_array sorted, blocks, total;
    segment *segments; /* in the order in which they must stand */
    int64_t num_segments;
    int64_t *row_of; /* [N] where the pair stands: a row, NOWHERE, or -2 - row if it stands in the wrong block */
    int64_t num_pairs, num_rows, num_violations;
    int64_t found[NUM_VIOLATIONS];
    char examples[NUM_VIOLATIONS][NUM_EXAMPLES][EXAMPLE_BYTES];
} audit;

REPORT_PRINTF(3, 4) static void report(audit *a, violation kind, const char *format, ...) {
    if (a->found[kind] < NUM_EXAMPLES) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(a->examples[kind][a->found[kind]], EXAMPLE_BYTES, format, arguments);
        va_end(arguments);
    }
    a->found[kind]++;
    a->num_violations++;
}

/* ---- What the contract says ----------------------------------------------------------------------------------------------------- */

static bool is_expert(const audit *a, int64_t number) {
    return number >= 0 && number < (int64_t)a->num_experts;
}

/* The segment that a pair belongs to, or NO_SEGMENT if it must not be placed. */
static int64_t segment_of_pair(const audit *a, int64_t pair) {
    const int64_t id = npy_integer(&a->route.ids, (size_t)pair);
    if (!is_expert(a, id)) {
        return a->foreign == CLMOE_FOREIGN_BUCKET && id < 0 ? 0 : NO_SEGMENT;
    }
    const int64_t local = a->route.expert_map ? a->route.expert_map[id] : id;
    switch (a->foreign) {
    case CLMOE_FOREIGN_KEEP: return id;
    case CLMOE_FOREIGN_BUCKET: return is_expert(a, local) ? local + 1 : 0;
    default: return is_expert(a, local) ? local : NO_SEGMENT;
    }
}

/* What --blocks must say about the segment's blocks. */
static int64_t expert_of_segment(const audit *a, int64_t s) {
    if (a->foreign == CLMOE_FOREIGN_KEEP && a->route.expert_map) {
        return is_expert(a, a->route.expert_map[s]) ? a->route.expert_map[s] : -1;
    }
    return a->foreign == CLMOE_FOREIGN_BUCKET ? s - 1 : s;
}

static bool is_pair(const audit *a, int64_t value) {
    return value >= 0 && value < a->num_pairs;
}

static int64_t sorted_at(const audit *a, int64_t row) {
    return npy_integer(&a->sorted, (size_t)row);
}

static int64_t expert_at(const audit *a, int64_t block) {
    return npy_integer(&a->blocks, (size_t)block);
}

/* ---- Checks --------------------------------------------------------------------------------------------------------------------- */

static void check_total(audit *a) {
    const int64_t total = npy_integer(&a->total, 0), sorted_rows = (int64_t)a->sorted.num_items;
    const int64_t block_rows = (int64_t)a->blocks.num_items * a->block_size;
    int64_t expected = 0;
    for (int64_t s = 0; s < a->num_segments; s++) {
        expected += (a->segments[s].num_pairs + a->block_size - 1) / a->block_size * a->block_size;
    }
    if (total != expected) {
        report(a, WRONG_TOTAL, "the total is %" PRId64 ", it must be %" PRId64, total, expected);
    }
    if (total > sorted_rows || total > block_rows) {
        report(a, WRONG_TOTAL, "the total is %" PRId64 ", but there are only %" PRId64 " rows and %zu blocks of %" PRIu32, total,
               sorted_rows, a->blocks.num_items, a->block_size);
    }
    /* Go on with the rows that are there. */
    a->num_rows = total < 0 ? 0 : total < sorted_rows ? total : sorted_rows;
    a->num_rows = a->num_rows < block_rows ? a->num_rows : block_rows;
}

/* The segment of a block: the one that it says, unless more of its pairs agree on another. Two walks: candidates, then their counts. */
static int64_t segment_of_block(audit *a, int64_t block, int64_t first, int64_t end) {
    const int64_t said = expert_at(a, block);
    int64_t as_said = NO_SEGMENT, majority = NO_SEGMENT, lead = 0, num_as_said = 0, num_majority = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t row = first; row < end; row++) {
            const int64_t pair = sorted_at(a, row);
            const int64_t s = is_pair(a, pair) ? segment_of_pair(a, pair) : NO_SEGMENT;
            if (s == NO_SEGMENT) {
                continue;
            }
            if (pass == 1) {
                num_as_said += s == as_said;
                num_majority += s == majority;
                continue;
            }
            if (as_said == NO_SEGMENT && expert_of_segment(a, s) == said) {
                as_said = s;
            }
            majority = lead == 0 ? s : majority;
            lead += s == majority ? 1 : -1;
        }
    }
    if (as_said != NO_SEGMENT && num_as_said >= num_majority) {
        return as_said;
    }
    if (majority == NO_SEGMENT) {
        report(a, EMPTY_BLOCK, "block %" PRId64 " (expert %" PRId64 ") holds no pair that may be placed", block, said);
    } else {
        report(a, WRONG_BLOCK_EXPERT, "block %" PRId64 " says expert %" PRId64 ", but its rows hold pairs of expert %" PRId64, block, said,
               expert_of_segment(a, majority));
    }
    return majority;
}

static void accept_pair(audit *a, int64_t s, int64_t pair, int64_t row) {
    segment *home = &a->segments[s];
    a->row_of[pair] = row;
    home->num_found++;
    if (!a->unordered && home->last_pair > pair) {
        report(a, PAIRS_OUT_OF_ORDER, "row %" PRId64 " holds pair %" PRId64 " behind pair %" PRId64 " of the same expert (%" PRId64 ")",
               row, pair, home->last_pair, expert_of_segment(a, s));
    }
    if (!a->unordered && home->padding_row != NOWHERE) {
        report(a, PADDING_BETWEEN_PAIRS,
               "row %" PRId64 " is padding, but row %" PRId64 " holds another pair of the same expert (%" PRId64 ")", home->padding_row,
               row, expert_of_segment(a, s));
        home->padding_row = NOWHERE;
    }
    home->last_pair = pair;
}

static void check_row(audit *a, int64_t row, int64_t block_segment) {
    const int64_t pair = sorted_at(a, row), block = row / a->block_size;
    segment *here = block_segment == NO_SEGMENT ? NULL : &a->segments[block_segment];
    if (!is_pair(a, pair)) {
        if (here && here->padding_row == NOWHERE) {
            here->padding_row = row;
        }
        return;
    }
    const int64_t s = segment_of_pair(a, pair);
    if (s == NO_SEGMENT) {
        const int64_t id = npy_integer(&a->route.ids, (size_t)pair);
        report(a, UNPLACEABLE_PAIR, "row %" PRId64 " holds pair %" PRId64 ", whose id %" PRId64 " is %s", row, pair, id,
               is_expert(a, id) ? "not on this rank" : "no expert");
    } else if (s == block_segment && a->row_of[pair] < 0) {
        accept_pair(a, s, pair, row);
    } else if (here && here->num_found == here->num_pairs) {
        report(a, PAIR_IN_PADDING,
               "row %" PRId64 " must be padding, as all %" PRId64 " pairs of expert %" PRId64 " stand before it, but holds pair %" PRId64,
               row, here->num_pairs, expert_of_segment(a, block_segment), pair);
    } else if (s == block_segment) {
        report(a, REPEATED_PAIR, "row %" PRId64 " holds pair %" PRId64 " again; it stands in row %" PRId64 " already", row, pair,
               a->row_of[pair]);
    } else {
        report(a, MISPLACED_PAIR,
               "row %" PRId64 " (block %" PRId64 ", expert %" PRId64 ") holds pair %" PRId64 ", which belongs to expert %" PRId64, row,
               block, expert_at(a, block), pair, expert_of_segment(a, s));
        if (a->row_of[pair] == NOWHERE) {
            a->row_of[pair] = -2 - row;
        }
    }
}

static void check_blocks(audit *a) {
    int64_t before = NO_SEGMENT;
    for (int64_t first = 0; first < a->num_rows; first += a->block_size) {
        const int64_t block = first / a->block_size;
        const int64_t end = first + a->block_size < a->num_rows ? first + a->block_size : a->num_rows;
        const int64_t s = segment_of_block(a, block, first, end);
        if (!a->unordered && s != NO_SEGMENT && s < before) {
            report(a, BLOCKS_OUT_OF_ORDER, "block %" PRId64 " of expert %" PRId64 " stands behind a block of expert %" PRId64, block,
                   expert_of_segment(a, s), expert_of_segment(a, before));
        }
        before = s == NO_SEGMENT ? before : s;
        for (int64_t row = first; row < end; row++) {
            check_row(a, row, s);
        }
    }
}

static int64_t find_in_tail(const audit *a, int64_t pair) {
    for (int64_t row = a->num_rows; row < (int64_t)a->sorted.num_items; row++) {
        if (sorted_at(a, row) == pair) {
            return row;
        }
    }
    return NOWHERE;
}

static void check_missing(audit *a) {
    for (int64_t pair = 0; pair < a->num_pairs; pair++) {
        if (a->row_of[pair] != NOWHERE || segment_of_pair(a, pair) == NO_SEGMENT) {
            continue;
        }
        /* Looking for it pays only if it will be told. */
        const int64_t row = a->found[MISSING_PAIR] < NUM_EXAMPLES ? find_in_tail(a, pair) : NOWHERE;
        char where[64] = "stands in no row";
        if (row != NOWHERE) {
            snprintf(where, sizeof where, "stands in row %" PRId64 ", beyond the total", row);
        }
        report(a, MISSING_PAIR, "pair %" PRId64 " (token %" PRId64 ", slot %" PRId64 ", expert %" PRId64 ") %s", pair,
               pair / a->route.top_k, pair % a->route.top_k, npy_integer(&a->route.ids, (size_t)pair), where);
    }
}

static void check_tails(audit *a) {
    for (int64_t row = a->num_rows; row < (int64_t)a->sorted.num_items; row++) {
        if (is_pair(a, sorted_at(a, row))) {
            report(a, WRONG_TAIL, "row %" PRId64 ", beyond the total, holds pair %" PRId64, row, sorted_at(a, row));
        }
    }
    for (int64_t block = (a->num_rows + a->block_size - 1) / a->block_size; block < (int64_t)a->blocks.num_items; block++) {
        if (expert_at(a, block) != -1) {
            report(a, WRONG_TAIL, "block %" PRId64 ", beyond the total, says expert %" PRId64 ", not -1", block, expert_at(a, block));
        }
    }
}

/* ---- Input and output ----------------------------------------------------------------------------------------------------------- */

static outcome read_integers(const char *path, uint32_t num_dims, npy_array *array) {
    const outcome result = routing_read_array(command_name, path, num_dims, NULL, array);
    if (result == OUTCOME_DONE && !npy_is_integer(array)) {
        char description[160];
        npy_describe(array, description, sizeof description);
        return report_error(command_name, OUTCOME_BAD_INPUT, "%s: %s: must hold integers", path, description);
    }
    return result;
}

static outcome read_inputs(audit *a) {
    char error[256];
    outcome result = routing_read(&a->route, command_name, a->ids_path, &a->at, a->num_experts);
    if (result == OUTCOME_DONE) {
        result = routing_read_map(&a->route, a->map_path, (clmoe_foreign)a->foreign);
    }
    if (result == OUTCOME_DONE) {
        result = read_integers(a->sorted_path, 1, &a->sorted);
    }
    if (result == OUTCOME_DONE) {
        result = read_integers(a->blocks_path, 1, &a->blocks);
    }
    if (result == OUTCOME_DONE) {
        if (!npy_read(a->total_path, &a->total, error, sizeof error)) {
            result = report_error(command_name, OUTCOME_BAD_INPUT, "%s: %s", a->total_path, error);
        } else if (!npy_is_integer(&a->total) || a->total.num_items != 1) {
            result = report_error(command_name, OUTCOME_BAD_INPUT, "%s: must hold one integer", a->total_path);
        }
    }
    return result;
}

static outcome prepare(audit *a) {
    a->num_pairs = (int64_t)a->route.ids.num_items;
    a->num_segments = (int64_t)a->num_experts + (a->foreign == CLMOE_FOREIGN_BUCKET);
    a->segments = calloc((size_t)a->num_segments, sizeof *a->segments);
    a->row_of = malloc((size_t)(a->num_pairs + 1) * sizeof *a->row_of);
    if (!a->segments || !a->row_of) {
        return report_error(command_name, OUTCOME_DEVICE_FAILED, "no memory for %" PRId64 " pairs and %" PRIu32 " experts", a->num_pairs,
                            a->num_experts);
    }
    for (int64_t s = 0; s < a->num_segments; s++) {
        a->segments[s].last_pair = -1;
        a->segments[s].padding_row = NOWHERE;
    }
    for (int64_t pair = 0; pair < a->num_pairs; pair++) {
        const int64_t s = segment_of_pair(a, pair);
        a->row_of[pair] = NOWHERE;
        if (s != NO_SEGMENT) {
            a->segments[s].num_pairs++;
        }
    }
    return OUTCOME_DONE;
}

static void print_text(const audit *a) {
    const report_style style = report_style_of(stdout);
    if (a->num_violations == 0) {
        printf("%sok%s: %" PRId64 " pairs, %" PRId64 " rows in use, blocks of %" PRIu32 "%s\n", style.good, style.plain, a->num_pairs,
               a->num_rows, a->block_size, a->unordered ? "; order not checked" : "");
        return;
    }
    printf("%swrong%s: %" PRId64 " violation%s\n", style.bad, style.plain, a->num_violations, a->num_violations == 1 ? "" : "s");
    for (size_t kind = 0; kind < NUM_VIOLATIONS; kind++) {
        if (a->found[kind] == 0) {
            continue;
        }
        printf("\n  %s%s%s: %" PRId64 "\n", style.bold, violation_names[kind], style.plain, a->found[kind]);
        for (int64_t i = 0; i < a->found[kind] && i < NUM_EXAMPLES; i++) {
            printf("    %s\n", a->examples[kind][i]);
        }
        if (a->found[kind] > NUM_EXAMPLES) {
            printf("    ...\n");
        }
    }
}

static void print_json(const audit *a) {
    report_json json = {stdout, 0, false};
    json_open(&json, NULL, '{');
    json_bool(&json, "ok", a->num_violations == 0);
    json_integer(&json, "pairs", a->num_pairs);
    json_integer(&json, "rows", a->num_rows);
    json_integer(&json, "violations", a->num_violations);
    json_open(&json, "kinds", '[');
    for (size_t kind = 0; kind < NUM_VIOLATIONS; kind++) {
        if (a->found[kind] == 0) {
            continue;
        }
        json_open(&json, NULL, '{');
        json_text(&json, "kind", violation_names[kind]);
        json_integer(&json, "violations", a->found[kind]);
        json_open(&json, "first", '[');
        for (int64_t i = 0; i < a->found[kind] && i < NUM_EXAMPLES; i++) {
            json_text(&json, NULL, a->examples[kind][i]);
        }
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

static outcome carry_out(audit *a) {
    const char *missing = !a->num_experts   ? "--experts E"
                          : !a->block_size  ? "--block B"
                          : !a->sorted_path ? "--sorted S.npy"
                          : !a->blocks_path ? "--blocks X.npy"
                          : !a->total_path  ? "--total N.npy"
                                            : NULL;
    outcome result = missing ? report_error(command_name, OUTCOME_BAD_INPUT, "%s is missing", missing) : read_inputs(a);
    if (result == OUTCOME_DONE) {
        result = prepare(a);
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    check_total(a);
    check_blocks(a);
    check_missing(a);
    if (a->tails) {
        check_tails(a);
    }
    if (a->common.json) {
        print_json(a);
    } else {
        print_text(a);
    }
    result = report_finish(command_name);
    return result == OUTCOME_DONE && a->num_violations > 0 ? OUTCOME_CHECK_FAILED : result;
}

static bool parse(audit *a, int argc, char **argv, outcome *result) {
    const option_spec specs[] = {
        {"--experts", OPTION_UINT32, &a->num_experts, "E", "number of experts; needed", 1, INT32_MAX, NULL},
        {"--block", OPTION_UINT32, &a->block_size, "B", "rows in a block; needed", 1, INT32_MAX, NULL},
        {"--sorted", OPTION_TEXT, (void *)&a->sorted_path, "S.npy", "the engine's sorted token ids; needed", 0, 0, NULL},
        {"--blocks", OPTION_TEXT, (void *)&a->blocks_path, "X.npy", "the engine's expert of each block; needed", 0, 0, NULL},
        {"--total", OPTION_TEXT, (void *)&a->total_path, "N.npy", "the engine's number of padded rows; needed", 0, 0, NULL},
        {"--unordered", OPTION_FLAG, &a->unordered, NULL, "only which pairs each expert has, in any order", 0, 0, NULL},
        {"--tails", OPTION_FLAG, &a->tails, NULL, "also what stands beyond the total: no pairs, experts -1", 0, 0, NULL},
        {"--at", OPTION_NUMBERS, &a->at, "I,J,...", "takes this part of IDS.npy if it has more than two dimensions", 0, UINT32_MAX, NULL},
        {"--expert-map", OPTION_TEXT, (void *)&a->map_path, "MAP.npy", "integers [E]: local number of each expert, -1 = not here", 0, 0,
         NULL},
        {"--foreign", OPTION_CHOICE, &a->foreign, "drop|keep|bucket", "what becomes of pairs whose expert is not here [drop]", 0, 0, NULL},
    };
    static const char purpose[] =
        "Checks what another engine made of IDS.npy, integers [T][K], against the contract of align, and says what is wrong: which pair, "
        "row or\n"
        "block. A value below 0 or from T*K on is padding. Works on the host alone. Exit code 1 if anything is wrong.";
    const command_syntax syntax = {command_name,
                                   "IDS.npy --experts E --block B --sorted S.npy --blocks X.npy --total N.npy [options]",
                                   purpose,
                                   specs,
                                   sizeof specs / sizeof specs[0],
                                   "IDS.npy"};
    return options_parse(&syntax, argc, argv, &a->common, &a->ids_path, result);
}

outcome command_verify(int argc, char **argv) {
    outcome result = OUTCOME_DONE;
    audit *a = calloc(1, sizeof *a);
    if (!a) {
        return report_error(command_name, OUTCOME_DEVICE_FAILED, "no memory");
    }
    if (parse(a, argc, argv, &result)) {
        result = carry_out(a);
    }
    routing_free(&a->route);
    npy_free(&a->sorted);
    npy_free(&a->blocks);
    npy_free(&a->total);
    free(a->segments);
    free(a->row_of);
    free(a);
    return result;
}
