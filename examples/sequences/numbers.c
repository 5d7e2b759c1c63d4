/* Learns to read numbers: rows of three to six handwritten digits, with gaps of any width between them, of which nobody says where a digit
 * begins or ends. A bidirectional LSTM walks along the columns of a row, and CTC makes the digits of the row out of
 * what it says about each column. Plain C99, which knows nothing but <cudnn.h>.
 *
 *   numbers [--steps N] DIGITS.dat
 *
 * Gradients by the calls, their step (Adam) on the host. Shows the loss as it falls, a row of digits that it has not seen with what it
 * reads there, column by column, and how many of 200 such rows it reads without a mistake. Compiled with -DON_GPU it keeps its tensors on
 * the device (needs cudart).
 *
 * Exit status: 0, or 2 when a call or a file fails, with one line that says why.
 */
#include <cudnn.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "numbers"
#include "../../demo/images.h"
#include "../../demo/memory.h"

/* A row has up to six digits, each with up to three columns in front of it. At each column the network sees its neighbours, too. */
enum { MOST = 6, COLUMNS = MOST * (SIDE + 3), BATCH = 24, SEEN = 3 * SIDE, HIDDEN = 32, STEPS = 1000, READ = 200 };
/* What a column is taken for: nothing, or one of ten digits. */
enum { SYMBOLS = 1 + CLASSES, ROWS = COLUMNS * BATCH };

static const float one = 1, zero = 0;

static void call(cudnnStatus_t status, const char *what) {
    if (status != CUDNN_STATUS_SUCCESS) die(what, cudnnGetErrorString(status));
}
#define CALL(f, ...) call(f(__VA_ARGS__), #f)

/* ---- rows of digits ---------------------------------------------------------------------------------------- */

static uint64_t state = 20240229;

static int draw(int below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)(((state >> 32) * (uint64_t)below) >> 32);
}

/* A batch of rows: their pixels, columns and digits. CTC takes the digits of all rows one behind the other, as 1 to 10. */
static struct {
    float pixels[BATCH][COLUMNS + 2][SIDE];
    int columns[BATCH], digits[BATCH], labels[BATCH * MOST];
} batch;

/* Rows of these images. */
static void compose(const int *from, int count) {
    int *label = batch.labels;
    memset(batch.pixels, 0, sizeof batch.pixels);
    for (int b = 0; b < BATCH; b++) {
        int column = 0;
        batch.digits[b] = 3 + draw(MOST - 2);
        for (int k = 0; k < batch.digits[b]; k++, column += SIDE) {
            const int image = from[draw(count)];
            column += draw(4);
            *label++ = 1 + images[image].digit;
            for (int p = 0; p < PIXELS; p++)
                batch.pixels[b][1 + column + p % SIDE][p / SIDE] = (float)images[image].pixels[p] / 16;
        }
        batch.columns[b] = column;
    }
}

/* ---- the network ------------------------------------------------------------------------------------------- */

static cudnnHandle_t handle;
static cudnnRNNDescriptor_t rnn;
static cudnnTensorDescriptor_t said_desc, scores_desc, bias_desc, frames_desc;
static cudnnFilterDescriptor_t matrix_desc;
static cudnnConvolutionDescriptor_t dense;
static cudnnCTCLossDescriptor_t ctc;
static size_t lstm_size, work_size, reserve_size;
static void *work, *kept;
/* What the network sees, what its LSTM says about it, and scores of all symbols: `[column][row][...]`. */
static float *seen, *said, *said_gradient, *scores, *scores_gradient, *costs;

/* All weights are one array: those of the LSTM, then matrix and bias of the scores. */
enum { MATRIX = SYMBOLS * 2 * HIDDEN };
static float *weights, *gradients;
static float *host_weights, *host_gradients, *means, *squares;
static int count, of_lstm;

static float *numbers(int elements) { return (float *)reserve((size_t)elements * sizeof(float)); }

static cudnnTensorDescriptor_t tensor(int a, int b, int c, int d) {
    cudnnTensorDescriptor_t desc;
    CALL(cudnnCreateTensorDescriptor, &desc);
    CALL(cudnnSetTensor4dDescriptor, desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, a, b, c, d);
    return desc;
}

/* Vectors of the columns of the batch at hand. */
static cudnnRNNDataDescriptor_t vectors(int entries) {
    float fill = 0;
    cudnnRNNDataDescriptor_t desc;
    CALL(cudnnCreateRNNDataDescriptor, &desc);
    CALL(cudnnSetRNNDataDescriptor, desc, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, COLUMNS, BATCH, entries,
         batch.columns, &fill);
    return desc;
}

static void larger(size_t bytes) {
    if (bytes > work_size) work_size = bytes;
}

static void build(void) {
    const int frames[3] = {COLUMNS, BATCH, SYMBOLS}, strides[3] = {BATCH * SYMBOLS, SYMBOLS, 1};
    size_t bytes;
    CALL(cudnnCreate, &handle);
    CALL(cudnnCreateRNNDescriptor, &rnn);
    CALL(cudnnSetRNNDescriptor_v8, rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_BIDIRECTIONAL,
         CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, SEEN, HIDDEN, HIDDEN, 1, NULL,
         CUDNN_RNN_PADDED_IO_ENABLED);
    CALL(cudnnGetRNNWeightSpaceSize, handle, rnn, &lstm_size);
    of_lstm = (int)(lstm_size / sizeof(float));
    count = of_lstm + MATRIX + SYMBOLS;
    /* A dense layer is a convolution of one pixel. */
    said_desc = tensor(ROWS, 2 * HIDDEN, 1, 1), scores_desc = tensor(ROWS, SYMBOLS, 1, 1), bias_desc = tensor(1, SYMBOLS, 1, 1);
    CALL(cudnnCreateFilterDescriptor, &matrix_desc);
    CALL(cudnnSetFilter4dDescriptor, matrix_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, SYMBOLS, 2 * HIDDEN, 1, 1);
    CALL(cudnnCreateConvolutionDescriptor, &dense);
    CALL(cudnnSetConvolution2dDescriptor, dense, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    CALL(cudnnCreateTensorDescriptor, &frames_desc);
    CALL(cudnnSetTensorNdDescriptor, frames_desc, CUDNN_DATA_FLOAT, 3, frames, strides);
    CALL(cudnnCreateCTCLossDescriptor, &ctc);
    CALL(cudnnSetCTCLossDescriptorEx, ctc, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_NOT_PROPAGATE_NAN);

    /* The longest rows that there are need the most memory. */
    for (int b = 0; b < BATCH; b++) {
        batch.columns[b] = COLUMNS, batch.digits[b] = MOST;
        for (int k = 0; k < MOST; k++) batch.labels[b * MOST + k] = 1;
    }
    const cudnnRNNDataDescriptor_t x_desc = vectors(SEEN);
    CALL(cudnnGetRNNTempSpaceSizes, handle, rnn, CUDNN_FWD_MODE_INFERENCE, x_desc, &bytes, NULL);
    larger(bytes);
    CALL(cudnnGetRNNTempSpaceSizes, handle, rnn, CUDNN_FWD_MODE_TRAINING, x_desc, &bytes, &reserve_size);
    larger(bytes);
    CALL(cudnnDestroyRNNDataDescriptor, x_desc);
    CALL(cudnnGetCTCLossWorkspaceSize, handle, frames_desc, frames_desc, batch.labels, batch.digits, batch.columns,
         CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, &bytes);
    larger(bytes);
    CALL(cudnnGetConvolutionForwardWorkspaceSize, handle, said_desc, matrix_desc, dense, scores_desc,
         CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes);
    larger(bytes);
    CALL(cudnnGetConvolutionBackwardDataWorkspaceSize, handle, matrix_desc, scores_desc, dense, said_desc,
         CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes);
    larger(bytes);
    CALL(cudnnGetConvolutionBackwardFilterWorkspaceSize, handle, said_desc, scores_desc, dense, matrix_desc,
         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &bytes);
    larger(bytes);
    work = reserve(work_size), kept = reserve(reserve_size);
    seen = numbers(ROWS * SEEN), said = numbers(ROWS * 2 * HIDDEN), said_gradient = numbers(ROWS * 2 * HIDDEN);
    scores = numbers(ROWS * SYMBOLS), scores_gradient = numbers(ROWS * SYMBOLS), costs = numbers(BATCH);
    weights = numbers(count), gradients = numbers(count);

    float *const all = (float *)calloc((size_t)count * 4, sizeof(float));
    if (!all) die("calloc", "out of memory");
    host_weights = all, host_gradients = all + count, means = all + 2 * count, squares = all + 3 * count;
    for (int i = 0; i < count; i++) host_weights[i] = ((float)draw(1 << 24) / (1 << 23) - 1) / sqrtf(HIDDEN);
    upload(weights, host_weights, (size_t)count * sizeof(float));
}

/* Scores of all symbols for each column of the batch at hand. */
static void forward(int trains, cudnnRNNDataDescriptor_t x_desc, cudnnRNNDataDescriptor_t y_desc) {
    static float columns[COLUMNS][BATCH][3][SIDE];
    for (int t = 0; t < COLUMNS; t++)
        for (int b = 0; b < BATCH; b++)
            for (int near = 0; near < 3; near++) memcpy(columns[t][b][near], batch.pixels[b][t + near], sizeof columns[t][b][near]);
    upload(seen, columns, sizeof columns);
    CALL(cudnnRNNForward, handle, rnn, trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, NULL, x_desc, seen, y_desc, said, NULL,
         NULL, NULL, NULL, NULL, NULL, lstm_size, weights, work_size, work, reserve_size, kept);
    CALL(cudnnConvolutionForward, handle, &one, said_desc, said, matrix_desc, weights + of_lstm, dense,
         CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, work, work_size, &zero, scores_desc, scores);
    CALL(cudnnAddTensor, handle, &one, bias_desc, weights + of_lstm + MATRIX, &one, scores_desc, scores);
}

/* The mean loss of the batch, and the gradients of all weights. */
static double backward(cudnnRNNDataDescriptor_t x_desc, cudnnRNNDataDescriptor_t y_desc) {
    float each[BATCH];
    double sum = 0;
    CALL(cudnnCTCLoss, handle, frames_desc, scores, batch.labels, batch.digits, batch.columns, costs, frames_desc, scores_gradient,
         CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, work, work_size);
    CALL(cudnnConvolutionBackwardBias, handle, &one, scores_desc, scores_gradient, &zero, bias_desc, gradients + of_lstm + MATRIX);
    CALL(cudnnConvolutionBackwardFilter, handle, &one, said_desc, said, scores_desc, scores_gradient, dense,
         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, work, work_size, &zero, matrix_desc, gradients + of_lstm);
    CALL(cudnnConvolutionBackwardData, handle, &one, matrix_desc, weights + of_lstm, scores_desc, scores_gradient, dense,
         CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, work, work_size, &zero, said_desc, said_gradient);
    CALL(cudnnRNNBackwardData_v8, handle, rnn, NULL, y_desc, said, said_gradient, x_desc, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
         NULL, lstm_size, weights, work_size, work, reserve_size, kept);
    /* This call adds. */
    memset(host_gradients, 0, lstm_size);
    upload(gradients, host_gradients, lstm_size);
    CALL(cudnnRNNBackwardWeights_v8, handle, rnn, CUDNN_WGRAD_MODE_ADD, NULL, x_desc, seen, NULL, NULL, y_desc, said, lstm_size, gradients,
         work_size, work, reserve_size, kept);
    download(each, costs, sizeof each);
    for (int b = 0; b < BATCH; b++) sum += each[b];
    return sum / BATCH;
}

/* One step of Adam. */
static void move(int step) {
    const float rate = 0.005f, mean = 0.9f, square = 0.99f;
    const float of_mean = 1 - powf(mean, (float)step), of_square = 1 - powf(square, (float)step);
    download(host_gradients, gradients, (size_t)count * sizeof(float));
    for (int i = 0; i < count; i++) {
        const float gradient = host_gradients[i] / BATCH;
        means[i] = mean * means[i] + (1 - mean) * gradient;
        squares[i] = square * squares[i] + (1 - square) * gradient * gradient;
        host_weights[i] -= rate * (means[i] / of_mean) / (sqrtf(squares[i] / of_square) + 1e-6f);
    }
    upload(weights, host_weights, (size_t)count * sizeof(float));
}

static void train(int steps) {
    double sum = 0;
    int summed = 0;
    for (int step = 1; step <= steps; step++) {
        compose(trainings, TRAININGS);
        const cudnnRNNDataDescriptor_t x_desc = vectors(SEEN), y_desc = vectors(2 * HIDDEN);
        forward(1, x_desc, y_desc);
        sum += backward(x_desc, y_desc), summed++;
        move(step);
        CALL(cudnnDestroyRNNDataDescriptor, x_desc);
        CALL(cudnnDestroyRNNDataDescriptor, y_desc);
        if (step % 50 == 0 || step == steps) {
            printf("  %4d batches of %d rows: loss %7.3f\n", step, BATCH, sum / summed);
            fflush(stdout);
            sum = 0, summed = 0;
        }
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* What the network takes each column of a row for, and the digits that are left when neighbours are joined; how many they are. */
static int read_row(const float *all, int row, int *symbols, int *digits) {
    int found = 0;
    for (int t = 0; t < batch.columns[row]; t++) {
        const float *score = all + (t * BATCH + row) * SYMBOLS;
        symbols[t] = 0;
        for (int k = 1; k < SYMBOLS; k++)
            if (score[k] > score[symbols[t]]) symbols[t] = k;
        if (symbols[t] && (t == 0 || symbols[t] != symbols[t - 1])) digits[found++] = symbols[t];
    }
    return found;
}

/* A row as characters, and below each column what it was taken for. */
static void show(int row, const int *symbols) {
    for (int y = 0; y < SIDE; y++) {
        printf("  ");
        for (int t = 0; t < batch.columns[row]; t++) putchar(" .:*#"[(int)(4 * batch.pixels[row][1 + t][y])]);
        putchar('\n');
    }
    printf("  ");
    for (int t = 0; t < batch.columns[row]; t++) putchar(symbols[t] ? '0' + symbols[t] - 1 : '-');
    printf("\n\n");
}

static int test(void) {
    static float all[ROWS * SYMBOLS];
    int right = 0, symbols[COLUMNS], digits[COLUMNS];
    for (int rows = 0; rows < READ;) {
        compose(tests, TESTS);
        const cudnnRNNDataDescriptor_t x_desc = vectors(SEEN), y_desc = vectors(2 * HIDDEN);
        forward(0, x_desc, y_desc);
        download(all, scores, sizeof all);
        CALL(cudnnDestroyRNNDataDescriptor, x_desc);
        CALL(cudnnDestroyRNNDataDescriptor, y_desc);
        const int *label = batch.labels;
        for (int b = 0; b < BATCH && rows < READ; label += batch.digits[b++], rows++) {
            const int found = read_row(all, b, symbols, digits);
            right += found == batch.digits[b] && memcmp(digits, label, (size_t)found * sizeof *digits) == 0;
            if (rows == 0) show(b, symbols);
        }
    }
    return right;
}

int main(int argc, char **argv) {
    long steps = STEPS;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "--steps") == 0) {
        char *end;
        steps = strtol(argv[2], &end, 10);
        if (*end || steps < 1 || steps > 1000000) die(argv[2], "not a number of steps");
        at = 3;
    }
    if (argc != at + 1) die("usage", "numbers [--steps N] DIGITS.dat");
    load(argv[at]);
    build();
    printf("  rows of 3 to %d digits in up to %d columns; a bidirectional LSTM of %d, %d weights\n\n", MOST, COLUMNS, HIDDEN, count);
    train((int)steps);
    printf("\n  a row that it has not seen, and what it takes each column for:\n\n");
    printf("numbers: %d of %d rows right\n", test(), READ);
    CALL(cudnnDestroy, handle);
    return 0;
}
