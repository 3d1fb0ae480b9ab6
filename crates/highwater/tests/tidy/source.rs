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

impl Source {
    /// Whether it is a program's, and not one of its tests.
    pub(crate) fn is_in_src(&self) -> bool {
        self.path.contains("/src/")
    }

    /// Whether it is one of these checks, which name what they look for.
    pub(crate) fn is_tidy(&self) -> bool {
        self.path.contains("tests/tidy/")
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every path in the repository.
static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    found.sort();
    found
});

/// Every Rust file, by path: programs and their tests. Read once for all checks.
pub(crate) static RUST: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let sources = with_ending(".rs");
    assert!(sources.len() > 400, "this is not the whole repository: {} files", sources.len());
    sources
});

/// Every file whose name ends so.
pub(crate) fn with_ending(ending: &str) -> Vec<Source> {
    let paths = PATHS.iter().filter(|path| path.ends_with(ending));
    paths.map(|path| Source { text: read(path), path: path.clone() }).collect()
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
