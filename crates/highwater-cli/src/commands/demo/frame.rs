//! One picture: pure, so that tests can check it.

use highwater_demo::{Fate, Phase, Scene};

use super::lines::short;
use super::show::Seen;
use crate::table::{Cell, Table};
use crate::terminal::{Paint, cut};
use crate::words;

/// How wide a plot is: what its neighbours leave of the line, between these two.
const PLOT: (usize, usize) = (10, 60);
/// What stands beside a plot.
const BESIDE: usize = 64;

/// The lines of the screen.
pub(super) fn lines(scene: &Scene, seen: &Seen, (width, height): (usize, usize), colour: bool) -> Vec<String> {
    let paint = |text: &str, paint: Paint| {
        let text = cut(text, width);
        if colour { paint.over(&text) } else { text }
    };
    let plot = width.saturating_sub(BESIDE).clamp(PLOT.0, PLOT.1);
    let mut lines = vec![
        paint(&title(scene), Paint::Bold),
        cut(&format!("stored  {}  {}", seen.throughput.plot(plot), events(scene)), width),
        cut(&format!("lag     {}  {} events", seen.lag.plot(plot), words::number(scene.lag)), width),
        String::new(),
    ];
    lines.extend(instances(scene).lines(colour, Some(width)));
    lines.push(String::new());
    lines.extend(subscribers(scene).lines(colour, Some(width)));
    lines.push(String::new());
    let room = height.saturating_sub(lines.len());
    let latest = seen.happenings.iter().skip(seen.happenings.len().saturating_sub(room));
    lines.extend(latest.map(|line| match line.contains("killed") {
        true => paint(line, Paint::Red),
        false => cut(line, width),
    }));
    lines.truncate(height);
    lines
}

fn title(scene: &Scene) -> String {
    let continues = match scene.phase {
        Phase::Orders if scene.held_back => "orders are held back: the shop cannot keep up",
        Phase::Orders => "orders come in",
        Phase::CatchingUp => "no more orders",
    };
    let (elapsed, total) = (scene.elapsed.as_secs().min(scene.total.as_secs()), scene.total.as_secs());
    format!("highwater demo   {elapsed} of {total} s   {continues}   q quits")
}

fn events(scene: &Scene) -> String {
    format!(
        "{} events/s   {} in {}",
        words::number(scene.throughput.round() as u64),
        words::count(scene.head, "event"),
        words::count(scene.orders, "order")
    )
}

fn instances(scene: &Scene) -> Table {
    let mut table = Table::new(&["instance", ">pid", "", "leads"]);
    for instance in &scene.instances {
        let fate = match instance.fate {
            Fate::Running => Cell::painted("running", Paint::Green),
            Fate::Killed => Cell::painted("killed", Paint::Red),
        };
        let leads: Vec<&str> = instance.leads.iter().map(|id| short(id)).collect();
        table.row([instance.number.into(), instance.pid.into(), fate, leads.join(", ").into()]);
    }
    table
}

fn subscribers(scene: &Scene) -> Table {
    let mut table = Table::new(&["subscriber", "state", "led by", ">checkpoint", ">lag", ">dead letters"]);
    for subscriber in &scene.subscribers {
        let leader = subscriber.leader.map_or_else(|| "nobody".to_owned(), |number| format!("instance {number}"));
        let paint = match subscriber.state {
            "live" => Paint::Green,
            "catching up" | "starting" => Paint::Yellow,
            _ => Paint::Red,
        };
        let dead = match subscriber.dead_letters {
            0 => "0".into(),
            dead_letters => Cell::painted(words::number(dead_letters), Paint::Red),
        };
        table.row([
            subscriber.id.into(),
            Cell::painted(subscriber.state, paint),
            leader.into(),
            words::number(subscriber.checkpoint.unwrap_or(0)).into(),
            words::number(subscriber.lag).into(),
            dead,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use highwater_demo::{InstanceView, SubscriberView};

    use super::*;

    fn scene() -> Scene {
        let instance = |number, fate, leads| InstanceView { number, pid: 100 + number, fate, leads };
        let subscriber = |id, leader, lag, dead_letters| {
            let state = if leader == Some(1) { "live" } else { "no leader" };
            SubscriberView { id, state, leader, checkpoint: Some(7_200 - lag), lag, dead_letters }
        };
        Scene {
            elapsed: Duration::from_millis(16_400),
            total: Duration::from_secs(30),
            phase: Phase::Orders,
            orders: 2_400,
            head: 7_200,
            throughput: 601.4,
            lag: 44,
            dead_letters: 3,
            held_back: false,
            instances: vec![
                instance(1, Fate::Running, vec!["projection:emails"]),
                instance(2, Fate::Killed, Vec::new()),
            ],
            subscribers: vec![
                subscriber("projection:emails", Some(1), 44, 3),
                subscriber("saga:fulfilment", None, 12, 0),
            ],
        }
    }

    fn seen() -> Seen {
        let mut seen = Seen::default();
        seen.throughput.add(601.4);
        seen.happenings = vec!["  0.0 s  open".to_owned(), " 15.0 s  instance 2 killed (pid 102)".to_owned()];
        seen
    }

    #[test]
    fn a_picture_shows_who_leads_and_what_happened() {
        let lines = lines(&scene(), &seen(), (100, 30), false);
        assert_eq!(lines[0], "highwater demo   16 of 30 s   orders come in   q quits");
        assert!(lines[1].ends_with("█  601 events/s   7,200 events in 2,400 orders"), "{}", lines[1]);
        assert_eq!(lines[5], "1         101  running  emails");
        assert_eq!(lines[6], "2         102  killed");
        assert_eq!(lines[9], "projection:emails  live       instance 1       7,156   44             3");
        assert_eq!(lines[10], "saga:fulfilment    no leader  nobody           7,188   12             0");
        assert_eq!(lines[12..], ["  0.0 s  open", " 15.0 s  instance 2 killed (pid 102)"]);
    }

    #[test]
    fn a_picture_fits_every_screen() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (200, 60)] {
            let lines = lines(&scene(), &seen(), (width, height), false);
            assert!(lines.len() <= height && lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
        }
    }
}
