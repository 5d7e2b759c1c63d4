/* Who serves what beside the original, by the scenario that the first argument names. */
#include <dlfcn.h>
#include <pthread.h>

#include "check_beside.h"

static cudnnHandle_t handle;
static const float one = 1, zero = 0;

enum { N = 2, C = 3, H = 4, W = 5, SIZE = N * C * H * W };

static cudnnTensorDescriptor_t tensor(cudnnTensorFormat_t format) {
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, format, CUDNN_DATA_FLOAT, N, C, H, W));
    return desc;
}

static float x[SIZE], y[SIZE];

static void fill(void) {
    int i;
    for (i = 0; i < SIZE; ++i) x[i] = (float)(i % 7 - 3);
}

/* The defaults: softmax is the original's, transforms are ours. */
static void defaults(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW), pixels = tensor(CUDNN_TENSOR_NHWC);
    BY_ORIGINAL(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, planes, x, &zero,
                                    planes, y));
    CHECK(y[0] > 0 && y[0] < 1);
    BY_US(cudnnTransformTensor(handle, &one, planes, x, &zero, pixels, y));
    CHECK(y[1] == x[H * W]);
    OK(cudnnDestroyTensorDescriptor(planes));
    OK(cudnnDestroyTensorDescriptor(pixels));
}

/* A twin follows its descriptor: other strides, other results. */
static void changes(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW), to = tensor(CUDNN_TENSOR_NCHW);
    int turn, i;
    for (turn = 0; turn < 50; ++turn) {
        cudnnTensorFormat_t format = turn % 2 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
        OK(cudnnSetTensor4dDescriptor(to, format, CUDNN_DATA_FLOAT, N, C, H, W));
        BY_ORIGINAL(cudnnTransformTensor(handle, &one, planes, x, &zero, to, y));
        CHECK(y[1] == (turn % 2 ? x[H * W] : x[1]));
    }
    /* Objects come and go, and slots are used again. */
    for (turn = 0; turn < 300; ++turn) {
        OK(cudnnDestroyTensorDescriptor(to));
        to = tensor(turn % 3 ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW);
        for (i = 0; i < SIZE; ++i) y[i] = 0;
        BY_ORIGINAL(cudnnTransformTensor(handle, &one, planes, x, &zero, to, y));
        CHECK(y[1] == (turn % 3 ? x[H * W] : x[1]));
    }
    OK(cudnnDestroyTensorDescriptor(planes));
    OK(cudnnDestroyTensorDescriptor(to));
}

/* What the original cannot describe has no twin, and is served by us. */
static void no_twin(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW), blocked;
    float blocks[N * 8 * H * W];
    OK(cudnnCreateTensorDescriptor(&blocked));
    OK(cudnnSetTensor4dDescriptor(blocked, CUDNN_SHIM_TENSOR_NCHW8C, CUDNN_DATA_FLOAT, N, C, H,
                                  W));
    BY_US(cudnnTransformTensor(handle, &one, planes, x, &zero, blocked, blocks));
    CHECK(blocks[1] == x[H * W] && blocks[3] == 0);
    BY_ORIGINAL(cudnnTransformTensor(handle, &one, planes, x, &zero, planes, y));
    OK(cudnnDestroyTensorDescriptor(blocked));
    /* Nor has one that is not alive: the error is ours. */
    BAD(cudnnTransformTensor(handle, &one, planes, x, &zero, blocked, blocks));
    OK(cudnnDestroyTensorDescriptor(planes));
}

/* Tensors of one kind go another way than the rest of their family: averages in NHWC are ours, all else of poolings is not. */
static void cases(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW), pixels = tensor(CUDNN_TENSOR_NHWC), doubles;
    cudnnTensorDescriptor_t small[2];
    cudnnPoolingDescriptor_t average, maximum;
    double wide[SIZE] = {0}, more[SIZE];
    const double big_one = 1, big_zero = 0;
    int i;
    for (i = 0; i < 2; ++i) {
        OK(cudnnCreateTensorDescriptor(&small[i]));
        OK(cudnnSetTensor4dDescriptor(small[i], i ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H / 2, W / 2));
    }
    OK(cudnnCreatePoolingDescriptor(&average));
    OK(cudnnCreatePoolingDescriptor(&maximum));
    OK(cudnnSetPooling2dDescriptor(average, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    OK(cudnnSetPooling2dDescriptor(maximum, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    BY_ORIGINAL(cudnnPoolingForward(handle, average, &one, planes, x, &zero, small[0], y));
    BY_US(cudnnPoolingForward(handle, average, &one, pixels, x, &zero, small[1], y));
    BY_ORIGINAL(cudnnPoolingForward(handle, maximum, &one, pixels, x, &zero, small[1], y));
    BY_ORIGINAL(cudnnPoolingForward(handle, average, &one, pixels, x, &zero, small[0], y));
    BY_ORIGINAL(cudnnPoolingBackward(handle, average, &one, small[1], y, small[1], y, pixels, x, &zero, pixels, x));
    /* A twin follows its descriptor, and so does the case. */
    OK(cudnnSetPooling2dDescriptor(maximum, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    BY_US(cudnnPoolingForward(handle, maximum, &one, pixels, x, &zero, small[1], y));
    /* Other types were not measured. */
    OK(cudnnCreateTensorDescriptor(&doubles));
    OK(cudnnSetTensor4dDescriptor(doubles, CUDNN_TENSOR_NHWC, CUDNN_DATA_DOUBLE, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(small[1], CUDNN_TENSOR_NHWC, CUDNN_DATA_DOUBLE, N, C, H / 2, W / 2));
    BY_ORIGINAL(cudnnPoolingForward(handle, average, &big_one, doubles, wide, &big_zero, small[1], more));
    OK(cudnnDestroyPoolingDescriptor(average));
    OK(cudnnDestroyPoolingDescriptor(maximum));
    OK(cudnnDestroyTensorDescriptor(planes));
    OK(cudnnDestroyTensorDescriptor(pixels));
    OK(cudnnDestroyTensorDescriptor(doubles));
    OK(cudnnDestroyTensorDescriptor(small[0]));
    OK(cudnnDestroyTensorDescriptor(small[1]));
}

/* Said by the environment, there are no cases. */
static void settled(void) {
    cudnnTensorDescriptor_t pixels = tensor(CUDNN_TENSOR_NHWC);
    cudnnPoolingDescriptor_t average;
    OK(cudnnCreatePoolingDescriptor(&average));
    OK(cudnnSetPooling2dDescriptor(average, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_NOT_PROPAGATE_NAN, 1, 1, 0, 0, 1, 1));
    BY_ORIGINAL(cudnnPoolingForward(handle, average, &one, pixels, x, &zero, pixels, y));
    OK(cudnnDestroyPoolingDescriptor(average));
    OK(cudnnDestroyTensorDescriptor(pixels));
}

static int warnings;

static void hear(cudnnSeverity_t severity, void *data, const cudnnDebug_t *debug, const char *text) {
    (void)data, (void)debug;
    if (severity == CUDNN_SEV_WARNING && strstr(text, "the original refuses")) ++warnings;
}

/* The double refuses softmax: ours runs, and says so once. */
static void refusal(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW);
    int turn;
    OK(cudnnSetCallback(CUDNN_SEV_WARNING_EN, NULL, hear));
    for (turn = 0; turn < 3; ++turn) {
        BY_US(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, planes, x, &zero, planes,
                                  y));
        CHECK(y[0] > 0 && y[0] < 1);
    }
    CHECK(warnings == 1);
    OK(cudnnSetCallback(0, NULL, NULL));
    OK(cudnnDestroyTensorDescriptor(planes));
}

/* The double fails: its status and its sentence come through, and nothing runs in its place. */
static void failure(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW);
    char text[256] = "";
    y[0] = 77;
    EXPECT(CUDNN_STATUS_EXECUTION_FAILED, cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one,
                                                              planes, x, &zero, planes, y));
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strcmp(text, "cudnnSoftmaxForward: the original: the double fails") == 0);
    CHECK(y[0] == 77);
    OK(cudnnDestroyTensorDescriptor(planes));
}

/* A refusal that is ours too has the original's status, and both sentences. */
static void both_refuse(void) {
    cudnnTensorDescriptor_t ints;
    char text[512] = "";
    OK(cudnnCreateTensorDescriptor(&ints));
    OK(cudnnSetTensor4dDescriptor(ints, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8x4, N, 4, H, W));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, ints,
                                                           x, &zero, ints, y));
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "the double refuses; and cudnn-shim itself: ") != NULL);
    OK(cudnnDestroyTensorDescriptor(ints));
}

/* The stream of a handle is that of its twin. */
static void stream(void) {
    void *original = dlopen(getenv("THE_DOUBLE"), RTLD_NOLOAD | RTLD_LAZY);
    unsigned (*count)(const char *) = original ? (unsigned (*)(const char *))dlsym(original, "double_count") : NULL;
    cudaStream_t set = (cudaStream_t)(size_t)0x1230, seen = NULL;
    CHECK(count != NULL);
    if (count == NULL) return;
    CHECK(count("cudnnCreate") == 1 && count("cudnnSetStream") == 0);
    OK(cudnnSetStream(handle, set));
    OK(cudnnGetStream(handle, &seen));
    CHECK(seen == set && count("cudnnSetStream") == 1);
    OK(cudnnSetStream(handle, NULL));
    OK(cudnnDestroy(handle));
    CHECK(count("cudnnDestroy") == 1);
    OK(cudnnCreate(&handle));
    CHECK(count("cudnnCreate") == 2);
}

/* Random states belong to who has made them. */
static void dropout(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW);
    cudnnDropoutDescriptor_t desc;
    size_t size = 0, mask = 0, i, kept = 0;
    void *states, *reserve, *seen = NULL;
    unsigned long long seed = 0;
    float p = 0;
    OK(cudnnCreateDropoutDescriptor(&desc));
    OK(cudnnDropoutGetStatesSize(handle, &size));
    states = malloc(size);
    BY_ORIGINAL(cudnnSetDropoutDescriptor(desc, handle, 0.5f, states, size, 42));
    OK(cudnnGetDropoutDescriptor(desc, handle, &p, &seen, &seed));
    CHECK(p == 0.5f && seen == states && seed == 42);
    OK(cudnnDropoutGetReserveSpaceSize(planes, &mask));
    reserve = malloc(mask);
    for (i = 0; i < SIZE; ++i) x[i] = 1;
    BY_ORIGINAL(cudnnDropoutForward(handle, desc, planes, x, planes, y, reserve, mask));
    for (i = 0; i < SIZE; ++i) {
        CHECK(y[i] == 0 || y[i] == 2);
        kept += y[i] == 2;
    }
    CHECK(kept > 10 && kept < SIZE - 10);
    BY_ORIGINAL(cudnnDropoutBackward(handle, desc, planes, y, planes, x, reserve, mask));
    /* Another probability, and the state goes on. */
    BY_ORIGINAL(cudnnSetDropoutDescriptor(desc, handle, 0, NULL, 0, 42));
    for (i = 0; i < SIZE; ++i) x[i] = 1;
    BY_ORIGINAL(cudnnDropoutForward(handle, desc, planes, x, planes, y, reserve, mask));
    for (i = 0; i < SIZE; ++i) CHECK(y[i] == 1);
    free(states);
    free(reserve);
    OK(cudnnDestroyDropoutDescriptor(desc));
    OK(cudnnDestroyTensorDescriptor(planes));
}

static cudnnRNNDescriptor_t network(cudnnDropoutDescriptor_t drop, int hidden) {
    cudnnRNNDescriptor_t rnn;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                                CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 3, hidden, hidden, 1,
                                drop, 0));
    return rnn;
}

/* Weights have the form of who told their size: a network stays with one of both. The double refuses cudnnRNNForward. */
static void bound(void) {
    static const int lengths[1] = {2};
    cudnnRNNDescriptor_t rnn = network(NULL, 4), other = network(NULL, 4);
    cudnnRNNDataDescriptor_t in, out;
    cudnnTensorDescriptor_t state;
    int dims[3] = {1, 1, 4}, strides[3] = {4, 4, 1};
    size_t size = 0, work = 0, reserve = 0;
    float *weights, *room;
    OK(cudnnCreateRNNDataDescriptor(&in));
    OK(cudnnCreateRNNDataDescriptor(&out));
    OK(cudnnSetRNNDataDescriptor(in, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 2, 1, 3, lengths, NULL));
    OK(cudnnSetRNNDataDescriptor(out, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 2, 1, 4, lengths, NULL));
    OK(cudnnCreateTensorDescriptor(&state));
    OK(cudnnSetTensorNdDescriptor(state, CUDNN_DATA_FLOAT, 3, dims, strides));
    BY_ORIGINAL(cudnnGetRNNWeightSpaceSize(handle, rnn, &size));
    OK(cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_INFERENCE, in, &work, &reserve));
    weights = calloc(1, size);
    room = malloc(work + 1);
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnRNNForward(handle, rnn, CUDNN_FWD_MODE_INFERENCE, NULL, in, x, out, y, state, NULL, NULL,
                                                       state, NULL, NULL, size, weights, work, room, 0, NULL));
    /* One that the original refuses at once is ours, then and later. */
    OK(cudnnRNNForward(handle, other, CUDNN_FWD_MODE_INFERENCE, NULL, in, x, out, y, state, NULL, NULL, state, NULL, NULL, size,
                       weights, work, room, 0, NULL));
    BY_US(cudnnGetRNNWeightSpaceSize(handle, other, &size));
    free(weights);
    free(room);
    OK(cudnnDestroyRNNDescriptor(rnn));
    OK(cudnnDestroyRNNDescriptor(other));
    OK(cudnnDestroyRNNDataDescriptor(in));
    OK(cudnnDestroyRNNDataDescriptor(out));
    OK(cudnnDestroyTensorDescriptor(state));
}

static void *worker(void *shared) {
    cudnnTensorDescriptor_t mine = tensor(CUDNN_TENSOR_NHWC), planes = shared;
    cudnnHandle_t own;
    float z[SIZE];
    int turn;
    OK(cudnnCreate(&own));
    for (turn = 0; turn < 200; ++turn) {
        OK(cudnnTransformTensor(own, &one, planes, x, &zero, mine, z));
        CHECK(z[1] == x[H * W]);
        if (turn % 10 == 0) OK(cudnnSetTensor4dDescriptor(mine, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, H, W));
    }
    OK(cudnnDestroy(own));
    OK(cudnnDestroyTensorDescriptor(mine));
    return NULL;
}

/* Threads share a descriptor, and make its twin once. */
static void threads(void) {
    cudnnTensorDescriptor_t planes = tensor(CUDNN_TENSOR_NCHW);
    pthread_t all[4];
    int i;
    for (i = 0; i < 4; ++i) pthread_create(&all[i], NULL, worker, planes);
    for (i = 0; i < 4; ++i) pthread_join(all[i], NULL);
    OK(cudnnDestroyTensorDescriptor(planes));
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"defaults", defaults}, {"changes", changes},         {"no-twin", no_twin}, {"refusal", refusal}, {"failure", failure},
    {"cases", cases},       {"settled", settled},
    {"both", both_refuse},  {"stream", stream},           {"dropout", dropout}, {"bound", bound},     {"threads", threads},
};

int main(int count, char **list) {
    size_t i;
    int known = 0;
    OK(cudnnShimRecordPlans(1));
    OK(cudnnCreate(&handle));
    fill();
    for (i = 0; count > 1 && i < sizeof scenarios / sizeof *scenarios; ++i) {
        if (strcmp(list[1], scenarios[i].name) == 0) scenarios[i].run(), known = 1;
    }
    CHECK(known);
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
