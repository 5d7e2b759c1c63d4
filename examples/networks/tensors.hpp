// Four-dimensional tensors of floats, and memory for them: what the networks need on top of cudnn.hpp.
#ifndef EXAMPLES_TENSORS_HPP
#define EXAMPLES_TENSORS_HPP

#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include <cudnn.hpp>

// The call, named in the error that it may end in.
#define CUDNN(function, ...) ::cudnn::check(function(__VA_ARGS__), #function)

// Batch, channels, height, width.
struct Shape {
    int n = 1, c = 1, h = 1, w = 1;
    std::size_t elements() const { return std::size_t(n) * c * h * w; }
    cudnn::Dims dims() const { return {n, c, h, w}; }
};

inline cudnn::Tensor packed(Shape s, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) {
    return {CUDNN_DATA_FLOAT, s.dims(), format};
}

inline cudnn::Dims strides(const cudnn::Tensor &tensor) {
    cudnnDataType_t type;
    int rank = 0;
    std::array<int, 4> dims{}, strides{};
    CUDNN(cudnnGetTensorNdDescriptor, tensor, 4, &type, &rank, dims.data(), strides.data());
    return {strides.begin(), strides.end()};
}

// A window of these extents into memory that is packed like `whole`.
inline cudnn::Tensor window(Shape s, const cudnn::Tensor &whole) {
    return {CUDNN_DATA_FLOAT, s.dims(), strides(whole)};
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

#endif
