//! The package for Fedora, RHEL and openSUSE, by rpmbuild.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::debian::{DESCRIPTION, root_folder};
use super::{Release, VERSION, contents};
use crate::{shell, tools};

pub fn make(release: &Release, tree: &Path) -> Result<PathBuf> {
    if let Some(line) = tools::lacking("rpmbuild") {
        bail!("rpmbuild does not work here; install it: {line}");
    }
    let top = release.work.join("rpm");
    let root = top.join("tree");
    root_folder(&root, tree)?;
    contents::date(release, &root)?;
    let spec = top.join("cudnn-shim.spec");
    fs::write(&spec, specification(release))?;
    let mut build = release.dated("rpmbuild");
    build
        .args(["-bb", "--quiet", "--target", release.machine.arch, "--buildroot"])
        .arg(top.join("buildroot"));
    let define = |name: &str, value: &str| ["--define".to_owned(), format!("{name} {value}")];
    let top_folder = top.display().to_string();
    let payload = format!("w{}.xzdio", release.compression.level());
    for (name, value) in [
        ("_topdir", top_folder.as_str()),
        ("_rpmdir", top_folder.as_str()),
        ("_rpmfilename", "cudnn-shim.rpm"),
        // Nothing of the machine that builds is recorded.
        ("_buildhost", "reproducible"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("clamp_mtime_to_source_date_epoch", "1"),
        ("_binary_payload", payload.as_str()),
        // The files are finished: nothing is to be stripped, compiled or indexed.
        ("__os_install_post", "%{nil}"),
        ("debug_package", "%{nil}"),
        ("_build_id_links", "none"),
    ] {
        build.args(define(name, value));
    }
    shell::run(build.arg(&spec))?;
    let file = release.out.join(format!("cudnn-shim-{VERSION}-1.{}.rpm", release.machine.arch));
    fs::rename(top.join("cudnn-shim.rpm"), &file).context("rpmbuild has left no package")?;
    Ok(file)
}

fn specification(release: &Release) -> String {
    format!(
        "Name: cudnn-shim\nVersion: {VERSION}\nRelease: 1\n\
         Summary: Drop-in libcudnn for the legacy descriptor API, no GPU needed\n\
         License: MIT OR Apache-2.0\n\
         # What the libraries offer must not answer for a libcudnn of the system.\n\
         AutoReqProv: no\n\
         Requires: glibc >= {}, libgcc\n\n\
         %description\n{DESCRIPTION}\n\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a %{{_topdir}}/tree/. %{{buildroot}}/\n\n\
         %files\n/usr/lib/cudnn-shim\n/usr/bin/cudnn-shim\n/usr/share/doc/cudnn-shim\n/usr/share/man/man1/*\n",
        release.glibc
    )
}
