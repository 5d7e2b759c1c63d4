// compute_80: contractions of half and bfloat16 on Tensor Cores whose operands are both transposed, as those of filter gradients.
#include "contract_gradient.cuh"

GRADIENT(contract_gradient_f16, MmaF16)
GRADIENT(contract_gradient_bf16, MmaBf16)
