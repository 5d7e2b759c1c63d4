/* cudnnTransformTensor and cudnnTransformTensorEx on host memory, against plain loops written out here. */
#include <math.h>

#include "check.h"

#define MAX_RANK 8

static cudnnHandle_t handle;

struct view {
    int rank;
    int dims[MAX_RANK];
    int strides[MAX_RANK];
};

static cudnnTensorDescriptor_t describe(cudnnDataType_t type, const struct view *v) {
    cudnnTensorDescriptor_t desc = NULL;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensorNdDescriptor(desc, type, v->rank, v->dims, v->strides));
    return desc;
}

/* Elements between the first and the last one, gaps included. */
static size_t span(const struct view *v) {
    size_t extent = 1;
    int i;
    for (i = 0; i < v->rank; i++) extent += (size_t)(v->dims[i] - 1) * (size_t)v->strides[i];
    return extent;
}

static size_t count(const struct view *v) {
    size_t n = 1;
    int i;
    for (i = 0; i < v->rank; i++) n *= (size_t)v->dims[i];
    return n;
}

/* Offset of the `index`-th element in logical row-major order. */
static size_t offset(const struct view *v, size_t index) {
    size_t at = 0;
    int i;
    for (i = v->rank - 1; i >= 0; i--) {
        at += (index % (size_t)v->dims[i]) * (size_t)v->strides[i];
        index /= (size_t)v->dims[i];
    }
    return at;
}

/* A value that is exact in every type used here, also after the scalings below. */
static float value(size_t index) { return (float)((int)(index * 7 % 101) - 50); }

/* y = alpha * x + beta * y for float tensors, gaps of y untouched. With beta 0 y starts as NaN. */
static void floats(const struct view *xv, const struct view *yv, float alpha, float beta) {
    size_t xn = span(xv), yn = span(yv), n = count(xv), i;
    float *x = (float *)guarded_alloc(xn * sizeof *x), *y = (float *)guarded_alloc(yn * sizeof *y);
    float *want = (float *)malloc(yn * sizeof *want), *kept = (float *)malloc(xn * sizeof *kept);
    cudnnTensorDescriptor_t xd = describe(CUDNN_DATA_FLOAT, xv), yd = describe(CUDNN_DATA_FLOAT, yv);
    for (i = 0; i < xn; i++) x[i] = NAN;
    for (i = 0; i < n; i++) x[offset(xv, i)] = value(i);
    for (i = 0; i < yn; i++) y[i] = beta == 0.0f ? NAN : value(i + 13);
    memcpy(want, y, yn * sizeof *y);
    memcpy(kept, x, xn * sizeof *x);
    for (i = 0; i < n; i++) {
        float *w = &want[offset(yv, i)];
        *w = beta == 0.0f ? alpha * x[offset(xv, i)] : alpha * x[offset(xv, i)] + beta * *w;
    }
    OK(cudnnTransformTensor(handle, &alpha, xd, x, &beta, yd, y));
    CHECK(memcmp(y, want, yn * sizeof *y) == 0);
    CHECK(memcmp(x, kept, xn * sizeof *x) == 0);
    OK(cudnnDestroyTensorDescriptor(xd));
    OK(cudnnDestroyTensorDescriptor(yd));
    guarded_free(x, xn * sizeof *x);
    guarded_free(y, yn * sizeof *y);
    free(want);
    free(kept);
}

static void layouts(void) {
    static const struct view views[] = {
        {4, {2, 16, 5, 4}, {320, 20, 4, 1}},    /* NCHW */
        {4, {2, 16, 5, 4}, {320, 1, 64, 16}},   /* NHWC */
        {4, {2, 16, 5, 4}, {1, 40, 8, 2}},      /* CHWN */
        {4, {2, 16, 5, 4}, {1000, 50, 9, 2}},   /* with gaps */
        {4, {2, 16, 5, 4}, {20, 40, 4, 1}},     /* CNHW */
    };
    static const struct view volumes[] = {
        {5, {2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}},
        {5, {2, 3, 4, 5, 6}, {360, 1, 90, 18, 3}},
        {5, {2, 3, 4, 5, 6}, {1, 240, 60, 12, 2}},
    };
    static const struct view images[] = {
        {4, {3, 3, 17, 19}, {969, 323, 19, 1}},
        {4, {3, 3, 17, 19}, {969, 1, 57, 3}},
    };
    static const struct view matrices[] = {
        {3, {2, 33, 65}, {2145, 65, 1}},
        {3, {2, 33, 65}, {2145, 1, 33}},
    };
    static const struct {
        const struct view *views;
        size_t n;
    } sets[] = {{views, 5}, {volumes, 3}, {images, 2}, {matrices, 2}};
    static const float scalings[][2] = {{1, 0}, {2, 0}, {1, 1}, {0.5f, -2}, {0, 3}};
    size_t set, i, j, k;
    for (set = 0; set < sizeof sets / sizeof sets[0]; set++) {
        for (i = 0; i < sets[set].n; i++) {
            for (j = 0; j < sets[set].n; j++) {
                for (k = 0; k < sizeof scalings / sizeof scalings[0]; k++) {
                    floats(&sets[set].views[i], &sets[set].views[j], scalings[k][0], scalings[k][1]);
                }
            }
        }
    }
}

static void in_place(void) {
    static const struct view v = {4, {2, 3, 4, 5}, {60, 20, 5, 1}};
    float x[120], alpha = 3, beta = 0;
    cudnnTensorDescriptor_t desc = describe(CUDNN_DATA_FLOAT, &v);
    int i;
    for (i = 0; i < 120; i++) x[i] = value((size_t)i);
    OK(cudnnTransformTensor(handle, &alpha, desc, x, &beta, desc, x));
    for (i = 0; i < 120; i++) CHECK(x[i] == 3 * value((size_t)i));
    alpha = 1;
    beta = 1;
    OK(cudnnTransformTensor(handle, &alpha, desc, x, &beta, desc, x));
    for (i = 0; i < 120; i++) CHECK(x[i] == 6 * value((size_t)i));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* Conversions, among them the values where rounding to half becomes infinite or zero. */
static void types(void) {
    static const struct view v = {4, {1, 1, 2, 4}, {8, 8, 4, 1}};
    static const float x[8] = {1.0f, -2.0f, 65519.0f, 65520.0f, 1e-8f, 0.5f, 2.5f, -300.0f};
    static const uint16_t as_half[8] = {0x3c00, 0xc000, 0x7bff, 0x7c00, 0x0000, 0x3800, 0x4100, 0xdcb0};
    static const uint16_t as_bfloat16[8] = {0x3f80, 0xc000, 0x4780, 0x4780, 0x322c, 0x3f00, 0x4020, 0xc396};
    static const int8_t as_int8[8] = {1, -2, 127, 127, 0, 0, 2, -128};
    cudnnTensorDescriptor_t f = describe(CUDNN_DATA_FLOAT, &v), d = describe(CUDNN_DATA_DOUBLE, &v);
    cudnnTensorDescriptor_t h = describe(CUDNN_DATA_HALF, &v), b = describe(CUDNN_DATA_BFLOAT16, &v);
    cudnnTensorDescriptor_t c = describe(CUDNN_DATA_INT8, &v);
    float one = 1, zero = 0, back[8];
    double done = 1, dzero = 0, wide[8];
    uint16_t bits[8];
    int8_t bytes[8];
    int i;
    OK(cudnnTransformTensor(handle, &one, f, x, &zero, h, bits));
    CHECK(memcmp(bits, as_half, sizeof bits) == 0);
    OK(cudnnTransformTensor(handle, &one, h, as_half, &zero, f, back));
    CHECK(back[0] == 1 && back[1] == -2 && back[2] == 65504 && isinf(back[3]) && back[5] == 0.5f);
    OK(cudnnTransformTensor(handle, &one, f, x, &zero, b, bits));
    CHECK(memcmp(bits, as_bfloat16, sizeof bits) == 0);
    OK(cudnnTransformTensor(handle, &one, f, x, &zero, c, bytes));
    CHECK(memcmp(bytes, as_int8, sizeof bytes) == 0);
    /* The scaling factors are double exactly when y is. */
    OK(cudnnTransformTensor(handle, &done, f, x, &dzero, d, wide));
    for (i = 0; i < 8; i++) CHECK(wide[i] == (double)x[i]);
    OK(cudnnTransformTensor(handle, &one, d, wide, &zero, f, back));
    CHECK(memcmp(back, x, sizeof back) == 0);
    OK(cudnnTransformTensor(handle, &done, c, as_int8, &dzero, d, wide));
    for (i = 0; i < 8; i++) CHECK(wide[i] == (double)as_int8[i]);
    OK(cudnnDestroyTensorDescriptor(f));
    OK(cudnnDestroyTensorDescriptor(d));
    OK(cudnnDestroyTensorDescriptor(h));
    OK(cudnnDestroyTensorDescriptor(b));
    OK(cudnnDestroyTensorDescriptor(c));
}

/* Offset in NC/xHWx, in elements. */
static int blocked(int n, int c, int h, int w, int channels, int height, int width, int x) {
    return (((n * (channels / x) + c / x) * height + h) * width + w) * x + c % x;
}

/* INT8 NCHW or NHWC <-> NC/4HW4 or NC/32HW32. (The original refuses the 32-wide pair; its users ask for it.) */
static void vectors(cudnnDataType_t type, int x) {
    enum { N = 2, C = 64, H = 5, W = 3, COUNT = N * C * H * W };
    static const struct view plain[2] = {{4, {N, C, H, W}, {C * H * W, H *W, W, 1}},
                                         {4, {N, C, H, W}, {C * H * W, 1, W *C, C}}};
    int layout, n, c, h, w, i;
    for (layout = 0; layout < 2; layout++) {
        const struct view *v = &plain[layout];
        int8_t *src = (int8_t *)guarded_alloc(COUNT), *dst = (int8_t *)guarded_alloc(COUNT);
        int8_t *back = (int8_t *)guarded_alloc(COUNT);
        cudnnTensorDescriptor_t p = describe(CUDNN_DATA_INT8, v), vect;
        float one = 1, zero = 0;
        OK(cudnnCreateTensorDescriptor(&vect));
        OK(cudnnSetTensor4dDescriptor(vect, CUDNN_TENSOR_NCHW_VECT_C, type, N, C, H, W));
        for (i = 0; i < COUNT; i++) src[i] = (int8_t)(i * 31 % 251 - 125);
        OK(cudnnTransformTensor(handle, &one, p, src, &zero, vect, dst));
        for (n = 0; n < N; n++)
            for (c = 0; c < C; c++)
                for (h = 0; h < H; h++)
                    for (w = 0; w < W; w++)
                        CHECK(dst[blocked(n, c, h, w, C, H, W, x)] ==
                              src[n * v->strides[0] + c * v->strides[1] + h * v->strides[2] + w * v->strides[3]]);
        OK(cudnnTransformTensor(handle, &one, vect, dst, &zero, p, back));
        CHECK(memcmp(back, src, COUNT) == 0);
        OK(cudnnDestroyTensorDescriptor(p));
        OK(cudnnDestroyTensorDescriptor(vect));
        guarded_free(src, COUNT);
        guarded_free(dst, COUNT);
        guarded_free(back, COUNT);
    }
}

struct change {
    cudnnTensorFormat_t format;
    int32_t before[4], after[4];
    uint32_t fold[2];
    cudnnFoldingDirection_t direction;
    float alpha, beta;
};

/* The source element behind destination element (n, c, h, w), or 0 in the padding. */
static float source(const float *x, const int *s, const struct change *t, int n, int c, int h, int w) {
    int fh = t->fold[0] > 1 ? (int)t->fold[0] : 1, fw = t->fold[1] > 1 ? (int)t->fold[1] : 1;
    if (t->direction == CUDNN_TRANSFORM_FOLD) {
        /* Channel k of the result is channel k % padded of position k / padded within the block. */
        int padded = s[1] + t->before[1] + t->after[1];
        int place = c / padded;
        h = h * fh + place / fw - t->before[2];
        w = w * fw + place % fw - t->before[3];
        n -= t->before[0];
        c = c % padded - t->before[1];
    } else {
        int channels = s[1] / (fh * fw);
        n -= t->before[0];
        c -= t->before[1];
        h -= t->before[2];
        w -= t->before[3];
        if (c < 0 || c >= channels || h < 0 || h >= s[2] * fh || w < 0 || w >= s[3] * fw) return 0;
        c += (h % fh * fw + w % fw) * channels;
        h /= fh;
        w /= fw;
    }
    if (n < 0 || n >= s[0] || c < 0 || c >= s[1] || h < 0 || h >= s[2] || w < 0 || w >= s[3]) return 0;
    return x[((n * s[1] + c) * s[2] + h) * s[3] + w];
}

static void changes(void) {
    static const int dims[4] = {2, 12, 6, 9};
    static const struct change table[] = {
        {CUDNN_TENSOR_NCHW, {0}, {0}, {0, 0}, CUDNN_TRANSFORM_FOLD, 1, 0},
        {CUDNN_TENSOR_NHWC, {0}, {0}, {1, 1}, CUDNN_TRANSFORM_FOLD, 2, 0},
        {CUDNN_TENSOR_NCHW, {0, 0, 1, 2}, {0, 0, 3, 0}, {0, 0}, CUDNN_TRANSFORM_FOLD, 1, 0},
        {CUDNN_TENSOR_NHWC, {1, 0, 0, 0}, {0, 4, 1, 1}, {0, 0}, CUDNN_TRANSFORM_FOLD, 1, 0},
        {CUDNN_TENSOR_NCHW, {0, -2, -1, 0}, {-1, 0, -2, -3}, {0, 0}, CUDNN_TRANSFORM_FOLD, 1, 0},
        {CUDNN_TENSOR_NCHW, {0}, {0}, {2, 3}, CUDNN_TRANSFORM_FOLD, 1, 0},
        {CUDNN_TENSOR_NHWC, {0}, {0}, {4, 2}, CUDNN_TRANSFORM_FOLD, 0.5f, 0},
        {CUDNN_TENSOR_NHWC, {0, 1, 2, 1}, {0, 2, 0, 1}, {2, 2}, CUDNN_TRANSFORM_FOLD, 1, 0},
        {CUDNN_TENSOR_NCHW, {0}, {0}, {2, 3}, CUDNN_TRANSFORM_UNFOLD, 1, 0},
        {CUDNN_TENSOR_NHWC, {0}, {0}, {3, 2}, CUDNN_TRANSFORM_UNFOLD, 2, 3},
        {CUDNN_TENSOR_NCHW, {0, 1, -1, 2}, {0, 0, 0, -3}, {2, 1}, CUDNN_TRANSFORM_UNFOLD, 1, 0},
        {CUDNN_TENSOR_NHWC, {0}, {0}, {0, 0}, CUDNN_TRANSFORM_FOLD, 1, -1},
    };
    const size_t count = 2 * 12 * 6 * 9;
    float *x = (float *)guarded_alloc(count * sizeof *x);
    cudnnTensorDescriptor_t src, dest;
    cudnnTensorTransformDescriptor_t trans;
    size_t i;
    for (i = 0; i < count; i++) x[i] = value(i);
    OK(cudnnCreateTensorDescriptor(&src));
    OK(cudnnCreateTensorDescriptor(&dest));
    OK(cudnnCreateTensorTransformDescriptor(&trans));
    OK(cudnnSetTensorNdDescriptorEx(src, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, dims));
    for (i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct change *t = &table[i];
        cudnnDataType_t type;
        int rank = 0, d[4] = {0, 0, 0, 0}, s[4] = {0, 0, 0, 0}, n, c, h, w, wrong = 0;
        size_t size = 0, k;
        float *y;
        OK(cudnnSetTensorTransformDescriptor(trans, 4, t->format, t->before, t->after, t->fold, t->direction));
        OK(cudnnInitTransformDest(trans, src, dest, &size));
        OK(cudnnGetTensorNdDescriptor(dest, 4, &type, &rank, d, s));
        CHECK(rank == 4 && size == sizeof(float) * (size_t)d[0] * (size_t)d[1] * (size_t)d[2] * (size_t)d[3]);
        y = (float *)guarded_alloc(size);
        for (k = 0; k < size / sizeof *y; k++) y[k] = t->beta == 0 ? NAN : value(k + 5);
        OK(cudnnTransformTensorEx(handle, trans, &t->alpha, src, x, &t->beta, dest, y));
        for (n = 0; n < d[0]; n++)
            for (c = 0; c < d[1]; c++)
                for (h = 0; h < d[2]; h++)
                    for (w = 0; w < d[3]; w++) {
                        size_t at = (size_t)(n * s[0] + c * s[1] + h * s[2] + w * s[3]);
                        float want = t->alpha * source(x, dims, t, n, c, h, w);
                        if (t->beta != 0) want += t->beta * value(at + 5);
                        wrong += !(y[at] == want);
                    }
        if (wrong != 0) fprintf(stderr, "change %u: %d elements differ\n", (unsigned)i, wrong);
        CHECK(wrong == 0);
        guarded_free(y, size);
    }
    OK(cudnnDestroyTensorTransformDescriptor(trans));
    OK(cudnnDestroyTensorDescriptor(src));
    OK(cudnnDestroyTensorDescriptor(dest));
    guarded_free(x, count * sizeof *x);
}

int main(void) {
    OK(cudnnCreate(&handle));
    layouts();
    in_place();
    types();
    vectors(CUDNN_DATA_INT8x4, 4);
    vectors(CUDNN_DATA_INT8x32, 32);
    changes();
    OK(cudnnDestroy(handle));
    return check_result("transform");
}
