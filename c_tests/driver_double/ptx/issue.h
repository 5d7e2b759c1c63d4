// Counts what a device would issue for a launch, so that a model can say how long it takes: see issue.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace driver_double {

struct Grid;

namespace ptx {

struct Entry;
struct Frame;
struct Instruction;
class Lane;

// Whether launches are counted: DRIVER_DOUBLE_ISSUE names the file that the counts go to.
bool counts_issue();
// Runs a grid and counts it, or only looks its counts up where the same launch was counted before.
int run_counted(const Grid &grid);
// Which block of a grid is the nth that is counted, and whether there is one: some from all over the grid stand for all.
bool counts_another_block(uint64_t nth, uint64_t blocks);
uint64_t counted_block(uint64_t nth, uint64_t blocks);
// Appends what was measured to the file: the counts of these launches, which are numbered in the order of run_counted.
void report_issue(size_t first, size_t end);

// The counts of the running thread, NULL where nothing is counted.
Lane *begin_lane(const Entry &entry);
// An instruction that the thread comes to, before it runs; a predicate may skip it.
void count(Lane &lane, const Frame &frame, const Instruction &instruction, bool skipped);
// Folds the threads of the block that has ended into the counts of the launch.
void end_issue_of_block();

}  // namespace ptx
}  // namespace driver_double
