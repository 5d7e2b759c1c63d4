/* Convolutions on a GPU, in all three directions, timed by device events.
 *
 *   gpu_convolution LAYERS --save FILE        times every layer, keeps times and sums of the results
 *   gpu_convolution LAYERS --against FILE     the same, and compares both with what another library left in FILE
 *   ... --batch N                             images, 16 if not given
 *   ... --repeats N                           times every row N times, 21 if not given
 *   ... --only TEXT                           rows whose name has TEXT in it
 *
 * LAYERS is `benches/contractions.txt`. A row takes the first algorithm that cudnnGetConvolution*Algorithm_v7 tells, with its
 * workspace, and is timed over ten calls at once. Linked once and run with whichever libcudnn.so.9 the loader finds first, so
 * that everything but the library is the same. Needs a driver, no toolkit. */
#include <cudnn.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 10, MOST_REPEATS = 1001 };

static int repeats = 21, batch = 16;
static const char *only = "";

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

/* ---- The driver, as far as it is needed. ------------------------------------------------------------------------ */

typedef uint64_t address;
static struct {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*alloc)(address *, size_t);
    int (*release)(address);
    int (*to_device)(address, const void *, size_t);
    int (*to_host)(void *, address, size_t);
    int (*stream)(void **, unsigned);
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

static void load_driver(void) {
    static const char *const names[] = {
        "cuInit",           "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",    "cuMemAlloc_v2", "cuMemFree_v2",
        "cuMemcpyHtoD_v2",  "cuMemcpyDtoH_v2",          "cuStreamCreate",     "cuEventCreate", "cuEventRecord",
        "cuEventSynchronize", "cuEventElapsedTime",     "cuDeviceGetName",
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    size_t i;
    if (!library) die("no CUDA driver: %s", dlerror());
    for (i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol) die("the driver has no %s", names[i]);
        memcpy((char *)&cu + i * sizeof symbol, &symbol, sizeof symbol);
    }
}

/* ---- Rows. ------------------------------------------------------------------------------------------------------ */

struct layer {
    char name[64];
    int c, h, w, k, r, s, stride, pad, groups;
};

static const struct kind {
    const char *name;
    cudnnDataType_t type;
    size_t size;
    cudnnMathType_t math;
} kinds[] = {
    {"f32", CUDNN_DATA_FLOAT, 4, CUDNN_FMA_MATH},
    {"tf32", CUDNN_DATA_FLOAT, 4, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION},
    {"f16", CUDNN_DATA_HALF, 2, CUDNN_TENSOR_OP_MATH},
    {"bf16", CUDNN_DATA_BFLOAT16, 2, CUDNN_TENSOR_OP_MATH},
};
static const struct {
    const char *name;
    cudnnTensorFormat_t format;
} layouts[] = {{"nchw", CUDNN_TENSOR_NCHW}, {"nhwc", CUDNN_TENSOR_NHWC}};
enum direction { FORWARD, DATA, FILTER };
static const char *const directions[] = {"forward", "data", "filter"};

/* Reads the next layer; 0 at the end. */
static int next_layer(FILE *file, struct layer *layer) {
    char line[256], *option;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || line[0] == '\n') continue;
        layer->stride = layer->groups = 1;
        layer->pad = 0;
        if (sscanf(line, "%63s %dx%dx%d %d %dx%d", layer->name, &layer->c, &layer->h, &layer->w, &layer->k, &layer->r,
                   &layer->s) != 7)
            die("not a layer: %s", line);
        if ((option = strstr(line, "stride="))) layer->stride = atoi(option + 7);
        if ((option = strstr(line, "pad="))) layer->pad = atoi(option + 4);
        if ((option = strstr(line, "groups="))) layer->groups = atoi(option + 7);
        return 1;
    }
    return 0;
}

static cudnnHandle_t handle;
static void *stream, *events[2];
static cudnnTensorDescriptor_t x_desc, y_desc;
static cudnnFilterDescriptor_t w_desc;
static cudnnConvolutionDescriptor_t conv;

#define CUDNN(call)                                                      \
    do {                                                                 \
        cudnnStatus_t status_ = (call);                                  \
        if (status_) die("%s: %s", #call, cudnnGetErrorString(status_)); \
    } while (0)

/* Small whole numbers, whose sums are exact in binary32. */
static address numbers(size_t count, const struct kind *kind, uint32_t seed) {
    unsigned char *bytes = malloc(count * kind->size);
    address memory;
    size_t i;
    if (!bytes) die("no memory for %zu numbers", count);
    for (i = 0; i < count; i++) {
        static const float values[] = {-2, -1, 0, 1, 2, 1, 0, -1};
        static const uint16_t halves[] = {0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x3c00, 0, 0xbc00};
        uint16_t upper;
        uint32_t bits;
        seed = seed * 1664525u + 1013904223u;
        memcpy(&bits, &values[seed >> 29], 4);
        upper = kind->type == CUDNN_DATA_HALF ? halves[seed >> 29] : (uint16_t)(bits >> 16);
        memcpy(bytes + i * kind->size, kind->size == 4 ? (void *)&bits : (void *)&upper, kind->size);
    }
    CU(cu.alloc(&memory, count * kind->size));
    CU(cu.to_device(memory, bytes, count * kind->size));
    free(bytes);
    return memory;
}

/* A number for the bits of a result. */
static uint64_t fingerprint(address memory, size_t size) {
    unsigned char *bytes = malloc(size);
    uint64_t hash = 14695981039346656037u;
    size_t i;
    if (!bytes) die("no memory for a result");
    CU(cu.to_host(bytes, memory, size));
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    free(bytes);
    return hash;
}

/* The first algorithm that is told, with its workspace; -1 if none serves. */
static int algorithm(enum direction direction, size_t *size) {
    int count = 0, algo = -1;
#define FIRST(RECORD, GET, A, B, C)                                      \
    do {                                                                 \
        RECORD record;                                                   \
        if (GET(handle, A, B, conv, C, 1, &count, &record)) return -1;   \
        if (count < 1 || record.status) return -1;                       \
        algo = (int)record.algo;                                         \
        *size = record.memory;                                           \
    } while (0)
    switch (direction) {
    case FORWARD:
        FIRST(cudnnConvolutionFwdAlgoPerf_t, cudnnGetConvolutionForwardAlgorithm_v7, x_desc, w_desc, y_desc);
        break;
    case DATA:
        FIRST(cudnnConvolutionBwdDataAlgoPerf_t, cudnnGetConvolutionBackwardDataAlgorithm_v7, w_desc, y_desc, x_desc);
        break;
    case FILTER:
        FIRST(cudnnConvolutionBwdFilterAlgoPerf_t, cudnnGetConvolutionBackwardFilterAlgorithm_v7, x_desc, y_desc,
              w_desc);
        break;
    }
    return algo;
}

static cudnnStatus_t compute(enum direction direction, int algo, const address at[3], address space, size_t size) {
    const float one = 1, zero = 0;
    void *x = (void *)(uintptr_t)at[0], *w = (void *)(uintptr_t)at[1], *y = (void *)(uintptr_t)at[2];
    void *workspace = (void *)(uintptr_t)space;
    switch (direction) {
    case FORWARD:
        return cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, (cudnnConvolutionFwdAlgo_t)algo,
                                       workspace, size, &zero, y_desc, y);
    case DATA:
        return cudnnConvolutionBackwardData(handle, &one, w_desc, w, y_desc, y, conv,
                                            (cudnnConvolutionBwdDataAlgo_t)algo, workspace, size, &zero, x_desc, x);
    default:
        return cudnnConvolutionBackwardFilter(handle, &one, x_desc, x, y_desc, y, conv,
                                              (cudnnConvolutionBwdFilterAlgo_t)algo, workspace, size, &zero, w_desc, w);
    }
}

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Times a row in microseconds per call; negative if it is not supported. */
static float timed(enum direction direction, const address at[3]) {
    static float times[MOST_REPEATS];
    size_t size = 0;
    address space = 0;
    int algo = algorithm(direction, &size), i, call;
    if (algo < 0) return -1;
    if (size > 0) CU(cu.alloc(&space, size));
    for (i = -2; i < repeats; i++) {
        float time;
        CU(cu.record(events[0], stream));
        for (call = 0; call < CALLS; call++) {
            if (compute(direction, algo, at, space, size)) {
                if (space) CU(cu.release(space));
                return -1;
            }
        }
        CU(cu.record(events[1], stream));
        CU(cu.wait(events[1]));
        CU(cu.elapsed(&time, events[0], events[1]));
        if (i >= 0) times[i] = time * 1000 / CALLS;
    }
    if (space) CU(cu.release(space));
    qsort(times, (size_t)repeats, sizeof *times, ascending);
    return times[repeats / 2];
}

/* What another library left: the line of a row. */
static int found(FILE *other, const char *row, float *time, uint64_t *print) {
    char line[256], name[128];
    unsigned long long bits;
    rewind(other);
    while (fgets(line, sizeof line, other)) {
        if (sscanf(line, "%127s %f %llx", name, time, &bits) == 3 && !strcmp(name, row)) {
            *print = bits;
            return 1;
        }
    }
    return 0;
}

static void run(const struct layer *l, const struct kind *kind, size_t layout, FILE *save, FILE *other) {
    const cudnnTensorFormat_t format = layouts[layout].format;
    int n, c, h, w, d;
    size_t counts[3];
    address at[3];
    CUDNN(cudnnSetTensor4dDescriptor(x_desc, format, kind->type, batch, l->c, l->h, l->w));
    CUDNN(cudnnSetFilter4dDescriptor(w_desc, kind->type, format, l->k, l->c / l->groups, l->r, l->s));
    CUDNN(cudnnSetConvolution2dDescriptor(conv, l->pad, l->pad, l->stride, l->stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionGroupCount(conv, l->groups));
    CUDNN(cudnnSetConvolutionMathType(conv, kind->math));
    CUDNN(cudnnGetConvolution2dForwardOutputDim(conv, x_desc, w_desc, &n, &c, &h, &w));
    CUDNN(cudnnSetTensor4dDescriptor(y_desc, format, kind->type, n, c, h, w));
    counts[0] = (size_t)batch * (size_t)(l->c * l->h * l->w);
    counts[1] = (size_t)l->k * (size_t)(l->c / l->groups * l->r * l->s);
    counts[2] = (size_t)n * (size_t)(c * h * w);
    for (d = 0; d < 3; d++) {
        static const int destinations[] = {2, 0, 1};
        const double products = (double)counts[2] * (l->c / l->groups * l->r * l->s);
        char row[128];
        float time, theirs = 0;
        uint64_t print = 0, their_print = 0;
        int i;
        snprintf(row, sizeof row, "%s/%s/%s/%s", l->name, directions[d], kind->name, layouts[layout].name);
        if (!strstr(row, only)) continue;
        for (i = 0; i < 3; i++) at[i] = numbers(counts[i], kind, (uint32_t)i + 1);
        time = timed((enum direction)d, at);
        if (time >= 0) print = fingerprint(at[destinations[d]], counts[destinations[d]] * kind->size);
        for (i = 0; i < 3; i++) CU(cu.release(at[i]));
        if (time < 0) {
            printf("%-44s not supported\n", row);
        } else {
            printf("%-44s %10.1f us %8.2f TFLOP/s", row, time, 2e-6 * products / time);
            if (other && found(other, row, &theirs, &their_print))
                printf("  %10.1f us  %5.2f x  %s", theirs, theirs / time, print == their_print ? "same bits" : "other bits");
            printf("\n");
            if (save) fprintf(save, "%s %f %016llx\n", row, time, (unsigned long long)print);
        }
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    FILE *layers = NULL, *save = NULL, *other = NULL;
    struct layer layer;
    char name[128] = "";
    void *context;
    size_t kind, layout;
    int i;
    for (i = 1; i < count; i++) {
        const int more = i + 1 < count;
        if (more && !strcmp(arguments[i], "--save")) save = fopen(arguments[++i], "w");
        else if (more && !strcmp(arguments[i], "--against")) other = fopen(arguments[++i], "r");
        else if (more && !strcmp(arguments[i], "--batch")) batch = atoi(arguments[++i]);
        else if (more && !strcmp(arguments[i], "--repeats")) repeats = atoi(arguments[++i]);
        else if (more && !strcmp(arguments[i], "--only")) only = arguments[++i];
        else layers = fopen(arguments[i], "r");
    }
    if (!layers || (!save && !other) || batch < 1 || repeats < 1 || repeats > MOST_REPEATS)
        die("usage: gpu_convolution LAYERS --save FILE | --against FILE [--batch N] [--repeats N] [--only TEXT]");
    load_driver();
    CU(cu.init(0));
    CU(cu.retain(&context, 0));
    CU(cu.set_current(context));
    CU(cu.stream(&stream, 0));
    for (i = 0; i < 2; i++) CU(cu.event(&events[i], 0));
    CU(cu.name(name, sizeof name, 0));
    printf("# %s, version %zu, %d images, median of %d\n", name, cudnnGetVersion(), batch, repeats);
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnSetStream(handle, stream));
    CUDNN(cudnnCreateTensorDescriptor(&x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&conv));
    while (next_layer(layers, &layer))
        for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (layout = 0; layout < sizeof layouts / sizeof *layouts; layout++)
                run(&layer, &kinds[kind], layout, save, other);
    if (save && fclose(save)) die("the results cannot be written");
    return 0;
}
