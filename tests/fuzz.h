/* fuzz.h - what the fuzz targets share: numbers from the input, memory, and failing. */
#ifndef CLMOE_TESTS_FUZZ_H
#define CLMOE_TESTS_FUZZ_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What is left of an input; behind its end there are zeros. */
typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;

static inline uint32_t fuzz_u8(fuzz_input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static inline uint32_t fuzz_u16(fuzz_input *in) {
    const uint32_t low = fuzz_u8(in);
    return low | fuzz_u8(in) << 8;
}

/* Ends the process the way libFuzzer takes for a find. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void fuzz_fail(const char *format, ...) {
    va_list values;
    va_start(values, format);
    dprintf(2, "fuzz: "); /* a target may have closed stderr */
    vdprintf(2, format, values);
    dprintf(2, "\n");
    va_end(values);
    abort();
}

#define fuzz_check(is_right, ...) ((is_right) ? (void)0 : fuzz_fail(__VA_ARGS__))

/* Never NULL, also for no bytes. */
static inline void *fuzz_allocate(size_t bytes) {
    void *memory = malloc(bytes);
    return memory != NULL ? memory : (fuzz_fail("no memory for %zu bytes", bytes), NULL);
}

#endif
