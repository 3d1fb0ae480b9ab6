//! Scenario `latency`: from the call of append to the call of a handler in another process, at 100 events a second.
//!
//! The time at which it was sent travels in the event, and both processes look at the same clock. Each sender waits for
//! one event to be stored before it sends the next. Both receivers are there all the time, and slices of ours and raw take
//! turns.

mod ours;
mod raw;
mod receipts;

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::Error;
use crate::child::Child;
use crate::clock::now;
use crate::options::Options;
use crate::payload::{self, Placed};
use crate::report::{Goal, Report, Row, Unit};
use crate::rounds::quantile;
use crate::server::Server;

pub(crate) use ours::{receive as receive_ours, receive_from, send};
pub(crate) use raw::receive as receive_raw;

pub(crate) const OURS: &str = "latency-ours";
pub(crate) const RAW: &str = "latency-raw";

/// The time between two events.
pub(crate) const PACE: Duration = Duration::from_millis(10);
/// Events before it is the other's turn.
pub(crate) const SLICE: usize = 50;

pub(crate) async fn run(server: &Server, options: &Options) -> Result<Report, Error> {
    let placed = payload::sample()?;
    let mut ours = Side::new(&["ours, p50", "ours, p99", "ours, max"]);
    let mut raw = Side::new(&["raw, p50", "raw, p99", "raw, max"]);
    let (store, mut sender) = (server.store().await?, raw::Sender::new(server).await?);
    let mut ours_child = Child::start(server, OURS, &[]).await?;
    let mut raw_child = Child::start(server, RAW, &[]).await?;
    let slices = options.time.div_duration_f64(PACE * SLICE as u32).ceil() as usize;
    for round in 0..=options.rounds {
        for _ in 0..if round == 0 { 1 } else { slices } {
            paced(async || ours::send(&store, stamped(&placed)).await).await?;
            ours.take(&mut ours_child).await?;
            paced(async || sender.send(stamped(&placed)).await).await?;
            raw.take(&mut raw_child).await?;
        }
        // The first is there to warm up.
        ours.end_round(round > 0);
        raw.end_round(round > 0);
    }
    let rows = ours.rows.into_iter().chain(raw.rows).collect();
    Ok(Report::new(options, rows).compare("latency_vs_raw", "ours, p50", &["raw, p50"], Some(Goal::AtMost(1.3))))
}

/// A slice of events, one after the other.
pub(crate) async fn paced(mut send: impl AsyncFnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..SLICE {
        pace.tick().await;
        send().await?;
    }
    Ok(())
}

/// An order that says when it was sent.
pub(crate) fn stamped(placed: &Placed) -> Placed {
    Placed { amount: now(), ..placed.clone() }
}

/// What has been found about one side.
pub(crate) struct Side {
    pub(crate) rows: Vec<Row>,
    /// Of this round, in microseconds.
    micros: Vec<f64>,
}

impl Side {
    pub(crate) fn new(names: &[&str; 3]) -> Self {
        Self { rows: names.iter().map(|name| Row::new(*name, Unit::Microseconds)).collect(), micros: Vec::new() }
    }

    /// Takes from the receiver what a slice has brought.
    pub(crate) async fn take(&mut self, child: &mut Child) -> Result<(), Error> {
        let answer = child.ask(&SLICE.to_string()).await?;
        for nanos in answer.split_whitespace() {
            self.micros.push(nanos.parse::<f64>()? / 1e3);
        }
        Ok(())
    }

    pub(crate) fn end_round(&mut self, counts: bool) {
        let micros = std::mem::take(&mut self.micros);
        if counts {
            for (row, part) in self.rows.iter_mut().zip([0.5, 0.99, 1.0]) {
                row.push(quantile(&micros, part));
            }
        }
    }
}
