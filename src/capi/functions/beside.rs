//! Calls that the original serves: what `#[entry]` asks before this library computes.
//!
//! A call is forwarded as it is: its handle and descriptors become their twins, everything else
//! goes along. So no function is forwarded by hand.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::slab::Table;
use super::types::{CUDNN_MAJOR, cudnnHandle_t, cudnnTensorDescriptor_t};
use super::{context, dropout, inspect, log, tensor};
use crate::error::{Error, Result};
use crate::original::{self, Failed, Maker, Original, Owner, Server, Twin, Twinned, status_of};

/// Twins of one call: more than any call has descriptors.
const MOST: usize = 16;

/// Calls whose twins are set as well as used; they see to that themselves.
const BY_HAND: &[&str] = &[
    "cudnnSetDropoutDescriptor",
    "cudnnRestoreDropoutDescriptor",
    "cudnnBackendExecute",
    "cudnnGetExecutionPlanWorkspaceSize",
    "cudnnBackendPopulateCudaGraph",
    "cudnnBackendUpdateCudaGraph",
];

/// Arguments that a call writes to: descriptors that are read back afterwards.
const OUTPUTS: &[(&str, &str)] = &[
    ("cudnnGetRNNWeightParams", "mDesc"),
    ("cudnnGetRNNWeightParams", "bDesc"),
    ("cudnnGetMultiHeadAttnWeights", "wDesc"),
];

/// An exported function, and where the original's is if that serves it.
pub(crate) struct Routed {
    name: &'static str,
    /// Null before the first call, [`OURS`] if this library serves it.
    function: AtomicPtr<c_void>,
    /// Whether a refusal of the original was told.
    told: AtomicBool,
}

/// What a [`Routed`] holds that the original does not serve.
const OURS: *mut c_void = std::ptr::without_provenance_mut(1);

impl Routed {
    pub(crate) const fn new(name: &'static str) -> Self {
        Routed { name, function: AtomicPtr::new(std::ptr::null_mut()), told: AtomicBool::new(false) }
    }

    /// The original's function, if that serves this call.
    fn function(&self, original: &Original) -> Option<*mut c_void> {
        let mut function = self.function.load(Ordering::Relaxed);
        if function.is_null() {
            function = self.found(original);
            self.function.store(function, Ordering::Relaxed);
        }
        (function != OURS).then_some(function)
    }

    #[cold]
    fn found(&self, original: &Original) -> *mut c_void {
        if original.route.server(self.name) != Some(Server::Original) || BY_HAND.contains(&self.name) {
            return OURS;
        }
        original.library.symbol(self.name).unwrap_or_else(|| {
            log::information(format_args!("{}: the original has no such function", self.name));
            OURS
        })
    }
}

/// The original, if it was loaded.
fn original() -> Option<&'static Original> {
    if !original::is_on() {
        return None;
    }
    original::load(CUDNN_MAJOR).as_ref()?.as_ref().ok()
}

/// The twins of one call.
pub(crate) struct Passing {
    name: &'static str,
    original: &'static Original,
    handle: *mut c_void,
    held: [Option<Arc<Twin>>; MOST],
    count: usize,
    /// The twin of the descriptor that decides who serves, as what was computed with it has a form
    /// of its own.
    owned: Option<Arc<Twin>>,
    /// Descriptors that are to be read back.
    outputs: [Option<(usize, usize)>; 2],
}

impl Passing {
    fn new(name: &'static str, original: &'static Original) -> Self {
        Passing {
            name,
            original,
            handle: std::ptr::null_mut(),
            held: [const { None }; MOST],
            count: 0,
            owned: None,
            outputs: [None; 2],
        }
    }

    /// Keeps a twin alive until the call has ended.
    fn hold(&mut self, twin: Arc<Twin>) -> Option<*mut c_void> {
        let pointer = twin.pointer();
        *self.held.get_mut(self.count)? = Some(twin);
        self.count += 1;
        Some(pointer)
    }

    /// The twin of a descriptor, made on its first use; NULL stays NULL. `None` if it has none:
    /// it is not alive, or the original refuses such a one.
    pub(crate) fn twin<T: Twinned>(&mut self, table: &Table<T>, address: usize) -> Option<*mut c_void> {
        let twin = self.found(table, address)?;
        self.hold(twin)
    }

    /// The same for a descriptor that decides who serves: not if this library has served it.
    pub(crate) fn owned<T: Twinned>(&mut self, table: &Table<T>, address: usize) -> Option<*mut c_void> {
        let twin = self.found(table, address)?;
        if twin.owner() == Owner::Ours {
            return None;
        }
        self.owned = Some(twin.clone());
        self.hold(twin)
    }

    fn found<T: Twinned>(&self, table: &Table<T>, address: usize) -> Option<Arc<Twin>> {
        let library = &self.original.library;
        let made = |value: &T| {
            dropout::with_twins(self.original, self.handle, |dropout| {
                value.twin(&Maker { library, handle: self.handle, dropout }).ok()
            })
        };
        let twin = table.twin(address, made)?;
        if twin.is_current(&|address| dropout::twin(address, self.original, self.handle)) {
            return Some(twin);
        }
        // A dropout that it was set to has another random state by now.
        table.forget_twin(address);
        table.twin(address, made)
    }

    /// A new tensor descriptor of the original, whose content becomes that of ours.
    fn output(&mut self, address: usize) -> Option<*mut c_void> {
        let [create, destroy] = crate::desc::TensorDescriptor::LIFE;
        let twin = Arc::new(Twin::create(&self.original.library, create, destroy).ok()?);
        let place = self.outputs.iter_mut().find(|place| place.is_none())?;
        *place = Some((address, self.count));
        self.hold(twin)
    }

    /// Gives our descriptors what the call has written to theirs.
    fn read_back(&self) -> Result<()> {
        for &(address, held) in self.outputs.iter().flatten() {
            let Some(twin) = self.held.get(held).and_then(Option::as_ref) else { continue };
            let value = original::read_tensor(&self.original.library, twin).map_err(failed)?;
            tensor::put(std::ptr::without_provenance_mut(address), "the descriptor of weights", value)?;
        }
        Ok(())
    }
}

/// What the original's answer is to our caller.
fn failed(failed: Failed) -> Error {
    let Failed { code, text } = failed;
    Error::Original { code, text: if text.is_empty() { format!("status {code}") } else { text } }
}

/// A handle or a descriptor, which the original gets as its twin.
pub(crate) trait Pass: Sized {
    /// What the original gets for this argument; `None` if there is no such thing.
    fn pass(self, passing: &mut Passing, argument: &'static str) -> Option<Self>;
}

impl Pass for cudnnHandle_t {
    fn pass(self, passing: &mut Passing, _: &'static str) -> Option<Self> {
        let twin = context::twin(self)?;
        passing.handle = twin.pointer();
        passing.hold(twin).map(<*mut c_void>::cast)
    }
}

impl Pass for cudnnTensorDescriptor_t {
    fn pass(self, passing: &mut Passing, argument: &'static str) -> Option<Self> {
        if self.is_null() {
            return Some(self);
        }
        let pointer = if OUTPUTS.contains(&(passing.name, argument)) {
            tensor::check(self, argument).ok()?;
            passing.output(self.addr())
        } else {
            passing.twin(tensor::table(), self.addr())
        };
        pointer.map(<*mut c_void>::cast)
    }
}

/// Lets the original get the descriptors of a table: `twinned!(cudnnFilterDescriptor_t, FILTERS)`;
/// `twinned!(..., owned)` those that decide who serves.
macro_rules! twinned {
    ($desc:ty, $table:ident $(, $owned:ident)?) => {
        impl $crate::capi::functions::beside::Pass for $desc {
            fn pass(
                self, passing: &mut $crate::capi::functions::beside::Passing, _: &'static str,
            ) -> Option<Self> {
                if self.is_null() {
                    return Some(self);
                }
                twinned!(@ passing, $table, self $(, $owned)?).map(<*mut std::ffi::c_void>::cast)
            }
        }
    };
    (@ $passing:ident, $table:ident, $desc:ident) => { $passing.twin(&$table, $desc.addr()) };
    (@ $passing:ident, $table:ident, $desc:ident, owned) => { $passing.owned(&$table, $desc.addr()) };
}
pub(crate) use twinned;

/// Lets the original serve a call where it does, else `body`. `forward` calls the original's
/// function with what is passed.
///
/// # Errors
/// Those of the original, or of `body`.
#[inline]
pub(crate) fn served(
    routed: &Routed, mut forward: impl FnMut(&mut Passing, *mut c_void) -> Option<c_int>,
    body: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if !original::is_on() {
        return body();
    }
    match forwarded(routed, &mut forward) {
        Forwarded::Served(outcome) => outcome,
        Forwarded::Ours => body(),
        Forwarded::Refused(refusal) => body().map_err(|own| both(refusal, &own)),
    }
}

/// What became of a call that the original could serve.
enum Forwarded {
    Served(Result<()>),
    /// This library serves it.
    Ours,
    /// This library serves it, as the original refuses to.
    Refused(Failed),
}

#[cold]
fn both(refusal: Failed, own: &Error) -> Error {
    if refusal.is_missing() {
        return own.clone();
    }
    Error::Original { code: refusal.code, text: format!("{}; and cudnn-shim itself: {own}", refusal.text) }
}

#[inline(never)]
fn forwarded(
    routed: &Routed, forward: &mut dyn FnMut(&mut Passing, *mut c_void) -> Option<c_int>,
) -> Forwarded {
    let Some(original) = original() else { return Forwarded::Ours };
    let Some(function) = routed.function(original) else { return Forwarded::Ours };
    let mut passing = Passing::new(routed.name, original);
    let Some(code) = forward(&mut passing, function) else {
        return match &passing.owned {
            Some(twin) if twin.owner() == Owner::Original => Forwarded::Served(Err(bound())),
            Some(twin) => {
                twin.set_owner(Owner::Ours);
                Forwarded::Ours
            }
            None => Forwarded::Ours,
        };
    };
    if code == 0 {
        if let Some(twin) = &passing.owned {
            twin.set_owner(Owner::Original);
        }
        if log::wants_calls() || inspect::wants_plans() {
            tell(routed.name, original);
        }
        return Forwarded::Served(passing.read_back());
    }
    refused(routed, &passing, code)
}

#[cold]
fn bound() -> Error {
    Error::unsupported(
        "the original has served this descriptor, and refuses another one of the call: what it left in weights or \
         states has a form of its own",
    )
}

#[cold]
fn refused(routed: &Routed, passing: &Passing, code: c_int) -> Forwarded {
    let Err(failure) = status_of(&passing.original.library, code) else { return Forwarded::Ours };
    let is_bound = passing.owned.as_ref().is_some_and(|twin| twin.owner() == Owner::Original);
    if !failure.is_refusal() || is_bound {
        return Forwarded::Served(Err(failed(failure)));
    }
    if let Some(twin) = &passing.owned {
        twin.set_owner(Owner::Ours);
    }
    if !routed.told.swap(true, Ordering::Relaxed) {
        let (name, text) = (routed.name, &failure.text);
        log::warning(format_args!(
            "{name}: the original refuses ({code}: {text}); cudnn-shim serves such calls"
        ));
    }
    Forwarded::Refused(failure)
}

#[cold]
fn tell(name: &str, original: &Original) {
    let text = format!("{name}: by the original {}", original.library.version());
    inspect::record(&text);
    log::information(format_args!("{text}"));
}

/// What a call that is served by hand needs, if the original serves it.
pub(crate) struct Side {
    /// The original.
    pub(crate) original: &'static Original,
    /// The twin of its handle.
    pub(crate) handle: Arc<Twin>,
}

/// The original, if it serves the call `name` where a handle has it beside.
pub(crate) fn serving(name: &str) -> Option<&'static Original> {
    original().filter(|original| original.route.server(name) == Some(Server::Original))
}

/// The original beside a handle, if it serves the call `name`.
pub(crate) fn side(handle: cudnnHandle_t, name: &str) -> Option<Side> {
    let original = serving(name)?;
    Some(Side { original, handle: context::twin(handle)? })
}

impl Side {
    /// Whether a descriptor has a twin, or can have one.
    pub(crate) fn can_pass<T: Twinned>(&self, table: &Table<T>, address: usize) -> bool {
        let passing = Passing { handle: self.handle.pointer(), ..Passing::new("", self.original) };
        passing.found(table, address).is_some()
    }

    /// The outcome of a call that the original has served.
    ///
    /// # Errors
    /// Those of the original.
    pub(crate) fn told(&self, name: &str, outcome: Result<(), Failed>) -> Result<()> {
        outcome.map_err(failed)?;
        if log::wants_calls() || inspect::wants_plans() {
            tell(name, self.original);
        }
        Ok(())
    }
}

/// A handle of the original for a new handle of ours, `is_host` if that is the CPU core's. Says
/// once why there is no original where the environment asks for one.
pub(crate) fn new_handle(is_host: bool) -> Option<Twin> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let first = |text: &dyn std::fmt::Display| {
        if !TOLD.swap(true, Ordering::Relaxed) {
            log::warning(format_args!("cudnnCreate: the original is left out: {text}"));
        }
    };
    match original::load(CUDNN_MAJOR).as_ref()? {
        Err(reason) => {
            first(reason);
            None
        }
        Ok(original) if is_host && !original.on_host => {
            log::information(format_args!("cudnnCreate: the original serves handles on a GPU only"));
            None
        }
        Ok(original) => {
            if !TOLD.swap(true, Ordering::Relaxed) {
                original.route.complaints().iter().for_each(|text| log::warning(format_args!("{text}")));
            }
            let library = &original.library;
            match Twin::create(library, "cudnnCreate", "cudnnDestroy") {
                Ok(twin) => {
                    let (version, file) = (library.version(), library.file().display());
                    log::information(format_args!("cudnnCreate: beside it the original {version}, {file}"));
                    Some(twin)
                }
                Err(failure) => {
                    let (code, text) = (failure.code, failure.text);
                    let name = original.library.file().display();
                    log::warning(format_args!(
                        "cudnnCreate: no handle of the original in {name} ({code}: {text})"
                    ));
                    None
                }
            }
        }
    }
}

/// Lets the original's handle follow the stream of ours.
///
/// # Errors
/// Those of the original.
pub(crate) fn set_stream(twin: &Twin, stream: usize) -> Result<()> {
    let Some(original) = original() else { return Ok(()) };
    original::set_stream(&original.library, twin, stream).map_err(failed)
}
