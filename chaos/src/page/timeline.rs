//! Faults, leaders, lag and throughput over the run, one below the other.

use std::collections::BTreeMap;

use highwater_pages::{escape, label, number, svg};

use super::axis::{Axis, COLUMNS, LEFT, RIGHT};
use crate::evidence::{Done, Evidence, Sample};
use crate::summary::{acknowledged, span};

/// The height of a kind of fault, of a subscriber, and of the throughput.
const FAULT: f64 = 17.0;
const LANE: f64 = 46.0;
const RATE: f64 = 92.0;
/// The band that says who leads.
const BAND: f64 = 9.0;
/// How many instances have a colour of their own.
const COLOURS: u32 = 8;

pub(super) fn timeline(evidence: &Evidence) -> String {
    let axis = Axis::new(span(evidence));
    let mut kinds: BTreeMap<&str, Vec<&Done>> = BTreeMap::new();
    for fault in &evidence.faults {
        kinds.entry(&fault.kind).or_default().push(fault);
    }
    let mut subscribers: Vec<&str> = Vec::new();
    for (id, ..) in evidence.samples.iter().flat_map(|sample| &sample.subscribers) {
        if !subscribers.contains(&id.as_str()) {
            subscribers.push(id);
        }
    }
    let mut body = String::new();
    let mut y = 30.0;
    let title = |y: f64, text: &str| label("strong", (0.0, y), text) + "\n";
    body += &title(y - 8.0, "Acknowledged appends a second");
    body += &rate(evidence, axis, y);
    y += RATE + 36.0;
    body += &title(y - 10.0, "Faults");
    for (kind, faults) in &kinds {
        body += &fault_lane(kind, faults, axis, y);
        y += FAULT;
    }
    y += 34.0;
    body += &title(y - 10.0, "Who leads (band), and how many events each subscriber is behind (area)");
    for id in subscribers {
        body += &lane(id, evidence, axis, y);
        y += LANE;
    }
    let mut ground = gaps(&evidence.samples, axis, y);
    for (x, text) in axis.ticks() {
        ground += &format!("<path class=\"axis\" d=\"M{x:.1} 30V{y:.0}\"/>");
        ground += &label("soft middle num", (x, y + 16.0), &text);
    }
    let told = "Throughput, faults by kind, and for each subscriber who leads and how far it is behind, over minutes and seconds.";
    format!(
        "{}<figure class=\"timeline\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">{}</div></figure>\n",
        key(evidence),
        svg((1_160.0, y + 26.0), "Timeline of the run", told, &(ground + &body))
    )
}

/// Which colour is which instance.
fn key(evidence: &Evidence) -> String {
    let led = evidence.samples.iter().flat_map(|sample| &sample.subscribers).filter_map(|subscriber| subscriber.2);
    let mut instances: Vec<u32> = led.collect();
    instances.sort_unstable();
    instances.dedup();
    let named: Vec<_> =
        instances.into_iter().map(|instance| (colour(instance), format!("instance {instance}"))).collect();
    let others = [
        ("nobody", "no leader"),
        ("gap", "the database did not answer"),
        ("fault", "fault"),
        ("fault server", "fault of the whole database"),
    ];
    highwater_pages::key(named.iter().map(|(class, text)| (&**class, &**text)).chain(others), "")
}

fn colour(instance: u32) -> String {
    format!("i{}", instance.saturating_sub(1) % COLOURS + 1)
}

/// What stands to the left of a lane: its name (`end`), or a figure (`soft end num`).
fn beside(class: &str, y: f64, text: &str) -> String {
    label(class, (LEFT - 10.0, y), text)
}

fn rate(evidence: &Evidence, axis: Axis, y: f64) -> String {
    let mut columns = [0_u64; COLUMNS];
    for at in acknowledged(evidence) {
        columns[axis.column(at)] += 1;
    }
    // A second at least goes together: less says nothing about a rate.
    let together = ((1.0 / axis.column_seconds()).ceil() as usize).clamp(1, COLUMNS);
    for chunk in columns.chunks_mut(together) {
        let seconds = axis.column_seconds() * chunk.len() as f64;
        chunk.fill((chunk.iter().sum::<u64>() as f64 / seconds).round() as u64);
    }
    let most = columns.iter().copied().max().unwrap_or(0);
    let values: Vec<Option<u64>> = columns.into_iter().map(Some).collect();
    let bottom = y + RATE;
    format!(
        "<path class=\"axis\" d=\"M{LEFT} {bottom:.1}H{RIGHT}\"/>{}{}{}\n",
        area(&values, most, y, RATE),
        beside("soft end num", y + 10.0, &number(most)),
        beside("soft end num", bottom, "0"),
    )
}

fn fault_lane(kind: &str, faults: &[&Done], axis: Axis, y: f64) -> String {
    let mut out = beside("end", y + 12.0, kind);
    for fault in faults {
        let (from, to) = (axis.x(fault.from), axis.x(fault.to));
        let server = if fault.server { " server" } else { "" };
        let failed = fault.failed.as_deref().map_or_else(String::new, |why| format!("\nnot done: {why}"));
        let class = if fault.failed.is_some() { "failed" } else { "fault" };
        let (begin, end) = (axis.time(fault.from), axis.time(fault.to));
        let told = format!("{}. {} ({begin} to {end})", fault.n, fault.what);
        out += &format!(
            "<rect class=\"{class}{server}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"1.5\"><title>{}{}</title></rect>",
            y + 3.0,
            (to - from).max(2.5),
            FAULT - 5.0,
            escape(&told),
            escape(&failed)
        );
    }
    out + "\n"
}

/// A subscriber: the band of its leaders, and its lag below.
fn lane(id: &str, evidence: &Evidence, axis: Axis, y: f64) -> String {
    let mut lags: Vec<Option<u64>> = vec![None; COLUMNS];
    let mut leaders: Vec<(u64, u64, Option<u32>)> = Vec::new();
    for sample in &evidence.samples {
        let Some((_, checkpoint, leader)) = sample.subscribers.iter().find(|subscriber| subscriber.0 == id) else {
            continue;
        };
        if let Some(head) = sample.head {
            let lag = lags[axis.column(sample.at)].get_or_insert(0);
            *lag = (*lag).max(head.saturating_sub(*checkpoint));
        }
        match leaders.last_mut() {
            Some((_, to, last)) if last == leader => *to = sample.at,
            last => {
                if let Some((_, to, _)) = last {
                    *to = sample.at;
                }
                leaders.push((sample.at, sample.at, *leader));
            }
        }
    }
    fill(&mut lags);
    let most = lags.iter().flatten().copied().max().unwrap_or(0);
    let mut out = beside("end", y + 12.0, id);
    for (from, to, leader) in leaders {
        let (class, told) = leader.map_or_else(
            || ("nobody".to_owned(), "no leader".to_owned()),
            |leader| (colour(leader), format!("instance {leader} leads")),
        );
        let (x, width) = (axis.x(from), (axis.x(to) - axis.x(from)).max(1.0));
        out += &format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{BAND}\"><title>{} to {}: {told}</title></rect>",
            y + 3.0,
            axis.time(from),
            axis.time(to)
        );
    }
    out += &beside("soft end num", y + 28.0, &format!("up to {} behind", number(most)));
    out + &area(&lags, most, y + BAND + 6.0, LANE - BAND - 12.0) + "\n"
}

/// Samples are fewer than columns in short runs: what is known holds until the next.
fn fill(columns: &mut [Option<u64>]) {
    let known: Vec<usize> = (0..columns.len()).filter(|at| columns[*at].is_some()).collect();
    let usual = known.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(1);
    for pair in known.windows(2).filter(|pair| pair[1] - pair[0] <= usual + 1) {
        let value = columns[pair[0]];
        columns[pair[0]..pair[1]].fill(value);
    }
}

/// What is not known is left out.
fn area(columns: &[Option<u64>], most: u64, top: f64, height: f64) -> String {
    let bottom = top + height;
    let mut path = String::new();
    let mut drawing = false;
    for (column, value) in columns.iter().enumerate() {
        let x = Axis::column_x(column);
        match value {
            Some(value) => {
                let y = bottom - height * *value as f64 / most.max(1) as f64;
                if !drawing {
                    path += &format!("M{x:.1} {bottom:.1}");
                }
                path += &format!("V{y:.1}H{:.1}", Axis::column_x(column + 1));
            }
            None if drawing => path += &format!("V{bottom:.1}Z"),
            None => {}
        }
        drawing = value.is_some();
    }
    if drawing {
        path += &format!("V{bottom:.1}Z");
    }
    if path.is_empty() { path } else { format!("<path class=\"area\" d=\"{path}\"/>") }
}

/// When nobody answered.
fn gaps(samples: &[Sample], axis: Axis, bottom: f64) -> String {
    let mut out = String::new();
    let mut since = None;
    let mut close = |since: &mut Option<u64>, to: u64| {
        if let Some(from) = since.take() {
            let (x, width) = (axis.x(from), (axis.x(to) - axis.x(from)).max(1.5));
            out += &format!(
                "<rect class=\"gap\" x=\"{x:.1}\" y=\"30\" width=\"{width:.1}\" height=\"{:.0}\"><title>no answer from {} to {}</title></rect>\n",
                bottom - 30.0,
                axis.time(from),
                axis.time(to)
            );
        }
    };
    for sample in samples {
        match sample.head {
            None => {
                since.get_or_insert(sample.at);
            }
            Some(_) => close(&mut since, sample.at),
        }
    }
    if let Some(last) = samples.last() {
        close(&mut since, last.at);
    }
    out
}
