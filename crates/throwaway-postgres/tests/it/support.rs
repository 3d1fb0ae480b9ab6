//! What several of the tests need.

use std::env;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition that another process brings about.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether `pg_isready` gets an answer from the server on this port.
pub(crate) fn answers(bin_dir: &Path, port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok() && client(bin_dir, "pg_isready", port, &[]).status.success()
}

/// Runs one of PostgreSQL's client programs.
pub(crate) fn client(bin_dir: &Path, program: &str, port: u16, args: &[&str]) -> Output {
    Command::new(bin_dir.join(program))
        .args(["-h", "127.0.0.1", "-U", "highwater", "-p", &port.to_string()])
        .args(args)
        .output()
        .unwrap()
}

/// A folder to be the TMPDIR of the binary, so that a test sees what it leaves there, and nothing of other tests.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("throwaway-postgres-test-{}-{count}", std::process::id()));
        fs::create_dir(&path).unwrap();
        // A server that does not run as root has to get through.
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The binary of this crate, with everything temporary in here.
    pub(crate) fn binary(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throwaway-postgres"));
        command.args(args).env("TMPDIR", &self.0);
        command
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// The binary, with a command that runs until it is told to end or this is dropped.
pub(crate) struct Running {
    pub(crate) binary: Child,
    pub(crate) folder: PathBuf,
    pub(crate) server: u32,
    /// Kept out of `binary`, whose `wait` would close it.
    stdin: Option<ChildStdin>,
}

impl Running {
    pub(crate) fn start(temp: &TempDir) -> Self {
        // `cat` ends with its standard input, that is, at the latest with this process. A shell that runs the tests in
        // the background has made them, and whatever they start, ignore SIGINT: `env` undoes that.
        let script = r#"echo "$HIGHWATER_TEST_POSTGRES_URL"; exec env --default-signal=INT cat"#;
        let mut binary =
            temp.binary(&["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(binary.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let port = url.trim_end().strip_prefix("postgres://highwater@127.0.0.1:").unwrap();
        let port = port.strip_suffix("/postgres").unwrap();
        let folder = temp.path().join(format!("highwater-pg-{}-{port}", binary.id()));
        let postmaster = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap();
        let server = postmaster.lines().next().unwrap().parse().unwrap();
        let stdin = binary.stdin.take();
        Self { binary, folder, server, stdin }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = self.binary.wait() {
            eprintln!("cannot wait for throwaway-postgres: {error}");
        }
    }
}
