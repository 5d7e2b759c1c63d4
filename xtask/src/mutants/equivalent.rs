//! The changes that no test can notice, as nothing that can be observed differs.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use super::sites::Site;
use crate::shell;

/// The list: file, function, change, and why nothing differs.
const LIST: &str = "xtask/src/mutants/equivalent.tsv";

/// The listed changes by their place among `all`, and the reason of each.
///
/// # Errors
/// A row that names no change of the sources as they are, names one again, or has no reason.
pub fn read(all: &[Site]) -> Result<BTreeMap<usize, String>> {
    parsed(&fs::read_to_string(shell::root().join(LIST))?, all)
}

fn parsed(text: &str, all: &[Site]) -> Result<BTreeMap<usize, String>> {
    let places: BTreeMap<[&str; 3], usize> =
        all.iter().enumerate().map(|(at, site)| (site.key(), at)).collect();
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#')) {
        let at = |problem: &str| format!("{LIST}:{number}: {problem}: {line}");
        let columns: Vec<&str> = line.split('\t').collect();
        let &[file, function, change, reason] = &columns[..] else { bail!(at("not four columns")) };
        if reason.trim().is_empty() {
            bail!(at("no reason"));
        }
        let place = places.get(&[file, function, change]);
        let place = place.with_context(|| at("no such change in the sources as they are"))?;
        if found.insert(*place, reason.to_owned()).is_some() {
            bail!(at("listed twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::{all, sites};
    use super::*;

    #[test]
    fn the_list_is_of_the_sources_as_they_are() {
        read(&all().expect("the sources")).expect("the list");
    }

    #[test]
    fn what_names_no_change_is_refused() {
        let text = "impl A { fn f(a: u8, b: u8) -> bool { a < b || a < b } }";
        let all = sites::find("a.rs", text, sites::Functions::All).expect("a source file");
        let of = |line: &str| parsed(line, &all);
        let found =
            of("# A remark.\na.rs\tA::f\ta < b -> (a) <= (b) #2\tThe first decides.").expect("a list");
        let texts: Vec<&str> = found.keys().map(|&at| all[at].text.as_str()).collect();
        assert_eq!(texts, ["a < b -> (a) <= (b) #2"]);
        for wrong in [
            "a.rs\tA::f\ta < b -> (a) <= (b) #3\tA reason.",
            "a.rs\tf\ta < b -> (a) <= (b)\tA reason.",
            "b.rs\tA::f\ta < b -> (a) <= (b)\tA reason.",
            "a.rs\tA::f\ta < b -> (a) <= (b)\t",
            "a.rs\tA::f\ta < b -> (a) <= (b)",
            "a.rs\tA::f\treturns true\tOnce.\na.rs\tA::f\treturns true\tTwice.",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
