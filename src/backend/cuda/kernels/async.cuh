// Copies from global to shared memory that go on by themselves. For compute_80 and later.
#pragma once

#include "device.cuh"

#if defined(CPU_EMU)

inline void copy_4(void *shared, const void *global, bool is_there) { emu::copy_async(shared, global, is_there, 4); }
inline void copy_16(void *shared, const void *global, bool is_there) { emu::copy_async(shared, global, is_there); }
inline void end_of_copies() { emu::commit_copies(); }
inline void wait_for_copies() { emu::wait_for_copies(0); }

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
// For all groups of this thread; a barrier tells the others.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_group 0;" : : : "memory"); }

#endif
