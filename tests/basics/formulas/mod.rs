//! The formulas that the reference loops share with the kernels, against a witness that shares
//! nothing with either: every function of the table, every reduction and every function of rows,
//! written anew from its meaning in plain arithmetic, over a grid of NaNs, infinities, zeros of
//! both signs, denormals and extremes. What rounds once for each operation has the witness's bits;
//! elementary functions are within a bound of another library's in binary64; and gradients are the
//! slopes of what they are the gradients of.

mod functions;
mod plain;
mod reductions;
mod rows;
