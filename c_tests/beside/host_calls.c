/* Every call that needs no device, on the library and then on the original beside it: a line for each, with its status and what it has
 * written. The lines of both are the same.
 *
 * host_calls ORIGINAL: the file of the original. A function that it lacks has the status `lacking`. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check_beside.h"

static void *original;
static int is_original;

/* The function of the one whose turn it is. */
static void *found(const char *name, void *ours) { return is_original ? dlsym(original, name) : ours; }

/* A call, whose line begins with its name and its status. */
#define CALL(name, ...)                                                                                                \
    do {                                                                                                               \
        __typeof__(&name) function = (__typeof__(&name))found(#name, (void *)name);                                    \
        printf("\n%s %s", is_original ? "original" : "ours", #name);                                                   \
        if (function == NULL) printf(" lacking");                                                                      \
        else printf(" %d", (int)function(__VA_ARGS__));                                                                \
    } while (0)

/* What it has written. */
static void ints(const int *values, int count) {
    int i;
    for (i = 0; i < count; ++i) printf(" %d", values[i]);
}

static void number(double value) { printf(" %g", value); }

/* Where numbers are written that are shown afterwards: each call begins with the same in them. */
static int a[12];
static size_t size;
static double real[3];

static void reset(void) {
    int i;
    for (i = 0; i < 12; ++i) a[i] = -1;
    for (i = 0; i < 3; ++i) real[i] = -1;
    size = 0;
}

/* Enumerators are written as ints. */
#define AT(type, place) ((type *)(void *)&a[place])

static void library(void) {
    char text[256] = {0};
    void *data = &a;
    unsigned mask = 7;
    cudnnCallback_t callback = NULL;
    int i;
    printf("\n");
    {
        __typeof__(&cudnnGetErrorString) string =
            (__typeof__(&cudnnGetErrorString))found("cudnnGetErrorString", (void *)cudnnGetErrorString);
        printf("\n%s cudnnGetErrorString %s", is_original ? "original" : "ours", string(CUDNN_STATUS_SUCCESS));
    }
    for (i = 0; i < 3; ++i) {
        CALL(cudnnGetProperty, (libraryPropertyType)i, &a[0]);
        CHECK(a[0] >= 0);
    }
    CALL(cudnnSetCallback, 0, NULL, NULL);
    CALL(cudnnGetCallback, &mask, &data, &callback);
    CHECK(callback == NULL);
    CALL(cudnnGraphVersionCheck);
    CALL(cudnnOpsVersionCheck);
    CALL(cudnnCnnVersionCheck);
    CALL(cudnnAdvVersionCheck);
    CALL(cudnnSubquadraticOpsVersionCheck);
    /* Numbers that are each one's own. */
    {
        __typeof__(&cudnnGetVersion) version = (__typeof__(&cudnnGetVersion))found("cudnnGetVersion", (void *)cudnnGetVersion);
        __typeof__(&cudnnGetCudartVersion) runtime =
            (__typeof__(&cudnnGetCudartVersion))found("cudnnGetCudartVersion", (void *)cudnnGetCudartVersion);
        __typeof__(&cudnnGetMaxDeviceVersion) device =
            (__typeof__(&cudnnGetMaxDeviceVersion))found("cudnnGetMaxDeviceVersion", (void *)cudnnGetMaxDeviceVersion);
        __typeof__(&cudnnGetLastErrorString) last =
            (__typeof__(&cudnnGetLastErrorString))found("cudnnGetLastErrorString", (void *)cudnnGetLastErrorString);
        const char *who = is_original ? "original" : "ours";
        CHECK(version() >= 8000 && runtime() >= 11000);
        if (device != NULL) CHECK(device() < 10000000);
        if (last != NULL) last(text, sizeof text);
        CHECK(memchr(text, 0, sizeof text) != NULL);
        printf("\n%s cudnnGetVersion\n%s cudnnGetCudartVersion", who, who);
        printf("\n%s cudnnGetMaxDeviceVersion%s", who, device == NULL ? " lacking" : "");
        printf("\n%s cudnnGetLastErrorString%s", who, last == NULL ? " lacking" : "");
    }
}

static cudnnTensorDescriptor_t tensor(int n, int c, int h, int w) {
    cudnnTensorDescriptor_t desc = NULL;
    CALL(cudnnCreateTensorDescriptor, &desc);
    CALL(cudnnSetTensor4dDescriptor, desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w);
    return desc;
}

static void show(cudnnTensorDescriptor_t desc) {
    int dims[5] = {0}, strides[5] = {0};
    reset();
    CALL(cudnnGetTensorNdDescriptor, desc, 5, AT(cudnnDataType_t, 0), &a[1], dims, strides);
    ints(a, 2), ints(dims, a[1] < 0 ? 0 : a[1]), ints(strides, a[1] < 0 ? 0 : a[1]);
}

static void tensors(void) {
    cudnnTensorDescriptor_t desc = tensor(2, 3, 4, 5), other = tensor(1, 1, 1, 1), third = tensor(1, 1, 1, 1);
    const int dims[5] = {2, 4, 3, 5, 6}, strides[5] = {720, 180, 60, 12, 2};
    show(desc);
    CALL(cudnnSetTensor4dDescriptorEx, desc, CUDNN_DATA_HALF, 2, 3, 4, 5, 120, 40, 10, 2);
    reset();
    CALL(cudnnGetTensor4dDescriptor, desc, AT(cudnnDataType_t, 0), &a[1], &a[2], &a[3], &a[4], &a[5], &a[6], &a[7], &a[8]);
    ints(a, 9);
    CALL(cudnnGetTensorSizeInBytes, desc, &size);
    printf(" %zu", size);
    CALL(cudnnSetTensorNdDescriptor, desc, CUDNN_DATA_DOUBLE, 5, dims, strides);
    show(desc);
    CALL(cudnnSetTensorNdDescriptorEx, desc, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT8, 4, dims);
    show(desc);
    CALL(cudnnDeriveBNTensorDescriptor, other, desc, CUDNN_BATCHNORM_SPATIAL);
    show(other);
    CALL(cudnnDeriveNormTensorDescriptor, other, third, desc, CUDNN_NORM_PER_CHANNEL, 1);
    show(other), show(third);
    CALL(cudnnDropoutGetReserveSpaceSize, other, &size);
    printf(" %zu", size);
    CALL(cudnnDestroyTensorDescriptor, desc);
    CALL(cudnnDestroyTensorDescriptor, other);
    CALL(cudnnDestroyTensorDescriptor, third);
}

static void transforms(void) {
    cudnnTensorTransformDescriptor_t transform = NULL;
    cudnnTensorDescriptor_t from = tensor(2, 3, 4, 5), to = tensor(1, 1, 1, 1);
    const int32_t before[4] = {0, 1, 0, 2}, after[4] = {0, 0, 1, 0};
    int32_t got[8] = {0};
    uint32_t fold[2] = {0};
    CALL(cudnnCreateTensorTransformDescriptor, &transform);
    CALL(cudnnSetTensorTransformDescriptor, transform, 4, CUDNN_TENSOR_NHWC, before, after, NULL, CUDNN_TRANSFORM_FOLD);
    reset();
    CALL(cudnnGetTensorTransformDescriptor, transform, 4, AT(cudnnTensorFormat_t, 0), got, got + 4, fold,
         AT(cudnnFoldingDirection_t, 1));
    ints(a, 2), ints(got, 8);
    CALL(cudnnInitTransformDest, transform, from, to, &size);
    printf(" %zu", size);
    show(to);
    CALL(cudnnDestroyTensorTransformDescriptor, transform);
    CALL(cudnnDestroyTensorDescriptor, from);
    CALL(cudnnDestroyTensorDescriptor, to);
}

static void layers(void) {
    cudnnOpTensorDescriptor_t op = NULL;
    cudnnReduceTensorDescriptor_t reduce = NULL;
    cudnnPoolingDescriptor_t pooling = NULL;
    cudnnActivationDescriptor_t activation = NULL;
    cudnnLRNDescriptor_t response = NULL;
    cudnnSpatialTransformerDescriptor_t transformer = NULL;
    cudnnDropoutDescriptor_t dropout = NULL;
    cudnnTensorDescriptor_t desc = tensor(2, 3, 8, 9);
    const int window[2] = {3, 2}, padding[2] = {1, 0}, strides[2] = {2, 1}, dims[4] = {2, 3, 4, 5};
    CALL(cudnnCreateOpTensorDescriptor, &op);
    CALL(cudnnSetOpTensorDescriptor, op, CUDNN_OP_TENSOR_MAX, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN);
    reset();
    CALL(cudnnGetOpTensorDescriptor, op, AT(cudnnOpTensorOp_t, 0), AT(cudnnDataType_t, 1), AT(cudnnNanPropagation_t, 2));
    ints(a, 3);
    CALL(cudnnDestroyOpTensorDescriptor, op);
    CALL(cudnnCreateReduceTensorDescriptor, &reduce);
    CALL(cudnnSetReduceTensorDescriptor, reduce, CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
         CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_32BIT_INDICES);
    reset();
    CALL(cudnnGetReduceTensorDescriptor, reduce, AT(cudnnReduceTensorOp_t, 0), AT(cudnnDataType_t, 1), AT(cudnnNanPropagation_t, 2),
         AT(cudnnReduceTensorIndices_t, 3), AT(cudnnIndicesType_t, 4));
    ints(a, 5);
    CALL(cudnnDestroyReduceTensorDescriptor, reduce);
    CALL(cudnnCreatePoolingDescriptor, &pooling);
    CALL(cudnnSetPooling2dDescriptor, pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 3, 2, 1, 0, 2, 1);
    reset();
    CALL(cudnnGetPooling2dDescriptor, pooling, AT(cudnnPoolingMode_t, 0), AT(cudnnNanPropagation_t, 1), &a[2], &a[3], &a[4], &a[5],
         &a[6], &a[7]);
    ints(a, 8);
    CALL(cudnnSetPoolingNdDescriptor, pooling, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_NOT_PROPAGATE_NAN, 2, window,
         padding, strides);
    reset();
    CALL(cudnnGetPoolingNdDescriptor, pooling, 2, AT(cudnnPoolingMode_t, 0), AT(cudnnNanPropagation_t, 1), &a[2], &a[3], &a[5], &a[7]);
    ints(a, 9);
    reset();
    CALL(cudnnGetPooling2dForwardOutputDim, pooling, desc, &a[0], &a[1], &a[2], &a[3]);
    ints(a, 4);
    CALL(cudnnGetPoolingNdForwardOutputDim, pooling, desc, 4, a);
    ints(a, 4);
    CALL(cudnnDestroyPoolingDescriptor, pooling);
    CALL(cudnnCreateActivationDescriptor, &activation);
    CALL(cudnnSetActivationDescriptor, activation, CUDNN_ACTIVATION_SWISH, CUDNN_NOT_PROPAGATE_NAN, 0.5);
    CALL(cudnnSetActivationDescriptorSwishBeta, activation, 0.25);
    reset();
    CALL(cudnnGetActivationDescriptor, activation, AT(cudnnActivationMode_t, 0), AT(cudnnNanPropagation_t, 1), &real[0]);
    ints(a, 2), number(real[0]);
    CALL(cudnnGetActivationDescriptorSwishBeta, activation, &real[1]);
    number(real[1]);
    CALL(cudnnDestroyActivationDescriptor, activation);
    CALL(cudnnCreateLRNDescriptor, &response);
    CALL(cudnnSetLRNDescriptor, response, 7, 0.5, 0.25, 1.5);
    reset();
    CALL(cudnnGetLRNDescriptor, response, AT(unsigned, 0), &real[0], &real[1], &real[2]);
    ints(a, 1), number(real[0]), number(real[1]), number(real[2]);
    CALL(cudnnDestroyLRNDescriptor, response);
    CALL(cudnnCreateSpatialTransformerDescriptor, &transformer);
    CALL(cudnnSetSpatialTransformerNdDescriptor, transformer, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, dims);
    CALL(cudnnDestroySpatialTransformerDescriptor, transformer);
    CALL(cudnnCreateDropoutDescriptor, &dropout);
    CALL(cudnnDestroyDropoutDescriptor, dropout);
    CALL(cudnnDestroyTensorDescriptor, desc);
}

static void convolutions(void) {
    cudnnTensorDescriptor_t desc = tensor(2, 6, 9, 9);
    cudnnFilterDescriptor_t filter = NULL;
    cudnnConvolutionDescriptor_t conv = NULL;
    const int dims[4] = {4, 3, 3, 3}, padding[2] = {1, 2}, strides[2] = {2, 1}, dilation[2] = {1, 2};
    CALL(cudnnCreateFilterDescriptor, &filter);
    CALL(cudnnSetFilter4dDescriptor, filter, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, 7, 3, 2, 5);
    reset();
    CALL(cudnnGetFilter4dDescriptor, filter, AT(cudnnDataType_t, 0), AT(cudnnTensorFormat_t, 1), &a[2], &a[3], &a[4], &a[5]);
    ints(a, 6);
    CALL(cudnnSetFilterNdDescriptor, filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, dims);
    reset();
    CALL(cudnnGetFilterNdDescriptor, filter, 4, AT(cudnnDataType_t, 0), AT(cudnnTensorFormat_t, 1), &a[2], &a[3]);
    ints(a, 7);
    CALL(cudnnGetFilterSizeInBytes, filter, &size);
    printf(" %zu", size);
    CALL(cudnnCreateConvolutionDescriptor, &conv);
    CALL(cudnnSetConvolution2dDescriptor, conv, 1, 0, 2, 3, 1, 2, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    reset();
    CALL(cudnnGetConvolution2dDescriptor, conv, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], AT(cudnnConvolutionMode_t, 6),
         AT(cudnnDataType_t, 7));
    ints(a, 8);
    CALL(cudnnSetConvolutionNdDescriptor, conv, 2, padding, strides, dilation, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT);
    CALL(cudnnSetConvolutionGroupCount, conv, 2);
    CALL(cudnnSetConvolutionMathType, conv, CUDNN_TENSOR_OP_MATH);
    CALL(cudnnSetConvolutionReorderType, conv, CUDNN_NO_REORDER);
    reset();
    CALL(cudnnGetConvolutionNdDescriptor, conv, 2, &a[0], &a[1], &a[3], &a[5], AT(cudnnConvolutionMode_t, 7), AT(cudnnDataType_t, 8));
    ints(a, 9);
    CALL(cudnnGetConvolutionGroupCount, conv, &a[0]);
    CALL(cudnnGetConvolutionMathType, conv, AT(cudnnMathType_t, 1));
    CALL(cudnnGetConvolutionReorderType, conv, AT(cudnnReorderType_t, 2));
    ints(a, 3);
    CALL(cudnnGetConvolution2dForwardOutputDim, conv, desc, filter, &a[0], &a[1], &a[2], &a[3]);
    ints(a, 4);
    CALL(cudnnGetConvolutionNdForwardOutputDim, conv, desc, filter, 4, a);
    ints(a, 4);
    CALL(cudnnDestroyConvolutionDescriptor, conv);
    CALL(cudnnDestroyFilterDescriptor, filter);
    CALL(cudnnDestroyTensorDescriptor, desc);
}

static void sequences(void) {
    cudnnRNNDescriptor_t rnn = NULL;
    cudnnRNNDataDescriptor_t data = NULL;
    cudnnSeqDataDescriptor_t sequence = NULL;
    cudnnAttnDescriptor_t attention = NULL;
    cudnnDropoutDescriptor_t dropout[2] = {NULL, NULL};
    const int lengths[2] = {5, 2}, dims[4] = {5, 2, 1, 3};
    const cudnnSeqDataAxis_t axes[4] = {CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_VECT_DIM};
    int got[4] = {0}, rest[16] = {0};
    cudnnSeqDataAxis_t order[4];
    float fill = 0.5f, filled = 0;
    uint32_t flags = 9;
    CALL(cudnnCreateRNNDescriptor, &rnn);
    CALL(cudnnSetRNNDescriptor_v8, rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
         CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 3, 4, 4, 2, NULL, 0);
    reset();
    CALL(cudnnGetRNNDescriptor_v8, rnn, AT(cudnnRNNAlgo_t, 0), AT(cudnnRNNMode_t, 1), AT(cudnnRNNBiasMode_t, 2),
         AT(cudnnDirectionMode_t, 3), AT(cudnnRNNInputMode_t, 4), AT(cudnnDataType_t, 5), AT(cudnnDataType_t, 6),
         AT(cudnnMathType_t, 7), &a[8], &a[9], &a[10], &a[11], &dropout[0], &flags);
    ints(a, 12);
    printf(" %u", flags);
    CALL(cudnnRNNSetClip_v8, rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_PROPAGATE_NAN, -2, 2);
    reset();
    CALL(cudnnRNNGetClip_v8, rnn, AT(cudnnRNNClipMode_t, 0), AT(cudnnNanPropagation_t, 1), &real[0], &real[1]);
    ints(a, 2), number(real[0]), number(real[1]);
    CALL(cudnnRNNSetClip_v9, rnn, CUDNN_RNN_CLIP_MINMAX, -3, 3);
    reset();
    CALL(cudnnRNNGetClip_v9, rnn, AT(cudnnRNNClipMode_t, 0), &real[0], &real[1]);
    ints(a, 1), number(real[0]), number(real[1]);
    CALL(cudnnDestroyRNNDescriptor, rnn);
    CALL(cudnnCreateRNNDataDescriptor, &data);
    CALL(cudnnSetRNNDataDescriptor, data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, 5, 2, 3, lengths, &fill);
    reset();
    CALL(cudnnGetRNNDataDescriptor, data, AT(cudnnDataType_t, 0), AT(cudnnRNNDataLayout_t, 1), &a[2], &a[3], &a[4], 2, got, &filled);
    ints(a, 5), ints(got, 2), number(filled);
    CALL(cudnnDestroyRNNDataDescriptor, data);
    CALL(cudnnCreateSeqDataDescriptor, &sequence);
    CALL(cudnnSetSeqDataDescriptor, sequence, CUDNN_DATA_FLOAT, 4, dims, axes, 2, lengths, &fill);
    reset(), filled = 0;
    CALL(cudnnGetSeqDataDescriptor, sequence, AT(cudnnDataType_t, 0), &a[1], 4, &a[2], order, &size, 2, got, &filled);
    ints(a, 6), ints((const int *)(const void *)order, 4), ints(got, 2), number(filled);
    printf(" %zu", size);
    CALL(cudnnDestroySeqDataDescriptor, sequence);
    CALL(cudnnCreateAttnDescriptor, &attention);
    CALL(cudnnSetAttnDescriptor, attention, CUDNN_ATTN_QUERYMAP_ONE_TO_ONE, 2, 0.5, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
         CUDNN_DEFAULT_MATH, NULL, NULL, 4, 5, 6, 2, 2, 3, 4, 5, 6, 2, 1);
    reset();
    CALL(cudnnGetAttnDescriptor, attention, AT(unsigned, 0), &a[1], &real[0], AT(cudnnDataType_t, 2), AT(cudnnDataType_t, 3),
         AT(cudnnMathType_t, 4), &dropout[0], &dropout[1], &rest[0], &rest[1], &rest[2], &rest[3], &rest[4], &rest[5], &rest[6],
         &rest[7], &rest[8], &rest[9], &rest[10]);
    ints(a, 5), number(real[0]), ints(rest, 11);
    CALL(cudnnDestroyAttnDescriptor, attention);
}

static void losses(void) {
    cudnnCTCLossDescriptor_t loss = NULL;
    CALL(cudnnCreateCTCLossDescriptor, &loss);
    CALL(cudnnSetCTCLossDescriptor, loss, CUDNN_DATA_FLOAT);
    reset();
    CALL(cudnnGetCTCLossDescriptor, loss, AT(cudnnDataType_t, 0));
    ints(a, 1);
    CALL(cudnnSetCTCLossDescriptorEx, loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN);
    reset();
    CALL(cudnnGetCTCLossDescriptorEx, loss, AT(cudnnDataType_t, 0), AT(cudnnLossNormalizationMode_t, 1), AT(cudnnNanPropagation_t, 2));
    ints(a, 3);
    CALL(cudnnSetCTCLossDescriptor_v8, loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_NONE, CUDNN_NOT_PROPAGATE_NAN, 9);
    reset();
    CALL(cudnnGetCTCLossDescriptor_v8, loss, AT(cudnnDataType_t, 0), AT(cudnnLossNormalizationMode_t, 1), AT(cudnnNanPropagation_t, 2),
         &a[3]);
    ints(a, 4);
    CALL(cudnnSetCTCLossDescriptor_v9, loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_CTC_SKIP_OOB_GRADIENTS, 8);
    reset();
    CALL(cudnnGetCTCLossDescriptor_v9, loss, AT(cudnnDataType_t, 0), AT(cudnnLossNormalizationMode_t, 1), AT(cudnnCTCGradMode_t, 2),
         &a[3]);
    ints(a, 4);
    CALL(cudnnDestroyCTCLossDescriptor, loss);
}

/* Descriptors in a pack outlive the caller's. */
static void fused(void) {
    cudnnFusedOpsConstParamPack_t constants = NULL;
    cudnnFusedOpsVariantParamPack_t variants = NULL;
    cudnnFusedOpsPlan_t plan = NULL;
    cudnnTensorDescriptor_t desc = tensor(2, 3, 4, 5), other = tensor(1, 1, 1, 1);
    const int aligned = CUDNN_PTR_ELEM_ALIGNED;
    double epsilon = 0.125;
    float data;
    void *at = NULL;
    CALL(cudnnCreateFusedOpsConstParamPack, &constants, CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS);
    CALL(cudnnSetFusedOpsConstParamPackAttribute, constants, CUDNN_PARAM_XDESC, desc);
    CALL(cudnnSetFusedOpsConstParamPackAttribute, constants, CUDNN_PARAM_XDATA_PLACEHOLDER, &aligned);
    CALL(cudnnDestroyTensorDescriptor, desc);
    reset();
    CALL(cudnnGetFusedOpsConstParamPackAttribute, constants, CUDNN_PARAM_XDESC, other, &a[0]);
    ints(a, 1);
    show(other);
    CALL(cudnnGetFusedOpsConstParamPackAttribute, constants, CUDNN_PARAM_XDATA_PLACEHOLDER, &a[1], &a[0]);
    ints(a, 2);
    CALL(cudnnDestroyFusedOpsConstParamPack, constants);
    CALL(cudnnCreateFusedOpsVariantParamPack, &variants, CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING);
    CALL(cudnnSetFusedOpsVariantParamPackAttribute, variants, CUDNN_PTR_BN_SCALE, &data);
    CALL(cudnnSetFusedOpsVariantParamPackAttribute, variants, CUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon);
    CALL(cudnnGetFusedOpsVariantParamPackAttribute, variants, CUDNN_PTR_BN_SCALE, &at);
    CHECK(at == &data);
    CALL(cudnnGetFusedOpsVariantParamPackAttribute, variants, CUDNN_SCALAR_DOUBLE_BN_EPSILON, &real[0]);
    number(real[0]);
    CALL(cudnnDestroyFusedOpsVariantParamPack, variants);
    CALL(cudnnCreateFusedOpsPlan, &plan, CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS);
    CALL(cudnnDestroyFusedOpsPlan, plan);
    CALL(cudnnDestroyTensorDescriptor, other);
}

/* A tensor of the graph interface. */
static void graphs(void) {
    cudnnBackendDescriptor_t desc = NULL;
    const int64_t dims[4] = {2, 3, 4, 5}, strides[4] = {60, 20, 5, 1}, name = 7, alignment = 16;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int64_t got[4] = {0}, count = 0;
    CALL(cudnnBackendCreateDescriptor, CUDNN_BACKEND_TENSOR_DESCRIPTOR, &desc);
    CALL(cudnnBackendSetAttribute, desc, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name);
    CALL(cudnnBackendSetAttribute, desc, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    CALL(cudnnBackendSetAttribute, desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    CALL(cudnnBackendSetAttribute, desc, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    CALL(cudnnBackendSetAttribute, desc, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    CALL(cudnnBackendFinalize, desc);
    CALL(cudnnBackendGetAttribute, desc, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, &count, got);
    printf(" %d %d %d %d %d", (int)count, (int)got[0], (int)got[1], (int)got[2], (int)got[3]);
    CALL(cudnnBackendDestroyDescriptor, desc);
    CALL(cudnnBackendCreateDescriptor, CUDNN_BACKEND_TENSOR_DESCRIPTOR, &desc);
    CALL(cudnnBackendInitialize, desc);
    CALL(cudnnBackendDestroyDescriptor, desc);
}

int main(int count, char **list) {
    cudnnHandle_t handle;
    if (count < 2) return 2;
    /* The first handle loads the original. */
    OK(cudnnCreate(&handle));
    original = dlopen(list[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND | RTLD_NOLOAD);
    CHECK(original != NULL);
    if (original == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (is_original = 0; is_original < 2; ++is_original) {
        library();
        tensors();
        transforms();
        layers();
        convolutions();
        sequences();
        losses();
        fused();
        graphs();
        size = 0;
        CALL(cudnnLongFFTCausalConv1dGetBufferSizes, 2, 3, 4096, 4096, CUDNN_DATA_FLOAT, &size, &(size_t){0});
    }
    printf("\n");
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
