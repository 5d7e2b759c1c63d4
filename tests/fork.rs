//! Worker threads after `fork`. Alone in its process: a child of a process whose other threads are
//! in the midst of allocating or unwinding may find the C library's own locks taken.

use cudnn::backend::cpu::threads;
use std::sync::{Barrier, Mutex};

/// Two tasks that must be under way at once, so that they end only if a second thread is alive.
fn two_at_once() -> bool {
    let barrier = Barrier::new(2);
    let ids = Mutex::new(Vec::new());
    let outcome = threads::run(2, 2, &|_| {
        barrier.wait();
        ids.lock().expect("no task panics").push(std::thread::current().id());
    });
    let ids = ids.into_inner().expect("no task panics");
    outcome.is_ok() && ids.len() == 2 && ids[0] != ids[1]
}

#[test]
fn a_forked_child_has_working_threads() {
    assert!(two_at_once(), "the parent's own pool must work and have a worker before the fork");
    // SAFETY: the child only runs the pool and leaves through _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // A child without workers would wait for ever: the alarm turns that into a status.
        // SAFETY: plain system calls; _exit leaves without the parent's exit handlers.
        unsafe {
            libc::alarm(20);
            libc::_exit(i32::from(!two_at_once()));
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child's pool failed");
    assert!(two_at_once(), "the parent's pool goes on");
}
