/* Finding devices. The environment decides what is there (see CMakeLists.txt); CLMOE_TEST_DEVICES says what must be found:
 *   none   no platform, or no OpenCL at all: the native device alone
 *   pocl   PoCL is usable, beside platforms that have no device
 */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_INFOS = 32 };
static clmoe_device_info infos[MAX_INFOS];
static size_t num_infos;

static bool expects_pocl(void) {
    const char *expected = getenv("CLMOE_TEST_DEVICES");
    assert_non_null(expected);
    return strcmp(expected, "pocl") == 0;
}

static void test_list(void **state) {
    (void)state;
    assert_int_equal(clmoe_devices_list(infos, MAX_INFOS, &num_infos), CLMOE_SUCCESS);
    assert_in_range(num_infos, 1, MAX_INFOS);
    const clmoe_device_info *last = &infos[num_infos - 1];
    assert_int_equal(last->backend, CLMOE_BACKEND_NATIVE);
    assert_in_range(last->compute_units, 1, 256);
    int32_t next = 0;
    bool has_pocl = false, has_empty_platform = false;
    for (size_t i = 0; i < num_infos; ++i) {
        assert_true((infos[i].skipped[0] == '\0') == (infos[i].index >= 0));
        if (infos[i].index >= 0)
            assert_int_equal(infos[i].index, next++); /* usable devices are numbered without gaps */
        has_pocl |= infos[i].index >= 0 && strcmp(infos[i].platform_name, "Portable Computing Language") == 0;
        has_empty_platform |= infos[i].index < 0 && strstr(infos[i].skipped, "without devices") != NULL;
    }
    assert_int_equal(has_pocl, expects_pocl());
    assert_int_equal(has_empty_platform, expects_pocl());
    if (!expects_pocl())
        assert_int_equal(num_infos, 1);
}

static void test_list_in_parts(void **state) {
    (void)state;
    size_t count = 0;
    clmoe_device_info one[2];
    memset(one, 0x5a, sizeof one);
    assert_int_equal(clmoe_devices_list(NULL, 0, &count), CLMOE_SUCCESS);
    assert_int_equal(count, num_infos);
    assert_int_equal(clmoe_devices_list(one, 1, &count), CLMOE_SUCCESS);
    assert_int_equal(count, num_infos);
    assert_string_equal(one[0].platform_name, infos[0].platform_name);
    assert_int_equal(((unsigned char *)&one[1])[0], 0x5a);
    assert_int_equal(clmoe_devices_list(NULL, 0, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_devices_list(NULL, 1, &count), CLMOE_INVALID_ARGUMENT);
}

static void expect_device(const char *selector, const clmoe_device_info *expected) {
    clmoe_context *context = NULL;
    clmoe_device_info found;
    assert_int_equal(clmoe_context_create(selector, NULL, &context), CLMOE_SUCCESS);
    assert_int_equal(clmoe_context_describe(context, &found), CLMOE_SUCCESS);
    assert_int_equal(found.backend, expected->backend);
    assert_string_equal(found.name, expected->name);
    assert_int_equal(clmoe_context_queue(context) != NULL, expected->backend == CLMOE_BACKEND_OPENCL);
    clmoe_context_destroy(context);
}

static void test_selectors(void **state) {
    (void)state;
    const clmoe_device_info *native = &infos[num_infos - 1];
    char selector[32];
    expect_device("native", native);
    expect_device(NULL, native); /* no GPU in these tests, and a CPU device of OpenCL is no match for auto */
    expect_device("auto", native);
    expect_device("", native);
    for (size_t i = 0; i < num_infos; ++i)
        if (infos[i].index >= 0) {
            snprintf(selector, sizeof selector, "%d", (int)infos[i].index);
            expect_device(selector, &infos[i]);
            if (infos[i].backend == CLMOE_BACKEND_OPENCL) {
                snprintf(selector, sizeof selector, "%d:%d", (int)infos[i].platform_index, (int)infos[i].device_index);
                expect_device(selector, &infos[i]);
                expect_device("pOrTaBlE comp", &infos[i]);
            }
        }
}

static void test_no_such_device(void **state) {
    (void)state;
    static const char *const selectors[] = {"99", "nosuch", "7:0", "0:77", "-1", "99999999999999999999", "0:", ":0", "0:0:0", "Clover"};
    for (size_t i = 0; i < sizeof selectors / sizeof *selectors; ++i) {
        char text[300] = "";
        const clmoe_context_options options = {.error_text = text, .error_text_bytes = sizeof text};
        clmoe_context *context = NULL;
        assert_int_equal(clmoe_context_create(selectors[i], &options, &context), CLMOE_NO_DEVICE);
        assert_null(context);
        assert_non_null(strstr(text, selectors[i]));
        assert_non_null(strstr(text, "native")); /* what there is */
        char tiny[8];
        const clmoe_context_options cramped = {.error_text = tiny, .error_text_bytes = sizeof tiny};
        assert_int_equal(clmoe_context_create(selectors[i], &cramped, &context), CLMOE_NO_DEVICE);
        assert_in_range(strlen(tiny), 1, sizeof tiny - 1);
    }
}

static void test_options(void **state) {
    (void)state;
    char text[300] = "";
    clmoe_context *context = NULL;
    clmoe_context_options options = {.num_threads = 257, .error_text = text, .error_text_bytes = sizeof text};
    assert_int_equal(clmoe_context_create("native", &options, &context), CLMOE_INVALID_ARGUMENT);
    assert_non_null(strstr(text, "num_threads"));
    options.num_threads = 0;
    options.kernel_class = CLMOE_CLASS_PARALLEL;
    assert_int_equal(clmoe_context_create("native", &options, &context), CLMOE_UNSUPPORTED);
    assert_non_null(strstr(text, "kernel_class"));
    options.kernel_class = (clmoe_class)7;
    assert_int_equal(clmoe_context_create("native", &options, &context), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_context_create("native", NULL, NULL), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(
        clmoe_context_create_opencl(NULL, NULL, &(clmoe_context_options){.error_text = text, .error_text_bytes = sizeof text}, &context),
        CLMOE_INVALID_ARGUMENT);
    assert_non_null(strstr(text, "opencl_context"));
    clmoe_context_destroy(NULL);
    clmoe_plan_destroy(NULL);
    assert_int_equal(clmoe_context_error(NULL, NULL, 0), 1);
    assert_string_equal(clmoe_status_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(clmoe_status_name(CLMOE_UNSUPPORTED), "CLMOE_UNSUPPORTED");
    assert_string_equal(clmoe_status_name(12345), "unknown status");
    assert_string_equal(clmoe_version(), CLMOE_VERSION_TEXT);
    assert_int_equal(strspn(clmoe_kernels_hash(), "0123456789abcdef"), 16);
    assert_int_equal(strlen(clmoe_kernels_hash()), 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),           cmocka_unit_test(test_list_in_parts), cmocka_unit_test(test_selectors),
        cmocka_unit_test(test_no_such_device), cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests_name("devices", tests, NULL, NULL);
}
