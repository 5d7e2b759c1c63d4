/* Answers of strict mode that no recording in tests/data/oracle holds: groups of integers, 3-D convolutions in HALF, strides, the order of what
 * a fused call looks at, normalisations backwards without a handle and fused ones without a workspace, windows of vectors. */
#include "convolution.h"

static cudnnHandle_t handle;

static struct shape shape_of(int c, int k, int groups, cudnnTensorFormat_t format, cudnnDataType_t type,
                             cudnnDataType_t compute) {
    struct shape shape = {1, 0, 5, 5, 0, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
                          CUDNN_DATA_FLOAT};
    shape.c = c;
    shape.k = k;
    shape.groups = groups;
    shape.format = format;
    shape.type = type;
    shape.compute = compute;
    return shape;
}

/* Bytes in vectors are computed without groups only; in NHWC groups of single channels with filters in eights are, to INT32. */
static void groups_of_integers(void) {
    struct convolution of;
    cudnnConvolutionFwdAlgoPerf_t records[8];
    size_t size = 0;
    int count = 0, i, groups;
    for (groups = 1; groups <= 2; groups++) {
        of = describe(shape_of(16, 16, groups, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x4, CUDNN_DATA_INT32));
        OK(cudnnGetConvolutionForwardAlgorithm_v7(handle, of.x, of.w, of.desc, of.y, 8, &count, records));
        CHECK(count == 8);
        for (i = 0; i < count; i++)
            CHECK((records[i].status == CUDNN_STATUS_SUCCESS) == (groups == 1 && records[i].algo < 2));
        forget(&of);
    }
    of = describe(shape_of(4, 32, 4, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT8, CUDNN_DATA_INT32));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, workspace_size(handle, &of, FORWARD, 1, &size));
    OK(cudnnSetTensor4dDescriptor(of.y, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT32, 1, 32, 5, 5));
    OK(workspace_size(handle, &of, FORWARD, 1, &size));
    CHECK(size > 0);
    forget(&of);
    of = describe(shape_of(6, 2, 2, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT8, CUDNN_DATA_INT32));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, workspace_size(handle, &of, FORWARD, 1, &size));
    forget(&of);
}

/* The gradient of the data in 3-D, in HALF throughout: without groups and dilation only. */
static void in_half(void) {
    const int pads[3] = {0, 0, 0}, ones[3] = {1, 1, 1};
    int groups, dilation;
    for (groups = 1; groups <= 2; groups++)
        for (dilation = 1; dilation <= 2; dilation++) {
            const int extent = 7 - 2 * dilation, steps[3] = {dilation, dilation, dilation};
            const int x_dims[5] = {1, 4, 7, 7, 7}, y_dims[5] = {1, 4, extent, extent, extent};
            const int w_dims[5] = {4, 4 / groups, 3, 3, 3};
            cudnnTensorDescriptor_t x, y;
            cudnnFilterDescriptor_t w;
            cudnnConvolutionDescriptor_t desc;
            size_t size = 0;
            OK(cudnnCreateTensorDescriptor(&x));
            OK(cudnnCreateTensorDescriptor(&y));
            OK(cudnnCreateFilterDescriptor(&w));
            OK(cudnnCreateConvolutionDescriptor(&desc));
            OK(cudnnSetTensorNdDescriptorEx(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 5, x_dims));
            OK(cudnnSetTensorNdDescriptorEx(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 5, y_dims));
            OK(cudnnSetFilterNdDescriptor(w, CUDNN_DATA_HALF, CUDNN_TENSOR_NCHW, 5, w_dims));
            OK(cudnnSetConvolutionNdDescriptor(desc, 3, pads, ones, steps, CUDNN_CROSS_CORRELATION, CUDNN_DATA_HALF));
            OK(cudnnSetConvolutionGroupCount(desc, groups));
            EXPECT(groups == 1 && dilation == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED,
                   cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, desc, x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                                                &size));
            OK(cudnnDestroyConvolutionDescriptor(desc));
            OK(cudnnDestroyFilterDescriptor(w));
            OK(cudnnDestroyTensorDescriptor(y));
            OK(cudnnDestroyTensorDescriptor(x));
        }
}

/* Convolutions of tensors that run backwards or share addresses are not computed; a stride of a single element is any number. */
static void strides(void) {
    struct convolution of = describe(shape_of(4, 4, 1, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT));
    size_t size = 0;
    OK(workspace_size(handle, &of, FORWARD, 0, &size));
    OK(cudnnSetTensor4dDescriptorEx(of.x, CUDNN_DATA_FLOAT, 1, 4, 5, 5, -7, 25, 5, 1));
    OK(workspace_size(handle, &of, FORWARD, 0, &size));
    OK(cudnnSetTensor4dDescriptorEx(of.x, CUDNN_DATA_FLOAT, 1, 4, 5, 5, 100, 25, -5, 1));
    CHECK(workspace_size(handle, &of, FORWARD, 0, &size) != CUDNN_STATUS_SUCCESS);
    OK(cudnnSetTensor4dDescriptorEx(of.x, CUDNN_DATA_FLOAT, 1, 4, 5, 5, 100, 25, 1, 1));
    CHECK(workspace_size(handle, &of, FORWARD, 0, &size) != CUDNN_STATUS_SUCCESS);
    forget(&of);
}

/* The fused call: what is multiplied is looked at before the type of the bias, and two numbers for a single filter are taken for
 * another type. */
static void fused(void) {
    struct convolution of = describe(shape_of(3, 1, 1, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT));
    cudnnTensorDescriptor_t vector, wide;
    cudnnActivationDescriptor_t relu;
    double data[128] = {0}, y[128] = {0};
    const double one = 1, zero = 0;
    const float single[2] = {1, 0};
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateTensorDescriptor(&wide));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 1, 1));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
           cudnnConvolutionBiasActivationForward(handle, &single[0], of.x, data, of.w, data, of.desc,
                                                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &single[1], of.y, y,
                                                 vector, data, relu, of.y, y));
    OK(cudnnSetTensor4dDescriptor(wide, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 1, 3, 5, 5));
    OK(cudnnSetFilter4dDescriptor(of.w, CUDNN_DATA_HALF, CUDNN_TENSOR_NCHW, 1, 3, 1, 1));
    OK(cudnnSetConvolution2dDescriptor(of.desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_DOUBLE));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
           cudnnConvolutionBiasActivationForward(handle, &one, wide, data, of.w, data, of.desc,
                                                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero, of.y, y,
                                                 vector, data, relu, of.y, y));
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(wide));
    OK(cudnnDestroyTensorDescriptor(vector));
    forget(&of);
}

/* Normalisation backwards looks at factors, data and the type of x first, and at the handle last. */
static void normalised(void) {
    cudnnTensorDescriptor_t x, integers, parameters;
    const float one = 1, zero = 0;
    float data[32] = {0}, gradients[32] = {0}, sums[2][2] = {{0}}, scale[2] = {1, 1};
    OK(cudnnCreateTensorDescriptor(&x));
    OK(cudnnCreateTensorDescriptor(&integers));
    OK(cudnnCreateTensorDescriptor(&parameters));
    OK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, 2, 2, 2));
    OK(cudnnSetTensor4dDescriptor(integers, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT8, 2, 2, 2, 2));
    OK(cudnnSetTensor4dDescriptor(parameters, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 2, 1, 1));
#define BACKWARD(HANDLE, X, DY)                                                                                        \
    cudnnNormalizationBackward(HANDLE, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM, CUDNN_NORM_ALGO_STANDARD, &one,   \
                               &zero, &one, &zero, X, data, NULL, NULL, DY, data, NULL, NULL, x, gradients,           \
                               parameters, scale, NULL, sums[0], sums[1], 1e-3, parameters, NULL, NULL, NULL, NULL, 0, \
                               NULL, 0, 1)
    OK(BACKWARD(handle, x, x));
    BAD(BACKWARD(NULL, x, x));
    BAD(BACKWARD(handle, x, NULL));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, BACKWARD(NULL, integers, x));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, BACKWARD(handle, integers, NULL));
    OK(cudnnDestroyTensorDescriptor(parameters));
    OK(cudnnDestroyTensorDescriptor(integers));
    OK(cudnnDestroyTensorDescriptor(x));
}

/* Windows of three dimensions: vectors of bytes have none, for which the original has its own status. */
static void windows_of_vectors(void) {
    static signed char x[64], y[64];
    const float one = 1, zero = 0;
    const int window[3] = {1, 1, 1}, pads[3] = {0, 0, 0}, dims[5] = {1, 1, 2, 2, 2}, strides[5] = {8, 8, 4, 2, 1};
    const cudnnDataType_t types[2] = {CUDNN_DATA_INT8, CUDNN_DATA_INT8x4};
    cudnnTensorDescriptor_t desc;
    cudnnPoolingDescriptor_t pooling;
    int i;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnSetPoolingNdDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 3, window, pads, window));
    for (i = 0; i < 2; i++) {
        OK(cudnnSetTensorNdDescriptor(desc, types[i], 5, dims, strides));
        EXPECT(i == 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR,
               cudnnPoolingForward(handle, pooling, &one, desc, x, &zero, desc, y));
    }
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* Batch normalisation with an activation wants the workspace that its query asks for; without one no workspace is looked at. */
static void fused_normalisation(void) {
    enum { CHANNELS = 32, N = 2 * CHANNELS * 16 };
    static uint16_t x[N], y[N], dx[N];
    static float of_channels[8][CHANNELS], workspace[4096];
    const float one = 1, zero = 0;
    cudnnTensorDescriptor_t desc, parameters;
    cudnnActivationDescriptor_t relu;
    size_t size = 0, kept = 0;
    void *reserve;
    int fuses;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreateTensorDescriptor(&parameters));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, CHANNELS, 4, 4));
    OK(cudnnDeriveBNTensorDescriptor(parameters, desc, CUDNN_BATCHNORM_SPATIAL_PERSISTENT));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    for (fuses = 0; fuses <= 1; fuses++) {
        const cudnnBatchNormOps_t ops = fuses ? CUDNN_BATCHNORM_OPS_BN_ACTIVATION : CUDNN_BATCHNORM_OPS_BN;
        const cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
        const cudnnStatus_t without = fuses ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
        cudnnActivationDescriptor_t of = fuses ? relu : NULL;
        OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, mode, ops, desc, NULL, desc, parameters, of, &size));
        OK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, mode, ops, of, desc, &kept));
        CHECK(size > 0 && size <= sizeof workspace);
        reserve = guarded_alloc(kept);
#define FORWARD_WITH(WORKSPACE, SIZE)                                                                                  \
    cudnnBatchNormalizationForwardTrainingEx(handle, mode, ops, &one, &zero, desc, x, NULL, NULL, desc, y, parameters, \
                                             of_channels[0], of_channels[1], 0.5, of_channels[2], of_channels[3],      \
                                             1e-3, of_channels[4], of_channels[5], of, WORKSPACE, SIZE, reserve, kept)
#define BACKWARD_WITH(WORKSPACE, SIZE)                                                                                 \
    cudnnBatchNormalizationBackwardEx(handle, mode, ops, &one, &zero, &one, &zero, desc, x, desc, y, desc, y, NULL,    \
                                      NULL, desc, dx, parameters, of_channels[0], of_channels[1], of_channels[6],      \
                                      of_channels[7], 1e-3, of_channels[4], of_channels[5], of, WORKSPACE, SIZE,       \
                                      reserve, kept)
        EXPECT(without, FORWARD_WITH(NULL, 0));
        EXPECT(without, FORWARD_WITH(workspace, 0));
        OK(FORWARD_WITH(workspace, sizeof workspace));
        EXPECT(without, BACKWARD_WITH(NULL, 0));
        OK(BACKWARD_WITH(workspace, sizeof workspace));
        guarded_free(reserve, kept);
    }
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(parameters));
    OK(cudnnDestroyTensorDescriptor(desc));
}

int main(void) {
    setenv("CUDNN_SHIM_STRICT", "1", 1);
    OK(cudnnCreate(&handle));
    groups_of_integers();
    in_half();
    strides();
    fused();
    normalised();
    windows_of_vectors();
    fused_normalisation();
    OK(cudnnDestroy(handle));
    return check_result("strict_answers");
}
