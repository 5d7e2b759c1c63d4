/* cudnnTransformTensor on a GPU, timed by device events.
 *
 *   gpu_transform PROBLEMS --save DIR         times every problem, keeps times and results
 *   gpu_transform PROBLEMS --against DIR      the same, and compares both with what another library left in DIR
 *   ... --repeats N                           times every problem N times, 51 if not given
 *   ... --shrink N                            the outermost dimension divided by N, to try the program out
 *
 * The program is linked once and run with whichever libcudnn.so.9 the loader finds first, so that everything but the
 * library is the same. It needs a driver, no toolkit. `run.sh` does all of it. */
#include <cudnn.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 8, WARM_UP = 5, MOST_REPEATS = 1001 };

/* How often a problem is timed. */
static int repeats = 51;

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
    int (*copy)(address, address, size_t, void *);
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

static void load_driver(void) {
    static const char *const names[] = {
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuMemcpyHtoD_v2",
        "cuMemcpyDtoH_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuStreamCreate",
        "cuStreamSynchronize",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventSynchronize",
        "cuEventElapsedTime",
        "cuDeviceGetName",
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

/* ---- Problems. -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    cudnnDataType_t type;
    size_t size; /* bytes per scalar */
    int lanes;
} types[] = {
    {"f32", CUDNN_DATA_FLOAT, 4, 1},     {"f64", CUDNN_DATA_DOUBLE, 8, 1}, {"f16", CUDNN_DATA_HALF, 2, 1},
    {"bf16", CUDNN_DATA_BFLOAT16, 2, 1}, {"s8", CUDNN_DATA_INT8, 1, 1},    {"s8x32", CUDNN_DATA_INT8x32, 1, 32},
};

struct tensor {
    cudnnTensorDescriptor_t desc;
    int type;
    size_t cells; /* scalars that belong to the tensor */
    size_t bytes; /* of its memory, gaps included */
};

struct problem {
    char name[64];
    struct tensor src, dst;
    float alpha, beta;
};

static int type_named(const char *name) {
    size_t i;
    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) return (int)i;
    die("no type %s", name);
    return 0;
}

#define CUDNN(call)                                                      \
    do {                                                                 \
        cudnnStatus_t status_ = (call);                                  \
        if (status_) die("%s: %s", #call, cudnnGetErrorString(status_)); \
    } while (0)

static struct tensor tensor_of(const char *type, int rank, const int *dims, const char *layout) {
    struct tensor tensor = {NULL, type_named(type), 1, 0};
    int strides[MAX_RANK], at, k;
    long long stride = 1;
    const char *gap = strchr(layout, '+');
    for (k = 0; k < rank; k++) tensor.cells *= (size_t)dims[k];
    CUDNN(cudnnCreateTensorDescriptor(&tensor.desc));
    if (!strcmp(layout, "vect")) {
        if (rank != 4) die("vect is for four dimensions");
        CUDNN(cudnnSetTensor4dDescriptor(tensor.desc, CUDNN_TENSOR_NCHW_VECT_C, types[tensor.type].type, dims[0],
                                         dims[1], dims[2], dims[3]));
        tensor.bytes = tensor.cells * types[tensor.type].size;
        return tensor;
    }
    if ((gap ? (int)(gap - layout) : (int)strlen(layout)) != rank) die("%s does not name %d dimensions", layout, rank);
    for (at = rank - 1; at >= 0; at--) {
        int axis = layout[at] - '0';
        if (axis < 0 || axis >= rank) die("bad layout %s", layout);
        strides[axis] = (int)stride;
        stride *= dims[axis];
        if (gap && at == rank - 1) stride += atoi(gap + 1);
    }
    CUDNN(cudnnSetTensorNdDescriptor(tensor.desc, types[tensor.type].type, rank, dims, strides));
    tensor.bytes = (size_t)stride * types[tensor.type].size;
    return tensor;
}

/* Reads the next problem; 0 at the end. */
static int next_problem(FILE *file, int shrink, struct problem *problem) {
    char line[512], src[16], dst[16], extents[64], from[32], to[32], *part;
    while (fgets(line, sizeof line, file)) {
        int dims[MAX_RANK], rank = 0;
        if (line[0] == '#' || line[0] == '\n') continue;
        if (sscanf(line, "%63s %15s %15s %63s %31s %31s %f %f", problem->name, src, dst, extents, from, to,
                   &problem->alpha, &problem->beta) != 8)
            die("not a problem: %s", line);
        for (part = strtok(extents, "x"); part && rank < MAX_RANK; part = strtok(NULL, "x")) dims[rank++] = atoi(part);
        dims[0] = dims[0] / shrink > 0 ? dims[0] / shrink : 1;
        problem->src = tensor_of(src, rank, dims, from);
        problem->dst = tensor_of(dst, rank, dims, to);
        return 1;
    }
    return 0;
}

/* ---- Data and results. ------------------------------------------------------------------------------------------ */

/* Numbers that every type holds, of either sign, with enough bits that a lost one shows. Floats stay finite. */
static void fill(unsigned char *bytes, size_t size, int type, uint32_t seed) {
    size_t i, scalar = types[type].size;
    for (i = 0; i < size / scalar; i++) {
        float value;
        uint32_t bits;
        uint64_t wide;
        double exact;
        seed = seed * 1664525u + 1013904223u;
        value = (float)((int32_t)seed >> 8) / 65536.0f; /* -128 to 128, 24 bits */
        memcpy(&bits, &value, 4);
        if (!strcmp(types[type].name, "f32")) {
            memcpy(bytes + i * 4, &bits, 4);
        } else if (!strcmp(types[type].name, "f64")) {
            exact = value;
            memcpy(&wide, &exact, 8);
            memcpy(bytes + i * 8, &wide, 8);
        } else if (!strcmp(types[type].name, "f16")) {
            /* Sign, an exponent from 8 to 23, ten bits. */
            uint16_t half = (uint16_t)((seed >> 16 & 0x83ff) | (8 + (seed >> 8 & 15)) << 10);
            memcpy(bytes + i * 2, &half, 2);
        } else if (!strcmp(types[type].name, "bf16")) {
            uint16_t upper = (uint16_t)(bits >> 16);
            memcpy(bytes + i * 2, &upper, 2);
        } else {
            bytes[i] = (unsigned char)(seed >> 24);
        }
    }
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

struct times {
    float best, median; /* microseconds per call */
};

static cudnnHandle_t handle;
static void *stream, *start, *stop;

/* What is timed: a transform, or the copy that it is measured by. */
struct work {
    const struct problem *problem;
    address dst, src;
    size_t copied; /* bytes; 0 for the transform */
};

static cudnnStatus_t run_once(const struct work *work) {
    if (work->copied) {
        CU(cu.copy(work->dst, work->src, work->copied, stream));
        return CUDNN_STATUS_SUCCESS;
    }
    return cudnnTransformTensor(handle, &work->problem->alpha, work->problem->src.desc, (void *)(uintptr_t)work->src,
                                &work->problem->beta, work->problem->dst.desc, (void *)(uintptr_t)work->dst);
}

static struct times measure(const struct work *work, size_t bytes) {
    /* Small problems are repeated between two events, whose resolution is half a microsecond. */
    int inner = bytes < (8u << 20) ? 20 : 1, i, k;
    float us[MOST_REPEATS];
    struct times times;
    for (i = 0; i < WARM_UP; i++) run_once(work);
    for (i = 0; i < repeats; i++) {
        float ms;
        CU(cu.record(start, stream));
        for (k = 0; k < inner; k++) run_once(work);
        CU(cu.record(stop, stream));
        CU(cu.wait(stop));
        CU(cu.elapsed(&ms, start, stop));
        us[i] = ms * 1000.0f / (float)inner;
    }
    qsort(us, (size_t)repeats, sizeof *us, by_value);
    times.best = us[0];
    times.median = us[repeats / 2];
    return times;
}

static FILE *result_file(const char *dir, const char *name, const char *mode) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, mode);
}

/* Whether DIR/NAME holds exactly these bytes. */
static int same_bytes(const char *dir, const char *name, const unsigned char *bytes, size_t size) {
    FILE *file = result_file(dir, name, "rb");
    unsigned char *other = (unsigned char *)malloc(size + 1);
    int same;
    if (!file || !other) die("cannot read %s/%s", dir, name);
    same = fread(other, 1, size + 1, file) == size && !memcmp(bytes, other, size);
    fclose(file);
    free(other);
    return same;
}

static void save_bytes(const char *dir, const char *name, const unsigned char *bytes, size_t size) {
    FILE *file = result_file(dir, name, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) die("cannot write %s/%s", dir, name);
}

/* Runs one problem. Returns 1 if the other library's result is another one. */
static int run_problem(struct problem *problem, const char *save, const char *against) {
    size_t bytes = problem->src.cells * types[problem->src.type].size +
                   problem->dst.cells * types[problem->dst.type].size * (problem->beta != 0.0f ? 2 : 1);
    size_t copied = bytes / 2;
    size_t room = copied > problem->src.bytes ? copied : problem->src.bytes;
    unsigned char *host_src, *host_dst;
    address src, dst;
    struct work work = {problem, 0, 0, 0}, copy = {problem, 0, 0, copied};
    struct times times, floor;
    cudnnStatus_t status;
    int differs = 0;
    float other = 0.0f;
    if (problem->dst.bytes > room) room = problem->dst.bytes;
    host_src = (unsigned char *)malloc(problem->src.bytes);
    host_dst = (unsigned char *)malloc(problem->dst.bytes);
    if (!host_src || !host_dst) die("out of host memory");
    fill(host_src, problem->src.bytes, problem->src.type, 1);
    fill(host_dst, problem->dst.bytes, problem->dst.type, 2);
    CU(cu.alloc(&src, room));
    CU(cu.alloc(&dst, room));
    CU(cu.to_device(src, host_src, problem->src.bytes));
    CU(cu.to_device(dst, host_dst, problem->dst.bytes));
    work.src = copy.src = src;
    work.dst = copy.dst = dst;

    /* The first run is the one whose result counts: with beta, every later one starts from another destination. */
    status = run_once(&work);
    if (status) {
        printf("%-20s%s\n", problem->name, cudnnGetErrorString(status));
    } else {
        CU(cu.synchronize(stream));
        CU(cu.to_host(host_dst, dst, problem->dst.bytes));
        times = measure(&work, bytes);
        floor = measure(&copy, bytes);
        printf("%-20s%10.1f%10.1f%10.1f%9.2f", problem->name, times.best, times.median,
               (double)bytes / times.median / 1e3, floor.median / times.median);
        if (against) {
            char name[80];
            FILE *file;
            snprintf(name, sizeof name, "%s.us", problem->name);
            file = result_file(against, name, "r");
            if (!file) {
                printf("   refused");
            } else {
                if (fscanf(file, "%f", &other) != 1) die("cannot read %s/%s", against, name);
                fclose(file);
                snprintf(name, sizeof name, "%s.bin", problem->name);
                differs = !same_bytes(against, name, host_dst, problem->dst.bytes);
                printf("%10.2f%s", other / times.median, differs ? "  OTHER BITS" : "");
            }
        }
        printf("\n");
        if (save) {
            char name[80], text[32];
            snprintf(name, sizeof name, "%s.bin", problem->name);
            save_bytes(save, name, host_dst, problem->dst.bytes);
            snprintf(name, sizeof name, "%s.us", problem->name);
            snprintf(text, sizeof text, "%.3f\n", times.median);
            save_bytes(save, name, (const unsigned char *)text, strlen(text));
        }
    }
    fflush(stdout);
    CU(cu.release(src));
    CU(cu.release(dst));
    free(host_src);
    free(host_dst);
    CUDNN(cudnnDestroyTensorDescriptor(problem->src.desc));
    CUDNN(cudnnDestroyTensorDescriptor(problem->dst.desc));
    return differs;
}

int main(int argc, char **argv) {
    const char *save = NULL, *against = NULL;
    struct problem problem;
    void *context;
    char device[128] = "";
    int shrink = 1, differing = 0, i;
    FILE *file;
    if (argc < 2) die("usage: %s PROBLEMS [--save DIR] [--against DIR] [--repeats N] [--shrink N]", argv[0]);
    for (i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--save"))
            save = argv[i + 1];
        else if (!strcmp(argv[i], "--against"))
            against = argv[i + 1];
        else if (!strcmp(argv[i], "--repeats"))
            repeats = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--shrink"))
            shrink = atoi(argv[i + 1]);
        else
            die("no option %s", argv[i]);
    }
    if (repeats < 1 || repeats > MOST_REPEATS) die("--repeats takes a number from 1 to %d", MOST_REPEATS);
    if (shrink < 1) die("--shrink takes a number from 1 on");
    file = fopen(argv[1], "r");
    if (!file) die("cannot read %s", argv[1]);
    load_driver();
    CU(cu.init(0));
    CU(cu.retain(&context, 0));
    CU(cu.set_current(context));
    CU(cu.stream(&stream, 1)); /* non-blocking: the legacy default stream stays out of it */
    CU(cu.event(&start, 0));
    CU(cu.event(&stop, 0));
    CU(cu.name(device, sizeof device, 0));
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    printf(
        "# %s, cudnnGetVersion %lu; GB/s of bytes read and written; copy: a device-to-device copy of as many bytes\n",
        device, (unsigned long)cudnnGetVersion());
    printf("%-20s%10s%10s%10s%9s%s\n", "# problem", "best us", "median us", "GB/s", "of copy",
           against ? "  speed-up" : "");
    while (next_problem(file, shrink, &problem)) differing += run_problem(&problem, save, against);
    CUDNN(cudnnDestroy(handle));
    if (against) printf("# %d results differ from the other library's\n", differing);
    fclose(file);
    return differing != 0;
}
