// Four-dimensional tensors, and memory for them: what the networks need on top of cudnn.hpp.
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

inline cudnn::Tensor packed(Shape s, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW,
                            cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return {type, s.dims(), format};
}

inline std::size_t bytes_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_FLOAT ? 4 : type == CUDNN_DATA_INT8 ? 1 : 2;
}

// Memory that is packed like `whole`, as an image of all its channels or of a few.
struct Window {
    explicit Window(const cudnn::Tensor &whole) {
        int rank = 0;
        std::array<int, 4> dims{}, steps{};
        CUDNN(cudnnGetTensorNdDescriptor, whole, 4, &type, &rank, dims.data(), steps.data());
        strides.assign(steps.begin(), steps.end());
    }
    cudnn::Tensor of(Shape s) const { return {type, s.dims(), strides}; }
    // What lies that many steps behind `data`.
    void *at(void *data, int channels, int rows, int columns) const {
        const int elements = channels * strides[1] + rows * strides[2] + columns * strides[3];
        return static_cast<char *>(data) + std::size_t(elements) * bytes_of(type);
    }

    cudnnDataType_t type;
    cudnn::Dims strides;
};

// Memory that begins on a cache line. On the CPU core this is what the library's "device" pointers point to.
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
