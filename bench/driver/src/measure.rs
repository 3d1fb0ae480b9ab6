//! Callers and clocks: the same for every store.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{Answer, Appending, Error, Placed, Store};

/// A writer of `write` begins a new stream after so many events: some stores load a stream to append to it.
const STREAM_MAX: u64 = 20;
/// How many callers send at a steady rate, at most.
const SENDERS_MAX: usize = 64;

/// What one caller did.
#[derive(Default)]
struct Calls {
    events: u64,
    micros: Vec<u64>,
    failed: u64,
    failure: Option<String>,
    acknowledged: Vec<(u64, u64)>,
}

impl Calls {
    /// So many events to a new stream.
    async fn append_new<S: Store>(&mut self, store: &S, caller: usize, count: usize) -> bool {
        let events = events(caller, self.events, count);
        self.append(store, Appending { stream: Uuid::new_v4(), version: 0, events }).await
    }

    /// Appends and notes how long it took. Says whether it was done.
    async fn append<S: Store>(&mut self, store: &S, append: Appending) -> bool {
        let (events, called) = (append.events.len() as u64, Instant::now());
        match store.append(append).await {
            Ok(()) => {
                self.events += events;
                self.micros.push(u64::try_from(called.elapsed().as_micros()).unwrap_or(u64::MAX));
                true
            }
            Err(error) => {
                self.failed += 1;
                self.failure.get_or_insert_with(|| error.to_string());
                false
            }
        }
    }
}

/// Everything that so many callers at once did, until the last of them had returned.
async fn all<F>(callers: usize, started: Instant, call: impl Fn(usize) -> F) -> Result<Answer, Error>
where
    F: Future<Output = Calls> + Send + 'static,
{
    let (mut answer, mut tasks) = (Answer::default(), JoinSet::new());
    for caller in 0..callers {
        tasks.spawn(call(caller));
    }
    while let Some(calls) = tasks.join_next().await {
        let Calls { events, micros, failed, failure, acknowledged } = calls?;
        answer.events += events;
        answer.micros.extend(micros);
        answer.failed += failed;
        answer.failure = answer.failure.or(failure);
        answer.acknowledged.extend(acknowledged);
    }
    answer.seconds = started.elapsed().as_secs_f64();
    answer.micros.sort_unstable();
    Ok(answer)
}

fn events(caller: usize, from: u64, count: usize) -> Vec<Placed> {
    (from..).take(count).map(|number| Placed::new(caller as u64, number)).collect()
}

pub(crate) async fn append<S: Store>(
    store: &Arc<S>,
    callers: usize,
    count: usize,
    time: Duration,
) -> Result<Answer, Error> {
    let started = Instant::now();
    let calling = |caller| {
        let store = store.clone();
        async move {
            let mut calls = Calls::default();
            while started.elapsed() < time {
                calls.append_new(&*store, caller, count).await;
            }
            calls
        }
    };
    all(callers, started, calling).await
}

pub(crate) async fn fill<S: Store>(
    store: &Arc<S>,
    streams: usize,
    count: usize,
    callers: usize,
) -> Result<Answer, Error> {
    let filling = |caller| {
        let store = store.clone();
        async move {
            let mut calls = Calls::default();
            for _ in (caller..streams).step_by(callers) {
                if !calls.append_new(&*store, caller, count).await {
                    break;
                }
            }
            calls
        }
    };
    let filled = all(callers, Instant::now(), filling).await?;
    match filled.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(Answer { micros: Vec::new(), ..filled }),
    }
}

/// The stream is made with the first call.
pub(crate) async fn load<S: Store>(
    store: &Arc<S>,
    stream: &mut Option<(usize, Uuid)>,
    count: usize,
    time: Duration,
) -> Result<Answer, Error> {
    let id = match *stream {
        Some((events, id)) if events == count => id,
        _ => {
            let id = Uuid::new_v4();
            for version in (0..count).step_by(100) {
                let events = events(0, version as u64, 100.min(count - version));
                store.append(Appending { stream: id, version: version as u64, events }).await?;
            }
            *stream = Some((count, id));
            id
        }
    };
    let store = store.clone();
    // In a task, as callers are: not on the thread that waits for the runtime.
    let loaded = tokio::spawn(async move {
        let (mut answer, started) = (Answer::default(), Instant::now());
        while started.elapsed() < time {
            let called = Instant::now();
            let events = store.load(id).await?;
            if events != count {
                return Err(format!("a stream of {count} events was loaded with {events}").into());
            }
            answer.events += events as u64;
            answer.micros.push(u64::try_from(called.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        answer.seconds = started.elapsed().as_secs_f64();
        answer.micros.sort_unstable();
        Ok::<_, Error>(answer)
    });
    loaded.await?
}

/// One event at a time is due, and whoever is free sends it: a slow store sends later than asked, and says how many.
pub(crate) async fn send<S: Store>(store: &Arc<S>, rate: f64, time: Duration) -> Result<Answer, Error> {
    let (started, total) = (Instant::now(), (rate * time.as_secs_f64()).round() as u64);
    let senders = (rate / 10.0).ceil().clamp(1.0, SENDERS_MAX as f64) as usize;
    let sending = |sender| {
        let store = store.clone();
        async move {
            let mut calls = Calls::default();
            for number in (sender as u64..total).step_by(senders) {
                let due = started + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                // Behind by more than a second at the end: no use in going on.
                if started.elapsed() > time + Duration::from_secs(1) {
                    break;
                }
                let events = events(sender, number, 1);
                calls.append(&*store, Appending { stream: Uuid::new_v4(), version: 0, events }).await;
            }
            calls
        }
    };
    all(senders, started, sending).await
}

pub(crate) async fn write<S: Store>(store: &Arc<S>, writers: usize, time: Duration) -> Result<Answer, Error> {
    let started = Instant::now();
    let writing = |writer| {
        let store = store.clone();
        async move {
            let (mut calls, mut stream, mut version) = (Calls::default(), Uuid::new_v4(), 0);
            for number in 0.. {
                if started.elapsed() >= time {
                    break;
                }
                if version == STREAM_MAX {
                    (stream, version) = (Uuid::new_v4(), 0);
                }
                let events = vec![Placed::new(writer as u64, number)];
                if calls.append(&*store, Appending { stream, version, events }).await {
                    version += 1;
                    calls.acknowledged.push((writer as u64, number));
                }
            }
            calls
        }
    };
    all(writers, started, writing).await
}
