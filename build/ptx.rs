//! Takes the PTX text of a family of kernels apart, so that each kernel can be a module of its own:
//! for the build script, which embeds the texts, and for `cargo xtask ptx`, which assembles what is
//! embedded.

/// A family's kernels, and the lines that every module of theirs starts with.
pub struct Family<'a> {
    /// Version, target, and whatever else stands outside the kernels.
    pub preamble: String,
    /// In the order of the text.
    pub kernels: Vec<Kernel<'a>>,
}

/// One kernel of a family.
pub struct Kernel<'a> {
    pub name: &'a str,
    /// Bytes of its one parameter.
    pub parameter: usize,
    /// From `.visible .entry` to the closing brace.
    pub text: &'a str,
}

const ENTRY: &str = ".visible .entry ";

/// Pre: a text of the pinned compiler, which closes a kernel by a brace at the start of a line.
pub fn split(text: &str) -> Result<Family<'_>, String> {
    let mut family = Family { preamble: String::new(), kernels: Vec::new() };
    let mut rest = text;
    while let Some(start) = rest.find(ENTRY) {
        outside(&rest[..start], &mut family.preamble);
        let end = rest[start..].find("\n}\n").ok_or("a kernel that does not end")? + start + 3;
        family.kernels.push(kernel(&rest[start..end])?);
        rest = &rest[end..];
    }
    outside(rest, &mut family.preamble);
    family.preamble = named(&family.preamble, &family.kernels);
    if family.kernels.is_empty() { Err("no kernels".to_owned()) } else { Ok(family) }
}

/// Adds what stands between kernels, less comments and empty lines.
fn outside(text: &str, to: &mut String) {
    for line in text.lines().map(str::trim_end) {
        if !line.is_empty() && !line.trim_start().starts_with("//") {
            to.push_str(line);
            to.push('\n');
        }
    }
}

/// The lines of a preamble, less the variables that no kernel names: headers of the compiler bring
/// them, and machine code would carry them along.
fn named(preamble: &str, kernels: &[Kernel<'_>]) -> String {
    let is_named = |line: &&str| {
        let words = line.strip_prefix(".global ").map(|rest| rest.split([' ', '[', ';']));
        let name = words.and_then(|mut words| words.find(|word| word.starts_with('_')));
        name.is_none_or(|name| kernels.iter().any(|kernel| kernel.text.contains(name)))
    };
    preamble.lines().filter(is_named).flat_map(|line| [line, "\n"]).collect()
}

fn kernel(text: &str) -> Result<Kernel<'_>, String> {
    let (name, rest) = text[ENTRY.len()..].split_once('(').ok_or("a kernel without parameters")?;
    let (parameters, _) = rest.split_once(')').ok_or("parameters that do not end")?;
    let size = parameters.trim_end().strip_suffix(']').and_then(|front| front.rsplit_once('['));
    let parameter = size.and_then(|(_, digits)| digits.parse().ok());
    match parameter {
        Some(parameter) if parameters.matches(".param").count() == 1 => Ok(Kernel { name, parameter, text }),
        _ => Err(format!("{name} does not take one struct")),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn variables_that_no_kernel_names_are_left_out() {
        let text = "// a comment\n.version 8.0\n.global .align 8 .u64 _ZN1aE = 1;\n.global .align 1 .b8 _ZN1bE[4] = {1, 0};\n\
                    .global .align 4 .u32 _ZN1cE;\n\n.visible .entry copy(\n\t.param .b8 copy_param_0[8]\n)\n{\n\
                    \tmov.u64 %rd1, _ZN1bE;\n}\n\n";
        let family = split(text).unwrap();
        assert_eq!(family.preamble, ".version 8.0\n.global .align 1 .b8 _ZN1bE[4] = {1, 0};\n");
        let [kernel] = &family.kernels[..] else { panic!("one kernel") };
        assert_eq!((kernel.name, kernel.parameter), ("copy", 8));
        assert!(kernel.text.starts_with(".visible .entry copy(") && kernel.text.ends_with("_ZN1bE;\n}\n"));
    }
}
