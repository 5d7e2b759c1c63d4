//! Loading the original on trial, in a child of this process: what ends that one does not end this
//! one.

use std::ffi::c_int;
use std::time::{Duration, Instant};

/// How long the child may take: it maps 800 MB of a disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for a byte of the child before its end is looked for.
const TICK_MS: c_int = 20;

/// Runs `body` in a child of this process, and says in a sentence what became of the child if it
/// did not come to the end of it. `Ok` where no child can be made.
pub(super) fn survive(body: impl FnOnce()) -> Result<(), String> {
    let mut ends: [c_int; 2] = [-1; 2];
    // SAFETY: a place for two numbers.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Ok(());
    }
    let [from, to] = ends;
    // SAFETY: the child calls `body` and ends; what other threads held of the allocator and the
    // loader, `fork` lets go in it.
    match unsafe { libc::fork() } {
        0 => child(body, to),
        child => {
            close(to);
            let outcome = if child < 0 { Ok(()) } else { watched(child, from) };
            close(from);
            outcome
        }
    }
}

/// Ends the child quietly: no file of its memory, no word of its own, none of the program's
/// handlers.
fn child(body: impl FnOnce(), to: c_int) -> ! {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a value that is alive.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    let fatal =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
    for signal in fatal {
        // SAFETY: the default action is no function of anybody.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: a C string, and descriptors of this process alone.
    unsafe {
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        libc::dup2(nowhere, libc::STDOUT_FILENO);
        libc::dup2(nowhere, libc::STDERR_FILENO);
    }
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
    // SAFETY: one readable byte. `_exit` runs nothing of the program.
    unsafe {
        if ended {
            libc::write(to, [1_u8].as_ptr().cast(), 1);
        }
        libc::_exit(c_int::from(!ended))
    }
}

/// Waits for the child, which writes a byte at the end of its body. Its end alone would not do: the
/// program may have had the system forget how its children end.
fn watched(child: libc::pid_t, from: c_int) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let mut wanted = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
        // SAFETY: one description of a file.
        let ready = unsafe { libc::poll(&raw mut wanted, 1, TICK_MS) };
        let mut byte = 0_u8;
        // SAFETY: a place for one byte.
        if ready == 1 && unsafe { libc::read(from, (&raw mut byte).cast(), 1) } == 1 {
            wait(child);
            return Ok(());
        }
        // Nobody has the other end any more, or a child of another thread has it as well.
        let ended = if ready == 1 { Some(wait(child)) } else { ended(child) };
        if let Some(status) = ended {
            return Err(match status {
                Some(status) if libc::WIFSIGNALED(status) => {
                    format!("it ends a process that loads it by signal {}", libc::WTERMSIG(status))
                }
                Some(status) => {
                    format!("it ends a process that loads it with status {}", libc::WEXITSTATUS(status))
                }
                None => "it ends a process that loads it".to_owned(),
            });
        }
        if start.elapsed() > PATIENCE {
            // SAFETY: a child of this process, which nobody has waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            wait(child);
            return Err(format!("a process that loads it is not done after {} seconds", PATIENCE.as_secs()));
        }
    }
}

/// How the child has ended, `None` if it has not.
fn ended(child: libc::pid_t) -> Option<Option<c_int>> {
    let mut status = 0;
    // SAFETY: a place for one number.
    let found = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
    // A child that somebody else waited for may be done with its body: its byte tells.
    (found == child).then_some(Some(status))
}

/// Waits for the end of the child; its status, `None` if somebody else was told.
fn wait(child: libc::pid_t) -> Option<c_int> {
    let mut status = 0;
    loop {
        // SAFETY: a place for one number.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Some(status);
        }
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
    }
}

fn close(file: c_int) {
    // SAFETY: a descriptor of this module, closed once.
    unsafe { libc::close(file) };
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::survive;

    #[test]
    fn a_child_tells_how_it_ended() {
        assert_eq!(survive(|| {}), Ok(()));
        // SAFETY: ends the child.
        let exits = survive(|| unsafe { libc::_exit(3) });
        assert_eq!(exits, Err("it ends a process that loads it with status 3".to_owned()));
        let aborts = survive(|| std::process::abort());
        assert_eq!(aborts, Err("it ends a process that loads it by signal 6".to_owned()));
    }
}
