/* Layers that write over what they read give what they give elsewhere, bit for bit: normalisations, dropout, softmax and
 * activations, forwards and backwards, in the same layout and in another one. LRN reads its neighbours, so that a GPU refuses it in place. */
#include "check.h"

enum { FEATURES = 64 };

static cudnnHandle_t handle;
static int is_gpu;

/* A tensor of a case: its type and layout, that of what is written in its place, and how much memory that is. */
struct tensor {
    cudnnTensorDescriptor_t desc, to;
    int moves;
    cudnnDataType_t type;
    size_t count, size;
};

static size_t bytes_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

/* Numbers between -2 and 2 that all types hold. */
static void *numbers(const struct tensor *of, int step) {
    char *array = (char *)guarded_alloc(of->size);
    size_t i;
    for (i = 0; i < of->count; i++) {
        double wide = (double)((int)((i * (size_t)step + i / 7) % 33) - 16) / 8;
        float value = (float)wide;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        bits >>= 16;
        if (of->type == CUDNN_DATA_DOUBLE) memcpy(array + 8 * i, &wide, 8);
        if (of->type == CUDNN_DATA_FLOAT) memcpy(array + 4 * i, &value, 4);
        if (of->type == CUDNN_DATA_BFLOAT16) memcpy(array + 2 * i, &bits, 2);
    }
    return array;
}

/* What a call reads: the operand that is written over, and another. */
struct call {
    const struct tensor *of;
    const void *over, *other;
    void *written;
};

static double parameters[4][FEATURES];
static void *states;
static void *reserve;
static size_t reserve_size, states_size;
static cudnnTensorDescriptor_t derived;
static cudnnDropoutDescriptor_t dropout;
static cudnnActivationDescriptor_t activation;
static cudnnLRNDescriptor_t lrn;

/* Factors and parameters are binary64 for DOUBLE, else binary32. */
static const void *factor(const struct tensor *of, int i) {
    static const double wide[2] = {0, 1};
    static const float narrow[2] = {0, 1};
    return of->type == CUDNN_DATA_DOUBLE ? (const void *)&wide[i] : (const void *)&narrow[i];
}

static void set_parameters(cudnnDataType_t type) {
    int i, k;
    for (i = 0; i < 4; i++)
        for (k = 0; k < FEATURES; k++) {
            double value = i == 3 ? 1 + k % 3 : 0.5 + k % 5;
            float narrow = (float)value;
            if (type == CUDNN_DATA_DOUBLE)
                parameters[i][k] = value;
            else
                memcpy((float *)parameters[i] + k, &narrow, 4);
        }
}

static cudnnStatus_t inference(const struct call *c) {
    return cudnnBatchNormalizationForwardInference(handle, CUDNN_BATCHNORM_SPATIAL, factor(c->of, 1), factor(c->of, 0),
                                                   c->of->desc, c->over, c->of->to, c->written, derived,
                                                   parameters[0], parameters[1], parameters[2], parameters[3], 1e-5);
}

static cudnnStatus_t training(const struct call *c) {
    return cudnnBatchNormalizationForwardTraining(handle, CUDNN_BATCHNORM_SPATIAL, factor(c->of, 1), factor(c->of, 0),
                                                  c->of->desc, c->over, c->of->to, c->written, derived, parameters[0],
                                                  parameters[1], 0, NULL, NULL, 1e-5, NULL, NULL);
}

static double sums[2][FEATURES];

static cudnnStatus_t normalisation_gradient(const struct call *c) {
    const void *one = factor(c->of, 1), *zero = factor(c->of, 0);
    return cudnnBatchNormalizationBackward(handle, CUDNN_BATCHNORM_SPATIAL, one, zero, one, zero, c->of->desc, c->other,
                                           c->of->desc, c->over, c->of->to, c->written, derived, parameters[0],
                                           sums[0], sums[1], 1e-5, NULL, NULL);
}

static cudnnStatus_t softmax(const struct call *c) {
    return cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, factor(c->of, 1),
                               c->of->desc, c->over, factor(c->of, 0), c->of->to, c->written);
}

static cudnnStatus_t softmax_gradient(const struct call *c) {
    return cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, factor(c->of, 1),
                                c->of->desc, c->other, c->of->desc, c->over, factor(c->of, 0), c->of->to, c->written);
}

static cudnnStatus_t activate(const struct call *c) {
    return cudnnActivationForward(handle, activation, factor(c->of, 1), c->of->desc, c->over, factor(c->of, 0),
                                  c->of->to, c->written);
}

static cudnnStatus_t activation_gradient(const struct call *c) {
    return cudnnActivationBackward(handle, activation, factor(c->of, 1), c->of->desc, c->other, c->of->desc, c->over,
                                   c->of->desc, c->other, factor(c->of, 0), c->of->to, c->written);
}

/* Each call of a generator draws another mask: it is set anew. */
static cudnnStatus_t drop(const struct call *c) {
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, states, states_size, 7));
    return cudnnDropoutForward(handle, dropout, c->of->desc, c->over, c->of->to, c->written, reserve, reserve_size);
}

static cudnnStatus_t dropout_gradient(const struct call *c) {
    return cudnnDropoutBackward(handle, dropout, c->of->desc, c->over, c->of->to, c->written, reserve, reserve_size);
}

static cudnnStatus_t across_channels(const struct call *c) {
    return cudnnLRNCrossChannelForward(handle, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, factor(c->of, 1), c->of->desc,
                                       c->over, factor(c->of, 0), c->of->to, c->written);
}

static const struct {
    const char *name;
    cudnnStatus_t (*run)(const struct call *);
    int reads_neighbours, has_one_layout;
} layers[] = {
    {"batch normalisation at inference", inference, 0, 0},
    {"batch normalisation in training", training, 0, 0},
    {"gradient of a batch normalisation", normalisation_gradient, 0, 0},
    {"softmax", softmax, 0, 0},
    {"gradient of softmax", softmax_gradient, 0, 0},
    {"activation", activate, 0, 1},
    {"gradient of an activation", activation_gradient, 0, 1},
    {"dropout", drop, 0, 1},
    {"gradient of dropout", dropout_gradient, 0, 1},
    {"LRN", across_channels, 1, 0},
};

static void compare(size_t layer, const struct tensor *of) {
    struct call call;
    void *over = numbers(of, 5), *other = numbers(of, 3), *apart = guarded_alloc(of->size), *before = numbers(of, 5);
    cudnnStatus_t status;
    call.of = of, call.over = over, call.other = other, call.written = apart;
    OK(layers[layer].run(&call));
    CHECK(memcmp(over, before, of->size) == 0 && !all_filled(apart, of->size));
    call.written = over;
    status = layers[layer].run(&call);
    if (is_gpu && (layers[layer].reads_neighbours || of->moves)) {
        EXPECT(CUDNN_STATUS_NOT_SUPPORTED, status);
        CHECK(memcmp(over, before, of->size) == 0);
    } else if (status != CUDNN_STATUS_SUCCESS || memcmp(over, apart, of->size) != 0) {
        fprintf(stderr, "%s in place of %zu elements of %zu bytes: %s\n", layers[layer].name, of->count,
                bytes_of(of->type), cudnnGetErrorString(status));
        check_failures++;
    }
    guarded_free(before, of->size);
    guarded_free(apart, of->size);
    guarded_free(other, of->size);
    guarded_free(over, of->size);
}

static void every_layer(cudnnTensorFormat_t format, cudnnTensorFormat_t to, cudnnDataType_t type, int n, int c, int h,
                        int w) {
    struct tensor of;
    size_t layer;
    of.type = type;
    of.count = (size_t)n * c * h * w;
    of.size = of.count * bytes_of(type);
    OK(cudnnCreateTensorDescriptor(&of.desc));
    OK(cudnnSetTensor4dDescriptor(of.desc, format, type, n, c, h, w));
    OK(cudnnCreateTensorDescriptor(&of.to));
    OK(cudnnSetTensor4dDescriptor(of.to, to, type, n, c, h, w));
    of.moves = to != format;
    OK(cudnnDeriveBNTensorDescriptor(derived, of.desc, CUDNN_BATCHNORM_SPATIAL));
    set_parameters(type);
    OK(cudnnDropoutGetReserveSpaceSize(of.desc, &reserve_size));
    reserve = guarded_alloc(reserve_size);
    for (layer = 0; layer < sizeof layers / sizeof *layers; layer++)
        if (!of.moves || !layers[layer].has_one_layout) compare(layer, &of);
    guarded_free(reserve, reserve_size);
    OK(cudnnDestroyTensorDescriptor(of.to));
    OK(cudnnDestroyTensorDescriptor(of.desc));
}

/* Programs that hand the states over as the reserve space: the mask takes their place, as far as they reach. */
static void mask_over_states(void) {
    enum { N = 4000 };
    const size_t needed = (N + 31) / 32 * 4;
    static float x[N], y[N], back[N], apart[N];
    char *room = (char *)guarded_alloc(needed), *mask = (char *)guarded_alloc(needed);
    cudnnTensorDescriptor_t of;
    int i;
    for (i = 0; i < N; i++) x[i] = 1;
    OK(cudnnCreateTensorDescriptor(&of));
    OK(cudnnSetTensor4dDescriptor(of, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, N, 1, 1));
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, room, needed, 7));
    OK(cudnnDropoutForward(handle, dropout, of, x, of, apart, mask, needed));
    OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, room, needed, 7));
    if (is_gpu) {
        CHECK(cudnnDropoutForward(handle, dropout, of, x, of, y, room, needed) == CUDNN_STATUS_NOT_SUPPORTED);
    } else {
        OK(cudnnDropoutForward(handle, dropout, of, x, of, y, room, needed));
        OK(cudnnDropoutBackward(handle, dropout, of, x, of, back, room, needed));
        CHECK(memcmp(apart, y, sizeof y) == 0 && memcmp(apart, back, sizeof y) == 0);
        CHECK(memcmp(room, mask, needed) == 0);
        OK(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, room, needed - 1, 7));
        BAD(cudnnDropoutForward(handle, dropout, of, x, of, y, room, needed));
    }
    OK(cudnnDestroyTensorDescriptor(of));
    guarded_free(room, needed), guarded_free(mask, needed);
}

/* Elements that share addresses are read before any of them is written: over what it reads a call gives what it gives elsewhere. */
static void shared_addresses(void) {
    const int dims[4] = {1, 2, 2, 2}, strides[4] = {4, 1, 2, 1};
    const float two = 2, zero = 0;
    cudnnTensorDescriptor_t desc;
    cudnnActivationDescriptor_t line;
    cudnnReduceTensorDescriptor_t sum;
    size_t size = 0;
    int call, i;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnCreateActivationDescriptor(&line));
    OK(cudnnCreateReduceTensorDescriptor(&sum));
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetActivationDescriptor(line, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    OK(cudnnSetReduceTensorDescriptor(sum, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnGetReductionWorkspaceSize(handle, sum, desc, desc, &size));
    for (call = 0; call < 3; call++) {
        float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
        void *memory = guarded_alloc(size);
        for (i = 0; i < 2; i++) {
            float *to = i == 0 ? y : x;
            if (call == 0) OK(cudnnTransformTensor(handle, &two, desc, x, &zero, desc, to));
            if (call == 1) OK(cudnnActivationForward(handle, line, &two, desc, x, &zero, desc, to));
            if (call == 2) OK(cudnnReduceTensor(handle, sum, NULL, 0, memory, size, &two, desc, x, &zero, desc, to));
        }
        CHECK(memcmp(x, y, sizeof x) == 0 && y[0] == 2 && y[4] == 10);
        guarded_free(memory, size);
    }
    OK(cudnnDestroyReduceTensorDescriptor(sum));
    OK(cudnnDestroyActivationDescriptor(line));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* Sums and reductions whose result lies in the same memory in another layout. */
static void other_places(void) {
    const float two = 2, zero = 0;
    cudnnTensorDescriptor_t from, to;
    cudnnOpTensorDescriptor_t add;
    cudnnReduceTensorDescriptor_t sum;
    int call, i;
    OK(cudnnCreateTensorDescriptor(&from));
    OK(cudnnCreateTensorDescriptor(&to));
    OK(cudnnCreateOpTensorDescriptor(&add));
    OK(cudnnCreateReduceTensorDescriptor(&sum));
    OK(cudnnSetTensor4dDescriptor(from, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 2, 2));
    OK(cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 1, 3, 2, 2));
    OK(cudnnSetOpTensorDescriptor(add, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
    OK(cudnnSetReduceTensorDescriptor(sum, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    for (call = 0; call < 4; call++) {
        float x[12], other[12] = {0};
        for (i = 0; i < 12; i++) x[i] = (float)i;
        if (call == 0) OK(cudnnTransformTensor(handle, &two, from, x, &zero, to, x));
        if (call == 1) OK(cudnnOpTensor(handle, add, &two, from, x, &two, from, other, &zero, to, x));
        if (call == 2) OK(cudnnOpTensor(handle, add, &two, from, other, &two, from, x, &zero, to, x));
        if (call == 3) OK(cudnnReduceTensor(handle, sum, NULL, 0, NULL, 0, &two, from, x, &zero, to, x));
        for (i = 0; i < 12; i++) CHECK(x[i % 4 * 3 + i / 4] == (float)(2 * i));
    }
    OK(cudnnDestroyReduceTensorDescriptor(sum));
    OK(cudnnDestroyOpTensorDescriptor(add));
    OK(cudnnDestroyTensorDescriptor(to));
    OK(cudnnDestroyTensorDescriptor(from));
}

int main(void) {
    const cudnnDataType_t types[3] = {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_BFLOAT16};
    const char *core = getenv("CUDNN_SHIM_BACKEND");
    int i;
    is_gpu = core != NULL && strcmp(core, "cuda") == 0;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&derived));
    OK(cudnnCreateDropoutDescriptor(&dropout));
    OK(cudnnCreateActivationDescriptor(&activation));
    OK(cudnnCreateLRNDescriptor(&lrn));
    OK(cudnnSetActivationDescriptor(activation, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0));
    OK(cudnnSetLRNDescriptor(lrn, 5, 1e-1, 0.75, 2));
    OK(cudnnDropoutGetStatesSize(handle, &states_size));
    states = guarded_alloc(states_size);
    for (i = 0; i < 3; i++) {
        every_layer(CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NCHW, types[i], 2, 5, 4, 3);
        every_layer(CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NHWC, types[i], 3, 33, 5, 7);
        every_layer(CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NCHW, types[i], 4, 16, 13, 8);
        /* What lies elsewhere afterwards is overwritten before it is read, unless it is copied before. */
        every_layer(CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC, types[i], 2, 5, 4, 3);
        every_layer(CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW, types[i], 3, 33, 5, 7);
    }
    /* Enough for several threads. */
    if (!is_gpu) every_layer(CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 8, 64, 20, 21);
    if (!is_gpu) every_layer(CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 8, 64, 20, 21);
    mask_over_states();
    if (!is_gpu) shared_addresses();
    if (!is_gpu) other_places();
    guarded_free(states, states_size);
    OK(cudnnDestroyLRNDescriptor(lrn));
    OK(cudnnDestroyActivationDescriptor(activation));
    OK(cudnnDestroyDropoutDescriptor(dropout));
    OK(cudnnDestroyTensorDescriptor(derived));
    OK(cudnnDestroy(handle));
    return check_result("in_place");
}
