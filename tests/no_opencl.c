/* Preloaded into a program, this makes the OpenCL loader impossible to find, as on a machine without one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

void *dlopen(const char *file, int mode) {
    void *(*next)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&next, &symbol, sizeof next);
    return file != NULL && strstr(file, "OpenCL") != NULL ? NULL : next(file, mode);
}
