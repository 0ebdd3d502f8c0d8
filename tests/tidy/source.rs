//! The project's sources as the rules of tidy read them.
//!
//! A [`Source`] is a file's text, its syntax tree's facts, and the same text split in two by its tokens: `code`
//! (comments and literals blanked) and `comments` (everything else blanked). Blanking keeps the line breaks, so that a
//! line number means the same in all three:
//!
//! ```text
//! text      let a = "//"; // why
//! code      let a =     ;
//! comments                // why
//! ```

use crate::facts::Facts;
use proc_macro2::{Span, TokenStream, TokenTree};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Folders below the root that hold Rust sources of the project.
const SOURCE_FOLDERS: &[&str] = &["crates", "tests", "fuzz"];
/// Folders with what tools made, not people.
const GENERATED_FOLDERS: &[&str] = &["target", "corpus", "artifacts", ".git"];

pub struct Source {
    /// From the root of the repository, with forward slashes.
    pub path: String,
    pub text: String,
    pub code: String,
    pub comments: String,
    pub facts: Facts,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{path}: {e}"));
        let (code, comments) = split(text, &leaves(text, &tokens));
        let facts = Facts::of(path, tokens);
        Source { path: path.to_owned(), text: text.to_owned(), code, comments, facts }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository's root")
}

/// All sources, by path. They are read once for all rules.
pub fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(read_sources);
    &SOURCES
}

fn read_sources() -> Vec<Source> {
    let root = root();
    let mut folders: Vec<PathBuf> = SOURCE_FOLDERS.iter().map(|f| root.join(f)).filter(|f| f.is_dir()).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !GENERATED_FOLDERS.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(read(&root, &path));
            }
        }
    }
    assert!(!found.is_empty(), "no sources below {}: SOURCE_FOLDERS is wrong", root.display());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn read(root: &Path, path: &Path) -> Source {
    let text = fs::read_to_string(path).expect("a source in UTF-8");
    let relative = path.strip_prefix(root).expect("a path below the root");
    Source::new(&relative.to_string_lossy().replace('\\', "/"), &text)
}

// ---- text ----------------------------------------------------------------------------------------------------------

pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

pub fn starts_with_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word)
}

pub fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let whole = !ends_in_word(before) && !starts_with_word(after);
        whole && !before.ends_with('-') && !after.starts_with('-')
    })
}

// ---- tokens --------------------------------------------------------------------------------------------------------

/// The tokens in their order with whether each is a literal; a group's delimiters are tokens of their own. A doc
/// comment, which is tokens of an attribute, is left out.
fn leaves(text: &str, tokens: &TokenStream) -> Vec<(Span, bool)> {
    let mut found = Vec::new();
    for token in tokens.clone() {
        let piece = &text[token.span().byte_range()];
        if piece.starts_with("//") || piece.starts_with("/*") {
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                found.push((group.span_open(), false));
                found.extend(leaves(text, &group.stream()));
                found.push((group.span_close(), false));
            }
            TokenTree::Literal(literal) => found.push((literal.span(), true)),
            other => found.push((other.span(), false)),
        }
    }
    found
}

/// Code and comments: what is no token is a comment or white space.
fn split(text: &str, leaves: &[(Span, bool)]) -> (String, String) {
    let (mut code, mut comments) = (blank(text), text.to_owned().into_bytes());
    for (span, is_literal) in leaves {
        let range = span.byte_range();
        let piece = &text[range.clone()];
        comments[range.clone()].copy_from_slice(&blank(piece));
        if !is_literal {
            code[range].copy_from_slice(piece.as_bytes());
        }
    }
    let string = |bytes: Vec<u8>| String::from_utf8(bytes).expect("whole characters");
    (string(code), string(comments))
}

fn blank(text: &str) -> Vec<u8> {
    text.bytes().map(|b| if b == b'\n' { b'\n' } else { b' ' }).collect()
}

/// Returns a span's first and last lines.
pub fn lines(span: Span) -> Range<usize> {
    span.start().line..span.end().line
}

#[test]
fn code_comments_and_literals_are_told_apart() {
    let cases = [
        ("a // b 'c", "a", "// b 'c"),
        (r#"f("// \" no"); // yes"#, "f(          );", "// yes"),
        (r###"r#""x"# g br"\" h r"###, "g       h r", ""),
        (r"for 'a', ' ','\''::<'a>", "for    ,    ,    ::<'a>", ""),
        ("a /* b /* c */ d */ e", "a                   e", "/* b /* c */ d */"),
        ("/// a\nb", "b", "/// a"),
    ];
    for (text, code, comments) in cases {
        let tokens: TokenStream = text.parse().expect("tokens");
        let found = split(text, &leaves(text, &tokens));
        assert_eq!((found.0.trim(), found.1.trim()), (code, comments), "{text}");
        assert_eq!(found.0.len(), text.len(), "{text}");
    }
}
