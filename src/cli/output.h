/* output.h - the files that a command writes: all of them or none.
 *
 * Each file is written beside its place. output_commit moves them there; until then, and if anything fails, what stood there stays.
 * The set starts all zero, with the command's name.
 */
#ifndef CLMOE_CLI_OUTPUT_H
#define CLMOE_CLI_OUTPUT_H

#include "report.h"

enum { OUTPUT_MAX_FILES = 16, OUTPUT_NUM_SIGNALS = 3 };

typedef struct output_file {
    char *path;   /* where it will stand */
    char *beside; /* where it is written */
    char *former; /* a second name of what stood there, while the files are moved; NULL if nothing did */
    FILE *stream; /* NULL once closed */
    bool moved;
} output_file;

typedef struct output_set {
    const char *command;
    output_file files[OUTPUT_MAX_FILES];
    size_t num_files;
    char *made_directory; /* removed again if the command fails; NULL if it was there */
    bool shielded;        /* from the first file on interruptions are ignored: one would leave half a set behind */
    void (*former_handlers[OUTPUT_NUM_SIGNALS])(int);
} output_set;

/* Makes the directory if it is missing. */
outcome output_directory(output_set *outputs, const char *path);

/* A stream for the file that will stand at `directory/name`, or at `name` if directory is NULL. */
outcome output_open(output_set *outputs, const char *directory, const char *name, FILE **stream);

/* Closes what was opened last; `written` is false if writing to it failed. */
outcome output_close(output_set *outputs, bool written);

/* Moves every file to its place. */
outcome output_commit(output_set *outputs);

/* "files": [...] */
void output_json(const output_set *outputs, report_json *json);

/* Removes what is not in place and frees the names. After output_commit it only frees. */
void output_discard(output_set *outputs);

#endif
