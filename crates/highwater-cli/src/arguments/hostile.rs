//! Whatever stands on a command line: it is understood or refused, and never repeated with a password.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use clap::Parser as _;
use clap::error::ErrorKind;

use super::Cli;

const PASSWORD: &str = "s3cr3tpassw0rd";

const WORDS: [&[u8]; 64] = [
    b"init",
    b"append",
    b"read",
    b"events",
    b"tail",
    b"status",
    b"why",
    b"top",
    b"dead-letters",
    b"list",
    b"show",
    b"replay",
    b"discard",
    b"checkpoint",
    b"set",
    b"rebuild",
    b"pause",
    b"resume",
    b"export",
    b"import",
    b"copy",
    b"backup",
    b"doctor",
    b"demo",
    b"completions",
    b"man",
    b"--json",
    b"--database",
    b"--schema",
    b"--help",
    b"-h",
    b"--version",
    b"--force",
    b"--limit",
    b"--from",
    b"--type",
    b"--expect",
    b"--id",
    b"--state",
    b"--all",
    b"--reason",
    b"--stream",
    b"--since",
    b"--",
    b"-",
    b"",
    b"0",
    b"-1",
    b"18446744073709551616",
    b"order/17",
    b"Placed",
    b"{\"cents\":1}",
    b"projection:x",
    b"00000000-0000-0000-0000-000000000000",
    b"sqlite:shop.db",
    b"sqlite:",
    b"bash",
    b"postgres://app:s3cr3tpassw0rd@nowhere.invalid/shop",
    b"postgres://app:s3cr3tpassw0rd@[::1/shop",
    b"1h",
    b"\xff\xfe",
    b"--\xff",
    b"a\nb",
    b"\xf0\x9f\x92\xa9",
];

/// Commands with what they need, so that more than the first word is parsed.
const SOUND: [&[&str]; 12] = [
    &["append", "order/17", "Placed", "{}"],
    &["read", "order/17"],
    &["events"],
    &["status"],
    &["why", "projection:x"],
    &["dead-letters", "list"],
    &["pause", "projection:x"],
    &["export", "out.ndjson"],
    &["import", "in.ndjson"],
    &["copy", "sqlite:a.db", "sqlite:b.db"],
    &["doctor"],
    &["--database", "postgres://app:s3cr3tpassw0rd@nowhere.invalid/shop", "init"],
];

/// A few words; or a command that is right, with a word more, less or turned over.
fn arguments(random: &mut fastrand::Rng) -> Vec<OsString> {
    let word = |random: &mut fastrand::Rng| {
        let mut word = WORDS[random.usize(..WORDS.len())].to_vec();
        if random.u8(..12) == 0 {
            let at = random.usize(..=word.len());
            word.insert(at, random.u8(1..));
        }
        OsString::from_vec(word)
    };
    let mut words: Vec<OsString> = match random.bool() {
        true => SOUND[random.usize(..SOUND.len())].iter().map(OsString::from).collect(),
        false => (0..random.usize(..6)).map(|_| word(random)).collect(),
    };
    for _ in 0..random.usize(..3) {
        let at = random.usize(..=words.len());
        words.insert(at, word(random));
    }
    words.insert(0, "highwater".into());
    words
}

#[test]
fn every_command_line_is_understood_or_refused() {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..3_000 {
        let words = arguments(&mut fastrand::Rng::with_seed(seed));
        match Cli::try_parse_from(&words) {
            Ok(cli) => {
                let shown = match cli.global.target() {
                    Ok(target) => target.to_string(),
                    Err(failure) => failure.to_string(),
                };
                // A user who writes a password where a name belongs has revealed it already.
                assert!(cli.global.schema.contains(PASSWORD) || !shown.contains(PASSWORD), "{words:?}: {shown}");
                let told = |word: &OsString| word.to_string_lossy().contains(PASSWORD);
                assert!(words.iter().any(told) || cli.secrets().is_empty(), "{words:?}: {:?}", cli.secrets());
                *outcomes.entry("understood".to_owned()).or_default() += 1;
            }
            Err(refused) => {
                assert!(!refused.render().to_string().is_empty(), "{words:?}");
                *outcomes.entry(format!("{:?}", refused.kind())).or_default() += 1;
            }
        }
    }
    for outcome in [
        "understood".to_owned(),
        format!("{:?}", ErrorKind::UnknownArgument),
        format!("{:?}", ErrorKind::InvalidSubcommand),
        format!("{:?}", ErrorKind::InvalidUtf8),
        format!("{:?}", ErrorKind::MissingRequiredArgument),
        format!("{:?}", ErrorKind::ValueValidation),
        format!("{:?}", ErrorKind::DisplayHelp),
    ] {
        let count = outcomes.get(&outcome).copied().unwrap_or_default();
        assert!(count >= 5, "{outcome} has happened {count} times: {outcomes:#?}");
    }
}
