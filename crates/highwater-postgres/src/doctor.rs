//! Whether what the order rests on is still as it was made.

use highwater::Error;
use sqlx::Row;

use crate::error::failed;
use crate::row::unsigned;
use crate::store::PgEventStore;

impl PgEventStore {
    /// Checks what the order of the log rests on: that `global_sequence` is an identity column that draws from its own
    /// sequence, one by one and without a cache, and that the sequence has not fallen behind the events.
    ///
    /// # Errors
    /// [`Error::Unfit`] with everything that is wrong and what to do about it.
    pub async fn verify(&self) -> Result<(), Error> {
        let read_failed = |e| failed("check the layout of the database", e);
        let row =
            sqlx::query(self.inner.sql.basis.clone()).fetch_optional(&self.inner.pool).await.map_err(read_failed)?;
        let Some(row) = row else {
            return Err(Error::Unfit {
                reason:
                    "events.global_sequence or its sequence events_global_sequence_seq is missing; call initialize() \
                         on an empty schema, or restore them"
                        .to_owned(),
            });
        };
        let mut problems = Vec::new();
        for (column, problem) in [
            ("identity", "global_sequence is not GENERATED ALWAYS AS IDENTITY: ALTER TABLE … SET GENERATED ALWAYS"),
            ("cache", "its sequence has a cache, which hands out numbers out of order: ALTER SEQUENCE … CACHE 1"),
            ("increment", "its sequence does not count by one: ALTER SEQUENCE … INCREMENT 1"),
            ("cycle", "its sequence starts again when it is used up: ALTER SEQUENCE … NO CYCLE"),
            ("owned", "its sequence is not events_global_sequence_seq"),
        ] {
            if !row.try_get::<Option<bool>, _>(column).map_err(read_failed)?.unwrap_or(false) {
                problems.push(problem.to_owned());
            }
        }
        let highest = unsigned(row.try_get("highest").map_err(read_failed)?);
        let last_value = unsigned(row.try_get("last_value").map_err(read_failed)?);
        if last_value < highest {
            problems.push(format!(
                "the sequence stands at {last_value}, below the highest event {highest}: while nobody writes, \
                 SELECT setval('{}', {highest})",
                self.inner.schema.render("{schema_text}.events_global_sequence_seq"),
            ));
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Unfit { reason: problems.join("; ") }) }
    }
}
