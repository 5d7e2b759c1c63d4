//! Where worker threads run after their process was given other processors. Alone in its process,
//! whose threads it counts.

use cudnn::backend::cpu::threads;
use std::fs;
use std::sync::Barrier;

/// The processors that a thread of this process may run on, this one for 0.
fn allowed(thread: libc::pid_t) -> Vec<usize> {
    // SAFETY: a set of that size, all zero at first; indices lie inside it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(thread, size_of_val(&set), &raw mut set), 0);
        (0..size_of_val(&set) * 8).filter(|&i| libc::CPU_ISSET(i, &set)).collect()
    }
}

/// What `taskset -p` does to the thread that calls.
fn allow(processors: &[usize]) {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        processors.iter().for_each(|&i| libc::CPU_SET(i, &mut set));
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

/// A job of three threads at once, so that all three take part; then the processors of each worker.
fn workers() -> Vec<Vec<usize>> {
    let barrier = Barrier::new(3);
    threads::run(3, 3, &|_| _ = barrier.wait()).expect("no task panics");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/task").expect("Linux") {
        let entry = entry.expect("a thread");
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with("cudnn-shim-") {
            let id = entry.file_name().to_str().and_then(|id| id.parse().ok()).expect("a number");
            found.push(allowed(id));
        }
    }
    assert_eq!(found.len(), 2);
    found
}

#[test]
fn workers_follow_their_caller() {
    let all = allowed(0);
    for one in [all[0], all[all.len() - 1]] {
        workers();
        allow(&[one]);
        workers().into_iter().for_each(|worker| assert_eq!(worker, [one]));
        allow(&all);
        for worker in workers() {
            // All but the caller's, of several.
            assert!(
                worker.len() >= (all.len() - 1).max(1) && worker.iter().all(|i| all.contains(i)),
                "{worker:?}"
            );
        }
    }
}
