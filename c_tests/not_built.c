/* Calls that are exported but not built: never success, and a sentence that names the call. */
#include "check.h"

static cudnnHandle_t handle;

/* What is exported but not built refuses: NULL handles as the original does, good ones with a sentence. */
static void not_built(void) {
    char text[512] = "";
    size_t size = 0;
    BAD(cudnnGetRNNWeightSpaceSize(NULL, NULL, &size));
    cudnnGetLastErrorString(text, sizeof text);
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnGetRNNWeightSpaceSize(handle, NULL, &size));
    memset(text, 0, sizeof text);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "cudnnGetRNNWeightSpaceSize") != NULL);
}

int main(void) {
    OK(cudnnCreate(&handle));
    not_built();
    OK(cudnnDestroy(handle));
    return check_result("not_built");
}
