/* Tensor and transform descriptors: what is set is what is read back, strides as the formats define them. */
#include "check.h"

static void expect_nd(cudnnTensorDescriptor_t desc, cudnnDataType_t type, int rank, const int *dims,
                      const int *strides, size_t size) {
    cudnnDataType_t got_type;
    int got_rank, got_dims[CUDNN_DIM_MAX + 1], got_strides[CUDNN_DIM_MAX + 1], i;
    size_t got_size = 0;
    memset(got_dims, CHECK_FILL, sizeof got_dims);
    memset(got_strides, CHECK_FILL, sizeof got_strides);
    OK(cudnnGetTensorNdDescriptor(desc, CUDNN_DIM_MAX, &got_type, &got_rank, got_dims, got_strides));
    CHECK(got_type == type);
    CHECK(got_rank == rank);
    for (i = 0; i < rank; i++) {
        CHECK(got_dims[i] == dims[i]);
        CHECK(got_strides[i] == strides[i]);
    }
    CHECK(all_filled(got_dims + rank, (CUDNN_DIM_MAX + 1 - rank) * sizeof(int)));
    CHECK(all_filled(got_strides + rank, (CUDNN_DIM_MAX + 1 - rank) * sizeof(int)));
    OK(cudnnGetTensorSizeInBytes(desc, &got_size));
    CHECK(got_size == size);
}

static void expect_4d(cudnnTensorDescriptor_t desc, cudnnDataType_t type, const int *dims, const int *strides) {
    cudnnDataType_t t;
    int d[4], s[4];
    OK(cudnnGetTensor4dDescriptor(desc, &t, &d[0], &d[1], &d[2], &d[3], &s[0], &s[1], &s[2], &s[3]));
    CHECK(t == type);
    CHECK(memcmp(d, dims, sizeof d) == 0);
    CHECK(memcmp(s, strides, sizeof s) == 0);
}

/* One 4-D shape, the strides of a layout, and the way a program may ask for that layout. */
struct layout {
    int dims[4];
    int strides[4];
    int format; /* -1: only with explicit strides */
};

static void layouts(void) {
    static const struct layout table[] = {
        {{1, 64, 5, 4}, {1280, 20, 4, 1}, CUDNN_TENSOR_NCHW},
        {{1, 64, 5, 4}, {1280, 1, 256, 64}, CUDNN_TENSOR_NHWC},
        {{2, 16, 5, 4}, {320, 20, 4, 1}, CUDNN_TENSOR_NCHW},
        {{2, 16, 5, 4}, {320, 1, 64, 16}, CUDNN_TENSOR_NHWC},
        {{2, 16, 5, 4}, {1, 40, 8, 2}, -1}, /* CHWN */
        {{10, 3, 32, 32}, {3072, 1024, 32, 1}, CUDNN_TENSOR_NCHW},
        {{10, 3, 32, 32}, {3072, 1, 96, 3}, CUDNN_TENSOR_NHWC}, /* channels_last */
    };
    size_t i;
    for (i = 0; i < sizeof table / sizeof table[0]; i++) {
        const int *d = table[i].dims, *s = table[i].strides;
        size_t size = sizeof(float) * (size_t)d[0] * d[1] * d[2] * d[3];
        cudnnTensorDescriptor_t desc = NULL;
        OK(cudnnCreateTensorDescriptor(&desc));
        CHECK(desc != NULL);
        OK(cudnnSetTensor4dDescriptorEx(desc, CUDNN_DATA_FLOAT, d[0], d[1], d[2], d[3], s[0], s[1], s[2], s[3]));
        expect_4d(desc, CUDNN_DATA_FLOAT, d, s);
        expect_nd(desc, CUDNN_DATA_FLOAT, 4, d, s, size);
        OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_HALF, 4, d, s));
        expect_nd(desc, CUDNN_DATA_HALF, 4, d, s, size / 2);
        if (table[i].format >= 0) {
            cudnnTensorFormat_t format = (cudnnTensorFormat_t)table[i].format;
            OK(cudnnSetTensor4dDescriptor(desc, format, CUDNN_DATA_DOUBLE, d[0], d[1], d[2], d[3]));
            expect_4d(desc, CUDNN_DATA_DOUBLE, d, s);
            OK(cudnnSetTensorNdDescriptorEx(desc, format, CUDNN_DATA_INT8, 4, d));
            expect_nd(desc, CUDNN_DATA_INT8, 4, d, s, size / 4);
        }
        OK(cudnnDestroyTensorDescriptor(desc));
    }
}

static void ranks(void) {
    static const int matrix[3] = {7, 3, 5}, row_major[3] = {15, 5, 1}, column_major[3] = {15, 1, 3};
    static const int volume[5] = {2, 3, 4, 5, 6}, ncdhw[5] = {360, 120, 30, 6, 1}, ndhwc[5] = {360, 1, 90, 18, 3};
    static const int eight[8] = {1, 2, 1, 3, 2, 1, 2, 2}, packed[8] = {48, 24, 24, 8, 4, 4, 2, 1};
    static const int window[4] = {2, 3, 4, 5}, windowed[4] = {1000, 200, 10, -1};
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, 3, matrix, row_major));
    expect_nd(desc, CUDNN_DATA_FLOAT, 3, matrix, row_major, 105 * 4);
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, 3, matrix, column_major));
    expect_nd(desc, CUDNN_DATA_FLOAT, 3, matrix, column_major, 105 * 4);
    OK(cudnnSetTensorNdDescriptorEx(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 5, volume));
    expect_nd(desc, CUDNN_DATA_DOUBLE, 5, volume, ncdhw, 720 * 8);
    OK(cudnnSetTensorNdDescriptorEx(desc, CUDNN_TENSOR_NHWC, CUDNN_DATA_BFLOAT16, 5, volume));
    expect_nd(desc, CUDNN_DATA_BFLOAT16, 5, volume, ndhwc, 720 * 2);
    OK(cudnnSetTensorNdDescriptorEx(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT32, 8, eight));
    expect_nd(desc, CUDNN_DATA_INT32, 8, eight, packed, 48 * 4);
    /* Unpacked and mirrored: the size spans from the lowest to the highest element. */
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, 4, window, windowed));
    expect_nd(desc, CUDNN_DATA_FLOAT, 4, window, windowed, (1000 + 400 + 30 + 4 + 1) * 4);
    OK(cudnnDestroyTensorDescriptor(desc));
}

static void vectors(void) {
    static const int dims[4] = {2, 64, 5, 4};
    static const int by4[4] = {320, 20, 4, 1}, by32[4] = {40, 20, 4, 1};
    cudnnTensorDescriptor_t desc;
    size_t size;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x4, 2, 64, 5, 4));
    expect_4d(desc, CUDNN_DATA_INT8x4, dims, by4);
    OK(cudnnGetTensorSizeInBytes(desc, &size));
    CHECK(size == 2 * 64 * 5 * 4);
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x32, 2, 64, 5, 4));
    expect_4d(desc, CUDNN_DATA_INT8x32, dims, by32);
    OK(cudnnGetTensorSizeInBytes(desc, &size));
    CHECK(size == 2 * 64 * 5 * 4);
    BAD(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x4, 2, 63, 5, 4));
    BAD(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_FLOAT, 2, 64, 5, 4));
    expect_4d(desc, CUDNN_DATA_INT8x32, dims, by32);
    OK(cudnnDestroyTensorDescriptor(desc));
}

static void transforms(void) {
    static const int32_t before[4] = {0, 3, 1, 2}, after[4] = {0, 0, 2, 1};
    static const uint32_t fold[2] = {2, 3};
    static const int dims[4] = {1, 2, 3, 4}, expected_dims[4] = {1, 30, 3, 3};
    static const int expected_strides[4] = {270, 1, 90, 30};
    cudnnTensorTransformDescriptor_t desc = NULL;
    cudnnTensorDescriptor_t src, dest;
    cudnnTensorFormat_t format;
    cudnnFoldingDirection_t direction;
    int32_t got_before[5], got_after[5];
    uint32_t got_fold[3];
    size_t size = 0;
    OK(cudnnCreateTensorTransformDescriptor(&desc));
    OK(cudnnCreateTensorDescriptor(&src));
    OK(cudnnCreateTensorDescriptor(&dest));
    OK(cudnnSetTensorTransformDescriptor(desc, 4, CUDNN_TENSOR_NHWC, before, after, fold, CUDNN_TRANSFORM_FOLD));
    memset(got_before, CHECK_FILL, sizeof got_before);
    memset(got_after, CHECK_FILL, sizeof got_after);
    memset(got_fold, CHECK_FILL, sizeof got_fold);
    OK(cudnnGetTensorTransformDescriptor(desc, 4, &format, got_before, got_after, got_fold, &direction));
    CHECK(format == CUDNN_TENSOR_NHWC);
    CHECK(direction == CUDNN_TRANSFORM_FOLD);
    CHECK(memcmp(got_before, before, sizeof before) == 0 && all_filled(&got_before[4], sizeof got_before[4]));
    CHECK(memcmp(got_after, after, sizeof after) == 0 && all_filled(&got_after[4], sizeof got_after[4]));
    CHECK(memcmp(got_fold, fold, sizeof fold) == 0 && all_filled(&got_fold[2], sizeof got_fold[2]));
    /* 1x2x3x4 padded to 1x5x6x7, then folded by 2x3: channels 5*2*3, rows 6/2, columns ceil(7/3). */
    OK(cudnnSetTensor4dDescriptor(src, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, dims[0], dims[1], dims[2], dims[3]));
    OK(cudnnInitTransformDest(desc, src, dest, &size));
    expect_nd(dest, CUDNN_DATA_FLOAT, 4, expected_dims, expected_strides, 270 * 4);
    CHECK(size == 270 * 4);
    /* NULL leaves what was there. */
    OK(cudnnSetTensorTransformDescriptor(desc, 4, CUDNN_TENSOR_NCHW, NULL, NULL, NULL, CUDNN_TRANSFORM_UNFOLD));
    OK(cudnnGetTensorTransformDescriptor(desc, 4, &format, got_before, got_after, got_fold, &direction));
    CHECK(format == CUDNN_TENSOR_NCHW && direction == CUDNN_TRANSFORM_UNFOLD);
    CHECK(memcmp(got_before, before, sizeof before) == 0);
    CHECK(memcmp(got_fold, fold, sizeof fold) == 0);
    BAD(cudnnSetTensorTransformDescriptor(desc, 1, CUDNN_TENSOR_NCHW, NULL, NULL, NULL, CUDNN_TRANSFORM_FOLD));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED,
           cudnnSetTensorTransformDescriptor(desc, 9, CUDNN_TENSOR_NCHW, NULL, NULL, NULL, CUDNN_TRANSFORM_FOLD));
    BAD(cudnnGetTensorTransformDescriptor(desc, 2, &format, got_before, got_after, got_fold, &direction));
    OK(cudnnDestroyTensorDescriptor(src));
    OK(cudnnDestroyTensorDescriptor(dest));
    OK(cudnnDestroyTensorTransformDescriptor(desc));
}

int main(void) {
    layouts();
    ranks();
    vectors();
    transforms();
    return check_result("descriptors");
}
