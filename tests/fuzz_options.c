/* fuzz_options.c - libFuzzer: the whole program, on any command line.
 *
 * An input is one word a line, then an empty line, then the bytes of the files that are not made here. A file is what its name says:
 *
 *     i4:8x2:3     an int32 array [8][2] as .npy, with the items of pattern 3
 *     a.json       what follows the empty line, up to the first 0; b.json: what follows that
 *     raw.npy      all that follows the empty line
 *
 * No other file can be opened, outputs go nowhere, the only device is the native one with one thread, the bench measures nothing, and no
 * other program runs.
 */
#define _GNU_SOURCE /* memfd_create */
#include "bench.h"
#include "fuzz.h"
#include "npy.h"
#include "output.h"

#include <sys/mman.h>
#include <unistd.h>

int clmoe_main(int argc, char **argv);

static bool is_running; /* else the functions below are libFuzzer's */
static const uint8_t *tail, *tail_end;
static unsigned num_errors;

/* ---- Files ---------------------------------------------------------------------------------------------------------------------- */

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);

static void put(int file, const uint8_t *data, const uint8_t *end) {
    const size_t bytes = (size_t)(end - data);
    fuzz_check(pwrite(file, data, bytes, 0) == (ssize_t)bytes, "a file in memory can't be written");
}

static uint64_t item_of(uint32_t pattern, uint32_t item, char kind, uint32_t item_bytes) {
    const uint32_t mixed = (item * 2654435761u) >> 7;
    int64_t value = mixed % (1 + pattern % 32);
    if ((pattern & 32) != 0 && item % 7 == 3)
        value = -1 - value;
    if ((pattern & 64) != 0 && item % 5 == 2)
        return ~(uint64_t)0 >> mixed % 64;
    if (kind == 'f' && item_bytes == 4) {
        const float number = (float)value / 4;
        uint32_t bits;
        memcpy(&bits, &number, 4);
        return bits;
    }
    return kind == 'f' && item_bytes == 2 ? 0x3c00u + (uint64_t)value * 64 : (uint64_t)value;
}

/* False: the name does not describe an array of few items. */
static bool put_array(int file, const char *name) {
    size_t shape[8], num_items = 1;
    uint32_t num_dims = 0;
    if (strlen(name) < 4)
        return false;
    const char kind = name[0];
    const uint32_t item_bytes = (uint32_t)(name[1] - '0');
    if ((strchr("iuf", kind) == NULL || (item_bytes != 1 && item_bytes != 2 && item_bytes != 4 && item_bytes != 8)) || name[2] != ':')
        return false;
    char *at = (char *)(uintptr_t)name + 2;
    do {
        shape[num_dims] = strtoul(at + 1, &at, 10);
        if (shape[num_dims] > 4096 || (num_items *= shape[num_dims]) > 4096)
            return false;
        ++num_dims;
    } while (*at == 'x' && num_dims < 8);
    const uint32_t pattern = *at == ':' ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
    unsigned char *items = fuzz_allocate(num_items * item_bytes + 8);
    for (uint32_t i = 0; i < num_items; ++i) {
        const uint64_t item = item_of(pattern, i, kind, item_bytes);
        memcpy(items + (size_t)i * item_bytes, &item, item_bytes);
    }
    FILE *stream = fdopen(dup(file), "wb");
    fuzz_check(stream != NULL, "no stream");
    fuzz_check(npy_write(stream, kind, item_bytes, num_dims, shape, items), "npy_write");
    fclose(stream);
    free(items);
    return true;
}

static FILE *open_made(const char *path) {
    const uint8_t *middle = tail;
    char opened[64];
    while (middle < tail_end && *middle != 0)
        ++middle;
    const int file = memfd_create("made", 0);
    fuzz_check(file >= 0, "no file in memory");
    if (strcmp(path, "a.json") == 0)
        put(file, tail, middle);
    else if (strcmp(path, "b.json") == 0)
        put(file, middle + (middle < tail_end), tail_end);
    else if (strcmp(path, "raw.npy") == 0)
        put(file, tail, tail_end);
    else if (!put_array(file, path)) {
        close(file);
        return __real_fopen("/nowhere", "rb"); /* sets errno */
    }
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", file);
    FILE *stream = __real_fopen(opened, "rb");
    close(file);
    return stream;
}

FILE *__wrap_fopen(const char *path, const char *mode) {
    return is_running ? open_made(path) : __real_fopen(path, mode);
}

FILE *__wrap_fopen64(const char *path, const char *mode) {
    return is_running ? open_made(path) : __real_fopen64(path, mode);
}

void *__wrap_dlopen(const char *path, int flags) {
    return is_running ? NULL : __real_dlopen(path, flags);
}

/* ---- In the place of output.c ---------------------------------------------------------------------------------------------------- */

static char *written;
static size_t written_bytes;

outcome output_directory(output_set *outputs, const char *path) {
    return strcmp(path, "bad") != 0 ? OUTCOME_DONE : report_error(outputs->command, OUTCOME_BAD_INPUT, "%s: is not a directory", path);
}

outcome output_open(output_set *outputs, const char *directory, const char *name, FILE **stream) {
    if (outputs->num_files == OUTPUT_MAX_FILES || strcmp(name, "bad") == 0)
        return report_error(outputs->command, OUTCOME_BAD_INPUT, "%s/%s: no", directory != NULL ? directory : "", name);
    *stream = open_memstream(&written, &written_bytes);
    fuzz_check(*stream != NULL, "no stream");
    outputs->files[outputs->num_files++] = (output_file){.stream = *stream};
    return OUTCOME_DONE;
}

static void end_stream(output_file *file) {
    if (file->stream != NULL) {
        fclose(file->stream);
        free(written);
    }
    file->stream = NULL;
}

outcome output_close(output_set *outputs, bool is_written) {
    end_stream(&outputs->files[outputs->num_files - 1]);
    return is_written ? OUTCOME_DONE : report_error(outputs->command, OUTCOME_BAD_INPUT, "not written");
}

outcome output_commit(output_set *outputs) {
    (void)outputs;
    return OUTCOME_DONE;
}

void output_json(const output_set *outputs, report_json *json) {
    json_integer(json, "files", (int64_t)outputs->num_files);
}

void output_discard(output_set *outputs) {
    for (size_t i = 0; i < outputs->num_files; ++i)
        end_stream(&outputs->files[i]);
    memset(outputs, 0, sizeof *outputs);
}

/* ---- What is watched, and what is left out --------------------------------------------------------------------------------------- */

outcome __real_report_error(const char *command, outcome result, const char *format, ...);
outcome __wrap_report_error(const char *command, outcome result, const char *format, ...);
clmoe_status __real_clmoe_context_create(const char *selector, const clmoe_context_options *options, clmoe_context **context);
clmoe_status __wrap_clmoe_context_create(const char *selector, const clmoe_context_options *options, clmoe_context **context);
bool __wrap_bench_measure(const bench_workload *work, const bench_field *field, const char *data_dir, const bench_effort *effort,
                          bench_rows *rows);
bool __wrap_bench_peer_open(bench_peer *peer, const char *command);

outcome __wrap_report_error(const char *command, outcome result, const char *format, ...) {
    char text[5000];
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    fuzz_check(length > 0 && result != OUTCOME_DONE, "an error without a text, or that is none");
    ++num_errors;
    return __real_report_error(command, result, "%s", text);
}

clmoe_status __wrap_clmoe_context_create(const char *selector, const clmoe_context_options *options, clmoe_context **context) {
    clmoe_context_options changed = *options;
    changed.num_threads = changed.num_threads <= 256 ? 1 : changed.num_threads;
    return __real_clmoe_context_create(selector, &changed, context);
}

bool __wrap_bench_measure(const bench_workload *work, const bench_field *field, const char *data_dir, const bench_effort *effort,
                          bench_rows *rows) {
    (void)work, (void)field, (void)data_dir, (void)effort, (void)rows;
    return false;
}

/* A command line must not run another. Peers whose command begins with an x are there. */
bool __wrap_bench_peer_open(bench_peer *peer, const char *command) {
    memset(peer, 0, sizeof *peer);
    snprintf(peer->reason, sizeof peer->reason, "%.99s", command);
    return command[0] == 'x';
}

/* ---- libFuzzer ------------------------------------------------------------------------------------------------------------------ */

const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=32"; /* so that absurd sizes are refused, not cleared; libFuzzer needs 20 */
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    static const char *const variables[] = {"CLMOE_DEVICE", "CLMOE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i)
        unsetenv(variables[i]);
    stdout = __real_fopen("/dev/null", "w"); /* libFuzzer and the sanitizers keep what they had */
    stderr = __real_fopen("/dev/null", "w");
    return 0;
}

enum { MAX_WORDS = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *words[MAX_WORDS + 2] = {strdup("clmoe")};
    int num_words = 1;
    const uint8_t *at = data, *end = data + bytes;
    while (at < end && *at != '\n' && num_words < MAX_WORDS) {
        const uint8_t *last = at;
        while (last < end && *last != '\n')
            ++last;
        words[num_words++] = strndup((const char *)at, (size_t)(last - at)); /* a 0 ends a word, as it does for a process */
        at = last + (last < end);
    }
    tail = at + (at < end && *at == '\n');
    tail_end = end;
    num_errors = 0;
    is_running = true;
    const int result = clmoe_main(num_words, words);
    is_running = false;
    fuzz_check(result >= OUTCOME_DONE && result <= OUTCOME_DEVICE_FAILED, "exit code %d", result);
    fuzz_check(result != OUTCOME_DONE || num_errors == 0, "done, but %u errors were told", num_errors);
    fuzz_check(result == OUTCOME_DONE || result == OUTCOME_CHECK_FAILED || num_errors > 0, "exit code %d without a word", result);
    for (int i = 0; i < num_words; ++i)
        free(words[i]);
    return 0;
}
