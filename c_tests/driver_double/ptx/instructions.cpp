// Operands and instructions of a PTX text: which form an opcode is, and whether its operands fit.
#include <algorithm>
#include <cstdlib>

#include "decoder.h"

namespace driver_double {
namespace ptx {
namespace {

uint64_t mask_of(unsigned bits) { return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1; }

}  // namespace

Type type_of(const Reader &reader, const std::string &text) {
    const char *digits = text.c_str() + 1;
    if (text == "pred") return {'p', 1};
    const int bits = text.empty() ? 0 : atoi(digits);
    if (text.empty() || strchr("busf", text[0]) == NULL || (bits != 8 && bits != 16 && bits != 32 && bits != 64)) {
        reader.refuse("\"" + text + "\" is no type");
    }
    return {text[0], unsigned(bits)};
}

More *Decoder::more(Instruction *made) {
    program->more.emplace_back();
    made->more = &program->more.back();
    return &program->more.back();
}

// Names ---------------------------------------------------------------------------------------------------------------

const Symbol *Decoder::find(const std::string &name) const {
    for (size_t i = scopes.size(); i-- > 0;) {
        const auto found = scopes[i].find(name);
        if (found != scopes[i].end()) return &found->second;
    }
    return NULL;
}

// %r5 is the fifth of those that %r<9> declares; a register may have a name of its own, too.
bool Decoder::find_register(const std::string &name, uint32_t *slot, Type *type) const {
    uint32_t number = 0;
    const Symbol *symbol = find(name);
    if (symbol == NULL) {
        const size_t digits = name.find_last_not_of("0123456789") + 1;
        if (digits == name.size()) return false;
        symbol = find(name.substr(0, digits) + "<");
        number = uint32_t(atoi(name.c_str() + digits));
    }
    if (symbol == NULL || symbol->kind != Symbol::REGISTERS || number >= symbol->size) return false;
    *slot = REGISTER | (symbol->start + number);
    *type = symbol->type;
    return true;
}

uint32_t Decoder::constant(uint64_t value) {
    const auto known = constants.find(value);
    if (known != constants.end()) return known->second;
    program->constants.push_back(value);
    return constants[value] = uint32_t(program->constants.size() - 1);
}

bool Decoder::special(const std::string &name, uint32_t *slot) {
    static const char *const NAMES[] = {"%tid.x",   "%tid.y",   "%tid.z",   "%ntid.x",   "%ntid.y",   "%ntid.z",  "%ctaid.x",
                                        "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid"};
    for (uint32_t which = 0; which < sizeof NAMES / sizeof *NAMES; ++which) {
        if (name != NAMES[which]) continue;
        const auto known = specials.find(name);
        if (known != specials.end()) {
            *slot = known->second;
            return true;
        }
        program->constants.push_back(0);
        *slot = specials[name] = uint32_t(program->constants.size() - 1);
        program->specials.push_back({*slot, which});
        return true;
    }
    return false;
}

uint32_t Decoder::symbol_address(const std::string &name) {
    const Symbol *symbol = find(name);
    if (symbol == NULL) reader.refuse("\"" + name + "\" is not declared");
    switch (symbol->kind) {
    case Symbol::PARAMETER: return constant(PARAMETERS + symbol->start);
    case Symbol::LOCAL: return constant(LOCALS + symbol->start);
    case Symbol::SHARED_ARRAY: return constant(SHARED + symbol->start);
    case Symbol::DYNAMIC_ARRAY: return constant(DYNAMIC);
    default: reader.refuse("the double has no memory for \"" + name + "\"");
    }
}

// Operands ------------------------------------------------------------------------------------------------------------

void Decoder::need_count(const std::vector<Operand> &operands, size_t least, size_t most) const {
    if (operands.size() < least || operands.size() > most) reader.refuse("another number of operands is expected");
}

uint32_t Decoder::source(const Operand &operand, Type type, bool may_be_wider) {
    if (operand.kind == Operand::NUMBER) {
        if (operand.float_bits != 0 && operand.float_bits != type.bits) reader.refuse("a number of another type");
        if (operand.float_bits == 0 && type.kind == 'f') reader.refuse("an integer in place of a float");
        return constant(operand.value & mask_of(type.bits));
    }
    uint32_t slot = 0;
    Type of = {0, 0};
    if (operand.kind != Operand::NAME || !operand.second.empty()) reader.refuse("a register or a number is expected");
    if (find_register(operand.name, &slot, &of)) {
        const bool fits = of.bits == type.bits || (may_be_wider && of.bits > type.bits);
        if (!fits || (of.kind == 'p') != (type.kind == 'p')) {
            reader.refuse("the register " + operand.name + " has another width than the type");
        }
        return slot;
    }
    if (special(operand.name, &slot)) {
        if (type.bits != 32) reader.refuse(operand.name + " has 32 bits");
        return slot;
    }
    if (operand.name == "WARP_SZ") return constant(32);
    if (type.bits < 32) reader.refuse("an address takes 32 bits");
    return symbol_address(operand.name);
}

uint32_t Decoder::destination(const Operand &operand, Type type, bool may_be_wider, uint64_t *mask) {
    uint32_t slot = 0;
    Type of = {0, 0};
    if (operand.kind != Operand::NAME || !operand.second.empty() || !find_register(operand.name, &slot, &of)) {
        reader.refuse("a register is expected");
    }
    const bool fits = of.bits == type.bits || (may_be_wider && of.bits > type.bits);
    if (!fits || (of.kind == 'p') != (type.kind == 'p')) {
        reader.refuse("the register " + operand.name + " has another width than the type");
    }
    *mask = mask_of(of.bits);
    return slot;
}

// The register or name in brackets.
uint32_t Decoder::base(const Operand &operand) {
    if (operand.kind != Operand::ADDRESS) reader.refuse("an address is expected");
    uint32_t slot = 0;
    Type of = {0, 0};
    if (!find_register(operand.name, &slot, &of)) return symbol_address(operand.name);
    if (of.kind == 'p' || of.bits < 32) reader.refuse("an address takes 32 bits");
    return slot;
}

// Instructions --------------------------------------------------------------------------------------------------------

void Decoder::form(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands) {
    const auto found = forms().find(opcode);
    if (found == forms().end()) reader.refuse("no form \"" + opcode + "\" is known");
    const Form &form = found->second;
    need_count(operands, form.s.size() + 1, form.s.size() + 1);
    made->run = form.run;
    made->d = destination(operands[0], form.d, form.wide_destination, &made->mask);
    for (size_t k = 0; k < form.s.size(); ++k) made->s[k] = source(operands[k + 1], form.s[k], form.wide_sources);
}

// ld and st with a space, hints of caches, a vector and a type. "nc" is none: it promises that nobody writes there, which is not checked.
bool Decoder::access(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands) {
    const std::vector<std::string> parts = parts_of(opcode);
    const bool store = parts[0] == "st";
    if ((parts[0] != "ld" && !store) || parts.size() < 3) return false;
    unsigned count = 1;
    for (size_t k = 2; k + 1 < parts.size(); ++k) {
        static const char *const HINTS[] = {"ca", "cg", "cs", "wb", "wt"};
        const bool hint = std::any_of(HINTS, std::end(HINTS), [&](const char *name) { return parts[k] == name; });
        if (parts[k] == "v2") count = 2;
        else if (parts[k] == "v4") count = 4;
        else if (!hint) return false;
    }
    const Type type = type_of(reader, parts.back());
    made->run = access_of(store, parts[1], type, count);
    if (made->run == NULL) return false;
    need_count(operands, 2, 2);
    const Operand &place = operands[store ? 0 : 1], &value = operands[store ? 1 : 0];
    made->s[0] = base(place);
    made->offset = int64_t(place.value);
    if ((value.kind == Operand::VECTOR) != (count > 1)) reader.refuse("a vector of another length is expected");
    const std::vector<Operand> single = {value};
    const std::vector<Operand> &values = count > 1 ? value.parts : single;
    if (values.size() != count) reader.refuse("a vector of another length is expected");
    std::vector<uint32_t> slots;
    for (const Operand &one : values) {
        slots.push_back(store ? source(one, type, true) : destination(one, type, true, &made->mask));
    }
    if (count == 1) made->d = slots[0];
    else more(made)->slots = slots;
    return true;
}

// Between a register and its parts; all others are forms.
bool Decoder::move(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands) {
    if (opcode.compare(0, 4, "mov.") != 0 || operands.size() != 2) return false;
    const Type type = type_of(reader, opcode.substr(4));
    const bool packs = operands[1].kind == Operand::VECTOR;
    if (!packs && operands[0].kind != Operand::VECTOR) return false;
    const std::vector<Operand> &parts = operands[packs ? 1 : 0].parts;
    if (type.kind != 'b' || parts.size() < 2 || type.bits % parts.size() != 0) reader.refuse("parts of another size");
    const Type part = {'b', unsigned(type.bits / parts.size())};
    made->run = packs ? pack : unpack;
    made->offset = part.bits;
    More *all = more(made);
    uint64_t ignored = 0;
    for (const Operand &one : parts) {
        all->slots.push_back(packs ? source(one, part, false) : destination(one, part, false, &ignored));
    }
    if (packs) made->d = destination(operands[0], type, false, &made->mask);
    else made->s[0] = source(operands[1], type, false);
    return true;
}

bool Decoder::together(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands) {
    const Type b32 = {'b', 32}, pred = {'p', 1};
    unsigned counts[4];
    uint64_t ignored = 0;
    const auto is_zero = [&](const Operand &operand) { return operand.kind == Operand::NUMBER && operand.value == 0; };
    if (opcode == "bar.sync" || opcode == "barrier.sync") {
        need_count(operands, 1, 2);
        if (!is_zero(operands[0])) reader.refuse("the double has one barrier, 0");
        made->run = operands.size() == 1 ? barrier : counted_barrier;
        if (operands.size() == 2) made->s[0] = source(operands[1], b32, false);
    } else if (opcode == "bar.warp.sync") {
        need_count(operands, 1, 1);
        made->run = warp_barrier;
        made->s[0] = source(operands[0], b32, false);
    } else if ((made->run = reduction_of(opcode)) != NULL) {
        need_count(operands, 3, 3);
        if (!is_zero(operands[1])) reader.refuse("the double has one barrier, 0");
        made->d = destination(operands[0], opcode == "bar.red.popc.u32" ? b32 : pred, false, &made->mask);
        made->s[0] = source(operands[2], pred, false);
    } else if ((made->run = shuffle_of(opcode)) != NULL) {
        need_count(operands, 5, 5);
        Operand first = operands[0];
        if (!first.second.empty()) {
            const Operand predicate = {Operand::NAME, first.second, 0, 0, {}, ""};
            more(made)->slots.push_back(destination(predicate, pred, false, &ignored));
            first.second.clear();
        }
        made->d = destination(first, b32, false, &made->mask);
        for (size_t k = 0; k < 4; ++k) made->s[k] = source(operands[k + 1], b32, false);
    } else if ((made->run = vote_of(opcode)) != NULL) {
        need_count(operands, 3, 3);
        made->d = destination(operands[0], opcode == "vote.sync.ballot.b32" ? b32 : pred, false, &made->mask);
        made->s[0] = source(operands[1], pred, false);
        made->s[1] = source(operands[2], b32, false);
    } else if ((made->run = product_of(opcode, counts)) != NULL) {
        need_count(operands, 4, 4);
        More *all = more(made);
        for (size_t k = 0; k < 4; ++k) {
            const std::vector<Operand> &parts = operands[k].parts;
            if (operands[k].kind != Operand::VECTOR || parts.size() != counts[k]) {
                reader.refuse("a fragment of another number of registers is expected");
            }
            for (const Operand &one : parts) {
                all->slots.push_back(k == 0 ? destination(one, b32, false, &ignored) : source(one, b32, false));
            }
        }
    } else if (opcode == "cp.async.ca.shared.global" || opcode == "cp.async.cg.shared.global") {
        need_count(operands, 3, 4);
        const Operand &bytes = operands[2];
        const bool is_cg = opcode[9] == 'c' && opcode[10] == 'g';
        const bool good = bytes.value == 16 || (!is_cg && (bytes.value == 4 || bytes.value == 8));
        if (bytes.kind != Operand::NUMBER || !good) reader.refuse("a copy of that many bytes");
        made->run = copy_async;
        made->d = base(operands[0]);
        made->s[0] = base(operands[1]);
        made->offset = int64_t(bytes.value);
        made->s[1] = operands.size() == 4 ? source(operands[3], b32, false) : constant(bytes.value);
        made->s[2] = constant(operands[0].value);
        made->s[3] = constant(operands[1].value);
    } else if ((made->run = load_of_matrices(opcode, counts)) != NULL) {
        need_count(operands, 2, 2);
        const std::vector<Operand> &parts = operands[0].parts;
        if (operands[0].kind != Operand::VECTOR || parts.size() != counts[0]) {
            reader.refuse("a register for each matrix is expected");
        }
        More *all = more(made);
        for (const Operand &one : parts) all->slots.push_back(destination(one, b32, false, &ignored));
        made->s[0] = base(operands[1]);
        made->offset = int64_t(operands[1].value);
    } else if (opcode == "cp.async.commit_group") {
        need_count(operands, 0, 0);
        made->run = commit_copies;
    } else if (opcode == "cp.async.wait_group") {
        need_count(operands, 1, 1);
        if (operands[0].kind != Operand::NUMBER) reader.refuse("a number of groups is expected");
        made->run = wait_for_copies;
        made->offset = int64_t(operands[0].value);
    } else {
        return false;
    }
    return true;
}

bool Decoder::control(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands) {
    if (opcode == "bra" || opcode == "bra.uni") {
        need_count(operands, 1, 1);
        made->run = branch;
        branches.push_back({program->code.size(), {operands[0].name, reader.line()}});
    } else if (opcode == "ret") {
        need_count(operands, 0, 0);
        made->run = leave;
    } else if (opcode == "call.uni" || opcode == "call") {
        // (results), function, (arguments)
        Call call = {program->code.size(), reader.line(), "", {}, {}};
        for (size_t k = 0; k < operands.size(); ++k) {
            if (operands[k].kind == Operand::NAME && call.callee.empty()) {
                call.callee = operands[k].name;
                continue;
            }
            if (operands[k].kind != Operand::LIST) reader.refuse("a list is expected");
            for (const Operand &one : operands[k].parts) {
                const Symbol *symbol = find(one.name);
                if (symbol == NULL || symbol->kind != Symbol::LOCAL) reader.refuse("\"" + one.name + "\" is no parameter");
                (call.callee.empty() ? call.results : call.arguments).push_back(*symbol);
            }
        }
        made->run = ptx::call;
        more(made);
        calls.push_back(call);
    } else {
        return false;
    }
    return true;
}

void Decoder::instruction() {
    Instruction made = {NULL, 0, {0, 0, 0, 0}, ALWAYS, false, false, reader.line(), 0, ~uint64_t(0), NULL, NULL};
    if (reader.take("@")) {
        made.skips_if = reader.take("!");
        const Operand predicate = {Operand::NAME, reader.next(), 0, 0, {}, ""};
        made.guard = source(predicate, {'p', 1}, false);
    }
    const std::string opcode = reader.next();
    const std::vector<Operand> operands = reader.operands(";");
    if (!control(&made, opcode, operands) && !together(&made, opcode, operands) && !access(&made, opcode, operands) &&
        !move(&made, opcode, operands)) {
        form(&made, opcode, operands);
    }
    reader.expect(";");
    const char *&name = names[opcode];
    if (name == NULL) {
        program->texts.push_back(opcode);
        name = program->texts.back().c_str();
    }
    made.form = name;
    program->code.push_back(made);
}

}  // namespace ptx
}  // namespace driver_double
