//! How contestants are drawn.

use super::super::results::{Contestant, Kind};

/// How a contestant is drawn as a bar.
pub(super) fn fill(contestant: &Contestant, best_peer: bool) -> &'static str {
    match contestant.kind {
        Kind::Highwater if is_best(contestant) => "f-ours-best",
        Kind::Highwater => "f-ours",
        Kind::Raw => "f-raw",
        Kind::Peer if best_peer => "f-best-peer",
        Kind::Peer => "f-peer",
    }
}

/// How a contestant is drawn as a curve: the same on every plot.
pub(super) fn curve(contestants: &[Contestant], id: &str) -> &'static str {
    const PEERS: [&str; 6] = ["k-c1", "k-c2", "k-c3", "k-c4", "k-c5", "k-c6"];
    let Some(contestant) = contestants.iter().find(|contestant| contestant.id == id) else { return PEERS[5] };
    match contestant.kind {
        Kind::Highwater if is_best(contestant) => "k-ours-best",
        Kind::Highwater => "k-ours",
        Kind::Raw => "k-raw",
        Kind::Peer => PEERS[among(contestants, Kind::Peer, id) % PEERS.len()],
    }
}

/// A mark that tells curves apart without colour.
pub(super) fn dot(contestants: &[Contestant], id: &str, x: f64, y: f64) -> String {
    let kind = contestants.iter().find(|contestant| contestant.id == id).map(|contestant| contestant.kind);
    let shape = match kind {
        Some(Kind::Peer) => Some(among(contestants, Kind::Peer, id) % 4),
        // Of raw drivers there are two, drawn alike.
        Some(Kind::Raw) if among(contestants, Kind::Raw, id) > 0 => Some(2),
        _ => None,
    };
    match shape {
        None => format!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        Some(0) => format!("<rect class=\"dot\" x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\"/>", x - 3.5, y - 3.5),
        Some(1) => path(x, y, &[(0.0, -4.6), (4.4, 3.4), (-4.4, 3.4)]),
        Some(2) => path(x, y, &[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)]),
        Some(_) => path(x, y, &[(0.0, 4.6), (4.4, -3.4), (-4.4, -3.4)]),
    }
}

fn path(x: f64, y: f64, corners: &[(f64, f64)]) -> String {
    let points: Vec<String> = corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    format!("<polygon class=\"dot\" points=\"{}\"/>", points.join(" "))
}

fn is_best(contestant: &Contestant) -> bool {
    contestant.id != "highwater"
}

/// Which of its kind a contestant is, from 0.
fn among(contestants: &[Contestant], kind: Kind, id: &str) -> usize {
    let alike = contestants.iter().filter(|contestant| contestant.kind == kind);
    alike.take_while(|contestant| contestant.id != id).count()
}
