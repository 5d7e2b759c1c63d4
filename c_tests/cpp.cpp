// The library from C++11: owners for descriptors, the forwarding headers, and the tags of the opaque types.
#include <cudnn.h>

#include <cudnn_adv.h>
#include <cudnn_cnn.h>
#include <cudnn_graph.h>
#include <cudnn_ops.h>
#include <cudnn_version.h>

#include <cstddef>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "check.h"

// Frameworks write templates over the opaque tags, so these names are part of what a program sees.
static_assert(std::is_same<cudnnHandle_t, struct cudnnContext *>::value, "handle");
static_assert(std::is_same<cudnnTensorDescriptor_t, struct cudnnTensorStruct *>::value, "tensor");
static_assert(std::is_same<cudnnFilterDescriptor_t, struct cudnnFilterStruct *>::value, "filter");
static_assert(std::is_same<cudnnTensorTransformDescriptor_t, struct cudnnTensorTransformStruct *>::value, "transform");
static_assert(std::is_same<cudnnOpTensorDescriptor_t, struct cudnnOpTensorStruct *>::value, "op tensor");
static_assert(std::is_same<cudnnReduceTensorDescriptor_t, struct cudnnReduceTensorStruct *>::value, "reduce tensor");
static_assert(std::is_same<decltype(&cudnnGetVersion), size_t (*)()>::value, "signature");
static_assert(sizeof(cudnnDataType_t) == 4 && sizeof(cudnnStatus_t) == 4, "enumerations are four bytes");

namespace {

void check(cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS) throw std::runtime_error(cudnnGetErrorString(status));
}

template <typename T, cudnnStatus_t (*destroy)(T *)>
struct Destroy {
    void operator()(T *object) const {
        if (object != nullptr) OK(destroy(object));
    }
};

template <typename T, cudnnStatus_t (*create)(T **), cudnnStatus_t (*destroy)(T *)>
class Owner {
  public:
    Owner() {
        T *raw = nullptr;
        check(create(&raw));
        object_.reset(raw);
    }
    T *get() const { return object_.get(); }

  private:
    std::unique_ptr<T, Destroy<T, destroy>> object_;
};

using Handle = Owner<cudnnContext, cudnnCreate, cudnnDestroy>;
using Tensor = Owner<cudnnTensorStruct, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;

template <typename T>
struct DataType;
template <>
struct DataType<float> {
    static constexpr cudnnDataType_t value = CUDNN_DATA_FLOAT;
};
template <>
struct DataType<double> {
    static constexpr cudnnDataType_t value = CUDNN_DATA_DOUBLE;
};

template <typename T>
Tensor describe(cudnnTensorFormat_t format, const std::vector<int> &dims) {
    Tensor tensor;
    check(cudnnSetTensorNdDescriptorEx(tensor.get(), format, DataType<T>::value, static_cast<int>(dims.size()),
                                       dims.data()));
    return tensor;
}

template <typename T>
void round_trip(const Handle &handle) {
    const std::vector<int> dims = {2, 5, 3, 4};
    Tensor nchw = describe<T>(CUDNN_TENSOR_NCHW, dims), nhwc = describe<T>(CUDNN_TENSOR_NHWC, dims);
    Tensor moved = std::move(nhwc);
    std::vector<T> x(2 * 5 * 3 * 4), y(x.size(), T(-1)), back(x.size(), T(-1));
    std::iota(x.begin(), x.end(), T(0));
    const T one = 1, zero = 0;
    check(cudnnTransformTensor(handle.get(), &one, nchw.get(), x.data(), &zero, moved.get(), y.data()));
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 5; c++)
            for (int p = 0; p < 12; p++) CHECK(y[(n * 12 + p) * 5 + c] == x[(n * 5 + c) * 12 + p]);
    check(cudnnTransformTensor(handle.get(), &one, moved.get(), y.data(), &zero, nchw.get(), back.data()));
    CHECK(back == x);
}

void failures() {
    std::string what;
    try {
        describe<float>(CUDNN_TENSOR_NCHW, {1, 2, 0, 4});
    } catch (const std::runtime_error &error) {
        what = error.what();
    }
    CHECK(what == "CUDNN_STATUS_BAD_PARAM");
}

} // namespace

int main() {
    static_assert(CUDNN_MAJOR == 9, "version macros are constants");
    Handle handle;
    round_trip<float>(handle);
    round_trip<double>(handle);
    failures();
    return check_result("cpp");
}
