// Building a network, and its forward pass.
#include "network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace {
const float ONE = 1, ZERO = 0;
const double EPSILON = 1e-5;

cudnn::Pooling pooling(cudnnPoolingMode_t mode, const cudnn::Dims &window, int pad, int stride) {
    return {mode, window, {pad, pad}, {stride, stride}, CUDNN_NOT_PROPAGATE_NAN};
}

// Whole cells that windows of r at stride s make of n, with padding p on both sides.
int windows(int n, int r, int s, int p) { return (n + 2 * p - r) / s + 1; }

float largest(const float *values, std::size_t count) {
    float largest = 0;
    for (std::size_t i = 0; i < count; i++) largest = std::max(largest, std::abs(values[i]));
    return largest;
}
}  // namespace

float drawn(std::uint64_t seed, std::uint64_t parameter, std::uint64_t index) {
    std::uint64_t z = seed * 0x9E3779B97F4A7C15u + parameter * 0xD1B54A32D192ED03u + index * 0x8CB92BA72F3D8DD7u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return float(z >> 40) / float(1 << 23) - 1;
}

Network::Network(const Table &table, std::uint64_t seed, Options options) : options_(options) {
    Node input;
    input.line.name = "input";
    input.shape = {options.batch, table.c, table.h, table.w};
    input.desc = packed(input.shape, options.format, options.type);
    nodes_.push_back(std::move(input));
    for (const Line &line : table.lines) add_node(line);
    if (options.type == CUDNN_DATA_INT8) measure(table, seed);
    std::uint64_t number = 0;
    for (Node &node : nodes_)
        if (node.line.op == "conv") {
            draw_parameters(node, seed, number);
            choose(node);
        }
    place();
    workspace_ = Buffer(workspace_needed_);
}

Node &Network::find(const std::string &name, int line) {
    for (Node &node : nodes_)
        if (node.line.name == name) return node;
    throw std::runtime_error("line " + std::to_string(line) + ": there is no layer `" + name + "` above");
}

void Network::add_node(const Line &line) {
    const auto fail = [&](const std::string &why) {
        throw std::runtime_error("line " + std::to_string(line.number) + ": " + why);
    };
    Node node;
    node.line = line;
    for (const auto &name : line.inputs) node.inputs.push_back(&find(name, line.number));
    if (!line.add.empty()) node.add = &find(line.add, line.number);
    const Shape x = node.inputs[0]->shape;
    const int r = line.get("r", 1), s = line.get("s", 1), p = line.get("p", 0);
    if (s < 1 || r < 1) fail("windows and strides are 1 or more");
    node.shape = x;
    if (line.op == "conv") {
        add_convolution(node);
    } else if (line.op == "maxpool") {
        if (line.shifted) {
            // One row and column more on either side, of which the first is left out.
            node.pooling = pooling(CUDNN_POOLING_MAX, {2, 2}, 1, 1);
            node.staged_desc = packed({x.n, x.c, x.h + 1, x.w + 1}, plain_format(), options_.type);
            node.staged = Buffer(node.staged_desc->bytes());
        } else {
            node.pooling = pooling(CUDNN_POOLING_MAX, {r, r}, p, s);
            node.shape.h = windows(x.h, r, s, p), node.shape.w = windows(x.w, r, s, p);
        }
    } else if (line.op == "avgpool") {
        node.pooling = pooling(CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, {x.h, x.w}, 0, 1);
        node.shape.h = node.shape.w = 1;
    } else if (line.op == "upsample") {
        node.pooling = pooling(CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, {2, 2}, 0, 2);
        node.shape.h *= 2, node.shape.w *= 2;
    } else if (line.op == "concat") {
        node.shape.c = 0;
        for (const Node *input : node.inputs) {
            if (input->shape.h != x.h || input->shape.w != x.w) fail("images of different extents");
            node.shape.c += input->shape.c;
        }
        // Strides tell where a slice of plain channels begins, and nothing of blocks.
        if (plain_format() != options_.format) {
            node.staged_desc = packed(node.shape, plain_format(), options_.type);
            node.staged = Buffer(node.staged_desc->bytes());
        }
    } else {
        fail("there is no operation `" + line.op + "`");
    }
    if (node.shape.h < 1 || node.shape.w < 1)
        fail("nothing is left of images of " + std::to_string(x.h) + " x " + std::to_string(x.w));
    if (node.add && (node.add->shape.elements() != node.shape.elements())) fail("`add` has another shape");
    node.desc = packed(node.shape, options_.format, options_.type);
    nodes_.push_back(std::move(node));
}

void Network::add_convolution(Node &node) {
    const Line &line = node.line;
    const Shape x = node.inputs[0]->shape;
    const int k = line.get("k", line.depthwise ? x.c : 0), r = line.get("r", 1), s = line.get("s", 1),
              p = line.get("p", 0);
    const int groups = line.depthwise ? x.c : line.get("g", 1);
    if (k < 1 || groups < 1 || x.c % groups || k % groups)
        throw std::runtime_error("line " + std::to_string(line.number) + ": " + std::to_string(x.c) + " channels and " +
                                 std::to_string(k) + " filters do not make " + std::to_string(groups) + " groups");
    node.shape = {x.n, k, windows(x.h, r, s, p), windows(x.w, r, s, p)};
    if (node.shape.h < 1 || node.shape.w < 1) return;  // the caller refuses it
    node.filter_shape = {k, x.c / groups, r, r};
    // Bytes are summed as integers, and the bias is a float then.
    const bool bytes = options_.type == CUDNN_DATA_INT8;
    node.filter.emplace(options_.type, node.filter_shape.dims(), filter_format());
    node.bias_desc = packed({1, k, 1, 1}, plain_format(), bytes ? CUDNN_DATA_FLOAT : options_.type);
    node.convolution.emplace(cudnn::Dims{p, p}, cudnn::Dims{s, s}, cudnn::Dims{1, 1},
                             bytes ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT, groups);
}

void Network::draw_parameters(Node &node, std::uint64_t seed, std::uint64_t &number) {
    const Shape f = node.filter_shape;
    const auto draw = [&](Parameter &to, std::size_t count, float middle, float range) {
        to.values.resize(count);
        for (std::size_t i = 0; i < count; i++) to.values[i] = middle + range * drawn(seed, number, i);
        number++;
    };
    draw(node.weight, f.elements(), 0, std::sqrt(6.0f / float(f.c * f.h * f.w)));
    draw(node.bias, std::size_t(f.n), 0, 0.1f);
    if (node.line.norm) {
        draw(node.scale, std::size_t(f.n), 0.75f, 0.25f);
        draw(node.mean, std::size_t(f.n), 0, 0.1f);
        draw(node.variance, std::size_t(f.n), 1, 0.5f);
    }
    if (!options_.training && node.line.norm) fold(node);
    if (filter_format() == CUDNN_TENSOR_NHWC) {
        std::vector<float> turned(node.weight.values.size());
        std::size_t at = 0;
        for (int k = 0; k < f.n; k++)
            for (int h = 0; h < f.h; h++)
                for (int w = 0; w < f.w; w++)
                    for (int c = 0; c < f.c; c++)
                        turned[at++] = node.weight.values[((std::size_t(k) * f.c + c) * f.h + h) * f.w + w];
        node.weight.values = std::move(turned);
    }
    const bool bytes = options_.type == CUDNN_DATA_INT8;
    upload(node.weight, options_.type, bytes ? largest(node.weight.values.data(), f.elements()) / 127 : 1);
    upload(node.bias, bytes ? CUDNN_DATA_FLOAT : options_.type, node.quantum);
    for (Parameter *p : {&node.scale, &node.mean, &node.variance}) upload(*p, CUDNN_DATA_FLOAT);
    if (node.line.act == "relu6") node.relu6.emplace(CUDNN_ACTIVATION_CLIPPED_RELU, 6 / node.quantum);
    if (!options_.training) {
        for (Parameter *p : {&node.weight, &node.bias, &node.scale, &node.mean, &node.variance})
            p->values = std::vector<float>();
        return;
    }
    for (Parameter *p : {&node.weight, &node.bias, &node.scale}) p->grad = Buffer(p->values.size() * sizeof(float));
    node.saved_mean.data = Buffer(std::size_t(f.n) * sizeof(float));
    node.saved_inverse.data = Buffer(std::size_t(f.n) * sizeof(float));
}

// Inference: a normalisation is a factor and a summand of each channel, which the filter and its bias can take over.
void Network::fold(Node &node) {
    const std::size_t per_filter = node.weight.values.size() / std::size_t(node.filter_shape.n);
    for (int k = 0; k < node.filter_shape.n; k++) {
        const double factor = node.scale.values[k] / std::sqrt(node.variance.values[k] + EPSILON);
        for (std::size_t i = 0; i < per_filter; i++) {
            float &w = node.weight.values[std::size_t(k) * per_filter + i];
            w = float(w * factor);
        }
        node.bias.values[k] = float(node.bias.values[k] - node.mean.values[k] * factor);
    }
}

// Converted by the library, which rounds to the nearest, as multiples of the quantum.
void Network::upload(Parameter &parameter, cudnnDataType_t type, float quantum) {
    if (parameter.values.empty()) return;
    const Shape all{1, 1, 1, int(parameter.values.size())};
    const cudnn::Tensor from = packed(all), to = packed(all, CUDNN_TENSOR_NCHW, type);
    const float factor = 1 / quantum;
    parameter.quantum = quantum;
    parameter.data = Buffer(to.bytes());
    CUDNN(cudnnTransformTensor, handle_, &factor, from, parameter.values.data(), &ZERO, to, parameter.data.data());
}

// The largest number of each layer in a forward pass of floats.
std::vector<float> Network::ranges() {
    std::vector<float> ranges;
    for (Node &node : nodes_) {
        run(node);
        const float *data = static_cast<const float *>(node.data);
        ranges.push_back(largest(data, node.shape.elements()));
        // A leaky ReLU comes after the convolution, whose numbers below 0 are ten times as large.
        if (node.line.act == "leaky")
            for (std::size_t i = 0; i < node.shape.elements(); i++)
                ranges.back() = std::max(ranges.back(), -10 * data[i]);
    }
    return ranges;
}

// Bytes: what 1 stands for in each layer, so that its largest number is 127.
void Network::measure(const Table &table, std::uint64_t seed) {
    Options floats = options_;
    floats.type = CUDNN_DATA_FLOAT;
    floats.format = CUDNN_TENSOR_NCHW;
    Network measured(table, seed, floats);
    measured.draw_input();
    const std::vector<float> ranges = measured.ranges();
    std::size_t i = 0;
    for (Node &node : nodes_) {
        const float range = ranges[i++];
        // What only picks or repeats numbers needs no others.
        const bool same = node.line.op == "maxpool" || node.line.op == "upsample";
        node.quantum = same ? node.inputs[0]->quantum : range > 0 ? range / 127 : 1;
    }
    // A convolution of bytes can end in floats, and what a network says does.
    Node &last = nodes_.back();
    if (last.line.op == "conv" && !last.add) {
        last.desc = packed(last.shape, options_.format);
        last.quantum = 1;
    }
}

// Inference: all layers share one piece of memory, in which each has the lowest place that nobody needs any more: what was just
// written stays in the caches. A sum is written over what is added, if nobody needs that any more. The input's serves no one
// else: it is there for the next forward pass, too. Training keeps all.
void Network::place() {
    int step = 0;
    for (Node &node : nodes_) {
        for (Node *input : node.inputs) input->last_use = step;
        if (node.add) node.add->last_use = step;
        node.last_use = step++;
    }
    nodes_.front().last_use = nodes_.back().last_use = step;
    if (options_.training) {
        for (Node &node : nodes_) {
            const std::size_t bytes = node.desc->bytes();
            memory_.emplace_back(bytes);
            node.data = memory_.back().data();
            memory_.emplace_back(bytes);
            node.grad = memory_.back().data();
            if (node.line.op == "conv") {
                node.convolved = Buffer(bytes);
                if (node.line.norm) node.normalised = Buffer(bytes);
            }
        }
        return;
    }
    struct Place {
        std::size_t begin, end;
        Node *node;
    };
    std::vector<Place> places, busy;
    std::size_t all = 0;
    step = 0;
    for (Node &node : nodes_) {
        busy.clear();
        for (const Place &place : places)
            if (place.node->last_use >= step) busy.push_back(place);
        std::sort(busy.begin(), busy.end(), [](const Place &a, const Place &b) { return a.begin < b.begin; });
        const std::size_t bytes = (node.desc->bytes() + 63) / 64 * 64;
        std::size_t begin = 0;
        const auto summand = std::find_if(busy.begin(), busy.end(), [&](const Place &place) {
            return place.node == node.add && node.add->last_use == step;
        });
        if (summand != busy.end()) {
            begin = summand->begin;
        } else {
            for (const Place &place : busy) {
                if (begin + bytes <= place.begin) break;
                begin = place.end;
            }
        }
        places.push_back({begin, begin + bytes, &node});
        all = std::max(all, begin + bytes);
        step++;
    }
    memory_.emplace_back(all);
    for (const Place &place : places) place.node->data = memory_[0].data() + place.begin / sizeof(float);
}

void Network::choose(Node &node) {
    const auto x = cudnnTensorDescriptor_t(*node.inputs[0]->desc), y = cudnnTensorDescriptor_t(*node.desc);
    const auto w = cudnnFilterDescriptor_t(*node.filter);
    const auto conv = cudnnConvolutionDescriptor_t(*node.convolution);
    int found = 0;
    std::size_t bytes = 0;
    const auto need = [&] { workspace_needed_ = std::max(workspace_needed_, bytes); };
    cudnnConvolutionFwdAlgoPerf_t forward;
    if (options_.choose == Choose::Limit) {
        CUDNN(cudnnGetConvolutionForwardAlgorithm, handle_, x, w, conv, y,
              CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT, std::size_t(1) << 20, &node.forward);
    } else {
        if (options_.choose == Choose::Find)
            CUDNN(cudnnFindConvolutionForwardAlgorithm, handle_, x, w, conv, y, 1, &found, &forward);
        else
            CUDNN(cudnnGetConvolutionForwardAlgorithm_v7, handle_, x, w, conv, y, 1, &found, &forward);
        node.forward = forward.algo;
    }
    CUDNN(cudnnGetConvolutionForwardWorkspaceSize, handle_, x, w, conv, y, node.forward, &bytes);
    need();
    if (!options_.training) return;
    cudnnConvolutionBwdDataAlgoPerf_t to_data;
    CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7, handle_, w, y, conv, x, 1, &found, &to_data);
    node.to_data = to_data.algo;
    CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize, handle_, w, y, conv, x, node.to_data, &bytes);
    need();
    cudnnConvolutionBwdFilterAlgoPerf_t to_filter;
    CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7, handle_, x, y, conv, w, 1, &found, &to_filter);
    node.to_filter = to_filter.algo;
    CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize, handle_, x, y, conv, w, node.to_filter, &bytes);
    need();
}

void Network::draw_input() {
    Node &input = nodes_.front();
    const Shape s = input.shape;
    std::vector<float> values(s.elements());
    for (std::size_t i = 0; i < values.size(); i++) values[i] = drawn(INPUT_SEED, ~std::uint64_t(0), i);
    const cudnn::Tensor nchw = packed(s);
    const float factor = 1 / input.quantum;
    CUDNN(cudnnTransformTensor, handle_, &factor, nchw, values.data(), &ZERO, *input.desc, input.data);
}

// Leaky ReLU is the larger of x and 0.1 x.
void Network::activate(const Node &node, void *data) {
    const cudnn::Tensor &desc = *node.desc;
    const float slope = 0.1f;
    if (node.line.act == "leaky")
        CUDNN(cudnnOpTensor, handle_, maximum_, &ONE, desc, data, &slope, desc, data, &ZERO, desc, node.data);
    else if (!node.line.act.empty())
        CUDNN(cudnnActivationForward, handle_, node.line.act == "relu" ? relu_ : *node.relu6, &ONE, desc, data, &ZERO,
              desc, node.data);
}

void Network::run(Node &node) {
    const Node *x = node.inputs.empty() ? nullptr : node.inputs[0];
    const std::string &op = node.line.op;
    // From the units of another layer to those of this one.
    const auto units = [&](const Node &from) { return from.quantum / node.quantum; };
    if (op == "conv") {
        const float factor = units(*x) * node.weight.quantum, share = node.add ? units(*node.add) : 0;
        // Bias, sum and ReLU while the result is in the cache; what else there is after it, in place.
        const auto convolve = [&](const cudnn::Activation &activation) {
            return cudnnConvolutionBiasActivationForward(handle_, &factor, *x->desc, x->data, *node.filter,
                                                         node.weight.data.data(), *node.convolution, node.forward,
                                                         workspace_.data(), workspace_.bytes(), &share, *node.desc,
                                                         node.add ? node.add->data : node.data, *node.bias_desc,
                                                         node.bias.data.data(), activation, *node.desc, node.data);
        };
        const auto checked = [&](cudnnStatus_t status) {
            cudnn::check(status, "cudnnConvolutionBiasActivationForward");
        };
        const bool relu6 = node.line.act == "relu6";
        if (node.line.act == "relu") return checked(convolve(relu_));
        if (relu6 && fuses_relu6_) {
            if (convolve(*node.relu6) == CUDNN_STATUS_SUCCESS) return;
            // The original has only ReLU there, and so has this library in strict mode. What else may be wrong the next call says.
            fuses_relu6_ = false;
        }
        checked(convolve(identity_));
        activate(node, node.data);
    } else if (node.line.shifted) {
        const Window staged(*node.staged_desc);
        CUDNN(cudnnPoolingForward, handle_, *node.pooling, &ONE, *x->desc, x->data, &ZERO, *node.staged_desc,
              node.staged.data());
        CUDNN(cudnnTransformTensor, handle_, &ONE, staged.of(node.shape), staged.at(node.staged.data(), 0, 1, 1), &ZERO,
              *node.desc, node.data);
    } else if (op == "upsample") {
        // The gradient of a mean over 2 x 2 gives each of the four a quarter. What it was a mean of is not read.
        const float four = 4;
        CUDNN(cudnnPoolingBackward, handle_, *node.pooling, &four, *x->desc, x->data, *x->desc, x->data, *node.desc,
              node.data, &ZERO, *node.desc, node.data);
    } else if (op == "concat") {
        int channel = 0;
        const cudnn::Tensor &whole = node.staged_desc ? *node.staged_desc : *node.desc;
        void *const data = node.staged_desc ? node.staged.data() : node.data;
        const Window channels(whole);
        for (const Node *input : node.inputs) {
            const float factor = units(*input);
            CUDNN(cudnnTransformTensor, handle_, &factor, *input->desc, input->data, &ZERO, channels.of(input->shape),
                  channels.at(data, channel, 0, 0));
            channel += input->shape.c;
        }
        if (node.staged_desc) CUDNN(cudnnTransformTensor, handle_, &ONE, whole, data, &ZERO, *node.desc, node.data);
    } else if (node.pooling) {
        const float factor = units(*x);
        CUDNN(cudnnPoolingForward, handle_, *node.pooling, &factor, *x->desc, x->data, &ZERO, *node.desc, node.data);
    }
}

void Network::forward() {
    for (Node &node : nodes_) {
        const auto start = std::chrono::steady_clock::now();
        run(node);
        node.best =
            std::min(node.best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
}

std::vector<float> Network::output() const {
    const Node &last = nodes_.back();
    std::vector<float> values(last.shape.elements());
    const cudnn::Tensor nchw = packed(last.shape);
    CUDNN(cudnnTransformTensor, handle_, &last.quantum, *last.desc, last.data, &ZERO, nchw, values.data());
    return values;
}
