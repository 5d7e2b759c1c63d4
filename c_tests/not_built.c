/* Calls that are exported but not built: never success, and a sentence that names the call and where it is listed. */
#include "check.h"

/* No header declares it, so its parameters are not known. */
#ifdef __cplusplus
extern "C"
#endif
cudnnStatus_t cudnnGetBackdoor(void);

static int shown;

/* The log shows a call whether it is built or not. */
static void CUDNNWINAPI listen(cudnnSeverity_t severity, void *udata, const cudnnDebug_t *dbg, const char *message) {
    (void)udata, (void)dbg;
    if (severity != CUDNN_SEV_INFO) return;
    shown += strstr(message, "cudnnGetBackdoor(") != NULL && strstr(message, "-> CUDNN_STATUS_NOT_SUPPORTED") != NULL;
}

static void not_built(void) {
    char text[512] = "";
    OK(cudnnSetCallback(CUDNN_SEV_INFO_EN, NULL, listen));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnGetBackdoor());
    OK(cudnnSetCallback(0, NULL, NULL));
    CHECK(shown == 1);
    cudnnGetLastErrorString(text, sizeof text);
    CHECK(strstr(text, "cudnnGetBackdoor: ") == text);
    CHECK(strstr(text, "its row in MATRIX.md") != NULL);
}

int main(void) {
    cudnnHandle_t handle;
    OK(cudnnCreate(&handle));
    not_built();
    OK(cudnnDestroy(handle));
    return check_result("not_built");
}
