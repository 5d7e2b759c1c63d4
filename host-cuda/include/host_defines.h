/* Words of CUDA that mean nothing to a compiler for hosts. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_HOST_DEFINES_H
#define CUDNN_SHIM_HOST_DEFINES_H

#define __host__
#define __device__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define CUDARTAPI
#define CUDART_CB

#endif
