/* job.h - a command that runs one operator: arrays in from files, one call on the device, arrays out to files.
 *
 * A job starts all zero, with the command's name. Its steps are taken in the order below. Once one has failed, and has said why, the
 * others do nothing: they give absent views and empty arrays. job_end frees everything and returns the exit code.
 */
#ifndef CLMOE_CLI_JOB_H
#define CLMOE_CLI_JOB_H

#include "npy.h"
#include "output.h"
#include "session.h"

#include <clmoe/primitives.h>

enum { JOB_MAX_INPUTS = 4, JOB_MAX_BUFFERS = 8 };

typedef struct job {
    const char *command;
    common_options common;
    outcome result;
    session work;
    clmoe_plan *plan;
    output_set outputs;
    npy_array inputs[JOB_MAX_INPUTS];
    clmoe_buffer buffers[JOB_MAX_BUFFERS];
    size_t num_inputs, num_buffers;
} job;

/* How an array is counted. */
typedef enum job_shape {
    JOB_ANY_SHAPE, /* by items, in any number of dimensions */
    JOB_FLAT,      /* by items, in one dimension */
    JOB_ROWS       /* by its first dimension */
} job_shape;

typedef struct job_fact {
    const char *key;
    int64_t value;
} job_fact;

/* A set of element types: 1 << CLMOE_TYPE_U32 | ...; JOB_ANY_TYPE takes bool and floats too. */
#define JOB_ANY_TYPE 0U
#define JOB_INTEGERS (0x1ffU & ~(1U << CLMOE_TYPE_F32))

void job_fail(job *work, const char *format, ...) REPORT_PRINTF(2, 3);
bool job_failed(const job *work);

/* Fails with "--bins B is missing" unless it was given. */
void job_need(job *work, bool given, const char *option);

/* Reads an array that belongs to the job. *num_items is below 2^31. `what` names the items in the error of a type that is not taken. */
const npy_array *job_read(job *work, const char *path, const char *what, unsigned types, job_shape shape, uint32_t *num_items);

/* Fails with "X.npy: int32 (64, 4): RULE". */
void job_refuse(job *work, const char *path, const npy_array *array, const char *rule);

/* The element type of an array that job_read took with a set of types. */
clmoe_type job_type(const npy_array *array);

void job_open(job *work);
void job_check(job *work, clmoe_status status); /* of a call of the library */

/* Device memory that belongs to the job, with a copy of data in it unless data is NULL. */
clmoe_buffer job_buffer(job *work, const void *data, size_t bytes);
clmoe_buffer job_workspace(job *work); /* what the plan needs */

/* The one number in a buffer. */
uint32_t job_count(job *work, clmoe_buffer buffer);

/* A buffer as an array in a file. `like` gives element type and shape but for the first dimension, which is num_items. */
void job_write(job *work, const char *path, const npy_array *like, size_t num_items, clmoe_buffer buffer);

/* Tells what ran and the facts, as the common options say, and moves the files to their places. */
void job_finish(job *work, size_t num_items, const job_fact *facts, size_t num_facts);

outcome job_end(job *work);

#endif
