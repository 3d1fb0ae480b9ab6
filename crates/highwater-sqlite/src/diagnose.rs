//! What a file says about its own health.

use highwater::{BoxFuture, DeadLetters, Diagnose, Error, Finding, LetterQuery, Planned};
use sqlx::Row;

use crate::Synchronous;
use crate::error::failed;
use crate::sql;
use crate::store::SqliteEventStore;

impl Diagnose for SqliteEventStore {
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        Box::pin(async move {
            let (layout, complete) = self.layout().await;
            let mut findings = vec![self.durability(), layout];
            if complete {
                for (topic, looked) in [
                    ("journal", self.journal().await),
                    ("growth", self.growth().await),
                    ("dead letters", self.open_letters().await),
                ] {
                    findings.push(looked.unwrap_or_else(|error| {
                        let advice = "see that the file and the disk are well, and look again";
                        Finding::warning(topic, format!("it could not be looked at: {error}"), advice)
                    }));
                }
            }
            Ok(findings)
        })
    }

    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        Box::pin(self.plan())
    }
}

impl SqliteEventStore {
    fn durability(&self) -> Finding {
        const TOPIC: &str = "durability";
        match self.inner.config.synchronous {
            Synchronous::Full => Finding::good(TOPIC, "every commit waits for the disk"),
            Synchronous::Normal => Finding::note(
                TOPIC,
                "commits do not wait for the disk: a crash of the machine may take back the last appends",
                "open it with Synchronous::Full wherever events matter",
            ),
        }
    }

    /// And whether everything is there.
    async fn layout(&self) -> (Finding, bool) {
        const TOPIC: &str = "layout";
        match self.plan().await {
            Ok(planned) if planned.is_empty() => (Finding::good(TOPIC, "it is up to date"), true),
            Ok(planned) => {
                let steps: Vec<String> =
                    planned.iter().map(|step| format!("{} ({}) {}", step.version, step.name, step.does)).collect();
                let found = format!("it is not up to date: {}", steps.join("; "));
                (Finding::bad(TOPIC, found, "call initialize()"), false)
            }
            Err(error) => (Finding::bad(TOPIC, error.to_string(), "do what it says, and look again"), false),
        }
    }

    async fn journal(&self) -> Result<Finding, Error> {
        const TOPIC: &str = "journal";
        let mode: String = sqlx::query_scalar(sql::diagnose_journal)
            .fetch_one(&self.inner.pool)
            .await
            .map_err(|e| failed("ask how the file is written", e))?;
        Ok(match mode.as_str() {
            "wal" => {
                Finding::good(TOPIC, "it is written ahead, so that readers and the writer do not wait for each other")
            }
            _ => Finding::warning(
                TOPIC,
                format!("the journal is {mode:?} and not \"wal\": readers and the writer wait for each other"),
                "let nobody else change it; opening the file again sets it back",
            ),
        })
    }

    async fn growth(&self) -> Result<Finding, Error> {
        let read_failed = |e| failed("measure the file", e);
        let row = sqlx::query(sql::diagnose_file).fetch_one(&self.inner.pool).await.map_err(read_failed)?;
        let (bytes, free): (i64, i64) = (row.try_get(0).map_err(read_failed)?, row.try_get(1).map_err(read_failed)?);
        let megabytes = |bytes: i64| bytes as f64 / 1e6;
        let found = format!("{:.1} MB, of which {:.1} MB are free to be used again", megabytes(bytes), megabytes(free));
        Ok(Finding::good("growth", found))
    }

    async fn open_letters(&self) -> Result<Finding, Error> {
        const TOPIC: &str = "dead letters";
        Ok(match self.count_letters(&LetterQuery::default()).await? {
            0 => Finding::good(TOPIC, "none waits for anybody"),
            count => {
                let found = format!("{count} wait to be replayed or discarded");
                Finding::warning(TOPIC, found, "list them, mend the handler, then replay or discard them")
            }
        })
    }
}
