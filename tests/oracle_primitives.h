/* oracle_primitives.h - the right answers of histogram, scan and sort, in plain serial C, for tests.
 *
 * Written from the public header alone; shares no code with the library.
 */
#ifndef CLMOE_TESTS_ORACLE_PRIMITIVES_H
#define CLMOE_TESTS_ORACLE_PRIMITIVES_H

#include <clmoe/primitives.h>

size_t oracle_type_bytes(clmoe_type type);

void oracle_histogram(clmoe_type type, size_t n, const void *samples, uint32_t num_bins, uint32_t *counts, uint32_t *ignored);
void oracle_scan(clmoe_type type, clmoe_scan_kind kind, size_t n, const void *input, void *output);

/* A merge of runs of comparable items; values and values_out may be NULL where the descriptor has none. Aborts if memory runs out. */
void oracle_sort(const clmoe_sort_desc *desc, size_t n, const void *keys, const void *values, void *keys_out, void *values_out);

#endif
