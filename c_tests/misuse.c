/* Wrong arguments to the handle, tensor and transform calls: refused, nothing written, no crash, nothing leaked. */
#include "misuse.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor, other;
static cudnnTensorTransformDescriptor_t transform;
static const float one = 1, zero = 0;

static cudnnStatus_t get_4d(cudnnTensorDescriptor_t desc, int missing) {
    int *p[9], i;
    for (i = 0; i < 9; i++) p[i] = i == missing ? NULL : INT(i);
    return cudnnGetTensor4dDescriptor(desc, (cudnnDataType_t *)(void *)p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7],
                                      p[8]);
}

/* Every call on a descriptor or handle value that is none. */
static void foreign(void *wild) {
    cudnnHandle_t h = (cudnnHandle_t)wild;
    cudnnTensorDescriptor_t t = (cudnnTensorDescriptor_t)wild;
    cudnnTensorTransformDescriptor_t x = (cudnnTensorTransformDescriptor_t)wild;
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
    REFUSED(cudnnTransformTensor(h, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensor(handle, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensor(handle, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnTransformTensorEx(h, transform, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensorEx(handle, x, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensorEx(handle, transform, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnTransformTensorEx(handle, transform, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnSetStream(h, NULL));
    REFUSED(cudnnGetStream(h, (cudaStream_t *)(void *)INT(0)));
    CHECK(all_filled(y_data, sizeof y_data));
    if (wild != NULL) { /* destroying nothing is allowed */
        BAD(cudnnDestroyTensorDescriptor(t));
        BAD(cudnnDestroyTensorTransformDescriptor(x));
        BAD(cudnnDestroy(h));
    }
}

static void null_everywhere(void) {
    float x[120] = {0}, y[120];
    int i;
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnDestroyTensorDescriptor(NULL));
    OK(cudnnDestroyTensorTransformDescriptor(NULL));
    OK(cudnnDestroy(NULL));
    BAD(cudnnCreate(NULL));
    BAD(cudnnCreateTensorDescriptor(NULL));
    BAD(cudnnCreateTensorTransformDescriptor(NULL));
    BAD(cudnnGetStream(handle, NULL));
    BAD(cudnnGetProperty(MAJOR_VERSION, NULL));
    BAD(cudnnGetCallback(NULL, NULL, NULL));
    cudnnGetLastErrorString(NULL, 0);
    cudnnGetLastErrorString(NULL, 10);
    for (i = 0; i < 9; i++) REFUSED(get_4d(tensor, i));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, NULL, strides));
    BAD(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, NULL));
    BAD(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, NULL));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, NULL, INT(1), INT(2), INT(3)));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, ENUM(cudnnDataType_t, 0), NULL, INT(2), INT(3)));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, ENUM(cudnnDataType_t, 0), INT(1), NULL, INT(3)));
    REFUSED(cudnnGetTensorNdDescriptor(tensor, 8, ENUM(cudnnDataType_t, 0), INT(1), INT(2), NULL));
    OK(cudnnGetTensorNdDescriptor(tensor, 0, ENUM(cudnnDataType_t, 0), INT(1), NULL, NULL));
    REFUSED(cudnnGetTensorSizeInBytes(tensor, NULL));
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
    CHECK(all_filled(y, sizeof y));
}

/* Alive, but of another kind. */
static void wrong_kind(void) {
    BAD(cudnnDestroyTensorDescriptor((cudnnTensorDescriptor_t)(void *)transform));
    BAD(cudnnDestroyTensorTransformDescriptor((cudnnTensorTransformDescriptor_t)(void *)tensor));
    BAD(cudnnDestroy((cudnnHandle_t)(void *)tensor));
    BAD(cudnnDestroyTensorDescriptor((cudnnTensorDescriptor_t)(void *)handle));
    BAD(cudnnSetTensorNdDescriptor((cudnnTensorDescriptor_t)(void *)handle, CUDNN_DATA_FLOAT, 4, dims, strides));
    REFUSED(get_4d((cudnnTensorDescriptor_t)(void *)transform, -1));
}

static void twice(void) {
    cudnnTensorDescriptor_t t;
    cudnnTensorTransformDescriptor_t x;
    cudnnHandle_t h;
    OK(cudnnCreateTensorDescriptor(&t));
    OK(cudnnCreateTensorTransformDescriptor(&x));
    OK(cudnnCreate(&h));
    OK(cudnnDestroyTensorDescriptor(t));
    OK(cudnnDestroyTensorTransformDescriptor(x));
    OK(cudnnDestroy(h));
    BAD(cudnnDestroyTensorDescriptor(t));
    BAD(cudnnDestroyTensorTransformDescriptor(x));
    BAD(cudnnDestroy(h));
}

static void wild_numbers(void) {
    size_t i;
    for (i = 0; i < WILD_ENUMS; i++) {
        int v = wild_enums[i];
        BAD(cudnnSetTensor4dDescriptor(tensor, (cudnnTensorFormat_t)v, CUDNN_DATA_FLOAT, 2, 3, 4, 5));
        BAD(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, (cudnnDataType_t)v, 2, 3, 4, 5));
        BAD(cudnnSetTensor4dDescriptorEx(tensor, (cudnnDataType_t)v, 2, 3, 4, 5, 60, 20, 5, 1));
        BAD(cudnnSetTensorNdDescriptor(tensor, (cudnnDataType_t)v, 4, dims, strides));
        BAD(cudnnSetTensorNdDescriptorEx(tensor, (cudnnTensorFormat_t)v, CUDNN_DATA_FLOAT, 4, dims));
        BAD(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, (cudnnDataType_t)v, 4, dims));
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

/* Shapes that do not fit and descriptors that were never set. */
static void lies(void) {
    float x[120] = {0}, y[120];
    cudnnTensorDescriptor_t smaller, unset;
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnCreateTensorDescriptor(&smaller));
    OK(cudnnCreateTensorDescriptor(&unset));
    OK(cudnnSetTensor4dDescriptor(smaller, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 3, 1, 1));
    BAD(cudnnTransformTensor(handle, &one, tensor, x, &zero, smaller, y));
    BAD(cudnnTransformTensor(handle, &one, unset, x, &zero, tensor, y));
    BAD(cudnnTransformTensorEx(handle, transform, &one, tensor, x, &zero, smaller, y));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnDestroyTensorDescriptor(smaller));
    OK(cudnnDestroyTensorDescriptor(unset));
}

int main(void) {
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnCreateTensorTransformDescriptor(&transform));
    OK(cudnnSetTensorTransformDescriptor(transform, 4, CUDNN_TENSOR_NCHW, NULL, NULL, NULL, CUDNN_TRANSFORM_FOLD));
    with_foreign(foreign);
    null_everywhere();
    wrong_kind();
    twice();
    wild_numbers();
    lies();
    OK(cudnnDestroyTensorTransformDescriptor(transform));
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
    return check_result("misuse");
}
