/* Stands in for the CUDA runtime's header: the names that cudnn.h takes from it. */
#ifndef __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_API_H__
#define STAND_IN_CUDA_RUNTIME_API_H
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;
#endif
