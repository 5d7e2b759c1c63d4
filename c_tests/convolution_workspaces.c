/* Workspaces in strict mode: every algorithm but 0 insists on what its query tells, refuses less with a text that names the
 * bytes given and needed, and leaves its result alone; number 0 needs none. */
#include "convolution.h"

static cudnnHandle_t handle;

/* Long sums of few results, which a GPU cuts: its query tells more than the least. */
static const struct shape shape = {
    1, 128, 6, 6, 24, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};

/* The last error speaks of so many bytes given and needed. */
static int names(size_t given, size_t needed) {
    char text[512], wanted[64];
    cudnnGetLastErrorString(text, sizeof text);
    snprintf(wanted, sizeof wanted, "workSpaceSizeInBytes = %zu: ", given);
    if (strstr(text, wanted) == NULL) return 0;
    snprintf(wanted, sizeof wanted, "needs %zu bytes", needed);
    return strstr(text, wanted) != NULL;
}

static float *whole(size_t count, int step) {
    float *array = (float *)malloc(count * sizeof *array);
    size_t i;
    if (array == NULL) exit(2);
    for (i = 0; i < count; i++) array[i] = (float)((int)(i * (size_t)step % 5) - 2);
    return array;
}

static void direction(const struct convolution *of, enum direction direction) {
    float *x = whole(of->inputs, 2), *w = whole(of->weights, 3), *y = whole(of->outputs, 4), *result, *kept;
    size_t count = direction == FORWARD ? of->outputs : direction == DATA ? of->inputs : of->weights, told = 0;
    struct room rooms[4];
    int i;
    result = direction == FORWARD ? y : direction == DATA ? x : w;
    kept = (float *)malloc(count * sizeof *kept);
    if (kept == NULL) exit(2);
    OK(workspace_size(handle, of, direction, 0, &told));
    CHECK(told == 0);
    rooms[0].memory = NULL, rooms[0].size = 0;
    OK(compute_in(handle, of, direction, 0, rooms[0], 1, 0, x, w, y));
    memcpy(kept, result, count * sizeof *kept);
    OK(workspace_size(handle, of, direction, 1, &told));
    CHECK(told >= 16);
    rooms[1].memory = NULL, rooms[1].size = told;
    rooms[2].memory = guarded_alloc(told), rooms[2].size = told - 1;
    rooms[3].memory = rooms[2].memory, rooms[3].size = 0;
    memset(result, CHECK_FILL, count * sizeof *result);
    for (i = 0; i < 4; i++) {
        BAD(compute_in(handle, of, direction, 1, rooms[i], 1, 0, x, w, y));
        CHECK(names(rooms[i].size, told));
    }
    CHECK(all_filled(result, count * sizeof *result) && all_filled(rooms[2].memory, told));
    guarded_free(rooms[2].memory, told);
    /* Small whole numbers: the same bits whatever the order of the sum. */
    OK(compute(handle, of, direction, 1, 1, 0, x, w, y));
    CHECK(memcmp(kept, result, count * sizeof *kept) == 0);
    free(x), free(w), free(y), free(kept);
}

static int says(const char *words) {
    char text[512];
    cudnnGetLastErrorString(text, sizeof text);
    return strstr(text, words) != NULL;
}

static cudnnActivationDescriptor_t identity;

/* Without a workspace. */
static cudnnStatus_t fused(const struct convolution *of, const float *x, const float *w, float *y,
                           cudnnTensorDescriptor_t bias_desc, const float *bias, cudnnTensorDescriptor_t z_desc) {
    const float one = 1, zero = 0;
    return cudnnConvolutionBiasActivationForward(handle, &one, of->x, x, of->w, w, of->desc,
                                                 CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, NULL, 0, &zero,
                                                 z_desc, y, bias_desc, bias, identity, of->y, y);
}

/* The fused call, too, and searches on a workspace that only number 0 is content with. */
static void fused_and_found(const struct convolution *of) {
    float *x = whole(of->inputs, 2), *w = whole(of->weights, 3), *y = whole(of->outputs, 4), *bias = whole(24, 1);
    cudnnConvolutionFwdAlgoPerf_t records[8];
    cudnnConvolutionFwdAlgo_t algo = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    cudnnTensorDescriptor_t vector, other;
    size_t told = 0;
    int count = 0, i;
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 24, 1, 1));
    OK(cudnnCreateActivationDescriptor(&identity));
    OK(cudnnSetActivationDescriptor(identity, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0));
    OK(workspace_size(handle, of, FORWARD, 1, &told));
    memset(y, CHECK_FILL, of->outputs * sizeof *y);
    BAD(fused(of, x, w, y, vector, bias, of->y));
    CHECK(names(0, told) && all_filled(y, of->outputs * sizeof *y));
    /* The dims of the bias are judged before z, and its type last. */
    OK(cudnnSetTensor4dDescriptor(other, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 1, 24, 2, 1));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, fused(of, x, w, y, other, bias, of->x));
    CHECK(says("dimension 2 of biasDesc"));
    OK(cudnnSetTensor4dDescriptor(other, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 1, 24, 1, 1));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, fused(of, x, w, y, other, bias, of->x));
    CHECK(says("zDesc"));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, fused(of, x, w, y, other, bias, of->y));
    CHECK(says("biasDesc has type") && all_filled(y, of->outputs * sizeof *y));
    OK(cudnnFindConvolutionForwardAlgorithmEx(handle, of->x, x, of->w, w, of->desc, of->y, y, 8, &count, records, NULL,
                                              0));
    CHECK(count == 8 && records[0].algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
    CHECK(records[0].status == CUDNN_STATUS_SUCCESS && records[0].time >= 0 && records[0].memory == 0);
    for (i = 1; i < count; i++) CHECK(records[i].status != CUDNN_STATUS_SUCCESS && records[i].time == -1);
    CHECK(all_filled(y, of->outputs * sizeof *y));
    OK(cudnnGetConvolutionForwardAlgorithm(handle, of->x, of->w, of->desc, of->y, CUDNN_CONVOLUTION_FWD_NO_WORKSPACE, 0,
                                           &algo));
    CHECK(algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyActivationDescriptor(identity));
    free(x), free(w), free(y), free(bias);
}

/* Where the original computes by number 1 only, there is none for a program without a workspace. */
static void none_fits(void) {
    cudnnTensorDescriptor_t tensor;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t desc;
    cudnnConvolutionFwdAlgo_t algo = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    const int dims[5] = {1, 8, 2, 2, 2}, of_filter[5] = {8, 8, 1, 1, 1}, zeros[3] = {0, 0, 0}, ones[3] = {1, 1, 1};
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreateConvolutionDescriptor(&desc));
    OK(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 5, dims));
    OK(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 5, of_filter));
    OK(cudnnSetConvolutionNdDescriptor(desc, 3, zeros, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
           cudnnGetConvolutionForwardAlgorithm(handle, tensor, filter, desc, tensor, CUDNN_CONVOLUTION_FWD_NO_WORKSPACE,
                                               0, &algo));
    CHECK(algo == CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
    OK(cudnnGetConvolutionForwardAlgorithm(handle, tensor, filter, desc, tensor,
                                           CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT, 16, &algo));
    CHECK(algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
    OK(cudnnDestroyConvolutionDescriptor(desc));
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyTensorDescriptor(tensor));
}

int main(void) {
    struct convolution of;
    setenv("CUDNN_SHIM_STRICT", "1", 1);
    OK(cudnnCreate(&handle));
    of = describe(shape);
    direction(&of, FORWARD);
    direction(&of, DATA);
    direction(&of, FILTER);
    fused_and_found(&of);
    none_fits();
    forget(&of);
    OK(cudnnDestroy(handle));
    return check_result("convolution_workspaces");
}
