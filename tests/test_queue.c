/* test_queue.c - living with OpenCL: the caller's own context and queues, events, wait lists, one arena for everything, threads, many
 * contexts. On the native device the tests that need no queue run. */
#define _POSIX_C_SOURCE 200809L
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include <cmocka.h>

static clmoe_context *pair_context; /* owns its cl_context and queue */
static random_stream chance;

/* The caller's side: an own cl_context, an in-order queue, and an out-of-order one where the device has it (else in-order too). */
static cl_context own_opencl;
static cl_command_queue in_order, any_order;
static clmoe_context *own_context;
static bool out_of_order, user_events;
static align_rig rig;

static clmoe_plan *plan_on(clmoe_context *context, const align_case *c) {
    clmoe_plan *plan = NULL;
    char text[400];
    const clmoe_status status = clmoe_align_plan_create(context, &c->desc, &plan);
    clmoe_context_error(context, text, sizeof text);
    if (status != CLMOE_SUCCESS)
        fail_msg("%s: plan: %s: %s", c->name, clmoe_status_name(status), text);
    return plan;
}

static void enqueue(clmoe_plan *plan, cl_command_queue queue, const clmoe_align_args *args, cl_uint num_waits, const cl_event *waits,
                    cl_event *event) {
    char text[400];
    const clmoe_status status = clmoe_align_enqueue(plan, queue, args, num_waits, waits, event);
    clmoe_context_error(own_context, text, sizeof text);
    if (status != CLMOE_SUCCESS)
        fail_msg("enqueue: %s: %s", clmoe_status_name(status), text);
}

static void must(bool ok, const align_rig *which) {
    if (!ok)
        fail_msg("%s", which->failure);
}

static cl_int event_status(cl_event event) {
    cl_int status = 0;
    assert_int_equal(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL), CL_SUCCESS);
    return status;
}

/* A case that takes the forced number of launches; 0 = the library's choice. */
static void begin(align_case *c, const char *name, uint32_t T, uint32_t launches) {
    case_begin(c, name, T, 4, 60, 16);
    c->desc.max_tokens = 800;
    c->desc.tuning.num_launches = launches;
    if (launches > 1)
        c->desc.tuning.num_groups = 3;
    case_fill(c, FILL_SOME_INVALID, &chance);
}

/* ---- Only with OpenCL ----------------------------------------------------------------------------------------------------------- */
static void test_own_context(void **state) {
    (void)state;
    assert_ptr_equal(clmoe_context_opencl_context(own_context), own_opencl);
    assert_null(clmoe_context_queue(own_context));
    clmoe_buffer buffer = {0};
    uint32_t word = 0;
    if (clmoe_buffer_create(own_context, 4, &buffer) == CLMOE_SUCCESS) { /* memory may be made, but there is no queue to move it */
        assert_int_not_equal(clmoe_buffer_write(own_context, buffer, &word, 4), CLMOE_SUCCESS);
        assert_int_not_equal(clmoe_buffer_read(own_context, buffer, &word, 4), CLMOE_SUCCESS);
        clmoe_buffer_destroy(own_context, buffer);
    }
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        const uint32_t tokens[] = {800, 0, 1, 77, 800};
        align_case c;
        begin(&c, "own context", 800, launches);
        clmoe_plan *plan = plan_on(own_context, &c);
        for (size_t i = 0; i < 5; ++i) {
            c.num_tokens = tokens[i];
            case_fill(&c, FILL_SOME_INVALID, &chance);
            must(run_align(&rig, plan, &c), &rig);
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

static void test_out_of_order_queue(void **state) { /* without any event the launches of one call still follow each other */
    (void)state;
    if (!out_of_order)
        printf("this device has no out-of-order queue: an in-order one is used\n");
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        for (uint32_t round = 0; round < 20; ++round) {
            align_case c;
            begin(&c, "out of order", round % 4 == 0 ? 0 : 800 - round, launches);
            clmoe_plan *plan = plan_on(own_context, &c);
            must(rig_prepare(&rig, plan, &c), &rig);
            enqueue(plan, any_order, &rig.args, 0, NULL, NULL);
            clmoe_plan_destroy(plan); /* commands that are still queued go on */
            assert_int_equal(clFinish(any_order), CL_SUCCESS);
            must(rig_check(&rig, &c), &rig);
            case_end(&c);
        }
    }
}

static void test_event(void **state) { /* the event comes back, completes, and stands for the whole call */
    (void)state;
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        for (uint32_t T = 0; T <= 800; T += 400) {
            align_case c;
            cl_event first = NULL, second = NULL;
            cl_command_queue queue = NULL;
            begin(&c, "event", T, launches);
            clmoe_plan *plan = plan_on(own_context, &c);
            must(rig_prepare(&rig, plan, &c), &rig);
            enqueue(plan, any_order, &rig.args, 0, NULL, &first);
            assert_non_null(first);
            enqueue(plan, any_order, &rig.args, 1, &first, &second); /* the same workspace and outputs, after the first call */
            assert_non_null(second);
            assert_int_equal(clGetEventInfo(second, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL), CL_SUCCESS);
            assert_ptr_equal(queue, any_order);
            assert_int_equal(clWaitForEvents(1, &second), CL_SUCCESS);
            assert_int_equal(event_status(first), CL_COMPLETE);
            assert_int_equal(event_status(second), CL_COMPLETE);
            must(rig_check(&rig, &c), &rig); /* through the other queue: nothing but the event orders it after the call */
            assert_int_equal(clReleaseEvent(first), CL_SUCCESS);
            assert_int_equal(clReleaseEvent(second), CL_SUCCESS);
            clmoe_plan_destroy(plan);
            case_end(&c);
        }
    }
}

static void test_wait_list(void **state) { /* nothing is written before the awaited event; the plan serves others meanwhile */
    (void)state;
    if (!user_events) {
        printf("this driver hangs on user events: left out\n");
        return;
    }
    align_rig other;
    rig_begin(&other, own_context, in_order);
    other.opencl = own_opencl;
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        for (uint32_t T = 0; T <= 500; T += 250) {
            align_case c, meanwhile;
            cl_int status = 0;
            cl_event done = NULL, gates[2] = {clCreateUserEvent(own_opencl, &status), NULL};
            assert_int_equal(status, CL_SUCCESS);
            gates[1] = clCreateUserEvent(own_opencl, &status);
            assert_int_equal(status, CL_SUCCESS);
            begin(&c, "wait list", T, launches);
            begin(&meanwhile, "meanwhile", 333, launches);
            clmoe_plan *plan = plan_on(own_context, &c);
            must(rig_prepare(&rig, plan, &c), &rig);
            enqueue(plan, any_order, &rig.args, 2, gates, &done);
            assert_non_null(done);
            clFlush(any_order);
            assert_int_equal(clSetUserEventStatus(gates[0], CL_COMPLETE), CL_SUCCESS);
            must(run_align(&other, plan, &meanwhile), &other);
            const struct timespec a_moment = {0, 20000000};
            nanosleep(&a_moment, NULL);
            assert_int_not_equal(event_status(done), CL_COMPLETE);
            must(rig_untouched(&rig, &c), &rig);
            assert_int_equal(clSetUserEventStatus(gates[1], CL_COMPLETE), CL_SUCCESS);
            assert_int_equal(clWaitForEvents(1, &done), CL_SUCCESS);
            assert_int_equal(event_status(done), CL_COMPLETE);
            must(rig_check(&rig, &c), &rig);
            clReleaseEvent(done);
            clReleaseEvent(gates[0]);
            clReleaseEvent(gates[1]);
            clmoe_plan_destroy(plan);
            case_end(&c);
            case_end(&meanwhile);
        }
    }
    rig_end(&other);
}

static void test_inputs_released_at_once(void **state) { /* while the call still waits, where the driver lets it wait */
    (void)state;
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        align_case c;
        cl_int status = 0;
        begin(&c, "released at once", 600, launches);
        clmoe_plan *plan = plan_on(own_context, &c);
        must(rig_prepare(&rig, plan, &c), &rig);
        cl_event gate = user_events ? clCreateUserEvent(own_opencl, &status) : NULL;
        cl_mem copies[NUM_SLOTS] = {0};
        clmoe_align_args args = rig.args;
        for (int s = 0; s < NUM_SLOTS; ++s) { /* inputs and workspace in cl_mem of their own */
            clmoe_buffer *view = slot_view(&args, s);
            if (view->size_bytes == 0 || (s >= SLOT_SORTED_TOKEN_IDS && s != SLOT_WORKSPACE))
                continue;
            const void *data = rig.slots[s].image + rig.slots[s].view_offset;
            copies[s] = clCreateBuffer(own_opencl, CL_MEM_READ_WRITE, view->size_bytes, NULL, &status);
            assert_int_equal(status, CL_SUCCESS);
            assert_int_equal(clEnqueueWriteBuffer(in_order, copies[s], CL_TRUE, 0, view->size_bytes, data, 0, NULL, NULL), CL_SUCCESS);
            *view = clmoe_buffer_of_mem(copies[s], 0, view->size_bytes);
        }
        cl_event done = NULL;
        enqueue(plan, any_order, &args, gate == NULL ? 0 : 1, gate == NULL ? NULL : &gate, &done);
        for (int s = 0; s < NUM_SLOTS; ++s) {
            if (copies[s] != NULL)
                assert_int_equal(clReleaseMemObject(copies[s]), CL_SUCCESS);
        }
        clmoe_plan_destroy(plan);
        clFlush(any_order);
        if (gate != NULL) {
            assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
            clReleaseEvent(gate);
        }
        assert_int_equal(clWaitForEvents(1, &done), CL_SUCCESS); /* clFinish after clFlush does not wait on rusticl (seen with 22.3.6) */
        assert_int_equal(event_status(done), CL_COMPLETE);
        clReleaseEvent(done);
        must(rig_check(&rig, &c), &rig);
        case_end(&c);
    }
}

static void test_wrong_queue(void **state) { /* a queue of another context is refused, and nothing is written */
    (void)state;
    align_case c;
    begin(&c, "wrong queue", 100, 0);
    clmoe_plan *plan = plan_on(own_context, &c);
    must(rig_prepare(&rig, plan, &c), &rig);
    assert_int_not_equal(clmoe_align_enqueue(plan, clmoe_context_queue(pair_context), &rig.args, 0, NULL, NULL), CLMOE_SUCCESS);
    clFinish(clmoe_context_queue(pair_context));
    must(rig_untouched(&rig, &c), &rig);
    must(run_align(&rig, plan, &c), &rig);
    clmoe_plan_destroy(plan);
    case_end(&c);
}

static void test_no_such_context(void **state) {
    (void)state;
    clmoe_context *context = NULL;
    clmoe_device_info info;
    char text[300] = "";
    clmoe_context_options options = {0};
    options.error_text = text;
    options.error_text_bytes = sizeof text;
    assert_int_equal(clmoe_context_describe(own_context, &info), CLMOE_SUCCESS);
    assert_int_equal(clmoe_context_create_opencl(NULL, info.device, &options, &context), CLMOE_INVALID_ARGUMENT);
    assert_null(context);
    assert_true(text[0] != 0);
    assert_int_equal(clmoe_context_create_opencl(own_opencl, NULL, &options, &context), CLMOE_INVALID_ARGUMENT);
    assert_int_equal(clmoe_context_create_opencl(own_opencl, info.device, &options, NULL), CLMOE_INVALID_ARGUMENT);
    options.kernel_class = (clmoe_class)3;
    assert_int_equal(clmoe_context_create_opencl(own_opencl, info.device, &options, &context), CLMOE_INVALID_ARGUMENT);
    assert_null(context);
}

/* ---- Everywhere ----------------------------------------------------------------------------------------------------------------- */
static void move(align_rig *mine, clmoe_buffer from, clmoe_buffer to) {
    void *bytes = test_malloc(from.size_bytes);
    assert_int_equal(clmoe_buffer_read(mine->context, from, bytes, from.size_bytes), CLMOE_SUCCESS);
    assert_int_equal(clmoe_buffer_write(mine->context, to, bytes, from.size_bytes), CLMOE_SUCCESS);
    test_free(bytes);
}

static void test_arena(void **state) { /* one allocation holds every view and the workspace, without a gap where sizes allow it */
    (void)state;
    align_rig mine;
    rig_begin(&mine, pair_context, clmoe_context_queue(pair_context));
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        align_case c;
        clmoe_buffer arena, places[NUM_SLOTS];
        begin(&c, "arena", 300, launches);
        case_map_fill(&c, MAP_RANDOM, &chance);
        case_mask(&c, 90, &chance);
        case_tokens_device(&c, 290);
        clmoe_plan *plan = plan_on(pair_context, &c);
        must(rig_prepare(&mine, plan, &c), &mine);
        const clmoe_align_args guarded_args = mine.args;
        size_t end = 4;
        for (int s = 0; s < NUM_SLOTS; ++s) {
            const size_t bytes = slot_view(&mine.args, s)->size_bytes;
            places[s].size_bytes = bytes;
            places[s].offset_bytes = end = (end + 3) / 4 * 4;
            end += bytes;
        }
        assert_int_equal(clmoe_buffer_create(pair_context, end + 4, &arena), CLMOE_SUCCESS);
        for (int s = 0; s < NUM_SLOTS; ++s) {
            clmoe_buffer *view = slot_view(&mine.args, s);
            places[s].mem = arena.mem;
            places[s].host = arena.host;
            if (view->size_bytes == 0)
                continue;
            move(&mine, *view, places[s]);
            *view = places[s];
        }
        const clmoe_status status = clmoe_align_enqueue(plan, mine.queue, &mine.args, 0, NULL, NULL);
        if (status != CLMOE_SUCCESS)
            fail_msg("arena: %s", clmoe_status_name(status));
        mine.args = guarded_args;
        for (int s = 0; s < NUM_SLOTS; ++s) {
            if (places[s].size_bytes != 0)
                move(&mine, places[s], *slot_view(&mine.args, s));
        }
        must(rig_check(&mine, &c), &mine);
        clmoe_buffer_destroy(pair_context, arena);
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
    rig_end(&mine);
}

typedef struct worker {
    pthread_t thread;
    clmoe_plan *shared_plan;
    uint32_t number, rounds;
    char failure[1200];
} worker;

/* No cmocka in here: its failures may only be raised on the main thread. */
static void *work(void *argument) {
    worker *me = argument;
    random_stream random = {me->number};
    align_rig mine;
    cl_int status = CL_SUCCESS;
    clmoe_device_info info;
    cl_context opencl = clmoe_context_opencl_context(pair_context);
    clmoe_context_describe(pair_context, &info);
    cl_command_queue queue = opencl == NULL ? NULL : clCreateCommandQueue(opencl, info.device, 0, &status);
    if (status != CL_SUCCESS)
        snprintf(me->failure, sizeof me->failure, "clCreateCommandQueue: %s", clmoe_status_name(status));
    rig_begin(&mine, pair_context, queue);
    mine.opencl = opencl;
    for (uint32_t round = 0; round < me->rounds && me->failure[0] == 0; ++round) {
        align_case c;
        const bool own_plan = me->number % 4 == 3 && round % 8 == 7; /* plans are made while others run */
        case_begin(&c, "thread", 800, 4, own_plan ? 33 : 60, 16);
        c.num_tokens = random_below(&random, 801);
        case_fill(&c, (fill)random_below(&random, NUM_FILLS), &random);
        const bool ok = own_plan ? run_align_once(&mine, &c, NULL) : run_align(&mine, me->shared_plan, &c);
        if (!ok)
            memcpy(me->failure, mine.failure, sizeof me->failure);
        if (round % 5 == 4) { /* errors of one thread do not disturb the calls of another */
            clmoe_align_args wrong = mine.args;
            wrong.num_tokens = 801;
            if (clmoe_align_enqueue(me->shared_plan, queue, &wrong, 0, NULL, NULL) != CLMOE_INVALID_ARGUMENT)
                snprintf(me->failure, sizeof me->failure, "a wrong call was accepted");
        }
        case_end(&c);
    }
    rig_end(&mine);
    if (queue != NULL)
        clReleaseCommandQueue(queue);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    static worker workers[8];
    for (uint32_t launches = 0; launches <= 3; ++launches) {
        align_case c;
        begin(&c, "threads", 800, launches);
        clmoe_plan *plan = plan_on(pair_context, &c);
        for (uint32_t i = 0; i < 8; ++i) {
            memset(&workers[i], 0, sizeof workers[i]);
            workers[i].shared_plan = plan;
            workers[i].number = i;
            workers[i].rounds = fixture_cases(300, 40, 12);
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (uint32_t i = 0; i < 8; ++i)
            pthread_join(workers[i].thread, NULL);
        for (uint32_t i = 0; i < 8; ++i) {
            if (workers[i].failure[0] != 0)
                fail_msg("thread %u, %u launches: %s", i, launches, workers[i].failure);
        }
        clmoe_plan_destroy(plan);
        case_end(&c);
    }
}

static void test_two_contexts(void **state) { /* used by turns; then one goes on without the other */
    (void)state;
    clmoe_context *both[2];
    align_rig rigs[2];
    clmoe_plan *plans[2];
    align_case c;
    begin(&c, "two contexts", 300, 0);
    for (int i = 0; i < 2; ++i) {
        both[i] = fixture_context(fixture_pair());
        assert_non_null(both[i]);
        rig_begin(&rigs[i], both[i], clmoe_context_queue(both[i]));
        plans[i] = plan_on(both[i], &c);
    }
    for (uint32_t round = 0; round < 60; ++round) {
        const int i = round < 50 ? (int)(round % 2) : 1;
        if (round == 50) {
            rig_end(&rigs[0]);
            clmoe_plan_destroy(plans[0]);
            clmoe_context_destroy(both[0]);
        }
        c.num_tokens = round * 5;
        case_fill(&c, FILL_UNIFORM, &chance);
        must(run_align(&rigs[i], plans[i], &c), &rigs[i]);
    }
    rig_end(&rigs[1]);
    clmoe_context_destroy(both[1]); /* the plan outlives the handle of its context */
    clmoe_plan_destroy(plans[1]);
    case_end(&c);
}

static long resident_pages(void) {
    long pages = 0;
    FILE *stream = fopen("/proc/self/statm", "r");
    if (stream == NULL || fscanf(stream, "%*d %ld", &pages) != 1)
        pages = 0;
    if (stream != NULL)
        fclose(stream);
    return pages;
}

static void test_created_again_and_again(void **state) {
    (void)state;
    long pages_early = 0, pages_late = 0;
    for (uint32_t round = 1; round <= 50; ++round) {
        clmoe_context *context = fixture_context(fixture_pair());
        assert_non_null(context);
        align_rig mine;
        align_case c;
        rig_begin(&mine, context, clmoe_context_queue(context));
        begin(&c, "again and again", round * 4, 0);
        must(run_align_once(&mine, &c, NULL), &mine);
        rig_end(&mine);
        clmoe_context_destroy(context);
        case_end(&c);
        if (round == 10)
            pages_early = resident_pages();
        if (round == 50)
            pages_late = resident_pages();
    }
    printf("resident pages after 10 rounds %ld, after 50 rounds %ld\n", pages_early, pages_late);
    /* Drivers keep some memory per context for good; what is ours shows without a driver. */
    if (strcmp(fixture_pair(), "native") == 0)
        assert_true(pages_late <= pages_early + pages_early / 10);
}

static int open_pair(void **state) {
    (void)state;
    clmoe_device_info info;
    cl_command_queue_properties properties = 0;
    cl_int status = 0;
    chance.state = 26;
    pair_context = fixture_context(fixture_pair());
    if (pair_context == NULL || clmoe_context_describe(pair_context, &info) != CLMOE_SUCCESS)
        return -1;
    if (info.backend == CLMOE_BACKEND_NATIVE)
        return 0;
    own_opencl = clCreateContext(NULL, 1, &info.device, NULL, NULL, &status);
    if (status != CL_SUCCESS)
        return -1;
    clGetDeviceInfo(info.device, CL_DEVICE_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    out_of_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
    user_events = strstr(info.platform_name, "Oclgrind") == NULL && strstr(info.platform_name, "oclgrind") == NULL;
    in_order = clCreateCommandQueue(own_opencl, info.device, 0, &status);
    if (status != CL_SUCCESS)
        return -1;
    any_order = clCreateCommandQueue(own_opencl, info.device, out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0, &status);
    if (status != CL_SUCCESS)
        return -1;
    clmoe_context_options options = {0};
    options.kernel_class = info.kernel_class;
    if (clmoe_context_create_opencl(own_opencl, info.device, &options, &own_context) != CLMOE_SUCCESS)
        return -1;
    rig_begin(&rig, own_context, in_order);
    rig.opencl = own_opencl;
    return 0;
}

static int close_pair(void **state) {
    (void)state;
    if (own_context != NULL) {
        rig_end(&rig);
        clmoe_context_destroy(own_context);
        clReleaseCommandQueue(in_order);
        clReleaseCommandQueue(any_order);
        clReleaseContext(own_opencl);
    }
    clmoe_context_destroy(pair_context);
    return 0;
}

#define EVERYWHERE                                                                                                                         \
    cmocka_unit_test(test_arena), cmocka_unit_test(test_threads), cmocka_unit_test(test_two_contexts),                                     \
        cmocka_unit_test(test_created_again_and_again)

int main(void) {
    const struct CMUnitTest native_tests[] = {EVERYWHERE};
    const struct CMUnitTest opencl_tests[] = {
        cmocka_unit_test(test_own_context),
        cmocka_unit_test(test_out_of_order_queue),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_wait_list),
        cmocka_unit_test(test_inputs_released_at_once),
        cmocka_unit_test(test_wrong_queue),
        cmocka_unit_test(test_no_such_context),
        EVERYWHERE,
    };
    if (strcmp(fixture_pair(), "native") == 0)
        return cmocka_run_group_tests(native_tests, open_pair, close_pair);
    return cmocka_run_group_tests(opencl_tests, open_pair, close_pair);
}
