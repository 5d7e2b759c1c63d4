// The entry points of libcuda.so.1 for modules, launches, streams and graphs.
#include "driver.h"
#include "machine.h"
#include "ptx/issue.h"
#include "ptx/programs.h"
#include "texts.h"

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

namespace driver_double {
namespace {

struct Module;

struct Function {
    const emu::Kernel *kernel;
    Module *module;
    unsigned max_threads;
    // What every block has to be, zeros if that is left to the caller.
    uint3 threads;
    // Shared memory that the text declares, beside what a launch asks for. Of sources the host's compiler keeps that to itself.
    unsigned shared;
};

struct Module {
    Context *context;
    uint64_t context_id;
    bool loaded;
    std::map<std::string, Function> functions;
};

struct Event {
    Context *context;
    bool happened;
    // Kernels that had run by then.
    size_t kernels;
    std::chrono::steady_clock::time_point time;
};

// A kernel, an event, bytes to set, to write or to copy, or the end of an allocation.
enum class What { KERNEL, EVENT, SET, WRITE, COPY, RELEASE };
struct Work {
    What what;
    Context *context;
    // A context that was reset and taken anew is another one, and does not do what was queued in the one before.
    uint64_t context_id;
    Grid grid;
    Event *event;
    uintptr_t address, from;
    size_t size;
    unsigned char value;
    std::string bytes;
};

Work work_of(What what, Context *context) { return {what, context, context->id, {}, NULL, 0, 0, 0, 0, {}}; }

struct Graph {
    std::vector<Work> works;
};

struct Stream {
    Context *context;
    bool alive;
    // What is being captured, NULL if nothing is; by which thread, and how.
    Graph *capturing;
    unsigned capture_mode;
    const void *capturer;
    bool invalidated;
};

enum CaptureMode { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };

std::deque<Work> queue;
// The names of all kernels that have run, in their order: those between two events are what was measured.
std::vector<const char *> ran;
std::vector<Stream *> captures;
thread_local unsigned capture_mode = GLOBAL;

// Stands for a thread, and never for a second one, unlike what the system calls it.
const void *this_thread() {
    static thread_local const char *mine = new char;
    return mine;
}

// The legacy default stream may be named by 0 and 1, that of the thread by 2.
bool is_default(const Stream *stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

int check_stream(Stream *stream) {
    if (is_default(stream) || (stream->alive && stream->context == current_context())) return SUCCESS;
    complain("a stream is used that %s", stream->alive ? "belongs to another context" : "was destroyed");
    return INVALID_HANDLE;
}

const emu::Kernel *host_build(const std::string &name) {
    const emu::Kernel *kernel = emu::kernels;
    while (kernel != NULL && name != kernel->name) kernel = kernel->next;
    return kernel;
}

// Whether the texts themselves are executed: where there is nothing that the host made of the sources.
bool executes_ptx() { return emu::kernels == NULL; }

// Makes kernels of a text; false, and why, if the double does not take it.
bool decode_ptx(const std::string &text, Module *module, std::string *wrong) {
    const ptx::Program *program = ptx::program_of(text, wrong);
    if (program == NULL) {
        complain("the double's assembler does not take a text: %s", wrong->c_str());
        return false;
    }
    for (const ptx::Entry &entry : program->entries) {
        module->functions[entry.name] = {&entry, module, entry.max_threads, entry.threads, entry.shared_bytes};
    }
    return true;
}

// Reads the entries of a PTX text and finds their host builds; false if the two do not fit.
bool read_ptx(const std::string &text, Module *module) {
    static const std::string mark = ".entry ";
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
        at += mark.size();
        const size_t open = text.find('(', at), close = text.find(')', open), body = text.find('{', close);
        if (body == std::string::npos) return false;
        std::string name = text.substr(at, open - at);
        name.erase(name.find_last_not_of(" \n\t") + 1);
        const emu::Kernel *kernel = host_build(name);
        if (kernel == NULL) {
            complain("the PTX has a kernel %s that the sources do not have", name.c_str());
            return false;
        }
        const std::vector<size_t> sizes = parameter_sizes(text.substr(open, close - open));
        if (sizes.size() != 1 || sizes[0] != kernel->size) {
            complain("the PTX of %s is stale: its parameter has not the %u bytes of the sources'", name.c_str(),
                     kernel->size);
            return false;
        }
        Function function = {kernel, module, emu::MAX_THREADS, {0, 0, 0}, 0};
        const std::string directives = text.substr(close, body - close);
        const size_t limit = directives.find(".maxntid");
        if (limit != std::string::npos) {
            unsigned x = 1, y = 1, z = 1;
            sscanf(directives.c_str() + limit, ".maxntid %u, %u, %u", &x, &y, &z);
            function.max_threads = x * y * z;
        }
        module->functions[name] = function;
        at = body;
    }
    return true;
}

// Whether who launches waits for the end, as a real driver lets him with the same variable.
bool is_blocking() {
    static const char *const answer = getenv("CUDA_LAUNCH_BLOCKING");
    return answer != NULL && strcmp(answer, "1") == 0;
}

// Queues work on a stream, or puts it into the graph that the stream captures.
int enqueue(Stream *stream, const Work &work) {
    if (is_default(stream)) {
        if (!captures.empty()) {
            for (Stream *capture : captures) capture->invalidated = true;
            return CAPTURE_IMPLICIT;
        }
    } else if (stream->capturing != NULL) {
        if (stream->invalidated) return CAPTURE_INVALIDATED;
        stream->capturing->works.push_back(work);
        return SUCCESS;
    }
    queue.push_back(work);
    return is_blocking() ? settle() : SUCCESS;
}

int check_grid(const Function *function, uint3 blocks, uint3 threads, unsigned shared) {
    const uint64_t all = uint64_t(threads.x) * threads.y * threads.z;
    const bool good = blocks.x >= 1 && blocks.y >= 1 && blocks.z >= 1 && blocks.x <= 2147483647u && blocks.y <= 65535 &&
                      blocks.z <= 65535 && all >= 1 && threads.x <= 1024 && threads.y <= 1024 && threads.z <= 64 &&
                      all <= function->max_threads && shared <= MAX_DYNAMIC_SHARED &&
                      function->shared + shared <= MAX_DYNAMIC_SHARED;
    const uint3 fixed = function->threads;
    const bool fits = fixed.x == 0 || (threads.x == fixed.x && threads.y == fixed.y && threads.z == fixed.z);
    if (good && fits) return SUCCESS;
    complain("%s: a grid of %u x %u x %u blocks of %u x %u x %u threads with %u bytes of shared memory",
             function->kernel->name, blocks.x, blocks.y, blocks.z, threads.x, threads.y, threads.z, shared);
    return INVALID_VALUE;
}

}  // namespace

void forget(const Context *context) {
    const auto is_its = [&](const Work &work) { return work.context == context; };
    queue.erase(std::remove_if(queue.begin(), queue.end(), is_its), queue.end());
}

int release_on(void *stream, uintptr_t address) {
    Work work = work_of(What::RELEASE, current_context());
    work.address = address;
    return enqueue(static_cast<Stream *>(stream), work);
}

int settle() {
    Context *context = current_context();
    while (!queue.empty()) {
        const Work work = queue.front();
        queue.pop_front();
        if (!work.context->alive || work.context->id != work.context_id || work.context->error != SUCCESS) continue;
        switch (work.what) {
        case What::EVENT:
            work.event->happened = true;
            work.event->kernels = ran.size();
            work.event->time = std::chrono::steady_clock::now();
            break;
        case What::KERNEL:
            ran.push_back(work.grid.kernel->name);
            work.context->error = ptx::counts_issue() ? ptx::run_counted(work.grid) : run_grid(work.grid);
            break;
        case What::RELEASE: release(work.address); break;
        case What::SET:
        case What::WRITE:
        case What::COPY:
            open_memory();
            if (work.what == What::WRITE) {
                memcpy(reinterpret_cast<void *>(work.address), work.bytes.data(), work.size);
            } else if (work.what == What::SET) {
                memset(reinterpret_cast<void *>(work.address), work.value, work.size);
            } else {
                memmove(reinterpret_cast<void *>(work.address), reinterpret_cast<void *>(work.from), work.size);
            }
            close_memory();
            break;
        }
    }
    return context == NULL ? SUCCESS : context->error;
}

// By the documentation of cuThreadExchangeStreamCaptureMode: a thread in the global mode is held up by its own captures and
// by the global ones of all threads, one in the mode of its own by its own; relaxed captures and relaxed threads are free.
int not_while_capturing(const char *entry) {
    Stream *forbids = NULL;
    for (Stream *stream : captures) {
        const bool own = stream->capturer == this_thread();
        const bool hold = own ? stream->capture_mode != RELAXED : stream->capture_mode == GLOBAL;
        if (capture_mode != RELAXED && hold && (own || capture_mode == GLOBAL)) forbids = stream;
    }
    if (forbids == NULL) return SUCCESS;
    complain("%s is forbidden while a stream is captured", entry);
    forbids->invalidated = true;
    return CAPTURE_UNSUPPORTED;
}

}  // namespace driver_double

using namespace driver_double;

// Modules -------------------------------------------------------------------------------------------------------------

ENTRY(cuModuleLoadDataEx, Module **module, const char *image, unsigned count, const unsigned *options, void **values) {
    // The assembler takes its time, and other threads go on meanwhile.
    slow_down("DRIVER_DOUBLE_SLOW_LOAD", "loading");
    START(cuModuleLoadDataEx);
    NEED(need_context());
    NEED(not_while_capturing("cuModuleLoadDataEx"));
    char *log = NULL;
    size_t size = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == 5) log = static_cast<char *>(values[i]);
        if (options[i] == 6) size = reinterpret_cast<uintptr_t>(values[i]);
    }
    std::string text;
    if (is_machine_code(image)) {
        NEED(text_of_machine_code(image, capability(), &text));
    } else {
        text = image;
    }
    Module *loaded = new Module{current_context(), current_context()->id, true, {}};
    const size_t target = text.find("\n.target sm_");
    const bool is_ptx = text.find(".version") != std::string::npos && target != std::string::npos;
    const bool is_later = is_ptx && atoi(text.c_str() + target + 12) > capability();
    // Decoding a text finds unknown functions as well.
    const std::string unknown = is_ptx && !executes_ptx() ? unknown_function(text) : "";
    if (!unknown.empty()) {
        if (log != NULL) snprintf(log, size, "%s is called, and not there", unknown.c_str());
        delete loaded;
        return INVALID_PTX;
    }
    std::string wrong = is_later ? "this text is for later devices" : "the double's assembler does not take this text";
    if (is_ptx && !is_later && (executes_ptx() ? decode_ptx(text, loaded, &wrong) : read_ptx(text, loaded))) {
        *module = loaded;
        return SUCCESS;
    }
    if (log != NULL) snprintf(log, size, "%s", wrong.c_str());
    delete loaded;
    return is_ptx ? INVALID_PTX : INVALID_IMAGE;
}
ENTRY(cuModuleUnload, Module *module) {
    START(cuModuleUnload);
    NEED(need_context());
    module->loaded = false;
    return SUCCESS;
}
ENTRY(cuModuleGetFunction, Function **function, Module *module, const char *name) {
    START(cuModuleGetFunction);
    NEED(need_context());
    NEED(not_while_capturing("cuModuleGetFunction"));
    if (!module->loaded || module->context_id != current_context()->id) {
        complain("a module is used that does not belong to the current context any more");
        return INVALID_HANDLE;
    }
    const auto found = module->functions.find(name);
    if (found == module->functions.end()) return NOT_FOUND;
    *function = &found->second;
    return SUCCESS;
}
ENTRY(cuLaunchKernel, const Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
      unsigned bz, unsigned shared, Stream *stream, void **parameters, void **extra) {
    START(cuLaunchKernel);
    NEED(need_context());
    Context *context = current_context();
    // Counts under the kernel's name, too.
    NEED(enter(function->kernel->name));
    if (function->module->context_id != context->id) {
        complain("%s is launched in a context it was not loaded into", function->kernel->name);
        return INVALID_HANDLE;
    }
    NEED(check_stream(stream));
    if (extra != NULL || parameters == NULL) return INVALID_VALUE;
    const uint3 blocks = {gx, gy, gz}, threads = {bx, by, bz};
    NEED(check_grid(function, blocks, threads, shared));
    const std::string parameter(static_cast<const char *>(parameters[0]), function->kernel->size);
    Work work = work_of(What::KERNEL, context);
    work.grid = {function->kernel, blocks, threads, shared, parameter, context->device};
    return enqueue(stream, work);
}

// Streams and graphs --------------------------------------------------------------------------------------------------

ENTRY(cuStreamCreate, Stream **stream, unsigned) {
    START(cuStreamCreate);
    not_inside_a_call("cuStreamCreate");
    NEED(need_context());
    *stream = new Stream{current_context(), true, NULL, GLOBAL, NULL, false};
    return SUCCESS;
}
// The object stays, so that a later use can be told.
ENTRY(cuStreamDestroy_v2, Stream *stream) {
    START(cuStreamDestroy_v2);
    NEED(check_stream(stream));
    stream->alive = false;
    return SUCCESS;
}
ENTRY(cuStreamGetCtx, Stream *stream, Context **context) {
    START(cuStreamGetCtx);
    NEED(need_initialised());
    if (!is_default(stream) && !stream->alive) {
        complain("the context of a stream is asked for that was destroyed");
        return INVALID_HANDLE;
    }
    *context = is_default(stream) ? current_context() : stream->context;
    return SUCCESS;
}
ENTRY(cuStreamSynchronize, Stream *stream) {
    START(cuStreamSynchronize);
    not_inside_a_call("cuStreamSynchronize");
    NEED(need_context());
    NEED(check_stream(stream));
    NEED(not_while_capturing("cuStreamSynchronize"));
    return settle();
}
ENTRY(cuThreadExchangeStreamCaptureMode, unsigned *mode) {
    START(cuThreadExchangeStreamCaptureMode);
    NEED(need_initialised());
    if (*mode > RELAXED) return INVALID_VALUE;
    std::swap(*mode, capture_mode);
    return SUCCESS;
}
ENTRY(cuStreamBeginCapture_v2, Stream *stream, unsigned mode) {
    START(cuStreamBeginCapture_v2);
    NEED(need_context());
    NEED(check_stream(stream));
    if (is_default(stream)) return CAPTURE_IMPLICIT;
    stream->capturing = new Graph();
    stream->capture_mode = mode;
    stream->capturer = this_thread();
    stream->invalidated = false;
    captures.push_back(stream);
    return SUCCESS;
}
ENTRY(cuStreamEndCapture, Stream *stream, Graph **graph) {
    START(cuStreamEndCapture);
    NEED(need_context());
    NEED(check_stream(stream));
    *graph = stream->invalidated ? NULL : stream->capturing;
    stream->capturing = NULL;
    for (size_t i = captures.size(); i-- > 0;) {
        if (captures[i] == stream) captures.erase(captures.begin() + ssize_t(i));
    }
    return stream->invalidated ? CAPTURE_INVALIDATED : SUCCESS;
}
// A graph is ready to run as it is.
ENTRY(cuGraphInstantiateWithFlags, Graph **instance, Graph *graph, uint64_t) {
    START(cuGraphInstantiateWithFlags);
    NEED(need_context());
    *instance = new Graph(*graph);
    return SUCCESS;
}
ENTRY(cuGraphLaunch, Graph *instance, Stream *stream) {
    START(cuGraphLaunch);
    NEED(need_context());
    NEED(check_stream(stream));
    queue.insert(queue.end(), instance->works.begin(), instance->works.end());
    return SUCCESS;
}

// Events ---------------------------------------------------------------------------------------------------------------

ENTRY(cuEventCreate, Event **event, unsigned) {
    START(cuEventCreate);
    NEED(need_context());
    NEED(not_while_capturing("cuEventCreate"));
    *event = new Event{current_context(), false, 0, {}};
    ++measuring;
    return SUCCESS;
}
ENTRY(cuEventDestroy_v2, Event *event) {
    START(cuEventDestroy_v2);
    --measuring;
    delete event;
    return SUCCESS;
}
ENTRY(cuEventRecord, Event *event, Stream *stream) {
    START(cuEventRecord);
    NEED(need_context());
    NEED(check_stream(stream));
    event->happened = false;
    Work work = work_of(What::EVENT, current_context());
    work.event = event;
    return enqueue(stream, work);
}
ENTRY(cuEventSynchronize, Event *event) {
    START(cuEventSynchronize);
    NEED(need_context());
    NEED(settle());
    return event->happened ? SUCCESS : INVALID_HANDLE;
}
ENTRY(cuEventElapsedTime, float *milliseconds, Event *from, Event *to) {
    START(cuEventElapsedTime);
    if (!from->happened || !to->happened) return INVALID_HANDLE;
    for (size_t i = from->kernels; i < to->kernels; ++i) tally(std::string("measured ") + ran[i]);
    ptx::report_issue(from->kernels, to->kernels);
    *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return SUCCESS;
}
ENTRY(cuMemsetD8Async, uintptr_t address, unsigned char value, size_t size, Stream *stream) {
    START(cuMemsetD8Async);
    NEED(need_context());
    NEED(check_stream(stream));
    if (!reaches(address, size, current_context()->device)) return INVALID_VALUE;
    Work work = work_of(What::SET, current_context());
    work.address = address;
    work.size = size;
    work.value = value;
    return enqueue(stream, work);
}
ENTRY(cuMemcpyDtoDAsync_v2, uintptr_t dst, uintptr_t src, size_t size, Stream *stream) {
    START(cuMemcpyDtoDAsync_v2);
    NEED(need_context());
    NEED(check_stream(stream));
    const int device = current_context()->device;
    if (!reaches(dst, size, device) || !reaches(src, size, device)) return INVALID_VALUE;
    Work work = work_of(What::COPY, current_context());
    work.address = dst;
    work.from = src;
    work.size = size;
    return enqueue(stream, work);
}
// From memory that the driver does not know it reads at once.
ENTRY(cuMemcpyHtoDAsync_v2, uintptr_t dst, const void *src, size_t size, Stream *stream) {
    START(cuMemcpyHtoDAsync_v2);
    NEED(need_context());
    NEED(check_stream(stream));
    if (!reaches(dst, size, current_context()->device)) return INVALID_VALUE;
    Work work = work_of(What::WRITE, current_context());
    work.address = dst;
    work.size = size;
    work.bytes.assign(static_cast<const char *>(src), size);
    return enqueue(stream, work);
}
ENTRY(cuMemcpyDtoHAsync_v2, void *dst, uintptr_t src, size_t size, Stream *stream) {
    START(cuMemcpyDtoHAsync_v2);
    NEED(need_context());
    NEED(check_stream(stream));
    if (!reaches(src, size, current_context()->device)) return INVALID_VALUE;
    Work work = work_of(What::COPY, current_context());
    work.address = reinterpret_cast<uintptr_t>(dst);
    work.from = src;
    work.size = size;
    return enqueue(stream, work);
}

// What earlier work left behind: from now on the current context returns `code`.
extern "C" __attribute__((visibility("default"))) void driver_double_poison(int code) {
    if (current_context() != NULL) current_context()->error = code;
}
