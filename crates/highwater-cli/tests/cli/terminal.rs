//! The program in a terminal that is none: `script` from util-linux makes one.

use std::process::Stdio;
use std::time::Duration;

use highwater::{EventBus, FailurePolicy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};

use crate::support::{Fixed, Kind, PATIENCE, Place, Ran, coordinated, on_each_backend, picky, say};

/// The program in a terminal of its own.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    seen: String,
}

impl Terminal {
    pub fn start<K: Kind>(place: &Place<K>, arguments: &str, environment: &[(&str, &str)]) -> Self {
        let line = format!("stty cols 150 rows 20; exec {} {arguments}", env!("CARGO_BIN_EXE_highwater"));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
        for (name, value) in place.command(&[]).as_std().get_envs() {
            value.map(|value| command.env(name, value));
        }
        command.env("TERM", "xterm").envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (keys, screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, keys, screen, seen: String::new() }
    }

    /// The program's own process, which is a child of what makes the terminal.
    pub fn pid(&self) -> u32 {
        let script = self.child.id().unwrap();
        let children = std::fs::read_to_string(format!("/proc/{script}/task/{script}/children")).unwrap();
        children.trim().parse().unwrap_or_else(|_| panic!("one child: {children:?}"))
    }

    /// Waits until something is on the screen.
    pub async fn shows(&mut self, text: &str) {
        let shown = self.shows_until(text, Instant::now() + PATIENCE).await;
        assert!(shown, "{text:?} is not shown in time: {:?}", self.seen);
    }

    async fn shows_until(&mut self, text: &str, deadline: Instant) -> bool {
        while !self.seen.contains(text) {
            let mut bytes = [0; 4_096];
            let Ok(read) = timeout_at(deadline, self.screen.read(&mut bytes)).await else { return false };
            let read = read.unwrap();
            assert!(read > 0, "it ends without showing {text:?}: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        true
    }

    pub async fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).await.unwrap();
        self.keys.flush().await.unwrap();
    }

    /// How it ended, with everything that was on the screen.
    pub async fn end(mut self) -> (i32, String) {
        let mut rest = Vec::new();
        tokio::time::timeout(PATIENCE, self.screen.read_to_end(&mut rest)).await.expect("it ends in time").unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        (Ran::of(self.child).await.code, self.seen)
    }
}

on_each_backend! {
    async fn on_a_terminal_it_asks_before_it_does_much_at_once<K>(place: Place<K>) {
        let (store, fixed) = (place.store().await, Fixed::default());
        let bus = EventBus::with_config(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &fixed).await;
        say(&store, "a", "bad").await;
        subscription.caught_up().await.unwrap();
        fixed.now();
        for (answer, code, said) in [("n\n", 1, "nothing was done"), ("\n", 1, "nothing was done"), ("y\n", 0, "1 dead letter replayed")] {
            let mut terminal = Terminal::start(&place, "dead-letters replay --all", &[]);
            terminal.shows("Replay 1 dead letter? [y/N] ").await;
            terminal.press(answer).await;
            let (ended, seen) = terminal.end().await;
            assert_eq!(ended, code, "{seen:?}");
            assert!(seen.contains(said), "{seen:?}");
        }
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn what_takes_long_shows_how_far_it_is<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let mut terminal = Terminal::start(&place, "append --stdin", &[]);
        let deadline = Instant::now() + PATIENCE;
        let mut lines = 0;
        loop {
            terminal.press("{\"stream\":\"order/17\",\"type\":\"Placed\"}\n").await;
            lines += 1;
            if terminal.shows_until("storing", Instant::now() + Duration::from_millis(20)).await {
                break;
            }
            assert!(Instant::now() < deadline, "nothing is shown in time: {:?}", terminal.seen);
        }
        terminal.press("\u{4}").await;
        let (code, seen) = terminal.end().await;
        assert_eq!(code, 0, "{seen:?}");
        assert!(seen.contains(&format!("{lines} events were stored, the last at {lines}")), "{seen:?}");
    }
}
