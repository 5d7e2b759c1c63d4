/* Handles on a GPU beside the original, by the scenario that the first argument names: data lies on the device, work goes
 * on streams, and streams are captured. The device is the driver double. */
#include <dlfcn.h>
#include <pthread.h>

#include <cuda_runtime_api.h>

#include "check_beside.h"

/* What of the driver itself is called. */
int cuStreamBeginCapture_v2(cudaStream_t stream, unsigned mode);
int cuStreamEndCapture(cudaStream_t stream, void **graph);
int cuGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long flags);
int cuGraphLaunch(void *instance, cudaStream_t stream);

enum { N = 2, C = 3, H = 4, W = 5, SIZE = N * C * H * W, BYTES = SIZE * (int)sizeof(float) };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t planes, pixels;
static cudnnActivationDescriptor_t relu;
static const float one = 1, zero = 0;
static float x[SIZE];
/* On the device: the input, and a buffer for each step of `steps`. */
static float *input, *middle, *moved;

static cudnnTensorDescriptor_t tensor(cudnnTensorFormat_t format) {
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, format, CUDNN_DATA_FLOAT, N, C, H, W));
    return desc;
}

static float *on_device(void) {
    void *memory = NULL;
    CHECK(cudaMalloc(&memory, BYTES) == 0 && cudaMemset(memory, 0xEE, BYTES) == 0);
    return (float *)memory;
}

/* How often the program's library has called a function of the original's double. */
static unsigned count(const char *name) {
    void *original = dlopen(getenv("THE_DOUBLE"), RTLD_NOLOAD | RTLD_LAZY);
    unsigned (*asked)(const char *) = original ? (unsigned (*)(const char *))dlsym(original, "double_count") : NULL;
    CHECK(asked != NULL);
    return asked == NULL ? 0 : asked(name);
}

/* A call that the original serves, and one of ours that reads its result. */
static void steps(cudnnHandle_t with, float *between, float *to) {
    BY_ORIGINAL(cudnnActivationForward(with, relu, &one, planes, input, &zero, planes, between));
    BY_US(cudnnTransformTensor(with, &one, planes, between, &zero, pixels, to));
}

static int is_untouched(const float *memory) {
    unsigned char bytes[BYTES];
    int i;
    CHECK(cudaMemcpy(bytes, memory, BYTES, cudaMemcpyDeviceToHost) == 0);
    for (i = 0; i < BYTES; ++i) {
        if (bytes[i] != 0xEE) return 0;
    }
    return 1;
}

/* max(x, 0), channels fastest. */
static int is_right(const float *memory) {
    float values[SIZE];
    int n, c, at;
    CHECK(cudaMemcpy(values, memory, BYTES, cudaMemcpyDeviceToHost) == 0);
    for (n = 0; n < N; ++n) {
        for (c = 0; c < C; ++c) {
            for (at = 0; at < H * W; ++at) {
                float from = x[(n * C + c) * H * W + at];
                if (values[(n * H * W + at) * C + c] != (from > 0 ? from : 0)) return 0;
            }
        }
    }
    return 1;
}

/* Each handle on a GPU owns one of the original, which serves its calls on the same data and ends with it. */
static void owned(void) {
    cudnnHandle_t other;
    CHECK(count("cudnnCreate") == 1);
    OK(cudnnCreate(&other));
    CHECK(count("cudnnCreate") == 2 && count("cudnnDestroy") == 0);
    steps(other, middle, moved);
    CHECK(is_right(moved));
    OK(cudnnDestroy(other));
    CHECK(count("cudnnCreate") == 2 && count("cudnnDestroy") == 1);
    steps(handle, middle, moved);
    CHECK(is_right(moved));
}

/* What is captured of a stream are the calls of both libraries, in their order, and none of them runs before its graph does.
 * The original's handle follows the stream of ours whenever that changes. */
static void captures(void) {
    cudaStream_t streams[2];
    int turn;
    for (turn = 0; turn < 2; ++turn) CHECK(cudaStreamCreate(&streams[turn]) == 0);
    for (turn = 0; turn < 6; ++turn) {
        cudaStream_t stream = streams[turn % 2], seen = NULL;
        void *graph = NULL, *instance = NULL;
        CHECK(cudaMemset(middle, 0xEE, BYTES) == 0 && cudaMemset(moved, 0xEE, BYTES) == 0);
        OK(cudnnSetStream(handle, stream));
        OK(cudnnGetStream(handle, &seen));
        CHECK(seen == stream);
        CHECK(cuStreamBeginCapture_v2(stream, (unsigned)turn % 3) == 0);
        steps(handle, middle, moved);
        CHECK(cuStreamEndCapture(stream, &graph) == 0 && graph != NULL);
        CHECK(is_untouched(middle) && is_untouched(moved));
        CHECK(cuGraphInstantiateWithFlags(&instance, graph, 0) == 0);
        CHECK(cuGraphLaunch(instance, stream) == 0 && cudaStreamSynchronize(stream) == 0);
        CHECK(is_right(moved));
    }
    /* On the default stream both would break a capture: the original says so itself, and later calls work. */
    OK(cudnnSetStream(handle, NULL));
    for (turn = 0; turn < 2; ++turn) {
        char text[512] = "";
        void *graph = NULL;
        CHECK(cuStreamBeginCapture_v2(streams[0], 0) == 0);
        EXPECT(CUDNN_STATUS_EXECUTION_FAILED_CUDART,
               cudnnActivationForward(handle, relu, &one, planes, input, &zero, planes, middle));
        cudnnGetLastErrorString(text, sizeof text);
        CHECK(strstr(text, "the original: ") != NULL && strstr(text, "(906)") != NULL);
        CHECK(cuStreamEndCapture(streams[0], &graph) == 901);
        steps(handle, middle, moved);
        CHECK(is_right(moved));
    }
    for (turn = 0; turn < 2; ++turn) CHECK(cudaStreamDestroy(streams[turn]) == 0);
}

/* Twins that are made for the first time, and anew, while a stream is captured. */
static void generations(void) {
    cudaStream_t stream;
    int turn;
    CHECK(cudaStreamCreate(&stream) == 0);
    OK(cudnnSetStream(handle, stream));
    for (turn = 0; turn < 6; ++turn) {
        cudnnTensorDescriptor_t fresh = tensor(CUDNN_TENSOR_NCHW);
        void *graph = NULL, *instance = NULL;
        float values[SIZE];
        int clipped = turn % 2, i;
        OK(cudnnSetActivationDescriptor(relu, clipped ? CUDNN_ACTIVATION_CLIPPED_RELU : CUDNN_ACTIVATION_RELU,
                                        CUDNN_NOT_PROPAGATE_NAN, 2));
        CHECK(cudaMemset(middle, 0xEE, BYTES) == 0);
        CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
        BY_ORIGINAL(cudnnActivationForward(handle, relu, &one, fresh, input, &zero, fresh, middle));
        /* What was captured holds no descriptor. */
        OK(cudnnDestroyTensorDescriptor(fresh));
        OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0));
        CHECK(cuStreamEndCapture(stream, &graph) == 0);
        CHECK(cuGraphInstantiateWithFlags(&instance, graph, 0) == 0);
        CHECK(cuGraphLaunch(instance, stream) == 0 && cudaStreamSynchronize(stream) == 0);
        CHECK(cudaMemcpy(values, middle, BYTES, cudaMemcpyDeviceToHost) == 0);
        for (i = 0; i < SIZE; ++i) {
            float wanted = x[i] < 0 ? 0 : clipped && x[i] > 2 ? 2 : x[i];
            CHECK(values[i] == wanted);
        }
    }
    OK(cudnnSetStream(handle, NULL));
    CHECK(cudaStreamDestroy(stream) == 0);
}

/* The double refuses activations, and ours is recorded in its place. */
static void refused(void) {
    cudaStream_t stream;
    void *graph = NULL, *instance = NULL;
    CHECK(cudaStreamCreate(&stream) == 0);
    OK(cudnnSetStream(handle, stream));
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    BY_US(cudnnActivationForward(handle, relu, &one, planes, input, &zero, planes, middle));
    BY_US(cudnnTransformTensor(handle, &one, planes, middle, &zero, pixels, moved));
    CHECK(cuStreamEndCapture(stream, &graph) == 0);
    CHECK(is_untouched(moved));
    CHECK(cuGraphInstantiateWithFlags(&instance, graph, 0) == 0);
    CHECK(cuGraphLaunch(instance, stream) == 0 && cudaStreamSynchronize(stream) == 0);
    CHECK(is_right(moved));
    OK(cudnnSetStream(handle, NULL));
    CHECK(cudaStreamDestroy(stream) == 0);
}

struct Work {
    cudnnHandle_t shared;
    float *between[2], *to[2];
};

static void *worker(void *given) {
    struct Work *work = (struct Work *)given;
    cudnnHandle_t own;
    cudaStream_t stream;
    int turn;
    CHECK(cudaStreamCreate(&stream) == 0);
    OK(cudnnCreate(&own));
    OK(cudnnSetStream(own, stream));
    for (turn = 0; turn < 20; ++turn) {
        steps(own, work->between[0], work->to[0]);
        steps(work->shared, work->between[1], work->to[1]);
    }
    CHECK(cudaStreamSynchronize(stream) == 0);
    OK(cudnnDestroy(own));
    CHECK(cudaStreamDestroy(stream) == 0);
    return NULL;
}

/* Threads with handles and streams of their own, and with one handle for all, share descriptors and their twins. */
static void threads(void) {
    pthread_t all[4];
    struct Work work[4];
    int i, k;
    for (i = 0; i < 4; ++i) {
        work[i].shared = handle;
        for (k = 0; k < 2; ++k) work[i].between[k] = on_device(), work[i].to[k] = on_device();
    }
    for (i = 0; i < 4; ++i) pthread_create(&all[i], NULL, worker, &work[i]);
    for (i = 0; i < 4; ++i) pthread_join(all[i], NULL);
    for (i = 0; i < 4; ++i) {
        for (k = 0; k < 2; ++k) {
            CHECK(is_right(work[i].to[k]));
            CHECK(cudaFree(work[i].between[k]) == 0 && cudaFree(work[i].to[k]) == 0);
        }
    }
    CHECK(count("cudnnCreate") == 5 && count("cudnnDestroy") == 4);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"owned", owned}, {"captures", captures}, {"generations", generations}, {"refused", refused}, {"threads", threads},
};

int main(int arguments, char **list) {
    size_t i;
    int known = 0, at;
    OK(cudnnShimRecordPlans(1));
    CHECK(cudaSetDevice(0) == 0);
    OK(cudnnCreate(&handle));
    planes = tensor(CUDNN_TENSOR_NCHW), pixels = tensor(CUDNN_TENSOR_NHWC);
    OK(cudnnCreateActivationDescriptor(&relu));
    OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
    for (at = 0; at < SIZE; ++at) x[at] = (float)(at % 7 - 3);
    input = on_device(), middle = on_device(), moved = on_device();
    CHECK(cudaMemcpy(input, x, BYTES, cudaMemcpyHostToDevice) == 0);
    for (i = 0; arguments > 1 && i < sizeof scenarios / sizeof *scenarios; ++i) {
        if (strcmp(list[1], scenarios[i].name) == 0) scenarios[i].run(), known = 1;
    }
    CHECK(known);
    CHECK(cudaFree(input) == 0 && cudaFree(middle) == 0 && cudaFree(moved) == 0);
    OK(cudnnDestroyActivationDescriptor(relu));
    OK(cudnnDestroyTensorDescriptor(planes));
    OK(cudnnDestroyTensorDescriptor(pixels));
    OK(cudnnDestroy(handle));
    return check_failures != 0;
}
