// Complaints, counters and injected faults of the driver double, and what tests call to steer it.
#include "double.h"

#include <unistd.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#define TEST_API extern "C" __attribute__((visibility("default")))

namespace driver_double {
namespace {

// The status with which a process ends that did what it must not do.
enum { COMPLAINED = 97 };

std::recursive_mutex mutex;
unsigned complaints;
bool shut_down;
std::map<std::string, unsigned> counts;

unsigned sample;

struct Fault {
    std::string entry;
    unsigned calls_before;
    int code;
};
std::vector<Fault> faults;

// Runs after the program's own exit handlers.
struct AtExit {
    ~AtExit() {
        if (complaints == 0) return;
        fprintf(stderr, "driver double: %u complaints\n", complaints);
        fflush(NULL);
        _exit(COMPLAINED);
    }
} at_exit;

}  // namespace

void complain(const char *format, ...) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    ++complaints;
    va_list arguments;
    va_start(arguments, format);
    fputs("driver double: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int enter(const char *entry) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    ++counts[entry];
    if (shut_down) return DEINITIALIZED;
    for (size_t i = 0; i < faults.size(); ++i) {
        if (faults[i].entry == entry && faults[i].calls_before-- == 0) {
            const int code = faults[i].code;
            faults.erase(faults.begin() + ssize_t(i));
            return code;
        }
    }
    return SUCCESS;
}

void tally(const std::string &what) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    ++counts[what];
}

unsigned sampled_blocks() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    return sample;
}

}  // namespace driver_double

using namespace driver_double;

// The call number `nth` from now, counted from 0, of `entry` returns `code` and does nothing.
TEST_API void driver_double_fail(const char *entry, unsigned nth, int code) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    faults.push_back({entry, nth, code});
}
// How many injected faults are still to come; they are withdrawn.
TEST_API unsigned driver_double_withdraw_faults() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    const unsigned pending = unsigned(faults.size());
    faults.clear();
    return pending;
}
// How often `entry` was called, or a kernel of that name launched; or, behind the word "measured", ran between two events whose
// distance was asked for.
TEST_API unsigned driver_double_count(const char *entry) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    return counts[entry];
}
// Counts from 0 again.
TEST_API void driver_double_forget_counts() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    counts.clear();
}
// From now on of a grid of more than `3 * blocks` blocks only so many run at its start, in its middle and at its end, for
// what would take too long as a whole; 0: all of them.
TEST_API void driver_double_sample(unsigned blocks) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    sample = blocks;
}
// From now on every entry point returns CUDA_ERROR_DEINITIALIZED, as the driver's do at the end of a process.
TEST_API void driver_double_shut_down() { shut_down = true; }
