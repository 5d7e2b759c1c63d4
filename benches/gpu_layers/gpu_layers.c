/* Layers on a GPU, timed by device events: pooling, activation, softmax, batch and response normalisation, dropout, the gradient of
 * a bias, and the spatial sampler.
 *
 *   gpu_layers --save FILE                    times every row, keeps times and results
 *   gpu_layers --against FILE                 the same, and compares both with what another library left in FILE
 *   ... --batch N                             images of a batch, 32 if not given
 *   ... --only TEXT                           rows whose name has TEXT in it
 *   ... --repeats N --flush MB --spin MS      as `benches/gpu/device.h` has them: 51, 256, 500
 *
 * Linked once and run with whichever libcudnn.so.9 the loader finds first. Needs a driver, no toolkit. */
#include <cudnn.h>

#include "../gpu/device.h"

enum { CHANNELS = 64, EXTENT = 56, POOLED = 28 };

static const struct kind {
    const char *name;
    cudnnDataType_t type;
    size_t size;
} kinds[] = {{"f32", CUDNN_DATA_FLOAT, 4}, {"f16", CUDNN_DATA_HALF, 2}};
static const struct {
    const char *name;
    cudnnTensorFormat_t format;
} layouts[] = {{"nchw", CUDNN_TENSOR_NCHW}, {"nhwc", CUDNN_TENSOR_NHWC}};

enum function {
    MAX_POOL,
    AVERAGE_POOL,
    POOL_BACK,
    RELU,
    TANH,
    RELU_BACK,
    SOFTMAX,
    SOFTMAX_BACK,
    INFERENCE,
    TRAINING,
    NORM_BACK,
    RESPONSE,
    RESPONSE_BACK,
    DROP,
    DROP_BACK,
    BIAS_BACK,
    SAMPLER,
    SAMPLER_BACK
};
enum result { WHOLE, POOLED_ONLY, CHANNELS_ONLY };
/* By function: its name, the tensors of the whole extent that it reads and writes, for a rate, and what is compared. */
static const struct {
    const char *name;
    double moved;
    enum result result;
} functions[] = {
    {"max-3x3", 1.25, POOLED_ONLY},
    {"average-3x3", 1.25, POOLED_ONLY},
    {"max-3x3-back", 2.5, WHOLE},
    {"relu", 2, WHOLE},
    {"tanh", 2, WHOLE},
    {"relu-back", 3, WHOLE},
    {"softmax", 2, WHOLE},
    {"softmax-back", 3, WHOLE},
    {"inference", 2, WHOLE},
    {"training", 2, WHOLE},
    {"training-back", 3, WHOLE},
    {"response-5", 2, WHOLE},
    {"response-5-back", 3, WHOLE},
    {"dropout", 2, WHOLE},
    {"dropout-back", 2, WHOLE},
    {"bias-back", 1, CHANNELS_ONLY},
    {"sampler", 2, WHOLE},
    {"sampler-back", 3, WHOLE},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static int batch = 32;
static const char *only = "";
static cudnnHandle_t handle;
static cudnnTensorDescriptor_t whole, pooled, channels, biases;
static cudnnPoolingDescriptor_t pooling;
static cudnnActivationDescriptor_t activation;
static cudnnLRNDescriptor_t window;
static cudnnDropoutDescriptor_t dropout;
static cudnnSpatialTransformerDescriptor_t transformer;

/* What is timed: four tensors of the whole extent, one of the pooled one twice, numbers of every channel, the bits of a dropout,
 * places to sample at and their gradient. */
struct layer {
    enum function function;
    address x, y, dy, before, small, small_back, numbers[8], bits, grid, grid_back;
    size_t bits_size;
};

static void *on_device(address memory) { return (void *)(uintptr_t)memory; }

static int run_layer(const void *what) {
    const struct layer *at = (const struct layer *)what;
    const float one = 1, zero = 0;
    void *x = on_device(at->x), *y = on_device(at->y), *dy = on_device(at->dy);
    void *before = on_device(at->before), *small = on_device(at->small), *back = on_device(at->small_back);
    void *bits = on_device(at->bits), *grid = on_device(at->grid), *of[8];
    const cudnnBatchNormMode_t mode = CUDNN_BATCHNORM_SPATIAL;
    int i;
    for (i = 0; i < 8; i++) of[i] = on_device(at->numbers[i]);
    switch (at->function) {
    case MAX_POOL:
    case AVERAGE_POOL: return (int)cudnnPoolingForward(handle, pooling, &one, whole, x, &zero, pooled, small);
    case POOL_BACK:
        return (int)cudnnPoolingBackward(handle, pooling, &one, pooled, small, pooled, back, whole, x, &zero, whole, y);
    case RELU:
    case TANH: return (int)cudnnActivationForward(handle, activation, &one, whole, x, &zero, whole, y);
    case RELU_BACK:
        return (int)cudnnActivationBackward(handle, activation, &one, whole, x, whole, dy, whole, x, &zero, whole, y);
    case SOFTMAX:
        return (int)cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, whole, x,
                                        &zero, whole, y);
    case SOFTMAX_BACK:
        return (int)cudnnSoftmaxBackward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, whole, x,
                                         whole, dy, &zero, whole, y);
    case INFERENCE:
        return (int)cudnnBatchNormalizationForwardInference(handle, mode, &one, &zero, whole, x, whole, y, channels,
                                                            of[0], of[1], of[2], of[3], 1e-5);
    case TRAINING:
        return (int)cudnnBatchNormalizationForwardTraining(handle, mode, &one, &zero, whole, x, whole, y, channels,
                                                           of[0], of[1], 1, of[4], of[5], 1e-5, of[6], of[7]);
    case NORM_BACK:
        return (int)cudnnBatchNormalizationBackward(handle, mode, &one, &zero, &one, &zero, whole, x, whole, dy, whole,
                                                    y, channels, of[0], of[4], of[5], 1e-5, NULL, NULL);
    case RESPONSE:
        return (int)cudnnLRNCrossChannelForward(handle, window, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, whole, x, &zero,
                                                whole, y);
    case RESPONSE_BACK:
        return (int)cudnnLRNCrossChannelBackward(handle, window, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, whole, before,
                                                 whole, dy, whole, x, &zero, whole, y);
    case DROP: return (int)cudnnDropoutForward(handle, dropout, whole, x, whole, y, bits, at->bits_size);
    case DROP_BACK: return (int)cudnnDropoutBackward(handle, dropout, whole, dy, whole, y, bits, at->bits_size);
    case BIAS_BACK: return (int)cudnnConvolutionBackwardBias(handle, &one, whole, dy, &zero, biases, of[7]);
    case SAMPLER: return (int)cudnnSpatialTfSamplerForward(handle, transformer, &one, whole, x, grid, &zero, whole, y);
    default:
        return (int)cudnnSpatialTfSamplerBackward(handle, transformer, &one, whole, x, &zero, whole, y, &one, whole, dy,
                                                  grid, &zero, on_device(at->grid_back));
    }
}

/* Stores a value of a few bits of a mantissa, which is exact in both types. */
static void store(unsigned char *bytes, const struct kind *kind, size_t i, float value) {
    uint32_t bits;
    uint16_t half = 0;
    memcpy(&bits, &value, 4);
    if (value != 0) half = (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023));
    memcpy(bytes + i * kind->size, kind->size == 4 ? (const void *)&bits : (const void *)&half, kind->size);
}

/* Device memory with what lies at `bytes`, which is freed. */
static address moved_to_device(unsigned char *bytes, size_t size) {
    address memory;
    CU(cu.alloc(&memory, size));
    CU(cu.to_device(memory, bytes, size));
    free(bytes);
    return memory;
}

/* Memory with `count` small numbers, eighths from -2 to below 2, or ones from 1 to below 5 where they stand for variances. */
static address filled(size_t count, const struct kind *kind, uint32_t seed, int positive) {
    unsigned char *bytes = malloc(count * kind->size);
    size_t i;
    if (!bytes) die("no memory for %zu numbers", count);
    for (i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        store(bytes, kind, i, (float)(seed >> 27) / 8 - (positive ? -1 : 2));
    }
    return moved_to_device(bytes, count * kind->size);
}

/* For every image the same affine map, a turn that leaves some pixels outside. */
static address turns(const struct kind *kind) {
    static const float turn[6] = {0.9375f, 0.1875f, 0.0625f, -0.1875f, 0.9375f, 0};
    const size_t count = (size_t)batch * 6;
    unsigned char *bytes = malloc(count * kind->size);
    size_t i;
    if (!bytes) die("no memory for %zu numbers", count);
    for (i = 0; i < count; i++) store(bytes, kind, i, turn[i % 6]);
    return moved_to_device(bytes, count * kind->size);
}

/* The value of a result's element. */
static double value_of(const unsigned char *bytes, const struct kind *kind, size_t i) {
    uint16_t half;
    float value;
    uint32_t bits;
    if (kind->size == 4) {
        memcpy(&value, bytes + 4 * i, 4);
        return value;
    }
    memcpy(&half, bytes + 2 * i, 2);
    bits = (half & 0x7c00u) ? ((half & 0x7c00u) + (112u << 10)) << 13 | (half & 0x3ffu) << 13 : 0;
    bits |= (half & 0x8000u) << 16;
    memcpy(&value, &bits, 4);
    return value;
}

/* The file with the results of a row, beside the one with the times. */
static FILE *results(const char *beside, const char *row, const char *mode) {
    char name[512], *slash;
    const int length = (int)strlen(beside);
    snprintf(name, sizeof name, "%s.%s", beside, row);
    while ((slash = strchr(name + length, '/'))) *slash = '-';
    return fopen(name, mode);
}

/* The time of a row that another library left, or 0. */
static float time_of(const char *file, const char *row) {
    char line[256], name[128];
    float time = 0, found = 0;
    FILE *other = fopen(file, "r");
    while (other && fgets(line, sizeof line, other)) {
        if (sscanf(line, "%127s %f", name, &time) == 2 && !strcmp(name, row)) found = time;
    }
    if (other) fclose(other);
    return found;
}

/* The same bits, or the largest difference beside the largest number. */
static void print_comparison(const unsigned char *own, size_t size, const struct kind *kind, FILE *other) {
    unsigned char *theirs = malloc(size);
    double largest = 0, apart = 0;
    size_t i;
    if (!theirs || fread(theirs, 1, size, other) != size) die("the other results cannot be read");
    for (i = 0; i < size / kind->size; i++) {
        const double a = value_of(own, kind, i), b = value_of(theirs, kind, i);
        const double difference = a > b ? a - b : b - a, magnitude = b < 0 ? -b : b;
        if (difference > apart || difference != difference) apart = difference;
        if (magnitude > largest) largest = magnitude;
    }
    if (!memcmp(own, theirs, size)) printf("same bits");
    else printf("%.1e apart, of %.1e", apart, largest);
    free(theirs);
}

/* What has to be there before the call that is timed: what a gradient keeps of the forward function, the places of a grid. Not 0
 * if that is refused. */
static int prepare(const struct layer *layer, const struct kind *kind) {
    struct layer forward = *layer;
    address maps;
    int status;
    switch (layer->function) {
    case POOL_BACK: forward.function = MAX_POOL; return run_layer(&forward);
    case RESPONSE_BACK:
        forward.function = RESPONSE;
        forward.y = layer->before;
        return run_layer(&forward);
    case DROP_BACK: forward.function = DROP; return run_layer(&forward);
    case SAMPLER:
    case SAMPLER_BACK:
        maps = turns(kind);
        status = (int)cudnnSpatialTfGridGeneratorForward(handle, transformer, on_device(maps), on_device(layer->grid));
        CU(cu.synchronize(stream));
        CU(cu.release(maps));
        return status;
    default: return 0;
    }
}

static void describe(enum function function, const struct kind *kind, cudnnTensorFormat_t format) {
    const int dims[4] = {batch, CHANNELS, EXTENT, EXTENT};
    CUDNN(cudnnSetTensor4dDescriptor(whole, format, kind->type, batch, CHANNELS, EXTENT, EXTENT));
    CUDNN(cudnnSetTensor4dDescriptor(pooled, format, kind->type, batch, CHANNELS, POOLED, POOLED));
    CUDNN(cudnnSetTensor4dDescriptor(biases, format, kind->type, 1, CHANNELS, 1, 1));
    /* Statistics and their gradients are of binary32. */
    CUDNN(cudnnSetTensor4dDescriptor(channels, format, CUDNN_DATA_FLOAT, 1, CHANNELS, 1, 1));
    CUDNN(cudnnSetPooling2dDescriptor(
        pooling,
        function == AVERAGE_POOL ? CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING : CUDNN_POOLING_MAX_DETERMINISTIC,
        CUDNN_NOT_PROPAGATE_NAN, 3, 3, 1, 1, 2, 2));
    CUDNN(cudnnSetActivationDescriptor(activation, function == TANH ? CUDNN_ACTIVATION_TANH : CUDNN_ACTIVATION_RELU,
                                       CUDNN_NOT_PROPAGATE_NAN, 0));
    CUDNN(cudnnSetSpatialTransformerNdDescriptor(transformer, CUDNN_SAMPLER_BILINEAR, kind->type, 4, dims));
}

static void run(enum function function, const struct kind *kind, size_t layout, FILE *save, const char *beside,
                const char *against) {
    const size_t count = (size_t)batch * CHANNELS * EXTENT * EXTENT, few = (size_t)batch * CHANNELS * POOLED * POOLED;
    const size_t places = (size_t)batch * EXTENT * EXTENT * 2;
    const enum result result = functions[function].result;
    const size_t size = (result == WHOLE ? count : result == POOLED_ONLY ? few : CHANNELS) * kind->size;
    const double moved = functions[function].moved;
    struct layer layer = {function, 0, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0};
    struct times times = {0, 0, 0, 0, 0}, floor = {0, 0, 0, 0, 0};
    struct copy copy = {0, 0, count * kind->size};
    unsigned char *host;
    char row[128];
    int i;
    snprintf(row, sizeof row, "%s/%s/%s", functions[function].name, kind->name, layouts[layout].name);
    if (!strstr(row, only)) return;
    describe(function, kind, layouts[layout].format);
    CUDNN(cudnnDropoutGetReserveSpaceSize(whole, &layer.bits_size));
    layer.x = filled(count, kind, 1, 0);
    layer.y = filled(count, kind, 2, 0);
    layer.dy = filled(count, kind, 3, 0);
    layer.before = filled(count, kind, 14, 0);
    layer.small = filled(few, kind, 4, 0);
    layer.small_back = filled(few, kind, 5, 0);
    for (i = 0; i < 8; i++) layer.numbers[i] = filled(CHANNELS, &kinds[0], (uint32_t)(6 + i), i == 3);
    CU(cu.alloc(&layer.bits, layer.bits_size));
    layer.grid = filled(places, kind, 15, 0);
    layer.grid_back = filled(places, kind, 16, 0);
    copy.src = layer.x;
    copy.dst = layer.y;
    copy.bytes = (size_t)((double)copy.bytes * (moved < 2 ? moved / 2 : 1));
    if (prepare(&layer, kind) || time_first(run_layer, &layer, &times)) {
        printf("%-44snot supported\n", row);
    } else {
        if (!(host = malloc(size))) die("no memory for a result");
        CU(cu.to_host(host, result == WHOLE ? layer.y : result == POOLED_ONLY ? layer.small : layer.numbers[7], size));
        if (time_both(run_layer, &layer, &times, run_copy, &copy, &floor)) die("%s: refused later", row);
        print_times(row, &times, moved * (double)count * (double)kind->size / times.median / 1e3,
                    floor.median * (moved / 2) / (moved < 2 ? moved / 2 : 1) / times.median);
        if (against) {
            const float theirs = time_of(against, row);
            FILE *other = results(against, row, "rb");
            if (theirs > 0 && other) {
                printf("%10.2f  ", theirs / times.median);
                print_comparison(host, size, kind, other);
            }
            if (other) fclose(other);
        }
        printf("\n");
        if (save) {
            FILE *own = results(beside, row, "wb");
            fprintf(save, "%s %f\n", row, times.median);
            if (!own || fwrite(host, 1, size, own) != size || fclose(own)) die("the results cannot be written");
        }
        free(host);
    }
    fflush(stdout);
    CU(cu.release(layer.x));
    CU(cu.release(layer.y));
    CU(cu.release(layer.dy));
    CU(cu.release(layer.before));
    CU(cu.release(layer.small));
    CU(cu.release(layer.small_back));
    for (i = 0; i < 8; i++) CU(cu.release(layer.numbers[i]));
    CU(cu.release(layer.bits));
    CU(cu.release(layer.grid));
    CU(cu.release(layer.grid_back));
}

int main(int count, char **arguments) {
    FILE *save = NULL;
    const char *beside = NULL, *against = NULL;
    size_t kind, layout, states_size;
    address states;
    int i, function;
    for (i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--save")) beside = arguments[i + 1];
        else if (!strcmp(arguments[i], "--against")) against = arguments[i + 1];
        else if (!strcmp(arguments[i], "--batch")) batch = atoi(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--only")) only = arguments[i + 1];
        else if (!common_option(arguments[i], arguments[i + 1])) die("no option %s", arguments[i]);
    }
    if (beside) save = fopen(beside, "w");
    if ((!save && !against) || batch < 1)
        die("usage: gpu_layers --save FILE | --against FILE [--batch N] [--only TEXT] ...");
    open_device();
    printf("# %s, cudnnGetVersion %zu, %d images of %d channels; GB/s of tensors read and written once\n", device_name,
           cudnnGetVersion(), batch, CHANNELS);
    print_head("# layer", "GB/s", against != NULL);
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    CUDNN(cudnnCreateTensorDescriptor(&whole));
    CUDNN(cudnnCreateTensorDescriptor(&pooled));
    CUDNN(cudnnCreateTensorDescriptor(&channels));
    CUDNN(cudnnCreatePoolingDescriptor(&pooling));
    CUDNN(cudnnCreateActivationDescriptor(&activation));
    CUDNN(cudnnCreateTensorDescriptor(&biases));
    CUDNN(cudnnCreateLRNDescriptor(&window));
    CUDNN(cudnnSetLRNDescriptor(window, 5, 1e-4, 0.75, 2));
    CUDNN(cudnnCreateDropoutDescriptor(&dropout));
    CUDNN(cudnnDropoutGetStatesSize(handle, &states_size));
    CU(cu.alloc(&states, states_size));
    CUDNN(cudnnSetDropoutDescriptor(dropout, handle, 0.5f, on_device(states), states_size, 1));
    CUDNN(cudnnCreateSpatialTransformerDescriptor(&transformer));
    for (function = 0; function < FUNCTIONS; function++)
        for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (layout = 0; layout < sizeof layouts / sizeof *layouts; layout++)
                run((enum function)function, &kinds[kind], layout, save, beside, against);
    if (save && fclose(save)) die("the results cannot be written");
    return 0;
}
