/* A program that is linked as any other: what it prints is what the library at hand answers. */
#include <cudnn.h>
#include <stdio.h>

int main(void) {
    cudnnHandle_t handle = 0;
    cudnnTensorDescriptor_t tensor = 0;
    int dims[4] = {0}, strides[4] = {0}, rank = 0;
    cudnnDataType_t type = CUDNN_DATA_DOUBLE;
    int failed = cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
    failed |= cudnnCreateTensorDescriptor(&tensor) != CUDNN_STATUS_SUCCESS;
    failed |= cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, 3, 4, 5) != 0;
    failed |= cudnnGetTensorNdDescriptor(tensor, 4, &type, &rank, dims, strides) != 0;
    failed |=
        cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, -3, 4, 5) != CUDNN_STATUS_BAD_PARAM;
    failed |= cudnnDestroyTensorDescriptor(tensor) != 0 || cudnnDestroy(handle) != 0;
    printf("%d %zu rank %d strides %d %d %d %d\n", failed, cudnnGetVersion(), rank, strides[0], strides[1], strides[2],
           strides[3]);
    return failed;
}
