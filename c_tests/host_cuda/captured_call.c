/* Calls of libcudnn on a stream that captures: nothing is computed until the graph is launched, and then every time. */
#include <cudnn.h>

#include "check.h"

int main(void) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t tensor;
  cudaStream_t stream, other;
  cudaGraph_t graph;
  cudaGraphExec_t launch;
  const float one = 1, zero = 0;
  const float values[4] = {-3, -1, 2, 5};
  float *x, *y, *z, back[4];
  size_t i;
  OK(cudaMalloc((void **)&x, sizeof values));
  OK(cudaMalloc((void **)&y, sizeof values));
  OK(cudaMalloc((void **)&z, sizeof values));
  OK(cudaMemcpy(x, values, sizeof values, cudaMemcpyHostToDevice));
  OK(cudaMemset(y, 0, sizeof values));
  OK(cudaMemset(z, 0, sizeof values));
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&other));
  EXPECT(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnCreateTensorDescriptor(&tensor) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 4, 1, 1) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS);

  /* y += x, then z = softmax(y): the second reads what the first one writes. The factors are those of now. */
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  float alpha = 1, beta = 1;
  EXPECT(cudnnTransformTensor(handle, &alpha, tensor, x, &beta, tensor, y) == CUDNN_STATUS_SUCCESS);
  alpha = beta = 100;
  EXPECT(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, tensor, y, &zero, tensor, z) ==
         CUDNN_STATUS_SUCCESS);
  for (i = 0; i < 4; i++) EXPECT(y[i] == 0 && z[i] == 0);
  /* What is wrong is refused at once, and spoils nothing. */
  EXPECT(cudnnTransformTensor(handle, &one, tensor, NULL, &one, tensor, y) == CUDNN_STATUS_BAD_PARAM);
  /* Another stream computes meanwhile. */
  EXPECT(cudnnSetStream(handle, other) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnTransformTensor(handle, &one, tensor, x, &zero, tensor, y) == CUDNN_STATUS_SUCCESS);
  for (i = 0; i < 4; i++) EXPECT(y[i] == values[i]);
  OK(cudaStreamEndCapture(stream, &graph));
  /* The descriptor and the handle are not needed any more. */
  EXPECT(cudnnDestroyTensorDescriptor(tensor) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);

  OK(cudaGraphInstantiate(&launch, graph, 0));
  OK(cudaGraphDestroy(graph));
  for (int turn = 2; turn < 5; turn++) {
    float sum = 0;
    OK(cudaGraphLaunch(launch, stream));
    OK(cudaMemcpy(back, y, sizeof back, cudaMemcpyDeviceToHost));
    for (i = 0; i < 4; i++) EXPECT(back[i] == (float)turn * values[i]);
    OK(cudaMemcpy(back, z, sizeof back, cudaMemcpyDeviceToHost));
    for (i = 0; i < 4; i++) sum += back[i];
    EXPECT(sum > 0.999F && sum < 1.001F && back[3] > back[2] && back[2] > back[1]);
  }
  OK(cudaGraphExecDestroy(launch));

  /* A capture that was spoiled takes no call. */
  EXPECT(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnCreateTensorDescriptor(&tensor) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 4, 1, 1) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaStreamSynchronize(stream) != cudaSuccess);
  EXPECT(cudnnTransformTensor(handle, &one, tensor, x, &zero, tensor, y) == CUDNN_STATUS_EXECUTION_FAILED);
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);

  /* The default stream waits for streams that were made blocking: nothing is computed there while one captures, and that capture is
     spoiled. Others do not matter to it. */
  cudaStream_t apart;
  OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  EXPECT(cudnnSetStream(handle, NULL) == CUDNN_STATUS_SUCCESS);
  for (int blocks = 0; blocks < 2; blocks++) {
    cudaStream_t captures = blocks ? stream : apart;
    OK(cudaMemset(y, 0, sizeof values));
    OK(cudaStreamBeginCapture(captures, cudaStreamCaptureModeRelaxed));
    const cudnnStatus_t status = cudnnTransformTensor(handle, &one, tensor, x, &zero, tensor, y);
    const cudaError_t end = cudaStreamEndCapture(captures, &graph);
    EXPECT(status == (blocks ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS));
    EXPECT(end == (blocks ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
    for (i = 0; i < 4; i++) EXPECT(y[i] == (blocks ? 0 : values[i]));
  }
  EXPECT(cudnnDestroyTensorDescriptor(tensor) == CUDNN_STATUS_SUCCESS);
  EXPECT(cudnnDestroy(handle) == CUDNN_STATUS_SUCCESS);
  return 0;
}
