/* Words of CUDA that mean nothing to a compiler for hosts. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_HOST_DEFINES_H
#define CUDNN_SHIM_HOST_DEFINES_H

#define __host__
#define __device__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#ifndef __CUDACC__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#endif
#define CUDARTAPI
#define CUDART_CB

#endif
