/* route.h - what the host and both kernel classes must agree on for route: parameters, keys, and the arithmetic that decides weights.
 *
 * The arithmetic gives the same bits wherever additions and multiplications round to nearest and are not contracted: no library function,
 * no result that depends on denormal numbers. It takes and returns normal numbers, zeros and infinities. A *key* is an i32 that orders as
 * the numbers do; a *value* is a logit after the softcap.
 */
#ifndef CLMOE_ROUTE_H
#define CLMOE_ROUTE_H

#ifndef CLMOE_SHARED_H
#include "shared.h"
#endif

enum { ROUTE_SOFTMAX = 0, ROUTE_SIGMOID = 1, ROUTE_SQRT_SOFTPLUS = 2, ROUTE_IDENTITY = 3 };
enum { ROUTE_GROUPS_NONE = 0, ROUTE_GROUPS_MAX = 1, ROUTE_GROUPS_TOP2_SUM = 2 };
enum { ROUTE_WEIGHTS_SCORE = 0, ROUTE_WEIGHTS_SOFTMAX_CHOSEN = 1, ROUTE_WEIGHTS_SIGMOID_CHOSEN = 2 };
enum { ROUTE_KEEP_SUM = 0, ROUTE_BY_SUM = 1, ROUTE_BY_SUM_PLUS_EPSILON = 2, ROUTE_BY_MAX_EPSILON = 3 };

enum {
    ROUTE_HAS_BIAS = 1 << 0,
    ROUTE_HAS_EXPERT_SCALE = 1 << 1,
    ROUTE_HAS_SOFTCAP = 1 << 2,
    ROUTE_IS_BY_LOGIT = 1 << 3, /* keys are those of the logits, which order as the scores do */
    ROUTE_NEEDS_SUM = 1 << 4    /* softmax over all experts, which renormalizing does not cancel */
};

enum { ROUTE_LANES = 32 }; /* partial sums of every sum */

/* Below every number's key. */
enum { ROUTE_KEY_DROPPED = -0x7fffffff, ROUTE_KEY_NAN = -0x7ffffffe };

#define ROUTE_NAN_BITS 0x7fc00000u

struct route_params {
    u64 logits_at, bias_at, expert_scale_at, topk_ids_at, topk_weights_at;
    u64 scratch_at, scratch_items; /* of a group, in u32, if its scratch memory is in the workspace */
    u32 num_tokens, num_experts, top_k, row_stride;
    u32 score, group_filter, num_groups, kept_groups;
    u32 weight_source, renormalize;
    u32 has;       /* ROUTE_HAS_... */
    u32 team_size; /* parallel class: work-items that share a row; divides the group */
    float softcap, epsilon, scale, unused;
};

/* ---- Bits ---- */

#ifdef __OPENCL_VERSION__
#ifdef __FAST_RELAXED_MATH__
#error "clMoE: built with -cl-fast-relaxed-math, under which no device gives the bits of another"
#endif
#pragma OPENCL FP_CONTRACT OFF
#define route_bits(number) as_uint(number)
#define route_number(bits) as_float(bits)
#else
#include <string.h>
static inline u32 route_bits(float number) {
    u32 bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
static inline float route_number(u32 bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}
#endif

/* 0 for what does not exceed the smallest normal number: devices differ below it, and in how they round to it. */
static inline float route_flush(float x) {
    const u32 bits = route_bits(x);
    return route_number(bits & -(u32)((bits & 0x7fffffffu) > 0x00800000u)); /* choosing would branch */
}

static inline bool route_is_nan(u32 bits) {
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* f32 bits of a logit of 16 bits; exact. */
static inline u32 route_bits_of_bf16(u32 bits) {
    return bits << 16;
}
static inline u32 route_bits_of_f16(u32 bits) {
    const u32 magnitude = (bits & 0x7fffu) << 13, exponent = magnitude & 0x0f800000u;
    const u32 normal = magnitude + (exponent == 0x0f800000u ? 224u << 23 : 112u << 23);
    const u32 subnormal = route_bits((float)(bits & 0x3ffu) * 5.9604644775390625e-8f); /* 2^-24 */
    return (exponent == 0 ? subnormal : normal) | (bits & 0x8000u) << 16;
}

/* ---- Keys ---- */

static inline i32 route_key(u32 bits) {
    const i32 magnitude = (i32)(bits & 0x7fffffffu), sign = (i32)bits >> 31;
    return magnitude > 0x7f800000 ? ROUTE_KEY_NAN : (magnitude ^ sign) - sign;
}

/* f32 bits of a key; those of a NaN for ROUTE_KEY_NAN. */
static inline u32 route_bits_of_key(i32 key) {
    const i32 sign = key >> 31;
    return (u32)((key ^ sign) - sign) | ((u32)sign & 0x80000000u);
}

/* A ranks before B: larger key, then lower expert. */
static inline u32 route_is_before(i32 key_a, i32 a, i32 key_b, i32 b) {
    return (u32)(key_a > key_b - (a < b)); /* no key is so small that this overflows */
}

/* ---- Arithmetic ---- */

/* e^(x + rest), rest far smaller than x: 2^n e^r with r in [-ln 2 / 2, ln 2 / 2]; ln 2 in two parts, the first so short that n times it is
 * exact; the polynomial is the minimax one for (e^r - 1 - r) / r^2. Relative error below 1e-7. 0 below 2^-126, infinite from 2^128; 0 for
 * NaN. */
static inline float route_exp_sum(float x, float rest) {
    x = x > -104.0f ? x : -104.0f;
    x = x < 89.0f ? x : 89.0f;
    const float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low bits hold the nearest integer */
    const float n = shifted - 12582912.0f;
    const float r = ((x - n * 0.693359375f) - n * -2.12194440e-4f) + rest;
    float p = 1.3814577e-3f;
    p = p * r + 8.3687380e-3f;
    p = p * r + 4.1668389e-2f;
    p = p * r + 1.6666520e-1f;
    p = p * r + 4.9999993e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    const u32 bits = route_bits(p) + (route_bits(shifted) << 23); /* n in the exponent; what is above it falls off */
    const i32 exponent = (i32)(route_bits(p) >> 23) + (i32)(route_bits(shifted) - 0x4b400000u);
    return route_number((exponent >= 255 ? 0x7f800000u : bits) & -(u32)(exponent > 0));
}

static inline float route_exp(float x) {
    return route_exp_sum(x, 0.0f);
}

/* e^(x - max), x <= max. The difference is taken with its rounding error, which counts where x is far below. 1 at the maximum, even if it
 * is infinite; 0 for NaN. */
static inline float route_exp_below(float x, float max) {
    const float difference = x - max;
    const float of_x = difference + max; /* the part of x that the difference stands for */
    const float error = (x - of_x) - ((difference - of_x) + max);
    const float e = route_exp_sum(difference, difference > -104.0f ? error : 0.0f);
    return x == max ? 1.0f : e;
}

#ifdef __OPENCL_VERSION__
/* OpenCL's quotient and square root may be some units of the last place off: the estimate, made smaller by 4, is corrected by what integers
 * say remains. */
static inline u32 route_divide_bits(u32 a, u32 b) {
    const u32 mantissa_a = (a & 0x7fffffu) | 0x800000u, mantissa_b = (b & 0x7fffffu) | 0x800000u;
    const u32 is_less = mantissa_a < mantissa_b;
    const float estimate = as_float((a & 0x7fffffu) | 0x3f800000u) / as_float((b & 0x7fffffu) | 0x3f800000u);
    u32 quotient = (u32)(estimate * (is_less ? 16777216.0f : 8388608.0f)) - 4u;
    u32 rest = (mantissa_a << (23 + is_less)) - quotient * mantissa_b; /* small: right in 32 bits although its parts are not */
#define ROUTE_STEP(step)                                                                                                                   \
    quotient += rest >= (step)*mantissa_b ? (step) : 0;                                                                                    \
    rest -= rest >= (step)*mantissa_b ? (step)*mantissa_b : 0;
    ROUTE_STEP(8)
    ROUTE_STEP(4)
    ROUTE_STEP(2)
    ROUTE_STEP(1)
#undef ROUTE_STEP
    quotient += 2 * rest > mantissa_b;
    const i32 exponent = (i32)((a >> 23) & 0xffu) - (i32)((b >> 23) & 0xffu) - (i32)is_less + 127;
    return exponent <= 0 ? 0 : exponent >= 255 ? 0x7f800000u : ((u32)exponent << 23) + (quotient - 0x800000u);
}
static inline float route_unchecked_divide(float a, float b) {
    return as_float(route_divide_bits(as_uint(a), as_uint(b)) | ((as_uint(a) ^ as_uint(b)) & 0x80000000u));
}
static inline float route_unchecked_sqrt(float x) {
    const u32 bits = as_uint(x), exponent = bits >> 23, is_odd = (exponent + 1) & 1u;
    const u32 mantissa = ((bits & 0x7fffffu) | 0x800000u) << is_odd;
    u32 root = (u32)(sqrt((float)mantissa * 1.1920928955078125e-7f) * 8388608.0f) - 4u; /* 2^-23: of 1 ... 4 */
    u32 rest = (mantissa << 23) - root * root;
#define ROUTE_STEP(step)                                                                                                                   \
    part = (step) * (2 * root + (step));                                                                                                   \
    root += rest >= part ? (step) : 0;                                                                                                     \
    rest -= rest >= part ? part : 0;
    u32 part;
    ROUTE_STEP(8)
    ROUTE_STEP(4)
    ROUTE_STEP(2)
    ROUTE_STEP(1)
#undef ROUTE_STEP
    root += rest > root;
    return as_float((((exponent + 127u - is_odd) / 2) << 23) + (root - 0x800000u));
}
#else
static inline float route_unchecked_divide(float a, float b) {
    return a / b;
}
static inline float route_unchecked_sqrt(float x) {
    return __builtin_sqrtf(x);
}
#endif

/* a / b, correctly rounded, in the normal numbers. 0 if b is 0, and where the quotient is no number. */
static inline float route_divide(float a, float b) {
    const u32 bits_a = route_bits(a) & 0x7fffffffu, bits_b = route_bits(b) & 0x7fffffffu;
    const float quotient = route_flush(route_unchecked_divide(a, b));
    const float infinite = route_number(0x7f800000u | ((route_bits(a) ^ route_bits(b)) & 0x80000000u));
    const bool is_zero = (bits_a < 0x00800000u) | (bits_b < 0x00800000u) | (bits_a > 0x7f800000u) | (bits_b >= 0x7f800000u);
    return route_number(route_bits(bits_a == 0x7f800000u ? infinite : quotient) & -(u32)!is_zero);
}

/* x >= 0; correctly rounded. */
static inline float route_sqrt(float x) {
    const float root = route_unchecked_sqrt(x);
    return x < 1.17549435e-38f ? 0.0f : route_bits(x) >= 0x7f800000u ? x : root;
}

/* log(1 + z), z in [0, 1], flushed: with t = z / (2 + z), 2 atanh(t) = t (2 + t^2 P(t^2)). Relative error below 3e-7. */
static inline float route_log1p(float z) {
    const float t = route_divide(z, 2.0f + z), u = t * t;
    float p = 2.7994367e-1f;
    p = p * u + 2.8006316e-1f;
    p = p * u + 4.0021167e-1f;
    p = p * u + 6.6666425e-1f;
    return z < 5.9604645e-8f ? z : t * (p * u + 2.0f);
}

/* y flushed. Relative error below 3e-7. */
static inline float route_tanh(float y) {
    const float magnitude = route_number(route_bits(y) & 0x7fffffffu), u = y * y;
    float p = -5.7216384e-3f;
    p = p * u + 2.0655227e-2f;
    p = p * u + -5.3745147e-2f;
    p = p * u + 1.3331515e-1f;
    p = p * u + -3.3333285e-1f;
    const float near_zero = y + y * (u * p);
    const float z = route_exp(-2.0f * magnitude);
    const float far = route_number(route_bits(1.0f - route_divide(2.0f * z, 1.0f + z)) | (route_bits(y) & 0x80000000u));
    return magnitude < 0.625f ? near_zero : far;
}

/* ---- Scores ---- */

static inline float route_capped(float x, float softcap) {
    const float capped = route_flush(softcap * route_tanh(route_divide(x, softcap)));
    return route_is_nan(route_bits(x)) ? x : capped;
}

static inline float route_value(struct route_params p, u32 logit_bits) {
    const float x = route_flush(route_number(logit_bits));
    return (p.has & ROUTE_HAS_SOFTCAP) ? route_capped(x, p.softcap) : x;
}

static inline float route_sigmoid(float x) {
    return route_divide(1.0f, 1.0f + route_exp(-x));
}

/* Far below 0 it is e^(x / 2). */
static inline float route_sqrt_softplus(float x) {
    const bool is_far_below = x < -17.0f;
    const float z = route_exp(is_far_below ? 0.5f * x : x < 0.0f ? x : -x);
    const float root = route_sqrt((x > 0.0f ? x : 0.0f) + route_log1p(z > 1.0f ? 1.0f : z));
    return is_far_below ? z : root;
}

/* Score of a value; 0 for NaN. max, sum: of e^(value - max) over all experts; for softmax alone, whose sum 1 means that it cancels out. */
static inline float route_score(u32 score, float value, float max, float sum) {
    float result = value;
    if (score == ROUTE_SOFTMAX) {
        result = route_exp_below(value, max);
        result = sum == 1.0f ? result : route_divide(result, sum);
    } else if (score == ROUTE_SIGMOID) {
        result = route_sigmoid(value);
    } else if (score == ROUTE_SQRT_SOFTPLUS) {
        result = route_sqrt_softplus(value);
    }
    return route_number(route_bits(result) & -(u32)!route_is_nan(route_bits(value)));
}

/* What the weight of a chosen expert is made of, from its value; 0 for NaN. max, sum: as in route_score(); max_chosen: of the chosen. */
static inline float route_weight(struct route_params p, float value, float max, float sum, float max_chosen) {
    if (p.weight_source == ROUTE_WEIGHTS_SCORE)
        return route_score(p.score, value, max, sum);
    if (p.weight_source == ROUTE_WEIGHTS_SOFTMAX_CHOSEN)
        return route_score(ROUTE_SOFTMAX, value, max_chosen, 1.0f);
    return route_score(ROUTE_SIGMOID, value, 0.0f, 1.0f);
}

/* Key by which an expert is chosen if that is not its logit's. */
static inline i32 route_biased_key(u32 logit_bits, float score, float bias) {
    return route_is_nan(logit_bits) ? ROUTE_KEY_NAN : route_key(route_bits(route_flush(score + route_flush(bias))));
}

static inline i32 route_group_key(u32 group_filter, i32 best, i32 second) {
    if (group_filter == ROUTE_GROUPS_MAX)
        return best;
    return route_key(route_bits(route_flush(route_number(route_bits_of_key(best)) + route_number(route_bits_of_key(second)))));
}

/* What weights are divided by. */
static inline float route_divisor(u32 renormalize, float sum, float epsilon) {
    return renormalize == ROUTE_BY_SUM_PLUS_EPSILON ? sum + epsilon
           : renormalize == ROUTE_BY_MAX_EPSILON    ? (sum < epsilon ? epsilon : sum)
                                                    : sum;
}

static inline float route_scaled(float weight, float scale, float expert_scale) {
    const float product = route_flush(route_flush(weight * scale) * route_flush(expert_scale));
    return route_is_nan(route_bits(product)) ? 0.0f : product;
}

/* ---- Scratch memory ---- */

/* Serial class: lanes of the filter; 0 = none, all experts are candidates. */
static inline u32 route_filter_lanes(u32 num_experts, u32 top_k) {
    return num_experts <= 16 || top_k > 32 ? 0 : top_k <= 8 && num_experts <= 512 ? 16 : 32;
}

enum { ROUTE_BLOCK = 16, ROUTE_COLUMNS = 64, ROUTE_CHOSEN_BLOCK = 8 };

/* Serial class, in u32: keys and scores of a row in whole rows of columns; two lists with room for one block more. */
static inline u64 route_serial_items(u32 num_experts) {
    return 4 * (((u64)num_experts + ROUTE_COLUMNS - 1) / ROUTE_COLUMNS * ROUTE_COLUMNS) + 2 * ROUTE_BLOCK;
}

/* Candidates that the filter by lane leaves at most; all experts if K is larger than the team; or the groups of experts. */
static inline u32 route_list_items(u32 num_experts, u32 top_k, u32 num_groups, u32 team_size) {
    const u64 most = (u64)(top_k - 1) * ceil_div(num_experts, team_size) + 1;
    const u32 candidates = top_k > team_size || most > num_experts ? num_experts : (u32)most;
    return candidates > num_groups ? candidates : num_groups;
}

/* Parallel class, in u32 for each team: keys [E], list, the best of each lane and whose it is [team_size], the sums [ROUTE_LANES], chosen
 * experts, their logits and weights [K], state [4]. */
static inline u64 route_team_items(u32 num_experts, u32 top_k, u32 num_groups, u32 team_size) {
    return (u64)num_experts + route_list_items(num_experts, top_k, num_groups, team_size) + 2 * (u64)team_size + ROUTE_LANES +
           3 * (u64)top_k + 4;
}

#ifdef CLMOE_KERNEL
/* Numbers that kernels keep in memory are kept as bits: align reads the weights so, and scratch memory holds keys beside them. */
#define ROUTE_BUFFERS                                                                                                                      \
    global const LOGIT *logits, global const float *bias, global const float *expert_scale, global i32 *ids, global u32 *weights

/* The sum of all lanes' partial sums, which are lost. */
static inline float route_add_lanes(float *lanes) {
    for (u32 width = ROUTE_LANES / 2; width != 0; width /= 2)
        for (u32 lane = 0; lane < width; ++lane)
            lanes[lane] += lanes[lane + width];
    return lanes[0];
}
#endif

#endif
