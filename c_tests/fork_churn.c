/* Children that are forked while other threads create, change and destroy objects, set the callback, write to the log and
 * compute: each of them is served, whatever those threads had in hand.
 *
 * Not under valgrind, which runs one thread at a time; nor with sanitizers, whose allocators a child may find locked. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "sanitized.h"

#if !IS_SANITIZED
enum { CHILDREN = 300, SECONDS = 3, COUNT = 1 << 18 };

static volatile int is_over;
static cudnnHandle_t handle;
static cudnnTensorDescriptor_t changing, desc;
static float x[COUNT], y[COUNT];

static void CUDNNWINAPI heard(cudnnSeverity_t severity, void *udata, const cudnnDebug_t *debug, const char *message) {
    (void)severity, (void)debug, (void)message;
    *(volatile int *)udata += 1;
}

/* Objects of two kinds come and go, and one that all know is set again and again. */
static void *churn(void *unused) {
    int turn;
    for (turn = 1; !__atomic_load_n(&is_over, __ATOMIC_RELAXED); turn++) {
        cudnnTensorDescriptor_t tensor;
        cudnnFilterDescriptor_t filter;
        if (cudnnCreateTensorDescriptor(&tensor) != CUDNN_STATUS_SUCCESS) continue;
        cudnnCreateFilterDescriptor(&filter);
        cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, turn % 64 + 1, 2, 3);
        cudnnSetTensor4dDescriptor(changing, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 1, turn % 64 + 1, 2, 3);
        cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, turn % 64 + 1, 2, 3, 3);
        cudnnDestroyTensorDescriptor(tensor);
        cudnnDestroyFilterDescriptor(filter);
        cudnnDestroyFilterDescriptor(filter);
    }
    return unused;
}

static void *listen(void *count) {
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        cudnnSetCallback(CUDNN_SEV_INFO_EN, count, heard);
        cudnnSetCallback(0, NULL, NULL);
    }
    return NULL;
}

static void *compute(void *unused) {
    static float own[COUNT];
    float one = 1, zero = 0;
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
        cudnnScaleTensor(handle, desc, own, &one), cudnnTransformTensor(handle, &one, desc, own, &zero, desc, own);
    return unused;
}

/* A child ends with 0 if it is served. */
static void use_in_child(void) {
    cudnnHandle_t other;
    cudnnTensorDescriptor_t tensors[100];
    cudnnFilterDescriptor_t filter;
    float one = 1, zero = 0;
    int wrong = 0, i;
    alarm(20); /* a hang becomes a death by signal */
    for (i = 0; i < 100; i++) {
        wrong += cudnnCreateTensorDescriptor(&tensors[i]) != CUDNN_STATUS_SUCCESS;
        wrong += cudnnSetTensor4dDescriptor(tensors[i], CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, i + 1) !=
                 CUDNN_STATUS_SUCCESS;
    }
    for (i = 0; i < 100; i++) {
        size_t bytes = 0;
        wrong += cudnnGetTensorSizeInBytes(tensors[i], &bytes) != CUDNN_STATUS_SUCCESS || bytes != 4 * (size_t)(i + 1);
        wrong += cudnnDestroyTensorDescriptor(tensors[i]) != CUDNN_STATUS_SUCCESS;
        wrong += cudnnDestroyTensorDescriptor(tensors[i]) != CUDNN_STATUS_BAD_PARAM;
    }
    wrong += cudnnCreateFilterDescriptor(&filter) != CUDNN_STATUS_SUCCESS;
    wrong += cudnnDestroyFilterDescriptor(filter) != CUDNN_STATUS_SUCCESS;
    /* What a vanished thread may have left half changed is either whole or gone. */
    i = cudnnSetTensor4dDescriptor(changing, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1);
    wrong += i != CUDNN_STATUS_SUCCESS && i != CUDNN_STATUS_BAD_PARAM;
    wrong += cudnnSetCallback(0, NULL, NULL) != CUDNN_STATUS_SUCCESS;
    wrong += cudnnCreate(&other) != CUDNN_STATUS_SUCCESS;
    y[COUNT - 1] = 0;
    wrong += cudnnTransformTensor(handle, &one, desc, x, &zero, desc, y) != CUDNN_STATUS_SUCCESS;
    wrong += y[COUNT - 1] != 1;
    wrong += cudnnDestroy(other) != CUDNN_STATUS_SUCCESS;
    _exit(wrong != 0);
}

int main(void) {
    void *(*const bodies[5])(void *) = {churn, churn, churn, listen, compute};
    const time_t start = time(NULL);
    pthread_t threads[5];
    int i, heard_of = 0;
    setenv("CUDNN_SHIM_NUM_THREADS", "3", 1);
    setenv("CUDNN_LOGLEVEL_DBG", "3", 1);
    setenv("CUDNN_LOGDEST_DBG", "/dev/null", 1);
    x[COUNT - 1] = 1;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreateTensorDescriptor(&changing));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, COUNT));
    for (i = 0; i < 5; i++) CHECK(pthread_create(&threads[i], NULL, bodies[i], &heard_of) == 0);
    for (i = 0; i < CHILDREN && time(NULL) < start + SECONDS; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) use_in_child();
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(i > 10);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (i = 0; i < 5; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cudnnDestroyTensorDescriptor(changing));
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(handle));
    return check_result("fork_churn");
}
#else
int main(void) { return 0; }
#endif
