/* What the headers of the real runtime need of the compiler's, which their package does not bring. */
#ifndef HOST_CUDA_TEST_HOST_DEFINES_H
#define HOST_CUDA_TEST_HOST_DEFINES_H

#define __host__
#define __device__
#define __global__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __specialization_static static
#define __location__(a)
#define __forceinline__ inline
#define __inline__ inline

#endif
