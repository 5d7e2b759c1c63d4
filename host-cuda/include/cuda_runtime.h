/* The CUDA runtime on host memory for C and C++. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CUDA_RUNTIME_H
#define CUDNN_SHIM_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"
#include "driver_functions.h"
#include "library_types.h"
#include "vector_functions.h"

#ifdef __cplusplus
/* Pointers to any type where C takes pointers to void. */
template <class T>
static inline cudaError_t cudaMalloc(T **pointer, size_t size) {
  return ::cudaMalloc(reinterpret_cast<void **>(pointer), size);
}

template <class T>
static inline cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned int flags = 0) {
  return ::cudaHostAlloc(reinterpret_cast<void **>(pointer), size, flags);
}

template <class T>
static inline cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned int flags) {
  return ::cudaHostAlloc(reinterpret_cast<void **>(pointer), size, flags);
}

template <class T>
static inline cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags) {
  return ::cudaHostGetDevicePointer(reinterpret_cast<void **>(device), host, flags);
}

template <class T>
static inline cudaError_t cudaMallocManaged(T **pointer, size_t size, unsigned int flags = cudaMemAttachGlobal) {
  return ::cudaMallocManaged(reinterpret_cast<void **>(pointer), size, flags);
}

template <class T>
static inline cudaError_t cudaMallocPitch(T **pointer, size_t *pitch, size_t width, size_t height) {
  return ::cudaMallocPitch(reinterpret_cast<void **>(pointer), pitch, width, height);
}

template <class T>
static inline cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
  return ::cudaMallocAsync(reinterpret_cast<void **>(pointer), size, stream);
}

static inline cudaError_t cudaMallocHost(void **pointer, size_t size, unsigned int flags) {
  return ::cudaHostAlloc(pointer, size, flags);
}

static inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
  return ::cudaEventCreateWithFlags(event, flags);
}

template <class T>
static inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *src, size_t count, size_t offset = 0,
                                             enum cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return ::cudaMemcpyToSymbol(static_cast<const void *>(&symbol), src, count, offset, kind);
}

template <class T>
static inline cudaError_t cudaMemcpyFromSymbol(void *dst, const T &symbol, size_t count, size_t offset = 0,
                                               enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return ::cudaMemcpyFromSymbol(dst, static_cast<const void *>(&symbol), count, offset, kind);
}

template <class T>
static inline cudaError_t cudaGetSymbolAddress(void **pointer, const T &symbol) {
  return ::cudaGetSymbolAddress(pointer, static_cast<const void *>(&symbol));
}

template <class T>
static inline cudaError_t cudaGetSymbolSize(size_t *size, const T &symbol) {
  return ::cudaGetSymbolSize(size, static_cast<const void *>(&symbol));
}
#endif

#endif
