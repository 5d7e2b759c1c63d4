/* Convolutions as programs call them: the query for algorithms, exactly the workspace that it tells, every algorithm number,
 * measuring without touching the output, bad input, a folded gradient, and a fused plan. */
#include "check.h"

#ifndef ON_DEVICE_H
/* The core works on the host's memory as it is. */
struct on_device {
    char *data;
};
static struct on_device on_device_copy(void *host, size_t size) {
    struct on_device same = {host};
    (void)size;
    return same;
}
static void on_device_back(struct on_device same, void *host) { CHECK(same.data == host); }
#endif

enum { N = 2, C = 3, H = 7, W = 6, K = 4, R = 3, OUT_H = 4, OUT_W = 3, GUARD = 64 };
enum { INPUTS = N * C * H * W, WEIGHTS = K * C * R * R, OUTPUTS = N * K * OUT_H * OUT_W };

static float x[INPUTS], w[WEIGHTS], expected[OUTPUTS];

static float whole(int i) { return (float)(i * 5 % 7 - 3); }

/* Stride 2, padding 1, cross-correlation: the sum as it is written down. */
static void reference(void) {
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++)
            for (int p = 0; p < OUT_H; p++)
                for (int q = 0; q < OUT_W; q++) {
                    float sum = 0;
                    for (int c = 0; c < C; c++)
                        for (int r = 0; r < R; r++)
                            for (int s = 0; s < R; s++) {
                                int row = 2 * p - 1 + r, column = 2 * q - 1 + s;
                                if (row >= 0 && row < H && column >= 0 && column < W)
                                    sum += x[((n * C + c) * H + row) * W + column] * w[((k * C + c) * R + r) * R + s];
                            }
                    expected[((n * K + k) * OUT_H + p) * OUT_W + q] = sum;
                }
}

/* Memory of which the first `size` bytes are NaN and the rest is watched. */
static unsigned char *workspace(size_t size) {
    unsigned char *memory = malloc(size + GUARD);
    if (memory == NULL) exit(2);
    memset(memory, 0xff, size);
    memset(memory + size, 0x5a, GUARD);
    return memory;
}

static void release(unsigned char *memory, size_t size) {
    for (size_t i = 0; i < GUARD; i++) CHECK(memory[size + i] == 0x5a);
    free(memory);
}

int main(void) {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    float one = 1, zero = 0, y[OUTPUTS];
    int dims[4], count = -1, most = 0;

    for (int i = 0; i < INPUTS; i++) x[i] = whole(i);
    for (int i = 0; i < WEIGHTS; i++) w[i] = whole(3 * i + 1);
    reference();
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&x_desc));
    OK(cudnnCreateTensorDescriptor(&y_desc));
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, R, R));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 2, 2, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    OK(cudnnGetConvolution2dForwardOutputDim(conv, x_desc, w_desc, &dims[0], &dims[1], &dims[2], &dims[3]));
    CHECK(dims[0] == N && dims[1] == K && dims[2] == OUT_H && dims[3] == OUT_W);
    OK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, K, OUT_H, OUT_W));

    /* The walk that programs do: the first record that serves, with its workspace. */
    OK(cudnnGetConvolutionForwardAlgorithmMaxCount(handle, &most));
    cudnnConvolutionFwdAlgoPerf_t records[16];
    CHECK(most <= 16);
    OK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_desc, w_desc, conv, y_desc, most, &count, records));
    CHECK(count > 0 && records[0].status == CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < count; i++) {
        size_t size = 0;
        if (records[i].status != CUDNN_STATUS_SUCCESS) continue;
        OK(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv, y_desc, records[i].algo, &size));
        CHECK((size > 0) == (records[i].algo != 0) && size == records[i].memory);
        OK(cudnnSetConvolutionMathType(conv, records[i].mathType));
        unsigned char *memory = workspace(size);
        memset(y, 0xff, sizeof y);
        OK(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, records[i].algo, memory, size, &zero,
                                   y_desc, y));
        CHECK(memcmp(y, expected, sizeof y) == 0);
        release(memory, size);
    }

    /* Measuring leaves y as it is, and gives times: one for all numbers here, as none of them does anything else. */
    memset(y, 0x77, sizeof y);
    OK(cudnnFindConvolutionForwardAlgorithmEx(handle, x_desc, x, w_desc, w, conv, y_desc, y, most, &count, records,
                                              NULL, 0));
    CHECK(count > 0 && records[0].status == CUDNN_STATUS_SUCCESS && records[0].time >= 0);
    for (int i = 1; i < count && records[i].status == CUDNN_STATUS_SUCCESS; i++)
        CHECK(records[0].time == records[i].time);
    for (size_t i = 0; i < sizeof y; i++) CHECK(((unsigned char *)y)[i] == 0x77);
    OK(cudnnFindConvolutionForwardAlgorithm(handle, x_desc, w_desc, conv, y_desc, 1, &count, records));
    CHECK(count == 1);

    /* Bad input: nothing is written, and the text names the extent that would be right. */
    char text[512];
    cudnnTensorDescriptor_t wrong;
    OK(cudnnCreateTensorDescriptor(&wrong));
    OK(cudnnSetTensor4dDescriptor(wrong, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, K, OUT_H + 1, OUT_W));
    CHECK(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, 0, NULL, 0, &zero, wrong, y) ==
          CUDNN_STATUS_BAD_PARAM);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "make 4") != NULL);
    CHECK(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, NULL, 0,
                                  &zero, y_desc, y) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, NULL, conv, 0, NULL, 0, &zero, y_desc, y) ==
          CUDNN_STATUS_BAD_PARAM);
    for (size_t i = 0; i < sizeof y; i++) CHECK(((unsigned char *)y)[i] == 0x77);

    /* A fused plan: y, and its sums and sums of squares per channel, without scale, bias and activation. */
    cudnnFusedOpsConstParamPack_t constants;
    cudnnFusedOpsVariantParamPack_t variants;
    cudnnFusedOpsPlan_t plan;
    cudnnTensorDescriptor_t vector;
    int there = CUDNN_PTR_16B_ALIGNED, mode = CUDNN_BATCHNORM_SPATIAL;
    float sums[K], squares[K];
    size_t size = 0;
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, K, 1, 1));
    OK(cudnnCreateFusedOpsConstParamPack(&constants, CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_XDESC, x_desc));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_WDESC, w_desc));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_YDESC, y_desc));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_CONV_DESC, conv));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_BN_MODE, &mode));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_YSTATS_DESC, vector));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_YSUM_PLACEHOLDER, &there));
    OK(cudnnSetFusedOpsConstParamPackAttribute(constants, CUDNN_PARAM_YSQSUM_PLACEHOLDER, &there));
    OK(cudnnCreateFusedOpsPlan(&plan, CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS));
    OK(cudnnMakeFusedOpsPlan(handle, plan, constants, &size));
    CHECK(size > 0);
    unsigned char *memory = workspace(size);
    OK(cudnnCreateFusedOpsVariantParamPack(&variants, CUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS));
    const cudnnFusedOpsVariantParamLabel_t labels[] = {CUDNN_PTR_XDATA, CUDNN_PTR_WDATA,  CUDNN_PTR_YDATA,
                                                       CUDNN_PTR_YSUM,  CUDNN_PTR_YSQSUM, CUDNN_PTR_WORKSPACE};
    void *const places[] = {x, w, y, sums, squares, memory};
    const size_t sizes[] = {sizeof x, sizeof w, sizeof y, sizeof sums, sizeof squares, size};
    struct on_device moved[6];
    for (int i = 0; i < 6; i++) {
        moved[i] = on_device_copy(places[i], sizes[i]);
        OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, labels[i], moved[i].data));
    }
    OK(cudnnSetFusedOpsVariantParamPackAttribute(variants, CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &size));
    OK(cudnnFusedOpsExecute(handle, plan, variants));
    for (int i = 0; i < 6; i++) on_device_back(moved[i], places[i]);
    CHECK(memcmp(y, expected, sizeof y) == 0);
    for (int k = 0; k < K; k++) {
        double sum = 0, square = 0;
        for (int n = 0; n < N; n++)
            for (int i = 0; i < OUT_H * OUT_W; i++) {
                double value = expected[(n * K + k) * OUT_H * OUT_W + i];
                sum += value;
                square += value * value;
            }
        CHECK(sums[k] == sum && squares[k] == square);
    }
    release(memory, size);

    OK(cudnnDestroyFusedOpsVariantParamPack(variants));
    OK(cudnnDestroyFusedOpsPlan(plan));
    OK(cudnnDestroyFusedOpsConstParamPack(constants));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(wrong));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
    OK(cudnnDestroy(handle));
    return check_result("convolution");
}
