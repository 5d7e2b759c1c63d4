/* What the reserve space of a recurrent network must go through, and what is said where it did not: backward calls after inference, after
 * another batch, twice, and in the wrong order are computed, as by the original, and warned of; a reserve space that is missing or too
 * small is refused with the call that was missed. Training without dropout has the bits of inference. */
#include "check.h"

enum { INPUT = 2, HIDDEN = 16, STEPS = 4, BATCH = 2, VALUES = STEPS * BATCH * HIDDEN };

static int warnings;
static char last[1024];

static void listen(cudnnSeverity_t severity, void *data, const cudnnDebug_t *debug, const char *message) {
    (void)data, (void)debug;
    if (severity == CUDNN_SEV_INFO) return;
    if (severity == CUDNN_SEV_WARNING) warnings++;
    strncpy(last, message, sizeof last - 1);
}

struct net {
    cudnnHandle_t handle;
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t x_desc, y_desc;
    size_t weights, work, reserve;
    float *w, *dw;
    void *space, *kept;
};

static cudnnRNNDataDescriptor_t sequences(int vector, int steps) {
    const int lengths[BATCH] = {steps, 1};
    cudnnRNNDataDescriptor_t desc;
    OK(cudnnCreateRNNDataDescriptor(&desc));
    OK(cudnnSetRNNDataDescriptor(desc, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, STEPS, BATCH, vector, lengths, NULL));
    return desc;
}

static float x[STEPS * BATCH * INPUT], dx[STEPS * BATCH * INPUT], dy[VALUES], y[VALUES], inferred[VALUES];

static cudnnStatus_t forward(struct net *net, cudnnForwardMode_t mode, float *to) {
    return cudnnRNNForward(net->handle, net->rnn, mode, NULL, net->x_desc, x, net->y_desc, to, NULL, NULL, NULL, NULL, NULL, NULL,
                           net->weights, net->w, net->work, net->space, net->reserve, net->kept);
}

static cudnnStatus_t data(struct net *net) {
    return cudnnRNNBackwardData_v8(net->handle, net->rnn, NULL, net->y_desc, y, dy, net->x_desc, dx, NULL, NULL, NULL, NULL, NULL, NULL,
                                   NULL, NULL, net->weights, net->w, net->work, net->space, net->reserve, net->kept);
}

static cudnnStatus_t weights(struct net *net) {
    return cudnnRNNBackwardWeights_v8(net->handle, net->rnn, CUDNN_WGRAD_MODE_ADD, NULL, net->x_desc, x, NULL, NULL, net->y_desc, y,
                                      net->weights, net->dw, net->work, net->space, net->reserve, net->kept);
}

/* Whether the last call has warned, once, with these words in it. */
static int warned(const char *words) {
    const int count = warnings, found = strstr(last, words) != NULL;
    warnings = 0, last[0] = 0;
    return count == 1 && found;
}

static int silent(void) {
    const int count = warnings;
    warnings = 0;
    return count == 0;
}

static void all(cudnnRNNMode_t cell) {
    struct net net;
    float *once;
    cudnnRNNDataDescriptor_t others;
    size_t size;
    void *kept;
    int i;
    OK(cudnnCreate(&net.handle));
    OK(cudnnCreateRNNDescriptor(&net.rnn));
    OK(cudnnSetRNNDescriptor_v8(net.rnn, CUDNN_RNN_ALGO_STANDARD, cell, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                                CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, INPUT, HIDDEN, HIDDEN, 2, NULL,
                                CUDNN_RNN_PADDED_IO_ENABLED));
    net.x_desc = sequences(INPUT, STEPS), net.y_desc = sequences(HIDDEN, STEPS);
    OK(cudnnGetRNNWeightSpaceSize(net.handle, net.rnn, &net.weights));
    OK(cudnnGetRNNTempSpaceSizes(net.handle, net.rnn, CUDNN_FWD_MODE_INFERENCE, net.x_desc, &size, NULL));
    OK(cudnnGetRNNTempSpaceSizes(net.handle, net.rnn, CUDNN_FWD_MODE_TRAINING, net.x_desc, &net.work, &net.reserve));
    if (net.work < size) net.work = size;
    net.w = calloc(1, net.weights), net.dw = calloc(1, net.weights), once = calloc(1, net.weights);
    net.space = malloc(net.work), net.kept = calloc(1, net.reserve);
    for (i = 0; i < (int)(net.weights / sizeof *net.w); i++) net.w[i] = 0.01f * (float)(i % 37) - 0.2f;
    for (i = 0; i < STEPS * BATCH * INPUT; i++) x[i] = 0.1f * (float)(i % 7) - 0.3f;
    for (i = 0; i < VALUES; i++) dy[i] = 1;

    /* In order, nothing is said; the training pass has the bits of inference. */
    memset(y, 0, sizeof y), memset(inferred, 0, sizeof inferred);
    OK(forward(&net, CUDNN_FWD_MODE_INFERENCE, inferred));
    OK(forward(&net, CUDNN_FWD_MODE_TRAINING, y));
    CHECK(memcmp(y, inferred, sizeof y) == 0);
    OK(data(&net));
    OK(weights(&net));
    memcpy(once, net.dw, net.weights);
    /* Gradients of weights may be added up. */
    OK(weights(&net));
    CHECK(silent());
    for (i = 0; i < (int)(net.weights / sizeof *once); i++) CHECK(net.dw[i] == 2 * once[i]);

    /* Twice. */
    OK(data(&net));
    CHECK(warned("forward call in training (fwdMode 1) of its own"));
    /* Weights before data. */
    OK(forward(&net, CUDNN_FWD_MODE_TRAINING, y));
    OK(weights(&net));
    CHECK(warned("come first"));
    OK(data(&net));
    CHECK(silent());

    /* After inference. */
    memset(net.kept, 0, net.reserve);
    OK(forward(&net, CUDNN_FWD_MODE_INFERENCE, y));
    OK(data(&net));
    CHECK(warned("was not filled by a forward call in training (fwdMode 1)"));

    /* After another batch, whose reserve space is smaller. */
    others = sequences(INPUT, 2);
    OK(cudnnGetRNNTempSpaceSizes(net.handle, net.rnn, CUDNN_FWD_MODE_TRAINING, others, NULL, &size));
    CHECK(size < net.reserve);
    OK(forward(&net, CUDNN_FWD_MODE_TRAINING, y));
    OK(cudnnDestroyRNNDataDescriptor(net.x_desc));
    OK(cudnnDestroyRNNDataDescriptor(net.y_desc));
    net.x_desc = others, net.y_desc = sequences(HIDDEN, 2);
    OK(data(&net));
    CHECK(warned("of this network on a batch of these lengths"));

    /* Missing, or of the size that inference has. */
    kept = net.kept, net.kept = NULL;
    BAD(data(&net));
    CHECK(strstr(last, "reserveSpace is NULL") != NULL && strstr(last, "training (fwdMode = 1)") != NULL);
    net.kept = kept, net.reserve = size - 1;
    BAD(data(&net));
    CHECK(strstr(last, "training (fwdMode = 1)") != NULL);
    BAD(weights(&net));
    CHECK(strstr(last, "training (fwdMode = 1)") != NULL && silent());

    free(net.w), free(net.dw), free(once), free(net.space), free(net.kept);
    OK(cudnnDestroyRNNDataDescriptor(net.x_desc));
    OK(cudnnDestroyRNNDataDescriptor(net.y_desc));
    OK(cudnnDestroyRNNDescriptor(net.rnn));
    OK(cudnnDestroy(net.handle));
}

int main(void) {
    OK(cudnnSetCallback(CUDNN_SEV_ERROR_EN | CUDNN_SEV_WARNING_EN, NULL, listen));
    all(CUDNN_RNN_TANH);
    all(CUDNN_LSTM);
    all(CUDNN_GRU);
    return check_result("recurrent_reserve");
}
