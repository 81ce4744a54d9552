/* fault_host.h - makes the library's own calls of the C library fail: memory and files.
 *
 * A program whose copy of the library is static links with --wrap=<name> for each of FAULT_HOST_CALLS, see fault.cmake. Calls are counted,
 * and fail, only between fault_host_watch(true) and fault_host_watch(false), so that only the library's count.
 */
#ifndef CLMOE_TESTS_FAULT_HOST_H
#define CLMOE_TESTS_FAULT_HOST_H

#include <stdbool.h>

/* malloc, calloc and realloc count as one call: "memory". */
enum fault_host_call {
    HOST_MEMORY,
    HOST_MKDIR,
    HOST_OPEN,
    HOST_OPENAT,
    HOST_FSTAT,
    HOST_FSTATAT,
    HOST_READ,
    HOST_WRITE,
    HOST_FSYNC,
    HOST_CLOSE,
    HOST_RENAMEAT,
    HOST_UNLINKAT,
    HOST_FDOPENDIR,
    HOST_FOPEN,
    NUM_HOST_CALLS
};
extern const char *const fault_host_names[NUM_HOST_CALLS];

/* In place of an errno: read and write move half of the bytes, or none, and say so. */
enum { FAULT_HALF = -1, FAULT_NOTHING = -2 };

void fault_host_reset(void);
void fault_host_watch(bool is_watching);
/* Every call from the number-th to the last-th fails; last 0 = that one alone. A close that fails has closed. */
void fault_host_fail(enum fault_host_call call, unsigned number, unsigned last, int error);
unsigned fault_host_num_failed(void);
unsigned fault_host_count(enum fault_host_call call);

/* Blocks of memory that were allocated while watching and are not yet freed. */
unsigned fault_host_blocks(void);

#endif
