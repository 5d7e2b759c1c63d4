/* Of the threads that the library begins, one cannot be made, or none from one on: the number is in CUDNN_SHIM_FUZZ_NO_THREAD,
 * with a `+` behind it if all after it fail, too. The file in CUDNN_SHIM_FUZZ_REFUSED is made when one was refused. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int is_refused(const void *caller) {
    static long begun;
    const char *which = getenv("CUDNN_SHIM_FUZZ_NO_THREAD");
    Dl_info of;
    long number;
    if (!which || !dladdr(caller, &of) || !strstr(of.dli_fname, "libcudnn")) return 0;
    number = __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
    return strchr(which, '+') ? number >= atol(which) : number == atol(which);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    if (is_refused(__builtin_return_address(0))) {
        const char *path = getenv("CUDNN_SHIM_FUZZ_REFUSED");
        int file = path ? open(path, O_CREAT | O_WRONLY, 0600) : -1;
        if (file >= 0) close(file);
        return EAGAIN;
    }
    return ((create *)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}
