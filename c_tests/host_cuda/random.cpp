// cuRAND's generators inside kernels, on the host: the published words of Philox4x32-10, positions, and the moments of each distribution.
#include <curand_kernel.h>

#include <cmath>
#include <functional>

#include "check.h"

template <class T>
__global__ void compiles(T *state, float *out) {
  out[0] = curand_uniform(state);
}

// Mean and variance of many numbers.
static void moments(const std::function<double()> &draw, double mean, double variance) {
  const int count = 50000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; i++) {
    const double value = draw();
    sum += value - mean;
    squares += (value - mean) * (value - mean);
  }
  EXPECT(std::fabs(sum / count) < 5 * std::sqrt(variance / count));
  EXPECT(std::fabs(squares / count / variance - 1) < 0.1);
}

template <class State>
static void check() {
  State state, other;
  // `n` words on, by drawing, by skipping and from the start.
  for (unsigned n = 0; n < 9; n++) {
    curand_init(7, 3, 0, &state);
    for (unsigned i = 0; i < n; i++) curand(&state);
    curand_init(7, 3, n, &other);
    const unsigned word = curand(&other);
    EXPECT(curand(&state) == word);
    curand_init(7, 2, 0, &state);
    skipahead_sequence(1, &state);
    skipahead(n, &state);
    EXPECT(curand(&state) == word);
    curand_init(7, 2, n, &state);
    EXPECT(curand(&state) != word);
    curand_init(8, 3, n, &state);
    EXPECT(curand(&state) != word);
  }
  const double e = std::exp(1.0);
  moments([&] { return curand_uniform(&state); }, 0.5, 1 / 12.0);
  moments([&] { return curand_uniform_double(&state); }, 0.5, 1 / 12.0);
  moments([&] { return curand_uniform4(&state).z; }, 0.5, 1 / 12.0);
  moments([&] { return curand_normal(&state); }, 0, 1);
  moments([&] { return curand_normal_double(&state); }, 0, 1);
  moments([&] { return curand_normal2(&state).y; }, 0, 1);
  moments([&] { return curand_normal4(&state).w; }, 0, 1);
  moments([&] { return std::log(curand_log_normal(&state, 2, 3)); }, 2, 9);
  moments([&] { return curand_log_normal_double(&state, 0, 0.5); }, std::pow(e, 0.125), std::pow(e, 0.25) * (std::pow(e, 0.25) - 1));
  moments([&] { return curand_poisson(&state, 0.5); }, 0.5, 0.5);
  moments([&] { return curand_poisson(&state, 20); }, 20, 20);
}

int main() {
  // The test vectors of the authors of Philox: all zeros, and all ones.
  curandStatePhilox4_32_10_t philox;
  curand_init(0, 0, 0, &philox);
  const uint4 zeros = curand4(&philox);
  EXPECT(zeros.x == 0x6627e8d5 && zeros.y == 0xe169c58d && zeros.z == 0xbc57ac4c && zeros.w == 0x9b00dbd8);
  const uint4 ones = cudnnShimPhilox(~0ULL, ~0ULL, ~0ULL);
  EXPECT(ones.x == 0x408f276d && ones.y == 0x41c83b0e && ones.z == 0xa20bc7c6 && ones.w == 0x6d5451fd);
  check<curandState>();
  check<curandStatePhilox4_32_10_t>();
  check<curandStateMRG32k3a_t>();
  float out = 0;
  curandState_t state;
  curand_init(1, 2, 3, &state);
  compiles(&state, &out);
  EXPECT(out > 0 && out <= 1);
  return 0;
}
