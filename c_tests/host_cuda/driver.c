/* The driver beside the runtime: one device, its context, addresses of functions; what is refused, by its name. */
#include <cuda.h>
#include <dlfcn.h>

#include "check.h"

#define DONE(call) EXPECT((call) == CUDA_SUCCESS)

static void device(void) {
  CUdevice device = -1;
  int count = 0, driver = 0, runtime = 0, major = 0, value = 0;
  char name[32], brief[6];
  size_t bytes = 0, free_bytes = 0, total = 0;
  DONE(cuInit(0));
  EXPECT(cuInit(1) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuDriverGetVersion(&driver));
  OK(cudaDriverGetVersion(&runtime));
  EXPECT(driver == runtime);
  DONE(cuDeviceGetCount(&count));
  DONE(cuDeviceGet(&device, 0));
  EXPECT(count == 1 && device == 0);
  device = 7;
  EXPECT(cuDeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE && device == 7);
  EXPECT(cuDeviceGet(NULL, 0) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuDeviceGetName(name, sizeof name, 0));
  EXPECT(strcmp(name, "cudnn-shim host") == 0);
  DONE(cuDeviceGetName(brief, sizeof brief, 0));
  EXPECT(strcmp(brief, "cudnn") == 0);
  EXPECT(cuDeviceGetName(name, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT(major == value && major > 0);
  EXPECT(cuDeviceGetAttribute(&value, (CUdevice_attribute)99999, 0) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuDeviceTotalMem(&bytes, 0));
  DONE(cuMemGetInfo(&free_bytes, &total));
  EXPECT(bytes == total && free_bytes <= total);
}

static void context(void) {
  CUcontext primary = NULL, current = NULL, of_stream = NULL, popped = NULL;
  CUdevice device = -1;
  unsigned int flags = 9;
  int active = 0, place;
  cudaStream_t stream;
  DONE(cuDevicePrimaryCtxRetain(&primary, 0));
  EXPECT(primary != NULL && cuDevicePrimaryCtxRetain(&current, 1) == CUDA_ERROR_INVALID_DEVICE && current == NULL);
  DONE(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT(flags == 0 && active == 1);
  DONE(cuCtxGetCurrent(&current));
  EXPECT(current == primary);
  DONE(cuCtxSetCurrent(NULL));
  DONE(cuCtxSetCurrent(primary));
  EXPECT(cuCtxSetCurrent((CUcontext)&place) == CUDA_ERROR_INVALID_CONTEXT);
  DONE(cuCtxPushCurrent(primary));
  DONE(cuCtxPopCurrent(&popped));
  DONE(cuCtxPopCurrent(NULL));
  EXPECT(popped == primary);
  DONE(cuCtxGetDevice(&device));
  EXPECT(device == 0);
  OK(cudaStreamCreate(&stream));
  DONE(cuStreamGetCtx(stream, &of_stream));
  EXPECT(of_stream == primary);
  OK(cudaStreamDestroy(stream));
  EXPECT(cuStreamGetCtx(stream, &of_stream) == CUDA_ERROR_INVALID_HANDLE);
  DONE(cuCtxSynchronize());
  DONE(cuDevicePrimaryCtxRelease(0));
}

static void modes_and_codes(void) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  const char *name = NULL, *text = NULL;
  DONE(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  DONE(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT(cuThreadExchangeStreamCaptureMode(NULL) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuGetErrorName(CUDA_ERROR_INVALID_CONTEXT, &name));
  DONE(cuGetErrorString(CUDA_SUCCESS, &text));
  EXPECT(strcmp(name, "CUDA_ERROR_INVALID_CONTEXT") == 0 && strcmp(text, "no error") == 0);
  EXPECT(cuGetErrorName((CUresult)123456, &name) == CUDA_ERROR_INVALID_VALUE && name == NULL);
}

static void addresses(void) {
  void *address = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  CUcontext context = NULL, found = NULL;
  CUresult (*current)(CUcontext *);
  CUresult (*tables)(const void **, const void *);
  const void *table = &address;
  int (*launch)(void);
  EXPECT(library != NULL);
  DONE(cuGetProcAddress("cuCtxGetCurrent", &address, 12000, 0, &status));
  EXPECT(address != NULL && status == CU_GET_PROC_ADDRESS_SUCCESS);
  *(void **)&current = address;
  DONE(cuCtxGetCurrent(&context));
  DONE(current(&found));
  EXPECT(found == context);
  EXPECT(cuGetProcAddress("cuNever", &address, 12000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  EXPECT(address == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT(cuGetProcAddress(NULL, &address, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
  /* A runtime that is linked into a program asks for these, and sees no device. */
  *(void **)&tables = dlsym(library, "cuGetExportTable");
  EXPECT(tables != NULL && tables(&table, "0123456789abcde") == CUDA_ERROR_NO_DEVICE && table == NULL);
  *(void **)&launch = dlsym(library, "cuLaunchKernel");
  EXPECT(launch != NULL && launch() == CUDA_ERROR_NOT_SUPPORTED);
}

int main(void) {
  device();
  context();
  modes_and_codes();
  addresses();
  return 0;
}
