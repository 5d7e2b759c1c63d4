/* Convolutions on a GPU, in all three directions, timed by device events.
 *
 *   gpu_convolution LAYERS --save FILE        times every layer, keeps times and sums of the results
 *   gpu_convolution LAYERS --against FILE     the same, and compares both with what another library left in FILE
 *   ... --batch N                             images, 16 if not given
 *   ... --only TEXT                           rows whose name has TEXT in it
 *   ... --first N                             the first N layers of the list
 *   ... --repeats N --flush MB --spin MS      as `benches/gpu/device.h` has them: 51, 256, 500
 *
 * LAYERS is `problems/contractions.txt`. A row takes the first algorithm that cudnnGetConvolution*Algorithm_v7 tells, with its
 * workspace. Linked once and run with whichever libcudnn.so.9 the loader finds first, so
 * that everything but the library is the same. Needs a driver, no toolkit. */
#include <cudnn.h>

#include "../gpu/device.h"

static int batch = 16;
static const char *only = "";

/* ---- Rows. ------------------------------------------------------------------------------------------------------ */

struct layer {
    char name[64];
    int c, h, w, k, r, s, stride, pad, groups, dilation;
};

static const struct kind {
    const char *name;
    cudnnDataType_t type;
    size_t size;
    cudnnMathType_t math;
} kinds[] = {
    {"f32", CUDNN_DATA_FLOAT, 4, CUDNN_FMA_MATH},
    {"f32-default", CUDNN_DATA_FLOAT, 4, CUDNN_DEFAULT_MATH},
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
        layer->stride = layer->groups = layer->dilation = 1;
        layer->pad = 0;
        if (sscanf(line, "%63s %dx%dx%d %d %dx%d", layer->name, &layer->c, &layer->h, &layer->w, &layer->k, &layer->r,
                   &layer->s) != 7)
            die("not a layer: %s", line);
        if ((option = strstr(line, "stride="))) layer->stride = atoi(option + 7);
        if ((option = strstr(line, "pad="))) layer->pad = atoi(option + 4);
        if ((option = strstr(line, "groups="))) layer->groups = atoi(option + 7);
        if ((option = strstr(line, "dilation="))) layer->dilation = atoi(option + 9);
        return 1;
    }
    return 0;
}

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t x_desc, y_desc;
static cudnnFilterDescriptor_t w_desc;
static cudnnConvolutionDescriptor_t conv;

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

/* What is timed. */
struct convolution {
    enum direction direction;
    int algo;
    const address *at;
    address space;
    size_t size;
};

static int run_convolution(const void *what) {
    const struct convolution *work = (const struct convolution *)what;
    return (int)compute(work->direction, work->algo, work->at, work->space, work->size);
}

/* Times a row; not 0 if it is not supported. */
static int timed(enum direction direction, const address at[3], struct times *times) {
    struct convolution work = {direction, -1, at, 0, 0};
    int refused;
    work.algo = algorithm(direction, &work.size);
    if (work.algo < 0) return 1;
    if (work.size > 0) CU(cu.alloc(&work.space, work.size));
    refused = time_first(run_convolution, &work, times) || time_both(run_convolution, &work, times, NULL, NULL, NULL);
    if (work.space) CU(cu.release(work.space));
    return refused;
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
    CUDNN(cudnnSetConvolution2dDescriptor(conv, l->pad, l->pad, l->stride, l->stride, l->dilation, l->dilation,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
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
        float theirs = 0;
        struct times times = {0, 0, 0, 0, 0};
        uint64_t print = 0, their_print = 0;
        int i, refused;
        snprintf(row, sizeof row, "%s/%s/%s/%s", l->name, directions[d], kind->name, layouts[layout].name);
        if (!strstr(row, only)) continue;
        for (i = 0; i < 3; i++) at[i] = numbers(counts[i], kind, (uint32_t)i + 1);
        refused = timed((enum direction)d, at, &times);
        if (!refused) print = fingerprint(at[destinations[d]], counts[destinations[d]] * kind->size);
        for (i = 0; i < 3; i++) CU(cu.release(at[i]));
        if (refused) {
            printf("%-44s not supported\n", row);
        } else {
            print_times(row, &times, 2e-6 * products / times.median, 0);
            if (other && found(other, row, &theirs, &their_print))
                printf("%10.2f  %s", theirs / times.median, print == their_print ? "same bits" : "other bits");
            printf("\n");
            if (save) fprintf(save, "%s %f %016llx\n", row, times.median, (unsigned long long)print);
        }
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    FILE *layers = NULL, *save = NULL, *other = NULL;
    struct layer layer;
    size_t kind, layout;
    int i, first = 1000000;
    for (i = 1; i < count; i++) {
        const int more = i + 1 < count;
        if (more && !strcmp(arguments[i], "--save")) save = fopen(arguments[++i], "w");
        else if (more && !strcmp(arguments[i], "--against")) other = fopen(arguments[++i], "r");
        else if (more && !strcmp(arguments[i], "--batch")) batch = atoi(arguments[++i]);
        else if (more && !strcmp(arguments[i], "--first")) first = atoi(arguments[++i]);
        else if (more && !strcmp(arguments[i], "--only")) only = arguments[++i];
        else if (more && common_option(arguments[i], arguments[i + 1])) i++;
        else layers = fopen(arguments[i], "r");
    }
    if (!layers || (!save && !other) || batch < 1)
        die("usage: gpu_convolution LAYERS --save FILE | --against FILE [--batch N] [--repeats N] [--only TEXT] ...");
    open_device();
    printf("# %s, cudnnGetVersion %zu, %d images\n", device_name, cudnnGetVersion(), batch);
    print_head("# layer", "TFLOP/s", other != NULL);
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    CUDNN(cudnnCreateTensorDescriptor(&x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&conv));
    while (first-- > 0 && next_layer(layers, &layer))
        for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (layout = 0; layout < sizeof layouts / sizeof *layouts; layout++)
                run(&layer, &kinds[kind], layout, save, other);
    if (save && fclose(save)) die("the results cannot be written");
    return 0;
}
