#define _POSIX_C_SOURCE 200809L
#include "command.h"
#include "session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static const char command[] = "selftest";

/* One device in one class. */
typedef struct tested {
    clmoe_device_info info;
    clmoe_status status;
    clmoe_selftest_report report;
} tested;

/* ---- What is said about it -------------------------------------------------------------------------------------------------------- */

static void print_row(const char *name, uint32_t calls, uint32_t wrong, uint32_t refused, double ms, uint64_t hash,
                      const report_style *style) {
    printf("  %-12s %7u %s%7u%s %8u %9.1f  %016" PRIx64 "\n", name, (unsigned)calls, wrong ? style->bad : "", (unsigned)wrong,
           wrong ? style->plain : "", (unsigned)refused, ms, hash);
}

static void print_table(const tested *t, const report_style *style) {
    const clmoe_selftest_report *report = &t->report;
    printf("%s%s, class %s%s\n", style->bold, t->info.name, session_class_name(t->info.kernel_class), style->plain);
    printf("  %-12s %7s %7s %8s %9s  %s\n", "OPERATOR", "CALLS", "WRONG", "REFUSED", "MS", "HASH");
    for (uint32_t i = 0; i < report->num_rows; i++) {
        const clmoe_selftest_row *row = &report->rows[i];
        print_row(row->name, row->num_calls, row->num_wrong, row->num_refused, row->ms, row->hash, style);
    }
    print_row("all", report->num_calls, report->num_wrong, report->num_refused, report->ms, report->hash, style);
    if (report->first_wrong[0]) {
        printf("  %sfirst wrong: %s%s\n", style->bad, report->first_wrong, style->plain);
    }
}

static void system_text(char *text, size_t text_bytes) {
    struct utsname system;
    text[0] = 0;
    if (uname(&system) == 0) {
        snprintf(text, text_bytes, "%s %s %s", system.sysname, system.release, system.machine);
    }
}

static void print_environment(const tested *all, size_t count) {
    char system[256], local[32], global[32];
    system_text(system, sizeof system);
    printf("\nclmoe %s, kernels %s, on %s\n", clmoe_version(), clmoe_kernels_hash(), system);
    for (size_t i = 0; i < count; i++) {
        const clmoe_device_info *info = &all[i].info;
        if (i > 0 && info->platform_index == all[i - 1].info.platform_index && info->device_index == all[i - 1].info.device_index) {
            continue;
        }
        report_bytes(info->local_bytes, local, sizeof local);
        report_bytes(info->global_bytes, global, sizeof global);
        printf("  %s\n    platform %s, %s\n    device %s, driver %s, vendor 0x%x\n    %u units, groups up to %u, local %s, memory %s\n",
               info->name, info->platform_name, info->platform_version, info->device_version, info->driver_version,
               (unsigned)info->vendor_id, (unsigned)info->compute_units, (unsigned)info->max_group_size, local, global);
    }
}

static void write_hash(report_json *json, const char *key, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_text(json, key, text);
}

static void write_counts(report_json *json, uint32_t calls, uint32_t wrong, uint32_t refused, double ms) {
    json_integer(json, "calls", calls);
    json_integer(json, "wrong", wrong);
    json_integer(json, "refused", refused);
    json_number(json, "ms", ms);
}

static void print_json(const tested *all, size_t count) {
    report_json json = {stdout, 0, false};
    char system[256];
    system_text(system, sizeof system);
    json_open(&json, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        const clmoe_device_info *info = &all[i].info;
        const clmoe_selftest_report *report = &all[i].report;
        json_open(&json, NULL, '{');
        write_hash(&json, "hash", report->hash);
        write_counts(&json, report->num_calls, report->num_wrong, report->num_refused, report->ms);
        json_text(&json, "first_wrong", report->first_wrong);
        json_text(&json, "clmoe", clmoe_version());
        json_text(&json, "kernels", clmoe_kernels_hash());
        json_text(&json, "system", system);
        json_text(&json, "name", info->name);
        json_text(&json, "class", session_class_name(info->kernel_class));
        json_text(&json, "platform_name", info->platform_name);
        json_text(&json, "platform_version", info->platform_version);
        json_text(&json, "device_version", info->device_version);
        json_text(&json, "driver_version", info->driver_version);
        json_integer(&json, "vendor_id", info->vendor_id);
        json_integer(&json, "compute_units", info->compute_units);
        json_integer(&json, "max_group_size", info->max_group_size);
        json_integer(&json, "local_bytes", (int64_t)info->local_bytes);
        json_integer(&json, "global_bytes", (int64_t)info->global_bytes);
        json_open(&json, "operators", '[');
        for (uint32_t k = 0; k < report->num_rows; k++) {
            const clmoe_selftest_row *row = &report->rows[k];
            json_open(&json, NULL, '{');
            json_text(&json, "name", row->name);
            write_counts(&json, row->num_calls, row->num_wrong, row->num_refused, row->ms);
            write_hash(&json, "operator_hash", row->hash);
            json_close(&json, '}');
        }
        json_close(&json, ']');
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

/* ---- Devices ------------------------------------------------------------------------------------------------------------------------ */

/* In the class that was asked for, else in each that the device has. */
static outcome test_device(const common_options *common, const char *selector, tested *all, size_t *count) {
    common_options options = *common;
    outcome worst = OUTCOME_DONE;
    options.device = selector;
    for (uint32_t kernel_class = CLMOE_CLASS_SERIAL; kernel_class <= CLMOE_CLASS_PARALLEL; kernel_class++) {
        session work;
        tested *t = &all[*count];
        options.kernel_class = common->kernel_class != CLMOE_CLASS_AUTO ? common->kernel_class : kernel_class;
        outcome result = session_open(&work, command, &options);
        if (result != OUTCOME_DONE) {
            return result;
        }
        clmoe_context_describe(work.context, &t->info);
        t->status = clmoe_context_selftest(work.context, &t->report);
        if (t->status == CLMOE_SUCCESS || t->status == CLMOE_WRONG_RESULT) {
            ++*count;
        } else {
            worst = session_failure(&work, t->status);
        }
        session_close(&work);
        if (common->kernel_class != CLMOE_CLASS_AUTO || t->info.backend == CLMOE_BACKEND_NATIVE) {
            break;
        }
    }
    return worst;
}

static outcome test_devices(const common_options *common, bool tests_all, tested **all, size_t *count) {
    size_t num_infos = 0, capacity = 0;
    clmoe_device_info *infos = NULL;
    outcome worst = OUTCOME_DONE;
    if (tests_all) {
        clmoe_devices_list(NULL, 0, &capacity);
        infos = calloc(capacity, sizeof *infos);
        clmoe_devices_list(infos, infos ? capacity : 0, &num_infos);
        num_infos = num_infos < capacity ? num_infos : capacity;
    }
    *all = calloc(2 * (num_infos + 1), sizeof **all);
    if (!*all || (tests_all && !infos)) {
        free(infos);
        return report_error(command, OUTCOME_DEVICE_FAILED, "no memory");
    }
    if (!tests_all) {
        worst = test_device(common, common->device, *all, count);
    }
    for (size_t i = 0; i < num_infos; i++) {
        char selector[16];
        snprintf(selector, sizeof selector, "%d", (int)infos[i].index);
        if (infos[i].index < 0 || (infos[i].backend == CLMOE_BACKEND_NATIVE && common->kernel_class == CLMOE_CLASS_PARALLEL)) {
            continue;
        }
        const outcome result = test_device(common, selector, *all, count);
        worst = result != OUTCOME_DONE ? result : worst;
    }
    free(infos);
    return worst;
}

outcome command_selftest(int argc, char **argv) {
    bool tests_all = false;
    const option_spec specs[] = {
        {"--all-devices", OPTION_FLAG, &tests_all, NULL, "every usable device of this machine, not the one of --device", 0, 0, NULL},
    };
    static const char purpose[] =
        "Runs every operator in each way that the device takes, both classes unless --class names one, and compares all bytes with the "
        "right\n"
        "ones. HASH of all results is the same on every device. WRONG calls: a wrong bit, a touched input, a failing driver (exit 1).\n"
        "REFUSED: ways that the device cannot do, no fault. The lines at the end belong into a report about a device.";
    const command_syntax syntax = {command, "[options]", purpose, specs, sizeof specs / sizeof specs[0], NULL};
    common_options common;
    const char *operand = NULL;
    tested *all = NULL;
    size_t count = 0;
    outcome result = OUTCOME_DONE;
    if (!options_parse(&syntax, argc, argv, &common, &operand, &result)) {
        return result;
    }
    result = test_devices(&common, tests_all, &all, &count);
    if (common.json && count > 0) {
        print_json(all, count);
    } else if (count > 0) {
        const report_style style = report_style_of(stdout);
        for (size_t i = 0; i < count; i++) {
            print_table(&all[i], &style);
        }
        print_environment(all, count);
    }
    for (size_t i = 0; i < count && result == OUTCOME_DONE; i++) {
        if (all[i].status != CLMOE_SUCCESS) {
            result = report_error(command, OUTCOME_CHECK_FAILED, "%s, class %s: %s", all[i].info.name,
                                  session_class_name(all[i].info.kernel_class), all[i].report.first_wrong);
        }
    }
    free(all);
    return result == OUTCOME_DONE ? report_finish(command) : result;
}
