//! `cargo xtask fuzz`: random problems and calls, as many as there is time for.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::test::numpy;
use crate::{dist, shell};

/// How long it goes on if nobody says.
const SECONDS: u64 = 60;

/// Takes the seconds it may go on, or a line that a run has shown.
pub fn run(arguments: &[String]) -> Result<()> {
    let seconds: u64 = match arguments {
        [] => SECONDS,
        [again, line] if again == "--again" => {
            let mut command = shell::cargo();
            // With overflow checks and debug assertions.
            command.args(["test", "--test", "boundary_fuzz"]).env("CUDNN_SHIM_FUZZ_AGAIN", line);
            return shell::run(&mut command);
        }
        [seconds] => seconds.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?,
        _ => bail!("usage: cargo xtask fuzz [SECONDS | --again LINE]"),
    };
    // Other cases than in the runs before.
    let from = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    // Steps of the listed kinds, graphs, then sizes, problems and calls through the C boundary in a
    // build that checks itself: three eighths of the time for problems, three sixteenths for memory
    // that runs out, signals and forks, and a driver that fails, as much for calls.
    let part = |test: &str, seconds: u64, how: &[(&str, &str)], arguments: &[&str]| {
        let mut command = shell::cargo();
        command.args(["test", "--test", test]).args(arguments);
        command.env("CUDNN_SHIM_FUZZ_SECONDS", seconds.max(1).to_string());
        command.env("CUDNN_SHIM_FUZZ_FROM", from.to_string()).envs(how.iter().copied());
        shell::run(&mut command)
    };
    // The two tests of steps run one beside the other.
    part("listed", seconds / 8, &[], &["--release", "--", "fuzz::", "--nocapture"])?;
    let graphs = "graph::fused::what_is_computed_together_has_the_bits_of_single_operations";
    part("plans", seconds / 8, &[], &["--release", "--", graphs, "--exact", "--nocapture"])?;
    part("boundary_fuzz", 0, &[("CUDNN_SHIM_FUZZ_PART", "sizes")], &[])?;
    part("boundary_fuzz", seconds * 3 / 8, &[("CUDNN_SHIM_FUZZ_PART", "problems")], &[])?;
    part("boundary_fuzz", seconds / 16, &[("CUDNN_SHIM_FUZZ_PART", "memory")], &[])?;
    part("boundary_fuzz", seconds / 16, &[("CUDNN_SHIM_FUZZ_PART", "disturbances")], &[])?;
    part("boundary_fuzz", seconds / 16, &[("CUDNN_SHIM_FUZZ_PART", "driver")], &[])?;
    part("boundary_fuzz", seconds * 3 / 16, &[("CUDNN_SHIM_FUZZ_PART", "calls")], &[])?;
    // What is too slow for every run, in whatever time it takes.
    let full = ("CUDNN_SHIM_TEST_FULL", "1");
    part("plans", 0, &[full], &["--release", "--", "recurrent_cpu::"])?;
    part("cpu", 0, &[full], &[])?;
    part("cuda", 0, &[full], &[])?;
    part("beside", 0, &[full], &[])?;
    let compared = numpy::run(&dist::build(true, None)?, numpy::Extent::Full)?;
    println!("\nNumPy: {compared}");
    if compared.failed() > 0 { bail!("a comparison with NumPy fails") } else { Ok(()) }
}
