//! `cargo xtask docs`: the site of `docs/`, made by mdBook in `target/book/html`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// What pages take sections of the README with: `{{README Title}}`.
const MARK: &str = "{{README ";

pub fn run(_arguments: &[String]) -> Result<()> {
    let site = build(&mdbook()?)?;
    println!("{}", site.join("index.html").display());
    Ok(())
}

/// mdBook: the one on the search path, else one of our own, built first if need be.
pub fn mdbook() -> Result<PathBuf> {
    if shell::on_path("mdbook") {
        return Ok(PathBuf::from("mdbook"));
    }
    let tools = shell::target().join("tools");
    let own = tools.join("bin/mdbook");
    if !own.exists() {
        println!("installing mdbook");
        let mut command = shell::cargo();
        // Without optimisation, which would take longer than all the pages that it will ever make.
        command
            .args(["install", "mdbook", "--locked", "--no-default-features", "--debug", "--root"])
            .arg(&tools);
        shell::run(&mut command).context("to make the site, install mdbook: cargo install mdbook")?;
    }
    Ok(own)
}

/// Makes the site; where it is.
pub fn build(mdbook: &Path) -> Result<PathBuf> {
    let (docs, book) = (shell::root().join("docs"), shell::target().join("book"));
    if book.exists() {
        fs::remove_dir_all(&book)?;
    }
    let pages = book.join("src");
    fs::create_dir_all(pages.join("pictures"))?;
    fs::copy(docs.join("book.toml"), book.join("book.toml"))?;
    for entry in fs::read_dir(docs.join("pictures"))? {
        let path = entry?.path();
        fs::copy(&path, pages.join("pictures").join(path.file_name().context("a file has a name")?))?;
    }
    let readme = fs::read_to_string(shell::root().join("README.md"))?;
    for entry in fs::read_dir(&docs)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "md") {
            let text = with_sections(&fs::read_to_string(&path)?, &readme)
                .with_context(|| format!("in {}", path.display()))?;
            fs::write(pages.join(path.file_name().context("a file has a name")?), text)?;
        }
    }
    shell::run(Command::new(mdbook).arg("build").arg("--dest-dir").arg(book.join("html")).arg(&book))?;
    Ok(book.join("html"))
}

/// A page with the sections of the README that it asks for.
fn with_sections(page: &str, readme: &str) -> Result<String> {
    let mut text = String::new();
    for line in page.lines() {
        match line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix("}}")) {
            Some(title) => text += &section(readme, title)?,
            // What lies beside `docs/` is not part of the site.
            None => text += &links(line, |target| Some(target).filter(|target| !target.starts_with("../")))?,
        }
        text.push('\n');
    }
    Ok(text)
}

/// The body of a section, its links as seen from `docs/`; what lies elsewhere in the repository is named only.
fn section(readme: &str, title: &str) -> Result<String> {
    let Some((_, rest)) = readme.split_once(&format!("\n## {title}\n")) else {
        bail!("README.md has no section {title}");
    };
    let body = rest.split("\n## ").next().unwrap_or(rest).trim();
    links(body, |target| match target.strip_prefix("docs/") {
        Some(page) => Some(page),
        None => Some(target).filter(|target| target.starts_with("http") || target.starts_with('#')),
    })
}

/// The text with every link where `kept` says it leads; of one that leads nowhere its words stay.
fn links<'a>(text: &'a str, kept: impl Fn(&'a str) -> Option<&'a str>) -> Result<String> {
    let mut pieces = text.split("](");
    let mut linked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let Some((target, behind)) = piece.split_once(')') else {
            linked = linked + "](" + piece;
            continue;
        };
        match kept(target) {
            Some(target) => linked += &format!("]({target})"),
            None => {
                let start = linked.rfind('[').context("a link without a beginning")?;
                linked.remove(start);
            }
        }
        linked += behind;
    }
    Ok(linked)
}

#[cfg(test)]
mod tests {
    use super::with_sections;

    #[test]
    fn sections_come_with_links_that_work() {
        let readme = "# A\n\n## B\n\nSee [c](docs/c.md), [`d`](src/d.rs) and [e](https://e).\n\n## F\n\nf\n";
        let page = with_sections("[x](../x) [z](z.md)\n{{README B}}\ny", readme).unwrap();
        assert_eq!(page, "x [z](z.md)\nSee [c](c.md), `d` and [e](https://e).\ny\n");
        assert!(with_sections("{{README G}}", readme).is_err());
    }
}
