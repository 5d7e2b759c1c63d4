//! `run`, `doctor`, completions and the man page.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::{folder, refuses, says, tool};

#[test]
fn doctor_tells_about_this_machine() {
    let output = tool()
        .args(["doctor", "--json"])
        .envs([("CUDNN_SHIM_BACKEND", "cpu"), ("CUDNN_SHIM_NUM_THREADS", "3"), ("CUDNN_PLUGIN", "x")])
        .output()
        .expect("the tool starts");
    let facts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&facts["core"], &facts["threads"], &facts["version"]),
        (&"cpu".into(), &3.into(), &92700.into())
    );
    let read: Vec<&str> =
        facts["environment_read"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(
        read.contains(&"CUDNN_SHIM_BACKEND=cpu") && read.contains(&"CUDNN_SHIM_NUM_THREADS=3"),
        "{read:?}"
    );
    assert_eq!(facts["environment_ignored"][0], "CUDNN_PLUGIN: not read by this library");
    let output =
        tool().args(["doctor"]).env("CUDNN_SHIM_BACKEND", "wrong").output().expect("the tool starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cudnnCreate fails"));
}

#[test]
fn doctor_says_which_original_would_serve() {
    let of = |value: Option<&Path>| {
        let mut command = tool();
        command.args(["doctor", "--json"]).env("CUDNN_SHIM_BACKEND", "cpu").env_remove("CUDNN_SHIM_ORIGINAL");
        let output = command.envs(value.map(|value| ("CUDNN_SHIM_ORIGINAL", value))).output();
        let facts: Value = serde_json::from_slice(&output.expect("the tool starts").stdout).expect("JSON");
        facts["original"].as_str().expect("a sentence").to_owned()
    };
    let place = folder("doctor-original");
    assert_eq!(of(Some(&place)), "CUDNN_SHIM_ORIGINAL finds no libcudnn.so.9");
    let file = place.join("libcudnn.so.9");
    fs::write(&file, "the original").expect("writable");
    assert_eq!(of(Some(&place)), format!("{} serves beside this library", file.display()));
    assert!(of(None).starts_with("not asked for"), "{}", of(None));
}

#[test]
fn the_list_of_variables_is_complete() {
    let output = tool()
        .args(["doctor", "--json"])
        .envs([("CUDNN_CONV_WSCAP_DBG", "7"), ("NVIDIA_TF32_OVERRIDE", "0"), ("CUDNN_SHIM_HOST_LOG", "1")])
        .env("CUDNN_SHIM_BACKEND", "cpu")
        .output()
        .expect("the tool starts");
    let facts: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |key: &str| -> Vec<String> {
        let values = facts[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        values.map(str::to_owned).collect()
    };
    for expected in ["CUDNN_CONV_WSCAP_DBG=7", "NVIDIA_TF32_OVERRIDE=0", "CUDNN_SHIM_HOST_LOG=1"] {
        assert!(of("environment_read").contains(&expected.to_owned()), "{expected}: {facts:#}");
    }
    assert!(
        !of("environment_ignored").iter().any(|line| line.contains("WSCAP") || line.contains("HOST")),
        "{facts:#}"
    );
}

/// Where programs and libraries of a few lines are built.
struct Workshop(PathBuf);

impl Workshop {
    /// An empty folder with libraries that stand in for those of an installation: they define these
    /// names and nothing else.
    fn new(name: &str, cudnn: &[&str], cudart: &[&str]) -> Workshop {
        let workshop = Workshop(folder(name));
        fs::create_dir_all(workshop.0.join("lib/host-cuda")).expect("writable");
        workshop.library("lib/libcudnn.so.9", cudnn);
        workshop.library("lib/host-cuda/libcudart.so.12", cudart);
        workshop
    }

    fn compile(&self, source: &str, arguments: &[&str]) {
        fs::write(self.0.join("source.c"), source).expect("writable");
        let output = Command::new("gcc")
            .current_dir(&self.0)
            .args(["-w", "source.c"])
            .args(arguments)
            .output()
            .expect("gcc starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn library(&self, file: &str, names: &[&str]) {
        let source: String = names.iter().map(|name| format!("int {name}() {{ return 1; }}\n")).collect();
        let soname =
            format!("-Wl,-soname,{}", Path::new(file).file_name().expect("a name").to_string_lossy());
        self.compile(&source, &["-shared", "-fPIC", &soname, "-o", file]);
    }

    /// A program that calls these functions of libcudnn and libcudart; its status is how many there
    /// are.
    fn program(&self, name: &str, calls: &[&str], more: &[&str]) -> String {
        let declared: String = calls.iter().map(|call| format!("int {call}();\n")).collect();
        let called: String = calls.iter().map(|call| format!(" + {call}()")).collect();
        let source = format!("{declared}int main(int argc, char **argv) {{ return argc - 1{called}; }}\n");
        let libraries = ["./lib/libcudnn.so.9", "./lib/host-cuda/libcudart.so.12"];
        self.compile(
            &source,
            &[&["-Wl,--as-needed", "-Wl,-z,lazy", "-o", name], &libraries[..], more].concat(),
        );
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn tool(&self, arguments: &[&str]) -> Output {
        let mut command = tool();
        command.args(arguments).env("CUDNN_SHIM_LIB", self.0.join("lib")).env_remove("LD_LIBRARY_PATH");
        command.output().expect("the tool starts")
    }

    /// What `doctor` finds, and its exit status.
    fn doctor(&self, program: &str) -> (Value, Option<i32>) {
        let output = self.tool(&["doctor", "--json", program]);
        (serde_json::from_slice(&output.stdout).expect("JSON"), output.status.code())
    }
}

/// A call that a table of this repository has in this state.
fn first(table: &str, state: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(table);
    let text = fs::read_to_string(file).expect("the table");
    let row = text.lines().find(|line| {
        line.split('\t').skip(1).any(|cell| cell == state) && line.contains("12") | line.starts_with("cudnn")
    });
    row.and_then(|row| row.split('\t').next()).expect("a row in that state").to_owned()
}

/// A call that is a stub.
fn stub() -> String {
    first("src/catalogue.tsv", "stub")
}

fn sentences(facts: &Value) -> Vec<&str> {
    let reasons = facts["reasons"].as_array().into_iter().flatten();
    reasons.filter_map(|reason| reason["sentence"].as_str()).collect()
}

#[test]
fn doctor_says_whether_a_program_runs() {
    let (stub, refused) = (stub(), first("host-cuda/symbols/cudart.tsv", "refused"));
    let shop = Workshop::new(
        "doctor",
        &["cudnnCreate", "cudnnShimGetCore", "cudnnNever", &stub],
        &["cudaMalloc", &refused],
    );
    let (facts, status) = shop.doctor(&shop.program("good", &["cudnnCreate"], &[]));
    assert_eq!((status, &facts["exit_status"]), (Some(0), &0.into()), "{facts:#}");
    assert_eq!(facts["verdict"], "starts and runs on the CPU with `cudnn-shim run`");
    let with = facts["with_run"][0].as_str().expect("text");
    assert!(
        with.starts_with("libcudnn.so.9 => ") && with.ends_with("lib/libcudnn.so.9 (cudnn-shim)"),
        "{with}"
    );
    assert_eq!(facts["without_run"][0], "libcudnn.so.9: not found");
    let (facts, status) = shop.doctor(&shop.program("stub", &["cudnnCreate", &stub], &[]));
    assert_eq!(status, Some(1));
    assert_eq!(facts["verdict"], format!("starts, stops at: {stub}"));
    // What the loader finds missing at the start, or at the first call.
    let (facts, status) = shop.doctor(&shop.program("never", &["cudnnNever", &stub], &[]));
    assert_eq!((status, &facts["verdict"]), (Some(1), &"starts, stops at: cudnnNever".into()));
    let (facts, status) = shop.doctor(&shop.program("now", &["cudnnNever"], &["-Wl,-z,now"]));
    assert_eq!((status, &facts["verdict"]), (Some(2), &"does not start: libcudnn.so.9: cudnnNever".into()));
    let (facts, status) = shop.doctor(&shop.program("refused", &[&refused], &[]));
    assert_eq!(status, Some(1), "{facts:#}");
    assert!(sentences(&facts)[0].starts_with("libcudart.so.12: answers NOT_SUPPORTED ("), "{facts:#}");
    // The driver on host memory has few functions.
    let driver = "./lib/host-cuda/libcuda.so.1";
    shop.library(driver, &["cuInit", "cuLaunchKernel"]);
    let (facts, status) = shop.doctor(&shop.program("driver", &["cuInit"], &[driver]));
    assert_eq!(status, Some(0), "{facts:#}");
    let (facts, status) = shop.doctor(&shop.program("launch", &["cuInit", "cuLaunchKernel"], &[driver]));
    assert_eq!(status, Some(1), "{facts:#}");
    assert!(sentences(&facts)[0].starts_with("libcuda.so.1: answers NOT_SUPPORTED ("), "{facts:#}");
    // The verdict comes first, the heaviest reason before the others.
    let text =
        String::from_utf8(shop.tool(&["doctor", &shop.program("both", &[&stub, "cudnnNever"], &[])]).stdout);
    let text = text.expect("UTF-8");
    assert!(text.starts_with("verdict             starts, stops at: "), "{text}");
}

#[test]
fn doctor_looks_for_what_keeps_a_program_from_a_cpu() {
    let shop = Workshop::new(
        "doctor_inside",
        &["cudnnCreate", "cudnnShimGetCore"],
        &["cudaMalloc", "cudaLaunchKernel"],
    );
    let compile = |source: &str, arguments: &[&str]| shop.compile(source, arguments);
    let at = |name: &str| shop.0.join(name).to_str().expect("UTF-8").to_owned();
    compile("const char *name = \"/cudart.shm.\"; int main() { return name == 0; }", &["-o", "static"]);
    let (facts, status) = shop.doctor(&at("static"));
    assert_eq!(status, Some(1));
    assert!(sentences(&facts)[0].contains("-cudart shared"), "{facts:#}");
    let fatbin = "__attribute__((section(\".nv_fatbin\"))) const int code[4] = {1};";
    let launch = format!("{fatbin} int cudaLaunchKernel(); int main() {{ return cudaLaunchKernel(); }}");
    compile(&launch, &["-o", "kernels", "./lib/host-cuda/libcudart.so.12"]);
    let (facts, status) = shop.doctor(&at("kernels"));
    assert_eq!(status, Some(1));
    assert!(
        facts["verdict"].as_str().is_some_and(|text| text.contains("the first kernel of its own")),
        "{facts:#}"
    );
    // CUDA 13's compiler calls by another name, and so did old ones.
    for launch in ["__cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel", "cudaLaunch"] {
        shop.library("lib/host-cuda/libcudart.so.12", &[launch]);
        compile(
            &format!("{fatbin} int {launch}(); int main() {{ return {launch}(); }}"),
            &["-o", "kernels", "./lib/host-cuda/libcudart.so.12"],
        );
        let (facts, status) = shop.doctor(&at("kernels"));
        assert_eq!(status, Some(1), "{launch}: {facts:#}");
        assert!(facts.to_string().contains("the first kernel of its own"), "{launch}: {facts:#}");
    }
    // Host functions are none, and a program that has code for GPUs need not launch any.
    for call in ["cudaLaunchHostFunc", "cudaMalloc"] {
        shop.library("lib/host-cuda/libcudart.so.12", &[call]);
        compile(
            &format!("{fatbin} int {call}(); int main() {{ return {call}(); }}"),
            &["-o", "no-launch", "./lib/host-cuda/libcudart.so.12"],
        );
        let (facts, status) = shop.doctor(&at("no-launch"));
        assert_eq!(status, Some(0), "{call}: {facts:#}");
    }
    // With the runtime inside, its names tell, as long as they are there.
    let inside = format!("{fatbin} const char *runtime = \"/cudart.shm.\";");
    let stub = "int _Z25__device_stub__Z5twicePfiPfi() { return 0; }";
    for (source, strip, accused, said) in [
        (
            format!("{inside} {stub} int main() {{ return runtime == 0; }}"),
            false,
            true,
            "the first kernel of its own",
        ),
        (format!("{inside} int main() {{ return runtime == 0; }}"), false, false, "launches none of it"),
        (format!("{inside} int main() {{ return runtime == 0; }}"), true, false, "its names are stripped"),
    ] {
        compile(&source, &[&["-o", "static"][..], if strip { &["-s"] } else { &[] }].concat());
        let (facts, status) = shop.doctor(&at("static"));
        assert_eq!(status, Some(1), "{facts:#}");
        let text = facts.to_string();
        assert!(text.contains("-cudart shared") && text.contains(said), "{facts:#}");
        assert_eq!(text.contains("the first kernel of its own"), accused, "{facts:#}");
    }
    shop.library("lib/host-cuda/libcudart.so.12", &["cudaMalloc", "cudaLaunchKernel"]);
    // A library that nobody has, through one of the program's own.
    shop.library("libcufft.so.11", &["cufftExec"]);
    compile(
        "int cufftExec(); int own() { return cufftExec(); }",
        &["-shared", "-fPIC", "-Wl,-soname,libown.so", "-o", "libown.so", "./libcufft.so.11"],
    );
    fs::remove_file(shop.0.join("libcufft.so.11")).expect("removable");
    let flags = ["-o", "indirect", "./libown.so", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"];
    compile("int own(); int main() { return own(); }", &flags);
    let (facts, status) = shop.doctor(&at("indirect"));
    assert_eq!(status, Some(2));
    assert_eq!(facts["verdict"], "does not start: libcufft.so.11: not found");
    assert!(sentences(&facts)[0].contains("nothing stands in for it here"), "{facts:#}");
    // An RPATH that wins; a RUNPATH does not.
    fs::create_dir(shop.0.join("real")).expect("writable");
    shop.library("real/libcudnn.so.9", &["cudnnCreate"]);
    for (flag, expected) in [("-Wl,--disable-new-dtags", 1), ("-Wl,--enable-new-dtags", 0)] {
        let program = shop.program("rpath", &["cudnnCreate"], &["-Wl,-rpath,$ORIGIN/real", flag]);
        let (facts, status) = shop.doctor(&program);
        assert_eq!(status, Some(expected), "{flag}: {facts:#}");
        assert_eq!(
            sentences(&facts).iter().any(|text| text.contains("patchelf --remove-rpath")),
            expected == 1
        );
    }
    // A program without cuDNN.
    let text =
        String::from_utf8(shop.tool(&["doctor", env!("CARGO_BIN_EXE_cudnn-shim")]).stdout).expect("UTF-8");
    assert!(text.contains("asks for no libcudnn"), "{text}");
}

#[test]
fn doctor_advises_what_helps() {
    let shop = Workshop::new("doctor_advice", &["cudnnCreate", "cudnnShimGetCore"], &["cudaMalloc"]);
    let program = shop.program("both", &["cudnnCreate", "cudaMalloc"], &[]);
    fs::remove_dir_all(shop.0.join("lib/host-cuda")).expect("removable");
    let (facts, status) = shop.doctor(&program);
    assert_eq!(status, Some(2));
    assert!(
        sentences(&facts)[0].starts_with("libcudart.so.12: not found; there is no host-cuda in "),
        "{facts:#}"
    );
    shop.library("libcudnn.so.8", &["cudnnCreate"]);
    shop.compile(
        "int cudnnCreate(); int main() { return cudnnCreate(); }",
        &["-o", "eight", "./libcudnn.so.8"],
    );
    fs::rename(shop.0.join("libcudnn.so.8"), shop.0.join("lib/libcudnn.so.8")).expect("writable");
    let eight = shop.0.join("eight");
    let (facts, _) = shop.doctor(eight.to_str().expect("UTF-8"));
    assert!(!facts.to_string().contains("--api 8"), "it is there: {facts:#}");
    fs::remove_file(shop.0.join("lib/libcudnn.so.8")).expect("removable");
    let (facts, status) = shop.doctor(eight.to_str().expect("UTF-8"));
    assert!(status == Some(2) && facts.to_string().contains("--api 8"), "{facts:#}");
    for (name, bytes) in [("empty", &b""[..]), ("text", b"no program\n"), ("torn", b"\x7fELF\x02\x01\x01")] {
        fs::write(shop.0.join(name), bytes).expect("writable");
        let output = shop.tool(&["doctor", shop.0.join(name).to_str().expect("UTF-8")]);
        refuses(&output);
    }
}

#[test]
fn doctor_says_where_it_cannot_tell() {
    let shop = Workshop::new("doctor_unknown", &["cudnnCreate", "cudnnShimGetCore"], &["cudaMalloc"]);
    let at = |name: &str| shop.0.join(name).to_str().expect("UTF-8").to_owned();
    let script = |name: &str, text: &str| {
        fs::write(shop.0.join(name), text).expect("writable");
        fs::set_permissions(shop.0.join(name), fs::Permissions::from_mode(0o755)).expect("settable");
        at(name)
    };
    let sh = script("script", "#!/bin/sh\nexit 0\n");
    for program in ["/bin/ls", env!("CARGO_BIN_EXE_cudnn-shim"), &sh] {
        let (facts, status) = shop.doctor(program);
        assert_eq!((status, &facts["exit_status"]), (Some(3), &3.into()), "{program}: {facts:#}");
        assert!(facts["verdict"].as_str().is_some_and(|text| text.starts_with("cannot tell: ")), "{facts:#}");
        assert!(sentences(&facts).iter().any(|text| text.contains("CUDNN_LOGLEVEL_DBG")), "{facts:#}");
    }
    // What is known weighs more.
    let missing = script("missing", "#!/nowhere/interpreter\n");
    assert_eq!(shop.doctor(&missing).1, Some(2));
    // Python with a PyTorch for GPUs, with one for CPUs, and without.
    fs::create_dir_all(shop.0.join("env/bin")).expect("writable");
    shop.compile("int main() { return 0; }", &["-o", "env/bin/python3.11"]);
    std::os::unix::fs::symlink("python3.11", shop.0.join("env/bin/python")).expect("a link");
    let torch = shop.0.join("env/lib/python3.11/site-packages/torch");
    let script = script("train.py", &format!("#!{}\nimport torch\n", at("env/bin/python")));
    for (files, says) in [
        (&[][..], None),
        (&["__init__.py"], Some("PyTorch calls no cuDNN there")),
        (&["__init__.py", "lib/libtorch_cuda.so"], Some("let it compute on its device `cpu`")),
    ] {
        for file in files {
            fs::create_dir_all(torch.join(file).parent().expect("a folder")).expect("writable");
            fs::write(torch.join(file), "").expect("writable");
        }
        for program in [&at("env/bin/python"), &at("env/bin/python3.11"), &script] {
            let (facts, status) = shop.doctor(program);
            assert_eq!(status, Some(3), "{facts:#}");
            let said = facts.to_string();
            assert_eq!(said.contains("PyTorch"), says.is_some(), "{facts:#}");
            assert!(said.contains(says.unwrap_or("cannot tell")), "{facts:#}");
        }
    }
}

#[test]
fn the_tool_does_not_hold_the_library() {
    let tool = Path::new(env!("CARGO_BIN_EXE_cudnn-shim"));
    let library = tool.parent().expect("a folder").join("deps/libcudnn.so");
    let size = |file: &Path| fs::metadata(file).expect("it was built with the tool").len();
    assert!(size(tool) * 2 < size(&library), "{} of {} bytes", size(tool), size(&library));
    // Alone, too far below the folder of builds to find what lies there, it says what it needs;
    // what needs no library it does.
    let alone = folder("alone").join("far/from/all/builds/cudnn-shim");
    fs::create_dir_all(alone.parent().expect("a folder")).expect("writable");
    fs::copy(tool, &alone).expect("writable");
    let start = |arguments: &[&str]| {
        let mut command = Command::new(&alone);
        command.args(arguments).current_dir(alone.parent().expect("a folder")).env_remove("LD_LIBRARY_PATH");
        command.env_remove("CUDNN_SHIM_LIB").output().expect("the tool starts")
    };
    let output = start(&["explain", "--dims", "1,2,3,4", "--layout", "NHWC"]);
    assert!(output.status.success(), "{output:?}");
    let said = refuses(&start(&["doctor"]));
    assert!(said.contains("no libcudnn.so.9 of this project") && said.contains("CUDNN_SHIM_LIB"), "{said}");
}

#[test]
fn run_becomes_the_program() {
    let stub = stub();
    let shop = Workshop::new("run", &["cudnnCreate", "cudnnShimGetCore", &stub], &["cudaMalloc"]);
    // Its own arguments are its own, also those that look like the tool's; so is its status.
    let program = shop.program("status", &["cudnnCreate"], &[]);
    let output = shop.tool(&["run", &program, "--check", "--threads", "x"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    // Signals, too.
    shop.compile("#include <signal.h>\nint main() { return raise(SIGTERM); }", &["-o", "signal"]);
    let output = shop.tool(&["run", shop.0.join("signal").to_str().expect("UTF-8")]);
    assert_eq!(output.status.signal(), Some(15));
    // What is set.
    let shown = |arguments: &[&str]| {
        let arguments = [&["run"], arguments, &["sh", "-c", "echo \"$LD_LIBRARY_PATH|$CUDNN_SHIM_BACKEND|$CUDNN_SHIM_NUM_THREADS|$CUDNN_SHIM_HOST_CHECK\""]].concat();
        let output = shop.tool(&arguments);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let lib = fs::canonicalize(shop.0.join("lib")).expect("there").display().to_string();
    assert_eq!(shown(&[]), format!("{lib}/host-cuda:{lib}|cpu||\n"));
    assert_eq!(shown(&["--check", "--threads", "3"]), format!("{lib}/host-cuda:{lib}|cpu|3|1\n"));
    // Beside the original there are no stand-ins, and the core is the one that there is.
    let echo = "echo \"$LD_LIBRARY_PATH|$CUDNN_SHIM_BACKEND|$CUDNN_SHIM_ORIGINAL\"";
    let output = shop.tool(&["run", "--original", &lib, "sh", "-c", echo]);
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8"), format!("{lib}||{lib}\n"));
    let output = shop.tool(&["run", "--original", "/nowhere", "sh", "-c", echo]);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.code() == Some(2) && said.contains("no libcudnn.so.9 is here"), "{said}");
    // What stands against it is said, and it runs all the same.
    let program = shop.program("stub", &[&stub], &[]);
    let output = shop.tool(&["run", &program]);
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.starts_with("cudnn-shim run: libcudnn.so.9: answers NOT_SUPPORTED (a stub): ")
            && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn run_takes_scripts_and_refuses_what_is_none() {
    let shop = Workshop::new("run_scripts", &["cudnnCreate"], &["cudaMalloc"]);
    let script = |name: &str, text: &str, mode: u32| {
        let path = shop.0.join(name);
        fs::write(&path, text).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("settable");
        path.to_str().expect("UTF-8").to_owned()
    };
    let good = script("good", "#!/bin/sh\nexit $#\n", 0o755);
    assert_eq!(shop.tool(&["run", &good, "a", "b"]).status.code(), Some(2));
    let env = script("env", "#!/usr/bin/env -S sh -e\nexit 7\n", 0o755);
    assert_eq!(shop.tool(&["run", &env]).status.code(), Some(7));
    let nobody = script("nobody", "#!/nowhere/interpreter\n", 0o755);
    let output = shop.tool(&["run", &nobody]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("/nowhere/interpreter"), "{said}");
    let (facts, status) = shop.doctor(&nobody);
    assert_eq!((status, &facts["exit_status"]), (Some(2), &2.into()));
    let plain = script("plain", "#!/bin/sh\n", 0o644);
    for (arguments, says) in [
        (
            &["run", "no-such-program-anywhere"][..],
            "no program of this name on PATH, and no file in this folder",
        ),
        (&["run", "--chek", &good], "--chek is no option of `cudnn-shim run`; did you mean --check?"),
        (&["run", "--thread=3", &good], "--thread is no option of `cudnn-shim run`; did you mean --threads?"),
        (&["run", "--verbose", &good], "--verbose is no option of `cudnn-shim run`"),
        (&["run", "./no-such-program"], "No such file"),
        (&["run", "/"], "a directory"),
        (&["run", &plain], "Permission denied"),
        (&["run", "--lib", "/nowhere", &good], "no libcudnn.so.9 is here"),
    ] {
        let text = refuses(&shop.tool(arguments));
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
}

#[test]
fn shells_get_completions_and_readers_a_page() {
    for shell in ["bash", "zsh", "fish"] {
        let text = says(&["completions", shell]);
        assert!(
            ["explain", "transform", "run", "doctor", "pad-channels"].iter().all(|word| text.contains(word)),
            "{shell}"
        );
    }
    let page = says(&["man"]);
    assert!(page.contains(".TH cudnn-shim 1"), "{page}");
    // Every page that it refers to is there.
    let named: Vec<&str> = page
        .split("cudnn\\-shim\\-")
        .skip(1)
        .filter_map(|rest| rest.split_once("(1)").map(|(name, _)| name))
        .collect();
    assert!(named.contains(&"explain") && named.contains(&"transform"), "{named:?}");
    for name in named {
        let page = says(&["man", name]);
        assert!(page.contains(&format!(".TH cudnn-shim-{name} 1")), "{page}");
    }
    assert!(says(&["man", "transform"]).contains("pad\\-channels"));
    assert!(says(&["man", "explain"]).contains("svg"));
    // Every option has a sentence.
    for command in ["explain", "transform", "run", "doctor"] {
        assert!(says(&[command, "--help"]).contains("Usage: cudnn-shim"), "{command}");
    }
}
