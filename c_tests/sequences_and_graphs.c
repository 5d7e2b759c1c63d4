/* Calls that have no handle, as programs make them: the causal convolution of a Mamba block (4 taps, SiLU) forward and backward,
 * against loops as they are written down; a small graph whose rows are joined, and its gradients; and bad input that writes
 * nothing. */
#include "check.h"
#include "data.h"

#include <math.h>

/* Only version 9 declares these calls. */
#if CUDNN_MAJOR >= 9

enum { BATCH = 2, DIM = 6, LENGTH = 37, TAPS = 4 };
enum { ALL = BATCH * DIM * LENGTH, WEIGHTS = DIM * TAPS };

static float x[ALL], dy[ALL], weight[WEIGHTS], bias[DIM];
static double y[ALL], dx[ALL], dweight[WEIGHTS], dbias[DIM];

/* What the calls compute. Tap TAPS - 1 is that of the position itself. */
static void reference(void) {
    for (int line = 0; line < BATCH * DIM; line++)
        for (int t = 0; t < LENGTH; t++) {
            const int c = line % DIM, at = line * LENGTH + t;
            double v = bias[c];
            for (int back = 0; back < TAPS && back <= t; back++) v += weight[c * TAPS + TAPS - 1 - back] * x[at - back];
            const double s = 1 / (1 + exp(-v)), g = dy[at] * (s + v * s * (1 - s));
            y[at] = v * s;
            dbias[c] += g;
            for (int back = 0; back < TAPS && back <= t; back++) {
                dweight[c * TAPS + TAPS - 1 - back] += g * x[at - back];
                dx[at - back] += g * weight[c * TAPS + TAPS - 1 - back];
            }
        }
}

static void near_to(const float *got, const double *want, double base, int count, int line) {
    for (int i = 0; i < count; i++) {
        if (fabs(got[i] - base - want[i]) <= 1e-4 * (1 + fabs(want[i]))) continue;
        fprintf(stderr, "line %d: %g instead of %g at %d\n", line, got[i], base + want[i], i);
        check_failures++;
        return;
    }
}

static void mamba(void) {
    const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;
    const cudnnCausalConv1dActivation_t silu = CUDNN_CAUSAL_CONV1D_ACTIVATION_SILU;
    float host[ALL], ones[WEIGHTS];
    void *in, *w, *b, *out, *given, *to, *to_weight, *to_bias;

    for (int i = 0; i < ALL; i++) x[i] = (float)(i * 5 % 17 - 8) / 4;
    for (int i = 0; i < ALL; i++) dy[i] = (float)(i * 7 % 13 - 6) / 2;
    for (int i = 0; i < WEIGHTS; i++) weight[i] = (float)(i * 11 % 19 - 9) / 9;
    for (int i = 0; i < DIM; i++) bias[i] = (float)(i - 2) / 3;
    for (int i = 0; i < WEIGHTS; i++) ones[i] = 1;
    reference();

    in = data_new(x, sizeof x), w = data_new(weight, sizeof weight), b = data_new(bias, sizeof bias);
    given = data_new(dy, sizeof dy), out = data_new(NULL, sizeof x), to = data_new(NULL, sizeof x);
    /* What is there is added to. */
    to_weight = data_new(ones, sizeof weight), to_bias = data_new(ones, sizeof bias);

    OK(cudnnCausalConv1dForward(NULL, in, w, b, out, BATCH, DIM, LENGTH, TAPS, f32, silu));
    data_read(host, out, sizeof x);
    near_to(host, y, 0, ALL, __LINE__);
    OK(cudnnCausalConv1dBackward(NULL, in, w, b, given, to, to_weight, to_bias, BATCH, DIM, LENGTH, TAPS, f32, f32, silu));
    data_read(host, to, sizeof x);
    near_to(host, dx, 0, ALL, __LINE__);
    data_read(host, to_weight, sizeof weight);
    near_to(host, dweight, 1, WEIGHTS, __LINE__);
    data_read(host, to_bias, sizeof bias);
    near_to(host, dbias, 1, DIM, __LINE__);

    /* Refused, with nothing written. */
    data_read(host, out, sizeof x);
    BAD(cudnnCausalConv1dForward(NULL, in, w, NULL, out, BATCH, DIM, LENGTH, TAPS, f32, silu));
    BAD(cudnnCausalConv1dForward(NULL, in, w, b, out, BATCH, 0, LENGTH, TAPS, f32, silu));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
           cudnnCausalConv1dForward(NULL, in, w, b, out, BATCH, DIM, LENGTH, TAPS, CUDNN_DATA_INT8, silu));
    data_read(ones, out, sizeof ones);
    CHECK(memcmp(host, ones, sizeof ones) == 0);

    data_free(in), data_free(w), data_free(b), data_free(given);
    data_free(out), data_free(to), data_free(to_weight), data_free(to_bias);
}

/* Three sources, two targets: the first has edges from 0, 2 and 2, the second has none. */
static void graph(void) {
    const int32_t offsets[3] = { 0, 3, 3 }, indices[3] = { 0, 2, 2 }, wrong[3] = { 0, 3, 2 };
    const float nodes[6] = { 1, 8, 100, 100, 3, 5 }, rest[2] = { 7, 9 }, zeros[6] = { 0 };
    const float gradients[6] = { 10, 20, 30, 40, 50, 60 };
    float host[6];
    int32_t places[4];
    cudnnGnnCscGraph_t of;
    void *features = data_new(nodes, sizeof nodes), *more = data_new(rest, sizeof rest);
    void *out = data_new(NULL, sizeof host), *chosen = data_new(NULL, sizeof places);
    void *given = data_new(gradients, sizeof gradients), *to = data_new(zeros, sizeof zeros);
    void *to_more = data_new(NULL, sizeof rest);
    void *from = data_new(offsets, sizeof offsets), *sources = data_new(indices, sizeof indices);

    memset(&of, 0, sizeof of);
    of.cscOffsets = from;
    of.cscIndices = sources;
    of.nSrcNodes = 3;
    of.nDstNodes = 2;
    of.nIndices = 3;
    of.idxType = CUDNN_DATA_INT32;
    OK(cudnnGnnAggSimpleForward(NULL, &of, features, NULL, more, out, NULL, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_SUM));
    data_read(host, out, sizeof host);
    CHECK(host[0] == 7 && host[1] == 18 && host[2] == 7 && host[3] == 0 && host[4] == 0 && host[5] == 9);
    OK(cudnnGnnAggSimpleForward(NULL, &of, features, NULL, more, out, chosen, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_MAX));
    data_read(host, out, sizeof host);
    CHECK(host[0] == 3 && host[1] == 8 && host[2] == 7 && host[3] == 0 && host[4] == 0 && host[5] == 9);
    data_read(places, chosen, sizeof places);
    CHECK(places[0] == 1 && places[1] == 0 && places[2] == -1 && places[3] == -1);
    OK(cudnnGnnAggSimpleBackward(NULL, &of, given, chosen, to, NULL, to_more, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_MAX));
    data_read(host, to, sizeof host);
    CHECK(host[0] == 0 && host[1] == 20 && host[2] == 0 && host[3] == 0 && host[4] == 10 && host[5] == 0);
    data_read(host, to_more, sizeof rest);
    CHECK(host[0] == 30 && host[1] == 60);

    BAD(cudnnGnnAggSimpleForward(NULL, NULL, features, NULL, more, out, NULL, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_SUM));
    BAD(cudnnGnnAggSimpleForward(NULL, &of, features, NULL, more, out, NULL, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_MIN));
    BAD(cudnnGnnAggSimpleForward(NULL, &of, features, features, more, out, NULL, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_SUM));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnGnnAggSimpleForward(NULL, &of, features, NULL, more, out, NULL, 2, 0, 1,
                                                                CUDNN_DATA_DOUBLE, CUDNN_GNN_AGG_SUM));
#ifndef ON_DEVICE_H
    /* The CPU core looks at the graph. */
    of.cscIndices = wrong;
    memset(out, 0, sizeof host);
    BAD(cudnnGnnAggSimpleForward(NULL, &of, features, NULL, more, out, NULL, 2, 0, 1, CUDNN_DATA_FLOAT, CUDNN_GNN_AGG_SUM));
    data_read(host, out, sizeof host);
    CHECK(memcmp(host, zeros, sizeof host) == 0);
#else
    (void)wrong;
#endif
    data_free(features), data_free(more), data_free(out), data_free(chosen), data_free(given);
    data_free(to), data_free(to_more), data_free(from), data_free(sources);
}

int main(void) {
    mamba();
    graph();
    return check_failures != 0;
}

#else

int main(void) { return 0; }

#endif
