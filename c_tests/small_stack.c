/* Calls on a stack of 32 KiB, large ones and small ones of every way through the CPU core.
 *
 * Not under valgrind, which takes minutes for them. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "sanitized.h"

/* Sanitizers need more for themselves. */
enum { STACK = IS_SANITIZED ? 256 << 10 : 32 << 10, TENSORS = 6, BYTES = 48 << 20 };

static cudnnHandle_t handle;
static char *x, *y, *workspace;
static int failures;

static void count(cudnnStatus_t status) { failures += status != CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_NOT_SUPPORTED; }

static cudnnTensorDescriptor_t tensor(cudnnDataType_t type, const int *dims, int form) {
    cudnnTensorDescriptor_t desc;
    count(cudnnCreateTensorDescriptor(&desc));
    if (form == 0) count(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, type, dims[0], dims[1], dims[2], dims[3]));
    if (form == 1) count(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NHWC, type, dims[0], dims[1], dims[2], dims[3]));
    if (form == 2) { /* Gaps between all elements. */
        int c = 2 * dims[2] * dims[3] + 2;
        count(cudnnSetTensor4dDescriptorEx(desc, type, dims[0], dims[1], dims[2], dims[3], dims[1] * c, c, 2 * dims[3], 2));
    }
    return desc;
}

static void transforms(void) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_INT8, CUDNN_DATA_DOUBLE,
                                            CUDNN_DATA_BFLOAT16, CUDNN_DATA_UINT8};
    static const int shapes[][4] = {{2, 3, 40, 40},   {2, 64, 28, 28}, {1, 7, 5, 3},    {4, 12, 33, 17},
                                    {1, 256, 16, 16}, {1, 1, 1, 1},    {3, 5, 100, 64}, {1, 3, 700, 700}};
    static const double scales[][2] = {{1, 0}, {2, 0}, {1, 0.5}};
    unsigned shape, from, to, scale;
    int forms;
    for (shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
        for (from = 0; from < TENSORS; from++)
            for (to = 0; to < TENSORS; to++)
                for (forms = 0; forms < 9; forms++)
                    for (scale = 0; scale < 3; scale++) {
                        cudnnTensorDescriptor_t a, b;
                        float f[2];
                        const void *alpha = &f[0], *beta = &f[1];
                        if (shapes[shape][3] >= 64 && (from + to) % 3 != 0) continue;
                        f[0] = (float)scales[scale][0];
                        f[1] = (float)scales[scale][1];
                        a = tensor(types[from], shapes[shape], forms % 3);
                        b = tensor(types[to], shapes[shape], forms / 3);
                        if (types[to] == CUDNN_DATA_DOUBLE) {
                            alpha = &scales[scale][0];
                            beta = &scales[scale][1];
                        }
                        count(cudnnTransformTensor(handle, alpha, a, x, beta, b, y));
                        if (forms == 0 && from == to) {
                            /* Elements that repeat. */
                            static const int one[4] = {1, 1, 1, 1};
                            cudnnTensorDescriptor_t single = tensor(types[from], one, 0);
                            count(cudnnAddTensor(handle, alpha, single, x, beta, b, y));
                            count(cudnnSetTensor(handle, b, y, x));
                            count(cudnnDestroyTensorDescriptor(single));
                        }
                        count(cudnnDestroyTensorDescriptor(a));
                        count(cudnnDestroyTensorDescriptor(b));
                    }
}

/* Past the caches, and into blocks with a tail. */
static void large(void) {
    static const int dims[4] = {2, 30, 256, 250};
    cudnnTensorDescriptor_t nchw = tensor(CUDNN_DATA_FLOAT, dims, 0), nhwc = tensor(CUDNN_DATA_FLOAT, dims, 1);
    cudnnTensorDescriptor_t half = tensor(CUDNN_DATA_HALF, dims, 1), bytes = tensor(CUDNN_DATA_INT8, dims, 1), vector;
    float one = 1, zero = 0;
    count(cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y));
    count(cudnnTransformTensor(handle, &one, nhwc, x, &zero, nchw, y));
    count(cudnnTransformTensor(handle, &one, nchw, x, &zero, half, y));
    count(cudnnTransformTensor(handle, &one, half, x, &zero, nchw, y));
    count(cudnnTransformTensor(handle, &one, nchw, x, &one, bytes, y));
    count(cudnnCreateTensorDescriptor(&vector));
    count(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, 2, 32, 256, 250));
    count(cudnnTransformTensor(handle, &one, vector, x, &zero, vector, y));
    count(cudnnDestroyTensorDescriptor(nchw));
    count(cudnnDestroyTensorDescriptor(nhwc));
    count(cudnnDestroyTensorDescriptor(half));
    count(cudnnDestroyTensorDescriptor(bytes));
    count(cudnnDestroyTensorDescriptor(vector));
}

static void padded(void) {
    cudnnTensorTransformDescriptor_t pad;
    static const int before[4] = {0, 0, 1, 2}, after[4] = {0, 1, 0, 3}, dims[4] = {2, 3, 30, 30};
    static const uint32_t fold[2] = {2, 2};
    cudnnTensorDescriptor_t from = tensor(CUDNN_DATA_FLOAT, dims, 0), to = tensor(CUDNN_DATA_FLOAT, dims, 0);
    size_t size;
    float one = 1, zero = 0;
    count(cudnnCreateTensorTransformDescriptor(&pad));
    count(cudnnSetTensorTransformDescriptor(pad, 4, CUDNN_TENSOR_NHWC, before, after, fold, CUDNN_TRANSFORM_FOLD));
    count(cudnnInitTransformDest(pad, from, to, &size));
    count(cudnnTransformTensorEx(handle, pad, &one, from, x, &zero, to, y));
    count(cudnnDestroyTensorTransformDescriptor(pad));
    count(cudnnDestroyTensorDescriptor(from));
    count(cudnnDestroyTensorDescriptor(to));
}

static void arithmetic(void) {
    static const int dims[][4] = {{4, 33, 20, 21}, {8, 64, 56, 56}, {1, 3, 2, 5}}, sums[][4] = {{1, 33, 1, 1}, {8, 1, 1, 1}, {1, 1, 1, 1}};
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_DOUBLE};
    unsigned shape, type;
    int op, form;
    cudnnOpTensorDescriptor_t binary;
    cudnnReduceTensorDescriptor_t reduce;
    count(cudnnCreateOpTensorDescriptor(&binary));
    count(cudnnCreateReduceTensorDescriptor(&reduce));
    for (shape = 0; shape < 3; shape++)
        for (type = 0; type < 3; type++)
            for (form = 0; form < 3; form++) {
                cudnnDataType_t compute = types[type] == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
                cudnnTensorDescriptor_t a = tensor(types[type], dims[shape], form), c = tensor(types[type], sums[shape], 0);
                double one = 1, zero = 0;
                float one_float = 1, zero_float = 0;
                const void *alpha = type == 2 ? (void *)&one : (void *)&one_float;
                const void *beta = type == 2 ? (void *)&zero : (void *)&zero_float;
                for (op = CUDNN_OP_TENSOR_ADD; op <= CUDNN_OP_TENSOR_MAX; op++) {
                    count(cudnnSetOpTensorDescriptor(binary, (cudnnOpTensorOp_t)op, compute, CUDNN_NOT_PROPAGATE_NAN));
                    count(cudnnOpTensor(handle, binary, alpha, a, x, alpha, a, x, beta, a, y));
                    count(cudnnOpTensor(handle, binary, alpha, a, x, alpha, a, x, alpha, a, y));
                }
                for (op = CUDNN_REDUCE_TENSOR_ADD; op <= CUDNN_REDUCE_TENSOR_NORM2; op++) {
                    int with_indices = op == CUDNN_REDUCE_TENSOR_MIN || op == CUDNN_REDUCE_TENSOR_MAX;
                    count(cudnnSetReduceTensorDescriptor(reduce, (cudnnReduceTensorOp_t)op, compute, CUDNN_NOT_PROPAGATE_NAN,
                                                         with_indices ? CUDNN_REDUCE_TENSOR_FLATTENED_INDICES
                                                                      : CUDNN_REDUCE_TENSOR_NO_INDICES,
                                                         CUDNN_32BIT_INDICES));
                    count(cudnnReduceTensor(handle, reduce, workspace, 1 << 16, workspace, 1 << 16, alpha, a, x, beta, c, y));
                }
                count(cudnnDestroyTensorDescriptor(a));
                count(cudnnDestroyTensorDescriptor(c));
            }
    count(cudnnDestroyOpTensorDescriptor(binary));
    count(cudnnDestroyReduceTensorDescriptor(reduce));
}

/* Queries, a search and the calls that it is for. */
static void convolution(cudnnDataType_t type, int form, const int image[4], const int filter[4], int groups, int stride) {
    cudnnTensorDescriptor_t from = tensor(type, image, form), to, bias;
    cudnnFilterDescriptor_t taps;
    cudnnConvolutionDescriptor_t layer;
    cudnnActivationDescriptor_t relu;
    cudnnConvolutionFwdAlgoPerf_t found[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
    int out[4], count_found;
    size_t size;
    double one_double = 1, zero_double = 0;
    float one_float = 1, zero_float = 0;
    const void *one = type == CUDNN_DATA_DOUBLE ? (void *)&one_double : (void *)&one_float;
    const void *zero = type == CUDNN_DATA_DOUBLE ? (void *)&zero_double : (void *)&zero_float;
    cudnnDataType_t sum = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : type == CUDNN_DATA_INT8 ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    char *w = x + BYTES / 2;
    OK(cudnnCreateFilterDescriptor(&taps));
    OK(cudnnSetFilter4dDescriptor(taps, type, form == 1 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, filter[0], filter[1], filter[2], filter[3]));
    OK(cudnnCreateConvolutionDescriptor(&layer));
    OK(cudnnSetConvolution2dDescriptor(layer, filter[2] / 2, filter[3] / 2, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION, sum));
    OK(cudnnSetConvolutionGroupCount(layer, groups));
    OK(cudnnGetConvolution2dForwardOutputDim(layer, from, taps, &out[0], &out[1], &out[2], &out[3]));
    to = tensor(type, out, form);
    OK(cudnnGetConvolutionForwardAlgorithm_v7(handle, from, taps, layer, to, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count_found, found));
    OK(cudnnGetConvolutionForwardWorkspaceSize(handle, from, taps, layer, to, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &size));
    OK(cudnnConvolutionForward(handle, one, from, x, taps, w, layer, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, workspace, 1 << 16, zero, to, y));
    if (type != CUDNN_DATA_INT8) {
        OK(cudnnConvolutionBackwardData(handle, one, taps, w, to, x, layer, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, workspace, 1 << 16, zero, from, y));
        OK(cudnnConvolutionBackwardFilter(handle, one, from, x, to, w, layer, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, workspace, 1 << 16, zero, taps, y));
        out[0] = out[2] = out[3] = 1;
        bias = tensor(type, out, 0);
        OK(cudnnConvolutionBackwardBias(handle, one, to, x, zero, bias, y));
        OK(cudnnCreateActivationDescriptor(&relu));
        OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
        OK(cudnnConvolutionBiasActivationForward(handle, one, from, x, taps, w, layer, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                                   workspace, 1 << 16, one, to, x, bias, x, relu, to, y));
        OK(cudnnDestroyActivationDescriptor(relu));
        OK(cudnnDestroyTensorDescriptor(bias));
    }
    if (image[2] < 10) {
        OK(cudnnFindConvolutionForwardAlgorithm(handle, from, taps, layer, to, 1, &count_found, found));
        OK(cudnnFindConvolutionForwardAlgorithmEx(handle, from, x, taps, w, layer, to, y, 1, &count_found, found, workspace, 1 << 16));
        if (groups == 1) OK(cudnnIm2Col(handle, from, x, taps, layer, y));
    }
    OK(cudnnDestroyTensorDescriptor(from));
    OK(cudnnDestroyTensorDescriptor(to));
    OK(cudnnDestroyFilterDescriptor(taps));
    OK(cudnnDestroyConvolutionDescriptor(layer));
}

static void convolutions(void) {
    static const struct { int image[4], filter[4], groups, stride; } layers[] = {
        {{2, 64, 20, 21}, {64, 64, 3, 3}, 1, 1}, {{1, 3, 40, 40}, {32, 3, 7, 7}, 1, 2}, {{1, 64, 9, 9}, {48, 64, 1, 1}, 1, 1},
        {{2, 40, 17, 17}, {40, 1, 3, 3}, 40, 1}, {{2, 40, 17, 17}, {40, 1, 3, 3}, 40, 2}, {{1, 4, 7, 7}, {8, 2, 3, 3}, 2, 1},
        {{1, 512, 1, 1}, {16, 512, 1, 1}, 1, 1}, {{1, 256, 7, 7}, {64, 256, 3, 3}, 1, 1}, {{1, 1, 1, 1}, {1, 1, 1, 1}, 1, 1},
    };
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_DOUBLE, CUDNN_DATA_BFLOAT16, CUDNN_DATA_INT8};
    unsigned layer, type;
    int form;
    for (layer = 0; layer < sizeof layers / sizeof *layers; layer++)
        for (type = 0; type < sizeof types / sizeof *types; type++)
            for (form = 0; form < (types[type] == CUDNN_DATA_INT8 ? 2 : 3); form++)
                convolution(types[type], form, layers[layer].image, layers[layer].filter, layers[layer].groups, layers[layer].stride);
}

static void layers(cudnnDataType_t type, int form, const int dims[4]) {
    cudnnTensorDescriptor_t t = tensor(type, dims, form), half, channels;
    cudnnPoolingDescriptor_t pooling;
    cudnnActivationDescriptor_t activation;
    cudnnLRNDescriptor_t response;
    cudnnDropoutDescriptor_t dropout;
    size_t states, reserve;
    int out[4], mode;
    double one_double = 1, zero_double = 0;
    float one_float = 1, zero_float = 0;
    const void *one = type == CUDNN_DATA_DOUBLE ? (void *)&one_double : (void *)&one_float;
    const void *zero = type == CUDNN_DATA_DOUBLE ? (void *)&zero_double : (void *)&zero_float;
    char *second = x + BYTES / 2;
    /* Parameters and statistics: zeros. */
    float *numbers = (float *)(void *)(x + BYTES / 4);
    OK(cudnnCreatePoolingDescriptor(&pooling));
    for (mode = CUDNN_POOLING_MAX; mode <= CUDNN_POOLING_MAX_DETERMINISTIC; mode++) {
        OK(cudnnSetPooling2dDescriptor(pooling, (cudnnPoolingMode_t)mode, CUDNN_PROPAGATE_NAN, 3, 3, 1, 1, 2, 2));
        OK(cudnnGetPooling2dForwardOutputDim(pooling, t, &out[0], &out[1], &out[2], &out[3]));
        half = tensor(type, out, form);
        OK(cudnnPoolingForward(handle, pooling, one, t, x, zero, half, y));
        OK(cudnnPoolingBackward(handle, pooling, one, half, x, half, x, t, x, zero, t, y));
        OK(cudnnDestroyTensorDescriptor(half));
    }
    OK(cudnnCreateActivationDescriptor(&activation));
    for (mode = CUDNN_ACTIVATION_SIGMOID; mode <= CUDNN_ACTIVATION_SWISH; mode++) {
        if (mode == CUDNN_ACTIVATION_IDENTITY) continue;
        OK(cudnnSetActivationDescriptor(activation, (cudnnActivationMode_t)mode, CUDNN_PROPAGATE_NAN, 1));
        OK(cudnnActivationForward(handle, activation, one, t, x, zero, t, y));
        OK(cudnnActivationBackward(handle, activation, one, t, x, t, x, t, x, one, t, y));
    }
    for (mode = CUDNN_SOFTMAX_FAST; mode <= CUDNN_SOFTMAX_LOG; mode++) {
        OK(cudnnSoftmaxForward(handle, (cudnnSoftmaxAlgorithm_t)mode, CUDNN_SOFTMAX_MODE_CHANNEL, one, t, x, zero, t, y));
        OK(cudnnSoftmaxForward(handle, (cudnnSoftmaxAlgorithm_t)mode, CUDNN_SOFTMAX_MODE_INSTANCE, one, t, x, one, t, y));
        OK(cudnnSoftmaxBackward(handle, (cudnnSoftmaxAlgorithm_t)mode, CUDNN_SOFTMAX_MODE_CHANNEL, one, t, x, t, x, zero, t, y));
    }
    OK(cudnnCreateLRNDescriptor(&response));
    OK(cudnnSetLRNDescriptor(response, 5, 1e-4, 0.75, 2));
    OK(cudnnLRNCrossChannelForward(handle, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, one, t, x, zero, t, y));
    OK(cudnnLRNCrossChannelBackward(handle, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, one, t, x, t, x, t, x, zero, t, y));
    OK(cudnnDivisiveNormalizationForward(handle, response, CUDNN_DIVNORM_PRECOMPUTED_MEANS, one, t, x, NULL, second, second, zero, t, y));
    OK(cudnnDivisiveNormalizationBackward(handle, response, CUDNN_DIVNORM_PRECOMPUTED_MEANS, one, t, x, NULL, x, second, second, zero, t, y, NULL));
    OK(cudnnCreateTensorDescriptor(&channels));
    for (mode = CUDNN_BATCHNORM_PER_ACTIVATION; mode <= CUDNN_BATCHNORM_SPATIAL_PERSISTENT; mode++) {
        char *gradients = workspace;
        cudnnBatchNormMode_t m = (cudnnBatchNormMode_t)mode;
        OK(cudnnDeriveBNTensorDescriptor(channels, t, m));
        OK(cudnnBatchNormalizationForwardInference(handle, m, one, zero, t, x, t, y, channels, numbers, numbers, numbers, numbers, 1e-3));
        OK(cudnnBatchNormalizationForwardTraining(handle, m, one, zero, t, x, t, y, channels, numbers, numbers, 0.5, NULL, NULL, 1e-3, NULL, NULL));
        OK(cudnnBatchNormalizationBackward(handle, m, one, zero, one, zero, t, x, t, x, t, y, channels, numbers, gradients, gradients + BYTES / 4, 1e-3, NULL, NULL));
    }
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnDropoutGetStatesSize(handle, &states));
    OK(cudnnDropoutGetReserveSpaceSize(t, &reserve));
    CHECK(states <= BYTES / 4 && reserve <= BYTES / 4);
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, workspace, states, 1));
    OK(cudnnDropoutForward(handle, dropout, t, x, t, y, workspace + BYTES / 4, reserve));
    OK(cudnnDropoutBackward(handle, dropout, t, x, t, y, workspace + BYTES / 4, reserve));
    OK(cudnnDestroyDropoutDescriptor(dropout));
    OK(cudnnDestroyTensorDescriptor(channels));
    OK(cudnnDestroyLRNDescriptor(response));
    OK(cudnnDestroyActivationDescriptor(activation));
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyTensorDescriptor(t));
}

static void sampler(void) {
    static const int dims[4] = {2, 5, 20, 20};
    cudnnTensorDescriptor_t image = tensor(CUDNN_DATA_FLOAT, dims, 0);
    cudnnSpatialTransformerDescriptor_t transformer;
    float one = 1, zero = 0;
    char *grid = x + BYTES / 2, *gradient = workspace;
    OK(cudnnCreateSpatialTransformerDescriptor(&transformer));
    OK(cudnnSetSpatialTransformerNdDescriptor(transformer, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, dims));
    OK(cudnnSpatialTfGridGeneratorForward(handle, transformer, x, y));
    OK(cudnnSpatialTfGridGeneratorBackward(handle, transformer, x, y));
    OK(cudnnSpatialTfSamplerForward(handle, transformer, &one, image, x, grid, &zero, image, y));
    OK(cudnnSpatialTfSamplerBackward(handle, transformer, &one, image, x, &zero, image, y, &one, image, x, grid, &zero, gradient));
    OK(cudnnDestroySpatialTransformerDescriptor(transformer));
    OK(cudnnDestroyTensorDescriptor(image));
}

static void *all(void *unused) {
    static const int dims[][4] = {{2, 24, 30, 31}, {1, 100, 1, 1}, {3, 10, 8, 8}, {1, 1, 1, 1}};
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_DOUBLE, CUDNN_DATA_BFLOAT16};
    unsigned shape, type;
    int form;
    (void)unused;
    transforms();
    large();
    padded();
    arithmetic();
    convolutions();
    for (shape = 0; shape < sizeof dims / sizeof *dims; shape++)
        for (type = 0; type < sizeof types / sizeof *types; type++)
            for (form = 0; form < 3; form++) layers(types[type], form, dims[shape]);
    sampler();
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    setenv("CUDNN_SHIM_NUM_THREADS", "2", 1);
    x = (char *)calloc(BYTES, 1);
    y = (char *)calloc(BYTES, 1);
    workspace = (char *)calloc(BYTES, 1);
    CHECK(x != NULL && y != NULL && workspace != NULL);
    OK(cudnnCreate(&handle));
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, all, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(failures == 0);
    OK(cudnnDestroy(handle));
    free(x);
    free(y);
    free(workspace);
    return check_result("small_stack");
}
