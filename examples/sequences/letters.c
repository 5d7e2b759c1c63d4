/* Learns to spell: an LSTM that is trained to tell the next letter of a text, written as programs for a GPU are: memory from
 * cudaMalloc, copies, a stream, products by cuBLAS, the rest by cuDNN. Nothing in it knows that there may be no GPU.
 *
 *   letters [--steps N] TEXT
 *
 * The text is read by 16 readers, each from a place of its own and round and round, 32 letters at a time. The states of the network
 * go from one such piece to the next; gradients do not. Gradient descent with momentum, the gradient cut to a length. Shows the loss as it
 * falls, and at the end what the network writes on its own, letter by letter.
 *
 * Exit status: 0, or 2 when a call or a file fails, with one line that says why.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "letters"
#include "../../demo/die.h"

enum { READERS = 16, PIECE = 32, ROWS = READERS * PIECE, HIDDEN = 128, STEPS = 600, WRITTEN = 240, LONGEST = 1 << 20 };

static const float one = 1, zero = 0, momentum = 0.9f, rate = 1, longest_gradient = 1;

static void cuda(cudaError_t error, const char *what) {
    if (error != cudaSuccess) die(what, cudaGetErrorString(error));
}
static void blas(cublasStatus_t status, const char *what) {
    if (status != CUBLAS_STATUS_SUCCESS) die(what, "cuBLAS failed");
}
static void dnn(cudnnStatus_t status, const char *what) {
    if (status != CUDNN_STATUS_SUCCESS) die(what, cudnnGetErrorString(status));
}
#define CUDA(f, ...) cuda(f(__VA_ARGS__), #f)
#define BLAS(f, ...) blas(f(__VA_ARGS__), #f)
#define DNN(f, ...) dnn(f(__VA_ARGS__), #f)

static cudnnHandle_t cudnn;
static cublasHandle_t cublas;
static cudaStream_t stream;

static void *device(size_t bytes) {
    void *memory = NULL;
    CUDA(cudaMalloc, &memory, bytes);
    CUDA(cudaMemset, memory, 0, bytes);
    return memory;
}

static float *numbers(int count) { return (float *)device((size_t)count * sizeof(float)); }

static void upload(void *to, const void *from, size_t bytes) {
    CUDA(cudaMemcpyAsync, to, from, bytes, cudaMemcpyHostToDevice, stream);
}

static void download(void *to, const void *from, size_t bytes) {
    CUDA(cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToHost, stream);
    CUDA(cudaStreamSynchronize, stream);
}

/* ---- the text ---------------------------------------------------------------------------------------------- */

static unsigned char text[LONGEST];
static int length, letters, place_of[256], letter_at[256];

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be opened");
    length = (int)fread(text, 1, LONGEST, file);
    fclose(file);
    if (length < ROWS) die(path, "has too few letters");
    memset(place_of, -1, sizeof place_of);
    for (int i = 0; i < length; i++) {
        if (place_of[text[i]] >= 0) continue;
        letter_at[letters] = text[i];
        place_of[text[i]] = letters++;
    }
}

/* ---- random numbers: the same everywhere ------------------------------------------------------------------- */

static uint64_t state = 20240229;

/* Between 0 and 1. */
static float draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) / (float)(1 << 24);
}

/* ---- the network ------------------------------------------------------------------------------------------- */

/* Descriptors of a batch of `batch` sequences of `steps` letters, and the memory that its calls work in. */
typedef struct {
    int batch, rows;
    cudnnRNNDataDescriptor_t x_desc, y_desc;
    cudnnTensorDescriptor_t states_desc, scores_desc;
    size_t work_size, reserve_size;
    void *work, *reserve;
    float *x, *y, *dy, *scores, *shares, *wanted, *h, *c;
} Batch;

static cudnnRNNDescriptor_t rnn;
static cudnnDropoutDescriptor_t dropout;
static cudnnTensorDescriptor_t bias_desc;
/* All weights are one array: those of the LSTM, then matrix [HIDDEN, letters] and bias of the output. */
static float *weights, *gradients, *speeds;
static int count, of_lstm;
static size_t lstm_size;

static float *matrix(float *array) { return array + of_lstm; }
static float *bias(float *array) { return array + of_lstm + HIDDEN * letters; }

static cudnnRNNDataDescriptor_t vectors(int batch, int steps, int entries) {
    cudnnRNNDataDescriptor_t desc;
    int lengths[READERS];
    for (int i = 0; i < batch; i++) lengths[i] = steps;
    DNN(cudnnCreateRNNDataDescriptor, &desc);
    DNN(cudnnSetRNNDataDescriptor, desc, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps, batch, entries, lengths, NULL);
    return desc;
}

static cudnnTensorDescriptor_t tensor(int a, int b, int c) {
    cudnnTensorDescriptor_t desc;
    const int dims[4] = {a, b, c, 1}, strides[4] = {b * c, c, 1, 1};
    DNN(cudnnCreateTensorDescriptor, &desc);
    DNN(cudnnSetTensorNdDescriptor, desc, CUDNN_DATA_FLOAT, 4, dims, strides);
    return desc;
}

static Batch batch_of(int batch, int steps, int trains) {
    Batch b = {0};
    b.batch = batch, b.rows = batch * steps;
    b.x_desc = vectors(batch, steps, letters), b.y_desc = vectors(batch, steps, HIDDEN);
    const int dims[3] = {1, batch, HIDDEN}, strides[3] = {batch * HIDDEN, HIDDEN, 1};
    DNN(cudnnCreateTensorDescriptor, &b.states_desc);
    DNN(cudnnSetTensorNdDescriptor, b.states_desc, CUDNN_DATA_FLOAT, 3, dims, strides);
    b.scores_desc = tensor(b.rows, letters, 1);
    DNN(cudnnGetRNNTempSpaceSizes, cudnn, rnn, trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, b.x_desc, &b.work_size,
        trains ? &b.reserve_size : NULL);
    b.work = device(b.work_size), b.reserve = trains ? device(b.reserve_size) : NULL;
    b.x = numbers(b.rows * letters), b.y = numbers(b.rows * HIDDEN), b.dy = numbers(b.rows * HIDDEN);
    b.scores = numbers(b.rows * letters), b.shares = numbers(b.rows * letters), b.wanted = numbers(b.rows * letters);
    b.h = numbers(batch * HIDDEN), b.c = numbers(batch * HIDDEN);
    return b;
}

static void build(void) {
    CUDA(cudaStreamCreate, &stream);
    DNN(cudnnCreate, &cudnn);
    DNN(cudnnSetStream, cudnn, stream);
    BLAS(cublasCreate, &cublas);
    BLAS(cublasSetStream, cublas, stream);
    DNN(cudnnCreateDropoutDescriptor, &dropout);
    DNN(cudnnSetDropoutDescriptor, dropout, cudnn, 0, NULL, 0, 0);
    DNN(cudnnCreateRNNDescriptor, &rnn);
    DNN(cudnnSetRNNDescriptor_v8, rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
        CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, letters, HIDDEN, HIDDEN, 1, dropout, 0);
    DNN(cudnnGetRNNWeightSpaceSize, cudnn, rnn, &lstm_size);
    of_lstm = (int)(lstm_size / sizeof(float));
    count = of_lstm + HIDDEN * letters + letters;
    weights = numbers(count), gradients = numbers(count), speeds = numbers(count);
    float *start = (float *)malloc((size_t)count * sizeof(float));
    if (!start) die("malloc", "out of memory");
    const float range = 1 / sqrtf(HIDDEN);
    for (int i = 0; i < count; i++) start[i] = range * (2 * draw() - 1);
    upload(weights, start, (size_t)count * sizeof(float));
    /* A forget gate that is open at first lets the state through. */
    cudnnTensorDescriptor_t matrix_desc = tensor(1, 1, 1), vector_desc = tensor(1, 1, 1);
    void *a, *forget;
    DNN(cudnnGetRNNWeightParams, cudnn, rnn, 0, lstm_size, weights, 1, matrix_desc, &a, vector_desc, &forget);
    for (int i = 0; i < HIDDEN; i++) start[i] = 1;
    upload(forget, start, HIDDEN * sizeof(float));
    CUDA(cudaStreamSynchronize, stream);
    free(start);
    bias_desc = tensor(1, letters, 1);
}

/* Shares of all letters for each row, from where the states are, which go on. */
static void forward(Batch *b, int trains, int as_logarithms) {
    DNN(cudnnRNNForward, cudnn, rnn, trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, NULL, b->x_desc, b->x, b->y_desc, b->y,
        b->states_desc, b->h, b->h, b->states_desc, b->c, b->c, lstm_size, weights, b->work_size, b->work, b->reserve_size, b->reserve);
    BLAS(cublasSgemm, cublas, CUBLAS_OP_N, CUBLAS_OP_N, letters, b->rows, HIDDEN, &one, matrix(weights), letters, b->y, HIDDEN, &zero,
         b->scores, letters);
    DNN(cudnnAddTensor, cudnn, &one, bias_desc, bias(weights), &one, b->scores_desc, b->scores);
    DNN(cudnnSoftmaxForward, cudnn, as_logarithms ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one,
        b->scores_desc, b->scores, &zero, b->scores_desc, b->shares);
}

/* Gradients of the mean of -log(share of the right letter); `h` and `c` are the states that the forward call began with. */
static void backward(Batch *b, const float *h, const float *c) {
    DNN(cudnnSoftmaxBackward, cudnn, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, b->scores_desc, b->shares, b->scores_desc,
        b->wanted, &zero, b->scores_desc, b->scores);
    CUDA(cudaMemsetAsync, gradients, 0, (size_t)count * sizeof(float), stream);
    BLAS(cublasSgemm, cublas, CUBLAS_OP_N, CUBLAS_OP_T, letters, HIDDEN, b->rows, &one, b->scores, letters, b->y, HIDDEN, &zero,
         matrix(gradients), letters);
    DNN(cudnnConvolutionBackwardBias, cudnn, &one, b->scores_desc, b->scores, &zero, bias_desc, bias(gradients));
    BLAS(cublasSgemm, cublas, CUBLAS_OP_T, CUBLAS_OP_N, HIDDEN, b->rows, letters, &one, matrix(weights), letters, b->scores, letters, &zero,
         b->dy, HIDDEN);
    DNN(cudnnRNNBackwardData_v8, cudnn, rnn, NULL, b->y_desc, b->y, b->dy, b->x_desc, NULL, b->states_desc, h, NULL, NULL, b->states_desc,
        c, NULL, NULL, lstm_size, weights, b->work_size, b->work, b->reserve_size, b->reserve);
    DNN(cudnnRNNBackwardWeights_v8, cudnn, rnn, CUDNN_WGRAD_MODE_ADD, NULL, b->x_desc, b->x, b->states_desc, h, b->y_desc, b->y, lstm_size,
        gradients, b->work_size, b->work, b->reserve_size, b->reserve);
}

/* speed = momentum * speed + gradient, cut to a length; weights = weights - rate * speed. */
static void move(void) {
    float norm;
    BLAS(cublasSnrm2, cublas, count, gradients, 1, &norm);
    const float part = norm > longest_gradient ? longest_gradient / norm : 1, back = -rate;
    BLAS(cublasSscal, cublas, count, &momentum, speeds, 1);
    BLAS(cublasSaxpy, cublas, count, &part, gradients, 1, speeds, 1);
    BLAS(cublasSaxpy, cublas, count, &back, speeds, 1, weights, 1);
}

/* ---- reading and writing ------------------------------------------------------------------------------------ */

/* Reader r, t letters on from `at`. */
static int letter(int r, int at, int t) { return place_of[text[((long)r * length / READERS + at + t) % length]]; }

/* Shows the readers their next letters, and what comes behind each. */
static void show(Batch *b, int at) {
    static float x[ROWS * 256], wanted[ROWS * 256];
    memset(x, 0, sizeof(float) * (size_t)(ROWS * letters));
    memset(wanted, 0, sizeof(float) * (size_t)(ROWS * letters));
    for (int t = 0; t < PIECE; t++)
        for (int r = 0; r < READERS; r++) {
            float *const row = x + (t * READERS + r) * letters;
            row[letter(r, at, t)] = 1;
            wanted[(t * READERS + r) * letters + letter(r, at, t + 1)] = -1.0f / ROWS;
        }
    upload(b->x, x, sizeof(float) * (size_t)(ROWS * letters));
    upload(b->wanted, wanted, sizeof(float) * (size_t)(ROWS * letters));
    CUDA(cudaStreamSynchronize, stream);
}

/* The mean of -log(share of the right letter), in bits. */
static double loss(const Batch *b, int at) {
    static float shares[ROWS * 256];
    double sum = 0;
    download(shares, b->shares, sizeof(float) * (size_t)(ROWS * letters));
    for (int t = 0; t < PIECE; t++)
        for (int r = 0; r < READERS; r++) sum -= shares[(t * READERS + r) * letters + letter(r, at, t + 1)];
    return sum / ROWS / log(2);
}

static double train(int steps, double *first) {
    Batch b = batch_of(READERS, PIECE, 1);
    float *h = numbers(READERS * HIDDEN), *c = numbers(READERS * HIDDEN);
    double sum = 0, last = 0;
    int summed = 0;
    for (int step = 0; step < steps; step++) {
        const int at = step * PIECE;
        CUDA(cudaMemcpyAsync, h, b.h, READERS * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice, stream);
        CUDA(cudaMemcpyAsync, c, b.c, READERS * HIDDEN * sizeof(float), cudaMemcpyDeviceToDevice, stream);
        show(&b, at);
        forward(&b, 1, 1);
        const double bits = loss(&b, at);
        if (step == 0) *first = bits;
        sum += bits, summed++;
        backward(&b, h, c);
        move();
        if ((step + 1) % 50 == 0 || step + 1 == steps) {
            last = sum / summed;
            printf("  %4d pieces of %d letters: %5.3f bits a letter\n", step + 1, ROWS, last);
            fflush(stdout);
            sum = 0, summed = 0;
        }
    }
    return last;
}

/* Writes on behind the first letter, each drawn by its share; the same state goes from letter to letter. */
static void write(void) {
    Batch b = batch_of(1, 1, 0);
    float x[256], shares[256];
    int now = 0;
    printf("\n  ");
    for (int i = 0; i < WRITTEN; i++) {
        putchar(letter_at[now] == '\n' ? ' ' : letter_at[now]);
        memset(x, 0, sizeof x);
        x[now] = 1;
        upload(b.x, x, sizeof(float) * (size_t)letters);
        forward(&b, 0, 0);
        download(shares, b.shares, sizeof(float) * (size_t)letters);
        float left = draw();
        for (now = 0; now + 1 < letters && (left -= shares[now]) > 0;) now++;
    }
    printf("\n\n");
}

int main(int argc, char **argv) {
    long steps = STEPS;
    int at = 1;
    double first = 0;
    if (argc > 2 && strcmp(argv[1], "--steps") == 0) {
        char *end;
        steps = strtol(argv[2], &end, 10);
        if (*end || steps < 1 || steps > 1000000) die(argv[2], "not a number of steps");
        at = 3;
    }
    if (argc != at + 1) die("usage", "letters [--steps N] TEXT");
    load(argv[at]);
    build();
    printf("  %s: %d letters, %d of them different; an LSTM of %d, %d weights\n\n", argv[at], length, letters, HIDDEN, count);
    const double last = train((int)steps, &first);
    write();
    printf("letters: %.3f bits a letter at first, %.3f at the end\n", first, last);
    DNN(cudnnDestroy, cudnn);
    BLAS(cublasDestroy, cublas);
    CUDA(cudaStreamDestroy, stream);
    return 0;
}
