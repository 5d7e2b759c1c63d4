/* The same bits for 1 to 8 threads and in repeated runs, in every direction, alone and fused: a process for each number of
 * threads, which is read once, tells the bits of what it computes of the same numbers.
 *
 * Not under valgrind, which runs one thread at a time. */
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "convolution.h"

enum { MOST_THREADS = 8, RUNS = 3, SHAPES = 9, CALLS = 4 };

/* Blocked sums, transforms, first layers, depthwise, sums deeper than a block, and filter gradients of many pixels. */
static const struct shape shapes[SHAPES] = {
    {2, 60, 17, 19, 50, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {1, 40, 33, 31, 36, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {1, 40, 33, 31, 36, 3, 3, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {2, 3, 50, 54, 24, 7, 7, 1, 3, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 48, 30, 29, 48, 3, 3, 48, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 48, 30, 29, 48, 3, 3, 48, 1, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {1, 512, 7, 7, 70, 3, 3, 2, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 30, 21, 22, 28, 3, 3, 1, 2, 1, 2, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_BFLOAT16,
     CUDNN_DATA_FLOAT},
    {2, 20, 21, 22, 18, 3, 3, 1, 1, 2, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE},
};

/* FNV-1a. */
static uint64_t digest(const void *memory, size_t size) {
    const unsigned char *bytes = (const unsigned char *)memory;
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash;
}

/* Fractions of seven bits and a sign, which every type holds, and whose sums round. */
static void fill(void *array, cudnnDataType_t type, size_t count, uint32_t seed) {
    size_t i;
    for (i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        set_at(array, type, i,
               ((seed >> 24 & 127) + 1) * (seed >> 31 ? -1 : 1) * (seed >> 16 & 1 ? 0.001953125 : 0.25));
    }
}

static void compute_all(uint64_t told[SHAPES][CALLS]) {
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t vector;
    cudnnActivationDescriptor_t relu;
    int shape, call, run;
    float one = 1;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0));
    for (shape = 0; shape < SHAPES; shape++) {
        struct convolution of = describe(shapes[shape]);
        cudnnDataType_t type = of.shape.type;
        size_t size = bytes_of(type);
        void *x = malloc(of.inputs * size), *w = malloc(of.weights * size), *y = malloc(of.outputs * size);
        void *dx = malloc(of.inputs * size), *dw = malloc(of.weights * size), *dy = malloc(of.outputs * size);
        void *bias = malloc(of.shape.k * size), *room = malloc(1 << 16);
        double wide[2] = {1, 1};
        const void *factor = type == CUDNN_DATA_DOUBLE ? (void *)wide : (void *)&one;
        OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, type, 1, of.shape.k, 1, 1));
        fill(x, type, of.inputs, 1);
        fill(w, type, of.weights, 2);
        fill(dy, type, of.outputs, 3);
        fill(bias, type, of.shape.k, 4);
        for (run = 0; run < RUNS; run++) {
            uint64_t now[CALLS];
            OK(compute(handle, &of, FORWARD, run % 8, 1, 0, x, w, y));
            OK(compute(handle, &of, DATA, run % 6, 1, 0, dx, w, dy));
            OK(compute(handle, &of, FILTER, run % 7, 1, 0, x, dw, dy));
            now[FORWARD] = digest(y, of.outputs * size);
            now[DATA] = digest(dx, of.inputs * size);
            now[FILTER] = digest(dw, of.weights * size);
            OK(cudnnConvolutionBiasActivationForward(handle, factor, of.x, x, of.w, w, of.desc,
                                                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, room, 1 << 16, factor,
                                                     of.y, dy, vector, bias, relu, of.y, y));
            now[3] = digest(y, of.outputs * size);
            for (call = 0; call < CALLS; call++) {
                if (run == 0) told[shape][call] = now[call];
                CHECK(now[call] == told[shape][call]);
            }
        }
        free(x);
        free(w);
        free(y);
        free(dx);
        free(dw);
        free(dy);
        free(bias);
        free(room);
        forget(&of);
    }
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroy(handle));
}

int main(void) {
    static uint64_t first[SHAPES][CALLS], told[SHAPES][CALLS];
    int threads, shape, call;
    for (threads = 1; threads <= MOST_THREADS; threads++) {
        int ends[2], status = -1;
        pid_t child;
        size_t got = 0;
        ssize_t part;
        CHECK(pipe(ends) == 0);
        fflush(NULL);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char number[2] = {(char)('0' + threads), 0};
            setenv("CUDNN_SHIM_NUM_THREADS", number, 1);
            compute_all(told);
            if (write(ends[1], told, sizeof told) != (ssize_t)sizeof told) _exit(2);
            _exit(check_failures != 0);
        }
        close(ends[1]);
        while ((part = read(ends[0], (char *)told + got, sizeof told - got)) > 0) got += (size_t)part;
        close(ends[0]);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == sizeof told);
        if (threads == 1) memcpy(first, told, sizeof told);
        for (shape = 0; shape < SHAPES; shape++)
            for (call = 0; call < CALLS; call++)
                if (told[shape][call] != first[shape][call]) {
                    fprintf(stderr, "shape %d, call %d: other bits with %d threads\n", shape, call, threads);
                    check_failures++;
                }
    }
    return check_result("convolution_threads");
}
