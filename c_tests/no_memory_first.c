/* Memory that runs out in the first call of a process that has several threads: each allocation fails once, in a child of its
 * own, whose threads begin in this very call. It ends with a status; without room for threads it computes with its own.
 *
 * Not under valgrind, which brings an allocator of its own. */
#define _DEFAULT_SOURCE
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "failing_memory.h"

#ifdef IS_FAILING
enum { COUNT = 1 << 20, MOST = 40 };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t nchw, nhwc;
static float x[COUNT], y[COUNT];

static int is_moved(void) {
    int c, s;
    for (c = 0; c < 64; c++)
        for (s = 0; s < COUNT / 64; s += 127)
            if (y[s * 64 + c] != x[c * (COUNT / 64) + s]) return 0;
    return 1;
}

/* Ends with 0: done, all allocations served; 1: done without one of them; 2: refused. */
static void call(long n) {
    float one = 1, zero = 0;
    cudnnStatus_t status;
    alarm(30);
    failed = 0, left = n;
    status = cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y);
    left = -1;
    if (status == CUDNN_STATUS_SUCCESS && is_moved()) _exit(failed ? 1 : 0);
    _exit(status == CUDNN_STATUS_ALLOC_FAILED ? 2 : 3);
}

static long pages(void) {
    long size = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%ld", &size) != 1) size = 0;
        fclose(file);
    }
    return size;
}

int main(void) {
    long n;
    int status = -1, i, served = 0;
    pid_t child;
    setenv("CUDNN_SHIM_NUM_THREADS", "3", 1);
    for (i = 0; i < COUNT; i++) x[i] = (float)i;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 64, 128, 128));
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 64, 128, 128));
    for (n = 0; n < MOST && !served; n++) {
        child = fork();
        if (child == 0) call(n);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 3);
        served = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    CHECK(served && n > 1);
    /* No address space for the stack of a thread. */
    child = fork();
    if (child == 0) {
        struct rlimit limit;
        limit.rlim_cur = limit.rlim_max = (rlim_t)(pages() * sysconf(_SC_PAGESIZE)) + (300 << 10);
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(4);
        call(-1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(cudnnDestroyTensorDescriptor(nhwc));
    OK(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroy(handle));
    return check_result("no_memory_first");
}
#else
int main(void) { return 0; }
#endif
