//! Bad input: one clear line, exit status 2, nothing half-written.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::{folder, npy, refuses, tool};

fn refused(arguments: &[&str]) -> String {
    refuses(&tool().args(arguments).output().expect("the tool starts"))
}

#[test]
fn explain_names_what_is_wrong() {
    for (arguments, words) in [
        (&["--dims", "1,2,3", "--layout", "NHWC"][..], &["NHWC", "4 dimensions"][..]),
        (&["--dims", "1,2,3,4", "--layout", "NHCX"], &["NHCX", "not known"]),
        (&["--dims", "1,0,3,4"], &["extent 1 is 0"]),
        (&["--dims", "5"], &["2 to 8 dimensions"]),
        (&["--dims", "1,2,3,4,5,6,7,8,9"], &["2 to 8 dimensions"]),
        (&["--dims", "1,2,3,4", "--strides", "1,2,3"], &["3 strides"]),
        (&["--dims", "9223372036854775807,9223372036854775807"], &[]),
        (&["--dims", "3,4", "--strides", "9223372036854775807,1"], &["2^63"]),
        (&["--dims", "1,6,2,2", "--layout", "NC/4HW4", "--type", "int8x4"], &["multiple of 4"]),
        (&["--dims", "1,2,3,4", "--svg", "/nonexistent/x.svg"], &["/nonexistent/x.svg", "No such file"]),
    ] {
        let said = refused(&[&["explain"], arguments].concat());
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
    }
}

#[test]
fn explain_names_what_is_wrong_with_a_graph() {
    let folder = folder("graph_refusals");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("writable");
        path.to_str().expect("a path in UTF-8").to_owned()
    };
    let plan = crate::explain::PLAN;
    for (path, words) in [
        (folder.join("none.json").to_str().expect("a path in UTF-8").to_owned(), "No such file"),
        (file("list.json", "[1]"), "no \"operationGraph\""),
        (file("cut.json", &plan[..plan.len() / 2]), "the text of a plan"),
        (file("mode.json", &plan.replace("\"POINTWISE_MODE\": 100", "\"POINTWISE_MODE\": 999")), "mode 999"),
        (
            file("type.json", &plan.replacen("\"dataType\": 0", "\"dataType\": 17", 1)),
            "no engine computes it",
        ),
    ] {
        let said = refused(&["explain", "--graph", &path]);
        assert!(said.starts_with(&path) && said.contains(words), "{said}");
    }
    assert!(refused(&["explain", "--graph", "x", "--dims", "1,2,3,4"]).contains("--dims"));
}

#[test]
fn transform_names_what_is_wrong_and_writes_nothing() {
    let folder = folder("refusals");
    let whole = npy("<f4", false, &[2, 3, 4, 5], &[0; 480]);
    let file = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).expect("writable");
    };
    file("whole.npy", &whole);
    file("short.npy", &whole[..whole.len() - 1]);
    file("header.npy", &whole[..40]);
    file("empty.npy", b"");
    file("text.npy", b"no array");
    file("pickled.npy", &npy("|O", false, &[3], &[0; 24]));
    file("big.npy", &npy(">f4", false, &[1, 1, 1, 1], &[0; 4]));
    file("zero.npy", &npy("<f4", false, &[2, 0, 4, 5], &[]));
    file("huge.npy", &npy("<f8", false, &[1 << 32, 1 << 32, 4, 5], &[]));
    file("image.npy", &npy("|u1", false, &[4, 5, 3], &[0; 60]));
    file("flat.npy", &npy("<f4", false, &[6], &[0; 24]));
    file("short.png", b"\x89PNG\r\n\x1a\n\0\0");
    file("short.jpg", b"\xff\xd8\xff");
    file("short.ppm", b"P6 4 4 255\nabc");
    fs::create_dir(folder.join("folder")).expect("writable");
    let before = fs::read_dir(&folder).expect("readable").count();
    for (arguments, words) in [
        (&["missing.npy", "out.npy"][..], &["missing.npy", "no such file"][..]),
        (&["short.npy", "out.npy"], &["short.npy", "479 of 480 bytes"]),
        (&["header.npy", "out.npy"], &["header.npy", "ends early"]),
        (&["empty.npy", "out.npy"], &["empty.npy", "empty"]),
        (&["text.npy", "out.npy"], &["no .npy file"]),
        (&["pickled.npy", "out.npy"], &["pickled"]),
        (&["big.npy", "out.npy"], &["big-endian"]),
        (&["zero.npy", "out.npy"], &["axis 1 has no elements"]),
        (&["huge.npy", "out.npy"], &["64 bits"]),
        (&["flat.npy", "out.npy", "--from", "NHWC"], &["NHWC"]),
        (&["flat.npy", "out.npy", "--from", "NDHWC"], &["5 dimensions"]),
        (&["whole.npy", "out.npy", "--to", "BMN"], &["3 dimensions"]),
        (&["whole.npy", "out.npy", "--to", "NHWX"], &["not known"]),
        (&["whole.npy", "out.npy", "--crop", "2,2,0,0"], &["dimension 2"]),
        (&["whole.npy", "out.npy", "--crop", "2"], &["four numbers"]),
        (&["whole.npy", "out.npy", "--fold", "2"], &["2 factors"]),
        (&["whole.npy", "out.npy", "--type", "int8x4"], &["NC/4HW4"]),
        (&["folder", "out.npy"], &["folder", "a directory"]),
        (&["whole.npy", "folder"], &["folder", "a directory"]),
        (&["whole.npy", "missing/out.npy"], &["missing/out.npy", "no such file"]),
        (&["whole.npy", "out.png"], &["a picture is one NHWC image of uint8"]),
        (&["short.png", "out.npy"], &["short.png"]),
        (&["short.jpg", "out.npy"], &["short.jpg"]),
        (&["short.ppm", "out.npy"], &["short.ppm", "3 of 48 bytes"]),
        (&["image.npy", "out.npy", "--to", "NCHW"], &["[4, 5, 3]", "--from HWC (or CHW)", "--to NCHW"]),
        (&["image.npy", "out.npy", "--to", "CHW"], &["--from HWC (or CHW)", "--to CHW"]),
        (&["image.npy", "out.png"], &["--from HWC (or CHW)", "a picture"]),
        (&["whole.npy", "/dev/full"], &["/dev/full", "no space"]),
        (&["whole.npy", "out.tiff"], &["out.tiff", ".npy, .png"]),
        (&["whole.npy", "out.npy", "--from", "CHW"], &["--from CHW", "3 axes"]),
        (&["whole.npy", "out.npy", "--to", "CHW"], &["--to CHW", "there are 2"]),
        (&["whole.npy", "out.npy", "--channels", "4"], &["--channels 4", "has 3"]),
        (&["whole.npy", "out.npy", "--from-type", "bf16"], &["--from-type", "2 bytes", "<f4"]),
        (&["whole.npy", "out.npy", "--type", "f17"], &["f17", "--type"]),
        (&["whole.npy"], &["<OUT>"]),
        (&["whole.npy", "out.npy", "--unknown"], &["--unknown"]),
        (&["whole.npy", "out.npy", "--fold", "2,2", "--unfold", "2,2"], &["--fold", "--unfold"]),
    ] {
        let output =
            tool().current_dir(&folder).arg("transform").args(arguments).output().expect("the tool starts");
        let said = refuses(&output);
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
        assert_eq!(
            fs::read_dir(&folder).expect("readable").count(),
            before,
            "{arguments:?} leaves something behind"
        );
    }
}

#[test]
fn a_failing_disk_leaves_the_old_file() {
    let folder = folder("old-file");
    fs::write(folder.join("in.npy"), npy("<f4", false, &[1 << 10, 1 << 10, 1, 1], &vec![1; 4 << 20]))
        .expect("writable");
    fs::write(folder.join("out.npy"), "old").expect("writable");
    // Files of at most 1 MB, as on a disk that is full.
    let script = format!(
        "ulimit -f 1024; trap '' XFSZ; exec {} transform in.npy out.npy --to NHWC",
        env!("CARGO_BIN_EXE_cudnn-shim")
    );
    let output = std::process::Command::new("sh")
        .current_dir(&folder)
        .args(["-c", &script])
        .output()
        .expect("sh starts");
    let said = refuses(&output);
    assert!(said.starts_with("out.npy: "), "{said}");
    assert_eq!(fs::read(folder.join("out.npy")).expect("it is still there"), b"old");
    assert_eq!(fs::read_dir(&folder).expect("readable").count(), 2);
}

#[test]
fn misspelt_words_are_named_with_what_was_meant() {
    for (arguments, sentence) in [
        (
            &["explain", "--dims", "1,2,3,4", "--layot", "NHWC"][..],
            "--layot is no option here; did you mean --layout?",
        ),
        (&["doctor", "--jsn"], "--jsn is no option here; did you mean --json?"),
        (&["transform", "a", "b", "c"], "c is one word too many"),
        (&["explain", "--dims", "1,2,3,4", "--type", "flot"], "; did you mean float?"),
        (&["completions", "bsh"], "; did you mean bash?"),
        (&["transfrom", "a", "b"], "; did you mean transform?"),
        (&["docter"], "docter is no command; there are explain, transform, run, doctor, "),
        (&["man", "doctr"], "; did you mean doctor?"),
        (&["man", "xyz"], "man: xyz is no command; there are explain, "),
        (&["doctor", "nope"], "nope: no program of this name on PATH, and no file in this folder"),
    ] {
        let said = refused(arguments);
        assert!(said.contains(sentence), "{arguments:?}: {said}");
        assert_eq!(
            said.contains("did you mean"),
            sentence.contains("did you mean") || arguments == ["docter"],
            "{said}"
        );
    }
}

#[test]
fn doctor_takes_programs_only() {
    let folder = folder("no-programs");
    fs::write(folder.join("text"), "text").expect("writable");
    fs::write(folder.join("cut"), b"\x7fELF\x02\x01\x01").expect("writable");
    fs::write(folder.join("empty"), b"").expect("writable");
    for (name, word) in [
        ("./text", "no ELF"),
        ("./cut", "./cut: "),
        ("./empty", "empty"),
        ("text", "not found on PATH; a file of this folder is ./text"),
        ("./missing", "No such file"),
        ("./", "a directory"),
    ] {
        let output = tool().current_dir(&folder).args(["doctor", name]).output().expect("the tool starts");
        let said = refuses(&output);
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let folder = folder("pipe");
    fs::write(folder.join("in.npy"), npy("|u1", false, &[16, 16, 64, 64], &vec![1; 1 << 20]))
        .expect("writable");
    for arguments in
        [&["transform", "in.npy", "-"][..], &["explain", "--dims", "200,200,9,9", "--json"], &["man"]]
    {
        let mut child = tool()
            .current_dir(&folder)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the tool starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_pipe_that_ends_early_is_noticed() {
    let mut child = tool()
        .args(["transform", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    let whole = npy("<f4", false, &[2, 3, 4, 5], &[0; 480]);
    child.stdin.take().expect("piped").write_all(&whole[..200]).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(refuses(&output).contains("72 of 480 bytes"));
    assert!(output.stdout.is_empty());
}
