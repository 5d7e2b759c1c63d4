/* Multi-head attention as programs call it: without a projection and with weights NULL, over windows up to INT_MAX, with the queries
 * as residuals; self-attention with all projections, whose weights are written by their descriptors, step by step and as a whole;
 * training with both gradients against differences of the output; and wrong calls, which write nothing. */
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

static cudnnSeqDataDescriptor_t sequences(int vector) {
    const int dims[CUDNN_SEQDATA_DIM_COUNT] = { T, B, 1, vector };
    const cudnnSeqDataAxis_t axes[] = { CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_VECT_DIM };
    cudnnSeqDataDescriptor_t desc;
    OK(cudnnCreateSeqDataDescriptor(&desc));
    OK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_SEQDATA_DIM_COUNT, dims, axes, B, lengths, NULL));
    return desc;
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

int main(void) {
    cudnnHandle_t handle;
    float x[OUT];
    for (int t = 0; t < T; t++) whole[t] = INT_MAX, causal[t] = t + 1;
    for (int i = 0; i < OUT; i++) x[i] = (float)(i * 7 % 13 - 6) / 5;
    OK(cudnnCreate(&handle));
    without_weights(handle, x);
    self_attention(handle, x);
    OK(cudnnDestroy(handle));
    return check_result("attention");
}
