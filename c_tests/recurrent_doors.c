/* A recurrent network has three doors: the calls of version 8, those of version 6 on a tensor descriptor per time step, and the Ex
 * forms of version 6 on RNN data descriptors. The same problem has to come out of all of them with the same bits: outputs, states and all
 * gradients, with sequences in any order and with padding. Workspaces and reserve spaces have exactly the size that the library asked
 * for, lie between guards, and are full of NaNs. */
#include "recurrent.h"

enum { STEPS = 5, BATCH = 4, PIECES = 8 };

/* By falling length, and a place of each sequence in an order that is not sorted. */
static const int lengths[BATCH] = {5, 3, 3, 1};
static const int place[BATCH] = {2, 0, 3, 1};
static const int active[STEPS] = {4, 3, 3, 1, 1};
enum { ROWS = 12 };

typedef struct {
    cudnnRNNMode_t cell;
    cudnnRNNBiasMode_t bias;
    cudnnDirectionMode_t direction;
    cudnnRNNInputMode_t input_mode;
    cudnnDataType_t type, compute;
    int layers, input, hidden, projected, clips;
} Network;

static size_t element(cudnnDataType_t type) {
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_HALF ? 2 : 4;
}

static uint64_t random_state;

static uint32_t random_bits(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

/* Values between 1/8 and 1/4 of either sign. */
static void fill(void *data, cudnnDataType_t type, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        uint32_t bits = random_bits(), sign = bits & 1;
        double value = (0.125 + (double)(bits >> 8) / (double)(1 << 23) / 8) * (sign ? -1 : 1);
        if (type == CUDNN_DATA_DOUBLE) ((double *)data)[i] = value;
        if (type == CUDNN_DATA_FLOAT) ((float *)data)[i] = (float)value;
        if (type == CUDNN_DATA_HALF) ((uint16_t *)data)[i] = (uint16_t)(sign << 15 | 0x3000 | (bits >> 8 & 0x3ff));
    }
}

static void *some(cudnnDataType_t type, size_t count) {
    void *data = malloc(count * element(type) + 1);
    if (data == NULL) exit(2);
    fill(data, type, count);
    return data;
}

/* NaNs between guards. */
static void *nans(size_t size) {
    void *memory = guarded_alloc(size);
    memset(memory, 0xff, size);
    return memory;
}

/* What a door leaves: y, hy, cy, dx, dhx, dcx, dw, and y of inference. */
typedef struct {
    void *piece[PIECES];
    size_t size[PIECES];
} Results;

static void results_new(Results *results, const Network *net, size_t weights) {
    size_t e = element(net->type), d = net->direction == CUDNN_BIDIRECTIONAL ? 2 : 1, pseudo = (size_t)net->layers * d;
    size_t sizes[PIECES];
    int i;
    sizes[0] = sizes[7] = ROWS * d * (size_t)net->projected * e;
    sizes[1] = sizes[4] = pseudo * BATCH * (size_t)net->projected * e;
    sizes[2] = sizes[5] = pseudo * BATCH * (size_t)net->hidden * e;
    sizes[3] = ROWS * (size_t)net->input * e;
    sizes[6] = weights;
    for (i = 0; i < PIECES; i++) {
        results->size[i] = sizes[i];
        results->piece[i] = guarded_alloc(sizes[i]);
    }
}

static void results_free(Results *results) {
    int i;
    for (i = 0; i < PIECES; i++) guarded_free(results->piece[i], results->size[i]);
}

typedef struct {
    cudnnHandle_t handle;
    const Network *net;
    size_t weights;
    const void *x, *hx, *cx, *w, *dy, *dhy, *dcy, *dw;
} Problem;

static int directions(const Network *net) { return net->direction == CUDNN_BIDIRECTIONAL ? 2 : 1; }

static cudnnRNNDescriptor_t version_6(const Problem *p, int padded) {
    const Network *net = p->net;
    cudnnRNNDescriptor_t rnn;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v6(p->handle, rnn, net->hidden, net->layers, NULL, net->input_mode, net->direction, net->cell,
                                CUDNN_RNN_ALGO_STANDARD, net->compute));
    OK(cudnnSetRNNBiasMode(rnn, net->bias));
    OK(cudnnSetRNNProjectionLayers(p->handle, rnn, net->projected, 0));
    if (padded) OK(cudnnSetRNNPaddingMode(rnn, CUDNN_RNN_PADDED_IO_ENABLED));
    if (net->clips) OK(cudnnRNNSetClip(p->handle, rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_NOT_PROPAGATE_NAN, -0.0625, 0.0625));
    return rnn;
}

static void version_8_door(const Problem *p, Results *to) {
    const Network *net = p->net;
    int d = directions(net), pseudo = net->layers * d, is_lstm = net->cell == CUDNN_LSTM;
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t x_desc, y_desc;
    cudnnTensorDescriptor_t h = tensor(net->type, pseudo, BATCH, net->projected), c = tensor(net->type, pseudo, BATCH, net->hidden);
    size_t weights = 0, work_size = 0, inference_size = 0, reserve_size = 0;
    void *work, *reserve;
    OK(cudnnCreateRNNDescriptor(&rnn));
    OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, net->cell, net->bias, net->direction, net->input_mode, net->type,
                                net->compute, CUDNN_DEFAULT_MATH, net->input, net->hidden, net->projected, net->layers, NULL, 0));
    if (net->clips) OK(cudnnRNNSetClip_v8(rnn, CUDNN_RNN_CLIP_MINMAX, CUDNN_NOT_PROPAGATE_NAN, -0.0625, 0.0625));
    OK(cudnnGetRNNWeightSpaceSize(p->handle, rnn, &weights));
    CHECK(weights == p->weights);
    OK(cudnnCreateRNNDataDescriptor(&x_desc));
    OK(cudnnCreateRNNDataDescriptor(&y_desc));
    OK(cudnnSetRNNDataDescriptor(x_desc, net->type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, STEPS, BATCH, net->input, lengths, NULL));
    OK(cudnnSetRNNDataDescriptor(y_desc, net->type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, STEPS, BATCH, d * net->projected, lengths,
                                 NULL));
    OK(cudnnGetRNNTempSpaceSizes(p->handle, rnn, CUDNN_FWD_MODE_TRAINING, x_desc, &work_size, &reserve_size));
    OK(cudnnGetRNNTempSpaceSizes(p->handle, rnn, CUDNN_FWD_MODE_INFERENCE, x_desc, &inference_size, NULL));
    work = nans(inference_size);
    OK(cudnnRNNForward(p->handle, rnn, CUDNN_FWD_MODE_INFERENCE, NULL, x_desc, p->x, y_desc, to->piece[7], h, p->hx, NULL, c,
                       is_lstm ? p->cx : NULL, NULL, weights, p->w, inference_size, work, 0, NULL));
    guarded_free(work, inference_size);
    reserve = nans(reserve_size);
    work = nans(work_size);
    OK(cudnnRNNForward(p->handle, rnn, CUDNN_FWD_MODE_TRAINING, NULL, x_desc, p->x, y_desc, to->piece[0], h, p->hx, to->piece[1], c,
                       is_lstm ? p->cx : NULL, is_lstm ? to->piece[2] : NULL, weights, p->w, work_size, work, reserve_size, reserve));
    memset(work, 0xff, work_size);
    OK(cudnnRNNBackwardData_v8(p->handle, rnn, NULL, y_desc, to->piece[0], p->dy, x_desc, to->piece[3], h, p->hx, p->dhy, to->piece[4],
                               c, is_lstm ? p->cx : NULL, is_lstm ? p->dcy : NULL, is_lstm ? to->piece[5] : NULL, weights, p->w,
                               work_size, work, reserve_size, reserve));
    memset(work, 0xff, work_size);
    memcpy(to->piece[6], p->dw, weights);
    OK(cudnnRNNBackwardWeights_v8(p->handle, rnn, CUDNN_WGRAD_MODE_ADD, NULL, x_desc, p->x, h, p->hx, y_desc, to->piece[0], weights,
                                  to->piece[6], work_size, work, reserve_size, reserve));
    guarded_free(work, work_size);
    guarded_free(reserve, reserve_size);
    OK(cudnnDestroyRNNDataDescriptor(x_desc));
    OK(cudnnDestroyRNNDataDescriptor(y_desc));
    OK(cudnnDestroyTensorDescriptor(h));
    OK(cudnnDestroyTensorDescriptor(c));
    OK(cudnnDestroyRNNDescriptor(rnn));
}

/* The descriptors of all time steps; `whole` has the whole batch at each. */
static void steps_new(cudnnTensorDescriptor_t *steps, cudnnDataType_t type, int entries, int whole) {
    int t;
    for (t = 0; t < STEPS; t++) steps[t] = tensor(type, whole ? BATCH : active[t], entries, 1);
}

static void steps_free(cudnnTensorDescriptor_t *steps) {
    int t;
    for (t = 0; t < STEPS; t++) OK(cudnnDestroyTensorDescriptor(steps[t]));
}

static void version_6_door(const Problem *p, Results *to) {
    const Network *net = p->net;
    int d = directions(net), pseudo = net->layers * d, is_lstm = net->cell == CUDNN_LSTM;
    cudnnRNNDescriptor_t rnn = version_6(p, 0);
    cudnnTensorDescriptor_t x_desc[STEPS], y_desc[STEPS];
    cudnnTensorDescriptor_t h = tensor(net->type, pseudo, BATCH, net->projected), c = tensor(net->type, pseudo, BATCH, net->hidden);
    cudnnFilterDescriptor_t w_desc;
    size_t weights = 0, work_size = 0, reserve_size = 0;
    void *work, *reserve;
    steps_new(x_desc, net->type, net->input, 0);
    steps_new(y_desc, net->type, d * net->projected, 0);
    OK(cudnnGetRNNParamsSize(p->handle, rnn, x_desc[0], &weights, net->type));
    CHECK(weights == p->weights);
    w_desc = filter(net->type, weights / element(net->type));
    OK(cudnnGetRNNWorkspaceSize(p->handle, rnn, STEPS, x_desc, &work_size));
    OK(cudnnGetRNNTrainingReserveSize(p->handle, rnn, STEPS, x_desc, &reserve_size));
    work = nans(work_size);
    reserve = nans(reserve_size);
    OK(cudnnRNNForwardInference(p->handle, rnn, STEPS, x_desc, p->x, h, p->hx, c, is_lstm ? p->cx : NULL, w_desc, p->w, y_desc,
                                to->piece[7], NULL, NULL, NULL, NULL, work, work_size));
    memset(work, 0xff, work_size);
    OK(cudnnRNNForwardTraining(p->handle, rnn, STEPS, x_desc, p->x, h, p->hx, c, is_lstm ? p->cx : NULL, w_desc, p->w, y_desc,
                               to->piece[0], h, to->piece[1], c, is_lstm ? to->piece[2] : NULL, work, work_size, reserve, reserve_size));
    memset(work, 0xff, work_size);
    OK(cudnnRNNBackwardData(p->handle, rnn, STEPS, y_desc, to->piece[0], y_desc, p->dy, h, p->dhy, c, is_lstm ? p->dcy : NULL, w_desc,
                            p->w, h, p->hx, c, is_lstm ? p->cx : NULL, x_desc, to->piece[3], h, to->piece[4], c,
                            is_lstm ? to->piece[5] : NULL, work, work_size, reserve, reserve_size));
    memset(work, 0xff, work_size);
    memcpy(to->piece[6], p->dw, weights);
    OK(cudnnRNNBackwardWeights(p->handle, rnn, STEPS, x_desc, p->x, h, p->hx, y_desc, to->piece[0], work, work_size, w_desc,
                               to->piece[6], reserve, reserve_size));
    guarded_free(work, work_size);
    guarded_free(reserve, reserve_size);
    steps_free(x_desc);
    steps_free(y_desc);
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(h));
    OK(cudnnDestroyTensorDescriptor(c));
    OK(cudnnDestroyRNNDescriptor(rnn));
}

/* The row of a step of a sequence in the padded layouts. */
static size_t padded_row(int time_major, int step, int sequence) {
    return (size_t)(time_major ? step * BATCH + place[sequence] : place[sequence] * STEPS + step);
}

/* Moves vectors between the packed and a padded layout, to the padded one if `back` is 0. */
static void pad(char *padded, char *packed, size_t vector, int time_major, int back) {
    int step, sequence;
    for (step = 0; step < STEPS; step++) {
        for (sequence = 0; sequence < active[step]; sequence++, packed += vector) {
            char *there = padded + padded_row(time_major, step, sequence) * vector;
            if (back) memcpy(packed, there, vector);
            else memcpy(there, packed, vector);
        }
    }
}

/* Moves states between the sorted order and the other one. */
static void shuffle(char *shuffled, char *sorted, size_t vector, int pseudo, int back) {
    int layer, sequence;
    for (layer = 0; layer < pseudo; layer++) {
        for (sequence = 0; sequence < BATCH; sequence++) {
            char *there = shuffled + (size_t)(layer * BATCH + place[sequence]) * vector;
            char *here = sorted + (size_t)(layer * BATCH + sequence) * vector;
            if (back) memcpy(here, there, vector);
            else memcpy(there, here, vector);
        }
    }
}

/* What lies behind the ends of sequences: all bytes are this one. */
static int padding_is(const unsigned char *padded, size_t vector, int time_major, unsigned char byte) {
    int step, sequence;
    size_t k;
    for (sequence = 0; sequence < BATCH; sequence++) {
        for (step = lengths[sequence]; step < STEPS; step++) {
            const unsigned char *row = padded + padded_row(time_major, step, sequence) * vector;
            for (k = 0; k < vector; k++) {
                if (row[k] != byte) return 0;
            }
        }
    }
    return 1;
}

static void *padded_copy(const void *packed, size_t vector, int time_major) {
    char *padded = nans(STEPS * BATCH * vector);
    pad(padded, (char *)(uintptr_t)packed, vector, time_major, 0);
    return padded;
}

static void *shuffled_copy(const void *sorted, size_t vector, int pseudo) {
    char *shuffled = nans((size_t)pseudo * BATCH * vector);
    shuffle(shuffled, (char *)(uintptr_t)sorted, vector, pseudo, 0);
    return shuffled;
}

static void version_6_ex_door(const Problem *p, int time_major, Results *to) {
    const Network *net = p->net;
    int d = directions(net), pseudo = net->layers * d, is_lstm = net->cell == CUDNN_LSTM, sequence, shuffled_lengths[BATCH];
    size_t e = element(net->type), in = (size_t)net->input * e, out = (size_t)(d * net->projected) * e;
    size_t hv = (size_t)net->projected * e, cv = (size_t)net->hidden * e, rows = STEPS * BATCH, states = (size_t)pseudo * BATCH;
    cudnnRNNDescriptor_t rnn = version_6(p, 1);
    cudnnRNNDataDescriptor_t x_desc, y_desc;
    cudnnTensorDescriptor_t steps[STEPS];
    cudnnTensorDescriptor_t h = tensor(net->type, pseudo, BATCH, net->projected), c = tensor(net->type, pseudo, BATCH, net->hidden);
    cudnnFilterDescriptor_t w_desc = filter(net->type, p->weights / e);
    cudnnRNNDataLayout_t layout = time_major ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED : CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
    size_t work_size = 0, reserve_size = 0;
    void *work, *reserve, *x = padded_copy(p->x, in, time_major), *dy = padded_copy(p->dy, out, time_major);
    void *hx = shuffled_copy(p->hx, hv, pseudo), *dhy = shuffled_copy(p->dhy, hv, pseudo), *cx = NULL, *dcy = NULL, *cy = NULL, *dcx = NULL;
    void *y = guarded_alloc(rows * out), *inferred = guarded_alloc(rows * out), *dx = guarded_alloc(rows * in);
    void *hy = guarded_alloc(states * hv), *dhx = guarded_alloc(states * hv);
    if (is_lstm) {
        cx = shuffled_copy(p->cx, cv, pseudo);
        dcy = shuffled_copy(p->dcy, cv, pseudo);
        cy = guarded_alloc(states * cv);
        dcx = guarded_alloc(states * cv);
    }
    for (sequence = 0; sequence < BATCH; sequence++) shuffled_lengths[place[sequence]] = lengths[sequence];
    OK(cudnnCreateRNNDataDescriptor(&x_desc));
    OK(cudnnCreateRNNDataDescriptor(&y_desc));
    OK(cudnnSetRNNDataDescriptor(x_desc, net->type, layout, STEPS, BATCH, net->input, shuffled_lengths, NULL));
    OK(cudnnSetRNNDataDescriptor(y_desc, net->type, layout, STEPS, BATCH, d * net->projected, shuffled_lengths, NULL));
    /* Sizes come from arrays here, too: of the whole batch at each time step. */
    steps_new(steps, net->type, net->input, 1);
    OK(cudnnGetRNNWorkspaceSize(p->handle, rnn, STEPS, steps, &work_size));
    OK(cudnnGetRNNTrainingReserveSize(p->handle, rnn, STEPS, steps, &reserve_size));
    steps_free(steps);
    work = nans(work_size);
    reserve = nans(reserve_size);
    OK(cudnnRNNForwardInferenceEx(p->handle, rnn, x_desc, x, h, hx, c, cx, w_desc, p->w, y_desc, inferred, NULL, NULL, NULL, NULL, NULL,
                                  NULL, NULL, NULL, NULL, NULL, NULL, NULL, work, work_size));
    memset(work, 0xff, work_size);
    OK(cudnnRNNForwardTrainingEx(p->handle, rnn, x_desc, x, h, hx, c, cx, w_desc, p->w, y_desc, y, h, hy, c, cy, NULL, NULL, NULL, NULL,
                                 NULL, NULL, NULL, NULL, work, work_size, reserve, reserve_size));
    memset(work, 0xff, work_size);
    OK(cudnnRNNBackwardDataEx(p->handle, rnn, y_desc, y, y_desc, dy, NULL, NULL, h, dhy, c, dcy, w_desc, p->w, h, hx, c, cx, x_desc, dx, h,
                              dhx, c, dcx, NULL, NULL, work, work_size, reserve, reserve_size));
    memset(work, 0xff, work_size);
    memcpy(to->piece[6], p->dw, p->weights);
    OK(cudnnRNNBackwardWeightsEx(p->handle, rnn, x_desc, x, h, hx, y_desc, y, work, work_size, w_desc, to->piece[6], reserve,
                                 reserve_size));
    /* Without a fill y keeps what is behind the ends; gradients are zeros there. */
    CHECK(padding_is(y, out, time_major, CHECK_FILL));
    CHECK(padding_is(inferred, out, time_major, CHECK_FILL));
    CHECK(padding_is(dx, in, time_major, 0));
    if (net->input_mode == CUDNN_SKIP_INPUT) {
        /* Version 6 does not compare the size of these gradients with the network: what it does not read has none. */
        int wider;
        for (wider = -1; wider <= 1; wider += 2) {
            const size_t room = work_size + 4096, kept = reserve_size + 4096, other = in + (size_t)wider * e;
            void *more = nans(room), *keeps = nans(kept), *gradient = guarded_alloc(rows * other), *state = guarded_alloc(states * hv);
            cudnnRNNDataDescriptor_t desc;
            size_t row, k;
            OK(cudnnCreateRNNDataDescriptor(&desc));
            OK(cudnnSetRNNDataDescriptor(desc, net->type, layout, STEPS, BATCH, net->input + wider, shuffled_lengths, NULL));
            OK(cudnnRNNForwardTrainingEx(p->handle, rnn, x_desc, x, h, hx, c, cx, w_desc, p->w, y_desc, y, h, hy, c, cy, NULL, NULL, NULL,
                                         NULL, NULL, NULL, NULL, NULL, more, room, keeps, kept));
            OK(cudnnRNNBackwardDataEx(p->handle, rnn, y_desc, y, y_desc, dy, NULL, NULL, h, dhy, c, dcy, w_desc, p->w, h, hx, c, cx, desc,
                                      gradient, h, state, c, NULL, NULL, NULL, more, room, keeps, kept));
            for (row = 0; row < rows; row++) {
                const unsigned char *got = (unsigned char *)gradient + row * other;
                CHECK(memcmp(got, (char *)dx + row * in, other < in ? other : in) == 0);
                for (k = in; k < other; k++) CHECK(got[k] == 0);
            }
            CHECK(memcmp(state, dhx, states * hv) == 0);
            OK(cudnnDestroyRNNDataDescriptor(desc));
            guarded_free(state, states * hv), guarded_free(gradient, rows * other);
            guarded_free(keeps, kept), guarded_free(more, room);
        }
    }
    pad(y, to->piece[0], out, time_major, 1);
    pad(inferred, to->piece[7], out, time_major, 1);
    pad(dx, to->piece[3], in, time_major, 1);
    shuffle(hy, to->piece[1], hv, pseudo, 1);
    shuffle(dhx, to->piece[4], hv, pseudo, 1);
    if (is_lstm) {
        shuffle(cy, to->piece[2], cv, pseudo, 1);
        shuffle(dcx, to->piece[5], cv, pseudo, 1);
        guarded_free(cx, states * cv);
        guarded_free(dcy, states * cv);
        guarded_free(cy, states * cv);
        guarded_free(dcx, states * cv);
    }
    guarded_free(work, work_size);
    guarded_free(reserve, reserve_size);
    guarded_free(x, rows * in);
    guarded_free(dy, rows * out);
    guarded_free(hx, states * hv);
    guarded_free(dhy, states * hv);
    guarded_free(y, rows * out);
    guarded_free(inferred, rows * out);
    guarded_free(dx, rows * in);
    guarded_free(hy, states * hv);
    guarded_free(dhx, states * hv);
    OK(cudnnDestroyRNNDataDescriptor(x_desc));
    OK(cudnnDestroyRNNDataDescriptor(y_desc));
    OK(cudnnDestroyFilterDescriptor(w_desc));
    OK(cudnnDestroyTensorDescriptor(h));
    OK(cudnnDestroyTensorDescriptor(c));
    OK(cudnnDestroyRNNDescriptor(rnn));
}

static void compare(const Network *net, const char *door, const Results *a, const Results *b) {
    static const char *const names[PIECES] = {"y", "hy", "cy", "dx", "dhx", "dcx", "dw", "y of inference"};
    int i;
    for (i = 0; i < PIECES; i++) {
        if (memcmp(a->piece[i], b->piece[i], a->size[i]) != 0) {
            fprintf(stderr, "%s: %s differs (cell %d, bias %d, directions %d, layers %d, type %d, %d of %d)\n", door, names[i],
                    (int)net->cell, (int)net->bias, directions(net), net->layers, (int)net->type, net->projected, net->hidden);
            check_failures++;
        }
    }
}

static void through_all_doors(cudnnHandle_t handle, const Network *net) {
    int d = directions(net), pseudo = net->layers * d;
    size_t states = (size_t)pseudo * BATCH;
    Problem p;
    Results version_8, version_6_steps, version_6_ex;
    cudnnTensorDescriptor_t x_desc = tensor(net->type, BATCH, net->input, 1);
    cudnnRNNDescriptor_t rnn;
    void *all[8];
    int i;
    p.handle = handle;
    p.net = net;
    rnn = version_6(&p, 0);
    OK(cudnnGetRNNParamsSize(handle, rnn, x_desc, &p.weights, net->type));
    OK(cudnnDestroyRNNDescriptor(rnn));
    OK(cudnnDestroyTensorDescriptor(x_desc));
    p.x = all[0] = some(net->type, (size_t)ROWS * (size_t)net->input);
    p.hx = all[1] = some(net->type, states * (size_t)net->projected);
    p.cx = all[2] = some(net->type, states * (size_t)net->hidden);
    p.w = all[3] = some(net->type, p.weights / element(net->type));
    p.dy = all[4] = some(net->type, (size_t)ROWS * (size_t)(d * net->projected));
    p.dhy = all[5] = some(net->type, states * (size_t)net->projected);
    p.dcy = all[6] = some(net->type, states * (size_t)net->hidden);
    p.dw = all[7] = some(net->type, p.weights / element(net->type));
    results_new(&version_8, net, p.weights);
    results_new(&version_6_steps, net, p.weights);
    version_8_door(&p, &version_8);
    version_6_door(&p, &version_6_steps);
    compare(net, "version 6", &version_8, &version_6_steps);
    /* Without dropout training computes what inference does. */
    CHECK(memcmp(version_8.piece[0], version_8.piece[7], version_8.size[0]) == 0);
    for (i = 0; i < 2; i++) {
        results_new(&version_6_ex, net, p.weights);
        version_6_ex_door(&p, i, &version_6_ex);
        compare(net, i ? "version 6 Ex, time-major" : "version 6 Ex, batch-major", &version_8, &version_6_ex);
        results_free(&version_6_ex);
    }
    results_free(&version_8);
    results_free(&version_6_steps);
    for (i = 0; i < 8; i++) free(all[i]);
}

int main(void) {
    cudnnHandle_t handle;
    int cell, bias, both;
    OK(cudnnCreate(&handle));
    for (cell = 0; cell < 4; cell++) {
        for (bias = 0; bias < 4; bias++) {
            for (both = 0; both < 2; both++) {
                Network net = {CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
                               CUDNN_DATA_FLOAT, 2, 5, 6, 6, 0};
                net.cell = (cudnnRNNMode_t)cell;
                net.bias = (cudnnRNNBiasMode_t)bias;
                net.direction = both ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL;
                net.layers = 1 + (cell + bias) % 3;
                through_all_doors(handle, &net);
                if (cell == 2 && bias == 2) {
                    net.clips = 1;
                    through_all_doors(handle, &net);
                    net.projected = 4;
                    through_all_doors(handle, &net);
                }
                if (bias == 2) {
                    net.type = net.compute = CUDNN_DATA_DOUBLE;
                    through_all_doors(handle, &net);
                    net.type = CUDNN_DATA_HALF;
                    net.compute = CUDNN_DATA_FLOAT;
                    through_all_doors(handle, &net);
                    net.type = net.compute = CUDNN_DATA_FLOAT;
                    net.clips = 0;
                    net.projected = net.hidden = net.input;
                    net.input_mode = CUDNN_SKIP_INPUT;
                    through_all_doors(handle, &net);
                }
            }
        }
    }
    OK(cudnnDestroy(handle));
    return check_result("recurrent_doors");
}
