#include "command.h"
#include "router.h"

#include <inttypes.h>
#include <string.h>

static const char command_name[] = "route";

/* What the command line asked for, and what came of it. */
typedef struct route_job {
    common_options common;
    const char *logits_path, *ids_path, *weights_path;
    number_list at;
    router_job router;
    session work;
    output_set outputs;
} route_job;

static bool parse(route_job *job, int argc, char **argv, outcome *result) {
    enum { NUM_OWN = 3 };
    option_spec specs[NUM_OWN + ROUTER_NUM_OPTIONS] = {
        {"--out-ids", OPTION_TEXT, (void *)&job->ids_path, "I.npy", "where the ids go, int32 [T][K], the best expert first", 0, 0, NULL},
        {"--out-weights", OPTION_TEXT, (void *)&job->weights_path, "W.npy", "where the weights go, float32 [T][K]", 0, 0, NULL},
        {"--at", OPTION_NUMBERS, &job->at, "I,J,...", "takes this part of an array with more than two dimensions", 0, UINT32_MAX, NULL},
    };
    router_options(&job->router, specs + NUM_OWN);
    static const char purpose[] =
        "Chooses K of E experts for each token of LOGITS.npy, float32, float16 or bfloat16 [T][E], and weights for the chosen:\n"
        "softcap, score, + bias, best groups, K best (equal ones: the lower number), weights without the bias, renormalize, scale.\n"
        "Prints tokens, experts, and CRC-32 sums of ids, weights and both: the same on every device.";
    const command_syntax syntax = {
        command_name, "LOGITS.npy {--top-k K | --model NAME} [options]", purpose, specs, sizeof specs / sizeof specs[0], "[LOGITS.npy]"};
    return options_parse(&syntax, argc, argv, &job->common, &job->logits_path, result);
}

static outcome run(route_job *job) {
    router_job *router = &job->router;
    session *work = &job->work;
    const clmoe_route_desc desc = {.max_tokens = router->num_tokens, .logit_type = router->logit_type, .router = router->router};
    clmoe_route_args args = {0};
    clmoe_plan *plan = NULL;
    clmoe_status status = clmoe_route_plan_create(work->context, &desc, &plan);
    if (status != CLMOE_SUCCESS) {
        return session_failure(work, status);
    }
    outcome result = router_prepare(router, work, &args);
    if (result == OUTCOME_DONE) {
        result = session_buffer(work, NULL, clmoe_plan_workspace_bytes(plan), &args.workspace);
    }
    if (result == OUTCOME_DONE) {
        status = clmoe_route_enqueue(plan, clmoe_context_queue(work->context), &args, 0, NULL, NULL);
        result = status == CLMOE_SUCCESS ? router_collect(router, work, &args) : session_failure(work, status);
    }
    if (result == OUTCOME_DONE) {
        result = session_tell_plan(work, plan, router->num_tokens);
    }
    router_release(work, &args);
    clmoe_plan_destroy(plan);
    return result;
}

static void print_result(const route_job *job) {
    const router_job *router = &job->router;
    if (job->common.json) {
        report_json json = {stdout, 0, false};
        json_open(&json, NULL, '{');
        json_integer(&json, "tokens", router->num_tokens);
        router_json(router, &json);
        output_json(&job->outputs, &json);
        json_close(&json, '}');
        return;
    }
    const report_style style = report_style_of(stdout);
    char sums[96];
    router_print_sums(router, sums, sizeof sums);
    printf("%s%" PRIu32 " token%s, %" PRIu32 " of %" PRIu32 " experts each%s%s\n", style.bold, router->num_tokens,
           router->num_tokens == 1 ? "" : "s", router->router.top_k, router->router.num_experts, sums, style.plain);
}

static outcome carry_out(route_job *job) {
    router_job *router = &job->router;
    if (router_lists_models(router)) {
        return router_list_models(router, job->common.json);
    }
    outcome result = router_read(router, job->logits_path, &job->at);
    if (result == OUTCOME_DONE) {
        result = session_open(&job->work, command_name, &job->common);
    }
    if (result == OUTCOME_DONE) {
        result = run(job);
    }
    if (result == OUTCOME_DONE) {
        result = router_write(router, &job->outputs, NULL, job->ids_path, job->weights_path);
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    router_tell_missing(router);
    print_result(job);
    result = report_finish(command_name);
    return result == OUTCOME_DONE ? output_commit(&job->outputs) : result;
}

outcome command_route(int argc, char **argv) {
    route_job job;
    outcome result = OUTCOME_DONE;
    memset(&job, 0, sizeof job);
    job.router.command = job.outputs.command = command_name;
    if (parse(&job, argc, argv, &result)) {
        result = carry_out(&job);
    }
    output_discard(&job.outputs);
    session_close(&job.work);
    router_free(&job.router);
    return result;
}
