//! `highwater status`

use clap::Args;
use highwater::EventStore;
use highwater::backend::{Backend, Leader, LeaderHold, OpenWriter};
use highwater::operations::{LeaseOverview, Overview, SubscriberOverview};
use serde_json::{Value, json};

use crate::arguments::Global;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Cell, Table};
use crate::terminal::Paint;
use crate::words;

const EXAMPLES: &str = "\
Examples:
  highwater status
  highwater status --json | jq '.subscribers[] | select(.lag_events > 1000)'";

/// Show how every subscriber stands
///
/// What it does, who leads, where its checkpoint is, how far behind it is in events and in time, how fast it is and how long
/// that takes, its dead letters, and its last error. `highwater why` says more about one of them. Leases, which applications
/// acquire by hand, follow in a table of their own: who holds them and since when.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {}

impl Status {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        let store = global.open().await?;
        let overview = overview(&*store).await?;
        let mut out = global.output();
        match global.json {
            true => out.value(&self::json(&overview))?,
            false => tell(&overview, &mut out)?,
        }
        out.finish()
    }
}

async fn overview(store: &dyn Backend) -> Result<Overview, Failure> {
    Ok(store.overview().await?)
}

fn tell(overview: &Overview, out: &mut Output) -> Result<(), Failure> {
    out.line(&log(overview))?;
    if let Some(filling) = filling(overview) {
        out.line(&out.paint(&words::one_line(&filling), Paint::Red))?;
    }
    for writer in &overview.open_writers {
        let waiting = format!("readers wait for {writer}");
        out.line(&out.paint(&words::one_line(&waiting), Paint::Yellow))?;
    }
    if overview.subscribers.is_empty() {
        out.line("no subscribers yet")?;
    } else {
        subscribers(overview, out)?;
    }
    leases(overview, out)
}

fn subscribers(overview: &Overview, out: &mut Output) -> Result<(), Failure> {
    out.line("")?;
    let titles =
        ["subscriber", "state", "leader", ">checkpoint", ">lag", ">behind", ">rate", ">left", ">dead", "last error"];
    let mut table = Table::new(&titles);
    for subscriber in &overview.subscribers {
        table.row(cells(subscriber));
    }
    out.table(&table)
}

fn leases(overview: &Overview, out: &mut Output) -> Result<(), Failure> {
    if overview.leases.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(&["leases", "held by", ">term"]);
    for lease in &overview.leases {
        let holder = holder(lease.holder.as_ref());
        let holder = if lease.is_held() { Cell::from(holder) } else { Cell::painted(holder, Paint::Dim) };
        table.row([(&lease.name).into(), holder, lease.term.into()]);
    }
    out.table(&table)
}

/// The log in a line.
pub(super) fn log(overview: &Overview) -> String {
    match overview.head {
        0 => "the log is empty".to_owned(),
        head if head > overview.frontier => {
            format!("the log is settled up to {} of {}", words::number(overview.frontier), words::number(head))
        }
        head => format!("the log is settled up to its end, {}", words::number(head)),
    }
}

/// That it is only half of a store, where it is.
pub(super) fn filling(overview: &Overview) -> Option<String> {
    let unfinished = overview.filling.as_ref()?;
    let (source, for_long) = (&unfinished.source, words::duration(words::since(unfinished.since)));
    let to = words::number(unfinished.filled_to);
    let done = format!("only half a copy: it is being filled from {source}, for {for_long}, and is up to {to}");
    Some(format!("{done}; run the same copy or import again, or `highwater copy --abandon STORE`"))
}

fn cells(subscriber: &SubscriberOverview) -> [Cell; 10] {
    [
        (&subscriber.subscriber_id).into(),
        state(subscriber),
        holder(subscriber.leader.as_ref()).into(),
        words::number(subscriber.checkpoint).into(),
        words::number(subscriber.lag_events).into(),
        behind(subscriber).into(),
        words::rate(subscriber.rate).into(),
        left(subscriber).into(),
        dead(subscriber),
        subscriber.last_error.as_deref().unwrap_or_default().into(),
    ]
}

pub(super) fn state(subscriber: &SubscriberOverview) -> Cell {
    let paint = match subscriber.state() {
        "live" => Paint::Green,
        "catching up" => Paint::Bold,
        "paused" | "stopped" => Paint::Dim,
        "retrying" | "held back" => Paint::Yellow,
        _ => Paint::Red,
    };
    Cell::painted(subscriber.state(), paint)
}

fn holder(leader: Option<&Leader>) -> String {
    let Some(leader) = leader else { return "none".to_owned() };
    let instance = &leader.instance;
    let who = format!("{} pid {}, {}", instance.host, instance.pid, words::duration(words::since(leader.since)));
    match leader.hold {
        LeaderHold::Held => who,
        LeaderHold::Gone => "none".to_owned(),
        LeaderHold::Unknown => format!("{who}, if it still runs"),
    }
}

pub(super) fn behind(subscriber: &SubscriberOverview) -> String {
    if subscriber.lag_events == 0 { "-".to_owned() } else { words::duration(subscriber.lag) }
}

pub(super) fn left(subscriber: &SubscriberOverview) -> String {
    match subscriber.time_left {
        Some(left) if subscriber.lag_events > 0 => words::duration(left),
        None => "?".to_owned(),
        Some(_) => "-".to_owned(),
    }
}

pub(super) fn dead(subscriber: &SubscriberOverview) -> Cell {
    match subscriber.dead_letters {
        0 => 0.into(),
        dead_letters => Cell::painted(words::number(dead_letters), Paint::Red),
    }
}

fn json(overview: &Overview) -> Value {
    json!({
        "frontier": overview.frontier,
        "head": overview.head,
        "filling": overview.filling.as_ref().map(|filling| {
            json!({ "source": filling.source, "since": words::exact(filling.since), "filled_to": filling.filled_to })
        }),
        "open_writers": overview.open_writers.iter().map(writer).collect::<Vec<_>>(),
        "subscribers": overview.subscribers.iter().map(subscriber).collect::<Vec<_>>(),
        "leases": overview.leases.iter().map(lease).collect::<Vec<_>>(),
    })
}

fn writer(writer: &OpenWriter) -> Value {
    json!({
        "transaction": writer.transaction,
        "pid": writer.pid,
        "role": writer.role,
        "seconds": writer.age.map(|age| age.as_secs_f64()),
        "application": writer.application_name,
        "last_statement": writer.last_statement,
        "may_only_have_looked": writer.may_only_have_looked,
        "waits_for_replica": writer.waits_for_replica,
        "hidden": writer.hidden,
    })
}

fn leader(leader: &Leader) -> Value {
    json!({
        "host": leader.instance.host,
        "pid": leader.instance.pid,
        "instance": leader.instance.id.to_string(),
        "label": leader.instance.label,
        "since": words::exact(leader.since),
        "hold": match leader.hold {
            LeaderHold::Held => "held",
            LeaderHold::Gone => "gone",
            LeaderHold::Unknown => "unknown",
        },
    })
}

fn lease(lease: &LeaseOverview) -> Value {
    json!({
        "lease": lease.name,
        "held": lease.is_held(),
        "holder": lease.holder.as_ref().map(leader),
        "term": lease.term,
        "acquired_at": words::exact(lease.acquired_at),
    })
}

fn subscriber(subscriber: &SubscriberOverview) -> Value {
    json!({
        "subscriber": subscriber.subscriber_id,
        "state": subscriber.state(),
        "leader": subscriber.leader.as_ref().map(leader),
        "term": subscriber.term,
        "checkpoint": subscriber.checkpoint,
        "checkpoint_at": words::exact(subscriber.checkpoint_at),
        "lag_events": subscriber.lag_events,
        "held_back": subscriber.held_back,
        "lag_seconds": subscriber.lag.as_secs_f64(),
        "rate": subscriber.rate,
        "seconds_left": subscriber.time_left.map(|left| left.as_secs_f64()),
        "paused": subscriber.paused,
        "dead_letters": subscriber.dead_letters,
        "parked_streams": subscriber.parked_streams,
        "open_requests": subscriber.open_requests,
        "last_error": subscriber.last_error,
        "push_degraded": subscriber.report.as_ref().and_then(|report| report.push_degraded.as_deref()),
        "reported_at": subscriber.report.as_ref().map(|report| words::exact(report.reported_at)),
    })
}
