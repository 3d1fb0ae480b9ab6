//! What is printed as lines: all of it where there is no screen.

use std::io::{self, Write as _};
use std::time::Duration;

use highwater_demo::{Audience, Fate, Happening, Phase, Plan, Scene};

use crate::words;

/// How often to say how things are.
const EVERY: Duration = Duration::from_secs(1);

/// What will happen.
pub(super) fn introduction(plan: &Plan) -> String {
    let (half, later) = (plan.seconds as f64 / 2.0, plan.seconds as f64 * 0.75);
    format!(
        "A shop takes {} a second for {} s. Three processes share the work. After {half} s the busiest one is killed,\n\
         after {later} s the e-mails that failed are sent again, and at the end plain SQL checks the books.",
        words::count(plan.rate, "order"),
        plan.seconds,
    )
}

/// A happening in a sentence.
pub(super) fn sentence(what: &Happening) -> String {
    match what {
        Happening::Opened { place, instances } => {
            let instances = instances.iter().map(|(number, pid)| format!("instance {number} (pid {pid})"));
            format!("open on {place}: {}", instances.collect::<Vec<_>>().join(", "))
        }
        Happening::Killed(killed) => {
            format!("instance {} killed (pid {}); it led {}", killed.number, killed.pid, killed.led.join(" and "))
        }
        Happening::TakenOver(takeover) => format!(
            "{} taken over by instance {} after {}",
            takeover.subscriber_id,
            takeover.by,
            milliseconds(takeover.after)
        ),
        Happening::Repaired { addresses, dead_letters } => {
            format!("addresses repaired: {addresses}; to be replayed: {}", words::count(*dead_letters, "dead letter"))
        }
        Happening::Replayed { done, failed } => {
            format!("replayed {}; {failed} failed again", words::count(*done, "dead letter"))
        }
        Happening::Closed { orders } => format!("no more orders: {} were placed", words::number(*orders)),
        Happening::CaughtUp { after } => {
            format!("everything is handled, {} after the last order", milliseconds(*after))
        }
        Happening::Corrupted => "one row of the revenue was damaged on purpose".to_owned(),
    }
}

/// `  12.3 s`.
pub(super) fn at(elapsed: Duration) -> String {
    format!("{:5.1} s", elapsed.as_secs_f64())
}

/// `1,234 ms`: what is short is to be compared, and not rounded.
pub(super) fn milliseconds(duration: Duration) -> String {
    format!("{} ms", words::number(duration.as_millis() as u64))
}

/// A name without its kind.
pub(super) fn short(subscriber_id: &str) -> &str {
    subscriber_id.split_once(':').map_or(subscriber_id, |(_, name)| name)
}

/// About one line a second.
#[derive(Default)]
pub(super) struct Lines {
    next: Duration,
}

impl Audience for Lines {
    fn scene(&mut self, scene: &Scene) -> io::Result<()> {
        if scene.elapsed < self.next || scene.phase == Phase::CatchingUp {
            return Ok(());
        }
        self.next = scene.elapsed + EVERY;
        let leaders = scene.instances.iter().map(|instance| {
            let leads = instance.leads.iter().map(|id| short(id)).collect::<Vec<_>>().join(" ");
            match instance.fate {
                Fate::Killed => format!("{}: dead", instance.number),
                Fate::Running => format!("{}: {}", instance.number, if leads.is_empty() { "-" } else { &leads }),
            }
        });
        let held_back = if scene.held_back { "   orders are held back" } else { "" };
        let line = format!(
            "{}  orders {:>6}  {:>9}  lag {:>5}  dead letters {:>3}   {}{held_back}",
            at(scene.elapsed),
            words::number(scene.orders),
            words::rate(scene.throughput),
            words::number(scene.lag),
            words::number(scene.dead_letters),
            leaders.collect::<Vec<_>>().join(" | "),
        );
        writeln!(io::stdout(), "{line}")
    }

    fn happened(&mut self, elapsed: Duration, what: &Happening) -> io::Result<()> {
        writeln!(io::stdout(), "{}  {}", at(elapsed), sentence(what))
    }
}
