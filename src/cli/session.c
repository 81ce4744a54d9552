#include "session.h"

#include <stdlib.h>
#include <string.h>

const char *session_class_name(clmoe_class kernel_class) {
    return kernel_class == CLMOE_CLASS_SERIAL ? "serial" : kernel_class == CLMOE_CLASS_PARALLEL ? "parallel" : "auto";
}

static outcome outcome_of(clmoe_status status) {
    /* A device that does not exist is a wrong option; one that can't do the work is not. */
    return status == CLMOE_INVALID_ARGUMENT || status == CLMOE_NO_DEVICE ? OUTCOME_BAD_INPUT : OUTCOME_DEVICE_FAILED;
}

outcome session_open(session *work, const char *command, const common_options *common) {
    char error[1024] = "";
    clmoe_context_options options;
    memset(&options, 0, sizeof options);
    options.kernel_class = (clmoe_class)common->kernel_class;
    options.num_threads = common->num_threads;
    options.cache_dir = common->cache_dir;
    options.error_text = error;
    options.error_text_bytes = sizeof error;
    work->command = command;
    work->verbose = common->verbose;
    work->context = NULL;
    const clmoe_status status = clmoe_context_create(common->device, &options, &work->context);
    if (status != CLMOE_SUCCESS) {
        return report_error(command, outcome_of(status), "%s", error[0] ? error : clmoe_status_name(status));
    }
    clmoe_device_info info;
    if (work->verbose && clmoe_context_describe(work->context, &info) == CLMOE_SUCCESS) {
        report_note(command, "device %s (%s), class %s, %u compute units", info.name, info.platform_name,
                    session_class_name(info.kernel_class), (unsigned)info.compute_units);
    }
    return OUTCOME_DONE;
}

void session_close(session *work) {
    clmoe_context_destroy(work->context);
    work->context = NULL;
}

outcome session_failure(const session *work, clmoe_status status) {
    char text[1024];
    const char *name = clmoe_status_name(status);
    if (clmoe_context_error(work->context, text, sizeof text) <= 1) {
        return report_error(work->command, outcome_of(status), "%s", name);
    }
    const outcome result = report_error(work->command, outcome_of(status), status < -20000 ? "%s" : "%s (%s)", text, name);
    const size_t log_bytes = work->verbose && status == CL_BUILD_PROGRAM_FAILURE ? clmoe_context_build_log(work->context, NULL, 0) : 0;
    char *log = log_bytes > 1 ? malloc(log_bytes) : NULL;
    if (log) {
        clmoe_context_build_log(work->context, log, log_bytes);
        fprintf(stderr, "%s\n", log);
        free(log);
    }
    return result;
}

outcome session_buffer(session *work, const void *data, size_t bytes, clmoe_buffer *buffer) {
    clmoe_status status = clmoe_buffer_create(work->context, bytes, buffer);
    if (status == CLMOE_SUCCESS && data && bytes > 0) {
        status = clmoe_buffer_write(work->context, *buffer, data, bytes);
    }
    return status == CLMOE_SUCCESS ? OUTCOME_DONE : session_failure(work, status);
}

outcome session_tell_plan(const session *work, const clmoe_plan *plan, size_t num_items) {
    clmoe_plan_info info;
    char origin[64] = "native";
    const clmoe_status status = clmoe_plan_describe(plan, num_items, &info);
    if (status != CLMOE_SUCCESS) {
        return session_failure(work, status);
    }
    if (!work->verbose) {
        if (strstr(info.note, "cache")) {
            report_note(work->command, "warning: %s", info.note);
        }
        return OUTCOME_DONE;
    }
    switch (info.program_origin) {
    case CLMOE_PROGRAM_NATIVE: break;
    case CLMOE_PROGRAM_BUILT: snprintf(origin, sizeof origin, "program built in %.1f ms", info.program_ms); break;
    case CLMOE_PROGRAM_CACHED: snprintf(origin, sizeof origin, "program from cache"); break;
    case CLMOE_PROGRAM_SHARED: snprintf(origin, sizeof origin, "program shared with an earlier plan"); break;
    }
    report_note(work->command, "%s: %u launch%s of groups of %u, %u group%s, %s", info.name, (unsigned)info.num_launches,
                info.num_launches == 1 ? "" : "es", (unsigned)info.group_size, (unsigned)info.num_groups, info.num_groups == 1 ? "" : "s",
                origin);
    if (info.note[0]) {
        report_note(work->command, "%s", info.note);
    }
    return OUTCOME_DONE;
}
