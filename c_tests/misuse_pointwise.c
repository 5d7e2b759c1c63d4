/* Wrong arguments to AddTensor, OpTensor, SetTensor and ScaleTensor: refused, nothing written, no crash. */
#include "misuse.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor, other;
static cudnnOpTensorDescriptor_t op;
static const float one = 1, zero = 0;

static void foreign(void *wild) {
    cudnnHandle_t h = (cudnnHandle_t)wild;
    cudnnTensorDescriptor_t t = (cudnnTensorDescriptor_t)wild;
    cudnnOpTensorDescriptor_t o = (cudnnOpTensorDescriptor_t)wild;
    float x_data[120] = {0}, y_data[120];
    memset(y_data, CHECK_FILL, sizeof y_data);
    REFUSED(cudnnSetOpTensorDescriptor(o, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
    REFUSED(cudnnGetOpTensorDescriptor(o, ENUM(cudnnOpTensorOp_t, 0), ENUM(cudnnDataType_t, 1),
                                       ENUM(cudnnNanPropagation_t, 2)));
    REFUSED(cudnnAddTensor(h, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnAddTensor(handle, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnAddTensor(handle, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnOpTensor(h, op, &one, tensor, x_data, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, o, &one, tensor, x_data, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, op, &one, t, x_data, &one, tensor, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, op, &one, tensor, x_data, &one, t, x_data, &zero, other, y_data));
    REFUSED(cudnnOpTensor(handle, op, &one, tensor, x_data, &one, tensor, x_data, &zero, t, y_data));
    REFUSED(cudnnSetTensor(h, tensor, y_data, &one));
    REFUSED(cudnnSetTensor(handle, t, y_data, &one));
    REFUSED(cudnnScaleTensor(h, tensor, y_data, &one));
    REFUSED(cudnnScaleTensor(handle, t, y_data, &one));
    CHECK(all_filled(y_data, sizeof y_data));
    if (wild != NULL) BAD(cudnnDestroyOpTensorDescriptor(o));
}

static void null_everywhere(void) {
    float x[120] = {0}, y[120];
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnDestroyOpTensorDescriptor(NULL));
    BAD(cudnnCreateOpTensorDescriptor(NULL));
    REFUSED(cudnnGetOpTensorDescriptor(op, NULL, ENUM(cudnnDataType_t, 1), ENUM(cudnnNanPropagation_t, 2)));
    REFUSED(cudnnGetOpTensorDescriptor(op, ENUM(cudnnOpTensorOp_t, 0), NULL, ENUM(cudnnNanPropagation_t, 2)));
    REFUSED(cudnnGetOpTensorDescriptor(op, ENUM(cudnnOpTensorOp_t, 0), ENUM(cudnnDataType_t, 1), NULL));
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
    BAD(cudnnSetTensor(handle, tensor, NULL, &one));
    BAD(cudnnSetTensor(handle, tensor, y, NULL));
    BAD(cudnnScaleTensor(handle, tensor, NULL, &one));
    BAD(cudnnScaleTensor(handle, tensor, y, NULL));
    CHECK(all_filled(y, sizeof y));
}

static void wild_numbers(void) {
    size_t i;
    for (i = 0; i < WILD_ENUMS; i++) {
        int v = wild_enums[i];
        BAD(cudnnSetOpTensorDescriptor(op, (cudnnOpTensorOp_t)v, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
        BAD(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_ADD, (cudnnDataType_t)v, CUDNN_PROPAGATE_NAN));
        BAD(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, (cudnnNanPropagation_t)v));
    }
}

/* Equal dimensions that mean different data: the elements of one side hold four channels each, those of the other one. */
static void different_channels(void) {
    int8_t x[2 * 8 * 12 * 4] = {0}, y[2 * 8 * 12 * 4];
    cudnnTensorDescriptor_t elements, vectors, one_element, channels;
    memset(y, CHECK_FILL, sizeof y);
    OK(cudnnCreateTensorDescriptor(&elements));
    OK(cudnnCreateTensorDescriptor(&vectors));
    OK(cudnnCreateTensorDescriptor(&one_element));
    OK(cudnnCreateTensorDescriptor(&channels));
    OK(cudnnSetTensor4dDescriptor(elements, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8x4, 2, 8, 4, 3));
    OK(cudnnSetTensor4dDescriptor(vectors, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x4, 2, 8, 4, 3));
    OK(cudnnSetTensor4dDescriptor(one_element, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8x4, 2, 1, 4, 3));
    OK(cudnnSetTensor4dDescriptor(channels, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT32, 2, 8, 4, 3));
    UNSUPPORTED(cudnnAddTensor(handle, &one, elements, x, &zero, vectors, y));
    UNSUPPORTED(cudnnAddTensor(handle, &one, vectors, x, &zero, elements, y));
    UNSUPPORTED(cudnnOpTensor(handle, op, &one, vectors, x, &one, elements, x, &zero, vectors, y));
    UNSUPPORTED(cudnnOpTensor(handle, op, &one, elements, x, &one, vectors, x, &zero, vectors, y));
    UNSUPPORTED(cudnnOpTensor(handle, op, &one, one_element, x, &one, vectors, x, &zero, channels, y));
    CHECK(all_filled(y, sizeof y));
    OK(cudnnDestroyTensorDescriptor(channels));
    OK(cudnnDestroyTensorDescriptor(one_element));
    OK(cudnnDestroyTensorDescriptor(vectors));
    OK(cudnnDestroyTensorDescriptor(elements));
}

/* Elements that share addresses: a few bytes stand for more than 64 bits count. */
static void too_many(void) {
    static const int many[4] = {65536, 65536, 65536, 65536}, same[4] = {1, 1, 1, 1};
    float *x = calloc(4 * 65536, sizeof *x);
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 4, many, same));
    UNSUPPORTED(cudnnSetTensor(handle, other, x, &one));
    UNSUPPORTED(cudnnScaleTensor(handle, other, x, &one));
    UNSUPPORTED(cudnnAddTensor(handle, &one, other, x, &one, other, x));
    UNSUPPORTED(cudnnOpTensor(handle, op, &one, other, x, &one, other, x, &zero, other, x));
    UNSUPPORTED(cudnnTransformTensor(handle, &one, other, x, &one, other, x));
    CHECK(x[0] == 0 && x[4 * 65535] == 0);
    free(x);
}

int main(void) {
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnCreateOpTensorDescriptor(&op));
    OK(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN));
    with_foreign(foreign);
    null_everywhere();
    different_channels();
    wild_numbers();
    too_many();
    OK(cudnnDestroyOpTensorDescriptor(op));
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
    return check_result("misuse_pointwise");
}
