//! What the calls on recurrent networks of version 6 and of version 8 have in common: from a problem and data pointers to a plan that runs.

use std::ffi::c_void;

use super::arg::{self, operands};
use crate::desc::DropoutDescriptor;
use crate::desc::dropout::STATES_ALIGNMENT;
use crate::error::Result;
use crate::exec::{Address, Call};
use crate::ops::Memory;
use crate::ops::recurrent::stamp::{self, Filled};
use crate::ops::recurrent::{ALIGNMENT, DataPlan, ForwardPlan, Given, Problem, WeightPlan};

/// Memory of the caller: where it starts, and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Space {
    pub pointer: *mut c_void,
    pub size: usize,
}

impl Space {
    /// As the rules of operations see it.
    pub(crate) fn memory(self) -> Memory {
        Memory { address: self.pointer.addr(), size: self.size }
    }

    /// `bytes` bytes behind the first multiple of the alignment.
    fn at(self, bytes: usize) -> Address {
        let skipped = self.pointer.addr().wrapping_neg() % ALIGNMENT;
        self.pointer.cast::<u8>().wrapping_add(skipped + bytes).into()
    }
}

/// Data pointers of a forward pass; all but the weights may be NULL.
pub(crate) struct ForwardData {
    pub x: *const c_void,
    pub y: *mut c_void,
    pub hx: *const c_void,
    pub hy: *mut c_void,
    pub cx: *const c_void,
    pub cy: *mut c_void,
    pub weights: *const c_void,
    pub workspace: Space,
    pub reserve: Space,
}

/// Refuses data that is not aligned to its scalars, NULL aside.
fn check_alignment(problem: &Problem, pointers: &[(*const c_void, &'static str)]) -> Result<()> {
    let size = problem.network.scalar().size();
    let given = pointers.iter().filter(|(pointer, _)| !pointer.is_null());
    given.into_iter().try_for_each(|&(pointer, name)| arg::data(pointer, size, name))
}

/// Runs a forward pass. Masks come from the states of `dropout`; if it has none, from its seed, the same in every call.
///
/// # Errors
/// Bad parameter for misaligned data; those of the plan and of running it.
///
/// # Safety
/// Every pointer that is not NULL is valid for what the problem says lies there, `workspace` and `reserve` for their sizes, which were
/// checked; the states of `dropout` are valid. No other thread uses any of them meanwhile.
pub(crate) unsafe fn forward(
    core: &mut Call<'_>, problem: Problem, dropout: Option<&DropoutDescriptor>, training: bool,
    data: &ForwardData,
) -> Result<()> {
    let pointers = [
        (data.x, "x"),
        (data.y.cast_const(), "y"),
        (data.hx, "hx"),
        (data.hy.cast_const(), "hy"),
        (data.cx, "cx"),
        (data.cy.cast_const(), "cy"),
        (data.weights, "weightSpace"),
    ];
    check_alignment(&problem, &pointers)?;
    let given = Given {
        x: !data.x.is_null(),
        y: !data.y.is_null(),
        hx: !data.hx.is_null(),
        hy: !data.hy.is_null(),
        cx: !data.cx.is_null(),
        cy: !data.cy.is_null(),
        ..Given::default()
    };
    let draws = training && problem.network.drops();
    let dropout = dropout.filter(|_| draws);
    let seed = dropout.filter(|dropout| dropout.states() == 0).map(DropoutDescriptor::seed);
    let plan = ForwardPlan::new(problem, given, training, seed)?;
    let states = match dropout {
        _ if seed.is_some() => data.workspace.at(plan.states()),
        Some(dropout) => {
            let states = std::ptr::with_exposed_provenance_mut::<c_void>(dropout.states());
            arg::data(states, STATES_ALIGNMENT, "the states of the dropout descriptor")?;
            states.into()
        }
        None => Address::NULL,
    };
    let (reserve, masks) = match training {
        true => (data.reserve.at(0), data.reserve.at(plan.masks())),
        false => (Address::NULL, Address::NULL),
    };
    let operands = operands![
        y = data.y,
        hy = data.hy,
        cy = data.cy,
        reserveSpace = reserve,
        reserveSpace = masks,
        states,
        workSpace = data.workspace.at(0),
        x = data.x,
        hx = data.hx,
        cx = data.cx,
        weightSpace = data.weights,
    ];
    // SAFETY: the pointers are aligned, and the caller vouches for what lies there.
    unsafe { core.run(&plan, operands) }
}

/// Data pointers of a backward pass to inputs and first states; all but the weights may be NULL.
pub(crate) struct BackwardData {
    pub dx: *mut c_void,
    pub dhx: *mut c_void,
    pub dcx: *mut c_void,
    pub dy: *const c_void,
    pub hx: *const c_void,
    pub dhy: *const c_void,
    pub cx: *const c_void,
    pub dcy: *const c_void,
    pub weights: *const c_void,
    pub workspace: Space,
    pub reserve: Space,
}

/// Runs a backward pass to inputs and first states.
///
/// # Errors
/// As [`forward`].
///
/// # Safety
/// As [`forward`].
pub(crate) unsafe fn data(core: &mut Call<'_>, problem: Problem, data: &BackwardData) -> Result<()> {
    let pointers = [
        (data.dx.cast_const(), "dx"),
        (data.dhx.cast_const(), "dhx"),
        (data.dcx.cast_const(), "dcx"),
        (data.dy, "dy"),
        (data.hx, "hx"),
        (data.dhy, "dhy"),
        (data.cx, "cx"),
        (data.dcy, "dcy"),
        (data.weights, "weightSpace"),
    ];
    check_alignment(&problem, &pointers)?;
    let given = Given {
        x: false,
        y: !data.dy.is_null(),
        hx: !data.hx.is_null(),
        cx: !data.cx.is_null(),
        hy: !data.dhy.is_null(),
        cy: !data.dcy.is_null(),
        dx: !data.dx.is_null(),
        dhx: !data.dhx.is_null(),
        dcx: !data.dcx.is_null(),
    };
    let plan = DataPlan::new(problem, given)?;
    let complaint = |found| stamp::complaint(plan.problem(), found, Filled::Forward);
    // SAFETY: the stamp lies in the reserve space, which has the size that the problem needs, on a multiple of its own.
    unsafe { core.look(data.reserve.at(plan.stamp()), complaint) };
    let operands = operands![
        dx = data.dx,
        dhx = data.dhx,
        dcx = data.dcx,
        reserveSpace = data.reserve.at(0),
        reserveSpace = data.reserve.at(plan.masks()),
        workSpace = data.workspace.at(0),
        dy = data.dy,
        hx = data.hx,
        dhy = data.dhy,
        cx = data.cx,
        dcy = data.dcy,
        weightSpace = data.weights,
    ];
    // SAFETY: the pointers are aligned, and the caller vouches for what lies there.
    unsafe { core.run(&plan, operands) }
}

/// Data pointers of a backward pass to the weights; all but their gradients may be NULL.
pub(crate) struct WeightData {
    pub dw: *mut c_void,
    pub x: *const c_void,
    pub hx: *const c_void,
    pub workspace: Space,
    pub reserve: Space,
}

/// Runs a backward pass to the weights, which adds to what is there if `adds`.
///
/// # Errors
/// As [`forward`].
///
/// # Safety
/// As [`forward`].
pub(crate) unsafe fn weights(
    core: &mut Call<'_>, problem: Problem, adds: bool, data: &WeightData,
) -> Result<()> {
    let pointers = [(data.dw.cast_const(), "dweightSpace"), (data.x, "x"), (data.hx, "hx")];
    check_alignment(&problem, &pointers)?;
    let given = Given { x: !data.x.is_null(), hx: !data.hx.is_null(), ..Given::default() };
    let plan = WeightPlan::new(problem, given, adds)?;
    let complaint = |found| stamp::complaint(plan.problem(), found, Filled::Data);
    // SAFETY: as for the gradients by the inputs.
    unsafe { core.look(data.reserve.at(plan.stamp()), complaint) };
    let operands = operands![
        dweightSpace = data.dw,
        workSpace = data.workspace.at(0),
        reserveSpace = data.reserve.at(0),
        reserveSpace = data.reserve.at(plan.masks()),
        x = data.x,
        hx = data.hx,
    ];
    // SAFETY: the pointers are aligned, and the caller vouches for what lies there.
    unsafe { core.run(&plan, operands) }
}
