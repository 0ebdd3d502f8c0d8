//! Nothing that is accepted is ignored: every directive of the configuration is read somewhere, or its row says that it
//! is unsupported; and what is unsupported is read nowhere.

use crate::source::{Source, ends_in_word, has_word, is_word, starts_with_word};

const CONFIG: &str = "crates/engine/src/config/";

/// Directives that the configuration reads itself: name, for what.
const READ_INSIDE: &[(&str, &str)] = &[
    ("Dir", "loading and CONFIG SET change the directory when they read it"),
    ("EnableProtectedConfigs", "CONFIG SET looks at it before it admits others"),
    ("IoThreads", "it is another name of `threads`, unless that is given"),
];

/// Unsupported directives whose value is shown elsewhere all the same: name, where.
const SHOWN: &[(&str, &str)] = &[("ReplBacklogSize", "INFO, as every primary without replicas does")];

/// What is wrong with the directives of these sources.
pub fn complaints(sources: &[Source]) -> Vec<String> {
    let code = |source: &Source| source.code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let readers: Vec<(&str, String)> =
        sources.iter().filter(|source| is_reader(source)).map(|source| (&source.path[..], code(source))).collect();
    let store = sources.iter().find(|source| source.path == format!("{CONFIG}store.rs"));
    let (store, rows) = (store.map(code).unwrap_or_default(), rows(sources));
    let mut found = Vec::new();
    if rows.is_empty() {
        found.push(format!("{CONFIG}rows: no rows found: they have another form than tests/tidy/directives.rs knows"));
    }
    for (directive, is_unsupported) in rows {
        let excused = |table: &[(&str, &str)]| table.iter().any(|(name, _)| *name == directive);
        let calls: Vec<String> = accessors(&store, &directive).iter().map(|name| format!(".{name}(")).collect();
        let reads = |code: &str| names(code, &directive) || calls.iter().any(|call| code.contains(call));
        let reader = readers.iter().find(|(_, code)| reads(code));
        match reader {
            None if !is_unsupported && !excused(READ_INSIDE) => found.push(format!(
                "{CONFIG}rows: nothing reads `{directive}`: read it, or say in its row why it is `unsupported`"
            )),
            Some((path, _)) if is_unsupported && !excused(SHOWN) => found
                .push(format!("{path}: `{directive}` is read and its row says `unsupported`: one of them is wrong")),
            Some(_) if excused(READ_INSIDE) => {
                found.push(format!("`{directive}` is read outside of the configuration: remove it from READ_INSIDE"));
            }
            None if excused(SHOWN) => found.push(format!("`{directive}` is read nowhere: remove it from SHOWN")),
            _ => {}
        }
    }
    found
}

/// Code of the server, not of its tests.
fn is_reader(source: &Source) -> bool {
    let is_code = source.path.starts_with("crates/") && source.path.contains("/src/");
    is_code && !source.path.starts_with(CONFIG)
}

/// Each directive with whether its row says that it is unsupported. A row is a line.
fn rows(sources: &[Source]) -> Vec<(String, bool)> {
    let lines = sources.iter().filter(|source| source.path.starts_with(&format!("{CONFIG}rows/"))).flat_map(|source| {
        source.code.lines().filter_map(|line| {
            let (_, rest) = line.strip_prefix("    ")?.split_once('(')?;
            let name = rest.split(',').next()?;
            let is_row = line.trim_end().ends_with("),") && name.chars().all(is_word);
            is_row.then(|| (name.to_owned(), line.contains(".unsupported(")))
        })
    });
    lines.collect()
}

/// `Directive::Name`, or `Name` below `use Directive::{..}` or `use Directive::*`.
fn names(code: &str, directive: &str) -> bool {
    let path = format!("Directive::{directive}");
    let is_named = code.match_indices(&path).any(|(at, _)| !starts_with_word(&code[at + path.len()..]));
    // The import itself is one.
    let uses = code
        .match_indices(directive)
        .filter(|(at, _)| !ends_in_word(&code[..*at]) && !starts_with_word(&code[at + directive.len()..]));
    is_named || code.contains("use Directive::*") && has_word(code, directive) || imports(code) && uses.count() > 1
}

fn imports(code: &str) -> bool {
    code.contains("use Directive::{")
}

/// Methods of `Config` that read a directive of a kind of its own.
fn accessors(store: &str, directive: &str) -> Vec<String> {
    let methods = store.split("\n    pub fn ").skip(1);
    let reading = methods.filter(|method| {
        let body = method.split("\n    }\n").next().unwrap_or_default();
        body.contains(&format!("(Directive::{directive})"))
    });
    reading.filter_map(|method| method.split('(').next()).map(str::to_owned).collect()
}

#[test]
fn directives_without_a_reader_and_readers_without_a_directive_are_found() {
    let rows =
        "    flag(A, \"a\", true),\n    flag(B, \"b\", true).unsupported(NO),\n    special(C, \"c\", Kind::C, \"\"),\n";
    let store = "impl Config {\n    pub fn see(&self) -> u8 {\n        self.value(Directive::C)\n    }\n}\n";
    let found = |reader: &str| {
        complaints(&[
            Source::new("crates/engine/src/config/rows/x.rs", rows),
            Source::new("crates/engine/src/config/store.rs", store),
            Source::new("crates/x/src/a.rs", reader),
            Source::new("tests/black_box/b.rs", "Directive::A; config.see()"),
        ])
        .len()
    };
    assert_eq!(found("fn f() { g(Directive::A); config.see() }"), 0);
    assert_eq!(found("use Directive::{A};\nfn f() { g(A); config.see() }"), 0);
    assert_eq!(found("fn f() { g(Directive::A, Directive::B); config.see() }"), 1);
    assert_eq!(found("fn f() { g(Directive::Ab) }\n#[cfg(test)]\nDirective::A"), 2);
    assert_eq!(found("// Directive::A\nuse Directive::{A};\n"), 2);
}
