// Copies from global to shared memory that go on by themselves, as cp.async has them: what they bring is there when the
// thread has waited for their group, and other threads see it behind a barrier. Until then shared memory holds no number
// that any type has.
#include "double.h"

#include <vector>

namespace driver_double {
namespace {

struct Copy {
    void *shared;
    const void *global;
    bool is_there;
    unsigned bytes;
};

// What one thread has begun: closed groups, oldest first, and the copies of the open one.
struct Copies {
    std::vector<std::vector<Copy>> groups;
    std::vector<Copy> open;
};
Copies copies[emu::MAX_THREADS];
bool any;

Copies &mine(const emu::Thread *thread) { return copies[thread->warp * 32 + thread->lane]; }

}  // namespace

void forget_copies() {
    if (!any) return;
    any = false;
    for (Copies &of_thread : copies) {
        of_thread.groups.clear();
        of_thread.open.clear();
    }
}

void end_of_thread(const emu::Thread *thread) {
    if (!any) return;
    const Copies &left = mine(thread);
    bool waited = left.open.empty();
    for (const std::vector<Copy> &group : left.groups) waited = waited && group.empty();
    if (waited) return;
    complain("%s: thread %u ends with copies to shared memory that it has not waited for", running_kernel()->name,
             thread->warp * 32 + thread->lane);
    leave_kernel(LAUNCH_FAILED);
}

}  // namespace driver_double

using namespace driver_double;

void emu::copy_async(void *shared, const void *global, bool is_there, unsigned bytes) {
    any = true;
    if (is_there) touch(const_cast<void *>(global), bytes, false);
    touch(shared, bytes, true);
    memset(shared, 0xFF, bytes);
    for (unsigned k = 0; k < bytes; ++k) forget_known(static_cast<char *>(shared) + k);
    mine(running.thread).open.push_back({shared, global, is_there, bytes});
}

void emu::commit_copies() {
    Copies &of_thread = mine(running.thread);
    of_thread.groups.emplace_back();
    of_thread.groups.back().swap(of_thread.open);
}

void emu::wait_for_copies(unsigned pending) {
    Copies &of_thread = mine(running.thread);
    while (of_thread.groups.size() > pending) {
        for (const Copy &copy : of_thread.groups.front()) {
            touch(copy.shared, copy.bytes, true);
            if (copy.is_there) {
                memcpy(copy.shared, copy.global, copy.bytes);
            } else {
                memset(copy.shared, 0, copy.bytes);
            }
        }
        of_thread.groups.erase(of_thread.groups.begin());
    }
}
