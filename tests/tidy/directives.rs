//! Nothing that is accepted is ignored: every directive of the configuration is read somewhere, or its entry says that
//! it is unsupported; and what is unsupported is read nowhere.

use crate::source::{Source, is_word, starts_with_word};

const CONFIG: &str = "crates/engine/src/config/";

/// Directives that the configuration reads itself: name, for what.
const READ_INSIDE: &[(&str, &str)] = &[
    ("DIR", "loading and CONFIG SET change the directory when they read it"),
    ("ENABLE_PROTECTED_CONFIGS", "CONFIG SET looks at it before it admits others"),
    ("IO_THREADS", "it is another name of `threads`, unless that is given"),
];

/// Unsupported directives whose value is shown elsewhere all the same: name, where.
const SHOWN: &[(&str, &str)] = &[("REPL_BACKLOG_SIZE", "INFO, as every primary without replicas does")];

/// Returns the faults of the directives in these sources.
pub fn complaints(sources: &[Source]) -> Vec<String> {
    let code = |source: &Source| source.code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let readers: Vec<(&str, String)> =
        sources.iter().filter(|source| is_reader(source)).map(|source| (&source.path[..], code(source))).collect();
    let store = sources.iter().find(|source| source.path == format!("{CONFIG}store.rs"));
    let (store, entries) = (store.map(code).unwrap_or_default(), entries(sources));
    let mut found = Vec::new();
    if entries.is_empty() {
        found.push(format!(
            "{CONFIG}directives: no entries found: they have another form than tests/tidy/directives.rs knows"
        ));
    }
    for (directive, is_unsupported) in entries {
        let excused = |table: &[(&str, &str)]| table.iter().any(|(name, _)| *name == directive);
        let calls: Vec<String> = accessors(&store, &directive).iter().map(|name| format!(".{name}(")).collect();
        let reads = |code: &str| names(code, &directive) || calls.iter().any(|call| code.contains(call));
        let reader = readers.iter().find(|(_, code)| reads(code));
        match reader {
            None if !is_unsupported && !excused(READ_INSIDE) => found.push(format!(
                "{CONFIG}directives: nothing reads `{directive}`: read it, or say in its entry why it is `unsupported`"
            )),
            Some((path, _)) if is_unsupported && !excused(SHOWN) => found
                .push(format!("{path}: `{directive}` is read and its entry says `unsupported`: one of them is wrong")),
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

/// Each directive with whether its entry says that it is unsupported. An entry is a line.
fn entries(sources: &[Source]) -> Vec<(String, bool)> {
    let areas = sources.iter().filter(|source| source.path.starts_with(&format!("{CONFIG}directives/")));
    let lines = areas.flat_map(|source| {
        source.code.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("    ")?.split_once(" = ")?;
            let is_entry = line.trim_end().ends_with(");") && name.chars().all(is_word);
            is_entry.then(|| (name.to_owned(), line.contains(".unsupported(")))
        })
    });
    lines.collect()
}

/// `Directive::NAME`.
fn names(code: &str, directive: &str) -> bool {
    let path = format!("Directive::{directive}");
    code.match_indices(&path).any(|(at, _)| !starts_with_word(&code[at + path.len()..]))
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
    let entries = "m! {\n    A = flag(\"a\", true);\n    B = flag(\"b\", true).unsupported(NO);\n    C = special(\"c\", Kind::C, \"\");\n}\n";
    let store = "impl Config {\n    pub fn see(&self) -> u8 {\n        self.value(Directive::C)\n    }\n}\n";
    let found = |reader: &str| {
        complaints(&[
            Source::new("crates/engine/src/config/directives/x.rs", entries),
            Source::new("crates/engine/src/config/store.rs", store),
            Source::new("crates/x/src/a.rs", reader),
            Source::new("tests/black_box/b.rs", "fn f() { g(Directive::A); config.see() }"),
        ])
        .len()
    };
    assert_eq!(found("fn f() { g(Directive::A); config.see() }"), 0);
    assert_eq!(found("fn f() { g(Directive::A, Directive::B); config.see() }"), 1);
    assert_eq!(found("fn f() { g(Directive::A_B) }\n#[cfg(test)]\nconst A: D = Directive::A;"), 2);
    assert_eq!(found("// Directive::A\n"), 2);
}
