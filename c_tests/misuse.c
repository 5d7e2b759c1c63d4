/* Every kind of wrong argument: refused with BAD_PARAM, nothing written, no crash, nothing leaked.
 *
 * Unlike the other programs this one goes where the original crashes (a destroyed descriptor, a NULL output), so it
 * is meant for this library only. */
#include "check.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor, other;
static cudnnTensorTransformDescriptor_t transform;
static cudnnOpTensorDescriptor_t op;
static cudnnReduceTensorDescriptor_t reduce;
static cudnnFilterDescriptor_t filter;

static const int dims[4] = {2, 3, 4, 5}, strides[4] = {60, 20, 5, 1};
static const float one = 1, zero = 0;

static void set_up(void) {
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnCreateTensorTransformDescriptor(&transform));
    OK(cudnnCreateOpTensorDescriptor(&op));
    OK(cudnnCreateReduceTensorDescriptor(&reduce));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetTensorTransformDescriptor(transform, 4, CUDNN_TENSOR_NCHW, NULL, NULL, NULL, CUDNN_TRANSFORM_FOLD));
    OK(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, dims));
}

static void tear_down(void) {
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyReduceTensorDescriptor(reduce));
    OK(cudnnDestroyOpTensorDescriptor(op));
    OK(cudnnDestroyTensorTransformDescriptor(transform));
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
}

/* Outputs of the getters, all filled; `untouched` says whether a refused call left them so. */
static union {
    int i[16];
    size_t size;
    unsigned char bytes[128];
} out[10];

static void fill(void) { memset(out, CHECK_FILL, sizeof out); }
static int untouched(void) { return all_filled(out, sizeof out); }

#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        fill();                                                                                                        \
        BAD(call);                                                                                                     \
        CHECK(untouched());                                                                                            \
    } while (0)

#define INT(n) (out[n].i)
#define ENUM(type, n) ((type *)(void *)out[n].i)

static cudnnStatus_t get_4d(cudnnTensorDescriptor_t desc, int missing) {
    int *p[9], i;
    for (i = 0; i < 9; i++) p[i] = i == missing ? NULL : INT(i);
    return cudnnGetTensor4dDescriptor(desc, (cudnnDataType_t *)(void *)p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7],
                                      p[8]);
}

static cudnnStatus_t get_filter_4d(cudnnFilterDescriptor_t desc, int missing) {
    int *p[6], i;
    for (i = 0; i < 6; i++) p[i] = i == missing ? NULL : INT(i);
    return cudnnGetFilter4dDescriptor(desc, (cudnnDataType_t *)(void *)p[0], (cudnnTensorFormat_t *)(void *)p[1], p[2],
                                      p[3], p[4], p[5]);
}

/* Every setter and getter, and every destroyer, on a descriptor value that is none. */
static void foreign(void *wild) {
    cudnnTensorDescriptor_t t = (cudnnTensorDescriptor_t)wild;
    cudnnTensorTransformDescriptor_t x = (cudnnTensorTransformDescriptor_t)wild;
    cudnnOpTensorDescriptor_t o = (cudnnOpTensorDescriptor_t)wild;
    cudnnReduceTensorDescriptor_t r = (cudnnReduceTensorDescriptor_t)wild;
    cudnnFilterDescriptor_t f = (cudnnFilterDescriptor_t)wild;
    cudnnHandle_t h = (cudnnHandle_t)wild;
    float x_data[120] = {0}, y_data[120];
    memset(y_data, CHECK_FILL, sizeof y_data);

    REFUSED(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    REFUSED(cudnnSetTensor4dDescriptorEx(t, CUDNN_DATA_FLOAT, 1, 1, 1, 1, 1, 1, 1, 1));
    REFUSED(cudnnSetTensorNdDescriptor(t, CUDNN_DATA_FLOAT, 4, dims, strides));
    REFUSED(cudnnSetTensorNdDescriptorEx(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, dims));
    REFUSED(get_4d(t, -1));
    REFUSED(cudnnGetTensorNdDescriptor(t, 8, ENUM(cudnnDataType_t, 0), INT(1), INT(2), INT(3)));
    REFUSED(cudnnGetTensorSizeInBytes(t, &out[0].size));
    REFUSED(cudnnSetTensorTransformDescriptor(x, 4, CUDNN_TENSOR_NCHW, NULL, NULL, NULL, CUDNN_TRANSFORM_FOLD));
    REFUSED(cudnnGetTensorTransformDescriptor(x, 4, ENUM(cudnnTensorFormat_t, 0), INT(1), INT(2),
                                              (uint32_t *)(void *)INT(3), ENUM(cudnnFoldingDirection_t, 4)));
    REFUSED(cudnnInitTransformDest(x, tensor, other, &out[0].size));
    REFUSED(cudnnInitTransformDest(transform, t, other, &out[0].size));
    REFUSED(cudnnInitTransformDest(transform, tensor, t, &out[0].size));
    REFUSED(cudnnSetOpTensorDescriptor(o, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    REFUSED(cudnnGetOpTensorDescriptor(o, ENUM(cudnnOpTensorOp_t, 0), ENUM(cudnnDataType_t, 1),
                                       ENUM(cudnnNanPropagation_t, 2)));
    REFUSED(cudnnSetReduceTensorDescriptor(r, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
    REFUSED(cudnnGetReduceTensorDescriptor(r, ENUM(cudnnReduceTensorOp_t, 0), ENUM(cudnnDataType_t, 1),
                                           ENUM(cudnnNanPropagation_t, 2), ENUM(cudnnReduceTensorIndices_t, 3),
                                           ENUM(cudnnIndicesType_t, 4)));
    REFUSED(cudnnSetFilter4dDescriptor(f, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 1, 1));
    REFUSED(cudnnSetFilterNdDescriptor(f, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, dims));
    REFUSED(get_filter_4d(f, -1));
    REFUSED(cudnnGetFilterNdDescriptor(f, 8, ENUM(cudnnDataType_t, 0), ENUM(cudnnTensorFormat_t, 1), INT(2), INT(3)));
    fill(); /* a NULL filter has size 0 in the original, so only the status counts here */
    BAD(cudnnGetFilterSizeInBytes(f, &out[0].size));

    REFUSED(cudnnTransformTensor(h, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensor(handle, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensor(handle, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnTransformTensorEx(h, transform, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensorEx(handle, x, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensorEx(handle, transform, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensorEx(handle, transform, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnAddTensor(h, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnAddTensor(handle, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnAddTensor(handle, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnOpTensor(h, op, &one, tensor, x_data, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, o, &one, tensor, x_data, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, op, &one, t, x_data, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, op, &one, tensor, x_data, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, op, &one, tensor, x_data, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnReduceTensor(h, reduce, NULL, 0, NULL, 0, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnReduceTensor(handle, r, NULL, 0, NULL, 0, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnGetReductionIndicesSize(h, reduce, tensor, other, &out[0].size));
    REFUSED(cudnnGetReductionIndicesSize(handle, r, tensor, other, &out[0].size));
    REFUSED(cudnnGetReductionWorkspaceSize(h, reduce, tensor, other, &out[0].size));
    REFUSED(cudnnGetReductionWorkspaceSize(handle, r, tensor, other, &out[0].size));
    REFUSED(cudnnSetTensor(h, tensor, y_data, &one));
    REFUSED(cudnnSetTensor(handle, t, y_data, &one));
    REFUSED(cudnnScaleTensor(h, tensor, y_data, &one));
    REFUSED(cudnnScaleTensor(handle, t, y_data, &one));
    REFUSED(cudnnSetStream(h, NULL));
    REFUSED(cudnnGetStream(h, (cudaStream_t *)(void *)INT(0)));
    CHECK(all_filled(y_data, sizeof y_data));

    if (wild != NULL) { /* destroying nothing is allowed */
        BAD(cudnnDestroyTensorDescriptor(t));
        BAD(cudnnDestroyTensorTransformDescriptor(x));
        BAD(cudnnDestroyOpTensorDescriptor(o));
        BAD(cudnnDestroyReduceTensorDescriptor(r));
        BAD(cudnnDestroyFilterDescriptor(f));
        BAD(cudnnDestroy(h));
    }
}

static void null_everywhere(void) {
    float x[120] = {0}, y[120];
    int i;
    memset(y, CHECK_FILL, sizeof y);
    foreign(NULL);
    OK(cudnnDestroyTensorDescriptor(NULL));
    OK(cudnnDestroyTensorTransformDescriptor(NULL));
    OK(cudnnDestroyOpTensorDescriptor(NULL));
    OK(cudnnDestroyReduceTensorDescriptor(NULL));
    OK(cudnnDestroyFilterDescriptor(NULL));
    OK(cudnnDestroy(NULL));
    BAD(cudnnCreate(NULL));
    BAD(cudnnCreateTensorDescriptor(NULL));
    BAD(cudnnCreateTensorTransformDescriptor(NULL));
    BAD(cudnnCreateOpTensorDescriptor(NULL));
    BAD(cudnnCreateReduceTensorDescriptor(NULL));
    BAD(cudnnCreateFilterDescriptor(NULL));
    BAD(cudnnGetStream(handle, NULL));
    BAD(cudnnGetProperty(MAJOR_VERSION, NULL));
    BAD(cudnnGetCallback(NULL, NULL, NULL));
    cudnnGetLastErrorString(NULL, 0);
    cudnnGetLastErrorString(NULL, 10);

    for (i = 0; i < 9; i++) REFUSED(get_4d(tensor, i));
    for (i = 0; i < 6; i++) REFUSED(get_filter_4d(filter, i));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, NULL, strides));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, NULL));
    BAD(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, NULL));
    BAD(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, NULL));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, NULL, INT(1), INT(2), INT(3)));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, ENUM(cudnnDataType_t, 0), NULL, INT(2), INT(3)));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, ENUM(cudnnDataType_t, 0), INT(1), NULL, INT(3)));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, ENUM(cudnnDataType_t, 0), INT(1), INT(2), NULL));
    OK(cudnnGetTensorNdDescriptor(tensor, 0, ENUM(cudnnDataType_t, 0), INT(1), NULL, NULL));
    REFUSED(cudnnGetTensorSizeInBytes(tensor, NULL));
    REFUSED(cudnnGetFilterSizeInBytes(filter, NULL));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, NULL, ENUM(cudnnTensorFormat_t, 1), INT(2), INT(3)));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, ENUM(cudnnDataType_t, 0), NULL, INT(2), INT(3)));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, ENUM(cudnnDataType_t, 0), ENUM(cudnnTensorFormat_t, 1), NULL, INT(3)));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, ENUM(cudnnDataType_t, 0), ENUM(cudnnTensorFormat_t, 1), INT(2), NULL));
    REFUSED(cudnnGetOpTensorDescriptor(op, NULL, ENUM(cudnnDataType_t, 1), ENUM(cudnnNanPropagation_t, 2)));
    REFUSED(cudnnGetOpTensorDescriptor(op, ENUM(cudnnOpTensorOp_t, 0), NULL, ENUM(cudnnNanPropagation_t, 2)));
    REFUSED(cudnnGetOpTensorDescriptor(op, ENUM(cudnnOpTensorOp_t, 0), ENUM(cudnnDataType_t, 1), NULL));
    REFUSED(cudnnGetReduceTensorDescriptor(reduce, NULL, ENUM(cudnnDataType_t, 1), ENUM(cudnnNanPropagation_t, 2),
                                           ENUM(cudnnReduceTensorIndices_t, 3), ENUM(cudnnIndicesType_t, 4)));
    REFUSED(cudnnGetReduceTensorDescriptor(reduce, ENUM(cudnnReduceTensorOp_t, 0), ENUM(cudnnDataType_t, 1),
                                           ENUM(cudnnNanPropagation_t, 2), ENUM(cudnnReduceTensorIndices_t, 3), NULL));
    REFUSED(cudnnGetTensorTransformDescriptor(transform, 4, ENUM(cudnnTensorFormat_t, 0), INT(1), INT(2),
                                              (uint32_t *)(void *)INT(3), NULL));
    OK(cudnnGetTensorTransformDescriptor(transform, 4, NULL, NULL, NULL, NULL, ENUM(cudnnFoldingDirection_t, 0)));
    OK(cudnnInitTransformDest(transform, tensor, other, NULL));

    BAD(cudnnTransformTensor(handle, NULL, tensor, x, &zero, other, y));
    BAD(cudnnTransformTensor(handle, &one, tensor, NULL, &zero, other, y));
    BAD(cudnnTransformTensor(handle, &one, tensor, x, NULL, other, y));
    BAD(cudnnTransformTensor(handle, &one, tensor, x, &zero, other, NULL));
    BAD(cudnnTransformTensorEx(handle, transform, NULL, tensor, x, &zero, other, y));
    BAD(cudnnTransformTensorEx(handle, transform, &one, tensor, NULL, &zero, other, y));
    BAD(cudnnTransformTensorEx(handle, transform, &one, tensor, x, NULL, other, y));
    BAD(cudnnTransformTensorEx(handle, transform, &one, tensor, x, &zero, other, NULL));
    BAD(cudnnAddTensor(handle, NULL, tensor, x, &zero, other, y));
    BAD(cudnnAddTensor(handle, &one, tensor, NULL, &zero, other, y));
    BAD(cudnnAddTensor(handle, &one, tensor, x, NULL, other, y));
    BAD(cudnnAddTensor(handle, &one, tensor, x, &zero, other, NULL));
    BAD(cudnnOpTensor(handle, op, NULL, tensor, x, &one, tensor, x, &zero, other, y));
    BAD(cudnnOpTensor(handle, op, &one, tensor, NULL, &one, tensor, x, &zero, other, y));
    BAD(cudnnOpTensor(handle, op, &one, tensor, x, NULL, tensor, x, &zero, other, y));
    BAD(cudnnOpTensor(handle, op, &one, tensor, x, &one, tensor, NULL, &zero, other, y));
    BAD(cudnnOpTensor(handle, op, &one, tensor, x, &one, tensor, x, NULL, other, y));
    BAD(cudnnOpTensor(handle, op, &one, tensor, x, &one, tensor, x, &zero, other, NULL));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, NULL, tensor, x, &zero, other, y));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, NULL, &zero, other, y));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, x, NULL, other, y));
    BAD(cudnnReduceTensor(handle, reduce, NULL, 0, NULL, 0, &one, tensor, x, &zero, other, NULL));
    BAD(cudnnGetReductionIndicesSize(handle, reduce, tensor, other, NULL));
    BAD(cudnnGetReductionWorkspaceSize(handle, reduce, tensor, other, NULL));
    BAD(cudnnSetTensor(handle, tensor, NULL, &one));
    BAD(cudnnSetTensor(handle, tensor, y, NULL));
    BAD(cudnnScaleTensor(handle, tensor, NULL, &one));
    BAD(cudnnScaleTensor(handle, tensor, y, NULL));
    CHECK(all_filled(y, sizeof y));
}

static void dead_and_foreign(void) {
    cudnnTensorDescriptor_t dead, reborn;
    cudnnHandle_t dead_handle;
    static int object[64];
    OK(cudnnCreateTensorDescriptor(&dead));
    OK(cudnnDestroyTensorDescriptor(dead));
    foreign(dead);
    OK(cudnnCreateTensorDescriptor(&reborn)); /* may reuse the place, not the identity */
    CHECK(reborn != dead);
    foreign(dead);
    OK(cudnnDestroyTensorDescriptor(reborn));
    OK(cudnnCreate(&dead_handle));
    OK(cudnnDestroy(dead_handle));
    BAD(cudnnDestroy(dead_handle));
    foreign(dead_handle);
    foreign(object);
    foreign((void *)(uintptr_t)1);
    foreign((void *)(uintptr_t)0x5A5A5A5A5A5A5A5Au);
    foreign((void *)UINTPTR_MAX);
    /* Alive, but of another kind. */
    BAD(cudnnDestroyTensorDescriptor((cudnnTensorDescriptor_t)(void *)filter));
    BAD(cudnnDestroyFilterDescriptor((cudnnFilterDescriptor_t)(void *)tensor));
    BAD(cudnnDestroy((cudnnHandle_t)(void *)tensor));
    BAD(cudnnDestroyOpTensorDescriptor((cudnnOpTensorDescriptor_t)(void *)handle));
    BAD(cudnnSetTensorNdDescriptor((cudnnTensorDescriptor_t)(void *)handle, CUDNN_DATA_FLOAT, 4, dims, strides));
    REFUSED(get_4d((cudnnTensorDescriptor_t)(void *)op, -1));
}

static void wild_numbers(void) {
    static const int wild[] = {0x7fffffff, -1, 1000, (int)0x80000000};
    size_t i;
    for (i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        int v = wild[i];
        BAD(cudnnSetTensor4dDescriptor(tensor, (cudnnTensorFormat_t)v, CUDNN_DATA_FLOAT, 2, 3, 4, 5));
        BAD(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, (cudnnDataType_t)v, 2, 3, 4, 5));
        BAD(cudnnSetTensor4dDescriptorEx(tensor, (cudnnDataType_t)v, 2, 3, 4, 5, 60, 20, 5, 1));
        BAD(cudnnSetTensorNdDescriptor(tensor, (cudnnDataType_t)v, 4, dims, strides));
        BAD(cudnnSetTensorNdDescriptorEx(tensor, (cudnnTensorFormat_t)v, CUDNN_DATA_FLOAT, 4, dims));
        BAD(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, (cudnnDataType_t)v, 4, dims));
        BAD(cudnnSetOpTensorDescriptor(op, (cudnnOpTensorOp_t)v, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
        BAD(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_ADD, (cudnnDataType_t)v, CUDNN_PROPAGATE_NAN));
        BAD(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, (cudnnNanPropagation_t)v));
        BAD(cudnnSetReduceTensorDescriptor(reduce, (cudnnReduceTensorOp_t)v, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES));
        BAD(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           (cudnnReduceTensorIndices_t)v, CUDNN_32BIT_INDICES));
        BAD(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
                                           CUDNN_REDUCE_TENSOR_NO_INDICES, (cudnnIndicesType_t)v));
        BAD(cudnnSetFilter4dDescriptor(filter, (cudnnDataType_t)v, CUDNN_TENSOR_NCHW, 1, 1, 1, 1));
        BAD(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, (cudnnTensorFormat_t)v, 1, 1, 1, 1));
        BAD(cudnnGetProperty((libraryPropertyType)v, INT(0)));
        CHECK(strcmp(cudnnGetErrorString((cudnnStatus_t)v), "CUDNN_UNKNOWN_STATUS") == 0);
    }
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, -1, dims, strides));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 1, dims, strides));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 0x7fffffff, dims, strides));
    BAD(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 3, 4, 5));
    BAD(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, -4, 5));
    /* Nothing of all that arrived. */
    OK(get_4d(tensor, -1));
    CHECK(INT(1)[0] == 2 && INT(2)[0] == 3 && INT(3)[0] == 4 && INT(4)[0] == 5);
}

/* Sizes and shapes that lie: refused before anything is written. */
static void lies(void) {
    float x[120] = {0}, y[120];
    int32_t index[3];
    size_t workspace_size = 0, indices_size = 0;
    void *workspace;
    cudnnTensorDescriptor_t reduced, unset;
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnCreateTensorDescriptor(&reduced));
    OK(cudnnCreateTensorDescriptor(&unset));
    OK(cudnnSetTensor4dDescriptor(reduced, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 1, 1));
    BAD(cudnnTransformTensor(handle, &one, tensor, x, &zero, reduced, y));
    BAD(cudnnTransformTensor(handle, &one, unset, x, &zero, tensor, y));
    BAD(cudnnTransformTensorEx(handle, transform, &one, tensor, x, &zero, reduced, y));
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
    free(workspace);
    CHECK(all_filled(index, sizeof index));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnDestroyTensorDescriptor(reduced));
    OK(cudnnDestroyTensorDescriptor(unset));
}

/* What is exported but not built refuses: NULL handles as the original does, good ones with a sentence. */
static void not_built(void) {
    char text[512] = "";
    size_t size = 0;
    BAD(cudnnGetRNNWeightSpaceSize(NULL, NULL, &size));
    cudnnGetLastErrorString(text, sizeof text);
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnGetRNNWeightSpaceSize(handle, NULL, &size));
    memset(text, 0, sizeof text);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "cudnnGetRNNWeightSpaceSize") != NULL);
    BAD(cudnnDropoutGetStatesSize(NULL, &size));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnDropoutGetStatesSize(handle, &size));
    memset(text, 0, sizeof text);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "cudnnDropoutGetStatesSize") != NULL);
}

int main(void) {
    set_up();
    null_everywhere();
    dead_and_foreign();
    wild_numbers();
    lies();
    not_built();
    tear_down();
    return check_result("misuse");
}
