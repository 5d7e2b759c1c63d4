/* The set-up code of a network: output dims, derived descriptors, sizes, and what a descriptor refuses. */
#include "check.h"

/* A strided, padded pooling behind a grouped convolution, as programs chain them. */
static void output_dims(void) {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnPoolingDescriptor_t pooling;
    int n, c, h, w, nd[5] = {-7, -7, -7, -7, -7};
    OK(cudnnCreateTensorDescriptor(&x));
    OK(cudnnCreateTensorDescriptor(&y));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreateConvolutionDescriptor(&convolution));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, 6, 224, 223));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, 64, 3, 7, 5));
    OK(cudnnSetConvolution2dDescriptor(convolution, 3, 2, 2, 1, 1, 2, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    BAD(cudnnGetConvolution2dForwardOutputDim(convolution, x, filter, &n, &c, &h, &w));
    OK(cudnnSetConvolutionGroupCount(convolution, 2));
    OK(cudnnGetConvolution2dForwardOutputDim(convolution, x, filter, &n, &c, &h, &w));
    /* 1 + (224 + 6 - 7) / 2 and 1 + 223 + 4 - 9 */
    CHECK(n == 2 && c == 64 && h == 112 && w == 219);
    OK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, n, c, h, w));
    OK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 3, 2, 1, 0, 2, 2));
    OK(cudnnGetPoolingNdForwardOutputDim(pooling, y, 4, nd));
    CHECK(nd[0] == 2 && nd[1] == 64 && nd[2] == 56 && nd[3] == 109 && nd[4] == -7);
    BAD(cudnnGetPoolingNdForwardOutputDim(pooling, y, 5, nd));
    BAD(cudnnGetPoolingNdForwardOutputDim(pooling, y, 4, NULL));
    BAD(cudnnGetPooling2dForwardOutputDim(pooling, y, &n, NULL, &h, &w));
    OK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_UINT8x4, 1, 8, 6, 6));
    OK(cudnnGetPooling2dForwardOutputDim(pooling, y, &n, &c, &h, &w));
    CHECK(n == 1 && c == 8 && h == 3 && w == 3);
    OK(cudnnDestroyPoolingDescriptor(pooling));
    BAD(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyConvolutionDescriptor(convolution));
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyTensorDescriptor(y));
    OK(cudnnDestroyTensorDescriptor(x));
}

/* Statistics of a normalisation, and the room that dropout takes. */
static void derived(void) {
    cudnnTensorDescriptor_t x, bn;
    cudnnDropoutDescriptor_t dropout;
    cudnnHandle_t handle;
    cudnnDataType_t type;
    int d[4], s[4];
    size_t size = 0;
    float probability = 0;
    void *states = NULL;
    unsigned long long seed = 0;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&x));
    OK(cudnnCreateTensorDescriptor(&bn));
    OK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NHWC, CUDNN_DATA_BFLOAT16, 5, 12, 7, 9));
    OK(cudnnDeriveBNTensorDescriptor(bn, x, CUDNN_BATCHNORM_SPATIAL));
    OK(cudnnGetTensor4dDescriptor(bn, &type, &d[0], &d[1], &d[2], &d[3], &s[0], &s[1], &s[2], &s[3]));
    CHECK(type == CUDNN_DATA_FLOAT && d[0] == 1 && d[1] == 12 && d[2] == 1 && d[3] == 1 && s[1] == 1);
    BAD(cudnnDeriveBNTensorDescriptor(bn, NULL, CUDNN_BATCHNORM_SPATIAL));
    OK(cudnnDropoutGetReserveSpaceSize(x, &size));
    CHECK(size == (5 * 12 * 7 * 9 + 31) / 32 * 4);
    BAD(cudnnDropoutGetReserveSpaceSize(x, NULL));
    OK(cudnnDropoutGetStatesSize(handle, &size));
    CHECK(size == 6488064);
#ifdef ON_DEVICE_H
    CHECK(cudaMalloc(&states, size) == cudaSuccess);
#else
    states = malloc(size);
    memset(states, CHECK_FILL, size);
#endif
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.25f, states, size, 1234567890123456789ULL));
    BAD(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, states, 15, 1));
    {
        void *got = NULL;
        OK(cudnnGetDropoutDescriptor(dropout, handle, &probability, &got, &seed));
        CHECK(probability == 0.25f && got == states && seed == 1234567890123456789ULL);
    }
    OK(cudnnDestroyDropoutDescriptor(dropout));
#ifdef ON_DEVICE_H
    CHECK(cudaFree(states) == cudaSuccess);
#else
    free(states);
#endif
    OK(cudnnDestroyTensorDescriptor(bn));
    OK(cudnnDestroyTensorDescriptor(x));
    OK(cudnnDestroy(handle));
}

/* A recurrent network over a batch of sequences; a descriptor that another one refers to must be alive. */
static void recurrent(void) {
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t data;
    cudnnDropoutDescriptor_t dropout, got_dropout = NULL;
    const int lengths[3] = {5, 2, 4};
    int got[5] = {-7, -7, -7, -7, -7}, layers = 0, most, batch, vector;
    cudnnDataType_t type;
    cudnnRNNDataLayout_t layout;
    float fill = 2.5f, got_fill = 0;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnCreateDropoutDescriptor(&dropout));
    EXPECT(CUDNN_STATUS_NOT_INITIALIZED, cudnnGetRNNDescriptor_v8(rnn, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                                  NULL, NULL, NULL, NULL, NULL, NULL));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
                                CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 8, 16, 16,
                                2, dropout, CUDNN_RNN_PADDED_IO_ENABLED));
    OK(cudnnGetRNNDescriptor_v8(rnn, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &layers,
                                &got_dropout, NULL));
    CHECK(layers == 2 && got_dropout == dropout);
    OK(cudnnDestroyDropoutDescriptor(dropout));
    BAD(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
                                 CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 8, 16, 16,
                                 2, dropout, 0));
    OK(cudnnCreateRNNDataDescriptor(&data));
    OK(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, 5, 3, 8, lengths,
                                 &fill));
    BAD(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, 5, 3, 8, lengths,
                                  NULL));
    OK(cudnnGetRNNDataDescriptor(data, &type, &layout, &most, &batch, &vector, 4, got, &got_fill));
    CHECK(type == CUDNN_DATA_FLOAT && layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED);
    CHECK(most == 5 && batch == 3 && vector == 8 && got_fill == fill);
    CHECK(got[0] == 5 && got[1] == 2 && got[2] == 4 && got[3] == 0 && got[4] == -7);
    OK(cudnnDestroyRNNDataDescriptor(data));
    OK(cudnnDestroyRNNDescriptor(rnn));
}

int main(void) {
    output_dims();
    derived();
    recurrent();
    return check_result("set_up");
}
