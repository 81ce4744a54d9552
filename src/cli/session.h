/* session.h - a command's device: opened as the common options say, its failures turned into error lines, its work told with -v. */
#ifndef CLMOE_CLI_SESSION_H
#define CLMOE_CLI_SESSION_H

#include "options.h"

typedef struct session {
    const char *command;
    bool verbose;
    clmoe_context *context; /* NULL until opened */
} session;

outcome session_open(session *work, const char *command, const common_options *common);
void session_close(session *work);

/* The error line of a call that failed, with the library's own text, and the exit code that it means. */
outcome session_failure(const session *work, clmoe_status status);

/* Device memory with a copy of data in it, or without if data is NULL. Absent if bytes is 0. */
outcome session_buffer(session *work, const void *data, size_t bytes, clmoe_buffer *buffer);

/* With -v: how the plan carries out a call of num_items. Without: only the cache's complaint, if there is one. */
outcome session_tell_plan(const session *work, const clmoe_plan *plan, size_t num_items);

const char *session_class_name(clmoe_class kernel_class);

#endif
