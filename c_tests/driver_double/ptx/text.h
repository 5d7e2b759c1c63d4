// The words and operands of a PTX text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace driver_double {
namespace ptx {

// Why a text is refused.
struct Refusal {
    unsigned line;
    std::string what;
};

struct Word {
    std::string text;
    unsigned line;
};

// Names, numbers, directives and opcodes are words, with all of their dots; every other sign stands for itself. Comments are left out.
// The last word is empty.
std::vector<Word> words_of(const std::string &text);

// A register, number or name; -number; !predicate; [base + offset]; {a, b, ...}; (a, b, ...).
struct Operand {
    enum Kind { NAME, NUMBER, NOT, ADDRESS, VECTOR, LIST } kind;
    std::string name;
    // A number's value or an address's offset. Of floats their bits.
    uint64_t value;
    // Bits of a number of a type of floats, 0 for integers.
    unsigned float_bits;
    std::vector<Operand> parts;
    // What stands behind a | and has no place of its own.
    std::string second;
};

// Goes through the words.
class Reader {
public:
    explicit Reader(const std::vector<Word> &words) : words(words), at(0) {}
    const std::string &peek(size_t ahead = 0) const {
        return at + ahead < words.size() ? words[at + ahead].text : words.back().text;
    }
    bool is_done() const { return peek().empty(); }
    unsigned line() const { return words[at < words.size() ? at : words.size() - 1].line; }
    std::string next();
    bool take(const char *text);
    void expect(const char *text);
    uint64_t number();
    Operand operand();
    // Up to a sign that is left.
    std::vector<Operand> operands(const char *end);
    // Skips a declaration up to its semicolon.
    void skip_declaration();
    [[noreturn]] void refuse(const std::string &what) const { throw Refusal{line(), what}; }

private:
    const std::vector<Word> &words;
    size_t at;
};

// Splits at dots: "ld", "param", "u32".
std::vector<std::string> parts_of(const std::string &opcode);

}  // namespace ptx
}  // namespace driver_double
