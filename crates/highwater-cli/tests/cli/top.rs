//! `top`, through a terminal that is none: `script` from util-linux makes one.

use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use highwater::{EventBus, FailurePolicy};

use crate::support::{Kind, Mended, PATIENCE, Place, Postgres, Ran, coordinated, on_each_backend, picky, say};

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// The program in a terminal of its own.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    seen: String,
}

impl Terminal {
    fn start<K: Kind>(place: &Place<K>, arguments: &str, environment: &[(&str, &str)]) -> Self {
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

    /// Waits until something is on the screen.
    async fn shows(&mut self, text: &str) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let mut bytes = [0; 4_096];
            let read = tokio::time::timeout_at(deadline, self.screen.read(&mut bytes)).await;
            let read = read.unwrap_or_else(|_| panic!("{text:?} is not shown in time: {:?}", self.seen)).unwrap();
            assert!(read > 0, "it ends without showing {text:?}: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    async fn press(&mut self, key: &str) {
        self.keys.write_all(key.as_bytes()).await.unwrap();
        self.keys.flush().await.unwrap();
    }

    /// How it ended, with everything that was on the screen.
    async fn end(mut self) -> (i32, String) {
        let mut rest = Vec::new();
        tokio::time::timeout(PATIENCE, self.screen.read_to_end(&mut rest)).await.expect("it ends in time").unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        (Ran::of(self.child).await.code, self.seen)
    }
}

on_each_backend! {
    async fn top_shows_subscribers_live_and_gives_the_screen_back<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::new(store.clone(), coordinated());
        picky(&bus, FailurePolicy::DeadLetter, &Mended::default()).await;
        let mut terminal = Terminal::start(&place, "top --interval 0.1", &[]);
        terminal.shows("projection:picky").await;
        say(&store, "a", "bad").await;
        terminal.shows("projection:picky: too bad").await;
        terminal.shows("█").await;
        terminal.press("q").await;
        let (code, seen) = terminal.end().await;
        assert_eq!(code, 0);
        assert!(seen.contains("\u{1b}[32mlive\u{1b}[0m"), "it is coloured: {seen:?}");
        assert_eq!((seen.matches(ENTER).count(), seen.matches(LEAVE).count()), (1, 1));
        assert!(seen.rfind(LEAVE) > seen.rfind("projection:picky"), "nothing is drawn after that");
        bus.shutdown().await.unwrap();
    }
}

on_each_backend! {
    async fn ctrl_c_and_a_signal_end_it_and_give_the_screen_back<K>(place: Place<K>) {
        place.run(&["init"]).await.fine();
        let mut terminal = Terminal::start(&place, "top", &[("NO_COLOR", "1")]);
        terminal.shows("no subscribers yet").await;
        terminal.press("\u{3}").await;
        let (code, seen) = terminal.end().await;
        assert_eq!((code, seen.matches(LEAVE).count()), (130, 1), "{seen:?}");
        assert!(!seen.contains("\u{1b}[1m"), "NO_COLOR is honoured: {seen:?}");
    }
}

#[tokio::test]
async fn without_a_terminal_it_says_so() {
    let place = Postgres::place();
    let refused = place.run(&["top"]).await.failed(1);
    assert_eq!(refused, "top needs a terminal; `highwater status` prints the same once");
    place.run(&["top", "--json"]).await.failed(2);
    assert_eq!(place.run(&["top", "--interval", "0"]).await.code, 2);
}

on_each_backend! {
    async fn on_a_terminal_it_asks_before_it_does_much_at_once<K>(place: Place<K>) {
        let (store, mended) = (place.store().await, Mended::default());
        let bus = EventBus::new(store.clone(), coordinated());
        let subscription = picky(&bus, FailurePolicy::DeadLetter, &mended).await;
        say(&store, "a", "bad").await;
        subscription.caught_up().await.unwrap();
        mended.now();
        for (answer, code, said) in [("n\n", 1, "nothing was done"), ("\n", 1, "nothing was done"), ("y\n", 0, "1 letter replayed")] {
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
