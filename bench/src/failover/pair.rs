//! Two instances, of which one leads, until it does not any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_postgres::PgConfig;
use sqlx::PgConnection;
use uuid::Uuid;

use super::Way;
use super::worker::{FIRST, Handling, Job, MORE, STOP};
use crate::Error;
use crate::child::Child;
use crate::flow::Load;
use crate::server::Server;

/// The time between two events.
const PACE: Duration = Duration::from_millis(2);
/// How much longer than needed the other has been standing by, at most: nothing that happens every 100 ms may be in step
/// with what ends the leader.
const CHANCE: Duration = Duration::from_millis(300);
/// How often to look whether the other watches the leader, and how long that may take.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// How a leader ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// By SIGKILL.
    Killed,
    /// By itself, because it is asked to: the bus is shut down.
    Stopped,
    /// By SIGSTOP: it does nothing any more, and nobody is told.
    Frozen,
}

pub(super) struct Pair<'a> {
    server: &'a Server,
    connection: PgConnection,
    way: Way,
    schema: String,
    load: Load,
    leader: Child,
    /// None after it has become the leader.
    standby: Option<Child>,
    started: usize,
}

impl<'a> Pair<'a> {
    pub(super) async fn start(server: &'a Server, way: Way) -> Result<Self, Error> {
        let schema = format!("{way:?}").to_lowercase();
        let store = server.store_with(PgConfig { schema: schema.clone(), ..PgConfig::default() }).await?;
        let leader = Job::new(way, name(way, 0), &schema, false).start(server).await?;
        let (connection, load) = (server.sqlx().await?, Load::new(store, PACE)?);
        let mut pair = Self { server, connection, way, schema, load, leader, standby: None, started: 1 };
        pair.replace().await?;
        Ok(pair)
    }

    /// Starts one more instance, which stands by. Says how many milliseconds it did so without watching the leader.
    pub(super) async fn replace(&mut self) -> Result<f64, Error> {
        let name = name(self.way, self.started);
        self.started += 1;
        self.standby = Some(Job::new(self.way, name.clone(), &self.schema, true).start(self.server).await?);
        let since = Instant::now();
        while self.way == Way::Watched && !self.watches(&name).await? {
            if since.elapsed() > PATIENCE {
                return Err("who stands by does not watch the leader".into());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(since.elapsed().as_secs_f64() * 1e3)
    }

    async fn watches(&mut self, name: &str) -> Result<bool, Error> {
        let watching = sqlx::query_scalar(include_str!("../../sql/watching.sql")).bind(format!("{name} neighbour"));
        Ok(watching.fetch_one(&mut self.connection).await?)
    }

    /// Ends the leader while events flow. Says how many milliseconds it took until the other had handled one: from the
    /// signal on, or from the last one that the leader had handled.
    pub(super) async fn end(&mut self, how: End) -> Result<f64, Error> {
        let flow = self.load.start(Arc::default());
        let before = Handling::parse(&self.leader.ask(MORE).await?)?;
        tokio::time::sleep(CHANCE.mul_f64(chance())).await;
        let mut standby = self.standby.take().ok_or("nobody stands by")?;
        let (from, seen) = match how {
            End::Killed => (self.leader.kill()?, before.global_sequence),
            End::Frozen => (self.leader.freeze()?, before.global_sequence),
            End::Stopped => {
                let last = Handling::parse(&self.leader.ask(STOP).await?)?;
                (last.at, last.global_sequence + 1)
            }
        };
        let first = Handling::parse(&standby.ask(FIRST).await?)?;
        // Also ends who is frozen.
        self.leader.kill()?;
        self.leader = standby;
        flow.stop().await?;
        if first.at < from {
            return Err("the leader was not the only one".into());
        }
        // A checkpoint follows every event.
        if first.global_sequence < seen {
            return Err(format!("event {} was handled again, where {seen} came next", first.global_sequence).into());
        }
        Ok((first.at - from) as f64 / 1e6)
    }
}

fn name(way: Way, number: usize) -> String {
    format!("bench {way:?} {number}").to_lowercase()
}

/// Between 0 and 1.
fn chance() -> f64 {
    // Its last four bytes are nothing but chance.
    f64::from(Uuid::new_v4().as_u128() as u32) / f64::from(u32::MAX)
}
