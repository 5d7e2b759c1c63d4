/* A photograph through tensor layouts and back: a plain C99 program that knows nothing but <cudnn.h>.
 *
 *   photo                        creates a handle and prints the version of the library
 *   photo IN.ppm [MIRRORED.ppm]  runs every step below, checks each against an obvious loop, prints a table
 *
 * Exit status: 0 when every check holds, 1 when one fails, 2 when a call or a file does.
 */
#define _POSIX_C_SOURCE 200809L
#include <cudnn.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 3, LANES = 32, BATCH = 32 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "photo: %s: %s\n", what, why);
    exit(2);
}

static void call(cudnnStatus_t status, const char *what) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char reason[512] = "";
    cudnnGetLastErrorString(reason, sizeof reason);
    fprintf(stderr, "photo: %s returned %s\n%s%s", what, cudnnGetErrorString(status), reason, *reason ? "\n" : "");
    exit(2);
}
#define CALL(f, ...) call(f(__VA_ARGS__), #f)

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) die("malloc", "out of memory");
    memset(memory, 0xA5, bytes); /* what is never written shows up in the checks */
    return memory;
}

/* ---- tensors -------------------------------------------------------------------------------------------- */

typedef struct {
    int n, h, w;
} Shape;

/* Where channel c of pixel (n, y, x) lies, counted in scalars: the layouts, written out by hand. */
typedef ptrdiff_t Locate(Shape s, int n, int c, int y, int x);
static ptrdiff_t nchw(Shape s, int n, int c, int y, int x) {
    return (((ptrdiff_t)n * CHANNELS + c) * s.h + y) * s.w + x;
}
static ptrdiff_t nhwc(Shape s, int n, int c, int y, int x) {
    return (((ptrdiff_t)n * s.h + y) * s.w + x) * CHANNELS + c;
}
static ptrdiff_t vect(Shape s, int n, int c, int y, int x) { return (((ptrdiff_t)n * s.h + y) * s.w + x) * LANES + c; }
static ptrdiff_t flip(Shape s, int n, int c, int y, int x) {
    return (((ptrdiff_t)n * s.h + y) * s.w - x) * CHANNELS + c;
}

typedef struct {
    const char *name; /* type and layout, for the table */
    cudnnDataType_t type;
    Locate *locate;
    Shape shape;
    cudnnTensorDescriptor_t desc;
    int dims[4], strides[4];
    size_t bytes;
} Tensor;

/* Fills in what the table shows from what the library says about its descriptor. */
static Tensor described(Tensor t) {
    int rank;
    CALL(cudnnGetTensorNdDescriptor, t.desc, 4, &t.type, &rank, t.dims, t.strides);
    CALL(cudnnGetTensorSizeInBytes, t.desc, &t.bytes);
    return t;
}

static Tensor tensor(const char *name, cudnnTensorFormat_t format, cudnnDataType_t type, Shape s) {
    static Locate *const locate[] = {nchw, nhwc, vect};
    Tensor t = {.name = name, .locate = locate[format], .shape = s};
    int channels = format == CUDNN_TENSOR_NCHW_VECT_C ? LANES : CHANNELS;
    CALL(cudnnCreateTensorDescriptor, &t.desc);
    CALL(cudnnSetTensor4dDescriptor, t.desc, format, type, s.n, channels, s.h, s.w);
    return described(t);
}

/* The pixels of an NHWC image, every row read from its last pixel to its first. */
static Tensor mirrored(const char *name, Shape s) {
    Tensor t = {.name = name, .locate = flip, .shape = s};
    CALL(cudnnCreateTensorDescriptor, &t.desc);
    CALL(cudnnSetTensor4dDescriptorEx, t.desc, CUDNN_DATA_UINT8, s.n, CHANNELS, s.h, s.w, s.h * s.w * CHANNELS, 1,
         s.w * CHANNELS, -CHANNELS);
    return described(t);
}

/* ---- the obvious loop that every step is checked against ------------------------------------------------ */

/* The binary16 nearest to f, ties to even, for f = 0 and 2^-14 <= f < 65520: all that pixels in 0..1 become. */
static uint16_t half_from_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (bits == 0) return 0;
    uint32_t rounded = bits + 0xFFF + ((bits >> 13) & 1); /* 13 of binary32's 23 fraction bits go */
    return (uint16_t)((rounded >> 13) - ((127 - 15) << 10));
}

static float float_from_half(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float magnitude = exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
    return half >> 15 ? -magnitude : magnitude;
}

static float clamp(float f, float low, float high) { return f < low ? low : f > high ? high : f; }

static float load(const Tensor *t, const void *data, int n, int c, int y, int x) {
    ptrdiff_t i = t->locate(t->shape, n, c, y, x);
    switch (t->type) {
    case CUDNN_DATA_UINT8: return ((const uint8_t *)data)[i];
    case CUDNN_DATA_INT8x32: return ((const int8_t *)data)[i];
    case CUDNN_DATA_HALF: return float_from_half(((const uint16_t *)data)[i]);
    default: return ((const float *)data)[i];
    }
}

/* What a tensor of this type holds after f has been stored in it. */
static float stored(cudnnDataType_t type, float f) {
    switch (type) {
    case CUDNN_DATA_UINT8: return clamp(rintf(f), 0, 255);
    case CUDNN_DATA_INT8x32: return clamp(rintf(f), -128, 127);
    case CUDNN_DATA_HALF: return float_from_half(half_from_float(f));
    default: return f;
    }
}

static char mismatch[160];

/* Whether |to - stored(alpha * from)| <= tolerance everywhere and the lanes past the last channel are zero;
 * notes the first position that is wrong. */
static int check(const Tensor *from, const void *src, const Tensor *to, const void *dst, float alpha, float tolerance) {
    Shape s = to->shape;
    int channels = to->type == CUDNN_DATA_INT8x32 ? LANES : CHANNELS;
    for (int n = 0; n < s.n; n++)
        for (int y = 0; y < s.h; y++)
            for (int x = 0; x < s.w; x++)
                for (int c = 0; c < channels; c++) {
                    float want = c < CHANNELS ? stored(to->type, alpha * load(from, src, n, c, y, x)) : 0;
                    float got = load(to, dst, n, c, y, x);
                    if (!(fabsf(got - want) <= tolerance)) {
                        snprintf(mismatch, sizeof mismatch, "at n=%d c=%d h=%d w=%d: %.9g instead of %.9g", n, c, y, x,
                                 got, want);
                        return 0;
                    }
                }
    return 1;
}

/* ---- the table ------------------------------------------------------------------------------------------- */

static int colours;
static const char *paint(const char *escape) { return colours ? escape : ""; }
#define BOLD paint("\033[1m")
#define DIM paint("\033[2m")
#define GREEN paint("\033[32m")
#define RED paint("\033[1;31m")
#define PLAIN paint("\033[0m")

enum { COLUMNS = 9 };
static const int widths[COLUMNS] = {2, 30, 17, 12, 19, 8, 6, 8, 6};

static void rule(const char *left, const char *middle, const char *right) {
    printf("%s%s", DIM, left);
    for (int i = 0; i < COLUMNS; i++) {
        for (int j = 0; j < widths[i] + 2; j++) printf("─");
        printf("%s", i + 1 < COLUMNS ? middle : right);
    }
    printf("%s\n", PLAIN);
}

/* One cell, padded to its column; counts characters, not bytes, of UTF-8. */
static void cell(int column, int to_the_right, const char *colour, const char *text) {
    int length = 0;
    for (const char *p = text; *p; p++) length += (*p & 0xC0) != 0x80;
    int gap = widths[column] > length ? widths[column] - length : 0;
    printf("%s│%s %*s%s%s%s%*s ", DIM, PLAIN, to_the_right ? gap : 0, "", colour, text, *colour ? PLAIN : "",
           to_the_right ? 0 : gap, "");
    if (column + 1 == COLUMNS) printf("%s│%s\n", DIM, PLAIN);
}

static void tensor_cells(const char *arrow, const Tensor *t) {
    char text[96];
    snprintf(text, sizeof text, "%s%s", arrow, t->name);
    cell(2, 0, "", text);
    snprintf(text, sizeof text, "%d×%d×%d×%d", t->dims[0], t->dims[1], t->dims[2], t->dims[3]);
    cell(3, 0, "", text);
    snprintf(text, sizeof text, "%d,%d,%d,%d", t->strides[0], t->strides[1], t->strides[2], t->strides[3]);
    cell(4, 0, "", text);
    snprintf(text, sizeof text, "%zu", t->bytes);
    cell(5, 1, "", text);
}

/* ---- steps ----------------------------------------------------------------------------------------------- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int failures, step_number;

/* dst = alpha * src several times, `pad` channels added behind the last one (cut off, if negative); checks what the
 * last run wrote and prints two rows: from and to. */
static void step(cudnnHandle_t handle, const char *title, const char *detail, const Tensor *from, const void *src,
                 const Tensor *to, void *dst, float alpha, int pad) {
    const float beta = 0;
    cudnnTensorTransformDescriptor_t padding = NULL;
    if (pad) {
        const int32_t before[4] = {0, 0, 0, 0}, after[4] = {0, pad, 0, 0};
        const uint32_t fold[2] = {1, 1};
        CALL(cudnnCreateTensorTransformDescriptor, &padding);
        CALL(cudnnSetTensorTransformDescriptor, padding, 4, CUDNN_TENSOR_NCHW, before, after, fold,
             CUDNN_TRANSFORM_FOLD);
    }
    double best = INFINITY, started = seconds();
    for (int i = 0; i < 5 || (i < 200 && seconds() - started < 0.2); i++) {
        double t = seconds();
        if (padding)
            CALL(cudnnTransformTensorEx, handle, padding, &alpha, from->desc, src, &beta, to->desc, dst);
        else
            CALL(cudnnTransformTensor, handle, &alpha, from->desc, src, &beta, to->desc, dst);
        t = seconds() - t;
        best = t < best ? t : best;
    }
    if (padding) CALL(cudnnDestroyTensorTransformDescriptor, padding);

    int good = check(from, src, to, dst, alpha, 0);
    failures += !good;
    char text[64];
    if (step_number) rule("├", "┼", "┤");
    snprintf(text, sizeof text, "%d", ++step_number);
    cell(0, 1, BOLD, text);
    cell(1, 0, BOLD, title);
    tensor_cells("  ", from);
    cell(6, 0, good ? GREEN : RED, good ? "ok" : "FAILED");
    cell(7, 1, "", "");
    cell(8, 1, "", "");
    cell(0, 1, "", "");
    cell(1, 0, DIM, detail);
    tensor_cells("→ ", to);
    cell(6, 0, "", "");
    snprintf(text, sizeof text, "%.3f", 1e3 * best);
    cell(7, 1, "", text);
    snprintf(text, sizeof text, "%.2f", 1e-9 * (double)(from->bytes + to->bytes) / best);
    cell(8, 1, BOLD, text);
    if (!good) printf("  %sstep %d: %s%s\n", RED, step_number, mismatch, PLAIN);
}

/* One line below the table. */
static void verdict(const char *title, int good) {
    failures += !good;
    printf("  %s%-6s%s %s%s%s\n", good ? GREEN : RED, good ? "ok" : "FAILED", PLAIN, title, good ? "" : ": ",
           good ? "" : mismatch);
}

/* ---- photographs ----------------------------------------------------------------------------------------- */

/* Reads a binary PPM with 8 bits per channel and no comments. */
static uint8_t *read_ppm(const char *path, Shape *shape) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path, "cannot be opened");
    int depth;
    if (fscanf(file, "P6 %d %d %d", &shape->w, &shape->h, &depth) != 3 || fgetc(file) == EOF || depth != 255 ||
        shape->w < 1 || shape->h < 1 || shape->w > 8192 || shape->h > 8192)
        die(path, "is no binary PPM of 8 bits per channel");
    size_t bytes = (size_t)shape->w * shape->h * CHANNELS;
    uint8_t *pixels = allocate(bytes);
    if (fread(pixels, 1, bytes, file) != bytes) die(path, "is too short");
    fclose(file);
    shape->n = 1;
    return pixels;
}

static void write_ppm(const char *path, Shape shape, const uint8_t *pixels) {
    size_t bytes = (size_t)shape.w * shape.h * CHANNELS;
    FILE *file = fopen(path, "wb");
    if (!file || fprintf(file, "P6\n%d %d\n255\n", shape.w, shape.h) < 0 || fwrite(pixels, 1, bytes, file) != bytes ||
        fclose(file))
        die(path, "cannot be written");
    printf("  mirrored photograph: %s\n", path);
}

int main(int argc, char **argv) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    colours = isatty(1) && !(no_color && *no_color) && !(term && !strcmp(term, "dumb"));

    cudnnHandle_t handle;
    CALL(cudnnCreate, &handle);
    if (argc < 2) {
        size_t version = cudnnGetVersion();
        printf("%zu.%zu.%zu\n", version / 10000, version / 100 % 100, version % 100);
        CALL(cudnnDestroy, handle);
        return 0;
    }

    Shape one, many;
    uint8_t *photo = read_ppm(argv[1], &one);
    many = one;
    many.n = BATCH;

    Tensor u8 = tensor("u8 NHWC", CUDNN_TENSOR_NHWC, CUDNN_DATA_UINT8, one);
    Tensor f32 = tensor("f32 NCHW", CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, one);
    Tensor f16 = tensor("f16 NHWC", CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, one);
    Tensor s8x32 = tensor("s8x32 NC/32HW32", CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, one);
    Tensor reversed = mirrored("u8 NHWC, W < 0", one);
    Tensor u8_batch = tensor("u8 NHWC", CUDNN_TENSOR_NHWC, CUDNN_DATA_UINT8, many);
    Tensor f32_batch = tensor("f32 NCHW", CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, many);
    Tensor f16_batch = tensor("f16 NHWC", CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, many);

    uint8_t *photos = allocate(u8_batch.bytes);
    for (int i = 0; i < BATCH; i++) memcpy(photos + i * u8.bytes, photo, u8.bytes);
    void *planes = allocate(f32.bytes), *halves = allocate(f16.bytes), *exact = allocate(u8.bytes);
    void *vectors = allocate(s8x32.bytes), *dequantised = allocate(f32.bytes), *quantised = allocate(u8.bytes);
    void *mirror = allocate(u8.bytes);
    void *many_planes = allocate(f32_batch.bytes), *many_halves = allocate(f16_batch.bytes);
    const uint8_t *last_of_first_row = photo + (size_t)(one.w - 1) * CHANNELS;
    const float per_255 = 1.0f / 255, per_127 = 1.0f / 127;

    static const char *const heads[2][COLUMNS] = {
        {"#", "step", "from", "dims", "strides", "bytes", "check", "ms", "GB/s"},
        {"", "", "→ to", "N×C×H×W", "N,C,H,W", "", "", "best", ""}};
    rule("┌", "┬", "┐");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < COLUMNS; j++) cell(j, j == 0 || j == 5 || j > 6, BOLD, heads[i][j]);
    rule("╞", "╪", "╡");
    step(handle, "pixels to planes", "times 1/255", &u8, photo, &f32, planes, per_255, 0);
    step(handle, "half precision, channels last", "nearest even", &f32, planes, &f16, halves, 1, 0);
    step(handle, "and back to pixels", "times 255", &f16, halves, &u8, exact, 255, 0);
    step(handle, "quantise, pad 3 channels to 32", "times 127, padding is zero", &f16, halves, &s8x32, vectors, 127,
         29);
    step(handle, "dequantise, crop to 3 channels", "times 1/127", &s8x32, vectors, &f32, dequantised, per_127, -29);
    step(handle, "and back to pixels", "times 255", &f32, dequantised, &u8, quantised, 255, 0);
    step(handle, "mirror", "a negative stride along W", &reversed, last_of_first_row, &u8, mirror, 1, 0);
    step(handle, "32 photographs to planes", "times 1/255", &u8_batch, photos, &f32_batch, many_planes, per_255, 0);
    step(handle, "32 photographs to half NHWC", "nearest even", &f32_batch, many_planes, &f16_batch, many_halves, 1, 0);
    rule("└", "┴", "┘");

    verdict("through float and half and back: every pixel equals the original", check(&u8, photo, &u8, exact, 1, 0));
    /* A quantisation step is 255/127 levels; half of it, 1.004, and the rounding to half before, 0.06, are the error of
     * a value, which then rounds to 1. */
    verdict("through int8x32 and back: within 1 of 255 levels of the original",
            check(&u8, photo, &u8, quantised, 1, 1));
    if (argc > 2) write_ppm(argv[2], one, mirror);
    CALL(cudnnDestroy, handle);
    return failures != 0;
}
