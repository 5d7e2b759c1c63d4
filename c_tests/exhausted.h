/* Calls of which every allocation fails once, with all after it: they say so, have written nothing, and repeated have the bits of a call
 * that was never disturbed. On threads of their own as well, for the first call of a thread takes the memory that it keeps. */
#ifndef EXHAUSTED_H
#define EXHAUSTED_H

#include <pthread.h>

#include "check.h"
#include "failing_memory.h"

/* Buffers that a call may write, but for its workspace. */
enum { MOST = 16 };

static struct {
    unsigned char *at, *before, *want;
    size_t size;
} outputs[MOST];
static int count;
static uint32_t state = 1;

static float drawn(void) {
    state = state * 1664525 + 1013904223;
    return (float)(state >> 8) / (1 << 23) - 1;
}

static void *checked(void *memory) {
    CHECK(memory != NULL);
    if (memory == NULL) exit(2);
    return memory;
}

static float *numbers(size_t n) {
    float *memory = (float *)checked(malloc(n * sizeof *memory));
    size_t i;
    for (i = 0; i < n; i++) memory[i] = drawn() / 4;
    return memory;
}

/* Something that a call may write. */
static void *output(size_t size) {
    outputs[count].at = (unsigned char *)checked(calloc(1, size + 1));
    outputs[count].before = (unsigned char *)checked(malloc(size + 1));
    outputs[count].want = (unsigned char *)checked(malloc(size + 1));
    outputs[count].size = size;
    return outputs[count++].at;
}

static void keep(int wanted) {
    int i;
    for (i = 0; i < count; i++) memcpy(wanted ? outputs[i].want : outputs[i].before, outputs[i].at, outputs[i].size);
}

static void restore(void) {
    int i;
    for (i = 0; i < count; i++) memcpy(outputs[i].at, outputs[i].before, outputs[i].size);
}

static int same(int wanted) {
    int i;
    for (i = 0; i < count; i++)
        if (memcmp(outputs[i].at, wanted ? outputs[i].want : outputs[i].before, outputs[i].size) != 0) return 0;
    return 1;
}

struct attempt {
    cudnnStatus_t (*call)(void);
    long n;
    cudnnStatus_t status;
    int failed;
};

static void *try(void *of) {
    struct attempt *attempt = (struct attempt *)of;
    failed = 0;
    left = attempt->n;
    attempt->status = attempt->call();
    left = -1;
    attempt->failed = failed;
    return NULL;
}

/* How many calls were refused, of all. */
static int refused;

/* A call on what lies in the outputs, which stays there as the call leaves it. A sample of the allocations fails: the first ones, and
 * farther apart after them; with CUDNN_SHIM_TEST_FULL in the environment more of them. */
static void exhausted(const char *name, cudnnStatus_t (*call)(void)) {
    const long close = getenv("CUDNN_SHIM_TEST_FULL") != NULL ? 16 : 4;
    long n;
    int is_warm, done, failures = check_failures;
    keep(0);
    OK(call());
    keep(1);
    for (is_warm = 0; is_warm < 2; is_warm++)
        for (n = 0, done = 0; n < 3000 && !done; n += 1 + n / close) {
            struct attempt attempt;
            pthread_t thread;
            attempt.call = call, attempt.n = n, attempt.status = CUDNN_STATUS_SUCCESS;
            restore();
            if (is_warm) {
                try(&attempt);
            } else {
                CHECK(pthread_create(&thread, NULL, try, &attempt) == 0);
                CHECK(pthread_join(thread, NULL) == 0);
            }
            done = !attempt.failed;
            if (attempt.status == CUDNN_STATUS_SUCCESS) {
                CHECK(same(1));
                continue;
            }
            refused++;
            CHECK(attempt.status == CUDNN_STATUS_ALLOC_FAILED);
            CHECK(same(0));
            OK(call());
            CHECK(same(1));
            if (check_failures > failures) {
                fprintf(stderr, "%s, allocations from %ld on fail, %s\n", name, n, is_warm ? "warm" : "on a new thread");
                break;
            }
        }
    restore();
    OK(call());
}

static void clear(void) {
    int i;
    for (i = 0; i < count; i++) free(outputs[i].at), free(outputs[i].before), free(outputs[i].want);
    count = 0;
}

#endif
