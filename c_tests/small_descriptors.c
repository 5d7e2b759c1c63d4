/* Operation, reduction and filter descriptors: what is set is what is read back. */
#include "check.h"

/* As many lengths as sequences are read, and none if there are said to be others. */
static void lengths(void) {
    static const int dims[4] = {5, 3, 1, 7};
    static const cudnnSeqDataAxis_t axes[4] = {CUDNN_SEQDATA_TIME_DIM, CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_BEAM_DIM,
                                               CUDNN_SEQDATA_VECT_DIM};
    static const size_t wrong[] = {0, 2, 4, (size_t)1 << 40, SIZE_MAX};
    int three[3] = {5, 1, 4};
    cudnnSeqDataDescriptor_t desc;
    size_t i;
    OK(cudnnCreateSeqDataDescriptor(&desc));
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        BAD(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, 4, dims, axes, wrong[i], three, NULL));
    OK(cudnnSetSeqDataDescriptor(desc, CUDNN_DATA_FLOAT, 4, dims, axes, 3, three, NULL));
    OK(cudnnDestroySeqDataDescriptor(desc));
}

int main(void) {
    cudnnOpTensorDescriptor_t op;
    cudnnReduceTensorDescriptor_t reduce;
    cudnnFilterDescriptor_t filter;
    cudnnOpTensorOp_t what;
    cudnnReduceTensorOp_t kind;
    cudnnReduceTensorIndices_t indices;
    cudnnIndicesType_t index_type;
    cudnnDataType_t type;
    cudnnNanPropagation_t nan;
    cudnnTensorFormat_t format;
    int k, c, h, w;
    size_t size;
    OK(cudnnCreateOpTensorDescriptor(&op));
    OK(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_MAX, CUDNN_DATA_DOUBLE, CUDNN_PROPAGATE_NAN));
    OK(cudnnGetOpTensorDescriptor(op, &what, &type, &nan));
    CHECK(what == CUDNN_OP_TENSOR_MAX && type == CUDNN_DATA_DOUBLE && nan == CUDNN_PROPAGATE_NAN);
    BAD(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_MAX, CUDNN_DATA_INT32, CUDNN_PROPAGATE_NAN));
    OK(cudnnDestroyOpTensorDescriptor(op));
    OK(cudnnCreateReduceTensorDescriptor(&reduce));
    OK(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_AMAX, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN,
                                      CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_32BIT_INDICES));
    OK(cudnnGetReduceTensorDescriptor(reduce, &kind, &type, &nan, &indices, &index_type));
    CHECK(kind == CUDNN_REDUCE_TENSOR_AMAX && type == CUDNN_DATA_FLOAT && nan == CUDNN_NOT_PROPAGATE_NAN);
    CHECK(indices == CUDNN_REDUCE_TENSOR_FLATTENED_INDICES && index_type == CUDNN_32BIT_INDICES);
    OK(cudnnDestroyReduceTensorDescriptor(reduce));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, 8, 3, 7, 5));
    OK(cudnnGetFilter4dDescriptor(filter, &type, &format, &k, &c, &h, &w));
    CHECK(type == CUDNN_DATA_HALF && format == CUDNN_TENSOR_NHWC && k == 8 && c == 3 && h == 7 && w == 5);
    OK(cudnnGetFilterSizeInBytes(filter, &size));
    CHECK(size == 8 * 3 * 7 * 5 * 2);
    OK(cudnnDestroyFilterDescriptor(filter));
    lengths();
    return check_result("small_descriptors");
}
