//! Callers and clocks: the same for every store.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{Answer, Appending, Error, Placed, Store};

/// A writer of `write` begins a new stream after so many events: some stores load a stream to append to it.
const STREAM_MAX: u64 = 20;
/// How many callers send at a steady rate, at most.
const SENDERS_MAX: usize = 64;

/// When something counts: what has ended between the two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    from: Instant,
    to: Instant,
}

impl Window {
    /// After a warm-up that begins now.
    pub(crate) fn after(warm_up: Duration, time: Duration) -> Self {
        let from = Instant::now() + warm_up;
        Self { from, to: from + time }
    }

    /// From now on, until a caller looks.
    fn open() -> Self {
        Self::after(Duration::ZERO, Duration::from_secs(3_600))
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.to
    }

    fn counts(&self) -> bool {
        (self.from..self.to).contains(&Instant::now())
    }

    pub(crate) fn bounds(&self) -> (Instant, Instant) {
        (self.from, self.to)
    }

    pub(crate) fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }
}

/// What one caller did.
#[derive(Default)]
struct Calls {
    /// Those that count.
    events: u64,
    /// All of them.
    stored: u64,
    attempts: u64,
    failed: u64,
    failure: Option<String>,
    acknowledged: Vec<(u64, u64)>,
}

impl Calls {
    /// So many events to a new stream.
    async fn append_new<S: Store>(&mut self, store: &S, window: Window, caller: usize, count: usize) -> bool {
        let events = events(caller, self.stored, count);
        self.append(store, window, Appending { stream: Uuid::new_v4(), version: 0, events }).await
    }

    /// Appends, and says whether it was done.
    async fn append<S: Store>(&mut self, store: &S, window: Window, append: Appending) -> bool {
        let events = append.events.len() as u64;
        match store.append(append).await {
            Ok(attempts) => {
                self.stored += events;
                self.attempts += attempts;
                self.events += if window.counts() { events } else { 0 };
                true
            }
            Err(error) => {
                self.attempts += 1;
                self.failed += 1;
                self.failure.get_or_insert_with(|| error.to_string());
                false
            }
        }
    }
}

/// Everything that so many callers at once did, until the last of them had returned.
async fn all<F>(callers: usize, call: impl Fn(usize) -> F) -> Result<Answer, Error>
where
    F: Future<Output = Calls> + Send + 'static,
{
    let (mut answer, mut tasks, started) = (Answer::default(), JoinSet::new(), Instant::now());
    for caller in 0..callers {
        tasks.spawn(call(caller));
    }
    while let Some(calls) = tasks.join_next().await {
        let Calls { events, attempts, failed, failure, acknowledged, .. } = calls?;
        answer.events += events;
        answer.attempts += attempts;
        answer.failed += failed;
        answer.failure = answer.failure.or(failure);
        answer.acknowledged.extend(acknowledged);
    }
    answer.seconds = started.elapsed().as_secs_f64();
    Ok(answer)
}

fn events(caller: usize, from: u64, count: usize) -> Vec<Placed> {
    (from..).take(count).map(|number| Placed::new(caller as u64, number)).collect()
}

pub(crate) async fn append<S: Store>(
    store: &Arc<S>,
    callers: usize,
    count: usize,
    window: Window,
) -> Result<Answer, Error> {
    let calling = |caller| {
        let store = store.clone();
        async move {
            let mut calls = Calls::default();
            while !window.is_over() {
                calls.append_new(&*store, window, caller, count).await;
            }
            calls
        }
    };
    Ok(Answer { seconds: window.seconds(), ..all(callers, calling).await? })
}

pub(crate) async fn fill<S: Store>(
    store: &Arc<S>,
    streams: usize,
    count: usize,
    callers: usize,
) -> Result<Answer, Error> {
    let window = Window::open();
    let filling = |caller| {
        let store = store.clone();
        async move {
            let mut calls = Calls::default();
            for _ in (caller..streams).step_by(callers) {
                if !calls.append_new(&*store, window, caller, count).await {
                    break;
                }
            }
            calls
        }
    };
    let filled = all(callers, filling).await?;
    match filled.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(filled),
    }
}

/// The stream is made with the first call.
pub(crate) async fn load<S: Store>(
    store: &Arc<S>,
    stream: &mut Option<(usize, Uuid)>,
    count: usize,
    warm_up: Duration,
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
    let (store, window) = (store.clone(), Window::after(warm_up, time));
    // In a task, as callers are: not on the thread that waits for the runtime.
    let loaded = tokio::spawn(async move {
        let mut answer = Answer { seconds: window.seconds(), ..Answer::default() };
        while !window.is_over() {
            let events = store.load(id).await?;
            if events != count {
                return Err(format!("a stream of {count} events was loaded with {events}").into());
            }
            answer.events += if window.counts() { events as u64 } else { 0 };
        }
        Ok::<_, Error>(answer)
    });
    loaded.await?
}

/// One event at a time is due, and a free sender sends it: a slow store sends later than asked, and says how many.
pub(crate) async fn send<S: Store>(store: &Arc<S>, rate: f64, time: Duration) -> Result<Answer, Error> {
    let (started, total, window) = (Instant::now(), (rate * time.as_secs_f64()).round() as u64, Window::open());
    let senders = (rate / 10.0).ceil().clamp(1.0, SENDERS_MAX as f64) as usize;
    let sending = |sender| {
        let store = store.clone();
        async move {
            let mut calls = Calls::default();
            for number in (sender as u64..total).step_by(senders) {
                let due = started + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                // Behind by more than a second at the end: no use in continuing.
                if started.elapsed() > time + Duration::from_secs(1) {
                    break;
                }
                let events = events(sender, number, 1);
                calls.append(&*store, window, Appending { stream: Uuid::new_v4(), version: 0, events }).await;
            }
            calls
        }
    };
    all(senders, sending).await
}

pub(crate) async fn write<S: Store>(
    store: &Arc<S>,
    writers: usize,
    count: usize,
    time: Duration,
) -> Result<Answer, Error> {
    let (started, window, acknowledged) = (Instant::now(), Window::open(), Arc::new(AtomicUsize::new(0)));
    let writing = |writer| {
        let (store, acknowledged) = (store.clone(), acknowledged.clone());
        async move {
            let (mut calls, mut stream, mut version) = (Calls::default(), Uuid::new_v4(), 0);
            for number in 0.. {
                if started.elapsed() >= time || acknowledged.load(Ordering::Relaxed) >= count {
                    break;
                }
                if version == STREAM_MAX {
                    (stream, version) = (Uuid::new_v4(), 0);
                }
                let events = vec![Placed::new(writer as u64, number)];
                if calls.append(&*store, window, Appending { stream, version, events }).await {
                    version += 1;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    calls.acknowledged.push((writer as u64, number));
                }
            }
            calls
        }
    };
    all(writers, writing).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_while_warming_up_or_too_late_does_not_count() {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
        assert!(Window::open().counts());
        let warming_up = Window::after(minute, hour);
        assert!(!warming_up.counts() && !warming_up.is_over());
        let over = Window { from: Instant::now(), to: Instant::now() };
        assert!(over.is_over() && !over.counts());
        assert_eq!(warming_up.seconds(), 3_600.0);
    }
}
