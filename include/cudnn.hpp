// The descriptor API in C++: objects that are destroyed where they go out of scope, and statuses that become exceptions.
//
//     cudnn::Handle handle;
//     cudnn::Tensor x(CUDNN_DATA_FLOAT, {1, 3, 32, 32}), y(CUDNN_DATA_FLOAT, {1, 3, 16, 16});
//     cudnn::Pooling pooling(CUDNN_POOLING_MAX, {2, 2}, {0, 0}, {2, 2});
//     CUDNN_CHECK(cudnnPoolingForward(handle, pooling, &one, x, x_data, &zero, y, y_data));
//
// Every object converts to the handle that C calls take. C++11 and the C header, nothing else; with cuDNN, too.
#ifndef CUDNN_HPP
#define CUDNN_HPP

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cudnn {

// A call that failed: its text, and its status for who wants to fall back.
class Error : public std::runtime_error {
   public:
    Error(cudnnStatus_t status, const std::string &text) : std::runtime_error(text), status_(status) {}
    cudnnStatus_t status() const { return status_; }

   private:
    cudnnStatus_t status_;
};

// Turns a status into an exception that says which call failed, and why where the library tells.
inline void check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    std::string text = std::string(call) + ": " + cudnnGetErrorString(status);
#if CUDNN_MAJOR >= 9
    char detail[512] = "";
    cudnnGetLastErrorString(detail, sizeof detail);
    if (detail[0] != '\0') text += std::string(" - ") + detail;
#endif
    throw Error(status, text);
}

#define CUDNN_CHECK(call) ::cudnn::check((call), #call)

// Owns what a Create call makes. It can be moved, not copied.
template <typename T, cudnnStatus_t (*Create)(T *), cudnnStatus_t (*Destroy)(T)>
class Owned {
   public:
    Owned() : value_() { CUDNN_CHECK(Create(&value_)); }
    ~Owned() { release(); }
    Owned(Owned &&other) noexcept : value_(other.value_) { other.value_ = T(); }
    Owned &operator=(Owned &&other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    operator T() const { return value_; }

   private:
    void release() {
        if (value_ != T()) Destroy(value_);
    }
    T value_;
};

// One for each thread, device and stream.
class Handle : public Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy> {
   public:
    Handle() {}
    explicit Handle(cudaStream_t stream) { CUDNN_CHECK(cudnnSetStream(*this, stream)); }
};

typedef std::vector<int> Dims;

inline std::size_t count(const Dims &dims) {
    std::size_t product = 1;
    for (std::size_t i = 0; i < dims.size(); i++) product *= static_cast<std::size_t>(dims[i]);
    return product;
}

class Tensor : public Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor> {
   public:
    // Packed in a format; dims in the order N, C, spatial.
    Tensor(cudnnDataType_t type, const Dims &dims, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) : dims_(dims) {
        CUDNN_CHECK(cudnnSetTensorNdDescriptorEx(*this, format, type, rank(), dims.data()));
    }
    // With strides in elements.
    Tensor(cudnnDataType_t type, const Dims &dims, const Dims &strides) : dims_(dims) {
        CUDNN_CHECK(cudnnSetTensorNdDescriptor(*this, type, rank(), dims.data(), strides.data()));
    }
    const Dims &dims() const { return dims_; }
    int rank() const { return static_cast<int>(dims_.size()); }
    std::size_t bytes() const {
        std::size_t size = 0;
        CUDNN_CHECK(cudnnGetTensorSizeInBytes(*this, &size));
        return size;
    }

   private:
    Dims dims_;
};

class Filter : public Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor> {
   public:
    // Dims in the order K, C, spatial.
    Filter(cudnnDataType_t type, const Dims &dims, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW) : dims_(dims) {
        CUDNN_CHECK(cudnnSetFilterNdDescriptor(*this, type, format, static_cast<int>(dims.size()), dims.data()));
    }
    const Dims &dims() const { return dims_; }

   private:
    Dims dims_;
};

class Convolution
    : public Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor> {
   public:
    Convolution(const Dims &pad, const Dims &stride, const Dims &dilation, cudnnDataType_t compute, int groups = 1) {
        CUDNN_CHECK(cudnnSetConvolutionNdDescriptor(*this, static_cast<int>(pad.size()), pad.data(), stride.data(),
                                                    dilation.data(), CUDNN_CROSS_CORRELATION, compute));
        CUDNN_CHECK(cudnnSetConvolutionGroupCount(*this, groups));
    }
    Dims output(const Tensor &x, const Filter &w) const {
        Dims dims(x.dims().size());
        CUDNN_CHECK(cudnnGetConvolutionNdForwardOutputDim(*this, x, w, x.rank(), dims.data()));
        return dims;
    }
};

class Pooling : public Owned<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor> {
   public:
    Pooling(cudnnPoolingMode_t mode, const Dims &window, const Dims &pad, const Dims &stride,
            cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN) {
        CUDNN_CHECK(cudnnSetPoolingNdDescriptor(*this, mode, nan, static_cast<int>(window.size()), window.data(),
                                                pad.data(), stride.data()));
    }
    Dims output(const Tensor &x) const {
        Dims dims(x.dims().size());
        CUDNN_CHECK(cudnnGetPoolingNdForwardOutputDim(*this, x, x.rank(), dims.data()));
        return dims;
    }
};

class Activation
    : public Owned<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor> {
   public:
    explicit Activation(cudnnActivationMode_t mode, double coefficient = 0.0,
                        cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN) {
        CUDNN_CHECK(cudnnSetActivationDescriptor(*this, mode, nan, coefficient));
    }
};

class OpTensor
    : public Owned<cudnnOpTensorDescriptor_t, cudnnCreateOpTensorDescriptor, cudnnDestroyOpTensorDescriptor> {
   public:
    explicit OpTensor(cudnnOpTensorOp_t op, cudnnDataType_t compute = CUDNN_DATA_FLOAT,
                      cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN) {
        CUDNN_CHECK(cudnnSetOpTensorDescriptor(*this, op, compute, nan));
    }
};

class Reduce : public Owned<cudnnReduceTensorDescriptor_t, cudnnCreateReduceTensorDescriptor,
                            cudnnDestroyReduceTensorDescriptor> {
   public:
    explicit Reduce(cudnnReduceTensorOp_t op, cudnnDataType_t compute = CUDNN_DATA_FLOAT,
                    cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN) {
        CUDNN_CHECK(cudnnSetReduceTensorDescriptor(*this, op, compute, nan, CUDNN_REDUCE_TENSOR_NO_INDICES,
                                                   CUDNN_32BIT_INDICES));
    }
    std::size_t workspace(const Handle &handle, const Tensor &a, const Tensor &c) const {
        std::size_t size = 0;
        CUDNN_CHECK(cudnnGetReductionWorkspaceSize(handle, *this, a, c, &size));
        return size;
    }
};

}  // namespace cudnn

#endif  // CUDNN_HPP
