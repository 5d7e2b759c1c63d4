//! The one token that problems add to those of the recorded calls: a buffer of exactly these bytes
//! around its pointer.
//!
//! `B0:f32:-12..400:real:sum27` is a buffer B0 of f32 that has the bytes from -12 to 400 around the
//! pointer, filled with real numbers, whose elements are sums of 27 products in the end. The bytes
//! are chosen by the whole line, so that a line says everything. A name with a prime (`B2'`) holds
//! at first what its namesake does.

use cudnn::dtype::Scalar;
use half::{bf16, f16};

use testkit::random::Rng;

/// What a buffer holds before the calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Integers from -3 to 3.
    Whole,
    /// Integers from 1 to 3.
    Positive,
    /// Between -1 and 1.
    Real,
    /// Between -1/8 and 1/8: weights of networks whose results depend smoothly on what goes in.
    Small,
    /// These integers.
    List(Vec<i64>),
    /// The same, and every tenth element this much larger.
    Far(f64),
    /// Any bits.
    Bits,
    /// Below all numbers: what a mask makes of a score.
    Infinite,
    /// NaN, or 0x5a in types without.
    Nan,
    /// Zeros but for ones at these places.
    Ones(Vec<usize>),
    /// NaN at first, and anything in the end.
    Scratch,
}

/// How its elements are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// Bit by bit.
    Bits,
    /// Nearly: functions of sums, whose order is each core's own.
    Near,
    /// Only among runs of the same core.
    Loose,
    /// Sums of so many products, in binary32 or, if wide, in binary64; of none: equal numbers.
    Sum { terms: u32, wide: bool, transformed: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    pub name: String,
    pub scalar: Scalar,
    pub low: i64,
    pub high: i64,
    pub content: Content,
    pub check: Check,
}

fn scalar(name: &str) -> Option<Scalar> {
    Scalar::ALL.into_iter().find(|scalar| scalar.name() == name)
}

impl Buffer {
    /// Reads a token; `None` if it is none of a buffer.
    pub fn parse(token: &str) -> Option<Buffer> {
        let parts: Vec<&str> = token.split(':').collect();
        let [name, of, span, content, check @ ..] = parts.as_slice() else { return None };
        let (low, high) = span.split_once("..")?;
        let content = match *content {
            "whole" => Content::Whole,
            "positive" => Content::Positive,
            "real" => Content::Real,
            "small" => Content::Small,
            "bits" => Content::Bits,
            "-inf" => Content::Infinite,
            "nan" => Content::Nan,
            "scratch" => Content::Scratch,
            other => match other.split_once('=') {
                None => Content::Far(other.strip_prefix("far")?.parse().ok()?),
                Some(("ones", list)) => {
                    Content::Ones(list.split(',').map(str::parse).collect::<Result<_, _>>().ok()?)
                }
                Some(("list", list)) => {
                    Content::List(list.split(',').map(str::parse).collect::<Result<_, _>>().ok()?)
                }
                Some(_) => return None,
            },
        };
        let check = match check {
            [] => Check::Bits,
            ["near"] => Check::Near,
            ["loose"] => Check::Loose,
            [check] => {
                let (rest, transformed) =
                    check.strip_suffix('w').map_or((*check, false), |rest| (rest, true));
                let (wide, terms) = match (rest.strip_prefix("sum"), rest.strip_prefix("wide")) {
                    (Some(terms), _) => (false, terms),
                    (_, Some(terms)) => (true, terms),
                    _ => return None,
                };
                Check::Sum { terms: terms.parse().ok()?, wide, transformed }
            }
            _ => return None,
        };
        let (low, high) = (low.parse().ok()?, high.parse().ok()?);
        Some(Buffer { name: (*name).to_owned(), scalar: scalar(of)?, low, high, content, check })
    }

    /// The same with so many times the bytes on either side of its pointer.
    pub fn widened(mut self, times: i64) -> Buffer {
        (self.low, self.high) = (self.low * times, self.high * times);
        self
    }

    pub fn len(&self) -> usize {
        (self.high - self.low) as usize
    }

    /// Fills `bytes` with numbers of this line; their magnitudes if that is asked for.
    pub fn fill(&self, bytes: &mut [u8], line: u64, magnitudes: bool) {
        let mut rng = Rng(line ^ hash(self.name.trim_end_matches('\'')));
        let size = self.scalar.size();
        if matches!(self.content, Content::Bits) {
            bytes.iter_mut().for_each(|byte| *byte = rng.word() as u8);
            return;
        }
        for (index, element) in bytes.chunks_exact_mut(size).enumerate() {
            let real = |rng: &mut Rng| (rng.word() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            let value = match &self.content {
                Content::Whole => rng.below(7) as f64 - 3.0,
                Content::Positive => 1.0 + rng.below(3) as f64,
                Content::Real => real(&mut rng),
                Content::Small => real(&mut rng) / 8.0,
                Content::List(list) => list[index] as f64,
                Content::Far(factor) => real(&mut rng) * if rng.below(10) == 0 { *factor } else { 1.0 },
                Content::Ones(places) => f64::from(u8::from(places.contains(&index))),
                Content::Infinite => f64::NEG_INFINITY,
                Content::Nan | Content::Scratch | Content::Bits => f64::NAN,
            };
            put(self.scalar, element, if magnitudes { value.abs() } else { value });
        }
    }
}

/// FNV-1a.
pub fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Stores a number; NaN in an integer type is 0x5a in each byte.
fn put(scalar: Scalar, element: &mut [u8], value: f64) {
    match scalar {
        Scalar::F32 => element.copy_from_slice(&(value as f32).to_ne_bytes()),
        Scalar::F64 => element.copy_from_slice(&value.to_ne_bytes()),
        Scalar::F16 => element.copy_from_slice(&f16::from_f64(value).to_ne_bytes()),
        Scalar::Bf16 => element.copy_from_slice(&bf16::from_f64(value).to_ne_bytes()),
        _ if value.is_nan() => element.fill(0x5a),
        Scalar::U8 => element[0] = value.abs() as u8,
        _ => {
            let bytes = (value as i64).to_ne_bytes();
            element.copy_from_slice(&bytes[..element.len()]);
        }
    }
}

/// The number that an element holds.
pub fn get(scalar: Scalar, element: &[u8]) -> f64 {
    let four = || <[u8; 4]>::try_from(element).expect("four bytes");
    let eight = || <[u8; 8]>::try_from(element).expect("eight bytes");
    let two = || <[u8; 2]>::try_from(element).expect("two bytes");
    match scalar {
        Scalar::F32 => f32::from_ne_bytes(four()).into(),
        Scalar::F64 => f64::from_ne_bytes(eight()),
        Scalar::F16 => f16::from_ne_bytes(two()).into(),
        Scalar::Bf16 => bf16::from_ne_bytes(two()).into(),
        Scalar::I32 => i32::from_ne_bytes(four()).into(),
        Scalar::I64 => i64::from_ne_bytes(eight()) as f64,
        Scalar::I8 => (element[0] as i8).into(),
        _ => element[0].into(),
    }
}
