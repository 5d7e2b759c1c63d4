/* Sums of up to a hundred thousand products in every direction, against binary64: within the stated bound in float, half and
 * bfloat16, and right to one rounding where binary32 holds every partial sum. An argument asks for one of these types alone, by
 * its number from 0 on. */
#include "convolution.h"

static cudnnHandle_t handle;

/* 2 k eps |a||b|, as docs/performance-contractions.md states it, eps being half the distance of 1 and the next float. */
static const double CONSTANT = 2, EPSILON = 5.9604644775390625e-8;

/* Half the distance of neighbours of 1 in the type of the result, of which each result is rounded once. */
static double rounding(cudnnDataType_t type) {
    return type == CUDNN_DATA_HALF ? 1.0 / 2048 : type == CUDNN_DATA_BFLOAT16 ? 1.0 / 512 : EPSILON;
}

/* Sums and sums of magnitudes of one direction, in the order of its packed NCHW result. */
static size_t reference(const struct convolution *of, enum direction direction, const void *x, const void *w,
                        const void *y, double *sums, double *magnitudes) {
    const struct shape *s = &of->shape;
    size_t count = direction == FORWARD ? of->outputs : direction == DATA ? of->inputs : of->weights, most = 0, i;
    size_t *terms = (size_t *)calloc(count, sizeof *terms);
    int n, k, c, p, q, r, t;
    if (terms == NULL) exit(2);
    for (i = 0; i < count; i++) sums[i] = magnitudes[i] = 0;
    for (n = 0; n < s->n; n++)
        for (k = 0; k < s->k; k++)
            for (p = 0; p < of->out_h; p++)
                for (q = 0; q < of->out_w; q++)
                    for (c = 0; c < s->c; c++)
                        for (r = 0; r < s->r; r++)
                            for (t = 0; t < s->s; t++) {
                                int row = p * s->stride - s->pad + r, column = q * s->stride - s->pad + t;
                                size_t xi = (((size_t)n * s->c + c) * s->h + row) * s->w + column;
                                size_t wi = (((size_t)k * s->c + c) * s->r + r) * s->s + t;
                                size_t yi = (((size_t)n * s->k + k) * of->out_h + p) * of->out_w + q, to;
                                double product;
                                if (row < 0 || row >= s->h || column < 0 || column >= s->w) continue;
                                to = direction == FORWARD ? yi : direction == DATA ? xi : wi;
                                product = (direction == DATA ? 1 : value_at(x, s->type, xi)) *
                                          (direction == FILTER ? 1 : value_at(w, s->type, wi)) *
                                          (direction == FORWARD ? 1 : value_at(y, s->type, yi));
                                sums[to] += product;
                                magnitudes[to] += product < 0 ? -product : product;
                                terms[to]++;
                            }
    for (i = 0; i < count; i++) most = terms[i] > most ? terms[i] : most;
    free(terms);
    return most;
}

static void random_values(void *array, cudnnDataType_t type, size_t count, uint32_t seed) {
    size_t i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        set_at(array, type, i, ((seed >> 24 & 127) + 1) * (seed >> 31 ? -0.0078125 : 0.0078125));
    }
}

static void check_bound(struct shape shape, enum direction direction) {
    struct convolution of = describe(shape);
    cudnnDataType_t type = shape.type;
    size_t size = bytes_of(type), counts[3], count, terms, i, wrong = 0;
    void *x = malloc(of.inputs * size), *w = malloc(of.weights * size), *y = malloc(of.outputs * size);
    void *result = direction == FORWARD ? y : direction == DATA ? x : w;
    double *sums, *magnitudes;
    counts[FORWARD] = of.outputs;
    counts[DATA] = of.inputs;
    counts[FILTER] = of.weights;
    count = counts[direction];
    sums = (double *)malloc(count * sizeof *sums);
    magnitudes = (double *)malloc(count * sizeof *magnitudes);
    random_values(x, type, of.inputs, 1);
    random_values(w, type, of.weights, 2);
    random_values(y, type, of.outputs, 3);
    terms = reference(&of, direction, x, w, y, sums, magnitudes);
    CHECK(terms >= 90000 && terms <= 110000);
    memset(result, 0xff, count * size);
    OK(compute(handle, &of, direction, 1, 1, 0, x, w, y));
    for (i = 0; i < count; i++) {
        double got = value_at(result, type, i), want = sums[i];
        double error = got > want ? got - want : want - got;
        double bound = CONSTANT * (double)terms * EPSILON * magnitudes[i];
        bound += rounding(type) * ((want < 0 ? -want : want) + bound) + EPSILON;
        wrong += !(error <= bound);
    }
    CHECK(wrong == 0);
    free(x);
    free(w);
    free(y);
    free(sums);
    free(magnitudes);
    forget(&of);
}

/* A hundred thousand channels of one pixel, all `value`, or `value` and its opposite by turns but for the last. */
static void check_exact(cudnnDataType_t type, double value, double weight, int is_alternating, double want) {
    struct shape shape = {1,    100001,          1, 1, 2, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW,
                          type, CUDNN_DATA_FLOAT};
    struct convolution of;
    size_t size = bytes_of(type), i;
    void *x, *w, *y;
    if (!is_alternating) shape.c = 100000;
    of = describe(shape);
    x = malloc(of.inputs * size), w = malloc(of.weights * size), y = malloc(of.outputs * size);
    for (i = 0; i < of.inputs; i++) set_at(x, type, i, is_alternating && i % 2 ? -value : value);
    for (i = 0; i < of.weights; i++) set_at(w, type, i, weight);
    OK(compute(handle, &of, FORWARD, 1, 1, 0, x, w, y));
    CHECK(value_at(y, type, 0) == want && value_at(y, type, 1) == want);
    free(x);
    free(w);
    free(y);
    forget(&of);
}

/* The type that the caller asks for, -1 for all. */
static int only = -1;

static int is_asked(int type) { return only < 0 || only == type; }

int main(int argc, char **argv) {
    const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int i;
    if (argc > 1) only = atoi(argv[1]);
    OK(cudnnCreate(&handle));
    for (i = 0; i < 3; i++) {
        if (!is_asked(i)) continue;
        cudnnDataType_t type = types[i];
        /* Channels of one pixel; channels and taps, also many enough for transforms. */
        struct shape wide = {1, 100000, 2, 2, 3, 1, 1, 1, 0, 1, 1, mode, CUDNN_TENSOR_NCHW, type, CUDNN_DATA_FLOAT};
        struct shape taps = {1, 11111, 4, 4, 3, 3, 3, 1, 1, 1, 1, mode, CUDNN_TENSOR_NCHW, type, CUDNN_DATA_FLOAT};
        struct shape back = {1, 3, 4, 4, 11111, 3, 3, 1, 1, 1, 1, mode, CUDNN_TENSOR_NCHW, type, CUDNN_DATA_FLOAT};
        /* Pixels of several images. */
        struct shape pixels = {10, 2, 100, 100, 2, 3, 3, 1, 1, 1, 1, mode, CUDNN_TENSOR_NCHW, type, CUDNN_DATA_FLOAT};
        check_bound(wide, FORWARD);
        check_bound(taps, FORWARD);
        check_bound(back, DATA);
        check_bound(pixels, FILTER);
    }
    /* 50,000 in half is a tie, and goes to the even neighbour; in bfloat16 neighbours are 256 apart. */
    if (is_asked(0)) check_exact(CUDNN_DATA_FLOAT, 1, 1, 0, 100000);
    if (is_asked(1)) {
        check_exact(CUDNN_DATA_HALF, 1, 0.5, 0, 49984);
        check_exact(CUDNN_DATA_HALF, 60000, 1, 1, 60000);
    }
    if (is_asked(2)) {
        check_exact(CUDNN_DATA_BFLOAT16, 1, 1, 0, 99840);
        check_exact(CUDNN_DATA_BFLOAT16, 59904, 1, 1, 59904);
    }
    OK(cudnnDestroy(handle));
    return check_result("convolution_sums");
}
