#define _POSIX_C_SOURCE 200809L
#include "bench_case.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LONG_US = 1000,            /* samples that need no call before them to warm up, */
    VERY_LONG_US = 500000,     /*   and those of which three must do */
    SAMPLE_US = 20,            /* shorter calls are timed many at a time: reading the clock takes tens of nanoseconds */
    MAX_CALLS = 1 << 14,       /* in one sample */
    MAX_EVENTS = 50,           /* calls with the driver's clock, apart from the samples by wall time */
    MAX_STABLE_READS = 1 << 23 /* ids that the naive stable way may read: beyond, it takes seconds on a processor */
};

double bench_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------------------------- */

static const char *const contender_names[] = {"clmoe",        "empty launch", "copy",        "plain C", "plain C, 2 threads",
                                              "memory floor", "naive atomic", "naive stable"}; /* peers bring theirs */

static bool is_good(const bench_case *c) {
    return c->row.status == BENCH_OK;
}

static void give_up(bench_case *c, bench_status how, clmoe_status status, const char *what) {
    char text[200] = "";
    c->row.status = how;
    if (c->arrays->device->context && status <= CLMOE_INVALID_ARGUMENT) {
        clmoe_context_error(c->arrays->device->context, text, sizeof text);
    }
    snprintf(c->row.reason, sizeof c->row.reason, "%s%s%s", what, what[0] ? ": " : "", text[0] ? text : clmoe_status_name(status));
}

static void give_up_peer(bench_case *c) {
    c->row.status = BENCH_FAILED;
    snprintf(c->row.reason, sizeof c->row.reason, "%.*s", (int)sizeof c->row.reason - 1, c->peer->reason);
}

static bench_naive naive_of(bench_contender which) {
    return which == BENCH_CONTENDER_ATOMIC ? BENCH_NAIVE_ATOMIC : which == BENCH_CONTENDER_STABLE ? BENCH_NAIVE_STABLE : BENCH_NAIVE_NONE;
}

/* One call, on the next set of inputs. */
static clmoe_status call(bench_case *c, cl_command_queue queue, cl_event *event) {
    const bench_problem *problem = c->problem;
    bench_device *device = c->arrays->device;
    const uint32_t set = c->last_set = c->next_set;
    const clmoe_buffer *inputs = c->arrays->inputs[set], *outputs = c->arrays->outputs;
    void *hosts[BENCH_MAX_OUTPUTS];
    for (uint32_t i = 0; i < BENCH_MAX_OUTPUTS; i++) {
        hosts[i] = outputs[i].host;
    }
    c->next_set = set + 1 < problem->num_sets ? set + 1 : 0;
    switch (c->contender) {
    case BENCH_CONTENDER_EMPTY:
        if (device->opencl) {
            return bench_opencl_empty(device->opencl, queue, event);
        }
        return bench_problem_enqueue(problem, c->plan, inputs, outputs, c->workspace, NULL, NULL);
    case BENCH_CONTENDER_LIBRARY: return bench_problem_enqueue(problem, c->plan, inputs, outputs, c->workspace, queue, event);
    case BENCH_CONTENDER_COPY:
        if (device->opencl) {
            return bench_opencl_copy(device->opencl, queue, inputs[0], outputs[0], event);
        }
        bench_copy(hosts[0], inputs[0].host, problem->output_bytes[0], device->info.compute_units);
        return CLMOE_SUCCESS;
    case BENCH_CONTENDER_PLAIN: bench_problem_plain(problem, c->plain, set, hosts, NULL); return CLMOE_SUCCESS;
    case BENCH_CONTENDER_PLAIN_TWO: bench_problem_plain(problem, c->plain, set, hosts, c->team); return CLMOE_SUCCESS;
    case BENCH_CONTENDER_FLOOR: bench_problem_floor(problem, c->plain, set, hosts); return CLMOE_SUCCESS;
    case BENCH_CONTENDER_ATOMIC:
    case BENCH_CONTENDER_STABLE:
        return bench_opencl_naive(device->opencl, problem->work, naive_of(c->contender), problem->capacity, inputs, outputs, c->workspace,
                                  queue, event);
    case BENCH_CONTENDER_PEER: break;
    }
    return CLMOE_UNSUPPORTED;
}

/* By the peer's own clock. */
static double time_calls_of_peer(bench_case *c, uint32_t num_calls) {
    const uint32_t num_sets = c->problem->num_sets;
    const double us = bench_peer_time(c->peer, c->next_set, num_calls);
    c->last_set = (c->next_set + num_calls - 1) % num_sets;
    c->next_set = (c->next_set + num_calls) % num_sets;
    if (us < 0) {
        give_up_peer(c);
    }
    return us;
}

/* Wall time of that many calls with one finish at the end, in microseconds. */
static double time_calls(bench_case *c, uint32_t num_calls) {
    if (c->peer) {
        return time_calls_of_peer(c, num_calls);
    }
    bench_opencl *opencl = c->arrays->device->opencl;
    cl_command_queue queue = opencl ? bench_opencl_queue(opencl, false) : NULL;
    clmoe_status status = CLMOE_SUCCESS;
    const double start = bench_now_us();
    for (uint32_t i = 0; i < num_calls && status == CLMOE_SUCCESS; i++) {
        status = call(c, queue, NULL);
    }
    if (opencl && status == CLMOE_SUCCESS) {
        status = bench_opencl_finish(opencl, queue);
    }
    const double us = bench_now_us() - start;
    if (status != CLMOE_SUCCESS) {
        give_up(c, BENCH_FAILED, status, "call");
    }
    return us;
}

/* ---- Checking ------------------------------------------------------------------------------------------------------------------- */

static bool has_outputs(const bench_case *c) {
    return c->contender != BENCH_CONTENDER_EMPTY && c->contender != BENCH_CONTENDER_FLOOR;
}

static bool has_weights(const bench_problem *problem) {
    return problem->work->op == BENCH_ROUTE || problem->work->op == BENCH_ROUTE_ALIGN;
}

/* So that an output that is not written is found. */
static void spoil_outputs(bench_case *c) {
    for (uint32_t i = 0; i < c->problem->num_outputs && has_outputs(c); i++) {
        const size_t bytes = c->problem->output_bytes[i];
        void *rubbish = malloc(bytes + 1);
        if (rubbish) {
            memset(rubbish, 0xa5, bytes);
            bench_memory_write(c->arrays->device, c->arrays->outputs[i], rubbish, bytes);
        }
        free(rubbish);
    }
}

/* Peers keep their outputs to themselves until they are asked. */
static void solve_by_peer(bench_case *c) {
    void *outputs[BENCH_MAX_OUTPUTS];
    for (uint32_t i = 0; i < BENCH_MAX_OUTPUTS; i++) {
        outputs[i] = c->arrays->outputs[i].host;
    }
    if (!bench_peer_solve(c->peer, c->problem, c->last_set, outputs)) {
        give_up_peer(c);
    }
}

/* Holds the outputs of the last call against plain C. */
static void check_outputs(bench_case *c) {
    void *outputs[BENCH_MAX_OUTPUTS] = {NULL};
    bench_problem *problem = c->problem;
    clmoe_status status = CLMOE_SUCCESS;
    bool is_equal = true;
    uint64_t hash = 0;
    if (is_good(c) && c->peer) {
        solve_by_peer(c);
    }
    if (!is_good(c) || !has_outputs(c)) {
        return;
    }
    for (uint32_t i = 0; i < problem->num_outputs && status == CLMOE_SUCCESS; i++) {
        outputs[i] = malloc(problem->output_bytes[i] + 1);
        status = outputs[i] ? bench_memory_read(c->arrays->device, c->arrays->outputs[i], outputs[i], problem->output_bytes[i])
                            : CLMOE_OUT_OF_MEMORY;
    }
    if (status != CLMOE_SUCCESS) {
        give_up(c, BENCH_FAILED, status, "reading the result");
    } else {
        const bool has_open_order = c->contender == BENCH_CONTENDER_ATOMIC && problem->work->op == BENCH_ALIGN;
        if (has_open_order) {
            bench_problem_order(problem, outputs);
        }
        bench_problem_expect(problem, c->last_set);
        for (uint32_t i = 0; i < problem->num_outputs; i++) {
            is_equal = is_equal && memcmp(outputs[i], problem->expected[i], problem->output_bytes[i]) == 0;
            hash = bench_hash(hash, outputs[i], problem->output_bytes[i]);
        }
        const bool is_close = !is_equal && has_weights(problem) && bench_problem_is_close(problem, outputs);
        c->row.correct = is_close && c->row.correct != BENCH_WRONG    ? BENCH_CLOSE
                         : c->row.correct == BENCH_WRONG || !is_equal ? BENCH_WRONG
                         : has_open_order                             ? BENCH_UNORDERED
                                                                      : BENCH_EXACT;
        c->row.hash = c->last_set == 0 && !has_open_order ? hash : c->row.hash;
    }
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        free(outputs[i]);
    }
}

/* ---- Opening a case: all that happens once -------------------------------------------------------------------------------------- */

static void make_plan(bench_case *c) {
    static const char *const origins[] = {"native", "built", "cached", "shared"};
    bench_device *device = c->arrays->device;
    clmoe_plan_info info;
    const double start = bench_now_us();
    clmoe_status status = bench_problem_plan(c->problem, device->context, &c->plan);
    c->row.plan_ms = 1e-3 * (bench_now_us() - start);
    if (status == CLMOE_SUCCESS) {
        status = clmoe_plan_describe(c->plan, bench_problem_items(c->problem), &info);
    }
    if (status == CLMOE_SUCCESS) {
        c->row.program = origins[info.program_origin];
        c->row.kernel_class = info.kernel_class == CLMOE_CLASS_PARALLEL ? "parallel" : "serial";
        c->row.num_launches = info.num_launches;
        c->row.group_size = info.group_size;
        c->row.num_groups = info.num_groups;
        c->row.plan_bytes = info.bytes_read + info.bytes_written;
        memcpy(c->row.variant, info.name, sizeof c->row.variant);
        status = bench_memory_create(device, clmoe_plan_workspace_bytes(c->plan), &c->workspace);
    }
    if (status != CLMOE_SUCCESS) {
        give_up(c, status == CLMOE_UNSUPPORTED ? BENCH_SKIPPED : BENCH_FAILED, status, "");
    }
}

static void prepare(bench_case *c) {
    const bench_workload *work = c->problem->work;
    bench_device *device = c->arrays->device;
    const bench_naive naive = naive_of(c->contender);
    c->row.num_launches = device->is_host ? 0 : 1;
    if (c->contender == BENCH_CONTENDER_LIBRARY || (c->contender == BENCH_CONTENDER_EMPTY && !device->opencl)) {
        make_plan(c);
    } else if (naive != BENCH_NAIVE_NONE) {
        const uint64_t reads = (uint64_t)work->num_tokens * work->top_k * work->num_experts;
        c->row.num_launches = bench_naive_launches(work, naive);
        if (naive == BENCH_NAIVE_STABLE && reads > MAX_STABLE_READS) {
            give_up(c, BENCH_SKIPPED, CLMOE_SUCCESS, "");
            snprintf(c->row.reason, sizeof c->row.reason, "reads the list for each expert: %" PRIu64 " million ids a call",
                     reads / 1000000);
        } else if (work->op == BENCH_ALIGN) {
            const clmoe_status status = bench_memory_create(device, (2 * work->num_experts + 1) * sizeof(uint32_t), &c->workspace);
            if (status != CLMOE_SUCCESS) {
                give_up(c, BENCH_FAILED, status, "");
            }
        }
    } else if (c->contender == BENCH_CONTENDER_PLAIN_TWO) {
        c->team = bench_team_open();
        if (!c->team) {
            give_up(c, BENCH_FAILED, CLMOE_OUT_OF_MEMORY, "second thread");
        }
    } else if (c->contender == BENCH_CONTENDER_PEER) {
        const double start = bench_now_us();
        c->row.status = bench_peer_pose(c->peer, c->problem, c->row.reason, sizeof c->row.reason);
        c->row.plan_ms = 1e-3 * (bench_now_us() - start);
    }
}

static void wake_team(bench_case *c) {
    if (c->team) {
        bench_team_start(c->team);
    }
}

static void rest_team(bench_case *c) {
    if (c->team) {
        bench_team_stop(c->team);
    }
}

static void begin_row(bench_case *c) {
    const bench_problem *problem = c->problem;
    const bench_device *device = c->arrays->device;
    bench_row *row = &c->row;
    snprintf(row->workload, sizeof row->workload, "%s", problem->work->name);
    snprintf(row->device, sizeof row->device, "%s", c->peer ? c->peer->device : device->label);
    row->group = problem->work->group;
    row->op = bench_operator_name(problem->work->op);
    row->contender = c->peer ? c->peer->name : contender_names[c->contender];
    row->program = row->kernel_class = "";
    row->num_sets = problem->num_sets;
    row->bytes = problem->bytes_read + problem->bytes_written;
    row->padding_factor = problem->padding_factor;
    row->input_hash = problem->input_hash;
    const char *reason = device->reason[0] ? device->reason : problem->reason;
    if (reason[0]) {
        row->status = BENCH_SKIPPED;
        snprintf(row->reason, sizeof row->reason, "%s", reason);
    } else if (c->arrays->status != CLMOE_SUCCESS) {
        give_up(c, BENCH_SKIPPED, c->arrays->status, "memory of the device");
    }
}

void bench_case_open(bench_case *c, const bench_effort *effort) {
    c->plain = bench_plain_choose();
    begin_row(c);
    if (is_good(c)) {
        prepare(c);
    }
    if (!is_good(c)) {
        return;
    }
    wake_team(c);
    spoil_outputs(c);
    c->row.first_ms = 1e-3 * time_calls(c, 1);
    check_outputs(c);
    uint32_t calls = 1;
    double us = is_good(c) ? time_calls(c, 1) : 0;
    while (is_good(c) && us < SAMPLE_US && calls < MAX_CALLS) {
        calls *= 2;
        us = time_calls(c, calls);
    }
    rest_team(c);
    const double wanted = 1e3 * effort->row_ms / (us > 0 ? us : 1);
    const uint32_t least = us > VERY_LONG_US && effort->min_samples > 3 ? 3 : effort->min_samples;
    c->row.calls_per_sample = calls;
    c->is_long = us > LONG_US;
    c->num_wanted = wanted < least ? least : wanted > effort->max_samples ? effort->max_samples : (uint32_t)wanted;
    c->row.wall.us = calloc(c->num_wanted, sizeof(double));
    c->row.event.us = calloc(MAX_EVENTS, sizeof(double));
    if (!c->row.wall.us || !c->row.event.us) {
        give_up(c, BENCH_FAILED, CLMOE_OUT_OF_MEMORY, "");
    }
}

/* ---- Samples -------------------------------------------------------------------------------------------------------------------- */

/* One call by the driver's clock. More than one launch: from the end of an empty one before to the end of the last. */
static void take_event(bench_case *c) {
    bench_opencl *opencl = c->arrays->device->opencl;
    cl_command_queue queue = bench_opencl_queue(opencl, true);
    cl_event before = NULL, end = NULL;
    clmoe_status status = CLMOE_SUCCESS;
    const double start = bench_now_us();
    if (c->row.num_launches > 1) {
        status = bench_opencl_empty(opencl, queue, &before);
    }
    if (status == CLMOE_SUCCESS) {
        status = call(c, queue, &end);
    }
    if (status == CLMOE_SUCCESS) {
        status = bench_opencl_finish(opencl, queue);
    }
    if (status != CLMOE_SUCCESS) {
        give_up(c, BENCH_FAILED, status, "call with an event");
        return;
    }
    const double us = bench_opencl_event_us(opencl, before, end, bench_now_us() - start);
    if (us < 0) {
        c->row.bad_events++;
    } else {
        c->row.event.us[c->row.event.num++] = us;
    }
}

void bench_case_take_slice(bench_case *c, uint32_t round, uint32_t num_rounds) {
    if (!is_good(c)) {
        return;
    }
    const size_t until = (size_t)c->num_wanted * (round + 1) / num_rounds;
    wake_team(c);
    if (!c->is_long && is_good(c) && c->row.wall.num < until) {
        time_calls(c, 1); /* another case has run since */
    }
    while (is_good(c) && c->row.wall.num < until) {
        const double us = time_calls(c, c->row.calls_per_sample);
        if (is_good(c)) {
            c->row.wall.us[c->row.wall.num++] = us / c->row.calls_per_sample;
        }
    }
    const size_t num_events = c->num_wanted < MAX_EVENTS ? c->num_wanted : MAX_EVENTS, events_until = num_events * (round + 1) / num_rounds;
    while (c->arrays->device->opencl && is_good(c) && c->row.event.num + c->row.bad_events < events_until) {
        take_event(c);
    }
    rest_team(c);
    if (round + 1 == num_rounds) {
        check_outputs(c);
    }
}

/* What only the whole of a row tells, and what later rows are measured by. */
static void finish_row(bench_case *c) {
    bench_row *row = &c->row;
    bench_device *device = c->arrays->device;
    if (row->correct == BENCH_WRONG && is_good(c)) {
        row->status = BENCH_FAILED;
        snprintf(row->reason, sizeof row->reason, "the result differs from plain C's");
    }
    if (!is_good(c)) {
        return;
    }
    const double wall_us = bench_summarise(row->wall.us, row->wall.num).median, device_us = bench_device_us(row);
    const bool by_event = strcmp(bench_clock(row), "event") == 0;
    if (c->contender == BENCH_CONTENDER_EMPTY) {
        device->empty_us = wall_us;
    } else if (c->problem->work->op == BENCH_COPY) {
        device->copy_bytes_per_us[0] = (double)row->bytes / wall_us;
        device->copy_bytes_per_us[1] = by_event ? (double)row->bytes / device_us : 0;
    }
    row->times_empty = device->empty_us > 0 ? wall_us / device->empty_us : 0;
    const double copy = device->copy_bytes_per_us[by_event];
    row->fraction_of_copy = copy > 0 && device_us > 0 ? (double)row->bytes / device_us / copy : 0;
}

void bench_case_close(bench_case *c) {
    finish_row(c);
    clmoe_plan_destroy(c->plan);
    bench_memory_destroy(c->arrays->device, c->workspace);
    bench_team_close(c->team);
}
