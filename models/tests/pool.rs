//! The thread pool in every order of events within a bound: every task runs once, its caller sees
//! what it wrote, nobody waits for ever, every job is freed once. `CUDNN_SHIM_TEST_FULL=1` takes
//! wider bounds, which takes minutes.

use models::{Calls, explore};

fn orders(name: &str, what: Calls, [short, full]: [usize; 2]) {
    let is_full = std::env::var_os("CUDNN_SHIM_TEST_FULL").is_some_and(|value| value == "1");
    let preemptions = if is_full { full } else { short };
    let orders = explore(what, preemptions);
    println!("{name}: {orders} orders of events with up to {preemptions} preemptions");
    // One for each thread that may come first, at least.
    assert!(orders > what.callers + what.workers);
}

#[test]
fn a_caller_and_a_worker() {
    orders("one worker", Calls { callers: 1, calls: 1, tasks: 3, workers: 1 }, [3, 6]);
}

#[test]
fn a_call_after_another() {
    orders("two calls", Calls { callers: 1, calls: 2, tasks: 2, workers: 1 }, [3, 4]);
}

#[test]
fn two_workers() {
    orders("two workers", Calls { callers: 1, calls: 1, tasks: 2, workers: 2 }, [2, 3]);
}

#[test]
fn two_callers_of_one_worker() {
    orders("two callers", Calls { callers: 2, calls: 1, tasks: 2, workers: 1 }, [2, 3]);
}
