//! What a run found, kept in `bench/results`: to be compared with later runs.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::results::Results;
use crate::Error;

/// Writes `<date>.json` into a folder, which is made if need be, and says where.
pub(crate) fn write(results: &Results, folder: &Path) -> Result<PathBuf, Error> {
    let mut json = serde_json::to_string_pretty(results)?;
    json.push('\n');
    put(folder, &name(results, "json"), &json)
}

/// Writes the page beside it, `<date>.html`, and says where.
pub(crate) fn write_page(results: &Results, page: &str, folder: &Path) -> Result<PathBuf, Error> {
    put(folder, &name(results, "html"), page)
}

/// Reads what [`write`] wrote.
pub(crate) fn read(path: &Path) -> Result<Results, Error> {
    let shown = path.display();
    let json = fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => format!("{shown} is no result of `bench/run compare`: it is not text"),
        _ => format!("{shown} cannot be read: {error}"),
    })?;
    serde_json::from_str(&json).map_err(|error| {
        format!("{shown} is no result of `bench/run compare` that this version can read: {error}").into()
    })
}

fn put(folder: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(path)
}

/// The date, without what some file systems have another use for. Never a way out of the folder.
fn name(results: &Results, extension: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    format!("{}.{extension}", results.date.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("highwater-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = folder("file");
        let results = sample::results();
        let path = write(&results, &folder.join("new")).unwrap();
        assert_eq!(path.file_name().unwrap(), "2026-11-15T17-00-00Z.json");
        assert_eq!(read(&path).unwrap(), results);
        let page = write_page(&results, "<p>", &folder).unwrap();
        assert_eq!(page.file_name().unwrap(), "2026-11-15T17-00-00Z.html");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn another_file_is_told_apart() {
        let folder = folder("other");
        let other = folder.join("other.json");
        for content in [&b"{\"scenario\":\"append\"}"[..], b"not json", b"", b"\xff\xfe"] {
            fs::write(&other, content).unwrap();
            let error = read(&other).unwrap_err().to_string();
            assert!(error.contains("other.json is no result of `bench/run compare`"), "{error}");
        }
        let error = read(&folder.join("none.json")).unwrap_err().to_string();
        assert!(error.contains("none.json cannot be read: "), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
