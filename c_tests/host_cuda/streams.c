/* Device, streams, events and functions of the program; threads and a fork. */
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static int order[4], called;

static void CUDART_CB note(void *data) { order[called++] = *(int *)data; }

static void CUDART_CB callback(cudaStream_t stream, cudaError_t status, void *data) {
  (void)stream;
  EXPECT(status == cudaSuccess);
  note(data);
}

static void device(void) {
  struct cudaDeviceProp properties;
  int count, device, value, runtime, driver, least, most;
  char bus[16];
  OK(cudaGetDeviceCount(&count));
  OK(cudaSetDevice(0));
  OK(cudaGetDevice(&device));
  EXPECT(count == 1 && device == 0);
  memset(&properties, 0xee, sizeof properties);
  OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT(strcmp(properties.name, "cudnn-shim host") == 0);
  EXPECT(properties.warpSize == 32 && properties.maxThreadsDim[2] == 64 && properties.unifiedAddressing == 1);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
  EXPECT(properties.major == value && properties.totalGlobalMem > 0);
  OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT(properties.multiProcessorCount == value && value >= 1);
  OK(cudaRuntimeGetVersion(&runtime));
  OK(cudaDriverGetVersion(&driver));
  EXPECT(runtime / 1000 == CUDART_VERSION / 1000 && driver >= runtime);
  OK(cudaDeviceGetStreamPriorityRange(&least, &most));
  EXPECT(most <= least);
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  OK(cudaDeviceGetByPCIBusId(&device, bus));
  EXPECT(device == 0);
  size_t limit;
  OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 12345678));
  OK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
  EXPECT(limit == 12345678);
}

static void streams(void) {
  cudaStream_t stream;
  unsigned int flags;
  int priority, numbers[4] = {1, 2, 3, 4};
  OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -100));
  OK(cudaStreamGetFlags(stream, &flags));
  OK(cudaStreamGetPriority(stream, &priority));
  EXPECT(flags == cudaStreamNonBlocking && priority == -5);
  OK(cudaLaunchHostFunc(stream, note, &numbers[0]));
  OK(cudaStreamAddCallback(stream, callback, &numbers[1], 0));
  OK(cudaLaunchHostFunc(NULL, note, &numbers[2]));
  OK(cudaStreamSynchronize(stream));
  OK(cudaStreamQuery(stream));
  EXPECT(called == 3 && order[0] == 1 && order[1] == 2 && order[2] == 3);
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamSynchronize(cudaStreamPerThread));
}

static void events(void) {
  cudaEvent_t start, end;
  float milliseconds, backwards;
  const struct timespec pause = {0, 20000000};
  OK(cudaEventCreate(&start));
  OK(cudaEventCreateWithFlags(&end, cudaEventBlockingSync));
  OK(cudaEventRecord(start, NULL));
  nanosleep(&pause, NULL);
  OK(cudaEventRecord(end, NULL));
  OK(cudaStreamWaitEvent(NULL, end, 0));
  OK(cudaEventSynchronize(end));
  OK(cudaEventQuery(end));
  OK(cudaEventElapsedTime(&milliseconds, start, end));
  OK(cudaEventElapsedTime(&backwards, end, start));
  EXPECT(milliseconds >= 20.0f && milliseconds < 10000.0f && backwards == -milliseconds);
  OK(cudaEventDestroy(start));
  OK(cudaEventDestroy(end));
}

static void *work(void *data) {
  const int number = *(int *)data;
  unsigned char host[1000], *block;
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  for (int i = 0; i < 200; i++) {
    OK(cudaMalloc((void **)&block, sizeof host));
    OK(cudaMemsetAsync(block, number, sizeof host, stream));
    OK(cudaMemcpyAsync(host, block, sizeof host, cudaMemcpyDeviceToHost, stream));
    EXPECT(host[0] == number && host[999] == number);
    OK(cudaFree(block));
  }
  OK(cudaStreamDestroy(stream));
  /* Errors belong to the thread. */
  EXPECT(cudaPeekAtLastError() == cudaSuccess);
  ANSWERS(cudaErrorInvalidDevice, cudaSetDevice(number + 1));
  return NULL;
}

static void threads(void) {
  pthread_t threads[8];
  int numbers[8];
  for (int i = 0; i < 8; i++) {
    numbers[i] = i + 1;
    EXPECT(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
  }
  /* Children begin with the memory of the parent, whoever holds a lock then. */
  char *block, text[8] = "before";
  OK(cudaMalloc((void **)&block, sizeof text));
  OK(cudaMemcpy(block, text, sizeof text, cudaMemcpyHostToDevice));
  for (int i = 0; i < 10; i++) {
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      memset(text, 0, sizeof text);
      OK(cudaMemcpy(text, block, sizeof text, cudaMemcpyDeviceToHost));
      OK(cudaFree(block));
      _exit(strcmp(text, "before") ? 1 : 0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  OK(cudaFree(block));
  for (int i = 0; i < 8; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
  device();
  streams();
  events();
  threads();
  EXPECT(cudaGetLastError() == cudaSuccess);
  OK(cudaDeviceSynchronize());
  OK(cudaDeviceReset());
  return 0;
}
