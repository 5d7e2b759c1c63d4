// What the two halves of the driver's entry points share.
#pragma once

#include <mutex>

#include "double.h"

namespace driver_double {

struct Context {
    int device;
    uint64_t id;
    bool alive;
    // A primary context that its last holder gave back.
    bool given_back;
    // What a kernel did stays: every later call returns it.
    int error;
};

extern std::recursive_mutex driver_mutex;
// Contexts that this thread has pushed and not popped: the library is inside a call.
extern thread_local unsigned pushed;
// Events of this thread that live: the library measures, for which it allocates and waits.
extern thread_local int measuring;

Context *current_context();
// Of every device: 75 for 7.5.
int capability();
int need_initialised();
int need_context();
// Sleeps for as many milliseconds as a variable says.
void slow_down(const char *variable, const char *what);
// Complains if the library is inside a call.
void not_inside_a_call(const char *entry);
// Complains, and ends the capture, if a capture of this or another thread forbids `entry` in the mode of this thread.
int not_while_capturing(const char *entry);
// Whether this process was forked off one that had started the driver: nothing works there.
bool forked();
// Runs everything that is queued; what goes wrong stays in its context.
int settle();
// Queues the end of an allocation.
int release_on(void *stream, uintptr_t address);
// Drops the work that is queued for a context, whose device is reset.
void forget(const Context *context);

}  // namespace driver_double

#define ENTRY(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
// One call at a time, and an injected fault in its place.
#define START(name)                                                                 \
    if (driver_double::forked()) return driver_double::NOT_INITIALIZED;             \
    const std::lock_guard<std::recursive_mutex> guard(driver_double::driver_mutex); \
    if (const int code = driver_double::enter(#name)) return code
#define NEED(condition) \
    if (const int code = (condition)) return code
