#define _POSIX_C_SOURCE 200809L
#include "bench_plain.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- The level of vector units: chosen just as the library chooses its native kernels -------------------------------------------- */

const bench_plain *bench_plain_choose(void) {
#if defined(CLMOE_HAS_PLAIN_AVX2) || defined(CLMOE_HAS_PLAIN_AVX512)
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#endif
#ifdef CLMOE_HAS_PLAIN_AVX512
    if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return bench_plain_avx512();
    }
#endif
#ifdef CLMOE_HAS_PLAIN_AVX2
    if (has_avx2) {
        return bench_plain_avx2();
    }
#endif
    return bench_plain_base();
}

/* ---- A second thread ------------------------------------------------------------------------------------------------------------ */

typedef enum team_state { TEAM_ASLEEP, TEAM_AWAKE, TEAM_ENDED } team_state;

struct bench_team {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    _Atomic team_state state;
    atomic_uint job;     /* number of the job that is to be done */
    atomic_uint done;    /* of the last one that the second thread has done */
    atomic_uint arrived; /* at meetings, in all */
    void (*part)(void *data, uint32_t thread);
    void *data;
};

/* Spins first, as the other thread is nearly there; yields then, as it may be waiting for this core. */
static void relax(unsigned *num_turns) {
    enum { SPINS = 2000 };
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
    if (++*num_turns > SPINS) {
        sched_yield();
    }
}

static void *second_thread(void *data) {
    bench_team *team = data;
    unsigned done = 0, num_turns = 0;
    for (;;) {
        pthread_mutex_lock(&team->mutex);
        while (atomic_load(&team->state) == TEAM_ASLEEP) {
            pthread_cond_wait(&team->changed, &team->mutex);
        }
        pthread_mutex_unlock(&team->mutex);
        while (atomic_load_explicit(&team->state, memory_order_acquire) == TEAM_AWAKE) {
            if (atomic_load_explicit(&team->job, memory_order_acquire) != done) {
                team->part(team->data, 1);
                atomic_store_explicit(&team->done, ++done, memory_order_release);
                num_turns = 0;
            }
            relax(&num_turns);
        }
        if (atomic_load(&team->state) == TEAM_ENDED) {
            return NULL;
        }
    }
}

bench_team *bench_team_open(void) {
    bench_team *team = calloc(1, sizeof *team);
    if (!team) {
        return NULL;
    }
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->changed, NULL);
    if (pthread_create(&team->thread, NULL, second_thread, team) != 0) {
        free(team);
        return NULL;
    }
    return team;
}

static void change(bench_team *team, team_state state) {
    pthread_mutex_lock(&team->mutex);
    atomic_store(&team->state, state);
    pthread_cond_signal(&team->changed);
    pthread_mutex_unlock(&team->mutex);
}

void bench_team_start(bench_team *team) {
    change(team, TEAM_AWAKE);
}

void bench_team_stop(bench_team *team) {
    change(team, TEAM_ASLEEP);
}

void bench_team_close(bench_team *team) {
    if (team) {
        change(team, TEAM_ENDED);
        pthread_join(team->thread, NULL);
        free(team);
    }
}

void bench_team_run(bench_team *team, void (*part)(void *data, uint32_t thread), void *data) {
    team->part = part;
    team->data = data;
    const unsigned job = atomic_load_explicit(&team->job, memory_order_relaxed) + 1;
    atomic_store_explicit(&team->job, job, memory_order_release);
    part(data, 0);
    unsigned num_turns = 0;
    while (atomic_load_explicit(&team->done, memory_order_acquire) != job) {
        relax(&num_turns);
    }
}

void bench_team_meet(bench_team *team) {
    const unsigned mine = atomic_fetch_add(&team->arrived, 1), all = mine / 2 * 2 + 2;
    unsigned num_turns = 0;
    while ((int)(atomic_load(&team->arrived) - all) < 0) {
        relax(&num_turns);
    }
}

/* ---- Copying on many threads ---------------------------------------------------------------------------------------------------- */

typedef struct copy_part {
    char *to;
    const char *from;
    size_t bytes;
} copy_part;

static void *copy(void *data) {
    const copy_part *part = data;
    memcpy(part->to, part->from, part->bytes);
    return NULL;
}

void bench_copy(void *to, const void *from, size_t bytes, uint32_t num_threads) {
    enum { MAX_THREADS = 256 };
    pthread_t threads[MAX_THREADS];
    copy_part parts[MAX_THREADS];
    const uint32_t num_parts = num_threads < 1 ? 1 : num_threads > MAX_THREADS ? MAX_THREADS : num_threads;
    const size_t step = (bytes / num_parts + 63) / 64 * 64;
    uint32_t num_started = 0;
    for (uint32_t i = 0; i < num_parts; i++) {
        const size_t first = i * step < bytes ? i * step : bytes, end = i + 1 == num_parts || first + step > bytes ? bytes : first + step;
        parts[i] = (copy_part){(char *)to + first, (const char *)from + first, end - first};
    }
    for (uint32_t i = 1; i < num_parts && pthread_create(&threads[i], NULL, copy, &parts[i]) == 0; i++) {
        num_started++;
    }
    copy(&parts[0]);
    for (uint32_t i = 1; i < num_parts; i++) {
        if (i <= num_started) {
            pthread_join(threads[i], NULL);
        } else {
            copy(&parts[i]);
        }
    }
}
