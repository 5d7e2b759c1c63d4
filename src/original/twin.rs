//! Twins: objects of the original, each owned by one of ours.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{Facts, Failed, Library};

/// Who has served a descriptor's calls so far. What they leave behind - weights, random states,
/// reserve spaces - has a form of its own at each, so that the other one cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Owner {
    /// Nobody yet.
    Nobody,
    /// This library.
    Ours,
    /// The original.
    Original,
}

/// An object of the original, which is destroyed with its last holder.
#[derive(Debug)]
pub struct Twin {
    library: &'static Library,
    at: usize,
    destroy: &'static str,
    owner: AtomicU8,
    /// The twins that it was set to, with the addresses of our descriptors.
    parts: Vec<(usize, Arc<Twin>)>,
    /// What is known of its content.
    facts: Facts,
}

impl Twin {
    /// Creates an object by the original's `create`, which `destroy` will destroy.
    ///
    /// # Errors
    /// As the original answers.
    pub fn create(
        library: &'static Library, create: &'static str, destroy: &'static str,
    ) -> Result<Twin, Failed> {
        let function = library.symbol(create).ok_or_else(|| Failed::missing(create))?;
        let mut at: *mut c_void = std::ptr::null_mut();
        // SAFETY: every function that creates has this type.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void) -> c_int>(function)
        };
        // SAFETY: a place for one pointer.
        super::status_of(library, unsafe { function(&raw mut at) })?;
        Ok(Twin::of(library, at, destroy))
    }

    /// An object that the original has made.
    pub fn of(library: &'static Library, object: *mut c_void, destroy: &'static str) -> Twin {
        let owner = AtomicU8::new(Owner::Nobody as u8);
        Twin {
            library,
            at: object.expose_provenance(),
            destroy,
            owner,
            parts: Vec::new(),
            facts: Facts::NONE,
        }
    }

    /// What is known of its content.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The original's pointer.
    pub fn pointer(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.at)
    }

    /// Notes the twins that it was set to, which live as long as it does.
    pub fn set_parts(&mut self, parts: Vec<(usize, Arc<Twin>)>) {
        self.parts = parts;
    }

    /// Whether the descriptors that it was set to still have the same twins.
    pub fn is_current(&self, twin: &dyn Fn(usize) -> Option<Arc<Twin>>) -> bool {
        self.parts.iter().all(|(address, part)| twin(*address).is_some_and(|now| Arc::ptr_eq(&now, part)))
    }

    /// Who has served it.
    pub fn owner(&self) -> Owner {
        match self.owner.load(Ordering::Relaxed) {
            0 => Owner::Nobody,
            1 => Owner::Ours,
            _ => Owner::Original,
        }
    }

    /// Notes who serves it.
    pub fn set_owner(&self, owner: Owner) {
        self.owner.store(owner as u8, Ordering::Relaxed);
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        let Some(function) = self.library.symbol(self.destroy) else { return };
        // SAFETY: every function that destroys has this type.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(function)
        };
        // SAFETY: an object that `create` made, destroyed once: nobody holds it any more. A status
        // would change nothing.
        unsafe { function(self.pointer()) };
    }
}

/// What is there when a twin is set.
pub struct Maker<'a> {
    /// The original.
    pub library: &'static Library,
    /// Its handle that the call is made with.
    pub handle: *mut c_void,
    /// The twin of the dropout descriptor with this address of ours; NULL for 0.
    pub dropout: &'a dyn Fn(usize) -> Option<*mut c_void>,
}

/// Plain data that an object of the original can be set to.
pub trait Twinned {
    /// The functions that create and destroy the object.
    const LIFE: [&'static str; 2];

    /// Sets a new object to this data.
    ///
    /// # Errors
    /// As the original answers; `None` for what it cannot describe.
    fn describe(&self, twin: &Twin, maker: &Maker<'_>) -> Result<(), Option<Failed>>;

    /// What cases and sizes depend on.
    fn facts(&self) -> Facts {
        Facts::NONE
    }

    /// A twin of this data.
    ///
    /// # Errors
    /// As [`describe`](Self::describe).
    fn twin(&self, maker: &Maker<'_>) -> Result<Twin, Option<Failed>> {
        let [create, destroy] = Self::LIFE;
        let mut twin = Twin::create(maker.library, create, destroy)?;
        self.describe(&twin, maker)?;
        twin.facts = self.facts();
        Ok(twin)
    }
}
