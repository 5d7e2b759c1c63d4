//! The four passes of version 6, whichever way their vectors were described: the checks that are left, then the call that both
//! generations end in.

use std::ffi::c_void;

use super::filter;
use super::recurrent::{self, BackwardData, ForwardData, WeightData};
use super::removed_rnn_beside::{Network, gradient_size};
use super::removed_rnn_call::{Call, Pass, State};
use super::removed_rnn_operands::{DataGradient, Forward, WeightGradient};
use super::types::cudnnHandle_t;
use crate::error::Result;
use crate::exec;

impl Forward {
    /// Runs it by the original, if that serves the call, else by this library.
    ///
    /// # Errors
    /// As the calls list them.
    ///
    /// # Safety
    /// As for the calls.
    pub(super) unsafe fn serve(self, handle: cudnnHandle_t, core: &mut exec::Call<'_>) -> Result<()> {
        let vectors = &self.vectors.0;
        if let Some(network) = Network::of(handle, self.rnn, vectors.data, vectors.size)? {
            // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
            return unsafe { network.forward(&self) };
        }
        // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
        unsafe { self.run(core) }.map(drop)
    }

    /// Returns the bytes of workspace that it takes.
    ///
    /// # Errors
    /// As the calls list them.
    ///
    /// # Safety
    /// As for the calls.
    pub(super) unsafe fn run(self, core: &mut exec::Call<'_>) -> Result<usize> {
        filter::get(self.w.0, "wDesc")?;
        let pass = if self.training { Pass::Training } else { Pass::Inference };
        let (x, y) = self.vectors;
        let call = Call::new(self.rnn, &x, &[y], pass)?;
        call.check_weights(self.w.0, self.w.1, ["wDesc", "w"])?;
        let bytes = call.check_workspace(self.workspace)?;
        if self.training {
            call.check_reserve(self.reserve)?;
        }
        call.check_state(State::Hidden, self.hx.0, self.hx.1, "hxDesc")?;
        call.check_state(State::Cell, self.cx.0, self.cx.1, "cxDesc")?;
        call.check_state(State::Hidden, self.hy.0, self.hy.1, "hyDesc")?;
        call.check_state(State::Cell, self.cy.0, self.cy.1, "cyDesc")?;
        let data = ForwardData {
            x: self.x,
            y: self.y,
            hx: self.hx.1,
            hy: self.hy.1,
            cx: self.cx.1,
            cy: self.cy.1,
            weights: self.w.1,
            workspace: self.workspace,
            reserve: self.reserve,
        };
        let Call { problem, dropout, .. } = call;
        // SAFETY: data is valid for what its descriptors say; spaces have the sizes that were checked.
        unsafe { recurrent::forward(core, problem, dropout.as_ref(), self.training, &data) }?;
        Ok(bytes)
    }
}

impl DataGradient {
    /// Runs it by the original, if that serves the call, else by this library.
    ///
    /// # Errors
    /// As the calls list them.
    ///
    /// # Safety
    /// As for the calls.
    pub(super) unsafe fn serve(
        self, handle: cudnnHandle_t, y: *const c_void, core: &mut exec::Call<'_>,
    ) -> Result<()> {
        let vectors = &self.vectors.0;
        let size = gradient_size(self.rnn, vectors);
        if let Some(network) = Network::of(handle, self.rnn, vectors.data, size)? {
            // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
            return unsafe { network.data_gradient(&self, y) };
        }
        // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
        unsafe { self.run(core) }.map(drop)
    }

    /// Returns the bytes of workspace that it takes.
    ///
    /// # Errors
    /// As the calls list them.
    ///
    /// # Safety
    /// As for the calls.
    pub(super) unsafe fn run(self, core: &mut exec::Call<'_>) -> Result<usize> {
        filter::get(self.w.0, "wDesc")?;
        let (dx, ys) = self.vectors;
        let call = Call::new(self.rnn, &dx, &ys, Pass::Backward)?;
        call.check_weights(self.w.0, self.w.1, ["wDesc", "w"])?;
        let bytes = call.check_workspace(self.workspace)?;
        call.check_reserve(self.reserve)?;
        call.check_state(State::Hidden, self.dhy.0, self.dhy.1, "dhyDesc")?;
        call.check_state(State::Cell, self.dcy.0, self.dcy.1, "dcyDesc")?;
        call.check_state(State::Hidden, self.dhx.0, self.dhx.1, "dhxDesc")?;
        call.check_state(State::Cell, self.dcx.0, self.dcx.1, "dcxDesc")?;
        let data = BackwardData {
            dx: self.dx,
            dhx: self.dhx.1,
            dcx: self.dcx.1,
            dy: self.dy,
            hx: self.hx,
            dhy: self.dhy.1,
            cx: self.cx,
            dcy: self.dcy.1,
            weights: self.w.1,
            workspace: self.workspace,
            reserve: self.reserve,
        };
        // SAFETY: data is valid for what its descriptors say; spaces have the sizes that were checked.
        unsafe { recurrent::data(core, call.problem, &data) }?;
        Ok(bytes)
    }
}

impl WeightGradient {
    /// Runs it by the original, if that serves the call, else by this library.
    ///
    /// # Errors
    /// As the calls list them.
    ///
    /// # Safety
    /// As for the calls.
    pub(super) unsafe fn serve(
        self, handle: cudnnHandle_t, y: *const c_void, core: &mut exec::Call<'_>,
    ) -> Result<()> {
        let vectors = &self.vectors.0;
        let size = gradient_size(self.rnn, vectors);
        if let Some(network) = Network::of(handle, self.rnn, vectors.data, size)? {
            // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
            return unsafe { network.weight_gradient(&self, y) };
        }
        // SAFETY: data is valid for what its descriptors say, the spaces for their sizes.
        unsafe { self.run(core) }.map(drop)
    }

    /// Returns the bytes of workspace that it takes.
    ///
    /// # Errors
    /// As the calls list them.
    ///
    /// # Safety
    /// As for the calls.
    pub(super) unsafe fn run(self, core: &mut exec::Call<'_>) -> Result<usize> {
        filter::get(self.dw.0, "dwDesc")?;
        let (x, y) = self.vectors;
        let call = Call::new(self.rnn, &x, &[y], Pass::Backward)?;
        call.check_weights(self.dw.0, self.dw.1, ["dwDesc", "dw"])?;
        let bytes = call.check_workspace(self.workspace)?;
        call.check_reserve(self.reserve)?;
        call.check_state(State::Hidden, self.hx.0, self.hx.1, "hxDesc")?;
        let data = WeightData {
            dw: self.dw.1,
            x: self.x,
            hx: self.hx.1,
            workspace: self.workspace,
            reserve: self.reserve,
        };
        // SAFETY: data is valid for what its descriptors say; spaces have the sizes that were checked.
        unsafe { recurrent::weights(core, call.problem, true, &data) }?;
        Ok(bytes)
    }
}
