#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *bench_operator_name(bench_operator op) {
    static const char *const names[] = {"empty",     "copy",       "align",  "histogram", "scan",
                                        "sort keys", "sort pairs", "gather", "route",     "route_align"};
    return names[op];
}

typedef struct workload_list {
    bench_workload *workloads;
    size_t num_workloads, capacity;
    bool has_failed;
} workload_list;

static void add(workload_list *list, bench_workload work) {
    if (list->num_workloads == list->capacity && !list->has_failed) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 256;
        bench_workload *longer = realloc(list->workloads, capacity * sizeof *longer);
        list->has_failed = !longer;
        list->workloads = longer ? longer : list->workloads;
        list->capacity = longer ? capacity : list->capacity;
    }
    if (!list->has_failed) {
        list->workloads[list->num_workloads++] = work;
    }
}

/* "1e7", "3e7", "12345". */
static void write_count(uint32_t count, char text[16]) {
    uint32_t mantissa = count;
    int zeros = 0;
    while (mantissa >= 10 && mantissa % 10 == 0) {
        mantissa /= 10;
        zeros++;
    }
    if (mantissa < 10 && zeros >= 4) {
        snprintf(text, 16, "%" PRIu32 "e%d", mantissa, zeros);
    } else {
        snprintf(text, 16, "%" PRIu32, count);
    }
}

static void add_align(workload_list *list, const char *what, bench_workload work) {
    char ranks[16] = "", skew[32] = "";
    work.op = BENCH_ALIGN;
    if (work.num_ranks > 1) {
        snprintf(ranks, sizeof ranks, " EP%" PRIu32, work.num_ranks);
    } else {
        work.num_ranks = 1;
    }
    if (work.content == BENCH_BALANCED) {
        snprintf(skew, sizeof skew, " balanced");
    } else if (work.content == BENCH_ONE_HOT) {
        snprintf(skew, sizeof skew, " one_hot");
    } else if (work.content == BENCH_POWER_LAW) {
        snprintf(skew, sizeof skew, " power_law_%.3g", work.alpha);
    }
    const bool is_grid = strcmp(work.group, "vllm") == 0 || strcmp(work.group, "sglang") == 0;
    if (is_grid) {
        snprintf(work.name, sizeof work.name, "align %s T%" PRIu32 " E%" PRIu32 " K%" PRIu32 "%s B%" PRIu32, what, work.num_tokens,
                 work.num_experts, work.top_k, ranks, work.block_size);
    } else {
        snprintf(work.name, sizeof work.name, "align %s T%" PRIu32 " B%" PRIu32 "%s", what, work.num_tokens, work.block_size, skew);
    }
    add(list, work);
}

static void add_gpt_oss(workload_list *list) {
    const bench_workload decode = {
        .group = "decode", .content = BENCH_DECODE, .is_quick = true, .num_tokens = 64, .top_k = 4, .num_experts = 32};
    for (uint32_t block_size = 16; block_size <= 64; block_size *= 4) {
        bench_workload work = decode;
        work.block_size = block_size;
        add_align(list, "gpt-oss decode", work);
    }
    static const uint32_t tokens[] = {512, 2048, 16384};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        bench_workload work = decode;
        work.group = "prefill";
        work.content = BENCH_PREFILL;
        work.num_tokens = tokens[i];
        work.block_size = 64;
        add_align(list, "gpt-oss prefill", work);
    }
}

static void add_models(workload_list *list) {
    static const struct {
        const char *name;
        uint32_t num_experts, top_k;
    } models[] = {{"deepseek-v3", 256, 8}, {"qwen3", 128, 8}, {"kimi-k2", 384, 8}, {"mixtral", 8, 2}};
    static const uint32_t tokens[] = {1, 16, 128, 1024, 4096, 16384, 131072};
    static const struct {
        bench_content content;
        double alpha;
        bool is_quick;
    } skews[] = {{BENCH_BALANCED, 0, false}, {BENCH_POWER_LAW, 1.01, false}, {BENCH_POWER_LAW, 1.2, true}, {BENCH_ONE_HOT, 0, true}};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            for (size_t s = 0; s < sizeof skews / sizeof skews[0]; s++) {
                bench_workload work = {.group = "models", .content = skews[s].content, .alpha = skews[s].alpha};
                work.num_tokens = tokens[t];
                work.num_experts = models[m].num_experts;
                work.top_k = models[m].top_k;
                work.block_size = tokens[t] <= work.num_experts ? 16 : 64; /* vLLM's choice without a tuned table */
                work.is_quick = skews[s].is_quick && (tokens[t] == 16 || tokens[t] == 4096);
                add_align(list, models[m].name, work);
            }
        }
    }
}

/* What the two engines' own align benchmarks time. */
static void add_engine_grids(workload_list *list) {
    static const uint32_t vllm_tokens[] = {1, 16, 256, 4096}, vllm_experts[] = {16, 64, 224, 256, 280, 512}, vllm_slots[] = {1, 2, 8};
    for (size_t i = 0; i < 4 * 6 * 3 * 2; i++) {
        add_align(list, "vllm",
                  (bench_workload){.group = "vllm",
                                   .content = BENCH_DISTINCT,
                                   .num_tokens = vllm_tokens[i / 36],
                                   .num_experts = vllm_experts[i / 6 % 6],
                                   .top_k = vllm_slots[i / 2 % 3],
                                   .num_ranks = i % 2 ? 8 : 1,
                                   .block_size = 256});
    }
    static const uint32_t sglang_experts[] = {8, 32, 64, 128, 256}, sglang_slots[] = {2, 4, 8};
    for (size_t i = 0; i < 10 * 5 * 3; i++) {
        add_align(list, "sglang",
                  (bench_workload){.group = "sglang",
                                   .content = BENCH_RANDOM,
                                   .num_tokens = 16u << i / 15,
                                   .num_experts = sglang_experts[i / 3 % 5],
                                   .top_k = sglang_slots[i % 3],
                                   .block_size = 128});
    }
}

static void add_items(workload_list *list, const char *what, const char *detail, bench_workload work) {
    char count[16];
    write_count(work.num_items, count);
    snprintf(work.name, sizeof work.name, "%s%s n=%s", what, detail, count);
    add(list, work);
}

static void add_primitives(workload_list *list) {
    static const uint32_t items[] = {10000, 100000, 1000000, 10000000, 30000000};
    static const struct {
        const char *what, *detail, *group;
        bench_operator op;
        bench_content content;
    } kinds[] = {{"histogram", " of 256 random", "histogram", BENCH_HISTOGRAM, BENCH_RANDOM},
                 {"histogram", " of 256 all-equal", "histogram", BENCH_HISTOGRAM, BENCH_ALL_EQUAL},
                 {"scan", " u32", "scan", BENCH_SCAN, BENCH_RANDOM},
                 {"sort keys", " u32", "sort", BENCH_SORT_KEYS, BENCH_RANDOM},
                 {"sort pairs", " u32 u32", "sort", BENCH_SORT_PAIRS, BENCH_RANDOM},
                 {"gather", " rows of 64 B", "gather", BENCH_GATHER, BENCH_RANDOM}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
            add_items(list, kinds[k].what, kinds[k].detail,
                      (bench_workload){.group = kinds[k].group,
                                       .op = kinds[k].op,
                                       .content = kinds[k].content,
                                       .is_quick = items[i] == 1000000,
                                       .num_items = items[i],
                                       .num_bins = 256,
                                       .row_bytes = 64});
        }
    }
}

/* With a block size also align. */
static void add_route(workload_list *list, const char *what, bench_workload work) {
    char block[16] = "";
    work.op = work.block_size > 0 ? BENCH_ROUTE_ALIGN : BENCH_ROUTE;
    work.content = BENCH_RANDOM;
    work.top_k = work.router.top_k;
    work.num_experts = work.router.num_experts;
    work.num_ranks = 1;
    if (work.block_size > 0) {
        snprintf(block, sizeof block, " B%" PRIu32, work.block_size);
    }
    snprintf(work.name, sizeof work.name, "%s T%" PRIu32 "%s", what, work.num_tokens, block);
    add(list, work);
}

/* Every published router that the library knows. */
static void add_presets(workload_list *list) {
    static const uint32_t tokens[] = {1, 64, 4096};
    size_t num_models = 0;
    const clmoe_model *models = clmoe_models(&num_models);
    for (size_t m = 0; m < num_models; m++) {
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            char what[48];
            snprintf(what, sizeof what, "route %s", models[m].name);
            const bool is_quick =
                tokens[t] == 4096 && (strcmp(models[m].name, "deepseek-v3") == 0 || strcmp(models[m].name, "qwen3-235b-a22b") == 0);
            add_route(list, what,
                      (bench_workload){.group = "route", .is_quick = is_quick, .num_tokens = tokens[t], .router = models[m].router});
        }
    }
}

/* What an engine does for a batch, from logits to the layout, in one call. */
static void add_batches(workload_list *list) {
    static const char *const names[] = {"gpt-oss-20b", "qwen3-235b-a22b", "deepseek-v3"};
    static const uint32_t tokens[] = {1, 16, 64, 256, 4096};
    for (size_t m = 0; m < sizeof names / sizeof names[0]; m++) {
        const clmoe_model *model = clmoe_model_find(names[m]);
        for (size_t t = 0; model && t < sizeof tokens / sizeof tokens[0]; t++) {
            char what[48];
            snprintf(what, sizeof what, "route_align %s", model->name);
            add_route(list, what,
                      (bench_workload){.group = "route_align",
                                       .is_quick = tokens[t] == 64,
                                       .num_tokens = tokens[t],
                                       .router = model->router,
                                       .block_size = tokens[t] <= model->router.num_experts ? 16 : 64});
        }
    }
}

/* The shapes that have a target: E 256, K 8, blocks of 64, uniform ids. */
static void add_targets(workload_list *list) {
    static const uint32_t tokens[] = {1, 16, 128, 1024, 4096, 16384, 131072}, items[] = {1000000, 10000000, 30000000};
    const uint32_t native = 1 << TARGET_HOST | 1 << TARGET_NATIVE;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        add_align(list, "target",
                  (bench_workload){.group = "targets",
                                   .content = BENCH_DISTINCT,
                                   .num_tokens = tokens[i],
                                   .num_experts = 256,
                                   .top_k = 8,
                                   .block_size = 64,
                                   .devices = native | (tokens[i] >= 1024 ? 1 << TARGET_BASIC : 0) |
                                              (tokens[i] == 4096 ? 1 << TARGET_PARALLEL : 0)});
    }
    const clmoe_router router = {.num_experts = 256, .top_k = 8, .renormalize = CLMOE_RENORMALIZE_SUM};
    add_route(list, "target route", (bench_workload){.group = "targets", .num_tokens = 4096, .router = router, .devices = native});
    add_route(list, "target route", (bench_workload){.group = "targets", .num_tokens = 1, .router = router, .devices = native});
    bench_workload work = {.group = "targets", .op = BENCH_SORT_PAIRS, .content = BENCH_RANDOM, .num_bins = 256, .devices = native};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        work.num_items = items[i];
        work.devices = native | (items[i] == 1000000 ? 1 << TARGET_BASIC : 0);
        add_items(list, "target", " sort pairs", work);
    }
    work.num_items = 10000000;
    work.devices = native;
    work.op = BENCH_SCAN;
    add_items(list, "target", " scan", work);
    work.op = BENCH_HISTOGRAM;
    add_items(list, "target", " histogram random", work);
    work.content = BENCH_ALL_EQUAL;
    add_items(list, "target", " histogram all-equal", work);
}

bench_workload *bench_list_workloads(size_t *num_workloads) {
    workload_list list = {NULL, 0, 0, false};
    /* First, and whatever the filter says: the others are told as multiples of these. */
    add(&list, (bench_workload){.name = "empty launch",
                                .group = "baseline",
                                .op = BENCH_EMPTY,
                                .is_quick = true,
                                .top_k = 1,
                                .num_experts = 1,
                                .block_size = 1,
                                .num_ranks = 1});
    add(&list, (bench_workload){.name = "copy", .group = "baseline", .op = BENCH_COPY, .is_quick = true, .num_items = 1 << 24});
    add_gpt_oss(&list);
    add_models(&list);
    add_presets(&list);
    add_batches(&list);
    add_primitives(&list);
    add_engine_grids(&list);
    add_targets(&list);
    if (list.has_failed) {
        free(list.workloads);
        list.workloads = NULL;
    }
    *num_workloads = list.workloads ? list.num_workloads : 0;
    return list.workloads;
}
