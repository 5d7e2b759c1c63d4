// compute_80: contractions of half, bfloat16, TF32 and signed bytes on Tensor Cores, whose operands come 16 bytes at a time through several stages.
#include "contract_multistage.cuh"

MULTISTAGE(contract_multistage_f16, MmaF16)
MULTISTAGE(contract_multistage_bf16, MmaBf16)
MULTISTAGE(contract_multistage_tf32, MmaTf32)
MULTISTAGE_BY_TERMS(contract_multistage_s8, MmaS8)
