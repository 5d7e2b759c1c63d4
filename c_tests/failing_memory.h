/* An allocator of the program's own, of which the n-th allocation fails and all after it, where the C library lets
 * a program replace its own; else IS_FAILING is not defined. With FAILING_PAGES defined before (and _GNU_SOURCE), mmap
 * is an allocation, too. */
#ifndef FAILING_MEMORY_H
#define FAILING_MEMORY_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "sanitized.h"

#if defined(__GLIBC__) && !IS_SANITIZED
#define IS_FAILING 1
/* Allocations until one fails, below 0: none does. Once one failed, all do until it is set again, unless it fails alone. */
static volatile long left = -1;
static volatile int failed, fails_alone;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int fails(void) {
    long seen = __atomic_load_n(&left, __ATOMIC_RELAXED);
    do {
        if (seen < 0) return 0;
        if (seen == 0) {
            if (fails_alone && __atomic_exchange_n(&left, -1, __ATOMIC_RELAXED) != 0) return 0; /* another thread's did */
            failed = 1;
            errno = ENOMEM; /* which the C library relies on */
            return 1;
        }
    } while (!__atomic_compare_exchange_n(&left, &seen, seen - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 0;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void **memory, size_t alignment, size_t size) {
    void *found = fails() ? NULL : __libc_memalign(alignment, size);
    if (found == NULL) return ENOMEM;
    *memory = found;
    return 0;
}
#ifdef FAILING_PAGES
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset) {
    return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, at, size, access, flags, file, offset);
}
#endif
#endif
#endif
