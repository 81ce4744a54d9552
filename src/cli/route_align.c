#include "command.h"
#include "layout.h"
#include "router.h"

#include <inttypes.h>
#include <string.h>

static const char command_name[] = "route-align";

/* What the command line asked for, and what came of it. */
typedef struct route_align_job {
    layout_job layout;
    router_job router;
    const char *logits_path;
} route_align_job;

static bool parse(route_align_job *job, int argc, char **argv, outcome *result) {
    enum { NUM_OWN = 1 };
    option_spec specs[NUM_OWN + ROUTER_NUM_OPTIONS + LAYOUT_NUM_OPTIONS] = {
        {"-o", OPTION_TEXT, (void *)&job->layout.directory, "DIR",
         "writes topk_ids, topk_weights, sorted_token_ids, expert_ids, num_tokens_post_padded as .npy", 0, 0, NULL},
    };
    router_options(&job->router, specs + NUM_OWN);
    layout_options(&job->layout, specs + NUM_OWN + ROUTER_NUM_OPTIONS);
    static const char purpose[] =
        "Chooses K of E experts for each token of LOGITS.npy, float32, float16 or bfloat16 [T][E], and sorts the (token, slot) pairs by\n"
        "expert, padded to whole blocks of B rows: what 'clmoe route' and 'clmoe align' do one after the other, in one call.\n"
        "Prints what align prints, and CRC-32 sums of ids, weights, both, and the layout: the same on every device.";
    const command_syntax syntax = {
        command_name,  "LOGITS.npy {--top-k K | --model NAME} --block B [options]", purpose, specs, sizeof specs / sizeof specs[0],
        "[LOGITS.npy]"};
    return options_parse(&syntax, argc, argv, &job->layout.common, &job->logits_path, result);
}

static outcome read_inputs(route_align_job *job) {
    router_job *router = &job->router;
    routing *route = &job->layout.route;
    const outcome result = router_read(router, job->logits_path, &job->layout.at);
    if (result != OUTCOME_DONE) {
        return result;
    }
    route->command = command_name;
    route->id_type = CLMOE_ID_I32;
    route->num_tokens = router->num_tokens;
    route->top_k = router->router.top_k;
    route->num_experts = router->router.num_experts;
    return layout_read(&job->layout);
}

static outcome run(route_align_job *job) {
    layout_job *layout = &job->layout;
    router_job *router = &job->router;
    session *work = &layout->work;
    const clmoe_route_align_desc desc = {.max_tokens = router->num_tokens,
                                         .logit_type = router->logit_type,
                                         .router = router->router,
                                         .block_size = layout->call.block_size,
                                         .foreign = layout->route.foreign,
                                         .has_pad_value = layout->call.has_pad_value,
                                         .pad_value = layout->call.pad_value};
    clmoe_route_align_args args;
    clmoe_plan *plan = NULL;
    memset(&args, 0, sizeof args);
    clmoe_status status = clmoe_route_align_plan_create(work->context, &desc, &plan);
    if (status != CLMOE_SUCCESS) {
        return session_failure(work, status);
    }
    outcome result = router_prepare(router, work, &args.route);
    if (result == OUTCOME_DONE) {
        result = align_call_prepare(&layout->call, &layout->route, work, &args.align);
    }
    if (result == OUTCOME_DONE) {
        result = session_buffer(work, NULL, clmoe_plan_workspace_bytes(plan), &args.workspace);
    }
    if (result == OUTCOME_DONE) {
        status = clmoe_route_align_enqueue(plan, clmoe_context_queue(work->context), &args, 0, NULL, NULL);
        result = status == CLMOE_SUCCESS ? router_collect(router, work, &args.route) : session_failure(work, status);
    }
    if (result == OUTCOME_DONE) {
        result = align_call_collect(&layout->call, work, &args.align);
    }
    if (result == OUTCOME_DONE) {
        result = session_tell_plan(work, plan, router->num_tokens);
    }
    clmoe_buffer_destroy(work->context, args.workspace);
    align_call_release(work, &args.align);
    router_release(work, &args.route);
    clmoe_plan_destroy(plan);
    layout->route.ids = router->ids;
    layout->route.ids.memory = NULL; /* the router's */
    return result;
}

static uint32_t sum_of_layout(const align_call *call) {
    uint32_t crc = 0;
    for (size_t i = ALIGN_SORTED; i <= ALIGN_TOTAL; i++) {
        crc = router_crc32(crc, call->arrays[i], call->num_items[i]);
    }
    return crc;
}

static void print_result(const route_align_job *job) {
    const layout_job *layout = &job->layout;
    const uint32_t layout_crc = sum_of_layout(&layout->call);
    if (layout->common.json) {
        report_json json = {stdout, 0, false};
        json_open(&json, NULL, '{');
        layout_json(layout, &json);
        router_json(&job->router, &json);
        router_json_crc32(&json, "layout_crc32", layout_crc);
        output_json(&layout->outputs, &json);
        json_close(&json, '}');
        return;
    }
    char sums[96], tail[128];
    router_print_sums(&job->router, sums, sizeof sums);
    snprintf(tail, sizeof tail, "%s, layout %08" PRIx32, sums, layout_crc);
    layout_print(layout, tail);
}

static outcome carry_out(route_align_job *job) {
    layout_job *layout = &job->layout;
    if (router_lists_models(&job->router)) {
        return router_list_models(&job->router, layout->common.json);
    }
    outcome result = layout_check(layout);
    if (result == OUTCOME_DONE) {
        result = read_inputs(job);
    }
    if (result == OUTCOME_DONE) {
        result = session_open(&layout->work, command_name, &layout->common);
    }
    if (result == OUTCOME_DONE) {
        result = run(job);
    }
    if (result == OUTCOME_DONE && layout->directory) {
        result = output_directory(&layout->outputs, layout->directory);
        if (result == OUTCOME_DONE) {
            result = router_write(&job->router, &layout->outputs, layout->directory, "topk_ids.npy", "topk_weights.npy");
        }
    }
    if (result == OUTCOME_DONE) {
        result = layout_write(layout);
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    router_tell_missing(&job->router);
    print_result(job);
    return layout_finish(layout);
}

outcome command_route_align(int argc, char **argv) {
    route_align_job job;
    outcome result = OUTCOME_DONE;
    memset(&job, 0, sizeof job);
    job.layout.command = job.layout.outputs.command = job.router.command = command_name;
    if (parse(&job, argc, argv, &result)) {
        result = carry_out(&job);
    }
    layout_end(&job.layout);
    router_free(&job.router);
    return result;
}
