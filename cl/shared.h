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
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll_count(8)") /* where a loop's turns are so short that its own steps count */
#else
#define UNROLL
#endif
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
