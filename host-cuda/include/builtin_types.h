/* The types of the runtime, by the name under which programs and cudnn.h look for all of them. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_BUILTIN_TYPES_H
#define CUDNN_SHIM_BUILTIN_TYPES_H

#include "device_types.h"
#include "driver_types.h"
#include "surface_types.h"
#include "texture_types.h"
#include "vector_types.h"

#endif
