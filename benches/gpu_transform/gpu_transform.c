/* cudnnTransformTensor on a GPU, timed by device events.
 *
 *   gpu_transform PROBLEMS --save DIR         times every problem, keeps times and results
 *   gpu_transform PROBLEMS --against DIR      the same, and compares both with what another library left in DIR
 *   ... --shrink N                            the outermost dimension divided by N, to try the program out
 *   ... --only TEXT                           problems whose name has TEXT in it
 *   ... --repeats N --flush MB --spin MS      as `benches/gpu/device.h` has them: 51, 256, 500
 *
 * The program is linked once and run with whichever libcudnn.so.9 the loader finds first, so that everything but the
 * library is the same. It needs a driver, no toolkit. `run.sh` does all of it. */
#include <cudnn.h>

#include "../gpu/device.h"

enum { MAX_RANK = 8 };

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
    float tolerance; /* units in the last place of the largest product; 0: the same bits */
};

static int type_named(const char *name) {
    size_t i;
    for (i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) return (int)i;
    die("no type %s", name);
    return 0;
}

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
        problem->tolerance = 0;
        if (sscanf(line, "%63s %15s %15s %63s %31s %31s %f %f %f", problem->name, src, dst, extents, from, to,
                   &problem->alpha, &problem->beta, &problem->tolerance) < 8)
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

static cudnnHandle_t handle;

/* What is timed. */
struct transform {
    const struct problem *problem;
    address dst, src;
};

static int run_transform(const void *what) {
    const struct transform *work = (const struct transform *)what;
    return cudnnTransformTensor(handle, &work->problem->alpha, work->problem->src.desc, (void *)(uintptr_t)work->src,
                                &work->problem->beta, work->problem->dst.desc, (void *)(uintptr_t)work->dst);
}

static FILE *result_file(const char *dir, const char *name, const char *mode) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return fopen(path, mode);
}

static double value_of(const unsigned char *bytes, size_t i, int type) {
    const char *name = types[type].name;
    uint32_t bits;
    uint16_t half;
    float single;
    double value;
    if (!strcmp(name, "f64")) {
        memcpy(&value, bytes + 8 * i, 8);
        return value;
    }
    if (!strcmp(name, "f32") || !strcmp(name, "bf16")) {
        if (name[0] == 'f') {
            memcpy(&bits, bytes + 4 * i, 4);
        } else {
            memcpy(&half, bytes + 2 * i, 2);
            bits = (uint32_t)half << 16;
        }
        memcpy(&single, &bits, 4);
        return single;
    }
    if (!strcmp(name, "f16")) {
        const double sign = bytes[2 * i + 1] & 0x80 ? -1 : 1;
        int exponent, k;
        memcpy(&half, bytes + 2 * i, 2);
        exponent = half >> 10 & 31;
        value = exponent ? 1024 + (half & 1023) : half & 1023;
        for (k = 0; k < (exponent ? exponent : 1); k++) value *= 2;
        for (k = 0; k < 25; k++) value /= 2;
        return exponent == 31 ? sign * 1e30 : sign * value;
    }
    return (signed char)bytes[i];
}

/* How far what is in DIR/NAME is away at most, in units in the last place of the largest product that a row has; 0 for the
 * same bits. */
static double distance(const char *dir, const char *name, const unsigned char *bytes, const struct problem *problem) {
    const int type = problem->dst.type;
    const size_t size = problem->dst.bytes, scalar = types[type].size;
    const double units[] = {1.0 / (1 << 23), 1.0 / (1ull << 52), 1.0 / (1 << 10), 1.0 / (1 << 7), 1.0 / 128, 1.0 / 128};
    const double alpha = problem->alpha < 0 ? -problem->alpha : problem->alpha;
    const double beta = problem->beta < 0 ? -problem->beta : problem->beta;
    const double unit = units[type] * (strcmp(types[type].name, "f16") ? 128 : 512) * (alpha > beta ? alpha : beta);
    FILE *file = result_file(dir, name, "rb");
    unsigned char *other = (unsigned char *)malloc(size + 1);
    double most = 0;
    size_t i;
    if (!file || !other) die("cannot read %s/%s", dir, name);
    if (fread(other, 1, size + 1, file) != size) die("%s/%s has not the bytes of this row", dir, name);
    fclose(file);
    for (i = 0; i < size / scalar; i++) {
        double difference;
        if (!memcmp(bytes + i * scalar, other + i * scalar, scalar)) continue;
        difference = value_of(bytes, i, type) - value_of(other, i, type);
        if (difference < 0) difference = -difference;
        /* Other bits of one value, and what is no number, count, too. */
        difference = difference > 0 ? difference / unit : 1e9;
        if (difference > most) most = difference;
    }
    free(other);
    return most;
}

static void save_bytes(const char *dir, const char *name, const unsigned char *bytes, size_t size) {
    FILE *file = result_file(dir, name, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) die("cannot write %s/%s", dir, name);
}

/* Runs one problem. Returns 1 if the other library's result is further away than the row allows. */
static int run_problem(struct problem *problem, const char *save, const char *against) {
    size_t bytes = problem->src.cells * types[problem->src.type].size +
                   problem->dst.cells * types[problem->dst.type].size * (problem->beta != 0.0f ? 2 : 1);
    struct copy copy = {0, 0, bytes / 2};
    size_t room = copy.bytes > problem->src.bytes ? copy.bytes : problem->src.bytes;
    unsigned char *host_src, *host_dst;
    address src, dst;
    struct transform transform = {problem, 0, 0};
    struct times times, floor;
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
    transform.src = copy.src = src;
    transform.dst = copy.dst = dst;

    /* The first run is the one whose result counts: with beta, every later one starts from another destination. */
    if (time_first(run_transform, &transform, &times)) {
        printf("%-44srefused\n", problem->name);
    } else {
        CU(cu.to_host(host_dst, dst, problem->dst.bytes));
        if (time_both(run_transform, &transform, &times, run_copy, &copy, &floor)) die("%s: refused later", problem->name);
        print_times(problem->name, &times, (double)bytes / times.median / 1e3, floor.median / times.median);
        if (against) {
            char name[80];
            FILE *file;
            snprintf(name, sizeof name, "%s.us", problem->name);
            file = result_file(against, name, "r");
            if (!file) {
                printf("   refused");
            } else {
                double away;
                if (fscanf(file, "%f", &other) != 1) die("cannot read %s/%s", against, name);
                fclose(file);
                snprintf(name, sizeof name, "%s.bin", problem->name);
                away = distance(against, name, host_dst, problem);
                differs = away > problem->tolerance;
                printf("%10.2f  ", other / times.median);
                if (away == 0) printf("same bits");
                else printf("%.2g of %.2g ulp%s", away, problem->tolerance, differs ? "  TOO FAR" : "");
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
    return differs;
}

int main(int argc, char **argv) {
    const char *save = NULL, *against = NULL, *only = "";
    struct problem problem;
    int shrink = 1, differing = 0, i;
    FILE *file;
    if (argc < 2) die("usage: %s PROBLEMS [--save DIR] [--against DIR] [--repeats N] [--shrink N] ...", argv[0]);
    for (i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--save"))
            save = argv[i + 1];
        else if (!strcmp(argv[i], "--against"))
            against = argv[i + 1];
        else if (!strcmp(argv[i], "--only"))
            only = argv[i + 1];
        else if (!strcmp(argv[i], "--shrink"))
            shrink = atoi(argv[i + 1]);
        else if (!common_option(argv[i], argv[i + 1]))
            die("no option %s", argv[i]);
    }
    if (shrink < 1) die("--shrink takes a number from 1 on");
    file = fopen(argv[1], "r");
    if (!file) die("cannot read %s", argv[1]);
    open_device();
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    printf(
        "# %s, cudnnGetVersion %lu; GB/s of bytes read and written; copy: a device-to-device copy of as many bytes\n",
        device_name, (unsigned long)cudnnGetVersion());
    print_head("# problem", "GB/s", against != NULL);
    while (next_problem(file, shrink, &problem)) {
        if (strstr(problem.name, only)) differing += run_problem(&problem, save, against);
        CUDNN(cudnnDestroyTensorDescriptor(problem.src.desc));
        CUDNN(cudnnDestroyTensorDescriptor(problem.dst.desc));
    }
    CUDNN(cudnnDestroy(handle));
    if (against) printf("# %d results differ from the other library's by more than the rows allow\n", differing);
    fclose(file);
    return differing != 0;
}
