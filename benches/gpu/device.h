/* What the programs that time a GPU share: the driver, as far as they need it, and how a call is timed.
 *
 * Before each start event a large memset is queued: the device is busy with it while the host prepares the call, so that
 * what is timed is the work and not the way to it, and nothing of the operands is left in the cache. Ours and a copy of as
 * many bytes are timed alternately, on a device that has been kept busy until its clocks have risen. */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

typedef uint64_t address;
static struct {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*alloc)(address *, size_t);
    int (*release)(address);
    int (*to_device)(address, const void *, size_t);
    int (*to_host)(void *, address, size_t);
    int (*copy)(address, address, size_t, void *);
    int (*set)(address, unsigned char, size_t, void *);
    int (*stream)(void **, unsigned);
    int (*synchronize)(void *);
    int (*event)(void **, unsigned);
    int (*record)(void *, void *);
    int (*wait)(void *);
    int (*elapsed)(float *, void *, void *);
    int (*name)(char *, int, int);
} cu;

#define CU(call)                                    \
    do {                                            \
        int status_ = (call);                       \
        if (status_) die("%s: %d", #call, status_); \
    } while (0)

#define CUDNN(call)                                                      \
    do {                                                                 \
        cudnnStatus_t status_ = (call);                                  \
        if (status_) die("%s: %s", #call, cudnnGetErrorString(status_)); \
    } while (0)

/* ---- Options that all programs have. -------------------------------------------------------------------------------- */

enum { MOST_REPEATS = 1001 };
/* How often a row is timed; the megabytes of the memset; the milliseconds for which the device is kept busy first. */
static int repeats = 51, flush = 256, spin = 500;

/* Takes one of these options with its value; 0 if it is another one. */
static int common_option(const char *name, const char *value) {
    if (!strcmp(name, "--repeats"))
        repeats = atoi(value);
    else if (!strcmp(name, "--flush"))
        flush = atoi(value);
    else if (!strcmp(name, "--spin"))
        spin = atoi(value);
    else
        return 0;
    if (repeats < 1 || repeats > MOST_REPEATS) die("--repeats takes a number from 1 to %d", MOST_REPEATS);
    if (flush < 1 || spin < 0) die("--flush takes megabytes, --spin milliseconds");
    return 1;
}

/* ---- The device. ---------------------------------------------------------------------------------------------------- */

static void *stream, *start, *stop;
static address flushed;
static char device_name[128];

static double seconds_of(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Device 0, a stream that the legacy default stream stays out of, and clocks that have risen. */
static void open_device(void) {
    static const char *const names[] = {
        "cuInit",          "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",      "cuMemAlloc_v2",
        "cuMemFree_v2",    "cuMemcpyHtoD_v2",          "cuMemcpyDtoH_v2",      "cuMemcpyDtoDAsync_v2",
        "cuMemsetD8Async", "cuStreamCreate",           "cuStreamSynchronize",  "cuEventCreate",
        "cuEventRecord",   "cuEventSynchronize",       "cuEventElapsedTime",   "cuDeviceGetName",
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
    double until;
    size_t i;
    if (!library) die("no CUDA driver: %s", dlerror());
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) die("the driver has no %s", names[i]);
        memcpy((char *)&cu + i * sizeof symbol, &symbol, sizeof symbol);
    }
    CU(cu.init(0));
    CU(cu.retain(&context, 0));
    CU(cu.set_current(context));
    CU(cu.stream(&stream, 1));
    CU(cu.event(&start, 0));
    CU(cu.event(&stop, 0));
    CU(cu.name(device_name, sizeof device_name, 0));
    CU(cu.alloc(&flushed, (size_t)flush << 20));
    until = seconds_of(CLOCK_MONOTONIC) + 1e-3 * spin;
    do {
        CU(cu.set(flushed, 0, (size_t)flush << 20, stream));
        CU(cu.synchronize(stream));
    } while (seconds_of(CLOCK_MONOTONIC) < until);
}

/* The clock of the multiprocessors in MHz, as the management library tells it; 0 without that. */
static unsigned clock_mhz(void) {
    static int (*clock)(void *, int, unsigned *);
    static void *device;
    static int tried;
    unsigned mhz = 0;
    if (!tried) {
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *symbol;
        int (*init)(void);
        int (*handle)(unsigned, void **);
        tried = 1;
        if (!library) return 0;
        if (!(symbol = dlsym(library, "nvmlInit_v2"))) return 0;
        memcpy(&init, &symbol, sizeof init);
        if (!(symbol = dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))) return 0;
        memcpy(&handle, &symbol, sizeof handle);
        if (init() || handle(0, &device) || !(symbol = dlsym(library, "nvmlDeviceGetClockInfo"))) return 0;
        memcpy(&clock, &symbol, sizeof clock);
    }
    return clock && !clock(device, 1, &mhz) ? mhz : 0;
}

/* ---- Timing. -------------------------------------------------------------------------------------------------------- */

/* A call to time, on what it is given; not 0 if it is refused. */
typedef int (*work)(const void *);

struct times {
    float best, median; /* microseconds on the device per call */
    float host;         /* median of the microseconds of processor time that the host takes for a call */
    float first;        /* milliseconds of the first call until its work was done: kernels are assembled there */
    unsigned mhz;       /* clock of the device behind the last call */
};

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

struct samples {
    float device[MOST_REPEATS], host[MOST_REPEATS];
};

static int sample(work run, const void *what, struct samples *samples, int at) {
    float ms;
    double before;
    CU(cu.set(flushed, (unsigned char)at, (size_t)flush << 20, stream));
    CU(cu.record(start, stream));
    before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    if (run(what)) return 1;
    samples->host[at] = (float)(1e6 * (seconds_of(CLOCK_THREAD_CPUTIME_ID) - before));
    CU(cu.record(stop, stream));
    CU(cu.wait(stop));
    CU(cu.elapsed(&ms, start, stop));
    samples->device[at] = ms * 1000.0f;
    return 0;
}

static void sum_up(struct samples *samples, struct times *times) {
    qsort(samples->device, (size_t)repeats, sizeof(float), by_value);
    qsort(samples->host, (size_t)repeats, sizeof(float), by_value);
    times->best = samples->device[0];
    times->median = samples->device[repeats / 2];
    times->host = samples->host[repeats / 2];
}

/* The first call of all, whose result counts: not 0 if it is refused. */
static int time_first(work run, const void *what, struct times *times) {
    const double before = seconds_of(CLOCK_MONOTONIC);
    if (run(what)) return 1;
    CU(cu.synchronize(stream));
    times->first = (float)(1e3 * (seconds_of(CLOCK_MONOTONIC) - before));
    return 0;
}

/* Times two calls alternately; `other` may be NULL. Not 0 if one is refused. */
static int time_both(work one, const void *its, struct times *times, work other, const void *of_other,
                     struct times *other_times) {
    static struct samples samples[2];
    int i;
    /* Two rounds that do not count. */
    for (i = -2; i < repeats; i++) {
        if (sample(one, its, &samples[0], i < 0 ? 0 : i)) return 1;
        if (other && sample(other, of_other, &samples[1], i < 0 ? 0 : i)) return 1;
    }
    sum_up(&samples[0], times);
    if (other) sum_up(&samples[1], other_times);
    times->mhz = clock_mhz();
    return 0;
}

/* A copy on the device, which others are measured by. */
struct copy {
    address dst, src;
    size_t bytes;
};
static inline int run_copy(const void *what) {
    const struct copy *copy = (const struct copy *)what;
    return cu.copy(copy->dst, copy->src, copy->bytes, stream);
}

/* Head and row of every table; `of_copy` is 0 where there is nothing to copy. */
static void print_head(const char *title, const char *unit, int other) {
    printf("%-43s %10s %10s %9s %8s %9s %8s %5s%s\n", title, "best us", "median us", unit, "of copy", "first ms", "host us",
           "MHz", other ? "  speed-up  result" : "");
}
static void print_times(const char *name, const struct times *times, double rate, double of_copy) {
    printf("%-43s %10.1f %10.1f %9.1f ", name, times->best, times->median, rate);
    if (of_copy > 0) printf("%8.3f ", of_copy);
    else printf("%8s ", "-");
    printf("%9.1f %8.1f ", times->first, times->host);
    if (times->mhz) printf("%5u", times->mhz);
    else printf("%5s", "-");
}

#endif
