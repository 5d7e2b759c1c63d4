/* cuRAND's generators inside kernels, for C++ that a compiler for hosts sees as well: the functions run on the host. Part of cudnn-shim.
 *
 * Every generator draws from Philox4x32-10, by seed, subsequence and position; that of curandStatePhilox4_32_10_t is the published one.
 * Quasi-random and Mersenne generators are not here.
 */
#ifndef CUDNN_SHIM_CURAND_KERNEL_H
#define CUDNN_SHIM_CURAND_KERNEL_H

#include <math.h>

#include "cuda_runtime.h"
#include "curand.h"

#ifdef __cplusplus

#ifndef QUALIFIERS
#define QUALIFIERS static inline
#endif

/* Where a sequence is, and the second number of a pair of normal ones that is left. */
struct CudnnShimRandomState {
  unsigned long long seed, subsequence, position;
  double left;
  int has_left;
};

struct curandStateXORWOW : CudnnShimRandomState {};
struct curandStateMRG32k3a : CudnnShimRandomState {};
struct curandStatePhilox4_32_10 : CudnnShimRandomState {};
typedef struct curandStateXORWOW curandStateXORWOW_t;
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
typedef struct curandStateXORWOW curandState_t;
typedef struct curandStateXORWOW curandState;

/* Four words of Philox4x32-10 (Salmon and others, 2011): block `at` of a subsequence. */
QUALIFIERS uint4 cudnnShimPhilox(unsigned long long seed, unsigned long long subsequence, unsigned long long at) {
  unsigned int counter[4] = {(unsigned int)at, (unsigned int)(at >> 32), (unsigned int)subsequence,
                             (unsigned int)(subsequence >> 32)};
  unsigned int key[2] = {(unsigned int)seed, (unsigned int)(seed >> 32)};
  for (int round = 0; round < 10; round++) {
    const unsigned long long first = 0xD2511F53ULL * counter[0], second = 0xCD9E8D57ULL * counter[2];
    counter[0] = (unsigned int)(second >> 32) ^ counter[1] ^ key[0];
    counter[1] = (unsigned int)second;
    counter[2] = (unsigned int)(first >> 32) ^ counter[3] ^ key[1];
    counter[3] = (unsigned int)first;
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return make_uint4(counter[0], counter[1], counter[2], counter[3]);
}

/* The start of a subsequence of a seed, `offset` words on. */
QUALIFIERS void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                            CudnnShimRandomState *state) {
  state->seed = seed;
  state->subsequence = subsequence;
  state->position = offset;
  state->left = 0;
  state->has_left = 0;
}

/* Leaves out `n` words. */
QUALIFIERS void skipahead(unsigned long long n, CudnnShimRandomState *state) {
  state->position += n;
  state->has_left = 0;
}

/* Leaves out `n` subsequences. */
QUALIFIERS void skipahead_sequence(unsigned long long n, CudnnShimRandomState *state) {
  state->subsequence += n;
  state->has_left = 0;
}

/* 32 random bits. */
QUALIFIERS unsigned int curand(CudnnShimRandomState *state) {
  const uint4 block = cudnnShimPhilox(state->seed, state->subsequence, state->position / 4);
  switch (state->position++ % 4) {
    case 0: return block.x;
    case 1: return block.y;
    case 2: return block.z;
    default: return block.w;
  }
}

/* Four times as much. */
QUALIFIERS uint4 curand4(CudnnShimRandomState *state) {
  uint4 words;
  words.x = curand(state);
  words.y = curand(state);
  words.z = curand(state);
  words.w = curand(state);
  return words;
}

/* Above 0, and at most 1. */
QUALIFIERS float curand_uniform(CudnnShimRandomState *state) { return (float)((curand(state) >> 8) + 1) / 16777216.0f; }

QUALIFIERS double curand_uniform_double(CudnnShimRandomState *state) {
  const unsigned long long low = curand(state), high = curand(state);
  return (double)(((high << 32 | low) >> 11) + 1) / 9007199254740992.0;
}

QUALIFIERS float4 curand_uniform4(CudnnShimRandomState *state) {
  float4 numbers;
  numbers.x = curand_uniform(state);
  numbers.y = curand_uniform(state);
  numbers.z = curand_uniform(state);
  numbers.w = curand_uniform(state);
  return numbers;
}

QUALIFIERS double2 curand_uniform2_double(CudnnShimRandomState *state) {
  double2 numbers;
  numbers.x = curand_uniform_double(state);
  numbers.y = curand_uniform_double(state);
  return numbers;
}

/* Two normal numbers by Box and Muller. */
QUALIFIERS double2 curand_normal2_double(CudnnShimRandomState *state) {
  const double u = curand_uniform_double(state), v = curand_uniform_double(state);
  const double radius = sqrt(-2 * log(u)), angle = 6.283185307179586 * v;
  return make_double2(radius * cos(angle), radius * sin(angle));
}

QUALIFIERS double curand_normal_double(CudnnShimRandomState *state) {
  if (state->has_left) {
    state->has_left = 0;
    return state->left;
  }
  const double2 pair = curand_normal2_double(state);
  state->left = pair.y;
  state->has_left = 1;
  return pair.x;
}

QUALIFIERS float curand_normal(CudnnShimRandomState *state) { return (float)curand_normal_double(state); }

QUALIFIERS float2 curand_normal2(CudnnShimRandomState *state) {
  const double2 pair = curand_normal2_double(state);
  return make_float2((float)pair.x, (float)pair.y);
}

QUALIFIERS float4 curand_normal4(CudnnShimRandomState *state) {
  const float2 first = curand_normal2(state), second = curand_normal2(state);
  return make_float4(first.x, first.y, second.x, second.y);
}

/* Numbers whose logarithms are normal. */
QUALIFIERS double curand_log_normal_double(CudnnShimRandomState *state, double mean, double stddev) {
  return exp(mean + stddev * curand_normal_double(state));
}

QUALIFIERS float curand_log_normal(CudnnShimRandomState *state, float mean, float stddev) {
  return (float)curand_log_normal_double(state, mean, stddev);
}

QUALIFIERS float2 curand_log_normal2(CudnnShimRandomState *state, float mean, float stddev) {
  const float first = curand_log_normal(state, mean, stddev);
  return make_float2(first, curand_log_normal(state, mean, stddev));
}

/* A Poisson number: how many arrivals there are before the time `lambda`. */
QUALIFIERS unsigned int curand_poisson(CudnnShimRandomState *state, double lambda) {
  unsigned int arrivals = 0;
  for (double time = -log(curand_uniform_double(state)); time < lambda; time -= log(curand_uniform_double(state))) arrivals++;
  return arrivals;
}

#endif

#endif
