//! `cargo xtask docs`: the site of `docs/`, with a page for each call, made by mdBook in
//! `target/book/html`.
//!
//! ```text
//!  calls.rs     reads what the sources and headers say of each call
//!  page.rs      the page of a call, and those of the groups
//!  examples.rs  statements of C programs that make a call
//!  links.rs     links of committed pages as the site has them, and calls where their names stand
//!  narrow.rs    tables on narrow screens
//!  dead.rs      links that lead nowhere
//! ```

mod calls;
mod dead;
mod examples;
mod links;
mod narrow;
mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Files outside `docs/` that the site takes, and what it calls them.
pub const TAKEN: [(&str, &str); 4] = [
    ("MATRIX.md", "MATRIX.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("CONTRIBUTING.md", "CONTRIBUTING.md"),
    ("demo/digits.png", "pictures/digits.png"),
];

/// The line of the table of contents below which the pages of calls go.
const ABOVE_CALLS: &str = "- [The calls by task](tasks.md)";

pub fn run(_arguments: &[String]) -> Result<()> {
    let site = build(&mdbook()?)?;
    println!("{}", site.join("index.html").display());
    Ok(())
}

/// mdBook: the one on the search path, else one of our own, built first if there is none yet.
pub fn mdbook() -> Result<PathBuf> {
    if shell::on_path("mdbook") {
        return Ok(PathBuf::from("mdbook"));
    }
    let tools = shell::target().join("tools/mdbook");
    let own = tools.join("bin/mdbook");
    if !own.exists() {
        println!("installing mdbook");
        let mut command = shell::cargo();
        // Without optimisation, which would take longer than all the pages that it will ever make.
        command
            .args([
                "install",
                "mdbook",
                "--locked",
                "--no-default-features",
                "--features",
                "search",
                "--debug",
            ])
            .arg("--root")
            .arg(&tools);
        shell::run(&mut command).context("to make the site, install mdbook: cargo install mdbook")?;
    }
    Ok(own)
}

/// Makes the site; where it is. A link that leads nowhere is an error.
pub fn build(mdbook: &Path) -> Result<PathBuf> {
    let book = shell::target().join("book");
    if book.exists() {
        fs::remove_dir_all(&book)?;
    }
    write_pages(&book.join("src"))?;
    for file in ["book.toml", "site.css"] {
        fs::copy(shell::root().join("docs").join(file), book.join(file))?;
    }
    shell::run(Command::new(mdbook).arg("build").arg("--dest-dir").arg(book.join("html")).arg(&book))?;
    let site = book.join("html");
    for page in dead::pages(&site)? {
        let text = fs::read_to_string(&page)?;
        fs::write(&page, narrow::labelled(&text))?;
    }
    let dead = dead::links(&site)?;
    if !dead.is_empty() {
        bail!("links that lead nowhere:\n{}", dead.join("\n"));
    }
    Ok(site)
}

/// Writes everything that mdBook reads to `pages`: the pages of `docs/`, those of the calls, and
/// the pictures.
fn write_pages(pages: &Path) -> Result<()> {
    let docs = shell::root().join("docs");
    fs::create_dir_all(pages.join("pictures"))?;
    fs::create_dir_all(pages.join("calls"))?;
    for entry in fs::read_dir(docs.join("pictures"))? {
        let path = entry?.path();
        fs::copy(&path, pages.join("pictures").join(path.file_name().context("a file has a name")?))?;
    }
    let calls = calls::read()?;
    let names: BTreeSet<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    for entry in fs::read_dir(&docs)? {
        let path = entry?.path();
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).context("a page has a name")?;
        let text = links::of_docs(&fs::read_to_string(&path)?);
        let text = match name {
            "SUMMARY.md" => with_calls(&text, &page::contents(&calls))?,
            _ => links::to_calls(&text, &names, "calls/", ""),
        };
        fs::write(pages.join(name), text)?;
    }
    for (file, name) in TAKEN {
        let from = shell::root().join(file);
        if !file.ends_with(".md") {
            fs::copy(from, pages.join(name))?;
            continue;
        }
        let text = links::of_root(&fs::read_to_string(from)?);
        fs::write(pages.join(name), links::to_calls(&text, &names, "calls/", ""))?;
    }
    let behaviour = fs::read_to_string(docs.join("behaviour.md"))?;
    let departures = page::departures(&links::of_docs(&behaviour))?;
    let examples = examples::Examples::read()?;
    for call in &calls {
        let text = page::of_call(call, &departures, examples.of(&call.name));
        let text = links::to_calls(&text, &names, "", &call.name);
        fs::write(pages.join("calls").join(&call.name).with_extension("md"), text)?;
    }
    for (file, text) in page::of_groups(&calls) {
        fs::write(pages.join("calls").join(file), links::to_calls(&text, &names, "", ""))?;
    }
    Ok(())
}

/// The table of contents with the pages of the calls in their place.
fn with_calls(summary: &str, contents: &str) -> Result<String> {
    let (above, below) = summary
        .split_once(&format!("{ABOVE_CALLS}\n"))
        .with_context(|| format!("docs/SUMMARY.md has no line {ABOVE_CALLS}"))?;
    Ok(format!("{above}{ABOVE_CALLS}\n{contents}{below}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{dead, with_calls, write_pages};
    use crate::{shell, tables};

    /// Where the files of a release can be fetched. While there is no such place, the pages that
    /// install say so.
    const ADDRESS: Option<&str> = None;

    #[test]
    fn pages_that_install_say_where_files_come_from() {
        let said = match ADDRESS {
            Some(address) => format!("Fetch the files of a release from <{address}>."),
            None => "No release is published at an address yet: `cargo xtask package` makes the files from the source."
                .to_owned(),
        };
        for page in ["README.md", "docs/index.md", "docs/install.md"] {
            let text = fs::read_to_string(shell::root().join(page)).unwrap();
            assert!(text.contains(&said), "{page} does not say: {said}");
        }
    }

    #[test]
    fn every_exported_call_has_a_page_and_no_page_leads_nowhere() {
        let scratch = shell::Scratch::new("pages").unwrap();
        write_pages(&scratch.0).unwrap();
        let rows = tables::read_file(&shell::root().join("src/catalogue.tsv")).unwrap();
        let summary = fs::read_to_string(scratch.0.join("SUMMARY.md")).unwrap();
        for row in &rows {
            let name = &row["symbol"];
            let text = fs::read_to_string(scratch.0.join(format!("calls/{name}.md")))
                .unwrap_or_else(|_| panic!("{name} has no page"));
            assert!(text.starts_with(&format!("# {name}\n\n")), "{name}");
            assert!(text.lines().nth(2).is_some_and(|line| !line.is_empty()), "{name} says nothing");
            assert!(
                summary.contains(&format!("(calls/{name}.md)")),
                "{name} is not in the table of contents"
            );
        }
        let pages = fs::read_dir(scratch.0.join("calls")).unwrap();
        let mut known: BTreeSet<String> = rows.iter().map(|row| format!("{}.md", row["symbol"])).collect();
        known.insert("index.md".to_owned());
        let unknown = pages.filter(|page| {
            let name = page.as_ref().unwrap().file_name().into_string().unwrap();
            !known.contains(&name) && !name.starts_with("group-")
        });
        assert_eq!(unknown.count(), 0);
        assert_eq!(dead::of_pages(&scratch.0).unwrap(), Vec::<String>::new());
    }

    /// The words of the glossary are words of the sources: one that nobody uses any more is taken
    /// out.
    #[test]
    fn the_glossary_has_words_of_the_sources() {
        fn read(folder: &Path, words: &mut BTreeSet<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    read(&path, words);
                } else if path
                    .extension()
                    .is_some_and(|end| ["rs", "cu", "cuh"].iter().any(|known| end == *known))
                {
                    let text = fs::read_to_string(&path).unwrap();
                    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    words.extend(text.split(|c| !is_word(c)).map(str::to_owned));
                }
            }
        }
        let mut words = BTreeSet::new();
        read(&shell::root().join("src"), &mut words);
        let page = fs::read_to_string(shell::root().join("docs/architecture.md")).unwrap();
        let (_, glossary) = page.split_once("\n## Glossary\n").unwrap();
        // What is quoted in the first column.
        let cells = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let terms: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        assert!(terms.len() >= 20, "{terms:?}");
        for term in terms {
            // Of a file its name, of a macro too; of `..._END` the end of some word.
            let word = term.trim_end_matches('!').rsplit('/').next().unwrap_or(term);
            let is_there = match word.strip_prefix("...") {
                Some(end) => words.iter().any(|word| word.ends_with(end)),
                None => words.contains(word),
            };
            assert!(is_there, "{term} is no word of the sources");
        }
    }

    #[test]
    fn pages_of_calls_go_where_the_calls_are() {
        let summary = "a\n- [The calls by task](tasks.md)\n- b\n";
        assert_eq!(
            with_calls(summary, "  - c\n").unwrap(),
            "a\n- [The calls by task](tasks.md)\n  - c\n- b\n"
        );
        assert!(with_calls("a\n", "").is_err());
    }
}
