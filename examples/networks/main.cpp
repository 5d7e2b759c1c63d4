// Runs a network from a table: forward, or one step of training; timed, and with its results in a file.
//
//   networks TABLE [--batch N] [--layout NCHW|NHWC|NCHW8C] [--type f32|bf16|f16|int8] [--choose get|find|limit]
//            [--runs N] [--train] [--threads N] [--processes N] [--out FILE]
//   networks TABLE --profile [--batch N] [--layout ...] [--type ...] [--runs N]
//
// --type is that of tensors and weights; sums are of floats, and of integers for int8, whose layers are multiples of a number each
// that a forward pass of floats over the same input measures first. Training is in f32.
// FILE gets the results as floats: the last layer in NCHW order, or with --train the loss and the norm of every gradient.
// --profile prints a line for each layer: its fastest time, its rate of multiplications and additions, and how many times as fast it is
// as on one thread of this library. With --threads or --processes each has a handle and a network of its own, and all must agree to the last bit.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "network.hpp"

namespace {

struct Arguments {
    std::string table, out;
    Options options;
    int runs = 1, threads = 1, processes = 1;
    bool profile = false;
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
        } else if (word == "--profile") {
            a.profile = true;
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
        } else if (word == "--type") {
            const std::string name = value();
            a.options.type = name == "f32"    ? CUDNN_DATA_FLOAT
                             : name == "bf16" ? CUDNN_DATA_BFLOAT16
                             : name == "f16"  ? CUDNN_DATA_HALF
                             : name == "int8" ? CUDNN_DATA_INT8
                                              : (usage("there is no type `" + name + "`"), CUDNN_DATA_FLOAT);
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
    if (a.profile && (a.options.training || a.threads > 1 || a.processes > 1 || !a.out.empty()))
        usage("--profile is of forward passes, and prints");
    if (a.options.training && a.options.type != CUDNN_DATA_FLOAT) usage("--train is of f32");
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
    network.draw_input();
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

// Seconds of each layer, of as many forward passes as are asked for.
std::vector<double> layer_seconds(Network &network, int runs) {
    network.draw_input();
    for (int r = 0; r < runs; r++) network.forward();
    std::vector<double> seconds;
    for (const Node &node : network.layers()) seconds.push_back(node.best);
    return seconds;
}

// The same in a process whose library has one thread, which is told before its first call.
std::vector<double> on_one_thread(const Arguments &a, const Table &table) {
    int ends[2];
    if (pipe(ends)) throw std::runtime_error("no pipe");
    std::vector<double> seconds(table.lines.size() + 1);
    const ssize_t bytes = ssize_t(seconds.size() * sizeof(double));
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("no process");
    if (child == 0) {
        setenv("CUDNN_SHIM_NUM_THREADS", "1", 1);
        Network network(table, 1, a.options);
        const std::vector<double> mine = layer_seconds(network, a.runs);
        std::_Exit(::write(ends[1], mine.data(), std::size_t(bytes)) == bytes ? 0 : 2);
    }
    close(ends[1]);
    ssize_t got = 0;
    for (ssize_t part = 1; part > 0 && got < bytes; got += part)
        part = ::read(ends[0], reinterpret_cast<char *>(seconds.data()) + got, std::size_t(bytes - got));
    close(ends[0]);
    int status = 0;
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || got != bytes)
        throw std::runtime_error("the process with one thread failed");
    return seconds;
}

void profile(const Arguments &a, const Table &table) {
    const std::vector<double> one = on_one_thread(a, table);
    Network network(table, 1, a.options);
    const std::vector<double> all = layer_seconds(network, a.runs);
    std::printf("%-12s %-10s %-18s %10s %8s %6s\n", "layer", "operation", "result", "us", "GFLOP/s", "gain");
    double whole[2] = {0, 0};
    std::size_t i = 0;
    for (const Node &node : network.layers()) {
        const Shape s = node.shape, f = node.filter_shape;
        const std::string shape =
            std::to_string(s.n) + "x" + std::to_string(s.c) + "x" + std::to_string(s.h) + "x" + std::to_string(s.w);
        const bool is_convolution = node.line.op == "conv";
        const double flops = is_convolution ? 2.0 * double(s.elements()) * f.c * f.h * f.w : 0;
        const double seconds = all[i], gain = one[i] / all[i];
        whole[0] += one[i], whole[1] += all[i++];
        if (node.inputs.empty()) continue;
        std::printf("%-12s %-10s %-18s %10.1f ", node.line.name.c_str(), node.line.op.c_str(), shape.c_str(),
                    1e6 * seconds);
        is_convolution ? std::printf("%8.1f", 1e-9 * flops / seconds) : std::printf("%8s", "");
        std::printf(" %6.2f\n", gain);
    }
    std::printf("%-12s %-10s %-18s %10.1f %8s %6.2f\n", "all", "", "", 1e6 * whole[1], "", whole[0] / whole[1]);
}

}  // namespace

int main(int argc, char **argv) {
    try {
        const Arguments arguments = parse(argc, argv);
        const Table table = read_table(arguments.table);
        arguments.profile ? profile(arguments, table) : together(arguments, table);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "networks: %s\n", error.what());
        return 2;
    }
}
