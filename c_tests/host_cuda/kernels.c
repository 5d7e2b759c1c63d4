/* A program with a kernel and variables of its own, by the calls that compilers generate: it starts, and is told. */
#include "check.h"

void **__cudaRegisterFatBinary(void *code);
void __cudaRegisterFatBinaryEnd(void **module);
void __cudaUnregisterFatBinary(void **module);
void __cudaRegisterFunction(void **module, const char *stub, char *function, const char *name, int limit, void *thread,
                            void *block, void *block_size, void *grid_size, int *warp_size);
void __cudaRegisterVar(void **module, char *shadow, char *address, const char *name, int external, size_t size,
                       int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

static int table[16];

static void stub(void) {}

int main(void) {
  const char *kernel = (const char *)(size_t)stub;
  int numbers[16] = {0}, back[16];
  for (int i = 0; i < 16; i++) numbers[i] = i;
  void **module = __cudaRegisterFatBinary(NULL);
  EXPECT(module != NULL);
  __cudaRegisterFunction(module, kernel, (char *)"add", "_Z3addPfS_", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterVar(module, (char *)table, (char *)"table", "table", 0, sizeof table, 1, 0);
  __cudaRegisterFatBinaryEnd(module);

  void *address;
  size_t size, shared;
  OK(cudaGetSymbolAddress(&address, table));
  OK(cudaGetSymbolSize(&size, table));
  EXPECT(address != (void *)table && size == sizeof table);
  OK(cudaMemcpyToSymbol(table, numbers, sizeof numbers, 0, cudaMemcpyHostToDevice));
  OK(cudaMemcpyFromSymbol(back, table, 8 * sizeof *back, 8 * sizeof *back, cudaMemcpyDeviceToHost));
  EXPECT(back[0] == 8 && back[7] == 15);
  ANSWERS(cudaErrorInvalidValue, cudaMemcpyFromSymbol(back, table, 8, sizeof table, cudaMemcpyDeviceToHost));
  ANSWERS(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(numbers, numbers, 4, 0, cudaMemcpyHostToDevice));

  const dim3 grid = {7, 8, 9}, block = {32, 1, 1};
  dim3 grid_back, block_back;
  cudaStream_t stream;
  EXPECT(__cudaPushCallConfiguration(grid, block, 128, cudaStreamPerThread) == 0);
  OK(__cudaPopCallConfiguration(&grid_back, &block_back, &shared, &stream));
  EXPECT(grid_back.x == 7 && grid_back.y == 8 && grid_back.z == 9 && block_back.x == 32);
  EXPECT(shared == 128 && stream == cudaStreamPerThread);
  ANSWERS(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&grid_back, &block_back, &shared, &stream));
  for (int i = 0; i < 2; i++)
    ANSWERS(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(kernel, grid, block, NULL, 0, NULL));
  EXPECT(cudaGetLastError() == cudaErrorNoKernelImageForDevice);
  ANSWERS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(table, grid, block, NULL, 0, NULL));
  int blocks;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0));
  EXPECT(blocks == 8);
  __cudaUnregisterFatBinary(module);
  ANSWERS(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, table));
  return 0;
}
