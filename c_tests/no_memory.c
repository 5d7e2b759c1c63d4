/* Memory that runs out inside a call: it says so, and has written nothing.
 *
 * Every allocation of a call fails once, by an allocator of the program's own. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "failing_memory.h"

#ifdef IS_FAILING
enum { CALLS = 13 };
enum { N = 16, C = 64, H = 40, W = 44, COUNT = N * C * H * W };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t nchw, nhwc, half, channels, sum, pooled;
static cudnnPoolingDescriptor_t pooling;
static cudnnActivationDescriptor_t relu;
static cudnnReduceTensorDescriptor_t add, max;
static cudnnOpTensorDescriptor_t product;
static float *x, *y, *want;
static unsigned *indices;

static cudnnStatus_t call(int which) {
    float one = 1, zero = 0;
    switch (which) {
    case 0: return cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y);
    case 1: return cudnnTransformTensor(handle, &one, nchw, x, &zero, half, y);
    case 2: return cudnnTransformTensor(handle, &one, half, x, &zero, nchw, y);
    case 3: return cudnnReduceTensor(handle, add, NULL, 0, NULL, 0, &one, nchw, x, &zero, channels, y);
    case 4: return cudnnReduceTensor(handle, add, NULL, 0, NULL, 0, &one, nhwc, x, &zero, channels, y);
    case 5: return cudnnReduceTensor(handle, max, indices, 4 * C, NULL, 0, &one, nchw, x, &zero, sum, y);
    case 6: return cudnnOpTensor(handle, product, &one, nchw, x, &one, channels, x, &zero, half, y);
    case 7: return cudnnPoolingForward(handle, pooling, &one, nchw, x, &zero, pooled, y);
    case 8: return cudnnPoolingBackward(handle, pooling, &one, pooled, x, pooled, x, nchw, x, &zero, nchw, y);
    case 9:
        return cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, nchw, x, &zero, nchw,
                                   y);
    case 10:
        return cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, nhwc, x, nhwc, x,
                                    &zero, nhwc, y);
    case 11: return cudnnActivationForward(handle, relu, &one, nchw, x, &zero, nchw, y);
    case 12: return cudnnActivationBackward(handle, relu, &one, nhwc, x, nhwc, x, nhwc, x, &zero, nhwc, y);
    default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

static void exhausted(int which) {
    long n;
    int succeeded = 0;
    /* With memory: what is wanted, and the threads begin. */
    memset(want, 0xff, COUNT * sizeof *want);
    memset(y, 0xff, COUNT * sizeof *y);
    OK(call(which));
    memcpy(want, y, COUNT * sizeof *want);
    for (n = 0; n < 64 && !succeeded; n++) {
        cudnnStatus_t status;
        memset(y, 0xff, COUNT * sizeof *y);
        failed = 0;
        left = n;
        status = call(which);
        left = -1;
        if (status == CUDNN_STATUS_SUCCESS) {
            /* It did without, or needed no more. */
            CHECK(memcmp(y, want, COUNT * sizeof *y) == 0);
            succeeded = !failed;
        } else {
            const unsigned char *bytes = (const unsigned char *)y;
            size_t i, touched = 0;
            CHECK(status == CUDNN_STATUS_ALLOC_FAILED);
            for (i = 0; i < COUNT * sizeof *y; i++) touched += bytes[i] != 0xff;
            CHECK(touched == 0);
        }
    }
    CHECK(succeeded);
}

/* In a thread of its own, for the first call of a thread takes the memory that it keeps. */
static void *first_calls(void *which) {
    exhausted(*(int *)which);
    return NULL;
}

#include <pthread.h>

int main(void) {
    pthread_t thread;
    int which, i;
    setenv("CUDNN_SHIM_NUM_THREADS", "3", 1);
    x = (float *)malloc(COUNT * sizeof *x);
    y = (float *)malloc(COUNT * sizeof *y);
    want = (float *)malloc(COUNT * sizeof *want);
    indices = (unsigned *)malloc(4 * C);
    CHECK(x != NULL && y != NULL && want != NULL && indices != NULL);
    for (i = 0; i < COUNT; i++) x[i] = (float)(i % 251) - 100;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&nchw));
    OK(cudnnCreateTensorDescriptor(&nhwc));
    OK(cudnnCreateTensorDescriptor(&half));
    OK(cudnnCreateTensorDescriptor(&channels));
    OK(cudnnCreateTensorDescriptor(&sum));
    OK(cudnnCreateTensorDescriptor(&pooled));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetTensor4dDescriptor(pooled, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H / 2, W / 2));
    OK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    OK(cudnnCreateReduceTensorDescriptor(&add));
    OK(cudnnCreateReduceTensorDescriptor(&max));
    OK(cudnnCreateOpTensorDescriptor(&product));
    OK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(half, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, C, 1, 1));
    OK(cudnnSetTensor4dDescriptor(sum, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    OK(cudnnSetReduceTensorDescriptor(add, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnSetReduceTensorDescriptor(max, CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnSetOpTensorDescriptor(product, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
    /* The threads begin. */
    OK(call(0));
    for (which = 0; which < CALLS; which++) {
        CHECK(pthread_create(&thread, NULL, first_calls, &which) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyTensorDescriptor(pooled));
    OK(cudnnDestroyTensorDescriptor(nchw));
    OK(cudnnDestroyTensorDescriptor(nhwc));
    OK(cudnnDestroyTensorDescriptor(half));
    OK(cudnnDestroyTensorDescriptor(channels));
    OK(cudnnDestroyTensorDescriptor(sum));
    OK(cudnnDestroyReduceTensorDescriptor(add));
    OK(cudnnDestroyReduceTensorDescriptor(max));
    OK(cudnnDestroyOpTensorDescriptor(product));
    OK(cudnnDestroy(handle));
    free(x);
    free(y);
    free(want);
    free(indices);
    return check_result("no_memory");
}
#else
int main(void) { return 0; }
#endif
