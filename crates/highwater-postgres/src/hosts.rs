//! The servers that may be the primary, and which of them is, as far as is known.

mod doubts;
mod url;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use highwater::backend::chain;
use highwater::{Error, Invalid};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgPool};
use tokio::sync::watch as channel;

use doubts::Doubts;
pub(crate) use url::{FORM, parse};
pub(crate) use watch::Watch;

/// What PostgreSQL keeps of a name.
const NAME_BYTES_MAX: usize = 63;

/// Shared by everything that connects to the same place. Clones share everything.
#[derive(Clone)]
pub(crate) struct Hosts {
    known: Arc<Known>,
}

struct Known {
    all: Vec<PgConnectOptions>,
    /// Which of them was the primary at the last look.
    primary: AtomicUsize,
    /// The pools that follow the primary, with what their connections are for.
    pools: OnceLock<Vec<(PgPool, &'static str)>>,
    doubts: Doubts,
    moved: channel::Sender<()>,
}

impl Hosts {
    pub(crate) fn new(all: Vec<PgConnectOptions>) -> Result<Self, Error> {
        if all.is_empty() {
            return Err(Invalid::Setting { name: "hosts", reason: "there must be at least one".to_owned() }.into());
        }
        let all = all.into_iter().map(|options| options.disable_statement_logging()).collect();
        let known = Known {
            all,
            primary: AtomicUsize::new(0),
            pools: OnceLock::new(),
            doubts: Doubts::default(),
            moved: channel::Sender::new(()),
        };
        Ok(Self { known: Arc::new(known) })
    }

    /// With a single one there is no choice, and whatever answers there is worked with as far as it goes.
    pub(crate) fn are_several(&self) -> bool {
        self.known.all.len() > 1
    }

    /// The one that was the primary first, then the others.
    pub(crate) fn in_turn(&self) -> impl ExactSizeIterator<Item = usize> + use<> {
        let (first, count) = (self.primary(), self.known.all.len());
        (0..count).map(move |n| (first + n) % count)
    }

    pub(crate) fn primary(&self) -> usize {
        self.known.primary.load(Ordering::Acquire)
    }

    /// How to connect to one of them, under a name that says what for.
    pub(crate) fn options(&self, host: usize, purpose: Option<&str>) -> PgConnectOptions {
        let options = &self.known.all[host];
        let name = named(options.get_application_name().unwrap_or("highwater"), purpose);
        options.clone().application_name(&name)
    }

    /// From now on these pools connect to wherever the primary is.
    pub(crate) fn lead(&self, pools: Vec<(PgPool, &'static str)>) {
        debug_assert!(self.known.pools.get().is_none(), "pools are made once");
        self.known.pools.get_or_init(|| pools);
        self.direct_pools();
    }

    /// One of them was just found to be the primary.
    pub(crate) fn found(&self, host: usize) {
        if self.known.primary.swap(host, Ordering::AcqRel) != host {
            tracing::info!(host = self.address(host), "this is the primary now");
            self.moved();
        }
    }

    /// The primary is another server than before, or in another life: what was opened before may lead elsewhere.
    pub(crate) fn moved(&self) {
        self.direct_pools();
        self.known.doubts.raise();
        self.known.moved.send_replace(());
    }

    fn direct_pools(&self) {
        let primary = self.primary();
        for (pool, purpose) in self.known.pools.get().into_iter().flatten() {
            pool.set_connect_options(self.options(primary, Some(purpose)));
        }
    }

    /// Tells when the primary has moved.
    pub(crate) fn watch_moves(&self) -> channel::Receiver<()> {
        self.known.moved.subscribe()
    }

    pub(crate) fn doubts(&self) -> &Doubts {
        &self.known.doubts
    }

    fn address(&self, host: usize) -> String {
        let options = &self.known.all[host];
        match options.get_socket() {
            Some(socket) => format!("{}:{}", socket.display(), options.get_port()),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        }
    }

    /// None is the primary: what was wrong with each.
    pub(crate) fn none(&self, mut wrong: Vec<(usize, Error)>) -> Error {
        if let [_] = wrong[..]
            && let Some((_, error)) = wrong.pop()
        {
            return error;
        }
        let said: Vec<String> =
            wrong.iter().map(|(host, error)| format!("{}: {}", self.address(*host), chain(error))).collect();
        let reason = said.join("; ");
        let any = |kind: fn(&Error) -> bool| wrong.iter().any(|(_, error)| kind(error));
        if any(|error| matches!(error, Error::NotPrimary { .. })) {
            Error::NotPrimary { reason }
        } else if any(|error| matches!(error, Error::Interrupted { .. })) {
            Error::Interrupted { reason }
        } else if any(|error| matches!(error, Error::Unfit { .. })) {
            Error::Unfit { reason }
        } else if wrong.iter().all(|(_, error)| matches!(error, Error::Denied { .. })) {
            Error::Denied { action: "connect to any host", source: reason.into() }
        } else {
            Error::Unavailable { action: "connect to any host", source: reason.into() }
        }
    }
}

/// The name of a connection: the application's, and what it is for. The application's is cut where both are too long.
fn named(name: &str, purpose: Option<&str>) -> String {
    let Some(purpose) = purpose else { return name.to_owned() };
    let room = NAME_BYTES_MAX.saturating_sub(purpose.len() + 1);
    format!("{} {purpose}", &name[..name.floor_char_boundary(room)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: u16) -> Hosts {
        let options = (1..=count).map(|n| PgConnectOptions::new_without_pgpass().host("h").port(n).password("hunter2"));
        Hosts::new(options.collect()).unwrap()
    }

    fn unavailable() -> Error {
        Error::Unavailable { action: "connect", source: "refused".into() }
    }

    fn replica() -> Error {
        Error::NotPrimary { reason: "a replica".to_owned() }
    }

    #[test]
    fn a_long_name_is_cut_and_what_the_connection_is_for_is_not() {
        assert_eq!(named("shop", Some("append")), "shop append");
        assert_eq!(named("shop", None), "shop");
        let long = named(&"x".repeat(100), Some("checkpoint"));
        assert_eq!((long.len(), long.ends_with("x checkpoint")), (63, true));
        // Each of these has two bytes, and the room left is odd.
        let long = named(&"ö".repeat(50), Some("deliver"));
        assert_eq!(long, format!("{} deliver", "ö".repeat(27)));
        assert_eq!(named(&"x".repeat(63), Some("read")).len(), 63);
    }

    #[test]
    fn the_known_primary_is_tried_first_and_all_others_after_it() {
        let hosts = hosts(3);
        assert_eq!(hosts.in_turn().collect::<Vec<_>>(), [0, 1, 2]);
        hosts.found(1);
        assert_eq!(hosts.in_turn().collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn only_another_primary_is_a_move() {
        let hosts = hosts(2);
        let mut moves = hosts.watch_moves();
        hosts.found(0);
        assert!(!moves.has_changed().unwrap());
        hosts.found(1);
        assert!(moves.has_changed().unwrap());
        moves.mark_unchanged();
        hosts.found(1);
        assert!(!moves.has_changed().unwrap());
    }

    #[test]
    fn every_host_is_named_with_what_was_wrong_and_without_its_password() {
        let hosts = hosts(2);
        let error = hosts.none(vec![(0, unavailable()), (1, replica())]);
        assert!(matches!(error, Error::NotPrimary { .. }), "{error:?}");
        let said = chain(&error);
        assert!(said.contains("h:1: unavailable: cannot connect: refused; h:2: not the primary: a replica"), "{said}");
        assert!(!format!("{said}{error:?}").contains("hunter2"));
        let error = hosts.none(vec![(0, unavailable()), (1, unavailable())]);
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(chain(&error).contains("h:2: unavailable"));
    }

    #[test]
    fn what_a_single_host_says_is_left_as_it_is() {
        let error = hosts(1).none(vec![(0, replica())]);
        assert!(matches!(error, Error::NotPrimary { reason } if reason == "a replica"));
    }

    #[test]
    fn there_must_be_a_host() {
        assert!(matches!(Hosts::new(Vec::new()), Err(Error::Invalid(_))));
    }
}
