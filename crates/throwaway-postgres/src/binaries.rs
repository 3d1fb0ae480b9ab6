//! Where the programs of PostgreSQL's server and of PgBouncer are.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use crate::{Error, account};

const VARIABLE: &str = "HIGHWATER_POSTGRES_BIN";

/// Names the folder of servers that were fetched, one folder per major version.
const SERVERS_VARIABLE: &str = "HIGHWATER_SERVERS";

/// Debian's packages install below here, one folder per major version, and not in PATH.
const DEBIAN_ROOT: &str = "/usr/lib/postgresql";

/// For programs of administrators.
const DEBIAN_SBIN: &str = "/usr/sbin";

/// The folder with `postgres` and `initdb`.
///
/// It is the one named by the environment variable `HIGHWATER_POSTGRES_BIN`, or else that of `pg_config --bindir`, the
/// highest version below `/usr/lib/postgresql`, a folder in PATH. Only what is named explicitly has to be right: the
/// others are passed over if they do not have both programs.
pub fn bin_dir() -> Result<PathBuf, Error> {
    Places {
        named: env::var_os(VARIABLE),
        pg_config: ask_pg_config(),
        debian_root: PathBuf::from(DEBIAN_ROOT),
        path: env::var_os("PATH").unwrap_or_default(),
    }
    .search()
}

/// The folder with `postgres` and `initdb` of a major version, wherever [`bin_dir`] may be: below `/usr/lib/postgresql`, or
/// where the scripts of this repository keep the servers that they have fetched.
pub fn bin_dir_of(major: u32) -> Result<PathBuf, Error> {
    find_version(major, Path::new(DEBIAN_ROOT), &fetched()?)
}

fn find_version(major: u32, debian_root: &Path, fetched: &Path) -> Result<PathBuf, Error> {
    let mut places = [debian_root, fetched].map(|root| root.join(major.to_string()).join("bin")).into_iter();
    places.find(|folder| has_server(folder)).ok_or_else(|| {
        Error::NotInstalled(format!(
            "PostgreSQL {major} is not on this machine, neither below {} nor below {}: `scripts/servers {major}` fetches it",
            debian_root.display(),
            fetched.display()
        ))
    })
}

/// As in scripts/lib/servers.sh.
fn fetched() -> Result<PathBuf, Error> {
    if let Some(named) = env::var_os(SERVERS_VARIABLE).filter(|named| !named.is_empty()) {
        return path::absolute(&named).map_err(Error::io(format!("find {}", Path::new(&named).display())));
    }
    if account::effective_uid()? == 0 {
        // The server will run under another account, which could not get to a folder below root's.
        return Ok(PathBuf::from("/var/cache/highwater/servers"));
    }
    let cache = env::var_os("XDG_CACHE_HOME").filter(|named| !named.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")));
    Ok(cache.unwrap_or_default().join("highwater/servers"))
}

/// The program `pgbouncer`: from PATH, or where Debian's package installs it, which is not in every user's PATH.
pub(crate) fn pgbouncer() -> Result<PathBuf, Error> {
    find_pgbouncer(&env::var_os("PATH").unwrap_or_default(), Path::new(DEBIAN_SBIN))
}

fn find_pgbouncer(path: &OsStr, debian: &Path) -> Result<PathBuf, Error> {
    let folders = env::split_paths(path).chain([debian.to_owned()]);
    // The pooler does not run in our working folder.
    let mut programs = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join("pgbouncer"));
    programs.find(|program| program.is_file()).ok_or_else(|| {
        Error::NotInstalled("the program `pgbouncer` is not on this machine: `apt-get install pgbouncer`".to_owned())
    })
}

/// What the search depends on, so that tests can say what the machine looks like.
struct Places {
    named: Option<OsString>,
    pg_config: Option<PathBuf>,
    debian_root: PathBuf,
    path: OsString,
}

impl Places {
    fn search(self) -> Result<PathBuf, Error> {
        if let Some(named) = self.named.filter(|named| !named.is_empty()) {
            // The server does not run in our working folder.
            let named = path::absolute(&named).unwrap_or_else(|_| PathBuf::from(named));
            return if has_server(&named) {
                Ok(named)
            } else {
                Err(Error::NotInstalled(format!(
                    "{VARIABLE} is {}, which does not have `postgres` and `initdb` in it: set it to the folder that \
                     has, or unset it and `apt-get install postgresql`",
                    named.display()
                )))
            };
        }
        let mut candidates: Vec<PathBuf> = self.pg_config.into_iter().collect();
        candidates.extend(debian_versions(&self.debian_root));
        candidates.extend(env::split_paths(&self.path));
        candidates.into_iter().find(|folder| has_server(folder)).ok_or_else(|| {
            Error::NotInstalled(format!(
                "PostgreSQL's server programs `postgres` and `initdb` are not on this machine: `apt-get install \
                 postgresql`, or set {VARIABLE} to the folder that has them"
            ))
        })
    }
}

fn has_server(folder: &Path) -> bool {
    ["postgres", "initdb"].iter().all(|program| folder.join(program).is_file())
}

/// `None` is no failure: `pg_config` comes with a client library that most machines with a server lack.
fn ask_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(folder.trim_end()))
}

/// The `bin` folders below `root`, highest version first; none if there is no such root.
fn debian_versions(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let major = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .collect();
    versions.sort_unstable_by_key(|(major, _)| std::cmp::Reverse(*major));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder below which a test lays out a machine; removed with it.
    struct Machine(PathBuf);

    impl Machine {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let root = env::temp_dir().join(format!("throwaway-postgres-binaries-{}-{count}", std::process::id()));
            fs::create_dir(&root).unwrap();
            Self(root)
        }

        fn with(self, folder: &str, programs: &[&str]) -> Self {
            let folder = self.0.join(folder);
            fs::create_dir_all(&folder).unwrap();
            for program in programs {
                fs::write(folder.join(program), "").unwrap();
            }
            self
        }

        fn places(&self) -> Places {
            Places {
                named: None,
                pg_config: Some(self.0.join("pg_config")),
                debian_root: self.0.join("debian"),
                path: env::join_paths([self.0.join("path/empty"), self.0.join("path/full")]).unwrap(),
            }
        }

        fn found(&self) -> String {
            let found = self.places().search().unwrap();
            found.strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const BOTH: &[&str] = &["postgres", "initdb"];

    #[test]
    fn pg_config_is_believed_only_if_its_folder_has_a_server() {
        let machine = Machine::new().with("debian/15/bin", BOTH).with("pg_config", &["psql"]);
        assert_eq!(machine.found(), "debian/15/bin");
        let machine = machine.with("pg_config", BOTH);
        assert_eq!(machine.found(), "pg_config");
    }

    #[test]
    fn the_highest_version_is_a_number_and_not_a_word() {
        let machine = Machine::new().with("debian/9/bin", BOTH).with("debian/15/bin", BOTH);
        let machine = machine.with("debian/16/bin", &["psql"]).with("path/full", BOTH);
        assert_eq!(machine.found(), "debian/15/bin");
    }

    #[test]
    fn path_comes_last() {
        let machine = Machine::new().with("path/full", BOTH);
        assert_eq!(machine.found(), "path/full");
    }

    #[test]
    fn a_named_folder_without_a_server_is_not_passed_over() {
        let machine = Machine::new().with("path/full", BOTH);
        let named = Some(OsString::from("/nowhere"));
        let error = Places { named, ..machine.places() }.search().unwrap_err().to_string();
        assert!(error.starts_with("HIGHWATER_POSTGRES_BIN is /nowhere"), "{error}");
    }

    #[test]
    fn no_server_anywhere_says_what_to_install() {
        let error = Machine::new().places().search().unwrap_err().to_string();
        assert!(error.contains("apt-get install postgresql"), "{error}");
    }

    #[test]
    fn a_version_is_found_where_it_is_installed_before_where_it_was_fetched_to() {
        let machine = Machine::new().with("fetched/18/bin", BOTH).with("debian/15/bin", BOTH);
        let find =
            |machine: &Machine, major| find_version(major, &machine.0.join("debian"), &machine.0.join("fetched"));
        assert_eq!(find(&machine, 18).unwrap(), machine.0.join("fetched/18/bin"));
        let machine = machine.with("debian/18/bin", BOTH);
        assert_eq!(find(&machine, 18).unwrap(), machine.0.join("debian/18/bin"));
        let error = find(&machine, 17).unwrap_err().to_string();
        assert!(error.contains("PostgreSQL 17 is not") && error.contains("scripts/servers 17"), "{error}");
    }

    #[test]
    fn pgbouncer_is_found_in_path_before_elsewhere() {
        let machine = Machine::new().with("sbin", &["pgbouncer"]);
        let found = |machine: &Machine| find_pgbouncer(&machine.places().path, &machine.0.join("sbin")).unwrap();
        assert_eq!(found(&machine), machine.0.join("sbin/pgbouncer"));
        let machine = machine.with("path/full", &["pgbouncer"]);
        assert_eq!(found(&machine), machine.0.join("path/full/pgbouncer"));
    }

    #[test]
    fn no_pgbouncer_anywhere_says_what_to_install() {
        let machine = Machine::new();
        let error = find_pgbouncer(&machine.places().path, &machine.0).unwrap_err().to_string();
        assert!(error.contains("apt-get install pgbouncer"), "{error}");
    }
}
