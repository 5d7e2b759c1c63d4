// What a thread does with others of its warp and block, and where it goes: chapters 9.7.12 and 9.7.13 of the manual.
#include <algorithm>
#include <cstdio>

#include "ptx.h"

namespace driver_double {
namespace ptx {
namespace {

const char *const NAME = "PTX";

enum class Way { UP, DOWN, BUTTERFLY, INDEX };

// d|p, a, b, c, mask: s are a, b, c and the mask; p is in `more`.
template <Way WAY>
void shuffle(Frame &frame, const Instruction &i) {
    for (const uint32_t slot : {i.s[1], i.s[2], i.s[3]}) need<uint32_t>(frame, i, slot, "an operand was never computed");
    const unsigned lane = emu::running.thread->lane;
    const unsigned by = get<uint32_t>(frame, i.s[1]) & 31, clamp = get<uint32_t>(frame, i.s[2]);
    const unsigned segment = clamp >> 8 & 31;
    const unsigned first = lane & segment, last = first | (clamp & 31 & ~segment);
    unsigned source = 0;
    bool inside = false;
    switch (WAY) {
    case Way::UP:
        source = lane - by;
        inside = int(source) >= int(last);
        break;
    case Way::DOWN:
        source = lane + by;
        inside = source <= last;
        break;
    case Way::BUTTERFLY:
        source = lane ^ by;
        inside = source <= last;
        break;
    case Way::INDEX:
        source = first | (by & ~segment);
        inside = source <= last;
        break;
    }
    if (!inside) source = lane;
    const uint64_t sent = get<uint32_t>(frame, i.s[0]) | frame.unknown[i.s[0]] << 32;
    const uint64_t received = emu::shuffle(get<uint32_t>(frame, i.s[3]), sent, source);
    put<uint32_t>(frame, i.d, uint32_t(received));
    frame.unknown[i.d] = received >> 32;
    if (i.more != NULL) {
        put<bool>(frame, i.more->slots[0], inside);
    }
}

enum class Vote { BALLOT, ANY, ALL };

template <Vote VOTE>
void vote(Frame &frame, const Instruction &i) {
    need(frame, i, i.s[0], "the predicate was never computed");
    need(frame, i, i.s[1], "the mask was never computed");
    const unsigned mask = get<uint32_t>(frame, i.s[1]);
    const unsigned lanes = emu::ballot(mask, get<bool>(frame, i.s[0]));
    if (VOTE == Vote::BALLOT) put<uint32_t>(frame, i.d, lanes);
    else put<bool>(frame, i.d, VOTE == Vote::ANY ? lanes != 0 : lanes == mask);
}

enum class Joined { COUNT, ANY, ALL };

template <Joined JOINED>
void reduce(Frame &frame, const Instruction &i) {
    need(frame, i, i.s[0], "the predicate was never computed");
    const int count = emu::count_block(NAME, int(i.line), get<bool>(frame, i.s[0]));
    const uint3 b = emu::running.block_dim;
    if (JOINED == Joined::COUNT) put<uint32_t>(frame, i.d, uint32_t(count));
    else put<bool>(frame, i.d, JOINED == Joined::ANY ? count > 0 : unsigned(count) == b.x * b.y * b.z);
}

template <emu::Element ELEMENT>
void product(Frame &frame, const Instruction &i) {
    const bool is_quarter = ELEMENT == emu::Element::S8_8X8X16, is_half = ELEMENT == emu::Element::F16_16X8X8;
    const unsigned d = is_quarter ? 2 : 4, a = is_quarter ? 1 : is_half ? 2 : 4, b = (a + 1) / 2;
    const std::vector<uint32_t> &slots = i.more->slots;
    uint32_t left[4], right[2], sums[4];
    for (unsigned k = 0; k < a; ++k) left[k] = get<uint32_t>(frame, slots[d + k]);
    for (unsigned k = 0; k < b; ++k) right[k] = get<uint32_t>(frame, slots[d + a + k]);
    for (unsigned k = 0; k < d; ++k) sums[k] = get<uint32_t>(frame, slots[d + a + b + k]);
    for (unsigned k = d; k < slots.size(); ++k) need(frame, i, slots[k], "an element of the product was never computed");
    emu::multiply_add(ELEMENT, left, right, sums);
    for (unsigned k = 0; k < d; ++k) {
        put<uint32_t>(frame, slots[k], sums[k]);
    }
}

struct Product {
    const char *form;
    Handler run;
    unsigned counts[4];
};
const Product PRODUCTS[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", product<emu::Element::F16>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", product<emu::Element::BF16>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", product<emu::Element::TF32>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", product<emu::Element::F16_16X8X8>, {4, 2, 1, 4}},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", product<emu::Element::S8>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", product<emu::Element::U8>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", product<emu::Element::U8_S8>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", product<emu::Element::S8_U8>, {4, 4, 2, 4}},
    {"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", product<emu::Element::S8_8X8X16>, {2, 1, 1, 2}},
};

}  // namespace

void branch(Frame &frame, const Instruction &i) { frame.next = &frame.entry->program->code[size_t(i.offset)]; }

void call(Frame &frame, const Instruction &i) {
    const More &more = *i.more;
    if (frame.depth == sizeof frame.calls / sizeof *frame.calls) fault(frame, i, LAUNCH_FAILED, "calls without end");
    for (const Copy &copy : more.arguments) {
        memcpy(frame.locals + copy.to, frame.locals + copy.from, copy.size);
        memcpy(frame.locals_unknown + copy.to, frame.locals_unknown + copy.from, copy.size);
    }
    std::fill(frame.unknown + more.first, frame.unknown + more.end, ~uint64_t(0));
    frame.calls[frame.depth++] = &i;
    branch(frame, i);
}

void leave(Frame &frame, const Instruction &) {
    if (frame.depth == 0) {
        frame.next = NULL;
        return;
    }
    const Instruction *caller = frame.calls[--frame.depth];
    for (const Copy &copy : caller->more->results) {
        memcpy(frame.locals + copy.to, frame.locals + copy.from, copy.size);
        memcpy(frame.locals_unknown + copy.to, frame.locals_unknown + copy.from, copy.size);
    }
    frame.next = caller + 1;
}

void barrier(Frame &, const Instruction &i) { emu::sync_block(NAME, int(i.line)); }
void counted_barrier(Frame &frame, const Instruction &i) {
    need(frame, i, i.s[0], "the number of threads was never computed");
    const uint3 b = emu::running.block_dim;
    // Threads come in whole warps.
    const unsigned all = (b.x * b.y * b.z + 31) / 32 * 32, wanted = get<uint32_t>(frame, i.s[0]);
    if (wanted != all) {
        char what[96];
        snprintf(what, sizeof what, "a barrier for %u threads in a block of %u", wanted, b.x * b.y * b.z);
        fault(frame, i, LAUNCH_FAILED, what);
    }
    barrier(frame, i);
}
void warp_barrier(Frame &frame, const Instruction &i) {
    need(frame, i, i.s[0], "the mask was never computed");
    emu::sync_warp(get<uint32_t>(frame, i.s[0]), emu::Together::BARRIER);
}

Handler reduction_of(const std::string &form) {
    if (form == "bar.red.popc.u32") return reduce<Joined::COUNT>;
    if (form == "bar.red.or.pred") return reduce<Joined::ANY>;
    if (form == "bar.red.and.pred") return reduce<Joined::ALL>;
    return NULL;
}
Handler shuffle_of(const std::string &form) {
    if (form == "shfl.sync.up.b32") return shuffle<Way::UP>;
    if (form == "shfl.sync.down.b32") return shuffle<Way::DOWN>;
    if (form == "shfl.sync.bfly.b32") return shuffle<Way::BUTTERFLY>;
    if (form == "shfl.sync.idx.b32") return shuffle<Way::INDEX>;
    return NULL;
}
Handler vote_of(const std::string &form) {
    if (form == "vote.sync.ballot.b32") return vote<Vote::BALLOT>;
    if (form == "vote.sync.any.pred") return vote<Vote::ANY>;
    if (form == "vote.sync.all.pred") return vote<Vote::ALL>;
    return NULL;
}
Handler product_of(const std::string &form, unsigned counts[4]) {
    for (const Product &one : PRODUCTS) {
        if (form != one.form) continue;
        memcpy(counts, one.counts, sizeof one.counts);
        return one.run;
    }
    return NULL;
}

// The parts of a register, lowest first; `offset` are the bits of a part.
void pack(Frame &frame, const Instruction &i) {
    const uint64_t part = (uint64_t(1) << i.offset) - 1;
    uint64_t whole = 0, unknown = 0;
    for (size_t k = 0; k < i.more->slots.size(); ++k) {
        whole |= (frame.slots[i.more->slots[k]] & part) << (uint64_t(i.offset) * k);
        unknown |= (frame.unknown[i.more->slots[k]] & part) << (uint64_t(i.offset) * k);
    }
    frame.slots[i.d] = whole;
    frame.unknown[i.d] = unknown;
}
void unpack(Frame &frame, const Instruction &i) {
    const uint64_t part = (uint64_t(1) << i.offset) - 1;
    const uint64_t whole = frame.slots[i.s[0]], unknown = frame.unknown[i.s[0]];
    for (size_t k = 0; k < i.more->slots.size(); ++k) {
        frame.slots[i.more->slots[k]] = whole >> (uint64_t(i.offset) * k) & part;
        frame.unknown[i.more->slots[k]] = unknown >> (uint64_t(i.offset) * k) & part;
    }
}

}  // namespace ptx
}  // namespace driver_double
