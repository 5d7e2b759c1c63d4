/* What programs of the runtime want of the driver's header: its version, and types that both share. There is no driver;
 * its functions are not declared. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CUDA_H
#define CUDNN_SHIM_CUDA_H

#define CUDA_VERSION 12090

typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUctx_st *CUcontext;
typedef struct CUfunc_st *CUfunction;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;

#endif
