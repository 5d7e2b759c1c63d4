/* The fused call against its parts, bit by bit: the convolution, z and the bias added, then the activation, in every mode that the
 * descriptor has, in float and double, where z is y or not. */
#include "convolution.h"

static cudnnHandle_t handle;

/* Blocked, transformed, first layers, depthwise in either layout. */
static const struct shape shapes[] = {
    {1, 20, 9, 11, 18, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {1, 36, 20, 22, 33, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 36, 15, 17, 33, 3, 3, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {1, 3, 21, 20, 17, 3, 3, 1, 1, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 19, 16, 13, 19, 3, 3, 19, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 19, 16, 13, 19, 3, 3, 19, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 6, 10, 9, 8, 3, 2, 2, 1, 2, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE},
};

static void fill(void *array, cudnnDataType_t type, size_t count, uint32_t seed) {
    size_t i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        set_at(array, type, i, ((seed >> 24 & 127) + 1) * (seed >> 31 ? -0.001953125 : 0.001953125));
    }
}

static void check_shape(struct shape shape) {
    const cudnnActivationMode_t modes[] = {CUDNN_ACTIVATION_SIGMOID, CUDNN_ACTIVATION_RELU,
                                           CUDNN_ACTIVATION_TANH,    CUDNN_ACTIVATION_CLIPPED_RELU,
                                           CUDNN_ACTIVATION_ELU,     CUDNN_ACTIVATION_SWISH,
                                           CUDNN_ACTIVATION_IDENTITY};
    struct convolution of = describe(shape);
    cudnnDataType_t type = shape.type;
    size_t size = bytes_of(type), bytes = of.outputs * size;
    void *x = malloc(of.inputs * size), *w = malloc(of.weights * size), *z = malloc(bytes),
         *bias = malloc(shape.k * size);
    void *want = malloc(bytes), *y = malloc(bytes), *room = malloc(1 << 16);
    double factors[3] = {1.5, 0.3, 1};
    float narrow[3];
    const void *alpha1, *alpha2, *one;
    double zero_wide = 0;
    float zero_narrow = 0;
    const void *zero = type == CUDNN_DATA_DOUBLE ? (void *)&zero_wide : (void *)&zero_narrow;
    cudnnTensorDescriptor_t vector;
    cudnnActivationDescriptor_t activation;
    int i;
    for (i = 0; i < 3; i++) narrow[i] = (float)factors[i];
    alpha1 = type == CUDNN_DATA_DOUBLE ? (void *)&factors[0] : (void *)&narrow[0];
    alpha2 = type == CUDNN_DATA_DOUBLE ? (void *)&factors[1] : (void *)&narrow[1];
    one = type == CUDNN_DATA_DOUBLE ? (void *)&factors[2] : (void *)&narrow[2];
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateActivationDescriptor(&activation));
    OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, type, 1, shape.k, 1, 1));
    fill(x, type, of.inputs, 1);
    fill(w, type, of.weights, 2);
    fill(z, type, of.outputs, 3);
    fill(bias, type, shape.k, 4);
    for (i = 0; i < 7; i++) {
        OK(cudnnSetActivationDescriptor(activation, modes[i], CUDNN_PROPAGATE_NAN, 0.75));
        if (modes[i] == CUDNN_ACTIVATION_SWISH) OK(cudnnSetActivationDescriptorSwishBeta(activation, 1.25));
        OK(compute(handle, &of, FORWARD, i, factors[0], 0, x, w, want));
        OK(cudnnAddTensor(handle, alpha2, of.y, z, one, of.y, want));
        OK(cudnnAddTensor(handle, one, vector, bias, one, of.y, want));
        OK(cudnnActivationForward(handle, activation, one, of.y, want, zero, of.y, want));
        memset(y, 0xff, bytes);
        OK(cudnnConvolutionBiasActivationForward(handle, alpha1, of.x, x, of.w, w, of.desc,
                                                 (cudnnConvolutionFwdAlgo_t)i, room, 1 << 16, alpha2, of.y, z, vector,
                                                 bias, activation, of.y, y));
        CHECK(memcmp(y, want, bytes) == 0);
        memcpy(y, z, bytes);
        OK(cudnnConvolutionBiasActivationForward(handle, alpha1, of.x, x, of.w, w, of.desc,
                                                 (cudnnConvolutionFwdAlgo_t)i, room, 1 << 16, alpha2, of.y, y, vector,
                                                 bias, activation, of.y, y));
        CHECK(memcmp(y, want, bytes) == 0);
    }
    OK(cudnnDestroyActivationDescriptor(activation));
    OK(cudnnDestroyTensorDescriptor(vector));
    free(x), free(w), free(z), free(bias), free(want), free(y), free(room);
    forget(&of);
}

int main(void) {
    size_t i;
    OK(cudnnCreate(&handle));
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++) check_shape(shapes[i]);
    OK(cudnnDestroy(handle));
    return check_result("convolution_fused");
}
