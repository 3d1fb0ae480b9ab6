//! One run: instances, a nemesis, an end, and what is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use highwater::backend::lock;
use highwater::operations::DeadLetterQuery;
use highwater::{BoxError, EventBus, EventStore};
use highwater_postgres::PgEventStore;
use highwater_sqlite::SqliteEventStore;
use tokio::sync::Mutex as AsyncMutex;

use crate::base::{Base, Place};
use crate::cast::ROLES;
use crate::database::Database;
use crate::evidence::{Effect, Evidence, Sample, Sending};
use crate::ground::{Clock, Condition, Link};
use crate::instance::{Order, delivery, journal_path, now, poison_path};
use crate::nemesis::Nemesis;
use crate::record::{Entry, Life, Outcome};
use crate::schedule::{Schedule, Store};
use crate::servers::Servers;
use crate::troupe::{Launch, Member, Troubles, trouble};

/// How often things are looked at from outside.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// How long instances may take to start, and to come to rest.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long all may take to catch up before it is not waited for any more. What is promised is less.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);
/// The same for an engine that is broken anyway: what it has passed over by then it has passed over.
const CATCH_UP_BROKEN_MAX: Duration = Duration::from_secs(6);
/// How often to look whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long all dead letters may take to be replayed at the end before they count as stuck.
const REPLAY_MAX: Duration = Duration::from_secs(180);

/// How a run is made.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What is done.
    pub schedule: Schedule,
    /// No step begins after this long.
    pub limit: Duration,
    /// Where everything is written down. It must exist.
    pub folder: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Whether this process has network and mounts to itself.
    pub private: bool,
    /// Whether to say what is being done.
    pub quiet: bool,
}

/// Makes a run, and returns what it leaves behind, with the steps that were taken.
///
/// # Errors
/// When it could not be made. A broken promise is no error: that is for the checker.
pub async fn run(setting: &Setting) -> Result<(Evidence, Schedule), BoxError> {
    match setting.schedule.store {
        Store::Postgres => stage::<PgEventStore>(setting).await,
        Store::Sqlite => stage::<SqliteEventStore>(setting).await,
    }
}

async fn stage<S: Base>(setting: &Setting) -> Result<(Evidence, Schedule), BoxError> {
    let (folder, private, replica) = (setting.folder.clone(), setting.private, setting.schedule.replica);
    let store = setting.schedule.store;
    let servers = tokio::task::spawn_blocking(move || Servers::start(store, &folder, private, replica)).await??;
    let director = servers.place();
    let database = match &director {
        Place::Postgres { .. } => Database::Postgres(Arc::new(Mutex::new(servers.primary_url().unwrap_or_default()))),
        Place::Sqlite { file } => Database::Sqlite(file.clone()),
    };
    let store = S::open(&director, "director").await?;
    store.initialize().await?;
    database.execute(S::SQL.tables.to_owned()).await?;
    fs::write(poison_path(&setting.folder), "")?;

    let troubles = Troubles::default();
    let members = cast(setting, &servers, &troubles)?;
    let nemesis = Nemesis {
        members,
        servers: Arc::new(Mutex::new(servers)),
        database: database.clone(),
        bus: EventBus::with_config(store, delivery()),
        folder: setting.folder.clone(),
        done: Mutex::default(),
    };
    for member in &nemesis.members {
        member.lock().await.start().await?;
    }
    for member in &nemesis.members {
        let mut member = member.lock().await;
        member.ask(Order::Joined, START_TIMEOUT).await?;
        member.ask(Order::Write(true), START_TIMEOUT).await?;
    }
    let over = Arc::new(AtomicBool::new(false));
    let sampling = tokio::spawn(sample(database.clone(), over.clone()));
    let taken = play(setting, &nemesis, &troubles).await?;

    let mut evidence = Evidence::default();
    end(&nemesis, &mut evidence, &troubles, setting.schedule.flaw.is_some()).await?;
    over.store(true, Ordering::Relaxed);
    evidence.samples = sampling.await?;
    let mut lives = Vec::new();
    for member in &nemesis.members {
        let mut member = member.lock().await;
        if let Err(error) = member.stop().await {
            trouble(&troubles, error.to_string());
        }
        lives.extend((0..member.lives()).map(|life| Life { instance: member.number, life }));
    }
    database.collect(&mut evidence).await?;
    evidence.faults = std::mem::take(&mut *lock(&nemesis.done));
    for life in lives {
        read_journal(&setting.folder, life, &mut evidence)?;
    }
    evidence.effects.sort_by_key(|effect| effect.at);
    evidence.troubles.append(&mut lock(&troubles));
    count_acknowledged(&mut evidence);
    Ok((evidence, taken))
}

/// The instances, with their links and clocks; not yet started.
fn cast(setting: &Setting, servers: &Servers, troubles: &Troubles) -> Result<Vec<AsyncMutex<Member>>, BoxError> {
    let launch = Launch {
        program: setting.program.clone(),
        folder: setting.folder.clone(),
        seed: setting.schedule.seed,
        writers: setting.schedule.writers,
        rest_millis: setting.schedule.rest_millis,
        flaw: setting.schedule.flaw,
    };
    let mut members = Vec::new();
    for number in 1..=setting.schedule.instances {
        let mut member = Member::new(number, servers.place(), &launch, troubles);
        if let Some(ports) = servers.ports() {
            // Every other one through a proxy, which alone can delay.
            let link = Link::new(number, &ports, setting.private, number % 2 == 1)?;
            member.place = Place::Postgres { url: servers.url_through(&link) };
            member.link = Some(link);
        }
        member.clock = Clock::new(&setting.folder, number)?;
        members.push(AsyncMutex::new(member));
    }
    Ok(members)
}

/// Does one step after the other; half-way the late ones join. Returns what was done.
async fn play<S: Base>(setting: &Setting, nemesis: &Nemesis<S>, troubles: &Troubles) -> Result<Schedule, BoxError> {
    let (started, schedule) = (Instant::now(), &setting.schedule);
    let mut taken = Schedule { steps: Vec::new(), ..schedule.clone() };
    for (n, step) in schedule.steps.iter().enumerate() {
        let half = started.elapsed() * 2 > setting.limit || n * 2 >= schedule.steps.len();
        if started.elapsed() > setting.limit {
            break;
        }
        if !setting.quiet {
            let faults: Vec<String> = step.faults.iter().map(ToString::to_string).collect();
            println!("[{:>4} s] {}", started.elapsed().as_secs(), faults.join("; at the same time: "));
        }
        nemesis.step(step).await;
        taken.steps.push(step.clone());
        for member in &nemesis.members {
            let mut member = member.lock().await;
            let looked_after = match member.check().await {
                Ok(()) if half && !member.late => join_late(&mut member).await,
                checked => checked,
            };
            // It has ended just now, most likely; the next look says so.
            if let Err(error) = looked_after {
                trouble(troubles, format!("instance {} could not be looked after: {error}", member.number));
            }
        }
    }
    for member in &nemesis.members {
        let mut member = member.lock().await;
        if !member.late {
            join_late(&mut member).await?;
        }
    }
    Ok(taken)
}

async fn join_late(member: &mut Member) -> Result<(), BoxError> {
    member.late = true;
    for (n, _) in ROLES.iter().enumerate().filter(|(_, role)| role.late) {
        member.tell(Order::Subscribe(n)).await?;
    }
    Ok(())
}

/// Everything is repaired; then all have to catch up, and every dead letter is dealt with.
async fn end<S: Base>(
    nemesis: &Nemesis<S>,
    evidence: &mut Evidence,
    troubles: &Troubles,
    broken: bool,
) -> Result<(), BoxError> {
    nemesis.on_servers(Servers::repair).await?;
    for member in &nemesis.members {
        let mut member = member.lock().await;
        if let Some(link) = &member.link {
            link.set(Condition::Whole)?;
        }
        member.start().await?;
    }
    evidence.last_fault_over = now();
    for member in &nemesis.members {
        if let Err(error) = member.lock().await.ask(Order::Write(false), START_TIMEOUT).await {
            trouble(troubles, format!("writers did not come to rest: {error}"));
        }
    }
    catch_up(nemesis, evidence, if broken { CATCH_UP_BROKEN_MAX } else { CATCH_UP_MAX }).await?;
    // What has become of the dead letters of a broken engine says nothing that is not known already.
    if broken {
        evidence.dead_letters_left = true;
        return Ok(());
    }
    let deadline = Instant::now() + REPLAY_MAX;
    while let Err(error) = replay_all(nemesis).await {
        if Instant::now() > deadline {
            trouble(troubles, format!("dead letters were still open {REPLAY_MAX:?} after all had caught up: {error}"));
            break;
        }
    }
    Ok(())
}

/// Has all dead letters replayed, without poison. Says what is left as an error.
async fn replay_all<S: Base>(nemesis: &Nemesis<S>) -> Result<(), BoxError> {
    nemesis.replay(false).await?;
    match nemesis.bus.dead_letters().count(&DeadLetterQuery::default()).await? {
        0 => Ok(()),
        left => Err(format!("{left} are left").into()),
    }
}

/// Waits until every subscriber is where the log is.
async fn catch_up<S: Base>(nemesis: &Nemesis<S>, evidence: &mut Evidence, limit: Duration) -> Result<(), BoxError> {
    let deadline = Instant::now() + limit;
    loop {
        // An instance that does not answer yet is asked again: it has just been started.
        let behind: Vec<String> = match nemesis.database.progress().await {
            Ok((head, subscribers)) => {
                let missing = ROLES.iter().filter(|role| !subscribers.iter().any(|(id, ..)| id == role.id));
                let behind = subscribers.iter().filter(|(_, checkpoint, _)| *checkpoint < head);
                let said = behind
                    .map(|(id, checkpoint, leader)| format!("{id} is at {checkpoint} of {head}, led by {leader:?}"));
                said.chain(missing.map(|role| format!("{} was never started", role.id))).collect()
            }
            Err(error) => vec![format!("nobody answers: {error}")],
        };
        if behind.is_empty() {
            evidence.caught_up = Some(now());
            evidence.behind.clear();
            return Ok(());
        }
        if Instant::now() > deadline {
            evidence.caught_up = None;
            evidence.behind = explained(nemesis, behind).await;
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// With what the library itself says about each.
async fn explained<S: Base>(nemesis: &Nemesis<S>, behind: Vec<String>) -> Vec<String> {
    let mut lines = behind;
    for role in &ROLES {
        let said = match nemesis.bus.store().explain(role.id).await {
            Ok(explanation) => explanation.to_string(),
            Err(error) => error.to_string(),
        };
        lines.push(format!("{}: {said}", role.id));
    }
    lines
}

async fn sample(database: Database, over: Arc<AtomicBool>) -> Vec<Sample> {
    let mut samples = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let at = now();
        let looked = tokio::time::timeout(4 * SAMPLE_EVERY, database.progress()).await;
        let (head, subscribers) = match looked {
            Ok(Ok((head, subscribers))) => (Some(head), subscribers),
            Ok(Err(_)) | Err(_) => (None, Vec::new()),
        };
        samples.push(Sample { at, head, acknowledged: 0, subscribers });
        tokio::time::sleep(SAMPLE_EVERY).await;
    }
    samples
}

/// Reads what a life has written down.
fn read_journal(folder: &Path, life: Life, evidence: &mut Evidence) -> Result<(), BoxError> {
    let path = journal_path(folder, life);
    // One that was killed before it had opened its journal has none.
    if !path.exists() {
        return Ok(());
    }
    let text = fs::read(&path)?;
    let first = evidence.appends.len();
    // A SIGKILL may have cut the last line off: what it says was not done yet, or is not known to be.
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let entry = serde_json::from_slice(line).map_err(|error| format!("{}: {error}", path.display()))?;
        match entry {
            Entry::Tried { append, how, events, at } => {
                evidence.appends.push(Sending { by: life, append, how, events, at, outcome: None, ended_at: None });
            }
            Entry::Ended { append, outcome, at } => {
                let sending = evidence.appends[first..].iter_mut().rev().find(|sending| sending.append == append);
                let sending = sending.ok_or_else(|| format!("{life}: append {append} ended and was never tried"))?;
                (sending.outcome, sending.ended_at) = (Some(outcome), Some(at));
            }
            Entry::Trouble { what } => evidence.troubles.push(format!("{life}: {what}")),
            Entry::Effect { role, global_sequence, id, at } => {
                evidence.effects.push(Effect { role, by: life, global_sequence, id, at });
            }
        }
    }
    Ok(())
}

fn count_acknowledged(evidence: &mut Evidence) {
    let stored = evidence.appends.iter().filter(|sending| matches!(sending.outcome, Some(Outcome::Stored { .. })));
    let mut times: Vec<u64> = stored.filter_map(|sending| sending.ended_at).collect();
    times.sort_unstable();
    for sample in &mut evidence.samples {
        sample.acknowledged = times.partition_point(|at| *at <= sample.at) as u64;
    }
}
