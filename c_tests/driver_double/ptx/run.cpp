// Runs a thread of a decoded kernel, and remembers what was executed.
#include <sys/file.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "issue.h"
#include "programs.h"
#include "ptx.h"

namespace driver_double {
namespace ptx {
namespace {

// What a thread works on. Kernels are left in the middle by a jump, so that files are not given back one by one then.
struct File {
    std::vector<uint64_t> slots, unknown;
    std::vector<unsigned char> locals, locals_unknown;
};
std::deque<File> files;
std::vector<File *> idle;
unsigned launch = ~0u;

File *take() {
    if (launch != launch_number()) {
        launch = launch_number();
        idle.clear();
        for (File &file : files) idle.push_back(&file);
    }
    if (idle.empty()) {
        files.emplace_back();
        return &files.back();
    }
    File *file = idle.back();
    idle.pop_back();
    return file;
}

// %tid, %ntid, %ctaid, %nctaid by x, y and z, then lane and warp.
uint32_t special(uint32_t which) {
    const emu::Running &running = emu::running;
    const uint3 *const triples[] = {&running.thread->index, &running.block_dim, &running.block_index, &running.grid_dim};
    if (which < 12) {
        const uint3 &triple = *triples[which / 3];
        return which % 3 == 0 ? triple.x : which % 3 == 1 ? triple.y : triple.z;
    }
    return which == 12 ? running.thread->lane : running.thread->warp;
}

}  // namespace

void fault(const Frame &frame, const Instruction &i, int code, const char *what) {
    complain("%s: thread %u: %s, in line %u of the PTX, %s", frame.entry->name,
             emu::running.thread->warp * 32 + emu::running.thread->lane, what, i.line, i.form);
    leave_kernel(code);
}

void run_thread(const void *parameter) {
    const Entry *entry = static_cast<const Entry *>(running_kernel());
    const Program &program = *entry->program;
    entry->launched = true;
    File *file = take();
    const size_t constants = program.constants.size();
    if (file->slots.size() < program.slots) {
        file->slots.resize(program.slots);
        file->unknown.resize(program.slots);
    }
    file->locals.resize(program.locals);
    file->locals_unknown.assign(program.locals, 255);
    memcpy(file->slots.data(), program.constants.data(), constants * sizeof(uint64_t));
    memset(file->unknown.data(), 0, constants * sizeof(uint64_t));
    memset(file->unknown.data() + constants, 255, (program.slots - constants) * sizeof(uint64_t));
    for (const auto &[slot, which] : program.specials) file->slots[slot] = special(which);
    Frame frame = {file->slots.data(), file->unknown.data(), NULL, {}, 0, file->locals.data(), file->locals_unknown.data(),
                   static_cast<const unsigned char *>(parameter), entry};
    Lane *const lane = begin_lane(*entry);
    for (const Instruction *i = &program.code[entry->start]; i != NULL; i = frame.next) {
        frame.next = i + 1;
        if (i->guard != ALWAYS) {
            need(frame, *i, i->guard, "the predicate was never computed");
            if (get<bool>(frame, i->guard) == i->skips_if) {
                if (lane != NULL) count(*lane, frame, *i, true);
                i->executed = true;
                continue;
            }
        }
        if (lane != NULL) count(*lane, frame, *i, false);
        i->executed = true;
        i->run(frame, *i);
    }
    idle.push_back(file);
}

namespace {

// A text is decoded once, whatever contexts load it.
std::map<std::string, const Program *> &programs() {
    // Never destroyed, for it is looked at in the last moment.
    static auto *all = new std::map<std::string, const Program *>;
    return *all;
}

// At the end of the process what was executed goes to the end of the file that DRIVER_DOUBLE_COVERAGE names: a line for every kernel
// that was loaded, with a digit for each of its instructions; and one for every form of theirs.
struct Coverage {
    ~Coverage() {
        const char *path = getenv("DRIVER_DOUBLE_COVERAGE");
        FILE *file = path == NULL || programs().empty() ? NULL : fopen(path, "a");
        if (file == NULL) return;
        flock(fileno(file), LOCK_EX);
        std::map<std::string, bool> forms;
        for (const auto &[text, program] : programs()) {
            for (const Entry &entry : program->entries) {
                fprintf(file, "kernel %s %d ", entry.name, int(entry.launched));
                for (uint32_t k = entry.start; k < entry.end; ++k) fputc('0' + program->code[k].executed, file);
                fputc('\n', file);
            }
            for (const Instruction &i : program->code) {
                bool &executed = forms[i.form];
                executed = executed || i.executed;
            }
        }
        for (const auto &[form, executed] : forms) fprintf(file, "form %s %d\n", form.c_str(), int(executed));
        fclose(file);
    }
};

}  // namespace

const Program *program_of(const std::string &text, std::string *wrong) {
    static Coverage at_exit;
    const auto known = programs().find(text);
    if (known != programs().end()) return known->second;
    const Program *program = decode(text, wrong);
    if (program != NULL) programs()[text] = program;
    return program;
}

}  // namespace ptx
}  // namespace driver_double
