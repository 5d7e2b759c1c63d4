/* The interface of cuBLAS without handles is not built: this is the one with handles. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CUBLAS_H
#define CUDNN_SHIM_CUBLAS_H

#include "cublas_v2.h"

#endif
