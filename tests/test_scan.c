/* test_scan.c - scan on one pair of device and class: known answers, every type and kind, in place and not, every size boundary, skewed and
 * random items, forced tuning, used workspaces, and every refusal. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_ITEMS 4200001u /* the serial class writes so many around the caches */
static align_rig rig;
static random_stream chance;
static uint64_t *items, *expected; /* MOST_ITEMS and some more */
static uint32_t left_out, plans_refused;
static clmoe_plan *kept[9][2];
static const clmoe_type types[] = {CLMOE_TYPE_U32, CLMOE_TYPE_I32, CLMOE_TYPE_U64};
static const uint32_t shifts[] = {1, 3, 7};

/* One way to call it: a type, a kind, in place or not. 12 in all. */
typedef struct way {
    clmoe_scan_desc desc;
    bool in_place;
} way;
#define NUM_WAYS 12

static way way_of(uint32_t number, uint32_t max_items) {
    way w = {0};
    w.desc.max_items = max_items;
    w.desc.type = types[number / 4 % 3];
    w.desc.kind = number % 4 / 2 == 0 ? CLMOE_SCAN_EXCLUSIVE : CLMOE_SCAN_INCLUSIVE;
    w.in_place = number % 2 != 0;
    return w;
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
    return clmoe_scan_enqueue(plan, queue, args, waits, list, event);
}

static bool is_forced(const clmoe_tuning *tuning) {
    return tuning->num_launches != 0 || tuning->group_size != 0 || tuning->num_groups != 0;
}

/* One plan of each program stays, so that the others find it compiled. */
static void keep_program(const clmoe_scan_desc *desc, size_t program) {
    const uint32_t size = desc->tuning.group_size;
    if (rig.queue != NULL && (size == 0 || size == 64) && kept[program][size == 64] == NULL)
        clmoe_scan_plan_create(rig.context, desc, &kept[program][size == 64]);
}

/* NULL if a driver that ends long loops makes a forced tuning impossible. */
static clmoe_plan *plan_for(const clmoe_scan_desc *desc) {
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_scan_plan_create(rig.context, desc, &plan);
    if (status == CLMOE_UNSUPPORTED && rig.ends_long_loops && is_forced(&desc->tuning)) {
        ++plans_refused;
        return NULL;
    }
    if (status != CLMOE_SUCCESS) {
        char text[400];
        clmoe_context_error(rig.context, text, sizeof text);
        fail_msg("plan of %u items, type %d, kind %d, launches %u, groups %u, group size %u: %s: %s", desc->max_items, (int)desc->type,
                 (int)desc->kind, desc->tuning.num_launches, desc->tuning.num_groups, desc->tuning.group_size, clmoe_status_name(status),
                 text);
    }
    keep_program(desc, (size_t)desc->type);
    return plan;
}

/* The call with n of the items, ready for call_run(). */
static void describe(op_call *call, clmoe_scan_args *args, clmoe_plan *plan, const way *w, uint32_t n, uint32_t slack, const char *name) {
    const size_t width = oracle_type_bytes(w->desc.type);
    memset(call, 0, sizeof *call);
    memset(args, 0, sizeof *args);
    snprintf(call->name, sizeof call->name, "%s {n %u of %u, type %d, %s, %s, slack %u, launches %u, groups %u, group size %u}", name, n,
             w->desc.max_items, (int)w->desc.type, w->desc.kind == CLMOE_SCAN_INCLUSIVE ? "inclusive" : "exclusive",
             w->in_place ? "in place" : "apart", slack, w->desc.tuning.num_launches, w->desc.tuning.num_groups, w->desc.tuning.group_size);
    call->plan = plan;
    call->args = args;
    call->args_bytes = sizeof *args;
    call->enqueue = enqueue;
    call->shift = shifts[n % 3];
    call->scratch = 0xA5;
    call->may_refuse = rig.ends_long_loops && is_forced(&w->desc.tuning);
    args->num_items = n;
    oracle_scan(w->desc.type, w->desc.kind, n, items, expected);
    operand *const input = &call->operands[call->num_operands++];
    *input = (operand){.name = "input", .view = &args->input, .width = width, .bytes = n * width, .before = items};
    if (w->in_place) {
        input->again = &args->output;
        input->after = expected;
    } else {
        input->spare = slack * width;
        input->bytes += input->spare;
        call->operands[call->num_operands++] =
            (operand){.name = "output", .view = &args->output, .width = width, .bytes = n * width, .after = expected, .is_output = true};
    }
    call_workspace(call, &args->workspace, width);
}

static void check(clmoe_plan *plan, const way *w, uint32_t n, uint32_t slack, const char *name) {
    op_call call;
    clmoe_scan_args args;
    if (n > item_limit()) {
        ++left_out;
        return;
    }
    describe(&call, &args, plan, w, n, slack, name);
    if (!call_run(&rig, &call))
        fail_msg("%s", rig.failure);
}

static void draw(const way *w, uint32_t n, key_fill how) { /* n items, and some that lie behind them */
    fill_keys(items, n + 20, w->desc.type, how, &chance);
}

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void check_known(clmoe_type type, clmoe_scan_kind kind, const void *input, const void *output, uint32_t n) {
    const size_t bytes = n * oracle_type_bytes(type);
    for (uint32_t in_place = 0; in_place < 2; ++in_place) {
        way w = way_of(0, n);
        w.desc.type = type;
        w.desc.kind = kind;
        w.in_place = in_place != 0;
        memcpy(items, input, bytes);
        oracle_scan(type, kind, n, items, expected);
        assert_memory_equal(expected, output, bytes);
        clmoe_plan *plan = plan_for(&w.desc);
        check(plan, &w, n, 0, "known");
        clmoe_plan_destroy(plan);
    }
}
#define KNOWN(type, kind, element, input, output)                                                                                          \
    check_known(type, kind, (const element[])input, (const element[])output, sizeof((const element[])input) / sizeof(element))
#define LIST(...)                                                                                                                          \
    { __VA_ARGS__ }

static void test_golden(void **state) {
    (void)state;
    KNOWN(CLMOE_TYPE_U32, CLMOE_SCAN_EXCLUSIVE, uint32_t, LIST(3, 1, 4, 1, 5), LIST(0, 3, 4, 8, 9));
    KNOWN(CLMOE_TYPE_I32, CLMOE_SCAN_INCLUSIVE, int32_t, LIST(3, 1, 4, 1, 5), LIST(3, 4, 8, 9, 14));
    KNOWN(CLMOE_TYPE_U32, CLMOE_SCAN_EXCLUSIVE, uint32_t, LIST(3, 1, 4, 1, 5, 9, 2, 6), LIST(0, 3, 4, 8, 9, 14, 23, 25)); /* C15 */
    KNOWN(CLMOE_TYPE_U32, CLMOE_SCAN_INCLUSIVE, uint32_t, LIST(UINT32_MAX, 1, UINT32_MAX, 2), LIST(UINT32_MAX, 0, UINT32_MAX, 1));
    KNOWN(CLMOE_TYPE_I32, CLMOE_SCAN_EXCLUSIVE, int32_t, LIST(INT32_MIN, INT32_MIN, INT32_MAX, 1, 7),
          LIST(0, INT32_MIN, 0, INT32_MAX, INT32_MIN));
    KNOWN(CLMOE_TYPE_I32, CLMOE_SCAN_INCLUSIVE, int32_t, LIST(-5, 3, -1), LIST(-5, -2, -3));
    KNOWN(CLMOE_TYPE_U64, CLMOE_SCAN_INCLUSIVE, uint64_t, LIST(UINT32_MAX, 1, UINT64_MAX, 1),
          LIST(UINT32_MAX, 0x100000000u, UINT32_MAX, 0x100000000u));
    KNOWN(CLMOE_TYPE_U64, CLMOE_SCAN_EXCLUSIVE, uint64_t, LIST(1ull << 63, 1ull << 63, 5), LIST(0, 1ull << 63, 0));
}

static void test_in_place(void **state) { /* C15: i mod 7, by its formula */
    (void)state;
    const uint32_t sizes[] = {1, 2, 63, 64, 65, 255, 256, 257, 1023, 1025, 4097, 65537, 1000003};
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const way w = way_of(v, 1000003);
        clmoe_plan *plan = plan_for(&w.desc);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            op_call call;
            clmoe_scan_args args;
            const bool wide = w.desc.type == CLMOE_TYPE_U64;
            if (sizes[s] > item_limit() || (v >= 4 && sizes[s] > 65537))
                continue;
            for (uint32_t i = 0; i < sizes[s]; ++i) {
                if (wide)
                    items[i] = i % 7;
                else
                    ((uint32_t *)items)[i] = i % 7;
            }
            describe(&call, &args, plan, &w, sizes[s], 0, "C15");
            for (uint32_t i = 0; i < sizes[s]; ++i) { /* over the oracle's */
                const uint32_t r = i % 7, before = 21 * (i / 7) + r * (r - 1) / 2,
                               sum = w.desc.kind == CLMOE_SCAN_INCLUSIVE ? before + r : before;
                if (wide)
                    expected[i] = sum;
                else
                    ((uint32_t *)expected)[i] = sum;
            }
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_many_groups(void **state) { /* C16: around what one group handles */
    (void)state;
    const uint32_t tops[] = {5000, 68931, 1000003};
    for (size_t t = 0; t < 3; ++t) {
        const way w = way_of(t % 2 == 0 ? 0 : 2, tops[t]);
        clmoe_plan_info info;
        if (tops[t] > item_limit())
            continue;
        clmoe_plan *plan = plan_for(&w.desc);
        assert_int_equal(clmoe_plan_describe(plan, tops[t], &info), CLMOE_SUCCESS);
        const uint32_t one = info.num_groups == 0 ? tops[t] : (tops[t] + info.num_groups - 1) / info.num_groups;
        const uint32_t sizes[] = {
            one - 1, one, one + 1, 2 * one, 2 * one + 1, info.group_size, info.group_size + 1, 2 * info.group_size + 1, tops[t]};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            const uint32_t n = sizes[s] < tops[t] ? sizes[s] : tops[t];
            for (uint32_t i = 0; i < n; ++i)
                ((uint32_t *)items)[i] = mix(i);
            check(plan, &w, n, 0, "C16");
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
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const way w = way_of(v, 68931);
        clmoe_plan *plan = plan_for(&w.desc);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            draw(&w, sizes[s], KEYS_RANDOM);
            check(plan, &w, sizes[s], s % 4 == 0 && !w.in_place ? 5 : 0, "sizes");
        }
        clmoe_plan_destroy(plan);
    }
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const way w = way_of(v, MOST_ITEMS);
        clmoe_plan *plan = plan_for(&w.desc);
        draw(&w, MOST_ITEMS, KEYS_RANDOM);
        check(plan, &w, 1000003, 0, "a million");
        check(plan, &w, MOST_ITEMS, 0, "four million");
        clmoe_plan_destroy(plan);
    }
}

static void test_every_size(void **state) { /* once with room for much more, once with exactly as much room */
    (void)state;
    const uint32_t step = fixture_pair_has("rusticl") ? 4 : 1;
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const way w = way_of(v, 512u << (v % 3 * 4));
        clmoe_plan *plan = plan_for(&w.desc);
        draw(&w, 512, KEYS_RANDOM);
        for (uint32_t n = 256 + v % step; n <= 512; n += step)
            check(plan, &w, n, 0, "every size");
        clmoe_plan_destroy(plan);
    }
}

static void test_exact_plans(void **state) { /* max_items = n, so that the workspace is as small as it can be */
    (void)state;
    const uint32_t sizes[] = {0, 1, 2, 32, 65, 255, 256, 257, 512, 1025, 4097, 6144, 8193, 20011, 65536, 65537, 99991};
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
            const way w = way_of(v, sizes[s]);
            clmoe_plan *plan = plan_for(&w.desc);
            clmoe_plan_info info;
            draw(&w, sizes[s], KEYS_RANDOM);
            check(plan, &w, sizes[s], 0, "exact plan");
            assert_int_equal(clmoe_plan_describe(plan, sizes[s], &info), CLMOE_SUCCESS);
            assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
            assert_true(info.bytes_read >= sizes[s] * oracle_type_bytes(w.desc.type) &&
                        info.bytes_written >= sizes[s] * oracle_type_bytes(w.desc.type));
            assert_true(info.num_launches <= 2 && strstr(info.name, "scan") != NULL);
            clmoe_plan_destroy(plan);
        }
    }
}

static void test_skew(void **state) {
    (void)state;
    const uint32_t sizes[] = {33, 513, 6144, 65537};
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        const way w = way_of(v, 65537);
        clmoe_plan *plan = plan_for(&w.desc);
        for (int how = 0; how < NUM_KEY_FILLS; ++how) {
            draw(&w, sizes[((uint32_t)how + v) % 4], (key_fill)how);
            check(plan, &w, sizes[((uint32_t)how + v) % 4], 0, key_fill_names[how]);
        }
        clmoe_plan_destroy(plan);
    }
}

/* ---- How it is carried out ------------------------------------------------------------------------------------------------------ */
static void test_forced_tuning(void **state) {
    (void)state;
    const uint32_t groups[] = {1, 2, 3, 7, 16}, group_sizes[] = {1, 32, 33, 64, 128, 256}, sizes[] = {700, 5, 129, 0, 64, 6143, 66000};
    const clmoe_device_info info = device();
    const bool parallel = info.kernel_class == CLMOE_CLASS_PARALLEL;
    uint32_t combination = 0;
    for (size_t g = 0; g < (parallel ? 6 : 1); ++g) {
        for (uint32_t launches = 1; launches <= 2; ++launches) {
            for (size_t k = 0; k < 5; ++k, ++combination) {
                way w = way_of(combination * 5 + (uint32_t)g, 66000);
                clmoe_plan_info plan_info;
                w.desc.tuning.num_launches = launches;
                w.desc.tuning.num_groups = groups[k];
                w.desc.tuning.group_size = parallel ? group_sizes[g] : 0;
                if (w.desc.tuning.group_size > info.max_group_size)
                    continue;
                clmoe_plan *plan = plan_for(&w.desc);
                if (plan == NULL)
                    continue;
                if (clmoe_plan_describe(plan, 66000, &plan_info) == CLMOE_SUCCESS && plan_info.note[0] == 0) {
                    assert_int_equal(plan_info.num_launches, launches);
                    if (parallel)
                        assert_int_equal(plan_info.group_size, group_sizes[g]);
                }
                for (size_t s = 0; s < 7; ++s) {
                    draw(&w, sizes[s], s % 2 == 0 ? KEYS_RANDOM : KEYS_SPECIAL);
                    check(plan, &w, sizes[s], 0, "forced tuning");
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
    for (uint32_t v = 0; v < NUM_WAYS; ++v) {
        way w = way_of(v, 66000);
        w.desc.tuning.num_launches = v % 3;
        clmoe_plan *plan = plan_for(&w.desc);
        rig.keep_workspace = true;
        for (size_t s = 0; plan != NULL && s < 8; ++s) {
            draw(&w, sizes[s], KEYS_RANDOM);
            check(plan, &w, sizes[s], 0, "used workspace");
        }
        rig.keep_workspace = false;
        for (uint32_t byte = 0; plan != NULL && byte < 4; ++byte) {
            op_call call;
            clmoe_scan_args args;
            describe(&call, &args, plan, &w, large, 0, "filled workspace");
            call.scratch = (const unsigned char[]){0, 0xFF, 0x01, 0x80}[byte];
            if (!call_run(&rig, &call))
                fail_msg("%s", rig.failure);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_same_every_time(void **state) {
    (void)state;
    for (uint32_t v = 1; v < NUM_WAYS; v += 3) {
        const way w = way_of(v, 99991);
        clmoe_plan *plan = plan_for(&w.desc);
        draw(&w, 99991, KEYS_RANDOM);
        op_call call;
        clmoe_scan_args args;
        describe(&call, &args, plan, &w, item_limit() < 99991 ? 5000 : 99991, 0, "again and again");
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
    for (uint32_t i = 0; i < 9; ++i) {
        op_call call;
        clmoe_scan_args args;
        way w = way_of(i * 5, 66000);
        w.desc.tuning.num_launches = i / 3;
        clmoe_plan *plan = plan_for(&w.desc);
        if (plan == NULL)
            continue;
        draw(&w, sizes[i % 3], KEYS_RANDOM);
        describe(&call, &args, plan, &w, sizes[i % 3], 0, "queues");
        if (!(call.may_refuse ? call_run(&rig, &call) : call_on_queues(&rig, &call)))
            fail_msg("%s", rig.failure);
        clmoe_plan_destroy(plan);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8}, sizes[] = {0, 7, 700, 70000, 1000003};
    const align_rig outer = rig;
    if (rig.queue != NULL)
        return;
    for (size_t t = 0; t < 4; ++t) {
        clmoe_context_options options = {0};
        clmoe_context *context = NULL;
        options.num_threads = threads[t];
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        rig_begin(&rig, context, NULL);
        for (uint32_t v = 0; v < NUM_WAYS; ++v) {
            way w = way_of(v, MOST_ITEMS);
            w.desc.tuning.num_launches = (v + (uint32_t)t) % 3;
            clmoe_plan *plan = plan_for(&w.desc);
            for (size_t s = 0; s < (v % 5 == 0 ? 5 : 4); ++s) {
                draw(&w, sizes[s], KEYS_RANDOM);
                check(plan, &w, sizes[s], 0, "threads");
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
    deck launches = DECK(0, 0, 1, 2), groups = DECK(0, 0, 1, 2, 3, 7, 16, 61, 1000), group_sizes = DECK(0, 0, 0, 64),
         ways = DECK(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    const bool parallel = device().kernel_class == CLMOE_CLASS_PARALLEL;
    const uint32_t num_plans = fixture_cases(600, 250, 100);
    for (uint32_t p = 0; p < num_plans; ++p) {
        const uint32_t dealt = deck_deal(&sizes, &chance), n = dealt < item_limit() ? dealt : item_limit();
        way w = way_of(deck_deal(&ways, &chance), n + (random_below(&chance, 3) == 0 ? random_below(&chance, 1000) : 0));
        w.desc.tuning.num_launches = deck_deal(&launches, &chance);
        w.desc.tuning.num_groups = deck_deal(&groups, &chance);
        w.desc.tuning.group_size = parallel && device().max_group_size >= 64 ? deck_deal(&group_sizes, &chance) : 0;
        clmoe_plan *plan = plan_for(&w.desc);
        for (uint32_t c = 0; plan != NULL && c < 4; ++c) {
            op_call call;
            clmoe_scan_args args;
            const uint32_t now = c == 0 ? n : random_below(&chance, n + 1);
            draw(&w, now, (key_fill)random_below(&chance, NUM_KEY_FILLS));
            describe(&call, &args, plan, &w, now, random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0, "random");
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
    for (uint32_t v = 0; v < 4; ++v) { /* small and large, 4 and 8 bytes, an input that is just long enough or longer */
        op_call call;
        clmoe_scan_args args, wrong;
        way w = way_of(v % 2 * 8, v < 2 ? 40 : 66000);
        const uint32_t n = v < 2 ? 37 : item_limit() < 66000 ? 5000 : 65000;
        clmoe_plan *plan = plan_for(&w.desc);
        draw(&w, n, KEYS_RANDOM);
        describe(&call, &args, plan, &w, n, v == 1 ? 3 : 0, "refusals");
        if (!call_refuses_views(&rig, &call) || !call_prepare(&rig, &call))
            fail_msg("%s", rig.failure);
        wrong = args;
        wrong.num_items = w.desc.max_items + 1;
        if (!call_refused(&rig, &call, &wrong, "n over max_items", "num_items"))
            fail_msg("%s", rig.failure);
        wrong = args;
        wrong.num_items = UINT32_MAX;
        if (!call_refused(&rig, &call, &wrong, "n = 2^32 - 1", "num_items"))
            fail_msg("%s", rig.failure);
        wrong = args;
        wrong.num_items = n - 1; /* the output is [n], no longer; an input may be */
        if (!call_refused(&rig, &call, &wrong, "an output that is too long", "output"))
            fail_msg("%s", rig.failure);
        clmoe_plan_info info;
        assert_int_equal(clmoe_plan_describe(plan, (size_t)w.desc.max_items + 1, &info), CLMOE_INVALID_ARGUMENT);
        assert_int_equal(clmoe_plan_describe(plan, (size_t)1 << 32, &info), CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
    }
}

#define PLAN_REFUSED(named, change)                                                                                                        \
    do {                                                                                                                                   \
        clmoe_scan_desc desc = valid.desc;                                                                                                 \
        clmoe_plan *plan = NULL;                                                                                                           \
        change;                                                                                                                            \
        const clmoe_status status = clmoe_scan_plan_create(rig.context, &desc, &plan);                                                     \
        if (status != CLMOE_INVALID_ARGUMENT)                                                                                              \
            fail_msg("%s: %s, not refused", #change, clmoe_status_name(status));                                                           \
        assert_null(plan);                                                                                                                 \
        expect_text(#change, named);                                                                                                       \
        check(good, &valid, 100, 0, "after a refused plan");                                                                               \
    } while (0)

static void test_refused_descriptors(void **state) {
    (void)state;
    const way valid = way_of(0, 100);
    clmoe_plan *good = plan_for(&valid.desc), *none = NULL;
    draw(&valid, 100, KEYS_RANDOM);
    for (int type = -1; type < 20; ++type) {
        if (type != CLMOE_TYPE_U32 && type != CLMOE_TYPE_I32 && type != CLMOE_TYPE_U64)
            PLAN_REFUSED("type", desc.type = (clmoe_type)type);
    }
    PLAN_REFUSED("kind", desc.kind = (clmoe_scan_kind)2);
    PLAN_REFUSED("kind", desc.kind = (clmoe_scan_kind)-1);
    PLAN_REFUSED("max_items", desc.max_items = 1u << 31);
    PLAN_REFUSED("max_items", desc.max_items = UINT32_MAX);
    PLAN_REFUSED("num_launches", desc.tuning.num_launches = 4);
    PLAN_REFUSED("num_launches", desc.tuning.num_launches = UINT32_MAX);
    PLAN_REFUSED("num_groups", desc.tuning.num_groups = 65537);
    if (device().kernel_class == CLMOE_CLASS_PARALLEL) {
        PLAN_REFUSED("group_size", desc.tuning.group_size = device().max_group_size + 1);
        PLAN_REFUSED("group_size", desc.tuning.group_size = UINT32_MAX);
    }
    assert_int_equal(clmoe_scan_plan_create(NULL, &valid.desc, &none), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_scan_plan_create(rig.context, NULL, &none), CLMOE_INVALID_ARGUMENT);
    expect_text("desc NULL", "desc");
    assert_int_equal(clmoe_scan_plan_create(rig.context, &valid.desc, NULL), CLMOE_INVALID_ARGUMENT);
    expect_text("plan NULL", "plan");
    assert_null(none);

    /* 2^29 + 1 items of 8 bytes: 8 in 32 bits */
    way huge = way_of(8, (1u << 29) + 1);
    const clmoe_status status = clmoe_scan_plan_create(rig.context, &huge.desc, &none);
    if (status != CLMOE_SUCCESS && !rig.ends_long_loops)
        fail_msg("2^29 + 1 items: %s", clmoe_status_name(status));
    if (status == CLMOE_SUCCESS) {
        op_call call;
        clmoe_scan_args args, wrong;
        describe(&call, &args, good, &valid, 100, 0, "after sizes that wrap");
        assert_true(call_prepare(&rig, &call));
        wrong = args;
        wrong.num_items = huge.desc.max_items;
        wrong.input.offset_bytes = wrong.output.offset_bytes = 64;
        wrong.input.size_bytes = wrong.output.size_bytes = 8;
        call.plan = none;
        if (call.enqueue(none, rig.queue, &wrong, 0, NULL, NULL) != CLMOE_INVALID_ARGUMENT || !call_untouched(&rig, &call))
            fail_msg("8 * (2^29 + 1) bytes: %s", rig.failure);
        expect_text("8 * (2^29 + 1) bytes", "put");
        clmoe_plan_destroy(none);
    }
    /* a launch too many, if it is not refused, changes nothing */
    way three = way_of(0, 5000);
    three.desc.tuning.num_launches = 3;
    none = NULL;
    if (clmoe_scan_plan_create(rig.context, &three.desc, &none) == CLMOE_SUCCESS) {
        draw(&three, 5000, KEYS_RANDOM);
        check(none, &three, 5000, 0, "three launches");
        clmoe_plan_destroy(none);
    } else
        expect_text("three launches", "num_launches");
    clmoe_plan_destroy(good);
}

static void test_plans_of_other_operators(void **state) {
    (void)state;
    clmoe_plan *plans[4] = {NULL};
    const clmoe_align_desc align = {.max_tokens = 10, .top_k = 1, .num_experts = 2, .block_size = 1};
    const clmoe_histogram_desc histogram = {.max_items = 10, .num_bins = 4};
    const clmoe_scan_desc scan = {.max_items = 10};
    const clmoe_sort_desc sort = {.max_items = 10};
    assert_int_equal(clmoe_align_plan_create(rig.context, &align, &plans[0]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_histogram_plan_create(rig.context, &histogram, &plans[1]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_scan_plan_create(rig.context, &scan, &plans[2]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_sort_plan_create(rig.context, &sort, &plans[3]), CLMOE_SUCCESS);
    for (size_t p = 0; p < 4; ++p) {
        const clmoe_align_args align_args = {0};
        const clmoe_histogram_args histogram_args = {0};
        const clmoe_scan_args scan_args = {0};
        const clmoe_sort_args sort_args = {0};
        const clmoe_status status[] = {
            p == 0 ? CLMOE_INVALID_ARGUMENT : clmoe_align_enqueue(plans[p], rig.queue, &align_args, 0, NULL, NULL),
            p == 1 ? CLMOE_INVALID_ARGUMENT : clmoe_histogram_enqueue(plans[p], rig.queue, &histogram_args, 0, NULL, NULL),
            p == 2 ? CLMOE_INVALID_ARGUMENT : clmoe_scan_enqueue(plans[p], rig.queue, &scan_args, 0, NULL, NULL),
            p == 3 ? CLMOE_INVALID_ARGUMENT : clmoe_sort_enqueue(plans[p], rig.queue, &sort_args, 0, NULL, NULL)};
        for (size_t op = 0; op < 4; ++op)
            assert_int_equal(status[op], CLMOE_INVALID_ARGUMENT);
        expect_text("another operator's plan", "plan");
    }
    for (size_t p = 0; p < 4; ++p)
        clmoe_plan_destroy(plans[p]);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    items = malloc((MOST_ITEMS + 64) * sizeof *items);
    expected = malloc((MOST_ITEMS + 64) * sizeof *expected);
    if (context == NULL || items == NULL || expected == NULL)
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
    free(items);
    free(expected);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260103;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),
        TEST(test_in_place),
        TEST(test_many_groups),
        TEST(test_sizes),
        TEST(test_every_size),
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
        TEST(test_plans_of_other_operators),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
