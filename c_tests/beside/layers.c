/* Calls of the route that other programs leave out, each with its result. */
#include "check_beside.h"
#include "graph.h"

enum { N = 2, C = 3, H = 4, W = 5, SIZE = N * C * H * W };

static cudnnHandle_t handle;
static const float one = 1, zero = 0;
static float x[SIZE] __attribute__((aligned(64))), y[SIZE] __attribute__((aligned(64))), dy[SIZE] __attribute__((aligned(64))),
    dx[SIZE] __attribute__((aligned(64))), other[SIZE] __attribute__((aligned(64)));
static cudnnTensorDescriptor_t desc, of;

static void fill(float *values, int count, int period) {
    int i;
    for (i = 0; i < count; ++i) values[i] = (float)((i * 7) % period) / 4 - 1;
}

static void show(const char *name, const float *values, int count) {
    int i;
    printf("result %s", name);
    for (i = 0; i < count; ++i) printf(" %.9g", values[i]);
    printf("\n");
}

static void elements(void) {
    enum { TAPS = 2 };
    static float columns[C * TAPS * TAPS * N * (H - 1) * (W - 1)];
    const float shift[C] = {1, 2, 3};
    float sums[C];
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    fill(x, SIZE, 11), fill(y, SIZE, 7);
    OK(cudnnAddTensor(handle, &one, of, shift, &one, desc, y));
    show("sum", y, SIZE);
    OK(cudnnConvolutionBackwardBias(handle, &one, desc, x, &zero, of, sums));
    show("bias", sums, C);
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, C, TAPS, TAPS));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(cudnnIm2Col(handle, desc, x, filter, conv, columns));
    show("columns", columns, (int)(sizeof columns / sizeof *columns));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(filter));
}

static void responses(void) {
    cudnnLRNDescriptor_t response;
    static float temp[SIZE], temp2[SIZE];
    OK(cudnnCreateLRNDescriptor(&response));
    OK(cudnnSetLRNDescriptor(response, 3, 0.5, 0.75, 2));
    fill(x, SIZE, 11), fill(dy, SIZE, 5), fill(other, SIZE, 7);
    OK(cudnnLRNCrossChannelForward(handle, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, desc, x, &zero, desc, y));
    OK(cudnnLRNCrossChannelBackward(handle, response, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, desc, y, desc, dy, desc, x, &zero, desc, dx));
    show("response", dx, SIZE);
    OK(cudnnDivisiveNormalizationBackward(handle, response, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &one, desc, x, other, dy, temp, temp2,
                                          &zero, desc, dx, y));
    show("divisive", dx, SIZE);
    show("means", y, SIZE);
    OK(cudnnDestroyLRNDescriptor(response));
}

static void normalisations(void) {
    const cudnnNormMode_t mode = CUDNN_NORM_PER_CHANNEL;
    const cudnnNormOps_t ops = CUDNN_NORM_OPS_NORM;
    const cudnnNormAlgo_t algo = CUDNN_NORM_ALGO_STANDARD;
    float scale[C] = {1, 2, -1}, bias[C] = {0, 1, 0.5f}, mean[C] = {0, 0.5f, 1}, variance[C] = {1, 2, 3}, saved[C], inverse[C];
    float d_scale[C], d_bias[C];
    size_t size = 0, back = 0, kept = 0;
    void *room, *reserve;
    fill(x, SIZE, 11), fill(dy, SIZE, 5);
    OK(cudnnNormalizationForwardInference(handle, mode, ops, algo, &one, &zero, desc, x, of, scale, bias, of, mean, variance, NULL, NULL,
                                          NULL, desc, y, 1e-5, 1));
    show("inference", y, SIZE);
    OK(cudnnGetNormalizationForwardTrainingWorkspaceSize(handle, mode, ops, algo, desc, NULL, desc, of, NULL, of, &size, 1));
    OK(cudnnGetNormalizationBackwardWorkspaceSize(handle, mode, ops, algo, desc, NULL, desc, NULL, desc, of, NULL, of, &back, 1));
    OK(cudnnGetNormalizationTrainingReserveSpaceSize(handle, mode, ops, algo, NULL, desc, &kept, 1));
    size = size > back ? size : back;
    room = guarded_alloc(size), reserve = guarded_alloc(kept);
    OK(cudnnNormalizationForwardTraining(handle, mode, ops, algo, &one, &zero, desc, x, of, scale, bias, 0.25, of, mean, variance, 1e-5,
                                         saved, inverse, NULL, NULL, NULL, desc, y, room, size, reserve, kept, 1));
    show("training", y, SIZE);
    OK(cudnnNormalizationBackward(handle, mode, ops, algo, &one, &zero, &one, &zero, desc, x, NULL, NULL, desc, dy, NULL, NULL, desc, dx,
                                  of, scale, bias, d_scale, d_bias, 1e-5, of, saved, inverse, NULL, room, size, reserve, kept, 1));
    show("gradient", dx, SIZE);
    show("scales", d_scale, C);
    guarded_free(room, size);
    guarded_free(reserve, kept);
}

/* What a dropout drops after its state was given back. */
static void dropouts(void) {
    cudnnDropoutDescriptor_t dropout;
    size_t states = 0, kept = 0;
    void *memory, *reserve;
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnDropoutGetStatesSize(handle, &states));
    OK(cudnnDropoutGetReserveSpaceSize(desc, &kept));
    memory = guarded_alloc(states), reserve = guarded_alloc(kept);
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, memory, states, 7));
    OK(cudnnRestoreDropoutDescriptor(dropout, handle, 0.25f, memory, states, 7));
    fill(x, SIZE, 11);
    OK(cudnnDropoutForward(handle, dropout, desc, x, desc, y, reserve, kept));
    show("dropout", y, SIZE);
    OK(cudnnDestroyDropoutDescriptor(dropout));
    guarded_free(memory, states);
    guarded_free(reserve, kept);
}

static void sizes(void) {
    cudnnReduceTensorDescriptor_t reduce;
    cudnnRNNDescriptor_t rnn;
    size_t size = 0;
    OK(cudnnCreateReduceTensorDescriptor(&reduce));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnGetReductionIndicesSize(handle, reduce, desc, of, &size));
    printf("result indices %zu\n", size);
    OK(cudnnDestroyReduceTensorDescriptor(reduce));
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 3, 4, 4, 1, NULL, 0));
    OK(cudnnBuildRNNDynamic(handle, rnn, 2));
    OK(cudnnDestroyRNNDescriptor(rnn));
}

/* The plan of a copy: its workspace, and that no library makes a CUDA graph of it here. */
static void plans(void) {
    const int64_t dims[3] = {1, 1, SIZE}, ids[2] = {1, 2};
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t from = tensor_of(1, 3, dims, false), to = tensor_of(2, 3, dims, false);
    cudnnBackendDescriptor_t copy = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR), graph, plan, pack;
    void *pointers[2] = {x, y};
    cudaGraph_t recorded = (cudaGraph_t)(void *)&mode;
    size_t size = 0;
    OK(cudnnBackendSetAttribute(copy, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    OK(cudnnBackendSetAttribute(copy, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
    OK(cudnnBackendFinalize(copy));
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, copy);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    OK(cudnnBackendFinalize(operation));
    graph = graph_of(1, &operation);
    plan = plan_of(graph);
    pack = pack_of(2, ids, pointers, NULL);
    OK(cudnnGetExecutionPlanWorkspaceSize(handle, plan, pack, &size));
    printf("result workspace %zu\n", size);
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnBackendPopulateCudaGraph(handle, plan, pack, recorded));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnBackendUpdateCudaGraph(handle, plan, pack, recorded));
    OK(cudnnBackendDestroyDescriptor(pack));
    OK(cudnnBackendDestroyDescriptor(plan));
    OK(cudnnBackendDestroyDescriptor(graph));
    OK(cudnnBackendDestroyDescriptor(operation));
    OK(cudnnBackendDestroyDescriptor(copy));
    OK(cudnnBackendDestroyDescriptor(from));
    OK(cudnnBackendDestroyDescriptor(to));
}

int main(void) {
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnCreateTensorDescriptor(&of));
    OK(cudnnSetTensor4dDescriptor(of, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, C, 1, 1));
    elements();
    responses();
    normalisations();
    dropouts();
    sizes();
    plans();
    OK(cudnnDestroyTensorDescriptor(of));
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
