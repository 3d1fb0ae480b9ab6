//! The course of events.

mod stage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use highwater_postgres::PgEventStore;
use highwater_sqlite::SqliteEventStore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::stage::Stage;
use crate::company::{Company, Launch};
use crate::producer::{self, Till, produce, register_customers};
use crate::{Audience, Database, DemoError, Happening, Place, Report, Shop, books, sql};

/// How many instances there are.
const INSTANCES: u32 = 3;
/// How long nothing may move after the last order, until all is handled.
const STILL_MAX: Duration = Duration::from_secs(20);

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `sqlite:FILE` or a URL of PostgreSQL; none: a temporary SQLite file.
    pub database: Option<String>,
    /// The schema on PostgreSQL; none: one that nobody has.
    pub schema: Option<String>,
    /// For how long orders come in.
    pub seconds: u64,
    /// Orders a second.
    pub rate: u64,
    /// What the orders follow from.
    pub seed: u64,
    /// Whether the shop stays when it is over.
    pub keep: bool,
    /// Whether to damage a row before the books are checked.
    pub corrupt: bool,
}

impl Plan {
    /// Where the shop is to be. Each time another place, unless it is named.
    ///
    /// # Errors
    /// For what cannot be used.
    pub fn place(&self) -> Result<Place, DemoError> {
        Place::of(self.database.as_deref(), self.schema.as_deref(), self.keep)
    }
}

/// Runs the demo. Whatever happens, its instances are gone when this returns, and so is the shop unless it is kept.
///
/// # Errors
/// When it could not be carried out, or was interrupted. Books that do not balance are no error: the report says so.
pub async fn run(
    plan: &Plan,
    launch: &Launch,
    audience: &mut dyn Audience,
    interrupted: impl Future<Output = ()>,
) -> Result<Report, DemoError> {
    let place = plan.place()?;
    let in_use = place.make().await?;
    let mut company = Company::default();
    let played = tokio::select! {
        played = play_on(plan, &place, launch, &mut company, audience) => played,
        () = interrupted => Err(DemoError::Interrupted),
    };
    let stopped = company.stop().await;
    let removed = if plan.keep { Ok(()) } else { place.remove().await };
    drop(in_use);
    concluded(played, stopped, removed)
}

/// What came of it. Something that is left behind takes nothing back of what was seen.
fn concluded(
    played: Result<Report, DemoError>,
    stopped: Result<(), DemoError>,
    removed: Result<(), DemoError>,
) -> Result<Report, DemoError> {
    match played.and_then(|report| stopped.map(|()| report)) {
        Ok(report) => Ok(Report { left: removed.err().map(|error| error.to_string()), ..report }),
        // Its instances are gone in any case; how they ended follows from what went wrong before.
        Err(error) => Err(match removed {
            Ok(()) => error,
            Err(left) => DemoError::Left { error: Box::new(error), left: Box::new(left) },
        }),
    }
}

async fn play_on(
    plan: &Plan,
    place: &Place,
    launch: &Launch,
    company: &mut Company,
    audience: &mut dyn Audience,
) -> Result<Report, DemoError> {
    match place {
        Place::Postgres { .. } => play::<PgEventStore>(plan, place, launch, company, audience).await,
        Place::Sqlite { .. } => play::<SqliteEventStore>(plan, place, launch, company, audience).await,
    }
}

async fn play<S: Shop>(
    plan: &Plan,
    place: &Place,
    launch: &Launch,
    company: &mut Company,
    audience: &mut dyn Audience,
) -> Result<Report, DemoError> {
    let store = S::open(place).await?;
    store.initialize().await?;
    let database = Database::open(place).await?;
    for sql in sql::CREATE {
        database.execute(sql, &[]).await.map_err(DemoError::sql("create the shop's tables"))?;
    }
    register_customers(&database).await?;
    company.start(INSTANCES, launch, place).await?;
    let till = Arc::new(Till::default());
    let mut stage = Stage::new(store.clone(), database.clone(), company, audience, till.clone(), plan.seconds);
    stage.opened(place)?;
    let orders = Task::new(produce(store, till.clone(), plan.rate, plan.seconds, plan.seed));
    through_the_day(&mut stage, orders).await?;
    catch_up(&mut stage).await?;
    let took = stage.elapsed();
    stage.stop_instances().await?;
    if plan.corrupt {
        database.execute(sql::CORRUPT, &[]).await.map_err(DemoError::sql("damage a row"))?;
        stage.happened(&Happening::Corrupted)?;
    }
    let (killed, takeovers) = stage.seen().await?;
    books::write_down(&database, producer::orders(plan.seed).take(till.accepted() as usize)).await?;
    let report = Report {
        orders: till.accepted(),
        events: count(&database, sql::EVENTS).await?,
        took,
        held_back: till.was_closed.load(Ordering::Relaxed),
        killed,
        takeovers,
        replayed: count(&database, sql::DEAD_LETTERS_REPLAYED).await?,
        asked_again: count(&database, sql::EMAILS_ASKED_AGAIN).await?,
        shares: shares(&database).await?,
        books: books::check(&database, till.accepted()).await?,
        kept: plan.keep.then(|| place.arguments()),
        left: None,
    };
    database.close().await;
    Ok(report)
}

/// Orders come in; half-way an instance dies, and a while later the bad addresses are repaired.
async fn through_the_day<S: Shop>(
    stage: &mut Stage<'_, S>,
    mut orders: Task<Result<(), DemoError>>,
) -> Result<(), DemoError> {
    let (kill_at, repair_at) = (stage.total() / 2, stage.total() * 3 / 4);
    let (mut killed, mut repaired) = (false, false);
    while !orders.is_finished() {
        stage.next_scene().await?;
        if !killed && stage.elapsed() >= kill_at {
            killed = true;
            stage.kill_the_busiest().await?;
        }
        if !repaired && stage.elapsed() >= repair_at {
            repaired = true;
            stage.repair().await?;
        }
    }
    orders.result().await?
}

/// No more orders: waits until everything has been handled, the dead letters included.
async fn catch_up<S: Shop>(stage: &mut Stage<'_, S>) -> Result<(), DemoError> {
    let since = Instant::now();
    let (mut behind, mut moved) = (Vec::new(), since);
    stage.no_more_orders()?;
    loop {
        let scene = stage.next_scene().await?;
        if scene.behind() != behind {
            (behind, moved) = (scene.behind(), Instant::now());
        }
        if scene.is_caught_up() && !stage.is_replaying() {
            if scene.dead_letters == 0 {
                return stage.happened(&Happening::CaughtUp { after: since.elapsed() });
            }
            // What was in hand while the addresses were repaired.
            stage.repair().await?;
        }
        if moved.elapsed() > STILL_MAX {
            return Err(DemoError::NotCaughtUp { behind, waited: STILL_MAX });
        }
    }
}

async fn count(database: &Database, sql: &'static str) -> Result<u64, DemoError> {
    let rows: Vec<(i64,)> = database.rows(sql, &[]).await.map_err(DemoError::sql("count"))?;
    Ok(rows.first().map_or(0, |(count,)| count.unsigned_abs()))
}

async fn shares(database: &Database) -> Result<Vec<(u32, u64)>, DemoError> {
    let rows: Vec<(i64, i64)> = database.rows(sql::SHARES, &[]).await.map_err(DemoError::sql("count"))?;
    Ok(rows.into_iter().map(|(instance, events)| (instance as u32, events.unsigned_abs())).collect())
}

/// A task that ends with the one that started it.
struct Task<T>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    async fn result(&mut self) -> Result<T, DemoError> {
        Ok((&mut self.0).await?)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Killed;

    #[test]
    fn what_was_seen_is_reported_though_something_is_left() {
        let report = || Report {
            orders: 1,
            events: 3,
            took: Duration::from_secs(1),
            held_back: false,
            killed: Killed { number: 1, pid: 1, led: Vec::new(), at: 0 },
            takeovers: Vec::new(),
            replayed: 0,
            asked_again: 0,
            shares: Vec::new(),
            books: Vec::new(),
            kept: None,
            left: None,
        };
        let full = || Err(DemoError::Database("the disk is gone".to_owned()));
        assert_eq!(concluded(Ok(report()), Ok(()), Ok(())).unwrap(), report());
        let left = Some("the disk is gone".to_owned());
        assert_eq!(concluded(Ok(report()), Ok(()), full()).unwrap(), Report { left, ..report() });
        let both = concluded(Err(DemoError::Interrupted), Ok(()), full()).unwrap_err();
        assert_eq!(both.to_string(), "interrupted; and the shop is left behind: the disk is gone");
    }
}
