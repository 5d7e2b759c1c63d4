//! Where the original may lie: what the environment names, or the usual places.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Names the original: a file, a folder, or `auto`. Unset, empty or `off`: none.
pub const VARIABLE: &str = "CUDNN_SHIM_ORIGINAL";

/// What only libraries of this project export. Their files are no original.
const OWN_SYMBOL: &[u8] = b"cudnnShimGetCore";

/// The largest file that is searched for [`OWN_SYMBOL`]: the original's main library has 140 KB.
const LARGEST: u64 = 64 << 20;

/// The file that names folders for the loader besides those that it knows by itself.
const CONFIGURATION: &str = "/etc/ld.so.conf";

/// Configurations that include each other are read no deeper.
const DEPTH: u32 = 4;

/// Where a system keeps libraries, in the loader's order.
const SYSTEM: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/cuda/lib64",
    "/usr/local/lib",
];

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// No original: this library serves alone.
    Off,
    /// This file, or the library in this folder.
    Path(PathBuf),
    /// The first in the usual places.
    Auto,
}

impl Asked {
    /// Reads [`VARIABLE`].
    pub fn read() -> Asked {
        Asked::of(std::env::var_os(VARIABLE).unwrap_or_default())
    }

    /// What a value of [`VARIABLE`] asks for.
    pub fn of(value: OsString) -> Asked {
        match value.to_str() {
            Some("" | "off") => Asked::Off,
            Some("auto") => Asked::Auto,
            _ => Asked::Path(value.into()),
        }
    }

    /// The files that may be it, the best first: of those that are there, without this project's
    /// own where no path is given.
    pub fn files(&self, major: i32) -> Vec<PathBuf> {
        let name = format!("libcudnn.so.{major}");
        let is_file = |file: &PathBuf| file.is_file();
        match self {
            Asked::Off => Vec::new(),
            Asked::Path(path) if path.is_dir() => ["", "lib", "lib64"]
                .map(|below| path.join(below).join(&name))
                .into_iter()
                .filter(is_file)
                .collect(),
            Asked::Path(path) => vec![path.clone()],
            Asked::Auto => {
                let files = usual_folders().into_iter().map(|folder| folder.join(&name));
                files.filter(|file| file.is_file() && !is_of_this_project(file)).collect()
            }
        }
    }
}

/// The folders of the loader, of Conda and of Python's packages.
fn usual_folders() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let path = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect();
    configured(Path::new(CONFIGURATION), DEPTH, &mut folders);
    folders.extend(SYSTEM.iter().map(PathBuf::from));
    let conda = variable("CONDA_PREFIX").map(PathBuf::from);
    folders.extend(conda.iter().map(|prefix| prefix.join("lib")));
    let program = std::env::current_exe().ok();
    let own_prefix = program.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_owned);
    let user = variable("HOME").map(|home| PathBuf::from(home).join(".local"));
    let prefixes = variable("VIRTUAL_ENV").map(PathBuf::from).into_iter().chain(conda).chain(own_prefix);
    for prefix in prefixes.chain(user).chain(["/usr/local", "/usr"].map(PathBuf::from)) {
        folders.extend(wheels(&prefix));
    }
    folders
}

/// The folders that a configuration of the loader names, and those that it includes name, in the
/// order of its lines; `include folder/*.conf` reads the files of that ending by name.
fn configured(file: &Path, depth: u32, folders: &mut Vec<PathBuf>) {
    let Ok(text) = fs::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include").filter(|rest| rest.starts_with(char::is_whitespace)) {
            Some(pattern) if depth > 0 => {
                let base = file.parent().unwrap_or(Path::new("/"));
                let included = included(&base.join(pattern.trim()));
                included.iter().for_each(|file| configured(file, depth - 1, folders));
            }
            None if line.starts_with('/') => folders.push(line.into()),
            _ => {}
        }
    }
}

/// The files that a pattern names whose last part may begin with an asterisk, in their order.
fn included(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let Some(end) = name.strip_prefix('*') else { return vec![pattern.to_owned()] };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_named = |file: &PathBuf| file.to_str().is_some_and(|file| file.ends_with(end));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_named).collect();
    files.sort();
    files
}

/// The folders of cuDNN's Python package below a prefix.
fn wheels(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(prefix.join("lib")) else { return Vec::new() };
    let is_python = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with("python3"));
    let mut pythons: Vec<OsString> =
        entries.flatten().map(|entry| entry.file_name()).filter(is_python).collect();
    pythons.sort();
    let packages = pythons.iter().flat_map(|python| {
        ["site-packages", "dist-packages"].map(|packages| prefix.join("lib").join(python).join(packages))
    });
    packages.map(|packages| packages.join("nvidia/cudnn/lib")).collect()
}

/// Whether a file is a library of this project, under whatever name.
fn is_of_this_project(file: &Path) -> bool {
    let small = fs::metadata(file).is_ok_and(|about| about.len() <= LARGEST);
    small && fs::read(file).is_ok_and(|bytes| bytes.windows(OWN_SYMBOL.len()).any(|part| part == OWN_SYMBOL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_place_or_none() {
        let asked = |text: &str| Asked::of(text.into());
        assert_eq!([asked(""), asked("off")], [Asked::Off, Asked::Off]);
        assert_eq!(asked("auto"), Asked::Auto);
        assert_eq!(asked("./auto"), Asked::Path("./auto".into()));
        assert_eq!(Asked::Off.files(9), Vec::<PathBuf>::new());
        // A file that is not there is tried, so that the loader says what is wrong.
        assert_eq!(asked("/none/libcudnn.so.9").files(9), [PathBuf::from("/none/libcudnn.so.9")]);
    }

    #[test]
    #[cfg(not(miri))]
    fn folders_of_the_loader_are_those_of_its_configuration() {
        let folder = std::env::temp_dir().join(format!("cudnn-shim-conf-{}", std::process::id()));
        let more = folder.join("conf.d");
        fs::create_dir_all(&more).expect("a scratch folder");
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("writable");
        write(
            "ld.so.conf",
            "# first\n/opt/first/lib\n\tinclude conf.d/*.conf\ninclude none.conf\nincluded\n/last # end\n",
        );
        write("conf.d/b.conf", "/opt/b\ninclude ../ld.so.conf\n");
        write("conf.d/a.conf", "/opt/a\n");
        write("conf.d/c.txt", "/opt/c\n");
        let mut found = Vec::new();
        configured(&folder.join("ld.so.conf"), 1, &mut found);
        let want = ["/opt/first/lib", "/opt/a", "/opt/b", "/last"].map(PathBuf::from);
        assert_eq!(found, want);
        fs::remove_dir_all(&folder).expect("writable");
    }

    #[test]
    #[cfg(not(miri))]
    fn folders_hold_the_library_or_have_it_below() {
        let folder = std::env::temp_dir().join(format!("cudnn-shim-find-{}", std::process::id()));
        let lib = folder.join("lib");
        fs::create_dir_all(&lib).expect("a scratch folder");
        fs::write(lib.join("libcudnn.so.9"), b"the original").expect("writable");
        let asked = Asked::Path(folder.clone());
        assert_eq!(asked.files(9), [lib.join("libcudnn.so.9")]);
        assert_eq!(asked.files(8), Vec::<PathBuf>::new());
        assert!(!is_of_this_project(&lib.join("libcudnn.so.9")));
        fs::write(lib.join("libcudnn.so.9"), b"..cudnnShimGetCore..").expect("writable");
        assert!(is_of_this_project(&lib.join("libcudnn.so.9")));
        fs::remove_dir_all(&folder).expect("writable");
    }
}
