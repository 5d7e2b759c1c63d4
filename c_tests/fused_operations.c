/* The fused operations that finish statistics, and those that add: each against its formula, with exactly the workspace that is
 * told; what is left out by its placeholder; and what is refused. Numbers are small enough for the sums to be exact. */
#include <math.h>

#include "check.h"

enum { N = 2, C = 3, H = 4, W = 5, K = 4, R = 3, PLANE = H * W };

static cudnnHandle_t handle;

struct parameter {
    int label;
    const void *value;
};

/* The placeholder of a pointer that is there. */
static const int there = CUDNN_PTR_ELEM_ALIGNED;

static cudnnFusedOpsConstParamPack_t constants(cudnnFusedOps_t ops, const struct parameter *of, int count) {
    cudnnFusedOpsConstParamPack_t pack;
    int i;
    OK(cudnnCreateFusedOpsConstParamPack(&pack, ops));
    for (i = 0; i < count; i++)
        OK(cudnnSetFusedOpsConstParamPackAttribute(pack, (cudnnFusedOpsConstParamLabel_t)of[i].label, of[i].value));
    return pack;
}

/* Makes a plan, and runs it if it can be made. */
static cudnnStatus_t run(cudnnFusedOps_t ops, const struct parameter *fixed, int fixed_count,
                         const struct parameter *varying, int varying_count) {
    cudnnFusedOpsConstParamPack_t pack = constants(ops, fixed, fixed_count);
    cudnnFusedOpsVariantParamPack_t variants;
    cudnnFusedOpsPlan_t plan;
    cudnnStatus_t status;
    size_t size = 0;
    int i;
    OK(cudnnCreateFusedOpsPlan(&plan, ops));
    status = cudnnMakeFusedOpsPlan(handle, plan, pack, &size);
    if (status == CUDNN_STATUS_SUCCESS) {
        void *memory = guarded_alloc(size), *none = NULL;
        CHECK(size > 0);
        memset(memory, 0xff, size);
        OK(cudnnCreateFusedOpsVariantParamPack(&variants, ops));
        for (i = 0; i < varying_count; i++)
            OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, (cudnnFusedOpsVariantParamLabel_t)varying[i].label,
                                                         (void *)varying[i].value));
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_PTR_WORKSPACE, memory));
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &size));
        /* Without one of its pointers it writes nothing, which the caller checks. */
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, (cudnnFusedOpsVariantParamLabel_t)varying[0].label,
                                                     none));
        BAD(cudnnFusedOpsExecute(handle, plan, variants));
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, (cudnnFusedOpsVariantParamLabel_t)varying[0].label,
                                                     (void *)varying[0].value));
        status = cudnnFusedOpsExecute(handle, plan, variants);
        OK(cudnnDestroyFusedOpsVariantParamPack(variants));
        guarded_free(memory, size);
    }
    OK(cudnnDestroyFusedOpsPlan(plan));
    OK(cudnnDestroyFusedOpsConstParamPack(pack));
    return status;
}

#define RUN(ops, fixed, varying) \
    run(ops, fixed, (int)(sizeof(fixed) / sizeof *(fixed)), varying, (int)(sizeof(varying) / sizeof *(varying)))

static int near(double got, double want) { return fabs(got - want) <= 4e-7 * (fabs(want) + 1e-3); }

static cudnnTensorDescriptor_t tensor(int n, int c, int h, int w) {
    cudnnTensorDescriptor_t made;
    OK(cudnnCreateTensorDescriptor(&made));
    OK(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
    return made;
}

/* Statistics of a batch, of which running ones take a quarter; and what normalises by them. */
static void statistics(void) {
    cudnnTensorDescriptor_t vector = tensor(1, C, 1, 1), wrong = tensor(1, C + 1, 1, 1);
    const int mode = CUDNN_BATCHNORM_SPATIAL, per_activation = CUDNN_BATCHNORM_PER_ACTIVATION;
    const float values[C][4] = {{1, 2, 3, 6}, {-4, -4, -4, -4}, {0.5f, -0.5f, 8, 0}};
    float sums[C], squares[C], scale[C] = {2, 3, -1}, bias[C] = {0.5f, 1, 4}, mean[C] = {10, 20, 30},
                               var[C] = {1, 2, 3};
    float saved[C], inverse[C], eq_scale[C], eq_bias[C];
    const float old_mean[C] = {10, 20, 30}, old_var[C] = {1, 2, 3};
    int64_t count = 4, none = 0;
    double factor = 0.25, epsilon = 1e-3, negative = -1e-3, zero = 0;
    int c, i;
    const struct parameter fixed[] = {{CUDNN_PARAM_BN_MODE, &mode},
                                      {CUDNN_PARAM_YSTATS_DESC, vector},
                                      {CUDNN_PARAM_YSUM_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_YSQSUM_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, vector},
                                      {CUDNN_PARAM_BN_SCALE_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_BIAS_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector},
                                      {CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, &there},
                                      {CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, &there}};
    struct parameter varying[] = {{CUDNN_PTR_BN_EQBIAS, eq_bias},
                                  {CUDNN_PTR_YSUM, sums},
                                  {CUDNN_PTR_YSQSUM, squares},
                                  {CUDNN_PTR_BN_SCALE, scale},
                                  {CUDNN_PTR_BN_BIAS, bias},
                                  {CUDNN_PTR_BN_SAVED_MEAN, saved},
                                  {CUDNN_PTR_BN_SAVED_INVSTD, inverse},
                                  {CUDNN_PTR_BN_RUNNING_MEAN, mean},
                                  {CUDNN_PTR_BN_RUNNING_VAR, var},
                                  {CUDNN_PTR_BN_EQSCALE, eq_scale},
                                  {CUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR, &factor},
                                  {CUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon},
                                  {CUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT, &none}};
    struct parameter other[14];
    memset(eq_scale, 0xff, sizeof eq_scale);
    for (c = 0; c < C; c++)
        for (sums[c] = squares[c] = 0, i = 0; i < 4; i++)
            sums[c] += values[c][i], squares[c] += values[c][i] * values[c][i];
    /* A count or an epsilon that makes no sense, and nothing is written. */
    BAD(RUN(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, fixed, varying));
    varying[12].value = &count;
    varying[11].value = &negative;
    BAD(RUN(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, fixed, varying));
    varying[11].value = &epsilon;
    CHECK(memcmp(mean, old_mean, sizeof mean) == 0 && eq_scale[0] != eq_scale[0]);
    OK(RUN(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, fixed, varying));
    for (c = 0; c < C; c++) {
        double m = sums[c] / 4.0, v = 0, unit;
        for (i = 0; i < 4; i++) v += (values[c][i] - m) * (values[c][i] - m) / 4;
        unit = 1 / sqrt(v + epsilon);
        CHECK(saved[c] == (float)m && near(inverse[c], unit));
        CHECK(near(eq_scale[c], scale[c] * unit) && near(eq_bias[c], bias[c] - m * scale[c] * unit));
        CHECK(near(mean[c], 0.75 * old_mean[c] + 0.25 * m));
        CHECK(near(var[c], 0.75 * old_var[c] + 0.25 * v * 4 / 3));
    }
    /* An epsilon of 0, and two results in one place, which are refused. */
    varying[11].value = &zero;
    OK(RUN(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, fixed, varying));
    CHECK(near(inverse[0], 1 / sqrt(3.5)) && isinf(inverse[1]));
    varying[11].value = &epsilon;
    varying[8].value = mean;
    BAD(RUN(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, fixed, varying));
    varying[8].value = var;
    /* Operation 3 makes the same of running statistics. */
    {
        const struct parameter known[] = {{CUDNN_PTR_BN_EQBIAS, eq_bias},
                                          {CUDNN_PTR_BN_SCALE, scale},
                                          {CUDNN_PTR_BN_BIAS, bias},
                                          {CUDNN_PTR_BN_RUNNING_MEAN, mean},
                                          {CUDNN_PTR_BN_RUNNING_VAR, var},
                                          {CUDNN_PTR_BN_EQSCALE, eq_scale},
                                          {CUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon}};
        const struct parameter of_known[] = {{CUDNN_PARAM_BN_MODE, &mode},
                                             {CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, vector},
                                             {CUDNN_PARAM_BN_SCALE_PLACEHOLDER, &there},
                                             {CUDNN_PARAM_BN_BIAS_PLACEHOLDER, &there},
                                             {CUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, &there},
                                             {CUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, &there},
                                             {CUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector},
                                             {CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, &there},
                                             {CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, &there}};
        OK(RUN(CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE, of_known, known));
        for (c = 0; c < C; c++) {
            double unit = 1 / sqrt(var[c] + epsilon);
            CHECK(near(eq_scale[c], scale[c] * unit) && near(eq_bias[c], bias[c] - mean[c] * scale[c] * unit));
        }
        /* Both results in one place. */
        memcpy(other, known, sizeof known);
        other[0].value = eq_scale;
        BAD(run(CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE, of_known, 9, other, 7));
        /* Without the running variance there is nothing to normalise by. */
        memcpy(other, of_known, sizeof of_known);
        other[5].value = NULL;
        BAD(run(CUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE, other, 9, known, 7));
    }
    /* Another number of channels, and a mode that has other groups. */
    memcpy(other, fixed, sizeof fixed);
    other[11].value = wrong;
    BAD(run(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, other, 14, varying, 13));
    memcpy(other, fixed, sizeof fixed);
    other[0].value = &per_activation;
    BAD(run(CUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING, other, 14, varying, 13));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(wrong));
}

static void whole(float *array, int count, int step) {
    int i;
    for (i = 0; i < count; i++) array[i] = (float)(i * step % 7 - 3);
}

/* y = relu(conv(x, w) * eqScale + z * zEqScale + zEqBias), and parts of it. */
static void convolved(void) {
    static float x[N * C * PLANE], w[K * C * R * R], y[N * K * PLANE], z[N * K * PLANE];
    float scale[K] = {1, 2, 0.5f, -1}, z_scale[K] = {1, -1, 0.5f, 2}, bias[K] = {0.5f, -3, 4, 1};
    cudnnTensorDescriptor_t x_desc = tensor(N, C, H, W), y_desc = tensor(N, K, H, W), vector = tensor(1, K, 1, 1);
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t relu;
    int with_z, n, k, c, p, q, r, s, wrong = 0;
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, R, R));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    whole(x, N * C * PLANE, 5);
    whole(w, K * C * R * R, 3);
    whole(z, N * K * PLANE, 4);
    for (with_z = 0; with_z < 2; with_z++) {
        const struct parameter fixed[] = {{CUDNN_PARAM_XDESC, x_desc},
                                          {CUDNN_PARAM_XDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_CONV_DESC, conv},
                                          {CUDNN_PARAM_WDESC, w_desc},
                                          {CUDNN_PARAM_WDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_YDESC, y_desc},
                                          {CUDNN_PARAM_YDATA_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_ACTIVATION_DESC, relu},
                                          {CUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector},
                                          {CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_ZDESC, y_desc},
                                          {CUDNN_PARAM_ZDATA_PLACEHOLDER, with_z ? &there : NULL},
                                          {CUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, vector},
                                          {CUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER, &there},
                                          {CUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER, &there}};
        const struct parameter varying[] = {{CUDNN_PTR_BN_Z_EQBIAS, bias},
                                            {CUDNN_PTR_XDATA, x},
                                            {CUDNN_PTR_WDATA, w},
                                            {CUDNN_PTR_YDATA, y},
                                            {CUDNN_PTR_BN_EQSCALE, scale},
                                            {CUDNN_PTR_ZDATA, with_z ? z : NULL},
                                            {CUDNN_PTR_BN_Z_EQSCALE, z_scale}};
        memset(y, 0xff, sizeof y);
        OK(RUN(CUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION, fixed, varying));
        for (n = 0; n < N; n++)
            for (k = 0; k < K; k++)
                for (p = 0; p < H; p++)
                    for (q = 0; q < W; q++) {
                        int at = ((n * K + k) * H + p) * W + q;
                        float sum = 0;
                        for (c = 0; c < C; c++)
                            for (r = 0; r < R; r++)
                                for (s = 0; s < R; s++) {
                                    int row = p - 1 + r, column = q - 1 + s;
                                    if (row < 0 || row >= H || column < 0 || column >= W) continue;
                                    sum += x[((n * C + c) * H + row) * W + column] * w[((k * C + c) * R + r) * R + s];
                                }
                        sum = sum * scale[k] + (with_z ? z[at] * z_scale[k] : 0) + bias[k];
                        wrong += y[at] != (sum > 0 ? sum : 0);
                    }
        CHECK(wrong == 0);
    }
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
}

/* y = relu(x * eqScale + eqBias + z * zEqScale + zEqBias). */
static void added(void) {
    static float x[N * C * PLANE], y[N * C * PLANE], z[N * C * PLANE];
    float scale[C] = {1, 2, -0.5f}, shift[C] = {3, 0, -1}, z_scale[C] = {-1, 0.25f, 2}, z_shift[C] = {1, 2, 3};
    cudnnTensorDescriptor_t desc = tensor(N, C, H, W), vector = tensor(1, C, 1, 1);
    cudnnActivationDescriptor_t relu;
    const int mode = CUDNN_BATCHNORM_SPATIAL;
    int i, wrong = 0;
    struct parameter fixed[] = {{CUDNN_PARAM_XDESC, desc},
                                {CUDNN_PARAM_XDATA_PLACEHOLDER, &there},
                                {CUDNN_PARAM_BN_MODE, &mode},
                                {CUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector},
                                {CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, &there},
                                {CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, &there},
                                {CUDNN_PARAM_YDESC, desc},
                                {CUDNN_PARAM_YDATA_PLACEHOLDER, &there},
                                {CUDNN_PARAM_ZDESC, desc},
                                {CUDNN_PARAM_ZDATA_PLACEHOLDER, &there},
                                {CUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, vector},
                                {CUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER, &there},
                                {CUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER, &there},
                                {CUDNN_PARAM_ACTIVATION_DESC, NULL}};
    const struct parameter varying[] = {{CUDNN_PTR_BN_EQBIAS, shift},
                                        {CUDNN_PTR_XDATA, x},
                                        {CUDNN_PTR_BN_EQSCALE, scale},
                                        {CUDNN_PTR_YDATA, y},
                                        {CUDNN_PTR_ZDATA, z},
                                        {CUDNN_PTR_BN_Z_EQSCALE, z_scale},
                                        {CUDNN_PTR_BN_Z_EQBIAS, z_shift}};
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    fixed[13].value = relu;
    whole(x, N * C * PLANE, 5);
    whole(z, N * C * PLANE, 4);
    memset(y, 0xff, sizeof y);
    OK(RUN(CUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK, fixed, varying));
    for (i = 0; i < N * C * PLANE; i++) {
        int c = i / PLANE % C;
        float sum = x[i] * scale[c] + shift[c] + z[i] * z_scale[c] + z_shift[c];
        wrong += y[i] != (sum > 0 ? sum : 0);
    }
    CHECK(wrong == 0);
    memset(y, 0x77, sizeof y);
    fixed[8].value = vector;
    BAD(RUN(CUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK, fixed, varying));
    for (i = 0; i < (int)sizeof y; i++) CHECK(((unsigned char *)y)[i] == 0x77);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* The bit mask of an activation, as the one client that is known describes it, and the gradient that reads it: rows of 70 channels, in
 * both layouts; where dz goes is the caller's choice, and who takes no gradient of the scale gets none. */
enum { WIDE = 70, ROWS = N * PLANE, WORDS = 4, ALL_ROWS = 64 };

static void masked(cudnnTensorFormat_t format) {
    static float x[ROWS * WIDE], y[ROWS * WIDE], dy[ROWS * WIDE], dz[ROWS * WIDE], dx[ROWS * WIDE], g[ROWS * WIDE],
        want[ROWS * WIDE];
    static float scale[WIDE], shift[WIDE], mean[WIDE], inverse[WIDE], dscale[WIDE], dbias[WIDE], dscale_want[WIDE],
        dbias_want[WIDE];
    static uint32_t mask[ALL_ROWS * WORDS];
    const int mode = CUDNN_BATCHNORM_SPATIAL, mask_dims[] = {ALL_ROWS, WORDS, 1}, mask_strides[] = {WORDS, 1, 1};
    const float one = 1, zero = 0;
    const int per_row = format == CUDNN_TENSOR_NHWC;
    cudnnTensorDescriptor_t desc, vector = tensor(1, WIDE, 1, 1), bits, few = tensor(1, 1, 1, 1);
    cudnnActivationDescriptor_t relu, tanh_desc;
    int i, c, row, wrong = 0, with_dz;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, format, CUDNN_DATA_FLOAT, N, WIDE, H, W));
    OK(cudnnCreateTensorDescriptor(&bits));
    OK(cudnnSetTensorNdDescriptor(bits, CUDNN_DATA_INT32, 3, mask_dims, mask_strides));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    OK(cudnnCreateActivationDescriptor(&tanh_desc));
    OK(cudnnSetActivationDescriptor(tanh_desc, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0));
    whole(x, ROWS * WIDE, 5);
    whole(dy, ROWS * WIDE, 4);
    for (c = 0; c < WIDE; c++) {
        scale[c] = (float)(c % 3 - 1), shift[c] = (float)(c % 4 - 1);
        mean[c] = 0.25f * (float)(c % 5), inverse[c] = 0.5f + (float)(c % 2);
    }
    x[7] = NAN;
    memset(mask, 0xff, sizeof mask);
    {
        struct parameter fixed[] = {{CUDNN_PARAM_XDESC, desc},
                                    {CUDNN_PARAM_XDATA_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_MODE, &mode},
                                    {CUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector},
                                    {CUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_YDESC, desc},
                                    {CUDNN_PARAM_YDATA_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_ACTIVATION_DESC, relu},
                                    {CUDNN_PARAM_ACTIVATION_BITMASK_DESC, bits},
                                    {CUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, &there}};
        const struct parameter varying[] = {{CUDNN_PTR_ACTIVATION_BITMASK, mask},
                                            {CUDNN_PTR_XDATA, x},
                                            {CUDNN_PTR_BN_EQSCALE, scale},
                                            {CUDNN_PTR_BN_EQBIAS, shift},
                                            {CUDNN_PTR_YDATA, y}};
        OK(RUN(CUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK, fixed, varying));
        fixed[9].value = few;
        BAD(RUN(CUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK, fixed, varying));
        fixed[9].value = bits;
        fixed[8].value = tanh_desc;
        EXPECT(CUDNN_STATUS_NOT_SUPPORTED, RUN(CUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK, fixed, varying));
    }
    for (row = 0; row < ALL_ROWS; row++)
        for (c = 0; c < 32 * WORDS; c++) {
            unsigned bit = mask[row * WORDS + c / 32] >> c % 32 & 1, wanted = 0;
            if (row < ROWS && c < WIDE) {
                int at = per_row ? row * WIDE + c : (row / PLANE * WIDE + c) * PLANE + row % PLANE;
                wanted = y[at] > 0;
                g[at] = wanted ? dy[at] : 0;
            }
            wrong += bit != wanted;
        }
    CHECK(wrong == 0);
    x[7] = 1;
    OK(cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, desc, x, desc, g,
                                       desc, want, vector, scale, dscale_want, dbias_want, 1e-5, mean, inverse));
    for (with_dz = 0; with_dz < 2; with_dz++) {
        struct parameter fixed[] = {{CUDNN_PARAM_XDESC, desc},
                                    {CUDNN_PARAM_XDATA_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_MODE, &mode},
                                    {CUDNN_PARAM_ACTIVATION_DESC, relu},
                                    {CUDNN_PARAM_DYDESC, desc},
                                    {CUDNN_PARAM_DYDATA_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, vector},
                                    {CUDNN_PARAM_BN_SCALE_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_BIAS_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_ACTIVATION_BITMASK_DESC, bits},
                                    {CUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_DXDESC, desc},
                                    {CUDNN_PARAM_DXDATA_PLACEHOLDER, &there},
                                    {CUDNN_PARAM_DZDESC, with_dz ? desc : NULL},
                                    {CUDNN_PARAM_DZDATA_PLACEHOLDER, with_dz ? &there : NULL},
                                    {CUDNN_PARAM_BN_DSCALE_PLACEHOLDER, with_dz ? &there : NULL},
                                    {CUDNN_PARAM_BN_DBIAS_PLACEHOLDER, &there}};
        const struct parameter varying[] = {{CUDNN_PTR_ACTIVATION_BITMASK, mask},
                                            {CUDNN_PTR_XDATA, x},
                                            {CUDNN_PTR_DYDATA, dy},
                                            {CUDNN_PTR_BN_SCALE, scale},
                                            {CUDNN_PTR_BN_BIAS, shift},
                                            {CUDNN_PTR_BN_SAVED_MEAN, mean},
                                            {CUDNN_PTR_BN_SAVED_INVSTD, inverse},
                                            {CUDNN_PTR_DXDATA, dx},
                                            {CUDNN_PTR_DZDATA, with_dz ? dz : NULL},
                                            {CUDNN_PTR_BN_DSCALE, with_dz ? dscale : NULL},
                                            {CUDNN_PTR_BN_DBIAS, dbias}};
        memset(dx, 0xff, sizeof dx);
        memset(dz, 0xff, sizeof dz);
        memset(dscale, 0xff, sizeof dscale);
        OK(RUN(CUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM, fixed, varying));
        CHECK(memcmp(dbias, dbias_want, sizeof dbias) == 0);
        CHECK(!with_dz || memcmp(dscale, dscale_want, sizeof dscale) == 0);
        for (i = wrong = 0; i < ROWS * WIDE; i++) wrong += dx[i] != want[i] || (with_dz && dz[i] != g[i]);
        CHECK(wrong == 0);
        fixed[9].value = NULL;
        BAD(RUN(CUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM, fixed, varying));
    }
    OK(cudnnDestroyActivationDescriptor(tanh_desc));
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(few));
    OK(cudnnDestroyTensorDescriptor(bits));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(desc));
}

int main(void) {
    OK(cudnnCreate(&handle));
    statistics();
    convolved();
    added();
    masked(CUDNN_TENSOR_NCHW);
    masked(CUDNN_TENSOR_NHWC);
    OK(cudnnDestroy(handle));
    return check_result("fused_operations");
}
