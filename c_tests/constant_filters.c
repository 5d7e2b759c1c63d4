/* Filters that a program leaves as they are stay packed: the same bits by every algorithm number and in both layouts, within the limit, until
 * they are forgotten; a changed filter is found with CUDNN_SHIM_CHECK=1. Expectations are the calls of a handle that keeps none. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <cudnn_shim.h>
#include <stdlib.h>

enum { IMAGES = 2, CHANNELS = 48, FILTERS = 40, SIDE = 14, ALGORITHMS = 8 };
/* Where processors with tiles multiply in parts. */
enum { MANY_CHANNELS = 64, MANY_FILTERS = 130 };
enum { IN = IMAGES * CHANNELS * SIDE * SIDE, OUT = MANY_FILTERS * SIDE * SIDE, W = MANY_FILTERS * MANY_CHANNELS * 9 };

static cudnnHandle_t plain, keeping;
static cudnnTensorDescriptor_t x, y;
static cudnnFilterDescriptor_t w;
static cudnnConvolutionDescriptor_t conv;
static float in[IN], weights[W], out[OUT], expected[OUT];
static char workspace[64 << 20];

static size_t kept(void) {
    size_t bytes = 1;
    OK(cudnnShimGetConstantFilters(keeping, &bytes));
    return bytes;
}

static void fill(float *numbers, size_t count, unsigned seed) {
    size_t i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
}

/* Forward, or the gradient of the data, whose filter is the same memory. */
static cudnnStatus_t run(cudnnHandle_t handle, int backward, int algorithm, float *to) {
    const float one = 1, zero = 0;
    if (backward)
        return cudnnConvolutionBackwardData(handle, &one, w, weights, x, in, conv, (cudnnConvolutionBwdDataAlgo_t)algorithm,
                                            workspace, sizeof workspace, &zero, y, to);
    return cudnnConvolutionForward(handle, &one, x, in, w, weights, conv, (cudnnConvolutionFwdAlgo_t)algorithm, workspace,
                                   sizeof workspace, &zero, y, to);
}

/* The handle that keeps filters has the bits and the status of the one that does not, when it packs and when it has packed. */
static void compare(int backward, int algorithm) {
    cudnnStatus_t status;
    int round;
    memset(expected, 0, sizeof expected);
    status = run(plain, backward, algorithm, expected);
    for (round = 0; round < 3; round++) {
        memset(out, 0, sizeof out);
        EXPECT(status, run(keeping, backward, algorithm, out));
        if (status == CUDNN_STATUS_SUCCESS) CHECK(memcmp(out, expected, sizeof out) == 0);
    }
}

static void set_up(cudnnTensorFormat_t format, int backward, int taps) {
    OK(cudnnSetTensor4dDescriptor(x, format, CUDNN_DATA_FLOAT, IMAGES, CHANNELS, SIDE, SIDE));
    OK(cudnnSetTensor4dDescriptor(y, format, CUDNN_DATA_FLOAT, IMAGES, FILTERS, SIDE, SIDE));
    if (backward)
        OK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, format, CHANNELS, FILTERS, taps, taps));
    else
        OK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, format, FILTERS, CHANNELS, taps, taps));
    OK(cudnnSetConvolution2dDescriptor(conv, taps / 2, taps / 2, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
}

static void bits(void) {
    const cudnnTensorFormat_t formats[] = { CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC };
    const cudnnMathType_t math[] = { CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION };
    int format, backward, taps, type, algorithm;
    for (format = 0; format < 2; format++)
        for (backward = 0; backward < 2; backward++)
            for (taps = 1; taps <= 3; taps += 2)
                for (type = 0; type < 3; type++) {
                    size_t before;
                    set_up(formats[format], backward, taps);
                    OK(cudnnSetConvolutionMathType(conv, math[type]));
                    OK(cudnnShimForgetFilters(keeping));
                    CHECK(kept() == 0);
                    for (algorithm = 0; algorithm < (backward ? 6 : ALGORITHMS); algorithm++) compare(backward, algorithm);
                    before = kept();
                    compare(backward, 0);
                    CHECK(kept() == before && before <= 8u << 20);
                }
    CHECK(kept() > 0);
}

static void many(void) {
    OK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, MANY_CHANNELS, SIDE, SIDE));
    OK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, MANY_FILTERS, SIDE, SIDE));
    OK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, MANY_FILTERS, MANY_CHANNELS, 3, 3));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(cudnnSetConvolutionMathType(conv, CUDNN_DEFAULT_MATH));
    OK(cudnnShimForgetFilters(keeping));
    compare(0, 0);
    CHECK(kept() > 0);
}

/* Another filter in the same memory, and another one of other dims. */
static void changes(void) {
    float old;
    set_up(CUDNN_TENSOR_NHWC, 0, 1);
    OK(cudnnShimForgetFilters(keeping));
    compare(0, 0);
    CHECK(kept() > 0);
    old = weights[17];
    weights[17] = old + 1;
    memset(out, 0, sizeof out);
    memset(expected, 0, sizeof expected);
    EXPECT(CUDNN_STATUS_BAD_PARAM, run(keeping, 0, 0, out));
    CHECK(memcmp(out, expected, sizeof out) == 0);
    OK(cudnnShimForgetFilters(keeping));
    compare(0, 0);
    weights[17] = old;
    EXPECT(CUDNN_STATUS_BAD_PARAM, run(keeping, 0, 0, out));
    OK(cudnnShimSetConstantFilters(keeping, 8 << 20));
    compare(0, 0);
    set_up(CUDNN_TENSOR_NHWC, 0, 3);
    compare(0, 0);
    /* Where measurements copy, they leave nothing. */
    OK(cudnnShimForgetFilters(keeping));
    {
        cudnnConvolutionFwdAlgoPerf_t found[ALGORITHMS];
        int count;
        OK(cudnnFindConvolutionForwardAlgorithm(keeping, x, w, conv, y, ALGORITHMS, &count, found));
        CHECK(kept() == 0);
    }
}

static void limits(void) {
    size_t all;
    set_up(CUDNN_TENSOR_NHWC, 0, 1);
    OK(cudnnShimSetConstantFilters(keeping, 8 << 20));
    compare(0, 0);
    all = kept();
    CHECK(all > 0);
    OK(cudnnShimSetConstantFilters(keeping, all - 1));
    compare(0, 0);
    CHECK(kept() == 0);
    OK(cudnnShimSetConstantFilters(keeping, all));
    compare(0, 0);
    CHECK(kept() == all);
    OK(cudnnShimSetConstantFilters(keeping, 0));
    CHECK(kept() == 0);
    compare(0, 0);
    CHECK(kept() == 0);
    OK(cudnnShimForgetFilters(keeping));
    compare(0, 0);
    CHECK(kept() == 0);
    EXPECT(CUDNN_STATUS_BAD_PARAM, cudnnShimSetConstantFilters(NULL, 1));
    EXPECT(CUDNN_STATUS_BAD_PARAM, cudnnShimForgetFilters(NULL));
    EXPECT(CUDNN_STATUS_BAD_PARAM, cudnnShimGetConstantFilters(NULL, &all));
    EXPECT(CUDNN_STATUS_BAD_PARAM, cudnnShimGetConstantFilters(keeping, NULL));
}

int main(void) {
    setenv("CUDNN_SHIM_CHECK", "1", 1);
    OK(cudnnCreate(&plain));
    setenv("CUDNN_SHIM_CONSTANT_FILTERS", "8388608", 1);
    OK(cudnnCreate(&keeping));
    OK(cudnnCreateTensorDescriptor(&x));
    OK(cudnnCreateTensorDescriptor(&y));
    OK(cudnnCreateFilterDescriptor(&w));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    fill(in, IN, 1);
    fill(weights, W, 2);
    bits();
    many();
    changes();
    limits();
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w));
    OK(cudnnDestroyTensorDescriptor(y));
    OK(cudnnDestroyTensorDescriptor(x));
    OK(cudnnDestroy(keeping));
    OK(cudnnDestroy(plain));
    return check_result("constant_filters");
}
