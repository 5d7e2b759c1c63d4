/* What programs ask before a convolution: lists of algorithms, measured and not, the choice by preference of version 7,
 * folded gradients, reordered filters, and saved algorithms. */
#include "convolution.h"

enum { GUARDED = 77 };

static cudnnHandle_t handle;

static const struct shape shapes[] = {
    {2, 6, 9, 8, 4, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {1, 4, 7, 7, 8, 3, 3, 2, 1, 2, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, CUDNN_DATA_FLOAT},
    {1, 3, 8, 8, 2, 3, 3, 1, 2, 2, 2, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE},
};

/* The fields of a record of any direction, and which numbers the original calls not deterministic. */
struct record {
    int algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t math;
};

static int is_deterministic(enum direction direction, int number) {
    if (direction == FORWARD) return 1;
    return !(number == 0 || (direction == FILTER && number == 3));
}

/* What lists promise: every number once, or twice with two math types; those that serve first; the workspace that the query
 * tells; times in order, where there are times, and one time for all that do the same: all numbers, or all but 0. */
static void check_records(const struct convolution *of, enum direction direction, const struct record *records,
                          int count, int is_measured) {
    int seen[8] = {0}, i;
    float times[2] = {-1, -1};
    cudnnMathType_t set = CUDNN_DEFAULT_MATH;
    OK(cudnnGetConvolutionMathType(of->desc, &set));
    for (i = 0; i < count; i++) {
        size_t size = GUARDED;
        CHECK(records[i].algo >= 0 && records[i].algo < numbers[direction]);
        seen[records[i].algo]++;
        CHECK(i == 0 || records[i].status != CUDNN_STATUS_SUCCESS || records[i - 1].status == CUDNN_STATUS_SUCCESS);
        if (records[i].status != CUDNN_STATUS_SUCCESS) {
            CHECK(records[i].memory == 0 && records[i].time == -1);
            continue;
        }
        OK(workspace_size(handle, of, direction, records[i].algo, &size));
        CHECK(size == records[i].memory && (size > 0) == (records[i].algo != 0));
        CHECK(records[i].determinism ==
              (is_deterministic(direction, records[i].algo) ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC));
        CHECK(records[i].math == CUDNN_DEFAULT_MATH || records[i].math == set);
        if (is_measured) {
            float *of_kind = &times[records[i].algo == 0];
            CHECK(records[i].time >= 0 && records[i].time < 60000);
            CHECK(i == 0 || records[i - 1].time <= records[i].time);
            CHECK(*of_kind == -1 || *of_kind == records[i].time);
            *of_kind = records[i].time;
        } else {
            CHECK(records[i].time == -1);
        }
    }
    CHECK(records[0].status == CUDNN_STATUS_SUCCESS);
    /* On the CPU, number 0 does what the others do. */
    CHECK(!is_measured || records[0].memory > 16 || records[count - 1].memory > 16 || times[0] == times[1]);
    for (i = 0; i < numbers[direction]; i++) CHECK(seen[i] == 1 || (seen[i] == 2 && set != CUDNN_DEFAULT_MATH));
}

/* The five ways to a list, of one direction: all records, fewer, none, and bad requests. FIRST and SECOND are the operands in
 * the order of the call. */
#define CHECK_LISTS(NAME, TYPE, DIRECTION, FIRST_DESC, FIRST, SECOND_DESC, SECOND, LAST_DESC, LAST, SIZE)            \
    static void lists_##DIRECTION(struct convolution *of, void *x, void *w, void *y) {                               \
        TYPE raw[12];                                                                                                \
        struct record records[12];                                                                                   \
        int most = 0, count, way, i, math;                                                                           \
        unsigned char *kept = (unsigned char *)malloc(SIZE);                                                         \
        (void)x, (void)w, (void)y;                                                                                   \
        if (kept == NULL) exit(2);                                                                                   \
        memcpy(kept, LAST, SIZE);                                                                                    \
        OK(cudnnGetConvolution##NAME##AlgorithmMaxCount(handle, &most));                                             \
        CHECK(most == numbers[DIRECTION] + 2);                                                                       \
        for (math = 0; math < 2; math++) {                                                                           \
            OK(cudnnSetConvolutionMathType(of->desc, math ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH));             \
            for (way = 0; way < 4; way++) {                                                                          \
                memset(raw, GUARDED, sizeof raw);                                                                    \
                count = -1;                                                                                          \
                if (way == 0)                                                                                        \
                    OK(cudnnGetConvolution##NAME##Algorithm_v7(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC, \
                                                               most, &count, raw));                                  \
                else if (way == 1)                                                                                   \
                    OK(cudnnFindConvolution##NAME##Algorithm(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC,   \
                                                             most, &count, raw));                                    \
                else                                                                                                 \
                    OK(cudnnFindConvolution##NAME##AlgorithmEx(                                                      \
                        handle, FIRST_DESC, FIRST, SECOND_DESC, SECOND, of->desc, LAST_DESC, LAST,                   \
                        way == 2 ? most : 2, &count, raw, way == 2 ? NULL : kept, way == 2 ? 0 : (size_t)(SIZE)));   \
                CHECK(count == (way == 3 ? 2 : math ? most : numbers[DIRECTION]));                                   \
                for (i = 0; i < count; i++) {                                                                        \
                    records[i].algo = (int)raw[i].algo;                                                              \
                    records[i].status = raw[i].status;                                                               \
                    records[i].time = raw[i].time;                                                                   \
                    records[i].memory = raw[i].memory;                                                               \
                    records[i].determinism = raw[i].determinism;                                                     \
                    records[i].math = raw[i].mathType;                                                               \
                }                                                                                                    \
                if (way < 3) check_records(of, DIRECTION, records, count, way > 0);                                  \
                /* Beyond the count nothing is written, and nothing is computed for the caller. */                   \
                for (i = count * (int)sizeof *raw; i < (int)sizeof raw; i++) CHECK(((char *)raw)[i] == GUARDED);     \
                CHECK(memcmp(kept, LAST, SIZE) == 0);                                                                \
            }                                                                                                        \
        }                                                                                                            \
        OK(cudnnSetConvolutionMathType(of->desc, CUDNN_DEFAULT_MATH));                                               \
        memset(raw, GUARDED, sizeof raw);                                                                            \
        count = -1;                                                                                                  \
        OK(cudnnGetConvolution##NAME##Algorithm_v7(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC, 0, &count,  \
                                                   raw));                                                            \
        CHECK(count == 0);                                                                                           \
        BAD(cudnnFindConvolution##NAME##Algorithm(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC, 0, &count,   \
                                                  raw));                                                             \
        BAD(cudnnFindConvolution##NAME##Algorithm(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC, 1, NULL,     \
                                                  raw));                                                             \
        BAD(cudnnFindConvolution##NAME##Algorithm(NULL, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC, 1, &count,     \
                                                  raw));                                                             \
        BAD(cudnnFindConvolution##NAME##AlgorithmEx(handle, FIRST_DESC, NULL, SECOND_DESC, SECOND, of->desc,         \
                                                    LAST_DESC, LAST, 1, &count, raw, NULL, 0));                      \
        BAD(cudnnGetConvolution##NAME##Algorithm_v7(handle, FIRST_DESC, SECOND_DESC, NULL, LAST_DESC, 1, &count,     \
                                                    raw));                                                           \
        /* What is not aligned is refused, as by the call that computes. */                                          \
        for (i = 0; i < 3; i++)                                                                                      \
            EXPECT(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,                                                        \
                   cudnnFindConvolution##NAME##AlgorithmEx(                                                          \
                       handle, FIRST_DESC, (char *)FIRST + (i == 0), SECOND_DESC, (char *)SECOND + (i == 1),         \
                       of->desc, LAST_DESC, (char *)LAST + (i == 2), 1, &count, raw, NULL, 0));                      \
        for (i = 0; i < (int)sizeof raw; i++) CHECK(((char *)raw)[i] == GUARDED);                                    \
        CHECK(count == 0);                                                                                           \
        free(kept);                                                                                                  \
    }

/* The choice by preference: number 1, or number 0, which needs nothing, where the others need more than the limit. */
#define CHECK_PREFERENCES(NAME, SHORT, DIRECTION, FIRST_DESC, SECOND_DESC, LAST_DESC)                                 \
    static void preferences_##DIRECTION(struct convolution *of, void *x, void *w, void *y) {                          \
        cudnnConvolution##SHORT##Algo_t algo;                                                                         \
        const int preferences[] = {0, 1, 2, 2, 2, 2}, chosen[] = {0, 1, 0, 0, 1, 1};                                  \
        size_t told = 0, limits[6] = {1 << 20, 0, 0, 0, 0, 1 << 20};                                                  \
        int i;                                                                                                        \
        OK(workspace_size(handle, of, DIRECTION, 1, &told));                                                          \
        CHECK(told >= 16 && told <= limits[5]);                                                                       \
        limits[3] = told - 1;                                                                                         \
        limits[4] = told;                                                                                             \
        for (i = 0; i < 6; i++) {                                                                                     \
            algo = (cudnnConvolution##SHORT##Algo_t)GUARDED;                                                          \
            OK(cudnnGetConvolution##NAME##Algorithm(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC,             \
                                                    (cudnnConvolution##SHORT##Preference_t)preferences[i], limits[i], \
                                                    &algo));                                                          \
            CHECK((int)algo == chosen[i]);                                                                            \
            if (chosen[i] == 0) {                                                                                     \
                struct room none = {NULL, 0};                                                                         \
                OK(compute_in(handle, of, DIRECTION, 0, none, 1, 0, x, w, y));                                        \
            }                                                                                                         \
            OK(compute(handle, of, DIRECTION, (int)algo, 1, 0, x, w, y));                                             \
        }                                                                                                             \
        algo = (cudnnConvolution##SHORT##Algo_t)GUARDED;                                                              \
        BAD(cudnnGetConvolution##NAME##Algorithm(handle, FIRST_DESC, SECOND_DESC, of->desc, LAST_DESC,                \
                                                 (cudnnConvolution##SHORT##Preference_t)3, 0, &algo));                \
        BAD(cudnnGetConvolution##NAME##Algorithm(handle, FIRST_DESC, SECOND_DESC, NULL, LAST_DESC,                    \
                                                 (cudnnConvolution##SHORT##Preference_t)1, 0, &algo));                \
        CHECK((int)algo == GUARDED);                                                                                  \
    }

#define X_SIZE (of->inputs * bytes_of(of->shape.type))
#define W_SIZE (of->weights * bytes_of(of->shape.type))
#define Y_SIZE (of->outputs * bytes_of(of->shape.type))

CHECK_LISTS(Forward, cudnnConvolutionFwdAlgoPerf_t, FORWARD, of->x, x, of->w, w, of->y, y, Y_SIZE)
CHECK_LISTS(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, DATA, of->w, w, of->y, y, of->x, x, X_SIZE)
CHECK_LISTS(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, FILTER, of->x, x, of->y, y, of->w, w, W_SIZE)
CHECK_PREFERENCES(Forward, Fwd, FORWARD, of->x, of->w, of->y)
CHECK_PREFERENCES(BackwardData, BwdData, DATA, of->w, of->y, of->x)
CHECK_PREFERENCES(BackwardFilter, BwdFilter, FILTER, of->x, of->y, of->w)

static void *whole(cudnnDataType_t type, size_t count, int step) {
    void *array = malloc(count * bytes_of(type));
    size_t i;
    if (array == NULL) exit(2);
    for (i = 0; i < count; i++) set_at(array, type, i, (double)(i * step % 5) - 2);
    return array;
}

static void lists(void) {
    size_t i;
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct convolution made = describe(shapes[i]);
        void *x = whole(shapes[i].type, made.inputs, 2), *w = whole(shapes[i].type, made.weights, 4);
        void *y = whole(shapes[i].type, made.outputs, 3);
        lists_FORWARD(&made, x, w, y);
        lists_DATA(&made, x, w, y);
        lists_FILTER(&made, x, w, y);
        preferences_FORWARD(&made, x, w, y);
        preferences_DATA(&made, x, w, y);
        preferences_FILTER(&made, x, w, y);
        free(x);
        free(w);
        free(y);
        forget(&made);
    }
}

static size_t tensor_bytes(cudnnTensorDescriptor_t desc) {
    size_t size = 0;
    OK(cudnnGetTensorSizeInBytes(desc, &size));
    return size;
}

/* A strided gradient as one of stride 1: fold the filter, pad dy, compute, unfold. It is the gradient computed at once. */
static void folded(struct shape shape) {
    struct convolution of = describe(shape);
    cudnnFilterDescriptor_t filter;
    cudnnTensorDescriptor_t diff, grad;
    cudnnConvolutionDescriptor_t conv;
    cudnnTensorTransformDescriptor_t transforms[4];
    cudnnConvolutionMode_t mode;
    cudnnDataType_t type;
    int numbers_of[6], i;
    size_t filter_size = 0;
    float one = 1, zero = 0;
    float *w = (float *)whole(shape.type, of.weights, 4), *dy = (float *)whole(shape.type, of.outputs, 3);
    float *dx = (float *)malloc(of.inputs * 4), *unfolded = (float *)malloc(of.inputs * 4), *w2, *dy2, *dx2;
    OK(compute(handle, &of, DATA, 1, 1, 0, dx, w, dy));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreateTensorDescriptor(&diff));
    OK(cudnnCreateTensorDescriptor(&grad));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    for (i = 0; i < 4; i++) OK(cudnnCreateTensorTransformDescriptor(&transforms[i]));
    BAD(cudnnGetFoldedConvBackwardDataDescriptors(handle, of.w, of.y, of.desc, NULL, CUDNN_TENSOR_NCHW, filter, diff,
                                                  conv, grad, transforms[0], transforms[1], transforms[2],
                                                  transforms[3]));
    OK(cudnnGetFoldedConvBackwardDataDescriptors(handle, of.w, of.y, of.desc, of.x, CUDNN_TENSOR_NCHW, filter, diff,
                                                 conv, grad, transforms[0], transforms[1], transforms[2],
                                                 transforms[3]));
    OK(cudnnGetConvolution2dDescriptor(conv, &numbers_of[0], &numbers_of[1], &numbers_of[2], &numbers_of[3],
                                       &numbers_of[4], &numbers_of[5], &mode, &type));
    CHECK(numbers_of[2] == 1 && numbers_of[3] == 1 && mode == shape.mode && type == shape.compute);
    OK(cudnnGetFilterSizeInBytes(filter, &filter_size));
    w2 = (float *)malloc(filter_size);
    dy2 = (float *)malloc(tensor_bytes(diff));
    dx2 = (float *)malloc(tensor_bytes(grad));
    OK(cudnnTransformFilter(handle, transforms[0], &one, of.w, w, &zero, filter, w2));
    OK(cudnnTransformTensorEx(handle, transforms[1], &one, of.y, dy, &zero, diff, dy2));
    OK(cudnnConvolutionBackwardData(handle, &one, filter, w2, diff, dy2, conv, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, NULL,
                                    0, &zero, grad, dx2));
    memset(unfolded, 0xff, of.inputs * 4);
    OK(cudnnTransformTensorEx(handle, transforms[3], &one, grad, dx2, &zero, of.x, unfolded));
    CHECK(memcmp(dx, unfolded, of.inputs * 4) == 0);
    for (i = 0; i < 4; i++) OK(cudnnDestroyTensorTransformDescriptor(transforms[i]));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyTensorDescriptor(grad));
    OK(cudnnDestroyTensorDescriptor(diff));
    OK(cudnnDestroyFilterDescriptor(filter));
    free(w), free(dy), free(dx), free(unfolded), free(w2), free(dy2), free(dx2);
    forget(&of);
}

/* A convolution of INT8x32 with a filter and a bias that were reordered is the one with those that were not. */
static void reordered(void) {
    enum { C = 32, K = 64, H = 4, R = 3, INPUTS = C * H * H, WEIGHTS = K * C * R * R, OUTPUTS = K * H * H };
    static signed char x[INPUTS], w[WEIGHTS], moved[WEIGHTS + 1], z[OUTPUTS], y[OUTPUTS], again[OUTPUTS];
    float bias[K], moved_bias[K + 1], one = 1, zero = 0;
    cudnnTensorDescriptor_t x_desc, y_desc, vector;
    cudnnFilterDescriptor_t w_desc, flat;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t relu;
    const int flat_dims[3] = {K, C, R};
    int i;
    for (i = 0; i < INPUTS; i++) x[i] = (signed char)(i % 9 - 4);
    for (i = 0; i < WEIGHTS; i++) w[i] = (signed char)(i * 5 % 7 - 3);
    for (i = 0; i < K; i++) bias[i] = (float)(i - 30);
    OK(cudnnCreateTensorDescriptor(&x_desc));
    OK(cudnnCreateTensorDescriptor(&y_desc));
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateFilterDescriptor(&w_desc));
    OK(cudnnCreateFilterDescriptor(&flat));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, 1, C, H, H));
    OK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, 1, K, H, H));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, K, 1, 1));
    OK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_INT8x32, CUDNN_TENSOR_NCHW_VECT_C, K, C, R, R));
    OK(cudnnSetFilterNdDescriptor(flat, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 3, flat_dims));
    OK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_INT32));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    memset(moved, GUARDED, sizeof moved);
    moved_bias[K] = GUARDED;
    BAD(cudnnReorderFilterAndBias(handle, w_desc, CUDNN_DEFAULT_REORDER, w, NULL, 0, NULL, NULL));
    BAD(cudnnReorderFilterAndBias(handle, w_desc, CUDNN_DEFAULT_REORDER, w, moved, 1, bias, NULL));
    BAD(cudnnReorderFilterAndBias(handle, flat, CUDNN_DEFAULT_REORDER, w, moved, 0, NULL, NULL));
    for (i = 0; i <= WEIGHTS; i++) CHECK(moved[i] == GUARDED);
    OK(cudnnReorderFilterAndBias(handle, w_desc, CUDNN_DEFAULT_REORDER, w, moved, 1, bias, moved_bias));
    CHECK(moved[WEIGHTS] == GUARDED && moved_bias[K] == GUARDED);
    OK(cudnnConvolutionBiasActivationForward(handle, &one, x_desc, x, w_desc, w, conv,
                                             CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, NULL, 0, &zero, y_desc,
                                             z, vector, bias, relu, y_desc, y));
    OK(cudnnSetConvolutionReorderType(conv, CUDNN_NO_REORDER));
    OK(cudnnConvolutionBiasActivationForward(handle, &one, x_desc, x, w_desc, moved, conv,
                                             CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, NULL, 0, &zero, y_desc,
                                             z, vector, moved_bias, relu, y_desc, again));
    CHECK(memcmp(y, again, OUTPUTS) == 0);
    for (i = 0; i < OUTPUTS && y[i] == 0; i++) continue;
    CHECK(i < OUTPUTS);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyFilterDescriptor(flat));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(x_desc));
}

/* An algorithm that is saved, and restored into another descriptor. */
static void saved(void) {
    cudnnAlgorithmDescriptor_t from, to;
    cudnnAlgorithm_t algorithm;
    size_t size = 0;
    unsigned char *memory;
    OK(cudnnCreateAlgorithmDescriptor(&from));
    OK(cudnnCreateAlgorithmDescriptor(&to));
    memset(&algorithm, 0, sizeof algorithm);
    algorithm.algo.convBwdFilterAlgo = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING;
    OK(cudnnSetAlgorithmDescriptor(from, algorithm));
    BAD(cudnnGetAlgorithmSpaceSize(handle, NULL, &size));
    BAD(cudnnGetAlgorithmSpaceSize(handle, from, NULL));
    OK(cudnnGetAlgorithmSpaceSize(handle, from, &size));
    CHECK(size > 0 && size <= 4096);
    memory = (unsigned char *)guarded_alloc(size);
    BAD(cudnnSaveAlgorithm(handle, from, NULL, size));
    BAD(cudnnSaveAlgorithm(handle, from, memory, size - 1));
    CHECK(all_filled(memory, size));
    OK(cudnnSaveAlgorithm(handle, from, memory, size));
    BAD(cudnnRestoreAlgorithm(handle, memory, size - 1, to));
    BAD(cudnnRestoreAlgorithm(handle, NULL, size, to));
    OK(cudnnGetAlgorithmDescriptor(to, &algorithm));
    CHECK(algorithm.algo.convBwdFilterAlgo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0);
    OK(cudnnRestoreAlgorithm(handle, memory, size, to));
    OK(cudnnGetAlgorithmDescriptor(to, &algorithm));
    CHECK(algorithm.algo.convBwdFilterAlgo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING);
    guarded_free(memory, size);
    OK(cudnnDestroyAlgorithmDescriptor(to));
    OK(cudnnDestroyAlgorithmDescriptor(from));
}

int main(void) {
    const struct shape strided[] = {
        {2, 3, 9, 8, 4, 3, 3, 1, 1, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
         CUDNN_DATA_FLOAT},
        {1, 2, 11, 7, 3, 5, 4, 1, 2, 3, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
         CUDNN_DATA_FLOAT},
        {1, 3, 8, 8, 2, 2, 2, 1, 0, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
         CUDNN_DATA_FLOAT},
    };
    size_t i;
    OK(cudnnCreate(&handle));
    lists();
    for (i = 0; i < sizeof strided / sizeof *strided; i++) folded(strided[i]);
    reordered();
    saved();
    OK(cudnnDestroy(handle));
    return check_result("convolution_queries");
}
