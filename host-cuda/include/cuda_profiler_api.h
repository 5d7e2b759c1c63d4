/* cudaProfilerStart and cudaProfilerStop, which are declared with the rest. Part of cudnn-shim. */
#include "cuda_runtime_api.h"
