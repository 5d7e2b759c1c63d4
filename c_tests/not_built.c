/* Calls that are exported but not built: never success, and a sentence that names the call and where it is listed. */
#include "check.h"

static cudnnHandle_t handle;
static int shown;

/* The log of a call shows its arguments, whether it is built or not. */
static void CUDNNWINAPI listen(cudnnSeverity_t severity, void *udata, const cudnnDebug_t *dbg, const char *message) {
    (void)udata, (void)dbg;
    if (severity != CUDNN_SEV_INFO) return;
    shown += strstr(message, "cudnnGetMultiHeadAttnBuffers(handle=0x") != NULL &&
             strstr(message, ", attnDesc=0x0, weightSizeInBytes=0x") != NULL &&
             strstr(message, "-> CUDNN_STATUS_NOT_SUPPORTED") != NULL;
}

/* What is exported but not built refuses: NULL handles as the original does, good ones with a sentence. */
static void not_built(void) {
    char text[512] = "";
    size_t size = 0;
    BAD(cudnnGetMultiHeadAttnBuffers(NULL, NULL, &size, &size, &size));
    cudnnGetLastErrorString(text, sizeof text);
    OK(cudnnSetCallback(CUDNN_SEV_INFO_EN, NULL, listen));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnGetMultiHeadAttnBuffers(handle, NULL, &size, &size, &size));
    OK(cudnnSetCallback(0, NULL, NULL));
    CHECK(shown == 1);
    memset(text, 0, sizeof text);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "cudnnGetMultiHeadAttnBuffers: ") == text);
    CHECK(strstr(text, "its row in MATRIX.md") != NULL);
}

int main(void) {
    OK(cudnnCreate(&handle));
    not_built();
    OK(cudnnDestroy(handle));
    return check_result("not_built");
}
