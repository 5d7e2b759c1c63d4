/* Multi-head attention as programs call it: without a projection and with weights NULL, over windows up to INT_MAX, with the queries
 * as residuals; self-attention with all projections, whose weights are written by their descriptors, step by step and as a whole;
 * training with both gradients against differences of the output; wrong calls, which write nothing; and lengths in the arrays that are
 * shorter than those of the descriptors. */
#include "check.h"
#include "data.h"

#include <limits.h>
#include <math.h>

enum { T = 4, B = 2, H = 2, D = 3, P = 2, OUT = T * B * D, JOINED = T * B * H * D };

/* Sizes of an attention: its weights, and the memory of inference and of training. */
static size_t weight_size, work_size, reserve_size;

static int low[T], whole[T], causal[T];
static const int lengths[B] = { T, T - 1 };

static void sizes(cudnnHandle_t handle, cudnnAttnDescriptor_t attention) {
    size_t none = 1;
    OK(cudnnGetMultiHeadAttnBuffers(handle, attention, &weight_size, &work_size, NULL));
    CHECK(work_size >= 16);
    OK(cudnnGetMultiHeadAttnBuffers(handle, attention, &weight_size, &none, &reserve_size));
    CHECK(none == 0 && reserve_size >= 16);
}

static cudnnSeqDataDescriptor_t sequences_of(int vector, const int *lengths) {
    const int dims[CUDNN_SEQDATA_DIM_COUNT] = { T, B, 1, vector };
    const cudnnSeqDataAxis_t axes[] = { CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_VECT_DIM };
    cudnnSeqDataDescriptor_t desc;
    OK(cudnnCreateSeqDataDescriptor(&desc));
    OK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, B, lengths, NULL));
    return desc;
}

static cudnnSeqDataDescriptor_t sequences(int vector) {
    return sequences_of(vector, lengths);
}

static void same(const float *got, const double *want, int count, double bound, int line) {
    for (int i = 0; i < count; i++) {
        if (fabs(got[i] - want[i]) <= bound * (1 + fabs(want[i]))) continue;
        fprintf(stderr, "line %d: %g instead of %g at %d\n", line, got[i], want[i], i);
        check_failures++;
        return;
    }
}

/* Attention of vectors that nothing projects: all heads compute the same, side by side. */
static void plain(const float *x, double scale, double *out) {
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) {
            double weight[T], sum = 0;
            const float *q = x + (b * T + t) * D;
            for (int s = 0; s < lengths[b]; s++) {
                double score = 0;
                for (int d = 0; d < D; d++) score += q[d] * x[(b * T + s) * D + d];
                sum += weight[s] = exp(scale * score);
            }
            for (int i = 0; i < H * D; i++) {
                double *y = out + (b * T + t) * H * D + i;
                *y = 0;
                for (int s = 0; s < lengths[b] && t < lengths[b]; s++) *y += weight[s] / sum * x[(b * T + s) * D + i % D];
            }
        }
}

static void without_weights(cudnnHandle_t handle, const float *x) {
    cudnnAttnDescriptor_t attention;
    const cudnnSeqDataDescriptor_t desc = sequences(D), joined_desc = sequences(H * D);
    float joined[JOINED];
    double want[JOINED];
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnSetAttnDescriptor(attention, CUDNN_ATTN_QUERYMAP_ALL_TO_ONE, H, 0.5, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH,
                              NULL, NULL, D, D, D, 0, 0, 0, 0, T, T, B, 1));
    sizes(handle, attention);
    CHECK(weight_size == 0);
    void *q = data_new(x, OUT * sizeof *x), *y = data_new(NULL, sizeof joined), *work = data_new(NULL, work_size);
    int *device_lengths = data_new(lengths, sizeof lengths);

    OK(cudnnMultiHeadAttnForward(handle, attention, -1, low, whole, device_lengths, device_lengths, desc, q, NULL, desc, q, desc, q,
                                 joined_desc, y, 0, NULL, work_size, work, 0, NULL));
    data_read(joined, y, sizeof joined);
    plain(x, 0.5, want);
    same(joined, want, JOINED, 1e-5, __LINE__);
    /* Residuals have the vectors of the queries, which these outputs have not. */
    BAD(cudnnMultiHeadAttnForward(handle, attention, -1, low, whole, device_lengths, device_lengths, desc, q, q, desc, q, desc, q,
                                  joined_desc, y, 0, NULL, work_size, work, 0, NULL));
    data_free(q), data_free(y), data_free(work), data_free(device_lengths);
    OK(cudnnDestroySeqDataDescriptor(desc));
    OK(cudnnDestroySeqDataDescriptor(joined_desc));
    OK(cudnnDestroyAttnDescriptor(attention));
}

/* Writes a group of weights by what its descriptor says. */
static void fill(cudnnHandle_t handle, cudnnAttnDescriptor_t attention, cudnnMultiHeadAttnWeightKind_t kind, char *weights) {
    cudnnTensorDescriptor_t desc;
    cudnnDataType_t type;
    void *address;
    int rank, dims[3], strides[3];
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnGetMultiHeadAttnWeights(handle, attention, kind, weight_size, weights, desc, &address));
    OK(cudnnGetTensorNdDescriptor(desc, 3, &type, &rank, dims, strides));
    CHECK(rank == 3 && type == CUDNN_DATA_FLOAT && address != NULL);
    for (int h = 0; h < dims[0]; h++)
        for (int r = 0; r < dims[1]; r++)
            for (int c = 0; c < dims[2]; c++)
                ((float *)address)[h * strides[0] + r * strides[1] + c * strides[2]] = (float)((h * 7 + r * 5 + c * 3 + (int)kind) % 11 - 5) / 6;
    OK(cudnnDestroyTensorDescriptor(desc));
}

static void self_attention(cudnnHandle_t handle, const float *x) {
    cudnnAttnDescriptor_t attention;
    const cudnnSeqDataDescriptor_t desc = sequences(D);
    float out[OUT], row[OUT], moved[OUT], dx[3][OUT], *dw;
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnSetAttnDescriptor(attention, CUDNN_ATTN_QUERYMAP_ALL_TO_ONE | CUDNN_ATTN_ENABLE_PROJ_BIASES, H, 0.7, CUDNN_DATA_FLOAT,
                              CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, NULL, NULL, D, D, D, P, P, P, D, T, T, B, 1));
    sizes(handle, attention);
    CHECK(weight_size == (3 * H * P * D + D * H * P + 3 * H * P + D) * sizeof(float));
    char *weights = malloc(weight_size);
    for (int kind = 0; kind < CUDNN_ATTN_WKIND_COUNT; kind++) fill(handle, attention, (cudnnMultiHeadAttnWeightKind_t)kind, weights);

    float ones[OUT];
    for (int i = 0; i < OUT; i++) ones[i] = 1;
    void *q = data_new(x, sizeof out), *w = data_new(weights, weight_size), *y = data_new(NULL, sizeof out), *dy = data_new(ones, sizeof ones);
    void *work = data_new(NULL, work_size), *reserve = data_new(NULL, reserve_size), *gradient = data_new(NULL, weight_size);
    void *d[3] = { data_new(NULL, sizeof out), data_new(NULL, sizeof out), data_new(NULL, sizeof out) };
    int *device_lengths = data_new(lengths, sizeof lengths);

#define FORWARD(index, from, to)                                                                                       \
    cudnnMultiHeadAttnForward(handle, attention, index, low, causal, device_lengths, device_lengths, desc, from, from, \
                              desc, from, desc, from, desc, to, weight_size, w, work_size, work, 0, NULL)
    OK(FORWARD(-1, q, y));
    data_read(out, y, sizeof out);
    for (int t = 0; t < T; t++) {
        void *one = data_new(NULL, sizeof row);
        OK(FORWARD(t, q, one));
        data_read(row, one, sizeof row);
        for (int b = 0; b < B; b++) CHECK(memcmp(row + (b * T + t) * D, out + (b * T + t) * D, D * sizeof *row) == 0);
        data_free(one);
    }
    /* Nothing behind the end; with one key in its window, the first time step is its value, projected. */
    for (int i = 0; i < D; i++) CHECK(out[(T + T - 1) * D + i] == 0);

    OK(cudnnMultiHeadAttnForward(handle, attention, -1, low, causal, device_lengths, device_lengths, desc, q, q, desc, q, desc, q, desc, y,
                                 weight_size, w, 0, NULL, reserve_size, reserve));
    data_read(row, y, sizeof row);
    CHECK(memcmp(row, out, sizeof out) == 0);
    OK(cudnnMultiHeadAttnBackwardData(handle, attention, low, causal, device_lengths, device_lengths, desc, dy, desc, d[0], q, desc, d[1], q,
                                      desc, d[2], q, weight_size, w, 0, NULL, reserve_size, reserve));
    OK(cudnnMultiHeadAttnBackwardWeights(handle, attention, CUDNN_WGRAD_MODE_SET, desc, q, desc, q, desc, q, desc, dy, weight_size, w,
                                         gradient, 0, NULL, reserve_size, reserve));
    for (int i = 0; i < 3; i++) data_read(dx[i], d[i], sizeof out);
    dw = malloc(weight_size);
    data_read(dw, gradient, weight_size);

    /* The sum of the output grows along an input as the three gradients and the residual say. */
    const float step = 1.0f / 64;
    for (int at = 0; at < OUT; at += 5) {
        double sum[2] = { 0, 0 };
        for (int sign = 0; sign < 2; sign++) {
            memcpy(moved, x, sizeof moved);
            moved[at] += sign ? -step : step;
            void *other = data_new(moved, sizeof moved);
            OK(FORWARD(-1, other, y));
            data_read(row, y, sizeof row);
            for (int i = 0; i < OUT; i++) sum[sign] += row[i];
            data_free(other);
        }
        const int is_there = at / D % T < lengths[at / D / T];
        const double want = (sum[0] - sum[1]) / (2 * step), got = dx[0][at] + dx[1][at] + dx[2][at] + is_there;
        CHECK(fabs(got - want) < 2e-3 * (1 + fabs(want)));
    }
    for (size_t at = 0; at < weight_size / sizeof *dw; at += 3) {
        double sum[2] = { 0, 0 };
        for (int sign = 0; sign < 2; sign++) {
            float *other = malloc(weight_size);
            memcpy(other, weights, weight_size);
            other[at] += sign ? -step : step;
            void *kept = w;
            w = data_new(other, weight_size);
            OK(FORWARD(-1, q, y));
            data_read(row, y, sizeof row);
            for (int i = 0; i < OUT; i++) sum[sign] += row[i];
            data_free(w), free(other);
            w = kept;
        }
        const double want = (sum[0] - sum[1]) / (2 * step);
        CHECK(fabs(dw[at] - want) < 2e-3 * (1 + fabs(want)));
    }

    /* Wrong calls write nothing. */
    void *untouched = data_new(NULL, sizeof out);
    BAD(FORWARD(T, q, untouched));
    BAD(FORWARD(-1, NULL, untouched));
    BAD(FORWARD(-1, q, NULL));
    work_size--;
    BAD(FORWARD(-1, q, untouched));
    work_size++;
    weight_size--;
    BAD(FORWARD(-1, q, untouched));
    weight_size++;
    BAD(cudnnMultiHeadAttnForward(handle, attention, 0, low, causal, device_lengths, device_lengths, desc, q, q, desc, q, desc, q, desc,
                                  untouched, weight_size, w, 0, NULL, reserve_size, reserve));
    BAD(cudnnMultiHeadAttnForward(handle, attention, -1, low, causal, device_lengths, device_lengths, desc, q, q, desc, q, desc, q, desc,
                                  untouched, weight_size, w, 0, NULL, reserve_size - 1, reserve));
    BAD(cudnnMultiHeadAttnForward(handle, attention, -1, low, causal, device_lengths, device_lengths, desc, q, q, desc, q, desc, q, desc,
                                  untouched, weight_size, NULL, 0, NULL, reserve_size, reserve));
    BAD(cudnnMultiHeadAttnBackwardWeights(handle, attention, (cudnnWgradMode_t)2, desc, q, desc, q, desc, q, desc, dy, weight_size, w,
                                          untouched, 0, NULL, reserve_size, reserve));
    data_read(row, untouched, sizeof row);
    for (size_t i = 0; i < sizeof row; i++) CHECK(((unsigned char *)row)[i] == 0xff);

    free(weights), free(dw);
    data_free(untouched), data_free(q), data_free(w), data_free(y), data_free(dy), data_free(work), data_free(reserve), data_free(gradient);
    for (int i = 0; i < 3; i++) data_free(d[i]);
    data_free(device_lengths);
    OK(cudnnDestroySeqDataDescriptor(desc));
    OK(cudnnDestroyAttnDescriptor(attention));
}

/* What the three calls of a step of training compute, and inference. */
struct results {
    float out[OUT * H], inferred[OUT * H], gradients[3][OUT], *weights;
};

/* Computes them with these lengths of descriptors and these of the arrays. What is behind the ends is `behind`. */
static void compute(cudnnHandle_t handle, cudnnAttnDescriptor_t attention, char *weights, int vector, const int *of_descriptors[2],
                    const int *of_arrays[2], const float *x, float behind, struct results *results) {
    const size_t size = T * B * (size_t)vector * sizeof *x;
    cudnnSeqDataDescriptor_t desc[2], out_desc = sequences_of(vector, of_descriptors[0]);
    float inputs[3][OUT], finite[3][OUT], gradient[OUT * H];
    void *q[3], *numbers[3], *d[3], *length[2];
    for (int side = 0; side < 2; side++) {
        desc[side] = sequences_of(D, of_descriptors[side]);
        length[side] = data_new(of_arrays[side], B * sizeof(int));
    }
    for (int which = 0; which < 3; which++) {
        for (int i = 0; i < OUT; i++) {
            const int end = of_arrays[which > 0][i / D / T], is_there = i / D % T < end;
            finite[which][i] = x[(i + which) % OUT];
            inputs[which][i] = is_there ? finite[which][i] : behind;
        }
        q[which] = data_new(inputs[which], sizeof inputs[which]);
        numbers[which] = data_new(finite[which], sizeof finite[which]);
        d[which] = data_new(NULL, sizeof inputs[which]);
    }
    for (int i = 0; i < OUT * H; i++) {
        const int end = of_arrays[0][i / vector / T % B];
        gradient[i] = i / vector % T < end ? x[i % OUT] : behind;
    }
    void *y = data_new(NULL, size), *dy = data_new(gradient, size), *w = data_new(weights, weight_size + 1), *dw = data_new(NULL, weight_size + 1);
    void *work = data_new(NULL, work_size), *reserve = data_new(NULL, reserve_size);
    OK(cudnnMultiHeadAttnForward(handle, attention, -1, low, causal, length[0], length[1], desc[0], q[0], NULL, desc[1], q[1], desc[1], q[2],
                                 out_desc, y, weight_size, w, work_size, work, 0, NULL));
    data_read(results->inferred, y, size);
    OK(cudnnMultiHeadAttnForward(handle, attention, -1, low, causal, length[0], length[1], desc[0], q[0], NULL, desc[1], q[1], desc[1], q[2],
                                 out_desc, y, weight_size, w, 0, NULL, reserve_size, reserve));
    data_read(results->out, y, size);
    OK(cudnnMultiHeadAttnBackwardData(handle, attention, low, causal, length[0], length[1], out_desc, dy, desc[0], d[0], q[0], desc[1], d[1],
                                      q[1], desc[1], d[2], q[2], weight_size, w, 0, NULL, reserve_size, reserve));
    for (int which = 0; which < 3; which++) data_read(results->gradients[which], d[which], sizeof inputs[which]);
    /* This call has no lengths: it multiplies what is behind the ends of the arrays by zeros. */
    OK(cudnnMultiHeadAttnBackwardWeights(handle, attention, CUDNN_WGRAD_MODE_SET, desc[0], numbers[0], desc[1], numbers[1], desc[1],
                                         numbers[2], out_desc, dy, weight_size, w, dw, 0, NULL, reserve_size, reserve));
    results->weights = malloc(weight_size + 1);
    data_read(results->weights, dw, weight_size + 1);
    for (int which = 0; which < 3; which++) data_free(q[which]), data_free(numbers[which]), data_free(d[which]);
    for (int side = 0; side < 2; side++) {
        OK(cudnnDestroySeqDataDescriptor(desc[side]));
        data_free(length[side]);
    }
    OK(cudnnDestroySeqDataDescriptor(out_desc));
    data_free(y), data_free(dy), data_free(w), data_free(dw), data_free(work), data_free(reserve);
}

static void close_to(const float *got, const float *want, int count, int line) {
    for (int i = 0; i < count; i++) {
        if (fabs(got[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))) continue;
        fprintf(stderr, "line %d: %g instead of %g at %d\n", line, got[i], want[i], i);
        check_failures++;
        return;
    }
}

/* Lengths in the arrays that are shorter than those of the descriptors give what descriptors of these lengths give, on both cores,
 * and what is behind them does no harm: nothing of it is read, or it is taken away. */
static void shorter(cudnnHandle_t handle, const float *x, int is_projected) {
    static const int all[B] = { T, T };
    /* Of queries and of keys: the lengths, and arrays that mean them. Descriptors have no lengths of 0. */
    static const int ends[][2][2][B] = { { { { 2, T }, { 3, 1 } }, { { 2, T }, { 3, 1 } } },
                                         { { { T, 1 }, { T, 2 } }, { { T + 5, 1 }, { INT_MAX, 2 } } },
                                         { { { 3, 0 }, { 0, T } }, { { 3, -1 }, { INT_MIN, T } } } };
    const int vector = is_projected ? D : H * D, projected = is_projected ? P : 0;
    cudnnAttnDescriptor_t attention;
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnSetAttnDescriptor(attention, CUDNN_ATTN_QUERYMAP_ALL_TO_ONE | (is_projected ? CUDNN_ATTN_ENABLE_PROJ_BIASES : 0), H, 0.7,
                              CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, NULL, NULL, D, D, D, projected, projected, projected,
                              is_projected ? D : 0, T, T, B, 1));
    sizes(handle, attention);
    char *weights = malloc(weight_size + 1);
    for (int kind = 0; is_projected && kind < CUDNN_ATTN_WKIND_COUNT; kind++)
        fill(handle, attention, (cudnnMultiHeadAttnWeightKind_t)kind, weights);
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        struct results want, got;
        const int *exact[2] = { ends[k][0][0], ends[k][0][1] }, *given[2] = { ends[k][1][0], ends[k][1][1] }, *most[2] = { all, all };
        compute(handle, attention, weights, vector, k < 2 ? exact : most, exact, x, 0, &want);
        compute(handle, attention, weights, vector, most, given, x, NAN, &got);
        close_to(got.inferred, want.inferred, T * B * vector, __LINE__);
        close_to(got.out, want.out, T * B * vector, __LINE__);
        for (int which = 0; which < 3; which++) close_to(got.gradients[which], want.gradients[which], OUT, __LINE__);
        for (int i = 0; k == 2 && i < T * B * vector; i++) {
            /* The first sample has no keys, the second no queries. */
            if (!is_projected || i / vector >= T) CHECK(got.out[i] == 0 && got.inferred[i] == 0);
        }
        close_to(got.weights, want.weights, (int)(weight_size / sizeof(float)), __LINE__);
        free(want.weights), free(got.weights);
    }
    free(weights);
    OK(cudnnDestroyAttnDescriptor(attention));
}

int main(void) {
    cudnnHandle_t handle;
    float x[OUT];
    for (int t = 0; t < T; t++) whole[t] = INT_MAX, causal[t] = t + 1;
    for (int i = 0; i < OUT; i++) x[i] = (float)(i * 7 % 13 - 6) / 5;
    OK(cudnnCreate(&handle));
    without_weights(handle, x);
    self_attention(handle, x);
    shorter(handle, x, 0);
    shorter(handle, x, 1);
    OK(cudnnDestroy(handle));
    return check_result("attention");
}
