/* Memory that runs out inside a convolution, its gradients, the fused call and the measuring ones: they say so, and have
 * written nothing.
 *
 * Not under valgrind, which has an allocator of its own. */
#define _DEFAULT_SOURCE
#include "convolution.h"
#include "failing_memory.h"

#ifdef IS_FAILING
#include <pthread.h>

/* The one whose y is NHWC while x is NCHW: tasks of many rows. */
enum { PROBLEMS = 7, CALLS = 5, TURNED = 6 };

static const struct shape shapes[PROBLEMS] = {
    /* Packed in tiles, transformed, strided and of runs, depthwise in both layouts, of bytes after conversion. */
    {2, 24, 14, 15, 20, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 40, 20, 22, 36, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {1, 9, 30, 31, 20, 5, 3, 1, 2, 2, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {2, 32, 20, 20, 32, 3, 3, 32, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 32, 20, 20, 32, 3, 3, 32, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
    {2, 16, 18, 20, 24, 3, 3, 2, 1, 1, 2, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF,
     CUDNN_DATA_FLOAT},
    {1, 8, 64, 66, 8, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
     CUDNN_DATA_FLOAT},
};

static cudnnHandle_t handle;
static struct convolution of;
static cudnnTensorDescriptor_t vector;
static cudnnActivationDescriptor_t relu;
static unsigned char *x, *w, *y, *z, *bias, *want;
static struct room room;
/* Calls that said that there is no memory. */
static int refused;
static cudnnConvolutionFwdAlgoPerf_t records[10];

static size_t outputs(int call) {
    size_t count = call == DATA ? of.inputs : call == FILTER ? of.weights : of.outputs;
    return count * bytes_of(of.shape.type);
}

static unsigned char *output(int call) { return call == DATA ? x : call == FILTER ? w : y; }

static cudnnStatus_t run(int call) {
    float one = 1;
    int count = 0;
    if (call < 3) return compute_in(handle, &of, (enum direction)call, 1, room, 1, 0, x, w, y);
    if (call == 3)
        return cudnnConvolutionBiasActivationForward(handle, &one, of.x, x, of.w, w, of.desc,
                                                     CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, room.memory,
                                                     room.size, &one, of.y, z, vector, bias, relu, of.y, y);
    return cudnnFindConvolutionForwardAlgorithmEx(handle, of.x, x, of.w, w, of.desc, of.y, y, 8, &count, records,
                                                  room.memory, room.size);
}

static void exhausted(int call) {
    size_t size = outputs(call), i;
    unsigned char *at = output(call);
    int succeeded = 0;
    long n;
    memset(at, 0xff, size);
    OK(run(call));
    memcpy(want, at, size);
    /* All of the first, then ever fewer: some calls make thousands. */
    for (n = 0; n < 20000 && !succeeded; n += 1 + n / 16) {
        cudnnStatus_t status;
        memset(at, 0xff, size);
        failed = 0;
        left = n;
        status = run(call);
        left = -1;
        if (status == CUDNN_STATUS_SUCCESS) {
            /* It did without, or needed no more. */
            CHECK(memcmp(at, want, size) == 0);
            succeeded = !failed;
        } else {
            size_t touched = 0;
            EXPECT(CUDNN_STATUS_ALLOC_FAILED, status);
            refused++;
            for (i = 0; i < size; i++) touched += at[i] != 0xff;
            CHECK(touched == 0);
        }
    }
    CHECK(succeeded);
}

/* In a thread of its own, for the first call of a thread takes the memory that it keeps. */
static void *first_calls(void *call) {
    exhausted(*(int *)call);
    return NULL;
}

static unsigned char *filled(size_t count, int step) {
    unsigned char *array = (unsigned char *)malloc(count * bytes_of(of.shape.type));
    size_t i;
    if (array == NULL) exit(2);
    for (i = 0; i < count; i++) set_at(array, of.shape.type, i, (double)(i * step % 7) - 3);
    return array;
}

int main(void) {
    int problem, call;
    setenv("CUDNN_SHIM_NUM_THREADS", "3", 1);
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&vector));
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    for (problem = 0; problem < PROBLEMS; problem++) {
        size_t most;
        of = describe(shapes[problem]);
        if (problem == TURNED)
            OK(cudnnSetTensor4dDescriptor(of.y, CUDNN_TENSOR_NHWC, of.shape.type, of.shape.n, of.shape.k, of.out_h,
                                          of.out_w));
        OK(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW, of.shape.type, 1, of.shape.k, 1, 1));
        room.size = 1 << 16;
        room.memory = malloc(room.size);
        y = filled(of.outputs, 3);
        z = filled(of.outputs, 5);
        bias = filled((size_t)of.shape.k, 4);
        most = of.inputs > of.outputs ? of.inputs : of.outputs;
        want = filled(most > of.weights ? most : of.weights, 1);
        for (call = 0; call < CALLS; call++) {
            pthread_t thread;
            x = filled(of.inputs, 5);
            w = filled(of.weights, 3);
            /* The threads begin. */
            OK(run(FORWARD));
            CHECK(pthread_create(&thread, NULL, first_calls, &call) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
            free(x);
            free(w);
        }
        free(room.memory);
        free(y);
        free(z);
        free(bias);
        free(want);
        forget(&of);
    }
    CHECK(refused > 0);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(vector));
    OK(cudnnDestroy(handle));
    return check_result("convolution_no_memory");
}
#else
int main(void) { return 0; }
#endif
