/* test_sort.c - sort on one pair of device and class: known answers, field reports, every key type with every kind of values and order,
 * every size boundary, ranges of bits, skewed, special and random keys, forced tuning, used workspaces, and every refusal. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_ITEMS (1u << 21)
static align_rig rig;
static random_stream chance;
static uint64_t *keys, *values, *keys_expected, *values_expected; /* MOST_ITEMS and some more, packed */
static uint32_t left_out, plans_refused;
static clmoe_plan *kept[12][2];
static const clmoe_type types[] = {CLMOE_TYPE_U32, CLMOE_TYPE_I32, CLMOE_TYPE_F32, CLMOE_TYPE_U64};
static const uint32_t shifts[] = {1, 3, 7};

/* One way to sort: a key type, no values, values of 4 or 8 bytes or argsort, ascending or descending. 32 in all. */
#define NUM_WAYS 32
static clmoe_sort_desc way_of(uint32_t number, uint32_t max_items) {
    clmoe_sort_desc desc = {0};
    desc.max_items = max_items;
    desc.key_type = types[number % 4];
    desc.value_bytes = (const uint32_t[]){0, 4, 8, 4}[number / 4 % 4];
    desc.is_argsort = number / 4 % 4 == 3;
    desc.is_descending = number / 16 % 2 != 0;
    return desc;
}

static clmoe_device_info device(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info;
}

static uint32_t item_limit(void) {
    return fixture_pair_has("oclgrind") ? 2000 : fixture_pair_has("rusticl") ? 100000 : MOST_ITEMS;
}

static clmoe_status enqueue(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                            cl_event *event) {
    return clmoe_sort_enqueue(plan, queue, args, waits, list, event);
}

static bool may_refuse(const clmoe_sort_desc *desc) {
    const clmoe_tuning *const tuning = &desc->tuning;
    return rig.ends_long_loops && (tuning->num_launches != 0 || tuning->group_size != 0 || tuning->num_groups != 0);
}

/* One plan of each program stays, so that the others find it compiled. */
static void keep_program(const clmoe_sort_desc *desc, size_t program) {
    const uint32_t size = desc->tuning.group_size;
    if (rig.queue != NULL && (size == 0 || size == 64) && kept[program][size == 64] == NULL)
        clmoe_sort_plan_create(rig.context, desc, &kept[program][size == 64]);
}

/* NULL if a driver that ends long loops makes a forced tuning impossible. */
static clmoe_plan *plan_for(const clmoe_sort_desc *desc) {
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_sort_plan_create(rig.context, desc, &plan);
    if (status == CLMOE_UNSUPPORTED && may_refuse(desc)) {
        ++plans_refused;
        return NULL;
    }
    if (status != CLMOE_SUCCESS) {
        char text[400];
        clmoe_context_error(rig.context, text, sizeof text);
        fail_msg("plan of %u items, type %d, values %u, argsort %d, bits %u to %u, launches %u, groups %u, group size %u: %s: %s",
                 desc->max_items, (int)desc->key_type, desc->value_bytes, desc->is_argsort, desc->begin_bit, desc->end_bit,
                 desc->tuning.num_launches, desc->tuning.num_groups, desc->tuning.group_size, clmoe_status_name(status), text);
    }
    keep_program(desc, (size_t)desc->key_type * 3 + desc->value_bytes / 4);
    return plan;
}

/* The call with n of the keys and values, ready for call_run(). */
static void describe(op_call *call, clmoe_sort_args *args, clmoe_plan *plan, const clmoe_sort_desc *desc, uint32_t n, uint32_t slack,
                     bool run_oracle, const char *name) {
    const size_t width = oracle_type_bytes(desc->key_type), value_width = desc->value_bytes == 0 ? 4 : desc->value_bytes;
    const bool values_in = desc->value_bytes != 0 && !desc->is_argsort, values_out = desc->value_bytes != 0;
    memset(call, 0, sizeof *call);
    memset(args, 0, sizeof *args);
    snprintf(call->name, sizeof call->name,
             "%s {n %u of %u, type %d, values %u%s, %s, bits %u to %u, slack %u, launches %u, groups %u, group size %u}", name, n,
             desc->max_items, (int)desc->key_type, desc->value_bytes, desc->is_argsort ? " argsort" : "",
             desc->is_descending ? "descending" : "ascending", desc->begin_bit, desc->end_bit, slack, desc->tuning.num_launches,
             desc->tuning.num_groups, desc->tuning.group_size);
    call->plan = plan;
    call->args = args;
    call->args_bytes = sizeof *args;
    call->enqueue = enqueue;
    call->shift = shifts[n % 3];
    call->scratch = 0xA5;
    call->may_refuse = may_refuse(desc);
    args->num_items = n;
    if (run_oracle)
        oracle_sort(desc, n, keys, values, keys_expected, values_expected);
    call->operands[0] = (operand){
        .name = "keys", .view = &args->keys, .width = width, .bytes = (n + slack) * width, .spare = slack * width, .before = keys};
    call->operands[1] = (operand){.name = "values",
                                  .view = &args->values,
                                  .width = value_width,
                                  .bytes = values_in ? (n + slack) * value_width : 0,
                                  .spare = slack * value_width,
                                  .before = values};
    call->operands[2] = (operand){
        .name = "keys_out", .view = &args->keys_out, .width = width, .bytes = n * width, .after = keys_expected, .is_output = true};
    call->operands[3] = (operand){.name = "values_out",
                                  .view = &args->values_out,
                                  .width = value_width,
                                  .bytes = values_out ? n * value_width : 0,
                                  .after = values_expected,
                                  .is_output = true};
    call->num_operands = 4;
    call_workspace(call, &args->workspace, width > value_width ? width : value_width);
}

static void check(clmoe_plan *plan, const clmoe_sort_desc *desc, uint32_t n, const char *name) {
    op_call call;
    clmoe_sort_args args;
    if (plan == NULL)
        return;
    if (n > item_limit()) {
        ++left_out;
        return;
    }
    describe(&call, &args, plan, desc, n, n % 4 == 0 ? 5 : 0, true, name);
    if (!call_run(&rig, &call))
        fail_msg("%s", rig.failure);
}

static void check_once(const clmoe_sort_desc *desc, uint32_t n, const char *name) {
    clmoe_plan *plan = plan_for(desc);
    check(plan, desc, n, name);
    clmoe_plan_destroy(plan);
}

/* n keys and values, and some that lie behind them. */
static void draw(const clmoe_sort_desc *desc, uint32_t n, key_fill how) {
    fill_keys(keys, n + 20, desc->key_type, how, &chance);
    for (uint32_t i = 0; i < n + 20; ++i) /* the values tell items apart, and all of their bytes count */
        values[i] = desc->value_bytes == 8 ? (uint64_t)mix(i) << 32 | i : (uint64_t)mix(2 * i + 1) << 32 | mix(2 * i);
}

static void put_key(clmoe_type type, uint32_t i, uint32_t key) {
    if (type == CLMOE_TYPE_U64)
        keys[i] = key;
    else if (type == CLMOE_TYPE_F32)
        ((float *)keys)[i] = (float)key;
    else
        ((uint32_t *)keys)[i] = key;
}

static void put_value(const clmoe_sort_desc *desc, uint64_t *to, uint32_t i, uint32_t value) {
    if (desc->value_bytes == 8)
        to[i] = value;
    else
        ((uint32_t *)to)[i] = value;
}

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void known(clmoe_type type, bool is_descending, const uint32_t *input, uint32_t n, const uint32_t *order) {
    clmoe_sort_desc desc = {0};
    uint32_t sorted[32];
    assert_true(n <= 32 && type != CLMOE_TYPE_U64);
    desc.max_items = n;
    desc.key_type = type;
    desc.value_bytes = 4;
    desc.is_argsort = 1;
    desc.is_descending = is_descending;
    memcpy(keys, input, n * 4);
    for (uint32_t i = 0; i < n; ++i)
        sorted[i] = input[order[i]];
    oracle_sort(&desc, n, keys, NULL, keys_expected, values_expected);
    assert_memory_equal(keys_expected, sorted, n * 4);
    assert_memory_equal(values_expected, order, n * 4);
    check_once(&desc, n, "known");
    desc.is_argsort = 0;
    for (uint32_t i = 0; i < n; ++i)
        put_value(&desc, values, i, i);
    check_once(&desc, n, "known, with values");
}
#define LIST(...)                                                                                                                          \
    (const uint32_t[]) {                                                                                                                   \
        __VA_ARGS__                                                                                                                        \
    }

static void test_golden(void **state) {
    (void)state;
    known(CLMOE_TYPE_U32, false, LIST(3, 1, 2, 1, 0xffffffffu, 0), 6, LIST(5, 1, 3, 2, 0, 4));
    known(CLMOE_TYPE_U32, true, LIST(3, 1, 2, 1, 0xffffffffu, 0), 6, LIST(4, 0, 2, 1, 3, 5));
    known(CLMOE_TYPE_I32, false, LIST(3, 0xffffffffu, 0x80000000u, 0, 0x7fffffffu, 0xffffffffu), 6, LIST(2, 1, 5, 3, 0, 4));
    known(CLMOE_TYPE_I32, true, LIST(3, 0xffffffffu, 0x80000000u, 0, 0x7fffffffu, 0xffffffffu), 6, LIST(4, 0, 3, 1, 5, 2));
    /* NaN, +0, -inf, -0, -NaN, denormals of both signs, +inf, another NaN, 1, -1, +0 */
    const uint32_t floats[] = {0x7fc00001u, 0,           0xff800000u, 0x80000000u, 0xffc00000u, 1,
                               0x80000001u, 0x7f800000u, 0x7f800001u, 0x3f800000u, 0xbf800000u, 0};
    known(CLMOE_TYPE_F32, false, floats, 12, LIST(2, 10, 6, 1, 3, 11, 5, 9, 7, 0, 4, 8));
    known(CLMOE_TYPE_F32, true, floats, 12, LIST(0, 4, 8, 7, 9, 5, 1, 3, 11, 6, 10, 2));
    /* C21: the last of each run of equal destinations is the one that wins */
    known(CLMOE_TYPE_U32, false, LIST(0, 1, 1, 1, 2), 5, LIST(0, 1, 2, 3, 4));
}

static void test_stable_pairs(void **state) { /* C17: key i mod 500, value i, by its formula */
    (void)state;
    const uint32_t n = item_limit() < 450000 ? item_limit() / 1000 * 500 : 450000, each = n / 500, rounds = fixture_cases(5, 1, 1);
    for (uint32_t v = 0; v < 16; ++v) {
        op_call call;
        clmoe_sort_args args;
        clmoe_sort_desc desc = way_of(v % 4 + (v / 4 % 2 == 0 ? 4 : 8) + v / 8 * 16, n);
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t i = 0; i < n; ++i) {
            put_key(desc.key_type, i, i % 500);
            put_value(&desc, values, i, i);
        }
        describe(&call, &args, plan, &desc, n, 0, true, "C17");
        const char *const sorted = (const char *)keys_expected;
        const size_t width = oracle_type_bytes(desc.key_type);
        for (uint32_t p = 0; p < n; ++p) { /* the oracle's keys are the formula's; the formula's values take the place of the oracle's */
            const uint32_t key = desc.is_descending ? 499 - p / each : p / each;
            put_key(desc.key_type, n, key);
            assert_memory_equal(sorted + p * width, (const char *)keys + n * width, width);
            put_value(&desc, values_expected, p, key + 500 * (p % each));
        }
        for (uint32_t round = 0; round < (v < 2 ? 20 : rounds); ++round) {
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
    }
}

static int by_u32(const void *a, const void *b) {
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static void test_size_boundaries(void **state) { /* C18: key i * 2654435761, value i; as they come, reversed, sorted; also as i32 */
    (void)state;
    const uint32_t sizes[] = {1,    2,    31,    32,    33,    255,     256,     257,     4095,    4096,   4097,
                              6143, 6144, 65535, 65536, 65537, 1048575, 1048576, 1048577, 1048581, 2097152};
    clmoe_plan *plans[2];
    for (uint32_t t = 0; t < 2; ++t) {
        const clmoe_sort_desc desc = way_of(4 + t, MOST_ITEMS);
        plans[t] = plan_for(&desc);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        const uint32_t n = sizes[s], big = n > 100000;
        if (n > item_limit())
            continue;
        uint32_t *const sorted = test_malloc(n * 4);
        for (uint32_t i = 0; i < n; ++i)
            sorted[i] = i * 2654435761u;
        qsort(sorted, n, 4, by_u32);
        for (uint32_t arrangement = big ? (uint32_t)s % 3 : 0; arrangement < 3; arrangement += big ? 3 : 1) {
            for (uint32_t t = big ? (uint32_t)s % 2 : 0; t < 2; t += big ? 2 : 1) {
                op_call call;
                clmoe_sort_args args;
                const clmoe_sort_desc desc = way_of(4 + t, MOST_ITEMS);
                const uint32_t flip = t == 0 ? 0 : 0x80000000u; /* i32: negative first */
                for (uint32_t i = 0; i < n; ++i) {
                    const uint32_t key = arrangement == 0 ? i * 2654435761u : sorted[arrangement == 1 ? n - 1 - i : i];
                    ((uint32_t *)keys)[i] = key ^ flip;
                    ((uint32_t *)values)[i] = key * 244002641u; /* 2654435761 * 244002641 = 1 */
                    ((uint32_t *)keys_expected)[i] = sorted[i] ^ flip;
                    ((uint32_t *)values_expected)[i] = sorted[i] * 244002641u;
                }
                describe(&call, &args, plans[t], &desc, n, 0, false, "C18");
                if (!call_run(&rig, &call))
                    fail_msg("%s", rig.failure);
                const uint32_t *const out = call_output(&rig, &call, 3);
                for (uint32_t i = 0; i < n; ++i)
                    assert_true(((const uint32_t *)values_expected)[i] < n && out[i] * 2654435761u == sorted[i]);
            }
        }
        test_free(sorted);
    }
    clmoe_plan_destroy(plans[0]);
    clmoe_plan_destroy(plans[1]);
}

static void test_many_groups(void **state) { /* C16: i32 keys mix(i), around what one group handles */
    (void)state;
    const uint32_t tops[] = {2000, 68931, 1000003};
    for (size_t t = 0; t < 3; ++t) {
        const clmoe_sort_desc desc = way_of(1, tops[t]);
        clmoe_plan_info info;
        if (tops[t] > item_limit())
            continue;
        clmoe_plan *plan = plan_for(&desc);
        assert_int_equal(clmoe_plan_describe(plan, tops[t], &info), CLMOE_SUCCESS);
        const uint32_t one = info.num_groups == 0 ? tops[t] : (tops[t] + info.num_groups - 1) / info.num_groups;
        const uint32_t sizes[] = {one - 1, one, one + 1, 2 * one + 1, info.group_size, info.group_size + 1, 2 * info.group_size + 1,
                                  tops[t]};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            const uint32_t n = sizes[s] < tops[t] ? sizes[s] : tops[t];
            for (uint32_t i = 0; i < n; ++i)
                ((uint32_t *)keys)[i] = mix(i);
            check(plan, &desc, n, "C16");
        }
        clmoe_plan_destroy(plan);
    }
}

/* ---- Boundaries ----------------------------------------------------------------------------------------------------------------- */
static void test_sizes(void **state) {
    (void)state;
    const uint32_t sizes[] = {0,    1,    2,    31,   32,   33,   63,   64,   65,    127,   128,   129,
                              255,  256,  257,  511,  512,  513,  1023, 1024, 1025,  2047,  2048,  2049,
                              4095, 4096, 4097, 6143, 6144, 8191, 8192, 8193, 65535, 65536, 65537, 68931};
    const uint32_t every = fixture_pair_has("native") ? 1 : fixture_pair_has("pocl") ? 3 : 10;
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const clmoe_sort_desc desc = way_of(v, 68931);
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            if (sizes[s] > (every == 10 ? 6000 : 60000) && (s + v) % every != 0)
                continue;
            draw(&desc, sizes[s], s % 3 == 0 ? KEYS_SPECIAL : KEYS_RANDOM);
            check(plan, &desc, sizes[s], "sizes");
        }
        clmoe_plan_destroy(plan);
    }
    for (uint32_t v = 0; v < 4; ++v) {
        const clmoe_sort_desc desc = way_of(v * 5 + v / 2 * 16, 1000003);
        draw(&desc, 1000003, KEYS_RANDOM);
        check_once(&desc, 1000003, "a million");
    }
}

static void test_every_size(void **state) {
    (void)state;
    const uint32_t step = fixture_pair_has("native") ? 1 : fixture_pair_has("pocl") ? 2 : 16;
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const clmoe_sort_desc desc = way_of(v, 512u << (v % 3 * 4));
        clmoe_plan *plan = plan_for(&desc);
        draw(&desc, 512, KEYS_RANDOM);
        for (uint32_t n = 256 + v / 2 % step; n <= 512; n += step)
            check(plan, &desc, n, "every size");
        clmoe_plan_destroy(plan);
    }
}

static void test_exact_plans(void **state) { /* max_items = n, so that the workspace is as small as it can be */
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 32, 65, 255, 257, 512, 1025, 4097, 6144, 8193, 20011, 65536};
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        for (uint32_t s = v % 2; s < sizeof sizes / sizeof *sizes; s += 2) {
            if (sizes[s] > 8000 && v % 8 > 1 && fixture_pair_has("rusticl"))
                continue;
            clmoe_sort_desc desc = way_of(v, sizes[s]);
            clmoe_plan *plan = plan_for(&desc);
            clmoe_plan_info info;
            draw(&desc, sizes[s], KEYS_RANDOM);
            check(plan, &desc, sizes[s], "exact plan");
            assert_int_equal(clmoe_plan_describe(plan, sizes[s], &info), CLMOE_SUCCESS);
            assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
            const size_t written = sizes[s] * (oracle_type_bytes(desc.key_type) + desc.value_bytes);
            assert_true(info.bytes_written >= written && info.bytes_read >= written - (desc.is_argsort ? sizes[s] * 4u : 0));
            assert_true(strstr(info.name, "sort") != NULL);
            clmoe_plan_destroy(plan);
        }
    }
}

static void test_skew(void **state) {
    (void)state;
    const uint32_t sizes[] = {33, 513, 6144, fixture_pair_has("rusticl") ? 9001 : 30001};
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const clmoe_sort_desc desc = way_of(v, 30001);
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t how = 0; how < NUM_KEY_FILLS; ++how) {
            draw(&desc, sizes[(how + v) % 4], (key_fill)how);
            check(plan, &desc, sizes[(how + v) % 4], key_fill_names[how]);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_bit_ranges(void **state) {
    (void)state;
    const uint32_t ranges[][2] = {{0, 0},  {5, 5},   {32, 32}, {0, 1},  {31, 32}, {3, 11},  {0, 8},   {8, 16}, {0, 9},
                                  {7, 25}, {24, 32}, {0, 31},  {1, 32}, {0, 32},  {15, 16}, {16, 32}, {4, 7}};
    const uint32_t wide[][2] = {{0, 64}, {63, 64}, {64, 64}, {31, 33}, {3, 11},  {32, 64},
                                {0, 32}, {28, 60}, {1, 64},  {0, 63},  {56, 64}, {40, 40}};
    const uint32_t sizes[] = {300, 9000, 1};
    for (uint32_t t = 0; t < 5; ++t) {
        for (uint32_t r = 0; r < (t == 4 ? 12 : 17); ++r) {
            clmoe_sort_desc desc = way_of((t == 4 ? 3 : t) + (r + t) % 8 * 4, 9000);
            desc.begin_bit = t == 4 ? wide[r][0] : ranges[r][0];
            desc.end_bit = t == 4 ? wide[r][1] : ranges[r][1];
            clmoe_plan *plan = plan_for(&desc);
            for (uint32_t s = 0; s < 3; ++s) {
                draw(&desc, sizes[s], s == 1 || r % 2 == 0 ? KEYS_RANDOM : KEYS_SPECIAL);
                check(plan, &desc, sizes[s], "bits");
            }
            draw(&desc, 9000, KEYS_SPECIAL);
            check(plan, &desc, 9000, "bits");
            clmoe_plan_destroy(plan);
        }
    }
}

/* ---- How it is carried out ------------------------------------------------------------------------------------------------------ */
static void test_forced_tuning(void **state) {
    (void)state;
    const uint32_t groups[] = {1, 2, 3, 7, 16}, group_sizes[] = {1, 32, 33, 64, 128, 256}, sizes[] = {700, 5, 129, 0, 64, 6143, 20000};
    const clmoe_device_info info = device();
    const bool parallel = info.kernel_class == CLMOE_CLASS_PARALLEL;
    uint32_t combination = 0;
    for (size_t g = 0; g < (parallel ? 6 : 1); ++g) {
        for (uint32_t launches = 1; launches <= 3; ++launches) {
            for (size_t k = 0; k < 5; ++k, ++combination) {
                /* few programs for each group size: two types of keys and values, ranges of bits of every length */
                clmoe_sort_desc desc = way_of((uint32_t)g % 4 + (k % 2 == 0 ? 0 : 16 + 4 * (1 + (uint32_t)g % 3)), 20000);
                clmoe_plan_info plan_info;
                desc.begin_bit = k == 1 ? 3 : k == 3 ? 20 : 0;
                desc.end_bit = k == 1 ? 11 : k == 3 ? 32 : 0;
                desc.tuning.num_launches = launches;
                desc.tuning.num_groups = groups[k];
                desc.tuning.group_size = parallel ? group_sizes[g] : 0;
                if (desc.tuning.group_size > info.max_group_size)
                    continue;
                clmoe_plan *plan = plan_for(&desc);
                if (plan == NULL)
                    continue;
                if (clmoe_plan_describe(plan, 20000, &plan_info) == CLMOE_SUCCESS && plan_info.note[0] == 0) {
                    const uint32_t bits =
                        (desc.end_bit != 0 ? desc.end_bit : 8 * (uint32_t)oracle_type_bytes(desc.key_type)) - desc.begin_bit;
                    const uint32_t passes = (bits + 7) / 8;
                    const bool has_buckets =
                        !parallel && !fixture_pair_has("rusticl") && info.compute_units <= 2 && launches > 1 && passes > 1;
                    const uint32_t all = launches == 1 ? 1 : has_buckets ? launches + 2 : launches * passes;
                    if (plan_info.num_launches != all)
                        fail_msg("%u launches, should be %u", plan_info.num_launches, all);
                    if (parallel)
                        assert_int_equal(plan_info.group_size, group_sizes[g]);
                }
                for (uint32_t s = 0; s < 7; ++s) {
                    draw(&desc, sizes[s], (key_fill)((s + combination) % NUM_KEY_FILLS));
                    check(plan, &desc, sizes[s], "forced tuning");
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
    const uint32_t sizes[] = {30000, 3, 700, 0, 65, 30000, 9000, 257}, large = item_limit() < 30000 ? 2000 : 30000;
    for (uint32_t v = 0; v < NUM_WAYS; v += 3) {
        clmoe_sort_desc desc = way_of(v, 30000);
        desc.tuning.num_launches = v % 4;
        clmoe_plan *plan = plan_for(&desc);
        rig.keep_workspace = true;
        for (uint32_t s = 0; s < 8; ++s) {
            draw(&desc, sizes[s], s % 2 == 0 ? KEYS_RANDOM : KEYS_FEW);
            check(plan, &desc, sizes[s], "used workspace");
        }
        rig.keep_workspace = false;
        for (uint32_t byte = 0; plan != NULL && byte < 4; ++byte) {
            op_call call;
            clmoe_sort_args args;
            draw(&desc, large, KEYS_RANDOM);
            describe(&call, &args, plan, &desc, large, 0, true, "filled workspace");
            call.scratch = (const unsigned char[]){0, 0xFF, 0x01, 0x80}[byte];
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_same_every_time(void **state) { /* C21: destinations mix(i) mod 1000; the last of each run is the one that wins */
    (void)state;
    const uint32_t n = fixture_pair_has("oclgrind") ? 2000 : fixture_pair_has("rusticl") ? 40009 : 99991;
    uint32_t *const last = test_calloc(1000, 4);
    for (uint32_t v = 4; v < NUM_WAYS; v += 11) {
        op_call call;
        clmoe_sort_args args;
        const clmoe_sort_desc desc = way_of(v, n);
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t i = 0; i < n; ++i) {
            put_key(desc.key_type, i, mix(i) % 1000);
            put_value(&desc, values, i, i);
            last[mix(i) % 1000] = i;
        }
        describe(&call, &args, plan, &desc, n, 0, true, "again and again");
        for (int round = 0; round < 20; ++round) {
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        if (desc.key_type == CLMOE_TYPE_U32 && desc.value_bytes == 4 && !desc.is_descending) {
            const uint32_t *const sorted = call_output(&rig, &call, 2), *const sources = call_output(&rig, &call, 3);
            for (uint32_t p = 0; p < n; ++p) {
                if (p + 1 == n || sorted[p] != sorted[p + 1])
                    assert_int_equal(sources[p], last[sorted[p]]);
            }
        }
        clmoe_plan_destroy(plan);
    }
    test_free(last);
}

static void test_queues(void **state) {
    (void)state;
    const uint32_t sizes[] = {0, 5, 30000};
    if (fixture_pair_has("oclgrind"))
        return;
    for (uint32_t i = 0; i < 12; ++i) {
        op_call call;
        clmoe_sort_args args;
        clmoe_sort_desc desc = way_of(i * 7, 30000);
        desc.begin_bit = i == 10 ? 9 : 0; /* 9 to 9: nothing to sort by, one pass, or all */
        desc.end_bit = i == 10 ? 9 : i == 8 ? 8 : 0;
        clmoe_plan *plan = plan_for(&desc);
        const uint32_t n = i == 10 ? 30000 : sizes[i % 3];
        draw(&desc, n, KEYS_RANDOM);
        describe(&call, &args, plan, &desc, n, 0, true, "queues");
        if (!call_on_queues(&rig, &call))
            fail_msg("%s", rig.failure);
        clmoe_plan_destroy(plan);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8}, sizes[] = {0, 7, 700, 20000, 300007};
    const align_rig outer = rig;
    if (rig.queue != NULL)
        return;
    for (uint32_t t = 0; t < 4; ++t) {
        clmoe_context_options options = {0};
        clmoe_context *context = NULL;
        options.num_threads = threads[t];
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        rig_begin(&rig, context, NULL);
        for (uint32_t v = 0; v < NUM_WAYS; v += 3) {
            clmoe_sort_desc desc = way_of(v, 300007);
            desc.tuning.num_launches = (v + t) % 4;
            clmoe_plan *plan = plan_for(&desc);
            for (uint32_t s = 0; s < (v % 5 == 0 ? 5 : 4); ++s) {
                draw(&desc, sizes[s], KEYS_RANDOM);
                check(plan, &desc, sizes[s], "threads");
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
                      8193, 20000, 65537);
    deck launches = DECK(0, 0, 1, 2, 3), groups = DECK(0, 0, 1, 2, 3, 7, 16, 61), group_sizes = DECK(0, 0, 0, 64);
    deck ways = DECK(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const bool parallel = device().kernel_class == CLMOE_CLASS_PARALLEL;
    const uint32_t num_plans = fixture_cases(500, 120, 60);
    for (uint32_t p = 0; p < num_plans; ++p) {
        const uint32_t dealt = deck_deal(&sizes, &chance), n = dealt < item_limit() ? dealt : item_limit();
        clmoe_sort_desc desc = way_of(deck_deal(&ways, &chance), n + (random_below(&chance, 3) == 0 ? random_below(&chance, 1000) : 0));
        const uint32_t bits = 8 * (uint32_t)oracle_type_bytes(desc.key_type);
        if (random_below(&chance, 2) == 0) {
            desc.end_bit = random_below(&chance, bits + 1);
            desc.begin_bit = random_below(&chance, desc.end_bit + 1);
        }
        desc.tuning.num_launches = deck_deal(&launches, &chance);
        desc.tuning.num_groups = deck_deal(&groups, &chance);
        desc.tuning.group_size = parallel && device().max_group_size >= 64 ? deck_deal(&group_sizes, &chance) : 0;
        clmoe_plan *plan = plan_for(&desc);
        for (uint32_t c = 0; plan != NULL && c < 4; ++c) {
            op_call call;
            clmoe_sort_args args;
            const uint32_t now = c == 0 ? n : random_below(&chance, n + 1);
            draw(&desc, now, (key_fill)random_below(&chance, NUM_KEY_FILLS));
            describe(&call, &args, plan, &desc, now, random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0, true, "random");
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
    const uint32_t ways[] = {4, 11, 29, 2, 24}; /* values of 4 and 8 bytes, argsort, keys alone */
    for (uint32_t v = 0; v < 5; ++v) {
        op_call call;
        clmoe_sort_args args, wrong;
        const clmoe_sort_desc desc = way_of(ways[v], v < 3 ? 40 : 20000);
        const uint32_t n = v < 3 ? 37 : item_limit() < 20000 ? 1500 : 19000;
        clmoe_plan *plan = plan_for(&desc);
        draw(&desc, n, KEYS_SPECIAL);
        describe(&call, &args, plan, &desc, n, v % 2 == 1 ? 3 : 0, true, "refusals");
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
        wrong = args;
        wrong.keys_out = wrong.keys;
        wrong.keys_out.size_bytes = args.keys_out.size_bytes;
        if (!call_refused(&rig, &call, &wrong, "in place", "keys"))
            fail_msg("%s", rig.failure);
        /* values where none belong: refused by name, or not touched */
        if (desc.value_bytes == 0 || desc.is_argsort) {
            op_call extra = call;
            clmoe_sort_args with = args;
            extra.args = &with;
            for (size_t i = 0; i < extra.num_operands; ++i)
                extra.operands[i].view =
                    (clmoe_buffer *)(void *)((char *)&with + ((const char *)call.operands[i].view - (const char *)&args));
            extra.operands[1].bytes = n * 4u;
            extra.operands[1].before = values;
            if (!call_prepare(&rig, &extra))
                fail_msg("%s", rig.failure);
            const clmoe_status status = enqueue(plan, rig.queue, &with, 0, NULL, NULL);
            if (rig.queue != NULL)
                clFinish(rig.queue);
            if (status == CLMOE_INVALID_ARGUMENT)
                expect_text("values where none belong", "values");
            else
                assert_int_equal(status, CLMOE_SUCCESS);
            if (!(status == CLMOE_SUCCESS ? call_check(&rig, &extra) : call_untouched(&rig, &extra)))
                fail_msg("values where none belong: %s", rig.failure);
        }
        clmoe_plan_info info;
        assert_int_equal(clmoe_plan_describe(plan, (size_t)desc.max_items + 1, &info), CLMOE_INVALID_ARGUMENT);
        assert_int_equal(clmoe_plan_describe(plan, (size_t)1 << 32, &info), CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
    }
}

#define PLAN_REFUSED(named, change)                                                                                                        \
    do {                                                                                                                                   \
        clmoe_sort_desc desc = valid;                                                                                                      \
        clmoe_plan *plan = NULL;                                                                                                           \
        change;                                                                                                                            \
        const clmoe_status status = clmoe_sort_plan_create(rig.context, &desc, &plan);                                                     \
        if (status != CLMOE_INVALID_ARGUMENT)                                                                                              \
            fail_msg("%s: %s, not refused", #change, clmoe_status_name(status));                                                           \
        assert_null(plan);                                                                                                                 \
        expect_text(#change, named);                                                                                                       \
        check(good, &valid, 100, "after a refused plan");                                                                                  \
    } while (0)

static void test_refused_descriptors(void **state) {
    (void)state;
    const clmoe_sort_desc valid = way_of(5, 100);
    clmoe_plan *good = plan_for(&valid), *none = NULL;
    draw(&valid, 100, KEYS_RANDOM);
    for (int type = CLMOE_TYPE_I64; type < 12; ++type)
        PLAN_REFUSED("key_type", desc.key_type = (clmoe_type)type);
    PLAN_REFUSED("key_type", desc.key_type = (clmoe_type)-1);
    const uint32_t widths[] = {1, 2, 3, 5, 7, 9, 16, UINT32_MAX};
    for (size_t i = 0; i < 8; ++i)
        PLAN_REFUSED("value_bytes", desc.value_bytes = widths[i]);
    PLAN_REFUSED("value_bytes", desc.is_argsort = 1; desc.value_bytes = 8);
    PLAN_REFUSED("value_bytes", desc.is_argsort = 1; desc.value_bytes = 0);
    PLAN_REFUSED("end_bit", desc.end_bit = 33);
    PLAN_REFUSED("end_bit", desc.end_bit = UINT32_MAX);
    PLAN_REFUSED("end_bit", desc.key_type = CLMOE_TYPE_U64; desc.end_bit = 65);
    PLAN_REFUSED("begin_bit", desc.begin_bit = 12; desc.end_bit = 11);
    PLAN_REFUSED("begin_bit", desc.begin_bit = 1; desc.end_bit = 0);
    PLAN_REFUSED("bit", desc.begin_bit = 33; desc.end_bit = 33);
    PLAN_REFUSED("begin_bit", desc.begin_bit = UINT32_MAX; desc.end_bit = 32);
    PLAN_REFUSED("max_items", desc.max_items = 1u << 31);
    PLAN_REFUSED("max_items", desc.max_items = UINT32_MAX);
    PLAN_REFUSED("num_launches", desc.tuning.num_launches = 4);
    PLAN_REFUSED("num_groups", desc.tuning.num_groups = 65537);
    if (device().kernel_class == CLMOE_CLASS_PARALLEL) {
        PLAN_REFUSED("group_size", desc.tuning.group_size = device().max_group_size + 1);
        PLAN_REFUSED("group_size", desc.tuning.group_size = UINT32_MAX);
    }
    assert_int_equal(clmoe_sort_plan_create(NULL, &valid, &none), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_sort_plan_create(rig.context, NULL, &none), CLMOE_INVALID_ARGUMENT);
    expect_text("desc NULL", "desc");
    assert_int_equal(clmoe_sort_plan_create(rig.context, &valid, NULL), CLMOE_INVALID_ARGUMENT);
    expect_text("plan NULL", "plan");
    assert_null(none);

    /* flags are true whatever their bits */
    for (uint32_t flag = 0; flag < 3; ++flag) {
        clmoe_sort_desc odd = way_of(12, 300);
        odd.is_argsort = (const int32_t[]){2, -1, INT32_MIN}[flag];
        odd.is_descending = (const int32_t[]){INT32_MIN, 2, -1}[flag];
        draw(&odd, 300, KEYS_FEW);
        check_once(&odd, 300, "flags");
    }
    /* 2^29 + 1 keys of 8 bytes: 8 in 32 bits; the workspace holds them all, so its size does not fit 32 bits either */
    const clmoe_sort_desc huge = way_of(11, (1u << 29) + 1);
    const clmoe_status status = clmoe_sort_plan_create(rig.context, &huge, &none);
    if (status != CLMOE_SUCCESS && !rig.ends_long_loops)
        fail_msg("2^29 + 1 keys: %s", clmoe_status_name(status));
    if (status == CLMOE_SUCCESS) {
        op_call call;
        clmoe_sort_args args, wrong;
        clmoe_plan_info info;
        if (clmoe_plan_describe(none, huge.max_items, &info) == CLMOE_SUCCESS)
            assert_true(clmoe_plan_workspace_bytes(none) == info.workspace_bytes && info.workspace_bytes >= (uint64_t)1 << 33);
        describe(&call, &args, good, &valid, 100, 0, true, "after sizes that wrap");
        assert_true(call_prepare(&rig, &call));
        wrong = args;
        wrong.num_items = huge.max_items;
        wrong.keys.offset_bytes = wrong.values.offset_bytes = wrong.keys_out.offset_bytes = wrong.values_out.offset_bytes = 64;
        wrong.keys.size_bytes = wrong.values.size_bytes = wrong.keys_out.size_bytes = wrong.values_out.size_bytes = 8;
        if (enqueue(none, rig.queue, &wrong, 0, NULL, NULL) != CLMOE_INVALID_ARGUMENT || !call_untouched(&rig, &call))
            fail_msg("8 * (2^29 + 1) bytes: %s", rig.failure);
        expect_text("8 * (2^29 + 1) bytes", "keys");
        clmoe_plan_destroy(none);
    }
    clmoe_plan_destroy(good);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    uint64_t **const arrays[] = {&keys, &values, &keys_expected, &values_expected};
    for (size_t i = 0; i < 4; ++i)
        *arrays[i] = malloc((MOST_ITEMS + 64) * sizeof **arrays[i]);
    if (context == NULL || keys == NULL || values == NULL || keys_expected == NULL || values_expected == NULL)
        return -1;
    rig_begin(&rig, context, clmoe_context_queue(context));
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    printf("%s: %llu calls checked, %u left out as too large; of forced tunings %u plans and %llu calls were refused\n", fixture_pair(),
           (unsigned long long)rig.calls, left_out, plans_refused, (unsigned long long)rig.calls_refused);
    for (size_t i = 0; i < sizeof kept / sizeof **kept; ++i)
        clmoe_plan_destroy(kept[i / 2][i % 2]);
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    free(keys);
    free(values);
    free(keys_expected);
    free(values_expected);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260105;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),
        TEST(test_stable_pairs),
        TEST(test_size_boundaries),
        TEST(test_many_groups),
        TEST(test_sizes),
        TEST(test_every_size),
        TEST(test_exact_plans),
        TEST(test_skew),
        TEST(test_bit_ranges),
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
