/* test_selftest.c - the self-test passes on every pair, and its hash is the same on all of them. That it can fail, the mutants show. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Changes with the cases of src/selftest.c alone. */
static const uint64_t hash_of_all = 0xdb6583b5fd876df9u;

static clmoe_context *context;

static void must_pass(clmoe_context *tested) {
    static const char *const names[] = {"align", "route", "route_align", "histogram", "scan", "sort", "scatter", "gather"};
    clmoe_selftest_report report;
    char text[8];
    uint32_t num_calls = 0;
    memset(&report, 0xa5, sizeof report);
    assert_int_equal(clmoe_context_selftest(tested, &report), CLMOE_SUCCESS);
    assert_int_equal(clmoe_context_error(tested, text, sizeof text), 1);
    assert_string_equal(report.first_wrong, "");
    assert_int_equal(report.num_wrong, 0);
    assert_int_equal(report.num_rows, sizeof names / sizeof *names);
    for (uint32_t i = 0; i < report.num_rows; ++i) {
        assert_string_equal(report.rows[i].name, names[i]);
        assert_true(report.rows[i].num_calls >= 6);
        assert_int_equal(report.rows[i].num_wrong, 0);
        num_calls += report.rows[i].num_calls;
    }
    assert_int_equal(report.num_calls, num_calls);
    printf("%u calls, %u refused\n", report.num_calls, report.num_refused);
    if (report.hash != hash_of_all)
        fail_msg("the hash is %016llx", (unsigned long long)report.hash);
}

static void test_own_context(void **state) {
    (void)state;
    must_pass(context);
}

/* A context that has no queue, and holds every device of its platform; each of them. Errors of earlier calls are forgotten. */
static void test_callers_context(void **state) {
    (void)state;
    enum { MAX_DEVICES = 8 };
    clmoe_device_info info;
    cl_device_id devices[MAX_DEVICES];
    cl_uint num_devices = 0;
    cl_int error;
    assert_int_equal(clmoe_context_describe(context, &info), CLMOE_SUCCESS);
    if (info.backend == CLMOE_BACKEND_NATIVE || fixture_pair_has("parallel"))
        return; /* compiled in the serial class within a second, in the other within a minute */
    assert_int_equal(clGetDeviceIDs(info.platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &num_devices), CL_SUCCESS);
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)info.platform, 0};
    const cl_context opencl = clCreateContext(properties, num_devices, devices, NULL, NULL, &error);
    assert_int_equal(error, CL_SUCCESS);
    for (cl_uint i = 0; i < num_devices; ++i) {
        const clmoe_context_options options = {.kernel_class = info.kernel_class};
        clmoe_context *callers;
        assert_int_equal(clmoe_context_create_opencl(opencl, devices[i], &options, &callers), CLMOE_SUCCESS);
        assert_null(clmoe_context_queue(callers));
        assert_int_equal(clmoe_buffer_write(callers, (clmoe_buffer){0}, "", 1), CLMOE_INVALID_ARGUMENT);
        must_pass(callers);
        clmoe_context_destroy(callers);
    }
    const char *shown = getenv("POCL_DEVICES");
    assert_int_equal(num_devices, shown != NULL && strchr(shown, ' ') != NULL ? 2 : 1);
    clReleaseContext(opencl);
}

static void test_arguments(void **state) {
    (void)state;
    clmoe_selftest_report report;
    assert_int_equal(clmoe_context_selftest(NULL, &report), CLMOE_INVALID_ARGUMENT);
    if (fixture_pair_has("serial") || fixture_pair_has("native"))
        assert_int_equal(clmoe_context_selftest(context, NULL), CLMOE_SUCCESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_context),
        cmocka_unit_test(test_callers_context),
        cmocka_unit_test(test_arguments),
    };
    context = fixture_context(fixture_pair());
    if (context == NULL)
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    clmoe_context_destroy(context);
    return failed;
}
