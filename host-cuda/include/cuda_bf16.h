/* bfloat16 on the host: the type, and conversions that round to nearest even. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CUDA_BF16_H
#define CUDNN_SHIM_CUDA_BF16_H

#include <string.h>

#include "vector_types.h"

typedef struct __align__(2) {
  unsigned short x;
} __nv_bfloat16_raw;

#ifdef __cplusplus
struct __nv_bfloat16;
static inline __nv_bfloat16 __float2bfloat16(float value);
static inline float __bfloat162float(__nv_bfloat16 value);

struct __align__(2) __nv_bfloat16 {
  unsigned short __x;
  __nv_bfloat16() = default;
  __nv_bfloat16(const __nv_bfloat16_raw &raw) : __x(raw.x) {}
  __nv_bfloat16(float value) { *this = __float2bfloat16(value); }
  operator float() const { return __bfloat162float(*this); }
  operator __nv_bfloat16_raw() const {
    __nv_bfloat16_raw raw = {__x};
    return raw;
  }
};
#define CUDNN_SHIM_BFLOAT16_BITS __x
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
#define CUDNN_SHIM_BFLOAT16_BITS x
#endif

typedef struct __align__(4) {
  __nv_bfloat16 x, y;
} __nv_bfloat162;

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.CUDNN_SHIM_BFLOAT16_BITS = bits;
  return value;
}

static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.CUDNN_SHIM_BFLOAT16_BITS; }

static inline __nv_bfloat16 __float2bfloat16(float value) {
  unsigned int bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return __ushort_as_bfloat16(0x7fffu);
  /* A half, or a little less if the result is even as it is. */
  bits += 0x7fffu + (bits >> 16 & 1u);
  return __ushort_as_bfloat16((unsigned short)(bits >> 16));
}

static inline float __bfloat162float(__nv_bfloat16 value) {
  const unsigned int bits = (unsigned int)value.CUDNN_SHIM_BFLOAT16_BITS << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __float2bfloat16(value); }

#ifdef __cplusplus
/* The result is rounded once: binary32 has more than twice the digits. Sums and products by themselves are of binary32. */
static inline __nv_bfloat16 &operator+=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = __float2bfloat16(__bfloat162float(a) + __bfloat162float(b)); }
static inline __nv_bfloat16 &operator-=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = __float2bfloat16(__bfloat162float(a) - __bfloat162float(b)); }
static inline __nv_bfloat16 &operator*=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = __float2bfloat16(__bfloat162float(a) * __bfloat162float(b)); }
static inline __nv_bfloat16 &operator/=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = __float2bfloat16(__bfloat162float(a) / __bfloat162float(b)); }
static inline __nv_bfloat16 &operator++(__nv_bfloat16 &a) { return a += __float2bfloat16(1.0f); }
static inline __nv_bfloat16 &operator--(__nv_bfloat16 &a) { return a -= __float2bfloat16(1.0f); }
static inline __nv_bfloat16 operator++(__nv_bfloat16 &a, int) {
  const __nv_bfloat16 old = a;
  ++a;
  return old;
}
static inline __nv_bfloat16 operator--(__nv_bfloat16 &a, int) {
  const __nv_bfloat16 old = a;
  --a;
  return old;
}
static inline __nv_bfloat162 &operator+=(__nv_bfloat162 &a, const __nv_bfloat162 &b) {
  a.x += b.x;
  a.y += b.y;
  return a;
}
static inline __nv_bfloat162 &operator-=(__nv_bfloat162 &a, const __nv_bfloat162 &b) {
  a.x -= b.x;
  a.y -= b.y;
  return a;
}
static inline __nv_bfloat162 &operator*=(__nv_bfloat162 &a, const __nv_bfloat162 &b) {
  a.x *= b.x;
  a.y *= b.y;
  return a;
}
static inline __nv_bfloat162 &operator/=(__nv_bfloat162 &a, const __nv_bfloat162 &b) {
  a.x /= b.x;
  a.y /= b.y;
  return a;
}
#endif

#undef CUDNN_SHIM_BFLOAT16_BITS

#endif
