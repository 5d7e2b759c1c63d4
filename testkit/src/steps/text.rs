//! A line of text as a reader goes through it: words, numbers, types, factors and loops.

use std::str::FromStr;

use cudnn::dtype::Scalar;
use cudnn::layout::{Axis, LoopNest, MAX_AXES};
use cudnn::ops::{Compute, Scaling};

use super::parse::Result;

/// The rest of a line.
pub struct Text<'a>(pub &'a str);

impl<'a> Text<'a> {
    pub fn fail<T>(&self, expected: &str) -> Result<T> {
        let rest: String = self.0.chars().take(40).collect();
        Err(format!("{expected} is expected at `{rest}`"))
    }

    pub fn eat(&mut self, prefix: &str) -> bool {
        let rest = self.0.strip_prefix(prefix);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    pub fn expect(&mut self, prefix: &str) -> Result<()> {
        if self.eat(prefix) { Ok(()) } else { self.fail(&format!("`{prefix}`")) }
    }

    /// What comes before the first character for which `ends` holds; not empty.
    pub fn until(&mut self, expected: &str, ends: impl Fn(char) -> bool) -> Result<&'a str> {
        let (found, rest) = self.0.split_at(self.0.find(ends).unwrap_or(self.0.len()));
        if found.is_empty() {
            return self.fail(expected);
        }
        self.0 = rest;
        Ok(found)
    }

    pub fn word(&mut self, expected: &str) -> Result<&'a str> {
        self.until(expected, |c| !c.is_ascii_alphanumeric())
    }

    pub fn number<T: FromStr>(&mut self, expected: &str) -> Result<T> {
        let before = self.0;
        let (found, rest) = self.0.split_at(number_len(self.0));
        self.0 = rest;
        found.strip_prefix('+').unwrap_or(found).parse().or_else(|_| {
            self.0 = before;
            self.fail(expected)
        })
    }

    /// ` name=` and a number.
    pub fn named<T: FromStr>(&mut self, name: &str) -> Result<T> {
        self.expect(&format!(" {name}="))?;
        self.number(&format!("the number {name}"))
    }

    pub fn scalar(&mut self) -> Result<Scalar> {
        let before = self.0;
        let name = self.until("a type", |c| !c.is_ascii_alphanumeric() && c != '_')?;
        match Scalar::ALL.into_iter().find(|scalar| scalar.name() == name) {
            Some(scalar) => Ok(scalar),
            None => {
                self.0 = before;
                self.fail("a type")
            }
        }
    }

    pub fn compute(&mut self) -> Result<Compute> {
        match self.scalar()? {
            Scalar::F32 => Ok(Compute::Single),
            Scalar::F64 => Ok(Compute::Double),
            _ => self.fail("f32 or f64 before this"),
        }
    }

    /// ` alpha=A beta=B`
    pub fn scaling(&mut self) -> Result<Scaling> {
        Ok(Scaling { alpha: self.named("alpha")?, beta: self.named("beta")? })
    }

    /// The same; a move if it is not there.
    pub fn optional_scaling(&mut self) -> Result<Scaling> {
        if self.0.starts_with(" alpha=") { self.scaling() } else { Ok(Scaling::MOVE) }
    }

    /// One of these, as it shows itself; the longest that fits.
    pub fn one_of<T: Copy>(&mut self, all: &[T], show: impl Fn(&T) -> String, expected: &str) -> Result<T> {
        let fits =
            all.iter().map(|each| (show(each), *each)).filter(|(name, _)| self.0.starts_with(name.as_str()));
        match fits.max_by_key(|(name, _)| name.len()) {
            Some((name, each)) => {
                self.expect(&name)?;
                Ok(each)
            }
            None => self.fail(expected),
        }
    }

    /// Loops as a nest shows them: `dst/src: 2*(6,1) 3*(2,2) +0,+0`.
    pub fn nest<const N: usize>(&mut self) -> Result<LoopNest<N>> {
        self.expect("dst")?;
        for k in 1..N {
            self.expect(&if N == 2 { "/src".to_owned() } else { format!("/src{k}") })?;
        }
        self.expect(":")?;
        let mut nest = LoopNest::new(&[], [0; N]);
        loop {
            self.expect(" ")?;
            if self.0.starts_with(['+', '-']) {
                break;
            }
            if nest.axes().len() == MAX_AXES {
                return self.fail("no further loop");
            }
            let extent = self.extent()?;
            self.expect("*(")?;
            nest.push(Axis { extent, strides: self.list::<N>()? });
            self.expect(")")?;
        }
        nest.offsets = self.list()?;
        Ok(nest)
    }

    pub fn extent(&mut self) -> Result<i64> {
        let before = self.0;
        match self.number("an extent")? {
            extent if extent > 0 => Ok(extent),
            _ => {
                self.0 = before;
                self.fail("an extent above 0")
            }
        }
    }

    pub fn list<const N: usize>(&mut self) -> Result<[i64; N]> {
        let mut list = [0; N];
        for (k, number) in list.iter_mut().enumerate() {
            if k > 0 {
                self.expect(",")?;
            }
            *number = self.number("a number of scalars")?;
        }
        Ok(list)
    }
}

/// Bytes of the number that a text begins with: a sign, then digits with a point and an exponent,
/// or inf, or NaN.
fn number_len(text: &str) -> usize {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let sign = usize::from(text.starts_with(['+', '-']));
    let unsigned = &text[sign..];
    if unsigned.starts_with("inf") || unsigned.starts_with("NaN") {
        return sign + 3;
    }
    let mut len = digits(unsigned);
    if unsigned[len..].starts_with('.') {
        len += 1 + digits(&unsigned[len + 1..]);
    }
    if let Some(exponent) = unsigned[len..].strip_prefix('e') {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        len += match digits(&exponent[sign..]) {
            0 => 0,
            digits => 1 + sign + digits,
        };
    }
    sign + len
}
