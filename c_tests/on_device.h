/* Runs a program that keeps its tensors in host memory on the CUDA core: force-included in front of the program, it
 * moves both tensors of a transform to the device and back around the call.
 *
 * A call with an argument that does not allow that is handed on as it is, for it has to be refused anyway. */
#ifndef ON_DEVICE_H
#define ON_DEVICE_H

#include <stdint.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

/* A tensor on the device, at an address that is aligned as the one on the host is. */
struct on_device {
    char *allocation, *data;
    size_t size;
};

static void on_device_check(cudaError_t error) {
    if (error != cudaSuccess) abort();
}

static inline int on_device_size(cudnnTensorDescriptor_t desc, size_t *size) {
    return cudnnGetTensorSizeInBytes(desc, size) == CUDNN_STATUS_SUCCESS && *size > 0;
}

static inline struct on_device on_device_copy(const void *host, size_t size) {
    struct on_device tensor;
    void *allocation = NULL;
    const size_t shift = (size_t)((uintptr_t)host % 64);
    on_device_check(cudaMalloc(&allocation, size + shift));
    tensor.allocation = (char *)allocation;
    tensor.data = tensor.allocation + shift;
    tensor.size = size;
    on_device_check(cudaMemcpy(tensor.data, host, size, cudaMemcpyHostToDevice));
    return tensor;
}

static inline cudnnStatus_t on_device_transform(cudnnHandle_t handle, int mapped, cudnnTensorTransformDescriptor_t map,
                                                const void *alpha, cudnnTensorDescriptor_t x_desc, const void *x,
                                                const void *beta, cudnnTensorDescriptor_t y_desc, void *y) {
    size_t x_size = 0, y_size = 0;
    struct on_device dx, dy;
    cudnnStatus_t status;
    const int possible = x != NULL && y != NULL && on_device_size(x_desc, &x_size) && on_device_size(y_desc, &y_size);
    if (possible) {
        dy = on_device_copy(y, y_size);
        dx = x == y ? dy : on_device_copy(x, x_size);
    } else {
        dx.data = (char *)(uintptr_t)x;
        dy.data = (char *)y;
    }
    status = mapped ? cudnnTransformTensorEx(handle, map, alpha, x_desc, dx.data, beta, y_desc, dy.data)
                    : cudnnTransformTensor(handle, alpha, x_desc, dx.data, beta, y_desc, dy.data);
    if (possible) {
        on_device_check(cudaMemcpy(y, dy.data, y_size, cudaMemcpyDeviceToHost));
        on_device_check(cudaFree(dy.allocation));
        if (x != y) on_device_check(cudaFree(dx.allocation));
    }
    return status;
}

#define cudnnTransformTensor(handle, alpha, x_desc, x, beta, y_desc, y) \
    on_device_transform(handle, 0, NULL, alpha, x_desc, x, beta, y_desc, y)
#define cudnnTransformTensorEx(handle, map, alpha, x_desc, x, beta, y_desc, y) \
    on_device_transform(handle, 1, map, alpha, x_desc, x, beta, y_desc, y)

#endif
