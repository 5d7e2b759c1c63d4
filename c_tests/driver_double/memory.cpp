// Device memory of the driver double: apart from host memory, closed to the host, guarded on both sides.
#include "double.h"

#include <sys/mman.h>
#include <algorithm>
#include <map>

namespace driver_double {
namespace {

// Addresses are handed out once, so that memory that was freed is never valid again.
constexpr size_t RESERVED = size_t(1) << 40;
constexpr size_t PAGE = 4096;
// Not usable, in front of and behind each allocation.
constexpr size_t GUARD = 16 * PAGE;
// Most that the devices hold together. Pages that nobody touches cost nothing.
constexpr size_t CAPACITY = size_t(64) << 30;
// What new memory is filled with, as far as this from its start.
constexpr unsigned char FRESH = 0xCD;
constexpr size_t FILLED = size_t(1) << 24;

uintptr_t base, next;
// Notes, at eight times the distance from their start.
char *cells;
size_t used;
std::map<uintptr_t, Allocation> live;
// The two found last: a kernel's source and destination.
const Allocation *recent[2];

size_t pages(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

void protect(int access) {
    for (const auto &entry : live) {
        mprotect(reinterpret_cast<void *>(entry.first), pages(entry.second.size), access);
    }
}

void drop(std::map<uintptr_t, Allocation>::iterator entry) {
    recent[0] = recent[1] = NULL;
    const size_t size = pages(entry->second.size);
    used -= size;
    mmap(reinterpret_cast<void *>(entry->first), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (cells != NULL) madvise(cells + 8 * (entry->first - base), 8 * size, MADV_DONTNEED);
    live.erase(entry);
}

}  // namespace

Allocation *allocate(size_t size, int device) {
    if (size == 0 || size > CAPACITY - used) return NULL;
    if (base == 0) {
        void *map = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) return NULL;
        base = next = reinterpret_cast<uintptr_t>(map);
        map = mmap(NULL, 8 * RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        // Where a process may not reserve as much, races between blocks are not found.
        cells = map == MAP_FAILED ? NULL : static_cast<char *>(map);
    }
    const uintptr_t start = next + GUARD;
    const size_t room = pages(size);
    if (start + room + GUARD > base + RESERVED) return NULL;
    void *memory = reinterpret_cast<void *>(start);
    if (mprotect(memory, room, PROT_READ | PROT_WRITE) != 0) return NULL;
    memset(memory, FRESH, std::min(room, FILLED));
    mprotect(memory, room, PROT_NONE);
    next = start + room;
    used += room;
    return &(live[start] = {start, size, device});
}

bool release(uintptr_t start) {
    const auto entry = live.find(start);
    if (entry == live.end()) return false;
    drop(entry);
    return true;
}

void release_all(int device) {
    for (auto entry = live.begin(); entry != live.end();) {
        const auto here = entry++;
        if (here->second.device == device) drop(here);
    }
}

const Allocation *find(uintptr_t address) {
    for (const Allocation *found : recent) {
        if (found != NULL && address - found->start < found->size) return found;
    }
    auto entry = live.upper_bound(address);
    if (entry == live.begin()) return NULL;
    const Allocation &found = (--entry)->second;
    if (address - found.start >= found.size) return NULL;
    recent[1] = recent[0];
    recent[0] = &found;
    return &found;
}

const Allocation *nearest(uintptr_t address) {
    if (address < base || address >= base + RESERVED) return NULL;
    auto after = live.lower_bound(address);
    const Allocation *best = after == live.end() ? NULL : &after->second;
    if (after != live.begin()) {
        const Allocation *before = &(--after)->second;
        if (best == NULL || address - before->start - before->size < best->start - address) best = before;
    }
    return best;
}

bool holds(uintptr_t address, size_t size) {
    const Allocation *found = find(address);
    return found != NULL && size <= found->size - (address - found->start);
}

void *cells_of(uintptr_t address) { return cells == NULL ? NULL : cells + 8 * (address - base); }
void forget_cells() {
    if (cells != NULL) madvise(cells, 8 * (next - base), MADV_DONTNEED);
}

void open_memory() { protect(PROT_READ | PROT_WRITE); }
void close_memory() { protect(PROT_NONE); }

}  // namespace driver_double
