/* What all programs here share: checks that print what failed, and memory with guard bytes.
 *
 * A program prints one line per failed check and returns non-zero if there was any. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cudnn.h>

static int check_failures = 0;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                                    \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

/* A call and the status it has to return. */
#define EXPECT(status, call)                                                                                           \
    do {                                                                                                               \
        cudnnStatus_t check_status = (call);                                                                           \
        if (check_status != (status)) {                                                                                \
            fprintf(stderr, "%s:%d: %s returned %s instead of %s\n", __FILE__, __LINE__, #call,                        \
                    cudnnGetErrorString(check_status), cudnnGetErrorString(status));                                   \
            check_failures++;                                                                                          \
        }                                                                                                              \
    } while (0)

#define OK(call) EXPECT(CUDNN_STATUS_SUCCESS, call)
#define BAD(call) EXPECT(CUDNN_STATUS_BAD_PARAM, call)

#define CHECK_GUARD 64
#define CHECK_FILL 0x5A

/* `size` bytes between two guards, everything filled; release with guarded_free, which checks the guards. */
static inline void *guarded_alloc(size_t size) {
    unsigned char *block = (unsigned char *)malloc(size + 2 * CHECK_GUARD);
    if (block == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    memset(block, CHECK_FILL, size + 2 * CHECK_GUARD);
    return block + CHECK_GUARD;
}

static inline int all_filled(const void *memory, size_t size) {
    const unsigned char *bytes = (const unsigned char *)memory;
    size_t i;
    for (i = 0; i < size; i++) {
        if (bytes[i] != CHECK_FILL) return 0;
    }
    return 1;
}

static inline void guarded_free(void *memory, size_t size) {
    unsigned char *block = (unsigned char *)memory - CHECK_GUARD;
    CHECK(all_filled(block, CHECK_GUARD));
    CHECK(all_filled(block + CHECK_GUARD + size, CHECK_GUARD));
    free(block);
}

static inline int check_result(const char *program) {
    if (check_failures != 0) fprintf(stderr, "%s: %d checks failed\n", program, check_failures);
    return check_failures != 0;
}

#endif
