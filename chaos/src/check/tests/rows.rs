//! Rows, tallies and terms.

use super::*;
use crate::evidence::Audited;
use crate::record::Life;

/// Damage to the rows of one subscriber.
fn rows(id: &'static str, damage: impl FnOnce(&mut Evidence, Vec<usize>)) -> String {
    broken(|evidence| {
        let rows = evidence.rows.iter().enumerate().filter(|(_, row)| row.subscriber_id == id).map(|(at, _)| at);
        let rows = rows.collect();
        damage(evidence, rows);
    })
}

#[test]
fn an_event_that_a_transaction_handled_twice_or_never_is_found() {
    let twice = |evidence: &mut Evidence, rows: Vec<usize>| {
        let mut row = evidence.rows[*rows.last().unwrap()].clone();
        row.n = 1_000_000;
        evidence.rows.push(row);
    };
    assert_eq!(rows("projection:tally", twice), "G20");
    let never = |evidence: &mut Evidence, rows: Vec<usize>| drop(evidence.rows.remove(rows[50]));
    assert_eq!(rows("projection:tally", never), "G20");
    assert_eq!(rows("projection:rebuilt", never), "G20");
    assert_eq!(rows("projection:shaky", never), "G21");
    // Said to be replayed, and never handled.
    let replayed = |evidence: &mut Evidence, rows: Vec<usize>| drop(evidence.rows.remove(*rows.last().unwrap()));
    assert_eq!(rows("projection:shaky", replayed), "G24");
}

#[test]
fn rows_that_are_out_of_order_are_found() {
    let swap = |evidence: &mut Evidence, rows: Vec<usize>| {
        let (one, other) = (rows[60], rows[61]);
        let first = evidence.rows[one].global_sequence;
        evidence.rows[one].global_sequence = evidence.rows[other].global_sequence;
        evidence.rows[other].global_sequence = first;
    };
    assert_eq!(rows("projection:tally", swap), "G19");
    // Replayed dead letters come in any order, but for streams that park.
    let swap_last = |evidence: &mut Evidence, rows: Vec<usize>| {
        let at = rows.len() - 2;
        swap(evidence, [vec![0; 60], rows[at..].to_vec()].concat());
    };
    assert_eq!(rows("projection:shaky", swap_last), "nothing");
    assert_eq!(rows("projection:parked", swap_last), "G23");
}

#[test]
fn a_row_of_what_is_not_in_the_log_is_found() {
    let gone = |evidence: &mut Evidence, rows: Vec<usize>| {
        let mut row = evidence.rows[*rows.last().unwrap()].clone();
        row.global_sequence += 1_000_000;
        evidence.rows.push(row);
    };
    assert_eq!(rows("projection:tally", gone), "G15");
}

#[test]
fn a_tally_that_is_wrong_is_found() {
    assert_eq!(broken(|evidence| evidence.tallies[0].events += 1), "G20");
    assert_eq!(broken(|evidence| evidence.tallies[0].last_version -= 1), "G20");
    assert_eq!(broken(|evidence| drop(evidence.tallies.remove(0))), "G20");
    assert_eq!(broken(|evidence| evidence.tallies[0].stream_id = Uuid::from_u128(77)), "G20");
}

#[test]
fn terms_that_go_back_or_are_shared_are_found() {
    let back = |evidence: &mut Evidence, rows: Vec<usize>| {
        let last = *rows.last().unwrap();
        (evidence.rows[last].term, evidence.rows[last].by) = (1, OLD);
    };
    assert_eq!(rows("projection:tally", back), "G17");
    let shared = |evidence: &mut Evidence, rows: Vec<usize>| evidence.rows[*rows.last().unwrap()].by = OLD;
    assert_eq!(rows("projection:tally", shared), "G17");
    let last_of =
        |evidence: &Evidence, id: &str| evidence.audit.iter().rposition(|write| write.subscriber_id == id).unwrap();
    assert_eq!(
        broken(|evidence| {
            let mut late = evidence.audit[last_of(evidence, "projection:effects")].clone();
            (late.term, late.by) = (1, Some(OLD));
            evidence.audit.push(late);
        }),
        "G17"
    );
    assert_eq!(
        broken(|evidence| {
            let last = last_of(evidence, "projection:effects");
            evidence.audit[last].by = Some(Life { instance: 3, life: 0 });
        }),
        "G17"
    );
}

#[test]
fn a_checkpoint_that_goes_back_is_found_unless_it_was_a_rebuild() {
    let back = |id: &'static str, term: u64, to: u64| {
        broken(move |evidence| {
            let subscriber_id = id.to_owned();
            evidence.audit.push(Audited { n: 1_000_000, subscriber_id, term, global_sequence: to, by: None });
        })
    };
    assert_eq!(back("projection:tally", 2, 5), "G16");
    assert_eq!(back("projection:tally", 9, 5), "G16");
    assert_eq!(back("projection:tally", 9, 0), "nothing");
    assert_eq!(back("projection:effects", 9, 0), "G16");
}
