/* test_fault.c - every call of OpenCL, every allocation and every call on a file that the library makes fails once, in a round that creates
 * a context, a plan and buffers, writes, enqueues, reads and destroys. The error must come back as it was, with the text that names the
 * call; what may be survived must be survived with the right result. Then the same step is taken again, on the same context and plan, and
 * the round must end with the right bytes, nothing leaked, and guards and inputs untouched.
 *
 *   test_fault          align
 *   test_fault all      every operator, and more errors for each call
 */
#define _GNU_SOURCE
#include "fault_host.h"
#include "fault_layer.h"
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The operators: one small call of each, in as many launches as it can take -------------------------------------------------- */
enum { TOKENS = 40, TOP_K = 4, EXPERTS = 16, BLOCK = 8, PAIRS = TOKENS * TOP_K, ROWS = 272, ITEMS = 3000, BINS = 100, ROW_BYTES = 12 };
enum role { INPUT, OUTPUT, SCRATCH };
enum { MAX_VIEWS = 20, GUARD_BYTES = 64, MAX_IMAGE_BYTES = 2 * ITEMS * ROW_BYTES + 2 * GUARD_BYTES };

static int32_t ids[PAIRS], indices[ITEMS];
static float logits[TOKENS * EXPERTS], factors[EXPERTS];
static uint32_t items[ITEMS];
static unsigned char rows[ITEMS * ROW_BYTES];

typedef struct operation {
    const char *name;
    clmoe_status (*plan)(clmoe_context *, clmoe_plan **);
    clmoe_status (*enqueue)(clmoe_plan *, cl_command_queue, const void *args, cl_event *);
    const void *args;
    size_t args_bytes;
    bool writes_last; /* a launch that fails leaves every output untouched */
    struct {
        size_t offset, bytes; /* in args; of the view */
        const void *before;
        enum role role;
    } views[MAX_VIEWS];
} operation;

#define FUNCTIONS(op)                                                                                                                      \
    static clmoe_status plan_##op(clmoe_context *context, clmoe_plan **plan) {                                                             \
        return clmoe_##op##_plan_create(context, &desc_##op, plan);                                                                        \
    }                                                                                                                                      \
    static clmoe_status enqueue_##op(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_event *event) {                        \
        return clmoe_##op##_enqueue(plan, queue, args, 0, NULL, event);                                                                    \
    }

#define ROUTER                                                                                                                             \
    { .num_experts = EXPERTS, .top_k = TOP_K, .has_bias = 1, .has_expert_scale = 1 }
static const clmoe_align_desc desc_align = {
    .max_tokens = TOKENS, .top_k = TOP_K, .num_experts = EXPERTS, .block_size = BLOCK, .tuning = {.num_launches = 3}};
static const clmoe_histogram_desc desc_histogram = {
    .max_items = ITEMS, .num_bins = BINS, .sample_type = CLMOE_TYPE_I32, .tuning = {.num_launches = 2}};
static const clmoe_scan_desc desc_scan = {.max_items = ITEMS, .tuning = {.num_launches = 2}};
static const clmoe_sort_desc desc_sort = {
    .max_items = ITEMS, .key_type = CLMOE_TYPE_U32, .value_bytes = 4, .begin_bit = 0, .end_bit = 16, .tuning = {.num_launches = 3}};
static const clmoe_scatter_desc desc_scatter = {
    .max_items = ITEMS, .max_rows = ITEMS, .row_bytes = ROW_BYTES, .index_type = CLMOE_TYPE_I32, .duplicates = CLMOE_DUPLICATES_LAST_WINS};
#define desc_gather desc_scatter
static const clmoe_route_desc desc_route = {.max_tokens = TOKENS, .router = ROUTER};
static const clmoe_route_align_desc desc_route_align = {
    .max_tokens = TOKENS, .router = ROUTER, .block_size = BLOCK, .tuning = {.num_launches = 4}};
FUNCTIONS(align)
FUNCTIONS(histogram)
FUNCTIONS(scan)
FUNCTIONS(sort)
FUNCTIONS(scatter)
FUNCTIONS(gather)
FUNCTIONS(route)
FUNCTIONS(route_align)

static const clmoe_align_args args_align = {.num_tokens = TOKENS};
static const clmoe_histogram_args args_histogram = {.num_items = ITEMS};
static const clmoe_scan_args args_scan = {.num_items = ITEMS};
static const clmoe_sort_args args_sort = {.num_items = ITEMS};
static const clmoe_scatter_args args_scatter = {.num_items = ITEMS, .num_rows = ITEMS};
#define args_gather args_scatter
static const clmoe_route_args args_route = {.num_tokens = TOKENS};
static const clmoe_route_align_args args_route_align = {.route = {.num_tokens = TOKENS}};

#define OPERATION(op, writes)                                                                                                              \
    .name = #op, .plan = plan_##op, .enqueue = enqueue_##op, .args = &args_##op, .args_bytes = sizeof args_##op, .writes_last = writes
#define IN(op, field, array)                                                                                                               \
    { offsetof(clmoe_##op##_args, field), sizeof array, array, INPUT }
#define OUT(op, field, count)                                                                                                              \
    { offsetof(clmoe_##op##_args, field), (count)*4, NULL, OUTPUT }
#define WORKSPACE(op)                                                                                                                      \
    { offsetof(clmoe_##op##_args, workspace), 0, NULL, SCRATCH }
#define ALIGN_OUTPUTS(op, at)                                                                                                              \
    OUT(op, at sorted_token_ids, ROWS), OUT(op, at expert_ids, ROWS / BLOCK), OUT(op, at num_tokens_post_padded, 1),                       \
        OUT(op, at counts, EXPERTS), OUT(op, at offsets, EXPERTS + 1), OUT(op, at padded_offsets, EXPERTS + 1),                            \
        OUT(op, at inverse, PAIRS), OUT(op, at rows_valid, ROWS / BLOCK), OUT(op, at sorted_weights, ROWS), OUT(op, at status, 4)
static const operation operations[] = {
    {OPERATION(align, true),
     .views = {IN(align, topk_ids, ids), IN(align, topk_weights, logits), ALIGN_OUTPUTS(align, ), WORKSPACE(align)}},
    {OPERATION(histogram, false),
     .views = {IN(histogram, samples, indices), OUT(histogram, counts, BINS), OUT(histogram, ignored, 1), WORKSPACE(histogram)}},
    {OPERATION(scan, false), .views = {IN(scan, input, items), OUT(scan, output, ITEMS), WORKSPACE(scan)}},
    {OPERATION(sort, false), .views = {IN(sort, keys, items), IN(sort, values, indices), OUT(sort, keys_out, ITEMS),
                                       OUT(sort, values_out, ITEMS), WORKSPACE(sort)}},
    {OPERATION(scatter, false), .views = {IN(scatter, source, rows), IN(scatter, index, indices),
                                          OUT(scatter, destination, ITEMS *ROW_BYTES / 4), OUT(scatter, skipped, 1), WORKSPACE(scatter)}},
    {OPERATION(gather, false), .views = {IN(scatter, source, rows), IN(scatter, index, indices),
                                         OUT(scatter, destination, ITEMS *ROW_BYTES / 4), OUT(scatter, skipped, 1), WORKSPACE(scatter)}},
    {OPERATION(route, true), .views = {IN(route, logits, logits), IN(route, bias, factors), IN(route, expert_scale, factors),
                                       OUT(route, topk_ids, PAIRS), OUT(route, topk_weights, PAIRS), WORKSPACE(route)}},
    {OPERATION(route_align, false),
     .views = {IN(route_align, route.logits, logits), IN(route_align, route.bias, factors), IN(route_align, route.expert_scale, factors),
               OUT(route_align, route.topk_ids, PAIRS), OUT(route_align, route.topk_weights, PAIRS), ALIGN_OUTPUTS(route_align, align.),
               WORKSPACE(route_align)}},
};
enum { NUM_OPERATIONS = sizeof operations / sizeof *operations };

/* ---- The cache directory -------------------------------------------------------------------------------------------------------- */
static char cache_root[] = "/tmp/clmoe-test-fault-XXXXXX", cache_dir[64];

/* Entries, and whatever else there is. */
static unsigned count_files(bool are_entries) {
    unsigned count = 0;
    DIR *const listing = opendir(cache_dir);
    for (const struct dirent *item; listing != NULL && (item = readdir(listing)) != NULL;) {
        const char *const end = strstr(item->d_name, ".clmoe");
        if (item->d_name[0] != '.' && (end != NULL && end[6] == '\0') == are_entries)
            ++count;
    }
    if (listing != NULL)
        closedir(listing);
    return count;
}

static void empty_cache(void) {
    DIR *const listing = opendir(cache_dir);
    for (const struct dirent *item; listing != NULL && (item = readdir(listing)) != NULL;) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", cache_dir, item->d_name);
        if (item->d_name[0] != '.')
            assert_int_equal(unlink(path), 0);
    }
    if (listing != NULL)
        closedir(listing);
}

/* ---- One round ------------------------------------------------------------------------------------------------------------------ */
enum owner { OWN_CONTEXT, CALLERS_CONTEXT };
enum cache { NO_CACHE, COLD_CACHE, WARM_CACHE };
static const char *const cache_names[] = {"no cache", "cold cache", "warm cache"};

typedef struct setting {
    const operation *op;
    enum owner owner;
    enum cache cache;
} setting;

typedef struct outcome {
    clmoe_status status; /* of the step that failed; CLMOE_SUCCESS: none did */
    char step[32], text[600];
    clmoe_program_origin origin;
    char note[192];
} outcome;

static bool is_native, runs_all;
static char what[200]; /* the round, in words */
static unsigned num_rounds;
static struct { /* what a caller of clmoe_context_create_opencl() brings */
    cl_context context;
    cl_device_id device;
    cl_command_queue queue; /* out of order: launches are chained by events */
} callers;

static unsigned char images[MAX_VIEWS][MAX_IMAGE_BYTES], found[MAX_IMAGE_BYTES];
static unsigned char expected[NUM_OPERATIONS][MAX_VIEWS][MAX_IMAGE_BYTES]; /* by the native device */

static void watch(bool is_watching) {
    fault_layer_watch(is_watching);
    fault_host_watch(is_watching);
}

/* A step that fails is kept in the outcome, and taken once more: nothing is in the way any more. */
#define STEP(name, call, text_now, after_failure)                                                                                          \
    do {                                                                                                                                   \
        watch(true);                                                                                                                       \
        clmoe_status step_status = (call);                                                                                                 \
        watch(false);                                                                                                                      \
        if (step_status != CLMOE_SUCCESS) {                                                                                                \
            if (result.status != CLMOE_SUCCESS)                                                                                            \
                fail_msg("%s: %s failed after %s had", what, name, result.step);                                                           \
            result.status = step_status;                                                                                                   \
            snprintf(result.step, sizeof result.step, "%s", name);                                                                         \
            text_now;                                                                                                                      \
            after_failure;                                                                                                                 \
            watch(true);                                                                                                                   \
            step_status = (call);                                                                                                          \
            watch(false);                                                                                                                  \
            if (step_status != CLMOE_SUCCESS)                                                                                              \
                fail_msg("%s: %s, taken again, fails with %s", what, name, clmoe_status_name(step_status));                                \
        }                                                                                                                                  \
    } while (0)
#define CONTEXT_TEXT clmoe_context_error(context, result.text, sizeof result.text)

static clmoe_status make_context(const setting *s, char *text, size_t text_bytes, clmoe_context **context) {
    clmoe_context_options options = {.num_threads = 2, .error_text = text, .error_text_bytes = text_bytes};
    if (!is_native)
        options.kernel_class = fixture_pair_has("parallel") ? CLMOE_CLASS_PARALLEL : CLMOE_CLASS_SERIAL;
    options.cache_dir = s->cache == NO_CACHE ? NULL : cache_dir;
    if (s->owner == CALLERS_CONTEXT)
        return clmoe_context_create_opencl(callers.context, callers.device, &options, context);
    return clmoe_context_create(is_native ? "native" : fixture_pair_has("rusticl") ? "rusticl" : "Portable", &options, context);
}

static clmoe_status transfer(const setting *s, clmoe_context *context, clmoe_buffer buffer, bool is_write, unsigned char *image) {
    if (s->owner == OWN_CONTEXT)
        return is_write ? clmoe_buffer_write(context, buffer, image, buffer.size_bytes)
                        : clmoe_buffer_read(context, buffer, image, buffer.size_bytes);
    watch(false); /* the caller's own calls */
    return is_write ? clEnqueueWriteBuffer(callers.queue, buffer.mem, CL_TRUE, 0, buffer.size_bytes, image, 0, NULL, NULL)
                    : clEnqueueReadBuffer(callers.queue, buffer.mem, CL_TRUE, 0, buffer.size_bytes, image, 0, NULL, NULL);
}

/* The bytes of a view with its guards are those of `should`; of an output or a workspace perhaps only the guards. */
static void check_image(const operation *op, unsigned v, size_t view_bytes, const unsigned char *should, bool guards_alone) {
    for (size_t i = 0; i < view_bytes + 2 * GUARD_BYTES; ++i)
        if (found[i] != should[i] && !(guards_alone && i >= GUARD_BYTES && i < GUARD_BYTES + view_bytes))
            fail_msg("%s: %s: view %u: byte %td of %zu is %02x, should be %02x", what, op->name, v, (ptrdiff_t)i - GUARD_BYTES, view_bytes,
                     found[i], should[i]);
}

/* After an enqueue that failed: inputs and guards are untouched; so are the outputs of a call that writes them in its last launch. */
static void check_after_failure(const setting *s, clmoe_context *context, const clmoe_buffer *buffers, unsigned num_views,
                                bool was_launched) {
    const operation *const op = s->op;
    if (!is_native)
        assert_int_equal(clFinish(s->owner == OWN_CONTEXT ? clmoe_context_queue(context) : callers.queue), CL_SUCCESS);
    for (unsigned v = 0; v < num_views; ++v) {
        if (buffers[v].size_bytes == 0)
            continue;
        assert_int_equal(transfer(s, context, buffers[v], false, found), CLMOE_SUCCESS);
        const bool may_differ = was_launched && (op->views[v].role == SCRATCH || (op->views[v].role == OUTPUT && !op->writes_last));
        check_image(op, v, buffers[v].size_bytes - 2 * GUARD_BYTES, images[v], may_differ);
    }
}

static unsigned count_launches(void) {
    unsigned call = 0;
    while (strcmp(fault_layer_name(call), "clEnqueueNDRangeKernel") != 0)
        ++call;
    return fault_layer_count(call);
}

/* keeps: the results become what others are compared with. */
static outcome run_round(const setting *s, bool keeps) {
    const operation *const op = s->op;
    const size_t op_index = (size_t)(op - operations);
    outcome result = {.status = CLMOE_SUCCESS};
    clmoe_context *context = NULL;
    clmoe_plan *plan = NULL;
    clmoe_buffer buffers[MAX_VIEWS] = {{0}};
    union {
        clmoe_align_args align;
        clmoe_route_align_args route_align;
    } args;
    char left_before[200], left_after[200];
    const unsigned references = fault_layer_references(left_before, sizeof left_before), blocks = fault_host_blocks();
    unsigned num_views = 0;
    ++num_rounds;

    char reason[600] = "";
    STEP("context", make_context(s, reason, sizeof reason, &context), snprintf(result.text, sizeof result.text, "%s", reason), (void)0);
    clmoe_device_info info;
    clmoe_context_describe(context, &info);
    assert_int_equal(info.backend, is_native ? CLMOE_BACKEND_NATIVE : CLMOE_BACKEND_OPENCL);
    STEP("plan", op->plan(context, &plan), CONTEXT_TEXT, {
        assert_null(plan);
        if (s->cache == COLD_CACHE && strstr(result.text, "clBuildProgram") != NULL)
            assert_int_equal(count_files(true) + count_files(false), 0); /* a failed build is never stored */
    });
    clmoe_plan_info plan_info;
    assert_int_equal(clmoe_plan_describe(plan, 1, &plan_info), CLMOE_SUCCESS);
    result.origin = plan_info.program_origin;
    memcpy(result.note, plan_info.note, sizeof result.note);

    memcpy(&args, op->args, op->args_bytes);
    for (; num_views < MAX_VIEWS && (op->views[num_views].bytes != 0 || op->views[num_views].role == SCRATCH); ++num_views) {
        const unsigned v = num_views;
        const size_t bytes = op->views[v].role == SCRATCH ? clmoe_plan_workspace_bytes(plan) : op->views[v].bytes;
        const size_t image_bytes = bytes + 2 * GUARD_BYTES;
        assert_true(image_bytes <= MAX_IMAGE_BYTES);
        if (bytes == 0)
            continue;
        memset(images[v], 0xA5, image_bytes);
        if (op->views[v].before != NULL)
            memcpy(images[v] + GUARD_BYTES, op->views[v].before, bytes);
        STEP("buffer", clmoe_buffer_create(context, image_bytes, &buffers[v]), CONTEXT_TEXT, assert_null(buffers[v].mem));
        STEP("write", transfer(s, context, buffers[v], true, images[v]), CONTEXT_TEXT, (void)0);
        clmoe_buffer view = buffers[v];
        view.offset_bytes = GUARD_BYTES;
        view.size_bytes = bytes;
        memcpy((char *)&args + op->views[v].offset, &view, sizeof view);
    }

    const cl_command_queue queue = is_native ? NULL : s->owner == OWN_CONTEXT ? clmoe_context_queue(context) : callers.queue;
    cl_event event = NULL;
    const unsigned launches_before = count_launches();
    STEP("enqueue", op->enqueue(plan, queue, &args, s->owner == OWN_CONTEXT ? NULL : &event), CONTEXT_TEXT, {
        assert_null(event);
        const bool is_launch = strstr(result.text, "clEnqueueNDRangeKernel") != NULL; /* then the last that was counted is none */
        check_after_failure(s, context, buffers, num_views, count_launches() - is_launch > launches_before);
    });
    if (event != NULL) {
        assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    }
    for (unsigned v = 0; v < num_views; ++v) {
        if (buffers[v].size_bytes == 0)
            continue;
        STEP("read", transfer(s, context, buffers[v], false, found), CONTEXT_TEXT, (void)0);
        if (keeps)
            memcpy(expected[op_index][v], found, buffers[v].size_bytes);
        const bool is_scratch = op->views[v].role == SCRATCH;
        check_image(op, v, buffers[v].size_bytes - 2 * GUARD_BYTES, is_scratch ? images[v] : expected[op_index][v], is_scratch);
    }

    watch(true);
    for (unsigned v = 0; v < num_views; ++v)
        clmoe_buffer_destroy(context, buffers[v]);
    if (num_rounds % 2 == 0) {
        clmoe_plan_destroy(plan);
        clmoe_context_destroy(context);
    } else {
        clmoe_context_destroy(context);
        clmoe_plan_destroy(plan);
    }
    watch(false);
    if (fault_layer_references(left_after, sizeof left_after) != references)
        fail_msg("%s: leaked: %s were held before, %s after", what, left_before, left_after);
    if (fault_layer_misuses() != 0)
        fail_msg("%s: an object was released once too often", what);
    if (fault_host_blocks() != blocks)
        fail_msg("%s: %u blocks of memory before, %u after", what, blocks, fault_host_blocks());
    return result;
}

/* ---- Rounds with and without faults ------------------------------------------------------------------------------------------------ */
static unsigned count_descriptors(void) {
    unsigned count = 0;
    DIR *const listing = opendir("/proc/self/fd");
    assert_non_null(listing);
    while (readdir(listing) != NULL)
        ++count;
    closedir(listing);
    return count;
}

static void reset(void) {
    fault_layer_reset();
    fault_host_reset();
}

/* A round in which nothing fails. */
static outcome run_whole_round(const setting *s) {
    snprintf(what, sizeof what, "%s on %s, %s, %s, no fault", s->op->name, fixture_pair(),
             s->owner == OWN_CONTEXT ? "own context" : "caller's context", cache_names[s->cache]);
    reset();
    const outcome result = run_round(s, false);
    if (result.status != CLMOE_SUCCESS)
        fail_msg("%s: %s: %s", what, result.step, result.text);
    return result;
}

/* Makes the cache what the setting says, and the counts those of a round in which nothing fails. */
static void count_round(const setting *s) {
    empty_cache();
    if (s->cache == WARM_CACHE)
        run_whole_round(s);
    const outcome result = run_whole_round(s);
    const clmoe_program_origin origin = is_native                ? CLMOE_PROGRAM_NATIVE
                                        : s->cache == WARM_CACHE ? CLMOE_PROGRAM_CACHED
                                                                 : CLMOE_PROGRAM_BUILT;
    assert_int_equal(result.origin, origin);
}

/* ---- Every call of OpenCL ------------------------------------------------------------------------------------------------------- */
static bool is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(name, ...)                                                                                                               \
    is_one_of(name, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* count: how often the call comes in a round without faults. */
static void judge(const setting *s, const outcome *o, const char *name, unsigned number, unsigned count, cl_int code) {
    const bool is_survived = o->status == CLMOE_SUCCESS;
    const bool is_discovery = IS_ONE_OF(name, "clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo");
    const bool is_load = s->cache == WARM_CACHE && (IS_ONE_OF(name, "clCreateProgramWithBinary", "clBuildProgram") ||
                                                    (strcmp(name, "clCreateKernel") == 0 && number <= count / 2));
    if (strncmp(name, "clRelease", 9) == 0) {
        if (!is_survived)
            fail_msg("%s: %s gave %s", what, o->step, clmoe_status_name(o->status));
    } else if (is_discovery && s->owner == OWN_CONTEXT) { /* the devices are listed twice; one that the second list lacks is not there */
        if (!is_survived && o->status != CLMOE_NO_DEVICE)
            fail_msg("%s: %s gave %s", what, o->step, clmoe_status_name(o->status));
        if (!is_survived && strstr(o->text, "no usable device") == NULL)
            fail_msg("%s: the text is \"%s\"", what, o->text);
        if (is_survived != (number <= count / 2))
            fail_msg("%s: %s", what, is_survived ? "a fact about the device is missing, and it was used" : "a device was lost");
    } else if (strcmp(name, "clGetProgramInfo") == 0) {
        if (!is_survived || strstr(o->note, name) == NULL)
            fail_msg("%s: %s; the note is \"%s\"", what, clmoe_status_name(o->status), o->note);
    } else if (is_load) {
        if (!is_survived || o->origin != CLMOE_PROGRAM_BUILT)
            fail_msg("%s: %s, program origin %d", what, clmoe_status_name(o->status), (int)o->origin);
    } else if (o->status != code || strstr(o->text, name) == NULL) {
        fail_msg("%s: %s gave %s (%d), text \"%s\"", what, o->step, clmoe_status_name(o->status), o->status, o->text);
    }
    if (s->cache == WARM_CACHE && !is_load && o->origin != CLMOE_PROGRAM_CACHED)
        fail_msg("%s: the round before has left no sound entry", what);
    if (s->cache != NO_CACHE && (count_files(false) != 0 || count_files(true) != (strcmp(name, "clGetProgramInfo") != 0)))
        fail_msg("%s: %u entries and %u other files in the cache", what, count_files(true), count_files(false));
}

static void fail_every_call(const setting *s) {
    enum { NUM_CODES = 3 };
    static const cl_int codes[NUM_CODES] = {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, -9999};
    unsigned counts[100];
    assert_true(fault_layer_num_calls() <= 100);
    count_round(s);
    for (unsigned call = 0; call < fault_layer_num_calls(); ++call)
        counts[call] = fault_layer_count(call);
    for (unsigned call = 0; call < fault_layer_num_calls(); ++call)
        for (unsigned number = 1; number <= counts[call]; ++number)
            for (unsigned i = 0; i < (runs_all && s->op == operations ? NUM_CODES : 1); ++i) {
                const cl_int code = codes[(call + number + i) % NUM_CODES];
                const char *const name = fault_layer_name(call);
                if (s->cache == COLD_CACHE)
                    empty_cache();
                snprintf(what, sizeof what, "%s on %s, %s, %s, %s %u of %u gives %d", s->op->name, fixture_pair(),
                         s->owner == OWN_CONTEXT ? "own context" : "caller's context", cache_names[s->cache], name, number, counts[call],
                         code);
                reset();
                assert_true(fault_layer_fail(name, number, code));
                const outcome result = run_round(s, false);
                if (fault_layer_num_failed() != 1)
                    fail_msg("%s: that call did not come", what);
                judge(s, &result, name, number, counts[call], code);
            }
    run_whole_round(s);
    printf("%s, %s: %u rounds so far\n", s->op->name, cache_names[s->cache], num_rounds);
}

static void test_every_call(void **state) {
    (void)state;
    for (unsigned op = 0; op < (runs_all ? NUM_OPERATIONS : 1); ++op)
        for (int owner = OWN_CONTEXT; owner <= CALLERS_CONTEXT; ++owner)
            for (int cache = NO_CACHE; cache <= WARM_CACHE; ++cache) {
                const setting s = {&operations[op], (enum owner)owner, (enum cache)cache};
                if ((runs_all && op == 0) || (cache == NO_CACHE) == (owner == CALLERS_CONTEXT))
                    fail_every_call(&s);
            }
}

/* What smaller groups may do: a parallel plan is built for half the group, and says so; a serial one has no smaller groups. */
static void test_smaller_groups(void **state) {
    (void)state;
    static const char *const calls[] = {"clCreateProgramWithSource", "clBuildProgram", "clCreateKernel", "clGetKernelWorkGroupInfo"};
    static const cl_int codes[] = {CL_BUILD_PROGRAM_FAILURE, CL_OUT_OF_RESOURCES, CL_INVALID_WORK_GROUP_SIZE};
    const setting s = {operations, OWN_CONTEXT, NO_CACHE};
    for (size_t i = 0; i < 4; ++i)
        for (size_t k = 0; k < 3; ++k) {
            snprintf(what, sizeof what, "%s gives %d", calls[i], codes[k]);
            reset();
            assert_true(fault_layer_fail(calls[i], 1, codes[k]));
            const outcome result = run_round(&s, false);
            assert_int_equal(fault_layer_num_failed(), 1);
            if (!fixture_pair_has("parallel")) {
                assert_int_equal(result.status, codes[k]);
                continue;
            }
            char note[100];
            snprintf(note, sizeof note, "groups of 128 work-items instead of 256: %s", clmoe_status_name(codes[k]));
            assert_int_equal(result.status, CLMOE_SUCCESS);
            assert_string_equal(result.note, note);
        }
}

/* A build that fails, and then one of the calls, or one of the allocations, that fetch the compiler's log. */
static void test_build_log(void **state) {
    (void)state;
    const setting s = {operations, OWN_CONTEXT, NO_CACHE};
    if (fixture_pair_has("parallel")) { /* groups of 256, 128, 64 and 32 */
        reset();
        for (unsigned build = 1; build <= 4; ++build)
            assert_true(fault_layer_fail("clBuildProgram", build, CL_BUILD_PROGRAM_FAILURE));
        const outcome result = run_round(&s, false);
        assert_int_equal(fault_layer_num_failed(), 4);
        assert_int_equal(result.status, CL_BUILD_PROGRAM_FAILURE);
        return;
    }
    for (unsigned number = 0; number <= 2; ++number) {
        snprintf(what, sizeof what, "clBuildProgram fails, and so does call %u for its log", number);
        reset();
        assert_true(fault_layer_fail("clBuildProgram", 1, CL_BUILD_PROGRAM_FAILURE));
        assert_true(number == 0 || fault_layer_fail("clGetProgramBuildInfo", number, CL_OUT_OF_HOST_MEMORY));
        const outcome result = run_round(&s, false);
        assert_int_equal(fault_layer_num_failed(), number == 0 ? 1 : 2);
        assert_int_equal(result.status, CL_BUILD_PROGRAM_FAILURE);
        assert_non_null(strstr(result.text, "clBuildProgram: CL_BUILD_PROGRAM_FAILURE"));
    }
    clmoe_context *context = NULL;
    assert_int_equal(make_context(&s, NULL, 0, &context), CLMOE_SUCCESS);
    unsigned number = 0;
    do {
        clmoe_plan *plan = NULL;
        reset();
        assert_true(fault_layer_fail("clBuildProgram", 1, CL_BUILD_PROGRAM_FAILURE));
        fault_host_fail(HOST_MEMORY, ++number, 0, ENOMEM);
        watch(true);
        const clmoe_status status = s.op->plan(context, &plan);
        watch(false);
        assert_null(plan);
        assert_int_equal(status, fault_layer_num_failed() == 1 ? CL_BUILD_PROGRAM_FAILURE : CLMOE_OUT_OF_MEMORY);
    } while (fault_host_num_failed() == 1);
    assert_in_range(number, 5, 30);
    clmoe_context_destroy(context);
    assert_int_equal(fault_host_blocks(), 0);
}

/* Where every device is listed, a driver that fails costs its own devices alone. */
static void test_automatic_choice(void **state) {
    (void)state;
    static const char *const names[] = {"clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; ++i)
        for (unsigned number = 1, num_failed = 1; num_failed != 0; ++number) {
            clmoe_context *context = NULL;
            clmoe_device_info info;
            reset();
            assert_true(fault_layer_fail(names[i], number, CL_OUT_OF_RESOURCES));
            watch(true);
            const clmoe_status status = clmoe_context_create("auto", NULL, &context);
            watch(false);
            if (status != CLMOE_SUCCESS)
                fail_msg("auto, %s %u: %s", names[i], number, clmoe_status_name(status));
            assert_int_equal(clmoe_context_describe(context, &info), CLMOE_SUCCESS);
            assert_int_equal(info.backend, CLMOE_BACKEND_NATIVE);
            clmoe_context_destroy(context);
            assert_int_equal(fault_host_blocks(), 0);
            num_failed = fault_layer_num_failed();
            assert_true(num_failed != 0 || number > 2); /* each is called twice at least */
        }
}

/* ---- Every allocation ----------------------------------------------------------------------------------------------------------- */
static void fail_every_allocation(const setting *s) {
    count_round(s);
    const unsigned count = fault_host_count(HOST_MEMORY);
    assert_true(count > 0);
    for (unsigned number = 1; number <= count; ++number) {
        if (s->cache == COLD_CACHE)
            empty_cache();
        snprintf(what, sizeof what, "%s on %s, %s, %s, allocation %u of %u fails", s->op->name, fixture_pair(),
                 s->owner == OWN_CONTEXT ? "own context" : "caller's context", cache_names[s->cache], number, count);
        reset();
        fault_host_fail(HOST_MEMORY, number, 0, ENOMEM);
        const outcome result = run_round(s, false);
        assert_int_equal(fault_host_num_failed(), 1);
        if (result.status == CLMOE_SUCCESS) { /* the cache's: reading means building, making room can wait, storing is noted */
            const bool is_stored = count_files(true) == 1;
            if (s->cache == NO_CACHE || is_native)
                fail_msg("%s: nobody noticed", what);
            if (!is_stored && strstr(result.note, "out of host memory") == NULL)
                fail_msg("%s: not stored, and the note is \"%s\"", what, result.note);
            if (s->cache == WARM_CACHE && !is_stored)
                fail_msg("%s: the entry is lost", what);
        } else if (result.status != CLMOE_OUT_OF_MEMORY || strstr(result.text, "out of host memory") == NULL) {
            fail_msg("%s: %s gave %s, text \"%s\"", what, result.step, clmoe_status_name(result.status), result.text);
        }
    }
    run_whole_round(s);
}

static void test_every_allocation(void **state) {
    (void)state;
    for (unsigned op = 0; op < (runs_all || is_native ? NUM_OPERATIONS : 1); ++op)
        for (int owner = OWN_CONTEXT; owner <= (is_native ? OWN_CONTEXT : CALLERS_CONTEXT); ++owner)
            for (int cache = NO_CACHE; cache <= WARM_CACHE; ++cache) {
                const setting s = {&operations[op], (enum owner)owner, (enum cache)cache};
                fail_every_allocation(&s);
            }
}

/* ---- Every call on a file ------------------------------------------------------------------------------------------------------- */
/* error 0: a call that is cut short or interrupted, so that nothing may be lost. */
static void fail_file_call(const setting *s, enum fault_host_call call, unsigned first, unsigned last, int error, bool is_harmless) {
    if (s->cache == COLD_CACHE)
        empty_cache();
    snprintf(what, sizeof what, "%s on %s, %s, %s %u to %u give %d (%s)", s->op->name, fixture_pair(), cache_names[s->cache],
             fault_host_names[call], first, last, error, error > 0 ? strerror(error) : "cut short");
    reset();
    fault_host_fail(call, first, last, error);
    const unsigned descriptors = count_descriptors();
    const outcome result = run_round(s, false);
    if (fault_host_num_failed() == 0)
        fail_msg("%s: that call did not come", what);
    if (result.status != CLMOE_SUCCESS)
        fail_msg("%s: %s gave %s: %s", what, result.step, clmoe_status_name(result.status), result.text);
    if (count_descriptors() != descriptors)
        fail_msg("%s: %u files are open, %u were before", what, count_descriptors(), descriptors);
    const unsigned entries = is_native ? 0 : count_files(true);
    if (is_native)
        return;
    if (entries == 0 && strstr(result.note, "cache") == NULL)
        fail_msg("%s: nothing was stored, and the note is \"%s\"", what, result.note);
    if (is_harmless && (entries == 0 || result.note[0] != '\0' || (s->cache == WARM_CACHE && result.origin != CLMOE_PROGRAM_CACHED)))
        fail_msg("%s: %u entries, origin %d, the note is \"%s\"", what, entries, (int)result.origin, result.note);
    if (call != HOST_UNLINKAT && count_files(false) != 0)
        fail_msg("%s: %u temporary files are left", what, count_files(false));
    const clmoe_program_origin next = run_whole_round(s).origin;
    if (next != (entries != 0 ? CLMOE_PROGRAM_CACHED : CLMOE_PROGRAM_BUILT))
        fail_msg("after a round with %u entries the next program's origin is %d", entries, (int)next);
    if (run_whole_round(s).origin != CLMOE_PROGRAM_CACHED)
        fail_msg("the cache does not recover");
}

static void test_every_file_call(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EACCES, EMFILE};
    for (int cache = is_native ? NO_CACHE : COLD_CACHE; cache <= (is_native ? NO_CACHE : WARM_CACHE); ++cache) {
        const setting s = {operations, OWN_CONTEXT, (enum cache)cache};
        unsigned counts[NUM_HOST_CALLS];
        count_round(&s);
        for (int call = 0; call < NUM_HOST_CALLS; ++call)
            counts[call] = fault_host_count((enum fault_host_call)call);
        for (int i = HOST_MEMORY + 1; i < NUM_HOST_CALLS; ++i) {
            const enum fault_host_call call = (enum fault_host_call)i;
            for (unsigned number = 1; number <= counts[call]; ++number) {
                for (unsigned e = 0; e < (runs_all ? sizeof errors / sizeof *errors : 1); ++e)
                    fail_file_call(&s, call, number, number, errors[(e + number) % (sizeof errors / sizeof *errors)], false);
                if (call == HOST_READ || call == HOST_WRITE) {
                    fail_file_call(&s, call, number, number, FAULT_NOTHING, false);
                    fail_file_call(&s, call, number, number, FAULT_HALF, true);
                    fail_file_call(&s, call, number, number, EINTR, true);
                }
                fail_file_call(&s, call, number, 1000, EIO, false); /* and all that follow */
            }
        }
        assert_true(is_native || counts[HOST_OPENAT] > 0); /* the calls are caught at all */
    }
}

/* ---- Again and again ------------------------------------------------------------------------------------------------------------ */
static unsigned long resident_pages(void) {
    unsigned long all = 0, resident = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
    fclose(file);
    return resident;
}

/* 50 times a context, every operator on it, and the end: right results, no more memory than after 10. */
static void test_again_and_again(void **state) {
    (void)state;
    unsigned long after_ten = 0;
    for (unsigned round = 1; round <= 50; ++round) {
        for (unsigned op = 0; op < NUM_OPERATIONS; ++op) {
            const setting s = {&operations[op], !is_native && round % 2 == 0 ? CALLERS_CONTEXT : OWN_CONTEXT, WARM_CACHE};
            run_whole_round(&s);
        }
        if (round == 10)
            after_ten = resident_pages();
    }
    const unsigned long after_all = resident_pages();
    if (after_all > after_ten + after_ten / 10 + 1024) /* 4 MiB: an arena of malloc */
        fail_msg("%lu pages of memory after 10 rounds, %lu after 50", after_ten, after_all);
}

/* ---- Start and end -------------------------------------------------------------------------------------------------------------- */
static void fill_inputs(void) {
    for (uint32_t i = 0; i < PAIRS; ++i)
        ids[i] = (int32_t)(mix(i) % (EXPERTS + 1)) - (i % 7 == 0); /* some are invalid */
    for (uint32_t i = 0; i < TOKENS * EXPERTS; ++i)
        logits[i] = (float)(mix(i + 1000) % 2000) / 256 - 4;
    for (uint32_t i = 0; i < EXPERTS; ++i)
        factors[i] = (float)(mix(i + 5000) % 100) / 400;
    for (uint32_t i = 0; i < ITEMS; ++i) {
        items[i] = mix(i + 7000);
        indices[i] = (int32_t)(mix(i + 9000) % (ITEMS + 20)) - 10;
    }
    for (uint32_t i = 0; i < ITEMS * ROW_BYTES; ++i)
        rows[i] = (unsigned char)mix(i + 20000);
}

static int set_up(void **state) {
    (void)state;
    uint32_t rows_needed = 0;
    watch(false);
    fill_inputs();
    assert_int_equal(clmoe_align_max_rows(&desc_align, TOKENS, &rows_needed), CLMOE_SUCCESS);
    assert_int_equal(rows_needed, ROWS);
    if (mkdtemp(cache_root) == NULL)
        return -1;
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", cache_root);

    const bool was_native = is_native;
    is_native = true;
    for (unsigned op = 0; op < NUM_OPERATIONS; ++op) {
        const setting s = {&operations[op], OWN_CONTEXT, NO_CACHE};
        snprintf(what, sizeof what, "%s on the native device", s.op->name);
        reset();
        assert_int_equal(run_round(&s, true).status, CLMOE_SUCCESS);
    }
    is_native = was_native;
    if (is_native)
        return 0;

    const setting own = {operations, OWN_CONTEXT, NO_CACHE};
    clmoe_context *context = NULL;
    char text[300];
    clmoe_device_info info;
    cl_int status;
    reset();
    watch(true);
    assert_int_equal(make_context(&own, text, sizeof text, &context), CLMOE_SUCCESS);
    watch(false);
    unsigned num_calls = 0;
    for (unsigned call = 0; call < fault_layer_num_calls(); ++call)
        num_calls += fault_layer_count(call);
    if (num_calls == 0)
        fail_msg("the loader has not taken in the fault layer: is OPENCL_LAYERS set?");
    clmoe_context_describe(context, &info);
    clmoe_context_destroy(context);
    callers.device = info.device;
    callers.context = clCreateContext(NULL, 1, &callers.device, NULL, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    callers.queue = clCreateCommandQueue(callers.context, callers.device,
                                         fixture_pair_has("rusticl") ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
    assert_int_equal(status, CL_SUCCESS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char left[200];
    if (!is_native) {
        clReleaseCommandQueue(callers.queue);
        clReleaseContext(callers.context);
        assert_int_equal(fault_layer_references(left, sizeof left), 0);
    }
    empty_cache();
    rmdir(cache_dir);
    rmdir(cache_root);
    printf("%u rounds\n", num_rounds);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call),       cmocka_unit_test(test_smaller_groups),   cmocka_unit_test(test_build_log),
        cmocka_unit_test(test_automatic_choice), cmocka_unit_test(test_every_allocation), cmocka_unit_test(test_every_file_call),
        cmocka_unit_test(test_again_and_again),
    };
    const struct CMUnitTest native_tests[] = {
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_every_file_call),
        cmocka_unit_test(test_again_and_again),
    };
    if (getenv("CLMOE_TEST_FILTER") != NULL)
        cmocka_set_test_filter(getenv("CLMOE_TEST_FILTER"));
    runs_all = argc > 1 && strcmp(argv[1], "all") == 0;
    is_native = fixture_pair_has("native");
    return is_native ? cmocka_run_group_tests_name("fault", native_tests, set_up, tear_down)
                     : cmocka_run_group_tests_name("fault", tests, set_up, tear_down);
}
