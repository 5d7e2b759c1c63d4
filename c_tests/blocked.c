/* The blocked formats of cudnn_shim.h: offsets, sizes, zero padding of the channel tail, the way back, and sums. */
#include "check.h"

#include <cudnn_shim.h>

static cudnnHandle_t handle;

static const float one = 1.0f, zero = 0.0f, half = 0.5f;

enum { N = 2, H = 5, W = 4 };

/* Offset of an element in NC/xHWx, as the format is defined. */
static size_t blocked_offset(int x, int channels, int n, int c, int h, int w) {
    size_t blocks = (size_t)((channels + x - 1) / x);
    return ((((size_t)n * blocks + (size_t)(c / x)) * H + (size_t)h) * W + (size_t)w) * (size_t)x + (size_t)(c % x);
}

static size_t plain_offset(int channels, int n, int c, int h, int w) {
    return (((size_t)n * (size_t)channels + (size_t)c) * H + (size_t)h) * W + (size_t)w;
}

static cudnnTensorDescriptor_t describe(cudnnTensorFormat_t format, cudnnDataType_t type, int channels) {
    cudnnTensorDescriptor_t desc = NULL;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, format, type, N, channels, H, W));
    return desc;
}

/* NCHW float to NC/xHWx and back, scaled onto old content, with every channel count around a block. */
static void round_trip(int x, int channels) {
    const int padded = (channels + x - 1) / x * x;
    const size_t plain = (size_t)N * (size_t)channels * H * W, blocked = (size_t)N * (size_t)padded * H * W;
    cudnnTensorDescriptor_t a = describe(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, channels);
    cudnnTensorDescriptor_t b = describe(CUDNN_SHIM_TENSOR_NC_XHWX(x), CUDNN_DATA_FLOAT, channels);
    float *source = (float *)guarded_alloc(plain * sizeof(float)),
          *back = (float *)guarded_alloc(plain * sizeof(float));
    float *y = (float *)guarded_alloc(blocked * sizeof(float)), *want = (float *)calloc(blocked, sizeof(float));
    size_t size = 0, i;
    int round, n, c, h, w;
    OK(cudnnGetTensorSizeInBytes(b, &size));
    CHECK(size == blocked * sizeof(float));
    for (i = 0; i < plain; i++) source[i] = (float)(i % 251) + 1.0f;
    memset(y, 0xff, blocked * sizeof(float)); /* NaN: beta 0 must not read it, and the tail must be written */
    for (round = 0; round < 2; round++) {
        for (n = 0; n < N; n++)
            for (c = 0; c < channels; c++)
                for (h = 0; h < H; h++)
                    for (w = 0; w < W; w++)
                        want[blocked_offset(x, channels, n, c, h, w)] +=
                            source[plain_offset(channels, n, c, h, w)] * (round == 0 ? 1.0f : half);
        OK(cudnnTransformTensor(handle, round == 0 ? &one : &half, a, source, round == 0 ? &zero : &one, b, y));
        CHECK(memcmp(y, want, blocked * sizeof(float)) == 0);
    }
    OK(cudnnTransformTensor(handle, &one, b, y, &zero, a, back));
    for (i = 0; i < plain; i++) CHECK(back[i] == source[i] * 1.5f);
    OK(cudnnDestroyTensorDescriptor(a));
    OK(cudnnDestroyTensorDescriptor(b));
    guarded_free(source, plain * sizeof(float));
    guarded_free(back, plain * sizeof(float));
    guarded_free(y, blocked * sizeof(float));
    free(want);
}

/* From one block size to another, also where neither divides the other, with a conversion on the way. */
static void between_blocks(int from, int to, int channels) {
    const int from_padded = (channels + from - 1) / from * from, to_padded = (channels + to - 1) / to * to;
    const size_t xn = (size_t)N * (size_t)from_padded * H * W, yn = (size_t)N * (size_t)to_padded * H * W;
    cudnnTensorDescriptor_t a = describe(CUDNN_SHIM_TENSOR_NC_XHWX(from), CUDNN_DATA_INT8, channels);
    cudnnTensorDescriptor_t b = describe(CUDNN_SHIM_TENSOR_NC_XHWX(to), CUDNN_DATA_INT32, channels);
    signed char *x = (signed char *)guarded_alloc(xn);
    int32_t *y = (int32_t *)guarded_alloc(yn * sizeof *y), *want = (int32_t *)calloc(yn, sizeof *want);
    size_t i;
    int n, c, h, w;
    for (i = 0; i < xn; i++) x[i] = (signed char)(i * 37 % 255);
    for (n = 0; n < N; n++)
        for (c = 0; c < channels; c++)
            for (h = 0; h < H; h++)
                for (w = 0; w < W; w++)
                    want[blocked_offset(to, channels, n, c, h, w)] = x[blocked_offset(from, channels, n, c, h, w)];
    OK(cudnnTransformTensor(handle, &one, a, x, &zero, b, y));
    CHECK(memcmp(y, want, yn * sizeof *y) == 0);
    OK(cudnnDestroyTensorDescriptor(a));
    OK(cudnnDestroyTensorDescriptor(b));
    guarded_free(x, xn);
    guarded_free(y, yn * sizeof *y);
    free(want);
}

/* Padding and cropping into and out of a blocked format: cudnnTransformTensorEx writes the tail as well. */
static void through_a_transform(void) {
    const int pad[4] = {0, 0, 1, 0}, nothing[4] = {0, 0, 0, 0};
    cudnnTensorDescriptor_t a = describe(CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 17), b = NULL;
    cudnnTensorTransformDescriptor_t transform = NULL;
    float *x = (float *)guarded_alloc((size_t)N * 17 * H * W * sizeof(float)), *y;
    size_t size = 0, i;
    int n, c, h, w, wrong = 0;
    OK(cudnnCreateTensorDescriptor(&b));
    OK(cudnnCreateTensorTransformDescriptor(&transform));
    OK(cudnnSetTensorTransformDescriptor(transform, 4, CUDNN_SHIM_TENSOR_NCHW8C, pad, nothing, NULL,
                                         CUDNN_TRANSFORM_FOLD));
    OK(cudnnInitTransformDest(transform, a, b, &size));
    CHECK(size == (size_t)N * 24 * (H + 1) * W * sizeof(float));
    y = (float *)guarded_alloc(size);
    for (i = 0; i < (size_t)N * 17 * H * W; i++) x[i] = (float)i + 1.0f;
    OK(cudnnTransformTensorEx(handle, transform, &one, a, x, &zero, b, y));
    for (n = 0; n < N; n++)
        for (c = 0; c < 24; c++)
            for (h = 0; h < H + 1; h++)
                for (w = 0; w < W; w++) {
                    const size_t at = ((((size_t)n * 3 + (size_t)c / 8) * (H + 1) + (size_t)h) * W + (size_t)w) * 8;
                    const float want =
                        c < 17 && h > 0 ? x[(((size_t)n * H + (size_t)h - 1) * W + (size_t)w) * 17 + (size_t)c] : 0.0f;
                    wrong += y[at + (size_t)c % 8] != want;
                }
    CHECK(wrong == 0);
    OK(cudnnDestroyTensorTransformDescriptor(transform));
    OK(cudnnDestroyTensorDescriptor(a));
    OK(cudnnDestroyTensorDescriptor(b));
    guarded_free(x, (size_t)N * 17 * H * W * sizeof(float));
    guarded_free(y, size);
}

/* Sums over channels of which the last block is not full: what lies behind them does not count. */
static void sums_of_channels(void) {
    enum { CHANNELS = 17, BLOCK = 8 };
    static float x[N * 3 * BLOCK * H * W], y[N * H * W];
    cudnnTensorDescriptor_t of_x = describe(CUDNN_SHIM_TENSOR_NCHW8C, CUDNN_DATA_FLOAT, CHANNELS);
    cudnnTensorDescriptor_t of_y = describe(CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1);
    cudnnReduceTensorDescriptor_t sum;
    int n, c, h, w;
    OK(cudnnCreateReduceTensorDescriptor(&sum));
    OK(cudnnSetReduceTensorDescriptor(sum, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    for (n = 0; n < N; n++)
        for (c = 0; c < 3 * BLOCK; c++)
            for (h = 0; h < H; h++)
                for (w = 0; w < W; w++)
                    x[blocked_offset(BLOCK, CHANNELS, n, c, h, w)] = c < CHANNELS ? (float)(c + 10 * n + h + 5 * w) : 1e6f;
    OK(cudnnReduceTensor(handle, sum, NULL, 0, NULL, 0, &one, of_x, x, &zero, of_y, y));
    for (n = 0; n < N; n++)
        for (h = 0; h < H; h++)
            for (w = 0; w < W; w++)
                CHECK(y[plain_offset(1, n, 0, h, w)] ==
                      (float)(CHANNELS * (CHANNELS - 1) / 2 + CHANNELS * (10 * n + h + 5 * w)));
    OK(cudnnDestroyReduceTensorDescriptor(sum));
    OK(cudnnDestroyTensorDescriptor(of_y));
    OK(cudnnDestroyTensorDescriptor(of_x));
}

/* x = 1 is NCHW, x = C is NHWC, and what cannot be a block is refused. */
static void limits(void) {
    cudnnTensorDescriptor_t desc = describe(CUDNN_SHIM_TENSOR_NC_XHWX(8), CUDNN_DATA_HALF, 17);
    cudnnDataType_t type;
    int n, c, h, w, strides[4];
    OK(cudnnGetTensor4dDescriptor(desc, &type, &n, &c, &h, &w, &strides[0], &strides[1], &strides[2], &strides[3]));
    CHECK(type == CUDNN_DATA_HALF && n == N && c == 17 && h == H && w == W);
    CHECK(strides[0] == 24 * H * W && strides[1] == 8 * H * W && strides[2] == 8 * W && strides[3] == 8);
    BAD(cudnnSetTensor4dDescriptor(desc, CUDNN_SHIM_TENSOR_NC_XHWX(0), CUDNN_DATA_FLOAT, N, 17, H, W));
    BAD(cudnnSetTensor4dDescriptor(desc, CUDNN_SHIM_TENSOR_NC_XHWX(65536), CUDNN_DATA_FLOAT, N, 17, H, W));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
           cudnnSetTensor4dDescriptor(desc, CUDNN_SHIM_TENSOR_NCHW8C, CUDNN_DATA_INT8x4, N, 17, H, W));
    OK(cudnnDestroyTensorDescriptor(desc));
}

int main(void) {
    static const int channels[] = {1, 7, 8, 9, 15, 16, 17, 64};
    size_t i;
    OK(cudnnCreate(&handle));
    for (i = 0; i < sizeof channels / sizeof *channels; i++) {
        round_trip(8, channels[i]);
        round_trip(16, channels[i]);
        round_trip(3, channels[i]);
        round_trip(1, channels[i]);
        round_trip(channels[i], channels[i]);
        between_blocks(8, 16, channels[i]);
        between_blocks(16, 8, channels[i]);
        between_blocks(6, 4, channels[i]);
        between_blocks(5, 7, channels[i]);
    }
    through_a_transform();
    sums_of_channels();
    limits();
    OK(cudnnDestroy(handle));
    return check_result("blocked");
}
