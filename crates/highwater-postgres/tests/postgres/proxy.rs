//! A connection that can be cut where it hurts.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Stands between a store and the server.
pub struct Proxy {
    port: u16,
    target: Arc<Mutex<(String, u16)>>,
    lose_answers: Arc<AtomicBool>,
    refused: Arc<Mutex<String>>,
    freezing: Arc<Mutex<(String, String)>>,
    frozen: Arc<AtomicUsize>,
    /// Of the connections that are opened now.
    silent: Arc<Mutex<watch::Sender<bool>>>,
}

impl Proxy {
    pub async fn to(host: String, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let target = Arc::new(Mutex::new((host, port)));
        let proxy = Self {
            port: own_port,
            target,
            lose_answers: Arc::default(),
            refused: Arc::default(),
            freezing: Arc::default(),
            frozen: Arc::default(),
            silent: Arc::default(),
        };
        let (lose_answers, refused) = (proxy.lose_answers.clone(), proxy.refused.clone());
        let (target, silent) = (proxy.target.clone(), proxy.silent.clone());
        let (freezing, frozen) = (proxy.freezing.clone(), proxy.frozen.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !is_welcome(&client, &refused).await {
                    continue;
                }
                let (host, port) = target.lock().unwrap().clone();
                let server = TcpStream::connect((host.as_str(), port)).await.unwrap();
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                let silent = silent.lock().unwrap().clone();
                let freezing = (freezing.clone(), frozen.clone());
                tokio::spawn(forward(from_client, to_server, freezing, silent.subscribe()));
                tokio::spawn(answers(from_server, to_client, lose_answers.clone(), silent.subscribe()));
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on new connections lead to another port; those that are open stay where they are.
    pub fn redirect(&self, port: u16) {
        self.target.lock().unwrap().1 = port;
    }

    /// From now on nothing comes through, in either direction, and nobody is told; what was held back comes when it ends.
    pub fn silence(&self, silent: bool) {
        self.silent.lock().unwrap().send_replace(silent);
    }

    /// Nothing ever comes through the connections that are open now, and nobody is told. New ones are not concerned.
    pub fn abandon(&self) {
        let abandoned = std::mem::take(&mut *self.silent.lock().unwrap());
        abandoned.send_replace(true);
        // For as long as the test runs.
        std::mem::forget(abandoned);
    }

    /// From now on connections whose application name ends so are turned away; none with "".
    pub fn refuse(&self, name: &str) {
        *self.refused.lock().unwrap() = name.to_owned();
    }

    /// From now on a connection whose application name ends so gets no answer to a message with this text, nor to anything
    /// else; none with "".
    pub fn freeze_at(&self, name: &str, text: &str) {
        *self.freezing.lock().unwrap() = (format!("{name}\0"), text.to_owned());
    }

    /// How many connections that has concerned.
    pub fn frozen(&self) -> usize {
        self.frozen.load(Ordering::SeqCst)
    }

    /// From now on the server gets every request, but its first answer never arrives: the connection breaks instead.
    pub fn lose_answers(&self, lose: bool) {
        self.lose_answers.store(lose, Ordering::SeqCst);
    }
}

/// The application's name stands in the first message, in plain text.
async fn is_welcome(client: &TcpStream, refused: &Mutex<String>) -> bool {
    let mut first = vec![0; 4096];
    let read = client.peek(&mut first).await.unwrap_or(0);
    let refused = refused.lock().unwrap();
    refused.is_empty() || !contains(&first[..read], &format!("{refused}\0"))
}

/// Waits until nothing is held back. With the end of the proxy nothing is.
async fn unless(silent: &mut watch::Receiver<bool>) {
    drop(silent.wait_for(|silent| !silent).await);
}

fn contains(bytes: &[u8], text: &str) -> bool {
    !text.is_empty() && bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (freezing, frozen): (Arc<Mutex<(String, String)>>, Arc<AtomicUsize>),
    mut silent: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut first = Vec::new();
    // Ends with either side.
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        // It may ask for TLS before.
        if !contains(&first, "application_name") {
            first.extend_from_slice(&buffer[..read]);
        }
        let freezes = {
            let (name, text) = &*freezing.lock().unwrap();
            contains(&first, name) && contains(&buffer[..read], text)
        };
        if freezes {
            frozen.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        unless(&mut silent).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    unless(&mut silent).await;
    to.shutdown().await.ok();
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    lose: Arc<AtomicBool>,
    mut silent: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        unless(&mut silent).await;
        if lose.load(Ordering::SeqCst) || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    unless(&mut silent).await;
}
