/* kernels.h - the serial class as functions of this process. */
#ifndef CLMOE_NATIVE_KERNELS_H
#define CLMOE_NATIVE_KERNELS_H

#include <stdint.h>

/* One group of a launch. arguments[i] points at argument i: at the memory of a buffer, or at the bytes. */
typedef void clmoe_native_kernel(const void *const *arguments, uint32_t group, uint32_t num_groups);

/* The kernel `name` for `variant`, or NULL. kernels.c is compiled once for each level of the processor's vector units that the build
 * knows: the same source with other instructions, so the same bits. */
clmoe_native_kernel *clmoe_native_find_kernel_base(const char *name, const char *variant);
clmoe_native_kernel *clmoe_native_find_kernel_avx2(const char *name, const char *variant);
clmoe_native_kernel *clmoe_native_find_kernel_avx512(const char *name, const char *variant);

#endif
