/* A panic inside the library, which builds with debug assertions make on demand: the call returns a status, the last error says what
 * happened in a sentence, standard error stays empty, and the calls that follow work. Builds for release have no such demand. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Large enough for several threads. */
enum { N = 4, C = 64, H = 56, W = 56, COUNT = N * C * H * W };

static float x[COUNT], y[COUNT];

/* The last error names the function and says what happened, where. */
static void sentence(const char *function, const char *what) {
    char text[1024];
    memset(text, CHECK_FILL, sizeof text);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strncmp(text, function, strlen(function)) == 0 && text[strlen(function)] == ':');
    CHECK(strstr(text, what) != NULL);
    CHECK(strstr(text, "CUDNN_SHIM_TEST_PANIC names ") != NULL && strstr(text, "panics.rs:") != NULL);
}

/* What a program does in which a call panics: the first setter, or a thread of the transform. */
static void work(const char *place, int panics) {
    int in_setter = panics && strcmp(place, "cudnnSetTensor4dDescriptor") == 0;
    int in_task = panics && strcmp(place, "a task") == 0;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t nchw, nhwc;
    float one = 1, zero = 0;
    int p;
    for (p = 0; p < COUNT; p++) x[p] = (float)(p % 1009);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    EXPECT(in_setter ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_SUCCESS,
           cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    if (in_setter) {
        sentence(place, place);
        OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    }
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    EXPECT(in_task ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS,
           cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y));
    if (in_task) {
        sentence("cudnnTransformTensor", "a task of the CPU core panicked");
        OK(cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y));
    }
    for (p = 0; p < H * W; p++) CHECK(y[p * C + 1] == x[H * W + p]);
    OK(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroyTensorDescriptor(nhwc));
    OK(cudnnDestroy(handle));
}

/* In a process of its own, whose standard error is a file. */
static void in_child(const char *place, int panics) {
    struct stat info;
    int status = 0, c;
    FILE *errors = tmpfile();
    pid_t child;
    if (errors == NULL) exit(2);
    child = fork();
    if (child == 0) {
        dup2(fileno(errors), 2);
        setenv("CUDNN_SHIM_TEST_PANIC", place, 1);
        setenv("CUDNN_SHIM_NUM_THREADS", "4", 1);
        work(place, panics);
        exit(check_failures != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(fstat(fileno(errors), &info) == 0 && info.st_size == 0);
    rewind(errors);
    while ((c = getc(errors)) != EOF) fputc(c, stderr);
    fclose(errors);
}

int main(void) {
    int panics = getenv("DEBUG_ASSERTIONS") != NULL;
    in_child("cudnnSetTensor4dDescriptor", panics);
    in_child("a task", panics);
    /* No place, and no panic. */
    in_child("nowhere", 0);
    return check_result("panics");
}
