/* Expectations of the programs about CUDA on host memory. */
#ifndef HOST_CUDA_CHECK_H
#define HOST_CUDA_CHECK_H

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                         \
  do {                                                                                                            \
    if (!(condition)) {                                                                                           \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                     \
      exit(1);                                                                                                    \
    }                                                                                                             \
  } while (0)

#define ANSWERS(status, call)                                                                                     \
  do {                                                                                                            \
    const cudaError_t answer = (call);                                                                            \
    if (answer != (status)) {                                                                                     \
      fprintf(stderr, "%s:%d: %s answers %s (%d), not %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(answer), \
              (int)answer, cudaGetErrorName(status));                                                             \
      exit(1);                                                                                                    \
    }                                                                                                             \
  } while (0)

#define OK(call) ANSWERS(cudaSuccess, call)

#endif
