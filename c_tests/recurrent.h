/* What the programs about recurrent networks share. */
#ifndef RECURRENT_H
#define RECURRENT_H

#include "check.h"

/* A packed descriptor of three dimensions. */
static cudnnTensorDescriptor_t tensor(cudnnDataType_t type, int a, int b, int c) {
    cudnnTensorDescriptor_t desc;
    int dims[3], strides[3];
    dims[0] = a, dims[1] = b, dims[2] = c;
    strides[0] = b * c, strides[1] = c, strides[2] = 1;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensorNdDescriptor(desc, type, 3, dims, strides));
    return desc;
}

/* A descriptor of so many elements, as the weights of version 6 have it. */
static cudnnFilterDescriptor_t filter(cudnnDataType_t type, size_t elements) {
    cudnnFilterDescriptor_t desc;
    int dims[3] = {1, 1, 1};
    dims[0] = (int)elements;
    OK(cudnnCreateFilterDescriptor(&desc));
    OK(cudnnSetFilterNdDescriptor(desc, type, CUDNN_TENSOR_NCHW, 3, dims));
    return desc;
}

#endif
