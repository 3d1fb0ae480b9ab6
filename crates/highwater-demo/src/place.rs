//! Where the shop is: a file or a schema of its own, which goes when the demo ends.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::{DemoError, leftovers, sql};

/// "There is a schema of that name": the driver tells errors apart by such codes.
const DUPLICATE_SCHEMA: &str = "42P06";

/// Where the shop is.
#[derive(Clone, Serialize, Deserialize)]
pub enum Place {
    /// In a schema of a PostgreSQL database.
    Postgres {
        /// The database.
        url: String,
        /// The schema: of letters, digits and underscores.
        schema: String,
    },
    /// In a file.
    Sqlite {
        /// The file.
        file: PathBuf,
        /// The folder that was made for it, if one was.
        folder: Option<PathBuf>,
    },
}

/// The folder's lock, if one was made.
#[derive(Debug)]
#[must_use = "without it, a later demo takes the place for one that was left"]
pub struct InUse(#[expect(dead_code, reason = "it is there to be dropped")] Option<File>);

impl Place {
    /// Without a database: in a temporary folder. On PostgreSQL without a schema: in one that nobody has. What is not to be
    /// kept is called so that a later demo can tell, should this one be killed.
    ///
    /// # Errors
    /// For what cannot be used. Nothing is made yet.
    pub fn of(database: Option<&str>, schema: Option<&str>, keep: bool) -> Result<Self, DemoError> {
        let (folder, unique) = leftovers::names(keep);
        let Some(database) = database else {
            let folder = std::env::temp_dir().join(folder);
            return Ok(Self::Sqlite { file: folder.join("shop.db"), folder: Some(folder) });
        };
        match database.split_once(':') {
            Some(("sqlite", file)) => {
                let file = file.strip_prefix("//").unwrap_or(file);
                if file.is_empty() || file.contains(['?', '#', '%']) || file.starts_with(":memory:") {
                    let reason = format!("{database:?} names no file; several processes need one, by a plain path");
                    return Err(DemoError::Database(reason));
                }
                let file = std::path::absolute(file).map_err(DemoError::io(format!("use the file {file}")))?;
                Ok(Self::Sqlite { file, folder: None })
            }
            Some(("postgres" | "postgresql", _)) => {
                let schema = schema.map_or(unique, str::to_owned);
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                if schema.is_empty() || schema.len() > 63 || !schema.chars().all(plain) {
                    let reason = format!("{schema:?} cannot be the demo's schema: use small letters, digits and _");
                    return Err(DemoError::Database(reason));
                }
                Ok(Self::Postgres { url: database.to_owned(), schema })
            }
            _ => {
                let reason = "the database is called sqlite:FILE or postgres://USER@HOST/DATABASE";
                Err(DemoError::Database(reason.to_owned()))
            }
        }
    }

    /// Makes it. Refuses what is there already. What this returns says that it is in use, until it is dropped.
    ///
    /// # Errors
    /// [`DemoError::FileExists`], [`DemoError::SchemaExists`], and when it cannot be made.
    pub async fn make(&self) -> Result<InUse, DemoError> {
        match self {
            Self::Sqlite { folder: Some(folder), .. } => {
                let made = leftovers::make_locked(folder).map(|lock| InUse(Some(lock)));
                made.map_err(DemoError::io(format!("make the folder {}", folder.display())))
            }
            Self::Sqlite { file, folder: None } => match beside(file).into_iter().next() {
                Some(path) => Err(DemoError::FileExists { path }),
                None => Ok(InUse(None)),
            },
            Self::Postgres { url, schema } => {
                let made = execute(url, sql::SCHEMA_CREATE, schema).await;
                made.map(|()| InUse(None)).map_err(|source| {
                    match source.as_database_error().and_then(|error| error.code()) {
                        Some(code) if code == DUPLICATE_SCHEMA => DemoError::SchemaExists { schema: schema.clone() },
                        _ => DemoError::Sql { action: "create a schema", source },
                    }
                })
            }
        }
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// When something is left.
    pub async fn remove(&self) -> Result<(), DemoError> {
        let failed = |path: &Path| DemoError::io(format!("remove {}", path.display()));
        match self {
            Self::Sqlite { folder: Some(folder), .. } => fs::remove_dir_all(folder).map_err(failed(folder)),
            Self::Sqlite { file, folder: None } => {
                let remove = |path: &Path| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
                // SQLite removes its own files when the last connection closes, which may be just now.
                let gone = |error: io::Error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) };
                beside(file).iter().try_for_each(|path| remove(path).or_else(gone).map_err(failed(path)))
            }
            Self::Postgres { url, schema } => {
                let dropped = execute(url, sql::SCHEMA_DROP, schema).await;
                dropped.map_err(DemoError::sql("drop the demo's schema"))
            }
        }
    }

    /// What the command is told to find it again; without the password.
    #[must_use]
    pub fn arguments(&self) -> String {
        match self {
            Self::Sqlite { file, .. } => format!("--database {}", quoted(&format!("sqlite:{}", file.display()))),
            Self::Postgres { url, schema } => {
                format!("--database {} --schema {schema}", quoted(&without_password(url)))
            }
        }
    }

    /// One backend was asked to open the other's place.
    pub(crate) fn mistaken(&self) -> DemoError {
        DemoError::Database(format!("{self:?} is of another kind"))
    }
}

/// The database as people know it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { file, folder: Some(_) } => write!(f, "a temporary SQLite file ({})", file.display()),
            Self::Sqlite { file, .. } => write!(f, "the SQLite file {}", file.display()),
            Self::Postgres { schema, .. } => write!(f, "PostgreSQL, in the schema {schema}"),
        }
    }
}

/// Without the password.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.arguments()).finish()
    }
}

/// What there is of the database file, and of what SQLite and Highwater put beside it.
fn beside(file: &Path) -> Vec<PathBuf> {
    let with = |suffix: &&str| {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path)
    };
    ["", "-journal", "-wal", "-shm", "-locks"].iter().map(with).filter(|path| path.exists()).collect()
}

/// The schema's name is made of letters, digits and underscores alone.
async fn execute(url: &str, sql: &str, schema: &str) -> Result<(), sqlx::Error> {
    let sql = sql.replace("{schema}", schema);
    let mut connection: PgConnection = PgConnectOptions::from_str(url)?.connect().await?;
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
    connection.close().await?;
    done.map(drop)
}

/// The URL with everything but the password, in its place or among the parameters.
fn without_password(url: &str) -> String {
    // What the driver cannot read may have its password anywhere.
    let (Ok(_), Some((scheme, rest))) = (PgConnectOptions::from_str(url), url.split_once("://")) else {
        return "postgres://…".to_owned();
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = match authority.rsplit_once('@') {
        Some((who, host)) => format!("{}@{host}", who.split(':').next().unwrap_or_default()),
        None => authority.to_owned(),
    };
    // Only names that are plain: an encoded one may say anything.
    let plain =
        |name: &str| name != "password" && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.[]".contains(c));
    let shown = parameters.split('&').filter(|pair| plain(pair.split('=').next().unwrap_or_default()));
    let shown = shown.filter(|pair| !pair.is_empty()).collect::<Vec<_>>().join("&");
    let mark = if shown.is_empty() { "" } else { "?" };
    format!("{scheme}://{authority}{database}{mark}{shown}")
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+,=".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        assert!(matches!(Place::of(None, None, false), Ok(Place::Sqlite { folder: Some(_), .. })));
        assert!(matches!(Place::of(Some("sqlite:shop.db"), None, false), Ok(Place::Sqlite { folder: None, .. })));
        let Ok(Place::Postgres { schema, .. }) = Place::of(Some("postgres://a@b/c"), None, false) else {
            panic!("PostgreSQL")
        };
        assert!(schema.starts_with("highwater_demo_"));
        for (database, schema) in
            [("mysql://x", None), ("sqlite::memory:", None), ("sqlite:", None), ("postgres://a", Some("a\"b"))]
        {
            assert!(matches!(Place::of(Some(database), schema, false), Err(DemoError::Database(_))), "{database}");
        }
    }

    #[test]
    fn passwords_are_not_shown_and_everything_else_is() {
        for (url, shown) in [
            ("postgres://anna:secret@db:5433/shop", "postgres://anna@db:5433/shop"),
            ("postgresql://db/shop", "postgresql://db/shop"),
            ("postgres://anna:secret@db/shop?sslmode=require", "'postgres://anna@db/shop?sslmode=require'"),
            (
                "postgres:///shop?host=/run/pg&password=secret&sslrootcert=a.pem",
                "'postgres:///shop?host=/run/pg&sslrootcert=a.pem'",
            ),
            ("postgres://db/shop?password=secret", "postgres://db/shop"),
            ("postgres://db/shop?p%61ssword=secret", "postgres://db/shop"),
            ("postgres://anna:secret@db:port/shop", "'postgres://…'"),
        ] {
            let place = Place::of(Some(url), Some("mine"), false).unwrap();
            assert_eq!(place.arguments(), format!("--database {shown} --schema mine"));
            assert!(!format!("{place:?}").contains("secret"));
        }
    }

    #[test]
    fn a_file_of_any_name_can_be_pasted() {
        let place = Place::of(Some("sqlite:/tmp/anna's shop.db"), None, false).unwrap();
        assert_eq!(place.arguments(), r"--database 'sqlite:/tmp/anna'\''s shop.db'");
    }
}
