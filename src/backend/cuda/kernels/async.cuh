// Copies from global to shared memory that go on by themselves. For compute_80 and later.
#pragma once

#include "device.cuh"

#if defined(CPU_EMU)

inline void copy_4(void *shared, const void *global, bool is_there) { emu::copy_async(shared, global, is_there, 4); }
inline void copy_16(void *shared, const void *global, bool is_there) { emu::copy_async(shared, global, is_there); }
inline void end_of_copies() { emu::commit_copies(); }
template <u32 PENDING = 0>
inline void wait_for_copies() {
    emu::wait_for_copies(PENDING);
}

// A place in shared memory as the instructions below take it.
typedef char *SharedPlace;
inline SharedPlace shared_place(void *shared) { return static_cast<char *>(shared); }
// The same, computed once: compilers like to compute again in a loop what is cheap.
template <typename T>
inline T kept(T x) {
    return x;
}
// One of two places that differ in this bit alone; what holds them is aligned to twice as much.
inline SharedPlace other_place(SharedPlace place, u32 bit) {
    return reinterpret_cast<SharedPlace>(reinterpret_cast<u64>(place) ^ bit);
}
// 16 bytes to OFFSET bytes behind a place, or as many zeros if `bytes` is 0 and not 16.
template <u32 OFFSET>
inline void copy_16_to(SharedPlace place, const void *global, u32 bytes) {
    emu::copy_async(place + OFFSET, global, bytes != 0);
}
// Four matrices of 8 x 8 numbers of 16 bits; a lane names a row, OFFSET bytes behind its place. TRANSPOSED: rows change places with columns.
template <u32 OFFSET, bool TRANSPOSED>
inline void load_matrices(SharedPlace place, u32 (&words)[4]) {
    emu::load_matrices(place + OFFSET, 4, TRANSPOSED, words);
}
// A word OFFSET bytes behind a place.
template <u32 OFFSET>
inline u32 load_word(SharedPlace place) {
    return *reinterpret_cast<const u32 *>(place + OFFSET);
}

#else

// 16 bytes, which both sides are aligned to; zeros, and nothing read, if they are not there.
__device__ __forceinline__ void copy_16(void *shared, const void *global, bool is_there) {
    const u32 to = u32(__cvta_generic_to_shared(shared)), size = is_there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(global), "r"(size) : "memory");
}
// 4 bytes, likewise.
__device__ __forceinline__ void copy_4(void *shared, const void *global, bool is_there) {
    const u32 to = u32(__cvta_generic_to_shared(shared)), size = is_there ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" : : "r"(to), "l"(global), "r"(size) : "memory");
}
// What was copied so far is a group.
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// For all groups of this thread but the last PENDING ones; a barrier tells the others.
template <u32 PENDING = 0>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" : : "n"(PENDING) : "memory");
}

// A place in shared memory as the instructions below take it.
typedef u32 SharedPlace;
__device__ __forceinline__ SharedPlace shared_place(void *shared) { return u32(__cvta_generic_to_shared(shared)); }
// The same, computed once: compilers like to compute again in a loop what is cheap.
__device__ __forceinline__ u32 kept(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}
__device__ __forceinline__ const char *kept(const char *x) {
    asm volatile("" : "+l"(x));
    return x;
}
// One of two places that differ in this bit alone; what holds them is aligned to twice as much.
__device__ __forceinline__ SharedPlace other_place(SharedPlace place, u32 bit) { return place ^ bit; }
// 16 bytes to OFFSET bytes behind a place, or as many zeros if `bytes` is 0 and not 16.
template <u32 OFFSET>
__device__ __forceinline__ void copy_16_to(SharedPlace place, const void *global, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0+%3], [%1], 16, %2;"
                 :
                 : "r"(place), "l"(global), "r"(bytes), "n"(OFFSET)
                 : "memory");
}
// Four matrices of 8 x 8 numbers of 16 bits; a lane names a row, OFFSET bytes behind its place. TRANSPOSED: rows change places with columns.
template <u32 OFFSET, bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(SharedPlace place, u32 (&words)[4]) {
    if constexpr (TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(place), "n"(OFFSET)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4+%5];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(place), "n"(OFFSET)
                     : "memory");
    }
}
// A word OFFSET bytes behind a place.
template <u32 OFFSET>
__device__ __forceinline__ u32 load_word(SharedPlace place) {
    u32 word;
    asm volatile("ld.shared.u32 %0, [%1+%2];" : "=r"(word) : "r"(place), "n"(OFFSET) : "memory");
    return word;
}

#endif
