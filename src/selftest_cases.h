/* selftest_cases.h - what the self-test calls, and the hash of what must come out. */
#ifndef CLMOE_SELFTEST_CASES_H
#define CLMOE_SELFTEST_CASES_H

#include "clmoe/clmoe.h"

#include <stdbool.h>

enum op { ALIGN, ROUTE, ROUTE_ALIGN, HISTOGRAM, SCAN, SORT, SCATTER, GATHER, NUM_OPS };

struct test_case {
    enum op op;
    const char *name;
    uint32_t num_items;   /* or tokens */
    bool has_options;     /* every optional input and output */
    bool has_group_sizes; /* again in groups of other sizes, each of which is compiled: seconds for some drivers */
    union desc {
        clmoe_align_desc align;
        clmoe_route_desc route;
        clmoe_route_align_desc route_align;
        clmoe_histogram_desc histogram;
        clmoe_scan_desc scan;
        clmoe_sort_desc sort;
        clmoe_scatter_desc scatter; /* and gather */
    } desc;                         /* without the largest size and tuning */
    uint64_t hash;
};

/* Those of one operator follow each other. */
extern const struct test_case clmoe_selftest_cases[];
extern const size_t clmoe_num_selftest_cases;

#endif
