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

// Who touched a byte of shared memory, and when: from the upper bits down 1, the number of its warp (5) and its lane in it
// (5), how many barriers the block had passed (21), and its warp (32). 0 for nobody. Packed, as there are three for every
// byte that kernels touch, and each access of theirs is compared with them.
typedef uint64_t Touch;
struct History {
    Touch written;
    // Two different threads, so that a writer always finds one that is not itself.
    Touch read[2];
};
// Four bytes. Most are touched together only, and have one history; once they were not, each has its own in `histories`.
struct Word {
    // Whose touches these are: those of another block are nobody's.
    unsigned block;
    bool is_split;
    // A bit for each byte that holds what a thread has computed.
    unsigned char known;
    History history;
};

// One for every four bytes from __bss_start to _end, and one for each byte. Pages that nobody touches cost nothing.
Word *words;
History *histories;
// Counts blocks, so that forgetting is free.
unsigned block;

uintptr_t address_of(const char &object) { return reinterpret_cast<uintptr_t>(&object); }

const char *name() {
    const emu::Kernel *kernel = running_kernel();
    return kernel == NULL ? "?" : kernel->name;
}

unsigned number(const emu::Thread *thread) { return thread->warp * 32 + thread->lane; }

bool in_image(uintptr_t address) { return address >= address_of(__ehdr_start) && address < address_of(_end); }

void *notes(size_t size) {
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

// Where a byte of shared memory lies among all of them, from a multiple of four bytes on; SIZE_MAX if it is none.
size_t place_of(uintptr_t address) {
    const uintptr_t first = address_of(__bss_start) & ~uintptr_t(3);
    const size_t size = address_of(_end) - first;
    if (address - first >= size) return SIZE_MAX;
    if (words == NULL) {
        histories = static_cast<History *>(notes(sizeof(History) * (size + 3)));
        words = static_cast<Word *>(notes(sizeof(Word) * (size / 4 + 1)));
        if (histories == NULL || words == NULL) {
            complain("no memory for notes on %zu bytes of shared memory", size);
            leave_kernel(LAUNCH_FAILED);
        }
    }
    return address - first;
}

// The word that holds a byte of shared memory.
Word &word_at(size_t place) {
    Word &word = words[place / 4];
    if (word.block != block) word = {block, false, 0, {0, {0, 0}}};
    return word;
}

// threadIdx and its like.
bool is_built_in(uintptr_t address) {
    return address - reinterpret_cast<uintptr_t>(&emu::running) < sizeof emu::running;
}

Touch touch_of(unsigned thread, Moment moment) {
    return uint64_t(1) << 63 | uint64_t(thread) << 53 | uint64_t(moment.block & ((1u << 21) - 1)) << 32 | moment.warp;
}

unsigned thread_of(Touch touch) { return touch >> 53 & 1023; }

// Whether `other` was another thread's and no barrier lies between it and now.
inline bool unordered(Touch other, Touch now) {
    const uint64_t differs = other ^ now;
    // Nobody's; the same thread's; one before a barrier of the block.
    if (other == 0 || differs >> 53 == 0 || uint32_t(differs >> 32) << 11 != 0) return false;
    return differs >> 58 != 0 || uint32_t(differs) == 0;
}

// Compares a touch with those before it, and remembers it.
inline void note(History &history, Touch touch, bool write) {
    Touch other = unordered(history.written, touch) ? history.written : 0;
    for (const Touch read : history.read) {
        if (write && other == 0 && unordered(read, touch)) other = read;
    }
    if (other != 0) {
        complain("%s: threads %u and %u of a block touch one byte of shared memory with no barrier between", name(),
                 thread_of(other), thread_of(touch));
        leave_kernel(LAUNCH_FAILED);
    }
    if (write) {
        history.written = touch;
    } else {
        history.read[unordered(history.read[0], touch)] = touch;
    }
}

// Whether this is what nearly all accesses are, those of whole words of shared memory that their block has touched as a whole, in
// order and after they were written. Then it is noted; all else is left to `check`, with every complaint.
template <size_t SIZE, bool WRITE>
inline bool is_orderly(void *pointer) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const size_t place = address - (address_of(__bss_start) & ~uintptr_t(3));
    const size_t size = address_of(_end) - (address_of(__bss_start) & ~uintptr_t(3));
    if (SIZE % 4 != 0 || place >= size || address % SIZE != 0 || words == NULL || running_kernel() == NULL) return false;
    if (is_built_in(address)) return false;
    const uintptr_t dynamic = address - address_of(dynamic_shared[0]);
    if (dynamic < MAX_DYNAMIC_SHARED && dynamic + SIZE > dynamic_shared_size()) return false;
    const emu::Thread *thread = emu::running.thread;
    const Touch touch = touch_of(number(thread), now(thread));
    Word *word = words + place / 4;
    for (size_t i = 0; i < SIZE / 4; ++i) {
        const History &history = word[i].history;
        if (word[i].block != block || word[i].is_split || unordered(history.written, touch)) return false;
        if (WRITE && (unordered(history.read[0], touch) || unordered(history.read[1], touch))) return false;
        if (!WRITE && history.written == 0) return false;
    }
    for (size_t i = 0; i < SIZE / 4; ++i) {
        History &history = word[i].history;
        if (WRITE) {
            history.written = touch;
            word[i].known = 15;
        } else {
            history.read[unordered(history.read[0], touch)] = touch;
        }
    }
    return true;
}

void check_shared(uintptr_t address, size_t place, size_t size, bool write) {
    const emu::Thread *thread = emu::running.thread;
    const Touch touch = touch_of(number(thread), now(thread));
    unsigned char *bytes = reinterpret_cast<unsigned char *>(address);
    // What no thread of this block has written is no number that any type has. A kernel may load it (the edges of a tile) as
    // long as nothing comes of it: what another block left, and zeros, would go unnoticed.
    for (const size_t end = place + size; place < end;) {
        Word &word = word_at(place);
        const size_t first = place % 4, count = end - place < 4 - first ? end - place : 4 - first;
        if (count == 4 && !word.is_split) {
            note(word.history, touch, write);
            if (!write && word.history.written == 0) memset(bytes, 0xFF, 4);
        } else {
            History *own = histories + place;
            if (!word.is_split) {
                for (unsigned i = 0; i < 4; ++i) (own - first)[i] = word.history;
                word.is_split = true;
            }
            for (size_t i = 0; i < count; ++i) {
                note(own[i], touch, write);
                if (!write && own[i].written == 0) bytes[i] = 0xFF;
            }
        }
        if (write) word.known |= ((1u << count) - 1) << first;
        place += count;
        bytes += count;
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
    const size_t place_in_shared = place_of(address);
    if (place_in_shared != SIZE_MAX) return check_shared(address, place_in_shared, size, write);
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

void touch(void *pointer, size_t size, bool write, const void *place) {
    bool is_noted = false;
    if (size == 4) is_noted = write ? is_orderly<4, true>(pointer) : is_orderly<4, false>(pointer);
    if (size == 16) is_noted = write ? is_orderly<16, true>(pointer) : is_orderly<16, false>(pointer);
    if (!is_noted) check(pointer, size, write, true, place);
}

bool are_known(const void *shared, size_t size) {
    const size_t place = place_of(reinterpret_cast<uintptr_t>(shared));
    if (place == SIZE_MAX || place % 4 != 0 || size % 4 != 0) return false;
    for (size_t i = 0; i < size / 4; ++i) {
        const Word &word = words[place / 4 + i];
        if (word.block != block || word.known != 15) return false;
    }
    return true;
}
bool is_known(const void *shared) {
    const size_t place = place_of(reinterpret_cast<uintptr_t>(shared));
    return place != SIZE_MAX && word_at(place).known >> place % 4 & 1;
}
void forget_known(const void *shared) {
    const size_t place = place_of(reinterpret_cast<uintptr_t>(shared));
    if (place != SIZE_MAX) word_at(place).known &= ~(1u << place % 4);
}

}  // namespace driver_double

using driver_double::check;
using driver_double::is_orderly;

#define PLACE __builtin_return_address(0)
#define SANITIZER extern "C" __attribute__((visibility("hidden"))) void
#define ACCESS(size)                                                                        \
    SANITIZER __tsan_read##size(void *p) {                                                  \
        if (!is_orderly<size, false>(p)) check(p, size, false, true, PLACE);                \
    }                                                                                       \
    SANITIZER __tsan_write##size(void *p) {                                                 \
        if (!is_orderly<size, true>(p)) check(p, size, true, true, PLACE);                  \
    }                                                                                       \
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
