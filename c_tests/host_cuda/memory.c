/* Memory of every kind, copies and sets of every form. */
#include "check.h"

static void kinds(void) {
  void *device, *pinned, *managed, *ordered;
  struct cudaPointerAttributes attributes;
  size_t before, after, total;
  OK(cudaMemGetInfo(&before, &total));
  OK(cudaMalloc(&device, 1000));
  OK(cudaHostAlloc(&pinned, 1000, cudaHostAllocMapped));
  OK(cudaMallocManaged(&managed, 1000, cudaMemAttachGlobal));
  OK(cudaMallocAsync(&ordered, 1000, NULL));
  OK(cudaMemGetInfo(&after, &total));
  EXPECT(before - after == 4000 && total >= before);
  /* Guarded blocks end near a page instead. */
  const size_t alignment = getenv("CUDNN_SHIM_HOST_CHECK") ? 16 : 256;
  EXPECT((size_t)device % alignment == 0 && (size_t)pinned % alignment == 0);
  OK(cudaPointerGetAttributes(&attributes, (char *)device + 999));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
  EXPECT(attributes.devicePointer == (char *)device + 999 && attributes.hostPointer == NULL);
  OK(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
  OK(cudaPointerGetAttributes(&attributes, managed));
  EXPECT(attributes.type == cudaMemoryTypeManaged);
  OK(cudaPointerGetAttributes(&attributes, &attributes));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered && attributes.devicePointer == NULL);
  void *mapped;
  unsigned int flags;
  OK(cudaHostGetDevicePointer(&mapped, pinned, 0));
  OK(cudaHostGetFlags(&flags, pinned));
  EXPECT(mapped == pinned && flags == cudaHostAllocMapped);
  OK(cudaFree(device));
  OK(cudaFreeHost(pinned));
  OK(cudaFree(managed));
  OK(cudaFreeAsync(ordered, NULL));
  OK(cudaFree(NULL));
  OK(cudaMalloc(&device, 0));
  EXPECT(device == NULL);
  OK(cudaMemGetInfo(&after, &total));
  EXPECT(before == after);
}

static void flat(void) {
  char text[16] = "host to device", back[16] = "", *a, *b;
  OK(cudaMalloc((void **)&a, sizeof text));
  OK(cudaMalloc((void **)&b, sizeof text));
  OK(cudaMemcpy(a, text, sizeof text, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(b, a, sizeof text, cudaMemcpyDeviceToDevice));
  OK(cudaMemcpyAsync(back, b, sizeof text, cudaMemcpyDeviceToHost, NULL));
  EXPECT(memcmp(text, back, sizeof text) == 0);
  OK(cudaMemset(a, 'x', 4));
  OK(cudaMemsetAsync(a, 'y', 2, NULL));
  OK(cudaMemcpyPeer(b, 0, a, 0, sizeof text));
  OK(cudaMemcpy(back, b, sizeof text, cudaMemcpyDefault));
  EXPECT(strcmp(back, "yyxx to device") == 0);
  OK(cudaFree(a));
  OK(cudaFree(b));
}

static void pitched(void) {
  enum { WIDTH = 5, HEIGHT = 3, DEPTH = 2 };
  unsigned char host[DEPTH][HEIGHT][WIDTH], back[DEPTH][HEIGHT][WIDTH];
  for (size_t i = 0; i < sizeof host; i++) ((unsigned char *)host)[i] = (unsigned char)(i + 1);
  void *plane;
  size_t pitch;
  OK(cudaMallocPitch(&plane, &pitch, WIDTH, HEIGHT));
  EXPECT(pitch == 512);
  memset(back, 0, sizeof back);
  OK(cudaMemset2D(plane, pitch, 0x55, WIDTH, HEIGHT));
  OK(cudaMemcpy2D(plane, pitch, host, WIDTH, 3, HEIGHT, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DAsync(back, WIDTH, plane, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost, NULL));
  EXPECT(back[0][0][2] == host[0][0][2] && back[0][2][0] == host[0][2][0] && back[0][1][3] == 0x55);
  OK(cudaFree(plane));

  struct cudaPitchedPtr solid;
  const struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
  OK(cudaMalloc3D(&solid, extent));
  OK(cudaMemset3D(solid, 0x77, extent));
  struct cudaMemcpy3DParms copy;
  memset(&copy, 0, sizeof copy);
  copy.srcPtr.ptr = host, copy.srcPtr.pitch = WIDTH, copy.srcPtr.xsize = WIDTH, copy.srcPtr.ysize = HEIGHT;
  copy.dstPtr = solid;
  copy.extent = extent;
  copy.kind = cudaMemcpyHostToDevice;
  /* All but the first byte of each row, the first row and the first slice. */
  copy.srcPos.x = copy.srcPos.y = copy.srcPos.z = copy.dstPos.x = copy.dstPos.y = copy.dstPos.z = 1;
  copy.extent.width--, copy.extent.height--, copy.extent.depth--;
  OK(cudaMemcpy3D(&copy));
  memset(&copy, 0, sizeof copy);
  copy.srcPtr = solid;
  copy.dstPtr.ptr = back, copy.dstPtr.pitch = WIDTH, copy.dstPtr.xsize = WIDTH, copy.dstPtr.ysize = HEIGHT;
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3DAsync(&copy, NULL));
  for (int z = 0; z < DEPTH; z++)
    for (int y = 0; y < HEIGHT; y++)
      for (int x = 0; x < WIDTH; x++) EXPECT(back[z][y][x] == (x && y && z ? host[z][y][x] : 0x77));
  OK(cudaFree(solid.ptr));
}

static void registered(void) {
  static char own[4096];
  struct cudaPointerAttributes attributes;
  OK(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
  OK(cudaPointerGetAttributes(&attributes, own + 4095));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  ANSWERS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(own + 100, 1, 0));
  ANSWERS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own + 100));
  ANSWERS(cudaErrorInvalidValue, cudaFreeHost(own));
  OK(cudaHostUnregister(own));
  ANSWERS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
}

static void slack(void) {
  /* Programs that write past the end go unnoticed on GPUs. */
  char *block;
  OK(cudaMalloc((void **)&block, 10));
  memset(block, 1, 10 + 65536);
  EXPECT(block[10 + 65535] == 1);
  OK(cudaFree(block));
}

static void pools(void) {
  cudaMemPool_t pool, own;
  unsigned long long threshold = 1 << 20, kept = 0;
  void *block;
  struct cudaMemPoolProps properties;
  memset(&properties, 0, sizeof properties);
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
  EXPECT(kept == threshold);
  OK(cudaMemPoolCreate(&own, &properties));
  OK(cudaMallocFromPoolAsync(&block, 100, own, NULL));
  OK(cudaFreeAsync(block, NULL));
  OK(cudaMemPoolTrimTo(own, 0));
  OK(cudaMemPoolDestroy(own));
  ANSWERS(cudaErrorInvalidValue, cudaMemPoolDestroy(own));
  ANSWERS(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
}

int main(void) {
  kinds();
  flat();
  pitched();
  registered();
  if (!getenv("CUDNN_SHIM_HOST_CHECK")) slack();
  pools();
  EXPECT(cudaPeekAtLastError() != cudaSuccess);
  OK(cudaDeviceReset());
  return 0;
}
