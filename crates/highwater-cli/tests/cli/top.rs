//! `top`, in a terminal.

use highwater::{EventBus, FailurePolicy};
use throwaway_postgres::send_signal;

use crate::support::{Fixed, Kind, Place, Postgres, coordinated, on_each_backend, picky, say};
use crate::terminal::Terminal;

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

on_each_backend! {
    async fn top_shows_subscribers_live_and_gives_the_screen_back<K>(place: Place<K>) {
        let store = place.store().await;
        let bus = EventBus::with_config(store.clone(), coordinated());
        picky(&bus, FailurePolicy::DeadLetter, &Fixed::default()).await;
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

        let mut terminal = Terminal::start(&place, "top", &[]);
        terminal.shows("no subscribers yet").await;
        send_signal(terminal.pid(), "TERM").unwrap();
        let (code, seen) = terminal.end().await;
        assert_eq!((code, seen.matches(LEAVE).count()), (143, 1), "{seen:?}");
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
