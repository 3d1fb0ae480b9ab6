//! Commands and queries over HTTP: cargo run -p highwater-sqlite --example http
//!
//! A decision becomes a status, a refusal becomes `application/problem+json`, and an answer shows what the command has just stored.
//! The example is its own client: it sends the requests below over a free port, checks the answers, and stops in good order.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use highwater::prelude::*;
use highwater_sqlite::{SqliteEventBus, SqliteEventStore};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Serialize, Deserialize)]
enum Order {
    Placed { cents: i64 },
    Shipped,
}

#[derive(Default)]
struct OrderState {
    cents: Option<i64>,
    shipped: bool,
}
impl Evolve for OrderState {
    type Event = Order;
    fn evolve(&mut self, event: &Event<Order>) {
        match event.data {
            Order::Placed { cents } => self.cents = Some(cents),
            Order::Shipped => self.shipped = true,
        }
    }
}

/// Decisions: what happens, or which answer it is that it does not.
impl OrderState {
    fn place(&self, cents: i64) -> Result<Order, Problem> {
        match self.cents {
            _ if cents <= 0 => Err(problem(StatusCode::UNPROCESSABLE_ENTITY, "not-a-price", "it must cost something")),
            Some(_) => Err(problem(StatusCode::CONFLICT, "placed-already", "an order is placed once")),
            None => Ok(Order::Placed { cents }),
        }
    }
    fn ship(&self) -> Result<Order, Problem> {
        match (self.cents, self.shipped) {
            (None, _) => Err(problem(StatusCode::NOT_FOUND, "no-such-order", "it has to be placed first")),
            (_, true) => Err(problem(StatusCode::CONFLICT, "shipped-already", "an order is shipped once")),
            _ => Ok(Order::Shipped),
        }
    }
}

#[derive(Default)]
struct Revenue(i64);
impl Evolve for Revenue {
    type Event = Order;
    fn evolve(&mut self, event: &Event<Order>) {
        if let Order::Placed { cents } = event.data {
            self.0 += cents;
        }
    }
}

/// RFC 9457: the same form for every refusal.
struct Problem(StatusCode, &'static str, String);
fn problem(status: StatusCode, kind: &'static str, detail: impl ToString) -> Problem {
    Problem(status, kind, detail.to_string())
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(status, kind, detail) = self;
        let body = json!({ "type": format!("/problems/{kind}"), "title": status.canonical_reason(), "status": status.as_u16(), "detail": detail });
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body.to_string()).into_response()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match &error {
            Error::Conflict { .. } => problem(StatusCode::CONFLICT, "changed-meanwhile", error),
            Error::Invalid(_) => problem(StatusCode::UNPROCESSABLE_ENTITY, "invalid", error),
            // The client sends the same request again: what was stored after all is refused then, and nothing is done twice.
            _ if error.is_retryable() => problem(StatusCode::SERVICE_UNAVAILABLE, "try-again", error),
            _ => problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", error),
        }
    }
}

impl From<ExecuteError<Problem>> for Problem {
    fn from(error: ExecuteError<Problem>) -> Self {
        match error {
            ExecuteError::Rejected(problem) => problem,
            ExecuteError::Store(error) => error.into(),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        problem(rejection.status(), "not-understood", rejection)
    }
}

#[derive(Clone)]
struct Shop {
    store: SqliteEventStore,
    bus: SqliteEventBus,
    revenue: LiveView<Revenue>,
}

async fn place(
    State(shop): State<Shop>,
    Path(order): Path<String>,
    body: Result<Json<BTreeMap<String, i64>>, JsonRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let cents = body?.get("cents").copied().unwrap_or_default();
    let done = shop.store.execute(stream_id("order", &order), |state: &OrderState| state.place(cents)).await?;
    let done = done.expect("placing an order is an event");
    // The view answers once this very order is in it.
    let revenue = shop.revenue.read_after(&done, |revenue| revenue.0).await?;
    Ok((StatusCode::CREATED, Json(json!({ "version": done.stream_version, "revenue": revenue }))))
}

/// With `If-Match` the order must be as the client has seen it, without as it was a moment ago. The loser of a race gets 409.
async fn ship(State(shop): State<Shop>, Path(order): Path<String>, headers: HeaderMap) -> Result<Json<Value>, Problem> {
    let order = stream_id("order", &order);
    let loaded = shop.store.load::<OrderState>(order).await?;
    let seen = headers.get(header::IF_MATCH).and_then(|seen| seen.to_str().ok()?.trim_matches('"').parse().ok());
    let expected = seen.map_or(loaded.expected(), ExpectedVersion::Exact);
    let done = shop.store.append(&Append::to(order).expecting(expected).event(loaded.state.ship()?)).await?;
    Ok(Json(json!({ "version": done.stream_version })))
}

async fn health(State(shop): State<Shop>) -> (StatusCode, Json<Vec<String>>) {
    let health = shop.bus.health().await;
    let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health.problems.iter().map(ToString::to_string).collect()))
}

/// A client for one request: the status, the type of the answer, and the answer.
async fn send(to: SocketAddr, request: &str, more: &str, body: &str) -> Result<(u16, bool, Value), BoxError> {
    let mut stream = TcpStream::connect(to).await?;
    let head =
        format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n{more}");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("that is no answer")?;
    println!("{request}: {} {body}", &head[9..12]);
    Ok((head[9..12].parse()?, head.contains("application/problem+json"), serde_json::from_str(body)?))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = std::env::temp_dir().join(format!("highwater-http-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let store = SqliteEventStore::open(&format!("sqlite:{}", folder.join("shop.db").display())).await?;
    store.initialize().await?;
    let bus = SqliteEventBus::new(store.clone());
    let shop = Shop { store, bus: bus.clone(), revenue: bus.live_view()? };
    let app = Router::new()
        .route("/orders/{order}", post(place))
        .route("/orders/{order}/shipment", post(ship))
        .route("/health", get(health))
        .with_state(shop);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    // A service waits for SIGTERM here; see the example `service` of highwater-postgres.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serve = axum::serve(listener, app).with_graceful_shutdown(async { drop(stopped.await) });
    let server = tokio::spawn(serve.into_future());

    let place = |body| send(address, "POST /orders/17", "", body);
    let ship = |more| send(address, "POST /orders/17/shipment", more, "");
    assert_eq!(ship("").await?.0, 404);
    assert_eq!(place("{").await?.0, 400);
    let free = place(r#"{"cents": 0}"#).await?;
    assert_eq!((free.0, free.1, &free.2["type"]), (422, true, &json!("/problems/not-a-price")));
    assert_eq!(place(r#"{"cents": 1299}"#).await?, (201, false, json!({ "version": 1, "revenue": 1299 })));
    assert_eq!(place(r#"{"cents": 1299}"#).await?.2["title"], "Conflict");
    assert_eq!(ship("If-Match: \"7\"\r\n").await?.2["type"], "/problems/changed-meanwhile");
    assert_eq!(ship("If-Match: \"1\"\r\n").await?, (200, false, json!({ "version": 2 })));
    assert_eq!(send(address, "GET /health", "", "").await?, (200, false, json!([])));

    // Requests under way are answered, and then subscribers and views stop.
    stop.send(()).map_err(|()| "the server has stopped by itself")?;
    server.await??;
    bus.shutdown().await?;
    Ok(std::fs::remove_dir_all(&folder)?)
}
