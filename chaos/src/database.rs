//! Plain SQL in the experiment's database, past the library: what is left there, and what is seen from time to time.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::BoxError;
use highwater::backend::lock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, FromRow};
use uuid::Uuid;

use crate::cast::{ALONE_IN, ROLES, role};
use crate::evidence::{Audited, DeadLetter, Evidence, Logged, Row, Tally};

/// How long to wait for a server that may be away, or for another writer of a file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sooner than what a hint says is forgotten, which is after a second.
const FORGE_EVERY: Duration = Duration::from_millis(500);

/// Where to look. Each question has its own connection: the server may be another one by then.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    /// The primary, as it is called now.
    Postgres(Arc<Mutex<String>>),
    Sqlite(PathBuf),
}

enum Connected {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Database {
    /// From now on the primary is elsewhere.
    pub(crate) fn moved(&self, url: String) {
        if let Self::Postgres(current) = self {
            *lock(current) = url;
        }
    }

    async fn connect(&self) -> Result<Connected, BoxError> {
        let connected = async {
            Ok::<_, sqlx::Error>(match self {
                Self::Postgres(url) => {
                    let url = lock(url).clone();
                    let options = PgConnectOptions::from_str(&url)?.application_name("chaos database");
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
        let terminate = sqlx::query_scalar(include_str!("../sql/postgres/terminate.sql")).bind(pattern);
        let count: i64 = terminate.fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(count as u64)
    }

    /// Ends sessions whose commits wait for a replica, which makes these visible, and says how many there were.
    pub(crate) async fn end_waits(&self) -> Result<u64, BoxError> {
        let Connected::Postgres(mut connection) = self.connect().await? else {
            return Err("a file has no replica".into());
        };
        let end = sqlx::query_scalar(include_str!("../sql/postgres/end_waits.sql"));
        let count: i64 = end.fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(count as u64)
    }

    /// Lets the process that writes the log for those who do not wait get no time for a while; then kills one backend of the
    /// primary, one whose name matches if there is one, and returns when the server has noticed: from then on it recovers.
    pub(crate) async fn kill_backend(&self, pattern: &str, after: Duration) -> Result<(), BoxError> {
        let Connected::Postgres(mut connection) = self.connect().await? else {
            return Err("a file has no backends that could be killed".into());
        };
        let writer = sqlx::query_scalar(include_str!("../sql/postgres/wal_writer.sql"));
        let writer = pid(writer.fetch_optional(&mut connection).await?)?;
        kill_process(writer, Signal::STOP)?;
        let killed = kill_one(&mut connection, pattern, after).await;
        // It was told to end, unless something went wrong, and does so when it can.
        match kill_process(writer, Signal::CONT) {
            Err(Errno::SRCH) => killed,
            resumed => killed.and(Ok(resumed?)),
        }
    }

    /// Sends hints that are not true, as a role that may connect and nothing else.
    pub(crate) async fn forge_hints(&self, duration: Duration) -> Result<(), BoxError> {
        let roles: Vec<&str> = ROLES.iter().map(|role| role.id).collect();
        let (mut ticks, mut connection) = (tokio::time::interval(FORGE_EVERY), None);
        let mut last = Ok(());
        for _ in 0..duration.div_duration_f64(FORGE_EVERY) as u64 {
            ticks.tick().await;
            // The server may be away, or another one by now.
            last = self.forge(&mut connection, &roles).await;
            connection = connection.filter(|_| last.is_ok());
        }
        last
    }

    async fn forge(&self, connection: &mut Option<PgConnection>, roles: &[&str]) -> Result<(), BoxError> {
        let Self::Postgres(url) = self else { return Err("a file carries no hints".into()) };
        let open = match connection {
            Some(open) => open,
            None => {
                let url = lock(url).clone();
                let options =
                    PgConnectOptions::from_str(&url)?.username("chaos_stranger").application_name("chaos stranger");
                connection.insert(tokio::time::timeout(PATIENCE, options.connect()).await??)
            }
        };
        sqlx::query(include_str!("../sql/postgres/forge_hints.sql")).bind(roles).execute(open).await?;
        Ok(())
    }

    /// The highest event, and where each subscriber is and who leads for it.
    pub(crate) async fn progress(&self) -> Result<(u64, Vec<(String, u64, Option<u32>)>), BoxError> {
        let head: Vec<(Option<i64>,)> = self.rows(include_str!("../sql/head.sql")).await?;
        let rows: Vec<(String, i64, Option<String>)> = self.rows(include_str!("../sql/look.sql")).await?;
        let subscribers = rows.into_iter().map(|(id, checkpoint, label)| {
            // Who is alone leads without a lock, and so without a label.
            let alone = role(&id).filter(|role| role.alone).map(|_| ALONE_IN);
            (id, checkpoint as u64, label.and_then(|label| label.parse().ok()).or(alone))
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
        let dead_letters: Vec<(String, i64, Uuid, Uuid, String, bool)> =
            self.rows(include_str!("../sql/dead_letters_all.sql")).await?;
        let dead_letter =
            |(subscriber_id, global_sequence, event_id, stream_id, state, parks): (_, i64, _, _, _, _)| DeadLetter {
                subscriber_id,
                global_sequence: global_sequence as u64,
                event_id,
                stream_id,
                state,
                parks,
            };
        evidence.dead_letters = dead_letters.into_iter().map(dead_letter).collect();
        let (_, subscribers) = self.progress().await?;
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

async fn kill_one(connection: &mut PgConnection, pattern: &str, after: Duration) -> Result<(), BoxError> {
    tokio::time::sleep(after).await;
    let victim = sqlx::query_scalar(include_str!("../sql/postgres/victim.sql")).bind(pattern);
    kill_process(pid(victim.fetch_optional(&mut *connection).await?)?, Signal::KILL)?;
    match sqlx::query(include_str!("../sql/postgres/wait.sql")).execute(connection).await {
        Err(_) => Ok(()),
        Ok(_) => Err("the server continued as if nothing had happened".into()),
    }
}

fn pid(found: Option<i32>) -> Result<Pid, BoxError> {
    Ok(found.and_then(Pid::from_raw).ok_or("the server has no such process")?)
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
