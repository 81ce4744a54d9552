#include "bench.h"

#include <inttypes.h>
#include <string.h>

typedef enum comparison {
    AS_FAST,  /* base / ours, at least */
    WITHIN,   /* ours / base, at most */
    WITHIN_US /* ours - base, at most */
} comparison;

typedef struct target {
    const char *what, *workload, *base;
    size_t place;
    const char *base_name; /* in words */
    size_t base_place;
    comparison how;
    double limit;
    bool less_launches; /* the empty launches of the call are taken off ours */
} target;

#define ALIGN(tokens) "align target T" #tokens " B64"
#define NATIVE TARGET_NATIVE
#define HOST TARGET_HOST
#define PEER NUM_TARGET_DEVICES /* wherever it runs */
#define ALIGN_PEER(tokens, name, limit)                                                                                                    \
    { "align T " #tokens ", native", ALIGN(tokens), name, NATIVE, name, PEER, AS_FAST, limit, false }

static const target targets[] = {
    {"align T 1, native", ALIGN(1), "plain C", NATIVE, "plain C", HOST, WITHIN_US, 0.5, false},
    {"align T 16, native", ALIGN(16), "plain C", NATIVE, "plain C", HOST, WITHIN_US, 0.5, false},
    {"align T 128, native", ALIGN(128), "plain C", NATIVE, "plain C", HOST, WITHIN_US, 0.5, false},
    {"align T 1024, native", ALIGN(1024), "plain C", NATIVE, "plain C", HOST, AS_FAST, 1, false},
    {"align T 4096, native", ALIGN(4096), "plain C", NATIVE, "plain C", HOST, AS_FAST, 1.3, false},
    {"align T 16384, native", ALIGN(16384), "plain C", NATIVE, "plain C", HOST, AS_FAST, 1.7, false},
    {"align T 131072, native", ALIGN(131072), "plain C, 2 threads", NATIVE, "plain C, 2 threads", HOST, AS_FAST, 1.2, false},
    {"align T 131072, native", ALIGN(131072), "memory floor", NATIVE, "memcpy and fill", HOST, WITHIN, 2.5, false},
    {"align T 1024, PoCL serial", ALIGN(1024), "plain C", TARGET_BASIC, "plain C + empty launches", HOST, WITHIN, 1.1, true},
    {"align T 4096, PoCL serial", ALIGN(4096), "plain C", TARGET_BASIC, "plain C + empty launches", HOST, WITHIN, 1.1, true},
    {"align T 16384, PoCL serial", ALIGN(16384), "plain C", TARGET_BASIC, "plain C + empty launches", HOST, WITHIN, 1.1, true},
    {"align T 131072, PoCL serial", ALIGN(131072), "plain C", TARGET_BASIC, "plain C + empty launches", HOST, WITHIN, 1.1, true},
    {"align T 4096, PoCL parallel", ALIGN(4096), "naive stable", TARGET_PARALLEL, "naive stable kernel", TARGET_PARALLEL, AS_FAST, 5,
     false},
    {"sort pairs 1e6, native", "target sort pairs n=1e6", "plain C", NATIVE, "plain C", HOST, AS_FAST, 1.7, false},
    {"sort pairs 1e7, native", "target sort pairs n=1e7", "plain C", NATIVE, "plain C", HOST, AS_FAST, 3, false},
    {"sort pairs 3e7, native", "target sort pairs n=3e7", "plain C", NATIVE, "plain C", HOST, AS_FAST, 3, false},
    {"scan 1e7, native", "target scan n=1e7", "memory floor", NATIVE, "memcpy", HOST, WITHIN, 1.6, false},
    {"histogram 1e7 random, native", "target histogram random n=1e7", "plain C", NATIVE, "plain C, 1 table", HOST, AS_FAST, 1.8, false},
    {"histogram 1e7 equal, native", "target histogram all-equal n=1e7", "plain C", NATIVE, "plain C, 1 table", HOST, AS_FAST, 6, false},
    {"route T 4096, native", "target route T4096", "plain C", NATIVE, "plain C, insertion", HOST, AS_FAST, 5, false},
    {"route T 4096, native", "target route T4096", "memory floor", NATIVE, "reading the logits", HOST, WITHIN, 4, false},
    {"route T 1, native", "target route T1", "plain C", NATIVE, "plain C, insertion", HOST, WITHIN_US, 0.5, false},
    ALIGN_PEER(1, "PyTorch", 20),
    ALIGN_PEER(16, "PyTorch", 20),
    ALIGN_PEER(128, "PyTorch", 20),
    ALIGN_PEER(1024, "PyTorch", 40),
    ALIGN_PEER(4096, "PyTorch", 40),
    ALIGN_PEER(16384, "PyTorch", 40),
    ALIGN_PEER(131072, "PyTorch", 40),
    ALIGN_PEER(1, "NumPy", 8),
    ALIGN_PEER(16, "NumPy", 8),
    ALIGN_PEER(128, "NumPy", 8),
    ALIGN_PEER(1024, "NumPy", 8),
    ALIGN_PEER(4096, "NumPy", 8),
    ALIGN_PEER(16384, "NumPy", 8),
    ALIGN_PEER(131072, "NumPy", 8),
    {"sort pairs 1e6, PoCL serial", "target sort pairs n=1e6", "Boost.Compute", TARGET_BASIC, "Boost.Compute", PEER, AS_FAST, 10, false},
    {"sort pairs 1e6, PoCL serial", "target sort pairs n=1e6", "PyOpenCL", TARGET_BASIC, "PyOpenCL RadixSort", PEER, AS_FAST, 35, false},
    {"sort pairs 1e6, native", "target sort pairs n=1e6", "std", NATIVE, "std::stable_sort", PEER, AS_FAST, 15, false},
    {"sort pairs 1e6, native", "target sort pairs n=1e6", "PyTorch", NATIVE, "PyTorch", PEER, AS_FAST, 18, false},
    {"scan 1e7, native", "target scan n=1e7", "NumPy", NATIVE, "NumPy cumsum", PEER, AS_FAST, 4, false},
    {"scan 1e7, native", "target scan n=1e7", "Boost.Compute", NATIVE, "Boost.Compute", PEER, AS_FAST, 1.4, false},
    {"route T 4096, native", "target route T4096", "PyTorch", NATIVE, "PyTorch", PEER, AS_FAST, 10, false},
};

const char *bench_target_selector(size_t place) {
    static const char *const selectors[NUM_TARGET_DEVICES] = {NULL, "native", "basic", "Portable"};
    return selectors[place];
}

clmoe_class bench_target_class(size_t place) {
    return place == TARGET_PARALLEL ? CLMOE_CLASS_PARALLEL : CLMOE_CLASS_AUTO;
}

static double median_of(const bench_row *row) {
    return row && row->status == BENCH_OK ? bench_summarise(row->wall.us, row->wall.num).median : 0;
}

/* Why a target could not be held against anything. */
static void print_unmeasured(const target *t, const bench_row *ours, const bench_row *base, const bench_device *device) {
    const char *reason = device->reason[0]                  ? device->reason
                         : ours && ours->status != BENCH_OK ? ours->reason
                         : base && base->status != BENCH_OK ? base->reason
                         : t->base_place == PEER            ? "no such peer (--peer)"
                                                            : "no such row";
    printf("%10s %10s %8s %10s  not measured: %s\n", "-", "-", "-", "-", reason);
}

size_t bench_print_targets(const bench_rows *rows, const bench_device devices[NUM_TARGET_DEVICES]) {
    const report_style style = report_style_of(stdout);
    size_t num_missed = 0, num_met = 0, num_unmeasured = 0;
    printf("\n%s%-30s %-26s %10s %10s %8s %10s%s\n", style.bold, "TARGET", "AGAINST", "OURS us", "THEIRS us", "RATIO", "TARGET",
           style.plain);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const target *t = &targets[i];
        printf("%-30s %-26s ", t->what, t->base_name);
        const bench_device *device = &devices[t->place];
        const bench_row *ours = bench_rows_find(rows, t->workload, "clmoe", device->label);
        const bench_row *base = bench_rows_find(rows, t->workload, t->base, t->base_place == PEER ? NULL : devices[t->base_place].label);
        const double base_us = median_of(base);
        double us = median_of(ours);
        if (us <= 0 || base_us <= 0) {
            print_unmeasured(t, ours, base, device);
            num_unmeasured++;
            continue;
        }
        us -= t->less_launches ? ours->num_launches * device->empty_us : 0;
        const double ratio = t->how == AS_FAST ? base_us / us : t->how == WITHIN ? us / base_us : us - base_us;
        const bool is_met = t->how == AS_FAST ? ratio >= t->limit : ratio <= t->limit;
        char limit[24];
        snprintf(limit, sizeof limit, "%s %.3g%s", t->how == AS_FAST ? ">=" : "<=", t->limit, t->how == WITHIN_US ? " us" : "");
        printf("%10.2f %10.2f %+8.2f %10s  %s%s%s\n", us, base_us, ratio, limit, is_met ? style.good : style.bad,
               is_met ? "met" : "not met", style.plain);
        num_met += is_met;
        num_missed += !is_met;
    }
    printf("\n%zu met, %zu not met, %zu not measured\n", num_met, num_missed, num_unmeasured);
    return num_missed;
}
