/* report.h - what the program says: errors and notes on stderr, tables and JSON on stdout. */
#ifndef CLMOE_CLI_REPORT_H
#define CLMOE_CLI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define REPORT_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define REPORT_PRINTF(format_at, first_at)
#endif

/* The exit codes. Whoever returns anything but DONE has already said why. */
typedef enum outcome {
    OUTCOME_DONE = 0,
    OUTCOME_CHECK_FAILED = 1,
    OUTCOME_BAD_INPUT = 2, /* usage, input, or an output that can't be written */
    OUTCOME_DEVICE_FAILED = 3
} outcome;

/* "clmoe align: TEXT" as one line on stderr; line breaks inside become "; ". Returns `result`, so that a failure is one statement. */
outcome report_error(const char *command, outcome result, const char *format, ...) REPORT_PRINTF(3, 4);

/* The same for what is no failure: warnings, and the lines of -v. */
void report_note(const char *command, const char *format, ...) REPORT_PRINTF(2, 3);

/* Escape codes where they are welcome: a terminal, no NO_COLOR, TERM not "dumb". Elsewhere "". */
typedef struct report_style {
    const char *bold;
    const char *good;
    const char *bad;
    const char *faint;
    const char *plain;
} report_style;

report_style report_style_of(FILE *stream);

/* Flushes stdout. A reader that left early (a closed pipe) had enough: that is no failure. */
outcome report_finish(const char *command);

/* "5.3 GiB", "48 KiB"; "-" for 0. */
void report_bytes(uint64_t bytes, char *text, size_t text_bytes);

/* Indented JSON on a stream. The key is NULL inside an array and for the outermost value. */
typedef struct report_json {
    FILE *stream;
    int depth;
    bool needs_comma;
} report_json;

void json_open(report_json *json, const char *key, char bracket); /* '{' or '[' */
void json_close(report_json *json, char bracket);                 /* '}' or ']' */
void json_text(report_json *json, const char *key, const char *value);
void json_integer(report_json *json, const char *key, int64_t value);
void json_number(report_json *json, const char *key, double value); /* not finite: null */
void json_bool(report_json *json, const char *key, bool value);
void json_numbers(report_json *json, const char *key, const double *values, size_t num_values); /* an array in one line */

#endif
