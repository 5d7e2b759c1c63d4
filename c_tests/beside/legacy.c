/* Legacy calls that the original serves as graphs: who served each, and the results, a line each. */
#include "check_beside.h"

static cudnnHandle_t handle;
static const float one = 1, zero = 0, half = 0.5f, two = 2;

#define SERVED(name, arguments)                                                                                        \
    do {                                                                                                               \
        OK(name arguments);                                                                                            \
        printf("served %s %s\n", #name, by_original() ? "original" : "ours");                                          \
    } while (0)

/* A call that no graph expresses: ours, if legacy calls go as graphs. */
#define LEFT(call)                                                                                                     \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        if (getenv("AS_GRAPHS") != NULL) CHECK(!by_original());                                                        \
    } while (0)

static void show(const char *name, const float *values, int count) {
    int i;
    printf("result %s", name);
    for (i = 0; i < count; ++i) printf(" %.6g", values[i]);
    printf("\n");
}

enum { N = 2, C = 4, H = 6, W = 5, K = 6, SIZE = N * C * H * W, MOST = N * K * H * W };

#define ALIGNED __attribute__((aligned(64)))
static float x[MOST] ALIGNED, y[MOST] ALIGNED, dx[MOST] ALIGNED, dy[MOST] ALIGNED, w[K * C * 9] ALIGNED;

static void fill(float *values, int count, int period) {
    int i;
    for (i = 0; i < count; ++i) values[i] = (float)((i * 7) % period) / 4 - 1;
}

static cudnnTensorDescriptor_t tensor(cudnnTensorFormat_t format, int n, int c, int h, int v) {
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, format, CUDNN_DATA_FLOAT, n, c, h, v));
    return desc;
}

static void convolutions(cudnnTensorFormat_t format, int groups, int stride, cudnnConvolutionMode_t mode) {
    int h = (H - 1) / stride + 1, v = (W - 1) / stride + 1, results = N * K * h * v, filters = K * C / groups * 9;
    cudnnTensorDescriptor_t x_desc = tensor(format, N, C, H, W), y_desc = tensor(format, N, K, h, v);
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    size_t size = 0;
    void *room;
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, format, K, C / groups, 3, 3));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, stride, stride, 1, 1, mode, CUDNN_DATA_FLOAT));
    OK(cudnnSetConvolutionGroupCount(conv, groups));
    fill(x, SIZE, 11), fill(w, filters, 5), fill(y, results, 3);
    OK(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv, y_desc, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &size));
    room = guarded_alloc(size);
    SERVED(cudnnConvolutionForward, (handle, &two, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, room, size, &half, y_desc,
                                     y));
    /* Again, by the plan that is known. */
    fill(y, results, 3);
    SERVED(cudnnConvolutionForward, (handle, &two, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, room, size, &half, y_desc,
                                     y));
    guarded_free(room, size);
    show("forward", y, results);
    fill(dy, results, 7);
    OK(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w_desc, y_desc, conv, x_desc, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &size));
    room = guarded_alloc(size);
    SERVED(cudnnConvolutionBackwardData, (handle, &one, w_desc, w, y_desc, dy, conv, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, room, size, &zero,
                                          x_desc, dx));
    guarded_free(room, size);
    show("data", dx, SIZE);
    OK(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x_desc, y_desc, conv, w_desc, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &size));
    room = guarded_alloc(size);
    SERVED(cudnnConvolutionBackwardFilter, (handle, &one, x_desc, x, y_desc, dy, conv, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, room, size,
                                            &zero, w_desc, w));
    guarded_free(room, size);
    show("filter", w, filters);
    /* FMA math is no attribute of a graph: ours. */
    OK(cudnnSetConvolutionMathType(conv, CUDNN_FMA_MATH));
    LEFT(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, NULL, 0, &zero, y_desc, y));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
}

static void poolings(cudnnTensorFormat_t format, cudnnPoolingMode_t mode) {
    cudnnTensorDescriptor_t x_desc = tensor(format, N, C, H, W), y_desc = tensor(format, N, C, 3, 3);
    cudnnPoolingDescriptor_t pooling;
    int i;
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_NOT_PROPAGATE_NAN, 3, 3, 1, 1, 2, 2));
    for (i = 0; i < SIZE; ++i) x[i] = (float)((i * 53) % 241) / 16 - 4;
    fill(y, SIZE, 3), fill(dy, N * C * 9, 7), fill(dx, SIZE, 3);
    SERVED(cudnnPoolingForward, (handle, pooling, &one, x_desc, x, &zero, y_desc, y));
    show("pooled", y, N * C * 9);
    SERVED(cudnnPoolingBackward, (handle, pooling, &two, y_desc, y, y_desc, dy, x_desc, x, &half, x_desc, dx));
    show("unpooled", dx, SIZE);
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyTensorDescriptor(x_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
}

static void activations(cudnnActivationMode_t mode) {
    cudnnTensorDescriptor_t desc = tensor(CUDNN_TENSOR_NHWC, N, C, H, W);
    cudnnActivationDescriptor_t function;
    OK(cudnnCreateActivationDescriptor(&function));
    OK(cudnnSetActivationDescriptor(function, mode, CUDNN_PROPAGATE_NAN, 0.75));
    OK(cudnnSetActivationDescriptorSwishBeta(function, 1.5));
    fill(x, SIZE, 11), fill(dy, SIZE, 7);
    SERVED(cudnnActivationForward, (handle, function, &one, desc, x, &zero, desc, y));
    show("function", y, SIZE);
    OK(cudnnActivationBackward(handle, function, &one, desc, y, desc, dy, desc, x, &zero, desc, dx));
    /* The identity has no gradient of its own in graphs. */
    if (mode != CUDNN_ACTIVATION_IDENTITY) printf("served cudnnActivationBackward %s\n", by_original() ? "original" : "ours");
    show("slope", dx, SIZE);
    /* Factors are none of a pointwise operation: ours. */
    LEFT(cudnnActivationForward(handle, function, &two, desc, x, &zero, desc, y));
    OK(cudnnDestroyActivationDescriptor(function));
    OK(cudnnDestroyTensorDescriptor(desc));
}

static void normalisations(cudnnTensorFormat_t format) {
    cudnnTensorDescriptor_t desc = tensor(format, N, C, H, W), of = tensor(format, 1, C, 1, 1);
    float scale[C] ALIGNED = {1, 2, -1, 0.5f}, bias[C] ALIGNED = {0, 1, 0.5f, -1}, run_mean[C] ALIGNED = {0.5f, 0, 1, 2};
    float run_variance[C] ALIGNED = {1, 2, 1, 1}, mean[C] ALIGNED, inverse[C] ALIGNED, d_scale[C] ALIGNED, d_bias[C] ALIGNED;
    fill(x, SIZE, 11), fill(dy, SIZE, 7);
    SERVED(cudnnBatchNormalizationForwardTraining, (handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, desc, x, desc, y, of, scale, bias, 0.25,
                                                    run_mean, run_variance, 1e-3, mean, inverse));
    show("normal", y, SIZE);
    show("means", run_mean, C), show("variances", run_variance, C), show("mean", mean, C), show("inverse", inverse, C);
    SERVED(cudnnBatchNormalizationBackward, (handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, desc, x, desc, dy, desc, dx, of,
                                             scale, d_scale, d_bias, 1e-3, mean, inverse));
    show("gradient", dx, SIZE), show("scales", d_scale, C), show("biases", d_bias, C);
    SERVED(cudnnBatchNormalizationForwardInference, (handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, desc, x, desc, y, of, scale, bias,
                                                     run_mean, run_variance, 1e-3));
    show("inferred", y, SIZE);
    /* Without running statistics; and without saved ones, which no graph leaves out: ours. */
    SERVED(cudnnBatchNormalizationForwardTraining, (handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, desc, x, desc, y, of, scale, bias, 0.25,
                                                    NULL, NULL, 1e-3, mean, inverse));
    show("normal", y, SIZE);
    LEFT(cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, desc, x, desc, y, of, scale, bias, 0.25,
                                                 run_mean, run_variance, 1e-3, NULL, NULL));
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroyTensorDescriptor(of));
}

int main(void) {
    int mode;
    OK(cudnnShimRecordPlans(1));
    OK(cudnnCreate(&handle));
    convolutions(CUDNN_TENSOR_NCHW, 1, 1, CUDNN_CROSS_CORRELATION);
    convolutions(CUDNN_TENSOR_NHWC, 1, 2, CUDNN_CROSS_CORRELATION);
    convolutions(CUDNN_TENSOR_NCHW, 2, 1, CUDNN_CONVOLUTION);
    for (mode = CUDNN_POOLING_MAX; mode <= CUDNN_POOLING_MAX_DETERMINISTIC; ++mode) {
        poolings(mode % 2 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, (cudnnPoolingMode_t)mode);
    }
    for (mode = CUDNN_ACTIVATION_SIGMOID; mode <= CUDNN_ACTIVATION_SWISH; ++mode) activations((cudnnActivationMode_t)mode);
    normalisations(CUDNN_TENSOR_NCHW);
    normalisations(CUDNN_TENSOR_NHWC);
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
