//! The commit that the program is built of, for `--version` and INFO. CINNABAR_COMMIT names it where there is no
//! repository.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=CINNABAR_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let given = std::env::var("CINNABAR_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| git(&["rev-parse", "HEAD"])).unwrap_or_default();
    let is_hash = commit.len() >= 8 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let shown = if is_hash { &commit[..8] } else { "00000000" };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).map_or(0, |text| text.lines().count());
    println!("cargo::rustc-env=CINNABAR_COMMIT={shown}");
    println!("cargo::rustc-env=CINNABAR_CHANGED_FILES={changed}");
}

/// Returns the output of git, where git exists and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").args(arguments).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
