// Integers of the host, which come as parameters: `ops/words.rs`.
#include "device.cuh"

// What fits a parameter. `words.rs` has the same number.
enum { WORDS = 1020 };

struct Words {
    u32 *dst;
    u32 count;
    u32 unused;
    u32 words[WORDS];
};

static_assert(sizeof(Words) == 16 + 4 * WORDS, "words.rs has another Words");

extern "C" __global__ void __launch_bounds__(THREADS) words_write(const Words p) {
    for (u32 i = threadIdx.x; i < p.count; i += THREADS) p.dst[i] = p.words[i];
}
