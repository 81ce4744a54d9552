/* test_align.c - align on one pair of device and class: known answers, field reports, every size boundary, a covering random sample of
 * everything that can be combined, forced tuning, and every refusal. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static align_rig rig;
static random_stream chance;
static uint32_t calls_left_out, tunings_refused;

static clmoe_class class_in_use(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info.kernel_class;
}

static uint32_t largest_group(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info.max_group_size;
}

static clmoe_plan *plan_for(const align_case *c) {
    clmoe_plan *plan = NULL;
    char text[400];
    const clmoe_status status = clmoe_align_plan_create(rig.context, &c->desc, &plan);
    clmoe_context_error(rig.context, text, sizeof text);
    if (status != CLMOE_SUCCESS)
        fail_msg("%s: plan: %s: %s", c->name, clmoe_status_name(status), text);
    return plan;
}

static void check(clmoe_plan *plan, const align_case *c) {
    if (!run_align(&rig, plan, c))
        fail_msg("%s", rig.failure);
}

static void check_once(const align_case *c) {
    if (!run_align_once(&rig, c, NULL))
        fail_msg("%s", rig.failure);
}

/* A driver that cuts long loops may make the library refuse tens of thousands of experts; 8192 are for everybody. */
static bool check_once_or_too_many_experts(const align_case *c) {
    bool refused = false;
    if (!run_align_once(&rig, c, &refused))
        fail_msg("%s", rig.failure);
    if (refused && !(rig.ends_long_loops && c->desc.num_experts > 8192))
        fail_msg("%s: refused", c->name);
    return !refused;
}

static const int32_t *values_of(int slot) {
    return (const int32_t *)(const void *)(rig.slots[slot].back + rig.slots[slot].view_offset);
}

static void expect_values(int slot, const int32_t *expected, size_t count) {
    assert_true(rig.slots[slot].view_bytes >= count * 4);
    for (size_t i = 0; i < count; ++i) {
        int32_t found;
        memcpy(&found, values_of(slot) + i, 4);
        if (found != expected[i])
            fail_msg("%s[%zu] is %d, should be %d", slot_names[slot], i, found, expected[i]);
    }
}
#define EXPECT(slot, ...) expect_values(slot, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void test_bound(void **state) {
    (void)state;
    for (uint32_t foreign = 0; foreign < 3; ++foreign) {
        for (uint32_t E = 1; E <= 4; ++E) {
            for (uint32_t B = 1; B <= 8; ++B) {
                for (uint32_t N = 0; N <= 9; ++N) {
                    clmoe_align_desc desc = {0};
                    uint32_t rows = 0xA5A5A5A5u;
                    desc.max_tokens = 9;
                    desc.top_k = 1;
                    desc.num_experts = E;
                    desc.block_size = B;
                    desc.foreign = (clmoe_foreign)foreign;
                    assert_int_equal(clmoe_align_max_rows(&desc, N, &rows), CLMOE_SUCCESS);
                    assert_int_equal(rows, oracle_align_max_rows(N, E, B, desc.foreign));
                    assert_int_equal(rows, oracle_align_max_rows_tried(N, E, B, desc.foreign));
                }
            }
        }
    }
    for (int i = 0; i < 20000; ++i) { /* the formula in 64 bits, and a refusal exactly where 31 bits do not hold it */
        clmoe_align_desc desc = {0};
        desc.max_tokens = 1 + (uint32_t)(random_bits(&chance) >> (33 + random_below(&chance, 31)));
        desc.top_k = 1 + random_below(&chance, 64);
        desc.num_experts = 1 + (uint32_t)(random_bits(&chance) >> (48 + random_below(&chance, 16)));
        desc.block_size = 1 + (uint32_t)(random_bits(&chance) >> (33 + random_below(&chance, 31)));
        desc.foreign = (clmoe_foreign)random_below(&chance, 3);
        const uint64_t N = (uint64_t)desc.max_tokens * desc.top_k;
        const uint64_t bound = oracle_align_max_rows(N, desc.num_experts, desc.block_size, desc.foreign);
        uint32_t rows = 0;
        const clmoe_status status = clmoe_align_max_rows(&desc, desc.max_tokens, &rows);
        if (N > INT32_MAX || bound > INT32_MAX)
            assert_int_equal(status, CLMOE_INVALID_ARGUMENT);
        else
            assert_int_equal(status, CLMOE_SUCCESS);
        if (status == CLMOE_SUCCESS)
            assert_int_equal(rows, bound);
    }
}

static void test_golden(void **state) {
    (void)state;
    align_case c;
    case_begin(&c, "the founding example", 4, 2, 4, 2);
    case_ids(&c, (const int64_t[]){0, 2, 2, 1, 0, 2, 3, 2});
    for (uint32_t i = 0; i < 8; ++i)
        c.weights[i] = 1000 + i;
    assert_int_equal(case_capacity(&c), 12);
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 0, 4, 3, 8, 1, 2, 5, 7, 6, 8, 8, 8);
    EXPECT(SLOT_EXPERT_IDS, 0, 1, 2, 2, 3, -1);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 10);
    EXPECT(SLOT_COUNTS, 2, 1, 4, 1);
    EXPECT(SLOT_OFFSETS, 0, 2, 3, 7, 8);
    EXPECT(SLOT_PADDED_OFFSETS, 0, 2, 4, 8, 10);
    EXPECT(SLOT_INVERSE, 0, 4, 5, 2, 1, 6, 8, 7);
    EXPECT(SLOT_ROWS_VALID, 2, 1, 2, 2, 1, 0);
    EXPECT(SLOT_SORTED_WEIGHTS, 1000, 1004, 1003, 0, 1001, 1002, 1005, 1007, 1006, 0, 0, 0);
    EXPECT(SLOT_STATUS, 0, 0, 4, 0);

    const int64_t ids[] = {0, 2, 2, 1, 0, 2, 3, 2};
    int32_t order[8], rank[8]; /* the document's remaining steps, from the outputs */
    for (int32_t f = 0; f < 8; ++f) {
        const int32_t row = values_of(SLOT_INVERSE)[f], e = (int32_t)ids[f];
        rank[f] = row - values_of(SLOT_PADDED_OFFSETS)[e];
        order[values_of(SLOT_OFFSETS)[e] + rank[f]] = f;
    }
    assert_memory_equal(order, ((const int32_t[]){0, 4, 3, 1, 2, 5, 7, 6}), sizeof order);
    for (int i = 0; i < 8; ++i)
        assert_int_equal(rank[order[i]], ((const int32_t[]){0, 1, 0, 0, 1, 2, 3, 0})[i]);

    c.desc.has_pad_value = 1;
    c.desc.pad_value = -1;
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 0, 4, 3, -1, 1, 2, 5, 7, 6, -1, -1, -1);
    c.desc.has_pad_value = 0;

    case_map(&c, (const int32_t[]){1, -1, 0, 7}); /* DROP: experts 1 and 3 are elsewhere */
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 1, 2, 5, 7, 0, 4, 8, 8, 8, 8, 8, 8);
    EXPECT(SLOT_EXPERT_IDS, 0, 0, 1, -1, -1, -1);
    EXPECT(SLOT_COUNTS, 4, 2, 0, 0);
    EXPECT(SLOT_OFFSETS, 0, 4, 6, 6, 6);
    EXPECT(SLOT_STATUS, 0, 2, 2, 0);
    c.desc.foreign = CLMOE_FOREIGN_KEEP;
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 0, 4, 3, 8, 1, 2, 5, 7, 6, 8, 8, 8);
    EXPECT(SLOT_EXPERT_IDS, 1, -1, 0, 0, -1, -1);
    EXPECT(SLOT_COUNTS, 2, 1, 4, 1);
    EXPECT(SLOT_STATUS, 0, 2, 4, 0);
    c.desc.foreign = CLMOE_FOREIGN_BUCKET;
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 3, 6, 1, 2, 5, 7, 0, 4, 8, 8, 8, 8);
    EXPECT(SLOT_EXPERT_IDS, -1, 0, 0, 1, -1, -1);
    EXPECT(SLOT_COUNTS, 4, 2, 0, 0);
    EXPECT(SLOT_OFFSETS, 2, 6, 8, 8, 8);
    EXPECT(SLOT_PADDED_OFFSETS, 2, 6, 8, 8, 8);
    EXPECT(SLOT_STATUS, 0, 2, 2, 0);
    case_end(&c);
}

static void test_last_expert_keeps_its_tokens(void **state) { /* C01 */
    (void)state;
    align_case c;
    case_begin(&c, "C01", 4, 2, 4, 4);
    case_ids(&c, (const int64_t[]){3, 0, 3, 1, 3, 2, 3, 0});
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 1, 7, 8, 8, 3, 8, 8, 8, 5, 8, 8, 8, 0, 2, 4, 6);
    EXPECT(SLOT_EXPERT_IDS, 0, 1, 2, 3);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 16);
    case_end(&c);
    const uint32_t experts[] = {1, 2, 64, 256};
    for (size_t i = 0; i < 4; ++i) {
        case_begin(&c, "C01, all on the last expert", 4, 2, experts[i], 4);
        case_fill(&c, FILL_LAST_EXPERT, &chance);
        check_once(&c);
        EXPECT(SLOT_SORTED_TOKEN_IDS, 0, 1, 2, 3, 4, 5, 6, 7);
        EXPECT(SLOT_EXPERT_IDS, (int32_t)experts[i] - 1, (int32_t)experts[i] - 1);
        EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 8);
        case_end(&c);
    }
}

static void test_more_experts_than_work_items(void **state) { /* C02 */
    (void)state;
    const uint32_t facts[3][4] = {
        {1025, 16400, 0x92d02fe7u, 0xfd5108ecu}, {2048, 32768, 0xb368e867u, 0xac2000c7u}, {4096, 65536, 0xab386e5au, 0x2f5700c1u}};
    int64_t *ids = test_malloc(513 * 8 * sizeof *ids);
    for (size_t i = 0; i < 3; ++i) {
        align_case c;
        case_begin(&c, "C02", 513, 8, facts[i][0], 16);
        for (uint32_t f = 0; f < 513 * 8; ++f)
            ids[f] = f * 7 % facts[i][0];
        case_ids(&c, ids);
        if (!fixture_fits(fixture_pair(), &c))
            ++calls_left_out;
        else if (check_once_or_too_many_experts(&c)) {
            const uint32_t P = facts[i][1];
            EXPECT(SLOT_NUM_TOKENS_POST_PADDED, (int32_t)P);
            assert_int_equal(crc32_of(values_of(SLOT_SORTED_TOKEN_IDS), P * 4), facts[i][2]);
            assert_int_equal(crc32_of(values_of(SLOT_EXPERT_IDS), P / 16 * 4), facts[i][3]);
            assert_int_equal(values_of(SLOT_EXPERT_IDS)[P / 16 - 1], facts[i][0] - 1);
        } else
            printf("C02: E = %u is too much for the parallel class here\n", facts[i][0]);
        case_end(&c);
    }
    test_free(ids);
}

static void test_rows_of_minus_one(void **state) { /* C03 */
    (void)state;
    align_case c;
    case_begin(&c, "C03", 8, 2, 4, 4);
    case_ids(&c, (const int64_t[]){1, 3, 0, 1, 2, 1, 3, 0, 1, 2, -1, -1, -1, -1, -1, -1});
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 2, 7, 16, 16, 0, 3, 5, 8, 4, 9, 16, 16, 1, 6, 16, 16);
    EXPECT(SLOT_EXPERT_IDS, 0, 1, 2, 3);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 16);
    EXPECT(SLOT_STATUS, 6, 0, 4, 0);
    case_ids(&c, (const int64_t[]){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1});
    check_once(&c);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 0);
    EXPECT(SLOT_STATUS, 16, 0, 0, 0);
    c.desc.foreign = CLMOE_FOREIGN_BUCKET;
    check_once(&c);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 16);
    EXPECT(SLOT_EXPERT_IDS, -1, -1, -1, -1);
    EXPECT(SLOT_STATUS, 0, 16, 0, 0);
    case_end(&c);
}

static void test_experts_elsewhere(void **state) { /* C04 */
    (void)state;
    align_case c;
    case_begin(&c, "C04", 3, 2, 8, 2);
    case_ids(&c, (const int64_t[]){0, 2, 3, 6, 7, 1});
    case_map(&c, (const int32_t[]){-1, -1, 0, 1, -1, -1, 2, 3});
    c.desc.foreign = CLMOE_FOREIGN_KEEP;
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 0, 6, 5, 6, 1, 6, 2, 6, 3, 6, 4, 6);
    EXPECT(SLOT_EXPERT_IDS, -1, -1, 0, 1, 2, 3);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 12);
    c.desc.foreign = CLMOE_FOREIGN_DROP;
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 1, 6, 2, 6, 3, 6, 4, 6);
    EXPECT(SLOT_EXPERT_IDS, 0, 1, 2, 3);
    EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 8);
    case_end(&c);
}

static void test_nothing_unwritten(void **state) { /* C05: a large batch first, then small ones with the same plan and workspace */
    (void)state;
    const uint32_t tokens[] = {1, 2, 3, 7, 8, 31, 33}, slots[] = {1, 2, 8}, experts[] = {8, 60, 128}, blocks[] = {1, 16, 64};
    rig.keep_workspace = true;
    for (size_t k = 0; k < 3; ++k) {
        for (size_t e = 0; e < 3; ++e) {
            for (size_t b = 0; b < 3; ++b) {
                align_case c;
                case_begin(&c, "C05, large", 500, slots[k], experts[e], blocks[b]);
                clmoe_plan *plan = plan_for(&c);
                case_fill(&c, FILL_UNIFORM, &chance);
                if (fixture_fits(fixture_pair(), &c))
                    check(plan, &c);
                snprintf(c.name, sizeof c.name, "C05, small after large");
                for (size_t t = 0; t < 7; ++t) {
                    c.num_tokens = tokens[t];
                    case_fill(&c, FILL_UNIFORM, &chance);
                    check(plan, &c);
                }
                clmoe_plan_destroy(plan);
                case_end(&c);
            }
        }
    }
    rig.keep_workspace = false;
}

static void test_same_order_every_time(void **state) { /* C06 */
    (void)state;
    const uint32_t facts[2][7] = {{4097, 16, 128, 64, 69824, 0x31b1f7d0u, 0xd2c0633eu}, {2048, 4, 16, 64, 8704, 0x1802731du, 0x74693caeu}};
    const int32_t first[2][6] = {{0, 393, 486, 512, 786, 1410}, {0, 1, 21, 53, 80, 88}};
    for (size_t i = 0; i < 2; ++i) {
        align_case c;
        case_begin(&c, "C06", facts[i][0], facts[i][1], facts[i][2], facts[i][3]);
        case_fill(&c, FILL_MIX, &chance);
        if (!fixture_fits(fixture_pair(), &c)) {
            ++calls_left_out;
            case_end(&c);
            continue;
        }
        clmoe_plan *plan = plan_for(&c);
        for (uint32_t run = 0; run < 100; ++run) {
            check(plan, &c);
            assert_int_equal(values_of(SLOT_NUM_TOKENS_POST_PADDED)[0], facts[i][4]);
            expect_values(SLOT_SORTED_TOKEN_IDS, first[i], 6);
            assert_int_equal(crc32_of(values_of(SLOT_SORTED_TOKEN_IDS), facts[i][4] * 4), facts[i][5]);
            assert_int_equal(crc32_of(values_of(SLOT_EXPERT_IDS), facts[i][4] / 64 * 4), facts[i][6]);
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

static void test_pair_numbers_not_tokens(void **state) { /* C07 */
    (void)state;
    align_case c;
    case_begin(&c, "C07", 2, 3, 3, 2);
    case_ids(&c, (const int64_t[]){2, 0, 1, 1, 2, 0});
    const float weights[] = {.1f, .2f, .3f, .4f, .5f, .6f}, expected[] = {.2f, .6f, .3f, .4f, .1f, .5f};
    memcpy(c.weights, weights, sizeof weights);
    check_once(&c);
    EXPECT(SLOT_SORTED_TOKEN_IDS, 1, 5, 2, 3, 0, 4);
    EXPECT(SLOT_EXPERT_IDS, 0, 1, 2);
    assert_memory_equal(values_of(SLOT_SORTED_WEIGHTS), expected, sizeof expected);
    for (int i = 0; i < 6; ++i)
        assert_int_equal(values_of(SLOT_SORTED_TOKEN_IDS)[i] / 3, i % 2);
    case_end(&c);
}

static void test_nothing_to_do(void **state) { /* C19 */
    (void)state;
    for (uint32_t foreign = 0; foreign < 3; ++foreign) {
        for (uint32_t variant = 0; variant < 4; ++variant) {
            align_case c;
            case_begin(&c, variant < 2 ? "C19, T = 0 and max_tokens = 0" : "C19, T = 0", 0, 8, 256, 64);
            c.desc.max_tokens = variant < 2 ? 0 : 64;
            c.desc.foreign = (clmoe_foreign)foreign;
            c.capacity = variant % 2 == 0 ? 0 : 640; /* a capacity of 0 rows has no views at all */
            case_ids(&c, NULL);
            check_once(&c);
            case_tokens_device(&c, 5);
            case_map_fill(&c, MAP_RANDOM, &chance);
            check_once(&c);
            c.optional = 0;
            check_once(&c);
            case_end(&c);
        }
    }
    align_case c;
    case_begin(&c, "C19, after it", 64, 8, 256, 64);
    clmoe_plan *plan = plan_for(&c);
    case_fill(&c, FILL_UNIFORM, &chance);
    for (int round = 0; round < 3; ++round) {
        c.num_tokens = round == 1 ? 0 : 64;
        check(plan, &c);
    }
    clmoe_plan_destroy(plan);
    case_end(&c);
}

/* ---- Boundaries ----------------------------------------------------------------------------------------------------------------- */
static void test_sizes(void **state) {
    (void)state;
    const uint32_t sizes[] = {0,    1,    2,    3,    15,    16,    17,    31,    32,    33,    63,    64,    65,   127,  128,
                              129,  255,  256,  257,  511,   512,   513,   1023,  1024,  1025,  2047,  2048,  2049, 4095, 4096,
                              4097, 8191, 8192, 8193, 16383, 16384, 16385, 32767, 32768, 32769, 65535, 65536, 65537};
    const uint32_t shapes[][3] = {{1, 8, 16}, {1, 256, 64}, {2, 64, 1}, {3, 33, 48}, {8, 1024, 16}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; ++s) {
        align_case c;
        case_begin(&c, "sizes", 65537, shapes[s][0], shapes[s][1], shapes[s][2]);
        clmoe_plan *plan = plan_for(&c);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
            c.num_tokens = (sizes[i] + shapes[s][0] - 1) / shapes[s][0];
            c.shift = (const uint32_t[]){1, 3, 7}[i % 3];
            case_fill(&c, i % 2 == 0 ? FILL_UNIFORM : FILL_ZIPF, &chance);
            if (fixture_fits(fixture_pair(), &c))
                check(plan, &c);
            else
                ++calls_left_out;
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

static void test_experts(void **state) {
    (void)state;
    const uint32_t experts[] = {1,   2,   3,   4,   5,   31,  32,  33,  60,  63,  64,  65,  127, 128,  129,
                                160, 255, 256, 257, 384, 511, 512, 513, 768, 895, 896, 992, 993, 1023, 1024};
    for (size_t i = 0; i < sizeof experts / sizeof experts[0]; ++i) {
        align_case c;
        case_begin(&c, "experts", 200, 7, experts[i], 3);
        c.desc.foreign = (clmoe_foreign)(i % 3);
        clmoe_plan *plan = plan_for(&c);
        const fill fills[] = {FILL_UNIFORM, FILL_LAST_EXPERT, FILL_SOME_INVALID, FILL_SORTED};
        for (size_t f = 0; f < 4; ++f) {
            c.num_tokens = f == 3 ? 3 : 200;
            case_fill(&c, fills[f], &chance);
            if (fixture_fits(fixture_pair(), &c))
                check(plan, &c);
            else
                ++calls_left_out;
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

static void test_large_experts(void **state) {
    (void)state;
    const uint32_t experts[] = {1025, 1536, 2047, 4095, 8191, 8192, 70000};
    for (size_t i = 0; i < sizeof experts / sizeof experts[0]; ++i) {
        align_case c;
        case_begin(&c, "many experts", 40, 8, experts[i], 16);
        c.desc.foreign = (clmoe_foreign)(i % 3);
        if (i % 2 == 0)
            case_map_fill(&c, MAP_RANDOM, &chance);
        case_fill(&c, FILL_SOME_INVALID, &chance);
        if (!fixture_fits(fixture_pair(), &c))
            ++calls_left_out;
        else if (!check_once_or_too_many_experts(&c))
            printf("E = %u is too much here\n", experts[i]);
        case_end(&c);
    }
    /* More pairs than experts, and each path by force where the driver lets it. */
    const uint32_t more[] = {1025, 2048, 4095, 4096, 8192};
    for (size_t i = 0; i < 4 * sizeof more / sizeof more[0]; ++i) {
        align_case c;
        case_begin(&c, "many experts, many pairs", 1500, 8, more[i / 4], 16);
        c.desc.tuning.num_launches = (uint32_t)(i % 4);
        case_fill(&c, i % 2 == 0 ? FILL_UNIFORM : FILL_ZIPF, &chance);
        bool refused = false;
        if (!run_align_once(&rig, &c, &refused))
            fail_msg("%s", rig.failure);
        if (refused && !(rig.ends_long_loops && c.desc.tuning.num_launches != 0))
            fail_msg("%s: refused", c.name);
        case_end(&c);
    }
}

static void test_a_million_pairs(void **state) {
    (void)state;
    align_case c;
    case_begin(&c, "a million pairs", 125000, 8, 1024, 64);
    case_fill(&c, FILL_ZIPF, &chance);
    if (fixture_fits(fixture_pair(), &c))
        check_once(&c);
    else
        ++calls_left_out;
    case_end(&c);
}

static void test_optional_outputs(void **state) {
    (void)state;
    align_case c;
    case_begin(&c, "optional outputs", 600, 4, 60, 16);
    clmoe_plan *plan = plan_for(&c);
    const uint32_t step = fixture_cases(1, 1, 3);
    for (uint32_t tokens = 5; tokens <= 600; tokens += 595) {
        c.num_tokens = tokens;
        case_fill(&c, FILL_SOME_INVALID, &chance);
        for (uint32_t pattern = 0; pattern < 128; ++pattern) {
            const bool few = (pattern & (pattern - 1)) == 0 || pattern == 127;
            if (!few && (pattern + tokens) % step != 0)
                continue;
            c.optional = pattern;
            check(plan, &c);
        }
    }
    clmoe_plan_destroy(plan);
    case_end(&c);
}

static void test_tokens_on_the_device(void **state) {
    (void)state;
    const int32_t tokens[] = {INT32_MIN, -1, 0, 1, 2, 31, 99, 100, 101, 150, 500, INT32_MAX};
    for (uint32_t foreign = 0; foreign < 3; ++foreign) {
        align_case c;
        case_begin(&c, "device-side T", 150, 3, 40, 8);
        c.desc.foreign = (clmoe_foreign)foreign;
        clmoe_plan *plan = plan_for(&c);
        c.num_tokens = 100;
        case_fill(&c, FILL_SOME_INVALID, &chance);
        for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; ++i) {
            case_tokens_device(&c, tokens[i]);
            if (i % 3 == 2)
                case_mask(&c, 50, &chance);
            check(plan, &c);
        }
        case_mask(&c, 0, &chance);
        check(plan, &c);
        EXPECT(SLOT_NUM_TOKENS_POST_PADDED, 0);
        EXPECT(SLOT_STATUS, 0, 0, 0, 0);
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

/* ---- Forced tuning -------------------------------------------------------------------------------------------------------------- */
static void run_or_count_refusal(align_case *c, const fill *fills, const uint32_t *tokens, size_t count) {
    clmoe_plan *plan = NULL;
    clmoe_plan_info info;
    char text[400], what[120];
    const clmoe_tuning *tuning = &c->desc.tuning;
    const clmoe_status status = clmoe_align_plan_create(rig.context, &c->desc, &plan);
    clmoe_context_error(rig.context, text, sizeof text);
    snprintf(what, sizeof what, "launches %u, groups %u, group size %u, E %u", tuning->num_launches, tuning->num_groups, tuning->group_size,
             c->desc.num_experts);
    if (status == CLMOE_UNSUPPORTED && fixture_pair_has("rusticl")) {
        ++tunings_refused;
        printf("%s: refused: %s\n", what, text);
        return;
    }
    if (status != CLMOE_SUCCESS)
        fail_msg("%s: %s: %s", what, clmoe_status_name(status), text);
    const clmoe_status described = clmoe_plan_describe(plan, c->desc.max_tokens, &info);
    if (described == CLMOE_UNSUPPORTED && rig.ends_long_loops)
        memset(&info, 0, sizeof info);
    else
        assert_int_equal(described, CLMOE_SUCCESS);
    if (described == CLMOE_SUCCESS && info.note[0] == 0) { /* what was forced is what is used, or the note says why not */
        if (tuning->num_launches != 0 && info.num_launches != tuning->num_launches)
            fail_msg("%s: %u launches", what, info.num_launches);
        const bool sized = tuning->group_size != 0 && class_in_use() == CLMOE_CLASS_PARALLEL;
        if (sized && info.group_size != tuning->group_size)
            fail_msg("%s: a group size of %u", what, info.group_size);
    }
    for (size_t i = 0; i < count; ++i) {
        c->num_tokens = tokens[i];
        case_fill(c, fills[i], &chance);
        if (fixture_fits(fixture_pair(), c))
            check(plan, c);
        else
            ++calls_left_out;
    }
    clmoe_plan_destroy(plan);
}

static void test_forced_tuning(void **state) {
    (void)state;
    const uint32_t groups[] = {1, 2, 3, 7, 16}, sizes[] = {1, 32, 33, 64, 96, 128, 256}, experts[] = {8, 60, 128, 257, 1024};
    const bool parallel = class_in_use() == CLMOE_CLASS_PARALLEL;
    const fill fills[] = {FILL_UNIFORM, FILL_RUNS, FILL_SOME_INVALID, FILL_ONE_HOT, FILL_SORTED};
    const uint32_t tokens[] = {700, 5, 129, 0, 64};
    uint32_t combination = 0;
    for (uint32_t launches = 1; launches <= 3; ++launches) {
        for (size_t g = 0; g < 5; ++g) {
            for (size_t s = 0; s < (parallel ? 7 : 1); ++s, ++combination) {
                align_case c;
                const uint32_t E = experts[combination % 5];
                if (parallel && sizes[s] > largest_group())
                    continue;
                case_begin(&c, "forced tuning", 700, 3, E, combination % 2 == 0 ? 16 : 5);
                c.desc.foreign = (clmoe_foreign)(combination % 3);
                c.desc.tuning.num_launches = launches;
                c.desc.tuning.num_groups = groups[g];
                c.desc.tuning.group_size = parallel ? sizes[s] : 0;
                if (combination % 3 == 0)
                    case_map_fill(&c, MAP_RANDOM, &chance);
                run_or_count_refusal(&c, fills, tokens, 5);
                case_end(&c);
            }
        }
    }
    printf("forced tuning: %u combinations, %u refused, and %llu calls\n", combination, tunings_refused,
           (unsigned long long)rig.calls_refused);
}

/* ---- A covering random sample --------------------------------------------------------------------------------------------------- */
static void test_random(void **state) {
    (void)state;
    deck pair_counts = DECK(0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 500, 1000, 1023, 1025, 2047, 2048, 2049, 3000,
                            4095, 4096, 4097, 6000, 8191, 8192, 8193, 20000, 65535, 65536, 65537);
    deck experts = DECK(1, 2, 3, 31, 32, 33, 60, 63, 64, 65, 127, 128, 129, 160, 255, 256, 257, 384, 511, 512, 513, 896, 992, 1023, 1024);
    deck slots = DECK(1, 1, 2, 3, 4, 6, 8, 8, 10, 16, 22, 32, 64, 0); /* 0: K = E */
    deck blocks = DECK(1, 2, 3, 16, 48, 64, 128, 256);
    deck types = DECK(CLMOE_ID_I32, CLMOE_ID_I32, CLMOE_ID_I64, CLMOE_ID_U32, CLMOE_ID_I16, CLMOE_ID_U8);
    deck foreigns = DECK(CLMOE_FOREIGN_DROP, CLMOE_FOREIGN_KEEP, CLMOE_FOREIGN_BUCKET);
    deck maps = DECK(MAP_NONE, MAP_NONE, MAP_IDENTITY, MAP_SLICE, MAP_PERMUTED, MAP_RANDOM, MAP_DUPLICATES, MAP_ALL_FOREIGN);
    deck fills =
        DECK(FILL_UNIFORM, FILL_UNIFORM, FILL_MIX, FILL_ZIPF, FILL_ONE_HOT, FILL_LAST_EXPERT, FILL_SORTED, FILL_REVERSED, FILL_ROWS_SAME,
             FILL_RUNS, FILL_SOME_INVALID, FILL_SOME_INVALID, FILL_MOSTLY_INVALID, FILL_ALL_INVALID, FILL_RAW_BITS);
    deck launches = DECK(0, 0, 0, 1, 2, 3), groups = DECK(0, 0, 0, 1, 2, 3, 7, 16, 61);
    deck sizes = DECK(0, 0, 0, 64); /* each one is a program to compile, for each id type */
    deck device_tokens = DECK(0, 0, 0, 1, 2, 3, 4, 5, 6), masks = DECK(0, 0, 0, 1, 50, 90, 100);
    const bool parallel = class_in_use() == CLMOE_CLASS_PARALLEL;
    const uint32_t num_plans = fixture_cases(2500, 150, 120);
    for (uint32_t p = 0; p < num_plans; ++p) {
        align_case c;
        const uint32_t E = deck_deal(&experts, &chance), dealt = deck_deal(&slots, &chance), K = dealt == 0 ? E : dealt;
        uint32_t T = (deck_deal(&pair_counts, &chance) + K - 1) / K;
        case_begin(&c, "random", T, K, E, deck_deal(&blocks, &chance));
        c.desc.id_type = (clmoe_id_type)deck_deal(&types, &chance);
        c.desc.foreign = (clmoe_foreign)deck_deal(&foreigns, &chance);
        if (random_below(&chance, 4) == 0) {
            c.desc.has_pad_value = 1;
            c.desc.pad_value = (const int32_t[]){-1, 0, INT32_MAX, INT32_MIN, 12345}[random_below(&chance, 5)];
        }
        c.desc.tuning.num_launches = deck_deal(&launches, &chance);
        c.desc.tuning.num_groups = deck_deal(&groups, &chance);
        if (parallel)
            c.desc.tuning.group_size = deck_deal(&sizes, &chance);
        if (c.desc.tuning.group_size > largest_group())
            c.desc.tuning.group_size = 0;
        while (!fixture_fits(fixture_pair(), &c)) {
            T /= 2;
            c.num_tokens = c.desc.max_tokens = T;
        }
        c.desc.max_tokens = T + (random_below(&chance, 3) == 0 ? random_below(&chance, 1000) : 0);
        clmoe_plan *plan = NULL;
        const clmoe_status status = clmoe_align_plan_create(rig.context, &c.desc, &plan);
        if (status == CLMOE_UNSUPPORTED && c.desc.tuning.num_launches + c.desc.tuning.num_groups + c.desc.tuning.group_size != 0 &&
            fixture_pair_has("rusticl")) {
            ++tunings_refused;
            case_end(&c);
            continue;
        }
        if (status != CLMOE_SUCCESS) {
            char text[400];
            clmoe_context_error(rig.context, text, sizeof text);
            fail_msg("random plan %u: T %u K %u E %u B %u launches %u groups %u size %u: %s: %s", p, T, K, E, c.desc.block_size,
                     c.desc.tuning.num_launches, c.desc.tuning.num_groups, c.desc.tuning.group_size, clmoe_status_name(status), text);
        }
        for (uint32_t call = 0; call < 4; ++call) {
            const fill how = (fill)deck_deal(&fills, &chance);
            snprintf(c.name, sizeof c.name, "random plan %u, call %u, %s", p, call, fill_names[how]);
            c.num_tokens = call == 0 ? T : random_below(&chance, T + 1);
            c.row_stride = random_below(&chance, 2) == 0 ? 0 : K + random_below(&chance, 9);
            c.weights_stride = random_below(&chance, 2) == 0 ? 0 : K + random_below(&chance, 9);
            c.shift = (const uint32_t[]){1, 3, 7}[random_below(&chance, 3)];
            c.slack = random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0;
            c.optional = random_below(&chance, 3) == 0 ? OUT_ALL : random_below(&chance, 128);
            case_fill(&c, how, &chance);
            free(c.map);
            free(c.mask);
            c.map = NULL;
            c.mask = NULL;
            case_map_fill(&c, (map_kind)deck_deal(&maps, &chance), &chance);
            const uint32_t kept = deck_deal(&masks, &chance);
            if (kept != 0)
                case_mask(&c, kept, &chance);
            const int32_t now = (int32_t)c.num_tokens, below = (int32_t)random_below(&chance, c.num_tokens + 1);
            const uint32_t kind = deck_deal(&device_tokens, &chance);
            c.has_tokens_device = false;
            if (kind != 0)
                case_tokens_device(&c, (const int32_t[]){0, -7, 0, below, now, now + 1, INT32_MAX}[kind]);
            c.capacity = 0;
            const uint32_t bound = case_capacity(&c), more = bound + random_below(&chance, 40) * c.desc.block_size;
            if (random_below(&chance, 2) == 0)
                c.capacity = more;
            if (!fixture_fits(fixture_pair(), &c))
                c.capacity = 0;
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
    printf("random: %u plans, 4 calls each\n", num_plans);
}

/* ---- Refusals ------------------------------------------------------------------------------------------------------------------- */
static void expect_text(const char *what, const char *named) {
    char text[600];
    const size_t needed = clmoe_context_error(rig.context, text, sizeof text);
    if (strstr(text, named) == NULL)
        fail_msg("%s: the text does not name \"%s\": \"%s\"", what, named, text);
    assert_int_equal(needed, strlen(text) + 1);
}

static void expect_refused(clmoe_plan *plan, const align_case *c, const clmoe_align_args *args, const char *what, const char *named) {
    const clmoe_status status = clmoe_align_enqueue(plan, rig.queue, args, 0, NULL, NULL);
    if (rig.queue != NULL)
        clFinish(rig.queue);
    if (status != CLMOE_INVALID_ARGUMENT)
        fail_msg("%s: %s (%d), not refused", what, clmoe_status_name(status), status);
    expect_text(what, named);
    if (!rig_untouched(&rig, c))
        fail_msg("%s: %s", what, rig.failure);
    check(plan, c);
    if (!rig_prepare(&rig, plan, c))
        fail_msg("%s", rig.failure);
}

/* One wrong thing in otherwise valid arguments. */
#define REFUSED(named, change)                                                                                                             \
    do {                                                                                                                                   \
        clmoe_align_args args = rig.args;                                                                                                  \
        change;                                                                                                                            \
        expect_refused(plan, &c, &args, #change, named);                                                                                   \
    } while (0)

static void test_refused_arguments(void **state) {
    (void)state;
    align_case c;
    case_begin(&c, "refusals", 20, 3, 10, 4);
    clmoe_plan *plan = plan_for(&c);
    c.num_tokens = 16;
    c.row_stride = 5;
    c.weights_stride = 4;
    case_fill(&c, FILL_SOME_INVALID, &chance);
    case_map_fill(&c, MAP_RANDOM, &chance);
    case_mask(&c, 80, &chance);
    case_tokens_device(&c, 15);
    check(plan, &c);
    assert_true(rig_prepare(&rig, plan, &c));

    REFUSED("num_tokens", args.num_tokens = 21);
    REFUSED("num_tokens", args.num_tokens = UINT32_MAX);
    REFUSED("row_stride", args.row_stride = 2);
    REFUSED("weights_stride", args.weights_stride = 1);
    REFUSED("topk_ids", args.row_stride = UINT32_MAX);  /* T * stride does not fit the view, nor 32 bits */
    REFUSED("topk_ids", args.row_stride = 0x80000001u); /* its low bits would */
    REFUSED("topk_weights", args.weights_stride = UINT32_MAX);
    REFUSED("topk_ids", args.topk_ids.size_bytes -= 1);
    REFUSED("expert_map", args.expert_map.size_bytes -= 4);
    REFUSED("row_mask", args.row_mask.size_bytes -= 1);
    REFUSED("num_tokens_device", args.num_tokens_device.size_bytes = 3);
    REFUSED("topk_weights", args.topk_weights.size_bytes -= 4);
    REFUSED("weights", memset(&args.topk_weights, 0, sizeof args.topk_weights));
    REFUSED("sorted_token_ids", args.sorted_token_ids.size_bytes -= 16); /* one block below the bound */
    REFUSED("sorted_token_ids", args.sorted_token_ids.size_bytes -= 4);  /* no multiple of B */
    REFUSED("sorted_token_ids", args.sorted_token_ids.size_bytes += 4);
    REFUSED("sorted_token_ids", args.sorted_token_ids.size_bytes += 1);
    REFUSED("expert_ids", args.expert_ids.size_bytes -= 4);
    REFUSED("num_tokens_post_padded", args.num_tokens_post_padded.size_bytes = 2);
    for (int s = SLOT_COUNTS; s <= SLOT_STATUS; ++s) {
        REFUSED(slot_names[s], slot_view(&args, s)->size_bytes -= 4);
        REFUSED(slot_names[s], slot_view(&args, s)->size_bytes += 4);
        REFUSED(slot_names[s], slot_view(&args, s)->size_bytes -= 1);
    }
    for (int s = 0; s < NUM_SLOTS; ++s) {
        const bool required = s == SLOT_TOPK_IDS || (s >= SLOT_SORTED_TOKEN_IDS && s <= SLOT_NUM_TOKENS_POST_PADDED) || s == SLOT_WORKSPACE;
        clmoe_buffer *const original = slot_view(&rig.args, s);
        if (original->size_bytes == 0)
            continue; /* a plan without workspace */
        if (required)
            REFUSED(slot_names[s], memset(slot_view(&args, s), 0, sizeof(clmoe_buffer)));
        if (required)
            REFUSED(slot_names[s], slot_view(&args, s)->size_bytes = 0);
        if (s != SLOT_ROW_MASK) { /* bytes have no alignment to break; slack makes room, so that it is the offset that is wrong */
            REFUSED(slot_names[s], slot_view(&args, s)->offset_bytes += 1);
            REFUSED(slot_names[s], slot_view(&args, s)->offset_bytes += 2);
        }
        REFUSED(slot_names[s], slot_view(&args, s)->mem = NULL; slot_view(&args, s)->host = NULL);
        if (rig.queue != NULL) {
            static uint32_t host_memory[4096];
            REFUSED(slot_names[s], *slot_view(&args, s) = clmoe_buffer_of_host(host_memory, original->size_bytes));
            /* outside of its cl_mem, plainly and by an offset that wraps around */
            REFUSED(slot_names[s], slot_view(&args, s)->offset_bytes = (rig.slots[s].outer_bytes / 8 + 1) * 8);
            REFUSED(slot_names[s], slot_view(&args, s)->offset_bytes = (size_t)0 - 8);
        } else {
            REFUSED(slot_names[s], slot_view(&args, s)->mem = (cl_mem)(void *)&args; slot_view(&args, s)->host = NULL);
        }
    }
    if (rig.args.workspace.size_bytes != 0)
        REFUSED("workspace", args.workspace.size_bytes -= 1);

    for (int a = SLOT_SORTED_TOKEN_IDS; a < NUM_SLOTS; ++a) { /* no output may lie on anything else, not even by one element */
        for (int i = 0; i < 3 * NUM_SLOTS; ++i) {
            const int b = i / 3;
            const clmoe_buffer *const view = slot_view(&rig.args, a), *const other = slot_view(&rig.args, b);
            if (a == b || view->size_bytes == 0 || other->size_bytes == 0)
                continue;
            const size_t begin = other->offset_bytes / 4 * 4, end = (other->offset_bytes + other->size_bytes - 1) / 4 * 4;
            const size_t first_on_last = end, last_on_first = begin + 4 - view->size_bytes; /* may wrap: then it does not fit */
            const size_t at = i % 3 == 0 ? begin : i % 3 == 1 ? first_on_last : last_on_first;
            if (at > rig.slots[b].outer_bytes || view->size_bytes > rig.slots[b].outer_bytes - at)
                continue;
            clmoe_align_args args = rig.args;
            *slot_view(&args, a) = rig.slots[b].outer;
            slot_view(&args, a)->offset_bytes = at;
            slot_view(&args, a)->size_bytes = view->size_bytes;
            char what[100], text[600];
            snprintf(what, sizeof what, "%s at %zu over %s at %zu", slot_names[a], at, slot_names[b], other->offset_bytes);
            const clmoe_status status = clmoe_align_enqueue(plan, rig.queue, &args, 0, NULL, NULL);
            if (rig.queue != NULL)
                clFinish(rig.queue);
            if (status != CLMOE_INVALID_ARGUMENT)
                fail_msg("%s: %s, not refused", what, clmoe_status_name(status));
            clmoe_context_error(rig.context, text, sizeof text);
            const bool named = strstr(text, slot_names[a]) != NULL || strstr(text, slot_names[b]) != NULL;
            if (!named)
                fail_msg("%s: \"%s\" names neither", what, text);
            if (!rig_untouched(&rig, &c))
                fail_msg("%s: %s", what, rig.failure);
        }
    }
    check(plan, &c);
    assert_true(rig_prepare(&rig, plan, &c));

    /* pointers, queue, wait list */
    cl_event event = NULL;
    assert_int_equal(clmoe_align_enqueue(NULL, rig.queue, &rig.args, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_align_enqueue(plan, rig.queue, NULL, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
    expect_text("args NULL", "args");
    if (rig.queue == NULL) {
        cl_event fake = (cl_event)(void *)&c;
        assert_int_equal(clmoe_align_enqueue(plan, (cl_command_queue)(void *)&c, &rig.args, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
        expect_text("a queue on the native device", "queue");
        assert_int_equal(clmoe_align_enqueue(plan, NULL, &rig.args, 1, &fake, NULL), CLMOE_INVALID_ARGUMENT);
        expect_text("a wait list on the native device", "wait");
        assert_int_equal(clmoe_align_enqueue(plan, NULL, &rig.args, 0, NULL, &event), CLMOE_INVALID_ARGUMENT);
        expect_text("an event on the native device", "event");
        assert_null(event);
    } else {
        const clmoe_status no_queue = clmoe_align_enqueue(plan, NULL, &rig.args, 0, NULL, NULL);
        assert_true(no_queue == CLMOE_INVALID_ARGUMENT || no_queue == CL_INVALID_COMMAND_QUEUE);
        expect_text("no queue", "queue");
        const clmoe_status no_list = clmoe_align_enqueue(plan, rig.queue, &rig.args, 1, NULL, NULL);
        assert_true(no_list == CLMOE_INVALID_ARGUMENT || no_list == CL_INVALID_EVENT_WAIT_LIST);
        const clmoe_status no_length = clmoe_align_enqueue(plan, rig.queue, &rig.args, 0, (const cl_event *)&event, NULL);
        assert_true(no_length == CLMOE_INVALID_ARGUMENT || no_length == CL_INVALID_EVENT_WAIT_LIST);
        const clmoe_status null_event = clmoe_align_enqueue(plan, rig.queue, &rig.args, 1, &event, NULL);
        if (null_event >= 0)
            fail_msg("a NULL event in the wait list: %s", clmoe_status_name(null_event));
        clFinish(rig.queue);
    }
    if (!rig_untouched(&rig, &c))
        fail_msg("%s", rig.failure);
    check(plan, &c);

    clmoe_plan_info info;
    assert_int_equal(clmoe_plan_describe(plan, 21, &info), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_plan_describe(plan, (size_t)1 << 32, &info), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_plan_describe(plan, 20, &info), CLMOE_SUCCESS);
    assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
    if (rig.queue == NULL) { /* a capacity over 31 bits; nothing of that size exists, so it must be refused by its number */
        assert_true(rig_prepare(&rig, plan, &c));
        clmoe_align_args args = rig.args;
        for (int s = SLOT_COUNTS; s <= SLOT_STATUS; ++s)
            memset(slot_view(&args, s), 0, sizeof(clmoe_buffer));
        args.sorted_token_ids = clmoe_buffer_of_host((void *)((uintptr_t)1 << 44), (size_t)4 << 31); /* away from everything */
        args.expert_ids = clmoe_buffer_of_host((void *)((uintptr_t)1 << 45), (size_t)1 << 31);
        expect_refused(plan, &c, &args, "2^31 rows", "sorted_token_ids");
    }
    clmoe_plan_destroy(plan);
    case_end(&c);
}

#define PLAN_REFUSED(named, change)                                                                                                        \
    do {                                                                                                                                   \
        clmoe_align_desc desc = {0};                                                                                                       \
        clmoe_plan *plan = NULL;                                                                                                           \
        uint32_t rows = 0;                                                                                                                 \
        desc.max_tokens = 16;                                                                                                              \
        desc.top_k = 2;                                                                                                                    \
        desc.num_experts = 8;                                                                                                              \
        desc.block_size = 4;                                                                                                               \
        change;                                                                                                                            \
        const clmoe_status status = clmoe_align_plan_create(rig.context, &desc, &plan);                                                    \
        if (status != CLMOE_INVALID_ARGUMENT)                                                                                              \
            fail_msg("%s: %s, not refused", #change, clmoe_status_name(status));                                                           \
        assert_null(plan);                                                                                                                 \
        expect_text(#change, named);                                                                                                       \
        if (clmoe_align_max_rows(&desc, desc.max_tokens, &rows) != CLMOE_INVALID_ARGUMENT)                                                 \
            fail_msg("%s: max_rows accepts", #change);                                                                                     \
        check_once(&valid);                                                                                                                \
    } while (0)

static void test_refused_descriptors(void **state) {
    (void)state;
    align_case valid;
    case_begin(&valid, "after a refused plan", 9, 2, 8, 4);
    case_fill(&valid, FILL_UNIFORM, &chance);
    PLAN_REFUSED("top_k", desc.top_k = 0);
    PLAN_REFUSED("num_experts", desc.num_experts = 0);
    PLAN_REFUSED("block_size", desc.block_size = 0);
    PLAN_REFUSED("id_type", desc.id_type = (clmoe_id_type)5);
    PLAN_REFUSED("id_type", desc.id_type = (clmoe_id_type)-1);
    PLAN_REFUSED("foreign", desc.foreign = (clmoe_foreign)3);
    PLAN_REFUSED("foreign", desc.foreign = (clmoe_foreign)-1);
    PLAN_REFUSED("num_launches", desc.tuning.num_launches = 4);
    PLAN_REFUSED("num_groups", desc.tuning.num_groups = 65537);
    PLAN_REFUSED("max_tokens", desc.max_tokens = 1u << 30);                            /* N = 2^31 */
    PLAN_REFUSED("max_tokens", desc.max_tokens = 1u << 31);                            /* N = 2^32, 0 in 32 bits */
    PLAN_REFUSED("max_tokens", desc.max_tokens = UINT32_MAX; desc.top_k = UINT32_MAX); /* N nearly 2^64 */
    PLAN_REFUSED("block_size", desc.block_size = 0x7fffffffu);                         /* N is small, the rows are many */
    PLAN_REFUSED("block_size", desc.block_size = UINT32_MAX);
    PLAN_REFUSED("block_size", desc.block_size = 1u << 28; desc.foreign = CLMOE_FOREIGN_KEEP);

    clmoe_plan *plan = NULL;
    uint32_t rows = 7;
    assert_int_equal(clmoe_align_plan_create(NULL, &valid.desc, &plan), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_align_plan_create(rig.context, NULL, &plan), CLMOE_INVALID_ARGUMENT);
    expect_text("desc NULL", "desc");
    assert_int_equal(clmoe_align_plan_create(rig.context, &valid.desc, NULL), CLMOE_INVALID_ARGUMENT);
    expect_text("plan NULL", "plan");
    assert_int_equal(clmoe_align_max_rows(NULL, 1, &rows), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_align_max_rows(&valid.desc, 1, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_align_max_rows(&valid.desc, 10, &rows), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_plan_describe(NULL, 1, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_plan_workspace_bytes(NULL), 0);
    clmoe_plan_destroy(NULL);
    check_once(&valid);
    case_end(&valid);
}

/* Sizes whose products or sums come out small in 32 or in 64 bits. */
static void test_sizes_that_wrap(void **state) {
    (void)state;
    const uint32_t experts[] = {858993460u, 1u << 30, 1431655766u, 1431655800u, INT32_MAX - 1}, sizes[] = {0, 32, 64, 128, 256};
    const bool parallel = class_in_use() == CLMOE_CLASS_PARALLEL;
    clmoe_plan *plan = NULL;
    for (size_t i = 0; parallel && i < 25; ++i) {
        clmoe_align_desc desc = {0};
        desc.max_tokens = desc.top_k = desc.block_size = 1;
        desc.num_experts = experts[i / 5];
        desc.tuning.group_size = sizes[i % 5] <= largest_group() ? sizes[i % 5] : 0;
        const clmoe_status status = clmoe_align_plan_create(rig.context, &desc, &plan);
        if (status != CLMOE_UNSUPPORTED)
            fail_msg("local memory for E %u, groups of %u: %d", experts[i / 5], sizes[i % 5], status);
    }

    align_case c; /* (T - 1) * stride * 8 bytes is 2^64 */
    case_begin(&c, "after sizes that wrap", 50, 1, 1, 1);
    case_fill(&c, FILL_UNIFORM, &chance);
    clmoe_align_desc desc = c.desc;
    desc.max_tokens = (1u << 30) + 1;
    desc.id_type = CLMOE_ID_I64;
    const clmoe_status status = clmoe_align_plan_create(rig.context, &desc, &plan);
    if (status != CLMOE_SUCCESS && !rig.ends_long_loops)
        fail_msg("2^30 + 1 tokens: %s", clmoe_status_name(status));
    if (status == CLMOE_SUCCESS) {
        clmoe_plan *small = plan_for(&c);
        assert_true(rig_prepare(&rig, small, &c));
        clmoe_align_args args = {0};
        args.num_tokens = desc.max_tokens;
        args.row_stride = 1u << 31;
        args.topk_ids = rig.args.sorted_token_ids; /* 200 bytes; on an offset that suits 8-byte ids */
        args.topk_ids.offset_bytes = 0;
        args.sorted_token_ids = rig.args.inverse;
        args.sorted_token_ids.size_bytes = 4 * (size_t)desc.max_tokens;
        args.expert_ids = rig.args.expert_ids; /* too short, so that the call is refused in any case */
        assert_int_equal(clmoe_align_enqueue(plan, rig.queue, &args, 0, NULL, NULL), CLMOE_INVALID_ARGUMENT);
        expect_text("a stride times tokens over 64 bits", "topk_ids");
        clmoe_plan_destroy(plan);
        check(small, &c);
        clmoe_plan_destroy(small);
    }
    case_end(&c);
}

/* Groups that do not fit the local memory become smaller, and the plan says so. */
static void test_groups_made_smaller(void **state) {
    (void)state;
    if (class_in_use() != CLMOE_CLASS_PARALLEL || largest_group() < 256)
        return;
    const uint32_t experts[] = {1024, 2500, 9000, 40000};
    for (size_t i = 0; i < 4; ++i) {
        align_case c;
        clmoe_plan_info info;
        clmoe_plan *plan = NULL;
        case_begin(&c, "smaller groups", 300, 2, experts[i], 4);
        c.desc.tuning.group_size = 256;
        case_fill(&c, FILL_UNIFORM, &chance);
        char before[400], after[400];
        clmoe_context_error(rig.context, before, sizeof before);
        const clmoe_status status = clmoe_align_plan_create(rig.context, &c.desc, &plan);
        clmoe_context_error(rig.context, after, sizeof after);
        if (status == CLMOE_SUCCESS)
            assert_string_equal(before, after); /* what did not fail leaves no text of a failure */
        if (status != CLMOE_UNSUPPORTED || experts[i] <= 1024)
            assert_int_equal(status, CLMOE_SUCCESS);
        if (status == CLMOE_SUCCESS && clmoe_plan_describe(plan, 300, &info) == CLMOE_SUCCESS) {
            if (info.group_size != 256 && strstr(info.note, "256") == NULL)
                fail_msg("E %u: groups of %u instead of 256, and the note says \"%s\"", experts[i], info.group_size, info.note);
            check(plan, &c);
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    if (rig.queue != NULL)
        return;
    const uint32_t threads[] = {1, 3, 8};
    for (size_t i = 0; i < 3; ++i) {
        clmoe_context_options options = {0};
        clmoe_context *context = NULL;
        clmoe_device_info info;
        align_rig mine;
        align_case c;
        options.num_threads = threads[i];
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        assert_int_equal(clmoe_context_describe(context, &info), CLMOE_SUCCESS);
        assert_int_equal(info.compute_units, threads[i]);
        rig_begin(&mine, context, NULL);
        for (uint32_t launches = 0; launches <= 3; ++launches) {
            for (uint32_t T = 7; T <= 70000; T = T * 10 + 3) {
                case_begin(&c, "threads", T, 3, 130, 16);
                c.desc.tuning.num_launches = launches;
                c.desc.foreign = (clmoe_foreign)(T % 3);
                case_fill(&c, FILL_SOME_INVALID, &chance);
                if (!run_align_once(&mine, &c, NULL))
                    fail_msg("%u threads: %s", threads[i], mine.failure);
                case_end(&c);
            }
        }
        rig_end(&mine);
        clmoe_context_destroy(context);
    }
    clmoe_context_options options = {0};
    clmoe_context *context = NULL;
    options.num_threads = 257;
    assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_INVALID_ARGUMENT);
    assert_null(context);
}

/* A plan keeps its context alive. */
static void test_order_of_destruction(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    assert_non_null(context);
    align_rig mine;
    align_case c;
    clmoe_plan *plan = NULL;
    rig_begin(&mine, context, clmoe_context_queue(context));
    case_begin(&c, "order of destruction", 50, 4, 16, 8);
    case_fill(&c, FILL_UNIFORM, &chance);
    assert_int_equal(clmoe_align_plan_create(context, &c.desc, &plan), CLMOE_SUCCESS);
    if (!run_align(&mine, plan, &c))
        fail_msg("%s", mine.failure);
    rig_end(&mine);
    clmoe_context_destroy(context);
    clmoe_plan_info info;
    assert_int_equal(clmoe_plan_describe(plan, 50, &info), CLMOE_SUCCESS);
    clmoe_plan_destroy(plan);
    case_end(&c);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    if (context == NULL)
        return -1;
    rig_begin(&rig, context, clmoe_context_queue(context));
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    printf("%s: %llu calls checked, %u left out as too large; of forced tunings %u plans and %llu calls were refused\n", fixture_pair(),
           (unsigned long long)rig.calls, calls_left_out, tunings_refused, (unsigned long long)rig.calls_refused);
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260101;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_bound),
        TEST(test_golden),
        TEST(test_last_expert_keeps_its_tokens),
        TEST(test_more_experts_than_work_items),
        TEST(test_rows_of_minus_one),
        TEST(test_experts_elsewhere),
        TEST(test_nothing_unwritten),
        TEST(test_same_order_every_time),
        TEST(test_pair_numbers_not_tokens),
        TEST(test_nothing_to_do),
        TEST(test_sizes),
        TEST(test_experts),
        TEST(test_large_experts),
        TEST(test_a_million_pairs),
        TEST(test_optional_outputs),
        TEST(test_tokens_on_the_device),
        TEST(test_forced_tuning),
        TEST(test_random),
        TEST(test_refused_arguments),
        TEST(test_refused_descriptors),
        TEST(test_sizes_that_wrap),
        TEST(test_groups_made_smaller),
        TEST(test_number_of_threads),
        TEST(test_order_of_destruction),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
