// compute_80: contractions of half, bfloat16 and TF32 on Tensor Cores whose operands are both transposed, as those of filter gradients.
#include "contract_gradient.cuh"

GRADIENT(contract_gradient_f16, MmaF16)
GRADIENT(contract_gradient_bf16, MmaBf16)
GRADIENT(contract_gradient_tf32, MmaTf32)
