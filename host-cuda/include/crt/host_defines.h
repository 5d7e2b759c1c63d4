/* Words of CUDA that mean nothing to a compiler for hosts, by another name. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CRT_HOST_DEFINES_H
#define CUDNN_SHIM_CRT_HOST_DEFINES_H

#include "../host_defines.h"

#endif
