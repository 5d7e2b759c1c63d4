//! Two stages of work: one thing at a time goes through the first, as many as there are processors
//! through the second.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::Result;

/// What `second` makes of what `first` makes of every item, in their order, and what `first` made.
pub fn pipe<T: Sync, U: Clone + Send, R: Send>(
    items: &[T], first: impl Fn(&T) -> Result<U>, second: impl Fn(&T, &U) -> Result<R> + Sync,
) -> Result<Vec<(U, R)>> {
    let (send, receive) = mpsc::channel::<(usize, U)>();
    let receive = Mutex::new(receive);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(8));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((at, between)) = next else { break };
                    let result = second(&items[at], &between);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((at, between, result));
                }
            });
        }
        // Dropped in the end, whatever that is: then the threads stop.
        let send = send;
        for (at, item) in items.iter().enumerate() {
            // Nobody stops before this one does.
            let _ = send.send((at, first(item)?));
        }
        Ok::<(), anyhow::Error>(())
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, ..)| at);
    done.into_iter().map(|(_, between, result)| Ok((between, result?))).collect()
}
