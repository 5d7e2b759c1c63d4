/* Memory that runs out inside calls of several steps - recurrent networks, attention, long causal convolutions, CTC, graphs' fused
 * operations, strided gradients - forward and backward: they say so, and have written nothing, the reserve space included, so that the
 * call repeated has the bits of one that was never disturbed.
 *
 * Every allocation of a call fails once, and all after it; on threads of their own, for the first call of a thread takes the memory that
 * it keeps. Not under valgrind, which has an allocator of its own. */
#define _DEFAULT_SOURCE
#include <limits.h>

#include "check.h"
#include "failing_memory.h"

#ifdef IS_FAILING
#include "exhausted.h"

static cudnnHandle_t handle;

/* Recurrent networks. */
enum { STEPS = 12, BATCH = 8, INPUT = 96, HIDDEN = 160, LAYERS = 2 };

static cudnnRNNDescriptor_t rnn;
static cudnnRNNDataDescriptor_t x_desc, y_desc;
static float *x, *w, *y, *dy, *dx, *dw;
static size_t weights_size, work_size, reserve_size;
static void *work, *reserve;

static cudnnRNNDataDescriptor_t sequences(int vector) {
    int lengths[BATCH], i;
    cudnnRNNDataDescriptor_t desc;
    for (i = 0; i < BATCH; i++) lengths[i] = STEPS - i;
    OK(cudnnCreateRNNDataDescriptor(&desc));
    OK(cudnnSetRNNDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, STEPS, BATCH, vector, lengths, NULL));
    return desc;
}

static cudnnStatus_t rnn_forward(void) {
    return cudnnRNNForward(handle, rnn, CUDNN_FWD_MODE_TRAINING, NULL, x_desc, x, y_desc, y, NULL, NULL, NULL, NULL, NULL, NULL,
                           weights_size, w, work_size, work, reserve_size, reserve);
}

static cudnnStatus_t rnn_data(void) {
    return cudnnRNNBackwardData_v8(handle, rnn, NULL, y_desc, y, dy, x_desc, dx, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                   weights_size, w, work_size, work, reserve_size, reserve);
}

static cudnnStatus_t rnn_weights(void) {
    return cudnnRNNBackwardWeights_v8(handle, rnn, CUDNN_WGRAD_MODE_ADD, NULL, x_desc, x, NULL, NULL, y_desc, y, weights_size, dw,
                                      work_size, work, reserve_size, reserve);
}

static void recurrent(cudnnRNNMode_t mode, int projected) {
    cudnnDropoutDescriptor_t dropout;
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0, NULL, 0, 0));
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, mode, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, INPUT, HIDDEN, projected ? 64 : HIDDEN,
                                LAYERS, dropout, CUDNN_RNN_PADDED_IO_ENABLED));
    x_desc = sequences(INPUT), y_desc = sequences(2 * (projected ? 64 : HIDDEN));
    OK(cudnnGetRNNWeightSpaceSize(handle, rnn, &weights_size));
    OK(cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_TRAINING, x_desc, &work_size, &reserve_size));
    x = numbers(STEPS * BATCH * INPUT), w = numbers(weights_size / sizeof *w), dy = numbers(STEPS * BATCH * 2 * HIDDEN);
    work = checked(malloc(work_size));
    reserve = output(reserve_size), y = (float *)output(STEPS * BATCH * 2 * HIDDEN * sizeof *y);
    dx = (float *)output(STEPS * BATCH * INPUT * sizeof *dx), dw = (float *)output(weights_size);
    exhausted("cudnnRNNForward", rnn_forward);
    exhausted("cudnnRNNBackwardData_v8", rnn_data);
    exhausted("cudnnRNNBackwardWeights_v8", rnn_weights);
    clear();
    free(x), free(w), free(dy), free(work);
    OK(cudnnDestroyRNNDataDescriptor(x_desc));
    OK(cudnnDestroyRNNDataDescriptor(y_desc));
    OK(cudnnDestroyRNNDescriptor(rnn));
    OK(cudnnDestroyDropoutDescriptor(dropout));
}

/* Attention. */
enum { TIME = 40, SAMPLES = 3, VECTOR = 128, HEADS = 4, CELLS = TIME * SAMPLES * VECTOR };

static cudnnAttnDescriptor_t attention;
static cudnnSeqDataDescriptor_t vectors;
static int low[TIME], high[TIME], lengths[SAMPLES];
static float *dk, *dv;

static cudnnStatus_t attention_forward(void) {
    return cudnnMultiHeadAttnForward(handle, attention, -1, low, high, lengths, lengths, vectors, x, NULL, vectors, x, vectors, x,
                                     vectors, y, weights_size, w, work_size, work, reserve_size, reserve);
}

static cudnnStatus_t attention_data(void) {
    return cudnnMultiHeadAttnBackwardData(handle, attention, low, high, lengths, lengths, vectors, dy, vectors, dx, x, vectors, dk, x,
                                          vectors, dv, x, weights_size, w, work_size, work, reserve_size, reserve);
}

static cudnnStatus_t attention_weights(void) {
    return cudnnMultiHeadAttnBackwardWeights(handle, attention, CUDNN_WGRAD_MODE_ADD, vectors, x, vectors, x, vectors, x, vectors, dy,
                                             weights_size, w, dw, work_size, work, reserve_size, reserve);
}

static void attentive(void) {
    const int dims[CUDNN_SEQDATA_DIM_COUNT] = {TIME, SAMPLES, 1, VECTOR};
    const cudnnSeqDataAxis_t axes[] = {CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM,
                                       CUDNN_SEQDATA_VECT_DIM};
    int i;
    for (i = 0; i < TIME; i++) low[i] = 0, high[i] = INT_MAX;
    for (i = 0; i < SAMPLES; i++) lengths[i] = TIME;
    OK(cudnnCreateSeqDataDescriptor(&vectors));
    OK(cudnnSetSeqDataDescriptor(vectors, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, SAMPLES, lengths, NULL));
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnSetAttnDescriptor(attention, CUDNN_ATTN_ENABLE_PROJ_BIASES, HEADS, 0.1, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
                              CUDNN_DEFAULT_MATH, NULL, NULL, VECTOR, VECTOR, VECTOR, 64, 64, 64, VECTOR, TIME, TIME, SAMPLES, 1));
    OK(cudnnGetMultiHeadAttnBuffers(handle, attention, &weights_size, &work_size, &reserve_size));
    x = numbers(CELLS), w = numbers(weights_size / sizeof *w), dy = numbers(CELLS), work = checked(malloc(work_size + 1));
    reserve = output(reserve_size), y = (float *)output(CELLS * sizeof *y), dw = (float *)output(weights_size);
    dx = (float *)output(CELLS * sizeof *dx), dk = (float *)output(CELLS * sizeof *dk), dv = (float *)output(CELLS * sizeof *dv);
    exhausted("cudnnMultiHeadAttnForward", attention_forward);
    exhausted("cudnnMultiHeadAttnBackwardData", attention_data);
    exhausted("cudnnMultiHeadAttnBackwardWeights", attention_weights);
    clear();
    free(x), free(w), free(dy), free(work);
    OK(cudnnDestroyAttnDescriptor(attention));
    OK(cudnnDestroySeqDataDescriptor(vectors));
}

/* Long causal convolutions. */
enum { ROWS = 2, CHANNELS = 3, LENGTH = 3000, TAPS = 1500 };

static cudnnStatus_t long_forward(void) {
    return cudnnLongFFTCausalConv1dForward(NULL, x, w, y, ROWS, CHANNELS, LENGTH, TAPS, CUDNN_DATA_FLOAT, work, work_size, reserve,
                                           reserve_size);
}

static cudnnStatus_t long_backward(void) {
    return cudnnLongFFTCausalConv1dBackward(NULL, dy, dx, dw, ROWS, CHANNELS, LENGTH, TAPS, CUDNN_DATA_FLOAT, work, work_size, reserve,
                                            reserve_size);
}

static cudnnStatus_t causal_forward(void) {
    return cudnnFFTCausalConv1dForward(NULL, x, w, y, ROWS, CHANNELS, LENGTH, TAPS, CUDNN_DATA_FLOAT);
}

static void causal(void) {
    OK(cudnnLongFFTCausalConv1dGetBufferSizes(ROWS, CHANNELS, LENGTH, TAPS, CUDNN_DATA_FLOAT, &work_size, &reserve_size));
    x = numbers(ROWS * CHANNELS * LENGTH), w = numbers(CHANNELS * TAPS), dy = numbers(ROWS * CHANNELS * LENGTH);
    work = checked(malloc(work_size + 1));
    reserve = output(reserve_size), y = (float *)output(ROWS * CHANNELS * LENGTH * sizeof *y);
    dx = (float *)output(ROWS * CHANNELS * LENGTH * sizeof *dx), dw = (float *)output(CHANNELS * TAPS * sizeof *dw);
    exhausted("cudnnFFTCausalConv1dForward", causal_forward);
    exhausted("cudnnLongFFTCausalConv1dForward", long_forward);
    exhausted("cudnnLongFFTCausalConv1dBackward", long_backward);
    clear();
    free(x), free(w), free(dy), free(work);
}

/* A strided gradient of the data, whose phases are computed one after the other, and blocked channels, which are several steps. */
static cudnnTensorDescriptor_t of_x, of_y, of_z;
static cudnnFilterDescriptor_t of_w;
static cudnnConvolutionDescriptor_t convolution;
static const float one = 1, two = 2;

static cudnnStatus_t strided_data(void) {
    return cudnnConvolutionBackwardData(handle, &one, of_w, w, of_y, dy, convolution, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, NULL, 0, &two,
                                        of_x, dx);
}

static cudnnStatus_t filter_gradient(void) {
    return cudnnConvolutionBackwardFilter(handle, &one, of_x, x, of_y, dy, convolution, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, NULL, 0,
                                          &two, of_w, dw);
}

static cudnnStatus_t sum(void) { return cudnnAddTensor(handle, &one, of_z, x, &two, of_x, dx); }

static void strided(void) {
    enum { N = 2, C = 48, SIDE = 33, K = 40, OUT = 17 };
    OK(cudnnCreateTensorDescriptor(&of_x));
    OK(cudnnCreateTensorDescriptor(&of_y));
    OK(cudnnCreateTensorDescriptor(&of_z));
    OK(cudnnCreateFilterDescriptor(&of_w));
    OK(cudnnCreateConvolutionDescriptor(&convolution));
    OK(cudnnSetTensor4dDescriptor(of_x, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, SIDE, SIDE));
    OK(cudnnSetTensor4dDescriptor(of_y, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, K, OUT, OUT));
    OK(cudnnSetTensor4dDescriptor(of_z, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, SIDE, SIDE));
    OK(cudnnSetFilter4dDescriptor(of_w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, 5, 5));
    OK(cudnnSetConvolution2dDescriptor(convolution, 2, 2, 2, 2, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    x = numbers(N * C * SIDE * SIDE), w = numbers(K * C * 25), dy = numbers(N * K * OUT * OUT);
    dx = (float *)output(N * C * SIDE * SIDE * sizeof *dx), dw = (float *)output(K * C * 25 * sizeof *dw);
    exhausted("cudnnConvolutionBackwardData", strided_data);
    exhausted("cudnnConvolutionBackwardFilter", filter_gradient);
    exhausted("cudnnAddTensor", sum);
    clear();
    free(x), free(w), free(dy);
    OK(cudnnDestroyTensorDescriptor(of_x));
    OK(cudnnDestroyTensorDescriptor(of_y));
    OK(cudnnDestroyTensorDescriptor(of_z));
    OK(cudnnDestroyFilterDescriptor(of_w));
    OK(cudnnDestroyConvolutionDescriptor(convolution));
}

/* CTC with labels of the host, whose plan writes them to the workspace first. */
enum { FRAMES = 60, CLASSES = 12, LABEL = 9 };

static cudnnCTCLossDescriptor_t loss;
static int labels[SAMPLES * LABEL], of_labels[SAMPLES], of_inputs[SAMPLES];

static cudnnStatus_t ctc_loss(void) {
    return cudnnCTCLoss(handle, of_x, x, labels, of_labels, of_inputs, y, of_x, dx, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, work,
                        work_size);
}

static void ctc(void) {
    const int dims[3] = {FRAMES, SAMPLES, CLASSES}, strides[3] = {SAMPLES * CLASSES, CLASSES, 1};
    int i;
    for (i = 0; i < SAMPLES * LABEL; i++) labels[i] = 1 + i % (CLASSES - 1);
    for (i = 0; i < SAMPLES; i++) of_labels[i] = LABEL, of_inputs[i] = FRAMES;
    OK(cudnnCreateTensorDescriptor(&of_x));
    OK(cudnnSetTensorNdDescriptor(of_x, CUDNN_DATA_FLOAT, 3, dims, strides));
    OK(cudnnCreateCTCLossDescriptor(&loss));
    OK(cudnnSetCTCLossDescriptorEx(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN));
    OK(cudnnGetCTCLossWorkspaceSize(handle, of_x, of_x, labels, of_labels, of_inputs, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, &work_size));
    x = numbers(FRAMES * SAMPLES * CLASSES), work = checked(malloc(work_size));
    y = (float *)output(SAMPLES * sizeof *y), dx = (float *)output(FRAMES * SAMPLES * CLASSES * sizeof *dx);
    exhausted("cudnnCTCLoss", ctc_loss);
    clear();
    free(x), free(work);
    OK(cudnnDestroyCTCLossDescriptor(loss));
    OK(cudnnDestroyTensorDescriptor(of_x));
}

int main(void) {
    setenv("CUDNN_SHIM_NUM_THREADS", "2", 1);
    OK(cudnnCreate(&handle));
    recurrent(CUDNN_LSTM, 0);
    recurrent(CUDNN_LSTM, 1);
    recurrent(CUDNN_GRU, 0);
    attentive();
    causal();
    strided();
    ctc();
    /* A program that no call refuses shows nothing. */
    CHECK(refused > 10);
    OK(cudnnDestroy(handle));
    return check_result("no_memory_training");
}
#else
int main(void) { return 0; }
#endif
