// Networks as text: one layer a line, each naming the layers that it reads.
//
//   input 3 224 224
//   conv1 = conv input k=64 r=7 s=2 p=3 norm relu
//   pool1 = maxpool conv1 r=3 s=2 p=1
//   sum1  = conv x k=256 r=1 norm relu add=pool1      adds pool1 before the activation
//
// conv: k filters of r x r, stride s, padding p, g groups (or `depthwise`); `norm` or `bias`; relu, relu6 or leaky; add=LAYER.
// maxpool: r, s, p; `shifted`: windows of 2 at stride 1 that look one cell beyond the lower and right edges.
// avgpool: over all of an image. upsample: each cell becomes 2 x 2. concat: channels of several layers.
#ifndef EXAMPLES_TABLE_HPP
#define EXAMPLES_TABLE_HPP

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Line {
    int number = 0;
    std::string name, op;
    std::vector<std::string> inputs;
    std::map<std::string, int> numbers;
    std::string add, act;
    bool norm = false, bias = false, shifted = false, depthwise = false;

    int get(const std::string &key, int otherwise) const {
        const auto found = numbers.find(key);
        return found == numbers.end() ? otherwise : found->second;
    }
};

struct Table {
    int c = 0, h = 0, w = 0;
    std::vector<Line> lines;
};

inline Table read_table(const std::string &path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be opened");
    Table table;
    std::string text;
    for (int number = 1; std::getline(file, text); number++) {
        const auto fail = [&](const std::string &why) {
            throw std::runtime_error(path + ":" + std::to_string(number) + ": " + why);
        };
        std::istringstream words(text.substr(0, text.find('#')));
        Line line;
        line.number = number;
        std::string equals, word;
        if (!(words >> line.name)) continue;
        if (line.name == "input") {
            if (!(words >> table.c >> table.h >> table.w) || table.c < 1 || table.h < 1 || table.w < 1)
                fail("`input` needs three extents");
            continue;
        }
        if (!(words >> equals >> line.op) || equals != "=") fail("expected `NAME = OPERATION INPUT...`");
        while (words >> word) {
            const auto at = word.find('=');
            if (word.rfind("add=", 0) == 0) {
                line.add = word.substr(4);
            } else if (at != std::string::npos) {
                char *end = nullptr;
                const long value = std::strtol(word.c_str() + at + 1, &end, 10);
                if (*end || value < 0 || value > 1 << 20) fail("`" + word + "` is not a number");
                line.numbers[word.substr(0, at)] = int(value);
            } else if (word == "norm" || word == "bias" || word == "shifted" || word == "depthwise") {
                (word == "norm"      ? line.norm
                 : word == "bias"    ? line.bias
                 : word == "shifted" ? line.shifted
                                     : line.depthwise) = true;
            } else if (word == "relu" || word == "relu6" || word == "leaky") {
                line.act = word;
            } else {
                line.inputs.push_back(word);
            }
        }
        if (line.inputs.empty()) fail("no input");
        table.lines.push_back(line);
    }
    if (table.lines.empty() || table.c == 0) throw std::runtime_error(path + ": no layers");
    return table;
}

#endif
