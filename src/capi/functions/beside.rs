//! Calls that the original serves: what `#[entry]` asks before this library computes.
//!
//! A call is forwarded as it is: its handle and descriptors become their twins, everything else
//! goes along. So no function is forwarded by hand.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use super::beside_bound::Size;
use super::beside_bound::{Problem, is_filled, note_filled};
pub(crate) use super::beside_way::Routed;
use super::beside_way::{OURS, Way};
use super::slab::Table;
use super::twin_place::Pinned;
use super::types::{CUDNN_MAJOR, cudnnHandle_t, cudnnTensorDescriptor_t};
use super::{context, dropout_twins, log, recorded, tensor};
use crate::error::{Error, Result};
use crate::original::{self, Facts, Failed, Maker, Original, Owner, Server, Twin, Twinned, status_of};

/// Twins of one call: more than any call has descriptors.
const MOST: usize = 16;

/// Arguments that a call writes to: descriptors that are read back afterwards.
const OUTPUTS: &[(&str, &str)] = &[
    ("cudnnGetRNNWeightParams", "mDesc"),
    ("cudnnGetRNNWeightParams", "bDesc"),
    ("cudnnGetMultiHeadAttnWeights", "wDesc"),
];

/// The original, if it was loaded.
pub(super) fn original() -> Option<&'static Original> {
    if !original::is_on() {
        return None;
    }
    original::load(CUDNN_MAJOR).as_ref()?.as_ref().ok()
}

/// The twins of one call.
pub(crate) struct Passing {
    name: &'static str,
    original: &'static Original,
    way: &'static Way,
    handle: *mut c_void,
    held: [Option<Pinned>; MOST],
    count: usize,
    /// Which of them is that of the descriptor that decides who serves, as what was computed with
    /// it has a form of its own.
    owned: Option<usize>,
    /// Descriptors that are to be read back.
    outputs: [Option<(usize, Twin)>; 2],
    /// What its descriptors have in common, and the sum of the fingerprints of those of its problem.
    facts: Facts,
    algo: Option<c_int>,
    /// The address of its reserve space, which one call fills and another reads; 0 without one.
    reserve: usize,
    /// Whether this library serves the problem, but cannot read what the original has left.
    is_lost: bool,
}

impl Passing {
    fn new(name: &'static str, original: &'static Original, way: &'static Way) -> Self {
        Passing {
            name,
            original,
            way,
            handle: std::ptr::null_mut(),
            held: [const { None }; MOST],
            count: 0,
            owned: None,
            outputs: [const { None }; 2],
            facts: Facts::NONE,
            algo: None,
            reserve: 0,
            is_lost: false,
        }
    }

    /// Notes the number of the call's algorithm.
    pub(crate) fn set_algo(&mut self, algo: c_int) {
        self.algo = Some(algo);
    }

    /// Notes the call's reserve space.
    pub(crate) fn set_reserve(&mut self, reserve: *const c_void) {
        self.reserve = reserve.addr();
    }

    /// What the call is about, if it shares sizes with others.
    fn problem(&self) -> Option<Problem> {
        let group = self.way.group.filter(|group| !group.problem.is_empty())?;
        Some(Problem::new(group, self.facts.fingerprint, self.algo))
    }

    /// `None` if this library serves such a call: by a case of the route, or since the original has
    /// refused another call about the same problem.
    pub(crate) fn decided(&mut self) -> Option<()> {
        let Way { usual, case, .. } = self.way;
        let case = case.filter(|case| case.holds(self.facts.traits, self.facts.types));
        if case.map_or(*usual, |case| case.server) == Server::Ours {
            return None;
        }
        if self.problem().is_some_and(|problem| problem.is_refused()) {
            self.is_lost = self.reads_reserve() && !is_filled(self.reserve);
            self.note_served(true);
            return None;
        }
        Some(())
    }

    /// Whether it reads what a forward call has left in a reserve space.
    fn reads_reserve(&self) -> bool {
        self.reserve != 0 && self.name.contains("Backward")
    }

    /// Notes who fills its reserve space.
    fn note_served(&self, by_us: bool) {
        if self.reserve != 0 && !self.name.contains("Backward") {
            note_filled(self.reserve, by_us);
        }
    }

    /// Keeps a twin alive until the call has ended.
    fn hold(&mut self, twin: Pinned) -> Option<*mut c_void> {
        let pointer = twin.pointer();
        *self.held.get_mut(self.count)? = Some(twin);
        self.count += 1;
        Some(pointer)
    }

    /// The twin of a descriptor, made on its first use; NULL stays NULL. `None` if it has none:
    /// it is not alive, or the original refuses such a one.
    pub(crate) fn twin<T: Twinned>(
        &mut self, table: &'static Table<T>, address: usize, argument: &str,
    ) -> Option<*mut c_void> {
        let twin = self.found(table, address)?;
        let facts = twin.facts();
        self.facts = self.facts.and(facts);
        if self.way.group.is_some_and(|group| group.problem.contains(&argument)) {
            self.facts.fingerprint = self.facts.fingerprint.wrapping_add(facts.fingerprint);
        }
        self.hold(twin)
    }

    /// The same for a descriptor that decides who serves: not if this library has served it.
    pub(crate) fn owned<T: Twinned>(
        &mut self, table: &'static Table<T>, address: usize,
    ) -> Option<*mut c_void> {
        let twin = self.found(table, address)?;
        if twin.owner() == Owner::Ours {
            return None;
        }
        self.owned = Some(self.count);
        self.hold(twin)
    }

    fn found<T: Twinned>(&self, table: &'static Table<T>, address: usize) -> Option<Pinned> {
        let library = &self.original.library;
        let made = |value: &T| {
            dropout_twins::with_twins(self.original, self.handle, |dropout| {
                value.twin(&Maker { library, handle: self.handle, dropout }).ok()
            })
        };
        let twin = table.twin(address, made)?;
        if twin.is_current(&|address| dropout_twins::twin(address, self.original, self.handle)) {
            return Some(twin);
        }
        // A dropout that it was set to has another random state by now.
        drop(twin);
        table.forget_twin(address);
        table.twin(address, made)
    }

    /// A new tensor descriptor of the original, whose content becomes that of ours.
    fn output(&mut self, address: usize) -> Option<*mut c_void> {
        let [create, destroy] = crate::desc::TensorDescriptor::LIFE;
        let twin = Twin::create(&self.original.library, create, destroy).ok()?;
        let pointer = twin.pointer();
        *self.outputs.iter_mut().find(|place| place.is_none())? = Some((address, twin));
        Some(pointer)
    }

    /// The twin that decides who serves.
    fn owner(&self) -> Option<&Twin> {
        self.held[self.owned?].as_deref()
    }

    /// Gives our descriptors what the call has written to theirs.
    fn read_back(&self) -> Result<()> {
        for (address, twin) in self.outputs.iter().flatten() {
            let address = *address;
            let value = original::read_tensor(&self.original.library, twin).map_err(failed)?;
            tensor::put(std::ptr::without_provenance_mut(address), "the descriptor of weights", value)?;
        }
        Ok(())
    }
}

/// What the original's answer is to our caller.
pub(super) fn failed(failed: Failed) -> Error {
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
            passing.twin(tensor::table(), self.addr(), argument)
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
                self, passing: &mut $crate::capi::functions::beside::Passing, argument: &'static str,
            ) -> Option<Self> {
                if self.is_null() {
                    return Some(self);
                }
                twinned!(@ passing, $table, self, argument $(, $owned)?).map(<*mut std::ffi::c_void>::cast)
            }
        }
    };
    (@ $passing:ident, $table:ident, $desc:ident, $argument:ident) => {
        $passing.twin(&$table, $desc.addr(), $argument)
    };
    (@ $passing:ident, $table:ident, $desc:ident, $argument:ident, owned) => {{
        let _ = $argument;
        $passing.owned(&$table, $desc.addr())
    }};
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
    forwarded(routed, &mut forward).or(body)
}

/// The same for a query whose answer is `size`: the larger one of both, where the original answers
/// and this library may have to run with it.
///
/// # Errors
/// Those of the original, or of `body`.
pub(crate) fn sized(
    routed: &Routed, mut forward: impl FnMut(&mut Passing, *mut c_void) -> Option<c_int>,
    body: impl FnOnce() -> Result<()>, size: Size,
) -> Result<()> {
    if !original::is_on() {
        return body();
    }
    let insists = || {
        let way = original().and_then(|original| routed.way(original));
        way.and_then(|way| way.group).is_some_and(|group| group.insists)
    };
    match forwarded(routed, &mut forward) {
        Forwarded::Served(Ok(())) if insists() => {
            size.larger(body);
            Ok(())
        }
        outcome => outcome.or(body),
    }
}

/// What became of a call that the original could serve.
pub(super) enum Forwarded {
    /// The original has served it.
    Served(Result<()>),
    /// This library serves it.
    Ours,
    /// This library serves it, as the original refuses to.
    Refused(Failed),
}

impl Forwarded {
    /// Its outcome, or that of this library's `body`.
    #[inline]
    pub(super) fn or(self, body: impl FnOnce() -> Result<()>) -> Result<()> {
        match self {
            Forwarded::Served(outcome) => outcome,
            Forwarded::Ours => body(),
            Forwarded::Refused(refusal) => body().map_err(|own| both(refusal, &own)),
        }
    }
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
    let Some(way) = routed.way(original) else { return Forwarded::Ours };
    let mut passing = Passing::new(routed.name, original, way);
    let Some(code) = forward(&mut passing, way.function) else {
        if passing.is_lost {
            return Forwarded::Served(Err(bound()));
        }
        return match passing.owner() {
            Some(twin) if twin.owner() == Owner::Original => Forwarded::Served(Err(bound())),
            Some(twin) => {
                twin.set_owner(Owner::Ours);
                Forwarded::Ours
            }
            None => Forwarded::Ours,
        };
    };
    if code == 0 {
        if let Some(twin) = passing.owner() {
            twin.set_owner(Owner::Original);
        }
        passing.note_served(false);
        if log::wants_calls() || recorded::wants_plans() {
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
    // What the forward call has left in a reserve space is the original's.
    let is_bound =
        passing.reads_reserve() || passing.owner().is_some_and(|twin| twin.owner() == Owner::Original);
    if !failure.is_refusal() || is_bound {
        return Forwarded::Served(Err(failed(failure)));
    }
    if let Some(twin) = passing.owner() {
        twin.set_owner(Owner::Ours);
    }
    if let Some(problem) = passing.problem() {
        problem.refuse();
        passing.note_served(true);
    }
    tell_refusal(routed.name, &routed.told, &failure);
    Forwarded::Refused(failure)
}

/// Says once for a function, which `told` remembers, that the original refuses a call of it.
#[cold]
pub(super) fn tell_refusal(name: &str, told: &AtomicBool, failure: &Failed) {
    if !told.swap(true, Ordering::Relaxed) {
        let Failed { code, text } = failure;
        log::warning(format_args!(
            "{name}: the original refuses ({code}: {text}); cudnn-shim serves such calls"
        ));
    }
}

#[cold]
fn tell(name: &str, original: &Original) {
    let text = format!("{name}: by the original {}", original.library.version());
    recorded::record(&text);
    log::information(format_args!("{text}"));
}

/// What a call that is served by hand needs, if the original serves it: that, and its handle.
pub(crate) struct Side {
    pub(crate) original: &'static Original,
    pub(crate) handle: Pinned,
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
    pub(crate) fn can_pass<T: Twinned>(&self, table: &'static Table<T>, address: usize) -> bool {
        let passing = Passing { handle: self.handle.pointer(), ..Passing::new("", self.original, &OURS) };
        passing.found(table, address).is_some()
    }

    /// The outcome of a call that the original has served.
    ///
    /// # Errors
    /// Those of the original.
    pub(crate) fn told(&self, name: &str, outcome: Result<(), Failed>) -> Result<()> {
        outcome.map_err(failed)?;
        if log::wants_calls() || recorded::wants_plans() {
            tell(name, self.original);
        }
        Ok(())
    }
}
