// Elementary functions: `dtype/math.rs`, operation by operation and to the same bits.
#pragma once

#include "device.cuh"

// A number whose sums, products and quotients are rounded one by one, never fused.
template <typename T>
struct Rounded {
    T value;
};

template <typename T>
__device__ __forceinline__ Rounded<T> operator+(Rounded<T> a, Rounded<T> b) {
    return {sum(a.value, b.value)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> operator-(Rounded<T> a, Rounded<T> b) {
    return {sum(a.value, -b.value)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> operator*(Rounded<T> a, Rounded<T> b) {
    return {product(a.value, b.value)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> operator/(Rounded<T> a, Rounded<T> b) {
    return {ratio(a.value, b.value)};
}
template <typename T>
__device__ __forceinline__ Rounded<T> operator-(Rounded<T> a) {
    return {-a.value};
}
template <typename T>
__device__ __forceinline__ bool operator<(Rounded<T> a, Rounded<T> b) {
    return a.value < b.value;
}
template <typename T>
__device__ __forceinline__ bool operator>(Rounded<T> a, Rounded<T> b) {
    return a.value > b.value;
}
template <typename T>
__device__ __forceinline__ bool operator<=(Rounded<T> a, Rounded<T> b) {
    return a.value <= b.value;
}
template <typename T>
__device__ __forceinline__ bool operator>=(Rounded<T> a, Rounded<T> b) {
    return a.value >= b.value;
}
template <typename T>
__device__ __forceinline__ bool operator==(Rounded<T> a, Rounded<T> b) {
    return a.value == b.value;
}

// The polynomial with these coefficients, the constant one first.
template <typename T>
__device__ __forceinline__ Rounded<T> polynomial(Rounded<T>, Rounded<T> c) {
    return c;
}
template <typename T, typename... Rest>
__device__ __forceinline__ Rounded<T> polynomial(Rounded<T> x, Rounded<T> c, Rest... rest) {
    return polynomial(x, rest...) * x + c;
}

// The same polynomial, even and odd powers apart.
template <typename T>
__device__ __forceinline__ Rounded<T> other_powers(Rounded<T>, Rounded<T> c) {
    return c;
}
template <typename T>
__device__ __forceinline__ Rounded<T> other_powers(Rounded<T>, Rounded<T> c, Rounded<T>) {
    return c;
}
template <typename T, typename... Rest>
__device__ __forceinline__ Rounded<T> other_powers(Rounded<T> square, Rounded<T> c, Rounded<T>, Rest... rest) {
    return other_powers(square, rest...) * square + c;
}
template <typename T, typename... Rest>
__device__ __forceinline__ Rounded<T> wide_polynomial(Rounded<T> x, Rounded<T> square, Rounded<T> c, Rest... rest) {
    return other_powers(square, c, rest...) + x * other_powers(square, rest...);
}

template <typename T>
struct Math;

template <>
struct Math<f32> {
    typedef u32 Bits;
    typedef Rounded<f32> R;
    enum : u32 { MANTISSA = 23, BIAS = 127 };
    static __device__ __forceinline__ f32 least_normal() { return bits_of<f32>(0x00800000u); }
    static __device__ __forceinline__ f32 infinity() { return bits_of<f32>(0x7f800000u); }
    static __device__ __forceinline__ f32 nan() { return bits_of<f32>(0x7fffffffu); }
    static __device__ __forceinline__ f32 tiny() { return 9.313226e-10f; }
    static __device__ __forceinline__ f32 shifter() { return 12582912.0f; }
    static __device__ __forceinline__ f32 log2_e() { return 1.442695f; }
    static __device__ __forceinline__ f32 ln2_high() { return 0.69314575f; }
    static __device__ __forceinline__ f32 ln2_low() { return 1.4286068e-6f; }
    static __device__ __forceinline__ f32 exp_low() { return -104.0f; }
    static __device__ __forceinline__ f32 exp_high() { return 89.0f; }
    static __device__ __forceinline__ f32 expm1_low() { return -30.0f; }
    static __device__ __forceinline__ f32 erf_high() { return 3.95f; }
    static __device__ __forceinline__ u32 root_half() { return 0x3f3504f3u; }
    static __device__ __forceinline__ R exp(R r, R square) {
        return wide_polynomial(r, square, R{0.5f}, R{0.16666667f}, R{0.041666508f}, R{0.00833318f}, R{0.001393088f},
                               R{0.00019969625f});
    }
    static __device__ __forceinline__ R log(R z) {
        return polynomial(z, R{0.6666666f}, R{0.40000972f}, R{0.28498793f}, R{0.24278815f});
    }
    static __device__ __forceinline__ R erf(R z) {
        return polynomial(z, R{0.12837917f}, R{-0.37612635f}, R{0.11283743f}, R{-0.02686355f}, R{0.005216406f},
                          R{-0.0008423232f}, R{0.00010858782f}, R{-8.577988e-6f});
    }
    static __device__ __forceinline__ R erfc(R u) {
        return polynomial(u, R{1.8496056f}, R{2.6389654f}, R{0.84313035f}, R{0.04146171f}, R{-0.009833928f},
                          R{0.0017887794f}, R{-0.00017668457f});
    }
};

template <>
struct Math<f64> {
    typedef u64 Bits;
    typedef Rounded<f64> R;
    enum : u32 { MANTISSA = 52, BIAS = 1023 };
    static __device__ __forceinline__ f64 least_normal() { return bits_of<f64>(0x0010000000000000ull); }
    static __device__ __forceinline__ f64 infinity() { return bits_of<f64>(0x7ff0000000000000ull); }
    static __device__ __forceinline__ f64 nan() { return bits_of<f64>(0x7fffffffffffffffull); }
    static __device__ __forceinline__ f64 tiny() { return 8.673617379884035e-19; }
    static __device__ __forceinline__ f64 shifter() { return 6755399441055744.0; }
    static __device__ __forceinline__ f64 log2_e() { return 1.4426950408889634; }
    static __device__ __forceinline__ f64 ln2_high() { return 0.6931471805601177; }
    static __device__ __forceinline__ f64 ln2_low() { return -1.7239444525614835e-13; }
    static __device__ __forceinline__ f64 exp_low() { return -746.0; }
    static __device__ __forceinline__ f64 exp_high() { return 710.0; }
    static __device__ __forceinline__ f64 expm1_low() { return -60.0; }
    static __device__ __forceinline__ f64 erf_high() { return 5.95; }
    static __device__ __forceinline__ u64 root_half() { return 0x3fe6a09e667f3bcdull; }
    static __device__ __forceinline__ R exp(R r, R square) {
        return wide_polynomial(r, square, R{0.5}, R{0.1666666666666667}, R{0.04166666666666667},
                               R{0.008333333333325874}, R{0.0013888888888882141}, R{0.00019841269875523209},
                               R{2.480158733009619e-05}, R{2.7557254657337665e-06}, R{2.755726881054038e-07},
                               R{2.5105486917609143e-08}, R{2.0916416615973896e-09});
    }
    static __device__ __forceinline__ R log(R z) {
        return polynomial(z, R{0.6666666666666735}, R{0.3999999999940937}, R{0.2857142874367084},
                          R{0.22222198431910276}, R{0.18183572152127025}, R{0.15313838077256972},
                          R{0.14798197267721283});
    }
    static __device__ __forceinline__ R erf(R z) {
        return polynomial(z, R{0.1283791670955126}, R{-0.37612638903183876}, R{0.11283791670958783},
                          R{-0.026866170645631897}, R{0.00522397762924565}, R{-0.0008548327199358272},
                          R{0.00012055338161400656}, R{-1.4925748180206354e-05}, R{1.6463247307130268e-06},
                          R{-1.6372371891698225e-07}, R{1.4798357234369911e-08}, R{-1.1876555591839105e-09},
                          R{6.762801638832501e-11});
    }
    static __device__ __forceinline__ R erfc(R u) {
        return polynomial(u, R{1.8496055099332482}, R{2.6389675142347926}, R{0.8431072563584442},
                          R{0.04156109804703683}, R{-0.010033825436939986}, R{0.0019779030205948358},
                          R{-0.00023732462850804484}, R{-2.627084498467429e-05}, R{2.714264067224729e-05},
                          R{-9.58059104374356e-06}, R{2.0234839088039874e-06}, R{-1.0783374986710776e-07},
                          R{-1.2314175220670693e-07}, R{6.614960195069612e-08}, R{-2.0732473593069645e-08},
                          R{4.628091225319023e-09}, R{-7.485705044110646e-10}, R{8.39199831844092e-11},
                          R{-5.84048233068798e-12}, R{1.8981564846082537e-13});
    }
};

// The zero that leaves every number it is added to as it is.
template <typename T>
__device__ __forceinline__ Rounded<T> nothing() {
    return {-T(0)};
}

// The number of type T that is written so.
template <typename T>
__device__ __forceinline__ Rounded<T> number(f64 x) {
    return {T(x)};
}

template <typename T>
__device__ __forceinline__ bool is_signed(Rounded<T> x) {
    typedef typename Math<T>::Bits Bits;
    return bits_of<Bits>(x.value) >> (8 * sizeof(T) - 1) != 0;
}

template <typename T>
__device__ __forceinline__ Rounded<T> without_sign(Rounded<T> x) {
    typedef typename Math<T>::Bits Bits;
    return {bits_of<T>(Bits(bits_of<Bits>(x.value) & (~Bits(0) >> 1)))};
}

template <typename T>
__device__ __forceinline__ Rounded<T> signed_as(Rounded<T> x, Rounded<T> other) {
    typedef typename Math<T>::Bits Bits;
    const Bits sign = bits_of<Bits>(other.value) & ~(~Bits(0) >> 1);
    return {bits_of<T>(Bits((bits_of<Bits>(x.value) & (~Bits(0) >> 1)) | sign))};
}

template <typename T>
__device__ __forceinline__ Rounded<T> clamped_to(Rounded<T> x, Rounded<T> low, Rounded<T> high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

template <typename T>
__device__ __forceinline__ Rounded<T> power_of_two(Rounded<T> shifted) {
    typedef typename Math<T>::Bits Bits;
    const Bits n = bits_of<Bits>(shifted.value) + Math<T>::BIAS;
    return {bits_of<T>(Bits(n << Math<T>::MANTISSA))};
}

template <typename T>
__device__ __forceinline__ Rounded<T> scaled(Rounded<T> x, Rounded<T> shifted) {
    typedef typename Math<T>::Bits Bits;
    const Bits n = bits_of<Bits>(shifted.value), half = n >> 1;
    const Rounded<T> first = {bits_of<T>(Bits((half + Math<T>::BIAS) << Math<T>::MANTISSA))};
    const Rounded<T> second = {bits_of<T>(Bits((n - half + Math<T>::BIAS) << Math<T>::MANTISSA))};
    return x * first * second;
}

// The number m in sqrt(1/2)..sqrt(2), and k, of 2^k m.
template <typename T>
struct Parts {
    Rounded<T> m, k;
};

template <typename T>
__device__ __forceinline__ Parts<T> parts(Rounded<T> x) {
    typedef typename Math<T>::Bits Bits;
    const u32 mantissa = Math<T>::MANTISSA;
    const Bits root = Math<T>::root_half(), mask = (Bits(1) << mantissa) - 1;
    const Bits offset = bits_of<Bits>(x.value) - root + (Bits(Math<T>::BIAS + 1) << mantissa);
    const T shifter = Math<T>::shifter();
    const Rounded<T> shifted = {bits_of<T>(Bits(bits_of<Bits>(shifter) + (offset >> mantissa)))};
    return {{bits_of<T>(Bits((offset & mask) + root))}, shifted - Rounded<T>{shifter + T(Math<T>::BIAS + 1)}};
}

// `n` above the shifter and `p`, of which e^x is 2^n (1 + p).
template <typename T>
struct Exponent {
    Rounded<T> shifted, p;
};

template <typename T>
__device__ __forceinline__ Exponent<T> exponent(Rounded<T> x) {
    typedef Math<T> M;
    typedef Rounded<T> R;
    const R shifted = x * R{M::log2_e()} + R{M::shifter()};
    const R n = shifted - R{M::shifter()};
    const R r = (x - n * R{M::ln2_high()}) - n * R{M::ln2_low()}, square = r * r;
    return {shifted, r + square * M::exp(r, square)};
}

template <typename T>
__device__ __forceinline__ Rounded<T> exp(Rounded<T> x) {
    typedef Rounded<T> R;
    const Exponent<T> e = exponent(clamped_to(x, R{Math<T>::exp_low()}, R{Math<T>::exp_high()}));
    return scaled(number<T>(1) + e.p, e.shifted);
}

template <typename T>
__device__ __forceinline__ Rounded<T> expm1(Rounded<T> x) {
    typedef Rounded<T> R;
    const Exponent<T> e = exponent(clamped_to(x, R{Math<T>::expm1_low()}, R{Math<T>::exp_high()}));
    const R half = power_of_two(e.shifted - number<T>(1));
    const R result = ((half - number<T>(0.5)) + half * e.p) * number<T>(2);
    return without_sign(x) < R{Math<T>::tiny()} ? x : result;
}

template <typename T>
__device__ __forceinline__ Rounded<T> sigmoid(Rounded<T> x) {
    typedef Rounded<T> R;
    const R one = number<T>(1), e = exp(-without_sign(x)), total = one + e;
    const R lost = e - (total - one);
    const R rough = e / total;
    const R s = rough - rough * lost;
    return is_signed(x) ? s : one - s;
}

template <typename T>
__device__ __forceinline__ Rounded<T> tanh(Rounded<T> x) {
    typedef Rounded<T> R;
    const R one = number<T>(1), half = number<T>(0.5), size = without_sign(x);
    const Exponent<T> parts = exponent(clamped_to(-(size + size), R{Math<T>::expm1_low()}, number<T>(0)));
    const R s = power_of_two(parts.shifted);
    const R e = s * parts.p;
    const R below = (one - s) - e;
    const R lost = ((one - s) - below) - e;
    const R q = below / ((one + s) + e) + half * lost;
    return signed_as(size < R{Math<T>::tiny()} ? x : q, x);
}

template <typename T>
__device__ __forceinline__ Rounded<T> logarithm(Parts<T> x, Rounded<T> lost) {
    typedef Rounded<T> R;
    const R f = x.m - number<T>(1);
    const R s = f / (number<T>(2) + f);
    const R z = s * s;
    const R r = z * Math<T>::log(z);
    const R half = number<T>(0.5) * f * f;
    const R low = x.k * R{Math<T>::ln2_low()} + lost;
    return x.k * R{Math<T>::ln2_high()} - ((half - (s * (half + r) + low)) - f);
}

template <typename T>
__device__ __forceinline__ Rounded<T> log(Rounded<T> x) {
    typedef Rounded<T> R;
    const R infinity = {Math<T>::infinity()};
    const bool is_small = x < R{Math<T>::least_normal()};
    const u32 raised = Math<T>::MANTISSA + 2;
    Parts<T> found = parts(is_small ? x * R{T(u64(1) << raised)} : x);
    found.k = found.k - (is_small ? R{T(raised)} : number<T>(0));
    R result = logarithm(found, number<T>(0));
    result = x < infinity ? result : x;
    result = x < number<T>(0) ? R{Math<T>::nan()} : result;
    return x == number<T>(0) ? -infinity : result;
}

template <typename T>
__device__ __forceinline__ Rounded<T> log1p(Rounded<T> x) {
    typedef Rounded<T> R;
    const R infinity = {Math<T>::infinity()}, one = number<T>(1), total = one + x;
    const R lost = x < one ? x - (total - one) : one - (total - x);
    R result = logarithm(parts(total), lost / total);
    result = x < infinity ? result : x;
    result = total < number<T>(0) ? R{Math<T>::nan()} : result;
    result = total == number<T>(0) ? -infinity : result;
    return without_sign(x) < R{Math<T>::tiny()} ? x : result;
}

template <typename T>
__device__ __forceinline__ Rounded<T> softplus(Rounded<T> x) {
    const Rounded<T> above = x < number<T>(0) ? number<T>(0) : x;
    return above + log1p(exp(-without_sign(x)));
}

template <typename T>
__device__ __forceinline__ Rounded<T> erf(Rounded<T> x) {
    typedef Rounded<T> R;
    const R one = number<T>(1), size = without_sign(x);
    const R small = x + x * Math<T>::erf(x * x);
    const R beyond = clamped_to(size, one, R{Math<T>::erf_high()}) - one;
    const R large = signed_as(one - exp(-Math<T>::erfc(beyond)), x);
    return size < one ? small : large;
}

// x^y for x >= 0, in binary64.
template <typename T>
__device__ __forceinline__ Rounded<T> power(Rounded<T> x, Rounded<T> y) {
    return {T(exp(Rounded<f64>{f64(y.value)} * log(Rounded<f64>{f64(x.value)})).value)};
}
