//! Operands that share memory: which of them overlap, and copies of those that would be overwritten
//! before they are read.

use std::ops::Range;

use crate::backend::Address;
use crate::error::{Error, Result};
use crate::layout::overlap;
use crate::ops::plan::MAX_OPERANDS;
use crate::ops::{ByteSpan, Plan, Role};

/// Operands that a plan reads where it writes something else, of which it reads copies.
pub(super) struct Copies {
    is_copied: [bool; MAX_OPERANDS],
    /// Bytes of all copies.
    pub bytes: usize,
}

/// What a copy begins at a multiple of: more than any element has.
const ALIGNMENT: usize = 64;

impl Copies {
    /// Of a plan's operands at these addresses; `refuses`: where the core makes none.
    ///
    /// # Errors
    /// Bad parameter for an operand that does not fit the address space around its pointer, and for
    /// two that are both written and overlap; not supported where the core makes no copies.
    pub fn of(plan: &dyn Plan, at: &[Address], refuses: bool) -> Result<Copies> {
        let operands = plan.operands();
        let mut copies = Copies { is_copied: [false; MAX_OPERANDS], bytes: 0 };
        for (written, destination) in
            operands.iter().enumerate().filter(|(_, operand)| operand.role.is_written())
        {
            addresses(at[written], destination.span)?;
            for (other, operand) in operands.iter().enumerate() {
                let is_pair = other != written && operand.role != Role::Scratch && operand.is_touched();
                // Of two that are written, each pair is judged once.
                if !is_pair || (operand.role.is_written() && other < written) {
                    continue;
                }
                let in_place = at[other] == at[written] && plan.works_in_place(other, written);
                if in_place || !overlap(plan, [written, other], at)? {
                    continue;
                }
                if operand.role.is_written() {
                    return Err(both_written(operand.name, destination.name));
                }
                if refuses {
                    return Err(refusal(operand.name, destination.name));
                }
                if !copies.is_copied[other] {
                    copies.is_copied[other] = true;
                    copies.bytes = copies.bytes.saturating_add(room(operand.span));
                }
            }
        }
        Ok(copies)
    }

    /// The names of the operands that are copied.
    pub fn names(&self, plan: &dyn Plan) -> impl Iterator<Item = &'static str> {
        let operands = plan.operands().iter().zip(&self.is_copied);
        operands.filter_map(|(operand, &copied)| copied.then_some(operand.name))
    }

    /// Copies the operands, and replaces their addresses by those of the copies.
    ///
    /// # Safety
    /// `at` are addresses of the plan's operands, of whose spans every byte is readable; `memory`
    /// has [`bytes`](Copies::bytes) bytes, which begin on a line and overlap none of them.
    pub unsafe fn make(&self, plan: &dyn Plan, at: &mut [Address], memory: *mut u8) {
        let mut to = memory;
        for (operand, address) in plan
            .operands()
            .iter()
            .zip(at)
            .zip(&self.is_copied)
            .filter_map(|(pair, &copied)| copied.then_some(pair))
        {
            let (low, high) = operand.span;
            let first = address.pointer().wrapping_offset(low as isize);
            // SAFETY: every byte of the span is readable, and the copy has room for them.
            unsafe { to.copy_from_nonoverlapping(first, (high - low) as usize) };
            // A span starts at a multiple of the scalar's size from its pointer.
            *address = Address::from(to.cast_const().wrapping_offset(-(low as isize)));
            to = to.wrapping_add(room(operand.span));
        }
    }
}

/// Bytes that the copy of a span takes.
fn room((low, high): ByteSpan) -> usize {
    ((high - low) as usize).saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// Whether two operands of a plan share a byte: judged by their elements where their layouts are
/// known and that can be decided, by their spans else.
///
/// # Errors
/// As [`addresses`].
#[inline]
fn overlap(plan: &dyn Plan, pair: [usize; 2], at: &[Address]) -> Result<bool> {
    let operand = |k: usize| &plan.operands()[pair[k]];
    let a = addresses(at[pair[0]], operand(0).span)?;
    let b = addresses(at[pair[1]], operand(1).span)?;
    Ok(a.start < b.end && b.start < a.end && !is_apart(plan, pair, at))
}

#[cold]
fn is_apart(plan: &dyn Plan, pair: [usize; 2], at: &[Address]) -> bool {
    let [Some(a), Some(b)] = pair.map(|k| plan.layout(k)) else { return false };
    let sizes = pair.map(|k| plan.operands()[k].scalar.size());
    let distance = at[pair[1]].addr().wrapping_sub(at[pair[0]].addr()) as i64;
    overlap::are_disjoint([a, b], sizes, distance)
}

/// What any core answers where one call writes one place twice.
#[cold]
fn both_written(one: &str, other: &str) -> Error {
    Error::mismatch(format!("{one} and {other} overlap, and both are written"))
}

/// What the CUDA core answers where the CPU core would keep a copy.
#[cold]
fn refusal(src: &str, dst: &str) -> Error {
    Error::unsupported(format!(
        "{src} and {dst} overlap: the CUDA core does that only where every element is its own source, for it \
         allocates no memory to keep a copy of the source"
    ))
}

/// The addresses that a byte span around a pointer covers.
///
/// # Errors
/// A mismatch if the span does not fit the address space, so that the pointer cannot belong to such
/// a tensor.
#[inline]
fn addresses(base: Address, (low, high): ByteSpan) -> Result<Range<usize>> {
    let end =
        |offset: i64| isize::try_from(offset).ok().and_then(|offset| base.addr().checked_add_signed(offset));
    match (end(low), end(high)) {
        (Some(low), Some(high)) => Ok(low..high),
        _ => Err(Error::mismatch(format!(
            "a tensor of {low}..{high} bytes around {:#x} does not fit the address space",
            base.addr()
        ))),
    }
}
