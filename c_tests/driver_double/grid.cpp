// Runs a grid on the calling thread: every CUDA thread is a fiber, so that barriers and shuffles can wait.
//
// A fiber that comes to its kernel's end takes the next CUDA thread of the block: a kernel without barriers needs one
// fiber for a whole block.
#include "double.h"
#include "ptx/issue.h"

#include <sys/mman.h>
#include <cstdlib>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emu {
Running running;
const Kernel *kernels;
}  // namespace emu

namespace driver_double {

char dynamic_shared[MAX_DYNAMIC_SHARED] __attribute__((aligned(16)));
Asked asked;

namespace {

struct Fiber {
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    emu::Thread *thread;
};

#if defined(__x86_64__)
// Saves what the System V interface lets a callee keep, and goes on where `to` stopped.
extern "C" void driver_double_switch(void **from, void *to);
asm(R"(
.text
.type driver_double_switch,@function
driver_double_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size driver_double_switch,.-driver_double_switch
)");
#endif

// Lanes that wait for the others of their mask.
struct Meeting {
    unsigned mask;
    unsigned arrived;
    emu::Together what;
    std::vector<Fiber *> waiting;
};

struct Warp {
    unsigned alive;  // lanes that have not come to the end
    uint64_t slots[2][32];
    std::vector<Meeting> meetings;
};

struct Barrier {
    std::vector<Fiber *> waiting;
    const char *file;
    int line;
};

unsigned count, started, finished;
unsigned launches;
uint64_t block_at;
bool backwards;
int outcome;
Warp warps[emu::MAX_THREADS / 32];
Barrier barrier;
int votes, voted;
bool parity[emu::MAX_THREADS];

Fiber fibers[emu::MAX_THREADS];
unsigned fibers_used;
std::vector<Fiber *> ready, idle;
Fiber root, *current = &root;

void run_threads();

unsigned number(const emu::Thread *thread) { return unsigned(thread - emu::running.threads); }

void go(Fiber *to) {
    Fiber *from = current;
    if (from == to) return;
    current = to;
    emu::running.thread = to->thread;
#if defined(__x86_64__)
    driver_double_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
}

void fiber_main() {
    run_threads();
    abort();  // root never comes back to a fiber without threads
}

Fiber *new_fiber() {
    if (!idle.empty()) {
        Fiber *fiber = idle.back();
        idle.pop_back();
        return fiber;
    }
    Fiber *fiber = &fibers[fibers_used];
    char *stack = reinterpret_cast<char *>(asked.stacks) + STACK * fibers_used++;
#if defined(__x86_64__)
    // Six registers and the address to return to. That lies on a multiple of 16, for a function expects its stack
    // eight bytes above one, where the call has put the caller's address.
    void **top = reinterpret_cast<void **>(stack + STACK - 16);
    *top = reinterpret_cast<void *>(fiber_main);
    for (int i = 0; i < 6; ++i) *--top = NULL;
    fiber->stack_pointer = top;
#else
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = stack;
    fiber->context.uc_stack.ss_size = STACK;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
#endif
    return fiber;
}

// Who runs next: somebody who waited, a thread that has not begun, or the caller of the grid.
Fiber *next_fiber() {
    if (!ready.empty()) {
        Fiber *fiber = ready.back();
        ready.pop_back();
        return fiber;
    }
    return started < count ? new_fiber() : &root;
}

void wait_in(std::vector<Fiber *> &queue) {
    current->thread = emu::running.thread;
    queue.push_back(current);
    go(next_fiber());
}

void release(std::vector<Fiber *> &queue) {
    if (backwards) {
        ready.insert(ready.end(), queue.begin(), queue.end());
    } else {
        ready.insert(ready.end(), queue.rbegin(), queue.rend());
    }
    queue.clear();
}

const char *name_of(emu::Together what) {
    switch (what) {
    case emu::Together::BARRIER: return "a barrier of their warp";
    case emu::Together::SHUFFLE: return "a shuffle";
    case emu::Together::BALLOT: return "a ballot";
    case emu::Together::MATRIX: return "a product of fragments";
    case emu::Together::LOAD: return "a load of matrices";
    }
    return "?";
}

void finish(emu::Thread *thread) {
    end_of_thread(thread);
    ++finished;
    if (!barrier.waiting.empty()) {
        complain("%s: thread %u ends while others wait at the barrier of line %d",
                 running_kernel()->name, number(thread), barrier.line);
        leave_kernel(LAUNCH_FAILED);
    }
    Warp &warp = warps[thread->warp];
    warp.alive &= ~(1u << thread->lane);
    for (const Meeting &meeting : warp.meetings) {
        if ((meeting.mask >> thread->lane & 1) == 0) continue;
        complain("%s: thread %u ends while others of its warp wait for it at %s",
                 running_kernel()->name, number(thread), name_of(meeting.what));
        leave_kernel(LAUNCH_FAILED);
    }
}

void run_threads() {
    for (;;) {
        while (started < count) {
            const unsigned i = backwards ? count - 1 - started : started;
            ++started;
            emu::Thread *thread = &emu::running.threads[i];
            current->thread = emu::running.thread = thread;
            asked.grid->kernel->call(asked.grid->parameter.data());
            finish(thread);
        }
        idle.push_back(current);
        go(next_fiber());
    }
}

void run_block() {
    forget_accesses();
    forget_copies();
    started = finished = 0;
    votes = 0;
    barrier.waiting.clear();
    asked.block_barriers = 0;
    ready.clear();
    for (unsigned w = 0; w * 32 < count; ++w) {
        const unsigned lanes = count - w * 32;
        warps[w].alive = lanes >= 32 ? ~0u : (1u << lanes) - 1;
        asked.warp_barriers[w] = 0;
        warps[w].meetings.clear();
    }
    while (finished < count && outcome == SUCCESS) {
        Fiber *fiber = next_fiber();
        if (fiber == &root) {
            complain("%s: threads wait for each other", running_kernel()->name);
            outcome = LAUNCH_FAILED;
        } else {
            go(fiber);
        }
    }
    end_traffic_of_block();
    ptx::end_issue_of_block();
}

}  // namespace

void leave_kernel(int code) {
    outcome = code;
    go(&root);
    abort();  // the fibers of a grid that was left are never resumed
}

bool exchange_row(const emu::Thread *thread) {
    const bool row = parity[number(thread)];
    parity[number(thread)] = !row;
    return row;
}
int running_device() { return asked.grid->device; }
unsigned launch_number() { return launches; }
uint64_t block_number() { return block_at; }

int run_grid(const Grid &what) {
    if (asked.stacks == 0) {
        void *map = mmap(NULL, STACK * emu::MAX_THREADS, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) return OUT_OF_MEMORY;
        asked.stacks = reinterpret_cast<uintptr_t>(map);
        const char *order = getenv("DRIVER_DOUBLE_ORDER");
        backwards = order != NULL && strcmp(order, "reverse") == 0;
    }
    const uint3 b = what.threads, g = what.blocks;
    asked.grid = &what;
    outcome = SUCCESS;
    count = b.x * b.y * b.z;
    fibers_used = 0;
    idle.clear();
    emu::running.block_dim = b;
    emu::running.grid_dim = g;
    emu::running.dynamic_shared = dynamic_shared;
    for (unsigned i = 0; i < count; ++i) {
        emu::running.threads[i] = {{i % b.x, i / b.x % b.y, i / b.x / b.y}, i % 32, i / 32};
        parity[i] = false;
    }
    const uint64_t blocks = uint64_t(g.x) * g.y * g.z, sample = sampled_blocks();
    const bool all = sample == 0 || blocks <= 3 * sample;
    open_memory();
    launches = (launches + 1) % 4094;
    if (launches == 0) forget_cells();
    const auto sampled = [&](uint64_t i) {
        return all || i < sample ? i : i < 2 * sample ? blocks / 2 + i - sample : blocks - 3 * sample + i;
    };
    const bool counted = ptx::counts_issue();
    const auto goes_on = [&](uint64_t i) {
        return counted ? ptx::counts_another_block(i, blocks) : i < (all ? blocks : 3 * sample);
    };
    for (uint64_t i = 0; goes_on(i) && outcome == SUCCESS; ++i) {
        const uint64_t at = counted ? ptx::counted_block(i, blocks) : sampled(i);
        const uint64_t block = block_at = backwards ? blocks - 1 - at : at;
        emu::running.block_index = {unsigned(block % g.x), unsigned(block / g.x % g.y), unsigned(block / g.x / g.y)};
        run_block();
    }
    close_memory();
    current = &root;
    asked.grid = NULL;
    return outcome;
}

}  // namespace driver_double

using namespace driver_double;

void emu::sync_block(const char *file, int line) {
    if (barrier.waiting.empty()) {
        barrier.file = file;
        barrier.line = line;
    }
    if (barrier.line != line || strcmp(barrier.file, file) != 0) {
        complain("%s: thread %u is at the barrier of line %d while others wait at that of line %d",
                 running_kernel()->name, number(running.thread), line, barrier.line);
        leave_kernel(LAUNCH_FAILED);
    }
    if (finished > 0) {
        complain("%s: thread %u waits at the barrier of line %d, but others have ended", running_kernel()->name,
                 number(running.thread), line);
        leave_kernel(LAUNCH_FAILED);
    }
    if (barrier.waiting.size() + 1 < count) return wait_in(barrier.waiting);
    voted = votes;
    votes = 0;
    ++asked.block_barriers;
    for (unsigned w = 0; w * 32 < count; ++w) ++asked.warp_barriers[w];
    release(barrier.waiting);
}

int emu::count_block(const char *file, int line, bool predicate) {
    votes += predicate;
    sync_block(file, line);
    const int result = voted;
    // Nobody may vote again before all have read.
    sync_block(file, line);
    return result;
}

void emu::sync_warp(unsigned mask, Together what) {
    const Thread *me = running.thread;
    Warp &warp = warps[me->warp];
    const auto wrong = [&](const char *how) {
        complain("%s: thread %u comes to %s with the mask %#x, %s",
                 running_kernel()->name, number(me), name_of(what), mask, how);
        leave_kernel(LAUNCH_FAILED);
    };
    if ((mask >> me->lane & 1) == 0) wrong("which lacks its own lane");
    if ((mask & ~warp.alive) != 0) wrong("which names lanes that have ended, or never were");
    Meeting *mine = NULL;
    for (Meeting &meeting : warp.meetings) {
        if ((meeting.mask & mask) == 0) continue;
        if (meeting.mask != mask) wrong("and others wait there with another mask");
        if (meeting.what != what) wrong("and others of that mask do something else");
        mine = &meeting;
    }
    if (mine == NULL) {
        warp.meetings.push_back({mask, 0, what, {}});
        mine = &warp.meetings.back();
    }
    mine->arrived |= 1u << me->lane;
    if (mine->arrived != mask) {
        return wait_in(mine->waiting);
    }
    if (what == Together::BARRIER) ++asked.warp_barriers[me->warp];
    release(mine->waiting);
    warp.meetings.erase(warp.meetings.begin() + (mine - warp.meetings.data()));
}

uint64_t emu::shuffle(unsigned mask, uint64_t value, unsigned source) {
    const Thread *me = running.thread;
    uint64_t *slots = warps[me->warp].slots[exchange_row(me)];
    slots[me->lane] = value;
    sync_warp(mask, Together::SHUFFLE);
    if ((mask >> (source & 31) & 1) == 0) {
        complain("%s: thread %u shuffles with the mask %#x and wants the value of lane %u",
                 running_kernel()->name, number(me), mask, source & 31);
        leave_kernel(LAUNCH_FAILED);
    }
    return slots[source & 31];
}

unsigned emu::ballot(unsigned mask, bool predicate) {
    unsigned result = 0;
    const Thread *me = running.thread;
    uint64_t *slots = warps[me->warp].slots[exchange_row(me)];
    slots[me->lane] = predicate;
    sync_warp(mask, Together::BALLOT);
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (mask >> lane & 1) result |= unsigned(slots[lane] & 1) << lane;
    }
    return result;
}
