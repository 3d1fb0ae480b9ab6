//! Exports that are nearly valid: right in the whole, and changed in a place or two.

use highwater_fuzz::{Source, mutated};
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

fn id(kind: u8, n: usize) -> String {
    uuid::Uuid::from_u128(u128::from(kind) << 64 | n as u128 | 1 << 100).to_string()
}

const AT: &str = "2026-01-02T03:04:05.678901Z";

/// Mostly a time like any other.
fn time(source: &mut Source<'_>) -> &'static str {
    source.pick(&[
        AT,
        AT,
        AT,
        AT,
        AT,
        AT,
        AT,
        AT,
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:60.5Z",
        "2026-01-02T03:04:05.1234567+01:00",
    ])
}

/// Lines as a store with some of everything would be exported.
fn valid(source: &mut Source<'_>) -> Vec<Value> {
    let mut lines = Vec::new();
    let (mut number, streams) = (0, 1 + source.below(2));
    let mut heads = vec![0; streams];
    let events = source.below(7);
    for n in 0..events {
        number += 1 + usize::from(source.one_in(4));
        let stream = source.below(streams);
        heads[stream] += 1;
        lines.push(json!({ "event": {
            "global_sequence": number, "id": id(1, n), "stream_id": id(2, stream), "stream_version": heads[stream],
            "event_type": source.pick(&["Placed", "Paid", "a/b", "é"]), "schema_version": 1, "created_at": time(source),
            "data": { "text": source.pick(&["x", "", "\u{1f4a9}"]), "count": 1.5 }, "metadata": {},
        }}));
    }
    let head = number;
    for n in 0..source.below(3) {
        lines.push(json!({ "checkpoint": {
            "subscriber_id": format!("projection:{n}"), "global_sequence": source.below(head + 1), "event_id": null,
            "updated_at": AT, "paused": source.one_in(3),
        }}));
    }
    for n in 0..source.below(3) {
        let attempts: Vec<Value> = (0..source.below(2))
            .map(|_| json!({ "at": AT, "by": "anna", "outcome": "failed", "detail": null }))
            .collect();
        lines.push(json!({ "dead_letter": {
            "id": id(3, n), "subscriber_id": "projection:0", "event_id": id(1, n), "global_sequence": n + 1,
            "stream_id": id(2, 0), "event_type": "Placed", "error_message": "no", "retry_count": 1, "created_at": AT,
            "last_retry_at": null, "state": source.pick(&["dead", "parked", "replayed", "discarded", "archived"]),
            "parks": false, "resolved_at": null, "resolved_by": null, "reason": null, "attempts": attempts,
        }}));
    }
    for n in 0..source.below(3) {
        let kind = match source.below(4) {
            0 => json!("replay_all"),
            1 => json!({ "replay": { "dead_letter": id(3, 0) } }),
            2 => json!({ "discard": { "dead_letter": id(3, 0), "reason": "no" } }),
            _ => json!("rebuild"),
        };
        lines.push(json!({ "request": {
            "id": id(4, n), "subscriber_id": "projection:0", "kind": kind, "requested_by": "anna", "requested_at": AT,
        }}));
    }
    lines
}

fn count(lines: &[Value], kind: &str) -> usize {
    lines.iter().filter(|line| line.get(kind).is_some()).count()
}

/// An export: valid, or with a few things changed; and then with the hash that fits it, mostly, so that what was changed is
/// met and not only the hash.
pub(crate) fn export(source: &mut Source<'_>) -> Vec<u8> {
    let mut lines = valid(source);
    for _ in 0..source.below(3) {
        if lines.is_empty() {
            break;
        }
        let at = source.below(lines.len());
        match source.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[at].clone()),
            2 => {
                let other = source.below(lines.len());
                lines.swap(at, other);
            }
            _ => {
                let Value::Object(mut line) = lines[at].take() else { unreachable!("lines are objects") };
                let kind = line.keys().next().cloned().unwrap_or_default();
                let content = line.remove(&kind).unwrap_or_default();
                lines[at] = json!({ kind: mutated(content, source) });
            }
        }
    }
    let frontier = lines.iter().filter_map(|line| line["event"]["global_sequence"].as_u64()).max().unwrap_or(0);
    let mut header = json!({ "header": {
        "version": 1, "frontier": frontier, "events": count(&lines, "event"), "checkpoints": count(&lines, "checkpoint"),
    }});
    if source.one_in(10) {
        header = mutated(header, source);
    }
    let mut text = format!("{header}\n");
    for line in &lines {
        text += &format!("{line}\n");
    }
    let md5: [u8; 16] = Md5::digest(&text).into();
    let mut footer = json!({ "footer": {
        "counts": { "events": count(&lines, "event"), "checkpoints": count(&lines, "checkpoint"),
            "dead_letters": count(&lines, "dead_letter"), "requests": count(&lines, "request") },
        "md5": format!("{:032x}", u128::from_be_bytes(md5)),
    }});
    if source.one_in(10) {
        footer = mutated(footer, source);
    }
    text += &format!("{footer}\n");
    let mut bytes = text.into_bytes();
    // And sometimes the bytes themselves: cut off, turned over, or something put in.
    match source.below(16) {
        13 => bytes.truncate(source.below(bytes.len() + 1)),
        14 => {
            let at = source.below(bytes.len());
            bytes[at] ^= 1 << source.below(8);
        }
        15 => {
            let at = source.below(bytes.len() + 1);
            bytes.splice(at..at, source.bytes(20).iter().copied());
        }
        _ => {}
    }
    bytes
}
