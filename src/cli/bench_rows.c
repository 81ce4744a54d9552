#include "bench.h"

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_summary bench_summarise(const double *us, size_t num) {
    bench_summary summary = {0, 0, 0, 0};
    double *sorted = num > 0 ? malloc(num * sizeof *sorted) : NULL;
    if (sorted) {
        memcpy(sorted, us, num * sizeof *sorted);
        qsort(sorted, num, sizeof *sorted, by_value);
        summary.min = sorted[0];
        summary.p10 = sorted[(num - 1) / 10];
        summary.median = sorted[(num - 1) / 2];
        summary.p90 = sorted[(9 * (num - 1) + 9) / 10];
        free(sorted);
    }
    return summary;
}

const char *bench_clock(const bench_row *row) {
    return row->event.num > row->bad_events ? "event" : row->bad_events > 0 ? "wall, events bad" : "wall";
}

double bench_device_us(const bench_row *row) {
    const bench_samples *samples = strcmp(bench_clock(row), "event") == 0 ? &row->event : &row->wall;
    return bench_summarise(samples->us, samples->num).median;
}

bool bench_rows_add(bench_rows *rows, const bench_row *row) {
    if (rows->num_rows == rows->capacity) {
        const size_t capacity = rows->capacity ? 2 * rows->capacity : 64;
        bench_row *longer = realloc(rows->rows, capacity * sizeof *longer);
        if (!longer) {
            free(row->wall.us);
            free(row->event.us);
            return false;
        }
        rows->rows = longer;
        rows->capacity = capacity;
    }
    rows->rows[rows->num_rows++] = *row;
    return true;
}

const bench_row *bench_rows_find(const bench_rows *rows, const char *workload, const char *contender_name, const char *device) {
    const bench_row *found = NULL;
    for (size_t i = 0; i < rows->num_rows && (!found || found->status != BENCH_OK); i++) {
        const bench_row *row = &rows->rows[i];
        if (strcmp(row->workload, workload) == 0 && strcmp(row->contender, contender_name) == 0 &&
            (!device || strcmp(row->device, device) == 0)) {
            found = row;
        }
    }
    return found;
}

void bench_rows_free(bench_rows *rows) {
    for (size_t i = 0; i < rows->num_rows; i++) {
        free(rows->rows[i].wall.us);
        free(rows->rows[i].event.us);
    }
    free(rows->rows);
    memset(rows, 0, sizeof *rows);
}
