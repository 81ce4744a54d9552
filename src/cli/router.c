#include "router.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const score_words[] = {"softmax", "sigmoid", "sqrt-softplus", "identity"};
static const char *const weight_words[] = {"score", "softmax-chosen", "sigmoid-chosen"};
static const char *const dtype_words[] = {"f32", "f16", "bf16"};

enum { TEXT_BYTES = 48 };

/* ---- Command line --------------------------------------------------------------------------------------------------------------- */

void router_options(router_job *job, option_spec specs[ROUTER_NUM_OPTIONS]) {
    const option_spec list[ROUTER_NUM_OPTIONS] = {
        {"--model", OPTION_TEXT, (void *)&job->model_name, "NAME",
         "router of a published model; what else is given replaces its part; list = shows all", 0, 0, NULL},
        {"--top-k", OPTION_UINT32, &job->top_k, "K", "experts for each token; needed without --model", 1, INT32_MAX, &job->has_top_k},
        {"--score", OPTION_CHOICE, &job->score, "softmax|sigmoid|sqrt-softplus|identity", "what is made of a logit [softmax]", 0, 0,
         &job->has_score},
        {"--softcap", OPTION_FLOAT, &job->softcap, "X", "logits become X tanh(logit / X) first; 0 = no cap [0]", 0, 0, &job->has_softcap},
        {"--bias", OPTION_TEXT, (void *)&job->bias_path, "B.npy", "float32 [E], added to the scores for the choice alone", 0, 0, NULL},
        {"--groups", OPTION_TEXT, (void *)&job->groups, "N:KEEP:max|top2",
         "N groups of experts, of which KEEP stay: those with the best expert, or the best sum of two [none]", 0, 0, NULL},
        {"--weights", OPTION_CHOICE, &job->weight_source, "score|softmax-chosen|sigmoid-chosen", "what weights are made of [score]", 0, 0,
         &job->has_weight_source},
        {"--renormalize", OPTION_TEXT, (void *)&job->renormalize, "none|sum|sum+EPS|max(EPS)",
         "weights are divided by their sum, sum + EPS, or the larger of sum and EPS [none]", 0, 0, NULL},
        {"--scale", OPTION_FLOAT, &job->scale, "X", "weights are multiplied by X [1]", 0, 0, &job->has_scale},
        {"--expert-scale", OPTION_TEXT, (void *)&job->expert_scale_path, "S.npy", "float32 [E], by which weights are multiplied at the end",
         0, 0, NULL},
        {"--dtype", OPTION_CHOICE, &job->dtype, "f32|f16|bf16", "type of the logits; bf16: uint16 with these bits [the type of LOGITS.npy]",
         0, 0, &job->has_dtype},
    };
    memcpy(specs, list, sizeof list);
}

/* ---- Models --------------------------------------------------------------------------------------------------------------------- */

/* What the options would be. */
static void describe_groups(const clmoe_router *router, char text[TEXT_BYTES]) {
    if (router->group_filter == CLMOE_GROUPS_NONE) {
        snprintf(text, TEXT_BYTES, "none");
    } else {
        snprintf(text, TEXT_BYTES, "%" PRIu32 ":%" PRIu32 ":%s", router->num_groups, router->kept_groups,
                 router->group_filter == CLMOE_GROUPS_MAX ? "max" : "top2");
    }
}

static void describe_renormalize(const clmoe_router *router, char text[TEXT_BYTES]) {
    static const char *const formats[] = {"none", "sum", "sum+%g", "max(%g)"};
    const char *format = formats[router->renormalize];
    const char *number = strchr(format, '%');
    if (number) {
        snprintf(text, TEXT_BYTES, "%.*s%g%s", (int)(number - format), format, (double)router->epsilon, number + 2);
    } else {
        snprintf(text, TEXT_BYTES, "%s", format);
    }
}

static double scale_of(const clmoe_router *router) {
    return router->scale != 0 ? (double)router->scale : 1;
}

static void json_router(report_json *json, const clmoe_router *router) {
    char groups[TEXT_BYTES], renormalize[TEXT_BYTES];
    describe_groups(router, groups);
    describe_renormalize(router, renormalize);
    json_open(json, "router", '{');
    json_integer(json, "experts", router->num_experts);
    json_integer(json, "top_k", router->top_k);
    json_text(json, "score", score_words[router->score]);
    json_number(json, "softcap", (double)router->softcap);
    json_bool(json, "bias", router->has_bias != 0);
    json_text(json, "groups", groups);
    json_text(json, "weights", weight_words[router->weight_source]);
    json_text(json, "renormalize", renormalize);
    json_number(json, "scale", scale_of(router));
    json_bool(json, "expert_scale", router->has_expert_scale != 0);
    json_close(json, '}');
}

static void print_model(const clmoe_model *model, const report_style *style) {
    const clmoe_router *router = &model->router;
    char groups[TEXT_BYTES], renormalize[TEXT_BYTES];
    describe_groups(router, groups);
    describe_renormalize(router, renormalize);
    printf("%s%-21s%s %4" PRIu32 " %3" PRIu32 "  %-13s %3g  %-8s  %-14s  %-10s  %5g  %-14s  %s%s%s\n", style->bold, model->name,
           style->plain, router->num_experts, router->top_k, score_words[router->score], (double)router->softcap, groups,
           weight_words[router->weight_source], renormalize, scale_of(router),
           router->has_bias           ? "--bias"
           : router->has_expert_scale ? "--expert-scale"
                                      : "-",
           style->faint, model->source, style->plain);
}

bool router_lists_models(const router_job *job) {
    return job->model_name && strcmp(job->model_name, "list") == 0;
}

outcome router_list_models(const router_job *job, bool as_json) {
    const report_style style = report_style_of(stdout);
    report_json json = {stdout, 0, false};
    size_t num_models = 0;
    const clmoe_model *models = clmoe_models(&num_models);
    if (as_json) {
        json_open(&json, NULL, '[');
    } else {
        printf("%s%-21s %4s %3s  %-13s %3s  %-8s  %-14s  %-10s  %5s  %-14s  %s%s\n", style.bold, "MODEL", "E", "K", "SCORE", "CAP",
               "GROUPS", "WEIGHTS", "RENORM", "SCALE", "NEEDS", "NUMBERS FROM", style.plain);
    }
    for (size_t i = 0; i < num_models; i++) {
        if (as_json) {
            json_open(&json, NULL, '{');
            json_text(&json, "name", models[i].name);
            json_router(&json, &models[i].router);
            json_text(&json, "source", models[i].source);
            json_close(&json, '}');
        } else {
            print_model(&models[i], &style);
        }
    }
    if (as_json) {
        json_close(&json, ']');
    }
    return report_finish(job->command);
}

static outcome find_model(router_job *job) {
    enum { MAX_NAMES = 256 };
    const char *names[MAX_NAMES];
    size_t num_models = 0;
    const clmoe_model *models = clmoe_models(&num_models);
    job->model = clmoe_model_find(job->model_name);
    if (job->model) {
        job->router = job->model->router;
        return OUTCOME_DONE;
    }
    for (size_t i = 0; i < num_models && i < MAX_NAMES; i++) {
        names[i] = models[i].name;
    }
    const char *nearest = options_nearest(job->model_name, names, num_models < MAX_NAMES ? num_models : MAX_NAMES);
    return nearest ? report_error(job->command, OUTCOME_BAD_INPUT, "--model %s: unknown; did you mean %s?", job->model_name, nearest)
                   : report_error(job->command, OUTCOME_BAD_INPUT, "--model %s: unknown; 'clmoe %s --model list' lists them",
                                  job->model_name, job->command);
}

/* ---- The router ----------------------------------------------------------------------------------------------------------------- */

/* "8:4:top2" or "none". */
static outcome parse_groups(const router_job *job, clmoe_router *router) {
    const char *first = strchr(job->groups, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    const char *filter = second ? second + 1 : "";
    const clmoe_group_filter by = strcmp(filter, "max") == 0    ? CLMOE_GROUPS_MAX
                                  : strcmp(filter, "top2") == 0 ? CLMOE_GROUPS_TOP2_SUM
                                                                : CLMOE_GROUPS_NONE;
    char number[TEXT_BYTES], label[2 * TEXT_BYTES];
    int64_t all = 0, kept = 0;
    if (strcmp(job->groups, "none") == 0) {
        router->group_filter = CLMOE_GROUPS_NONE;
        router->num_groups = router->kept_groups = 0;
        return OUTCOME_DONE;
    }
    if (by == CLMOE_GROUPS_NONE || strlen(job->groups) >= sizeof number) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--groups %s: must be N:KEEP:max, N:KEEP:top2 or none, such as 8:4:top2",
                            job->groups);
    }
    snprintf(number, sizeof number, "%.*s", (int)(first - job->groups), job->groups);
    snprintf(label, sizeof label, "--groups %s: N", job->groups);
    outcome result = options_number(job->command, label, number, 1, UINT32_MAX, &all);
    if (result == OUTCOME_DONE) {
        snprintf(number, sizeof number, "%.*s", (int)(second - first - 1), first + 1);
        snprintf(label, sizeof label, "--groups %s: KEEP", job->groups);
        result = options_number(job->command, label, number, 1, all, &kept);
    }
    router->group_filter = by;
    router->num_groups = (uint32_t)all;
    router->kept_groups = (uint32_t)kept;
    return result;
}

/* "none", "sum", "sum+1e-20", "max(1e-12)". */
static outcome parse_renormalize(const router_job *job, clmoe_router *router) {
    const char *text = job->renormalize;
    const size_t length = strlen(text);
    char number[TEXT_BYTES] = "", label[2 * TEXT_BYTES];
    router->epsilon = 0;
    if (strcmp(text, "none") == 0 || strcmp(text, "sum") == 0) {
        router->renormalize = text[0] == 'n' ? CLMOE_RENORMALIZE_NONE : CLMOE_RENORMALIZE_SUM;
        return OUTCOME_DONE;
    }
    if (length < sizeof number && strncmp(text, "sum+", 4) == 0) {
        router->renormalize = CLMOE_RENORMALIZE_SUM_PLUS_EPSILON;
        snprintf(number, sizeof number, "%s", text + 4);
    } else if (length < sizeof number && strncmp(text, "max(", 4) == 0 && text[length - 1] == ')') {
        router->renormalize = CLMOE_RENORMALIZE_MAX_EPSILON;
        snprintf(number, sizeof number, "%.*s", (int)(length - 5), text + 4);
    } else {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--renormalize %s: must be none, sum, sum+EPS or max(EPS), such as sum+1e-20",
                            text);
    }
    snprintf(label, sizeof label, "--renormalize %s: EPS", text);
    return options_float(job->command, label, number, &router->epsilon);
}

/* Model, then options; without what depends on the number of experts. */
static outcome make_router(router_job *job) {
    clmoe_router *router = &job->router;
    outcome result = job->model_name ? find_model(job) : OUTCOME_DONE;
    if (result != OUTCOME_DONE) {
        return result;
    }
    if (!job->has_top_k && !job->model) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--top-k K is missing, or --model NAME");
    }
    if (job->has_scale && job->scale == 0) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--scale 0: must be above 0");
    }
    router->top_k = job->has_top_k ? job->top_k : router->top_k;
    router->score = job->has_score ? (clmoe_score)job->score : router->score;
    router->softcap = job->has_softcap ? job->softcap : router->softcap;
    router->weight_source = job->has_weight_source ? (clmoe_weight_source)job->weight_source : router->weight_source;
    router->scale = job->has_scale ? job->scale : router->scale;
    router->has_bias = job->bias_path != NULL;
    router->has_expert_scale = job->expert_scale_path != NULL;
    if (job->groups) {
        result = parse_groups(job, router);
    }
    if (result == OUTCOME_DONE && job->renormalize) {
        result = parse_renormalize(job, router);
    }
    return result;
}

/* What depends on the number of experts. */
static outcome check_router(const router_job *job) {
    const clmoe_router *router = &job->router;
    char groups[TEXT_BYTES];
    if (router->top_k > router->num_experts) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--top-k %" PRIu32 ": must be at most %" PRIu32 ", the number of experts",
                            router->top_k, router->num_experts);
    }
    if (router->group_filter == CLMOE_GROUPS_NONE) {
        return OUTCOME_DONE;
    }
    const uint64_t group_size = router->num_experts / router->num_groups;
    describe_groups(router, groups);
    if (router->num_experts % router->num_groups != 0) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--groups %s: %" PRIu32 " experts don't make %" PRIu32 " equal groups", groups,
                            router->num_experts, router->num_groups);
    }
    if (router->group_filter == CLMOE_GROUPS_TOP2_SUM && group_size < 2) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "--groups %s: top2 needs at least 2 experts in a group", groups);
    }
    if (router->kept_groups * group_size < router->top_k) {
        return report_error(job->command, OUTCOME_BAD_INPUT,
                            "--groups %s: --top-k %" PRIu32 " is more than the experts that stay, %" PRIu64, groups, router->top_k,
                            router->kept_groups * group_size);
    }
    return OUTCOME_DONE;
}

/* ---- Arrays from files ---------------------------------------------------------------------------------------------------------- */

static bool is_type(const npy_array *array, char kind, uint32_t item_bytes) {
    return array->kind == kind && array->item_bytes == item_bytes;
}

static outcome settle_type(router_job *job, const char *path) {
    const npy_array *logits = &job->logits;
    const bool is[] = {[CLMOE_LOGIT_F32] = is_type(logits, 'f', 4),
                       [CLMOE_LOGIT_F16] = is_type(logits, 'f', 2),
                       [CLMOE_LOGIT_BF16] = is_type(logits, 'u', 2)};
    static const char *const rules[] = {"--dtype f32 needs float32", "--dtype f16 needs float16", "--dtype bf16 needs uint16"};
    if (job->has_dtype && !is[job->dtype]) {
        return routing_refuse(job->command, path, logits, rules[job->dtype]);
    }
    if (!job->has_dtype && !is[CLMOE_LOGIT_F32] && !is[CLMOE_LOGIT_F16]) {
        return routing_refuse(job->command, path, logits, "logits must be float32, float16, or uint16 with --dtype bf16");
    }
    job->logit_type = job->has_dtype ? (clmoe_logit_type)job->dtype : is[CLMOE_LOGIT_F16] ? CLMOE_LOGIT_F16 : CLMOE_LOGIT_F32;
    return OUTCOME_DONE;
}

static outcome read_per_expert(const router_job *job, const char *path, const number_list *at, const char *what, npy_array *array) {
    char rule[128];
    const outcome result = path ? routing_read_array(job->command, path, 1, at, array) : OUTCOME_DONE;
    if (!path || result != OUTCOME_DONE || (is_type(array, 'f', 4) && array->num_items == job->router.num_experts)) {
        return result;
    }
    snprintf(rule, sizeof rule, "the %s must hold one float32 for each of %" PRIu32 " experts", what, job->router.num_experts);
    return routing_refuse(job->command, path, array, rule);
}

outcome router_read(router_job *job, const char *path, const number_list *at) {
    char rule[128];
    const npy_array *logits = &job->logits;
    if (!path) {
        return report_error(job->command, OUTCOME_BAD_INPUT, "LOGITS.npy is missing; see 'clmoe %s --help'", job->command);
    }
    outcome result = make_router(job);
    if (result == OUTCOME_DONE) {
        result = routing_read_part(job->command, path, 2, at, &job->logits);
    }
    if (result == OUTCOME_DONE) {
        result = settle_type(job, path);
    }
    if (result != OUTCOME_DONE) {
        return result;
    }
    if (logits->shape[1] == 0 || logits->shape[0] > INT32_MAX || logits->shape[1] > INT32_MAX) {
        return routing_refuse(job->command, path, logits, "logits are [tokens][experts], below 2^31 each, with at least 1 expert");
    }
    job->num_tokens = (uint32_t)logits->shape[0];
    job->router.num_experts = (uint32_t)logits->shape[1];
    if (job->model && job->model->router.num_experts != job->router.num_experts) {
        snprintf(rule, sizeof rule, "%s has %" PRIu32 " experts, not %" PRIu32, job->model->name, job->model->router.num_experts,
                 job->router.num_experts);
        return routing_refuse(job->command, path, logits, rule);
    }
    result = check_router(job);
    if (result == OUTCOME_DONE) {
        result = read_per_expert(job, job->bias_path, at, "bias", &job->bias);
    }
    return result == OUTCOME_DONE ? read_per_expert(job, job->expert_scale_path, at, "scale", &job->expert_scale) : result;
}

/* ---- The call ------------------------------------------------------------------------------------------------------------------- */

static outcome upload(session *work, const npy_array *array, clmoe_buffer *buffer) {
    return session_buffer(work, array->data, array->num_items * array->item_bytes, buffer);
}

outcome router_prepare(const router_job *job, session *work, clmoe_route_args *args) {
    const size_t result_bytes = (size_t)job->num_tokens * job->router.top_k * 4;
    args->num_tokens = job->num_tokens;
    outcome result = upload(work, &job->logits, &args->logits);
    if (result == OUTCOME_DONE) {
        result = upload(work, &job->bias, &args->bias);
    }
    if (result == OUTCOME_DONE) {
        result = upload(work, &job->expert_scale, &args->expert_scale);
    }
    if (result == OUTCOME_DONE) {
        result = session_buffer(work, NULL, result_bytes, &args->topk_ids);
    }
    return result == OUTCOME_DONE ? session_buffer(work, NULL, result_bytes, &args->topk_weights) : result;
}

static outcome collect(const router_job *job, session *work, clmoe_buffer buffer, char kind, npy_array *array) {
    array->kind = kind;
    array->item_bytes = 4;
    array->num_dims = 2;
    array->shape[0] = job->num_tokens;
    array->shape[1] = job->router.top_k;
    array->num_items = array->shape[0] * array->shape[1];
    array->data = array->memory = malloc(array->num_items ? array->num_items * 4 : 1);
    if (!array->data) {
        return report_error(job->command, OUTCOME_DEVICE_FAILED, "no memory for %zu bytes", array->num_items * 4);
    }
    const clmoe_status status =
        array->num_items ? clmoe_buffer_read(work->context, buffer, array->data, array->num_items * 4) : CLMOE_SUCCESS;
    return status == CLMOE_SUCCESS ? OUTCOME_DONE : session_failure(work, status);
}

outcome router_collect(router_job *job, session *work, const clmoe_route_args *args) {
    const outcome result = collect(job, work, args->topk_ids, 'i', &job->ids);
    return result == OUTCOME_DONE ? collect(job, work, args->topk_weights, 'f', &job->weights) : result;
}

void router_release(session *work, clmoe_route_args *args) {
    const clmoe_buffer buffers[] = {args->logits, args->bias, args->expert_scale, args->topk_ids, args->topk_weights, args->workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        clmoe_buffer_destroy(work->context, buffers[i]);
    }
}

/* ---- Results -------------------------------------------------------------------------------------------------------------------- */

static outcome write_array(output_set *outputs, const char *directory, const char *name, const npy_array *array) {
    FILE *stream = NULL;
    const outcome result = output_open(outputs, directory, name, &stream);
    return result == OUTCOME_DONE
               ? output_close(outputs, npy_write(stream, array->kind, array->item_bytes, array->num_dims, array->shape, array->data))
               : result;
}

outcome router_write(const router_job *job, output_set *outputs, const char *directory, const char *ids_name, const char *weights_name) {
    const outcome result = ids_name ? write_array(outputs, directory, ids_name, &job->ids) : OUTCOME_DONE;
    return result == OUTCOME_DONE && weights_name ? write_array(outputs, directory, weights_name, &job->weights) : result;
}

uint32_t router_crc32(uint32_t crc, const void *words, size_t num_words) {
    crc = ~crc;
    for (size_t i = 0; i < num_words; i++) {
        uint32_t word;
        memcpy(&word, (const unsigned char *)words + 4 * i, 4);
        crc ^= word; /* four bytes at once, the lowest first, whatever this machine's order */
        for (int bit = 0; bit < 32; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
        }
    }
    return ~crc;
}

typedef struct router_sums {
    uint32_t ids, weights, both;
} router_sums;

static router_sums sum_up(const router_job *job) {
    router_sums sums = {router_crc32(0, job->ids.data, job->ids.num_items), router_crc32(0, job->weights.data, job->weights.num_items), 0};
    sums.both = router_crc32(sums.ids, job->weights.data, job->weights.num_items);
    return sums;
}

void router_print_sums(const router_job *job, char *text, size_t text_bytes) {
    const router_sums sums = sum_up(job);
    snprintf(text, text_bytes, ", ids %08" PRIx32 ", weights %08" PRIx32 ", hash %08" PRIx32, sums.ids, sums.weights, sums.both);
}

void router_json_crc32(report_json *json, const char *key, uint32_t crc) {
    char text[9];
    snprintf(text, sizeof text, "%08" PRIx32, crc);
    json_text(json, key, text);
}

void router_json(const router_job *job, report_json *json) {
    const router_sums sums = sum_up(job);
    if (job->model) {
        json_text(json, "model", job->model->name);
    }
    json_text(json, "dtype", dtype_words[job->logit_type]);
    json_router(json, &job->router);
    router_json_crc32(json, "ids_crc32", sums.ids);
    router_json_crc32(json, "weights_crc32", sums.weights);
    router_json_crc32(json, "hash", sums.both);
}

void router_tell_missing(const router_job *job) {
    if (job->model && job->model->router.has_bias && !job->bias_path) {
        report_note(job->command, "%s adds a bias to its scores; none given (--bias), so none is added", job->model->name);
    }
    if (job->model && job->model->router.has_expert_scale && !job->expert_scale_path) {
        report_note(job->command, "%s multiplies its weights by a scale of each expert; none given (--expert-scale), so none is applied",
                    job->model->name);
    }
}

void router_free(router_job *job) {
    npy_array *arrays[] = {&job->logits, &job->bias, &job->expert_scale, &job->ids, &job->weights};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        npy_free(arrays[i]);
    }
}
