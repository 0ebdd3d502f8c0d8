//! Style as a test: the rules of the house that a compiler does not check.
//!
//! Every rule is one small function from sources to complaints; a complaint says what to do. Where a rule has
//! exceptions they are a table at the top of this file, a line each with its reason, and a line that is no longer
//! needed is a complaint too: the tables only shrink.
#![forbid(unsafe_code)]

#[path = "tidy/directives.rs"]
mod directives;
#[path = "tidy/source.rs"]
mod source;

use source::{Source, ends_in_word, has_word, is_word, manifests, numbered, root, sources, starts_with_word};
use std::fs;

/// Files that may contain `unsafe`. ARCHITECTURE.md names them too, and says what each needs it for.
const UNSAFE_FILES: &[&str] = &[
    "crates/allocator/src/lib.rs",
    "crates/structures/src/entry.rs",
    "crates/structures/src/tagged_pointer.rs",
    "crates/structures/src/hashtable/bucket.rs",
    "crates/structures/src/hashtable/entry.rs",
    "crates/structures/src/hashtable/memory.rs",
    "crates/structures/src/hashtable/mod.rs",
    "crates/structures/src/hyperloglog/wide.rs",
    "crates/structures/src/member.rs",
    "crates/structures/src/sorted_set/indexed.rs",
    "crates/structures/src/sorted_set/member.rs",
    "crates/structures/src/thin_bytes.rs",
];

/// Files that may be longer than [`FILE_LINES_MAX`]: path, reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer than [`FUNCTION_LINES_MAX`]: path, name, reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] =
    &[("crates/resp/src/book.rs", "examples", "a table of captured bytes, in the form of the protocol's description")];

/// Which crates of ours a crate may depend on. Imports go downwards only.
const LAYERS: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("resp", &[]),
    ("structures", &[]),
    ("engine", &["resp", "structures"]),
    ("persistence", &["resp", "structures", "engine"]),
    ("commands", &["resp", "structures", "engine", "persistence"]),
    ("server", &["allocator", "resp", "structures", "engine", "persistence", "commands"]),
    ("cli", &["resp"]),
    ("benchmark", &["resp"]),
    ("bench", &["allocator", "resp", "structures", "engine", "persistence", "commands"]),
];

const FILE_LINES_MAX: usize = 900;
const FUNCTION_LINES_MAX: usize = 100;

#[test]
fn every_file_opens_with_a_doc_comment() {
    expect_none(each_source(missing_doc_comment));
}

#[test]
fn files_stay_readable() {
    let sources = sources();
    let mut complaints: Vec<String> = sources.iter().filter_map(|s| too_long(s, LONG_FILES)).collect();
    complaints.extend(
        LONG_FILES
            .iter()
            .filter(|(path, _)| !exceeds(&sources, path))
            .map(|(path, _)| format!("{path} is short now, or gone: remove its line from LONG_FILES in tests/tidy.rs")),
    );
    expect_none(complaints);
}

#[test]
fn functions_stay_readable() {
    let sources = sources();
    let long: Vec<(String, Function)> = sources
        .iter()
        .flat_map(|s| functions(&s.code).into_iter().map(|f| (s.path.clone(), f)))
        .filter(|(_, f)| f.lines > FUNCTION_LINES_MAX)
        .collect();
    let excused = |path: &str, name: &str| LONG_FUNCTIONS.iter().any(|(p, n, _)| *p == path && *n == name);
    let mut complaints: Vec<String> = long
        .iter()
        .filter(|(path, f)| !excused(path, &f.name))
        .map(|(path, f)| {
            let Function { name, line, lines } = f;
            format!("{path}:{line}: `{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most: take its steps out into functions")
        })
        .collect();
    complaints.extend(
        LONG_FUNCTIONS.iter().filter(|(path, name, _)| !long.iter().any(|(p, f)| p == path && f.name == *name)).map(
            |(path, name, _)| {
                format!("{path}: `{name}` is short now, or gone: remove its line from LONG_FUNCTIONS in tests/tidy.rs")
            },
        ),
    );
    expect_none(complaints);
}

#[test]
fn nothing_is_left_half_done() {
    expect_none(each_source(leftovers));
}

#[test]
fn comments_need_no_ticket_tracker() {
    expect_none(each_source(ticket_numbers));
}

#[test]
fn unsafe_lives_in_few_named_files() {
    let (architecture, sources) = (read_architecture(), sources());
    let mut complaints: Vec<String> = sources.iter().flat_map(|s| unsafe_elsewhere(s, UNSAFE_FILES)).collect();
    for path in UNSAFE_FILES {
        if !architecture.contains(path) {
            complaints.push(format!("{path} may use unsafe: ARCHITECTURE.md must name it and say what for"));
        }
        if !sources.iter().any(|s| s.path == *path && !lines_with_unsafe(s).is_empty()) {
            complaints.push(format!("{path} has no unsafe, or is gone: remove it from UNSAFE_FILES in tests/tidy.rs"));
        }
    }
    expect_none(complaints);
}

#[test]
fn every_unsafe_has_its_proof() {
    expect_none(each_source(unsafe_without_proof));
}

#[test]
fn imports_go_downwards() {
    let mut complaints = Vec::new();
    for manifest in manifests() {
        let Some(name) = manifest.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        complaints.extend(upward_dependencies(name, &manifest.text, LAYERS));
    }
    for (name, _) in LAYERS {
        if !root().join("crates").join(name).is_dir() {
            complaints.push(format!("there is no crates/{name}: remove it from LAYERS in tests/tidy.rs"));
        }
    }
    expect_none(complaints);
}

#[test]
fn architecture_names_every_crate() {
    let architecture = read_architecture();
    expect_none(
        LAYERS
            .iter()
            .filter(|(name, _)| !has_word(&architecture, name))
            .map(|(name, _)| format!("crates/{name}: ARCHITECTURE.md must say what this crate is for"))
            .collect(),
    );
}

#[test]
fn architecture_says_why_each_dependency_is_there() {
    let architecture = read_architecture();
    let mut complaints: Vec<String> = manifests()
        .iter()
        .flat_map(|m| dependencies(&m.text).into_iter().map(|d| (m.path.clone(), d)))
        .filter(|(_, d)| d.ours().is_none() && !has_word(&architecture, &d.name))
        .map(|(path, d)| format!("{path}: `{}`: ARCHITECTURE.md must say why this dependency is there", d.name))
        .collect();
    complaints.sort();
    expect_none(complaints);
}

#[test]
fn every_directive_is_read_or_unsupported() {
    expect_none(directives::complaints(&sources()));
}

// ---- rules on one source -------------------------------------------------------------------------------------------

fn missing_doc_comment(source: &Source) -> Vec<String> {
    let opens = source.text.starts_with("//! ");
    let complaint = format!("{}:1: begin the file with a `//!` comment that says what it is for", source.path);
    if opens { Vec::new() } else { vec![complaint] }
}

fn too_long(source: &Source, excused: &[(&str, &str)]) -> Option<String> {
    let lines = source.text.lines().count();
    let fine = lines <= FILE_LINES_MAX || excused.iter().any(|(path, _)| *path == source.path);
    (!fine).then(|| format!("{}: {lines} lines, {FILE_LINES_MAX} at most: a file is one idea, split it", source.path))
}

fn exceeds(sources: &[Source], path: &str) -> bool {
    sources.iter().any(|s| s.path == path && s.text.lines().count() > FILE_LINES_MAX)
}

fn leftovers(source: &Source) -> Vec<String> {
    let macros = ["todo!", "unimplemented!", "dbg!"];
    numbered(&source.code)
        .flat_map(|(number, line)| {
            macros.iter().filter(move |m| line.match_indices(**m).any(|(at, _)| !ends_in_word(&line[..at]))).map(
                move |m| format!("{}:{number}: `{m}` is for work in progress: finish it or take it out", source.path),
            )
        })
        .collect()
}

fn ticket_numbers(source: &Source) -> Vec<String> {
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

fn unsafe_elsewhere(source: &Source, allowed: &[&str]) -> Vec<String> {
    if allowed.contains(&source.path.as_str()) {
        return Vec::new();
    }
    lines_with_unsafe(source)
        .into_iter()
        .map(|number| {
            format!(
                "{}:{number}: unsafe: do without it, or name the file in UNSAFE_FILES of tests/tidy.rs and in ARCHITECTURE.md",
                source.path
            )
        })
        .collect()
}

fn unsafe_without_proof(source: &Source) -> Vec<String> {
    let code: Vec<&str> = source.code.lines().collect();
    let comments: Vec<&str> = source.comments.lines().collect();
    let proven =
        |at: usize, proof: &str| comments[at].contains(proof) || comment_above(&code, &comments, at).contains(proof);
    let mut complaints = Vec::new();
    for number in lines_with_unsafe(source) {
        let at = number - 1;
        let after = code[at].split("unsafe").nth(1).unwrap_or("").trim_start();
        let (proof, what) = if after.starts_with("fn") || after.starts_with("trait") {
            if implements_a_trait(&code, at) {
                continue;
            }
            ("# Safety", "a doc section `# Safety` with what the caller must uphold")
        } else {
            ("SAFETY:", "a `// SAFETY:` proof")
        };
        if !proven(at, proof) {
            complaints.push(format!("{}:{number}: put {what} directly above this unsafe", source.path));
        }
    }
    complaints
}

/// Whether the function at this line is a trait's, in an implementation of it: the trait says what callers must uphold.
fn implements_a_trait(code: &[&str], at: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let opens = |line: &&&str| {
        !line.trim().is_empty()
            && indent(line) < indent(code[at])
            && !line.trim_start().starts_with(['{', ')'])
            && !line.trim_start().starts_with("where")
    };
    let header = code[..at].iter().rev().find(opens);
    header.is_some_and(|line| has_word(line, "impl") && has_word(line, "for"))
}

/// The comment above the statement or item that line `at` belongs to, through its attributes.
fn comment_above(code: &[&str], comments: &[&str], at: usize) -> String {
    let mut first = at;
    while first > 0 && continues(code[first - 1].trim()) {
        first -= 1;
    }
    let is_attribute = |line: &str| line.starts_with("#[") || line.starts_with("#![");
    let mut block = String::new();
    for above in (0..first).rev() {
        let code = code[above].trim();
        let comment = comments[above].trim();
        if !(code.is_empty() && !comment.is_empty() || is_attribute(code)) {
            break;
        }
        block.insert_str(0, comment);
        block.insert(0, '\n');
    }
    block
}

/// Whether a statement goes on in the line after this one.
fn continues(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("#[") && !line.ends_with([';', '{', '}', ','])
}

/// Numbers of the lines whose code has the keyword, lint names such as `unsafe_code` not counted.
fn lines_with_unsafe(source: &Source) -> Vec<usize> {
    numbered(&source.code).filter(|(_, line)| has_word(line, "unsafe")).map(|(number, _)| number).collect()
}

// ---- functions -----------------------------------------------------------------------------------------------------

#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    /// Of its signature, from 1.
    line: usize,
    /// From the signature to the closing brace.
    lines: usize,
}

/// Every function with a body in `code`, nested ones too.
fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if ends_in_word(&code[..at]) {
            continue;
        }
        let name: String = code[at + 3..].trim_start().chars().take_while(|c| is_word(*c)).collect();
        let Some(end) = end_of_body(&code[at..]) else {
            continue;
        };
        if !name.is_empty() {
            let line = code[..at].matches('\n').count() + 1;
            found.push(Function { name, line, lines: code[at..at + end].matches('\n').count() + 1 });
        }
    }
    found
}

/// Where the body of the function that `code` begins with ends; None for one without a body.
fn end_of_body(code: &str) -> Option<usize> {
    let mut brackets = 0usize;
    let mut braces = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.checked_sub(1)?,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

// ---- manifests -----------------------------------------------------------------------------------------------------

/// One entry of a dependency table.
#[derive(Debug, PartialEq)]
struct Dependency {
    /// The package's name, where the entry renames it.
    name: String,
    /// The folder, for a package of this repository.
    path: Option<String>,
    /// Whether only tests, examples and benches use it.
    dev: bool,
}

impl Dependency {
    /// Which crate of ours it is, by folder name.
    fn ours(&self) -> Option<&str> {
        let folder = self.path.as_deref().and_then(|p| p.rsplit('/').next());
        folder.or_else(|| self.name.strip_prefix("cinnabar-"))
    }
}

fn upward_dependencies(name: &str, manifest: &str, layers: &[(&str, &[&str])]) -> Vec<String> {
    let Some((_, below)) = layers.iter().find(|(n, _)| *n == name) else {
        return vec![format!("crates/{name}: say in LAYERS of tests/tidy.rs which crates it may depend on")];
    };
    dependencies(manifest)
        .iter()
        .filter(|d| !d.dev)
        .filter_map(Dependency::ours)
        .filter(|on| !below.contains(on))
        .map(|on| format!("crates/{name} must not depend on {on}: imports go downwards only (LAYERS in tests/tidy.rs)"))
        .collect()
}

/// The entries of all dependency tables of a manifest, in either spelling:
/// a line below `[dependencies]`, or a table `[dependencies.name]`.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    // Inside a table of dependencies; inside the table of one dependency; neither.
    let (mut many, mut one, mut dev) = (false, false, false);
    for line in manifest.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            (many, one) = (table.ends_with("dependencies"), table.contains("dependencies."));
            dev = table.contains("dev-dependencies");
            if one {
                let name = table.rsplit('.').next().unwrap_or(table).to_owned();
                found.push(Dependency { name, path: None, dev });
            }
        } else if many {
            found.push(dependency_of_line(line, dev));
        } else if let (true, Some(last)) = (one, found.last_mut()) {
            last.path = quoted_after(line, "path").or(last.path.take());
            last.name = quoted_after(line, "package").unwrap_or(std::mem::take(&mut last.name));
        }
    }
    found
}

fn dependency_of_line(line: &str, dev: bool) -> Dependency {
    let key = line.split(['=', '.']).next().unwrap_or(line).trim().trim_matches('"').to_owned();
    Dependency { name: quoted_after(line, "package").unwrap_or(key), path: quoted_after(line, "path"), dev }
}

/// The string that `key = "..."` gives in this line.
fn quoted_after(line: &str, key: &str) -> Option<String> {
    let (_, rest) = line.match_indices(key).map(|(at, _)| line.split_at(at + key.len())).find(|(_, rest)| {
        rest.trim_start().strip_prefix('=').is_some_and(|value| value.trim_start().starts_with('"'))
    })?;
    rest.split('"').nth(1).map(str::to_owned)
}

// ---- what every rule uses -----------------------------------------------------------------------------------------

fn read_architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md at the root of the repository")
}

fn each_source(rule: impl Fn(&Source) -> Vec<String>) -> Vec<String> {
    sources().iter().flat_map(rule).collect()
}

fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// The rules on small sources that break them, and on some that only look so.
mod rules {
    use super::*;

    fn complaints(rule: impl Fn(&Source) -> Vec<String>, text: &str) -> usize {
        rule(&Source::new("crates/x/src/a.rs", text)).len()
    }

    #[test]
    fn doc_comment() {
        assert_eq!(complaints(missing_doc_comment, "//! For x.\n"), 0);
        assert_eq!(complaints(missing_doc_comment, "// For x.\n"), 1);
        assert_eq!(complaints(missing_doc_comment, ""), 1);
    }

    #[test]
    fn long_file() {
        let long = Source::new("a.rs", &"\n".repeat(FILE_LINES_MAX + 1));
        assert!(too_long(&long, &[]).is_some());
        assert!(too_long(&long, &[("a.rs", "a table")]).is_none());
        assert!(too_long(&Source::new("a.rs", &"\n".repeat(FILE_LINES_MAX)), &[]).is_none());
    }

    #[test]
    fn work_in_progress() {
        assert_eq!(complaints(leftovers, "fn a() { todo!() }\nfn b() { dbg!(1); unimplemented!() }"), 3);
        assert_eq!(complaints(leftovers, "// todo!()\nlet a = \"dbg!\"; not_todo!();"), 0);
    }

    #[test]
    fn tickets() {
        assert_eq!(complaints(ticket_numbers, "// see #123\n/// (#7)\n"), 2);
        assert_eq!(complaints(ticket_numbers, "// a b#1 #[inline] #a1 #1st\nlet a = \"#12\";"), 0);
    }

    #[test]
    fn unsafe_files() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nunsafe { f() }\n";
        assert_eq!(complaints(|s| unsafe_elsewhere(s, &[]), text), 1);
        assert_eq!(complaints(|s| unsafe_elsewhere(s, &["crates/x/src/a.rs"]), text), 0);
    }

    #[test]
    fn proofs() {
        let bad = [
            "unsafe { f() }",
            "// SAFETY: old.\n\nunsafe { f() }",
            "// SAFETY: of the first.\nlet a = 1;\nlet b = unsafe { f() };",
            "/// Does.\nunsafe fn f() {}",
            "unsafe impl Send for A {}",
        ];
        let good = [
            "// SAFETY: x.\nunsafe { f() }",
            "// SAFETY: x,\n// and y.\n#[inline]\nunsafe impl Send for A {}",
            "// SAFETY: x.\nlet a =\n    unsafe { f() };",
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
        let code = "fn a(x: [u8; 2]) {\n    let f = |y| { y };\n}\ntrait T {\n    fn b();\n    fn c() -> u8 {\n        1\n    }\n}";
        let lengths: Vec<(String, usize)> = functions(code).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(lengths, [("a".to_owned(), 3), ("c".to_owned(), 3)]);
    }

    #[test]
    fn layers() {
        let layers: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"])];
        let on = |name: &str| format!("[dependencies]\nmio = \"1\"\n{name} = {{ path = \"../{name}\" }}\n");
        assert!(upward_dependencies("high", &on("low"), layers).is_empty());
        assert_eq!(upward_dependencies("low", &on("high"), layers).len(), 1);
        assert_eq!(upward_dependencies("low", "[dependencies]\ncinnabar-high.workspace = true", layers).len(), 1);
        assert!(upward_dependencies("low", &on("high").replace("[dep", "[dev-dep"), layers).is_empty());
        assert_eq!(upward_dependencies("new", "", layers).len(), 1);
    }

    #[test]
    fn dependency_tables() {
        let manifest = "[package]\nname = \"x\"\n[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n\
                        [dev-dependencies.short]\npackage = \"longer\"\n[dependencies]\n# no\nours = { path = \"../e\" }\n";
        let names: Vec<(String, bool)> = dependencies(manifest).into_iter().map(|d| (d.name, d.dev)).collect();
        assert_eq!(names, [("libc".to_owned(), false), ("longer".to_owned(), true), ("ours".to_owned(), false)]);
        assert_eq!(dependencies(manifest)[2].ours(), Some("e"));
        assert_eq!(dependencies(manifest)[0].ours(), None);
    }
}
