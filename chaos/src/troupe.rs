//! The instances: processes that are started, told what to do, frozen, stopped and killed. None outlives the run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::BoxError;
use highwater::backend::lock;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::base::Place;
use crate::broken::Flaw;
use crate::ground::{Clock, Link};
use crate::instance::{Command, Job, Order, Reply};
use crate::record::Life;

/// How long an instance may take to stop: longer than its own deadline.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How an instance ends that could not stop in time.
const STOPPED_LATE: i32 = 2;
/// How much of what an instance said is quoted.
const QUOTED_LINES: usize = 12;

/// What all instances are started with.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// This program.
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) writers: usize,
    pub(crate) rest_millis: u64,
    pub(crate) flaw: Option<Flaw>,
}

/// What went wrong around the instances.
pub(crate) type Troubles = Arc<Mutex<Vec<String>>>;

/// Writes a trouble down.
pub(crate) fn trouble(troubles: &Troubles, what: String) {
    lock(troubles).push(what);
}

/// One instance, through all its lives.
pub(crate) struct Member {
    pub(crate) number: u32,
    pub(crate) place: Place,
    pub(crate) link: Option<Link>,
    pub(crate) clock: Option<Clock>,
    /// Whether the late ones have joined.
    pub(crate) late: bool,
    launch: Launch,
    lives: u32,
    asked: u64,
    running: Option<Running>,
    troubles: Troubles,
}

struct Running {
    life: Life,
    child: Child,
    stdin: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

impl Member {
    pub(crate) fn new(number: u32, place: Place, launch: &Launch, troubles: &Troubles) -> Self {
        Self {
            number,
            place,
            link: None,
            clock: None,
            late: false,
            launch: launch.clone(),
            lives: 0,
            asked: 0,
            running: None,
            troubles: troubles.clone(),
        }
    }

    /// Starts it, if it does not run. Does not wait until it is ready: the database may be away.
    pub(crate) async fn start(&mut self) -> Result<(), BoxError> {
        if self.running.is_some() {
            return Ok(());
        }
        let life = Life { instance: self.number, life: self.lives };
        self.lives += 1;
        let mut command = match &self.link {
            Some(link) => link.command(&self.launch.program),
            None => std::process::Command::new(&self.launch.program),
        };
        if let Some(clock) = &self.clock {
            command.envs(clock.environment());
        }
        let errors = File::create(errors_path(&self.launch.folder, life))?;
        let mut command = tokio::process::Command::from(command);
        command.arg("instance").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        // A group of its own: Ctrl-C is for the experiment, which stops its instances itself.
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut stdin, stdout) = pipes.ok_or("an instance has none of the pipes it was to be given")?;
        let job = Job {
            place: self.place.clone(),
            life,
            folder: self.launch.folder.clone(),
            seed: self.launch.seed ^ (u64::from(self.number) << 32) ^ u64::from(life.life),
            writers: self.launch.writers,
            rest_millis: self.launch.rest_millis,
            late: self.late,
            flaw: self.launch.flaw,
        };
        stdin.write_all(format!("{}\n", serde_json::to_string(&job)?).as_bytes()).await?;
        let replies = BufReader::new(stdout).lines();
        self.running = Some(Running { life, child, stdin, replies });
        Ok(())
    }

    /// Tells it something, and does not wait for the answer.
    pub(crate) async fn tell(&mut self, order: Order) -> Result<u64, BoxError> {
        self.asked += 1;
        let line = serde_json::to_string(&Command { id: self.asked, order })?;
        let running = self.running.as_mut().ok_or("it does not run")?;
        running.stdin.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.asked)
    }

    /// Tells it something, and waits until it is done.
    pub(crate) async fn ask(&mut self, order: Order, patience: Duration) -> Result<(), BoxError> {
        let what = format!("{order:?}");
        let id = self.tell(order).await?;
        let running = self.running.as_mut().ok_or("it does not run")?;
        let answer = async {
            loop {
                let line = running.replies.next_line().await?.ok_or("it ended before it answered")?;
                let reply: Reply = serde_json::from_str(&line)?;
                if reply.id == id {
                    return reply.error.map_or(Ok(()), |error| Err(BoxError::from(error)));
                }
            }
        };
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("instance {} did not answer {what} within {patience:?}", self.number).into()),
        }
    }

    /// SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<(), BoxError> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if let Some(status) = running.child.try_wait()? {
            self.ended_by_itself(running.life, status);
            return Ok(());
        }
        Ok(running.child.kill().await?)
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), BoxError> {
        let pid = self.running.as_ref().and_then(|running| running.child.id()).ok_or("it does not run")?;
        let pid = Pid::from_raw(pid as i32).ok_or("it has no process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops it in an orderly way, and in the other when that takes too long.
    pub(crate) async fn stop(&mut self) -> Result<(), BoxError> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        drop(running.stdin);
        let stopped = match tokio::time::timeout(STOP_TIMEOUT, running.child.wait()).await {
            Ok(status) => status?,
            Err(_) => {
                running.child.kill().await?;
                return Err(format!("{} did not stop within {STOP_TIMEOUT:?} and was killed", running.life).into());
            }
        };
        if stopped.success() {
            return Ok(());
        }
        // One that ran out of time says so with a code of its own; a panic or a signal is another matter.
        if stopped.code() != Some(STOPPED_LATE) {
            self.ended_by_itself(running.life, stopped);
        }
        let said = last_words(&self.launch.folder, running.life);
        Err(format!("{} did not stop in an orderly way ({stopped}): {said}", running.life).into())
    }

    /// Starts it again if it has ended by itself, which is a trouble.
    pub(crate) async fn check(&mut self) -> Result<(), BoxError> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some(status) = running.child.try_wait()? else { return Ok(()) };
        let life = running.life;
        self.ended_by_itself(life, status);
        self.running = None;
        self.start().await?;
        self.tell(Order::Write(true)).await.map(drop)
    }

    fn ended_by_itself(&self, life: Life, status: std::process::ExitStatus) {
        let said = last_words(&self.launch.folder, life);
        trouble(&self.troubles, format!("{life} ended by itself ({status}): {said}"));
    }

    /// How often it was started.
    pub(crate) fn lives(&self) -> u32 {
        self.lives
    }
}

fn errors_path(folder: &Path, life: Life) -> PathBuf {
    folder.join(format!("{life}.log"))
}

/// The last lines that a life said.
fn last_words(folder: &Path, life: Life) -> String {
    let said = std::fs::read_to_string(errors_path(folder, life)).unwrap_or_else(|error| error.to_string());
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; ")
}
