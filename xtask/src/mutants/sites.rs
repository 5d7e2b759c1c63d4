//! Where a source file can be changed, and into what.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Lit, ReturnType, Signature, Type, UnOp};

/// Which functions of a file are changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Functions {
    All,
    /// Those of this name, and what is inside them.
    Named(&'static str),
}

/// One change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file, from the root of the repository.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// The bytes of the expression, or of the function's body with its braces.
    pub range: Range<usize>,
    pub change: Change,
    /// The function, with the type that it belongs to: `Span::of`.
    pub function: String,
    /// The change in one line, and which of several of this text in the function it is:
    /// `a < b -> (a) <= (b) #2`.
    pub text: String,
}

impl Site {
    /// What names the change, wherever in the file it is.
    pub fn key(&self) -> [&str; 3] {
        [&self.file, &self.function, &self.text]
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The expression is this one instead.
    Becomes(String),
    /// The function returns this at once.
    Returns(String),
}

/// All changes of `text`, the content of `file`, in their order there.
pub fn find(file: &str, text: &str, functions: Functions) -> Result<Vec<Site>> {
    let syntax = syn::parse_file(text).with_context(|| format!("{file} is not understood"))?;
    let inside = functions == Functions::All;
    let mut finder = Finder { file, text, functions, inside, path: Vec::new(), sites: Vec::new() };
    finder.visit_file(&syntax);
    let mut sites = finder.sites;
    // An expression before those inside it.
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end)));
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    for site in &mut sites {
        let before = seen.entry((site.function.clone(), site.text.clone())).or_default();
        *before += 1;
        if *before > 1 {
            site.text += &format!(" #{before}");
        }
    }
    Ok(sites)
}

/// The text in one line that is not too long.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= 100 { line } else { line.chars().take(97).chain("...".chars()).collect() }
}

struct Finder<'a> {
    file: &'a str,
    text: &'a str,
    functions: Functions,
    /// Whether this is inside a function that is changed.
    inside: bool,
    /// The type and the functions around this place.
    path: Vec<String>,
    sites: Vec<Site>,
}

impl Finder<'_> {
    fn add(&mut self, of: &impl Spanned, change: Change) {
        let span = of.span();
        let (file, line) = (self.file.to_owned(), span.start().line);
        let text = match &change {
            Change::Becomes(other) => format!("{} -> {}", short(self.text(of)), short(other)),
            Change::Returns(value) => format!("returns {}", if value.is_empty() { "()" } else { value }),
        };
        let function = self.path.join("::");
        self.sites.push(Site { file, line, range: span.byte_range(), change, function, text });
    }

    fn text(&self, of: &impl Spanned) -> &str {
        &self.text[of.span().byte_range()]
    }

    /// A function: first what it could return at once, then what is inside it.
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        // What the compiler computes cannot ask the environment.
        if signature.constness.is_some() || signature.unsafety.is_some() || !is_compiled(attributes) {
            return;
        }
        let before = self.inside;
        self.path.push(signature.ident.to_string());
        self.inside |= matches!(self.functions, Functions::Named(name) if signature.ident == name);
        if self.inside && !body.stmts.is_empty() {
            let whole = self.text(body).trim_matches(['{', '}']).trim();
            let others: Vec<String> =
                returned(&signature.output).into_iter().filter(|value| value != whole).collect();
            others.into_iter().for_each(|value| self.add(body, Change::Returns(value)));
        }
        visit::visit_block(self, body);
        self.path.pop();
        self.inside = before;
    }

    /// Other operators between the same operands.
    fn binary(&mut self, expression: &syn::ExprBinary) {
        let others = operators(&expression.op);
        if has_let(&expression.left) || has_let(&expression.right) {
            return;
        }
        let (left, right) = (self.text(&expression.left), self.text(&expression.right));
        // The other operator may bind more or less strongly.
        let changed: Vec<String> = others.iter().map(|other| format!("({left}) {other} ({right})")).collect();
        changed.into_iter().for_each(|text| self.add(expression, Change::Becomes(text)));
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if is_compiled(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        // What is only printed: no result depends on it.
        let printed = block.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if is_compiled(&block.attrs)
            && !printed.is_some_and(|name| name.ident == "Display" || name.ident == "Debug")
        {
            let of = short(self.text(&block.self_ty));
            self.path.push(of);
            visit::visit_item_impl(self, block);
            self.path.pop();
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.function(&function.attrs, &function.sig, body);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if self.inside {
            match expression {
                Expr::Binary(binary) => self.binary(binary),
                Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                    self.add(unary, Change::Becomes(self.text(&unary.expr).to_owned()));
                }
                Expr::Lit(literal) => {
                    if let Lit::Bool(value) = &literal.lit {
                        self.add(literal, Change::Becomes((!value.value).to_string()));
                    }
                }
                _ => {}
            }
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        // Its length is of the compiler.
        self.visit_expr(&repeat.expr);
    }

    // What the compiler computes, what does not compute, and what could be undefined behaviour
    // instead of a wrong answer.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_unsafe(&mut self, _: &'ast syn::ExprUnsafe) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_path(&mut self, _: &'ast syn::Path) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
}

/// Whether something with these attributes is part of the library on this machine, and no test.
fn is_compiled(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| {
        if attribute.path().is_ident("cfg") {
            // Of other conditions nobody here knows whether they hold.
            attribute.parse_args::<syn::MetaNameValue>().is_ok_and(|condition| {
                let Expr::Lit(syn::ExprLit { lit: Lit::Str(value), .. }) = &condition.value else {
                    return false;
                };
                condition.path.is_ident("target_arch") && value.value() == std::env::consts::ARCH
            })
        } else {
            !attribute.path().is_ident("test")
        }
    })
}

/// Whether a chain of conditions binds names.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// What an operator is changed into.
fn operators(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::BitXor(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::MulAssign(_) => &["+="],
        BinOp::DivAssign(_) => &["*="],
        BinOp::RemAssign(_) => &["/="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        BinOp::BitXorAssign(_) => &["&="],
        _ => &[],
    }
}

/// What a function with this result could return whatever it gets.
fn returned(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, result) => values(result),
    }
}

/// Some values of a type; none of types that are not known here.
fn values(of: &Type) -> Vec<String> {
    const INTEGERS: &[&str] =
        &["i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128", "usize"];
    let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let path = match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => return owned(&["()"]),
        Type::Path(path) => &path.path,
        _ => return Vec::new(),
    };
    let Some(last) = path.segments.last() else { return Vec::new() };
    let wrapped = |name: &str| {
        let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return Vec::new() };
        let Some(syn::GenericArgument::Type(inner)) = arguments.args.first() else { return Vec::new() };
        values(inner).into_iter().map(|value| format!("{name}({value})")).collect()
    };
    match last.ident.to_string().as_str() {
        "bool" => owned(&["true", "false"]),
        name if INTEGERS.contains(&name) => owned(&["0", "1"]),
        "Option" => [owned(&["None"]), wrapped("Some")].concat(),
        "Result" => wrapped("Ok"),
        _ => Vec::new(),
    }
}
