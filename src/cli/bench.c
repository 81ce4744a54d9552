#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "command.h"
#include "options.h"
#include "output.h"
#include "session.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char command[] = "bench";

typedef struct settings {
    common_options common;
    text_list devices, peers;
    bool is_quick, only_list;
    const char *filter, *data_dir, *json_path, *csv_path, *svg_path;
} settings;

/* ---- Workloads that are asked for ----------------------------------------------------------------------------------------------- */

/* Case is ignored. */
static bool contains(const char *text, const char *part, size_t part_length) {
    for (; *text; text++) {
        size_t i = 0;
        while (i < part_length && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) {
            i++;
        }
        if (i == part_length) {
            return true;
        }
    }
    return false;
}

static bool wants_targets(const settings *s) {
    return s->filter && strcmp(s->filter, "targets") == 0;
}

static bool is_wanted(const settings *s, const bench_workload *work) {
    char text[128];
    if (strcmp(work->group, "baseline") == 0) {
        return true;
    }
    if (strcmp(work->group, "targets") == 0 || wants_targets(s)) {
        return strcmp(work->group, "targets") == 0 && wants_targets(s);
    }
    if (!s->filter) {
        return !s->is_quick || work->is_quick;
    }
    snprintf(text, sizeof text, "%s %s", work->group, work->name);
    for (const char *part = s->filter; *part;) {
        const size_t length = strcspn(part, ",");
        if (length > 0 && contains(text, part, length)) {
            return true;
        }
        part += length;
        part += *part == ',';
    }
    return false;
}

/* Keeps the wanted ones, in place. */
static size_t filter_workloads(const settings *s, bench_workload *works, size_t num_works) {
    size_t num_kept = 0;
    for (size_t i = 0; i < num_works; i++) {
        if (is_wanted(s, &works[i])) {
            works[num_kept++] = works[i];
        }
    }
    return num_kept;
}

/* ---- Devices -------------------------------------------------------------------------------------------------------------------- */

static void set_label(bench_device *devices, size_t place) {
    bench_device *device = &devices[place];
    char name[160];
    const bool is_native = device->info.backend == CLMOE_BACKEND_NATIVE;
    const bool is_other_class =
        !is_native && device->info.kernel_class != (device->info.type & CL_DEVICE_TYPE_CPU ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL);
    snprintf(name, sizeof name, "%s%s%s", is_native ? "native" : device->info.name, is_other_class ? ", " : "",
             is_other_class ? session_class_name(device->info.kernel_class) : "");
    snprintf(device->label, sizeof device->label, "%s", name);
    for (size_t i = 0, twins = 1; i < place; i++) {
        if (strcmp(devices[i].label, device->label) == 0) {
            snprintf(device->label, sizeof device->label, "%.140s #%zu", name, ++twins);
            i = 0;
        }
    }
}

static uint64_t host_cache_bytes(void) {
    enum { USUAL = 32 << 20 };
    const long last = sysconf(_SC_LEVEL3_CACHE_SIZE), second = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return last > 0 ? (uint64_t)last : second > 0 ? (uint64_t)second : USUAL;
}

/* The library chooses the device; where it is an OpenCL one, a context is made for it here, whose queue has a clock. */
static clmoe_status open_device(bench_device *device, const settings *s, const char *selector, clmoe_class kernel_class) {
    clmoe_context_options options = {.kernel_class = kernel_class,
                                     .num_threads = s->common.num_threads,
                                     .cache_dir = s->common.cache_dir,
                                     .error_text = device->reason,
                                     .error_text_bytes = sizeof device->reason};
    clmoe_status status = clmoe_context_create(selector, &options, &device->context);
    if (status != CLMOE_SUCCESS) {
        device->context = NULL;
        return status;
    }
    clmoe_context_describe(device->context, &device->info);
    device->cache_bytes = host_cache_bytes();
    if (device->info.backend == CLMOE_BACKEND_NATIVE) {
        return status;
    }
    clmoe_context_destroy(device->context);
    device->context = NULL;
    device->opencl = bench_opencl_open(&device->info, &status, device->reason, sizeof device->reason);
    if (!device->opencl) {
        return status;
    }
    status = clmoe_context_create_opencl(bench_opencl_context(device->opencl), device->info.device, &options, &device->context);
    if (status != CLMOE_SUCCESS) {
        device->context = NULL;
        return status;
    }
    device->cache_bytes = bench_opencl_cache_bytes(device->opencl);
    return CLMOE_SUCCESS;
}

static void close_devices(bench_device *devices, size_t num_devices) {
    for (size_t i = 0; i < num_devices; i++) {
        clmoe_context_destroy(devices[i].context);
        bench_opencl_close(devices[i].opencl);
    }
    memset(devices, 0, num_devices * sizeof *devices);
}

static void open_host(bench_device *devices, size_t *num_devices) {
    devices[0].is_host = true;
    snprintf(devices[0].label, sizeof devices[0].label, "host");
    devices[0].cache_bytes = host_cache_bytes();
    devices[0].info.backend = CLMOE_BACKEND_NATIVE;
    devices[0].info.compute_units = 1;
    *num_devices = 1;
}

/* One more device. One that exists and can't be used keeps its place, with the reason. */
static outcome add_device(bench_device *devices, size_t *num_devices, const settings *s, const char *selector) {
    if (*num_devices == BENCH_MAX_DEVICES) {
        return report_error(command, OUTCOME_BAD_INPUT, "--device %s: more than %d devices", selector, BENCH_MAX_DEVICES - 1);
    }
    bench_device *device = &devices[*num_devices];
    const clmoe_status status = open_device(device, s, selector, (clmoe_class)s->common.kernel_class);
    if (status == CLMOE_NO_DEVICE || status == CLMOE_INVALID_ARGUMENT) {
        return report_error(command, OUTCOME_BAD_INPUT, "%s", device->reason[0] ? device->reason : clmoe_status_name(status));
    }
    if (status != CLMOE_SUCCESS) {
        if (device->info.name[0] == 0) {
            snprintf(device->info.name, sizeof device->info.name, "%s", selector);
            device->info.backend = strcmp(selector, "native") == 0 ? CLMOE_BACKEND_NATIVE : CLMOE_BACKEND_OPENCL;
        }
        if (device->reason[0] == 0) {
            snprintf(device->reason, sizeof device->reason, "%s", clmoe_status_name(status));
        }
    }
    set_label(devices, *num_devices);
    if (s->common.verbose) {
        report_note(command, "device %s (%s), class %s, %" PRIu32 " compute units%s%s", device->label, device->info.platform_name,
                    session_class_name(device->info.kernel_class), device->info.compute_units, device->reason[0] ? "; " : "",
                    device->reason);
    }
    ++*num_devices;
    return OUTCOME_DONE;
}

static outcome add_all(bench_device *devices, size_t *num_devices, const settings *s) {
    enum { MAX_INFOS = 64 };
    size_t num_infos = 0;
    clmoe_device_info *infos = calloc(MAX_INFOS, sizeof *infos);
    outcome result = infos && clmoe_devices_list(infos, MAX_INFOS, &num_infos) == CLMOE_SUCCESS
                         ? OUTCOME_DONE
                         : report_error(command, OUTCOME_DEVICE_FAILED, "the devices can't be listed");
    for (size_t i = 0; i < num_infos && i < MAX_INFOS && result == OUTCOME_DONE; i++) {
        char selector[16];
        if (infos[i].index >= 0) {
            snprintf(selector, sizeof selector, "%d", (int)infos[i].index);
            result = add_device(devices, num_devices, s, infos[i].backend == CLMOE_BACKEND_NATIVE ? "native" : selector);
        } else if (infos[i].device_index >= 0 && *num_devices < BENCH_MAX_DEVICES) {
            bench_device *device = &devices[*num_devices];
            device->info = infos[i];
            snprintf(device->reason, sizeof device->reason, "%s", infos[i].skipped);
            set_label(devices, (*num_devices)++);
        }
    }
    free(infos);
    return result;
}

static outcome open_devices(bench_device *devices, size_t *num_devices, const settings *s) {
    const char *usual = s->common.device ? s->common.device : "auto";
    outcome result = OUTCOME_DONE;
    open_host(devices, num_devices);
    if (wants_targets(s)) {
        for (size_t place = 1; place < NUM_TARGET_DEVICES; place++) {
            bench_device *device = &devices[place];
            if (open_device(device, s, bench_target_selector(place), bench_target_class(place)) == CLMOE_NO_DEVICE) {
                snprintf(device->reason, sizeof device->reason, "no device '%s' (PoCL shows it with POCL_DEVICES=\"basic pthread\")",
                         bench_target_selector(place));
            }
            if (device->reason[0]) {
                snprintf(device->label, sizeof device->label, "%s", bench_target_selector(place));
            } else {
                set_label(devices, place);
            }
        }
        *num_devices = NUM_TARGET_DEVICES;
        return OUTCOME_DONE;
    }
    for (size_t i = 0; (i < s->devices.num_texts || (i == 0 && s->devices.num_texts == 0)) && result == OUTCOME_DONE; i++) {
        const char *selector = s->devices.num_texts > 0 ? s->devices.texts[i] : usual;
        result = strcmp(selector, "all") == 0 ? add_all(devices, num_devices, s) : add_device(devices, num_devices, s, selector);
    }
    return result;
}

/* ---- Peers ---------------------------------------------------------------------------------------------------------------------- */

static outcome open_peers(bench_peer *peers, size_t *num_peers, const settings *s) {
    if (s->peers.num_texts > BENCH_MAX_PEERS) {
        return report_error(command, OUTCOME_BAD_INPUT, "--peer %s: more than %d peers", s->peers.texts[BENCH_MAX_PEERS], BENCH_MAX_PEERS);
    }
    while (*num_peers < s->peers.num_texts) {
        bench_peer *peer = &peers[*num_peers];
        const char *text = s->peers.texts[(*num_peers)++];
        if (!bench_peer_open(peer, text)) {
            return report_error(command, OUTCOME_BAD_INPUT, "--peer %s: %s", text, peer->reason);
        }
        for (const bench_peer *other = peers; other < peer; other++) {
            if (strcmp(other->name, peer->name) == 0 && strcmp(other->device, peer->device) == 0) {
                return report_error(command, OUTCOME_BAD_INPUT, "--peer %s: a second %s on %s", text, peer->name, peer->device);
            }
        }
    }
    return OUTCOME_DONE;
}

static void close_peers(bench_peer *peers, size_t num_peers) {
    for (size_t i = 0; i < num_peers; i++) {
        bench_peer_close(&peers[i]);
    }
}

/* ---- Output --------------------------------------------------------------------------------------------------------------------- */

static void write_file(FILE *stream, const bench_run *run, const settings *s, const char *path) {
    if (path == s->json_path) {
        bench_write_json(stream, run);
    } else if (path == s->csv_path) {
        bench_write_csv(stream, run);
    } else {
        bench_write_svg(stream, run);
    }
}

/* With run NULL nothing is written: it is only seen whether the files could be. */
static outcome write_files(const settings *s, const bench_run *run) {
    const char *const paths[] = {s->json_path, s->csv_path, s->svg_path};
    output_set outputs = {.command = command};
    outcome result = OUTCOME_DONE;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && result == OUTCOME_DONE; i++) {
        FILE *stream = NULL;
        if (!paths[i]) {
            continue;
        }
        result = output_open(&outputs, NULL, paths[i], &stream);
        if (result == OUTCOME_DONE) {
            if (run) {
                write_file(stream, run, s, paths[i]);
            }
            result = output_close(&outputs, ferror(stream) == 0);
        }
    }
    if (result == OUTCOME_DONE && run) {
        result = output_commit(&outputs);
    }
    output_discard(&outputs);
    return result;
}

static void print_list(const bench_workload *works, size_t num_works) {
    printf("%-10s %-6s %s\n", "GROUP", "QUICK", "WORKLOAD");
    for (size_t i = 0; i < num_works; i++) {
        printf("%-10s %-6s %s\n", works[i].group, works[i].is_quick ? "quick" : "-", works[i].name);
    }
}

/* ---- The run -------------------------------------------------------------------------------------------------------------------- */

static bench_effort effort_of(const settings *s) {
    static const bench_effort quick = {20, 5, 50}, full = {150, 7, 200}, targets = {500, 15, 1000};
    return wants_targets(s) && !s->is_quick ? targets : s->is_quick ? quick : full;
}

static outcome measure(const settings *s, const bench_workload *works, size_t num_works, const bench_field *field, bench_rows *rows) {
    const bench_effort effort = effort_of(s);
    const bench_run run = {s->filter ? s->filter : "", s->is_quick, field, rows};
    const bool shows_progress = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
    outcome result = OUTCOME_DONE;
    size_t num_wrong = 0, num_failed = 0;
    bench_print_header();
    for (size_t i = 0; i < num_works; i++) {
        const size_t first_row = rows->num_rows;
        if (shows_progress) {
            fprintf(stderr, "\r%zu of %zu: %-64s", i + 1, num_works, works[i].name);
        }
        if (!bench_measure(&works[i], field, s->data_dir, &effort, rows)) {
            return report_error(command, OUTCOME_DEVICE_FAILED, "%s: no memory", works[i].name);
        }
        bench_print_rows(&run, first_row);
    }
    if (shows_progress) {
        fprintf(stderr, "\r%-80s\r", "");
    }
    for (size_t i = 0; i < rows->num_rows; i++) {
        num_wrong += rows->rows[i].correct == BENCH_WRONG;
        num_failed += rows->rows[i].status == BENCH_FAILED;
    }
    if (wants_targets(s) && bench_print_targets(rows, field->devices) > 0) {
        result = OUTCOME_CHECK_FAILED;
    }
    const outcome written = write_files(s, &run);
    const outcome finished = report_finish(command);
    if (num_wrong > 0) {
        return report_error(command, OUTCOME_CHECK_FAILED, "%zu row%s with a result that differs from plain C's", num_wrong,
                            num_wrong == 1 ? "" : "s");
    }
    if (num_failed > 0) {
        return report_error(command, OUTCOME_DEVICE_FAILED, "%zu row%s failed on their device; the table tells why", num_failed,
                            num_failed == 1 ? "" : "s");
    }
    return written != OUTCOME_DONE ? written : finished != OUTCOME_DONE ? finished : result;
}

static outcome run_bench(const settings *s) {
    static bench_device devices[BENCH_MAX_DEVICES];
    static bench_peer peers[BENCH_MAX_PEERS];
    bench_field field = {devices, 0, peers, 0};
    size_t num_works = 0;
    bench_rows rows = {NULL, 0, 0};
    enum { NUM_BASELINES = 2 };
    bench_workload *works = bench_list_workloads(&num_works);
    num_works = works ? filter_workloads(s, works, num_works) : 0;
    outcome result = OUTCOME_DONE;
    if (!works) {
        result = report_error(command, OUTCOME_DEVICE_FAILED, "no memory");
    } else if (num_works <= NUM_BASELINES) {
        result = report_error(command, OUTCOME_BAD_INPUT, "--filter %s: no workload has that in its name; --list shows them", s->filter);
    } else if (s->only_list) {
        print_list(works, num_works);
        result = report_finish(command);
    } else {
        result = write_files(s, NULL);
        if (result == OUTCOME_DONE) {
            result = open_peers(peers, &field.num_peers, s);
        }
        if (result == OUTCOME_DONE) {
            result = open_devices(devices, &field.num_devices, s);
        }
        if (result == OUTCOME_DONE) {
            result = measure(s, works, num_works, &field, &rows);
        }
        close_peers(peers, field.num_peers);
        close_devices(devices, BENCH_MAX_DEVICES);
    }
    bench_rows_free(&rows);
    free(works);
    return result;
}

outcome command_bench(int argc, char **argv) {
    settings s = {.data_dir = "tests/data"};
    const char *operand = NULL;
    outcome result = OUTCOME_DONE;
    const option_spec specs[] = {
        {"--quick", OPTION_FLAG, &s.is_quick, NULL, "few samples, and without --filter few workloads: less than a minute", 0, 0, NULL},
        {"--filter", OPTION_TEXT, (void *)&s.filter, "TEXT,...",
         "workloads with one of these in their group or name; targets: the speed targets", 0, 0, NULL},
        {"--list", OPTION_FLAG, &s.only_list, NULL, "lists the workloads instead of running them", 0, 0, NULL},
        {"--device", OPTION_TEXTS, &s.devices, "DEVICE", "as in every command, but several times, or all: they take turns [auto]", 0, 0,
         NULL},
        {"--peer", OPTION_TEXTS, &s.peers, "COMMAND", "a program that takes part, as tools/peers.py does; several times for several", 0, 0,
         NULL},
        {"--data", OPTION_TEXT, (void *)&s.data_dir, "DIR", "the recorded routing of gpt-oss-20b, see its README [tests/data]", 0, 0, NULL},
        {"--json", OPTION_TEXT, (void *)&s.json_path, "FILE", "every sample, and what it ran on; for 'clmoe compare'", 0, 0, NULL},
        {"--csv", OPTION_TEXT, (void *)&s.csv_path, "FILE", "a line for each row of the table", 0, 0, NULL},
        {"--svg", OPTION_TEXT, (void *)&s.svg_path, "FILE", "bars for each workload", 0, 0, NULL},
    };
    static const char purpose[] = "Times the operators of a ready plan on the devices, and in the same table plain C, naive OpenCL "
                                  "kernels, and the least that memory\n"
                                  "must do. Every result is held against plain C's, bit by bit. Builds, allocation and transfers are "
                                  "outside of the times; a sample is\n"
                                  "at least 20 us long, so short calls are timed many at a time, with one finish at the end. All that a "
                                  "workload compares takes turns.\n"
                                  "With --filter targets: exit code 1 if a target is missed.";
    const command_syntax syntax = {command, "[--quick] [--filter TEXT] [options]", purpose, specs, sizeof specs / sizeof specs[0], NULL};
    if (!options_parse(&syntax, argc, argv, &s.common, &operand, &result)) {
        return result;
    }
    if (wants_targets(&s) && s.devices.num_texts > 0) {
        return report_error(command, OUTCOME_BAD_INPUT, "--device %s: the targets name their devices themselves", s.devices.texts[0]);
    }
    return run_bench(&s);
}
