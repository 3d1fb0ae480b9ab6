//! A place of its own for every test, and the program run in it.

use highwater::backend::Transactional;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater::backend::Backend as _;
use highwater_postgres::{PgConfig, PgEventStore};
use highwater_sqlite::SqliteEventStore;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

pub use crate::players::{Counter, Fixed, Note, coordinated, open_writer, picky, say};
use crate::redact::redact;

/// How long the program may take for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A backend to run a test on.
pub trait Kind: Send + Sync + Sized + 'static {
    type Store: Transactional;

    fn place() -> Place<Self>;
    fn open(place: &Place<Self>) -> impl Future<Output = Self::Store> + Send;
    fn clean(place: &Place<Self>);
}

/// An event store that is not there yet, in a folder that goes when the test ends.
pub struct Place<K: Kind> {
    pub url: String,
    pub schema: String,
    pub folder: PathBuf,
    kind: std::marker::PhantomData<K>,
}

pub struct Postgres;

impl Kind for Postgres {
    type Store = PgEventStore;

    fn place() -> Place<Self> {
        Place::at(postgres_url())
    }

    async fn open(place: &Place<Self>) -> PgEventStore {
        let config = PgConfig { schema: place.schema.clone(), ..PgConfig::default() };
        PgEventStore::connect_with(&place.url, config).await.unwrap()
    }

    fn clean(place: &Place<Self>) {
        let (url, schema) = (place.url.clone(), place.schema.clone());
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let sql = format!("SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS \"{schema}\" CASCADE");
            runtime.block_on(execute(&url, &sql));
        });
        dropped.join().unwrap();
    }
}

pub struct Sqlite;

impl Kind for Sqlite {
    type Store = SqliteEventStore;

    fn place() -> Place<Self> {
        let mut place = Place::at(String::new());
        place.url = format!("sqlite:{}", place.folder.join("shop.db").display());
        place
    }

    async fn open(place: &Place<Self>) -> SqliteEventStore {
        SqliteEventStore::open(&place.url).await.unwrap()
    }

    fn clean(_: &Place<Self>) {}
}

/// The server for tests.
pub fn postgres_url() -> String {
    std::env::var("HIGHWATER_TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "HIGHWATER_TEST_POSTGRES_URL is not set. Run scripts/test, or one test with: \
             cargo run -p throwaway-postgres -- cargo test -p highwater-cli NAME"
        )
    })
}

/// Runs plain SQL on the server.
pub async fn execute(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
}

impl<K: Kind> Place<K> {
    pub fn at(url: String) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let (pid, n) = (std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let schema = format!("hw_cli_{pid}_{n}_{:x}", fastrand::u32(..));
        let folder = std::env::temp_dir().join(&schema);
        std::fs::create_dir(&folder).unwrap();
        Self { url, schema, folder, kind: std::marker::PhantomData }
    }

    /// The store, for what a program would do in it.
    pub async fn store(&self) -> K::Store {
        let store = K::open(self).await;
        store.initialize().await.unwrap();
        store
    }

    /// The program, which has not been started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("HIGHWATER_DATABASE_URL", &self.url)
            .env("HIGHWATER_SCHEMA", &self.schema)
            .env("USER", "anna")
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).spawn().unwrap()).await
    }

    /// With something on stdin.
    pub async fn feed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // It may stop reading before the end.
        let feeding = tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        let ran = Ran::of(child).await;
        drop(feeding.await.unwrap());
        ran
    }

    /// Text without what belongs to this place alone.
    pub fn neutral(&self, text: &str) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        // Tests run as the role that may do everything on that server.
        let user =
            self.url.split_once("//").and_then(|(_, rest)| rest.split_once(['@', ':'])).map_or("", |(user, _)| user);
        let text = text
            .replace(&self.url, "[url]")
            .replace(&format!("role {user},"), "role [role],")
            .replace(&self.folder.display().to_string(), "[folder]")
            .replace(&self.schema, "[schema]")
            .replace(host.trim(), "[host]");
        // How wide a column is depends on what was redacted.
        let words = |line: &str| {
            line.split("   ").map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ")
        };
        redact(&text).lines().map(|line| words(line) + "\n").collect()
    }

    pub fn talk(&self) -> Talk<'_, K> {
        Talk { place: self, text: String::new() }
    }
}

impl<K: Kind> Drop for Place<K> {
    fn drop(&mut self) {
        K::clean(self);
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// What came of running the program.
#[derive(Debug)]
pub struct Ran {
    /// The exit code, or the negative signal.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub async fn of(child: Child) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends in time").unwrap();
        let code = output.status.code().unwrap_or_else(|| -output.status.signal().unwrap());
        let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// That it did what it was asked, and what it printed.
    #[track_caller]
    pub fn fine(self) -> String {
        assert_eq!((self.code, &*self.err), (0, ""), "it printed {}", self.out);
        self.out
    }

    /// That it failed with one sentence, and which.
    #[track_caller]
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let sentence = self.err.strip_suffix('\n').and_then(|line| line.strip_prefix("highwater: "));
        let sentence = sentence.unwrap_or_else(|| panic!("it says one sentence: {self:?}"));
        assert!(!sentence.contains('\n'), "it says one sentence: {self:?}");
        sentence.to_owned()
    }
}

/// A session at a terminal, written down for a snapshot.
pub struct Talk<'a, K: Kind> {
    place: &'a Place<K>,
    text: String,
}

impl<K: Kind> Talk<'_, K> {
    pub async fn run(&mut self, arguments: &[&str]) -> &mut Self {
        let ran = self.place.run(arguments).await;
        self.note(arguments, &ran);
        self
    }

    pub async fn feed(&mut self, arguments: &[&str], input: &str) -> &mut Self {
        let ran = self.place.feed(arguments, input).await;
        self.note(arguments, &ran);
        self
    }

    fn note(&mut self, arguments: &[&str], ran: &Ran) {
        let quoted = arguments.iter().map(|text| match text.contains([' ', '"']) {
            true => format!("'{text}'"),
            false => (*text).to_owned(),
        });
        let command = quoted.collect::<Vec<_>>().join(" ");
        self.text.push_str(&format!("$ highwater {command}\n{}", ran.out));
        ran.err.lines().for_each(|line| self.text.push_str(&format!("! {line}\n")));
        if ran.code != 0 {
            self.text.push_str(&format!("= exit {}\n", ran.code));
        }
    }

    /// Compares with what was written down before: the same for every backend.
    #[track_caller]
    pub fn is(&self, name: &str) {
        check(name, &self.place.neutral(&self.text));
    }
}

/// Compares with a snapshot.
#[track_caller]
pub fn check(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The same test on every backend.
macro_rules! on_each_backend {
    ($(#[$meta:meta])* async fn $name:ident<$kind:ident>($place:ident: Place<$same:ident>) $body:block) => {
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn test<$kind: Kind>($place: Place<$same>) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                test(crate::support::Sqlite::place()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                test(crate::support::Postgres::place()).await;
            }
        }
    };
}
pub(crate) use on_each_backend;

/// Waits until a condition holds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
