//! `cargo xtask header`: include/cudnn.h and include/v8/cudnn.h from the Rust sources; with
//! `--check`, only compares.

mod version;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

pub fn run(arguments: &[String]) -> Result<()> {
    let shared = shared_text()?;
    write_or_check("include/cudnn.h", &generate(&shared, false)?, arguments, "header")?;
    write_or_check("include/v8/cudnn.h", &generate(&shared, true)?, arguments, "header")?;
    let extensions = shared.extensions;
    write_or_check("include/cudnn_shim.h", &extensions, arguments, "header")?;
    // A header finds those that it includes in its own folder first, so that each version needs its
    // own.
    write_or_check("include/v8/cudnn_shim.h", &extensions, arguments, "header")
}

/// Writes a generated file that differs, or with `--check` fails if the committed one differs.
pub fn write_or_check(file: &str, text: &str, arguments: &[String], task: &str) -> Result<()> {
    let path = shell::root().join(file);
    match arguments {
        // Left alone otherwise, so that nothing is built again for its sake.
        [] if fs::read_to_string(&path).is_ok_and(|present| present == text) => Ok(()),
        [] => fs::write(&path, text).with_context(|| format!("cannot write {}", path.display())),
        [flag] if flag == "--check" => {
            let committed = fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
            if committed == text {
                return Ok(());
            }
            let line = committed.lines().zip(text.lines()).take_while(|(old, new)| old == new).count() + 1;
            bail!("{file} is out of date from line {line} on; run `cargo xtask {task}` and commit the result")
        }
        _ => bail!("the only argument is --check"),
    }
}

/// Everything that cbindgen sees, with conditions on what only one of the versions has, and what it
/// does not see.
struct Shared {
    text: String,
    names: Names,
    /// The text of cudnn_shim.h.
    extensions: String,
}

fn shared_text() -> Result<Shared> {
    let root = shell::root();
    let names = Names::read(&root.join("src/capi/types"))?;
    let mut config =
        cbindgen::Config::from_file(root.join("cbindgen.toml")).map_err(|error| anyhow::anyhow!(error))?;
    // Types that no function mentions, such as most enums of the graph API, are part of the header
    // too.
    config.export.include.extend(names.types.iter().cloned());
    let mut raw = Vec::new();
    cbindgen::Builder::new().with_crate(root).with_config(config).generate()?.write(&mut raw);
    let text = only_c_types(&plain_links(&one_line_comments(&String::from_utf8(raw)?)));
    let text = nested_union(&old_comments(&plain_enum_names(&text)))?;
    let (text, extensions) = extensions(&text)?;
    Ok(Shared { text, names, extensions })
}

/// Takes what has our prefix out of the text and puts it into that of cudnn_shim.h.
fn extensions(text: &str) -> Result<(String, String)> {
    const TEMPLATE: &str = include_str!("../../templates/cudnn_shim.h.in");
    let is_ours = |item: &&str| {
        [version::typedef(item), version::function(item)]
            .into_iter()
            .flatten()
            .any(|name| name.starts_with("cudnnShim"))
    };
    let (ours, others): (Vec<&str>, Vec<&str>) = text.split("\n\n").partition(is_ours);
    let (types, calls): (Vec<&str>, Vec<&str>) =
        ours.into_iter().map(str::trim).partition(|item| version::typedef(item).is_some());
    if types.is_empty() || calls.is_empty() {
        bail!("cbindgen finds no extensions");
    }
    // Behind dlpack.h the names are no tags.
    let calls = calls.join("\n\n").replace("struct cudnnShim", "cudnnShim");
    let header = TEMPLATE.replace("@TYPES@", &types.join("\n\n")).replace("@CALLS@", &calls);
    Ok((others.join("\n\n"), header))
}

/// The text of cudnn.h.
fn generate(Shared { text, names, .. }: &Shared, version_8: bool) -> Result<String> {
    let text = version::resolve(text, version_8)?;
    let aliases = names.aliases.iter().filter(|alias| !(alias.only_version_9 && version_8));
    let text = aliased_enumerators(&text, aliases)?;
    // Version 8 deprecates calls only.
    let text =
        if version_8 { version::only_version_8(&text)? } else { deprecated_types(&text, &names.deprecated)? };
    version::removed_calls_last(&text, version_8)
}

/// What cbindgen has no notion of, read from the definitions of the C types.
#[derive(Default)]
struct Names {
    /// Every public type.
    types: Vec<String>,
    /// The deprecated ones among them.
    deprecated: Vec<String>,
    aliases: Vec<Alias>,
}

/// A second name for an enumerator: `pub const NAME: ENUM = ENUM::TARGET;`.
struct Alias {
    name: String,
    of: String,
    target: String,
    comment: String,
    deprecated: bool,
    /// Version 8 has it as an enumerator of its own.
    only_version_9: bool,
}

impl Names {
    /// Reads the definitions line by line, each up to its brace or value.
    fn read(folder: &Path) -> Result<Names> {
        let mut files: Vec<_> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        let mut names = Names::default();
        for file in files {
            // rustfmt puts a long value on the next line.
            let text = fs::read_to_string(&file)?.replace(" =\n    ", " = ");
            let (mut comment, mut deprecated, mut only_version_9) = ("", false, false);
            for line in text.lines() {
                if let Some(text) = line.strip_prefix("/// ") {
                    comment = text;
                } else if line == "#[deprecated]" {
                    deprecated = true;
                } else if line == "#[cfg(not(feature = \"cudnn8\"))]" {
                    only_version_9 = true;
                } else if let Some(item) = line.strip_prefix("pub ") {
                    names.add(item, comment, deprecated, only_version_9);
                    (deprecated, only_version_9) = (false, false);
                }
            }
        }
        Ok(names)
    }

    fn add(&mut self, item: &str, comment: &str, deprecated: bool, only_version_9: bool) {
        let word =
            |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        let Some((kind, rest)) = item.split_once(' ') else { return };
        match (kind, word(rest)) {
            ("enum" | "struct" | "type", Some(name)) => {
                if deprecated {
                    self.deprecated.push(name.clone());
                }
                self.types.push(name);
            }
            ("const", Some(name)) => {
                let Some((of, target)) = rest.split_once(" = ").and_then(|(_, value)| value.split_once("::"))
                else {
                    return;
                };
                self.aliases.push(Alias {
                    name,
                    of: of.to_owned(),
                    target: target.trim_end_matches(';').to_owned(),
                    comment: comment.to_owned(),
                    deprecated,
                    only_version_9,
                });
            }
            _ => {}
        }
    }
}

/// `/**`, ` * text`, ` */` on three lines become one.
fn one_line_comments(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let body = match lines.last() {
            Some(last) if line.trim() == "*/" => last.trim_start().strip_prefix("* ").map(str::to_owned),
            _ => None,
        };
        match body {
            Some(body) if lines.len() > 1 && lines[lines.len() - 2].trim() == "/**" => {
                let open = lines.len() - 2;
                lines.truncate(open + 1);
                lines[open].push_str(&format!(" {body} */"));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

/// Links of rustdoc, ``[`X`]`` and ``[`X`](path)``, become their text, `X`.
fn plain_links(text: &str) -> String {
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((name, rest)) = part.split_once("`]") else {
            plain = plain + "[`" + part;
            continue;
        };
        let path = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        plain = plain + name + path.map_or(rest, |(_, rest)| rest);
    }
    plain
}

/// Drops the opaque structs that are Rust's own: cbindgen also declares the types of constants that
/// it leaves out, and in C they would take names like `Level` from the programs. A call that took
/// one would no longer compile.
fn only_c_types(text: &str) -> String {
    let is_c = |item: &&str| {
        let code = item.trim_end().lines().last().unwrap_or_default();
        let words: Vec<&str> = code.trim_end_matches(';').split(' ').collect();
        !matches!(words[..], ["typedef", "struct", tag, name] if tag == name && !name.starts_with("cudnn"))
    };
    text.split("\n\n").filter(is_c).collect::<Vec<_>>().join("\n\n")
}

/// `enum cudnnX_t` becomes `cudnnX_t`, except where it is defined; parameters stay below each
/// other.
fn plain_enum_names(text: &str) -> String {
    const TAG: &str = "enum ";
    let mut inside = false;
    let mut plain = String::new();
    for line in text.lines() {
        let line = if inside { line.strip_prefix(&" ".repeat(TAG.len())).unwrap_or(line) } else { line };
        inside = (inside || line.starts_with("enum cudnn")) && !line.ends_with(';');
        let line = if line.starts_with("typedef enum") {
            line.to_owned()
        } else {
            line.replace("enum cudnn", "cudnn")
        };
        plain.push_str(&line);
        plain.push('\n');
    }
    plain
}

/// `// text` at the end of a line becomes a comment that C89 knows.
fn old_comments(text: &str) -> String {
    let line = |line: &str| match line.split_once("// ") {
        Some((code, comment)) => format!("{} /* {comment} */\n", code.trim_end()),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The one union of the interface goes where it is used: at the top level, C++ programs could not
/// have an `Algorithm` of their own.
fn nested_union(text: &str) -> Result<String> {
    const NAME: &str = "Algorithm";
    let (start, end, member) =
        (format!("typedef union {NAME} {{\n"), format!("}} {NAME};\n"), format!("    union {NAME} algo;\n"));
    let found = text.find(&start).zip(text.find(&end)).filter(|_| text.contains(&member));
    let Some((from, to)) = found else { bail!("cannot find the union {NAME}") };
    let body: String = text[from + start.len()..to].lines().map(|line| format!("    {line}\n")).collect();
    // With the comment above it and the empty line below.
    let from = text[..from].rfind("/**").unwrap_or(from);
    let text = format!("{}{}", &text[..from], text[to + end.len()..].trim_start());
    Ok(text.replace(&member, &format!("    union {NAME} {{\n{body}    }} algo;\n")))
}

/// Marks the typedefs of these names as deprecated.
fn deprecated_types(text: &str, names: &[String]) -> Result<String> {
    let mut text = text.to_owned();
    for name in names {
        // The end of a definition, `} name;`, or a plain typedef, `... *name;`.
        let found = [format!("}} {name};\n"), format!("*{name};\n"), format!(" {name};\n")]
            .into_iter()
            .find(|end| text.matches(end.as_str()).count() == 1);
        let Some(end) = found else { bail!("cannot find the one typedef of {name}") };
        text = text.replace(&end, &end.replace(";\n", " CUDNN_DEPRECATED;\n"));
    }
    Ok(text)
}

/// Adds second names at the end of their enum.
fn aliased_enumerators<'a>(text: &str, aliases: impl Iterator<Item = &'a Alias>) -> Result<String> {
    let mut text = text.to_owned();
    for Alias { name, of, target, comment, deprecated, .. } in aliases {
        let attribute = if *deprecated { " CUDNN_DEPRECATED_ENUM" } else { "" };
        let end = format!("}} {of};\n");
        if text.matches(&end).count() != 1 {
            bail!("cannot find the end of {of}");
        }
        text = text.replace(&end, &format!("    /** {comment} */\n    {name}{attribute} = {target},\n{end}"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_text() {
        let text = "/** Behind a [`cudnnX_t`]: [`lanes`](A::lanes) (all), `n` [0, 1]. */\nint x[`";
        let plain = "/** Behind a cudnnX_t: lanes (all), `n` [0, 1]. */\nint x[`";
        assert_eq!(plain_links(text), plain);
    }

    #[test]
    fn types_of_rust_are_dropped() {
        let text = "a;\n\n/** Text. */\ntypedef struct Level Level;\n\ntypedef struct cudnnX cudnnX;\n\n\
                    typedef struct cudnnX *cudnnX_t;\n\ntypedef struct Y *Z;\n";
        let kept = "a;\n\ntypedef struct cudnnX cudnnX;\n\ntypedef struct cudnnX *cudnnX_t;\n\ntypedef struct Y *Z;\n";
        assert_eq!(only_c_types(text), kept);
    }
}
