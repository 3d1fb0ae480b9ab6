//! A proxy before the servers, which can be slow, or lose what it was given.

use std::io;
use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use highwater::backend::lock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Error;
use super::link::Condition;

/// At most so much is carried at once.
const CHUNK_MAX: usize = 16 * 1024;

/// How many chunks are under way on one connection in one direction; who sends more waits.
const UNDER_WAY_MAX: usize = 256;

/// After a refusal of the operating system, which may be short of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on a port of its own for each server. All connections are gone after drop.
///
/// What is lost is lost as a network loses it: it comes when the loss is over, since TCP sends it again.
#[derive(Debug)]
pub(super) struct Proxy {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    ports: Vec<u16>,
    condition: watch::Sender<Condition>,
}

impl Proxy {
    pub(super) fn new(host: Ipv4Addr, servers: &[u16]) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("proxy").enable_all().build();
        let runtime = runtime.map_err(Error::io("start a proxy"))?;
        let condition = watch::Sender::new(Condition::Whole);
        let mut ports = Vec::new();
        for server in servers {
            let (listener, port) = listen(&runtime, host).map_err(Error::io(format!("listen on {host}")))?;
            ports.push(port);
            runtime.spawn(serve(listener, *server, Ways::new(&condition)));
        }
        Ok(Self { runtime: Some(runtime), ports, condition })
    }

    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    pub(super) fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Does not wait, and therefore may happen anywhere.
            runtime.shutdown_background();
        }
    }
}

fn listen(runtime: &Runtime, host: Ipv4Addr) -> io::Result<(TcpListener, u16)> {
    let listener = StdListener::bind((host, 0))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let _inside = runtime.enter();
    Ok((TcpListener::from_std(listener)?, port))
}

async fn serve(listener: TcpListener, server: u16, ways: Ways) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                tokio::spawn(connect(client, server, ways.clone()));
            }
            Err(error) => {
                tracing::warn!(error = %error, "a proxy cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Carries everything between a client and a server, for as long as either says anything.
async fn connect(client: TcpStream, server: u16, Ways { mut requests, answers }: Ways) {
    sleep_until(requests.due()).await;
    requests.until_open().await;
    // A server that does not listen: the client is turned away.
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else {
        return;
    };
    for stream in [&client, &server] {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "a connection ended at once");
        }
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::join!(carry(from_client, to_server, requests), carry(from_server, to_client, answers));
}

/// One direction of one connection. An end or an error at one side is passed on as an end, like everything else.
async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, way: Way) {
    let (queue, under_way) = mpsc::channel(UNDER_WAY_MAX);
    tokio::join!(receive(from, queue, way.clone()), deliver(under_way, to, way));
}

async fn receive(mut from: OwnedReadHalf, queue: mpsc::Sender<(Instant, Vec<u8>)>, way: Way) {
    let mut chunk = vec![0; CHUNK_MAX];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if queue.send((way.due(), chunk[..read].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn deliver(mut under_way: mpsc::Receiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf, mut way: Way) {
    while let Some((due, chunk)) = under_way.recv().await {
        sleep_until(due).await;
        way.until_room_for(chunk.len()).await;
        way.until_open().await;
        if to.write_all(&chunk).await.is_err() {
            return;
        }
    }
    way.until_open().await;
    if let Err(error) = to.shutdown().await {
        tracing::trace!(error = %error, "the other side was faster");
    }
}

/// Both directions.
#[derive(Clone)]
struct Ways {
    requests: Way,
    answers: Way,
}

impl Ways {
    fn new(condition: &watch::Sender<Condition>) -> Self {
        let way =
            |is_lost| Way { condition: condition.subscribe(), is_lost, free_at: Arc::new(Mutex::new(Instant::now())) };
        Self { requests: way(Condition::loses_requests), answers: way(Condition::loses_answers) }
    }
}

/// One direction, of all connections to one server.
#[derive(Clone)]
struct Way {
    condition: watch::Receiver<Condition>,
    is_lost: fn(Condition) -> bool,
    /// When there is room for more.
    free_at: Arc<Mutex<Instant>>,
}

impl Way {
    /// When something that arrives now is to be delivered.
    fn due(&self) -> Instant {
        match *self.condition.borrow() {
            Condition::Delayed { millis } => Instant::now() + Duration::from_millis(millis),
            _ => Instant::now(),
        }
    }

    async fn until_room_for(&self, bytes: usize) {
        let Condition::Throttled { kbit } = *self.condition.borrow() else {
            return;
        };
        let takes = Duration::from_millis(bytes as u64 * 8 / kbit.max(1));
        let until = {
            let mut free_at = lock(&self.free_at);
            *free_at = Instant::now().max(*free_at) + takes;
            *free_at
        };
        sleep_until(until).await;
    }

    /// Waits until nothing is lost; without a proxy nothing is.
    async fn until_open(&mut self) {
        let is_lost = self.is_lost;
        if self.condition.wait_for(|condition| !is_lost(*condition)).await.is_err() {
            tracing::trace!("the proxy is gone");
        }
    }
}
