//! Sources with many changes in them at once, each of which waits for its number to be asked for.

use std::ops::Range;

use super::sites::{Change, Site};

/// The module that the changed library asks which mutant it is.
pub const MODULE: &str = r#"//! Which mutant this process is: the number in `CUDNN_SHIM_MUTANT`, none without it; and which
//! changes it comes by, each a byte of the file that `CUDNN_SHIM_MUTANTS_REACHED` names.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

struct Process {
    active: usize,
    reached: &'static [AtomicU8],
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// Whether it is `number`.
pub(crate) fn is(number: usize) -> bool {
    let process = PROCESS.get_or_init(|| Process {
        active: std::env::var("CUDNN_SHIM_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0),
        reached: reached().unwrap_or_default(),
    });
    if let Some(reached) = process.reached.get(number) {
        reached.store(1, Ordering::Relaxed);
    }
    process.active == number
}

/// The file, which all processes of a test share, and which stays mapped.
fn reached() -> Option<&'static [AtomicU8]> {
    let file = OpenOptions::new().read(true).write(true).open(std::env::var_os("CUDNN_SHIM_MUTANTS_REACHED")?).ok()?;
    let length = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping of its own, of the file as long as it is, which nobody takes away.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        (at != libc::MAP_FAILED).then(|| std::slice::from_raw_parts(at.cast(), length))
    }
}
"#;

/// The environment variables that [`MODULE`] reads: which mutant it is, and the file for what is
/// reached.
pub const VARIABLE: &str = "CUDNN_SHIM_MUTANT";
pub const REACHED: &str = "CUDNN_SHIM_MUTANTS_REACHED";

/// A file with its changes.
pub struct Rewritten {
    pub text: String,
    /// The bytes that belong to each change; those of a change to an expression also without the
    /// expression as it was.
    spans: Vec<(Range<usize>, usize)>,
}

/// `text` with `changes`, which have numbers from 1 on and are in the order in which
/// [`super::sites::find`] returns them.
pub fn rewrite(text: &str, changes: &[(usize, &Site)]) -> Rewritten {
    let mut rewritten = Rewritten { text: String::new(), spans: Vec::new() };
    rewritten.part(text, 0..text.len(), changes);
    rewritten
}

impl Rewritten {
    /// Appends a part of the source with the changes inside it.
    fn part(&mut self, text: &str, part: Range<usize>, changes: &[(usize, &Site)]) {
        let mut at = part.start;
        let mut rest = changes;
        while let Some((_, first)) = rest.first() {
            let range = first.range.clone();
            let same = rest.iter().take_while(|(_, site)| site.range == range).count();
            let inside = rest.iter().take_while(|(_, site)| site.range.start < range.end).count();
            self.text.push_str(&text[at..range.start]);
            self.site(text, range.clone(), &rest[..same], &rest[same..inside]);
            at = range.end;
            rest = &rest[inside..];
        }
        self.text.push_str(&text[at..part.end]);
    }

    /// Appends an expression or a body with all of its own changes, and with those `inside` it.
    fn site(&mut self, text: &str, range: Range<usize>, own: &[(usize, &Site)], inside: &[(usize, &Site)]) {
        let start = self.text.len();
        let is_body = matches!(own[0].1.change, Change::Returns(_));
        self.text.push_str(if is_body { "{ " } else { "(" });
        for (number, site) in own {
            let start = self.text.len();
            self.text.push_str(&match &site.change {
                Change::Returns(value) => format!("if crate::mutant::is({number}) {{ return {value}; }} "),
                Change::Becomes(other) => format!("if crate::mutant::is({number}) {{ {other} }} else "),
            });
            self.spans.push((start..self.text.len(), *number));
        }
        if is_body {
            self.part(text, range.start + 1..range.end, inside);
        } else {
            self.text.push_str("{ ");
            self.part(text, range, inside);
            self.text.push_str(" })");
            let whole = start..self.text.len();
            self.spans.extend(own.iter().map(|(number, _)| (whole.clone(), *number)));
        }
    }

    /// The changes that a complaint about these bytes means: of the smallest span that has some of
    /// them; without such a span the closest one.
    pub fn blamed(&self, bytes: &Range<usize>) -> Vec<usize> {
        let key = |span: &Range<usize>| {
            let apart = span.start.saturating_sub(bytes.end).max(bytes.start.saturating_sub(span.end));
            (apart, span.len())
        };
        let best = self.spans.iter().map(|(span, _)| key(span)).min();
        self.spans.iter().filter(|(span, _)| Some(key(span)) == best).map(|&(_, number)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sites::{Functions, find};
    use super::*;

    /// The file with all changes of it; and each change as `number line: was -> becomes`.
    fn all(text: &str, functions: Functions) -> (Rewritten, Vec<String>) {
        let sites = find("a.rs", text, functions).expect("a source file");
        let numbered: Vec<(usize, &Site)> = (1..).zip(&sites).collect();
        let shown = numbered.iter().map(|(number, site)| {
            let change = match &site.change {
                Change::Becomes(other) => format!("{} -> {other}", &text[site.range.clone()]),
                Change::Returns(value) => format!("returns {value}"),
            };
            format!("{number} {}: {change}", site.line)
        });
        let shown = shown.collect();
        (rewrite(text, &numbered), shown)
    }

    #[test]
    fn expressions_and_bodies_are_changed_in_place() {
        let (rewritten, shown) =
            all("fn f(ä: i64, b: i64) -> bool {\n    ä * -b + 1 < 3 // ä\n}\n", Functions::All);
        assert_eq!(
            shown,
            [
                "1 1: returns true",
                "2 1: returns false",
                "3 2: ä * -b + 1 < 3 -> (ä * -b + 1) <= (3)",
                "4 2: ä * -b + 1 < 3 -> (ä * -b + 1) > (3)",
                "5 2: ä * -b + 1 -> (ä * -b) - (1)",
                "6 2: ä * -b -> (ä) + (-b)",
                "7 2: -b -> b",
            ]
        );
        let expected = "fn f(ä: i64, b: i64) -> bool { if crate::mutant::is(1) { return true; } \
            if crate::mutant::is(2) { return false; } \n    \
            (if crate::mutant::is(3) { (ä * -b + 1) <= (3) } else if crate::mutant::is(4) { (ä * -b + 1) > (3) } else { \
            (if crate::mutant::is(5) { (ä * -b) - (1) } else { (if crate::mutant::is(6) { (ä) + (-b) } else { \
            ä * (if crate::mutant::is(7) { b } else { -b }) }) + 1 }) < 3 }) // ä\n}\n";
        assert_eq!(rewritten.text, expected);
        assert!(syn::parse_file(&rewritten.text).is_ok());
    }

    #[test]
    fn what_the_compiler_computes_and_tests_stay() {
        let text = r#"
const A: usize = 1 + 2;
const fn g() -> bool { 1 < 2 }
unsafe fn h() -> bool { 1 < 2 }
#[cfg(test)]
mod tests { fn f() { 1 + 2; } }
#[cfg(not(target_arch = "x86_64"))]
fn other() -> bool { 1 < 2 }
impl fmt::Display for A { fn fmt(&self) -> bool { 1 < 2 } }
fn f(a: [u8; 1 + 2]) -> Vec<u8> {
    debug_assert!(1 < 2);
    if let Some(true) = a.get(0) && a.is_empty() {}
    match a { -1 => {} _ => {} }
    let b = [0; 1 + 2];
    unsafe { b.add(1 + 2) }
}
"#;
        assert_eq!(all(text, Functions::All).1, [""; 0]);
    }

    #[test]
    fn functions_are_chosen_by_name() {
        let text = "impl A { fn new(a: u8) -> Option<A> { !a; None } fn len(&self) -> usize { 1 + 2 } }";
        assert_eq!(all(text, Functions::Named("new")).1, ["1 1: returns None", "2 1: !a -> a"]);
    }

    #[test]
    fn complaints_are_of_the_smallest_change_around_them() {
        let (rewritten, _) = all("fn f(a: A, b: A) -> A { a + b < 2 }", Functions::All);
        let at = |word: &str| {
            let start = rewritten.text.find(word).expect("a word of it");
            rewritten.blamed(&(start..start + word.len()))
        };
        assert_eq!(
            (at("<= (2)"), at("> (2)"), at("- (b)"), at("a + b })")),
            (vec![1], vec![2], vec![3], vec![3])
        );
        assert_eq!(at("< 2"), [1, 2]);
        // Of nothing that is changed: the closest.
        assert_eq!(at("fn f"), [1, 2]);
    }
}
