/* Runs a program that keeps its tensors in host memory on the CUDA core: force-included in front of the program, it
 * moves the tensors of a transform, the tensors and indices of a reduction, and the tensors and the workspace of a forward
 * convolution to the device and back around the call.
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

static inline void on_device_back(struct on_device tensor, void *host) {
    on_device_check(cudaMemcpy(host, tensor.data, tensor.size, cudaMemcpyDeviceToHost));
    on_device_check(cudaFree(tensor.allocation));
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
        on_device_back(dy, y);
        if (x != y) on_device_check(cudaFree(dx.allocation));
    }
    return status;
}

static inline cudnnStatus_t on_device_reduce(cudnnHandle_t handle, cudnnReduceTensorDescriptor_t reduce, void *indices,
                                             size_t indices_size, void *workspace, size_t workspace_size,
                                             const void *alpha, cudnnTensorDescriptor_t a_desc, const void *a,
                                             const void *beta, cudnnTensorDescriptor_t c_desc, void *c) {
    size_t a_size = 0, c_size = 0;
    struct on_device da, dc, di;
    cudnnStatus_t status;
    const int possible = a != NULL && c != NULL && on_device_size(a_desc, &a_size) && on_device_size(c_desc, &c_size);
    const int indexed = indices != NULL && indices_size > 0;
    if (!possible)
        return cudnnReduceTensor(handle, reduce, indices, indices_size, workspace, workspace_size, alpha, a_desc, a,
                                 beta, c_desc, c);
    da = on_device_copy(a, a_size);
    dc = on_device_copy(c, c_size);
    di.data = (char *)indices;
    if (indexed) di = on_device_copy(indices, indices_size);
    status = cudnnReduceTensor(handle, reduce, di.data, indices_size, workspace, workspace_size, alpha, a_desc, da.data,
                               beta, c_desc, dc.data);
    on_device_back(dc, c);
    if (indexed) on_device_back(di, indices);
    on_device_check(cudaFree(da.allocation));
    return status;
}

static inline int on_device_filter(cudnnFilterDescriptor_t desc, size_t *size) {
    return cudnnGetFilterSizeInBytes(desc, size) == CUDNN_STATUS_SUCCESS && *size > 0;
}

static inline cudnnStatus_t on_device_convolution(cudnnHandle_t handle, const void *alpha, cudnnTensorDescriptor_t x_desc,
                                                  const void *x, cudnnFilterDescriptor_t w_desc, const void *w,
                                                  cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
                                                  void *workspace, size_t workspace_size, const void *beta,
                                                  cudnnTensorDescriptor_t y_desc, void *y) {
    size_t x_size = 0, w_size = 0, y_size = 0;
    struct on_device dx, dw, dy, space;
    cudnnStatus_t status;
    const int given = workspace != NULL && workspace_size > 0;
    if (x == NULL || w == NULL || y == NULL || !on_device_size(x_desc, &x_size) || !on_device_filter(w_desc, &w_size) ||
        !on_device_size(y_desc, &y_size))
        return cudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, conv, algo, workspace, workspace_size, beta,
                                       y_desc, y);
    dx = on_device_copy(x, x_size);
    dw = on_device_copy(w, w_size);
    dy = on_device_copy(y, y_size);
    space.data = (char *)workspace;
    if (given) space = on_device_copy(workspace, workspace_size);
    status = cudnnConvolutionForward(handle, alpha, x_desc, dx.data, w_desc, dw.data, conv, algo, space.data,
                                     workspace_size, beta, y_desc, dy.data);
    on_device_back(dy, y);
    if (given) on_device_back(space, workspace);
    on_device_check(cudaFree(dx.allocation));
    on_device_check(cudaFree(dw.allocation));
    return status;
}

static inline cudnnStatus_t on_device_find(cudnnHandle_t handle, cudnnTensorDescriptor_t x_desc, const void *x,
                                           cudnnFilterDescriptor_t w_desc, const void *w,
                                           cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y_desc, void *y,
                                           int most, int *count, cudnnConvolutionFwdAlgoPerf_t *records,
                                           void *workspace, size_t workspace_size) {
    size_t x_size = 0, w_size = 0, y_size = 0;
    struct on_device dx, dw, dy;
    cudnnStatus_t status;
    if (!on_device_size(x_desc, &x_size) || !on_device_filter(w_desc, &w_size) || !on_device_size(y_desc, &y_size)) abort();
    dx = on_device_copy(x, x_size);
    dw = on_device_copy(w, w_size);
    dy = on_device_copy(y, y_size);
    status = cudnnFindConvolutionForwardAlgorithmEx(handle, x_desc, dx.data, w_desc, dw.data, conv, y_desc, dy.data, most,
                                                    count, records, workspace, workspace_size);
    on_device_back(dy, y);
    on_device_check(cudaFree(dx.allocation));
    on_device_check(cudaFree(dw.allocation));
    return status;
}

#define cudnnConvolutionForward(handle, alpha, x_desc, x, w_desc, w, conv, algo, workspace, workspace_size, beta,   \
                                y_desc, y)                                                                           \
    on_device_convolution(handle, alpha, x_desc, x, w_desc, w, conv, algo, workspace, workspace_size, beta, y_desc, y)
#define cudnnFindConvolutionForwardAlgorithmEx(handle, x_desc, x, w_desc, w, conv, y_desc, y, most, count, records,  \
                                               workspace, workspace_size)                                            \
    on_device_find(handle, x_desc, x, w_desc, w, conv, y_desc, y, most, count, records, workspace, workspace_size)
#define cudnnTransformTensor(handle, alpha, x_desc, x, beta, y_desc, y) \
    on_device_transform(handle, 0, NULL, alpha, x_desc, x, beta, y_desc, y)
#define cudnnTransformTensorEx(handle, map, alpha, x_desc, x, beta, y_desc, y) \
    on_device_transform(handle, 1, map, alpha, x_desc, x, beta, y_desc, y)
#define cudnnReduceTensor(handle, reduce, indices, indices_size, workspace, workspace_size, alpha, a_desc, a, beta,    \
                          c_desc, c)                                                                                   \
    on_device_reduce(handle, reduce, indices, indices_size, workspace, workspace_size, alpha, a_desc, a, beta, c_desc, \
                     c)

#endif
