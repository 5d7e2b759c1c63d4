//! The CUDA core without a GPU: which core a process gets, and everything the core does, on a
//! driver double.

#[path = "../common/mod.rs"]
mod common;

mod api;
mod arithmetic;
mod arranged;
mod attend;
mod attention;
mod batches;
mod causal;
mod child;
mod complaints;
mod composed;
mod contexts;
mod contract;
mod copies;
mod cores;
mod ctc;
mod double;
mod faults;
mod filter_gradients;
mod fragments;
mod graphs;
mod kinds;
mod kit;
mod large;
mod large_layers;
mod large_sums;
mod launch;
mod layers;
mod listed;
mod machine;
mod matrices;
mod memory;
mod multistage;
mod narrow;
mod normal;
mod one_buffer;
mod programs;
mod ptx;
mod ptx_coverage;
mod ragged;
mod row_norm;
mod sample;
mod search;
mod specialised;
mod split;
mod streams;
mod strict;
mod tensors;
mod timed;
mod traffic;
mod trial;
mod verdict;
mod windows;

// The C functions in `api` come from here.
use cudnn as _;
