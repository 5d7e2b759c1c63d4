// The entry points of libcuda.so.1 for devices, contexts, memory and streams.
//
// Only what the library and the tests' programs call. Work is queued and runs when somebody waits for it, so that a
// library that looks at results too early, or lends the driver parameters that do not live long enough, is found out.
#include "driver.h"

#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace driver_double {

std::recursive_mutex driver_mutex;
thread_local unsigned pushed;
thread_local int measuring;

namespace {

Context primary[DEVICES];
int primary_holders[DEVICES];
bool initialised;
// The process that started the driver.
pid_t owner;
uint64_t next_context_id = 1;
thread_local std::vector<Context *> stack;

// Complains of a context that a thread leaves behind.
struct ThreadEnd {
    ~ThreadEnd() {
        if (pushed != 0) complain("a thread ends with %u contexts pushed and not popped", pushed);
    }
};
thread_local ThreadEnd thread_end;

int setting(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value == NULL ? otherwise : atoi(value);
}

void begin(Context *context, int device) {
    context->device = device;
    context->id = next_context_id++;
    context->alive = true;
    context->given_back = false;
    context->error = SUCCESS;
    release_all(device);
}

int copy(uintptr_t dst, uintptr_t src, size_t size, bool to_device, bool from_device) {
    const int code = settle();
    if (code != SUCCESS) return code;
    const int device = current_context()->device;
    if ((to_device && !reaches(dst, size, device)) || (from_device && !reaches(src, size, device)))
        return size == 0 ? SUCCESS : INVALID_VALUE;
    open_memory();
    memmove(reinterpret_cast<void *>(dst), reinterpret_cast<void *>(src), size);
    close_memory();
    return SUCCESS;
}

}  // namespace

// Sleeps for so many milliseconds, outside the driver's lock; what it is in the midst of counts as a call.
void slow_down(const char *variable, const char *what) {
    const int time = setting(variable, 0);
    if (time == 0) return;
    enter(what);
    usleep(unsigned(time) * 1000);
}

// A device with all that the kernels use, unless a test wants another.
int capability() { return setting("DRIVER_DOUBLE_CAPABILITY", 90); }

bool forked() { return initialised && getpid() != owner; }

int need_initialised() { return initialised ? SUCCESS : NOT_INITIALIZED; }

Context *current_context() { return stack.empty() ? NULL : stack.back(); }

// What a context returns that is no more. A primary one is known by its device as long as somebody holds it; of one that a
// program created and destroyed, or that everybody gave back, nothing is left to ask, and what happens is undefined.
static int gone(const Context *context, const char *use) {
    if (context < primary || context >= primary + DEVICES) {
        complain("a context %s that was created and destroyed", use);
    } else if (context->given_back) {
        complain("a context %s that its last holder gave back", use);
    }
    return setting("DRIVER_DOUBLE_GONE", CONTEXT_IS_DESTROYED);
}

int need_context() {
    if (!initialised) return NOT_INITIALIZED;
    Context *context = current_context();
    if (context == NULL) return INVALID_CONTEXT;
    if (!context->alive) return gone(context, "is current");
    return context->error;
}

void not_inside_a_call(const char *entry) {
    (void)&thread_end;
    if (pushed == 0 || measuring > 0) return;
    complain("%s while a context is pushed: the library allocates or waits inside a call, or left its context", entry);
}

}  // namespace driver_double

using namespace driver_double;

ENTRY(cuInit, unsigned flags) {
    slow_down("DRIVER_DOUBLE_SLOW_START", "starting");
    START(cuInit);
    if (flags != 0) return INVALID_VALUE;
    initialised = true;
    owner = getpid();
    return SUCCESS;
}
ENTRY(cuDriverGetVersion, int *version) {
    START(cuDriverGetVersion);
    *version = setting("DRIVER_DOUBLE_VERSION", 12000);
    return SUCCESS;
}
ENTRY(cuGetErrorName, int code, const char **name) {
    START(cuGetErrorName);
    static const struct {
        int code;
        const char *name;
    } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"},
        {2, "CUDA_ERROR_OUT_OF_MEMORY"},
        {3, "CUDA_ERROR_NOT_INITIALIZED"},
        {4, "CUDA_ERROR_DEINITIALIZED"},
        {100, "CUDA_ERROR_NO_DEVICE"},
        {200, "CUDA_ERROR_INVALID_IMAGE"},
        {201, "CUDA_ERROR_INVALID_CONTEXT"},
        {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {218, "CUDA_ERROR_INVALID_PTX"},
        {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
        {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"},
        {300, "CUDA_ERROR_INVALID_SOURCE"},
        {400, "CUDA_ERROR_INVALID_HANDLE"},
        {500, "CUDA_ERROR_NOT_FOUND"},
        {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
        {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
        {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
        {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    };
    *name = NULL;
    for (const auto &known : names) {
        if (known.code == code) *name = known.name;
    }
    return *name == NULL ? INVALID_VALUE : SUCCESS;
}

// Devices and contexts ------------------------------------------------------------------------------------------------

ENTRY(cuDeviceGetCount, int *count) {
    START(cuDeviceGetCount);
    NEED(need_initialised());
    *count = DEVICES;
    return SUCCESS;
}
ENTRY(cuDeviceGet, int *device, int ordinal) {
    START(cuDeviceGet);
    NEED(need_initialised());
    if (ordinal < 0 || ordinal >= DEVICES) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}
ENTRY(cuDeviceGetName, char *name, int size, int device) {
    START(cuDeviceGetName);
    NEED(need_initialised());
    snprintf(name, size, "Driver Double %d", device);
    return SUCCESS;
}
// The compute capability, and what memory the device has.
ENTRY(cuDeviceGetAttribute, int *value, int attribute, int device) {
    START(cuDeviceGetAttribute);
    NEED(need_initialised());
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    switch (attribute) {
    case 75: *value = capability() / 10; return SUCCESS;
    case 76: *value = capability() % 10; return SUCCESS;
    case 88: *value = is_pageable(); return SUCCESS;
    case 83:
    case 89:
    case 102:
    case 115: *value = 1; return SUCCESS;
    default: return INVALID_VALUE;
    }
}
ENTRY(cuDevicePrimaryCtxGetState, int device, unsigned *flags, int *active) {
    START(cuDevicePrimaryCtxGetState);
    NEED(need_initialised());
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    *flags = 0;
    *active = primary[device].alive;
    return SUCCESS;
}
ENTRY(cuDevicePrimaryCtxRetain, Context **context, int device) {
    // Only a thread that has used a device before: the library, that is.
    if (current_context() != NULL) slow_down("DRIVER_DOUBLE_SLOW_RETAIN", "retaining");
    START(cuDevicePrimaryCtxRetain);
    NEED(need_initialised());
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    NEED(not_while_capturing("cuDevicePrimaryCtxRetain"));
    if (primary_holders[device]++ == 0 || !primary[device].alive) begin(&primary[device], device);
    *context = &primary[device];
    return SUCCESS;
}
ENTRY(cuDevicePrimaryCtxRelease_v2, int device) {
    START(cuDevicePrimaryCtxRelease_v2);
    NEED(need_initialised());
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    if (primary_holders[device] == 0) {
        complain("the primary context of device %d is released more often than it is retained", device);
        return INVALID_CONTEXT;
    }
    if (--primary_holders[device] == 0) {
        primary[device].alive = false;
        primary[device].given_back = true;
        release_all(device);
    }
    return SUCCESS;
}
// The context stays current where it was, and is none until it is retained anew: at the same address, as another context.
// The documentation lets its holders hold it on; with DRIVER_DOUBLE_RESET=forgets they are forgotten, so that giving back
// what was taken before the reset takes it from somebody else.
ENTRY(cuDevicePrimaryCtxReset_v2, int device) {
    START(cuDevicePrimaryCtxReset_v2);
    NEED(need_initialised());
    if (device < 0 || device >= DEVICES) return INVALID_DEVICE;
    primary[device].alive = false;
    forget(&primary[device]);
    release_all(device);
    const char *reset = getenv("DRIVER_DOUBLE_RESET");
    if (reset != NULL && strcmp(reset, "forgets") == 0) primary_holders[device] = 0;
    return SUCCESS;
}
ENTRY(cuCtxCreate_v2, Context **context, unsigned, int device) {
    START(cuCtxCreate_v2);
    NEED(need_initialised());
    NEED(not_while_capturing("cuCtxCreate"));
    *context = new Context();
    begin(*context, device);
    stack.push_back(*context);
    return SUCCESS;
}
ENTRY(cuCtxDestroy_v2, Context *context) {
    START(cuCtxDestroy_v2);
    NEED(need_initialised());
    context->alive = false;
    release_all(context->device);
    if (current_context() == context) stack.pop_back();
    return SUCCESS;
}
ENTRY(cuCtxGetCurrent, Context **context) {
    START(cuCtxGetCurrent);
    NEED(need_initialised());
    *context = current_context();
    return SUCCESS;
}
ENTRY(cuCtxSetCurrent, Context *context) {
    START(cuCtxSetCurrent);
    NEED(need_initialised());
    if (!stack.empty()) stack.pop_back();
    if (context != NULL) stack.push_back(context);
    return SUCCESS;
}
ENTRY(cuCtxPushCurrent_v2, Context *context) {
    START(cuCtxPushCurrent_v2);
    NEED(need_initialised());
    if (context == NULL) return INVALID_CONTEXT;
    if (!context->alive) return gone(context, "is pushed");
    stack.push_back(context);
    ++pushed;
    return SUCCESS;
}
ENTRY(cuCtxPopCurrent_v2, Context **context) {
    START(cuCtxPopCurrent_v2);
    NEED(need_initialised());
    if (stack.empty()) return INVALID_CONTEXT;
    if (context != NULL) *context = stack.back();
    stack.pop_back();
    if (pushed == 0) {
        complain("a context is popped that was not pushed");
    } else {
        --pushed;
    }
    return SUCCESS;
}
ENTRY(cuCtxGetDevice, int *device) {
    START(cuCtxGetDevice);
    NEED(need_context());
    *device = current_context()->device;
    return SUCCESS;
}
ENTRY(cuCtxGetId, Context *context, uint64_t *id) {
    START(cuCtxGetId);
    NEED(need_initialised());
    if (!context->alive) return gone(context, "is asked for its id");
    *id = context->id;
    return SUCCESS;
}
ENTRY(cuCtxSynchronize, void) {
    START(cuCtxSynchronize);
    not_inside_a_call("cuCtxSynchronize");
    NEED(need_context());
    return settle();
}

// Memory --------------------------------------------------------------------------------------------------------------

ENTRY(cuMemAlloc_v2, uintptr_t *address, size_t size) {
    START(cuMemAlloc_v2);
    not_inside_a_call("cuMemAlloc");
    NEED(need_context());
    NEED(not_while_capturing("cuMemAlloc"));
    if (size == 0) return INVALID_VALUE;
    const Allocation *allocation = allocate(size, current_context()->device, Kind::PLAIN);
    if (allocation == NULL) return OUT_OF_MEMORY;
    *address = allocation->start;
    return SUCCESS;
}
ENTRY(cuMemFree_v2, uintptr_t address) {
    START(cuMemFree_v2);
    not_inside_a_call("cuMemFree");
    NEED(need_context());
    NEED(settle());
    return address == 0 || release(address) ? SUCCESS : INVALID_VALUE;
}
// More than any test asks for, unless one wants less: megabytes.
ENTRY(cuMemGetInfo_v2, size_t *free, size_t *total) {
    START(cuMemGetInfo_v2);
    NEED(need_context());
    *total = *free = size_t(setting("DRIVER_DOUBLE_FREE", 1 << 20)) << 20;
    return SUCCESS;
}
ENTRY(cuMemcpyHtoD_v2, uintptr_t dst, const void *src, size_t size) {
    START(cuMemcpyHtoD_v2);
    not_inside_a_call("cuMemcpyHtoD");
    NEED(need_context());
    return copy(dst, reinterpret_cast<uintptr_t>(src), size, true, false);
}
ENTRY(cuMemcpyDtoH_v2, void *dst, uintptr_t src, size_t size) {
    START(cuMemcpyDtoH_v2);
    not_inside_a_call("cuMemcpyDtoH");
    NEED(need_context());
    return copy(reinterpret_cast<uintptr_t>(dst), src, size, false, true);
}
ENTRY(cuMemcpyDtoD_v2, uintptr_t dst, uintptr_t src, size_t size) {
    START(cuMemcpyDtoD_v2);
    not_inside_a_call("cuMemcpyDtoD");
    NEED(need_context());
    return copy(dst, src, size, true, true);
}
ENTRY(cuMemsetD8_v2, uintptr_t address, unsigned char value, size_t size) {
    START(cuMemsetD8_v2);
    not_inside_a_call("cuMemsetD8");
    NEED(need_context());
    NEED(settle());
    if (!reaches(address, size, current_context()->device)) return INVALID_VALUE;
    open_memory();
    memset(reinterpret_cast<void *>(address), value, size);
    close_memory();
    return SUCCESS;
}
