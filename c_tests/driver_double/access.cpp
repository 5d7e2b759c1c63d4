// Checks every access of a kernel to memory: bounds, alignment, host pointers, what threads of a block and what blocks do
// to the same byte.
//
// The kernels are compiled with -fsanitize=thread,alignment,shift-exponent, which calls the functions below in front of each
// access, and where an address or a shift is out of order; the sanitizers' own libraries are not linked.
#include "double.h"

#include <sys/mman.h>

// This library, and what of it starts as zeros: the kernels' __shared__ objects are there, constants are not.
extern "C" char __ehdr_start, __bss_start, _end;

namespace driver_double {
namespace {

// Who touched a byte of shared memory last, and when. Small, as there are three for every byte that kernels touch.
struct Touch {
    // Its number and one, 0 for none.
    unsigned thread;
    unsigned block;
    Moment moment;
};
struct Byte {
    Touch written;
    // Two different threads, so that a writer always finds one that is not itself.
    Touch read[2];
    // The block that has put something there that it had computed.
    unsigned known;
};

// One for each byte from __bss_start to _end. Pages that nobody touches cost nothing.
Byte *shadow;
// Counts blocks, so that forgetting is free.
unsigned block;

uintptr_t address_of(const char &object) { return reinterpret_cast<uintptr_t>(&object); }

const char *name() {
    const emu::Kernel *kernel = running_kernel();
    return kernel == NULL ? "?" : kernel->name;
}

unsigned number(const emu::Thread *thread) { return thread->warp * 32 + thread->lane; }

bool in_image(uintptr_t address) { return address >= address_of(__ehdr_start) && address < address_of(_end); }

// The shadow of a byte of shared memory, or NULL.
Byte *shadow_of(uintptr_t address) {
    const size_t size = address_of(_end) - address_of(__bss_start);
    if (shadow == NULL) {
        void *map = mmap(NULL, sizeof(Byte) * size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) return NULL;
        shadow = static_cast<Byte *>(map);
    }
    return address - address_of(__bss_start) < size ? shadow + (address - address_of(__bss_start)) : NULL;
}

// threadIdx and its like.
bool is_built_in(uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(&emu::running) < sizeof emu::running;
}

// Whether `other` was another thread's and no barrier lies between it and now.
bool unordered(const Touch &other, const Touch &now) {
    if (other.block != block || other.thread == 0 || other.thread == now.thread) return false;
    if (other.moment.block != now.moment.block) return false;
    return (other.thread - 1) / 32 != (now.thread - 1) / 32 || other.moment.warp == now.moment.warp;
}

void check_shared(uintptr_t address, Byte *bytes, size_t size, bool write) {
    const emu::Thread *thread = emu::running.thread;
    const Touch touch = {number(thread) + 1, block, now(thread)};
    for (size_t i = 0; i < size; ++i) {
        Byte &byte = bytes[i];
        const Touch *other = unordered(byte.written, touch) ? &byte.written : NULL;
        for (const Touch &read : byte.read) {
            if (other == NULL && write && unordered(read, touch)) other = &read;
        }
        if (other != NULL) {
            complain("%s: threads %u and %u of a block touch one byte of shared memory with no barrier between", name(),
                     other->thread - 1, number(thread));
            leave_kernel(LAUNCH_FAILED);
        }
        // What no thread of this block has written is no number that any type has. A kernel may load it (the edges of a tile)
        // as long as nothing comes of it: what another block left, and zeros, would go unnoticed.
        if (!write && byte.written.block != block) reinterpret_cast<unsigned char *>(address)[i] = 0xFF;
        if (write) {
            byte.written = touch;
            byte.known = block;
        } else if (unordered(byte.read[0], touch)) {
            byte.read[1] = touch;
        } else {
            byte.read[0] = touch;
        }
    }
}

// Which blocks of a launch touched a byte of device memory. The launches of one stream are ordered, blocks of one launch
// never are.
struct Blocks {
    uint32_t writer, reader;
};
// A launch in the upper bits, a block in the lower ones. Blocks that far apart fall together, which misses some races.
enum : uint32_t { BLOCK_BITS = 20, MANY = (1u << BLOCK_BITS) - 1 };

void check_blocks(uintptr_t address, size_t size, bool write) {
    Blocks *cells = static_cast<Blocks *>(cells_of(address));
    if (cells == NULL) return;
    const uint32_t launch = (launch_number() + 1) << BLOCK_BITS;
    const uint32_t me = launch | uint32_t(block_number() % MANY), many = launch | MANY;
    for (size_t i = 0; i < size; ++i) {
        Blocks &cell = cells[i];
        const bool written = cell.writer >> BLOCK_BITS == launch >> BLOCK_BITS && cell.writer != me;
        const bool read = cell.reader >> BLOCK_BITS == launch >> BLOCK_BITS && cell.reader != me;
        if (written || (write && read)) {
            complain("%s: block %u %s a byte that block %u %s in the same launch", name(), emu::running.block_index.x,
                     write ? "writes" : "reads", (written ? cell.writer : cell.reader) & MANY,
                     written ? "writes" : "reads");
            leave_kernel(LAUNCH_FAILED);
        }
        if (write) {
            cell.writer = me;
        } else {
            cell.reader = read ? many : me;
        }
    }
}

[[noreturn]] void refuse(uintptr_t address, size_t size, bool write) {
    const char *verb = write ? "writes" : "reads";
    const unsigned thread = number(emu::running.thread);
    const Allocation *near = nearest(address);
    if (const Allocation *held = find(address)) {
        if (!may_reach(held, running_device())) {
            complain("%s: thread %u of block %u %s %zu bytes at %#zx, which device %d does not reach", name(), thread,
                     emu::running.block_index.x, verb, size, size_t(address), running_device());
            leave_kernel(ILLEGAL_ADDRESS);
        }
    }
    if (near == NULL) {
        complain("%s: thread %u of block %u %s %zu bytes at %#zx, which is host memory", name(), thread,
                 emu::running.block_index.x, verb, size, size_t(address));
    } else {
        complain("%s: thread %u of block %u %s %zu bytes at %#zx, %zd bytes from the start of an allocation of %zu",
                 name(), thread, emu::running.block_index.x, verb, size, size_t(address),
                 ssize_t(address - near->start), near->size);
    }
    leave_kernel(ILLEGAL_ADDRESS);
}

[[noreturn]] void misaligned(uintptr_t address, size_t alignment) {
    complain("%s: an access at %#zx is not aligned to %zu bytes", name(), size_t(address), alignment);
    leave_kernel(MISALIGNED_ADDRESS);
}

void check(void *pointer, size_t size, bool write, bool aligned, const void *place) {
    // Constructors of the kernels' objects run before any kernel does.
    if (running_kernel() == NULL) return;
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (on_kernel_stack(address) || is_built_in(address)) return;
    if (aligned && address % size != 0) misaligned(address, size);
    const uintptr_t shared = address_of(dynamic_shared[0]);
    if (address >= shared && address < shared + MAX_DYNAMIC_SHARED && address + size > shared + dynamic_shared_size()) {
        complain("%s: %zu bytes at %zu of %u bytes of dynamic shared memory", name(), size, size_t(address - shared),
                 dynamic_shared_size());
        leave_kernel(ILLEGAL_ADDRESS);
    }
    if (Byte *bytes = shadow_of(address)) return check_shared(address, bytes, size, write);
    if (in_image(address)) {
        if (!write) return;  // a constant
        complain("%s: thread %u writes a constant", name(), number(emu::running.thread));
        leave_kernel(ILLEGAL_ADDRESS);
    }
    if (!reaches(address, size, running_device())) refuse(address, size, write);
    check_blocks(address, size, write);
    note_traffic(place, address, size, write, number(emu::running.thread));
}

}  // namespace

void forget_accesses() { ++block; }

void touch(void *pointer, size_t size, bool write, const void *place) { check(pointer, size, write, true, place); }

bool is_known(const void *shared) {
    const Byte *byte = shadow_of(reinterpret_cast<uintptr_t>(shared));
    return byte != NULL && byte->known == block;
}
void forget_known(const void *shared) {
    if (Byte *byte = shadow_of(reinterpret_cast<uintptr_t>(shared))) byte->known = 0;
}

}  // namespace driver_double

using driver_double::check;

#define PLACE __builtin_return_address(0)
#define SANITIZER extern "C" __attribute__((visibility("hidden"))) void
#define ACCESS(size)                                                                        \
    SANITIZER __tsan_read##size(void *p) { check(p, size, false, true, PLACE); }            \
    SANITIZER __tsan_write##size(void *p) { check(p, size, true, true, PLACE); }            \
    SANITIZER __tsan_unaligned_read##size(void *p) { check(p, size, false, false, PLACE); } \
    SANITIZER __tsan_unaligned_write##size(void *p) { check(p, size, true, false, PLACE); } \
    SANITIZER __tsan_volatile_read##size(void *p) { check(p, size, false, true, PLACE); }   \
    SANITIZER __tsan_volatile_write##size(void *p) { check(p, size, true, true, PLACE); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
SANITIZER __tsan_read_range(void *p, size_t size) { check(p, size, false, false, PLACE); }
SANITIZER __tsan_write_range(void *p, size_t size) { check(p, size, true, false, PLACE); }
SANITIZER __tsan_func_entry(void *) {}
SANITIZER __tsan_func_exit(void *) {}
SANITIZER __tsan_init() {}

// What the compiler hands over when an address is not aligned to its type, as far as it is needed here. A type may be one
// access on a device, whatever the host's compiler makes of it.
struct Place {
    const char *file;
    unsigned line, column;
};
struct Mismatch {
    Place place;
    const void *type;
    unsigned char log_alignment;
};
struct Shift {
    Place place;
};

SANITIZER __ubsan_handle_type_mismatch_v1(const Mismatch *mismatch, void *pointer) {
    if (driver_double::running_kernel() == NULL) return;
    driver_double::misaligned(reinterpret_cast<uintptr_t>(pointer), size_t(1) << mismatch->log_alignment);
}
// Devices take a shift beyond the width for one by the whole width, hosts for one by the rest.
SANITIZER __ubsan_handle_shift_out_of_bounds(const Shift *shift, size_t, size_t) {
    if (driver_double::running_kernel() == NULL) return;
    driver_double::complain("%s: a shift beyond the width of its type in line %u", driver_double::name(),
                            shift->place.line);
    driver_double::leave_kernel(driver_double::LAUNCH_FAILED);
}
