/* make_cudaPos, make_cudaExtent, make_cudaPitchedPtr. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_DRIVER_FUNCTIONS_H
#define CUDNN_SHIM_DRIVER_FUNCTIONS_H

#include "driver_types.h"

static inline struct cudaPos make_cudaPos(size_t x, size_t y, size_t z) {
  struct cudaPos position = {x, y, z};
  return position;
}

static inline struct cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) {
  struct cudaExtent extent = {width, height, depth};
  return extent;
}

static inline struct cudaPitchedPtr make_cudaPitchedPtr(void *pointer, size_t pitch, size_t width, size_t height) {
  struct cudaPitchedPtr pitched = {pointer, pitch, width, height};
  return pitched;
}

#endif
