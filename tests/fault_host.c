#define _GNU_SOURCE
#include "fault_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fault_host_names[NUM_HOST_CALLS] = {"memory", "mkdir", "open",  "openat",   "fstat",    "fstatat",   "read",
                                                      "write",  "fsync", "close", "renameat", "unlinkat", "fdopendir", "fopen"};

/* The linker's names: the real function, and the one that takes its calls. */
#define WRAPPED(type, name, ...)                                                                                                           \
    type __real_##name(__VA_ARGS__);                                                                                                       \
    type __wrap_##name(__VA_ARGS__)
WRAPPED(void *, malloc, size_t);
WRAPPED(void *, calloc, size_t, size_t);
WRAPPED(void *, realloc, void *, size_t);
WRAPPED(void, free, void *);
WRAPPED(int, mkdir, const char *, mode_t);
WRAPPED(int, open, const char *, int, ...);
WRAPPED(int, openat, int, const char *, int, ...);
WRAPPED(int, fstat, int, struct stat *);
WRAPPED(int, fstatat, int, const char *, struct stat *, int);
WRAPPED(ssize_t, read, int, void *, size_t);
WRAPPED(ssize_t, write, int, const void *, size_t);
WRAPPED(int, fsync, int);
WRAPPED(int, close, int);
WRAPPED(int, renameat, int, const char *, int, const char *);
WRAPPED(int, unlinkat, int, const char *, int);
WRAPPED(DIR *, fdopendir, int);
WRAPPED(FILE *, fopen, const char *, const char *);

/* The library's calls under test come from one thread; others may free. */
enum { MAX_BLOCKS = 4096 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool watching;
static unsigned counts[NUM_HOST_CALLS], num_failed, num_blocks;
static struct {
    enum fault_host_call call;
    unsigned first, last;
    int error;
} fault;
static void *blocks[MAX_BLOCKS];

void fault_host_reset(void) {
    for (int i = 0; i < NUM_HOST_CALLS; ++i)
        counts[i] = 0;
    fault.first = fault.last = num_failed = 0;
}

void fault_host_watch(bool is_watching) {
    watching = is_watching;
}

void fault_host_fail(enum fault_host_call call, unsigned number, unsigned last, int error) {
    fault.call = call;
    fault.first = number;
    fault.last = last == 0 ? number : last;
    fault.error = error;
}

unsigned fault_host_num_failed(void) {
    return num_failed;
}

unsigned fault_host_count(enum fault_host_call call) {
    return counts[call];
}

unsigned fault_host_blocks(void) {
    return num_blocks;
}

/* 0 = the call goes on; else errno is set if that is what it stands for. */
static int fault_of(enum fault_host_call call) {
    if (!watching)
        return 0;
    const unsigned number = ++counts[call];
    if (fault.first == 0 || call != fault.call || number < fault.first || number > fault.last)
        return 0;
    ++num_failed;
    if (fault.error > 0)
        errno = fault.error;
    return fault.error;
}

/* ---- Memory --------------------------------------------------------------------------------------------------------------------- */
static void *keep_block(void *block) {
    if (block != NULL && watching) {
        pthread_mutex_lock(&mutex);
        if (num_blocks == MAX_BLOCKS)
            abort();
        blocks[num_blocks++] = block;
        pthread_mutex_unlock(&mutex);
    }
    return block;
}

static void forget_block(const void *block) {
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < num_blocks; ++i)
        if (blocks[i] == block) {
            blocks[i] = blocks[--num_blocks];
            break;
        }
    pthread_mutex_unlock(&mutex);
}

void *__wrap_malloc(size_t bytes) {
    return fault_of(HOST_MEMORY) != 0 ? NULL : keep_block(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fault_of(HOST_MEMORY) != 0 ? NULL : keep_block(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes) {
    if (fault_of(HOST_MEMORY) != 0)
        return NULL;
    if (block != NULL)
        forget_block(block);
    return keep_block(__real_realloc(block, bytes));
}

void __wrap_free(void *block) {
    if (block != NULL)
        forget_block(block);
    __real_free(block);
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------------- */
int __wrap_mkdir(const char *path, mode_t mode) {
    return fault_of(HOST_MKDIR) != 0 ? -1 : __real_mkdir(path, mode);
}

#define MODE_AFTER(flags)                                                                                                                  \
    mode_t mode = 0;                                                                                                                       \
    if (((flags)&O_CREAT) != 0) {                                                                                                          \
        va_list list;                                                                                                                      \
        va_start(list, flags);                                                                                                             \
        mode = va_arg(list, mode_t);                                                                                                       \
        va_end(list);                                                                                                                      \
    }

int __wrap_open(const char *path, int flags, ...) {
    MODE_AFTER(flags)
    return fault_of(HOST_OPEN) != 0 ? -1 : __real_open(path, flags, mode);
}

int __wrap_openat(int dir, const char *path, int flags, ...) {
    MODE_AFTER(flags)
    return fault_of(HOST_OPENAT) != 0 ? -1 : __real_openat(dir, path, flags, mode);
}

int __wrap_fstat(int file, struct stat *status) {
    return fault_of(HOST_FSTAT) != 0 ? -1 : __real_fstat(file, status);
}

int __wrap_fstatat(int dir, const char *path, struct stat *status, int flags) {
    return fault_of(HOST_FSTATAT) != 0 ? -1 : __real_fstatat(dir, path, status, flags);
}

ssize_t __wrap_read(int file, void *data, size_t bytes) {
    const int error = fault_of(HOST_READ);
    return error > 0 ? -1 : error == FAULT_NOTHING ? 0 : __real_read(file, data, error == FAULT_HALF ? (bytes + 1) / 2 : bytes);
}

ssize_t __wrap_write(int file, const void *data, size_t bytes) {
    const int error = fault_of(HOST_WRITE);
    return error > 0 ? -1 : error == FAULT_NOTHING ? 0 : __real_write(file, data, error == FAULT_HALF ? (bytes + 1) / 2 : bytes);
}

int __wrap_fsync(int file) {
    return fault_of(HOST_FSYNC) != 0 ? -1 : __real_fsync(file);
}

int __wrap_close(int file) {
    const bool fails = fault_of(HOST_CLOSE) != 0;
    const int error = errno, status = __real_close(file);
    if (fails)
        errno = error;
    return fails ? -1 : status;
}

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return fault_of(HOST_RENAMEAT) != 0 ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

int __wrap_unlinkat(int dir, const char *path, int flags) {
    return fault_of(HOST_UNLINKAT) != 0 ? -1 : __real_unlinkat(dir, path, flags);
}

DIR *__wrap_fdopendir(int file) {
    return fault_of(HOST_FDOPENDIR) != 0 ? NULL : __real_fdopendir(file);
}

FILE *__wrap_fopen(const char *path, const char *mode) {
    return fault_of(HOST_FOPEN) != 0 ? NULL : __real_fopen(path, mode);
}
