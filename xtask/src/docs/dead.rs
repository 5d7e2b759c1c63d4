//! Links that lead nowhere: of Markdown pages, and of a site.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

/// The files below `folder` that end in `.end`.
fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, end, found)?;
        } else if path.extension().is_some_and(|found| found == end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// The links of the Markdown pages below `folder` to files that are not there.
#[cfg(test)]
pub fn of_pages(folder: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    files(folder, "md", &mut pages)?;
    let mut dead = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        // Blocks of code, the odd pieces, have no links.
        let targets = text.split("```").step_by(2).flat_map(|text| text.split("](").skip(1));
        for target in targets.filter_map(|rest| rest.split(')').next()).filter(|target| is_local(target)) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !page.parent().unwrap_or(folder).join(file).exists() {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    Ok(dead)
}

fn is_local(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with("data:")
}

/// The pages of a site.
pub fn pages(site: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    files(site, "html", &mut pages)?;
    Ok(pages)
}

/// The links of a site to files and places inside them that are not there.
pub fn links(site: &Path) -> Result<Vec<String>> {
    let mut pages = pages(site)?;
    // What servers show instead of a page that is missing lies nowhere in particular.
    pages.retain(|page| !page.ends_with("404.html"));
    let mut texts = BTreeMap::new();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        texts.insert(page, text);
    }
    let places: BTreeMap<&Path, BTreeSet<&str>> =
        texts.iter().map(|(page, text)| (page.as_path(), attributes(text, "id").collect())).collect();
    let mut dead = Vec::new();
    for (page, text) in &texts {
        let folder = page.parent().unwrap_or(site);
        for target in
            attributes(text, "href").chain(attributes(text, "src")).filter(|target| is_local(target))
        {
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { plain(&folder.join(file)) };
            let known = places.get(file.as_path());
            let there =
                if place.is_empty() { file.exists() } else { known.is_some_and(|ids| ids.contains(place)) };
            if !there {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    Ok(dead)
}

/// The values of an attribute in a page.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begins = format!(" {name}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.find(&begins)? + begins.len();
        let (value, behind) = rest[at..].split_once('"')?;
        rest = behind;
        Some(value)
    })
}

/// The path without `..` and `.`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Scratch;

    #[test]
    fn dead_links_are_found() {
        let site = Scratch::new("site").unwrap();
        fs::create_dir_all(site.0.join("a")).unwrap();
        fs::write(site.0.join("x.html"), "<h1 id=\"top\"> <a href=\"a/y.html#z\"> <img src=\"p.png\">")
            .unwrap();
        fs::write(
            site.0.join("a/y.html"),
            "<a href=\"../x.html#top\"> <a href=\"#z\"> <a href=\"https://e\">",
        )
        .unwrap();
        let found: Vec<String> = links(&site.0)
            .unwrap()
            .iter()
            .filter_map(|line| line.rsplit(": ").next().map(str::to_owned))
            .collect();
        assert_eq!(found, ["#z", "a/y.html#z", "p.png"]);
        fs::write(site.0.join("m.md"), "[a](x.html) [b](no.md#x)\n```\n[c](no.md)\n```\n").unwrap();
        let found = of_pages(&site.0).unwrap();
        assert!(found.len() == 1 && found[0].ends_with("no.md#x"), "{found:?}");
    }
}
