/* tsan_pool.c - tells ThreadSanitizer what libpthreadpool promises. The library is not compiled for it, and hands work over by atomics that
 * it does not see: what was written before a call is seen by every task of it, and what the tasks wrote is seen after the call. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <pthreadpool.h>
#include <string.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

struct handed_over {
    pthreadpool_task_1d_t run;
    void *argument;
    char begun, ended; /* addresses of the two orders: a task is not ordered after another one */
};

static void run_task(void *handed_over_pointer, size_t i) {
    const struct handed_over *task = handed_over_pointer;
    __tsan_acquire((void *)&task->begun);
    task->run(task->argument, i);
    __tsan_release((void *)&task->ended);
}

/* Stands before the library's own of that name. */
void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t run, void *argument, size_t range, uint32_t flags) {
    void (*real)(pthreadpool_t, pthreadpool_task_1d_t, void *, size_t, uint32_t);
    struct handed_over task = {run, argument, 0, 0};
    void *found = dlsym(RTLD_NEXT, "pthreadpool_parallelize_1d");
    memcpy(&real, &found, sizeof real);
    __tsan_release(&task.begun);
    real(pool, run_task, &task, range, flags);
    __tsan_acquire(&task.ended);
}
