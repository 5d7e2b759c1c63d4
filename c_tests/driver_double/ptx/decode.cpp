// Declarations, scopes, labels and calls of a PTX text.
#include <algorithm>

#include "decoder.h"

namespace driver_double {
namespace ptx {

// .align 8 .b8 name[24], or .b32 name; takes its bytes from `next`.
Symbol Decoder::declaration(Symbol::Kind kind, uint32_t *next, std::string *name) {
    uint32_t align = 0;
    if (reader.take(".align")) align = uint32_t(reader.number());
    const Type type = type_of(reader, reader.next().substr(1));
    *name = reader.next();
    Symbol symbol = {kind, type, 0, type.bits / 8};
    if (reader.take("[")) {
        symbol.size = reader.peek() == "]" ? 0 : symbol.size * uint32_t(reader.number());
        reader.expect("]");
    }
    align = std::max(align, type.bits / 8);
    symbol.start = (*next + align - 1) / align * align;
    *next = symbol.start + symbol.size;
    scopes.back()[*name] = symbol;
    return symbol;
}

std::vector<Symbol> Decoder::parameters(Symbol::Kind kind, uint32_t *next) {
    std::vector<Symbol> all;
    std::string name;
    reader.expect("(");
    while (!reader.take(")")) {
        if (!all.empty()) reader.expect(",");
        reader.expect(".param");
        all.push_back(declaration(kind, next, &name));
    }
    return all;
}

void Decoder::shared_array(bool is_extern) {
    std::string name;
    if (is_extern) {
        uint32_t none = 0;
        declaration(Symbol::DYNAMIC_ARRAY, &none, &name);
        dynamic = true;
    } else {
        const Symbol symbol = declaration(Symbol::SHARED_ARRAY, &next_shared, &name);
        shared->push_back({symbol.start, symbol.size});
        next_shared += APART;
        if (next_shared > MAX_SHARED) reader.refuse("too much shared memory");
    }
    reader.expect(";");
}

void Decoder::registers() {
    const Type type = type_of(reader, reader.next().substr(1));
    do {
        const std::string name = reader.next();
        uint32_t count = 1;
        if (reader.take("<")) {
            count = uint32_t(reader.number());
            reader.expect(">");
            scopes.back()[name + "<"] = {Symbol::REGISTERS, type, next_register, count};
        } else {
            scopes.back()[name] = {Symbol::REGISTERS, type, next_register, count};
        }
        next_register += count;
    } while (reader.take(","));
    reader.expect(";");
}

void Decoder::statement() {
    std::string name;
    if (reader.take("{")) {
        scopes.emplace_back();
        while (!reader.take("}")) statement();
        scopes.pop_back();
    } else if (reader.take(".reg")) {
        registers();
    } else if (reader.take(".shared")) {
        shared_array(false);
    } else if (reader.take(".param")) {
        declaration(Symbol::LOCAL, &next_local, &name);
        reader.expect(";");
    } else if (reader.take(".pragma")) {
        reader.skip_declaration();
    } else if (reader.peek(1) == ":") {
        const std::string label = reader.next();
        if (!labels.insert({label, uint32_t(program->code.size())}).second) reader.refuse(label + " stands twice");
        reader.expect(":");
    } else if (reader.peek()[0] == '.') {
        reader.refuse("no directive \"" + reader.peek() + "\" is known");
    } else {
        instruction();
    }
}

void Decoder::body() {
    labels.clear();
    branches.clear();
    reader.expect("{");
    while (!reader.take("}")) statement();
    // Who comes to the end returns.
    program->code.push_back({leave, 0, {0, 0, 0, 0}, ALWAYS, false, false, reader.line(), 0, 0, NULL, "end"});
    for (const auto &[at, label] : branches) {
        const auto found = labels.find(label.text);
        if (found == labels.end()) throw Refusal{label.line, "there is no label \"" + label.text + "\""};
        program->code[at].offset = found->second;
    }
}

void Decoder::entry() {
    program->entries.emplace_back();
    Entry *entry = &program->entries.back();
    entry->label = reader.next();
    entry->name = entry->label.c_str();
    entry->call = run_thread;
    entry->next = NULL;
    entry->program = program;
    entry->max_threads = emu::MAX_THREADS;
    entry->threads = {0, 0, 0};
    entry->launched = false;
    entry->shared_bytes = 0;
    scopes.emplace_back();
    uint32_t bytes = 0;
    if (parameters(Symbol::PARAMETER, &bytes).size() != 1) reader.refuse("the double passes one parameter");
    entry->size = bytes;
    while (reader.peek() != "{") {
        const std::string directive = reader.next();
        const bool is_exact = directive == ".reqntid", is_limit = directive == ".maxntid";
        uint3 extents = {1, 1, 1};
        unsigned *const each[] = {&extents.x, &extents.y, &extents.z};
        if (!is_exact && !is_limit && directive != ".minnctapersm") reader.refuse("no directive \"" + directive + "\" is known");
        size_t k = 0;
        do {
            if (k == 3) reader.refuse("more than three extents");
            *each[k++] = unsigned(reader.number());
        } while (reader.take(","));
        if (is_exact) entry->threads = extents;
        if (is_limit) entry->max_threads = extents.x * extents.y * extents.z;
    }
    shared = &entry->shared;
    entry->start = uint32_t(program->code.size());
    body();
    // Without the return that every body ends with.
    entry->end = uint32_t(program->code.size()) - 1;
    shared = &common;
    scopes.pop_back();
}

void Decoder::function() {
    scopes.emplace_back();
    Function made = {{}, {}, false, 0, next_register, 0};
    if (reader.peek() == "(") made.results = parameters(Symbol::LOCAL, &next_local);
    const std::string name = reader.next();
    if (reader.peek() == "(") made.parameters = parameters(Symbol::LOCAL, &next_local);
    if (reader.peek() != "{") {
        reader.skip_declaration();
    } else {
        made.defined = true;
        made.start = uint32_t(program->code.size());
        body();
        made.end = next_register;
        functions[name] = made;
    }
    scopes.pop_back();
}

// Puts in what is known at the end only: functions, common arrays and the numbers of slots.
void Decoder::link() {
    for (const Call &call : calls) {
        const auto found = functions.find(call.callee);
        if (found == functions.end()) throw Refusal{call.line, "there is no function \"" + call.callee + "\""};
        const Function &callee = found->second;
        Instruction &made = program->code[call.at];
        More &more = *const_cast<More *>(made.more);
        const auto copies = [&](const std::vector<Symbol> &to, const std::vector<Symbol> &from, std::vector<Copy> *all) {
            if (to.size() != from.size()) throw Refusal{call.line, "another number of parameters"};
            for (size_t k = 0; k < to.size(); ++k) {
                if (to[k].size != from[k].size) throw Refusal{call.line, "a parameter of another size"};
                all->push_back({to[k].start, from[k].start, to[k].size});
            }
        };
        copies(callee.parameters, call.arguments, &more.arguments);
        copies(call.results, callee.results, &more.results);
        made.offset = callee.start;
        more.first = callee.first | REGISTER;
        more.end = callee.end | REGISTER;
    }
    const uint32_t first = uint32_t(program->constants.size());
    const auto settle = [&](uint32_t &slot) {
        if (slot != ALWAYS && (slot & REGISTER) != 0) slot = first + (slot & ~REGISTER);
    };
    for (Instruction &made : program->code) {
        settle(made.d);
        for (uint32_t &slot : made.s) settle(slot);
        settle(made.guard);
    }
    for (More &more : program->more) {
        for (uint32_t &slot : more.slots) settle(slot);
        settle(more.first);
        settle(more.end);
    }
    program->slots = first + next_register;
    program->locals = next_local;
    for (Entry &entry : program->entries) {
        entry.dynamic = dynamic;
        entry.shared.insert(entry.shared.end(), common.begin(), common.end());
        for (const Extent &array : entry.shared) entry.shared_bytes += array.size;
        if (entry.shared_bytes > ALL_SHARED) throw Refusal{0, entry.label + " declares more than 48 KB of shared memory"};
    }
}

const Program *Decoder::decode() {
    while (!reader.is_done()) {
        bool is_extern = false;
        while (reader.peek() == ".visible" || reader.peek() == ".weak" || reader.peek() == ".extern") {
            is_extern = reader.next() == ".extern";
        }
        if (reader.take(".version") || reader.take(".target") || reader.take(".address_size")) {
            do reader.next();
            while (reader.take(","));
        } else if (reader.take(".entry")) {
            entry();
        } else if (reader.take(".func")) {
            function();
        } else if (reader.take(".shared")) {
            shared_array(is_extern);
        } else if (reader.take(".global") || reader.take(".const")) {
            // Nothing is kept there: who uses such a name is refused.
            reader.skip_declaration();
        } else {
            reader.refuse("\"" + reader.peek() + "\" stands between functions");
        }
    }
    link();
    return program;
}

const Program *decode(const std::string &text, std::string *wrong) {
    const std::vector<Word> words = words_of(text);
    try {
        return Decoder(words).decode();
    } catch (const Refusal &refusal) {
        *wrong = "line " + std::to_string(refusal.line) + ": " + refusal.what;
        return NULL;
    }
}

}  // namespace ptx
}  // namespace driver_double
