#define _POSIX_C_SOURCE 200809L
#include "fixture.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POISON 0xA5
#define GUARD_ELEMENTS 64

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        fprintf(stderr, "fixture: out of memory\n");
        abort();
    }
    return memory;
}

/* ---- Pairs ---------------------------------------------------------------------------------------------------------------------- */
const char *const fixture_pairs[NUM_FIXTURE_PAIRS] = {"native", "pocl-serial", "pocl-parallel", "rusticl-serial", "rusticl-parallel"};

const char *fixture_pair(void) {
    const char *pair = getenv("CLMOE_TEST_PAIR");
    return pair == NULL || *pair == 0 ? "native" : pair;
}

bool fixture_pair_has(const char *text) {
    return strstr(fixture_pair(), text) != NULL;
}

static bool contains_ignoring_case(const char *text, const char *part) {
    for (; *text != 0; ++text) {
        size_t i = 0;
        while (part[i] != 0 && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            ++i;
        if (part[i] == 0)
            return true;
    }
    return false;
}

clmoe_context *fixture_context(const char *pair) {
    char selector[128], reason[512] = "";
    clmoe_context_options options = {0};
    clmoe_device_info info;
    clmoe_context *context = NULL;
    const bool native = strcmp(pair, "native") == 0;
    const char *dash = strrchr(pair, '-');

    /* The driver shows its software device only if asked; it must be asked before the first OpenCL call of the process. */
    setenv("RUSTICL_ENABLE", "llvmpipe", 0);
    snprintf(selector, sizeof selector, "%s", pair);
    if (!native) {
        if (dash == NULL || (strcmp(dash, "-serial") != 0 && strcmp(dash, "-parallel") != 0)) {
            fprintf(stderr, "%s: not a pair of device and class\n", pair);
            return NULL;
        }
        options.kernel_class = strcmp(dash, "-serial") == 0 ? CLMOE_CLASS_SERIAL : CLMOE_CLASS_PARALLEL;
        selector[dash - pair] = 0;
        if (strcmp(selector, "pocl") == 0)
            snprintf(selector, sizeof selector, "Portable Computing Language");
    }
    options.error_text = reason;
    options.error_text_bytes = sizeof reason;
    const clmoe_status status = clmoe_context_create(selector, &options, &context);
    if (status != CLMOE_SUCCESS) {
        fprintf(stderr, "%s: no context: %s: %s\n", pair, clmoe_status_name(status), reason);
        return NULL;
    }
    if (clmoe_context_describe(context, &info) != CLMOE_SUCCESS || info.backend != (native ? CLMOE_BACKEND_NATIVE : CLMOE_BACKEND_OPENCL) ||
        info.kernel_class != (native ? CLMOE_CLASS_SERIAL : options.kernel_class) ||
        (!native && !contains_ignoring_case(info.platform_name, selector) && !contains_ignoring_case(info.name, selector))) {
        fprintf(stderr, "%s: the context is on another device or class: %s, %s, class %d\n", pair, info.platform_name, info.name,
                (int)info.kernel_class);
        clmoe_context_destroy(context);
        return NULL;
    }
    return context;
}

uint32_t fixture_cases(uint32_t native, uint32_t pocl, uint32_t rusticl) {
    const char *percent = getenv("CLMOE_TEST_CASES");
    const bool slow = fixture_pair_has("rusticl") || fixture_pair_has("oclgrind");
    const uint64_t cases = slow ? rusticl : fixture_pair_has("pocl") ? pocl : native;
    const uint64_t scaled = percent == NULL ? cases : cases * strtoul(percent, NULL, 10) / 100;
    return scaled == 0 ? 1 : (uint32_t)scaled;
}

double fixture_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Generators ----------------------------------------------------------------------------------------------------------------- */
uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

uint64_t random_bits(random_stream *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t random_below(random_stream *random, uint32_t limit) {
    return (uint32_t)(((random_bits(random) >> 32) * limit) >> 32);
}

uint32_t deck_deal(deck *cards, random_stream *random) {
    if (cards->used == 0) {
        for (uint32_t i = cards->count; i > 1; --i) {
            const uint32_t j = random_below(random, i), swap = cards->values[i - 1];
            cards->values[i - 1] = cards->values[j];
            cards->values[j] = swap;
        }
    }
    const uint32_t value = cards->values[cards->used];
    cards->used = (cards->used + 1) % cards->count;
    return value;
}

const char *const fill_names[NUM_FILLS] = {"uniform",   "mix",  "zipf",         "one hot",        "last expert", "sorted",  "reversed",
                                           "rows same", "runs", "some invalid", "mostly invalid", "all invalid", "raw bits"};

/* Ids that are out of range for E experts, among them values that look valid once they are cut to fewer bits. */
static int64_t invalid_id(uint32_t E, clmoe_id_type type, random_stream *random) {
    const int64_t e = (int64_t)E, any = random_below(random, E);
    const int64_t i32[] = {-1, -2, -e, e, e + 1, INT32_MIN, INT32_MAX, INT32_MIN + any, e + any};
    const int64_t i64[] = {((int64_t)1 << 32) + 1,
                           -((int64_t)1 << 40),
                           ((int64_t)1 << 32) + any,
                           -((int64_t)1 << 32) + any,
                           ((int64_t)1 << 31) + any,
                           INT64_MIN,
                           INT64_MAX,
                           INT64_MIN + any,
                           -((int64_t)1 << 62)};
    const int64_t u32[] = {e, e + any, UINT32_MAX, (int64_t)1 << 31, ((int64_t)1 << 31) + any, UINT32_MAX - any};
    const int64_t i16[] = {-1, -2, INT16_MIN, INT16_MAX, e, -e, INT16_MIN + any % 256};
    const int64_t u8[] = {e, 255, 254, e + any};
    const uint32_t draw = (uint32_t)random_bits(random);
#define DRAW(list) list[draw % (sizeof list / sizeof list[0])]
    switch (type) {
    case CLMOE_ID_I32: return DRAW(i32);
    case CLMOE_ID_I64: return (draw >> 8) % 3 == 0 ? DRAW(i32) : DRAW(i64);
    case CLMOE_ID_U32: return DRAW(u32);
    case CLMOE_ID_I16: return DRAW(i16);
    case CLMOE_ID_U8: return DRAW(u8);
    }
#undef DRAW
    return -1;
}

void fill_ids(int64_t *ids, size_t num_tokens, size_t top_k, uint32_t E, clmoe_id_type type, fill how, random_stream *random) {
    const size_t N = num_tokens * top_k;
    const uint32_t hot = random_below(random, E), zipf_step = random_below(random, E);
    double *shares = NULL;
    if (how == FILL_ZIPF) { /* expert of rank r with weight 1 / (r + 1) */
        shares = allocate(E * sizeof *shares);
        double sum = 0;
        for (uint32_t r = 0; r < E; ++r)
            shares[r] = sum += 1.0 / (r + 1.0);
    }
    uint32_t run = 0, run_expert = 0;
    for (size_t i = 0; i < N; ++i) {
        switch (how) {
        case FILL_UNIFORM: ids[i] = random_below(random, E); break;
        case FILL_MIX: ids[i] = mix((uint32_t)i) % E; break;
        case FILL_ZIPF: {
            const double draw = (double)random_below(random, 1u << 30) / (1u << 30) * shares[E - 1];
            uint32_t low = 0, high = E - 1;
            while (low < high) {
                const uint32_t middle = (low + high) / 2;
                if (shares[middle] > draw)
                    high = middle;
                else
                    low = middle + 1;
            }
            ids[i] = (low + zipf_step) % E;
            break;
        }
        case FILL_ONE_HOT: ids[i] = hot; break;
        case FILL_LAST_EXPERT: ids[i] = E - 1; break;
        case FILL_SORTED: ids[i] = (int64_t)((uint64_t)i * E / N); break;
        case FILL_REVERSED: ids[i] = (int64_t)(E - 1 - (uint64_t)i * E / N); break;
        case FILL_ROWS_SAME: ids[i] = mix((uint32_t)(i % top_k) + hot) % E; break;
        case FILL_RUNS:
            if (run == 0) {
                run = 1 + random_below(random, 70);
                run_expert = random_below(random, E);
            }
            --run;
            ids[i] = run_expert;
            break;
        case FILL_SOME_INVALID: ids[i] = random_below(random, 8) == 0 ? invalid_id(E, type, random) : random_below(random, E); break;
        case FILL_MOSTLY_INVALID: ids[i] = random_below(random, 8) != 0 ? invalid_id(E, type, random) : random_below(random, E); break;
        case FILL_ALL_INVALID: ids[i] = invalid_id(E, type, random); break;
        case FILL_RAW_BITS: ids[i] = (int64_t)random_bits(random) >> random_below(random, 60); break;
        case NUM_FILLS: break;
        }
    }
    free(shares);
}

void fill_map(int32_t *map, uint32_t E, map_kind how, random_stream *random) {
    const uint32_t begin = random_below(random, E), size = 1 + random_below(random, E - begin);
    const int32_t strange[] = {-1, -1, -2, INT32_MIN, INT32_MAX, (int32_t)E, -(int32_t)E};
    for (uint32_t e = 0; e < E; ++e)
        map[e] = (int32_t)e;
    if (how == MAP_PERMUTED || how == MAP_RANDOM) {
        for (uint32_t i = E; i > 1; --i) {
            const uint32_t j = random_below(random, i);
            const int32_t swap = map[i - 1];
            map[i - 1] = map[j];
            map[j] = swap;
        }
    }
    for (uint32_t e = 0; e < E; ++e) {
        if (how == MAP_SLICE)
            map[e] = e >= begin && e - begin < size ? (int32_t)(e - begin) : -1;
        if (how == MAP_RANDOM && random_below(random, 3) == 0)
            map[e] = strange[random_below(random, 7)];
        if (how == MAP_DUPLICATES)
            map[e] = (int32_t)random_below(random, (E + 1) / 2);
        if (how == MAP_DUPLICATES && random_below(random, 5) == 0)
            map[e] = strange[random_below(random, 7)];
        if (how == MAP_ALL_FOREIGN)
            map[e] = -1;
    }
}

const char *const key_fill_names[NUM_KEY_FILLS] = {"random", "equal",   "two values", "sorted", "reversed", "one outlier",
                                                   "few",    "special", "crowded",    "twins",  "heavy"};

void fill_keys(void *keys, size_t n, clmoe_type type, key_fill how, random_stream *random) {
    static const uint64_t u32[] = {0,           1,           2,           0x7fffffffu, 0x80000000u, 0x80000001u,
                                   0xfffffffeu, 0xffffffffu, 0xa5a5a5a5u, 255,         256,         0xff00u};
    static const uint64_t f32[] = {0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u, 0x007fffffu, 0x807fffffu, 0x00800000u, 0x80800000u,
                                   0x3f800000u, 0xbf800000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u, 0xff800001u,
                                   0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu, 0x7fa5a5a5u, 0xffbfffffu};
    static const uint64_t u64[] = {0,           1,           UINT64_MAX, UINT64_MAX >> 1,     (UINT64_MAX >> 1) + 1, 0xffffffffu,
                                   0x100000000, 0x100000001, 0x80000000, 0xffffffff00000000u, 0x8000000000000001u,   UINT64_MAX - 1};
    const uint64_t *const list = type == CLMOE_TYPE_U64 ? u64 : type == CLMOE_TYPE_F32 ? f32 : u32;
    const uint32_t specials = type == CLMOE_TYPE_F32 ? sizeof f32 / sizeof *f32 : sizeof u32 / sizeof *u32;
    const uint32_t high = type == CLMOE_TYPE_U64 ? 56 : 24; /* bits below the highest byte */
    const size_t width = oracle_type_bytes(type), outlier = n == 0 ? 0 : (size_t)random_bits(random) % n;
    uint64_t few[5];
    for (size_t i = 0; i < 5; ++i)
        few[i] = random_bits(random);
    for (size_t i = 0; i < n; ++i) {
        uint64_t key = random_bits(random);
        switch (how) {
        case KEYS_EQUAL: key = few[0]; break;
        case KEYS_TWO_VALUES: key = few[key >> 63]; break;
        case KEYS_ONE_OUTLIER: key = few[i == outlier]; break;
        case KEYS_FEW: key = few[(key >> 32) % 5]; break;
        case KEYS_SPECIAL: key = list[(key >> 32) % specials]; break;
        case KEYS_CROWDED: key = (few[(key >> 32) % 3] & ~UINT64_C(0xfff)) | (key & 0xfff); break;
        case KEYS_TWINS: key = (key & 0xff) << high | (key & 0xff) << (high - 8) | key >> (72 - high); break;
        case KEYS_HEAVY: key = key & 1 ? key & ((UINT64_C(1) << high) - 1) : key; break;
        case KEYS_RANDOM:
        case KEYS_SORTED:
        case KEYS_REVERSED:
        case NUM_KEY_FILLS: break;
        }
        memcpy((char *)keys + i * width, &key, width); /* little-endian */
    }
    if (how == KEYS_SORTED || how == KEYS_REVERSED) {
        clmoe_sort_desc desc = {0};
        desc.key_type = type;
        desc.is_descending = how == KEYS_REVERSED;
        void *const copy = allocate(n * width);
        memcpy(copy, keys, n * width);
        oracle_sort(&desc, n, copy, NULL, keys, NULL);
        free(copy);
    }
}

uint32_t crc32_of(const void *data, size_t bytes) {
    const unsigned char *byte = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; ++i) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

uint64_t hash64_of(uint64_t seed, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    uint64_t hash = seed ^ bytes;
    for (size_t i = 0; i < bytes; i += 8) { /* each word is one step of the random stream */
        random_stream step = {hash};
        uint64_t word = 0;
        memcpy(&word, byte + i, bytes - i < 8 ? bytes - i : 8);
        step.state ^= word;
        hash = random_bits(&step);
    }
    return hash;
}

/* ---- Cases ---------------------------------------------------------------------------------------------------------------------- */
size_t id_bytes(clmoe_id_type type) {
    static const size_t bytes[] = {4, 8, 4, 2, 1};
    return bytes[type];
}

static const char *id_name(clmoe_id_type type) {
    static const char *const names[] = {"i32", "i64", "u32", "i16", "u8"};
    return names[type];
}

void case_begin(align_case *c, const char *name, uint32_t T, uint32_t K, uint32_t E, uint32_t B) {
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->num_tokens = T;
    c->desc.max_tokens = T;
    c->desc.top_k = K;
    c->desc.num_experts = E;
    c->desc.block_size = B;
    c->optional = OUT_ALL;
    c->shift = 1;
}

static uint32_t row_stride_of(const align_case *c) {
    return c->row_stride == 0 ? c->desc.top_k : c->row_stride;
}

static uint32_t weights_stride_of(const align_case *c) {
    return c->weights_stride == 0 ? c->desc.top_k : c->weights_stride;
}

/* Elements that [T][K] with rows `stride` apart needs: nothing is read behind the last row's last slot. */
static size_t strided_count(uint32_t T, uint32_t K, uint32_t stride) {
    return T == 0 ? 0 : (size_t)(T - 1) * stride + K;
}

void case_ids(align_case *c, const int64_t *ids) {
    const uint32_t T = c->num_tokens, K = c->desc.top_k, stride = row_stride_of(c), weights_stride = weights_stride_of(c);
    const size_t count = strided_count(T, K, stride) + c->slack, width = id_bytes(c->desc.id_type);
    unsigned char *packed = allocate(count * width);
    memset(packed, 0, count * width); /* between the rows: expert 0, which would be counted if it were read */
    for (size_t t = 0; t < T; ++t) {
        for (size_t k = 0; k < K; ++k)
            memcpy(packed + (t * stride + k) * width, &ids[t * K + k], width); /* little-endian */
    }
    free(c->ids);
    c->ids = packed;
    const size_t weights = strided_count(T, K, weights_stride) + c->slack;
    free(c->weights);
    c->weights = allocate(weights * sizeof(uint32_t));
    for (size_t i = 0; i < weights; ++i) { /* any bits, signalling NaN among them */
        c->weights[i] = i % 17 == 5 ? 0x7f800001u + mix((uint32_t)i) % 99 : mix((uint32_t)i + 77);
    }
}

void case_fill(align_case *c, fill how, random_stream *random) {
    int64_t *ids = allocate((size_t)c->num_tokens * c->desc.top_k * sizeof *ids);
    fill_ids(ids, c->num_tokens, c->desc.top_k, c->desc.num_experts, c->desc.id_type, how, random);
    case_ids(c, ids);
    free(ids);
}

void case_map(align_case *c, const int32_t *map) {
    const size_t needed = c->desc.num_experts, count = needed + c->slack;
    free(c->map);
    c->map = allocate(count * sizeof *map);
    for (size_t e = 0; e < count; ++e)
        c->map[e] = e < needed ? map[e] : 0;
}

void case_map_fill(align_case *c, map_kind how, random_stream *random) {
    if (how == MAP_NONE)
        return;
    int32_t *map = allocate(c->desc.num_experts * sizeof *map);
    fill_map(map, c->desc.num_experts, how, random);
    case_map(c, map);
    free(map);
}

void case_mask(align_case *c, uint32_t percent_kept, random_stream *random) {
    const size_t count = (size_t)c->num_tokens + c->slack;
    free(c->mask);
    c->mask = allocate(count);
    for (size_t t = 0; t < count; ++t) { /* any value but 0 keeps the row */
        const uint8_t kept = (uint8_t)(1 + random_below(random, 255));
        c->mask[t] = random_below(random, 100) < percent_kept ? kept : 0;
    }
}

void case_tokens_device(align_case *c, int32_t tokens) {
    c->has_tokens_device = true;
    c->tokens_device = tokens;
}

void case_end(align_case *c) {
    free(c->ids);
    free(c->map);
    free(c->mask);
    free(c->weights);
    memset(c, 0, sizeof *c);
}

uint32_t case_capacity(const align_case *c) {
    if (c->capacity != 0)
        return c->capacity;
    const uint64_t N = (uint64_t)c->num_tokens * c->desc.top_k;
    return (uint32_t)oracle_align_max_rows(N, c->desc.num_experts, c->desc.block_size, c->desc.foreign);
}

static void case_describe(const align_case *c, char *text, size_t bytes) {
    const clmoe_align_desc *d = &c->desc;
    char device_tokens[32] = "-", pad[32] = "N";
    if (c->has_tokens_device)
        snprintf(device_tokens, sizeof device_tokens, "%d", c->tokens_device);
    if (d->has_pad_value)
        snprintf(pad, sizeof pad, "%d", d->pad_value);
    snprintf(text, bytes,
             "%s {T %u of %u, K %u, E %u, B %u, %s, stride %u, weights stride %u, foreign %d, map %s, mask %s, device T %s, pad %s, C %u, "
             "optional 0x%02x, shift %u, slack %u, launches %u, group size %u, groups %u}",
             c->name, c->num_tokens, d->max_tokens, d->top_k, d->num_experts, d->block_size, id_name(d->id_type), c->row_stride,
             c->weights_stride, (int)d->foreign, c->map == NULL ? "no" : "yes", c->mask == NULL ? "no" : "yes", device_tokens, pad,
             case_capacity(c), c->optional, c->shift, c->slack, d->tuning.num_launches, d->tuning.group_size, d->tuning.num_groups);
}

/* ---- Rig ------------------------------------------------------------------------------------------------------------------------ */
static const struct {
    size_t args_offset;
    uint32_t optional; /* OUT_... */
} slot_facts[NUM_SLOTS] = {
    {offsetof(clmoe_align_args, topk_ids), 0},
    {offsetof(clmoe_align_args, expert_map), 0},
    {offsetof(clmoe_align_args, row_mask), 0},
    {offsetof(clmoe_align_args, num_tokens_device), 0},
    {offsetof(clmoe_align_args, topk_weights), 0},
    {offsetof(clmoe_align_args, sorted_token_ids), 0},
    {offsetof(clmoe_align_args, expert_ids), 0},
    {offsetof(clmoe_align_args, num_tokens_post_padded), 0},
    {offsetof(clmoe_align_args, counts), OUT_COUNTS},
    {offsetof(clmoe_align_args, offsets), OUT_OFFSETS},
    {offsetof(clmoe_align_args, padded_offsets), OUT_PADDED_OFFSETS},
    {offsetof(clmoe_align_args, inverse), OUT_INVERSE},
    {offsetof(clmoe_align_args, rows_valid), OUT_ROWS_VALID},
    {offsetof(clmoe_align_args, sorted_weights), OUT_SORTED_WEIGHTS},
    {offsetof(clmoe_align_args, status), OUT_STATUS},
    {offsetof(clmoe_align_args, workspace), 0},
};

const char *const slot_names[NUM_SLOTS] = {"topk_ids",     "expert_map",       "row_mask",       "num_tokens_device",
                                           "topk_weights", "sorted_token_ids", "expert_ids",     "num_tokens_post_padded",
                                           "counts",       "offsets",          "padded_offsets", "inverse",
                                           "rows_valid",   "sorted_weights",   "status",         "workspace"};

clmoe_buffer *slot_view(clmoe_align_args *args, int slot) {
    return (clmoe_buffer *)(void *)((char *)args + slot_facts[slot].args_offset);
}

static bool rig_fail(align_rig *rig, const align_case *c, const char *format, ...) {
    char text[512];
    va_list list;
    if (c == NULL)
        rig->failure[0] = 0;
    else
        case_describe(c, rig->failure, sizeof rig->failure);
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const size_t used = strlen(rig->failure);
    snprintf(rig->failure + used, sizeof rig->failure - used, "\n    %s", text);
    return false;
}

void rig_begin(align_rig *rig, clmoe_context *context, cl_command_queue queue) {
    memset(rig, 0, sizeof *rig);
    rig->context = context;
    rig->queue = queue;
    clmoe_device_info info;
    const bool described = clmoe_context_describe(context, &info) == CLMOE_SUCCESS;
    rig->ends_long_loops = described && contains_ignoring_case(info.platform_name, "rusticl");
}

static void guarded_release(align_rig *rig, guarded *slot) {
    if (rig->opencl == NULL)
        clmoe_buffer_destroy(rig->context, slot->outer);
    else if (slot->outer.mem != NULL)
        clReleaseMemObject(slot->outer.mem);
    memset(&slot->outer, 0, sizeof slot->outer);
    free(slot->image);
    free(slot->back);
    slot->image = slot->back = NULL;
    slot->outer_bytes = 0;
}

void rig_end(align_rig *rig) {
    for (int s = 0; s < NUM_SLOTS + MORE_SLOTS; ++s)
        guarded_release(rig, &rig->slots[s]);
}

static size_t guard_bytes(const align_rig *rig, size_t width, uint32_t shift) {
    return rig->is_bare ? 0 : (GUARD_ELEMENTS + shift) * width;
}

static bool guarded_grow(align_rig *rig, guarded *slot, size_t bytes) {
    if (bytes <= slot->outer_bytes && !rig->is_bare)
        return true;
    const size_t grown =
        slot->outer_bytes == 0 || rig->is_bare ? bytes : bytes + bytes / 2; /* exact at first, so that a stray access is a stray access */
    guarded_release(rig, slot);
    if (rig->opencl == NULL) {
        const clmoe_status status = clmoe_buffer_create(rig->context, grown, &slot->outer);
        if (status != CLMOE_SUCCESS)
            return rig_fail(rig, NULL, "clmoe_buffer_create(%zu): %s", grown, clmoe_status_name(status));
    } else {
        cl_int status = 0;
        slot->outer = clmoe_buffer_of_mem(clCreateBuffer(rig->opencl, CL_MEM_READ_WRITE, grown, NULL, &status), 0, grown);
        if (status != CL_SUCCESS)
            return rig_fail(rig, NULL, "clCreateBuffer(%zu): %s", grown, clmoe_status_name(status));
    }
    slot->outer_bytes = grown;
    slot->image = allocate(grown);
    slot->back = allocate(grown);
    return true;
}

/* A view of `count` elements of `width` bytes between its guards; filled with `data`, or with poison if that is NULL. */
static bool guarded_put(align_rig *rig, int s, const align_case *c, size_t width, size_t count, const void *data, bool upload) {
    guarded *slot = &rig->slots[s];
    clmoe_buffer *view = slot_view(&rig->args, s);
    const size_t image_bytes_before = slot->image_bytes;
    slot->view_offset = guard_bytes(rig, width, c->shift);
    slot->view_bytes = count * width;
    slot->image_bytes = slot->view_offset + slot->view_bytes + guard_bytes(rig, width, 0);
    memset(view, 0, sizeof *view);
    if (count == 0) {
        slot->view_bytes = slot->image_bytes = 0;
        return true;
    }
    const bool fresh = slot->image_bytes != image_bytes_before;
    if (!guarded_grow(rig, slot, slot->image_bytes))
        return false;
    *view = slot->outer;
    view->offset_bytes += slot->view_offset;
    view->size_bytes = slot->view_bytes;
    if (!upload && !fresh)
        return true;
    memset(slot->image, POISON, slot->image_bytes);
    if (data != NULL)
        memcpy(slot->image + slot->view_offset, data, slot->view_bytes);
    else if (rig->is_bare)
        return true;
    cl_int status;
    if (rig->opencl == NULL)
        status = clmoe_buffer_write(rig->context, slot->outer, slot->image, slot->image_bytes);
    else
        status = clEnqueueWriteBuffer(rig->queue, slot->outer.mem, CL_TRUE, 0, slot->image_bytes, slot->image, 0, NULL, NULL);
    return status == CL_SUCCESS ? true : rig_fail(rig, c, "writing %s: %s", slot_names[s], clmoe_status_name(status));
}

bool rig_prepare(align_rig *rig, const clmoe_plan *plan, const align_case *c) {
    const clmoe_align_desc *d = &c->desc;
    const uint32_t T = c->num_tokens, C = case_capacity(c);
    const size_t N = (size_t)T * d->top_k, E = d->num_experts, blocks = C / d->block_size;
    const bool weights = (c->optional & OUT_SORTED_WEIGHTS) != 0;
    const size_t ids = strided_count(T, d->top_k, row_stride_of(c)), weight_count = strided_count(T, d->top_k, weights_stride_of(c));
    memset(&rig->args, 0, sizeof rig->args);
    rig->args.num_tokens = T;
    rig->args.row_stride = c->row_stride;
    rig->args.weights_stride = c->weights_stride;
    bool ok = guarded_put(rig, SLOT_TOPK_IDS, c, id_bytes(d->id_type), ids + c->slack, c->ids, true) &&
              guarded_put(rig, SLOT_EXPERT_MAP, c, 4, c->map == NULL ? 0 : E + c->slack, c->map, true) &&
              guarded_put(rig, SLOT_ROW_MASK, c, 1, c->mask == NULL ? 0 : T + (size_t)c->slack, c->mask, true) &&
              guarded_put(rig, SLOT_NUM_TOKENS_DEVICE, c, 4, c->has_tokens_device ? 1 : 0, &c->tokens_device, true) &&
              guarded_put(rig, SLOT_TOPK_WEIGHTS, c, 4, weights ? weight_count + c->slack : 0, c->weights, true);
    const size_t counts[NUM_SLOTS] = {0, 0, 0, 0, 0, C, blocks, 1, E, E + 1, E + 1, N, blocks, C, 4, 0};
    for (int s = SLOT_SORTED_TOKEN_IDS; ok && s < SLOT_WORKSPACE; ++s) {
        const bool wanted = s < SLOT_COUNTS || (c->optional & slot_facts[s].optional) != 0;
        ok = guarded_put(rig, s, c, 4, wanted ? counts[s] : 0, NULL, true);
    }
    const size_t workspace = clmoe_plan_workspace_bytes(plan);
    ok = ok && guarded_put(rig, SLOT_WORKSPACE, c, 4, (workspace + 3) / 4, NULL, !rig->keep_workspace);
    if (ok && workspace != 0)
        rig->args.workspace.size_bytes = workspace;
    return ok;
}

static bool read_back(align_rig *rig, const align_case *c, int s) {
    guarded *slot = &rig->slots[s];
    cl_int status;
    if (slot->image_bytes == 0)
        return true;
    if (rig->opencl == NULL)
        status = clmoe_buffer_read(rig->context, slot->outer, slot->back, slot->image_bytes);
    else
        status = clEnqueueReadBuffer(rig->queue, slot->outer.mem, CL_TRUE, 0, slot->image_bytes, slot->back, 0, NULL, NULL);
    return status == CL_SUCCESS ? true : rig_fail(rig, c, "reading %s: %s", slot_names[s], clmoe_status_name(status));
}

/* No byte of [begin, end) of a slot differs from what was uploaded; `what` says what stands there. */
static bool unchanged(align_rig *rig, const align_case *c, int s, size_t begin, size_t end, const char *what) {
    const guarded *slot = &rig->slots[s];
    if (begin >= end || memcmp(slot->image + begin, slot->back + begin, end - begin) == 0)
        return true;
    size_t i = begin;
    while (slot->image[i] == slot->back[i])
        ++i;
    return rig_fail(rig, c, "%s: %s was written: byte %td of a view of %zu bytes is %02x, was %02x", slot_names[s], what,
                    (ptrdiff_t)i - (ptrdiff_t)slot->view_offset, slot->view_bytes, slot->back[i], slot->image[i]);
}

static bool same_values(align_rig *rig, const align_case *c, int s, const void *expected) {
    const guarded *slot = &rig->slots[s];
    if (slot->view_bytes == 0)
        return true;
    const unsigned char *found = slot->back + slot->view_offset;
    rig->hash = hash64_of(rig->hash, found, slot->view_bytes);
    if (memcmp(found, expected, slot->view_bytes) == 0)
        return true;
    size_t wrong = 0, first = 0;
    int32_t is = 0, should = 0;
    for (size_t i = slot->view_bytes / 4; i-- > 0;) {
        int32_t a, b;
        memcpy(&a, found + 4 * i, 4);
        memcpy(&b, (const unsigned char *)expected + 4 * i, 4);
        if (a == b)
            continue;
        ++wrong;
        first = i;
        is = a;
        should = b;
    }
    return rig_fail(rig, c, "%s[%zu] is %d (0x%08x), should be %d (0x%08x); %zu of %zu elements are wrong", slot_names[s], first, is,
                    (unsigned)is, should, (unsigned)should, wrong, slot->view_bytes / 4);
}

bool rig_check(align_rig *rig, const align_case *c) {
    const clmoe_align_desc *d = &c->desc;
    for (int s = 0; s < NUM_SLOTS; ++s) {
        const guarded *slot = &rig->slots[s];
        const size_t end = slot->view_offset + slot->view_bytes;
        if (slot->image_bytes == 0)
            continue;
        if (!read_back(rig, c, s) || !unchanged(rig, c, s, 0, slot->view_offset, "the guard in front") ||
            !unchanged(rig, c, s, end, slot->image_bytes, "the guard behind"))
            return false;
        if (s < SLOT_SORTED_TOKEN_IDS && !unchanged(rig, c, s, slot->view_offset, end, "an input"))
            return false;
    }
    oracle_align_inputs in = {0};
    in.num_tokens = c->num_tokens;
    in.top_k = d->top_k;
    in.num_experts = d->num_experts;
    in.block_size = d->block_size;
    in.row_stride = row_stride_of(c);
    in.weights_stride = weights_stride_of(c);
    in.capacity = case_capacity(c);
    in.id_type = d->id_type;
    in.foreign = d->foreign;
    in.has_pad_value = d->has_pad_value;
    in.pad_value = d->pad_value;
    in.topk_ids = c->ids;
    in.expert_map = c->map;
    in.row_mask = c->mask;
    in.num_tokens_device = c->has_tokens_device ? &c->tokens_device : NULL;
    in.topk_weights = c->weights;
    oracle_align_outputs out = oracle_align(&in);
    const void *const expected[] = {
        out.sorted_token_ids, out.expert_ids, out.num_tokens_post_padded, out.counts, out.offsets, out.padded_offsets,
        out.inverse,          out.rows_valid, out.sorted_weights,         out.status};
    bool ok = same_values(rig, c, SLOT_NUM_TOKENS_POST_PADDED, out.num_tokens_post_padded); /* the one that says most comes first */
    for (int s = SLOT_SORTED_TOKEN_IDS; ok && s < SLOT_WORKSPACE; ++s)
        ok = same_values(rig, c, s, expected[s - SLOT_SORTED_TOKEN_IDS]);
    oracle_align_free(&out);
    ++rig->calls;
    return ok;
}

bool rig_untouched(align_rig *rig, const align_case *c) {
    for (int s = 0; s < NUM_SLOTS; ++s) {
        if (!read_back(rig, c, s) || !unchanged(rig, c, s, 0, rig->slots[s].image_bytes, "after a refusal memory"))
            return false;
    }
    return true;
}

bool run_align(align_rig *rig, clmoe_plan *plan, const align_case *c) {
    if (!rig_prepare(rig, plan, c))
        return false;
    const clmoe_status status = clmoe_align_enqueue(plan, rig->queue, &rig->args, 0, NULL, NULL);
    const clmoe_tuning *tuning = &c->desc.tuning;
    const bool forced = tuning->num_launches != 0 || tuning->num_groups != 0 || tuning->group_size != 0;
    const bool may_refuse = rig->ends_long_loops && (forced || c->desc.num_experts > 8192); /* else the choice is the library's own fault */
    if (status == CLMOE_UNSUPPORTED && may_refuse) {
        ++rig->calls_refused;
        return rig_untouched(rig, c);
    }
    if (status != CLMOE_SUCCESS) {
        char text[400];
        clmoe_context_error(rig->context, text, sizeof text);
        return rig_fail(rig, c, "enqueue: %s: %s", clmoe_status_name(status), text);
    }
    const cl_int finished = rig->queue == NULL ? CL_SUCCESS : clFinish(rig->queue);
    if (finished != CL_SUCCESS)
        return rig_fail(rig, c, "clFinish: %s", clmoe_status_name(finished));
    return rig_check(rig, c);
}

bool run_align_once(align_rig *rig, const align_case *c, bool *refused) {
    clmoe_plan *plan = NULL;
    if (refused != NULL)
        *refused = false;
    const clmoe_status status = clmoe_align_plan_create(rig->context, &c->desc, &plan);
    if (status == CLMOE_UNSUPPORTED && refused != NULL) {
        *refused = true;
        return true;
    }
    if (status != CLMOE_SUCCESS) {
        char text[400];
        clmoe_context_error(rig->context, text, sizeof text);
        return rig_fail(rig, c, "plan: %s: %s", clmoe_status_name(status), text);
    }
    const bool ok = run_align(rig, plan, c);
    clmoe_plan_destroy(plan);
    return ok;
}

/* ---- Any other operator --------------------------------------------------------------------------------------------------------- */
static bool call_fail(align_rig *rig, const op_call *call, const char *format, ...) {
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(rig->failure, sizeof rig->failure, "%s\n    %s", call->name, text);
    return false;
}

static guarded *call_slot(const align_rig *rig, const op_call *call, size_t i) {
    const size_t slot = call->operands[i].is_scratch ? SLOT_WORKSPACE : i < SLOT_WORKSPACE ? i : i + 1;
    return (guarded *)(uintptr_t)&rig->slots[slot];
}

void call_workspace(op_call *call, clmoe_buffer *view, size_t width) {
    operand *const o = &call->operands[call->num_operands++];
    memset(o, 0, sizeof *o);
    o->name = "workspace";
    o->view = view;
    o->width = width;
    o->bytes = clmoe_plan_workspace_bytes(call->plan);
    o->is_output = o->is_scratch = true;
}

bool call_prepare(align_rig *rig, op_call *call) {
    for (size_t i = 0; i < call->num_operands; ++i) {
        const operand *const o = &call->operands[i];
        guarded *const slot = call_slot(rig, call, i);
        const size_t image_bytes_before = slot->image_bytes, view_offset_before = slot->view_offset;
        memset(o->view, 0, sizeof *o->view);
        if (o->again != NULL)
            memset(o->again, 0, sizeof *o->again);
        slot->view_offset = guard_bytes(rig, o->width, o->is_scratch ? 1 : call->shift);
        slot->view_bytes = o->bytes;
        slot->image_bytes = o->bytes == 0 ? 0 : slot->view_offset + o->bytes + guard_bytes(rig, o->width, 0);
        if (o->bytes == 0)
            continue;
        if (!guarded_grow(rig, slot, slot->image_bytes))
            return false;
        *o->view = slot->outer;
        o->view->offset_bytes += slot->view_offset;
        o->view->size_bytes = o->bytes;
        if (o->again != NULL)
            *o->again = *o->view;
        const bool same_place = slot->image_bytes == image_bytes_before && slot->view_offset == view_offset_before;
        if (o->is_scratch && rig->keep_workspace && same_place)
            continue;
        memset(slot->image, POISON, slot->image_bytes);
        if (o->is_scratch)
            memset(slot->image + slot->view_offset, call->scratch, o->bytes);
        if (o->before != NULL)
            memcpy(slot->image + slot->view_offset, o->before, o->bytes);
        else if (rig->is_bare)
            continue;
        const clmoe_status status = clmoe_buffer_write(rig->context, slot->outer, slot->image, slot->image_bytes);
        if (status != CLMOE_SUCCESS)
            return call_fail(rig, call, "writing %s: %s", o->name, clmoe_status_name(status));
    }
    return true;
}

/* Bytes [begin, end) of an operand's memory are as expected. */
static bool call_same(align_rig *rig, const op_call *call, size_t i, size_t begin, size_t end, const void *expected, const char *what) {
    const guarded *const slot = call_slot(rig, call, i);
    const operand *const o = &call->operands[i];
    const unsigned char *const found = slot->back + begin, *const should = expected;
    if (memcmp(found, expected, end - begin) == 0)
        return true;
    size_t first = 0, wrong = 0;
    for (size_t e = (end - begin) / o->width; e-- > 0;) {
        if (memcmp(found + e * o->width, should + e * o->width, o->width) == 0)
            continue;
        first = e;
        ++wrong;
    }
    uint64_t a = 0, b = 0;
    memcpy(&a, found + first * o->width, o->width);
    memcpy(&b, should + first * o->width, o->width);
    return call_fail(rig, call, "%s: %s: element %td is 0x%llx, should be 0x%llx; %zu of %zu are wrong", o->name, what,
                     ((ptrdiff_t)begin - (ptrdiff_t)slot->view_offset) / (ptrdiff_t)o->width + (ptrdiff_t)first, (unsigned long long)a,
                     (unsigned long long)b, wrong, (end - begin) / o->width);
}

static bool call_read(align_rig *rig, const op_call *call, size_t i) {
    guarded *const slot = call_slot(rig, call, i);
    const clmoe_status status = clmoe_buffer_read(rig->context, slot->outer, slot->back, slot->image_bytes);
    return status == CLMOE_SUCCESS || call_fail(rig, call, "reading %s: %s", call->operands[i].name, clmoe_status_name(status));
}

bool call_check(align_rig *rig, const op_call *call) {
    for (size_t i = 0; i < call->num_operands; ++i) {
        const operand *const o = &call->operands[i];
        const guarded *const slot = call_slot(rig, call, i);
        const size_t begin = slot->view_offset, end = begin + slot->view_bytes;
        if (o->bytes == 0)
            continue;
        if (!call_read(rig, call, i) || !call_same(rig, call, i, 0, begin, slot->image, "the guard in front") ||
            !call_same(rig, call, i, end, slot->image_bytes, slot->image + end, "the guard behind"))
            return false;
        if (!o->is_scratch && !o->is_judged &&
            !call_same(rig, call, i, begin, end, o->after != NULL ? o->after : slot->image + begin,
                       o->after != NULL ? "the result" : "an input was written"))
            return false;
    }
    ++rig->calls;
    return true;
}

bool call_untouched(align_rig *rig, const op_call *call) {
    for (size_t i = 0; i < call->num_operands; ++i) {
        if (call->operands[i].bytes == 0)
            continue;
        const guarded *const slot = call_slot(rig, call, i);
        if (!call_read(rig, call, i) || !call_same(rig, call, i, 0, slot->image_bytes, slot->image, "written after a refusal"))
            return false;
    }
    return true;
}

const void *call_output(const align_rig *rig, const op_call *call, size_t operand_index) {
    const guarded *const slot = call_slot(rig, call, operand_index);
    return slot->back + slot->view_offset;
}

bool call_run(align_rig *rig, op_call *call) {
    const bool kept = rig->keep_workspace;
    if (!call_prepare(rig, call))
        return false;
    const clmoe_status status = call->enqueue(call->plan, rig->queue, call->args, 0, NULL, NULL);
    if (status == CLMOE_UNSUPPORTED && call->may_refuse) {
        ++rig->calls_refused;
        return kept || call_untouched(rig, call);
    }
    if (status != CLMOE_SUCCESS) {
        char text[400];
        clmoe_context_error(rig->context, text, sizeof text);
        return call_fail(rig, call, "enqueue: %s: %s", clmoe_status_name(status), text);
    }
    const cl_int finished = rig->queue == NULL ? CL_SUCCESS : clFinish(rig->queue);
    if (finished != CL_SUCCESS)
        return call_fail(rig, call, "clFinish: %s", clmoe_status_name(finished));
    return call_check(rig, call);
}

static bool call_refused_once(align_rig *rig, const op_call *call, const void *args, const char *what, const char *named,
                              const char *or_this) {
    char text[600];
    const clmoe_status status = call->enqueue(call->plan, rig->queue, args, 0, NULL, NULL);
    if (rig->queue != NULL)
        clFinish(rig->queue);
    if (status != CLMOE_INVALID_ARGUMENT)
        return call_fail(rig, call, "%s: %s (%d), not refused", what, clmoe_status_name(status), status);
    const size_t needed = clmoe_context_error(rig->context, text, sizeof text);
    if (needed != strlen(text) + 1 || (strstr(text, named) == NULL && strstr(text, or_this) == NULL))
        return call_fail(rig, call, "%s: the text does not name \"%s\": \"%s\"", what, named, text);
    if (!call_untouched(rig, call)) {
        snprintf(text, sizeof text, "%.500s", rig->failure);
        return call_fail(rig, call, "%s: %s", what, text);
    }
    return true;
}

bool call_refused(align_rig *rig, op_call *call, const void *args, const char *what, const char *named) {
    return call_refused_once(rig, call, args, what, named, named) && call_run(rig, call) && call_prepare(rig, call);
}

/* The view of an operand in a copy of the arguments. */
static clmoe_buffer *view_in(const op_call *call, void *copy, size_t i) {
    return (clmoe_buffer *)(void *)((char *)copy + ((const char *)call->operands[i].view - (const char *)call->args));
}

bool call_refuses_views(align_rig *rig, op_call *call) {
    static uint32_t host_memory[4096];
    uint64_t copy[128];
    char what[160];
    if (call->args_bytes > sizeof copy || !call_run(rig, call) || !call_prepare(rig, call))
        return call->args_bytes <= sizeof copy ? false : call_fail(rig, call, "arguments too long for the test");
#define REFUSED_VIEW(change)                                                                                                               \
    do {                                                                                                                                   \
        memcpy(copy, call->args, call->args_bytes);                                                                                        \
        clmoe_buffer *const view = view_in(call, copy, i);                                                                                 \
        change;                                                                                                                            \
        snprintf(what, sizeof what, "%s: %s", o->name, #change);                                                                           \
        if (!call_refused(rig, call, copy, what, o->name))                                                                                 \
            return false;                                                                                                                  \
    } while (0)
    for (size_t i = 0; i < call->num_operands; ++i) {
        const operand *const o = &call->operands[i];
        const size_t outer = call_slot(rig, call, i)->outer_bytes;
        if (o->bytes == 0)
            continue;
        REFUSED_VIEW(view->size_bytes -= o->spare + 1);
        REFUSED_VIEW(view->size_bytes -= o->spare + o->width);
        if (!o->is_optional) {
            REFUSED_VIEW(memset(view, 0, sizeof *view));
            REFUSED_VIEW(view->size_bytes = 0);
        }
        if (o->is_output && !o->is_scratch) {
            REFUSED_VIEW(view->size_bytes += o->width);
            if (o->width > 1)
                REFUSED_VIEW(view->size_bytes += 1);
        }
        for (size_t off = 1; off < o->width; off *= 2)
            REFUSED_VIEW(view->offset_bytes += off);
        REFUSED_VIEW(view->mem = NULL; view->host = NULL);
        if (rig->queue != NULL) {
            REFUSED_VIEW(*view = clmoe_buffer_of_host(host_memory, o->bytes));
            REFUSED_VIEW(view->offset_bytes = (outer / 8 + 1) * 8); /* outside of its cl_mem, plainly and by an offset that wraps around */
            REFUSED_VIEW(view->offset_bytes = (size_t)0 - 8);
        } else {
            REFUSED_VIEW(view->mem = (cl_mem)(void *)copy; view->host = NULL);
        }
    }
#undef REFUSED_VIEW
    for (size_t a = 0; a < call->num_operands; ++a) { /* no output lies on anything else, not even by one element */
        for (size_t pair = 0; pair < 3 * call->num_operands; ++pair) {
            const size_t b = pair / 3;
            const operand *const o = &call->operands[a], *const other = &call->operands[b];
            const guarded *const slot = call_slot(rig, call, b);
            if (a == b || !o->is_output || o->bytes == 0 || other->bytes == 0 || o->bytes % o->width != 0)
                continue;
            const size_t begin = other->view->offset_bytes / o->width * o->width;
            const size_t end = (other->view->offset_bytes + other->bytes - 1) / o->width * o->width;
            const size_t at = pair % 3 == 0   ? begin
                              : pair % 3 == 1 ? end
                                              : begin + o->width - o->bytes; /* may wrap: then it does not fit */
            const bool in_place_allowed = strcmp(o->name, "output") == 0 && strcmp(other->name, "input") == 0 && o->bytes == other->bytes;
            if (at > slot->outer_bytes || o->bytes > slot->outer_bytes - at || (in_place_allowed && at == other->view->offset_bytes))
                continue;
            memcpy(copy, call->args, call->args_bytes);
            *view_in(call, copy, a) = slot->outer;
            view_in(call, copy, a)->offset_bytes = at;
            view_in(call, copy, a)->size_bytes = o->bytes;
            snprintf(what, sizeof what, "%s at %zu over %s at %zu", o->name, at, other->name, other->view->offset_bytes);
            if (!call_refused_once(rig, call, copy, what, o->name, other->name))
                return false;
        }
    }
    cl_event event = NULL, fake = (cl_event)(void *)copy;
    clmoe_status status[6] = {call->enqueue(NULL, rig->queue, call->args, 0, NULL, NULL),
                              call->enqueue(call->plan, rig->queue, NULL, 0, NULL, NULL)};
    size_t count = 2;
    if (rig->queue == NULL) {
        status[count++] = call->enqueue(call->plan, (cl_command_queue)(void *)copy, call->args, 0, NULL, NULL);
        status[count++] = call->enqueue(call->plan, NULL, call->args, 1, &fake, NULL);
        status[count++] = call->enqueue(call->plan, NULL, call->args, 0, NULL, &event);
    } else {
        status[count++] = call->enqueue(call->plan, NULL, call->args, 0, NULL, NULL);
        status[count++] = call->enqueue(call->plan, rig->queue, call->args, 1, NULL, NULL);
        status[count++] = call->enqueue(call->plan, rig->queue, call->args, 0, (const cl_event *)&event, NULL);
    }
    for (size_t i = 0; i < count; ++i) {
        if (status[i] != CLMOE_INVALID_ARGUMENT && (i < 2 || status[i] == CLMOE_SUCCESS || rig->queue == NULL))
            return call_fail(rig, call, "NULL plan, NULL args, queue, wait list, event: number %zu is not refused: %d", i, status[i]);
    }
    if (rig->queue != NULL)
        clFinish(rig->queue);
    return (event == NULL || call_fail(rig, call, "an event after a refusal")) && call_untouched(rig, call) && call_run(rig, call);
}

bool call_on_queues(align_rig *rig, op_call *call) {
    cl_int error = CL_SUCCESS;
    cl_int done = CL_COMPLETE;
    if (rig->queue == NULL)
        return call_run(rig, call);
    cl_event gate = clCreateUserEvent(clmoe_context_opencl_context(rig->context), &error), event = NULL;
    if (error != CL_SUCCESS || !call_prepare(rig, call))
        return call_fail(rig, call, "clCreateUserEvent: %s", clmoe_status_name(error));
    const clmoe_status status = call->enqueue(call->plan, rig->queue, call->args, 1, &gate, &event);
    clFlush(rig->queue);
    if (event != NULL)
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof done, &done, NULL);
    clSetUserEventStatus(gate, CL_COMPLETE);
    const cl_int waited = event == NULL ? CL_INVALID_EVENT : clWaitForEvents(1, &event);
    clFinish(rig->queue);
    clReleaseEvent(gate);
    if (event != NULL)
        clReleaseEvent(event);
    if (status != CLMOE_SUCCESS || done == CL_COMPLETE || waited != CL_SUCCESS)
        return call_fail(rig, call, "behind a user event: %d; its state before: %d; waiting: %d", status, done, waited);
    if (!call_check(rig, call))
        return false;

    clmoe_device_info info;
    if (clmoe_context_describe(rig->context, &info) != CLMOE_SUCCESS)
        return call_fail(rig, call, "no description of the context");
    const cl_command_queue in_order = rig->queue, any_order = clCreateCommandQueue(clmoe_context_opencl_context(rig->context), info.device,
                                                                                   CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    if (error != CL_SUCCESS) /* this device has none */
        return true;
    bool ok = true;
    rig->queue = any_order;
    for (int round = 0; ok && round < 5; ++round)
        ok = call_run(rig, call);
    rig->queue = in_order;
    clReleaseCommandQueue(any_order);
    return ok;
}

/* ---- Cases of route ------------------------------------------------------------------------------------------------------------- */
const char *const logit_fill_names[NUM_LOGIT_FILLS] = {"normal", "uniform",  "few",  "equal",      "zeros", "denormal", "infinite", "NaN",
                                                       "huge",   "negative", "wide", "neighbours", "bf16",  "bad rows", "raw bits"};

uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

size_t logit_bytes(clmoe_logit_type type) {
    return type == CLMOE_LOGIT_F32 ? 4 : 2;
}

static uint32_t f16_of(uint32_t bits) {
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    const double value = oracle_f32(magnitude);
    if (magnitude > 0x7f800000u)
        return sign | 0x7c00u | (magnitude >> 13 & 0x3ffu) | ((magnitude >> 13 & 0x3ffu) == 0);
    if (value >= 65520)
        return sign | 0x7c00u;
    if (value < 0x1p-14)
        return sign | (uint32_t)rint(value * 0x1p24);
    const int exponent = ilogb(value);
    return sign | (((uint32_t)(exponent + 15) << 10) + (uint32_t)rint(ldexp(value, 10 - exponent)) - 1024u);
}

static uint32_t bf16_of(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

static uint32_t logit_of(clmoe_logit_type type, uint32_t bits) {
    return type == CLMOE_LOGIT_F16 ? f16_of(bits) : type == CLMOE_LOGIT_BF16 ? bf16_of(bits) : bits;
}

void route_begin(route_case *c, const char *name, uint32_t T, uint32_t E, uint32_t K) {
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->num_tokens = T;
    c->desc.max_tokens = T;
    c->desc.router.num_experts = E;
    c->desc.router.top_k = K;
    c->shift = 1;
    c->scratch = POISON;
}

static uint32_t logits_stride_of(const route_case *c) {
    return c->row_stride == 0 ? c->desc.router.num_experts : c->row_stride;
}

static size_t logits_count(const route_case *c) {
    return strided_count(c->num_tokens, c->desc.router.num_experts, logits_stride_of(c)) + c->slack;
}

void route_logit_bits(route_case *c, const uint32_t *logits) {
    const uint32_t T = c->num_tokens, E = c->desc.router.num_experts, stride = logits_stride_of(c);
    const clmoe_logit_type type = c->desc.logit_type;
    const size_t count = logits_count(c), width = logit_bytes(type);
    unsigned char *const packed = allocate(count * width);
    for (size_t i = 0; i < count; ++i) { /* between the rows: what would be chosen if it were read */
        const size_t t = i / stride, e = i % stride;
        const uint32_t value = logit_of(type, t < T && e < E ? logits[t * E + e] : bits_of_float(60000));
        memcpy(packed + i * width, &value, width); /* little-endian */
    }
    free(c->logits);
    c->logits = packed;
}

void route_values(route_case *c, const float *logits) {
    const size_t count = (size_t)c->num_tokens * c->desc.router.num_experts;
    uint32_t *const bits = allocate(count * sizeof *bits);
    for (size_t i = 0; i < count; ++i)
        bits[i] = bits_of_float(logits[i]);
    route_logit_bits(c, bits);
    free(bits);
}

static float random_unit(random_stream *random) { /* -1 ... 1 */
    return (float)(int32_t)random_below(random, 1u << 25) / (float)(1 << 24) - 1;
}

static float random_normal(random_stream *random) {
    return random_unit(random) + random_unit(random) + random_unit(random) + random_unit(random);
}

static uint32_t random_nan(random_stream *random) {
    static const uint32_t list[] = {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu, 0x7fa5a5a5u, 0xffbfffffu};
    return list[random_below(random, 8)];
}

static uint32_t bad_row_logit(uint32_t kind, bool is_outlier, random_stream *random) {
    const uint32_t infinity = 0x7f800000u, sign = 0x80000000u, any = bits_of_float(random_normal(random)), nan = random_nan(random);
    const bool coin = random_below(random, 2) != 0;
    switch (kind % 9) {
    case 0: return nan;
    case 1: return infinity | sign;
    case 2: return infinity;
    case 3: return coin ? nan : any;
    case 4: return is_outlier ? any : nan;
    case 5: return is_outlier ? infinity : infinity | sign;
    case 6: return coin ? nan : infinity | sign;
    case 7: return coin ? infinity : infinity | sign;
    default: return is_outlier ? bits_of_float(-100) : 0xff7fffffu;
    }
}

static uint32_t random_logit(logit_fill how, clmoe_logit_type type, uint32_t row_value, const uint32_t *few, random_stream *random) {
    const uint32_t sign = random_below(random, 2) << 31, dice = random_below(random, 8);
    const bool is_half = type == CLMOE_LOGIT_F16;
    const float normal = 2 * random_normal(random), unit = random_unit(random);
    switch (how) {
    case LOGITS_UNIFORM: return bits_of_float(8 * unit);
    case LOGITS_FEW: return few[random_below(random, 3)];
    case LOGITS_EQUAL: return row_value;
    case LOGITS_ZEROS: return dice == 0 ? bits_of_float(normal) : sign;
    case LOGITS_DENORMAL:
        if (dice == 0)
            return sign;
        return is_half ? bits_of_float((float)random_below(random, 1024) * 0x1p-24f) | sign : random_below(random, 0x00800000u) | sign;
    case LOGITS_INFINITE: return dice < 2 ? 0x7f800000u | sign : bits_of_float(normal);
    case LOGITS_NAN: return dice < 2 ? random_nan(random) : bits_of_float(normal);
    case LOGITS_HUGE: return bits_of_float(unit * (is_half ? 65504 : 3.4e38f));
    case LOGITS_NEGATIVE: return bits_of_float(-1 - 30 * (1 + unit));
    case LOGITS_WIDE: return bits_of_float(unit * 125);
    case LOGITS_NEIGHBOURS: return (row_value & 0xfffffff0u) + (random_below(random, 16) << (type == CLMOE_LOGIT_F32 ? 0 : 13));
    case LOGITS_BF16: return bf16_of(bits_of_float(normal)) << 16;
    case LOGITS_NORMAL:
    case LOGITS_BAD_ROWS:
    case LOGITS_RAW_BITS:
    case NUM_LOGIT_FILLS: break;
    }
    return bits_of_float(normal);
}

void route_fill(route_case *c, logit_fill how, random_stream *random) {
    const uint32_t T = c->num_tokens, E = c->desc.router.num_experts;
    uint32_t *const bits = allocate((size_t)T * E * sizeof *bits);
    for (uint32_t t = 0; t < T; ++t) {
        const uint32_t row_value = bits_of_float(4 * random_normal(random)), outlier = random_below(random, E);
        const uint32_t few[3] = {row_value, bits_of_float(random_normal(random)), bits_of_float(0)};
        for (uint32_t e = 0; e < E; ++e) {
            const bool is_bad = how == LOGITS_BAD_ROWS && t % 2 == 1;
            bits[(size_t)t * E + e] =
                is_bad ? bad_row_logit(t / 2, e == outlier, random) : random_logit(how, c->desc.logit_type, row_value, few, random);
        }
    }
    route_logit_bits(c, bits);
    free(bits);
    unsigned char *const packed = c->logits;
    for (size_t i = 0; how == LOGITS_RAW_BITS && i < logits_count(c) * logit_bytes(c->desc.logit_type); ++i)
        packed[i] = (unsigned char)(random_bits(random) >> 40);
}

static uint32_t random_factor(factor_fill how, random_stream *random) {
    static const uint32_t strange[] = {0x7fc00000u, 0xff800001u, 0x7f800000u, 0xff800000u, 0x00000001u, 0x807fffffu, 0,
                                       0x80000000u, 0x00800000u, 0xbf800000u, 0x7f7fffffu, 0xff7fffffu, 0x3f800000u};
    const float unit = random_unit(random);
    switch (how) {
    case FACTORS_FEW: return bits_of_float((float)random_below(random, 3) * 0.25f - 0.25f);
    case FACTORS_LARGE: return bits_of_float(10 * unit);
    case FACTORS_STRANGE: return random_below(random, 3) == 0 ? strange[random_below(random, 13)] : bits_of_float(unit);
    case FACTORS_SMALL:
    case NUM_FACTOR_FILLS: break;
    }
    return bits_of_float(0.25f + 0.25f * unit);
}

static void set_factors(const route_case *c, uint32_t **factors, bool wanted) {
    free(*factors);
    *factors = NULL;
    if (!wanted)
        return;
    *factors = allocate((c->desc.router.num_experts + (size_t)c->slack) * sizeof **factors);
    for (uint32_t e = 0; e < c->slack; ++e)
        (*factors)[c->desc.router.num_experts + e] = bits_of_float(1000);
}

void route_factors(route_case *c, factor_fill how, random_stream *random) {
    const clmoe_router *const router = &c->desc.router;
    set_factors(c, &c->bias, router->has_bias != 0);
    set_factors(c, &c->expert_scale, router->has_expert_scale != 0);
    for (uint32_t e = 0; e < router->num_experts; ++e) {
        if (c->bias != NULL)
            c->bias[e] = random_factor(how, random);
        if (c->expert_scale != NULL)
            c->expert_scale[e] = random_factor(how, random);
    }
}

void route_bias(route_case *c, const float *bias) {
    set_factors(c, &c->bias, true);
    memcpy(c->bias, bias, c->desc.router.num_experts * sizeof *bias);
}

void route_expert_scale(route_case *c, const float *expert_scale) {
    set_factors(c, &c->expert_scale, true);
    memcpy(c->expert_scale, expert_scale, c->desc.router.num_experts * sizeof *expert_scale);
}

void route_end(route_case *c) {
    free(c->logits);
    free(c->bias);
    free(c->expert_scale);
    free(c->ids);
    free(c->weights);
    memset(c, 0, sizeof *c);
}

void route_describe(const route_case *c, char *text, size_t bytes) {
    static const char *const types[] = {"f32", "f16", "bf16"}, *const scores[] = {"softmax", "sigmoid", "sqrt softplus", "identity"};
    static const char *const filters[] = {"no", "max", "top2"}, *const sources[] = {"score", "softmax of chosen", "sigmoid of chosen"};
    static const char *const divisors[] = {"nothing", "sum", "sum + eps", "max(sum, eps)"};
    const clmoe_router *const r = &c->desc.router;
    const clmoe_tuning *const tuning = &c->desc.tuning;
    snprintf(text, bytes,
             "%s {T %u of %u, E %u, K %u, %s, stride %u, %s, softcap %g, %s, %s groups %u of %u, weights %s / %s, eps %g, scale %g, %s, "
             "shift %u, slack %u, launches %u, group size %u, groups %u}",
             c->name, c->num_tokens, c->desc.max_tokens, r->num_experts, r->top_k, types[c->desc.logit_type], c->row_stride,
             scores[r->score], (double)r->softcap, r->has_bias ? "bias" : "no bias", filters[r->group_filter], r->kept_groups,
             r->num_groups, sources[r->weight_source], divisors[r->renormalize], (double)r->epsilon, (double)r->scale,
             r->has_expert_scale ? "expert scale" : "no expert scale", c->shift, c->slack, tuning->num_launches, tuning->group_size,
             tuning->num_groups);
}

static void random_groups(clmoe_router *router, random_stream *random) {
    const uint32_t E = router->num_experts, K = router->top_k;
    router->group_filter = (clmoe_group_filter)(1 + random_below(random, 2));
    const uint32_t least = router->group_filter == CLMOE_GROUPS_TOP2_SUM ? 2 : 1;
    uint32_t divisors[40], count = 0;
    for (uint32_t groups = 1; groups <= E / least && count < 40; ++groups) {
        if (E % groups == 0)
            divisors[count++] = groups;
    }
    if (count == 0) {
        router->group_filter = CLMOE_GROUPS_NONE;
        return;
    }
    router->num_groups = divisors[random_below(random, count)];
    const uint32_t size = E / router->num_groups, fewest = (K + size - 1) / size;
    router->kept_groups = fewest + random_below(random, router->num_groups - fewest + 1);
}

void random_router(clmoe_router *router, random_stream *random) {
    const float softcaps[] = {0, 0, 0, 0, 30, 5, 0.5f, 100}, epsilons[] = {1e-20f, 1e-12f, 1e-3f, 0.5f, 0, 1.2e-38f};
    const float scales[] = {0, 0, 0, 1, 2.5f, 16, 0.125f, -1.5f, 1e-20f, 1e20f};
    const uint32_t E = router->num_experts, K = router->top_k;
    memset(router, 0, sizeof *router);
    router->num_experts = E;
    router->top_k = K;
    router->score = (clmoe_score)random_below(random, 4);
    router->softcap = softcaps[random_below(random, 8)];
    router->has_bias = (int32_t)random_below(random, 2);
    router->weight_source = (clmoe_weight_source)(random_below(random, 2) * random_below(random, 3));
    router->renormalize = (clmoe_renormalize)random_below(random, 4);
    if (router->renormalize >= CLMOE_RENORMALIZE_SUM_PLUS_EPSILON)
        router->epsilon = epsilons[random_below(random, 6)];
    router->scale = scales[random_below(random, 10)];
    router->has_expert_scale = random_below(random, 3) == 0;
    if (random_below(random, 2) == 0)
        random_groups(router, random);
}

bool route_may_refuse(const align_rig *rig, const route_case *c) {
    const clmoe_tuning *const tuning = &c->desc.tuning;
    const uint32_t E = c->desc.router.num_experts, K = c->desc.router.top_k;
    const bool forced = tuning->num_launches != 0 || tuning->group_size != 0 || tuning->num_groups != 0;
    return rig->ends_long_loops && (E > 2048 || K >= 1000 || (E > 1024 && K > 32) || c->desc.router.num_groups > 128 ||
                                    (forced && (uint64_t)c->desc.max_tokens * E * K > 20000));
}

static clmoe_status enqueue_route(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                                  cl_event *event) {
    return clmoe_route_enqueue(plan, queue, args, waits, list, event);
}

void route_call(op_call *call, clmoe_route_args *args, clmoe_plan *plan, const route_case *c) {
    const size_t width = logit_bytes(c->desc.logit_type), E = c->desc.router.num_experts, slack = c->slack;
    const size_t result = (size_t)c->num_tokens * c->desc.router.top_k * 4, logits = c->num_tokens == 0 ? 0 : logits_count(c) * width;
    memset(call, 0, sizeof *call);
    memset(args, 0, sizeof *args);
    route_describe(c, call->name, sizeof call->name);
    call->plan = plan;
    call->args = args;
    call->args_bytes = sizeof *args;
    call->enqueue = enqueue_route;
    call->shift = c->shift;
    call->scratch = c->scratch;
    args->num_tokens = c->num_tokens;
    args->row_stride = c->row_stride;
    call->operands[ROUTE_LOGITS] =
        (operand){.name = "logits", .view = &args->logits, .width = width, .bytes = logits, .spare = slack * width, .before = c->logits};
    call->operands[ROUTE_BIAS] = (operand){.name = "bias",
                                           .view = &args->bias,
                                           .width = 4,
                                           .bytes = c->bias == NULL ? 0 : (E + slack) * 4,
                                           .spare = slack * 4,
                                           .before = c->bias};
    call->operands[ROUTE_EXPERT_SCALE] = (operand){.name = "expert_scale",
                                                   .view = &args->expert_scale,
                                                   .width = 4,
                                                   .bytes = c->expert_scale == NULL ? 0 : (E + slack) * 4,
                                                   .spare = slack * 4,
                                                   .before = c->expert_scale};
    call->operands[ROUTE_IDS] =
        (operand){.name = "topk_ids", .view = &args->topk_ids, .width = 4, .bytes = result, .is_output = true, .is_judged = true};
    call->operands[ROUTE_WEIGHTS] =
        (operand){.name = "topk_weights", .view = &args->topk_weights, .width = 4, .bytes = result, .is_output = true, .is_judged = true};
    call->num_operands = ROUTE_WORKSPACE;
    call_workspace(call, &args->workspace, 4);
}

bool route_judge(align_rig *rig, const op_call *call, route_case *c) {
    const uint32_t T = c->num_tokens, K = c->desc.router.top_k, stride = logits_stride_of(c);
    const size_t bytes = (size_t)T * K * 4;
    free(c->ids);
    free(c->weights);
    c->ids = allocate(bytes);
    c->weights = allocate(bytes);
    if (bytes == 0)
        return true;
    memcpy(c->ids, call_output(rig, call, ROUTE_IDS), bytes);
    memcpy(c->weights, call_output(rig, call, ROUTE_WEIGHTS), bytes);
    rig->hash = hash64_of(hash64_of(rig->hash, c->ids, bytes), c->weights, bytes);
    for (uint32_t t = 0; t < T; ++t) {
        const unsigned char *const logits = (const unsigned char *)c->logits + (size_t)t * stride * logit_bytes(c->desc.logit_type);
        const oracle_route_inputs inputs = {&c->desc.router, c->desc.logit_type, logits, c->bias, c->expert_scale};
        oracle_route_row row = oracle_route(&inputs);
        const oracle_verdict verdict = oracle_route_judge(&row, c->ids + (size_t)t * K, c->weights + (size_t)t * K);
        oracle_route_free(&row);
        c->unclear += !verdict.is_clear;
        c->unweighed += verdict.unweighed;
        if (!verdict.is_right)
            return call_fail(rig, call, "row %u: %s", t, verdict.text);
    }
    return true;
}

bool run_route(align_rig *rig, clmoe_plan *plan, route_case *c) {
    op_call call;
    clmoe_route_args args;
    const uint64_t refused = rig->calls_refused;
    route_call(&call, &args, plan, c);
    call.may_refuse = route_may_refuse(rig, c);
    free(c->ids);
    c->ids = NULL;
    if (!call_run(rig, &call))
        return false;
    return rig->calls_refused != refused || route_judge(rig, &call, c);
}

bool run_route_once(align_rig *rig, route_case *c) {
    clmoe_plan *plan = NULL;
    const clmoe_status status = clmoe_route_plan_create(rig->context, &c->desc, &plan);
    free(c->ids);
    c->ids = NULL;
    if (status == CLMOE_UNSUPPORTED && route_may_refuse(rig, c)) {
        ++rig->calls_refused;
        return true;
    }
    if (status != CLMOE_SUCCESS) {
        char text[400], name[480];
        clmoe_context_error(rig->context, text, sizeof text);
        route_describe(c, name, sizeof name);
        snprintf(rig->failure, sizeof rig->failure, "%s\n    plan: %s: %s", name, clmoe_status_name(status), text);
        return false;
    }
    const bool ok = run_route(rig, plan, c);
    clmoe_plan_destroy(plan);
    return ok;
}

bool fixture_fits(const char *pair, const align_case *c) {
    const uint64_t items = (uint64_t)c->num_tokens * c->desc.top_k + case_capacity(c);
    return items <= (strstr(pair, "oclgrind") != NULL ? 20000u : strstr(pair, "rusticl") != NULL ? 1u << 19 : 1u << 24);
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------------- */
#ifndef CLMOE_TEST_DATA
#define CLMOE_TEST_DATA "tests/data"
#endif

int32_t *fixture_npy_i32(const char *file, size_t count) {
    char path[1024];
    unsigned char header[128];
    snprintf(path, sizeof path, "%s/%s", CLMOE_TEST_DATA, file);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        return NULL;
    }
    int32_t *values = allocate(count * sizeof *values);
    const bool ok = fread(header, 1, sizeof header, stream) == sizeof header && memcmp(header, "\x93NUMPY\x01\x00\x76\x00", 10) == 0 &&
                    fread(values, sizeof *values, count, stream) == count && fgetc(stream) == EOF;
    fclose(stream);
    if (ok)
        return values;
    fprintf(stderr, "%s: not the .npy file that was expected\n", path);
    free(values);
    return NULL;
}
