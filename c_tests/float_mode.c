/* The floating-point mode of the caller: results do not depend on it, and it is as it was after the call.
 *
 * Not under valgrind, which keeps no flags. */
#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "check.h"

enum { COUNT = 8 * 1024 * 32 * 32 };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t desc;
static float *a, *want, *c;

/* C = 0.3 * A + 0.7 * C of subnormal numbers that take every rounding. */
static void add(float *to) {
    float alpha = 0.3f, beta = 0.7f;
    int i;
    for (i = 0; i < COUNT; i++) to[i] = a[i] * 3;
    OK(cudnnAddTensor(handle, &alpha, desc, a, &beta, desc, to));
}

static int is_wanted(void) { return memcmp(c, want, COUNT * sizeof *c) == 0; }

int main(void) {
    static const int roundings[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    unsigned i;
    setenv("CUDNN_SHIM_NUM_THREADS", "4", 1);
    a = (float *)malloc(COUNT * sizeof *a);
    want = (float *)malloc(COUNT * sizeof *want);
    c = (float *)malloc(COUNT * sizeof *c);
    CHECK(a != NULL && want != NULL && c != NULL);
    for (i = 0; i < COUNT; i++) a[i] = i % 2 != 0 ? 1e-39f * (float)(i % 97) : 1.0f / (float)(i % 1009 + 1);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 8, 1024, 32, 32));
    add(want);
    /* Twice, for the worker threads begin in the first large call. */
    for (i = 0; i < 2 * sizeof roundings / sizeof *roundings; i++) {
        float alpha = 0.3f, beta = 0.7f;
        int raised;
        unsigned k;
        for (k = 0; k < COUNT; k++) c[k] = a[k] * 3;
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(FE_DIVBYZERO);
        fesetround(roundings[i / 2]);
        OK(cudnnAddTensor(handle, &alpha, desc, a, &beta, desc, c));
        raised = fetestexcept(FE_ALL_EXCEPT);
        CHECK(fegetround() == roundings[i / 2]);
        fesetround(FE_TONEAREST);
        CHECK(raised == FE_DIVBYZERO);
        CHECK(is_wanted());
    }
#if defined(__x86_64__)
    for (i = 0; i < 2; i++) {
        float alpha = 0.3f, beta = 0.7f;
        unsigned k, mode = _mm_getcsr(), after;
        for (k = 0; k < COUNT; k++) c[k] = a[k] * 3;
        /* Flush to zero and denormals are zero; then all exceptions trap. */
        mode = (mode & ~0x3fu) | 0x8040u;
        if (i == 1) mode &= ~0x1f80u;
        _mm_setcsr(mode);
        OK(cudnnAddTensor(handle, &alpha, desc, a, &beta, desc, c));
        after = _mm_getcsr();
        _mm_setcsr(0x1f80);
        CHECK(after == mode);
        CHECK(is_wanted());
    }
#endif
    OK(cudnnDestroy(handle));
    OK(cudnnDestroyTensorDescriptor(desc));
    free(a);
    free(want);
    free(c);
    return check_result("float_mode");
}
