//! The text of the recorded cases: one case per line, steps of a call and what the original
//! answered to it.

use std::fs;
use std::path::{Path, PathBuf};

/// One call and its observation: the status (or string) first, then one token per output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The C name without the leading `cudnn`.
    pub function: String,
    /// All C arguments, in order, as tokens.
    pub args: Vec<String>,
    /// What the original answered, as tokens.
    pub observed: Vec<String>,
}

impl Step {
    /// The call as it stands in the file, without the observation.
    pub fn call(&self) -> String {
        let mut text = self.function.clone();
        for arg in &self.args {
            text.push(' ');
            text.push_str(arg);
        }
        text
    }

    /// The status the original returned; 0 for `GetErrorString`, whose first token is a string.
    pub fn status(&self) -> i64 {
        self.observed[0].parse().unwrap_or(0)
    }

    /// The integer value of argument `index`.
    pub fn int(&self, index: usize) -> Option<i64> {
        self.args.get(index)?.parse().ok()
    }

    /// The elements of array argument `index`.
    pub fn ints(&self, index: usize) -> Option<Vec<i64>> {
        array(self.args.get(index)?)
    }
}

/// The elements of `[1,2,3]`; `None` for anything else.
pub fn array(token: &str) -> Option<Vec<i64>> {
    let inner = token.strip_prefix('[')?.strip_suffix(']')?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|element| element.parse().ok()).collect()
}

/// One recorded case: steps that run in order, starting from nothing.
#[derive(Clone, Debug)]
pub struct Case {
    /// The case's name in its file.
    pub id: String,
    /// The calls, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Parses one line; the error says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut columns = line.split('\t');
        let id = columns.next().filter(|id| !id.is_empty()).ok_or("no case id")?.to_owned();
        let steps = columns
            .map(|column| {
                let (call, observed) =
                    column.split_once(" = ").ok_or_else(|| format!("no ` = ` in {column:?}"))?;
                let mut tokens = call.split(' ').map(str::to_owned);
                let function = tokens.next().unwrap_or_default();
                let args = tokens.collect();
                Ok(Step { function, args, observed: observed.split(' ').map(str::to_owned).collect() })
            })
            .collect::<Result<Vec<_>, String>>()?;
        if steps.is_empty() { Err(format!("{id}: no steps")) } else { Ok(Self { id, steps }) }
    }

    /// The calls without observations: what a child process needs to know.
    pub fn calls(&self) -> String {
        self.steps.iter().map(Step::call).collect::<Vec<_>>().join("\t")
    }
}

/// One file of recorded cases.
pub struct Area {
    /// File name below the data directory, without `.tsv`.
    pub name: String,
    /// The recorded cases.
    pub cases: Vec<Case>,
    /// Whether the file holds behaviour that no sane caller depends on.
    pub quirk: bool,
}

/// All recorded files below `dir`, in order of their names, the quirks last.
pub fn areas(dir: &Path) -> Vec<Area> {
    let mut areas = Vec::new();
    for (dir, quirk) in [(dir.to_path_buf(), false), (dir.join("quirks"), true)] {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&dir).expect("recorded cases").map(|entry| entry.expect("entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "tsv"));
        paths.retain(|path| path.file_stem().is_some_and(|stem| stem != "departures"));
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path).expect("recorded cases");
            let stem = path.file_stem().expect("file name").to_string_lossy().into_owned();
            let name = if quirk { format!("quirks/{stem}") } else { stem };
            let cases = text
                .lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
                .map(|line| Case::parse(line).unwrap_or_else(|error| panic!("{name}: {error}")))
                .collect();
            areas.push(Area { name, cases, quirk });
        }
    }
    areas
}
