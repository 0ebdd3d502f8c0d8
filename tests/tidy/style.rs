//! The rules on one source: what it opens with, how long it is, what it leaves behind, how it proves its `unsafe`.

use crate::facts::Unsafe;
use crate::source::{Source, ends_in_word, numbered, starts_with_word};

pub const FILE_LINES_MAX: usize = 700;
pub const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 120;

pub fn missing_doc_comment(source: &Source) -> Vec<String> {
    let opens = source.text.starts_with("//! ");
    let complaint = format!("{}:1: begin the file with a `//!` comment that says what it is for", source.path);
    if opens { Vec::new() } else { vec![complaint] }
}

/// `excused`: path, reason.
pub fn long_files(sources: &[Source], excused: &[(&str, &str)]) -> Vec<String> {
    let lines = |source: &Source| source.text.lines().count();
    let long: Vec<&Source> = sources.iter().filter(|s| lines(s) > FILE_LINES_MAX).collect();
    let unexpected = long
        .iter()
        .filter(|s| !excused.iter().any(|(path, _)| *path == s.path))
        .map(|s| format!("{}: {} lines, {FILE_LINES_MAX} at most: a file is one idea, split it", s.path, lines(s)));
    let gone = excused.iter().filter(|(path, _)| !long.iter().any(|s| s.path == *path)).map(|(path, _)| {
        format!("{path} is short now, or gone: remove its line from LONG_FILES in tests/tidy/exceptions.rs")
    });
    unexpected.chain(gone).collect()
}

/// `excused`: path, name, reason.
pub fn long_functions(sources: &[Source], excused: &[(&str, &str, &str)]) -> Vec<String> {
    let all = sources.iter().flat_map(|s| s.facts.functions.iter().map(move |f| (s.path.as_str(), f)));
    let long: Vec<_> = all.filter(|(_, f)| f.lines > FUNCTION_LINES_MAX).collect();
    let unexpected = long.iter().filter(|(path, f)| !excused.iter().any(|(p, n, _)| p == path && *n == f.name));
    let unexpected = unexpected.map(|(path, f)| {
        let (name, line, lines) = (&f.name, f.line, f.lines);
        format!(
            "{path}:{line}: `{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most: take its steps out into functions"
        )
    });
    let gone = excused.iter().filter(|(path, name, _)| !long.iter().any(|(p, f)| p == path && f.name == *name));
    let gone = gone.map(|(path, name, _)| {
        format!(
            "{path}: `{name}` is short now, or gone: remove its line from LONG_FUNCTIONS in tests/tidy/exceptions.rs"
        )
    });
    unexpected.chain(gone).collect()
}

pub fn leftovers(source: &Source) -> Vec<String> {
    let unfinished =
        source.facts.macros.iter().filter(|(name, _)| ["todo", "unimplemented", "dbg"].contains(&&name[..]));
    unfinished
        .map(|(name, line)| {
            format!("{}:{line}: `{name}!` is for work in progress: finish it or take it out", source.path)
        })
        .collect()
}

pub fn ticket_numbers(source: &Source) -> Vec<String> {
    let is_ticket = |line: &str| {
        line.match_indices('#').any(|(at, _)| {
            let digits = line[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && !ends_in_word(&line[..at]) && !starts_with_word(&line[at + 1 + digits..])
        })
    };
    numbered(&source.comments)
        .filter(|(_, line)| is_ticket(line))
        .map(|(number, _)| format!("{}:{number}: say why in words instead of by a ticket's number", source.path))
        .collect()
}

/// Prose in comments is no wider than code; drawings and tables may be.
pub fn wide_comments(source: &Source) -> Vec<String> {
    let mut in_drawing = false;
    let mut is_wide = |line: &str| {
        let Some(text) = line.trim_start().strip_prefix("//") else { return false };
        let text = text.trim_start_matches(['/', '!']).trim_start();
        in_drawing ^= text.starts_with("```");
        !in_drawing && !text.starts_with('|') && line.chars().count() > COLUMNS_MAX
    };
    let lines = source.text.lines().enumerate().filter(|(_, line)| is_wide(line));
    lines.map(|(at, _)| format!("{}:{}: a comment beyond {COLUMNS_MAX} columns", source.path, at + 1)).collect()
}

pub fn unsafe_elsewhere(source: &Source, allowed: &[&str]) -> Vec<String> {
    if allowed.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let say = |u: &Unsafe| {
        let place = format!("{}:{}", source.path, u.line);
        format!(
            "{place}: unsafe: do without it, or name the file in UNSAFE_FILES of tests/tidy/exceptions.rs and in ARCHITECTURE.md"
        )
    };
    source.facts.unsafes.iter().map(say).collect()
}

pub fn unsafe_without_proof(source: &Source) -> Vec<String> {
    let code: Vec<&str> = source.code.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    let mut complaints = Vec::new();
    for found in &source.facts.unsafes {
        let (proof, what) = match found.is_contract {
            true if found.implements => continue,
            true => ("# Safety", "a doc section `# Safety` with what the caller must uphold"),
            false => ("SAFETY:", "a `// SAFETY:` proof"),
        };
        let above = |line: usize| comment_above(&code, &comments, line - 1).contains(proof);
        if !(comments[found.line - 1].contains(proof) || above(found.line) || above(found.statement)) {
            complaints.push(format!("{}:{}: put {what} directly above this unsafe", source.path, found.line));
        }
    }
    complaints
}

/// The comment above the line, through attributes.
fn comment_above(code: &[&str], comments: &[&str], at: usize) -> String {
    let is_attribute = |line: &str| line.starts_with("#[") || line.starts_with("#![");
    let belongs = |above: &usize| {
        let (code, comment) = (code[*above].trim(), comments[*above].trim());
        code.is_empty() && !comment.is_empty() || is_attribute(code)
    };
    let block: Vec<&str> = (0..at).rev().take_while(belongs).map(|above| comments[above].trim()).collect();
    block.into_iter().rev().collect::<Vec<&str>>().join("\n")
}

/// The rules on small sources that break them, and on some that only look so.
mod rules {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("crates/x/src/a.rs", text)
    }

    fn complaints(rule: impl Fn(&Source) -> Vec<String>, text: &str) -> usize {
        rule(&source(text)).len()
    }

    #[test]
    fn doc_comment() {
        assert_eq!(complaints(missing_doc_comment, "//! For x.\n"), 0);
        assert_eq!(complaints(missing_doc_comment, "// For x.\n"), 1);
        assert_eq!(complaints(missing_doc_comment, ""), 1);
    }

    #[test]
    fn long_file() {
        let long = [source(&"\n".repeat(FILE_LINES_MAX + 1))];
        assert_eq!(long_files(&long, &[]).len(), 1);
        assert_eq!(long_files(&long, &[("crates/x/src/a.rs", "a table")]).len(), 0);
        assert_eq!(long_files(&long, &[("crates/x/src/a.rs", ""), ("b.rs", "")]).len(), 1);
        assert_eq!(long_files(&[source(&"\n".repeat(FILE_LINES_MAX))], &[]).len(), 0);
    }

    #[test]
    fn long_function() {
        let long = [source(&format!("fn a() {{{}}}", "\n".repeat(FUNCTION_LINES_MAX)))];
        assert_eq!(long_functions(&long, &[]).len(), 1);
        assert_eq!(long_functions(&long, &[("crates/x/src/a.rs", "a", "a table")]).len(), 0);
        assert_eq!(long_functions(&[source("fn a() {}")], &[("crates/x/src/a.rs", "a", "")]).len(), 1);
    }

    #[test]
    fn work_in_progress() {
        assert_eq!(complaints(leftovers, "fn a() { todo!() }\nfn b() { dbg!(1); unimplemented!() }"), 3);
        assert_eq!(complaints(leftovers, "fn a() { f!(todo!()) }"), 1);
        assert_eq!(complaints(leftovers, "// todo!()\nfn a() { let a = \"dbg!\"; not_todo!(); }"), 0);
    }

    #[test]
    fn columns() {
        let wide = "x".repeat(COLUMNS_MAX);
        assert_eq!(complaints(wide_comments, &format!("//! {wide}\n/// {wide}\nfn f() {{\n    // {wide}\n}}")), 3);
        assert_eq!(
            complaints(wide_comments, &format!("/// ```text\n/// {wide}\n/// ```\n/// | {wide} |\nfn {wide}() {{}}")),
            0
        );
    }

    #[test]
    fn tickets() {
        assert_eq!(complaints(ticket_numbers, "// see #123\n/// (#7)\nfn f() {}"), 2);
        assert_eq!(complaints(ticket_numbers, "// a b#1 #[inline] #a1 #1st\nconst A: &str = \"#12\";"), 0);
    }

    #[test]
    fn unsafe_files() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nfn a() { unsafe { f() } }\n";
        assert_eq!(complaints(|s| unsafe_elsewhere(s, &[]), text), 1);
        assert_eq!(complaints(|s| unsafe_elsewhere(s, &["crates/x/src/a.rs"]), text), 0);
        assert_eq!(complaints(|s| unsafe_elsewhere(s, &[]), "fn a() { assert!(unsafe { f() }) }"), 1);
    }

    #[test]
    fn proofs() {
        let bad = [
            "fn a() {\nunsafe { f() }\n}",
            "fn a() {\n// SAFETY: old.\n\nunsafe { f() }\n}",
            "fn a() {\n// SAFETY: of the first.\nlet a = 1;\nlet b = unsafe { f() };\n}",
            "fn a() {\n// SAFETY: of the first.\nf(1,\nx);\nassert!(unsafe { f() });\n}",
            "/// Does.\nunsafe fn f() {}",
            "unsafe impl Send for A {}",
        ];
        let good = [
            "fn a() {\n// SAFETY: x.\nunsafe { f() }\n}",
            "// SAFETY: x,\n// and y.\n#[inline]\nunsafe impl Send for A {}",
            "fn a() {\n// SAFETY: x.\nlet a =\n    unsafe { f() };\n}",
            "fn a() {\n// SAFETY: x.\nassert!(1,\n    unsafe { f() });\n}",
            "/// Does.\n///\n/// # Safety\n/// x\n#[inline]\npub unsafe fn f() {}",
            "impl<T> A for B<T> {\n    fn g() {\n    }\n    unsafe fn f() {\n    }\n}",
        ];
        for text in bad {
            assert_eq!(complaints(unsafe_without_proof, text), 1, "{text}");
        }
        for text in good {
            assert_eq!(complaints(unsafe_without_proof, text), 0, "{text}");
        }
    }

    #[test]
    fn function_lengths() {
        let code = "fn a(x: [u8; 2]) {\n    let f = |y| { y };\n}\ntrait T {\n    fn b();\n    fn c() -> u8 {\n        1\n    }\n}\nm! { fn d() {} }";
        let lengths: Vec<(String, usize)> =
            source(code).facts.functions.into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(lengths, [("a".to_owned(), 3), ("c".to_owned(), 3), ("d".to_owned(), 1)]);
    }
}
