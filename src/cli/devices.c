#include "command.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

typedef struct device_list {
    clmoe_device_info *infos;
    size_t num_infos;
} device_list;

static const char *type_name(cl_device_type type) {
    return type & CL_DEVICE_TYPE_GPU           ? "gpu"
           : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
           : type & CL_DEVICE_TYPE_CPU         ? "cpu"
           : type & CL_DEVICE_TYPE_CUSTOM      ? "custom"
                                               : "";
}

static bool is_native(const clmoe_device_info *info) {
    return info->backend == CLMOE_BACKEND_NATIVE;
}

/* "0:1", "1:-" for a platform without devices, "-" for the native device. */
static void print_selector(const clmoe_device_info *info, char *text, size_t text_bytes) {
    if (info->platform_index < 0) {
        snprintf(text, text_bytes, "-");
    } else if (info->device_index < 0) {
        snprintf(text, text_bytes, "%d:-", (int)info->platform_index);
    } else {
        snprintf(text, text_bytes, "%d:%d", (int)info->platform_index, (int)info->device_index);
    }
}

static void print_device(const clmoe_device_info *info, const report_style *style) {
    char selector[32], index[16] = "-", local[32], global[32], largest[32];
    const bool usable = info->skipped[0] == 0;
    print_selector(info, selector, sizeof selector);
    report_bytes(info->local_bytes, local, sizeof local);
    report_bytes(info->global_bytes, global, sizeof global);
    report_bytes(info->max_buffer_bytes, largest, sizeof largest);
    if (info->index >= 0) {
        snprintf(index, sizeof index, "%d", (int)info->index);
    }
    const char *name = info->device_index < 0 && !is_native(info) ? info->platform_name : info->name;
    printf("%5s  %5s  %-11s %-9s %6u %6u %9s %9s %9s  %s%s%s\n", index, selector, is_native(info) ? "native" : type_name(info->type),
           usable ? session_class_name(info->kernel_class) : "-", (unsigned)info->compute_units, (unsigned)info->max_group_size, local,
           global, largest, usable ? style->bold : style->faint, name, style->plain);
    if (!usable) {
        printf("%14s%sskipped: %s%s\n", "", style->bad, info->skipped, style->plain);
    }
    if (!is_native(info) && info->device_index >= 0) {
        printf("%14s%s%s, %s, driver %s%s\n", "", style->faint, info->platform_name, info->device_version, info->driver_version,
               style->plain);
    }
}

static void print_table(const device_list *list) {
    const report_style style = report_style_of(stdout);
    printf("%s%5s  %5s  %-11s %-9s %6s %6s %9s %9s %9s  %s%s\n", style.bold, "INDEX", "P:D", "TYPE", "CLASS", "UNITS", "GROUP", "LOCAL",
           "MEMORY", "LARGEST", "DEVICE", style.plain);
    for (size_t i = 0; i < list->num_infos; i++) {
        print_device(&list->infos[i], &style);
    }
}

static void print_json(const device_list *list) {
    report_json json = {stdout, 0, false};
    json_open(&json, NULL, '[');
    for (size_t i = 0; i < list->num_infos; i++) {
        const clmoe_device_info *info = &list->infos[i];
        json_open(&json, NULL, '{');
        json_text(&json, "backend", is_native(info) ? "native" : "opencl");
        json_text(&json, "class", session_class_name(info->kernel_class));
        json_integer(&json, "index", info->index);
        json_integer(&json, "platform_index", info->platform_index);
        json_integer(&json, "device_index", info->device_index);
        json_text(&json, "type", type_name(info->type));
        json_integer(&json, "vendor_id", info->vendor_id);
        json_integer(&json, "compute_units", info->compute_units);
        json_integer(&json, "max_group_size", info->max_group_size);
        json_integer(&json, "local_bytes", (int64_t)info->local_bytes);
        json_integer(&json, "global_bytes", (int64_t)info->global_bytes);
        json_integer(&json, "max_buffer_bytes", (int64_t)info->max_buffer_bytes);
        json_text(&json, "name", info->name);
        json_text(&json, "platform_name", info->platform_name);
        json_text(&json, "platform_version", info->platform_version);
        json_text(&json, "device_version", info->device_version);
        json_text(&json, "driver_version", info->driver_version);
        json_text(&json, "skipped", info->skipped);
        json_close(&json, '}');
    }
    json_close(&json, ']');
}

static outcome list_all(const char *command, device_list *list) {
    clmoe_status status = clmoe_devices_list(NULL, 0, &list->num_infos);
    if (status == CLMOE_SUCCESS) {
        list->infos = calloc(list->num_infos, sizeof *list->infos);
        if (!list->infos) {
            return report_error(command, OUTCOME_DEVICE_FAILED, "no memory for %zu devices", list->num_infos);
        }
        const size_t capacity = list->num_infos;
        status = clmoe_devices_list(list->infos, capacity, &list->num_infos);
        list->num_infos = list->num_infos < capacity ? list->num_infos : capacity;
    }
    return status == CLMOE_SUCCESS ? OUTCOME_DONE : report_error(command, OUTCOME_DEVICE_FAILED, "%s", clmoe_status_name(status));
}

/* With --device: that one alone, as a context sees it. */
static outcome list_one(const char *command, const common_options *common, device_list *list) {
    session work;
    outcome result = session_open(&work, command, common);
    if (result != OUTCOME_DONE) {
        return result;
    }
    list->num_infos = 1;
    list->infos = calloc(1, sizeof *list->infos);
    const clmoe_status status = list->infos ? clmoe_context_describe(work.context, list->infos) : CLMOE_OUT_OF_MEMORY;
    result = status == CLMOE_SUCCESS ? OUTCOME_DONE : report_error(command, OUTCOME_DEVICE_FAILED, "%s", clmoe_status_name(status));
    session_close(&work);
    return result;
}

outcome command_devices(int argc, char **argv) {
    static const char purpose[] =
        "Lists every OpenCL platform and device in the driver's order, also those that are skipped and why, and the native device last.\n"
        "UNITS compute units (native: threads), GROUP largest work-group, LOCAL local memory of a group, LARGEST largest buffer.\n"
        "With --device only that one.";
    const command_syntax syntax = {"devices", "[options]", purpose, NULL, 0, NULL};
    common_options common;
    const char *operand = NULL;
    device_list list = {NULL, 0};
    outcome result = OUTCOME_DONE;
    if (!options_parse(&syntax, argc, argv, &common, &operand, &result)) {
        return result;
    }
    result = common.device_given ? list_one(syntax.command, &common, &list) : list_all(syntax.command, &list);
    if (result == OUTCOME_DONE) {
        if (common.json) {
            print_json(&list);
        } else {
            print_table(&list);
        }
        result = report_finish(syntax.command);
    }
    free(list.infos);
    return result;
}
