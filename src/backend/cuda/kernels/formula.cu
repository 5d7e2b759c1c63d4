// Functions of tensors, activations and recurrent cells.
#define NAMED(kind) formula_##kind
#define COMPUTED formula
#include "formula_kernels.cuh"
