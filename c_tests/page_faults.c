/* A program that makes memory accessible when it is first touched, in a handler of SIGSEGV: on every thread of a call. No thread
 * blocks a signal that says what it did itself.
 *
 * Not under valgrind, which reports every touch. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { N = 64, C = 32, H = 56, W = 56, COUNT = N * C * H * W };

static char *lazy;
static size_t lazy_size;
static long piece;
static volatile sig_atomic_t faults;

static void grant(int signal, siginfo_t *info, void *context) {
    size_t offset = (size_t)((char *)info->si_addr - lazy) / (size_t)piece * (size_t)piece;
    (void)signal;
    (void)context;
    if (offset >= lazy_size) _exit(3);
    faults++;
    mprotect(lazy + offset, (size_t)piece, PROT_READ | PROT_WRITE);
}

#if defined(__linux__)
/* The threads of the process; each must let through what is raised by its own instructions. */
static int threads_that_let_signals_through(void) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    int threads = 0;
    CHECK(tasks != NULL);
    while (tasks != NULL && (task = readdir(tasks)) != NULL) {
        char path[300], line[256];
        unsigned long long blocked = 0;
        int found = 0;
        unsigned i;
        FILE *status;
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        status = fopen(path, "r");
        CHECK(status != NULL);
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            found += sscanf(line, "SigBlk: %llx", &blocked) == 1;
        if (status != NULL) fclose(status);
        CHECK(found == 1);
        for (i = 0; i < sizeof signals / sizeof *signals; i++) CHECK((blocked >> (signals[i] - 1) & 1) == 0);
        threads++;
    }
    if (tasks != NULL) closedir(tasks);
    return threads;
}
#endif

int main(void) {
    struct sigaction action, before;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t nchw, nhwc;
    float one = 1, zero = 0, *x, *y;
    int n, c, p, wrong = 0, i;
    setenv("CUDNN_SHIM_NUM_THREADS", "4", 1);
    alarm(240);
    piece = 64 * sysconf(_SC_PAGESIZE);
    lazy_size = (COUNT * sizeof *y + (size_t)piece - 1) / (size_t)piece * (size_t)piece;
    x = (float *)malloc(COUNT * sizeof *x);
    lazy = (char *)mmap(NULL, lazy_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    y = (float *)(void *)lazy;
    CHECK(x != NULL && lazy != MAP_FAILED);
    for (i = 0; i < COUNT; i++) x[i] = (float)(i % 9973);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = grant;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &action, &before) == 0);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y));
    CHECK(faults > 0);
#if defined(__linux__)
    CHECK(threads_that_let_signals_through() >= 4);
#endif
    for (n = 0; n < N; n++)
        for (c = 0; c < C; c++)
            for (p = 0; p < H * W; p++) wrong += y[(n * H * W + p) * C + c] != x[(n * C + c) * H * W + p];
    CHECK(wrong == 0);
    CHECK(sigaction(SIGSEGV, &before, NULL) == 0);
    OK(cudnnDestroy(handle));
    OK(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroyTensorDescriptor(nhwc));
    munmap(lazy, lazy_size);
    free(x);
    return check_result("page_faults");
}
