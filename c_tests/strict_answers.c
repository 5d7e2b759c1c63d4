/* Answers of strict mode that no recording in tests/data/oracle holds: groups of integers, 3-D convolutions in HALF, strides, the order of what
 * a fused call looks at, normalisations backwards without a handle and fused ones without a workspace, parameters of other dims, windows of
 * vectors, states of dropouts, attention that drops everything, numbers of descriptors in graphs. */
#include "convolution.h"

#include <math.h>

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

/* In 3-D, in HALF throughout: the gradient of the data only, by number 1, with groups and dilation, too. */
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
            OK(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, desc, x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &size));
            EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
                   cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, desc, x, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                                                                &size));
            EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
                   cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, desc, y, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
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
    double epsilon = 1e-3;
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
                                             of_channels[0], of_channels[1], NAN, of_channels[2], NULL, epsilon,       \
                                             of_channels[4], of_channels[5], of, WORKSPACE, SIZE, reserve, kept)
#define BACKWARD_WITH(WORKSPACE, SIZE)                                                                                 \
    cudnnBatchNormalizationBackwardEx(handle, mode, ops, &one, &zero, &one, &zero, desc, x, desc, y, desc, y, NULL,    \
                                      NULL, desc, dx, parameters, of_channels[0], of_channels[1], of_channels[6],      \
                                      of_channels[7], 1e-3, of_channels[4], of_channels[5], of, WORKSPACE, SIZE,       \
                                      reserve, kept)
        EXPECT(without, FORWARD_WITH(NULL, 0));
        EXPECT(without, FORWARD_WITH(workspace, 0));
        OK(FORWARD_WITH(workspace, sizeof workspace));
        epsilon = 0;
        OK(FORWARD_WITH(workspace, sizeof workspace));
        epsilon = 1e-3;
        EXPECT(without, BACKWARD_WITH(NULL, 0));
        OK(BACKWARD_WITH(workspace, sizeof workspace));
        guarded_free(reserve, kept);
    }
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(parameters));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* What is added to a fused normalisation is packed as x is. */
static void added(void) {
    enum { CHANNELS = 4, N = 2 * CHANNELS * 6 };
    static uint16_t x[N], y[N], z[N];
    static float of_channels[6][CHANNELS], workspace[4096];
    const float one = 1, zero = 0;
    const cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
    const cudnnBatchNormOps_t ops = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
    cudnnTensorDescriptor_t desc, planes, parameters;
    cudnnActivationDescriptor_t relu;
    unsigned char reserve[8192];
    int laid;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreateTensorDescriptor(&planes));
    OK(cudnnCreateTensorDescriptor(&parameters));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, CHANNELS, 3, 2));
    OK(cudnnSetTensor4dDescriptor(planes, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 2, CHANNELS, 3, 2));
    OK(cudnnDeriveBNTensorDescriptor(parameters, desc, mode));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    for (laid = 0; laid < 2; laid++)
        EXPECT(laid ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS,
               cudnnBatchNormalizationForwardTrainingEx(handle, mode, ops, &one, &zero, desc, x, laid ? planes : desc, z, desc, y,
                                                        parameters, of_channels[0], of_channels[1], 0.5, NULL, NULL, 1e-8,
                                                        of_channels[4], of_channels[5], relu, workspace, sizeof workspace, reserve,
                                                        sizeof reserve));
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(parameters));
    OK(cudnnDestroyTensorDescriptor(planes));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* Parameters of each element are as many packed numbers as there are elements, whatever dims they are described with. */
static void parameters_per_activation(void) {
    enum { N = 2, ELEMENTS = 12 };
    const int shapes[4][4] = {{1, 3, 2, 2}, {1, 12, 1, 1}, {2, 2, 2, 2}, {1, 3, 2, 1}};
    float x[N * ELEMENTS], y[4][N * ELEMENTS], numbers[4][16];
    const float one = 1, zero = 0;
    cudnnTensorDescriptor_t desc, parameters;
    int i, k;
    for (i = 0; i < N * ELEMENTS; i++) x[i] = (float)(i * 7 % 5);
    for (k = 0; k < 4; k++)
        for (i = 0; i < 16; i++) numbers[k][i] = 1 + (float)(i * (k + 3) % 7);
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreateTensorDescriptor(&parameters));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, 3, 2, 2));
    memset(y, CHECK_FILL, sizeof y);
    for (k = 0; k < 4; k++) {
        const int *d = shapes[k];
        OK(cudnnSetTensor4dDescriptor(parameters, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, d[0], d[1], d[2], d[3]));
        EXPECT(k == 3 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS,
               cudnnBatchNormalizationForwardInference(handle, CUDNN_BATCHNORM_PER_ACTIVATION, &one, &zero, desc, x, desc, y[k],
                                                       parameters, numbers[0], numbers[1], numbers[2], numbers[3], 1e-3));
    }
    CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0 && memcmp(y[0], y[2], sizeof y[0]) == 0);
    CHECK(!all_filled(y[0], sizeof y[0]) && all_filled(y[3], sizeof y[3]));
    OK(cudnnDestroyTensorDescriptor(parameters));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* States have the size that is told. Attention refuses a dropout of all weights in training, too. */
static void dropouts(void) {
    const cudnnSeqDataAxis_t axes[4] = {CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM,
                                        CUDNN_SEQDATA_VECT_DIM};
    const int dims[4] = {3, 2, 1, 4}, lengths[2] = {3, 3}, low[3] = {0, 0, 0}, high[3] = {3, 3, 3};
    float data[24] = {0}, out[24];
    cudnnDropoutDescriptor_t drop;
    cudnnAttnDescriptor_t attention;
    cudnnSeqDataDescriptor_t sequence;
    size_t told = 0, weights = 0, none = 0, kept = 0;
    void *states, *reserve;
    int all;
    OK(cudnnDropoutGetStatesSize(handle, &told));
    states = guarded_alloc(told);
    OK(cudnnCreateDropoutDescriptor(&drop));
    BAD(cudnnSetDropoutDescriptor(drop, handle, 1, states, told - 1, 7));
    BAD(cudnnRestoreDropoutDescriptor(drop, handle, 1, NULL, told - 1, 7));
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnCreateSeqDataDescriptor(&sequence));
    OK(cudnnSetSeqDataDescriptor(sequence, CUDNN_DATA_FLOAT, 4, dims, axes, 2, lengths, NULL));
    for (all = 0; all < 2; all++) {
        OK(cudnnSetDropoutDescriptor(drop, handle, all ? 1 : 0.5f, states, told, 7));
        OK(cudnnSetAttnDescriptor(attention, 0, 1, 1, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, drop, NULL, 4, 4, 4,
                                  0, 0, 0, 0, 3, 3, 2, 1));
        OK(cudnnGetMultiHeadAttnBuffers(handle, attention, &weights, &none, &kept));
        reserve = guarded_alloc(kept);
        EXPECT(all ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS,
               cudnnMultiHeadAttnForward(handle, attention, -1, low, high, lengths, lengths, sequence, data, NULL, sequence, data,
                                         sequence, data, sequence, out, 0, NULL, 0, NULL, kept, reserve));
        guarded_free(reserve, kept);
    }
    guarded_free(states, told);
    OK(cudnnDestroySeqDataDescriptor(sequence));
    OK(cudnnDestroyAttnDescriptor(attention));
    OK(cudnnDestroyDropoutDescriptor(drop));
}

/* How many descriptors an attribute takes: one exactly, any positive number, any number, or one with a status of its own. */
static void descriptors_of_graphs(void) {
    const struct {
        int kind, attribute, of;
        cudnnStatus_t negative, none, several;
    } rows[] = {
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
         CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM},
        {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
         CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS},
        {CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
         CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS},
        {CUDNN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR, CUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
         CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS},
        {CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS,
         CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_SUCCESS},
        {CUDNN_BACKEND_OPERATION_MOE_GROUPED_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC,
         CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_SUCCESS},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
         CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
         CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED},
    };
    cudnnBackendKnobType_t knob = (cudnnBackendKnobType_t)-1;
    cudnnBackendDescriptor_t object, values[2];
    int64_t count = 0;
    size_t i;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        const cudnnBackendAttributeName_t attribute = (cudnnBackendAttributeName_t)rows[i].attribute;
        const cudnnBackendAttributeType_t type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
        OK(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)rows[i].kind, &object));
        OK(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)rows[i].of, &values[0]));
        values[1] = values[0];
        EXPECT(rows[i].negative, cudnnBackendSetAttribute(object, attribute, type, -1, values));
        EXPECT(rows[i].none, cudnnBackendSetAttribute(object, attribute, type, 0, values));
        EXPECT(rows[i].several, cudnnBackendSetAttribute(object, attribute, type, 2, values));
        OK(cudnnBackendSetAttribute(object, attribute, type, 1, values));
        OK(cudnnBackendDestroyDescriptor(values[0]));
        OK(cudnnBackendDestroyDescriptor(object));
    }
    /* A knob that was not set is none. */
    OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &object));
    OK(cudnnBackendFinalize(object));
    OK(cudnnBackendGetAttribute(object, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &knob));
    CHECK(count == 1 && knob == CUDNN_KNOB_TYPE_COUNTS);
    OK(cudnnBackendDestroyDescriptor(object));
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
    added();
    parameters_per_activation();
    dropouts();
    descriptors_of_graphs();
    OK(cudnnDestroy(handle));
    return check_result("strict_answers");
}
