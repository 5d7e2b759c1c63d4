/* Calls on a stack of 32 KiB, large ones and small ones of every way through the CPU core.
 *
 * Not under valgrind, which takes minutes for them. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "sanitized.h"

/* Sanitizers need more for themselves. */
enum { STACK = IS_SANITIZED ? 256 << 10 : 32 << 10, TENSORS = 6, BYTES = 48 << 20 };

static cudnnHandle_t handle;
static char *x, *y, *workspace;
static int failures;

static void count(cudnnStatus_t status) { failures += status != CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_NOT_SUPPORTED; }

static cudnnTensorDescriptor_t tensor(cudnnDataType_t type, const int *dims, int form) {
    cudnnTensorDescriptor_t desc;
    count(cudnnCreateTensorDescriptor(&desc));
    if (form == 0) count(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, type, dims[0], dims[1], dims[2], dims[3]));
    if (form == 1) count(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NHWC, type, dims[0], dims[1], dims[2], dims[3]));
    if (form == 2) { /* Gaps between all elements. */
        int c = 2 * dims[2] * dims[3] + 2;
        count(cudnnSetTensor4dDescriptorEx(desc, type, dims[0], dims[1], dims[2], dims[3], dims[1] * c, c, 2 * dims[3], 2));
    }
    return desc;
}

static void transforms(void) {
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_INT8, CUDNN_DATA_DOUBLE,
                                            CUDNN_DATA_BFLOAT16, CUDNN_DATA_UINT8};
    static const int shapes[][4] = {{2, 3, 40, 40},   {2, 64, 28, 28}, {1, 7, 5, 3},    {4, 12, 33, 17},
                                    {1, 256, 16, 16}, {1, 1, 1, 1},    {3, 5, 100, 64}, {1, 3, 700, 700}};
    static const double scales[][2] = {{1, 0}, {2, 0}, {1, 0.5}};
    unsigned shape, from, to, scale;
    int forms;
    for (shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
        for (from = 0; from < TENSORS; from++)
            for (to = 0; to < TENSORS; to++)
                for (forms = 0; forms < 9; forms++)
                    for (scale = 0; scale < 3; scale++) {
                        cudnnTensorDescriptor_t a, b;
                        float f[2];
                        const void *alpha = &f[0], *beta = &f[1];
                        if (shapes[shape][3] >= 64 && (from + to) % 3 != 0) continue;
                        f[0] = (float)scales[scale][0];
                        f[1] = (float)scales[scale][1];
                        a = tensor(types[from], shapes[shape], forms % 3);
                        b = tensor(types[to], shapes[shape], forms / 3);
                        if (types[to] == CUDNN_DATA_DOUBLE) {
                            alpha = &scales[scale][0];
                            beta = &scales[scale][1];
                        }
                        count(cudnnTransformTensor(handle, alpha, a, x, beta, b, y));
                        if (forms == 0 && from == to) {
                            /* Elements that repeat. */
                            static const int one[4] = {1, 1, 1, 1};
                            cudnnTensorDescriptor_t single = tensor(types[from], one, 0);
                            count(cudnnAddTensor(handle, alpha, single, x, beta, b, y));
                            count(cudnnSetTensor(handle, b, y, x));
                            count(cudnnDestroyTensorDescriptor(single));
                        }
                        count(cudnnDestroyTensorDescriptor(a));
                        count(cudnnDestroyTensorDescriptor(b));
                    }
}

/* Past the caches, and into blocks with a tail. */
static void large(void) {
    static const int dims[4] = {2, 30, 256, 250};
    cudnnTensorDescriptor_t nchw = tensor(CUDNN_DATA_FLOAT, dims, 0), nhwc = tensor(CUDNN_DATA_FLOAT, dims, 1);
    cudnnTensorDescriptor_t half = tensor(CUDNN_DATA_HALF, dims, 1), bytes = tensor(CUDNN_DATA_INT8, dims, 1), vector;
    float one = 1, zero = 0;
    count(cudnnTransformTensor(handle, &one, nchw, x, &zero, nhwc, y));
    count(cudnnTransformTensor(handle, &one, nhwc, x, &zero, nchw, y));
    count(cudnnTransformTensor(handle, &one, nchw, x, &zero, half, y));
    count(cudnnTransformTensor(handle, &one, half, x, &zero, nchw, y));
    count(cudnnTransformTensor(handle, &one, nchw, x, &one, bytes, y));
    count(cudnnCreateTensorDescriptor(&vector));
    count(cudnnSetTensor4dDescriptor(vector, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, 2, 32, 256, 250));
    count(cudnnTransformTensor(handle, &one, vector, x, &zero, vector, y));
    count(cudnnDestroyTensorDescriptor(nchw));
    count(cudnnDestroyTensorDescriptor(nhwc));
    count(cudnnDestroyTensorDescriptor(half));
    count(cudnnDestroyTensorDescriptor(bytes));
    count(cudnnDestroyTensorDescriptor(vector));
}

static void padded(void) {
    cudnnTensorTransformDescriptor_t pad;
    static const int before[4] = {0, 0, 1, 2}, after[4] = {0, 1, 0, 3}, dims[4] = {2, 3, 30, 30};
    static const uint32_t fold[2] = {2, 2};
    cudnnTensorDescriptor_t from = tensor(CUDNN_DATA_FLOAT, dims, 0), to = tensor(CUDNN_DATA_FLOAT, dims, 0);
    size_t size;
    float one = 1, zero = 0;
    count(cudnnCreateTensorTransformDescriptor(&pad));
    count(cudnnSetTensorTransformDescriptor(pad, 4, CUDNN_TENSOR_NHWC, before, after, fold, CUDNN_TRANSFORM_FOLD));
    count(cudnnInitTransformDest(pad, from, to, &size));
    count(cudnnTransformTensorEx(handle, pad, &one, from, x, &zero, to, y));
    count(cudnnDestroyTensorTransformDescriptor(pad));
    count(cudnnDestroyTensorDescriptor(from));
    count(cudnnDestroyTensorDescriptor(to));
}

static void arithmetic(void) {
    static const int dims[][4] = {{4, 33, 20, 21}, {8, 64, 56, 56}, {1, 3, 2, 5}}, sums[][4] = {{1, 33, 1, 1}, {8, 1, 1, 1}, {1, 1, 1, 1}};
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_DOUBLE};
    unsigned shape, type;
    int op, form;
    cudnnOpTensorDescriptor_t binary;
    cudnnReduceTensorDescriptor_t reduce;
    count(cudnnCreateOpTensorDescriptor(&binary));
    count(cudnnCreateReduceTensorDescriptor(&reduce));
    for (shape = 0; shape < 3; shape++)
        for (type = 0; type < 3; type++)
            for (form = 0; form < 3; form++) {
                cudnnDataType_t compute = types[type] == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
                cudnnTensorDescriptor_t a = tensor(types[type], dims[shape], form), c = tensor(types[type], sums[shape], 0);
                double one = 1, zero = 0;
                float one_float = 1, zero_float = 0;
                const void *alpha = type == 2 ? (void *)&one : (void *)&one_float;
                const void *beta = type == 2 ? (void *)&zero : (void *)&zero_float;
                for (op = CUDNN_OP_TENSOR_ADD; op <= CUDNN_OP_TENSOR_MAX; op++) {
                    count(cudnnSetOpTensorDescriptor(binary, (cudnnOpTensorOp_t)op, compute, CUDNN_NOT_PROPAGATE_NAN));
                    count(cudnnOpTensor(handle, binary, alpha, a, x, alpha, a, x, beta, a, y));
                    count(cudnnOpTensor(handle, binary, alpha, a, x, alpha, a, x, alpha, a, y));
                }
                for (op = CUDNN_REDUCE_TENSOR_ADD; op <= CUDNN_REDUCE_TENSOR_NORM2; op++) {
                    int with_indices = op == CUDNN_REDUCE_TENSOR_MIN || op == CUDNN_REDUCE_TENSOR_MAX;
                    count(cudnnSetReduceTensorDescriptor(reduce, (cudnnReduceTensorOp_t)op, compute, CUDNN_NOT_PROPAGATE_NAN,
                                                         with_indices ? CUDNN_REDUCE_TENSOR_FLATTENED_INDICES
                                                                      : CUDNN_REDUCE_TENSOR_NO_INDICES,
                                                         CUDNN_32BIT_INDICES));
                    count(cudnnReduceTensor(handle, reduce, workspace, 1 << 16, workspace, 1 << 16, alpha, a, x, beta, c, y));
                }
                count(cudnnDestroyTensorDescriptor(a));
                count(cudnnDestroyTensorDescriptor(c));
            }
    count(cudnnDestroyOpTensorDescriptor(binary));
    count(cudnnDestroyReduceTensorDescriptor(reduce));
}

static void *all(void *unused) {
    (void)unused;
    transforms();
    large();
    padded();
    arithmetic();
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    setenv("CUDNN_SHIM_NUM_THREADS", "2", 1);
    x = (char *)calloc(BYTES, 1);
    y = (char *)calloc(BYTES, 1);
    workspace = (char *)calloc(1 << 16, 1);
    CHECK(x != NULL && y != NULL && workspace != NULL);
    OK(cudnnCreate(&handle));
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, all, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(failures == 0);
    OK(cudnnDestroy(handle));
    free(x);
    free(y);
    free(workspace);
    return check_result("small_stack");
}
