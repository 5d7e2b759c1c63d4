// Counts what the kernels ask of device memory, a warp's access at a time: its 32-byte sectors.
//
// An access of a warp is what its lanes do at the same place of the program for the nth time. Off unless a program asks.
#include "double.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

namespace driver_double {
namespace {

enum { SECTOR = 32, WIDEST = 16 };

struct Access {
    const void *place;
    uintptr_t address;
    size_t size;
    bool write;
};

struct Totals {
    uint64_t accesses, sectors, bytes;
};

bool counts;
// Of the running block, by thread.
std::vector<std::vector<Access>> threads;
Totals totals[2];

// What the host's compiler makes of a vector is several accesses, and one of a device.
bool belongs_to(const Access &before, uintptr_t address, size_t size, bool write) {
    return before.write == write && before.address + before.size == address &&
           before.address / WIDEST == (address + size - 1) / WIDEST && before.address % WIDEST == 0;
}

void count_warp(unsigned first, unsigned end) {
    struct Warp {
        std::vector<uintptr_t> sectors;
        uint64_t bytes;
    };
    std::map<std::pair<const void *, unsigned>, Warp> accesses[2];
    for (unsigned i = first; i < end; ++i) {
        std::unordered_map<const void *, unsigned> times;
        for (const Access &access : threads[i]) {
            Warp &warp = accesses[access.write][{access.place, times[access.place]++}];
            warp.bytes += access.size;
            for (uintptr_t at = access.address / SECTOR; at <= (access.address + access.size - 1) / SECTOR; ++at) {
                warp.sectors.push_back(at);
            }
        }
    }
    for (unsigned write = 0; write < 2; ++write) {
        for (auto &[place, warp] : accesses[write]) {
            std::sort(warp.sectors.begin(), warp.sectors.end());
            warp.sectors.erase(std::unique(warp.sectors.begin(), warp.sectors.end()), warp.sectors.end());
            totals[write].accesses += 1;
            totals[write].sectors += warp.sectors.size();
            totals[write].bytes += warp.bytes;
        }
    }
}

void note(const void *place, uintptr_t address, size_t size, bool write, unsigned thread) {
    if (threads.size() <= thread) threads.resize(thread + 1);
    std::vector<Access> &mine = threads[thread];
    if (!mine.empty() && belongs_to(mine.back(), address, size, write)) {
        mine.back().size += size;
    } else {
        mine.push_back({place, address, size, write});
    }
}

}  // namespace

// No access of a device is wider than a vector: what the host's compiler makes one of is several there, each at its own place.
void note_traffic(const void *place, uintptr_t address, size_t size, bool write, unsigned thread) {
    if (!counts) return;
    for (size_t from = 0; from < size; from += WIDEST) {
        const void *part = static_cast<const char *>(place) + from / WIDEST;
        note(part, address + from, std::min(size - from, size_t(WIDEST)), write, thread);
    }
}

void end_traffic_of_block() {
    if (!counts) return;
    for (unsigned first = 0; first < threads.size(); first += 32) {
        count_warp(first, std::min(first + 32, unsigned(threads.size())));
    }
    threads.clear();
}

}  // namespace driver_double

using namespace driver_double;

// Accesses, sectors and bytes that were read, then those that were written, since the last call; then how often a number was
// divided by one known before the launch. Counts from now on.
extern "C" __attribute__((visibility("default"))) void driver_double_traffic(uint64_t *figures) {
    for (unsigned write = 0; write < 2; ++write) {
        figures[3 * write] = totals[write].accesses;
        figures[3 * write + 1] = totals[write].sectors;
        figures[3 * write + 2] = totals[write].bytes;
        totals[write] = Totals();
    }
    figures[6] = emu::running.divisions;
    emu::running.divisions = 0;
    counts = true;
}
