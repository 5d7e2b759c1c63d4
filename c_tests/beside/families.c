/* A call or more of every family on a GPU, in the way that the first argument names: on the default stream, in a capture, by threads
 * that share descriptors, and with descriptors that change. SERVER says who has to serve all of them. The device is the driver double.
 * A line for each result; in every way they are the same. */
#include <pthread.h>

#include <cuda_runtime_api.h>

#include "check_beside.h"
#include "graph.h"

/* What of the driver itself is called. */
int cuStreamBeginCapture_v2(cudaStream_t stream, unsigned mode);
int cuStreamEndCapture(cudaStream_t stream, void **graph);
int cuGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long flags);
int cuGraphLaunch(void *instance, cudaStream_t stream);

enum { C = 4, H = 6, W = 5, T = 3, STATES = 4, MOST_N = 3, OUT = 2048, OUT_BYTES = OUT * (int)sizeof(float), ROOM = 1 << 20, GENERATIONS = 3 };

static const float one = 1, zero = 0;
static int is_theirs;

#define SERVED(call)                                                                                                   \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        CHECK(by_original() == is_theirs);                                                                             \
    } while (0)

/* Descriptors, which all threads share; the batch is what changes. */
static cudnnTensorDescriptor_t planes, pixels, vector, result, pooled, columns, probs, hidden;
static cudnnReduceTensorDescriptor_t reduce;
static cudnnOpTensorDescriptor_t op;
static cudnnFilterDescriptor_t filter;
static cudnnConvolutionDescriptor_t conv;
static cudnnPoolingDescriptor_t pooling;
static cudnnActivationDescriptor_t activation;
static cudnnLRNDescriptor_t response;
static cudnnDropoutDescriptor_t dropout;
static cudnnSpatialTransformerDescriptor_t transformer;
static cudnnRNNDescriptor_t rnn;
static cudnnRNNDataDescriptor_t steps;
static cudnnAttnDescriptor_t attention;
static cudnnSeqDataDescriptor_t sequence;
static cudnnCTCLossDescriptor_t loss;
static cudnnFusedOpsConstParamPack_t constants;

/* On the device: operands that nobody writes. */
static float *a, *b, *positive, *weights;
static int *numbers;
static void *states;

/* Where one thread writes. */
struct Place {
    float *out;
    void *work, *reserve;
};

static void *on_device(size_t size, const void *from) {
    void *memory = NULL;
    CHECK(cudaMalloc(&memory, size) == 0);
    CHECK(from == NULL ? cudaMemset(memory, 0, size) == 0 : cudaMemcpy(memory, from, size, cudaMemcpyHostToDevice) == 0);
    return memory;
}

static void make_all(void) {
    OK(cudnnCreateTensorDescriptor(&planes));
    OK(cudnnCreateTensorDescriptor(&pixels));
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateTensorDescriptor(&result));
    OK(cudnnCreateTensorDescriptor(&pooled));
    OK(cudnnCreateTensorDescriptor(&columns));
    OK(cudnnCreateTensorDescriptor(&probs));
    OK(cudnnCreateTensorDescriptor(&hidden));
    OK(cudnnCreateReduceTensorDescriptor(&reduce));
    OK(cudnnCreateOpTensorDescriptor(&op));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnCreateActivationDescriptor(&activation));
    OK(cudnnCreateLRNDescriptor(&response));
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnCreateSpatialTransformerDescriptor(&transformer));
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnCreateRNNDataDescriptor(&steps));
    OK(cudnnCreateAttnDescriptor(&attention));
    OK(cudnnCreateSeqDataDescriptor(&sequence));
    OK(cudnnCreateCTCLossDescriptor(&loss));
    OK(cudnnCreateFusedOpsConstParamPack(&constants, CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE));
}

static void destroy_all(void) {
    OK(cudnnDestroyTensorDescriptor(planes));
    OK(cudnnDestroyTensorDescriptor(pixels));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(result));
    OK(cudnnDestroyTensorDescriptor(pooled));
    OK(cudnnDestroyTensorDescriptor(columns));
    OK(cudnnDestroyTensorDescriptor(probs));
    OK(cudnnDestroyTensorDescriptor(hidden));
    OK(cudnnDestroyReduceTensorDescriptor(reduce));
    OK(cudnnDestroyOpTensorDescriptor(op));
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyActivationDescriptor(activation));
    OK(cudnnDestroyLRNDescriptor(response));
    OK(cudnnDestroyDropoutDescriptor(dropout));
    OK(cudnnDestroySpatialTransformerDescriptor(transformer));
    OK(cudnnDestroyRNNDescriptor(rnn));
    OK(cudnnDestroyRNNDataDescriptor(steps));
    OK(cudnnDestroyAttnDescriptor(attention));
    OK(cudnnDestroySeqDataDescriptor(sequence));
    OK(cudnnDestroyCTCLossDescriptor(loss));
    OK(cudnnDestroyFusedOpsConstParamPack(constants));
}

/* Sets all descriptors, for a batch of n. */
static void describe(cudnnHandle_t handle, int n) {
    const int lengths[MOST_N] = {T, T, T}, of_sequence[4] = {T, n, 1, STATES}, of_hidden[3] = {1, n, STATES}, strides[3] = {n * STATES, STATES, 1};
    const int of_grid[4] = {n, 1, H, W}, of_probs[3] = {T, n, STATES};
    const cudnnSeqDataAxis_t axes[4] = {CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_VECT_DIM};
    const int mode = CUDNN_BATCHNORM_SPATIAL, there = CUDNN_PTR_ELEM_ALIGNED;
    const cudnnFusedOpsConstParamLabel_t placeholders[] = {
        CUDNN_PARAM_BN_SCALE_PLACEHOLDER,       CUDNN_PARAM_BN_BIAS_PLACEHOLDER,    CUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER,
        CUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER};
    int i;
    OK(cudnnSetTensor4dDescriptor(planes, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, C, H, W));
    OK(cudnnSetTensor4dDescriptor(pixels, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, n, C, H, W));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, C, 1, 1));
    OK(cudnnSetTensor4dDescriptor(result, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, 2, H - 1, W - 1));
    OK(cudnnSetTensor4dDescriptor(pooled, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, C, H / 2, W / 2));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_MAX, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 2, C, 2, 2));
    OK(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_NOT_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
    OK(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_NOT_PROPAGATE_NAN, n));
    OK(cudnnSetLRNDescriptor(response, 3, 0.5, 0.75, n));
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0, states, ROOM, 7));
    OK(cudnnSetSpatialTransformerNdDescriptor(transformer, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, of_grid));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_TANH, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                                CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, STATES, STATES, STATES, 1,
                                NULL, 0));
    OK(cudnnSetRNNDataDescriptor(steps, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, T, n, STATES, lengths, NULL));
    OK(cudnnSetTensorNdDescriptor(hidden, CUDNN_DATA_FLOAT, 3, of_hidden, strides));
    OK(cudnnSetAttnDescriptor(attention, CUDNN_ATTN_QUERYMAP_ALL_TO_ONE, 1, 0.5, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH,
                              NULL, NULL, STATES, STATES, STATES, STATES, STATES, STATES, STATES, T, T, MOST_N, 1));
    OK(cudnnSetSeqDataDescriptor(sequence, CUDNN_DATA_FLOAT, 4, of_sequence, axes, (size_t)n, lengths, NULL));
    OK(cudnnSetTensorNdDescriptor(probs, CUDNN_DATA_FLOAT, 3, of_probs, strides));
    OK(cudnnSetCTCLossDescriptor_v8(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_NOT_PROPAGATE_NAN, 2));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_MODE, &mode));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, vector));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector));
    for (i = 0; i < 6; ++i) OK(cudnnSetFusedOpsConstParamPackAttribute(constants, placeholders[i], &there));
}

typedef void family(cudnnHandle_t handle, const struct Place *to, int n);

static void transform(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnTransformTensor(handle, &one, planes, a, &zero, pixels, to->out));
}

static void reduction(cudnnHandle_t handle, const struct Place *to, int n) {
    size_t size = 0;
    (void)n;
    SERVED(cudnnGetReductionWorkspaceSize(handle, reduce, planes, vector, &size));
    CHECK(size <= ROOM);
    SERVED(cudnnReduceTensor(handle, reduce, NULL, 0, to->work, size, &one, planes, a, &zero, vector, to->out));
}

static void scale(cudnnHandle_t handle, const struct Place *to, int n) {
    const float factor = (float)n;
    SERVED(cudnnSetTensor(handle, planes, to->out, &one));
    SERVED(cudnnScaleTensor(handle, planes, to->out, &factor));
}

static void arithmetic(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnOpTensor(handle, op, &one, planes, a, &one, planes, b, &zero, planes, to->out));
}

static void convolution(cudnnHandle_t handle, const struct Place *to, int n) {
    size_t size = 0;
    (void)n;
    SERVED(cudnnGetConvolutionForwardWorkspaceSize(handle, planes, filter, conv, result, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &size));
    CHECK(size <= ROOM);
    SERVED(cudnnConvolutionForward(handle, &one, planes, a, filter, weights, conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, to->work,
                                   size, &zero, result, to->out));
}

static void im2col(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnIm2Col(handle, planes, a, filter, conv, to->out));
}

static void bias(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnConvolutionBackwardBias(handle, &one, planes, a, &zero, vector, to->out));
}

static void pool(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnPoolingForward(handle, pooling, &one, planes, a, &zero, pooled, to->out));
}

static void activate(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnActivationForward(handle, activation, &one, planes, a, &zero, planes, to->out));
}

static void softmax(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, planes, a, &zero, planes, to->out));
}

static void normalise(cudnnHandle_t handle, const struct Place *to, int n) {
    SERVED(cudnnBatchNormalizationForwardInference(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, planes, a, planes, to->out, vector,
                                                   weights, a, b, positive, n));
}

static void respond(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnLRNCrossChannelForward(handle, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, planes, a, &zero, planes, to->out));
}

static void drop(cudnnHandle_t handle, const struct Place *to, int n) {
    size_t size = 0;
    (void)n;
    OK(cudnnDropoutGetReserveSpaceSize(planes, &size));
    SERVED(cudnnDropoutForward(handle, dropout, planes, a, planes, to->out, to->reserve, size));
}

static void sample(cudnnHandle_t handle, const struct Place *to, int n) {
    (void)n;
    SERVED(cudnnSpatialTfGridGeneratorForward(handle, transformer, a, to->out));
}

static void recur(cudnnHandle_t handle, const struct Place *to, int n) {
    size_t weight = 0, work = 0, reserve = 0;
    (void)n;
    SERVED(cudnnGetRNNWeightSpaceSize(handle, rnn, &weight));
    SERVED(cudnnGetRNNTempSpaceSizes(handle, rnn, CUDNN_FWD_MODE_INFERENCE, steps, &work, &reserve));
    CHECK(weight <= OUT_BYTES && work <= ROOM && reserve == 0);
    SERVED(cudnnRNNForward(handle, rnn, CUDNN_FWD_MODE_INFERENCE, numbers, steps, a, steps, to->out, hidden, NULL, NULL, hidden, NULL,
                           NULL, weight, weights, work, to->work, 0, NULL));
}

static void attend(cudnnHandle_t handle, const struct Place *to, int n) {
    const int low[T] = {0, 0, 0}, high[T] = {T, T, T};
    size_t weight = 0, work = 0;
    (void)n;
    SERVED(cudnnGetMultiHeadAttnBuffers(handle, attention, &weight, &work, NULL));
    CHECK(weight <= OUT_BYTES && work <= ROOM);
    SERVED(cudnnMultiHeadAttnForward(handle, attention, -1, low, high, numbers, numbers, sequence, a, NULL, sequence, b, sequence, a,
                                     sequence, to->out, weight, weights, work, to->work, 0, NULL));
}

static void lose(cudnnHandle_t handle, const struct Place *to, int n) {
    size_t work = 0;
    SERVED(cudnnGetCTCLossWorkspaceSize_v8(handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, probs, probs, &work));
    CHECK(work <= ROOM);
    /* Labels 1 and 2 of each sequence, whose lengths are 2, in T steps. */
    SERVED(cudnnCTCLoss_v8(handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, probs, a, numbers + 2 * MOST_N, numbers + MOST_N, numbers,
                           to->out + T * n * STATES, probs, to->out, work, to->work));
}

static void fuse(cudnnHandle_t handle, const struct Place *to, int n) {
    cudnnFusedOpsVariantParamPack_t pack;
    cudnnFusedOpsPlan_t plan;
    double epsilon = n;
    size_t size = 0;
    OK(cudnnCreateFusedOpsPlan(&plan, CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE));
    SERVED(cudnnMakeFusedOpsPlan(handle, plan, constants, &size));
    CHECK(size <= ROOM);
    OK(cudnnCreateFusedOpsVariantParamPack(&pack, CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_BN_SCALE, weights));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_BN_BIAS, a));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_BN_RUNNING_MEAN, b));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_BN_RUNNING_VAR, positive));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_BN_EQSCALE, to->out));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_BN_EQBIAS, to->out + C));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_PTR_WORKSPACE, to->work));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(pack, CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &size));
    SERVED(cudnnFusedOpsExecute(handle, plan, pack));
    OK(cudnnDestroyFusedOpsVariantParamPack(pack));
    OK(cudnnDestroyFusedOpsPlan(plan));
}

/* A graph that doubles a. */
static void express(cudnnHandle_t handle, const struct Place *to, int n) {
    const int64_t dims[3] = {1, n, C * H * W}, ids[2] = {1, 2};
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t from = tensor_of(1, 3, dims, false), into = tensor_of(2, 3, dims, false);
    cudnnBackendDescriptor_t sum = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR), graph, plan, pack;
    void *pointers[2] = {a, to->out};
    OK(cudnnBackendSetAttribute(sum, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    OK(cudnnBackendSetAttribute(sum, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
    OK(cudnnBackendFinalize(sum));
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, sum);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, from);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, into);
    OK(cudnnBackendFinalize(operation));
    graph = graph_of(1, &operation);
    plan = plan_of(graph);
    pack = pack_of(2, ids, pointers, to->work);
    SERVED(cudnnBackendExecute(handle, plan, pack));
    OK(cudnnBackendDestroyDescriptor(pack));
    OK(cudnnBackendDestroyDescriptor(plan));
    OK(cudnnBackendDestroyDescriptor(graph));
    OK(cudnnBackendDestroyDescriptor(operation));
    OK(cudnnBackendDestroyDescriptor(sum));
    OK(cudnnBackendDestroyDescriptor(from));
    OK(cudnnBackendDestroyDescriptor(into));
}

/* By their names in the route. */
static const struct {
    const char *name;
    family *run;
} families[] = {
    {"transform", transform}, {"reduce", reduction}, {"scale", scale},      {"arithmetic", arithmetic}, {"conv", convolution},
    {"im2col", im2col},       {"bias", bias},        {"pooling", pool},     {"activation", activate},   {"softmax", softmax},
    {"norm", normalise},      {"lrn", respond},      {"dropout", drop},     {"sampler", sample},        {"rnn", recur},
    {"attention", attend},    {"ctc", lose},         {"fused", fuse},       {"graph", express},
};

enum { FAMILIES = sizeof families / sizeof *families };

/* What each family has to have written, for each batch. */
static float expected[MOST_N + 1][FAMILIES][OUT];

static struct Place place(void) {
    struct Place made = {(float *)on_device(OUT_BYTES, NULL), on_device(ROOM, NULL), on_device(ROOM, NULL)};
    return made;
}

static void clear(const struct Place *to) { CHECK(cudaMemset(to->out, 0xEE, OUT_BYTES) == 0); }

static int is_right(const struct Place *to, int n, int at) {
    static _Thread_local float got[OUT];
    CHECK(cudaMemcpy(got, to->out, OUT_BYTES, cudaMemcpyDeviceToHost) == 0);
    return memcmp(got, expected[n][at], OUT_BYTES) == 0;
}

static int is_untouched(const struct Place *to) {
    static unsigned char bytes[OUT_BYTES];
    int i;
    CHECK(cudaMemcpy(bytes, to->out, OUT_BYTES, cudaMemcpyDeviceToHost) == 0);
    for (i = 0; i < OUT_BYTES; ++i)
        if (bytes[i] != 0xEE) return 0;
    return 1;
}

/* Each family on the default stream: what all others are compared with. */
static void directly(cudnnHandle_t handle, const struct Place *to) {
    int n, at, i;
    for (n = 2; n <= MOST_N; ++n) {
        describe(handle, n);
        for (at = 0; at < FAMILIES; ++at) {
            unsigned long long hash = 0;
            clear(to);
            families[at].run(handle, to, n);
            CHECK(cudaDeviceSynchronize() == 0);
            CHECK(cudaMemcpy(expected[n][at], to->out, OUT_BYTES, cudaMemcpyDeviceToHost) == 0);
            for (i = 0; i < OUT_BYTES; ++i) hash = hash * 1099511628211ULL + ((unsigned char *)expected[n][at])[i];
            printf("result %s %d %llx\n", families[at].name, n, hash);
            CHECK(!is_untouched(to));
        }
    }
}

/* What is captured runs when its graph does, whatever has become of the descriptors. */
static void captured(cudnnHandle_t handle, const struct Place *to) {
    cudaStream_t stream;
    int at, n;
    CHECK(cudaStreamCreate(&stream) == 0);
    for (n = 2; n <= MOST_N; ++n) {
        for (at = 0; at < FAMILIES; ++at) {
            void *graph = NULL, *instance = NULL;
            OK(cudnnSetStream(handle, NULL));
            describe(handle, n);
            clear(to);
            CHECK(cudaDeviceSynchronize() == 0);
            OK(cudnnSetStream(handle, stream));
            CHECK(cuStreamBeginCapture_v2(stream, 2) == 0);
            families[at].run(handle, to, n);
            CHECK(cuStreamEndCapture(stream, &graph) == 0 && graph != NULL);
            CHECK(is_untouched(to));
            CHECK(cuGraphInstantiateWithFlags(&instance, graph, 0) == 0);
            CHECK(cuGraphLaunch(instance, stream) == 0 && cudaStreamSynchronize(stream) == 0);
            if (!is_right(to, n, at)) fprintf(stderr, "captured: %s\n", families[at].name), ++check_failures;
        }
    }
    OK(cudnnSetStream(handle, NULL));
    CHECK(cudaStreamDestroy(stream) == 0);
}

static void *worker(void *given) {
    const struct Place *to = (const struct Place *)given;
    cudnnHandle_t own;
    cudaStream_t stream;
    int at;
    OK(cudnnShimRecordPlans(1));
    CHECK(cudaStreamCreate(&stream) == 0);
    OK(cudnnCreate(&own));
    OK(cudnnSetStream(own, stream));
    for (at = 0; at < FAMILIES; ++at) {
        clear(to);
        families[at].run(own, to, MOST_N);
        CHECK(cudaStreamSynchronize(stream) == 0);
        if (!is_right(to, MOST_N, at)) fprintf(stderr, "threads: %s\n", families[at].name), ++check_failures;
    }
    OK(cudnnDestroy(own));
    CHECK(cudaStreamDestroy(stream) == 0);
    return NULL;
}

/* Threads with handles and streams of their own share all descriptors, whose twins are made by whoever comes first. */
static void threads(cudnnHandle_t handle) {
    enum { COUNT = 3 };
    pthread_t all[COUNT];
    struct Place places[COUNT];
    int i;
    describe(handle, MOST_N);
    CHECK(cudaDeviceSynchronize() == 0);
    for (i = 0; i < COUNT; ++i) places[i] = place();
    for (i = 0; i < COUNT; ++i) pthread_create(&all[i], NULL, worker, &places[i]);
    for (i = 0; i < COUNT; ++i) pthread_join(all[i], NULL);
}

/* Descriptors that change between calls, and back. */
static void generations(cudnnHandle_t handle, const struct Place *to) {
    int turn, at;
    for (turn = 0; turn < GENERATIONS; ++turn) {
        const int n = 2 + turn % 2;
        describe(handle, n);
        for (at = 0; at < FAMILIES; ++at) {
            clear(to);
            families[at].run(handle, to, n);
            CHECK(cudaDeviceSynchronize() == 0);
            if (!is_right(to, n, at)) fprintf(stderr, "generations: %s\n", families[at].name), ++check_failures;
        }
    }
}

int main(int count, char **list) {
    static float pattern[4][OUT];
    /* Steps of each sequence, labels of each, and the labels. */
    const int host_numbers[] = {T, T, T, 2, 2, 2, 1, 2, 1, 2, 1, 2};
    const char *server = getenv("SERVER");
    cudnnHandle_t handle;
    struct Place to;
    int i;
    if (count < 2 || server == NULL) return 2;
    is_theirs = strcmp(server, "original") == 0;
    for (i = 0; i < OUT; ++i) {
        pattern[0][i] = (float)(i * 7 % 11) / 4 - 1, pattern[1][i] = (float)(i * 5 % 13) / 4 - 1;
        pattern[2][i] = (float)(i % 5 + 1), pattern[3][i] = (float)(i * 3 % 7) / 8 - 0.25f;
    }
    CHECK(cudaSetDevice(0) == 0);
    OK(cudnnShimRecordPlans(1));
    OK(cudnnCreate(&handle));
    a = (float *)on_device(OUT_BYTES, pattern[0]), b = (float *)on_device(OUT_BYTES, pattern[1]);
    positive = (float *)on_device(OUT_BYTES, pattern[2]), weights = (float *)on_device(OUT_BYTES, pattern[3]);
    numbers = (int *)on_device(sizeof host_numbers, host_numbers);
    states = on_device(ROOM, NULL);
    to = place();
    make_all();
    directly(handle, &to);
    if (strcmp(list[1], "captured") == 0) captured(handle, &to);
    if (strcmp(list[1], "threads") == 0) threads(handle);
    if (strcmp(list[1], "generations") == 0) generations(handle, &to);
    destroy_all();
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
