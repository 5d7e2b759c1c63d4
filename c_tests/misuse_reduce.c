/* Wrong arguments to ReduceTensor and its size queries: refused, nothing written, no crash. */
#include "misuse.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor, other;
static cudnnReduceTensorDescriptor_t reduce;
static const float one = 1, zero = 0;

static void foreign(void *wild) {
    cudnnHandle_t h = (cudnnHandle_t)wild;
    cudnnTensorDescriptor_t t = (cudnnTensorDescriptor_t)wild;
    cudnnReduceTensorDescriptor_t r = (cudnnReduceTensorDescriptor_t)wild;
    float x_data[120] = {0}, y_data[120];
    memset(y_data, CHECK_FILL, sizeof y_data);
    REFUSED(cudnnSetReduceTensorDescriptor(r, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    REFUSED(cudnnGetReduceTensorDescriptor(r, ENUM(cudnnReduceTensorOp_t, 0), ENUM(cudnnDataType_t, 1),
                                           ENUM(cudnnNanPropagation_t, 2), ENUM(cudnnReduceTensorIndices_t, 3),
                                           ENUM(cudnnIndicesType_t, 4)));
    REFUSED(cudnnReduceTensor(h, reduce, NULL, 0, NULL, 0, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnReduceTensor(handle, r, NULL, 0, NULL, 0, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnGetReductionIndicesSize(h, reduce, tensor, other, &out[0].size));
    REFUSED(cudnnGetReductionIndicesSize(handle, r, tensor, other, &out[0].size));
    REFUSED(cudnnGetReductionWorkspaceSize(h, reduce, tensor, other, &out[0].size));
    REFUSED(cudnnGetReductionWorkspaceSize(handle, r, tensor, other, &out[0].size));
    CHECK(all_filled(y_data, sizeof y_data));
    if (wild != NULL) BAD(cudnnDestroyReduceTensorDescriptor(r));
}

static void null_everywhere(void) {
    float x[120] = {0}, y[120];
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnDestroyReduceTensorDescriptor(NULL));
    BAD(cudnnCreateReduceTensorDescriptor(NULL));
    REFUSED(cudnnGetReduceTensorDescriptor(reduce, NULL, ENUM(cudnnDataType_t, 1), ENUM(cudnnNanPropagation_t, 2),
                                           ENUM(cudnnReduceTensorIndices_t, 3), ENUM(cudnnIndicesType_t, 4)));
    REFUSED(cudnnGetReduceTensorDescriptor(reduce, ENUM(cudnnReduceTensorOp_t, 0), ENUM(cudnnDataType_t, 1),
                                           ENUM(cudnnNanPropagation_t, 2), ENUM(cudnnReduceTensorIndices_t, 3), NULL));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, NULL, tensor, x, &zero, other, y));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, NULL, &zero, other, y));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, x, NULL, other, y));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, x, &zero, other, NULL));
    BAD(cudnnGetReductionIndicesSize(handle, reduce, tensor, other, NULL));
    BAD(cudnnGetReductionWorkspaceSize(handle, reduce, tensor, other, NULL));
    CHECK(all_filled(y, sizeof y));
}

static void wild_numbers(void) {
    size_t i;
    for (i = 0; i < WILD_ENUMS; i++) {
        int v = wild_enums[i];
        BAD(cudnnSetReduceTensorDescriptor(reduce, (cudnnReduceTensorOp_t)v, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
        BAD(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           (cudnnReduceTensorIndices_t)v, CUDNN_32BIT_INDICES));
        BAD(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           CUDNN_REDUCE_TENSOR_NO_INDICES, (cudnnIndicesType_t)v));
    }
}

/* Sizes that lie: refused before anything is written. */
static void lies(void) {
    float x[120] = {0}, y[120];
    int32_t index[3];
    size_t workspace_size = 0, indices_size = 0;
    void *workspace;
    cudnnTensorDescriptor_t reduced;
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnCreateTensorDescriptor(&reduced));
    OK(cudnnSetTensor4dDescriptor(reduced, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 1, 1));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_MAX, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnGetReductionWorkspaceSize(handle, reduce, tensor, reduced, &workspace_size));
    OK(cudnnGetReductionIndicesSize(handle, reduce, tensor, reduced, &indices_size));
    CHECK(indices_size >= sizeof index);
    workspace = malloc(workspace_size + 1);
    memset(index, CHECK_FILL, sizeof index);
    BAD(cudnnReduceTensor(handle, reduce, index, sizeof index - 1, workspace, workspace_size, &one, tensor, x, &zero,
                          reduced, y));
    BAD(cudnnReduceTensor(handle, reduce, index, 0, workspace, workspace_size, &one, tensor, x, &zero, reduced, y));
    /* A workspace may be missing, but one that is given is as large as was asked for. */
    BAD(cudnnReduceTensor(handle, reduce, index, sizeof index, workspace, workspace_size - 1, &one, tensor, x, &zero,
                          reduced, y));
    free(workspace);
    CHECK(all_filled(index, sizeof index));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnReduceTensor(handle, reduce, index, sizeof index, NULL, 0, &one, tensor, x, &zero, reduced, y));
    OK(cudnnDestroyTensorDescriptor(reduced));
}

/* One element of four channels for many of one or of thirty-two: which of them it stands for is not said. */
static void different_channels(void) {
    int8_t x[2 * 32 * 12] = {0}, y[2 * 4 * 12];
    cudnnTensorDescriptor_t channels, vectors, one_element;
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnCreateTensorDescriptor(&channels));
    OK(cudnnCreateTensorDescriptor(&vectors));
    OK(cudnnCreateTensorDescriptor(&one_element));
    OK(cudnnSetTensor4dDescriptor(channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8, 2, 32, 4, 3));
    OK(cudnnSetTensor4dDescriptor(vectors, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, 2, 32, 4, 3));
    OK(cudnnSetTensor4dDescriptor(one_element, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8x4, 2, 1, 4, 3));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    UNSUPPORTED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, channels, x, &zero, one_element, y));
    UNSUPPORTED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, vectors, x, &zero, one_element, y));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnDestroyTensorDescriptor(one_element));
    OK(cudnnDestroyTensorDescriptor(vectors));
    OK(cudnnDestroyTensorDescriptor(channels));
}

/* Elements that share addresses: a few bytes stand for more than 64 bits count. */
static void too_many(void) {
    static const int many[4] = {65536, 65536, 65536, 65536}, same[4] = {1, 1, 1, 1};
    float *x = calloc(4 * 65536, sizeof *x), y = 7;
    cudnnTensorDescriptor_t all, single;
    OK(cudnnCreateTensorDescriptor(&all));
    OK(cudnnCreateTensorDescriptor(&single));
    OK(cudnnSetTensorNdDescriptor(all, CUDNN_DATA_FLOAT, 4, many, same));
    OK(cudnnSetTensorNdDescriptor(single, CUDNN_DATA_FLOAT, 4, same, same));
    UNSUPPORTED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, all, x, &zero, single, &y));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_MIN, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_64BIT_INDICES));
    UNSUPPORTED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, all, x, &zero, all, x));
    CHECK(y == 7);
    free(x);
    OK(cudnnDestroyTensorDescriptor(single));
    OK(cudnnDestroyTensorDescriptor(all));
}

int main(void) {
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnCreateReduceTensorDescriptor(&reduce));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    with_foreign(foreign);
    null_everywhere();
    wild_numbers();
    lies();
    different_channels();
    too_many();
    OK(cudnnDestroyReduceTensorDescriptor(reduce));
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
    return check_result("misuse_reduce");
}
