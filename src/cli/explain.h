/* explain.h - the five steps of align in words and numbers, for people. */
#ifndef CLMOE_CLI_EXPLAIN_H
#define CLMOE_CLI_EXPLAIN_H

#include "routing.h"

/* Prints to stdout. Needs counts, offsets, padded_offsets, inverse and rows_valid of the call. Long arrays are cut. */
void explain_align(const align_call *call, const routing *route);

#endif
