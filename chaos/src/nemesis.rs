//! Carries faults out, and takes them back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::lock;
use highwater::operations::DeadLetterQuery;
use highwater::{BoxError, BusError, EventBus};
use rustix::process::Signal;
use tokio::sync::Mutex as AsyncMutex;

use crate::base::Base;
use crate::cast::ROLES;
use crate::database::Database;
use crate::evidence::Done;
use crate::ground::Condition;
use crate::instance::{Order, asynchronous_path, now, poison_path};
use crate::schedule::{Fault, Step};
use crate::servers::Servers;
use crate::troupe::Member;

/// How long an instance may take to answer.
const ANSWER: Duration = Duration::from_secs(20);
/// How long a request to the database may take: it may be away, or an instance may be paused.
const REQUEST: Duration = Duration::from_secs(10);
/// Time enough to connect again and to retry.
const END_WAITS_EVERY: Duration = Duration::from_millis(500);

/// Everything that faults are done to.
pub(crate) struct Nemesis<S: Base> {
    /// Locked while something is done to one of them: two faults of one instance come after each other.
    pub(crate) members: Vec<AsyncMutex<Member>>,
    pub(crate) servers: Arc<Mutex<Servers>>,
    pub(crate) database: Database,
    /// Who asks for replays, pauses and rebuilds: a bus without subscribers, as an operator's tool has it.
    pub(crate) bus: EventBus<S>,
    pub(crate) folder: std::path::PathBuf,
    pub(crate) done: Mutex<Vec<Done>>,
}

impl<S: Base> Nemesis<S> {
    /// Does what a step says, and returns when all of it is over.
    pub(crate) async fn step(&self, step: &Step) {
        tokio::time::sleep(Duration::from_millis(step.rest_millis)).await;
        futures_util::future::join_all(step.faults.iter().map(|fault| self.fault(fault))).await;
    }

    async fn fault(&self, fault: &Fault) {
        let from = now();
        let failed = self.carry_out(fault).await.err().map(|error| error.to_string());
        let mut done = lock(&self.done);
        let n = done.len();
        done.push(Done {
            n,
            kind: fault.kind().to_owned(),
            what: fault.to_string(),
            instance: fault.instance(),
            server: fault.is_the_servers(),
            crash: fault.is_a_crash(),
            from,
            to: now(),
            failed,
        });
    }

    async fn carry_out(&self, fault: &Fault) -> Result<(), BoxError> {
        match *fault {
            Fault::Kill { instance, millis } => {
                let mut member = self.member(instance).lock().await;
                member.kill().await?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                started(&mut member).await
            }
            Fault::Freeze { instance, millis } => {
                let member = self.member(instance).lock().await;
                member.signal(Signal::STOP)?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                member.signal(Signal::CONT)
            }
            Fault::Restart { instance } => {
                let mut member = self.member(instance).lock().await;
                let stopped = member.stop().await;
                started(&mut member).await.and(stopped)
            }
            Fault::Terminate { instance, purpose } => {
                let number = if instance == 0 { "[0-9]+".to_owned() } else { instance.to_string() };
                match self.database.terminate(&format!(r"^i{number}\.[0-9]+{}$", purpose.name())).await? {
                    0 => Err("there was no such connection".into()),
                    _ => Ok(()),
                }
            }
            Fault::ServerRestart => self.on_servers(Servers::restart).await,
            Fault::ServerCrash { millis } => {
                self.on_servers(Servers::crash).await?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.on_servers(Servers::repair).await
            }
            Fault::KillBackend { purpose, millis } => {
                let asynchronous = asynchronous_path(&self.folder);
                std::fs::write(&asynchronous, "")?;
                let pattern = format!(r"^i[0-9]+\.[0-9]+{}$", purpose.name());
                let killed = self.database.kill_backend(&pattern, Duration::from_millis(millis)).await;
                std::fs::remove_file(&asynchronous)?;
                self.on_servers(Servers::recover).await.and(killed)
            }
            Fault::Promote => {
                let promoted = self.on_servers(Servers::promote).await;
                self.on_servers(Servers::repair).await.and(promoted)
            }
            Fault::LoseReplica { restart, waits, millis } => {
                let (waits, retried) = (Duration::from_millis(waits), Duration::from_millis(millis));
                let lost = self.lose_replica(restart, waits, retried).await;
                self.on_servers(Servers::repair).await.and(lost)
            }
            Fault::ForgedHints { millis } => self.database.forge_hints(Duration::from_millis(millis)).await,
            Fault::DiskFull { millis } => {
                let filled = self.on_servers(Servers::fill_disk).await;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.on_servers(Servers::repair).await.and(filled)
            }
            Fault::Cut { instance, millis } => self.link(instance, Condition::Cut, millis).await,
            Fault::LoseAnswers { instance, millis } => self.link(instance, Condition::LosesAnswers, millis).await,
            Fault::LoseRequests { instance, millis } => self.link(instance, Condition::LosesRequests, millis).await,
            Fault::Delay { instance, by, millis } => {
                self.link(instance, Condition::Delayed { millis: by }, millis).await
            }
            Fault::Throttle { instance, kbit, millis } => {
                self.link(instance, Condition::Throttled { kbit }, millis).await
            }
            Fault::Clock { instance, seconds, millis } => {
                let member = self.member(instance).lock().await;
                let clock = member.clock.as_ref().ok_or("there is no library here that moves clocks")?;
                clock.set(seconds)?;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                Ok(clock.set(0)?)
            }
            Fault::Leave { instance, role, millis } => {
                let mut member = self.member(instance).lock().await;
                if ROLES[role].late && !member.late {
                    return Err("it has not joined yet".into());
                }
                let left = member.ask(Order::Unsubscribe(role), ANSWER).await;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                member.ask(Order::Subscribe(role), ANSWER).await.and(left)
            }
            Fault::Pause { role, millis } => {
                let id = ROLES[role].id;
                let paused = within(self.bus.pause(id)).await;
                tokio::time::sleep(Duration::from_millis(millis)).await;
                self.resume(id).await.and(paused)
            }
            Fault::Replay => self.replay(true).await,
            Fault::Rebuild { role } => {
                within(async { self.bus.dead_letters().rebuild(ROLES[role].id).await.map(drop) }).await
            }
        }
    }

    /// Ends with the replica in the primary's place, without what was committed while it was away.
    async fn lose_replica(&self, restart: bool, waits: Duration, retried: Duration) -> Result<(), BoxError> {
        self.on_servers(Servers::lose_replica).await?;
        tokio::time::sleep(waits).await;
        if restart {
            self.on_servers(Servers::restart).await?;
            tokio::time::sleep(retried).await;
        } else {
            self.end_waits(retried).await?;
        }
        self.on_servers(Servers::promote).await
    }

    /// Terminates the sessions that wait for the replica, again and again: a retried append may share its commit with a new one.
    async fn end_waits(&self, duration: Duration) -> Result<(), BoxError> {
        let (mut ticks, mut ended) = (tokio::time::interval(END_WAITS_EVERY), 0);
        for _ in 0..=duration.div_duration_f64(END_WAITS_EVERY) as u64 {
            ticks.tick().await;
            ended += self.database.end_waits().await?;
        }
        if ended == 0 { Err("nobody waited for the replica".into()) } else { Ok(()) }
    }

    fn member(&self, instance: u32) -> &AsyncMutex<Member> {
        &self.members[(instance as usize - 1) % self.members.len()]
    }

    /// What is done to servers blocks.
    pub(crate) async fn on_servers(
        &self,
        what: impl FnOnce(&mut Servers) -> Result<(), BoxError> + Send + 'static,
    ) -> Result<(), BoxError> {
        let servers = self.servers.clone();
        let (done, url) = tokio::task::spawn_blocking(move || {
            let mut servers = lock(&servers);
            (what(&mut servers), servers.primary_url())
        })
        .await?;
        if let Some(url) = url {
            self.database.moved(url);
        }
        done
    }

    async fn link(&self, instance: u32, condition: Condition, millis: u64) -> Result<(), BoxError> {
        let member = self.member(instance).lock().await;
        let link = member.link.as_ref().ok_or("it has no link of its own")?;
        let set = link.set(condition);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        link.set(Condition::Whole)?;
        Ok(set?)
    }

    /// A pause that was asked for must not stay.
    async fn resume(&self, id: &str) -> Result<(), BoxError> {
        let deadline = tokio::time::Instant::now() + 3 * REQUEST;
        loop {
            match within(self.bus.resume(id)).await {
                Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(REQUEST / 50).await,
                resumed => return resumed,
            }
        }
    }

    /// Has every dead letter replayed while the poison does not work; with `discard`, one is discarded.
    pub(crate) async fn replay(&self, discard: bool) -> Result<(), BoxError> {
        let poison = poison_path(&self.folder);
        let queue = self.bus.dead_letters().by("nemesis");
        let replayed = within(async {
            let found = queue.list(&DeadLetterQuery { limit: 3, ..DeadLetterQuery::default() }).await?;
            if discard && let Some(dead_letter) = found.iter().find(|dead_letter| !dead_letter.parks) {
                queue.discard(dead_letter.id, "one is discarded").await?;
            }
            if poison.exists() {
                std::fs::remove_file(&poison).map_err(|source| highwater::Error::Unavailable {
                    action: "take the poison away",
                    source: source.into(),
                })?;
            }
            // Also those that are not shaky: whatever has become a dead letter must come in.
            for role in &ROLES {
                match queue.replay_all(role.id).await {
                    Ok(filed) => filed.done().await.map(drop)?,
                    Err(highwater::Error::Bus(BusError::UnknownSubscriber(_))) if role.late => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
        .await;
        std::fs::write(&poison, "")?;
        replayed
    }
}

async fn started(member: &mut Member) -> Result<(), BoxError> {
    member.start().await?;
    member.tell(Order::Write(true)).await.map(drop)
}

/// What is asked of the database while it may be away.
async fn within<T>(asked: impl Future<Output = Result<T, highwater::Error>>) -> Result<T, BoxError> {
    Ok(tokio::time::timeout(2 * REQUEST, asked).await.map_err(|_| "the database did not answer in time")??)
}
