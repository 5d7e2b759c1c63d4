//! What makes the header of version 8 or 9 out of the text that both share.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use crate::tables;

/// The condition that the sources and cbindgen.toml write for version 8.
const CONDITION: &str = "defined(CUDNN_SHIM_V8)";
/// The attribute of a deprecated call.
const DEPRECATED: &str = "CUDNN_DEPRECATED";

/// Keeps what holds for the version and drops the conditions themselves; other conditions stay.
pub fn resolve(text: &str, version_8: bool) -> Result<String> {
    // One entry for each open condition: whether its lines are kept, `None` for a foreign one.
    let mut open: Vec<Option<bool>> = Vec::new();
    let mut resolved = String::new();
    for line in text.lines() {
        let own = line.strip_prefix("#if ").and_then(|condition| match condition.strip_prefix('!') {
            Some(rest) if rest == CONDITION => Some(!version_8),
            _ if condition == CONDITION => Some(version_8),
            _ => None,
        });
        let kept = !open.contains(&Some(false));
        let foreign = if own.is_some() {
            open.push(own);
            false
        } else if line.starts_with("#if") {
            open.push(None);
            true
        } else if line == "#else" && matches!(open.last(), Some(Some(_))) {
            let last = open.pop().flatten();
            open.push(last.map(|kept| !kept));
            false
        } else if line.starts_with("#endif") {
            matches!(open.pop(), Some(None))
        } else {
            true
        };
        if foreign && kept {
            resolved.push_str(line);
            resolved.push('\n');
        }
    }
    if !open.is_empty() {
        bail!("a condition is not closed");
    }
    Ok(resolved)
}

/// Drops what version 8 does not have: enumerators, types, attributes. Values are those of
/// version 8.
pub fn only_version_8(text: &str) -> Result<String> {
    let enums = tables::read("enums")?;
    let values: BTreeMap<&str, &str> =
        enums.iter().map(|row| (row["constant"].as_str(), row["value_8.9.7"].as_str())).collect();
    let types = tables::read("types")?;
    let newer: BTreeSet<&str> =
        types.iter().filter(|row| row["in_8.9.7"] == "no").map(|row| row["name"].as_str()).collect();
    let mut deprecated = BTreeSet::new();
    for table in ["functions", "functions_v8_only", "functions_v7_only"] {
        let functions = tables::read(table)?;
        deprecated.extend(
            functions.iter().filter(|row| row["deprecated_8.9.7"] == "yes").map(|row| row["name"].clone()),
        );
    }
    let mut items = Vec::new();
    for item in text.split("\n\n") {
        if typedef(item).is_some_and(|name| newer.contains(name)) {
            continue;
        }
        let item = match function(item) {
            Some(name) => with_attribute(item, deprecated.contains(name)),
            None if item.contains("typedef enum") => enumerators(item, &values),
            None => item.to_owned(),
        };
        items.push(item);
    }
    Ok(items.join("\n\n"))
}

/// The name that a typedef in `item` gives.
pub fn typedef(item: &str) -> Option<&str> {
    let code = item.lines().find(|line| !line.starts_with("/**"))?;
    if !code.starts_with("typedef ") {
        return None;
    }
    let last = item.trim_end().strip_suffix(';')?;
    last.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The name of the function that `item` declares.
pub fn function(item: &str) -> Option<&str> {
    let mut lines = item.trim_start().lines().filter(|line| !line.starts_with("/**") && *line != DEPRECATED);
    let (head, _) = lines.next()?.split_once('(')?;
    let name = head.rsplit([' ', '*']).next()?;
    (name.starts_with("cudnn") && !head.starts_with("typedef") && head.contains(' ')).then_some(name)
}

/// The declaration with the attribute, or without it. Parameters stay below each other: the
/// attribute has a line of its own where they take several.
fn with_attribute(item: &str, deprecated: bool) -> String {
    let plain = item.replace(&format!("{DEPRECATED}\n"), "").replace(&format!("{DEPRECATED} "), "");
    if !deprecated {
        return plain;
    }
    let several = plain.lines().filter(|line| !line.starts_with("/**")).count() > 1;
    let end = if several { '\n' } else { ' ' };
    let at = plain.find("*/\n").map_or(0, |comment| comment + 3);
    format!("{}{DEPRECATED}{end}{}", &plain[..at], &plain[at..])
}

/// The enum with the enumerators and the values of version 8, each with the comment above it.
fn enumerators(item: &str, values: &BTreeMap<&str, &str>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in item.lines() {
        let words = line.trim_start().split_once(" = ").filter(|(name, _)| name.starts_with("CUDNN_"));
        let Some((name, value)) = words else {
            lines.push(line.to_owned());
            continue;
        };
        let name = name.split(' ').next().unwrap_or(name);
        match values.get(name) {
            // The newer enumerator's comment goes with it.
            Some(&"") => drop(lines.pop()),
            Some(old) if value.trim_end_matches(',').parse::<i64>().is_ok() => {
                lines.push(format!("    {name} = {old},"));
            }
            _ => lines.push(format!("    {name} = {value}")),
        }
    }
    lines.join("\n")
}

/// Moves the calls that cuDNN of this version no longer has behind all others, where one macro
/// hides them.
pub fn removed_calls_last(text: &str, version_8: bool) -> Result<String> {
    let mut present = BTreeSet::new();
    for table in if version_8 { &["functions", "functions_v8_only"][..] } else { &["functions"] } {
        present
            .extend(tables::read(table)?.into_iter().map(|mut row| row.remove("name").unwrap_or_default()));
    }
    const END: &str = "#ifdef __cplusplus\n} /* extern";
    let Some((before, after)) = text.split_once(END) else {
        bail!("cannot find the end of the declarations")
    };
    let (removed, kept): (Vec<&str>, Vec<&str>) = before
        .trim_end()
        .split("\n\n")
        .partition(|item| function(item).is_some_and(|name| !present.contains(name)));
    Ok(format!(
        "{}\n\n/* What cuDNN of this version no longer has; define CUDNN_SHIM_NO_REMOVED_CALLS to hide it. */\n\
         #ifndef CUDNN_SHIM_NO_REMOVED_CALLS\n{}\n#endif /* CUDNN_SHIM_NO_REMOVED_CALLS */\n\n{END}{after}",
        kept.join("\n\n"),
        removed.join("\n\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_resolved_for_each_version() {
        let text = "a\n#if defined(CUDNN_SHIM_V8)\nb\n#ifdef X\nc\n#endif\n#else\nd\n#endif\n\
                    #if !defined(CUDNN_SHIM_V8)\ne\n#endif\n";
        assert_eq!(resolve(text, true).unwrap(), "a\nb\n#ifdef X\nc\n#endif\n");
        assert_eq!(resolve(text, false).unwrap(), "a\nd\ne\n");
        assert!(resolve("#if defined(CUDNN_SHIM_V8)\n", true).is_err());
    }

    #[test]
    fn declarations_are_recognised() {
        assert_eq!(function("/** Text (more). */\nsize_t cudnnGetVersion(void);"), Some("cudnnGetVersion"));
        assert_eq!(function("CUDNN_DEPRECATED\nconst char *cudnnX(int a,\n int b);"), Some("cudnnX"));
        assert_eq!(function("typedef void (*cudnnCallback_t)(int);"), None);
        assert_eq!(typedef("/** Text. */\ntypedef struct cudnnX *cudnnX_t;"), Some("cudnnX_t"));
        assert_eq!(typedef("typedef enum {\n    A = 0,\n} cudnnA_t;"), Some("cudnnA_t"));
    }

    #[test]
    fn enumerators_of_version_8_are_kept() {
        let values = BTreeMap::from([("CUDNN_A", "0"), ("CUDNN_B", ""), ("CUDNN_N", "1")]);
        let item = "typedef enum {\n    /** A. */\n    CUDNN_A = 0,\n    /** B. */\n    CUDNN_B = 1,\n    /** N. */\n    CUDNN_N = 2,\n} t;";
        let old = "typedef enum {\n    /** A. */\n    CUDNN_A = 0,\n    /** N. */\n    CUDNN_N = 1,\n} t;";
        assert_eq!(enumerators(item, &values), old);
    }
}
