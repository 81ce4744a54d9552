#include "oracle_route.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY 0x1p-126             /* results that do not exceed it are 0 */
#define LARGEST ((double)FLT_MAX) /* results that exceed it are infinite */
#define ROUNDING 0x1p-23          /* twice what rounding to single precision can do, relatively */

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count == 0 ? 1 : count, bytes);
    if (memory == NULL) {
        fprintf(stderr, "oracle: out of memory\n");
        abort();
    }
    return memory;
}

/* ---- Numbers -------------------------------------------------------------------------------------------------------------------- */
/* A sign, an exponent and a fraction of so many bits; the processor's own conversions may take denormal numbers for 0. */
static double decode(uint32_t bits, int exponent_bits, int fraction_bits) {
    const int most = (1 << exponent_bits) - 1, bias = most / 2;
    const int exponent = (int)(bits >> fraction_bits) & most;
    const double fraction = (double)(bits & ((1u << fraction_bits) - 1));
    const double sign = (bits >> (exponent_bits + fraction_bits) & 1) != 0 ? -1 : 1;
    if (exponent == most)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + ldexp(1, fraction_bits), exponent - bias - fraction_bits);
}

double oracle_f32(uint32_t bits) {
    return decode(bits, 8, 23);
}

double oracle_logit(clmoe_logit_type type, const void *logits, size_t i) {
    switch (type) {
    case CLMOE_LOGIT_F32: return decode(((const uint32_t *)logits)[i], 8, 23);
    case CLMOE_LOGIT_F16: return decode(((const uint16_t *)logits)[i], 5, 10);
    case CLMOE_LOGIT_BF16: return decode(((const uint16_t *)logits)[i], 8, 7);
    }
    return (double)NAN;
}

/* What single precision makes of a result; edge: so near to a limit that rounding decides on which side it is. */
typedef struct number {
    double value;
    bool edge;
} number;

static bool is_near(double magnitude, double limit, double hair) {
    return magnitude > limit * (1 - hair) && magnitude < limit * (1 + hair);
}

static number settle(const oracle_route_row *row, double value) {
    const double magnitude = fabs(value), hair = 16 * row->tolerance;
    number result = {value, is_near(magnitude, TINY, hair) || is_near(magnitude, LARGEST, hair)};
    if (magnitude <= TINY)
        result.value = 0;
    if (magnitude > LARGEST)
        result.value = value < 0 ? (double)-INFINITY : (double)INFINITY;
    return result;
}

/* e^(x - maximum), and 1 at the maximum even if that is infinite. */
static number power(const oracle_route_row *row, double x, double maximum) {
    return settle(row, x == maximum ? 1 : exp(x - maximum));
}

static number sigmoid(const oracle_route_row *row, double x) {
    return settle(row, 1 / (1 + exp(-x)));
}

static number sqrt_softplus(const oracle_route_row *row, double x) {
    return settle(row, sqrt(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))));
}

/* ---- Scores and keys ------------------------------------------------------------------------------------------------------------ */
static double cap(oracle_route_row *row, uint32_t e) {
    const double c = (double)row->inputs->router->softcap;
    if (c == 0)
        return row->logits[e];
    const number ratio = settle(row, row->logits[e] / c), bent = settle(row, tanh(ratio.value)), result = settle(row, c * bent.value);
    row->edges[e] = ratio.edge || bent.edge || result.edge;
    return result.value;
}

static void score_all(oracle_route_row *row) {
    const clmoe_score kind = row->inputs->router->score;
    double sum = 0;
    row->maximum = (double)-INFINITY;
    for (uint32_t e = 0; e < row->num_experts; ++e)
        row->maximum = row->capped[e] > row->maximum ? row->capped[e] : row->maximum;
    for (uint32_t e = 0; e < row->num_experts; ++e)
        sum += isnan(row->capped[e]) ? 0 : power(row, row->capped[e], row->maximum).value;
    for (uint32_t e = 0; e < row->num_experts; ++e) {
        const double x = row->capped[e];
        number score = {0, false};
        if (isnan(x))
            continue;
        switch (kind) {
        case CLMOE_SCORE_SOFTMAX: {
            const number p = power(row, x, row->maximum);
            score = settle(row, p.value / sum);
            score.edge = score.edge || p.edge;
            break;
        }
        case CLMOE_SCORE_SIGMOID: score = sigmoid(row, x); break;
        case CLMOE_SCORE_SQRT_SOFTPLUS: score = sqrt_softplus(row, x); break;
        case CLMOE_SCORE_IDENTITY: score = settle(row, x); break;
        }
        row->scores[e] = score.value;
        row->edges[e] = row->edges[e] || score.edge;
    }
}

static double bias_of(const oracle_route_row *row, uint32_t e) {
    return row->inputs->bias == NULL ? 0 : oracle_f32(row->inputs->bias[e]);
}

static double key_of(const oracle_route_row *row, uint32_t e) {
    if (row->is_exact || isnan(row->logits[e]))
        return row->logits[e];
    return settle(row, row->scores[e] + bias_of(row, e)).value;
}

/* ---- What comes before what ------------------------------------------------------------------------------------------------------ */
/* 1, 0, -1: a number is above, level with, below another; NaN is below everything else. */
static int above(double a, double b) {
    if (isnan(a) || isnan(b))
        return isnan(b) - isnan(a);
    return (a > b) - (a < b);
}

static bool precedes(const double *values, uint32_t a, uint32_t b) {
    const int sign = above(values[a], values[b]);
    return sign > 0 || (sign == 0 && a < b);
}

static double key_tolerance(const oracle_route_row *row, uint32_t e) {
    return row->tolerance * fabs(row->scores[e]) + ROUNDING * fabs(row->keys[e]) + 4 * TINY;
}

/* Any way of computing must give these two experts the same key. */
static bool same_key(const oracle_route_row *row, uint32_t a, uint32_t b) {
    const bool both_zero = row->scores[a] == 0 && row->scores[b] == 0 && !row->edges[a] && !row->edges[b];
    if (isnan(row->keys[a]) || isnan(row->keys[b]))
        return isnan(row->keys[a]) && isnan(row->keys[b]);
    return bias_of(row, a) == bias_of(row, b) && (row->logits[a] == row->logits[b] || both_zero);
}

/* above(), but 0 also where rounding decides. */
static int surely_above(double a, double b, double tolerance) {
    const bool may_overflow = fabs(a) > LARGEST * 0.9999 && fabs(b) > LARGEST * 0.9999;
    if (isnan(a) || isnan(b))
        return above(a, b);
    if (may_overflow && (a < 0) == (b < 0))
        return 0;
    if (isinf(a) || isinf(b))
        return above(a, b);
    return a - b > tolerance ? 1 : b - a > tolerance ? -1 : 0;
}

/* 1, -1: expert a surely comes before, after b; 0: rounding decides. */
static int surely(const oracle_route_row *row, uint32_t a, uint32_t b) {
    if (row->is_exact || same_key(row, a, b))
        return precedes(row->keys, a, b) ? 1 : -1;
    const double infinite = (double)INFINITY;
    if (fabs(row->keys[a]) == infinite && row->keys[a] == row->keys[b] && fabs(row->logits[a]) == infinite &&
        fabs(row->logits[b]) == infinite)
        return a < b ? 1 : -1;
    return surely_above(row->keys[a], row->keys[b], key_tolerance(row, a) + key_tolerance(row, b));
}

/* ---- Groups ---------------------------------------------------------------------------------------------------------------------- */
typedef struct group_best {
    uint32_t first, second;
    bool is_mixed; /* another key is so near that rounding may put it in their place */
    double tolerance;
} group_best;

static group_best best_of_group(const oracle_route_row *row, uint32_t group) {
    const uint32_t size = row->num_experts / row->num_groups, begin = group * size;
    const bool sums = row->inputs->router->group_filter == CLMOE_GROUPS_TOP2_SUM;
    group_best best = {begin, begin, false, 0};
    for (uint32_t e = begin; e < begin + size; ++e)
        best.first = precedes(row->keys, e, best.first) ? e : best.first;
    best.second = best.first == begin && size > 1 ? begin + 1 : begin;
    for (uint32_t e = begin; e < begin + size; ++e)
        best.second = e != best.first && precedes(row->keys, e, best.second) ? e : best.second;
    const uint32_t last = sums ? best.second : best.first;
    for (uint32_t e = begin; e < begin + size; ++e) {
        const bool is_one = e == best.first || (sums && e == best.second);
        best.is_mixed = best.is_mixed || (!is_one && !same_key(row, e, last) && surely(row, last, e) == 0);
    }
    best.tolerance = key_tolerance(row, best.first) + (sums ? key_tolerance(row, best.second) : 0);
    return best;
}

static double worth_of(const oracle_route_row *row, uint32_t group) {
    const group_best best = best_of_group(row, group);
    if (row->inputs->router->group_filter == CLMOE_GROUPS_MAX)
        return row->keys[best.first];
    return settle(row, row->keys[best.first] + row->keys[best.second]).value;
}

/* 1, -1: group g is surely kept before, after group h; 0: rounding decides. */
static int surely_group(const oracle_route_row *row, uint32_t g, uint32_t h) {
    if (row->is_exact)
        return precedes(row->worths, g, h) ? 1 : -1;
    const group_best a = best_of_group(row, g), b = best_of_group(row, h);
    bool same = !a.is_mixed && !b.is_mixed;
    if (row->inputs->router->group_filter == CLMOE_GROUPS_MAX)
        same = same && same_key(row, a.first, b.first);
    else
        same = same && ((same_key(row, a.first, b.first) && same_key(row, a.second, b.second)) ||
                        (same_key(row, a.first, b.second) && same_key(row, a.second, b.first)));
    if (same || (isnan(row->worths[g]) && isnan(row->worths[h])))
        return g < h ? 1 : -1;
    const double rounding = ROUNDING * (fabs(row->worths[g]) + fabs(row->worths[h])) + 4 * TINY;
    return surely_above(row->worths[g], row->worths[h], a.tolerance + b.tolerance + rounding);
}

static void keep_groups(oracle_route_row *row) {
    const clmoe_router *const router = row->inputs->router;
    row->group_gap = (double)INFINITY;
    if (router->group_filter == CLMOE_GROUPS_NONE) {
        row->kept[0] = 1;
        return;
    }
    for (uint32_t g = 0; g < row->num_groups; ++g)
        row->worths[g] = worth_of(row, g);
    uint32_t last = 0;
    for (uint32_t round = 0; round <= router->kept_groups && round < row->num_groups; ++round) {
        uint32_t best = row->num_groups;
        for (uint32_t g = 0; g < row->num_groups; ++g) {
            if (!row->kept[g] && (best == row->num_groups || precedes(row->worths, g, best)))
                best = g;
        }
        if (round == router->kept_groups)
            row->group_gap = row->worths[last] - row->worths[best];
        else
            row->kept[best] = 1;
        last = best;
    }
}

static uint32_t group_of(const oracle_route_row *row, uint32_t e) {
    return e / (row->num_experts / row->num_groups);
}

/* ---- Weights -------------------------------------------------------------------------------------------------------------------- */
typedef struct weight {
    double value, tolerance;
    bool edge;
} weight;

static double largest_chosen(const oracle_route_row *row, const int32_t *ids) {
    double maximum = (double)-INFINITY;
    for (uint32_t k = 0; k < row->top_k; ++k)
        maximum = row->capped[ids[k]] > maximum ? row->capped[ids[k]] : maximum;
    return maximum;
}

static bool sum_cancels_out(const clmoe_router *router) {
    return router->score == CLMOE_SCORE_SOFTMAX && router->weight_source == CLMOE_WEIGHTS_SCORE && router->has_bias == 0 &&
           router->renormalize == CLMOE_RENORMALIZE_SUM;
}

static void weights_before_renormalizing(const oracle_route_row *row, const int32_t *ids, weight *weights) {
    const clmoe_router *const router = row->inputs->router;
    const double maximum = largest_chosen(row, ids);
    double sum = 0;
    for (uint32_t k = 0; k < row->top_k; ++k) {
        const double x = row->capped[ids[k]];
        number made = {row->scores[ids[k]], false};
        if (isnan(x))
            continue;
        if (router->weight_source == CLMOE_WEIGHTS_SIGMOID_CHOSEN)
            made = sigmoid(row, x);
        if (router->weight_source == CLMOE_WEIGHTS_SOFTMAX_CHOSEN || sum_cancels_out(router)) {
            made = power(row, x, maximum);
            if (sum_cancels_out(router)) /* the maximum of all or of the chosen: one may underflow where the other does not */
                made.edge = made.edge || (made.value == 0) != (power(row, x, row->maximum).value == 0);
        }
        sum += made.value;
        weights[k].value = made.value;
        weights[k].edge = made.edge || row->edges[ids[k]] != 0;
    }
    for (uint32_t k = 0; router->weight_source == CLMOE_WEIGHTS_SOFTMAX_CHOSEN && k < row->top_k; ++k) {
        const number quotient = settle(row, weights[k].value / sum);
        weights[k].value = isnan(quotient.value) ? 0 : quotient.value;
        weights[k].edge = weights[k].edge || quotient.edge;
    }
}

typedef struct divisor {
    double value;
    double magnification; /* of the weights' relative error, where terms of either sign cancel */
    bool edge;
} divisor;

static divisor divisor_of(const oracle_route_row *row, const weight *weights) {
    const clmoe_router *const router = row->inputs->router;
    const double epsilon = (double)router->epsilon;
    double total = 0, finite_total = 0, plain_sum = 0;
    bool any_edge = false;
    for (uint32_t k = 0; k < row->top_k; ++k) {
        const double value = weights[k].value;
        plain_sum += value;
        total += fabs(value);
        finite_total += isinf(value) ? 0 : fabs(value);
        any_edge = any_edge || weights[k].edge;
    }
    const number sum = settle(row, plain_sum);
    const bool is_mixed = fabs(plain_sum) != total;
    divisor result = {sum.value, 1, sum.edge || (is_mixed && finite_total > LARGEST * 0.999)};
    result.edge = result.edge || (any_edge && (total < TINY * 1e7 || total > LARGEST * 0.999));
    if (router->renormalize == CLMOE_RENORMALIZE_SUM_PLUS_EPSILON)
        result.value = settle(row, sum.value + epsilon).value;
    if (router->renormalize == CLMOE_RENORMALIZE_MAX_EPSILON) {
        result.edge = result.edge || isnan(sum.value);
        result.value = sum.value > epsilon ? sum.value : epsilon;
    }
    if (router->renormalize != CLMOE_RENORMALIZE_SUM && sum.value == 0 && total > 0)
        result.edge = true; /* does a sum that cancels to 0 count as 0 although epsilon does not? */
    if (sum.value != 0 && result.value == 0)
        result.edge = true; /* and one that epsilon brings to 0? */
    if (sum.value == 0)
        result.value = 0;
    if (is_mixed && !isinf(total)) /* whether it is 0 or not depends on how the terms are rounded */
        result.edge = result.edge || fabs(plain_sum) < row->top_k * (ROUNDING * total + TINY * 1e6);
    if (isinf(total) || (router->renormalize == CLMOE_RENORMALIZE_MAX_EPSILON && sum.value < 0.99 * epsilon))
        return result;
    result.magnification = fmax(1, total / fabs(result.value));
    result.edge = result.edge || (total > 0 && !(result.magnification * row->tolerance < 0.1));
    return result;
}

static void multiply(const oracle_route_row *row, weight *w, double factor) {
    const number product = settle(row, w->value * factor);
    w->edge = w->edge || product.edge || (factor != 0 && fabs(factor) <= TINY && product.value != 0);
    w->value = product.value;
}

static void weigh(const oracle_route_row *row, const int32_t *ids, weight *weights) {
    const clmoe_router *const router = row->inputs->router;
    memset(weights, 0, row->top_k * sizeof *weights);
    weights_before_renormalizing(row, ids, weights);
    divisor by = {1, 1, false};
    if (router->renormalize != CLMOE_RENORMALIZE_NONE)
        by = divisor_of(row, weights);
    for (uint32_t k = 0; k < row->top_k; ++k) {
        weight *const w = &weights[k];
        if (router->renormalize != CLMOE_RENORMALIZE_NONE) {
            const number quotient = settle(row, by.value == 0 ? 0 : w->value / by.value);
            const bool is_zero_anyway = w->value == 0 && !w->edge;
            w->edge = !is_zero_anyway && (w->edge || by.edge || quotient.edge);
            w->value = quotient.value;
        }
        if (router->scale != 0)
            multiply(row, w, (double)router->scale);
        if (router->has_expert_scale)
            multiply(row, w, oracle_f32(row->inputs->expert_scale[ids[k]]));
        if (isnan(w->value))
            w->value = 0;
        w->tolerance = row->tolerance * by.magnification * fabs(w->value);
    }
}

/* ---- The row -------------------------------------------------------------------------------------------------------------------- */
static void choose(oracle_route_row *row) {
    uint8_t *const taken = allocate(row->num_experts, 1);
    row->key_gap = (double)INFINITY;
    for (uint32_t k = 0; k <= row->top_k; ++k) {
        uint32_t best = row->num_experts;
        for (uint32_t e = 0; e < row->num_experts; ++e) {
            if (!taken[e] && row->kept[group_of(row, e)] && (best == row->num_experts || precedes(row->keys, e, best)))
                best = e;
        }
        if (k == row->top_k) {
            if (best < row->num_experts)
                row->key_gap = row->keys[row->ids[k - 1]] - row->keys[best];
            break;
        }
        taken[best] = 1;
        row->ids[k] = (int32_t)best;
    }
    free(taken);
}

oracle_route_row oracle_route(const oracle_route_inputs *inputs) {
    const clmoe_router *const router = inputs->router;
    const uint32_t E = router->num_experts, K = router->top_k;
    oracle_route_row row = {0};
    row.inputs = inputs;
    row.num_experts = E;
    row.top_k = K;
    row.num_groups = router->group_filter == CLMOE_GROUPS_NONE ? 1 : router->num_groups;
    row.is_exact = router->has_bias == 0 && router->group_filter != CLMOE_GROUPS_TOP2_SUM;
    row.tolerance = 1e-6 + 0x1p-22 * fabs((double)router->softcap);
    if (E > 1024) /* the written order adds up E / 32 items one by one, and each may be rounded the same way */
        row.tolerance += (E / 32 - 32) * 0x1p-25;
    row.ids = allocate(K, sizeof *row.ids);
    row.weights = allocate(K, sizeof *row.weights);
    row.logits = allocate(E, sizeof *row.logits);
    row.capped = allocate(E, sizeof *row.capped);
    row.scores = allocate(E, sizeof *row.scores);
    row.keys = allocate(E, sizeof *row.keys);
    row.worths = allocate(row.num_groups, sizeof *row.worths);
    row.edges = allocate(E, 1);
    row.kept = allocate(row.num_groups, 1);
    for (uint32_t e = 0; e < E; ++e) {
        row.logits[e] = oracle_logit(inputs->logit_type, inputs->logits, e);
        row.capped[e] = cap(&row, e);
    }
    score_all(&row);
    for (uint32_t e = 0; e < E; ++e)
        row.keys[e] = key_of(&row, e);
    keep_groups(&row);
    choose(&row);
    weight *const weights = allocate(K, sizeof *weights);
    weigh(&row, row.ids, weights);
    for (uint32_t k = 0; k < K; ++k)
        row.weights[k] = weights[k].value;
    free(weights);
    return row;
}

void oracle_route_free(oracle_route_row *row) {
    free(row->ids);
    free(row->weights);
    free(row->logits);
    free(row->capped);
    free(row->scores);
    free(row->keys);
    free(row->worths);
    free(row->edges);
    free(row->kept);
    memset(row, 0, sizeof *row);
}

/* ---- The judge ------------------------------------------------------------------------------------------------------------------ */
#define WRONG(...)                                                                                                                         \
    do {                                                                                                                                   \
        snprintf(verdict->text, sizeof verdict->text, __VA_ARGS__);                                                                        \
        return false;                                                                                                                      \
    } while (0)

static bool judge_distinct(const oracle_route_row *row, const int32_t *ids, uint8_t *taken, oracle_verdict *verdict) {
    for (uint32_t k = 0; k < row->top_k; ++k) {
        if (ids[k] < 0 || (uint32_t)ids[k] >= row->num_experts)
            WRONG("topk_ids[%u] is %d, no expert", k, ids[k]);
        if (taken[ids[k]]++)
            WRONG("topk_ids[%u] is %d for the second time", k, ids[k]);
    }
    return true;
}

/* Groups that must be kept or are used; false if they are too many or one must be dropped. */
static bool judge_groups(const oracle_route_row *row, const int32_t *ids, uint8_t *counted, oracle_verdict *verdict) {
    const uint32_t wanted = row->inputs->router->kept_groups;
    uint32_t num_counted = 0;
    for (uint32_t k = 0; k < row->top_k; ++k)
        counted[group_of(row, (uint32_t)ids[k])] = 1;
    for (uint32_t g = 0; g < row->num_groups; ++g) {
        uint32_t surely_before = 0, maybe_before = 0;
        for (uint32_t h = 0; h < row->num_groups; ++h) {
            const int sign = h == g ? 1 : surely_group(row, g, h);
            surely_before += sign < 0;
            maybe_before += sign <= 0;
        }
        if (counted[g] && surely_before >= wanted)
            WRONG("group %u is used, but %u groups come before it (its worth is %.9g)", g, surely_before, row->worths[g]);
        if (maybe_before < wanted)
            counted[g] = 1;
        num_counted += counted[g];
    }
    if (num_counted > wanted)
        WRONG("%u groups must be kept or are used, of %u", num_counted, wanted);
    return true;
}

static bool judge_order(const oracle_route_row *row, const int32_t *ids, const uint8_t *taken, const uint8_t *counted,
                        oracle_verdict *verdict) {
    for (uint32_t k = 0; k + 1 < row->top_k; ++k) {
        const uint32_t a = (uint32_t)ids[k], b = (uint32_t)ids[k + 1];
        if (surely(row, b, a) > 0)
            WRONG("expert %u (key %.9g) stands before %u (key %.9g)", a, row->keys[a], b, row->keys[b]);
    }
    for (uint32_t e = 0; e < row->num_experts; ++e) {
        for (uint32_t k = 0; !taken[e] && counted[group_of(row, e)] && k < row->top_k; ++k) {
            const uint32_t chosen = (uint32_t)ids[k];
            if (surely(row, e, chosen) > 0)
                WRONG("expert %u (key %.9g) is chosen, %u (key %.9g) is not", chosen, row->keys[chosen], e, row->keys[e]);
        }
    }
    return true;
}

static bool judge_choice(const oracle_route_row *row, const int32_t *ids, oracle_verdict *verdict) {
    uint8_t *const taken = allocate(row->num_experts, 1), *const counted = allocate(row->num_groups, 1);
    bool right = judge_distinct(row, ids, taken, verdict);
    verdict->is_clear = right && memcmp(ids, row->ids, row->top_k * sizeof *ids) == 0;
    if (right && !verdict->is_clear && row->is_exact) {
        uint32_t k = 0;
        while (ids[k] == row->ids[k])
            ++k;
        snprintf(verdict->text, sizeof verdict->text, "topk_ids[%u] is %d (logit %.9g), should be %d (logit %.9g)", k, ids[k],
                 row->logits[ids[k]], row->ids[k], row->logits[row->ids[k]]);
        right = false;
    } else if (right && !verdict->is_clear) {
        counted[0] = 1;
        if (row->inputs->router->group_filter != CLMOE_GROUPS_NONE)
            counted[0] = 0, right = judge_groups(row, ids, counted, verdict);
        right = right && judge_order(row, ids, taken, counted, verdict);
    }
    free(taken);
    free(counted);
    return right;
}

static bool judge_weights(const oracle_route_row *row, const int32_t *ids, const uint32_t *found, oracle_verdict *verdict) {
    weight *const weights = allocate(row->top_k, sizeof *weights);
    bool right = true;
    weigh(row, ids, weights);
    for (uint32_t k = 0; right && k < row->top_k; ++k) {
        const double is = oracle_f32(found[k]), should = weights[k].value;
        verdict->unweighed += weights[k].edge;
        right = !isnan(is) && (weights[k].edge || is == should || fabs(is - should) <= weights[k].tolerance);
        if (!right)
            snprintf(verdict->text, sizeof verdict->text,
                     "topk_weights[%u] of expert %d (logit %.9g) is %.9g (0x%08x), should be %.9g; off by %.3g of it, %.3g allowed", k,
                     ids[k], row->logits[ids[k]], is, found[k], should, fabs(is - should) / fabs(should),
                     weights[k].tolerance / fabs(should));
    }
    free(weights);
    return right;
}

oracle_verdict oracle_route_judge(const oracle_route_row *row, const int32_t *ids, const uint32_t *weights) {
    oracle_verdict verdict = {0};
    verdict.is_right = judge_choice(row, ids, &verdict) && judge_weights(row, ids, weights, &verdict);
    return verdict;
}
