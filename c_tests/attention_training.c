/* Trains an attention block with the calls alone: it learns to tell a sequence backwards.
 *
 * Each vector of the input holds a number, and a 1 at its place in the sequence; the output is one number for each time step, which shall
 * be that of the input's other end. Only the places say where to look, so that after training the projections of queries and keys
 * hold a table of who looks at whom. Momentum is what ADD is for: the old gradient of the weights, scaled, to which the new one is
 * added. With an argument, the error of every 20th step is printed. */
#include "check.h"
#include "data.h"

#include <limits.h>
#include <math.h>

enum { T = 5, B = 16, VECTOR = 1 + T, STEPS = 200, INPUTS = B * T * VECTOR, OUTPUTS = B * T };
static const float rate = 0.5f, momentum = 0.9f, one = 1, zero = 0;

static cudnnSeqDataDescriptor_t sequences(int vector) {
    const int dims[CUDNN_SEQDATA_DIM_COUNT] = { T, B, 1, vector };
    const cudnnSeqDataAxis_t axes[] = { CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_VECT_DIM };
    int lengths[B];
    cudnnSeqDataDescriptor_t desc;
    for (int b = 0; b < B; b++) lengths[b] = T;
    OK(cudnnCreateSeqDataDescriptor(&desc));
    OK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, B, lengths, NULL));
    return desc;
}

static cudnnTensorDescriptor_t numbers(int count) {
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, count));
    return desc;
}

/* Numbers from -1 to 1. */
static float drawn(void) {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (float)(state >> 8) / (1 << 23) - 1;
}

int main(int argc, char **argv) {
    cudnnHandle_t handle;
    cudnnAttnDescriptor_t attention;
    cudnnOpTensorDescriptor_t sum;
    size_t weight_size, none, reserve_size;
    static float x[INPUTS], y[OUTPUTS], out[OUTPUTS];
    int low[T], high[T], lengths[B];
    double first = 0, last = 0;

    for (int t = 0; t < T; t++) low[t] = 0, high[t] = INT_MAX;
    for (int b = 0; b < B; b++) lengths[b] = T;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnSetAttnDescriptor(attention, CUDNN_ATTN_ENABLE_PROJ_BIASES, 1, 1.0, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, NULL,
                              NULL, VECTOR, VECTOR, VECTOR, T, T, 1, 1, T, T, B, 1));
    OK(cudnnGetMultiHeadAttnBuffers(handle, attention, &weight_size, &none, &reserve_size));
    const int weights = (int)(weight_size / sizeof(float));
    const cudnnSeqDataDescriptor_t in = sequences(VECTOR), one_number = sequences(1);
    const cudnnTensorDescriptor_t w_desc = numbers(weights), y_desc = numbers(OUTPUTS);
    OK(cudnnCreateOpTensorDescriptor(&sum));
    OK(cudnnSetOpTensorDescriptor(sum, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));

    float *start = malloc(weight_size);
    for (int i = 0; i < weights; i++) start[i] = drawn() / 2;
    void *w = data_new(start, weight_size), *dw = data_new(NULL, weight_size), *reserve = data_new(NULL, reserve_size);
    void *d_out = data_new(NULL, sizeof out), *dy = data_new(NULL, sizeof out), *dx = data_new(NULL, sizeof x);
    void *dk = data_new(NULL, sizeof x), *dv = data_new(NULL, sizeof x);
    int *d_lengths = data_new(lengths, sizeof lengths);

    for (int step = 0; step < STEPS; step++) {
        for (int b = 0; b < B; b++)
            for (int t = 0; t < T; t++) {
                float *vector = x + (b * T + t) * VECTOR;
                for (int i = 0; i < VECTOR; i++) vector[i] = i == 1 + t;
                vector[0] = y[b * T + T - 1 - t] = drawn();
            }
        void *d_x = data_new(x, sizeof x), *d_y = data_new(y, sizeof y);
        OK(cudnnMultiHeadAttnForward(handle, attention, -1, low, high, d_lengths, d_lengths, in, d_x, NULL, in, d_x, in, d_x, one_number,
                                     d_out, weight_size, w, 0, NULL, reserve_size, reserve));
        /* Half of the mean square of the error has this gradient. */
        const float part = 1.0f / OUTPUTS, less = -part;
        OK(cudnnOpTensor(handle, sum, &part, y_desc, d_out, &less, y_desc, d_y, &zero, y_desc, dy));
        OK(cudnnMultiHeadAttnBackwardData(handle, attention, low, high, d_lengths, d_lengths, one_number, dy, in, dx, d_x, in, dk, d_x, in, dv,
                                          d_x, weight_size, w, 0, NULL, reserve_size, reserve));
        if (step > 0) OK(cudnnScaleTensor(handle, w_desc, dw, &momentum));
        OK(cudnnMultiHeadAttnBackwardWeights(handle, attention, step > 0 ? CUDNN_WGRAD_MODE_ADD : CUDNN_WGRAD_MODE_SET, in, d_x, in, d_x, in, d_x,
                                             one_number, dy, weight_size, w, dw, 0, NULL, reserve_size, reserve));
        const float down = -rate;
        OK(cudnnAddTensor(handle, &down, w_desc, dw, &one, w_desc, w));

        data_read(out, d_out, sizeof out);
        double error = 0;
        for (int i = 0; i < OUTPUTS; i++) error += (out[i] - y[i]) * (out[i] - y[i]) / OUTPUTS;
        if (step == 0) first = error;
        last = error;
        if (argc > 1 && (step % 20 == 0 || step == STEPS - 1)) printf("%s: step %3d of %d: mean square error %.4f\n", argv[0], step, STEPS, error);
        data_free(d_x), data_free(d_y);
    }
    CHECK(first > 0.2 && last < 0.02);

    free(start);
    data_free(w), data_free(dw), data_free(reserve), data_free(d_out), data_free(dy), data_free(dx), data_free(dk), data_free(dv);
    data_free(d_lengths);
    OK(cudnnDestroyOpTensorDescriptor(sum));
    OK(cudnnDestroyTensorDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroySeqDataDescriptor(in));
    OK(cudnnDestroySeqDataDescriptor(one_number));
    OK(cudnnDestroyAttnDescriptor(attention));
    OK(cudnnDestroy(handle));
    return check_result("attention_training");
}
