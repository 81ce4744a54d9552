/* layout.h - what align and route-align share: the options of the aligned layout, the arrays that go in beside the ids, the files, and
 * the summary. A job starts all zero, with the command's name in it and in its outputs. */
#ifndef CLMOE_CLI_LAYOUT_H
#define CLMOE_CLI_LAYOUT_H

#include "output.h"
#include "routing.h"

enum { LAYOUT_NUM_OPTIONS = 11 };

typedef struct layout_job {
    const char *command;
    common_options common;
    const char *map_path, *mask_path, *directory, *drawing_path, *optional_names;
    number_list at;
    uint32_t foreign;
    bool explain;
    bool written[ALIGN_NUM_ARRAYS]; /* which arrays become files */
    npy_array row_mask;
    routing route;
    align_call call;
    session work;
    output_set outputs;
} layout_job;

void layout_options(layout_job *job, option_spec specs[LAYOUT_NUM_OPTIONS]);

/* What must be there, what must go together and what can't; which arrays are wanted. */
outcome layout_check(layout_job *job);

/* Map and mask, once the ids' shape is known. */
outcome layout_read(layout_job *job);

/* The arrays that were asked for, into the directory, and the picture. */
outcome layout_write(layout_job *job);

/* What was explained, the summary as one line with `tail` behind it, and the small table if there is nothing else to see. */
void layout_print(const layout_job *job, const char *tail);
void layout_json(const layout_job *job, report_json *json); /* the same facts, inside of an object */

/* Ends the printing, and moves the files to their places. */
outcome layout_finish(layout_job *job);
void layout_end(layout_job *job);

#endif
