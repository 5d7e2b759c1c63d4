// The forms of at most one destination, each with its operation and the types of its operands.
#include "operations.h"

namespace driver_double {
namespace ptx {
namespace {

using namespace operations;

template <class T>
Type type_of() {
    if constexpr (std::is_same_v<T, bool>) return {'p', 1};
    else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, f16>) return {'f', 8 * sizeof(T)};
    else if constexpr (std::is_same_v<T, tf32>) return {'b', 32};
    else if constexpr (std::is_signed_v<T>) return {'s', 8 * sizeof(T)};
    else return {'u', 8 * sizeof(T)};
}

// How many sources an operation moves, bit by bit, to where the others say; 0 if it computes.
template <class Operation>
constexpr size_t moved = 0;
template <>
constexpr size_t moved<Same> = 1;
template <>
constexpr size_t moved<Left> = 1;
template <>
constexpr size_t moved<Right> = 1;
template <>
constexpr size_t moved<Extract> = 1;
template <>
constexpr size_t moved<Insert> = 2;
template <>
constexpr size_t moved<Permute> = 2;
template <>
constexpr size_t moved<FunnelLeftWrap> = 2;
template <>
constexpr size_t moved<FunnelRightWrap> = 2;
template <>
constexpr size_t moved<FunnelLeftClamp> = 2;
template <>
constexpr size_t moved<FunnelRightClamp> = 2;

// What is not known of a result of which not all sources are: the bits that come from there, or all.
template <class Operation, class D, class... S, size_t... K>
uint64_t unknown_of(const Frame &frame, const Instruction &i, std::index_sequence<K...>) {
    if constexpr (moved<Operation> > 0) {
        if (((K < moved<Operation> || is_known<S>(frame, i.s[K])) && ...)) {
            return slot_of<D>(Operation::of(get<S>(K < moved<Operation> ? frame.unknown : frame.slots, i.s[K])...));
        }
    }
    return ~uint64_t(0);
}
template <class Operation, class D, class... S, size_t... K>
void apply(Frame &frame, const Instruction &i, std::index_sequence<K...> all) {
    const uint64_t unknown = (is_known<S>(frame, i.s[K]) && ...) ? 0 : unknown_of<Operation, D, S...>(frame, i, all);
    put<D>(frame, i.d, Operation::of(get<S>(frame, i.s[K])...));
    frame.unknown[i.d] = unknown;
}
template <class Operation, class D, class... S>
void operate(Frame &frame, const Instruction &i) {
    apply<Operation, D, S...>(frame, i, std::index_sequence_for<S...>());
}
// What decides a bit alone needs no other one: zeros of And, ones of Or.
template <class Operation, class T, bool DECIDES>
void connect(Frame &frame, const Instruction &i) {
    const uint64_t a = frame.slots[i.s[0]], b = frame.slots[i.s[1]];
    const uint64_t no_a = frame.unknown[i.s[0]], no_b = frame.unknown[i.s[1]];
    const uint64_t open_a = no_a | (DECIDES ? ~a : a), open_b = no_b | (DECIDES ? ~b : b);
    const uint64_t all = std::is_same_v<T, bool> ? 1 : ~uint64_t(0) >> (64 - 8 * sizeof(T));
    put<T>(frame, i.d, Operation::of(get<T>(frame, i.s[0]), get<T>(frame, i.s[1])));
    frame.unknown[i.d] = (no_a | no_b) & open_a & open_b & all;
}
void select(Frame &frame, const Instruction &i) {
    const uint32_t from = i.s[get<bool>(frame, i.s[2]) ? 0 : 1];
    const uint64_t unknown = is_known<bool>(frame, i.s[2]) ? frame.unknown[from] : ~uint64_t(0);
    frame.slots[i.d] = frame.slots[from];
    frame.unknown[i.d] = unknown;
}
// Into a register that may be wider than the type.
template <class D, class S>
void widen(Frame &frame, const Instruction &i) {
    const uint64_t unknown = uint64_t(int64_t(D(get<S>(frame.unknown, i.s[0])))) & i.mask;
    frame.slots[i.d] = uint64_t(int64_t(D(get<S>(frame, i.s[0])))) & i.mask;
    frame.unknown[i.d] = unknown;
}

struct Forms {
    std::unordered_map<std::string, Form> table;

    template <class Operation, class D, class... S>
    void add(const std::string &name) {
        table[name] = {operate<Operation, D, S...>, type_of<D>(), {type_of<S>()...}, name.compare(0, 4, "cvt.") == 0, false};
    }
    template <class T>
    void integers(const std::string &t) {
        add<Add, T, T, T>("add." + t);
        add<Subtract, T, T, T>("sub." + t);
        add<Multiply, T, T, T>("mul.lo." + t);
        add<MultiplyAdd, T, T, T, T>("mad.lo." + t);
        add<Divide, T, T, T>("div." + t);
        add<Rest, T, T, T>("rem." + t);
        add<Least, T, T, T>("min." + t);
        add<Largest, T, T, T>("max." + t);
        add<Right, T, T, u32>("shr." + t);
        equal<T>(t);
        ordered<T>(t);
        if constexpr (std::is_signed_v<T>) {
            add<Negate, T, T>("neg." + t);
            add<Absolute, T, T>("abs." + t);
        }
        if constexpr (sizeof(T) >= 4) {
            add<High, T, T, T>("mul.hi." + t);
            add<Extract, T, T, u32, u32>("bfe." + t);
        }
        if constexpr (sizeof(T) <= 4) {
            typedef decltype(Wide::of(T(), T())) D;
            add<Wide, D, T, T>("mul.wide." + t);
            add<WideAdd, D, T, T, D>("mad.wide." + t);
        }
    }
    template <class T>
    void bits(const std::string &t) {
        table["and." + t] = {connect<And, T, false>, type_of<T>(), {type_of<T>(), type_of<T>()}, false, false};
        table["or." + t] = {connect<Or, T, true>, type_of<T>(), {type_of<T>(), type_of<T>()}, false, false};
        add<Xor, T, T, T>("xor." + t);
        add<Not, T, T>("not." + t);
        if constexpr (!std::is_same_v<T, bool>) {
            add<Left, T, T, u32>("shl." + t);
            equal<T>(t);
            if constexpr (sizeof(T) >= 4) {
                add<Insert, T, T, T, u32, u32>("bfi." + t);
                add<CountOnes, u32, T>("popc." + t);
                add<CountZeros, u32, T>("clz." + t);
                add<Reverse, T, T>("brev." + t);
            }
        }
    }
    template <class T>
    void equal(const std::string &t) {
        add<Eq, bool, T, T>("setp.eq." + t);
        add<Ne, bool, T, T>("setp.ne." + t);
    }
    template <class T>
    void ordered(const std::string &t) {
        add<Lt, bool, T, T>("setp.lt." + t);
        add<Le, bool, T, T>("setp.le." + t);
        add<Gt, bool, T, T>("setp.gt." + t);
        add<Ge, bool, T, T>("setp.ge." + t);
    }
    template <class T>
    void floats(const std::string &t) {
        add<Add, T, T, T>("add.rn." + t);
        add<Subtract, T, T, T>("sub.rn." + t);
        add<Multiply, T, T, T>("mul.rn." + t);
        add<Fused, T, T, T, T>("fma.rn." + t);
        add<Divide, T, T, T>("div.rn." + t);
        add<Root, T, T>("sqrt.rn." + t);
        add<Negate, T, T>("neg." + t);
        add<Absolute, T, T>("abs." + t);
        add<Least, T, T, T>("min." + t);
        add<Largest, T, T, T>("max." + t);
        equal<T>(t);
        ordered<T>(t);
        add<Equ, bool, T, T>("setp.equ." + t);
        add<Neu, bool, T, T>("setp.neu." + t);
        add<Ltu, bool, T, T>("setp.ltu." + t);
        add<Leu, bool, T, T>("setp.leu." + t);
        add<Gtu, bool, T, T>("setp.gtu." + t);
        add<Geu, bool, T, T>("setp.geu." + t);
        add<Num, bool, T, T>("setp.num." + t);
        add<Nan, bool, T, T>("setp.nan." + t);
        add<Nearest, T, T>("cvt.rni." + t + "." + t);
        add<ToZero, T, T>("cvt.rzi." + t + "." + t);
        add<Down, T, T>("cvt.rmi." + t + "." + t);
        add<Up, T, T>("cvt.rpi." + t + "." + t);
        whole<T, u16>(t, "u16");
        whole<T, s16>(t, "s16");
        whole<T, u32>(t, "u32");
        whole<T, s32>(t, "s32");
        whole<T, u64>(t, "u64");
        whole<T, s64>(t, "s64");
        add<To<T>, T, u8>("cvt.rn." + t + ".u8");
        add<To<T>, T, s8>("cvt.rn." + t + ".s8");
    }
    // Between a type of floats and one of integers.
    template <class T, class I>
    void whole(const std::string &t, const std::string &i) {
        add<To<T>, T, I>("cvt.rn." + t + "." + i);
        add<ToInteger<Nearest, I>, I, T>("cvt.rni." + i + "." + t);
        add<ToInteger<ToZero, I>, I, T>("cvt.rzi." + i + "." + t);
        add<ToInteger<Down, I>, I, T>("cvt.rmi." + i + "." + t);
        add<ToInteger<Up, I>, I, T>("cvt.rpi." + i + "." + t);
    }
    template <class D, class S>
    void between(const std::string &d, const std::string &s) {
        table["cvt." + d + "." + s] = {widen<D, S>, type_of<D>(), {type_of<S>()}, true, true};
    }
    template <class D>
    void from_all(const std::string &d) {
        between<D, u8>(d, "u8");
        between<D, s8>(d, "s8");
        between<D, u16>(d, "u16");
        between<D, s16>(d, "s16");
        between<D, u32>(d, "u32");
        between<D, s32>(d, "s32");
        between<D, u64>(d, "u64");
        between<D, s64>(d, "s64");
    }
    template <class T>
    void moves(const std::string &t) {
        add<Same, T, T>("mov." + t);
        table["selp." + t] = {select, type_of<T>(), {type_of<T>(), type_of<T>(), type_of<bool>()}, false, false};
    }

    Forms() {
        integers<u16>("u16");
        integers<s16>("s16");
        integers<u32>("u32");
        integers<s32>("s32");
        integers<u64>("u64");
        integers<s64>("s64");
        bits<u16>("b16");
        bits<u32>("b32");
        bits<u64>("b64");
        bits<bool>("pred");
        floats<f32>("f32");
        floats<f64>("f64");
        for (const char *kind : {"u", "s", "b"}) {
            moves<u16>(std::string(kind) + "16");
            moves<u32>(std::string(kind) + "32");
            moves<u64>(std::string(kind) + "64");
        }
        moves<u32>("f32");
        moves<u64>("f64");
        add<Same, bool, bool>("mov.pred");
        from_all<u8>("u8");
        from_all<s8>("s8");
        from_all<u16>("u16");
        from_all<s16>("s16");
        from_all<u32>("u32");
        from_all<s32>("s32");
        from_all<u64>("u64");
        from_all<s64>("s64");
        add<To<f64>, f64, f32>("cvt.f64.f32");
        add<To<f32>, f32, f64>("cvt.rn.f32.f64");
        add<FromHalf, f32, f16>("cvt.f32.f16");
        add<ToHalf, f16, f32>("cvt.rn.f16.f32");
        add<ToTf32, tf32, f32>("cvt.rna.tf32.f32");
        add<ToHalves, u32, f32, f32>("cvt.rn.f16x2.f32");
        add<ToUpperHalves, u32, f32, f32>("cvt.rn.bf16x2.f32");
        add<RaiseTwo, f32, f32>("ex2.approx.ftz.f32");
        add<Permute, u32, u32, u32, u32>("prmt.b32");
        add<FunnelLeftWrap, u32, u32, u32, u32>("shf.l.wrap.b32");
        add<FunnelRightWrap, u32, u32, u32, u32>("shf.r.wrap.b32");
        add<FunnelLeftClamp, u32, u32, u32, u32>("shf.l.clamp.b32");
        add<FunnelRightClamp, u32, u32, u32, u32>("shf.r.clamp.b32");
        // Generic addresses are those of device memory, which need no change.
        add<Same, u64, u64>("cvta.to.global.u64");
    }
};

}  // namespace

const std::unordered_map<std::string, Form> &forms() {
    static const Forms all;
    return all.table;
}

}  // namespace ptx
}  // namespace driver_double
