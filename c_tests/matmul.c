/* Products of matrices as programs call them: row-major, column-major, part of a larger matrix, batches that share a factor; and bad
 * input, which writes nothing. The expectations are the sums, written out. */
#include "check.h"

#include <cudnn_shim.h>

enum { BATCH = 2, M = 3, N = 4, K = 5 };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t of_a, of_b, of_c;
static const float one = 1, two = 2, zero = 0;

static double value(int which, int batch, int row, int column) {
    return (which * 7 + batch * 5 + row * 3 + column * 2) % 11 - 5;
}

/* Writes a factor through its strides. */
static void place(float *data, int which, int batch, int rows, int columns, const int *strides) {
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                data[b * strides[0] + i * strides[1] + j * strides[2]] = (float)value(which, b, i, j);
}

static double expected(int batch, int row, int column) {
    double sum = 0;
    for (int k = 0; k < K; k++) sum += value(1, batch, row, k) * value(2, 0, k, column);
    return sum;
}

static cudnnStatus_t multiply(const void *alpha, const float *a, const float *b, const void *beta, float *c) {
    return cudnnShimMatmul(handle, alpha, of_a, a, of_b, b, beta, of_c, c);
}

static void describe(cudnnTensorDescriptor_t desc, int batch, int rows, int columns, const int *strides) {
    const int dims[3] = { batch, rows, columns };
    OK(cudnnSetTensorNdDescriptor(desc, CUDNN_DATA_FLOAT, 3, dims, strides));
}

/* Every matrix in rows or in columns, all matrices apart from each other, and B the same for both products. */
static void layouts(void) {
    static float a[200], b[200], c[200];
    for (int forms = 0; forms < 8; forms++) {
        const int rows[3][3] = { { 40, K + 2, 1 }, { 40, N + 1, 1 }, { 40, N + 3, 1 } };
        const int columns[3][3] = { { 40, 1, M + 1 }, { 40, 1, K + 2 }, { 40, 1, M + 4 } };
        const int *strides[3];
        for (int i = 0; i < 3; i++) strides[i] = forms >> i & 1 ? columns[i] : rows[i];
        for (int i = 0; i < 200; i++) a[i] = b[i] = c[i] = 99;
        place(a, 1, BATCH, M, K, strides[0]);
        place(b, 2, 1, K, N, strides[1]);
        describe(of_a, BATCH, M, K, strides[0]);
        describe(of_b, 1, K, N, strides[1]);
        describe(of_c, BATCH, M, N, strides[2]);
        OK(multiply(&one, a, b, &zero, c));
        OK(multiply(&two, a, b, &one, c));
        int written = 0;
        for (int i = 0; i < BATCH; i++)
            for (int row = 0; row < M; row++)
                for (int column = 0; column < N; column++) {
                    float *got = c + i * strides[2][0] + row * strides[2][1] + column * strides[2][2];
                    CHECK(*got == (float)(3 * expected(i, row, column)));
                    *got = 99;
                    written++;
                }
        CHECK(written == BATCH * M * N);
        for (int i = 0; i < 200; i++) CHECK(c[i] == 99);
    }
}

/* By name, in double, with factors of that type. */
static void doubles(void) {
    const int dims[3][3] = { { 1, 2, 3 }, { 1, 3, 2 }, { 1, 2, 2 } };
    const double a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 1, 0, 2, 0, 1, 3 }, half = 0.5, none = 0;
    double c[4] = { 9, 9, 9, 9 };
    OK(cudnnShimSetTensorLayout(of_a, CUDNN_DATA_DOUBLE, "BMN:row", 3, dims[0]));
    OK(cudnnShimSetTensorLayout(of_b, CUDNN_DATA_DOUBLE, "BMN:col", 3, dims[1]));
    OK(cudnnShimSetTensorLayout(of_c, CUDNN_DATA_DOUBLE, "BMN:col", 3, dims[2]));
    OK(cudnnShimMatmul(handle, &half, of_a, a, of_b, b, &none, of_c, c));
    CHECK(c[0] == 3.5 && c[1] == 8 && c[2] == 5.5 && c[3] == 11.5);
}

static void refusals(void) {
    const int packed[3][3] = { { M * K, K, 1 }, { K * N, N, 1 }, { M * N, N, 1 } }, repeated[3] = { 0, N, 1 }, twice[3] = { M * N, 1, 1 };
    float a[BATCH * M * K] = { 0 }, b[BATCH * K * N] = { 0 }, c[BATCH * M * N];
    cudnnTensorDescriptor_t unset;
    for (int i = 0; i < BATCH * M * N; i++) c[i] = 7;
    OK(cudnnCreateTensorDescriptor(&unset));
    describe(of_a, BATCH, M, K, packed[0]);
    describe(of_b, BATCH, K, N, packed[1]);
    describe(of_c, BATCH, M, N, packed[2]);
    BAD(cudnnShimMatmul(NULL, &one, of_a, a, of_b, b, &zero, of_c, c));
    BAD(cudnnShimMatmul(handle, &one, NULL, a, of_b, b, &zero, of_c, c));
    BAD(cudnnShimMatmul(handle, &one, unset, a, of_b, b, &zero, of_c, c));
    BAD(multiply(NULL, a, b, &zero, c));
    BAD(multiply(&one, a, b, NULL, c));
    BAD(multiply(&one, NULL, b, &zero, c));
    BAD(multiply(&one, a, NULL, &zero, c));
    BAD(multiply(&one, a, b, &zero, NULL));
    describe(of_b, BATCH, K + 1, N - 1, packed[1]);
    BAD(multiply(&one, a, b, &zero, c));
    describe(of_b, BATCH, K, N, packed[1]);
    describe(of_c, BATCH, M, N, repeated);
    BAD(multiply(&one, a, b, &zero, c));
    describe(of_c, BATCH, M, N, twice);
    BAD(multiply(&one, a, b, &zero, c));
    describe(of_c, BATCH, M, N, packed[2]);
    {
        const int dims[3] = { BATCH, M, K };
        OK(cudnnSetTensorNdDescriptor(of_a, CUDNN_DATA_INT32, 3, dims, packed[0]));
    }
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, multiply(&one, a, b, &zero, c));
    for (int i = 0; i < BATCH * M * N; i++) CHECK(c[i] == 7);
    OK(cudnnDestroyTensorDescriptor(unset));
}

int main(void) {
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&of_a));
    OK(cudnnCreateTensorDescriptor(&of_b));
    OK(cudnnCreateTensorDescriptor(&of_c));
    layouts();
    doubles();
    refusals();
    OK(cudnnDestroyTensorDescriptor(of_a));
    OK(cudnnDestroyTensorDescriptor(of_b));
    OK(cudnnDestroyTensorDescriptor(of_c));
    OK(cudnnDestroy(handle));
    return check_result("matmul");
}
