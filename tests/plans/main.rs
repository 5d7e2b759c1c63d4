//! Whole plans on the CPU core: against sums that the original has left on a GPU, against formulas
//! in binary64, against each other, and at sizes where indices break.

mod answers;
mod convolution;
mod golden;
mod golden_windows;
mod graph;
mod large;
mod limits;
mod moved;
mod recurrent;
mod recurrent_cpu;
mod refusals;
mod unfold;
