// Kernels that do what no kernel may, and some that are right, to test that the driver double tells them apart.

struct Memory {
    int *data;   // 64 ints on the device, unless the test says otherwise
    int choice;
    int unused;
};

extern "C" __global__ void write_behind(const Memory m) { m.data[64 + m.choice] = 1; }
extern "C" __global__ void read_in_front(const Memory m) { m.data[0] = m.data[-1 - m.choice]; }
extern "C" __global__ void write_there(const Memory m) { m.data[threadIdx.x % 64] = 1; }
extern "C" __global__ void misaligned(const Memory m) { *(long long *)(m.data + 1) = 1; }

extern "C" __global__ void reverse(const Memory m)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    __syncthreads();
    m.data[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void missing_barrier(const Memory m)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    m.data[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void missing_second_barrier(const Memory m)
{
    __shared__ int tile[64];
    for (int i = 0; i < 2; ++i) {
        tile[threadIdx.x] = m.data[threadIdx.x];
        __syncthreads();
        m.data[threadIdx.x] = tile[63 - threadIdx.x];
    }
}
extern "C" __global__ void divergent_barrier(const Memory m)
{
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        m.data[0] = 1;
        __syncthreads();
    }
}
extern "C" __global__ void early_end(const Memory m)
{
    if (threadIdx.x >= 60) return;
    __syncthreads();
    m.data[threadIdx.x] = 1;
}
extern "C" __global__ void late_end(const Memory m)
{
    if (threadIdx.x < 60) __syncthreads();
    m.data[threadIdx.x] = 1;
}
extern "C" __global__ void too_much_shared(const Memory m)
{
    DYNAMIC_SHARED(int, part);
    part[threadIdx.x + m.choice] = 1;
}
// The sum of each warp in every lane, by shuffles; then the block's, by dynamic shared memory.
extern "C" __global__ void sums(const Memory m)
{
    DYNAMIC_SHARED(int, part);
    int sum = m.data[threadIdx.x];
    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, flip);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    const int odd = __syncthreads_count(threadIdx.x % 2 == 1);
    const unsigned low = __ballot_sync(0xffffffffu, threadIdx.x % 32 < 4);
    m.data[threadIdx.x] = part[0] + part[1] + 1000 * odd + 100000 * int(low);
}
