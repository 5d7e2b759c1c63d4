/* cudnnReduceTensor on a GPU, timed by device events: sums of rows of several lengths, along the innermost dimension and along
 * the outermost.
 *
 *   gpu_reduce --save FILE                    times every row, keeps times and results
 *   gpu_reduce --against FILE                 the same, and compares both with what another library left in FILE
 *   ... --elements N                          elements of each source, 2^26 if not given
 *   ... --only TEXT                           rows whose name has TEXT in it
 *   ... --repeats N --flush MB --spin MS      as `benches/gpu/device.h` has them: 51, 256, 500
 *
 * Linked once and run with whichever libcudnn.so.9 the loader finds first. Needs a driver, no toolkit. */
#include <cudnn.h>

#include "../gpu/device.h"

static const int lengths[] = {49, 128, 784, 1024, 12544};
static const struct {
    const char *name;
    cudnnDataType_t type;
    size_t size;
} types[] = {{"f32", CUDNN_DATA_FLOAT, 4}, {"f16", CUDNN_DATA_HALF, 2}};

static const char *only_rows = "";
static cudnnHandle_t handle;
static cudnnReduceTensorDescriptor_t reduce;
static cudnnTensorDescriptor_t a_desc, c_desc;

/* What is timed. */
struct reduction {
    address a, c, space;
    size_t size;
};

static int run_reduction(const void *what) {
    const struct reduction *work = (const struct reduction *)what;
    const float one = 1, zero = 0;
    return (int)cudnnReduceTensor(handle, reduce, NULL, 0, (void *)(uintptr_t)work->space, work->size, &one, a_desc,
                                  (void *)(uintptr_t)work->a, &zero, c_desc, (void *)(uintptr_t)work->c);
}

/* The line of a row that another library left: its time, and its sums in a file beside. */
static int found(FILE *other, const char *row, float *time, double *sum) {
    char line[256], name[128];
    rewind(other);
    while (fgets(line, sizeof line, other)) {
        if (sscanf(line, "%127s %f %lf", name, time, sum) == 3 && !strcmp(name, row)) return 1;
    }
    return 0;
}

/* Whole numbers from 0 to 3 have exact sums, of which the largest is told. */
static void run(size_t type, int length, int inner, long long elements, FILE *save, FILE *other) {
    const int rows = (int)(elements / length > 0 ? elements / length : 1);
    const size_t count = (size_t)rows * (size_t)length, bytes = count * types[type].size;
    unsigned char *host = malloc(bytes);
    struct reduction work = {0, 0, 0, 0};
    struct copy copy = {0, 0, bytes};
    struct times times, floor;
    char row[128];
    float theirs = 0, time;
    double largest = 0, their_largest = 0;
    size_t i;
    snprintf(row, sizeof row, "sum-%d-%s-%s", length, inner ? "inner" : "outer", types[type].name);
    if (!strstr(row, only_rows)) {
        free(host);
        return;
    }
    if (!host) die("out of host memory");
    for (i = 0; i < count; i++) {
        static const float values[] = {0, 1, 2, 3};
        static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200};
        const size_t k = i * 2654435761u >> 7 & 3;
        memcpy(host + i * types[type].size, types[type].size == 4 ? (const void *)&values[k] : (const void *)&halves[k],
               types[type].size);
    }
    CUDNN(cudnnSetTensor4dDescriptor(a_desc, CUDNN_TENSOR_NCHW, types[type].type, 1, 1, inner ? rows : length,
                                     inner ? length : rows));
    CUDNN(cudnnSetTensor4dDescriptor(c_desc, CUDNN_TENSOR_NCHW, types[type].type, 1, 1, inner ? rows : 1,
                                     inner ? 1 : rows));
    CUDNN(cudnnGetReductionWorkspaceSize(handle, reduce, a_desc, c_desc, &work.size));
    CU(cu.alloc(&work.a, bytes));
    CU(cu.alloc(&work.c, bytes));
    CU(cu.alloc(&work.space, work.size > 16 ? work.size : 16));
    CU(cu.to_device(work.a, host, bytes));
    copy.src = work.a;
    copy.dst = work.c;
    copy.bytes = bytes / 2; /* as many bytes read and written as the sums read */
    if (time_first(run_reduction, &work, &times)) {
        printf("%-44srefused\n", row);
    } else {
        const size_t result = (size_t)rows * types[type].size;
        CU(cu.to_host(host, work.c, result));
        for (i = 0; i < (size_t)rows; i++) {
            double value;
            if (types[type].size == 4) {
                float single;
                memcpy(&single, host + 4 * i, 4);
                value = single;
            } else {
                uint16_t half;
                memcpy(&half, host + 2 * i, 2);
                value = (1 + (half & 1023) / 1024.0) * (double)(1ull << (half >> 10 & 31)) / 32768;
            }
            if (value > largest) largest = value;
        }
        if (time_both(run_reduction, &work, &times, run_copy, &copy, &floor)) die("%s: refused later", row);
        print_times(row, &times, (double)bytes / times.median / 1e3, floor.median / times.median);
        time = times.median;
        if (other && found(other, row, &theirs, &their_largest))
            printf("%10.2f  %s", theirs / time, largest == their_largest ? "same largest sum" : "OTHER LARGEST SUM");
        printf("\n");
        if (save) fprintf(save, "%s %f %.17g\n", row, time, largest);
    }
    fflush(stdout);
    CU(cu.release(work.a));
    CU(cu.release(work.c));
    CU(cu.release(work.space));
    free(host);
}

int main(int count, char **arguments) {
    FILE *save = NULL, *other = NULL;
    long long elements = 1 << 26;
    size_t type, length;
    int i;
    for (i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--save"))
            save = fopen(arguments[i + 1], "w");
        else if (!strcmp(arguments[i], "--against"))
            other = fopen(arguments[i + 1], "r");
        else if (!strcmp(arguments[i], "--elements"))
            elements = atoll(arguments[i + 1]);
        else if (!strcmp(arguments[i], "--only"))
            only_rows = arguments[i + 1];
        else if (!common_option(arguments[i], arguments[i + 1]))
            die("no option %s", arguments[i]);
    }
    if ((!save && !other) || elements < 1) die("usage: gpu_reduce --save FILE | --against FILE [--elements N] ...");
    open_device();
    printf("# %s, cudnnGetVersion %zu; GB/s of bytes read; copy: one that reads and writes as many bytes\n", device_name,
           cudnnGetVersion());
    print_head("# reduction", "GB/s", other != NULL);
    CUDNN(cudnnCreate(&handle));
    CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    CUDNN(cudnnCreateTensorDescriptor(&a_desc));
    CUDNN(cudnnCreateTensorDescriptor(&c_desc));
    CUDNN(cudnnCreateReduceTensorDescriptor(&reduce));
    CUDNN(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                         CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    for (type = 0; type < sizeof types / sizeof *types; type++)
        for (length = 0; length < sizeof lengths / sizeof *lengths; length++)
            for (i = 1; i >= 0; i--) run(type, lengths[length], i, elements, save, other);
    CUDNN(cudnnDestroy(handle));
    if (save && fclose(save)) die("the results cannot be written");
    return 0;
}
