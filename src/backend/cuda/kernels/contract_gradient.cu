// compute_80: contractions of half, bfloat16, TF32 and binary32 in parts on Tensor Cores whose operands are both transposed, as those of filter gradients.
#include "contract_gradient.cuh"

GRADIENT(contract_gradient_f16, MmaF16)
GRADIENT(contract_gradient_bf16, MmaBf16)
GRADIENT(contract_gradient_tf32, MmaTf32)
OF_TILE(contract_gradient_f32_64x64, MmaF32, 64, 64, 2, 2, 4, 64, 3)
