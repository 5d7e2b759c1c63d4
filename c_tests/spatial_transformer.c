/* Spatial transformers as programs call them: the grid of an affine map, sampling, both gradients against loops as they are
 * written down, the same bits in every run, and bad input that writes nothing. */
#include "check.h"
#include "data.h"

#include <math.h>

enum { N = 2, C = 3, H = 5, W = 7, P = 4, Q = 6 };
enum { PIXELS = N * C * H * W, SAMPLES = N * C * P * Q, PLACES = N * P * Q * 2, MAPS = N * 6 };

static float x[PIXELS], dy[SAMPLES], theta[MAPS], grid[PLACES];
static double y[SAMPLES], dx[PIXELS], dgrid[PLACES], dtheta[MAPS];

static double coordinate(int i, int n) { return 2.0 * i / (n - 1) - 1; }

/* What the calls compute. A pixel's weight falls from 1 to 0 over the distance of one pixel, along both axes. */
static void reference(void) {
    for (int n = 0; n < N; n++)
        for (int place = 0; place < P * Q; place++) {
            const int at = (n * P * Q + place) * 2;
            const double u = (grid[at] + 1.0) * (W - 1) / 2, v = (grid[at + 1] + 1.0) * (H - 1) / 2;
            for (int h = 0; h < H; h++)
                for (int w = 0; w < W; w++) {
                    const double across = u - w, down = v - h;
                    if (fabs(across) >= 1 || fabs(down) >= 1) continue;
                    for (int c = 0; c < C; c++) {
                        const int pixel = ((n * C + c) * H + h) * W + w, sample = (n * C + c) * P * Q + place;
                        const double weight = (1 - fabs(across)) * (1 - fabs(down));
                        y[sample] += weight * x[pixel];
                        dx[pixel] += weight * dy[sample];
                        dgrid[at] += (across < 0 ? 1 : -1) * (1 - fabs(down)) * (W - 1) / 2 * x[pixel] * dy[sample];
                        dgrid[at + 1] += (down < 0 ? 1 : -1) * (1 - fabs(across)) * (H - 1) / 2 * x[pixel] * dy[sample];
                    }
                }
            for (int i = 0; i < 2; i++) {
                double *map = dtheta + (n * 2 + i) * 3;
                map[0] += dgrid[at + i] * coordinate(place % Q, Q);
                map[1] += dgrid[at + i] * coordinate(place / Q, P);
                map[2] += dgrid[at + i];
            }
        }
}

static void near(const float *got, const double *want, double factor, int count, int line) {
    for (int i = 0; i < count; i++) {
        if (fabs(got[i] - factor * want[i]) <= 1e-4 * (1 + fabs(want[i]))) continue;
        fprintf(stderr, "line %d: %g instead of %g at %d\n", line, got[i], factor * want[i], i);
        check_failures++;
        return;
    }
}

int main(void) {
    cudnnHandle_t handle;
    cudnnSpatialTransformerDescriptor_t st, flat;
    cudnnTensorDescriptor_t x_desc, y_desc;
    const int dims[4] = { N, C, P, Q };
    const float one = 1, zero = 0, two = 2;
    float host[PIXELS], again[PIXELS];
    void *device[8];

    for (int i = 0; i < PIXELS; i++) x[i] = (float)(i * 5 % 17 - 8) / 4;
    for (int i = 0; i < SAMPLES; i++) dy[i] = (float)(i * 7 % 13 - 6) / 2;
    /* No place lies at a pixel, where slopes jump. */
    for (int i = 0; i < MAPS; i++) theta[i] = (float)(i * 11 % 19 - 9) / 9.7f + 0.013f;
    OK(cudnnCreate(&handle));
    OK(cudnnCreateSpatialTransformerDescriptor(&st));
    OK(cudnnCreateSpatialTransformerDescriptor(&flat));
    OK(cudnnCreateTensorDescriptor(&x_desc));
    OK(cudnnCreateTensorDescriptor(&y_desc));
    OK(cudnnSetSpatialTransformerNdDescriptor(st, CUDNN_SAMPLER_BILINEAR, CUDNN_DATA_FLOAT, 4, dims));
    OK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, H, W));
    OK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, N, C, P, Q));

    void *d_theta = device[0] = data_new(theta, sizeof theta), *d_grid = device[1] = data_new(NULL, sizeof grid);
    void *d_x = device[2] = data_new(x, sizeof x), *d_y = device[3] = data_new(NULL, sizeof dy);
    void *d_dy = device[4] = data_new(dy, sizeof dy), *d_dx = device[5] = data_new(NULL, sizeof x);
    void *d_dgrid = device[6] = data_new(NULL, sizeof grid), *d_dtheta = device[7] = data_new(NULL, sizeof theta);

    OK(cudnnSpatialTfGridGeneratorForward(handle, st, d_theta, d_grid));
    data_read(grid, d_grid, sizeof grid);
    for (int i = 0; i < PLACES; i++) {
        const int place = i / 2 % (P * Q);
        const float *map = theta + (i / (2 * P * Q) * 2 + i % 2) * 3;
        const double want = map[0] * coordinate(place % Q, Q) + map[1] * coordinate(place / Q, P) + map[2];
        CHECK(fabs(grid[i] - want) < 1e-6);
    }
    reference();
    OK(cudnnSpatialTfSamplerForward(handle, st, &two, x_desc, d_x, d_grid, &zero, y_desc, d_y));
    data_read(host, d_y, sizeof dy);
    near(host, y, 2, SAMPLES, __LINE__);
    OK(cudnnSpatialTfSamplerForward(handle, st, &two, x_desc, d_x, d_grid, &one, y_desc, d_y));
    data_read(host, d_y, sizeof dy);
    near(host, y, 4, SAMPLES, __LINE__);

    OK(cudnnSpatialTfSamplerBackward(handle, st, &one, x_desc, d_x, &zero, x_desc, d_dx, &one, y_desc, d_dy, d_grid,
                                     &zero, d_dgrid));
    data_read(host, d_dx, sizeof x);
    near(host, dx, 1, PIXELS, __LINE__);
    for (int turn = 0; turn < 3; turn++) {
        OK(cudnnSpatialTfSamplerBackward(handle, st, &one, x_desc, d_x, &zero, x_desc, d_dx, &one, y_desc, d_dy, d_grid,
                                         &zero, d_dgrid));
        data_read(again, d_dx, sizeof x);
        CHECK(memcmp(host, again, sizeof x) == 0);
    }
    OK(cudnnSpatialTfGridGeneratorBackward(handle, st, d_dgrid, d_dtheta));
    data_read(host, d_dgrid, sizeof grid);
    near(host, dgrid, 1, PLACES, __LINE__);
    data_read(host, d_dtheta, sizeof theta);
    near(host, dtheta, 1, MAPS, __LINE__);

    /* Refused, and nothing is written. */
    data_read(host, d_dx, sizeof x);
    BAD(cudnnSpatialTfSamplerBackward(handle, st, &one, x_desc, d_x, &zero, x_desc, d_dx, &one, x_desc, d_dy, d_grid,
                                      &zero, d_dgrid));
    BAD(cudnnSpatialTfSamplerBackward(handle, st, &one, x_desc, d_x, &zero, x_desc, d_dx, NULL, y_desc, d_dy, d_grid,
                                      &zero, d_dgrid));
    BAD(cudnnSpatialTfSamplerForward(handle, st, &one, y_desc, d_x, d_grid, &zero, x_desc, d_dx));
    BAD(cudnnSpatialTfSamplerForward(handle, st, &one, x_desc, NULL, d_grid, &zero, y_desc, d_y));
    BAD(cudnnSpatialTfGridGeneratorForward(NULL, st, d_theta, d_grid));
    EXPECT(CUDNN_STATUS_NOT_SUPPORTED, cudnnSpatialTfGridGeneratorForward(handle, flat, d_theta, d_grid));
    data_read(again, d_dx, sizeof x);
    CHECK(memcmp(host, again, sizeof x) == 0);

    for (int i = 0; i < 8; i++) data_free(device[i]);
    OK(cudnnDestroyTensorDescriptor(x_desc));
    OK(cudnnDestroyTensorDescriptor(y_desc));
    OK(cudnnDestroySpatialTransformerDescriptor(st));
    OK(cudnnDestroySpatialTransformerDescriptor(flat));
    OK(cudnnDestroy(handle));
    return check_result("spatial_transformer");
}
