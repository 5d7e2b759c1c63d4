//! The command line tool: built, and laid out with its man page and completions.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::machine::Machine;
use crate::shell;
use crate::tree::{EXECUTABLE, Tree};

/// Where shells look for completions of `cudnn-shim`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/cudnn-shim"),
    ("zsh", "share/zsh/site-functions/_cudnn-shim"),
    ("fish", "share/fish/vendor_completions.d/cudnn-shim.fish"),
];

/// Builds the tool; where it is.
pub fn build(release: bool) -> Result<PathBuf> {
    let mut command = shell::cargo();
    command.args(["build", "--package", "cudnn-shim-cli", "--message-format=json-render-diagnostics"]);
    if release {
        command.arg("--release");
    }
    let messages = shell::output(command.stderr(std::process::Stdio::inherit()))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = messages
        .filter(|message| message["target"]["name"] == "cudnn-shim")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| anyhow::anyhow!("cargo has built no cudnn-shim"))
}

/// Puts it and what it says of itself into the tree.
pub fn lay_out(tree: &mut Tree, program: &Path) -> Result<()> {
    tree.copy(program, "bin/cudnn-shim", EXECUTABLE)?;
    let machine = Machine::target()?;
    let said = |arguments: &[&str]| {
        shell::output(machine.command(program, None).args(arguments)).map(|text| text + "\n")
    };
    let page = said(&["man"])?;
    for command in commands(&page) {
        tree.write(&format!("share/man/man1/cudnn-shim-{command}.1"), &said(&["man", command])?)?;
    }
    tree.write("share/man/man1/cudnn-shim.1", &page)?;
    COMPLETIONS.iter().try_for_each(|(shell, file)| tree.write(file, &said(&["completions", shell])?))
}

/// The commands whose pages the tool's page refers to: `cudnn\-shim\-explain(1)`.
fn commands(page: &str) -> Vec<&str> {
    let names = page.split("cudnn\\-shim\\-").skip(1).filter_map(|rest| rest.split_once("(1)"));
    names.map(|(name, _)| name).filter(|name| name.chars().all(|c| c.is_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn pages_that_are_referred_to_are_found() {
        let page =
            "cudnn\\-shim \\- sees\n.TP\ncudnn\\-shim\\-explain(1)\nShows\n.TP\ncudnn\\-shim\\-man(1)\n";
        assert_eq!(super::commands(page), ["explain", "man"]);
    }
}
