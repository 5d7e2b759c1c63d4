/* Who served a call: its last plan says so. */
#ifndef CHECK_BESIDE_H
#define CHECK_BESIDE_H

#include "check.h"
#include <cudnn_shim.h>

/* Whether the thread's last call was served by the original. */
static inline int by_original(void) {
    char plan[1 << 16];
    size_t needed = 0;
    OK(cudnnShimGetLastPlan(sizeof plan, plan, &needed));
    return strstr(plan, ": by the original ") != NULL;
}

#define BY_ORIGINAL(call)                                                                                              \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        CHECK(by_original());                                                                                          \
    } while (0)

#define BY_US(call)                                                                                                    \
    do {                                                                                                               \
        OK(call);                                                                                                      \
        CHECK(!by_original());                                                                                         \
    } while (0)

#endif
