/* Memory that runs out inside a call: the status that says so, no end of the program, and the same call succeeds once there is memory.
 *
 * Each allocation of each call fails, alone or with all behind it, in a child of its own: as the first call of its kind, and after
 * another. With an argument, calls for which libcudnn starts threads are left out: glibc ends a process that has no memory for the
 * thread-local data of a library that was loaded late. */
#define _GNU_SOURCE
#include <cublas_v2.h>
#include <curand.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define FAILING_PAGES
#include "../failing_memory.h"

#ifdef IS_FAILING
enum { NUMBERS = 4096, MANY = 1 << 20 };

static cudaStream_t stream, other_stream;
static cudaEvent_t event, other_event;
static cudaGraph_t graph, other_graph;
static cudaGraphExec_t executable, other_executable;
static cudaGraphNode_t node;
static cublasHandle_t blas, other_blas;
static curandGenerator_t generator, other_generator;
static cudaMemPool_t pool;
static struct cudaPointerAttributes attributes;
static struct cudaDeviceProp properties;
static float *device, *many, host[NUMBERS], result;
static void *memory;
static const float one = 1, zero = 0;

static void nothing(void *data) { (void)data; }

static int malloc_(void) { return cudaMalloc(&memory, 1000); }
static int malloc_large(void) { return cudaMalloc(&memory, 8 << 20); }
static int malloc_host(void) { return cudaMallocHost(&memory, 1000); }
static int malloc_managed(void) { return cudaMallocManaged(&memory, 1000, cudaMemAttachGlobal); }
static int malloc_async(void) { return cudaMallocAsync(&memory, 1000, NULL); }
static int malloc_pitch(void) { size_t pitch; return cudaMallocPitch(&memory, &pitch, 100, 10); }
static int stream_create(void) { return cudaStreamCreate(&other_stream); }
static int event_create(void) { return cudaEventCreate(&other_event); }
static int event_record(void) { return cudaEventRecord(event, stream); }
static int graph_create(void) { return cudaGraphCreate(&other_graph, 0); }
static int add_node(void) { return cudaGraphAddEmptyNode(&node, graph, NULL, 0); }
static int instantiate(void) { return cudaGraphInstantiate(&other_executable, graph, 0); }
static int launch(void) { return cudaGraphLaunch(executable, stream); }
static int clone(void) { return cudaGraphClone(&other_graph, graph); }
static int host_function(void) { return cudaLaunchHostFunc(stream, nothing, NULL); }
static int copy(void) { return cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice); }
static int copy_many(void) { return cudaMemcpy(many, many + MANY, MANY * sizeof *many, cudaMemcpyDeviceToDevice); }
static int set_many(void) { return cudaMemset(many, 0, MANY * sizeof *many); }
static int look(void) { return cudaPointerGetAttributes(&attributes, device); }
static int look_at_device(void) { return cudaGetDeviceProperties(&properties, 0); }
static int registered(void) {
  const int code = cudaHostRegister(host, sizeof host, 0);
  if (code == cudaSuccess) cudaHostUnregister(host);
  return code;
}
static int pool_create(void) {
  struct cudaMemPoolProps props;
  memset(&props, 0, sizeof props);
  props.allocType = cudaMemAllocationTypePinned, props.location.type = cudaMemLocationTypeDevice;
  return cudaMemPoolCreate(&pool, &props);
}
/* A capture with a node; whatever fails, it ends. */
static int capture(void) {
  cudaGraph_t made = NULL;
  const int begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  if (begun != cudaSuccess) return begun;
  const int recorded = cudaMemsetAsync(device, 0, 100, stream), ended = cudaStreamEndCapture(stream, &made);
  if (made != NULL) cudaGraphDestroy(made);
  return recorded != cudaSuccess ? recorded : ended;
}
static int blas_create(void) { return cublasCreate(&other_blas); }
static int product(void) {
  return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, &one, device, 32, device, 32, &zero, device + 1024, 32);
}
static int large_product(void) {
  return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, 300, 300, 300, &one, many, 300, many, 300, &zero, many + MANY, 300);
}
static int products(void) {
  const float *a[2] = {device, device}, *b[2] = {device, device};
  float *c[2] = {device + 2048, device + 3072};
  return cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, a, 8, b, 8, &zero, c, 8, 2);
}
static int dot(void) { return cublasSdot(blas, 100, device, 1, device, 1, &result); }
static int long_dot(void) { return cublasSdot(blas, MANY, many, 1, many, 1, &result); }
static int matrix_by_vector(void) {
  return cublasSgemv(blas, CUBLAS_OP_N, 40, 40, &one, device, 40, device, 1, &zero, device + 2048, 1);
}
static int solve(void) {
  return cublasStrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, 16, 16, &one, device, 16,
                     device + 2048, 16);
}
static int generator_create(void) { return curandCreateGenerator(&other_generator, CURAND_RNG_PSEUDO_DEFAULT); }
static int uniform(void) { return curandGenerateUniform(generator, device, NUMBERS); }
static int many_uniform(void) { return curandGenerateUniform(generator, many, MANY); }
static int freed(void) {
  const int code = cudaFree(device);
  device = NULL;
  return code;
}

/* What each library says of want of memory. */
enum { RUNTIME = cudaErrorMemoryAllocation, BLAS = CUBLAS_STATUS_ALLOC_FAILED, RAND = CURAND_STATUS_ALLOCATION_FAILED };

static const struct {
  const char *name;
  int (*call)(void);
  int none;
} calls[] = {
    {"cudaMalloc", malloc_, RUNTIME}, {"cudaMalloc of 8 MB", malloc_large, RUNTIME},
    {"cudaMallocHost", malloc_host, RUNTIME}, {"cudaMallocManaged", malloc_managed, RUNTIME},
    {"cudaMallocAsync", malloc_async, RUNTIME}, {"cudaMallocPitch", malloc_pitch, RUNTIME},
    {"cudaStreamCreate", stream_create, RUNTIME}, {"cudaEventCreate", event_create, RUNTIME},
    {"cudaEventRecord", event_record, RUNTIME}, {"cudaGraphCreate", graph_create, RUNTIME},
    {"cudaGraphAddEmptyNode", add_node, RUNTIME}, {"cudaGraphInstantiate", instantiate, RUNTIME},
    {"cudaGraphLaunch", launch, RUNTIME}, {"cudaGraphClone", clone, RUNTIME},
    {"cudaLaunchHostFunc", host_function, RUNTIME}, {"cudaMemcpy", copy, RUNTIME},
    {"cudaMemcpy of 4 MB", copy_many, RUNTIME}, {"cudaMemset of 4 MB", set_many, RUNTIME},
    {"cudaPointerGetAttributes", look, RUNTIME}, {"cudaGetDeviceProperties", look_at_device, RUNTIME},
    {"cudaHostRegister", registered, RUNTIME}, {"cudaMemPoolCreate", pool_create, RUNTIME},
    {"a capture", capture, RUNTIME}, {"cublasCreate", blas_create, BLAS},
    {"cublasSgemm", product, BLAS}, {"cublasSgemm of 300", large_product, BLAS},
    {"cublasSgemmBatched", products, BLAS}, {"cublasSdot", dot, BLAS},
    {"cublasSdot of 2^20", long_dot, BLAS}, {"cublasSgemv", matrix_by_vector, BLAS},
    {"cublasStrsm", solve, BLAS}, {"curandCreateGenerator", generator_create, RAND},
    {"curandGenerateUniform", uniform, RAND}, {"curandGenerateUniform of 2^20", many_uniform, RAND},
    {"cudaFree", freed, RUNTIME},
};

enum { SERVED, WITHOUT, REFUSED, OTHER_STATUS, FAILS_LATER };

/* A call in a child, in which allocation `number` fails; how the child ends. */
static int child(int which, int is_warm, int number) {
  alarm(30);
  if (is_warm && calls[which].call != freed && calls[which].call() != 0) return OTHER_STATUS;
  left = number;
  const int status = calls[which].call();
  left = -1;
  if (status != 0 && status != calls[which].none) {
    fprintf(stderr, "%s: status %d where memory runs out\n", calls[which].name, status);
    return OTHER_STATUS;
  }
  if (status != 0 && calls[which].call() != 0) return FAILS_LATER;
  return !failed ? SERVED : status == 0 ? WITHOUT : REFUSED;
}

int main(int arguments, char **names) {
  const int count = sizeof calls / sizeof *calls;
  int which, is_warm, number, refused = 0, broken = 0;
  OK(cudaMalloc((void **)&device, NUMBERS * sizeof *device));
  OK(cudaMalloc((void **)&many, 2 * MANY * sizeof *many));
  OK(cudaMemset(device, 0, NUMBERS * sizeof *device));
  OK(cudaStreamCreate(&stream));
  OK(cudaEventCreate(&event));
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphAddEmptyNode(&node, graph, NULL, 0));
  OK(cudaGraphInstantiate(&executable, graph, 0));
  EXPECT(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  EXPECT(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_DEFAULT) == CURAND_STATUS_SUCCESS);
  (void)names;
  for (which = 0; which < count; which++)
    for (is_warm = 0; is_warm < 2 && (arguments < 2 || calls[which].call != large_product); is_warm++)
      for (fails_alone = 0; fails_alone < 2; fails_alone++)
        for (number = 0; number < 100; number++) {
          int status = -1;
          const pid_t process = fork();
          if (process == 0) _exit(child(which, is_warm, number));
          EXPECT(process > 0 && waitpid(process, &status, 0) == process);
          if (WIFEXITED(status) && WEXITSTATUS(status) == SERVED) break;
          refused += WIFEXITED(status) && WEXITSTATUS(status) == REFUSED;
          if (!WIFEXITED(status) || WEXITSTATUS(status) > REFUSED) {
            fprintf(stderr, "%s, %s: allocation %d%s fails, and the child ends with %s %d\n", calls[which].name,
                    is_warm ? "warm" : "cold", number, fails_alone ? "" : " and all behind it",
                    WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
            broken++;
          }
        }
  /* A program whose allocations never fail shows nothing. */
  EXPECT(refused > 20);
  EXPECT(broken == 0);
  return 0;
}
#else
int main(void) { return 0; }
#endif
