/* make_float4 and its kin: vector_functions.h defines them. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_VECTOR_FUNCTIONS_HPP
#define CUDNN_SHIM_VECTOR_FUNCTIONS_HPP

#include "vector_functions.h"

#endif
