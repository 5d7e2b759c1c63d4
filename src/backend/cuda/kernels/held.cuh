// Loads that go on together: what is loaded is used behind `hold`, and no load that stands before it comes later.
#pragma once

#include "device.cuh"

#if defined(CPU_EMU)
template <typename Bits>
inline void hold(Bits &) {}
#else
__device__ __forceinline__ void hold(u16 &bits) { asm volatile("" : "+h"(bits) : : "memory"); }
__device__ __forceinline__ void hold(u32 &bits) { asm volatile("" : "+r"(bits) : : "memory"); }
#endif
