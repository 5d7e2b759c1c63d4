//! Descriptors of local response and divisive normalisation: create, set, get, destroy.

use std::ffi::c_uint;

use super::guard::entry;
use super::slab::{Kind, Table};
use super::types::{cudnnLRNDescriptor_t, cudnnStatus_t};
use super::{arg, lifecycle};
use crate::desc::LrnDescriptor;

static LRNS: Table<LrnDescriptor> = Table::new(Kind::Lrn);

/// Creates the descriptor of a local response normalisation: n 5, alpha 1e-4, beta 0.75, k 2.
///
/// Status: BAD_PARAM if `normDesc` is NULL.
///
/// # Safety
/// `normDesc` is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnCreateLRNDescriptor(normDesc: *mut cudnnLRNDescriptor_t) -> cudnnStatus_t {
    // SAFETY: as the caller promises.
    unsafe { lifecycle::create("cudnnCreateLRNDescriptor", &LRNS, normDesc, "normDesc") }
}

/// Destroys the descriptor of a local response normalisation; NULL is fine.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyLRNDescriptor(lrnDesc: cudnnLRNDescriptor_t) -> cudnnStatus_t {
    lifecycle::destroy("cudnnDestroyLRNDescriptor", &LRNS, lrnDesc, "lrnDesc")
}

/// Sets window and coefficients of a local response normalisation.
///
/// `y = x / (k + alpha / n * sum x^2)^beta` over n neighbours. A failing call changes nothing.
///
/// Status (observed on 9.27.0): BAD_PARAM for a descriptor that is not alive, n outside 1 to 16, beta below 0.01,
/// or k below 1e-5; NaN passes.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetLRNDescriptor(
    normDesc: cudnnLRNDescriptor_t,
    lrnN: c_uint,
    lrnAlpha: f64,
    lrnBeta: f64,
    lrnK: f64,
) -> cudnnStatus_t {
    let arguments = format_args!(
        "normDesc={normDesc:p}, lrnN={lrnN}, lrnAlpha={lrnAlpha}, lrnBeta={lrnBeta}, lrnK={lrnK}"
    );
    entry("cudnnSetLRNDescriptor", arguments, || {
        LRNS.replace(normDesc.addr(), "normDesc", || LrnDescriptor::new(lrnN, lrnAlpha, lrnBeta, lrnK))
    })
}

/// Reads window and coefficients of a local response normalisation.
///
/// A NULL output is left out.
///
/// Status: BAD_PARAM for a descriptor that is not alive.
///
/// # Safety
/// Every pointer is NULL or valid for one write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudnnGetLRNDescriptor(
    normDesc: cudnnLRNDescriptor_t,
    lrnN: *mut c_uint,
    lrnAlpha: *mut f64,
    lrnBeta: *mut f64,
    lrnK: *mut f64,
) -> cudnnStatus_t {
    entry("cudnnGetLRNDescriptor", format_args!("normDesc={normDesc:p}"), || {
        let lrn = LRNS.get(normDesc.addr(), "normDesc")?;
        // SAFETY: as the caller promises, for all of them.
        unsafe {
            arg::set_optional(lrnN, lrn.n());
            arg::set_optional(lrnAlpha, lrn.alpha());
            arg::set_optional(lrnBeta, lrn.beta());
            arg::set_optional(lrnK, lrn.k());
        }
        Ok(())
    })
}
