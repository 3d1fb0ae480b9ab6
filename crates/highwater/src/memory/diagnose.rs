//! The health of memory: as long as there is a process, there is a store.

use super::MemoryEventStore;
use crate::{BoxFuture, Diagnose, Error, Finding, Planned, Transfer, Unfinished, diagnose_kinds, diagnose_subscribers};

impl Diagnose for MemoryEventStore {
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        let found = "it lives in memory, and ends with the last handle to it";
        Box::pin(async move {
            let unfinished = self.filling().await?;
            let mut findings = vec![Finding::good("store", found), Unfinished::finding(unfinished.as_ref())];
            findings.extend(diagnose_kinds(self).await?);
            findings.extend(diagnose_subscribers(self).await?);
            Ok(findings)
        })
    }

    /// Never anything.
    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
