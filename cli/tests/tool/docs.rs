//! The pages of `docs/`: every command of the tool runs, every picture is what it draws, every link
//! leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::explain::PLAN;
use crate::{folder, npy};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Name and text of every page, the README first.
fn pages() -> Vec<(PathBuf, String)> {
    let mut files = vec![root().join("README.md")];
    let docs =
        fs::read_dir(root().join("docs")).expect("readable").map(|entry| entry.expect("readable").path());
    files.extend(docs.filter(|path| path.extension().is_some_and(|end| end == "md")));
    files[1..].sort();
    files.into_iter().map(|file| (file.clone(), fs::read_to_string(file).expect("text"))).collect()
}

/// The lines of the blocks of shell commands.
fn commands(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```sh" => inside = true,
            "```" => inside = false,
            _ if inside => found.push(line),
            _ => {}
        }
    }
    found
}

#[test]
fn every_command_of_the_tool_runs_and_draws_the_pictures() {
    let folder = folder("pages");
    fs::copy(root().join("demo/chelsea.ppm"), folder.join("photo.ppm")).expect("the photograph");
    fs::write(folder.join("pixels.npy"), npy("<f4", false, &[1, 2, 2, 3], &[0; 48])).expect("writable");
    // What stands for a program, for a script whose packages may not be here, and for the folder of
    // the library.
    fs::copy("/bin/true", folder.join("program")).expect("a program");
    fs::write(folder.join("product.py"), "").expect("writable");
    fs::write(folder.join("libcudnn.so.9"), "").expect("writable");
    fs::write(folder.join("plan.json"), PLAN).expect("writable");
    // Where a Conda environment has cuDNN.
    fs::create_dir(folder.join("lib")).expect("writable");
    fs::write(folder.join("lib/libcudnn.so.9"), "").expect("writable");
    let program = Path::new(env!("CARGO_BIN_EXE_cudnn-shim"));
    let path = format!(
        "{}:{}",
        program.parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut ran = 0;
    for (file, page) in pages() {
        for command in commands(&page).into_iter().filter(|command| command.starts_with("cudnn-shim ")) {
            let output = Command::new("sh")
                .current_dir(&folder)
                .args(["-c", command])
                .env("PATH", &path)
                .env("CUDNN_SHIM_LIB", &folder)
                .env("CONDA_PREFIX", &folder)
                .stdin(Stdio::null())
                .output()
                .expect("sh starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // Of the program that stands for others `doctor` cannot tell.
            let is_unknown = command.contains(" doctor ") && output.status.code() == Some(3);
            let is_done = output.status.success() || is_unknown;
            assert!(is_done && said.is_empty(), "{}: {command}\n{said}", file.display());
            ran += 1;
        }
    }
    assert!(ran >= 20, "only {ran} commands are found");
    let pictures = fs::read_dir(root().join("docs/pictures")).expect("readable");
    let committed: BTreeSet<_> = pictures.map(|entry| entry.expect("readable").file_name()).collect();
    let drawn: BTreeSet<_> = fs::read_dir(&folder)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "svg"))
        .collect();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        drawn.iter().for_each(|name| {
            fs::copy(folder.join(name), root().join("docs/pictures").join(name)).expect("writable");
        });
        return;
    }
    assert_eq!(committed, drawn);
    for name in drawn {
        let text = |path: PathBuf| fs::read_to_string(path).expect("text");
        let same = text(folder.join(&name)) == text(root().join("docs/pictures").join(&name));
        assert!(same, "docs/pictures/{} is not what its command draws", name.display());
    }
}

#[test]
fn maintainers_tasks_are_there() {
    let tasks = fs::read_to_string(root().join("xtask/src/main.rs")).expect("text");
    let mut named = 0;
    for (file, page) in pages() {
        for command in commands(&page) {
            let Some(task) = command.split("cargo xtask ").nth(1) else { continue };
            let task = task.split_whitespace().next().unwrap_or_default();
            assert!(
                tasks.contains(&format!("name: \"{task}\"")),
                "{}: there is no task {task}",
                file.display()
            );
            named += 1;
        }
    }
    assert!(named >= 4);
}

/// The targets of links and pictures outside blocks of code.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(str::to_owned));
        }
    }
    found
}

/// What mdBook and code hosts make of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.trim().replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut followed = 0;
    for (file, page) in &pages {
        for link in links(page) {
            followed += 1;
            if link.starts_with("https://") {
                continue;
            }
            let (path, part) =
                link.split_once('#').map_or((link.as_str(), None), |(path, part)| (path, Some(part)));
            let target =
                if path.is_empty() { file.clone() } else { file.parent().expect("a folder").join(path) };
            assert!(target.exists(), "{}: {link}", file.display());
            if let Some(part) = part {
                let text = fs::read_to_string(&target).expect("text");
                let headings = text
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .map(|line| anchor(line.trim_start_matches('#')));
                assert!(headings.into_iter().any(|heading| heading == part), "{}: {link}", file.display());
            }
        }
    }
    assert!(followed >= 30, "only {followed} links are found");
    // Every page is in the table of contents.
    let summary =
        &pages.iter().find(|(file, _)| file.ends_with("SUMMARY.md")).expect("a table of contents").1;
    for (file, _) in pages.iter().skip(1).filter(|(file, _)| !file.ends_with("SUMMARY.md")) {
        let name = file.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        assert!(summary.contains(&format!("({name})")), "docs/SUMMARY.md lacks {name}");
    }
}
