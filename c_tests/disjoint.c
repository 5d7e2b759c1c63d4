/* Slices of one buffer that share a span but no element are not copied, in a program whose memory has run out; slices that
 * share an element are, which needs more memory than the library keeps in reserve.
 *
 * Not under valgrind, which brings an allocator of its own. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "failing_memory.h"

#ifdef IS_FAILING
enum { N = 10, C = 32, SIDE = 64, PLANE = SIDE * SIDE, COUNT = N * 2 * C * PLANE };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t slice;
static cudnnActivationDescriptor_t relu;
static cudnnPoolingDescriptor_t pooling;
static cudnnOpTensorDescriptor_t sum;

static cudnnStatus_t call(int which, const float *x, float *y) {
    float one = 1, zero = 0;
    switch (which) {
    case 0: return cudnnTransformTensor(handle, &one, slice, x, &zero, slice, y);
    case 1: return cudnnActivationForward(handle, relu, &one, slice, x, &zero, slice, y);
    case 2: return cudnnActivationBackward(handle, relu, &one, slice, x, slice, x, slice, x, &zero, slice, y);
    case 3:
        return cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, slice, x, &zero,
                                   slice, y);
    case 4:
        return cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, slice, x, slice,
                                    x, &zero, slice, y);
    case 5: return cudnnPoolingForward(handle, pooling, &one, slice, x, &zero, slice, y);
    default: return cudnnOpTensor(handle, sum, &one, slice, x, &one, slice, x, &zero, slice, y);
    }
}

/* The call with memory, so that whatever is kept from call to call is there, then without. */
static cudnnStatus_t starved(int which, const float *x, float *y) {
    cudnnStatus_t status;
    OK(call(which, x, y));
    left = 0;
    status = call(which, x, y);
    left = -1;
    return status;
}

int main(void) {
    float *buffer;
    int i, which;
    setenv("CUDNN_SHIM_NUM_THREADS", "1", 1);
    buffer = (float *)malloc(COUNT * sizeof *buffer);
    CHECK(buffer != NULL);
    for (i = 0; i < COUNT; i++) buffer[i] = (float)(i % 13) - 6;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&slice));
    OK(cudnnSetTensor4dDescriptorEx(slice, CUDNN_DATA_FLOAT, N, C, SIDE, SIDE, 2 * C * PLANE, PLANE, SIDE, 1));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 3, 3, 1, 1, 1, 1));
    OK(cudnnCreateOpTensorDescriptor(&sum));
    OK(cudnnSetOpTensorDescriptor(sum, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    for (which = 0; which < 7; which++) {
        OK(starved(which, buffer, buffer + C * PLANE));
        /* A channel further back they share elements, which are overwritten before they are read. */
        EXPECT(CUDNN_STATUS_ALLOC_FAILED, starved(which, buffer, buffer + (C - 1) * PLANE));
    }
    OK(cudnnDestroyOpTensorDescriptor(sum));
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(slice));
    OK(cudnnDestroy(handle));
    free(buffer);
    return check_result("disjoint");
}
#else
int main(void) { return 0; }
#endif
