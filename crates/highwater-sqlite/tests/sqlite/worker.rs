//! Other processes: the test's own program started once more, so that it can be killed, frozen and kept from writing.
//!
//! Test and worker talk over pipes, a line at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater_sqlite::{SqliteConfig, SqliteEventStore};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::support::{Folder, eventually, sequences};
use crate::{backup, crashes, full, leadership, opening, processes, torn, writing};

/// Tells the program that it is a worker, and what to do.
const WORKER: &str = "HIGHWATER_TEST_WORKER";
/// What a worker says begins with this; the rest is the test runner's.
const SAYS: &str = "> ";

/// What a worker does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Task {
    /// Appends once for every line it is told.
    Step,
    /// Appends as fast as it can, with a projection running, until it is killed.
    Rush,
    /// Opens the database and says how that went.
    Open,
    /// Lays the database out and appends once.
    Initialize,
    /// Appends so many events.
    Write { count: usize },
    /// Says what a subscriber of that name is handed.
    Listen { name: String },
    /// Shares the work with others.
    Lead { name: String, idle: usize, bound: Duration },
    /// Tries to lead, once, and says how that went.
    TryToLead,
    /// Holds the database's lock until it is told to release it.
    Hold,
    /// Fills the disk.
    Fill,
    /// Backs the database up, in its current folder.
    BackUp,
}

/// A worker that is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub database: String,
    pub task: Task,
}

impl Job {
    pub fn on(folder: &Folder, task: Task) -> Self {
        Self::at(&folder.database(), task)
    }

    pub fn at(database: &Path, task: Task) -> Self {
        Self { database: database.to_str().unwrap().to_owned(), task }
    }

    pub fn start(&self) -> Worker {
        self.start_as(&mut Command::new(std::env::current_exe().unwrap()))
    }

    /// In a place of its own in the tree of mounts, after a shell command has made it so.
    pub fn start_after(&self, mounting: &str) -> Worker {
        let root = rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        command.arg(if root { "-m" } else { "-rm" }).args(["sh", "-ec", &format!("{mounting}\nexec \"$0\" \"$@\"")]);
        self.start_as(command.arg(std::env::current_exe().unwrap()))
    }

    /// With a command that runs what follows it.
    pub fn start_as(&self, command: &mut Command) -> Worker {
        let mut child = command
            .args(["--exact", "worker::a_worker_works_until_it_is_told_to_stop", "--nocapture"])
            .env(WORKER, serde_json::to_string(self).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, heard) = (child.stdin.take(), Arc::<Mutex<Vec<String>>>::default());
        let (stdout, hears) = (BufReader::new(child.stdout.take().unwrap()), heard.clone());
        let listener = std::thread::spawn(move || {
            for line in stdout.lines() {
                if let Some(said) = line.unwrap().strip_prefix(SAYS) {
                    hears.lock().unwrap().push(said.to_owned());
                }
            }
        });
        Worker { child, orders, heard, listener: Some(listener) }
    }

    pub async fn store(&self) -> SqliteEventStore {
        SqliteEventStore::open_with(&self.database, SqliteConfig::default()).await.unwrap()
    }

    async fn work(self) {
        let orders = orders();
        match self.task.clone() {
            Task::Step => torn::step(self.store().await, orders).await,
            Task::Rush => crashes::rush(self.store().await).await,
            Task::Open => opening::open(&self.database).await,
            Task::Initialize => opening::initialize(&self.database).await,
            Task::Write { count } => processes::write(self.store().await, count).await,
            Task::Listen { name } => processes::listen(self.store().await, &name, orders).await,
            Task::Lead { name, idle, bound } => leadership::lead(self.store().await, name, idle, bound, orders).await,
            Task::TryToLead => leadership::try_to_lead(self.store().await).await,
            Task::Hold => writing::hold(Path::new(&self.database), orders).await,
            Task::Fill => full::fill(&self.database).await,
            Task::BackUp => backup::back_up(&self.database).await,
        }
    }
}

/// What a worker is told. It ends when the test does.
pub type Orders = mpsc::Receiver<String>;

fn orders() -> Orders {
    let (sender, orders) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if sender.blocking_send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    orders
}

/// Said by a worker, in one piece.
pub fn report(text: impl std::fmt::Display) {
    println!("{SAYS}{text}");
}

/// A running worker. It is killed when it is dropped.
pub struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    heard: Arc<Mutex<Vec<String>>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// It is there, and does nothing any more.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    pub fn tell(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Everything it has said so far that begins with a word, without that.
    pub fn said(&self, word: &str) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter_map(|line| Some(line.strip_prefix(word)?.trim().to_owned())).collect()
    }

    /// Waits until it has said something that begins with a word so many times.
    pub async fn says(&self, word: &str, times: usize) -> Vec<String> {
        eventually(&format!("a worker says {word:?} {times} times"), async || self.said(word).len() >= times).await;
        self.said(word)
    }

    /// SIGKILL. Gives everything it had said that begins with a word.
    pub fn kill(mut self, word: &str) -> Vec<String> {
        self.child.kill().unwrap();
        assert!(self.child.wait().unwrap().code().is_none(), "it was killed, and did not end by itself");
        self.listener.take().unwrap().join().unwrap();
        self.said(word)
    }

    /// It ends in an orderly way: by itself, or because nobody tells it anything any more. What it has said can be heard
    /// afterwards.
    pub async fn end(mut self) -> Self {
        drop(self.orders.take());
        let mut status = None;
        eventually("a worker ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        assert!(
            status.unwrap().success(),
            "it did not end in an orderly way; it said {:?}",
            self.heard.lock().unwrap()
        );
        self.listener.take().unwrap().join().unwrap();
        self
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// By itself: a worker that is started, works and ends. With a job in the environment: that worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_until_it_is_told_to_stop() {
    if let Ok(job) = std::env::var(WORKER) {
        let runtime = tokio::spawn(serde_json::from_str::<Job>(&job).unwrap().work());
        return runtime.await.unwrap();
    }
    let folder = Folder::new();
    let store = folder.store().await;
    let mut worker = Job::on(&folder, Task::Step).start();
    worker.tell("append");
    let said = worker.says("ack", 1).await;
    worker.end().await;
    assert_eq!(sequences(&store).await.len(), said[0].split_whitespace().count());
}
