// A libcudart.so.12 for tests: what cuda_runtime_api.h declares, on top of the driver double.
#include "cuda_runtime_api.h"

#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef struct Context Context;
extern "C" {
int cuInit(unsigned);
int cuDeviceGetCount(int *);
int cuGetErrorName(int, const char **);
int cuDevicePrimaryCtxRetain(Context **, int);
int cuDevicePrimaryCtxReset_v2(int);
int cuCtxGetCurrent(Context **);
int cuCtxSetCurrent(Context *);
int cuCtxGetDevice(int *);
int cuCtxSynchronize();
int cuMemAlloc_v2(uintptr_t *, size_t);
int cuMemFree_v2(uintptr_t);
int cuMemcpyHtoD_v2(uintptr_t, const void *, size_t);
int cuMemcpyDtoH_v2(void *, uintptr_t, size_t);
int cuMemcpyDtoD_v2(uintptr_t, uintptr_t, size_t);
int cuMemsetD8_v2(uintptr_t, unsigned char, size_t);
int cuStreamCreate(cudaStream_t *, unsigned);
int cuStreamDestroy_v2(cudaStream_t);
int cuStreamSynchronize(cudaStream_t);
}

static thread_local int last_error;
// The runtime keeps each primary context for the life of the process.
static Context *primary[16];

static int keep(int code) {
    if (code != 0) last_error = code;
    return code;
}

static int choose(int device) {
    if (device < 0 || device >= 16) return 101;
    if (const int code = cuInit(0)) return code;
    if (primary[device] == nullptr) {
        if (const int code = cuDevicePrimaryCtxRetain(&primary[device], device)) return code;
    }
    return cuCtxSetCurrent(primary[device]);
}

// A thread that has chosen no device works on device 0; a device that was reset is used anew.
static int ready() {
    Context *current = nullptr;
    int device = 0;
    if (const int code = cuInit(0)) return code;
    if (const int code = cuCtxGetCurrent(&current)) return code;
    if (current == nullptr) return choose(0);
    if (cuCtxGetDevice(&device) == 709) {
        for (device = 0; device < 16; device++) {
            if (primary[device] == current) return cuDevicePrimaryCtxRetain(&primary[device], device);
        }
    }
    return 0;
}

#define READY \
    if (const int code = ready()) return keep(code)

static uintptr_t address_of(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

EXPORT int cudaGetDeviceCount(int *count) {
    if (const int code = cuInit(0)) return keep(code);
    return keep(cuDeviceGetCount(count));
}
EXPORT int cudaSetDevice(int device) { return keep(choose(device)); }
EXPORT int cudaGetDevice(int *device) {
    READY;
    return keep(cuCtxGetDevice(device));
}
EXPORT int cudaMalloc(void **address, size_t size) {
    READY;
    return keep(cuMemAlloc_v2(reinterpret_cast<uintptr_t *>(address), size));
}
EXPORT int cudaFree(void *address) {
    READY;
    return keep(cuMemFree_v2(address_of(address)));
}
EXPORT int cudaMemcpy(void *dst, const void *src, size_t size, cudaMemcpyKind kind) {
    READY;
    switch (kind) {
    case cudaMemcpyHostToDevice: return keep(cuMemcpyHtoD_v2(address_of(dst), src, size));
    case cudaMemcpyDeviceToHost: return keep(cuMemcpyDtoH_v2(dst, address_of(src), size));
    case cudaMemcpyDeviceToDevice: return keep(cuMemcpyDtoD_v2(address_of(dst), address_of(src), size));
    }
    return keep(21);  // cudaErrorInvalidMemcpyDirection
}
EXPORT int cudaMemset(void *address, int value, size_t size) {
    READY;
    return keep(cuMemsetD8_v2(address_of(address), static_cast<unsigned char>(value), size));
}
EXPORT int cudaStreamCreate(cudaStream_t *stream) {
    READY;
    return keep(cuStreamCreate(stream, 0));
}
EXPORT int cudaStreamDestroy(cudaStream_t stream) { return keep(cuStreamDestroy_v2(stream)); }
EXPORT int cudaStreamSynchronize(cudaStream_t stream) {
    READY;
    return keep(cuStreamSynchronize(stream));
}
EXPORT int cudaDeviceSynchronize() {
    READY;
    return keep(cuCtxSynchronize());
}
EXPORT int cudaDeviceReset() {
    READY;
    int device = 0;
    if (const int code = cuCtxGetDevice(&device)) return keep(code);
    return keep(cuDevicePrimaryCtxReset_v2(device));
}
EXPORT int cudaGetLastError() {
    const int error = last_error;
    last_error = 0;
    return error;
}
EXPORT const char *cudaGetErrorString(int error) {
    const char *name = nullptr;
    return error == 0 ? "no error" : cuGetErrorName(error, &name) == 0 ? name : "unknown error";
}
