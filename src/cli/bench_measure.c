#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS = 10,               /* slices in which the cases of a workload take turns */
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

/* ---- Memory -------------------------------------------------------------------------------------------------------------------- */

/* A problem's arrays on one device; all contenders there share them. */
typedef struct memory {
    bench_device *device;
    clmoe_buffer inputs[BENCH_MAX_SETS][BENCH_MAX_INPUTS];
    clmoe_buffer outputs[BENCH_MAX_OUTPUTS];
    clmoe_status status;
} memory;

static void memory_open(memory *m, const bench_problem *problem) {
    for (uint32_t set = 0; set < problem->num_sets && m->status == CLMOE_SUCCESS; set++) {
        for (uint32_t i = 0; i < problem->num_inputs && m->status == CLMOE_SUCCESS; i++) {
            if (!m->device->opencl) {
                m->inputs[set][i] = clmoe_buffer_of_host(problem->inputs[set][i], problem->input_bytes[i]);
                continue;
            }
            m->status = bench_memory_create(m->device, problem->input_bytes[i], &m->inputs[set][i]);
            if (m->status == CLMOE_SUCCESS) {
                m->status = bench_memory_write(m->device, m->inputs[set][i], problem->inputs[set][i], problem->input_bytes[i]);
            }
        }
    }
    for (uint32_t i = 0; i < problem->num_outputs && m->status == CLMOE_SUCCESS; i++) {
        m->status = bench_memory_create(m->device, problem->output_bytes[i], &m->outputs[i]);
    }
}

static void memory_close(memory *m, const bench_problem *problem) {
    for (uint32_t set = 0; set < problem->num_sets && m->device->opencl; set++) {
        for (uint32_t i = 0; i < problem->num_inputs; i++) {
            bench_memory_destroy(m->device, m->inputs[set][i]);
        }
    }
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        bench_memory_destroy(m->device, m->outputs[i]);
    }
}

/* ---- A case --------------------------------------------------------------------------------------------------------------------- */

typedef enum contender {
    CONTENDER_LIBRARY,
    CONTENDER_EMPTY,
    CONTENDER_COPY,
    CONTENDER_PLAIN,
    CONTENDER_PLAIN_TWO,
    CONTENDER_FLOOR,
    CONTENDER_ATOMIC,
    CONTENDER_STABLE,
    CONTENDER_PEER
} contender;

static const char *const contender_names[] = {"clmoe",        "empty launch", "copy",        "plain C", "plain C, 2 threads",
                                              "memory floor", "naive atomic", "naive stable"}; /* peers bring theirs */

typedef struct bench_case {
    bench_problem *problem;
    contender contender;
    memory *memory;
    clmoe_plan *plan;
    clmoe_buffer workspace;
    const bench_plain *plain;
    bench_team *team;
    bench_peer *peer;
    uint32_t next_set, last_set;
    uint32_t num_wanted; /* samples */
    bool is_long;
    bench_row row;
} bench_case;

static bool is_good(const bench_case *c) {
    return c->row.status == BENCH_OK;
}

static void give_up(bench_case *c, bench_status how, clmoe_status status, const char *what) {
    char text[200] = "";
    c->row.status = how;
    if (c->memory->device->context && status <= CLMOE_INVALID_ARGUMENT) {
        clmoe_context_error(c->memory->device->context, text, sizeof text);
    }
    snprintf(c->row.reason, sizeof c->row.reason, "%s%s%s", what, what[0] ? ": " : "", text[0] ? text : clmoe_status_name(status));
}

static void give_up_peer(bench_case *c) {
    c->row.status = BENCH_FAILED;
    snprintf(c->row.reason, sizeof c->row.reason, "%.*s", (int)sizeof c->row.reason - 1, c->peer->reason);
}

static bench_naive naive_of(contender which) {
    return which == CONTENDER_ATOMIC ? BENCH_NAIVE_ATOMIC : which == CONTENDER_STABLE ? BENCH_NAIVE_STABLE : BENCH_NAIVE_NONE;
}

/* One call, on the next set of inputs. */
static clmoe_status call(bench_case *c, cl_command_queue queue, cl_event *event) {
    const bench_problem *problem = c->problem;
    bench_device *device = c->memory->device;
    const uint32_t set = c->last_set = c->next_set;
    const clmoe_buffer *inputs = c->memory->inputs[set], *outputs = c->memory->outputs;
    void *hosts[BENCH_MAX_OUTPUTS];
    for (uint32_t i = 0; i < BENCH_MAX_OUTPUTS; i++) {
        hosts[i] = outputs[i].host;
    }
    c->next_set = set + 1 < problem->num_sets ? set + 1 : 0;
    switch (c->contender) {
    case CONTENDER_EMPTY:
        if (device->opencl) {
            return bench_opencl_empty(device->opencl, queue, event);
        }
        return bench_problem_enqueue(problem, c->plan, inputs, outputs, c->workspace, NULL, NULL);
    case CONTENDER_LIBRARY: return bench_problem_enqueue(problem, c->plan, inputs, outputs, c->workspace, queue, event);
    case CONTENDER_COPY:
        if (device->opencl) {
            return bench_opencl_copy(device->opencl, queue, inputs[0], outputs[0], event);
        }
        bench_copy(hosts[0], inputs[0].host, problem->output_bytes[0], device->info.compute_units);
        return CLMOE_SUCCESS;
    case CONTENDER_PLAIN: bench_problem_plain(problem, c->plain, set, hosts, NULL); return CLMOE_SUCCESS;
    case CONTENDER_PLAIN_TWO: bench_problem_plain(problem, c->plain, set, hosts, c->team); return CLMOE_SUCCESS;
    case CONTENDER_FLOOR: bench_problem_floor(problem, c->plain, set, hosts); return CLMOE_SUCCESS;
    case CONTENDER_ATOMIC:
    case CONTENDER_STABLE:
        return bench_opencl_naive(device->opencl, problem->work, naive_of(c->contender), problem->capacity, inputs, outputs, c->workspace,
                                  queue, event);
    case CONTENDER_PEER: break;
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
    bench_opencl *opencl = c->memory->device->opencl;
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
    return c->contender != CONTENDER_EMPTY && c->contender != CONTENDER_FLOOR;
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
            bench_memory_write(c->memory->device, c->memory->outputs[i], rubbish, bytes);
        }
        free(rubbish);
    }
}

/* Peers keep their outputs to themselves until they are asked. */
static void solve_by_peer(bench_case *c) {
    void *outputs[BENCH_MAX_OUTPUTS];
    for (uint32_t i = 0; i < BENCH_MAX_OUTPUTS; i++) {
        outputs[i] = c->memory->outputs[i].host;
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
        status = outputs[i] ? bench_memory_read(c->memory->device, c->memory->outputs[i], outputs[i], problem->output_bytes[i])
                            : CLMOE_OUT_OF_MEMORY;
    }
    if (status != CLMOE_SUCCESS) {
        give_up(c, BENCH_FAILED, status, "reading the result");
    } else {
        const bool has_open_order = c->contender == CONTENDER_ATOMIC && problem->work->op == BENCH_ALIGN;
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
    bench_device *device = c->memory->device;
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
    bench_device *device = c->memory->device;
    const bench_naive naive = naive_of(c->contender);
    c->row.num_launches = device->is_host ? 0 : 1;
    if (c->contender == CONTENDER_LIBRARY || (c->contender == CONTENDER_EMPTY && !device->opencl)) {
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
    } else if (c->contender == CONTENDER_PLAIN_TWO) {
        c->team = bench_team_open();
        if (!c->team) {
            give_up(c, BENCH_FAILED, CLMOE_OUT_OF_MEMORY, "second thread");
        }
    } else if (c->contender == CONTENDER_PEER) {
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

/* The first call and its check; how many calls make a sample, and how many samples a row. */
static void open_case(bench_case *c, const bench_effort *effort) {
    prepare(c);
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

static void close_case(bench_case *c) {
    clmoe_plan_destroy(c->plan);
    bench_memory_destroy(c->memory->device, c->workspace);
    bench_team_close(c->team);
}

/* ---- Samples -------------------------------------------------------------------------------------------------------------------- */

/* One call by the driver's clock. More than one launch: from the end of an empty one before to the end of the last. */
static void take_event(bench_case *c) {
    bench_opencl *opencl = c->memory->device->opencl;
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

static void take_slice(bench_case *c, uint32_t round) {
    const size_t until = (size_t)c->num_wanted * (round + 1) / ROUNDS;
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
    const size_t num_events = c->num_wanted < MAX_EVENTS ? c->num_wanted : MAX_EVENTS, events_until = num_events * (round + 1) / ROUNDS;
    while (c->memory->device->opencl && is_good(c) && c->row.event.num + c->row.bad_events < events_until) {
        take_event(c);
    }
    rest_team(c);
    if (round + 1 == ROUNDS) {
        check_outputs(c);
    }
}

/* ---- A workload ----------------------------------------------------------------------------------------------------------------- */

/* Which contenders a workload has on a device. */
static size_t list_contenders(const bench_workload *work, const bench_device *device, contender list[4]) {
    size_t num = 0;
    const bool is_align = work->op == BENCH_ALIGN;
    if (work->op == BENCH_EMPTY || work->op == BENCH_COPY) {
        if (!device->is_host) {
            list[num++] = work->op == BENCH_EMPTY ? CONTENDER_EMPTY : CONTENDER_COPY;
        } else if (work->op == BENCH_COPY) {
            list[num++] = CONTENDER_FLOOR;
        }
        return num;
    }
    if (device->is_host) {
        list[num++] = CONTENDER_PLAIN;
        if (is_align && (uint64_t)work->num_tokens * work->top_k >= 65536) {
            list[num++] = CONTENDER_PLAIN_TWO;
        }
        list[num++] = CONTENDER_FLOOR;
        return num;
    }
    list[num++] = CONTENDER_LIBRARY;
    const bool is_wanted = device->reason[0] == 0 && (work->devices == 0 || device->info.kernel_class == CLMOE_CLASS_PARALLEL);
    if (device->opencl && is_wanted && ((is_align && work->num_ranks == 1) || work->op == BENCH_HISTOGRAM)) {
        list[num++] = CONTENDER_ATOMIC;
        if (is_align) {
            list[num++] = CONTENDER_STABLE;
        }
    }
    return num;
}

static void begin_row(bench_case *c) {
    const bench_problem *problem = c->problem;
    const bench_device *device = c->memory->device;
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
    } else if (c->memory->status != CLMOE_SUCCESS) {
        give_up(c, BENCH_SKIPPED, c->memory->status, "memory of the device");
    }
}

/* What only the whole of a row tells, and what later rows are measured by. */
static void finish_row(bench_case *c) {
    bench_row *row = &c->row;
    bench_device *device = c->memory->device;
    if (row->correct == BENCH_WRONG && is_good(c)) {
        row->status = BENCH_FAILED;
        snprintf(row->reason, sizeof row->reason, "the result differs from plain C's");
    }
    if (!is_good(c)) {
        return;
    }
    const double wall_us = bench_summarise(row->wall.us, row->wall.num).median, device_us = bench_device_us(row);
    const bool by_event = strcmp(bench_clock(row), "event") == 0;
    if (c->contender == CONTENDER_EMPTY) {
        device->empty_us = wall_us;
    } else if (c->problem->work->op == BENCH_COPY) {
        device->copy_bytes_per_us[0] = (double)row->bytes / wall_us;
        device->copy_bytes_per_us[1] = by_event ? (double)row->bytes / device_us : 0;
    }
    row->times_empty = device->empty_us > 0 ? wall_us / device->empty_us : 0;
    const double copy = device->copy_bytes_per_us[by_event];
    row->fraction_of_copy = copy > 0 && device_us > 0 ? (double)row->bytes / device_us / copy : 0;
}

/* How often the arrays are there, on devices and in peers. */
static size_t count_copies(const bench_field *field, const bench_workload *work) {
    size_t num = 1;
    for (size_t i = 0; i < field->num_devices; i++) {
        num += field->devices[i].opencl != NULL;
    }
    for (size_t i = 0; i < field->num_peers; i++) {
        num += bench_peer_takes(&field->peers[i], work);
    }
    return num;
}

static uint64_t largest_cache(const bench_device *devices, size_t num_devices) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < num_devices; i++) {
        bytes = devices[i].cache_bytes > bytes ? devices[i].cache_bytes : bytes;
    }
    return bytes;
}

typedef struct case_list {
    bench_case *cases;
    size_t num_cases;
} case_list;

static void add_case(case_list *list, bench_problem *problem, memory *m, contender which, bench_peer *peer, const bench_effort *effort) {
    bench_case *c = &list->cases[list->num_cases++];
    c->problem = problem;
    c->contender = which;
    c->memory = m;
    c->plain = bench_plain_choose();
    c->peer = peer;
    begin_row(c);
    if (is_good(c)) {
        open_case(c, effort);
    }
}

bool bench_measure(const bench_workload *work, const bench_field *field, const char *data_dir, const bench_effort *effort,
                   bench_rows *rows) {
    static bench_problem problem;
    bench_device *devices = field->devices;
    memory *memories = calloc(field->num_devices, sizeof *memories);
    case_list list = {calloc(BENCH_MAX_CASES, sizeof *list.cases), 0};
    bool is_whole = memories && list.cases;
    if (!is_whole) {
        free(memories);
        free(list.cases);
        return false;
    }
    bench_problem_open(&problem, work, data_dir, largest_cache(devices, field->num_devices), (uint32_t)count_copies(field, work));
    for (size_t d = 0; d < field->num_devices; d++) {
        contender contenders[4];
        memories[d].device = &devices[d];
        if (work->devices != 0 && (work->devices >> d & 1) == 0) {
            continue;
        }
        if (problem.reason[0] == 0 && devices[d].reason[0] == 0) {
            memory_open(&memories[d], &problem);
        }
        const size_t num = list_contenders(work, &devices[d], contenders);
        for (size_t i = 0; i < num; i++) {
            add_case(&list, &problem, &memories[d], contenders[i], NULL, effort);
        }
        for (size_t i = 0; i < field->num_peers && devices[d].is_host; i++) {
            if (bench_peer_takes(&field->peers[i], work)) {
                add_case(&list, &problem, &memories[d], CONTENDER_PEER, &field->peers[i], effort);
            }
        }
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < list.num_cases; i++) {
            if (is_good(&list.cases[i])) {
                take_slice(&list.cases[i], round);
            }
        }
    }
    for (size_t i = 0; i < list.num_cases; i++) {
        finish_row(&list.cases[i]);
        close_case(&list.cases[i]);
        is_whole = bench_rows_add(rows, &list.cases[i].row) && is_whole;
    }
    for (size_t d = 0; d < field->num_devices; d++) {
        memory_close(&memories[d], &problem);
    }
    bench_peers_unshare(&problem);
    bench_problem_close(&problem);
    free(memories);
    free(list.cases);
    return is_whole;
}
