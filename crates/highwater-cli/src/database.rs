//! Which event store: from a URL to a backend. The only place that knows more than one.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use highwater::backend::Backend;
use highwater::{Error, Invalid};
use highwater_postgres::{PgConfig, PgEventStore};
use highwater_sqlite::{SqliteConfig, SqliteEventStore};

use crate::failure::{Exit, Failure, note};

/// How long to wait for a connection: a user is waiting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An open event store, whichever it is.
pub(crate) type Store = Arc<dyn Backend>;

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Sqlite { url: String, allow_network: bool },
    Postgres { url: String, schema: String },
}

impl Target {
    pub(crate) fn parse(url: &str, schema: &str, allow_network: bool) -> Result<Self, Failure> {
        let (url, schema) = (url.to_owned(), schema.to_owned());
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => Ok(Self::Sqlite { url, allow_network }),
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
    pub(crate) async fn open(&self) -> Result<Store, Failure> {
        let store = self.open_as_it_is(false).await?;
        self.insist(&*store).await?;
        Ok(store)
    }

    /// The same, and creates an SQLite file where there is none: no user should have to read a manual before the first
    /// event.
    pub(crate) async fn open_or_make(&self) -> Result<Store, Failure> {
        if !self.is_missing().await {
            return self.open().await;
        }
        let store = self.open_new().await?;
        note(&format!("made {self}"));
        Ok(store)
    }

    /// Whether it is a file that is not there.
    pub(crate) async fn is_missing(&self) -> bool {
        match self {
            Self::Sqlite { url, allow_network } => {
                matches!(open_file(url, false, *allow_network).await, Err(Error::Unavailable { .. }))
            }
            Self::Postgres { .. } => false,
        }
    }

    /// The file, if the store is one; up to date.
    pub(crate) async fn open_sqlite(&self) -> Result<Option<SqliteEventStore>, Failure> {
        let Self::Sqlite { url, allow_network } = self else { return Ok(None) };
        let store = open_sqlite(url, false, *allow_network).await?;
        self.insist(&store).await?;
        Ok(Some(store))
    }

    /// Makes a store where there is none, and brings it up to date: to be filled.
    pub(crate) async fn open_new(&self) -> Result<Store, Failure> {
        let store = self.open_as_it_is(true).await?;
        store.initialize().await?;
        Ok(store)
    }

    /// Opens a store as it is, to look at it or to set it up.
    pub(crate) async fn open_as_it_is(&self, create: bool) -> Result<Store, Failure> {
        match self {
            Self::Sqlite { url, allow_network } => Ok(Arc::new(open_sqlite(url, create, *allow_network).await?)),
            Self::Postgres { url, schema } => {
                let config =
                    PgConfig { schema: schema.clone(), connect_timeout: CONNECT_TIMEOUT, ..PgConfig::default() };
                let connected = PgEventStore::connect_with(url, config).await;
                Ok(Arc::new(connected.map_err(|error| self.unreached(error))?))
            }
        }
    }

    /// Why a server cannot be used, with its name.
    fn unreached(&self, error: Error) -> Failure {
        let Self::Postgres { url, .. } = self else { return error.into() };
        let advice = match &error {
            Error::Unavailable { .. } => "; see that the server runs there, and that the URL names it",
            _ => "",
        };
        let invalid = matches!(error, Error::Invalid(Invalid::Setting { name: "database", .. }));
        let failure = Failure::from(error).framed(&format!("{}: ", redacted(url)), advice);
        // A URL that cannot be used is no store that can be opened.
        if invalid { failure.because(Exit::Database) } else { failure }
    }

    /// Whether two names are certainly of one store.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sqlite { url, .. }, Self::Sqlite { url: other, .. }) => {
                let paths = path(url).canonicalize().and_then(|path| Ok((path, self::path(other).canonicalize()?)));
                url == other || paths.is_ok_and(|(path, other)| path == other)
            }
            _ => self == other,
        }
    }

    /// Refuses a store that is not set up, or not for this version.
    async fn insist(&self, store: &dyn Backend) -> Result<(), Failure> {
        match store.planned().await?.first() {
            None => Ok(()),
            Some(step) => {
                let state = if step.version == 1 { "not set up yet" } else { "laid out for an older version" };
                Err(Failure::new(Exit::Database, format!("{self} is {state}: run `highwater init`")))
            }
        }
    }
}

/// Opens a file, and says what to do if that cannot be.
async fn open_sqlite(url: &str, create: bool, allow_network: bool) -> Result<SqliteEventStore, Failure> {
    open_file(url, create, allow_network).await.map_err(|error| match error {
        Error::Unavailable { .. } if !folder(url).is_dir() => {
            Failure::from(error).framed("", "; make the folder first")
        }
        Error::Unavailable { .. } if !create => Failure::from(error).framed("", "; `highwater init` makes one"),
        // A URL that cannot be used is no store that can be opened.
        Error::Invalid(_) => Failure::from(error).because(Exit::Database),
        error => error.into(),
    })
}

async fn open_file(url: &str, create: bool, allow_network: bool) -> Result<SqliteEventStore, Error> {
    let config = SqliteConfig { create, allow_network_file_system: allow_network, ..SqliteConfig::default() };
    SqliteEventStore::open_with(url, config).await
}

/// The file of a URL, to say something about it: only the backend reads URLs exactly.
fn path(url: &str) -> &Path {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    Path::new(path.strip_prefix("//").unwrap_or(path))
}

/// The folder that a file is in, or would be.
fn folder(url: &str) -> &Path {
    path(url).parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Without its password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { url, .. } => f.write_str(&redacted(url)),
            Self::Postgres { url, schema } => write!(f, "{}, schema {schema:?}", redacted(url)),
        }
    }
}

/// The passwords in a URL: mostly none, or one.
pub(crate) fn passwords(url: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), url);
    while let Some((from, to)) = span(rest) {
        found.push(rest[from..to].to_owned());
        rest = &rest[to..];
    }
    found
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
        assert_eq!(passwords("postgres://app:s3cret@db/shop?password=other"), ["s3cret", "other"]);
        assert!(passwords("sqlite:highwater.db").is_empty());
    }
}
