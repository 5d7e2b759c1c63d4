/* Streams that capture, and graphs of copies, sets and functions of the program. */
#include "check.h"

static int calls;

static void CUDART_CB count(void *data) { calls += *(int *)data; }

static void captured(void) {
  cudaStream_t stream, second;
  cudaEvent_t fork, join;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  enum cudaStreamCaptureStatus status;
  int *a, *b, input = 5, output = 0, three = 3;
  OK(cudaMalloc((void **)&a, sizeof *a));
  OK(cudaMalloc((void **)&b, sizeof *b));
  OK(cudaMemset(b, 0, sizeof *b));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  OK(cudaEventCreate(&fork));
  OK(cudaEventCreate(&join));

  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  OK(cudaMemcpyAsync(a, &input, sizeof *a, cudaMemcpyHostToDevice, stream));
  OK(cudaEventRecord(fork, stream));
  OK(cudaStreamWaitEvent(second, fork, 0));
  OK(cudaStreamIsCapturing(second, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  OK(cudaMemcpyAsync(b, a, sizeof *b, cudaMemcpyDeviceToDevice, second));
  OK(cudaEventRecord(join, second));
  OK(cudaLaunchHostFunc(stream, count, &three));
  OK(cudaStreamWaitEvent(stream, join, 0));
  OK(cudaMemcpyAsync(&output, b, sizeof output, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaStreamIsCapturing(second, &status));
  EXPECT(status == cudaStreamCaptureStatusNone);
  /* Nothing has happened yet. */
  EXPECT(output == 0 && calls == 0);
  size_t nodes, edges;
  OK(cudaGraphGetNodes(graph, NULL, &nodes));
  OK(cudaGraphGetEdges(graph, NULL, NULL, &edges));
  EXPECT(nodes == 4 && edges == 4);
  OK(cudaGraphInstantiate(&executable, graph, 0));
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphUpload(executable, stream));
  for (input = 7; input < 10; input++) {
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    EXPECT(output == input);
  }
  EXPECT(calls == 9);
  OK(cudaGraphExecDestroy(executable));
  ANSWERS(cudaErrorInvalidValue, cudaGraphLaunch(executable, stream));
  OK(cudaEventDestroy(fork));
  OK(cudaEventDestroy(join));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(second));
  OK(cudaFree(a));
  OK(cudaFree(b));
}

static void spoiled(void) {
  cudaStream_t stream, second;
  cudaEvent_t event;
  cudaGraph_t graph;
  void *block;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamCreate(&second));
  OK(cudaEventCreate(&event));
  ANSWERS(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
  ANSWERS(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
  /* Allocating, waiting and the default stream spoil a capture. */
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ANSWERS(cudaErrorIllegalState, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ANSWERS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&block, 10));
  ANSWERS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  EXPECT(graph == NULL);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaMalloc(&block, 10));
  ANSWERS(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  ANSWERS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ANSWERS(cudaErrorStreamCaptureImplicit, cudaMemsetAsync(block, 0, 10, NULL));
  ANSWERS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  /* A second stream that is not joined, and one that did not begin. */
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(second, event, 0));
  ANSWERS(cudaErrorCapturedEvent, cudaEventSynchronize(event));
  ANSWERS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(second, &graph));
  ANSWERS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(event, stream));
  OK(cudaStreamWaitEvent(second, event, 0));
  OK(cudaMemsetAsync(block, 0, 10, second));
  ANSWERS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));
  OK(cudaFree(block));
  OK(cudaEventDestroy(event));
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(second));
}

static void built(void) {
  cudaGraph_t graph, copy;
  cudaGraphNode_t set, fetch, call, found, nodes[8];
  cudaGraphExec_t executable;
  enum cudaGraphNodeType type;
  short *block, back[4];
  int two = 2;
  size_t number = 8;
  OK(cudaMalloc((void **)&block, sizeof back));
  OK(cudaGraphCreate(&graph, 0));
  struct cudaMemsetParams fill;
  memset(&fill, 0, sizeof fill);
  fill.dst = block, fill.value = 0x1234, fill.elementSize = 2, fill.width = 4, fill.height = 1;
  OK(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &fill));
  OK(cudaGraphAddMemcpyNode1D(&fetch, graph, &set, 1, back, block, sizeof back, cudaMemcpyDeviceToHost));
  const struct cudaHostNodeParams host = {count, &two};
  OK(cudaGraphAddHostNode(&call, graph, NULL, 0, &host));
  OK(cudaGraphAddDependencies(graph, &fetch, &call, 1));
  ANSWERS(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &fetch, &call, 1));
  OK(cudaGraphGetRootNodes(graph, nodes, &number));
  EXPECT(number == 1 && nodes[0] == set);
  OK(cudaGraphNodeGetType(fetch, &type));
  EXPECT(type == cudaGraphNodeTypeMemcpy);
  OK(cudaGraphClone(&copy, graph));
  OK(cudaGraphNodeFindInClone(&found, set, copy));
  EXPECT(found != set);
  fill.elementSize = 3;
  ANSWERS(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(found, &fill));
  fill.elementSize = 2, fill.value = 0x4321;
  OK(cudaGraphMemsetNodeSetParams(found, &fill));
  calls = 0;
  OK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cudaGraphLaunch(executable, NULL));
  EXPECT(back[0] == 0x1234 && back[3] == 0x1234 && calls == 2);
  cudaGraphExecUpdateResultInfo result;
  OK(cudaGraphExecUpdate(executable, copy, &result));
  EXPECT(result.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphLaunch(executable, cudaStreamPerThread));
  EXPECT(back[0] == 0x4321 && calls == 4);
  OK(cudaGraphDestroyNode(call));
  ANSWERS(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(executable, graph, &result));
  EXPECT(result.result == cudaGraphExecUpdateErrorTopologyChanged);
  /* Nodes that wait for each other cannot be launched. */
  OK(cudaGraphAddDependencies(graph, &fetch, &set, 1));
  cudaGraphExec_t never;
  ANSWERS(cudaErrorInvalidValue, cudaGraphInstantiate(&never, graph, 0));
  OK(cudaGraphExecDestroy(executable));
  OK(cudaGraphDestroy(copy));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(block));
}

int main(void) {
  captured();
  spoiled();
  built();
  return 0;
}
