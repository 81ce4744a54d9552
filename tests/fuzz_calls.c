/* fuzz_calls.c - libFuzzer: descriptors and arguments of every operator on the native device, legal, slightly wrong and absurd.
 *
 * Whether a call must be refused is decided here, from the public headers alone. What is accepted is compared with the oracles; what is
 * refused must name an argument and leave every byte as it was. Each view ends where its heap block ends.
 */
#define _GNU_SOURCE
#include "fuzz.h"
#include "oracle.h"
#include "oracle_primitives.h"
#include "oracle_route.h"

#include <clmoe/clmoe.h>
#include <math.h>
#include <sanitizer/asan_interface.h>

static clmoe_context *alone, *threaded; /* one thread; three */

/* ---- Numbers of a descriptor ---------------------------------------------------------------------------------------------------- */

/* 0 ... most, or, once in sixteen, a number at which something may break. */
static uint32_t draw(fuzz_input *in, uint32_t most) {
    static const uint32_t edges[] = {0,          1,           2,           3,           255,         256,         1023,
                                     4096,       65535,       65536,       65537,       0x00ffffffu, 0x1000000u,  0x1000001u,
                                     0x3fffffff, 0x7ffffffeu, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xfffffffeu, 0xffffffffu};
    const uint32_t word = fuzz_u16(in);
    return word < 0xf000 ? word % (most + 1) : edges[word % (sizeof edges / sizeof *edges)];
}

/* 0 ... count - 1, or, rarely, no value of the enumeration. */
static uint32_t draw_choice(fuzz_input *in, uint32_t count) {
    static const uint32_t wrong[] = {0xffffffffu, 0x80000000u, 0x7fffffffu, 255};
    const uint32_t byte = fuzz_u8(in);
    return byte < 248 ? byte % count : byte < 252 ? count : wrong[byte - 252];
}

static bool draw_bool(fuzz_input *in) {
    return fuzz_u8(in) & 1;
}

static float draw_float(fuzz_input *in) {
    static const uint32_t bits[] = {0x00000000, 0x3f800000, 0x41f00000 /* 30 */, 0x1e3ce508 /* 1e-20 */,
                                    0x40200000, 0x3fc00000, 0x80000000,          0x00800000 /* 2^-126 */,
                                    0x00000001, 0xbf800000, 0x7f7fffff,          0x7f800000,
                                    0xff800000, 0x7fc00000, 0x2b8cbccc /* 1e-12 */};
    const uint32_t byte = fuzz_u8(in);
    uint32_t chosen = bits[byte < 200 ? byte % 3 : byte % 15];
    float number;
    memcpy(&number, &chosen, 4);
    return number;
}

static clmoe_tuning draw_tuning(fuzz_input *in) {
    clmoe_tuning tuning = {0, 0, 0};
    const uint32_t how = fuzz_u8(in);
    tuning.num_launches = how < 240 ? how % 4 : how - 240;
    if (draw_bool(in))
        tuning.num_groups = draw(in, 9);
    if (how % 16 == 15)
        tuning.group_size = draw(in, 64);
    return tuning;
}

/* How many of `most` items a call has; *is_over: one more than the plan takes. */
static uint32_t draw_count(fuzz_input *in, uint32_t most, bool *is_over) {
    const uint32_t how = fuzz_u8(in);
    *is_over = how >= 250 && most < UINT32_MAX;
    return *is_over ? most + 1 : how < 120 || most == UINT32_MAX ? most : fuzz_u16(in) % (most + 1);
}

/* ---- A call --------------------------------------------------------------------------------------------------------------------- */

enum { MAX_VIEWS = 24, MAX_BYTES = 1 << 19, GUARD = 0xa5 };

typedef enum contents { CONTENTS_POISON, CONTENTS_SMALL, CONTENTS_BITS, CONTENTS_INPUT } contents;

typedef struct view {
    clmoe_buffer *field; /* in the arguments */
    size_t width, bytes;
    bool is_output, is_optional, is_scratch, is_here;
    unsigned char *block, *data, *was; /* data is inside of block and ends with it; was: its bytes before the call */
    size_t before;                     /* bytes of block in front of data */
} view;

typedef clmoe_status enqueue_function(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint num_events,
                                      const cl_event *events, cl_event *event);

typedef struct call {
    fuzz_input *in;
    clmoe_plan *plan;
    const void *args;
    enqueue_function *enqueue;
    view views[MAX_VIEWS];
    unsigned num_views;
    bool must_refuse;
    bool may_be_in_place; /* scan: the output may be the input's view */
    bool is_in_place;     /* and here it is */
    uint64_t random;
} call;

static uint64_t next_random(call *c) {
    c->random = c->random * 6364136223846793005u + 1442695040888963407u;
    return c->random >> 16;
}

static view *add(call *c, clmoe_buffer *field, uint64_t items, size_t width) {
    view *v = &c->views[c->num_views++];
    *v = (view){.field = field, .width = width, .is_here = true};
    v->bytes = items > SIZE_MAX / 4 / width ? SIZE_MAX / 4 / width * width : (size_t)items * width;
    return v;
}

static void *input(call *c, clmoe_buffer *field, uint64_t items, size_t width, bool is_optional) {
    view *v = add(c, field, items, width);
    v->is_optional = is_optional;
    v->is_here = !is_optional || draw_bool(c->in);
    return v;
}

static void *output(call *c, clmoe_buffer *field, uint64_t items, size_t width, bool is_optional) {
    view *v = input(c, field, items, width, is_optional);
    v->is_output = true;
    return v;
}

static void workspace(call *c, clmoe_buffer *field) {
    view *v = add(c, field, clmoe_plan_workspace_bytes(c->plan), 1);
    v->width = 8;
    v->bytes = (v->bytes + 7) / 8 * 8;
    v->is_output = v->is_scratch = true;
}

/* Memory that ends with the view. What stands in front, an offset or not, is closed to the call. */
static void allocate(view *v, fuzz_input *in) {
    const uint32_t how = fuzz_u8(in);
    const size_t shift = how % 4 == 0 ? (1 + how / 4 % 5) * v->width : 0; /* the block is aligned to 16 bytes, the view to its element */
    v->before = shift + (16 - (shift + v->bytes) % 16) % 16 / v->width * v->width;
    v->block = fuzz_allocate(v->before + v->bytes);
    v->data = v->block + v->before;
    memset(v->block, GUARD, v->before + v->bytes);
    v->was = fuzz_allocate(v->bytes);
    *v->field = how & 64 ? (clmoe_buffer){.host = v->block, .offset_bytes = v->before, .size_bytes = v->bytes}
                         : clmoe_buffer_of_host(v->data, v->bytes);
}

static void fill(call *c, view *v, contents how, uint64_t limit) {
    for (size_t i = 0; how != CONTENTS_POISON && i < v->bytes; i += v->width) {
        uint64_t item = how == CONTENTS_INPUT ? fuzz_u8(c->in) : next_random(c) ^ next_random(c) << 40;
        if (how == CONTENTS_INPUT)
            item = item < 240 ? item % (limit + 1) : item < 248 ? ~(uint64_t)0 << (item - 240) * 8 : next_random(c) << 7;
        else if (how == CONTENTS_SMALL)
            item = item % 61 == 0 ? next_random(c) : item % (limit + 1);
        memcpy(v->data + i, &item, v->width < 8 ? v->width : 8);
    }
}

static contents draw_contents(fuzz_input *in) {
    const uint32_t how = fuzz_u8(in);
    return how < 120 ? CONTENTS_SMALL : how < 160 ? CONTENTS_BITS : CONTENTS_INPUT;
}

/* One thing wrong with a view, or with the queue's arguments. */
static void break_something(call *c, cl_command_queue *queue, cl_event **event) {
    static int nothing;
    view *v = &c->views[fuzz_u8(c->in) % c->num_views];
    const view *other = &c->views[fuzz_u8(c->in) % c->num_views];
    const uint32_t how = fuzz_u8(c->in) % 10;
    clmoe_buffer *field = v->field;
    if (how == 0) {
        *queue = (cl_command_queue)(void *)&nothing;
        c->must_refuse = true;
    } else if (how == 1) {
        *event = (cl_event *)(void *)&nothing;
        c->must_refuse = true;
    } else if (!v->is_here) {
        field->size_bytes = 1; /* bytes of no memory */
        c->must_refuse = true;
    } else if (how == 2 && v->bytes > 0) {
        field->size_bytes -= v->is_scratch && v->bytes == 8 ? 8 : v->is_scratch ? 9 : draw_bool(c->in) ? 1 : v->width;
        c->must_refuse = true;
    } else if (how == 3 && v->is_output && !v->is_scratch) {
        field->size_bytes += v->width; /* never touched: refused first */
        c->must_refuse = true;
    } else if (how == 4 && v->bytes > 0 && !v->is_optional) {
        *field = (clmoe_buffer){0};
        c->must_refuse = true;
    } else if (how == 5 && v->width > 1 && v->bytes > 0 && !v->is_scratch) {
        field->offset_bytes += 1;
        c->must_refuse = true;
    } else if (how == 6) {
        field->offset_bytes = SIZE_MAX / v->width * v->width - (fuzz_u8(c->in) & 1 ? 0 : (uintptr_t)field->host / v->width * v->width);
        field->size_bytes = v->bytes > 0 ? v->bytes : v->width;
        c->must_refuse = true;
    } else if (how == 7) {
        field->size_bytes = SIZE_MAX / v->width * v->width;
        c->must_refuse = true;
    } else if (how == 8) {
        field->mem = (cl_mem)(void *)&nothing;
        c->must_refuse = true;
    } else if (how == 9 && v != other && other->is_here && (v->is_output || other->is_output) && v->bytes > 0 && other->bytes > 0 &&
               !v->is_scratch && !(c->may_be_in_place && !other->is_scratch)) {
        field->host = other->field->host; /* both begin at the same byte */
        field->offset_bytes = other->field->offset_bytes;
        c->must_refuse = true;
    }
}

static void expect_text(const clmoe_context *context, const char *named) {
    char text[1200];
    fuzz_check(clmoe_context_error(context, text, sizeof text) <= sizeof text, "the error's text is long");
    fuzz_check(strstr(text, named) != NULL || strstr(text, "queue:") != NULL || strstr(text, "event") != NULL,
               "the error names nothing: '%s'", text);
    fuzz_check(strpbrk(text, "\r\n") == NULL, "the error is more than a line: '%s'", text);
}

static void expect_refusal(const clmoe_context *context, const char *what, clmoe_status status) {
    fuzz_check(status == CLMOE_INVALID_ARGUMENT, "%s: status %d, not refused", what, status);
    expect_text(context, "args.");
}

/* Sizes that no test has the memory for: as claimed, but nothing is there, and the workspace is missing. */
static void run_without_memory(call *c, clmoe_context *context) {
    bool is_missing = c->must_refuse;
    for (unsigned i = 0; i < c->num_views; ++i) {
        const view *v = &c->views[i];
        const bool is_absent = v->is_scratch || !v->is_here;
        is_missing = is_missing || (v->is_scratch && v->bytes > 0);
        *v->field = is_absent ? (clmoe_buffer){0} : clmoe_buffer_of_host((void *)(uintptr_t)0x10000, v->bytes);
    }
    if (is_missing)
        expect_refusal(context, "without memory", c->enqueue(c->plan, NULL, c->args, 0, NULL, NULL));
}

/* Whether there is memory for the views; they have it then, outputs poisoned, inputs empty. */
static bool prepare(call *c, clmoe_context *context) {
    size_t total = 0;
    for (unsigned i = 0; i < c->num_views; ++i)
        total += c->views[i].bytes < MAX_BYTES ? c->views[i].bytes : MAX_BYTES + 1;
    if (total > MAX_BYTES) {
        run_without_memory(c, context);
        return false;
    }
    for (unsigned i = 0; i < c->num_views; ++i)
        if (c->views[i].is_here)
            allocate(&c->views[i], c->in);
    c->random = fuzz_u8(c->in);
    return true;
}

static void expect_same(const call *c, bool outputs_too) {
    for (unsigned i = 0; i < c->num_views; ++i) {
        const view *v = &c->views[i];
        for (size_t b = 0; v->is_here && b < v->before; ++b)
            fuzz_check(v->block[b] == GUARD, "view %u: written in front of it", i);
        const bool is_fixed = v->is_here && (outputs_too || !(v->is_output || (c->is_in_place && i == 0)));
        fuzz_check(!is_fixed || v->bytes == 0 || memcmp(v->data, v->was, v->bytes) == 0, "view %u: changed", i);
    }
}

/* True: accepted and done. What it was asked for is looked at by the caller. */
static bool run(call *c, clmoe_context *context) {
    cl_command_queue queue = NULL;
    cl_event *event = NULL;
    for (unsigned i = 0; i < c->num_views; ++i) {
        view *v = &c->views[i];
        if (v->is_here && v->bytes > 0)
            memcpy(v->was, v->data, v->bytes);
    }
    if (fuzz_u8(c->in) >= 180)
        break_something(c, &queue, &event);
    for (unsigned i = 0; i < c->num_views; ++i) { /* what ASan can close in whole words */
        const view *v = &c->views[i];
        if (v->is_here)
            ASAN_POISON_MEMORY_REGION(v->block, v->before / 8 * 8);
    }
    const clmoe_status status = c->enqueue(c->plan, queue, c->args, 0, NULL, event);
    for (unsigned i = 0; i < c->num_views; ++i)
        if (c->views[i].is_here)
            ASAN_UNPOISON_MEMORY_REGION(c->views[i].block, c->views[i].before);
    if (c->must_refuse)
        expect_refusal(context, "wrong arguments", status);
    else if (status != CLMOE_SUCCESS) {
        char text[1200];
        clmoe_context_error(context, text, sizeof text);
        fuzz_fail("a legal call: %s: %s", clmoe_status_name(status), text);
    }
    expect_same(c, status != CLMOE_SUCCESS);
    return status == CLMOE_SUCCESS;
}

static void end(call *c) {
    for (unsigned i = 0; i < c->num_views; ++i) {
        free(c->views[i].block);
        free(c->views[i].was);
    }
    clmoe_plan_destroy(c->plan);
}

static void expect_bytes(const view *v, const void *expected, const char *what) {
    fuzz_check(!v->is_here || v->bytes == 0 || memcmp(v->data, expected, v->bytes) == 0, "%s: not what the oracle says", what);
}

/* The result of a creating call: refused with a field's name, or a plan that describes itself. */
static bool created(clmoe_context *context, clmoe_status status, const clmoe_plan *plan, bool is_legal, uint32_t most) {
    clmoe_plan_info info;
    char text[1200];
    if (status != CLMOE_SUCCESS) {
        clmoe_context_error(context, text, sizeof text);
        fuzz_check(!is_legal && status == CLMOE_INVALID_ARGUMENT, "plan: %s: %s", clmoe_status_name(status), text);
        fuzz_check(plan == NULL, "a plan although it was refused");
        expect_text(context, "desc.");
        return false;
    }
    fuzz_check(is_legal, "an illegal descriptor was accepted");
    fuzz_check(clmoe_plan_describe(plan, most, &info) == CLMOE_SUCCESS, "describe: the largest call");
    fuzz_check(info.workspace_bytes == clmoe_plan_workspace_bytes(plan), "describe: workspace");
    fuzz_check(info.num_launches >= 1 && info.num_groups >= 1, "describe: no launch");
    if (most < UINT32_MAX)
        fuzz_check(clmoe_plan_describe(plan, (size_t)most + 1, &info) == CLMOE_INVALID_ARGUMENT, "describe: too many items");
    return true;
}

static bool is_legal_tuning(const clmoe_tuning *tuning, uint32_t most_launches) {
    return tuning->num_launches <= most_launches && tuning->num_groups <= 65536;
}

#define ENQUEUE(op)                                                                                                                        \
    static clmoe_status enqueue_##op(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint n, const cl_event *list,          \
                                     cl_event *event) {                                                                                    \
        return clmoe_##op##_enqueue(plan, queue, args, n, list, event);                                                                    \
    }
ENQUEUE(align)
ENQUEUE(histogram)
ENQUEUE(scan)
ENQUEUE(sort)
ENQUEUE(scatter)
ENQUEUE(gather)
ENQUEUE(route)
ENQUEUE(route_align)

/* ---- Primitives ----------------------------------------------------------------------------------------------------------------- */

static void fuzz_histogram(fuzz_input *in, clmoe_context *context) {
    const clmoe_histogram_desc desc = {draw(in, 3000), draw(in, 600), (clmoe_type)draw_choice(in, 9), draw_tuning(in)};
    const bool is_legal = desc.max_items <= INT32_MAX && desc.num_bins <= 1 << 24 && (uint32_t)desc.sample_type <= CLMOE_TYPE_I8 &&
                          desc.sample_type != CLMOE_TYPE_F32 && is_legal_tuning(&desc.tuning, 3);
    call c = {.in = in, .enqueue = enqueue_histogram};
    if (!created(context, clmoe_histogram_plan_create(context, &desc, &c.plan), c.plan, is_legal, desc.max_items))
        return;
    clmoe_histogram_args args = {.num_items = draw_count(in, desc.max_items, &c.must_refuse)};
    c.args = &args;
    const uint32_t n = args.num_items;
    view *samples = input(&c, &args.samples, n, oracle_type_bytes(desc.sample_type), false);
    view *counts = output(&c, &args.counts, desc.num_bins, 4, false), *ignored = output(&c, &args.ignored, 1, 4, true);
    workspace(&c, &args.workspace);
    if (prepare(&c, context)) {
        fill(&c, samples, draw_contents(in), desc.num_bins);
        if (run(&c, context)) {
            uint32_t *right = fuzz_allocate(counts->bytes), right_ignored;
            oracle_histogram(desc.sample_type, n, samples->data, desc.num_bins, right, &right_ignored);
            expect_bytes(counts, right, "counts");
            expect_bytes(ignored, &right_ignored, "ignored");
            free(right);
        }
    }
    end(&c);
}

static void fuzz_scan(fuzz_input *in, clmoe_context *context) {
    const clmoe_scan_desc desc = {draw(in, 3000), (clmoe_type)draw_choice(in, 4), (clmoe_scan_kind)draw_choice(in, 2), draw_tuning(in)};
    const bool has_type = desc.type == CLMOE_TYPE_U32 || desc.type == CLMOE_TYPE_I32 || desc.type == CLMOE_TYPE_U64;
    const bool is_legal = desc.max_items <= INT32_MAX && has_type && (uint32_t)desc.kind <= 1 && is_legal_tuning(&desc.tuning, 3);
    call c = {.in = in, .enqueue = enqueue_scan, .may_be_in_place = true};
    if (!created(context, clmoe_scan_plan_create(context, &desc, &c.plan), c.plan, is_legal, desc.max_items))
        return;
    clmoe_scan_args args = {.num_items = draw_count(in, desc.max_items, &c.must_refuse)};
    c.args = &args;
    const uint32_t n = args.num_items;
    const size_t width = oracle_type_bytes(desc.type);
    view *items = input(&c, &args.input, n, width, false), *sums = output(&c, &args.output, n, width, false);
    workspace(&c, &args.workspace);
    c.is_in_place = draw_bool(in);
    if (prepare(&c, context)) {
        fill(&c, items, draw_contents(in), 1000);
        if (c.is_in_place)
            args.output = args.input;
        if (run(&c, context)) {
            void *right = fuzz_allocate(sums->bytes);
            oracle_scan(desc.type, desc.kind, n, items->was, right);
            const bool went_in_place = args.output.size_bytes > 0 && args.output.host == args.input.host;
            expect_bytes(went_in_place ? items : sums, right, "scan");
            free(right);
        }
    }
    end(&c);
}

static void fuzz_sort(fuzz_input *in, clmoe_context *context) {
    static const uint32_t widths[] = {0, 4, 8};
    clmoe_sort_desc desc = {.max_items = draw(in, 2000), .key_type = (clmoe_type)draw_choice(in, 4)};
    const uint32_t width = fuzz_u8(in);
    desc.value_bytes = width < 250 ? widths[width % 3] : width;
    desc.is_argsort = desc.value_bytes == 4 && draw_bool(in) ? 1 : width % 32 == 31;
    desc.is_descending = draw_bool(in);
    if (draw_bool(in)) {
        desc.begin_bit = draw(in, 32);
        desc.end_bit = draw(in, 64);
    }
    desc.tuning = draw_tuning(in);
    const uint32_t key_bits = desc.key_type == CLMOE_TYPE_U64 ? 64 : 32;
    const bool has_values = desc.value_bytes != 0;
    const bool is_legal = desc.max_items <= INT32_MAX && (uint32_t)desc.key_type <= CLMOE_TYPE_U64 &&
                          (!has_values || desc.value_bytes == 4 || desc.value_bytes == 8) && !(desc.is_argsort && desc.value_bytes != 4) &&
                          desc.begin_bit <= desc.end_bit && desc.end_bit <= key_bits && is_legal_tuning(&desc.tuning, 3);
    call c = {.in = in, .enqueue = enqueue_sort};
    if (!created(context, clmoe_sort_plan_create(context, &desc, &c.plan), c.plan, is_legal, desc.max_items))
        return;
    clmoe_sort_args args = {.num_items = draw_count(in, desc.max_items, &c.must_refuse)};
    c.args = &args;
    const uint32_t n = args.num_items;
    view *keys = input(&c, &args.keys, n, key_bits / 8, false), *keys_out = output(&c, &args.keys_out, n, key_bits / 8, false);
    view *values = NULL, *values_out = NULL;
    if (has_values && !desc.is_argsort)
        values = input(&c, &args.values, n, desc.value_bytes, false);
    if (has_values)
        values_out = output(&c, &args.values_out, n, desc.value_bytes, false);
    workspace(&c, &args.workspace);
    if (prepare(&c, context)) {
        fill(&c, keys, draw_contents(in), 1000);
        if (values != NULL)
            fill(&c, values, CONTENTS_BITS, 0);
        if (run(&c, context)) {
            void *right = fuzz_allocate(keys_out->bytes), *right_values = fuzz_allocate(values_out != NULL ? values_out->bytes : 0);
            oracle_sort(&desc, n, keys->data, values != NULL ? values->data : NULL, right, values_out != NULL ? right_values : NULL);
            expect_bytes(keys_out, right, "keys_out");
            if (values_out != NULL)
                expect_bytes(values_out, right_values, "values_out");
            free(right);
            free(right_values);
        }
    }
    end(&c);
}

/* The row that an index names; UINT64_MAX if it is out of range. */
static uint64_t row_of(clmoe_type type, const unsigned char *index, size_t i, uint32_t num_rows) {
    uint64_t row = 0;
    const size_t width = oracle_type_bytes(type);
    memcpy(&row, index + i * width, width);
    if (type == CLMOE_TYPE_I32)
        row = (uint64_t)(int64_t)(int32_t)(uint32_t)row;
    return row < num_rows ? row : UINT64_MAX; /* negative ones are huge */
}

static void check_rows(const clmoe_scatter_desc *desc, const clmoe_scatter_args *args, bool is_gather, const view *source,
                       const view *index, const view *destination, const view *skipped) {
    const size_t bytes = desc->row_bytes;
    unsigned char *right = fuzz_allocate(destination->bytes), *writes = fuzz_allocate(args->num_rows);
    uint32_t out_of_range = 0;
    memcpy(right, destination->was, destination->bytes);
    memset(writes, 0, args->num_rows);
    for (size_t i = 0; i < args->num_items; ++i) {
        const uint64_t row = row_of(desc->index_type, index->data, i, args->num_rows);
        out_of_range += row == UINT64_MAX;
        if (is_gather && row == UINT64_MAX)
            memset(right + i * bytes, 0, bytes);
        else if (is_gather)
            memcpy(right + i * bytes, source->data + row * bytes, bytes);
        else if (row != UINT64_MAX) {
            memcpy(right + row * bytes, source->data + i * bytes, bytes);
            writes[row] = writes[row] < 2 ? (unsigned char)(writes[row] + 1) : 2;
        }
    }
    for (size_t row = 0; !is_gather && desc->duplicates == CLMOE_DUPLICATES_UNIQUE && row < args->num_rows; ++row)
        if (writes[row] > 1) /* a broken promise: any bytes */
            memcpy(right + row * bytes, destination->data + row * bytes, bytes);
    expect_bytes(destination, right, "destination");
    expect_bytes(skipped, &out_of_range, "skipped");
    free(right);
    free(writes);
}

static void fuzz_scatter(fuzz_input *in, clmoe_context *context, bool is_gather) {
    static const clmoe_type types[] = {CLMOE_TYPE_I32, CLMOE_TYPE_U32, CLMOE_TYPE_I64, CLMOE_TYPE_U64, CLMOE_TYPE_F32};
    const uint32_t type = fuzz_u8(in);
    const clmoe_scatter_desc desc = {.max_items = draw(in, 400),
                                     .max_rows = draw(in, 300),
                                     .row_bytes = draw(in, 40),
                                     .index_type = type < 240   ? types[type % 4]
                                                   : type < 248 ? types[4]
                                                                : (clmoe_type)type,
                                     .duplicates = (clmoe_duplicates)draw_choice(in, 2),
                                     .tuning = draw_tuning(in)};
    const bool is_legal = desc.max_items <= INT32_MAX && desc.max_rows <= INT32_MAX && desc.row_bytes >= 1 && desc.row_bytes <= INT32_MAX &&
                          type < 240 && (is_gather || (uint32_t)desc.duplicates <= 1) && is_legal_tuning(&desc.tuning, 3);
    call c = {.in = in, .enqueue = is_gather ? enqueue_gather : enqueue_scatter};
    const clmoe_status status =
        is_gather ? clmoe_gather_plan_create(context, &desc, &c.plan) : clmoe_scatter_plan_create(context, &desc, &c.plan);
    if (!created(context, status, c.plan, is_legal, desc.max_items))
        return;
    bool is_over;
    clmoe_scatter_args args = {.num_items = draw_count(in, desc.max_items, &c.must_refuse),
                               .num_rows = draw_count(in, desc.max_rows, &is_over)};
    c.must_refuse = c.must_refuse || is_over;
    c.args = &args;
    const uint64_t bytes = desc.row_bytes, from = is_gather ? args.num_rows : args.num_items,
                   to = is_gather ? args.num_items : args.num_rows;
    view *source = input(&c, &args.source, bytes * from, 1, false);
    view *index = input(&c, &args.index, args.num_items, oracle_type_bytes(desc.index_type), false);
    view *destination = output(&c, &args.destination, bytes * to, 1, false), *skipped = output(&c, &args.skipped, 1, 4, true);
    workspace(&c, &args.workspace);
    if (prepare(&c, context)) {
        fill(&c, source, CONTENTS_BITS, 0);
        fill(&c, index, draw_contents(in), args.num_rows);
        if (run(&c, context))
            check_rows(&desc, &args, is_gather, source, index, destination, skipped);
    }
    end(&c);
}

/* ---- align ---------------------------------------------------------------------------------------------------------------------- */

static size_t id_width(clmoe_id_type type) {
    static const size_t widths[] = {4, 8, 4, 2, 1};
    return widths[type];
}

static bool is_legal_layout(uint32_t max_tokens, uint32_t K, uint32_t E, uint32_t B, clmoe_foreign foreign) {
    return K >= 1 && E >= 1 && E <= INT32_MAX && B >= 1 && B <= INT32_MAX && (uint32_t)foreign <= CLMOE_FOREIGN_BUCKET &&
           (uint64_t)max_tokens * K <= INT32_MAX && oracle_align_max_rows((uint64_t)max_tokens * K, E, B, foreign) <= INT32_MAX;
}

typedef struct layout {
    view *ids, *map, *mask, *tokens, *weights, *sorted, *experts, *total, *counts, *offsets, *padded, *inverse, *valid, *sorted_weights,
        *status;
    uint64_t capacity;
} layout;

static uint64_t strided(uint32_t rows, uint64_t items, uint32_t stride) {
    return rows == 0 ? 0 : (uint64_t)(rows - 1) * stride + items;
}

/* Everything but ids, weights and workspace. */
static void add_layout(call *c, layout *l, clmoe_align_args *args, const clmoe_align_desc *desc, uint32_t T) {
    const uint64_t E = desc->num_experts, B = desc->block_size, pairs = (uint64_t)T * desc->top_k;
    l->capacity = oracle_align_max_rows(pairs, E, B, desc->foreign);
    for (uint32_t more = fuzz_u8(c->in) % 4; more > 0 && l->capacity + B <= INT32_MAX; --more)
        l->capacity += B;
    l->map = input(c, &args->expert_map, E, 4, true);
    l->mask = input(c, &args->row_mask, T, 1, true);
    l->tokens = input(c, &args->num_tokens_device, 1, 4, true);
    l->sorted = output(c, &args->sorted_token_ids, l->capacity, 4, false);
    l->experts = output(c, &args->expert_ids, l->capacity / B, 4, false);
    l->total = output(c, &args->num_tokens_post_padded, 1, 4, false);
    l->counts = output(c, &args->counts, E, 4, true);
    l->offsets = output(c, &args->offsets, E + 1, 4, true);
    l->padded = output(c, &args->padded_offsets, E + 1, 4, true);
    l->inverse = output(c, &args->inverse, pairs, 4, true);
    l->valid = output(c, &args->rows_valid, l->capacity / B, 4, true);
    l->sorted_weights = output(c, &args->sorted_weights, l->capacity, 4, true);
    l->status = output(c, &args->status, 4, 4, true);
}

static void fill_layout(call *c, const layout *l, const clmoe_align_desc *desc, uint32_t T) {
    if (l->map->is_here)
        fill(c, l->map, draw_contents(c->in), desc->num_experts);
    if (l->mask->is_here)
        fill(c, l->mask, CONTENTS_SMALL, 1);
    if (l->tokens->is_here)
        fill(c, l->tokens, draw_contents(c->in), T + 1);
}

static void check_layout(const layout *l, const clmoe_align_desc *desc, uint32_t T, const void *ids, uint32_t row_stride,
                         const uint32_t *weights, uint32_t weights_stride) {
#define IF_HERE(v) ((v)->is_here ? (const void *)(v)->data : NULL)
    const oracle_align_inputs inputs = {
        .num_tokens = T,
        .top_k = desc->top_k,
        .num_experts = desc->num_experts,
        .block_size = desc->block_size,
        .row_stride = row_stride,
        .weights_stride = weights_stride,
        .capacity = (uint32_t)l->capacity,
        .id_type = desc->id_type,
        .foreign = desc->foreign,
        .has_pad_value = desc->has_pad_value,
        .pad_value = desc->pad_value,
        .topk_ids = ids,
        .expert_map = IF_HERE(l->map),
        .row_mask = IF_HERE(l->mask),
        .num_tokens_device = IF_HERE(l->tokens),
        .topk_weights = weights,
    };
#undef IF_HERE
    oracle_align_outputs right = oracle_align(&inputs);
    expect_bytes(l->sorted, right.sorted_token_ids, "sorted_token_ids");
    expect_bytes(l->experts, right.expert_ids, "expert_ids");
    expect_bytes(l->total, right.num_tokens_post_padded, "num_tokens_post_padded");
    expect_bytes(l->counts, right.counts, "counts");
    expect_bytes(l->offsets, right.offsets, "offsets");
    expect_bytes(l->padded, right.padded_offsets, "padded_offsets");
    expect_bytes(l->inverse, right.inverse, "inverse");
    expect_bytes(l->valid, right.rows_valid, "rows_valid");
    expect_bytes(l->sorted_weights, right.sorted_weights, "sorted_weights");
    expect_bytes(l->status, right.status, "status");
    oracle_align_free(&right);
}

/* 0, K or more; *is_wrong: less than K. */
static uint32_t draw_stride(fuzz_input *in, uint32_t K, bool *is_wrong) {
    const uint32_t how = fuzz_u8(in);
    const uint32_t stride = how < 150 ? 0 : how < 240 ? K + how % 5 : how >= 250 ? K - 1 : draw(in, 40) | 0x40000000;
    *is_wrong = *is_wrong || (stride != 0 && stride < K);
    return stride;
}

static void fuzz_align(fuzz_input *in, clmoe_context *context) {
    clmoe_align_desc desc = {.max_tokens = draw(in, 100),
                             .top_k = draw(in, 9),
                             .num_experts = draw(in, 90),
                             .block_size = draw(in, 40),
                             .id_type = (clmoe_id_type)draw_choice(in, 5),
                             .foreign = (clmoe_foreign)draw_choice(in, 3),
                             .has_pad_value = draw_bool(in)};
    desc.pad_value = (int32_t)draw(in, 100);
    desc.tuning = draw_tuning(in);
    const bool is_legal = is_legal_layout(desc.max_tokens, desc.top_k, desc.num_experts, desc.block_size, desc.foreign) &&
                          (uint32_t)desc.id_type <= CLMOE_ID_U8 && is_legal_tuning(&desc.tuning, 3);
    call c = {.in = in, .enqueue = enqueue_align};
    uint32_t rows = 0;
    const clmoe_status counted = clmoe_align_max_rows(&desc, desc.max_tokens, &rows);
    fuzz_check((counted == CLMOE_SUCCESS) == is_legal, "clmoe_align_max_rows: %d", counted);
    if (!created(context, clmoe_align_plan_create(context, &desc, &c.plan), c.plan, is_legal, desc.max_tokens))
        return;
    fuzz_check(rows == oracle_align_max_rows((uint64_t)desc.max_tokens * desc.top_k, desc.num_experts, desc.block_size, desc.foreign),
               "clmoe_align_max_rows: %u", rows);
    clmoe_align_args args = {.num_tokens = draw_count(in, desc.max_tokens, &c.must_refuse)};
    const uint32_t T = args.num_tokens, K = desc.top_k;
    args.row_stride = draw_stride(in, K, &c.must_refuse);
    args.weights_stride = draw_stride(in, K, &c.must_refuse);
    const uint32_t row_stride = args.row_stride != 0 ? args.row_stride : K,
                   weights_stride = args.weights_stride != 0 ? args.weights_stride : K;
    c.args = &args;
    layout l = {.ids = input(&c, &args.topk_ids, strided(T, K, row_stride), id_width(desc.id_type), false)};
    add_layout(&c, &l, &args, &desc, T);
    l.weights = l.sorted_weights->is_here ? input(&c, &args.topk_weights, strided(T, K, weights_stride), 4, false) : NULL;
    workspace(&c, &args.workspace);
    if (prepare(&c, context)) {
        fill(&c, l.ids, draw_contents(in), desc.num_experts);
        fill_layout(&c, &l, &desc, T);
        if (l.weights != NULL)
            fill(&c, l.weights, CONTENTS_BITS, 0);
        if (run(&c, context))
            check_layout(&l, &desc, T, l.ids->data, row_stride, l.weights != NULL ? (const uint32_t *)(void *)l.weights->data : NULL,
                         weights_stride);
    }
    end(&c);
}

/* ---- route ---------------------------------------------------------------------------------------------------------------------- */

static clmoe_router draw_router(fuzz_input *in) {
    clmoe_router router = {.num_experts = draw(in, 70), .top_k = draw(in, 9)};
    router.score = (clmoe_score)draw_choice(in, 4);
    router.softcap = draw_float(in);
    router.has_bias = draw_bool(in);
    router.group_filter = (clmoe_group_filter)draw_choice(in, 3);
    if (router.group_filter != CLMOE_GROUPS_NONE || fuzz_u8(in) >= 250) {
        router.num_groups = draw(in, 8);
        router.kept_groups = draw(in, 4);
        if (router.num_groups > 0 && router.num_experts < 1000 && draw_bool(in))
            router.num_experts = (router.num_experts / router.num_groups + 1) * router.num_groups;
    }
    router.weight_source = (clmoe_weight_source)draw_choice(in, 3);
    router.renormalize = (clmoe_renormalize)draw_choice(in, 4);
    router.epsilon = router.renormalize >= CLMOE_RENORMALIZE_SUM_PLUS_EPSILON || fuzz_u8(in) >= 240 ? draw_float(in) : 0;
    router.scale = draw_float(in);
    router.has_expert_scale = draw_bool(in);
    return router;
}

static bool is_normal_or_zero(float x) {
    return x == 0 || (isfinite(x) && fabsf(x) >= 0x1p-126f);
}

static bool is_legal_router(const clmoe_router *r) {
    const bool has_groups = r->group_filter != CLMOE_GROUPS_NONE;
    const bool are_enums_known = (uint32_t)r->score <= CLMOE_SCORE_IDENTITY && (uint32_t)r->group_filter <= CLMOE_GROUPS_TOP2_SUM &&
                                 (uint32_t)r->weight_source <= CLMOE_WEIGHTS_SIGMOID_CHOSEN &&
                                 (uint32_t)r->renormalize <= CLMOE_RENORMALIZE_MAX_EPSILON;
    const bool are_numbers_good = is_normal_or_zero(r->softcap) && r->softcap >= 0 && is_normal_or_zero(r->epsilon) && r->epsilon >= 0 &&
                                  is_normal_or_zero(r->scale) && (r->epsilon == 0 || r->renormalize >= CLMOE_RENORMALIZE_SUM_PLUS_EPSILON);
    if (!are_enums_known || !are_numbers_good || r->num_experts == 0 || r->num_experts > INT32_MAX || r->top_k == 0 ||
        r->top_k > r->num_experts)
        return false;
    if (!has_groups)
        return r->num_groups <= 1 && r->kept_groups <= 1;
    if (r->num_groups == 0 || r->num_experts % r->num_groups != 0 || r->kept_groups == 0 || r->kept_groups > r->num_groups)
        return false;
    const uint64_t in_group = r->num_experts / r->num_groups;
    return in_group * r->kept_groups >= r->top_k && !(r->group_filter == CLMOE_GROUPS_TOP2_SUM && in_group < 2);
}

typedef struct routed {
    view *logits, *bias, *scale, *ids, *weights;
    uint32_t stride;
} routed;

static void add_routed(call *c, routed *r, clmoe_route_args *args, const clmoe_route_desc *desc) {
    const clmoe_router *router = &desc->router;
    const uint32_t T = args->num_tokens, E = router->num_experts;
    args->row_stride = draw_stride(c->in, E, &c->must_refuse);
    r->stride = args->row_stride != 0 ? args->row_stride : E;
    r->logits = input(c, &args->logits, strided(T, E, r->stride), desc->logit_type == CLMOE_LOGIT_F32 ? 4 : 2, false);
    r->bias = router->has_bias ? input(c, &args->bias, T != 0 ? E : 0, 4, false) : NULL;
    r->scale = router->has_expert_scale ? input(c, &args->expert_scale, T != 0 ? E : 0, 4, false) : NULL;
    r->ids = output(c, &args->topk_ids, (uint64_t)T * router->top_k, 4, false);
    r->weights = output(c, &args->topk_weights, (uint64_t)T * router->top_k, 4, false);
}

/* Floats of a size that models have, and raw bits. */
static void fill_floats(call *c, view *v, bool is_raw) {
    for (size_t i = 0; i < v->bytes; i += v->width) {
        uint32_t bits = (uint32_t)next_random(c);
        if (!is_raw) {
            const float number = ((float)(bits % 4096) - 2048) / 256;
            memcpy(&bits, &number, 4);
            bits = v->width == 2 ? bits >> 16 : bits; /* as bf16; as f16 it is some other number */
        }
        memcpy(v->data + i, &bits, v->width);
    }
}

static void fill_routed(call *c, const routed *r) {
    const uint32_t how = fuzz_u8(c->in);
    fill_floats(c, r->logits, how % 4 == 3);
    if (r->bias != NULL)
        fill_floats(c, r->bias, how / 4 % 8 == 7);
    if (r->scale != NULL)
        fill_floats(c, r->scale, how / 32 == 7);
}

static void check_routed(const routed *r, const clmoe_route_desc *desc, uint32_t T) {
    const uint32_t K = desc->router.top_k;
    for (uint32_t t = 0; t < T; ++t) {
        const oracle_route_inputs inputs = {.router = &desc->router,
                                            .logit_type = desc->logit_type,
                                            .logits = r->logits->data + (size_t)t * r->stride * r->logits->width,
                                            .bias = r->bias != NULL ? (const uint32_t *)(void *)r->bias->data : NULL,
                                            .expert_scale = r->scale != NULL ? (const uint32_t *)(void *)r->scale->data : NULL};
        oracle_route_row row = oracle_route(&inputs);
        const oracle_verdict verdict = oracle_route_judge(&row, (const int32_t *)(void *)r->ids->data + (size_t)t * K,
                                                          (const uint32_t *)(void *)r->weights->data + (size_t)t * K);
        fuzz_check(verdict.is_right, "row %u: %s", t, verdict.text);
        oracle_route_free(&row);
    }
}

static bool is_legal_route(const clmoe_route_desc *desc) {
    return is_legal_router(&desc->router) && (uint32_t)desc->logit_type <= CLMOE_LOGIT_BF16 &&
           (uint64_t)desc->max_tokens * desc->router.top_k <= INT32_MAX;
}

static void fuzz_route(fuzz_input *in, clmoe_context *context) {
    const clmoe_route_desc desc = {draw(in, 12), (clmoe_logit_type)draw_choice(in, 3), draw_router(in), draw_tuning(in)};
    call c = {.in = in, .enqueue = enqueue_route};
    const bool is_legal = is_legal_route(&desc) && is_legal_tuning(&desc.tuning, 3);
    if (!created(context, clmoe_route_plan_create(context, &desc, &c.plan), c.plan, is_legal, desc.max_tokens))
        return;
    clmoe_route_args args = {.num_tokens = draw_count(in, desc.max_tokens, &c.must_refuse)};
    routed r;
    c.args = &args;
    add_routed(&c, &r, &args, &desc);
    workspace(&c, &args.workspace);
    if (prepare(&c, context)) {
        fill_routed(&c, &r);
        if (run(&c, context))
            check_routed(&r, &desc, args.num_tokens);
    }
    end(&c);
}

static void fuzz_route_align(fuzz_input *in, clmoe_context *context) {
    clmoe_route_align_desc desc = {
        .max_tokens = draw(in, 12), .logit_type = (clmoe_logit_type)draw_choice(in, 3), .router = draw_router(in)};
    desc.block_size = draw(in, 20);
    desc.foreign = (clmoe_foreign)draw_choice(in, 3);
    desc.has_pad_value = draw_bool(in);
    desc.pad_value = (int32_t)draw(in, 100);
    desc.tuning = draw_tuning(in);
    const clmoe_route_desc route = {desc.max_tokens, desc.logit_type, desc.router, desc.tuning};
    const clmoe_align_desc align = {desc.max_tokens, desc.router.top_k,  desc.router.num_experts, desc.block_size, CLMOE_ID_I32,
                                    desc.foreign,    desc.has_pad_value, desc.pad_value,          desc.tuning};
    call c = {.in = in, .enqueue = enqueue_route_align};
    const bool is_legal = is_legal_route(&route) && is_legal_tuning(&desc.tuning, 4) &&
                          is_legal_layout(align.max_tokens, align.top_k, align.num_experts, align.block_size, align.foreign);
    if (!created(context, clmoe_route_align_plan_create(context, &desc, &c.plan), c.plan, is_legal, desc.max_tokens))
        return;
    clmoe_route_align_args args = {.route.num_tokens = draw_count(in, desc.max_tokens, &c.must_refuse)};
    const uint32_t T = args.route.num_tokens;
    routed r;
    layout l = {0};
    c.args = &args;
    add_routed(&c, &r, &args.route, &route);
    add_layout(&c, &l, &args.align, &align, T);
    workspace(&c, &args.workspace);
    if (fuzz_u8(in) >= 248) {
        args.align.num_tokens = T + 1;
        c.must_refuse = true;
    }
    if (prepare(&c, context)) {
        fill_routed(&c, &r);
        fill_layout(&c, &l, &align, T);
        if (run(&c, context)) {
            check_routed(&r, &route, T);
            check_layout(&l, &align, T, r.ids->data, align.top_k, (const uint32_t *)(void *)r.weights->data, align.top_k);
        }
    }
    end(&c);
}

/* ---- libFuzzer ------------------------------------------------------------------------------------------------------------------ */

const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=512";
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    fuzz_check(clmoe_context_create_native(&(clmoe_context_options){.num_threads = 1}, &alone) == CLMOE_SUCCESS, "no context");
    fuzz_check(clmoe_context_create_native(&(clmoe_context_options){.num_threads = 3}, &threaded) == CLMOE_SUCCESS, "no context");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    fuzz_input in = {data, data + bytes};
    const uint32_t first = fuzz_u8(&in);
    clmoe_context *context = first / 8 == 31 ? threaded : alone;
    switch (first % 8) {
    case 0: fuzz_align(&in, context); break;
    case 1: fuzz_histogram(&in, context); break;
    case 2: fuzz_scan(&in, context); break;
    case 3: fuzz_sort(&in, context); break;
    case 4: fuzz_scatter(&in, context, false); break;
    case 5: fuzz_scatter(&in, context, true); break;
    case 6: fuzz_route(&in, context); break;
    default: fuzz_route_align(&in, context); break;
    }
    return 0;
}
