// What the double sees in a PTX text without executing it.
#ifndef DRIVER_DOUBLE_TEXTS_H
#define DRIVER_DOUBLE_TEXTS_H

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace driver_double {

// Bytes of a type like .u32 or .f64.
inline size_t size_of_type(const std::string &type) {
    const size_t digits = type.find_first_of("0123456789");
    return digits == std::string::npos ? 0 : size_t(atoi(type.c_str() + digits) / 8);
}

// Sizes of the parameters that the text between the parentheses declares.
inline std::vector<size_t> parameter_sizes(const std::string &text) {
    std::vector<size_t> sizes;
    for (size_t at = 0; (at = text.find(".param", at)) != std::string::npos;) {
        at += 6;
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string one = text.substr(at, end - at);
        const size_t bracket = one.find('[');
        const size_t type = one.rfind('.');
        sizes.push_back(bracket != std::string::npos ? size_t(atol(one.c_str() + bracket + 1))
                                                     : size_of_type(one.substr(type)));
    }
    return sizes;
}

// A function that this text calls and does not have, as an assembler finds out: what was cut out of a longer text may lack it.
inline std::string unknown_function(const std::string &text) {
    static const char call[] = "call.uni";
    for (size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
        size_t name = text.find_first_not_of(" \t\n", at + sizeof call - 1);
        // The place for what it returns.
        if (text[name] == '(') name = text.find_first_not_of(" \t\n,", text.find(')', name) + 1);
        const std::string function = text.substr(name, text.find_first_of(", \t\n", name) - name);
        if (text.find(" " + function + "(") == std::string::npos) return function;
    }
    return "";
}

}  // namespace driver_double

#endif
