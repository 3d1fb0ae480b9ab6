//! The file itself, and what lies beside it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use highwater::Error;
use highwater::backend::{Finding, diagnose_rows};
use sqlx::Row;
use tokio::time::Instant;

use crate::error::failed;
use crate::holder::LockingProcess;
use crate::sql;
use crate::store::SqliteEventStore;

/// A file that is larger is not read from end to end.
const READ_MAX: i64 = 1 << 30;
/// SQLite puts its log into the file from 4 MB on, unless a reader still uses what was there before.
const LOG_MAX: u64 = 64 << 20;
/// A transaction that is open for longer keeps others waiting.
const OPEN_MAX: Duration = Duration::from_secs(1);
/// How long to wait before the holder of the lock is checked again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Whether this process writes where others read.
pub(super) async fn place(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    store.inner.gate.file().still_has_its_name()?;
    Ok(vec![Finding::good("place", "the file is where it was opened")])
}

/// What the connections that write have, whatever they were told.
pub(super) async fn durability(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "durability";
    let synchronous = sqlx::query_scalar::<_, i64>(sql::diagnose_synchronous).fetch_one(&store.inner.writers).await;
    let advice = "open it with Synchronous::Full wherever events matter";
    Ok(vec![match synchronous.map_err(|e| failed("ask what a commit waits for", e))? {
        0 => Finding::bad(TOPIC, "synchronous is OFF: a crash of the machine may destroy the database", advice),
        1 => {
            let found = "commits do not wait for the disk: a crash of the machine may take back the last appends";
            Finding::note(TOPIC, found, advice)
        }
        _ => Finding::good(TOPIC, "every commit waits for the disk"),
    }])
}

pub(super) async fn journal(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "journal";
    let mode: String = sqlx::query_scalar(sql::diagnose_journal)
        .fetch_one(&store.inner.pool)
        .await
        .map_err(|e| failed("ask how the file is written", e))?;
    Ok(vec![match mode.as_str() {
        "wal" => Finding::good(TOPIC, "it is written ahead, so that readers and the writer do not wait for each other"),
        _ => Finding::warning(
            TOPIC,
            format!("the journal is {mode:?} and not \"wal\": readers and the writer wait for each other"),
            "let no other program change it; opening the file again sets it back",
        ),
    }])
}

fn log_of(store: &SqliteEventStore) -> PathBuf {
    let mut log = store.inner.path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// How much is not in the file yet. Without a log there is nothing.
pub(super) async fn write_ahead_log(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    let bytes = std::fs::metadata(log_of(store)).map_or(0, |log| log.len());
    Ok(vec![log_of_size(bytes)])
}

fn log_of_size(bytes: u64) -> Finding {
    const TOPIC: &str = "write-ahead log";
    let megabytes = bytes as f64 / 1e6;
    if bytes <= LOG_MAX {
        return Finding::good(TOPIC, format!("{megabytes:.1} MB"));
    }
    Finding::warning(
        TOPIC,
        format!("it has grown to {megabytes:.0} MB: a reader has, or had, a transaction open for long"),
        "end transactions that only read; it shrinks when the last process closes the database",
    )
}

/// Which process blocks all other writers. A lock is there for a moment with every commit, so it is watched for a while.
pub(super) async fn writers(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "writers";
    let advice = "end it; transactions that write should be short, since no other writer can write meanwhile";
    let path = &store.inner.path;
    let written = || std::fs::metadata(log_of(store)).and_then(|log| log.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let (started, first, before) = (Instant::now(), LockingProcess::of(path), written());
    while started.elapsed() < OPEN_MAX {
        // What is written meanwhile is most likely another commit.
        if first.is_none() || LockingProcess::of(path) != first || written() != before {
            return Ok(vec![Finding::good(TOPIC, "no writer keeps the others from writing")]);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let Some(holder) = first else { return Ok(Vec::new()) };
    let found = match store.inner.gate.open() {
        Some((what, since)) if holder.pid == std::process::id() => {
            format!("{what} of this process has been open for {since:.1?}")
        }
        _ => format!("{holder} has kept the write lock for more than {OPEN_MAX:?}"),
    };
    Ok(vec![Finding::warning(TOPIC, found, advice)])
}

async fn size(store: &SqliteEventStore) -> Result<(i64, i64), Error> {
    let read_failed = |e| failed("measure the file", e);
    let row = sqlx::query(sql::diagnose_file).fetch_one(&store.inner.pool).await.map_err(read_failed)?;
    Ok((row.try_get(0).map_err(read_failed)?, row.try_get(1).map_err(read_failed)?))
}

/// Whether every page is what it should be.
pub(super) async fn pages(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "pages";
    if size(store).await?.0 > READ_MAX {
        let advice = "to look, run: sqlite3 FILE 'PRAGMA quick_check', with a copy that highwater backup has made";
        return Ok(vec![Finding::note(TOPIC, "they were not read: the file is larger than 1 GB", advice)]);
    }
    let said: Vec<String> = sqlx::query_scalar(sql::diagnose_pages)
        .fetch_all(&store.inner.pool)
        .await
        .map_err(|e| failed("read the file from end to end", e))?;
    if said == ["ok"] {
        return Ok(vec![Finding::good(TOPIC, "every one is as it should be")]);
    }
    let advice = "restore a backup, or save what can be read with the sqlite3 command's .recover";
    Ok(vec![Finding::bad(TOPIC, format!("the file is damaged: {}", said.join("; ")), advice)])
}

/// Whether events are missing in the middle.
pub(super) async fn streams(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "streams";
    if size(store).await?.0 > READ_MAX {
        let advice = "to look, group events by stream: where count(*) is not max(stream_version), some are missing";
        return Ok(vec![Finding::note(TOPIC, "they were not counted: the file is larger than 1 GB", advice)]);
    }
    let holes: Vec<(String, i64, i64)> = sqlx::query_as(sql::diagnose_streams)
        .fetch_all(&store.inner.pool)
        .await
        .map_err(|e| failed("count the events of streams", e))?;
    if holes.is_empty() {
        return Ok(vec![Finding::good(TOPIC, "none has a hole")]);
    }
    let hole = |(stream, count, last): (String, i64, i64)| {
        let found = format!("stream {stream} is at version {last} and has {count} events: some were deleted");
        Finding::bad(TOPIC, found, "restore a backup, and delete no events by hand")
    };
    Ok(holes.into_iter().map(hole).collect())
}

/// Whether every row is one that we could have written.
pub(super) async fn rows(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    if size(store).await?.0 > READ_MAX {
        let advice =
            "to look, copy what highwater backup has made into an empty store: what is damaged is refused and named";
        return Ok(vec![Finding::note("rows", "they were not read: the file is larger than 1 GB", advice)]);
    }
    let damaged = sqlx::query_as(sql::diagnose_rows).fetch_all(&store.inner.pool).await;
    Ok(diagnose_rows(damaged.map_err(|e| failed("look at every row", e))?))
}

pub(super) async fn growth(store: &SqliteEventStore) -> Result<Vec<Finding>, Error> {
    let (bytes, free) = size(store).await?;
    let megabytes = |bytes: i64| bytes as f64 / 1e6;
    let found = format!("{:.1} MB, of which {:.1} MB are free to be used again", megabytes(bytes), megabytes(free));
    Ok(vec![Finding::good("growth", found)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater::backend::Severity;

    #[test]
    fn a_log_that_cannot_shrink_is_named() {
        assert_eq!(log_of_size(4 << 20).severity, Severity::Good);
        assert_eq!(log_of_size(LOG_MAX + 1).severity, Severity::Warning);
    }
}
