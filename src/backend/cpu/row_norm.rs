//! Normalisation of rows, and its gradients: a row is read once from memory, and stays in the
//! first-level cache for its statistics and its results.

mod backward;
mod forward;
mod rows;
