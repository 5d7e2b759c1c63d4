/* Bad input: the runtime's own codes, nothing written, no crash. */
#include <stdint.h>

#include "check.h"

static void null(void) {
  ANSWERS(cudaErrorInvalidValue, cudaMalloc(NULL, 1));
  ANSWERS(cudaErrorInvalidValue, cudaMallocHost(NULL, 1));
  ANSWERS(cudaErrorInvalidValue, cudaHostAlloc(NULL, 1, 0));
  ANSWERS(cudaErrorInvalidValue, cudaMallocManaged(NULL, 1, 1));
  ANSWERS(cudaErrorInvalidValue, cudaMallocAsync(NULL, 1, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaMallocPitch(NULL, NULL, 1, 1));
  ANSWERS(cudaErrorInvalidValue, cudaMemGetInfo(NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaMemcpy(NULL, NULL, 1, cudaMemcpyDefault));
  ANSWERS(cudaErrorInvalidValue, cudaMemcpy3D(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaMemset(NULL, 0, 1));
  ANSWERS(cudaErrorInvalidValue, cudaHostRegister(NULL, 1, 0));
  ANSWERS(cudaErrorInvalidValue, cudaHostUnregister(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaHostGetDevicePointer(NULL, NULL, 0));
  ANSWERS(cudaErrorInvalidValue, cudaPointerGetAttributes(NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaGetDeviceCount(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaGetDevice(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0));
  ANSWERS(cudaErrorInvalidValue, cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0));
  ANSWERS(cudaErrorInvalidValue, cudaRuntimeGetVersion(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaStreamCreate(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaEventCreate(NULL));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaEventRecord(NULL, NULL));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(NULL, NULL, NULL));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaLaunchHostFunc(NULL, NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaStreamAddCallback(NULL, NULL, NULL, 0));
  ANSWERS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(NULL, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL));
  ANSWERS(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(NULL, NULL, 1, 0, cudaMemcpyHostToDevice));
  ANSWERS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaGraphCreate(NULL, 0));
  ANSWERS(cudaErrorInvalidValue, cudaGraphLaunch(NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaGraphDestroy(NULL));
  ANSWERS(cudaErrorInvalidValue, cudaGraphInstantiate(NULL, NULL, 0));
  ANSWERS(cudaErrorInvalidValue, cudaStreamEndCapture(NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaMemPoolCreate(NULL, NULL));
  ANSWERS(cudaErrorInvalidValue, cudaThreadExchangeStreamCaptureMode(NULL));
}

static void memory(void) {
  char *block, *other, host[64] = "untouched";
  size_t total, left;
  OK(cudaMalloc((void **)&block, 64));
  OK(cudaMemset(block, 7, 64));
  ANSWERS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(block, host, 4, (enum cudaMemcpyKind)5));
  ANSWERS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(block, host, 4, (enum cudaMemcpyKind)-1));
  /* Of the other kind than the direction says. */
  ANSWERS(cudaErrorInvalidValue, cudaMemcpy(host, block, 4, cudaMemcpyHostToDevice));
  ANSWERS(cudaErrorInvalidValue, cudaMemcpy(block, host, 4, cudaMemcpyDeviceToDevice));
  EXPECT(strcmp(host, "untouched") == 0);
  ANSWERS(cudaErrorInvalidValue, cudaMemset(host, 0, 4));
  /* Past the end, and more than there can be. */
  ANSWERS(cudaErrorInvalidValue, cudaMemset(block, 0, 4096));
  ANSWERS(cudaErrorInvalidValue, cudaMemset(block, 0, SIZE_MAX));
  ANSWERS(cudaErrorInvalidPitchValue, cudaMemcpy2D(block, 4, host, 8, 8, 2, cudaMemcpyHostToDevice));
  ANSWERS(cudaErrorInvalidPitchValue, cudaMemcpy2D(block, (size_t)-8, host, 8, 8, 2, cudaMemcpyHostToDevice));
  ANSWERS(cudaErrorInvalidPitchValue, cudaMemset2D(block, 4, 0, 8, 2));
  OK(cudaMemcpy(host, block, 64, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; i++) EXPECT(host[i] == 7);
  /* Freeing twice, inside, the program's own, and by the wrong function. */
  ANSWERS(cudaErrorInvalidValue, cudaFree(block + 1));
  ANSWERS(cudaErrorInvalidValue, cudaFree(host));
  ANSWERS(cudaErrorInvalidValue, cudaFreeHost(block));
  OK(cudaFree(block));
  ANSWERS(cudaErrorInvalidValue, cudaFree(block));
  ANSWERS(cudaErrorInvalidValue, cudaMemset(block, 0, 1));
  OK(cudaMemGetInfo(&left, &total));
  other = host;
  ANSWERS(cudaErrorMemoryAllocation, cudaMalloc((void **)&other, total + 1));
  EXPECT(other == NULL);
  ANSWERS(cudaErrorMemoryAllocation, cudaMalloc((void **)&other, SIZE_MAX));
  ANSWERS(cudaErrorMemoryAllocation, cudaMallocPitch((void **)&other, &left, SIZE_MAX - 3, 2));
  ANSWERS(cudaErrorInvalidValue, cudaMallocManaged((void **)&other, 0, 1));
  ANSWERS(cudaErrorInvalidValue, cudaHostAlloc((void **)&other, 1, 64));
}

static void handles(void) {
  cudaStream_t stream;
  cudaEvent_t event, untimed;
  float milliseconds;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamDestroy(stream));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(stream));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaMemsetAsync(NULL, 0, 0, stream));
  ANSWERS(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 2));
  OK(cudaEventCreate(&event));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, event, event));
  OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  OK(cudaEventRecord(event, NULL));
  OK(cudaEventRecord(untimed, NULL));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, event, untimed));
  OK(cudaEventDestroy(event));
  ANSWERS(cudaErrorInvalidResourceHandle, cudaEventDestroy(event));
  OK(cudaEventDestroy(untimed));
  ANSWERS(cudaErrorInvalidDevice, cudaSetDevice(1));
  ANSWERS(cudaErrorInvalidDevice, cudaSetDevice(-1));
  ANSWERS(cudaErrorInvalidValue, cudaDeviceGetAttribute((int *)&milliseconds, (enum cudaDeviceAttr)12345, 0));
  ANSWERS(cudaErrorUnsupportedLimit, cudaDeviceSetLimit((enum cudaLimit)77, 1));
}

int main(void) {
  null();
  memory();
  handles();
  /* The last error stays until it is asked for, and belongs to the thread. */
  EXPECT(cudaPeekAtLastError() == cudaErrorUnsupportedLimit);
  EXPECT(cudaGetLastError() == cudaErrorUnsupportedLimit);
  EXPECT(cudaGetLastError() == cudaSuccess);
  EXPECT(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
  EXPECT(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
  EXPECT(strcmp(cudaGetErrorString(cudaErrorNoKernelImageForDevice), "no kernel image for device") == 0);
  EXPECT(cudaGetErrorString((cudaError_t)4711) != NULL);
  return 0;
}
