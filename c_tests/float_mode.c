/* The floating-point mode of the caller: results do not depend on it, and it is as it was after the call.
 *
 * Not under valgrind, which keeps no flags. */
#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "check.h"

enum { CHANNELS = 512, COUNT = 8 * CHANNELS * 32 * 32 };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t desc;
static cudnnActivationDescriptor_t tanhs;
static cudnnPoolingDescriptor_t averages;
static float *a, *want, *c;

/* What a call begins with: subnormal numbers, and some that take every rounding. */
static void fill(float *to) {
    int i;
    for (i = 0; i < COUNT; i++) to[i] = a[i] * 3;
}

enum { CALLS = 4 };

/* C = 0.3 * f(A) + 0.7 * C. */
static cudnnStatus_t call(int which, float *to) {
    float alpha = 0.3f, beta = 0.7f;
    switch (which) {
    case 0: return cudnnAddTensor(handle, &alpha, desc, a, &beta, desc, to);
    case 1: return cudnnActivationForward(handle, tanhs, &alpha, desc, a, &beta, desc, to);
    case 2:
        return cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &alpha, desc, a, &beta, desc,
                                   to);
    default: return cudnnPoolingForward(handle, averages, &alpha, desc, a, &beta, desc, to);
    }
}

static int is_wanted(void) { return memcmp(c, want, COUNT * sizeof *c) == 0; }

/* The call in modes of the caller's own, twice, for the worker threads begin in the first large call. */
static void in_any_mode(int which) {
    static const int roundings[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    unsigned i;
    fill(want);
    OK(call(which, want));
    for (i = 0; i < 2 * sizeof roundings / sizeof *roundings; i++) {
        int raised;
        cudnnStatus_t status;
        fill(c);
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(FE_DIVBYZERO);
        fesetround(roundings[i / 2]);
        status = call(which, c);
        raised = fetestexcept(FE_ALL_EXCEPT);
        CHECK(fegetround() == roundings[i / 2]);
        fesetround(FE_TONEAREST);
        OK(status);
        CHECK(raised == FE_DIVBYZERO);
        CHECK(is_wanted());
    }
#if defined(__x86_64__)
    for (i = 0; i < 2; i++) {
        unsigned mode = _mm_getcsr(), after;
        cudnnStatus_t status;
        fill(c);
        /* Flush to zero and denormals are zero; then all exceptions trap. */
        mode = (mode & ~0x3fu) | 0x8040u;
        if (i == 1) mode &= ~0x1f80u;
        _mm_setcsr(mode);
        status = call(which, c);
        after = _mm_getcsr();
        _mm_setcsr(0x1f80);
        OK(status);
        CHECK(after == mode);
        CHECK(is_wanted());
    }
#endif
}

int main(void) {
    int i;
    setenv("CUDNN_SHIM_NUM_THREADS", "4", 1);
    a = (float *)malloc(COUNT * sizeof *a);
    want = (float *)malloc(COUNT * sizeof *want);
    c = (float *)malloc(COUNT * sizeof *c);
    CHECK(a != NULL && want != NULL && c != NULL);
    for (i = 0; i < COUNT; i++) a[i] = i % 2 != 0 ? 1e-39f * (float)(i % 97) : 1.0f / (float)(i % 1009 + 1);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 8, CHANNELS, 32, 32));
    OK(cudnnCreateActivationDescriptor(&tanhs));
    OK(cudnnSetActivationDescriptor(tanhs, CUDNN_ACTIVATION_TANH, CUDNN_PROPAGATE_NAN, 0));
    OK(cudnnCreatePoolingDescriptor(&averages));
    OK(cudnnSetPooling2dDescriptor(averages, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_PROPAGATE_NAN, 3, 3, 1,
                                   1, 1, 1));
    for (i = 0; i < CALLS; i++) in_any_mode(i);
    OK(cudnnDestroy(handle));
    OK(cudnnDestroyPoolingDescriptor(averages));
    OK(cudnnDestroyActivationDescriptor(tanhs));
    OK(cudnnDestroyTensorDescriptor(desc));
    free(a);
    free(want);
    free(c);
    return check_result("float_mode");
}
