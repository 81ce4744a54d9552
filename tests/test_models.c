/* test_models.c - the table of published models: in order, found by name, and routers that the library takes. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_order(void **state) {
    size_t num_models = 0;
    const clmoe_model *models = clmoe_models(&num_models);
    (void)state;
    assert_true(num_models > 0);
    for (size_t i = 0; i < num_models; ++i) {
        assert_true(i == 0 || strcmp(models[i - 1].name, models[i].name) < 0);
        assert_int_equal(strspn(models[i].name, "abcdefghijklmnopqrstuvwxyz0123456789.-"), strlen(models[i].name));
        assert_true(models[i].source[0] != '\0');
        assert_ptr_equal(clmoe_model_find(models[i].name), &models[i]);
    }
}

static void test_find(void **state) {
    static const char *const wanted[] = {"deepseek-v3", "kimi-k2",       "qwen3-30b-a3b", "gpt-oss-20b",      "mixtral-8x7b",
                                         "glm-4.5",     "llama-4-scout", "ernie-4.5",     "deepseek-v4-flash"};
    static const char *const unknown[] = {"", "deepseek", "deepseek-v", "deepseek-v33", " deepseek-v3", "gpt_oss_20b"};
    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i)
        assert_non_null(clmoe_model_find(wanted[i]));
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; ++i)
        assert_null(clmoe_model_find(unknown[i]));
    assert_null(clmoe_model_find(NULL));
    assert_ptr_equal(clmoe_model_find("DeepSeek-V3"), clmoe_model_find("deepseek-v3"));
    assert_ptr_equal(clmoe_model_find("MIXTRAL-8X7B"), clmoe_model_find("mixtral-8x7b"));
}

static void test_deepseek_v3(void **state) {
    const clmoe_router *router = &clmoe_model_find("deepseek-v3")->router;
    (void)state;
    assert_int_equal(router->num_experts, 256);
    assert_int_equal(router->top_k, 8);
    assert_int_equal(router->score, CLMOE_SCORE_SIGMOID);
    assert_true(router->has_bias);
    assert_int_equal(router->group_filter, CLMOE_GROUPS_TOP2_SUM);
    assert_int_equal(router->num_groups, 8);
    assert_int_equal(router->kept_groups, 4);
    assert_int_equal(router->renormalize, CLMOE_RENORMALIZE_SUM_PLUS_EPSILON);
    assert_true(router->epsilon == 1e-20f && router->scale == 2.5f);
}

static void test_plans(void **state) {
    size_t num_models = 0;
    const clmoe_model *models = clmoe_models(&num_models);
    clmoe_context *context = NULL;
    (void)state;
    assert_int_equal(clmoe_context_create_native(NULL, &context), CLMOE_SUCCESS);
    for (size_t i = 0; i < num_models; ++i) {
        const clmoe_route_desc desc = {.max_tokens = 4096, .router = models[i].router};
        clmoe_plan *plan = NULL;
        char text[400];
        const clmoe_status status = clmoe_route_plan_create(context, &desc, &plan);
        clmoe_context_error(context, text, sizeof text);
        if (status != CLMOE_SUCCESS)
            fail_msg("%s: %s", models[i].name, text);
        clmoe_plan_destroy(plan);
    }
    clmoe_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_find), cmocka_unit_test(test_deepseek_v3),
                                       cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
