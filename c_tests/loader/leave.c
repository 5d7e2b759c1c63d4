/* Ends while handles live and worker threads sleep, in the way that the argument names. */
#include <cudnn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Large enough that several threads work on it. */
enum { CHANNELS = 64, SIDE = 256, COUNT = CHANNELS * SIDE * SIDE };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t nchw, nhwc;
static float *x, *y;

static int work(cudnnHandle_t with) {
    const float one = 1, zero = 0;
    memset(y, 0, COUNT * sizeof *y);
    if (cudnnTransformTensor(with, &one, nchw, x, &zero, nhwc, y) != CUDNN_STATUS_SUCCESS) return 1;
    /* Channel 5 of the last pixel. */
    return y[COUNT - CHANNELS + 5] != x[6 * SIDE * SIDE - 1];
}

static int start(void) {
    int at;
    x = malloc(COUNT * sizeof *x);
    y = malloc(COUNT * sizeof *y);
    if (x == 0 || y == 0) return 1;
    for (at = 0; at < COUNT; at++) x[at] = (float)at;
    return cudnnCreate(&handle) || cudnnCreateTensorDescriptor(&nchw) || cudnnCreateTensorDescriptor(&nhwc) ||
           cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, CHANNELS, SIDE, SIDE) ||
           cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, CHANNELS, SIDE, SIDE) ||
           work(handle);
}

static void *leave(void *unused) {
    (void)unused;
    exit(work(handle) ? 20 : 0);
}

static void *leave_behind(void *unused) {
    (void)unused;
    /* A handle of a thread that ends before the process does. */
    return cudnnCreate(&handle) || work(handle) ? (void *)1 : 0;
}

static void late(void) {
    cudnnHandle_t other;
    if (work(handle) || cudnnDestroy(handle) || cudnnCreate(&other) || work(other)) _exit(30);
}

int main(int argc, char **argv) {
    const char *way = argc == 2 ? argv[1] : "";
    pthread_t thread;
    void *failed = 0;
    int status = 0;
    pid_t child;
    alarm(60);
    if (start()) return 10;
    if (strcmp(way, "return") == 0) return 0;
    if (strcmp(way, "thread") == 0) {
        if (pthread_create(&thread, 0, leave, 0)) return 11;
        for (;;) pause();
    }
    if (strcmp(way, "dead-thread") == 0) {
        if (pthread_create(&thread, 0, leave_behind, 0) || pthread_join(thread, &failed) || failed) return 12;
        return work(handle);
    }
    if (strcmp(way, "atexit") == 0) return atexit(late);
    if (strcmp(way, "fork") == 0) {
        cudnnHandle_t other;
        child = fork();
        /* The child uses what it inherited and what it makes, and leaves with both alive. */
        if (child == 0) exit(work(handle) || cudnnCreate(&other) || work(other) ? 40 : 0);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 13;
        return work(handle);
    }
    fprintf(stderr, "how shall I leave?\n");
    return 2;
}
