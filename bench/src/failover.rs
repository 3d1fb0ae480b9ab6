//! Scenario `failover`: how soon another instance resumes when the leader dies, stops or hangs, and what one costs that
//! stands by.
//!
//! Instances are processes of their own, two at a time, while this one appends an event every 2 ms. They write down when
//! they have handled what, by the clock that all of them look at. There are two pairs, each with a schema of its own and
//! all settings as they are by default, except that in one nobody watches the other. Their leaders end by turns.

mod idle;
mod pair;
mod worker;

use crate::Error;
use crate::options::Options;
use crate::report::{Report, Row, Unit};
use crate::server::Server;

use pair::{End, Pair};
pub(crate) use worker::work;

pub(crate) const ROLE: &str = "failover";

/// Leaders of each pair that end in a round.
const ENDS: usize = 4;
const ENDS_QUICK: usize = 2;

const WATCHED: &str = "killed, watched";
const SWEPT: &str = "killed, swept";
const STOPPED: &str = "stopped, watched";
const STOPPED_SWEPT: &str = "stopped, swept";
const FROZEN: &str = "frozen, watched";

/// Milliseconds.
const WATCHED_MAX: f64 = 50.0;
const SWEPT_MAX: f64 = 250.0;
const STOPPED_MAX: f64 = 100.0;
const FROZEN_MAX: f64 = 5_500.0;

/// Whether instances watch each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Watched,
    Swept,
}

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    let [mut watched, mut swept, mut stopped, mut stopped_swept, mut frozen, mut unwatched] =
        [WATCHED, SWEPT, STOPPED, STOPPED_SWEPT, FROZEN, "unwatched after a start"]
            .map(|name| Row::new(name, Unit::Milliseconds));
    let mut watching = Pair::start(server, Way::Watched).await?;
    let mut sweeping = Pair::start(server, Way::Swept).await?;
    let ends = options.rounds * if options.quick { ENDS_QUICK } else { ENDS };
    for _ in 0..ends {
        watched.push(watching.end(End::Killed).await?);
        unwatched.push(watching.replace().await?);
        swept.push(sweeping.end(End::Killed).await?);
        sweeping.replace().await?;
    }
    for _ in 0..ends {
        stopped.push(watching.end(End::Stopped).await?);
        watching.replace().await?;
        stopped_swept.push(sweeping.end(End::Stopped).await?);
        sweeping.replace().await?;
    }
    drop(sweeping);
    for _ in 0..options.rounds.div_ceil(2) {
        frozen.push(watching.end(End::Frozen).await?);
        watching.replace().await?;
    }
    drop(watching);
    let idle = idle::measure(server, options).await?;
    let rows = [watched, swept, stopped, stopped_swept, frozen, unwatched].into_iter().chain(idle).collect();
    let report = Report::new(options, rows)
        // Watched is what instances are by default.
        .figure("takeover_p99_ms", WATCHED, 0.99, Some(SWEPT_MAX))
        .figure("takeover_watched_p99_ms", WATCHED, 0.99, Some(WATCHED_MAX))
        .figure("takeover_swept_p99_ms", SWEPT, 0.99, Some(SWEPT_MAX))
        .figure("handover_p99_ms", STOPPED, 0.99, Some(STOPPED_MAX))
        .limit("hang_takeover_max_ms", FROZEN, FROZEN_MAX);
    Ok(idle::report(report))
}
