/* The calls that later versions removed and that work: algorithms, their performances, clipping, version checks, preferences.
 * Returns the number of the first line that went wrong. */
#include <cudnn.h>
#include <string.h>

#define OK(call)                                             \
    do {                                                     \
        if ((call) != CUDNN_STATUS_SUCCESS) return __LINE__; \
    } while (0)
#define BAD(call)                                              \
    do {                                                       \
        if ((call) != CUDNN_STATUS_BAD_PARAM) return __LINE__; \
    } while (0)
#define CHECK(condition)                   \
    do {                                   \
        if (!(condition)) return __LINE__; \
    } while (0)

static int run(void) {
    cudnnHandle_t handle;
    cudnnAlgorithmDescriptor_t algorithm, copy, seen = 0;
    cudnnAlgorithmPerformance_t found[3] = {0, 0, 0};
    cudnnAlgorithm_t value, read;
    cudnnRNNDescriptor_t rnn;
    cudnnRNNClipMode_t mode = CUDNN_RNN_CLIP_NONE;
    cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    double low = 0, high = 0;
    float time = 0;
    size_t memory = 0;
    cudnnConvolutionFwdAlgo_t forward = CUDNN_CONVOLUTION_FWD_ALGO_FFT;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    const float image[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, filter[4] = {1, 2, 3, 4}, one = 1, zero = 0;
    float sums[4];
    char workspace[1 << 16];
    size_t bytes;
    int preference;
    OK(cudnnCreate(&handle));

    BAD(cudnnCreateAlgorithmDescriptor(0));
    OK(cudnnCreateAlgorithmDescriptor(&algorithm));
    OK(cudnnCreateAlgorithmDescriptor(&copy));
    memset(&value, 0, sizeof value);
    value.algo.convFwdAlgo = CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD;
    OK(cudnnSetAlgorithmDescriptor(algorithm, value));
    OK(cudnnCopyAlgorithmDescriptor(algorithm, copy));
    value.algo.RNNAlgo = CUDNN_RNN_ALGO_PERSIST_STATIC;
    OK(cudnnSetAlgorithmDescriptor(algorithm, value));
    BAD(cudnnGetAlgorithmDescriptor(copy, 0));
    OK(cudnnGetAlgorithmDescriptor(copy, &read));
    CHECK(read.algo.convFwdAlgo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
    OK(cudnnGetAlgorithmDescriptor(algorithm, &read));
    CHECK(read.algo.RNNAlgo == CUDNN_RNN_ALGO_PERSIST_STATIC);

    BAD(cudnnCreateAlgorithmPerformance(found, -1));
    BAD(cudnnCreateAlgorithmPerformance(0, 1));
    OK(cudnnCreateAlgorithmPerformance(found, 3));
    CHECK(found[0] != found[1] && found[1] != found[2] && found[2] != 0);
    OK(cudnnSetAlgorithmPerformance(found[1], copy, CUDNN_STATUS_NOT_SUPPORTED, 1.5f, 4096));
    OK(cudnnGetAlgorithmPerformance(found[1], &seen, &status, &time, &memory));
    CHECK(seen == copy && status == CUDNN_STATUS_NOT_SUPPORTED && time == 1.5f && memory == 4096);
    OK(cudnnGetAlgorithmPerformance(found[0], &seen, &status, &time, &memory));
    CHECK(seen == 0 && status == CUDNN_STATUS_SUCCESS && time == 0 && memory == 0);
    BAD(cudnnGetAlgorithmPerformance(found[0], &seen, 0, &time, &memory));
    OK(cudnnDestroyAlgorithmPerformance(found, 3));
    BAD(cudnnDestroyAlgorithmPerformance(found, 3));
    BAD(cudnnGetAlgorithmPerformance(found[2], &seen, &status, &time, &memory));
    OK(cudnnDestroyAlgorithmDescriptor(copy));
    BAD(cudnnDestroyAlgorithmDescriptor(copy));
    BAD(cudnnCopyAlgorithmDescriptor(algorithm, copy));
    OK(cudnnDestroyAlgorithmDescriptor(algorithm));
    OK(cudnnDestroyAlgorithmDescriptor(0));

    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnRNNSetClip(handle, rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_PROPAGATE_NAN, -2, 3));
    BAD(cudnnRNNSetClip(handle, rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_PROPAGATE_NAN, 3, -2));
    OK(cudnnRNNSetClip(0, rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_PROPAGATE_NAN, -2, 3));
    OK(cudnnRNNGetClip(handle, rnn, &mode, &nan, &low, &high));
    CHECK(mode == CUDNN_RNN_CLIP_MINMAX && nan == CUDNN_PROPAGATE_NAN && low == -2 && high == 3);
    OK(cudnnDestroyRNNDescriptor(rnn));
    BAD(cudnnRNNGetClip(handle, rnn, &mode, &nan, &low, &high));

    OK(cudnnOpsInferVersionCheck());
    OK(cudnnOpsTrainVersionCheck());
    OK(cudnnCnnInferVersionCheck());
    OK(cudnnCnnTrainVersionCheck());
    OK(cudnnAdvInferVersionCheck());
    OK(cudnnAdvTrainVersionCheck());

    OK(cudnnCreateTensorDescriptor(&x));
    OK(cudnnCreateTensorDescriptor(&y));
    OK(cudnnCreateFilterDescriptor(&w));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 3, 3));
    OK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 2, 2));
    OK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 2, 2));
    OK(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    BAD(cudnnGetConvolutionForwardAlgorithm(handle, 0, w, conv, y, CUDNN_CONVOLUTION_FWD_PREFER_FASTEST, 0, &forward));
    BAD(cudnnGetConvolutionForwardAlgorithm(handle, x, w, conv, y, CUDNN_CONVOLUTION_FWD_PREFER_FASTEST, 0, 0));
    CHECK(forward == CUDNN_CONVOLUTION_FWD_ALGO_FFT);
    for (preference = 0; preference < 3; preference++) {
        /* No workspace, the fastest, what fits into a limit: what is chosen runs with what it asks for. */
        OK(cudnnGetConvolutionForwardAlgorithm(handle, x, w, conv, y, (cudnnConvolutionFwdPreference_t)preference,
                                               sizeof workspace, &forward));
        OK(cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, conv, y, forward, &bytes));
        CHECK(bytes <= sizeof workspace);
        memset(sums, 0, sizeof sums);
        OK(cudnnConvolutionForward(handle, &one, x, image, w, filter, conv, forward, workspace, bytes, &zero, y, sums));
        CHECK(sums[0] == 37 && sums[1] == 47 && sums[2] == 67 && sums[3] == 77);
    }
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w));
    OK(cudnnDestroyTensorDescriptor(y));
    OK(cudnnDestroyTensorDescriptor(x));
    OK(cudnnDestroy(handle));
    return 0;
}

int main(void) { return run(); }
