/* Wrong arguments to the filter descriptor calls: refused, nothing written, no crash. */
#include "misuse.h"

static cudnnFilterDescriptor_t filter;

static cudnnStatus_t get_filter_4d(cudnnFilterDescriptor_t desc, int missing) {
    int *p[6], i;
    for (i = 0; i < 6; i++) p[i] = i == missing ? NULL : INT(i);
    return cudnnGetFilter4dDescriptor(desc, (cudnnDataType_t *)(void *)p[0], (cudnnTensorFormat_t *)(void *)p[1], p[2],
                                      p[3], p[4], p[5]);
}

static void foreign(void *wild) {
    cudnnFilterDescriptor_t f = (cudnnFilterDescriptor_t)wild;
    REFUSED(cudnnSetFilter4dDescriptor(f, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1, 1, 1, 1));
    REFUSED(cudnnSetFilterNdDescriptor(f, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, dims));
    REFUSED(cudnnGetFilterNdDescriptor(f, 8, ENUM(cudnnDataType_t, 0), ENUM(cudnnTensorFormat_t, 1), INT(2), INT(3)));
    REFUSED(get_filter_4d(f, -1));
    fill(); /* the original writes a zero here, so only the status counts */
    BAD(cudnnGetFilterSizeInBytes(f, &out[0].size));
    if (wild != NULL) BAD(cudnnDestroyFilterDescriptor(f));
}

static void null_everywhere(void) {
    int i;
    OK(cudnnDestroyFilterDescriptor(NULL));
    BAD(cudnnCreateFilterDescriptor(NULL));
    for (i = 0; i < 6; i++) REFUSED(get_filter_4d(filter, i));
    BAD(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, NULL));
    REFUSED(cudnnGetFilterSizeInBytes(filter, NULL));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, NULL, ENUM(cudnnTensorFormat_t, 1), INT(2), INT(3)));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, ENUM(cudnnDataType_t, 0), NULL, INT(2), INT(3)));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, ENUM(cudnnDataType_t, 0), ENUM(cudnnTensorFormat_t, 1), NULL, INT(3)));
    REFUSED(cudnnGetFilterNdDescriptor(filter, 4, ENUM(cudnnDataType_t, 0), ENUM(cudnnTensorFormat_t, 1), INT(2), NULL));
}

static void wild_numbers(void) {
    size_t i;
    for (i = 0; i < WILD_ENUMS; i++) {
        int v = wild_enums[i];
        BAD(cudnnSetFilter4dDescriptor(filter, (cudnnDataType_t)v, CUDNN_TENSOR_NCHW, 1, 1, 1, 1));
        BAD(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, (cudnnTensorFormat_t)v, 1, 1, 1, 1));
    }
    OK(get_filter_4d(filter, -1));
    CHECK(INT(2)[0] == 2 && INT(3)[0] == 3 && INT(4)[0] == 4 && INT(5)[0] == 5);
}

int main(void) {
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, dims));
    with_foreign(foreign);
    null_everywhere();
    wild_numbers();
    OK(cudnnDestroyFilterDescriptor(filter));
    return check_result("misuse_filter");
}
