#define _GNU_SOURCE /* O_DIRECTORY, st_mtim, openat */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ENTRY_BYTES = 64 << 20, MAX_CACHE_BYTES = 256 << 20, MAX_ENTRIES = 512, STALE_TEMP_SECONDS = 3600, NAME_BYTES = 64 };

static const char magic[8] = {'c', 'l', 'm', 'o', 'e', 'c', '0', '1'};

/* First of a file; key and program follow. */
struct header {
    char magic[8];
    uint64_t key_bytes, program_bytes, checksum;
};

/* FNV-1a. Each step maps states one to one, so no change of a single byte goes unseen. */
static uint64_t hash(uint64_t state, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; ++i)
        state = (state ^ byte[i]) * 0x100000001b3u;
    return state;
}

static const uint64_t hash_start = 0xcbf29ce484222325u;

static uint64_t checksum_of(const struct header *header, const void *key, const void *program) {
    uint64_t state = hash(hash_start, header, offsetof(struct header, checksum));
    state = hash(state, key, header->key_bytes);
    return hash(state, program, header->program_bytes);
}

static void name_entry(char name[NAME_BYTES], const char *key, size_t key_bytes) {
    snprintf(name, NAME_BYTES, "%016llx.clmoe", (unsigned long long)hash(hash_start, key, key_bytes));
}

/* Creates dir and its parents; those that exist are left as they are. */
static bool make_dirs(const char *dir) {
    char path[4096];
    const size_t length = strlen(dir);
    if (length >= sizeof path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(path, dir, length + 1);
    for (size_t i = 1; i <= length; ++i)
        if (path[i] == '/' || path[i] == '\0') {
            const char kept = path[i];
            path[i] = '\0';
            if (mkdir(path, 0700) != 0 && errno != EEXIST)
                return false;
            path[i] = kept;
        }
    return true;
}

/* The directory, open, if it is this user's alone; else -1 with a note. */
static int open_dir(const char *dir, char *note, size_t note_bytes) {
    if (!make_dirs(dir)) {
        snprintf(note, note_bytes, "cache not used: cannot create %.96s: %s", dir, strerror(errno));
        return -1;
    }
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        snprintf(note, note_bytes, "cache not used: cannot open %.96s: %s", dir, strerror(errno));
    } else if (status.st_uid != geteuid()) {
        snprintf(note, note_bytes, "cache not used: %.96s belongs to another user", dir);
    } else if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        snprintf(note, note_bytes, "cache not used: %.96s can be written by other users", dir);
    } else {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool read_all(int fd, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(fd, (char *)data + done, bytes - done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* The program of a sound entry for just this key, which nobody else can have written, else NULL. */
static unsigned char *read_entry(int fd, const char *key, size_t key_bytes, size_t *program_bytes) {
    struct header header;
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
        !read_all(fd, &header, sizeof header) || memcmp(header.magic, magic, sizeof magic) != 0 || header.key_bytes != key_bytes ||
        header.program_bytes == 0 || header.program_bytes > MAX_ENTRY_BYTES ||
        (uint64_t)status.st_size != sizeof header + header.key_bytes + header.program_bytes)
        return NULL;
    char *stored_key = malloc(key_bytes);
    unsigned char *program = malloc(header.program_bytes);
    const bool is_sound = stored_key != NULL && program != NULL && read_all(fd, stored_key, key_bytes) &&
                          read_all(fd, program, header.program_bytes) && memcmp(stored_key, key, key_bytes) == 0 &&
                          checksum_of(&header, stored_key, program) == header.checksum;
    free(stored_key);
    if (!is_sound) {
        free(program);
        return NULL;
    }
    *program_bytes = header.program_bytes;
    return program;
}

unsigned char *clmoe_cache_load(const char *dir, const char *key, size_t key_bytes, size_t *program_bytes, char *note, size_t note_bytes) {
    const int dir_fd = open_dir(dir, note, note_bytes);
    if (dir_fd < 0)
        return NULL;
    char name[NAME_BYTES];
    name_entry(name, key, key_bytes);
    unsigned char *program = NULL;
    const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        program = read_entry(fd, key, key_bytes, program_bytes);
        close(fd);
    }
    close(dir_fd);
    return program;
}

struct entry {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec age;
};

static int by_age(const void *a, const void *b) {
    const struct timespec *x = &((const struct entry *)a)->age, *y = &((const struct entry *)b)->age;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Removes temporary files that a killed writer left an hour ago, and the oldest entries beyond the bounds. Touches nothing whose name is
 * not one of ours. */
static void make_room(int dir_fd) {
    const int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    if (listing == NULL) {
        if (copy >= 0)
            close(copy);
        return;
    }
    struct entry *entries = malloc(4 * MAX_ENTRIES * sizeof *entries);
    size_t num_entries = 0;
    uint64_t total = 0;
    for (const struct dirent *item; entries != NULL && (item = readdir(listing)) != NULL && num_entries < 4 * MAX_ENTRIES;) {
        struct stat status;
        const char *end = strstr(item->d_name, ".clmoe");
        if (end == NULL || end - item->d_name != 16 || strlen(item->d_name) >= NAME_BYTES ||
            fstatat(dir_fd, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
            continue;
        if (strcmp(end, ".clmoe") != 0) {
            if (time(NULL) - status.st_mtime > STALE_TEMP_SECONDS)
                unlinkat(dir_fd, item->d_name, 0);
            continue;
        }
        struct entry *entry = &entries[num_entries++];
        snprintf(entry->name, sizeof entry->name, "%.*s", NAME_BYTES - 1, item->d_name);
        entry->bytes = (uint64_t)status.st_size;
        entry->age = status.st_mtim;
        total += entry->bytes;
    }
    closedir(listing);
    if (entries != NULL && num_entries > 0) {
        qsort(entries, num_entries, sizeof *entries, by_age);
        for (size_t i = 0; i + 1 < num_entries && (total > MAX_CACHE_BYTES || num_entries - i > MAX_ENTRIES); ++i)
            if (unlinkat(dir_fd, entries[i].name, 0) == 0)
                total -= entries[i].bytes;
    }
    free(entries);
}

void clmoe_cache_store(const char *dir, const char *key, size_t key_bytes, const unsigned char *program, size_t program_bytes, char *note,
                       size_t note_bytes) {
    if (program_bytes == 0 || program_bytes > MAX_ENTRY_BYTES)
        return;
    const int dir_fd = open_dir(dir, note, note_bytes);
    if (dir_fd < 0)
        return;
    char name[NAME_BYTES], temp[NAME_BYTES];
    name_entry(name, key, key_bytes);
    /* Unique among processes by the id, among threads and calls by the address and the time. */
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(temp, sizeof temp, "%.22s.%lx.%lx.%lx", name, (unsigned long)getpid(), (unsigned long)(uintptr_t)&now & 0xffffffffu,
             (unsigned long)now.tv_nsec);

    struct header header = {.key_bytes = key_bytes, .program_bytes = program_bytes};
    memcpy(header.magic, magic, sizeof magic);
    header.checksum = checksum_of(&header, key, program);
    const int fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_stored = fd >= 0 && write_all(fd, &header, sizeof header) && write_all(fd, key, key_bytes) &&
                     write_all(fd, program, program_bytes) && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && is_stored) {
        is_stored = false;
        error = errno;
    }
    if (is_stored && renameat(dir_fd, temp, dir_fd, name) != 0) {
        error = errno;
        is_stored = (error == EISDIR || error == ENOTEMPTY) && unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 &&
                    renameat(dir_fd, temp, dir_fd, name) == 0;
    }
    if (!is_stored) {
        snprintf(note, note_bytes, "program not cached in %.96s: %s", dir, strerror(error));
        if (fd >= 0)
            unlinkat(dir_fd, temp, 0);
    }
    make_room(dir_fd);
    close(dir_fd);
}

void clmoe_cache_remove(const char *dir, const char *key, size_t key_bytes) {
    char name[NAME_BYTES], note[2];
    const int dir_fd = open_dir(dir, note, sizeof note);
    if (dir_fd < 0)
        return;
    name_entry(name, key, key_bytes);
    unlinkat(dir_fd, name, 0);
    close(dir_fd);
}
