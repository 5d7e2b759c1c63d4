/* Handwritten digits: trains a small convolutional network, a plain C99 program that knows nothing but <cudnn.h>.
 *
 *   digits [--steps N] IN.dat [OUT.png]
 *
 * Two convolutions with bias, batch normalisation, ReLU and max pooling, then two dense layers with dropout between them,
 * softmax and cross-entropy; stochastic gradient descent with momentum. Shows loss and accuracy of every epoch, the
 * confusion matrix, the first layer's filters and the digits that it misreads, and writes the last two as a picture.
 * --steps ends the training after N batches. Compiled with -DON_GPU it keeps its tensors on the device (needs cudart).
 *
 * Exit status: 0, or 2 when a call or a file fails, with one line that says why.
 */
#define _POSIX_C_SOURCE 200809L
#include <cudnn.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "confusion.h"
#include "images.h"
#include "memory.h"
#include "picture.h"

enum { BATCH = 64, EPOCHS = 20, FILTERS = 16 };

static const float ONE = 1, ZERO = 0;

static void call(cudnnStatus_t status, const char *what) {
    if (status != CUDNN_STATUS_SUCCESS) die(what, cudnnGetErrorString(status));
}
#define CALL(f, ...) call(f(__VA_ARGS__), #f)

/* ---- random numbers: the same everywhere ------------------------------------------------------------------ */

static uint64_t state = 20240229;

static uint32_t draw(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((state >> 32) * below) >> 32);
}

/* Between -1 and 1. */
static float spread(void) { return (float)draw(1u << 24) / (float)(1 << 23) - 1; }

/* ---- the network ------------------------------------------------------------------------------------------ */

/* N x C x H x W, packed; N is the batch at hand. */
typedef struct {
    cudnnTensorDescriptor_t desc;
    int c, h, w;
    float *data, *grad;
} Tensor;

/* A filter or a vector, its gradient, and the speed at which it moves. */
typedef struct {
    cudnnTensorDescriptor_t desc;
    float *value, *grad, *speed;
    int count;
} Parameter;

typedef enum { CONVOLUTION, NORMALISATION, RELU, POOLING, FLATTENING, DROPOUT } Kind;

typedef struct {
    Kind kind;
    Tensor *in, *out;
    Parameter weight, bias;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnConvolutionFwdAlgo_t forward;
    cudnnConvolutionBwdDataAlgo_t to_data;
    cudnnConvolutionBwdFilterAlgo_t to_filter;
    float *mean, *variance, *saved_mean, *saved_inverse; /* of a normalisation */
    cudnnPoolingDescriptor_t pooling;
    cudnnDropoutDescriptor_t dropout;
    void *mask;
    size_t mask_bytes;
} Layer;

enum { MAX_LAYERS = 16 };

static struct {
    cudnnHandle_t handle;
    Tensor tensors[MAX_LAYERS + 1], answer; /* answer: the logarithms of the probabilities */
    Layer layers[MAX_LAYERS];
    int count, batch;
    cudnnActivationDescriptor_t relu;
    void *workspace;
    size_t workspace_bytes;
} net;

static Tensor *last(void) { return &net.tensors[net.count]; }

static size_t elements(const Tensor *t, int batch) { return (size_t)batch * (size_t)(t->c * t->h * t->w); }

static void describe(Tensor *t, int batch) {
    CALL(cudnnSetTensor4dDescriptor, t->desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, t->c, t->h, t->w);
}

/* An output of these extents; in memory of its own, or in that of `view`. */
static void shape(Tensor *t, int c, int h, int w, const Tensor *view) {
    t->c = c, t->h = h, t->w = w;
    CALL(cudnnCreateTensorDescriptor, &t->desc);
    describe(t, BATCH);
    t->data = view ? view->data : (float *)reserve(elements(t, TESTS) * sizeof(float));
    t->grad = view ? view->grad : (float *)reserve(elements(t, TESTS) * sizeof(float));
}

/* Of k x c x h x w, between -range and range around `middle`. */
static Parameter parameter(int k, int c, int h, int w, float middle, float range) {
    Parameter p;
    p.count = k * c * h * w;
    CALL(cudnnCreateTensorDescriptor, &p.desc);
    CALL(cudnnSetTensor4dDescriptor, p.desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, k, c, h, w);
    size_t bytes = (size_t)p.count * sizeof(float);
    float *values = (float *)malloc(bytes);
    if (!values) die("malloc", "out of memory");
    for (int i = 0; i < p.count; i++) values[i] = middle + range * spread();
    p.value = (float *)reserve(bytes), p.grad = (float *)reserve(bytes), p.speed = (float *)reserve(bytes);
    upload(p.value, values, bytes);
    free(values);
    return p;
}

static Layer *layer(Kind kind) {
    Layer *l = &net.layers[net.count];
    l->kind = kind;
    l->in = &net.tensors[net.count++];
    l->out = &net.tensors[net.count];
    return l;
}

static void add_convolution(int filters, int size) {
    Layer *l = layer(CONVOLUTION);
    int c = l->in->c, pad = size / 2;
    l->weight = parameter(filters, c, size, size, 0, sqrtf(6.0f / (float)(c * size * size)));
    l->bias = parameter(1, filters, 1, 1, 0, 0);
    CALL(cudnnCreateFilterDescriptor, &l->filter);
    CALL(cudnnSetFilter4dDescriptor, l->filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, filters, c, size, size);
    CALL(cudnnCreateConvolutionDescriptor, &l->convolution);
    CALL(cudnnSetConvolution2dDescriptor, l->convolution, pad, pad, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
         CUDNN_DATA_FLOAT);
    int n, k, h, w;
    CALL(cudnnGetConvolution2dForwardOutputDim, l->convolution, l->in->desc, l->filter, &n, &k, &h, &w);
    shape(l->out, k, h, w, NULL);
}

static void add_normalisation(void) {
    Layer *l = layer(NORMALISATION);
    int c = l->in->c;
    size_t bytes = (size_t)c * sizeof(float);
    shape(l->out, c, l->in->h, l->in->w, NULL);
    l->weight = parameter(1, c, 1, 1, 1, 0);
    l->bias = parameter(1, c, 1, 1, 0, 0);
    l->mean = (float *)reserve(bytes), l->variance = (float *)reserve(bytes);
    l->saved_mean = (float *)reserve(bytes), l->saved_inverse = (float *)reserve(bytes);
}

static void add_relu(void) {
    const Layer *l = layer(RELU);
    shape(l->out, l->in->c, l->in->h, l->in->w, NULL);
}

static void add_pooling(void) {
    Layer *l = layer(POOLING);
    int n, c, h, w;
    CALL(cudnnCreatePoolingDescriptor, &l->pooling);
    CALL(cudnnSetPooling2dDescriptor, l->pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2);
    CALL(cudnnGetPooling2dForwardOutputDim, l->pooling, l->in->desc, &n, &c, &h, &w);
    shape(l->out, c, h, w, NULL);
}

/* Everything becomes channels: another view of the same memory. */
static void add_flattening(void) {
    Layer *l = layer(FLATTENING);
    shape(l->out, l->in->c * l->in->h * l->in->w, 1, 1, l->in);
}

static void add_dropout(float share) {
    Layer *l = layer(DROPOUT);
    size_t states_bytes;
    shape(l->out, l->in->c, l->in->h, l->in->w, NULL);
    CALL(cudnnDropoutGetStatesSize, net.handle, &states_bytes);
    CALL(cudnnCreateDropoutDescriptor, &l->dropout);
    CALL(cudnnSetDropoutDescriptor, l->dropout, net.handle, share, reserve(states_bytes), states_bytes, 7);
    CALL(cudnnDropoutGetReserveSpaceSize, l->in->desc, &l->mask_bytes);
    l->mask = reserve(l->mask_bytes);
}

/* The algorithm that the library likes best, and room for it; the three directions have enums and calls of their own. */
#define CHOOSE(l, field, Query, Perf, Size, ...)                      \
    do {                                                              \
        Perf best;                                                    \
        int found = 0;                                                \
        size_t bytes = 0;                                             \
        CALL(Query, net.handle, __VA_ARGS__, 1, &found, &best);       \
        if (found < 1) die(#Query, "no algorithm");                   \
        (l)->field = best.algo;                                       \
        CALL(Size, net.handle, __VA_ARGS__, best.algo, &bytes);       \
        if (bytes > net.workspace_bytes) net.workspace_bytes = bytes; \
    } while (0)

static void use_batch(int batch) {
    net.batch = batch;
    for (int i = 0; i <= net.count; i++) describe(&net.tensors[i], batch);
    describe(&net.answer, batch);
    size_t before = net.workspace_bytes;
    for (int i = 0; i < net.count; i++) {
        Layer *l = &net.layers[i];
        if (l->kind != CONVOLUTION) continue;
        CHOOSE(l, forward, cudnnGetConvolutionForwardAlgorithm_v7, cudnnConvolutionFwdAlgoPerf_t,
               cudnnGetConvolutionForwardWorkspaceSize, l->in->desc, l->filter, l->convolution, l->out->desc);
        CHOOSE(l, to_data, cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnConvolutionBwdDataAlgoPerf_t,
               cudnnGetConvolutionBackwardDataWorkspaceSize, l->filter, l->out->desc, l->convolution, l->in->desc);
        CHOOSE(l, to_filter, cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnConvolutionBwdFilterAlgoPerf_t,
               cudnnGetConvolutionBackwardFilterWorkspaceSize, l->in->desc, l->out->desc, l->convolution, l->filter);
    }
    /* Batches come in two sizes, so this happens twice at most. */
    if (net.workspace_bytes > before) net.workspace = reserve(net.workspace_bytes);
}

static void build(void) {
    CALL(cudnnCreate, &net.handle);
    CALL(cudnnCreateActivationDescriptor, &net.relu);
    CALL(cudnnSetActivationDescriptor, net.relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
    shape(&net.tensors[0], 1, SIDE, SIDE, NULL);
    add_convolution(FILTERS, 3);
    add_normalisation();
    add_relu();
    add_pooling();
    add_convolution(32, 3);
    add_normalisation();
    add_relu();
    add_pooling();
    add_flattening();
    add_convolution(64, 1); /* on one pixel this is a dense layer */
    add_relu();
    add_dropout(0.25f);
    add_convolution(CLASSES, 1);
    shape(&net.answer, CLASSES, 1, 1, NULL);
}

/* ---- one pass ---------------------------------------------------------------------------------------------- */

static void run_forward(Layer *l, int training) {
    Tensor *x = l->in, *y = l->out;
    switch (l->kind) {
    case CONVOLUTION:
        CALL(cudnnConvolutionForward, net.handle, &ONE, x->desc, x->data, l->filter, l->weight.value, l->convolution,
             l->forward, net.workspace, net.workspace_bytes, &ZERO, y->desc, y->data);
        CALL(cudnnAddTensor, net.handle, &ONE, l->bias.desc, l->bias.value, &ONE, y->desc, y->data);
        break;
    case NORMALISATION:
        if (training)
            CALL(cudnnBatchNormalizationForwardTraining, net.handle, CUDNN_BATCHNORM_SPATIAL, &ONE, &ZERO, x->desc,
                 x->data, y->desc, y->data, l->weight.desc, l->weight.value, l->bias.value, 0.1, l->mean, l->variance,
                 1e-5, l->saved_mean, l->saved_inverse);
        else
            CALL(cudnnBatchNormalizationForwardInference, net.handle, CUDNN_BATCHNORM_SPATIAL, &ONE, &ZERO, x->desc,
                 x->data, y->desc, y->data, l->weight.desc, l->weight.value, l->bias.value, l->mean, l->variance, 1e-5);
        break;
    case RELU:
        CALL(cudnnActivationForward, net.handle, net.relu, &ONE, x->desc, x->data, &ZERO, y->desc, y->data);
        break;
    case POOLING:
        CALL(cudnnPoolingForward, net.handle, l->pooling, &ONE, x->desc, x->data, &ZERO, y->desc, y->data);
        break;
    case FLATTENING: break;
    case DROPOUT:
        if (training)
            CALL(cudnnDropoutForward, net.handle, l->dropout, x->desc, x->data, y->desc, y->data, l->mask,
                 l->mask_bytes);
        else
            CALL(cudnnTransformTensor, net.handle, &ONE, x->desc, x->data, &ZERO, y->desc, y->data);
        break;
    }
}

static void forward(int training) {
    for (int i = 0; i < net.count; i++) run_forward(&net.layers[i], training);
    CALL(cudnnSoftmaxForward, net.handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &ONE, last()->desc,
         last()->data, &ZERO, net.answer.desc, net.answer.data);
}

static void run_backward(Layer *l, int wants_input) {
    Tensor *x = l->in, *y = l->out;
    switch (l->kind) {
    case CONVOLUTION:
        CALL(cudnnConvolutionBackwardBias, net.handle, &ONE, y->desc, y->grad, &ZERO, l->bias.desc, l->bias.grad);
        CALL(cudnnConvolutionBackwardFilter, net.handle, &ONE, x->desc, x->data, y->desc, y->grad, l->convolution,
             l->to_filter, net.workspace, net.workspace_bytes, &ZERO, l->filter, l->weight.grad);
        if (wants_input)
            CALL(cudnnConvolutionBackwardData, net.handle, &ONE, l->filter, l->weight.value, y->desc, y->grad,
                 l->convolution, l->to_data, net.workspace, net.workspace_bytes, &ZERO, x->desc, x->grad);
        break;
    case NORMALISATION:
        CALL(cudnnBatchNormalizationBackward, net.handle, CUDNN_BATCHNORM_SPATIAL, &ONE, &ZERO, &ONE, &ZERO, x->desc,
             x->data, y->desc, y->grad, x->desc, x->grad, l->weight.desc, l->weight.value, l->weight.grad, l->bias.grad,
             1e-5, l->saved_mean, l->saved_inverse);
        break;
    case RELU:
        CALL(cudnnActivationBackward, net.handle, net.relu, &ONE, y->desc, y->data, y->desc, y->grad, x->desc, x->data,
             &ZERO, x->desc, x->grad);
        break;
    case POOLING:
        CALL(cudnnPoolingBackward, net.handle, l->pooling, &ONE, y->desc, y->data, y->desc, y->grad, x->desc, x->data,
             &ZERO, x->desc, x->grad);
        break;
    case FLATTENING: break;
    case DROPOUT:
        CALL(cudnnDropoutBackward, net.handle, l->dropout, y->desc, y->grad, x->desc, x->grad, l->mask, l->mask_bytes);
        break;
    }
}

/* speed = momentum * speed + gradient; value = value - rate * speed. */
static void move(Parameter *p, float rate) {
    const float momentum = 0.9f, back = -rate;
    CALL(cudnnAddTensor, net.handle, &ONE, p->desc, p->grad, &momentum, p->desc, p->speed);
    CALL(cudnnAddTensor, net.handle, &back, p->desc, p->speed, &ONE, p->desc, p->value);
}

/* The loss is the mean of -log(probability of the right class): its gradient is -1/batch there and 0 elsewhere. */
static void learn(const int *digits, float rate) {
    float wanted[BATCH * CLASSES] = {0};
    for (int i = 0; i < net.batch; i++) wanted[i * CLASSES + digits[i]] = -1.0f / (float)net.batch;
    upload(net.answer.grad, wanted, sizeof(float) * (size_t)(net.batch * CLASSES));
    CALL(cudnnSoftmaxBackward, net.handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &ONE, net.answer.desc,
         net.answer.data, net.answer.desc, net.answer.grad, &ZERO, last()->desc, last()->grad);
    for (int i = net.count - 1; i >= 0; i--) run_backward(&net.layers[i], i > 0);
    for (int i = 0; i < net.count; i++)
        if (net.layers[i].weight.count > 0) {
            move(&net.layers[i].weight, rate);
            move(&net.layers[i].bias, rate);
        }
}

/* Puts images into the network's input, and their digits into `digits`. */
static void show(const int *which, int count, int *digits) {
    static float pixels[TESTS * PIXELS];
    for (int i = 0; i < count; i++) {
        digits[i] = images[which[i]].digit;
        for (int p = 0; p < PIXELS; p++) pixels[i * PIXELS + p] = (float)images[which[i]].pixels[p] / 8 - 1;
    }
    upload(net.tensors[0].data, pixels, sizeof(float) * (size_t)(count * PIXELS));
}

/* What the network takes each image of the batch for; adds up the loss. */
static int judge(const int *digits, int *guesses, double *loss) {
    static float answers[TESTS * CLASSES];
    int right = 0;
    download(answers, net.answer.data, sizeof(float) * (size_t)(net.batch * CLASSES));
    for (int i = 0; i < net.batch; i++) {
        const float *a = &answers[i * CLASSES];
        guesses[i] = 0;
        for (int k = 1; k < CLASSES; k++)
            if (a[k] > a[guesses[i]]) guesses[i] = k;
        right += guesses[i] == digits[i];
        *loss -= a[digits[i]];
    }
    return right;
}

/* ---- what is shown ------------------------------------------------------------------------------------------ */

/* The filters of the first layer side by side, each between its least and its largest weight. */
static Picture filters(void) {
    float w[FILTERS * 9];
    Picture p = picture(FILTERS * 4 - 1, 3);
    download(w, net.layers[0].weight.value, sizeof w);
    for (int f = 0; f < FILTERS; f++) {
        float low = w[f * 9], high = low;
        for (int i = 1; i < 9; i++) low = fminf(low, w[f * 9 + i]), high = fmaxf(high, w[f * 9 + i]);
        for (int i = 0; i < 9; i++)
            p.at[i / 3 * p.w + f * 4 + i % 3] = (unsigned char)(255 * (w[f * 9 + i] - low) / (high - low + 1e-9f));
    }
    return p;
}

/* Up to seven images side by side. */
static Picture gallery(const int *which, int count) {
    Picture p = picture(7 * (SIDE + 1) - 1, SIDE);
    for (int i = 0; i < count && i < 7; i++)
        for (int k = 0; k < PIXELS; k++)
            p.at[k / SIDE * p.w + i * (SIDE + 1) + k % SIDE] = (unsigned char)(images[which[i]].pixels[k] * 255 / 16);
    return p;
}

static void progress(int epoch, int done, int of, double loss, double accuracy, double seconds) {
    const int ends = done == of, filled = 24 * done / of;
    if (!ends && !isatty(STDOUT_FILENO)) return;
    printf("%s  epoch %2d/%d  [", isatty(STDOUT_FILENO) ? "\r" : "", epoch + 1, EPOCHS);
    for (int i = 0; i < 24; i++) putchar(i < filled ? '#' : ' ');
    printf("]  loss %6.4f  right %5.1f %%  %5.2f s%s", loss, 100 * accuracy, seconds, ends ? "\n" : "");
    fflush(stdout);
}

/* 64-bit FNV-1a of the parameters in order of creation. */
static uint64_t fingerprint(void) {
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < net.count; i++)
        for (int k = 0; k < 2; k++) {
            const Parameter *p = k ? &net.layers[i].bias : &net.layers[i].weight;
            if (p->count == 0) continue;
            const size_t bytes = (size_t)p->count * sizeof(float);
            unsigned char *values = (unsigned char *)malloc(bytes);
            if (!values) die("malloc", "out of memory");
            download(values, p->value, bytes);
            for (size_t b = 0; b < bytes; b++) hash = (hash ^ values[b]) * 1099511628211u;
            free(values);
        }
    return hash;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void train(long steps) {
    const int batches = TRAININGS / BATCH;
    const double start = now();
    long step = 0;
    use_batch(BATCH);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double loss = 0;
        int right = 0, digits[BATCH], guesses[BATCH];
        /* Slower and slower, so that it comes to rest. */
        const float rate = 0.05f * (float)(EPOCHS - epoch) / EPOCHS;
        for (int i = TRAININGS - 1; i > 0; i--) {
            const int j = (int)draw((uint32_t)i + 1), t = trainings[i];
            trainings[i] = trainings[j], trainings[j] = t;
        }
        for (int b = 0; b < batches; b++) {
            show(&trainings[b * BATCH], BATCH, digits);
            forward(1);
            right += judge(digits, guesses, &loss);
            learn(digits, rate);
            const double seen = (double)(b + 1) * BATCH;
            progress(epoch, b + 1, batches, loss / seen, right / seen, now() - start);
            if (++step == steps) return;
        }
    }
}

static void report(const char *png) {
    int digits[TESTS], guesses[TESTS], misread[TESTS], errors = 0, table[CLASSES][CLASSES] = {{0}};
    double loss = 0;
    use_batch(TESTS);
    show(tests, TESTS, digits);
    forward(0);
    const int right = judge(digits, guesses, &loss);
    for (int i = 0; i < TESTS; i++) {
        table[digits[i]][guesses[i]]++;
        if (digits[i] != guesses[i]) misread[errors++] = tests[i];
    }
    print_table(table, loss / TESTS);
    const Picture layer = filters(), wrong = gallery(misread, errors);
    printf("\n  the %d filters of the first layer\n\n", FILTERS);
    print_rows(&layer);
    printf("\n  misread:");
    for (int i = 0, shown = 0; i < TESTS && shown < 7; i++)
        if (digits[i] != guesses[i]) printf("%s a %d for a %d", shown++ ? "," : "", digits[i], guesses[i]);
    printf("%s\n\n", errors ? (errors > 7 ? ", ..." : "") : " none");
    if (errors) print_rows(&wrong);
    if (png) {
        const Picture both = stacked(layer, wrong);
        write_png(&both, 8, png);
        printf("\n  both as a picture: %s\n", png);
    }
    printf("\ndigits: %d of %d right, weights %016llx\n", right, TESTS, (unsigned long long)fingerprint());
}

int main(int argc, char **argv) {
    long steps = -1;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "--steps") == 0) {
        char *end;
        steps = strtol(argv[2], &end, 10);
        if (*end || steps < 1) die(argv[2], "not a number of steps");
        at = 3;
    }
    if (argc <= at || argc > at + 2) die("usage", "digits [--steps N] IN.dat [OUT.png]");
    load(argv[at]);
    build();
    train(steps);
    report(argc > at + 1 ? argv[at + 1] : NULL);
    CALL(cudnnDestroy, net.handle);
    return 0;
}
