// A network from a table: its parameters, its forward pass, and one step of training.
#ifndef EXAMPLES_NETWORK_HPP
#define EXAMPLES_NETWORK_HPP

#include <cstdint>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "table.hpp"
#include "tensors.hpp"

// How algorithms of convolutions are chosen.
enum class Choose { Get, Find, Limit };

struct Options {
    int batch = 1;
    cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
    // Of tensors and weights: FLOAT, BFLOAT16, HALF or INT8.
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    Choose choose = Choose::Get;
    bool training = false;
};

// The seed of inputs. Networks of bytes measure the range of every layer with this one.
const std::uint64_t INPUT_SEED = 2;

// Numbers of [-1, 1) that depend on nothing but these three; `check.py` draws the same.
float drawn(std::uint64_t seed, std::uint64_t parameter, std::uint64_t index);

struct Parameter {
    std::vector<float> values;
    Buffer data, grad;
    float quantum = 1;
};

struct Node {
    Line line;
    Shape shape;
    std::optional<cudnn::Tensor> desc;
    std::vector<Node *> inputs;
    Node *add = nullptr;
    void *data = nullptr;
    float *grad = nullptr;
    // What 1 in memory stands for: bytes are multiples of it.
    float quantum = 1;
    bool has_grad = false;
    int last_use = 0;
    // Seconds of the fastest forward pass.
    double best = std::numeric_limits<double>::infinity();

    // Of a convolution.
    Shape filter_shape;
    std::optional<cudnn::Filter> filter;
    std::optional<cudnn::Tensor> bias_desc;
    std::optional<cudnn::Convolution> convolution;
    std::optional<cudnn::Activation> relu6;
    Parameter weight, bias, scale, mean, variance, saved_mean, saved_inverse;
    cudnnConvolutionFwdAlgo_t forward{};
    cudnnConvolutionBwdDataAlgo_t to_data{};
    cudnnConvolutionBwdFilterAlgo_t to_filter{};
    // What the convolution alone gives, where training needs it; and after the normalisation.
    Buffer convolved, normalised;

    std::optional<cudnn::Pooling> pooling;
    // Of a layer that is put together elsewhere and then moved to its place.
    Buffer staged;
    std::optional<cudnn::Tensor> staged_desc;
};

class Network {
   public:
    Network(const Table &table, std::uint64_t seed, Options options);
    // Fills the input with drawn numbers.
    void draw_input();
    void forward();
    // Every layer, in order, with the time of its fastest forward pass.
    const std::list<Node> &layers() const { return nodes_; }
    // Softmax cross-entropy against `labels`, all gradients, one step of plain gradient descent. Returns the loss.
    float train(const std::vector<int> &labels, float rate);
    // The last layer in NCHW order.
    std::vector<float> output() const;
    // Names and sums of squares of all gradients, in order of creation.
    std::vector<double> gradient_norms() const;
    std::size_t workspace_bytes() const { return workspace_.bytes(); }

   private:
    void add_node(const Line &line);
    void add_convolution(Node &node);
    void draw_parameters(Node &node, std::uint64_t seed, std::uint64_t &number);
    void fold(Node &node);
    void upload(Parameter &parameter, cudnnDataType_t type, float quantum = 1);
    std::vector<float> ranges();
    void measure(const Table &table, std::uint64_t seed);
    void place();
    void choose(Node &node);
    void run(Node &node);
    void run_training(Node &node);
    void run_back(Node &node);
    void activate(const Node &node, void *data);
    float *gradient_of(Node &node, float &beta);
    Node &find(const std::string &name, int line);
    // Channels are neighbours in filters wherever they are in tensors.
    cudnnTensorFormat_t filter_format() const {
        return options_.format == CUDNN_TENSOR_NCHW ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
    }

    // A format whose strides say where every element lies.

    cudnnTensorFormat_t plain_format() const {
        return options_.format == CUDNN_TENSOR_NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    }

    Options options_;
    cudnn::Handle handle_;
    std::list<Node> nodes_;
    Buffer workspace_;
    std::size_t workspace_needed_ = 16;
    std::vector<Buffer> memory_;
    cudnn::Activation identity_{CUDNN_ACTIVATION_IDENTITY};
    cudnn::Activation relu_{CUDNN_ACTIVATION_RELU};
    // Whether convolutions may end with a clipped ReLU.
    bool fuses_relu6_ = true;
    cudnn::OpTensor maximum_{CUDNN_OP_TENSOR_MAX};
};

#endif
