//! The project's sources as the rules of tidy read them.
//!
//! A [`Source`] is a file's text, and the same text split in two by a small lexer: `code` (comments and literals
//! blanked) and `comments` (everything else blanked). Blanking keeps the line breaks, so that a line number means the
//! same in all three:
//!
//! ```text
//! text      let a = "//"; // why
//! code      let a =     ;
//! comments                // why
//! ```

use std::fs;
use std::path::{Path, PathBuf};

/// Folders below the root that hold Rust sources and manifests of the project.
const SOURCE_FOLDERS: &[&str] = &["crates", "tests", "fuzz"];
/// Folders with what tools made, not people.
const GENERATED_FOLDERS: &[&str] = &["target", "corpus", "artifacts", ".git"];

pub struct Source {
    /// From the root of the repository, with forward slashes.
    pub path: String,
    pub text: String,
    pub code: String,
    pub comments: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        Source { path: path.to_owned(), text: text.to_owned(), code, comments }
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository's root")
}

pub fn sources() -> Vec<Source> {
    files(|path| path.extension().is_some_and(|e| e == "rs"))
}

pub fn manifests() -> Vec<Source> {
    let mut found = files(|path| path.file_name().is_some_and(|n| n == "Cargo.toml"));
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    found.push(Source::new("Cargo.toml", &text));
    found
}

fn files(wanted: impl Fn(&Path) -> bool) -> Vec<Source> {
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
            } else if wanted(&path) {
                let text = fs::read_to_string(&path).expect("a source in UTF-8");
                let relative = path.strip_prefix(&root).expect("a path below the root");
                found.push(Source::new(&relative.to_string_lossy().replace('\\', "/"), &text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources below {}: SOURCE_FOLDERS is wrong", root.display());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
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

/// Splits a source into (code, comments): the other part is blanked with spaces, line breaks stay in both. The insides
/// of string and character literals are in neither.
fn split(text: &str) -> (String, String) {
    let (mut code, mut comments) = (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next_piece(rest, ends_in_word(&code), first);
        let (piece, after) = rest.split_at(length);
        let blank: String = piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.push_str(if kind == Piece::Code { piece } else { &blank });
        comments.push_str(if kind == Piece::Comment { piece } else { &blank });
        rest = after;
    }
    (code, comments)
}

#[derive(PartialEq)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// Kind and length of the next piece. `in_word`: an identifier ended just before it, so an `r` is no raw string's.
fn next_piece(rest: &str, in_word: bool, first: char) -> (Piece, usize) {
    if rest.starts_with("//") {
        return (Piece::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Piece::Comment, block_comment_length(rest));
    }
    let raw_prefix = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')).filter(|_| !in_word);
    if let Some(length) = raw_prefix.and_then(raw_string_length) {
        return (Piece::Literal, rest.len() - raw_prefix.map_or(0, str::len) + length);
    }
    let quoted = match first {
        '"' => true,
        '\'' => rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\''),
        _ => false,
    };
    if quoted { (Piece::Literal, quoted_length(rest, first)) } else { (Piece::Code, first.len_utf8()) }
}

/// Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0usize);
    loop {
        let here = &rest[at..];
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += here.chars().next().map_or(0, char::len_utf8);
        }
        if depth == 0 || at >= rest.len() {
            return at;
        }
    }
}

/// Of `##"..."##`, what follows the r.
fn raw_string_length(after: &str) -> Option<usize> {
    let hashes = after.bytes().take_while(|b| *b == b'#').count();
    let inside = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", &after[..hashes]);
    Some(inside.find(&close).map_or(after.len(), |at| hashes + 1 + at + close.len()))
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn lexer_tells_code_comments_and_literals_apart() {
    let cases = [
        ("a // b 'c", "a", "// b 'c"),
        (r#"f("// \" no"); // yes"#, "f(          );", "// yes"),
        (r###"r#""x"# g br"\" h r"###, "g       h r", ""),
        (r"for'a', ' ''\''x::<'a>", "for   ,        x::<'a>", ""),
        ("a /* b /* c */ d */ e", "a                   e", "/* b /* c */ d */"),
    ];
    for (text, code, comments) in cases {
        let (found_code, found_comments) = split(text);
        assert_eq!((found_code.trim(), found_comments.trim()), (code, comments), "{text}");
        assert_eq!(found_code.chars().count(), text.chars().count(), "{text}");
    }
    assert_eq!(split("a\n// b\nc"), ("a\n    \nc".to_owned(), " \n// b\n ".to_owned()));
}
