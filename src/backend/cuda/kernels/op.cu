// OpTensor, and AddTensor where A is broadcast.
#include "pointwise.cuh"

#define OP(NAME, T, INDEX) \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(const Pointwise p) { op<T, INDEX>(p); }
OP(op_f32_i32, f32, u32)
OP(op_f32_i64, f32, u64)
OP(op_f64_i32, f64, u32)
OP(op_f64_i64, f64, u64)
#undef OP

extern "C" __global__ void __launch_bounds__(32) op_ordered(const Pointwise p) { op_in_order(p); }

extern "C" __global__ void __launch_bounds__(THREADS) op_run_f32(const Pointwise p) { op_run<F32>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) op_run_f16(const Pointwise p) { op_run<F16>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) op_run_bf16(const Pointwise p) { op_run<BF16>(p); }
