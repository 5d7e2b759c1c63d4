// What the operations of the forms do, by chapter 9.7 of the manual: arithmetic, logic, comparisons and conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ptx.h"

namespace driver_double {
namespace ptx {
namespace operations {

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef uint8_t u8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;
// Types that a host has not.
struct f16 {
    u16 bits;
};
struct tf32 {
    u32 bits;
};

template <class T>
f32 as_float(T bits) {
    f32 value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline u32 bits_of(f32 value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// NaN in binary32 is one number, whatever went in.
inline f32 result(f32 value) { return value != value ? as_float(u32(0x7fffffff)) : value; }
template <class T>
T result(T value) {
    return value;
}

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Sums and products wrap.
struct Add {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(u64(a) + u64(b));
        else return result(a + b);
    }
};
struct Subtract {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(u64(a) - u64(b));
        else return result(a - b);
    }
};
struct Multiply {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) return T(u64(a) * u64(b));
        else return result(a * b);
    }
};
struct Fused {
    template <class T>
    static T of(T a, T b, T c) {
        return result(std::fma(a, b, c));
    }
};
struct Root {
    template <class T>
    static T of(T a) {
        return result(std::sqrt(a));
    }
};
struct High {
    static u32 of(u32 a, u32 b) { return u32(u64(a) * b >> 32); }
    static s32 of(s32 a, s32 b) { return s32(s64(a) * b >> 32); }
    static u64 of(u64 a, u64 b) { return u64((unsigned __int128)a * b >> 64); }
    static s64 of(s64 a, s64 b) { return s64((__int128)a * b >> 64); }
};
struct Wide {
    static u32 of(u16 a, u16 b) { return u32(a) * b; }
    static s32 of(s16 a, s16 b) { return s32(a) * b; }
    static u64 of(u32 a, u32 b) { return u64(a) * b; }
    static s64 of(s32 a, s32 b) { return s64(a) * b; }
};
struct MultiplyAdd {
    template <class T>
    static T of(T a, T b, T c) {
        return T(u64(a) * u64(b) + u64(c));
    }
};
struct WideAdd {
    template <class D, class T>
    static D of(T a, T b, D c) {
        return D(u64(Wide::of(a, b)) + u64(c));
    }
};
// The manual leaves division of integers by zero open; devices answer ones in every bit, and the dividend as the rest.
struct Divide {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) {
            if (b == 0) return T(-1);
            return std::is_signed_v<T> && b == T(-1) ? T(0 - u64(a)) : T(a / b);
        } else {
            return result(a / b);
        }
    }
};
struct Rest {
    template <class T>
    static T of(T a, T b) {
        if (b == 0) return a;
        return std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
    }
};
struct Negate {
    template <class T>
    static T of(T a) {
        if constexpr (std::is_integral_v<T>) return T(0 - u64(a));
        else return -a;
    }
};
struct Absolute {
    template <class T>
    static T of(T a) {
        if constexpr (std::is_integral_v<T>) return a < 0 ? T(0 - u64(a)) : a;
        else return std::fabs(a);
    }
};
// Of numbers and NaN the number, and -0 below +0.
struct Least {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) return a < b ? a : b;
        else if (a != a || b != b) return result(a != a ? b : a);
        else if (a == b) return std::signbit(a) ? a : b;
        else return a < b ? a : b;
    }
};
struct Largest {
    template <class T>
    static T of(T a, T b) {
        if constexpr (std::is_integral_v<T>) return a > b ? a : b;
        else if (a != a || b != b) return result(a != a ? b : a);
        else if (a == b) return std::signbit(a) ? b : a;
        else return a > b ? a : b;
    }
};

struct And {
    template <class T>
    static T of(T a, T b) {
        return T(a & b);
    }
};
struct Or {
    template <class T>
    static T of(T a, T b) {
        return T(a | b);
    }
};
struct Xor {
    template <class T>
    static T of(T a, T b) {
        return T(a ^ b);
    }
};
struct Not {
    static bool of(bool a) { return !a; }
    template <class T>
    static T of(T a) {
        return T(~a);
    }
};
struct Same {
    template <class T>
    static T of(T a) {
        return a;
    }
};
// Shifts by the width and more leave nothing, or signs.
struct Left {
    template <class T>
    static T of(T a, u32 by) {
        return by >= 8 * sizeof(T) ? T(0) : T(u64(a) << by);
    }
};
struct Right {
    template <class T>
    static T of(T a, u32 by) {
        if (by < 8 * sizeof(T)) return T(a >> by);
        return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
    }
};
struct Funnel {
    static u32 left(u32 a, u32 b, u32 by) { return by == 0 ? b : by >= 32 ? a : b << by | a >> (32 - by); }
    static u32 right(u32 a, u32 b, u32 by) { return by == 0 ? a : by >= 32 ? b : b << (32 - by) | a >> by; }
};
struct FunnelLeftWrap {
    static u32 of(u32 a, u32 b, u32 c) { return Funnel::left(a, b, c & 31); }
};
struct FunnelRightWrap {
    static u32 of(u32 a, u32 b, u32 c) { return Funnel::right(a, b, c & 31); }
};
struct FunnelLeftClamp {
    static u32 of(u32 a, u32 b, u32 c) { return Funnel::left(a, b, c < 32 ? c : 32); }
};
struct FunnelRightClamp {
    static u32 of(u32 a, u32 b, u32 c) { return Funnel::right(a, b, c < 32 ? c : 32); }
};
// Bits from `position` on, as many as `length`; signed ones repeat the last of them, that of the number if it ends before.
struct Extract {
    template <class T>
    static T of(T a, u32 position, u32 length) {
        const u32 width = 8 * sizeof(T), from = position & 255, count = length & 255;
        const u32 last = std::min(from + count - 1, width - 1);
        const bool sign = std::is_signed_v<T> && count != 0 && (u64(a) >> last & 1) != 0;
        u64 bits = 0;
        for (u32 i = 0; i < width; ++i) {
            const bool bit = i < count && from + i < width ? (u64(a) >> (from + i) & 1) != 0 : sign;
            bits |= u64(bit) << i;
        }
        return T(bits);
    }
};
struct Insert {
    template <class T>
    static T of(T a, T b, u32 position, u32 length) {
        const u32 width = 8 * sizeof(T), from = position & 255, count = length & 255;
        T bits = b;
        for (u32 i = 0; i < count && from + i < width; ++i) {
            bits = T((bits & ~(T(1) << (from + i))) | ((a >> i & 1) << (from + i)));
        }
        return bits;
    }
};
// Every four bits of `c` choose a byte of the eight, or its sign eight times.
struct Permute {
    static u32 of(u32 a, u32 b, u32 c) {
        const u64 both = u64(b) << 32 | a;
        u32 bytes = 0;
        for (u32 i = 0; i < 4; ++i) {
            const u32 choice = c >> (4 * i) & 15;
            const u8 byte = u8(both >> (8 * (choice & 7)));
            bytes |= u32((choice & 8) == 0 ? byte : (byte & 128) != 0 ? 255 : 0) << (8 * i);
        }
        return bytes;
    }
};
struct CountOnes {
    template <class T>
    static u32 of(T a) {
        return u32(__builtin_popcountll(a));
    }
};
struct CountZeros {
    template <class T>
    static u32 of(T a) {
        return a == 0 ? 8 * sizeof(T) : u32(__builtin_clzll(a)) - (64 - 8 * sizeof(T));
    }
};
struct Reverse {
    template <class T>
    static T of(T a) {
        u64 bits = 0;
        for (u32 i = 0; i < 8 * sizeof(T); ++i) bits |= u64(a >> i & 1) << (8 * sizeof(T) - 1 - i);
        return T(bits);
    }
};

// Comparisons that hold for numbers only, and those that hold for NaN, too.
#define COMPARISON(name, condition) \
    struct name {                   \
        template <class T>          \
        static bool of(T a, T b) {  \
            return condition;       \
        }                           \
    };
COMPARISON(Eq, a == b)
COMPARISON(Ne, a == a && b == b && a != b)
COMPARISON(Lt, a < b)
COMPARISON(Le, a <= b)
COMPARISON(Gt, a > b)
COMPARISON(Ge, a >= b)
COMPARISON(Equ, a != a || b != b || a == b)
COMPARISON(Neu, a != b)
COMPARISON(Ltu, !(a >= b))
COMPARISON(Leu, !(a > b))
COMPARISON(Gtu, !(a <= b))
COMPARISON(Geu, !(a < b))
COMPARISON(Num, a == a && b == b)
COMPARISON(Nan, a != a || b != b)

// Roundings to an integer.
struct Nearest {
    template <class T>
    static T of(T a) {
        return result(std::nearbyint(a));
    }
};
struct Down {
    template <class T>
    static T of(T a) {
        return result(std::floor(a));
    }
};
struct Up {
    template <class T>
    static T of(T a) {
        return result(std::ceil(a));
    }
};
struct ToZero {
    template <class T>
    static T of(T a) {
        return result(std::trunc(a));
    }
};
// To an integer: the nearest number that the type has; NaN is 0, but the highest bit if either type has 64 bits.
template <class Rounding, class D>
struct ToInteger {
    template <class T>
    static D of(T a) {
        if (a != a) return sizeof(T) == 8 || sizeof(D) == 8 ? D(D(1) << (8 * sizeof(D) - 1)) : D(0);
        const T whole = Rounding::of(a);
        // A power of two, which every type of floats has.
        const T end = std::ldexp(T(1), int(8 * sizeof(D)) - std::is_signed_v<D>);
        if (whole >= end) return std::numeric_limits<D>::max();
        if (whole < (std::is_signed_v<D> ? -end : T(0))) return std::numeric_limits<D>::min();
        return D(whole);
    }
};
template <class D>
struct To {
    template <class T>
    static D of(T a) {
        if constexpr (std::is_integral_v<D>) return D(a);
        else return result(D(a));
    }
};
struct FromHalf {
    static f32 of(f16 a) {
        const u32 exponent = a.bits >> 10 & 31, fraction = a.bits & 1023;
        const f32 sign = a.bits >> 15 ? -1.0f : 1.0f;
        if (exponent == 31) return fraction == 0 ? sign * INFINITY : result(NAN);
        if (exponent == 0) return sign * std::ldexp(f32(fraction), -24);
        return sign * std::ldexp(f32(1024 + fraction), int(exponent) - 25);
    }
};
// To the nearest half, the even one of two.
struct ToHalf {
    static f16 of(f32 a) {
        const u16 sign = std::signbit(a) ? 0x8000 : 0;
        if (a != a) return {0x7fff};
        const f32 size = std::fabs(a);
        if (size >= 65520.0f) return {u16(sign | 0x7c00)};
        if (size == 0) return {sign};
        // The distance of halves around it: 2^-24 for the smallest.
        int exponent = 0;
        std::frexp(size, &exponent);
        const int unit = std::max(exponent - 11, -24);
        const u32 units = u32(std::nearbyint(std::ldexp(size, -unit)));
        // A carry into the exponent is what the next number needs.
        return {u16(sign | (u32(unit + 24) * 1024 + units))};
    }
};
// Two of them: the first in the upper half.
struct ToHalves {
    static u32 of(f32 a, f32 b) { return u32(ToHalf::of(a).bits) << 16 | ToHalf::of(b).bits; }
};
// The same of what is the upper half of a binary32, the even one of two.
struct ToUpperHalves {
    static u32 upper(f32 a) {
        if (a != a) return 0x7fff;
        return (bits_of(a) + 0x7fff + (bits_of(a) >> 16 & 1)) >> 16;
    }
    static u32 of(f32 a, f32 b) { return upper(a) << 16 | upper(b); }
};
// Devices are within two units in the last place; what is less than the least normal number is 0.
struct RaiseTwo {
    static f32 of(f32 a) {
        const f32 y = f32(std::exp2(f64(a)));
        return result(y < std::numeric_limits<f32>::min() ? 0.0f : y);
    }
};
// To ten bits of fraction, the larger one of two.
struct ToTf32 {
    static tf32 of(f32 a) {
        if (a != a) return {0x7fffffff};
        if (std::isinf(a)) return {bits_of(a)};
        return {(bits_of(a) + 0x1000) & ~0x1fffu};
    }
};

}  // namespace operations
}  // namespace ptx
}  // namespace driver_double
