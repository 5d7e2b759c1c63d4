/* A convolution with its descriptors, its three directions as one call, and arrays of any floating type. */
#ifndef CONVOLUTION_H
#define CONVOLUTION_H

#include "check.h"

enum direction { FORWARD, DATA, FILTER };

/* Algorithm numbers of each direction. */
static const int numbers[3] = {8, 6, 7};

struct shape {
    int n, c, h, w, k, r, s, groups, pad, stride, dilation;
    cudnnConvolutionMode_t mode;
    cudnnTensorFormat_t format;
    cudnnDataType_t type, compute;
};

struct convolution {
    struct shape shape;
    int out_h, out_w;
    /* Elements of each. */
    size_t inputs, weights, outputs;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t desc;
};

static inline struct convolution describe(struct shape of) {
    struct convolution made;
    int dims[4];
    memset(&made, 0, sizeof made);
    made.shape = of;
    OK(cudnnCreateTensorDescriptor(&made.x));
    OK(cudnnCreateTensorDescriptor(&made.y));
    OK(cudnnCreateFilterDescriptor(&made.w));
    OK(cudnnCreateConvolutionDescriptor(&made.desc));
    OK(cudnnSetTensor4dDescriptor(made.x, of.format, of.type, of.n, of.c, of.h, of.w));
    OK(cudnnSetFilter4dDescriptor(made.w, of.type, of.format, of.k, of.c / of.groups, of.r, of.s));
    OK(cudnnSetConvolution2dDescriptor(made.desc, of.pad, of.pad, of.stride, of.stride, of.dilation, of.dilation,
                                       of.mode, of.compute));
    OK(cudnnSetConvolutionGroupCount(made.desc, of.groups));
    OK(cudnnGetConvolution2dForwardOutputDim(made.desc, made.x, made.w, &dims[0], &dims[1], &dims[2], &dims[3]));
    CHECK(dims[0] == of.n && dims[1] == of.k);
    OK(cudnnSetTensor4dDescriptor(made.y, of.format, of.type, dims[0], dims[1], dims[2], dims[3]));
    made.out_h = dims[2];
    made.out_w = dims[3];
    made.inputs = (size_t)of.n * of.c * of.h * of.w;
    made.weights = (size_t)of.k * (of.c / of.groups) * of.r * of.s;
    made.outputs = (size_t)of.n * of.k * dims[2] * dims[3];
    return made;
}

static inline void forget(struct convolution *made) {
    OK(cudnnDestroyConvolutionDescriptor(made->desc));
    OK(cudnnDestroyFilterDescriptor(made->w));
    OK(cudnnDestroyTensorDescriptor(made->y));
    OK(cudnnDestroyTensorDescriptor(made->x));
}

static inline cudnnStatus_t workspace_size(cudnnHandle_t handle, const struct convolution *of, enum direction direction,
                                           int number, size_t *size) {
    switch (direction) {
    case FORWARD:
        return cudnnGetConvolutionForwardWorkspaceSize(handle, of->x, of->w, of->desc, of->y,
                                                       (cudnnConvolutionFwdAlgo_t)number, size);
    case DATA:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, of->w, of->y, of->desc, of->x,
                                                            (cudnnConvolutionBwdDataAlgo_t)number, size);
    default:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, of->x, of->y, of->desc, of->w,
                                                              (cudnnConvolutionBwdFilterAlgo_t)number, size);
    }
}

struct room {
    void *memory;
    size_t size;
};

/* y, x (dx) or w (dw) is computed of the other two, by the algorithm of this number. */
static inline cudnnStatus_t compute_in(cudnnHandle_t handle, const struct convolution *of, enum direction direction,
                                       int number, struct room room, double factor, double old, void *x, void *w,
                                       void *y) {
    float narrow[2];
    double wide[2];
    int is_double = of->shape.compute == CUDNN_DATA_DOUBLE;
    const void *alpha = is_double ? (void *)&wide[0] : (void *)&narrow[0];
    const void *beta = is_double ? (void *)&wide[1] : (void *)&narrow[1];
    narrow[0] = (float)(wide[0] = factor);
    narrow[1] = (float)(wide[1] = old);
    switch (direction) {
    case FORWARD:
        return cudnnConvolutionForward(handle, alpha, of->x, x, of->w, w, of->desc, (cudnnConvolutionFwdAlgo_t)number,
                                       room.memory, room.size, beta, of->y, y);
    case DATA:
        return cudnnConvolutionBackwardData(handle, alpha, of->w, w, of->y, y, of->desc,
                                            (cudnnConvolutionBwdDataAlgo_t)number, room.memory, room.size, beta, of->x,
                                            x);
    default:
        return cudnnConvolutionBackwardFilter(handle, alpha, of->x, x, of->y, y, of->desc,
                                              (cudnnConvolutionBwdFilterAlgo_t)number, room.memory, room.size, beta,
                                              of->w, w);
    }
}

/* The same with exactly as much workspace as is told, full of NaN and between guards. */
static inline cudnnStatus_t compute(cudnnHandle_t handle, const struct convolution *of, enum direction direction,
                                    int number, double factor, double old, void *x, void *w, void *y) {
    struct room room = {NULL, 0};
    cudnnStatus_t status = workspace_size(handle, of, direction, number, &room.size);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    CHECK((room.size > 0) == (number != 0));
    room.memory = guarded_alloc(room.size);
    memset(room.memory, 0xff, room.size);
    status = compute_in(handle, of, direction, number, room, factor, old, x, w, y);
    guarded_free(room.memory, room.size);
    return status;
}

/* Numbers of a type, as double: half and bfloat16 by their bits. */
static inline size_t bytes_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

static inline double half_value(uint16_t bits) {
    int exponent = bits >> 10 & 31;
    double value = exponent ? 1024 + (bits & 1023) : bits & 1023;
    int scale;
    for (scale = exponent ? exponent : 1; scale < 25; scale++) value /= 2;
    for (; scale > 25; scale--) value *= 2;
    return bits & 0x8000 ? -value : value;
}

static inline double value_at(const void *array, cudnnDataType_t type, size_t i) {
    union {
        uint32_t bits;
        float value;
    } wide;
    switch (type) {
    case CUDNN_DATA_DOUBLE: return ((const double *)array)[i];
    case CUDNN_DATA_HALF: return half_value(((const uint16_t *)array)[i]);
    case CUDNN_DATA_BFLOAT16: wide.bits = (uint32_t)((const uint16_t *)array)[i] << 16; return wide.value;
    default: return ((const float *)array)[i];
    }
}

/* Stores a number that the type holds exactly, and that is no subnormal. */
static inline void set_at(void *array, cudnnDataType_t type, size_t i, double value) {
    union {
        uint32_t bits;
        float value;
    } wide;
    wide.value = (float)value;
    switch (type) {
    case CUDNN_DATA_DOUBLE: ((double *)array)[i] = value; break;
    case CUDNN_DATA_HALF: {
        uint32_t exponent = (wide.bits >> 23 & 255) - 112;
        uint32_t magnitude = wide.value == 0 ? 0 : exponent << 10 | (wide.bits >> 13 & 1023);
        ((uint16_t *)array)[i] = (uint16_t)((wide.bits >> 16 & 0x8000) | magnitude);
        break;
    }
    case CUDNN_DATA_BFLOAT16: ((uint16_t *)array)[i] = (uint16_t)(wide.bits >> 16); break;
    default: ((float *)array)[i] = wide.value;
    }
}

#endif
