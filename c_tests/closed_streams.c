/* A program without standard streams, as daemons are: files that it opens get the numbers 0 to 2, and the library writes nothing
 * to them, neither for calls that fail nor for large ones that start threads. */
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

enum { N = 4, C = 64, H = 56, W = 56, COUNT = N * C * H * W, FILES = 3 };

static void work(void) {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t nchw, nhwc;
    float one = 1, zero = 0, *x = (float *)malloc(COUNT * sizeof *x), *y = (float *)malloc(COUNT * sizeof *y);
    size_t at;
    int p;
    CHECK(x != NULL && y != NULL);
    for (at = 0; at < COUNT; at++) x[at] = (float)(at % 1009);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y));
    for (p = 0; p < H * W; p++) CHECK(y[p * C + 1] == x[H * W + p]);
    BAD(cudnnTransformTensor(handle, &one, nchw, NULL, &zero, nhwc, y));
    BAD(cudnnTransformTensor(NULL, &one, nchw, x, &zero, nhwc, y));
    BAD(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, -1, C, H, W));
    OK(cudnnDestroyTensorDescriptor(nchw));
    BAD(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroyTensorDescriptor(nhwc));
    OK(cudnnDestroy(handle));
    free(x);
    free(y);
}

int main(void) {
    struct stat info;
    int k, spoken = dup(2);
    for (k = 0; k < FILES; k++) close(k);
    for (k = 0; k < FILES; k++) {
        FILE *file = tmpfile();
        if (file == NULL || fileno(file) != k) return 2;
    }
    work();
    /* What the checks above had to say is in the third file. */
    for (k = 0; k < FILES; k++) {
        int silent = fstat(k, &info) == 0 && info.st_size == 0;
        if (!silent) {
            dprintf(spoken, "the file that has number %d was written to, or a check failed: %d\n", k, check_failures);
            return 1;
        }
    }
    return check_failures != 0;
}
