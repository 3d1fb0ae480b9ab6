//! One picture: pure, so that tests can check it.

use highwater::operations::{Overview, SubscriberOverview};

use super::super::status;
use super::history::History;
use crate::table::{Cell, Table};
use crate::terminal::{Paint, cut};
use crate::words;

/// How wide a plot is, where there is room and where there is not.
const PLOT: (usize, usize) = (20, 8);
/// From which width on there is room.
const ROOM: usize = 120;

/// The lines of the screen, no more than fit on it.
pub(super) fn lines(
    place: &str,
    seen: &Result<Overview, String>,
    history: &History,
    size: (usize, usize),
    colour: bool,
) -> Vec<String> {
    let mut lines = all_lines(place, seen, history, size, colour);
    lines.truncate(size.1);
    lines
}

fn all_lines(
    place: &str,
    seen: &Result<Overview, String>,
    history: &History,
    (width, height): (usize, usize),
    colour: bool,
) -> Vec<String> {
    let paint = |text: &str, paint: Paint| {
        let text = cut(&words::one_line(text), width);
        if colour { paint.over(&text) } else { text }
    };
    let mut lines = vec![paint(&format!("highwater top   {place}   q quits"), Paint::Bold)];
    let overview = match seen {
        Ok(overview) => overview,
        Err(error) => {
            lines.push(paint(error, Paint::Red));
            lines.push(paint("retrying", Paint::Dim));
            return lines;
        }
    };
    let plot = if width >= ROOM { PLOT.0 } else { PLOT.1 };
    let appended = words::rate(history.appended.last());
    lines.push(cut(&format!("{}   appended {} {appended}", status::log(overview), history.appended.plot(plot)), width));
    lines.extend(status::filling(overview).map(|filling| paint(&filling, Paint::Red)));
    for writer in &overview.open_writers {
        lines.push(paint(&format!("readers wait for {writer}"), Paint::Yellow));
    }
    lines.push(String::new());
    if overview.subscribers.is_empty() {
        lines.push(cut("no subscribers yet", width));
        return lines;
    }
    let table = table(overview, history, plot).lines(colour, Some(width));
    // What does not fit is counted, so that the user knows that there is more.
    let room = height.saturating_sub(lines.len() + 1);
    let hidden = table.len().saturating_sub(room);
    lines.extend(table.into_iter().take(room));
    if hidden > 0 {
        lines.push(paint(&format!("{hidden} more; a taller window shows them"), Paint::Dim));
        return lines;
    }
    lines.push(String::new());
    let errors = overview.subscribers.iter().filter_map(|subscriber| {
        let error = subscriber.last_error.as_deref()?;
        Some(paint(&format!("{}: {error}", subscriber.subscriber_id), Paint::Dim))
    });
    lines.extend(errors);
    lines
}

fn table(overview: &Overview, history: &History, plot: usize) -> Table {
    let titles = ["subscriber", "state", "leader", ">checkpoint", "", ">rate", "", ">lag", ">behind", ">left", ">dead"];
    let mut table = Table::new(&titles);
    for subscriber in &overview.subscribers {
        let pair = history.of(&subscriber.subscriber_id);
        table.row([
            (&subscriber.subscriber_id).into(),
            status::state(subscriber),
            leader(subscriber).into(),
            words::number(subscriber.checkpoint).into(),
            Cell::painted(pair.map(|pair| pair.rate.plot(plot)).unwrap_or_default(), Paint::Green),
            words::rate(subscriber.rate).into(),
            Cell::painted(pair.map(|pair| pair.lag.plot(plot)).unwrap_or_default(), Paint::Yellow),
            words::number(subscriber.lag_events).into(),
            status::behind(subscriber).into(),
            status::left(subscriber).into(),
            status::dead(subscriber),
        ]);
    }
    table
}

/// Shorter than in `status`: there are plots beside it.
fn leader(subscriber: &SubscriberOverview) -> String {
    match &subscriber.leader {
        Some(leader) if subscriber.is_led() => format!("{}:{}", leader.instance.host, leader.instance.pid),
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use highwater::backend::Checkpoints as _;
    use highwater::{Claim, EventStore, MemoryEventStore};

    use super::*;

    async fn seen(subscribers: usize) -> Result<Overview, String> {
        let store = MemoryEventStore::new();
        for n in 0..subscribers {
            store.take_over(&Claim::of(format!("projection:number-{n}"))).await.unwrap();
        }
        store.overview().await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_picture_fits_whatever_the_size() {
        let (seen, mut history) = (seen(12).await, History::default());
        history.add(seen.as_ref().unwrap());
        for size in [(1, 1), (10, 3), (80, 24), (200, 50)] {
            let lines = lines("sqlite:shop.db", &seen, &history, size, false);
            assert!(lines.len() <= size.1, "{size:?}: {lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= size.0), "{size:?}: {lines:#?}");
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_counted_and_an_error_is_shown() {
        let (seen, history) = (seen(12).await, History::default());
        let picture = lines("sqlite:shop.db", &seen, &history, (80, 10), false);
        assert_eq!(picture.last().map(String::as_str), Some("7 more; a taller window shows them"));
        let picture = lines("sqlite:shop.db", &Err("gone".to_owned()), &history, (80, 10), true);
        assert_eq!(picture[1], "\u{1b}[31mgone\u{1b}[0m");
    }
}
