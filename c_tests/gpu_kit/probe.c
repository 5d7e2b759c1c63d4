/* What only a real driver knows, by its own interface alone: no library of ours, no toolkit.
 *
 *   probe device      devices, driver, clocks, whether the assembler is there, pageable memory
 *   probe load DIR    loads every kernel of the texts in DIR that this device can have, in a module of its own, with times
 *   probe reset       ids, codes and holders of the primary context around a reset
 *   probe memory      what the driver says of each kind of memory
 *
 * What a driver does not have is said so and passed over; the status is 1 if something failed that must work. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *driver;
static int failures;

static void *entry(const char *name) {
    void *symbol = dlsym(driver, name);
    if (symbol == NULL) printf("  the driver has no %s\n", name);
    return symbol;
}

/* Calls an entry point if it is there, and prints its code; -1 if it is not. Arguments are numbers or addresses. */
typedef int (*call6)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
static int call(const char *name, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e) {
    void *symbol = entry(name);
    call6 function;
    if (symbol == NULL) return -1;
    memcpy(&function, &symbol, sizeof function);
    return function(a, b, c, d, e, 0);
}
#define CALL(name, a, b, c, d, e) \
    call(name, (uintptr_t)(a), (uintptr_t)(b), (uintptr_t)(c), (uintptr_t)(d), (uintptr_t)(e))

static void must(const char *what, int code) {
    if (code == 0) return;
    printf("FAILED: %s returns %d\n", what, code);
    ++failures;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void start(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        printf("FAILED: %s\n", dlerror());
        exit(1);
    }
    must("cuInit", CALL("cuInit", 0, 0, 0, 0, 0));
}

static void *use(int device) {
    void *context = NULL;
    must("cuDevicePrimaryCtxRetain", CALL("cuDevicePrimaryCtxRetain", &context, device, 0, 0, 0));
    must("cuCtxSetCurrent", CALL("cuCtxSetCurrent", context, 0, 0, 0, 0));
    return context;
}

/* ---- device --------------------------------------------------------------------------------------------------------- */

static void device(void) {
    static const struct {
        int number;
        const char *name;
    } attributes[] = {
        {75, "compute capability, major"}, {76, "compute capability, minor"}, {16, "multiprocessors"},
        {13, "clock (kHz)"},               {36, "memory clock (kHz)"},        {37, "memory bus (bits)"},
        {38, "L2 cache (bytes)"},          {81, "shared memory of a multiprocessor (bytes)"},
        {83, "managed memory"},            {88, "pageable memory"},           {89, "concurrent managed memory"},
        {102, "virtual memory management"}, {115, "memory pools"},
    };
    int version = 0, count = 0;
    must("cuDriverGetVersion", CALL("cuDriverGetVersion", &version, 0, 0, 0, 0));
    must("cuDeviceGetCount", CALL("cuDeviceGetCount", &count, 0, 0, 0, 0));
    printf("driver for CUDA %d.%d, %d devices\n", version / 1000, version % 1000 / 10, count);
    printf("assembler (libnvidia-ptxjitcompiler.so.1): %s\n",
           dlopen("libnvidia-ptxjitcompiler.so.1", RTLD_NOW) != NULL ? "there" : "not there");
    for (int i = 0; i < count; ++i) {
        char name[256] = "?";
        size_t bytes = 0;
        must("cuDeviceGetName", CALL("cuDeviceGetName", name, 255, i, 0, 0));
        if (CALL("cuDeviceTotalMem_v2", &bytes, i, 0, 0, 0) == 0) printf("  memory: %zu bytes\n", bytes);
        printf("device %d: %s\n", i, name);
        for (size_t k = 0; k < sizeof attributes / sizeof *attributes; ++k) {
            int value = 0;
            const int code = CALL("cuDeviceGetAttribute", &value, attributes[k].number, i, 0, 0);
            if (code == -1) break;
            if (code == 0) printf("  %s: %d\n", attributes[k].name, value);
        }
    }
}

/* ---- load ----------------------------------------------------------------------------------------------------------- */

static char *contents(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file == NULL) return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        rewind(file);
        text = calloc(1, (size_t)size + 1);
        if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size) text[0] = 0;
    }
    fclose(file);
    return text;
}

/* A kernel, and how long it took to load. */
struct kernel {
    char name[128];
    double time;
};
static struct kernel kernels[4096];
static int loaded, skipped;

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct kernel *)a)->name, ((const struct kernel *)b)->name);
}
static int by_time(const void *a, const void *b) {
    const double one = ((const struct kernel *)a)->time, other = ((const struct kernel *)b)->time;
    return (one > other) - (one < other);
}

/* The compute capability of device 0: 75 for 7.5. */
static int capability(void) {
    int major = 0, minor = 0;
    must("cuDeviceGetAttribute", CALL("cuDeviceGetAttribute", &major, 75, 0, 0, 0));
    must("cuDeviceGetAttribute", CALL("cuDeviceGetAttribute", &minor, 76, 0, 0, 0));
    return 10 * major + minor;
}

/* That of the oldest devices that a text is for. */
static int target(const char *text) {
    int number = 0;
    const char *at = strstr(text, "\n.target sm_");
    if (at != NULL) sscanf(at, "\n.target sm_%d", &number);
    return number;
}

/* Where the kernel that begins here ends: behind its closing brace. */
static char *end_of(char *kernel) {
    char *end = strstr(kernel, "\n}\n");
    return end == NULL ? kernel + strlen(kernel) : end + 3;
}

/* Each kernel in a module of its own, behind all that belongs to none (functions that several call stand between them), as the
 * library loads them. */
static void load_file(const char *path, int device) {
    static const char mark[] = ".visible .entry ";
    char *text = contents(path), *first = text == NULL ? NULL : strstr(text, mark);
    if (first == NULL) {
        printf("FAILED: %s has no kernels\n", path);
        ++failures;
        return;
    }
    /* The library launches these on later devices only. */
    if (target(text) > device) {
        const char *name = strrchr(path, '/');
        printf("skipped: %s, whose kernels are for capability %d and later, and device 0 has %d\n",
               name == NULL ? path : name + 1, target(text), device);
        ++skipped;
        free(text);
        return;
    }
    char *module = calloc(1, strlen(text) + 1);
    size_t preamble = 0;
    for (char *from = text, *at = first; from != NULL;) {
        const size_t size = at == NULL ? strlen(from) : (size_t)(at - from);
        memcpy(module + preamble, from, size);
        preamble += size;
        from = at == NULL ? NULL : end_of(at);
        at = from == NULL ? NULL : strstr(from, mark);
    }
    for (char *at = first; at != NULL; at = strstr(at + 1, mark)) {
        const size_t size = (size_t)(end_of(at) - at);
        char name[128] = "";
        void *handle = NULL, *function = NULL;
        memcpy(module + preamble, at, size);
        module[preamble + size] = 0;
        sscanf(at + sizeof mark - 1, "%127[^(]", name);
        const double before = now();
        must(name, CALL("cuModuleLoadDataEx", &handle, module, 0, NULL, NULL));
        if (handle != NULL) must(name, CALL("cuModuleGetFunction", &function, handle, name, 0, 0));
        if (loaded < 4096) {
            kernels[loaded].time = now() - before;
            strcpy(kernels[loaded++].name, name);
        }
    }
    free(module);
    free(text);
}

static void load(const char *folder) {
    DIR *list = opendir(folder);
    use(0);
    const int device = capability();
    const double before = now();
    for (struct dirent *file; list != NULL && (file = readdir(list)) != NULL;) {
        char path[4096];
        const size_t length = strlen(file->d_name);
        if (length < 4 || strcmp(file->d_name + length - 4, ".ptx") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
        load_file(path, device);
    }
    const double all = now() - before;
    if (loaded == 0) {
        printf("FAILED: no kernels in %s\n", folder);
        ++failures;
        return;
    }
    qsort(kernels, (size_t)loaded, sizeof *kernels, by_name);
    for (int i = 0; i < loaded; ++i) printf("  %-40s %9.2f ms\n", kernels[i].name, kernels[i].time);
    qsort(kernels, (size_t)loaded, sizeof *kernels, by_time);
    printf("%d kernels loaded in %.0f ms: median %.2f ms, longest %.2f ms (%s), %d texts skipped\n", loaded, all,
           kernels[loaded / 2].time, kernels[loaded - 1].time, kernels[loaded - 1].name, skipped);
}

/* ---- reset ---------------------------------------------------------------------------------------------------------- */

static void context(const char *when, void *handle) {
    uint64_t id = 0;
    int number = -1, active = -1;
    unsigned flags = 0;
    const int id_code = CALL("cuCtxGetId", handle, &id, 0, 0, 0);
    const int device_code = CALL("cuCtxGetDevice", &number, 0, 0, 0, 0);
    const int state_code = CALL("cuDevicePrimaryCtxGetState", 0, &flags, &active, 0, 0);
    printf("%s: context %p, id %llu (code %d), device %d (code %d), active %d (code %d)\n", when, handle,
           (unsigned long long)id, id_code, number, device_code, active, state_code);
}

static void reset(void) {
    void *handle = use(0);
    context("retained once", handle);
    printf("reset: code %d\n", CALL("cuDevicePrimaryCtxReset_v2", 0, 0, 0, 0, 0));
    context("after the reset", handle);
    handle = use(0);
    context("retained again", handle);
    printf("released: code %d\n", CALL("cuDevicePrimaryCtxRelease_v2", 0, 0, 0, 0, 0));
    context("after one release", handle);
    printf("released: code %d\n", CALL("cuDevicePrimaryCtxRelease_v2", 0, 0, 0, 0, 0));
    /* Nothing may be asked of the handle any more. */
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

static void attributes(const char *kind, uintptr_t address) {
    unsigned numbers[] = {2, 8, 9, 3, 11, 12, 10, 16};
    /* Zeros behind what each attribute takes, so that its size can be seen. */
    uint64_t values[8] = {0};
    void *places[8];
    int code, i;
    for (i = 0; i < 8; ++i) places[i] = &values[i];
    code = CALL("cuPointerGetAttributes", 8, numbers, places, address, 0);
    printf("%-16s %#llx: code %d, type %llu, managed %llu, device %d, reached at %#llx, range %#llx + %llu, legacy %llu, "
           "access %llu\n",
           kind, (unsigned long long)address, code, (unsigned long long)values[0], (unsigned long long)values[1],
           (int)values[2], (unsigned long long)values[3], (unsigned long long)values[4], (unsigned long long)values[5],
           (unsigned long long)values[6], (unsigned long long)values[7]);
}

/* Address space of three segments, the first two of which have memory, that device 0 reaches; then what is told of it. */
static void segments(void) {
    enum { UNIT = 2 << 20 };
    struct {
        int type, handle_types, location_type, location;
        void *more;
        unsigned char flags[8];
    } properties = {1, 0, 1, 0, NULL, {0}};
    struct {
        int location_type, location, flags;
    } access = {1, 0, 3};
    uintptr_t address = 0, memory[2] = {0, 0};
    int i, code = CALL("cuMemAddressReserve", &address, 3 * UNIT, 0, 0, 0);
    printf("reserved: code %d\n", code);
    if (code != 0) return;
    attributes("reserved", address + 4096);
    for (i = 0; i < 2; ++i) {
        code = CALL("cuMemCreate", &memory[i], UNIT, &properties, 0, 0);
        if (code == 0) code = CALL("cuMemMap", address + (uintptr_t)i * UNIT, UNIT, 0, memory[i], 0);
        if (i == 0) attributes("mapped only", address + 4096);
        if (code == 0) code = CALL("cuMemSetAccess", address + (uintptr_t)i * UNIT, UNIT, &access, 1, 0);
        printf("segment %d: code %d\n", i, code);
    }
    attributes("first segment", address + 4096);
    attributes("second segment", address + UNIT);
    attributes("behind them", address + 2 * UNIT);
}

/* Memory of device 1, as device 0 sees it before and after it may reach it. */
static void peer(void *own) {
    uintptr_t address = 0;
    void *other;
    int count = 0;
    must("cuDeviceGetCount", CALL("cuDeviceGetCount", &count, 0, 0, 0, 0));
    if (count < 2) {
        printf("peer             there is one device only\n");
        return;
    }
    other = use(1);
    must("cuMemAlloc_v2", CALL("cuMemAlloc_v2", &address, 1 << 20, 0, 0, 0));
    must("cuCtxSetCurrent", CALL("cuCtxSetCurrent", own, 0, 0, 0, 0));
    attributes("peer", address + 4096);
    printf("access to it: code %d\n", CALL("cuCtxEnablePeerAccess", other, 0, 0, 0, 0));
    attributes("enabled peer", address + 4096);
}

static void memory(void) {
    enum { SIZE = 1 << 20 };
    uintptr_t address = 0;
    void *host = malloc(SIZE), *own = use(0);
    must("cuMemAlloc_v2", CALL("cuMemAlloc_v2", &address, SIZE, 0, 0, 0));
    attributes("device", address + 4096);
    must("cuMemFree_v2", CALL("cuMemFree_v2", address, 0, 0, 0, 0));
    attributes("freed", address + 4096);
    attributes("malloc", (uintptr_t)host);
    if (CALL("cuMemAllocManaged", &address, SIZE, 1, 0, 0) == 0) attributes("managed", address + 4096);
    if (CALL("cuMemHostAlloc", &address, SIZE, 0, 0, 0) == 0) attributes("page-locked", address + 4096);
    if (CALL("cuMemHostRegister_v2", host, SIZE, 0, 0, 0) == 0) attributes("registered", (uintptr_t)host + 4096);
    if (CALL("cuMemAllocAsync", &address, SIZE, 0, 0, 0) == 0) attributes("pooled", address + 4096);
    segments();
    peer(own);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    start();
    if (strcmp(what, "device") == 0) {
        device();
    } else if (strcmp(what, "load") == 0 && count > 2) {
        load(arguments[2]);
    } else if (strcmp(what, "reset") == 0) {
        reset();
    } else if (strcmp(what, "memory") == 0) {
        memory();
    } else {
        fprintf(stderr, "usage: probe device | load DIR | reset | memory\n");
        return 2;
    }
    return failures != 0;
}
