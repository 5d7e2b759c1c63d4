/* Queries of sizes and the calls that take them: who served each, a line per pair, and the results that all have to have. */
#include "check_beside.h"

static cudnnHandle_t handle;
static const float one = 1, zero = 0;

/* Whether the last recorded plan is that of a call that the original has served. */
static const char *server(const char *name) {
    static char plan[1 << 16];
    char wanted[128];
    size_t needed = 0;
    OK(cudnnShimGetLastPlan(sizeof plan, plan, &needed));
    snprintf(wanted, sizeof wanted, "%s: by the original ", name);
    return strstr(plan, wanted) != NULL ? "original" : "ours";
}

#define SERVED(name, arguments)                                                                                        \
    do {                                                                                                               \
        OK(name arguments);                                                                                            \
        printf("served %s %s\n", #name, server(#name));                                                                \
    } while (0)

static void show(const char *name, const float *values, int count) {
    double sum = 0, weighted = 0;
    int i;
    for (i = 0; i < count; ++i) sum += values[i], weighted += values[i] * (i % 13);
    printf("result %s %.5f %.5f\n", name, sum, weighted);
}

enum { N = 2, C = 4, H = 6, W = 5, K = 3, SIZE = N * C * H * W, RESULTS = N * K * H * W, FILTERS = K * C * 9 };

static float x[SIZE] __attribute__((aligned(64))), y[RESULTS] __attribute__((aligned(64))),
    w[FILTERS] __attribute__((aligned(64)));
static cudnnTensorDescriptor_t x_desc, y_desc;

static cudnnTensorDescriptor_t tensor(int n, int c, int h, int v) {
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, v));
    return desc;
}

static void fill(float *values, int count, int period) {
    int i;
    for (i = 0; i < count; ++i) values[i] = (float)((i * 7) % period) / 4 - 1;
}

static void convolutions(void) {
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    size_t size = 0;
    void *room;
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, 3, 3));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    fill(x, SIZE, 11), fill(w, FILTERS, 5);
    SERVED(cudnnGetConvolutionForwardWorkspaceSize, (handle, x_desc, w_desc, conv, y_desc, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, &size));
    room = guarded_alloc(size);
    SERVED(cudnnConvolutionForward, (handle, &one, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_GEMM, room, size, &zero,
                                     y_desc, y));
    guarded_free(room, size);
    show("forward", y, RESULTS);
    fill(y, RESULTS, 7);
    SERVED(cudnnGetConvolutionBackwardDataWorkspaceSize, (handle, w_desc, y_desc, conv, x_desc, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                                                          &size));
    room = guarded_alloc(size);
    SERVED(cudnnConvolutionBackwardData, (handle, &one, w_desc, w, y_desc, y, conv, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, room, size,
                                          &zero, x_desc, x));
    guarded_free(room, size);
    show("data", x, SIZE);
    fill(x, SIZE, 11);
    SERVED(cudnnGetConvolutionBackwardFilterWorkspaceSize, (handle, x_desc, y_desc, conv, w_desc,
                                                            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &size));
    room = guarded_alloc(size);
    SERVED(cudnnConvolutionBackwardFilter, (handle, &one, x_desc, x, y_desc, y, conv, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, room, size,
                                            &zero, w_desc, w));
    guarded_free(room, size);
    show("filter", w, FILTERS);
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyConvolutionDescriptor(conv));
}

static void reduction(void) {
    cudnnReduceTensorDescriptor_t reduce;
    cudnnTensorDescriptor_t to = tensor(1, C, 1, 1);
    float sums[C];
    size_t size = 0;
    void *room;
    OK(cudnnCreateReduceTensorDescriptor(&reduce));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    fill(x, SIZE, 11);
    SERVED(cudnnGetReductionWorkspaceSize, (handle, reduce, x_desc, to, &size));
    room = guarded_alloc(size);
    SERVED(cudnnReduceTensor, (handle, reduce, NULL, 0, room, size, &one, x_desc, x, &zero, to, sums));
    guarded_free(room, size);
    show("sums", sums, C);
    OK(cudnnDestroyReduceTensorDescriptor(reduce));
    OK(cudnnDestroyTensorDescriptor(to));
}

/* Normalisation and ReLU: the reserve space has what the forward call has left for the gradient. */
static void normalisation(void) {
    cudnnTensorDescriptor_t of = tensor(1, C, 1, 1);
    cudnnActivationDescriptor_t relu;
    static float out[SIZE], gradient[SIZE], from[SIZE];
    float scale[C] = {1, 2, -1, 0.5f}, bias[C] = {0, 1, 0.5f, -1}, mean[C], inverse[C], run_mean[C] = {0}, run_variance[C] = {1, 1, 1, 1};
    float d_scale[C], d_bias[C];
    size_t size = 0, back = 0, kept = 0;
    void *room, *reserve;
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    fill(x, SIZE, 11), fill(from, SIZE, 7);
    SERVED(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, (handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT,
                                                                      CUDNN_BATCHNORM_OPS_BN_ACTIVATION, x_desc, NULL, x_desc, of, relu,
                                                                      &size));
    SERVED(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, (handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT,
                                                                  CUDNN_BATCHNORM_OPS_BN_ACTIVATION, relu, x_desc, &kept));
    room = guarded_alloc(size), reserve = guarded_alloc(kept);
    SERVED(cudnnBatchNormalizationForwardTrainingEx, (handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &one,
                                                      &zero, x_desc, x, NULL, NULL, x_desc, out, of, scale, bias, 0.1, run_mean,
                                                      run_variance, 1e-5, mean, inverse, relu, room, size, reserve, kept));
    guarded_free(room, size);
    show("normal", out, SIZE);
    SERVED(cudnnGetBatchNormalizationBackwardExWorkspaceSize, (handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT,
                                                               CUDNN_BATCHNORM_OPS_BN_ACTIVATION, x_desc, x_desc, x_desc, NULL, x_desc,
                                                               of, relu, &back));
    room = guarded_alloc(back);
    if (getenv("UNBOUND") != NULL) {
        /* The original has filled the reserve space, and refuses the gradient: nobody else can read it. */
        EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
               cudnnBatchNormalizationBackwardEx(handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &one,
                                                 &zero, &one, &zero, x_desc, x, x_desc, out, x_desc, from, NULL, NULL, x_desc, gradient,
                                                 of, scale, bias, d_scale, d_bias, 1e-5, mean, inverse, relu, room, back, reserve, kept));
    } else {
        SERVED(cudnnBatchNormalizationBackwardEx, (handle, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &one,
                                                   &zero, &one, &zero, x_desc, x, x_desc, out, x_desc, from, NULL, NULL, x_desc,
                                                   gradient, of, scale, bias, d_scale, d_bias, 1e-5, mean, inverse, relu, room, back,
                                                   reserve, kept));
        show("gradient", gradient, SIZE);
        show("scales", d_scale, C);
    }
    guarded_free(room, back);
    guarded_free(reserve, kept);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(of));
}

static void loss(void) {
    enum { T = 5, A = 4 };
    int dims[3] = {T, 1, A}, strides[3] = {A, A, 1}, labels[2] = {1, 2}, label_lengths[1] = {2}, lengths[1] = {T};
    float probabilities[T * A], gradients[T * A], costs[1];
    cudnnTensorDescriptor_t desc;
    cudnnCTCLossDescriptor_t ctc;
    size_t size = 0;
    void *room;
    fill(probabilities, T * A, 5);
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, 3, dims, strides));
    OK(cudnnCreateCTCLossDescriptor(&ctc));
    OK(cudnnSetCTCLossDescriptorEx(ctc, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_NOT_PROPAGATE_NAN));
    SERVED(cudnnGetCTCLossWorkspaceSize, (handle, desc, desc, labels, label_lengths, lengths, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, ctc,
                                          &size));
    room = guarded_alloc(size);
    SERVED(cudnnCTCLoss, (handle, desc, probabilities, labels, label_lengths, lengths, costs, desc, gradients,
                          CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, ctc, room, size));
    guarded_free(room, size);
    show("costs", costs, 1);
    show("slopes", gradients, T * A);
    OK(cudnnDestroyCTCLossDescriptor(ctc));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* What normalises by running statistics, run twice. */
static void fused(void) {
    cudnnTensorDescriptor_t of = tensor(1, C, 1, 1);
    cudnnFusedOpsConstParamPack_t constants;
    cudnnFusedOpsVariantParamPack_t variants;
    cudnnFusedOpsPlan_t plan;
    const int mode = CUDNN_BATCHNORM_SPATIAL, there = CUDNN_PTR_ELEM_ALIGNED;
    const cudnnFusedOpsConstParamLabel_t placeholders[] = {
        CUDNN_PARAM_BN_SCALE_PLACEHOLDER,       CUDNN_PARAM_BN_BIAS_PLACEHOLDER,   CUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER,
        CUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER};
    float scale[C] = {1, 2, -1, 0.5f}, bias[C] = {0, 1, 0.5f, -1}, mean[C] = {1, 2, 3, 4}, variance[C] = {1, 4, 9, 16};
    static float result[2 * C] __attribute__((aligned(64)));
    double epsilon = 1e-3;
    size_t size = 0;
    void *room;
    int i;
    OK(cudnnCreateFusedOpsConstParamPack(&constants, CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_MODE, &mode));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, of));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_EQSCALEBIAS_DESC, of));
    for (i = 0; i < 6; ++i) OK(cudnnSetFusedOpsConstParamPackAttribute(constants, placeholders[i], &there));
    OK(cudnnCreateFusedOpsPlan(&plan, CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE));
    SERVED(cudnnMakeFusedOpsPlan, (handle, plan, constants, &size));
    room = guarded_alloc(size);
    OK(cudnnCreateFusedOpsVariantParamPack(&variants, CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_BN_SCALE, scale));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_BN_BIAS, bias));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_BN_RUNNING_MEAN, mean));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_BN_RUNNING_VAR, variance));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_BN_EQSCALE, result));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_BN_EQBIAS, result + C));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_WORKSPACE, room));
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &size));
    OK(cudnnFusedOpsExecute(handle, plan, variants));
    /* A parameter that changes gives the original another pack. */
    memset(result, 0xff, sizeof result);
    epsilon = 0.5;
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon));
    SERVED(cudnnFusedOpsExecute, (handle, plan, variants));
    CHECK(result[0] > 0.8164f && result[0] < 0.8166f);
    show("fused", result, 2 * C);
    /* A plan of one operation and a pack of another. */
    OK(cudnnDestroyFusedOpsVariantParamPack(variants));
    OK(cudnnCreateFusedOpsVariantParamPack(&variants, CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING));
    BAD(cudnnFusedOpsExecute(handle, plan, variants));
    OK(cudnnDestroyFusedOpsVariantParamPack(variants));
    OK(cudnnDestroyFusedOpsPlan(plan));
    OK(cudnnDestroyFusedOpsConstParamPack(constants));
    OK(cudnnDestroyTensorDescriptor(of));
    guarded_free(room, size);
}

int main(void) {
    OK(cudnnShimRecordPlans(1));
    OK(cudnnCreate(&handle));
    x_desc = tensor(N, C, H, W), y_desc = tensor(N, K, H, W);
    convolutions();
    reduction();
    normalisation();
    loss();
    fused();
    OK(cudnnDestroyTensorDescriptor(x_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
