// Runs a network from a table: forward, or one step of training; timed, and with its results in a file.
//
//   networks TABLE [--batch N] [--layout NCHW|NHWC|NCHW8C] [--choose get|find|limit] [--runs N] [--train]
//            [--threads N] [--processes N] [--out FILE]
//
// FILE gets the results as floats: the last layer in NCHW order, or with --train the loss and the norm of every gradient.
// With --threads or --processes each has a handle and a network of its own, and all must agree to the last bit.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "network.hpp"

namespace {

struct Arguments {
    std::string table, out;
    Options options;
    int runs = 1, threads = 1, processes = 1;
};

[[noreturn]] void usage(const std::string &why) { throw std::runtime_error(why + "; see the head of main.cpp"); }

int whole(const std::string &text) {
    char *end = nullptr;
    const long value = std::strtol(text.c_str(), &end, 10);
    if (text.empty() || *end || value < 1 || value > 1 << 20) usage("`" + text + "` is no number of 1 or more");
    return int(value);
}

Arguments parse(int argc, char **argv) {
    Arguments a;
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        const auto value = [&]() -> std::string {
            if (i + 1 == argc) usage(word + " needs a value");
            return argv[++i];
        };
        if (word == "--train") {
            a.options.training = true;
        } else if (word == "--batch") {
            a.options.batch = whole(value());
        } else if (word == "--runs") {
            a.runs = whole(value());
        } else if (word == "--threads") {
            a.threads = whole(value());
        } else if (word == "--processes") {
            a.processes = whole(value());
        } else if (word == "--out") {
            a.out = value();
        } else if (word == "--layout") {
            const std::string name = value();
            // Blocked formats are an extension of cudnn-shim; this is CUDNN_SHIM_TENSOR_NCHW8C of cudnn_shim.h.
            a.options.format = name == "NCHW"     ? CUDNN_TENSOR_NCHW
                               : name == "NHWC"   ? CUDNN_TENSOR_NHWC
                               : name == "NCHW8C" ? cudnnTensorFormat_t(0x43580008)
                                                  : (usage("there is no layout `" + name + "`"), CUDNN_TENSOR_NCHW);
        } else if (word == "--choose") {
            const std::string name = value();
            a.options.choose = name == "get"     ? Choose::Get
                               : name == "find"  ? Choose::Find
                               : name == "limit" ? Choose::Limit
                                                 : (usage("there is no choice `" + name + "`"), Choose::Get);
        } else if (word[0] != '-' && a.table.empty()) {
            a.table = word;
        } else {
            usage("what is `" + word + "`?");
        }
    }
    if (a.table.empty()) usage("no table");
    return a;
}

// What the process used at most. Not getrusage's, which begins with what the parent had when it forked.
long peak_mebibytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (long kibibytes = 0; word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024;
    return 0;
}

std::uint64_t fingerprint(const std::vector<float> &values) {
    std::uint64_t hash = 14695981039346656037u;
    for (const float value : values) {
        unsigned char bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
    }
    return hash;
}

// The results of the last run, and the seconds of each.
std::vector<float> run(const Arguments &a, const Table &table, std::vector<double> &seconds) {
    Network network(table, 1, a.options);
    network.draw_input(2);
    std::vector<int> labels(std::size_t(a.options.batch));
    for (std::size_t i = 0; i < labels.size(); i++) labels[i] = int(i * 37 % 10);
    std::vector<float> results;
    for (int r = 0; r < a.runs; r++) {
        const auto start = std::chrono::steady_clock::now();
        if (a.options.training) {
            const float loss = network.train(labels, r + 1 < a.runs ? 0 : 0.01f);
            results.assign(1, loss);
        } else {
            network.forward();
        }
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    if (!a.options.training) return network.output();
    for (const double norm : network.gradient_norms()) results.push_back(float(norm));
    return results;
}

// All or nothing: beside the file first, then in its place.
void write(const std::string &path, const std::vector<float> &values) {
    const std::string part = path + ".part";
    FILE *file = std::fopen(part.c_str(), "wb");
    if (!file) throw std::runtime_error(path + ": cannot be written");
    const bool whole = std::fwrite(values.data(), sizeof(float), values.size(), file) == values.size();
    if (std::fclose(file) || !whole || std::rename(part.c_str(), path.c_str())) {
        std::remove(part.c_str());
        throw std::runtime_error(path + ": cannot be written");
    }
}

std::uint64_t alone(const Arguments &a, const Table &table) {
    std::vector<std::vector<float>> results(std::size_t(a.threads));
    std::vector<double> seconds;
    std::vector<std::string> errors(results.size());
    std::vector<std::thread> others;
    const auto one = [&](std::size_t i, std::vector<double> &into) {
        try {
            results[i] = run(a, table, into);
        } catch (const std::exception &error) {
            errors[i] = error.what();
        }
    };
    for (std::size_t i = 1; i < results.size(); i++)
        others.emplace_back([&, i] {
            std::vector<double> mine;
            one(i, mine);
        });
    one(0, seconds);
    for (std::thread &other : others) other.join();
    for (std::size_t i = 0; i < results.size(); i++) {
        if (!errors[i].empty()) throw std::runtime_error(errors[i]);
        if (fingerprint(results[i]) != fingerprint(results[0])) throw std::runtime_error("threads disagree");
    }
    if (!a.out.empty()) write(a.out, results[0]);
    std::sort(seconds.begin(), seconds.end());
    std::printf("%s: batch %d, best %.2f ms, median %.2f ms, %ld MiB, results %016llx\n", a.table.c_str(),
                a.options.batch, 1e3 * seconds.front(), 1e3 * seconds[seconds.size() / 2], peak_mebibytes(),
                static_cast<unsigned long long>(fingerprint(results[0])));
    return fingerprint(results[0]);
}

// Forked processes, which tell this one what they found; only this one writes a file.
void together(Arguments a, const Table &table) {
    int ends[2] = {-1, -1};
    if (a.processes > 1 && pipe(ends)) throw std::runtime_error("no pipe");
    for (int i = 1; i < a.processes; i++)
        if (fork() == 0) {
            a.out.clear();
            const std::uint64_t mine = alone(a, table);
            std::exit(::write(ends[1], &mine, sizeof mine) == ssize_t(sizeof mine) ? 0 : 2);
        }
    const std::uint64_t mine = alone(a, table);
    bool failed = false;
    for (int i = 1, status = 0; i < a.processes; i++)
        failed |= wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (failed) throw std::runtime_error("a process failed");
    std::uint64_t other = 0;
    for (int i = 1; i < a.processes; i++)
        if (::read(ends[0], &other, sizeof other) != ssize_t(sizeof other) || other != mine)
            throw std::runtime_error("processes disagree");
}

}  // namespace

int main(int argc, char **argv) {
    try {
        const Arguments arguments = parse(argc, argv);
        const Table table = read_table(arguments.table);
        together(arguments, table);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "networks: %s\n", error.what());
        return 2;
    }
}
