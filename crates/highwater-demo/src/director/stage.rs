//! What is on stage while the demo runs: the instances, as they are seen from outside.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use highwater::operations::{DeadLetterQuery, RequestOutcome};
use highwater::operations::{Overview, SubscriberOverview};
use highwater::{EventBus, EventStore};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::Task;
use crate::company::Company;
use crate::instance;
use crate::producer::Till;
use crate::subscribers::{EMAILS, now};
use crate::{
    Audience, Database, DemoError, Fate, Happening, InstanceView, Killed, Phase, Place, SUBSCRIBERS, Scene, Shop,
    SubscriberView, Takeover, Value, sql,
};

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Over how long throughput is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// How many events a subscriber may be behind before orders are held back: what is worked off in time at the end.
const BEHIND_MAX: u64 = 3_000;

pub(super) struct Stage<'a, S: Shop> {
    bus: EventBus<S>,
    database: Database,
    company: &'a mut Company,
    audience: &'a mut dyn Audience,
    till: Arc<Till>,
    start: Instant,
    total: Duration,
    phase: Phase,
    clock: Interval,
    /// The end of the log at times of the last second.
    heads: VecDeque<(Instant, u64)>,
    killed: Option<Killed>,
    takeovers: Vec<Takeover>,
    replay: Option<Task<Result<RequestOutcome, DemoError>>>,
}

impl<'a, S: Shop> Stage<'a, S> {
    pub(super) fn new(
        store: S,
        database: Database,
        company: &'a mut Company,
        audience: &'a mut dyn Audience,
        till: Arc<Till>,
        seconds: u64,
    ) -> Self {
        let mut clock = tokio::time::interval(LOOK_EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            bus: EventBus::with_config(store, instance::delivery(None)),
            database,
            company,
            audience,
            till,
            start: Instant::now(),
            total: Duration::from_secs(seconds),
            phase: Phase::Orders,
            clock,
            heads: VecDeque::new(),
            killed: None,
            takeovers: Vec::new(),
            replay: None,
        }
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn happened(&mut self, what: &Happening) -> Result<(), DemoError> {
        self.audience.happened(self.start.elapsed(), what).map_err(DemoError::Show)
    }

    pub(super) fn opened(&mut self, place: &Place) -> Result<(), DemoError> {
        let instances = self.company.members.iter().map(|member| (member.number, member.pid)).collect();
        self.happened(&Happening::Opened { place: place.to_string(), instances })
    }

    pub(super) fn no_more_orders(&mut self) -> Result<(), DemoError> {
        self.phase = Phase::CatchingUp;
        self.happened(&Happening::Closed { orders: self.till.accepted() })
    }

    /// Waits until it is time to look again, looks, and shows what there is to see.
    pub(super) async fn next_scene(&mut self) -> Result<Scene, DemoError> {
        self.clock.tick().await;
        self.company.check().await?;
        let scene = self.scene().await?;
        self.till.close(scene.lag > BEHIND_MAX);
        self.audience.scene(&scene).map_err(DemoError::Show)?;
        self.notice_takeovers().await?;
        if let Some(mut replay) = self.replay.take_if(|replay| replay.is_finished()) {
            let RequestOutcome { done, failed, .. } = replay.result().await??;
            self.happened(&Happening::Replayed { done, failed })?;
        }
        Ok(scene)
    }

    /// Kills the instance that leads the most subscribers, and has a customer order something right then: who takes over
    /// shows it with the first event.
    pub(super) async fn kill_the_busiest(&mut self) -> Result<(), DemoError> {
        let instances = self.scene().await?.instances;
        // The first of those that lead as many.
        let busiest = instances.into_iter().rev().max_by_key(|instance| instance.leads.len());
        let Some(InstanceView { number, leads: led, .. }) = busiest.filter(|instance| !instance.leads.is_empty())
        else {
            return Err(DemoError::NobodyLeads);
        };
        let Some(member) = self.company.member(number) else { return Err(DemoError::NobodyLeads) };
        let killed = Killed { number, pid: member.pid, led, at: now() };
        member.kill().await?;
        self.till.now.notify_one();
        self.happened(&Happening::Killed(killed.clone()))?;
        self.killed = Some(killed);
        Ok(())
    }

    /// Repairs the addresses, and asks for the dead letters to be replayed: the leader does it, while orders continue.
    pub(super) async fn repair(&mut self) -> Result<(), DemoError> {
        let repaired = self.database.execute(sql::ADDRESSES_REPAIR, &[]).await;
        let addresses = repaired.map_err(DemoError::sql("repair addresses"))?;
        let dead_letters = self.bus.dead_letters().count(&DeadLetterQuery::of(EMAILS)).await?;
        self.happened(&Happening::Repaired { addresses, dead_letters })?;
        let bus = self.bus.clone();
        self.replay = Some(Task::new(async move {
            Ok(bus.dead_letters().by("highwater demo").replay_all(EMAILS).await?.done().await?)
        }));
        Ok(())
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.replay.is_some()
    }

    /// Stops the instances in an orderly way.
    pub(super) async fn stop_instances(&mut self) -> Result<(), DemoError> {
        self.company.stop().await
    }

    /// Who was killed, and who took over.
    pub(super) async fn seen(mut self) -> Result<(Killed, Vec<Takeover>), DemoError> {
        self.notice_takeovers().await?;
        Ok((self.killed.ok_or(DemoError::NobodyLeads)?, self.takeovers))
    }

    /// How things are, as any operator would see it.
    async fn scene(&mut self) -> Result<Scene, DemoError> {
        let overview = self.bus.store().overview().await?;
        let subscribers: Vec<_> = SUBSCRIBERS.into_iter().map(|id| subscriber(id, &overview)).collect();
        let instances = self.company.members.iter().map(|member| {
            let leads = subscribers.iter().filter(|subscriber| subscriber.leader == Some(member.number));
            let fate = if member.killed { Fate::Killed } else { Fate::Running };
            InstanceView { number: member.number, pid: member.pid, fate, leads: leads.map(|led| led.id).collect() }
        });
        let lag = subscribers.iter().map(|subscriber| subscriber.lag).max().unwrap_or(0);
        Ok(Scene {
            elapsed: self.start.elapsed(),
            total: self.total,
            phase: self.phase,
            orders: self.till.accepted(),
            head: overview.head,
            throughput: throughput(&mut self.heads, overview.head),
            lag,
            dead_letters: subscribers.iter().map(|subscriber| subscriber.dead_letters).sum(),
            held_back: lag > BEHIND_MAX,
            instances: instances.collect(),
            subscribers,
        })
    }

    /// Looks for the first event that another instance was handed for each subscriber that the dead one led.
    async fn notice_takeovers(&mut self) -> Result<(), DemoError> {
        let Some(killed) = &self.killed else { return Ok(()) };
        if self.takeovers.len() == killed.led.len() {
            return Ok(());
        }
        let since = [Value::Int(killed.at), Value::Int(killed.number.into())];
        let rows = self.database.rows(sql::FIRST_HANDLED_SINCE, &since).await;
        let mut rows: Vec<(String, i64, i64)> = rows.map_err(DemoError::sql("see who took over"))?;
        rows.sort_by_key(|(_, _, at)| *at);
        let killed_at = killed.at;
        for id in killed.led.clone() {
            let first = rows.iter().find(|(subscriber_id, _, _)| subscriber_id == id);
            let known = self.takeovers.iter().any(|takeover| takeover.subscriber_id == id);
            if let Some((_, by, at)) = first.filter(|_| !known) {
                let takeover = Takeover {
                    subscriber_id: id,
                    by: *by as u32,
                    after: Duration::from_micros(at.abs_diff(killed_at)),
                };
                self.takeovers.push(takeover.clone());
                self.happened(&Happening::TakenOver(takeover))?;
            }
        }
        Ok(())
    }
}

fn subscriber(id: &'static str, overview: &Overview) -> SubscriberView {
    let found = overview.subscribers.iter().find(|subscriber| subscriber.subscriber_id == id);
    let leader = found.filter(|found| found.is_led()).and_then(|found| found.leader.as_ref());
    SubscriberView {
        id,
        state: found.map_or("starting", SubscriberOverview::state),
        // Instances are labelled with their numbers.
        leader: leader.and_then(|leader| leader.instance.label.as_deref()?.parse().ok()),
        checkpoint: found.map(|found| found.checkpoint),
        lag: overview.head.saturating_sub(found.map_or(0, |found| found.checkpoint)),
        dead_letters: found.map_or(0, |found| found.dead_letters),
    }
}

/// Events per second, over the last second.
fn throughput(heads: &mut VecDeque<(Instant, u64)>, head: u64) -> f64 {
    let now = Instant::now();
    while heads.len() > 1 && heads.get(1).is_some_and(|(at, _)| now - *at >= WINDOW) {
        heads.pop_front();
    }
    heads.push_back((now, head));
    match heads.front() {
        Some((at, before)) if now > *at => head.saturating_sub(*before) as f64 / (now - *at).as_secs_f64(),
        _ => 0.0,
    }
}
