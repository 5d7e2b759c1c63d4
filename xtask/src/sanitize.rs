//! `cargo xtask sanitize miri|thread|aarch64`: the checkers that need a nightly toolchain, and
//! another processor, emulated. Part of a release, not of `cargo xtask test`: all compile the crate
//! anew, and run it slowly.

use anyhow::{Result, bail};

use crate::machine::Machine;
use crate::{shell, tools};

/// Names of the parts.
pub const ARGUMENTS: &str = "miri     unit tests of the C boundary's handles and arguments, descriptors, layouts and operations, and the portable
         kernels on small steps, interpreted
thread   the unit tests of handles and of the thread pool under ThreadSanitizer
aarch64  unit tests, layouts, steps and the replay of the recordings on that processor, emulated";

/// The unit tests that Miri interprets: all but what calls the system. Those with long loops make
/// fewer turns.
const MIRI: &[&str] =
    &["capi::", "desc::", "layout::", "ops::", "reserve::", "dtype::rounding", "backend::address"];

/// What Miri leaves out: walks of thousands of elements or axes without a line of unsafe code, and
/// a list that is longer than there is memory, where the interpreter ends and an allocator says no.
const NOT_INTERPRETED: &[&str] = &[
    "no_two_elements_of_a_packed_tensor_share_an_address",
    "clipped_axes_hold_the_same_cells",
    "ranges_are_those_of_walking_over_all_taps",
    "a_list_that_is_too_long_is_an_error",
];

/// Handles are numbers that no memory is behind; the environment is asked for limits.
const FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-permissive-provenance";

/// The unit tests where threads meet.
const THREADS: &[&str] = &["capi::slab", "backend::cpu::threads", "backend::cpu::arena"];

/// A test of small stacks, which the sanitizer makes larger.
const SMALL_STACK: &str = "a_stack_without_room_is_not";

/// The processor that is emulated.
const EMULATED_TARGET: &str = "aarch64-unknown-linux-gnu";

/// The test programs that an emulated processor runs whole, and parts of others.
const EMULATED: &[&str] = &["--lib", "--test=oracle", "--test=graph_objects"];
const EMULATED_PARTS: &[&str] = &[
    "--test=basics",
    "--test=plans",
    "--test=cpu",
    "--test=listed",
    "--",
    "layout::",
    "types::",
    "golden::",
    "contract::bytes",
    "contract::edges",
    "contract::kernels",
    "contract::tiles::",
    "steps::",
];

/// Where the standard library is compiled with the sanitizer, too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [part] if part == "miri" => miri(),
        [part] if part == "thread" => thread(),
        [part] if part == "aarch64" => aarch64(),
        _ => bail!("usage: cargo xtask sanitize miri|thread|aarch64"),
    }
}

/// Cargo of the nightly toolchain; the line that installs it if it is missing.
fn nightly(component: &str) -> Result<std::process::Command> {
    let mut probe = std::process::Command::new("rustup");
    probe.args(["component", "list", "--toolchain", "nightly", "--installed"]);
    let installed = shell::output(&mut probe).unwrap_or_default();
    if !installed.lines().any(|line| line.starts_with(component)) {
        bail!(
            "{component} of a nightly toolchain is missing: rustup toolchain install nightly --component {component}"
        );
    }
    let mut command = std::process::Command::new("cargo");
    command.arg("+nightly").current_dir(shell::root());
    // The parent is cargo of another toolchain, whose settings are not for this one.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    Ok(command)
}

fn miri() -> Result<()> {
    interpret(&["--lib"], |command| {
        command.args(MIRI);
        NOT_INTERPRETED.iter().for_each(|name| _ = command.args(["--skip", name]));
    })?;
    // Listed steps whose operands are small, on every portable kernel that takes them. The
    // interpreter lacks the fence that x86-64 has for streaming stores, and takes programs of other
    // processors as they are. Arenas of threads that end are not given back there.
    interpret(&["--test", "listed", "--target", EMULATED_TARGET], |command| {
        command.arg("every_listed_step").env("MIRIFLAGS", format!("{FLAGS} -Zmiri-ignore-leaks"));
    })
}

/// Interprets tests of the crate: what cargo builds, and which of it.
fn interpret(what: &[&str], filter: impl FnOnce(&mut std::process::Command)) -> Result<()> {
    let mut command = nightly("miri")?;
    command.args(["miri", "test", "--package", "cudnn-shim"]).args(what);
    command.arg("--target-dir").arg(shell::target().join("miri")).arg("--");
    command.env("MIRIFLAGS", FLAGS);
    filter(&mut command);
    shell::run(&mut command)
}

fn thread() -> Result<()> {
    let mut command = nightly("rust-src")?;
    command.args([
        "test",
        "--package",
        "cudnn-shim",
        "--lib",
        "-Zbuild-std",
        "--target",
        TARGET,
        "--target-dir",
    ]);
    command
        .arg(shell::target().join("thread-sanitizer"))
        .arg("--")
        .args(THREADS)
        .args(["--skip", SMALL_STACK]);
    // Tests of missing memory ask for more than it has.
    command
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("TSAN_OPTIONS", "halt_on_error=1:allocator_may_return_null=1");
    shell::run(&mut command)
}

fn aarch64() -> Result<()> {
    let machine = Machine::named("aarch64")?;
    if let Some(line) = machine.lacking() {
        bail!(line);
    }
    if let Some(line) = tools::lacking("Rust for aarch64") {
        bail!("the standard library for aarch64 is missing: {line}");
    }
    for tests in [EMULATED, EMULATED_PARTS] {
        let mut command = shell::cargo();
        command.args(["test", "--package", "cudnn-shim"]).args(tests);
        machine.build_by(&mut command);
        // Tests that start themselves cannot ask cargo for it.
        command.env("CUDNN_SHIM_TEST_RUNNER", machine.emulator().join(" "));
        shell::run(&mut command)?;
    }
    Ok(())
}
