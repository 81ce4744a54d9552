/* npy.h - NumPy's .npy files, read without trusting them.
 *
 * Read: format versions 1, 2, 3; both byte orders; C and Fortran order; bool, integers and floats of 1 to 8 bytes; 0 to 32 dimensions.
 * What is kept in memory is always C order and this machine's byte order. f2 elements are kept as their raw 16 bits.
 * Written: version 1.0, little endian, C order, data at a multiple of 64 bytes.
 */
#ifndef CLMOE_CLI_NPY_H
#define CLMOE_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NPY_MAX_DIMS 32

typedef struct npy_array {
    char kind;           /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float */
    uint32_t item_bytes; /* 1, 2, 4 or 8 */
    uint32_t num_dims;
    size_t shape[NPY_MAX_DIMS];
    size_t num_items;
    void *data;   /* first item, C order; NULL only after npy_free */
    void *memory; /* what npy_free releases */
} npy_array;

/* Reads a whole file. On failure: false, one line of text in error, and *array is all zero. Nothing is allocated before the sizes that
 * the header claims have been checked against the size of the file. */
bool npy_read(const char *path, npy_array *array, char *error, size_t error_bytes);

/* Writes header and items to a file open for writing. False if the stream failed; errno tells why. */
bool npy_write(FILE *file, char kind, uint32_t item_bytes, uint32_t num_dims, const size_t *shape, const void *data);

/* Zero and an array that failed to read are fine. */
void npy_free(npy_array *array);

/* Fixes the first index: a [24][64][4] array becomes its [64][4] part. The caller has checked num_dims and index. */
void npy_pick(npy_array *array, size_t index);

bool npy_is_integer(const npy_array *array);

/* Item of an integer or bool array. Unsigned values beyond INT64_MAX give INT64_MAX. */
int64_t npy_integer(const npy_array *array, size_t item);

/* "int32 (64, 4)", for messages; cut to fit. */
void npy_describe(const npy_array *array, char *text, size_t text_bytes);

#endif
