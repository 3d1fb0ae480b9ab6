//! Locks that vanish under a session: no server does this, but it is not believed that none ever does.

use highwater::ProjectorCoordinator;
use std::sync::{Arc, Mutex};

use highwater::{Claim, Coordinator};
use highwater_postgres::PgEventStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::coordinated;
use crate::support::{Db, eventually};

/// The end of what a server says, when it waits for the next statement.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// Stands between, and has a statement of its own done on the connection for leadership, unseen by the client.
struct Meddler {
    port: u16,
    statement: Arc<Mutex<Option<&'static str>>>,
}

impl Meddler {
    async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let meddler = Self { port: listener.local_addr().unwrap().port(), statement: Arc::default() };
        let statement = meddler.statement.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(serve(client, server, statement.clone()));
            }
        });
        meddler
    }
}

async fn serve(client: TcpStream, server: TcpStream, statement: Arc<Mutex<Option<&'static str>>>) {
    let mut first = vec![0; 4096];
    let read = client.peek(&mut first).await.unwrap();
    let leads = first[..read].windows(6).any(|window| window == b" lead\0");
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let to_server = Arc::new(tokio::sync::Mutex::new(to_server));
    let requests = to_server.clone();
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            if requests.lock().await.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
        requests.lock().await.shutdown().await.ok();
    });
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
        let is_ready = buffer[..read].ends_with(READY);
        let meddle = if leads && is_ready { statement.lock().unwrap().take() } else { None };
        if let Some(statement) = meddle {
            // Before the client hears that the server is ready, so nothing of its own is under way.
            let length = u32::try_from(statement.len() + 5).unwrap().to_be_bytes();
            let message = [b"Q", &length[..], statement.as_bytes(), b"\0"].concat();
            to_server.lock().await.write_all(&message).await.unwrap();
            let (mut answer, mut answered) = (vec![0; 64 * 1024], 0);
            while !answer[..answered].ends_with(READY) {
                answered += from_server.read(&mut answer[answered..]).await.unwrap();
            }
        }
        if to_client.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_lost_a_lock_is_given_up_as_a_whole() {
    let db = Db::new();
    db.store().await;
    let port = db.url.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap();
    let meddler = Meddler::before(port).await;
    // In plain text, so that the meddler can read along.
    let url = db.url.replace(&format!(":{port}"), &format!(":{}", meddler.port)) + "?sslmode=disable";
    let store = PgEventStore::connect_with(&url, db.config()).await.unwrap();
    let coordinator = Coordinator::with_config(&store, &coordinated().coordination);
    let (one, other) = (Claim::of("report:nightly"), Claim::of("report:weekly"));
    let guards = [coordinator.acquire(&one).await.unwrap(), coordinator.acquire(&other).await.unwrap()];
    let lost = [guards[0].lost(), guards[1].lost()];
    *meddler.statement.lock().unwrap() = Some("SELECT pg_advisory_unlock_all()");
    let [first, second] = lost;
    tokio::time::timeout(std::time::Duration::from_secs(10), async { tokio::join!(first, second) }).await.unwrap();
    assert!(!guards[0].is_held() && !guards[1].is_held());
    // And then everything is as it was.
    drop(guards);
    eventually("it leads again", async || coordinator.try_acquire(&one).await.is_ok_and(|guard| guard.is_some())).await;
}
