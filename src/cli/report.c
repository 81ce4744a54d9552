#define _POSIX_C_SOURCE 200809L
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_line(const char *command, const char *format, va_list arguments) {
    char text[4096];
    vsnprintf(text, sizeof text, format, arguments);
    size_t length = strlen(text);
    while (length > 0 && strchr(" \r\n", text[length - 1])) {
        text[--length] = 0;
    }
    fprintf(stderr, "clmoe%s%s: ", command ? " " : "", command ? command : "");
    for (const char *line = text; *line;) {
        const size_t bytes = strcspn(line, "\r\n");
        fwrite(line, 1, bytes, stderr);
        line += bytes;
        line += strspn(line, "\r\n");
        if (*line) {
            line += strspn(line, " ");
            fputs("; ", stderr);
        }
    }
    fputc('\n', stderr);
}

outcome report_error(const char *command, outcome result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(command, format, arguments);
    va_end(arguments);
    return result;
}

void report_note(const char *command, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(command, format, arguments);
    va_end(arguments);
}

report_style report_style_of(FILE *stream) {
    static const report_style colours = {"\033[1m", "\033[32m", "\033[31m", "\033[2m", "\033[0m"};
    static const report_style none = {"", "", "", "", ""};
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    const bool welcome = isatty(fileno(stream)) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
    return welcome ? colours : none;
}

outcome report_finish(const char *command) {
    const bool failed_before = ferror(stdout) != 0;
    errno = 0;
    if ((fflush(stdout) != 0 || failed_before) && errno != EPIPE) {
        return report_error(command, OUTCOME_BAD_INPUT, "standard output can't be written: %s", errno ? strerror(errno) : "write error");
    }
    return OUTCOME_DONE;
}

void report_bytes(uint64_t bytes, char *text, size_t text_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    if (bytes == 0) {
        snprintf(text, text_bytes, "-");
    } else {
        /* Whole numbers look like whole numbers: "48 KiB", but "5.3 GiB". */
        const bool whole = value >= 100 || value - floor(value) < 0.05;
        snprintf(text, text_bytes, "%.*f %s", whole ? 0 : 1, value, units[unit]);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at `text`, 0 if it is none: driver strings may hold anything. */
static size_t utf8_length(const unsigned char *text) {
    const size_t length = text[0] < 0x80 ? 1 : text[0] >= 0xc2 && text[0] < 0xe0 ? 2 : (text[0] & 0xf0) == 0xe0 ? 3 : 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

static void write_string(FILE *stream, const char *value) {
    fputc('"', stream);
    for (const unsigned char *at = (const unsigned char *)value; *at;) {
        const size_t length = utf8_length(at);
        if (length == 0) {
            fputs("\\ufffd", stream);
        } else if (*at < ' ' || *at == 0x7f) {
            fprintf(stream, "\\u%04x", *at);
        } else if (*at == '"' || *at == '\\') {
            fprintf(stream, "\\%c", *at);
        } else {
            fwrite(at, 1, length, stream);
        }
        at += length ? length : 1;
    }
    fputc('"', stream);
}

static void begin_value(report_json *json, const char *key) {
    if (json->depth > 0) {
        fprintf(json->stream, "%s\n%*s", json->needs_comma ? "," : "", 2 * json->depth, "");
    }
    if (key) {
        write_string(json->stream, key);
        fputs(": ", json->stream);
    }
    json->needs_comma = true;
}

void json_open(report_json *json, const char *key, char bracket) {
    begin_value(json, key);
    fputc(bracket, json->stream);
    json->depth++;
    json->needs_comma = false;
}

void json_close(report_json *json, char bracket) {
    json->depth--;
    if (json->needs_comma) {
        fprintf(json->stream, "\n%*s", 2 * json->depth, "");
    }
    fputc(bracket, json->stream);
    json->needs_comma = true;
    if (json->depth == 0) {
        fputc('\n', json->stream);
    }
}

void json_text(report_json *json, const char *key, const char *value) {
    begin_value(json, key);
    write_string(json->stream, value);
}

void json_integer(report_json *json, const char *key, int64_t value) {
    begin_value(json, key);
    fprintf(json->stream, "%" PRId64, value);
}

static void write_number(FILE *stream, double value) {
    if (isfinite(value)) {
        fprintf(stream, "%.6g", value);
    } else {
        fputs("null", stream);
    }
}

void json_number(report_json *json, const char *key, double value) {
    begin_value(json, key);
    write_number(json->stream, value);
}

void json_numbers(report_json *json, const char *key, const double *values, size_t num_values) {
    begin_value(json, key);
    fputc('[', json->stream);
    for (size_t i = 0; i < num_values; i++) {
        fputs(i ? ", " : "", json->stream);
        write_number(json->stream, values[i]);
    }
    fputc(']', json->stream);
}

void json_bool(report_json *json, const char *key, bool value) {
    begin_value(json, key);
    fputs(value ? "true" : "false", json->stream);
}
