//! Lists of the kernels of contractions: each says how long it gets, or is asked for in a way that
//! may fail. And tables of kernels: the page that is generated from them knows each.

use crate::source::{Source, hold};

/// Where kernels live that run when others have begun to write.
const KERNELS: &str = "src/backend/cpu/contract";

/// What allocates as much as it is given, and ends the process if that is not there.
const ALLOCATES: &[&str] =
    &[".collect(", ".collect::<", "vec![", ".extend(", ".to_vec(", ".resize(", "with_capacity("];

/// How a comment begins that says how long a list gets.
const BOUND: &str = "// At most ";

#[test]
fn lists_of_kernels_say_how_long_they_get() {
    let check = |source: &Source| {
        if !source.is_rust() || !source.path.starts_with(KERNELS) {
            return Vec::new();
        }
        let code = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        let lines: Vec<&str> = code.lines().collect();
        let mut violations = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let told = lines[at.saturating_sub(2)..=at].iter().any(|line| line.contains(BOUND));
            if !told && ALLOCATES.iter().any(|word| code.contains(word)) {
                let rule = format!(
                    "a list without `{BOUND}...`; `reserve::list` makes those that grow with a problem"
                );
                violations.push(format!("{}:{}: {rule}", source.path, at + 1));
            }
        }
        violations
    };
    let file = "src/backend/cpu/contract/gemm/engine/task.rs";
    hold(
        check,
        &[
            (file, "//! Tasks.\nlet rows: Vec<usize> = (0..end).collect();"),
            (file, "//! Tasks.\nlist.extend(points);"),
            ("src/backend/cpu/contract.rs", "//! Tasks.\nlet zeros = vec![0; len];"),
            (file, "//! Tasks.\n// At most four.\nlet a = 1;\nlet b = 2;\nlet c = d.to_vec();"),
        ],
        &[
            (file, "//! Tasks.\n// At most one a strip.\nlet rows: Vec<usize> = (0..end).collect();"),
            (file, "//! Tasks.\nlet rows = list(end)?; // not collect()"),
            (file, "//! Tasks.\n#[cfg(test)]\nmod tests {\n    fn f() { vec![1]; }\n}"),
            ("src/backend/cpu/map.rs", "//! Maps.\nlet zeros = vec![0; len];"),
        ],
    );
}

/// What makes docs/kernels.md.
const PAGE: &str = include_str!("../../xtask/src/kernels.rs");

#[test]
fn the_page_of_kernels_knows_every_table() {
    let check = |source: &Source| {
        let Some(file) = source.path.strip_prefix("src/backend/") else { return Vec::new() };
        let is_table = |line: &str| line.contains("const ") && line.contains(": &[Kernel<");
        let tables = source.code().filter(|(_, line)| is_table(line));
        let unknown = tables.filter(|_| !PAGE.contains(&format!("\"{file}\"")));
        let rule = "a table of kernels that xtask/src/kernels.rs does not list";
        unknown.map(|(at, _)| format!("{}:{at}: {rule}", source.path)).collect()
    };
    let table = "//! Kernels.\npub const KERNELS: &[Kernel<Accept>] = &[];";
    hold(
        check,
        &[("src/backend/cpu/unknown/table.rs", table)],
        &[("src/backend/cpu/window/table.rs", table), ("src/ops/window.rs", table)],
    );
}
