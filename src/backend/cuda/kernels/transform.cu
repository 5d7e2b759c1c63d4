// Every kernel of TransformTensor and TransformTensorEx: the one translation unit that becomes
// `ptx/transform.ptx`.
#include "general.cuh"
