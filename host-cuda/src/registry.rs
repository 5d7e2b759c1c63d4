//! Opaque handles: numbers that are never followed as pointers, so that NULL, wild and destroyed
//! ones are told apart.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Objects by their handles.
pub struct Registry<T> {
    objects: RwLock<BTreeMap<usize, Arc<T>>>,
}

/// The last handle given out, of any kind of object: none is given out twice, and one kind's is
/// none of another's.
static LAST: AtomicUsize = AtomicUsize::new(0);
/// The distance of handles, which are as far from each other as pointers would be.
const STEP: usize = 64;

impl<T> Registry<T> {
    /// Without objects.
    pub const fn new() -> Self {
        Registry { objects: RwLock::new(BTreeMap::new()) }
    }

    /// Keeps an object and returns its handle, which is not NULL.
    pub fn add(&self, object: T) -> *mut c_void {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let handle = LAST.fetch_add(STEP, Ordering::Relaxed) + STEP;
        objects.insert(handle, Arc::new(object));
        std::ptr::without_provenance_mut(handle)
    }

    /// The object, if the handle is alive.
    pub fn get(&self, handle: *const c_void) -> Option<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&handle.addr()).cloned()
    }

    /// Ends the life of a handle; `None` if it was not alive.
    pub fn remove(&self, handle: *const c_void) -> Option<Arc<T>> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&handle.addr())
    }
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Registry::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn handles_are_alive_until_they_are_removed_and_never_come_back() {
        let registry = Registry::new();
        let [first, second] = [1, 2].map(|object| registry.add(object));
        assert_eq!(registry.get(first).as_deref(), Some(&1));
        assert_eq!(registry.remove(first).as_deref(), Some(&1));
        assert!(registry.get(first).is_none() && registry.remove(first).is_none());
        assert_eq!(registry.get(second).as_deref(), Some(&2));
        let third = registry.add(3);
        assert!(third != first && third != second && !third.is_null());
        assert!(registry.get(std::ptr::null()).is_none());
        let others = Registry::new();
        others.add("of another kind");
        assert!(others.get(second).is_none() && others.get(third).is_none());
    }
}
