/* Recurrent networks as programs use them: PyTorch's walk over the weights, ONNX Runtime's calls of version 8 on padded sequences,
 * some of length 0, and a step of training. */
#include <math.h>

#include "check.h"

enum { INPUT = 3, HIDDEN = 4, BATCH = 3, STEPS = 5, GATES = 4 };

static cudnnHandle_t handle;

/* One view of the G matrices of a kind: each follows the one before it, and nothing is left over. */
static void walk(cudnnRNNDescriptor_t rnn, int layers, int directions) {
    size_t size = 0, cursor = 0;
    cudnnTensorDescriptor_t m, b;
    int part, id, pass;
    OK(cudnnGetRNNWeightSpaceSize(handle, rnn, &size));
    OK(cudnnCreateTensorDescriptor(&m));
    OK(cudnnCreateTensorDescriptor(&b));
    for (pass = 0; pass < 2; ++pass) {
        for (part = 0; part < layers * directions; ++part) {
            for (id = 0; id < 2 * GATES; ++id) {
                void *at[2] = {NULL, NULL};
                int rank = 0, dims[3], strides[3];
                cudnnDataType_t type;
                OK(cudnnGetRNNWeightParams(handle, rnn, part, size, NULL, id, m, &at[0], b, &at[1]));
                OK(cudnnGetTensorNdDescriptor(pass ? b : m, 3, &type, &rank, dims, strides));
                CHECK(rank == 3 && type == CUDNN_DATA_FLOAT && dims[1] == HIDDEN);
                CHECK((size_t)at[pass] == cursor);
                cursor += sizeof(float) * dims[0] * dims[1] * dims[2];
            }
        }
    }
    CHECK(cursor == size);
    OK(cudnnDestroyTensorDescriptor(m));
    OK(cudnnDestroyTensorDescriptor(b));
}

static cudnnRNNDataDescriptor_t sequences(int vector, const int *lengths, float *fill) {
    cudnnRNNDataDescriptor_t desc;
    OK(cudnnCreateRNNDataDescriptor(&desc));
    OK(cudnnSetRNNDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, STEPS, BATCH, vector,
                                 lengths, fill));
    return desc;
}

static void forward_and_back(int layers, int directions) {
    static const int lengths[BATCH] = {STEPS, 0, 2};
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t x_desc, y_desc;
    cudnnTensorDescriptor_t state;
    size_t weights = 0, work = 0, reserve = 0, i;
    float fill = -7;
    int t, b, k, dims[3], strides[3], width = directions * HIDDEN, states = layers * directions * BATCH * HIDDEN;
    float *x = calloc(STEPS * BATCH * INPUT, sizeof *x), *dx = calloc(STEPS * BATCH * INPUT, sizeof *dx);
    float *y = calloc(STEPS * BATCH * width, sizeof *y), *dy = calloc(STEPS * BATCH * width, sizeof *dy);
    float *hx = calloc(states, sizeof *hx), *hy = calloc(states, sizeof *hy);
    float *w, *dw;
    void *space, *kept;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
                                directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, INPUT, HIDDEN, HIDDEN, layers, NULL,
                                CUDNN_RNN_PADDED_IO_ENABLED));
    walk(rnn, layers, directions);
    x_desc = sequences(INPUT, lengths, NULL);
    y_desc = sequences(width, lengths, &fill);
    dims[0] = layers * directions, dims[1] = BATCH, dims[2] = HIDDEN;
    strides[0] = BATCH * HIDDEN, strides[1] = HIDDEN, strides[2] = 1;
    OK(cudnnCreateTensorDescriptor(&state));
    OK(cudnnSetTensorNdDescriptor(state, CUDNN_DATA_FLOAT, 3, dims, strides));
    OK(cudnnGetRNNWeightSpaceSize(handle, rnn, &weights));
    OK(cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_TRAINING, x_desc, &work, &reserve));
    w = calloc(1, weights), dw = calloc(1, weights);
    space = malloc(work), kept = malloc(reserve);
    for (i = 0; i < weights / sizeof *w; ++i) w[i] = 0.01f * (float)(i % 41) - 0.2f;
    for (i = 0; i < (size_t)states; ++i) hx[i] = 0.1f * (float)(i % 5);
    for (t = 0; t < STEPS * BATCH * INPUT; ++t) x[t] = 0.05f * (float)(t % 17) - 0.4f;
    for (t = 0; t < STEPS * BATCH * width; ++t) dy[t] = 1;
    OK(cudnnRNNForward(handle, rnn, CUDNN_FWD_MODE_TRAINING, NULL, x_desc, x, y_desc, y, state, hx, hy, state, NULL, NULL,
                       weights, w, work, space, reserve, kept));
    for (t = 0; t < STEPS; ++t) {
        for (b = 0; b < BATCH; ++b) {
            for (k = 0; k < width; ++k) {
                float value = y[(t * BATCH + b) * width + k];
                CHECK(t < lengths[b] ? fabsf(value) < 1 && value != 0 : value == fill);
            }
        }
    }
    /* A sequence of length 0 keeps its state. */
    for (k = 0; k < HIDDEN; ++k) CHECK(hy[HIDDEN + k] == hx[HIDDEN + k]);
    OK(cudnnRNNBackwardData_v8(handle, rnn, NULL, y_desc, y, dy, x_desc, dx, state, hx, NULL, NULL, state, NULL, NULL, NULL,
                               weights, w, work, space, reserve, kept));
    for (b = 0; b < BATCH; ++b) CHECK((dx[(2 * BATCH + b) * INPUT] == 0) == (lengths[b] <= 2));
    OK(cudnnRNNBackwardWeights_v8(handle, rnn, CUDNN_WGRAD_MODE_ADD, NULL, x_desc, x, state, hx, y_desc, y, weights, dw, work,
                                  space, reserve, kept));
    for (i = 0; i < weights / sizeof *dw; ++i) CHECK(isfinite(dw[i]));
    CHECK(dw[weights / sizeof *dw - 1] != 0);
    /* Backward without the reserve space of a training forward call. */
    BAD(cudnnRNNBackwardData_v8(handle, rnn, NULL, y_desc, y, dy, x_desc, dx, state, hx, NULL, NULL, state, NULL, NULL, NULL,
                                weights, w, work, space, reserve - 1, kept));
    free(x), free(dx), free(y), free(dy), free(hx), free(hy), free(w), free(dw), free(space), free(kept);
    OK(cudnnDestroyTensorDescriptor(state));
    OK(cudnnDestroyRNNDataDescriptor(x_desc));
    OK(cudnnDestroyRNNDataDescriptor(y_desc));
    OK(cudnnDestroyRNNDescriptor(rnn));
}

int main(void) {
    int layers, directions;
    OK(cudnnCreate(&handle));
    for (layers = 1; layers < 4; ++layers) {
        for (directions = 1; directions < 3; ++directions) forward_and_back(layers, directions);
    }
    OK(cudnnDestroy(handle));
    return check_result("recurrent");
}
