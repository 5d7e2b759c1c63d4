// compute_80: products of fragments, one warp each, to hold `mma.cuh` against plain loops; some with a layout that is wrong.
#include "mma.cuh"

// A is 16 x K and B K x 8, both of rows of `per` elements to a word along k: A by rows, B by columns. C is 16 x 8, by rows.
struct Product {
    const u32 *a;
    const u32 *b;
    char *c;
    // 1: rows of A, 2: k of A, 3: columns of B, 4: k of B, 5: rows of C, 6: columns of C, 7: halves of k of A change places
    u32 wrong;
    u32 unused;
};

template <typename Type>
__device__ __forceinline__ void product_of(const Product &p) {
    const u32 words = Type::K / Type::PER;
    typename Type::Sum *sums = reinterpret_cast<typename Type::Sum *>(p.c);
    u32 a[4], b[2];
    typename Type::Sum c[4];
    for (u32 r = 0; r < 4; ++r) {
        const u32 row = p.wrong == 1 ? mma_group() + 8 * (r / 2) : mma_a_row(r);
        const u32 k = p.wrong == 2 ? Type::PER * (4 * (mma_member() % 2) + 2 * (r / 2)) : mma_a_k<Type>(r);
        const u32 other_half = p.wrong == 7 ? words / 2 : 0;
        a[r] = p.a[row * words + (k / Type::PER ^ other_half)];
    }
    for (u32 r = 0; r < 2; ++r) {
        const u32 column = p.wrong == 3 ? threadIdx.x % 8 : mma_b_column(r);
        const u32 k = p.wrong == 4 ? Type::PER * (2 * mma_member() + r) : mma_b_k<Type>(r);
        b[r] = p.b[column * words + k / Type::PER];
    }
    const auto at = [&](u32 i) {
        const u32 row = p.wrong == 5 ? 2 * mma_group() + i / 2 : mma_c_row(i);
        const u32 column = p.wrong == 6 ? mma_member() + 4 * (i % 2) : mma_c_column(i);
        return row * 8 + column;
    };
    for (u32 i = 0; i < 4; ++i) c[i] = sums[at(i)];
    mma(Type(), c, a, b);
    for (u32 i = 0; i < 4; ++i) sums[at(i)] = c[i];
}

extern "C" __global__ void __launch_bounds__(32) fragments_f16(const Product p) { product_of<MmaF16>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_bf16(const Product p) { product_of<MmaBf16>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_tf32(const Product p) { product_of<MmaTf32>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_s8(const Product p) { product_of<MmaS8>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_u8(const Product p) { product_of<MmaU8>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_u8_s8(const Product p) { product_of<MmaU8S8>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_s8_u8(const Product p) { product_of<MmaS8U8>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_f16_halves(const Product p) { product_of<MmaF16Halves>(p); }
extern "C" __global__ void __launch_bounds__(32) fragments_s8_quarters(const Product p) {
    product_of<MmaS8Quarters>(p);
}

// Lanes that stay away from a product: what no kernel may do.
extern "C" __global__ void __launch_bounds__(32) fragments_divergent(const Product p) {
    if (threadIdx.x >= p.wrong) product_of<MmaF16>(p);
}
extern "C" __global__ void __launch_bounds__(32) round_to_tf32(const Product p) {
    reinterpret_cast<u32 *>(p.c)[threadIdx.x] = to_tf32(bits_of<f32>(p.a[threadIdx.x]));
}
