//! The instances: processes that the demo starts, stops and kills. None outlives it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::lock;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::instance::{Job, READY};
use crate::{DemoError, Place};

/// How long an instance may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to stop. A little longer than its own deadline.
const STOP_TIMEOUT: Duration = Duration::from_secs(7);
/// How long to listen to one that is about to be given up.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of what an instance says is kept, to tell why it ended.
const LINES_MAX: usize = 20;

/// The command that is an instance: a program that calls [`run_instance`](crate::run_instance).
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// All instances.
#[derive(Debug, Default)]
pub(crate) struct Company {
    pub(crate) members: Vec<Member>,
}

/// One instance.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) number: u32,
    pub(crate) pid: u32,
    pub(crate) killed: bool,
    child: Child,
    /// While this is open, it runs.
    stdin: Option<ChildStdin>,
    said: Said,
    /// Ends when it has said everything.
    listening: Option<JoinHandle<()>>,
}

/// The last lines that an instance said about what went wrong.
type Said = Arc<Mutex<VecDeque<String>>>;

impl Company {
    /// Starts so many instances, and waits until all are ready.
    pub(crate) async fn start(&mut self, count: u32, launch: &Launch, place: &Place) -> Result<(), DemoError> {
        for number in 1..=count {
            self.members.push(Member::start(number, launch, place).await?);
        }
        let deadline = Instant::now() + START_TIMEOUT;
        for member in &mut self.members {
            let ready = tokio::time::timeout_at(deadline, member.ready()).await;
            match ready {
                Ok(ready) => ready?,
                Err(_elapsed) => return Err(member.fault(format!("did not start within {START_TIMEOUT:?}")).await),
            }
        }
        Ok(())
    }

    pub(crate) fn member(&mut self, number: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }

    /// An error if one has ended that should not have.
    pub(crate) async fn check(&mut self) -> Result<(), DemoError> {
        for member in self.members.iter_mut().filter(|member| !member.killed) {
            let ended = member.child.try_wait().map_err(DemoError::io("look after an instance"))?;
            if let Some(status) = ended {
                return Err(member.fault(format!("ended by itself ({status})")).await);
            }
        }
        Ok(())
    }

    /// Stops all in an orderly way, and those that do not within the time in the other way. Calling it again is harmless.
    pub(crate) async fn stop(&mut self) -> Result<(), DemoError> {
        for member in &mut self.members {
            member.stdin = None;
        }
        let (deadline, mut stopped) = (Instant::now() + STOP_TIMEOUT, Ok(()));
        for mut member in self.members.drain(..) {
            let ended = match tokio::time::timeout_at(deadline, member.child.wait()).await {
                Ok(Ok(status)) if status.success() || member.killed => Ok(()),
                Ok(Ok(status)) => Err(member.fault(format!("did not stop in an orderly way ({status})")).await),
                Ok(Err(source)) => Err(DemoError::Io { action: "stop an instance".to_owned(), source }),
                Err(_elapsed) => {
                    let killed = member.child.kill().await.map_err(DemoError::io("kill an instance"));
                    let fault = member.fault(format!("did not stop within {STOP_TIMEOUT:?} and was killed")).await;
                    killed.and(Err(fault))
                }
            };
            stopped = stopped.and(ended);
        }
        stopped
    }
}

impl Member {
    async fn start(number: u32, launch: &Launch, place: &Place) -> Result<Self, DemoError> {
        let failed = |what: &str| DemoError::io(format!("{what} instance {number}"));
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C is for the demo, which stops its instances itself.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed("start"))?;
        let missing = || std::io::Error::other("it has none of the pipes it was to be given");
        let pid = child.id().ok_or_else(missing).map_err(failed("start"))?;
        let mut stdin = child.stdin.take().ok_or_else(missing).map_err(failed("start"))?;
        let stderr = child.stderr.take().ok_or_else(missing).map_err(failed("start"))?;
        let said = Said::default();
        let listening = Some(tokio::spawn(listen(stderr, said.clone())));
        // Through the pipe, and not by argument: a URL may hold a password, and arguments are there for all to see.
        let job = Job { place: place.clone(), number };
        let line = serde_json::to_string(&job).map_err(std::io::Error::other).map_err(failed("instruct"))?;
        let mut member = Self { number, pid, killed: false, child, stdin: None, said, listening };
        if stdin.write_all(format!("{line}\n").as_bytes()).await.is_ok() {
            member.stdin = Some(stdin);
        }
        Ok(member)
    }

    async fn ready(&mut self) -> Result<(), DemoError> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.child.stdout {
            BufReader::new(stdout).read_line(&mut line).await.map_err(DemoError::io("hear from an instance"))?;
        }
        if line.trim() == READY {
            return Ok(());
        }
        // Its output has ended, so it is about to end as well.
        let status = self.child.wait().await.map_err(DemoError::io("look after an instance"))?;
        Err(self.fault(format!("did not start ({status})")).await)
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<(), DemoError> {
        self.killed = true;
        self.child.kill().await.map_err(DemoError::io("kill an instance"))
    }

    /// What is wrong with it, and what it has said about that.
    async fn fault(&mut self, what: String) -> DemoError {
        // One that has ended has said everything; one that has not is not waited for.
        if let Some(listening) = self.listening.take() {
            drop(tokio::time::timeout(LISTEN_TIMEOUT, listening).await);
        }
        let said = lock(&self.said);
        let said = said.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        let what = if said.is_empty() { what } else { format!("{what}: {said}") };
        DemoError::Instance { number: self.number, what }
    }
}

/// Keeps the last lines, so that a full pipe never holds an instance up.
async fn listen(stderr: impl AsyncRead + Unpin, said: Said) {
    let mut lines = BufReader::new(stderr).lines();
    // Ends with the instance, or with a line that is no text.
    while let Ok(Some(line)) = lines.next_line().await {
        let mut said = lock(&said);
        if said.len() == LINES_MAX {
            said.pop_front();
        }
        said.push_back(line);
    }
}
