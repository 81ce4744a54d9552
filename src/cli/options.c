#include "options.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_COMMON = 6, MAX_SPECS = 32, MAX_TYPED = 32 };

/* ---- Nearest word --------------------------------------------------------------------------------------------------------------- */

/* Insertions, deletions, changes and swaps of neighbours that turn one word into the other. Words of up to MAX_TYPED letters. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][MAX_TYPED + 1];
    const size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > MAX_TYPED || b_length > MAX_TYPED) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t *now = rows[i % 3];
        const size_t *before = rows[(i + 2) % 3], *before_that = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t changed = before[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = changed < before[j] + 1 ? changed : before[j] + 1;
            now[j] = now[j] < now[j - 1] + 1 ? now[j] : now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before_that[j - 2] + 1 < now[j]) {
                now[j] = before_that[j - 2] + 1;
            }
        }
    }
    return rows[a_length % 3][b_length];
}

const char *options_nearest(const char *typed, const char *const *names, size_t num_names) {
    const char *nearest = NULL;
    size_t nearest_distance = 1 + strlen(typed) / 3;
    for (size_t i = 0; i < num_names; i++) {
        const size_t d = distance(typed, names[i]);
        if (d < nearest_distance || (d == nearest_distance && !nearest)) {
            nearest = names[i];
            nearest_distance = d;
        }
    }
    return nearest;
}

/* ---- Values --------------------------------------------------------------------------------------------------------------------- */

outcome options_number(const char *command, const char *label, const char *text, int64_t min, int64_t max, int64_t *value) {
    const bool negative = text[0] == '-';
    const char *digits = text + negative;
    const size_t length = strlen(digits);
    uint64_t magnitude = 0;
    if (length == 0 || strspn(digits, "0123456789") != length) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s %s: not a whole number", label, length == 0 && !negative ? "''" : text);
    }
    for (const char *at = digits; *at; at++) {
        /* Anything this long is out of every range; the limit keeps the sum from wrapping. */
        magnitude = magnitude > (uint64_t)INT64_MAX / 16 ? (uint64_t)INT64_MAX : magnitude * 10 + (uint64_t)(*at - '0');
    }
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    if (*value < min) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s %s: must be at least %" PRId64, label, text, min);
    }
    if (*value > max) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s %s: must be at most %" PRId64, label, text, max);
    }
    return OUTCOME_DONE;
}

outcome options_float(const char *command, const char *label, const char *text, float *value) {
    char *end = NULL;
    const bool has_digits = strpbrk(text, "0123456789") != NULL && strspn(text, "0123456789+-.eE") == strlen(text);
    errno = 0;
    *value = strtof(text, &end);
    if (!has_digits || *end) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s %s: not a number", label, *text ? text : "''");
    }
    const char *limit = signbit(*value)                                       ? "at least 0"
                        : !isfinite(*value)                                   ? "at most 3.4e38"
                        : *value < FLT_MIN && (*value > 0 || errno == ERANGE) ? "0, or at least 1.2e-38"
                                                                              : NULL;
    if (limit) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s %s: must be %s", label, text, limit);
    }
    return OUTCOME_DONE;
}

static outcome parse_numbers(const char *command, const option_spec *spec, const char *text) {
    number_list *list = spec->target;
    list->num_values = 0;
    for (const char *at = text;; at++) {
        char item[MAX_TYPED + 1];
        int64_t value = 0;
        const size_t length = strcspn(at, ",");
        if (length > MAX_TYPED || list->num_values == OPTIONS_MAX_LIST) {
            return report_error(command, OUTCOME_BAD_INPUT, "%s %s: %s", spec->name, text,
                                length > MAX_TYPED ? "not a whole number" : "too many numbers");
        }
        memcpy(item, at, length);
        item[length] = 0;
        const outcome result = options_number(command, spec->name, item, spec->min, spec->max, &value);
        if (result != OUTCOME_DONE) {
            return result;
        }
        list->values[list->num_values++] = (uint32_t)value;
        at += length;
        if (*at == 0) {
            return OUTCOME_DONE;
        }
    }
}

static outcome parse_choice(const char *command, const option_spec *spec, const char *text) {
    uint32_t position = 0;
    for (const char *word = spec->value_name;; word++, position++) {
        const size_t length = strcspn(word, "|");
        if (strlen(text) == length && memcmp(text, word, length) == 0) {
            *(uint32_t *)spec->target = position;
            return OUTCOME_DONE;
        }
        word += length;
        if (*word == 0) {
            return report_error(command, OUTCOME_BAD_INPUT, "%s %s: must be one of %s", spec->name, text, spec->value_name);
        }
    }
}

static outcome parse_texts(const char *command, const option_spec *spec, const char *text) {
    text_list *list = spec->target;
    if (*text == 0) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s '': must not be empty", spec->name);
    }
    if (list->num_texts == OPTIONS_MAX_LIST) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s %s: more than %d of them", spec->name, text, OPTIONS_MAX_LIST);
    }
    list->texts[list->num_texts++] = text;
    return OUTCOME_DONE;
}

static outcome parse_value(const char *command, const option_spec *spec, const char *text) {
    int64_t number = 0;
    outcome result = OUTCOME_DONE;
    switch (spec->kind) {
    case OPTION_FLAG: break;
    case OPTION_TEXTS:
    case OPTION_OPERANDS: result = parse_texts(command, spec, text); break;
    case OPTION_TEXT:
        if (*text == 0) {
            return report_error(command, OUTCOME_BAD_INPUT, "%s '': must not be empty", spec->name);
        }
        *(const char **)spec->target = text;
        break;
    case OPTION_UINT32:
        result = options_number(command, spec->name, text, spec->min, spec->max, &number);
        *(uint32_t *)spec->target = (uint32_t)number;
        break;
    case OPTION_INT32:
        result = options_number(command, spec->name, text, spec->min, spec->max, &number);
        *(int32_t *)spec->target = (int32_t)number;
        break;
    case OPTION_FLOAT: result = options_float(command, spec->name, text, spec->target); break;
    case OPTION_NUMBERS: result = parse_numbers(command, spec, text); break;
    case OPTION_CHOICE: result = parse_choice(command, spec, text); break;
    }
    return result;
}

/* ---- The options of every command ----------------------------------------------------------------------------------------------- */

static void list_common(common_options *common, option_spec specs[NUM_COMMON]) {
    const option_spec list[NUM_COMMON] = {
        {"--device", OPTION_TEXT, (void *)&common->device, "DEVICE",
         "auto, native, N or P:D of 'clmoe devices', or part of a name [auto; CLMOE_DEVICE]", 0, 0, &common->device_given},
        {"--class", OPTION_CHOICE, &common->kernel_class, "auto|serial|parallel", "which kernels run; the results are the same bits [auto]",
         0, 0, NULL},
        {"--threads", OPTION_UINT32, &common->num_threads, "N", "threads of the native device, 0 = one per core [0]", 0, 256, NULL},
        {"--cache-dir", OPTION_TEXT, (void *)&common->cache_dir, "DIR|none",
         "keeps compiled programs [the user's cache directory; CLMOE_CACHE_DIR]", 0, 0, NULL},
        {"--json", OPTION_FLAG, &common->json, NULL, "facts as JSON on stdout", 0, 0, NULL},
        {"-v", OPTION_FLAG, &common->verbose, NULL, "says on stderr what ran: device, class, launches, where the program came from", 0, 0,
         NULL},
    };
    memcpy(specs, list, sizeof list);
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The command line, else the environment, else the user's cache directory if there is one. "none" is none. */
static void choose_cache_dir(common_options *common) {
    const char *base = environment("XDG_CACHE_HOME");
    const char *home = environment("HOME");
    const char *chosen = common->cache_dir ? common->cache_dir : environment("CLMOE_CACHE_DIR");
    int length = 0;
    if (!chosen && base && base[0] == '/') {
        length = snprintf(common->cache_path, sizeof common->cache_path, "%s/clmoe", base);
    } else if (!chosen && home && home[0] == '/') {
        length = snprintf(common->cache_path, sizeof common->cache_path, "%s/.cache/clmoe", home);
    }
    if (length > 0 && (size_t)length < sizeof common->cache_path) {
        chosen = common->cache_path;
    }
    common->cache_dir = chosen && strcmp(chosen, "none") != 0 ? chosen : NULL;
}

/* ---- Help and parsing ----------------------------------------------------------------------------------------------------------- */

static const option_spec *find_spec(const option_spec *specs, size_t num_specs, const char *name, size_t name_length) {
    for (size_t i = 0; i < num_specs; i++) {
        if (strlen(specs[i].name) == name_length && memcmp(specs[i].name, name, name_length) == 0) {
            return &specs[i];
        }
    }
    return NULL;
}

/* Leaves out those whose names are among `replaced`. */
static void print_specs(const char *title, const option_spec *specs, size_t num_specs, const option_spec *replaced, size_t num_replaced) {
    enum { LEFT_COLUMNS = 30 };
    printf("\n%s\n", title);
    for (size_t i = 0; i < num_specs; i++) {
        char left[64];
        if (find_spec(replaced, num_replaced, specs[i].name, strlen(specs[i].name))) {
            continue;
        }
        const int length = snprintf(left, sizeof left, "%s%s%s", specs[i].name, specs[i].value_name ? " " : "",
                                    specs[i].value_name ? specs[i].value_name : "");
        printf("  %-*s", LEFT_COLUMNS, left);
        if (length > LEFT_COLUMNS) {
            printf("\n  %*s", LEFT_COLUMNS, "");
        }
        printf(" %s\n", specs[i].help);
    }
}

static outcome print_help(const command_syntax *syntax, const option_spec *common_specs) {
    printf("usage: clmoe %s %s\n\n%s\n", syntax->command, syntax->usage, syntax->purpose);
    if (syntax->num_specs > 0) {
        print_specs("options", syntax->specs, syntax->num_specs, NULL, 0);
    }
    print_specs("options of every command", common_specs, NUM_COMMON, syntax->specs, syntax->num_specs);
    printf(
        "\nexit codes: 0 done; 1 a check failed; 2 bad usage, bad input, or an output that can't be written; 3 device or driver failed\n");
    return report_finish(syntax->command);
}

static outcome unknown_option(const command_syntax *syntax, const option_spec *specs, size_t num_specs, const char *typed,
                              size_t typed_length) {
    const char *names[MAX_SPECS + 1];
    char word[MAX_TYPED + 1] = "";
    for (size_t i = 0; i < num_specs; i++) {
        names[i] = specs[i].name;
    }
    names[num_specs] = "--help";
    if (typed_length <= MAX_TYPED) {
        memcpy(word, typed, typed_length);
        word[typed_length] = 0;
    }
    const char *nearest = options_nearest(word, names, num_specs + 1);
    return nearest ? report_error(syntax->command, OUTCOME_BAD_INPUT, "unknown option %.*s; did you mean %s?", (int)typed_length, typed,
                                  nearest)
                   : report_error(syntax->command, OUTCOME_BAD_INPUT, "unknown option %.*s; see 'clmoe %s --help'", (int)typed_length,
                                  typed, syntax->command);
}

/* One argument that starts with '-', with its value in the same or in the next argument. */
static outcome parse_option(const command_syntax *syntax, const option_spec *specs, size_t num_specs, int argc, char **argv,
                            int *position) {
    const char *typed = argv[*position];
    const size_t name_length = strcspn(typed, "=");
    const option_spec *spec = find_spec(specs, num_specs, typed, name_length);
    if (!spec) {
        return unknown_option(syntax, specs, num_specs, typed, name_length);
    }
    const char *value = typed[name_length] == '=' ? typed + name_length + 1 : NULL;
    if (spec->kind == OPTION_FLAG) {
        if (value) {
            return report_error(syntax->command, OUTCOME_BAD_INPUT, "%s takes no value", spec->name);
        }
        *(bool *)spec->target = true;
    } else if (!value) {
        if (*position + 1 >= argc) {
            return report_error(syntax->command, OUTCOME_BAD_INPUT, "%s: its value %s is missing", spec->name, spec->value_name);
        }
        value = argv[++*position];
    }
    if (spec->given) {
        *spec->given = true;
    }
    return value ? parse_value(syntax->command, spec, value) : OUTCOME_DONE;
}

bool options_parse(const command_syntax *syntax, int argc, char **argv, common_options *common, const char **operand, outcome *result) {
    option_spec specs[MAX_SPECS];
    const size_t num_specs = syntax->num_specs + NUM_COMMON;
    const option_spec *operands = NULL;
    bool options_ended = false;
    memset(common, 0, sizeof *common);
    for (size_t i = 0; i < syntax->num_specs; i++) {
        specs[i] = syntax->specs[i];
        operands = specs[i].kind == OPTION_OPERANDS ? &specs[i] : operands;
    }
    list_common(common, specs + syntax->num_specs);
    *operand = NULL;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        *result = OUTCOME_DONE;
        if (options_ended || word[0] != '-' || word[1] == 0) {
            if (operands) {
                *result = parse_texts(syntax->command, operands, word);
                if (*result != OUTCOME_DONE) {
                    return false;
                }
                continue;
            }
            if (*operand || !syntax->operand_name) {
                *result = report_error(syntax->command, OUTCOME_BAD_INPUT, "unexpected argument '%s'", word);
                return false;
            }
            *operand = word;
        } else if (strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            *result = print_help(syntax, specs + syntax->num_specs);
            return false;
        } else {
            *result = parse_option(syntax, specs, num_specs, argc, argv, &i);
            if (*result != OUTCOME_DONE) {
                return false;
            }
        }
    }
    if (syntax->operand_name && syntax->operand_name[0] != '[' && !*operand) {
        *result =
            report_error(syntax->command, OUTCOME_BAD_INPUT, "%s is missing; see 'clmoe %s --help'", syntax->operand_name, syntax->command);
        return false;
    }
    common->device = common->device ? common->device : environment("CLMOE_DEVICE");
    choose_cache_dir(common);
    return true;
}
