#include "tuning.h"

#include "../cl/align.h"
#include "../cl/route.h"

#include <string.h>

/* Pairs up to which one group does everything. Parallel: a launch costs more than the lost width up to here (opencl launch floors of 5 to
 * 20 us). Serial: below it, handing work to a second thread costs more than it saves (measured on two cores: between even and 0.7 of the
 * time at 131,072 pairs, 0.7 at 1,048,576). */
enum { PARALLEL_ONE_PAIRS = 2048, SERIAL_ONE_PAIRS = 65536 };
/* Rows up to which one parallel group also writes all of the padding. */
enum { PARALLEL_ONE_ROWS = 1 << 20 };
/* Pairs up to which each parallel group adds up the counts of all chunks itself, which saves the offsets launch. */
enum { PARALLEL_TWO_PAIRS = 65536 };
/* Chunks of align for each unit: two, so that a thread that comes late still finds some left (T 131072 native, two busy cores: 1.1 for 0.95
 * times plain C). */
enum { SERIAL_CHUNKS_PER_UNIT = 2 };
/* Least work of a group that is worth having one. */
enum { PARALLEL_CHUNK_TILES = 4, SERIAL_CHUNK_PAIRS = 32768, PARALLEL_FILL_TILES = 16 };
enum { PARALLEL_GROUP_SIZE = 256, PARALLEL_GROUPS_PER_UNIT = 4 };
/* Logits that are worth a thread of the serial class; groups of the parallel class at most. */
enum { SERIAL_ROUTE_LOGITS = 16384, PARALLEL_ROUTE_GROUPS = 65536 };
/* Pairs up to which one parallel group also routes: 64 tokens of 8, a batch of decoding. Beyond, one unit of the device routes for longer
 * than a second launch costs. */
enum { PARALLEL_ROUTE_ALIGN_PAIRS = 512 };
/* Bytes below which one thread copies all rows, and words for each work-item that are worth one more group. */
enum { SCATTER_ONE_BYTES = 1 << 18, SCATTER_GROUP_WORDS = 64 };
/* Items of a scan, in and out 32 MiB or more, that the next operator will not find in a cache. */
enum { SCAN_CACHED_ITEMS = 1 << 22 };
/* Local counters of a histogram in all, and the most for one bin: work-items with equal samples wait for each other. */
enum { HISTOGRAM_COUNTERS = 2048, HISTOGRAM_COPIES = 32 };
/* Items of the table that are read by every group with two launches, and that exist with three. */
enum { PARALLEL_TWO_TABLE = 1 << 14, PARALLEL_THREE_TABLE = 1 << 18 };

static const char loop_cut[] = "this driver stops a work-item after 65,535 loop iterations, and the call needs more";

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}
static uint32_t max_u32(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}
static uint64_t ceil_div_u64(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

/* rusticl on llvmpipe (seen with Mesa 22.3.6) stops every loop of a work-item once all its loops together have made 65,535 iterations in
 * one kernel, and says nothing. More groups with less work each stay below that. Its compiler turns branches inside of loops into loops
 * of its own; iterations_of() counts those in. It also names 32 as every kernel's largest group, and runs 1024 right. */
void clmoe_tune_driver_faults(const char *platform_name, const char *device_name, struct clmoe_limits *limits) {
    const bool is_llvmpipe = strstr(platform_name, "rusticl") != NULL && strstr(device_name, "llvmpipe") != NULL;
    limits->max_iterations = is_llvmpipe ? 65535 : 0;
    limits->ignores_kernel_limit = is_llvmpipe;
}

uint32_t clmoe_tune_group_size(const struct clmoe_limits *limits, uint32_t wanted, clmoe_local_items *local_items, const uint32_t *shape) {
    uint32_t size = min_u32(wanted != 0 ? wanted : PARALLEL_GROUP_SIZE, limits->max_group_size);
    while (size > 1 && 4 * local_items(shape, size) > limits->local_bytes)
        size /= 2;
    return 4 * local_items(shape, size) <= limits->local_bytes ? size : 0;
}

/* What pairs, and padding rows, may each take of the iterations that are allowed, at a few iterations apiece, beside the walk over the
 * buckets that each work-item of the serial class makes. */
static uint32_t iteration_share(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t num_buckets) {
    const uint64_t walk = kernel_class == CLMOE_CLASS_SERIAL ? 7 * (uint64_t)num_buckets : 0;
    return walk + 2048 < limits->max_iterations ? (uint32_t)((limits->max_iterations - walk) / 16) : 128;
}

static uint32_t num_chunks_of(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, uint32_t num_launches,
                              const clmoe_tuning *wanted, const struct clmoe_align_shape *shape) {
    if (num_launches == 1 || shape->num_tokens == 0)
        return 1;
    const uint64_t pairs = (uint64_t)shape->num_tokens * shape->top_k;
    uint64_t chunks;
    if (wanted->num_groups != 0) {
        chunks = wanted->num_groups;
    } else if (kernel_class == CLMOE_CLASS_SERIAL) {
        chunks = min_u32(SERIAL_CHUNKS_PER_UNIT * limits->compute_units, (uint32_t)ceil_div_u64(pairs, SERIAL_CHUNK_PAIRS));
    } else {
        const uint32_t columns = align_table_stride(shape->num_buckets);
        uint32_t most = max_u32(PARALLEL_THREE_TABLE / columns, 1);
        if (num_launches == 2) /* every group reads the whole table */
            most = max_u32(PARALLEL_TWO_TABLE / columns, 1);
        chunks = ceil_div_u64(pairs, (uint64_t)PARALLEL_CHUNK_TILES * group_size);
        chunks = chunks < most ? chunks : most;
        chunks = chunks < (uint64_t)PARALLEL_GROUPS_PER_UNIT * limits->compute_units
                     ? chunks
                     : (uint64_t)PARALLEL_GROUPS_PER_UNIT * limits->compute_units;
    }
    if (limits->max_iterations != 0) {
        const uint64_t per_tile = kernel_class == CLMOE_CLASS_SERIAL ? 1 : 1 + ceil_div(group_size, 32);
        const uint64_t tile = kernel_class == CLMOE_CLASS_SERIAL ? 1 : group_size;
        const uint64_t needed = ceil_div_u64(pairs * per_tile, tile * iteration_share(limits, kernel_class, shape->num_buckets));
        chunks = chunks > needed ? chunks : needed;
    }
    return chunks < shape->num_tokens ? (uint32_t)chunks : shape->num_tokens;
}

/* An upper bound for the loop iterations of any work-item of any stage, as llvmpipe counts them. Where that driver cuts, a bucket had
 * cost 6, and 7 more if it had blocks to write, a block 6, a padding row 1 to 2 and a pair 3 to 5: a little more of each is reckoned with.
 */
static uint64_t iterations_of(clmoe_class kernel_class, uint32_t group_size, const struct clmoe_align_shape *shape,
                              const struct clmoe_align_path *path) {
    const uint64_t chunk_pairs = (uint64_t)ceil_div(shape->num_tokens, path->num_chunks) * shape->top_k;
    const uint64_t columns = shape->num_buckets + ALIGN_EXTRA_COLUMNS;
    const uint64_t sums = path->num_launches == 3 ? 0 : path->num_chunks > 1 ? path->num_chunks : 0; /* added up for a column */
    if (kernel_class == CLMOE_CLASS_SERIAL) {
        const uint64_t blocks = ceil_div_u64(shape->capacity / shape->block_size, path->num_groups);
        const uint64_t place = 4 * chunk_pairs + columns * (7 + 3 * sums) + 17 * blocks + 4 * blocks * shape->block_size;
        if (path->num_launches == 1)
            return place + 3 * chunk_pairs + columns;
        const uint64_t offsets = path->num_launches == 3 ? ceil_div_u64(columns, path->offsets_groups) * (2 + 2 * path->num_chunks) : 0;
        return place > offsets ? place : offsets;
    }
    uint64_t search = 1;
    while ((columns >> search) != 0)
        ++search;
    const uint64_t slices = ceil_div(group_size, 32);
    const uint64_t tiles = ceil_div_u64(chunk_pairs, group_size), buckets = ceil_div_u64(columns, group_size);
    const uint64_t rows = ceil_div_u64(shape->capacity, (uint64_t)path->num_groups * group_size);
    const uint64_t place = tiles * (4 + 2 * slices) + buckets * (12 + 2 * sums + slices) + 4 * rows * search + 64;
    const uint64_t count = path->num_launches == 1 ? 2 * tiles + buckets : 0;
    return place + count > 2ull * path->num_chunks ? place + count : 2ull * path->num_chunks;
}

/* The path with that many launches. */
static struct clmoe_align_path path_of(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                       uint32_t num_launches, const clmoe_tuning *wanted, const struct clmoe_align_shape *shape) {
    struct clmoe_align_path path = {.num_launches = num_launches, .offsets_groups = 1, .num_groups = 1};
    path.num_chunks = num_chunks_of(limits, kernel_class, group_size, num_launches, wanted, shape);
    if (num_launches == 1)
        return path;
    const uint32_t columns = shape->num_buckets + ALIGN_EXTRA_COLUMNS;
    path.num_groups = path.num_chunks;
    if (kernel_class == CLMOE_CLASS_SERIAL) {
        path.offsets_groups = limits->max_iterations != 0 ? columns : min_u32(limits->compute_units, ceil_div(columns, 64));
        if (limits->max_iterations != 0)
            path.num_groups =
                max_u32(path.num_chunks, ceil_div(shape->capacity, iteration_share(limits, kernel_class, shape->num_buckets) / 2));
    } else {
        path.offsets_groups = ceil_div(columns, group_size);
        const uint32_t fill = ceil_div(shape->capacity, PARALLEL_FILL_TILES * group_size);
        path.num_groups = max_u32(path.num_chunks, min_u32(fill, PARALLEL_GROUPS_PER_UNIT * limits->compute_units));
        if (limits->max_iterations != 0)
            path.num_groups = max_u32(
                path.num_groups, ceil_div(shape->capacity, iteration_share(limits, kernel_class, shape->num_buckets) / 16 * group_size));
    }
    if (shape->max_groups != 0)
        path.num_groups = max_u32(path.num_chunks, min_u32(path.num_groups, shape->max_groups));
    return path;
}

static uint32_t preferred_launches(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                   const clmoe_tuning *wanted, const struct clmoe_align_shape *shape) {
    const uint64_t pairs = (uint64_t)shape->num_tokens * shape->top_k;
    if (kernel_class == CLMOE_CLASS_SERIAL) {
        if (pairs <= SERIAL_ONE_PAIRS || limits->compute_units == 1)
            return 1;
        /* With two launches each group reads the counts of all chunks; that must stay well below the pairs of its own chunk. */
        const uint64_t chunks = num_chunks_of(limits, kernel_class, group_size, 2, wanted, shape);
        return 2 * chunks * chunks * shape->num_buckets <= pairs ? 2 : 3;
    }
    if (pairs <= PARALLEL_ONE_PAIRS && shape->capacity <= PARALLEL_ONE_ROWS)
        return 1;
    return pairs <= PARALLEL_TWO_PAIRS ? 2 : 3;
}

const char *clmoe_tune_align(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                             const struct clmoe_align_shape *shape, struct clmoe_align_path *path) {
    uint32_t launches =
        wanted->num_launches != 0 ? wanted->num_launches : preferred_launches(limits, kernel_class, group_size, wanted, shape);
    *path = path_of(limits, kernel_class, group_size, launches, wanted, shape);
    if (limits->max_iterations == 0 || iterations_of(kernel_class, group_size, shape, path) <= limits->max_iterations)
        return NULL;
    if (wanted->num_launches == 0) {
        *path = path_of(limits, kernel_class, group_size, 3, wanted, shape);
        if (iterations_of(kernel_class, group_size, shape, path) <= limits->max_iterations)
            return NULL;
    }
    return loop_cut;
}

uint32_t clmoe_tune_align_max_chunks(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                     const clmoe_tuning *wanted, const struct clmoe_align_shape *largest) {
    if (wanted->num_launches != 0)
        return num_chunks_of(limits, kernel_class, group_size, wanted->num_launches, wanted, largest);
    return max_u32(num_chunks_of(limits, kernel_class, group_size, 2, wanted, largest),
                   num_chunks_of(limits, kernel_class, group_size, 3, wanted, largest));
}

/* ---- Scan, histogram, sort ---- */

/* Chunks of n items: as many as there is work and there are units for, at most `most`; more where a work-item must not iterate over all. */
static uint32_t item_chunks(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                            uint32_t num_items, uint32_t most) {
    if (wanted->num_launches == 1 || num_items == 0)
        return 1;
    const bool is_serial = kernel_class == CLMOE_CLASS_SERIAL;
    uint32_t chunks = wanted->num_groups;
    if (chunks == 0) {
        const uint32_t units = is_serial ? limits->compute_units : PARALLEL_GROUPS_PER_UNIT * limits->compute_units;
        const uint32_t least = is_serial ? SERIAL_CHUNK_PAIRS : PARALLEL_CHUNK_TILES * group_size;
        chunks = min_u32(min_u32(units, ceil_div(num_items, least)), most);
        const bool is_small = num_items <= (is_serial ? SERIAL_ONE_PAIRS : PARALLEL_ONE_PAIRS);
        if (wanted->num_launches == 0 && is_small)
            chunks = 1;
        if (limits->max_iterations != 0) /* a sixteenth of the iterations for the items of a chunk */
            chunks = max_u32(chunks, ceil_div(num_items, limits->max_iterations / 16 * group_size / (is_serial ? 1 : 16)));
    }
    return min_u32(chunks, num_items);
}

static bool is_cut(const struct clmoe_limits *limits, uint64_t iterations) {
    return limits->max_iterations != 0 && iterations > limits->max_iterations;
}

/* Iterations of a group scan, with what the compiler adds. */
static uint64_t scan_iterations(uint32_t group_size) {
    uint64_t steps = 2;
    for (uint32_t reach = 1; reach < group_size; reach *= 2)
        steps += 2;
    return steps;
}

const char *clmoe_tune_scan(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                            uint32_t num_items, struct clmoe_items_path *path) {
    path->num_chunks = item_chunks(limits, kernel_class, group_size, wanted, num_items, 1024);
    path->num_launches = path->num_chunks == 1 && wanted->num_launches < 2 ? 1 : 2;
    path->num_groups = path->num_chunks;
    path->streams = num_items > SCAN_CACHED_ITEMS;
    const uint64_t chunk = ceil_div(num_items, path->num_chunks);
    const uint64_t iterations =
        kernel_class == CLMOE_CLASS_SERIAL
            ? 4 * chunk + 2ull * path->num_chunks
            : (ceil_div_u64(chunk, group_size) + 1) * (2 + scan_iterations(group_size)) + 2 * ceil_div(path->num_chunks, group_size);
    return is_cut(limits, iterations) ? loop_cut : NULL;
}

uint32_t clmoe_tune_histogram_copies(const struct clmoe_limits *limits, uint32_t num_bins) {
    uint32_t copies = 4 * ((uint64_t)num_bins + 1) <= limits->local_bytes ? 1 : 0;
    while (copies != 0 && copies < HISTOGRAM_COPIES && 2 * copies * (uint64_t)num_bins <= HISTOGRAM_COUNTERS &&
           4 * (2 * copies * (uint64_t)num_bins + 1) <= limits->local_bytes)
        copies *= 2;
    return copies;
}

const char *clmoe_tune_histogram(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                 const clmoe_tuning *wanted, uint32_t num_items, uint32_t num_bins, struct clmoe_items_path *path) {
    const bool is_serial = kernel_class == CLMOE_CLASS_SERIAL;
    const uint32_t columns = num_bins + 1;
    /* Each chunk has a row of bins to write and to add up: no more chunks than keep that below the samples. */
    const uint32_t most = max_u32(1, min_u32(1024, num_items / columns));
    path->num_chunks = item_chunks(limits, kernel_class, group_size, wanted, num_items, most);
    path->num_launches = path->num_chunks == 1 && wanted->num_launches < 2 ? 1 : 2;
    path->num_groups =
        is_serial ? min_u32(limits->max_iterations != 0 ? columns : limits->compute_units, columns) : ceil_div(columns, group_size);
    const uint64_t chunk = ceil_div(num_items, path->num_chunks);
    const uint32_t copies = is_serial ? 0 : clmoe_tune_histogram_copies(limits, num_bins);
    const uint64_t count = is_serial ? 4 * chunk + 4 * (uint64_t)columns
                                     : 4 * ceil_div_u64(chunk, group_size) + ceil_div(columns, group_size) * (4 + 4 * (uint64_t)copies) + 8;
    const uint64_t sum = (is_serial ? ceil_div(columns, path->num_groups) : 1) * (4 + 2 * (uint64_t)path->num_chunks);
    return is_cut(limits, count > sum ? count : sum) ? loop_cut : NULL;
}

static uint64_t sort_iterations(bool is_serial, uint32_t group_size, uint32_t num_items, uint32_t num_passes,
                                const struct clmoe_items_path *path) {
    enum { DIGITS = 256 };
    const uint64_t chunk = ceil_div(num_items, path->num_chunks), sums = path->num_launches == 2 ? path->num_chunks : 1;
    const uint64_t passes = path->num_launches == 1 ? num_passes : 1, slices = ceil_div(group_size, 32);
    const uint64_t place = is_serial ? DIGITS * (6 + 3 * sums) + 8 * chunk
                                     : ceil_div_u64(chunk, group_size) * (6 + 2 * slices) + scan_iterations(group_size) +
                                           ceil_div(DIGITS, group_size) * (12 + 3 * sums + slices);
    const uint64_t bits = is_serial && path->num_launches == 1 ? chunk : 0; /* one walk, to find those in which keys differ */
    return bits + passes * place > 3ull * path->num_chunks ? bits + passes * place : 3ull * path->num_chunks;
}

const char *clmoe_tune_sort(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                            uint32_t num_items, uint32_t num_passes, struct clmoe_items_path *path) {
    enum { DIGITS = 256, TWO_CHUNKS = 8, BUCKET_UNITS = 2, BUCKET_GROUPS_PER_UNIT = 8, BUCKET_GROUP_ITEMS = 4096 };
    enum { CACHED_ITEMS = 1 << 17, EVEN_BUCKETS = 32, BUCKET_ITEMS = 4000, DIGIT_BITS = 8, MOST_DIGIT_BITS = 10 };
    const bool is_serial = kernel_class == CLMOE_CLASS_SERIAL;
    path->num_chunks = item_chunks(limits, kernel_class, group_size, wanted, num_items, 1024);
    path->num_groups =
        is_serial ? (limits->max_iterations != 0 ? DIGITS : min_u32(limits->compute_units, 4)) : ceil_div(DIGITS, group_size);
    path->num_launches = wanted->num_launches != 0        ? wanted->num_launches
                         : path->num_chunks == 1          ? 1
                         : path->num_chunks <= TWO_CHUNKS ? 2
                                                          : 3;
    /* How many items are in a bucket is the keys' affair: at worst all, for one group to sort. So not where iterations are counted, and
     * not where many units would wait. */
    const bool is_cached = is_serial && num_passes > 1 && limits->max_iterations == 0;
    const bool has_buckets = is_cached && limits->compute_units <= BUCKET_UNITS;
    if (has_buckets && wanted->num_launches == 0 && num_items > CACHED_ITEMS)
        path->num_launches = max_u32(path->num_launches, 2);
    path->num_bucket_groups = 0;
    if (has_buckets && path->num_launches > 1)
        path->num_bucket_groups =
            min_u32(min_u32(DIGITS, BUCKET_GROUPS_PER_UNIT * limits->compute_units), max_u32(1, num_items / BUCKET_GROUP_ITEMS));
    path->digit_bits = DIGIT_BITS;
    while (path->num_bucket_groups != 0 && path->digit_bits < MOST_DIGIT_BITS && num_items >> path->digit_bits > BUCKET_ITEMS)
        ++path->digit_bits;
    /* Buffers hold a few times as many items as buckets of equal size have; together, a small sort's by a single group. */
    const uint32_t one_sort = min_u32(num_items, CACHED_ITEMS);
    path->buffer_items = !is_cached ? 0
                         : path->num_bucket_groups == 0
                             ? one_sort
                             : min_u32(CACHED_ITEMS, max_u32(num_items / EVEN_BUCKETS, ceil_div(one_sort, path->num_bucket_groups)));
    if (wanted->num_launches == 0 && is_cut(limits, sort_iterations(is_serial, group_size, num_items, num_passes, path)))
        path->num_launches = 3;
    return is_cut(limits, sort_iterations(is_serial, group_size, num_items, num_passes, path)) ? loop_cut : NULL;
}

const char *clmoe_tune_scatter(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                               uint32_t num_items, uint32_t row_bytes, bool walks_all, struct clmoe_items_path *path) {
    const bool is_serial = kernel_class == CLMOE_CLASS_SERIAL;
    const uint64_t bytes = (uint64_t)num_items * row_bytes;
    /* A row is moved in words of one to eight bytes; one is reckoned with. */
    const uint64_t row_iterations = is_serial ? 6 + 2 * (uint64_t)row_bytes : 4 + 4 * ceil_div_u64(row_bytes, group_size);
    const uint64_t rows_a_step = is_serial || row_bytes >= group_size ? 1 : group_size / row_bytes;
    const uint64_t worth = is_serial ? 1 + (bytes > SCATTER_ONE_BYTES ? limits->compute_units - 1 : 0)
                                     : 1 + bytes / ((uint64_t)SCATTER_GROUP_WORDS * group_size);
    const uint64_t units = is_serial ? limits->compute_units : (uint64_t)PARALLEL_GROUPS_PER_UNIT * limits->compute_units;
    uint64_t chunks = wanted->num_groups != 0 ? wanted->num_groups : worth < units ? worth : units;
    if (limits->max_iterations != 0 && !walks_all) {
        const uint64_t needed = ceil_div_u64(num_items * row_iterations, rows_a_step * (limits->max_iterations / 2));
        chunks = chunks > needed ? chunks : needed;
    }
    if (wanted->num_launches == 1)
        chunks = 1;
    path->num_chunks = num_items == 0 ? 1 : (uint32_t)(chunks < num_items ? chunks : num_items);
    path->num_launches = 1;
    path->num_groups = path->num_chunks;
    const uint64_t steps = ceil_div_u64(walks_all ? num_items : ceil_div(num_items, path->num_chunks), rows_a_step);
    const uint64_t iterations = steps * row_iterations;
    return is_cut(limits, iterations > 3ull * path->num_chunks ? iterations : 3ull * path->num_chunks) ? loop_cut : NULL;
}

/* Upper bounds for the loop iterations of a row, as llvmpipe counts them: fitted to the numbers of rows at which its results went wrong. */
static uint64_t route_serial_row(const struct clmoe_route_shape *shape) {
    const uint64_t experts = round_up(shape->num_experts, ROUTE_LANES), k = shape->top_k, groups = shape->num_groups;
    const uint32_t lanes = route_filter_lanes(shape->num_experts, shape->top_k);
    const uint64_t filtered = lanes != 0 ? (k - 1) * ceil_div((uint32_t)experts, lanes) + k : experts;
    const uint64_t candidates = filtered < experts ? filtered : experts;
    uint64_t levels = 0;
    while ((1ull << levels) < candidates)
        ++levels;
    const uint64_t few = experts < 64 ? experts : 64; /* equal ones are candidates, too */
    const uint64_t ordering = few * few > 2 * levels * candidates ? few * few : 2 * levels * candidates;
    const uint64_t arithmetic = !shape->has_scores ? 5 : shape->has_softcap ? 13 : 11;
    return (arithmetic + (groups != 0 ? 4 : 0)) * experts + 600 + ordering + 6 * k + 2 * groups * groups;
}

/* Small, so that many rows are on their way at once; but so large that the filter can leave two candidates for each work-item at most. */
uint32_t clmoe_tune_route_team(uint32_t num_experts, uint32_t top_k, uint32_t group_size) {
    uint32_t size = ROUTE_LANES;
    if (group_size % ROUTE_LANES != 0)
        return group_size;
    while ((top_k - 1) * (uint64_t)ceil_div(num_experts, size) >= 2 * (uint64_t)size && group_size % (2 * size) == 0)
        size *= 2;
    return size;
}

static uint64_t route_parallel_row(const struct clmoe_route_shape *shape, uint32_t group_size) {
    const uint32_t team = clmoe_tune_route_team(shape->num_experts, shape->top_k, group_size);
    const uint64_t experts = ceil_div(shape->num_experts, team), k = shape->top_k, groups = shape->num_groups;
    const uint64_t list = route_list_items(shape->num_experts, shape->top_k, shape->num_groups, team);
    const uint64_t candidates = k > team ? shape->num_experts : list;
    const uint64_t sums = (uint64_t)ceil_div(ROUTE_LANES, team) * ceil_div(shape->num_experts, ROUTE_LANES);
    const uint64_t grouped = groups == 0 ? 0 : ceil_div_u64(groups, team) * (9 * groups + 15 * (shape->num_experts / groups));
    return 1200 + 16 * experts + 6 * sums + 4 * team + ceil_div_u64(candidates, team) * 2 * candidates + grouped + 12 * k;
}

const char *clmoe_tune_route(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size, const clmoe_tuning *wanted,
                             const struct clmoe_route_shape *shape, uint32_t *num_groups) {
    const bool is_serial = kernel_class == CLMOE_CLASS_SERIAL;
    const uint32_t teams = is_serial ? 1 : group_size / clmoe_tune_route_team(shape->num_experts, shape->top_k, group_size);
    const uint32_t tiles = ceil_div(shape->num_tokens, teams);
    const uint64_t row = is_serial ? route_serial_row(shape) : route_parallel_row(shape, group_size);
    uint64_t groups = wanted->num_groups;
    if (groups == 0)
        groups = is_serial ? min_u32(limits->compute_units,
                                     (uint32_t)ceil_div_u64((uint64_t)shape->num_tokens * shape->num_experts, SERIAL_ROUTE_LOGITS))
                           : min_u32(tiles, PARALLEL_ROUTE_GROUPS);
    if (row <= limits->max_iterations) {
        const uint64_t needed = ceil_div_u64(tiles, limits->max_iterations / row);
        groups = groups > needed ? groups : needed;
    }
    if (shape->max_groups != 0 && groups > shape->max_groups)
        groups = shape->max_groups;
    *num_groups = tiles == 0 ? 1 : max_u32(1, (uint32_t)(groups < tiles ? groups : tiles));
    return is_cut(limits, row * ceil_div(tiles, *num_groups)) ? loop_cut : NULL;
}

const char *clmoe_tune_route_align(const struct clmoe_limits *limits, clmoe_class kernel_class, uint32_t group_size,
                                   const clmoe_tuning *wanted, const struct clmoe_route_shape *route, const struct clmoe_align_shape *align,
                                   bool *is_one) {
    const clmoe_tuning one = {.num_launches = 1, .group_size = wanted->group_size};
    const uint64_t pairs = (uint64_t)align->num_tokens * align->top_k;
    struct clmoe_align_path path;
    if (kernel_class == CLMOE_CLASS_SERIAL) {
        uint32_t groups;
        clmoe_tune_align(limits, kernel_class, group_size, wanted, align, &path);
        *is_one =
            clmoe_tune_route(limits, kernel_class, group_size, wanted, route, &groups) == NULL && groups == 1 && path.num_launches == 1;
    } else {
        *is_one = pairs <= PARALLEL_ROUTE_ALIGN_PAIRS && align->capacity <= PARALLEL_ONE_ROWS;
    }
    if (wanted->num_launches != 0)
        *is_one = wanted->num_launches == 1;
    if (!*is_one || limits->max_iterations == 0)
        return NULL;
    const bool is_serial = kernel_class == CLMOE_CLASS_SERIAL;
    const uint32_t teams = is_serial ? 1 : group_size / clmoe_tune_route_team(route->num_experts, route->top_k, group_size);
    const uint64_t row = is_serial ? route_serial_row(route) : route_parallel_row(route, group_size);
    path = path_of(limits, kernel_class, group_size, 1, &one, align);
    if (row * ceil_div(route->num_tokens, teams) + iterations_of(kernel_class, group_size, align, &path) <= limits->max_iterations)
        return NULL;
    *is_one = false;
    return wanted->num_launches == 1 ? loop_cut : NULL;
}
