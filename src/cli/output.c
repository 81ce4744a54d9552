#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int held_signals[OUTPUT_NUM_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

static outcome fail(const output_set *outputs, const char *path, const char *reason) {
    return report_error(outputs->command, OUTCOME_BAD_INPUT, "%s: %s", path, reason);
}

/* NULL without memory. */
static char *join(const char *first, const char *separator, const char *second) {
    const size_t bytes = strlen(first) + strlen(separator) + strlen(second) + 1;
    char *text = malloc(bytes);
    if (text) {
        snprintf(text, bytes, "%s%s%s", first, separator, second);
    }
    return text;
}

/* A name that is free unless somebody left it behind: a process that was killed, perhaps with the same number. */
static char *name_beside(const char *path, const char *purpose, int attempt) {
    char suffix[64];
    snprintf(suffix, sizeof suffix, "%s-%ld-%d", purpose, (long)getpid(), attempt);
    return join(path, ".", suffix);
}

static bool open_beside(output_file *file) {
    int descriptor = -1;
    for (int attempt = 0; descriptor < 0 && attempt < 16; attempt++) {
        free(file->beside);
        file->beside = name_beside(file->path, "writing", attempt);
        if (!file->beside) {
            return false;
        }
        descriptor = open(file->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST) {
            return false;
        }
    }
    file->stream = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (descriptor >= 0 && !file->stream) {
        close(descriptor);
        unlink(file->beside);
    }
    return file->stream != NULL;
}

/* Where the file will stand: behind a symbolic link the file that is meant is replaced, not the link. NULL without memory. */
static char *place_of(const char *directory, const char *name) {
    struct stat status;
    char *path = directory ? join(directory, "/", name) : join(name, "", "");
    char *target = path && lstat(path, &status) == 0 && S_ISLNK(status.st_mode) ? realpath(path, NULL) : NULL;
    if (target) {
        free(path);
    }
    return target ? target : path;
}

/* NULL, or why no file can be put there. */
static const char *obstacle(const output_set *outputs, const char *path) {
    struct stat status;
    if (!path) {
        return "no memory";
    }
    for (size_t i = 0; i < outputs->num_files; i++) {
        if (strcmp(outputs->files[i].path, path) == 0) {
            return "would be written twice";
        }
    }
    return stat(path, &status) != 0  ? NULL
           : S_ISREG(status.st_mode) ? NULL
           : S_ISDIR(status.st_mode) ? "is a directory"
                                     : "is not a regular file";
}

static void shield(output_set *outputs) {
    for (size_t i = 0; i < OUTPUT_NUM_SIGNALS && !outputs->shielded; i++) {
        outputs->former_handlers[i] = signal(held_signals[i], SIG_IGN);
    }
    outputs->shielded = true;
}

static void unshield(output_set *outputs) {
    for (size_t i = 0; i < OUTPUT_NUM_SIGNALS && outputs->shielded; i++) {
        signal(held_signals[i], outputs->former_handlers[i]);
    }
    outputs->shielded = false;
}

outcome output_directory(output_set *outputs, const char *path) {
    struct stat status;
    if (stat(path, &status) == 0) {
        return S_ISDIR(status.st_mode) ? OUTCOME_DONE : fail(outputs, path, "is not a directory");
    }
    shield(outputs);
    if (mkdir(path, 0777) != 0) {
        return fail(outputs, path, strerror(errno));
    }
    outputs->made_directory = join(path, "", "");
    return OUTCOME_DONE;
}

outcome output_open(output_set *outputs, const char *directory, const char *name, FILE **stream) {
    if (outputs->num_files == OUTPUT_MAX_FILES) {
        return fail(outputs, name, "too many output files");
    }
    output_file *file = &outputs->files[outputs->num_files];
    memset(file, 0, sizeof *file);
    file->path = place_of(directory, name);
    const char *reason = obstacle(outputs, file->path);
    if (!reason) {
        shield(outputs);
        reason = open_beside(file) ? NULL : strerror(errno);
    }
    if (reason) {
        const outcome result = fail(outputs, file->path ? file->path : name, reason);
        free(file->beside);
        free(file->path);
        return result;
    }
    outputs->num_files++;
    *stream = file->stream;
    return OUTCOME_DONE;
}

outcome output_close(output_set *outputs, bool written) {
    output_file *file = &outputs->files[outputs->num_files - 1];
    const int write_error = errno;
    const bool closed = fclose(file->stream) == 0;
    file->stream = NULL;
    return written && closed ? OUTCOME_DONE : fail(outputs, file->path, strerror(closed ? write_error : errno));
}

/* Keeps the former file under a second name, so that it can come back. Where the file system has no hard links it can't. */
static bool move_to_place(output_file *file) {
    file->former = name_beside(file->path, "former", 0);
    if (file->former && link(file->path, file->former) != 0) {
        free(file->former);
        file->former = NULL;
    }
    file->moved = rename(file->beside, file->path) == 0;
    return file->moved;
}

static void move_back(output_file *file) {
    if (file->moved && (!file->former || rename(file->former, file->path) != 0)) {
        unlink(file->path);
    }
}

outcome output_commit(output_set *outputs) {
    outcome result = OUTCOME_DONE;
    for (size_t i = 0; i < outputs->num_files && result == OUTCOME_DONE; i++) {
        if (!move_to_place(&outputs->files[i])) {
            result = fail(outputs, outputs->files[i].path, strerror(errno));
        }
    }
    for (size_t i = 0; i < outputs->num_files; i++) {
        if (result != OUTCOME_DONE) {
            move_back(&outputs->files[i]);
            outputs->files[i].moved = false;
        }
        if (outputs->files[i].former) {
            unlink(outputs->files[i].former);
        }
    }
    if (result == OUTCOME_DONE) {
        free(outputs->made_directory);
        outputs->made_directory = NULL;
    }
    return result;
}

void output_json(const output_set *outputs, report_json *json) {
    json_open(json, "files", '[');
    for (size_t i = 0; i < outputs->num_files; i++) {
        json_text(json, NULL, outputs->files[i].path);
    }
    json_close(json, ']');
}

void output_discard(output_set *outputs) {
    for (size_t i = 0; i < outputs->num_files; i++) {
        output_file *file = &outputs->files[i];
        if (file->stream) {
            fclose(file->stream);
        }
        if (!file->moved) {
            unlink(file->beside);
        }
        free(file->path);
        free(file->beside);
        free(file->former);
    }
    if (outputs->made_directory) {
        rmdir(outputs->made_directory);
        free(outputs->made_directory);
    }
    unshield(outputs);
    memset(outputs, 0, sizeof *outputs);
}
