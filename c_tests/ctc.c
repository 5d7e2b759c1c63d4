/* CTC loss as programs call it, against alignments that can be counted by hand; and what is refused. */
#include <math.h>

#include "check.h"

enum { T = 2, N = 3, A = 2, COUNT = T * N * A };

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t tensor, other;
static cudnnCTCLossDescriptor_t loss;
static float scores[COUNT], costs[N], gradients[COUNT];
static double workspace[1 << 13];

/* Two rows and one class beside the blank: three of the four alignments are one 1, one is the empty label, and two of them need
 * a blank between. Scores are all 0, so that each has the probability 1/4. */
static const int labels[] = {1, 1, 1}, label_lengths[N] = {1, 0, 2}, input_lengths[N] = {2, 2, 2};

static int near(double a, double b) { return fabs(a - b) <= 1e-6; }

static void clear(void) {
    memset(costs, CHECK_FILL, sizeof costs);
    memset(gradients, CHECK_FILL, sizeof gradients);
    memset(workspace, CHECK_FILL, sizeof workspace);
}

static void check(int wants_gradients, int leaves) {
    int t;
    CHECK(near(costs[0], -log(0.75)));
    CHECK(near(costs[1], -log(0.25)));
    CHECK(isinf(costs[2]) && costs[2] > 0);
    if (!wants_gradients) {
        CHECK(all_filled(gradients, sizeof gradients));
        return;
    }
    for (t = 0; t < T; t++) {
        const float *row = gradients + t * N * A;
        CHECK(near(row[0], 0.5 - 1.0 / 3) && near(row[1], 0.5 - 2.0 / 3));
        CHECK(near(row[2], 0.5 - 1) && near(row[3], 0.5));
        if (leaves)
            CHECK(all_filled(row + 4, 2 * sizeof *row));
        else
            CHECK(row[4] == 0 && row[5] == 0);
    }
}

static void host(void) {
    size_t size;
    int wrong[] = {1, 2, 1}, negative[N] = {1, -1, 2}, long_input[N] = {2, 3, 2};
    const cudnnCTCLossAlgo_t algo = CUDNN_CTC_LOSS_ALGO_DETERMINISTIC;
    OK(cudnnSetCTCLossDescriptorEx(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_NOT_PROPAGATE_NAN));
    OK(cudnnGetCTCLossWorkspaceSize(handle, tensor, tensor, labels, label_lengths, input_lengths, algo, loss, &size));
    CHECK(size <= sizeof workspace);
    clear();
    OK(cudnnCTCLoss(handle, tensor, scores, labels, label_lengths, input_lengths, costs, tensor, gradients, algo, loss,
                    workspace, size));
    check(1, 0);
    CHECK(all_filled((const char *)workspace + size, sizeof workspace - size));
    clear();
    OK(cudnnCTCLoss(handle, tensor, scores, labels, label_lengths, input_lengths, costs, tensor, NULL, algo, loss, workspace,
                    size));
    check(0, 0);
    clear();
    BAD(cudnnCTCLoss(handle, tensor, scores, labels, label_lengths, input_lengths, costs, tensor, gradients, algo, loss,
                     workspace, size - 1));
    BAD(cudnnCTCLoss(handle, tensor, scores, wrong, label_lengths, input_lengths, costs, tensor, gradients, algo, loss,
                     workspace, size));
    BAD(cudnnCTCLoss(handle, tensor, scores, labels, negative, input_lengths, costs, tensor, gradients, algo, loss, workspace,
                     size));
    BAD(cudnnCTCLoss(handle, tensor, scores, labels, label_lengths, long_input, costs, tensor, gradients, algo, loss,
                     workspace, size));
    BAD(cudnnCTCLoss(handle, tensor, scores, labels, label_lengths, input_lengths, costs, other, gradients, algo, loss,
                     workspace, size));
    BAD(cudnnCTCLoss(handle, tensor, NULL, labels, label_lengths, input_lengths, costs, tensor, gradients, algo, loss,
                     workspace, size));
    BAD(cudnnCTCLoss(handle, tensor, scores, NULL, label_lengths, input_lengths, costs, tensor, gradients, algo, loss,
                     workspace, size));
    CHECK(all_filled(costs, sizeof costs) && all_filled(gradients, sizeof gradients));
    CHECK(all_filled(workspace, sizeof workspace));
}

/* As PyTorch calls it: the longest label is a limit, gradients of samples without an alignment are left, and labels are where the
 * core's data is. */
static void device(void) {
    size_t size;
    int t;
    OK(cudnnSetCTCLossDescriptor_v8(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN, 255));
    OK(cudnnGetCTCLossWorkspaceSize_v8(handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, tensor, tensor, &size));
    CHECK(size <= sizeof workspace);
    clear();
    OK(cudnnCTCLoss_v8(handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, tensor, scores, labels, label_lengths, input_lengths,
                       costs, tensor, gradients, size, workspace));
    check(1, 1);
    clear();
    BAD(cudnnCTCLoss_v8(handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, tensor, scores, labels, NULL, input_lengths, costs,
                        tensor, gradients, size, workspace));
    BAD(cudnnCTCLoss_v8(handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss, tensor, scores, labels, label_lengths, input_lengths,
                        costs, tensor, gradients, size - 1, workspace));
    CHECK(all_filled(costs, sizeof costs) && all_filled(gradients, sizeof gradients));
    /* Probabilities instead of scores, in the place of which the gradients go. */
    for (t = 0; t < COUNT; t++) gradients[t] = 0.5f;
    OK(cudnnSetCTCLossDescriptor_v8(loss, CUDNN_DATA_FLOAT, CUDNN_LOSS_NORMALIZATION_NONE, CUDNN_NOT_PROPAGATE_NAN, 2));
    OK(cudnnCTCLoss_v8(handle, CUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC, loss, tensor, gradients, labels, label_lengths,
                       input_lengths, costs, tensor, gradients, size, workspace));
    check(1, 0);
}

int main(void) {
    const int dims[] = {T, N, A}, strides[] = {N * A, A, 1}, others[] = {T + 1, N, A};
    OK(cudnnCreate(&handle));
    OK(cudnnCreateTensorDescriptor(&tensor));
    OK(cudnnCreateTensorDescriptor(&other));
    OK(cudnnCreateCTCLossDescriptor(&loss));
    OK(cudnnSetTensorNdDescriptor(tensor, CUDNN_DATA_FLOAT, 3, dims, strides));
    OK(cudnnSetTensorNdDescriptor(other, CUDNN_DATA_FLOAT, 3, others, strides));
    host();
    device();
    OK(cudnnDestroyCTCLossDescriptor(loss));
    OK(cudnnDestroyTensorDescriptor(other));
    OK(cudnnDestroyTensorDescriptor(tensor));
    OK(cudnnDestroy(handle));
    return check_result("ctc");
}
