// What the parts of the driver double share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cuda_emu.h"

namespace driver_double {

// The driver's error codes that the double returns.
enum Code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    CONTEXT_IS_DESTROYED = 709,
    MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_IMPLICIT = 906
};

// state.cpp -----------------------------------------------------------------------------------------------------------

// Records something that a program must not do; the process then ends with status 97, whatever it thinks of itself.
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Counts a call of `entry` and tells what it has to return at once: an injected fault, or SUCCESS to go on.
int enter(const char *entry);
// Counts what tests ask for by the same name.
void tally(const std::string &what);
// How many blocks run at each of three places of a long grid; 0 if all of them run.
unsigned sampled_blocks();

// memory.cpp ----------------------------------------------------------------------------------------------------------

enum { DEVICES = 2 };
// Address space is reserved, and filled with memory, by multiples of this.
constexpr size_t SEGMENT_UNIT = size_t(2) << 20;

// What memory is, by who made it: cuMemAlloc, cuMemAllocManaged, cuMemHostAlloc, cuMemHostRegister, cuMemAllocAsync, cuMemMap.
enum class Kind { PLAIN, MANAGED, PAGE_LOCKED, REGISTERED, POOLED, SEGMENT };

struct Allocation {
    uintptr_t start;
    size_t size;
    int device;
    Kind kind;
    // A bit for each device that reaches it, peers aside.
    unsigned access;
};

// Device memory. It cannot be touched but between open_memory and close_memory, unless it is of a kind that hosts reach too,
// and its neighbourhood never.
Allocation *allocate(size_t size, int device, Kind kind);
// Memory of the program itself that the devices reach from now on.
bool enrol(uintptr_t start, size_t size, int device);
// Address space without memory, 0 if there is none; and memory for a part of it, which no device reaches yet.
uintptr_t reserve(size_t size);
bool unreserve(uintptr_t start);
bool map_segment(uintptr_t start, size_t size, int device);
// Lets a device reach whole segments, or not.
bool allow(uintptr_t start, size_t size, int device, bool reach);
// Lets `device` reach the plain memory of the device `of`.
void make_peers(int device, int of);
bool may_reach(const Allocation *found, int device);
// Whether `device` reaches all of these bytes, in whatever allocations they lie.
bool reaches(uintptr_t address, size_t size, int device);
// Whether the devices reach all memory of the host.
bool is_pageable();
bool release(uintptr_t start);
void release_all(int device);
// The allocation that holds `address`, or NULL.
const Allocation *find(uintptr_t address);
// The allocation that is nearest to `address` for a message, or NULL if none is near.
const Allocation *nearest(uintptr_t address);
bool holds(uintptr_t address, size_t size);
void open_memory();
void close_memory();
// Eight bytes of notes for each byte of device memory from `address` on, zero at first; NULL where there is no room.
void *cells_of(uintptr_t address);
// Sets all notes to zero.
void forget_cells();

// grid.cpp ------------------------------------------------------------------------------------------------------------

struct Grid {
    const emu::Kernel *kernel;
    uint3 blocks, threads;
    unsigned shared;
    std::string parameter;
    int device;
};

// Runs every thread of a grid: SUCCESS, ILLEGAL_ADDRESS, MISALIGNED_ADDRESS or LAUNCH_FAILED.
int run_grid(const Grid &grid);
// Counts launches, in 12 bits less one, and the blocks of the running one.
unsigned launch_number();
uint64_t block_number();
// Leaves the running kernel with that error. Only from a kernel.
[[noreturn]] void leave_kernel(int code);
// The device whose kernel runs.
int running_device();
// Which of two places this thread uses for what it exchanges with its warp: lanes that are ahead by one exchange use the
// other one.
bool exchange_row(const emu::Thread *thread);
// What every access of a kernel asks, which would rather not call: grid.cpp alone writes it.
struct Asked {
    // What is running, NULL between kernels.
    const Grid *grid;
    // Where the stacks of its threads lie, one after the other.
    uintptr_t stacks;
    // Barriers that the block has passed, and each warp of it.
    unsigned block_barriers, warp_barriers[emu::MAX_THREADS / 32];
};
extern Asked asked;
constexpr size_t STACK = size_t(64) << 10;
inline const emu::Kernel *running_kernel() { return asked.grid == NULL ? NULL : asked.grid->kernel; }
// Counts barriers: two accesses are ordered if a barrier lies between them.
struct Moment {
    unsigned block, warp;
};
inline Moment now(const emu::Thread *thread) { return {asked.block_barriers, asked.warp_barriers[thread->warp]}; }
inline bool on_kernel_stack(uintptr_t address) { return address - asked.stacks < STACK * emu::MAX_THREADS; }
// Where dynamic shared memory lies and how much of it the running kernel asked for.
enum { MAX_DYNAMIC_SHARED = 48 << 10 };
extern char dynamic_shared[MAX_DYNAMIC_SHARED];
inline unsigned dynamic_shared_size() { return asked.grid->shared; }

// access.cpp ----------------------------------------------------------------------------------------------------------

// Forgets who touched shared memory: at the start of each block.
void forget_accesses();
// What an instruction of the running kernel touches that the compiler does not see, and the place of the instruction.
void touch(void *pointer, size_t size, bool write, const void *place = NULL);
// Whether a byte of shared memory holds what a thread of the running block has computed; and that it does not, though one wrote it.
bool is_known(const void *shared);
// Whether that holds of whole words; false, too, of what are no whole ones.
bool are_known(const void *shared, size_t size);
void forget_known(const void *shared);

// traffic.cpp ---------------------------------------------------------------------------------------------------------

// Remembers an access of a thread of the running block at a place of the program, if that was asked for.
void note_traffic(const void *place, uintptr_t address, size_t size, bool write, unsigned thread);
void end_traffic_of_block();

// copies.cpp ----------------------------------------------------------------------------------------------------------

// Forgets copies: at the start of each block.
void forget_copies();
// Complains if a thread ends before its copies have.
void end_of_thread(const emu::Thread *thread);

}  // namespace driver_double
