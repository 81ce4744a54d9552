/* bench.h - the parts of `clmoe bench`.
 *
 * A workload names an operator, a shape and what the data look like. As a problem it has arrays: sets of inputs, and the outputs that
 * plain C makes of them. Contenders solve it on devices: the library, plain C, the naive OpenCL ways, the least that memory must do.
 * One contender on one device is a case; it is measured, and leaves a row.
 */
#ifndef CLMOE_CLI_BENCH_H
#define CLMOE_CLI_BENCH_H

#include "bench_plain.h"
#include "report.h"

#include <clmoe/clmoe.h>

#include <sys/types.h>

#define BENCH_SCHEMA "clmoe bench"
enum { BENCH_SCHEMA_VERSION = 1 };
enum { BENCH_MAX_INPUTS = 3, BENCH_MAX_OUTPUTS = 5, BENCH_MAX_SETS = 256, BENCH_MAX_DEVICES = 16, BENCH_MAX_PEERS = 8 };
enum { BENCH_MAX_CASES = 4 * BENCH_MAX_DEVICES + BENCH_MAX_PEERS };

/* ---- Workloads ------------------------------------------------------------------------------------------------------------------ */

typedef enum bench_operator {
    BENCH_EMPTY, /* one launch that does nothing; native: a call without tokens */
    BENCH_COPY,
    BENCH_ALIGN,
    BENCH_HISTOGRAM,
    BENCH_SCAN,
    BENCH_SORT_KEYS,
    BENCH_SORT_PAIRS,
    BENCH_GATHER,
    BENCH_ROUTE,
    BENCH_ROUTE_ALIGN
} bench_operator;

/* What the data look like. BALANCED and POWER_LAW follow the recipe of NVIDIA's aiconfigurator, with its names. */
typedef enum bench_content {
    BENCH_RANDOM,    /* uniform; ids of one token may repeat */
    BENCH_DISTINCT,  /* uniform, the ids of a token differ */
    BENCH_ALL_EQUAL, /* histogram: every sample the same */
    BENCH_BALANCED,
    BENCH_POWER_LAW, /* with `alpha` */
    BENCH_ONE_HOT,   /* every token takes the same K experts */
    BENCH_DECODE,    /* gpt-oss-20b, recorded: one decode batch a set */
    BENCH_PREFILL    /* gpt-oss-20b, recorded: the first T tokens of a layer */
} bench_content;

typedef struct bench_workload {
    char name[64];
    const char *group; /* "targets" runs only when asked for */
    bench_operator op;
    bench_content content;
    double alpha;
    bool is_quick;
    uint32_t num_tokens, top_k, num_experts, block_size, num_ranks; /* align; rank 0 of num_ranks holds the first experts */
    uint32_t num_items;                                             /* the others */
    uint32_t num_bins;
    uint32_t row_bytes;
    clmoe_router router;
    uint32_t devices; /* of group "targets": bits of the devices that it is for, by their places; 0 = all */
} bench_workload;

/* All of them, in the order of the table; the caller frees. NULL without memory. */
bench_workload *bench_list_workloads(size_t *num_workloads);

const char *bench_operator_name(bench_operator op);

/* ---- Devices -------------------------------------------------------------------------------------------------------------------- */

typedef struct bench_opencl bench_opencl;

typedef struct bench_device {
    char label[160];  /* "native", "host", or the device's name */
    char reason[256]; /* why it can't be used; "" if it can */
    bool is_host;     /* runs the baselines in plain C */
    clmoe_device_info info;
    clmoe_context *context;      /* NULL: the host, or not usable */
    bench_opencl *opencl;        /* NULL: the host, or the native device */
    uint64_t cache_bytes;        /* the last cache; 0 = unknown */
    double empty_us;             /* measured in this run, wall time; 0 = not yet */
    double copy_bytes_per_us[2]; /* by wall time, by event time */
} bench_device;

/* Memory of a device (bench_device.c). Inputs on the host and the native device are the problem's own arrays. */
clmoe_status bench_memory_create(bench_device *device, size_t bytes, clmoe_buffer *buffer);
clmoe_status bench_memory_write(bench_device *device, clmoe_buffer buffer, const void *data, size_t bytes);
clmoe_status bench_memory_read(bench_device *device, clmoe_buffer buffer, void *data, size_t bytes);
void bench_memory_destroy(bench_device *device, clmoe_buffer buffer);

/* ---- OpenCL (bench_opencl.c): a context with and without clocks on its queue, and the naive kernels ----------------------------- */

typedef enum bench_naive { BENCH_NAIVE_NONE, BENCH_NAIVE_ATOMIC, BENCH_NAIVE_STABLE } bench_naive;

/* On info.device. NULL with *status and a text. */
bench_opencl *bench_opencl_open(const clmoe_device_info *info, clmoe_status *status, char *reason, size_t reason_bytes);
void bench_opencl_close(bench_opencl *opencl);
cl_context bench_opencl_context(const bench_opencl *opencl);
cl_command_queue bench_opencl_queue(const bench_opencl *opencl, bool has_clock);
uint64_t bench_opencl_cache_bytes(const bench_opencl *opencl);
void bench_opencl_text(const bench_opencl *opencl, cl_device_info what, char *text, size_t text_bytes); /* "" where it is not told */
uint32_t bench_opencl_clock_mhz(const bench_opencl *opencl);

clmoe_status bench_opencl_create(bench_opencl *opencl, size_t bytes, clmoe_buffer *buffer);
clmoe_status bench_opencl_write(bench_opencl *opencl, clmoe_buffer buffer, const void *data, size_t bytes);
clmoe_status bench_opencl_read(bench_opencl *opencl, clmoe_buffer buffer, void *data, size_t bytes);
void bench_opencl_release(bench_opencl *opencl, clmoe_buffer buffer);

clmoe_status bench_opencl_empty(bench_opencl *opencl, cl_command_queue queue, cl_event *event);
clmoe_status bench_opencl_copy(bench_opencl *opencl, cl_command_queue queue, clmoe_buffer from, clmoe_buffer to, cl_event *event);
clmoe_status bench_opencl_finish(bench_opencl *opencl, cl_command_queue queue);

/* Builds the naive kernels on first use, then enqueues. `counters` holds 2 E + 1 words, or nothing for a histogram. */
uint32_t bench_naive_launches(const bench_workload *work, bench_naive how);
clmoe_status bench_opencl_naive(bench_opencl *opencl, const bench_workload *work, bench_naive how, uint32_t capacity,
                                const clmoe_buffer *inputs, const clmoe_buffer *outputs, clmoe_buffer counters, cl_command_queue queue,
                                cl_event *event);

/* Time from `start` (NULL: the start of `end` itself) to the end of `end`; releases both. Negative: the driver's clock is not to be
 * believed, as it stands still, or tells more than the wall_us that the host has seen. */
double bench_opencl_event_us(bench_opencl *opencl, cl_event start, cl_event end, double wall_us);

/* ---- Problems (bench_problem.c) ------------------------------------------------------------------------------------------------- */

typedef struct bench_problem {
    const bench_workload *work;
    uint32_t num_sets, num_inputs, num_outputs;
    size_t input_bytes[BENCH_MAX_INPUTS], output_bytes[BENCH_MAX_OUTPUTS];
    uint64_t bytes_read, bytes_written; /* what must move, at least */
    uint32_t capacity;                  /* align, route_align: rows */
    uint32_t first_of_layout;           /* which of the outputs is sorted_token_ids; two more follow */
    void *inputs[BENCH_MAX_SETS][BENCH_MAX_INPUTS];
    void *expected[BENCH_MAX_OUTPUTS]; /* by plain C, of set `expected_set` */
    uint32_t expected_set;
    void *scratch; /* of plain C */
    uint64_t input_hash;
    double padding_factor; /* align, route_align: rows in use per pair; else 0 */
    char reason[256];      /* why it can't be posed here; "" if it can */
    char directory[512];   /* where its inputs lie as files, for peers; "" if nowhere */
} bench_problem;

/* Sizes the arrays, and fills num_sets of them: as many as the last cache is too small for. */
void bench_problem_open(bench_problem *problem, const bench_workload *work, const char *data_dir, uint64_t cache_bytes,
                        uint32_t num_copies);
void bench_problem_close(bench_problem *problem);

/* Fills all sets (bench_inputs.c). False with the problem's reason. */
bool bench_fill_inputs(bench_problem *problem, const char *data_dir);

/* Makes `expected` hold the outputs of that set. */
void bench_problem_expect(bench_problem *problem, uint32_t set);
/* On one thread, or on two with a team (align only). */
void bench_problem_plain(const bench_problem *problem, const bench_plain *plain, uint32_t set, void *const *outputs, bench_team *team);
/* The least: copies, fills and reads the bytes that must move. */
void bench_problem_floor(const bench_problem *problem, const bench_plain *plain, uint32_t set, void *const *outputs);

clmoe_status bench_problem_plan(const bench_problem *problem, clmoe_context *context, clmoe_plan **plan);
clmoe_status bench_problem_enqueue(const bench_problem *problem, clmoe_plan *plan, const clmoe_buffer *inputs, const clmoe_buffer *outputs,
                                   clmoe_buffer workspace, cl_command_queue queue, cl_event *event);
size_t bench_problem_items(const bench_problem *problem); /* as clmoe_plan_describe counts them */

/* For results whose order inside an expert is open: puts each expert's rows in ascending order. */
void bench_problem_order(const bench_problem *problem, void *const *outputs);

/* route, route_align: weights within 1e-5, relatively, of those of the same experts, or of others whose scores plain C can't tell apart; a
 * layout of the ids. */
bool bench_problem_is_close(const bench_problem *problem, void *const *outputs);

uint64_t bench_hash(uint64_t hash, const void *data, size_t bytes); /* start with 0 */

/* ---- Rows (bench_rows.c) ------------------------------------------------------------------------------------------------------- */

typedef enum bench_status { BENCH_OK, BENCH_SKIPPED, BENCH_FAILED } bench_status;
typedef enum bench_correct {
    BENCH_UNCHECKED,
    BENCH_EXACT,
    BENCH_UNORDERED, /* right but for the order inside an expert, which is open */
    BENCH_CLOSE,     /* route, route_align: as bench_problem_is_close() says, for plain C has another exp */
    BENCH_WRONG
} bench_correct;

typedef struct bench_samples {
    double *us;
    size_t num, capacity;
} bench_samples;

typedef struct bench_summary {
    double median, p10, p90, min; /* 0 without samples */
} bench_summary;

bench_summary bench_summarise(const double *us, size_t num);

typedef struct bench_row {
    char workload[64];
    const char *group, *op, *contender;
    char device[160];
    bench_status status;
    char reason[256];
    bench_samples wall, event;
    uint32_t bad_events;
    uint32_t calls_per_sample, num_sets;
    double plan_ms, first_ms;
    const char *program; /* "built", "cached", "shared", "native", "" */
    char variant[32];
    const char *kernel_class;
    uint32_t num_launches, group_size, num_groups;
    uint64_t bytes;      /* that must move */
    uint64_t plan_bytes; /* that the path moves, by its own account; 0 = unknown */
    double padding_factor;
    bench_correct correct;
    uint64_t hash, input_hash;
    double fraction_of_copy, times_empty; /* 0 = unknown */
} bench_row;

typedef struct bench_rows {
    bench_row *rows;
    size_t num_rows, capacity;
} bench_rows;

bool bench_rows_add(bench_rows *rows, const bench_row *row); /* takes over its samples; false without memory */
/* The first that is BENCH_OK, else the last. On any device if that is NULL. NULL: none. */
const bench_row *bench_rows_find(const bench_rows *rows, const char *workload, const char *contender, const char *device);
void bench_rows_free(bench_rows *rows);

/* "event" where the driver's clock told at least half of the samples, "wall, events bad" where it should have, else "wall". */
const char *bench_clock(const bench_row *row);
/* Median by that clock, in microseconds. */
double bench_device_us(const bench_row *row);

/* ---- Peers (bench_peer.c): other implementations, as programs of their own -------------------------------------------------------
 *
 * A peer speaks lines of text on stdin and stdout, and times itself. First it says who it is:
 *
 *     clmoe-peer 1
 *     name NumPy                         contender in the table
 *     version 1.24.2
 *     device host
 *     operators align histogram scan sort_keys sort_pairs gather route    those that it has
 *
 * Then it answers until its stdin ends:
 *
 *     pose align num_sets=2 num_tokens=4096 top_k=8 ... directory=D    ready, or: no REASON. D ends with the line; inputs of the sets 0, 1
 * ... are the files D/input.SET.0, .1 ...: the operator's arrays as in memory time SET CALLS                                    us
 * MICROSECONDS of that many calls, on the sets SET, SET + 1 ... in turn solve SET                                         done, with the
 * outputs of one call in D/output.0.0, .1 ...
 */
enum { BENCH_PEER_LINE = 512 };

typedef struct bench_peer {
    char name[20], version[64], device[160];
    uint32_t operators;                /* a bit for each bench_operator */
    char reason[BENCH_PEER_LINE + 64]; /* why it isn't spoken to any more; "" if it is */
    bool is_open;
    int socket;
    pid_t process;
} bench_peer;

/* Runs the command in a shell. False with the peer's reason; then too the peer must be closed. */
bool bench_peer_open(bench_peer *peer, const char *command);
void bench_peer_close(bench_peer *peer);

bool bench_peer_takes(const bench_peer *peer, const bench_workload *work);
/* Gives it the inputs of all sets. Not BENCH_OK: with a reason. */
bench_status bench_peer_pose(bench_peer *peer, bench_problem *problem, char *reason, size_t reason_bytes);
/* In microseconds. Negative: with the peer's reason. */
double bench_peer_time(bench_peer *peer, uint32_t set, uint32_t num_calls);
bool bench_peer_solve(bench_peer *peer, const bench_problem *problem, uint32_t set, void *const *outputs); /* false: with its reason */
/* Removes the files of the inputs and outputs. */
void bench_peers_unshare(bench_problem *problem);

/* ---- Measuring (bench_measure.c; one contender: bench_case.h) -------------------------------------------------------------------- */

typedef struct bench_effort {
    double row_ms; /* time for the samples of a row */
    uint32_t min_samples, max_samples;
} bench_effort;

/* Who takes part. */
typedef struct bench_field {
    bench_device *devices;
    size_t num_devices;
    bench_peer *peers;
    size_t num_peers;
} bench_field;

/* One workload on every device: all its cases in turns, so that each sees the same machine. Adds a row for each. False without memory. */
bool bench_measure(const bench_workload *work, const bench_field *field, const char *data_dir, const bench_effort *effort,
                   bench_rows *rows);

double bench_now_us(void);

/* ---- What is written (bench_report.c) ------------------------------------------------------------------------------------------- */

typedef struct bench_run {
    const char *filter; /* "" = all */
    bool is_quick;
    const bench_field *field;
    const bench_rows *rows;
} bench_run;

void bench_print_header(void);
void bench_print_rows(const bench_run *run, size_t first_row); /* of one workload */
void bench_write_json(FILE *stream, const bench_run *run);
void bench_write_csv(FILE *stream, const bench_run *run);
bool bench_write_svg(FILE *stream, const bench_run *run);

/* ---- Targets (bench_targets.c) -------------------------------------------------------------------------------------------------- */

/* The devices that the targets speak of, by their places in the list of a run. */
enum { TARGET_HOST, TARGET_NATIVE, TARGET_BASIC, TARGET_PARALLEL, NUM_TARGET_DEVICES };

/* NULL for the host. */
const char *bench_target_selector(size_t place);
clmoe_class bench_target_class(size_t place);

/* Prints the table of the targets, and returns how many are missed. */
size_t bench_print_targets(const bench_rows *rows, const bench_device devices[NUM_TARGET_DEVICES]);

#endif
