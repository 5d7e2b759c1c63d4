//! Attributes of cudnn-shim: of the C boundary, and of the loops of the CPU core.
//!
//! What those of the boundary are put on stands written out, signature and enumerators, because
//! cbindgen reads sources and does not look into macros; it passes over attributes.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Makes an entry point of a function of C whose body is a `Result<()>`: the body runs inside the
/// panic boundary, its outcome becomes the status, and the call is logged with its name and its
/// arguments.
///
/// A function with a library handle asks first whether the original cuDNN serves the call.
///
/// The room that uses it has `guard::entry`, `guard::Shown`, and `beside::served` with what that
/// takes.
#[proc_macro_attribute]
pub fn entry(attribute: TokenStream, item: TokenStream) -> TokenStream {
    if let Some(token) = attribute.into_iter().next() {
        return error(&token, "#[entry] takes nothing");
    }
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let Some((name, at)) = named_after(&tokens, "fn") else {
        return error(&tokens[0], "#[entry] belongs to a function");
    };
    let (Some(TokenTree::Group(parameters)), Some(TokenTree::Group(body))) =
        (tokens.get(at + 1), tokens.last())
    else {
        return error(&tokens[at], "#[entry] belongs to a function with a body and without generics");
    };
    let declared = parts(parameters.stream());
    let parameters = first_names(&declared);
    let routed = routed(&name, &parameters, &declared);
    let body = body.clone();
    tokens.iter_mut().for_each(export_outside_tests);
    // As C names them: `type`, not `r#type`.
    let shown = |name: &String| format!("{}={{}}", name.trim_start_matches("r#"));
    let format = parameters.iter().map(shown).collect::<Vec<_>>().join(", ");
    let values: String = parameters.iter().map(|name| format!(", {GUARD}::Shown(&{name})")).collect();
    let mut arguments = parsed(&format!("\"{name}\", ::core::format_args!(\"{format}\"{values}), ||"));
    arguments.extend([TokenTree::Group(match routed {
        None => body,
        Some(routed) => served(routed, body, &declared),
    })]);
    let mut call = parsed(&format!("{GUARD}::entry"));
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    *tokens.last_mut().expect("the body") = TokenTree::Group(Group::new(Delimiter::Brace, call));
    tokens.into_iter().collect()
}

/// For a function with a library handle: its place in the route, and a closure that calls the
/// original's function, with the twins of handle and descriptors.
fn routed(name: &str, names: &[String], declared: &[Vec<TokenTree>]) -> Option<TokenStream> {
    let types: Vec<String> = declared.iter().map(|part| text(behind_colon(part))).collect();
    if !types.iter().any(|of| of == "cudnnHandle_t") {
        return None;
    }
    // Arrays of descriptors are pointers, and a call that has one is no call of the route. Those of
    // the graph interface are passed attribute by attribute.
    let is_twinned = |of: &str| {
        of == "cudnnHandle_t"
            || of.ends_with("Descriptor_t") && !of.contains(' ') && !NOT_TWINNED.contains(&of)
    };
    let passed: String = names
        .iter()
        .zip(&types)
        .filter(|(_, of)| is_twinned(of))
        .map(|(name, _)| format!("let {name} = {BESIDE}::Pass::pass({name}, __passing, {name:?})?;"))
        .collect();
    // What tells problems and spaces apart, by the names that the interface gives them everywhere.
    let noted: String = names
        .iter()
        .zip(&types)
        .map(|(name, of)| match name.as_str() {
            "algo" if of.starts_with("MaybeUninit") => format!("__passing.set_algo({RAW}(algo));"),
            "reserveSpace" => "__passing.set_reserve(reserveSpace as *const _);".to_owned(),
            _ => String::new(),
        })
        .collect();
    let (types, names) = (types.join(", "), names.join(", "));
    // A function of the original has the type of ours, but for the status, which may be a number
    // that ours does not know.
    Some(parsed(&format!(
        "{{ static ROUTED: {BESIDE}::Routed = {BESIDE}::Routed::new({name:?}); &ROUTED }},
         |__passing, __function| {{
             {passed}
             {noted}
             __passing.decided()?;
             #[allow(clippy::undocumented_unsafe_blocks)]
             let __status = unsafe {{
                 let __function: unsafe extern \"C\" fn({types}) -> ::core::ffi::c_int =
                     ::core::mem::transmute(__function);
                 __function({names})
             }};
             ::core::option::Option::Some(__status)
         }},"
    )))
}

/// Kinds of descriptors without twins.
const NOT_TWINNED: [&str; 2] = ["cudnnAlgorithmDescriptor_t", "cudnnBackendDescriptor_t"];

/// The body of a function that the original may serve; of one that tells a size in `sizeInBytes`,
/// with that.
fn served(routed: TokenStream, body: Group, declared: &[Vec<TokenTree>]) -> Group {
    let mut arguments = routed;
    arguments.extend(parsed("||"));
    arguments.extend([TokenTree::Group(body)]);
    let is_size = |part: &Vec<TokenTree>| text(part).replace(' ', "") == "sizeInBytes:*mutusize";
    let function = if declared.iter().any(is_size) {
        arguments.extend(parsed(&format!(
            ", #[allow(clippy::undocumented_unsafe_blocks)] unsafe {{ {BESIDE}::Size::new(sizeInBytes) }}"
        )));
        "sized"
    } else {
        "served"
    };
    let mut call = parsed(&format!("{BESIDE}::{function}"));
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    Group::new(Delimiter::Brace, call)
}

/// Makes `#[unsafe(no_mangle)]` one that unit tests do not have: a program that exports every entry
/// point has the code of all kernels, and this one only what its tests reach.
fn export_outside_tests(token: &mut TokenTree) {
    let TokenTree::Group(group) = token else { return };
    if group.delimiter() == Delimiter::Bracket
        && group.stream().to_string().replace(' ', "") == "unsafe(no_mangle)"
    {
        let attribute = parsed("cfg_attr(not(test), unsafe(no_mangle))");
        *token = TokenTree::Group(Group::new(Delimiter::Bracket, attribute));
    }
}

/// Where the functions and types lie that [`entry`] names.
const GUARD: &str = "crate::capi::functions::guard";
/// What makes a number of an enumerator that a program gives.
const RAW: &str = "crate::capi::functions::types::raw";
/// The same of functions that the original may serve.
const BESIDE: &str = "crate::capi::functions::beside";

/// Makes an enumeration of C of a `repr(C)` enum without fields: implements `CEnum`, its
/// enumerators by number and name.
#[proc_macro_attribute]
pub fn c_enum(attribute: TokenStream, item: TokenStream) -> TokenStream {
    if let Some(token) = attribute.into_iter().next() {
        return error(&token, "#[c_enum] takes nothing");
    }
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let (Some((name, _)), Some(TokenTree::Group(body))) = (named_after(&tokens, "enum"), tokens.last())
    else {
        return error(&tokens[0], "#[c_enum] belongs to an enum");
    };
    let enumerators = first_names(&parts(body.stream()));
    let each = |text: &dyn Fn(&String) -> String| enumerators.iter().map(text).collect::<String>();
    let all = each(&|e| format!("Self::{e},"));
    // Constants, so that the match becomes a jump or a range check instead of a search.
    let constants = each(&|e| format!("const {e}: ::core::ffi::c_int = {name}::{e} as ::core::ffi::c_int;"));
    let from_code = each(&|e| format!("{e} => Some(Self::{e}),"));
    let names = each(&|e| format!("Self::{e} => \"{e}\","));
    // The trait's promise: the enum has no fields, for the casts compile; `raw` asserts the size of
    // every type it is used with.
    let implementation = parsed(&format!(
        "unsafe impl crate::capi::types::CEnum for {name} {{
            const ALL: &'static [Self] = &[{all}];
            fn code(self) -> ::core::ffi::c_int {{ self as ::core::ffi::c_int }}
            fn from_code(code: ::core::ffi::c_int) -> Option<Self> {{
                {constants}
                match code {{ {from_code} _ => None }}
            }}
            fn name(self) -> &'static str {{ match self {{ {names} }} }}
        }}"
    ));
    item.into_iter().chain(implementation).collect()
}

/// Compiles a function for every level of vector instructions. The function becomes inline, and
/// beside it there is a module of its name: `f::of::<T>(isa)` is the function for the instructions
/// of `isa`, and `f::portable`, `f::avx2` and `f::avx512` are those from which it chooses. A call
/// needs a processor that has the instructions. On aarch64 `portable` is compiled for NEON, which
/// belongs to that architecture, and `of` chooses no other.
///
/// `#[vectorized(A, B, C)]` gives the last generic parameter, a constant, these values at the three
/// levels.
#[proc_macro_attribute]
pub fn vectorized(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    let Some((name, at)) = named_after(&tokens, "fn") else {
        return error(&tokens[0], "#[vectorized] belongs to a function");
    };
    let is_list = |token: &TokenTree| matches!(token, TokenTree::Group(list) if list.delimiter() == Delimiter::Parenthesis);
    let list = (at..tokens.len()).find(|&i| is_list(&tokens[i])).expect("functions have parameters");
    let TokenTree::Group(parameters) = &tokens[list] else { unreachable!("it is a group") };

    // Between `<` and `>`, if they are there.
    let generics = tokens.get(at + 2..list - 1).unwrap_or_default();
    let mut generics = parts(generics.iter().cloned().collect());
    let values = parts(attribute);
    let value = |level: usize| values.get(level).map(|value| text(value));
    if !values.is_empty() {
        generics.pop();
    }
    let names = first_names(&generics);
    let generics = generics.iter().map(|part| text(part) + ",").collect::<String>();
    let types: Vec<String> = parts(parameters.stream()).iter().map(|part| text(behind_colon(part))).collect();
    let result = text(&tokens[list + 1..tokens.len() - 1]);
    let pointer = format!("unsafe fn({}) {result}", types.join(", "));
    let declared: String = types.iter().enumerate().map(|(i, of)| format!("a{i}: {of},")).collect();
    let passed: String = (0..types.len()).map(|i| format!("a{i},")).collect();
    let compiled = |(level, (module, feature)): (usize, &(&str, &str))| {
        let names = names.iter().cloned().chain(value(level)).collect::<Vec<_>>().join(", ");
        format!(
            "{feature} pub unsafe fn {module}<{generics}>({declared}) {result} {{
                #[allow(unused_unsafe)]
                unsafe {{ super::{name}::<{names}>({passed}) }}
            }}"
        )
    };
    let levels: String = LEVELS.iter().enumerate().map(compiled).collect();
    let names = names.join(", ");
    let module = parsed(&format!(
        "mod {name} {{
            #![allow(dead_code, unused_imports)]
            use super::*;

            pub fn of<{generics}>(isa: crate::backend::cpu::Isa) -> {pointer} {{
                #[cfg(target_arch = \"x86_64\")]
                if isa.has_avx512() {{
                    return avx512::<{names}>;
                }} else if isa.has_avx2() {{
                    return avx2::<{names}>;
                }}
                let _ = isa;
                portable::<{names}>
            }}
            {levels}
        }}"
    ));
    let is_attribute = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == '#',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Bracket,
        _ => false,
    };
    let is_start = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if ["unsafe", "fn"].contains(&&*word.to_string()));
    let visible = tokens.iter().skip_while(|token| is_attribute(token)).take_while(|token| !is_start(token));
    let visible: Vec<TokenTree> = visible.cloned().collect();
    let inline = parsed("#[inline(always)]");
    inline.into_iter().chain(tokens).chain(visible).chain(module).collect()
}

/// The levels of [`vectorized`], and what a function of each has in front. `Isa` says which
/// processors have these instructions.
const LEVELS: [(&str, &str); 3] = [
    ("portable", ""),
    ("avx2", "#[cfg_attr(target_arch = \"x86_64\", target_feature(enable = \"avx2,fma,f16c\"))]"),
    (
        "avx512",
        "#[cfg_attr(target_arch = \"x86_64\", target_feature(enable = \"avx512f,avx512bw,avx512dq,avx512vl\"))]",
    ),
];

/// The name behind a keyword of the item, and where it stands.
fn named_after(tokens: &[TokenTree], keyword: &str) -> Option<(String, usize)> {
    let is_keyword =
        |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident.to_string() == keyword);
    let at = tokens.iter().position(is_keyword)? + 1;
    match tokens.get(at)? {
        TokenTree::Ident(name) => Some((name.to_string(), at)),
        _ => None,
    }
}

/// What is between the commas of a list. Commas in brackets of any kind part nothing.
fn parts(list: TokenStream) -> Vec<Vec<TokenTree>> {
    let (mut parts, mut part, mut depth) = (Vec::new(), Vec::new(), 0);
    let mut before = ' ';
    for token in list {
        let punct = if let TokenTree::Punct(punct) = &token { punct.as_char() } else { ' ' };
        match punct {
            '<' => depth += 1,
            // The end of an arrow is none of a bracket.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = punct;
        if punct == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(token);
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

/// The first name of every part, behind its attributes, where it has one.
fn first_names(parts: &[Vec<TokenTree>]) -> Vec<String> {
    let name = |token: &TokenTree| match token {
        TokenTree::Ident(name) => Some(name.to_string()),
        _ => None,
    };
    // Neither is a name.
    let is_name = |name: &String| !["mut", "const"].contains(&&**name);
    parts.iter().filter_map(|part| part.iter().filter_map(name).find(is_name)).collect()
}

/// The type of a parameter.
fn behind_colon(parameter: &[TokenTree]) -> &[TokenTree] {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    let at = parameter.iter().position(is_colon).expect("parameters have types");
    &parameter[at + 1..]
}

fn text(tokens: &[TokenTree]) -> String {
    tokens.iter().cloned().collect::<TokenStream>().to_string()
}

fn parsed(text: &str) -> TokenStream {
    text.parse().expect("tokens of Rust")
}

/// A compile error at a token.
fn error(at: &TokenTree, message: &str) -> TokenStream {
    let error = parsed(&format!("::core::compile_error!({message:?});"));
    let placed = |mut token: TokenTree| {
        token.set_span(at.span());
        token
    };
    error.into_iter().map(placed).collect()
}
