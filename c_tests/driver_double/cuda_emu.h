// The device language of CUDA C++ for a host compiler, so that the kernels' own sources run in the driver double.
//
// Force-included in front of the sources. Every access of theirs to memory is reported to access.cpp, because they are
// compiled with the instrumentation of sanitizers; what stands here is not (UNCHECKED).
#pragma once
#define CPU_EMU 1

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
// One block runs at a time, so that a static object is as good as one per block.
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __constant__ static const
#define DYNAMIC_SHARED(T, name) T *name = reinterpret_cast<T *>(emu::running.dynamic_shared)
#define UNCHECKED __attribute__((no_sanitize("thread", "alignment"), noinline))

struct uint3 {
    unsigned x, y, z;
};

namespace emu {

struct Thread {
    uint3 index;
    unsigned lane, warp;
};

// Largest block there is.
enum { MAX_THREADS = 1024 };

// What the kernels' built-in variables show.
struct Running {
    Thread *thread;
    uint3 block_index, block_dim, grid_dim;
    char *dynamic_shared;
    Thread threads[MAX_THREADS];
    // How often a number was divided by one that was known before the launch.
    uint64_t divisions;
};
extern Running running;

void sync_block(const char *file, int line);
// What a lane does together with others of its warp: all lanes of a mask have to do the same. Only a barrier orders what
// they do to memory.
enum class Together { BARRIER, SHUFFLE, BALLOT, MATRIX, LOAD };
void sync_warp(unsigned mask, Together what);
// What lane `source`, one of `mask`, passed as `value`.
uint64_t shuffle(unsigned mask, uint64_t value, unsigned source);
// One bit per lane of `mask`: whether its predicate is true.
unsigned ballot(unsigned mask, bool predicate);
// C += A * B of fragments that the warp holds together; C is 4 floats, or 4 ints for bytes; A
// and B have a type each in U8_S8 and S8_U8. The last two are products of less than 16 x 8 x K: of two registers of A and one of
// B, and of one of each, with 2 ints of C.
enum class Element { F16, BF16, TF32, S8, U8, U8_S8, S8_U8, F16_16X8X8, S8_8X8X16 };
void multiply_add(Element type, const unsigned *a, const unsigned *b, void *c);
// Loads 1, 2 or 4 matrices of 8 x 8 numbers of 16 bits from shared memory, as ldmatrix does: lane 8 * m + r names row r of
// matrix m, 16 bytes; other lanes name nothing. A lane gets a word of each matrix, whose bits that nobody has computed are those
// of `unknown`, unless that is NULL.
void load_matrices(const void *row, unsigned count, bool transposed, unsigned *to, unsigned *unknown = NULL);
// Copies of 4 or 16 bytes to shared memory that go on by themselves, zeros for what is not there; what was begun so far becomes
// a group; waits until at most so many groups are under way.
void copy_async(void *shared, const void *global, bool is_there, unsigned bytes = 16);
void commit_copies();
void wait_for_copies(unsigned pending);
// How many threads of the block have a true predicate.
int count_block(const char *file, int line, bool predicate);

// A kernel of the sources: how to call it, and the size of its one parameter.
struct Kernel {
    const char *name;
    void (*call)(const void *parameter);
    unsigned size;
    const Kernel *next;
};
extern const Kernel *kernels;

template <auto F>
struct Caller;
template <class P, void (*F)(P)>
struct Caller<F> {
    typedef std::remove_cv_t<std::remove_reference_t<P>> Parameter;
    UNCHECKED static void call(const void *parameter) { F(*static_cast<const Parameter *>(parameter)); }
};

template <auto F>
struct Registration {
    Kernel kernel;
    explicit Registration(const char *name)
        : kernel{name, Caller<F>::call, sizeof(typename Caller<F>::Parameter), kernels} {
        kernels = &kernel;
    }
};

template <class T>
inline uint64_t widen(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t wide = 0;
    memcpy(&wide, &value, sizeof value);
    return wide;
}
template <class T>
inline T narrow(uint64_t wide) {
    T value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

}  // namespace emu

#define EMU_REGISTER(name) static emu::Registration<&name> emu_registration_##name(#name);

#define threadIdx (emu::running.thread->index)
#define blockIdx (emu::running.block_index)
#define blockDim (emu::running.block_dim)
#define gridDim (emu::running.grid_dim)
#define warpSize 32

#define __syncthreads() emu::sync_block(__FILE__, __LINE__)
#define __syncthreads_count(predicate) emu::count_block(__FILE__, __LINE__, (predicate) != 0)
#define __syncthreads_or(predicate) (emu::count_block(__FILE__, __LINE__, (predicate) != 0) != 0)
#define __ballot_sync(mask, predicate) emu::ballot(mask, (predicate) != 0)
#define __any_sync(mask, predicate) (emu::ballot(mask, (predicate) != 0) != 0)

inline void __syncwarp(unsigned mask = ~0u) { emu::sync_warp(mask, emu::Together::BARRIER); }
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const unsigned lane = emu::running.thread->lane, first = lane & ~unsigned(width - 1);
    return emu::narrow<T>(emu::shuffle(mask, emu::widen(value), first + (unsigned(source) & unsigned(width - 1))));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32) {
    const unsigned lane = emu::running.thread->lane, source = lane ^ unsigned(flip);
    const bool same = (lane & ~unsigned(width - 1)) == (source & ~unsigned(width - 1));
    return emu::narrow<T>(emu::shuffle(mask, emu::widen(value), same ? source : lane));
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = emu::running.thread->lane;
    const bool inside = (lane & unsigned(width - 1)) + delta < unsigned(width);
    return emu::narrow<T>(emu::shuffle(mask, emu::widen(value), inside ? lane + delta : lane));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const unsigned lane = emu::running.thread->lane;
    const bool inside = (lane & unsigned(width - 1)) >= delta;
    return emu::narrow<T>(emu::shuffle(mask, emu::widen(value), inside ? lane - delta : lane));
}
template <class T>
inline T __ldg(const T *address) {
    return *address;
}
