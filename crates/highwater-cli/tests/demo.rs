//! The demo as newcomers run it: the program itself, on real databases, with real kills.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use throwaway_postgres::{is_running, send_signal};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for temporary files that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let (pid, n) = (std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("highwater-test-demo-{pid}-{n}"));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A demo that runs. It is killed when it is dropped.
struct Demo {
    child: Child,
    /// None when nobody reads it any more.
    stdout: Option<BufReader<ChildStdout>>,
    out: String,
}

impl Demo {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_highwater"))
            .arg("demo")
            .args(arguments)
            .current_dir(&folder.0)
            .env("TMPDIR", &folder.0)
            // A user's real events: the demo stays away from them.
            .env("HIGHWATER_DATABASE_URL", "postgres://nobody@127.0.0.1:1/production")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stdout, out: String::new() }
    }

    /// Reads on until orders come in.
    fn is_open(&mut self) {
        while !self.out.lines().any(|line| line.contains("  orders ")) {
            let read = self.stdout.as_mut().unwrap().read_line(&mut self.out).unwrap();
            if read == 0 {
                panic!("it ended before it was open: {}", self.err());
            }
        }
    }

    fn err(&mut self) -> String {
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        err
    }

    /// Reads everything up to its end.
    fn end(mut self) -> Ended {
        self.stdout.as_mut().unwrap().read_to_string(&mut self.out).unwrap();
        let (err, code) = (self.err(), self.child.wait().unwrap().code());
        Ended { code, out: std::mem::take(&mut self.out), err }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What came of a demo.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    #[track_caller]
    fn assert_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
    }

    #[track_caller]
    fn assert_says(&self, texts: &[&str]) {
        for text in texts {
            assert!(self.out.contains(text), "it does not say {text:?}: {}{}", self.out, self.err);
        }
    }

    #[track_caller]
    fn assert_nothing_left(&self, folder: &Folder) {
        let instances = instances(&self.out);
        assert_eq!(instances.len(), 3, "{}", self.out);
        assert!(!instances.iter().any(|pid| is_running(*pid)), "an instance outlives the demo");
        assert_eq!(folder.names(), [""; 0], "temporary files are left");
    }
}

/// The processes of the line "instance 1 (pid 17), instance 2 (pid 18) …".
fn instances(out: &str) -> Vec<u32> {
    let line = out.lines().find(|line| line.contains("open on")).unwrap_or_default();
    line.split("(pid ").skip(1).map(|rest| rest.split_once(')').unwrap().0.parse().unwrap()).collect()
}

fn postgres_url() -> String {
    std::env::var("HIGHWATER_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "HIGHWATER_TEST_POSTGRES_URL is not set. Run scripts/test, or one test with: \
             cargo run -p throwaway-postgres -- cargo test -p highwater-cli NAME"
        )
    })
}

/// A schema's name that nobody else has.
fn schema(name: &str) -> String {
    format!("hw_demo_{}_{name}", std::process::id())
}

fn on_postgres<T>(work: impl AsyncFnOnce(PgConnection) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { work(PgConnection::connect(&postgres_url()).await.unwrap()).await })
}

fn execute(sql: String) {
    on_postgres(async |mut connection| sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap());
}

fn schema_exists(schema: &str) -> bool {
    on_postgres(async |mut connection| {
        let query = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)").bind(schema);
        query.fetch_one(&mut connection).await.unwrap()
    })
}

/// What there is to see of the whole, at 50 orders a second for 10 seconds.
const WHOLE: [&str; 4] = ["--seconds", "10", "--rate", "50"];
const SEEN: [&str; 6] = [
    "killed (pid ",
    "taken over by instance ",
    "replayed ",
    "no more orders: 500 were placed",
    "✓",
    "The books balance",
];

#[test]
fn on_sqlite_an_instance_is_killed_and_the_books_balance() {
    let folder = Folder::new();
    let ended = Demo::start(&folder, &WHOLE).end();
    ended.assert_code(0);
    ended.assert_says(&SEEN);
    assert!(!ended.out.contains(['✗', '\u{1b}']), "plain lines: {}", ended.out);
    ended.assert_nothing_left(&folder);
}

#[test]
fn on_postgres_an_instance_is_killed_and_the_books_balance() {
    let (folder, schema, url) = (Folder::new(), schema("whole"), postgres_url());
    let ended = Demo::start(&folder, &[&WHOLE[..], &["--database", &url, "--schema", &schema]].concat()).end();
    ended.assert_code(0);
    ended.assert_says(&SEEN);
    ended.assert_says(&[&schema]);
    ended.assert_nothing_left(&folder);
    assert!(!schema_exists(&schema), "its schema is left");
}

#[test]
fn a_damaged_row_is_noticed_and_named() {
    let folder = Folder::new();
    let ended = Demo::start(&folder, &["--seconds", "4", "--rate", "20", "--corrupt"]).end();
    ended.assert_code(1);
    ended.assert_says(&["damaged on purpose", "✗  revenue is the sum of the log", "The books do not balance"]);
    assert!(ended.err.contains("the books do not balance: revenue is the sum of the log"), "{}", ended.err);
    ended.assert_nothing_left(&folder);
}

#[test]
fn what_is_kept_can_be_found_again_and_is_not_run_over() {
    let folder = Folder::new();
    let kept = ["--database", "sqlite:kept.db"];
    let ended = Demo::start(&folder, &[&["--seconds", "4", "--rate", "20", "--keep"][..], &kept].concat()).end();
    ended.assert_code(0);
    ended.assert_says(&["highwater status --database sqlite:"]);
    assert!(folder.names().contains(&"kept.db".to_owned()));
    let again = Demo::start(&folder, &kept).end();
    again.assert_code(1);
    assert!(again.err.contains("kept.db\" exists already, and the demo touches nobody else's"), "{}", again.err);
    assert!(folder.names().contains(&"kept.db".to_owned()), "it is still there");
}

#[test]
fn a_schema_of_another_user_is_not_touched() {
    let (folder, schema, url) = (Folder::new(), schema("mine"), postgres_url());
    execute(format!("CREATE SCHEMA {schema}"));
    let ended = Demo::start(&folder, &["--database", &url, "--schema", &schema]).end();
    assert!(schema_exists(&schema), "it is still there");
    execute(format!("DROP SCHEMA {schema}"));
    ended.assert_code(1);
    assert!(ended.err.contains("exists already, and the demo touches nobody else's events"), "{}", ended.err);
}

#[test]
fn ctrl_c_stops_everything_and_leaves_nothing() {
    let (schema, url) = (schema("stopped"), postgres_url());
    for database in [&[][..], &["--database", &url, "--schema", &schema]] {
        let folder = Folder::new();
        let mut demo = Demo::start(&folder, database);
        demo.is_open();
        send_signal(demo.child.id(), "INT").unwrap();
        let ended = demo.end();
        ended.assert_code(130);
        ended.assert_nothing_left(&folder);
    }
    assert!(!schema_exists(&schema), "its schema is left");
}

#[test]
fn instances_end_when_the_demo_is_gone_and_the_next_one_removes_what_it_left() {
    let folder = Folder::new();
    let mut demo = Demo::start(&folder, &[]);
    demo.is_open();
    let instances = instances(&demo.out);
    assert!(instances.len() == 3 && instances.iter().all(|pid| is_running(*pid)), "{}", demo.out);
    demo.child.kill().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while instances.iter().any(|pid| is_running(*pid)) {
        assert!(Instant::now() < deadline, "an instance outlives the demo");
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = folder.names();
    assert_eq!(left.len(), 1, "{left:?}");
    let mut next = Demo::start(&folder, &[]);
    next.is_open();
    send_signal(next.child.id(), "INT").unwrap();
    let next = next.end();
    next.assert_code(130);
    next.assert_says(&[&format!("{}, which a demo that was killed had left", left[0])]);
    next.assert_nothing_left(&folder);
}

#[test]
fn the_schema_of_a_demo_that_was_killed_is_named_and_left_alone() {
    let (folder, url) = (Folder::new(), postgres_url());
    let left = format!("highwater_demo_run_{}_0123abcd", std::process::id());
    execute(format!("CREATE SCHEMA {left}"));
    let mut first = Demo::start(&folder, &["--database", &url]);
    first.is_open();
    let mut second = Demo::start(&folder, &["--database", &url]);
    second.is_open();
    send_signal(first.child.id(), "INT").unwrap();
    send_signal(second.child.id(), "INT").unwrap();
    let (first, second) = (first.end(), second.end());
    let exists = schema_exists(&left);
    execute(format!("DROP SCHEMA IF EXISTS {left}"));
    assert!(exists, "it is still there");
    first.assert_code(130);
    second.assert_says(&[&format!("to remove it: DROP SCHEMA {left} CASCADE")]);
    let its = first.out.split("in the schema ").nth(1).unwrap().split(':').next().unwrap();
    assert!(!second.out.contains(its), "one that runs is none that was left: {}", second.out);
}

#[test]
fn an_instance_that_is_told_to_stop_does_so_in_order_and_is_missed() {
    let folder = Folder::new();
    let mut demo = Demo::start(&folder, &[]);
    demo.is_open();
    send_signal(instances(&demo.out)[1], "TERM").unwrap();
    let ended = demo.end();
    ended.assert_code(1);
    assert!(ended.err.contains("instance 2 ended by itself (exit status: 0)"), "{}", ended.err);
    ended.assert_nothing_left(&folder);
}

/// `script` from util-linux makes a terminal.
#[test]
fn on_a_terminal_it_is_drawn_and_ctrl_c_gives_the_screen_back() {
    let folder = Folder::new();
    let line = format!("stty cols 120 rows 30; exec {} demo", env!("CARGO_BIN_EXE_highwater"));
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("TMPDIR", &folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut bytes = [0; 4_096];
    let shows = |seen: &[u8], text: &str| String::from_utf8_lossy(seen).contains(text);
    while !shows(&seen, "orders come in") {
        let read = screen.read(&mut bytes).unwrap();
        assert!(read > 0, "it ended early: {}", String::from_utf8_lossy(&seen));
        seen.extend(&bytes[..read]);
    }
    keys.write_all(b"\x03").unwrap();
    screen.read_to_end(&mut seen).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(130), "{}", String::from_utf8_lossy(&seen));
    let (enter, leave) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    assert!(shows(&seen, enter) && shows(&seen, leave), "{}", String::from_utf8_lossy(&seen));
    assert_eq!(folder.names(), [""; 0], "temporary files are left");
}

#[test]
fn a_reader_that_stops_reading_ends_it() {
    let folder = Folder::new();
    let mut demo = Demo::start(&folder, &[]);
    demo.is_open();
    let instances = instances(&demo.out);
    demo.stdout = None;
    assert_eq!(demo.child.wait().unwrap().code(), Some(141));
    assert!(!instances.iter().any(|pid| is_running(*pid)), "an instance outlives the demo");
    assert_eq!(folder.names(), [""; 0], "temporary files are left");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    let folder = Folder::new();
    for (arguments, code) in [
        (&["--rate", "0"][..], 2),
        (&["--seconds", "1"], 2),
        (&["--json"], 2),
        (&["--database", "mysql://x"], 2),
        (&["--database", "sqlite::memory:"], 2),
        (&["--database", "postgres://nobody@127.0.0.1:1/nowhere"], 3),
        (&["--database", "sqlite:not/there.db"], 3),
    ] {
        let ended = Demo::start(&folder, arguments).end();
        ended.assert_code(code);
        assert!(!ended.err.is_empty() && !ended.out.contains("open on"), "{arguments:?}: {}", ended.err);
        assert_eq!(folder.names(), [""; 0]);
    }
}
