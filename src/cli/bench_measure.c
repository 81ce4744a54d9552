#include "bench_case.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10 }; /* slices in which the cases of a workload take turns */

/* ---- Arrays --------------------------------------------------------------------------------------------------------------------- */

static void open_arrays(bench_arrays *arrays, const bench_problem *problem) {
    for (uint32_t set = 0; set < problem->num_sets && arrays->status == CLMOE_SUCCESS; set++) {
        for (uint32_t i = 0; i < problem->num_inputs && arrays->status == CLMOE_SUCCESS; i++) {
            if (!arrays->device->opencl) {
                arrays->inputs[set][i] = clmoe_buffer_of_host(problem->inputs[set][i], problem->input_bytes[i]);
                continue;
            }
            arrays->status = bench_memory_create(arrays->device, problem->input_bytes[i], &arrays->inputs[set][i]);
            if (arrays->status == CLMOE_SUCCESS) {
                arrays->status =
                    bench_memory_write(arrays->device, arrays->inputs[set][i], problem->inputs[set][i], problem->input_bytes[i]);
            }
        }
    }
    for (uint32_t i = 0; i < problem->num_outputs && arrays->status == CLMOE_SUCCESS; i++) {
        arrays->status = bench_memory_create(arrays->device, problem->output_bytes[i], &arrays->outputs[i]);
    }
}

static void close_arrays(bench_arrays *arrays, const bench_problem *problem) {
    for (uint32_t set = 0; set < problem->num_sets && arrays->device->opencl; set++) {
        for (uint32_t i = 0; i < problem->num_inputs; i++) {
            bench_memory_destroy(arrays->device, arrays->inputs[set][i]);
        }
    }
    for (uint32_t i = 0; i < problem->num_outputs; i++) {
        bench_memory_destroy(arrays->device, arrays->outputs[i]);
    }
}

/* ---- A workload ----------------------------------------------------------------------------------------------------------------- */

/* Which contenders a workload has on a device. */
static size_t list_contenders(const bench_workload *work, const bench_device *device, bench_contender list[4]) {
    size_t num = 0;
    const bool is_align = work->op == BENCH_ALIGN;
    if (work->op == BENCH_EMPTY || work->op == BENCH_COPY) {
        if (!device->is_host) {
            list[num++] = work->op == BENCH_EMPTY ? BENCH_CONTENDER_EMPTY : BENCH_CONTENDER_COPY;
        } else if (work->op == BENCH_COPY) {
            list[num++] = BENCH_CONTENDER_FLOOR;
        }
        return num;
    }
    if (device->is_host) {
        list[num++] = BENCH_CONTENDER_PLAIN;
        if (is_align && (uint64_t)work->num_tokens * work->top_k >= 65536) {
            list[num++] = BENCH_CONTENDER_PLAIN_TWO;
        }
        list[num++] = BENCH_CONTENDER_FLOOR;
        return num;
    }
    list[num++] = BENCH_CONTENDER_LIBRARY;
    const bool is_wanted = device->reason[0] == 0 && (work->devices == 0 || device->info.kernel_class == CLMOE_CLASS_PARALLEL);
    if (device->opencl && is_wanted && ((is_align && work->num_ranks == 1) || work->op == BENCH_HISTOGRAM)) {
        list[num++] = BENCH_CONTENDER_ATOMIC;
        if (is_align) {
            list[num++] = BENCH_CONTENDER_STABLE;
        }
    }
    return num;
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

static void add_case(case_list *list, bench_problem *problem, bench_arrays *arrays, bench_contender which, bench_peer *peer,
                     const bench_effort *effort) {
    bench_case *c = &list->cases[list->num_cases++];
    c->problem = problem;
    c->contender = which;
    c->arrays = arrays;
    c->peer = peer;
    bench_case_open(c, effort);
}

bool bench_measure(const bench_workload *work, const bench_field *field, const char *data_dir, const bench_effort *effort,
                   bench_rows *rows) {
    static bench_problem problem;
    bench_device *devices = field->devices;
    bench_arrays *arrays = calloc(field->num_devices, sizeof *arrays);
    case_list list = {calloc(BENCH_MAX_CASES, sizeof *list.cases), 0};
    bool is_whole = arrays && list.cases;
    if (!is_whole) {
        free(arrays);
        free(list.cases);
        return false;
    }
    bench_problem_open(&problem, work, data_dir, largest_cache(devices, field->num_devices), (uint32_t)count_copies(field, work));
    for (size_t d = 0; d < field->num_devices; d++) {
        bench_contender contenders[4];
        arrays[d].device = &devices[d];
        if (work->devices != 0 && (work->devices >> d & 1) == 0) {
            continue;
        }
        if (problem.reason[0] == 0 && devices[d].reason[0] == 0) {
            open_arrays(&arrays[d], &problem);
        }
        const size_t num = list_contenders(work, &devices[d], contenders);
        for (size_t i = 0; i < num; i++) {
            add_case(&list, &problem, &arrays[d], contenders[i], NULL, effort);
        }
        for (size_t i = 0; i < field->num_peers && devices[d].is_host; i++) {
            if (bench_peer_takes(&field->peers[i], work)) {
                add_case(&list, &problem, &arrays[d], BENCH_CONTENDER_PEER, &field->peers[i], effort);
            }
        }
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < list.num_cases; i++) {
            bench_case_take_slice(&list.cases[i], round, ROUNDS);
        }
    }
    for (size_t i = 0; i < list.num_cases; i++) {
        bench_case_close(&list.cases[i]);
        is_whole = bench_rows_add(rows, &list.cases[i].row) && is_whole;
    }
    for (size_t d = 0; d < field->num_devices; d++) {
        close_arrays(&arrays[d], &problem);
    }
    bench_peers_unshare(&problem);
    bench_problem_close(&problem);
    free(arrays);
    free(list.cases);
    return is_whole;
}
