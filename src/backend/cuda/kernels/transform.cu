// Every kernel of TransformTensor and TransformTensorEx: the one translation unit that becomes `ptx/transform.ptx`.
#include "channels.cuh"
#include "general.cuh"
#include "linear.cuh"
#include "tiled.cuh"
