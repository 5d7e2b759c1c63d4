// Normalisation with statistics that are given, 16 bytes of data a thread, which are neighbours in all operands.
#include "linear.cuh"
#include "normalise.cuh"

// `normalise.rs` sends no activation here that is computed apart, and keeps no slopes.
template <u32 SCALAR>
__device__ __forceinline__ void run(const Normal &p) {
    constexpr u32 BYTES = width_of(SCALAR), LANES = 16 / BYTES;
    const u64 index = (u64(blockIdx.x) * THREADS + threadIdx.x) * LANES;
    if (index >= p.elements) return;
    const bool rows = p.flags & BY_ROWS, adds = p.flags & ADDS, blends = p.flags & DATA_BLENDED;
    const u64 slow = quotient(index, p.fast), quick = index - slow * p.fast.divisor;
    const Places group = places(rows ? quick : slow, p.group, p.group_rank);
    const Places place = both(group, places(rows ? slow : quick, p.member, p.member_rank));
    char *to = p.at[0] + place.of[0];
    Vector z = {{0, 0, 0, 0}}, old = {{0, 0, 0, 0}};
    const Vector x = at<Vector>(p.at[6] + place.of[1]);
    if (adds) z = at<Vector>(p.at[7] + place.of[2]);
    if (blends) old = at<Vector>(to);
    const auto lane = [](const Vector &v, u32 k) {
        return load_f32(SCALAR, reinterpret_cast<const char *>(&v) + k * BYTES);
    };
    Vector result;
    f32 mean = 0, slope = 0, offset = 0;
#pragma unroll
    for (u32 k = 0; k < LANES; ++k) {
        // Of one group, unless neighbours are of neighbouring ones.
        if (k == 0 || rows) {
            const i64 own = group.of[4] + k * p.group[0].step[4];
            mean = own_number<f32>(p, 3, own);
            slope = ratio(own_number<f32>(p, 8, own), root(sum(own_number<f32>(p, 4, own), f32(p.epsilon))));
            offset = own_number<f32>(p, 9, own);
        }
        f32 r = sum(product(sum(lane(x, k), -mean), slope), offset);
        if (adds) r = sum(r, lane(z, k));
        if (p.flags & SLOPES) r = activated<f32, false>(p, r).result.value;
        if (p.flags & DATA_SCALED) r = product(r, f32(p.alpha));
        if (blends) r = sum(r, product(lane(old, k), f32(p.beta)));
        store_f32(SCALAR, reinterpret_cast<char *>(&result) + k * BYTES, r);
    }
    put<Vector>(to, result);
}

extern "C" __global__ void __launch_bounds__(THREADS) normalise_run_f32(const Normal p) { run<F32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) normalise_run_f16(const Normal p) { run<F16>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) normalise_run_bf16(const Normal p) { run<BF16>(p); }
