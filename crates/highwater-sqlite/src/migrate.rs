//! The layout of the database: versioned, and brought up to date in place.

use std::path::Path;
use std::time::Duration;

use highwater::Error;
use highwater::backend::Planned;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use crate::error::failed;
use crate::gate;
use crate::row::now;
use crate::sql;
use crate::store::SqliteEventStore;

/// By this number a file is known as Highwater's: "HWtr".
const APPLICATION_ID: i64 = 0x4857_7472;
/// How long to wait for another process that initializes the database.
const PATIENCE: Duration = Duration::from_secs(30);

struct Migration {
    version: i64,
    name: &'static str,
    does: &'static str,
    sql: &'static str,
    /// The oldest layout that a library may have been written for and still work with this one.
    oldest: i64,
}

/// All migrations, in order. They are never changed once released, only added to.
const MIGRATIONS: [Migration; 5] = [
    Migration {
        version: 1,
        name: "events",
        does: "creates the table of events",
        sql: include_str!("../migrations/0001_events.sql"),
        oldest: 1,
    },
    Migration {
        version: 2,
        name: "delivery",
        does: "creates the tables of checkpoints, pauses, dead letters and requests",
        sql: include_str!("../migrations/0002_delivery.sql"),
        oldest: 2,
    },
    Migration {
        version: 3,
        name: "leadership",
        does: "creates the tables of leaders, of what they report, and of instances",
        sql: include_str!("../migrations/0003_leadership.sql"),
        oldest: 3,
    },
    Migration {
        version: 4,
        name: "filling",
        does: "creates the table that locks a store while it is being filled",
        sql: include_str!("../migrations/0004_filling.sql"),
        oldest: 4,
    },
    Migration {
        version: 5,
        name: "life",
        does: "creates the table that tells one life of the log from the next",
        sql: include_str!("../migrations/0005_life.sql"),
        oldest: 5,
    },
];

const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Which layout a file has; 0 when it is empty.
///
/// # Errors
/// [`Error::Unfit`] when it belongs to another application, or is too new.
pub(crate) async fn read_layout(connection: &mut SqliteConnection, path: &Path) -> Result<i64, Error> {
    let look_failed = |e| failed("look at the database", e);
    let unfit = |why: String| Error::Unfit { reason: format!("{} {why}", path.display()) };
    let (application_id, ours, tables): (i64, i64, i64) =
        sqlx::query_as(sql::layout).fetch_one(&mut *connection).await.map_err(look_failed)?;
    if application_id == 0 && tables == 0 {
        return Ok(0);
    }
    if application_id != APPLICATION_ID || ours == 0 {
        return Err(unfit(format!(
            "is not a Highwater database (application_id {application_id}, {tables} tables); name another file"
        )));
    }
    let row = sqlx::query(sql::migrations).fetch_one(&mut *connection).await.map_err(look_failed)?;
    let (version, oldest): (i64, i64) = (row.try_get(0).map_err(look_failed)?, row.try_get(1).map_err(look_failed)?);
    if oldest > LATEST {
        return Err(unfit(format!(
            "is at migration {version}, which needs a library that knows {oldest}, but this version of highwater-sqlite \
             knows only {LATEST}; upgrade the library"
        )));
    }
    Ok(version)
}

/// Creates everything in an empty database, for callers that need the expected layout.
pub(crate) async fn make_everything(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::query(sql::migrations_create).execute(&mut *connection).await?;
    for migration in &MIGRATIONS {
        sqlx::raw_sql(migration.sql).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Switches to write-ahead logging, for good. Other processes that are just opening the file are waited for.
pub(crate) async fn log_ahead(connection: &mut SqliteConnection, path: &Path) -> Result<(), Error> {
    let started = tokio::time::Instant::now();
    loop {
        match sqlx::query_scalar::<_, String>(sql::wal).fetch_one(&mut *connection).await {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let reason = format!(
                    "{} cannot be switched to write-ahead logging (it stays with {mode:?}); use a local disk",
                    path.display()
                );
                return Err(Error::Unfit { reason });
            }
            Err(error) => gate::ask_again(error, started, PATIENCE, async || Some(path.to_owned())).await?,
        }
    }
}

impl SqliteEventStore {
    /// What `initialize` would do. Nothing is locked, and nothing is tried.
    pub(crate) async fn plan(&self) -> Result<Vec<Planned>, Error> {
        let mut connection = self.inner.pool.acquire().await.map_err(|e| failed("look at the database", e))?;
        let version = read_layout(&mut connection, &self.inner.path).await?;
        let missing = MIGRATIONS.iter().filter(|migration| migration.version > version);
        let planned = |migration: &Migration| {
            Planned::new(u32::try_from(migration.version).unwrap_or(u32::MAX), migration.name, migration.does)
        };
        Ok(missing.map(planned).collect())
    }

    /// Creates everything, or brings an older layout up to date in place. May be called any number of times, and by
    /// several processes at once: one does the work, the others wait for it.
    ///
    /// # Errors
    /// [`Error::Unfit`] when the file is another application's, or was laid out by a newer version of the library.
    pub async fn initialize(&self) -> Result<(), Error> {
        let connect_failed = |e| failed("initialize", e);
        // One that waits: while another process switches to write-ahead logging even looking is not possible for a moment.
        let mut connection = self.inner.connector.connect().await.map_err(connect_failed)?;
        if read_layout(&mut connection, &self.inner.path).await? >= LATEST {
            return Ok(());
        }
        let _permit = self.inner.gate.enter("initialize", PATIENCE).await?;
        log_ahead(&mut connection, &self.inner.path).await?;
        gate::begin_on(&mut connection, PATIENCE).await?;
        let migrated = match self.migrate(&mut connection).await {
            Ok(()) => gate::commit_on(&mut connection).await.map_err(connect_failed),
            Err(error) => Err(error),
        };
        if migrated.is_err() {
            gate::rollback_on(&mut connection).await;
        }
        migrated
    }

    async fn migrate(&self, connection: &mut SqliteConnection) -> Result<(), Error> {
        let migrate_failed = |e| failed("initialize", e);
        // Checked again: another process may have done it while we waited.
        let version = read_layout(connection, &self.inner.path).await?;
        if version == 0 {
            sqlx::query(sql::claim_file).execute(&mut *connection).await.map_err(migrate_failed)?;
        }
        sqlx::query(sql::migrations_create).execute(&mut *connection).await.map_err(migrate_failed)?;
        for migration in MIGRATIONS.iter().filter(|migration| migration.version > version) {
            tracing::info!(path = %self.inner.path.display(), migration.version, migration.name, "migrating");
            sqlx::raw_sql(migration.sql).execute(&mut *connection).await.map_err(migrate_failed)?;
            sqlx::query(sql::migrations_record)
                .bind(migration.version)
                .bind(migration.name)
                .bind(migration.oldest)
                .bind(now())
                .execute(&mut *connection)
                .await
                .map_err(migrate_failed)?;
        }
        Ok(())
    }
}
