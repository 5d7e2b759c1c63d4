//! Every fact of the tables, put to the compiler.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::compile::{CLANG, CLANGXX, Compiler, GCC, GXX};
use crate::table::{Row, Table};

const C11: &[&str] = &["-std=c11", "-pedantic-errors", "-Wall", "-Werror"];
const CPP11: &[&str] = &["-std=c++11", "-pedantic-errors", "-Wall", "-Werror"];

fn accepted(compiler: Compiler, source: &str, flags: &[&str]) {
    if compiler.is_there()
        && let Err(said) = compiler.check(source, flags)
    {
        let first: String = said.lines().take(20).fold(String::new(), |all, line| all + line + "\n");
        panic!("{}\n{first}", compiler.program);
    }
}

fn refused(compiler: Compiler, source: &str, flags: &[&str]) {
    if compiler.is_there() {
        assert!(compiler.check(source, flags).is_err(), "{} accepts\n{source}", compiler.program);
    }
}

/// The parameter list as C spells it.
fn parameters(row: &Row<'_>) -> String {
    row.get("parameters").replace("; ", ", ")
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
    let table = Table::read("functions");
    let mut c = "#include \"cudnn.h\"\n".to_owned();
    let mut cpp = "#include <type_traits>\n#include \"cudnn.h\"\n".to_owned();
    let mut count = 0;
    for row in table.rows() {
        c += &c_function(row.get("name"), row.get("return_type"), &parameters(&row));
        cpp += &cpp_function(row.get("name"), row.get("return_type"), &parameters(&row));
        count += 1;
    }
    assert_eq!(count, 235);
    for compiler in [GCC, CLANG] {
        accepted(compiler, &c, C11);
        refused(compiler, &(c.clone() + &c_function("cudnnCreate", "int", "int *handle")), C11);
    }
    for compiler in [GXX, CLANGXX] {
        accepted(compiler, &cpp, CPP11);
        refused(compiler, &(cpp.clone() + &cpp_function("cudnnDestroy", "cudnnStatus_t", "void *")), CPP11);
    }
    // One argument too few, another constness, another order: each alone must be refused.
    for (name, wrong) in [
        ("cudnnSetTensorNdDescriptor", "cudnnTensorDescriptor_t a, cudnnDataType_t b, int c, const int *d"),
        ("cudnnSetStream", "cudaStream_t a, cudnnHandle_t b"),
        ("cudnnScaleTensor", "cudnnHandle_t a, cudnnTensorDescriptor_t b, const void *c, const void *d"),
    ] {
        refused(GCC, &("#include \"cudnn.h\"\n".to_owned() + &c_function(name, "cudnnStatus_t", wrong)), C11);
    }
}

#[test]
fn nothing_else_is_declared() {
    let list = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("prototypes.txt");
    let flag = list.to_str().expect("the target's path is UTF-8");
    GCC.check("#include \"cudnn.h\"\n", &["-aux-info", flag, "-DCUDNN_SHIM_NO_CUDA_HEADERS"])
        .expect("compiles");
    let prototypes = std::fs::read_to_string(&list).expect("gcc writes the list");
    let declared: BTreeSet<String> = prototypes
        .lines()
        .filter(|line| line.contains("cudnn.h:"))
        .map(|line| {
            let head = &line[..line.find(" (").expect("a prototype has parameters")];
            head.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
        })
        .collect();
    let expected: BTreeSet<String> =
        Table::read("functions").rows().map(|row| row.get("name").to_owned()).collect();
    assert_eq!(declared, expected);
}

/// `enumerator == value`, checked by the compiler in both languages.
fn equal(cpp: bool, name: &str, value: &str) -> String {
    let assert = if cpp { "static_assert" } else { "_Static_assert" };
    format!("{assert}((long long)({name}) == {value}LL, \"{name}\");\n")
}

#[test]
fn enumerators_have_the_original_values() {
    let table = Table::read("enums");
    for cpp in [false, true] {
        let mut source = "#include \"cudnn.h\"\n".to_owned();
        let mut types = BTreeSet::new();
        let mut count = 0;
        for row in table.rows() {
            source += &equal(cpp, row.get("constant"), row.get("value_9.27"));
            // The enumerator belongs to this type, not to another one.
            if cpp {
                let (name, of) = (row.get("constant"), row.get("enum_type"));
                writeln!(source, "static_assert(std::is_same<decltype({name}), {of}>::value, \"{name}\");")
                    .unwrap();
            }
            types.insert(row.get("enum_type").to_owned());
            count += 1;
        }
        for name in &types {
            let signed = u8::from(name == "cudnnBackendOperationGraphMode_t");
            source += &equal(cpp, &format!("sizeof({name})"), "4");
            if !cpp {
                source += &equal(cpp, &format!("(({name})-1 < 0)"), &signed.to_string());
            }
        }
        assert_eq!((count, types.len()), (943, 71));
        let source = if cpp { "#include <type_traits>\n".to_owned() + &source } else { source };
        for compiler in if cpp { [GXX, CLANGXX] } else { [GCC, CLANG] } {
            let flags = if cpp { &["-std=c++11"] } else { &["-std=c11"] };
            accepted(compiler, &source, flags);
            refused(compiler, &(source.clone() + &equal(cpp, "CUDNN_DATA_HALF", "1")), flags);
        }
    }
}

#[test]
fn macros_have_the_original_types_and_values() {
    let table = Table::read("macros");
    let mut source = "#include \"cudnn.h\"\n".to_owned();
    // C has no constant comparisons of doubles, C++ does.
    let mut cpp = source.clone();
    let mut count = 0;
    for row in table.rows().filter(|row| row.is("in_9.27")) {
        let name = row.get("macro");
        match row.get("kind") {
            "constant" => {
                let (of, value) = (row.get("c_type_of_expression"), row.get("value_9.27"));
                writeln!(source, "_Static_assert(_Generic(({name}), {of}: 1, default: 0), \"{name}\");")
                    .unwrap();
                writeln!(cpp, "static_assert(({name}) == {value}, \"{name}\");").unwrap();
                count += 1;
            }
            _ => writeln!(source, "#ifndef {name}\n#error {name} is missing\n#endif").unwrap(),
        }
    }
    assert_eq!(count, 36);
    source += "_Static_assert(CUDNN_STATUS_FULL_ERROR_CODE(3000, 7) == CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, \"\");\n\
               _Static_assert(CUDNN_STATUS_CATEGORY(CUDNN_STATUS_BAD_PARAM_NULL_POINTER) == 2000, \"\");\n\
               _Static_assert(CUDNN_STATUS_SPECIFIC_ERROR(CUDNN_STATUS_BAD_PARAM_NULL_POINTER) == 2, \"\");\n\
               _Static_assert(_Generic(CUDNN_STATUS_FULL_ERROR_CODE(0, 0), cudnnStatus_t: 1), \"\");\n";
    for compiler in [GCC, CLANG] {
        accepted(compiler, &source, &["-std=c11"]);
    }
    for compiler in [GXX, CLANGXX] {
        accepted(compiler, &cpp, &["-std=c++11"]);
        refused(compiler, &(cpp.clone() + "static_assert(CUDNN_DIM_MAX == 9, \"\");\n"), &["-std=c++11"]);
    }
    refused(
        GCC,
        "#include \"cudnn.h\"\n_Static_assert(_Generic(CUDNN_DIM_MAX, unsigned: 1), \"\");\n",
        &["-std=c11"],
    );
}

#[test]
fn types_have_the_original_layout() {
    let table = Table::read("types");
    let mut source = "#include <stddef.h>\n#include \"cudnn.h\"\n".to_owned();
    let mut count = 0;
    for row in table.rows().filter(|row| row.is("in_9.27")) {
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
            "enum" => {}
            other => panic!("what is {other}?"),
        }
        if !row.get("size").is_empty() && row.get("field").is_empty() {
            source += &equal(false, &format!("sizeof({name})"), row.get("size"));
            source += &equal(false, &format!("_Alignof({name})"), row.get("align"));
        }
        count += 1;
    }
    assert!(count > 140, "{count}");
    for compiler in [GCC, CLANG] {
        accepted(compiler, &source, &["-std=c11"]);
    }
    refused(GCC, &(source.clone() + &equal(false, "sizeof(cudnnDebug_t)", "112")), &["-std=c11"]);
}

/// What the compiler calls deprecated in `source`.
fn deprecations(compiler: Compiler, source: &str) -> BTreeSet<String> {
    let said = compiler.check(source, &["-DCUDNN_WARN_DEPRECATED", "-Wdeprecated-declarations"]);
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
    let (functions, enums, types) = (Table::read("functions"), Table::read("enums"), Table::read("types"));
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
    for row in functions.rows() {
        let name = row.get("name");
        add(name, row.is("deprecated_9.27"), format!("void *use_{name}(void) {{ return (void *)&{name}; }}"));
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
    assert_eq!(deprecations(GCC, &source), expected);
    // Without the switch nobody is bothered.
    let quiet = GCC.check(&source, &["-Wdeprecated-declarations"]).expect("compiles");
    assert!(!quiet.contains("deprecated"), "{quiet}");
}
