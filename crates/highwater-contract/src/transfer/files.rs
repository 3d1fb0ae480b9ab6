//! Exports and imports.

use highwater::transfer::TransferError;
use std::sync::Arc;

use highwater::backend::{Backend, Batch, Checkpoints, Transfer};
use highwater::{Error, transfer};

use super::samples::{Sample, live_through};
use super::{assert_holds, fill, finish, put};
use crate::support::{deposits, everything, new_stream, store as append, within};
use crate::{Harness, Settings};

async fn exported(store: &dyn Backend) -> String {
    let mut file = Vec::new();
    let done = within("exporting", transfer::export(store, &mut file, |_| ())).await.expect("a store can be exported");
    let file = String::from_utf8(file).expect("an export is text");
    assert_eq!(file.lines().count() as u64, 2 + total(&done.counts), "one line each, a header and a footer");
    assert!(file.ends_with(&format!("\"md5\":\"{}\"}}}}\n", done.md5)), "the last line has the hash");
    file
}

fn total(counts: &transfer::Counts) -> u64 {
    counts.events + counts.checkpoints + counts.dead_letters + counts.requests
}

async fn imported(store: &dyn Backend, file: &str) -> Result<transfer::Imported, Error> {
    within("importing", transfer::import(store, file.as_bytes(), |_| ())).await
}

pub(crate) async fn an_export_is_imported_as_the_same_bytes<H: Harness>(harness: Arc<H>) {
    let made_up = harness.fresh(Settings::default()).await;
    let mut filling = fill(&made_up, "a sample").await;
    put(&mut *filling, &Sample::new()).await;
    finish(filling).await;
    let lived = harness.fresh(Settings::default()).await;
    live_through(&*harness, &lived).await;
    for from in [made_up, lived, harness.fresh(Settings::default()).await] {
        let (to, file) = (harness.fresh(Settings::default()).await, exported(&from).await);
        let done = imported(&to, &file).await.expect("what was exported can be imported");
        let sample = Sample::of(&from).await;
        assert_eq!((done.counts.events, done.imported_to), (sample.records.len() as u64, sample.head()));
        assert_holds(&to, &sample).await;
        assert_eq!(exported(&to).await, file, "the same to the byte");
        if sample.records.is_empty() {
            continue;
        }
        let refused = imported(&to, &file).await;
        assert!(
            matches!(refused, Err(Error::Transfer(TransferError::NotEmpty { .. }))),
            "only an empty store is filled: {refused:?}"
        );
        assert_eq!(exported(&to).await, file, "and left as it is");
        append(&to, &deposits(new_stream(), 1)).await;
    }
}

/// The export with some lines in place of others.
fn edited(lines: &[&str], edit: impl FnOnce(&mut Vec<String>)) -> String {
    let mut lines = lines.iter().map(ToString::to_string).collect();
    edit(&mut lines);
    lines.into_iter().map(|line| line + "\n").collect()
}

/// What is wrong with a file, the line where that shows, and the file.
fn bad_files(lines: &[&str]) -> Vec<(&'static str, usize, String)> {
    let (count, change) = (lines.len(), |line: usize, from: &str, to: &str| {
        assert!(lines[line - 1].contains(from), "line {line} has {from}");
        let (from, to) = (from.to_owned(), to.to_owned());
        edited(lines, move |lines| lines[line - 1] = lines[line - 1].replace(&from, &to))
    });
    let checkpoint = 1 + lines.iter().position(|line| line.starts_with("{\"checkpoint\"")).expect("there is one");
    let whole = edited(lines, |_| ());
    vec![
        ("nothing at all", 1, String::new()),
        ("no header", 1, edited(lines, |lines| drop(lines.remove(0)))),
        ("another version of the format", 1, change(1, "\"version\":1", "\"version\":2")),
        ("a header twice", 2, edited(lines, |lines| lines.insert(1, lines[0].clone()))),
        ("an unknown kind of line", 3, edited(lines, |lines| lines.insert(2, "{\"surprise\":{}}".to_owned()))),
        ("an unknown field", 2, change(2, "\"stream_id\"", "\"surprise\":1,\"stream_id\"")),
        ("a field that is missing", 2, change(2, "\"stream_version\":1,", "")),
        ("damaged JSON", 3, change(3, "{\"event\":{", "{\"event\":{{")),
        ("an empty line", 3, edited(lines, |lines| lines.insert(2, String::new()))),
        ("a NUL", 2, change(2, "\"event_type\":\"", "\"event_type\":\"\\u0000")),
        ("an event twice", 3, edited(lines, |lines| lines.insert(2, lines[1].clone()))),
        ("events in another order", 3, edited(lines, |lines| lines.swap(1, 2))),
        ("an event that is missing", 3, edited(lines, |lines| drop(lines.remove(1)))),
        ("a version that is no number of ours", 2, change(2, "\"stream_version\":1", "\"stream_version\":2")),
        (
            "an event after the checkpoints",
            checkpoint + 1,
            edited(lines, |lines| {
                lines.insert(checkpoint, lines[checkpoint - 2].clone());
            }),
        ),
        (
            "a checkpoint twice",
            checkpoint + 1,
            edited(lines, |lines| {
                lines.insert(checkpoint, lines[checkpoint - 1].clone());
            }),
        ),
        (
            "an event beyond the frontier",
            checkpoint - 1,
            change(checkpoint - 1, "\"global_sequence\":", "\"global_sequence\":9"),
        ),
        ("a time between microseconds", 2, change(2, "Z\",\"data", "9Z\",\"data")),
        ("something else in the data", count, change(checkpoint - 1, "last", "lost")),
        ("counts that are wrong", count, change(1, "\"events\":6", "\"events\":7")),
        ("no footer", count, edited(lines, |lines| drop(lines.pop()))),
        ("a footer that is cut off", count, whole[..whole.len() - 20].to_owned()),
        ("half of it", 4, whole[..lines[..3].join("\n").len() + 50].to_owned()),
        ("something after the footer", count + 1, whole + "{}\n"),
    ]
}

pub(crate) async fn a_bad_import_leaves_nothing_behind<H: Harness>(harness: Arc<H>) {
    let (from, sample) = (harness.fresh(Settings::default()).await, Sample::new());
    let mut filling = fill(&from, "a sample").await;
    put(&mut *filling, &sample).await;
    finish(filling).await;
    let file = exported(&from).await;
    let lines: Vec<&str> = file.lines().collect();
    let to = harness.fresh(Settings::default()).await;
    for (what, at, bad) in bad_files(&lines) {
        match imported(&to, &bad).await {
            Err(Error::Transfer(TransferError::Import { line, .. })) => assert_eq!(line, at as u64, "{what}"),
            other => panic!("{what} is an error of its line, and not {other:?}"),
        }
        assert_eq!(to.filling().await.expect("it can be asked"), None, "{what}: the store is open");
        assert_eq!(everything(&to).await, [], "{what}: nothing is left");
        assert_eq!(to.checkpoints().await.expect("checkpoints can be read"), [], "{what}");
    }
    // One that was killed in the middle begins again.
    let mut filling = fill(&to, &format!("an export of 6 events up to {}", sample.head())).await;
    filling.put(Batch::Records(&sample.records[..2])).await.expect("records can be filled in");
    drop(filling);
    imported(&to, &file).await.expect("a sound file can be imported afterwards");
    assert_holds(&to, &Sample::of(&from).await).await;
}
