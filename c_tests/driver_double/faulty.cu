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

// Sixteen bytes that travel together, of which a host makes what it likes.
struct alignas(16) Vector {
    unsigned word[4];
};
extern "C" __global__ void misaligned_vector(const Memory m)
{
    Vector *vectors = reinterpret_cast<Vector *>(m.data + 2 * m.choice);
    vectors[1] = vectors[0];
}
extern "C" __global__ void misaligned_shared_vector(const Memory m)
{
    alignas(16) __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) *reinterpret_cast<Vector *>(m.data) = *reinterpret_cast<Vector *>(tile + 2 + m.choice);
}
extern "C" __global__ void unwritten_shared(const Memory m)
{
    __shared__ int tile[64];
    if (int(threadIdx.x) != m.choice) tile[threadIdx.x] = m.data[threadIdx.x];
    __syncthreads();
    m.data[threadIdx.x] = tile[63 - threadIdx.x];
}
// What the block before has left there.
extern "C" __global__ void inherited_shared(const Memory m)
{
    __shared__ int tile[64];
    if (blockIdx.x == 0) tile[threadIdx.x] = 1;
    __syncthreads();
    if (blockIdx.x != 0) m.data[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void unordered_shuffle(const Memory m)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    const int sum = __shfl_xor_sync(0xffffffffu, tile[threadIdx.x], 1);
    m.data[threadIdx.x] = sum + tile[threadIdx.x ^ 1];
}
extern "C" __global__ void unordered_ballot(const Memory m)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    const unsigned votes = __ballot_sync(0xffffffffu, tile[threadIdx.x] > 3);
    m.data[threadIdx.x] = int(votes) + tile[threadIdx.x ^ 1];
}
extern "C" __global__ void ordered_warp(const Memory m)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    __syncwarp();
    m.data[threadIdx.x] = tile[threadIdx.x ^ 1];
}
// Halves of a warp that know nothing of each other.
extern "C" __global__ void halves(const Memory m)
{
    const unsigned mask = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
    int sum = m.data[threadIdx.x];
    const int turns = threadIdx.x % 32 < 16 ? 4 : 3;
    for (int k = 0; k < turns; ++k) sum += __shfl_xor_sync(mask, sum, 1 << k);
    m.data[threadIdx.x] = sum;
}
extern "C" __global__ void mask_of_the_ended(const Memory m)
{
    if (threadIdx.x % 32 >= 20) return;
    m.data[threadIdx.x] = __shfl_xor_sync(0xffffffffu, int(threadIdx.x), 1);
}
extern "C" __global__ void mask_without_the_caller(const Memory m)
{
    m.data[threadIdx.x] = int(__ballot_sync(0xfffffffeu, threadIdx.x > 3));
}
extern "C" __global__ void masks_that_differ(const Memory m)
{
    const unsigned mask = threadIdx.x % 32 < 16 ? 0xffffffffu : 0xffff0000u;
    m.data[threadIdx.x] = __shfl_xor_sync(mask, int(threadIdx.x), 1);
}
extern "C" __global__ void shuffle_from_outside(const Memory m)
{
    if (threadIdx.x % 32 < 16) m.data[threadIdx.x] = __shfl_sync(0xffffu, int(threadIdx.x), 16);
}
extern "C" __global__ void shuffle_against_ballot(const Memory m)
{
    if (threadIdx.x % 2 == 0) {
        m.data[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 2);
    } else {
        m.data[threadIdx.x] = int(__ballot_sync(0xffffffffu, true));
    }
}
extern "C" __global__ void written_by_two_blocks(const Memory m) { m.data[(threadIdx.x + blockIdx.x) % 64] = 1; }
extern "C" __global__ void read_from_another_block(const Memory m)
{
    if (blockIdx.x == 0) m.data[threadIdx.x] = 1;
    if (blockIdx.x == 1 && threadIdx.x == 0) m.data[63] = m.data[m.choice];
}
extern "C" __global__ void blocks_apart(const Memory m)
{
    const int half = int(blockIdx.x) * 32;
    if (threadIdx.x < 32) m.data[half + threadIdx.x] += m.data[half + threadIdx.x];
}
// One access of a warp, of neighbours or of what lies apart.
extern "C" __global__ void reads_apart(const Memory m)
{
    if (m.data[threadIdx.x * m.choice % 64] < 0) m.data[0] = 0;
}
extern "C" __global__ void long_shift(const Memory m) { m.data[0] = 1 << m.choice; }

// Copies that go on by themselves: 16 threads bring 16 bytes each, and all of them use the bytes the other way round.
alignas(16) static int brought[64];
extern "C" __global__ void waited_copy(const Memory m)
{
    if (threadIdx.x < 16) emu::copy_async(brought + 4 * threadIdx.x, m.data + 4 * threadIdx.x, int(threadIdx.x) != m.choice);
    emu::commit_copies();
    emu::wait_for_copies(0);
    __syncthreads();
    m.data[threadIdx.x] = brought[63 - threadIdx.x];
}
extern "C" __global__ void early_read_of_a_copy(const Memory m)
{
    if (threadIdx.x < 16) emu::copy_async(brought + 4 * threadIdx.x, m.data + 4 * threadIdx.x, true);
    emu::commit_copies();
    __syncthreads();
    const int early = brought[63 - threadIdx.x];
    __syncthreads();
    emu::wait_for_copies(0);
    m.data[threadIdx.x] = early;
}
extern "C" __global__ void copy_of_no_group(const Memory m)
{
    if (threadIdx.x < 16) emu::copy_async(brought + 4 * threadIdx.x, m.data + 4 * threadIdx.x, true);
    emu::wait_for_copies(0);
    __syncthreads();
    m.data[threadIdx.x] = brought[63 - threadIdx.x];
}
extern "C" __global__ void copy_without_a_wait(const Memory m)
{
    if (threadIdx.x < 16) emu::copy_async(brought + 4 * threadIdx.x, m.data + 4 * threadIdx.x, true);
    emu::commit_copies();
}
extern "C" __global__ void copy_without_a_barrier(const Memory m)
{
    if (threadIdx.x < 16) emu::copy_async(brought + 4 * threadIdx.x, m.data + 4 * threadIdx.x, true);
    emu::commit_copies();
    emu::wait_for_copies(0);
    m.data[threadIdx.x] = brought[63 - threadIdx.x];
}
extern "C" __global__ void misaligned_copy(const Memory m)
{
    if (threadIdx.x == 0) emu::copy_async(brought, m.data + 2, true);
    emu::commit_copies();
    emu::wait_for_copies(0);
}

// Two matrices of 8 x 8, of which each warp shows one. Choices: 1 transposed, 2 no barrier, 3 not all lanes, 4 off its alignment.
extern "C" __global__ void loaded_matrices(const Memory m)
{
    alignas(16) __shared__ int tile[64];
    tile[threadIdx.x] = m.data[threadIdx.x];
    if (m.choice != 2) __syncthreads();
    if (m.choice == 3 && threadIdx.x == 5) return;
    unsigned words[2];
    emu::load_matrices(tile + threadIdx.x % 16 * 4 + (m.choice == 4 ? 2 : 0), 2, m.choice == 1, words);
    m.data[threadIdx.x] = int(words[threadIdx.x / 32]);
}
