//! `highwater top`

mod frame;
pub(super) mod history;
pub(super) mod screen;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use highwater::EventStore;
use highwater::backend::{Backend, chain};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::history::History;
use self::screen::Screen;
use crate::arguments::Global;
use crate::failure::{Exit, Failure};

/// Keys that wait to be handled.
const KEYS_MAX: usize = 64;

/// Watch all subscribers, live
///
/// The same as `highwater status`, again and again, with rates and lags of the last minutes as small plots. q ends it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  highwater top --interval 0.5")]
pub(crate) struct Top {
    /// How often to look
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds".to_owned())?;
    if (0.1..=3_600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("it lies between 0.1 and 3600 seconds".to_owned())
    }
}

impl Top {
    pub(crate) async fn run(self, global: &Global) -> Result<(), Failure> {
        if global.json {
            return Err(Failure::usage("top draws on the terminal; `highwater status --json` is for programs"));
        }
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::refused("top needs a terminal; `highwater status` prints the same once"));
        }
        let place = global.target()?.to_string();
        let store = global.open().await?;
        self.on(&*store, &place).await
    }

    async fn on(&self, store: &dyn Backend, place: &str) -> Result<(), Failure> {
        // Fatal errors are reported before the screen is taken.
        let mut seen = Ok(store.overview().await?);
        let refused = |error: io::Error| Failure::refused(format!("cannot listen for signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
        let mut screen = Screen::open()?;
        let mut keys = keys();
        let mut history = History::default();
        let interval = Duration::from_secs_f64(self.interval);
        // A separate future, so that keys work also while the database does not answer.
        let look = async || {
            tokio::time::sleep(interval).await;
            store.overview().await.map_err(|error| chain(&error))
        };
        let mut looking = Box::pin(look());
        loop {
            if let Ok(overview) = &seen {
                history.add(overview);
            }
            screen.draw(|size, colour| frame::lines(place, &seen, &history, size, colour))?;
            loop {
                tokio::select! {
                    looked = &mut looking => {
                        seen = looked;
                        looking = Box::pin(look());
                        break;
                    }
                    key = keys.recv() => match key {
                        Some(Key::Quit) => return Ok(()),
                        Some(Key::Redraw) => {
                            screen.draw(|size, colour| frame::lines(place, &seen, &history, size, colour))?;
                        }
                        Some(Key::Interrupt) | None => return Err(Failure::silent(Exit::Interrupted)),
                    },
                    _ = interrupt.recv() => return Err(Failure::silent(Exit::Interrupted)),
                    _ = terminate.recv() => return Err(Failure::silent(Exit::Terminated)),
                }
            }
        }
    }
}

pub(super) enum Key {
    Quit,
    Interrupt,
    Redraw,
}

/// Keys, read on a dedicated thread since reading cannot be interrupted. It ends with the process.
pub(super) fn keys() -> mpsc::Receiver<Key> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = crossterm::event::read() {
            let Some(key) = meant(&event) else { continue };
            if sender.blocking_send(key).is_err() {
                break;
            }
        }
    });
    receiver
}

fn meant(event: &Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
            // In raw mode the terminal makes no signal of it.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Interrupt),
            KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
            _ => None,
        },
        _ => None,
    }
}
