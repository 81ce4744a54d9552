#include "oracle_primitives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t oracle_type_bytes(clmoe_type type) {
    static const size_t bytes[] = {4, 4, 4, 8, 8, 2, 2, 1, 1};
    return bytes[type];
}

/* ---- Histogram ------------------------------------------------------------------------------------------------------------------ */
/* The bin of a sample, or -1 if it has none. */
static int64_t bin_of(clmoe_type type, const void *samples, size_t i, uint32_t num_bins) {
    int64_t value = -1;
    switch (type) {
    case CLMOE_TYPE_U32: value = ((const uint32_t *)samples)[i]; break;
    case CLMOE_TYPE_I32: value = ((const int32_t *)samples)[i]; break;
    case CLMOE_TYPE_I64: value = ((const int64_t *)samples)[i]; break;
    case CLMOE_TYPE_U16: value = ((const uint16_t *)samples)[i]; break;
    case CLMOE_TYPE_I16: value = ((const int16_t *)samples)[i]; break;
    case CLMOE_TYPE_U8: value = ((const uint8_t *)samples)[i]; break;
    case CLMOE_TYPE_I8: value = ((const int8_t *)samples)[i]; break;
    case CLMOE_TYPE_U64:
        if (((const uint64_t *)samples)[i] < num_bins)
            value = (int64_t)((const uint64_t *)samples)[i];
        break;
    case CLMOE_TYPE_F32: break;
    }
    return value >= 0 && value < (int64_t)num_bins ? value : -1;
}

void oracle_histogram(clmoe_type type, size_t n, const void *samples, uint32_t num_bins, uint32_t *counts, uint32_t *ignored) {
    *ignored = 0;
    for (uint32_t b = 0; b < num_bins; ++b)
        counts[b] = 0;
    for (size_t i = 0; i < n; ++i) {
        const int64_t bin = bin_of(type, samples, i, num_bins);
        if (bin < 0)
            ++*ignored;
        else
            ++counts[bin];
    }
}

/* ---- Scan ----------------------------------------------------------------------------------------------------------------------- */
void oracle_scan(clmoe_type type, clmoe_scan_kind kind, size_t n, const void *input, void *output) {
    uint64_t sum = 0; /* its low half is the sum modulo 2^32 */
    for (size_t i = 0; i < n; ++i) {
        const uint64_t item = type == CLMOE_TYPE_U64 ? ((const uint64_t *)input)[i] : ((const uint32_t *)input)[i];
        const uint64_t result = kind == CLMOE_SCAN_INCLUSIVE ? sum + item : sum;
        sum += item;
        if (type == CLMOE_TYPE_U64)
            ((uint64_t *)output)[i] = result;
        else
            ((uint32_t *)output)[i] = (uint32_t)result;
    }
}

/* ---- Sort ----------------------------------------------------------------------------------------------------------------------- */
static int is_nan(uint32_t bits) {
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* The unsigned integer that has the key's order. For f32: zeros share 2^31, NaNs share 2^32 - 1. */
static uint64_t order_of(clmoe_type type, const void *keys, size_t i) {
    if (type == CLMOE_TYPE_U64)
        return ((const uint64_t *)keys)[i];
    if (type == CLMOE_TYPE_I32)
        return (uint64_t)((int64_t)((const int32_t *)keys)[i] + ((int64_t)1 << 31));
    const uint32_t bits = ((const uint32_t *)keys)[i];
    if (type == CLMOE_TYPE_U32)
        return bits;
    if (is_nan(bits))
        return UINT32_MAX;
    const int64_t magnitude = bits & 0x7fffffffu, zero = (int64_t)1 << 31;
    return (uint64_t)(bits == (uint32_t)magnitude ? zero + magnitude : magnitude == 0 ? zero : zero - 1 - magnitude);
}

/* -1, 0, 1: key a comes before, with, after key b in ascending order. */
static int compare(const clmoe_sort_desc *desc, const void *keys, size_t a, size_t b) {
    const uint32_t bits = oracle_type_bytes(desc->key_type) == 8 ? 64 : 32;
    const int all = desc->begin_bit == 0 && (desc->end_bit == 0 || desc->end_bit == bits);
    if (all && desc->key_type == CLMOE_TYPE_F32) { /* in the words of the header */
        const uint32_t *const raw = keys;
        const float *const value = keys;
        if (is_nan(raw[a]) || is_nan(raw[b]))
            return is_nan(raw[a]) - is_nan(raw[b]);
        return (value[a] > value[b]) - (value[a] < value[b]);
    }
    if (all && desc->key_type == CLMOE_TYPE_I32) {
        const int32_t *const value = keys;
        return (value[a] > value[b]) - (value[a] < value[b]);
    }
    uint64_t x = order_of(desc->key_type, keys, a), y = order_of(desc->key_type, keys, b);
    if (!all) {
        const uint32_t width = desc->end_bit - desc->begin_bit;
        const uint64_t mask = width == 0 ? 0 : UINT64_MAX >> (64 - width);
        const uint32_t shift = width == 0 ? 0 : desc->begin_bit;
        x = (x >> shift) & mask;
        y = (y >> shift) & mask;
    }
    return (x > y) - (x < y);
}

void oracle_sort(const clmoe_sort_desc *desc, size_t n, const void *keys, const void *values, void *keys_out, void *values_out) {
    uint32_t *order = malloc((n + 1) * sizeof *order), *other = malloc((n + 1) * sizeof *other);
    if (order == NULL || other == NULL) {
        fprintf(stderr, "oracle: out of memory\n");
        abort();
    }
    for (size_t i = 0; i < n; ++i)
        order[i] = (uint32_t)i;
    for (size_t run = 1; run < n; run *= 2) { /* runs are sorted; two neighbours at a time become one */
        for (size_t begin = 0; begin < n; begin += 2 * run) {
            const size_t middle = begin + run < n ? begin + run : n, end = begin + 2 * run < n ? begin + 2 * run : n;
            size_t left = begin, right = middle;
            for (size_t to = begin; to < end; ++to) {
                int take_right = left == middle;
                if (!take_right && right < end) { /* on equality the left one goes first: stable */
                    const int sign = compare(desc, keys, order[right], order[left]);
                    take_right = desc->is_descending ? sign > 0 : sign < 0;
                }
                other[to] = take_right ? order[right++] : order[left++];
            }
        }
        uint32_t *const swap = order;
        order = other;
        other = swap;
    }
    const size_t key_bytes = oracle_type_bytes(desc->key_type), value_bytes = desc->value_bytes;
    for (size_t i = 0; i < n; ++i) {
        memcpy((char *)keys_out + i * key_bytes, (const char *)keys + order[i] * key_bytes, key_bytes);
        if (desc->is_argsort)
            ((uint32_t *)values_out)[i] = order[i];
        else if (value_bytes != 0)
            memcpy((char *)values_out + i * value_bytes, (const char *)values + order[i] * value_bytes, value_bytes);
    }
    free(order);
    free(other);
}
