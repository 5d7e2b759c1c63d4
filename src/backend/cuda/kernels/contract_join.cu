// The last step of contractions whose sums were cut into parts: adds up what each part left in the workspace, in the order
// of the parts, and finishes as `contract.cu` does. A block has a slice of the elements that a tile of each part had.
#include "contract.cuh"

template <typename T>
__device__ __forceinline__ void joined(const Contract &p) {
    enum : u32 { SIDE = 64, SLICES = SIDE * SIDE / THREADS };
    __shared__ Tables<i64, SIDE> tables;
    __shared__ u32 inside[2];  // rows and columns; kept here, as a call in `epilogue` leaves few registers
    const u64 tile = blockIdx.x / SLICES;
    const auto corner = tables.locate(p, tile);
    if (threadIdx.x == 0) {
        inside[0] = u32(p.rows - corner.row < SIDE ? p.rows - corner.row : u64(SIDE));
        inside[1] = u32(p.columns - corner.column < SIDE ? p.columns - corner.column : u64(SIDE));
    }
    __syncthreads();
    const bool along_columns = p.flags & DST_ALONG_COLUMNS;
    const u32 i = blockIdx.x % SLICES * THREADS + threadIdx.x;
    const u32 row = along_columns ? i / SIDE : i % SIDE, column = along_columns ? i % SIDE : i / SIDE;
    if (row >= inside[0] || column >= inside[1]) return;
    const T total = sum_of_parts<T>(p, tile * (SIDE * SIDE) + i, p.blocks.divisor * (SIDE * SIDE));
    i64 of[3];
#pragma unroll
    for (u32 k = 0; k < 3; ++k) of[k] = tables.place[k][0][row] + tables.place[k][1][column];
    epilogue(p, total, of[0], of[1], of[2]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_join_f32(const Contract p) { joined<f32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_join_f64(const Contract p) { joined<f64>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_join_i32(const Contract p) { joined<i32>(p); }

template <typename T>
__device__ __forceinline__ void joined_directly(const Contract &p) {
    const u64 index = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (index >= p.columns) return;
    ContractOffsets here = nowhere();
    walk(p, OF_COLUMNS, index, here);
    epilogue(p, sum_of_parts<T>(p, index, p.columns), here.of[OF_DST], here.of[OF_Z], here.of[OF_BIAS]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_join_direct_f32(const Contract p) { joined_directly<f32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_join_direct_f64(const Contract p) { joined_directly<f64>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, 2) contract_join_direct_i32(const Contract p) { joined_directly<i32>(p); }
