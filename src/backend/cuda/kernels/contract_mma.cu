// compute_80: contractions on Tensor Cores, with the types and the asynchronous copies of that capability.
#include "contract_mma.cuh"

MULTIPLIED(contract_mma_f16, MmaF16)
MULTIPLIED(contract_mma_bf16, MmaBf16)
MULTIPLIED(contract_mma_tf32, MmaTf32)
MULTIPLIED(contract_mma_s8, MmaS8)
MULTIPLIED(contract_mma_u8, MmaU8)
MULTIPLIED(contract_mma_u8_s8, MmaU8S8)
MULTIPLIED(contract_mma_s8_u8, MmaS8U8)
