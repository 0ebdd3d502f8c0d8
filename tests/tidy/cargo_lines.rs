//! Every `cargo run`, `cargo bench` and `cargo test` of the documents names one program, bench or test that is there.

use crate::documents;
use cargo_metadata::{MetadataCommand, Package, TargetKind};

pub fn complaints() -> Vec<String> {
    let metadata = MetadataCommand::new().manifest_path(crate::source::root().join("Cargo.toml")).no_deps().exec();
    let packages: Vec<Member> = metadata.expect("cargo metadata").packages.iter().map(Member::of).collect();
    let of_document = |(name, text): &(String, String)| complaints_of(name, text, &packages);
    documents::texts().iter().flat_map(of_document).collect()
}

/// A package of the workspace, as far as a line can name parts of it.
#[derive(Default)]
struct Member {
    name: String,
    default_run: Option<String>,
    bins: Vec<String>,
    benches: Vec<String>,
    tests: Vec<String>,
    features: Vec<String>,
}

impl Member {
    fn of(package: &Package) -> Member {
        let named = |kind: TargetKind| {
            let targets = package.targets.iter().filter(move |target| target.kind.contains(&kind));
            targets.map(|target| target.name.clone()).collect()
        };
        Member {
            name: package.name.to_string(),
            default_run: package.default_run.clone(),
            bins: named(TargetKind::Bin),
            benches: named(TargetKind::Bench),
            tests: named(TargetKind::Test),
            features: package.features.keys().cloned().collect(),
        }
    }
}

fn complaints_of(name: &str, text: &str, packages: &[Member]) -> Vec<String> {
    let lines = text.lines().enumerate();
    let commands = lines.flat_map(|(at, line)| commands(line).into_iter().map(move |command| (at + 1, command)));
    let wrong = commands.filter_map(|(at, command)| Some((at, command, Line::parse(command).resolve(packages).err()?)));
    wrong.map(|(at, command, why)| format!("{name}:{at}: `{command}`: {why}")).collect()
}

/// The commands in one line of a document, without what explains them.
fn commands(line: &str) -> Vec<&str> {
    let starts = line.match_indices("cargo ").filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric()));
    let commands = starts.map(|(at, _)| {
        let rest = line[at..].split(['`', '#', '|']).next().unwrap_or_default();
        rest.trim()
    });
    let of_ours = |command: &&str| ["run", "bench", "test"].iter().any(|verb| command.split(' ').nth(1) == Some(verb));
    commands.filter(of_ours).collect()
}

/// The targets that a command asks cargo for.
#[derive(Default)]
struct Line<'a> {
    verb: &'a str,
    package: Option<&'a str>,
    bin: Option<&'a str>,
    bench: Option<&'a str>,
    tests: Vec<&'a str>,
    features: Vec<&'a str>,
    unknown: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn parse(command: &'a str) -> Line<'a> {
        let mut words = command.split_whitespace().skip(1).take_while(|word| *word != "--");
        let mut line = Line { verb: words.next().unwrap_or_default(), ..Line::default() };
        while let Some(word) = words.next() {
            match word {
                "-p" | "--package" => line.package = Some(words.next().unwrap_or_default()),
                "--bin" => line.bin = Some(words.next().unwrap_or_default()),
                "--bench" => line.bench = Some(words.next().unwrap_or_default()),
                "--test" => line.tests.push(words.next().unwrap_or_default()),
                "--features" => line.features.extend(words.next().unwrap_or_default().split(',')),
                "--release" | "--lib" | "--quiet" => {}
                option if option.starts_with('-') => line.unknown = Some(option),
                _ => {}
            }
        }
        line
    }

    /// # Errors
    ///
    /// The reason for which cargo would not run this, or could not know which program is meant.
    fn resolve(&self, packages: &[Member]) -> Result<(), String> {
        if let Some(option) = self.unknown {
            return Err(format!("`{option}` is not an option that tests/tidy/cargo_lines.rs knows"));
        }
        let selected: Vec<&Member> =
            packages.iter().filter(|member| self.package.is_none_or(|name| member.name == name)).collect();
        if let (true, Some(name)) = (selected.is_empty(), self.package) {
            return Err(format!("there is no package `{name}`"));
        }
        let has = |kind: &str, names: fn(&Member) -> &Vec<String>, name: &str| {
            let found = selected.iter().flat_map(|member| names(member)).filter(|n| *n == name).count();
            if found == 1 { Ok(()) } else { Err(format!("{found} parts of this kind have the name: {kind} {name}")) }
        };
        self.bench.map_or(Ok(()), |name| has("--bench", |member| &member.benches, name))?;
        self.tests.iter().try_for_each(|name| has("--test", |member| &member.tests, name))?;
        self.features.iter().try_for_each(|name| has("--features", |member| &member.features, name))?;
        match self.bin {
            Some(name) => has("--bin", |member| &member.bins, name),
            None if self.verb == "run" => the_program(&selected),
            None => Ok(()),
        }
    }
}

/// # Errors
///
/// The programs among which `cargo run` without `--bin` cannot choose.
fn the_program(selected: &[&Member]) -> Result<(), String> {
    let defaults: Vec<&String> = selected.iter().filter_map(|member| member.default_run.as_ref()).collect();
    let bins: Vec<&String> = selected.iter().flat_map(|member| &member.bins).collect();
    let choice = if defaults.is_empty() { &bins } else { &defaults };
    match choice[..] {
        [only] if bins.contains(&only) => Ok(()),
        _ => {
            Err(format!("cargo cannot tell which program to run: {choice:?} (`default-run`, or name it with `--bin`)"))
        }
    }
}

#[cfg(test)]
fn member(name: &str, default_run: Option<&str>, bins: &[&str]) -> Member {
    Member {
        name: name.to_owned(),
        default_run: default_run.map(str::to_owned),
        bins: bins.iter().map(|&bin| bin.to_owned()).collect(),
        benches: vec![format!("{name}-bench")],
        features: vec!["shuttle".to_owned()],
        ..Member::default()
    }
}

#[test]
fn commands_of_a_line_are_found() {
    assert_eq!(commands("    cargo run --release        # starts `cargo run`")[0], "cargo run --release");
    assert_eq!(
        commands("| x | `cargo test -p a`, `cargo bench` and `cargo fuzz run x` |"),
        ["cargo test -p a", "cargo bench"]
    );
    assert!(commands("the cargo running; xcargo run").is_empty());
}

#[test]
fn a_line_without_one_program_is_found() {
    let resolve = |command: &str, packages: &[Member]| Line::parse(command).resolve(packages).is_ok();
    let good = [member("a", Some("a"), &["a", "b"]), member("c", None, &["c", "d"])];
    assert!(resolve("cargo run --release -- --bin x -p y", &good));
    assert!(resolve("cargo run -p c --bin d --features shuttle -- --port 7000", &good));
    assert!(resolve("cargo bench --bench c-bench", &good));
    assert!(!resolve("cargo run -p c", &good));
    assert!(!resolve("cargo run -p e", &good));
    assert!(!resolve("cargo run --bin e", &good));
    assert!(!resolve("cargo bench -p a --bench c-bench", &good));
    assert!(!resolve("cargo test -p a --features nothing", &good));
    assert!(!resolve("cargo run --releas", &good));
    let two_defaults = [member("a", Some("a"), &["a"]), member("c", Some("c"), &["c", "d"])];
    assert!(!resolve("cargo run --release", &two_defaults));
    assert!(resolve("cargo run -p c", &two_defaults));
    assert!(!resolve("cargo run", &[member("a", Some("gone"), &["a"])]));
}
