//! The links of pages: from where they lie in the repository to where the site has them, and from
//! the names of calls to their pages.

use std::collections::BTreeSet;

use super::TAKEN;

/// A page of `docs/` with its links as the site has them; of one that leads out of the site its
/// words stay.
pub fn of_docs(page: &str) -> String {
    each_target(page, |target| match target.strip_prefix("../") {
        Some(file) => taken(file),
        None => Some(target.to_owned()),
    })
}

/// The same of a page that lies in the root of the repository.
pub fn of_root(page: &str) -> String {
    each_target(page, |target| match target.strip_prefix("docs/") {
        Some(page) => Some(page.to_owned()),
        None if target.starts_with("http") || target.starts_with('#') => Some(target.to_owned()),
        None => taken(target),
    })
}

/// What the site calls a file of the repository; `None` if it does not take it.
fn taken(file: &str) -> Option<String> {
    let (path, part) = file.split_at(file.find('#').unwrap_or(file.len()));
    TAKEN.iter().find(|(from, _)| *from == path).map(|(_, to)| format!("{to}{part}"))
}

/// The text with every link where `kept` says it leads.
fn each_target(text: &str, kept: impl Fn(&str) -> Option<String>) -> String {
    let mut pieces = text.split("](");
    let mut linked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let target = piece.split_once(')').zip(linked.rfind('['));
        match target.map(|((target, behind), start)| (kept(target), behind, start)) {
            Some((Some(target), behind, _)) => linked += &format!("]({target}){behind}"),
            Some((None, behind, start)) => {
                linked.remove(start);
                linked += behind;
            }
            None => linked = linked + "](" + piece,
        }
    }
    linked
}

/// The text with the names of calls as links to their pages, which lie in `folder`: words and spans
/// of code, but not in blocks of code, headings or other links. The page of the call `own` does not
/// link to itself.
pub fn to_calls(text: &str, names: &BTreeSet<&str>, folder: &str, own: &str) -> String {
    let mut linked = String::new();
    let mut code = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        if code || fence || line.starts_with('#') {
            linked += line;
        } else {
            linked += &to_calls_of_line(line, names, folder, own);
        }
        linked.push('\n');
    }
    linked
}

fn to_calls_of_line(line: &str, names: &BTreeSet<&str>, folder: &str, own: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let link = |shown: &str, name: &str| match names.contains(name) && name != own {
        true => format!("[{shown}]({folder}{name}.md)"),
        false => shown.to_owned(),
    };
    let mut linked = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '[' => of_link(rest).unwrap_or(1),
            '`' => rest[1..].find('`').map_or(1, |end| end + 2),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (piece, behind) = rest.split_at(len);
        linked += &match first {
            '`' => {
                let inside = piece.trim_matches('`');
                link(piece, inside.split(|c| !is_word(c)).next().unwrap_or_default())
            }
            _ => link(piece, piece),
        };
        rest = behind;
    }
    linked
}

/// The length of the link that the text begins with.
fn of_link(text: &str) -> Option<usize> {
    let words = text.find("](")?;
    // Another bracket that opens before is a link of its own.
    if text[1..words].contains('[') {
        return None;
    }
    Some(words + text[words..].find(')')? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_the_site_has_things() {
        let page = "![p](../demo/digits.png) [x](../src/x.rs) [m](../MATRIX.md#a) [z](z.md#y)\n";
        assert_eq!(of_docs(page), "![p](pictures/digits.png) x [m](MATRIX.md#a) [z](z.md#y)\n");
        let page = "See [c](docs/c.md), [`d`](src/d.rs), [m](MATRIX.md), [f](#f) and [e](https://e).";
        assert_eq!(of_root(page), "See [c](c.md), `d`, [m](MATRIX.md), [f](#f) and [e](https://e).");
    }

    #[test]
    fn names_of_calls_become_links() {
        let names = BTreeSet::from(["cudnnA", "cudnnB"]);
        let to = |text: &str| to_calls(text, &names, "c/", "cudnnB");
        assert_eq!(to("as cudnnA, cudnnAx"), "as [cudnnA](c/cudnnA.md), cudnnAx\n");
        assert_eq!(to("`cudnnA(Ex)` `x cudnnA`"), "[`cudnnA(Ex)`](c/cudnnA.md) `x cudnnA`\n");
        assert_eq!(to("[cudnnA](x.md) [0] cudnnB"), "[cudnnA](x.md) [0] cudnnB\n");
        assert_eq!(to("# cudnnA\n```c\ncudnnA\n```"), "# cudnnA\n```c\ncudnnA\n```\n");
    }
}
