//! `cargo xtask fuzz`: random variations of every kind of step against the reference, as many as there is time for.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::shell;

/// How long it goes on if nobody says.
const SECONDS: u64 = 60;

/// Takes the seconds it may go on.
pub fn run(arguments: &[String]) -> Result<()> {
    let seconds = match arguments {
        [] => SECONDS,
        [seconds] => seconds.parse().with_context(|| format!("`{seconds}` is no number of seconds"))?,
        _ => bail!("usage: cargo xtask fuzz [SECONDS]"),
    };
    // Other cases than in the runs before.
    let from = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let mut command = shell::cargo();
    command.args(["test", "--release", "--test", "fuzz", "--", "--nocapture"]);
    command.env("CUDNN_SHIM_FUZZ_SECONDS", seconds.to_string());
    command.env("CUDNN_SHIM_FUZZ_FROM", from.to_string());
    shell::run(&mut command)
}
