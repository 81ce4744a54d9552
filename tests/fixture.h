/* fixture.h - what every test uses: the pairs of device and class, guarded buffers, one whole checked call, generators, checksums.
 *
 * The pair under test comes from the environment variable CLMOE_TEST_PAIR: "native" (default), "pocl-serial", "pocl-parallel",
 * "rusticl-serial", "rusticl-parallel", or any other "<selector>-<class>", for example "nvidia-parallel".
 */
#ifndef CLMOE_TESTS_FIXTURE_H
#define CLMOE_TESTS_FIXTURE_H

#include "oracle.h"
#include "oracle_primitives.h"
#include "oracle_route.h"

#include <clmoe/clmoe.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- Pairs ---------------------------------------------------------------------------------------------------------------------- */
#define NUM_FIXTURE_PAIRS 5
extern const char *const fixture_pairs[NUM_FIXTURE_PAIRS];

const char *fixture_pair(void);          /* of CLMOE_TEST_PAIR */
bool fixture_pair_has(const char *text); /* its name contains the text */

/* NULL, and the reason on stderr, if the pair cannot be opened or is not what its name says. */
clmoe_context *fixture_context(const char *pair);

/* How many random cases a pair has time for; the environment variable CLMOE_TEST_CASES, in percent, scales it. */
uint32_t fixture_cases(uint32_t native, uint32_t pocl, uint32_t rusticl);

double fixture_seconds(void);

/* ---- Generators ----------------------------------------------------------------------------------------------------------------- */
typedef struct random_stream {
    uint64_t state;
} random_stream;

uint32_t mix(uint32_t x);
uint64_t random_bits(random_stream *random);
uint32_t random_below(random_stream *random, uint32_t limit); /* 0 ... limit - 1 */

/* Values of a list, each as often as the others: a shuffled deck that is shuffled again when it is used up. */
typedef struct deck {
    uint32_t values[40];
    uint32_t count, used;
} deck;
#define DECK(...)                                                                                                                          \
    { {__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), 0 }
uint32_t deck_deal(deck *cards, random_stream *random);

typedef enum fill {
    FILL_UNIFORM,
    FILL_MIX,
    FILL_ZIPF,
    FILL_ONE_HOT,
    FILL_LAST_EXPERT,
    FILL_SORTED,
    FILL_REVERSED,
    FILL_ROWS_SAME,
    FILL_RUNS,
    FILL_SOME_INVALID,
    FILL_MOSTLY_INVALID,
    FILL_ALL_INVALID,
    FILL_RAW_BITS,
    NUM_FILLS
} fill;
extern const char *const fill_names[NUM_FILLS];
void fill_ids(int64_t *ids, size_t num_tokens, size_t top_k, uint32_t num_experts, clmoe_id_type type, fill how, random_stream *random);

typedef enum map_kind {
    MAP_NONE,
    MAP_IDENTITY,
    MAP_SLICE,
    MAP_PERMUTED,
    MAP_RANDOM,
    MAP_DUPLICATES,
    MAP_ALL_FOREIGN,
    NUM_MAP_KINDS
} map_kind;
void fill_map(int32_t *map, uint32_t num_experts, map_kind how, random_stream *random);

/* Items of histogram, scan and sort. KEYS_SPECIAL: the ends of the range, zeros, and for f32 NaNs of many kinds, infinities, denormals.
 * KEYS_CROWDED: many low bits under three values of the high ones; KEYS_TWINS: the highest two bytes are equal; KEYS_HEAVY: half of them
 * have the same highest byte. */
typedef enum key_fill {
    KEYS_RANDOM,
    KEYS_EQUAL,
    KEYS_TWO_VALUES,
    KEYS_SORTED,
    KEYS_REVERSED,
    KEYS_ONE_OUTLIER,
    KEYS_FEW,
    KEYS_SPECIAL,
    KEYS_CROWDED,
    KEYS_TWINS,
    KEYS_HEAVY,
    NUM_KEY_FILLS
} key_fill;
extern const char *const key_fill_names[NUM_KEY_FILLS];
void fill_keys(void *keys, size_t n, clmoe_type type, key_fill how, random_stream *random); /* u32, i32, f32, u64 */

uint32_t crc32_of(const void *data, size_t bytes); /* zlib's CRC-32 */
uint64_t hash64_of(uint64_t seed, const void *data, size_t bytes);

/* ---- Cases of align ------------------------------------------------------------------------------------------------------------- */
enum {
    OUT_COUNTS = 1,
    OUT_OFFSETS = 2,
    OUT_PADDED_OFFSETS = 4,
    OUT_INVERSE = 8,
    OUT_ROWS_VALID = 16,
    OUT_SORTED_WEIGHTS = 32,
    OUT_STATUS = 64,
    OUT_ALL = 127
};

typedef struct align_case {
    char name[64];
    clmoe_align_desc desc;
    uint32_t num_tokens, row_stride, weights_stride; /* strides: 0 = K, as in the call */
    uint32_t capacity;                               /* rows; 0 = exactly the bound */
    uint32_t optional;                               /* OUT_... */
    uint32_t shift;                                  /* elements by which every view is off its 64 guard elements: 1, 3, 7 */
    uint32_t slack;                                  /* elements by which input views are longer than needed */
    bool has_tokens_device;
    int32_t tokens_device;
    void *ids; /* packed as id_type; these four belong to the case */
    int32_t *map;
    uint8_t *mask;
    uint32_t *weights;
} align_case;

/* T, K, E, B; i32, every optional output, T as max_tokens, the bound as capacity, random weights, nothing else. Ids come next. */
void case_begin(align_case *c, const char *name, uint32_t T, uint32_t K, uint32_t E, uint32_t B);
void case_ids(align_case *c, const int64_t *ids);               /* [T][K], packed by id_type and row_stride */
void case_fill(align_case *c, fill how, random_stream *random); /* case_ids() of fill_ids() */
void case_map(align_case *c, const int32_t *map);
void case_map_fill(align_case *c, map_kind how, random_stream *random);
void case_mask(align_case *c, uint32_t percent_kept, random_stream *random);
void case_tokens_device(align_case *c, int32_t tokens);
void case_end(align_case *c);
uint32_t case_capacity(const align_case *c);
size_t id_bytes(clmoe_id_type type);

/* ---- A rig: guarded memory for one call at a time, and the check ---------------------------------------------------------------- */
enum {
    SLOT_TOPK_IDS,
    SLOT_EXPERT_MAP,
    SLOT_ROW_MASK,
    SLOT_NUM_TOKENS_DEVICE,
    SLOT_TOPK_WEIGHTS,
    SLOT_SORTED_TOKEN_IDS,
    SLOT_EXPERT_IDS,
    SLOT_NUM_TOKENS_POST_PADDED,
    SLOT_COUNTS,
    SLOT_OFFSETS,
    SLOT_PADDED_OFFSETS,
    SLOT_INVERSE,
    SLOT_ROWS_VALID,
    SLOT_SORTED_WEIGHTS,
    SLOT_STATUS,
    SLOT_WORKSPACE,
    NUM_SLOTS
};
#define MORE_SLOTS 8 /* for calls with more operands than align has */

/* One allocation, grown when needed and used again: 0xA5 in front (64 elements and the shift), the view, 64 elements of 0xA5 behind. */
typedef struct guarded {
    clmoe_buffer outer;
    size_t outer_bytes;
    unsigned char *image, *back; /* what was uploaded, what was read back */
    size_t image_bytes, view_offset, view_bytes;
} guarded;

typedef struct align_rig {
    clmoe_context *context;
    cl_command_queue queue; /* NULL on the native device */
    cl_context opencl;      /* set if the rig makes its own cl_mem, for a context that has no queue */
    bool keep_workspace;    /* between calls of one plan: leave what the last call left there */
    bool is_bare;           /* for a driver that looks itself: no guards, outputs and workspace are fresh memory that nobody has written */
    clmoe_align_args args;  /* of the call in hand */
    guarded slots[NUM_SLOTS + MORE_SLOTS];
    bool ends_long_loops;   /* a driver that stops every loop of a work-item after 65,535 iterations in all: it may refuse forced tunings */
    uint64_t calls_refused; /* for that reason */
    uint64_t calls;         /* checked */
    uint64_t hash;          /* over all outputs of all checked calls */
    char failure[1200];
} align_rig;

extern const char *const slot_names[NUM_SLOTS];
clmoe_buffer *slot_view(clmoe_align_args *args, int slot);

void rig_begin(align_rig *rig, clmoe_context *context, cl_command_queue queue);
void rig_end(align_rig *rig);

/* One call in three steps; each false leaves its reason in failure. rig_untouched: no byte differs from what rig_prepare uploaded. */
bool rig_prepare(align_rig *rig, const clmoe_plan *plan, const align_case *c);
bool rig_check(align_rig *rig, const align_case *c);
bool rig_untouched(align_rig *rig, const align_case *c);

/* The whole: prepare, enqueue, finish, check everything. */
bool run_align(align_rig *rig, clmoe_plan *plan, const align_case *c);

/* The same with a plan of its own. CLMOE_UNSUPPORTED of a plan sets *refused and is no failure; refused may be NULL. */
bool run_align_once(align_rig *rig, const align_case *c, bool *refused);

/* ---- Any other operator: a call as a list of views -------------------------------------------------------------------------------- */
#define MAX_OPERANDS 20

typedef struct operand {
    const char *name;           /* as in the header of the operator */
    clmoe_buffer *view, *again; /* in the arguments; again: a second view of the same memory, or NULL */
    size_t width, bytes, spare; /* of an element, of the view, of it more than needed; 0 bytes = absent */
    const void *before, *after; /* contents; before: NULL = poison; after: NULL = what it held */
    bool is_output, is_optional, is_scratch;
    bool is_judged; /* an output whose contents the caller looks at: call_output() */
} operand;

typedef struct op_call {
    char name[480];
    clmoe_plan *plan;
    const void *args;
    size_t args_bytes;
    clmoe_status (*enqueue)(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                            cl_event *event);
    operand operands[MAX_OPERANDS];
    size_t num_operands;
    uint32_t shift;        /* as in align_case */
    unsigned char scratch; /* what fills the workspace */
    bool may_refuse;       /* CLMOE_UNSUPPORTED is no failure */
} op_call;

void call_workspace(op_call *call, clmoe_buffer *view, size_t width); /* adds exactly the plan's */
bool call_prepare(align_rig *rig, op_call *call);                     /* rig->keep_workspace counts here too */
bool call_check(align_rig *rig, const op_call *call);
bool call_untouched(align_rig *rig, const op_call *call);
bool call_run(align_rig *rig, op_call *call);                                             /* prepare, enqueue, finish, check */
const void *call_output(const align_rig *rig, const op_call *call, size_t operand_index); /* after call_check() */

/* `args`, the prepared arguments with one thing wrong, are refused; the text names it, nothing is written, the next call works. */
bool call_refused(align_rig *rig, op_call *call, const void *args, const char *what, const char *named);
bool call_refuses_views(align_rig *rig, op_call *call); /* everything that can be wrong with a view, and with queue and events */
bool call_on_queues(align_rig *rig, op_call *call);     /* a wait list is waited for, an event comes back; an out-of-order queue */

/* ---- Cases of route ------------------------------------------------------------------------------------------------------------- */
typedef enum logit_fill {
    LOGITS_NORMAL,
    LOGITS_UNIFORM,
    LOGITS_FEW,        /* three values: ties */
    LOGITS_EQUAL,      /* one value in a row */
    LOGITS_ZEROS,      /* of both signs */
    LOGITS_DENORMAL,   /* and zeros */
    LOGITS_INFINITE,   /* some, of both signs */
    LOGITS_NAN,        /* some, of many kinds */
    LOGITS_HUGE,       /* up to the largest number */
    LOGITS_NEGATIVE,   /* all of them */
    LOGITS_WIDE,       /* to both ends of what e^x can be */
    LOGITS_NEIGHBOURS, /* numbers that follow each other */
    LOGITS_BF16,       /* normal, with 8 significant bits */
    LOGITS_BAD_ROWS,   /* every other row all NaN, all -Inf, all +Inf, half NaN, ... */
    LOGITS_RAW_BITS,
    NUM_LOGIT_FILLS
} logit_fill;
extern const char *const logit_fill_names[NUM_LOGIT_FILLS];

/* What stands in bias and expert_scale. */
typedef enum factor_fill {
    FACTORS_SMALL, /* 0 ... 0.5 */
    FACTORS_FEW,
    FACTORS_LARGE,   /* -10 ... 10 */
    FACTORS_STRANGE, /* among them NaN, infinities, denormals, zeros */
    NUM_FACTOR_FILLS
} factor_fill;

typedef struct route_case {
    char name[100];
    clmoe_route_desc desc;
    uint32_t num_tokens, row_stride; /* stride: 0 = E, as in the call */
    uint32_t shift, slack;           /* as in align_case */
    unsigned char scratch;           /* what fills the workspace */
    void *logits;                    /* packed as logit_type; these belong to the case */
    uint32_t *bias, *expert_scale;   /* bits of f32; NULL if the router has none */
    int32_t *ids;                    /* [T][K] of the last run_route() */
    uint32_t *weights;               /* their bits */
    uint64_t unclear, unweighed;     /* rows in which rounding decided; weights on an edge */
} route_case;

uint32_t bits_of_float(float value);
float float_of_bits(uint32_t bits);
size_t logit_bytes(clmoe_logit_type type);

/* T tokens, E experts, the K best; all else zero, as in the descriptor. Logits come next, and bias and scale if the router wants them. */
void route_begin(route_case *c, const char *name, uint32_t T, uint32_t E, uint32_t K);
void route_logit_bits(route_case *c, const uint32_t *logits);          /* [T][E] bits of f32, rounded to the type, packed by row_stride */
void route_values(route_case *c, const float *logits);                 /* the same */
void route_fill(route_case *c, logit_fill how, random_stream *random); /* bits that suit the type */
void route_factors(route_case *c, factor_fill how, random_stream *random);
void route_bias(route_case *c, const float *bias);
void route_expert_scale(route_case *c, const float *expert_scale);
void route_end(route_case *c);
void route_describe(const route_case *c, char *text, size_t bytes);

/* Composes everything that a descriptor can say. E and K stay. */
void random_router(clmoe_router *router, random_stream *random);

/* Refusals that this pair is allowed: a driver that ends long loops, and a size or a forced tuning that needs them. */
bool route_may_refuse(const align_rig *rig, const route_case *c);

/* The call as a list of operands; the last row's last logit is the last element of its view, but for the slack. */
void route_call(op_call *call, clmoe_route_args *args, clmoe_plan *plan, const route_case *c);
enum { ROUTE_LOGITS, ROUTE_BIAS, ROUTE_EXPERT_SCALE, ROUTE_IDS, ROUTE_WEIGHTS, ROUTE_WORKSPACE };

/* After call_check(): keeps ids and weights in the case and has the oracle judge every row. */
bool route_judge(align_rig *rig, const op_call *call, route_case *c);

/* The whole: one call, everything checked; run_route_once with a plan of its own. An allowed refusal leaves NULL in ids. */
bool run_route(align_rig *rig, clmoe_plan *plan, route_case *c);
bool run_route_once(align_rig *rig, route_case *c);

/* Whether a call of this size takes the pair a reasonable time. */
bool fixture_fits(const char *pair, const align_case *c);

/* int32 values of a .npy file of the test data; NULL and the reason on stderr if it is not there or not as expected. */
int32_t *fixture_npy_i32(const char *file, size_t count);

#endif
