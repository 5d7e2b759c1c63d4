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
    wild_numbers();
    OK(cudnnDestroyOpTensorDescriptor(op));
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
    return check_result("misuse_pointwise");
}
