/* Memory that runs out inside calls of normalisation, dropout and spatial transformers, forward and backward, and in a fused operation
 * that copies an operand in its second part: they say so, and have written nothing, states and reserve spaces included.
 *
 * Not under valgrind, which has an allocator of its own. */
#define _DEFAULT_SOURCE
#include "check.h"
#include "failing_memory.h"

#ifdef IS_FAILING
#include "exhausted.h"

/* Groups of so many elements that their sums are cut. */
enum { N = 4, C = 64, SIDE = 28, PLANE = SIDE * SIDE, CELLS = N * C * PLANE };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t desc, vector;
static cudnnActivationDescriptor_t relu;
static float *x, *y, *dy, *dx, *scale, *mean, *variance, *saved_mean, *saved_inverse, *dscale, *dbias;
static void *work, *reserve;
static size_t work_size, reserve_size;
static const float one = 1, zero = 0;

static cudnnStatus_t trained(void) {
    return cudnnBatchNormalizationForwardTrainingEx(
        handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &one, &zero, desc, x, NULL, NULL, desc, y, vector, scale,
        scale, 0.25, mean, variance, 1e-3, saved_mean, saved_inverse, relu, work, work_size, reserve, reserve_size);
}

static cudnnStatus_t inferred(void) {
    return cudnnBatchNormalizationForwardInference(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, desc, x, desc, y, vector, scale, scale,
                                                   mean, variance, 1e-3);
}

static cudnnStatus_t back(void) {
    return cudnnBatchNormalizationBackwardEx(
        handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, &one, &zero, &one, &zero, desc, x, desc, y, desc, dy, NULL,
        NULL, desc, dx, vector, scale, scale, dscale, dbias, 1e-3, saved_mean, saved_inverse, relu, work, work_size, reserve,
        reserve_size);
}

static float *channels(void) { return (float *)output(C * sizeof(float)); }

static void normalised(cudnnTensorFormat_t format) {
    int i;
    OK(cudnnSetTensor4dDescriptor(desc, format, CUDNN_DATA_FLOAT, N, C, SIDE, SIDE));
    OK(cudnnDeriveBNTensorDescriptor(vector, desc, CUDNN_BATCHNORM_SPATIAL));
    OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ACTIVATION,
                                                                desc, NULL, desc, vector, relu, &work_size));
    OK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN_ACTIVATION, relu,
                                                            desc, &reserve_size));
    x = numbers(CELLS), dy = numbers(CELLS), scale = numbers(C), work = checked(malloc(work_size));
    reserve = output(reserve_size), y = (float *)output(CELLS * sizeof *y), dx = (float *)output(CELLS * sizeof *dx);
    mean = channels(), variance = channels(), saved_mean = channels(), saved_inverse = channels();
    dscale = channels(), dbias = channels();
    for (i = 0; i < C; i++) variance[i] = 1;
    exhausted("cudnnBatchNormalizationForwardTrainingEx", trained);
    exhausted("cudnnBatchNormalizationForwardInference", inferred);
    exhausted("cudnnBatchNormalizationBackwardEx", back);
    clear();
    free(x), free(dy), free(scale), free(work);
}

static cudnnDropoutDescriptor_t dropout;

static cudnnStatus_t dropped(void) { return cudnnDropoutForward(handle, dropout, desc, x, desc, y, reserve, reserve_size); }

static cudnnStatus_t dropped_back(void) {
    return cudnnDropoutBackward(handle, dropout, desc, dy, desc, dx, reserve, reserve_size);
}

static void dropping(void) {
    size_t size;
    void *states;
    OK(cudnnDropoutGetStatesSize(handle, &size));
    OK(cudnnDropoutGetReserveSpaceSize(desc, &reserve_size));
    /* Which every call advances. */
    states = output(size);
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, states, size, 7));
    x = numbers(CELLS), dy = numbers(CELLS), reserve = output(reserve_size);
    y = (float *)output(CELLS * sizeof *y), dx = (float *)output(CELLS * sizeof *dx);
    exhausted("cudnnDropoutForward", dropped);
    exhausted("cudnnDropoutBackward", dropped_back);
    OK(cudnnDestroyDropoutDescriptor(dropout));
    clear();
    free(x), free(dy);
}

static cudnnSpatialTransformerDescriptor_t st;
static float *theta, *grid, *dgrid, *dtheta;

static cudnnStatus_t generated(void) { return cudnnSpatialTfGridGeneratorForward(handle, st, theta, grid); }

static cudnnStatus_t generated_back(void) { return cudnnSpatialTfGridGeneratorBackward(handle, st, dgrid, dtheta); }

static cudnnStatus_t sampled(void) { return cudnnSpatialTfSamplerForward(handle, st, &one, desc, x, grid, &zero, desc, y); }

static cudnnStatus_t sampled_back(void) {
    return cudnnSpatialTfSamplerBackward(handle, st, &one, desc, x, &zero, desc, dx, &one, desc, dy, grid, &zero, dgrid);
}

static void sampling(void) {
    const int dims[4] = {N, C, SIDE, SIDE};
    OK(cudnnCreateSpatialTransformerDescriptor(&st));
    OK(cudnnSetSpatialTransformerNdDescriptor(st, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, dims));
    x = numbers(CELLS), dy = numbers(CELLS), theta = numbers(N * 6);
    grid = (float *)output(N * PLANE * 2 * sizeof *grid), y = (float *)output(CELLS * sizeof *y);
    dx = (float *)output(CELLS * sizeof *dx), dgrid = (float *)output(N * PLANE * 2 * sizeof *dgrid);
    dtheta = (float *)output(N * 6 * sizeof *dtheta);
    exhausted("cudnnSpatialTfGridGeneratorForward", generated);
    exhausted("cudnnSpatialTfSamplerForward", sampled);
    exhausted("cudnnSpatialTfSamplerBackward", sampled_back);
    exhausted("cudnnSpatialTfGridGeneratorBackward", generated_back);
    OK(cudnnDestroySpatialTransformerDescriptor(st));
    clear();
    free(x), free(dy), free(theta);
}

/* Operation 6: its first part writes dz; its second one reads x and writes dx, which begins an element behind x, so that x is copied. */
static cudnnFusedOpsPlan_t plan;
static cudnnFusedOpsVariantParamPack_t variants;

static cudnnStatus_t executed(void) { return cudnnFusedOpsExecute(handle, plan, variants); }

struct parameter {
    int label;
    const void *value;
};

static void overlapping(void) {
    static const int there = CUDNN_PTR_ELEM_ALIGNED, mode = CUDNN_BATCHNORM_SPATIAL;
    const int mask_dims[] = {N * PLANE, C / 32, 1}, mask_strides[] = {C / 32, 1, 1};
    cudnnTensorDescriptor_t bits;
    cudnnFusedOpsConstParamPack_t constants;
    float *both, *dz, *inverse;
    unsigned *mask = (unsigned *)numbers(N * PLANE * C / 32);
    int i;
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, N, C, SIDE, SIDE));
    OK(cudnnCreateTensorDescriptor(&bits));
    OK(cudnnSetTensorNdDescriptor(bits, CUDNN_DATA_INT32, 3, mask_dims, mask_strides));
    dy = numbers(CELLS), scale = numbers(C), inverse = numbers(C);
    both = (float *)output((CELLS + 1) * sizeof *both), dz = (float *)output(CELLS * sizeof *dz);
    dscale = channels(), dbias = channels();
    for (i = 0; i <= CELLS; i++) both[i] = drawn();
    {
        const struct parameter fixed[] = {{CUDNN_PARAM_XDESC, desc},
                                          {CUDNN_PARAM_XDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_MODE, &mode},
                                          {CUDNN_PARAM_ACTIVATION_DESC, relu},
                                          {CUDNN_PARAM_DYDESC, desc},
                                          {CUDNN_PARAM_DYDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, vector},
                                          {CUDNN_PARAM_BN_SCALE_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_ACTIVATION_BITMASK_DESC, bits},
                                          {CUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_DXDESC, desc},
                                          {CUDNN_PARAM_DXDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_DZDESC, desc},
                                          {CUDNN_PARAM_DZDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_DSCALE_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_DBIAS_PLACEHOLDER, &there}};
        const struct parameter varying[] = {{CUDNN_PTR_ACTIVATION_BITMASK, mask},
                                            {CUDNN_PTR_XDATA, both},
                                            {CUDNN_PTR_DYDATA, dy},
                                            {CUDNN_PTR_BN_SCALE, scale},
                                            {CUDNN_PTR_BN_SAVED_MEAN, scale},
                                            {CUDNN_PTR_BN_SAVED_INVSTD, inverse},
                                            {CUDNN_PTR_DXDATA, both + 1},
                                            {CUDNN_PTR_DZDATA, dz},
                                            {CUDNN_PTR_BN_DSCALE, dscale},
                                            {CUDNN_PTR_BN_DBIAS, dbias}};
        const cudnnFusedOps_t operation = CUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM;
        OK(cudnnCreateFusedOpsConstParamPack(&constants, operation));
        for (i = 0; i < (int)(sizeof fixed / sizeof *fixed); i++)
            OK(cudnnSetFusedOpsConstParamPackAttribute(constants, (cudnnFusedOpsConstParamLabel_t)fixed[i].label, fixed[i].value));
        OK(cudnnCreateFusedOpsPlan(&plan, operation));
        OK(cudnnMakeFusedOpsPlan(handle, plan, constants, &work_size));
        work = checked(malloc(work_size));
        OK(cudnnCreateFusedOpsVariantParamPack(&variants, operation));
        for (i = 0; i < (int)(sizeof varying / sizeof *varying); i++)
            OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, (cudnnFusedOpsVariantParamLabel_t)varying[i].label,
                                                         (void *)varying[i].value));
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_WORKSPACE, work));
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &work_size));
    }
    exhausted("cudnnFusedOpsExecute", executed);
    OK(cudnnDestroyFusedOpsVariantParamPack(variants));
    OK(cudnnDestroyFusedOpsPlan(plan));
    OK(cudnnDestroyFusedOpsConstParamPack(constants));
    OK(cudnnDestroyTensorDescriptor(bits));
    clear();
    free(dy), free(scale), free(inverse), free(mask), free(work);
}

int main(void) {
    setenv("CUDNN_SHIM_NUM_THREADS", "2", 1);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    normalised(CUDNN_TENSOR_NCHW);
    normalised(CUDNN_TENSOR_NHWC);
    dropping();
    sampling();
    overlapping();
    /* A program that no call refuses shows nothing. */
    CHECK(refused > 10);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(handle));
    return check_result("no_memory_layers");
}
#else
int main(void) { return 0; }
#endif
