//! Version nodes of the shared library: the original's for its own symbols, one of our own for
//! those of `cudnn_shim.h`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The version node of what `cudnn_shim.h` adds; it counts changes that linked programs would
/// notice.
const EXTENSIONS: &str = "CUDNN_SHIM_1";

/// Arguments for the compiler driver that links the library `soname`; none where its linker cannot
/// be found.
pub fn arguments(soname: &str) -> Option<String> {
    // Cargo does not see a change of what it sets itself, but one of what it sets that from.
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let target = env::var("TARGET").ok()?.replace('-', "_").to_uppercase();
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_{target}_LINKER");
    let folder = PathBuf::from(env::var_os("OUT_DIR")?);
    front(&folder, &linker()?, soname);
    // Where the compiler driver looks for `ld.bfd` first.
    Some(format!("-B{}", folder.display()))
}

/// The `ld.bfd` that the compiler driver would start.
fn linker() -> Option<PathBuf> {
    let driver = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let output = Command::new(driver).arg("-print-prog-name=ld.bfd").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    // A bare name is one that the search path has to have.
    let found = Path::new(&name).is_absolute() || Command::new(&name).arg("--version").output().is_ok();
    (output.status.success() && found).then(|| name.into())
}

/// Puts a script in front of the linker that gives the extensions a version node of their own.
///
/// rustc lists the exported symbols in a version script without a name, and the linker takes no
/// second script beside such a one. The script names the nodes in rustc's own list. Where it is not
/// started, the extensions share the node of all others, which is the worse name but links and
/// runs.
fn front(folder: &Path, linker: &Path, soname: &str) {
    let script = format!(
        r#"#!/bin/sh
# Written by build.rs, started by the compiler driver: names the version nodes in rustc's list of exported symbols.
for argument do
    shift
    case $argument in
    --version-script=*)
        list=${{argument#*=}}
        if grep -q '^ *cudnnShim' "$list" && grep -qx '{{' "$list"; then
            {{
                printf '{soname} {{\n  global:\n'
                grep '^ *[A-Za-z_0-9]*;$' "$list" | grep -v '^ *cudnnShim'
                printf '  local:\n    *;\n}};\n{EXTENSIONS} {{\n  global:\n'
                grep '^ *cudnnShim[A-Za-z_0-9]*;$' "$list"
                printf '}};\n'
            }} >"$list.named"
            argument=--version-script=$list.named
            named=yes
        fi
        ;;
    esac
    set -- "$@" "$argument"
done
if [ "$named" ]; then
    # The named nodes take its place.
    for argument do
        shift
        [ "$argument" = --default-symver ] || set -- "$@" "$argument"
    done
fi
exec '{}' "$@"
"#,
        linker.display()
    );
    let file = folder.join("ld.bfd");
    fs::write(&file, script).expect("the folder for build outputs is writable");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    }
}
