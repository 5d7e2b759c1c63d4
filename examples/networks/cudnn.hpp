// Legacy cuDNN descriptors as C++ values: created, set, moved and destroyed by themselves; a failing call throws.
#ifndef EXAMPLES_CUDNN_HPP
#define EXAMPLES_CUDNN_HPP

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace cudnn {

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    std::array<char, 512> text{};
#if CUDNN_MAJOR >= 9
    cudnnGetLastErrorString(text.data(), text.size());
#endif
    throw Error(std::string(call) + ": " + cudnnGetErrorString(status) + (text[0] ? ": " : "") + text.data());
}
// The call, named in the error that it may end in.
#define CUDNN(function, ...) ::cudnn::check(function(__VA_ARGS__), #function)

// Owns what Create made until Destroy.
template <typename T, cudnnStatus_t (*Create)(T *), cudnnStatus_t (*Destroy)(T)>
class Owned {
public:
    Owned() { check(Create(&value_), "create"); }
    Owned(Owned &&other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
    Owned &operator=(Owned &&other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Owned() {
        if (value_) Destroy(value_);
    }
    operator T() const { return value_; }

private:
    T value_ = nullptr;
};

using Handle = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using Pooling = Owned<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;
using Activation =
    Owned<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;
using Operation = Owned<cudnnOpTensorDescriptor_t, cudnnCreateOpTensorDescriptor, cudnnDestroyOpTensorDescriptor>;
using Convolution =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;

// Batch, channels, height, width.
struct Shape {
    int n = 1, c = 1, h = 1, w = 1;
    std::size_t elements() const { return std::size_t(n) * c * h * w; }
};

class Tensor : public Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor> {
public:
    // Packed, in any format of the library.
    Tensor(Shape s, cudnnTensorFormat_t format) {
        CUDNN(cudnnSetTensor4dDescriptor, *this, format, CUDNN_DATA_FLOAT, s.n, s.c, s.h, s.w);
    }
    // A window of these extents into memory that is packed like `whole`.
    Tensor(Shape s, const Tensor &whole) {
        const auto strides = whole.strides();
        CUDNN(cudnnSetTensor4dDescriptorEx, *this, CUDNN_DATA_FLOAT, s.n, s.c, s.h, s.w, strides[0], strides[1],
              strides[2], strides[3]);
    }
    std::size_t bytes() const {
        std::size_t size = 0;
        CUDNN(cudnnGetTensorSizeInBytes, *this, &size);
        return size;
    }
    std::array<int, 4> strides() const {
        cudnnDataType_t type;
        Shape s;
        std::array<int, 4> t{};
        CUDNN(cudnnGetTensor4dDescriptor, *this, &type, &s.n, &s.c, &s.h, &s.w, &t[0], &t[1], &t[2], &t[3]);
        return t;
    }
};

class Filter : public Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor> {
public:
    // k filters of c x h x w.
    Filter(Shape s, cudnnTensorFormat_t format) {
        CUDNN(cudnnSetFilter4dDescriptor, *this, CUDNN_DATA_FLOAT, format, s.n, s.c, s.h, s.w);
    }
};

inline Convolution convolution(int pad, int stride, int groups) {
    Convolution c;
    CUDNN(cudnnSetConvolution2dDescriptor, c, pad, pad, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
          CUDNN_DATA_FLOAT);
    CUDNN(cudnnSetConvolutionGroupCount, c, groups);
    return c;
}

inline Pooling pooling(cudnnPoolingMode_t mode, int height, int width, int pad, int stride) {
    Pooling p;
    CUDNN(cudnnSetPooling2dDescriptor, p, mode, CUDNN_NOT_PROPAGATE_NAN, height, width, pad, pad, stride, stride);
    return p;
}

inline Activation activation(cudnnActivationMode_t mode, double coefficient = 0) {
    Activation a;
    CUDNN(cudnnSetActivationDescriptor, a, mode, CUDNN_NOT_PROPAGATE_NAN, coefficient);
    return a;
}

inline Operation operation(cudnnOpTensorOp_t op) {
    Operation o;
    CUDNN(cudnnSetOpTensorDescriptor, o, op, CUDNN_DATA_FLOAT, CUDNN_NOT_PROPAGATE_NAN);
    return o;
}

// Floats on a cache line. On the CPU core these are what the library's "device" pointers point to.
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t bytes) : bytes_(bytes) {
        // Memory that nobody touches costs nothing.
        memory_.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64));
        if (!memory_) throw std::bad_alloc();
    }
    float *data() const { return static_cast<float *>(memory_.get()); }
    std::size_t bytes() const { return bytes_; }

private:
    struct Free {
        void operator()(void *memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory_;
    std::size_t bytes_ = 0;
};

}  // namespace cudnn

#endif
