/* Stands in for the CUDA runtime's header for C++, which the headers of version 8 include. */
#ifndef STAND_IN_CUDA_RUNTIME_H
#define STAND_IN_CUDA_RUNTIME_H
#include "cuda_runtime_api.h"
#endif
