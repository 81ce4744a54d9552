/* test_histogram.c - histogram on one pair of device and class: known answers, every type, numbers of bins and of samples around every
 * boundary, skewed, random and impossible samples, forced tuning, used workspaces, and every refusal. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_ITEMS ((1u << 20) + 1)
#define MOST_BINS (1u << 24)
static align_rig rig;
static random_stream chance;
static int64_t *samples; /* MOST_ITEMS and some more, packed by type */
static uint32_t *expected, expected_ignored;
static uint32_t left_out, plans_refused;
static clmoe_plan *kept[9][2];
static const clmoe_type types[] = {CLMOE_TYPE_I32, CLMOE_TYPE_U32, CLMOE_TYPE_I64, CLMOE_TYPE_U64,
                                   CLMOE_TYPE_U16, CLMOE_TYPE_I16, CLMOE_TYPE_U8,  CLMOE_TYPE_I8};
#define NUM_TYPES 8
static const uint32_t shifts[] = {1, 3, 7};
static const uint32_t all_bins[] = {0, 1, 2, 3, 31, 32, 33, 255, 256, 257, 1000, 1024, 4096, 65536, 1u << 20};
#define NUM_BINS 15

typedef enum sample_fill {
    SAMPLES_UNIFORM,
    SAMPLES_EQUAL,
    SAMPLES_TWO_VALUES,
    SAMPLES_SORTED,
    SAMPLES_REVERSED,
    SAMPLES_ONE_OUTLIER,
    SAMPLES_FEW,
    SAMPLES_LAST_BIN,
    SAMPLES_SOME_INVALID,
    SAMPLES_ALL_INVALID,
    SAMPLES_RAW_BITS,
    NUM_SAMPLE_FILLS
} sample_fill;
static const char *const sample_fill_names[] = {"uniform", "equal",    "two values",   "sorted",      "reversed", "one outlier",
                                                "few",     "last bin", "some invalid", "all invalid", "raw bits"};

/* Values of no bin, among them values that look like one once they are cut to fewer bits. Narrow types cut them themselves. */
static int64_t invalid_sample(int64_t bins) {
    const int64_t any = bins == 0 ? 0 : (int64_t)(random_bits(&chance) % (uint64_t)bins), two32 = (int64_t)1 << 32;
    const int64_t list[] = {-1,
                            -2,
                            bins,
                            bins + 1,
                            -bins,
                            INT32_MIN,
                            INT32_MAX,
                            INT32_MIN + any,
                            two32 + any,
                            two32,
                            any - two32,
                            two32 / 2,
                            two32 - 1,
                            two32 / 2 + any,
                            INT64_MIN,
                            INT64_MAX,
                            INT64_MIN + any,
                            -(two32 << 20),
                            INT16_MIN,
                            INT16_MAX + 1,
                            (int64_t)1 << 24,
                            128,
                            -128,
                            255,
                            two32 + bins - 1,
                            two32 * 5 + any,
                            INT64_MIN + bins};
    return list[random_below(&chance, sizeof list / sizeof *list)];
}

/* n samples, and some that lie behind them. */
static void draw(clmoe_type type, uint32_t bins, uint32_t n, sample_fill how) {
    const size_t width = oracle_type_bytes(type);
    const uint32_t range = bins == 0 ? 1 : bins, outlier = n == 0 ? 0 : random_below(&chance, n);
    const int64_t few[] = {random_below(&chance, range), random_below(&chance, range), random_below(&chance, range), range - 1};
    for (uint32_t i = 0; i < n + 20; ++i) {
        int64_t value = random_below(&chance, range);
        const uint32_t place = i < n ? i : 0;
        switch (how) {
        case SAMPLES_EQUAL: value = few[0]; break;
        case SAMPLES_TWO_VALUES: value = few[random_below(&chance, 2)]; break;
        case SAMPLES_SORTED: value = (int64_t)((uint64_t)place * range / (n + 1)); break;
        case SAMPLES_REVERSED: value = range - 1 - (int64_t)((uint64_t)place * range / (n + 1)); break;
        case SAMPLES_ONE_OUTLIER: value = few[i == outlier]; break;
        case SAMPLES_FEW: value = few[random_below(&chance, 4)]; break;
        case SAMPLES_LAST_BIN: value = range - 1; break;
        case SAMPLES_SOME_INVALID: value = random_below(&chance, 4) == 0 ? invalid_sample(bins) : value; break;
        case SAMPLES_ALL_INVALID: value = invalid_sample(bins); break;
        case SAMPLES_RAW_BITS: value = (int64_t)random_bits(&chance) >> random_below(&chance, 60); break;
        case SAMPLES_UNIFORM:
        case NUM_SAMPLE_FILLS: break;
        }
        memcpy((char *)samples + i * width, &value, width); /* little-endian */
    }
}

static clmoe_device_info device(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info;
}

static uint32_t item_limit(void) {
    return fixture_pair_has("oclgrind") ? 5000 : fixture_pair_has("rusticl") ? 100000 : MOST_ITEMS;
}

static clmoe_status enqueue(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                            cl_event *event) {
    return clmoe_histogram_enqueue(plan, queue, args, waits, list, event);
}

static clmoe_histogram_desc desc_of(clmoe_type type, uint32_t bins, uint32_t max_items) {
    clmoe_histogram_desc desc = {0};
    desc.max_items = max_items;
    desc.num_bins = bins;
    desc.sample_type = type;
    return desc;
}

/* A driver that ends long loops makes some forced tunings and many bins impossible. */
static bool may_refuse(const clmoe_histogram_desc *desc) {
    const clmoe_tuning *const tuning = &desc->tuning;
    return rig.ends_long_loops &&
           (tuning->num_launches != 0 || tuning->group_size != 0 || tuning->num_groups != 0 || desc->num_bins > 4096);
}

/* One plan of each program stays, so that the others find it compiled. */
static void keep_program(const clmoe_histogram_desc *desc, size_t program) {
    const uint32_t size = desc->tuning.group_size;
    if (rig.queue != NULL && (size == 0 || size == 64) && kept[program][size == 64] == NULL)
        clmoe_histogram_plan_create(rig.context, desc, &kept[program][size == 64]);
}

static clmoe_plan *plan_for(const clmoe_histogram_desc *desc) {
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_histogram_plan_create(rig.context, desc, &plan);
    if (status == CLMOE_UNSUPPORTED && may_refuse(desc)) {
        ++plans_refused;
        return NULL;
    }
    if (status != CLMOE_SUCCESS) {
        char text[400];
        clmoe_context_error(rig.context, text, sizeof text);
        fail_msg("plan of %u items, %u bins, type %d, launches %u, groups %u, group size %u: %s: %s", desc->max_items, desc->num_bins,
                 (int)desc->sample_type, desc->tuning.num_launches, desc->tuning.num_groups, desc->tuning.group_size,
                 clmoe_status_name(status), text);
    }
    keep_program(desc, (size_t)desc->sample_type);
    return plan;
}

/* The call with n of the samples, ready for call_run(). */
static void describe(op_call *call, clmoe_histogram_args *args, clmoe_plan *plan, const clmoe_histogram_desc *desc, uint32_t n,
                     uint32_t slack, bool with_ignored, const char *name) {
    const size_t width = oracle_type_bytes(desc->sample_type);
    memset(call, 0, sizeof *call);
    memset(args, 0, sizeof *args);
    snprintf(call->name, sizeof call->name, "%s {n %u of %u, %u bins, type %d, %signored, slack %u, launches %u, groups %u, group size %u}",
             name, n, desc->max_items, desc->num_bins, (int)desc->sample_type, with_ignored ? "" : "no ", slack, desc->tuning.num_launches,
             desc->tuning.num_groups, desc->tuning.group_size);
    call->plan = plan;
    call->args = args;
    call->args_bytes = sizeof *args;
    call->enqueue = enqueue;
    call->shift = shifts[n % 3];
    call->scratch = 0xA5;
    call->may_refuse = may_refuse(desc);
    args->num_items = n;
    oracle_histogram(desc->sample_type, n, samples, desc->num_bins, expected, &expected_ignored);
    call->operands[0] = (operand){
        .name = "samples", .view = &args->samples, .width = width, .bytes = (n + slack) * width, .spare = slack * width, .before = samples};
    call->operands[1] = (operand){
        .name = "counts", .view = &args->counts, .width = 4, .bytes = (size_t)desc->num_bins * 4, .after = expected, .is_output = true};
    call->operands[2] = (operand){.name = "ignored",
                                  .view = &args->ignored,
                                  .width = 4,
                                  .bytes = with_ignored ? 4 : 0,
                                  .after = &expected_ignored,
                                  .is_output = true,
                                  .is_optional = true};
    call->num_operands = 3;
    call_workspace(call, &args->workspace, 4);
}

static void check(clmoe_plan *plan, const clmoe_histogram_desc *desc, uint32_t n, bool with_ignored, const char *name) {
    op_call call;
    clmoe_histogram_args args;
    if (plan == NULL)
        return;
    if (n > item_limit()) {
        ++left_out;
        return;
    }
    describe(&call, &args, plan, desc, n, n % 4 == 0 ? 5 : 0, with_ignored, name);
    if (!call_run(&rig, &call))
        fail_msg("%s", rig.failure);
}

static void check_once(const clmoe_histogram_desc *desc, uint32_t n, bool with_ignored, const char *name) {
    clmoe_plan *plan = plan_for(desc);
    check(plan, desc, n, with_ignored, name);
    clmoe_plan_destroy(plan);
}

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void known(clmoe_type type, const int64_t *values, uint32_t n, uint32_t bins, const uint32_t *counts, uint32_t ignored) {
    const clmoe_histogram_desc desc = desc_of(type, bins, n);
    for (uint32_t i = 0; i < n + 20; ++i)
        memcpy((char *)samples + i * oracle_type_bytes(type), &values[i < n ? i : 0], oracle_type_bytes(type));
    oracle_histogram(type, n, samples, bins, expected, &expected_ignored);
    assert_memory_equal(expected, counts, bins * sizeof *counts);
    assert_int_equal(expected_ignored, ignored);
    check_once(&desc, n, true, "known");
    check_once(&desc, n, false, "known");
}

static void test_golden(void **state) {
    (void)state;
    known(CLMOE_TYPE_I32, (const int64_t[]){0, -1, 5, 2}, 4, 4, (const uint32_t[]){1, 0, 1, 0}, 2);
    known(CLMOE_TYPE_I32, (const int64_t[]){0, -1, 5, INT32_MIN, 2}, 5, 8, (const uint32_t[]){1, 0, 1, 0, 0, 1, 0, 0}, 2); /* C20 a */
    known(CLMOE_TYPE_U8, (const int64_t[]){255, 200, 3}, 3, 4, (const uint32_t[]){0, 0, 0, 1}, 2);
    known(CLMOE_TYPE_I64, (const int64_t[]){((int64_t)1 << 32) + 1, 1, INT64_MIN, -((int64_t)1 << 32)}, 4, 2, (const uint32_t[]){0, 1}, 3);
    known(CLMOE_TYPE_U64, (const int64_t[]){INT64_MIN, -1, 0, (int64_t)1 << 32}, 4, 2, (const uint32_t[]){1, 0}, 3);
    known(CLMOE_TYPE_U32, (const int64_t[]){-1, INT32_MIN, 1}, 3, 2, (const uint32_t[]){0, 1}, 2);
    known(CLMOE_TYPE_I16, (const int64_t[]){-1, INT16_MIN, 1, INT16_MAX}, 4, 2, (const uint32_t[]){0, 1}, 3);
    for (size_t t = 0; t < NUM_TYPES; ++t) { /* C19: bincount([], 2), bincount([], 0) */
        known(types[t], (const int64_t[]){0}, 0, 2, (const uint32_t[]){0, 0}, 0);
        known(types[t], (const int64_t[]){0}, 0, 0, (const uint32_t[]){0}, 0);
        known(types[t], (const int64_t[]){0, 1, 0}, 3, 0, (const uint32_t[]){0}, 3);
    }
    uint32_t counts[256]; /* every value of a byte, of either sign */
    int64_t bytes[256];
    for (int i = 0; i < 256; ++i) {
        bytes[i] = i * 37 % 256;
        counts[i] = 1;
    }
    known(CLMOE_TYPE_U8, bytes, 256, 256, counts, 0);
    known(CLMOE_TYPE_I8, bytes, 256, 128, counts, 128);
}

static void test_counts_around_powers_of_two(void **state) { /* C20 b */
    (void)state;
    const uint32_t counts[9] = {127, 128, 129, 255, 256, 257, 65535, 65536, 65537};
    for (size_t t = 0; t < NUM_TYPES; ++t) {
        clmoe_sort_desc by_mix = {0};
        uint32_t n = 0, bins = 0;
        while (bins < 9 && n + counts[bins] <= item_limit())
            n += counts[bins++];
        const clmoe_histogram_desc desc = desc_of(types[t], bins, n);
        uint32_t *const keys = test_malloc(n * 4), *const order = test_malloc(n * 4), *const sorted = test_malloc(n * 4);
        const size_t width = oracle_type_bytes(types[t]);
        by_mix.value_bytes = 4;
        by_mix.is_argsort = 1;
        for (uint32_t i = 0; i < n; ++i)
            keys[i] = mix(i);
        oracle_sort(&by_mix, n, keys, NULL, sorted, order);
        for (uint32_t bin = 0, i = 0; bin < bins; ++bin) {
            for (uint32_t c = 0; c < counts[bin]; ++c, ++i)
                memcpy((char *)samples + order[i] * width, &(const int64_t){bin}, width);
        }
        oracle_histogram(types[t], n, samples, bins, expected, &expected_ignored);
        assert_memory_equal(expected, counts, bins * 4);
        check_once(&desc, n, true, "C20 b");
        test_free(keys);
        test_free(order);
        test_free(sorted);
        const clmoe_histogram_desc one = desc_of(types[t], t % 2 == 0 ? 1 : 9, MOST_ITEMS);
        draw(types[t], one.num_bins, MOST_ITEMS, SAMPLES_LAST_BIN);
        check_once(&one, MOST_ITEMS, true, "C20, all in the last bin");
        const clmoe_histogram_desc nine = desc_of(types[t], 9, 100000);
        draw(types[t], 1, 100000, SAMPLES_LAST_BIN);
        check_once(&nine, 100000, true, "C20, all in the first bin");
    }
}

/* ---- Boundaries ----------------------------------------------------------------------------------------------------------------- */
static void test_sizes(void **state) {
    (void)state;
    const uint32_t sizes[] = {0,    1,    2,    31,   32,   33,   63,   64,   65,    127,   128,   129,
                              255,  256,  257,  511,  512,  513,  1023, 1024, 1025,  2047,  2048,  2049,
                              4095, 4096, 4097, 6143, 6144, 8191, 8192, 8193, 65535, 65536, 65537, 68931};
    const uint32_t bins[] = {1, 33, 256, 1000, 4096, 65536, 3, 128};
    for (uint32_t v = 0; v < 2 * NUM_TYPES; ++v) {
        const clmoe_histogram_desc desc = desc_of(types[v % NUM_TYPES], bins[(v * 3 + v / NUM_TYPES) % 8], 68931);
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            draw(desc.sample_type, desc.num_bins, sizes[s], (sample_fill)((s + v) % NUM_SAMPLE_FILLS));
            check(plan, &desc, sizes[s], (s + v) % 3 != 0, "sizes");
        }
        clmoe_plan_destroy(plan);
    }
    for (uint32_t v = 0; v < NUM_TYPES; ++v) {
        const clmoe_histogram_desc desc = desc_of(types[v], bins[v], 1000003);
        draw(desc.sample_type, desc.num_bins, 1000003, SAMPLES_SOME_INVALID);
        check_once(&desc, 1000003, true, "a million");
    }
}

static void test_every_size(void **state) {
    (void)state;
    const uint32_t step = fixture_pair_has("rusticl") ? 4 : 1;
    for (uint32_t v = 0; v < NUM_TYPES; ++v) {
        const clmoe_histogram_desc desc = desc_of(types[v], v % 2 == 0 ? 37 : 300, 512u << (v % 3 * 4));
        clmoe_plan *plan = plan_for(&desc);
        draw(desc.sample_type, desc.num_bins, 512, SAMPLES_SOME_INVALID);
        for (uint32_t n = 256 + v % step; n <= 512; n += step)
            check(plan, &desc, n, true, "every size");
        clmoe_plan_destroy(plan);
    }
}

static void test_bins(void **state) {
    (void)state;
    const uint32_t sizes[] = {700, 20000, 1, 70001};
    for (uint32_t b = 0; b < NUM_BINS; ++b) {
        for (uint32_t t = 0; t < NUM_TYPES; ++t) {
            const clmoe_histogram_desc desc = desc_of(types[t], all_bins[b], 70001);
            clmoe_plan *plan = plan_for(&desc);
            if (plan == NULL)
                printf("%u bins are too many here\n", all_bins[b]);
            for (uint32_t s = 0; s < (all_bins[b] > 65536 ? 2 : 4); ++s) {
                draw(desc.sample_type, desc.num_bins, sizes[s], (sample_fill)((b * 7 + t * 3 + s * 5) % NUM_SAMPLE_FILLS));
                check(plan, &desc, sizes[s], (b + t + s) % 2 == 0, "bins");
            }
            clmoe_plan_destroy(plan);
        }
    }
    if (fixture_pair_has("rusticl") || fixture_pair_has("oclgrind"))
        return;
    const clmoe_histogram_desc desc = desc_of(CLMOE_TYPE_I32, MOST_BINS, 3000);
    draw(desc.sample_type, desc.num_bins, 3000, SAMPLES_SOME_INVALID);
    check_once(&desc, 3000, true, "2^24 bins");
}

static void test_exact_plans(void **state) { /* max_items = n, so that the workspace is as small as it can be */
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 32, 65, 255, 257, 512, 1025, 4097, 6144, 8193, 20011, 65536, 99991};
    for (uint32_t v = 0; v < 2 * NUM_TYPES; ++v) {
        for (uint32_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            const clmoe_histogram_desc desc = desc_of(types[v % NUM_TYPES], all_bins[(v + s) % (NUM_BINS - 1)], sizes[s]);
            clmoe_plan *plan = plan_for(&desc);
            clmoe_plan_info info;
            draw(desc.sample_type, desc.num_bins, sizes[s], (sample_fill)((v + s) % NUM_SAMPLE_FILLS));
            check(plan, &desc, sizes[s], v % 2 == 0, "exact plan");
            if (plan != NULL && clmoe_plan_describe(plan, sizes[s], &info) == CLMOE_SUCCESS) {
                assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
                assert_true(info.bytes_read >= sizes[s] * oracle_type_bytes(desc.sample_type) &&
                            info.bytes_written >= 4ull * desc.num_bins);
                assert_true(info.num_launches <= 2 && strstr(info.name, "histogram") != NULL);
            }
            clmoe_plan_destroy(plan);
        }
    }
}

static void test_skew(void **state) {
    (void)state;
    const uint32_t sizes[] = {33, 513, 6144, 65537}, bins[] = {2, 60, 256, 5000};
    for (uint32_t v = 0; v < 2 * NUM_TYPES; ++v) {
        const clmoe_histogram_desc desc = desc_of(types[v % NUM_TYPES], bins[(v + v / NUM_TYPES) % 4], 65537);
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t how = 0; how < NUM_SAMPLE_FILLS; ++how) {
            draw(desc.sample_type, desc.num_bins, sizes[(how + v) % 4], (sample_fill)how);
            check(plan, &desc, sizes[(how + v) % 4], true, sample_fill_names[how]);
        }
        clmoe_plan_destroy(plan);
    }
}

/* ---- How it is carried out ------------------------------------------------------------------------------------------------------ */
static void test_forced_tuning(void **state) {
    (void)state;
    const uint32_t groups[] = {1, 2, 3, 7, 16}, group_sizes[] = {1, 32, 33, 64, 128, 256}, sizes[] = {700, 5, 129, 0, 64, 6143, 66000};
    const uint32_t bins[] = {8, 60, 257, 1024, 1, 5000, 0, 65536};
    const clmoe_device_info info = device();
    const bool parallel = info.kernel_class == CLMOE_CLASS_PARALLEL;
    uint32_t combination = 0;
    for (size_t g = 0; g < (parallel ? 6 : 1); ++g) {
        for (uint32_t launches = 1; launches <= 2; ++launches) {
            for (size_t k = 0; k < 5; ++k, ++combination) {
                clmoe_histogram_desc desc =
                    desc_of(types[(combination + g) % NUM_TYPES], bins[combination % 7 + (combination % 14 == 13)], 66000);
                clmoe_plan_info plan_info;
                desc.tuning.num_launches = launches;
                desc.tuning.num_groups = groups[k];
                desc.tuning.group_size = parallel ? group_sizes[g] : 0;
                if (desc.tuning.group_size > info.max_group_size)
                    continue;
                clmoe_plan *plan = plan_for(&desc);
                if (plan == NULL)
                    continue;
                if (clmoe_plan_describe(plan, 66000, &plan_info) == CLMOE_SUCCESS && plan_info.note[0] == 0) {
                    if (plan_info.num_launches != launches)
                        fail_msg("%u bins: %u launches instead of %u", desc.num_bins, plan_info.num_launches, launches);
                    if (parallel)
                        assert_int_equal(plan_info.group_size, group_sizes[g]);
                }
                for (uint32_t s = 0; s < 7; ++s) {
                    draw(desc.sample_type, desc.num_bins, sizes[s], (sample_fill)((s + combination) % NUM_SAMPLE_FILLS));
                    check(plan, &desc, sizes[s], s % 2 == 0, "forced tuning");
                }
                clmoe_plan_destroy(plan);
            }
        }
    }
    printf("forced tuning: %u combinations; %u plans and %llu calls refused\n", combination, plans_refused,
           (unsigned long long)rig.calls_refused);
}

static void test_used_workspace(void **state) { /* a large call, then small ones and large ones, and every byte that may lie there */
    (void)state;
    const uint32_t sizes[] = {66000, 3, 700, 0, 65, 66000, 20000, 257}, large = item_limit() < 66000 ? 5000 : 66000;
    const uint32_t bins[] = {5, 256, 3000, 40000};
    for (uint32_t v = 0; v < 12; ++v) {
        clmoe_histogram_desc desc = desc_of(types[v % NUM_TYPES], bins[v % 4], 66000);
        desc.tuning.num_launches = v / 4;
        clmoe_plan *plan = plan_for(&desc);
        rig.keep_workspace = true;
        for (uint32_t s = 0; plan != NULL && s < 8; ++s) {
            draw(desc.sample_type, desc.num_bins, sizes[s], s % 2 == 0 ? SAMPLES_UNIFORM : SAMPLES_SOME_INVALID);
            check(plan, &desc, sizes[s], true, "used workspace");
        }
        rig.keep_workspace = false;
        for (uint32_t byte = 0; plan != NULL && byte < 4; ++byte) {
            op_call call;
            clmoe_histogram_args args;
            draw(desc.sample_type, desc.num_bins, large, SAMPLES_SOME_INVALID);
            describe(&call, &args, plan, &desc, large, 0, true, "filled workspace");
            call.scratch = (const unsigned char[]){0, 0xFF, 0x01, 0x80}[byte];
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_same_every_time(void **state) {
    (void)state;
    const uint32_t n = item_limit() < 99991 ? 5000 : 99991;
    for (uint32_t v = 0; v < NUM_TYPES; v += 2) {
        const clmoe_histogram_desc desc = desc_of(types[v], 100 + v * 500, 99991);
        op_call call;
        clmoe_histogram_args args;
        clmoe_plan *plan = plan_for(&desc);
        draw(desc.sample_type, desc.num_bins, n, SAMPLES_SOME_INVALID);
        describe(&call, &args, plan, &desc, n, 0, true, "again and again");
        for (int round = 0; round < 20; ++round) {
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_queues(void **state) {
    (void)state;
    const uint32_t sizes[] = {0, 5, 66000};
    if (fixture_pair_has("oclgrind"))
        return;
    for (uint32_t i = 0; i < 12; ++i) {
        op_call call;
        clmoe_histogram_args args;
        clmoe_histogram_desc desc = desc_of(types[i % NUM_TYPES], i >= 9 ? 0 : 300, 66000);
        desc.tuning.num_launches = i / 3 % 3;
        clmoe_plan *plan = plan_for(&desc);
        if (plan == NULL)
            continue;
        draw(desc.sample_type, desc.num_bins, sizes[i % 3], SAMPLES_SOME_INVALID);
        describe(&call, &args, plan, &desc, sizes[i % 3], 0, i % 2 == 0, "queues");
        if (!(call.may_refuse ? call_run(&rig, &call) : call_on_queues(&rig, &call)))
            fail_msg("%s", rig.failure);
        clmoe_plan_destroy(plan);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8}, sizes[] = {0, 7, 700, 70000, 1000003}, bins[] = {1, 60, 1024, 70000};
    const align_rig outer = rig;
    if (rig.queue != NULL)
        return;
    for (uint32_t t = 0; t < 4; ++t) {
        clmoe_context_options options = {0};
        clmoe_context *context = NULL;
        options.num_threads = threads[t];
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        rig_begin(&rig, context, NULL);
        for (uint32_t v = 0; v < NUM_TYPES; ++v) {
            clmoe_histogram_desc desc = desc_of(types[v], bins[(v + t) % 4], 1000003);
            desc.tuning.num_launches = (v + t) % 3;
            clmoe_plan *plan = plan_for(&desc);
            for (uint32_t s = 0; s < (v % 4 == 0 ? 5 : 4); ++s) {
                draw(desc.sample_type, desc.num_bins, sizes[s], SAMPLES_SOME_INVALID);
                check(plan, &desc, sizes[s], true, "threads");
            }
            clmoe_plan_destroy(plan);
        }
        rig_end(&rig);
        clmoe_context_destroy(context);
    }
    rig = outer;
}

static void test_random(void **state) {
    (void)state;
    deck sizes = DECK(0, 1, 2, 3, 31, 33, 64, 127, 129, 255, 257, 500, 512, 1000, 1023, 1025, 2047, 2049, 3000, 4095, 4097, 6143, 6144,
                      8193, 20000, 65535, 65537);
    deck bins = DECK(0, 1, 2, 3, 8, 31, 32, 33, 60, 127, 128, 129, 255, 256, 257, 500, 1000, 1024, 2047, 4096, 4097, 8191, 20000, 65536);
    deck launches = DECK(0, 0, 1, 2), groups = DECK(0, 0, 1, 2, 3, 7, 16, 61), group_sizes = DECK(0, 0, 0, 64),
         kinds = DECK(0, 1, 2, 3, 4, 5, 6, 7);
    const bool parallel = device().kernel_class == CLMOE_CLASS_PARALLEL;
    const uint32_t num_plans = fixture_cases(600, 250, 100);
    for (uint32_t p = 0; p < num_plans; ++p) {
        const uint32_t dealt = deck_deal(&sizes, &chance), n = dealt < item_limit() ? dealt : item_limit();
        const uint32_t more = random_below(&chance, 3) == 0 ? random_below(&chance, 1000) : 0;
        clmoe_histogram_desc desc = desc_of(types[deck_deal(&kinds, &chance)], deck_deal(&bins, &chance), n + more);
        desc.tuning.num_launches = deck_deal(&launches, &chance);
        desc.tuning.num_groups = deck_deal(&groups, &chance);
        desc.tuning.group_size = parallel && device().max_group_size >= 64 ? deck_deal(&group_sizes, &chance) : 0;
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t c = 0; plan != NULL && c < 4; ++c) {
            op_call call;
            clmoe_histogram_args args;
            const uint32_t now = c == 0 ? n : random_below(&chance, n + 1);
            draw(desc.sample_type, desc.num_bins, now, (sample_fill)random_below(&chance, NUM_SAMPLE_FILLS));
            const uint32_t slack = random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0;
            describe(&call, &args, plan, &desc, now, slack, random_below(&chance, 2) != 0, "random");
            call.scratch = (unsigned char)random_below(&chance, 256);
            rig.keep_workspace = random_below(&chance, 2) != 0;
            if (!call_run(&rig, &call))
                fail_msg("%s (plan %u, call %u)", rig.failure, p, c);
        }
        clmoe_plan_destroy(plan);
    }
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------- */
static void expect_text(const char *what, const char *named) {
    char text[600];
    clmoe_context_error(rig.context, text, sizeof text);
    if (strstr(text, named) == NULL)
        fail_msg("%s: the text does not name \"%s\": \"%s\"", what, named, text);
}

static void test_refused_arguments(void **state) {
    (void)state;
    const clmoe_type kinds[] = {CLMOE_TYPE_I32, CLMOE_TYPE_U8, CLMOE_TYPE_I64, CLMOE_TYPE_I16};
    for (uint32_t v = 0; v < 4; ++v) { /* small and large, 1 to 8 bytes, samples that are just long enough or longer */
        op_call call;
        clmoe_histogram_args args, wrong;
        const clmoe_histogram_desc desc = desc_of(kinds[v], v % 2 == 0 ? 50 : 1500, v < 2 ? 40 : 66000);
        const uint32_t n = v < 2 ? 37 : item_limit() < 66000 ? 5000 : 65000;
        clmoe_plan *plan = plan_for(&desc);
        draw(desc.sample_type, desc.num_bins, n, SAMPLES_SOME_INVALID);
        describe(&call, &args, plan, &desc, n, v == 1 ? 3 : 0, true, "refusals");
        if (!call_refuses_views(&rig, &call) || !call_prepare(&rig, &call))
            fail_msg("%s", rig.failure);
        wrong = args;
        wrong.num_items = desc.max_items + 1;
        if (!call_refused(&rig, &call, &wrong, "n over max_items", "num_items"))
            fail_msg("%s", rig.failure);
        wrong = args;
        wrong.num_items = UINT32_MAX;
        if (!call_refused(&rig, &call, &wrong, "n = 2^32 - 1", "num_items"))
            fail_msg("%s", rig.failure);
        clmoe_plan_info info;
        assert_int_equal(clmoe_plan_describe(plan, (size_t)desc.max_items + 1, &info), CLMOE_INVALID_ARGUMENT);
        assert_int_equal(clmoe_plan_describe(plan, (size_t)1 << 32, &info), CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
    }
}

#define PLAN_REFUSED(named, change)                                                                                                        \
    do {                                                                                                                                   \
        clmoe_histogram_desc desc = valid;                                                                                                 \
        clmoe_plan *plan = NULL;                                                                                                           \
        change;                                                                                                                            \
        const clmoe_status status = clmoe_histogram_plan_create(rig.context, &desc, &plan);                                                \
        if (status != CLMOE_INVALID_ARGUMENT)                                                                                              \
            fail_msg("%s: %s, not refused", #change, clmoe_status_name(status));                                                           \
        assert_null(plan);                                                                                                                 \
        expect_text(#change, named);                                                                                                       \
        check(good, &valid, 100, true, "after a refused plan");                                                                            \
    } while (0)

static void test_refused_descriptors(void **state) {
    (void)state;
    const clmoe_histogram_desc valid = desc_of(CLMOE_TYPE_I32, 30, 100);
    clmoe_plan *good = plan_for(&valid), *none = NULL;
    draw(valid.sample_type, valid.num_bins, 100, SAMPLES_SOME_INVALID);
    PLAN_REFUSED("sample_type", desc.sample_type = CLMOE_TYPE_F32);
    PLAN_REFUSED("sample_type", desc.sample_type = (clmoe_type)9);
    PLAN_REFUSED("sample_type", desc.sample_type = (clmoe_type)-1);
    PLAN_REFUSED("sample_type", desc.sample_type = (clmoe_type)1000);
    PLAN_REFUSED("num_bins", desc.num_bins = MOST_BINS + 1);
    PLAN_REFUSED("num_bins", desc.num_bins = 1u << 30); /* times 4 is 0 in 32 bits */
    PLAN_REFUSED("num_bins", desc.num_bins = UINT32_MAX);
    PLAN_REFUSED("max_items", desc.max_items = 1u << 31);
    PLAN_REFUSED("max_items", desc.max_items = UINT32_MAX);
    PLAN_REFUSED("num_launches", desc.tuning.num_launches = 4);
    PLAN_REFUSED("num_groups", desc.tuning.num_groups = 65537);
    if (device().kernel_class == CLMOE_CLASS_PARALLEL) {
        PLAN_REFUSED("group_size", desc.tuning.group_size = device().max_group_size + 1);
        PLAN_REFUSED("group_size", desc.tuning.group_size = UINT32_MAX);
    }
    assert_int_equal(clmoe_histogram_plan_create(NULL, &valid, &none), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_histogram_plan_create(rig.context, NULL, &none), CLMOE_INVALID_ARGUMENT);
    expect_text("desc NULL", "desc");
    assert_int_equal(clmoe_histogram_plan_create(rig.context, &valid, NULL), CLMOE_INVALID_ARGUMENT);
    expect_text("plan NULL", "plan");
    assert_null(none);

    /* 2^29 + 1 samples of 8 bytes: 8 in 32 bits */
    const clmoe_histogram_desc huge = desc_of(CLMOE_TYPE_I64, 30, (1u << 29) + 1);
    const clmoe_status status = clmoe_histogram_plan_create(rig.context, &huge, &none);
    if (status != CLMOE_SUCCESS && !rig.ends_long_loops)
        fail_msg("2^29 + 1 samples: %s", clmoe_status_name(status));
    if (status == CLMOE_SUCCESS) {
        op_call call;
        clmoe_histogram_args args, wrong;
        describe(&call, &args, good, &valid, 100, 0, true, "after sizes that wrap");
        assert_true(call_prepare(&rig, &call));
        wrong = args;
        wrong.num_items = huge.max_items;
        wrong.samples.offset_bytes = 64;
        wrong.samples.size_bytes = 8;
        if (enqueue(none, rig.queue, &wrong, 0, NULL, NULL) != CLMOE_INVALID_ARGUMENT || !call_untouched(&rig, &call))
            fail_msg("8 * (2^29 + 1) bytes: %s", rig.failure);
        expect_text("8 * (2^29 + 1) bytes", "samples");
        clmoe_plan_destroy(none);
    }
    /* many bins in many groups: over 32 bits of workspace, which the library may not want, but must not forget */
    clmoe_histogram_desc wide = desc_of(CLMOE_TYPE_I32, MOST_BINS, INT32_MAX);
    wide.tuning.num_groups = 65536;
    wide.tuning.num_launches = 2;
    none = NULL;
    const clmoe_status many = clmoe_histogram_plan_create(rig.context, &wide, &none);
    clmoe_plan_info info;
    if (many == CLMOE_SUCCESS && clmoe_plan_describe(none, INT32_MAX, &info) == CLMOE_SUCCESS && info.num_launches == 2 &&
        info.num_groups == 65536)
        assert_true(clmoe_plan_workspace_bytes(none) >= (size_t)4 << 24);
    clmoe_plan_destroy(none);
    /* a launch too many, if it is not refused, changes nothing */
    clmoe_histogram_desc three = desc_of(CLMOE_TYPE_I32, 30, 5000);
    three.tuning.num_launches = 3;
    none = NULL;
    if (clmoe_histogram_plan_create(rig.context, &three, &none) == CLMOE_SUCCESS) {
        draw(three.sample_type, 30, 5000, SAMPLES_SOME_INVALID);
        check(none, &three, 5000, true, "three launches");
        clmoe_plan_destroy(none);
    } else
        expect_text("three launches", "num_launches");
    clmoe_plan_destroy(good);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    samples = malloc((MOST_ITEMS + 64) * sizeof *samples);
    expected = malloc(MOST_BINS * sizeof *expected);
    if (context == NULL || samples == NULL || expected == NULL)
        return -1;
    rig_begin(&rig, context, clmoe_context_queue(context));
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    printf("%s: %llu calls checked, %u left out as too large; of forced tunings and many bins %u plans and %llu calls were refused\n",
           fixture_pair(), (unsigned long long)rig.calls, left_out, plans_refused, (unsigned long long)rig.calls_refused);
    for (size_t i = 0; i < sizeof kept / sizeof **kept; ++i)
        clmoe_plan_destroy(kept[i / 2][i % 2]);
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    free(samples);
    free(expected);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260104;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),
        TEST(test_counts_around_powers_of_two),
        TEST(test_sizes),
        TEST(test_every_size),
        TEST(test_bins),
        TEST(test_exact_plans),
        TEST(test_skew),
        TEST(test_forced_tuning),
        TEST(test_used_workspace),
        TEST(test_same_every_time),
        TEST(test_queues),
        TEST(test_number_of_threads),
        TEST(test_random),
        TEST(test_refused_arguments),
        TEST(test_refused_descriptors),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
