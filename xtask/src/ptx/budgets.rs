//! Budgets: what a kernel keeps in flight does not fall below what its committed row says.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Result, ensure};

use crate::shell;

/// What a row promises.
#[derive(Debug, PartialEq, Eq)]
struct Budget {
    bytes: u32,
    lone: u32,
    divisions: u32,
}

/// With `--check`: names every kernel of a table that falls short of its committed row.
pub fn check(file: &str, table: &str, flags: &[String]) -> Result<()> {
    if !flags.iter().any(|flag| flag == "--check") {
        return Ok(());
    }
    let committed = fs::read_to_string(shell::root().join(file)).unwrap_or_default();
    let short = shortfalls(&budgets(&committed), &budgets(table));
    ensure!(
        short.is_empty(),
        "{file}: kernels fall below their budgets:\n{}\nIf that is meant, run `cargo xtask ptx` and commit the result.",
        short.join("\n")
    );
    Ok(())
}

fn budgets(table: &str) -> BTreeMap<&str, Budget> {
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let of = |line: &'_ str, column: &str| {
        let at = head.iter().position(|name| *name == column)?;
        line.split('\t').nth(at)?.parse::<u32>().ok()
    };
    let row = |line| {
        Some(Budget { bytes: of(line, "bytes")?, lone: of(line, "lone")?, divisions: of(line, "divisions")? })
    };
    lines.filter_map(|line| Some((line.split('\t').next()?, row(line)?))).collect()
}

fn shortfalls(committed: &BTreeMap<&str, Budget>, now: &BTreeMap<&str, Budget>) -> Vec<String> {
    let mut found = Vec::new();
    for (kernel, want) in committed {
        let Some(got) = now.get(kernel) else { continue };
        if got.bytes < want.bytes {
            found.push(format!(
                "{kernel} loads {} bytes before it needs the first, its row says {}",
                got.bytes, want.bytes
            ));
        }
        if got.lone > want.lone {
            found.push(format!(
                "{kernel} has {} loops that wait for every load, its row says {}",
                got.lone, want.lone
            ));
        }
        if got.divisions > want.divisions {
            found.push(format!("{kernel} has {} divisions, its row says {}", got.divisions, want.divisions));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{budgets, shortfalls};

    const HEAD: &str = "# Of every kernel\nkernel\tshared\tbytes\tloads\tlone\tdivisions\n";

    #[test]
    fn what_falls_below_its_budget_is_named() {
        let committed = format!("{HEAD}copy\t0\t64\t4x16\t0\t1\nother\t0\t16\t4x4\t1\t2\n");
        let same = shortfalls(&budgets(&committed), &budgets(&committed));
        assert!(same.is_empty(), "{same:?}");
        let worse = format!("{HEAD}copy\t0\t16\t1x16\t0\t1\nother\t0\t32\t4x8\t2\t3\n");
        let found = shortfalls(&budgets(&committed), &budgets(&worse));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("copy loads 16 bytes") && found[0].contains("says 64"));
    }
}
