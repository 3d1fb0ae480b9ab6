//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A file, and what stands in it.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file below a folder called `src`, by path. Read once for all checks.
pub(crate) static RUST: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    found.retain(|path| path.ends_with(".rs") && path.contains("src/"));
    assert!(found.len() > 100, "this is not the whole repository: {} files", found.len());
    sources(found)
});

/// What applications and operators read.
pub(crate) fn manual() -> Vec<Source> {
    let mut found = names("docs");
    found.retain(|name| name.ends_with(".md"));
    sources(found.into_iter().map(|name| format!("docs/{name}")).chain(["README.md".to_owned()]).collect())
}

fn sources(mut paths: Vec<String>) -> Vec<Source> {
    paths.sort();
    paths.into_iter().map(|path| Source { text: read(&path), path }).collect()
}

/// The names in a folder.
pub(crate) fn names(folder: &str) -> Vec<String> {
    let path = root().join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries.map(|entry| entry.expect("it was there a moment ago").file_name().to_string_lossy().into_owned()).collect()
}

/// Not what was built or fetched.
fn collect(folder: &Path, under: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(['.', '_']) || name.starts_with("target") || name == "node_modules" {
            continue;
        }
        let path = if under.is_empty() { name } else { format!("{under}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&entry.path(), &path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}
