//! Which event store: from a URL to a backend. The only place that knows more than one.

use std::fmt;

use highwater_postgres::{PgConfig, PgEventStore};

use crate::failure::{Exit, Failure};

/// An open event store.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Postgres(PgEventStore),
}

/// Does something with the store, whichever it is: commands are functions over any backend.
macro_rules! with {
    ($database:expr, $store:ident => $done:expr) => {
        match $database {
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

/// What to do where there is nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Say so, and what makes one.
    Refused,
    /// Make one.
    Made,
    /// Open what is there as it is, to look at it or to set it up.
    Kept,
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

    pub(crate) async fn open(&self, missing: Missing) -> Result<Database, Failure> {
        match self {
            Self::Sqlite { .. } => Err(Failure::new(Exit::Database, "SQLite is not there yet")),
            Self::Postgres { url, schema } => {
                let config = PgConfig { schema: schema.clone(), ..PgConfig::default() };
                let store = PgEventStore::connect_with(url, config).await?;
                let _ = missing;
                Ok(Database::Postgres(store))
            }
        }
    }
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
