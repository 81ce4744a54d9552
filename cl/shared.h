/* shared.h - types and formulas that the host and every kernel use alike. Valid C11 and valid OpenCL C 1.2; no tuning in here.
 *
 * A program is this file, the operator's header and the operator's .cl file of one class, one after the other.
 */
#ifndef CLMOE_SHARED_H
#define CLMOE_SHARED_H

#ifdef __OPENCL_VERSION__
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
#define NOT_INLINE __attribute__((noinline))
#else
#include <stdbool.h>
#include <stdint.h>
typedef int8_t i8;
typedef uint8_t u8;
typedef int16_t i16;
typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
#endif

#ifdef CLMOE_KERNEL
/* UNROLL: eight turns of a loop at a time, where they are so short that the loop's own steps count. STREAM: a store around the caches,
 * whose line need not be read first; STREAM_END() before anyone is told of what was written so. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll_count(8)")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 8")
#else
#define UNROLL
#endif
#if defined(__x86_64__) && defined(__clang__)
#define STREAM(to, value) __builtin_nontemporal_store(value, to)
#define STREAM_END() __builtin_ia32_sfence()
#elif defined(__x86_64__) && defined(__GNUC__)
#define STREAM(to, value)                                                                                                                  \
    (sizeof *(to) == 8 ? __builtin_ia32_movnti64((long long *)(to), (long long)(value)) : __builtin_ia32_movnti((int *)(to), (int)(value)))
#define STREAM_END() __builtin_ia32_sfence()
#else
#define STREAM(to, value) ((void)(*(to) = (value)))
#define STREAM_END() ((void)0)
#endif
#endif

static inline u32 ceil_div(u32 a, u32 b) {
    return a / b + (a % b != 0);
}

/* The result must fit: the host bounds rows below 2^31. */
static inline u32 round_up(u32 a, u32 multiple) {
    return ceil_div(a, multiple) * multiple;
}

/* n items are shared out in `parts` contiguous runs of equal length, the last ones shorter or empty: run i is
 * [share_begin(n, parts, i), share_begin(n, parts, i + 1)). */
static inline u32 share_begin(u32 n, u32 parts, u32 part) {
    const u64 begin = (u64)ceil_div(n, parts) * part;
    return begin < n ? (u32)begin : n;
}

#endif
