// Products of fragments of a warp, as mma.sync has them, and loads of their matrices, as ldmatrix has them: by the tables of the
// PTX manual, element by element, and in other words than the kernels use.
#include "double.h"

#include <cmath>

namespace driver_double {
namespace {

// Both matrices of a product, put together by the lanes of a warp: rows of A, columns of B.
struct Matrices {
    double rows[16][32], columns[8][32];
};
Matrices matrices[emu::MAX_THREADS / 32][2];

// A number of EXPONENT and MANTISSA bits.
double number(unsigned bits, int exponent, int mantissa) {
    const double sign = bits >> (exponent + mantissa) & 1 ? -1 : 1;
    const int all = (1 << exponent) - 1, biased = int(bits >> mantissa) & all, bias = all >> 1;
    const double fraction = double(bits & ((1u << mantissa) - 1)) / double(1u << mantissa);
    if (biased == all) return fraction == 0 ? sign * INFINITY : NAN;
    return sign * (biased == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, biased - bias));
}

// The numbers of 16 bits of a type, by their bits.
struct Numbers {
    double of[1 << 16];
    Numbers(int exponent, int mantissa) {
        for (unsigned bits = 0; bits < 1u << 16; ++bits) of[bits] = number(bits, exponent, mantissa);
    }
};
// Made when first asked for: most processes multiply none.
const Numbers &halves() {
    static const Numbers all(5, 10);
    return all;
}
const Numbers &brain_floats() {
    static const Numbers all(8, 7);
    return all;
}

// Element `i` of a lane's registers, counted from the lowest bits of the first.
double element(emu::Element type, const unsigned *words, int i) {
    switch (type) {
    case emu::Element::F16:
    case emu::Element::F16_16X8X8: return halves().of[words[i / 2] >> (i % 2 * 16) & 0xffff];
    case emu::Element::BF16: return brain_floats().of[words[i / 2] >> (i % 2 * 16) & 0xffff];
    case emu::Element::TF32: {
        // A binary32 number without its last 13 bits.
        const unsigned bits = words[i] & ~0x1fffu;
        float result;
        memcpy(&result, &bits, sizeof result);
        return result;
    }
    case emu::Element::S8:
    case emu::Element::S8_8X8X16: return double(int8_t(words[i / 4] >> (i % 4 * 8)));
    default: return double(uint8_t(words[i / 4] >> (i % 4 * 8)));
    }
}

// The rows of the matrices that a warp loads, by the lanes that name them, and which bits of them nobody has computed.
struct Rows {
    unsigned char bytes[32][16], unknown[32][16];
};
Rows loaded[emu::MAX_THREADS / 32][2];

// The type of A, and of B.
emu::Element left(emu::Element type) {
    return type == emu::Element::U8_S8 ? emu::Element::U8 : type == emu::Element::S8_U8 ? emu::Element::S8 : type;
}
emu::Element right(emu::Element type) {
    return type == emu::Element::U8_S8 ? emu::Element::S8 : type == emu::Element::S8_U8 ? emu::Element::U8 : type;
}

}  // namespace
}  // namespace driver_double

using namespace driver_double;

void emu::multiply_add(Element type, const unsigned *a, const unsigned *b, void *c) {
    const Thread *me = running.thread;
    Matrices &both = matrices[me->warp][exchange_row(me)];
    const bool is_quarter = type == Element::S8_8X8X16, is_half = type == Element::F16_16X8X8;
    const int k_of[] = {16, 16, 8, 32, 32, 32, 32, 8, 16};
    const int depth = k_of[int(type)], height = is_quarter ? 8 : 16;
    const int group = int(me->lane) >> 2, member = int(me->lane) % 4;
    for (int i = 0; i < depth * height / 32; ++i) {
        int row = 0, k = 0;
        switch (type) {
        case Element::F16:
        case Element::BF16:
            row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
            k = member * 2 + (i & 1) + (i >= 4 ? 8 : 0);
            break;
        case Element::TF32:
            row = i == 0 || i == 2 ? group : group + 8;
            k = i == 0 || i == 1 ? member : member + 4;
            break;
        case Element::F16_16X8X8:
            row = i < 2 ? group : group + 8;
            k = member * 2 + (i & 1);
            break;
        case Element::S8_8X8X16:
            row = group;
            k = member * 4 + i;
            break;
        default:
            row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
            k = member * 4 + (i & 3) + (i >= 8 ? 16 : 0);
            break;
        }
        both.rows[row][k] = element(left(type), a, i);
    }
    for (int i = 0; i < depth / 4; ++i) {
        int k = 0;
        switch (type) {
        case Element::F16:
        case Element::BF16: k = member * 2 + (i & 1) + (i >= 2 ? 8 : 0); break;
        case Element::TF32: k = i == 0 ? member : member + 4; break;
        case Element::F16_16X8X8: k = member * 2 + i; break;
        case Element::S8_8X8X16: k = member * 4 + i; break;
        default: k = member * 4 + (i & 3) + (i >= 4 ? 16 : 0); break;
        }
        both.columns[group][k] = element(right(type), b, i);
    }
    sync_warp(~0u, Together::MATRIX);
    // All of a lane side by side, as each of the sums waits for itself.
    double sums[4] = {0, 0, 0, 0};
    const double *const rows[2] = {both.rows[group], both.rows[height == 16 ? group + 8 : group]};
    const double *const columns[2] = {both.columns[member * 2], both.columns[member * 2 + 1]};
    for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < 4; ++i) sums[i] += rows[i / 2][k] * columns[i % 2][k];
    }
    for (int i = 0; i < height / 4; ++i) {
        const double sum = sums[i];
        // Devices sum in an order and to a precision that the manual leaves open; bytes are exact and wrap.
        if (type >= Element::S8 && !is_half) {
            int *to = static_cast<int *>(c) + i;
            *to = int(unsigned(*to) + unsigned(int(sum)));
        } else {
            float *to = static_cast<float *>(c) + i;
            *to = float(*to + sum);
        }
    }
}

void emu::load_matrices(const void *row, unsigned count, bool transposed, unsigned *to, unsigned *unknown) {
    const Thread *me = running.thread;
    Rows &rows = loaded[me->warp][exchange_row(me)];
    if (me->lane < 8 * count) {
        touch(const_cast<void *>(row), 16, false);
        memcpy(rows.bytes[me->lane], row, 16);
        for (unsigned k = 0; k < 16 && unknown != NULL; ++k) {
            rows.unknown[me->lane][k] = is_known(static_cast<const unsigned char *>(row) + k) ? 0 : 0xFF;
        }
    }
    sync_warp(~0u, Together::LOAD);
    // Numbers 2 * (lane % 4) and the next of row lane / 4; of columns where rows change places with them.
    const unsigned line = me->lane >> 2, first = me->lane % 4 * 2;
    for (unsigned m = 0; m < count; ++m) {
        const auto word = [&](const unsigned char (&from)[32][16]) {
            unsigned result = 0;
            for (unsigned half = 0; half < 2; ++half) {
                const unsigned r = transposed ? first + half : line, c = transposed ? line : first + half;
                uint16_t number;
                memcpy(&number, &from[8 * m + r][2 * c], sizeof number);
                result |= unsigned(number) << (16 * half);
            }
            return result;
        };
        to[m] = word(rows.bytes);
        if (unknown != NULL) unknown[m] = word(rows.unknown);
    }
}
