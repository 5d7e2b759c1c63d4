/* The three directions against each other, bit by bit: with small whole numbers every sum is exact, and each element of a
 * gradient is the sum of dy times what the forward convolution makes of an x or a w that is 1 in one place. Every algorithm
 * number, each with exactly the workspace that is told for it, full of NaN and between guards. */
#include "convolution.h"

static const struct shape shapes[] = {
    {2, 3, 6, 5, 4, 3, 3, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {1, 4, 7, 8, 6, 3, 2, 2, 2, 2, 2, CUDNN_CONVOLUTION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {2, 4, 6, 6, 4, 3, 3, 4, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {2, 6, 5, 6, 6, 3, 3, 6, 1, 2, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {2, 5, 4, 6, 7, 1, 1, 1, 0, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {1, 3, 5, 6, 4, 2, 3, 1, 3, 2, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, CUDNN_DATA_FLOAT},
    {1, 2, 6, 5, 3, 3, 3, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, CUDNN_DATA_HALF},
    {1, 4, 5, 5, 4, 3, 3, 2, 2, 1, 2, CUDNN_CONVOLUTION, CUDNN_TENSOR_NCHW, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT},
    {1, 3, 6, 7, 2, 3, 3, 1, 0, 3, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE},
    /* Padding beyond the window, and one output. */
    {1, 2, 3, 3, 3, 2, 2, 1, 4, 3, 1, CUDNN_CROSS_CORRELATION, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
    {3, 5, 4, 3, 6, 4, 3, 1, 0, 1, 1, CUDNN_CONVOLUTION, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT},
};

static cudnnHandle_t handle;
static struct convolution of;

static void fill(void *array, size_t count, int step, int shift) {
    size_t i;
    for (i = 0; i < count; i++) set_at(array, of.shape.type, i, (double)((i * step + shift) % 5) - 2);
}

/* Elements of x or w, one at a time 1 and else 0: dy times y is what the gradient has there. */
static void check_gradient(enum direction direction, unsigned char *x, unsigned char *w, unsigned char *y,
                           const unsigned char *dy, const unsigned char *gradient) {
    cudnnDataType_t type = of.shape.type;
    unsigned char *one = direction == DATA ? x : w;
    size_t count = direction == DATA ? of.inputs : of.weights, i, j, wrong = 0;
    for (i = 0; i < count; i++) {
        double sum = 0;
        memset(one, 0, count * bytes_of(type));
        set_at(one, type, i, 1);
        OK(compute(handle, &of, FORWARD, 1, 1, 0, x, w, y));
        for (j = 0; j < of.outputs; j++) sum += value_at(y, type, j) * value_at(dy, type, j);
        wrong += sum != value_at(gradient, type, i);
    }
    CHECK(wrong == 0);
}

static void check_shape(void) {
    cudnnDataType_t type = of.shape.type;
    size_t size = bytes_of(type), counts[3], i;
    unsigned char *x, *w, *y, *dy, *first[3], *again;
    int direction, number;
    counts[FORWARD] = of.outputs;
    counts[DATA] = of.inputs;
    counts[FILTER] = of.weights;
    x = (unsigned char *)guarded_alloc(of.inputs * size);
    w = (unsigned char *)guarded_alloc(of.weights * size);
    y = (unsigned char *)guarded_alloc(of.outputs * size);
    dy = (unsigned char *)guarded_alloc(of.outputs * size);
    fill(dy, of.outputs, 3, 1);
    for (direction = 0; direction < 3; direction++) {
        first[direction] = (unsigned char *)guarded_alloc(counts[direction] * size);
        for (number = 0; number < numbers[direction]; number++) {
            again = number == 0 ? first[direction] : (unsigned char *)guarded_alloc(counts[direction] * size);
            fill(x, of.inputs, 2, 0);
            fill(w, of.weights, 4, 3);
            /* Without a factor for it the old content is not read. */
            memset(again, 0xff, counts[direction] * size);
            OK(compute(handle, &of, (enum direction)direction, number, 1, 0, direction == DATA ? again : x,
                       direction == FILTER ? again : w, direction == FORWARD ? again : dy));
            CHECK(memcmp(again, first[direction], counts[direction] * size) == 0);
            if (number > 0) guarded_free(again, counts[direction] * size);
        }
        /* alpha * sum + beta * old: twice the sum less what it was. */
        again = (unsigned char *)guarded_alloc(counts[direction] * size);
        memcpy(again, first[direction], counts[direction] * size);
        OK(compute(handle, &of, (enum direction)direction, 0, 2, -1, direction == DATA ? again : x,
                   direction == FILTER ? again : w, direction == FORWARD ? again : dy));
        for (i = 0; i < counts[direction]; i++) CHECK(value_at(again, type, i) == value_at(first[direction], type, i));
        guarded_free(again, counts[direction] * size);
    }
    fill(w, of.weights, 4, 3);
    check_gradient(DATA, x, w, y, dy, first[DATA]);
    fill(x, of.inputs, 2, 0);
    check_gradient(FILTER, x, w, y, dy, first[FILTER]);
    for (direction = 0; direction < 3; direction++) guarded_free(first[direction], counts[direction] * size);
    guarded_free(x, of.inputs * size);
    guarded_free(w, of.weights * size);
    guarded_free(y, of.outputs * size);
    guarded_free(dy, of.outputs * size);
}

int main(void) {
    size_t i;
    OK(cudnnCreate(&handle));
    for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        of = describe(shapes[i]);
        check_shape();
        forget(&of);
    }
    OK(cudnnDestroy(handle));
    return check_result("convolution_directions");
}
