//! Maintainers' tasks: `cargo xtask <task>`.

fn main() {}
