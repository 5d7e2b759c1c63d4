//! The library as users get it: headers, symbols, installed trees, the dynamic linker, and programs
//! that are compiled and linked against it.

#[path = "../common/mod.rs"]
mod common;

mod build;
mod digits;
mod exports;
mod header;
mod install;
mod installed;
mod interface;
mod loader;
mod networks;
mod table;
