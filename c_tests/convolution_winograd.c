/* Which numbers compute 3 x 3 layers by F(2x2, 3x3), and what all others promise instead: plain sums within the stated bound whatever
 * the data is - an identity, one value of a million among small ones, values near the largest, weights below the smallest normal
 * number - in both layouts, forward, backward and fused, by every algorithm number, in strict mode, too.
 *
 * Not under valgrind, where it takes minutes. */
#include "convolution.h"

#include <sys/wait.h>
#include <unistd.h>

static cudnnHandle_t handle;
static int strict;

enum { CHANNELS = 32, FILTERS = 34, HEIGHT = 13, WIDTH = 14 };

static const double EPSILON = 5.9604644775390625e-8;
/* The least distance of two numbers. */
static const double LEAST = 1.401298464324817e-45;

static int is_winograd(enum direction direction, int number) {
    return direction == FORWARD ? number == 6 || number == 7 : number == 4 || number == 5;
}

static double magnitude(double value) { return value < 0 ? -value : value; }

/* Where element (n, c, row, column) of a tensor lies. */
static size_t place(cudnnTensorFormat_t format, int channels, int n, int c, int row, int column) {
    if (format == CUDNN_TENSOR_NHWC) return (((size_t)n * HEIGHT + row) * WIDTH + column) * channels + c;
    return (((size_t)n * channels + c) * HEIGHT + row) * WIDTH + column;
}

static size_t tap(cudnnTensorFormat_t format, int k, int c, int r, int s) {
    if (format == CUDNN_TENSOR_NHWC) return (((size_t)k * 3 + r) * 3 + s) * CHANNELS + c;
    return (((size_t)k * CHANNELS + c) * 3 + r) * 3 + s;
}

/* Sums of the forward call or of the gradient of the data, in the order of the result, and for each the bound of a plain sum and of
 * Winograd's: 64 times the largest of the patch times the largest of the filter, channel by channel. */
static void expected(cudnnTensorFormat_t format, enum direction direction, const float *from, const float *w,
                     double *sums, double *bounds, double *winograd) {
    const int of_from = direction == FORWARD ? CHANNELS : FILTERS, of_to = direction == FORWARD ? FILTERS : CHANNELS;
    int m, c, row, column, r, s;
    for (m = 0; m < of_to; m++)
        for (row = 0; row < HEIGHT; row++)
            for (column = 0; column < WIDTH; column++) {
                size_t to = place(format, of_to, 0, m, row, column);
                sums[to] = bounds[to] = winograd[to] = 0;
                for (c = 0; c < of_from; c++) {
                    double patch = 0, filter = 0;
                    /* The 3 x 3 positions of the window, and those of the patches of 4 x 4 that it may be part of. */
                    for (r = -1; r < 4; r++)
                        for (s = -1; s < 4; s++) {
                            int i = row + r - 1, j = column + s - 1, is_tap = r >= 0 && r < 3 && s >= 0 && s < 3;
                            double value = 0, weight;
                            if (i >= 0 && i < HEIGHT && j >= 0 && j < WIDTH)
                                value = from[place(format, of_from, 0, c, i, j)];
                            if (magnitude(value) > patch) patch = magnitude(value);
                            if (!is_tap) continue;
                            weight = direction == FORWARD ? w[tap(format, m, c, r, s)]
                                                          : w[tap(format, c, m, 2 - r, 2 - s)];
                            if (magnitude(weight) > filter) filter = magnitude(weight);
                            sums[to] += value * weight;
                            bounds[to] += magnitude(value * weight);
                        }
                    winograd[to] += 64 * patch * filter;
                }
                /* A product that leaves the normal numbers is rounded to a multiple of the least. */
                bounds[to] = 2.0 * 9 * of_from * (EPSILON * bounds[to] + LEAST);
                winograd[to] = 2.0 * (of_from + 16) * (EPSILON * winograd[to] + 64 * LEAST);
            }
}

static float drawn(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return (float)((int)(*seed >> 16 & 255) - 128) / 128;
}

enum data { SMALL, OUTLIER, LARGE, TINY, KINDS };

static void draw(enum data kind, float *x, size_t count, float *w, size_t weights) {
    uint32_t seed = 7;
    size_t i;
    for (i = 0; i < count; i++) x[i] = drawn(&seed) * (kind == LARGE ? 3e38f : 1);
    for (i = 0; i < weights; i++)
        w[i] = drawn(&seed) * (kind == LARGE ? 1e-3f : kind == TINY ? 2e-42f : 1);
    if (kind == OUTLIER)
        for (i = 5; i < count; i += 977) x[i] = 1e6f;
}

static cudnnStatus_t fused(const struct convolution *of, int number, const float *x, const float *w, float *y,
                           cudnnTensorDescriptor_t vector, const float *bias, cudnnActivationDescriptor_t identity) {
    static char room[64];
    const float one = 1, zero = 0;
    return cudnnConvolutionBiasActivationForward(handle, &one, of->x, x, of->w, w, of->desc,
                                                 (cudnnConvolutionFwdAlgo_t)number, room, 16, &zero, of->y, y, vector,
                                                 bias, identity, of->y, y);
}

/* All numbers on one kind of data; a call that strict mode refuses is left out. */
static void numbers_on(const struct convolution *of, enum direction direction, enum data kind) {
    const cudnnTensorFormat_t format = of->shape.format;
    const size_t from_count = direction == FORWARD ? of->inputs : of->outputs;
    const size_t to_count = direction == FORWARD ? of->outputs : of->inputs;
    float *from = (float *)malloc(from_count * 4), *w = (float *)malloc(of->weights * 4);
    float *to = (float *)malloc(to_count * 4), *plain = (float *)malloc(to_count * 4), bias[FILTERS] = {0};
    double *sums = (double *)malloc(to_count * 8), *bounds = (double *)malloc(to_count * 8);
    double *winograd = (double *)malloc(to_count * 8);
    cudnnTensorDescriptor_t vector;
    cudnnActivationDescriptor_t identity;
    int number, is_fused, math;
    size_t i;
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, FILTERS, 1, 1));
    OK(cudnnCreateActivationDescriptor(&identity));
    OK(cudnnSetActivationDescriptor(identity, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0));
    draw(kind, from, from_count, w, of->weights);
    expected(format, direction, from, w, sums, bounds, winograd);
    for (math = CUDNN_DEFAULT_MATH; math <= CUDNN_FMA_MATH; math += CUDNN_FMA_MATH) {
        OK(cudnnSetConvolutionMathType(of->desc, (cudnnMathType_t)math));
        for (is_fused = 0; is_fused <= (direction == FORWARD); is_fused++)
            for (number = 0; number < numbers[direction]; number++) {
                const int transforms = is_winograd(direction, number);
                size_t wrong = 0;
                cudnnStatus_t status;
                memset(to, 0xff, to_count * 4);
                if (is_fused)
                    status = fused(of, number, from, w, to, vector, bias, identity);
                else
                    status = direction == FORWARD ? compute(handle, of, direction, number, 1, 0, from, w, to)
                                                  : compute(handle, of, direction, number, 1, 0, to, w, from);
                if (strict && status == CUDNN_STATUS_NOT_SUPPORTED) continue;
                OK(status);
                /* Beyond the range of Winograd's algorithms, which is a quarter of that of numbers. */
                if (transforms && kind == LARGE) continue;
                for (i = 0; i < to_count; i++)
                    wrong += !(magnitude(to[i] - sums[i]) <= (transforms ? winograd : bounds)[i]);
                if (wrong > 0)
                    fprintf(stderr, "direction %d number %d math %d fused %d data %d format %d: %lu of %lu are wrong\n",
                            (int)direction, number, math, is_fused, (int)kind, (int)format, (unsigned long)wrong,
                            (unsigned long)to_count);
                CHECK(wrong == 0);
                if (number == 0 && math == 0 && !is_fused) memcpy(plain, to, to_count * 4);
                /* All numbers but those two give the same bits. */
                if (!transforms) CHECK(memcmp(plain, to, to_count * 4) == 0);
            }
    }
    OK(cudnnSetConvolutionMathType(of->desc, CUDNN_DEFAULT_MATH));
    OK(cudnnDestroyActivationDescriptor(identity));
    OK(cudnnDestroyTensorDescriptor(vector));
    free(from), free(w), free(to), free(plain), free(sums), free(bounds), free(winograd);
}

/* A filter that is 1 in its middle for one channel each returns x, bit by bit. */
static void identity_returns_x(const struct convolution *of) {
    const cudnnTensorFormat_t format = of->shape.format;
    float *x = (float *)malloc(of->inputs * 4), *y = (float *)malloc(of->outputs * 4);
    float *w = (float *)calloc(of->weights, 4);
    uint32_t seed = 3;
    int k, row, column, number;
    size_t i;
    for (i = 0; i < of->inputs; i++) x[i] = drawn(&seed) / 3 + drawn(&seed) * 1e-5f;
    for (k = 0; k < FILTERS; k++) w[tap(format, k, k % CHANNELS, 1, 1)] = 1;
    for (number = 0; number < numbers[FORWARD]; number++) {
        size_t wrong = 0;
        cudnnStatus_t status = compute(handle, of, FORWARD, number, 1, 0, x, w, y);
        if (is_winograd(FORWARD, number) || (strict && status == CUDNN_STATUS_NOT_SUPPORTED)) continue;
        OK(status);
        for (k = 0; k < FILTERS; k++)
            for (row = 0; row < HEIGHT; row++)
                for (column = 0; column < WIDTH; column++)
                    wrong += y[place(format, FILTERS, 0, k, row, column)] !=
                             x[place(format, CHANNELS, 0, k % CHANNELS, row, column)];
        CHECK(wrong == 0);
    }
    free(x), free(w), free(y);
}

/* The first of the query, and what it says of the numbers of Winograd: first, or all behind those that serve and are not. */
static int first_of(const struct convolution *of, enum direction direction, int way, const float *x, const float *w,
                    float *y) {
    int count = 0, first = -1;
    if (direction == FORWARD) {
        cudnnConvolutionFwdAlgoPerf_t record;
        cudnnConvolutionFwdAlgo_t algo;
        if (way == 0)
            OK(cudnnGetConvolutionForwardAlgorithm_v7(handle, of->x, of->w, of->desc, of->y, 1, &count, &record));
        else if (way == 1)
            OK(cudnnFindConvolutionForwardAlgorithm(handle, of->x, of->w, of->desc, of->y, 1, &count, &record));
        else if (way == 2)
            OK(cudnnFindConvolutionForwardAlgorithmEx(handle, of->x, x, of->w, w, of->desc, of->y, y, 1, &count,
                                                      &record, NULL, 0));
        if (way < 3) return CUDNN_STATUS_SUCCESS == record.status && count == 1 ? (int)record.algo : -1;
        OK(cudnnGetConvolutionForwardAlgorithm(handle, of->x, of->w, of->desc, of->y,
                                               way == 3 ? CUDNN_CONVOLUTION_FWD_PREFER_FASTEST
                                                        : CUDNN_CONVOLUTION_FWD_NO_WORKSPACE,
                                               0, &algo));
        first = (int)algo;
    } else {
        cudnnConvolutionBwdDataAlgoPerf_t record;
        cudnnConvolutionBwdDataAlgo_t algo;
        if (way == 0)
            OK(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, of->w, of->y, of->desc, of->x, 1, &count, &record));
        else if (way == 1)
            OK(cudnnFindConvolutionBackwardDataAlgorithm(handle, of->w, of->y, of->desc, of->x, 1, &count, &record));
        else if (way == 2)
            OK(cudnnFindConvolutionBackwardDataAlgorithmEx(handle, of->w, w, of->y, y, of->desc, of->x, (void *)x, 1,
                                                           &count, &record, NULL, 0));
        if (way < 3) return CUDNN_STATUS_SUCCESS == record.status && count == 1 ? (int)record.algo : -1;
        OK(cudnnGetConvolutionBackwardDataAlgorithm(handle, of->w, of->y, of->desc, of->x,
                                                    way == 3 ? CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST
                                                             : CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE,
                                                    0, &algo));
        first = (int)algo;
    }
    return first;
}

/* Whether the two ways to compute differ on this machine: then there is a kernel for the numbers of Winograd. */
static int has_kernel(const struct convolution *of, enum direction direction, const float *x, const float *w,
                      const float *y) {
    const size_t count = direction == FORWARD ? of->outputs : of->inputs;
    float *results[2];
    int i, differ;
    for (i = 0; i < 2; i++) {
        const int number = i == 0 ? 0 : direction == FORWARD ? 6 : 4;
        results[i] = (float *)malloc(count * 4);
        if (direction == FORWARD)
            OK(compute(handle, of, direction, number, 1, 0, (void *)x, (void *)w, results[i]));
        else
            OK(compute(handle, of, direction, number, 1, 0, results[i], (void *)w, (void *)y));
    }
    differ = memcmp(results[0], results[1], count * 4) != 0;
    free(results[0]), free(results[1]);
    return differ;
}

/* Queries rank the numbers of Winograd first where there is a kernel for them, but neither under FMA math nor in strict mode. What
 * is measured has a time for either, of which the shorter is first. */
static void ranked(struct shape shape) {
    struct convolution of = describe(shape);
    float *x = (float *)malloc(of.inputs * 4), *w = (float *)malloc(of.weights * 4), *y = (float *)malloc(of.outputs * 4);
    uint32_t seed = 11;
    int direction, way, fma;
    size_t i;
    for (i = 0; i < of.inputs; i++) x[i] = drawn(&seed) / 3;
    for (i = 0; i < of.weights; i++) w[i] = drawn(&seed) / 3;
    for (i = 0; i < of.outputs; i++) y[i] = drawn(&seed) / 3;
    for (direction = FORWARD; direction <= DATA; direction++) {
        const int preferred =
            !strict && shape.stride == 1 && has_kernel(&of, (enum direction)direction, x, w, y);
        for (fma = 0; fma < 2; fma++) {
            OK(cudnnSetConvolutionMathType(of.desc, fma ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH));
            for (way = 0; way < 5; way++) {
                const int first = first_of(&of, (enum direction)direction, way, x, w, y);
                const int is_first = is_winograd((enum direction)direction, first);
                if (fma || !preferred)
                    CHECK(first >= 0 && !is_first);
                else if (way == 0 || way > 2)
                    CHECK(is_first);
                else
                    CHECK(first >= 0);
            }
        }
    }
    free(x), free(w), free(y);
    forget(&of);
}

static void check_all(void) {
    int format, kind;
    OK(cudnnCreate(&handle));
    for (format = 0; format < 2; format++) {
        const cudnnTensorFormat_t formats[] = {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC};
        const struct shape layer = {1, CHANNELS, HEIGHT, WIDTH, FILTERS, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                    formats[format], CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
        struct shape wide = layer, strided;
        struct convolution of = describe(layer);
        identity_returns_x(&of);
        for (kind = 0; kind < KINDS; kind++) {
            numbers_on(&of, FORWARD, (enum data)kind);
            numbers_on(&of, DATA, (enum data)kind);
        }
        forget(&of);
        wide.k = 64;
        wide.c = 64;
        wide.h = wide.w = 20;
        strided = wide;
        strided.stride = 2;
        ranked(wide);
        ranked(strided);
    }
    OK(cudnnDestroy(handle));
}

int main(void) {
    int status = -1;
    /* The library asks for its mode once in each process. */
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        strict = 1;
        setenv("CUDNN_SHIM_STRICT", "1", 1);
    }
    check_all();
    if (child > 0) CHECK(waitpid(child, &status, 0) == child && status == 0);
    return check_result("convolution_winograd");
}
