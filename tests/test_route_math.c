/* test_route_math.c - the library's own exp, log1p, tanh, division and square root of cl/route.h.
 *
 * On the native pair: compiled as C, against double precision and the processor's own division and square root. On a pair with
 * OpenCL: the same functions in a kernel of this file, against the C results, bit for bit.
 *
 *     test_route_math         every 256th number, and millions of pairs
 *     test_route_math long    e^x of all 2^32 numbers
 */
#define _POSIX_C_SOURCE 200809L
#include "fixture.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "shared.h"

#include "route.h"

#define BATCH (1u << 22)
#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

static clmoe_context *context;
static random_stream chance = {62};
static bool is_long;

/* ---- The functions under test, and what they should give -------------------------------------------------------------------------- */
enum { EXP, LOG1P, TANH, SQRT, DIVIDE, NUM_FUNCTIONS };
static const char *const names[NUM_FUNCTIONS] = {"exp", "log1p", "tanh", "sqrt", "divide"};
static const double bounds[NUM_FUNCTIONS] = {1.2e-7, 0x1p-22, 0x1p-22, 0, 0};

static float evaluate(int function, float a, float b) {
    switch (function) {
    case EXP: return route_exp(a);
    case LOG1P: return route_log1p(a);
    case TANH: return route_tanh(a);
    case SQRT: return route_sqrt(a);
    default: return route_divide(a, b);
    }
}

/* All NaNs are one: which of them comes out is no promise. */
static uint32_t result_bits(float result) {
    const uint32_t bits = bits_of_float(result);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
}

/* In double precision, whose own errors are far below what is looked for. */
static double exact(int function, float a) {
    const double x = (double)a;
    switch (function) {
    case EXP: return exp(x);
    case LOG1P: return log1p(x);
    default: return tanh(x);
    }
}

/* Within the bound; 0 where the result does not exceed 2^-126; infinite where it exceeds what there is; either within a hair of these. */
static bool is_accurate(int function, double should, float result) {
    const double is = (double)result, magnitude = fabs(should), bound = bounds[function];
    if (result == 0 && magnitude <= 0x1p-126 * (1 + bound))
        return true;
    if (isinf(result))
        return magnitude >= (double)FLT_MAX * (1 - bound) && (result > 0) == (should > 0);
    return fabs(is) > 0x1p-126 && magnitude > 0x1p-126 * (1 - bound) && magnitude < (double)FLT_MAX * (1 + bound) &&
           fabs(is - should) <= bound * magnitude;
}

/* What the processor gives, but 0 where it does not exceed 2^-126. */
static float correctly_rounded(int function, float a, float b) {
    const float result = function == SQRT ? sqrtf(a) : a / b;
    return fabsf(result) <= 0x1p-126f ? 0 : result;
}

/* ---- Accuracy ------------------------------------------------------------------------------------------------------------------- */
typedef struct share {
    int function;
    uint64_t begin, end; /* numbers, by their bits */
    uint32_t step;
    uint64_t tried;
    double worst;
    float first_wrong, previous;
    const char *wrong; /* NULL: nothing */
} share;

static void try_number(share *s, float a) {
    const float result = evaluate(s->function, a, 0);
    const double should = exact(s->function, a);
    ++s->tried;
    if (!is_accurate(s->function, should, result) && s->wrong == NULL) {
        s->wrong = "inaccurate";
        s->first_wrong = a;
    }
    if (isfinite(result) && result != 0) {
        const double error = fabs(((double)result - should) / should);
        s->worst = error > s->worst ? error : s->worst;
    }
    /* Bits of positive numbers rise with them, of negative ones fall. log1p has steps back of one unit in the last place, and nothing that
     * ranks experts uses it without a bias. */
    const bool is_backwards = a > 0 ? result < s->previous : result > s->previous;
    if (s->function != LOG1P && s->tried > 1 && is_backwards && s->wrong == NULL) {
        s->wrong = "not monotone";
        s->first_wrong = a;
    }
    s->previous = result;
}

static void *try_numbers(void *argument) {
    share *const s = argument;
    for (uint64_t bits = s->begin; bits < s->end; bits += s->step) {
        const float a = float_of_bits((uint32_t)bits);
        if (isnan(a))
            break;
        if (s->function == EXP || a == 0 || fabsf(a) > 0x1p-126f) /* the others are given flushed numbers */
            try_number(s, a);
    }
    return NULL;
}

/* Numbers of both signs in two threads each; the first and the last of each sign are always tried. */
static void try_all(int function, uint32_t most, bool negative_too, uint32_t step) {
    share shares[4];
    pthread_t threads[4];
    double worst = 0;
    uint64_t tried = 0;
    const uint32_t count = negative_too ? 4 : 2;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t sign = i < 2 ? 0 : 0x80000000u, middle = (uint64_t)most / 2;
        shares[i] = (share){.function = function, .step = step};
        shares[i].begin = sign + (i % 2 == 0 ? 0 : middle);
        shares[i].end = sign + (i % 2 == 0 ? middle + step : (uint64_t)most + 1); /* an overlap, so that no neighbours are missed */
    }
    for (uint32_t i = 0; i < count; i += 2) {
        assert_int_equal(pthread_create(&threads[i], NULL, try_numbers, &shares[i]), 0);
        assert_int_equal(pthread_create(&threads[i + 1], NULL, try_numbers, &shares[i + 1]), 0);
        pthread_join(threads[i], NULL);
        pthread_join(threads[i + 1], NULL);
    }
    for (uint32_t i = 0; i < count; ++i) {
        tried += shares[i].tried;
        worst = shares[i].worst > worst ? shares[i].worst : worst;
        if (shares[i].wrong != NULL)
            fail_msg("%s(%.9g = 0x%08x) is %.9g, should be %.9g: %s", names[function], (double)shares[i].first_wrong,
                     bits_of_float(shares[i].first_wrong), (double)evaluate(function, shares[i].first_wrong, 0),
                     exact(function, shares[i].first_wrong), shares[i].wrong);
    }
    printf("%s: %llu numbers, worst relative error %.3g\n", names[function], (unsigned long long)tried, worst);
}

static void test_exp(void **state) {
    (void)state;
    try_all(EXP, 0x7f800000u, true, is_long ? 1 : 251);
}

static void test_log1p(void **state) {
    (void)state;
    try_all(LOG1P, bits_of_float(1), false, is_long ? 1 : 127);
}

static void test_tanh(void **state) {
    (void)state;
    try_all(TANH, 0x7f800000u, true, is_long ? 7 : 509);
    for (uint32_t bits = 0; bits <= 0x7f800000u; bits += 4099)
        assert_true(route_tanh(-float_of_bits(bits)) == -route_tanh(float_of_bits(bits)));
}

/* ---- Correct rounding ------------------------------------------------------------------------------------------------------------ */
static float random_number(uint32_t least_exponent, uint32_t most_exponent) {
    const uint32_t exponent = least_exponent + random_below(&chance, most_exponent - least_exponent + 1);
    const uint32_t mantissa = random_below(&chance, 1u << 23), kind = random_below(&chance, 8);
    const uint32_t easy = kind == 0 ? mantissa & 0x3fu : kind == 1 ? mantissa | 0x7fffc0u : kind == 2 ? mantissa & 0x7ff000u : mantissa;
    return float_of_bits(random_below(&chance, 2) << 31 | exponent << 23 | easy);
}

/* A numerator for b whose quotient lies around a tie, around 2^-126, around the largest number, or anywhere. */
static void random_pair(float *a, float *b) {
    const uint32_t kind = random_below(&chance, 8);
    *b = random_number(1, 254);
    *a = random_number(1, 254);
    if (kind == 0) { /* near a number times b */
        const float product = *a * *b;
        if (isnormal(product))
            *a = float_of_bits(bits_of_float(product) + random_below(&chance, 3) - 1);
    }
    if (kind == 1) { /* near 2^-126, where b allows it */
        *b = random_number(140, 254);
        *a = ldexpf(*b, -126);
        *a = float_of_bits(bits_of_float(*a) + random_below(&chance, 9) - 4);
    }
    if (kind == 2) { /* near the largest number */
        *b = random_number(20, 126);
        *a = *b * FLT_MAX;
        *a = float_of_bits(bits_of_float(*a) + random_below(&chance, 9) - 4);
    }
    if (kind == 3) /* as weights are */
        *b = fabsf(*a) + fabsf(random_number(100, 127));
    if (!isnormal(*a))
        *a = 1;
    if (!isnormal(*b))
        *b = 1;
}

static const float boundaries[] = {0,
                                   1,
                                   2,
                                   3,
                                   0x1p-126f,
                                   0x1p-125f,
                                   0x1.fffffep127f,
                                   0x1.fffffep-126f,
                                   0x1.000002p-126f,
                                   0x1p127f,
                                   0.1f,
                                   1e-20f,
                                   1e20f,
                                   0x1.fffffep0f,
                                   0x1.000002p0f,
                                   7,
                                   10,
                                   0.333333343f,
                                   0x1p-63f,
                                   0x1p63f};

static void must_be_rounded(int function, float a, float b) {
    const float is = evaluate(function, a, b), should = correctly_rounded(function, a, b);
    if (!(is == should || (isnan(is) && isnan(should))))
        fail_msg("%s(%a, %a) is %a, should be %a", names[function], (double)a, (double)b, (double)is, (double)should);
}

static void test_division(void **state) {
    (void)state;
    const uint32_t pairs = is_long ? 200000000u : 20000000u;
    for (uint32_t i = 0; i < 2 * COUNT(boundaries); ++i) {
        for (uint32_t j = 0; j < COUNT(boundaries); ++j) {
            const float a = i % 2 == 0 ? boundaries[i / 2] : -boundaries[i / 2];
            if (boundaries[j] != 0)
                must_be_rounded(DIVIDE, a, boundaries[j]);
        }
    }
    for (uint32_t i = 0; i < pairs; ++i) {
        float a, b;
        random_pair(&a, &b);
        must_be_rounded(DIVIDE, a, b);
    }
}

static void test_square_root(void **state) {
    (void)state;
    for (uint32_t i = 0; i < COUNT(boundaries); ++i)
        must_be_rounded(SQRT, boundaries[i], 0);
    must_be_rounded(SQRT, (float)INFINITY, 0);
    for (uint32_t mantissa = 0; mantissa < 1u << 24; ++mantissa) { /* all of two binades; others are these times 4 and so on */
        must_be_rounded(SQRT, float_of_bits(0x3f800000u + mantissa), 0);
        if (mantissa % 16 == 0 || is_long)
            must_be_rounded(SQRT, float_of_bits((1 + mantissa % 254) << 23 | (mantissa >> 1)), 0);
    }
}

/* ---- The same on a device ---------------------------------------------------------------------------------------------------------- */
static const char kernels[] = "#define UNARY(name)                                                                                \\\n"
                              "    kernel void test_##name(global const uint *a, global const uint *b, global uint *results) {    \\\n"
                              "        const size_t i = get_global_id(0);                                                         \\\n"
                              "        results[i] = as_uint(route_##name(as_float(a[i])));                                        \\\n"
                              "    }\n"
                              "UNARY(exp)\n"
                              "UNARY(log1p)\n"
                              "UNARY(tanh)\n"
                              "UNARY(sqrt)\n"
                              "kernel void test_divide(global const uint *a, global const uint *b, global uint *results) {\n"
                              "    const size_t i = get_global_id(0);\n"
                              "    results[i] = as_uint(route_divide(as_float(a[i]), as_float(b[i])));\n"
                              "}\n";

static char *source_of(const char *file) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", CLMOE_TEST_CL, file);
    FILE *const stream = fopen(path, "rb");
    assert_non_null(stream);
    char *const text = calloc(1, 1u << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1u << 20) - 1, stream) > 0);
    fclose(stream);
    return text;
}

typedef struct device_side {
    cl_program program;
    cl_mem a, b, results;
    uint32_t *inputs, *others, *found, *expected; /* [BATCH] */
} device_side;

static cl_int built(cl_program program, cl_device_id device) {
    static char log[20000];
    const cl_int status = clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL);
    if (status != CL_SUCCESS && clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL) == CL_SUCCESS)
        fprintf(stderr, "%s\n", log);
    return status;
}

static void open_device(device_side *d) {
    clmoe_device_info info;
    cl_int status = CL_SUCCESS;
    const cl_context opencl = clmoe_context_opencl_context(context);
    char *const shared = source_of("shared.h"), *const route = source_of("route.h");
    const char *const texts[] = {"#define CLMOE_KERNEL\n", shared, "\n", route, "\n", kernels};
    assert_int_equal(clmoe_context_describe(context, &info), CLMOE_SUCCESS);
    d->program = clCreateProgramWithSource(opencl, COUNT(texts), (const char **)(uintptr_t)texts, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    assert_int_equal(built(d->program, info.device), CL_SUCCESS);
    free(shared);
    free(route);
    d->a = clCreateBuffer(opencl, CL_MEM_READ_ONLY, BATCH * 4ull, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    d->b = clCreateBuffer(opencl, CL_MEM_READ_ONLY, BATCH * 4ull, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    d->results = clCreateBuffer(opencl, CL_MEM_WRITE_ONLY, BATCH * 4ull, NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    uint32_t **const arrays[] = {&d->inputs, &d->others, &d->found, &d->expected};
    for (uint32_t i = 0; i < COUNT(arrays); ++i) {
        *arrays[i] = calloc(BATCH, 4);
        assert_non_null(*arrays[i]);
    }
}

static void close_device(device_side *d) {
    clReleaseMemObject(d->a);
    clReleaseMemObject(d->b);
    clReleaseMemObject(d->results);
    clReleaseProgram(d->program);
    free(d->inputs);
    free(d->others);
    free(d->found);
    free(d->expected);
}

typedef struct work {
    const device_side *device;
    int function;
    size_t begin, end;
} work;

static void *evaluate_all(void *argument) {
    const work *const w = argument;
    for (size_t i = w->begin; i < w->end; ++i)
        w->device->expected[i] =
            result_bits(evaluate(w->function, float_of_bits(w->device->inputs[i]), float_of_bits(w->device->others[i])));
    return NULL;
}

static void launch(const device_side *d, cl_kernel kernel, size_t count) {
    const cl_command_queue queue = clmoe_context_queue(context);
    cl_event event = NULL;
    const cl_mem buffers[] = {d->a, d->b, d->results};
    for (cl_uint i = 0; i < 3; ++i)
        assert_int_equal(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), CL_SUCCESS);
    assert_int_equal(clEnqueueWriteBuffer(queue, d->a, CL_TRUE, 0, count * 4, d->inputs, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueWriteBuffer(queue, d->b, CL_TRUE, 0, count * 4, d->others, 0, NULL, NULL), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, (const size_t[]){64}, 0, NULL, &event), CL_SUCCESS);
    assert_int_equal(clFlush(queue), CL_SUCCESS);
    assert_int_equal(clWaitForEvents(1, &event), CL_SUCCESS);
    clReleaseEvent(event);
    assert_int_equal(clEnqueueReadBuffer(queue, d->results, CL_TRUE, 0, count * 4, d->found, 0, NULL, NULL), CL_SUCCESS);
}

/* One batch of what lies in inputs and others; a multiple of 64. */
static void compare_batch(device_side *d, int function, cl_kernel kernel, size_t count) {
    pthread_t thread;
    work halves[2] = {{d, function, 0, count / 2}, {d, function, count / 2, count}};
    launch(d, kernel, count);
    assert_int_equal(pthread_create(&thread, NULL, evaluate_all, &halves[0]), 0);
    evaluate_all(&halves[1]);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < count; ++i) {
        const uint32_t found = result_bits(float_of_bits(d->found[i]));
        if (found != d->expected[i])
            fail_msg("%s(0x%08x, 0x%08x) is 0x%08x on %s and 0x%08x in C", names[function], d->inputs[i], d->others[i], found,
                     fixture_pair(), d->expected[i]);
    }
}

static cl_kernel kernel_of(const device_side *d, int function) {
    char name[32];
    cl_int status = CL_SUCCESS;
    snprintf(name, sizeof name, "test_%s", names[function]);
    const cl_kernel kernel = clCreateKernel(d->program, name, &status);
    assert_int_equal(status, CL_SUCCESS);
    return kernel;
}

static void test_exp_on_device(void **state) {
    (void)state;
    device_side d;
    open_device(&d);
    cl_kernel kernel = kernel_of(&d, EXP);
    const uint32_t step = is_long ? 1 : 256;
    uint64_t hash = 0;
    for (uint64_t first = 0; first < (uint64_t)1 << 32; first += (uint64_t)BATCH * step) {
        for (uint32_t i = 0; i < BATCH; ++i)
            d.inputs[i] = (uint32_t)first + i * step + (is_long ? 0 : mix(i) % step);
        compare_batch(&d, EXP, kernel, BATCH);
        hash = hash64_of(hash, d.expected, BATCH * 4ull);
    }
    printf("%-16s %016llx over e^x of %llu numbers\n", fixture_pair(), (unsigned long long)hash, (1ull << 32) / step);
    clReleaseKernel(kernel);
    close_device(&d);
}

static void fill_inputs(device_side *d, int function) {
    for (uint32_t i = 0; i < BATCH; ++i) {
        float a, b;
        random_pair(&a, &b);
        if (function == LOG1P)
            a = fabsf(random_number(1, 126));
        if (function == SQRT)
            a = fabsf(a);
        if (function == TANH && i % 2 == 0)
            a = random_number(100, 135);
        d->inputs[i] = bits_of_float(a);
        d->others[i] = bits_of_float(b);
    }
    for (uint32_t i = 0; i < COUNT(boundaries) * COUNT(boundaries); ++i) {
        const float a = boundaries[i / COUNT(boundaries)], b = boundaries[i % COUNT(boundaries)];
        d->inputs[i] = bits_of_float(function == LOG1P && a > 1 ? 1 : a);
        d->others[i] = bits_of_float(b == 0 ? 1 : b);
    }
}

static void test_others_on_device(void **state) {
    (void)state;
    device_side d;
    const uint32_t batches = is_long ? 20 : fixture_pair_has("rusticl") ? 1 : 2;
    open_device(&d);
    for (int function = LOG1P; function < NUM_FUNCTIONS; ++function) {
        cl_kernel kernel = kernel_of(&d, function);
        for (uint32_t batch = 0; batch < batches; ++batch) {
            fill_inputs(&d, function);
            compare_batch(&d, function, kernel, BATCH);
        }
        clReleaseKernel(kernel);
    }
    close_device(&d);
}

static int open_pair(void **state) {
    (void)state;
    context = fixture_context(fixture_pair());
    return context == NULL ? -1 : 0;
}

static int close_pair(void **state) {
    (void)state;
    clmoe_context_destroy(context);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest in_c[] = {
        cmocka_unit_test(test_exp),      cmocka_unit_test(test_log1p),       cmocka_unit_test(test_tanh),
        cmocka_unit_test(test_division), cmocka_unit_test(test_square_root),
    };
    const struct CMUnitTest on_device[] = {cmocka_unit_test(test_exp_on_device), cmocka_unit_test(test_others_on_device)};
    is_long = argc > 1 && strcmp(argv[1], "long") == 0;
    if (strcmp(fixture_pair(), "native") == 0)
        return cmocka_run_group_tests(in_c, open_pair, close_pair);
    return cmocka_run_group_tests(on_device, open_pair, close_pair);
}
