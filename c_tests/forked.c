/* A handle in the midst of a call of another thread: nobody waits for that call, neither other threads nor a child.
 *
 * The call stops at a page that cannot be read until the program is done with the handle. Not under valgrind, which reports that. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { COUNT = 256 };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t desc;
static float *x, y[COUNT];
static long page;
static int arrived[2], leave[2];

/* In the calling thread: tells that it is inside, and waits. */
static void stop_here(int signal) {
    char byte = 0;
    (void)signal;
    if (write(arrived[1], &byte, 1) != 1 || read(leave[0], &byte, 1) != 1) _exit(3);
    mprotect(x, (size_t)page, PROT_READ | PROT_WRITE);
}

static void *call(void *wrong) {
    float one = 1, zero = 0;
    *(int *)wrong = cudnnTransformTensor(handle, &one, desc, x, &zero, desc, y) != CUDNN_STATUS_SUCCESS;
    return NULL;
}

/* A child ends with 0 if handles serve it. */
static void use_in_child(void) {
    cudaStream_t stream = (cudaStream_t)&page;
    float one = 1, zero = 0, from[COUNT] = {1}, to[COUNT];
    int wrong = 0;
    alarm(30); /* a hang becomes a death by signal */
    wrong += cudnnSetStream(handle, NULL) != CUDNN_STATUS_SUCCESS;
    wrong += cudnnGetStream(handle, &stream) != CUDNN_STATUS_SUCCESS || stream != NULL;
    wrong += cudnnTransformTensor(handle, &one, desc, from, &zero, desc, to) != CUDNN_STATUS_SUCCESS;
    wrong += to[0] != 1;
    wrong += cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
    wrong += cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
    wrong += cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
    _exit(wrong != 0);
}

int main(void) {
    struct sigaction action, before;
    pthread_t thread;
    pid_t child;
    int wrong = 0, status = -1;
    char byte = 0;
    alarm(120);
    page = sysconf(_SC_PAGESIZE);
    x = (float *)mmap(NULL, (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(x != MAP_FAILED && pipe(arrived) == 0 && pipe(leave) == 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = stop_here;
    CHECK(sigaction(SIGSEGV, &action, &before) == 0);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, COUNT));
    CHECK(pthread_create(&thread, NULL, call, &wrong) == 0);
    CHECK(read(arrived[0], &byte, 1) == 1);

    child = fork();
    if (child == 0) use_in_child();
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(cudnnSetStream(handle, NULL));
    OK(cudnnDestroy(handle));
    BAD(cudnnSetStream(handle, NULL));

    CHECK(write(leave[1], &byte, 1) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(wrong == 0 && y[0] == 0);
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    OK(cudnnDestroyTensorDescriptor(desc));
    munmap(x, (size_t)page);
    return check_result("forked");
}
