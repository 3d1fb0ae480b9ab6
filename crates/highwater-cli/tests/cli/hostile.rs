//! Command lines that nobody means well with, given to the program itself.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use crate::support::{PATIENCE, Place, Sqlite};

const PASSWORD: &str = "s3cr3tpassw0rd";

/// Words for the places where a command takes one. No path leads out of the folder: some commands write where they are told
/// to. Nothing here waits for events or draws on a screen.
const WORDS: [&[u8]; 24] = [
    b"",
    b"-",
    b"--",
    b"--json",
    b"order/17",
    b"no/such/folder",
    b"x/",
    b"%2e",
    b"\xff\xfe",
    b"a\nb",
    b"'",
    b"\"; DROP TABLE events; --",
    b"-1",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"{}",
    b"[",
    b"{\"a\":",
    b"\xf0\x9f\x92\xa9",
    b"00000000-0000-0000-0000-000000000000",
    b"sqlite:%00",
    b"sqlite:shop.db?mode=memory",
    b"sqlite:",
    b"--limit=0",
];

const COMMANDS: [&[&str]; 18] = [
    &["init"],
    &["append"],
    &["append", "order/17", "Placed"],
    &["read"],
    &["events"],
    &["events", "--limit"],
    &["status"],
    &["why"],
    &["dead-letters", "list"],
    &["dead-letters", "show"],
    &["dead-letters", "replay"],
    &["checkpoint"],
    &["pause"],
    &["export"],
    &["import"],
    &["copy"],
    &["doctor"],
    &["--database", "postgres://app:s3cr3tpassw0rd@[::1,x/shop", "events"],
];

#[tokio::test(flavor = "multi_thread")]
async fn no_command_line_makes_the_program_panic_hang_or_tell_a_password() {
    let place = Place::<Sqlite>::at(String::new());
    let mut codes = std::collections::BTreeMap::<i32, usize>::new();
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let command = COMMANDS[random.usize(..COMMANDS.len())];
        let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
        for _ in 0..random.usize(..3) {
            arguments.push(OsString::from_vec(WORDS[random.usize(..WORDS.len())].to_vec()));
        }
        let mut program = tokio::process::Command::new(env!("CARGO_BIN_EXE_highwater"));
        program.args(&arguments).current_dir(&place.folder).env_remove("HIGHWATER_DATABASE_URL").kill_on_drop(true);
        let run = program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let ended = tokio::time::timeout(PATIENCE, run).await.unwrap_or_else(|_| panic!("it hangs: {arguments:?}"));
        let ended = ended.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.signal(), None, "{arguments:?}: {said}");
        let code = ended.status.code().unwrap();
        assert!((0..=5).contains(&code), "{arguments:?}: {code}: {said}");
        assert!(code == 0 || !ended.stderr.is_empty(), "{arguments:?}: it failed without a word");
        assert!(!said.contains("please report it") && !said.contains(PASSWORD), "{arguments:?}: {said}");
        *codes.entry(code).or_default() += 1;
    }
    // Done, refused, not understood, no such database: all of it has happened.
    assert!([0, 2, 3].iter().all(|code| codes.get(code).is_some_and(|count| *count >= 5)), "{codes:?}");
}
