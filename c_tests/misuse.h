/* For the programs that misuse the library on purpose: foreign descriptor values and watched outputs.
 *
 * Unlike the other programs these go where the original crashes (a destroyed descriptor, a NULL output), so they are
 * meant for this library only. */
#ifndef MISUSE_H
#define MISUSE_H

#include "check.h"

static const int dims[4] = {2, 3, 4, 5}, strides[4] = {60, 20, 5, 1};

/* Outputs of the getters, all filled; `untouched` says whether a refused call left them so. */
static union {
    int i[16];
    size_t size;
    unsigned char bytes[128];
} out[10];

static inline void fill(void) { memset(out, CHECK_FILL, sizeof out); }
static inline int untouched(void) { return all_filled(out, sizeof out); }

#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        fill();                                                                                                        \
        BAD(call);                                                                                                     \
        CHECK(untouched());                                                                                            \
    } while (0)

#define UNSUPPORTED(call) EXPECT(CUDNN_STATUS_NOT_SUPPORTED, call)

#define INT(n) (out[n].i)
#define ENUM(type, n) ((type *)(void *)out[n].i)

/* No enumeration of the library has these values. */
static const int wild_enums[] = {0x7fffffff, -1, 1000, -0x7fffffff - 1};
#define WILD_ENUMS (sizeof wild_enums / sizeof wild_enums[0])

/* Calls `check` with NULL and with everything that is not a living object: destroyed descriptors and handles (before
 * and after their place was taken again), addresses of something else, plain numbers. */
static inline void with_foreign(void (*check)(void *)) {
    static int object[64];
    cudnnTensorDescriptor_t dead, reborn;
    cudnnHandle_t dead_handle;
    check(NULL);
    OK(cudnnCreateTensorDescriptor(&dead));
    OK(cudnnDestroyTensorDescriptor(dead));
    check((void *)dead);
    OK(cudnnCreateTensorDescriptor(&reborn)); /* may reuse the place, not the identity */
    CHECK(reborn != dead);
    check((void *)dead);
    OK(cudnnDestroyTensorDescriptor(reborn));
    OK(cudnnCreate(&dead_handle));
    OK(cudnnDestroy(dead_handle));
    check((void *)dead_handle);
    check((void *)object);
    check((void *)(uintptr_t)1);
    check((void *)(uintptr_t)0x5A5A5A5A5A5A5A5Au);
    check((void *)UINTPTR_MAX);
}

#endif
