//! What an instance is told, a line each, and what it answers.

use std::io::{self, BufRead as _};

use highwater::BoxError;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Job;

/// Commands that may wait: who gives them waits for the answer, so there are never many.
const WAITING_MAX: usize = 16;

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Command {
    /// By which its answer is known.
    pub id: u64,
    /// What.
    pub order: Order,
}

/// What an instance can be told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// To write, or to stop writing: then it answers when nothing is under way any more.
    Write(bool),
    /// To subscribe one of [`ROLES`](crate::cast::ROLES).
    Subscribe(usize),
    /// To unsubscribe it.
    Unsubscribe(usize),
    /// To answer when it has subscribed to everything.
    Joined,
}

/// What came of a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    /// The command.
    pub id: u64,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// The commands as they come.
pub(super) type Heard = mpsc::Receiver<Command>;

/// Reads the job, and then commands until the other end is gone. On a thread: the runtime would wait for a read that has
/// not ended.
pub(super) fn listen() -> Result<(Job, Heard), BoxError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let job =
        serde_json::from_str(&line).map_err(|error| format!("this is for `chaos`, and not for people ({error})"))?;
    let (sender, heard) = mpsc::channel(WAITING_MAX);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(command) = line.map_err(BoxError::from).and_then(|line| Ok(serde_json::from_str(&line)?)) else {
                eprintln!("a command could not be read; no more are listened to");
                return;
            };
            if sender.blocking_send(command).is_err() {
                return;
            }
        }
    });
    Ok((job, heard))
}
