//! What a file says about its own health.
//!
//! Each check is its own function that returns what it found. One that fails becomes a finding, and the others continue.

mod delivery;
mod file;
mod layout;

use highwater::Error;
use highwater::backend::{BoxFuture, Diagnose, Finding, Planned, diagnose_kinds, diagnose_subscribers};

use crate::store::SqliteEventStore;

type Examination<'a> = (&'static str, BoxFuture<'a, Result<Vec<Finding>, Error>>);

impl Diagnose for SqliteEventStore {
    fn diagnose(&self) -> BoxFuture<'_, Result<Vec<Finding>, Error>> {
        Box::pin(async move { Ok(self.findings().await) })
    }

    fn planned(&self) -> BoxFuture<'_, Result<Vec<Planned>, Error>> {
        Box::pin(self.plan())
    }
}

impl SqliteEventStore {
    async fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let about_the_file: Vec<Examination<'_>> = vec![
            ("place", Box::pin(file::place(self))),
            ("durability", Box::pin(file::durability(self))),
            ("write-ahead log", Box::pin(file::write_ahead_log(self))),
            ("writers", Box::pin(file::writers(self))),
            ("pages", Box::pin(file::pages(self))),
            ("growth", Box::pin(file::growth(self))),
            ("instances", Box::pin(delivery::instances(self))),
        ];
        look_at(about_the_file, &mut findings).await;
        let (layout, complete) = layout::layout(self).await;
        findings.extend(layout);
        // What is not there is not checked; the layout reports it.
        if complete {
            let about_the_log: Vec<Examination<'_>> = vec![
                ("journal", Box::pin(file::journal(self))),
                ("streams", Box::pin(file::streams(self))),
                ("rows", Box::pin(file::rows(self))),
                ("stream names", Box::pin(diagnose_kinds(self))),
                ("filling", Box::pin(delivery::filling(self))),
                ("dead letters", Box::pin(delivery::dead_letters(self))),
                ("subscribers", Box::pin(diagnose_subscribers(self))),
            ];
            look_at(about_the_log, &mut findings).await;
        }
        findings
    }
}

async fn look_at(looks: Vec<Examination<'_>>, findings: &mut Vec<Finding>) {
    for (topic, look) in looks {
        match look.await {
            Ok(found) => findings.extend(found),
            Err(error) => findings.push(not_seen(topic, &error)),
        }
    }
}

/// What could not be checked.
fn not_seen(topic: &'static str, error: &Error) -> Finding {
    let why = std::error::Error::source(error).map_or_else(String::new, |why| format!(": {why}"));
    let found = format!("it could not be looked at: {error}{why}");
    match error {
        Error::Unfit { .. } | Error::Damaged { .. } => Finding::bad(topic, found, "do what it says, and look again"),
        _ => Finding::warning(topic, found, "see that the file and the disk are well, and look again"),
    }
}
