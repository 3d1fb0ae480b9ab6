//! A leader whose host is gone: nothing says goodbye.

use std::process::Command;
use std::time::{Duration, Instant};

use highwater::{GlobalSequence, ReliableDeliveryConfig};
use highwater_postgres::{PgConfig, PgEventBus, PgEventStore};
use throwaway_postgres::ThrowawayPostgres;

use super::processes::{Load, assert_nothing_lost, caught_up, effects};
use super::worker::{COUNTED, Job};
use super::{coordinated, coordinated_in_batches, leader};
use crate::bus::handlers::{Counting, counted, nothing};
use crate::bus::say;
use crate::proxy::Proxy;
use crate::support::{Db, eventually, sequences};

/// A network namespace that is connected to this one by a link of two addresses. All of it goes when it is dropped.
struct Namespace {
    name: String,
    outside: String,
}

fn ip(args: &str) -> bool {
    Command::new("ip").args(args.split(' ')).output().is_ok_and(|output| output.status.success())
}

impl Namespace {
    /// None where this is not permitted.
    fn new() -> Option<Self> {
        let n = std::process::id() % 16_000;
        let (name, net) = (format!("hw{n}"), format!("10.{}.{}", 64 + n / 256, n % 256));
        let namespace = Self { name: name.clone(), outside: format!("{net}.1") };
        if !ip(&format!("netns add {name}")) {
            // Nothing was made, so nothing is to be removed.
            std::mem::forget(namespace);
            return None;
        }
        let steps = [
            format!("link add {name}o type veth peer name {name}i"),
            format!("link set {name}i netns {name}"),
            format!("addr add {net}.1/24 dev {name}o"),
            format!("link set {name}o up"),
            format!("-n {name} addr add {net}.2/24 dev {name}i"),
            format!("-n {name} link set {name}i up"),
            format!("-n {name} link set lo up"),
        ];
        steps.iter().all(|step| ip(step)).then_some(namespace)
    }

    fn run(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// No packet comes through any more, and nobody is told.
    fn cut(&self) {
        assert!(ip(&format!("link set {}o down", self.name)));
    }

    fn repair(&self) {
        assert!(ip(&format!("link set {}o up", self.name)));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("link del {}o", self.name));
        ip(&format!("netns del {}", self.name));
    }
}

/// A way to the server that can be cut.
enum Way {
    Namespace(Namespace),
    Proxy(Proxy),
}

impl Way {
    fn cut(&self) {
        match self {
            Self::Namespace(namespace) => namespace.cut(),
            Self::Proxy(proxy) => proxy.silence(true),
        }
    }

    fn repair(&self) {
        match self {
            Self::Namespace(namespace) => namespace.repair(),
            Self::Proxy(proxy) => proxy.silence(false),
        }
    }
}

/// Whether there are two instances, so that one can follow the other.
async fn stands_by(db: &Db) -> bool {
    let mut connection = db.connection().await;
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM event_bus_instances").fetch_one(&mut connection).await.unwrap();
    count == 2
}

async fn is_followed(way: Way, server: &ThrowawayPostgres) {
    let db = Db::on(server.url());
    let store = Job::prepare(&db).await;
    let mut job = Job::new(&db, "cut off");
    let program = std::env::current_exe().unwrap();
    let cut_off = match &way {
        Way::Namespace(namespace) => {
            job.url = db.url.replace("127.0.0.1", &namespace.outside);
            job.start_as(&mut namespace.run(&program))
        }
        Way::Proxy(proxy) => {
            job.url = db.url.replace(&server.port().to_string(), &proxy.port().to_string());
            job.start()
        }
    };
    caught_up(&store).await;
    let before = leader(&store, COUNTED).await.unwrap();
    let other = Job::new(&db, "other").start();
    eventually("the other is there", async || stands_by(&db).await).await;
    let since = Instant::now();
    way.cut();
    let followed = async || leader(&store, COUNTED).await.is_some_and(|now| now.term > before.term);
    eventually("another leads", followed).await;
    let bound = Duration::from_millis(job.bound_ms);
    eprintln!("followed after {:?}, the bound is {bound:?}", since.elapsed());
    assert!(since.elapsed() < 3 * bound, "within the bound, give or take what this machine has to do");
    for n in 0..10 {
        say(&store, &n.to_string()).await;
    }
    caught_up(&store).await;
    let after = leader(&store, COUNTED).await.unwrap();
    assert_eq!(after.instance.pid, other.pid());
    assert!(after.term > before.term);
    // It has stopped by itself: what it was at when it was cut off is the last it did.
    way.repair();
    let effects_before: i64 = effects(&db).await.values().sum();
    caught_up(&store).await;
    assert_eq!(effects(&db).await.values().sum::<i64>(), effects_before + 1, "only the leader has an effect");
    assert_eq!(leader(&store, COUNTED).await.unwrap().instance.pid, other.pid());
    // And it stands by.
    other.kill();
    caught_up(&store).await;
    assert_eq!(leader(&store, COUNTED).await.unwrap().instance.id, before.instance.id);
    eventually("it is still there", async || effects(&db).await.len() == crate::support::sequences(&store).await.len())
        .await;
    assert_nothing_lost(&db, &store, 40).await;
    drop(cut_off);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_host_is_lost_is_followed() {
    let Some(namespace) = Namespace::new() else {
        // Not permitted here; the other way to be cut off is tested below.
        eprintln!("network namespaces are not permitted here");
        return silent().await;
    };
    let addresses = format!("127.0.0.1,{}", namespace.outside);
    let server = ThrowawayPostgres::builder().setting("listen_addresses", &addresses).start().unwrap();
    let hba = server.data_dir().join("pg_hba.conf");
    let rules = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("{rules}\nhost all all {}/24 trust\n", namespace.outside)).unwrap();
    throwaway_postgres::send_signal(server.pid().unwrap(), "HUP").unwrap();
    is_followed(Way::Namespace(namespace), &server).await;
}

async fn silent() {
    let server = ThrowawayPostgres::start().unwrap();
    let proxy = Proxy::to("127.0.0.1".to_owned(), server.port()).await;
    is_followed(Way::Proxy(proxy), &server).await;
}

/// As when a firewall forgets them: no answer, no error, and new ones work.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_connections_are_forgotten_stands_by_and_leads_again() {
    let server = ThrowawayPostgres::start().unwrap();
    let db = Db::on(server.url());
    db.store().await;
    let proxy = Proxy::to("127.0.0.1".to_owned(), server.port()).await;
    let by_proxy = db.url.replace(&server.port().to_string(), &proxy.port().to_string());
    let impatient = || PgConfig { connect_timeout: Duration::from_secs(1), ..db.config() };
    let store = PgEventStore::connect_with(&by_proxy, impatient()).await.unwrap();
    let forgotten = PgEventBus::with_config(store, coordinated_in_batches(5));
    let other = PgEventBus::with_config(db.store().await, coordinated_in_batches(5));
    // Both handlers write to the same table.
    let first = forgotten.subscribe(Counting::new(&db, COUNTED, coordinated(), nothing()).await).await.unwrap();
    eventually("it leads", async || first.state().is_live()).await;
    let second = other.subscribe(Counting::new(&db, COUNTED, coordinated(), nothing()).await).await.unwrap();
    let load = Load::on(other.store());
    eventually("it does something", async || counted(&db).await.len() > 20).await;
    proxy.abandon();
    eventually("the other leads", async || second.state().term().is_some()).await;
    eventually("it stands by", async || first.state().is_standby()).await;
    load.end().await;
    other.shutdown().await.unwrap();
    let store = db.store().await;
    let at = say(&store, "the end").await;
    // A read that was under way is given up after 30 seconds.
    let patient = ReliableDeliveryConfig { wait_timeout: Duration::from_secs(60), ..coordinated() };
    PgEventBus::with_config(store.clone(), patient).wait_for(COUNTED, GlobalSequence(at)).await.unwrap();
    assert!(first.state().term().is_some(), "it leads again");
    let all: Vec<i64> = sequences(&store).await.into_iter().map(|at| at as i64).collect();
    assert_eq!(counted(&db).await, all, "every event counts once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_connections_fall_silent_is_followed() {
    silent().await;
}
