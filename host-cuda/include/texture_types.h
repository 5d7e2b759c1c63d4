/* Textures are read by kernels alone, which host CUDA does not run: their types are not declared. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_TEXTURE_TYPES_H
#define CUDNN_SHIM_TEXTURE_TYPES_H

#include "driver_types.h"

#endif
