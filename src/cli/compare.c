#include "bars.h"
#include "bench.h"
#include "command.h"
#include "json.h"
#include "options.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = BARS_MAX_SERIES };

static const char command[] = "compare";

typedef struct result_row {
    const char *workload, *contender, *device, *status, *hash, *input_hash;
    bench_summary wall;
} result_row;

typedef struct result_file {
    const char *path;
    json_document document;
    result_row *rows;
    size_t num_rows;
    const char *only_device; /* NULL if it has rows of several */
} result_file;

/* What is said about one row of a file beside the same row of the first file. */
typedef enum verdict { VERDICT_ABSENT, VERDICT_UNTOLD, VERDICT_FASTER, VERDICT_SLOWER, VERDICT_NEITHER, NUM_VERDICTS } verdict;

typedef struct comparison {
    result_file files[MAX_FILES];
    size_t num_files;
    bool by_device; /* rows belong together only on the same device */
    size_t tallies[MAX_FILES][NUM_VERDICTS];
    size_t num_hashes, num_differences;
} comparison;

/* ---- Reading -------------------------------------------------------------------------------------------------------------------- */

static outcome refuse(const result_file *file, const char *reason) {
    return report_error(command, OUTCOME_BAD_INPUT, "%s: %s", file->path, reason);
}

static bool read_samples(const json_value *samples, bench_summary *summary) {
    double *us = calloc(samples->num_children + 1, sizeof *us);
    size_t num = 0;
    for (const json_value *sample = samples->first; sample && us; sample = sample->next) {
        if (sample->kind != JSON_NUMBER || sample->number <= 0) {
            free(us);
            return false;
        }
        us[num++] = sample->number;
    }
    *summary = bench_summarise(us, us ? num : 0);
    free(us);
    return us != NULL;
}

static outcome read_row(const result_file *file, size_t index, const json_value *value, result_row *row) {
    const struct {
        const char *key;
        const char **text;
    } texts[] = {{"workload", &row->workload}, {"contender", &row->contender}, {"device", &row->device},
                 {"status", &row->status},     {"hash", &row->hash},           {"input_hash", &row->input_hash}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const json_value *member = json_member(value, texts[i].key, JSON_TEXT);
        if (!member) {
            return report_error(command, OUTCOME_BAD_INPUT, "%s: row %zu: no text \"%s\"", file->path, index, texts[i].key);
        }
        *texts[i].text = member->text;
    }
    const json_value *samples = json_member(value, "wall_us", JSON_ARRAY);
    if (!samples || !read_samples(samples, &row->wall)) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: row %zu: \"wall_us\" is no list of times", file->path, index);
    }
    if (strcmp(row->status, "ok") == 0 && samples->num_children == 0) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: row %zu: status \"ok\" without a sample", file->path, index);
    }
    return OUTCOME_DONE;
}

static outcome read_result(result_file *file, const char *path) {
    char error[200];
    file->path = path;
    if (!json_read(path, &file->document, error, sizeof error)) {
        return refuse(file, error);
    }
    const json_value *root = file->document.root, *schema = json_member(root, "schema", JSON_TEXT);
    const json_value *version = json_member(root, "version", JSON_NUMBER), *rows = json_member(root, "rows", JSON_ARRAY);
    if (!schema || strcmp(schema->text, BENCH_SCHEMA) != 0) {
        return refuse(file, "no result of 'clmoe bench --json'");
    }
    if (!version || version->number != BENCH_SCHEMA_VERSION) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s: schema version %g; this program reads version %d", path,
                            version ? version->number : 0, BENCH_SCHEMA_VERSION);
    }
    if (!rows) {
        return refuse(file, "no \"rows\"");
    }
    file->rows = calloc(rows->num_children + 1, sizeof *file->rows);
    if (!file->rows) {
        return refuse(file, "no memory");
    }
    bool has_several = false;
    for (const json_value *value = rows->first; value; value = value->next) {
        result_row *row = &file->rows[file->num_rows];
        const outcome result = read_row(file, file->num_rows, value, row);
        if (result != OUTCOME_DONE) {
            return result;
        }
        if (strcmp(row->device, "host") != 0) {
            has_several = has_several || (file->only_device && strcmp(file->only_device, row->device) != 0);
            file->only_device = row->device;
        }
        file->num_rows++;
    }
    file->only_device = has_several ? NULL : file->only_device;
    return OUTCOME_DONE;
}

/* ---- Comparing ------------------------------------------------------------------------------------------------------------------ */

static bool is_measured(const result_row *row) {
    return row && strcmp(row->status, "ok") == 0;
}

static const result_row *find_row(const comparison *c, const result_file *file, const result_row *like) {
    for (size_t i = 0; i < file->num_rows; i++) {
        const result_row *row = &file->rows[i];
        if (strcmp(row->workload, like->workload) == 0 && strcmp(row->contender, like->contender) == 0 &&
            (!c->by_device || strcmp(row->device, like->device) == 0)) {
            return row;
        }
    }
    return NULL;
}

/* Times rank only if the bulks of their samples, 10 to 90 %, lie apart. */
static verdict judge(const result_row *base, const result_row *other) {
    if (!is_measured(base) || !is_measured(other)) {
        return other && !is_measured(base) && !is_measured(other) ? VERDICT_NEITHER : VERDICT_ABSENT;
    }
    return other->wall.p90 < base->wall.p10 ? VERDICT_FASTER : other->wall.p10 > base->wall.p90 ? VERDICT_SLOWER : VERDICT_UNTOLD;
}

static double ratio_of(const result_row *base, const result_row *other) {
    const double ratio = base->wall.median / other->wall.median;
    return ratio >= 1 ? ratio : 1 / ratio;
}

/* NULL, or what is not the same bits. */
static const char *difference(const result_row *base, const result_row *other) {
    if (!is_measured(base) || !is_measured(other) || !base->hash[0] || !other->hash[0]) {
        return NULL;
    }
    return strcmp(base->input_hash, other->input_hash) != 0 ? "input" : strcmp(base->hash, other->hash) != 0 ? "result" : NULL;
}

static void tally(comparison *c) {
    const result_file *base = &c->files[0];
    c->by_device = false;
    for (size_t f = 0; f < c->num_files; f++) {
        c->by_device = c->by_device || !c->files[f].only_device;
    }
    for (size_t i = 0; i < base->num_rows; i++) {
        for (size_t f = 1; f < c->num_files; f++) {
            const result_row *row = &base->rows[i], *other = find_row(c, &c->files[f], row);
            c->tallies[f][judge(row, other)]++;
            c->num_hashes += is_measured(row) && is_measured(other) && row->hash[0] && other->hash[0];
            c->num_differences += difference(row, other) != NULL;
        }
    }
    for (size_t f = 1; f < c->num_files; f++) {
        for (size_t i = 0; i < c->files[f].num_rows; i++) {
            c->tallies[f][VERDICT_ABSENT] += find_row(c, base, &c->files[f].rows[i]) == NULL;
        }
    }
}

/* ---- Printing ------------------------------------------------------------------------------------------------------------------- */

static const char *environment_text(const result_file *file, const char *key) {
    const json_value *member = json_member(json_member(file->document.root, "environment", JSON_OBJECT), key, JSON_TEXT);
    return member ? member->text : "-";
}

static void print_files(const comparison *c) {
    for (size_t f = 0; f < c->num_files; f++) {
        const result_file *file = &c->files[f];
        printf("%c  %s: %s, %s, %s, clmoe %s\n", (char)('A' + f), file->path,
               file->only_device ? file->only_device
               : file->num_rows  ? "several devices"
                                 : "no rows",
               environment_text(file, "system"), environment_text(file, "time"), environment_text(file, "clmoe"));
    }
}

static void print_table(const comparison *c) {
    const report_style style = report_style_of(stdout);
    const result_file *base = &c->files[0];
    printf("\nMedian wall time in us, and against A; ~ where 10 to 90 %% of the samples overlap.\n\n%s%-44s %-18s", style.bold, "WORKLOAD",
           "CONTENDER");
    for (size_t f = 0; f < c->num_files; f++) {
        printf(f > 1 ? "               %10c" : " %10c", (char)('A' + f));
    }
    printf("%s\n", style.plain);
    for (size_t i = 0; i < base->num_rows; i++) {
        const result_row *row = &base->rows[i];
        printf("%-44s %-18s", row->workload, row->contender);
        for (size_t f = 0; f < c->num_files; f++) {
            const result_row *other = f ? find_row(c, &c->files[f], row) : row;
            const verdict v = judge(row, other);
            char text[32] = "~";
            if (v == VERDICT_FASTER || v == VERDICT_SLOWER) {
                snprintf(text, sizeof text, "%.2fx %s", ratio_of(row, other), v == VERDICT_FASTER ? "faster" : "slower");
            } else if (v != VERDICT_UNTOLD) {
                snprintf(text, sizeof text, "-");
            }
            if (is_measured(other)) {
                printf(" %10.2f", other->wall.median);
            } else {
                printf(" %10s", other ? other->status : "-");
            }
            if (f) {
                printf(f + 1 < c->num_files || c->by_device ? " %-13s" : " %s", text);
            }
        }
        printf("%s%s\n", c->by_device ? "  " : "", c->by_device ? row->device : "");
    }
}

static void print_differences(const comparison *c) {
    const result_file *base = &c->files[0];
    for (size_t i = 0; i < base->num_rows; i++) {
        for (size_t f = 1; f < c->num_files; f++) {
            const result_row *row = &base->rows[i], *other = find_row(c, &c->files[f], row);
            const char *what = difference(row, other);
            if (what) {
                const bool is_input = strcmp(what, "input") == 0;
                printf("%s differs: %s, %s: A %s, %c %s\n", what, row->workload, row->contender, is_input ? row->input_hash : row->hash,
                       (char)('A' + f), is_input ? other->input_hash : other->hash);
            }
        }
    }
}

static void print_summary(const comparison *c) {
    printf("\n");
    for (size_t f = 1; f < c->num_files; f++) {
        const size_t *t = c->tallies[f];
        const bool is_equal = t[VERDICT_FASTER] + t[VERDICT_SLOWER] + t[VERDICT_ABSENT] == 0 && c->num_differences == 0;
        printf("%c against A: %s%zu faster, %zu slower, %zu not told apart, %zu measured in one alone\n", (char)('A' + f),
               is_equal ? "equal: " : "", t[VERDICT_FASTER], t[VERDICT_SLOWER], t[VERDICT_UNTOLD], t[VERDICT_ABSENT]);
    }
    print_differences(c);
    if (c->num_differences == 0) {
        printf("all %zu result hashes that can be compared are the same\n", c->num_hashes);
    }
}

static void print_json(const comparison *c) {
    static const char *const names[] = {"measured in one alone", "not told apart", "faster", "slower", "measured in none"};
    const result_file *base = &c->files[0];
    report_json json = {stdout, 0, false};
    json_open(&json, NULL, '{');
    json_open(&json, "files", '[');
    for (size_t f = 0; f < c->num_files; f++) {
        json_text(&json, NULL, c->files[f].path);
    }
    json_close(&json, ']');
    json_integer(&json, "differences", (int64_t)c->num_differences);
    json_open(&json, "rows", '[');
    for (size_t i = 0; i < base->num_rows; i++) {
        const result_row *row = &base->rows[i];
        json_open(&json, NULL, '{');
        json_text(&json, "workload", row->workload);
        json_text(&json, "contender", row->contender);
        json_text(&json, "device", row->device);
        json_open(&json, "against", '[');
        for (size_t f = 1; f < c->num_files; f++) {
            const result_row *other = find_row(c, &c->files[f], row);
            const char *what = difference(row, other);
            json_open(&json, NULL, '{');
            json_text(&json, "verdict", names[judge(row, other)]);
            json_number(&json, "ratio", is_measured(row) && is_measured(other) ? row->wall.median / other->wall.median : 0);
            json_text(&json, "differs", what ? what : "");
            json_close(&json, '}');
        }
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

/* ---- The picture ---------------------------------------------------------------------------------------------------------------- */

static bool draw(FILE *stream, const comparison *c) {
    const result_file *base = &c->files[0];
    char(*names)[128] = calloc(base->num_rows + 1, sizeof *names), series[MAX_FILES][200];
    const char **groups = calloc(base->num_rows + 1, sizeof *groups), *series_names[MAX_FILES];
    bar *bars = calloc(base->num_rows * c->num_files + 1, sizeof *bars);
    size_t num_groups = 0, num_bars = 0;
    bool is_whole = names && groups && bars;
    for (size_t f = 0; f < c->num_files; f++) {
        snprintf(series[f], sizeof series[f], "%c  %s", (char)('A' + f), c->files[f].path);
        series_names[f] = series[f];
    }
    for (size_t i = 0; i < base->num_rows && is_whole; i++) {
        const result_row *row = &base->rows[i];
        if (!is_measured(row)) {
            continue;
        }
        snprintf(names[num_groups], sizeof names[num_groups], "%s: %s", row->workload, row->contender);
        groups[num_groups] = names[num_groups];
        for (size_t f = 0; f < c->num_files; f++) {
            const result_row *other = f ? find_row(c, &c->files[f], row) : row;
            if (is_measured(other)) {
                bars[num_bars++] = (bar){num_groups, f, other->wall.median, other->wall.p10, other->wall.p90};
            }
        }
        num_groups++;
    }
    if (is_whole) {
        const bars_chart chart = {"clmoe compare", groups, num_groups, series_names, c->num_files, bars, num_bars};
        is_whole = bars_draw(stream, &chart);
    }
    free(names);
    free(groups);
    free(bars);
    return is_whole;
}

static outcome write_picture(const comparison *c, const char *path) {
    output_set outputs = {.command = command};
    FILE *stream = NULL;
    outcome result = output_open(&outputs, NULL, path, &stream);
    if (result == OUTCOME_DONE) {
        result = output_close(&outputs, draw(stream, c));
    }
    if (result == OUTCOME_DONE) {
        result = output_commit(&outputs);
    }
    output_discard(&outputs);
    return result;
}

/* ---- The command ---------------------------------------------------------------------------------------------------------------- */

static outcome compare(comparison *c, const text_list *paths, bool as_json, const char *svg_path) {
    outcome result = OUTCOME_DONE;
    for (size_t i = 0; i < paths->num_texts && result == OUTCOME_DONE; i++) {
        result = read_result(&c->files[c->num_files++], paths->texts[i]);
    }
    if (result == OUTCOME_DONE) {
        tally(c);
        result = svg_path ? write_picture(c, svg_path) : OUTCOME_DONE;
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    if (as_json) {
        print_json(c);
    } else {
        print_files(c);
        print_table(c);
        print_summary(c);
    }
    result = report_finish(command);
    return result == OUTCOME_DONE && c->num_differences > 0 ? OUTCOME_CHECK_FAILED : result;
}

outcome command_compare(int argc, char **argv) {
    comparison c = {.num_files = 0};
    common_options common;
    text_list paths = {.num_texts = 0};
    const char *operand = NULL, *svg_path = NULL;
    outcome result = OUTCOME_DONE;
    const option_spec specs[] = {
        {"A.json B.json ...", OPTION_OPERANDS, &paths, NULL, "files that 'clmoe bench --json' wrote, 2 to 8", 0, 0, NULL},
        {"--svg", OPTION_TEXT, (void *)&svg_path, "FILE", "the same as bars", 0, 0, NULL},
    };
    static const char purpose[] =
        "Puts results side by side, each against the first. Where the bulks of the samples, 10 to 90 %, overlap, no ranking is given. Rows "
        "are\n"
        "matched by workload, contender and device; if each file has one device, by workload and contender alone.\n"
        "Exit code 1 where results are not the same bits.";
    const command_syntax syntax = {command, "A.json B.json ... [--svg FILE] [options]", purpose, specs, sizeof specs / sizeof specs[0],
                                   NULL};
    if (!options_parse(&syntax, argc, argv, &common, &operand, &result)) {
        return result;
    }
    if (paths.num_texts < 2 || paths.num_texts > MAX_FILES) {
        return report_error(command, OUTCOME_BAD_INPUT, "%zu file%s; from 2 to %d are compared", paths.num_texts,
                            paths.num_texts == 1 ? "" : "s", MAX_FILES);
    }
    result = compare(&c, &paths, common.json, svg_path);
    for (size_t i = 0; i < c.num_files; i++) {
        free(c.files[i].rows);
        json_free(&c.files[i].document);
    }
    return result;
}
