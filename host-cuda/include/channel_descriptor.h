/* Descriptors of channels: cuda_runtime_api.h declares what there is. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CHANNEL_DESCRIPTOR_H
#define CUDNN_SHIM_CHANNEL_DESCRIPTOR_H

#include "cuda_runtime_api.h"

#endif
