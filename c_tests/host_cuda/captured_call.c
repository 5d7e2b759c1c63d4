/* A call of libcudnn on a stream that captures: refused, for it would compute at once what belongs into a graph. */
#include <cudnn.h>

#include "check.h"

int main(void) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t tensor;
  cudaStream_t stream, other;
  cudaGraph_t graph;
  const float one = 1, zero = 0;
  float *x, *y, back = 0;
  OK(cudaMalloc((void **)&x, sizeof *x));
  OK(cudaMalloc((void **)&y, sizeof *y));
  OK(cudaMemcpy(x, &one, sizeof one, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(y, &zero, sizeof zero, cudaMemcpyHostToDevice));
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  EXPECT(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnCreateTensorDescriptor(&tensor) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  EXPECT(cudnnTransformTensor(handle, &one, tensor, x, &zero, tensor, y) == CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT(*y == 0);
  /* Another stream computes meanwhile. */
  EXPECT(cudnnSetStream(handle, other) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnTransformTensor(handle, &one, tensor, x, &zero, tensor, y) == CUDNN_STATUS_SUCCESS);
  OK(cudaStreamEndCapture(stream, &graph));
  EXPECT(cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnTransformTensor(handle, &one, tensor, x, &one, tensor, y) == CUDNN_STATUS_SUCCESS);
  OK(cudaMemcpy(&back, y, sizeof back, cudaMemcpyDeviceToHost));
  EXPECT(back == 2);
  EXPECT(cudnnDestroyTensorDescriptor(tensor) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
  OK(cudaGraphDestroy(graph));
  return 0;
}
