//! One call that computes: the frame that its plans run in, and what listeners hear of it.

use super::Context;
use crate::backend::cpu::float_mode::DefaultMode;
use crate::backend::cpu::threads::with_stack;
use crate::backend::cuda::module;
use crate::backend::{Address, Machine};
use crate::error::Result;
use crate::ops::{Operand, Plan, Role};

/// The data pointer of an operand, and its name in the C function.
pub type Bound = (&'static str, Address);

/// What listeners hear of a call when it has ended.
#[derive(Debug, Default)]
pub struct CallReport {
    /// Whether anyone listens; else no plan is kept.
    pub wanted: bool,
    /// The plan that ran last, behind the name of the call; of a graph a line for each of its
    /// parts.
    pub plan: Option<String>,
    /// The kernels that ran it, where there are several for a step of its kind, as many lines; and
    /// what it takes beside its operands, where that is anything.
    pub kernels: Option<String>,
    /// What looks wrong about the call.
    pub warning: Option<String>,
}

fn add_line(lines: &mut Option<String>, line: String) {
    match lines {
        None => *lines = Some(line),
        Some(lines) => {
            lines.push('\n');
            lines.push_str(&line);
        }
    }
}

/// A call that computes. Plans run through it, so that listeners hear of them, and in the frame of
/// [`Context::call`].
pub struct Call<'a> {
    /// Where it runs.
    pub context: &'a Context,
    name: &'static str,
    report: &'a mut CallReport,
    /// What the next plan is a part of: told besides the parts before it.
    part: Option<(usize, &'static str)>,
    /// The milliseconds of the plan that ran last, where the call measures instead of computing.
    time: Option<f32>,
}

impl Context {
    /// Runs `body` as the call `name`: in the default floating-point mode, on the CPU core on a
    /// stack that has room.
    ///
    /// # Errors
    /// Those of `body`; host allocation if a stack is wanted and cannot be had.
    #[inline]
    pub fn call<R>(
        &self, name: &'static str, report: &mut CallReport, body: impl FnOnce(&mut Call<'_>) -> Result<R>,
    ) -> Result<R> {
        // What a CUDA driver takes of the stack is not ours to say, and what is current there
        // belongs to the thread.
        if self.is_cuda() {
            let result =
                framed(Call { context: self, name, report: &mut *report, part: None, time: None }, body);
            if let Some(text) = Context::refusal() {
                report.warning.get_or_insert(format!("{name}: {text}"));
            }
            return result;
        }
        let call = Call { context: self, name, report, part: None, time: None };
        with_stack(|| framed(call, body))
    }

    /// What is to be said, once, of machine code that the CUDA driver has refused.
    #[inline]
    pub fn refusal() -> Option<String> {
        module::refusal()
    }

    /// What is wrong with the environment's limits of both cores, a line for each that makes no
    /// sense.
    pub fn complaints() -> impl Iterator<Item = String> {
        Machine::complaints()
    }
}

/// In a frame of its own: the caller's stack need not have room for it.
#[inline(never)]
fn framed<R>(mut call: Call<'_>, body: impl FnOnce(&mut Call<'_>) -> Result<R>) -> Result<R> {
    let _mode = DefaultMode::new();
    body(&mut call)
}

impl Call<'_> {
    /// Runs a plan on operands in its order. The last ones may be more than the plan has a use for.
    ///
    /// # Errors
    /// As [`Context::run`].
    ///
    /// # Safety
    /// As [`Context::run`].
    #[inline]
    pub unsafe fn run<const N: usize>(&mut self, plan: &dyn Plan, operands: [Bound; N]) -> Result<()> {
        let wanted = plan.operands();
        // Names cost nothing in a release: tests bind every plan.
        debug_assert!(
            wanted.len() <= N && wanted.iter().zip(&operands).all(|(operand, bound)| operand.name == bound.0),
            "{}: the plan has {:?}, the call {:?}",
            self.name,
            wanted.iter().map(|operand| operand.name).collect::<Vec<_>>(),
            operands.map(|bound| bound.0),
        );
        let at = operands.map(|bound| bound.1);
        // SAFETY: the core's device may read or write each operand's span until the work is done.
        unsafe { self.run_at(plan, &at[..wanted.len().min(N)]) }
    }

    /// [`run`](Call::run) for plans that say themselves where their operands lie: an address for
    /// each.
    ///
    /// # Errors
    /// As [`Context::run`].
    ///
    /// # Safety
    /// As [`Context::run`].
    #[inline]
    pub unsafe fn run_at(&mut self, plan: &dyn Plan, at: &[Address]) -> Result<()> {
        if self.time.is_some() {
            // What is written goes to memory of the measurement's own.
            let given = |(operand, at): (&Operand, &Address)| {
                (operand.is_touched() && operand.role == Role::Read).then_some(*at)
            };
            let given: Vec<_> = plan.operands().iter().zip(at).map(given).collect();
            // SAFETY: measuring reads the operands that are given, whose spans are readable.
            self.time = Some(unsafe { self.measure(plan, &given) }?);
            return Ok(());
        }
        if self.report.wanted {
            self.keep(plan, at);
            // SAFETY: the operands of the plan.
            unsafe { self.keep_extras(plan, at) };
        }
        // SAFETY: the core's device may read or write each operand's span until the work is done.
        unsafe { self.context.run(plan, at) }
    }

    /// Whether plans are measured, and nothing of the caller's is written.
    pub fn is_measuring(&self) -> bool {
        self.time.is_some()
    }

    /// Lets `body` measure the plan that it would run, and returns the milliseconds with what it
    /// returns.
    ///
    /// # Errors
    /// Those of `body`; running a plan fails as [`Context::measure`] does.
    pub fn measured<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<(R, f32)> {
        self.time = Some(0.0);
        let outcome = body(self);
        let time = self.time.take().unwrap_or_default();
        Ok((outcome?, time))
    }

    /// The milliseconds that a plan takes, as [`Context::measure`] finds them.
    ///
    /// # Errors
    /// As [`Context::measure`].
    ///
    /// # Safety
    /// As [`Context::measure`].
    pub unsafe fn measure(&mut self, plan: &dyn Plan, at: &[Option<Address>]) -> Result<f32> {
        let places: Vec<Address> = at.iter().map(|at| at.unwrap_or(Address::NULL)).collect();
        if self.report.wanted {
            self.keep(plan, &places);
        }
        // SAFETY: every span that is given is readable, and nothing of the caller's is written.
        unsafe { self.context.measure(plan, at) }
    }

    /// Looks at the number that an earlier call should have left somewhere, where it can be seen
    /// now, and warns of what `complaint` finds wrong about it.
    ///
    /// # Safety
    /// `at` is a multiple of 8; on the CPU core 8 bytes are readable there.
    pub unsafe fn look(&mut self, at: Address, complaint: impl FnOnce(u64) -> Option<&'static str>) {
        if !self.context.runs_at_once() || self.is_measuring() {
            return;
        }
        // SAFETY: `at` is a multiple of 8; calls run at once on the CPU core only, where 8 bytes
        // are readable there.
        let found = unsafe { at.pointer().cast::<u64>().read() };
        if let Some(text) = complaint(found) {
            self.warn(text);
        }
    }

    /// Keeps what looks wrong about the call.
    #[cold]
    pub fn warn(&mut self, text: &str) {
        self.report.warning = Some(format!("{}: {text}", self.name));
    }

    #[cold]
    fn keep(&mut self, plan: &dyn Plan, at: &[Address]) {
        if self.part.is_none() {
            (self.report.plan, self.report.kernels) = (None, None);
        }
        let name = self.part_name();
        add_line(&mut self.report.plan, format!("{name}: {plan}"));
        let mut kernels = self.context.kernels(plan, at);
        kernels.dedup();
        // Lines of their own: that of a plan can be read back.
        if !kernels.is_empty() {
            add_line(&mut self.report.kernels, format!("{name}: by {}", kernels.join(", then ")));
        }
    }

    /// # Safety
    /// As [`Context::run`].
    #[cold]
    unsafe fn keep_extras(&mut self, plan: &dyn Plan, at: &[Address]) {
        // SAFETY: the operands of the plan.
        let extras = unsafe { self.context.extras(plan, at) };
        if !extras.is_empty() {
            let name = self.part_name();
            add_line(&mut self.report.kernels, format!("{name}: with {}", extras.join(", ")));
        }
    }

    /// The name of the call, and of the part that is at hand.
    fn part_name(&self) -> String {
        match self.part {
            None => self.name.to_owned(),
            Some((place, part)) => format!("{}, part {place}, {part}", self.name),
        }
    }

    /// Says that the next plan is this part of what the call computes.
    #[inline]
    pub fn tell_part(&mut self, place: usize, name: &'static str) {
        self.part = Some((place, name));
    }
}
