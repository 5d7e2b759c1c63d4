//! The CUDA core without a GPU: which core a process gets, and everything the core does, on a driver double.

#[path = "../common/mod.rs"]
mod common;

mod api;
mod arithmetic;
mod batches;
mod causal;
#[path = "../common/causal.rs"]
mod causal_problems;
mod child;
mod complaints;
mod composed;
mod contexts;
mod contract;
#[path = "../contract/convolution.rs"]
mod convolution;
mod copies;
mod cores;
mod ctc;
mod double;
mod faults;
mod fragments;
#[path = "../common/graphs.rs"]
mod graph_problems;
mod graphs;
mod kinds;
mod kit;
mod large;
mod large_layers;
mod large_sums;
mod launch;
mod layers;
mod listed;
mod memory;
mod narrow;
mod normal;
#[path = "../common/operations/mod.rs"]
mod operations;
#[path = "../windows/problems.rs"]
mod problems;
#[path = "../../benches/problems/mod.rs"]
mod problems_listed;
mod programs;
mod ptx;
mod ptx_coverage;
mod ragged;
#[path = "../common/ragged.rs"]
mod ragged_problems;
#[path = "../common/random.rs"]
mod random;
#[path = "../common/run_step.rs"]
mod run_step;
mod sample;
mod search;
#[path = "../../benches/steps/mod.rs"]
mod steps;
mod streams;
mod strict;
#[path = "../contract/tensor.rs"]
mod tensor;
mod tensors;
mod timed;
mod traffic;
mod trial;
mod verdict;
#[path = "../common/wide_layers.rs"]
mod wide_layers;
mod windows;

// The C functions in `api` come from here.
use cudnn as _;
