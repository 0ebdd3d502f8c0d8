//! Content of the manifests: dependencies between crates of ours, and on crates of others.

use crate::exceptions::LAYERS;
use crate::source::root;
use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeSet;

/// One package of the project.
pub struct Package {
    /// The folder, such as `crates/engine`.
    pub folder: String,
    pub dependencies: Vec<Dependency>,
}

pub struct Dependency {
    pub name: String,
    /// Whether only tests, examples and benches use it.
    pub is_dev: bool,
    /// The folder, for a package of this repository.
    pub folder: Option<String>,
}

/// Returns the packages of the workspace, and of the fuzz targets.
pub fn packages() -> Vec<Package> {
    ["Cargo.toml", "fuzz/Cargo.toml"].iter().flat_map(|manifest| read(manifest)).collect()
}

fn read(manifest: &str) -> Vec<Package> {
    let mut command = MetadataCommand::new();
    let metadata = command.manifest_path(root().join(manifest)).no_deps().exec().expect("cargo metadata");
    let folder =
        |path: &str| path.strip_prefix(&*root().to_string_lossy()).map(|p| p.trim_start_matches('/').to_owned());
    let packages = metadata.packages.iter().map(|package| Package {
        folder: package.manifest_path.parent().and_then(|p| folder(p.as_str())).unwrap_or_default(),
        dependencies: package
            .dependencies
            .iter()
            .map(|d| Dependency {
                name: d.name.clone(),
                is_dev: d.kind == DependencyKind::Development,
                folder: d.path.as_ref().and_then(|p| folder(p.as_str())),
            })
            .collect(),
    });
    packages.collect()
}

/// Dependencies on crates that lie above, crates that LAYERS does not list, and lines of LAYERS for none.
pub fn upward(packages: &[Package], layers: &[(&str, &[&str])]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        let Some(name) = package.folder.strip_prefix("crates/") else {
            continue;
        };
        let Some((_, below)) = layers.iter().find(|(n, _)| *n == name) else {
            complaints.push(format!(
                "crates/{name}: say in LAYERS of tests/tidy/exceptions.rs which crates it may depend on"
            ));
            continue;
        };
        let ours = package.dependencies.iter().filter(|d| !d.is_dev).filter_map(|d| d.folder.as_deref());
        let above = ours.filter_map(|f| f.strip_prefix("crates/")).filter(|on| !below.contains(on));
        complaints.extend(above.map(|on| {
            format!(
                "crates/{name} must not depend on {on}: imports go downwards only (LAYERS in tests/tidy/exceptions.rs)"
            )
        }));
    }
    let gone = layers.iter().filter(|(name, _)| !packages.iter().any(|p| p.folder == format!("crates/{name}")));
    complaints.extend(
        gone.map(|(name, _)| format!("there is no crates/{name}: remove it from LAYERS in tests/tidy/exceptions.rs")),
    );
    complaints
}

/// Differences between ARCHITECTURE.md's table of dependencies and the manifests.
pub fn dependency_table(packages: &[Package], architecture: &str) -> Vec<String> {
    let listed = table(architecture);
    let outside = |d: &&Dependency| d.folder.is_none();
    let used: BTreeSet<&str> =
        packages.iter().flat_map(|p| p.dependencies.iter().filter(outside).map(|d| d.name.as_str())).collect();
    if listed.is_empty() {
        return vec!["ARCHITECTURE.md has no table `| crate | why |` below a heading with `Dependencies`".to_owned()];
    }
    let unlisted = used.iter().filter(|name| !listed.contains(**name)).map(|name| {
        let users = packages.iter().filter(|p| p.dependencies.iter().any(|d| d.name == **name));
        let users: Vec<&str> = users.map(|p| p.folder.as_str()).collect();
        format!("`{name}` ({}): ARCHITECTURE.md must say why this dependency is there", users.join(", "))
    });
    let unused = listed.iter().filter(|name| !used.contains(name.as_str()));
    let unused = unused.map(|name| format!("ARCHITECTURE.md lists `{name}`, and no manifest has it"));
    unlisted.chain(unused).collect()
}

/// The first column of the tables below a heading that speaks of dependencies.
fn table(architecture: &str) -> BTreeSet<String> {
    let below = architecture
        .lines()
        .skip_while(|line| !(line.starts_with('#') && line.contains("ependencies")))
        .skip(1)
        .take_while(|line| !line.starts_with('#'));
    let cells = below.filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let rows = cells.filter(|cell| !cell.trim().starts_with('-')).skip(1);
    rows.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`').to_owned())).collect()
}

pub fn architecture_names_every_crate(architecture: &str) -> Vec<String> {
    let missing = LAYERS.iter().filter(|(name, _)| !crate::source::has_word(architecture, name));
    let missing = missing.map(|(name, _)| format!("crates/{name}: ARCHITECTURE.md must say what this crate is for"));
    let is_listed = |name: &str| architecture.contains(&format!("`crates/{name}/src/`"));
    // The benches have no contents that others use.
    let unlisted = LAYERS.iter().filter(|(name, _)| *name != "bench" && !is_listed(name));
    let unlisted =
        unlisted.map(|(name, _)| format!("crates/{name}: ARCHITECTURE.md must have a table of its contents"));
    missing.chain(unlisted).collect()
}

#[cfg(test)]
fn package(folder: &str, on: &[(&str, Option<&str>, bool)]) -> Package {
    let dependency = |(name, folder, is_dev): &(&str, Option<&str>, bool)| Dependency {
        name: (*name).to_owned(),
        is_dev: *is_dev,
        folder: folder.map(str::to_owned),
    };
    Package { folder: folder.to_owned(), dependencies: on.iter().map(dependency).collect() }
}

#[test]
fn layers() {
    let layers: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"])];
    let on = |name: &'static str, is_dev| [("x", Some(name), is_dev), ("mio", None, false)];
    let count =
        |low: &[_], high: &[_]| upward(&[package("crates/low", low), package("crates/high", high)], layers).len();
    assert_eq!(count(&[], &on("crates/low", false)), 0);
    assert_eq!(count(&on("crates/high", false), &[]), 1);
    assert_eq!(count(&on("crates/high", true), &[]), 0);
    assert_eq!(upward(&[package("crates/new", &[])], layers).len(), 3);
}

#[test]
fn the_table_is_what_the_manifests_have() {
    let packages = [package("crates/a", &[("mio", None, false), ("b", Some("crates/b"), false), ("slab", None, true)])];
    let table = |rows: &str| {
        format!("| no | table |\n## Dependencies\n\n| crate | for |\n|---|---|\n{rows}\n# Next\n| x | y |\n")
    };
    assert_eq!(dependency_table(&packages, &table("| mio, `slab` | a |")).len(), 0);
    assert_eq!(dependency_table(&packages, &table("| mio | a |")).len(), 1);
    assert_eq!(dependency_table(&packages, &table("| mio, slab | a |\n| nix | b |")).len(), 1);
    assert_eq!(dependency_table(&packages, "").len(), 1);
}

#[test]
fn every_package_is_read() {
    let folders: Vec<String> = packages().into_iter().map(|p| p.folder).collect();
    for folder in ["crates/engine", "tests/tidy", "fuzz"] {
        assert!(folders.iter().any(|f| f == folder), "{folder} in {folders:?}");
    }
}
