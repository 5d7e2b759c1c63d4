//! The original's plan of a legacy call, and how it runs.

use std::ffi::c_void;

use super::legacy::{Device, Legacy};
use super::objects::execute;
use super::operations::Builder;
use super::{Failed, Library, Twin};

/// A plan of the original for a legacy call.
#[derive(Debug)]
pub struct LegacyPlan {
    library: &'static Library,
    plan: Twin,
    workspace: usize,
    /// Numbers that the plan reads from host memory, by the numbers of their tensors.
    scalars: Vec<(i64, Box<f64>)>,
    /// The bytes of each are those of a `float` unless the call computes in `double`.
    is_double: bool,
    _objects: Vec<Twin>,
}

impl LegacyPlan {
    /// A plan for a device, with a workspace of at most `most` bytes.
    ///
    /// # Errors
    /// As the original answers; `None` for what no graph expresses.
    pub fn new(
        library: &'static Library, device: Device<'_>, of: &Legacy, most: usize,
    ) -> Result<LegacyPlan, Option<Failed>> {
        let mut graph = Builder::new(library, of.is_double());
        let operations = of.operations(&mut graph)?;
        let (plan, workspace) = graph.objects.plan(device, &operations, most)?;
        let Builder { objects, scalars, is_double } = graph;
        Ok(LegacyPlan { library, plan, workspace, scalars, is_double, _objects: objects.into_made() })
    }

    /// Bytes of workspace that it takes.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Runs it on the tensors of the call, in the order of its list.
    ///
    /// # Errors
    /// As the original answers.
    ///
    /// # Safety
    /// The handle is that of the plan. The pointers are valid for the spans of their tensors, the
    /// workspace for what the plan takes, until the work is done.
    pub unsafe fn run(
        &self, handle: &Twin, data: &[*mut c_void], workspace: *mut c_void,
    ) -> Result<(), Failed> {
        // Of each scalar as many bytes as its type has.
        let narrow: Vec<f32> = self.scalars.iter().map(|(_, value)| **value as f32).collect();
        let mut all: Vec<(i64, *mut c_void)> = (1..).zip(data.iter().copied()).collect();
        for ((number, value), narrow) in self.scalars.iter().zip(&narrow) {
            let at: *const c_void =
                if self.is_double { (&raw const **value).cast() } else { std::ptr::from_ref(narrow).cast() };
            all.push((*number, at.cast_mut()));
        }
        let objects = [handle.pointer(), self.plan.pointer()];
        // SAFETY: as the caller says; scalars are read before the call returns.
        unsafe { execute(self.library, objects, &all, workspace) }
    }
}
