// One step of training: the forward pass that keeps what gradients need, the backward pass, and the descent.
#include <cmath>
#include <stdexcept>

#include "network.hpp"

namespace {
const float ONE = 1, ZERO = 0;
const double EPSILON = 1e-5;

cudnn::Tensor of_channels(const Node &node) { return packed({1, node.shape.c, 1, 1}); }
}  // namespace

void Network::run_training(Node &node) {
    if (node.line.op != "conv") return run(node);
    const Node &x = *node.inputs[0];
    float *data = node.convolved.data();
    CUDNN(cudnnConvolutionForward, handle_, &ONE, *x.desc, x.data, *node.filter, node.weight.data.data(),
          *node.convolution, node.forward, workspace_.data(), workspace_.bytes(), &ZERO, *node.desc, data);
    if (node.line.norm) {
        data = node.normalised.data();
        CUDNN(cudnnBatchNormalizationForwardTraining, handle_, CUDNN_BATCHNORM_SPATIAL, &ONE, &ZERO, *node.desc,
              node.convolved.data(), *node.desc, data, of_channels(node), node.scale.data.data(), node.bias.data.data(),
              0.1, node.mean.data.data(), node.variance.data.data(), EPSILON, node.saved_mean.data.data(),
              node.saved_inverse.data.data());
    } else {
        CUDNN(cudnnAddTensor, handle_, &ONE, *node.bias_desc, node.bias.data.data(), &ONE, *node.desc, data);
    }
    if (node.add) CUDNN(cudnnAddTensor, handle_, &ONE, *node.add->desc, node.add->data, &ONE, *node.desc, data);
    if (node.line.act.empty())
        CUDNN(cudnnTransformTensor, handle_, &ONE, *node.desc, data, &ZERO, *node.desc, node.data);
    else
        activate(node, data);
}

// Where a layer's gradient goes: the first share is written, all later ones are added.
float *Network::gradient_of(Node &node, float &beta) {
    beta = node.has_grad ? 1.0f : 0.0f;
    node.has_grad = true;
    return node.grad;
}

void Network::run_back(Node &node) {
    const auto fail = [&] { throw std::runtime_error(node.line.name + ": this example does not train such a layer"); };
    Node &x = *node.inputs[0];
    float beta = 0;
    if (node.line.op == "maxpool" || node.line.op == "avgpool") {
        if (node.line.shifted) fail();
        float *dx = gradient_of(x, beta);
        CUDNN(cudnnPoolingBackward, handle_, *node.pooling, &ONE, *node.desc, node.data, *node.desc, node.grad, *x.desc,
              x.data, &beta, *x.desc, dx);
        return;
    }
    if (node.line.op != "conv" || node.line.act == "leaky") fail();
    if (!node.line.act.empty())
        // A ReLU lets pass where its result is above 0, so the result serves as x as well; in place on dy.
        CUDNN(cudnnActivationBackward, handle_, node.line.act == "relu" ? relu_ : *node.relu6, &ONE, *node.desc,
              node.data, *node.desc, node.grad, *node.desc, node.data, &ZERO, *node.desc, node.grad);
    if (node.add) {
        float *dadd = gradient_of(*node.add, beta);
        CUDNN(cudnnAddTensor, handle_, &ONE, *node.desc, node.grad, &beta, *node.add->desc, dadd);
    }
    float *dy = node.grad;
    if (node.line.norm) {
        dy = node.normalised.data();  // not read any more
        CUDNN(cudnnBatchNormalizationBackward, handle_, CUDNN_BATCHNORM_SPATIAL, &ONE, &ZERO, &ONE, &ZERO, *node.desc,
              node.convolved.data(), *node.desc, node.grad, *node.desc, dy, of_channels(node), node.scale.data.data(),
              node.scale.grad.data(), node.bias.grad.data(), EPSILON, node.saved_mean.data.data(),
              node.saved_inverse.data.data());
    } else {
        CUDNN(cudnnConvolutionBackwardBias, handle_, &ONE, *node.desc, dy, &ZERO, *node.bias_desc,
              node.bias.grad.data());
    }
    CUDNN(cudnnConvolutionBackwardFilter, handle_, &ONE, *x.desc, x.data, *node.desc, dy, *node.convolution,
          node.to_filter, workspace_.data(), workspace_.bytes(), &ZERO, *node.filter, node.weight.grad.data());
    if (&x == &nodes_.front()) return;
    float *dx = gradient_of(x, beta);
    CUDNN(cudnnConvolutionBackwardData, handle_, &ONE, *node.filter, node.weight.data.data(), *node.desc, dy,
          *node.convolution, node.to_data, workspace_.data(), workspace_.bytes(), &beta, *x.desc, dx);
}

float Network::train(const std::vector<int> &labels, float rate) {
    for (Node &node : nodes_) {
        node.has_grad = false;
        run_training(node);
    }
    Node &last = nodes_.back();
    const Shape s = last.shape;
    const cudnn::Tensor rows = packed({s.n, s.c, 1, 1});
    const Buffer logs(rows.bytes()), wanted(rows.bytes());
    CUDNN(cudnnSoftmaxForward, handle_, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &ONE, *last.desc, last.data,
          &ZERO, rows, logs.data());
    float loss = 0;
    for (int n = 0; n < s.n; n++)
        for (int c = 0; c < s.c; c++) {
            const bool right = c == labels[std::size_t(n)];
            wanted.data()[n * s.c + c] = right ? -1.0f / float(s.n) : 0.0f;
            if (right) loss -= logs.data()[n * s.c + c] / float(s.n);
        }
    CUDNN(cudnnSoftmaxBackward, handle_, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &ONE, rows, logs.data(), rows,
          wanted.data(), &ZERO, *last.desc, last.grad);
    last.has_grad = true;
    for (auto node = nodes_.rbegin(); node != std::prev(nodes_.rend()); ++node) run_back(*node);
    for (Node &node : nodes_) {
        if (node.line.op != "conv") continue;
        const float back = -rate;
        for (Parameter *p : {&node.weight, &node.bias, &node.scale}) {
            if (p->grad.bytes() == 0) continue;
            const cudnn::Tensor all = packed({1, 1, 1, int(p->values.size())});
            CUDNN(cudnnAddTensor, handle_, &back, all, p->grad.data(), &ONE, all, p->data.data());
        }
    }
    return loss;
}

std::vector<double> Network::gradient_norms() const {
    std::vector<double> norms;
    for (const Node &node : nodes_)
        for (const Parameter *p : {&node.weight, &node.bias, &node.scale}) {
            if (p->grad.bytes() == 0) continue;
            double sum = 0;
            for (std::size_t i = 0; i < p->values.size(); i++)
                sum += double(p->grad.data()[i]) * double(p->grad.data()[i]);
            norms.push_back(std::sqrt(sum));
        }
    return norms;
}
