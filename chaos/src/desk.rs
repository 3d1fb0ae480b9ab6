//! Plain SQL in the experiment's database, past the library: what is left there, and what is seen from time to time.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use highwater::BoxError;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, FromRow};
use uuid::Uuid;

use crate::evidence::{Audited, Evidence, Letter, Logged, Row, Tally};

/// How long to wait for a server that may be away, or for another writer of a file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to look. Each question has a connection of its own: the server may be another one by then.
#[derive(Debug, Clone)]
pub(crate) enum Desk {
    /// The primary, as it is called now.
    Postgres(Arc<Mutex<String>>),
    Sqlite(PathBuf),
}

enum Connected {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Desk {
    /// From now on the primary is elsewhere.
    pub(crate) fn moved(&self, url: String) {
        if let Self::Postgres(current) = self {
            *current.lock().unwrap_or_else(PoisonError::into_inner) = url;
        }
    }

    async fn connect(&self) -> Result<Connected, BoxError> {
        let connected = async {
            Ok::<_, sqlx::Error>(match self {
                Self::Postgres(url) => {
                    let url = url.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let options = PgConnectOptions::from_str(&url)?.application_name("chaos desk");
                    Connected::Postgres(options.connect().await?)
                }
                Self::Sqlite(file) => Connected::Sqlite(sqlite(file).connect().await?),
            })
        };
        Ok(tokio::time::timeout(PATIENCE, connected).await??)
    }

    /// Runs statements that have no parameters and no answer.
    pub(crate) async fn execute(&self, sql: String) -> Result<(), BoxError> {
        match self.connect().await? {
            Connected::Postgres(mut connection) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
                Ok(connection.close().await?)
            }
            Connected::Sqlite(mut connection) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
                Ok(connection.close().await?)
            }
        }
    }

    /// Rows of a statement; `{schema}` is where the library's tables are.
    pub(crate) async fn rows<T>(&self, sql: &str) -> Result<Vec<T>, BoxError>
    where
        T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow>,
    {
        match self.connect().await? {
            Connected::Postgres(mut connection) => {
                let sql = sql.replace("{schema}", "highwater.");
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await?;
                connection.close().await?;
                Ok(rows.iter().map(T::from_row).collect::<Result<_, _>>()?)
            }
            Connected::Sqlite(mut connection) => {
                let sql = sql.replace("{schema}", "");
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await?;
                connection.close().await?;
                Ok(rows.iter().map(T::from_row).collect::<Result<_, _>>()?)
            }
        }
    }

    /// Ends connections whose names match, and says how many there were.
    pub(crate) async fn terminate(&self, pattern: &str) -> Result<u64, BoxError> {
        let Connected::Postgres(mut connection) = self.connect().await? else {
            return Err("a file has no connections that could be terminated".into());
        };
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name ~ $1";
        let count: i64 = sqlx::query_scalar(sql).bind(pattern).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(count as u64)
    }

    /// The highest event, and where each subscriber is and who leads for it.
    pub(crate) async fn look(&self) -> Result<(u64, Vec<(String, u64, Option<u32>)>), BoxError> {
        let head: Vec<(Option<i64>,)> = self.rows("SELECT max(global_sequence) FROM {schema}events").await?;
        let rows: Vec<(String, i64, Option<String>)> = self.rows(include_str!("../sql/look.sql")).await?;
        let subscribers = rows.into_iter().map(|(id, checkpoint, label)| {
            (id, checkpoint as u64, label.and_then(|label| label.parse().ok()))
        });
        Ok((head.first().and_then(|row| row.0).unwrap_or_default() as u64, subscribers.collect()))
    }

    /// Puts what is in the database into the evidence.
    pub(crate) async fn collect(&self, evidence: &mut Evidence) -> Result<(), BoxError> {
        type Event = (i64, Uuid, Uuid, i64, String, Option<String>);
        let log: Vec<Event> = self.rows(self.log_sql()).await?;
        evidence.log = log.into_iter().map(logged).collect::<Result<_, _>>()?;
        let rows: Vec<(i64, String, i64, i64, String)> = self.rows(include_str!("../sql/rows_all.sql")).await?;
        let row = |(n, subscriber_id, global_sequence, term, by): (i64, String, i64, i64, String)| {
            let by = by.parse().map_err(|()| format!("{by:?} is no instance"))?;
            Ok::<_, BoxError>(Row {
                n: n as u64,
                subscriber_id,
                global_sequence: global_sequence as u64,
                term: term as u64,
                by,
            })
        };
        evidence.rows = rows.into_iter().map(row).collect::<Result<_, _>>()?;
        let tallies: Vec<(String, String, i64, i64, i64)> = self.rows(include_str!("../sql/tallies_all.sql")).await?;
        let tally = |(subscriber_id, stream_id, events, versions, last): (String, String, i64, i64, i64)| {
            Ok::<_, BoxError>(Tally {
                subscriber_id,
                stream_id: stream_id.parse()?,
                events: events as u64,
                versions: versions as u64,
                last_version: last as u64,
            })
        };
        evidence.tallies = tallies.into_iter().map(tally).collect::<Result<_, _>>()?;
        let audit: Vec<(i64, String, i64, i64, String)> = self.rows(include_str!("../sql/audit_all.sql")).await?;
        let audited = |(n, subscriber_id, term, global_sequence, by): (i64, String, i64, i64, String)| Audited {
            n: n as u64,
            subscriber_id,
            term: term as u64,
            global_sequence: global_sequence as u64,
            by: by.parse().ok(),
        };
        evidence.audit = audit.into_iter().map(audited).collect();
        let letters: Vec<(String, i64, Uuid, Uuid, String, bool)> =
            self.rows(include_str!("../sql/letters_all.sql")).await?;
        let letter = |(subscriber_id, global_sequence, event_id, stream_id, state, parks): (_, i64, _, _, _, _)| Letter {
            subscriber_id,
            global_sequence: global_sequence as u64,
            event_id,
            stream_id,
            state,
            parks,
        };
        evidence.letters = letters.into_iter().map(letter).collect();
        let (_, subscribers) = self.look().await?;
        evidence.checkpoints = subscribers.into_iter().map(|(id, checkpoint, _)| (id, checkpoint)).collect();
        Ok(())
    }

    fn log_sql(&self) -> &'static str {
        match self {
            Self::Postgres(_) => include_str!("../sql/postgres/log.sql"),
            Self::Sqlite(_) => include_str!("../sql/sqlite/log.sql"),
        }
    }
}

fn sqlite(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(file).create_if_missing(false).busy_timeout(PATIENCE)
}

fn logged(
    (global_sequence, id, stream_id, version, event_type, answers): (i64, Uuid, Uuid, i64, String, Option<String>),
) -> Result<Logged, BoxError> {
    Ok(Logged {
        global_sequence: global_sequence as u64,
        id,
        stream_id,
        stream_version: version as u64,
        event_type,
        answers: answers.map(|id| id.parse()).transpose()?,
    })
}
