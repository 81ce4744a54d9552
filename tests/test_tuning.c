/* The paths that tuning chooses: as many launches as promised, a workspace that holds every call of a plan, and the bytes of the design. */
#include "../cl/align.h"
#include "fixture.h"
#include "tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct clmoe_limits devices[] = {
    {.compute_units = 1, .max_group_size = 1},
    {.compute_units = 2, .max_group_size = 4096, .local_bytes = 1 << 20},
    {.compute_units = 64, .max_group_size = 1},
    {.compute_units = 132, .max_group_size = 1024, .local_bytes = 48 << 10},
    {.compute_units = 304, .max_group_size = 1024, .local_bytes = 64 << 10},
    {.compute_units = 8, .max_group_size = 64, .local_bytes = 32 << 10},
    {.compute_units = 16, .max_group_size = 1, .local_bytes = 32 << 10},
    {.compute_units = 8, .max_group_size = 1024, .local_bytes = 32 << 10, .max_iterations = 16383},
};

static uint32_t max_rows(uint32_t tokens, uint32_t top_k, uint32_t buckets, uint32_t block) {
    const uint64_t pairs = (uint64_t)tokens * top_k, used = pairs < buckets ? pairs : buckets;
    return (uint32_t)((used + (pairs - used) / block) * block);
}

static uint64_t local_items(const uint32_t *buckets, uint32_t group_size) {
    return align_local_items(*buckets, group_size);
}

static void test_paths(void **state) {
    (void)state;
    random_stream random = {2024};
    for (unsigned i = 0; i < 200000; ++i) {
        const struct clmoe_limits *limits = &devices[random_below(&random, sizeof devices / sizeof *devices)];
        const clmoe_class kernel_class = limits->local_bytes == 0 || random_below(&random, 2) ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL;
        const clmoe_tuning wanted = {.num_launches = random_below(&random, 2) ? 0 : random_below(&random, 4),
                                     .num_groups = random_below(&random, 3) ? 0 : 1 + random_below(&random, 65536)};
        const uint32_t top_k = 1 + random_below(&random, 64), buckets = 1 + random_below(&random, 1024),
                       block = 1 + random_below(&random, 256);
        const uint32_t most = random_below(&random, 1u << (1 + random_below(&random, 20)));
        const uint32_t tokens = random_below(&random, most + 1);
        const uint32_t size = kernel_class == CLMOE_CLASS_SERIAL ? 1 : clmoe_tune_group_size(limits, 0, local_items, &buckets);
        assert_in_range(size, 1, limits->max_group_size);
        if (kernel_class == CLMOE_CLASS_PARALLEL)
            assert_true(4 * (uint64_t)align_local_items(buckets, size) <= limits->local_bytes);
        const struct clmoe_align_shape largest = {most, top_k, buckets, block, max_rows(most, top_k, buckets, block), 0};
        struct clmoe_align_shape shape = {tokens, top_k, buckets, block, max_rows(tokens, top_k, buckets, block), 0};
        struct clmoe_align_path path;
        const uint32_t chunks = clmoe_tune_align_max_chunks(limits, kernel_class, size, &wanted, &largest);
        shape.capacity += block * random_below(&random, 1u << random_below(&random, 12));
        if (clmoe_tune_align(limits, kernel_class, size, &wanted, &shape, &path) != NULL) {
            assert_int_not_equal(limits->max_iterations, 0); /* the one reason to refuse */
            continue;
        }
        assert_in_range(path.num_launches, 1, 3);
        if (wanted.num_launches != 0)
            assert_int_equal(path.num_launches, wanted.num_launches);
        assert_in_range(path.num_chunks, 1, tokens == 0 ? 1 : tokens);
        assert_true(path.num_chunks <= chunks); /* the workspace was sized for the largest call */
        assert_true(path.num_groups >= path.num_chunks);
        assert_true(path.offsets_groups >= 1);
        if (path.num_launches == 1)
            assert_int_equal(path.num_groups, 1);
    }
}

static void test_route_groups(void **state) {
    (void)state;
    random_stream random = {2025};
    for (unsigned i = 0; i < 200000; ++i) {
        const struct clmoe_limits *limits = &devices[random_below(&random, sizeof devices / sizeof *devices)];
        const clmoe_class kernel_class = limits->local_bytes == 0 || random_below(&random, 2) ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL;
        const uint32_t size = kernel_class == CLMOE_CLASS_SERIAL ? 1 : 1 + random_below(&random, limits->max_group_size);
        const clmoe_tuning wanted = {.num_groups = random_below(&random, 3) ? 0 : 1 + random_below(&random, 65536)};
        const uint32_t experts = 1 + random_below(&random, 1u << (1 + random_below(&random, 12))),
                       top_k = 1 + random_below(&random, experts);
        const uint32_t most = random_below(&random, 1u << (1 + random_below(&random, 20))), tokens = random_below(&random, most + 1);
        const struct clmoe_route_shape largest = {most, experts, top_k, 0, random_below(&random, 2) != 0, random_below(&random, 2) != 0, 0};
        struct clmoe_route_shape shape = largest;
        shape.num_tokens = tokens;
        const uint32_t team = clmoe_tune_route_team(experts, top_k, size), teams = size / team;
        assert_int_equal(size % team, 0); /* no work-item is left over */
        uint32_t most_groups, groups;
        clmoe_tune_route(limits, kernel_class, size, &wanted, &largest, &most_groups);
        if (clmoe_tune_route(limits, kernel_class, size, &wanted, &shape, &groups) != NULL)
            assert_int_not_equal(limits->max_iterations, 0); /* the one reason to refuse */
        assert_in_range(groups, 1, tokens == 0 ? 1 : kernel_class == CLMOE_CLASS_SERIAL ? tokens : (tokens + teams - 1) / teams);
        assert_true(groups <= most_groups || most == 0); /* the workspace was sized for the largest call */
    }
}

static void test_small_parallel_calls_take_one_launch(void **state) {
    (void)state;
    const clmoe_tuning none = {0};
    for (size_t d = 0; d < sizeof devices / sizeof *devices; ++d)
        for (uint32_t buckets = 1; buckets <= 1024; buckets += 31)
            for (uint32_t tokens = 0; tokens <= 256 && devices[d].max_iterations == 0; ++tokens) {
                const struct clmoe_align_shape shape = {tokens, 8, buckets, 256, max_rows(tokens, 8, buckets, 256), 0};
                struct clmoe_align_path path;
                const uint32_t size = devices[d].local_bytes == 0 ? 1 : clmoe_tune_group_size(&devices[d], 0, local_items, &buckets);
                const clmoe_class kernel_class = devices[d].local_bytes == 0 ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL;
                assert_null(clmoe_tune_align(&devices[d], kernel_class, size, &none, &shape, &path));
                assert_int_equal(path.num_launches, 1);
            }
}

/* What a plan says of itself: 12 bytes a pair, 4 a padding row, the blocks, and the counters of the chunks. */
static void test_bytes(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    assert_non_null(context);
    static const uint32_t tokens[] = {0, 1, 16, 128, 256, 257, 1024, 4096, 8192, 8193, 16384, 131072};
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        const clmoe_align_desc desc = {
            .max_tokens = 131072, .top_k = 8, .num_experts = 256, .block_size = 64, .tuning.num_launches = launches};
        clmoe_plan *plan;
        assert_int_equal(clmoe_align_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; ++i) {
            clmoe_plan_info info;
            uint32_t rows;
            const uint64_t pairs = 8 * (uint64_t)tokens[i];
            assert_int_equal(clmoe_align_max_rows(&desc, tokens[i], &rows), CLMOE_SUCCESS);
            const clmoe_status status = clmoe_plan_describe(plan, tokens[i], &info);
            if (status == CLMOE_UNSUPPORTED && fixture_pair_has("rusticl"))
                continue;
            assert_int_equal(status, CLMOE_SUCCESS);
            if (launches != 0)
                assert_int_equal(info.num_launches, launches);
            if (launches == 0 && fixture_pair_has("pocl-parallel"))
                assert_int_equal(info.num_launches, pairs <= 2048 ? 1 : pairs <= 65536 ? 2 : 3);
            const uint64_t row = 4 * (256 + 3), groups = info.num_groups;
            const uint64_t counters = info.num_launches == 2   ? row * groups * (1 + groups)
                                      : info.num_launches == 3 ? row * (5 * groups + 1)
                                                               : 2 * row;
            assert_true(info.bytes_read + info.bytes_written <= 12 * pairs + 4 * (rows - pairs) + 4 * (rows / 64 + 1) + counters);
            assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
            assert_int_equal(info.local_bytes != 0, fixture_pair_has("parallel"));
        }
        clmoe_plan_info info;
        assert_int_equal(clmoe_plan_describe(plan, 131073, &info), CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
    }
    clmoe_context_destroy(context);
}

/* 3 n items of a scan; 20 bytes for each pair of 32-bit key and value and each pass of a sort; a histogram reads its samples once. */
static void test_bytes_of_primitives(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    assert_non_null(context);
    static const uint32_t items[] = {0, 1, 1000, 2048, 2049, 65536, 65537, 1000000, 10000000};
    const clmoe_scan_desc scan = {.max_items = 10000000};
    const clmoe_sort_desc sort = {.max_items = 10000000, .value_bytes = 4};
    const clmoe_histogram_desc histogram = {.max_items = 10000000, .num_bins = 256};
    const clmoe_scatter_desc gather = {.max_items = 10000000, .max_rows = 10000000, .row_bytes = 4};
    clmoe_plan *plans[4];
    assert_int_equal(clmoe_scan_plan_create(context, &scan, &plans[0]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_sort_plan_create(context, &sort, &plans[1]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_histogram_plan_create(context, &histogram, &plans[2]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_gather_plan_create(context, &gather, &plans[3]), CLMOE_SUCCESS);
    for (size_t i = 0; i < sizeof items / sizeof *items; ++i) {
        const uint64_t n = items[i];
        clmoe_plan_info info[4];
        for (size_t p = 0; p < 4; ++p) {
            const clmoe_status status = clmoe_plan_describe(plans[p], items[i], &info[p]);
            if (status == CLMOE_UNSUPPORTED && fixture_pair_has("rusticl"))
                memset(&info[p], 0, sizeof info[p]);
            else
                assert_int_equal(status, CLMOE_SUCCESS);
            assert_true(info[p].num_launches <= (p == 1 ? 12 : 2));
            if (n <= 2048 && !fixture_pair_has("rusticl"))
                assert_int_equal(info[p].num_launches, 1);
        }
        const uint64_t scan_groups = info[0].num_groups, sort_groups = info[1].num_groups, histogram_groups = info[2].num_groups;
        assert_true(info[0].bytes_read + info[0].bytes_written <= 12 * n + 4 * scan_groups * (1 + scan_groups));
        assert_true(info[1].bytes_read + info[1].bytes_written <= 4 * (20 * n + 4 * 256 * 5 * sort_groups * (sort_groups <= 8 ? 8 : 1)));
        assert_true(info[2].bytes_read + info[2].bytes_written <= 4 * n + 4 * 257 * (1 + 2 * histogram_groups));
        assert_true(info[3].bytes_read + info[3].bytes_written <= 12 * n);
    }
    for (size_t p = 0; p < 4; ++p)
        clmoe_plan_destroy(plans[p]);
    clmoe_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_route_groups),
        cmocka_unit_test(test_small_parallel_calls_take_one_launch),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_of_primitives),
    };
    return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
