/* bars.h - measured times as a picture: a group of horizontal bars for each workload, a colour for each series. */
#ifndef CLMOE_CLI_BARS_H
#define CLMOE_CLI_BARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { BARS_MAX_SERIES = 8, BARS_MAX_GROUPS = 80 };

typedef struct bar {
    size_t group, series;
    double value, low, high; /* microseconds; low and high are drawn as a whisker */
} bar;

typedef struct bars_chart {
    const char *title;
    const char *const *groups; /* names; those beyond BARS_MAX_GROUPS are left out, and the picture says so */
    size_t num_groups;
    const char *const *series; /* at most BARS_MAX_SERIES */
    size_t num_series;
    const bar *bars; /* by group */
    size_t num_bars;
} bars_chart;

/* Each group has its own scale. False if the stream failed; errno tells why. */
bool bars_draw(FILE *stream, const bars_chart *chart);

#endif
