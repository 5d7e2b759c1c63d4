// ReduceTensor, by the tree that `ops/reduce.rs` describes: blocks of 1024 elements in 32 lanes, joined in halves;
// then blocks in pairs. Whoever joins what, the shape of the tree is the same, and so are the bits.
//
// Missing elements and blocks are the identity, which changes nothing, so that every tree is a full one.
#include "counter.cuh"
#include "function.cuh"
#include "linear.cuh"
#include "pointwise.cuh"

// A part of what an output reduces. The loops move the index in the place of a destination.
struct Piece {
    i64 src;    // bytes from the start of the output's sequence
    i64 index;  // of its first element
    u64 count;
    u32 rank;
    u32 unused;
    Loop loops[20];  // innermost first
};

struct Reduce {
    char *dst;
    const char *src;
    char *indices;
    char *partials;  // one number (and index) for each chunk of each output; not used with one chunk
    u64 outputs;
    u64 length;           // elements of an output
    Divisor chunks;       // chunks of an output
    Operation operation;  // from the computation type to the destination
    u32 scalar;           // of the source
    u32 fold;             // Fold
    u32 finish;           // Finish
    u32 index_bytes;
    u32 level;  // log2 of the blocks of the tree that are a chunk; 0: a warp has a whole output
    u32 rank;
    OperandLoop outer[20];  // over outputs, innermost first: destination, source, place among the indices
    Piece pieces[2];
};

static_assert(sizeof(Reduce) == 32 + 16 + 24 + 32 + 24 + 48 * 20 + 2 * (32 + 40 * 20), "reduce.rs has another Reduce");

enum { BLOCK = 1024, LANES = 32 };

// What elements were joined to. INDEXED: and the lowest index of those that equal it.
template <typename T, bool INDEXED>
struct Node {
    T value;
};
template <typename T>
struct Node<T, true> {
    T value;
    i64 first;
};

__device__ __forceinline__ i64 no_index() { return i64(~u64(0) >> 1); }

template <typename T, bool INDEXED>
__device__ __forceinline__ Node<T, INDEXED> identity_node(u32 fold) {
    Node<T, INDEXED> node;
    node.value = identity_of<T>(fold);
    if constexpr (INDEXED) node.first = no_index();
    return node;
}

// No element of a part equals the result unless the part's own result does.
template <typename T, bool INDEXED>
__device__ __forceinline__ Node<T, INDEXED> join(u32 fold, const Node<T, INDEXED> &a, const Node<T, INDEXED> &b) {
    Node<T, INDEXED> node;
    node.value = joined(fold, a.value, b.value);
    if constexpr (INDEXED) {
        const auto first = [&](const Node<T, true> &part) {
            const bool selected = part.value == node.value || (part.value != part.value && node.value != node.value);
            return selected ? part.first : no_index();
        };
        const i64 left = first(a), right = first(b);
        node.first = left < right ? left : right;
    }
    return node;
}

// What is no constant to the compiler.
enum : u32 { ANY = ~0u };

// Where the element at a position of an output's sequence lies, from the start of that, and its index.
struct Whereabouts {
    i64 offset, index;
};

template <typename Index>
__device__ __forceinline__ Whereabouts whereabouts(const Reduce &p, Index position) {
    const bool second = position >= Index(p.pieces[0].count);
    const Piece &piece = p.pieces[second ? 1 : 0];
    Index rest = second ? position - Index(p.pieces[0].count) : position;
    Whereabouts found = {piece.src, piece.index};
#pragma unroll 1
    for (u32 k = 0; k < piece.rank; ++k) {
        const Loop &loop = piece.loops[k];
        const Index outer = k + 1 < piece.rank ? quotient(rest, loop.extent) : Index(0);
        const i64 here = i64(rest - outer * Index(loop.extent.divisor));
        rest = outer;
        found.offset += here * loop.src;
        found.index += here * loop.dst;
    }
    return found;
}

// Bits of an element: of the usual types they have 32.
template <u32 SCALAR>
struct Raw {
    typedef u32 Bits;
};
template <>
struct Raw<ANY> {
    typedef u64 Bits;
};

// Whether all sequences are elements at equal distances: no loop and no division tells where one lies.
__device__ __forceinline__ bool is_plain(const Reduce &p) { return p.pieces[0].rank <= 1 && p.pieces[1].count == 0; }

// Elements that a thread loads before it looks at the first: as many as there are registers for. Where each lies takes some,
// unless it is PLAIN, as do indices; sums leave room for more of those that are narrow.
template <bool PLAIN, bool INDEXED, u32 SCALAR, u32 FOLD>
__device__ constexpr u32 batch() {
    return !PLAIN ? 4 : SCALAR == ANY ? 8 : INDEXED || (FOLD == SUM && width_of(SCALAR) == 2) ? 24 : 16;
}

// The elements at `first`, `first + stride`, ..., all loaded before the first becomes a node; identities from `end` on.
// SCALAR: their type, or ANY. What a node is made of beside the bits is found when it is asked for: through the loads it
// would take registers.
template <bool PLAIN, typename T, bool INDEXED, u32 SCALAR, u32 FOLD, typename Index, u32 N>
struct Batch {
    const Reduce &p;
    const Index first;
    const u32 stride;
    const u32 scalar = SCALAR == ANY ? p.scalar : SCALAR;
    u32 wanted = 0;
    typename Raw<SCALAR>::Bits bits[N];
    i64 index[PLAIN || !INDEXED ? 1 : N];

    __device__ __forceinline__ Batch(const Reduce &p, const char *sequence, Index first, u32 stride, Index end)
        : p(p), first(first), stride(stride) {
        const Piece &piece = p.pieces[0];
        const char *from[N], *next = sequence + piece.src + i64(first) * piece.loops[0].src;
        const i64 step = i64(stride) * piece.loops[0].src;
#pragma unroll
        for (u32 k = 0; k < N; ++k) {
            const Index position = first + k * stride;
            if constexpr (PLAIN) {
                from[k] = next;
                next += step;
            } else {
                const Whereabouts found = whereabouts(p, position < end ? position : Index(0));
                from[k] = sequence + found.offset;
                if constexpr (INDEXED) index[k] = found.index;
            }
            wanted |= u32(position < end) << k;
        }
        fetch(scalar, from, bits, wanted);
    }

    __device__ __forceinline__ Node<T, INDEXED> operator[](u32 k) const {
        const T x = Real<T>::any(scalar, bits[k]);
        const bool there = wanted >> k & 1;
        T value;
        if (FOLD == SUM) {
            value = p.fold == SQUARE_SUM ? product(x, x) : p.fold == ABS_SUM ? magnitude(x) : x;
        } else {
            value = mapped(p.fold, x);
        }
        Node<T, INDEXED> node;
        node.value = there ? value : identity_of<T>(FOLD == SUM ? u32(SUM) : p.fold);
        if constexpr (INDEXED) {
            const Piece &piece = p.pieces[0];
            const i64 own = PLAIN ? piece.index + i64(first + k * stride) * piece.loops[0].dst : index[PLAIN ? 0 : k];
            node.first = there ? own : no_index();
        }
        return node;
    }
};

// From the root of an output's tree to its element, and its index.
template <typename T, bool INDEXED>
__device__ __forceinline__ void finish(const Reduce &p, u64 output, const Node<T, INDEXED> &node) {
    const OperandOffsets offsets = operand_offsets(output, p.outer, p.rank);
    T r = node.value;
    if (p.finish == MEAN) r = ratio(r, T(i64(p.length)));
    if (p.finish == ROOT) r = root(r);
    if constexpr (INDEXED) {
        char *index = p.indices + u64(offsets.of[2]) * p.index_bytes;
#pragma unroll 1
        for (u32 i = 0; i < p.index_bytes; ++i) put<u8>(index + i, u8(u64(node.first) >> (8 * i)));
    }
    // As a conversion from the computation type, which never goes by integers.
    char *y = p.dst + offsets.of[0];
    const Operation &operation = p.operation;
    if (sizeof(T) == 8 || operation.via == VIA_F64) {
        f64 x = f64(r);
        if (operation.steps & SCALED) x = product(operation.alpha, x);
        if (operation.steps & BLENDED) x = sum(x, product(operation.beta, load_f64(operation.dst, y)));
        return store_f64(operation.dst, y, x);
    }
    f32 x = f32(r);
    if (operation.steps & SCALED) x = product(f32(operation.alpha), x);
    if (operation.steps & BLENDED) x = sum(x, product(f32(operation.beta), load_f32(operation.dst, y)));
    store_f32(operation.dst, y, x);
}

// A finished chunk goes to its output, or to the workspace if the output has others.
template <typename T, bool INDEXED>
__device__ __forceinline__ void deliver(const Reduce &p, u64 output, u64 chunk, const Node<T, INDEXED> &node) {
    if (p.chunks.divisor == 1) return finish(p, output, node);
    Node<T, INDEXED> &partial = reinterpret_cast<Node<T, INDEXED> *>(p.partials)[output * p.chunks.divisor + chunk];
    // Member by member: a copy of the whole would store the gap between them, which nobody has computed.
    partial.value = node.value;
    if constexpr (INDEXED) partial.first = node.first;
}

// Blocks -----------------------------------------------------------------------------------------------------------

enum { WARPS = THREADS / 32, MAX_DEPTH = 40 };

template <typename T, bool INDEXED>
struct BlockMemory {
    Node<T, INDEXED> waiting[WARPS * MAX_DEPTH];
    Node<T, INDEXED> roots[WARPS];
};

// The blocks of a range, of which this warp has lane `threadIdx.x % 32` in each thread. Sums of every kind are joined as SUM,
// if that is FOLD.
template <bool PLAIN, typename T, bool INDEXED, u32 SCALAR, u32 FOLD, typename Index>
__device__ __forceinline__ Node<T, INDEXED> join_range(const Reduce &p, const char *sequence, u64 first, u64 end,
                                                       Node<T, INDEXED> *waiting) {
    typedef Node<T, INDEXED> N;
    const u32 fold = FOLD == SUM ? u32(SUM) : p.fold;
    const u32 lane = threadIdx.x % 32;
    auto subtrees = counter(waiting, 1, [=](const N &a, const N &b) { return join(fold, a, b); });
#pragma unroll 1
    for (u64 start = first; start < end; start += BLOCK) {
        N node = identity_node<T, INDEXED>(fold);
        const u64 stop = start + BLOCK < end ? start + BLOCK : end;
        constexpr u32 EACH = batch<PLAIN, INDEXED, SCALAR, FOLD>();
#pragma unroll 1
        for (u64 i = start; i < stop; i += EACH * LANES) {
            const Batch<PLAIN, T, INDEXED, SCALAR, FOLD, Index, EACH> next(p, sequence, Index(i + lane), LANES, Index(stop));
#pragma unroll
            for (u32 k = 0; k < EACH; ++k) node = join(fold, node, next[k]);
        }
#pragma unroll 1
        for (u32 half = LANES / 2; half > 0; half /= 2) {
            N other;
            other.value = __shfl_down_sync(~0u, node.value, half);
            if constexpr (INDEXED) other.first = __shfl_down_sync(~0u, node.first, half);
            node = join(fold, node, other);
        }
        if (lane == 0) subtrees.push(node);
    }
    const N none = identity_node<T, INDEXED>(fold);
    return lane == 0 ? subtrees.root(none) : none;
}

// A block of threads for a chunk of an output, in which each warp has an equal share of the blocks of the tree. Where
// outputs must be computed in order, there is one block of threads.
template <typename T, bool INDEXED, u32 SCALAR, typename Index>
__device__ __forceinline__ void reduce_blocks(const Reduce &p, BlockMemory<T, INDEXED> &memory) {
    const u32 warp = threadIdx.x / 32;
    // A warp has a whole output, of one chunk, without a barrier.
    const bool alone = p.level == 0;
    const u64 share = alone ? p.length : u64(BLOCK) << (p.level - 3);
    const u64 units = p.outputs * p.chunks.divisor, step = alone ? u64(gridDim.x) * WARPS : gridDim.x;
#pragma unroll 1
    for (u64 unit = alone ? u64(blockIdx.x) * WARPS + warp : blockIdx.x; unit < units; unit += step) {
        const u64 output = quotient(unit, p.chunks), chunk = unit - output * p.chunks.divisor;
        const char *sequence = p.src + operand_offsets(output, p.outer, p.rank).of[1];
        const u64 first = alone ? 0 : (chunk * WARPS + warp) * share;
        const u64 end = first + share < p.length ? first + share : p.length;
        Node<T, INDEXED> *waiting = memory.waiting + warp * MAX_DEPTH, node;
        if (!is_plain(p)) {
            node = join_range<false, T, INDEXED, SCALAR, ANY, Index>(p, sequence, first, end, waiting);
        } else if (SCALAR != ANY && p.fold <= SQUARE_SUM) {
            node = join_range<true, T, INDEXED, SCALAR, SUM, Index>(p, sequence, first, end, waiting);
        } else {
            node = join_range<true, T, INDEXED, SCALAR, ANY, Index>(p, sequence, first, end, waiting);
        }
        if (alone) {
            if (threadIdx.x % 32 == 0) finish(p, output, node);
            continue;
        }
        if (threadIdx.x % 32 == 0) memory.roots[warp] = node;
        __syncthreads();
        if (threadIdx.x == 0) {
#pragma unroll 1
            for (u32 half = 1; half < WARPS; half *= 2) {
#pragma unroll 1
                for (u32 w = 0; w < WARPS; w += 2 * half) {
                    memory.roots[w] = join(p.fold, memory.roots[w], memory.roots[w + half]);
                }
            }
            deliver(p, output, chunk, memory.roots[0]);
        }
        __syncthreads();
    }
}

// Rows -------------------------------------------------------------------------------------------------------------

// Threads of a block, and subtrees that wait at most: sequences are shorter than 2^24 elements.
enum { ROW_THREADS = 64, ROW_DEPTH = 15 };

template <typename T, bool INDEXED>
struct RowMemory {
    Node<T, INDEXED> lanes[LANES * ROW_THREADS];
    Node<T, INDEXED> waiting[ROW_DEPTH * ROW_THREADS];
};

// The elements of a range, one after the other. LANES and waiting nodes are ROW_THREADS apart.
template <bool PLAIN, typename T, bool INDEXED, u32 SCALAR, u32 FOLD, typename Index>
__device__ __forceinline__ Node<T, INDEXED> join_column(const Reduce &p, const char *sequence, u64 first, u64 end,
                                                        Node<T, INDEXED> *lanes, Node<T, INDEXED> *waiting) {
    typedef Node<T, INDEXED> N;
    const u32 fold = FOLD == SUM ? u32(SUM) : p.fold;
    auto subtrees = counter(waiting, ROW_THREADS, [=](const N &a, const N &b) { return join(fold, a, b); });
#pragma unroll 1
    for (u64 start = first; start < end; start += BLOCK) {
        const u32 count = end - start < BLOCK ? u32(end - start) : u32(BLOCK);
        constexpr u32 EACH = batch<PLAIN, INDEXED, SCALAR, FOLD>();
#pragma unroll 1
        for (u32 i = 0; i < count; i += EACH) {
            const Batch<PLAIN, T, INDEXED, SCALAR, FOLD, Index, EACH> next(p, sequence, Index(start + i), 1, Index(start + count));
#pragma unroll
            for (u32 k = 0; k < EACH; ++k) {
                N &lane = lanes[(i + k) % LANES * ROW_THREADS];
                if (i + k < count) lane = i + k < LANES ? next[k] : join(fold, lane, next[k]);
            }
        }
        // Lanes that were not used would be the identity.
        u32 used = count < LANES ? count : u32(LANES);
#pragma unroll 1
        for (u32 half = LANES / 2; half > 0; half /= 2) {
#pragma unroll 1
            for (u32 j = half; j < used; ++j) {
                N &left = lanes[(j - half) * ROW_THREADS];
                left = join(fold, left, lanes[j * ROW_THREADS]);
            }
            used = used < half ? used : half;
        }
        subtrees.push(lanes[0]);
    }
    return subtrees.root(identity_node<T, INDEXED>(fold));
}

// A thread for a chunk of an output; neighbouring threads have neighbouring outputs.
template <typename T, bool INDEXED, u32 SCALAR, typename Index>
__device__ __forceinline__ void reduce_rows(const Reduce &p, RowMemory<T, INDEXED> &memory) {
    const u64 group = quotient(u64(blockIdx.x), p.chunks), chunk = blockIdx.x - group * p.chunks.divisor;
    const u64 output = group * ROW_THREADS + threadIdx.x;
    if (output >= p.outputs) return;
    const char *sequence = p.src + operand_offsets(output, p.outer, p.rank).of[1];
    const u64 first = (chunk << p.level) * BLOCK;
    const u64 limit = first + (u64(BLOCK) << p.level);
    const u64 end = limit < p.length ? limit : p.length;
    Node<T, INDEXED> *lanes = memory.lanes + threadIdx.x, *waiting = memory.waiting + threadIdx.x, node;
    if (!is_plain(p)) {
        node = join_column<false, T, INDEXED, SCALAR, ANY, Index>(p, sequence, first, end, lanes, waiting);
    } else if (SCALAR != ANY && p.fold <= SQUARE_SUM) {
        node = join_column<true, T, INDEXED, SCALAR, SUM, Index>(p, sequence, first, end, lanes, waiting);
    } else {
        node = join_column<true, T, INDEXED, SCALAR, ANY, Index>(p, sequence, first, end, lanes, waiting);
    }
    deliver(p, output, chunk, node);
}

// Chunks -----------------------------------------------------------------------------------------------------------

// The chunks that an output has at most.
enum { MAX_CHUNKS = 1024 };

// A block of threads joins the chunks of an output.
template <typename T, bool INDEXED>
__device__ __forceinline__ void reduce_chunks(const Reduce &p, Node<T, INDEXED> *nodes) {
    const u32 chunks = u32(p.chunks.divisor);
    const u64 output = blockIdx.x;
    const Node<T, INDEXED> *partials = reinterpret_cast<const Node<T, INDEXED> *>(p.partials) + output * chunks;
    for (u32 i = threadIdx.x; i < MAX_CHUNKS; i += THREADS) {
        nodes[i] = i < chunks ? partials[i] : identity_node<T, INDEXED>(p.fold);
    }
    for (u32 half = 1; half < chunks; half *= 2) {
        __syncthreads();
        for (u32 i = threadIdx.x * 2 * half; i < chunks; i += THREADS * 2 * half) {
            nodes[i] = join(p.fold, nodes[i], nodes[i + half]);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) finish(p, output, nodes[0]);
}

// Of elements of SCALAR, or of any type. The second bounds keep the assembler from spilling for the sake of more blocks.
#define REDUCE_BLOCKS(NAME, T, INDEXED, SCALAR, INDEX, BLOCKS)                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) reduce_blocks_##NAME(const Reduce p) { \
        __shared__ BlockMemory<T, INDEXED> memory;                                                       \
        reduce_blocks<T, INDEXED, SCALAR, INDEX>(p, memory);                                             \
    }
#define REDUCE(NAME, T, INDEXED, SCALAR, INDEX, BLOCKS)                                                  \
    REDUCE_BLOCKS(NAME, T, INDEXED, SCALAR, INDEX, BLOCKS)                                               \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS, 1) reduce_rows_##NAME(const Reduce p) {    \
        __shared__ RowMemory<T, INDEXED> memory;                                                         \
        reduce_rows<T, INDEXED, SCALAR, INDEX>(p, memory);                                               \
    }
REDUCE(f32, f32, false, ANY, u64, 1)
REDUCE(f64, f64, false, ANY, u64, 1)
REDUCE(indexed_f32, f32, true, ANY, u64, 1)
REDUCE(indexed_f64, f64, true, ANY, u64, 1)
// The usual types, in the usual reductions constants to the compiler.
REDUCE(of_f32, f32, false, F32, u32, 3)
REDUCE(of_f16, f32, false, F16, u32, 3)
REDUCE(of_bf16, f32, false, BF16, u32, 3)
REDUCE_BLOCKS(indexed_of_f32, f32, true, F32, u32, 2)
#undef REDUCE
#undef REDUCE_BLOCKS

#define REDUCE_CHUNKS(NAME, T, INDEXED)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS) reduce_chunks_##NAME(const Reduce p) { \
        __shared__ Node<T, INDEXED> nodes[MAX_CHUNKS];                                           \
        reduce_chunks<T, INDEXED>(p, nodes);                                                     \
    }
REDUCE_CHUNKS(f32, f32, false)
REDUCE_CHUNKS(f64, f64, false)
REDUCE_CHUNKS(indexed_f32, f32, true)
REDUCE_CHUNKS(indexed_f64, f64, true)
#undef REDUCE_CHUNKS
