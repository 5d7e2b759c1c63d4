/* Convolutions over more than 2^31 elements, of x, of w or of y, and in whichever direction one is computed.
 *
 * The memory is mapped without being reserved, and strides put its elements far apart, so that few pages are touched.
 * Not under valgrind, which follows no mappings of this size. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>

#include "convolution.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* Channels, or images, this many elements apart: the third begins beyond 2^31. */
#define FAR 1200000000

static cudnnHandle_t handle;

struct array {
    signed char *bytes;
    size_t size;
};

static struct array map(int64_t elements, size_t each) {
    struct array made;
    void *at;
    made.size = (size_t)elements * each;
    at = mmap(NULL, made.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) exit(2);
    made.bytes = (signed char *)at;
    return made;
}

static void unmap(struct array array) { CHECK(munmap(array.bytes, array.size) == 0); }

enum { H = 3, W = 5, R = 3, C = 3, K = 3 };

/* x of 3 channels and y of 3, of which those of one are far apart: whole numbers in float. */
static void planes(int x_is_far, enum direction direction) {
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    int64_t x_apart = x_is_far ? FAR : H * W, y_apart = x_is_far ? H * W : FAR;
    struct array xs = map(x_apart * (C - 1) + H * W, 4), ys = map(y_apart * (K - 1) + H * W, 4);
    float *x = (float *)xs.bytes, *y = (float *)ys.bytes, w[K][C][R][R], one = 1, zero = 0;
    int c, k, p, q, r, s, wrong = 0;
    double sums[3][H][W], weights[K][C][R][R];
    OK(cudnnCreateTensorDescriptor(&x_desc));
    OK(cudnnCreateTensorDescriptor(&y_desc));
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetTensor4dDescriptorEx(x_desc, CUDNN_DATA_FLOAT, 1, C, H, W, 1, (int)x_apart, W, 1));
    OK(cudnnSetTensor4dDescriptorEx(y_desc, CUDNN_DATA_FLOAT, 1, K, H, W, 1, (int)y_apart, W, 1));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, R, R));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    memset(sums, 0, sizeof sums);
    memset(weights, 0, sizeof weights);
    for (c = 0; c < C; c++)
        for (p = 0; p < H * W; p++) x[c * x_apart + p] = (float)((c * 4 + p * 3) % 7 - 3);
    for (k = 0; k < K; k++)
        for (p = 0; p < H * W; p++) y[k * y_apart + p] = (float)((k * 5 + p * 2) % 7 - 3);
    for (k = 0; k < K; k++)
        for (c = 0; c < C; c++)
            for (r = 0; r < R; r++)
                for (s = 0; s < R; s++) w[k][c][r][s] = (float)((k + c * 2 + r * 3 + s) % 5 - 2);
    for (k = 0; k < K; k++)
        for (c = 0; c < C; c++)
            for (p = 0; p < H; p++)
                for (q = 0; q < W; q++)
                    for (r = 0; r < R; r++)
                        for (s = 0; s < R; s++) {
                            int row = p - 1 + r, column = q - 1 + s;
                            float at_x, at_y;
                            if (row < 0 || row >= H || column < 0 || column >= W) continue;
                            at_x = x[c * x_apart + row * W + column];
                            at_y = y[k * y_apart + p * W + q];
                            if (direction == FORWARD) sums[k][p][q] += at_x * w[k][c][r][s];
                            if (direction == DATA) sums[c][row][column] += at_y * w[k][c][r][s];
                            weights[k][c][r][s] += at_x * at_y;
                        }
    switch (direction) {
    case FORWARD:
        OK(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                   NULL, 0, &zero, y_desc, y));
        for (k = 0; k < K; k++)
            for (p = 0; p < H * W; p++) wrong += y[k * y_apart + p] != (float)sums[k][p / W][p % W];
        break;
    case DATA:
        OK(cudnnConvolutionBackwardData(handle, &one, w_desc, w, y_desc, y, conv, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                        NULL, 0, &zero, x_desc, x));
        for (c = 0; c < C; c++)
            for (p = 0; p < H * W; p++) wrong += x[c * x_apart + p] != (float)sums[c][p / W][p % W];
        break;
    case FILTER:
        OK(cudnnConvolutionBackwardFilter(handle, &one, x_desc, x, y_desc, y, conv, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                          NULL, 0, &zero, w_desc, w));
        for (k = 0; k < K; k++)
            for (c = 0; c < C; c++)
                for (r = 0; r < R; r++)
                    for (s = 0; s < R; s++) wrong += w[k][c][r][s] != (float)weights[k][c][r][s];
        break;
    }
    CHECK(wrong == 0);
    unmap(xs);
    unmap(ys);
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
}

/* An x of one image whose rows are 2^31 and more elements, of which a stride far larger than the window reads few: bytes. */
static void rows(void) {
    enum { WIDTH = 2000000000, STRIDE = 499999999, OUT = 5, ROWS = 2 };
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    int dims[4] = {1, 1, ROWS, WIDTH}, strides[4] = {1, 1, WIDTH, 1}, pad[2] = {0, 0}, step[2] = {1, STRIDE},
        dilation[2] = {1, 1};
    int out[4] = {1, 1, ROWS, OUT}, packed[4] = {ROWS * OUT, ROWS * OUT, OUT, 1}, found[4], i, j;
    struct array x = map((int64_t)WIDTH * ROWS, 1);
    signed char w[3] = {2, -3, 4};
    int y[ROWS * OUT];
    float one = 1, zero = 0;
    OK(cudnnCreateTensorDescriptor(&x_desc));
    OK(cudnnCreateTensorDescriptor(&y_desc));
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetTensorNdDescriptor(x_desc, CUDNN_DATA_INT8, 4, dims, strides));
    OK(cudnnSetTensorNdDescriptor(y_desc, CUDNN_DATA_INT32, 4, out, packed));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_INT8, CUDNN_TENSOR_NCHW, 1, 1, 1, 3));
    OK(cudnnSetConvolutionNdDescriptor(conv, 2, pad, step, dilation, CUDNN_CROSS_CORRELATION, CUDNN_DATA_INT32));
    OK(cudnnGetConvolutionNdForwardOutputDim(conv, x_desc, w_desc, 4, found));
    CHECK(found[2] == ROWS && found[3] == (WIDTH - 3) / STRIDE + 1);
    out[3] = found[3];
    packed[0] = packed[1] = ROWS * out[3];
    packed[2] = out[3];
    CHECK(out[3] <= OUT);
    OK(cudnnSetTensorNdDescriptor(y_desc, CUDNN_DATA_INT32, 4, out, packed));
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < out[3]; j++) {
            int64_t at = (int64_t)i * WIDTH + (int64_t)j * STRIDE;
            x.bytes[at] = (signed char)(i * 50 + j + 1);
            x.bytes[at + 1] = (signed char)(j - 60);
            x.bytes[at + 2] = (signed char)(7 - i);
        }
    OK(cudnnConvolutionForward(handle, &one, x_desc, x.bytes, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                               NULL, 0, &zero, y_desc, y));
    for (i = 0; i < ROWS; i++)
        for (j = 0; j < out[3]; j++) CHECK(y[i * out[3] + j] == 2 * (i * 50 + j + 1) - 3 * (j - 60) + 4 * (7 - i));
    unmap(x);
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
}

/* A w of more than 2^31 bytes, nearly all of them nothing: of each filter three weights are set. */
static void filters(void) {
    enum { CHANNELS = 46400, FILTERS = 46500 };
    const int places[3] = {0, CHANNELS / 2, CHANNELS - 1};
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    struct array w = map((int64_t)CHANNELS * FILTERS, 1);
    signed char *x = (signed char *)malloc(CHANNELS);
    int *y = (int *)malloc(FILTERS * sizeof *y), i, j, wrong = 0;
    float one = 1, zero = 0;
    OK(cudnnCreateTensorDescriptor(&x_desc));
    OK(cudnnCreateTensorDescriptor(&y_desc));
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8, 1, CHANNELS, 1, 1));
    OK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT32, 1, FILTERS, 1, 1));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_INT8, CUDNN_TENSOR_NCHW, FILTERS, CHANNELS, 1, 1));
    OK(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_INT32));
    for (i = 0; i < CHANNELS; i++) x[i] = (signed char)(i % 251 - 125);
    for (i = 0; i < FILTERS; i += 3)
        for (j = 0; j < 3; j++) w.bytes[(int64_t)i * CHANNELS + places[j]] = (signed char)(i * 5 % 127 - 50 + j);
    OK(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w.bytes, conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                               NULL, 0, &zero, y_desc, y));
    for (i = 0; i < FILTERS; i++) {
        int want = 0;
        for (j = 0; j < 3 && i % 3 == 0; j++) want += x[places[j]] * (i * 5 % 127 - 50 + j);
        wrong += y[i] != want;
    }
    CHECK(wrong == 0);
    unmap(w);
    free(x);
    free(y);
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
}

int main(void) {
    int direction;
    OK(cudnnCreate(&handle));
    for (direction = 0; direction < 3; direction++) {
        planes(1, (enum direction)direction);
        planes(0, (enum direction)direction);
    }
    rows();
    filters();
    OK(cudnnDestroy(handle));
    return check_result("convolution_large");
}
