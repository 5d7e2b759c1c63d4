/* The calls that later versions removed and that work: algorithms, their performances, clipping, version checks.
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
    BAD(cudnnRNNSetClip(0, rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_PROPAGATE_NAN, -2, 3));
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

    /* Not built: neither success nor a choice. */
    CHECK(cudnnGetConvolutionForwardAlgorithm(handle, 0, 0, 0, 0, CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT,
                                              1 << 20, &forward) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(forward == CUDNN_CONVOLUTION_FWD_ALGO_FFT);
    OK(cudnnDestroy(handle));
    return 0;
}

int main(void) { return run(); }
