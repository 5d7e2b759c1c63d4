//! How much of a test runs: a sample of its problems and levels in every run of the tests, all of
//! them with `CUDNN_SHIM_TEST_FULL=1`, as `cargo xtask fuzz` has it. Both draw the same problems
//! each time.

use std::ops::Range;

use cudnn::backend::{self, Isa, Machine};
use cudnn::ops::contract::Accumulate;
use cudnn::ops::{Contract, Step};

use crate::snapshot;

/// Of so many steps that tiles compute one runs on the model of tiles as well.
const MODELLED: u32 = 4;

/// Whether tests do all they can.
pub fn is_full() -> bool {
    std::env::var_os("CUDNN_SHIM_TEST_FULL").is_some_and(|value| value == "1")
}

/// The numbers of the problems that a test solves: the first ones, as many as `sample` says, or
/// `all` of them. A sample says so on a line that `cargo xtask test` counts.
pub fn cases(sample: usize, all: usize) -> Range<usize> {
    let count = if is_full() { all } else { sample.min(all) };
    say(count, all);
    0..count
}

/// Tells how many of the problems of a test run, if these are not all.
pub fn say(count: usize, all: usize) {
    if count < all {
        println!("sampled: {count} of {all} problems");
    }
}

/// The levels that compute a step in ways of their own, lowest first. What only multiplies bytes or
/// tiles otherwise than the level below is left out for a step that it computes by the same
/// instructions; and the model of tiles, which is slow, for three of four steps that tiles compute
/// without parts. The text of the step decides which.
pub fn levels(step: Step<'_>) -> Vec<Isa> {
    let contractions: &[Contract] = match step {
        Step::Contract(step) => std::slice::from_ref(step),
        Step::Phases(phases) => &phases.0,
        _ => &[],
    };
    if is_full() && !contractions.is_empty() {
        return Isa::all().collect();
    }
    let has_bytes = contractions.iter().any(|step| step.accumulate == Accumulate::Int32);
    let takes = |isa, kernel: &str| {
        backend::kernels(step, Machine { isa, threads: 2 }).iter().any(|name| name.starts_with(kernel))
    };
    let takes_tiles = |isa| takes(isa, "tiles");
    // Few steps are large enough for tiles of parts.
    let is_modelled =
        |isa| takes(isa, "tiles_of_parts") || contractions.iter().map(digest).sum::<u32>() % MODELLED == 0;
    let wanted = |isa: &Isa| match isa.name() {
        "amx" | "neonmm" => takes_tiles(*isa),
        "amxmodel" => takes_tiles(*isa) && is_modelled(*isa),
        _ => has_bytes || Isa::available().any(|level| level == *isa),
    };
    Isa::all().filter(wanted).collect()
}

/// A number that the text of a step decides.
fn digest(step: &Contract) -> u32 {
    snapshot::hash(&step.to_string()) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Row;

    fn names(line: &str) -> Vec<&'static str> {
        let row = Row::parse(line).unwrap();
        levels(row.step.step()).into_iter().map(Isa::name).collect()
    }

    #[test]
    fn levels_of_bytes_and_tiles_are_for_steps_with_them() {
        let there: Vec<&str> = Isa::all().map(Isa::name).collect();
        let floats =
            "f contract f32*f32->f32 in f32 tiles m:40*(48,32,0) n:48*(1,0,32) k:32*(0,1,1) at 0,0,0";
        let has = |names: &[&str], part: &str| names.iter().any(|name| name.contains(part));
        let of_floats = names(floats);
        assert_eq!(of_floats.contains(&"avx2"), there.contains(&"avx2"));
        assert!(of_floats.contains(&"portable") && !has(&of_floats, "vnni") && !has(&of_floats, "amx"));
        let mut modelled = 0;
        for n in 128..160 {
            let bytes = format!(
                "b contract s8*s8->s32 in s32 tiles m:784*({n},64,0) n:{n}*(1,0,64) k:64*(0,1,1) at 0,0,0"
            );
            let of_bytes = names(&bytes);
            assert_eq!(has(&of_bytes, "vnni"), has(&there, "vnni"));
            assert_eq!(of_bytes.contains(&"amx"), there.contains(&"amx"));
            modelled += usize::from(of_bytes.contains(&"amxmodel"));
        }
        // About one of four.
        assert!((2..20).contains(&modelled), "{modelled} of 32 steps on the model");
    }
}
