//! Dead letters that wait for an operator.

use highwater::backend::Finding;
use highwater::{Error, ReliableDeliveryConfig};
use sqlx::Row;

use super::words;
use crate::error::failed;
use crate::own_pool::InTime;
use crate::store::PgEventStore;

/// Open dead letters, and what is left of resolved ones.
pub(super) async fn dead_letters(store: &PgEventStore) -> Result<Vec<Finding>, Error> {
    const TOPIC: &str = "dead letters";
    let read_failed = |e| failed("count dead letters", e);
    let retention = ReliableDeliveryConfig::default().dead_letter_retention;
    let before = chrono::Utc::now() - retention;
    let asking = sqlx::query(store.inner.sql.diagnose_dead_letters.clone()).bind(before);
    let row = asking.fetch_one_in_time(&store.inner.own_pool).await.map_err(read_failed)?;
    let count = |column| row.try_get::<i64, _>(column).map_err(read_failed);
    let (dead, parked) = (count("dead")?, count("parked")?);
    let (resolved, finished) = (count("resolved")?, count("finished")?);
    let mut findings = Vec::new();
    if dead + parked > 0 {
        let found = format!("{dead} wait to be replayed or discarded, and {parked} are parked behind them");
        findings.push(Finding::warning(TOPIC, found, "list them, fix the handler, then replay or discard them"));
    }
    if resolved + finished > 0 {
        let days = words::seconds(retention.as_secs_f64());
        let found = format!("{resolved} resolved dead letters and {finished} finished requests are older than {days}");
        let advice =
            "the leaders of their subscribers delete them; for subscribers that are gone, purge_dead_letters()";
        findings.push(Finding::note(TOPIC, found, advice));
    }
    if findings.is_empty() {
        findings.push(Finding::good(TOPIC, "none waits for an operator"));
    }
    Ok(findings)
}
