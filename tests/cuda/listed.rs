//! The lines of `benches/steps.txt` on both cores.

use std::collections::BTreeMap;

use cudnn::error::Error;
use cudnn::exec::{Address, Context};
use cudnn::ops::Role;

use crate::cores::Cores;
use crate::double::{self, Memory};
use crate::memory;
use crate::random::Rng;
use crate::run_step;
use crate::steps::{self, Row};

/// Turns of all loops of a row together at most: the driver double is a slow device.
const TURNS: i64 = 8_000;

/// Runs a row on the device. `None` if the core does not take the step.
fn on_device(cuda: &Context, row: &Row, before: &run_step::Memory) -> Option<Vec<Vec<u8>>> {
    let bytes = |k: usize| before.words(k).iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let held: Vec<Memory> = (0..row.operands.len()).map(|k| Memory::new(&bytes(k))).collect();
    let places = held.iter().zip(&row.operands).map(|(memory, operand)| match operand.is_touched() {
        true => Address::from(memory.pointer().wrapping_byte_offset(run_step::first(operand))),
        false => Address::NULL,
    });
    let places: Vec<Address> = places.collect();
    memory::working_on(row);
    // SAFETY: all buffers hold their operands' whole spans, at multiples of their scalars.
    match unsafe { cuda.run(row, &places) } {
        Ok(()) => Some(held.iter().map(Memory::read).collect()),
        Err(Error::Unsupported { .. }) => None,
        Err(error) => panic!("{row}: {error}"),
    }
}

/// Every row, none of which the core refuses.
fn listed_steps(cores: &mut Cores) {
    let mut rng = Rng(43);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for row in steps::read() {
        let row = Row::new(&row.name, row.step.shrunk(TURNS)).expect("a part of the step");
        let before = run_step::contents(&row, &mut rng);
        let Some(got) = on_device(&cores.cuda, &row, &before) else {
            let kind = row.to_string().split(' ').next().unwrap_or_default().to_owned();
            *refused.entry(kind).or_default() += 1;
            continue;
        };
        let mut want = before.clone();
        let at = want.places(&row);
        // SAFETY: as above.
        unsafe { cores.cpu.run(&row, &at) }.unwrap_or_else(|error| panic!("{row}: {error}"));
        for (k, got) in got.iter().enumerate().filter(|(k, _)| row.operands[*k].role != Role::Scratch) {
            let want: Vec<u8> = want.words(k).iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert!(*got == want, "{}: operand {k} differs\n{row}", row.name);
        }
        cores.solved += 1;
    }
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn listed_steps_leave_the_same_bits() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || listed_steps(&mut Cores::new()));
}
