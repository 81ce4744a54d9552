#define _GNU_SOURCE /* sched_getaffinity */
#include "../devices.h"

#include "kernels.h"

#include <pthread.h>
#include <pthreadpool.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 256 };
enum { WAIT_TURNS = 2000 }; /* 20 to 100 us on x86: as long as groups of a short call, and no longer, for others may need the core */

struct native_device {
    pthreadpool_t pool; /* NULL: everything on the calling thread */
    pid_t process;      /* whose threads the pool has: they do not follow a fork */
};

struct clmoe_kernels {
    clmoe_native_kernel *run[CLMOE_MAX_KERNELS];
};

/* From the highest level that this processor has and that has the kernel: just the features that the build names for it. */
static clmoe_native_kernel *find_kernel(const char *name, const char *variant) {
#if defined(CLMOE_HAS_NATIVE_AVX2) || defined(CLMOE_HAS_NATIVE_AVX512)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#endif
#ifdef CLMOE_HAS_NATIVE_AVX512
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        clmoe_native_kernel *found = clmoe_native_find_kernel_avx512(name, variant);
        if (found != NULL)
            return found;
    }
#endif
#ifdef CLMOE_HAS_NATIVE_AVX2
    if (has_avx2)
        return clmoe_native_find_kernel_avx2(name, variant);
#endif
    return clmoe_native_find_kernel_base(name, variant);
}

static clmoe_status prepare(clmoe_context *context, const struct clmoe_kernel_set *set, uint32_t group_size, struct clmoe_kernels **kernels,
                            struct clmoe_prepare_result *result) {
    struct clmoe_kernels *found = calloc(1, sizeof *found);
    if (found == NULL)
        return clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "%s: out of host memory", set->op);
    for (unsigned i = 0; i < CLMOE_MAX_KERNELS && set->kernel_names[i] != NULL; ++i) {
        found->run[i] = find_kernel(set->kernel_names[i], set->variant);
        if (found->run[i] == NULL) {
            free(found);
            return clmoe_fail(context, CLMOE_UNSUPPORTED, "%s for %s: not compiled for the native device", set->kernel_names[i],
                              set->variant);
        }
    }
    *kernels = found;
    *result = (struct clmoe_prepare_result){.max_group_size = group_size, .origin = CLMOE_PROGRAM_NATIVE};
    return CLMOE_SUCCESS;
}

static void release(clmoe_context *context, struct clmoe_kernels *kernels) {
    (void)context;
    free(kernels);
}

static clmoe_status check_tail(clmoe_context *context, const char *function, const struct clmoe_queue_tail *tail) {
    const char *wrong = tail->queue != NULL                                ? "queue"
                        : tail->num_events != 0 || tail->wait_list != NULL ? "event_wait_list"
                        : tail->event != NULL                              ? "event"
                                                                           : NULL;
    if (wrong != NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: %s: must be NULL, the native device has done the work on return", function,
                          wrong);
    return CLMOE_SUCCESS;
}

static clmoe_status check_buffer(clmoe_context *context, const char *name, const clmoe_buffer *buffer, bool is_output) {
    (void)is_output;
    if (buffer->mem != NULL || buffer->host == NULL)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: a view of cl_mem; the native device takes host memory", name);
    const uintptr_t room = UINTPTR_MAX - (uintptr_t)buffer->host;
    if (buffer->offset_bytes > room || buffer->size_bytes > room - buffer->offset_bytes)
        return clmoe_fail(context, CLMOE_INVALID_ARGUMENT, "%s: offset_bytes %zu and size_bytes %zu reach beyond the address space", name,
                          buffer->offset_bytes, buffer->size_bytes);
    return CLMOE_SUCCESS;
}

/* ---- A call: its launches one after the other, the groups of each taken by whichever thread is there ---- */

struct launch {
    clmoe_native_kernel *run;
    uint32_t num_groups;
    const void *arguments[CLMOE_MAX_ARGUMENTS];
    atomic_uint next_group, num_done;
};

struct call {
    struct launch *launches;
    unsigned num_launches;
    pthread_mutex_t mutex;
    pthread_cond_t launch_ended;
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_ended(struct launch *launch) {
    return atomic_load_explicit(&launch->num_done, memory_order_acquire) == launch->num_groups;
}

/* Until other threads have ended their groups: awake for as long as a group of a short call takes, then asleep. */
static void wait_for_end(struct call *call, struct launch *launch) {
    for (unsigned turn = 0; turn < WAIT_TURNS && !has_ended(launch); ++turn)
        relax();
    if (has_ended(launch))
        return;
    pthread_mutex_lock(&call->mutex);
    while (!has_ended(launch))
        pthread_cond_wait(&call->launch_ended, &call->mutex);
    pthread_mutex_unlock(&call->mutex);
}

/* What each thread does for a call. One that comes late finds less to do; no launch waits for it. */
static void take_part(void *call_pointer, size_t thread) {
    struct call *call = call_pointer;
    (void)thread;
    for (unsigned i = 0; i < call->num_launches; ++i) {
        struct launch *launch = &call->launches[i];
        for (uint32_t group; (group = atomic_fetch_add_explicit(&launch->next_group, 1, memory_order_relaxed)) < launch->num_groups;) {
            launch->run(launch->arguments, group, launch->num_groups);
            if (atomic_fetch_add_explicit(&launch->num_done, 1, memory_order_acq_rel) + 1 == launch->num_groups) {
                pthread_mutex_lock(&call->mutex); /* so that nobody is between looking and falling asleep */
                pthread_mutex_unlock(&call->mutex);
                pthread_cond_broadcast(&call->launch_ended);
            }
        }
        wait_for_end(call, launch);
    }
}

static clmoe_status enqueue(clmoe_context *context, struct clmoe_kernels *kernels, const struct clmoe_stage *stages, unsigned num_stages,
                            const struct clmoe_queue_tail *tail) {
    static const uint64_t absent = 0; /* so that kernels may add an offset of 0 to the address of a view that is not there */
    const struct native_device *device = context->device;
    struct launch launches[CLMOE_MAX_STAGES];
    uint32_t most_groups = 1;
    (void)tail;
    for (unsigned s = 0; s < num_stages; ++s) {
        const struct clmoe_stage *stage = &stages[s];
        struct launch *launch = &launches[s];
        launch->run = kernels->run[stage->kernel];
        launch->num_groups = stage->num_groups;
        for (unsigned i = 0; i < stage->num_arguments; ++i) {
            const struct clmoe_argument *argument = &stage->arguments[i];
            launch->arguments[i] = argument->kind == CLMOE_ARGUMENT_BYTES ? argument->data
                                   : argument->buffer.host != NULL        ? argument->buffer.host
                                                                          : &absent;
        }
        most_groups = stage->num_groups > most_groups ? stage->num_groups : most_groups;
        atomic_init(&launch->next_group, 0);
        atomic_init(&launch->num_done, 0);
    }
    if (most_groups == 1 || device->pool == NULL || device->process != getpid()) {
        for (unsigned s = 0; s < num_stages; ++s)
            for (uint32_t group = 0; group < launches[s].num_groups; ++group)
                launches[s].run(launches[s].arguments, group, launches[s].num_groups);
        return CLMOE_SUCCESS;
    }
    /* The pool's threads are woken, and waited for, once for the whole call: that takes microseconds, on a busy machine milliseconds (align
     * of T 16384, medians of 3 runs on two free cores: 142 us; 167 us when each launch woke and waited for them). */
    struct call call = {.launches = launches, .num_launches = num_stages};
    pthread_mutex_init(&call.mutex, NULL);
    pthread_cond_init(&call.launch_ended, NULL);
    pthreadpool_parallelize_1d(device->pool, take_part, &call, pthreadpool_get_threads_count(device->pool), PTHREADPOOL_FLAG_YIELD_WORKERS);
    pthread_cond_destroy(&call.launch_ended);
    pthread_mutex_destroy(&call.mutex);
    return CLMOE_SUCCESS;
}

static clmoe_status buffer_create(clmoe_context *context, size_t bytes, clmoe_buffer *buffer) {
    void *host = malloc(bytes);
    if (host == NULL)
        return clmoe_fail(context, CLMOE_OUT_OF_MEMORY, "clmoe_buffer_create: %zu bytes: out of host memory", bytes);
    *buffer = (clmoe_buffer){.host = host, .size_bytes = bytes};
    return CLMOE_SUCCESS;
}

static clmoe_status buffer_write(clmoe_context *context, cl_command_queue queue, clmoe_buffer buffer, const void *data, size_t bytes) {
    (void)context;
    (void)queue;
    memcpy((char *)buffer.host + buffer.offset_bytes, data, bytes);
    return CLMOE_SUCCESS;
}

static clmoe_status buffer_read(clmoe_context *context, cl_command_queue queue, clmoe_buffer buffer, void *data, size_t bytes) {
    (void)context;
    (void)queue;
    memcpy(data, (const char *)buffer.host + buffer.offset_bytes, bytes);
    return CLMOE_SUCCESS;
}

static void buffer_destroy(clmoe_context *context, clmoe_buffer buffer) {
    (void)context;
    free(buffer.host);
}

static clmoe_status queue_create(clmoe_context *context, cl_command_queue *queue) {
    (void)context;
    *queue = NULL;
    return CLMOE_SUCCESS;
}

static void queue_destroy(clmoe_context *context, cl_command_queue queue) {
    (void)context;
    (void)queue;
}

static void close_device(clmoe_context *context) {
    struct native_device *device = context->device;
    if (device->pool != NULL)
        pthreadpool_destroy(device->pool);
    free(device);
}

static const struct clmoe_backend native_backend = {
    .prepare = prepare,
    .release = release,
    .check_tail = check_tail,
    .check_buffer = check_buffer,
    .enqueue = enqueue,
    .buffer_create = buffer_create,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .buffer_destroy = buffer_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .close = close_device,
};

static uint32_t available_cores(void) {
    cpu_set_t cores;
    const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (uint32_t)count;
}

static void *wait_for_release(void *mutex) {
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return NULL;
}

/* How many threads, up to `wanted`, can live at the same time beside this one: pthreadpool waits for ever for one that cannot start. */
static uint32_t startable_threads(uint32_t wanted) {
    pthread_t threads[MAX_THREADS];
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    uint32_t started = 0;
    pthread_mutex_lock(&mutex);
    while (started < wanted && pthread_create(&threads[started], NULL, wait_for_release, &mutex) == 0)
        ++started;
    pthread_mutex_unlock(&mutex);
    for (uint32_t i = 0; i < started; ++i)
        pthread_join(threads[i], NULL);
    return started;
}

/* The processor's name as Linux tells it, or "CPU". */
static void read_cpu_name(char *name, size_t name_bytes) {
    snprintf(name, name_bytes, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL)
        return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        colon += strspn(colon, ": \t");
        snprintf(name, name_bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(file);
}

void clmoe_native_describe(uint32_t num_threads, clmoe_device_info *info) {
    *info = (clmoe_device_info){
        .backend = CLMOE_BACKEND_NATIVE,
        .kernel_class = CLMOE_CLASS_SERIAL,
        .index = -1,
        .platform_index = -1,
        .device_index = -1,
        .type = CL_DEVICE_TYPE_CPU,
        .compute_units = num_threads != 0 ? num_threads : available_cores(),
        .max_group_size = 1,
    };
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0)
        info->global_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    read_cpu_name(info->name, sizeof info->name);
    snprintf(info->platform_name, sizeof info->platform_name, "native");
    snprintf(info->platform_version, sizeof info->platform_version, "C11");
    snprintf(info->device_version, sizeof info->device_version, "C11");
    snprintf(info->driver_version, sizeof info->driver_version, "clmoe " CLMOE_VERSION_TEXT);
}

clmoe_status clmoe_context_create_native(const clmoe_context_options *options, clmoe_context **context) {
    const clmoe_context_options none = {0};
    options = options != NULL ? options : &none;
    if (context == NULL)
        return CLMOE_INVALID_ARGUMENT;
    clmoe_context *made = clmoe_context_new(&native_backend, options);
    if (made == NULL)
        return clmoe_context_fail_creation(NULL, options, CLMOE_OUT_OF_MEMORY);
    clmoe_status status = CLMOE_SUCCESS;
    if (options->num_threads > MAX_THREADS)
        status = clmoe_fail(made, CLMOE_INVALID_ARGUMENT, "options.num_threads: %u, must be at most %d", options->num_threads, MAX_THREADS);
    else if (options->kernel_class == CLMOE_CLASS_PARALLEL)
        status = clmoe_fail(made, CLMOE_UNSUPPORTED, "options.kernel_class: the native device runs the serial class only");
    else if (options->kernel_class != CLMOE_CLASS_AUTO && options->kernel_class != CLMOE_CLASS_SERIAL)
        status = clmoe_fail(made, CLMOE_INVALID_ARGUMENT, "options.kernel_class: is none of the CLMOE_CLASS_ values");
    if (status != CLMOE_SUCCESS)
        return clmoe_context_fail_creation(made, options, status);

    struct native_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return clmoe_context_fail_creation(made, options, clmoe_fail(made, CLMOE_OUT_OF_MEMORY, "out of host memory"));
    made->device = device;
    clmoe_native_describe(options->num_threads, &made->info);
    made->info.compute_units = 1 + startable_threads(made->info.compute_units - 1);
    if (made->info.compute_units > 1) {
        device->process = getpid();
        device->pool = pthreadpool_create(made->info.compute_units);
        if (device->pool == NULL)
            return clmoe_context_fail_creation(made, options, clmoe_fail(made, CLMOE_OUT_OF_MEMORY, "out of host memory"));
    }
    made->limits = (struct clmoe_limits){.compute_units = made->info.compute_units, .max_group_size = 1};
    *context = made;
    return CLMOE_SUCCESS;
}
