//! Faults of looking at oneself.

use std::sync::atomic::{AtomicBool, Ordering};

use highwater::backend::{BoxFuture, Finding, Log, Planned};
use highwater::{Append, Error};
use serde_json::Value;
use uuid::Uuid;

use crate::faulty::{Fault, Sound};

/// Cries wolf.
pub(crate) struct CallsWhatIsHealthyBad;

impl Fault for CallsWhatIsHealthyBad {
    fn diagnose<'a>(&'a self, _: &'a Sound) -> BoxFuture<'a, Result<Vec<Finding>, Error>> {
        Box::pin(async { Ok(vec![Finding::bad("store", "it has events", "delete them")]) })
    }
}

/// Is never done.
pub(crate) struct PlansForEver;

impl Fault for PlansForEver {
    fn planned<'a>(&'a self, _: &'a Sound) -> BoxFuture<'a, Result<Vec<Planned>, Error>> {
        Box::pin(async { Ok(vec![Planned::new(1, "events", "creates the table of events")]) })
    }
}

/// Says that something is wrong and leaves it at that.
pub(crate) struct GivesNoAdvice;

impl Fault for GivesNoAdvice {
    fn diagnose<'a>(&'a self, _: &'a Sound) -> BoxFuture<'a, Result<Vec<Finding>, Error>> {
        Box::pin(async {
            let mut finding = Finding::note("store", "it is not quite as it should be", "");
            finding.advice = None;
            Ok(vec![finding])
        })
    }
}

/// Says the same in another order every time.
#[derive(Default)]
pub(crate) struct TellsInAnyOrder(AtomicBool);

impl Fault for TellsInAnyOrder {
    fn diagnose<'a>(&'a self, _: &'a Sound) -> BoxFuture<'a, Result<Vec<Finding>, Error>> {
        Box::pin(async {
            let mut findings = vec![Finding::good("store", "it is there"), Finding::good("layout", "it is complete")];
            if self.0.fetch_xor(true, Ordering::Relaxed) {
                findings.reverse();
            }
            Ok(findings)
        })
    }
}

/// Finds out whether events can be stored by storing one.
pub(crate) struct LeavesATraceOfLooking;

impl Fault for LeavesATraceOfLooking {
    fn diagnose<'a>(&'a self, sound: &'a Sound) -> BoxFuture<'a, Result<Vec<Finding>, Error>> {
        Box::pin(async move {
            sound.memory.append(&Append::to(Uuid::now_v7()).event(Probe::Looked(Value::Null))).await?;
            Ok(vec![Finding::good("store", "events can be stored")])
        })
    }
}

#[derive(serde::Serialize)]
enum Probe {
    Looked(Value),
}
