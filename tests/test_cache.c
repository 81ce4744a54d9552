/* The program cache, file by file and without a driver: cache.c is compiled into this program. Then, on an OpenCL pair, with one. */
#define _GNU_SOURCE
#include "fixture.h"
#include "opencl/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_deep;
static char root[] = "/tmp/clmoe-test-cache-XXXXXX";
static char note[200];

static const char key_text[] = "device A, options, source";
enum { KEY_BYTES = sizeof key_text - 1, PROGRAM_BYTES = 1000, HEADER_BYTES = 32 };
static unsigned char program_bytes[PROGRAM_BYTES];

static char *path_of(const char *dir, const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static char *fresh_dir(const char *name) {
    static char dir[256];
    static unsigned count;
    snprintf(dir, sizeof dir, "%s/%s-%u", root, name, count++);
    note[0] = '\0';
    return dir;
}

static void store(const char *dir) {
    clmoe_cache_store(dir, key_text, KEY_BYTES, program_bytes, PROGRAM_BYTES, note, sizeof note);
}

static bool load(const char *dir) {
    size_t bytes = 0;
    unsigned char *loaded = clmoe_cache_load(dir, key_text, KEY_BYTES, &bytes, note, sizeof note);
    const bool is_hit = loaded != NULL;
    if (is_hit) {
        assert_int_equal(bytes, PROGRAM_BYTES);
        assert_memory_equal(loaded, program_bytes, PROGRAM_BYTES);
    }
    free(loaded);
    return is_hit;
}

/* Files of the directory whose names end with `end`; the last one's name. */
static unsigned count_files(const char *dir, const char *end, char *name) {
    unsigned count = 0;
    DIR *listing = opendir(dir);
    assert_non_null(listing);
    for (const struct dirent *item; (item = readdir(listing)) != NULL;) {
        const size_t length = strlen(item->d_name), end_length = strlen(end);
        if (item->d_name[0] == '.' || length < end_length || strcmp(item->d_name + length - end_length, end) != 0)
            continue;
        ++count;
        if (name != NULL)
            snprintf(name, 128, "%.127s", item->d_name);
    }
    closedir(listing);
    return count;
}

static void write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *path, unsigned char *data, size_t capacity) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t bytes = fread(data, 1, capacity, file);
    fclose(file);
    return bytes;
}

static void test_round_trip(void **state) {
    (void)state;
    const char *dir = fresh_dir("deep/er/round-trip");
    assert_false(load(dir)); /* also makes the directory */
    store(dir);
    assert_string_equal(note, "");
    assert_true(load(dir));
    struct stat status;
    assert_int_equal(stat(dir, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(count_files(dir, "", NULL), 1);
}

static void test_other_key_misses(void **state) {
    (void)state;
    const char *dir = fresh_dir("keys");
    size_t bytes;
    store(dir);
    assert_null(clmoe_cache_load(dir, "device B, options, source", KEY_BYTES, &bytes, note, sizeof note));
    assert_null(clmoe_cache_load(dir, key_text, KEY_BYTES - 1, &bytes, note, sizeof note));
}

/* Every byte of the file flipped, every length cut, one byte too many: never a hit, and the next store mends it. */
static void test_damage(void **state) {
    (void)state;
    const char *dir = fresh_dir("damage");
    char name[128], path[512];
    static unsigned char whole[4096], damaged[4097];
    store(dir);
    assert_int_equal(count_files(dir, ".clmoe", name), 1);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const size_t bytes = read_file(path, whole, sizeof whole);
    assert_int_equal(bytes, HEADER_BYTES + KEY_BYTES + PROGRAM_BYTES);
    for (size_t i = 0; i < bytes; ++i) {
        memcpy(damaged, whole, bytes);
        damaged[i] ^= (unsigned char)(1u << i % 8);
        write_file(path, damaged, bytes);
        assert_false(load(dir));
        write_file(path, whole, i);
        assert_false(load(dir));
    }
    memcpy(damaged, whole, bytes);
    write_file(path, damaged, bytes + 1);
    assert_false(load(dir));
    store(dir);
    assert_true(load(dir));
}

static void test_other_things_in_its_place(void **state) {
    (void)state;
    const char *dir = fresh_dir("things");
    char name[128], path[512], other[512];
    store(dir);
    count_files(dir, ".clmoe", name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(other, sizeof other, "%s/kept", dir);

    /* the entry of another key */
    static unsigned char bytes[4096];
    clmoe_cache_store(dir, "another key", 11, program_bytes, PROGRAM_BYTES, note, sizeof note);
    assert_int_equal(count_files(dir, ".clmoe", NULL), 2);
    DIR *listing = opendir(dir);
    for (const struct dirent *item; (item = readdir(listing)) != NULL;)
        if (strstr(item->d_name, ".clmoe") != NULL && strcmp(item->d_name, name) != 0)
            write_file(path, bytes, read_file(path_of(dir, item->d_name), bytes, sizeof bytes));
    closedir(listing);
    assert_false(load(dir));
    store(dir);
    assert_true(load(dir));

    /* a directory */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(load(dir));
    store(dir);
    assert_true(load(dir));

    /* a link to a sound entry, and a pipe on which a reader would wait for ever */
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_false(load(dir));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(load(dir));
    store(dir);
    assert_true(load(dir));

    /* a file that this user may not read: for root it is a hit */
    assert_int_equal(chmod(path, 0), 0);
    load(dir);
    store(dir);
    assert_true(load(dir));
}

/* Two entries of one directory, each under the other's name. */
static void test_swapped_entries(void **state) {
    (void)state;
    static const char other_key[] = "device B, options, source";
    static unsigned char other_program[PROGRAM_BYTES];
    const char *dir = fresh_dir("swapped");
    char first[512], second[512], aside[512], name[128];
    size_t bytes = 0;
    for (unsigned i = 0; i < PROGRAM_BYTES; ++i)
        other_program[i] = (unsigned char)mix(i + 77);
    store(dir);
    count_files(dir, ".clmoe", name);
    snprintf(first, sizeof first, "%s/%s", dir, name);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    assert_int_equal(rename(first, aside), 0);
    clmoe_cache_store(dir, other_key, KEY_BYTES, other_program, PROGRAM_BYTES, note, sizeof note);
    count_files(dir, ".clmoe", name);
    snprintf(second, sizeof second, "%s/%s", dir, name);
    assert_string_not_equal(first, second);
    assert_int_equal(rename(second, first), 0);
    assert_int_equal(rename(aside, second), 0);
    assert_false(load(dir));
    assert_null(clmoe_cache_load(dir, other_key, KEY_BYTES, &bytes, note, sizeof note));
    store(dir);
    clmoe_cache_store(dir, other_key, KEY_BYTES, other_program, PROGRAM_BYTES, note, sizeof note);
    assert_true(load(dir));
    unsigned char *const loaded = clmoe_cache_load(dir, other_key, KEY_BYTES, &bytes, note, sizeof note);
    assert_non_null(loaded);
    assert_int_equal(bytes, PROGRAM_BYTES);
    assert_memory_equal(loaded, other_program, PROGRAM_BYTES);
    free(loaded);
}

/* Sound entries that another user may have written. */
static void test_entries_open_to_others(void **state) {
    (void)state;
    static const mode_t open_modes[] = {0620, 0602, 0666, 0777};
    const char *dir = fresh_dir("open-entries");
    char name[128], path[512];
    struct stat status;
    store(dir);
    count_files(dir, ".clmoe", name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; ++i) {
        assert_true(load(dir));
        assert_int_equal(chmod(path, open_modes[i]), 0);
        assert_false(load(dir));
        store(dir);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
    }
    assert_true(load(dir));
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_false(load(dir));
        store(dir);
        assert_true(load(dir));
    }
}

/* The directory is a link: what it leads to is judged, and used. */
static void test_linked_directory(void **state) {
    (void)state;
    char own[256], linked[512];
    snprintf(own, sizeof own, "%s", fresh_dir("link-target"));
    snprintf(linked, sizeof linked, "%s-link", own);
    assert_int_equal(symlink(own, linked), 0);
    assert_false(load(linked)); /* leads nowhere yet */
    assert_non_null(strstr(note, "cache not used"));
    store(own);
    note[0] = '\0';
    assert_true(load(linked));
    assert_string_equal(note, "");
    assert_int_equal(chmod(own, 0777), 0);
    assert_false(load(linked));
    assert_non_null(strstr(note, "can be written by other users"));
    note[0] = '\0';
    store(linked);
    assert_non_null(strstr(note, "can be written by other users"));
    assert_int_equal(count_files(own, "", NULL), 1);
    assert_int_equal(unlink(linked), 0);
    assert_int_equal(symlink("/tmp", linked), 0);
    note[0] = '\0';
    assert_false(load(linked));
    assert_non_null(strstr(note, "cache not used"));
}

/* Paths up to the system's limits serve, longer ones are refused with the reason. */
static void test_long_paths(void **state) {
    (void)state;
    static char path[6000];
    size_t length = (size_t)snprintf(path, sizeof path, "%s", fresh_dir("long"));
    while (length < 3900)
        length += (size_t)snprintf(path + length, sizeof path - length, "/%0200u", 1u);
    store(path);
    assert_string_equal(note, "");
    assert_true(load(path));
    while (length < 5000)
        length += (size_t)snprintf(path + length, sizeof path - length, "/%0200u", 1u);
    for (unsigned i = 0; i < 2; ++i) {
        note[0] = '\0';
        errno = 0;
        assert_false(load(path));
        assert_non_null(strstr(note, "File name too long"));
        snprintf(path, sizeof path, "%s/%0300u", root, 1u); /* one name that is too long */
    }
}

/* Processes that store different programs under one key, and are killed wherever they are: a reader sees whole programs alone, from the
 * first one on at any time, and what the dead leave behind is cleared away later. */
enum { RACE_BYTES = 300000, RACE_WRITERS = 4 };

static void store_for_ever(const char *dir, unsigned writer) {
    static unsigned char program[RACE_BYTES + RACE_WRITERS];
    const pid_t parent = getppid();
    while (getppid() == parent) {
        memset(program, 'a' + (int)writer, sizeof program);
        clmoe_cache_store(dir, key_text, KEY_BYTES, program, RACE_BYTES + writer, note, sizeof note);
    }
    _exit(1);
}

/* *is_wrong: what was read is none of the programs that were stored. */
static bool load_raced(const char *dir, bool *is_wrong) {
    size_t bytes = 0;
    unsigned char *const loaded = clmoe_cache_load(dir, key_text, KEY_BYTES, &bytes, note, sizeof note);
    if (loaded == NULL)
        return false;
    *is_wrong = *is_wrong || bytes < RACE_BYTES || bytes >= RACE_BYTES + RACE_WRITERS;
    for (size_t i = 0; i < bytes && !*is_wrong; ++i)
        *is_wrong = loaded[i] != 'a' + bytes - RACE_BYTES;
    free(loaded);
    return true;
}

static void test_writers_are_killed(void **state) {
    (void)state;
    unsigned num_left = 0, num_hits = 0;
    for (unsigned round = 0; round < (is_deep ? 1000 : 60); ++round) {
        const char *dir = fresh_dir("race");
        pid_t writers[RACE_WRITERS];
        bool was_there = false, is_lost = false, is_wrong = false; /* judged when no writer runs any more */
        for (unsigned i = 0; i < RACE_WRITERS; ++i) {
            writers[i] = fork();
            assert_true(writers[i] >= 0);
            if (writers[i] == 0)
                store_for_ever(dir, i);
        }
        const double end = fixture_seconds() + 0.001 * (2 + mix(round) % 40);
        while (fixture_seconds() < end) {
            const bool is_there = load_raced(dir, &is_wrong);
            is_lost = is_lost || (was_there && !is_there);
            was_there = is_there;
            num_hits += is_there;
        }
        for (unsigned i = 0; i < RACE_WRITERS; ++i)
            assert_int_equal(kill(writers[i], SIGKILL), 0);
        for (unsigned i = 0; i < RACE_WRITERS; ++i)
            assert_int_equal(waitpid(writers[i], NULL, 0), writers[i]);
        assert_false(is_lost);
        assert_true(load_raced(dir, &is_wrong) || !was_there);
        assert_false(is_wrong);
        num_left += count_files(dir, "", NULL) - count_files(dir, ".clmoe", NULL);
        DIR *listing = opendir(dir);
        for (const struct dirent *item; (item = readdir(listing)) != NULL;) {
            const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
            if (item->d_name[0] != '.')
                assert_int_equal(utimensat(dirfd(listing), item->d_name, long_ago, 0), 0);
        }
        closedir(listing);
        store(dir);
        assert_true(load(dir));
        assert_int_equal(count_files(dir, "", NULL), 1);
    }
    printf("%u whole programs read, %u temporary files left by killed writers\n", num_hits, num_left);
    assert_true(num_left > 0 && num_hits > 0); /* else nothing was tried */
}

static void test_directories_that_cannot_serve(void **state) {
    (void)state;
    static const char *const nowhere[] = {"/proc/nope/cache", "/dev/null/cache", "/dev/null"};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; ++i) {
        note[0] = '\0';
        assert_false(load(nowhere[i]));
        assert_non_null(strstr(note, "cache not used"));
        store(nowhere[i]);
    }
    const char *dir = fresh_dir("shared");
    store(dir);
    assert_int_equal(chmod(dir, 0770), 0);
    assert_false(load(dir));
    assert_non_null(strstr(note, "can be written by other users"));
    assert_int_equal(chmod(dir, 0702), 0);
    assert_false(load(dir));
    assert_int_equal(chmod(dir, 0700), 0);
    assert_true(load(dir));
    if (geteuid() == 0) {
        assert_int_equal(chown(dir, 12345, 12345), 0);
        assert_false(load(dir));
        assert_non_null(strstr(note, "belongs to another user"));
    }
    note[0] = '\0';
    assert_false(load("/tmp")); /* shared by everybody */
    assert_non_null(strstr(note, "cache not used"));
}

/* A file system that is full in the middle of a write, and one that is full before it. */
static void test_no_room(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    for (rlim_t room = 0; room < HEADER_BYTES + KEY_BYTES + PROGRAM_BYTES; room += 97) {
        const char *dir = fresh_dir("full");
        tight.rlim_cur = room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        store(dir);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_non_null(strstr(note, "not cached"));
        assert_int_equal(count_files(dir, "", NULL), 0);
        store(dir);
        assert_true(load(dir));
    }
}

static void set_age(const char *path, time_t seconds) {
    const struct timespec times[2] = {{.tv_sec = time(NULL) - seconds, .tv_nsec = 0}, {.tv_sec = time(NULL) - seconds, .tv_nsec = 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_bounds(void **state) {
    (void)state;
    const char *dir = fresh_dir("bounds");
    store(dir);
    for (unsigned i = 0; i < 600; ++i) {
        char name[64];
        snprintf(name, sizeof name, "%016x.clmoe", i);
        write_file(path_of(dir, name), "old", 3);
        set_age(path_of(dir, name), 100000 - (time_t)i);
    }
    write_file(path_of(dir, "0123456789abcdef.clmoe.1.2.3"), "a writer was killed", 19);
    write_file(path_of(dir, "0123456789abcde0.clmoe.1.2.3"), "a writer is at work", 19);
    write_file(path_of(dir, "somebody-elses-file"), "kept", 4);
    set_age(path_of(dir, "0123456789abcdef.clmoe.1.2.3"), 7200);
    set_age(path_of(dir, "somebody-elses-file"), 200000);
    store(dir);
    assert_true(load(dir));
    assert_int_equal(count_files(dir, ".clmoe", NULL), 512);
    assert_int_not_equal(access(path_of(dir, "0000000000000000.clmoe"), F_OK), 0); /* the oldest went first */
    assert_int_equal(access(path_of(dir, "0000000000000257.clmoe"), F_OK), 0);
    assert_int_not_equal(access(path_of(dir, "0123456789abcdef.clmoe.1.2.3"), F_OK), 0);
    assert_int_equal(access(path_of(dir, "0123456789abcde0.clmoe.1.2.3"), F_OK), 0);
    assert_int_equal(access(path_of(dir, "somebody-elses-file"), F_OK), 0);
}

/* ---- With a driver ---- */

static clmoe_context *open_with_cache(const char *dir) {
    const bool is_parallel = fixture_pair_has("parallel");
    const clmoe_context_options options = {.kernel_class = is_parallel ? CLMOE_CLASS_PARALLEL : CLMOE_CLASS_SERIAL, .cache_dir = dir};
    clmoe_context *context = NULL;
    assert_int_equal(clmoe_context_create(fixture_pair_has("rusticl") ? "rusticl" : "Portable", &options, &context), CLMOE_SUCCESS);
    return context;
}

/* One align of the founding example, with ids of a type: each type is a program of its own. */
static clmoe_program_origin align_in(clmoe_context *context, clmoe_id_type type, char *plan_note) {
    static const int32_t ids_32[8] = {0, 2, 2, 1, 0, 2, 3, 2}, golden[12] = {0, 4, 3, 8, 1, 2, 5, 7, 6, 8, 8, 8};
    static const int16_t ids_16[16] = {0, 2, 2, 1, 0, 2, 3, 2};
    const void *ids = type == CLMOE_ID_I16 ? (const void *)ids_16 : ids_32;
    const clmoe_align_desc desc = {.max_tokens = 4, .top_k = 2, .num_experts = 4, .block_size = 2, .id_type = type};
    clmoe_plan *plan = NULL;
    assert_int_equal(clmoe_align_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
    clmoe_align_args args = {.num_tokens = 4};
    int32_t sorted[12];
    clmoe_buffer_create(context, sizeof ids_32, &args.topk_ids);
    clmoe_buffer_create(context, sizeof sorted, &args.sorted_token_ids);
    clmoe_buffer_create(context, sizeof sorted / 2, &args.expert_ids);
    clmoe_buffer_create(context, 4, &args.num_tokens_post_padded);
    clmoe_buffer_create(context, clmoe_plan_workspace_bytes(plan), &args.workspace);
    assert_int_equal(clmoe_buffer_write(context, args.topk_ids, ids, sizeof ids_32), CLMOE_SUCCESS);
    assert_int_equal(clmoe_align_enqueue(plan, clmoe_context_queue(context), &args, 0, NULL, NULL), CLMOE_SUCCESS);
    assert_int_equal(clmoe_buffer_read(context, args.sorted_token_ids, sorted, sizeof sorted), CLMOE_SUCCESS);
    assert_memory_equal(sorted, golden, sizeof golden);
    clmoe_plan_info info;
    assert_int_equal(clmoe_plan_describe(plan, 4, &info), CLMOE_SUCCESS);
    if (plan_note != NULL)
        snprintf(plan_note, 192, "%s", info.note);
    clmoe_buffer_destroy(context, args.topk_ids);
    clmoe_buffer_destroy(context, args.sorted_token_ids);
    clmoe_buffer_destroy(context, args.expert_ids);
    clmoe_buffer_destroy(context, args.num_tokens_post_padded);
    clmoe_buffer_destroy(context, args.workspace);
    clmoe_plan_destroy(plan);
    return info.program_origin;
}

/* The same in a new context. */
static clmoe_program_origin run_once(const char *dir, char *plan_note) {
    clmoe_context *context = open_with_cache(dir);
    const clmoe_program_origin origin = align_in(context, CLMOE_ID_I32, plan_note);
    clmoe_context_destroy(context);
    return origin;
}

static clmoe_program_origin run_i16(const char *dir) {
    clmoe_context *context = open_with_cache(dir);
    const clmoe_program_origin origin = align_in(context, CLMOE_ID_I16, NULL);
    clmoe_context_destroy(context);
    return origin;
}

static void test_second_context_compiles_nothing(void **state) {
    (void)state;
    char plan_note[192];
    const char *dir = fresh_dir("driver");
    assert_int_equal(run_once(dir, plan_note), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_once(dir, plan_note), CLMOE_PROGRAM_CACHED);
    assert_int_equal(run_once(NULL, plan_note), CLMOE_PROGRAM_BUILT);
    assert_string_equal(plan_note, "");
    assert_int_equal(run_once("/dev/null/cache", plan_note), CLMOE_PROGRAM_BUILT);
    assert_non_null(strstr(plan_note, "cache not used"));
}

/* The entry is not taken, and replaced by one that is. */
static void expect_rebuilt(const char *dir) {
    assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_CACHED);
}

static void test_damaged_program_is_built_again(void **state) {
    (void)state;
    static unsigned char bytes[8 << 20];
    const char *dir = fresh_dir("damaged-program");
    char name[128], path[512];
    run_once(dir, NULL);
    count_files(dir, ".clmoe", name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    const size_t length = read_file(path, bytes, sizeof bytes);
    assert_in_range(length, 1000, sizeof bytes - 1);
    for (unsigned i = 0; i < 10; ++i) {
        const size_t flipped = i == 9 ? length - 1 : length * i / 9;
        bytes[flipped] ^= (unsigned char)(1u << i % 8);
        write_file(path, bytes, length);
        bytes[flipped] ^= (unsigned char)(1u << i % 8);
        expect_rebuilt(dir);
    }
    const size_t cuts[] = {0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 500, length / 2, length - 4096, length - 1, length + 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; ++i) {
        write_file(path, bytes, cuts[i]);
        expect_rebuilt(dir);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_rebuilt(dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_rebuilt(dir);
    assert_int_equal(chmod(path, 0666), 0);
    expect_rebuilt(dir);
    assert_int_equal(chmod(path, 0), 0); /* root reads it all the same */
    run_once(dir, NULL);
    assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_CACHED);
}

/* Exchanges the two entries of a directory. */
static void swap_entries(const char *dir) {
    char names[2][128], paths[2][512], aside[512];
    unsigned count = 0;
    DIR *listing = opendir(dir);
    assert_non_null(listing);
    for (const struct dirent *item; (item = readdir(listing)) != NULL;)
        if (strstr(item->d_name, ".clmoe") != NULL) {
            assert_true(count < 2);
            snprintf(names[count++], sizeof names[0], "%.127s", item->d_name);
        }
    closedir(listing);
    assert_int_equal(count, 2);
    for (unsigned i = 0; i < 2; ++i)
        snprintf(paths[i], sizeof paths[i], "%s/%s", dir, names[i]);
    snprintf(aside, sizeof aside, "%s/aside", dir);
    assert_int_equal(rename(paths[0], aside), 0);
    assert_int_equal(rename(paths[1], paths[0]), 0);
    assert_int_equal(rename(aside, paths[1]), 0);
}

static void test_entry_of_another_source(void **state) {
    (void)state;
    const char *dir = fresh_dir("another-source");
    assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_i16(dir), CLMOE_PROGRAM_BUILT);
    swap_entries(dir);
    assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_i16(dir), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_CACHED);
    assert_int_equal(run_i16(dir), CLMOE_PROGRAM_CACHED);
}

/* This program again, on one of PoCL's two devices. */
static clmoe_program_origin run_on(const char *pocl_device, const char *dir) {
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("POCL_DEVICES", pocl_device, 1);
        execl("/proc/self/exe", "test_cache", "--origin", dir, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) >= 10 && WEXITSTATUS(status) < 20);
    return (clmoe_program_origin)(WEXITSTATUS(status) - 10);
}

static void test_entry_of_another_device(void **state) {
    (void)state;
    if (!fixture_pair_has("pocl"))
        return;
    const char *dir = fresh_dir("another-device");
    assert_int_equal(run_on("basic", dir), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_on("pthread", dir), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_on("basic", dir), CLMOE_PROGRAM_CACHED);
    swap_entries(dir);
    assert_int_equal(run_on("basic", dir), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_on("pthread", dir), CLMOE_PROGRAM_BUILT);
    assert_int_equal(run_on("basic", dir), CLMOE_PROGRAM_CACHED);
    assert_int_equal(run_on("pthread", dir), CLMOE_PROGRAM_CACHED);
}

/* Two contexts on one device, used in turn; one ends, the other goes on. */
static void test_two_contexts(void **state) {
    (void)state;
    const char *dir = fresh_dir("two-contexts");
    clmoe_context *contexts[2] = {open_with_cache(dir), open_with_cache(dir)};
    for (unsigned i = 0; i < 50; ++i)
        align_in(contexts[i % 2], i % 4 < 2 ? CLMOE_ID_I32 : CLMOE_ID_I16, NULL);
    clmoe_context_destroy(contexts[0]);
    for (unsigned i = 0; i < 10; ++i)
        assert_int_equal(align_in(contexts[1], i % 2 == 0 ? CLMOE_ID_I32 : CLMOE_ID_I16, NULL), CLMOE_PROGRAM_CACHED);
    clmoe_context_destroy(contexts[1]);
}

/* Many processes on one empty cache, some of them killed: the others are right, and the last run compiles nothing. */
static void test_many_processes(void **state) {
    (void)state;
    enum { PROCESSES = 8 };
    const char *dir = NULL;
    unsigned num_killed = 0;
    for (unsigned round = 0; round < (is_deep ? 50 : 4); ++round) {
        pid_t children[PROCESSES];
        dir = fresh_dir("processes");
        for (unsigned i = 0; i < PROCESSES; ++i) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] == 0) {
                execl("/proc/self/exe", "test_cache", "--once", dir, (char *)NULL);
                _exit(127);
            }
        }
        if (round % 2 == 1) {
            usleep(mix(round) % (is_deep ? 1000000 : 300000));
            kill(children[mix(round) % PROCESSES], SIGKILL);
        }
        for (unsigned i = 0; i < PROCESSES; ++i) {
            int status = 0;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                ++num_killed;
            else
                assert_int_equal(status, 0);
        }
        assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_CACHED);
        assert_int_equal(run_i16(dir), CLMOE_PROGRAM_CACHED);
        assert_int_equal(count_files(dir, ".clmoe", NULL), 2);
    }
    printf("%u processes were killed while they ran\n", num_killed);
}

static int set_up(void **state) {
    (void)state;
    for (unsigned i = 0; i < PROGRAM_BYTES; ++i)
        program_bytes[i] = (unsigned char)mix(i);
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command) == 0 ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--once") == 0) {
        run_once(argv[2], NULL);
        run_i16(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "--origin") == 0)
        return 10 + (int)run_once(argv[2], NULL);
    if (getenv("CLMOE_TEST_FILTER") != NULL)
        cmocka_set_test_filter(getenv("CLMOE_TEST_FILTER"));
    is_deep = argc == 2 && strcmp(argv[1], "deep") == 0;
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_other_key_misses),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_things_in_its_place),
        cmocka_unit_test(test_swapped_entries),
        cmocka_unit_test(test_entries_open_to_others),
        cmocka_unit_test(test_linked_directory),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_writers_are_killed),
        cmocka_unit_test(test_directories_that_cannot_serve),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_bounds),
    };
    const struct CMUnitTest with_driver[] = {
        cmocka_unit_test(test_second_context_compiles_nothing),
        cmocka_unit_test(test_damaged_program_is_built_again),
        cmocka_unit_test(test_entry_of_another_source),
        cmocka_unit_test(test_entry_of_another_device),
        cmocka_unit_test(test_two_contexts),
        cmocka_unit_test(test_many_processes),
    };
    if (fixture_pair_has("native"))
        return cmocka_run_group_tests_name("cache", alone, set_up, tear_down);
    return cmocka_run_group_tests_name("cache with a driver", with_driver, set_up, tear_down);
}
