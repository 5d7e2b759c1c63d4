// Accesses to memory: every space by its own addresses, vectors as one access that is aligned as a whole.
#include <cstdio>

#include "ptx.h"

namespace driver_double {
namespace ptx {
namespace {

enum class Space { GLOBAL, SHARED, PARAMETER };

// What stands for shared memory of all kernels; arrays of a text lie apart from each other in it.
char shared_memory[MAX_SHARED] __attribute__((aligned(128)));

[[noreturn]] void outside(const Frame &frame, const Instruction &i, uint64_t address, size_t size, const char *space) {
    char what[160];
    snprintf(what, sizeof what, "%zu bytes at %#llx of %s memory, which no declaration covers", size,
             static_cast<unsigned long long>(address), space);
    fault(frame, i, ILLEGAL_ADDRESS, what);
}

// The host's place of an address of shared memory.
void *shared_at(const Frame &frame, const Instruction &i, uint64_t address, size_t size) {
    for (const Extent &array : frame.entry->shared) {
        const uint64_t from = address - SHARED - array.start;
        if (address >= SHARED + array.start && from < array.size && size <= array.size - from) {
            return shared_memory + (address - SHARED);
        }
    }
    if (frame.entry->dynamic && address >= DYNAMIC && address - DYNAMIC < MAX_DYNAMIC_SHARED) {
        return emu::running.dynamic_shared + (address - DYNAMIC);
    }
    outside(frame, i, address, size, "shared");
}

uint64_t address_of(const Frame &frame, const Instruction &i, uint32_t slot) {
    need(frame, i, slot, "the address was never computed");
    return frame.slots[slot] + uint64_t(i.offset);
}

// The bits of bytes of shared memory that nobody has computed.
template <class T>
T unknown_bytes(const unsigned char *shared) {
    if (are_known(shared, sizeof(T))) return 0;
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) bits |= driver_double::is_known(shared + i) ? 0 : uint64_t(255) << (8 * i);
    return T(bits);
}
template <class T>
void forget_bytes(const unsigned char *shared, T unknown) {
    for (size_t i = 0; i < sizeof(T); ++i) {
        if ((uint64_t(unknown) >> (8 * i) & 255) != 0) forget_known(shared + i);
    }
}

template <class T, unsigned N, bool STORE, Space SPACE>
void access(Frame &frame, const Instruction &i) {
    constexpr size_t size = N * sizeof(T);
    const uint64_t address = address_of(frame, i, i.s[0]);
    unsigned char *at = NULL;
    unsigned char *unknown_at = NULL;
    if constexpr (SPACE == Space::PARAMETER) {
        const bool local = address >= LOCALS;
        const uint64_t start = local ? address - LOCALS : address - PARAMETERS;
        const uint64_t end = local ? frame.entry->program->locals : frame.entry->size;
        if (start >= end || size > end - start || (STORE && !local)) outside(frame, i, address, size, "parameter");
        if (start % size != 0) fault(frame, i, MISALIGNED_ADDRESS, "a parameter off its alignment");
        at = local ? frame.locals + start : const_cast<unsigned char *>(frame.parameter) + start;
        if (local) unknown_at = frame.locals_unknown + start;
    } else {
        void *host = SPACE == Space::SHARED ? shared_at(frame, i, address, size) : reinterpret_cast<void *>(address);
        touch(host, size, STORE, &i);
        at = static_cast<unsigned char *>(host);
    }
    for (unsigned k = 0; k < N; ++k) {
        const uint32_t slot = N == 1 ? i.d : i.more->slots[k];
        unsigned char *part = at + k * sizeof(T);
        T value, unknown = 0;
        if (STORE) {
            memcpy(&unknown, &frame.unknown[slot], sizeof unknown);
            memcpy(part, &frame.slots[slot], sizeof value);
            // What nobody has computed may lie in shared memory, where tiles have edges, and go to functions.
            if (SPACE == Space::SHARED) {
                if (unknown != 0) forget_bytes(part, unknown);
            } else if (unknown_at != NULL) {
                memcpy(unknown_at + k * sizeof unknown, &unknown, sizeof unknown);
            } else if (unknown != 0) {
                fault(frame, i, LAUNCH_FAILED, "what is stored was never computed");
            }
        } else {
            memcpy(&value, part, sizeof value);
            if (SPACE == Space::SHARED) unknown = unknown_bytes<T>(part);
            if (unknown_at != NULL) memcpy(&unknown, unknown_at + k * sizeof unknown, sizeof unknown);
            // To the width of the register, by the sign of the type.
            frame.slots[slot] = uint64_t(int64_t(value)) & i.mask;
            frame.unknown[slot] = uint64_t(int64_t(unknown)) & i.mask;
        }
    }
}

template <class T, bool STORE, Space SPACE>
Handler of_count(unsigned count) {
    if (count == 1) return access<T, 1, STORE, SPACE>;
    if constexpr (sizeof(T) <= 8) {
        if (count == 2) return access<T, 2, STORE, SPACE>;
    }
    if constexpr (sizeof(T) <= 4) {
        if (count == 4) return access<T, 4, STORE, SPACE>;
    }
    return NULL;
}
template <bool STORE, Space SPACE>
Handler of_type(Type type, unsigned count) {
    const bool is_signed = type.kind == 's';
    switch (type.bits) {
    case 8: return is_signed ? of_count<int8_t, STORE, SPACE>(count) : of_count<uint8_t, STORE, SPACE>(count);
    case 16: return is_signed ? of_count<int16_t, STORE, SPACE>(count) : of_count<uint16_t, STORE, SPACE>(count);
    case 32: return is_signed ? of_count<int32_t, STORE, SPACE>(count) : of_count<uint32_t, STORE, SPACE>(count);
    case 64: return of_count<uint64_t, STORE, SPACE>(count);
    default: return NULL;
    }
}
template <Space SPACE>
Handler of_space(bool store, Type type, unsigned count) {
    return store ? of_type<true, SPACE>(type, count) : of_type<false, SPACE>(type, count);
}

}  // namespace

Handler access_of(bool store, const std::string &space, Type type, unsigned count) {
    if (type.kind == 'p') return NULL;
    if (space == "global") return of_space<Space::GLOBAL>(store, type, count);
    if (space == "shared") return of_space<Space::SHARED>(store, type, count);
    if (space == "param") return of_space<Space::PARAMETER>(store, type, count);
    return NULL;
}

// [d + s2], [s0 + s3], the bytes of the copy as the offset, and what of them is there in s1.
void copy_async(Frame &frame, const Instruction &i) {
    for (const uint32_t slot : {i.d, i.s[0], i.s[1]}) need(frame, i, slot, "an operand was never computed");
    const size_t bytes = size_t(i.offset);
    const uint64_t there = frame.slots[i.s[1]] & 0xffffffff;
    if (there != 0 && there != bytes) fault(frame, i, LAUNCH_FAILED, "a copy of which only a part is there");
    void *to = shared_at(frame, i, frame.slots[i.d] + frame.slots[i.s[2]], bytes);
    const uint64_t from = frame.slots[i.s[0]] + frame.slots[i.s[3]];
    emu::copy_async(to, reinterpret_cast<const void *>(from), there != 0, unsigned(bytes));
}
void commit_copies(Frame &, const Instruction &) { emu::commit_copies(); }
void wait_for_copies(Frame &, const Instruction &i) { emu::wait_for_copies(unsigned(i.offset)); }

namespace {

template <unsigned COUNT, bool TRANSPOSED>
void load_matrices(Frame &frame, const Instruction &i) {
    const uint64_t address = address_of(frame, i, i.s[0]);
    const bool names_row = emu::running.thread->lane < 8 * COUNT;
    const void *row = names_row ? shared_at(frame, i, address, 16) : NULL;
    unsigned words[COUNT], unknown[COUNT];
    emu::load_matrices(row, COUNT, TRANSPOSED, words, unknown);
    for (unsigned k = 0; k < COUNT; ++k) {
        frame.slots[i.more->slots[k]] = words[k];
        frame.unknown[i.more->slots[k]] = unknown[k];
    }
}

template <unsigned COUNT>
Handler load_of_matrices(const std::string &rest) {
    if (rest == ".shared.b16") return load_matrices<COUNT, false>;
    if (rest == ".trans.shared.b16") return load_matrices<COUNT, true>;
    return NULL;
}

}  // namespace

Handler load_of_matrices(const std::string &form, unsigned *count) {
    const std::string head = "ldmatrix.sync.aligned.m8n8.x";
    if (form.compare(0, head.size(), head) != 0 || form.size() == head.size()) return NULL;
    const std::string rest = form.substr(head.size() + 1);
    *count = unsigned(form[head.size()] - '0');
    switch (*count) {
    case 1: return load_of_matrices<1>(rest);
    case 2: return load_of_matrices<2>(rest);
    case 4: return load_of_matrices<4>(rest);
    default: return NULL;
    }
}

}  // namespace ptx
}  // namespace driver_double
