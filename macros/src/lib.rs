//! Attributes of the C boundary. What they are put on stands written out, signature and enumerators, because cbindgen reads
//! sources and does not look into macros; it passes over attributes.

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Makes an entry point of a function of C whose body is a `Result<()>`: the body runs inside the panic boundary, its
/// outcome becomes the status, and the call is logged with its name and its arguments.
///
/// The room that uses it has `guard::entry` and `guard::Shown`.
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
    let parameters = first_names(parameters);
    // As C names them: `type`, not `r#type`.
    let shown = |name: &String| format!("{}={{}}", name.trim_start_matches("r#"));
    let format = parameters.iter().map(shown).collect::<Vec<_>>().join(", ");
    let values: String = parameters.iter().map(|name| format!(", {GUARD}::Shown(&{name})")).collect();
    let mut arguments = parsed(&format!("\"{name}\", ::core::format_args!(\"{format}\"{values}), ||"));
    arguments.extend([TokenTree::Group(body.clone())]);
    let mut call = parsed(&format!("{GUARD}::entry"));
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))]);
    *tokens.last_mut().expect("the body") = TokenTree::Group(Group::new(Delimiter::Brace, call));
    tokens.into_iter().collect()
}

/// Where the functions and types lie that [`entry`] names.
const GUARD: &str = "crate::capi::functions::guard";

/// Makes an enumeration of C of a `repr(C)` enum without fields: implements `CEnum`, its enumerators by number and name.
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
    let enumerators = first_names(body);
    let each = |text: &dyn Fn(&String) -> String| enumerators.iter().map(text).collect::<String>();
    let all = each(&|e| format!("Self::{e},"));
    // Constants, so that the match becomes a jump or a range check instead of a search.
    let constants = each(&|e| format!("const {e}: ::core::ffi::c_int = {name}::{e} as ::core::ffi::c_int;"));
    let from_code = each(&|e| format!("{e} => Some(Self::{e}),"));
    let names = each(&|e| format!("Self::{e} => \"{e}\","));
    // The trait's promise: the enum has no fields, for the casts compile; `raw` asserts the size of every type it is used with.
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

/// The first name of every part between commas, behind its attributes. Commas in brackets of any kind part nothing.
fn first_names(list: &Group) -> Vec<String> {
    let (mut names, mut depth, mut begins) = (Vec::new(), 0, true);
    let mut before = ' ';
    for token in list.stream() {
        match token {
            // `mut` is no name.
            TokenTree::Ident(name) if begins && name.to_string() != "mut" => {
                names.push(name.to_string());
                begins = false;
            }
            TokenTree::Punct(punct) => {
                match punct.as_char() {
                    '<' => depth += 1,
                    // The end of an arrow is none of a bracket.
                    '>' if before != '-' => depth -= 1,
                    ',' if depth == 0 => begins = true,
                    _ => {}
                }
                before = punct.as_char();
                continue;
            }
            _ => {}
        }
        before = ' ';
    }
    names
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
