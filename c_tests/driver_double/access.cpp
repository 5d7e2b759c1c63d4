// Checks every access of a kernel to memory: bounds, alignment, host pointers, and shared memory without a barrier.
//
// The kernels are compiled with -fsanitize=thread, which calls the functions below in front of each access; the
// sanitizer's own library is not linked.
#include "double.h"

extern "C" char __ehdr_start, _end;

namespace driver_double {
namespace {

// Who touched a byte of shared memory last, and when.
struct Touch {
    const emu::Thread *thread;
    Moment moment;
    unsigned block;
};
struct Byte {
    Touch written;
    // Two different threads, so that a writer always finds one that is not itself.
    Touch read[2];
};

// Shared memory: the static objects of this library (the kernels' are among them), and the dynamic part.
constexpr size_t SHADOW = size_t(1) << 18;
Byte *shadow;
// Counts blocks, so that forgetting is free.
unsigned block;

const char *name() {
    const emu::Kernel *kernel = running_kernel();
    return kernel == NULL ? "?" : kernel->name;
}

bool in_image(uintptr_t address) {
    return address >= reinterpret_cast<uintptr_t>(&__ehdr_start) && address < reinterpret_cast<uintptr_t>(&_end);
}

// threadIdx and its like.
bool is_built_in(uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(&emu::running) < sizeof emu::running;
}

// Whether `other` was another thread's and no barrier lies between it and now.
bool unordered(const Touch &other, const emu::Thread *thread, Moment moment) {
    if (other.thread == NULL || other.thread == thread || other.block != block) return false;
    if (other.moment.block != moment.block) return false;
    return other.thread->warp != thread->warp || other.moment.warp == moment.warp;
}

void check_shared(uintptr_t address, size_t size, bool write) {
    if (shadow == NULL) shadow = new Byte[SHADOW]();
    const emu::Thread *thread = emu::running.thread;
    const Moment moment = now(thread);
    for (size_t i = 0; i < size; ++i) {
        // Neighbours never fall together; what is further apart than the table does not occur in one kernel.
        Byte &byte = shadow[(address + i) % SHADOW];
        const Touch *other = unordered(byte.written, thread, moment) ? &byte.written : NULL;
        for (const Touch &read : byte.read) {
            if (other == NULL && write && unordered(read, thread, moment)) other = &read;
        }
        if (other != NULL) {
            complain("%s: threads %u and %u of a block touch one byte of shared memory with no barrier between", name(),
                     other->thread->warp * 32 + other->thread->lane, thread->warp * 32 + thread->lane);
            leave_kernel(LAUNCH_FAILED);
        }
        const Touch touch = {thread, moment, block};
        if (write) {
            byte.written = touch;
        } else if (unordered(byte.read[0], thread, moment)) {
            byte.read[1] = touch;
        } else {
            byte.read[0] = touch;
        }
    }
}

[[noreturn]] void refuse(uintptr_t address, size_t size, bool write) {
    const char *verb = write ? "writes" : "reads";
    const unsigned thread = emu::running.thread->warp * 32 + emu::running.thread->lane;
    const Allocation *near = nearest(address);
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

void check(void *pointer, size_t size, bool write, bool aligned) {
    // Constructors of the kernels' objects run before any kernel does.
    if (running_kernel() == NULL) return;
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (on_kernel_stack(address) || is_built_in(address)) return;
    if (aligned && address % size != 0) {
        complain("%s: %zu bytes at %#zx are not aligned", name(), size, size_t(address));
        leave_kernel(ILLEGAL_ADDRESS);
    }
    const uintptr_t shared = reinterpret_cast<uintptr_t>(dynamic_shared);
    if (address >= shared && address < shared + MAX_DYNAMIC_SHARED && address + size > shared + dynamic_shared_size()) {
        complain("%s: %zu bytes at %zu of %u bytes of dynamic shared memory", name(), size, size_t(address - shared),
                 dynamic_shared_size());
        leave_kernel(ILLEGAL_ADDRESS);
    }
    if (in_image(address)) return check_shared(address, size, write);
    if (!holds(address, size)) refuse(address, size, write);
}

}  // namespace

void forget_accesses() { ++block; }

}  // namespace driver_double

using driver_double::check;

#define SANITIZER extern "C" __attribute__((visibility("hidden"))) void
#define ACCESS(size)                                                                 \
    SANITIZER __tsan_read##size(void *p) { check(p, size, false, true); }            \
    SANITIZER __tsan_write##size(void *p) { check(p, size, true, true); }            \
    SANITIZER __tsan_unaligned_read##size(void *p) { check(p, size, false, false); } \
    SANITIZER __tsan_unaligned_write##size(void *p) { check(p, size, true, false); } \
    SANITIZER __tsan_volatile_read##size(void *p) { check(p, size, false, true); }   \
    SANITIZER __tsan_volatile_write##size(void *p) { check(p, size, true, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
SANITIZER __tsan_read_range(void *p, size_t size) { check(p, size, false, false); }
SANITIZER __tsan_write_range(void *p, size_t size) { check(p, size, true, false); }
SANITIZER __tsan_func_entry(void *) {}
SANITIZER __tsan_func_exit(void *) {}
SANITIZER __tsan_init() {}
