//! The layout of the database: versioned, and brought up to date in place.

mod plan;

use std::error::Error as StdError;
use std::time::Duration;

use highwater::Error;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};

use crate::error::{failed, in_time, sqlstate};
use crate::own_pool::ANSWER_TIMEOUT;
use crate::store::PgEventStore;

/// How long a migration waits for a table that a transaction holds, and how often it tries. Appends queue behind it for as long
/// as it waits, and rest as long until the next try.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const TRIES_MAX: u32 = 15;

const LOOK: &str = "look at the layout of the database";

struct Migration {
    version: i32,
    name: &'static str,
    does: &'static str,
    sql: &'static str,
    /// In its place when an application has such tables already.
    adopt: Option<Adopt>,
    /// Relations that must not be there yet.
    creates: &'static [&'static str],
    /// The oldest layout that a library may have been written for and still work with this one, so that instances can be
    /// upgraded one after another.
    oldest: i32,
}

#[derive(Clone, Copy)]
struct Adopt {
    /// If one of these is there.
    tables: &'static [&'static str],
    does: &'static str,
    sql: &'static str,
}

/// All migrations, in order. They are never changed once released, only added to.
const MIGRATIONS: [Migration; 6] = [
    Migration {
        version: 1,
        name: "events",
        does: "creates the table of events, and the schema where it is missing",
        sql: include_str!("../migrations/0001_events.sql"),
        adopt: Some(Adopt {
            tables: &["events"],
            does: "makes the events table that is there the log: its rows are numbered, and it is locked meanwhile",
            sql: include_str!("../migrations/0001_adopt.sql"),
        }),
        creates: &[],
        oldest: 1,
    },
    Migration {
        version: 2,
        name: "append",
        does: "creates the functions that append",
        sql: include_str!("../migrations/0002_append.sql"),
        adopt: None,
        creates: &[],
        oldest: 2,
    },
    Migration {
        version: 3,
        name: "delivery",
        does: "creates the tables of checkpoints, pauses, dead letters and requests",
        sql: include_str!("../migrations/0003_delivery.sql"),
        adopt: Some(Adopt {
            tables: &["event_bus_checkpoints", "event_bus_dlq"],
            does: "creates the tables of checkpoints, pauses, dead letters and requests, or adopts those that are there",
            sql: concat!(include_str!("../migrations/0003_adopt.sql"), include_str!("../migrations/0003_delivery.sql")),
        }),
        creates: &["event_bus_terms", "event_bus_pauses", "event_bus_dlq_attempts", "event_bus_requests"],
        oldest: 3,
    },
    Migration {
        version: 4,
        name: "leadership",
        does: "creates the tables of leaders, of what they report, and of instances",
        sql: include_str!("../migrations/0004_leadership.sql"),
        adopt: None,
        creates: &["event_bus_leaders", "event_bus_instances", "event_bus_reports"],
        oldest: 4,
    },
    Migration {
        version: 5,
        name: "filling",
        does: "creates the table that locks a store while it is being filled",
        sql: include_str!("../migrations/0005_filling.sql"),
        adopt: None,
        creates: &["filling"],
        oldest: 5,
    },
    Migration {
        version: 6,
        name: "life",
        does: "creates the tables that tell one life of the server from the next, and how far the order is settled",
        sql: include_str!("../migrations/0006_life.sql"),
        adopt: None,
        creates: &["server_life", "settled"],
        oldest: 6,
    },
];

const LATEST: i32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// What is there.
struct Layout {
    schema: bool,
    migrations: bool,
    /// Of the tables that can be adopted.
    tables: Vec<String>,
    version: i32,
}

impl Layout {
    fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|there| there == table)
    }
}

impl Migration {
    /// How this migration adopts what is there, if anything is.
    fn adopts(&self, layout: &Layout) -> Option<Adopt> {
        self.adopt.filter(|adopt| adopt.tables.iter().any(|table| layout.has(table)))
    }
}

impl PgEventStore {
    /// Creates everything, or brings an older layout up to date in place. May be called any number of times, and by
    /// several instances at once: one does the work, the others wait for it.
    ///
    /// When there is nothing to do it needs no more rights than reading, so that an application's own role may call it.
    /// An events table without numbers, in the same schema, is adopted: its rows are numbered by `created_at` and `id`.
    ///
    /// # Errors
    /// [`Error::Unfit`] when the database was laid out by a newer version of the library, or when what the order rests on
    /// has been tampered with; [`Error::Denied`] when there is something to do and the role may not.
    pub async fn initialize(&self) -> Result<(), Error> {
        // A caller that stops waiting in the middle leaves a transaction open: it ends with the connection. Migrating has no
        // time-out: a large table takes long, and so does another instance that is at it.
        let mut lent = self.inner.own_pool.lend().await?;
        let mut tries = 1;
        while in_time(ANSWER_TIMEOUT, LOOK, self.layout(lent.kept.connection())).await?.version < LATEST {
            match self.migrate(lent.kept.connection()).await {
                Err(Error::Unavailable { source, .. }) if is_held(&*source) && tries < TRIES_MAX => {
                    tracing::warn!(error = %source, tries, "another transaction holds a table to be migrated; retrying");
                    tries += 1;
                    tokio::time::sleep(LOCK_TIMEOUT).await;
                }
                migrated => migrated?,
            }
        }
        lent.give_back();
        self.verify().await
    }

    async fn migrate(&self, connection: &mut PgConnection) -> Result<(), Error> {
        let failed = |e| self.failed("initialize", e);
        let inner = &self.inner;
        let mut tx = connection.begin().await.map_err(failed)?;
        sqlx::query(inner.sql.migrations_lock.clone())
            .bind(inner.schema.as_str())
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        // Checked again: another instance may have done it while we waited.
        let layout = self.layout(&mut tx).await?;
        let patience = LOCK_TIMEOUT.as_millis().to_string();
        sqlx::query(inner.sql.migrations_wait.clone()).bind(patience).execute(&mut *tx).await.map_err(failed)?;
        sqlx::query(inner.sql.encoding_check.clone()).execute(&mut *tx).await.map_err(failed)?;
        if !layout.schema {
            sqlx::query(inner.sql.schema_create.clone()).execute(&mut *tx).await.map_err(failed)?;
        }
        sqlx::query(inner.sql.migrations_create.clone()).execute(&mut *tx).await.map_err(failed)?;
        for migration in MIGRATIONS.iter().filter(|migration| migration.version > layout.version) {
            let sql = migration.adopts(&layout).map_or(migration.sql, |adopt| adopt.sql);
            tracing::info!(schema = inner.schema.as_str(), migration.version, migration.name, "migrating");
            // Safe: the text is ours, and the schema's name is checked and quoted.
            let sql = AssertSqlSafe(inner.schema.render(sql));
            sqlx::raw_sql(sql).execute(&mut *tx).await.map_err(unfit)?;
            sqlx::query(inner.sql.migrations_record.clone())
                .bind(migration.version)
                .bind(migration.name)
                .bind(migration.oldest)
                .execute(&mut *tx)
                .await
                .map_err(failed)?;
        }
        tx.commit().await.map_err(failed)?;
        if layout.has("events") {
            self.validate(connection).await;
        }
        Ok(())
    }

    /// Constraints of a table with rows, after a migration that added them.
    async fn validate(&self, connection: &mut PgConnection) {
        // No reason not to work: new rows keep it, and diagnosing says that it is not validated.
        if let Err(error) = sqlx::query(self.inner.sql.validate.clone()).execute(connection).await {
            match sqlstate(&error).as_deref() {
                Some("23514") => {
                    tracing::warn!(%error, "rows from before do not keep a constraint of the events table")
                }
                _ => tracing::warn!(%error, "cannot validate a constraint of the events table; validate it by hand"),
            }
        }
    }

    async fn layout(&self, connection: &mut PgConnection) -> Result<Layout, Error> {
        let failed = |e| failed(LOOK, e);
        let row = sqlx::query(self.inner.sql.layout.clone())
            .bind(self.inner.schema.as_str())
            .fetch_one(&mut *connection)
            .await
            .map_err(failed)?;
        let mut layout = Layout {
            schema: row.try_get(0).map_err(failed)?,
            migrations: row.try_get(1).map_err(failed)?,
            tables: row.try_get(2).map_err(failed)?,
            version: 0,
        };
        if layout.migrations {
            let row = sqlx::query(self.inner.sql.migrations.clone()).fetch_one(connection).await.map_err(failed)?;
            layout.version = row.try_get(0).map_err(failed)?;
            // A newer layout records whether versions that do not know it can work with it.
            let oldest: i32 = row.try_get(1).map_err(failed)?;
            if oldest > LATEST {
                return Err(Error::Unfit {
                    reason: format!(
                        "schema {:?} is at migration {}, which needs a library that knows {oldest}, but this version of \
                         highwater-postgres knows only {LATEST}; upgrade the library",
                        self.inner.schema.as_str(),
                        layout.version,
                    ),
                });
            }
        }
        Ok(layout)
    }
}

/// Whether a lock could not be had in time.
fn is_held(source: &(dyn StdError + Send + Sync + 'static)) -> bool {
    source.downcast_ref().and_then(sqlstate).as_deref() == Some("55P03")
}

/// A table that cannot be adopted as it is says why; everything else is as usual.
fn unfit(error: sqlx::Error) -> Error {
    let code = sqlstate(&error).unwrap_or_default();
    // Data that does not fit a column, violates a constraint, or a column that is not there or of another kind.
    if code.starts_with("22")
        || code.starts_with("23")
        || matches!(code.as_str(), "42703" | "42804" | "42846" | "42P16")
    {
        let said = error.as_database_error().map_or_else(String::new, |error| error.message().to_owned());
        return cannot_adopt(&said);
    }
    // A table, a constraint or a function of the same name.
    if matches!(code.as_str(), "42P07" | "42710" | "42723") {
        let said = error.as_database_error().map_or_else(String::new, |error| error.message().to_owned());
        return in_the_way(&said);
    }
    failed("initialize", error)
}

fn cannot_adopt(said: &str) -> Error {
    Error::Unfit { reason: format!("a table that is there cannot be adopted: {said}") }
}

fn in_the_way(said: &str) -> Error {
    Error::Unfit { reason: format!("{said}, and it is not Highwater's: move it away, or choose another schema") }
}
