#include "text.h"

#include <cctype>
#include <cstdlib>

namespace driver_double {
namespace ptx {
namespace {

bool is_of_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }

bool is_number(const std::string &text) { return isdigit(static_cast<unsigned char>(text[0])); }

}  // namespace

std::vector<Word> words_of(const std::string &text) {
    std::vector<Word> words;
    unsigned line = 1;
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '\n') ++line;
        if (isspace(static_cast<unsigned char>(c))) {
            ++at;
        } else if (text.compare(at, 2, "//") == 0) {
            at = std::min(text.find('\n', at), text.size());
        } else if (text.compare(at, 2, "/*") == 0) {
            const size_t end = std::min(text.find("*/", at), text.size() - 2);
            for (; at < end + 2; ++at) line += text[at] == '\n';
        } else if (c == '"') {
            const size_t end = std::min(text.find('"', at + 1), text.size() - 1);
            words.push_back({text.substr(at, end + 1 - at), line});
            at = end + 1;
        } else {
            size_t end = at + 1;
            while (is_of_word(c) && end < text.size() && is_of_word(text[end])) ++end;
            words.push_back({text.substr(at, end - at), line});
            at = end;
        }
    }
    words.push_back({"", line});
    return words;
}

std::string Reader::next() {
    if (is_done()) refuse("the text ends early");
    return words[at++].text;
}

bool Reader::take(const char *text) {
    if (peek() != text) return false;
    ++at;
    return true;
}

void Reader::expect(const char *text) {
    if (!take(text)) refuse("\"" + peek() + "\" stands where \"" + text + "\" is expected");
}

uint64_t Reader::number() {
    const bool is_negative = take("-");
    const std::string text = next();
    char *end = NULL;
    const uint64_t value = strtoull(text.c_str(), &end, 0);
    if (!is_number(text) || (*end != 0 && std::string(end) != "U")) {
        --at;
        refuse("\"" + text + "\" is no number");
    }
    return is_negative ? 0 - value : value;
}

Operand Reader::operand() {
    Operand operand = {Operand::NAME, "", 0, 0, {}, ""};
    if (take("{")) {
        operand.kind = Operand::VECTOR;
        operand.parts = operands("}");
        expect("}");
    } else if (take("(")) {
        operand.kind = Operand::LIST;
        operand.parts = operands(")");
        expect(")");
    } else if (take("[")) {
        operand.kind = Operand::ADDRESS;
        operand.name = next();
        if (take("+")) operand.value = number();
        expect("]");
    } else if (take("!")) {
        operand.kind = Operand::NOT;
        operand.name = next();
    } else if (peek() == "-" || is_number(peek())) {
        operand.kind = Operand::NUMBER;
        const std::string text = peek();
        const bool is_float = text.size() == 10 && (text[1] == 'f' || text[1] == 'F');
        const bool is_double = text.size() == 18 && (text[1] == 'd' || text[1] == 'D');
        if (is_float || is_double) {
            operand.value = strtoull(next().c_str() + 2, NULL, 16);
            operand.float_bits = is_float ? 32 : 64;
        } else {
            operand.value = number();
        }
    } else {
        operand.name = next();
        if (take("|")) operand.second = next();
    }
    return operand;
}

std::vector<Operand> Reader::operands(const char *end) {
    std::vector<Operand> all;
    if (peek() == end) return all;
    do all.push_back(operand());
    while (take(","));
    return all;
}

void Reader::skip_declaration() {
    while (!take(";")) next();
}

std::vector<std::string> parts_of(const std::string &opcode) {
    std::vector<std::string> parts;
    for (size_t at = 0; at <= opcode.size();) {
        const size_t end = std::min(opcode.find('.', at), opcode.size());
        parts.push_back(opcode.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

}  // namespace ptx
}  // namespace driver_double
