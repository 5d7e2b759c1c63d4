// Complaints, counters and injected faults of the driver double, and what tests call to steer it.
#include "double.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unistd.h>

#define TEST_API extern "C" __attribute__((visibility("default")))

namespace driver_double {
namespace {

// The status with which a process ends that did what it must not do.
enum { COMPLAINED = 97 };

std::recursive_mutex mutex;
unsigned complaints;
bool shut_down;
std::map<std::string, unsigned> counts;

struct Fault {
    std::string entry;
    unsigned calls_before;
    int code;
    bool pending;
} fault;

// Runs after the program's own exit handlers.
struct AtExit {
    ~AtExit() {
        if (complaints == 0) return;
        fprintf(stderr, "driver double: %u complaints\n", complaints);
        fflush(NULL);
        _exit(COMPLAINED);
    }
} at_exit;

} // namespace

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
    if (fault.pending && fault.entry == entry && fault.calls_before-- == 0) {
        fault.pending = false;
        return fault.code;
    }
    return SUCCESS;
}

} // namespace driver_double

using namespace driver_double;

// The call number `nth` from now, counted from 0, of `entry` returns `code` and does nothing.
TEST_API void driver_double_fail(const char *entry, unsigned nth, int code) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    fault = {entry, nth, code, true};
}
// Whether the injected fault is still to come; it is withdrawn.
TEST_API int driver_double_withdraw_fault() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    const bool pending = fault.pending;
    fault.pending = false;
    return pending;
}
// How often `entry` was called.
TEST_API unsigned driver_double_count(const char *entry) {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    return counts[entry];
}
// From now on every entry point returns CUDA_ERROR_DEINITIALIZED, as the driver's do at the end of a process.
TEST_API void driver_double_shut_down() { shut_down = true; }
// How many complaints there are; they are forgiven.
TEST_API unsigned driver_double_forgive() {
    std::lock_guard<std::recursive_mutex> guard(mutex);
    const unsigned count = complaints;
    complaints = 0;
    return count;
}
