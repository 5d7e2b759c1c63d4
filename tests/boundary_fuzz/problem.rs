//! A problem is a line of calls in the language of the recordings (`tests/data/oracle/README.md`),
//! with `; ` between them. It runs on the CPU core and on the reference core, and what both leave
//! in its buffers is compared.
//!
//! Beside the recorded tokens there are the buffers of [`Buffer`], and `told`: the last number that
//! a call answered, as a number or, in `W0:told`, as the size of a workspace. A query of several
//! numbers names them, `@=w`, and `$w` stands for one of them in later calls. `Hold` is no call:
//! its buffers are there for those that follow. Nor is `Lists`: its name stands for a
//! `std::vector<std::vector<int64_t>>` of the lists behind it. `H0` is the handle.

use std::collections::BTreeMap;

use cudnn::dtype::Scalar;

use crate::buffer::{Buffer, Check, Content, get, hash};
use crate::call::{Library, Machine};
use crate::lists::Lists;
use testkit::pages::{Pages, Side};

/// What every problem is run on: the handles are made once.
pub struct Bench {
    library: Library,
    /// How many times the bytes of its token a buffer has.
    pub room: i64,
    /// On the core that is tested and on the reference core.
    handles: [u64; 2],
}

/// The buffers of a line, by name.
pub type Buffers = BTreeMap<String, (Buffer, Pages)>;

/// Makes one call of a line, with the buffers that were named so far, and returns its answer.
pub type Caller<'a> = dyn FnMut(&mut dyn FnMut() -> Vec<String>, &Buffers) -> Vec<String> + 'a;

/// A run of a line: what the calls answered, and the buffers after them.
pub struct Run {
    pub answers: Vec<String>,
    /// The text of the error that ended it.
    pub reason: String,
    pub buffers: Buffers,
}

impl Run {
    /// What is other than in `want`, a run of the same line; scratch may be.
    pub fn differs_from(&self, want: &Run, line: &str) -> Option<String> {
        let other = self.answers.iter().zip(&want.answers).position(|(got, want)| got != want);
        if let Some(at) = other.or((self.answers.len() != want.answers.len()).then_some(0)) {
            let (got, call) = (&self.answers[at], line.split("; ").nth(at).unwrap_or(""));
            return Some(format!("{call} answers {got}, not {}", want.answers[at]));
        }
        self.results().find_map(|(name, pages)| {
            let at = first_difference(pages.bytes(), want.buffers[name].1.bytes())?;
            Some(format!("byte {at} of {name} is another one"))
        })
    }

    /// A hash of all results.
    pub fn digest(&self) -> u64 {
        self.results().fold(0, |digest, (name, pages)| digest_with(digest, name, pages.bytes()))
    }

    /// The buffers but scratch.
    fn results(&self) -> impl Iterator<Item = (&str, &Pages)> {
        let kept = self.buffers.iter().filter(|(_, (buffer, _))| buffer.content != Content::Scratch);
        kept.map(|(name, (_, pages))| (name.as_str(), pages))
    }
}

/// What another thread may read while this one waits for it.
pub struct Lent<'a, T>(pub &'a T);

// SAFETY: the thread that lends it waits, or is not there any more in the process that reads it.
unsafe impl<T> Send for Lent<'_, T> {}

/// What became of a problem that showed no fault.
pub struct Verdict {
    /// A hash of all results, for comparison with other machines.
    pub digest: u64,
    /// Why both cores refused it, if they did.
    pub refused: Option<String>,
    /// How often something was done to it: a call had no memory, a signal arrived, a child was
    /// forked, a call of the driver failed.
    pub disturbances: usize,
}

pub const REFUSED: &str = "3000";

impl Bench {
    pub fn new(library: Library, tested: &str) -> Bench {
        let handles = [tested, "reference"].map(|core| {
            // SAFETY: no other thread is there yet.
            unsafe { std::env::set_var("CUDNN_SHIM_BACKEND", core) };
            let mut machine = Machine::default();
            let answer = machine.call(&library, "Create H0");
            assert_eq!(answer[0], "0", "no handle on the {core} core");
            machine.value("H0").expect("a handle")
        });
        // The calls without a handle compute on the core that is asked for when the first one
        // comes. SAFETY: as above.
        unsafe { std::env::set_var("CUDNN_SHIM_BACKEND", tested) };
        Bench { library, room: 1, handles }
    }

    /// What the library says of the call before.
    pub fn last_error(&self) -> String {
        let answer = Machine::default().call(&self.library, "GetLastErrorString @200 200");
        let digits: Vec<u8> = answer.last().map(|text| text.bytes().collect()).unwrap_or_default();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let text: Vec<u8> = digits.chunks(2).map_while(byte).take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Runs a line on one of the two cores.
    fn run(&self, line: &str, core: usize, magnitudes: bool) -> Run {
        self.run_by(line, core, magnitudes, &mut |call, _| call())
    }

    /// Runs a line on the core that is tested; `caller` makes its calls.
    pub fn run_tested(&self, line: &str, caller: &mut Caller<'_>) -> Run {
        self.run_by(line, 0, false, caller)
    }

    fn run_by(&self, line: &str, core: usize, magnitudes: bool, caller: &mut Caller<'_>) -> Run {
        let seed = hash(line);
        let mut machine = Machine::default();
        machine.point("H0", self.handles[core]);
        let mut run = Run { answers: Vec::new(), reason: String::new(), buffers: BTreeMap::new() };
        let (mut told, mut made) = ("0".to_owned(), Vec::new());
        let mut vectors = Vec::new();
        let mut named: BTreeMap<String, String> = BTreeMap::new();
        for call in line.split("; ") {
            let mut words: Vec<String> = call.split(' ').map(str::to_owned).collect();
            if let [name, of @ ..] = &words[1..]
                && words[0] == "Lists"
            {
                let lists = Lists::new(of);
                machine.point(name, lists.address());
                vectors.push(lists);
                run.answers.push("0".to_owned());
                continue;
            }
            let mut asked = Vec::new();
            for word in &mut words[1..] {
                if let Some((output, name)) = word.clone().split_once('=').filter(|_| word.starts_with('@')) {
                    asked.push(format!("${name}"));
                    output.clone_into(word);
                }
                if word.contains('$') {
                    named.iter().for_each(|(name, number)| *word = word.replace(name, number));
                }
                if word == "told" {
                    word.clone_from(&told);
                    continue;
                }
                let workspace = word.strip_suffix(":told");
                let token = workspace.map(|name| format!("{name}:u8:0..{told}:scratch"));
                if let Some(buffer) = Buffer::parse(token.as_deref().unwrap_or(word)) {
                    word.clone_from(&buffer.name);
                    run.buffers.entry(buffer.name.clone()).or_insert_with(|| {
                        let side = if ((hash(&buffer.name) ^ seed) >> 17) & 1 == 0 {
                            Side::Begin
                        } else {
                            Side::End
                        };
                        // Memory of the library's own begins at a multiple of any element.
                        let size = if buffer.content == Content::Scratch { 8 } else { 1 };
                        let wide = buffer.clone().widened(self.room);
                        let mut pages = Pages::new(wide.len().next_multiple_of(size), side);
                        let begin = (buffer.low - wide.low) as usize;
                        buffer.fill(&mut pages.bytes_mut()[begin..][..buffer.len()], seed, magnitudes);
                        (wide, pages)
                    });
                }
                // The pointer of a buffer, and so many bytes behind it.
                let (name, offset) = word.split_once('+').unwrap_or((word, "0"));
                if let (Some((buffer, pages)), Ok(offset)) = (run.buffers.get(name), offset.parse::<i64>()) {
                    let at = (pages.address() as i64).wrapping_add(offset - buffer.low);
                    machine.point(word, at as u64);
                }
            }
            if words[0] == "Hold" {
                run.answers.push("0".to_owned());
                continue;
            }
            let text = words.join(" ");
            let answer = caller(&mut || machine.call(&self.library, &text), &run.buffers);
            named.extend(asked.into_iter().zip(answer.iter().skip(1).cloned()));
            if let Some(number) = answer.last().filter(|_| answer.len() > 1 && call.ends_with('@')) {
                told.clone_from(number);
            }
            if words[0] == "BackendCreateDescriptor" {
                made.push(format!("BackendDestroyDescriptor {}", words[2]));
            }
            if let [create, register] = words.as_slice()
                && let Some(kind) = create.strip_prefix("Create")
            {
                made.push(format!("Destroy{kind} {register}"));
            }
            run.answers.push(answer.join(" "));
            let fails = answer[0] != "0" || answer.iter().any(|token| token.starts_with('!'));
            if fails {
                run.reason = self.last_error();
                break;
            }
        }
        made.iter().for_each(|call| _ = machine.call(&self.library, call));
        run
    }

    /// Runs a line on both cores.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(&self, line: &str) -> Result<Verdict, String> {
        let got = self.run(line, 0, false);
        let want = self.run(line, 1, false);
        let (last, at) = (got.answers.last().expect("calls"), got.answers.len() - 1);
        let call =
            || line.split("; ").nth(at).and_then(|call| call.split(' ').next()).unwrap_or("").to_owned();
        if got.answers != want.answers {
            let other = want.answers.get(at).map_or("nothing", String::as_str);
            return Err(format!(
                "{} answers {last} ({}), the reference {other} ({})",
                call(),
                got.reason,
                want.reason
            ));
        }
        let refused = last == REFUSED;
        let answered = at + 1 == line.split("; ").count() && last.split(' ').next() == Some("0");
        if !answered && !refused {
            return Err(format!("{} answers {last}: {}", call(), got.reason));
        }
        let is_sum = |(_, (buffer, _)): (&String, &(Buffer, Pages))| {
            matches!(buffer.check, Check::Sum { terms: 1.., .. })
        };
        let sizes = got.buffers.iter().any(is_sum).then(|| self.run(line, 1, true));
        let mut digest = 0;
        for (name, (buffer, pages)) in &got.buffers {
            if buffer.content == Content::Scratch {
                continue;
            }
            digest = digest_with(digest, name, pages.bytes());
            let reference = want.buffers[name].1.bytes();
            if refused {
                let mut before = vec![0; buffer.len()];
                buffer.fill(&mut before, hash(line), false);
                if before != pages.bytes() {
                    return Err(format!("{} is refused, and has written to {name}", call()));
                }
                continue;
            }
            let sizes = sizes.as_ref().and_then(|run| run.buffers.get(name)).map(|(_, pages)| pages.bytes());
            compare(buffer, pages.bytes(), reference, sizes).map_err(|text| format!("{name}: {text}"))?;
            let whole = got.buffers.get(name.trim_end_matches('\''));
            if name.ends_with('\'')
                && let Some((_, whole)) = whole
                && let Some(at) = first_difference(pages.bytes(), whole.bytes())
            {
                let element = at / buffer.scalar.size();
                return Err(format!("{name}: element {element} is another one than in the whole batch"));
            }
        }
        Ok(Verdict { digest, refused: refused.then_some(got.reason), disturbances: 0 })
    }
}

/// A hash of the results before it and of those of one more buffer.
fn digest_with(digest: u64, name: &str, bytes: &[u8]) -> u64 {
    let of_bytes = bytes
        .iter()
        .fold(7, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(5));
    hash(&format!("{digest} {name} ")) ^ of_bytes
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

/// Holds what a buffer has to what the reference left there. `sizes` are sums of the products'
/// magnitudes.
fn compare(buffer: &Buffer, got: &[u8], want: &[u8], sizes: Option<&[u8]>) -> Result<(), String> {
    let (scalar, size) = (buffer.scalar, buffer.scalar.size());
    match buffer.check {
        Check::Near => return near(scalar, got, want),
        Check::Loose => return Ok(()),
        _ => {}
    }
    let Check::Sum { terms, wide, transformed } = buffer.check else {
        return match first_difference(got, want) {
            None => Ok(()),
            Some(at) => {
                let element = at / size * size..at / size * size + size;
                let [got, want] = [got, want].map(|bytes| get(scalar, &bytes[element.clone()]));
                Err(format!("element {} is {got:e}, not {want:e}", at / size))
            }
        };
    };
    let numbers =
        |bytes: &[u8]| bytes.chunks_exact(size).map(|element| get(scalar, element)).collect::<Vec<_>>();
    let (got, want) = (numbers(got), numbers(want));
    let mut sizes = sizes.map(numbers).unwrap_or_default();
    if transformed {
        // Of a transformed window: its sums are of the largest products around.
        let largest = sizes.iter().copied().filter(|size| size.is_finite()).fold(0.0, f64::max);
        sizes.iter_mut().for_each(|size| *size = 8.0 * largest);
    }
    let unit = if wide { 2_f64.powi(-53) } else { 2_f64.powi(-24) };
    let (relative, least) = match scalar {
        Scalar::F64 => (2_f64.powi(-52), 0.0),
        Scalar::F32 => (2_f64.powi(-23), 2_f64.powi(-149)),
        Scalar::F16 => (2_f64.powi(-10), 2_f64.powi(-24)),
        Scalar::Bf16 => (2_f64.powi(-7), 2_f64.powi(-133)),
        _ => (0.0, 1.0),
    };
    for (index, (&got, &want)) in got.iter().zip(&want).enumerate() {
        let bound = if terms == 0 {
            0.0
        } else {
            let rounding = f64::from(2 * terms + 8) * unit * sizes.get(index).copied().unwrap_or(0.0);
            rounding + want.abs() * relative + least
        };
        let is_near = got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= bound;
        if !is_near {
            return Err(format!(
                "element {index} is {got:e}, not {want:e}, of which it may be {bound:e} off"
            ));
        }
    }
    Ok(())
}

/// Holds functions of sums to those of the reference: what both round is some units off, and grows
/// on its way through layers.
fn near(scalar: Scalar, got: &[u8], want: &[u8]) -> Result<(), String> {
    let bound = match scalar {
        Scalar::F64 => 1e-9,
        Scalar::F32 => 1e-3,
        Scalar::F16 => 0.06,
        _ => 0.25,
    };
    let size = scalar.size();
    for (index, (got, want)) in got.chunks_exact(size).zip(want.chunks_exact(size)).enumerate() {
        let [got, want] = [got, want].map(|element| get(scalar, element));
        let is_near =
            got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= bound * (1.0 + want.abs());
        if !is_near {
            return Err(format!("element {index} is {got:e}, not {want:e}"));
        }
    }
    Ok(())
}
