/* How numbers are rounded: a type that programs name. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_DEVICE_TYPES_H
#define CUDNN_SHIM_DEVICE_TYPES_H

#include "host_defines.h"

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

#endif
