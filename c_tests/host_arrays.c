/* Arrays of the host that a call reads: no byte behind the entries that descriptors tell, and none at all where a call is refused
 * for its descriptors or lengths, which then do not tell how long an array is.
 *
 * Arrays end where a page begins that must not be touched; those of refused calls lie in such a page. */
#define _DEFAULT_SOURCE
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { T = 5, KEYS = 7, B = 3, VECTOR = 8 };

static cudnnHandle_t handle;
/* The first byte of a page without access. */
static int *nowhere;

/* `count` numbers, `value` each, that end where a page without access begins. */
static int *at_end(int count, int value) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = (char *)mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *array = (int *)(memory + page) - count, i;
    if (memory == (char *)MAP_FAILED || mprotect(memory, page, PROT_READ | PROT_WRITE) != 0) exit(2);
    for (i = 0; i < count; i++) array[i] = value;
    nowhere = (int *)(memory + page);
    return array;
}

static cudnnSeqDataDescriptor_t sequences(int time, int batch, int vector) {
    const cudnnSeqDataAxis_t axes[] = {CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_TIME_DIM,
                                       CUDNN_SEQDATA_VECT_DIM};
    int dims[CUDNN_SEQDATA_DIM_COUNT];
    int *lengths = at_end(batch, time);
    cudnnSeqDataDescriptor_t desc;
    dims[CUDNN_SEQDATA_TIME_DIM] = time, dims[CUDNN_SEQDATA_BATCH_DIM] = batch;
    dims[CUDNN_SEQDATA_BEAM_DIM] = 1, dims[CUDNN_SEQDATA_VECT_DIM] = vector;
    OK(cudnnCreateSeqDataDescriptor(&desc));
    OK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, (size_t)batch, lengths, NULL));
    /* Refused before a length is read: the number of lengths, the extents, the number of dimensions, the type. */
    BAD(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, (size_t)batch + 1, nowhere, NULL));
    BAD(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, SIZE_MAX, nowhere, NULL));
    CHECK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, 3, nowhere, (cudnnSeqDataAxis_t *)nowhere, (size_t)batch, nowhere,
                                    NULL) != CUDNN_STATUS_SUCCESS);
    CHECK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_INT8, CUDNN_SEQDATA_DIM_COUNT, dims, axes, (size_t)batch, nowhere, NULL) !=
          CUDNN_STATUS_SUCCESS);
    return desc;
}

static void attention(void) {
    cudnnAttnDescriptor_t desc;
    cudnnSeqDataDescriptor_t q = sequences(T, B, VECTOR), k = sequences(KEYS, B, VECTOR), o = sequences(T, B, VECTOR);
    /* Too many time steps, another number of samples, other vectors. */
    cudnnSeqDataDescriptor_t wrong[3];
    size_t weights, workspace, none, reserve;
    int *low = at_end(T, 0), *high = at_end(T, INT_MAX), *of_q = at_end(B, T), *of_k = at_end(B, KEYS);
    float *x = (float *)calloc(B * KEYS * VECTOR, sizeof *x), *y = (float *)calloc(B * T * VECTOR, sizeof *y);
    float *gradients[3], *w, *dw;
    void *ws, *rs;
    int i, k_first;
    wrong[0] = sequences(1 << 14, B, VECTOR), wrong[1] = sequences(T, B + 1, VECTOR), wrong[2] = sequences(T, B, VECTOR + 1);
    OK(cudnnCreateAttnDescriptor(&desc));
    OK(cudnnSetAttnDescriptor(desc, CUDNN_ATTN_DISABLE_PROJ_BIASES, 2, 1.0, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH,
                              NULL, NULL, VECTOR, VECTOR, VECTOR, 4, 4, 4, VECTOR, T, KEYS, B, 1));
    OK(cudnnGetMultiHeadAttnBuffers(handle, desc, &weights, &workspace, NULL));
    OK(cudnnGetMultiHeadAttnBuffers(handle, desc, &weights, &none, &reserve));
    w = (float *)calloc(1, weights), dw = (float *)calloc(1, weights), ws = malloc(workspace + 1), rs = malloc(reserve + 1);
    for (i = 0; i < 3; i++) gradients[i] = (float *)calloc(B * KEYS * VECTOR, sizeof *x);

    /* All steps, each step, and training: exact arrays. */
    for (i = -1; i < T; i++)
        OK(cudnnMultiHeadAttnForward(handle, desc, i, low, high, of_q, of_k, q, x, NULL, k, x, k, x, o, y, weights, w, workspace, ws, 0,
                                     NULL));
    OK(cudnnMultiHeadAttnForward(handle, desc, -1, low, high, of_q, of_k, q, x, NULL, k, x, k, x, o, y, weights, w, workspace, ws,
                                 reserve, rs));
    OK(cudnnMultiHeadAttnBackwardData(handle, desc, low, high, of_q, of_k, o, y, q, gradients[0], x, k, gradients[1], x, k, gradients[2],
                                      x, weights, w, workspace, ws, reserve, rs));
    /* Each descriptor in turn is not the one that the others fit. */
    for (i = 0; i < 3; i++)
        for (k_first = 0; k_first < 4; k_first++) {
            cudnnSeqDataDescriptor_t of[4];
            of[0] = q, of[1] = k, of[2] = k, of[3] = o;
            of[k_first] = wrong[i];
            BAD(cudnnMultiHeadAttnForward(handle, desc, -1, nowhere, nowhere, nowhere, nowhere, of[0], x, NULL, of[1], x, of[2], x,
                                          of[3], y, weights, w, workspace, ws, 0, NULL));
            BAD(cudnnMultiHeadAttnForward(handle, desc, 0, nowhere, nowhere, nowhere, nowhere, of[0], x, NULL, of[1], x, of[2], x,
                                          of[3], y, weights, w, workspace, ws, 0, NULL));
            BAD(cudnnMultiHeadAttnForward(handle, desc, -1, nowhere, nowhere, nowhere, nowhere, of[0], x, NULL, of[1], x, of[2], x,
                                          of[3], y, weights, w, workspace, ws, reserve, rs));
            BAD(cudnnMultiHeadAttnBackwardData(handle, desc, nowhere, nowhere, nowhere, nowhere, of[3], y, of[0], gradients[0], x,
                                               of[1], gradients[1], x, of[2], gradients[2], x, weights, w, workspace, ws, reserve, rs));
        }
    /* A time step that there is not, one in training, and memory that is too small. */
    BAD(cudnnMultiHeadAttnForward(handle, desc, T, nowhere, nowhere, nowhere, nowhere, q, x, NULL, k, x, k, x, o, y, weights, w,
                                  workspace, ws, 0, NULL));
    BAD(cudnnMultiHeadAttnForward(handle, desc, 0, nowhere, nowhere, nowhere, nowhere, q, x, NULL, k, x, k, x, o, y, weights, w,
                                  workspace, ws, reserve, rs));
    BAD(cudnnMultiHeadAttnForward(handle, desc, -1, nowhere, nowhere, nowhere, nowhere, q, x, NULL, k, x, k, x, o, y, weights - 1, w,
                                  workspace, ws, 0, NULL));
    BAD(cudnnMultiHeadAttnBackwardData(handle, desc, nowhere, nowhere, nowhere, nowhere, o, y, q, gradients[0], x, k, gradients[1], x,
                                       k, gradients[2], x, weights, w, workspace, ws, reserve - 1, rs));
    for (i = 0; i < 3; i++) {
        free(gradients[i]);
        OK(cudnnDestroySeqDataDescriptor(wrong[i]));
    }
    free(x), free(y), free(w), free(dw), free(ws), free(rs);
    OK(cudnnDestroySeqDataDescriptor(q));
    OK(cudnnDestroySeqDataDescriptor(k));
    OK(cudnnDestroySeqDataDescriptor(o));
    OK(cudnnDestroyAttnDescriptor(desc));
}

static void ctc(void) {
    enum { ROWS = 6, CLASSES = 4, LABEL = 2 };
    const int dims[3] = {ROWS, B, CLASSES}, strides[3] = {B * CLASSES, CLASSES, 1}, others[3] = {ROWS, B + 1, CLASSES};
    cudnnTensorDescriptor_t probs, other;
    cudnnCTCLossDescriptor_t loss;
    float *x = (float *)calloc(ROWS * B * CLASSES, sizeof *x), *gradients = (float *)calloc(ROWS * B * CLASSES, sizeof *x), costs[B];
    int *labels = at_end(B * LABEL, 1), *of_labels = at_end(B, LABEL), *of_inputs = at_end(B, ROWS), i;
    void *workspace;
    size_t size;
    for (i = 0; i < B * LABEL; i++) labels[i] = 1 + i % 2;
    OK(cudnnCreateTensorDescriptor(&probs));
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnCreateCTCLossDescriptor(&loss));
    OK(cudnnSetTensorNdDescriptor(probs, CUDNN_DATA_FLOAT, 3, dims, strides));
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 3, others, strides));
    OK(cudnnSetCTCLossDescriptorEx(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN));
    OK(cudnnGetCTCLossWorkspaceSize(handle, probs, probs, labels, of_labels, of_inputs, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, &size));
    workspace = malloc(size);
    OK(cudnnCTCLoss(handle, probs, x, labels, of_labels, of_inputs, costs, probs, gradients, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss,
                    workspace, size));
    /* Descriptors that do not fit: no array is read. */
    BAD(cudnnGetCTCLossWorkspaceSize(handle, other, probs, nowhere, nowhere, nowhere, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, &size));
    BAD(cudnnCTCLoss(handle, other, x, nowhere, nowhere, nowhere, costs, probs, gradients, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss,
                     workspace, size));
    /* Lengths that are none: no label is read, however many there would be. */
    of_labels[1] = -1;
    BAD(cudnnCTCLoss(handle, probs, x, nowhere, of_labels, of_inputs, costs, probs, gradients, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss,
                     workspace, size));
    of_labels[1] = LABEL, of_inputs[B - 1] = ROWS + 1;
    BAD(cudnnCTCLoss(handle, probs, x, nowhere, of_labels, of_inputs, costs, probs, gradients, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss,
                     workspace, size));
    /* A sum of lengths that no workspace of this size is for. */
    of_inputs[B - 1] = ROWS, of_labels[0] = INT_MAX, of_labels[1] = INT_MAX;
    BAD(cudnnCTCLoss(handle, probs, x, nowhere, of_labels, of_inputs, costs, probs, gradients, CUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC,
                     loss, workspace, size));
    free(x), free(gradients), free(workspace);
    OK(cudnnDestroyCTCLossDescriptor(loss));
    OK(cudnnDestroyTensorDescriptor(probs));
    OK(cudnnDestroyTensorDescriptor(other));
}

/* Arrays as long as another argument says. */
static void counted(void) {
    int *two = at_end(2, 1), *three = at_end(3, 4), *four = at_end(4, 4), *lengths = at_end(B, T);
    cudnnTensorDescriptor_t tensor;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnPoolingDescriptor_t pooling;
    cudnnTensorTransformDescriptor_t transform;
    cudnnSpatialTransformerDescriptor_t transformer;
    cudnnRNNDataDescriptor_t data;
    uint32_t *pads = (uint32_t *)at_end(4, 0), *fold = (uint32_t *)at_end(2, 1);
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, four, four));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 3, three, three));
    OK(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 4, four));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, -1, nowhere, nowhere));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 0, nowhere, nowhere));
    CHECK(cudnnSetTensorNdDescriptor(tensor, (cudnnDataType_t)99, 4, nowhere, nowhere) != CUDNN_STATUS_SUCCESS);
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, four));
    CHECK(cudnnSetFilterNdDescriptor(filter, (cudnnDataType_t)99, CUDNN_TENSOR_NCHW, 4, nowhere) != CUDNN_STATUS_SUCCESS);
    CHECK(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, -1, nowhere) != CUDNN_STATUS_SUCCESS);
    OK(cudnnCreateConvolutionDescriptor(&convolution));
    OK(cudnnSetConvolutionNdDescriptor(convolution, 2, two, two, two, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT));
    CHECK(cudnnSetConvolutionNdDescriptor(convolution, -1, nowhere, nowhere, nowhere, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT) !=
          CUDNN_STATUS_SUCCESS);
    CHECK(cudnnSetConvolutionNdDescriptor(convolution, 99, nowhere, nowhere, nowhere, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT) !=
          CUDNN_STATUS_SUCCESS);
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnSetPoolingNdDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, two, two, two));
    CHECK(cudnnSetPoolingNdDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 99, nowhere, nowhere, nowhere) !=
          CUDNN_STATUS_SUCCESS);
    OK(cudnnCreateTensorTransformDescriptor(&transform));
    OK(cudnnSetTensorTransformDescriptor(transform, 4, CUDNN_TENSOR_NHWC, (int32_t *)pads, (int32_t *)pads, fold, CUDNN_TRANSFORM_FOLD));
    CHECK(cudnnSetTensorTransformDescriptor(transform, 1, CUDNN_TENSOR_NHWC, nowhere, nowhere, (uint32_t *)nowhere,
                                            CUDNN_TRANSFORM_FOLD) != CUDNN_STATUS_SUCCESS);
    CHECK(cudnnSetTensorTransformDescriptor(transform, 99, CUDNN_TENSOR_NHWC, nowhere, nowhere, (uint32_t *)nowhere,
                                            CUDNN_TRANSFORM_FOLD) != CUDNN_STATUS_SUCCESS);
    OK(cudnnCreateSpatialTransformerDescriptor(&transformer));
    OK(cudnnSetSpatialTransformerNdDescriptor(transformer, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, four));
    OK(cudnnCreateRNNDataDescriptor(&data));
    OK(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, T, B, VECTOR, lengths, NULL));
    BAD(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, T, -1, VECTOR, nowhere, NULL));
    BAD(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 0, B, VECTOR, nowhere, NULL));
    BAD(cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, (cudnnRNNDataLayout_t)99, T, B, VECTOR, nowhere, NULL));
    OK(cudnnDestroyRNNDataDescriptor(data));
    OK(cudnnDestroySpatialTransformerDescriptor(transformer));
    OK(cudnnDestroyTensorTransformDescriptor(transform));
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyConvolutionDescriptor(convolution));
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyTensorDescriptor(tensor));
}

int main(void) {
    OK(cudnnCreate(&handle));
    attention();
    ctc();
    counted();
    OK(cudnnDestroy(handle));
    return check_result("host_arrays");
}
