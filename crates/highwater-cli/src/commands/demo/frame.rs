//! One picture: pure, so that it can be looked at in tests.

use highwater_demo::{Fate, Phase, Scene};

use super::lines::short;
use super::show::Seen;
use crate::table::{Cell, Table};
use crate::terminal::{Paint, cut};
use crate::words;

/// How wide a plot is at most.
const PLOT_MAX: usize = 60;

/// The lines of the screen.
pub(super) fn lines(scene: &Scene, seen: &Seen, (width, height): (usize, usize), colour: bool) -> Vec<String> {
    let paint = |text: &str, paint: Paint| {
        let text = cut(text, width);
        if colour { paint.over(&text) } else { text }
    };
    let plot = width.saturating_sub(40).min(PLOT_MAX);
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
    let goes_on = match scene.phase {
        Phase::Orders if scene.held_back => "orders are held back: the shop cannot keep up",
        Phase::Orders => "orders come in",
        Phase::CatchingUp => "no more orders",
    };
    let (elapsed, total) = (scene.elapsed.as_secs().min(scene.total.as_secs()), scene.total.as_secs());
    format!("highwater demo   {elapsed} of {total} s   {goes_on}   q quits")
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
        let dead = match subscriber.letters {
            0 => "0".into(),
            letters => Cell::painted(words::number(letters), Paint::Red),
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
