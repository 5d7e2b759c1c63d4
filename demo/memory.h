/* Memory of the core that computes: the host's, or with -DON_GPU the device's. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdlib.h>
#include <string.h>

#include "die.h"

#ifdef ON_GPU
#include <cuda_runtime_api.h>

static void cuda(cudaError_t error) {
    if (error != cudaSuccess) die("CUDA", cudaGetErrorString(error));
}
static void upload(void *device, const void *host, size_t bytes) {
    cuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}
static void download(void *host, const void *device, size_t bytes) {
    cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}
static void *reserve(size_t bytes) {
    void *device = NULL;
    cuda(cudaMalloc(&device, bytes));
    cuda(cudaMemset(device, 0, bytes));
    return device;
}
#else
static void upload(void *device, const void *host, size_t bytes) { memcpy(device, host, bytes); }
static void download(void *host, const void *device, size_t bytes) { memcpy(host, device, bytes); }
static void *reserve(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) die("calloc", "out of memory");
    return memory;
}
#endif

#endif
