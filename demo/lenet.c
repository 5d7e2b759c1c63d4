/* LeNet on handwritten digits, written as programs for a GPU are: memory from cudaMalloc, copies, a stream, events,
 * dense layers by cuBLAS, the rest by cuDNN. Nothing in it knows that there may be no GPU.
 *
 *   lenet [--epochs N] IN.dat
 *
 * Two convolutions with bias, ReLU and max pooling, then two dense layers, softmax and cross-entropy; stochastic
 * gradient descent with momentum. Shows loss, accuracy and time of every epoch, and the confusion matrix.
 *
 * Exit status: 0, or 2 when a call or a file fails, with one line that says why.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "lenet"
#include "confusion.h"
#include "die.h"
#include "images.h"

enum { BATCH = 32, EPOCHS = 8, MAX_BATCH = TESTS };

static const float one = 1, zero = 0;

static void cuda(cudaError_t error, const char *what) {
    if (error != cudaSuccess) die(what, cudaGetErrorString(error));
}
static void blas(cublasStatus_t status, const char *what) {
    if (status != CUBLAS_STATUS_SUCCESS) die(what, "cuBLAS failed");
}
static void dnn(cudnnStatus_t status, const char *what) {
    if (status != CUDNN_STATUS_SUCCESS) die(what, cudnnGetErrorString(status));
}
#define CUDA(f, ...) cuda(f(__VA_ARGS__), #f)
#define BLAS(f, ...) blas(f(__VA_ARGS__), #f)
#define DNN(f, ...) dnn(f(__VA_ARGS__), #f)

static cudnnHandle_t cudnn;
static cublasHandle_t cublas;
static cudaStream_t stream;
static float *ones; /* MAX_BATCH of them, to sum over a batch */
static void *workspace;
static size_t workspace_bytes;

static float *device(size_t count) {
    void *memory = NULL;
    CUDA(cudaMalloc, &memory, count * sizeof(float));
    CUDA(cudaMemset, memory, 0, count * sizeof(float));
    return (float *)memory;
}

/* ---- the network ------------------------------------------------------------------------------------------ */

/* N x C x H x W, packed, and its gradient. */
typedef struct {
    cudnnTensorDescriptor_t desc;
    int c, h, w;
    float *data, *grad;
} Tensor;

typedef struct {
    int count;
    float *value, *grad, *speed;
} Parameter;

typedef struct {
    Parameter weight, bias;
    cudnnTensorDescriptor_t bias_desc;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    Tensor *in, sum, relu, pooled;
} Convolution;

typedef struct {
    Parameter weight, bias; /* outputs x inputs, row by row */
    int inputs, outputs;
    Tensor *in, sum;
} Dense;

static Tensor input, hidden, answer;
static Convolution first, second;
static Dense third, fourth;
static cudnnActivationDescriptor_t relu;
static cudnnPoolingDescriptor_t pooling;

static uint64_t state = 20240229;
static uint32_t draw(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((state >> 32) * below) >> 32);
}

static Tensor tensor(int c, int h, int w) {
    Tensor t = {NULL, c, h, w, device((size_t)(MAX_BATCH * c * h * w)), device((size_t)(MAX_BATCH * c * h * w))};
    DNN(cudnnCreateTensorDescriptor, &t.desc);
    return t;
}

static Parameter parameter(int count, float range) {
    const size_t bytes = (size_t)count * sizeof(float);
    Parameter p = {count, device((size_t)count), device((size_t)count), device((size_t)count)};
    float *values = (float *)malloc(bytes);
    if (!values) die("malloc", "out of memory");
    for (int i = 0; i < count; i++) values[i] = range * ((float)draw(1u << 24) / (float)(1 << 23) - 1);
    CUDA(cudaMemcpy, p.value, values, bytes, cudaMemcpyHostToDevice);
    free(values);
    return p;
}

static void make_convolution(Convolution *l, Tensor *in, int filters, int size) {
    const int c = in->c;
    l->in = in;
    l->weight = parameter(filters * c * size * size, sqrtf(6.0f / (float)(c * size * size)));
    l->bias = parameter(filters, 0);
    DNN(cudnnCreateTensorDescriptor, &l->bias_desc);
    DNN(cudnnSetTensor4dDescriptor, l->bias_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, filters, 1, 1);
    DNN(cudnnCreateFilterDescriptor, &l->filter);
    DNN(cudnnSetFilter4dDescriptor, l->filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, filters, c, size, size);
    DNN(cudnnCreateConvolutionDescriptor, &l->convolution);
    DNN(cudnnSetConvolution2dDescriptor, l->convolution, size / 2, size / 2, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
        CUDNN_DATA_FLOAT);
    l->sum = tensor(filters, in->h, in->w);
    l->relu = tensor(filters, in->h, in->w);
    l->pooled = tensor(filters, in->h / 2, in->w / 2);
}

static void make_dense(Dense *l, Tensor *in, int outputs) {
    l->in = in, l->inputs = in->c * in->h * in->w, l->outputs = outputs;
    l->weight = parameter(outputs * l->inputs, sqrtf(6.0f / (float)l->inputs));
    l->bias = parameter(outputs, 0);
    l->sum = tensor(outputs, 1, 1);
}

static void describe(const Tensor *t, int n) {
    DNN(cudnnSetTensor4dDescriptor, t->desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, t->c, t->h, t->w);
}

/* Room for the most that any direction of this layer wants. */
static void make_room(const Convolution *l) {
    size_t bytes[3];
    DNN(cudnnGetConvolutionForwardWorkspaceSize, cudnn, l->in->desc, l->filter, l->convolution, l->sum.desc,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes[0]);
    DNN(cudnnGetConvolutionBackwardDataWorkspaceSize, cudnn, l->filter, l->sum.desc, l->convolution, l->in->desc,
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes[1]);
    DNN(cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnn, l->in->desc, l->sum.desc, l->convolution, l->filter,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &bytes[2]);
    for (int i = 0; i < 3; i++) {
        if (bytes[i] <= workspace_bytes) continue;
        CUDA(cudaFree, workspace);
        CUDA(cudaMalloc, &workspace, bytes[i]);
        workspace_bytes = bytes[i];
    }
}

static void use_batch(int n) {
    const Tensor *all[] = {&input,         &first.sum, &first.relu, &first.pooled, &second.sum, &second.relu,
                           &second.pooled, &third.sum, &hidden,     &fourth.sum,   &answer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) describe(all[i], n);
    make_room(&first);
    make_room(&second);
}

static void build(void) {
    int devices = 0;
    struct cudaDeviceProp properties;
    CUDA(cudaGetDeviceCount, &devices);
    if (devices < 1) die("cudaGetDeviceCount", "no device");
    CUDA(cudaSetDevice, 0);
    CUDA(cudaGetDeviceProperties, &properties, 0);
    printf("  device    %s\n\n", properties.name);
    CUDA(cudaStreamCreate, &stream);
    DNN(cudnnCreate, &cudnn);
    DNN(cudnnSetStream, cudnn, stream);
    BLAS(cublasCreate, &cublas);
    BLAS(cublasSetStream, cublas, stream);
    DNN(cudnnCreateActivationDescriptor, &relu);
    DNN(cudnnSetActivationDescriptor, relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0);
    DNN(cudnnCreatePoolingDescriptor, &pooling);
    DNN(cudnnSetPooling2dDescriptor, pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2);
    ones = device(MAX_BATCH);
    float filled[MAX_BATCH];
    for (int i = 0; i < MAX_BATCH; i++) filled[i] = 1;
    CUDA(cudaMemcpy, ones, filled, sizeof filled, cudaMemcpyHostToDevice);
    input = tensor(1, SIDE, SIDE);
    make_convolution(&first, &input, 8, 5);
    make_convolution(&second, &first.pooled, 16, 3);
    make_dense(&third, &second.pooled, 64);
    hidden = tensor(64, 1, 1);
    make_dense(&fourth, &hidden, CLASSES);
    answer = tensor(CLASSES, 1, 1);
}

/* ---- one pass ---------------------------------------------------------------------------------------------- */

static void convolution_forward(Convolution *l) {
    DNN(cudnnConvolutionForward, cudnn, &one, l->in->desc, l->in->data, l->filter, l->weight.value, l->convolution,
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace, workspace_bytes, &zero, l->sum.desc, l->sum.data);
    DNN(cudnnAddTensor, cudnn, &one, l->bias_desc, l->bias.value, &one, l->sum.desc, l->sum.data);
    DNN(cudnnActivationForward, cudnn, relu, &one, l->sum.desc, l->sum.data, &zero, l->relu.desc, l->relu.data);
    DNN(cudnnPoolingForward, cudnn, pooling, &one, l->relu.desc, l->relu.data, &zero, l->pooled.desc, l->pooled.data);
}

static void convolution_backward(Convolution *l, int wants_input) {
    DNN(cudnnPoolingBackward, cudnn, pooling, &one, l->pooled.desc, l->pooled.data, l->pooled.desc, l->pooled.grad,
        l->relu.desc, l->relu.data, &zero, l->relu.desc, l->relu.grad);
    DNN(cudnnActivationBackward, cudnn, relu, &one, l->relu.desc, l->relu.data, l->relu.desc, l->relu.grad, l->sum.desc,
        l->sum.data, &zero, l->sum.desc, l->sum.grad);
    DNN(cudnnConvolutionBackwardBias, cudnn, &one, l->sum.desc, l->sum.grad, &zero, l->bias_desc, l->bias.grad);
    DNN(cudnnConvolutionBackwardFilter, cudnn, &one, l->in->desc, l->in->data, l->sum.desc, l->sum.grad, l->convolution,
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace, workspace_bytes, &zero, l->filter, l->weight.grad);
    if (wants_input)
        DNN(cudnnConvolutionBackwardData, cudnn, &one, l->filter, l->weight.value, l->sum.desc, l->sum.grad,
            l->convolution, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace, workspace_bytes, &zero, l->in->desc,
            l->in->grad);
}

/* cuBLAS counts columns first: what lies here row by row is the transpose there. */
static void dense_forward(Dense *l, int n) {
    BLAS(cublasSgemm, cublas, CUBLAS_OP_N, CUBLAS_OP_N, l->outputs, n, 1, &one, l->bias.value, l->outputs, ones, 1,
         &zero, l->sum.data, l->outputs);
    BLAS(cublasSgemm, cublas, CUBLAS_OP_T, CUBLAS_OP_N, l->outputs, n, l->inputs, &one, l->weight.value, l->inputs,
         l->in->data, l->inputs, &one, l->sum.data, l->outputs);
}

static void dense_backward(Dense *l, int n) {
    BLAS(cublasSgemm, cublas, CUBLAS_OP_N, CUBLAS_OP_T, l->inputs, l->outputs, n, &one, l->in->data, l->inputs,
         l->sum.grad, l->outputs, &zero, l->weight.grad, l->inputs);
    BLAS(cublasSgemv, cublas, CUBLAS_OP_N, l->outputs, n, &one, l->sum.grad, l->outputs, ones, 1, &zero, l->bias.grad,
         1);
    BLAS(cublasSgemm, cublas, CUBLAS_OP_N, CUBLAS_OP_N, l->inputs, n, l->outputs, &one, l->weight.value, l->inputs,
         l->sum.grad, l->outputs, &zero, l->in->grad, l->inputs);
}

static void forward(int n) {
    convolution_forward(&first);
    convolution_forward(&second);
    dense_forward(&third, n);
    DNN(cudnnActivationForward, cudnn, relu, &one, third.sum.desc, third.sum.data, &zero, hidden.desc, hidden.data);
    dense_forward(&fourth, n);
    DNN(cudnnSoftmaxForward, cudnn, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, fourth.sum.desc,
        fourth.sum.data, &zero, answer.desc, answer.data);
}

/* speed = momentum * speed + gradient; value = value - rate * speed. */
static void move(Parameter *p, float rate) {
    const float momentum = 0.9f, back = -rate;
    BLAS(cublasSscal, cublas, p->count, &momentum, p->speed, 1);
    BLAS(cublasSaxpy, cublas, p->count, &one, p->grad, 1, p->speed, 1);
    BLAS(cublasSaxpy, cublas, p->count, &back, p->speed, 1, p->value, 1);
}

/* The loss is the mean of -log(probability of the right class): its gradient is -1/n there and 0 elsewhere. */
static void learn(const int *digits, int n, float rate) {
    static float wanted[BATCH * CLASSES];
    memset(wanted, 0, sizeof wanted);
    for (int i = 0; i < n; i++) wanted[i * CLASSES + digits[i]] = -1.0f / (float)n;
    CUDA(cudaMemcpyAsync, answer.grad, wanted, sizeof(float) * (size_t)(n * CLASSES), cudaMemcpyHostToDevice, stream);
    DNN(cudnnSoftmaxBackward, cudnn, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, answer.desc, answer.data,
        answer.desc, answer.grad, &zero, fourth.sum.desc, fourth.sum.grad);
    dense_backward(&fourth, n);
    DNN(cudnnActivationBackward, cudnn, relu, &one, hidden.desc, hidden.data, hidden.desc, hidden.grad, third.sum.desc,
        third.sum.data, &zero, third.sum.desc, third.sum.grad);
    dense_backward(&third, n);
    convolution_backward(&second, 1);
    convolution_backward(&first, 0);
    Parameter *all[] = {&first.weight, &first.bias, &second.weight, &second.bias,
                        &third.weight, &third.bias, &fourth.weight, &fourth.bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) move(all[i], rate);
    CUDA(cudaStreamSynchronize, stream);
}

static void show(const int *which, int n, int *digits) {
    static float pixels[MAX_BATCH * PIXELS];
    for (int i = 0; i < n; i++) {
        digits[i] = images[which[i]].digit;
        for (int p = 0; p < PIXELS; p++) pixels[i * PIXELS + p] = (float)images[which[i]].pixels[p] / 8 - 1;
    }
    CUDA(cudaMemcpyAsync, input.data, pixels, sizeof(float) * (size_t)(n * PIXELS), cudaMemcpyHostToDevice, stream);
}

/* What the network takes each image of the batch for; adds up the loss. */
static int judge(const int *digits, int n, int *guesses, double *loss) {
    static float answers[MAX_BATCH * CLASSES];
    int right = 0;
    CUDA(cudaMemcpyAsync, answers, answer.data, sizeof(float) * (size_t)(n * CLASSES), cudaMemcpyDeviceToHost, stream);
    CUDA(cudaStreamSynchronize, stream);
    for (int i = 0; i < n; i++) {
        const float *a = &answers[i * CLASSES];
        guesses[i] = 0;
        for (int k = 1; k < CLASSES; k++)
            if (a[k] > a[guesses[i]]) guesses[i] = k;
        right += guesses[i] == digits[i];
        *loss -= a[digits[i]];
    }
    return right;
}

static void train(int epochs) {
    cudaEvent_t from, to;
    CUDA(cudaEventCreate, &from);
    CUDA(cudaEventCreate, &to);
    use_batch(BATCH);
    for (int epoch = 0; epoch < epochs; epoch++) {
        const int batches = TRAININGS / BATCH;
        const float rate = 0.03f * (float)(epochs - epoch) / (float)epochs;
        double loss = 0;
        float time = 0;
        int right = 0, digits[BATCH], guesses[BATCH];
        for (int i = TRAININGS - 1; i > 0; i--) {
            const int j = (int)draw((uint32_t)i + 1), t = trainings[i];
            trainings[i] = trainings[j], trainings[j] = t;
        }
        CUDA(cudaEventRecord, from, stream);
        for (int b = 0; b < batches; b++) {
            show(&trainings[b * BATCH], BATCH, digits);
            forward(BATCH);
            right += judge(digits, BATCH, guesses, &loss);
            learn(digits, BATCH, rate);
        }
        CUDA(cudaEventRecord, to, stream);
        CUDA(cudaEventSynchronize, to);
        CUDA(cudaEventElapsedTime, &time, from, to);
        printf("  epoch %2d/%d  loss %6.4f  right %5.1f %%  %6.1f ms\n", epoch + 1, epochs, loss / (batches * BATCH),
               100.0 * right / (batches * BATCH), time);
    }
    CUDA(cudaEventDestroy, from);
    CUDA(cudaEventDestroy, to);
}

static uint64_t fingerprint(void) {
    const Parameter *all[] = {&first.weight, &first.bias, &second.weight, &second.bias,
                              &third.weight, &third.bias, &fourth.weight, &fourth.bias};
    uint64_t hash = 14695981039346656037u; /* 64-bit FNV-1a */
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t bytes = (size_t)all[i]->count * sizeof(float);
        unsigned char *values = (unsigned char *)malloc(bytes);
        if (!values) die("malloc", "out of memory");
        CUDA(cudaMemcpy, values, all[i]->value, bytes, cudaMemcpyDeviceToHost);
        for (size_t b = 0; b < bytes; b++) hash = (hash ^ values[b]) * 1099511628211u;
        free(values);
    }
    return hash;
}

static void report(void) {
    int digits[TESTS], guesses[TESTS], table[CLASSES][CLASSES] = {{0}};
    double loss = 0;
    use_batch(TESTS);
    show(tests, TESTS, digits);
    forward(TESTS);
    const int right = judge(digits, TESTS, guesses, &loss);
    for (int i = 0; i < TESTS; i++) table[digits[i]][guesses[i]]++;
    print_table(table, loss / TESTS);
    printf("\nlenet: %d of %d right, weights %016llx\n", right, TESTS, (unsigned long long)fingerprint());
}

int main(int argc, char **argv) {
    int epochs = EPOCHS, at = 1;
    if (argc > 2 && strcmp(argv[1], "--epochs") == 0) {
        epochs = atoi(argv[2]);
        if (epochs < 1) die(argv[2], "not a number of epochs");
        at = 3;
    }
    if (argc != at + 1) die("usage", "lenet [--epochs N] IN.dat");
    load(argv[at]);
    build();
    train(epochs);
    report();
    BLAS(cublasDestroy, cublas);
    DNN(cudnnDestroy, cudnn);
    CUDA(cudaStreamDestroy, stream);
    return 0;
}
