//! A contestant's process.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::measure::{Window, append, fill, load, send, write};
use crate::{Answer, Ask, Delivered, Delivery, Error, Settings, Sink, Store};

/// How long a follower may take to end before it is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// What `main` of a contestant calls.
pub async fn run<S: Store>() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    run_with::<S>(&args).await
}

/// The same with other arguments than those of the process.
pub async fn run_with<S: Store>(args: &[String]) -> ExitCode {
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["about"] => say(&S::about()).await,
        ["serve", url, settings] => match serde_json::from_str(settings) {
            Ok(settings) => serve::<S>(url, settings).await,
            Err(error) => Err(format!("{settings} are no settings: {error}").into()),
        },
        _ => Err("usage: about | serve URL SETTINGS".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn say(what: &impl serde::Serialize) -> Result<(), Error> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut output = tokio::io::stdout();
    output.write_all(&line).await?;
    Ok(output.flush().await?)
}

async fn serve<S: Store>(url: &str, settings: Settings) -> Result<(), Error> {
    let mut contestant = Contestant::<S> { url, settings, store: None, stream: None, following: None };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Ask::Delivered => say(&contestant.delivered().await).await?,
            ask => {
                let failed = |error: Error| Answer { error: Some(error.to_string()), ..Answer::default() };
                say(&contestant.answer(ask).await.unwrap_or_else(failed)).await?;
            }
        }
    }
    Ok(())
}

type Following = (Arc<Sink>, JoinHandle<Result<(), Error>>);

struct Contestant<'a, S> {
    url: &'a str,
    settings: Settings,
    /// Opened when it is first needed: there may be nothing to open before.
    store: Option<Arc<S>>,
    /// The stream that is loaded, and how many events it has.
    stream: Option<(usize, Uuid)>,
    following: Option<Following>,
}

impl<S: Store> Contestant<'_, S> {
    async fn store(&mut self) -> Result<Arc<S>, Error> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => Ok(self.store.insert(Arc::new(S::open(self.url, self.settings.clone()).await?)).clone()),
        }
    }

    async fn answer(&mut self, ask: Ask) -> Result<Answer, Error> {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).map_err(Error::from);
        match ask {
            Ask::Prepare => S::prepare(self.url, &self.settings).await.map(|()| Answer::default()),
            Ask::Append { callers, events, warm_up, seconds: s } => {
                let store = self.store().await?;
                append(&store, callers, events, Window::after(seconds(warm_up)?, seconds(s)?)).await
            }
            Ask::Fill { streams, events, callers } => fill(&self.store().await?, streams, events, callers).await,
            Ask::Load { events, warm_up, seconds: s } => {
                load(&self.store().await?, &mut self.stream, events, seconds(warm_up)?, seconds(s)?).await
            }
            Ask::CatchUp { id, delivery, events, warm_up, seconds: s } => {
                let store = self.store().await?;
                catch_up(&store, &id, delivery, events, Window::after(seconds(warm_up)?, seconds(s)?)).await
            }
            Ask::Follow { id, delivery } => {
                self.unfollow().await?;
                let (store, sink) = (self.store().await?, Arc::new(Sink::keeping()));
                let handed = sink.clone();
                let task = tokio::spawn(async move { store.follow(&id, delivery, handed).await });
                self.following = Some((sink, task));
                Ok(Answer::default())
            }
            Ask::Unfollow => self.unfollow().await.map(|()| Answer::default()),
            Ask::Send { rate, seconds: s } => send(&self.store().await?, rate, seconds(s)?).await,
            Ask::Write { writers, events, seconds: s } => {
                write(&self.store().await?, writers, events, seconds(s)?).await
            }
            Ask::Delivered => Err("that has an answer of its own".into()),
        }
    }

    async fn delivered(&mut self) -> Delivered {
        let Some((sink, task)) = &mut self.following else {
            return Delivered { error: Some("nothing is followed".to_owned()), events: Vec::new() };
        };
        let error = match task.is_finished() {
            true => Some(match task.await {
                Ok(Ok(())) => "the subscriber has ended".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            }),
            false => None,
        };
        let events = sink.take();
        if error.is_some() {
            self.following = None;
        }
        Delivered { error, events }
    }

    async fn unfollow(&mut self) -> Result<(), Error> {
        match self.following.take() {
            Some((sink, task)) => end(&sink, task).await,
            None => Ok(()),
        }
    }
}

/// Lets a follower end by itself, if it does.
async fn end(sink: &Sink, mut task: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    sink.stop();
    match tokio::time::timeout(PATIENCE, &mut task).await {
        Ok(ended) => ended?,
        Err(_) => {
            task.abort();
            Ok(())
        }
    }
}

/// One new subscriber after the other, until the time is over. What they are handed counts, and the time from the start of
/// each until it had everything; how long one takes to end does not.
async fn catch_up<S: Store>(
    store: &Arc<S>,
    id: &str,
    delivery: Delivery,
    events: usize,
    window: Window,
) -> Result<Answer, Error> {
    let (from, to) = window.bounds();
    let mut answer = Answer::default();
    for number in 0.. {
        if window.is_over() {
            break;
        }
        let (sink, store, id) = (Arc::new(Sink::counting(events)), store.clone(), format!("{id}-{number}"));
        let (handed, mut began, mut before) = (sink.clone(), Instant::now(), 0);
        let mut task = tokio::spawn(async move { store.follow(&id, delivery, handed).await });
        loop {
            let until = if Instant::now() < from { from } else { to };
            tokio::select! {
                () = sink.reached() => break,
                () = tokio::time::sleep_until(until.into()) => {}
                ended = &mut task => {
                    ended??;
                    return Err(format!("the subscriber has ended after {} of {events} events", sink.count()).into());
                }
            }
            if until == to {
                break;
            }
            // What was handed over while it warmed up does not count.
            (began, before) = (Instant::now(), sink.count());
        }
        if began >= from {
            answer.events += (sink.count() - before) as u64;
            answer.seconds += began.elapsed().as_secs_f64();
        }
        end(&sink, task).await?;
    }
    Ok(answer)
}
