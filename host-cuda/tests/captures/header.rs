//! Functions as the headers declare them.

use std::fs;

use crate::setting::layout;

/// A parameter: its type without its name, and its name.
pub struct Parameter {
    pub kind: String,
    pub name: String,
    /// Whether it is an array of addresses.
    pub is_array: bool,
}

/// A declared function.
pub struct Function {
    pub name: String,
    pub parameters: Vec<Parameter>,
}

impl Function {
    fn read(text: &str) -> Option<Function> {
        let (before, parameters) = text.trim().trim_end_matches(')').split_once('(')?;
        let name = before.split_whitespace().last()?.to_owned();
        let parameters =
            parameters.split(',').filter(|text| !text.trim().is_empty() && text.trim() != "void");
        Some(Function { name, parameters: parameters.map(Parameter::read).collect() })
    }

    /// Whether it takes this type by value.
    pub fn takes(&self, kind: &str) -> bool {
        self.parameters.iter().any(|parameter| parameter.kind == kind)
    }

    /// The first parameter whose type holds a name of a type of elements.
    pub fn element(&self) -> &'static str {
        const NAMES: [&str; 4] = ["double", "__half", "__nv_bfloat16", "float"];
        let operand = |parameter: &&Parameter| matches!(parameter.name.as_str(), "A" | "B" | "C" | "x" | "y");
        let mut kinds = self.parameters.iter().filter(operand).map(|parameter| parameter.kind.as_str());
        kinds.find_map(|kind| NAMES.into_iter().find(|name| kind.contains(name))).unwrap_or("float")
    }
}

impl Parameter {
    fn read(text: &str) -> Parameter {
        let is_array = text.contains("[]");
        let text = text.replace("[]", "");
        let words = text.trim().rsplit_once(|letter: char| letter == '*' || letter.is_whitespace());
        let (kind, name) = words.unwrap_or(("", text.trim()));
        let pointer = if text.trim()[..text.trim().len() - name.len()].contains('*') { " *" } else { "" };
        let kind = kind.replace("const", "").replace('*', "").replace("enum", "").replace("struct", "");
        let kind = kind.split_whitespace().collect::<Vec<_>>().join(" ") + pointer;
        Parameter { kind, name: name.to_owned(), is_array }
    }
}

/// The functions of a header whose names begin so.
pub fn functions(header: &str, start: &str) -> Vec<Function> {
    let text = fs::read_to_string(layout().join("include/host-cuda").join(header)).expect("the header");
    let plain: String =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join(" ");
    // What has a value by default has it in a macro.
    let mut plain = plain.replace("CUDARTAPI ", "");
    while let Some(at) = plain.find(" CUDNN_SHIM_OPTIONAL(") {
        let end = plain[at..].find(')').expect("a closing bracket") + at;
        plain.replace_range(at..=end, "");
    }
    let declared =
        plain.split([';', '{', '}']).filter(|text| text.contains('(') && !text.contains("typedef"));
    declared.filter_map(Function::read).filter(|function| function.name.starts_with(start)).collect()
}
