/* Gradients of pooling whose windows, strides and paddings are far larger than the image take the time and memory of the image.
 *
 * Not under valgrind, which needs more memory than is left here. */
#define _DEFAULT_SOURCE
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "sanitized.h"

enum { C = 20, SIDE = 64, SPACE = SIDE * SIDE, MOST = 3 };

static cudnnHandle_t handle;
static float x[C * SPACE], dx[C * SPACE], y[C * MOST * MOST], dy[C * MOST * MOST];

/* Where channel c and position s of `space` lie. */
static int at(cudnnTensorFormat_t format, int c, int s, int space) {
    return format == CUDNN_TENSOR_NCHW ? c * space + s : s * C + c;
}

/* The cells that output `o` of an axis holds: [from[0], from[1]). */
static void held(int o, int window, int pad, int stride, long long from[2]) {
    from[0] = (long long)o * stride - pad, from[1] = from[0] + window;
    if (from[0] < 0) from[0] = 0;
    if (from[1] > SIDE) from[1] = SIDE;
}

/* As the call is defined, one cell at a time. `wanted` in the order c, h, w. */
static void define(cudnnPoolingMode_t mode, cudnnTensorFormat_t format, int window, int pad, int stride, int side,
                   double *wanted) {
    int c, o, p;
    memset(wanted, 0, C * SPACE * sizeof *wanted);
    for (c = 0; c < C; c++)
        for (o = 0; o < side; o++)
            for (p = 0; p < side; p++) {
                const double g = dy[at(format, c, o * side + p, side * side)];
                long long rows[2], columns[2], h, w, best = -1;
                double inside, padded = 1;
                int k;
                held(o, window, pad, stride, rows), held(p, window, pad, stride, columns);
                if (rows[0] >= rows[1] || columns[0] >= columns[1]) continue;
                inside = (double)((rows[1] - rows[0]) * (columns[1] - columns[0]));
                for (k = 0; k < 2; k++) {
                    const long long first = (long long)(k ? p : o) * stride - pad;
                    const long long last = first + window < SIDE + (long long)pad ? first + window : SIDE + (long long)pad;
                    padded *= (double)(last - first);
                }
                for (h = rows[0]; h < rows[1]; h++)
                    for (w = columns[0]; w < columns[1]; w++) {
                        const long long s = h * SIDE + w;
                        if (mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING) wanted[c * SPACE + s] += g / inside;
                        if (mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING) wanted[c * SPACE + s] += g / padded;
                        if (best < 0 || x[at(format, c, (int)s, SPACE)] > x[at(format, c, (int)best, SPACE)]) best = s;
                    }
                if (mode == CUDNN_POOLING_MAX) wanted[c * SPACE + best] += g;
            }
}

static void compare(cudnnPoolingMode_t mode, cudnnTensorFormat_t format, int window, int pad, int stride, int side) {
    static double wanted[C * SPACE];
    const float one = 1, zero = 0;
    cudnnTensorDescriptor_t image, output;
    cudnnPoolingDescriptor_t pooling;
    int c, s, wrong = 0;
    OK(cudnnCreateTensorDescriptor(&image));
    OK(cudnnCreateTensorDescriptor(&output));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnSetTensor4dDescriptor(image, format, CUDNN_DATA_FLOAT, 1, C, SIDE, SIDE));
    OK(cudnnSetTensor4dDescriptor(output, format, CUDNN_DATA_FLOAT, 1, C, side, side));
    OK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_PROPAGATE_NAN, window, window, pad, pad, stride, stride));
    memset(dx, 0x5a, sizeof dx);
    OK(cudnnPoolingBackward(handle, pooling, &one, output, y, output, dy, image, x, &zero, image, dx));
    define(mode, format, window, pad, stride, side, wanted);
    for (c = 0; c < C; c++)
        for (s = 0; s < SPACE; s++) {
            const double got = dx[at(format, c, s, SPACE)], want = wanted[c * SPACE + s], off = got - want;
            wrong += !((off < 0 ? -off : off) <= 1e-5 * (want < 0 ? -want : want));
        }
    if (wrong) fprintf(stderr, "mode %d, format %d, window %d, pad %d, stride %d, %d outputs: ", (int)mode, (int)format,
                       window, pad, stride, side);
    CHECK(wrong == 0);
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyTensorDescriptor(output));
    OK(cudnnDestroyTensorDescriptor(image));
}

int main(void) {
    static const int cases[][4] = {
        /* window, padding, stride, outputs along each axis */
        {1 << 20, 1 << 19, 1000000000, 1}, {1 << 20, 1 << 19, 10, 3}, {2, 0, 1000000000, 2},
        {70, 5, 1000000000, 3},            {1 << 30, 1 << 29, 1 << 28, 3}, {1000, 990, 7, 3},
        {3, 100, 60, 3},                   {2, 1000, 1, 2},
    };
    static const cudnnPoolingMode_t modes[] = {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
                                               CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING};
    struct rlimit limit;
    size_t i, m;
    int k;
    alarm(60);
    setenv("CUDNN_SHIM_NUM_THREADS", "2", 1);
    for (k = 0; k < C * SPACE; k++) x[k] = (float)((k * 7919LL) % 10007);
    for (k = 0; k < C * MOST * MOST; k++) dy[k] = (float)(k % 13 + 1);
    OK(cudnnCreate(&handle));
    compare(CUDNN_POOLING_MAX, CUDNN_TENSOR_NCHW, 2, 0, 2, 3); /* the threads begin */
#if !IS_SANITIZED
    limit.rlim_cur = limit.rlim_max = 1 << 30;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
#else
    (void)limit;
#endif
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        for (m = 0; m < sizeof modes / sizeof *modes; m++) {
            compare(modes[m], CUDNN_TENSOR_NCHW, cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
            compare(modes[m], CUDNN_TENSOR_NHWC, cases[i][0], cases[i][1], cases[i][2], cases[i][3]);
        }
    OK(cudnnDestroy(handle));
    return check_result("pooling_extremes");
}
