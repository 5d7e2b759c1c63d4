/* Trains a small perceptron - dense layer, batch normalisation, ReLU, dense layer, softmax - with the calls alone, and finds
 * the parameters that PyTorch finds (perceptron.h, written by perceptron.py).
 *
 * A dense layer of O outputs and I inputs is an OpTensor and a ReduceTensor: inputs as [B, 1, I, 1] times weights as
 * [1, O, I, 1] are products of [B, O, I, 1], which are summed along I; the gradients are the same products of other pairs,
 * summed along B and along O. */
#include "check.h"
#include "data.h"
#include "perceptron.h"

#include <math.h>

enum { BATCH = 16, INPUTS = 8, HIDDEN = 12, CLASSES = 4, BATCHES = 3, STEPS = 12 };
static const float rate = 0.25f, one = 1, zero = 0;

static cudnnHandle_t handle;
static cudnnOpTensorDescriptor_t times;
static cudnnReduceTensorDescriptor_t total;

/* A tensor and its memory. */
struct tensor {
    cudnnTensorDescriptor_t desc;
    float *data;
    int count;
};

static struct tensor tensor(int n, int c, int h, const float *from) {
    struct tensor t = { NULL, NULL, n * c * h };
    OK(cudnnCreateTensorDescriptor(&t.desc));
    OK(cudnnSetTensor4dDescriptor(t.desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, 1));
    t.data = (float *)data_new(from, sizeof(float) * (size_t)t.count);
    return t;
}

/* The same memory with other dims. */
static struct tensor seen(struct tensor t, int n, int c, int h) {
    OK(cudnnCreateTensorDescriptor(&t.desc));
    OK(cudnnSetTensor4dDescriptor(t.desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, 1));
    return t;
}

static void release(struct tensor t, int with_memory) {
    OK(cudnnDestroyTensorDescriptor(t.desc));
    if (with_memory) data_free(t.data);
}

/* y = the sum of a * b along what y has one of. */
static void sum_products(struct tensor a, struct tensor b, struct tensor products, struct tensor y) {
    void *workspace;
    size_t size = 0;
    OK(cudnnOpTensor(handle, times, &one, a.desc, a.data, &one, b.desc, b.data, &zero, products.desc, products.data));
    OK(cudnnGetReductionWorkspaceSize(handle, total, products.desc, y.desc, &size));
    workspace = data_new(NULL, size);
    OK(cudnnReduceTensor(handle, total, NULL, 0, workspace, size, &one, products.desc, products.data, &zero, y.desc,
                         y.data));
    data_free(workspace);
}

/* parameter -= rate * gradient */
static void descend(struct tensor parameter, struct tensor gradient) {
    const float factor = -rate;
    OK(cudnnAddTensor(handle, &factor, gradient.desc, gradient.data, &one, parameter.desc, parameter.data));
}

static void near(struct tensor t, const double *expected, const char *name) {
    float *got = (float *)malloc(sizeof(float) * (size_t)t.count);
    data_lost(got == NULL);
    data_read(got, t.data, sizeof(float) * (size_t)t.count);
    for (int i = 0; i < t.count; i++) {
        if (fabs(got[i] - expected[i]) <= 1e-5) continue;
        fprintf(stderr, "%s[%d] is %.9g, not %.9g\n", name, i, got[i], expected[i]);
        check_failures++;
        break;
    }
    free(got);
}

/* Numbers that every machine computes alike; perceptron.py has the same. */
static void numbers(float *to, int count, int a, int b, int period, float scale) {
    for (int i = 0; i < count; i++) to[i] = (float)((i * a + b) % period - period / 2) / scale;
}

int main(void) {
    static float inputs[BATCHES * BATCH * INPUTS], targets[BATCHES * BATCH * CLASSES];
    float first[HIDDEN * INPUTS], second[CLASSES * HIDDEN], ones[HIDDEN], zeros[HIDDEN];
    cudnnActivationDescriptor_t relu;

    numbers(inputs, BATCHES * BATCH * INPUTS, 37, 11, 61, 16);
    numbers(first, HIDDEN * INPUTS, 29, 7, 41, 64);
    numbers(second, CLASSES * HIDDEN, 23, 5, 37, 64);
    for (int i = 0; i < HIDDEN; i++) ones[i] = 1, zeros[i] = 0;
    /* The gradient of the mean cross entropy by the logarithms of the probabilities. */
    for (int i = 0; i < BATCHES * BATCH; i++) targets[i * CLASSES + i * 7 % 11 % CLASSES] = -1.0f / BATCH;

    OK(cudnnCreate(&handle));
    OK(cudnnCreateOpTensorDescriptor(&times));
    OK(cudnnSetOpTensorDescriptor(times, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    OK(cudnnCreateReduceTensorDescriptor(&total));
    OK(cudnnSetReduceTensorDescriptor(total, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));

    struct tensor w1 = tensor(1, HIDDEN, INPUTS, first), dw1 = tensor(1, HIDDEN, INPUTS, NULL);
    struct tensor w2 = tensor(1, CLASSES, HIDDEN, second), dw2 = tensor(1, CLASSES, HIDDEN, NULL);
    struct tensor bias = tensor(1, CLASSES, 1, zeros), dbias = tensor(1, CLASSES, 1, NULL);
    struct tensor scale = tensor(1, HIDDEN, 1, ones), dscale = tensor(1, HIDDEN, 1, NULL);
    struct tensor shift = tensor(1, HIDDEN, 1, zeros), dshift = tensor(1, HIDDEN, 1, NULL);
    struct tensor mean = tensor(1, HIDDEN, 1, zeros), variance = tensor(1, HIDDEN, 1, ones);
    struct tensor saved_mean = tensor(1, HIDDEN, 1, NULL), saved_inverse = tensor(1, HIDDEN, 1, NULL);
    struct tensor x = tensor(BATCH, 1, INPUTS, NULL), products1 = tensor(BATCH, HIDDEN, INPUTS, NULL);
    struct tensor products2 = tensor(BATCH, CLASSES, HIDDEN, NULL);
    struct tensor dense = tensor(BATCH, HIDDEN, 1, NULL), ddense = tensor(BATCH, HIDDEN, 1, NULL);
    struct tensor normal = tensor(BATCH, HIDDEN, 1, NULL), dnormal = tensor(BATCH, HIDDEN, 1, NULL);
    struct tensor active = tensor(BATCH, HIDDEN, 1, NULL), dactive = tensor(BATCH, HIDDEN, 1, NULL);
    struct tensor row = seen(active, BATCH, 1, HIDDEN), drow = seen(dactive, BATCH, 1, HIDDEN);
    struct tensor score = tensor(BATCH, CLASSES, 1, NULL), dscore = tensor(BATCH, CLASSES, 1, NULL);
    struct tensor logs = tensor(BATCH, CLASSES, 1, NULL);
    struct tensor all[] = { w1, dw1, w2, dw2, bias, dbias, scale, dscale, shift, dshift, mean, variance, saved_mean,
                            saved_inverse, x, products1, products2, dense, ddense, normal, dnormal, active, dactive, score,
                            dscore, logs };

    for (int step = 0; step < STEPS; step++) {
        const int batch = step % BATCHES;
        struct tensor target = tensor(BATCH, CLASSES, 1, targets + batch * BATCH * CLASSES);
        data_free(x.data);
        all[14].data = x.data = (float *)data_new(inputs + batch * BATCH * INPUTS, sizeof(float) * BATCH * INPUTS);

        sum_products(x, w1, products1, dense);
        OK(cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, dense.desc, dense.data,
                                                  normal.desc, normal.data, scale.desc, scale.data, shift.data, 0.1,
                                                  mean.data, variance.data, 1e-5, saved_mean.data, saved_inverse.data));
        OK(cudnnActivationForward(handle, relu, &one, normal.desc, normal.data, &zero, active.desc, active.data));
        sum_products(row, w2, products2, score);
        OK(cudnnAddTensor(handle, &one, bias.desc, bias.data, &one, score.desc, score.data));
        OK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, score.desc, score.data,
                               &zero, logs.desc, logs.data));

        OK(cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, logs.desc, logs.data,
                                target.desc, target.data, &zero, dscore.desc, dscore.data));
        OK(cudnnConvolutionBackwardBias(handle, &one, dscore.desc, dscore.data, &zero, dbias.desc, dbias.data));
        sum_products(dscore, row, products2, dw2);
        sum_products(dscore, w2, products2, drow);
        OK(cudnnActivationBackward(handle, relu, &one, active.desc, active.data, dactive.desc, dactive.data, normal.desc,
                                   normal.data, &zero, dnormal.desc, dnormal.data));
        OK(cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, dense.desc,
                                           dense.data, dnormal.desc, dnormal.data, ddense.desc, ddense.data, scale.desc,
                                           scale.data, dscale.data, dshift.data, 1e-5, saved_mean.data,
                                           saved_inverse.data));
        sum_products(ddense, x, products1, dw1);

        descend(w1, dw1);
        descend(w2, dw2);
        descend(bias, dbias);
        descend(scale, dscale);
        descend(shift, dshift);
        release(target, 1);
    }
    near(w1, expected_first_weight, "first weight");
    near(scale, expected_norm_scale, "norm scale");
    near(shift, expected_norm_bias, "norm bias");
    near(mean, expected_running_mean, "running mean");
    near(variance, expected_running_variance, "running variance");
    near(w2, expected_second_weight, "second weight");
    near(bias, expected_second_bias, "second bias");

    release(row, 0);
    release(drow, 0);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) release(all[i], 1);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyReduceTensorDescriptor(total));
    OK(cudnnDestroyOpTensorDescriptor(times));
    OK(cudnnDestroy(handle));
    return check_result("perceptron");
}
