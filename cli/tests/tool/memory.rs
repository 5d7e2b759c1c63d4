//! Memory that is refused at any allocation of any command: the tool says so in a line and ends
//! with 2, or does without; no file is half written, and none is left behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{folder, npy, tool};

/// Allocation `FAIL_AT` of the tool fails, or with `FAIL_ON` all after it, too; the file
/// `FAILED` is made if there was one. What `cudnn-shim run` starts is left alone.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
static long left = -1;
static int goes_on;
static const char *failed;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("FAIL_AT");
    failed = getenv("FAILED");
    goes_on = getenv("FAIL_ON") != NULL;
    if (at && !strcmp(program_invocation_short_name, "cudnn-shim")) left = atol(at);
}

static int fails(void) {
    if (left < 0) return 0;
    long before = __atomic_fetch_sub(&left, left > 0, __ATOMIC_RELAXED);
    if (before > 0) return 0;
    if (!goes_on) left = -1;
    int file = open(failed, O_CREAT | O_WRONLY, 0600);
    if (file >= 0) close(file);
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { return fails() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = fails() ? NULL : __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
"#;

/// With this the C library itself ends a process, with 127, if it finds no room for the variables
/// of a thread that a library brings.
const LOADER: &str = "cannot allocate memory for thread-local data";

/// With this it aborts the process if it finds none for what gives such a variable back.
const DESTRUCTOR: &str = "Fatal glibc error: failed to register TLS destructor: out of memory";

/// The standard library says how to have a backtrace, on a line of its own.
const NOTE: &str = "note: ";

/// Each of the first allocations fails, and later ones further apart.
const ATTEMPTS: usize = 48;

fn shim(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    fs::write(&source, SHIM).expect("writable");
    let output = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .expect("cc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// The names and contents of a folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect();
    files.sort();
    files
}

/// Runs a command in `folder` with each allocation failing in turn; returns in how many runs one
/// did, and how many of these ended for want of memory.
fn judge(shim: &Path, folder: &Path, arguments: &[&str]) -> (usize, usize) {
    let before = contents(folder);
    let run = |fails_at: Option<(usize, bool)>, failed: &Path| {
        let mut command = tool();
        command.args(arguments).current_dir(folder).env_remove("RUST_BACKTRACE");
        if let Some((n, goes_on)) = fails_at {
            command.env("LD_PRELOAD", shim).env("FAIL_AT", n.to_string()).env("FAILED", failed);
            if goes_on {
                command.env("FAIL_ON", "1");
            }
        }
        command.output().expect("the tool starts")
    };
    let want = run(None, Path::new(""));
    let after = contents(folder);
    let reset = || {
        for (path, _) in contents(folder) {
            fs::remove_file(path).expect("a file");
        }
        before.iter().for_each(|(path, bytes)| fs::write(path, bytes).expect("writable"));
    };
    let failed = shim.with_file_name("failed");
    let (mut failing, mut ended) = (0, 0);
    let mut n = 0;
    for attempt in 0..ATTEMPTS {
        let _ = fs::remove_file(&failed);
        reset();
        let output = run(Some((n, attempt % 2 == 1)), &failed);
        let said = String::from_utf8_lossy(&output.stderr);
        let how = format!("{arguments:?}, allocation {n}: {:?}\n{said}", output.status);
        let left = contents(folder);
        if output.status.code() == want.status.code() {
            assert!(left == after, "{how}\nother files");
        } else {
            let is_of_library = match output.status.code() {
                Some(127) => said.starts_with(LOADER),
                None => output.status.signal() == Some(libc::SIGABRT) && said.starts_with(DESTRUCTOR),
                _ => false,
            };
            assert!(output.status.code() == Some(2) || is_of_library, "{how}");
            let lines = said.lines().filter(|line| !line.starts_with(NOTE)).count();
            assert!(lines == 1, "{how}\nnot one line");
            assert!(left == before || left == after, "{how}\na file is half written, or left behind");
            ended += 1;
        }
        if !failed.exists() {
            break;
        }
        failing += 1;
        n += 1 + n / 6;
    }
    (failing, ended)
}

#[test]
fn every_command_ends_in_a_line_where_no_memory_is_left() {
    let folder = folder("memory");
    let shim = shim(&folder);
    let files = folder.join("files");
    // More than the library's reserve has room for.
    let data: Vec<u8> = (0..3 * 512 * 512).map(|i| i as u8).collect();
    let mut all_ended = 0;
    for arguments in [
        &["explain", "--layout", "NCHW", "--dims", "2,3,4,5"][..],
        &["explain", "--strides", "60,20,5,1", "--dims", "2,3,4,5", "--json"],
        &["explain", "--layout", "NHWC", "--dims", "2,3,4,5", "--svg", "picture.svg"],
        &["transform", "in.npy", "out.npy", "--from", "NCHW", "--to", "NHWC"],
        &["transform", "one.npy", "out.png", "--from", "NCHW", "--to", "NHWC"],
        &["transform", "in.npy", "in.npy", "--from", "NCHW", "--to", "NHWC"],
        &["doctor"],
        &["doctor", "/bin/true"],
        &["run", "/bin/true"],
        &["completions", "bash"],
    ] {
        let _ = fs::remove_dir_all(&files);
        fs::create_dir(&files).expect("writable");
        fs::write(files.join("in.npy"), npy("|u1", false, &[2, 3, 4, 5], &data[..120])).expect("writable");
        fs::write(files.join("one.npy"), npy("|u1", false, &[1, 3, 512, 512], &data)).expect("writable");
        let (failing, ended) = judge(&shim, &files, arguments);
        assert!(failing > 20, "{arguments:?}: only {failing} allocations failed");
        all_ended += ended;
    }
    assert!(all_ended > 0, "no command ended for want of memory");
}
