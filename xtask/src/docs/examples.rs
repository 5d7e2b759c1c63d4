//! Examples of calls: statements of the C programs of the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::shell;

/// Programs of the repository that show how calls are made, by their names and texts.
pub struct Examples(Vec<(String, String)>);

/// The programs that are asked first, the plainest in front.
const FIRST: [&str; 16] = [
    "demo/digits.c",
    "demo/photo.c",
    "examples/sequences/letters.c",
    "examples/sequences/numbers.c",
    "c_tests/layers.c",
    "c_tests/transform.c",
    "c_tests/blocked.c",
    "c_tests/layouts.c",
    "c_tests/spatial_transformer.c",
    "c_tests/attention_training.c",
    "c_tests/attention.c",
    "c_tests/ctc.c",
    "c_tests/convolution_queries.c",
    "c_tests/convolution_directions.c",
    "c_tests/fused_operations.c",
    "examples/networks/network.cpp",
];

/// The folders of programs. What lies in folders below them is left out, but for `examples`.
const FOLDERS: [&str; 5] = ["demo", "examples", "examples/networks", "examples/sequences", "c_tests"];

/// Words of a statement that shows how a call is refused, and not how it is made.
const REFUSALS: [&str; 5] = ["BAD_PARAM", "NOT_SUPPORTED", "REFUSED(", "EXPECT(", "!= CUDNN"];

/// No example is longer.
const MOST_LINES: usize = 16;

impl Examples {
    /// Reads the programs.
    pub fn read() -> Result<Examples> {
        let mut files = FIRST.map(str::to_owned).to_vec();
        for folder in FOLDERS {
            let mut found = Vec::new();
            for entry in fs::read_dir(shell::root().join(folder))? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                let is_program = Path::new(&name)
                    .extension()
                    .is_some_and(|end| ["c", "cpp", "h", "hpp"].iter().any(|known| end == *known));
                found.extend(is_program.then(|| format!("{folder}/{name}")));
            }
            found.sort();
            // Files of functions that programs share come behind the programs.
            found.sort_by_key(|file| file.ends_with(".h"));
            found.retain(|file| !files.contains(file));
            files.extend(found);
        }
        let read = |file: String| {
            let text = fs::read_to_string(shell::root().join(&file)).with_context(|| format!("no {file}"))?;
            Ok((file, text))
        };
        files.into_iter().map(read).collect::<Result<_>>().map(Examples)
    }

    /// A statement that makes a call, and the program that it is from: the first one that is not
    /// about a refusal.
    pub fn of(&self, name: &str) -> Option<(&str, String)> {
        let mut second = None;
        for (file, text) in &self.0 {
            for at in uses(text, name) {
                let Some(statement) = statement(text, at, name) else { continue };
                if !REFUSALS.iter().any(|word| statement.contains(word)) {
                    return Some((file, statement));
                }
                second = second.or(Some((file.as_str(), statement)));
            }
        }
        second
    }
}

/// Where a program uses the name: in code, and neither in a comment, a macro nor a text.
fn uses<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).map(|(at, _)| at).filter(move |&at| {
        let (before, behind) = (&text[..at], &text[at + name.len()..]);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let end = behind.split('\n').next().unwrap_or_default();
        let whole = !before.ends_with(is_word) && !behind.starts_with(is_word);
        let commented = before.rfind("/*") > before.rfind("*/") || line.contains("//");
        let quoted = line.matches('"').count() % 2 == 1;
        let defined = line.trim_start().starts_with('#') || end.ends_with('\\') || is_declaration(line);
        whole && !commented && !quoted && !defined
    })
}

/// Whether the words in front of a name are a type, so that the name is declared there.
fn is_declaration(line: &str) -> bool {
    let words = line.trim_end();
    let last = words.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    words != line && !last.is_empty() && !["return", "else", "case"].contains(&last)
}

/// The statement around the name at `at`, without its indentation; `None` if it is too long to
/// show.
fn statement(text: &str, at: usize, name: &str) -> Option<String> {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    // A statement may begin lines before, behind the end of another one.
    let behind = text[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
    let spaces = text[behind..at].len() - text[behind..at].trim_start().len();
    let whole = &text[behind + spaces..at];
    let fits = behind + spaces < line && depth(whole) >= 0 && !whole.contains(['#', '/']);
    let begin =
        if fits { behind + spaces } else { line + text[line..at].len() - text[line..at].trim_start().len() };

    let mut open = 0;
    let len = text[at..].find(|c| {
        open += i32::from(c == '(') - i32::from(c == ')');
        open <= 0 && (c == ';' || c == '{')
    })?;
    let end = if text[at + len..].starts_with(';') { at + len + 1 } else { at + len };
    let first = text[..begin].rfind('\n').map_or(0, |end| end + 1);
    let indent = text[first..begin].chars().take_while(|c| *c == ' ').count();
    let statement = through_macro(text[begin..end].trim_end(), name);
    let lines = statement.lines().enumerate().map(|(number, line)| match number {
        0 => line,
        _ => {
            line.get(indent..).filter(|_| line.starts_with(&" ".repeat(indent))).unwrap_or(line.trim_start())
        }
    });
    let lines: Vec<&str> = lines.collect();
    (lines.len() <= MOST_LINES).then(|| lines.join("\n"))
}

fn depth(text: &str) -> i32 {
    text.chars().map(|c| i32::from(c == '(') - i32::from(c == ')')).sum()
}

/// `CALL(name, ...)`, by which programs look at the status, as the call that it makes.
fn through_macro(statement: &str, name: &str) -> String {
    for word in ["CALL", "DNN", "CUDNN"] {
        if let Some(arguments) = statement.strip_prefix(&format!("{word}({name}, ")) {
            // The other lines stand below the bracket, which has moved.
            let (from, to) = (" ".repeat(word.len() + 1), " ".repeat(name.len() + 1));
            let moved = arguments.replace(&format!("\n{from}"), &format!("\n{to}"));
            return format!("{name}({moved}");
        }
    }
    statement.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    fn example(program: &str, name: &str) -> Option<String> {
        Examples(vec![("a.c".to_owned(), program.to_owned())]).of(name).map(|(_, statement)| statement)
    }

    #[test]
    fn examples_are_whole_statements() {
        let program = "/* cudnnA(x) */\nint f(void) {\n    CHECK(cudnnA(1,\n                 2));\n}\n";
        assert_eq!(example(program, "cudnnA").unwrap(), "CHECK(cudnnA(1,\n             2));");
        assert!(example(program, "cudnnB").is_none());
        let program = "{\n    OK(\n        cudnnA(1));\n    if (cudnnB(2) == 0) {\n    }\n}";
        assert_eq!(example(program, "cudnnA").unwrap(), "OK(\n    cudnnA(1));");
        assert_eq!(example(program, "cudnnB").unwrap(), "if (cudnnB(2) == 0)");
    }

    #[test]
    fn a_call_through_a_macro_is_an_example() {
        let program = "{\n    CALL(cudnnA, one,\n         two);\n    TRY(l, cudnnB, x);\n}\n";
        assert_eq!(example(program, "cudnnA").unwrap(), "cudnnA(one,\n       two);");
        assert_eq!(example(program, "cudnnB").unwrap(), "TRY(l, cudnnB, x);");
    }

    #[test]
    fn what_only_names_a_call_is_no_example() {
        for text in [
            "#define X cudnnA(1);",
            "#define X(a) \\\n    cudnnA(a); \\\n    0;",
            "/* by\n   cudnnA(1); */",
            "x(\"cudnnA(1);\");",
            "cudnnStatus_t cudnnA(int a);",
            "cudnnAx(1); xcudnnA(1);",
        ] {
            assert_eq!(example(text, "cudnnA"), None, "{text}");
        }
    }

    #[test]
    fn a_call_that_works_comes_before_one_that_is_refused() {
        let program = "{\n    CHECK(cudnnA(0) == CUDNN_STATUS_BAD_PARAM);\n    OK(cudnnA(1));\n}\n";
        assert_eq!(example(program, "cudnnA").unwrap(), "OK(cudnnA(1));");
        let program = "{\n    CHECK(cudnnA(0) == CUDNN_STATUS_BAD_PARAM);\n}\n";
        assert_eq!(example(program, "cudnnA").unwrap(), "CHECK(cudnnA(0) == CUDNN_STATUS_BAD_PARAM);");
    }

    /// Every call that a program makes, by its name and a bracket or through a macro, has an
    /// example on its page.
    #[test]
    fn every_call_that_a_program_makes_has_an_example() {
        let examples = Examples::read().unwrap();
        let rows = tables::read_file(&shell::root().join("src/catalogue.tsv")).unwrap();
        let (mut with, mut without) = (0, Vec::new());
        for name in rows.iter().map(|row| &row["symbol"]) {
            let forms = [format!("{name}("), format!("({name},"), format!(", {name},")];
            let made = |line: &str| {
                let code = line.trim_start();
                let plain = !code.starts_with(['*', '/', '#']) && !code.ends_with('\\');
                plain
                    && forms.iter().any(|form| format!(" {code}").contains(form.as_str()))
                    && !code.starts_with("cudnnStatus_t ")
            };
            let used = examples.0.iter().any(|(_, text)| text.lines().any(made));
            match examples.of(name) {
                Some((_, statement)) => {
                    assert!(
                        statement.contains(name.as_str()) && statement.lines().count() <= MOST_LINES,
                        "{statement}"
                    );
                    with += 1;
                }
                None if used => without.push(name),
                None => {}
            }
        }
        assert_eq!(without, Vec::<&String>::new());
        assert!(with >= 240, "{with} calls have an example");
    }
}
