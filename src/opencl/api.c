#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Data pointers and function pointers have the same representation where dlsym exists. */
static bool find(void *library, const char *name, void *function, size_t function_bytes) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, function_bytes);
    return symbol != NULL;
}

static bool find_all(void *library, struct clmoe_cl *cl, const char **missing) {
#define FIND(function)                                                                                                                     \
    if (!find(library, #function, &cl->function, sizeof cl->function)) {                                                                   \
        *missing = #function;                                                                                                              \
        return false;                                                                                                                      \
    }
    CLMOE_CL_FUNCTIONS(FIND)
#undef FIND
    return true;
}

bool clmoe_cl_load(struct clmoe_cl *cl, char *reason, size_t reason_bytes) {
    const char *missing;
    if (find_all(RTLD_DEFAULT, cl, &missing))
        return true;
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; ++i)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        snprintf(reason, reason_bytes, "no OpenCL loader (libOpenCL.so.1) on this machine");
        return false;
    }
    const bool is_whole = find_all(library, cl, &missing);
    if (!is_whole)
        snprintf(reason, reason_bytes, "the OpenCL loader lacks %s", missing);
    dlclose(library); /* gives back the handle alone, see RTLD_NODELETE */
    return is_whole;
}
