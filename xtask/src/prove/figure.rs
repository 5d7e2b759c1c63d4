//! What a check has done, read from the lines that it prints.

use anyhow::{Result, bail};

/// Mutants of a sample that may survive, of a hundred.
const SURVIVORS: f64 = 5.0;

/// Which lines of its output tell what a check has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// The results of test programs, summed.
    Tests,
    /// The last line that has these words.
    Last(&'static str),
    /// The line that sums a sample of mutants up.
    Noticed,
}

/// The figure as far as lines have been seen.
pub struct Found {
    figure: Figure,
    last: Option<String>,
    tests: [u64; 2],
}

impl Found {
    pub fn new(figure: Figure) -> Found {
        Found { figure, last: None, tests: [0; 2] }
    }

    pub fn look(&mut self, line: &str) {
        let words = match self.figure {
            Figure::Tests => {
                for (sum, words) in self.tests.iter_mut().zip([" passed", " failed"]) {
                    *sum += result(line, words).unwrap_or(0);
                }
                return;
            }
            Figure::Last(words) => words,
            Figure::Noticed => " % noticed",
        };
        if line.contains(words) {
            self.last = Some(line.trim().to_owned());
        }
    }

    /// The figure; none if no line had it.
    ///
    /// # Errors
    /// The figure says that the check has not passed.
    fn judged(self) -> Result<Option<String>> {
        match self.figure {
            Figure::Tests if self.tests == [0; 2] => Ok(None),
            Figure::Tests if self.tests[1] > 0 => bail!("{} tests failed", self.tests[1]),
            Figure::Tests => Ok(Some(format!("{} tests", self.tests[0]))),
            Figure::Last(_) => Ok(self.last),
            Figure::Noticed => {
                let Some(line) = self.last else { return Ok(None) };
                let share = line
                    .rsplit_once(" % noticed")
                    .and_then(|(head, _)| head.rsplit(' ').next()?.parse().ok());
                match share {
                    Some(share) if 100.0 - f64::min(share, 100.0) <= SURVIVORS => Ok(Some(line)),
                    Some(_) => bail!("more than {SURVIVORS} % survive: {line}"),
                    None => Ok(None),
                }
            }
        }
    }

    /// The figure of a check whose command has succeeded.
    ///
    /// # Errors
    /// There is none, or it says that the check has not passed.
    pub fn figure(self) -> Result<String> {
        match self.judged()? {
            Some(figure) => Ok(figure),
            None => bail!("no line of the output has the figure"),
        }
    }
}

/// The number before `words` in a line that ends a test program.
fn result(line: &str, words: &str) -> Option<u64> {
    let (head, _) = line.strip_prefix("test result: ")?.split_once(words)?;
    head.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(figure: Figure, lines: &[&str]) -> Result<String> {
        let mut found = Found::new(figure);
        lines.iter().for_each(|line| found.look(line));
        found.figure()
    }

    #[test]
    fn tests_are_summed_and_one_that_failed_is_an_error() {
        let passed = "test result: ok. 41 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(of(Figure::Tests, &[passed, "another line", passed]).unwrap(), "82 tests");
        let failed = "test result: FAILED. 40 passed; 1 failed; 0 ignored";
        assert!(of(Figure::Tests, &[passed, failed]).is_err());
        assert!(of(Figure::Tests, &["41 passed"]).is_err());
    }

    #[test]
    fn the_last_line_of_its_kind_counts() {
        let lines = ["10 calls; 0 faults", "nothing", " 25 calls; 0 faults"];
        assert_eq!(of(Figure::Last(" calls;"), &lines).unwrap(), "25 calls; 0 faults");
        assert!(of(Figure::Last(" problems"), &lines).is_err());
    }

    #[test]
    fn a_sample_with_too_many_survivors_is_an_error() {
        let line = |share: &str| {
            format!("seed 1: 400 mutants, 380 noticed (basics 380), 20 survive, {share} % noticed")
        };
        assert!(of(Figure::Noticed, &[&line("95.0")]).is_ok());
        assert!(of(Figure::Noticed, &[&line("94.9")]).is_err());
        assert!(of(Figure::Noticed, &["seed 1: all % noticed"]).is_err());
    }
}
