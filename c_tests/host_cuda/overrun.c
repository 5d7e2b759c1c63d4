/* Planted faults for the guard mode, chosen by the first argument. */
#include "check.h"

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  volatile unsigned char *block;
  OK(cudaMalloc((void **)&block, 1000));
  switch (argv[1][0]) {
    case 'f': /* Fresh memory is full of NaN. */
      EXPECT(((volatile float *)block)[249] != ((volatile float *)block)[249]);
      break;
    case 'e': /* The byte behind the end, found when the block is freed. */
      block[1000] = 1;
      break;
    case 'x': /* The same, found at exit. */
      block[1000] = 1;
      return 0;
    case 'p': /* Behind the last page. */
      block[1000 + 256] = 1;
      break;
    case 'n': { /* The first float behind the end of a hundred, read and written. */
      volatile float *numbers;
      OK(cudaMalloc((void **)&numbers, 100 * sizeof(float)));
      if (argv[1][1] == 'r') return numbers[100] > 0;
      numbers[100] = 1;
      break;
    }
    case 'a': { /* Every size ends less than 16 bytes before the page. */
      for (size_t size = 1; size < 70; size++) {
        volatile unsigned char *small;
        OK(cudaMalloc((void **)&small, size));
        EXPECT((size_t)small % 16 == 0 && ((size_t)small + size + 15) / 16 * 16 % 4096 == 0);
        for (size_t i = 0; i < size; i++) small[i] = 1;
        OK(cudaFree((void *)small));
      }
      break;
    }
    case 'b': /* The byte before the start. */
      block[-1] = 1;
      break;
    case 'u': /* After it was freed. */
      OK(cudaFree((void *)block));
      block[0] = 1;
      break;
    case 'o': /* A copy onto itself, shifted. */
      ANSWERS(cudaErrorInvalidValue, cudaMemcpy((void *)(block + 1), (void *)block, 10, cudaMemcpyDeviceToDevice));
      break;
    case 'c': /* A copy of one byte too many. */
      ANSWERS(cudaErrorInvalidValue, cudaMemset((void *)block, 0, 1001));
      break;
    default:
      return 2;
  }
  OK(cudaFree((void *)block));
  return 0;
}
