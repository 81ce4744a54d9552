#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

enum { MAX_HEADER_BYTES = 65536, DATA_ALIGNMENT = 64 };

typedef struct header {
    npy_array array; /* without data */
    bool big_endian;
    bool fortran_order;
} header;

/* A place in the header's text, and where to say what is wrong with it. */
typedef struct parser {
    const char *at;
    const char *end;
    char *error;
    size_t error_bytes;
} parser;

__attribute__((format(printf, 3, 4))) static bool refuse(char *error, size_t error_bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, error_bytes, format, arguments);
    va_end(arguments);
    return false;
}

static bool host_is_big_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 0;
}

static void swap_bytes(void *data, size_t num_items, uint32_t item_bytes) {
    unsigned char *item = data;
    for (size_t i = 0; i < num_items; i++, item += item_bytes) {
        for (uint32_t low = 0, high = item_bytes - 1; low < high; low++, high--) {
            const unsigned char kept = item[low];
            item[low] = item[high];
            item[high] = kept;
        }
    }
}

/* ---- Header: a Python dict of three keys, and nothing else ---------------------------------------------------------------------- */

static void skip_blanks(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) {
        p->at++;
    }
}

static bool accept_char(parser *p, char wanted) {
    skip_blanks(p);
    if (p->at == p->end || *p->at != wanted) {
        return false;
    }
    p->at++;
    return true;
}

static bool expect_char(parser *p, char wanted) {
    return accept_char(p, wanted) || refuse(p->error, p->error_bytes, "header: '%c' is missing", wanted);
}

/* A quoted string without escapes; header strings never need one. */
static bool parse_string(parser *p, char *text, size_t text_bytes) {
    skip_blanks(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) {
        return refuse(p->error, p->error_bytes, "header: a quoted string is missing");
    }
    const char quote = *p->at++;
    size_t length = 0;
    while (p->at < p->end && *p->at != quote) {
        const unsigned char c = (unsigned char)*p->at++;
        if (c < ' ' || c > '~' || c == '\\' || length + 1 >= text_bytes) {
            return refuse(p->error, p->error_bytes, "header: a string is too long or holds an odd character");
        }
        text[length++] = (char)c;
    }
    text[length] = 0;
    return expect_char(p, quote);
}

static bool parse_descr(parser *p, header *h) {
    skip_blanks(p);
    if (p->at < p->end && (*p->at == '[' || *p->at == '(' || *p->at == '{')) {
        return refuse(p->error, p->error_bytes, "structured element types are not read");
    }
    char text[32];
    if (!parse_string(p, text, sizeof text)) {
        return false;
    }
    const bool shaped = strlen(text) == 3 && strchr("<>|=", text[0]) && strchr("biuf", text[1]) && strchr("1248", text[2]);
    const uint32_t item_bytes = shaped ? (uint32_t)(text[2] - '0') : 0;
    const bool known = shaped && !(text[1] == 'b' && item_bytes != 1) && !(text[1] == 'f' && item_bytes == 1);
    if (!known || (text[0] == '|' && item_bytes != 1)) {
        return refuse(p->error, p->error_bytes, "element type '%s' is none of bool, i1 i2 i4 i8, u1 u2 u4 u8, f2 f4 f8 with a byte order",
                      text);
    }
    h->array.kind = text[1];
    h->array.item_bytes = item_bytes;
    h->big_endian = text[0] == '>' || (text[0] == '=' && host_is_big_endian());
    return true;
}

static bool parse_order(parser *p, header *h) {
    static const char yes[] = "True", no[] = "False";
    skip_blanks(p);
    const size_t left = (size_t)(p->end - p->at);
    h->fortran_order = left >= strlen(yes) && memcmp(p->at, yes, strlen(yes)) == 0;
    if (!h->fortran_order && (left < strlen(no) || memcmp(p->at, no, strlen(no)) != 0)) {
        return refuse(p->error, p->error_bytes, "header: fortran_order is neither True nor False");
    }
    p->at += h->fortran_order ? strlen(yes) : strlen(no);
    return true;
}

/* "()", "(3,)", "(2, 3)", "(2, 3, )"; "(3)" is a number in Python, not a shape. */
static bool parse_shape(parser *p, header *h) {
    bool comma = true;
    if (!expect_char(p, '(')) {
        return false;
    }
    while (!accept_char(p, ')')) {
        size_t size = 0;
        if (!comma || p->at == p->end || *p->at < '0' || *p->at > '9') {
            return refuse(p->error, p->error_bytes, "header: the shape is not a tuple of sizes");
        }
        for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
            const size_t digit = (size_t)(*p->at - '0');
            if (size > (SIZE_MAX - digit) / 10) {
                return refuse(p->error, p->error_bytes, "header: a size in the shape is too large");
            }
            size = size * 10 + digit;
        }
        if (h->array.num_dims == NPY_MAX_DIMS) {
            return refuse(p->error, p->error_bytes, "more than %d dimensions", NPY_MAX_DIMS);
        }
        h->array.shape[h->array.num_dims++] = size;
        comma = accept_char(p, ',');
    }
    return (h->array.num_dims != 1 || comma) || refuse(p->error, p->error_bytes, "header: the shape is not a tuple of sizes");
}

static bool parse_header(parser *p, header *h) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    bool (*const parse_value[])(parser *, header *) = {parse_descr, parse_order, parse_shape};
    bool seen[3] = {false, false, false};
    bool comma = true;
    if (!expect_char(p, '{')) {
        return false;
    }
    while (!accept_char(p, '}')) {
        char text[32];
        size_t key = 0;
        if (!comma) {
            return refuse(p->error, p->error_bytes, "header: ',' is missing");
        }
        if (!parse_string(p, text, sizeof text)) {
            return false;
        }
        while (key < 3 && strcmp(keys[key], text) != 0) {
            key++;
        }
        if (key == 3 || seen[key]) {
            return refuse(p->error, p->error_bytes, "header: key '%s' is %s", text, key == 3 ? "unknown" : "there twice");
        }
        seen[key] = true;
        if (!expect_char(p, ':') || !parse_value[key](p, h)) {
            return false;
        }
        comma = accept_char(p, ',');
    }
    for (size_t key = 0; key < 3; key++) {
        if (!seen[key]) {
            return refuse(p->error, p->error_bytes, "header: key '%s' is missing", keys[key]);
        }
    }
    skip_blanks(p);
    return p->at == p->end || refuse(p->error, p->error_bytes, "header: something follows the closing '}'");
}

/* ---- Reading -------------------------------------------------------------------------------------------------------------------- */

/* Items of the shape, and their bytes; false if that overflows. A shape with a 0 in it has none, however large the rest. */
static bool count_items(npy_array *array, size_t *num_bytes) {
    array->num_items = 1;
    for (uint32_t d = 0; d < array->num_dims; d++) {
        if (array->shape[d] == 0) {
            array->num_items = 0;
            *num_bytes = 0;
            return true;
        }
    }
    for (uint32_t d = 0; d < array->num_dims; d++) {
        if (array->num_items > SIZE_MAX / array->shape[d]) {
            return false;
        }
        array->num_items *= array->shape[d];
    }
    *num_bytes = array->num_items * array->item_bytes;
    return array->num_items <= SIZE_MAX / array->item_bytes;
}

/* Fortran order to C order: walks the items as they must stand and fetches each from where it stands now. */
static bool reorder(npy_array *array) {
    size_t index[NPY_MAX_DIMS] = {0}, step[NPY_MAX_DIMS], source = 0, next_step = 1;
    unsigned char *ordered = malloc(array->num_items * array->item_bytes);
    if (!ordered) {
        return false;
    }
    for (uint32_t d = 0; d < array->num_dims; d++) {
        step[d] = next_step;
        next_step *= array->shape[d];
    }
    for (size_t item = 0; item < array->num_items; item++) {
        memcpy(ordered + item * array->item_bytes, (const unsigned char *)array->data + source * array->item_bytes, array->item_bytes);
        for (uint32_t d = array->num_dims; d-- > 0;) {
            source += step[d];
            if (++index[d] < array->shape[d]) {
                break;
            }
            source -= step[d] * index[d];
            index[d] = 0;
        }
    }
    free(array->memory);
    array->data = array->memory = ordered;
    return true;
}

static bool read_header(FILE *file, uint64_t file_bytes, header *h, uint64_t *data_start, char *error, size_t error_bytes) {
    unsigned char start[12];
    char text[MAX_HEADER_BYTES];
    if (file_bytes < 10 || fread(start, 1, 10, file) != 10 || memcmp(start, magic, sizeof magic) != 0) {
        return refuse(error, error_bytes, "not a .npy file%s", file_bytes < 10 ? ": too short" : "");
    }
    if (start[6] < 1 || start[6] > 3) {
        return refuse(error, error_bytes, ".npy format version %d is not 1, 2 or 3", start[6]);
    }
    const bool wide = start[6] > 1;
    if (wide && (file_bytes < 12 || fread(start + 10, 1, 2, file) != 2)) {
        return refuse(error, error_bytes, "not a .npy file: too short");
    }
    const uint64_t text_bytes =
        (uint64_t)start[8] | (uint64_t)start[9] << 8 | (wide ? (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24 : 0);
    *data_start = (wide ? 12 : 10) + text_bytes;
    if (text_bytes > sizeof text) {
        return refuse(error, error_bytes, "header of %" PRIu64 " bytes is longer than %d", text_bytes, MAX_HEADER_BYTES);
    }
    if (*data_start > file_bytes || fread(text, 1, (size_t)text_bytes, file) != text_bytes) {
        return refuse(error, error_bytes, "the file ends inside its header");
    }
    parser p = {text, text + text_bytes, error, error_bytes};
    return parse_header(&p, h);
}

static bool read_array(FILE *file, npy_array *array, char *error, size_t error_bytes) {
    struct stat status;
    header h = {{0}, false, false};
    uint64_t data_start = 0;
    size_t num_bytes = 0;
    if (fstat(fileno(file), &status) != 0) {
        return refuse(error, error_bytes, "%s", strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse(error, error_bytes, S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file; pipes are not read");
    }
    if (!read_header(file, (uint64_t)status.st_size, &h, &data_start, error, error_bytes)) {
        return false;
    }
    const uint64_t found_bytes = (uint64_t)status.st_size - data_start;
    if (!count_items(&h.array, &num_bytes)) {
        return refuse(error, error_bytes, "the shape holds more items than any memory");
    }
    if (num_bytes != found_bytes) {
        return refuse(error, error_bytes, "data is %s: expected %zu bytes, found %" PRIu64, num_bytes > found_bytes ? "short" : "too long",
                      num_bytes, found_bytes);
    }
    h.array.data = h.array.memory = malloc(num_bytes ? num_bytes : 1);
    if (!h.array.data) {
        return refuse(error, error_bytes, "no memory for %zu bytes", num_bytes);
    }
    *array = h.array;
    const size_t read_bytes = fread(array->data, 1, num_bytes, file);
    if (read_bytes != num_bytes) {
        return refuse(error, error_bytes, "data is short: expected %zu bytes, found %zu", num_bytes, read_bytes);
    }
    if (h.big_endian != host_is_big_endian()) {
        swap_bytes(array->data, array->num_items, array->item_bytes);
    }
    const bool reordered = !h.fortran_order || array->num_dims < 2 || array->num_items == 0 || reorder(array);
    return reordered || refuse(error, error_bytes, "no memory for %zu bytes", num_bytes);
}

bool npy_read(const char *path, npy_array *array, char *error, size_t error_bytes) {
    memset(array, 0, sizeof *array);
    FILE *file = fopen(path, "rb");
    if (!file) {
        return refuse(error, error_bytes, "%s", strerror(errno));
    }
    const bool done = read_array(file, array, error, error_bytes);
    fclose(file);
    if (!done) {
        npy_free(array);
    }
    return done;
}

void npy_free(npy_array *array) {
    free(array->memory);
    memset(array, 0, sizeof *array);
}

/* ---- Writing -------------------------------------------------------------------------------------------------------------------- */

bool npy_write(FILE *file, char kind, uint32_t item_bytes, uint32_t num_dims, const size_t *shape, const void *data) {
    char text[1024];
    const size_t prefix_bytes = sizeof magic + 4;
    size_t num_items = 1;
    int length = snprintf(text, sizeof text, "{'descr': '%c%c%" PRIu32 "', 'fortran_order': False, 'shape': (", item_bytes == 1 ? '|' : '<',
                          kind, item_bytes);
    for (uint32_t d = 0; d < num_dims; d++) {
        num_items *= shape[d];
        length += snprintf(text + length, sizeof text - (size_t)length, d == 0 ? "%zu," : " %zu,", shape[d]);
    }
    /* "(3,)" keeps its comma, "(2, 3)" does not. */
    length += snprintf(text + length - (num_dims > 1), sizeof text - (size_t)length, "), }") - (num_dims > 1);
    const size_t total = (prefix_bytes + (size_t)length + 1 + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    const size_t text_bytes = total - prefix_bytes;
    memset(text + length, ' ', text_bytes - (size_t)length);
    text[text_bytes - 1] = '\n';

    const unsigned char version_and_size[4] = {1, 0, (unsigned char)(text_bytes & 0xff), (unsigned char)(text_bytes >> 8)};
    bool done = fwrite(magic, 1, sizeof magic, file) == sizeof magic && fwrite(version_and_size, 1, 4, file) == 4 &&
                fwrite(text, 1, text_bytes, file) == text_bytes;
    if (!host_is_big_endian()) {
        return done && (num_items == 0 || fwrite(data, item_bytes, num_items, file) == num_items);
    }
    for (size_t item = 0; done && item < num_items; item++) {
        unsigned char bytes[8];
        memcpy(bytes, (const unsigned char *)data + item * item_bytes, item_bytes);
        swap_bytes(bytes, 1, item_bytes);
        done = fwrite(bytes, item_bytes, 1, file) == 1;
    }
    return done;
}

/* ---- Access --------------------------------------------------------------------------------------------------------------------- */

void npy_pick(npy_array *array, size_t index) {
    const size_t part_items = array->num_items / array->shape[0];
    array->data = (unsigned char *)array->data + index * part_items * array->item_bytes;
    array->num_items = part_items;
    array->num_dims--;
    memmove(array->shape, array->shape + 1, array->num_dims * sizeof array->shape[0]);
}

bool npy_is_integer(const npy_array *array) {
    return array->kind == 'i' || array->kind == 'u';
}

int64_t npy_integer(const npy_array *array, size_t item) {
    const unsigned char *at = (const unsigned char *)array->data + item * array->item_bytes;
    const bool is_signed = array->kind == 'i';
    uint64_t bits = 0;
    switch (array->item_bytes) {
    case 1: bits = is_signed ? (uint64_t)(int64_t)(signed char)*at : *at; break;
    case 2: {
        uint16_t value;
        memcpy(&value, at, sizeof value);
        bits = is_signed ? (uint64_t)(int64_t)(int16_t)value : value;
        break;
    }
    case 4: {
        uint32_t value;
        memcpy(&value, at, sizeof value);
        bits = is_signed ? (uint64_t)(int64_t)(int32_t)value : value;
        break;
    }
    default: memcpy(&bits, at, sizeof bits);
    }
    return !is_signed && bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}

void npy_describe(const npy_array *array, char *text, size_t text_bytes) {
    const char *name = array->kind == 'b' ? "bool" : array->kind == 'i' ? "int" : array->kind == 'u' ? "uint" : "float";
    int length = snprintf(text, text_bytes, "%s", name);
    if (array->kind != 'b') {
        length += snprintf(text + length, text_bytes - (size_t)length, "%" PRIu32, array->item_bytes * 8);
    }
    length += snprintf(text + length, text_bytes - (size_t)length, " (");
    for (uint32_t d = 0; d < array->num_dims && (size_t)length + 32 < text_bytes; d++) {
        length += snprintf(text + length, text_bytes - (size_t)length, d == 0 ? "%zu" : ", %zu", array->shape[d]);
    }
    snprintf(text + length, text_bytes - (size_t)length, array->num_dims == 1 ? ",)" : ")");
}
