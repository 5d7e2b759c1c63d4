//! Running a graph: pointers for its tensors, host memory for what is passed by value.

use std::sync::Arc;

use super::call::Call;
use super::knowing::KnowingPlan;
use super::scratch::Known;
use crate::backend::Address;
use crate::error::{Error, Result};
use crate::ops::graph::{Graph, Numbers, Override, Program, Strategy, Value, ValuesPlan};
use crate::ops::part::Base;
use crate::sync::{Lock, Vanished};

/// A graph that is ready to run on any core. Nothing in it changes: several threads may run it at
/// once, each with memory of its own.
pub struct Execution {
    program: Program,
    graph: Graph,
    /// What runs where the numbers are others than the program supposes.
    otherwise: Option<Arc<Execution>>,
    /// The same graph under other extents, the last used one last.
    others: Lock<Vec<(Vec<Override>, Arc<Execution>)>>,
    scratch: Known,
}

/// Under how many other extents a graph is kept ready.
const MOST_OTHERS: usize = 8;

impl Execution {
    /// Plans a graph for the CPU core; other cores can run it, too.
    ///
    /// # Errors
    /// As for [`Program::new`].
    pub fn new(graph: &Graph) -> Result<Self> {
        Execution::planned(graph, Strategy::CPU)
    }

    /// Plans a graph by a strategy.
    ///
    /// # Errors
    /// As for [`Program::new`].
    pub fn planned(graph: &Graph, strategy: Strategy) -> Result<Self> {
        let program = Program::new(graph, strategy)?;
        let otherwise = match program.supposed[..] {
            [] => None,
            _ => Some(Arc::new(Execution::planned(graph, Strategy { attends: None, ..strategy })?)),
        };
        Ok(Execution::of(program, graph.clone(), otherwise))
    }

    fn of(program: Program, graph: Graph, otherwise: Option<Arc<Execution>>) -> Self {
        Execution { program, graph, otherwise, others: Lock::new(Vec::new()), scratch: Known::new() }
    }

    /// The same graph where some tensors have other extents: planned when it is first asked for.
    /// Smaller ones take no more workspace.
    ///
    /// # Errors
    /// As for [`Graph::overridden`] and [`Program::under`].
    pub fn overridden(&self, overrides: &[Override]) -> Result<Arc<Execution>> {
        let forget = |others: &mut Vanished<_>| others.replace(Vec::new());
        let mut others = self.others.write(forget);
        let found = others.iter().position(|(of, _)| of == overrides);
        if let Some(at) = found {
            others[at..].rotate_left(1);
        } else {
            drop(others);
            let graph = self.graph.overridden(overrides)?;
            let program = Program::under(&graph, &self.program)?;
            let otherwise = self.otherwise.as_ref().map(|other| other.overridden(overrides)).transpose()?;
            let made = Arc::new(Execution::of(program, graph, otherwise));
            others = self.others.write(forget);
            if others.len() == MOST_OTHERS {
                others.remove(0);
            }
            others.push((overrides.to_vec(), made));
        }
        others
            .last()
            .map(|(_, made)| Arc::clone(made))
            .ok_or_else(|| Error::Internal("no plan was kept".into()))
    }

    /// Bytes of workspace, wherever it begins; never 0, which would leave a driver-level allocation
    /// nothing to allocate.
    pub fn workspace(&self) -> usize {
        let other = self.otherwise.as_ref().map_or(0, |other| other.program.workspace);
        self.program.workspace.max(other).saturating_add(WORKSPACE_ALIGNMENT)
    }

    /// Whether numbers are what the program supposes. Of a pointer that is missing the run tells.
    ///
    /// # Safety
    /// As for [`run`](Execution::run).
    unsafe fn holds(&self, pointer: &dyn Fn(i64) -> Option<Address>) -> bool {
        self.program.supposed.iter().all(|supposed| {
            let at = pointer(supposed.uid).filter(|address| *address != Address::NULL);
            // SAFETY: a tensor that is passed by value lies in host memory; it has one element of
            // binary32.
            let number = |at: Address| unsafe { at.pointer().cast::<[u8; 4]>().read() };
            at.is_none_or(|at| supposed.holds(f32::from_ne_bytes(number(at))))
        })
    }

    /// The operations of the graph in the order in which they run, each with its steps.
    pub fn parts(&self) -> impl Iterator<Item = String> {
        let parts = self.program.parts.iter().zip(&self.program.names).enumerate();
        parts.map(|(place, (part, name))| format!("part {place}, {name}: {}", part.plan))
    }

    /// The uids that need a pointer, in ascending order.
    pub fn uids(&self) -> &[i64] {
        &self.program.uids
    }

    /// Runs the graph, its operations one after the other.
    ///
    /// # Errors
    /// Bad parameter: a pointer that is missing, NULL or not aligned to its elements, a workspace
    /// that is NULL; those of [`Context::run`](super::Context::run).
    ///
    /// # Safety
    /// `pointer` gives for a uid the pointer of its tensor: for one that is passed by value host
    /// memory that holds its elements, for others memory of the core for every element. The
    /// workspace has as many bytes as are needed. Nobody else uses either until the work is done.
    pub unsafe fn run(
        &self, call: &mut Call<'_>, pointer: &dyn Fn(i64) -> Option<Address>, workspace: Address,
    ) -> Result<()> {
        if let Some(otherwise) = &self.otherwise {
            // SAFETY: each pointer leads to the memory of its tensor, and the workspace has room
            // for either program.
            unsafe {
                if !self.holds(pointer) {
                    return otherwise.run(call, pointer, workspace);
                }
            }
        }
        let given = workspace;
        // The size has room for that.
        let gap = given.addr().next_multiple_of(WORKSPACE_ALIGNMENT) - given.addr();
        let workspace = Address::from(given.pointer().wrapping_byte_add(gap));
        let place = |base: Base| match base {
            Base::Workspace => Ok(workspace),
            Base::Caller(uid) => {
                let found = pointer(uid).filter(|address| *address != Address::NULL);
                found.ok_or_else(|| Error::mismatch(format!("no pointer for tensor {uid}")))
            }
        };
        let mut needs_workspace = !self.program.values.is_empty();
        // All are looked at before the first is written.
        for part in &self.program.parts {
            for (operand, at) in part.plan.operands().iter().zip(&part.places) {
                if !operand.is_touched() {
                    continue;
                }
                needs_workspace |= at.base == Base::Workspace;
                if let Base::Caller(uid) = at.base
                    && place(at.base)?.addr() % operand.scalar.size() != 0
                {
                    let size = operand.scalar.size();
                    return Err(Error::mismatch(format!(
                        "the pointer of tensor {uid} is no multiple of {size}"
                    )));
                }
            }
        }
        if needs_workspace && given == Address::NULL {
            return Err(Error::mismatch(format!("{} bytes of workspace are needed", self.workspace())));
        }
        let mut addresses = Vec::with_capacity(self.program.parts.len());
        for part in &self.program.parts {
            let mut at: Vec<Address> = Vec::with_capacity(part.places.len());
            for (operand, to) in part.plan.operands().iter().zip(&part.places) {
                let base = if operand.is_touched() { place(to.base)? } else { Address::NULL };
                at.push(base.pointer().wrapping_byte_add(to.offset).into());
            }
            addresses.push(at);
        }
        // SAFETY: spans are those of the tensors, which the caller vouches for, and what lies in
        // the workspace is inside its size.
        let _held = unsafe { call.hold(&self.program.parts, &addresses, Some(&self.scratch)) }?;
        let mut values = ValuesPlan::new(self.program.workspace);
        if !self.program.values.is_empty() {
            for value in &self.program.values {
                if let Some(cell) = value.constant {
                    values.set(value, 0, cell);
                    continue;
                }
                // SAFETY: a tensor that is passed by value lies in host memory, with all its
                // elements.
                unsafe { read(value, place(Base::Caller(value.uid))?, &mut values) };
            }
            // SAFETY: the values lie inside the workspace.
            unsafe { call.run_at(&values, &[workspace]) }?;
        }
        for (place_of_part, (part, at)) in self.program.parts.iter().zip(&addresses).enumerate() {
            call.tell_part(place_of_part, self.program.names[place_of_part]);
            let plan = KnowingPlan { part, values: &values };
            // SAFETY: spans are those of the tensors, which the caller vouches for, and what lies
            // in the workspace is inside its size.
            let ran = unsafe { call.run_at(&plan, at) };
            ran.map_err(|error| named(error, self.program.numbers[place_of_part].as_ref()))?;
        }
        Ok(())
    }
}

/// A refused number, by the tensor that it is in: steps know it by the arguments of other calls.
fn named(error: Error, numbers: Option<&Numbers>) -> Error {
    match (error, numbers) {
        (Error::Element { index, value, rule, .. }, Some(&Numbers { uid, name, below })) => {
            let rule = below.map_or(rule, |below| format!("is 0 or more and less than {below}").into());
            Error::mismatch(format!("tensor {uid} ({name}), element {index} = {value}: {rule}"))
        }
        (error, _) => error,
    }
}

/// What places in a workspace are a multiple of: more than any element. A workspace itself may
/// begin anywhere: the frontend hands over what its own intermediate results leave of one.
const WORKSPACE_ALIGNMENT: usize = 16;

/// Reads a tensor that is passed by value.
///
/// # Safety
/// Host memory at `from` holds its elements.
unsafe fn read(value: &Value, from: Address, plan: &mut ValuesPlan) {
    let size = value.scalar.size();
    for index in 0..value.count {
        let mut cell = [0_u8; 8];
        let source = from.pointer().wrapping_byte_add(index * value.stride * size);
        // SAFETY: host memory holds the value's elements; a cell has at most 8 bytes.
        unsafe { std::ptr::copy_nonoverlapping(source, cell.as_mut_ptr(), size) };
        plan.set(value, index, u64::from_le_bytes(cell));
    }
}
