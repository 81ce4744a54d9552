/* options.h - the command line: one table per command says what is parsed, what is refused and what --help prints. */
#ifndef CLMOE_CLI_OPTIONS_H
#define CLMOE_CLI_OPTIONS_H

#include "report.h"

#include <clmoe/core.h>

enum { OPTIONS_MAX_LIST = 32, OPTIONS_PATH_BYTES = 4096 };

typedef struct number_list {
    uint32_t values[OPTIONS_MAX_LIST];
    size_t num_values;
} number_list;

/* Texts of an option that may be given several times. */
typedef struct text_list {
    const char *texts[OPTIONS_MAX_LIST];
    size_t num_texts;
} text_list;

/* What `target` points to. */
typedef enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char *, never empty */
    OPTION_UINT32,  /* uint32_t in min ... max */
    OPTION_INT32,   /* int32_t in min ... max */
    OPTION_FLOAT,   /* float: 0, or positive and normal */
    OPTION_NUMBERS, /* number_list, comma-separated, each in min ... max */
    OPTION_CHOICE,  /* uint32_t: position of the word in value_name, "auto|serial|parallel" */
    OPTION_TEXTS,   /* text_list, one more text each time */
    OPTION_OPERANDS /* text_list: the arguments that are no options; the name is for --help alone */
} option_kind;

typedef struct option_spec {
    const char *name;       /* "--block" */
    option_kind kind;       /* the value that target holds beforehand is the default */
    void *target;           /*                                                       */
    const char *value_name; /* "B", or the words of a choice */
    const char *help;
    int64_t min, max;
    bool *given; /* set to true if the option was there; may be NULL */
} option_spec;

/* The options of every command. */
typedef struct common_options {
    const char *device; /* NULL = auto */
    bool device_given;  /* on the command line, not by the environment */
    uint32_t kernel_class;
    uint32_t num_threads;
    const char *cache_dir; /* NULL = none */
    bool json;
    bool verbose;
    char cache_path[OPTIONS_PATH_BYTES]; /* memory for a cache_dir that was put together here */
} common_options;

typedef struct command_syntax {
    const char *command;
    const char *usage;        /* "IDS.npy --experts E --block B [options]" */
    const char *purpose;      /* a few lines for --help */
    const option_spec *specs; /* one with the name of a common option takes its place */
    size_t num_specs;
    const char *operand_name; /* "IDS.npy"; "[IDS.npy]" if it may be missing; NULL if the command takes none */
} command_syntax;

/* Parses what follows the command's name, fills the targets and *common, and *operand if the command takes one. True: go on.
 * False: stop with *result, after --help (done) or an error. */
bool options_parse(const command_syntax *syntax, int argc, char **argv, common_options *common, const char **operand, outcome *result);

/* The entry of `names` nearest to what was typed; NULL if none is near. */
const char *options_nearest(const char *typed, const char *const *names, size_t num_names);

/* A whole number in min ... max and nothing else around it; otherwise an error line "LABEL TEXT: must be at least 1". */
outcome options_number(const char *command, const char *label, const char *text, int64_t min, int64_t max, int64_t *value);

/* The same for a decimal number, 0 or one that is positive and normal as a float: "2.5", "1e-20". */
outcome options_float(const char *command, const char *label, const char *text, float *value);

#endif
