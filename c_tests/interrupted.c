/* Signals that arrive all the time: calls go on where they were, with the same bits, and threads of the library never run a handler
 * of the program. */
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { N = 2, C = 16, H = 28, W = 28, COUNT = N * C * H * W, TAPS = C * C * 3 * 3, ROUNDS = 60 };

static pthread_t program;
static volatile sig_atomic_t handled, strangers, over;

static void handler(int signal) {
    (void)signal;
    handled++;
    if (!pthread_equal(pthread_self(), program)) strangers++;
}

/* Sends signals to the process, and takes none. */
static void *send(void *set) {
    struct timespec pause = {0, 50000};
    pthread_sigmask(SIG_BLOCK, (sigset_t *)set, NULL);
    while (!over) {
        kill(getpid(), SIGUSR1);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t nchw, nhwc;
static cudnnFilterDescriptor_t filter;
static cudnnConvolutionDescriptor_t convolution;
static float x[COUNT], w[TAPS], y[COUNT], z[COUNT];

static void compute(void) {
    float one = 1, zero = 0;
    cudnnTensorDescriptor_t spare;
    OK(cudnnConvolutionForward(handle, &one, nchw, x, filter, w, convolution, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0,
                               &zero, nchw, y));
    OK(cudnnTransformTensor(handle, &one, nchw, y, &zero, nhwc, z));
    OK(cudnnCreateTensorDescriptor(&spare));
    OK(cudnnDestroyTensorDescriptor(spare));
}

int main(void) {
    static float first[COUNT];
    struct sigaction action;
    pthread_t sender;
    sigset_t set;
    int k;
    program = pthread_self();
    for (k = 0; k < COUNT; k++) x[k] = (float)(k % 17) * 0.37f - 3;
    for (k = 0; k < TAPS; k++) w[k] = (float)(k % 13) * 0.11f - 0.6f;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreateConvolutionDescriptor(&convolution));
    OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, C, C, 3, 3));
    OK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    compute();
    memcpy(first, z, sizeof first);

    memset(&action, 0, sizeof action);
    action.sa_handler = handler; /* without SA_RESTART: system calls are interrupted */
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (pthread_create(&sender, NULL, send, &set) != 0) return 2;
    for (k = 0; k < ROUNDS || (handled < 20 && k < 100 * ROUNDS); k++) {
        memset(z, 0xff, sizeof z);
        compute();
        CHECK(memcmp(first, z, sizeof first) == 0);
    }
    over = 1;
    pthread_join(sender, NULL);
    CHECK(handled >= 20);
    CHECK(strangers == 0);
    OK(cudnnDestroyConvolutionDescriptor(convolution));
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyTensorDescriptor(nhwc));
    OK(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroy(handle));
    return check_result("interrupted");
}
