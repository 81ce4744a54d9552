/* routing.h - what the commands about align share: ids from a file, and one call of the operator with its outputs on the host. */
#ifndef CLMOE_CLI_ROUTING_H
#define CLMOE_CLI_ROUTING_H

#include "npy.h"
#include "session.h"

#include <clmoe/moe.h>

/* Which experts each token goes to. */
typedef struct routing {
    const char *command;
    npy_array ids; /* [T][K] */
    clmoe_id_type id_type;
    uint32_t num_tokens;
    uint32_t top_k;
    uint32_t num_experts;
    clmoe_foreign foreign;
    int32_t *expert_map; /* [E], or NULL: every expert is local */
} routing;

/* Reads IDS.npy. `at` picks leading indices of an array of more than two dimensions. */
outcome routing_read(routing *route, const char *command, const char *path, const number_list *at, uint32_t num_experts);

/* Reads an expert map of any integer type; what fits no int32 means "not here". path NULL = no map. */
outcome routing_read_map(routing *route, const char *path, clmoe_foreign foreign);

void routing_free(routing *route);

/* Fails with "X.npy: int32 (64, 4): RULE". */
outcome routing_refuse(const char *command, const char *path, const npy_array *array, const char *rule);

/* Reads any other array. `at` picks leading indices of one that has more dimensions than it should; NULL = then it is refused. */
outcome routing_read_part(const char *command, const char *path, uint32_t num_dims, const number_list *at, npy_array *array);

/* The same for an array that goes with another: it may have the leading dimensions of that one, or not. */
outcome routing_read_array(const char *command, const char *path, uint32_t num_dims, const number_list *at, npy_array *array);

/* The operator's outputs, by the order of its arguments. */
typedef enum align_array {
    ALIGN_SORTED,
    ALIGN_EXPERTS,
    ALIGN_TOTAL,
    ALIGN_COUNTS,
    ALIGN_OFFSETS,
    ALIGN_PADDED_OFFSETS,
    ALIGN_INVERSE,
    ALIGN_ROWS_VALID,
    ALIGN_SORTED_WEIGHTS,
    ALIGN_STATUS,
    ALIGN_NUM_ARRAYS
} align_array;

enum { ALIGN_FIRST_OPTIONAL = ALIGN_COUNTS };

/* "sorted_token_ids", "expert_ids", ... */
const char *align_array_name(align_array which);

/* One call. The caller sets the first part, align_call_run fills the second, align_call_free releases it. */
typedef struct align_call {
    uint32_t block_size;
    uint32_t capacity; /* rows; 0 = exactly what is needed at most */
    bool has_pad_value;
    int32_t pad_value;
    bool has_device_tokens;
    int32_t device_tokens;
    const npy_array *row_mask; /* NULL = none */
    const npy_array *weights;  /* NULL = none; needed for ALIGN_SORTED_WEIGHTS */
    bool wanted[ALIGN_NUM_ARRAYS];

    int32_t *arrays[ALIGN_NUM_ARRAYS]; /* NULL if not wanted; sorted weights are float */
    size_t num_items[ALIGN_NUM_ARRAYS];
} align_call;

outcome align_call_run(align_call *call, const routing *route, session *work);
void align_call_free(align_call *call);

/* The parts of align_call_run, for a call of the library that does more than align: the buffers of what goes in beside the ids and of the
 * outputs; the outputs on the host; the end of the buffers, also after a failure. *args starts all zero. */
outcome align_call_prepare(align_call *call, const routing *route, session *work, clmoe_align_args *args);
outcome align_call_collect(align_call *call, session *work, clmoe_align_args *args);
void align_call_release(session *work, clmoe_align_args *args);

/* Segments are runs of rows that belong together: one for each expert in the operator's order, and with BUCKET one in front for the
 * pairs that belong to none. Segment s of `align_num_segments` has these pairs and starts at this row. */
typedef struct align_segment {
    int32_t expert; /* number in the operator's order; -1 for the segment in front */
    int32_t num_pairs;
    int32_t first_row;
    int32_t num_rows; /* padded */
} align_segment;

uint32_t align_num_segments(const routing *route);
align_segment align_segment_at(const align_call *call, const routing *route, uint32_t index);

/* Rows in use per pair placed; 0 if there is none. */
double align_padding_factor(const align_call *call);

#endif
