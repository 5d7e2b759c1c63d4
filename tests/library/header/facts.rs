//! Every fact of the tables, put to the compiler.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::compile::{CLANG, CLANGXX, Compiler, GCC, GXX};
use crate::interface::{BOTH, Interface};
use crate::table::Table;

const C11: &[&str] = &["-std=c11", "-pedantic-errors", "-Wall", "-Werror"];
const CPP11: &[&str] = &["-std=c++11", "-pedantic-errors", "-Wall", "-Werror"];

fn accepted(compiler: Compiler, interface: Interface, source: &str, flags: &[&str]) {
    if compiler.is_there()
        && let Err(said) = compiler.check(interface, source, flags)
    {
        let first: String = said.lines().take(20).fold(String::new(), |all, line| all + line + "\n");
        panic!("{} {interface:?}\n{first}", compiler.program);
    }
}

fn refused(compiler: Compiler, interface: Interface, source: &str, flags: &[&str]) {
    if compiler.is_there() {
        assert!(compiler.check(interface, source, flags).is_err(), "{} accepts\n{source}", compiler.program);
    }
}

/// A pointer to the function, of the table's type: compiles only if the types are compatible.
fn c_function(name: &str, result: &str, parameters: &str) -> String {
    format!("{result} (*const p_{name})({parameters}) = {name};\n")
}

fn cpp_function(name: &str, result: &str, parameters: &str) -> String {
    format!(
        "static_assert(std::is_same<decltype(&{name}), {result} (*)({parameters})>::value, \"{name}\");\n"
    )
}

#[test]
fn functions_have_the_original_types() {
    for interface in BOTH {
        let (mut functions, restored) = (interface.functions(), interface.restored());
        let expected = if interface == Interface::Nine { (235, 58) } else { (264, 3) };
        assert_eq!((functions.len(), restored.len()), expected);
        functions.extend(restored);
        let mut c = "#include \"cudnn.h\"\n".to_owned();
        let mut cpp = "#include <type_traits>\n#include \"cudnn.h\"\n".to_owned();
        for function in &functions {
            let parameters = function.parameters.replace("; ", ", ");
            c += &c_function(&function.name, &function.result, &parameters);
            cpp += &cpp_function(&function.name, &function.result, &parameters);
        }
        for compiler in [GCC, CLANG] {
            accepted(compiler, interface, &c, C11);
            // Alone, because a second pointer of that name would be refused for its name.
            let wrong = c_function("cudnnCreate", "int", "int *handle");
            refused(compiler, interface, &("#include \"cudnn.h\"\n".to_owned() + &wrong), C11);
        }
        for compiler in [GXX, CLANGXX] {
            accepted(compiler, interface, &cpp, CPP11);
            let wrong = cpp_function("cudnnDestroy", "cudnnStatus_t", "void *");
            refused(compiler, interface, &(cpp.clone() + &wrong), CPP11);
        }
        // One argument too few, another constness, another order: each alone must be refused.
        for (name, wrong) in [
            (
                "cudnnSetTensorNdDescriptor",
                "cudnnTensorDescriptor_t a, cudnnDataType_t b, int c, const int *d",
            ),
            ("cudnnSetStream", "cudaStream_t a, cudnnHandle_t b"),
            ("cudnnScaleTensor", "cudnnHandle_t a, cudnnTensorDescriptor_t b, const void *c, const void *d"),
        ] {
            let wrong = c_function(name, "cudnnStatus_t", wrong);
            refused(GCC, interface, &("#include \"cudnn.h\"\n".to_owned() + &wrong), C11);
        }
    }
}

/// The functions that the header declares.
fn declared(interface: Interface, flag: &str) -> BTreeSet<String> {
    let name = format!("prototypes-{interface:?}{flag}.txt");
    let list = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = list.to_str().expect("the target's path is UTF-8");
    GCC.check(
        interface,
        "#include \"cudnn.h\"\n",
        &["-aux-info", path, "-DCUDNN_SHIM_NO_CUDA_HEADERS", &format!("-D{flag}")],
    )
    .expect("compiles");
    let prototypes = std::fs::read_to_string(&list).expect("gcc writes the list");
    let ours = prototypes.lines().filter(|line| line.contains("cudnn.h:"));
    ours.map(|line| {
        let head = &line[..line.find(" (").expect("a prototype has parameters")];
        head.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
    })
    .collect()
}

#[test]
fn nothing_else_is_declared() {
    for interface in BOTH {
        let original: BTreeSet<String> = interface.functions().into_iter().map(|f| f.name).collect();
        let restored = interface.restored().into_iter().map(|f| f.name);
        assert_eq!(declared(interface, "CUDNN_SHIM_NO_REMOVED_CALLS"), original);
        assert_eq!(declared(interface, "NOTHING"), original.into_iter().chain(restored).collect());
    }
}

/// `enumerator == value`, checked by the compiler in both languages.
fn equal(cpp: bool, name: &str, value: &str) -> String {
    let assert = if cpp { "static_assert" } else { "_Static_assert" };
    format!("{assert}((long long)({name}) == {value}LL, \"{name}\");\n")
}

#[test]
fn enumerators_have_the_original_values() {
    for (interface, cpp) in BOTH.into_iter().flat_map(|interface| [(interface, false), (interface, true)]) {
        let table = Table::read("enums");
        let mut source = "#include \"cudnn.h\"\n".to_owned();
        let mut types = BTreeSet::new();
        let mut count = 0;
        let mut absent = Vec::new();
        for row in table.rows() {
            let (name, of, value) = (row.get("constant"), row.get("enum_type"), row.get(interface.values()));
            if value.is_empty() {
                absent.push(name.to_owned());
                continue;
            }
            source += &equal(cpp, name, value);
            // The enumerator belongs to this type, not to another one.
            if cpp {
                writeln!(source, "static_assert(std::is_same<decltype({name}), {of}>::value, \"{name}\");")
                    .unwrap();
            }
            types.insert(of.to_owned());
            count += 1;
        }
        for name in &types {
            let signed = u8::from(name == "cudnnBackendOperationGraphMode_t");
            source += &equal(cpp, &format!("sizeof({name})"), "4");
            if !cpp {
                source += &equal(cpp, &format!("(({name})-1 < 0)"), &signed.to_string());
            }
        }
        // What this version does not have is free for programs to define.
        for name in &absent {
            writeln!(source, "static const int {name} = 0; int use_{name}() {{ return {name}; }}").unwrap();
        }
        let expected = if interface == Interface::Nine { (943, 71, 0) } else { (665, 65, 278) };
        assert_eq!((count, types.len(), absent.len()), expected);
        let source = if cpp { "#include <type_traits>\n".to_owned() + &source } else { source };
        for compiler in if cpp { [GXX, CLANGXX] } else { [GCC, CLANG] } {
            let flags = if cpp { &["-std=c++11"] } else { &["-std=c11"] };
            accepted(compiler, interface, &source, flags);
            refused(compiler, interface, &(source.clone() + &equal(cpp, "CUDNN_DATA_HALF", "1")), flags);
        }
    }
}

#[test]
fn macros_have_the_original_types_and_values() {
    for interface in BOTH {
        let table = Table::read("macros");
        let mut source = "#include \"cudnn.h\"\n".to_owned();
        // C has no constant comparisons of doubles, C++ does.
        let mut cpp = source.clone();
        let mut count = 0;
        for row in table.rows() {
            let name = row.get("macro");
            if !row.is(interface.presence()) {
                writeln!(source, "#ifdef {name}\n#error {name} is defined\n#endif").unwrap();
            } else if row.get("kind") == "constant" {
                let (of, value) = (row.get("c_type_of_expression"), row.get(interface.values()));
                writeln!(source, "_Static_assert(_Generic(({name}), {of}: 1, default: 0), \"{name}\");")
                    .unwrap();
                writeln!(cpp, "static_assert(({name}) == {value}, \"{name}\");").unwrap();
                count += 1;
            } else {
                writeln!(source, "#ifndef {name}\n#error {name} is missing\n#endif").unwrap();
            }
        }
        assert_eq!(count, if interface == Interface::Nine { 36 } else { 58 });
        if interface == Interface::Nine {
            source += "_Static_assert(CUDNN_STATUS_FULL_ERROR_CODE(3000, 7) == CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, \"\");\n\
                       _Static_assert(CUDNN_STATUS_CATEGORY(CUDNN_STATUS_BAD_PARAM_NULL_POINTER) == 2000, \"\");\n\
                       _Static_assert(CUDNN_STATUS_SPECIFIC_ERROR(CUDNN_STATUS_BAD_PARAM_NULL_POINTER) == 2, \"\");\n\
                       _Static_assert(_Generic(CUDNN_STATUS_FULL_ERROR_CODE(0, 0), cudnnStatus_t: 1), \"\");\n";
        }
        for compiler in [GCC, CLANG] {
            accepted(compiler, interface, &source, &["-std=c11"]);
        }
        for compiler in [GXX, CLANGXX] {
            accepted(compiler, interface, &cpp, &["-std=c++11"]);
            let wrong = cpp.clone() + "static_assert(CUDNN_DIM_MAX == 9, \"\");\n";
            refused(compiler, interface, &wrong, &["-std=c++11"]);
        }
        let wrong = "#include \"cudnn.h\"\n_Static_assert(_Generic(CUDNN_DIM_MAX, unsigned: 1), \"\");\n";
        refused(GCC, interface, wrong, &["-std=c11"]);
    }
}

#[test]
fn types_have_the_original_layout() {
    BOTH.into_iter().for_each(layout);
}

fn layout(interface: Interface) {
    let table = Table::read("types");
    let mut source = "#include <stddef.h>\n#include \"cudnn.h\"\n".to_owned();
    let mut count = 0;
    for row in table.rows().filter(|row| row.is(interface.presence())) {
        let (name, definition) = (row.get("name"), row.get("c_definition"));
        let same = |of: &str, like: &str| {
            format!("_Static_assert(_Generic(({of})0, {like}: 1, default: 0), \"{of}\");\n")
        };
        match row.get("kind") {
            "opaque-pointer" | "void-pointer" => source += &same(name, definition),
            "opaque-struct" | "struct" => source += &same(&format!("{name} *"), &format!("{definition} *")),
            "callback" => source += &same(name, definition),
            "field" => {
                let field = row.get("field");
                source += &equal(false, &format!("offsetof({name}, {field})"), row.get("offset"));
                source += &equal(false, &format!("sizeof((({name} *)0)->{field})"), row.get("size"));
                if !row.get("field_type").contains('[') {
                    let of = row.get("field_type");
                    let cell = format!("(({name} *)0)->{field}");
                    writeln!(source, "_Static_assert(_Generic({cell}, {of}: 1, default: 0), \"{field}\");")
                        .unwrap();
                }
            }
            "alias" => source += &same(name, definition),
            // The whole union is the field's type, without a name in C++.
            "union-member" => {
                let cell = format!("(({name} *)0)->{}", row.get("field"));
                let of = row.get("field_type");
                writeln!(source, "_Static_assert(_Generic({cell}, {of}: 1, default: 0), \"{of}\");").unwrap();
            }
            "enum" => {}
            other => panic!("what is {other}?"),
        }
        if !row.get("size").is_empty() && row.get("field").is_empty() {
            source += &equal(false, &format!("sizeof({name})"), row.get("size"));
            source += &equal(false, &format!("_Alignof({name})"), row.get("align"));
        }
        count += 1;
    }
    assert!(count > 130, "{count}");
    for compiler in [GCC, CLANG] {
        accepted(compiler, interface, &source, &["-std=c11"]);
    }
    refused(GCC, interface, &(source.clone() + &equal(false, "sizeof(cudnnDebug_t)", "112")), &["-std=c11"]);
}

/// What the compiler calls deprecated in `source`.
fn deprecations(interface: Interface, source: &str) -> BTreeSet<String> {
    let said = GCC.check(interface, source, &["-DCUDNN_WARN_DEPRECATED", "-Wdeprecated-declarations"]);
    let said = said.unwrap_or_else(|said| {
        let errors: Vec<&str> = said.lines().filter(|line| line.contains("error")).take(5).collect();
        panic!("{errors:#?}")
    });
    let quote = |c| matches!(c, '\'' | '\u{2018}' | '\u{2019}');
    said.lines()
        .filter(|line| line.contains("is deprecated"))
        .map(|line| line.split(quote).nth(1).unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn the_compiler_warns_of_what_the_original_deprecates() {
    let (enums, types) = (Table::read("enums"), Table::read("types"));
    let mut source = "#include \"cudnn.h\"\n".to_owned();
    let mut expected = BTreeSet::new();
    let mut uses = 0;
    let mut add = |name: &str, deprecated: bool, declaration: String| {
        writeln!(source, "{declaration}").unwrap();
        if deprecated {
            expected.insert(name.to_owned());
        }
        uses += 1;
    };
    for function in Interface::Nine.functions().into_iter().chain(Interface::Nine.restored()) {
        let name = &function.name;
        add(name, function.deprecated, format!("void *use_{name}(void) {{ return (void *)&{name}; }}"));
    }
    for row in enums.rows().filter(|row| row.get("deprecated_scope") != "type") {
        let name = row.get("constant");
        add(name, row.is("deprecated_9.27"), format!("int use_{name}(void) {{ return (int){name}; }}"));
    }
    for row in types.rows().filter(|row| row.is("in_9.27") && row.get("field").is_empty()) {
        let name = row.get("name");
        add(name, row.is("deprecated_9.27"), format!("void *use_{name}(void *p) {{ return ({name} *)p; }}"));
    }
    assert!(uses > 1000, "{uses}");
    assert_eq!(deprecations(Interface::Nine, &source), expected);
    // Without the switch nobody is bothered.
    let quiet = GCC.check(Interface::Nine, &source, &["-Wdeprecated-declarations"]).expect("compiles");
    assert!(!quiet.contains("deprecated"), "{quiet}");
}

#[test]
fn the_compiler_warns_of_the_calls_that_version_8_deprecates() {
    let mut source = "#include \"cudnn.h\"\n".to_owned();
    let mut expected = BTreeSet::new();
    for function in Interface::Eight.functions().into_iter().chain(Interface::Eight.restored()) {
        let name = &function.name;
        writeln!(source, "void *use_{name}(void) {{ return (void *)&{name}; }}").unwrap();
        if function.deprecated {
            expected.insert(name.clone());
        }
    }
    assert!(expected.len() > 50, "{}", expected.len());
    assert_eq!(deprecations(Interface::Eight, &source), expected);
}
