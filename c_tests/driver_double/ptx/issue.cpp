// Counts what a device would issue for a launch: instructions by warp, the longest warp, waits for loads that depend on each
// other, wavefronts of shared memory, products on Tensor Cores and arithmetic in binary64.
//
// A warp issues an instruction as often as the lane that comes to it most often, which is exact where lanes reconverge behind
// every branch. A lane waits when it needs a register whose load is under way: all loads that were issued before have arrived
// then. The wait is a far one if one of them was the first of its block to ask for a sector, else a near one. A wait for
// asynchronous copies that leaves N groups under way counts as 1 / (N + 1) of a far one.
#include "issue.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_set>

#include "ptx.h"

namespace driver_double {
namespace ptx {
namespace {

enum Trait : uint8_t {
    LOADS_GLOBAL = 1,
    USES_SHARED = 2,
    // The register named as the destination is read.
    READS_DESTINATION = 4,
    // The further registers are read.
    READS_MORE = 8,
    MULTIPLIES = 16,
    IS_DOUBLE = 32,
    WAITS_FOR_COPIES = 64,
    COPIES = 128,
};

bool starts_with(const char *form, const char *with) { return strncmp(form, with, strlen(with)) == 0; }

uint8_t traits_of(const char *form) {
    uint8_t traits = 0;
    const bool store = starts_with(form, "st."), load = starts_with(form, "ld.");
    if (load && strstr(form, ".global") != NULL) traits |= LOADS_GLOBAL;
    if ((load || store) && strstr(form, ".shared") != NULL) traits |= USES_SHARED;
    if (store) traits |= READS_DESTINATION | READS_MORE;
    if (starts_with(form, "mma.")) traits |= MULTIPLIES | READS_MORE;
    if (starts_with(form, "ldmatrix.")) traits |= USES_SHARED;
    if (starts_with(form, "mov.") && !load) traits |= READS_MORE;
    if (strstr(form, ".f64") != NULL && !load && !store && !starts_with(form, "mov.")) traits |= IS_DOUBLE;
    if (starts_with(form, "cp.async.wait")) traits |= WAITS_FOR_COPIES;
    if (starts_with(form, "cp.async.c")) traits |= COPIES;
    return traits;
}

// The bytes that each lane moves.
unsigned width_of(const char *form) {
    // A lane names a row of a matrix.
    if (starts_with(form, "ldmatrix.")) return 16;
    unsigned count = strstr(form, ".v4") != NULL ? 4 : strstr(form, ".v2") != NULL ? 2 : 1;
    const char *dot = strrchr(form, '.');
    return count * std::max(1u, unsigned(atoi(dot + 2)) / 8);
}

// Blocks that stand for all: few if they are long.
enum { FEWEST = 4, MOST = 48 };
constexpr double ENOUGH = 1e6;

struct SharedAccess {
    const Instruction *instruction;
    uint64_t address;
};

}  // namespace

class Lane {
public:
    void reset(const Program &program, const std::vector<uint8_t> &of_code) {
        traits = of_code.data();
        times.assign(program.code.size(), 0);
        loaded.assign(program.slots, 0);
        accesses.clear();
        epoch = 1;
        far = near = bytes = 0;
        is_far = copying = false;
    }

    const uint8_t *traits = NULL;
    std::vector<uint32_t> times;
    // The epoch in which a register was loaded: its load is under way if that is the present one.
    std::vector<uint32_t> loaded;
    std::vector<SharedAccess> accesses;
    uint32_t epoch = 1;
    double far = 0, near = 0, bytes = 0;
    // Whether a load that is under way is the first of its block to ask for a sector; whether copies are under way.
    bool is_far = false, copying = false;
    unsigned warp = 0;
};

namespace {

// What is known of the instructions of a program.
const std::vector<uint8_t> &traits_of(const Program &program) {
    static std::map<const Program *, std::vector<uint8_t>> known;
    std::vector<uint8_t> &traits = known[&program];
    if (traits.empty()) {
        for (const Instruction &i : program.code) traits.push_back(traits_of(i.form));
    }
    return traits;
}

struct Counts {
    const char *kernel = NULL;
    uint3 blocks = {0, 0, 0}, threads = {0, 0, 0};
    unsigned shared = 0;
    // Blocks and warps that were run.
    uint64_t ran = 0, warps = 0;
    // Of all warps together, then the most of any warp.
    double issued = 0, bytes = 0, wavefronts = 0, products = 0, doubles = 0;
    double longest = 0, far = 0, near = 0;
};

typedef std::tuple<const emu::Kernel *, std::vector<unsigned>, std::string> Launch;
std::map<Launch, Counts> known;
std::vector<Counts> launches;
Counts running;
std::vector<std::unique_ptr<Lane>> lanes;
size_t lanes_used;
// Of device memory, that the running block has asked for.
std::unordered_set<uint64_t> sectors;
enum { SECTOR = 32 };

// Cycles for which an access of a warp keeps shared memory busy: 32 banks of 4 bytes, and as many lanes at a time as 128 bytes serve.
unsigned wavefronts_of(const std::vector<uint64_t> &addresses, unsigned width) {
    const size_t together = std::max<size_t>(1, 32 * 4 / std::max(4u, width));
    unsigned sum = 0;
    for (size_t first = 0; first < addresses.size(); first += together) {
        std::vector<uint64_t> words;
        for (size_t k = first; k < std::min(addresses.size(), first + together); ++k) {
            for (uint64_t word = addresses[k] / 4; word <= (addresses[k] + width - 1) / 4; ++word) words.push_back(word);
        }
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        unsigned banks[32] = {}, most = 0;
        for (const uint64_t word : words) most = std::max(most, ++banks[word % 32]);
        sum += most;
    }
    return sum;
}

double wavefronts_of(const std::vector<const Lane *> &warp) {
    // The nth time that a lane comes to an instruction it does so with the others that do.
    std::map<std::pair<const Instruction *, unsigned>, std::vector<uint64_t>> meetings;
    double sum = 0;
    size_t common = ~size_t(0);
    for (const Lane *lane : warp) common = std::min(common, lane->accesses.size());
    const auto alike = [&](size_t k) {
        for (const Lane *lane : warp) {
            if (lane->accesses.size() != warp[0]->accesses.size()) return false;
            if (lane->accesses[k].instruction != warp[0]->accesses[k].instruction) return false;
        }
        return true;
    };
    size_t k = 0;
    std::vector<uint64_t> addresses;
    for (; k < common && alike(k); ++k) {
        addresses.clear();
        for (const Lane *lane : warp) addresses.push_back(lane->accesses[k].address);
        sum += wavefronts_of(addresses, width_of(warp[0]->accesses[k].instruction->form));
    }
    for (const Lane *lane : warp) {
        std::map<const Instruction *, unsigned> times;
        for (size_t rest = k; rest < lane->accesses.size(); ++rest) {
            const SharedAccess &access = lane->accesses[rest];
            meetings[{access.instruction, times[access.instruction]++}].push_back(access.address);
        }
    }
    for (const auto &[where, met] : meetings) sum += wavefronts_of(met, width_of(where.first->form));
    return sum;
}

const char *path() {
    static const char *const path = getenv("DRIVER_DOUBLE_ISSUE");
    return path;
}

void fold(const std::vector<const Lane *> &warp, const std::vector<uint8_t> &traits) {
    double issued = 0, far = 0, near = 0;
    for (size_t k = 0; k < traits.size(); ++k) {
        uint32_t most = 0;
        for (const Lane *lane : warp) most = std::max(most, lane->times[k]);
        issued += most;
        if ((traits[k] & MULTIPLIES) != 0) running.products += most;
        if ((traits[k] & IS_DOUBLE) != 0) running.doubles += most;
    }
    for (const Lane *lane : warp) {
        far = std::max(far, lane->far);
        near = std::max(near, lane->near);
        running.bytes += lane->bytes;
    }
    running.warps += 1;
    running.issued += issued;
    running.wavefronts += wavefronts_of(warp);
    running.longest = std::max(running.longest, issued);
    running.far = std::max(running.far, far);
    running.near = std::max(running.near, near);
}

// By name: figures of a launch, then those of a warp on average, then those of the warp that has the most.
void print(FILE *file, const Counts &c) {
    const double warps = double(std::max<uint64_t>(1, c.warps));
    fprintf(file,
            "launch kernel=%s blocks=%llu threads=%u shared=%u ran=%llu issued=%.2f bytes=%.2f wavefronts=%.2f "
            "products=%.2f doubles=%.2f longest=%.0f far=%.2f near=%.2f\n",
            c.kernel, static_cast<unsigned long long>(c.blocks.x) * c.blocks.y * c.blocks.z,
            c.threads.x * c.threads.y * c.threads.z, c.shared, static_cast<unsigned long long>(c.ran), c.issued / warps,
            c.bytes / warps, c.wavefronts / warps, c.products / warps, c.doubles / warps, c.longest, c.far, c.near);
}

}  // namespace

bool counts_issue() { return path() != NULL; }

Lane *begin_lane(const Entry &entry) {
    if (path() == NULL) return NULL;
    if (lanes_used == lanes.size()) lanes.emplace_back(new Lane());
    Lane *lane = lanes[lanes_used++].get();
    lane->reset(*entry.program, traits_of(*entry.program));
    lane->warp = emu::running.thread->warp;
    return lane;
}

void count(Lane &lane, const Frame &frame, const Instruction &i, bool skipped) {
    const size_t at = size_t(&i - &frame.entry->program->code[0]);
    const uint8_t traits = lane.traits[at];
    ++lane.times[at];
    bool waits = false;
    const auto use = [&](uint32_t slot) { waits = waits || lane.loaded[slot] == lane.epoch; };
    if (i.guard != ALWAYS) use(i.guard);
    if (!skipped) {
        for (const uint32_t slot : i.s) {
            if (slot < lane.loaded.size()) use(slot);
        }
        if ((traits & READS_DESTINATION) != 0 && i.more == NULL) use(i.d);
        if ((traits & READS_MORE) != 0 && i.more != NULL) {
            for (const uint32_t slot : i.more->slots) use(slot);
        }
    }
    if (waits) {
        (lane.is_far ? lane.far : lane.near) += 1;
        lane.is_far = false;
        ++lane.epoch;
    }
    if (skipped) return;
    if ((traits & COPIES) != 0) {
        if (strstr(i.form, "commit") == NULL) lane.bytes += double(i.offset);
        lane.copying = true;
    }
    if ((traits & WAITS_FOR_COPIES) != 0 && lane.copying) {
        lane.far += 1 / double(i.offset + 1);
        if (i.offset == 0) lane.copying = false;
    }
    if ((traits & USES_SHARED) != 0 && (i.s[0] < lane.loaded.size())) {
        lane.accesses.push_back({&i, frame.slots[i.s[0]] + uint64_t(i.offset)});
    }
    if ((traits & LOADS_GLOBAL) != 0) {
        const unsigned width = width_of(i.form);
        lane.bytes += width;
        const uint64_t address = frame.slots[i.s[0]] + uint64_t(i.offset);
        for (uint64_t at = address / SECTOR; at <= (address + width - 1) / SECTOR; ++at) {
            lane.is_far = sectors.insert(at).second || lane.is_far;
        }
        if (i.more == NULL) lane.loaded[i.d] = lane.epoch;
        else for (const uint32_t slot : i.more->slots) lane.loaded[slot] = lane.epoch;
    } else if (i.more == NULL && (traits & READS_DESTINATION) == 0 && i.d < lane.loaded.size()) {
        lane.loaded[i.d] = 0;
    }
}

void end_issue_of_block() {
    if (lanes_used == 0) return;
    const Entry *entry = static_cast<const Entry *>(running_kernel());
    const std::vector<uint8_t> &traits = traits_of(*entry->program);
    std::map<unsigned, std::vector<const Lane *>> warps;
    for (size_t k = 0; k < lanes_used; ++k) warps[lanes[k]->warp].push_back(lanes[k].get());
    for (const auto &[number, warp] : warps) fold(warp, traits);
    running.ran += 1;
    lanes_used = 0;
    sectors.clear();
}

int run_counted(const Grid &grid) {
    const Launch launch = {grid.kernel,
                           {grid.blocks.x, grid.blocks.y, grid.blocks.z, grid.threads.x, grid.threads.y, grid.threads.z, grid.shared},
                           grid.parameter};
    const auto found = known.find(launch);
    int code = SUCCESS;
    if (found == known.end()) {
        running = Counts();
        running.kernel = grid.kernel->name;
        running.blocks = grid.blocks;
        running.threads = grid.threads;
        running.shared = grid.shared;
        code = run_grid(grid);
        known[launch] = running;
        launches.push_back(running);
    } else {
        launches.push_back(found->second);
    }
    return code;
}

bool counts_another_block(uint64_t nth, uint64_t blocks) {
    const bool is_enough = nth >= FEWEST && (nth >= MOST || running.issued > ENOUGH);
    return nth < blocks && !is_enough;
}
// By the golden ratio, whose multiples leave no large gap whatever their number.
uint64_t counted_block(uint64_t nth, uint64_t blocks) {
    if (blocks <= FEWEST) return nth;
    const double at = double(nth + 1) * 0.6180339887498949;
    return uint64_t((at - double(uint64_t(at))) * double(blocks));
}

void report_issue(size_t first, size_t end) {
    FILE *file = path() == NULL || first >= end ? NULL : fopen(path(), "a");
    if (file == NULL) return;
    fputs("measured\n", file);
    for (size_t k = first; k < std::min(end, launches.size()); ++k) print(file, launches[k]);
    fclose(file);
}

}  // namespace ptx
}  // namespace driver_double
