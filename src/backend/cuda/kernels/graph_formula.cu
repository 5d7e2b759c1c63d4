// Functions that graphs alone have. One switch over all functions takes more registers than there are.
#define NAMED(kind) graph_formula_##kind
#define COMPUTED graph_formula
#include "formula_kernels.cuh"
