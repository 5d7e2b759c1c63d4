// The headers in C++: overloads for pointers to any type, vectors, half precision, and cudnn.h beside them.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cmath>

#include "check.h"

static_assert(sizeof(cudaDeviceProp) == 1032, "the layout of version 12");
static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(double2) == 16, "as CUDA aligns them");

int main() {
  float *device, *pinned, *managed, back = 0;
  OK(cudaMalloc(&device, sizeof(float)));
  OK(cudaMallocHost(&pinned, sizeof(float)));
  OK(cudaMallocManaged(&managed, sizeof(float)));
  *pinned = 2.5f;
  OK(cudaMemcpyAsync(device, pinned, sizeof(float), cudaMemcpyHostToDevice));
  OK(cudaMemcpyAsync(managed, device, sizeof(float), cudaMemcpyDeviceToDevice));
  OK(cudaMemcpy(&back, managed, sizeof(float), cudaMemcpyDeviceToHost));
  EXPECT(back == 2.5f);
  OK(cudaFree(device));
  OK(cudaFree(managed));
  OK(cudaFreeHost(pinned));
  const dim3 grid(3, 2);
  EXPECT(grid.x == 3 && grid.y == 2 && grid.z == 1);
  const float4 vector = make_float4(1, 2, 3, 4);
  EXPECT(vector.w == 4);
  // Every half goes to float and back, NaN as NaN.
  for (unsigned bits = 0; bits < 65536; bits++) {
    const __half half = __ushort_as_half(static_cast<unsigned short>(bits));
    const float wide = __half2float(half);
    if (std::isnan(wide)) continue;
    EXPECT(__half_as_ushort(__float2half(wide)) == bits);
  }
  // Half way between two, to the even one; beyond the largest, infinity.
  EXPECT(__half_as_ushort(__float2half(1.00048828125f)) == 0x3c00);
  EXPECT(__half_as_ushort(__float2half(1.00146484375f)) == 0x3c02);
  EXPECT(__half_as_ushort(__float2half(65520.0f)) == 0x7c00 && __half_as_ushort(__float2half(65519.0f)) == 0x7bff);
  EXPECT(__half_as_ushort(__double2half(1.000488281250000001 + 1e-12)) == 0x3c01);
  EXPECT(__bfloat16_as_ushort(__float2bfloat16(1.00390625f)) == 0x3f80);
  EXPECT(__bfloat162float(__float2bfloat16(-3.0f)) == -3.0f);
  return 0;
}
