/* fuzz_npy.c - libFuzzer: any bytes as a .npy file. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"
#include "npy.h"

#include <sys/mman.h>
#include <unistd.h>

static int file;
static char path[64];

static void put(const void *data, size_t bytes) {
    fuzz_check(ftruncate(file, 0) == 0 && pwrite(file, data, bytes, 0) == (ssize_t)bytes, "the file can't be written");
}

/* The bytes that an array's file has, from its first bytes alone and from what was read. */
static size_t size_of(const uint8_t *data, const npy_array *array) {
    const size_t start_bytes = data[6] == 1 ? 10 : 12;
    const size_t text_bytes =
        data[6] == 1 ? data[8] + 256u * data[9] : data[8] + ((size_t)data[9] << 8) + ((size_t)data[10] << 16) + ((size_t)data[11] << 24);
    return start_bytes + text_bytes + array->num_items * array->item_bytes;
}

static void check_shape(const npy_array *array) {
    size_t num_items = 1;
    bool is_empty = false, is_too_many = false;
    fuzz_check(array->num_dims <= NPY_MAX_DIMS, "%u dimensions", array->num_dims);
    for (uint32_t d = 0; d < array->num_dims; ++d) {
        is_empty = is_empty || array->shape[d] == 0;
        is_too_many = is_too_many || __builtin_mul_overflow(num_items, array->shape[d], &num_items);
    }
    fuzz_check(is_empty || !is_too_many, "more items than any memory");
    fuzz_check((is_empty ? 0 : num_items) == array->num_items, "%zu items, the shape has others", array->num_items);
}

/* What is written from it reads back the same. */
static void check_round_trip(const npy_array *array) {
    char *text = NULL, error[256];
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    fuzz_check(stream != NULL, "no stream");
    fuzz_check(npy_write(stream, array->kind, array->item_bytes, array->num_dims, array->shape, array->data), "npy_write");
    fclose(stream);
    put(text, bytes);
    npy_array again;
    fuzz_check(npy_read(path, &again, error, sizeof error), "what npy_write wrote is refused: %s", error);
    fuzz_check(again.kind == array->kind && again.item_bytes == array->item_bytes && again.num_dims == array->num_dims &&
                   memcmp(again.shape, array->shape, array->num_dims * sizeof *array->shape) == 0 &&
                   memcmp(again.data, array->data, array->num_items * array->item_bytes) == 0,
               "what npy_write wrote reads back differently");
    npy_free(&again);
    free(text);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    file = memfd_create("array", 0);
    fuzz_check(file >= 0, "no file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *error = fuzz_allocate(120), description[24]; /* on the heap: whatever is written behind it is seen */
    npy_array array;
    put(data, bytes);
    if (!npy_read(path, &array, error, 120)) {
        const npy_array none = {0};
        fuzz_check(error[0] != '\0' && strpbrk(error, "\r\n") == NULL, "the error is no line: '%s'", error);
        fuzz_check(memcmp(&array, &none, sizeof none) == 0, "not zero after a failure");
        free(error);
        return 0;
    }
    free(error);
    check_shape(&array);
    fuzz_check(size_of(data, &array) == bytes, "%zu bytes are taken for %zu", bytes, size_of(data, &array));
    npy_describe(&array, description, sizeof description);
    fuzz_check(strlen(description) < sizeof description, "the description is not ended");
    check_round_trip(&array);
    volatile int64_t seen = 0;
    for (size_t i = 0; npy_is_integer(&array) && i < array.num_items; ++i)
        seen = npy_integer(&array, i);
    (void)seen;
    while (array.num_dims > 0 && array.shape[0] > 0) {
        npy_pick(&array, array.shape[0] - 1);
        check_shape(&array);
        const volatile unsigned char *last = (const unsigned char *)array.data + array.num_items * array.item_bytes;
        if (array.num_items > 0)
            (void)last[-1];
    }
    npy_free(&array);
    return 0;
}
