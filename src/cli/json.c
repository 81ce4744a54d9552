#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef JSON_BLOCK_BYTES
#define JSON_BLOCK_BYTES (1 << 20) /* tests take 1: then every piece of memory has an end that a sanitizer sees */
#endif

typedef struct block {
    struct block *next;
    size_t used, bytes;
    max_align_t memory[];
} block;

typedef struct parser {
    json_document *document;
    const char *start, *at, *end;
    char *error;
    size_t error_bytes;
    int depth;
} parser;

/* ---- Memory and errors ---------------------------------------------------------------------------------------------------------- */

static void *reserve(parser *p, size_t bytes) {
    block *newest = p->document->blocks;
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!newest || newest->bytes - newest->used < bytes) {
        const size_t room = bytes > JSON_BLOCK_BYTES ? bytes : JSON_BLOCK_BYTES;
        block *made = malloc(sizeof *made + room);
        if (!made) {
            return NULL;
        }
        made->next = newest;
        made->used = 0;
        made->bytes = room;
        p->document->blocks = newest = made;
    }
    void *memory = (char *)newest->memory + newest->used;
    newest->used += bytes;
    return memory;
}

/* "line 3, column 7: REASON" for the place that is read now. */
static bool fail(parser *p, const char *reason) {
    size_t line = 1, column = 1;
    for (const char *at = p->start; at < p->at; at++) {
        line += *at == '\n';
        column = *at == '\n' ? 1 : column + 1;
    }
    snprintf(p->error, p->error_bytes, "line %zu, column %zu: %s", line, column, reason);
    return false;
}

static bool no_memory(parser *p) {
    return fail(p, "no memory");
}

/* ---- Tokens --------------------------------------------------------------------------------------------------------------------- */

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) {
        p->at++;
    }
}

static bool is_next(parser *p, char c) {
    return p->at < p->end && *p->at == c;
}

static bool take(parser *p, char c) {
    const bool is_there = is_next(p, c);
    p->at += is_there;
    return is_there;
}

static bool take_word(parser *p, const char *word) {
    const size_t length = strlen(word);
    const bool is_there = (size_t)(p->end - p->at) >= length && memcmp(p->at, word, length) == 0;
    p->at += is_there ? length : 0;
    return is_there;
}

static size_t take_digits(parser *p) {
    const char *first = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        p->at++;
    }
    return (size_t)(p->at - first);
}

static bool parse_number(parser *p, json_value *value) {
    const char *first = p->at;
    char text[64];
    take(p, '-');
    const char *integer = p->at;
    const size_t num_digits = take_digits(p);
    bool is_good = num_digits > 0 && (*integer != '0' || num_digits == 1);
    if (is_good && take(p, '.')) {
        is_good = take_digits(p) > 0;
    }
    if (is_good && (take(p, 'e') || take(p, 'E'))) {
        if (!take(p, '+')) {
            take(p, '-');
        }
        is_good = take_digits(p) > 0;
    }
    const size_t length = (size_t)(p->at - first);
    if (!is_good || length >= sizeof text) {
        p->at = first;
        return fail(p, is_good ? "a number of too many digits" : "not a number");
    }
    memcpy(text, first, length);
    text[length] = 0;
    value->kind = JSON_NUMBER;
    value->number = strtod(text, NULL);
    return isfinite(value->number) ? true : fail(p, "a number that is too large");
}

/* Four hexadecimal digits; -1 if they are not there. */
static long take_hex(parser *p) {
    long code = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        const char c = p->at < p->end ? *p->at : 0;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) {
            return -1;
        }
        code = 16 * code + digit;
    }
    return code;
}

static char *put_utf8(char *to, long code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int num_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const int leads[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(leads[num_more] | code >> 6 * num_more);
    for (int i = num_more - 1; i >= 0; i--) {
        *to++ = (char)(0x80 | (code >> 6 * i & 0x3f));
    }
    return to;
}

/* What follows a backslash. */
static bool parse_escape(parser *p, char **to) {
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char c = p->at < p->end ? *p->at : 0;
    const char *known = c ? strchr(plain, c) : NULL;
    if (known) {
        p->at++;
        *(*to)++ = meant[known - plain];
        return true;
    }
    if (!take(p, 'u')) {
        return fail(p, "no such escape");
    }
    long code = take_hex(p);
    if (code >= 0xd800 && code < 0xdc00 && take_word(p, "\\u")) {
        const long low = take_hex(p);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    }
    if (code <= 0 || (code >= 0xd800 && code < 0xe000)) {
        return fail(p, code == 0 ? "\\u0000 in a text" : "\\u without the four digits of a character");
    }
    *to = put_utf8(*to, code);
    return true;
}

/* Bytes of the UTF-8 character that is next; 0 if there is none. */
static size_t utf8_length(const parser *p) {
    const unsigned char *at = (const unsigned char *)p->at;
    const size_t left = (size_t)(p->end - p->at);
    const size_t length = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >= 0xe0 && at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > left || (at[0] >= 0x80 && at[0] < 0xc2)) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool is_bad = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf0 && at[1] < 0x90) ||
                        (at[0] == 0xf4 && at[1] > 0x8f);
    return is_bad ? 0 : length;
}

/* Behind the opening quote. An escape is never shorter than what it stands for, so the text fits where it stood. */
static bool parse_text(parser *p, const char **text) {
    const char *closing = p->at;
    while (closing < p->end && *closing != '"') {
        closing += *closing == '\\' && closing + 1 < p->end ? 2 : 1;
    }
    char *made = reserve(p, (size_t)(closing - p->at) + 1), *to = made;
    if (!made) {
        return no_memory(p);
    }
    *text = made;
    while (p->at < p->end) {
        if (take(p, '"')) {
            *to = 0;
            return true;
        }
        if (take(p, '\\')) {
            if (!parse_escape(p, &to)) {
                return false;
            }
            continue;
        }
        const size_t length = utf8_length(p);
        if (length == 0 || (unsigned char)*p->at < ' ') {
            return fail(p, length == 0 ? "a byte that is no UTF-8" : "a control character in a text");
        }
        memcpy(to, p->at, length);
        to += length;
        p->at += length;
    }
    return fail(p, "the end of the file inside a text");
}

/* ---- Values --------------------------------------------------------------------------------------------------------------------- */

static bool parse_value(parser *p, json_value *value);

static bool parse_key(parser *p, const json_value *object, const char **key) {
    skip_space(p);
    const char *first = p->at;
    if (!take(p, '"')) {
        return fail(p, "a key in quotes was expected");
    }
    if (!parse_text(p, key)) {
        return false;
    }
    for (const json_value *child = object->first; child; child = child->next) {
        if (strcmp(child->key, *key) == 0) {
            p->at = first;
            return fail(p, "the same key a second time");
        }
    }
    skip_space(p);
    return take(p, ':') ? true : fail(p, "':' was expected");
}

static bool parse_children(parser *p, json_value *parent, char closing) {
    json_value **link = &parent->first;
    if (++p->depth > JSON_MAX_DEPTH) {
        return fail(p, "nested too deeply");
    }
    skip_space(p);
    while (!take(p, closing)) {
        if (parent->num_children > 0 && !take(p, ',')) {
            return fail(p, closing == '}' ? "',' or '}' was expected" : "',' or ']' was expected");
        }
        const char *key = NULL;
        if (closing == '}' && !parse_key(p, parent, &key)) {
            return false;
        }
        json_value *child = reserve(p, sizeof *child);
        if (!child) {
            return no_memory(p);
        }
        if (!parse_value(p, child)) {
            return false;
        }
        child->key = key;
        *link = child;
        link = &child->next;
        parent->num_children++;
        skip_space(p);
    }
    p->depth--;
    return true;
}

static bool parse_value(parser *p, json_value *value) {
    memset(value, 0, sizeof *value);
    skip_space(p);
    if (take(p, '{')) {
        value->kind = JSON_OBJECT;
        return parse_children(p, value, '}');
    }
    if (take(p, '[')) {
        value->kind = JSON_ARRAY;
        return parse_children(p, value, ']');
    }
    if (take(p, '"')) {
        value->kind = JSON_TEXT;
        return parse_text(p, &value->text);
    }
    if (take_word(p, "null")) {
        value->kind = JSON_NULL;
        return true;
    }
    value->truth = take_word(p, "true");
    if (value->truth || take_word(p, "false")) {
        value->kind = JSON_BOOL;
        return true;
    }
    if (is_next(p, '-') || (p->at < p->end && *p->at >= '0' && *p->at <= '9')) {
        return parse_number(p, value);
    }
    return fail(p, p->at < p->end ? "a value was expected" : "the file ends where a value was expected");
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------------- */

/* NULL with an error. Read piece by piece: the file may be a pipe. */
static char *read_file(const char *path, size_t *bytes, char *error, size_t error_bytes) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t capacity = 1 << 16, used = 0, got = 1;
    errno = file ? 0 : errno;
    while (file && got > 0 && used <= JSON_MAX_BYTES) {
        capacity *= used + 1 >= capacity || !text ? 2 : 1;
        char *longer = realloc(text, capacity);
        if (!longer) {
            break;
        }
        text = longer;
        got = fread(text + used, 1, capacity - used, file);
        used += got;
    }
    const bool is_whole = file && got == 0 && !ferror(file) && text;
    if (!is_whole) {
        snprintf(error, error_bytes, "%s", used > JSON_MAX_BYTES ? "longer than 256 MiB" : errno ? strerror(errno) : "can't be read");
        free(text);
        text = NULL;
    }
    if (file) {
        fclose(file);
    }
    *bytes = used;
    return text;
}

bool json_read(const char *path, json_document *document, char *error, size_t error_bytes) {
    size_t bytes = 0;
    memset(document, 0, sizeof *document);
    char *text = read_file(path, &bytes, error, error_bytes);
    if (!text) {
        return false;
    }
    parser p = {document, text, text, text + bytes, error, error_bytes, 0};
    document->root = reserve(&p, sizeof *document->root);
    bool is_good = document->root ? parse_value(&p, document->root) : no_memory(&p);
    skip_space(&p);
    if (is_good && p.at < p.end) {
        is_good = fail(&p, "more behind the end");
    }
    free(text);
    if (!is_good) {
        json_free(document);
    }
    return is_good;
}

void json_free(json_document *document) {
    for (block *b = document->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    memset(document, 0, sizeof *document);
}

const json_value *json_member(const json_value *object, const char *key, json_kind kind) {
    for (const json_value *child = object && object->kind == JSON_OBJECT ? object->first : NULL; child; child = child->next) {
        if (strcmp(child->key, key) == 0) {
            return child->kind == kind ? child : NULL;
        }
    }
    return NULL;
}
