/* Half precision on the host: the type, and conversions that round to nearest even. Part of cudnn-shim. */
#ifndef CUDNN_SHIM_CUDA_FP16_H
#define CUDNN_SHIM_CUDA_FP16_H

#include <string.h>

#include "vector_types.h"

typedef struct __align__(2) {
  unsigned short x;
} __half_raw;

#ifdef __cplusplus
struct __half;
static inline __half __float2half(float value);
static inline float __half2float(__half value);

struct __align__(2) __half {
  unsigned short __x;
  __half() = default;
  __half(const __half_raw &raw) : __x(raw.x) {}
  __half(float value) { *this = __float2half(value); }
  operator float() const { return __half2float(*this); }
  operator __half_raw() const {
    __half_raw raw = {__x};
    return raw;
  }
};
#define CUDNN_SHIM_HALF_BITS __x
#else
typedef __half_raw __half;
#define CUDNN_SHIM_HALF_BITS x
#endif

typedef struct __align__(4) {
  __half x, y;
} __half2;

typedef __half half;
typedef __half2 half2;

static inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.CUDNN_SHIM_HALF_BITS = bits;
  return value;
}

static inline unsigned short __half_as_ushort(__half value) { return value.CUDNN_SHIM_HALF_BITS; }

static inline __half __float2half(float value) {
  unsigned int bits, rest, half_way, result;
  memcpy(&bits, &value, sizeof bits);
  const unsigned int sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) return __ushort_as_half(0x7fffu);
  /* 65520 and above round to infinity. */
  if (bits >= 0x477ff000u) return __ushort_as_half((unsigned short)(sign | 0x7c00u));
  if (bits >= 0x38800000u) {
    /* Normal numbers: another bias of the exponent, 13 bits less. */
    rest = bits & 0x1fffu;
    half_way = 0x1000u;
    result = (bits - 0x38000000u) >> 13;
  } else if (bits >= 0x33000000u) {
    /* Subnormal numbers: multiples of 2 to the power of -24. */
    const unsigned int shift = 126u - (bits >> 23);
    const unsigned int significand = (bits & 0x7fffffu) | 0x800000u;
    rest = significand & ((1u << shift) - 1u);
    half_way = 1u << (shift - 1u);
    result = significand >> shift;
  } else {
    return __ushort_as_half((unsigned short)sign);
  }
  if (rest > half_way || (rest == half_way && (result & 1u))) result++;
  return __ushort_as_half((unsigned short)(sign | result));
}

static inline float __half2float(__half value) {
  const unsigned int half_bits = value.CUDNN_SHIM_HALF_BITS;
  const unsigned int sign = (half_bits & 0x8000u) << 16;
  unsigned int exponent = half_bits >> 10 & 0x1fu, significand = half_bits & 0x3ffu, bits;
  float result;
  if (exponent == 0x1fu) {
    bits = sign | 0x7f800000u | significand << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112u) << 23 | significand << 13;
  } else {
    /* Exact, for 2 to the power of -24 is a normal number of binary32. */
    result = (float)significand * 5.9604644775390625e-8f;
    return sign ? -result : result;
  }
  memcpy(&result, &bits, sizeof result);
  return result;
}

static inline __half __float2half_rn(float value) { return __float2half(value); }

static inline __half __double2half(double value) {
  /* Round to odd on the way, so that rounding twice is rounding once. */
  float narrow = (float)value;
  unsigned int bits;
  if ((double)narrow != value && value == value) {
    memcpy(&bits, &narrow, sizeof bits);
    if (!(bits & 1u)) {
      const int away = (value < 0 ? -(double)narrow : (double)narrow) < (value < 0 ? -value : value);
      bits = away ? bits + 1u : bits - 1u;
      memcpy(&narrow, &bits, sizeof narrow);
    }
  }
  return __float2half(narrow);
}

static inline __half2 __floats2half2_rn(float x, float y) {
  __half2 pair;
  pair.x = __float2half(x);
  pair.y = __float2half(y);
  return pair;
}

static inline __half __low2half(__half2 pair) { return pair.x; }
static inline __half __high2half(__half2 pair) { return pair.y; }

#ifdef __cplusplus
/* The result is rounded once: binary32 has more than twice the digits. Sums and products by themselves are of binary32. */
static inline __half &operator+=(__half &a, __half b) { return a = __float2half(__half2float(a) + __half2float(b)); }
static inline __half &operator-=(__half &a, __half b) { return a = __float2half(__half2float(a) - __half2float(b)); }
static inline __half &operator*=(__half &a, __half b) { return a = __float2half(__half2float(a) * __half2float(b)); }
static inline __half &operator/=(__half &a, __half b) { return a = __float2half(__half2float(a) / __half2float(b)); }
static inline __half &operator++(__half &a) { return a += __float2half(1.0f); }
static inline __half &operator--(__half &a) { return a -= __float2half(1.0f); }
static inline __half operator++(__half &a, int) {
  const __half old = a;
  ++a;
  return old;
}
static inline __half operator--(__half &a, int) {
  const __half old = a;
  --a;
  return old;
}
static inline __half2 &operator+=(__half2 &a, const __half2 &b) {
  a.x += b.x;
  a.y += b.y;
  return a;
}
static inline __half2 &operator-=(__half2 &a, const __half2 &b) {
  a.x -= b.x;
  a.y -= b.y;
  return a;
}
static inline __half2 &operator*=(__half2 &a, const __half2 &b) {
  a.x *= b.x;
  a.y *= b.y;
  return a;
}
static inline __half2 &operator/=(__half2 &a, const __half2 &b) {
  a.x /= b.x;
  a.y /= b.y;
  return a;
}
#endif

#undef CUDNN_SHIM_HALF_BITS

#endif
