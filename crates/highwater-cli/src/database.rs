//! Which event store: from a URL to a backend. The only place that knows more than one.

use std::fmt;
use std::time::Duration;

use highwater::{Backend, Error};
use highwater_postgres::{PgConfig, PgEventStore};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};

use crate::failure::{Exit, Failure, note};

/// How long to wait for a connection: somebody sits in front of it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An open event store.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite(SqliteEventStore),
    Postgres(PgEventStore),
}

/// Does something with the store, whichever it is: commands are functions over any backend.
macro_rules! with {
    ($database:expr, $store:ident => $done:expr) => {
        match $database {
            $crate::database::Database::Sqlite($store) => $done,
            $crate::database::Database::Postgres($store) => $done,
        }
    };
}
pub(crate) use with;

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Sqlite { url: String },
    Postgres { url: String, schema: String },
}

impl Target {
    pub(crate) fn parse(url: &str, schema: &str) -> Result<Self, Failure> {
        let (url, schema) = (url.to_owned(), schema.to_owned());
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Ok(Self::Sqlite { url }),
            Some("postgres" | "postgresql") => Ok(Self::Postgres { url, schema }),
            _ => Err(Failure::new(
                Exit::Database,
                format!(
                    "{:?} is not an event store; it is called sqlite:FILE or postgres://USER@HOST/DATABASE",
                    redacted(&url)
                ),
            )),
        }
    }

    /// Opens a store that is there and up to date.
    pub(crate) async fn open(&self) -> Result<Database, Failure> {
        let database = self.open_as_it_is(false).await?;
        with!(&database, store => self.insist(store).await)?;
        Ok(database)
    }

    /// The same, and makes an SQLite file where there is none: nobody should have to read a manual before the first event.
    pub(crate) async fn open_or_make(&self) -> Result<Database, Failure> {
        if !self.is_missing().await {
            return self.open().await;
        }
        let database = self.open_new().await?;
        note(&format!("made {self}"));
        Ok(database)
    }

    /// Whether it is a file that is not there.
    pub(crate) async fn is_missing(&self) -> bool {
        match self {
            Self::Sqlite { url } => matches!(open_file(url, false).await, Err(Error::Unavailable { .. })),
            Self::Postgres { .. } => false,
        }
    }

    /// Makes a store where there is none, and brings it up to date: to be filled.
    pub(crate) async fn open_new(&self) -> Result<Database, Failure> {
        let database = self.open_as_it_is(true).await?;
        with!(&database, store => store.initialize().await)?;
        Ok(database)
    }

    /// Opens a store as it is, to look at it or to set it up.
    pub(crate) async fn open_as_it_is(&self, create: bool) -> Result<Database, Failure> {
        match self {
            Self::Sqlite { url } => match open_file(url, create).await {
                Ok(store) => Ok(Database::Sqlite(store)),
                Err(error @ Error::Unavailable { .. }) if !create => {
                    Err(Failure::from(error).framed("", "; `highwater init` makes one"))
                }
                // A URL that cannot be used is no store that can be opened.
                Err(error @ Error::Invalid(_)) => Err(Failure::from(error).because(Exit::Database)),
                Err(error) => Err(error.into()),
            },
            Self::Postgres { url, schema } => {
                let config =
                    PgConfig { schema: schema.clone(), connect_timeout: CONNECT_TIMEOUT, ..PgConfig::default() };
                Ok(Database::Postgres(PgEventStore::connect_with(url, config).await?))
            }
        }
    }

    /// Refuses a store that is not set up, or not for this version.
    async fn insist<B: Backend>(&self, store: &B) -> Result<(), Failure> {
        match store.planned().await?.first() {
            None => Ok(()),
            Some(step) => {
                let state = if step.version == 1 { "not set up yet" } else { "laid out for an older version" };
                Err(Failure::new(Exit::Database, format!("{self} is {state}: run `highwater init`")))
            }
        }
    }
}

async fn open_file(url: &str, create: bool) -> Result<SqliteEventStore, Error> {
    SqliteEventStore::open_with(url, SqliteConfig { create, ..SqliteConfig::default() }).await
}

/// Without its password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { url } => f.write_str(&redacted(url)),
            Self::Postgres { url, schema } => write!(f, "{}, schema {schema:?}", redacted(url)),
        }
    }
}

/// The password of a URL, if it has one.
pub(crate) fn password(url: &str) -> Option<String> {
    let found = span(url).map(|(from, to)| url[from..to].to_owned());
    found.filter(|password| !password.is_empty())
}

/// A URL without its password.
pub(crate) fn redacted(url: &str) -> String {
    match span(url) {
        Some((from, to)) => format!("{}***{}", &url[..from], redacted(&url[to..])),
        None => url.to_owned(),
    }
}

/// Where the password stands. A URL that is written wrongly must not give it away either: everything up to the last `@`
/// counts.
fn span(url: &str) -> Option<(usize, usize)> {
    let in_front = || {
        let from = url.find("://")? + 3;
        let to = from + url[from..].rfind('@')?;
        let colon = from + url[from..to].find(':')? + 1;
        Some((colon, to))
    };
    let as_parameter = || {
        let key = "password=";
        let from = url.find(key)? + key.len();
        let to = url[from..].find('&').map_or(url.len(), |at| from + at);
        Some((from, to))
    };
    in_front().or_else(as_parameter).filter(|(from, to)| from < to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("postgres://app:s3cret@db/shop", "postgres://app:***@db/shop"),
            ("postgres://app:a/b@c@db/shop", "postgres://app:***@db/shop"),
            ("postgres://app@db/shop", "postgres://app@db/shop"),
            ("postgres://db/shop?user=app&password=s3cret&x=1", "postgres://db/shop?user=app&password=***&x=1"),
            ("mysql://root:s3cret@db", "mysql://root:***@db"),
            ("sqlite:highwater.db", "sqlite:highwater.db"),
        ] {
            assert_eq!(redacted(url), shown);
        }
        assert_eq!(password("postgres://app:s3cret@db/shop"), Some("s3cret".to_owned()));
        assert_eq!(password("sqlite:highwater.db"), None);
    }
}
