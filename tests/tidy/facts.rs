//! Facts of a file's syntax tree for the rules: functions, names, uses of `unsafe`, and imports.

use crate::source::lines;
use proc_macro2::{Span, TokenStream, TokenTree};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Facts about a file.
#[derive(Default)]
pub struct Facts {
    pub functions: Vec<Function>,
    /// Types, functions and modules that the file gives a name to.
    pub names: Vec<Name>,
    /// Types with an `impl` of no trait, outside of tests.
    pub impls: Vec<String>,
    pub unsafes: Vec<Unsafe>,
    /// Calls of macros: name, line.
    pub macros: Vec<(String, usize)>,
    /// The file's own module first, then those that are written in it.
    pub modules: Vec<Module>,
    /// Files that `mod x;` in a test build only declares.
    pub test_files: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// Line of its signature, from 1.
    pub line: usize,
    /// From the signature to the closing brace.
    pub lines: usize,
}

#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Kind {
    Type,
    Function,
    Module,
}

pub struct Name {
    pub kind: Kind,
    pub name: String,
    pub line: usize,
    /// Whether it is part of a test.
    pub in_test: bool,
}

/// A use of the keyword.
pub struct Unsafe {
    pub line: usize,
    /// First line of the statement or item that it is in.
    pub statement: usize,
    /// Whether it says what callers must uphold: a function or a trait.
    pub is_contract: bool,
    /// Whether it is a function of a trait, in an implementation of it: the trait says what callers must uphold.
    pub implements: bool,
}

/// Definitions and references of a module.
#[derive(Default)]
pub struct Module {
    /// Below the file's own module: empty for that.
    pub path: Vec<String>,
    /// Names that are defined here, macros too.
    pub defined: Vec<String>,
    pub imports: Vec<Import>,
    /// Paths of more than one segment, as written.
    pub paths: Vec<Path>,
}

/// One leaf of a `use`.
pub struct Import {
    pub path: Path,
    /// The name that it has here; None for all names.
    pub name: Option<String>,
    pub is_public: bool,
}

#[derive(Clone)]
pub struct Path {
    pub segments: Vec<String>,
    pub line: usize,
}

impl Facts {
    pub fn of(path: &str, tokens: TokenStream) -> Facts {
        let mut facts = Facts::default();
        find_functions(tokens.clone(), &mut facts.functions);
        let file: syn::File = syn::parse2(tokens.clone()).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut reader =
            Reader { facts, in_test: false, module: 0, statements: Vec::new(), implementations: Vec::new() };
        reader.facts.modules.push(Module::default());
        reader.visit_file(&file);
        reader.find_in_tokens(tokens);
        reader.facts
    }
}

/// Functions with a body, nested ones and those in macros too.
fn find_functions(tokens: TokenStream, found: &mut Vec<Function>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            find_functions(group.stream(), found);
        }
        let (true, Some(TokenTree::Ident(name))) = (is_word(token, "fn"), tokens.get(at + 1)) else {
            continue;
        };
        let body = tokens[at..].iter().take_while(|t| !is_punct(t, ';')).find(|t| is_block(t));
        if let Some(body) = body {
            let line = token.span().start().line;
            found.push(Function { name: name.to_string(), line, lines: body.span().end().line + 1 - line });
        }
    }
    found.sort_by_key(|f| f.line);
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == c)
}

fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace)
}

struct Reader {
    facts: Facts,
    in_test: bool,
    /// Index of the module that is being read.
    module: usize,
    /// Bytes and first line of each statement and item.
    statements: Vec<(Range<usize>, usize)>,
    /// Bytes of the implementations of traits.
    implementations: Vec<Range<usize>>,
}

impl Reader {
    fn name(&mut self, kind: Kind, ident: &syn::Ident) {
        let (name, line) = (ident.to_string(), ident.span().start().line);
        self.facts.names.push(Name { kind, name, line, in_test: self.in_test });
    }

    fn define(&mut self, ident: &syn::Ident) {
        if !self.in_test {
            self.facts.modules[self.module].defined.push(ident.to_string());
        }
    }

    fn path(&mut self, segments: Vec<String>, span: Span) {
        if !self.in_test && segments.len() > 1 {
            self.facts.modules[self.module].paths.push(Path { segments, line: lines(span).start });
        }
    }

    fn statement(&mut self, span: Span) {
        self.statements.push((span.byte_range(), span.start().line));
    }

    /// Reads with `in_test` where the attributes say that only tests are built with it.
    fn within(&mut self, attributes: &[syn::Attribute], read: impl FnOnce(&mut Self)) {
        let was = self.in_test;
        self.in_test |= attributes.iter().any(is_for_tests);
        read(self);
        self.in_test = was;
    }

    fn imports(&mut self, tree: &syn::UseTree, before: &[String], is_public: bool) {
        let mut segments = before.to_vec();
        let (last, name) = match tree {
            syn::UseTree::Path(path) => {
                segments.push(path.ident.to_string());
                return self.imports(&path.tree, &segments, is_public);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.imports(tree, before, is_public));
                return;
            }
            syn::UseTree::Name(name) => (Some(name.ident.to_string()), name.ident.to_string()),
            syn::UseTree::Rename(rename) => (Some(rename.ident.to_string()), rename.rename.to_string()),
            syn::UseTree::Glob(_) => (None, String::new()),
        };
        let is_self = last.as_deref() == Some("self");
        let name = if is_self { segments.last().cloned() } else { last.as_ref().map(|_| name) };
        segments.extend(last.filter(|_| !is_self));
        let path = Path { segments, line: lines(tree.span()).start };
        self.facts.modules[self.module].imports.push(Import { path, name, is_public });
    }

    /// Finds calls of other macros, and every `unsafe`, inside macros, which a syntax tree does not show.
    fn find_in_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let next = tokens.get(at + 1);
            match token {
                TokenTree::Group(group) => self.find_in_tokens(group.stream()),
                TokenTree::Ident(ident) if ident == "unsafe" && !next.is_some_and(|t| is_punct(t, '(')) => {
                    self.note_unsafe(ident.span(), next.is_some_and(is_contract));
                }
                TokenTree::Ident(ident) if next.is_some_and(|t| is_punct(t, '!')) => {
                    self.facts.macros.push((ident.to_string(), ident.span().start().line));
                }
                _ => {}
            }
        }
    }

    fn note_unsafe(&mut self, span: Span, is_contract: bool) {
        let (at, line) = (span.byte_range().start, span.start().line);
        let around = self.statements.iter().filter(|(range, _)| range.contains(&at));
        let statement = around.min_by_key(|(range, _)| range.len()).map_or(line, |(_, first)| *first);
        let implements = self.implementations.iter().any(|range| range.contains(&at));
        self.facts.unsafes.push(Unsafe { line, statement, is_contract, implements });
    }

    /// Paths in the arguments of a macro.
    fn paths_in_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let first = at;
            let mut segments = Vec::new();
            while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
                segments.push(ident.to_string());
                let goes_on = [1, 2].iter().all(|n| tokens.get(at + n).is_some_and(|t| is_punct(t, ':')));
                at += if goes_on { 3 } else { 1 };
                if !goes_on {
                    break;
                }
            }
            if segments.is_empty() {
                if let TokenTree::Group(group) = &tokens[at] {
                    self.paths_in_tokens(group.stream());
                }
                at += 1;
            } else {
                self.path(segments, tokens[first].span());
            }
        }
    }
}

fn is_contract(next: &TokenTree) -> bool {
    is_word(next, "fn") || is_word(next, "trait") || is_word(next, "extern")
}

/// `cfg(test)`, also with features that only tests turn on; `test`.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return attribute.path().is_ident("test");
    };
    let tokens = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg")
        && (tokens == "test" || tokens.starts_with("all(test,") || tokens.starts_with("any(test,feature"))
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item::*;
    match item {
        Const(i) => &i.attrs,
        Enum(i) => &i.attrs,
        Fn(i) => &i.attrs,
        Impl(i) => &i.attrs,
        Macro(i) => &i.attrs,
        Mod(i) => &i.attrs,
        Static(i) => &i.attrs,
        Struct(i) => &i.attrs,
        Trait(i) => &i.attrs,
        Type(i) => &i.attrs,
        Use(i) => &i.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.statement(item.span());
        self.within(attributes(item), |reader| visit::visit_item(reader, item));
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        self.statement(statement.span());
        visit::visit_stmt(self, statement);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.statement(arm.span());
        visit::visit_arm(self, arm);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        self.statement(field.span());
        visit::visit_field_value(self, field);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.statement(function.span());
        self.name(Kind::Function, &function.sig.ident);
        self.within(&function.attrs, |reader| visit::visit_impl_item_fn(reader, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.statement(function.span());
        self.name(Kind::Function, &function.sig.ident);
        self.within(&function.attrs, |reader| visit::visit_trait_item_fn(reader, function));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.define(&function.sig.ident);
        self.name(Kind::Function, &function.sig.ident);
        visit::visit_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, implementation: &'ast syn::ItemImpl) {
        if implementation.trait_.is_some() {
            self.implementations.push(implementation.brace_token.span.join().byte_range());
        } else if let syn::Type::Path(of) = &*implementation.self_ty
            && let Some(last) = of.path.segments.last()
            && !self.in_test
        {
            self.facts.impls.push(last.ident.to_string());
        }
        visit::visit_item_impl(self, implementation);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.name(Kind::Module, &module.ident);
        if module.content.is_none() {
            let own = self.facts.modules[self.module].path.clone();
            if self.in_test {
                self.facts.test_files.push([own, vec![module.ident.to_string()]].concat().join("/"));
            }
            return;
        }
        if self.in_test {
            return visit::visit_item_mod(self, module);
        }
        let path = [&self.facts.modules[self.module].path[..], &[module.ident.to_string()]].concat();
        let before = std::mem::replace(&mut self.module, self.facts.modules.len());
        self.facts.modules.push(Module { path, ..Module::default() });
        visit::visit_item_mod(self, module);
        self.module = before;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !self.in_test {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            self.imports(&item.tree, &[], is_public);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.define(&item.ident);
        self.name(Kind::Type, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.define(&item.ident);
        self.name(Kind::Type, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.define(&item.ident);
        self.name(Kind::Type, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.define(&item.ident);
        self.name(Kind::Type, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.define(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.define(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if let Some(ident) = &item.ident {
            self.define(ident);
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path.segments.iter().map(|s| s.ident.to_string()).collect(), path.span());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.paths_in_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}
