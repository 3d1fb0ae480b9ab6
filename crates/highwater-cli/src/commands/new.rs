//! `highwater new`

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use crate::arguments::Global;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  highwater new shop && cd shop && cargo test
  highwater new shop --postgres";

/// Where a file goes, and what is in it: an application on SQLite, called shop.
const FILES: [(&str, &str); 7] = [
    ("Cargo.toml", include_str!("../../template/Cargo.toml.txt")),
    (".gitignore", include_str!("../../template/gitignore.txt")),
    ("README.md", include_str!("../../template/README.md")),
    ("src/main.rs", include_str!("../../template/src/main.rs")),
    ("src/order.rs", include_str!("../../template/src/order.rs")),
    ("src/revenue.rs", include_str!("../../template/src/revenue.rs")),
    ("src/customers.rs", include_str!("../../template/src/customers.rs")),
];

/// What is called otherwise on PostgreSQL, and the database, which has to be made. Nothing else differs.
const ON_POSTGRES: [(&str, &str); 8] = [
    ("highwater-sqlite", "highwater-postgres"),
    ("highwater_sqlite", "highwater_postgres"),
    ("SqliteEventStore::open", "PgEventStore::connect"),
    ("SqliteEventStore", "PgEventStore"),
    ("SqliteEventBus", "PgEventBus"),
    ("SqliteTx", "PgTx"),
    ("sqlite:shop.db", "postgres://localhost/shop"),
    ("cargo run -- place", "createdb shop                         # for its events\ncargo run -- place"),
];

/// What the language, its own crates and the folders of what cargo builds are called: cargo refuses these names, or cannot build
/// what has them.
const TAKEN: &str = "abstract alloc as async await become box break build const continue core crate deps do dyn else enum examples \
                     extern false final fn for gen if impl in incremental let loop macro match mod move mut override priv \
                     proc-macro proc_macro pub ref return self Self static std struct super test trait true try type typeof \
                     unsafe unsized use virtual where while yield";

/// Start a new application
///
/// Writes a small one that builds and passes its tests: events, decisions, a live view, a projection into a table, and an
/// orderly end.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct New {
    /// The folder, which must not be there yet; its last part is the name of the application
    folder: PathBuf,
    /// On PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
}

impl New {
    pub(crate) fn run(&self, global: &Global) -> Result<(), Failure> {
        let shown = self.folder.display().to_string();
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !is_a_name(name) {
            return Err(Failure::refused(format!(
                "{name:?} cannot be the name of an application; use letters, digits, - and _, beginning with a letter and not with \"highwater\""
            )));
        }
        if is_taken(name) {
            return Err(Failure::refused(format!(
                "{name:?} cannot be the name of an application: Rust, cargo or a crate that it uses has that name; take another"
            )));
        }
        if self.folder.exists() {
            return Err(Failure::refused(format!("{shown} is there already; name a new folder")));
        }
        self.write(name).map_err(|error| Failure::refused(format!("cannot write {shown}: {error}")))?;
        let mut out = global.output();
        match global.json {
            true => out.value(&json!({ "folder": shown, "files": FILES.map(|(path, _)| path) }))?,
            false => {
                out.line(&format!("wrote {shown}; next:"))?;
                out.line(&format!("  cd {shown}"))?;
                out.line("  cargo test")?;
                if self.postgres {
                    out.line(&format!("  createdb {name}"))?;
                }
                out.line("  cargo run -- place 17 anna 1299")?;
            }
        }
        out.finish()
    }

    fn write(&self, name: &str) -> std::io::Result<()> {
        fs::create_dir_all(self.folder.join("src"))?;
        for (path, text) in FILES {
            let mut text = text.to_owned();
            if self.postgres {
                for (on_sqlite, on_postgres) in ON_POSTGRES {
                    text = text.replace(on_sqlite, on_postgres);
                }
            }
            if path == "Cargo.toml" {
                text = with_checkout(&text, &Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
            }
            fs::write(self.folder.join(Path::new(path)), named(&text, name))?;
        }
        if is_strange_to_its_workspace(&self.folder) {
            let mut manifest = fs::OpenOptions::new().append(true).open(self.folder.join("Cargo.toml"))?;
            manifest.write_all(b"\n[workspace] # of its own: that of a folder above does not have it as a member\n")?;
        }
        Ok(())
    }
}

/// Whether a folder above is a workspace that does not have this one as a member: then cargo builds neither. Cargo knows; without
/// cargo nothing is built anyway.
fn is_strange_to_its_workspace(folder: &Path) -> bool {
    let mut cargo = Command::new("cargo");
    cargo.args(["locate-project", "--workspace", "--quiet"]).current_dir(folder).stdout(Stdio::null());
    cargo.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|ended| !ended.success())
}

/// A program that was built from a checkout names the crates beside it, so that they fit together, published or not.
fn with_checkout(manifest: &str, crates: &Path) -> String {
    let dependency = |line: &str| {
        let (name, version) = line.split_once(" = ")?;
        let version = version.strip_prefix('"')?.strip_suffix('"')?;
        let folder = crates.join(name);
        let path = folder.join("Cargo.toml").exists().then(|| folder.canonicalize().ok())??;
        // A string of JSON is one of TOML.
        Some(format!("{name} = {{ version = \"{version}\", path = {} }}", json!(path.to_str()?)))
    };
    manifest.lines().map(|line| dependency(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// Wherever the application is named.
fn named(text: &str, name: &str) -> String {
    text.replace("name = \"shop\"", &format!("name = \"{name}\""))
        .replace("# shop", &format!("# {name}"))
        .replace("shop.db", &format!("{name}.db"))
        .replace("localhost/shop", &format!("localhost/{name}"))
        .replace("createdb shop ", &format!("createdb {name} "))
        .replace("usage: shop ", &format!("usage: {name} "))
        .replace("| shop ", &format!("| {name} "))
}

/// What cargo accepts as the name of a package.
fn is_a_name(name: &str) -> bool {
    // A package cannot depend on one of its own name.
    if name.starts_with("highwater") {
        return false;
    }
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.len() <= 64 && name.chars().all(letters)
}

/// What has a meaning already: where this name would be built, or in the application itself.
fn is_taken(name: &str) -> bool {
    let (_, manifest) = FILES[0];
    let uses = manifest.split_once("[dependencies]").map_or("", |(_, uses)| uses);
    TAKEN.split_whitespace().any(|taken| taken == name)
        || uses.lines().any(|line| line.split(" = ").next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cargo_would_refuse_are_refused() {
        for name in ["shop", "my-shop", "Shop_2"] {
            assert!(is_a_name(name) && !is_taken(name), "{name:?}");
        }
        for name in ["build", "test", "core", "fn", "gen", "Self", "proc-macro", "serde", "tracing-subscriber"] {
            assert!(is_taken(name), "{name:?}");
        }
        for name in ["", "highwater", "2shop", "-shop", "my shop", "shöp", "a\"b", ".."] {
            assert!(!is_a_name(name), "{name:?}");
        }
    }

    #[test]
    fn crates_come_from_the_checkout_where_there_is_one_and_from_the_registry_elsewhere() {
        let (_, manifest) = FILES[0];
        assert_eq!(with_checkout(manifest, Path::new("/nowhere")), manifest);
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let from_here = with_checkout(manifest, &here);
        for name in ["highwater", "highwater-sqlite"] {
            let path = json!(here.join(name).canonicalize().unwrap()).to_string();
            let line = format!("{name} = {{ version = \"0.1\", path = {path} }}");
            assert!(from_here.lines().any(|there| there == line), "{from_here}");
        }
        assert!(from_here.contains("tracing-subscriber = \"0.3\""), "what is not ours comes from the registry");
    }

    #[test]
    fn nothing_of_sqlite_is_left_on_postgres_and_nothing_of_the_shop_elsewhere() {
        for (path, text) in FILES {
            let text = ON_POSTGRES.iter().fold(text.to_owned(), |text, (a, b)| text.replace(a, b));
            assert!(!text.to_lowercase().contains("sqlite"), "{path}: {text}");
            let text = named(&text, "bikes");
            let left: Vec<&str> = text.lines().filter(|line| line.contains("shop")).collect();
            assert!(left.iter().all(|line| line.starts_with("//!")), "{path}: {left:?}");
        }
    }
}
