//! What the project depends on: licences, sources and known faults, by `deny.toml`.

use std::process::Command;

use anyhow::Result;

use crate::test::Tally;
use crate::{shell, tools};

/// Licences and sources; then known faults, if the list of them can be fetched.
pub fn check() -> Result<Tally> {
    let deny = match tools::deny() {
        Ok(deny) => deny,
        Err(line) => {
            println!(
                "skipped: licences, sources and known faults of dependencies, as cargo-deny is missing; install it: {line}"
            );
            return Ok(Tally::SKIP);
        }
    };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&deny);
        // The tool asks cargo, and for nothing but what is locked.
        command.current_dir(shell::root()).args(["--locked"]).args(arguments);
        command
    };
    // Builds fetch what this machine needs, and the tool asks for what any would. Where nothing can
    // be fetched it may be there already.
    let _ = shell::cargo().args(["fetch", "--locked"]).status()?;
    let passes = run(&["--offline", "check", "licenses", "sources", "bans"]).status()?.success();
    let first = if passes { Tally::PASS } else { Tally::FAIL };
    if !run(&["fetch", "db"]).output()?.status.success() {
        println!("skipped: known faults of dependencies, as the list of them cannot be fetched here");
        return Ok(first + Tally::SKIP);
    }
    let passes = run(&["check", "advisories"]).status()?.success();
    Ok(first + if passes { Tally::PASS } else { Tally::FAIL })
}
