/* A graph as programs describe it: a product of matrices, a bias and a ReLU behind it, heuristics, a plan, its execution, and its text; and what is
 * refused. The expectations are the sums, written out. */
#include <cudnn_shim.h>

#include "graph.h"

enum { ROWS = 3, INNER = 5, COLUMNS = 4 };

static cudnnBackendDescriptor_t batch(int64_t id, int64_t count, int64_t rows, int64_t columns, bool is_virtual) {
    const int64_t dims[3] = { count, rows, columns };
    return tensor_of(id, 3, dims, is_virtual);
}

static cudnnBackendDescriptor_t tensor(int64_t id, int64_t rows, int64_t columns, bool is_virtual) {
    return batch(id, 1, rows, columns, is_virtual);
}

static cudnnBackendDescriptor_t pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t settings = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    OK(cudnnBackendSetAttribute(settings, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
    OK(cudnnBackendSetAttribute(settings, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type));
    OK(cudnnBackendFinalize(settings));
    cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, settings);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL) set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_object(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    OK(cudnnBackendFinalize(operation));
    OK(cudnnBackendDestroyDescriptor(settings));
    return operation;
}

/* relu(a * b + bias), of which only the end has memory. */
static cudnnBackendDescriptor_t describe(void) {
    cudnnBackendDescriptor_t a = tensor('a', ROWS, INNER, false), b = tensor('b', INNER, COLUMNS, false);
    cudnnBackendDescriptor_t product = tensor(100, ROWS, COLUMNS, true), bias = tensor('s', 1, COLUMNS, false);
    cudnnBackendDescriptor_t sum = tensor(101, ROWS, COLUMNS, true), y = tensor('y', ROWS, COLUMNS, false);
    cudnnBackendDescriptor_t operations[3] = { make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) };
    set_object(operations[0], CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_object(operations[0], CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_object(operations[0], CUDNN_ATTR_OPERATION_MATMUL_CDESC, product);
    OK(cudnnBackendFinalize(operations[0]));
    operations[1] = pointwise(CUDNN_POINTWISE_ADD, product, bias, sum);
    operations[2] = pointwise(CUDNN_POINTWISE_RELU_FWD, sum, NULL, y);
    cudnnBackendDescriptor_t graph = graph_of(3, operations);
    cudnnBackendDescriptor_t used[] = { a, b, product, bias, sum, y, operations[0], operations[1], operations[2] };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) OK(cudnnBackendDestroyDescriptor(used[i]));
    return graph;
}

/* The same plan from its text, for a handle; a text that is cut short is none. */
static cudnnBackendDescriptor_t plan_of_text(cudnnHandle_t handle, cudnnBackendDescriptor_t plan) {
    int64_t length = -1, count = -1;
    const cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    OK(cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, 0, &length, NULL));
    char *text = (char *)calloc((size_t)length + 1, 1);
    OK(cudnnBackendGetAttribute(plan, name, CUDNN_TYPE_CHAR, length, &count, text));
    CHECK(count == length && strlen(text) == (size_t)length - 1);
    cudnnBackendDescriptor_t cut = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), alone = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    OK(cudnnBackendSetAttribute(alone, name, CUDNN_TYPE_CHAR, length, text));
    BAD(cudnnBackendFinalize(alone));
    OK(cudnnBackendDestroyDescriptor(alone));
    cudnnBackendDescriptor_t again = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    OK(cudnnBackendSetAttribute(again, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    OK(cudnnBackendSetAttribute(again, name, CUDNN_TYPE_CHAR, length, text));
    OK(cudnnBackendFinalize(again));
    text[length / 2] = 0;
    OK(cudnnBackendSetAttribute(cut, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    OK(cudnnBackendSetAttribute(cut, name, CUDNN_TYPE_CHAR, length, text));
    BAD(cudnnBackendFinalize(cut));
    OK(cudnnBackendDestroyDescriptor(cut));
    free(text);
    return again;
}

/* relu(a * b + bias), term by term. */
static void check_product(const float *y, const float *a, const float *b, const float *bias) {
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLUMNS; j++) {
            float sum = bias[j];
            for (int k = 0; k < INNER; k++) sum += a[i * INNER + k] * b[k * COLUMNS + j];
            CHECK(y[i * COLUMNS + j] == (sum > 0 ? sum : 0));
        }
    }
}

/* How an operation with these operands and numbers ends. */
static cudnnStatus_t finalized(cudnnBackendDescriptorType_t type, int count, const int *names,
                               const cudnnBackendDescriptor_t *operands, int numbers, const int *of,
                               const int64_t *values) {
    cudnnBackendDescriptor_t operation = make(type);
    cudnnStatus_t status;
    for (int i = 0; i < count; i++) set_object(operation, (cudnnBackendAttributeName_t)names[i], operands[i]);
    for (int i = 0; i < numbers; i++)
        OK(cudnnBackendSetAttribute(operation, (cudnnBackendAttributeName_t)of[i], CUDNN_TYPE_INT64, 1, &values[i]));
    status = cudnnBackendFinalize(operation);
    OK(cudnnBackendDestroyDescriptor(operation));
    return status;
}

/* Operations whose extents fit each other, and those whose do not. */
static void extents(void) {
    static const int product[3] = { CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                                    CUDNN_ATTR_OPERATION_MATMUL_CDESC };
    static const int band[2] = { CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_XDESC,
                                 CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC };
    static const int widths[3] = { CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH,
                                   CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH,
                                   CUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_AXIS };
    static const int64_t two_and_one[3] = { 2, 1, 2 }, one_and_one[3] = { 1, 1, 2 };
    for (int64_t more = 3; more <= 4; more++) {
        cudnnBackendDescriptor_t of[3] = { batch(1, 2, ROWS, INNER, false), batch(2, more, INNER, COLUMNS, false),
                                           batch(3, more, ROWS, COLUMNS, false) };
        const cudnnStatus_t status = finalized(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 3, product, of, 0, NULL, NULL);
        CHECK((status == CUDNN_STATUS_SUCCESS) == (more == 4));
        for (int i = 0; i < 3; i++) OK(cudnnBackendDestroyDescriptor(of[i]));
    }
    /* Many products of one batch, as matrices of no batch are, too. */
    for (int which = 0; which < 3; which++) {
        static const int many[1] = { CUDNN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT };
        const int64_t dims[3][2] = { { ROWS, INNER }, { INNER, COLUMNS }, { ROWS, COLUMNS } };
        cudnnBackendDescriptor_t of[3];
        for (int i = 0; i < 3; i++)
            of[i] = which == 2 ? tensor_of(i + 1, 2, dims[i], false)
                               : batch(i + 1, which + 1, dims[i][0], dims[i][1], false);
        for (int64_t count = -1; count <= 2; count++) {
            const cudnnStatus_t status =
                finalized(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, 3, product, of, 1, many, &count);
            CHECK((status == CUDNN_STATUS_SUCCESS) == (count == 1 || (count == 2 && which != 1)));
        }
        for (int i = 0; i < 3; i++) OK(cudnnBackendDestroyDescriptor(of[i]));
    }
    /* Two diagonals below the middle one, and one above: four in all. */
    cudnnBackendDescriptor_t sides[2] = { tensor(1, 6, 4, false), tensor(2, 6, 6, false) };
    const cudnnBackendDescriptorType_t expand = CUDNN_BACKEND_OPERATION_EXPAND_BAND_MATRIX_DESCRIPTOR;
    CHECK(finalized(expand, 2, band, sides, 3, widths, two_and_one) == CUDNN_STATUS_SUCCESS);
    CHECK(finalized(expand, 2, band, sides, 3, widths, one_and_one) == CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    for (int i = 0; i < 2; i++) OK(cudnnBackendDestroyDescriptor(sides[i]));
}

/* A descriptor of another kind than its attribute takes is refused when the operation is closed. */
static void kinds(void) {
    static const int product[3] = { CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC,
                                    CUDNN_ATTR_OPERATION_MATMUL_CDESC };
    cudnnBackendDescriptor_t of[3] = { tensor(1, ROWS, INNER, false), tensor(2, INNER, COLUMNS, false),
                                       tensor(3, ROWS, COLUMNS, false) };
    cudnnBackendDescriptor_t settings = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    OK(cudnnBackendSetAttribute(settings, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
    OK(cudnnBackendFinalize(settings));
    for (int wrong = 0; wrong <= 1; wrong++) {
        cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
        for (int i = 0; i < 3; i++) set_object(operation, (cudnnBackendAttributeName_t)product[i], of[i]);
        set_object(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, wrong ? of[0] : settings);
        CHECK((cudnnBackendFinalize(operation) == CUDNN_STATUS_SUCCESS) == !wrong);
        OK(cudnnBackendDestroyDescriptor(operation));
    }
    OK(cudnnBackendDestroyDescriptor(settings));
    for (int i = 0; i < 3; i++) OK(cudnnBackendDestroyDescriptor(of[i]));
}

/* The engine of a graph by its number: those that programs name are the one that computes it, and others are none. */
static void engines(void) {
    cudnnBackendDescriptor_t graph = describe();
    int64_t count = -1, number = -1;
    OK(cudnnBackendGetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &count, &number));
    CHECK(count == 1 && number > 5);
    for (int64_t index = -1; index <= number; index++) {
        cudnnBackendDescriptor_t engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        set_object(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
        OK(cudnnBackendSetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index));
        const cudnnStatus_t status = cudnnBackendFinalize(engine);
        CHECK(status == (index > 0 && index < number ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED));
        OK(cudnnBackendDestroyDescriptor(engine));
    }
    OK(cudnnBackendDestroyDescriptor(graph));
}

/* Device 0 and the device of a handle have a text, where the CPU core is what a handle has; a text of that device makes the same. */
static void devices(cudnnHandle_t handle) {
    char core[8] = "", text[2048] = "", again[2048] = "";
    OK(cudnnShimGetCore(handle, sizeof core, core));
    if (strcmp(core, "cuda") == 0) return;
    const int32_t first = 0, second = 1;
    for (int by_handle = 0; by_handle <= 1; by_handle++) {
        cudnnBackendDescriptor_t device = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        int64_t count = -1;
        if (by_handle) OK(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
        else OK(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &first));
        OK(cudnnBackendFinalize(device));
        OK(cudnnBackendGetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof text, &count, text));
        CHECK(count == (int64_t)strlen(text) + 1 && strstr(text, "\"deviceVer\":900") != NULL);
        OK(cudnnBackendDestroyDescriptor(device));
        device = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        OK(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, count, text));
        OK(cudnnBackendFinalize(device));
        OK(cudnnBackendGetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof again, &count, again));
        CHECK(strcmp(text, again) == 0);
        OK(cudnnBackendDestroyDescriptor(device));
    }
    cudnnBackendDescriptor_t none = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    OK(cudnnBackendSetAttribute(none, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &second));
    CHECK(cudnnBackendFinalize(none) == CUDNN_STATUS_NOT_INITIALIZED);
    OK(cudnnBackendDestroyDescriptor(none));
}

/* A number that the library keeps: it is read when it is set, is in the text of a plan, and has no pointer in the pack. */
static void constants(cudnnHandle_t handle) {
    const int64_t one[2] = { 1, 1 }, dims[2] = { 1, 4 }, strides[2] = { 4, 1 }, alignment = 8, names[3] = { 1, 2, 3 };
    const cudnnDataType_t type = CUDNN_DATA_DOUBLE;
    const bool yes = true;
    cudnnBackendDescriptor_t of[3];
    double number = 2.5, x[4] = { 1, -2, 3, 0.5 }, y[4] = { 0 };
    for (int i = 0; i < 3; i++) {
        of[i] = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        void *address = &number, *null = NULL;
        OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &names[i]));
        OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment));
        OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, i == 1 ? one : dims));
        OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2, i == 1 ? one : strides));
        if (i == 1) {
            BAD(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_CONSTANT_VALUE, CUDNN_TYPE_DOUBLE, 1, &number));
            BAD(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_CONSTANT_VALUE, CUDNN_TYPE_VOID_PTR, 1, &null));
            /* As long as the type is FLOAT, it has four bytes. */
            OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_CONSTANT_VALUE, CUDNN_TYPE_VOID_PTR, 1, &address));
        }
        OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
        if (i == 1) {
            BAD(cudnnBackendFinalize(of[i]));
            OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_CONSTANT_VALUE, CUDNN_TYPE_VOID_PTR, 1, &address));
            OK(cudnnBackendSetAttribute(of[i], CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes));
            number = -1;
        }
        OK(cudnnBackendFinalize(of[i]));
    }
    cudnnBackendDescriptor_t operation = pointwise(CUDNN_POINTWISE_MUL, of[0], of[1], of[2]);
    cudnnBackendDescriptor_t graph = graph_of(1, &operation);
    const int64_t ids[2] = { 1, 3 };
    void *const pointers[2] = { x, y };
    static char workspace[1 << 16];
    cudnnBackendDescriptor_t plans[2] = { plan_of(graph) }, pack = pack_of(2, ids, pointers, workspace);
    plans[1] = plan_of_text(handle, plans[0]);
    for (int i = 0; i < 2; i++) {
        memset(y, 0, sizeof y);
        OK(cudnnBackendExecute(handle, plans[i], pack));
        for (int k = 0; k < 4; k++) CHECK(y[k] == 2.5 * x[k]);
        OK(cudnnBackendDestroyDescriptor(plans[i]));
    }
    cudnnBackendDescriptor_t used[] = { of[0], of[1], of[2], operation, graph, pack };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) OK(cudnnBackendDestroyDescriptor(used[i]));
}

int main(void) {
    cudnnHandle_t handle;
    OK(cudnnCreate(&handle));
    extents();
    kinds();
    engines();
    devices(handle);
    constants(handle);
    cudnnBackendDescriptor_t plan = plan_of(describe());
    int64_t size = -1, count = -1;
    OK(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &size));
    CHECK(count == 1 && size >= 16);
    static float a[ROWS * INNER], b[INNER * COLUMNS], bias[COLUMNS];
    for (int i = 0; i < ROWS * INNER; i++) a[i] = (float)(i * 3 % 7 - 3);
    for (int i = 0; i < INNER * COLUMNS; i++) b[i] = (float)(i * 5 % 11 - 5);
    for (int i = 0; i < COLUMNS; i++) bias[i] = (float)(2 - i);
    float *y = (float *)guarded_alloc(sizeof(float) * ROWS * COLUMNS);
    void *workspace = NULL;
    CHECK(posix_memalign(&workspace, 256, (size_t)size) == 0);
    const int64_t ids[] = { 'y', 'a', 'b', 's' };
    void *const pointers[] = { y, a, b, bias };
    cudnnBackendDescriptor_t pack = pack_of(4, ids, pointers, workspace), lacking = pack_of(3, ids, pointers, workspace);
    /* What the plan needs and the pack lacks: nothing is written. */
    BAD(cudnnBackendExecute(handle, plan, lacking));
    CHECK(all_filled(y, sizeof(float) * ROWS * COLUMNS));
    BAD(cudnnBackendExecute(handle, NULL, pack));
    OK(cudnnBackendExecute(handle, plan, pack));
    check_product(y, a, b, bias);
    cudnnBackendDescriptor_t again = plan_of_text(handle, plan);
    int64_t same = -1;
    OK(cudnnBackendGetAttribute(again, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &same));
    CHECK(same == size);
    for (int i = 0; i < ROWS * COLUMNS; i++) y[i] = -1;
    OK(cudnnBackendExecute(handle, again, pack));
    check_product(y, a, b, bias);
    OK(cudnnBackendDestroyDescriptor(again));
    guarded_free(y, sizeof(float) * ROWS * COLUMNS);
    free(workspace);
    OK(cudnnBackendDestroyDescriptor(pack));
    OK(cudnnBackendDestroyDescriptor(lacking));
    OK(cudnnBackendDestroyDescriptor(plan));
    OK(cudnnDestroy(handle));
    return check_result("graph");
}
