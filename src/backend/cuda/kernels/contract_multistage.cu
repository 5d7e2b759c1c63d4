// compute_80: contractions of half, bfloat16, TF32, binary32 in parts and signed bytes on Tensor Cores, whose operands come 16 bytes at a time through several stages.
#include "contract_multistage.cuh"

MULTISTAGE(contract_multistage_f16, MmaF16)
MULTISTAGE(contract_multistage_bf16, MmaBf16)
MULTISTAGE(contract_multistage_tf32, MmaTf32)
MULTISTAGE_BY_TERMS(contract_multistage_s8, MmaS8)
OF_TILE(contract_multistage_f32_128x128, MmaF32, 128, 128, 2, 4, 3, 1, false)
OF_TILE(contract_multistage_f32_64x64, MmaF32, 64, 64, 2, 2, 5, 3, false)
OF_TILE(contract_multistage_f32_128x128_columns, MmaF32, 128, 128, 2, 4, 3, 1, true)
OF_TILE(contract_multistage_f32_64x64_columns, MmaF32, 64, 64, 2, 2, 5, 3, true)
