// Makes a program of a PTX text. What it does not know it refuses.
#pragma once

#include <map>

#include "ptx.h"
#include "text.h"

namespace driver_double {
namespace ptx {

// Registers are counted by themselves until all constants are known.
enum : uint32_t { REGISTER = 1u << 31 };
// Bytes between shared arrays, so that who leaves one does not meet another.
enum : uint32_t { APART = 256, ALL_SHARED = 48 << 10 };

struct Symbol {
    enum Kind { REGISTERS, PARAMETER, LOCAL, SHARED_ARRAY, DYNAMIC_ARRAY, ELSEWHERE } kind;
    Type type;
    // The first register and how many, or the bytes.
    uint32_t start, size;
};

struct Function {
    std::vector<Symbol> parameters, results;
    bool defined;
    uint32_t start, first, end;
};

struct Call {
    size_t at;
    unsigned line;
    std::string callee;
    std::vector<Symbol> arguments, results;
};

// The type that a suffix names.
Type type_of(const Reader &reader, const std::string &text);

class Decoder {
public:
    explicit Decoder(const std::vector<Word> &words) : reader(words), program(new Program()) {}
    const Program *decode();

private:
    void entry();
    void function();
    void body();
    void statement();
    void instruction();
    Symbol declaration(Symbol::Kind kind, uint32_t *next, std::string *name);
    std::vector<Symbol> parameters(Symbol::Kind kind, uint32_t *next);
    void shared_array(bool is_extern);
    void registers();

    const Symbol *find(const std::string &name) const;
    bool find_register(const std::string &name, uint32_t *slot, Type *type) const;
    uint32_t constant(uint64_t value);
    uint32_t symbol_address(const std::string &name);
    bool special(const std::string &name, uint32_t *slot);
    uint32_t source(const Operand &operand, Type type, bool may_be_wider);
    uint32_t destination(const Operand &operand, Type type, bool may_be_wider, uint64_t *mask);
    uint32_t base(const Operand &operand);
    void need_count(const std::vector<Operand> &operands, size_t least, size_t most) const;
    void form(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands);
    bool access(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands);
    bool move(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands);
    bool together(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands);
    bool control(Instruction *made, const std::string &opcode, const std::vector<Operand> &operands);
    More *more(Instruction *made);
    void link();

    Reader reader;
    Program *program;
    std::vector<std::map<std::string, Symbol>> scopes = {{}};
    std::map<std::string, Function> functions;
    std::vector<Call> calls;
    std::vector<Extent> common;
    std::vector<Extent> *shared = &common;
    bool dynamic = false;
    std::map<std::string, uint32_t> labels;
    std::vector<std::pair<size_t, Word>> branches;
    std::map<uint64_t, uint32_t> constants;
    std::map<std::string, uint32_t> specials;
    std::map<std::string, const char *> names;
    uint32_t next_register = 0, next_shared = 0, next_local = 0;
};

}  // namespace ptx
}  // namespace driver_double
