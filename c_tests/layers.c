/* Normalisations, dropout, columns and reductions as programs call them, against their formulas; and what each says of memory that is
 * missing or too small: BAD_PARAM, with the bytes given and needed, and nothing written. */
#include <math.h>

#include "check.h"

enum { N = 2, C = 6, H = 5, W = 4, SPACE = H * W, COUNT = N * C * SPACE, GROUP = N * SPACE };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor, channels;
static cudnnActivationDescriptor_t relu;
static const float one = 1, zero = 0;
static float x[COUNT], z[COUNT], means[COUNT], y[COUNT], scale[C], bias[C];

static int near(double a, double b) { return fabs(a - b) <= 1e-5 * (1 + fabs(b)); }

/* The last error speaks of both numbers of bytes. */
static int names(size_t given, size_t needed) {
    char text[512], number[32];
    cudnnGetLastErrorString(text, sizeof text);
    snprintf(number, sizeof number, "= %zu:", given);
    if (strstr(text, number) == NULL) return 0;
    snprintf(number, sizeof number, " %zu bytes", needed);
    return strstr(text, number) != NULL;
}

static void lrn(void) {
    cudnnLRNDescriptor_t desc;
    int i, c, k, n;
    OK(cudnnCreateLRNDescriptor(&desc));
    for (n = 1; n <= 6; n += 1) {
        const double alpha = 0.3, beta = 0.75, bottom = 2;
        OK(cudnnSetLRNDescriptor(desc, (unsigned)n, alpha, beta, bottom));
        OK(cudnnLRNCrossChannelForward(handle, desc, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, tensor, x, &zero, tensor, y));
        for (i = 0; i < COUNT; i++) {
            double sum = 0;
            c = i / SPACE % C;
            for (k = c - (n - 1) / 2; k <= c + n / 2; k++)
                if (k >= 0 && k < C) sum += (double)x[i + (k - c) * SPACE] * x[i + (k - c) * SPACE];
            CHECK(near(y[i], x[i] * pow(bottom + alpha / n * sum, -beta)));
        }
    }
    memset(y, CHECK_FILL, sizeof y);
    BAD(cudnnLRNCrossChannelForward(handle, desc, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, tensor, x, &zero, channels, y));
    BAD(cudnnLRNCrossChannelForward(handle, desc, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, tensor, NULL, &zero, tensor, y));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnDestroyLRNDescriptor(desc));
}

static void divisive(void) {
    cudnnLRNDescriptor_t desc;
    float *temp = (float *)guarded_alloc(sizeof x), *temp2 = (float *)guarded_alloc(sizeof x);
    const double alpha = 0.5, beta = 0.6, bottom = 1.5;
    int i, with;
    OK(cudnnCreateLRNDescriptor(&desc));
    OK(cudnnSetLRNDescriptor(desc, 3, alpha, beta, bottom));
    for (with = 0; with < 2; with++) {
        OK(cudnnDivisiveNormalizationForward(handle, desc, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &one, tensor, x,
                                             with ? means : NULL, temp, temp2, &zero, tensor, y));
        for (i = 0; i < COUNT; i++) {
            int row = i / W % H, column = i % W, r, s;
            double sum = 0, mean = with ? means[i] : 0;
            for (r = row - 1; r <= row + 1; r++)
                for (s = column - 1; s <= column + 1; s++)
                    if (r >= 0 && r < H && s >= 0 && s < W) {
                        double from = x[i - row * W - column + r * W + s] - mean;
                        sum += from * from;
                    }
            CHECK(near(y[i], x[i] * pow(bottom + alpha / 9 * sum, -beta)));
        }
    }
    memset(y, CHECK_FILL, sizeof y);
    BAD(cudnnDivisiveNormalizationForward(handle, desc, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &one, tensor, x, NULL, NULL,
                                          temp2, &zero, tensor, y));
    BAD(cudnnDivisiveNormalizationForward(handle, desc, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &one, tensor, x, NULL, temp,
                                          NULL, &zero, tensor, y));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnDestroyLRNDescriptor(desc));
    guarded_free(temp, sizeof x), guarded_free(temp2, sizeof x);
}

static void dropout(void) {
    cudnnDropoutDescriptor_t desc;
    size_t states_size = 0, reserve_size = 0;
    float back[COUNT];
    void *states, *reserve;
    int i, kept = 0;
    OK(cudnnCreateDropoutDescriptor(&desc));
    OK(cudnnDropoutGetStatesSize(handle, &states_size));
    OK(cudnnDropoutGetReserveSpaceSize(tensor, &reserve_size));
    CHECK(states_size == 6488064 && reserve_size >= COUNT / 8);
    states = guarded_alloc(states_size), reserve = guarded_alloc(reserve_size);
    BAD(cudnnSetDropoutDescriptor(desc, handle, 0.25f, states, 15, 3));
    CHECK(names(15, 16) && all_filled(states, states_size));
    OK(cudnnSetDropoutDescriptor(desc, handle, 0.25f, states, 16, 3));
    OK(cudnnSetDropoutDescriptor(desc, handle, 0.25f, states, states_size, 3));
    memset(y, CHECK_FILL, sizeof y);
    BAD(cudnnDropoutForward(handle, desc, tensor, x, tensor, y, reserve, reserve_size - 1));
    CHECK(names(reserve_size - 1, reserve_size));
    BAD(cudnnDropoutForward(handle, desc, tensor, x, tensor, y, NULL, reserve_size));
    CHECK(all_filled(y, sizeof y) && all_filled(reserve, reserve_size));
    OK(cudnnDropoutForward(handle, desc, tensor, x, tensor, y, reserve, reserve_size));
    OK(cudnnDropoutBackward(handle, desc, tensor, x, tensor, back, reserve, reserve_size));
    for (i = 0; i < COUNT; i++) {
        CHECK(y[i] == 0 || near(y[i], x[i] / 0.75));
        kept += y[i] != 0;
    }
    CHECK(kept > COUNT / 2 && kept < COUNT && memcmp(y, back, sizeof y) == 0);
    memset(back, CHECK_FILL, sizeof back);
    BAD(cudnnDropoutBackward(handle, desc, tensor, x, tensor, back, reserve, reserve_size - 1));
    CHECK(names(reserve_size - 1, reserve_size) && all_filled(back, sizeof back));
    guarded_free(states, states_size), guarded_free(reserve, reserve_size);
    OK(cudnnDestroyDropoutDescriptor(desc));
}

/* relu(scale * (x - mean) / deviation + bias + z), of the moments of x. */
static double normalised(int i) {
    int c = i / SPACE % C, n, s;
    double mean = 0, square = 0, value;
    for (n = 0; n < N; n++)
        for (s = 0; s < SPACE; s++) mean += x[(n * C + c) * SPACE + s];
    mean /= GROUP;
    for (n = 0; n < N; n++)
        for (s = 0; s < SPACE; s++) {
            double from = x[(n * C + c) * SPACE + s] - mean;
            square += from * from;
        }
    value = scale[c] * (x[i] - mean) / sqrt(square / GROUP + 1e-5) + bias[c] + z[i];
    return value > 0 ? value : 0;
}

static float saved[2][C];

static cudnnStatus_t batch_norm(void *workspace, size_t size, void *reserve, size_t reserve_size) {
    return cudnnBatchNormalizationForwardTrainingEx(handle, CUDNN_BATCHNORM_SPATIAL,
                                                    CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, &one, &zero, tensor, x,
                                                    tensor, z, tensor, y, channels, scale, bias, 0, NULL, NULL, 1e-5,
                                                    saved[0], saved[1], relu, workspace, size, reserve, reserve_size);
}

static cudnnStatus_t normalization(void *workspace, size_t size, void *reserve, size_t reserve_size) {
    return cudnnNormalizationForwardTraining(handle, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM_ADD_ACTIVATION,
                                             CUDNN_NORM_ALGO_STANDARD, &one, &zero, tensor, x, channels, scale, bias, 0,
                                             channels, NULL, NULL, 1e-5, saved[0], saved[1], relu, tensor, z, tensor, y,
                                             workspace, size, reserve, reserve_size, 1);
}

static void normalise(cudnnStatus_t (*run)(void *, size_t, void *, size_t), size_t size, size_t reserve_size) {
    void *workspace = guarded_alloc(size), *reserve = guarded_alloc(reserve_size);
    int i;
    CHECK(size > 0 && reserve_size > 1);
    memset(y, CHECK_FILL, sizeof y);
    memset(saved, CHECK_FILL, sizeof saved);
    BAD(run(workspace, size, reserve, reserve_size - 1));
    CHECK(names(reserve_size - 1, reserve_size));
    BAD(run(workspace, size, NULL, reserve_size));
    CHECK(all_filled(y, sizeof y) && all_filled(saved, sizeof saved) && all_filled(reserve, reserve_size));
    OK(run(workspace, size, reserve, reserve_size));
    for (i = 0; i < COUNT; i++) CHECK(near(y[i], normalised(i)));
    /* No workspace is needed. */
    memset(y, CHECK_FILL, sizeof y);
    OK(run(NULL, 0, reserve, reserve_size));
    for (i = 0; i < COUNT; i++) CHECK(near(y[i], normalised(i)));
    guarded_free(workspace, size), guarded_free(reserve, reserve_size);
}

static void normalisations(void) {
    size_t size = 0, reserve_size = 0;
    OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, CUDNN_BATCHNORM_SPATIAL,
                                                                CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, tensor, tensor,
                                                                tensor, channels, relu, &size));
    OK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
        handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, relu, tensor, &reserve_size));
    normalise(batch_norm, size, reserve_size);
    {
        /* What is long enough for several blocks of threads has room for what each of them found. */
        size_t large = 0;
        cudnnTensorDescriptor_t image;
        OK(cudnnCreateTensorDescriptor(&image));
        OK(cudnnSetTensor4dDescriptor(image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, 1024, 1024));
        OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, CUDNN_BATCHNORM_SPATIAL,
                                                                    CUDNN_BATCHNORM_OPS_BN, image, NULL, image,
                                                                    channels, NULL, &large));
        CHECK(large > size);
        OK(cudnnDestroyTensorDescriptor(image));
    }
    size = reserve_size = 0;
    OK(cudnnGetNormalizationForwardTrainingWorkspaceSize(handle, CUDNN_NORM_PER_CHANNEL,
                                                         CUDNN_NORM_OPS_NORM_ADD_ACTIVATION, CUDNN_NORM_ALGO_STANDARD,
                                                         tensor, tensor, tensor, channels, relu, channels, &size, 1));
    OK(cudnnGetNormalizationTrainingReserveSpaceSize(handle, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM_ADD_ACTIVATION,
                                                     CUDNN_NORM_ALGO_STANDARD, relu, tensor, &reserve_size, 1));
    normalise(normalization, size, reserve_size);
}

/* Windows of 3 x 3 one beside the other: a row for every channel and tap, a column for every position. */
static void columns(void) {
    enum { TAPS = 9, POSITIONS = N * SPACE };
    static float matrix[C * TAPS * POSITIONS];
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    int c, tap, n, row, column;
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, C, 3, 3));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(cudnnIm2Col(handle, tensor, x, filter, conv, matrix));
    for (c = 0; c < C; c++)
        for (tap = 0; tap < TAPS; tap++)
            for (n = 0; n < N; n++)
                for (row = 0; row < H; row++)
                    for (column = 0; column < W; column++) {
                        int r = row + tap / 3 - 1, s = column + tap % 3 - 1;
                        int inside = r >= 0 && r < H && s >= 0 && s < W;
                        float want = inside ? x[(n * C + c) * SPACE + r * W + s] : 0;
                        CHECK(matrix[(c * TAPS + tap) * POSITIONS + (n * H + row) * W + column] == want);
                    }
    memset(matrix, CHECK_FILL, sizeof matrix);
    BAD(cudnnIm2Col(handle, tensor, NULL, filter, conv, matrix));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, C + 1, 3, 3));
    BAD(cudnnIm2Col(handle, tensor, x, filter, conv, matrix));
    CHECK(all_filled(matrix, sizeof matrix));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(filter));
}

/* One element of four channels is not four sums of single channels; and a long sum of one output has room for its parts. */
static void reductions(void) {
    static signed char from[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[4];
    cudnnTensorDescriptor_t a, c;
    cudnnReduceTensorDescriptor_t sum;
    size_t size = 0;
    OK(cudnnCreateTensorDescriptor(&a));
    OK(cudnnCreateTensorDescriptor(&c));
    OK(cudnnCreateReduceTensorDescriptor(&sum));
    OK(cudnnSetReduceTensorDescriptor(sum, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnSetTensor4dDescriptor(a, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8, 1, 8, 1, 1));
    OK(cudnnSetTensor4dDescriptorEx(c, CUDNN_DATA_INT8x4, 1, 1, 1, 1, 1, 1, 1, 1));
    memset(to, CHECK_FILL, sizeof to);
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnReduceTensor(handle, sum, NULL, 0, NULL, 0, &one, a, from, &zero, c, to));
    CHECK(all_filled(to, sizeof to));
    OK(cudnnSetTensor4dDescriptor(a, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1024, 1024));
    OK(cudnnSetTensor4dDescriptor(c, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    OK(cudnnGetReductionWorkspaceSize(handle, sum, a, c, &size));
    CHECK(size >= 16 + 2 * sizeof(double));
    OK(cudnnDestroyReduceTensorDescriptor(sum));
    OK(cudnnDestroyTensorDescriptor(c));
    OK(cudnnDestroyTensorDescriptor(a));
}

int main(void) {
    int i;
    for (i = 0; i < COUNT; i++) {
        x[i] = (float)(i * 7 % 23 - 11) / 4 + (i % 2 ? 0.5f : 0.25f);
        z[i] = (float)(i * 5 % 17 - 8) / 8;
        means[i] = (float)(i * 3 % 11 - 5) / 8;
    }
    for (i = 0; i < C; i++) {
        scale[i] = 0.5f + (float)i;
        bias[i] = (float)i / 4 - 1;
    }
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateTensorDescriptor(&channels));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnDeriveBNTensorDescriptor(channels, tensor, CUDNN_BATCHNORM_SPATIAL));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    lrn();
    divisive();
    dropout();
    normalisations();
    columns();
    reductions();
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(channels));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
    return check_result("layers");
}
