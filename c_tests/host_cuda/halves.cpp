// Half precision that changes in place: every operation on values of each kind, rounded once, against binary64.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "check.h"

static unsigned bits(__half value) { return __half_as_ushort(value); }
static unsigned bits(__nv_bfloat16 value) { return __bfloat16_as_ushort(value); }
static __half as(unsigned short word, __half) { return __ushort_as_half(word); }
static __nv_bfloat16 as(unsigned short word, __nv_bfloat16) { return __ushort_as_bfloat16(word); }

// The nearest number of `digits` binary digits, down to multiples of 2^`least`; the even one half way.
static double rounded(double value, int digits, int least, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1, std::max(exponent - digits, least));
  const double near = std::nearbyint(value / unit) * unit;
  return std::fabs(near) > largest ? std::copysign(INFINITY, value) : near;
}

template <class T>
static void check(int digits, int least, double largest) {
  unsigned state = 1;
  for (int turn = 0; turn < 200000; turn++) {
    unsigned short words[2];
    for (unsigned short &word : words) word = static_cast<unsigned short>((state = state * 1664525u + 1013904223u) >> 16);
    const T a = as(words[0], T()), b = as(words[1], T());
    const double x = static_cast<float>(a), y = static_cast<float>(b);
    for (int operation = 0; operation < 4; operation++) {
      T result = a;
      T *place = &result;
      double exact;
      switch (operation) {
        case 0: place = &(result += b), exact = x + y; break;
        case 1: place = &(result -= b), exact = x - y; break;
        case 2: place = &(result *= b), exact = x * y; break;
        default: place = &(result /= b), exact = x / y;
      }
      EXPECT(place == &result);
      const double got = static_cast<float>(result), wanted = rounded(exact, digits, least, largest);
      EXPECT(std::isnan(wanted) ? std::isnan(got) : got == wanted);
    }
  }
  T one = T(1.0f), next = one;
  EXPECT(bits(one++) == bits(T(1.0f)) && bits(one) == bits(T(2.0f)));
  EXPECT(bits(++next) == bits(T(2.0f)) && bits(--next) == bits(T(1.0f)) && bits(next--) == bits(T(1.0f)) && bits(next) == 0);
  // Numbers of other types, and sums by themselves.
  next += 0.5f;
  EXPECT(static_cast<float>(next) == 0.5f && next + 1.0f == 1.5f);
}

int main() {
  check<__half>(11, -24, 65504);
  check<__nv_bfloat16>(8, -133, 3.3895313892515355e38);
  __half2 pair = __floats2half2_rn(1, 2);
  pair += __floats2half2_rn(3, 4);
  pair *= pair;
  EXPECT(static_cast<float>(pair.x) == 16 && static_cast<float>(pair.y) == 36);
  pair /= __floats2half2_rn(4, 6);
  pair -= __floats2half2_rn(1, 1);
  EXPECT(static_cast<float>(pair.x) == 3 && static_cast<float>(pair.y) == 5);
  return 0;
}
