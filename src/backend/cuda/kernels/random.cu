// Random masks: drawn word by word, applied element by element, and the call number counted up. `ops/random.rs` defines
// the bits.
#include "random.cuh"

// BITS: of the widest element. Narrow ones have no code for those of 8 bytes, which would never run.
template <typename Bits>
__device__ __forceinline__ void apply(const Random &p, bool kept, char *to, Bits bits) {
    if (sizeof(Bits) == 8 && p.wide) {
        Real<f64>::store(p.scalar, to, kept ? product(Real<f64>::any(p.scalar, bits), p.scale) : 0.0);
    } else {
        const f32 x = sizeof(Bits) == 8 ? Real<f32>::any(p.scalar, bits) : Real<f32>::value(p.scalar, u32(bits));
        Real<f32>::store(p.scalar, to, kept ? product(x, f32(p.scale)) : 0.0f);
    }
}

// Elements of a thread that are loaded before the first is looked at, and threads of a block for any loops: narrow blocks
// leave fewer registers idle. `random.rs` counts blocks by the same numbers.
enum { APPLIED = 8, APPLYING = 128 };

// A thread for a word.
extern "C" __global__ void __launch_bounds__(THREADS) random_draw(const Random p) {
    const u64 word = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (32 * word < p.elements) p.mask[word] = drawn(p, word);
}

// Any loops, with a mask that is there. BITS: of the widest element.
template <typename Signed, typename Index, typename Bits>
__device__ __forceinline__ void apply_mask(const Random &p) {
    const Index first = Index(blockIdx.x) * (APPLYING * APPLIED) + threadIdx.x;
    Signed to[APPLIED], from[APPLIED];
    u64 places = 0;  // five bits each
    u32 words[APPLIED], wanted = 0;
#pragma unroll
    for (u32 i = 0; i < APPLIED; ++i) {
        const Index index = first + i * APPLYING;
        const bool is_one = index < Index(p.count);
        const OperandOffsets offsets = operand_offsets(is_one ? index : Index(0), p.loops, p.rank);
        const Index number = Index(p.first) + Index(offsets.of[2]);
        to[i] = Signed(offsets.of[0]);
        from[i] = Signed(offsets.of[1]);
        words[i] = is_one ? p.mask[number / 32] : 0;
        places |= u64(number % 32) << (5 * i);
        wanted |= u32(is_one) << i;
    }
    const char *source[APPLIED];
#pragma unroll
    for (u32 i = 0; i < APPLIED; ++i) source[i] = p.src + from[i];
    Bits bits[APPLIED];
    fetch(p.scalar, source, bits, wanted);
#pragma unroll
    for (u32 i = 0; i < APPLIED; ++i) {
        if (wanted >> i & 1) apply(p, words[i] >> (places >> (5 * i) & 31) & 1, p.dst + to[i], bits[i]);
    }
}

extern "C" __global__ void __launch_bounds__(APPLYING, 1) random_apply_i32(const Random p) { apply_mask<i32, u32, u32>(p); }
extern "C" __global__ void __launch_bounds__(APPLYING, 1) random_apply_i64(const Random p) { apply_mask<i64, u64, u64>(p); }

// Elements that follow one another in both tensors, as they are numbered: each thread draws a word, and neighbouring
// threads apply neighbouring bits. The mask may go on behind the last of them.
extern "C" __global__ void __launch_bounds__(THREADS, 1) random_run(const Random p) {
    __shared__ u32 words[THREADS];
    const u64 first = u64(blockIdx.x) * THREADS;
    const u64 word = first + threadIdx.x;
    const bool there = 32 * word < p.elements;
    words[threadIdx.x] = there ? drawn(p, word) : 0;
    if (there) p.mask[word] = words[threadIdx.x];
    __syncthreads();
    const u32 cell = size_of(p.scalar);
#pragma unroll 1
    for (u32 round = 0; round < 32; round += APPLIED) {
        const char *from[APPLIED];
        u32 wanted = 0;
#pragma unroll
        for (u32 i = 0; i < APPLIED; ++i) {
            const u64 index = 32 * first + (round + i) * THREADS + threadIdx.x;
            from[i] = p.src + index * cell;
            wanted |= u32(index < p.count) << i;
        }
        Held<f32, APPLIED> held;
        held.load(p.scalar, from, wanted);
#pragma unroll
        for (u32 i = 0; i < APPLIED; ++i) {
            const u32 at = (round + i) * THREADS + threadIdx.x;
            if (wanted >> i & 1) apply<u64>(p, words[at / 32] >> (at % 32) & 1, p.dst + (32 * first + at) * cell, held[i]);
        }
    }
}

// The next mask is another one.
extern "C" __global__ void __launch_bounds__(32) random_advance(const Random p) {
    if (blockIdx.x == 0 && threadIdx.x == 0) p.states[1] += 1;
}
