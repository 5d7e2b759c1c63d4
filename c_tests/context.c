/* Handles, streams, versions, error strings, the last error, the callback, and silence by default. */
#include <unistd.h>

#include "check.h"

static void handles(void) {
    cudnnHandle_t a = NULL, b = NULL;
    cudaStream_t stream = (cudaStream_t)(uintptr_t)1, got = NULL;
    OK(cudnnCreate(&a));
    OK(cudnnCreate(&b));
    CHECK(a != NULL && b != NULL && a != b);
    OK(cudnnGetStream(a, &got));
    CHECK(got == NULL);
    OK(cudnnSetStream(a, stream)); /* 1 is the legacy stream of the run-time library */
    OK(cudnnGetStream(a, &got));
    CHECK(got == stream);
    OK(cudnnGetStream(b, &got));
    CHECK(got == NULL);
    OK(cudnnSetStream(a, NULL));
    OK(cudnnDestroy(a));
    OK(cudnnDestroy(b));
    OK(cudnnDestroy(NULL));
    BAD(cudnnCreate(NULL));
}

static void versions(void) {
    int value = -1;
    CHECK(cudnnGetVersion() == CUDNN_VERSION);
    CHECK(CUDNN_VERSION == CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL);
    CHECK(cudnnGetCudartVersion() > 0);
    OK(cudnnGetProperty(MAJOR_VERSION, &value));
    CHECK(value == CUDNN_MAJOR);
    OK(cudnnGetProperty(MINOR_VERSION, &value));
    CHECK(value == CUDNN_MINOR);
    OK(cudnnGetProperty(PATCH_LEVEL, &value));
    CHECK(value == CUDNN_PATCHLEVEL);
    value = -7;
    BAD(cudnnGetProperty((libraryPropertyType)3, &value));
    CHECK(value == -7);
    BAD(cudnnGetProperty(MAJOR_VERSION, NULL));
    OK(cudnnGraphVersionCheck());
    OK(cudnnOpsVersionCheck());
    OK(cudnnCnnVersionCheck());
    OK(cudnnAdvVersionCheck());
}

/* Every status the original has a name for; everything else is unknown. */
static void error_strings(void) {
    static const struct {
        int value;
        const char *name;
    } names[] = {
        {0, "SUCCESS"},
        {1001, "NOT_INITIALIZED"},
        {1002, "SUBLIBRARY_VERSION_MISMATCH"},
        {1003, "SERIALIZATION_VERSION_MISMATCH"},
        {1004, "DEPRECATED"},
        {1005, "LICENSE_ERROR"},
        {1006, "RUNTIME_IN_PROGRESS"},
        {1007, "RUNTIME_FP_OVERFLOW"},
        {1008, "SUBLIBRARY_LOADING_FAILED"},
        {2000, "BAD_PARAM"},
        {2001, "INVALID_VALUE"},
        {2002, "BAD_PARAM_NULL_POINTER"},
        {2003, "BAD_PARAM_MISALIGNED_POINTER"},
        {2004, "BAD_PARAM_NOT_FINALIZED"},
        {2005, "BAD_PARAM_OUT_OF_BOUND"},
        {2006, "BAD_PARAM_SIZE_INSUFFICIENT"},
        {2007, "BAD_PARAM_STREAM_MISMATCH"},
        {2008, "BAD_PARAM_SHAPE_MISMATCH"},
        {2009, "BAD_PARAM_DUPLICATED_ENTRIES"},
        {2010, "BAD_PARAM_ATTRIBUTE_TYPE"},
        {2011, "BAD_PARAM_CUDA_GRAPH_MISMATCH"},
        {2012, "BAD_PARAM_DESCRIPTOR_TYPE"},
        {3000, "NOT_SUPPORTED"},
        {3001, "NOT_SUPPORTED_GRAPH_PATTERN"},
        {3002, "NOT_SUPPORTED_SHAPE"},
        {3003, "NOT_SUPPORTED_DATA_TYPE"},
        {3004, "NOT_SUPPORTED_LAYOUT"},
        {3005, "NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER"},
        {3006, "NOT_SUPPORTED_INCOMPATIBLE_CUDART"},
        {3007, "NOT_SUPPORTED_ARCH_MISMATCH"},
        {3008, "NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING"},
        {3009, "NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE"},
        {3010, "NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT"},
        {3011, "NOT_SUPPORTED_PADDING"},
        {3012, "NOT_SUPPORTED_BAD_LAUNCH_PARAM"},
        {3013, "NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API"},
        {3014, "NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE"},
        {4000, "INTERNAL_ERROR"},
        {4001, "INTERNAL_ERROR_COMPILATION_FAILED"},
        {4002, "INTERNAL_ERROR_UNEXPECTED_VALUE"},
        {4003, "INTERNAL_ERROR_HOST_ALLOCATION_FAILED"},
        {4004, "INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
        {4005, "INTERNAL_ERROR_BAD_LAUNCH_PARAM"},
        {4006, "INTERNAL_ERROR_TEXTURE_CREATION_FAILED"},
        {5000, "EXECUTION_FAILED"},
        {5001, "EXECUTION_FAILED_CUDA_DRIVER"},
        {5002, "EXECUTION_FAILED_CUBLAS"},
        {5003, "EXECUTION_FAILED_CUDART"},
        {5004, "EXECUTION_FAILED_CURAND"},
    };
    const size_t known = sizeof names / sizeof names[0];
    size_t next = 0;
    int value;
    for (value = -20; value < 6000; value++) {
        const char *text = cudnnGetErrorString((cudnnStatus_t)value);
        if (next < known && names[next].value == value) {
            CHECK(strncmp(text, "CUDNN_STATUS_", 13) == 0 && strcmp(text + 13, names[next].name) == 0);
            next++;
        } else {
            CHECK(strcmp(text, "CUDNN_UNKNOWN_STATUS") == 0);
        }
    }
    CHECK(next == known);
}

/* Whether the last error has these words. */
static void says(const char *words) {
    char text[256];
    cudnnGetLastErrorString(text, sizeof text);
    if (strstr(text, words) == NULL) fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, text);
    CHECK(strstr(text, words) != NULL);
}

static void last_error(void) {
    char text[64];
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreateTensorDescriptor(&desc));
    BAD(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    /* A later success does not clear it; room for nothing neither. */
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    memset(text, CHECK_FILL, sizeof text);
    cudnnGetLastErrorString(text, 0);
    CHECK(all_filled(text, sizeof text));
    BAD(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    cudnnGetLastErrorString(text, 48);
    CHECK(text[0] != '\0' && text[47] == '\0');
    CHECK(all_filled(text + 48, sizeof text - 48));
    /* Reading clears: now zero bytes up to the size. */
    memset(text, CHECK_FILL, sizeof text);
    cudnnGetLastErrorString(text, 48);
    CHECK(text[0] == '\0' && text[47] == '\0');
    CHECK(all_filled(text + 48, sizeof text - 48));
    /* Truncated, and still terminated. */
    BAD(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    memset(text, CHECK_FILL, sizeof text);
    cudnnGetLastErrorString(text, 4);
    CHECK(text[0] != '\0' && text[3] == '\0');
    CHECK(all_filled(text + 4, sizeof text - 4));
    OK(cudnnDestroyTensorDescriptor(desc));
}

/* What was wrong, by the names of the call that was made. */
static void messages(void) {
    static const int dims[4] = {2, 3, 4, 5}, others[4] = {2, 3, 4, 6}, strides[4] = {60, 20, 5, 1};
    const float one = 1, zero = 0;
    float x[120] = {0}, y[144] = {0};
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t a, b;
    cudnnFilterDescriptor_t filter;
    cudnnPoolingDescriptor_t pooling;
    cudnnConvolutionDescriptor_t conv;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&a));
    OK(cudnnCreateTensorDescriptor(&b));
    OK(cudnnCreateFilterDescriptor(&filter));
    OK(cudnnCreatePoolingDescriptor(&pooling));
    OK(cudnnCreateConvolutionDescriptor(&conv));
    BAD(cudnnSetTensor4dDescriptor(a, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 0, 1));
    says("h = 0: ");
    BAD(cudnnSetTensor4dDescriptorEx(a, CUDNN_DATA_FLOAT, 1, -2, 1, 1, 1, 1, 1, 1));
    says("c = -2: ");
    BAD(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 0, 1, 1, 1));
    says("k = 0: ");
    BAD(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 1, 0));
    says("horizontalStride = 0: ");
    BAD(cudnnSetPoolingNdDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, -3, dims, dims, dims));
    says("nbDims = -3: ");
    BAD(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 0, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    says("dilation_h = 0: ");
    OK(cudnnSetTensorNdDescriptor(a, CUDNN_DATA_FLOAT, 4, dims, strides));
    OK(cudnnSetTensorNdDescriptor(b, CUDNN_DATA_FLOAT, 4, others, strides));
    BAD(cudnnTransformTensor(handle, &one, a, x, &zero, b, y));
    says("xDesc and yDesc differ in dimA[3]: 5 and 6");
    OK(cudnnDestroyConvolutionDescriptor(conv));
    OK(cudnnDestroyPoolingDescriptor(pooling));
    OK(cudnnDestroyFilterDescriptor(filter));
    OK(cudnnDestroyTensorDescriptor(b));
    OK(cudnnDestroyTensorDescriptor(a));
    OK(cudnnDestroy(handle));
}

static unsigned informed, errors;
static void *seen_udata;

static void CUDNNWINAPI listen(cudnnSeverity_t severity, void *udata, const cudnnDebug_t *dbg, const char *message) {
    informed += severity == CUDNN_SEV_INFO;
    errors += severity == CUDNN_SEV_ERROR;
    seen_udata = udata;
    CHECK(message != NULL && message[0] != '\0');
    CHECK(dbg != NULL && dbg->cudnn_version == CUDNN_VERSION && dbg->pid == (unsigned long long)getpid());
}

/* A more talkative level brings the graver ones along: errors always, warnings with information. */
static void callback(void) {
    static const unsigned masks[][2] = {{0, 2}, {2, 2}, {6, 6}, {14, 14}, {0xffffffffu, 14}, {1, 2}, {4, 6}, {8, 14}, {16, 2}};
    int token;
    unsigned mask = 99;
    void *udata = &token;
    cudnnCallback_t function = listen;
    cudnnTensorDescriptor_t desc;
    size_t i;
    OK(cudnnGetCallback(&mask, &udata, &function));
    CHECK(mask == 0 && udata == NULL && function == NULL);
    for (i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        OK(cudnnSetCallback(masks[i][0], &token, NULL));
        OK(cudnnGetCallback(&mask, &udata, &function));
        CHECK(mask == masks[i][1] && udata == &token && function == NULL);
    }
    BAD(cudnnGetCallback(NULL, &udata, &function));
    BAD(cudnnGetCallback(&mask, NULL, &function));
    BAD(cudnnGetCallback(&mask, &udata, NULL));

    OK(cudnnSetCallback(CUDNN_SEV_INFO_EN, &token, listen));
    informed = errors = 0;
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnDestroyTensorDescriptor(desc));
    CHECK(informed >= 2 && errors == 0 && seen_udata == &token);
    OK(cudnnSetCallback(0, &token, listen));
    informed = errors = 0;
    OK(cudnnCreateTensorDescriptor(&desc));
    CHECK(informed == 0 && errors == 0);
    BAD(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1));
    CHECK(informed == 0 && errors == 1);
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnSetCallback(0, NULL, NULL));
}

static cudnnHandle_t told;

/* A listener that changes what the call it hears of works with. */
static void CUDNNWINAPI change(cudnnSeverity_t severity, void *udata, const cudnnDebug_t *dbg, const char *message) {
    (void)severity, (void)udata, (void)dbg;
    /* SetStream is told of, too. */
    if (strstr(message, "f32->f32") == NULL) return;
    informed++;
    OK(cudnnSetStream(told, NULL));
}

static void listener_with_the_handle(void) {
    const float one = 1, zero = 0;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
    cudnnTensorDescriptor_t desc;
    OK(cudnnCreate(&told));
    OK(cudnnCreateTensorDescriptor(&desc));
    OK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 2, 3));
    /* It would wait for itself for ever, were the handle still in use. */
    alarm(60);
    OK(cudnnSetCallback(CUDNN_SEV_INFO_EN, NULL, change));
    informed = 0;
    OK(cudnnTransformTensor(told, &one, desc, x, &zero, desc, y));
    OK(cudnnSetCallback(0, NULL, NULL));
    alarm(0);
    CHECK(informed == 1 && memcmp(x, y, sizeof x) == 0);
    OK(cudnnDestroyTensorDescriptor(desc));
    OK(cudnnDestroy(told));
}

int main(void) {
    callback();
    listener_with_the_handle();
    messages();
    handles();
    versions();
    error_strings();
    last_error();
    return check_result("context");
}
