//! Which cases reject which broken backend, as it was seen: `rejected_by.txt`, one block for each broken backend.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, Write, read_to_string};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broken/rejected_by.txt");

/// How what is seen gets written down, for who reads that it is not.
pub(crate) const HOW: &str = "HIGHWATER_BLESS=1 cargo nextest run -p highwater-contract --test broken";

/// Broken backends, each with the cases that reject it.
pub(crate) type Written = BTreeMap<String, BTreeSet<String>>;

/// Whether what is seen is to be written down instead of compared.
pub(crate) fn blessing() -> bool {
    std::env::var_os("HIGHWATER_BLESS").is_some()
}

pub(crate) fn read() -> Written {
    let file = File::open(PATH).expect("rejected_by.txt is there");
    file.lock_shared().expect("a test can lock a file");
    read_from(&file)
}

fn read_from(file: &File) -> Written {
    let text = read_to_string(file).expect("rejected_by.txt is text");
    let block = |block: &str| {
        let mut lines = block.lines().map(|line| line.trim().to_owned());
        (lines.next().unwrap_or_default(), lines.collect())
    };
    text.split("\n\n").map(block).collect()
}

/// Changes what is written down. Tests run at the same time, so they take turns.
pub(crate) fn write(change: impl FnOnce(&mut Written)) {
    let mut file = File::options().read(true).write(true).open(PATH).expect("rejected_by.txt can be written");
    file.lock().expect("a test can lock a file");
    let mut written = read_from(&file);
    change(&mut written);
    let block = |(backend, cases): (String, BTreeSet<String>)| {
        cases.into_iter().fold(backend, |block, case| format!("{block}\n    {case}"))
    };
    let text = written.into_iter().map(block).collect::<Vec<_>>().join("\n\n") + "\n";
    let replaced = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
    replaced.expect("rejected_by.txt can be written");
}
