//! UmaDB: a server of its own, which gathers the appends of its clients; and its client.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use driver::{About, Appending, Delivery, Error, Placed, Recent, Settings, Sink, Store, locked_version};
use futures::StreamExt as _;
use umadb_client::{AsyncUmaDbClient, UmaDbClient};
use umadb_dcb::{DcbAppendCondition, DcbEvent, DcbEventStoreAsync as _, DcbQuery, DcbQueryItem, TrackingInfo};
use uuid::Uuid;

const LOCK: &str = include_str!("../Cargo.lock");
const EVENT_TYPE: &str = "Placed";
/// Events between two positions that are tracked.
const TRACKED_EVERY: usize = 1_000;
/// As much as PostgreSQL has for its shared buffers, in megabytes.
const PAGE_CACHE: &str = "1024";

struct UmaDb {
    settings: Settings,
    clients: Vec<AsyncUmaDbClient>,
    /// Whose turn it is.
    next: AtomicUsize,
    recent: Recent,
}

impl Store for UmaDb {
    fn about() -> About {
        About {
            name: "UmaDB".to_owned(),
            versions: ["umadb", "umadb-client"].map(|package| locked_version(LOCK, package)).join(", "),
            page: "docs.rs/crate/umadb-client/0.7.8, \"Usage\"; umadb.io".to_owned(),
            documented: "its server as it starts by itself, one client; a decision reads the events of its stream first, and appends on \
                         condition that there are no others"
                .to_owned(),
            fastest: Some(
                "a page cache of 1 GB; an append on condition that there are no others after the position that the caller knows, \
                 without reading before; the best of several numbers of clients in one process"
                    .to_owned(),
            ),
            pools: vec![1, 4, 16],
            deliveries: BTreeMap::from([
                (
                    Delivery::Batched,
                    "its subscription pushes; the position is tracked in its server after 1,000 events; a crash of the server \
                     undoes nothing of it, and events after the last position come again"
                        .to_owned(),
                ),
                (
                    Delivery::Each,
                    "its subscription pushes; the position is tracked in its server after each event; a crash of the server \
                     undoes nothing"
                        .to_owned(),
                ),
            ]),
            no_failover: Some("nothing keeps two subscribers apart".to_owned()),
            server: true,
            notes: [
                "It is no library on PostgreSQL but a database: no transaction of an application's can be part of an append, and \
                 G cannot slow its commits down.",
                "Its data is on the same disk, in a file of its own, and its commits wait for that disk.",
            ]
            .map(str::to_owned)
            .to_vec(),
            objection: "Its conditions are queries over any tags and types, a stronger promise than the version of a stream; and its \
                        server shares two cores with its clients here, where it would have a machine of its own."
                .to_owned(),
            ..About::default()
        }
    }

    async fn prepare(_url: &str, _settings: &Settings) -> Result<(), Error> {
        // Its server has made its file.
        Ok(())
    }

    async fn open(url: &str, settings: Settings) -> Result<Self, Error> {
        let mut clients = Vec::new();
        for _ in 0..settings.pool(1) {
            clients.push(UmaDbClient::new(url.to_owned()).connect_async().await?);
        }
        Ok(Self { settings, clients, next: AtomicUsize::new(0), recent: Recent::default() })
    }

    async fn append(&self, Appending { stream, version, events }: Appending) -> Result<u64, Error> {
        let (client, boundary) = (self.client(), of(stream));
        let after = match (self.settings.is_fastest(), version) {
            (true, 0) => None,
            (true, _) => Some(self.recent.get(stream).ok_or("nobody here has appended to that stream")?),
            (false, _) => {
                let (known, head) = client.read_with_head(Some(boundary.clone()), None, false, None).await?;
                if known.len() as u64 != version {
                    return Err("the stream has another version".into());
                }
                head
            }
        };
        let condition = DcbAppendCondition { fail_if_events_match: boundary, after };
        let event = |placed: &Placed| {
            let event = DcbEvent::default().event_type(EVENT_TYPE).tags([tag(stream)]).uuid(Uuid::new_v4());
            Ok::<_, Error>(event.data(serde_json::to_vec(placed)?))
        };
        let events = events.iter().map(event).collect::<Result<Vec<_>, _>>()?;
        self.recent.put(stream, client.append(events, Some(condition), None).await?);
        Ok(1)
    }

    async fn load(&self, stream: Uuid) -> Result<usize, Error> {
        let (events, _) = self.client().read_with_head(Some(of(stream)), None, false, None).await?;
        let orders = events.iter().map(|found| serde_json::from_slice::<Placed>(&found.event.data));
        Ok(orders.collect::<Result<Vec<_>, _>>()?.len())
    }

    async fn follow(&self, id: &str, delivery: Delivery, sink: Arc<Sink>) -> Result<(), Error> {
        tokio::select! {
            followed = self.deliver(id, delivery, &sink) => followed,
            () = sink.stopped() => Ok(()),
        }
    }
}

impl UmaDb {
    fn client(&self) -> &AsyncUmaDbClient {
        &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()]
    }

    async fn deliver(&self, id: &str, delivery: Delivery, sink: &Sink) -> Result<(), Error> {
        let every = if delivery == Delivery::Each { 1 } else { TRACKED_EVERY };
        let (client, source) = (self.client(), id.to_owned());
        let mut events = client.subscribe(None, client.get_tracking_info(id).await?).await?;
        let mut untracked = 0;
        while let Some(found) = events.next().await {
            let found = found?;
            sink.handle(&serde_json::from_slice(&found.event.data)?, Some(found.position));
            untracked += 1;
            if untracked == every {
                let at = TrackingInfo { source: source.clone(), position: found.position };
                client.append(Vec::new(), None, Some(at)).await?;
                untracked = 0;
            }
        }
        Err("its server has ended the subscription".into())
    }
}

fn tag(stream: Uuid) -> String {
    format!("order:{stream}")
}

fn of(stream: Uuid) -> DcbQuery {
    DcbQuery::new().item(DcbQueryItem::new().types([EVENT_TYPE]).tags([tag(stream)]))
}

/// Is its server, as its own program would be, until this process ends.
fn serve(folder: &str, address: &str, settings: &str) -> Result<(), Error> {
    let settings: Settings = serde_json::from_str(settings)?;
    let mut args = vec!["umadb", "--listen", address, "--db-path", folder];
    if settings.is_fastest() {
        args.extend(["--page-cache-max-mb", PAGE_CACHE]);
    }
    let said = |error: Box<dyn std::error::Error>| error.to_string();
    umadb::start_server_with_cli_options(umadb::parse_cli_options(args).map_err(said)?).map_err(said)?;
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [server, folder, address, settings] if server == "server" => {
            serve(folder, address, settings).map(|()| ExitCode::SUCCESS)
        }
        _ => tokio::runtime::Runtime::new()
            .map(|runtime| runtime.block_on(driver::run_with::<UmaDb>(&args)))
            .map_err(Error::from),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
