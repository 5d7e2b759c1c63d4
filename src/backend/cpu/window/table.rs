//! The kernels of windows, in the order in which they are asked whether they accept one.

use super::columns;
use super::lrn;
use super::pool;
use super::problem::Problem;
use super::unpool::{bands, by_rows, whole};
use crate::backend::choice::{Kernel, Launch};
use crate::backend::reference;

/// Whether a kernel takes a window: ready to run it, or not.
pub(super) type Accept = for<'a> fn(&Problem<'a>) -> Option<Launch<'a>>;

/// The kernels; the first one that accepts a window runs it.
pub(super) const KERNELS: &[Kernel<Accept>] = &[
    Kernel {
        name: "pool_shared_columns",
        when: "maxima and averages with stride 1 along the last axis, results side by side: the columns of windows are folded once for \
               all outputs that they belong to; not up to 2 (maxima) or 3 columns (averages) of many channels in binary32, whose \
               results leave from registers",
        accept: |problem| pool::accept(problem, true),
    },
    Kernel {
        name: "pool_folds",
        when: "all maxima and averages",
        accept: |problem| pool::accept(problem, false),
    },
    Kernel {
        name: "pool_gradient_global",
        when: "gradients of a window that holds all cells of a plane, results side by side",
        accept: whole,
    },
    Kernel {
        name: "pool_gradient_bands",
        when: "gradients of windows in planes of short rows, of which bands share few outputs",
        accept: bands,
    },
    Kernel {
        name: "pool_gradient_rows",
        when: "gradients of windows with fewer than 2^31 taps",
        accept: by_rows,
    },
    Kernel { name: "lrn", when: "response normalisation and its gradient", accept: lrn::accept },
    Kernel {
        name: "im2col",
        when: "the columns of convolutions in one or two dimensions, channels not in blocks along the last one",
        accept: columns::accept,
    },
    Kernel { name: "window_reference", when: "all windows", accept: by_reference },
];

fn by_reference<'a>(problem: &Problem<'a>) -> Option<Launch<'a>> {
    let (shape, at) = (problem.shape, problem.at);
    Some(Launch::new(move || {
        // SAFETY: a launch runs while the operands are what the window needs.
        unsafe { reference::window(shape.window, at) };
        Ok(())
    }))
}
