//! Concurrent callers, and a lone one.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Error;
use crate::rounds::{median, quantile};

/// Events per second of `count` tasks that call one after the other for as long as there is time. A call says how many
/// events it dealt with. The clock stops when the last call has returned.
pub(crate) async fn rate<C, F>(count: usize, time: Duration, call: C) -> Result<f64, Error>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<usize, Error>> + Send,
{
    let started = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|caller| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut events = 0;
                while started.elapsed() < time {
                    events += call(caller).await?;
                }
                Ok::<_, Error>(events)
            })
        })
        .collect();
    let mut events = 0;
    for task in tasks {
        events += task.await??;
    }
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

/// How long all but a hundredth of the calls of `count` tasks take at most, in milliseconds.
pub(crate) async fn slowest<C, F>(count: usize, time: Duration, call: C) -> Result<f64, Error>
where
    C: Fn(usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<usize, Error>> + Send,
{
    let millis = Arc::new(Mutex::new(Vec::new()));
    let timed = {
        let millis = millis.clone();
        move |caller| {
            let (call, millis) = (call.clone(), millis.clone());
            async move {
                let called = Instant::now();
                let events = call(caller).await?;
                let took = called.elapsed().as_secs_f64() * 1e3;
                millis.lock().map_err(|_| "a caller panicked")?.push(took);
                Ok(events)
            }
        }
    };
    rate(count, time, timed).await?;
    let millis = millis.lock().map_err(|_| "a caller panicked")?;
    Ok(quantile(&millis, 0.99))
}

/// The median of how long a call takes when nobody else calls, in microseconds.
pub(crate) async fn latency<C, F>(time: Duration, call: C) -> Result<f64, Error>
where
    C: Fn() -> F + Send + 'static,
    F: Future<Output = Result<usize, Error>> + Send,
{
    // In a task, as callers are: not on the thread that waits for the runtime.
    let calls = tokio::spawn(async move {
        let mut micros = Vec::new();
        let started = Instant::now();
        while started.elapsed() < time {
            let called = Instant::now();
            call().await?;
            micros.push(called.elapsed().as_secs_f64() * 1e6);
        }
        Ok::<_, Error>(micros)
    });
    Ok(median(&calls.await??))
}
