/* Threads: a handle each with shared descriptors, one handle from two threads, and a child process after use. */
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 25, N = 4, C = 16, H = 24, W = 20, COUNT = N * C * H * W };

static cudnnTensorDescriptor_t nchw, nhwc;
static cudnnHandle_t shared;

/* The failure counter of check.h is not meant for threads, so these functions return what went wrong. */
static int transform_once(cudnnHandle_t handle, int seed) {
    float alpha = 2, beta = 0;
    float *x = (float *)guarded_alloc(COUNT * sizeof *x), *y = (float *)guarded_alloc(COUNT * sizeof *y);
    int n, c, p, wrong = 0, i;
    for (i = 0; i < COUNT; i++) x[i] = (float)(i % 997 + seed);
    if (cudnnTransformTensor(handle, &alpha, nchw, x, &beta, nhwc, y) != CUDNN_STATUS_SUCCESS) wrong++;
    for (n = 0; n < N; n++)
        for (c = 0; c < C; c++)
            for (p = 0; p < H * W; p++)
                wrong += !(y[(n * H * W + p) * C + c] == 2 * x[(n * C + c) * H * W + p]);
    guarded_free(x, COUNT * sizeof *x);
    guarded_free(y, COUNT * sizeof *y);
    return wrong;
}

static int churn(void) {
    cudnnTensorDescriptor_t desc[8];
    int i, wrong = 0, n, c, h, w, s[4];
    cudnnDataType_t type;
    for (i = 0; i < 8; i++) {
        wrong += cudnnCreateTensorDescriptor(&desc[i]) != CUDNN_STATUS_SUCCESS;
        wrong += cudnnSetTensor4dDescriptor(desc[i], CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, i + 1, 2, 3, 4) !=
                 CUDNN_STATUS_SUCCESS;
    }
    for (i = 0; i < 8; i++) {
        wrong += cudnnGetTensor4dDescriptor(desc[i], &type, &n, &c, &h, &w, &s[0], &s[1], &s[2], &s[3]) !=
                 CUDNN_STATUS_SUCCESS;
        wrong += n != i + 1;
        wrong += cudnnDestroyTensorDescriptor(desc[i]) != CUDNN_STATUS_SUCCESS;
    }
    return wrong;
}

static void *own_handle(void *argument) {
    int seed = *(int *)argument, round, *wrong = (int *)argument;
    cudnnHandle_t handle;
    *wrong = 0;
    for (round = 0; round < ROUNDS; round++) {
        *wrong += cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
        *wrong += transform_once(handle, seed + round);
        *wrong += churn();
        *wrong += cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
    }
    return NULL;
}

static void *same_handle(void *argument) {
    int seed = *(int *)argument, round, *wrong = (int *)argument;
    *wrong = 0;
    for (round = 0; round < ROUNDS; round++) *wrong += transform_once(shared, seed + round);
    return NULL;
}

static void in_threads(int threads, void *(*body)(void *)) {
    pthread_t thread[THREADS];
    int wrong[THREADS], i;
    for (i = 0; i < threads; i++) {
        wrong[i] = i * 100;
        CHECK(pthread_create(&thread[i], NULL, body, &wrong[i]) == 0);
    }
    for (i = 0; i < threads; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
        CHECK(wrong[i] == 0);
    }
}

/* The error text is each thread's own: it is not seen, and not consumed, by another one. */
static void *no_text(void *argument) {
    char text[256];
    memset(text, 'x', sizeof text);
    cudnnGetLastErrorString(text, sizeof text);
    *(int *)argument = text[0] != '\0';
    return NULL;
}

static void texts(void) {
    char text[256] = "";
    pthread_t thread;
    int seen = 1;
    BAD(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    CHECK(pthread_create(&thread, NULL, no_text, &seen) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(seen == 0);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(text[0] != '\0');
}

/* After a fork the child has none of the parent's threads: it must neither hang nor crash. */
static void after_fork(void) {
    int status = -1;
    pid_t child;
    CHECK(transform_once(shared, 1) == 0);
    fflush(NULL);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        cudnnHandle_t handle;
        int wrong;
        alarm(60); /* a hang becomes a death by signal */
#ifdef ON_DEVICE_H
        {
            /* No driver works in a forked child: calls that need it fail, and all of them return. */
            float factors[2] = {1, 0}, *x = (float *)calloc(2 * COUNT, sizeof *x);
            wrong = cudnnSetStream(shared, NULL) != CUDNN_STATUS_SUCCESS;
            wrong += (cudnnTransformTensor)(shared, factors, nchw, x, factors + 1, nhwc, x + COUNT) == CUDNN_STATUS_SUCCESS;
            _exit(wrong != 0);
        }
#endif
        wrong = transform_once(shared, 2);
        wrong += cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
        wrong += transform_once(handle, 3);
        wrong += cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
        _exit(wrong != 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(transform_once(shared, 4) == 0);
}

int main(void) {
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnCreate(&shared));
    in_threads(THREADS, own_handle);
    in_threads(2, same_handle);
    texts();
    after_fork();
    OK(cudnnDestroy(shared));
    OK(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroyTensorDescriptor(nhwc));
    return check_result("threads");
}
