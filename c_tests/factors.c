/* The factor of cudnnScaleTensor: `double` of DOUBLE, else `float`, of integers too; the value of cudnnSetTensor is of their own type. */
#include "check.h"

enum { COUNT = 4 };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t desc;

static void is_of(cudnnDataType_t type) { OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, type, 1, 1, 1, COUNT)); }

int main(void) {
    /* Rounded once, to nearest even; integers saturate. */
    static const float half_more = 1.5f, forty = 40;
    static const double third = 1.0 / 3;
    int32_t words[COUNT] = {7, -3, 2000000000, 2}, word = -5;
    int8_t bytes[COUNT] = {7, -3, 100, 2};
    double reals[COUNT] = {3, 6, 9, 12};
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&desc));
    is_of(CUDNN_DATA_INT32);
    OK(cudnnScaleTensor(handle, desc, words, &half_more));
    CHECK(words[0] == 10 && words[1] == -4 && words[2] == INT32_MAX && words[3] == 3);
    OK(cudnnSetTensor(handle, desc, words, &word));
    CHECK(words[0] == -5 && words[3] == -5);
    is_of(CUDNN_DATA_INT8);
    OK(cudnnScaleTensor(handle, desc, bytes, &forty));
    CHECK(bytes[0] == 127 && bytes[1] == -120 && bytes[2] == 127 && bytes[3] == 80);
    is_of(CUDNN_DATA_DOUBLE);
    OK(cudnnScaleTensor(handle, desc, reals, &third));
    CHECK(reals[0] == 3 * third && reals[3] == 12 * third);
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(handle));
    return check_result("factors");
}
