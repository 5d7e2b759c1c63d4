// Every kernel of the library: the one translation unit that becomes `ptx/transform.ptx`.
#include "channels.cuh"
#include "general.cuh"
#include "linear.cuh"
#include "pointwise.cuh"
#include "reduce.cuh"
#include "set.cuh"
#include "tiled.cuh"
