//! Gives the shared library the ELF identity that relinked and existing programs look for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // The feature chooses the version of the interface, and with it whose place the library takes.
    let version_8 = std::env::var_os("CARGO_FEATURE_CUDNN8").is_some();
    let soname = if version_8 { "-Wl,-soname,libcudnn.so.8" } else { "-Wl,-soname,libcudnn.so.9" };
    for arg in [
        // rust-lld ignores --default-symver, which is what names the version node after the SONAME.
        "-fuse-ld=bfd",
        soname,
        // Every symbol becomes `cudnnX@@<soname>`, the version that linked programs ask for.
        "-Wl,--default-symver",
        "-Wl,-Bsymbolic",
        // Worker threads may outlive a dlclose, so the code has to stay mapped.
        "-Wl,-z,nodelete",
        "-Wl,-z,now",
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }
}
