/* The runtime inside kernels, of which the host calls nothing. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CUDA_DEVICE_RUNTIME_API_H
#define CUDNN_SHIM_CUDA_DEVICE_RUNTIME_API_H

#include "driver_types.h"

#endif
