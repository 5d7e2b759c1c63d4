// A batch over the ranks of MPI, one library handle per rank: the caller's engine distributes, handles compose with it.
//
//   mpicxx -O2 -Iexamples/networks shards.cpp -lcudnn -o shards && mpirun -n 4 ./shards [IMAGES [REPEATS]]
//
// Each rank has a share of the images. It adds a bias per channel, squares, converts to half and NHWC, and sums its
// images per channel; MPI gathers the one and adds up the other. Rank 0 does all of it alone as well, and compares every
// bit. With a GPU, each rank sets its device (cudaSetDevice) before it creates its handle and hands device memory over.
#include <cudnn.hpp>

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

const int C = 32, H = 56, W = 56;
const std::size_t IMAGE = static_cast<std::size_t>(C) * H * W;

// What the layers leave of some images: halves in NHWC, and a sum per channel.
struct Result {
    std::vector<std::uint16_t> images;
    std::vector<float> sums;
};

// The same values for image i wherever it is; small integers, whose sums are exact in any order.
std::vector<float> images(int first, int number) {
    std::vector<float> values(IMAGE * static_cast<std::size_t>(number));
    for (std::size_t i = 0; i < values.size(); i++)
        values[i] = static_cast<float>((i + IMAGE * static_cast<std::size_t>(first)) * 2654435761u % 7) - 3.0f;
    return values;
}

Result layers(const cudnn::Handle &handle, const std::vector<float> &input) {
    const int n = static_cast<int>(input.size() / IMAGE);
    const float one = 1.0f, zero = 0.0f;
    const cudnn::Tensor x(CUDNN_DATA_FLOAT, {n, C, H, W}), bias(CUDNN_DATA_FLOAT, {1, C, 1, 1}),
        y(CUDNN_DATA_HALF, {n, C, H, W}, CUDNN_TENSOR_NHWC);
    std::vector<float> b(C), values(input);
    for (int c = 0; c < C; c++) b[static_cast<std::size_t>(c)] = static_cast<float>(c % 3);
    CUDNN_CHECK(cudnnAddTensor(handle, &one, bias, b.data(), &one, x, values.data()));
    const cudnn::OpTensor multiply(CUDNN_OP_TENSOR_MUL);
    CUDNN_CHECK(
        cudnnOpTensor(handle, multiply, &one, x, values.data(), &one, x, values.data(), &zero, x, values.data()));
    Result result{std::vector<std::uint16_t>(input.size()), std::vector<float>(C)};
    CUDNN_CHECK(cudnnTransformTensor(handle, &one, x, values.data(), &zero, y, result.images.data()));
    const cudnn::Reduce add(CUDNN_REDUCE_TENSOR_ADD);
    std::vector<char> workspace(add.workspace(handle, x, bias));
    CUDNN_CHECK(cudnnReduceTensor(handle, add, nullptr, 0, workspace.data(), workspace.size(), &one, x, values.data(),
                                  &zero, bias, result.sums.data()));
    return result;
}

int run(int rank, int ranks, int number, int repeats) {
    const cudnn::Handle handle;
    // Shares differ by one image at most.
    const auto first = [&](int of) { return static_cast<int>(static_cast<long>(number) * of / ranks); };
    const std::vector<float> mine = images(first(rank), first(rank + 1) - first(rank));
    double best = 1e9;
    Result result;
    std::vector<float> sums(C);
    for (int i = 0; i < repeats; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double began = MPI_Wtime();
        result = layers(handle, mine);
        MPI_Allreduce(result.sums.data(), sums.data(), C, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double took = MPI_Wtime() - began, slowest = 0;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best = std::min(best, slowest);
    }
    std::vector<int> counts, places;
    for (int of = 0; of < ranks; of++) {
        counts.push_back(static_cast<int>(IMAGE) * (first(of + 1) - first(of)));
        places.push_back(static_cast<int>(IMAGE) * first(of));
    }
    std::vector<std::uint16_t> all(rank == 0 ? IMAGE * static_cast<std::size_t>(number) : 0);
    MPI_Gatherv(result.images.data(), counts[static_cast<std::size_t>(rank)], MPI_UINT16_T, all.data(), counts.data(),
                places.data(), MPI_UINT16_T, 0, MPI_COMM_WORLD);
    int differ = 0;
    if (rank == 0) {
        const Result alone = layers(handle, images(0, number));
        differ = alone.images != all || std::memcmp(alone.sums.data(), sums.data(), C * sizeof(float)) != 0;
        std::printf("%d ranks, %d images: %.2f ms, %.0f images a second; %s a single process\n", ranks, number,
                    best * 1e3, number / best, differ ? "DIFFERS from" : "the bits of");
    }
    MPI_Bcast(&differ, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return differ;
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1, outcome = 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try {
        outcome = run(rank, ranks, argc > 1 ? std::atoi(argv[1]) : 64, argc > 2 ? std::atoi(argv[2]) : 5);
    } catch (const cudnn::Error &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        MPI_Abort(MPI_COMM_WORLD, outcome);
    }
    MPI_Finalize();
    return outcome;
}
