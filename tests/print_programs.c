/* Writes every program of the parallel class, text as the library hands it to a driver, for compilers that need no device.
 *
 * Usage: print_programs <directory> <group size>. Nothing is listed by hand: plans of every operator, with every value that a descriptor
 * takes, are made and called on a device that only takes notes. It has the least local memory that OpenCL allows and groups of up to that
 * size; from there on tuning chooses.
 *
 *     <program>.cl   <operator>.<variant>[.<switch>...].w<group size>
 *     kernels.csv    program, kernel, the most local memory in bytes that a call passes to it
 *     options        what the library builds them with
 */
#include "clmoe/clmoe.h"
#include "context.h"
#include "opencl/program.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL_BYTES = 32768, COMPUTE_UNITS = 64, MAX_PROGRAMS = 512, MAX_VALUES = 32, WIDE_EXPERTS = 20000 };

static void fail(const char *what, const char *text) {
    fprintf(stderr, "print_programs: %s: %s\n", what, text);
    exit(1);
}

/* ---- A device that takes notes ---- */

struct note {
    const struct clmoe_kernel_set *set;
    uint32_t group_size;
    char name[128];
    bool is_launched[CLMOE_MAX_KERNELS];
    size_t local_bytes[CLMOE_MAX_KERNELS];
};
static struct note notes[MAX_PROGRAMS];
static size_t num_notes;
static const char *directory;
static char *source_text, options_text[256];

struct clmoe_kernels {
    struct clmoe_program *program;
    struct note *note;
};

static FILE *open_file(const char *name, const char *ending) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", directory, name, ending);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        fail("cannot write", path);
    return file;
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts, const size_t *lengths, cl_int *error) {
    (void)context, (void)lengths;
    if (count != 1)
        fail("a program", "in several texts");
    free(source_text);
    source_text = malloc(strlen(texts[0]) + 1);
    if (source_text == NULL)
        fail("memory", "none");
    strcpy(source_text, texts[0]);
    *error = CL_SUCCESS;
    return (cl_program)(void *)&notes;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint num_devices, const cl_device_id *devices, const char *options,
                                        void(CL_CALLBACK *notify)(cl_program, void *), void *data) {
    (void)program, (void)num_devices, (void)devices, (void)notify, (void)data;
    if (options_text[0] != '\0' && strcmp(options_text, options) != 0)
        fail("programs are built with different options", options);
    snprintf(options_text, sizeof options_text, "%s", options);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_program(cl_program program) {
    (void)program;
    return CL_SUCCESS;
}

/* Operator, variant, and what is defined without a value. */
static void name_program(char name[128], const struct clmoe_kernel_set *set, uint32_t group_size) {
    int at = snprintf(name, 128, "%s.%s", set->op, set->variant);
    for (const char *line = set->defines; *line != '\0'; line = strchr(line, '\n') + 1) {
        char symbol[64];
        int length = 0;
        if (sscanf(line, "#define %63[A-Za-z0-9_]%n", symbol, &length) == 1 && line[length] == '\n') {
            for (char *letter = symbol; *letter != '\0'; ++letter)
                *letter = (char)tolower((unsigned char)*letter);
            at += snprintf(name + at, 128 - (size_t)at, ".%s", symbol);
        }
    }
    snprintf(name + at, 128 - (size_t)at, ".w%" PRIu32, group_size);
}

static clmoe_status prepare(clmoe_context *context, const struct clmoe_kernel_set *set, uint32_t group_size, struct clmoe_kernels **kernels,
                            struct clmoe_prepare_result *result) {
    struct clmoe_kernels *made = calloc(1, sizeof *made);
    if (made == NULL || clmoe_program_acquire(context, set, group_size, &made->program, result) != CLMOE_SUCCESS)
        fail("no program", set->op);
    result->max_group_size = group_size;
    *kernels = made;
    for (size_t i = 0; i < num_notes; ++i)
        if (notes[i].set == set && notes[i].group_size == group_size) {
            made->note = &notes[i];
            return CLMOE_SUCCESS;
        }
    if (num_notes == MAX_PROGRAMS)
        fail("too many programs", set->op);
    made->note = &notes[num_notes];
    made->note->set = set;
    made->note->group_size = group_size;
    name_program(made->note->name, set, group_size);
    for (size_t i = 0; i < num_notes; ++i)
        if (strcmp(notes[i].name, made->note->name) == 0)
            fail("two programs are called", made->note->name);
    ++num_notes;
    FILE *file = open_file(made->note->name, ".cl");
    fputs(source_text, file);
    if (fclose(file) != 0)
        fail("cannot write", made->note->name);
    return CLMOE_SUCCESS;
}

static void release(clmoe_context *context, struct clmoe_kernels *kernels) {
    clmoe_program_release(context, kernels->program);
    free(kernels);
}

static clmoe_status check_tail(clmoe_context *context, const char *function, const struct clmoe_queue_tail *tail) {
    (void)context, (void)function, (void)tail;
    return CLMOE_SUCCESS;
}

static clmoe_status check_buffer(clmoe_context *context, const char *name, const clmoe_buffer *buffer, bool is_output) {
    (void)context, (void)name, (void)buffer, (void)is_output;
    return CLMOE_SUCCESS;
}

static clmoe_status enqueue(clmoe_context *context, struct clmoe_kernels *kernels, const struct clmoe_stage *stages, unsigned num_stages,
                            const struct clmoe_queue_tail *tail) {
    (void)context, (void)tail;
    for (unsigned s = 0; s < num_stages; ++s) {
        size_t bytes = 0;
        for (unsigned i = 0; i < stages[s].num_arguments; ++i)
            if (stages[s].arguments[i].kind == CLMOE_ARGUMENT_LOCAL)
                bytes += stages[s].arguments[i].bytes;
        struct note *note = kernels->note;
        note->is_launched[stages[s].kernel] = true;
        if (bytes > note->local_bytes[stages[s].kernel])
            note->local_bytes[stages[s].kernel] = bytes;
        if (stages[s].group_size != note->group_size)
            fail("launched in groups of another size", note->name);
    }
    return CLMOE_SUCCESS;
}

static void close_device(clmoe_context *context) {
    (void)context;
}

static const struct clmoe_backend backend = {.prepare = prepare,
                                             .release = release,
                                             .check_tail = check_tail,
                                             .check_buffer = check_buffer,
                                             .enqueue = enqueue,
                                             .close = close_device};

/* ---- Calls ---- */

static clmoe_context *context;

/* Memory of its own for each view; nobody looks into it. */
static clmoe_buffer view_of(size_t bytes) {
    static uintptr_t address;
    return clmoe_buffer_of_mem((cl_mem)(++address * 64), 0, bytes);
}

static void check(clmoe_status status, const char *what) {
    char text[512] = "";
    clmoe_context_error(context, text, sizeof text);
    if (status != CLMOE_SUCCESS)
        fail(what, text);
}

/* false: the descriptor holds a value that there is not. */
static bool is_plan(clmoe_status status, const char *what) {
    if (status != CLMOE_INVALID_ARGUMENT)
        check(status, what);
    return status == CLMOE_SUCCESS;
}

enum { TOKENS = 64, BLOCK = 64 };

static clmoe_align_args align_outputs(const clmoe_align_desc *desc) {
    uint32_t rows = 0;
    check(clmoe_align_max_rows(desc, TOKENS, &rows), "clmoe_align_max_rows");
    return (clmoe_align_args){.sorted_token_ids = view_of(4 * (size_t)rows),
                              .expert_ids = view_of(4 * (size_t)(rows / BLOCK)),
                              .num_tokens_post_padded = view_of(4)};
}

static void call_align(clmoe_id_type type, uint32_t experts, uint32_t top_k, uint32_t launches) {
    const clmoe_align_desc desc = {.max_tokens = TOKENS,
                                   .top_k = top_k,
                                   .num_experts = experts,
                                   .block_size = BLOCK,
                                   .id_type = type,
                                   .foreign = CLMOE_FOREIGN_BUCKET, /* a bucket more */
                                   .tuning = {.num_launches = launches}};
    clmoe_plan *plan;
    if (!is_plan(clmoe_align_plan_create(context, &desc, &plan), "clmoe_align_plan_create"))
        return;
    clmoe_align_args args = align_outputs(&desc);
    args.num_tokens = TOKENS;
    args.topk_ids = view_of(8 * TOKENS * (size_t)top_k);
    args.workspace = view_of(clmoe_plan_workspace_bytes(plan));
    check(clmoe_align_enqueue(plan, NULL, &args, 0, NULL, NULL), "clmoe_align_enqueue");
    clmoe_plan_destroy(plan);
}

static clmoe_route_args route_args(const clmoe_router *router) {
    const size_t experts = router->num_experts, pairs = TOKENS * (size_t)router->top_k;
    clmoe_route_args args = {
        .num_tokens = TOKENS, .logits = view_of(4 * TOKENS * experts), .topk_ids = view_of(4 * pairs), .topk_weights = view_of(4 * pairs)};
    if (router->has_bias)
        args.bias = view_of(4 * experts);
    if (router->has_expert_scale)
        args.expert_scale = view_of(4 * experts);
    return args;
}

static void call_route(clmoe_logit_type type, const clmoe_router *router) {
    const clmoe_route_desc desc = {.max_tokens = TOKENS, .logit_type = type, .router = *router};
    clmoe_plan *plan;
    if (!is_plan(clmoe_route_plan_create(context, &desc, &plan), "clmoe_route_plan_create"))
        return;
    clmoe_route_args args = route_args(router);
    args.workspace = view_of(clmoe_plan_workspace_bytes(plan));
    check(clmoe_route_enqueue(plan, NULL, &args, 0, NULL, NULL), "clmoe_route_enqueue");
    clmoe_plan_destroy(plan);
}

static void call_route_align(clmoe_logit_type type, const clmoe_router *router, uint32_t launches) {
    const clmoe_route_align_desc desc = {.max_tokens = TOKENS,
                                         .logit_type = type,
                                         .router = *router,
                                         .block_size = BLOCK,
                                         .foreign = CLMOE_FOREIGN_BUCKET,
                                         .tuning = {.num_launches = launches}};
    const clmoe_align_desc align = {.max_tokens = TOKENS,
                                    .top_k = router->top_k,
                                    .num_experts = router->num_experts,
                                    .block_size = BLOCK,
                                    .foreign = CLMOE_FOREIGN_BUCKET};
    clmoe_plan *plan;
    if (!is_plan(clmoe_route_align_plan_create(context, &desc, &plan), "clmoe_route_align_plan_create"))
        return;
    const clmoe_route_align_args args = {
        .route = route_args(router), .align = align_outputs(&align), .workspace = view_of(clmoe_plan_workspace_bytes(plan))};
    check(clmoe_route_align_enqueue(plan, NULL, &args, 0, NULL, NULL), "clmoe_route_align_enqueue");
    clmoe_plan_destroy(plan);
}

static void call_router(const clmoe_router *router) {
    for (uint32_t type = 0; type < MAX_VALUES; ++type) {
        call_route((clmoe_logit_type)type, router);
        for (uint32_t launches = 1; launches <= 4; ++launches)
            call_route_align((clmoe_logit_type)type, router, launches);
    }
}

/* Everything that decides how route is compiled, with few experts and with more than local memory has room for. */
static void call_routers(void) {
    enum { SCORES = 4, GROUP_FILTERS = 3, WEIGHT_SOURCES = 3, RENORMALIZES = 4 };
    for (uint32_t i = 0; i < 2 * 2 * SCORES * GROUP_FILTERS * WEIGHT_SOURCES * RENORMALIZES; ++i) {
        uint32_t rest = i;
        clmoe_router router = {.num_experts = rest % 2 ? WIDE_EXPERTS : 256, .top_k = 8};
        router.has_bias = (rest /= 2) % 2;
        router.score = (clmoe_score)((rest /= 2) % SCORES);
        router.group_filter = (clmoe_group_filter)((rest /= SCORES) % GROUP_FILTERS);
        router.weight_source = (clmoe_weight_source)((rest /= GROUP_FILTERS) % WEIGHT_SOURCES);
        router.renormalize = (clmoe_renormalize)(rest / WEIGHT_SOURCES);
        if (router.group_filter != CLMOE_GROUPS_NONE) {
            router.num_groups = 8;
            router.kept_groups = 4;
        }
        call_router(&router);
    }
}

static void call_histogram(clmoe_type type, uint32_t bins, uint32_t launches) {
    enum { ITEMS = 4096 };
    const clmoe_histogram_desc desc = {
        .max_items = ITEMS, .num_bins = bins, .sample_type = type, .tuning = {.num_launches = launches, .num_groups = 4}};
    clmoe_plan *plan;
    if (!is_plan(clmoe_histogram_plan_create(context, &desc, &plan), "clmoe_histogram_plan_create"))
        return;
    const clmoe_histogram_args args = {.num_items = ITEMS,
                                       .samples = view_of(8 * ITEMS),
                                       .counts = view_of(4 * (size_t)bins),
                                       .workspace = view_of(clmoe_plan_workspace_bytes(plan))};
    check(clmoe_histogram_enqueue(plan, NULL, &args, 0, NULL, NULL), "clmoe_histogram_enqueue");
    clmoe_plan_destroy(plan);
}

static void call_scan(clmoe_type type, uint32_t launches) {
    enum { ITEMS = 4096 };
    const clmoe_scan_desc desc = {.max_items = ITEMS, .type = type, .tuning = {.num_launches = launches, .num_groups = 4}};
    clmoe_plan *plan;
    if (!is_plan(clmoe_scan_plan_create(context, &desc, &plan), "clmoe_scan_plan_create"))
        return;
    const size_t bytes = (type == CLMOE_TYPE_U64 ? 8 : 4) * ITEMS;
    const clmoe_scan_args args = {
        .num_items = ITEMS, .input = view_of(bytes), .output = view_of(bytes), .workspace = view_of(clmoe_plan_workspace_bytes(plan))};
    check(clmoe_scan_enqueue(plan, NULL, &args, 0, NULL, NULL), "clmoe_scan_enqueue");
    clmoe_plan_destroy(plan);
}

static void call_sort(clmoe_type type, uint32_t value_bytes, uint32_t launches) {
    enum { ITEMS = 4096 };
    const clmoe_sort_desc desc = {
        .max_items = ITEMS, .key_type = type, .value_bytes = value_bytes, .tuning = {.num_launches = launches, .num_groups = 4}};
    clmoe_plan *plan;
    if (!is_plan(clmoe_sort_plan_create(context, &desc, &plan), "clmoe_sort_plan_create"))
        return;
    const size_t key_bytes = (type == CLMOE_TYPE_U64 ? 8 : 4) * ITEMS;
    clmoe_sort_args args = {.num_items = ITEMS,
                            .keys = view_of(key_bytes),
                            .keys_out = view_of(key_bytes),
                            .workspace = view_of(clmoe_plan_workspace_bytes(plan))};
    if (value_bytes != 0) {
        args.values = view_of((size_t)value_bytes * ITEMS);
        args.values_out = view_of((size_t)value_bytes * ITEMS);
    }
    check(clmoe_sort_enqueue(plan, NULL, &args, 0, NULL, NULL), "clmoe_sort_enqueue");
    clmoe_plan_destroy(plan);
}

static void call_scatter(clmoe_type type, clmoe_duplicates duplicates, bool is_gather) {
    enum { ITEMS = 4096, ROW_BYTES = 8 };
    const clmoe_scatter_desc desc = {.max_items = ITEMS,
                                     .max_rows = ITEMS,
                                     .row_bytes = ROW_BYTES,
                                     .index_type = type,
                                     .duplicates = duplicates,
                                     .tuning = {.num_groups = 4}};
    clmoe_plan *plan;
    if (!is_plan((is_gather ? clmoe_gather_plan_create : clmoe_scatter_plan_create)(context, &desc, &plan), "clmoe_scatter_plan_create"))
        return;
    const clmoe_scatter_args args = {.num_items = ITEMS,
                                     .num_rows = ITEMS,
                                     .source = view_of(ROW_BYTES * ITEMS),
                                     .index = view_of(8 * ITEMS),
                                     .destination = view_of(ROW_BYTES * ITEMS),
                                     .skipped = view_of(4),
                                     .workspace = view_of(clmoe_plan_workspace_bytes(plan))};
    check((is_gather ? clmoe_gather_enqueue : clmoe_scatter_enqueue)(plan, NULL, &args, 0, NULL, NULL), "clmoe_scatter_enqueue");
    clmoe_plan_destroy(plan);
}

static void call_everything(void) {
    size_t num_models;
    const clmoe_model *models = clmoe_models(&num_models);
    for (uint32_t launches = 1; launches <= 3; ++launches)
        for (uint32_t type = 0; type < MAX_VALUES; ++type) {
            call_align((clmoe_id_type)type, WIDE_EXPERTS, 8, launches);
            for (size_t i = 0; i < num_models; ++i)
                call_align((clmoe_id_type)type, models[i].router.num_experts, models[i].router.top_k, launches);
            for (uint32_t bins = 1; bins <= 1 << 16; bins *= 16)
                call_histogram((clmoe_type)type, bins, launches);
            call_scan((clmoe_type)type, launches);
            for (uint32_t value_bytes = 0; value_bytes < MAX_VALUES; ++value_bytes)
                call_sort((clmoe_type)type, value_bytes, launches);
            for (uint32_t duplicates = 0; duplicates < 2; ++duplicates)
                call_scatter((clmoe_type)type, (clmoe_duplicates)duplicates, false);
            call_scatter((clmoe_type)type, CLMOE_DUPLICATES_UNIQUE, true);
        }
    call_routers();
    for (size_t i = 0; i < num_models; ++i)
        call_router(&models[i].router);
}

int main(int argc, char **argv) {
    if (argc != 3)
        fail("usage", "print_programs <directory> <group size>");
    directory = argv[1];
    static struct clmoe_opencl_device device = {
        .cl = {.clCreateProgramWithSource = create_program, .clBuildProgram = build_program, .clReleaseProgram = release_program}};
    const clmoe_context_options options = {.kernel_class = CLMOE_CLASS_PARALLEL};
    context = clmoe_context_new(&backend, &options);
    if (context == NULL || pthread_mutex_init(&device.programs_mutex, NULL) != 0)
        fail("memory", "none");
    context->device = &device;
    context->info.kernel_class = CLMOE_CLASS_PARALLEL;
    context->info.backend = CLMOE_BACKEND_OPENCL;
    context->limits = (struct clmoe_limits){
        .compute_units = COMPUTE_UNITS, .max_group_size = (uint32_t)strtoul(argv[2], NULL, 10), .local_bytes = LOCAL_BYTES};
    call_everything();

    FILE *file = open_file("kernels", ".csv");
    for (size_t i = 0; i < num_notes; ++i)
        for (unsigned k = 0; k < CLMOE_MAX_KERNELS && notes[i].set->kernel_names[k] != NULL; ++k) {
            if (!notes[i].is_launched[k])
                fail("no call launches a kernel of this program", notes[i].name);
            fprintf(file, "%s,%s,%zu\n", notes[i].name, notes[i].set->kernel_names[k], notes[i].local_bytes[k]);
        }
    const bool is_written = fclose(file) == 0;
    file = open_file("options", "");
    fprintf(file, "%s\n", options_text);
    if (fclose(file) != 0 || !is_written)
        fail("cannot write", "kernels.csv, options");
    clmoe_context_destroy(context);
    free(source_text);
    return 0;
}
