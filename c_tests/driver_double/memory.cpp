// Device memory of the driver double: apart from host memory, closed to the host, guarded on both sides.
#include "double.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstdlib>
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

// Address space without memory, by its start.
std::map<uintptr_t, size_t> reserved;
// Which device may reach the plain memory of which other.
bool peers[DEVICES][DEVICES];

bool is_open(Kind kind) { return kind == Kind::MANAGED || kind == Kind::PAGE_LOCKED || kind == Kind::REGISTERED; }

void protect(int access) {
    for (const auto &entry : live) {
        if (is_open(entry.second.kind)) continue;
        mprotect(reinterpret_cast<void *>(entry.first), pages(entry.second.size), access);
    }
}

void drop(std::map<uintptr_t, Allocation>::iterator entry) {
    recent[0] = recent[1] = NULL;
    if (entry->second.kind == Kind::REGISTERED) {
        // The program's own.
        live.erase(entry);
        return;
    }
    const size_t size = pages(entry->second.size);
    used -= size;
    mmap(reinterpret_cast<void *>(entry->first), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (cells != NULL) madvise(cells + 8 * (entry->first - base), 8 * size, MADV_DONTNEED);
    live.erase(entry);
}

}  // namespace

// Addresses that nobody has yet, 0 if there are none left.
static uintptr_t take(size_t room, size_t alignment) {
    if (base == 0) {
        void *map = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) return 0;
        base = next = reinterpret_cast<uintptr_t>(map);
        map = mmap(NULL, 8 * RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        // Where a process may not reserve as much, races between blocks are not found.
        cells = map == MAP_FAILED ? NULL : static_cast<char *>(map);
    }
    const uintptr_t start = (next + GUARD + alignment - 1) / alignment * alignment;
    if (start + room + GUARD > base + RESERVED) return 0;
    next = start + room;
    return start;
}

// New memory at addresses that are its own.
static Allocation *fill(uintptr_t start, const Allocation &allocation) {
    const size_t room = pages(allocation.size);
    void *memory = reinterpret_cast<void *>(start);
    if (mprotect(memory, room, PROT_READ | PROT_WRITE) != 0) return NULL;
    memset(memory, FRESH, std::min(room, FILLED));
    if (!is_open(allocation.kind)) mprotect(memory, room, PROT_NONE);
    used += room;
    recent[0] = recent[1] = NULL;
    return &(live[start] = allocation);
}

Allocation *allocate(size_t size, int device, Kind kind) {
    if (size == 0 || size > CAPACITY - used) return NULL;
    const uintptr_t start = take(pages(size), PAGE);
    const unsigned access = kind == Kind::MANAGED || kind == Kind::PAGE_LOCKED ? ~0u : 1u << device;
    return start == 0 ? NULL : fill(start, {start, size, device, kind, access});
}

bool enrol(uintptr_t start, size_t size, int device) {
    if (size == 0 || live.count(start) != 0) return false;
    recent[0] = recent[1] = NULL;
    live[start] = {start, size, device, Kind::REGISTERED, ~0u};
    return true;
}

uintptr_t reserve(size_t size) {
    if (size == 0 || size % SEGMENT_UNIT != 0) return 0;
    const uintptr_t start = take(size, SEGMENT_UNIT);
    if (start != 0) reserved[start] = size;
    return start;
}

bool unreserve(uintptr_t start) { return reserved.erase(start) == 1; }

bool map_segment(uintptr_t start, size_t size, int device) {
    auto range = reserved.upper_bound(start);
    if (size == 0 || size % SEGMENT_UNIT != 0 || range == reserved.begin() || size > CAPACITY - used) return false;
    --range;
    if (start + size > range->first + range->second) return false;
    for (uintptr_t at = start; at < start + size; at += SEGMENT_UNIT) {
        if (find(at) != NULL) return false;
    }
    // Nobody reaches it until that is allowed.
    return fill(start, {start, size, device, Kind::SEGMENT, 0}) != NULL;
}

bool allow(uintptr_t start, size_t size, int device, bool reach) {
    for (uintptr_t at = start; at < start + size;) {
        const auto entry = live.find(at);
        if (entry == live.end() || entry->second.kind != Kind::SEGMENT) return false;
        if (reach) {
            entry->second.access |= 1u << device;
        } else {
            entry->second.access &= ~(1u << device);
        }
        at += entry->second.size;
    }
    return true;
}

void make_peers(int device, int of) { peers[device][of] = true; }

bool may_reach(const Allocation *found, int device) {
    if (found->access >> device & 1) return true;
    return found->kind == Kind::PLAIN && peers[device][found->device];
}

bool reaches(uintptr_t address, size_t size, int device) {
    // What lies in the caller's pages is none of the driver's business where the device reaches those.
    const Allocation *found = find(address);
    if (found == NULL) return is_pageable() && (address < base || address >= base + RESERVED);
    for (;;) {
        if (!may_reach(found, device)) return false;
        const size_t left = found->size - (address - found->start);
        if (size <= left) return true;
        address += left;
        size -= left;
        if ((found = find(address)) == NULL) return false;
    }
}

bool is_pageable() {
    static const char *const answer = getenv("DRIVER_DOUBLE_PAGEABLE");
    return answer != NULL && strcmp(answer, "1") == 0;
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
    for (;;) {
        const Allocation *found = find(address);
        if (found == NULL) return false;
        const size_t left = found->size - (address - found->start);
        if (size <= left) return true;
        address += left;
        size -= left;
    }
}

void *cells_of(uintptr_t address) {
    return cells == NULL || address < base || address >= base + RESERVED ? NULL : cells + 8 * (address - base);
}
void forget_cells() {
    if (cells != NULL) madvise(cells, 8 * (next - base), MADV_DONTNEED);
}

void open_memory() { protect(PROT_READ | PROT_WRITE); }
void close_memory() { protect(PROT_NONE); }

}  // namespace driver_double
