/* test_scatter.c - scatter and gather on one pair of device and class: known answers, every row size, index type and byte offset,
 * duplicates, indices out of range, broken promises, neighbours in one buffer, forced tuning, used workspaces, and every refusal. The
 * oracle is a loop over memcpy; every call has guards round all its memory, and all that is not to be written is compared. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST_BYTES ((size_t)7 << 19) /* of rows, on either side of a call */
#define MOST_ITEMS 200000u
#define POISON 0xA5
#define COUNT(array) (sizeof(array) / sizeof *(array))

static align_rig rig; /* of refusals and queues; ordinary calls have memory of their own, below */
static random_stream chance;
static uint64_t calls;
static uint32_t plans_refused, calls_refused, refused_unforced;
static const clmoe_type types[] = {CLMOE_TYPE_I32, CLMOE_TYPE_U32, CLMOE_TYPE_I64, CLMOE_TYPE_U64};
static const uint32_t row_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 64, 100, 128, 255, 256, 257, 1000, 4096, 10000};
static const uint32_t item_counts[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000, 4097, 65537};

/* ---- The operators, and what they must do --------------------------------------------------------------------------------------- */
typedef enum operation { UNIQUE, LAST_WINS, GATHER, NUM_OPERATIONS } operation;
static const char *const operation_names[] = {"scatter unique", "scatter last wins", "gather"};

typedef struct way {
    clmoe_scatter_desc desc;
    operation op;
} way;

static way way_of(operation op, clmoe_type type, uint32_t row_bytes, uint32_t max_items, uint32_t max_rows) {
    way w = {{0}, op};
    w.desc.max_items = max_items;
    w.desc.max_rows = max_rows;
    w.desc.row_bytes = row_bytes;
    w.desc.index_type = type;
    w.desc.duplicates = op == LAST_WINS ? CLMOE_DUPLICATES_LAST_WINS : CLMOE_DUPLICATES_UNIQUE;
    return w;
}

static size_t index_bytes(clmoe_type type) {
    return type == CLMOE_TYPE_I64 || type == CLMOE_TYPE_U64 ? 8 : 4;
}

/* An index as a row number; whatever is out of range is at least num_rows, which is below 2^31. */
static uint64_t index_at(clmoe_type type, const void *index, size_t i) {
    const unsigned char *const at = (const unsigned char *)index + i * index_bytes(type);
    int32_t narrow;
    uint32_t narrow_unsigned;
    uint64_t wide;
    switch ((int)type) {
    case CLMOE_TYPE_I32: memcpy(&narrow, at, 4); return (uint64_t)(int64_t)narrow;
    case CLMOE_TYPE_U32: memcpy(&narrow_unsigned, at, 4); return narrow_unsigned;
    default: memcpy(&wide, at, 8); return wide;
    }
}

static uint32_t oracle_move(const way *w, uint32_t n, uint32_t rows, const void *index, const unsigned char *source, unsigned char *out) {
    const size_t bytes = w->desc.row_bytes;
    uint32_t skipped = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint64_t row = index_at(w->desc.index_type, index, i);
        skipped += row >= rows;
        if (row >= rows && w->op == GATHER)
            memset(out + i * bytes, 0, bytes);
        else if (row < rows && w->op == GATHER)
            memcpy(out + i * bytes, source + row * bytes, bytes);
        else if (row < rows)
            memcpy(out + row * bytes, source + i * bytes, bytes);
    }
    return skipped;
}

static bool has_duplicates(const way *w, uint32_t n, uint32_t rows, const void *index) {
    unsigned char *const named = test_calloc((size_t)rows + 1, 1);
    bool found = false;
    for (size_t i = 0; i < n && !found; ++i) {
        const uint64_t row = index_at(w->desc.index_type, index, i);
        found = row < rows && named[row]++ != 0;
    }
    test_free(named);
    return found;
}

/* Of a scatter whose promise is broken: rows without an index are as before, every other byte is that of one of the row's sources. */
static bool could_be(const way *w, uint32_t n, uint32_t rows, const void *index, const unsigned char *source, const unsigned char *before,
                     const unsigned char *found) {
    const size_t bytes = w->desc.row_bytes;
    unsigned char *const right = test_malloc(rows * bytes + 1), *const named = test_calloc((size_t)rows + 1, 1);
    bool all = true;
    for (size_t at = 0; at < rows * bytes; ++at)
        right[at] = found[at] == before[at];
    for (size_t i = 0; i < n; ++i) {
        const uint64_t row = index_at(w->desc.index_type, index, i);
        if (row >= rows)
            continue;
        if (named[row]++ == 0)
            memset(right + row * bytes, 0, bytes);
        named[row] = 1;
        for (size_t b = 0; b < bytes; ++b)
            right[row * bytes + b] |= found[row * bytes + b] == source[i * bytes + b];
    }
    for (size_t at = 0; at < rows * bytes; ++at)
        all = all && right[at];
    test_free(right);
    test_free(named);
    return all;
}

/* ---- Contents ------------------------------------------------------------------------------------------------------------------- */
static unsigned char *pool;     /* random bytes, from which rows come */
static unsigned char *numbers;  /* the index, packed as its type, and some that lie behind it */
static unsigned char *expected; /* destination */
static uint32_t *order;

typedef enum index_fill {
    INDEX_PERMUTED, /* these three have no duplicates; what has no row is out of range */
    INDEX_ASCENDING,
    INDEX_DESCENDING,
    INDEX_FEW_DUPLICATES,
    INDEX_SAME,
    INDEX_THREE_ROWS,
    INDEX_RANDOM,
    INDEX_RAW_BITS,
    NUM_INDEX_FILLS
} index_fill;

static void put_index(clmoe_type type, size_t i, uint64_t value) {
    const uint32_t narrow = (uint32_t)value;
    if (index_bytes(type) == 4)
        memcpy(numbers + i * 4, &narrow, 4);
    else
        memcpy(numbers + i * 8, &value, 8);
}

static uint64_t out_of_range(clmoe_type type, uint32_t rows) {
    const uint64_t some = random_below(&chance, rows + 1), two_to_32 = (uint64_t)1 << 32;
    const uint64_t narrow[] = {UINT32_MAX, rows, (uint64_t)INT32_MAX + 1, INT32_MAX, rows + some, UINT32_MAX - some};
    const uint64_t wide[] = {
        UINT64_MAX,        rows,      two_to_32 + 1, 0 - (two_to_32 << 8), two_to_32 + some, 0 - two_to_32 + some, rows + some, two_to_32,
        (uint64_t)1 << 63, INT64_MAX, UINT32_MAX,    (some + 1) << 32};
    return index_bytes(type) == 4 ? narrow[random_below(&chance, COUNT(narrow))] : wide[random_below(&chance, COUNT(wide))];
}

static void draw(clmoe_type type, uint32_t n, uint32_t rows, index_fill how, uint32_t percent_out_of_range) {
    for (uint32_t i = 0; i < rows && how <= INDEX_FEW_DUPLICATES; ++i) {
        const uint32_t other = random_below(&chance, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (uint32_t i = 0; i < n + 20; ++i) {
        uint64_t value = out_of_range(type, rows);
        if (i >= n)
            value = rows == 0 ? 0 : i % rows; /* behind the index: not to be read */
        else if (random_below(&chance, 100) < percent_out_of_range || rows == 0)
            ;
        else if (how <= INDEX_FEW_DUPLICATES && i < rows)
            value = how == INDEX_ASCENDING    ? i
                    : how == INDEX_DESCENDING ? rows - 1 - i
                    : how == INDEX_FEW_DUPLICATES && i > 0 && (i == n - 1 || random_below(&chance, 20) == 0)
                        ? order[random_below(&chance, i)]
                        : order[i];
        else if (how == INDEX_SAME)
            value = rows - 1 - rows / 3;
        else if (how == INDEX_THREE_ROWS)
            value = random_below(&chance, rows < 3 ? rows : 3);
        else if (how == INDEX_RANDOM)
            value = random_below(&chance, rows);
        else if (how == INDEX_RAW_BITS)
            value = random_bits(&chance) >> (random_below(&chance, 2) * random_below(&chance, 64));
        put_index(type, i, value);
    }
}

/* ---- One call ------------------------------------------------------------------------------------------------------------------- */
enum { SOURCE, INDEX, DESTINATION, SKIPPED, WORKSPACE, NUM_BLOCKS };
static const char *const block_names[] = {"source", "index", "destination", "skipped", "workspace"};

/* Guard, view, guard. */
static struct block {
    clmoe_buffer outer, view;
    size_t capacity, begin, bytes, end;
    unsigned char *image, *back;
} blocks[NUM_BLOCKS];

typedef struct job {
    way w;
    uint32_t n, rows;
    bool no_skipped, keep_workspace;
    uint32_t source_shift, destination_shift, shift; /* bytes, bytes, elements by which views are off a multiple of 64 bytes */
    uint32_t slack;                                  /* items and bytes by which inputs are longer than needed */
    unsigned char scratch;
    const char *name;
} job;

static bool place(int number, size_t shift, size_t bytes, const void *content, unsigned char filler, size_t guard, bool keep) {
    struct block *const b = &blocks[number];
    const size_t before = b->begin, bytes_before = b->bytes;
    b->begin = guard + shift;
    b->bytes = bytes;
    b->end = b->begin + bytes + guard;
    memset(&b->view, 0, sizeof b->view);
    if (b->end > b->capacity) {
        clmoe_buffer_destroy(rig.context, b->outer);
        b->capacity = b->end * 2;
        b->image = realloc(b->image, b->capacity);
        b->back = realloc(b->back, b->capacity);
        if (b->image == NULL || b->back == NULL || clmoe_buffer_create(rig.context, b->capacity, &b->outer) != CLMOE_SUCCESS)
            return false;
        keep = false;
    }
    if (bytes != 0) {
        b->view = b->outer;
        b->view.offset_bytes += b->begin;
        b->view.size_bytes = bytes;
    }
    if (keep && before == b->begin && bytes_before == bytes)
        return true;
    memset(b->image, POISON, b->end);
    memset(b->image + b->begin, filler, bytes);
    if (content != NULL && bytes != 0)
        memcpy(b->image + b->begin, content, bytes);
    return clmoe_buffer_write(rig.context, b->outer, b->image, b->end) == CLMOE_SUCCESS;
}

static clmoe_status enqueue_scatter(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                                    cl_event *event) {
    return clmoe_scatter_enqueue(plan, queue, args, waits, list, event);
}

static clmoe_status enqueue_gather(clmoe_plan *plan, cl_command_queue queue, const void *args, cl_uint waits, const cl_event *list,
                                   cl_event *event) {
    return clmoe_gather_enqueue(plan, queue, args, waits, list, event);
}

static bool is_forced(const way *w) {
    return w->desc.tuning.num_launches != 0 || w->desc.tuning.group_size != 0 || w->desc.tuning.num_groups != 0;
}

static bool may_refuse(void) { /* a driver that ends long loops */
    return fixture_pair_has("rusticl");
}

static const char *error_text(void) {
    static char text[600];
    clmoe_context_error(rig.context, text, sizeof text);
    return text;
}

static const char *job_text(const job *j) {
    static char text[400];
    const clmoe_scatter_desc *const d = &j->w.desc;
    snprintf(
        text, sizeof text,
        "%s {%s, n %u of %u, rows %u of %u, row_bytes %u, index type %d, offsets %u %u %u, slack %u, %s skipped, launches %u, groups %u, "
        "group size %u}",
        j->name, operation_names[j->w.op], j->n, d->max_items, j->rows, d->max_rows, d->row_bytes, (int)d->index_type, j->source_shift,
        j->destination_shift, j->shift, j->slack, j->no_skipped ? "without" : "with", d->tuning.num_launches, d->tuning.num_groups,
        d->tuning.group_size);
    return text;
}

/* Plans that live as long as the context, so that its programs are compiled once. */
static clmoe_plan *keepers[64];
static size_t num_keepers;

/* NULL if the driver makes it impossible. */
static clmoe_plan *plan_for(const way *w) {
    clmoe_plan *plan = NULL;
    clmoe_plan_info info;
    const clmoe_status status = (w->op == GATHER ? clmoe_gather_plan_create : clmoe_scatter_plan_create)(rig.context, &w->desc, &plan);
    if (status == CLMOE_UNSUPPORTED && may_refuse()) {
        ++plans_refused;
        refused_unforced += !is_forced(w);
        return NULL;
    }
    if (status != CLMOE_SUCCESS) {
        const job j = {.w = *w, .name = "plan"};
        fail_msg("%s: %s: %s", job_text(&j), clmoe_status_name(status), error_text());
    }
    if (num_keepers < COUNT(keepers) && clmoe_plan_describe(plan, 0, &info) == CLMOE_SUCCESS &&
        info.program_origin != CLMOE_PROGRAM_NATIVE && info.program_origin != CLMOE_PROGRAM_SHARED) {
        keepers[num_keepers++] = plan;
        return plan_for(w);
    }
    return plan;
}

static void compare(const job *j, int number, size_t begin, size_t end, const unsigned char *should, const char *what) {
    const unsigned char *const found = blocks[number].back + begin;
    if (memcmp(found, should, end - begin) == 0)
        return;
    size_t wrong = 0, first = 0;
    for (size_t i = end - begin; i-- > 0;) {
        if (found[i] != should[i]) {
            first = i;
            ++wrong;
        }
    }
    const ptrdiff_t at = (ptrdiff_t)(begin + first) - (ptrdiff_t)blocks[number].begin;
    fail_msg("%s\n    %s: %s: byte %td is 0x%02x, should be 0x%02x; %zu are wrong", job_text(j), block_names[number], what, at,
             found[first], should[first], wrong);
}

static size_t source_rows(const job *j) {
    return j->w.op == GATHER ? j->rows : j->n;
}

static size_t destination_rows(const job *j) {
    return j->w.op == GATHER ? j->n : j->rows;
}

/* The call with the index of the last draw(), and the check of every byte. False if the driver makes it impossible. */
static bool run(clmoe_plan *plan, const job *j) {
    const size_t row = j->w.desc.row_bytes, width = index_bytes(j->w.desc.index_type), guard = row < 4 ? 256 : row < 256 ? 64 * row : 16384;
    const size_t source_bytes = source_rows(j) * row, destination_bytes = destination_rows(j) * row;
    const unsigned char *const rows = pool + random_below(&chance, 4096), *const before = pool + 4096 + random_below(&chance, 4096);
    const bool gather = j->w.op == GATHER;
    clmoe_scatter_args args = {.num_items = j->n, .num_rows = j->rows};
    assert_true(j->n <= MOST_ITEMS && source_bytes <= MOST_BYTES && destination_bytes <= MOST_BYTES);
    if (!place(SOURCE, j->source_shift, source_bytes == 0 ? 0 : source_bytes + j->slack, rows, 0, guard, false) ||
        !place(INDEX, j->shift * width, j->n == 0 ? 0 : (j->n + j->slack) * width, numbers, 0, 1024, false) ||
        !place(DESTINATION, j->destination_shift, destination_bytes, gather ? NULL : before, POISON, guard, false) ||
        !place(SKIPPED, j->shift * 4, j->no_skipped ? 0 : 4, NULL, POISON, 256, false) ||
        !place(WORKSPACE, j->shift % 2 * 4, clmoe_plan_workspace_bytes(plan), NULL, j->scratch, 1024, j->keep_workspace))
        fail_msg("%s: no memory", job_text(j));
    args.source = blocks[SOURCE].view;
    args.index = blocks[INDEX].view;
    args.destination = blocks[DESTINATION].view;
    args.skipped = blocks[SKIPPED].view;
    args.workspace = blocks[WORKSPACE].view;
    const clmoe_status status = (gather ? enqueue_gather : enqueue_scatter)(plan, rig.queue, &args, 0, NULL, NULL);
    const bool refused = status == CLMOE_UNSUPPORTED && may_refuse();
    if (status != CLMOE_SUCCESS && !refused)
        fail_msg("%s: %s: %s", job_text(j), clmoe_status_name(status), error_text());
    if (rig.queue != NULL && clFinish(rig.queue) != CL_SUCCESS)
        fail_msg("%s: clFinish", job_text(j));
    for (int i = 0; i < NUM_BLOCKS; ++i) {
        struct block *const b = &blocks[i];
        if (clmoe_buffer_read(rig.context, b->outer, b->back, b->end) != CLMOE_SUCCESS)
            fail_msg("%s: reading", job_text(j));
        compare(j, i, 0, b->begin, b->image, "the guard in front");
        compare(j, i, b->begin + b->bytes, b->end, b->image + b->begin + b->bytes, "the guard behind");
        if (i == SOURCE || i == INDEX || (refused && i != WORKSPACE))
            compare(j, i, 0, b->end, b->image, "not to be written");
    }
    calls_refused += refused;
    refused_unforced += refused && !is_forced(&j->w);
    if (refused)
        return false;
    ++calls;
    struct block *const d = &blocks[DESTINATION];
    memcpy(expected, d->image + d->begin, destination_bytes);
    const uint32_t skipped = oracle_move(&j->w, j->n, j->rows, numbers, rows, expected);
    if (j->w.op != UNIQUE || !has_duplicates(&j->w, j->n, j->rows, numbers))
        compare(j, DESTINATION, d->begin, d->begin + d->bytes, expected, "the result");
    else if (!could_be(&j->w, j->n, j->rows, numbers, rows, before, d->back + d->begin))
        fail_msg("%s\n    destination: bytes that come from nowhere, or in rows without an index", job_text(j));
    if (!j->no_skipped)
        compare(j, SKIPPED, blocks[SKIPPED].begin, blocks[SKIPPED].begin + 4, (const unsigned char *)&skipped, "the number");
    return true;
}

static job job_of(const way *w, uint32_t n, uint32_t rows, const char *name) { /* with views anywhere */
    job j = {.w = *w, .n = n, .rows = rows, .name = name, .scratch = POISON};
    j.no_skipped = random_below(&chance, 2) != 0;
    j.source_shift = random_below(&chance, 16);
    j.destination_shift = random_below(&chance, 16);
    j.shift = random_below(&chance, 8);
    j.slack = random_below(&chance, 3) == 0 ? random_below(&chance, 20) : 0;
    return j;
}

static bool fits(const way *w, uint32_t n, uint32_t rows) {
    const size_t limit = fixture_pair_has("rusticl") ? MOST_BYTES / 16 : MOST_BYTES;
    return n <= MOST_ITEMS && rows <= MOST_ITEMS && (size_t)(n > rows ? n : rows) * w->desc.row_bytes <= limit;
}

static void check(clmoe_plan *plan, const way *w, uint32_t n, uint32_t rows, index_fill how, uint32_t percent_out_of_range,
                  const char *name) {
    const job j = job_of(w, n, rows, name);
    if (plan == NULL)
        return;
    draw(w->desc.index_type, n, rows, how, percent_out_of_range);
    run(plan, &j);
}

static clmoe_device_info device(void) {
    clmoe_device_info info;
    assert_int_equal(clmoe_context_describe(rig.context, &info), CLMOE_SUCCESS);
    return info;
}

/* ---- Known answers -------------------------------------------------------------------------------------------------------------- */
static void test_golden(void **state) { /* C21, C19 and the header's rules, by hand */
    (void)state;
    const uint8_t source[] = {11, 12, 13, 14, 15}, index[] = {0, 1, 1, 1, 2};
    for (uint32_t t = 0; t < 4; ++t) {
        for (uint32_t op = LAST_WINS; op <= GATHER; ++op) {
            const way w = way_of((operation)op, types[t], 1, 5, 9);
            unsigned char out[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, nine[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
            for (size_t i = 0; i < 5; ++i)
                put_index(types[t], i, i == 4 && op == GATHER ? 9 : index[i]);
            const uint32_t skipped = oracle_move(&w, 5, 9, numbers, op == GATHER ? nine : source, out);
            assert_int_equal(skipped, op == GATHER);
            assert_memory_equal(out, op == GATHER ? "\1\2\2\2\0\6\7\10\11" : "\13\16\17\4\5\6\7\10\11", 9);
            for (uint32_t r = 0; r < COUNT(row_sizes); ++r) {
                const way wide = way_of((operation)op, types[t], row_sizes[r], 5, 9);
                clmoe_plan *plan = (r + t) % 4 != 0 ? NULL : plan_for(&wide);
                const job j = job_of(&wide, 5, 9, "C21");
                if (plan != NULL)
                    run(plan, &j);
                clmoe_plan_destroy(plan);
            }
        }
    }
}

static void test_many_duplicates(void **state) { /* C21: 100,000 on 1000 rows */
    (void)state;
    for (uint32_t op = UNIQUE; op < NUM_OPERATIONS; ++op) {
        const way w = way_of((operation)op, CLMOE_TYPE_I32, 4, 100000, 1000);
        const uint32_t repeats = op == LAST_WINS ? fixture_cases(100, 100, 20) : 5;
        clmoe_plan *plan = plan_for(&w);
        for (uint32_t i = 0; i < 100000; ++i)
            put_index(w.desc.index_type, i, mix(i) % 1000);
        for (uint32_t repeat = 0; plan != NULL && repeat < repeats; ++repeat) {
            job j = job_of(&w, 100000, 1000, "C21, 100,000");
            j.slack = 0;
            run(plan, &j);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_nothing_to_do(void **state) { /* C19 */
    (void)state;
    for (uint32_t v = 0; v < 12; ++v) {
        for (uint32_t room = 0; room < 2; ++room) {
            const uint32_t sizes[][2] = {{0, 0}, {0, 7}, {5, 0}, {0, 0}, {5, 7}, {0, 7}};
            const way w = way_of((operation)(v % 3), types[v / 3], room == 0 ? 3 : 16, room == 0 ? 5 : 1000, room == 0 ? 7 : 1000);
            clmoe_plan *plan = plan_for(&w);
            for (size_t s = 0; plan != NULL && s < COUNT(sizes); ++s)
                check(plan, &w, sizes[s][0], sizes[s][1], INDEX_RANDOM, 0, "C19");
            clmoe_plan_destroy(plan);
            const way none = way_of((operation)(v % 3), types[v / 3], w.desc.row_bytes, room == 0 ? 0 : 5, 0);
            plan = plan_for(&none);
            check(plan, &none, 0, 0, INDEX_RANDOM, 0, "C19, no room");
            check(plan, &none, none.desc.max_items, 0, INDEX_RANDOM, 0, "C19, no rows");
            clmoe_plan_destroy(plan);
        }
    }
}

/* ---- Sizes and places ----------------------------------------------------------------------------------------------------------- */
static void test_rows_and_counts(void **state) {
    (void)state;
    uint32_t turn = 0;
    for (uint32_t r = 0; r < COUNT(row_sizes); ++r) {
        for (uint32_t op = 0; op < NUM_OPERATIONS; ++op, ++turn) {
            const way w = way_of((operation)op, types[(r + op) % 4], row_sizes[r], MOST_ITEMS, MOST_ITEMS);
            clmoe_plan *plan = plan_for(&w);
            for (uint32_t s = 0; plan != NULL && s < COUNT(item_counts); ++s, ++turn) {
                const uint32_t n = item_counts[s], counts[] = {n, n + 7, n / 2, 1, 3 * n, n == 0 ? 0 : n - 1}, rows = counts[turn % 6];
                const index_fill how = (index_fill)(turn / 6 % NUM_INDEX_FILLS);
                if (!fits(&w, n, rows))
                    continue;
                if (turn % 3 == 0 || !fixture_pair_has("rusticl"))
                    check(plan, &w, n, rows, INDEX_PERMUTED, 0, "counts, permuted");
                check(plan, &w, n, rows, how, turn % 5 == 0 ? 100 : turn % 5 * 10, "counts");
            }
            clmoe_plan_destroy(plan);
        }
    }
}

static void test_long_rows(void **state) { /* longer than a loop of some drivers */
    (void)state;
    const uint32_t sizes[] = {32767, 65535, 65536, 65544, 131073, 262144, 458752};
    for (uint32_t v = 0; v < 3 * COUNT(sizes); ++v) {
        const way w = way_of((operation)(v % 3), types[v % 4], sizes[v / 3], 7, 7);
        clmoe_plan *plan = plan_for(&w);
        for (uint32_t n = 1; plan != NULL && n <= 7 && n * sizes[v / 3] <= MOST_BYTES; ++n) {
            job j = job_of(&w, n, 1 + (n + v) % 7, "long rows");
            j.source_shift = n % 3 == 0 ? 8 : j.source_shift;
            j.destination_shift = n % 3 == 0 ? 0 : j.destination_shift;
            draw(w.desc.index_type, n, j.rows, n % 2 == 0 ? INDEX_PERMUTED : INDEX_RANDOM, 10);
            run(plan, &j);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_exact_plans(void **state) { /* room for just this call, so that the workspace is as small as it can be */
    (void)state;
    const uint32_t rows[] = {0, 1, 5, 300, 70000};
    uint32_t turn = 0;
    for (uint32_t s = 0; s < COUNT(item_counts); ++s) {
        for (uint32_t k = 0; k < COUNT(rows); ++k) {
            for (uint32_t op = 0; op < NUM_OPERATIONS; ++op, ++turn) {
                const uint32_t n = item_counts[s], bytes = turn % 4 == 0 ? 8 : turn % 4 == 1 ? 3 : turn % 4 == 2 ? 16 : 4;
                const way w = way_of((operation)op, types[turn / 3 % 4], bytes, n, rows[k]);
                if (!fits(&w, n, rows[k]) || (fixture_pair_has("rusticl") && turn % 5 > 1)) /* plans take it long */
                    continue;
                clmoe_plan *plan = plan_for(&w);
                if (plan == NULL)
                    continue;
                check(plan, &w, n, rows[k], INDEX_RANDOM, 5, "exact plan");
                clmoe_plan_destroy(plan);
            }
        }
    }
}

static void test_descriptions(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 24; ++v) {
        const uint32_t n = v < 12 ? 65537 : 40, bytes = 4 + v % 5;
        const way w = way_of((operation)(v % 3), types[v / 3 % 4], bytes, n, 1000);
        clmoe_plan_info info;
        clmoe_plan *plan = plan_for(&w);
        if (plan == NULL || (clmoe_plan_describe(plan, n, &info) == CLMOE_UNSUPPORTED && may_refuse())) {
            clmoe_plan_destroy(plan);
            continue;
        }
        assert_int_equal(clmoe_plan_describe(plan, n, &info), CLMOE_SUCCESS);
        assert_int_equal(info.workspace_bytes, clmoe_plan_workspace_bytes(plan));
        assert_true(info.bytes_written >= (uint64_t)n * bytes && info.bytes_read >= n * (bytes + index_bytes(w.desc.index_type)));
        assert_in_range(info.num_launches, 1, w.op == LAST_WINS ? 3 : 1);
        assert_int_equal(info.kernel_class, device().kernel_class);
        if (strstr(info.name, w.op == GATHER ? "gather" : "scatter") == NULL)
            fail_msg("a plan of %s is called \"%s\"", operation_names[w.op], info.name);
        clmoe_plan_destroy(plan);
    }
}

static void test_every_offset(void **state) { /* rows need no alignment: every pair of source and destination, modulo 16 */
    (void)state;
    const uint32_t bytes[] = {1, 2, 4, 16, 3, 8, 12, 24, 64, 100, 257, 32};
    const uint32_t step = fixture_pair_has("rusticl") ? 5 : 1;
    for (uint32_t r = 0; r < COUNT(bytes); ++r) {
        for (uint32_t op = 0; op < NUM_OPERATIONS; ++op) {
            const way w = way_of((operation)op, types[(r + op) % 4], bytes[r], 70, 90);
            clmoe_plan *plan = plan_for(&w);
            for (uint32_t pair = (r + op) % step; plan != NULL && pair < 256; pair += step) {
                job j = job_of(&w, 1 + pair % 37, 41, "offsets");
                j.source_shift = pair / 16;
                j.destination_shift = pair % 16;
                draw(w.desc.index_type, j.n, j.rows, pair % 2 == 0 ? INDEX_PERMUTED : INDEX_FEW_DUPLICATES, 10);
                run(plan, &j);
            }
            clmoe_plan_destroy(plan);
        }
    }
}

static void test_out_of_range(void **state) { /* every type; none, some and all; the values that are near a row if cut to 32 bits */
    (void)state;
    for (uint32_t v = 0; v < 12; ++v) {
        const way w = way_of((operation)(v % 3), types[v / 3], v % 2 == 0 ? 4 : 7, 5000, 5000);
        const uint32_t rows[] = {1, 2, 37, 1000, 5000};
        clmoe_plan *plan = plan_for(&w);
        for (size_t k = 0; plan != NULL && k < COUNT(rows); ++k) {
            check(plan, &w, 300, rows[k], INDEX_PERMUTED, 50, "out of range");
            check(plan, &w, 5000, rows[k], INDEX_RANDOM, 90, "mostly out of range");
            check(plan, &w, 5000, rows[k], INDEX_PERMUTED, 100, "all out of range");
            check(plan, &w, 2000, rows[k], INDEX_RAW_BITS, 0, "any bits");
        }
        clmoe_plan_destroy(plan);
    }
}

/* All in one buffer, each view next to another one, bytes apart or not at all: what is written wider than it should be is seen. */
static void test_neighbours(void **state) {
    (void)state;
    const uint32_t bytes[] = {1, 2, 3, 4, 5, 8, 16, 17, 31, 64};
    for (uint32_t turn = 0; turn < 10 * 3 * 8; turn += fixture_pair_has("rusticl") ? 5 : 1) {
        const way w = way_of((operation)(turn % 3), types[turn / 3 % 4], bytes[turn / 24], 400, 400);
        const uint32_t n = random_below(&chance, 399) + 1, rows = random_below(&chance, 399) + 1, shift = random_below(&chance, 16);
        const job j = {.w = w, .n = n, .rows = rows, .name = "neighbours"};
        const size_t row = w.desc.row_bytes, width = index_bytes(w.desc.index_type);
        const size_t source_bytes = source_rows(&j) * row, destination_bytes = destination_rows(&j) * row;
        clmoe_plan *plan = plan_for(&w);
        if (plan == NULL)
            continue;
        const size_t source = 512 + shift, destination = turn / 12 % 2 == 0 ? source + source_bytes : source + 3;
        const size_t from = turn / 12 % 2 == 0 ? source : source + 3 + destination_bytes;
        const size_t behind = destination == source + 3 ? from + source_bytes : destination + destination_bytes;
        const size_t index = (behind + width - 1) / width * width, skipped = index + n * width, workspace = skipped + 4;
        const size_t end = workspace + clmoe_plan_workspace_bytes(plan);
        unsigned char *const image = test_malloc(end);
        memcpy(image, pool + shift, end < MOST_BYTES ? end : 0);
        draw(w.desc.index_type, n, rows, INDEX_PERMUTED, 10);
        memcpy(image + index, numbers, n * width);
        if (!place(SOURCE, 0, end, image, 0, 256, false))
            fail_msg("no memory");
        clmoe_scatter_args args = {.num_items = n, .num_rows = rows};
        clmoe_buffer *const views[] = {&args.source, &args.index, &args.destination, &args.skipped, &args.workspace};
        const size_t at[] = {from, index, destination, skipped, workspace};
        const size_t sizes[] = {source_bytes, n * width, destination_bytes, 4, end - workspace};
        for (size_t i = 0; i < NUM_BLOCKS; ++i) {
            if (sizes[i] == 0)
                continue;
            *views[i] = blocks[SOURCE].view;
            views[i]->offset_bytes += at[i];
            views[i]->size_bytes = sizes[i];
        }
        const clmoe_status status = (w.op == GATHER ? enqueue_gather : enqueue_scatter)(plan, rig.queue, &args, 0, NULL, NULL);
        if (status != CLMOE_SUCCESS)
            fail_msg("%s: %s: %s", job_text(&j), clmoe_status_name(status), error_text());
        if (rig.queue != NULL)
            clFinish(rig.queue);
        const uint32_t count = oracle_move(&w, n, rows, numbers, image + from, image + destination);
        memcpy(image + skipped, &count, 4);
        assert_int_equal(clmoe_buffer_read(rig.context, blocks[SOURCE].outer, blocks[SOURCE].back, blocks[SOURCE].end), CLMOE_SUCCESS);
        memcpy(image + workspace, blocks[SOURCE].back + 256 + workspace, end - workspace);
        compare(&j, SOURCE, 256, 256 + end, image, "one buffer for all");
        compare(&j, SOURCE, 256 + end, blocks[SOURCE].end, blocks[SOURCE].image + 256 + end, "behind the workspace");
        ++calls;
        test_free(image);
        clmoe_plan_destroy(plan);
    }
}

/* Two inputs may lie on each other: an index that is gathered by itself. */
static void test_index_as_source(void **state) {
    (void)state;
    for (uint32_t t = 0; t < 4; ++t) {
        const uint32_t width = (uint32_t)index_bytes(types[t]);
        const way w = way_of(GATHER, types[t], width, 300, 300);
        const job j = {.w = w, .n = 300, .rows = 300, .name = "an index as source"};
        clmoe_plan *plan = plan_for(&w);
        draw(types[t], 300, 300, INDEX_RANDOM, 10);
        assert_true(place(INDEX, 8, 300 * width, numbers, 0, 1024, false) &&
                    place(DESTINATION, 3, 300 * width, NULL, POISON, 1024, false) &&
                    place(WORKSPACE, 0, clmoe_plan_workspace_bytes(plan), NULL, POISON, 1024, false));
        clmoe_scatter_args args = {.num_items = 300, .num_rows = 300};
        args.source = args.index = blocks[INDEX].view;
        args.destination = blocks[DESTINATION].view;
        args.workspace = blocks[WORKSPACE].view;
        assert_int_equal(clmoe_gather_enqueue(plan, rig.queue, &args, 0, NULL, NULL), CLMOE_SUCCESS);
        if (rig.queue != NULL)
            clFinish(rig.queue);
        struct block *const d = &blocks[DESTINATION];
        assert_int_equal(clmoe_buffer_read(rig.context, d->outer, d->back, d->end), CLMOE_SUCCESS);
        oracle_move(&w, 300, 300, numbers, numbers, d->image + d->begin);
        compare(&j, DESTINATION, 0, d->end, d->image, "the result");
        clmoe_plan_destroy(plan);
    }
}

/* ---- How it is carried out ------------------------------------------------------------------------------------------------------ */
static void test_forced_tuning(void **state) {
    (void)state;
    const uint32_t groups[] = {1, 2, 3, 7, 16}, group_sizes[] = {0, 1, 32, 33, 64, 128, 256};
    const uint32_t sizes[][2] = {{700, 90}, {5, 9}, {129, 1}, {0, 3}, {64, 64}, {4097, 5000}, {257, 40}};
    const clmoe_device_info info = device();
    uint32_t turn = 0; /* with two index types for each group size: programs take long to compile */
    for (size_t g = 0; g < COUNT(group_sizes); ++g) {
        for (size_t k = 0; k < COUNT(groups); ++k) {
            for (uint32_t variant = 0; variant < 6; ++variant, ++turn) {
                way w = way_of((operation)(variant % 3), types[(g + k % 2) % 4], row_sizes[turn * 5 % 16], 66000, 66000);
                w.desc.tuning.num_launches = variant / 3;
                w.desc.tuning.num_groups = groups[k];
                w.desc.tuning.group_size = group_sizes[g];
                if ((fixture_pair_has("rusticl") && turn % 5 > 1) || group_sizes[g] > info.max_group_size ||
                    (info.kernel_class == CLMOE_CLASS_SERIAL && group_sizes[g] > 32))
                    continue;
                clmoe_plan *plan = plan_for(&w);
                for (size_t s = 0; plan != NULL && s < COUNT(sizes); ++s)
                    check(plan, &w, sizes[s][0], sizes[s][1], (index_fill)((turn + s) % NUM_INDEX_FILLS), turn % 3 * 10, "forced tuning");
                if (plan != NULL && turn % 7 == 0 && fits(&w, 66000, 66000))
                    check(plan, &w, 66000, turn % 2 == 0 ? 1000 : 66000, INDEX_RANDOM, 10, "forced tuning, large");
                clmoe_plan_destroy(plan);
            }
        }
    }
}

static void test_used_workspace(void **state) { /* a large call, then small and large ones, over what the last one left */
    (void)state;
    const uint32_t sizes[][2] = {{65537, 65537}, {3, 5}, {700, 65537}, {0, 65537}, {65537, 3}, {65, 64}, {20000, 1000}, {65537, 65537}};
    const unsigned char fills[] = {POISON, 0, 255, 1};
    for (uint32_t v = 0; v < 16; ++v) {
        const way w = way_of(v % 4 == 3 ? LAST_WINS : (operation)(v % 4), types[v / 4], v % 2 == 0 ? 4 : 5, 65537, 65537);
        clmoe_plan *plan = plan_for(&w);
        for (size_t s = 0; plan != NULL && s < COUNT(sizes); ++s) {
            job j = job_of(&w, sizes[s][0], sizes[s][1], "a used workspace");
            j.shift = v % 2;
            j.keep_workspace = s != 0;
            j.scratch = fills[v / 4];
            draw(w.desc.index_type, j.n, j.rows, s % 2 == 0 ? INDEX_RANDOM : INDEX_FEW_DUPLICATES, 10);
            run(plan, &j);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_same_every_time(void **state) {
    (void)state;
    const index_fill hows[] = {INDEX_PERMUTED, INDEX_SAME, INDEX_THREE_ROWS, INDEX_RANDOM, INDEX_FEW_DUPLICATES};
    const uint32_t bytes[] = {1, 4, 7, 16, 64}, sizes[] = {300, 20000, 5000, 65537, 1000};
    for (uint32_t v = 0; v < 15; ++v) {
        const way w = way_of((operation)(v % 3), types[v % 4], bytes[(v + v / 5) % 5], 65537, 70000);
        clmoe_plan *plan = plan_for(&w);
        draw(w.desc.index_type, sizes[v % 5], 30000, hows[v / 3], 5);
        for (uint32_t repeat = 0; plan != NULL && repeat < 20; ++repeat) {
            job j = job_of(&w, sizes[v % 5], 30000, "the same again");
            if (!fits(&w, j.n, j.rows))
                break;
            run(plan, &j);
        }
        clmoe_plan_destroy(plan);
    }
}

static void test_number_of_threads(void **state) {
    (void)state;
    const uint32_t threads[] = {1, 2, 3, 8};
    const align_rig outer = rig;
    struct block kept[NUM_BLOCKS];
    if (rig.queue != NULL)
        return;
    memcpy(kept, blocks, sizeof blocks);
    for (size_t t = 0; t < COUNT(threads); ++t) {
        clmoe_context_options options = {.num_threads = threads[t]};
        clmoe_context *context = NULL;
        memset(blocks, 0, sizeof blocks);
        assert_int_equal(clmoe_context_create_native(&options, &context), CLMOE_SUCCESS);
        rig_begin(&rig, context, NULL);
        for (uint32_t v = 0; v < 24; ++v) {
            const way w = way_of((operation)(v % 3), types[v % 4], row_sizes[v % 12], 70000, 70000);
            clmoe_plan *plan = plan_for(&w);
            check(plan, &w, 70000, 70000, v % 2 == 0 ? INDEX_PERMUTED : INDEX_RANDOM, 5, "threads");
            check(plan, &w, 70000, v < 12 ? 1 : 1000, INDEX_RANDOM, 5, "threads, few rows");
            check(plan, &w, 7, 9, INDEX_RANDOM, 5, "threads, small");
            clmoe_plan_destroy(plan);
        }
        for (int b = 0; b < NUM_BLOCKS; ++b) {
            clmoe_buffer_destroy(context, blocks[b].outer);
            free(blocks[b].image);
            free(blocks[b].back);
        }
        rig_end(&rig);
        clmoe_context_destroy(context);
    }
    memcpy(blocks, kept, sizeof blocks);
    rig = outer;
}

/* Rows that begin beyond 4 GiB; only the pages that are named become real. */
static void test_far_rows(void **state) {
    (void)state;
    const uint32_t row = 1u << 20, rows = 4200, far[] = {4199, 0, 4097, 4096};
    if (rig.queue != NULL)
        return;
    unsigned char *const large = calloc(rows, row), *const small = test_malloc(4 * (size_t)row);
    for (uint32_t op = 0; large != NULL && op < NUM_OPERATIONS; ++op) {
        const way w = way_of((operation)op, CLMOE_TYPE_U32, row, 4, rows);
        clmoe_plan *plan = plan_for(&w);
        clmoe_scatter_args args = {.num_items = 4, .num_rows = rows};
        unsigned char *const scratch = test_malloc(clmoe_plan_workspace_bytes(plan) + 4);
        for (size_t i = 0; i < 4; ++i)
            memset((op == GATHER ? large + (size_t)far[i] * row : small + i * row), (int)(1 + i + 10 * op), row);
        args.source = op == GATHER ? clmoe_buffer_of_host(large, (size_t)rows * row) : clmoe_buffer_of_host(small, 4 * (size_t)row);
        args.destination = op == GATHER ? clmoe_buffer_of_host(small, 4 * (size_t)row) : clmoe_buffer_of_host(large, (size_t)rows * row);
        args.index = clmoe_buffer_of_const(far, sizeof far);
        if (clmoe_plan_workspace_bytes(plan) != 0)
            args.workspace = clmoe_buffer_of_host(scratch, clmoe_plan_workspace_bytes(plan));
        assert_int_equal((op == GATHER ? enqueue_gather : enqueue_scatter)(plan, NULL, &args, 0, NULL, NULL), CLMOE_SUCCESS);
        for (size_t i = 0; i < 4; ++i) {
            const unsigned char *const out = op == GATHER ? small + i * row : large + (size_t)far[i] * row;
            if (out[0] != 1 + i + 10 * op || memcmp(out, out + 1, row - 1) != 0)
                fail_msg("%s: row %u", operation_names[op], far[i]);
        }
        for (uint32_t i = 1; i < rows - 4097 && op != GATHER; ++i) /* where they would be in 32 bits */
            assert_int_equal(large[(size_t)i * row], 0);
        test_free(scratch);
        clmoe_plan_destroy(plan);
    }
    test_free(small);
    free(large);
}

static void test_random(void **state) {
    (void)state;
    deck sizes = DECK(0, 1, 2, 3, 31, 33, 64, 127, 129, 255, 257, 500, 1000, 1023, 1025, 2047, 2049, 4095, 4097, 8193, 20000, 65535, 65537);
    deck widths =
        DECK(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 20, 24, 28, 31, 32, 48, 64, 96, 100, 128, 255, 256, 257, 1000, 4096);
    deck launches = DECK(0, 0, 0, 1), groups = DECK(0, 0, 0, 1, 2, 3, 7, 16, 61, 1000), group_sizes = DECK(0, 0, 0, 64);
    deck ways = DECK(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), hows = DECK(0, 1, 2, 3, 4, 5, 6, 7), holes = DECK(0, 0, 1, 10, 50, 99);
    const bool parallel = device().kernel_class == CLMOE_CLASS_PARALLEL;
    const uint32_t num_plans = fixture_cases(1500, 400, 80);
    for (uint32_t p = 0; p < num_plans; ++p) {
        const uint32_t v = deck_deal(&ways, &chance), top = deck_deal(&sizes, &chance), span = random_below(&chance, 3);
        way w = way_of((operation)(v % 3), types[v / 3], deck_deal(&widths, &chance), top,
                       span == 0 ? top : random_below(&chance, 2 * top + 2));
        if (!fits(&w, w.desc.max_items, w.desc.max_rows))
            continue;
        w.desc.tuning.num_launches = deck_deal(&launches, &chance);
        w.desc.tuning.num_groups = deck_deal(&groups, &chance);
        w.desc.tuning.group_size = parallel && device().max_group_size >= 64 ? deck_deal(&group_sizes, &chance) : 0;
        if (w.desc.tuning.group_size != 0) /* fewer programs to compile */
            w.desc.index_type = types[v % 2];
        clmoe_plan *plan = plan_for(&w);
        const uint32_t shift = random_below(&chance, 2);
        for (uint32_t c = 0; plan != NULL && c < 4; ++c) {
            const uint32_t n = c == 0 ? top : random_below(&chance, top + 1);
            job j = job_of(&w, n, c == 0 ? w.desc.max_rows : random_below(&chance, w.desc.max_rows + 1), "random");
            j.scratch = (unsigned char)random_below(&chance, 256);
            j.keep_workspace = c != 0 && random_below(&chance, 2) != 0;
            j.shift = shift;
            draw(w.desc.index_type, n, j.rows, (index_fill)deck_deal(&hows, &chance), deck_deal(&holes, &chance));
            run(plan, &j);
        }
        clmoe_plan_destroy(plan);
    }
}

/* ---- Queues and refusals -------------------------------------------------------------------------------------------------------- */
/* The call as the fixture takes it; permuted indices, so that its result is defined. */
static void describe(op_call *call, clmoe_scatter_args *args, clmoe_plan *plan, const way *w, uint32_t n, uint32_t rows, size_t slack) {
    const size_t row = w->desc.row_bytes, width = index_bytes(w->desc.index_type);
    const job j = {.w = *w, .n = n, .rows = rows, .name = "refusals"};
    memset(call, 0, sizeof *call);
    memset(args, 0, sizeof *args);
    snprintf(call->name, sizeof call->name, "%.230s", job_text(&j));
    call->plan = plan;
    call->args = args;
    call->args_bytes = sizeof *args;
    call->enqueue = w->op == GATHER ? enqueue_gather : enqueue_scatter;
    call->shift = 3;
    call->scratch = POISON;
    call->may_refuse = may_refuse();
    args->num_items = n;
    args->num_rows = rows;
    draw(w->desc.index_type, n, rows, INDEX_PERMUTED, 10);
    const unsigned char *const before = pool + 4096;
    static uint32_t skipped;
    memcpy(expected, before, destination_rows(&j) * row);
    skipped = oracle_move(w, n, rows, numbers, pool, expected);
    const operand operands[] = {
        {.name = "source", .view = &args->source, .width = 1, .bytes = source_rows(&j) * row + slack, .spare = slack, .before = pool},
        {.name = "index", .view = &args->index, .width = width, .bytes = (n + slack) * width, .spare = slack * width, .before = numbers},
        {.name = "destination",
         .view = &args->destination,
         .width = 1,
         .bytes = destination_rows(&j) * row,
         .before = before,
         .after = expected,
         .is_output = true},
        {.name = "skipped", .view = &args->skipped, .width = 4, .bytes = 4, .after = &skipped, .is_output = true, .is_optional = true}};
    memcpy(call->operands, operands, sizeof operands);
    call->num_operands = COUNT(operands);
    call_workspace(call, &args->workspace, 4);
}

static void test_queues(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 6; ++v) {
        op_call call;
        clmoe_scatter_args args;
        clmoe_plan_info info;
        const uint32_t n = v < 3 ? 100 : 30000;
        const way w = way_of((operation)(v % 3), types[v % 4], 5, n, n);
        clmoe_plan *plan = plan_for(&w);
        if (plan == NULL)
            continue;
        describe(&call, &args, plan, &w, n, n / 2, 0);
        const bool is_refused = may_refuse() && clmoe_plan_describe(plan, n, &info) == CLMOE_UNSUPPORTED;
        if (!(is_refused ? call_run : call_on_queues)(&rig, &call))
            fail_msg("%s", rig.failure);
        describe(&call, &args, plan, &w, 0, n, 0); /* nothing to do, and still an event that honours the wait list */
        if (!call_on_queues(&rig, &call))
            fail_msg("%s", rig.failure);
        clmoe_plan_destroy(plan);
    }
}

static void expect_text(const char *what, const char *named) {
    if (strstr(error_text(), named) == NULL)
        fail_msg("%s: the text does not name \"%s\": \"%s\"", what, named, error_text());
}

#define REFUSED(what, named, change)                                                                                                       \
    do {                                                                                                                                   \
        clmoe_scatter_args wrong = args;                                                                                                   \
        change;                                                                                                                            \
        if (!call_refused(&rig, &call, &wrong, what, named))                                                                               \
            fail_msg("%s", rig.failure);                                                                                                   \
    } while (0)

static void test_refused_arguments(void **state) {
    (void)state;
    for (uint32_t v = 0; v < 9; ++v) {
        op_call call;
        clmoe_scatter_args args;
        const uint32_t n = v < 3 ? 37 : v < 6 ? 300 : 9000, rows = v < 3 ? 50 : v < 6 ? 200 : 8000;
        const way w = way_of((operation)(v % 3), types[(v + v / 3) % 4], v < 3 ? 4 : v < 6 ? 13 : 16, n + 3, rows + 3);
        clmoe_plan *plan = plan_for(&w);
        if (plan == NULL)
            continue;
        describe(&call, &args, plan, &w, n, rows, v < 3 ? 0 : 5);
        if (!call_refuses_views(&rig, &call) || !call_prepare(&rig, &call))
            fail_msg("%s", rig.failure);
        REFUSED("n over max_items", "num_items", wrong.num_items = w.desc.max_items + 1);
        REFUSED("n = 2^31", "num_items", wrong.num_items = 1u << 31);
        REFUSED("n = 2^32 - 1", "num_items", wrong.num_items = UINT32_MAX);
        REFUSED("rows over max_rows", "num_rows", wrong.num_rows = w.desc.max_rows + 1);
        REFUSED("rows = 2^31", "num_rows", wrong.num_rows = 1u << 31);
        REFUSED("rows = 2^32 - 1", "num_rows", wrong.num_rows = UINT32_MAX);
        if (w.op == GATHER) {
            REFUSED("a destination that is too long", "destination", wrong.num_items = n - 1);
            REFUSED("rows that the source lacks", "source", wrong.num_rows = rows + 1);
        } else {
            REFUSED("a destination that is too long", "destination", wrong.num_rows = rows - 1);
            REFUSED("a destination that is too short", "destination", wrong.num_rows = rows + 1);
            REFUSED("a destination without rows", "destination", wrong.num_rows = 0);
        }
        clmoe_plan_info info;
        assert_int_equal(clmoe_plan_describe(plan, (size_t)w.desc.max_items + 1, &info), CLMOE_INVALID_ARGUMENT);
        assert_int_equal(clmoe_plan_describe(plan, (size_t)1 << 32, &info), CLMOE_INVALID_ARGUMENT);
        clmoe_plan_destroy(plan);
    }
}

#define PLAN_REFUSED(named, change)                                                                                                        \
    do {                                                                                                                                   \
        clmoe_scatter_desc desc = valid.desc;                                                                                              \
        clmoe_plan *none = NULL;                                                                                                           \
        change;                                                                                                                            \
        const clmoe_status refusal = create(rig.context, &desc, &none);                                                                    \
        if (refusal != CLMOE_INVALID_ARGUMENT)                                                                                             \
            fail_msg("%s: %s: %s, not refused", operation_names[op], #change, clmoe_status_name(refusal));                                 \
        assert_null(none);                                                                                                                 \
        expect_text(#change, named);                                                                                                       \
        check(good, &valid, 100, 100, INDEX_RANDOM, 10, "after a refused plan");                                                           \
    } while (0)

static void test_refused_descriptors(void **state) {
    (void)state;
    for (uint32_t op = 0; op < NUM_OPERATIONS; ++op) {
        const way valid = way_of((operation)op, CLMOE_TYPE_I32, 4, 100, 100);
        clmoe_status (*const create)(clmoe_context *, const clmoe_scatter_desc *, clmoe_plan **) =
            op == GATHER ? clmoe_gather_plan_create : clmoe_scatter_plan_create;
        clmoe_plan *good = plan_for(&valid), *plan = NULL;
        for (int type = -1; type < 20; ++type) {
            if (type != CLMOE_TYPE_I32 && type != CLMOE_TYPE_U32 && type != CLMOE_TYPE_I64 && type != CLMOE_TYPE_U64)
                PLAN_REFUSED("index_type", desc.index_type = (clmoe_type)type);
        }
        PLAN_REFUSED("row_bytes", desc.row_bytes = 0);
        PLAN_REFUSED("row_bytes", desc.row_bytes = 1u << 31);
        PLAN_REFUSED("row_bytes", desc.row_bytes = UINT32_MAX);
        PLAN_REFUSED("max_items", desc.max_items = 1u << 31);
        PLAN_REFUSED("max_items", desc.max_items = UINT32_MAX);
        PLAN_REFUSED("max_rows", desc.max_rows = 1u << 31);
        PLAN_REFUSED("max_rows", desc.max_rows = UINT32_MAX);
        PLAN_REFUSED("num_launches", desc.tuning.num_launches = 4);
        PLAN_REFUSED("num_groups", desc.tuning.num_groups = 65537);
        if (device().kernel_class == CLMOE_CLASS_PARALLEL)
            PLAN_REFUSED("group_size", desc.tuning.group_size = device().max_group_size + 1);
        for (int duplicates = -1; duplicates < 4; duplicates += duplicates == -1 ? 3 : 1) { /* gather ignores them */
            way other = valid;
            other.desc.duplicates = (clmoe_duplicates)duplicates;
            if (op != GATHER)
                PLAN_REFUSED("duplicates", desc = other.desc);
            else {
                plan = plan_for(&other);
                check(plan, &other, 100, 100, INDEX_RANDOM, 10, "gather with odd duplicates");
                clmoe_plan_destroy(plan);
            }
        }
        plan = NULL;
        assert_int_equal(create(NULL, &valid.desc, &plan), CLMOE_INVALID_ARGUMENT);
        assert_int_equal(create(rig.context, NULL, &plan), CLMOE_INVALID_ARGUMENT);
        expect_text("desc NULL", "desc");
        assert_int_equal(create(rig.context, &valid.desc, NULL), CLMOE_INVALID_ARGUMENT);
        expect_text("plan NULL", "plan");
        assert_null(plan);

        const uint32_t rows_of[][2] = {{1u << 30, 4}, {INT32_MAX, 6}, {1u << 28, 16}}; /* few or no bytes in 32 bits */
        for (size_t i = 0; i < COUNT(rows_of); ++i) {
            op_call call;
            clmoe_scatter_args args;
            const way huge = way_of((operation)op, CLMOE_TYPE_I32, rows_of[i][0], rows_of[i][1], rows_of[i][1]);
            describe(&call, &args, good, &valid, 100, 90, 0);
            if (!call_prepare(&rig, &call) || (plan = plan_for(&huge)) == NULL)
                continue;
            check(plan, &huge, 0, 0, INDEX_RANDOM, 0, "huge rows, none");
            for (int short_one = 0; short_one < 2; ++short_one) {
                clmoe_scatter_args wrong = args;
                wrong.num_items = op == GATHER || short_one == 1 ? rows_of[i][1] : 0;
                wrong.num_rows = op != GATHER || short_one == 1 ? rows_of[i][1] : 0;
                if (call.enqueue(plan, rig.queue, &wrong, 0, NULL, NULL) != CLMOE_INVALID_ARGUMENT || !call_untouched(&rig, &call))
                    fail_msg("%s: %u rows of %u bytes: accepted, or %s", operation_names[op], rows_of[i][1], rows_of[i][0], rig.failure);
                if (strstr(error_text(), "source") == NULL)
                    expect_text("rows of many bytes", "destination");
            }
            clmoe_plan_destroy(plan);
        }
        check(good, &valid, 100, 100, INDEX_RANDOM, 10, "after all");
        clmoe_plan_destroy(good);
    }
}

static void test_plans_of_other_operators(void **state) {
    (void)state;
    clmoe_plan *plans[6] = {NULL};
    const clmoe_align_desc align = {.max_tokens = 10, .top_k = 1, .num_experts = 2, .block_size = 1};
    const clmoe_histogram_desc histogram = {.max_items = 10, .num_bins = 4};
    const clmoe_scan_desc scan = {.max_items = 10};
    const clmoe_sort_desc sort = {.max_items = 10};
    const way w = way_of(LAST_WINS, CLMOE_TYPE_I32, 4, 10, 10);
    assert_int_equal(clmoe_align_plan_create(rig.context, &align, &plans[0]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_histogram_plan_create(rig.context, &histogram, &plans[1]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_scan_plan_create(rig.context, &scan, &plans[2]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_sort_plan_create(rig.context, &sort, &plans[3]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_scatter_plan_create(rig.context, &w.desc, &plans[4]), CLMOE_SUCCESS);
    assert_int_equal(clmoe_gather_plan_create(rig.context, &w.desc, &plans[5]), CLMOE_SUCCESS);
    for (size_t p = 0; p < 6; ++p) {
        op_call call;
        clmoe_scatter_args args;
        describe(&call, &args, plans[4], &w, 10, 10, 0);
        if (!call_prepare(&rig, &call))
            fail_msg("%s", rig.failure);
        const clmoe_align_args align_args = {0};
        const clmoe_histogram_args histogram_args = {0};
        const clmoe_scan_args scan_args = {0};
        const clmoe_sort_args sort_args = {0};
        const clmoe_status status[] = {
            p < 4 ? CLMOE_INVALID_ARGUMENT : clmoe_align_enqueue(plans[p], rig.queue, &align_args, 0, NULL, NULL),
            p < 4 ? CLMOE_INVALID_ARGUMENT : clmoe_histogram_enqueue(plans[p], rig.queue, &histogram_args, 0, NULL, NULL),
            p < 4 ? CLMOE_INVALID_ARGUMENT : clmoe_scan_enqueue(plans[p], rig.queue, &scan_args, 0, NULL, NULL),
            p < 4 ? CLMOE_INVALID_ARGUMENT : clmoe_sort_enqueue(plans[p], rig.queue, &sort_args, 0, NULL, NULL),
            p == 4 ? CLMOE_INVALID_ARGUMENT : clmoe_scatter_enqueue(plans[p], rig.queue, &args, 0, NULL, NULL),
            p == 5 ? CLMOE_INVALID_ARGUMENT : clmoe_gather_enqueue(plans[p], rig.queue, &args, 0, NULL, NULL)};
        for (size_t op = 0; op < COUNT(status); ++op)
            assert_int_equal(status[op], CLMOE_INVALID_ARGUMENT);
        expect_text("another operator's plan", "plan");
        if (!call_untouched(&rig, &call) || !call_run(&rig, &call))
            fail_msg("%s", rig.failure);
    }
    for (size_t p = 0; p < 6; ++p)
        clmoe_plan_destroy(plans[p]);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_context *context = fixture_context(fixture_pair());
    pool = malloc(MOST_BYTES + 16384);
    expected = malloc(MOST_BYTES);
    numbers = malloc((MOST_ITEMS + 32) * 8);
    order = malloc(MOST_ITEMS * sizeof *order);
    if (context == NULL || pool == NULL || expected == NULL || numbers == NULL || order == NULL)
        return -1;
    chance.state = 1;
    for (size_t i = 0; i < MOST_BYTES + 16384; i += 8) {
        const uint64_t bits = random_bits(&chance);
        memcpy(pool + i, &bits, 8);
    }
    rig_begin(&rig, context, clmoe_context_queue(context));
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    printf("%s: %llu calls checked; %u plans and %u calls refused, %u of them without forced tuning\n", fixture_pair(),
           (unsigned long long)(calls + rig.calls), plans_refused, calls_refused, refused_unforced);
    for (size_t i = 0; i < num_keepers; ++i)
        clmoe_plan_destroy(keepers[i]);
    for (int b = 0; b < NUM_BLOCKS; ++b) {
        clmoe_buffer_destroy(rig.context, blocks[b].outer);
        free(blocks[b].image);
        free(blocks[b].back);
    }
    rig_end(&rig);
    clmoe_context_destroy(rig.context);
    free(pool);
    free(expected);
    free(numbers);
    free(order);
    return 0;
}

static int reseed(void **state) { /* every test draws the same numbers, whichever others run */
    (void)state;
    chance.state = 20260105;
    rig.keep_workspace = false;
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, reseed)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_golden),
        TEST(test_many_duplicates),
        TEST(test_nothing_to_do),
        TEST(test_rows_and_counts),
        TEST(test_long_rows),
        TEST(test_exact_plans),
        TEST(test_descriptions),
        TEST(test_every_offset),
        TEST(test_out_of_range),
        TEST(test_neighbours),
        TEST(test_index_as_source),
        TEST(test_forced_tuning),
        TEST(test_used_workspace),
        TEST(test_same_every_time),
        TEST(test_number_of_threads),
        TEST(test_far_rows),
        TEST(test_random),
        TEST(test_queues),
        TEST(test_refused_arguments),
        TEST(test_refused_descriptors),
        TEST(test_plans_of_other_operators),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
