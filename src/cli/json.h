/* json.h - JSON read strictly (RFC 8259) and without trusting it: bounded depth, no duplicate keys, valid UTF-8, nothing behind the end. */
#ifndef CLMOE_CLI_JSON_H
#define CLMOE_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>

enum { JSON_MAX_DEPTH = 32, JSON_MAX_BYTES = 256 << 20 };

typedef enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json_value {
    json_kind kind;
    bool truth;
    double number;
    const char *key;          /* of a member of an object; else NULL */
    const char *text;         /* JSON_TEXT, ended by 0: U+0000 is refused */
    struct json_value *next;  /* sibling */
    struct json_value *first; /* child */
    size_t num_children;
} json_value;

typedef struct json_document {
    json_value *root;
    void *blocks; /* all memory */
} json_document;

/* Reads a whole file. On failure: false, and one line in error, with the place. */
bool json_read(const char *path, json_document *document, char *error, size_t error_bytes);
void json_free(json_document *document);

/* Of an object; NULL if it has none of that name and kind, or is no object. */
const json_value *json_member(const json_value *object, const char *key, json_kind kind);

#endif
