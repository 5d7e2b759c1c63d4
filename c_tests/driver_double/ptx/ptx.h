// PTX texts, decoded and executed: what NVRTC made of the kernels, as the driver double runs it thread by thread.
//
// A text becomes a list of instructions, each with the function that does what the manual (PTX ISA 8.0) says of its form:
// opcode and all of its suffixes. A form that no table here has is refused when the text is loaded, by line and name.
// Every operand is a slot of the thread's file: first constants and special registers, then the registers of the text.
// Threads are fibers, and barriers, shuffles, products of fragments and copies are those that host builds use, too.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../double.h"

namespace driver_double {
namespace ptx {

struct Frame;
struct Instruction;
struct Program;
typedef void (*Handler)(Frame &, const Instruction &);

// Registers that are read and written beside d and s: those of vectors and fragments; or what a call copies.
struct Copy {
    uint32_t to, from, size;
};
struct More {
    std::vector<uint32_t> slots;
    std::vector<Copy> arguments, results;
    // Of a function that is called: its registers.
    uint32_t first, end;
};

enum : uint32_t { ALWAYS = ~0u };

struct Instruction {
    Handler run;
    uint32_t d, s[4];
    // The slot of the predicate, ALWAYS if there is none, and the value of it that skips the instruction.
    uint32_t guard;
    bool skips_if;
    mutable bool executed;
    uint32_t line;
    // Offset of an address, target of a branch, or what else the form says.
    int64_t offset;
    // The bits that the destination has.
    uint64_t mask;
    const More *more;
    const char *form;
};

// Bytes of an address space that a name was declared for.
struct Extent {
    uint32_t start, size;
};

struct Entry : emu::Kernel {
    std::string label;
    Program *program;
    uint32_t start, end;
    unsigned max_threads;
    // .reqntid, zeros without it.
    uint3 threads;
    // Shared arrays that this kernel may touch, and their bytes.
    std::vector<Extent> shared;
    uint32_t shared_bytes;
    bool dynamic;
    mutable bool launched;
};

struct Program {
    std::vector<Instruction> code;
    std::deque<More> more;
    std::deque<std::string> texts;
    std::deque<Entry> entries;
    // Constants and special registers, which every thread begins with.
    std::vector<uint64_t> constants;
    std::vector<std::pair<uint32_t, uint32_t>> specials;
    uint32_t slots;
    // Bytes of parameters that calls pass.
    uint32_t locals;
};

// A thread at work.
struct Frame {
    uint64_t *slots;
    // The bits of a slot that nobody has computed: they may be moved, but not be stored or decide anything.
    uint64_t *unknown;
    const Instruction *next;
    const Instruction *calls[8];
    unsigned depth;
    unsigned char *locals, *locals_unknown;
    const unsigned char *parameter;
    const Entry *entry;
};

// Address spaces. Parameters of a kernel begin at PARAMETERS, what calls pass at LOCALS; static shared arrays at SHARED and
// the dynamic one at DYNAMIC: far from zero, and from each other.
enum : uint32_t { PARAMETERS = 0x1000, LOCALS = 0x10000, SHARED = 0x1000, DYNAMIC = 0x1000000, MAX_SHARED = 1u << 22 };

// A type as the suffixes have it: u, s, f, b or p for predicates, and its bits.
struct Type {
    char kind;
    unsigned bits;
};

// What stands behind the name of a form of at most one destination and four sources.
struct Form {
    Handler run;
    Type d;
    std::vector<Type> s;
    // Whether its sources, and its destination, may be registers that are wider than their types.
    bool wide_sources, wide_destination;
};
// forms.cpp
const std::unordered_map<std::string, Form> &forms();

// memory.cpp: the function for an access, NULL if there is none of that kind.
Handler access_of(bool store, const std::string &space, Type type, unsigned count);
void copy_async(Frame &frame, const Instruction &instruction);
void commit_copies(Frame &frame, const Instruction &instruction);
void wait_for_copies(Frame &frame, const Instruction &instruction);

// together.cpp: what lanes do together, and where a thread goes.
void branch(Frame &frame, const Instruction &instruction);
void call(Frame &frame, const Instruction &instruction);
void leave(Frame &frame, const Instruction &instruction);
void barrier(Frame &frame, const Instruction &instruction);
// One that says how many threads come to it.
void counted_barrier(Frame &frame, const Instruction &instruction);
void warp_barrier(Frame &frame, const Instruction &instruction);
// NULL if there is no such form; `counts` are the registers of D, A, B and C.
Handler reduction_of(const std::string &form);
Handler shuffle_of(const std::string &form);
Handler vote_of(const std::string &form);
Handler product_of(const std::string &form, unsigned counts[4]);
// Of ldmatrix, and how many matrices it loads.
Handler load_of_matrices(const std::string &form, unsigned *count);
// Mov between a register and a vector of parts.
void pack(Frame &frame, const Instruction &instruction);
void unpack(Frame &frame, const Instruction &instruction);

// decode.cpp: the program of a text, NULL and what is wrong if it is refused.
const Program *decode(const std::string &text, std::string *wrong);

// run.cpp
void run_thread(const void *parameter);
// Complains of an instruction, and leaves the kernel.
[[noreturn]] void fault(const Frame &frame, const Instruction &instruction, int code, const char *what);
// Whether all bits are known that a type reads of a slot.
template <class T>
inline bool is_known(const Frame &frame, uint32_t slot) {
    return (frame.unknown[slot] & (~uint64_t(0) >> (64 - 8 * sizeof(T)))) == 0;
}
// Complains of bits that were never computed.
template <class T = uint64_t>
inline void need(const Frame &frame, const Instruction &instruction, uint32_t slot, const char *what) {
    if (!is_known<T>(frame, slot)) fault(frame, instruction, LAUNCH_FAILED, what);
}

// What a slot of a file holds, slots or unknown bits.
template <class T>
inline T get(const uint64_t *file, uint32_t slot) {
    T value;
    memcpy(&value, &file[slot], sizeof value);
    return value;
}
// Bits of a predicate that was never computed are no bool.
template <>
inline bool get<bool>(const uint64_t *file, uint32_t slot) {
    return (file[slot] & 1) != 0;
}
template <class T>
inline T get(const Frame &frame, uint32_t slot) {
    return get<T>(frame.slots, slot);
}
template <class T>
inline uint64_t slot_of(T value) {
    uint64_t wide = 0;
    memcpy(&wide, &value, sizeof value);
    return wide;
}
// Puts a value into a slot, all of which is known then.
template <class T>
inline void put(Frame &frame, uint32_t slot, T value) {
    frame.slots[slot] = slot_of(value);
    frame.unknown[slot] = 0;
}

}  // namespace ptx
}  // namespace driver_double
