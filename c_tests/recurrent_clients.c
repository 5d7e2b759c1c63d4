/* What programs do with the calls of version 6 on recurrent networks: TensorFlow and PyTorch, Paddle, Chainer, OpenCV and ROOT, each with
 * the sequence of calls and the assumptions that it has. */
#include <math.h>

#include "recurrent.h"

static cudnnHandle_t handle;

static uint64_t random_state = 1;

static double some_number(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 40) / (double)(1 << 24) - 0.5;
}

static cudnnRNNDescriptor_t network(cudnnRNNMode_t cell, cudnnDirectionMode_t direction, int hidden, int layers, cudnnDataType_t math) {
    cudnnRNNDescriptor_t rnn;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v6(handle, rnn, hidden, layers, NULL, CUDNN_LINEAR_INPUT, direction, cell, CUDNN_RNN_ALGO_STANDARD, math));
    return rnn;
}

static int gates_of(cudnnRNNMode_t cell) { return cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1; }

/* The offset of one part of the weights, and its elements. */
static size_t part(cudnnRNNDescriptor_t rnn, int pseudo, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, const void *base, int id,
                   int is_bias, int *elements) {
    cudnnFilterDescriptor_t desc;
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int rank = 0, dims[3] = {0, 0, 0};
    void *address = NULL;
    OK(cudnnCreateFilterDescriptor(&desc));
    if (is_bias) OK(cudnnGetRNNLinLayerBiasParams(handle, rnn, pseudo, x, w, base, id, desc, &address));
    else OK(cudnnGetRNNLinLayerMatrixParams(handle, rnn, pseudo, x, w, base, id, desc, &address));
    OK(cudnnGetFilterNdDescriptor(desc, 3, &type, &format, &rank, dims));
    CHECK(rank == 3 && dims[0] == 1 && format == CUDNN_TENSOR_NCHW);
    *elements = dims[0] * dims[1] * dims[2];
    OK(cudnnDestroyFilterDescriptor(desc));
    return (size_t)((char *)address - (const char *)base);
}

/* TensorFlow asks with a NULL base and takes the addresses for offsets; PyTorch subtracts the base, and makes one view of the matrices of
 * all gates: they have to follow each other without a gap. Together all parts are all of the weights. */
static void offsets(void) {
    static const cudnnRNNMode_t cells[] = {CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM, CUDNN_GRU};
    int k, both, layer, id, is_bias;
    for (k = 0; k < 4; k++) {
        for (both = 0; both < 2; both++) {
            int gates = gates_of(cells[k]), count = 3 * (1 + both), elements = 0;
            cudnnRNNDescriptor_t rnn =
                network(cells[k], both ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, 7, 3, CUDNN_DATA_FLOAT);
            cudnnTensorDescriptor_t x = tensor(CUDNN_DATA_FLOAT, 1, 5, 1);
            cudnnFilterDescriptor_t w;
            size_t bytes = 0, next = 0;
            float *base;
            OK(cudnnGetRNNParamsSize(handle, rnn, x, &bytes, CUDNN_DATA_FLOAT));
            w = filter(CUDNN_DATA_FLOAT, bytes / 4);
            base = (float *)malloc(bytes);
            for (is_bias = 0; is_bias < 2; is_bias++) {
                for (layer = 0; layer < count; layer++) {
                    for (id = 0; id < 2 * gates; id++) {
                        size_t offset = part(rnn, layer, x, w, NULL, id, is_bias, &elements);
                        CHECK(offset == next);
                        CHECK(part(rnn, layer, x, w, base, id, is_bias, &elements) == offset);
                        next = offset + 4 * (size_t)elements;
                    }
                }
            }
            CHECK(next == bytes);
            free(base);
            OK(cudnnDestroyFilterDescriptor(w));
            OK(cudnnDestroyTensorDescriptor(x));
            OK(cudnnDestroyRNNDescriptor(rnn));
        }
    }
}

/* Paddle and the older CUDA.jl refuse to start if the size of the weights is not theirs, to the byte. */
static void formula(void) {
    int layers, both, input;
    for (layers = 1; layers < 4; layers++) {
        for (both = 0; both < 2; both++) {
            for (input = 3; input < 40; input += 9) {
                size_t h = 6, d = 1 + (size_t)both, in = (size_t)input, bytes = 0, layer, elements = 0;
                cudnnRNNDescriptor_t rnn =
                    network(CUDNN_LSTM, both ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, 6, layers, CUDNN_DATA_FLOAT);
                cudnnTensorDescriptor_t x = tensor(CUDNN_DATA_FLOAT, 11, input, 1);
                for (layer = 0; layer < (size_t)layers; layer++) {
                    elements += d * 4 * (h * (layer == 0 ? in : d * h) + h * h + 2 * h);
                }
                OK(cudnnGetRNNParamsSize(handle, rnn, x, &bytes, CUDNN_DATA_FLOAT));
                CHECK(bytes == 4 * elements);
                OK(cudnnDestroyTensorDescriptor(x));
                OK(cudnnDestroyRNNDescriptor(rnn));
            }
        }
    }
}

/* One LSTM or GRU on doubles, its weights and one batch, as OpenCV and ROOT set them up. */
enum { INPUT = 3, HIDDEN = 4, LAYERS = 2, STEPS = 4, MOST = 3, ROWS = 8 };
static const int batches[STEPS] = {3, 2, 2, 1};

typedef struct {
    cudnnRNNDescriptor_t rnn;
    cudnnTensorDescriptor_t x_desc[STEPS], y_desc[STEPS], states;
    cudnnFilterDescriptor_t w_desc;
    size_t weights, work_size, reserve_size;
    void *work, *reserve;
    double *w, x[ROWS * INPUT], y[ROWS * HIDDEN], hx[LAYERS * MOST * HIDDEN], cx[LAYERS * MOST * HIDDEN];
    double hy[LAYERS * MOST * HIDDEN], cy[LAYERS * MOST * HIDDEN];
} Layer;

static void layer_new(Layer *l, cudnnRNNMode_t cell) {
    size_t k;
    int t;
    l->rnn = network(cell, CUDNN_UNIDIRECTIONAL, HIDDEN, LAYERS, CUDNN_DATA_DOUBLE);
    for (t = 0; t < STEPS; t++) {
        l->x_desc[t] = tensor(CUDNN_DATA_DOUBLE, batches[t], INPUT, 1);
        l->y_desc[t] = tensor(CUDNN_DATA_DOUBLE, batches[t], HIDDEN, 1);
    }
    l->states = tensor(CUDNN_DATA_DOUBLE, LAYERS, MOST, HIDDEN);
    OK(cudnnGetRNNParamsSize(handle, l->rnn, l->x_desc[0], &l->weights, CUDNN_DATA_DOUBLE));
    l->w_desc = filter(CUDNN_DATA_DOUBLE, l->weights / 8);
    l->w = (double *)guarded_alloc(l->weights);
    OK(cudnnGetRNNWorkspaceSize(handle, l->rnn, STEPS, l->x_desc, &l->work_size));
    OK(cudnnGetRNNTrainingReserveSize(handle, l->rnn, STEPS, l->x_desc, &l->reserve_size));
    l->work = guarded_alloc(l->work_size);
    l->reserve = guarded_alloc(l->reserve_size);
    for (k = 0; k < l->weights / 8; k++) l->w[k] = some_number();
    for (k = 0; k < ROWS * INPUT; k++) l->x[k] = some_number();
    for (k = 0; k < LAYERS * MOST * HIDDEN; k++) l->hx[k] = some_number(), l->cx[k] = some_number();
}

static void layer_free(Layer *l) {
    int t;
    guarded_free(l->w, l->weights);
    guarded_free(l->work, l->work_size);
    guarded_free(l->reserve, l->reserve_size);
    for (t = 0; t < STEPS; t++) {
        OK(cudnnDestroyTensorDescriptor(l->x_desc[t]));
        OK(cudnnDestroyTensorDescriptor(l->y_desc[t]));
    }
    OK(cudnnDestroyTensorDescriptor(l->states));
    OK(cudnnDestroyFilterDescriptor(l->w_desc));
    OK(cudnnDestroyRNNDescriptor(l->rnn));
}

static void forward(Layer *l) {
    memset(l->work, 0xff, l->work_size);
    memset(l->reserve, 0xff, l->reserve_size);
    OK(cudnnRNNForwardTraining(handle, l->rnn, STEPS, l->x_desc, l->x, l->states, l->hx, l->states, l->cx, l->w_desc, l->w, l->y_desc, l->y,
                               l->states, l->hy, l->states, l->cy, l->work, l->work_size, l->reserve, l->reserve_size));
}

static double logistic(double v) { return 1 / (1 + exp(-v)); }

/* The sum that a gate takes, by the addresses that the library names. */
static double gate_sum(const Layer *l, int layer, int id, int unit, const double *v) {
    int elements = 0, columns, k;
    size_t matrix = part(l->rnn, layer, l->x_desc[0], l->w_desc, l->w, id, 0, &elements) / 8;
    double sum = l->w[part(l->rnn, layer, l->x_desc[0], l->w_desc, l->w, id, 1, &columns) / 8 + (size_t)unit];
    columns = elements / HIDDEN;
    for (k = 0; k < columns; k++) sum += l->w[matrix + (size_t)(unit * columns + k)] * v[k];
    return sum;
}

/* The formulas of the documentation, one sequence after the other. */
static void plain_forward(const Layer *l, cudnnRNNMode_t cell, double *y) {
    int sequence, layer, t, k;
    for (sequence = 0; sequence < MOST; sequence++) {
        double h[LAYERS][HIDDEN], c[LAYERS][HIDDEN];
        size_t row = 0;
        for (layer = 0; layer < LAYERS; layer++) {
            for (k = 0; k < HIDDEN; k++) {
                h[layer][k] = l->hx[(layer * MOST + sequence) * HIDDEN + k];
                c[layer][k] = l->cx[(layer * MOST + sequence) * HIDDEN + k];
            }
        }
        for (t = 0; t < STEPS && sequence < batches[t]; row += (size_t)batches[t], t++) {
            const double *in = l->x + (row + (size_t)sequence) * INPUT;
            for (layer = 0; layer < LAYERS; layer++) {
                double next[HIDDEN];
                for (k = 0; k < HIDDEN; k++) {
                    if (cell == CUDNN_LSTM) {
                        double i = logistic(gate_sum(l, layer, 0, k, in) + gate_sum(l, layer, 4, k, h[layer]));
                        double f = logistic(gate_sum(l, layer, 1, k, in) + gate_sum(l, layer, 5, k, h[layer]));
                        double m = tanh(gate_sum(l, layer, 2, k, in) + gate_sum(l, layer, 6, k, h[layer]));
                        double o = logistic(gate_sum(l, layer, 3, k, in) + gate_sum(l, layer, 7, k, h[layer]));
                        c[layer][k] = f * c[layer][k] + i * m;
                        next[k] = o * tanh(c[layer][k]);
                    } else {
                        double r = logistic(gate_sum(l, layer, 0, k, in) + gate_sum(l, layer, 3, k, h[layer]));
                        double i = logistic(gate_sum(l, layer, 1, k, in) + gate_sum(l, layer, 4, k, h[layer]));
                        double m = tanh(gate_sum(l, layer, 2, k, in) + r * gate_sum(l, layer, 5, k, h[layer]));
                        next[k] = (1 - i) * m + i * h[layer][k];
                    }
                }
                memcpy(h[layer], next, sizeof next);
                in = h[layer];
            }
            memcpy(y + (row + (size_t)sequence) * HIDDEN, h[LAYERS - 1], sizeof h[0]);
        }
    }
}

/* A loss whose gradients by y, hy and cy are given. */
static double loss(Layer *l, const double *dy, const double *dhy, const double *dcy, int is_lstm) {
    double sum = 0;
    int k;
    forward(l);
    for (k = 0; k < ROWS * HIDDEN; k++) sum += l->y[k] * dy[k];
    for (k = 0; k < LAYERS * MOST * HIDDEN; k++) sum += l->hy[k] * dhy[k] + (is_lstm ? l->cy[k] * dcy[k] : 0);
    return sum;
}

static int near(double found, double wanted, double bound) { return fabs(found - wanted) <= bound * (1 + fabs(wanted)); }

/* Every gradient is what a small step of its value makes of the loss. */
static void check_gradient(Layer *l, double *values, size_t count, const double *gradient, const double *dy, const double *dhy,
                           const double *dcy, int is_lstm) {
    const double step = 1e-5;
    size_t k;
    for (k = 0; k < count; k++) {
        double value = values[k], up, down;
        values[k] = value + step;
        up = loss(l, dy, dhy, dcy, is_lstm);
        values[k] = value - step;
        down = loss(l, dy, dhy, dcy, is_lstm);
        values[k] = value;
        CHECK(near(gradient[k], (up - down) / (2 * step), 1e-6));
    }
}

/* OpenCV, ROOT: SetRNNDescriptor_v6, sizes, addresses, forward, gradients by the data, gradients by the weights, twice into the same dw. */
static void training(cudnnRNNMode_t cell) {
    enum { STATES = LAYERS * MOST * HIDDEN };
    static double y[ROWS * HIDDEN], dy[ROWS * HIDDEN], dhy[STATES], dcy[STATES], dx[ROWS * INPUT], dhx[STATES], dcx[STATES];
    int is_lstm = cell == CUDNN_LSTM, k;
    Layer l;
    double *dw, *twice;
    layer_new(&l, cell);
    for (k = 0; k < ROWS * HIDDEN; k++) dy[k] = some_number();
    for (k = 0; k < STATES; k++) dhy[k] = some_number(), dcy[k] = some_number();
    forward(&l);
    plain_forward(&l, cell, y);
    for (k = 0; k < ROWS * HIDDEN; k++) CHECK(near(l.y[k], y[k], 1e-13));
    dw = (double *)guarded_alloc(l.weights);
    twice = (double *)guarded_alloc(l.weights);
    memset(dw, 0, l.weights);
    memset(l.work, 0xff, l.work_size);
    OK(cudnnRNNBackwardData(handle, l.rnn, STEPS, l.y_desc, l.y, l.y_desc, dy, l.states, dhy, l.states, is_lstm ? dcy : NULL, l.w_desc, l.w,
                            l.states, l.hx, l.states, l.cx, l.x_desc, dx, l.states, dhx, l.states, is_lstm ? dcx : NULL, l.work,
                            l.work_size, l.reserve, l.reserve_size));
    memset(l.work, 0xff, l.work_size);
    OK(cudnnRNNBackwardWeights(handle, l.rnn, STEPS, l.x_desc, l.x, l.states, l.hx, l.y_desc, l.y, l.work, l.work_size, l.w_desc, dw,
                               l.reserve, l.reserve_size));
    memcpy(twice, dw, l.weights);
    memset(l.work, 0xff, l.work_size);
    OK(cudnnRNNBackwardWeights(handle, l.rnn, STEPS, l.x_desc, l.x, l.states, l.hx, l.y_desc, l.y, l.work, l.work_size, l.w_desc, twice,
                               l.reserve, l.reserve_size));
    for (k = 0; k < (int)(l.weights / 8); k++) CHECK(near(twice[k], 2 * dw[k], 1e-14));
    check_gradient(&l, l.x, ROWS * INPUT, dx, dy, dhy, dcy, is_lstm);
    check_gradient(&l, l.hx, STATES, dhx, dy, dhy, dcy, is_lstm);
    if (is_lstm) check_gradient(&l, l.cx, STATES, dcx, dy, dhy, dcy, is_lstm);
    check_gradient(&l, l.w, l.weights / 8, dw, dy, dhy, dcy, is_lstm);
    guarded_free(dw, l.weights);
    guarded_free(twice, l.weights);
    layer_free(&l);
}

/* Chainer sorts sequences by falling length and packs them: each has the outputs that it has alone, to the bit. */
static void packed(void) {
    Layer l;
    int sequence, t;
    layer_new(&l, CUDNN_LSTM);
    forward(&l);
    for (sequence = 0; sequence < MOST; sequence++) {
        cudnnTensorDescriptor_t one_x = tensor(CUDNN_DATA_DOUBLE, 1, INPUT, 1), one_y = tensor(CUDNN_DATA_DOUBLE, 1, HIDDEN, 1);
        cudnnTensorDescriptor_t x_desc[STEPS], y_desc[STEPS], states = tensor(CUDNN_DATA_DOUBLE, LAYERS, 1, HIDDEN);
        double x[STEPS * INPUT], y[STEPS * HIDDEN], hx[LAYERS * HIDDEN], cx[LAYERS * HIDDEN];
        size_t row = 0, size = 0;
        int steps = 0, layer;
        void *work;
        for (t = 0; t < STEPS && sequence < batches[t]; row += (size_t)batches[t], t++) {
            memcpy(x + t * INPUT, l.x + (row + (size_t)sequence) * INPUT, INPUT * sizeof *x);
            x_desc[t] = one_x;
            y_desc[t] = one_y;
            steps++;
        }
        for (layer = 0; layer < LAYERS; layer++) {
            memcpy(hx + layer * HIDDEN, l.hx + (layer * MOST + sequence) * HIDDEN, HIDDEN * sizeof *hx);
            memcpy(cx + layer * HIDDEN, l.cx + (layer * MOST + sequence) * HIDDEN, HIDDEN * sizeof *cx);
        }
        OK(cudnnGetRNNWorkspaceSize(handle, l.rnn, steps, x_desc, &size));
        CHECK(size <= l.work_size);
        work = guarded_alloc(size);
        OK(cudnnRNNForwardInference(handle, l.rnn, steps, x_desc, x, states, hx, states, cx, l.w_desc, l.w, y_desc, y, NULL, NULL, NULL, NULL,
                                    work, size));
        for (t = 0, row = 0; t < steps; row += (size_t)batches[t], t++) {
            CHECK(memcmp(y + t * HIDDEN, l.y + (row + (size_t)sequence) * HIDDEN, HIDDEN * sizeof *y) == 0);
        }
        guarded_free(work, size);
        OK(cudnnDestroyTensorDescriptor(one_x));
        OK(cudnnDestroyTensorDescriptor(one_y));
        OK(cudnnDestroyTensorDescriptor(states));
    }
    layer_free(&l);
}

/* TensorFlow makes a plan for persistent networks, and may search for an algorithm; nothing but the results of the search is written. */
static void searches(void) {
    cudnnAlgorithmPerformance_t found[2];
    cudnnAlgorithmDescriptor_t algorithm = NULL;
    cudnnAlgorithm_t number;
    cudnnPersistentRNNPlan_t plan = NULL;
    cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;
    float time = -1;
    size_t memory = 0, k;
    int count = 0, returned = 0;
    Layer l;
    layer_new(&l, CUDNN_GRU);
    OK(cudnnGetRNNForwardTrainingAlgorithmMaxCount(handle, l.rnn, &count));
    CHECK(count >= 1);
    OK(cudnnCreateAlgorithmPerformance(found, 2));
    memset(l.reserve, CHECK_FILL, l.reserve_size);
    memset(l.y, CHECK_FILL, sizeof l.y);
    memset(l.hy, CHECK_FILL, sizeof l.hy);
    OK(cudnnFindRNNForwardTrainingAlgorithmEx(handle, l.rnn, STEPS, l.x_desc, l.x, l.states, l.hx, NULL, NULL, l.w_desc, l.w, l.y_desc, l.y,
                                              l.states, l.hy, NULL, NULL, 1.0f, 2, &returned, found, l.work, l.work_size, l.reserve,
                                              l.reserve_size));
    CHECK(returned == 1);
    for (k = 0; k < l.reserve_size; k++) CHECK(((unsigned char *)l.reserve)[k] == CHECK_FILL);
    CHECK(all_filled(l.y, sizeof l.y) && all_filled(l.hy, sizeof l.hy));
    OK(cudnnGetAlgorithmPerformance(found[0], &algorithm, &status, &time, &memory));
    /* The original's calls are not measured: they write results. */
    CHECK(time >= 0 || (getenv("CUDNN_SHIM_ROUTE") != NULL && time == -1));
    CHECK(status == CUDNN_STATUS_SUCCESS && memory > 0 && memory <= l.work_size);
    OK(cudnnGetAlgorithmDescriptor(algorithm, &number));
    CHECK(number.algo.RNNAlgo == CUDNN_RNN_ALGO_STANDARD);
    OK(cudnnSetRNNAlgorithmDescriptor(handle, l.rnn, algorithm));
    OK(cudnnCreatePersistentRNNPlan(l.rnn, MOST, CUDNN_DATA_DOUBLE, &plan));
    OK(cudnnSetPersistentRNNPlan(l.rnn, plan));
    OK(cudnnDestroyPersistentRNNPlan(plan));
    BAD(cudnnSetPersistentRNNPlan(l.rnn, plan));
    BAD(cudnnFindRNNForwardInferenceAlgorithmEx(handle, l.rnn, STEPS, l.x_desc, l.x, l.states, l.hx, NULL, NULL, l.w_desc, l.w, l.y_desc,
                                                l.y, NULL, NULL, NULL, NULL, 1.0f, 0, &returned, found, l.work, l.work_size));
    OK(cudnnDestroyAlgorithmPerformance(found, 2));
    layer_free(&l);
}

int main(void) {
    OK(cudnnCreate(&handle));
    offsets();
    formula();
    training(CUDNN_LSTM);
    training(CUDNN_GRU);
    packed();
    searches();
    OK(cudnnDestroy(handle));
    return check_result("recurrent_clients");
}
