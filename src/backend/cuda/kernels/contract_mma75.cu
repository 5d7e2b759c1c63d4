// compute_75: contractions on the first Tensor Cores that multiply bytes: of half and of signed bytes, no more, for the sake of
// the library's size.
#include "contract_mma.cuh"

MULTIPLIED(contract_mma75_f16, MmaF16Halves)
MULTIPLIED(contract_mma75_s8, MmaS8Quarters)
