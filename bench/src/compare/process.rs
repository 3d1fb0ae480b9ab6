//! A contestant's process, and what it is asked.

use std::process::Stdio;
use std::time::Duration;

use driver::{Answer, Ask, Delivered, now_micros};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use super::entrants::Entrant;
use crate::{Error, child};

/// How long an answer may take besides what was asked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long laying out and filling may take.
const FILLING: Duration = Duration::from_secs(300);

/// A process that is gone when this is dropped.
pub(super) struct Process {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    process: tokio::process::Child,
}

impl Process {
    pub(super) fn start(entrant: &Entrant, url: &str) -> Result<Self, Error> {
        // What a library says there is no part of the report; what goes wrong comes as an answer.
        let (process, input, output) = child::spawn(entrant.command(url)?, Stdio::null())?;
        Ok(Self { input, output, process })
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&mut self, ask: Ask) -> Result<Answer, Error> {
        let longest = match &ask {
            Ask::Append { warm_up, seconds, .. } | Ask::Load { warm_up, seconds, .. } => {
                Duration::from_secs_f64(warm_up + seconds) + PATIENCE
            }
            Ask::Send { seconds, .. } | Ask::Write { seconds, .. } => Duration::from_secs_f64(*seconds) + PATIENCE,
            Ask::CatchUp { warm_up, seconds, .. } => Duration::from_secs_f64(warm_up + seconds) + PATIENCE,
            Ask::Prepare | Ask::Fill { .. } => FILLING,
            Ask::Follow { .. } | Ask::Delivered | Ask::Unfollow => PATIENCE,
        };
        let answer: Answer = self.say(&ask, longest).await?;
        match answer.error {
            Some(error) => Err(error.into()),
            None => Ok(answer),
        }
    }

    /// What its subscriber was handed since this was asked last.
    pub(super) async fn delivered(&mut self) -> Result<Delivered, Error> {
        let delivered: Delivered = self.say(&Ask::Delivered, PATIENCE).await?;
        match delivered.error {
            Some(error) => Err(format!("its subscriber has ended: {error}").into()),
            None => Ok(delivered),
        }
    }

    /// SIGKILL. Returns the time just before.
    pub(super) async fn kill(mut self) -> Result<i64, Error> {
        let at = now_micros();
        self.process.kill().await?;
        Ok(at)
    }

    /// Lets it end by itself, with its connections, so that it is in nobody's way.
    pub(super) async fn end(mut self) -> Result<(), Error> {
        drop(self.input);
        if tokio::time::timeout(Duration::from_secs(10), self.process.wait()).await.is_err() {
            self.process.kill().await?;
        }
        Ok(())
    }

    async fn say<T: DeserializeOwned>(&mut self, ask: &Ask, longest: Duration) -> Result<T, Error> {
        let mut line = serde_json::to_vec(ask)?;
        line.push(b'\n');
        self.input.write_all(&line).await.map_err(|error| format!("it does not listen any more: {error}"))?;
        let answer = tokio::time::timeout(longest, self.output.next_line()).await;
        let answer = answer.map_err(|_| format!("no answer within {} s", longest.as_secs()))??;
        Ok(serde_json::from_str(&answer.ok_or("its process has ended")?)?)
    }
}
