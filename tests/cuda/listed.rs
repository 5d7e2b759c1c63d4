//! The lines of `problems/steps.txt` on both cores.

use std::ffi::c_int;

use cudnn::error::Error;
use cudnn::exec::{Address, Context};
use cudnn::ops::function::TABLE;
use cudnn::ops::{Plan, Role};

use crate::cores::Cores;
use crate::double::{self, Memory};
use crate::memory;
use testkit::attend::{assert_near, is_of_attention};
use testkit::random::Rng;
use testkit::run_step;
use testkit::steps::{self, Ordered, Row, Vary};

/// `CUDA_ERROR_LAUNCH_FAILED`.
const LAUNCH_FAILED: c_int = 719;

/// The entry point whose failure is no step's: it gives names to other failures.
const GIVES_NAMES: &str = "cuGetErrorName";

/// One of so many rows is in the sample in which the driver fails.
const SAMPLED: usize = 4;

/// Turns of all loops of a row together at most: the driver double is a slow device.
const TURNS: i64 = 8_000;

/// The operands of a row on the device.
struct Held<'a> {
    row: &'a Row,
    memory: Vec<Memory>,
    places: Vec<Address>,
}

impl Held<'_> {
    fn new<'a>(row: &'a Row, before: &run_step::Memory) -> Held<'a> {
        let bytes =
            |k: usize| before.words(k).iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let memory: Vec<Memory> = (0..row.operands.len()).map(|k| Memory::new(&bytes(k))).collect();
        let places = memory.iter().zip(&row.operands).map(|(memory, operand)| match operand.is_touched() {
            true => Address::from(memory.pointer().wrapping_byte_offset(run_step::first(operand))),
            false => Address::NULL,
        });
        let places = places.collect();
        Held { row, memory, places }
    }

    /// Runs the row, in the order of its loops or in any, and returns what its operands hold.
    fn run(&self, cuda: &Context, ordered: bool) -> Result<Vec<Vec<u8>>, Error> {
        memory::working_on(self.row);
        // SAFETY: all buffers hold their operands' whole spans, at multiples of their scalars.
        unsafe { cuda.run(&*plan(self.row, ordered), &self.places) }?;
        Ok(self.memory.iter().map(Memory::read).collect())
    }
}

/// Runs a row on the device. `None` if the core does not take the step.
fn on_device(cuda: &Context, row: &Row, ordered: bool, before: &run_step::Memory) -> Option<Vec<Vec<u8>>> {
    match Held::new(row, before).run(cuda, ordered) {
        Ok(left) => Some(left),
        Err(Error::Unsupported { .. }) => None,
        Err(error) => panic!("{row}: {error}"),
    }
}

/// The step of a row as a plan.
fn plan(row: &Row, ordered: bool) -> Box<dyn Plan> {
    if ordered { Box::new(Ordered(row.clone())) } else { Box::new(row.clone()) }
}

/// Whether the CUDA core takes a row; then it leaves what the CPU core leaves.
fn agree(cores: &mut Cores, row: &Row, ordered: bool, rng: &mut Rng) -> bool {
    let before = run_step::contents(row, rng);
    let Some(got) = on_device(&cores.cuda, row, ordered, &before) else { return false };
    let mut want = before.clone();
    let at = want.places(row);
    // SAFETY: as above.
    unsafe { cores.cpu.run(&*plan(row, ordered), &at) }.unwrap_or_else(|error| panic!("{row}: {error}"));
    // Sums of attention have an order of each core's own.
    if is_of_attention(&row.step) {
        let bytes = |k: usize| want.words(k).iter().flat_map(|word| word.to_ne_bytes()).collect();
        let want: Vec<Vec<u8>> = (0..row.operands.len()).map(bytes).collect();
        assert_near(row, &got, &want);
        cores.solved += 1;
        return true;
    }
    for (k, got) in got.iter().enumerate().filter(|(k, _)| row.operands[*k].role != Role::Scratch) {
        let want: Vec<u8> = want.words(k).iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(*got == want, "{}: operand {k} differs\n{row}", row.name);
    }
    cores.solved += 1;
    true
}

/// Functions that graphs alone have, by each of their kernels.
pub fn functions_of_graphs(cores: &mut Cores) {
    let mut rng = Rng(44);
    for row in TABLE.iter().filter(|row| row.function.is_of_graphs()) {
        let read = row.operands.len();
        let (names, places) =
            if read > 2 { ("dst/src1/src2/src3/src4/src5", 6) } else { ("dst/src1/src2", 3) };
        for (types, extent, step, ordered) in [
            ("f32->f32->f32", 1027, 1, false),
            ("f16->f32->f16", 515, 1, false),
            ("f32->f32->f32", 301, 2, false),
            ("f64->f64->f64", 301, 2, false),
            ("f64->f32->f32", 301, 2, false),
            ("f32->f32->f32", 61, 1, true),
        ] {
            let strides: Vec<String> =
                (0..places).map(|k| if k > read { 0 } else { step }.to_string()).collect();
            let offsets = vec!["+0"; places].join(",");
            let step = format!(
                "map {:?} {types} alpha=[1, 1] beta=0 {names}: {extent}*({}) {offsets}",
                row.function,
                strides.join(",")
            );
            let row =
                Row::parse(&format!("function {step}")).unwrap_or_else(|error| panic!("{step}: {error}"));
            assert!(agree(cores, &row, ordered, &mut rng), "{row} is refused");
        }
    }
}

/// Every row. What the CUDA core has no kernels for, it refuses.
fn listed_steps(cores: &mut Cores) {
    let mut rng = Rng(43);
    for row in steps::read() {
        let row = Row::new(&row.name, row.step.shrunk(TURNS)).expect("a part of the step");
        assert_eq!(agree(cores, &row, false, &mut rng), row.is_for_cuda(), "{row}");
    }
}

/// Each call of the driver that a row makes fails, once: the step ends with the driver's error, and
/// run again it leaves what it always does.
fn refused_steps(cuda: &Context) {
    let mut rng = Rng(45);
    let symbols = cudnn::backend::cuda::symbols();
    let (mut rows, mut refused) = (0, 0);
    for (number, row) in steps::of_both_cores().into_iter().enumerate() {
        if !double::does_all() && !number.is_multiple_of(SAMPLED) {
            continue;
        }
        rows += 1;
        let row = Row::new(&row.name, row.step.shrunk(TURNS / 40)).expect("a part of the step");
        let before = run_step::contents(&row, &mut rng);
        let want = Held::new(&row, &before).run(cuda, false).unwrap_or_else(|error| panic!("{row}: {error}"));
        for entry in symbols.iter().filter(|entry| **entry != GIVES_NAMES) {
            for nth in 0.. {
                let (held, again) = (Held::new(&row, &before), Held::new(&row, &before));
                double::fail(entry, nth, LAUNCH_FAILED);
                let got = held.run(cuda, false);
                if double::withdraw_faults() > 0 {
                    break;
                }
                refused += 1;
                let text = got.map(|_| "success".to_owned()).unwrap_or_else(|error| error.to_string());
                assert!(text.contains(&format!("{entry} returned")), "call {nth} of {entry}: {text}\n{row}");
                let again = again.run(cuda, false).unwrap_or_else(|error| panic!("{row}: {error}"));
                let written = (0..row.operands.len()).filter(|k| row.operands[*k].role != Role::Scratch);
                for k in written {
                    assert!(again[k] == want[k], "operand {k} differs after {entry} failed\n{row}");
                }
            }
        }
    }
    assert!(refused >= rows && rows > 10, "only {refused} calls of the driver failed in {rows} steps");
}

#[test]
fn each_call_of_the_driver_fails_in_each_step() {
    double::run(&[], || refused_steps(&Cores::new().cuda));
}

#[test]
fn listed_steps_leave_the_same_bits() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || listed_steps(&mut Cores::new()));
}

#[test]
fn functions_of_graphs_leave_the_same_bits() {
    double::run(&[("CUDNN_SHIM_CHECK", "1")], || functions_of_graphs(&mut Cores::new()));
}
