/* The program cache, file by file and without a driver: cache.c is compiled into this program. Then, on an OpenCL pair, with one. */
#define _GNU_SOURCE
#include "fixture.h"
#include "opencl/cache.h"

#include <dirent.h>
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

/* One align of the founding example in a new context. */
static clmoe_program_origin run_once(const char *dir, char *plan_note) {
    static const int32_t ids[8] = {0, 2, 2, 1, 0, 2, 3, 2}, golden[12] = {0, 4, 3, 8, 1, 2, 5, 7, 6, 8, 8, 8};
    clmoe_context *context = open_with_cache(dir);
    const clmoe_align_desc desc = {.max_tokens = 4, .top_k = 2, .num_experts = 4, .block_size = 2};
    clmoe_plan *plan = NULL;
    assert_int_equal(clmoe_align_plan_create(context, &desc, &plan), CLMOE_SUCCESS);
    clmoe_align_args args = {.num_tokens = 4};
    int32_t sorted[12];
    clmoe_buffer_create(context, sizeof ids, &args.topk_ids);
    clmoe_buffer_create(context, sizeof sorted, &args.sorted_token_ids);
    clmoe_buffer_create(context, sizeof sorted / 2, &args.expert_ids);
    clmoe_buffer_create(context, 4, &args.num_tokens_post_padded);
    clmoe_buffer_create(context, clmoe_plan_workspace_bytes(plan), &args.workspace);
    assert_int_equal(clmoe_buffer_write(context, args.topk_ids, ids, sizeof ids), CLMOE_SUCCESS);
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
    clmoe_context_destroy(context);
    return info.program_origin;
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
    for (unsigned i = 0; i < 5; ++i) {
        const size_t cut = i == 0 ? length / 2 : length, flipped = length * i / 5;
        bytes[flipped] ^= 0x10;
        write_file(path, bytes, cut);
        bytes[flipped] ^= 0x10;
        assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_BUILT);
        assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_CACHED);
    }
}

/* Many processes on one empty cache, some of them killed: the others are right, and the last run compiles nothing. */
static void test_many_processes(void **state) {
    (void)state;
    enum { PROCESSES = 8, ROUNDS = 4 };
    const char *dir = NULL;
    for (unsigned round = 0; round < ROUNDS; ++round) {
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
            usleep(100000 + mix(round) % 900000);
            kill(children[mix(round) % PROCESSES], SIGKILL);
        }
        for (unsigned i = 0; i < PROCESSES; ++i) {
            int status = 0;
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
                assert_int_equal(status, 0);
        }
        assert_int_equal(run_once(dir, NULL), CLMOE_PROGRAM_CACHED);
        assert_int_equal(count_files(dir, ".clmoe", NULL), 1);
    }
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
        return 0;
    }
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_other_key_misses),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_other_things_in_its_place),
        cmocka_unit_test(test_directories_that_cannot_serve),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_bounds),
    };
    const struct CMUnitTest with_driver[] = {
        cmocka_unit_test(test_second_context_compiles_nothing),
        cmocka_unit_test(test_damaged_program_is_built_again),
        cmocka_unit_test(test_many_processes),
    };
    if (fixture_pair_has("native"))
        return cmocka_run_group_tests_name("cache", alone, set_up, tear_down);
    return cmocka_run_group_tests_name("cache with a driver", with_driver, set_up, tear_down);
}
